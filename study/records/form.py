"""What a record may hold: the form of its runs, the bounds of its numbers, its texts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json
from typing_extensions import TypedDict  # that of typing, with Python 3.12 and later

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

    Where it diverged it says nothing of its confidence.
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
    wrong_labels: NotRequired[Annotated[float, Field(gt=0, le=1)]]


class _Model(TypedDict):
    """A network."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[misc]

    name: str
    parameters: Annotated[int, Field(gt=0, le=2**53)] | dict[str, _Count]


@dataclass(frozen=True)
class Form:
    """The form of the runs of one notebook."""

    runs: TypeAdapter[Any]
    needed: tuple[str, ...]
    """The metrics without which a run says nothing."""


_STACKED = TypeAdapter(Annotated[list[_Stacked], Field(min_length=1)])
_REPEATED = TypeAdapter(Annotated[list[_Repeated], Field(min_length=1)])
_TIMED = TypeAdapter(Annotated[list[_Timed], Field(min_length=1)])
_ACCURACIES = ("test_accuracy", "train_accuracy")

FORMS: Mapping[str, Form] = {
    "train": Form(_STACKED, _ACCURACIES),
    "mnist": Form(_STACKED, _ACCURACIES),
    "how-sure": Form(_STACKED, _ACCURACIES),
    "cifar": Form(_STACKED, _ACCURACIES),
    "samples": Form(_STACKED, _ACCURACIES),
    "long-tailed": Form(_STACKED, _ACCURACIES),
    "wrong-labels": Form(_STACKED, _ACCURACIES),
    "large-margin": Form(_STACKED, _ACCURACIES),
    "angular-images": Form(_STACKED, _ACCURACIES),
    "feature-plane": Form(_STACKED, _ACCURACIES),
    "temperature": Form(_STACKED, _ACCURACIES),
    "tables": Form(_REPEATED, _ACCURACIES),
    "learning-rate": Form(_STACKED, _ACCURACIES),
    "cross-validation": Form(_REPEATED, _ACCURACIES),
    "cost": Form(_TIMED, ("step_seconds", "criterion_seconds")),
}
"""The form of a record's runs, by the name of its notebook."""

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


@cache
def _limits(name: str) -> tuple[float, float]:
    """Look up between what a metric or a curve of this name lies."""
    if not name.isidentifier():
        raise ValueError(f"{name[:50]!r} is no name of a metric or a curve")
    return next(limits for kind, limits in _LIMITS if kind.search(name))


def parsed(content: bytes) -> dict[str, Any]:
    """Read JSON; refuse a key that stands twice, and texts that no training leaves."""
    mapping = from_json(content, allow_inf_nan=False)
    if not isinstance(mapping, dict):
        raise TypeError(f"a mapping is expected, not a {type(mapping).__name__}")
    # As many keys are there as colons behind quotes, since no text has a quote; or the slow way
    # tells why not.
    if _keys(mapping) != content.count(b'":') + len(_SPACED_KEY.findall(content)):
        json.loads(content, object_pairs_hook=_distinct)
    return mapping


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


def check(
    experiment: str,
    asked: Mapping[str, Any],
    data: Mapping[str, Any],
    model: Mapping[str, Any],
    runs: list[dict[str, Any]],
    epochs_done: int,
) -> list[dict[str, Any]]:
    """Hold the parts of a record against each other and against what their names allow.

    Returns:
        The runs, with every number where it can be.

    Raises:
        ValueError: where they are not what a training of the notebook leaves.
    """
    if experiment not in FORMS:
        raise ValueError(f"there is no notebook {experiment!r}")
    if epochs_done != asked.get("epochs", epochs_done):
        raise ValueError(f"{epochs_done} of {asked['epochs']} epochs were done")
    form = FORMS[experiment]
    data = _part("data", _DATA.validate_python, data)
    model = _part("model", _MODEL.validate_python, model)
    names = asked.get("dataset", ", ".join(asked.get("datasets", ())))
    if names and data["name"] != names:
        raise ValueError(f"the data set is {data['name']!r}, not {names!r}")
    if model["name"] != asked.get("model", model["name"]):
        raise ValueError(f"the network is {model['name']!r}, not {asked['model']!r}")
    runs = _part("runs", form.runs.validate_python, runs)
    for number, run in enumerate(runs):
        try:
            _check_run(run, data, epochs_done, form.needed)
        except ValueError as error:
            raise ValueError(f"runs[{number}]: {error}") from error
    return runs


def _part(name: str, check: Callable[[Any], Any], value: Any) -> Any:
    """Check a part of a record; an error says which."""
    try:
        return check(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{step}]" for step in first["loc"])
        raise ValueError(f"{name}{place}: {first['msg']}, got {first['input']!r:.50}") from error


def _check_run(
    run: Mapping[str, Any], data: Mapping[str, Any], epochs: int, needed: Iterable[str]
) -> None:
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

    Such curves are shorter than their epochs, do not end at the last one, or hold a value that
    cannot be.
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
