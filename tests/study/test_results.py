"""Results: nothing is lost between a job and its tables, and nothing counts twice."""

from __future__ import annotations

import json
import multiprocessing
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from study import records, results
from study.records import Record, form
from study.records.form import FORMS
from tests.study.small import SAMPLES, measured

LOSSES = [2.30259, 0.0833333, 1.5e-7]


def record(seed: int = 0, **changes: Any) -> Record:
    """A record of two runs, with everything that a training of images may leave."""
    runs = []
    for label, beta, accuracy in (("1", 1.0, 0.9), ("0.1", 0.1, 0.8)):
        run = measured(accuracy)
        run["curves"] |= {"train_epoch": [0, 2], "train_accuracy": [0.1, accuracy]}
        run["curves"] |= {"test_cross_entropy": LOSSES, "train_cross_entropy": [2.3, 0.1]}
        run |= {"test_ece_interval": [0.01, 0.03], "class_accuracy": [0.5, 1.0]}
        run |= {"target_angle_epochs": [0, 2], "target_angle_counts": [[4, 6], [10, 0]]}
        known = {"schedule": label, "beta": beta, "warmup_epochs": 0.0, "temperature": 1.0}
        runs.append(known | {"seed": seed, "diverged": False} | run)
    values: dict[str, Any] = {
        "experiment": "train",
        "parameters": {
            "dataset": "digits",
            "betas": [1.0, 0.1],
            "seeds": [seed],
            "epochs": 2,
            "hidden": [50, 20],
            "learning_rate": 1 / 3,
            "scale": "smoke",
        },
        "data": {"name": "digits", "source": "embedded", "copy": "x", **SAMPLES},
        "model": {"name": "mlp", "parameters": 30},
        "runs": runs,
        "epochs_done": 2,
        "wall_seconds": 1.5,
        "scale": "smoke",
        "environment": {
            "device": "cpu",
            "precision": "float32",
            "threads": 1,
            "commit": None,
            "time": "2026-11-28T03:00:00+00:00",
            "versions": {"torch": "2.11.0", "numpy": "2.3.0"},
        },
    }
    return Record(**(values | changes))


def followed() -> Record:
    """A record of the notebook that follows single samples, and draws features."""
    whole = record()
    for run in whole.runs:
        run["curves"] |= {"train_epoch": [0, 1, 2], "train_accuracy": [0.1, 0.5, 0.9]}
        run["curves"]["train_cross_entropy"] = LOSSES
        run["group_confidence"] = [[0.1, 0.2, 0.3], [0.1, 0.5, 0.6]]
        run["single_confidence"] = [[0.1, 0.2, number / 16] for number in range(12)]
        run |= {"epoch_learnt_counts": [1, 2, 3, 4], "group_epoch_learnt": [1.5, 0.25]}
        run |= {"never_learnt": 0.25, "points": {"x": [0.5], "y": [-1.25], "label": [3]}}
    return whole


def diverged() -> Record:
    """A record with a run of which some numbers are not finite."""
    whole = record()
    run = whole.runs[0]
    run["diverged"] = True
    run["metrics"]["test_cross_entropy"] = None
    run["curves"]["test_cross_entropy"] = [2.3, None, None]
    return whole


def put(folder: Path, name: str, **jobs: Record) -> dict[str, Path]:
    """Write the files of jobs, as the jobs do."""
    place = folder / results.BUILD / name
    return {job: one.write(place / f"{job}.json") for job, one in jobs.items()}


def collect(folder: Path, name: str = "small", **jobs: Record) -> Path:
    results.collect(name, put(folder, name, **jobs), folder / "results")
    return folder / "results"


# -- nothing is lost -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [record, followed, diverged])
def test_a_record_comes_back_from_the_tables(tmp_path: Path, make: Callable[[], Record]) -> None:
    folder = collect(tmp_path, a=make())
    assert results.complete("small", folder) == {"a": make()}
    (short,) = results.jobs("small", folder).values()
    assert [run["metrics"] for run in short.runs] == [run["metrics"] for run in make().runs]


