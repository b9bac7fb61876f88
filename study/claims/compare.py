"""The few words that rules are made of.

A rule looks at one variant (the runs in which what the papers leave unsaid is filled in one way)
and says *met*, *contradicted* or *unresolved*, by where an interval lies against the rule's own
threshold. It says nothing (None) while a run that it needs is missing.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from study import metrics, published, statistics
from study.methods import Method
from study.metrics import Metric
from study.statistics import FloatArray
from study.variants import PERCEPTRON, Variant

Outcome = Literal["met", "contradicted", "unresolved"]
How = Literal["compared", "all", "any", "provided"]
"""How a finding is made: it is a comparison, or combines others."""
Regions = Sequence[
    tuple[float, float]
]  # where an interval can lie: between two numbers, without them

SMALL = 0.005
"""Half a percentage point of accuracy: a difference that lies within it is called level."""

LEVEL = 0.05
"""The p-value below which a comparison is met or contradicted.

It is corrected for the comparisons of its claim.
"""


@dataclass(frozen=True)
class Finding:
    """What one variant says about one part of a claim.

    It is a comparison with its difference, or a combination of others.
    """

    variant: Variant
    outcome: Outcome
    text: str  # the comparison in words
    difference: statistics.Difference | None = None
    metric: Metric | None = None  # of the difference
    # the level at which the interval would touch the threshold, and that corrected for the
    # comparisons of the claim that decide
    p_value: float = math.nan
    corrected: float = math.nan
    against_zero: bool = True  # whether the threshold is 0
    paper: tuple[published.Effect, ...] = ()  # the papers' own effects, where they print both sides
    scales: tuple[str, ...] = ()  # of the runs
    # a finding of older runs, of another scope than the claim's or outside its premise
    # is only shown
    decides: bool = True
    outside: bool = False  # the claim's premise does not hold in the variant
    methods: str = ""  # the two that are compared, in words, and of which runs
    how: How = "compared"
    findings: tuple[Finding, ...] = ()

    def comparisons(self) -> Iterator[Finding]:
        """List the comparisons that it is made of; itself, if it is one."""
        if self.difference is not None:
            yield self
        for finding in self.findings:
            yield from finding.comparisons()

    def only_shown(self, *, outside: bool = False) -> Finding:
        """Copy it, so that it decides nothing; ``outside`` says that the premise is why."""
        findings = tuple(one.only_shown(outside=outside) for one in self.findings)
        return replace(self, decides=False, outside=outside, findings=findings)

    def with_corrected(self, p_values: Iterator[float]) -> Finding:
        """Copy it with corrected p-values, of which each comparison takes the next.

        The p-values stand in the order of :meth:`comparisons`. A comparison whose corrected p-value
        is not below :data:`LEVEL` is unresolved.
        """
        if self.findings:
            findings = tuple(one.with_corrected(p_values) for one in self.findings)
            outcome = combined(self.how, [one.outcome for one in findings])
            return replace(self, outcome=outcome, findings=findings)
        if self.difference is None:
            return self
        p = next(p_values)
        return replace(self, corrected=p, outcome=self.outcome if p < LEVEL else "unresolved")

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what an unresolved comparison tells all the same; it decides nothing.

        It is ``"level"`` where the interval of a difference of accuracies lies within half a
        percentage point of 0, and
        ``"excludes GD-2's effect"`` where what that paper prints lies outside the interval.
        """
        if self.difference is None or self.outcome != "unresolved":
            return ()
        interval = self.difference.interval
        notes = []
        if (
            self.metric
            and self.metric.is_accuracy
            and -SMALL < interval.low < interval.high < SMALL
        ):
            notes.append("level")
        for effect in self.paper:
            if effect.high < interval.low or interval.high < effect.low:
                notes.append(f"excludes {effect.paper}'s effect")
        return tuple(dict.fromkeys(notes))


@dataclass(frozen=True)
class Term:
    """The runs of one method in a comparison: the metric of each, and the square of its weight."""

    metric: str
    numbers: pd.Series[float]
    runs: frozenset[Hashable]  # their places in the frame
    weight: float = 1.0


@dataclass(frozen=True)
class Values:
    """A number for each unit, with a name, and the runs that it comes from.

    It has a ``key`` if the papers may print it: a metric of one method, or of the best or the mean
    of some.
    """

    numbers: pd.Series[float]
    name: str
    key: published.Key | None = None
    terms: tuple[Term, ...] = ()


