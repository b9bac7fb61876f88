"""Means over seeds and their uncertainty: values by hand, slow references, SciPy, and the promises of the docstrings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from study.statistics import Interval, MeanSd, contrast, holm, mean_sd, paired_difference, sign_flip_p, t_interval, wilson_interval

NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
SAMPLES = st.lists(NUMBERS, min_size=2, max_size=12)


class TestMeanSd:
    def test_by_hand(self) -> None:
        assert mean_sd([1.0, 2.0, 3.0, 6.0]) == MeanSd(mean=3.0, sd=pytest.approx(np.sqrt(14 / 3)), n=4)

    def test_a_single_value_has_no_spread(self) -> None:
        result = mean_sd([0.5])
        assert np.isnan(result.sd)
        assert f"{result:.1f}" == "0.5"

    def test_prints(self) -> None:
        assert f"{mean_sd([97.0, 97.2, 97.4]):.2f}" == "97.20 ± 0.20"
        assert str(mean_sd([97.0, 97.2, 97.4])) == "97.2 ± 0.2 (n = 3)"

    @pytest.mark.parametrize(
        ("values", "message"),
        [([], "at least 1 value, not 0"), ([[1.0]], "one dimension"), ([1.0, float("nan")], "finite; found nan at index 1")],
    )
    def test_bad_values(self, values: list, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            mean_sd(values)


class TestTInterval:
    def test_against_scipy(self) -> None:
        x = np.array([97.1, 97.3, 96.9, 97.4, 97.0])
        reference = stats.ttest_1samp(x, 0.0).confidence_interval(0.9)
        interval = t_interval(x, level=0.9)
        assert (interval.low, interval.high) == pytest.approx(tuple(reference))
        assert (interval.n, interval.method, interval.level) == (5, "t", 0.9)

    def test_excludes(self) -> None:
        interval = Interval(1.0, 0.5, 1.5, 0.95, 5, "t")
        assert interval.excludes(0.0) and interval.excludes(1.6)
        assert not interval.excludes(0.5)
        assert str(interval) == "1 [0.5, 1.5] (95 % t, n = 5)"

    @pytest.mark.parametrize("level", [0.0, 1.0, 95.0, float("nan")])
    def test_bad_level(self, level: float) -> None:
        with pytest.raises(ValueError, match="between 0 and 1"):
            t_interval([1.0, 2.0], level=level)

    def test_one_value_is_not_enough(self) -> None:
        with pytest.raises(ValueError, match="at least 2 values, not 1"):
            t_interval([1.0])


def sign_flip_reference(d: list[float]) -> float:
    """Every sign pattern, one after another."""
    observed = abs(sum(d))
    slack = 1e-12 * sum(abs(x) for x in d)
    patterns = list(itertools.product([1, -1], repeat=len(d)))
    return sum(abs(sum(s * x for s, x in zip(signs, d, strict=True))) >= observed - slack for signs in patterns) / len(patterns)


class TestPairedDifference:
    def test_five_seeds_that_agree(self) -> None:
        a, b = [97.1, 97.3, 97.2, 97.4, 97.0], [96.9, 97.0, 97.1, 97.2, 96.9]
        result, reference = paired_difference(a, b), stats.ttest_rel(a, b)
        assert result.mean == pytest.approx(0.18)
        assert (result.interval.low, result.interval.high) == pytest.approx(tuple(reference.confidence_interval()))
        assert result.p_value() == pytest.approx(reference.pvalue)
        assert result.p_value(0.1) == pytest.approx(stats.ttest_1samp(np.subtract(a, b), 0.1).pvalue)
        assert f"{result:.2f}" == f"{result:u}" == "+0.18 [+0.08, +0.28]"
        assert str(result) == "+0.18 [+0.07611, +0.2839] (95 % t, p = 0.00858, n = 5 pairs)"

    def test_no_difference(self) -> None:
        result = paired_difference([1.0, 2.0], [1.0, 2.0])
        assert (result.mean, result.sd, result.p_value(), result.p_value(0.1)) == (0.0, 0.0, 1.0, 0.0)
        assert not result.interval.excludes(0.0)

    @given(SAMPLES, st.randoms(use_true_random=False))
    def test_antisymmetric(self, a: list[float], random) -> None:
        b = random.sample(a, len(a))
        forward, backward = paired_difference(a, b), paired_difference(b, a)
        assert forward.mean == -backward.mean
        assert forward.interval.low == pytest.approx(-backward.interval.high)

    def test_different_lengths(self) -> None:
        with pytest.raises(ValueError, match="a has 2 values, b has 3"):
            paired_difference([1.0, 2.0], [1.0, 2.0, 3.0])


@given(st.lists(st.integers(-20, 20).map(lambda k: k / 10), min_size=2, max_size=8))
def test_sign_flips_against_the_slow_way(d: list[float]) -> None:
    assert sign_flip_p(d) == pytest.approx(sign_flip_reference(d))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


class TestWilson:
    def test_against_scipy(self) -> None:
        counts = [(0, 10), (1, 10), (5, 10), (10, 10), (950, 1000)]
        low, high = wilson_interval([k for k, _ in counts], [n for _, n in counts], level=0.9)
        for i, (k, n) in enumerate(counts):
            reference = stats.binomtest(k, n).proportion_ci(0.9, method="wilson")
            assert (low[i], high[i]) == pytest.approx((reference.low, reference.high), abs=1e-12)

    def test_nothing_known(self) -> None:
        low, high = wilson_interval(0, 0)
        assert (float(low), float(high)) == (0.0, 1.0)

    @given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
    def test_holds_the_share_and_stays_in_range(self, counts: tuple[int, int]) -> None:
        k, n = counts
        low, high = wilson_interval(k, n)
        assert 0.0 <= low <= k / n <= high <= 1.0

    @pytest.mark.parametrize(("k", "n"), [(-1, 3), (4, 3), (float("nan"), 3), (1, float("inf"))])
    def test_bad_counts(self, k: float, n: float) -> None:
        with pytest.raises(ValueError, match="successes"):
            wilson_interval(k, n)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([2054.0, 1938.0, 2170.0], "2054 ± 116"),
        ([0.2301, 0.2514, 0.2087], "0.230 ± 0.021"),
        ([0.00158, -0.00092, 0.00408], "0.0016 ± 0.0025"),
        ([2.0, 2.0], "2 ± 0"),
    ],
)
def test_as_many_digits_as_the_uncertainty_allows(values: list[float], shown: str) -> None:
    assert f"{mean_sd(values):u}" == shown
    assert f"{mean_sd(values[:1]):u}" == format(values[0], ".4g")


class TestContrast:
    @given(st.lists(NUMBERS, min_size=2, max_size=8), st.lists(NUMBERS, min_size=2, max_size=8))
    def test_a_difference_is_that_of_scipy(self, first: list, second: list) -> None:
        if np.std(first) == 0 or np.std(second) == 0:
            return
        found = contrast([mean_sd(first), mean_sd(second)], [1, -1], level=0.9)
        expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.9)
        assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
        assert (found.method, found.n) == ("welch", len(first) + len(second))

    def test_one_mean_alone_is_students(self) -> None:
        values = [0.2, 0.5, 0.4]
        found, known = contrast([mean_sd(values)], [1]), t_interval(values)
        assert (found.estimate, found.low, found.high) == pytest.approx((known.estimate, known.low, known.high))

    def test_an_average_of_equal_means_is_narrower(self) -> None:
        one = MeanSd(1.0, 0.2, 3)
        two = contrast([one, one], [0.5, 0.5])
        assert two.estimate == 1.0
        assert two.high - 1.0 == pytest.approx(stats.t.ppf(0.975, 4) * 0.2 / np.sqrt(6))

    @pytest.mark.parametrize(
        ("means", "weights", "message"),
        [
            ([], [], "at least one"),
            ([MeanSd(1.0, 0.1, 3)], [1, -1], "1 means and 2 weights"),
            ([MeanSd(1.0, float("nan"), 1)], [1], "two values or more"),
            ([MeanSd(1.0, 0.0, 3)], [1], "above 0"),
        ],
    )
    def test_bad_values(self, means: list, weights: list, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            contrast(means, weights)
