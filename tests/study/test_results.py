"""Results: nothing is lost between a job and its tables, and nothing counts twice."""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from study import results
from tests.study.small import WHERE, measured

LOSSES = [2.30259, 0.0833333, 1.5e-7]
ASKED = {
    **{"dataset": "digits", "betas": [1.0, 0.1], "epochs": 2, "hidden": [50, 20]},
    **{"learning_rate": 1 / 3, "device": "cpu"},
}

Job = tuple[dict[str, Any], list[dict[str, Any]]]
"""What a page hands over: what is said of the job, and its runs."""


def job(seed: int = 0, **changes: Any) -> Job:
    """A job of two runs, with everything that a training of images may leave."""
    runs = []
    for label, beta, accuracy in (("1", 1.0, 0.9), ("0.1", 0.1, 0.8)):
        run = measured(accuracy)
        run["curves"] |= {"train_epoch": [0, 2], "train_accuracy": [0.1, accuracy]}
        run["curves"] |= {"test_cross_entropy": LOSSES, "train_cross_entropy": [2.3, 0.1]}
        known = {"schedule": label, "beta": beta, "warmup_epochs": 0.0, "temperature": 1.0}
        runs.append(known | {"seed": seed} | run)
    return {"experiment": "mnist", **ASKED, "seeds": [seed], **WHERE, **changes}, runs


def followed() -> Job:
    """A job of the page that follows single samples, and draws features."""
    about, runs = job()
    for run in runs:
        run["curves"] |= {"train_epoch": [0, 1, 2], "train_accuracy": [0.1, 0.5, 0.9]}
        run["curves"]["train_cross_entropy"] = LOSSES
        run["group_confidence"] = [[0.1, 0.2, 0.3], [0.1, 0.5, 0.6]]
        run |= {"never_learnt": 0.25, "points": {"x": [0.5], "y": [-1.25], "label": [3]}}
    return about, runs


def diverged() -> Job:
    """A job with a run of which some numbers are not finite."""
    about, runs = job()
    runs[0]["diverged"] = True
    runs[0]["metrics"]["test_cross_entropy"] = math.nan
    runs[0]["curves"]["test_cross_entropy"] = [2.3, math.nan, math.inf]
    return about, runs


def folds() -> Job:
    """A cross-validation, whose data have several copies."""
    about = {"experiment": "tables", "datasets": ["uci/iris"], "loss": "softmax", "epochs": 2}
    about |= {"seeds": [0], **WHERE, "data_copy": {"uci/iris": "sha256 1"}}
    run = {"dataset": "uci/iris", "title": "Iris", "classes": 3, "seed": 0}
    run |= {"metrics": {"test_accuracy": 0.9, "train_accuracy": 1.0, "diverged_folds": 0}}
    curves = {"epoch": [0, 2], "test_accuracy": [0.3, 0.9], "train_accuracy": [0.3, 1.0]}
    return about, [run | {"curves": curves}]


def put(folder: Path, name: str, **jobs: Job) -> dict[str, Path]:
    """Write the files of jobs, as the jobs do."""
    place = folder / results.BUILD / name
    return {one: results.write(place / f"{one}.json", *jobs[one]) for one in jobs}


def collect(folder: Path, name: str = "small", **jobs: Job) -> Path:
    results.collect(name, put(folder, name, **jobs), folder / "results")
    return folder / "results"


def written(folder: Path, name: str = "small") -> dict[str, Any]:
    """What the tables have, job by job, in the form of the files of jobs."""
    frames = {
        "job": pd.read_csv(folder / "jobs" / f"{name}.csv", dtype="str", keep_default_na=False),
        "runs": pd.read_csv(folder / f"{name}.csv", dtype="str", keep_default_na=False),
        **{table: getattr(results, table)(name, folder) for table in results.LONG},
    }
    found: dict[str, Any] = {}
    for job_id in frames["job"]["job"]:
        own = {table: frame[frame["job"] == job_id] for table, frame in frames.items()}
        found[job_id] = content({table: rows.to_dict("records") for table, rows in own.items()})
    return found


def content(tables: dict[str, Any]) -> dict[str, Any]:
    """Values of rows without their order, without what is empty or no number, and as JSON."""
    found = {}
    for table, rows in tables.items():
        rows = [rows] if isinstance(rows, dict) else rows
        said = [
            {
                name: float(f"{value:.6g}") if table in results.LONG else value  # as measured
                for name, cell in row.items()
                if name != "job" and (value := _value(name, cell)) is not None
            }
            for row in rows
        ]
        found[table] = sorted(said, key=lambda row: json.dumps(row, sort_keys=True))
    return found


