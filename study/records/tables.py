"""A record as rows of tables, and rows of tables as a record again.

A job is a row of ``jobs``, each of its runs one of ``runs``. What a run has at every epoch is in
``curves``, what it has for every bin, class or fold in ``bins``, and features that are drawn are in
``points``. :func:`split` and :func:`joined` are each other's inverse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from study.records.record import Record

Row = dict[str, Any]
Columns = Mapping[str, Sequence[Any]]

TABLES = ("runs", "jobs", "curves", "bins", "points")

PROVENANCE: Mapping[str, tuple[str, ...]] = {
    "data_source": ("data", "source"),
    "data_copy": ("data", "copy"),
    "train_samples": ("data", "train"),
    "valid_samples": ("data", "valid"),
    "test_samples": ("data", "test"),
    "wrong_labels": ("data", "wrong_labels"),
    "model_parameters": ("model", "parameters"),
    "wall_seconds": ("wall_seconds",),
    "time": ("environment", "time"),
    "commit": ("environment", "commit"),
    "hardware": ("environment", "device"),
    "threads": ("environment", "threads"),
    "platform": ("environment", "platform"),
    "python": ("environment", "python"),
    "torch": ("environment", "versions", "torch"),
    "numpy": ("environment", "versions", "numpy"),
    "scikit-learn": ("environment", "versions", "scikit-learn"),
    "pandas": ("environment", "versions", "pandas"),
    "tf32_matmul": ("environment", "tf32", "matmul"),
    "tf32_convolutions": ("environment", "tf32", "convolutions"),
    "cudnn_benchmark": ("environment", "cudnn", "benchmark"),
    "cudnn_deterministic": ("environment", "cudnn", "deterministic"),
}
"""Where a record has what ``jobs`` tells beside the parameters."""

KNOWN_BY = (
    *("seed", "schedule", "loss", "beta", "warmup_start", "warmup_end", "warmup_epochs"),
    *("temperature", "dataset", "title", "classes", "model", "measured_on", "diverged"),
)
"""Columns of ``runs`` that say which run it is; they come first."""

BESIDE_METRICS = (
    *("scaling_temperature", "never_learnt", "median_epoch_learnt", "conflict_share"),
    *("conflict_late", "conflict_delay", "others_epoch", "intra_inter_ratio"),
    *("minimum_to_mean_inter", "mean_intra_distance", "mean_inter_distance", "strayed"),
)
"""Numbers of a run that a record has beside its metrics."""

_COUNTED = ("diverged_folds",)  # whole numbers, which a record gives as floats
_INTERVAL = {"test_ece_interval": ("test_ece_low", "test_ece_high")}
_BY_EPOCH = ("group_confidence", "reference_group_confidence", "single_confidence")
_NUMBERED = re.compile(rf"({'|'.join(_BY_EPOCH)})_\d+")
_RELIABILITY = tuple(f"reliability{after}" for after in ("", "_temperature", "_vector", "_link"))
_OF_BINS = ("upper", "count", "confidence", "accuracy")
_LISTS: Mapping[str, str] = {
    "confidence_counts": "count",
    "confidence_histogram": "count",
    "epoch_learnt_counts": "count",
    "conflict_epoch_learnt_counts": "count",
    "group_epoch_learnt": "mean_epoch",
    "class_accuracy": "accuracy",
    "class_accuracy_link": "accuracy",
    "fold_accuracies": "accuracy",
}
"""The column of ``bins`` that has the values of a list of a run."""
_ANGLES = ("target_angle_epochs", "target_angle_counts")
_POINTS = ("x", "y", "label")


def split(job: str, record: Record) -> dict[str, list[Row]]:
    """Take a record apart into rows of each of :data:`TABLES`.

    A number that is there but not finite, such as the loss of a run that diverged, is NaN; what is
    not there has no key.

    Raises:
        ValueError: where the tables have no place for something that the record has.
    """
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    rows["jobs"].append(_job(job, record))
    for number, run in enumerate(record.runs):
        key = {"job": job, "run": number}
        rows["runs"].append(key | _scalars(run))
        rows["curves"] += [key | row for row in _curves(run)]
        rows["bins"] += [key | row for row in _bins(run)]
        if "points" in run:
            rows["points"] += [
                key | {"point": point} | dict(zip(_POINTS, values, strict=True))
                for point, values in enumerate(
                    zip(*(run["points"][name] for name in _POINTS), strict=True)
                )
            ]
    return rows


def joined(
    job: Row,
    runs: Iterable[Row],
    curves: Sequence[Columns] = (),
    bins: Sequence[Columns] = (),
    points: Sequence[Columns] = (),
) -> Record:
    """Make a record again.

    Args:
        job: the row of the job.
        runs: the rows of its runs.
        curves: for each run the columns of its rows; without them the record has no curves.
        bins: the same.
        points: the same, for the runs that have some.
    """
    outside = {"job", "experiment", "runs", *PROVENANCE}
    asked = {name: value for name, value in job.items() if name not in outside}
    content: dict[str, Any] = {
        "experiment": job["experiment"],
        "parameters": asked,
        "data": {"name": ", ".join(_named(asked, "dataset") or ("random images",))},
        "model": {"name": ", ".join(_named(asked, "model") or ("mlp",))},
        "runs": [],
        "epochs_done": asked.get("epochs", 0),
        "scale": asked.get("scale"),
        "environment": {},
    }
    for name, place in PROVENANCE.items():
        if name in job:
            inner = content
            for step in place[:-1]:
                inner = inner.setdefault(step, {})
            inner[place[-1]] = job[name]
    if "threads" in job:
        content["environment"] |= {"precision": asked.get("precision", "float32")}
        content["environment"].setdefault("commit", None)
    for number, row in enumerate(runs):
        run = _run(row)
        if number < len(curves):
            run |= _curves_again(curves[number], has_axes="temperature" in run)
        if number < len(bins):
            run |= _bins_again(bins[number])
        if number < len(points) and points[number]["x"]:
            run["points"] = {name: list(points[number][name]) for name in _POINTS}
        content["runs"].append(run)
    return Record(**content)


def _job(job: str, record: Record) -> Row:
    row = {"job": job, "experiment": record.experiment, "runs": len(record.runs)}
    for name, place in PROVENANCE.items():
        value: Any = vars(record)
        for step in place:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is not None:
            row[name] = value
    if twice := set(row) & set(record.parameters):
        raise ValueError(f"the parameter {min(twice)} is called as a column that every job has")
    return row | record.parameters


def _named(asked: Row, what: str) -> Sequence[str]:
    """Name the one data set or network of a job, or its several."""
    return [asked[what]] if what in asked else asked.get(f"{what}s", ())


def _scalars(run: Row) -> Row:
    row = {name: run[name] for name in (*KNOWN_BY, *BESIDE_METRICS) if name in run}
    for name, (low, high) in _INTERVAL.items():
        if name in run:
            row[low], row[high] = run[name]
    if twice := set(row) & set(run["metrics"]):
        raise ValueError(f"{min(twice)} stands in a run and in its metrics")
    placed = {*KNOWN_BY, *BESIDE_METRICS, *_INTERVAL, *_BY_EPOCH, *_RELIABILITY, *_LISTS, *_ANGLES}
    if more := set(run) - placed - {"metrics", "curves", "points"}:
        raise ValueError(
            f"{min(more)} of a run has no place in the tables; give it one in "
            f"study/records/tables.py"
        )
    row |= {name: _number(value) for name, value in run["metrics"].items()}
    return row | {name: int(row[name]) for name in _COUNTED if row.get(name, math.nan) >= 0}


def _run(row: Row) -> Row:
    beside = (*KNOWN_BY, *BESIDE_METRICS)
    outside = {"job", "run", *beside, *(end for ends in _INTERVAL.values() for end in ends)}
    run = {name: row[name] for name in beside if name in row}
    run |= {name: [row[low], row[high]] for name, (low, high) in _INTERVAL.items() if low in row}
    metrics = {
        name: None if value != value else value
        for name, value in row.items()
        if name not in outside
    }
    return run | {"metrics": metrics}


def _number(value: Any) -> Any:
    return math.nan if value is None else value


def _curves(run: Row) -> Iterator[Row]:
    curves = dict(run.get("curves", {}))
    epochs = curves.pop("epoch", ())
    train_epochs = curves.pop("train_epoch", epochs)
    for name in _BY_EPOCH:
        curves |= {f"{name}_{number}": values for number, values in enumerate(run.get(name, ()))}
    rows: dict[float, Row] = {epoch: {} for epoch in sorted({*epochs, *train_epochs})}
    for name, values in curves.items():
        axis = train_epochs if name.startswith("train_") else epochs
        for epoch, value in zip(axis, values, strict=True):
            rows[epoch][name] = _number(value)
    for epoch, row in rows.items():
        yield {"epoch": int(epoch)} | row


def _curves_again(columns: Columns, *, has_axes: bool) -> Row:
    """Take the curves of a run out of its rows, with the epochs of its two kinds of evaluation."""
    if not columns["epoch"]:
        return {}
    run: Row = {}
    curves: Row = {}
    tested, trained = (
        [place for place, value in enumerate(columns[f"{split}_accuracy"]) if value is not None]
        for split in ("test", "train")
    )
    curves["epoch"] = [columns["epoch"][place] for place in tested]
    if has_axes:
        curves["train_epoch"] = [columns["epoch"][place] for place in trained]
    for name, values in columns.items():
        if name in ("job", "run", "epoch") or values.count(None) == len(values):
            continue
        axis = trained if name.startswith("train_") else tested
        curve = [None if (value := values[place]) != value else value for place in axis]
        if numbered := _NUMBERED.fullmatch(name):
            run.setdefault(numbered[1], []).append(curve)
        else:
            curves[name] = curve
    return run | {"curves": curves}


def _bins(run: Row) -> Iterator[Row]:
    for name in _RELIABILITY:
        bins = run.get(name, dict.fromkeys(_OF_BINS, ()))
        for number, values in enumerate(zip(*(bins[part] for part in _OF_BINS), strict=True)):
            yield {"name": name, "bin": number} | dict(zip(_OF_BINS, values, strict=True))
    for name, column in _LISTS.items():
        for number, value in enumerate(run.get(name, ())):
            yield {"name": name, "bin": number, column: _number(value)}
    for epoch, counts in zip(*(run.get(name, ()) for name in _ANGLES), strict=True):
        for number, count in enumerate(counts):
            yield {"name": "target_angle_counts", "epoch": epoch, "bin": number, "count": count}


def _bins_again(columns: Columns) -> Row:
    run: Row = {}
    names = columns["name"]
    begin = 0
    while begin < len(names):
        name, end = names[begin], begin
        while end < len(names) and names[end] == name:
            end += 1
        part = slice(begin, end)
        if name in _RELIABILITY:
            run[name] = {column: list(columns[column][part]) for column in _OF_BINS}
        elif name in _LISTS:
            run[name] = [None if value != value else value for value in columns[_LISTS[name]][part]]
        else:
            counts: dict[int, list[int]] = {}
            for epoch, count in zip(columns["epoch"][part], columns["count"][part], strict=True):
                counts.setdefault(epoch, []).append(count)
            run |= dict(zip(_ANGLES, (list(counts), list(counts.values())), strict=True))
        begin = end
    return run
