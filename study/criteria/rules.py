"""The few words that rules are made of.

A rule looks at one variant (the runs in which what the papers leave unsaid is filled in one way)
and says *met*, *contradicted* or *unresolved*, by where an interval lies against the rule's own
threshold. It says nothing (None) while a run that it needs is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from study import published, statistics
from study.published import Setting

Outcome = Literal["met", "contradicted", "unresolved"]
Regions = Sequence[
    tuple[float, float]
]  # where an interval can lie: between two numbers, without them

METRICS = {
    "test_accuracy": "test accuracy",
    "test_top5_accuracy": "top-5 test accuracy",
    "train_accuracy": "training accuracy",
    "test_ece": "test ECE",
    "test_mce": "test MCE",
    "overconfidence": "test confidence − accuracy",
    "train_confidence": "training confidence",
    "train_margin_bias": "bias of the training samples",
    "bias_rise": "rise of the bias after its lowest value",
    "lost": "training samples with p ≤ 0.2",
    "errors": "training errors",
    "lost_share": "share of the training errors with p ≤ 0.2",
    "sure": "training samples with p > 0.8",
    "early_cross_entropy": "training cross-entropy, first ten epochs",
    "early_accuracy": "test accuracy, first quarter of the epochs",
    "epoch_easy": "epoch at which the easiest fifth is sure",
    "gap": "confidence of the easiest minus the hardest fifth",
    "never_learnt": "share of samples never learnt",
    "intra_inter_ratio": "spread within classes, against the distance between them",
    "minimum_to_mean_inter": "smallest distance of two classes, against the mean",
    "oscillation": "deviation of the change of test accuracy",
    "falls": "falls of test accuracy, added up",
    "wc_intra": "WC-Intra",
    "w_inter": "W-Inter",
    "mean_target_angle": "angle to the class vector, mean over training",
    "excess": "time of the loss beyond softmax, as a share of a step",
    "wins": "tables won",
    "negative_rank": "minus the rank",
}
"""What a metric is called in a sentence."""


@dataclass(frozen=True)
class Finding:
    """What one variant says about one part of a claim: a comparison with its difference, or a combination of others."""

    variant: str
    outcome: Outcome
    text: str  # the comparison in words
    difference: statistics.PairedDifference | None = None
    p_value: float = math.nan  # the level at which the interval would touch the threshold
    paper: str = ""  # the papers' own effect, where they print both sides
    scale: str = ""  # of the runs
    decides: bool = (
        True  # a finding of older runs, or of another scope than the claim's, is only shown
    )
    components: tuple[Finding, ...] = ()

    def leaves(self) -> Iterator[Finding]:
        """List the comparisons that it is made of; itself, if it is one."""
        if self.difference is not None:
            yield self
        for component in self.components:
            yield from component.leaves()

    def only_shown(self) -> Finding:
        """Copy it, so that it decides nothing."""
        return replace(
            self,
            decides=False,
            components=tuple(component.only_shown() for component in self.components),
        )


@dataclass(frozen=True)
class Values:
    """A number for each unit, with a name; ``key`` if the papers may print it: a metric of one setting, or of the best of some."""

    numbers: pd.Series[float]
    name: str
    key: published.Key | None = None


Side = (
    Setting | Values | None
)  # a number is a constant β, a text a loss or a warm-up; None is a setting that was not run


@dataclass(frozen=True)
class Variant:
    """The runs of one variant, or a part of them, with the rules that can be asked of it."""

    name: str  # such as relu-unit
    # with ``setting`` (a number for a constant β, otherwise a label), the metrics, and the column
    # ``unit``
    runs: pd.DataFrame
    seeds: int = 2  # how many pairs a comparison needs to decide
    unit: str = "seed"  # what pairs two values; "title" for data sets
    # whether "the best of" and "each of" speak of the rivals that were run, instead of waiting for
    # all
    some: bool = False
    # whether runs of one seed have nothing in common, so that the deviation is that of all settings
    # together
    pooled: bool = False
    words: str = ""  # the part of the runs that is meant

    @property
    def scale(self) -> str:
        """The scale of the runs, such as ``"reduced"``."""
        return ", ".join(sorted(set(self.runs.get("scale", []))))

    # --- parts of the runs, settings, and sides of a comparison ---

    def where(self, kept: pd.Series[bool], words: str = "") -> Variant:
        """Take some of the runs."""
        return replace(self, runs=self.runs[kept], words=words)

    def at(self, words: str = "", **values: float | str) -> Variant:
        """Take the runs that have these values in their columns."""
        return self.where(self.runs[list(values)].eq(pd.Series(values)).all(axis=1), words)

    def having(self, metric: str, setting: Setting | None) -> pd.Series[float]:
        """Take the metric of one setting, unit by unit."""
        if metric not in self.runs:
            return pd.Series(dtype=float)
        here = [other == setting for other in self.runs["setting"]]
        return pd.Series(
            self.runs[metric].to_numpy()[here], self.runs[self.unit].to_numpy()[here], dtype=float
        ).dropna()

    def of(self, metric: str, side: Side, name: str = "") -> Values:
        """Take a metric of one setting, by name; a side that has its values stays as it is."""
        if isinstance(side, Values):
            return side
        if side is None:
            return Values(pd.Series(dtype=float), "")
        return Values(
            self.having(metric, side), name or published.setting_name(side), (metric, side)
        )

    def means(self, metric: str) -> dict[Setting, float]:
        """Average a metric for each setting that has all its seeds."""
        values = {
            setting: self.having(metric, setting) for setting in dict.fromkeys(self.runs["setting"])
        }
        return {
            setting: float(found.mean())
            for setting, found in values.items()
            if len(found) >= self.seeds
        }

    def best_of(self, *settings: Setting, by: str = "test_accuracy") -> Values | None:
        """Take the setting with the largest mean; a loss without its numbers stands for all of them.

        None as long as one was not run, unless the variant speaks of ``some``.
        """
        means = self.means(by)
        found = [
            [name for name in means if asked in (name, str(name).partition(" ")[0])]
            for asked in settings
        ]
        best = (
            max(sum(found, []), key=means.__getitem__, default=None)
            if self.some or all(found)
            else None
        )
        return None if best is None else replace(self.of(by, best), key=(by, frozenset(settings)))

    # --- comparisons of two sides, or of one with 0 ---

    def larger(self, metric: str, *sides: Side, by: float = 0.0) -> Finding | None:
        """Met if the interval of the first side minus the second lies above ``by``, contradicted if it lies below.

        The metric is that of the settings; of a side that has its values it is the name alone.
        """
        return self._compared(
            metric,
            sides,
            [(by, math.inf)],
            [(-math.inf, by)],
            f", by more than {by:g}" if by else "",
        )

    def smaller(self, metric: str, *sides: Side, by: float = 0.0) -> Finding | None:
        """Met if the interval of the first side minus the second lies below ``by``, contradicted if it lies above."""
        return self._compared(
            metric,
            sides,
            [(-math.inf, by)],
            [(by, math.inf)],
            f", less than {by:g} above" if by else "",
        )

    def differs(self, metric: str, *sides: Side, margin: float = 0.0) -> Finding | None:
        """Met if the interval excludes 0; contradicted if it includes 0 and lies within the margin, if one was stated."""
        return self._compared(
            metric, sides, [(0.0, math.inf), (-math.inf, 0.0)], [(-margin, margin)]
        )

    def within(self, tolerance: float, metric: str, *sides: Side) -> Finding | None:
        """Met if the interval lies within the tolerance of 0, contradicted if it lies outside on one side."""
        outside = [(tolerance, math.inf), (-math.inf, -tolerance)]
        return self._compared(
            metric, sides, [(-tolerance, tolerance)], outside, f", within {tolerance:g} of 0"
        )

    def _compared(
        self, metric: str, sides: Sequence[Side], met: Regions, against: Regions, words: str = ""
    ) -> Finding | None:
        """Compare over the units that all sides have, by the region in which the interval lies."""
        values = [self.of(metric, side) for side in sides]
        names = [side.name for side in values]
        if any(side.numbers.index.has_duplicates for side in values):
            raise ValueError(f"{self.name}: {' or '.join(names)} has two runs of one {self.unit}")
        numbers = pd.concat([side.numbers for side in values], axis=1).dropna().to_numpy().T
        if numbers.shape[1] < max(2, self.seeds):
            return None
        a, b = numbers if len(numbers) == 2 else (numbers[0], 0 * numbers[0])
        difference = statistics.paired_difference(a, b)
        if self.pooled:
            groups = [
                group.to_numpy()
                for _, group in self.runs.groupby("setting")[metric]
                if len(group) == len(a)
            ]
            difference = statistics.pooled_difference(a, b, groups)
        interval = difference.interval

        def inside(regions: Regions) -> bool:
            return any(low < interval.low and interval.high < high for low, high in regions)

        outcome: Outcome = (
            "met" if inside(met) else "contradicted" if inside(against) else "unresolved"
        )
        text = f"{METRICS.get(metric, metric)}, {' against '.join(names)}{words}" + (
            f", {self.words}" if self.words else ""
        )
        p_value = max(
            difference.p_value(end) for region in met for end in region if math.isfinite(end)
        )
        keys = [side.key for side in values if side.key]
        paper = ""  # as the papers print it
        if len(keys) == 2 and "dataset" in self.runs:
            where = published.DATASETS.get(str(self.runs["dataset"].iloc[0]), "")
            paper = published.effect(*keys, f"{where}, {self.words}" if self.words else where)
        return Finding(self.name, outcome, text, difference, p_value, paper, self.scale)

    # --- combinations ---

    def all_of(self, *findings: Finding | None) -> Finding | None:
        """Met if all are met, contradicted if one is contradicted."""
        return self._combined(findings, "all of these", if_any="contradicted", if_all="met")

    def any_of(self, *findings: Finding | None) -> Finding | None:
        """Met if one is met, contradicted if all are contradicted."""
        return self._combined(findings, "one of these", if_any="met", if_all="contradicted")

    def _combined(
        self, findings: Sequence[Finding | None], text: str, *, if_any: Outcome, if_all: Outcome
    ) -> Finding | None:
        found = tuple(finding for finding in findings if finding)
        if not found or (len(found) < len(findings) and not self.some):
            return None
        if len(found) == 1:
            return found[0]
        outcomes = {finding.outcome for finding in found}
        outcome: Outcome = (
            if_any if if_any in outcomes else if_all if outcomes == {if_all} else "unresolved"
        )
        return Finding(self.name, outcome, text, scale=self.scale, components=found)

    def provided(self, premise: Finding | None, finding: Finding | None) -> Finding | None:
        """As the second says where the first is met; unresolved elsewhere."""
        if premise is None or finding is None:
            return None
        outcome: Outcome = finding.outcome if premise.outcome == "met" else "unresolved"
        text = "the second, provided the first"
        return Finding(self.name, outcome, text, scale=self.scale, components=(premise, finding))


def minus(first: Values, second: Values, name: str = "{} minus {}") -> Values:
    """Subtract one side from another, unit by unit."""
    return Values((first.numbers - second.numbers).dropna(), name.format(first.name, second.name))