def test_a_cross_validation_and_a_measurement_of_time_come_back(tmp_path: Path) -> None:
    folds = {"dataset": "uci/iris", "title": "Iris", "classes": 3, "seed": 0}
    folds |= {"metrics": {"test_accuracy": 0.9, "train_accuracy": 1.0, "diverged_folds": 0}}
    curves = {"epoch": [0, 2], "test_accuracy": [0.3, 0.9], "train_accuracy": [0.3, 1.0]}
    folds |= {"fold_accuracies": [1.0, 0.8], "curves": curves}
    asked = {"datasets": ["uci/iris"], "loss": "softmax", "epochs": 2, "scale": "smoke"}
    crossed = record(
        experiment="cross-validation",
        parameters=asked,
        data={"name": "uci/iris", "source": "local", "copy": {"uci/iris": "sha256 1"}},
        model={"name": "mlp", "parameters": {"uci/iris": 30}},
        runs=[folds],
    )
    time = {"model": "resnet18", "loss": "softmax", "schedule": "softmax", "seed": 0}
    time |= {"measured_on": "cpu", "diverged": False}
    timed = record(
        experiment="cost",
        parameters={"models": ["resnet18", "resnet34"], "losses": ["softmax"], "scale": "smoke"},
        data={"name": "random images", "source": "generated", "copy": "x"},
        model={"name": "resnet18, resnet34", "parameters": {"resnet18": 1, "resnet34": 2}},
        runs=[time | {"metrics": {"step_seconds": 0.5, "criterion_seconds": 1e-5}}],
        epochs_done=0,
    )
    folder = collect(tmp_path, crossed=crossed, timed=timed)
    assert results.complete("small", folder) == {"crossed": crossed, "timed": timed}


def test_a_gpu_is_told_of(tmp_path: Path) -> None:
    where = record().environment | {
        "device": "NVIDIA H100",
        "tf32": {"matmul": False, "convolutions": False},
        "cudnn": {"benchmark": True, "deterministic": False},
    }
    folder = collect(tmp_path, a=record(environment=where))
    (row, _) = results.read("small", folder).to_dict("records")
    assert (row["hardware"], row["cudnn_benchmark"]) == ("NVIDIA H100", True)
    assert results.complete("small", folder)["a"].environment == where


def test_six_digits_of_a_number_of_any_size(tmp_path: Path) -> None:
    whole = record()
    for run, loss in zip(whole.runs, (1.23457e-40, 9.87654e299), strict=True):
        run["curves"]["test_cross_entropy"] = [0.1, loss, 1.23457]
        run["curves"]["test_margin_bias"] = [-0.0, -1.23457e-30, 9.99999e37]
    folder = collect(tmp_path, a=whole)
    assert results.complete("small", folder) == {"a": whole}
    written = {field.name: str(field.type) for field in pq.read_schema(_long(folder, "curves"))}
    assert (written["test_cross_entropy"], written["test_margin_bias"]) == ("double", "float")


def test_what_has_no_place_is_refused_and_its_file_stays(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    run = record().runs[0]
    for changes, message in [
        ({"more": [1.0, 2.0]}, "more of a run has no place in the tables"),
        ({"metrics": run["metrics"] | {"beta": 1.0}}, "beta stands in a run and in its metrics"),
        ({"target_angle_epochs": []}, "target_angle"),
    ]:
        files = put(tmp_path, "small", a=record(runs=[run | changes]))
        with subtests.test(message), pytest.raises(results.Refused, match=r"a\.json") as caught:
            results.collect("small", files, tmp_path / "results")
        assert files["a"].is_file()
        assert message in str(caught.value) or message == "target_angle"
    assert results.names(tmp_path / "results") == []


# -- what is read ----------------------------------------------------------------------------------


def test_a_row_for_each_run_with_the_parameters_of_its_job(tmp_path: Path) -> None:
    folder = collect(tmp_path, b=record(1), a=record(0))
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
    # what was trained before a parameter was there had its default
    assert set(runs["model"]) == {"mlp"}
    assert (runs["subset"].dtype, runs["imbalance"].dtype) == ("int64", float)
    assert runs.columns[-1] == "numpy"
    assert not {"betas", "seeds"} & set(runs), "each run has one of them"
    runs["seed"] = 7
    assert set(results.read("small", folder)["seed"]) == {0, 1}, "it is the caller's own"


def test_curves_bins_and_points(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=followed(), b=diverged())
    curves = results.curves("small", folder)
    assert curves.loc[curves["job"] == "a", "test_cross_entropy"].tolist() == 2 * LOSSES
    trained = curves.loc[curves["job"] == "b", "train_accuracy"]
    assert trained.isna().tolist() == 2 * [False, True, False]
    assert curves["single_confidence_11"].dropna().tolist() == 2 * [0.1, 0.2, 0.6875]
    bins = results.bins("small", folder)
    counts = bins[(bins["name"] == "confidence_counts") & (bins["job"] == "a")]
    assert counts["count"].tolist() == [4, 6, 4, 6]
    reliability = bins[(bins["name"] == "reliability") & (bins["run"] == 0)]
    assert reliability["confidence"].isna().tolist() == 2 * [True, False]
    assert results.points("small", folder)["label"].tolist() == [3, 3]
    assert results.points("other", collect(tmp_path, "other", a=record())).empty


def test_pandas_reads_the_tables_in_one_line(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=record())
    assert pd.read_csv(folder / "small.csv")["test_accuracy"].tolist() == [0.9, 0.8]
    assert pd.read_csv(folder / "jobs" / "small.csv")["learning_rate"].tolist() == [1 / 3]
    losses = pd.read_parquet(_long(folder, "curves"))["test_cross_entropy"]
    assert losses.tolist() == pytest.approx(2 * LOSSES, rel=1e-7)


def test_no_results(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=record())
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


def _with_a_mark_of_git(path: Path) -> None:
    path.write_text(path.read_text().replace("\na,1", "\n<<<<<<< HEAD\na,1"))


def _twice(path: Path) -> None:
    path.write_text(path.read_text() + path.read_text().split("\n")[-2] + "\n")


def _other(before: str, after: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, 1))

    return change