def _value(name: str, cell: Any) -> Any:
    if isinstance(cell, str) and cell not in ("", "NaN"):
        texts = ("schedule", "loss", "torch", "numpy", "name", "time", "title")
        read = cell if name in texts else cell if cell[0].isalpha() else json.loads(cell)
        return {"true": True, "false": False}.get(read, read) if read is cell else read
    missing = cell in ("", "NaN", None) or (isinstance(cell, float) and math.isnan(cell))
    return None if missing else cell


def as_file(folder: Path, one: Job) -> dict[str, Any]:
    """What the file of a job has."""
    return content(results.load(results.write(folder / "alone" / "one.json", *one)))


# -- nothing is lost -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [job, followed, diverged, folds])
def test_what_a_job_measured_comes_back_from_the_tables(
    tmp_path: Path, make: Callable[[], Job]
) -> None:
    folder = collect(tmp_path, a=make())
    assert written(folder) == {"a": as_file(tmp_path, make())}


def test_the_rows_of_a_file_are_what_was_measured(tmp_path: Path) -> None:
    found = results.load(results.write(tmp_path / "a.json", *job()))
    about, (first, second) = job()
    assert found["job"] == about | {"runs": 2}
    assert [run["test_accuracy"] for run in found["runs"]] == [0.9, 0.8]
    assert [row["test_cross_entropy"] for row in found["curves"]] == 2 * LOSSES
    assert [row.get("train_accuracy") for row in found["curves"][3:]] == [0.1, None, 0.8]
    assert first["curves"]["epoch"] == second["curves"]["epoch"] == [0, 1, 2]


def test_what_is_no_number_is_told_from_what_was_not_measured(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=diverged())
    cells = pd.read_csv(folder / "small.csv", dtype="str", keep_default_na=False)
    assert cells["test_cross_entropy"].tolist() == ["NaN", ""]
    assert results.read("small", folder)["diverged"].tolist() == [True, False]
    text = (tmp_path / "results" / "jobs" / "small.csv").read_text()
    assert "Infinity" not in text + (folder / "small.csv").read_text()


def test_six_digits_of_a_number_of_any_size(tmp_path: Path) -> None:
    about, runs = job()
    for run, loss in zip(runs, (1.23456789e-37, 9.87654321e37), strict=True):
        run["curves"]["test_cross_entropy"] = [0.1, loss, 1.23457]
        run["curves"]["test_margin_bias"] = [-0.0, -1.23457e-30, 9.99999e37]
    folder = collect(tmp_path, a=(about, runs))
    assert written(folder) == {"a": as_file(tmp_path, (about, runs))}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"more": [1.0, 2.0]}, "more of a run is a list, which the tables have no place for"),
        ({"test_accuracy": 0.5}, "test_accuracy stands in a run and in its metrics"),
        ({"more": object()}, "cannot hold a object"),
    ],
)
def test_what_has_no_place_is_refused_before_a_file_is_there(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    about, (first, second) = job()
    with pytest.raises((ValueError, TypeError), match=message):
        results.write(tmp_path / "a.json", about, [first, second | changes])
    assert not list(tmp_path.iterdir())


# -- the file of a job -----------------------------------------------------------------------------


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, limits[1]))
    try:
        with pytest.raises(OSError, match=r"a\.json"):
            results.write(path, *job())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(path.parent.iterdir())
    results.write(path, *job())
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00", b"[1, 2]", b'{"job": {"runs": 1}', b"[" * 100_000, b'"text"', b"{}"],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(results.Unfit, match=r"broken\.json is damaged .*run it|its job again"):
        results.load(path)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('"runs": 2', '"runs": 3', "it has 2 runs, not 3"),
        ('"test_accuracy": 0.8', '"test_accuracy": 97', "a share that is not between 0 and 1"),
        ('"test_accuracy": 0.8', '"test_accuracy": -0.1', "a share that is not between 0 and 1"),
        ('"test_accuracy": 0.8', '"test_accuracy": NaN', "a share that is not between 0 and 1"),
        ('"test_accuracy": 0.8', '"test_accuracy": "0.8"', "TypeError"),
        ('"train_accuracy": 0.1', '"train_accuracy": 97', "a share that is not between 0 and 1"),
    ],
)
def test_a_file_with_what_no_training_leaves(
    tmp_path: Path, before: str, after: str, reason: str
) -> None:
    path = results.write(tmp_path / "a.json", *job())
    text = path.read_text()
    assert before in text
    path.write_text(after.join(text.rsplit(before, 1)))
    with pytest.raises(results.Unfit, match=f"a.json is damaged .*{reason}.*its job again"):
        results.load(path)


