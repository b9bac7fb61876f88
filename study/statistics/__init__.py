r"""Means over seeds with their uncertainty, and ranks over data sets: what the tables and the verdicts of the book rest on.

The runs of one setting are few (five seeds, say) and paired: runs that share a seed share initialisation and batch order. So the statement
about two settings is the mean of the paired differences with its Student-t interval (:func:`paired_difference`); the sign-flip p-value
(:func:`sign_flip_p`) stands beside it, and Holm's correction over many statements (:func:`holm`). Over data sets, methods are compared by
their ranks (:func:`ranking`). What SciPy, statsmodels and scikit-posthocs have is taken from there.

Every result is a frozen dataclass that prints itself: ``str(result)``, or ``f"{result:.2f}"`` to choose the digits. ``f"{result:u}"`` shows
as many as the uncertainty allows: down to the second significant digit of the standard deviation, or of the interval's half-width.
"""

from study.statistics.means import (
    Interval,
    MeanSd,
    PairedDifference,
    contrast,
    holm,
    mean_sd,
    paired_difference,
    pooled_difference,
    sign_flip_p,
    t_interval,
    wilson_interval,
)
from study.statistics.rank_tests import Ranking, critical_difference, ranking, ranks

__all__ = [
    "Interval",
    "MeanSd",
    "PairedDifference",
    "Ranking",
    "contrast",
    "critical_difference",
    "holm",
    "mean_sd",
    "paired_difference",
    "pooled_difference",
    "ranking",
    "ranks",
    "sign_flip_p",
    "t_interval",
    "wilson_interval",
]
