"""The frame of all runs: a row for each, with the columns of :data:`COLUMNS`."""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from study.methods import Method
from study.records.columns import check
from study.records.files import plain
from study.records.record import NAME, REHEARSAL, Record, load

STACKED = ("betas", "warmups", "feedbacks", "temperatures", "seeds")
"""The parameters of a job that list its runs: each run has one value of them."""


def read(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> pd.DataFrame:
    """Read a folder of records, or paths of records, as one table.

    Sub-folders are read too. The table has a row for each run. Its columns are the parameters of
    the job, what the run is known by, the metrics, the curves as lists under ``curve_...``, and
    ``record`` (file), ``campaign`` (folder) and others of the whole record. The sub-folder of the
    rehearsal campaign is left out, so that a page is the same in every clone; named itself, it is
    read. The table is kept while the files stay as they are. A damaged record, a file that no job
    is called after, and the copy of another are refused by name; so is a column that
    :data:`COLUMNS` does not declare.
    """
    return _read(state(source)).copy(deep=False)


def state(
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> tuple[tuple[Path, int, int], ...]:
    """List the files that :func:`read` reads, with the time of their last change and their size."""
    if isinstance(source, (str, os.PathLike)):
        folder = Path(source)
        if not folder.is_dir():
            raise FileNotFoundError(
                f"there is no folder of records {folder}; `make reproduce CAMPAIGN=...` writes one"
            )
        paths: list[Path] = sorted(
            path
            for path in folder.rglob("*.json")
            if REHEARSAL not in path.relative_to(folder).parts[:-1]
        )
    else:
        paths = [Path(path) for path in source]
    return tuple((path, (stat := path.stat()).st_mtime_ns, stat.st_size) for path in paths)


@functools.lru_cache(8)
def _read(files: tuple[tuple[Path, int, int], ...]) -> pd.DataFrame:
    """Read these files as they are at these times, with these sizes."""
    paths = [path for path, _, _ in files]
    contents: dict[str, Path] = {}
    for path in paths:
        if not NAME.fullmatch(path.stem):
            raise ValueError(f"{path}: no record is called that; delete the copy, or move it away")
        twin = contents.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), path)
        if twin is not path:
            raise ValueError(f"{path} is a copy of {twin}: its runs would count twice; delete it")
    return of_records((path.parent.name, path.name, load(path)) for path in paths)


def of_records(named: Iterable[tuple[str, str, Record]]) -> pd.DataFrame:
    """Make one frame of records, each with its campaign and the name of its file."""
    # one frame of all rows: a frame for each record and their concatenation take ten times as long
    # as reading the files
    rows = [
        row | {"record": file, "campaign": campaign}
        for campaign, file, record in named
        for row in _rows(record)
    ]
    return check(pd.DataFrame(rows))


def to_frame(record: Record) -> pd.DataFrame:
    """Make of one record the table of :func:`read`, without ``record`` and ``campaign``.

    What was measured just now comes as a record file would give it back.
    """
    written = replace(
        record, parameters=plain(record.parameters, digits=17), runs=plain(record.runs)
    )
    return check(pd.DataFrame(_rows(written)))


def _rows(record: Record) -> list[dict[str, Any]]:
    job = {name: value for name, value in record.parameters.items() if name not in STACKED}
    job |= {
        "experiment": record.experiment,
        "scale": record.scale,
        "wall_seconds": record.wall_seconds,
        "data_source": record.data.get("source"),
        "model_parameters": record.model.get("parameters"),
        "train_samples": record.data.get("train"),
        "wrong_labels": record.data.get("wrong_labels", record.parameters.get("label_noise", 0.0)),
        "time": record.environment.get("time"),
    }
    rows = []
    for run in record.runs:
        own = {name: value for name, value in run.items() if name not in ("metrics", "curves")}
        if "warmup_epochs" in own:
            own = {"warmup_start": math.nan, "warmup_end": math.nan} | own
        curves = {f"curve_{name}": values for name, values in run.get("curves", {}).items()}
        rows.append(job | own | dict(run.get("metrics", {})) | curves)
    return rows


def methods(runs: pd.DataFrame) -> pd.Series[Any]:
    """Read what each run was trained with, from the columns by which its record knows it.

    This is the one place where a label of a record becomes a :class:`study.methods.Method`.
    """
    known = [name for name in ("loss", "schedule", "beta") if name in runs]
    rows = [
        tuple(None if value != value else value for value in row)
        for row in zip(*(runs[name] for name in known), strict=True)
    ]
    each = {row: Method.of_run(dict(zip(known, row, strict=True))) for row in dict.fromkeys(rows)}
    return pd.Series([each[row] for row in rows], runs.index, dtype=object)