# -- what is read ----------------------------------------------------------------------------------


def test_a_row_for_each_run_with_the_parameters_of_its_job(tmp_path: Path) -> None:
    folder = collect(tmp_path, b=job(1), a=job(0))
    runs = results.read("small", folder)
    assert runs[["job", "run", "seed", "schedule"]].values.tolist() == [
        ["a", 0, 0, "1"],
        ["a", 1, 0, "0.1"],
        ["b", 0, 1, "1"],
        ["b", 1, 1, "0.1"],
    ]
    assert runs["beta"].tolist() == 2 * [1.0, 0.1]
    assert set(runs["hidden"]) == {(50, 20)}
    assert set(runs["learning_rate"]) == {1 / 3}, "what was asked for is kept exactly"
    assert (runs["diverged"].dtype, runs["seed"].dtype) == (bool, "int64")
    # what a job does not say has its default
    assert set(runs["model"]) == {"mlp"}
    assert (runs["subset"].dtype, runs["imbalance"].dtype) == ("int64", float)
    assert runs.columns[-1] == "numpy"
    assert not {"betas", "seeds"} & set(runs), "each run has one of them"
    runs["seed"] = 7
    assert set(results.read("small", folder)["seed"]) == {0, 1}, "it is the caller's own"


def test_curves_and_points(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=followed(), b=diverged())
    curves = results.curves("small", folder)
    losses = curves.loc[curves["job"] == "a", "test_cross_entropy"]
    assert losses.tolist() == pytest.approx(2 * LOSSES, rel=1e-7)
    trained = curves.loc[curves["job"] == "b", "train_accuracy"]
    assert trained.isna().tolist() == 2 * [False, True, False]
    second = curves["group_confidence_1"].dropna()
    assert second.tolist() == pytest.approx(2 * [0.1, 0.5, 0.6], rel=1e-7)
    assert results.points("small", folder)["label"].tolist() == [3, 3]
    assert results.points("other", collect(tmp_path, "other", a=job())).empty


def test_what_the_jobs_were_asked_for(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=job(), f=folds())
    found = results.jobs("small", folder)
    assert found["a"]["betas"] == (1.0, 0.1)
    assert found["a"]["learning_rate"] == 1 / 3
    assert found["f"]["datasets"] == ("uci/iris",)
    assert "betas" not in found["f"], "only what a job has"
    assert "hardware" not in found["a"], "but not where it ran"


def test_pandas_reads_the_tables_in_one_line(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=job())
    assert pd.read_csv(folder / "small.csv")["test_accuracy"].tolist() == [0.9, 0.8]
    assert pd.read_csv(folder / "jobs" / "small.csv")["learning_rate"].tolist() == [1 / 3]
    losses = pd.read_parquet(_long(folder, "curves"))["test_cross_entropy"]
    assert losses.tolist() == pytest.approx(2 * LOSSES, rel=1e-7)


def test_no_results(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=job())
    with pytest.raises(FileNotFoundError, match="no results of a campaign 'mnist'; .*: small"):
        results.read("mnist", folder)
    assert results.jobs("mnist", folder) == {}


# -- a damaged table -------------------------------------------------------------------------------


def _long(folder: Path, table: str) -> Path:
    return folder / table / "small.parquet"


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _without_its_last_line(path: Path) -> None:
    path.write_text("\n".join(path.read_text().split("\n")[:-2]) + "\n")


def _twice(path: Path) -> None:
    path.write_text(path.read_text() + path.read_text().split("\n")[-2] + "\n")


def _other(before: str, after: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))

    return change


RUNS = [
    ("small.csv", _cut, "its last line has no end"),
    ("small.csv", _without_its_last_line, "it has not the runs that the jobs name"),
    ("small.csv", _twice, "a row stands twice"),
    ("small.csv", _other("job,run", "run,run"), ""),
    ("small.csv", _other("\na,0", "\nb,0"), "it has not the runs"),
    ("small.csv", lambda path: path.write_bytes(b"\xff\n"), "decode"),
    ("small.csv", lambda path: path.write_bytes(b""), "its last line has no end"),
    ("jobs/small.csv", _cut, "its last line has no end"),
    ("jobs/small.csv", _other('"[50, 20]"', '"[50, 20"'), ""),
]