@pytest.mark.parametrize(
    ("file", "damage", "reason"),
    [
        ("small.csv", _cut, "its last line has no end"),
        ("small.csv", _without_its_last_line, "it has not the 2 runs of a"),
        ("small.csv", _with_a_mark_of_git, "line 3 has 1 cells"),
        ("small.csv", _twice, "a stands twice, or is not in its place"),
        ("small.csv", _other(",0.9", ",0.9x"), "a cell of .*accuracy is none of"),
        ("small.csv", _other(",0.9", ',"0.9, 0.9"'), "a cell of .*accuracy is none of"),
        ("small.csv", _other("job,run", "run,run"), "does not name its columns"),
        ("small.csv", _other("a,0", "a,x"), "a cell of run is no number"),
        ("small.csv", lambda path: path.write_bytes(b"\xff\n"), "it is no text"),
        ("small.csv", lambda path: path.write_bytes(b""), "its last line has no end"),
        ("small.csv", Path.unlink, "it is not there"),
        ("jobs/small.csv", _cut, "its last line has no end"),
        ("jobs/small.csv", _other('"[50, 20]"', '"[50, 20"'), "a cell of hidden"),
        ("curves/small.parquet", _cut, "[Pp]arquet"),
        ("curves/small.parquet", lambda path: path.write_bytes(b"PAR1"), "[Pp]arquet"),
    ],
)
def test_a_damaged_table_is_named(
    tmp_path: Path, file: str, damage: Callable[[Path], None], reason: str
) -> None:
    folder = collect(tmp_path, a=record())
    damage(folder / file)
    with pytest.raises(records.Unfit, match=rf"{file} is damaged \(.*{reason}.*git checkout"):
        results.complete("small", folder)
    files = put(tmp_path, "small", b=record(1))
    with pytest.raises(records.Unfit, match=f"{file} is damaged"):
        results.collect("small", files, folder)
    assert files["b"].is_file(), "nothing is added to it"


# -- what is added ---------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_files_of_jobs_become_rows_and_go(tmp_path: Path) -> None:
    files = put(tmp_path, "small", a=record(0), b=record(1))
    assert results.collect("small", files, tmp_path / "results") == ["a", "b"]
    assert not any(path.exists() for path in files.values())
    assert set(contents(tmp_path / "results")) == {
        *("small.csv", "jobs/small.csv", "curves/small.parquet", "bins/small.parquet")
    }
    assert results.collect("small", files, tmp_path / "results") == [], "they are gone"


def test_the_order_of_the_jobs_plays_no_part(tmp_path: Path) -> None:
    jobs = {"a": record(0), "b": followed(), "c": diverged()}
    jobs["c"].parameters["seeds"] = [2]
    together = collect(tmp_path / "together", **jobs)
    for name in ("c", "a", "b"):
        alone = collect(tmp_path / "alone", **{name: jobs[name]})
    assert contents(together) == contents(alone)


def test_a_row_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=record())
    before = (folder / "small.csv").read_text().split("\n")
    collect(tmp_path, b=record(1))
    assert (folder / "small.csv").read_text().split("\n")[:3] == before[:3]


def test_a_second_result_of_a_job_is_refused_or_replaces_the_first(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=record())
    before = contents(folder)
    files = put(tmp_path, "small", a=record())
    assert results.collect("small", files, folder) == []
    assert contents(folder) == before and not files["a"].exists(), "it was there already"
    files = put(tmp_path, "small", a=record(wall_seconds=9.0), b=record(1))
    with pytest.raises(results.Refused, match=r"a\.json is refused: small has a already, with"):
        results.collect("small", files, folder)
    assert files["a"].is_file() and not files["b"].exists(), "the others are folded"
    results.collect("small", {"a": files["a"]}, folder, replaced={"a"})
    assert results.complete("small", folder) == {"a": record(wall_seconds=9.0), "b": record(1)}


