"""Which runs a claim is asked of: the selections of ``claims/runs.yml``, as values.

A part of a claim says ``runs: large-margin``; :func:`selections` has the selection of that name.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    field_validator,
    model_validator,
)

from study import ROOT, records
from study.claims.facts import FACTS, OF_VARIANTS
from study.claims.load import OneMethod
from study.claims.narrowing import MEASURES, NARROWINGS
from study.methods import Method
from study.variants import Variant
from study.yaml_files import read_yaml

FILE = ROOT / "claims" / "runs.yml"


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Condition(_Content):
    """What the value of one column must be: one of these, or none of them."""

    column: str
    values: tuple[Any, ...]
    negated: bool = False

    @field_validator("column")
    @classmethod
    def _known(cls, column: str) -> str:
        if column not in records.COLUMNS and column not in FACTS:
            raise ValueError(f"there is no column {column!r}")
        return column

    def holds(self, runs: pd.DataFrame) -> pd.Series[bool]:
        """Tell for each run if it holds; a missing value has the default of its column."""
        column = records.COLUMNS.get(self.column)
        default = column.default if column else None
        if self.column not in runs:
            return pd.Series((default in self.values) != self.negated, runs.index, dtype=bool)
        values = runs[self.column]
        held = values.isin(list(self.values))
        if default in self.values:
            held = held | values.isna()
        return held != self.negated


def _conditions(row: Any) -> Any:
    """Read a row of a file, ``{column: value}``, ``{column: [values]}``, ``{column: {not: …}}``."""
    if not isinstance(row, dict):
        return row
    conditions = []
    for column, asked in row.items():
        negated = isinstance(asked, dict) and set(asked) == {"not"}
        value = asked["not"] if negated else asked
        values = tuple(value) if isinstance(value, list) else (value,)
        conditions.append({"column": column, "values": values, "negated": negated})
    return conditions


def _rows(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Row = Annotated[tuple[Condition, ...], BeforeValidator(_conditions)]
"""Conditions that hold together."""


class VariantField(_Content):
    """A field of :class:`study.variants.Variant`, and the column that it is taken from."""

    name: str
    column: str

    @model_validator(mode="after")
    def _known(self) -> VariantField:
        if self.name not in {field.name for field in fields(Variant)}:
            raise ValueError(f"a variant has no field {self.name!r}")
        if self.column not in {*records.COLUMNS, *FACTS, *OF_VARIANTS}:
            raise ValueError(f"there is no column {self.column!r}")
        return self


def _variant_fields(listed: Any) -> Any:
    """Read ``[dataset, {images: train_samples}]``."""
    written: list[dict[str, str]] = []
    for one in listed:
        pairs = one.items() if isinstance(one, dict) else [(one, one)]
        written += [{"name": name, "column": column} for name, column in pairs]
    return written


class Selection(_Content):
    """The runs that some parts of claims are asked of, as ``claims/runs.yml`` declares them."""

    name: str
    means: str
    """What the runs are, for a reader."""
    where: Annotated[tuple[Row, ...], BeforeValidator(_rows)]
    """A run is meant if all conditions of one row hold."""
    variant: Annotated[tuple[VariantField, ...], BeforeValidator(_variant_fields)]
    with_temperature: bool = False
    """Whether the temperature is part of the method."""
    narrow: tuple[str, ...] = ()
    """Names of :data:`study.claims.narrowing.NARROWINGS`, one after another."""
    beside: Row = ()
    """Only the variants in which these conditions hold for some run."""
    measure: str = ""
    """A name of :data:`study.claims.narrowing.MEASURES`."""
    seeds: int
    """How many a variant needs to decide."""
    on_mnist: int = 0
    """How many it needs on MNIST, where these are more."""
    augmented_fast: int = 0
    """How many it needs with the small network, and crops and flips, where these are more."""
    unit: Literal["seed", "title", "fold"] = "seed"
    """What two values of a comparison share: a seed, a data set, a fold."""
    all_or_none: bool = False
    """Whether a variant waits until each method that was begun has enough seeds."""
    by_plan: bool = False
    """Whether a variant of the small network counts as its :class:`Plan` says."""
    waits_for_matched: tuple[OneMethod, ...] = ()
    """With the small network, methods that must be there with a matched rate, as its plan says."""

    @model_validator(mode="after")
    def _named_functions(self) -> Selection:
        for name in self.narrow:
            if name not in NARROWINGS:
                raise ValueError(f"narrow: {name!r} is none of {', '.join(NARROWINGS)}")
        if self.measure not in ("", *MEASURES):
            raise ValueError(f"measure: {self.measure!r} is none of {', '.join(MEASURES)}")
        return self

    def least_seeds(self, variant: Variant) -> int:
        """Tell how many seeds a variant needs to decide anything."""
        if variant.dataset == "mnist":
            return max(self.seeds, self.on_mnist)
        if variant.on_fast and variant.augmented:
            return max(self.seeds, self.augmented_fast)
        return self.seeds


class Plan(_Content):
    """What was planned on the small network in one variant."""

    dataset: str
    augmentation: str
    width: float = 1.0
    labels: str = ""
    methods: tuple[OneMethod, ...]
    seeds: int

    def is_of(self, variant: Variant) -> bool:
        """Tell if it was made for this variant."""
        ours = self.dataset, self.augmentation, self.width, self.labels
        return ours == (variant.dataset, variant.augmentation, variant.width, variant.labels)

    def is_complete(self, runs: pd.DataFrame) -> bool:
        """Tell if the runs have each of its methods with all of its seeds."""
        return has(runs, self.methods, self.seeds)


def has(runs: pd.DataFrame, methods: tuple[Method, ...], seeds: int) -> bool:
    """Tell if runs have these methods, each with as many seeds."""
    there = runs.groupby("method")["seed"].nunique()
    return all(there.get(method, 0) >= seeds for method in methods)


class _File(_Content):
    selections: Mapping[str, dict[str, Any]]
    plans: tuple[Plan, ...]


@functools.cache
def _read(file: Path) -> tuple[Mapping[str, Selection], tuple[Plan, ...]]:
    try:
        content = _File.model_validate(read_yaml(file))
        named = {
            name: Selection.model_validate({"name": name} | values)
            for name, values in content.selections.items()
        }
    except (ValidationError, yaml.YAMLError) as error:
        raise ValueError(f"{file} does not say which runs are meant: {error}") from error
    return named, content.plans


def selections(file: Path = FILE) -> Mapping[str, Selection]:
    """Read every selection of runs, by its name.

    Example:
        >>> selections()["matched"].means
        'a learning rate matched to β, with the plain runs of the same variants'
    """
    return _read(file)[0]


def selection(name: str) -> Selection:
    """Find a selection by its name.

    Raises:
        ValueError: where there is none; it names those that there are.
    """
    if name not in selections():
        raise ValueError(f"unknown runs {name!r}; valid: {', '.join(selections())}")
    return selections()[name]


def plans(variant: Variant) -> list[Plan]:
    """List the plans of a variant, the largest first."""
    return [plan for plan in _read(FILE)[1] if variant.on_fast and plan.is_of(variant)]
