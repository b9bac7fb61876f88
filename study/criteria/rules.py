"""Rules that decide a finding, and the few combinators that they are made of.

A rule looks at the runs of one variant (what the papers leave unsaid, filled in one way) and says *met*, *contradicted* or *unresolved*, by
where an interval lies against the rule's own threshold. It says nothing (None) while a run that it needs is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from study import published, statistics

Outcome = Literal["met", "contradicted", "unresolved"]
Regions = Sequence[tuple[float, float]]  # where an interval can lie: between two numbers, without them

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
class Variant:
    """The runs of one variant."""

    name: str  # such as relu-unit
    runs: pd.DataFrame  # with ``setting`` (a number for a constant β, otherwise a label), the metrics, and the column ``unit``
    seeds: int = 2  # how many pairs a comparison needs to decide
    unit: str = "seed"  # what pairs two values; "title" for data sets
    some: bool = False  # whether "the best of" and "each of" speak of the rivals that were run, instead of waiting for all

    @property
    def scale(self) -> str:
        """The scale of the runs, such as ``"reduced"``."""
        return ", ".join(sorted(set(self.runs.get("scale", []))))

    def having(self, metric: str, setting: published.Setting) -> pd.Series[float]:
        """Take the metric of one setting, unit by unit."""
        if metric not in self.runs:
            return pd.Series(dtype=float)
        here = [other == setting for other in self.runs["setting"]]
        return pd.Series(self.runs[metric].to_numpy()[here], self.runs[self.unit].to_numpy()[here], dtype=float).dropna()


@dataclass(frozen=True)
class Values:
    """A number for each unit, with a name; ``key`` if it is one metric of one setting, as the papers may print it."""

    numbers: pd.Series[float]
    name: str
    key: tuple[str, published.Setting] | None = None


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
    decides: bool = True  # a finding of older runs, or of another scope than the claim's, is only shown
    components: tuple[Finding, ...] = ()

    def leaves(self) -> Iterator[Finding]:
        """List the comparisons that it is made of; itself, if it is one."""
        if self.difference is not None:
            yield self
        for component in self.components:
            yield from component.leaves()


Side = Callable[[Variant], Values | None]  # a number for each unit, from the runs of a variant
Choice = Callable[[Variant], "published.Setting | None"]  # a setting that the runs themselves choose
Rule = Callable[[Variant], Finding | None]  # from the runs of a variant to a finding, or to None if they are not all there
Keep = Callable[[pd.DataFrame], pd.DataFrame]  # a part of the runs
_Compared = Side | published.Setting | Choice


@dataclass(frozen=True)
class Criterion:
    """A part of a claim: the rule that is the meaning of its sentence in ``campaigns/criteria.yml``, and the kind of runs it speaks of.

    One that does not decide is only shown.
    """

    rule: Rule
    kind: str
    decides: bool = True
    sentence: str = ""


def claim(kind: str, **parts: Rule | Criterion) -> dict[str, Criterion]:
    """List the parts of a claim by their letters; a rule is about runs of this kind."""
    return {letter: part if isinstance(part, Criterion) else Criterion(part, kind) for letter, part in parts.items()}


# --- sides of a comparison ---


def of(metric: str, compared: _Compared, name: str = "") -> Side:
    """Take a metric of one setting (a number is a constant β, a text a loss or a warm-up); a side stays as it is."""

    def side(variant: Variant) -> Values | None:
        found = compared(variant) if callable(compared) else compared
        if found is None or isinstance(found, Values):
            return found
        numbers = variant.having(metric, found)
        return None if numbers.empty else Values(numbers, name or published.setting_name(found), (metric, found))

    return side


def best_of(*settings: published.Setting, by: str = "test_accuracy", smallest: bool = False) -> Choice:
    """Choose the setting with the largest (or smallest) mean; without settings, among all constant β that were run."""

    def choose(variant: Variant) -> published.Setting | None:
        asked = settings or tuple(dict.fromkeys(name for name in variant.runs["setting"] if isinstance(name, float)))
        means = {name: found.mean() for name in asked if len(found := variant.having(by, name)) >= variant.seeds}
        if not means or (len(means) < len(asked) and settings and not variant.some):
            return None
        return (min if smallest else max)(means, key=lambda name: means[name])

    return choose


def given(keep: Keep, side: Side) -> Side:
    """Take a side from a part of the runs."""
    return lambda variant: side(replace(variant, runs=keep(variant.runs)))


def minus(first: Side, second: Side, name: str = "{} minus {}") -> Side:
    """Subtract one side from another, unit by unit."""

    def side(variant: Variant) -> Values | None:
        a, b = first(variant), second(variant)
        return None if a is None or b is None else Values((a.numbers - b.numbers).dropna(), name.format(a.name, b.name))

    return side


# --- comparisons ---


def larger(metric: str, left: _Compared, right: _Compared | None = None, *, by: float = 0.0, pooled: bool = False) -> Rule:
    """Met if the interval of left − right lies above ``by``, contradicted if it lies below.

    Args:
        metric: of both settings; of a :data:`Side` only its name.
        left: a setting, a choice of one, or a side.
        right: the same; None for the number 0.
        by: the threshold.
        pooled: whether the runs are not paired, and the deviation is pooled over all settings of the variant.
    """
    words = f", by more than {by:g}" if by else ""
    return _comparison(metric, left, right, [(by, math.inf)], [(-math.inf, by)], words, pooled)


def smaller(metric: str, left: _Compared, right: _Compared | None = None, *, by: float = 0.0, pooled: bool = False) -> Rule:
    """Met if the interval of left − right lies below ``by``, contradicted if it lies above."""
    words = f", less than {by:g} above" if by else ""
    return _comparison(metric, left, right, [(-math.inf, by)], [(by, math.inf)], words, pooled)


def differs(metric: str, left: _Compared, right: _Compared, *, margin: float = 0.0) -> Rule:
    """Met if the interval of left − right excludes 0; contradicted if it includes 0 and lies within the margin, if one was stated."""
    return _comparison(metric, left, right, [(0.0, math.inf), (-math.inf, 0.0)], [(-margin, margin)])


def within(tolerance: float, metric: str, left: _Compared, right: _Compared) -> Rule:
    """Met if the interval of left − right lies within the tolerance of 0, contradicted if it lies outside on one side."""
    outside, words = [(tolerance, math.inf), (-math.inf, -tolerance)], f", within {tolerance:g} of 0"
    return _comparison(metric, left, right, [(-tolerance, tolerance)], outside, words)


def _comparison(
    metric: str,
    left: _Compared,
    right: _Compared | None,
    met: Regions,
    against: Regions,
    words: str = "",
    pooled: bool = False,
) -> Rule:
    """Compare two sides over the units that both have, by the region in which the interval lies."""

    def rule(variant: Variant) -> Finding | None:
        first = of(metric, left)(variant)
        second = of(metric, right)(variant) if right is not None else first and Values(0 * first.numbers, "")
        if first is None or second is None:
            return None
        if first.numbers.index.has_duplicates or second.numbers.index.has_duplicates:
            raise ValueError(f"{variant.name}: {first.name} or {second.name} has two runs of one {variant.unit}")
        a, b = pd.concat([first.numbers, second.numbers], axis=1).dropna().to_numpy().T
        if len(a) < max(2, variant.seeds):
            return None
        difference = statistics.paired_difference(a, b)
        if pooled:
            groups = [group.to_numpy() for _, group in variant.runs.groupby("setting")[metric] if len(group) == len(a)]
            difference = statistics.pooled_difference(a, b, groups)
        interval = difference.interval

        def inside(regions: Regions) -> bool:
            return any(low < interval.low and interval.high < high for low, high in regions)

        outcome: Outcome = "met" if inside(met) else "contradicted" if inside(against) else "unresolved"
        text = f"{METRICS.get(metric, metric)}, {first.name}" + (f" against {second.name}" if right is not None else "") + words
        p_value = max(difference.p_value(end) for region in met for end in region if math.isfinite(end))
        return Finding(variant.name, outcome, text, difference, p_value, _printed(variant, first, second), variant.scale)

    return rule


def _printed(variant: Variant, first: Values, second: Values) -> str:
    """The papers' own effect."""
    if first.key is None or second.key is None or "dataset" not in variant.runs:
        return ""
    return published.effect(first.key, second.key, published.DATASETS.get(str(variant.runs["dataset"].iloc[0]), ""))


