"""A campaign file becomes a list of checked jobs; which of them are done, and what is left."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from study import parameters, results
from study.mistakes import explanation

REHEARSAL = "quick"
"""The campaign that rehearses the road; its results are in no clone and on no page."""
FRESH = Path("build") / "fresh"
"""Where campaigns are trained anew."""

_BYTES, _VALUES, _JOBS = 200_000, 100_000, 100_000  # more than any campaign needs
_SHOWN = 20  # lines of files that will be replaced
_NO_RESULT = "it has no result"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")  # it reaches paths and a shell
_NAMES = "use letters, digits, dots, hyphens and underscores, at most 120 of them"


class CampaignError(ValueError):
    """A campaign file, a result or a table that cannot be used.

    The message names the file and says what to do.
    """


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(max_length=100)]
    parameters: dict[str, Any] = {}
    each: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    minutes: Annotated[float, Field(gt=0, le=100_000)] | None = None
    memory: Annotated[int, Field(gt=0, le=10_000_000)] | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    page: str
    defaults: dict[str, Any] = {}
    entries: Annotated[list[Any], Field(min_length=1)]


@dataclass(frozen=True)
class Job:
    """One execution of a page.

    ``record`` is the file that it writes, and ``tables`` the folder of the tables into which that
    is folded; ``minutes`` and MB of ``memory`` are expected. A ``fresh`` job has folders of its
    own, whatever the repository has, and no tables.
    """

    campaign: str
    id: str
    page: str
    given: Mapping[str, Any]
    record: Path
    tables: Path | None = None
    minutes: float | None = None
    memory: int | None = None
    fresh: bool = False

    @property
    def folder(self) -> Path:
        """Where its logs and checkpoints are, below the root of the project."""
        return FRESH / self.campaign if self.fresh else Path("build") / self.campaign

    def again(self, root: Path) -> Job:
        """Give the job that trains the same anew and leaves the committed results alone."""
        record = root / FRESH / self.campaign / "results" / self.record.name
        return replace(self, record=record, tables=None, fresh=True)

    @functools.cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of its page, checked and whole.

        Raises:
            CampaignError: it names the job, what was given, what is valid, and the nearest match.
        """
        try:
            return parameters.checked(self.page, self.given)
        except ValueError as error:
            raise CampaignError(f"campaign {self.campaign}, job {self.id}: {error}") from error

    def missing(self) -> str:
        """Say why the job is not done; empty if it is.

        A job is done if its own file, or what the tables have of it, was made with its parameters,
        all defaults included. On which device it ran and file times play no part.
        """
        in_file = self.missing_in_file(self.record)
        in_tables = in_file and self.missing_in_tables()
        return in_tables and (in_tables if in_file == _NO_RESULT else in_file)

    def missing_in_file(self, path: Path) -> str:
        """Say why what a file has of the job is not what was planned; empty if it is."""
        try:
            return self._unlike(results.load(path)["job"])
        except (FileNotFoundError, NotADirectoryError):
            return _NO_RESULT
        except results.Unfit as error:
            return f"it is refused: {str(error).partition('; delete it')[0]}"
        except OSError as error:
            raise CampaignError(f"{path}: {error}") from error

    def missing_in_tables(self) -> str:
        """Say why what the tables have of the job is not what was planned; empty if it is."""
        if not self.tables:
            return _NO_RESULT
        try:
            there = results.jobs(self.campaign, self.tables).get(self.id)
        except results.Unfit as error:
            raise CampaignError(str(error)) from error
        return self._unlike(there) if there else _NO_RESULT

    def _unlike(self, there: Mapping[str, Any]) -> str:
        """Say in what something that was measured is not what was planned.

        A parameter that was added later had its default.
        """
        offered = parameters.offered(self.page)
        for name, value in self.parameters.items():
            was = there.get(name, offered[name])
            if name != "device" and not _same(was, value):
                return f"it was made with {name} {was!r}, not {value!r}"
        planned = len(parameters.planned(self.parameters))
        if there["runs"] != planned:
            return f"it has {there['runs']} runs, not {planned}"
        return ""

    @property
    def needs_gpu(self) -> bool:
        """Say whether its page is asked to train on a GPU."""
        return self.parameters.get("device") == "cuda"

    @property
    def done(self) -> bool:
        """Say whether nothing is missing."""
        return not self.missing()

    @property
    def replaced(self) -> str:
        """Say what is wrong with a result that is there and will be replaced; empty for none."""
        reason = self.missing()
        return "" if reason == _NO_RESULT else reason