@pytest.mark.parametrize(("file", "damage", "reason"), RUNS)
def test_a_damaged_table_is_named(
    tmp_path: Path, file: str, damage: Callable[[Path], None], reason: str
) -> None:
    folder = collect(tmp_path, a=job())
    damage(folder / file)
    with pytest.raises(results.Unfit, match=rf"{file} is damaged \(.*{reason}.*git checkout"):
        results.read("small", folder)


def test_a_merge_that_is_not_finished_is_found(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=job())
    for path in (folder / "small.csv", folder / "jobs" / "small.csv"):
        path.write_text(path.read_text().replace("\na,", "\n<<<<<<< HEAD\na,", 1))
    with pytest.raises(results.Unfit, match=r"small\.csv is damaged"):
        results.read("small", folder)


def test_a_table_that_is_gone_is_named(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=job())
    (folder / "small.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"small\.csv"):
        results.read("small", folder)


@pytest.mark.parametrize("damage", [_cut, lambda path: path.write_bytes(b"PAR1")])
def test_a_damaged_long_table_is_named_and_nothing_is_added_to_it(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    folder = collect(tmp_path, a=job())
    damage(_long(folder, "curves"))
    with pytest.raises(results.Unfit, match=r"curves/small\.parquet is damaged .*git checkout"):
        results.curves("small", folder)
    files = put(tmp_path, "small", b=job(1))
    with pytest.raises(results.Unfit, match=r"curves/small\.parquet is damaged"):
        results.collect("small", files, folder)
    assert files["b"].is_file()


@pytest.mark.parametrize("file", ["small.csv", "jobs/small.csv"])
def test_nothing_is_added_to_a_damaged_table(tmp_path: Path, file: str) -> None:
    folder = collect(tmp_path, a=job())
    _cut(folder / file)
    before = contents(folder)
    files = put(tmp_path, "small", b=job(1))
    with pytest.raises(results.Unfit, match=f"{file} is damaged"):
        results.collect("small", files, folder)
    assert files["b"].is_file()
    assert contents(folder) == before


# -- what is added ---------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_files_of_jobs_become_rows_and_go(tmp_path: Path) -> None:
    files = put(tmp_path, "small", a=job(0), b=job(1))
    assert results.collect("small", files, tmp_path / "results") == ["a", "b"]
    assert not any(path.exists() for path in files.values())
    assert set(contents(tmp_path / "results")) == {
        *("small.csv", "jobs/small.csv", "curves/small.parquet")
    }
    assert results.collect("small", files, tmp_path / "results") == [], "they are gone"


def test_the_order_of_the_jobs_plays_no_part(tmp_path: Path) -> None:
    jobs = {"a": job(0), "b": followed(), "c": diverged(), "d": folds()}
    together = collect(tmp_path / "together", **jobs)
    for name in ("c", "a", "d", "b"):
        alone = collect(tmp_path / "alone", **{name: jobs[name]})
    assert contents(together) == contents(alone)


def test_a_row_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=job())
    before = (folder / "small.csv").read_text().split("\n")
    collect(tmp_path, b=job(1))
    assert (folder / "small.csv").read_text().split("\n")[:3] == before[:3]


def test_a_second_result_of_a_job_is_refused_or_replaces_the_first(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=job())
    files = put(tmp_path, "small", a=job(wall_seconds=9.0), b=job(1))
    with pytest.raises(results.Refused, match=r"small has a already; delete .*a\.json"):
        results.collect("small", files, folder)
    assert files["a"].is_file() and not files["b"].exists(), "the others are folded"
    assert written(folder)["a"] == as_file(tmp_path, job())
    results.collect("small", {"a": files["a"]}, folder, replaced={"a"})
    replaced = as_file(tmp_path, job(wall_seconds=9.0))
    assert written(folder) == {"a": replaced, "b": as_file(tmp_path, job(1))}


def test_a_damaged_file_is_refused_and_the_others_are_folded(tmp_path: Path) -> None:
    files = put(tmp_path, "small", b=job(1), c=job(2))
    files["b"].write_text(files["b"].read_text()[:-20])
    with pytest.raises(results.Refused, match=r"b\.json is damaged .*run its job again"):
        results.collect("small", files, tmp_path / "results")
    assert list(results.jobs("small", tmp_path / "results")) == ["c"]
    assert files["b"].exists() and not files["c"].exists()


@pytest.mark.parametrize("job_id", ["b", "a"])
@pytest.mark.parametrize("step", range(5))
def test_a_kill_between_any_two_files_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job_id: str, step: int
) -> None:
    folder = collect(tmp_path, a=job())
    new = job(1, wall_seconds=9.0)
    files = put(tmp_path, "small", **{job_id: new})
    replace, done = Path.replace, []

    def killed(self: Path, target: Path) -> Path:
        if folder in target.parents:
            if len(done) == step:
                raise KeyboardInterrupt
            done.append(target)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    try:
        results.collect("small", files, folder, replaced={"a"})
    except KeyboardInterrupt:
        assert files[job_id].is_file()
    else:
        assert len(done) == (3 if job_id == "b" else 4), "runs, jobs and curves"
    monkeypatch.undo()
    # the jobs that are listed are whole, as before or as after
    there = results.read("small", folder).reindex(columns=["job", "seed", "wall_seconds"])
    before_or_after = {("a", 0, 1.5), (job_id, 1, 9.0)}
    assert set(there.itertuples(index=False, name=None)) <= before_or_after
    results.collect("small", files, folder, replaced={"a"})
    assert not files[job_id].exists()
    anew = collect(tmp_path / "anew", **({"a": job()} | {job_id: new}))
    assert contents(folder) == contents(anew)


