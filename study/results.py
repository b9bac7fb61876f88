"""The results: tables of all runs, read and added to.

A campaign has a row for each run in ``results/<campaign>.csv`` and a row for each job, with its
parameters and where it ran, in ``results/jobs/<campaign>.csv``. What a run has at every epoch is in
``results/curves/<campaign>.parquet``, and features that are drawn are in ``results/points``. They
are joined by the columns ``job`` and ``run``::

    from study import results

    runs = results.read("mnist")       # with the parameters of their jobs
    curves = results.curves("mnist").merge(runs[["job", "run", "activation", "schedule", "seed"]])

A job writes a file of its own, whole or not at all (:func:`write`), and :func:`collect` folds such
files into the tables of their campaign.
"""

from __future__ import annotations

import functools
import io
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from study import ROOT
from study.files import locked, plain, whole, write_whole

FOLDER = ROOT / "results"
BUILD = Path("build") / "results"
"""Where jobs write their files, below the root of a project."""

Row = dict[str, Any]

LONG = ("curves", "points")
TABLES = ("runs", "jobs", *LONG)

_FIRST = {
    "runs": ("job", "run", "seed", "schedule", "loss", "beta", "warmup_start", "warmup_end")
    + ("warmup_epochs", "temperature", "dataset", "title", "classes", "model", "measured_on")
    + ("diverged",),
    "jobs": ("job", "runs", "experiment", "dataset", "model", "loss"),
}
_LAST = (
    *("data_source", "data_copy", "train_samples", "valid_samples", "test_samples"),
    *("wrong_labels", "model_parameters", "wall_seconds", "time", "commit", "hardware", "threads"),
    *("platform", "python", "torch", "numpy", "scikit-learn", "pandas", "tf32_matmul"),
    *("tf32_convolutions", "cudnn_benchmark", "cudnn_deterministic"),
)
"""Where, when and with what a job ran."""

_TEXTS = (
    *("job", "schedule", "loss", "title", "commit", "data_copy", "python", "torch", "numpy"),
    *("scikit-learn", "pandas"),
)
"""Columns that are texts where they look like numbers too."""

_UNSAID: Mapping[str, Any] = {
    "input_scale": 1.0,
    "validation_size": 0,
    "subset": 0,
    "imbalance": 1.0,
    "label_noise": 0.0,
    "labels": "clean",
    "augmentation": "none",
    "model": "mlp",
    "width": 1.0,
    "first_weights": 1.0,
    "loss": "gd",
    "optimizer": "sgd",
    "momentum": 0.9,
    "lr_schedule": "milestones",
    "max_grad_norm": 0.0,
    "match_gradient": False,
    "angles": False,
    "duplicates_together": False,
}
"""What a job means that does not say it."""

_OF_STACK = ("betas", "warmups", "feedbacks", "temperatures", "seeds")
_SEVERAL = (*_OF_STACK, "datasets", "models", "losses", "repetitions", "runs")

Stamp = tuple[Path, int, int, int]  # file, time of change, size, inode


class Unfit(ValueError):
    """A table or a file of a job that cannot be used; the message names it and says what to do."""


# -- reading ---------------------------------------------------------------------------------------


def names(folder: Path = FOLDER) -> list[str]:
    """List the campaigns that have results."""
    return sorted(path.stem for path in (folder / "jobs").glob("*.csv"))


