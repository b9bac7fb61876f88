"""The runs that a part of a claim is asked of: by the name of a selection, variant by variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pandas as pd

from study import records
from study.claims.facts import FACTS, OF_VARIANTS, column, whole, with_derived
from study.claims.narrowing import MEASURES, NARROWINGS, beside
from study.claims.selections import (
    Plan,
    Row,
    Selection,
    VariantField,
    has,
    plans,
    selection,
)
from study.variants import Variant

_DEFAULTS = {field.name: field.default for field in fields(Variant)}


def runs_of(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """Select the runs that a part of a claim calls by this name.

    Each has its ``variant``, its ``method`` and the columns that claims compare. Where the
    temperature varies it is part of the method.
    """
    return measured(runs, selection(name))


def measured(runs: pd.DataFrame, wanted: Selection) -> pd.DataFrame:
    """Select runs, and add what claims compare."""
    kept = chosen(runs, wanted)
    if kept.empty:
        return kept
    kept = with_derived(kept)
    return MEASURES[wanted.measure](kept, wanted.seeds) if wanted.measure else kept


def chosen(runs: pd.DataFrame, wanted: Selection) -> pd.DataFrame:
    """Select runs by what they were asked for, with their ``variant`` and ``method``.

    Planned runs can be selected, too. Empty columns are left out.
    """
    runs = with_facts(runs)
    kept = runs[_meant(runs, wanted.where)]
    if kept.empty:
        return kept.drop(columns=list(FACTS))
    kept = kept.dropna(axis=1, how="all").copy()
    if "schedule" not in kept:
        kept["schedule"] = kept["method"].map(lambda method: method.label)
    if wanted.with_temperature:
        pairs = zip(kept["method"], kept["temperature"], strict=True)
        kept["method"] = [method.at(temperature) for method, temperature in pairs]
    kept["variant"] = _variants(kept, wanted.variant)
    for name in wanted.narrow:
        kept = kept if kept.empty else NARROWINGS[name](kept)
    if wanted.beside:
        kept = beside(kept, _meant(kept, (wanted.beside,)))
    return kept.drop(columns=list(FACTS))


def with_facts(runs: pd.DataFrame) -> pd.DataFrame:
    """Add to each run its method and the facts that selections speak of; once is enough."""
    if set(FACTS) <= set(runs):
        return runs
    # old records do not name their loss, gradient decay
    runs = runs.assign(loss=column(runs, "loss"))
    runs["method"] = records.methods(runs)
    return runs.assign(**{name: fact.of(runs) for name, fact in FACTS.items()})


def _meant(runs: pd.DataFrame, rows: Sequence[Row]) -> pd.Series[bool]:
    """Tell for each run if all conditions of one row hold."""
    meant = pd.Series(False, runs.index, dtype=bool)
    for row in rows:
        held = pd.Series(True, runs.index, dtype=bool)
        for condition in row:
            held &= condition.holds(runs)
        meant |= held
    return meant


def _variants(runs: pd.DataFrame, wanted: Sequence[VariantField]) -> pd.Series[Any]:
    """Make the variant of each run from its columns; a column that is not there tells nothing."""
    columns: dict[str, list[Any]] = {}
    for field in wanted:
        if field.column in OF_VARIANTS:
            values = OF_VARIANTS[field.column].of(runs)
        elif field.column in runs:
            values = runs[field.column]
        else:
            continue
        default = _DEFAULTS[field.name]
        if type(default) is int:
            columns[field.name] = [whole(value) for value in values]
        else:
            columns[field.name] = [default if value != value else value for value in values]
    rows = list(zip(*columns.values(), strict=True))
    each = {row: Variant(**dict(zip(columns, row, strict=True))) for row in dict.fromkeys(rows)}
    return pd.Series([each[row] for row in rows], runs.index, dtype=object)


# --- which of them may decide ---


def least_seeds(name: str, variant: Variant) -> int:
    """Tell how many seeds a variant needs to decide anything in these runs."""
    wanted, planned = selection(name), plans(variant)
    if wanted.by_plan and planned:
        return min(plan.seeds for plan in planned)
    return wanted.least_seeds(variant)


def counted(runs: pd.DataFrame, wanted: Selection, variant: Variant) -> tuple[pd.DataFrame, int]:
    """Keep the seeds of a variant that its plan has, and tell how many a comparison needs.

    Of several plans it is the largest that is complete; the runs beyond it wait.
    """
    planned = plans(variant)
    if not wanted.by_plan or not variant.on_fast:
        return runs, wanted.least_seeds(variant)
    if not planned:
        return runs, 2
    plan = _fulfilled(planned, runs)
    kept = runs if plan is planned[0] else runs[runs["seed"] < plan.seeds]
    return kept, max(plan.seeds, 2)


def complete(runs: pd.DataFrame, wanted: Selection, variant: Variant) -> bool:
    """Tell if a variant of the small network has all that was planned for these runs."""
    planned = plans(variant)
    if wanted.by_plan:
        return bool(planned) and _fulfilled(planned, runs).is_complete(runs)
    if wanted.waits_for_matched:
        seeds = _fulfilled(planned, runs).seeds if planned else 0
        return has(runs[runs["matched"]], wanted.waits_for_matched, seeds)
    return True


def _fulfilled(planned: Sequence[Plan], runs: pd.DataFrame) -> Plan:
    """Find the largest plan that runs fulfil; the smallest, if they fulfil none."""
    return next((plan for plan in planned if plan.is_complete(runs)), planned[-1])
