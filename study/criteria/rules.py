"""Rules that decide a finding, and the few combinators that they are made of.

A rule looks at the runs of one variant (what the papers leave unsaid, filled in one way) and says *met*, *contradicted* or *unresolved*, by
where an interval lies against the rule's own threshold. It says nothing (None) while a run that it needs is missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from study import published, statistics
from study.statistics import PairedDifference

Outcome = Literal["met", "contradicted", "unresolved"]

METRICS = {
    "test_accuracy": "test accuracy",
    "test_top5_accuracy": "top-5 test accuracy",
    "train_accuracy": "training accuracy",
    "test_ece": "test ECE",
    "test_ece_temperature": "test ECE after temperature scaling",
    "test_ece_vector": "test ECE after vector scaling",
    "test_ece_link": "test ECE after the link",
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
    """The runs of one variant.

    Attributes:
        name: such as ``relu-unit``.
        runs: with ``setting`` (a number for a constant β, otherwise a label), the metrics, and the column ``unit``.
        seeds: how many pairs a comparison needs to decide.
        unit: what pairs two values: ``"seed"``, or ``"title"`` for data sets.
        some: whether "the best of" and "each of" speak of the rivals that were run, instead of waiting for all of them.
    """

    name: str
    runs: pd.DataFrame
    seeds: int = 2
    unit: str = "seed"
    some: bool = False

    def having(self, metric: str, setting: published.Setting) -> pd.Series[float]:
        """Take the metric of one setting, unit by unit."""
        if metric not in self.runs:
            return pd.Series(dtype=float)
        here = [other == setting for other in self.runs["setting"]]
        return pd.Series(self.runs[metric].to_numpy()[here], self.runs[self.unit].to_numpy()[here], dtype=float).dropna()


@dataclass(frozen=True)
class Values:
    """A number for each unit, with a name; ``metric`` and ``setting`` where it is one metric of one setting, as the papers may print it."""

    numbers: pd.Series[float]
    name: str
    metric: str = ""
    setting: published.Setting | None = None


@dataclass(frozen=True)
class Finding:
    """What one variant says about one part of a claim.

    Attributes:
        variant: its name.
        outcome: *met*, *contradicted* or *unresolved*.
        text: the comparison in words.
        difference: the difference that decided it; None for a combination.
        p_value: the level at which its interval would touch the threshold; NaN for a combination.
        paper: the papers' own effect, where they print both sides; empty otherwise.
        scale: of the runs.
        decides: whether it counts; a finding of older runs, or of another scope than the claim's, is only shown.
        components: what a combination is made of.
    """

    variant: str
    outcome: Outcome
    text: str
    difference: PairedDifference | None = None
    p_value: float = math.nan
    paper: str = ""
    scale: str = ""
    decides: bool = True
    components: tuple[Finding, ...] = ()

    def leaves(self) -> Iterator[Finding]:
        """List the comparisons that it is made of; itself, if it is one."""
        if self.difference is not None:
            yield self
        for component in self.components:
            yield from component.leaves()


Side = Callable[[Variant], Values | None]
"""A number for each unit, from the runs of a variant."""

Choice = Callable[[Variant], "published.Setting | None"]
"""A setting that the runs themselves choose."""

Rule = Callable[[Variant], Finding | None]
"""From the runs of a variant to a finding, or to None if they are not all there."""

_Compared = Side | published.Setting | Choice


@dataclass(frozen=True)
class Criterion:
    """A part of a claim: its sentence in ``campaigns/criteria.yml``, the rule that is its meaning, and the kind of runs it speaks of.

    One that does not decide is only shown.
    """

    sentence: str
    rule: Rule
    kind: str
    decides: bool = True


def claim(kind: str, sentences: str, **rules: Rule | Criterion) -> dict[str, Criterion]:
    """Join the parts of a claim: each sentence begins with the letter of its rule and a colon."""
    texts = re.split(r"^\s*([a-z]): ", sentences, flags=re.MULTILINE)
    written = {letter: " ".join(text.split()) for letter, text in zip(texts[1::2], texts[2::2], strict=True)}
    if list(written) != list(rules):
        raise ValueError(f"sentences for {', '.join(written)}, but rules for {', '.join(rules)}")
    parts = {letter: rule if isinstance(rule, Criterion) else Criterion("", rule, kind) for letter, rule in rules.items()}
    return {letter: replace(part, sentence=written[letter], kind=part.kind or kind) for letter, part in parts.items()}


def of_kind(kind: str, rule: Rule) -> Criterion:
    """Apply a rule to other runs than those of its claim."""
    return Criterion("", rule, kind)


def shown(rule: Rule) -> Criterion:
    """Show the findings of a rule, which decide nothing."""
    return Criterion("", rule, "", decides=False)


# --- sides of a comparison ---


def of(metric: str, compared: _Compared, name: str = "") -> Side:
    """Take a metric of one setting (a number is a constant β, a text a loss or a warm-up); a side stays as it is."""

    def side(variant: Variant) -> Values | None:
        found = compared(variant) if callable(compared) else compared
        if found is None or isinstance(found, Values):
            return found
        numbers = variant.having(metric, found)
        return None if numbers.empty else Values(numbers, name or published.setting_name(found), metric, found)

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


def given(keep: Callable[[pd.DataFrame], pd.DataFrame], side: Side) -> Side:
    """Take a side from a part of the runs."""
    return lambda variant: side(replace(variant, runs=keep(variant.runs)))


def minus(first: Side, second: Side, name: str = "{} minus {}") -> Side:
    """Subtract one side from another, unit by unit."""

    def side(variant: Variant) -> Values | None:
        a, b = first(variant), second(variant)
        return None if a is None or b is None else Values((a.numbers - b.numbers).dropna(), name.format(a.name, b.name), a.metric)

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
    return _comparison(metric, left, right, lambda low, high: (low > by, high < by), [by], words, pooled)


def smaller(metric: str, left: _Compared, right: _Compared | None = None, *, by: float = 0.0, pooled: bool = False) -> Rule:
    """Met if the interval of left − right lies below ``by``, contradicted if it lies above."""
    words = f", less than {by:g} above" if by else ""
    return _comparison(metric, left, right, lambda low, high: (high < by, low > by), [by], words, pooled)


def differs(metric: str, left: _Compared, right: _Compared, *, margin: float = 0.0) -> Rule:
    """Met if the interval of left − right excludes 0; contradicted if it includes 0 and lies within the margin, if one was stated."""
    return _comparison(metric, left, right, lambda low, high: (low > 0 or high < 0, -margin < low and high < margin), [0.0])


def within(tolerance: float, metric: str, left: _Compared, right: _Compared) -> Rule:
    """Met if the interval of left − right lies within the tolerance of 0, contradicted if it lies outside on one side."""
    ends, words = [-tolerance, tolerance], f", within {tolerance:g} of 0"
    return _comparison(
        metric, left, right, lambda low, high: (ends[0] < low and high < ends[1], low > ends[1] or high < ends[0]), ends, words
    )


def _comparison(
    metric: str,
    left: _Compared,
    right: _Compared | None,
    judge: Callable[[float, float], tuple[bool, bool]],
    thresholds: Sequence[float],
    words: str = "",
    pooled: bool = False,
) -> Rule:
    """The rule that compares two sides over the units that both have; ``judge`` says of the interval whether it meets and contradicts."""

    def rule(variant: Variant) -> Finding | None:
        first = of(metric, left)(variant)
        second = of(metric, right)(variant) if right is not None else first and Values(0 * first.numbers, "")
        if first is None or second is None:
            return None
        if first.numbers.index.has_duplicates or second.numbers.index.has_duplicates:
            raise ValueError(f"{variant.name}: {first.name} or {second.name} has two runs of one {variant.unit}")
        both = pd.concat([first.numbers, second.numbers], axis=1).dropna().to_numpy()
        if len(both) < max(2, variant.seeds):
            return None
        difference = statistics.paired_difference(both[:, 0], both[:, 1])
        if pooled:
            groups = [group.to_numpy() for _, group in variant.runs.groupby("setting")[metric] if len(group) == len(both)]
            difference = statistics.pooled_difference(both[:, 0], both[:, 1], groups)
        met, against = judge(difference.interval.low, difference.interval.high)
        outcome: Outcome = "met" if met else "contradicted" if against else "unresolved"
        text = f"{METRICS.get(metric, metric)}, {first.name}" + (f" against {second.name}" if right is not None else "") + words
        p_value = max(difference.p_value(threshold) for threshold in thresholds)
        return Finding(variant.name, outcome, text, difference, p_value, _printed(variant, first, second), _scale(variant.runs))

    return rule


def _printed(variant: Variant, first: Values, second: Values) -> str:
    if first.setting is None or second.setting is None or "dataset" not in variant.runs:
        return ""
    dataset = published.DATASETS.get(str(variant.runs["dataset"].iloc[0]), "")
    return published.effect((first.metric, first.setting), (second.metric, second.setting), dataset)


def _scale(runs: pd.DataFrame) -> str:
    return ", ".join(sorted(set(runs["scale"]))) if "scale" in runs else ""


# --- combinations ---


def all_of(*rules: Rule) -> Rule:
    """Met if all are met, contradicted if one is contradicted."""
    return _combined(
        rules,
        "all of these",
        lambda found: "contradicted" if "contradicted" in found else "met" if set(found) == {"met"} else "unresolved",
    )


def any_of(*rules: Rule) -> Rule:
    """Met if one is met, contradicted if all are contradicted."""
    return _combined(
        rules,
        "one of these",
        lambda found: "met" if "met" in found else "contradicted" if set(found) == {"contradicted"} else "unresolved",
    )


def provided(premise: Rule, rule: Rule) -> Rule:
    """As the second rule says where the first is met; unresolved elsewhere."""
    text = "the second, provided the first"
    return _combined((premise, rule), text, lambda found: found[1] if found[0] == "met" else "unresolved", every=True)


def where(keep: Callable[[pd.DataFrame], pd.DataFrame], rule: Rule, words: str = "") -> Rule:
    """As the rule says of a part of the runs; nothing where there is none."""

    def narrowed(variant: Variant) -> Finding | None:
        runs = keep(variant.runs)
        found = rule(replace(variant, runs=runs)) if len(runs) else None
        return found and _worded(found, words)

    return narrowed


def _worded(finding: Finding, words: str) -> Finding:
    components = tuple(_worded(component, words) for component in finding.components)
    return replace(finding, text=finding.text + (f", {words}" if words and finding.difference else ""), components=components)


def _combined(rules: Sequence[Rule], text: str, decide: Callable[[Sequence[Outcome]], Outcome], *, every: bool = False) -> Rule:
    def rule(variant: Variant) -> Finding | None:
        found = [finding for one in rules if (finding := one(variant)) is not None]
        if not found or (len(found) < len(rules) and (every or not variant.some)):
            return None
        if len(found) == 1 and len(rules) > 1:
            return found[0]
        return Finding(variant.name, decide([one.outcome for one in found]), text, scale=found[0].scale, components=tuple(found))

    return rule