# --- combinations ---


def all_of(*rules: Rule) -> Rule:
    """Met if all are met, contradicted if one is contradicted."""
    return _combined(rules, "all of these", if_any="contradicted", if_all="met")


def any_of(*rules: Rule) -> Rule:
    """Met if one is met, contradicted if all are contradicted."""
    return _combined(rules, "one of these", if_any="met", if_all="contradicted")


def _combined(rules: Sequence[Rule], text: str, *, if_any: Outcome, if_all: Outcome) -> Rule:
    def rule(variant: Variant) -> Finding | None:
        found = [finding for one in rules if (finding := one(variant)) is not None]
        if not found or (len(found) < len(rules) and not variant.some):
            return None
        if len(found) == 1 and len(rules) > 1:
            return found[0]
        outcomes = {one.outcome for one in found}
        outcome: Outcome = if_any if if_any in outcomes else if_all if outcomes == {if_all} else "unresolved"
        return Finding(variant.name, outcome, text, scale=variant.scale, components=tuple(found))

    return rule


def provided(premise: Rule, rule: Rule) -> Rule:
    """As the second rule says where the first is met; unresolved elsewhere."""

    def both(variant: Variant) -> Finding | None:
        first, second = premise(variant), rule(variant)
        if first is None or second is None:
            return None
        outcome: Outcome = second.outcome if first.outcome == "met" else "unresolved"
        return Finding(variant.name, outcome, "the second, provided the first", scale=variant.scale, components=(first, second))

    return both


def where(keep: Keep, rule: Rule, words: str = "") -> Rule:
    """As the rule says of a part of the runs; nothing where there is none."""

    def worded(finding: Finding) -> Finding:
        text = f"{finding.text}, {words}" if words and finding.difference else finding.text
        return replace(finding, text=text, components=tuple(map(worded, finding.components)))

    def narrowed(variant: Variant) -> Finding | None:
        runs = keep(variant.runs)
        found = rule(replace(variant, runs=runs)) if len(runs) else None
        return found and worded(found)

    return narrowed
