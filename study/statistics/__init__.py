r"""Means over seeds, with their uncertainty: what the tables and the verdicts of the book rest on.

The runs of one setting are few (five seeds, say) and paired: runs that share a seed share initialisation and batch order. So the primary
statement about two settings is the mean of the paired differences with its Student-t interval (:func:`paired_difference`). The bootstrap
interval and the sign-flip p-value stand beside it; both are coarse for five values, and their docstrings say how coarse.

Every such result is a frozen dataclass that prints itself: ``str(result)``, or ``f"{result:.2f}"`` to choose the digits. ``f"{result:u}"``
shows as many as the uncertainty allows: down to the second significant digit of the standard deviation, or of the interval's half-width.

Over data sets, methods are compared by their ranks (:func:`ranking`).
"""

from study.statistics.means import bootstrap_interval, contrast, mean_sd, paired_difference, t_interval
from study.statistics.proportions import wilson_interval
from study.statistics.rank_tests import Ranking, critical_difference, ranking, ranks
from study.statistics.results import Interval, MeanSd, PairedDifference

__all__ = [
    "Interval",
    "MeanSd",
    "PairedDifference",
    "Ranking",
    "bootstrap_interval",
    "contrast",
    "critical_difference",
    "mean_sd",
    "paired_difference",
    "ranking",
    "ranks",
    "t_interval",
    "wilson_interval",
]
