"""Means, intervals and ranks: by hand, by SciPy, by slow references, and the example of Demšar."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from study.statistics import (
    MeanSd,
    Spread,
    contrast,
    critical_difference,
    holm,
    independent_difference,
    mean_sd,
    paired_difference,
    pairs_needed,
    pooled_spread,
    ranks,
    resampled_difference,
    spread,
    t_interval,
)


def test_five_seeds_that_agree() -> None:
    a, b = [97.1, 97.3, 97.2, 97.4, 97.0], [96.9, 97.0, 97.1, 97.2, 96.9]
    result, reference = paired_difference(a, b), stats.ttest_rel(a, b)
    assert (result.interval.low, result.interval.high) == pytest.approx(
        tuple(reference.confidence_interval())
    )
    assert result.p_value() == pytest.approx(reference.pvalue)
    assert result.p_value(0.1) == pytest.approx(stats.ttest_1samp(np.subtract(a, b), 0.1).pvalue)
    assert f"{result.interval:+.2f}" == f"{result.interval:+u}" == "+0.18 [+0.08, +0.28]"
    assert f"{t_interval([1.0, 3.0]):.3f}" == "2.000 [-10.706, 14.706]"


def test_an_interval_times_a_number_keeps_the_order_of_its_ends() -> None:
    found = t_interval([1.0, 3.0])
    assert found.times(100).low == pytest.approx(100 * found.low)
    turned = found.times(-1)
    assert (turned.low, turned.estimate, turned.high) == (-found.high, -2.0, -found.low)


def test_no_difference() -> None:
    result = paired_difference([1.0, 2.0], [1.0, 2.0])
    assert (result.mean, result.sd, result.p_value(), result.p_value(0.1)) == (0.0, 0.0, 1.0, 0.0)
    assert not result.interval.excludes(0.0)


def test_two_settings_with_one_spread_are_students_for_independent_samples() -> None:
    a, b = [1.0, 3.0, 4.0], [0.0, 2.0, 5.0]
    pooled = pooled_spread([a, b])
    found = independent_difference(np.subtract(a, b), [(1.0, pooled), (1.0, pooled)])
    reference = stats.ttest_ind(a, b)
    expected = reference.confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(expected))
    assert found.p_value() == pytest.approx(reference.pvalue)
    assert found.freedom == 4


def test_two_settings_with_a_spread_each_are_welchs() -> None:
    a, b = [1.0, 3.0, 4.0], [0.0, 0.2, 0.5]
    sides = [(1.0, spread(a)), (1.0, spread(b))]
    found = independent_difference(np.subtract(a, b), sides)
    reference = stats.ttest_ind(a, b, equal_var=False)
    expected = reference.confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(expected))
    assert found.freedom == pytest.approx(reference.df)


def test_weights_are_squared_and_equal_spreads_are_one_estimate() -> None:
    one, other = Spread(4.0, 10.0), Spread(1.0, 2.0)
    found = independent_difference([0.0] * 5, [(1.0, one), (4.0, one), (1.0, other)])
    total = (1 + 4) * 4 + 1
    freedom = total**2 / (20**2 / 10 + 1 / 2)
    assert found.freedom == pytest.approx(freedom)
    assert found.error == pytest.approx(np.sqrt(total / 5))


def test_runs_that_are_all_alike_have_no_interval_to_speak_of() -> None:
    found = independent_difference([1.0, 1.0, 1.0], [(1.0, Spread(0.0, 4.0))])
    assert (found.interval.low, found.interval.high, found.freedom) == (1.0, 1.0, 2.0)


def test_a_pooled_spread_has_a_mean_for_each_setting() -> None:
    groups = [[1.0, 3.0], [10.0, 10.0, 13.0]]
    assert pooled_spread(groups) == Spread((2.0 + 6.0) / 3, 3)
    assert spread(groups[0]) == Spread(2.0, 1)


def test_folds_of_repeated_cross_validations_by_hand() -> None:
    """Nadeau and Bengio: (1/n + test/training) times the variance over the n folds."""
    a, b = [0.9, 0.8, 1.0, 0.9], [0.8, 0.8, 0.8, 0.8]
    found = resampled_difference(a, b, 1 / 9)
    variance = 0.02 / 3  # of 0.1, 0, 0.2, 0.1
    error = np.sqrt((1 / 4 + 1 / 9) * variance)
    half = 3.182446305284263 * error  # Student's quantile with 3 degrees of freedom
    assert found.mean == pytest.approx(0.1)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.1 - half, 0.1 + half))
    assert found.freedom == 3
    # without shared samples it is the paired difference
    apart, paired = resampled_difference(a, b, 0.0), paired_difference(a, b)
    assert apart.interval.low == pytest.approx(paired.interval.low)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_step_by_step(p_values: list[float]) -> None:
    """The smallest times n, the next times n - 1, ...; none below one before it."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    assert holm(p_values).tolist() == pytest.approx(corrected)