def read(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Read a campaign: a row for each run, with the parameters of its job.

    What a job does not say has its default. A list is a tuple. Where it ran, when and with which
    versions stands at the end of each row. Three columns follow from others: ``overconfidence``,
    mean confidence minus accuracy on the test set; ``errors`` on the training set; ``units`` of the
    first hidden layer, 0 for a linear model.

    Raises:
        FileNotFoundError: if the campaign has no results; it names those that do.
        Unfit: if a table is damaged; it names the file.
    """
    return _read(name, folder, stamps(name, folder)).copy()


def curves(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Read what the runs of a campaign have at every epoch: a row for each run and epoch.

    A set that was not evaluated at an epoch has no number there.
    """
    return _long("curves", name, folder)


def points(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Read the features of test samples in the plane, with their classes."""
    return _long("points", name, folder)


def jobs(name: str, folder: Path = FOLDER) -> Mapping[str, Row]:
    """Read what the jobs of a campaign were asked for; none where it has no results."""
    path = _path(folder, "jobs", name)
    return _jobs(_stamp(path)) if path.is_file() else {}


@functools.lru_cache(64)
def _jobs(file: Stamp) -> Mapping[str, Row]:
    rows: list[Any] = _frame(file[0]).drop(columns=list(_LAST), errors="ignore").to_dict("records")
    return {
        row["job"]: {
            key: value for key, value in row.items() if isinstance(value, tuple) or pd.notna(value)
        }
        for row in rows
    }


@functools.lru_cache(64)
def _read(name: str, folder: Path, files: tuple[Stamp, ...]) -> pd.DataFrame:
    runs, of_jobs = _both(name, folder)
    parameters = of_jobs.drop(columns=list(_SEVERAL), errors="ignore")
    together = runs.merge(parameters, on="job", suffixes=("", "_of_job"))
    stacked = "temperature" in together
    for parameter, default in _UNSAID.items():
        if not stacked and parameter not in together:
            continue
        if parameter not in together:
            together[parameter] = default
        given = together[parameter]
        together[parameter] = given.where(given.notna(), default).astype(type(default))
    _derive(together)
    end = [name for name in _LAST if name in together]
    return together[[*(name for name in together if name not in end), *end]]


def _derive(runs: pd.DataFrame) -> None:
    """Add the columns that follow from others of a run."""
    if "test_confidence" in runs:
        runs["overconfidence"] = runs["test_confidence"] - runs["test_accuracy"]
    if {"train_accuracy", "train_samples"} <= set(runs):
        runs["errors"] = ((1 - runs["train_accuracy"]) * runs["train_samples"]).round()
    if "hidden" in runs:
        first = runs["hidden"].map(lambda sizes: sizes[0] if sizes else 0, na_action="ignore")
        runs["units"] = first  # none where the page has one network


def _both(name: str, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the tables of runs and jobs, which fit each other.

    The runs of a job that is not listed are left out: it was being added when it was killed.
    """
    runs, of_jobs = (_frame(_path(folder, table, name)) for table in ("runs", "jobs"))
    counted = runs["job"].value_counts().reindex(of_jobs["job"], fill_value=0)
    if (counted.to_numpy() != of_jobs["runs"].to_numpy()).any():
        raise _unfit(_path(folder, "runs", name), "it has not the runs that the jobs name")
    return runs[runs["job"].isin(of_jobs["job"])], of_jobs


def _frame(path: Path) -> pd.DataFrame:
    """Read a table of texts and numbers that is whole."""
    try:
        text = path.read_bytes().decode()
        if not text.endswith("\n"):
            raise ValueError("its last line has no end")
        table = pd.read_csv(
            io.StringIO(text),
            dtype=dict.fromkeys(_TEXTS, "str"),
            index_col=False,
            keep_default_na=False,
            na_values=["", "NaN"],
            on_bad_lines="error",
        )
        for name in table.select_dtypes(["object", "str"]) if len(table) else ():
            table[name] = [_value(cell) for cell in table[name]]
        if table.duplicated([key for key in ("job", "run") if key in table]).any():
            raise ValueError("a row stands twice")
        return table
    except (ValueError, KeyError) as error:
        raise _unfit(path, str(error).splitlines()[0][:200]) from error


def _value(cell: Any) -> Any:
    """Read a cell: JSON, whose lists become tuples, or a text."""
    if not isinstance(cell, str):
        return cell
    return _tuple(json.loads(cell)) if cell[:1] in ("[", "{") else cell


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _long(table: str, name: str, folder: Path) -> pd.DataFrame:
    stamps(name, folder)  # the campaign is there
    path = _path(folder, table, name)
    if not path.is_file():
        return pd.DataFrame({"job": [], "run": []})
    return _parquet(path)


def stamps(name: str, folder: Path = FOLDER) -> tuple[Stamp, ...]:
    """List the files of a campaign, with what changes with their content."""
    if not _path(folder, "jobs", name).is_file():
        known = ", ".join(names(folder)) or "none"
        raise FileNotFoundError(f"there are no results of a campaign {name!r}; there are: {known}")
    paths = [path for table in TABLES if (path := _path(folder, table, name)).is_file()]
    return tuple(map(_stamp, paths))


def _stamp(path: Path) -> Stamp:
    status = os.stat(path)
    return path, status.st_mtime_ns, status.st_size, status.st_ino


def _path(folder: Path, table: str, name: str) -> Path:
    """Say where a table of a campaign is; the runs, which one looks for first, are at the top."""
    if table == "runs":
        return folder / f"{name}.csv"
    return folder / table / f"{name}.{'csv' if table == 'jobs' else 'parquet'}"


# -- one job ---------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], job: Row, runs: Sequence[Mapping[str, Any]]) -> Path:
    """Write what a job has measured to a file of its own: it is there whole, or it is not there.

    A number has six digits. One that is not finite, such as the loss of a run that diverged, is
    written as null.

    Args:
        path: the file.
        job: its page, its parameters, and where, when and with what it ran.
        runs: each with what it is known by; numbers under ``metrics``; ``curves``, lists by epoch;
            and features to draw under ``points``.
    """
    rows: dict[str, list[Row]] = {table: [] for table in TABLES[2:]}
    rows["runs"] = []
    for number, run in enumerate(plain(runs)):
        key: Row = {"run": number}
        rows["runs"].append(key | _scalars(run))
        rows["curves"] += [key | row for row in _curves(run)]
        drawn = run.get("points", {})
        rows["points"] += [
            key | {"point": point} | dict(zip(drawn, values, strict=True))
            for point, values in enumerate(zip(*drawn.values(), strict=True))
        ]
    content = {"job": plain(job, digits=17) | {"runs": len(runs)}, **rows}
    return write_whole(path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the file of a job: its ``job``, and the rows of its ``runs`` and of each long table.

    Raises:
        Unfit: for a file that is damaged, or has what no training leaves.
    """
    try:
        content = json.loads(Path(path).read_bytes().decode())
        job, runs = content["job"], content["runs"]
        if job["runs"] != len(runs) or not runs:
            raise ValueError(f"it has {len(runs)} runs, not {job['runs']}")
        for run in (*runs, *content["curves"]):
            shares = [run.get(name) for name in ("test_accuracy", "train_accuracy", "test_ece")]
            if any(share is not None and not 0 <= share <= 1 for share in shares):
                raise ValueError(f"run {run['run']} has a share that is not between 0 and 1")
        return {table: content[table] for table in ("job", "runs", *LONG)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".removeprefix("ValueError: ")
        raise Unfit(
            f"{path} is damaged ({reason[:300]}); delete it and run its job again"
        ) from None


_BY_EPOCH = ("group_confidence", "reference_group_confidence")  # a list by epoch for each group


def _scalars(run: Row) -> Row:
    lists = {"metrics", "curves", "points", *_BY_EPOCH}
    row = {name: value for name, value in run.items() if name not in lists}
    if nested := [name for name, value in row.items() if isinstance(value, list | dict)]:
        raise ValueError(f"{nested[0]} of a run is a list, which the tables have no place for")
    if twice := set(row) & set(run["metrics"]):
        raise ValueError(f"{min(twice)} stands in a run and in its metrics")
    return row | run["metrics"]


def _curves(run: Row) -> list[Row]:
    curves = dict(run.get("curves", {}))
    epochs = curves.pop("epoch", [])
    train_epochs = curves.pop("train_epoch", epochs)
    for name in _BY_EPOCH:
        curves |= {f"{name}_{number}": values for number, values in enumerate(run.get(name, ()))}
    rows: dict[float, Row] = {epoch: {} for epoch in sorted({*epochs, *train_epochs})}
    for name, values in curves.items():
        axis = train_epochs if name.startswith("train_") else epochs
        for epoch, value in zip(axis, values, strict=True):
            rows[epoch][name] = value
    return [{"epoch": int(epoch)} | row for epoch, row in rows.items()]


# -- adding ----------------------------------------------------------------------------------------


class Refused(ValueError):
    """Files of jobs that are not folded into the tables; each line names one and says why."""


def collect(
    name: str, files: Mapping[str, Path], folder: Path = FOLDER, replaced: Collection[str] = ()
) -> list[str]:
    """Fold files of jobs into the tables of their campaign, and remove the files.

    One process at a time does so. A job is there when ``jobs`` lists it, which is written last, so
    that after a kill the same call goes on. A file is removed when its rows are there.

    Args:
        name: the campaign.
        files: by the names of their jobs; one that is gone was folded by another process.
        folder: of the tables.
        replaced: jobs whose rows may be replaced by others.

    Returns:
        The jobs that were folded.

    Raises:
        Refused: for files that are damaged, or whose job has rows already; the others are folded.
    """
    with locked(folder.parent / BUILD / f"{name}.lock", "adds to the tables"):
        there, new, refused = jobs(name, folder), dict[str, dict[str, Any]](), list[str]()
        for job, path in sorted(files.items()):
            try:
                content = load(path)
            except FileNotFoundError:
                continue
            except Unfit as error:
                refused.append(str(error))
                continue
            if job in there and job not in replaced:
                refused.append(f"{name} has {job} already; delete {path}, or the rows")
            else:
                new[job] = content
        if new:
            _add(name, folder, new, there)
        for job in new:
            files[job].unlink(missing_ok=True)
    if refused:
        raise Refused("\n".join(refused))
    return list(new)


def _add(
    name: str, folder: Path, new: Mapping[str, Mapping[str, Any]], there: Collection[str]
) -> None:
    paths = {table: _path(folder, table, name) for table in TABLES}
    if paths["jobs"].is_file():
        _both(name, folder)  # nothing is added to a damaged table
    before = {table: _cells(paths[table]) for table in ("jobs", "runs")}
    kept = [job for job in there if job not in new]
    if len(kept) < len(there):
        # until the last table is written, a job that is replaced is not there
        _write_csv("jobs", paths["jobs"], _of(before["jobs"], kept))
    for table in LONG:
        rows = [{"job": job} | row for job, content in new.items() for row in content[table]]
        if rows:
            _write_parquet(paths[table], _appended(paths[table], kept, rows))
    of_jobs = [{"job": job} | content["job"] for job, content in new.items()]
    of_runs = [{"job": job} | row for job, content in new.items() for row in content["runs"]]
    for table, rows in (("runs", of_runs), ("jobs", of_jobs)):
        cells = [{key: _cell(value) for key, value in row.items()} for row in rows]
        together = [_of(before[table], kept), pd.DataFrame(cells, dtype="object")]
        _write_csv(table, paths[table], pd.concat(together))


def _of(table: pd.DataFrame, jobs: Sequence[str]) -> pd.DataFrame:
    return table[table["job"].isin(jobs)] if len(table) else table


def _cells(path: Path) -> pd.DataFrame:
    """Read a table as the texts that it has, so that no number changes when rows are added."""
    if not path.is_file():
        return pd.DataFrame()
    return pd.read_csv(path, dtype="str", keep_default_na=False)


def _cell(value: Any) -> str:
    """Write a cell: a text as it is, and JSON else; a number that was not finite is NaN."""
    if value is None:
        return "NaN"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_csv(table: str, path: Path, cells: pd.DataFrame) -> None:
    """Write cells, sorted by job and run, without columns that are empty."""
    cells = cells.fillna("").reset_index(drop=True)
    numbers = cells["run"].astype(int) if "run" in cells else pd.Series(0, cells.index)
    cells = cells.iloc[np.lexsort((numbers, cells["job"]))]
    used = [
        str(name) for name in cells if name in ("job", "run", "runs") or cells[name].ne("").any()
    ]
    first = [name for name in _FIRST[table] if name in used]
    last = [name for name in _LAST if name in used]
    order = [*first, *sorted(set(used) - {*first, *last}), *last]
    write_whole(path, cells[order].to_csv(index=False, lineterminator="\n"))


def _appended(path: Path, kept: Sequence[str], rows: Sequence[Row]) -> pd.DataFrame:
    """Append rows to those of a long table that belong to some jobs."""
    more = pd.DataFrame(rows)
    more = more.astype({name: float for name in more if more[name].isna().all()})
    if not path.is_file():
        return more
    before = _of(_parquet(path), kept)
    return pd.concat([before, more]) if len(before) else more


def _parquet(path: Path) -> pd.DataFrame:
    """Read a long table."""
    try:
        every = pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise _unfit(path, " ".join(str(error).split())[:200]) from error
    return every.astype(dict.fromkeys(every.select_dtypes("float32"), "float64"))


def _write_parquet(path: Path, every: pd.DataFrame) -> None:
    """Write a long table, sorted; float32 is as much as most of its numbers were computed in."""
    keys = [name for name in ("job", "run", "epoch", "point") if name in every]
    order = [*keys, *sorted({*map(str, every)} - {*keys}, key=_natural)]
    every = every.sort_values(keys)[order]
    every = every.astype(dict.fromkeys(every.select_dtypes("float64"), "float32"))
    with whole(path) as file:
        every.to_parquet(file, index=False, compression="zstd")


def _natural(name: str) -> tuple[str, int]:
    numbered = re.fullmatch(r"(.*?)(\d*)", name)
    assert numbered is not None
    return numbered[1], int(numbered[2] or -1)


def _unfit(path: Path, reason: str) -> Unfit:
    return Unfit(f"{path} is damaged ({reason}); restore it: git checkout {path}")
