"""The results: tables of all runs, read and added to.

A campaign has a row for each run in ``results/<campaign>.csv`` and a row for each job, with its
parameters and where it ran, in ``results/jobs/<campaign>.csv``. What a run has at every epoch is in
``results/curves/<campaign>.parquet``, what it has for every bin, class or fold in
``results/bins/<campaign>.parquet``, and features that are drawn in ``results/points``. They are
joined by the columns ``job`` and ``run``::

    from study import results

    runs = results.read("mnist")       # with the parameters of their jobs
    curves = results.curves("mnist").merge(runs[["job", "run", "activation", "schedule", "seed"]])

A job writes a file of its own, whole or not at all, and :func:`collect` folds such files into the
tables of their campaign.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from study import ROOT, records
from study.records import columns, frame, tables
from study.records.files import locked, whole, write_whole
from study.records.tables import Row

FOLDER = ROOT / "results"
BUILD = Path("build") / "results"
"""Where jobs write their files, below the root of a project."""

Stamp = tuple[Path, int, int, int]  # file, time of change, size, inode
_KEYS = ("job", "run", "name", "epoch", "bin", "point")
_TEXTS = {
    *(name for name, column in columns.COLUMNS.items() if column.type is str),
    *("job", "data_copy", "commit", "hardware", "platform", "python"),
    *("torch", "numpy", "scikit-learn", "pandas"),
}
_NESTED = ("[", "{")
_LISTS_OF_RUNS = (*frame.STACKED, "datasets", "models", "losses", "repetitions")


# -- reading ---------------------------------------------------------------------------------------


def names(folder: Path = FOLDER) -> list[str]:
    """List the campaigns that have results."""
    return sorted(path.stem for path in (folder / "jobs").glob("*.csv"))


def read(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Read a campaign: a row for each run, with the parameters of its job.

    What was trained before a parameter was there has that parameter's default. A list is a tuple.
    Where it ran, when and with which versions stands at the end of each row.

    Raises:
        FileNotFoundError: if the campaign has no results; it names those that do.
        records.Unfit: if a table is damaged; it names the file.
    """
    return _read(name, stamps(folder, name)).copy()