def _same(left: Any, right: Any) -> bool:
    """Compare two values, one of which went through a table: 1.0 is 1, a list is a tuple."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=1e-9)
    return bool(left == right)


@dataclass(frozen=True, eq=False)
class Campaign:
    """A campaign file with its jobs, in their order; one that was read again is another one."""

    name: str
    page: str
    jobs: tuple[Job, ...] = field(repr=False)


@dataclass(frozen=True)
class Plan:
    """A checked campaign: which of its jobs have their result, and which are to be run.

    Those ``left`` have no result, and need a GPU where there is none.
    """

    campaign: Campaign
    done: tuple[Job, ...]
    pending: tuple[Job, ...]
    left: tuple[Job, ...] = ()

    def __str__(self) -> str:
        where = ", trained anew" if any(job.fresh for job in self.campaign.jobs) else ""
        done = f"{len(self.done)} of {len(self.campaign.jobs)}"
        text = f"{self.campaign.name}{where}: {done} jobs have their result"
        if self.left:
            text += f"; {len(self.left)} need a GPU, which PyTorch does not find here: left out"
        if not self.pending:
            return text + "; nothing to run"
        minutes = sum(job.minutes or 0 for job in self.pending)
        text += f"; {len(self.pending)} to run, about {in_minutes(minutes)} one after another"
        others = [f"  {job.id}: {reason}" for job in self.pending if (reason := job.replaced)]
        more = [f"  and {len(others) - _SHOWN} more"] if len(others) > _SHOWN else []
        return "\n".join([text, *others[:_SHOWN], *more])


def in_minutes(minutes: float) -> str:
    """Write a time with as many digits as an estimate has."""
    return f"{minutes:.0f} minutes" if minutes >= 10 else f"{minutes:.2g} minutes"


def plan(
    name: str, root: Path, *, only: str = "", fresh: bool = False, gpu: bool | None = None
) -> Plan:
    """Read and check ``campaigns/<name>.yml`` of the project ``root``.

    A parameter that its page does not know or cannot use is an error, in whatever job it stands. A
    result that is damaged, or of something else, counts as missing, and the plan says why.

    Args:
        name: the campaign.
        root: the project.
        only: names or patterns of jobs, such as ``"relu-*,tanh-unit-seed0"``; empty for all.
        fresh: whether everything is trained anew, in a folder of its own.
        gpu: whether jobs can have a GPU; None to ask PyTorch.
    """
    campaign = chosen(named(name, root), only)
    for job in campaign.jobs:
        _ = job.parameters  # checks them
    if fresh:
        campaign = replace(campaign, jobs=tuple(job.again(root) for job in campaign.jobs))
    gpu = torch.cuda.is_available() if gpu is None else gpu
    done, pending, left = list[Job](), list[Job](), list[Job]()
    for job in campaign.jobs:
        (done if job.done else left if job.needs_gpu and not gpu else pending).append(job)
    return Plan(campaign, tuple(done), tuple(pending), tuple(left))


def collect(name: str, root: Path) -> str:
    """Fold the files of finished jobs of a campaign into its tables, and say how many.

    The files of the rehearsal stay where they are: its results are in no clone.

    Raises:
        CampaignError: for files that stay, each with its reason; the others are folded.
    """
    jobs = {job.id: job for job in named(name, root).jobs}
    if name == REHEARSAL:
        return f"{name} is a rehearsal: its results stay in {results.BUILD / name}"
    files, left = dict[str, Path](), list[str]()
    for path in sorted((root / results.BUILD / name).glob("*.json")):
        job = jobs.get(path.stem)
        reason = job.missing_in_file(path) if job else "the campaign has no such job"
        if reason:
            left.append(f"{path}: {reason}; delete it")
        else:
            files[path.stem] = path
    others = {job for job in files if jobs[job].missing_in_tables()}
    folded: list[str] = []
    try:
        folded = results.collect(name, files, root / results.FOLDER.name, replaced=others)
    except results.Refused as error:
        left.append(str(error))
    if left:
        raise CampaignError("\n".join(left))
    return f"{name}: {len(folded)} more jobs are in {results.FOLDER.name}/{name}.csv"


def chosen(campaign: Campaign, only: str) -> Campaign:
    """Keep the jobs of a campaign whose names match one of some patterns, separated by commas."""
    patterns = [pattern for pattern in re.split(r"[,\s]+", only) if pattern]
    if not patterns:
        return campaign
    for pattern in patterns:
        if not fnmatch.filter([job.id for job in campaign.jobs], pattern):
            shown = ", ".join(job.id for job in campaign.jobs[:_SHOWN])
            more = ", …" if len(campaign.jobs) > _SHOWN else ""
            raise CampaignError(
                f"campaign {campaign.name}: no job matches {pattern[:100]!r}; its jobs are:"
                f" {shown}{more}"
            )
    kept = tuple(
        job
        for job in campaign.jobs
        if any(fnmatch.fnmatchcase(job.id, pattern) for pattern in patterns)
    )
    return replace(campaign, jobs=kept)


def named(name: str, root: Path) -> Campaign:
    """Load the campaign of this name, which reaches paths and a shell."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise CampaignError(f"a campaign cannot be called {str(name)[:100]!r}; {_NAMES}")
    return load(root / "campaigns" / f"{name}.yml")