# a name is what a page has put in the place of a method; None is a method that was not run
Side = Method | str | Values | None

# what tells the runs of a method apart, where a variant has several of it
APART = ("learning_rate", "momentum", "matched", "step", "samples", "epochs", "label_noise")
_UNLIKE = 4.0  # times the median deviation: such a group has a deviation of its own


@dataclass(frozen=True)
class VariantRuns:
    """The runs of one variant, or a part of them, with what can be asked of them."""

    variant: Variant
    # with ``method``, the metrics, and ``unit``
    runs: pd.DataFrame
    seeds: int = 2  # how many units a comparison needs to decide
    unit: str = "seed"  # what two values share; "title" for data sets, "fold" for folds
    # whether "the best of" and "each of" speak of the rivals that were run, instead of waiting
    some: bool = False
    resampled: float = 0.0  # test over training samples, where the units are folds of one data set
    printed: bool = False  # the numbers of a paper: one of each method, and no interval
    words: str = ""  # the part of the runs that is meant
    whole: pd.DataFrame | None = None  # all runs of the variant, where ``runs`` is a part of them

    @property
    def all_runs(self) -> pd.DataFrame:
        """All runs of the variant, of which ``runs`` may be a part."""
        return self.runs if self.whole is None else self.whole

    @property
    def independent(self) -> bool:
        """Whether runs that share a seed have nothing in common: those of image networks.

        Times of a step are measured by turns, and are paired.
        """
        runs = self.all_runs
        if "model" not in runs or "step_seconds" in runs:
            return False
        return bool((runs["model"].notna() & (runs["model"] != PERCEPTRON)).all())

    @property
    def learnt(self) -> float:
        """The training accuracy at β = 1, the mean over its seeds; NaN without such runs."""
        return float(self.having("train_accuracy", Method.of_beta(1.0)).mean())

    @property
    def scales(self) -> tuple[str, ...]:
        """The scales of the runs."""
        return tuple(sorted(set(self.runs.get("scale", []))))

    # --- parts of the runs, methods, and sides of a comparison ---

    def where(self, kept: pd.Series[bool], words: str = "") -> VariantRuns:
        """Take some of the runs."""
        return replace(self, runs=self.runs[kept], words=words, whole=self.all_runs)

    def at(self, words: str = "", **values: float | str) -> VariantRuns:
        """Take the runs that have these values in their columns."""
        return self.where(self.runs[list(values)].eq(pd.Series(values)).all(axis=1), words)

    def having(self, metric: str, method: Method | str | None) -> pd.Series[float]:
        """Take the metric of one method, unit by unit."""
        if metric not in self.runs:
            return pd.Series(dtype=float)
        here = [other == method for other in self.runs["method"]]
        return pd.Series(
            self.runs[metric].to_numpy()[here], self.runs[self.unit].to_numpy()[here], dtype=float
        ).dropna()

    def of(self, metric: str, side: Side, name: str = "") -> Values:
        """Take a metric of one method, by name; a side that has its values stays as it is."""
        if isinstance(side, Values):
            return side
        if side is None:
            return Values(pd.Series(dtype=float), "")
        numbers = self.having(metric, side)
        here = self.runs.index[[other == side for other in self.runs["method"]]]
        term = Term(metric, numbers, frozenset(here))
        key = (metric, side) if isinstance(side, Method) else None
        return Values(numbers, name or str(side), key, (term,))

    def means(self, metric: str) -> dict[Method, float]:
        """Average a metric for each method that has all its seeds."""
        values = {
            method: self.having(metric, method) for method in dict.fromkeys(self.runs["method"])
        }
        return {
            method: float(numbers.mean())
            for method, numbers in values.items()
            if len(numbers) >= self.seeds
        }

    def best_of(
        self, *methods: Method, by: str = "test_accuracy", metric: str = ""
    ) -> Values | None:
        """Take the method with the largest mean; a loss without its numbers stands for all of them.

        It is None as long as one was not run, unless the variant speaks of ``some``.

        Args:
            methods: among which the best is taken.
            by: what is largest.
            metric: what is taken of it, if that is another one.
        """
        means = self.means(by)
        there = [[one for one in means if asked.includes(one)] for asked in methods]
        if not self.some and not all(there):
            return None
        best = max(sum(there, []), key=means.__getitem__, default=None)
        if best is None:
            return None
        taken = metric or by
        return replace(self.of(taken, best), key=(taken, frozenset(methods)))

    # --- comparisons of two sides, or of one with 0 ---

    def larger(self, metric: str, *sides: Side, by: float = 0.0) -> Finding | None:
        """Compare two sides; the first is to be larger.

        It is met if the interval of the first side minus the second lies above ``by``, and
        contradicted if that lies below. The metric is that of the methods; of a side that has its
        values it is the name alone.
        """
        return self._compared(
            metric,
            sides,
            [(by, math.inf)],
            [(-math.inf, by)],
            f", by more than {_bound(metric, by)}" if by else "",
        )

    def smaller(self, metric: str, *sides: Side, by: float = 0.0) -> Finding | None:
        """Compare two sides; the first is to be smaller.

        It is met if the interval of the first side minus the second lies below ``by``, and
        contradicted if that lies above.
        """
        return self._compared(
            metric,
            sides,
            [(-math.inf, by)],
            [(by, math.inf)],
            f", less than {_bound(metric, by)} above" if by else "",
        )

    def differs(self, metric: str, *sides: Side, margin: float = 0.0) -> Finding | None:
        """Compare two sides, which are to differ.

        It is met if the interval excludes 0, and contradicted if that includes 0 and lies within
        the margin, if one was stated.
        """
        return self._compared(
            metric, sides, [(0.0, math.inf), (-math.inf, 0.0)], [(-margin, margin)]
        )

    def within(self, tolerance: float, metric: str, *sides: Side) -> Finding | None:
        """Compare two sides, which are to be close.

        It is met if the interval lies within the tolerance of 0, and contradicted if that lies
        outside on one side.
        """
        outside = [(tolerance, math.inf), (-math.inf, -tolerance)]
        words = f", within {_bound(metric, tolerance)} of 0"
        return self._compared(metric, sides, [(-tolerance, tolerance)], outside, words)

    def _compared(
        self, metric: str, sides: Sequence[Side], met: Regions, against: Regions, words: str = ""
    ) -> Finding | None:
        """Compare over the units that all sides have, by the region in which the interval lies."""
        values = [self.of(metric, side) for side in sides]
        names = [side.name for side in values]
        if any(side.numbers.index.has_duplicates for side in values):
            raise ValueError(
                f"{self.variant}: {' or '.join(names)} has two runs of one {self.unit}"
            )
        numbers = pd.concat([side.numbers for side in values], axis=1).dropna().to_numpy().T
        if numbers.shape[1] < (1 if self.printed else max(2, self.seeds)):
            return None
        a, b = numbers if len(numbers) == 2 else (numbers[0], 0 * numbers[0])
        difference = self._difference(a, b, [term for side in values for term in side.terms])
        interval = difference.interval

        def inside(regions: Regions) -> bool:
            return any(low < interval.low and interval.high < high for low, high in regions)

        outcome: Outcome = "unresolved"
        if inside(met):
            outcome = "met"
        elif inside(against):
            outcome = "contradicted"
        thresholds = against if outcome == "contradicted" else met
        ends = [end for region in thresholds for end in region if math.isfinite(end)]
        compared = metrics.metric(metric)
        methods = ", ".join(filter(None, [f"{' against '.join(names)}{words}", self.words]))
        keys = [side.key for side in values if side.key]
        paper: tuple[published.Effect, ...] = ()
        if len(keys) == 2 and "dataset" in self.runs:
            paper = published.effects(*keys, published.data_of(self.runs), self.words)
        return Finding(
            self.variant,
            outcome,
            f"{compared}, {methods}",
            difference,
            compared,
            p_value=max(map(difference.p_value, ends)),
            against_zero=not any(ends),
            paper=paper,
            methods=methods,
            scales=self.scales,
        )

    def interval(
        self, metric: str, first: Method | str, second: Method | str
    ) -> statistics.Interval | None:
        """Estimate the difference of two methods in a metric; None for fewer than two units."""
        finding = replace(self, seeds=2).larger(metric, first, second)
        return finding.difference.interval if finding and finding.difference else None

    def _difference(
        self, a: FloatArray, b: FloatArray, terms: Sequence[Term]
    ) -> statistics.Difference:
        """Estimate a difference by the one rule of the book.

        Folds of one data set share training samples; image networks that share a seed share
        nothing, so that their deviation is pooled; everything else is paired, and so is what comes
        from the same networks.
        """
        if self.printed:
            return statistics.without_interval(a - b)
        if self.resampled:
            return statistics.resampled_difference(a, b, self.resampled)
        runs = [term.runs for term in terms]
        same = any(one & other for one, other in itertools.combinations(runs, 2))
        if not self.independent or same or not terms:
            return statistics.paired_difference(a, b)
        sides = [(term.weight, self._spread(term, len(a))) for term in terms]
        return statistics.independent_difference(a - b, sides)

    def _spread(self, term: Term, units: int) -> statistics.Spread:
        """Estimate the variance of a single run of a method.

        It is pooled over the methods of the variant that have as many units, but for those that
        deviate by more than :data:`_UNLIKE` times the median; such a one has its own.
        """
        of_each = self.all_runs[term.metric].groupby(self._alike, sort=False)
        groups = [group.dropna() for _, group in of_each]
        groups = [group for group in groups if len(group) >= max(2, units)]
        deviations = [float(group.std()) for group in groups]
        limit = _UNLIKE * float(np.median(deviations)) if groups else 0.0
        if term.numbers.std() > limit:
            return statistics.spread(term.numbers)
        pairs = zip(groups, deviations, strict=True)
        return statistics.pooled_spread([group for group, own in pairs if own <= limit])

    @functools.cached_property
    def _alike(self) -> NDArray[np.integer[Any]]:
        """Number the groups of runs that differ in their seeds alone, run by run."""
        runs = self.all_runs
        by = [runs["method"], *(runs[name].astype(str) for name in APART if name in runs)]
        return runs.groupby(by, dropna=False, sort=False).ngroup().to_numpy()

    # --- combinations ---

    def all_of(self, *findings: Finding | None) -> Finding | None:
        """Combine findings: met if all are met, contradicted if one is contradicted."""
        return self._combined(findings, "all", "all of these")

    def any_of(self, *findings: Finding | None) -> Finding | None:
        """Combine findings: met if one is met, contradicted if all are contradicted."""
        return self._combined(findings, "any", "one of these")

    def _combined(self, findings: Sequence[Finding | None], how: How, text: str) -> Finding | None:
        there = tuple(finding for finding in findings if finding)
        if not there or (len(there) < len(findings) and not self.some):
            return None
        if len(there) == 1:
            return there[0]
        outcome = combined(how, [finding.outcome for finding in there])
        return Finding(self.variant, outcome, text, scales=self.scales, how=how, findings=there)

    def provided(self, premise: Finding | None, finding: Finding | None) -> Finding | None:
        """Take the second finding where the first is met; it is unresolved elsewhere."""
        if premise is None or finding is None:
            return None
        return self._combined([premise, finding], "provided", "the second, provided the first")


