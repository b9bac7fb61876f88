"""A campaign file becomes a list of checked jobs.

The one rule by which a job is done; how much is done.
"""

import fnmatch
import functools
import itertools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from study import records, results
from study.experiment import EXPERIMENTS, Experiment, OneOf, explanation

_BYTES, _JOBS = 200_000, 100_000  # more than any campaign needs
_NO_RECORD = "it has no record"
_SHOWN = 20  # lines of records that will be replaced
_NODES = 100_000  # of a campaign file, its aliases written out
FRESH = Path("build") / "fresh"
"""Where campaigns are trained anew."""
_NAMES = "use letters, digits, dots, hyphens and underscores, at most 120 of them"


class CampaignError(ValueError):
    """A campaign file, a record or a table that cannot be used.

    The message names the file and says what to do.
    """


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(max_length=100)]
    experiment: Annotated[str, OneOf(tuple(EXPERIMENTS))]
    title: str = ""
    parameters: dict[str, Any] = {}
    each: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}
    minutes: Annotated[float, Field(gt=0, le=100_000)] | None = None
    memory: Annotated[int, Field(gt=0, le=10_000_000)] | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    title: str = ""
    defaults: dict[str, Any] = {}
    entries: Annotated[list[Any], Field(min_length=1)]


@dataclass(frozen=True)
class Job:
    """One run of the ``notebook`` of an experiment.

    ``record`` is the file that it writes, and ``tables`` the folder of the tables into which that
    is folded; ``minutes`` and MB of ``memory`` are expected. A ``fresh`` job has folders of its
    own, whatever the repository has, and no tables.
    """

    campaign: str
    id: str
    entry: str
    notebook: str
    parameters: Mapping[str, Any]
    record: Path
    tables: Path | None = None
    minutes: float | None = None
    memory: int | None = None
    fresh: bool = False

    @property
    def folder(self) -> Path:
        """Where its logs and checkpoints are, below the root of the project."""
        return FRESH / self.campaign if self.fresh else Path("build") / self.campaign

    def again(self, root: Path) -> "Job":
        """Give the job that trains the same anew and leaves the committed results alone."""
        record = root / FRESH / self.campaign / "records" / self.record.name
        return replace(self, record=record, tables=None, fresh=True)

    @functools.cached_property
    def experiment(self) -> Experiment:
        """Check what the job trains.

        An error names the job, what was given, what is valid, and the nearest match.
        """
        kind = EXPERIMENTS[self.notebook]
        try:
            if fixed := kind.fixed & set(self.parameters):
                raise ValueError(
                    f"the notebook {self.notebook} has no parameter {min(fixed)!r}: "
                    f"{', '.join(kind.parameters())}"
                )
            return kind(**self.parameters)
        except ValueError as error:
            raise CampaignError(f"campaign {self.campaign}, job {self.id}: {error}") from error

    @functools.cached_property
    def _expected(self) -> dict[str, Any]:
        """What the record must say; its environment says on which device it was measured."""
        return self.experiment.model_dump(exclude={"device", "scale", *self.experiment.fixed})

    @functools.cached_property
    def _planned(self) -> list[dict[str, Any]]:
        return self.experiment.planned()

    def missing(self, record: Path | None = None) -> str:
        """Say why the job is not done, by what it has measured; empty if it is.

        A job is done if its own file, or what the tables have of it, is of its notebook and its
        experiment, all defaults included, and holds exactly the runs that were planned, each
        trained to its end. A file that :func:`study.records.load` refuses counts as none: its job
        is run again. A parameter that was added later had its default. On which device it was
        measured and file times play no part.

        Args:
            record: the only file to look at.
        """
        if record is not None:
            return self._missing_in_file(record)
        in_file = self._missing_in_file(self.record)
        in_tables = in_file and self.missing_in_tables()
        return in_tables and (in_tables if in_file == _NO_RECORD else in_file)

    def _missing_in_file(self, record: Path) -> str:
        path = record.absolute()
        try:
            return self._unlike(_measured(path, _stamp(path)))
        except (FileNotFoundError, NotADirectoryError):
            return _NO_RECORD
        except records.Unfit as error:
            return f"it is refused: {str(error).partition('; delete it')[0]}"
        except OSError as error:
            raise CampaignError(
                str(error) if str(path) in str(error) else f"{path}: {error}"
            ) from error

    def missing_in_tables(self) -> str:
        """Say why what the tables have of the job is not what was planned; empty if it is."""
        try:
            there = results.jobs(self.campaign, self.tables).get(self.id) if self.tables else None
        except records.Unfit as error:
            raise CampaignError(str(error)) from error
        return self._unlike(there) if there else _NO_RECORD

    def measured(self) -> records.Record:
        """Give what a job that is done has measured: parameters and metrics of its runs."""
        if self._missing_in_file(self.record) and self.tables:
            return results.jobs(self.campaign, self.tables)[self.id]
        return _measured(self.record.absolute(), _stamp(self.record.absolute()))

    def _unlike(self, there: records.Record) -> str:
        """Say in what something that was measured is not what was planned."""
        if there.experiment != self.notebook:
            return f"its record is of the notebook {there.experiment}"
        for name, value in self._expected.items():
            default = type(self.experiment).model_fields[name].default
            asked = there.parameters.get(name, default)
            if not records.same(asked, value):
                return f"its record was measured with {name} {asked!r}, not {value!r}"
        planned = self._planned
        if len(there.runs) != len(planned):
            return f"its record has {len(there.runs)} runs, not {len(planned)}"
        for number, (run, values) in enumerate(zip(there.runs, planned, strict=True), start=1):
            if not records.same([run.get(name) for name in values], list(values.values())):
                return f"run {number} of its record is not the planned one: {values}"
        return ""

    @property
    def done(self) -> bool:
        """Say whether nothing is missing."""
        return not self.missing()

    @property
    def replaced(self) -> str:
        """Say what is wrong with a record that is there and will be replaced.

        Empty if there is none.
        """
        reason = self.missing()
        return "" if reason == _NO_RECORD else reason


