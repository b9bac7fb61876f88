"""What follows from the columns of a run: what selections ask for, and what claims compare.

A fact is a column that no record has: it is made from others, one run at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from study import records
from study.losses import parse as parse_loss
from study.variants import LINEAR, PERCEPTRON


@dataclass(frozen=True)
class Fact:
    """A column that follows from others, all runs at once."""

    meaning: str
    of: Callable[[pd.DataFrame], pd.Series[Any]]


@dataclass(frozen=True)
class Derived:
    """A number that follows from the columns of one run.

    It is missing where one of them is, and has no default.
    """

    columns: tuple[str, ...]
    formula: Callable[..., float]


def column(runs: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Take a column, with its declared default, if it has one, where a value is missing."""
    values = runs.reindex(columns=[name])[name].astype(object)
    default = records.COLUMNS[name].default if name in records.COLUMNS else None
    return values if default is None else values.where(values.notna(), default)


# --- what selections speak of ---


def _network(runs: pd.DataFrame) -> pd.Series[Any]:
    model = column(runs, "model")
    no_hidden_layer = column(runs, "hidden").map(lambda hidden: hidden == [])
    return model.mask((model == PERCEPTRON) & no_hidden_layer.astype(bool), LINEAR)


def _loss_name(runs: pd.DataFrame) -> pd.Series[Any]:
    loss = column(runs, "loss")
    names = {one: "gd" if one == "gd" else parse_loss(one).name for one in loss.unique()}
    return loss.map(names)


def _beta_schedule(runs: pd.DataFrame) -> pd.Series[Any]:
    return runs["method"].map(lambda method: method.schedule)


def _constant_rate(runs: pd.DataFrame) -> pd.Series[Any]:
    falls = column(runs, "milestones").map(
        lambda shares: isinstance(shares, Sequence) and len(shares)
    )
    return (column(runs, "lr_schedule") == "milestones") & ~falls.astype(bool)


def _only_reduced(runs: pd.DataFrame, name: str) -> pd.Series[Any]:
    return runs[name].where(runs["scale"] == "reduced", 0).map(whole)


def _width_of_images(runs: pd.DataFrame) -> pd.Series[Any]:
    return runs["width"].mask(runs["model"] == PERCEPTRON, 1.0)


def _augmentation_of_images(runs: pd.DataFrame) -> pd.Series[Any]:
    return runs["augmentation"].mask(runs["model"] == PERCEPTRON, "")


def _units(hidden: list[int]) -> int:
    return hidden[0] if hidden else 0


def whole(number: float) -> int:
    """Make an integer; 0 of a missing number."""
    return int(number) if number > 0 else 0


FACTS: Mapping[str, Fact] = {
    "network": Fact("the model, or linear for a perceptron without a hidden layer", _network),
    "loss_name": Fact("the loss without its numbers", _loss_name),
    "beta_schedule": Fact(
        "whether β is constant, warms up, or follows by feedback", _beta_schedule
    ),
    "constant_rate": Fact("whether the learning rate never falls", _constant_rate),
}
"""What ``claims/runs.yml`` may ask of a run, beside its columns."""

OF_VARIANTS: Mapping[str, Fact] = {
    "images_of_reduced": Fact(
        "training images of reduced runs, where they are not all; 0 elsewhere",
        lambda runs: _only_reduced(runs, "subset"),
    ),
    "epochs_of_reduced": Fact(
        "epochs of reduced runs; 0 elsewhere", lambda runs: _only_reduced(runs, "epochs")
    ),
    "width_of_images": Fact("width of an image network; 1 for a perceptron", _width_of_images),
    "augmentation_of_images": Fact(
        "augmentation of images; empty for a perceptron", _augmentation_of_images
    ),
    "units": Fact("units of the first hidden layer", lambda runs: runs["hidden"].map(_units)),
}
"""What ``claims/runs.yml`` may take for a field of a variant, beside columns and facts."""


# --- what claims compare ---


def _mean_of_first_ten(epochs: list[int], curve: list[float | None]) -> float:
    values = [value for epoch, value in zip(epochs, curve, strict=True) if 1 <= epoch <= 10]
    return float(np.array(values or [math.nan], dtype=float).mean())


def _each_epoch(curve: list[float], epochs: float) -> list[float]:
    """Give the values after each epoch, without that before the first.

    There are none if it was not evaluated so often.
    """
    return curve[-int(epochs) :] if len(curve) >= epochs else [math.nan]


def _first_quarter(curve: list[float], epochs: float) -> float:
    return float(np.mean(_each_epoch(curve, epochs)[: max(1, int(epochs) // 4)]))


def _falls(curve: list[float], epochs: float) -> float:
    each = _each_epoch(curve, epochs)
    return -float(np.minimum(np.diff(each, prepend=each[:1]), 0).sum())


def _rise(last: float, curve: list[float | None]) -> float:
    """Subtract the lowest of three or more values from the last."""
    values = [value for value in curve if value is not None]
    return last - min(values) if len(values) >= 3 else math.nan


def _errors(accuracy: float, samples: float) -> float:
    return float(round((1 - accuracy) * samples))


def _share(lost: float, errors: float) -> float:
    return lost / errors if errors > 0 else math.nan


def _epoch_easy(groups: list[list[float]]) -> int:
    """Find the first epoch at which the easiest fifth is sure; one more than there are if never."""
    easiest = groups[-1]
    return next((epoch for epoch, value in enumerate(easiest) if value >= 0.9), len(easiest))


def _gap(groups: list[list[float]]) -> float:
    return float(np.subtract(groups[-1][1:], groups[0][1:]).mean())


def _mean_after_first(curve: list[float]) -> float:
    return float(np.mean(curve[1:] or math.nan))


DERIVED: Mapping[str, Derived] = {
    "matched": Derived(("match_gradient",), bool),
    "units": Derived(("hidden",), _units),
    "depth": Derived(("hidden",), lambda hidden: len(hidden) + 1),
    "overconfidence": Derived(
        ("test_confidence", "test_accuracy"), lambda confidence, accuracy: confidence - accuracy
    ),
    "lost": Derived(("confidence_counts",), lambda counts: counts[0]),  # of (0, 0.2], …, (0.8, 1]
    "sure": Derived(("confidence_counts",), lambda counts: counts[-1]),
    "errors": Derived(("train_accuracy", "train_samples"), _errors),
    "lost_share": Derived(("lost", "errors"), _share),
    "early_cross_entropy": Derived(
        ("curve_train_epoch", "curve_train_cross_entropy"), _mean_of_first_ten
    ),
    "epoch_easy": Derived(("group_confidence",), _epoch_easy),
    "gap": Derived(("group_confidence",), _gap),
    "early_accuracy": Derived(("curve_test_accuracy", "epochs"), _first_quarter),
    "falls": Derived(("curve_test_accuracy", "epochs"), _falls),
    "bias_rise": Derived(("train_margin_bias", "curve_train_margin_bias"), _rise),
    "mean_target_angle": Derived(("curve_target_angle",), _mean_after_first),
}
"""What no record has, by name; a later one may take an earlier one."""


def with_derived(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the metrics of :data:`DERIVED` whose columns are there."""
    runs = runs.copy()
    for name, derived in DERIVED.items():
        if not set(derived.columns) <= set(runs):
            continue
        rows = zip(*(column(runs, one) for one in derived.columns), strict=True)
        runs[name] = [math.nan if _incomplete(row) else derived.formula(*row) for row in rows]
    return runs


def _incomplete(row: Sequence[Any]) -> bool:
    return any(value is None or value != value for value in row)