def test_a_full_disk_loses_nothing_and_the_file_is_named(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=job())
    files = put(tmp_path, "small", b=job(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, limits[1]))
    try:
        with pytest.raises(OSError, match=r"small\.(csv|parquet)"):
            results.collect("small", files, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert written(folder) == {"a": as_file(tmp_path, job())}
    assert not list(folder.rglob("*.partial"))
    results.collect("small", files, folder)
    assert set(results.jobs("small", folder)) == {"a", "b"}


def _collect_several(folder: Path, first: int, number: int) -> None:
    for seed in range(first, first + number):
        put(folder, "small", **{f"seed{seed}": job(seed)})
        place = folder / results.BUILD / "small"
        files = {path.stem: path for path in place.glob("*.json")}
        results.collect("small", files, folder / "results")


def test_two_commands_at_a_time_do_each_other_no_harm(tmp_path: Path) -> None:
    start = multiprocessing.get_context("spawn").Process
    both = [
        start(target=_collect_several, args=(tmp_path, first, 4), daemon=True)  # ends with this one
        for first in (0, 100)
    ]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    seeds = [*range(4), *range(100, 104)]
    alone = collect(tmp_path / "alone", **{f"seed{seed}": job(seed) for seed in seeds})
    assert contents(tmp_path / "results") == contents(alone)


# -- the results of the repository -----------------------------------------------------------------


@pytest.mark.parametrize("name", results.names())
def test_every_table_of_the_repository_is_read_and_has_rows_of_its_jobs_alone(name: str) -> None:
    runs = results.read(name)
    listed = set(results.jobs(name))
    assert set(pd.read_csv(results.FOLDER / f"{name}.csv")["job"]) == listed
    for table in results.LONG:
        rows = getattr(results, table)(name)
        assert set(rows["job"]) <= listed, table
        known = rows.merge(runs[["job", "run"]], on=["job", "run"])
        assert len(known) == len(rows), f"{table} has rows of no run"
    for share in ("test_accuracy", "train_accuracy", "test_ece", "test_confidence"):
        assert share not in runs or runs[share].dropna().between(0, 1).all(), share


def test_no_job_stands_twice_in_the_repository() -> None:
    where = ["wall_seconds", "time", "experiment", "seeds"]
    tables = [pd.read_csv(results.FOLDER / "jobs" / f"{name}.csv") for name in results.names()]
    every = pd.concat([table.reindex(columns=where) for table in tables])
    assert not every.duplicated().any()


def test_the_tables_are_small() -> None:
    files = [file for name in results.names() for file in results.stamps(name)]
    sizes = {path.as_posix(): size for path, _, size, _ in files}
    assert max(sizes.values()) < 1_000_000, max(sizes, key=lambda name: sizes[name])
    assert sum(sizes.values()) < 5_000_000
