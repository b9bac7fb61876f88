"""Ranks, Friedman's test and Nemenyi's critical difference: against scipy, Demšar's tables and worked examples."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from study import figures
from study.statistics import critical_difference, ranking, ranks

# Demšar (2006), table 6: AUC of C4.5 and three variants on 14 data sets, and the average ranks and statistics of section 3.2.4.
DEMSAR = np.array(
    [
        *([0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967], [0.628, 0.661, 0.654, 0.657]),
        *([0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931], [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625]),
        *([0.775, 0.838, 0.866, 0.875], [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669]),
        *([0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970]),
    ]
)


def test_the_example_of_demsar():
    found = ranking(pd.DataFrame(DEMSAR, columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]), level=0.05)
    assert found.average.round(3).to_dict() == {"C4.5+m+cf": 1.964, "C4.5+m": 2.0, "C4.5+cf": 2.893, "C4.5": 3.143}
    assert found.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)  # 1.25
    assert found.p_value < 0.05


@pytest.mark.parametrize(  # Demšar, table 5(a): critical values q for the two-tailed Nemenyi test
    ("methods", "at_05", "at_10"), [(2, 1.960, 1.645), (3, 2.343, 2.052), (5, 2.728, 2.459), (7, 2.949, 2.693), (10, 3.164, 2.920)]
)
def test_critical_values_as_printed(methods, at_05, at_10):
    datasets = 15
    unit = np.sqrt(methods * (methods + 1) / (6 * datasets))
    assert critical_difference(methods, datasets) / unit == pytest.approx(at_05, abs=1e-3)
    assert critical_difference(methods, datasets, level=0.1) / unit == pytest.approx(at_10, abs=1e-3)


def test_by_hand():
    """Three data sets, three methods, no ties: ranks (1, 2, 3), (1, 3, 2), (2, 1, 3); averages 4/3, 2, 8/3."""
    found = ranking(pd.DataFrame([[9, 8, 7], [9, 7, 8], [8, 9, 7]], columns=list("abc")))
    assert found.average.tolist() == pytest.approx([4 / 3, 2, 8 / 3])
    assert found.statistic == pytest.approx(12 * 3 / 12 * ((4 / 3) ** 2 + 4 + (8 / 3) ** 2 - 12))  # 8/3
    assert found.p_value == pytest.approx(np.exp(-4 / 3))  # two degrees of freedom


@given(hnp.arrays(np.int64, st.tuples(st.integers(3, 12), st.integers(3, 7)), elements=st.integers(0, 5)))
def test_friedman_against_scipy(scores):
    if any(len(set(row)) > 1 for row in scores.tolist()):
        expected = stats.friedmanchisquare(*scores.T)
        found = ranking(pd.DataFrame(scores))
        assert found.statistic == pytest.approx(expected.statistic, abs=1e-9)
        assert found.p_value == pytest.approx(expected.pvalue, abs=1e-9)
    assert ranks(scores).sum(1) == pytest.approx(np.full(len(scores), scores.shape[1] * (scores.shape[1] + 1) / 2))


def test_all_alike():
    found = ranking(pd.DataFrame(np.ones((4, 3)), columns=list("abc")))
    assert (found.statistic, found.p_value) == (0.0, 1.0)


def test_scores_that_differ_by_rounding_tie():
    assert ranks([[0.1 + 0.2, 0.3, 0.1]], decimals=6).tolist() == [[1.5, 1.5, 3.0]]
    assert ranks([[0.1 + 0.2, 0.3, 0.1]]).tolist() == [[1.0, 2.0, 3.0]]


def test_nemenyi_and_the_critical_difference_say_the_same():
    found = ranking(pd.DataFrame(DEMSAR, columns=list("abcd")))
    for left, right in itertools.combinations("abcd", 2):
        apart = abs(found.average[left] - found.average[right]) > found.critical_difference
        assert apart == (found.nemenyi.loc[left, right] < found.level)


@pytest.mark.parametrize("wrong", [np.ones((1, 3)), np.ones((3, 2)), np.array([[1.0, np.nan], [1.0, 2.0]])])
def test_what_cannot_be_ranked(wrong):
    with pytest.raises(ValueError, match="at least two|finite"):
        ranking(pd.DataFrame(wrong))
    with pytest.raises(ValueError, match="level in"):
        critical_difference(3, 5, level=1.0)


def test_the_diagram_shows_every_method_with_its_rank():
    ax = figures.critical_difference(ranking(pd.DataFrame(DEMSAR, columns=list("abcd"))), labels={"d": "both"})
    texts = {text.get_text() for text in ax.texts}
    assert {"both  1.96", "b  2.00", "2.89  c", "3.14  a"} <= texts
    assert ax.get_title() == "critical difference 1.25"


def test_the_curves_against_depth():
    table = pd.DataFrame({"loss": ["a", "a", "b", "b"] * 2, "depth": [2, 3] * 4, "test_accuracy": [0.9, 0.8, 0.7, 0.6] * 2})
    ax = figures.accuracy_against_depth(table, labels={"a": "first"}, chance=1 / 3)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first", "b"]
    assert ax.lines[0].get_ydata().tolist() == pytest.approx([90, 80])
    assert ax.lines[-1].get_ydata() == pytest.approx([100 / 3, 100 / 3])
