"""What to run for which table: a campaign file becomes a list of jobs, and a count of what is done.

A campaign is a YAML file; each of its jobs is one run of one notebook and leaves one record, ``results/records/<campaign>/<job>.json``::

    name: mnist
    title: GD-1 Table 1 and Figures 4-7, at the paper's scale
    defaults: {dataset: mnist, epochs: 100}
    entries:
      - id: relu
        answers: [E3, E4, E5]                  # rows of the claims ledger
        template: train                        # notebooks/experiments/train.md
        parameters: {activation: relu}
        each: {seeds: [[0], [1], [2]]}         # one job for every value; several keys: for every combination
        minutes: 2                             # expected time of one job

A job is *done* when its record exists and was measured with the job's parameters. Nothing else counts: no file times, no notes of an
earlier run.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from study import records
from study.experiment import Experiment, of_template

__all__ = ["Campaign", "CampaignError", "Coverage", "Job", "coverage", "coverage_table", "load", "names"]

_TOP_KEYS: dict[str, type | tuple[type, ...]] = {"name": str, "title": str, "defaults": dict, "entries": list}
_ENTRY_KEYS: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "answers": list,
    "template": str,
    "parameters": dict,
    "each": dict,
    "minutes": (int, float),
    "title": str,
}
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


class CampaignError(ValueError):
    """A campaign file or a record that cannot be used; the message names the file and says what to do."""


@dataclass(frozen=True)
class Job:
    """One run of one notebook.

    Attributes:
        campaign: name of the campaign.
        id: name of the job, unique in the campaign.
        entry: ``id`` of the entry that it was made from.
        template: notebook of ``notebooks/experiments``, without its ending.
        parameters: what the campaign sets; every other parameter keeps the notebook's default.
        record: where the record is written.
        answers: rows of the claims ledger.
        minutes: expected time, or None.
    """

    campaign: str
    id: str
    entry: str
    template: str
    parameters: Mapping[str, Any]
    record: Path
    answers: tuple[str, ...] = ()
    minutes: float | None = None

    def done(self, expected: Mapping[str, Any] | None = None) -> bool:
        """Whether the record is there and was measured with this job's parameters.

        Args:
            expected: all parameters with the notebook's defaults filled in. They are compared where the record knows the name, so that a
                parameter that was added later does not make old records worthless.

        Raises:
            CampaignError: if the record cannot be read.
        """
        try:
            measured = _measured(self.record.absolute(), _stamp(self.record))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except ValueError as error:
            raise CampaignError(str(error)) from error
        if any(name not in measured or not _same(measured[name], value) for name, value in self.parameters.items()):
            return False
        return all(_same(measured[name], value) for name, value in (expected or {}).items() if name in measured)

    @functools.cached_property
    def trainings(self) -> int:
        """How many networks it trains: schedules x temperatures x seeds, or data sets x seeds x folds."""
        kind = of_template(self.template)
        fields = {field.name for field in dataclasses.fields(kind)}
        return len(kind(**{name: value for name, value in self.parameters.items() if name in fields}).runs())


@dataclass(frozen=True)
class Campaign:
    """A campaign file with its jobs, in the order of the file."""

    name: str
    title: str
    path: Path
    jobs: tuple[Job, ...] = field(repr=False)


@dataclass(frozen=True)
class Coverage:
    """How much of a plan is measured.

    Example:
        >>> print(Coverage(done=3, planned=5))
        3 of 5 runs
    """

    done: int
    planned: int

    def __str__(self) -> str:
        return f"{self.done} of {self.planned} runs"


def names(folder: str | Path) -> list[str]:
    """The campaigns of a folder: its YAML files that have entries."""
    files = sorted(Path(folder).glob("*.yml"))
    return [path.stem for path in files if re.search("^entries:", path.read_text(encoding="utf-8"), re.MULTILINE)]


def load(path: str | Path, folder: str | Path | None = None) -> Campaign:
    """Read a campaign file and expand it into jobs.

    Args:
        path: the YAML file, ``campaigns/<name>.yml``.
        folder: of all records; by default ``results/records`` beside the file's folder.

    Returns:
        The campaign, with every job's parameters: the file's defaults, then the entry's, then the value of ``each``.

    Raises:
        CampaignError: for a file that is missing, is not YAML, has unknown or missing keys, or gives two jobs the same name.
    """
    path = Path(path)
    raw = _read_yaml(path)
    _check_keys(raw, _TOP_KEYS, {"name", "entries"}, str(path))
    name = raw["name"]
    if name != path.stem:
        raise CampaignError(f"{path}: the name is {name!r}, but the file's name says {path.stem!r}; they must agree")
    home = (Path(folder) if folder is not None else path.resolve().parent.parent / "results" / "records") / name

    jobs: list[Job] = []
    for number, entry in enumerate(raw["entries"]):
        where = f"{path}, entry {number + 1}" + (f" ({entry['id']})" if isinstance(entry, dict) and "id" in entry else "")
        _check_keys(entry, _ENTRY_KEYS, {"id", "template"}, where)
        each = entry.get("each") or {}
        for key, values in each.items():
            if not isinstance(values, list) or not values:
                raise CampaignError(f"{where}: each: {key} must be a list of values, one job for each; got {values!r}")
            if key in (entry.get("parameters") or {}):
                raise CampaignError(f"{where}: {key} stands in `parameters` and in `each`; keep one of them")
        for combination in itertools.product(*each.values()):
            chosen = dict(zip(each, combination, strict=True))
            job_id = "-".join([entry["id"], *(_slug(key, value) for key, value in chosen.items())])
            if not _NAME.fullmatch(job_id):
                raise CampaignError(f"{where}: {job_id!r} cannot name a file; use small letters, digits, dots and hyphens")
            jobs.append(
                Job(
                    campaign=name,
                    id=job_id,
                    entry=entry["id"],
                    template=entry["template"],
                    parameters={**(raw.get("defaults") or {}), **(entry.get("parameters") or {}), **chosen},
                    record=home / f"{job_id}.json",
                    answers=tuple(str(row) for row in entry.get("answers") or ()),
                    minutes=entry.get("minutes"),
                )
            )
    seen: set[str] = set()
    for job in jobs:
        if job.id in seen:
            raise CampaignError(f"{path}: two jobs are called {job.id!r}; give the entries different ids")
        seen.add(job.id)
    return Campaign(name=name, title=str(raw.get("title", name)), path=path, jobs=tuple(jobs))


def coverage(path: str | Path, answers: str | None = None, *, entry: str | None = None, folder: str | Path | None = None) -> Coverage:
    """Count the runs of a campaign that are measured. A job counts as its :attr:`Job.trainings`.

    The campaign and its records are read again only if they changed, so that this may be called for every row of a table.

    Args:
        path: the campaign file.
        answers: count only the jobs for this row of the claims ledger, such as ``"E3"``.
        entry: count only the jobs of the entry with this ``id``.
        folder: as in :func:`load`.

    Returns:
        The runs done and planned.

    Raises:
        CampaignError: as :func:`load`, and for a record that cannot be read.
    """
    jobs = [job for job in load(path, folder).jobs if (answers is None or answers in job.answers) and (entry is None or job.entry == entry)]
    return Coverage(done=sum(job.trainings for job in jobs if job.done()), planned=sum(job.trainings for job in jobs))


def coverage_table(folder: str | Path, answers: Iterable[str], *, records_folder: str | Path | None = None) -> pd.DataFrame:
    """The runs done and planned for some rows of the claims ledger, campaign by campaign.

    Args:
        folder: of the campaign files.
        answers: rows of the ledger, such as ``["E11", "E12"]``; a job that answers several of them counts once.
        records_folder: as ``folder`` in :func:`load`.

    Returns:
        One row for each campaign and scale with ``campaign``, ``what`` (the campaign's title), ``scale`` and ``runs``.

    Raises:
        CampaignError: as :func:`coverage`.
    """
    wanted = set(answers)
    counts: dict[tuple[str, str, str], tuple[int, int]] = {}
    for name in names(folder):
        found = load(Path(folder) / f"{name}.yml", records_folder)
        for job in found.jobs:
            if wanted & set(job.answers):
                key = (name, found.title, str(job.parameters.get("scale", Experiment().scale)))
                done, planned = counts.get(key, (0, 0))
                counts[key] = (done + (job.trainings if job.done() else 0), planned + job.trainings)
    rows = [(f"`{name}`", title, scale, str(Coverage(done, planned))) for (name, title, scale), (done, planned) in counts.items()]
    return pd.DataFrame(rows, columns=["campaign", "what", "scale", "runs"])


Stamp = tuple[int, int, int]  # time of change, size, inode


def _stamp(path: Path) -> Stamp:
    """What changes with a file's content: it says whether a file that was read has to be read again."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino


@functools.cache
def _measured(path: Path, stamp: Stamp) -> Mapping[str, Any]:
    """The parameters of a record."""
    return records.load(path).parameters


def _same(left: Any, right: Any) -> bool:
    """Equality of two values, one of which went through a record: 1 is 1.0, a tuple is a list, True is not 1, floats have six digits."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        return isinstance(left, int | float) and isinstance(right, int | float) and math.isclose(left, right, rel_tol=1e-5)
    return bool(left == right)


def _slug(key: str, value: Any) -> str:
    """A value of ``each`` as a part of the job's name: seeds [0] is seed0, lr 0.01 is lr0.01; a text stands alone."""
    if isinstance(value, str):
        key = ""
    if isinstance(value, list | tuple):
        if len(value) == 1 and key.endswith("s"):
            key = key[:-1]
        parts = [_plain(item) for item in value]
    else:
        parts = [_plain(value)]
    return re.sub(r"[^a-z0-9.-]+", "-", f"{key}{'-'.join(parts)}".lower()).strip("-")


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _check_keys(mapping: Any, types: Mapping[str, type | tuple[type, ...]], required: set[str], where: str) -> None:
    if not isinstance(mapping, dict):
        raise CampaignError(f"{where}: expected a mapping with the keys {', '.join(types)}; got {mapping!r}")
    if unknown := sorted(set(mapping) - set(types)):
        raise CampaignError(f"{where}: unknown key {unknown[0]!r}; the valid ones are {', '.join(types)}")
    if missing := sorted(required - set(mapping)):
        raise CampaignError(f"{where}: the key {missing[0]!r} is missing")
    for key, value in mapping.items():
        if value is not None and not isinstance(value, types[key]):
            raise CampaignError(f"{where}: {key} is {value!r}, which has the wrong type")


class _Loader(yaml.SafeLoader):
    """YAML with 1e-3 as a number, as everyone expects, and without silent double keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice in one mapping", node.start_mark)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789"))


@functools.cache
def _parsed(path: Path, stamp: Stamp) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # _Loader is a SafeLoader


def _read_yaml(path: Path) -> Any:
    try:
        return _parsed(path.absolute(), _stamp(path))
    except FileNotFoundError as error:
        raise CampaignError(f"There is no campaign file {path}; the campaigns are: {', '.join(names(path.parent)) or 'none'}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CampaignError(f"{path} is not a readable campaign file: {error}") from error