def combined(how: How, outcomes: Sequence[Outcome]) -> Outcome:
    """Combine the outcomes of comparisons.

    Example:
        >>> combined("all", ["met", "unresolved"]), combined("any", ["met", "contradicted"])
        ('unresolved', 'met')
        >>> combined("provided", ["unresolved", "met"])
        'unresolved'
    """
    if how == "provided":
        return outcomes[1] if outcomes[0] == "met" else "unresolved"
    one: Outcome = "met" if how == "any" else "contradicted"
    every: Outcome = "contradicted" if how == "any" else "met"
    if one in outcomes:
        return one
    return every if set(outcomes) == {every} else "unresolved"


def _bound(metric: str, number: float) -> str:
    """Write a threshold in the unit in which the difference is written."""
    measured = metrics.metric(metric)
    return f"{measured.factor * number:g} {measured.unit}".rstrip()


def minus(first: Values, second: Values, name: str = "{} minus {}") -> Values:
    """Subtract one side from another, unit by unit."""
    return Values(
        (first.numbers - second.numbers).dropna(),
        name.format(first.name, second.name),
        terms=first.terms + second.terms,
    )


def times(factor: float, side: Values, name: str) -> Values:
    """Multiply a side by a number."""
    terms = tuple(replace(term, weight=factor**2 * term.weight) for term in side.terms)
    return Values(factor * side.numbers, name, terms=terms)


def average(sides: Sequence[Values], name: str) -> Values:
    """Average several sides over the units that all of them have."""
    if not sides:
        return Values(pd.Series(dtype=float), name)
    numbers = pd.concat([side.numbers for side in sides], axis=1).dropna().mean(axis=1)
    share = 1 / len(sides) ** 2
    terms = tuple(
        replace(term, weight=share * term.weight) for side in sides for term in side.terms
    )
    keys = [side.key for side in sides if side.key]
    methods = tuple(method for _, method in keys if isinstance(method, Method))
    key = (keys[0][0], methods) if len(methods) == len(sides) else None
    return Values(numbers, name, key, terms)