@dataclass(frozen=True, eq=False)
class Campaign:
    """A campaign file with its jobs, in their order; one that was read again is another one."""

    name: str
    title: str
    jobs: tuple[Job, ...] = field(repr=False)


@dataclass(frozen=True)
class Plan:
    """A checked campaign: which of its jobs have their record, and which are to be run."""

    campaign: Campaign
    done: tuple[Job, ...]
    pending: tuple[Job, ...]

    def __str__(self) -> str:
        where = ", trained anew" if any(job.fresh for job in self.campaign.jobs) else ""
        done = f"{len(self.done)} of {len(self.campaign.jobs)}"
        text = f"{self.campaign.name}{where}: {done} jobs have their record"
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


def plan(name: str, root: Path, *, only: str = "", fresh: bool = False) -> Plan:
    """Read and check ``campaigns/<name>.yml`` of the project ``root``.

    Whatever would make a job fail is an error. A record that is damaged, or of something else,
    counts as missing, and the plan says why.

    Args:
        name: the campaign.
        root: the project.
        only: names or patterns of jobs, such as ``"relu-*,tanh-unit-seed0"``; empty for all.
        fresh: whether everything is trained anew, in a folder of its own.
    """
    campaign = chosen(named(name, root), only)
    for notebook in {job.experiment.notebook for job in campaign.jobs}:
        if not (root / "notebooks" / "experiments" / f"{notebook}.md").is_file():
            raise CampaignError(
                f"campaign {name}: there is no notebook notebooks/experiments/{notebook}.md"
            )
    if fresh:
        campaign = replace(campaign, jobs=tuple(job.again(root) for job in campaign.jobs))
    done, pending = (
        tuple(job for job in campaign.jobs if job.done is there) for there in (True, False)
    )
    return Plan(campaign, done, pending)


def collect(name: str, root: Path) -> str:
    """Fold the files of finished jobs of a campaign into its tables, and say how many.

    The files of the rehearsal stay where they are: its results are in no clone.

    Raises:
        CampaignError: for files that stay, each with its reason; the others are folded.
    """
    jobs = {job.id: job for job in named(name, root).jobs}
    if name == records.REHEARSAL:
        return f"{name} is a rehearsal: its records stay in {results.BUILD / name}"
    files, left = dict[str, Path](), list[str]()
    for path in sorted((root / results.BUILD / name).glob("*.json")):
        job = jobs.get(path.stem)
        reason = job.missing(path) if job else "the campaign has no such job"
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


