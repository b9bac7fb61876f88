"""Means, their intervals, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from study.statistics.inputs import FloatArray, checked_level, checked_values
from study.statistics.results import Interval, MeanSd, PairedDifference

__all__ = ["bootstrap_interval", "contrast", "mean_sd", "paired_difference", "t_interval"]

BootstrapMethod = Literal["bca", "percentile"]

_EXACT_UP_TO = 16  # pairs; 2^15 sign patterns, a few milliseconds
_CHUNK_ELEMENTS = 4_000_000  # resampled values held in memory at once


def mean_sd(values: ArrayLike) -> MeanSd:
    r"""Mean and sample standard deviation.

    .. math:: \bar x = \frac1n \sum_i x_i, \qquad s = \sqrt{\frac{1}{n-1} \sum_i (x_i - \bar x)^2}

    Args:
        values: numbers of shape ``[n]``, n ≥ 1.

    Returns:
        A :class:`MeanSd`. The standard deviation of a single value is NaN.

    Raises:
        ValueError: if ``values`` is empty, not one-dimensional, or holds NaN or infinity.

    Example:
        >>> print(mean_sd([97.0, 97.2, 97.4]))
        97.2 ± 0.2 (n = 3)
        >>> f"{mean_sd([97.0, 97.2, 97.4]):.2f}"
        '97.20 ± 0.20'
    """
    x = checked_values(values, "values", at_least=1)
    return MeanSd(mean=float(x.mean()), sd=float(x.std(ddof=1)) if x.size > 1 else float("nan"), n=x.size)


def t_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    r"""Student-t confidence interval of the mean.

    .. math:: \bar x \pm t_{n-1,\,(1+\text{level})/2} \; \frac{s}{\sqrt n}

    Args:
        values: numbers of shape ``[n]``, n ≥ 2, taken as independent and roughly normal.
        level: nominal coverage, between 0 and 1.

    Returns:
        An :class:`Interval` with ``method="t"``.

    Raises:
        ValueError: for fewer than two values, for NaN or infinity, or for a level outside (0, 1).

    Example:
        For two values, t is 12.706 at 95 %:

        >>> print(f"{t_interval([1.0, 3.0]):.3f}")
        2.000 [-10.706, 14.706]
    """
    x = checked_values(values, "values", at_least=2)
    mean = float(x.mean())
    half = float(stats.t.ppf((1 + checked_level(level)) / 2, x.size - 1) * x.std(ddof=1) / np.sqrt(x.size))
    return Interval(mean, mean - half, mean + half, level, x.size, "t")


def contrast(means: Sequence[MeanSd], weights: Sequence[float], *, level: float = 0.95) -> Interval:
    r"""Welch's interval of a weighted sum of means of independent samples, from what a paper prints of them: mean ± standard deviation.

    .. math:: \sum_i w_i \bar x_i \pm t_{\nu,\,(1+\text{level})/2} \sqrt{\textstyle\sum_i v_i}, \qquad
        v_i = \frac{w_i^2 s_i^2}{n_i}, \qquad \nu = \frac{(\sum_i v_i)^2}{\sum_i v_i^2 / (n_i - 1)}

    Args:
        means: at least one, each of two values or more.
        weights: one for each mean, such as [1, -1] for a difference.
        level: nominal coverage, between 0 and 1.

    Returns:
        An :class:`Interval` with ``method="welch"``; n is the number of all values.

    Raises:
        ValueError: for another number of weights than means, a single value, a standard deviation that is not above 0, or a level outside
            (0, 1).

    Example:
        >>> print(f"{contrast([MeanSd(28.62, 0.24, 3), MeanSd(27.27, 0.15, 3)], [1, -1]):.2f}")
        1.35 [0.86, 1.84]

    References:
        B. L. Welch, *The generalization of Student's problem when several different population variances are involved*, Biometrika 34
        (1947) 28-35.
    """
    if len(means) != len(weights) or not means:
        raise ValueError(f"give one weight for each mean, and at least one; got {len(means)} means and {len(weights)} weights")
    for mean in means:
        if mean.n < 2 or not mean.sd > 0:
            raise ValueError(f"every mean needs two values or more and a standard deviation above 0; got sd = {mean.sd}, n = {mean.n}")
    parts = np.array([weight**2 * mean.sd**2 / mean.n for mean, weight in zip(means, weights, strict=True)])
    freedom = parts.sum() ** 2 / (parts**2 / (np.array([mean.n for mean in means]) - 1)).sum()
    estimate = sum(weight * mean.mean for mean, weight in zip(means, weights, strict=True))
    half = float(stats.t.ppf((1 + checked_level(level)) / 2, freedom) * np.sqrt(parts.sum()))
    return Interval(estimate, estimate - half, estimate + half, level, sum(mean.n for mean in means), "welch")


def bootstrap_interval(
    values: ArrayLike,
    *,
    level: float = 0.95,
    method: BootstrapMethod = "bca",
    resamples: int = 9_999,
    seed: int = 0,
) -> Interval:
    r"""Bootstrap confidence interval of the mean.

    ``"percentile"`` takes the :math:`\alpha/2` and :math:`1-\alpha/2` quantiles of the resampled means. ``"bca"`` (bias-corrected and
    accelerated) takes the quantiles at

    .. math:: \Phi\!\left(z_0 + \frac{z_0 + z_{\alpha}}{1 - a\,(z_0 + z_{\alpha})}\right), \qquad
              z_0 = \Phi^{-1}\bigl(\text{share of resampled means below } \bar x\bigr), \qquad
              a = \frac{\sum_i (x_i - \bar x)^3}{6 \left(\sum_i (x_i - \bar x)^2\right)^{3/2}}

    where half of the resampled means equal to :math:`\bar x` count as below.

    With five values there are only 126 different resamples, and the interval is too short: prefer :func:`t_interval` for a handful of
    seeds, and the bootstrap for hundreds of samples.

    Args:
        values: numbers of shape ``[n]``, n ≥ 2.
        level: nominal coverage, between 0 and 1.
        method: ``"bca"`` or ``"percentile"``.
        resamples: number of resamples.
        seed: of the resampling; the same seed gives the same interval.

    Returns:
        An :class:`Interval`. Constant values give an interval of length 0.

    Raises:
        ValueError: for fewer than two values, NaN or infinity, a level outside (0, 1), an unknown method, or no resamples.

    Example:
        >>> interval = bootstrap_interval([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], method="percentile")
        >>> interval.estimate, interval.low < 5.5 < interval.high, interval.excludes(0.0)
        (5.5, True, True)

    References:
        B. Efron, *Better bootstrap confidence intervals*, JASA 82 (1987) 171-185, eq. 2.3 and 6.6.
    """
    if method not in ("bca", "percentile"):
        raise ValueError(f"method must be 'bca' or 'percentile', not {method!r}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    x = checked_values(values, "values", at_least=2)
    alphas = np.array([(1 - checked_level(level)) / 2, (1 + level) / 2])
    mean = float(x.mean())
    deviations = x - mean
    if not np.any(x != x[0]):
        return Interval(mean, mean, mean, level, x.size, method)
    means = _resampled_means(x, resamples, seed)
    if method == "bca":
        ties = np.isclose(means, mean, rtol=0, atol=1e-12 * np.abs(x).max())
        below = np.mean(~ties & (means < mean)) + 0.5 * np.mean(ties)
        bias = stats.norm.ppf(np.clip(below, 0.5 / resamples, 1 - 0.5 / resamples))
        acceleration = np.sum(deviations**3) / (6 * np.sum(deviations**2) ** 1.5)
        shifted = bias + stats.norm.ppf(alphas)
        alphas = stats.norm.cdf(bias + shifted / (1 - acceleration * shifted))
    low, high = np.quantile(means, alphas)
    return Interval(mean, float(low), float(high), level, x.size, method)


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 9_999,
    seed: int = 0,
) -> PairedDifference:
    r"""Mean difference of two settings that were run with the same seeds.

    With :math:`d_i = a_i - b_i`, the statement to read first is the Student-t interval of :math:`\bar d`. The bootstrap interval (BCa)
    stands beside it. The p-value is that of the sign-flip test: if nothing distinguishes ``a`` from ``b``, each :math:`d_i` is as likely as
    :math:`-d_i`, and

    .. math:: p = \frac{1}{2^n}\, \#\Bigl\{ s \in \{-1, 1\}^n : \bigl|\textstyle\sum_i s_i d_i\bigr| \ge \bigl|\sum_i d_i\bigr| \Bigr\}.

    All sign patterns are counted for up to 16 pairs; beyond that, ``resamples`` random ones plus the observed one. The smallest value
    that n pairs can give is :math:`2^{1-n}`: 0.0625 for five pairs, so **five seeds cannot reach p < 0.05 in this test**; six can.

    Args:
        a: values of one setting, shape ``[n]``, in the order of the seeds.
        b: values of the other setting, shape ``[n]``, in the same order.
        level: nominal coverage of both intervals.
        resamples: number of bootstrap resamples, and of sign patterns for more than 16 pairs.
        seed: of the resampling.

    Returns:
        A :class:`PairedDifference` for a − b.

    Raises:
        ValueError: for different lengths, fewer than two pairs, NaN or infinity, or a level outside (0, 1).

    Example:
        >>> difference = paired_difference([3, 5, 4, 6, 7], [2, 4, 4, 3, 5])
        >>> print(f"{difference:.2f}")
        +1.40 [-0.02, +2.82]
        >>> difference.p_value, difference.exact             # 4 of the 32 sign patterns: the zero may have either sign
        (0.125, True)

    References:
        R. A. Fisher, *The Design of Experiments* (1935), section 21: the sign-flip test.
    """
    first, second = checked_values(a, "a", at_least=2), checked_values(b, "b", at_least=2)
    if first.size != second.size:
        raise ValueError(f"a and b are paired by seed and must have one length; a has {first.size} values, b has {second.size}")
    d = first - second
    p_value, exact = _sign_flip_p_value(d, resamples, seed)
    return PairedDifference(
        mean=float(d.mean()),
        sd=float(d.std(ddof=1)),
        n=d.size,
        interval=t_interval(d, level=level),
        bootstrap=bootstrap_interval(d, level=level, resamples=resamples, seed=seed),
        p_value=p_value,
        exact=exact,
    )


def _resampled_means(x: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Means of ``resamples`` draws with replacement, in chunks so that many values need no more memory than few."""
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK_ELEMENTS // x.size)
    sizes = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    return np.concatenate([x[generator.integers(x.size, size=(size, x.size))].mean(axis=1) for size in sizes])


def _sign_flip_p_value(d: FloatArray, resamples: int, seed: int) -> tuple[float, bool]:
    """Two-sided p-value of the mean under random signs, and whether it counts every pattern."""
    exact = d.size <= _EXACT_UP_TO
    # Sums that are equal in exact arithmetic may differ by rounding; they must count as "at least as large".
    threshold = abs(d.sum()) - 1e-12 * np.abs(d).sum()
    if exact:
        # A pattern and its opposite have the same |sum|, so the first sign is held at +1.
        bits = np.arange(2 ** (d.size - 1))[:, None] >> np.arange(d.size - 1) & 1
        sums = d[0] + (1 - 2 * bits) @ d[1:]
        return float(np.mean(np.abs(sums) >= threshold)), True
    generator = np.random.default_rng(seed)
    signs = 1 - 2 * generator.integers(2, size=(resamples, d.size))
    return float((1 + np.sum(np.abs(signs @ d) >= threshold)) / (1 + resamples)), False