def load(path: str | Path) -> Campaign:
    """Read a campaign file and expand it into jobs.

    Each has the file's parameters, then the entry's, then the value of ``each``. The tables are
    those of ``results`` beside the file's folder.
    """
    path = Path(path)
    try:
        return _expanded(path)
    except FileNotFoundError as error:
        there = ", ".join(one.stem for one in sorted(path.parent.glob("*.yml")))
        raise CampaignError(
            f"There is no campaign file {path}; the campaigns are: {there or 'none'}"
        ) from error
    except CampaignError:
        raise
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise CampaignError(
            f"{path} is not a readable campaign file: {str(error)[:500]}"
        ) from error


_Model = TypeVar("_Model", bound=BaseModel)


def _expanded(path: Path) -> Campaign:
    if (size := os.stat(path).st_size) > _BYTES:
        raise CampaignError(f"{path} has {size:,} bytes; the limit is {_BYTES:,}")
    text = path.read_text(encoding="utf-8")
    _bounded(text)
    file = _checked(_File, yaml.safe_load(text), str(path))
    if not _NAME.fullmatch(path.stem):
        raise CampaignError(f"{path}: a campaign cannot be called {path.stem[:100]!r}; {_NAMES}")
    known = [page for page in parameters.pages() if "record" in parameters.offered(page)]
    if file.page not in known:
        raise CampaignError(
            f"{path}: there is no page {file.page[:100]!r} that writes results; there are: "
            f"{', '.join(known)}"
        )
    root = path.resolve().parent.parent
    jobs: dict[str, Job] = {}
    for number, raw in enumerate(file.entries, start=1):
        where = f"{path}, entry {number}" + (
            f" ({str(raw['id'])[:60]})" if isinstance(raw, dict) and "id" in raw else ""
        )
        entry = _checked(_Entry, raw, where)
        if twice := set(entry.each) & set(entry.parameters):
            raise CampaignError(
                f"{where}: {min(twice)} stands in `parameters` and in `each`; keep one of them"
            )
        for combination in itertools.product(*entry.each.values()):
            each = dict(zip(entry.each, combination, strict=True))
            job_id = "-".join([entry.id, *(_slug(key, value) for key, value in each.items())])
            if not _NAME.fullmatch(job_id):
                raise CampaignError(f"{where}: {job_id[:200]!r} cannot name a file; {_NAMES}")
            if job_id in jobs:
                raise CampaignError(
                    f"{path}: two jobs are called {job_id!r}; give the entries different ids"
                )
            if len(jobs) == _JOBS:
                raise CampaignError(f"{path} has more than {_JOBS:,} jobs")
            jobs[job_id] = Job(
                campaign=path.stem,
                id=job_id,
                page=file.page,
                given={**file.defaults, **entry.parameters, **each},
                record=root / results.BUILD / path.stem / f"{job_id}.json",
                tables=root / results.FOLDER.name,
                minutes=entry.minutes,
                memory=entry.memory,
            )
    return Campaign(path.stem, file.page, tuple(jobs.values()))


def _checked(kind: type[_Model], raw: Any, where: str) -> _Model:
    """Check a mapping of a campaign file; a key without a value counts as left out."""
    if isinstance(raw, dict):
        raw = {key: value for key, value in raw.items() if value is not None}
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise CampaignError(
            f"{where}: {explanation(error, list(kind.model_fields), word='key')}"
        ) from error


def _slug(key: str, value: Any) -> str:
    """Write a value of ``each`` as a part of the job's name: seeds [0] is seed0, lr 0.01 is lr0.01.

    A text stands alone.
    """
    if isinstance(value, str):
        key = ""
    if isinstance(value, list) and len(value) == 1 and key.endswith("s"):
        key = key[:-1]
    parts = [
        f"{item:g}" if isinstance(item, float) else str(item)
        for item in (value if isinstance(value, list) else [value])
    ]
    return re.sub(r"[^a-z0-9.-]+", "-", f"{key}{'-'.join(parts)}".lower()).strip("-")


def _bounded(text: str) -> None:
    """Refuse a key that stands twice, and aliases for very many values before they are written."""
    todo, count = [yaml.compose(text, yaml.SafeLoader)], 0
    while todo:
        node = todo.pop()
        inner = node.value if isinstance(node, yaml.CollectionNode) else []
        count += len(inner)
        if count > _VALUES:
            raise ValueError(f"its aliases stand for more than {_VALUES:,} values")
        if not isinstance(node, yaml.MappingNode):
            todo += inner
            continue
        if len({str(key.value) for key, _ in inner}) < len(inner):
            line = node.start_mark.line + 1
            raise ValueError(f"a key stands twice in the mapping that begins in line {line}")
        todo += itertools.chain.from_iterable(inner)
