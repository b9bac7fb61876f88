"""Records: one JSON file for each job.

It has the parameters, data version, environment, metrics and curves of the job.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import platform
import re
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from functools import cache, lru_cache
from importlib import metadata
from io import BufferedRandom
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, get_args

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import from_json
from typing_extensions import TypedDict  # that of typing, with Python 3.12 and later

from study import ROOT
from study.methods import Method

FOLDER = ROOT / "results" / "records"
REHEARSAL = "quick"
"""The campaign that rehearses every template; its records are in no clone and on no page."""

_Scale = Literal["paper", "reduced", "smoke"]
SCALES = get_args(_Scale)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
"""What a campaign, a job and a record may be called: it reaches paths and a shell."""

_OLD_NAMES = {
    "decay": "lr_schedule",
    "method": "loss",
}  # of parameters, in records that were written before they were renamed
_SCHEMA = 1
_DIGITS = 6
_STRING_OR_NUMBERS = re.compile(
    r'"(?:[^"\\]|\\.)*"|\[\s[^\[\]{}"]*\]'
)  # a list of numbers is one line; strings stay as they are

# What may have a meaning in Markdown, MyST or HTML: some characters anywhere, more of them at the
# beginning of a line, and those that make a number there the mark of a list.
_ACTIVE = re.compile(r"^[^\w ]|(?<=^\d)[.)]|(?<=^\d\d)[.)]|(?<=^\d\d\d)[.)]|[^\w ,.'()%+/→-]|_")


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class Record:
    """The outcome of one job; an interrupted one leaves none."""

    template: str  # name of the notebook that ran
    parameters: dict[str, Any]
    data: dict[
        str, Any
    ]  # name, source and exact copy of the data set, number of samples in each split
    model: dict[str, Any]  # its name and the number of parameters of one run
    runs: list[
        dict[str, Any]
    ]  # each with what it is known by, its metrics (numbers) and curves (lists)
    epochs_done: Annotated[int, Field(ge=0)]
    wall_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    scale: _Scale
    environment: dict[str, Any] = field(default_factory=dict)
    schema: int = _SCHEMA

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the record atomically: the file is there whole, or it is not there.

        Raises:
            ValueError: where it is none that :func:`load` would read.
        """
        content = _plain(asdict(self)) | {
            "parameters": _plain(self.parameters, digits=17)
        }  # what was asked for is kept exactly
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        text = _STRING_OR_NUMBERS.sub(
            lambda part: part[0] if part[0].startswith('"') else " ".join(part[0].split()), text
        )
        try:
            _fitting(text.encode())
        except _UNFIT as error:
            raise ValueError(
                f"what was measured is no record ({_reason(error)}); nothing is written to {path}"
            ) from error
        return write_whole(path, text + "\n")


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text as :func:`whole` does."""
    with whole(path) as file:
        file.write(text.encode())
    return Path(path)


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[BufferedRandom]:
    """Write a file atomically, also where several machines write to one folder.

    It is there whole, or it is not there.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{socket.gethostname()}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def verbatim(text: object) -> str:
    """Write a text so that Markdown, MyST and HTML show it letter by letter.

    The text is of a campaign or a record.

    Whatever has a meaning there becomes a reference to its character, and the text is one line.
    Every such text goes through here before it becomes part of a page: titles, names, devices,
    versions, messages.

    Example:
        >>> verbatim("β = 1, <b>`x`</b>")
        'β &#61; 1, &#60;b&#62;&#96;x&#96;&#60;/b&#62;'
        >>> verbatim("1. MNIST")
        '1&#46; MNIST'
    """
    line = " ".join("".join(filter(str.isprintable, str(text).replace("\n", " "))).split())
    return _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", line)


def load(path: str | os.PathLike[str]) -> Record:
    """Read one record, its parameters under the names of today.

    The ends of a warm-up stand as numbers beside its label.

    Raises:
        ValueError: for a file that is not a whole record, or holds what no training leaves.
    """
    try:
        record = _fitting(Path(path).read_bytes())
        for run in record.runs:
            if run.get("warmup_epochs") and "warmup_start" not in run:
                (ends,) = {
                    (start, end)
                    for start, end, _ in record.parameters["warmups"]
                    if f"warm-up {start:g}→{end:g}" == run["schedule"]
                }
                run |= dict(zip(("warmup_start", "warmup_end"), ends, strict=True))
        return record
    except _UNFIT as error:
        raise Unfit(
            f"{path} is not a whole record ({_reason(error)}); delete it and run its job again"
        ) from error


class Unfit(ValueError):
    """A file is no record, or one with what no training leaves."""


# --- what a record may hold ---

_Number = Annotated[float, Field(ge=-1e300, le=1e300)]  # these bounds exclude NaN and infinity too
_Positive = Annotated[float, Field(gt=0, le=1e300)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0, le=2**53)]
_Curves = dict[str, list[_Number | None]]


