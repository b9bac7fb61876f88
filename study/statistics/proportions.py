"""Proportions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from study.statistics.inputs import FloatArray, checked_level

__all__ = ["wilson_interval"]


def wilson_interval(successes: ArrayLike, trials: ArrayLike, *, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    r"""Wilson score interval of a proportion, elementwise: the error bars of a reliability diagram.

    .. math:: \frac{1}{1 + z^2/n} \left( \hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} + \frac{z^2}{4 n^2}} \right)

    with :math:`\hat p` the share of successes, n the number of trials, z the normal quantile of (1 + level)/2. It stays within [0, 1]
    and is sensible for small n and for shares near 0 and 1.

    Args:
        successes: numbers of successes, any shape.
        trials: numbers of trials, broadcast against ``successes``. 0 trials give the interval [0, 1].
        level: nominal coverage, between 0 and 1.

    Returns:
        The lower and the upper ends, float64 arrays of the common shape.

    Raises:
        ValueError: if a count is negative or not finite, if there are more successes than trials, or for a level outside (0, 1).

    Example:
        >>> low, high = wilson_interval([0, 5, 10], 10)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.0, 0.237, 0.722], [0.278, 0.763, 1.0])

    References:
        E. B. Wilson, *Probable inference, the law of succession, and statistical inference*, JASA 22 (1927) 209-212.
    """
    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    if not (np.isfinite(k).all() and np.isfinite(n).all()):
        raise ValueError("successes and trials must be finite")
    if np.any(k < 0) or np.any(k > n):
        raise ValueError("each number of successes must lie between 0 and its number of trials")
    z = float(stats.norm.ppf((1 + checked_level(level)) / 2))
    counted = np.maximum(n, 1)  # 0 trials are set to [0, 1] below
    share = k / counted
    centre = share + z**2 / (2 * counted)
    half = z * np.sqrt(share * (1 - share) / counted + z**2 / (4 * counted**2))
    scale = 1 + z**2 / counted
    # The ends for no success and for no failure are exactly 0 and 1; rounding must not leave them beside.
    low = np.where((k == 0) | (n == 0), 0.0, (centre - half) / scale)
    high = np.where((k == n) | (n == 0), 1.0, (centre + half) / scale)
    return low, high
