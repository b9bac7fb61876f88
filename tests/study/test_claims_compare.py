"""The words that rules are made of: one comparison, its estimator, its notes, and combinations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from study.claims import Finding, VariantRuns
from study.claims.compare import average, minus, times
from study.claims.rules import rising
from study.methods import Method
from study.variants import Variant

V = Variant("v")
SMALL, PLAIN = Method.of_beta(0.1), Method.of_beta(1.0)
HINGE, MODIFIED, ANY_LM = map(Method.parse, ("hinge", "modified", "lm"))
IMAGE_NETWORK = {"model": "vgg16"}
PERCEPTRON = {"model": "mlp"}


def variant(
    columns: dict[str, str] = PERCEPTRON, seeds: int = 5, some: bool = False, **means: float
) -> VariantRuns:
    """A variant with one metric ``x``: "a" with mean 1 and so on, deviations of about 0.01."""
    generator = np.random.default_rng(1)
    rows = [
        {"method": Method.named(name) or name, "seed": seed, "x": mean + 0.01 * generator.normal()}
        for name, mean in means.items()
        for seed in range(seeds)
    ]
    return VariantRuns(V, pd.DataFrame(rows).assign(**columns), 2, some=some)


def with_values(columns: dict[str, str], metric: str = "x", **values: list[float]) -> VariantRuns:
    """A variant in which the methods have these numbers, seed by seed."""
    rows = [
        {"method": name, "seed": seed, metric: value}
        for name, of_method in values.items()
        for seed, value in enumerate(of_method)
    ]
    return VariantRuns(V, pd.DataFrame(rows).assign(**columns), 2)


def interval(found: Finding | None) -> tuple[float, float]:
    assert found is not None and found.difference is not None
    return found.difference.interval.low, found.difference.interval.high


# --- where an interval lies ---


@pytest.mark.parametrize(
    ("rule", "difference", "outcome"),
    [
        (lambda v: v.larger("x", "a", "b"), 0.1, "met"),
        (lambda v: v.larger("x", "a", "b"), 0.0, "unresolved"),
        (lambda v: v.larger("x", "a", "b"), -0.1, "contradicted"),
        (lambda v: v.larger("x", "a", "b", by=0.2), 0.1, "contradicted"),
        (lambda v: v.smaller("x", "a", "b"), -0.1, "met"),
        (lambda v: v.smaller("x", "a", "b"), 0.0, "unresolved"),
        (lambda v: v.smaller("x", "a", "b"), 0.1, "contradicted"),
        (lambda v: v.smaller("x", "a", "b", by=0.2), 0.1, "met"),
        (lambda v: v.differs("x", "a", "b"), -0.1, "met"),
        # without a margin nothing speaks for equality
        (lambda v: v.differs("x", "a", "b"), 0.0, "unresolved"),
        (lambda v: v.differs("x", "a", "b", margin=0.05), 0.0, "contradicted"),
        (lambda v: v.within(0.05, "x", "a", "b"), 0.0, "met"),
        (lambda v: v.within(0.05, "x", "a", "b"), 0.05, "unresolved"),
        (lambda v: v.within(0.05, "x", "a", "b"), -0.2, "contradicted"),
        (lambda v: v.larger("x", "a"), -1.1, "contradicted"),  # one side against 0
    ],
)
@pytest.mark.parametrize("columns", [PERCEPTRON, IMAGE_NETWORK])
def test_an_interval_against_the_threshold_of_its_rule(rule, difference, outcome, columns):
    finding = rule(variant(columns, a=1 + difference, b=1))
    assert finding.outcome == outcome
    assert (finding.p_value < 0.05) == (outcome != "unresolved")


def test_too_few_units_and_runs_that_are_not_one_for_each_seed():
    one = variant(a=1, b=0)
    assert VariantRuns(V, one.runs, 6).larger("x", "a", "b") is None
    assert one.larger("x", "a", "c") is None
    with pytest.raises(ValueError, match="two runs of one seed"):
        VariantRuns(V, pd.concat([one.runs, one.runs])).larger("x", "a", "b")


# --- which estimator ---

A, B = [0.90, 0.93, 0.91, 0.95], [0.89, 0.90, 0.88, 0.93]


def test_perceptrons_that_share_a_seed_are_paired():
    expected = stats.ttest_rel(A, B)
    found = with_values(PERCEPTRON, a=A, b=B).larger("x", "a", "b")
    assert interval(found) == pytest.approx(tuple(expected.confidence_interval()))
    assert found.p_value == pytest.approx(expected.pvalue)


def test_image_networks_are_independent_samples():
    expected = stats.ttest_ind(A, B)
    found = with_values(IMAGE_NETWORK, a=A, b=B).larger("x", "a", "b")
    assert interval(found) == pytest.approx(tuple(expected.confidence_interval()))
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.difference.freedom == 6


def test_times_of_a_step_are_paired_although_they_are_of_image_networks():
    runs = with_values(IMAGE_NETWORK, a=A, b=B).runs
    found = VariantRuns(V, runs.assign(step_seconds=1.0)).larger("x", "a", "b")
    assert interval(found) == pytest.approx(tuple(stats.ttest_rel(A, B).confidence_interval()))


def test_the_deviation_is_pooled_over_all_methods_with_all_seeds():
    third, fourth = [0.50, 0.51, 0.53, 0.50], [0.10, 0.20]  # the fourth lacks two seeds
    found = with_values(IMAGE_NETWORK, a=A, b=B, c=third, d=fourth).larger("x", "a", "b")
    variance = np.mean([np.var(values, ddof=1) for values in (A, B, third)])
    half = stats.t.ppf(0.975, 9) * math.sqrt(2 * variance / 4)
    mean = np.mean(A) - np.mean(B)
    assert interval(found) == pytest.approx((mean - half, mean + half))


@pytest.mark.parametrize("factor", [3.9, 4.1])
def test_a_method_that_deviates_by_more_than_four_times_the_median_has_its_own(factor):
    shape = np.array([-1.0, 0.0, 0.0, 1.0])
    deviations = {"a": 1.0, "b": 1.0, "wild": factor}
    values = {name: list(size * shape) for name, size in deviations.items()}
    own = {name: np.var(values[name], ddof=1) for name in values}
    v = with_values(IMAGE_NETWORK, **values)
    if factor < 4:
        tame = other = sum(own.values()) / 3
        freedom, with_wild = 9, 9
    else:
        tame, other = own["a"], own["wild"]
        freedom = 6
        with_wild = (tame + other) ** 2 / (tame**2 / 6 + other**2 / 3)  # Welch and Satterthwaite's
    half = stats.t.ppf(0.975, freedom) * math.sqrt(2 * tame / 4)
    assert interval(v.larger("x", "a", "b")) == pytest.approx((-half, half))
    half = stats.t.ppf(0.975, with_wild) * math.sqrt((tame + other) / 4)
    assert interval(v.larger("x", "wild", "a")) == pytest.approx((-half, half))


def test_a_difference_of_differences_has_the_sum_of_the_squared_weights():
    v = with_values(IMAGE_NETWORK, a=A, b=B, c=A[::-1], d=B[::-1])
    first = minus(v.of("x", "a"), v.of("x", "b"))
    second = times(2.0, minus(v.of("x", "c"), v.of("x", "d")), "twice")
    variance = (np.var(A, ddof=1) + np.var(B, ddof=1)) / 2
    half = stats.t.ppf(0.975, 12) * math.sqrt((1 + 1 + 4 + 4) * variance / 4)
    mean = np.mean(A) - np.mean(B)
    found = v.larger("x", first, second)
    assert interval(found) == pytest.approx((-mean - half, -mean + half))


def test_an_average_of_two_methods_has_half_of_their_variance():
    v = with_values(IMAGE_NETWORK, a=A, b=B)
    both = average([v.of("x", "a"), v.of("x", "b")], "both")
    variance = (np.var(A, ddof=1) + np.var(B, ddof=1)) / 2
    half = stats.t.ppf(0.975, 6) * math.sqrt(2 / 4 * variance / 4)
    low, high = interval(v.larger("x", both))
    assert (high - low) / 2 == pytest.approx(half)


def test_numbers_of_the_same_networks_are_paired_everywhere():
    runs = with_values(IMAGE_NETWORK, "test_ece", a=A, b=B).runs
    link = runs["test_ece"] - 0.01 + 0.0001 * np.arange(8) ** 2
    v = VariantRuns(V, runs.assign(test_ece_link=link))
    found = v.smaller("test_ece", v.of("test_ece_link", "a", "after"), v.of("test_ece", "a"))
    expected = stats.ttest_rel(link[:4], A)
    assert interval(found) == pytest.approx(tuple(expected.confidence_interval()))
    assert found.text == "test ECE, after against a"
    # against other networks they are independent, and each metric has its own pool
    apart = v.smaller("test_ece", v.of("test_ece_link", "a", "after"), v.of("test_ece", "b"))
    pools = np.array([[link[:4].var(), link[4:].var()], [np.var(A, ddof=1), np.var(B, ddof=1)]])
    first, second = pools.mean(axis=1)
    freedom = (first + second) ** 2 / (first**2 / 6 + second**2 / 6)
    half = stats.t.ppf(0.975, freedom) * math.sqrt((first + second) / 4)
    mean = link[:4].mean() - np.mean(B)
    assert interval(apart) == pytest.approx((mean - half, mean + half))


def test_folds_share_training_samples():
    v = with_values(PERCEPTRON, a=A, b=B)
    found = VariantRuns(V, v.runs, resampled=1 / 9).larger("x", "a", "b")
    d = np.subtract(A, B)
    half = stats.t.ppf(0.975, 3) * d.std(ddof=1) * math.sqrt(1 / 4 + 1 / 9)
    assert interval(found) == pytest.approx((d.mean() - half, d.mean() + half))


# --- notes ---


@pytest.mark.parametrize(
    ("deviation", "lead", "notes"),
    [
        (0.0001, 0.0, ("level", "excludes GD-1's effect", "excludes GD-2's effect")),
        (0.0001, 0.01, ()),  # it is met
        (0.002, 0.0, ("level",)),
        (0.02, 0.0, ()),
    ],
)
def test_what_an_unresolved_comparison_of_accuracies_tells(deviation, lead, notes):
    """Where the papers print 0.1 to 1.2 points (GD-1) and 0.2 to 0.7 (GD-2)."""
    shape = deviation * np.array([-1.0, 0.0, 1.0, -1.0, 1.0])
    rows = [
        {"method": beta, "seed": seed, "dataset": "cifar10"}
        | {"test_accuracy": 0.9 + more, "test_ece": 0.9 + more}
        for beta, values in ((SMALL, lead + shape), (PLAIN, shape[::-1]))
        for seed, more in enumerate(values)
    ]
    v = VariantRuns(V, pd.DataFrame(rows))
    found = v.larger("test_accuracy", SMALL, PLAIN)
    assert [effect.written() for effect in found.paper] == [
        "GD-1: +0.001 … +0.012",
        "GD-2: +0.002 … +0.007",
    ]
    assert found.notes == notes
    assert (
        "level" not in v.larger("test_ece", SMALL, PLAIN).notes
    )  # half a point of it is no little


# --- combinations, and parts of the runs ---


@pytest.mark.parametrize(
    ("combined", "first", "second", "outcome"),
    [
        ("all_of", "low", "low", "met"),
        ("all_of", "low", "same", "unresolved"),
        ("all_of", "low", "high", "contradicted"),
        ("any_of", "high", "low", "met"),
        ("any_of", "high", "same", "unresolved"),
        ("any_of", "high", "high", "contradicted"),
        ("provided", "low", "high", "contradicted"),
        ("provided", "same", "low", "unresolved"),
    ],
)
def test_combinations(combined, first, second, outcome):
    v = variant(a=1, low=0.5, high=1.5, same=1)
    finding = getattr(v, combined)(v.larger("x", "a", first), v.larger("x", "a", second))
    assert finding.outcome == outcome
    assert [one.difference is not None for one in finding.comparisons()] == [True, True]


def test_a_combination_follows_the_corrected_p_values_of_its_comparisons():
    v = variant(a=1, low=0.5, same=1)
    both = v.any_of(v.larger("x", "a", "low"), v.larger("x", "a", "same"))
    assert both.with_corrected(iter([0.049, 1.0])).outcome == "met"
    assert both.with_corrected(iter([0.05, 1.0])).outcome == "unresolved"
    # in the order of comparisons(), however deep they stand, and none is left
    several = v.all_of(v.larger("x", "a", "low"), both)
    p_values = iter([0.1, 0.2, 0.3])
    corrected = several.with_corrected(p_values)
    assert [one.corrected for one in corrected.comparisons()] == [0.1, 0.2, 0.3]
    assert list(p_values) == []


@pytest.mark.parametrize(
    ("means", "outcome"),
    [
        ({"a": 1.0, "b": 1.1, "c": 1.2}, "met"),
        ({"a": 1.0, "b": 1.1, "c": 1.099}, "unresolved"),  # a step down within its interval
        ({"a": 1.0, "b": 1.1, "c": 1.0}, "contradicted"),
        ({"a": 1.0, "b": 1.1}, "met"),  # one step
        ({"a": 1.1, "b": 1.0}, "contradicted"),
    ],
)
def test_means_that_rise(means, outcome):
    assert rising(variant(**means), "x", *means).outcome == outcome
    assert rising(variant(**means), "x", *means, "d") is None


def test_the_best_of_waits_for_all_rivals_or_takes_those_that_were_run():
    both = variant(hinge=0.5, modified=0.6)
    assert both.best_of(HINGE, MODIFIED, by="x").name == "modified loss"
    assert variant(hinge=0.5).best_of(HINGE, MODIFIED, by="x") is None
    assert variant(hinge=0.5, some=True).best_of(HINGE, MODIFIED, by="x").name == "hinge"
    several = variant(**{"lm 1": 0.5, "lm 2": 0.7, "lm-qu 3": 0.9})
    assert several.best_of(ANY_LM, by="x").name == "LM, λ = 2"  # whatever its numbers
    turned = replace(both, runs=both.runs.assign(y=-both.runs["x"]))
    chosen = turned.best_of(HINGE, MODIFIED, by="y", metric="x")  # by one metric, for another
    assert (chosen.name, chosen.key[0]) == ("hinge", "x")
    assert (chosen.numbers > 0).all()
    for some in (False, True):
        v = variant(a=1, low=0.5, some=some)
        own = replace(v, runs=v.runs[v.runs["method"] == "a"].assign(method=SMALL))
        assert own.larger("x", SMALL, own.best_of(ANY_LM, by="x")) is None
        assert bool(v.all_of(v.larger("x", "a", "low"), v.larger("x", "a", "high"))) == some


def test_a_part_of_the_runs():
    v = variant(a=1, b=0)
    v = VariantRuns(V, v.runs.assign(rate=[0.1, 0.1, 0.1, 0.2, 0.2] * 2))
    part = v.at("rate 0.1", rate=0.1)
    found = part.larger("x", "a", "b")
    assert found.difference.n == 3
    assert found.text == "x, a against b, rate 0.1"
    lead = minus(part.of("x", "a"), part.of("x", "b"))
    assert v.larger("x", lead).text == "x, a minus b"
    assert lead.numbers.tolist() == list(found.difference.values)
    assert v.at(rate=0.3).larger("x", "a", "b") is None


def test_a_part_of_the_runs_is_pooled_with_all_of_them():
    """Settings that differ in another column are several groups, each with its own mean."""
    half = with_values(IMAGE_NETWORK, a=A, b=B).runs.assign(learning_rate=0.1)
    other = half.assign(learning_rate=0.2, x=half["x"] + 0.5)
    v = VariantRuns(V, pd.concat([half, other], ignore_index=True))
    found = v.at(learning_rate=0.1).larger("x", "a", "b")
    assert found.difference.freedom == 12