def test_a_copy_and_a_damaged_file_are_refused(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=record())
    files = put(tmp_path, "small", b=record(), c=record(3), d=record(4), e=record(4))
    files["c"].write_text(files["c"].read_text()[:-20])
    with pytest.raises(results.Refused) as caught:
        results.collect("small", files, folder)
    of_b, of_c, of_e = str(caught.value).split("\n")
    assert "b.json is refused: it is a copy of a, whose runs would count twice" in of_b
    assert "c.json is not a whole record" in of_c
    assert "e.json is refused: it is a copy of d" in of_e
    assert set(results.complete("small", folder)) == {"a", "d"}
    assert [files[job].exists() for job in "bcde"] == [True, True, False, True]


@pytest.mark.parametrize("job", ["b", "a"])
@pytest.mark.parametrize("step", range(5))
def test_a_kill_between_any_two_files_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, step: int
) -> None:
    folder = collect(tmp_path, a=record())
    new = record(1, wall_seconds=9.0)
    files = put(tmp_path, "small", **{job: new})
    replace, written = Path.replace, []

    def killed(self: Path, target: Path) -> Path:
        if folder in target.parents:
            if len(written) == step:
                raise KeyboardInterrupt
            written.append(target)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    try:
        results.collect("small", files, folder, replaced={"a"})
    except KeyboardInterrupt:
        assert files[job].is_file()
    else:
        assert len(written) == 4, "a job is added with four files"
    monkeypatch.undo()
    there = results.complete("small", folder)
    # it is as before, or as after, or a job that is replaced is not there: never something else
    assert all(one in (record(), new) for one in there.values())
    results.collect("small", files, folder, replaced={"a"})
    assert results.complete("small", folder) == {"a": record()} | {job: new}
    assert not files[job].exists()
    assert contents(folder) == contents(
        collect(tmp_path / "anew", **({"a": record()} | {job: new}))
    )


def test_a_full_disk_loses_nothing_and_the_file_is_named(tmp_path: Path) -> None:
    folder = collect(tmp_path, a=record())
    files = put(tmp_path, "small", b=record(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, limits[1]))
    try:
        with pytest.raises(OSError, match=r"small\.(csv|parquet)"):
            results.collect("small", files, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert results.complete("small", folder) == {"a": record()}
    assert not list(folder.rglob("*.partial"))
    results.collect("small", files, folder)
    assert set(results.complete("small", folder)) == {"a", "b"}


def _collect_several(folder: Path, first: int, number: int) -> None:
    for seed in range(first, first + number):
        put(folder, "small", **{f"seed{seed}": record(seed)})
        place = folder / results.BUILD / "small"
        files = {path.stem: path for path in place.glob("*.json")}
        results.collect("small", files, folder / "results")


def test_two_commands_at_a_time_do_each_other_no_harm(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=_collect_several, args=(tmp_path, first, 5)) for first in (0, 100)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    seeds = [*range(5), *range(100, 105)]
    expected = {f"seed{seed}": record(seed) for seed in seeds}
    assert results.complete("small", tmp_path / "results") == expected


# -- the results of the repository -----------------------------------------------------------------


@pytest.mark.parametrize("name", results.names())
def test_every_record_of_the_repository_is_one_that_a_training_leaves(name: str) -> None:
    there = results.complete(name)
    for job, one in there.items():
        form.check(one.experiment, one.parameters, one.data, one.model, one.runs, one.epochs_done)
        assert records.NAME.fullmatch(job)
    listed = set(pd.read_csv(results.FOLDER / f"{name}.csv")["job"])
    for table in ("curves", "bins", "points"):
        listed |= set(getattr(results, table)(name)["job"])
    assert listed == set(there), "rows of no job"


def test_every_kind_of_experiment_is_in_the_repository_and_no_job_twice() -> None:
    every = [one for name in results.names() for one in results.jobs(name).values()]
    assert {one.experiment for one in every} == set(FORMS) - {"how-sure", "cross-validation"}
    parts = ([one.parameters, one.wall_seconds, one.environment] for one in every)
    assert len({json.dumps(part, sort_keys=True) for part in parts}) == len(every)


def test_the_tables_are_small() -> None:
    sizes = {path.as_posix(): size for path, _, size, _ in results.stamps()}
    assert max(sizes.values()) < 1_000_000, max(sizes, key=lambda name: sizes[name])
    assert sum(sizes.values()) < 5_000_000
