"""Ask a variant what a part of a claim means, as its file says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from study.claims.compare import Finding, Values, VariantRuns, average, minus, times
from study.claims.load import Comparison, Part, Side
from study.claims.rules import CHOICES, RULES, rising
from study.losses import LOSSES
from study.methods import Method


def ask(part: Part, variant: VariantRuns) -> Finding | None:
    """Ask one variant; None as long as a run that the part needs is missing."""
    finding = _asked(part, variant)
    return finding.only_shown() if finding and part.shown_only else finding


def _asked(comparison: Comparison, variant: VariantRuns) -> Finding | None:
    variant = _chosen(variant, comparison.at, comparison.among, comparison.words)
    if comparison.rule:
        return RULES[comparison.rule](variant)
    if comparison.rising:
        return rising(variant, str(comparison.rising[0]), *comparison.methods)
    if comparison.all:
        return variant.all_of(*(_asked(one, variant) for one in comparison.all))
    if comparison.any:
        return variant.any_of(*(_asked(one, variant) for one in comparison.any))
    if comparison.provided:
        premise, then = (_asked(one, variant) for one in comparison.provided)
        return variant.provided(premise, then)
    return _compared(comparison, variant)


def _compared(comparison: Comparison, variant: VariantRuns) -> Finding | None:
    metric, want = comparison.metric, comparison.want
    assert want is not None  # the model of the file holds it
    sides = [values(side, metric, variant) for side in comparison.sides]
    if any(side is None for side in sides):
        return None
    if want.test == "larger":
        return variant.larger(metric, *sides, by=want.bound)
    if want.test == "smaller":
        return variant.smaller(metric, *sides, by=want.bound)
    if want.test == "within":
        return variant.within(want.bound, metric, *sides)
    return variant.differs(metric, *sides, margin=want.bound)


def values(side: Side, metric: str, variant: VariantRuns) -> Values | None:
    """Take one side of a comparison out of the runs of a variant; None where it was not run."""
    variant = _chosen(variant, side.at, side.among)
    metric = side.metric or metric
    if side.minus:
        first, second = (values(one, metric, variant) for one in side.minus)
        if first is None or second is None:
            return None
        name = (side.name or "{} minus {}").replace("{words}", variant.words)
        difference = minus(first, second, name)
        return (
            difference
            if side.times == 1
            else times(side.times, difference, f"{side.times:g} × ({difference.name})")
        )
    if side.best_of:
        return variant.best_of(*side.best_of, by=side.by, metric=metric)
    if side.average:
        return _average(side, metric, variant)
    if side.smallest:
        return _smallest(side.smallest, metric, variant)
    if side.largest:
        constant = {one.beta: one for one in variant.means(metric) if one.beta is not None}
        return variant.of(metric, constant[max(constant)]) if constant else None
    return variant.of(metric, side.method, side.name)


def _smallest(by: str, metric: str, variant: VariantRuns) -> Values | None:
    """Take the constant β with the smallest mean of a metric, beside the best of them in papers."""
    means = {one: mean for one, mean in variant.means(by).items() if one.beta is not None}
    if not means:
        return None
    best = min(means, key=means.__getitem__)
    return replace(variant.of(metric, best), key=(metric, frozenset(means)))


def _average(side: Side, metric: str, variant: VariantRuns) -> Values:
    """Average a loss over the numbers that it and the others were run with."""
    there = set(variant.runs["method"])
    of_loss = [{method.numbers for method in there if method.loss == loss} for loss in side.over]
    shared = sorted(set.intersection(*of_loss))
    columns = [variant.of(metric, Method(side.average, numbers)) for numbers in shared]
    of_several = "mean over " if len(shared) > 1 else ""
    written = ", ".join(f"{number:g}" for numbers in shared for number in numbers)
    name = f"{LOSSES[side.average].title}, {of_several}λ = {written}"
    return average(columns, name)


def _chosen(
    variant: VariantRuns, at: Mapping[str, Any], among: str, words: str = ""
) -> VariantRuns:
    """Take a part of the runs, by columns and by a named choice."""
    if among:
        variant = CHOICES[among](variant)
    if at:
        variant = variant.at(variant.words, **at)
    return replace(variant, words=words) if words else variant