class _Reliability(TypedDict):
    """The bins of a reliability diagram; an empty one has neither confidence nor accuracy."""

    upper: list[_Share]
    count: list[_Count]
    confidence: list[_Share | None]
    accuracy: list[_Share | None]


class _Run(TypedDict):
    """What every run has, and what it may have; more is added by single notebooks."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]

    seed: _Count
    metrics: dict[str, _Number | None]
    diverged: NotRequired[bool]


class _Stacked(_Run):
    """A run of a stack, with its curves.

    What is told of its confidence is not there where it diverged.
    """

    schedule: str
    beta: _Positive
    temperature: _Positive
    curves: _Curves
    warmup_epochs: NotRequired[Annotated[float, Field(ge=0, le=1e300)]]
    confidence_counts: NotRequired[list[_Count]]
    confidence_histogram: NotRequired[list[_Count]]
    test_ece_interval: NotRequired[list[_Share]]
    reliability: NotRequired[_Reliability]
    reliability_temperature: NotRequired[_Reliability]
    reliability_vector: NotRequired[_Reliability]
    reliability_link: NotRequired[_Reliability]
    class_accuracy: NotRequired[list[_Share]]


class _Repeated(_Run):
    """A cross-validation of one table."""

    dataset: str
    curves: _Curves
    fold_accuracies: list[_Share]


class _Timed(_Run):
    """A repetition of a measurement of time."""

    model: str
    loss: str


class _Data(TypedDict):
    """A data set; without a training it has less."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    name: str
    source: str
    copy: str | dict[str, str]
    train: NotRequired[_Count]
    valid: NotRequired[_Count]
    test: NotRequired[_Count]


class _Model(TypedDict):
    """A network."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    name: str
    parameters: Annotated[int, Field(gt=0, le=2**53)] | dict[str, _Count]


_ACCURACIES = ("test_accuracy", "train_accuracy")
_FORMS: dict[str, tuple[type[_Run], tuple[str, ...]]] = {
    "train": (_Stacked, _ACCURACIES),
    "curriculum": (_Stacked, _ACCURACIES),
    "feature-plane": (_Stacked, _ACCURACIES),
    "cross-validation": (_Repeated, _ACCURACIES),
    "cost": (_Timed, ("step_seconds", "criterion_seconds")),
}
"""For each notebook the form of its runs, and the metrics without which they say nothing."""

_RUNS: dict[type[_Run], TypeAdapter[Any]] = {
    _Stacked: TypeAdapter(Annotated[list[_Stacked], Field(min_length=1)]),
    _Repeated: TypeAdapter(Annotated[list[_Repeated], Field(min_length=1)]),
    _Timed: TypeAdapter(Annotated[list[_Timed], Field(min_length=1)]),
}
_DATA, _MODEL = TypeAdapter(_Data), TypeAdapter(_Model)

# The first that fits the name of a metric or of a curve says between what it lies.
_LIMITS = (
    (re.compile("accuracy|confidence|ece|mce|rmsce|dead|saturated"), (0.0, 1.0)),
    (re.compile("brier"), (0.0, 2.0)),
    (re.compile("cross_entropy|nll|seconds|diverged_folds|epoch|beta"), (0.0, 1e300)),
    (re.compile("angle|inter|intra"), (0.0, math.pi + 1e-5)),
    (re.compile(""), (-1e300, 1e300)),
)
# What a text of a record is made of: it becomes part of file names, tables and pages.
_WORDS = re.compile(r"[^<>&`$\\{}|\[\]\"\x00-\x1f\x7f\u2028\u2029]{0,2000}")
_SPACED_KEY = re.compile(rb'"\s+:')
_UNFIT = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)


@cache
def _limits(name: str) -> tuple[float, float]:
    """Look up between what a metric or a curve of this name lies."""
    if not name.isidentifier():
        raise ValueError(f"{name[:50]!r} is no name of a metric or a curve")
    return next(limits for kind, limits in _LIMITS if kind.search(name))


def _parsed(content: bytes) -> dict[str, Any]:
    """Read JSON; refuse a key that stands twice, and texts that no training leaves."""
    found = from_json(content, allow_inf_nan=False)
    if not isinstance(found, dict):
        raise TypeError(f"a mapping is expected, not a {type(found).__name__}")
    # As many keys are there as colons behind quotes, since no text has a quote; or the slow way
    # tells why not.
    if _keys(found) != content.count(b'":') + len(_SPACED_KEY.findall(content)):
        json.loads(content, object_pairs_hook=_distinct)
    return found


def _keys(value: Any) -> int:
    """Count the keys in a value of JSON, and look at its texts.

    Long lists of numbers are passed over.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            _look_at(key)
            if isinstance(inner, str):
                _look_at(inner)
        return len(value) + sum(
            _keys(part) for part in value.values() if type(part) in (dict, list)
        )
    if not value or type(value[0]) in (int, float):
        return 0
    for part in value:
        if isinstance(part, str):
            _look_at(part)
    return sum(_keys(part) for part in value if type(part) in (dict, list))