def test_holm_of_nothing() -> None:
    assert holm([]).tolist() == []


def test_values_that_have_no_interval() -> None:
    for values in ([1.0], [[1.0, 2.0]], [1.0, float("nan")]):
        with pytest.raises(ValueError, match="at least 2 finite values"):
            t_interval(values)
    with pytest.raises(ValueError, match="a has 2 values, b has 3"):
        paired_difference([1.0, 2.0], [1.0, 2.0, 3.0])


def test_as_many_digits_as_the_uncertainty_allows() -> None:
    seen = {
        "2054 ± 116": [2054.0, 1938.0, 2170.0],
        "0.230 ± 0.021": [0.2301, 0.2514, 0.2087],
        "2 ± 0": [2.0, 2.0],
        "0.5": [0.5],
    }
    assert [f"{mean_sd(values):u}" for values in seen.values()] == list(seen)


def test_the_pairs_that_it_takes_by_statsmodels() -> None:
    from statsmodels.stats.power import TTestPower

    for effect, sd in ((1.0, 1.0), (-0.3, 1.0), (0.01, 0.012)):
        found, power = pairs_needed(effect, sd), TTestPower().power
        assert found is not None
        assert (
            power(abs(effect) / sd, found, 0.05)
            >= 0.8
            > power(abs(effect) / sd, found - 1, 0.05) - 1e-3
        )


def test_welch_by_scipy_and_an_average_of_equal_means() -> None:
    first, second = [28.4, 28.6, 28.9], [27.1, 27.3, 27.4, 27.2]
    found, expected = (
        contrast([mean_sd(first), mean_sd(second)], [1, -1]),
        stats.ttest_ind(first, second, equal_var=False),
    )
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    two = contrast([MeanSd(1.0, 0.2, 3)] * 2, [0.5, 0.5])
    assert two.high - 1.0 == pytest.approx(stats.t.ppf(0.975, 4) * 0.2 / np.sqrt(6))


# --- ranks ---

# Demšar (2006), table 6: AUC of C4.5 and three variants on 14 data sets, and the average ranks of
# section 3.2.4
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=list("abcd"),
)


def test_the_example_of_demsar():
    assert ranks(DEMSAR).mean().round(3).to_dict() == {"a": 3.143, "b": 2.0, "c": 2.893, "d": 1.964}
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)


def test_critical_values_as_demsar_prints_them():
    printed = {2: 1.960, 3: 2.343, 7: 2.949, 10: 3.164}
    found = {
        methods: critical_difference(methods, 15) / np.sqrt(methods * (methods + 1) / 90)
        for methods in printed
    }
    assert found == pytest.approx(printed, abs=1e-3)


def test_ties():
    assert ranks(pd.DataFrame([[0.1 + 0.2, 0.3, 0.1]])).values.tolist() == [
        [1.5, 1.5, 3.0]
    ]  # what differs by rounding


def test_what_cannot_be_ranked():
    with pytest.raises(ValueError, match="finite"):
        ranks(pd.DataFrame([[1.0, np.nan, 1.0], [1.0, 2.0, 3.0]]))