@dataclass(frozen=True)
class Coverage:
    """How many of the planned trainings are measured."""

    done: int
    planned: int

    def __str__(self) -> str:
        return f"{self.done} of {self.planned} runs"


def coverage(jobs: Iterable[Job]) -> Coverage:
    """Count the trainings of some jobs."""
    counts = [(job.experiment.trainings, job.done) for job in jobs]
    return Coverage(
        done=sum(number for number, done in counts if done),
        planned=sum(number for number, _ in counts),
    )


def coverage_table(campaigns: Iterable[Campaign]) -> pd.DataFrame:
    """Count the trainings of some campaigns.

    There is a row for each campaign and each scale.

    Its columns are ``campaign``, ``what`` (the campaign's title), ``scale`` and ``runs``, in MyST.
    """
    by: dict[tuple[str, str, str], list[Job]] = {}
    for campaign in campaigns:
        title = records.verbatim(campaign.title)
        for job in campaign.jobs:
            key = (f"`{campaign.name}`", title, job.experiment.model_dump()["scale"])
            by.setdefault(key, []).append(job)
    return pd.DataFrame(
        [(*key, str(coverage(jobs))) for key, jobs in by.items()],
        columns=["campaign", "what", "scale", "runs"],
    )


def named(name: str, root: Path) -> Campaign:
    """Load the campaign of this name, which reaches paths and a shell."""
    if not isinstance(name, str) or not records.NAME.fullmatch(name):
        raise CampaignError(f"a campaign cannot be called {str(name)[:100]!r}; {_NAMES}")
    return load(root / "campaigns" / f"{name}.yml")


def load_all(folder: str | Path) -> list[Campaign]:
    """Read the campaigns of a folder."""
    return [load(path) for path in _campaigns(Path(folder))]