def curves(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Read what the runs of a campaign have at every epoch: a row for each run and epoch.

    A set that was not evaluated at an epoch has no number there.
    """
    return _pandas("curves", name, folder)


def bins(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Read what the runs of a campaign have for every bin, class or fold.

    ``name`` says of what: of a reliability diagram, a histogram, an accuracy of each class.
    """
    return _pandas("bins", name, folder)


def points(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Read the features of test samples in the plane, with their classes."""
    return _pandas("points", name, folder)


@functools.lru_cache(64)
def _read(name: str, files: tuple[Stamp, ...]) -> pd.DataFrame:
    folder = _folder(name, files)
    runs, jobs = (pd.DataFrame(_columns(_path(folder, table, name))) for table in ("runs", "jobs"))
    parameters = jobs.drop(columns=["runs", *_LISTS_OF_RUNS], errors="ignore")
    together = runs.merge(parameters, on="job", how="inner", suffixes=("", "_of_job"))
    stacked = "temperature" in together
    for parameter, column in columns.PARAMETERS.items():
        if column.default is None or not (stacked or parameter in together):
            continue
        if parameter not in together:
            together[parameter] = column.default
        filled = together[parameter].where(together[parameter].notna(), column.default)
        together[parameter] = filled.astype(type(column.default))
    for column_name, values in together.items():
        if pd.api.types.is_object_dtype(values):
            together[column_name] = [
                tuple(value) if isinstance(value, list) else value for value in values
            ]
    end = [name for name in tables.PROVENANCE if name in together]
    return together[[*(name for name in together if name not in end), *end]]


def _pandas(table: str, name: str, folder: Path) -> pd.DataFrame:
    stamps(folder, name)  # the campaign is there
    path = _path(folder, table, name)
    return _table(path).to_pandas() if path.is_file() else pd.DataFrame({"job": [], "run": []})


def stamps(folder: Path = FOLDER, name: str | None = None) -> tuple[Stamp, ...]:
    """List the files of a campaign, or of all, with what changes with their content."""
    campaigns = names(folder) if name is None else [name]
    files = [
        _stamp(path)
        for one in campaigns
        for table in tables.TABLES
        if (path := _path(folder, table, one)).is_file()
    ]
    if name is not None and not _path(folder, "jobs", name).is_file():
        known = ", ".join(names(folder)) or "none"
        raise FileNotFoundError(f"there are no results of a campaign {name!r}; there are: {known}")
    return tuple(files)


def _stamp(path: Path) -> Stamp:
    status = os.stat(path)
    return path, status.st_mtime_ns, status.st_size, status.st_ino


def _path(folder: Path, table: str, name: str) -> Path:
    """Say where a table of a campaign is; the runs, which one looks for first, are at the top."""
    if table == "runs":
        return folder / f"{name}.csv"
    return folder / table / f"{name}.{'csv' if table == 'jobs' else 'parquet'}"


def _folder(name: str, files: tuple[Stamp, ...]) -> Path:
    return next(path.parents[1] for path, *_ in files if path.parent.name == "jobs")


# -- as records, for what is written for them ------------------------------------------------------


def jobs(name: str, folder: Path = FOLDER) -> Mapping[str, records.Record]:
    """Read the jobs of a campaign: parameters and metrics of their runs, without curves and bins.

    A campaign without results has none.
    """
    try:
        files = stamps(folder, name)
    except FileNotFoundError:
        return {}
    return _jobs(name, files)


@functools.lru_cache(64)
def _jobs(name: str, files: tuple[Stamp, ...]) -> Mapping[str, records.Record]:
    return _joined(name, _folder(name, files), lists=False)


def complete(name: str, folder: Path = FOLDER) -> Mapping[str, records.Record]:
    """Read the jobs of a campaign with everything that their records had."""
    return _joined(name, folder, lists=True)


def everything(folder: Path = FOLDER) -> pd.DataFrame:
    """Make one frame of the runs of all campaigns, as :func:`study.records.read` makes of records.

    It is kept while the tables stay as they are.
    """
    return _everything(folder, stamps(folder)).copy(deep=False)


@functools.lru_cache(4)
def _everything(folder: Path, files: tuple[Stamp, ...]) -> pd.DataFrame:
    return frame.of_records(
        (name, f"{job}.json", record)
        for name in names(folder)
        for job, record in sorted(complete(name, folder).items(), key=lambda one: f"{one[0]}.json")
    )


def _joined(name: str, folder: Path, *, lists: bool) -> dict[str, records.Record]:
    """Join the tables of a campaign, and hold them against each other."""
    runs_path = _path(folder, "runs", name)
    listed = _rows(_path(folder, "jobs", name))  # first: what is being added to is listed last
    rows = {
        job: list(of_job)
        for job, of_job in itertools.groupby(_rows(runs_path), lambda row: row["job"])
    }
    long = {table: _slices(_path(folder, table, name)) if lists else {} for table in _LONG}
    made = {}
    for job in listed:
        of_job = rows.get(job["job"], [])
        if [row["run"] for row in of_job] != list(range(job["runs"])):
            raise _unfit(runs_path, f"it has not the {job['runs']} runs of {job['job']}")
        keys = [(job["job"], number) for number in range(job["runs"])] if lists else []
        parts = {
            table: [slices.get(key, _nothing(slices)) for key in keys] if slices else []
            for table, slices in long.items()
        }
        made[job["job"]] = tables.joined(job, of_job, **parts)
    return made


_LONG = ("curves", "bins", "points")


def _nothing(slices: Mapping[Any, Mapping[str, Any]]) -> Mapping[str, Sequence[Any]]:
    return {column: [] for column in next(iter(slices.values()))}


def _slices(path: Path) -> dict[tuple[str, int], dict[str, list[Any]]]:
    """Cut the columns of a long table into those of its runs."""
    if not path.is_file():
        return {}
    every = _table(path)
    columns_of = {column: every[column].to_pylist() for column in every.column_names}
    keys = list(zip(columns_of.pop("job"), columns_of.pop("run"), strict=True))
    cut = {}
    begin = 0
    for key, of_key in itertools.groupby(keys):
        end = begin + sum(1 for _ in of_key)
        if key in cut:
            raise _unfit(path, f"the rows of {key[0]}, run {key[1]}, stand in two places")
        cut[key] = {column: values[begin:end] for column, values in columns_of.items()}
        begin = end
    return cut


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
        Refused: for files that are damaged, that are copies of another job, or whose job has rows
            with other numbers; the others are folded.
    """
    with locked(folder.parent / BUILD / f"{name}.lock", "adds to the tables"):
        there = complete(name, folder) if _path(folder, "jobs", name).is_file() else {}
        new: dict[str, records.Record] = {}
        folded, refused = list[Path](), list[str]()
        for job, path in sorted(files.items()):
            try:
                record = records.load(path)
                if there.get(job) != record:
                    if job in there and job not in replaced:
                        raise ValueError(
                            f"{name} has {job} already, with other numbers; delete one of the two"
                        )
                    _check(name, job, record, {**there, **new})
                    new[job] = record
                folded.append(path)
            except FileNotFoundError:
                continue
            except records.Unfit as error:
                refused.append(str(error))
            except ValueError as error:
                refused.append(f"{path} is refused: {error}")
        if new:
            _add(name, folder, new, [job for job in there if job in new])
        for path in folded:
            path.unlink(missing_ok=True)
    if refused:
        raise Refused("\n".join(refused))
    return list(new)


def _check(
    name: str, job: str, record: records.Record, known: Mapping[str, records.Record]
) -> None:
    """Refuse what would count twice, or would come back from the tables as something else."""
    twin = next((other for other, one in known.items() if other != job and one == record), None)
    if twin:
        raise ValueError(f"it is a copy of {twin}, whose runs would count twice; delete it")
    with tempfile.TemporaryDirectory() as place:
        _add(name, Path(place), {job: record}, [])
        if complete(name, Path(place)) != {job: record}:
            raise ValueError("it comes back from the tables as something else")


def _add(
    name: str, folder: Path, new: Mapping[str, records.Record], replaced: Sequence[str]
) -> None:
    paths = {table: _path(folder, table, name) for table in tables.TABLES}
    jobs, runs = (
        _cells(paths[table]) if paths[table].is_file() else [] for table in ("jobs", "runs")
    )
    jobs = [row for row in jobs if row["job"] not in new]
    if replaced:
        _write_csv(paths["jobs"], jobs, _FIRST["jobs"])
    kept = [row["job"] for row in jobs]
    runs = [row for row in runs if row["job"] in set(kept)]
    rows = [tables.split(job, record) for job, record in new.items()]
    for table in _LONG:
        if added := [row for one in rows for row in one[table]]:
            _write_parquet(paths[table], _appended(paths[table], kept, added))
    for table, before in (("runs", runs), ("jobs", jobs)):
        added = [row for one in rows for row in one[table]]
        cells = [{key: _cell(key, value) for key, value in row.items()} for row in added]
        _write_csv(paths[table], [*before, *cells], _FIRST[table])


_FIRST = {
    "runs": ("job", "run", *tables.KNOWN_BY),
    "jobs": ("job", "runs", "experiment", "dataset", "model", "loss"),
}


def _appended(path: Path, kept: Sequence[str], added: Sequence[Row]) -> pa.Table:
    """Append rows to those of a long table that belong to some jobs."""
    named = dict.fromkeys(key for row in added for key in row)
    more = pa.table({key: [row.get(key) for row in added] for key in named})
    if not path.is_file():
        return more
    before = _table(path)
    before = before.filter(pc.is_in(before["job"], pa.array(kept, pa.string())))
    return pa.concat_tables([before, more], promote_options="permissive")


# -- the files -------------------------------------------------------------------------------------


def _unfit(path: Path, reason: str) -> records.Unfit:
    return records.Unfit(f"{path} is damaged ({reason}); restore it: git checkout {path}")


def _rows(path: Path) -> list[Row]:
    """Read the rows of a table of texts, each with the cells that are not empty."""
    columns = _columns(path)
    return [
        {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        for row in zip(*columns.values(), strict=True)
    ]


def _columns(path: Path) -> dict[str, list[Any]]:
    """Read the columns of a table of texts.

    A cell is a text, or JSON: a number, true or false, a list. An empty one is None, and ``NaN`` is
    a number that was not finite.
    """
    rows = _cells(path)
    return {
        name: _values(path, name, [row[name] for row in rows]) for name in (rows[0] if rows else ())
    }


def _values(path: Path, name: str, cells: list[str]) -> list[Any]:
    if name in _TEXTS:
        return [json.loads(cell) if cell[:1] in _NESTED else cell or None for cell in cells]
    try:
        values: list[Any] = json.loads(f"[{','.join(cell or 'null' for cell in cells)}]")
    except ValueError:
        values = []
    if len(values) != len(cells):
        raise _unfit(path, f"a cell of {name} is none of a number, true, false and a list")
    return values


def _cells(path: Path) -> list[dict[str, str]]:
    """Read the cells of a table that is whole, sorted by job and run."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise _unfit(path, "it is no text") from error
    except FileNotFoundError:
        raise _unfit(path, "it is not there") from None
    if not text.endswith("\n"):
        raise _unfit(path, "its last line has no end")
    header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    for number, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise _unfit(path, f"line {number} has {len(line)} cells, not {len(header)}")
    if len(set(header)) < len(header) or "job" not in header:
        raise _unfit(path, "its first line does not name its columns")
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    try:
        keys = [_key(row) for row in rows]
    except ValueError as error:
        raise _unfit(path, "a cell of run is no number") from error
    if keys != sorted(set(keys)):
        twice = next((one for one, next in itertools.pairwise(keys) if one >= next), keys[0])
        raise _unfit(path, f"{twice[0]} stands twice, or is not in its place")
    return rows


def _key(row: Mapping[str, str]) -> tuple[str, int]:
    return row["job"], int(row.get("run", "0"))


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str):
        if name not in _TEXTS or not value or value[0] in _NESTED:
            raise ValueError(f"{name} cannot be the text {value[:50]!r} in a table")
        return value
    return json.dumps(value, ensure_ascii=False)


def _table(path: Path) -> pa.Table:
    """Read a long table, with the six digits of every number."""
    try:
        every = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise _unfit(path, " ".join(str(error).split())[:200]) from error
    for place, field in enumerate(every.schema):
        if field.type == pa.float32():
            texts = pc.cast(every.column(place), pa.string())  # the shortest that are the number
            every = every.set_column(place, field.name, pc.cast(texts, pa.float64()))
        elif pa.types.is_dictionary(field.type):
            every = every.set_column(place, field.name, pc.cast(every.column(place), pa.string()))
    return every


def _write_csv(path: Path, rows: Iterable[Mapping[str, str]], first: Sequence[str]) -> None:
    """Write cells, sorted by job and run, without columns that are empty."""
    ordered = sorted(rows, key=_key)
    used = {name for row in ordered for name, cell in row.items() if cell}
    last = [name for name in tables.PROVENANCE if name in used]
    header = [name for name in first if name in used or name == "job"]
    header += [*sorted(used - {*header, *last}), *last]
    text = io.StringIO()
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(ordered)
    write_whole(path, text.getvalue())


def _write_parquet(path: Path, every: pa.Table) -> None:
    """Write a long table, sorted; float32 holds six digits of a number of an ordinary size."""
    keys = [name for name in _KEYS if name in every.column_names]
    every = every.sort_by([(name, "ascending") for name in keys])
    order = sorted(set(every.column_names) - set(keys), key=_natural)
    every = every.select([*keys, *order])
    for place, field in enumerate(every.schema):
        if field.type == pa.float64():
            narrow = pc.cast(every.column(place), pa.float32(), safe=False)
            if _same(pc.cast(pc.cast(narrow, pa.string()), pa.float64()), every.column(place)):
                every = every.set_column(place, field.name, narrow)
    every = every.combine_chunks()
    many = [  # different numbers, whose bytes are small in another order
        field.name
        for field in every.schema
        if pa.types.is_floating(field.type) and len(every[field.name].unique()) > len(every) // 8
    ]
    few = [name for name in every.column_names if name not in many]
    options = {"use_dictionary": few, "use_byte_stream_split": many, "write_statistics": False}
    with whole(path) as file:
        pq.write_table(every, file, compression="zstd", compression_level=19, **options)


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Tell if two columns have the same numbers, gaps and NaN."""
    return one.to_pandas().equals(other.to_pandas()) and one.is_null().equals(other.is_null())


def _natural(name: str) -> tuple[str, int]:
    numbered = re.fullmatch(r"(.*?)(\d*)", name)
    assert numbered is not None
    return numbered[1], int(numbered[2] or -1)