@lru_cache(maxsize=4096)
def _look_at(text: str) -> None:
    if not _WORDS.fullmatch(text):
        raise ValueError(f"the text {text[:50]!r} has characters that no record has")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a mapping of the pairs of a JSON object."""
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the key {key[:50]!r} stands twice")
    return dict(pairs)


def _fitting(text: bytes) -> Record:
    """Read a record from a text that is one, with every number where it can be."""
    content = _parsed(text)
    if content["schema"] != _SCHEMA:
        raise ValueError(f"schema {content['schema']} instead of {_SCHEMA}")
    record = Record(**content)
    asked = {_OLD_NAMES.get(name, name): value for name, value in record.parameters.items()}
    if record.template not in _FORMS:
        raise ValueError(f"there is no notebook {record.template!r}")
    if record.epochs_done != asked.get("epochs", record.epochs_done):
        raise ValueError(f"{record.epochs_done} of {asked['epochs']} epochs were done")
    form, needed = _FORMS[record.template]
    data = _part("data", _DATA.validate_python, record.data)
    model = _part("model", _MODEL.validate_python, record.model)
    names = asked.get("dataset", ", ".join(asked.get("datasets", ())))
    if names and data["name"] != names:
        raise ValueError(f"the data set is {data['name']!r}, not {names!r}")
    if model["name"] != asked.get("model", model["name"]):
        raise ValueError(f"the network is {model['name']!r}, not {asked['model']!r}")
    runs = _part("runs", _RUNS[form].validate_python, record.runs)
    for number, run in enumerate(runs):
        try:
            _check(run, data, record.epochs_done, needed)
        except ValueError as error:
            raise ValueError(f"runs[{number}]: {error}") from error
    return replace(record, runs=runs, parameters=asked)


def _part(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    """Check a part of a record; an error says which."""
    try:
        return check(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{step}]" for step in first["loc"])
        raise ValueError(f"{name}{place}: {first['msg']}, got {first['input']!r:.50}") from error


def _check(run: Mapping[str, Any], data: _Data, epochs: int, needed: Iterable[str]) -> None:
    """Hold the numbers of a run against each other and against what their names allow."""
    metrics, diverged = run["metrics"], run.get("diverged", False)
    for name in needed:
        if name not in metrics:
            raise ValueError(f"the metric {name} is missing")
    for name, value in metrics.items():
        low, high = _limits(name)
        if value is None:
            if not diverged and not metrics.get("diverged_folds"):
                raise ValueError(f"{name} is missing")
        elif not low <= value <= high:
            raise ValueError(f"{name} is {value:g}")
    if "curves" in run:
        _check_curves(run["curves"], epochs, diverged)
    if "temperature" in run and not diverged:  # a stack tells how sure it is of which samples
        for name, counts, samples in (
            ("confidence_counts", run.get("confidence_counts"), data.get("train")),
            ("reliability", run.get("reliability", {}).get("count"), data.get("test")),
        ):
            if counts is None:
                raise ValueError(f"{name} is missing")
            if sum(counts) != samples:
                raise ValueError(f"{name} is of {sum(counts)} samples, not of {samples}")


def _check_curves(curves: Mapping[str, list[float | None]], epochs: int, diverged: bool) -> None:
    """Refuse curves that no training leaves.

    They are shorter than their epochs, do not end at the last one, or hold what no training leaves.
    """
    for name in ("epoch", "test_accuracy", "train_accuracy"):
        if name not in curves:
            raise ValueError(f"the curve {name} is missing")
    for name, values in curves.items():
        axis = "train_epoch" if name.startswith("train_") and "train_epoch" in curves else "epoch"
        if len(values) != len(curves[axis]):
            raise ValueError(f"the curve {name} has {len(values)} values, not {len(curves[axis])}")
        kept = [value for value in values if value is not None]
        if len(kept) < len(values) and not diverged:
            raise ValueError(f"the curve {name} has gaps")
        low, high = _limits(name)
        if kept and not low <= min(kept) <= max(kept) <= high:
            raise ValueError(f"the curve {name} goes from {min(kept):g} to {max(kept):g}")
    for name in ("epoch", "train_epoch"):
        if (axis_values := curves.get(name)) is None:
            continue
        if axis_values != sorted(set(axis_values)) or axis_values[-1:] != [epochs]:  # type: ignore[type-var]
            raise ValueError(f"the curve {name} does not go up to {epochs}")


def _reason(error: Exception) -> str:
    """Say in one line what is wrong."""
    name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"{name}{error}".replace("\n", " ")[:300]


def probe(path: str | os.PathLike[str], parameters: Mapping[str, Any] | None = None) -> None:
    """Find out before a training whether its record can be written to the path.

    An empty one is nowhere.

    With the training's parameters, the record of another training is refused: it would be
    overwritten.
    """
    if not path:
        return
    if (
        parameters is not None
        and Path(path).exists()
        and load(path).parameters != _plain(parameters, digits=17)
    ):
        raise ValueError(
            f"{path} is the record of a training with other parameters; delete it, or name another "
            f"file"
        )
    write_whole(f"{path}.probe", "")
    Path(f"{path}.probe").unlink(missing_ok=True)


def same(left: Any, right: Any) -> bool:
    """Compare two values, one of which went through a record.

    1 is 1.0, a tuple is a list, True is not 1, floats have six digits.
    """
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        return (
            isinstance(left, int | float)
            and isinstance(right, int | float)
            and math.isclose(left, right, rel_tol=1e-5)
        )
    return bool(left == right)


def read(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> pd.DataFrame:
    """Read a folder of records, or paths of records, as one table.

    Sub-folders are read too. The table has a row for each run.

    Its columns are the parameters of the job, what the run is known by, the metrics, the curves as
    lists under ``curve_...``, and ``record`` (file), ``campaign`` (folder) and others of the whole
    record. The sub-folder of the rehearsal campaign is left out, so that a page is the same in
    every clone; named itself, it is read. A damaged record, a file that no job is called after, and
    the copy of another are refused by name.
    """
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
    contents: dict[str, Path] = {}
    for path in paths:
        if not NAME.fullmatch(path.name):
            raise ValueError(f"{path}: no record is called that; delete the copy, or move it away")
        if (
            twin := contents.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), path)
        ) is not path:
            raise ValueError(f"{path} is a copy of {twin}: its runs would count twice; delete it")
    # one frame of all rows: a frame for each record and their concatenation take ten times as long
    # as reading the files
    return pd.DataFrame(
        [
            row | {"record": path.name, "campaign": path.parent.name}
            for path in paths
            for row in _rows(load(path))
        ]
    )


def to_frame(record: Record) -> pd.DataFrame:
    """Make of one record the table of :func:`read`, without ``record`` and ``campaign``."""
    return pd.DataFrame(_rows(record))


def _rows(record: Record) -> list[dict[str, Any]]:
    of_runs = ("betas", "warmups", "feedbacks", "temperatures", "seeds")
    job = {name: value for name, value in record.parameters.items() if name not in of_runs}
    job |= {
        "template": record.template,
        "scale": record.scale,
        "wall_seconds": record.wall_seconds,
        "data_source": record.data.get("source"),
        "model_parameters": record.model.get("parameters"),
        "train_samples": record.data.get("train"),
        "wrong_labels": record.data.get("wrong_labels", 0.0),
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


def environment(*, device: str, precision: str, threads: int) -> dict[str, Any]:
    """Say where and with what something is measured.

    On a GPU also whether float32 products are made in TF32, and how cuDNN chooses.
    """
    versions = {
        name: metadata.version(name) for name in ("torch", "numpy", "scikit-learn", "pandas")
    }
    on_gpu: dict[str, Any] = {}
    if device != "cpu":
        import torch  # not for pages, which read records only

        on_gpu = {
            "tf32": {
                "matmul": torch.backends.cuda.matmul.allow_tf32,
                "convolutions": torch.backends.cudnn.allow_tf32,
            },
            "cudnn": {
                "benchmark": torch.backends.cudnn.benchmark,
                "deterministic": torch.backends.cudnn.deterministic,
            },
        }
    return on_gpu | {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": versions,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device,
        "precision": precision,
        "threads": threads,
    }


def _commit() -> str | None:
    """The commit of the checkout, with ``+`` where the sources differ from it.

    Outside a checkout ``GDLIB_COMMIT``, or None.
    """

    def git(*command: str) -> str:
        # also in a clone of another user, without running what that one has set
        trusted = ["-c", f"safe.directory={ROOT}", "-c", "core.fsmonitor=false"]
        return subprocess.run(
            ["git", *trusted, "-C", str(ROOT), *command], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + (
            "+" if git("status", "--porcelain", "--", "gdlib", "study") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("GDLIB_COMMIT")


def _plain(value: Any, digits: int = _DIGITS) -> Any:
    """The same value in JSON's types.

    Floats are rounded to six digits, and those that are no number become null.
    """
    if isinstance(value, Mapping):
        return {str(name): _plain(item, digits) for name, item in value.items()}
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), digits)
    if isinstance(value, Iterable):
        return [_plain(item, digits) for item in value]
    raise TypeError(f"a record cannot hold a {type(value).__name__}")