def _campaigns(folder: Path) -> list[Path]:
    """List the campaigns of a folder: its YAML files that have entries."""
    return [
        path
        for path in sorted(folder.glob("*.yml"))
        if re.search("^entries:", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def load(path: str | Path) -> Campaign:
    """Read a campaign file and expand it into jobs.

    Each has the file's parameters, then the entry's, then the value of ``each``.

    The tables are those of ``results`` beside the file's folder. A file that did not change is not
    read again.
    """
    path = Path(path)
    try:
        return _expanded(path, _stamp(path), _recipes(path.parent))
    except FileNotFoundError as error:
        there = ", ".join(one.stem for one in _campaigns(path.parent))
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
Stamp = tuple[int, int, int]  # time of change, size, inode


def _stamp(path: Path) -> Stamp:
    """Read what changes with a file's content."""
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino


@functools.cache
def _measured(path: Path, stamp: Stamp) -> records.Record:
    """Read a record, of which nothing but notebook, parameters and metrics is kept."""
    record = records.load(path)
    known = [
        {
            name: value
            for name, value in run.items()
            if name == "metrics" or not isinstance(value, list | dict)
        }
        for run in record.runs
    ]
    return replace(record, runs=known)


@dataclass(frozen=True, eq=False)
class _Recipes:
    """How networks are trained: parameters by the name that ``recipe`` of a campaign says."""

    path: Path
    named: Mapping[str, Any]

    def resolved(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Put the parameters of a recipe in the place of its name; others count before them."""
        own = {name: value for name, value in defaults.items() if name != "recipe"}
        recipe = defaults.get("recipe")
        if recipe is None:
            return own
        if not isinstance(recipe, str) or recipe not in self.named:
            known = ", ".join(self.named) or "none"
            raise CampaignError(
                f"{self.path}: there is no recipe {str(recipe)[:100]!r}; the recipes are: {known}"
            )
        return {**self.named[recipe], **own}


def _recipes(folder: Path) -> _Recipes:
    """Read ``recipes.yml`` beside some campaigns, if it is there."""
    path = folder / "recipes.yml"
    return _read_recipes(path, _stamp(path) if path.is_file() else None)


@functools.cache
def _read_recipes(path: Path, stamp: Stamp | None) -> _Recipes:
    if stamp is None:
        return _Recipes(path, {})
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # a SafeLoader
    if not isinstance(content, dict) or not all(isinstance(one, dict) for one in content.values()):
        raise CampaignError(f"{path} is no mapping of recipes to their parameters")
    return _Recipes(path, content)


@functools.cache
def _expanded(path: Path, stamp: Stamp, recipes: _Recipes) -> Campaign:
    if stamp[1] > _BYTES:
        raise CampaignError(f"{path} has {stamp[1]:,} bytes; the limit is {_BYTES:,}")
    file = _checked(
        _File, yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader), str(path)
    )  # _Loader is a SafeLoader
    if file.name != path.stem:
        raise CampaignError(
            f"{path}: the name is {file.name!r}, but the file's name says {path.stem!r}; they must "
            f"agree"
        )
    if not records.NAME.fullmatch(file.name):
        raise CampaignError(f"{path}: a campaign cannot be called {file.name[:100]!r}; {_NAMES}")
    defaults = recipes.resolved(file.defaults)
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
            chosen = dict(zip(entry.each, combination, strict=True))
            job_id = "-".join([entry.id, *(_slug(key, value) for key, value in chosen.items())])
            if not records.NAME.fullmatch(job_id):
                raise CampaignError(f"{where}: {job_id[:200]!r} cannot name a file; {_NAMES}")
            if job_id in jobs:
                raise CampaignError(
                    f"{path}: two jobs are called {job_id!r}; give the entries different ids"
                )
            if len(jobs) == _JOBS:
                raise CampaignError(f"{path} has more than {_JOBS:,} jobs")
            parameters = {**defaults, **entry.parameters, **chosen}
            jobs[job_id] = Job(
                campaign=file.name,
                id=job_id,
                entry=entry.id,
                notebook=entry.experiment,
                parameters=parameters,
                record=root / results.BUILD / file.name / f"{job_id}.json",
                tables=root / results.FOLDER.name,
                minutes=entry.minutes,
                memory=entry.memory,
            )
    return Campaign(name=file.name, title=file.title or file.name, jobs=tuple(jobs.values()))


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


class _Loader(yaml.SafeLoader):
    """YAML with numbers as everyone writes them, without silent double keys, and of a bounded size.

    Numbers are ``-3``, ``0.5``, ``1e-3``; what YAML 1.1 takes for one too is a text, which no
    parameter takes for a number: ``0_3``, ``1:30``, ``010``, ``0x1f``, ``.inf``, a date. A tag
    cannot make a value of it that it is not without one, but for a text.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None and _size(node, {}) > _NODES:
            raise yaml.constructor.ConstructorError(
                None, None, f"its aliases stand for more than {_NODES:,} values", node.start_mark
            )
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        is_scalar = isinstance(node, yaml.ScalarNode)
        plain = self.resolve(type(node), node.value if is_scalar else None, (True, False))
        if node.tag != plain and not (is_scalar and node.tag == self.DEFAULT_SCALAR_TAG):
            raise yaml.constructor.ConstructorError(
                None, None, f"leave out the tag {node.tag[:100]!r}", node.start_mark
            )
        return super().construct_object(node, deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for merged in (
            value
            for key, value in node.value
            if key.value == "<<" and isinstance(value, yaml.SequenceNode)
        ):
            keys += [f"<<: {key.value}" for mapping in merged.value for key, _ in mapping.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice in one mapping", node.start_mark
                )
        return super().construct_mapping(node, deep)


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values of a node with its aliases written out, without writing them out."""
    if id(node) not in known:
        known[id(node)] = _NODES  # of an alias that stands inside what it means
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_size(part, known) for part in inner)
    return known[id(node)]


for _kind, _written in {
    "null": "~|null|",
    "bool": "true|false",
    "int": "[-+]?(0|[1-9][0-9]{0,18})",
    "float": r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?",
    "merge": "<<",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"({_written})$"), None)
