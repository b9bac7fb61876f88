r"""Several methods on several data sets: ranks, Friedman's test, and Nemenyi's critical difference.

Accuracies of different data sets cannot be averaged with much sense: a point means more where the noise is small. Ranks can. On each
data set the best method has rank 1; ties share the mean of their ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from study.statistics.means import FloatArray

__all__ = ["Ranking", "critical_difference", "ranking", "ranks"]


@dataclass(frozen=True)
class Ranking:
    r"""How methods rank over data sets; the best has rank 1.

    Attributes:
        average: the average rank of each method, the best one first.
        statistic: Friedman's :math:`\chi^2_F`, corrected for ties.
        p_value: of the hypothesis that all methods are alike, by the :math:`\chi^2` distribution with k - 1 degrees of freedom.
        nemenyi: p-value of each pair of methods, by Nemenyi's test.
        critical_difference: two average ranks that differ by less than this are not told apart at ``level``.
        level: such as 0.05.
        datasets: number of data sets.
    """

    average: pd.Series[float]
    statistic: float
    p_value: float
    nemenyi: pd.DataFrame
    critical_difference: float
    level: float
    datasets: int


def ranks(scores: ArrayLike, *, decimals: int | None = None) -> FloatArray:
    """Rank the methods on each data set; the largest score has rank 1, ties share their mean.

    Args:
        scores: ``[data sets, methods]``.
        decimals: round the scores before, so that what differs by rounding counts as a tie.

    Raises:
        ValueError: for scores that are no finite numbers.

    Example:
        >>> ranks([[0.9, 0.8, 0.7], [0.5, 0.6, 0.6]]).tolist()
        [[1.0, 2.0, 3.0], [3.0, 1.5, 1.5]]
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(f"scores must be finite numbers of shape [data sets, methods]; got the shape {values.shape}")
    return np.asarray(stats.rankdata(-values if decimals is None else -values.round(decimals), axis=1), dtype=np.float64)


def critical_difference(methods: int, datasets: int, *, level: float = 0.05) -> float:
    r"""Compute Nemenyi's critical difference of two average ranks.

    .. math:: \mathrm{CD} = \frac{q_\alpha}{\sqrt 2} \sqrt{\frac{k (k + 1)}{6 N}}

    with :math:`q_\alpha` the quantile of the studentised range of k means with infinite degrees of freedom.

    Args:
        methods: k, at least 2.
        datasets: N, at least 1.
        level: α.

    Raises:
        ValueError: for fewer methods or data sets, or a level outside (0, 1).

    Example:
        >>> round(critical_difference(4, 14, level=0.1), 2)             # the example of Demšar's section 3.2.4: 2.291 sqrt(20 / 84)
        1.12

    References:
        J. Demšar, *Statistical comparisons of classifiers over multiple data sets*, JMLR 7 (2006), section 3.2.2 and table 5.
    """
    if methods < 2 or datasets < 1 or not 0 < level < 1:
        raise ValueError(f"give at least 2 methods, 1 data set and a level in (0, 1); got {methods}, {datasets} and {level}")
    quantile = float(stats.studentized_range.ppf(1 - level, methods, np.inf)) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * datasets)))


def ranking(scores: pd.DataFrame, *, level: float = 0.05, decimals: int | None = None) -> Ranking:
    """Compute average ranks with Friedman's test (SciPy) and Nemenyi's (scikit-posthocs).

    Args:
        scores: one row for each data set, one column for each method; larger is better.
        level: of the critical difference.
        decimals: round the scores before, so that what differs by rounding counts as a tie.

    Raises:
        ValueError: for fewer than two data sets or three methods, or scores that are no finite numbers.

    Example:
        >>> found = ranking(pd.DataFrame({"a": [0.9, 0.8, 0.7], "b": [0.8, 0.7, 0.6], "c": [0.7, 0.6, 0.5]}))
        >>> found.average.to_dict(), round(found.statistic, 4)          # always the same order: N (k - 1)
        ({'a': 1.0, 'b': 2.0, 'c': 3.0}, 6.0)

    References:
        M. Friedman, *The use of ranks to avoid the assumption of normality implicit in the analysis of variance*, JASA 32 (1937).
    """
    from scikit_posthocs import posthoc_nemenyi_friedman  # here, since it takes two seconds to import and one page needs it

    datasets, methods = scores.shape
    if datasets < 2 or methods < 3:
        raise ValueError(f"a ranking needs at least two data sets and three methods; got {datasets} and {methods}")
    found = ranks(scores.to_numpy(), decimals=decimals)
    average = pd.Series(found.mean(0), index=scores.columns, name="average rank").sort_values(kind="stable")
    alike = bool((found == found[0, 0]).all())  # every method ties everywhere: Friedman's statistic is 0 / 0
    statistic, p_value = (0.0, 1.0) if alike else stats.friedmanchisquare(*found.T)
    nemenyi = posthoc_nemenyi_friedman(found)
    nemenyi.index = nemenyi.columns = scores.columns
    return Ranking(average, float(statistic), float(p_value), nemenyi, critical_difference(methods, datasets, level=level), level, datasets)
