"""Means, their intervals, paired differences and tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = [
    "FloatArray",
    "Interval",
    "MeanSd",
    "PairedDifference",
    "contrast",
    "holm",
    "mean_sd",
    "paired_difference",
    "pooled_difference",
    "sign_flip_p",
    "t_interval",
    "wilson_interval",
]

FloatArray = NDArray[np.float64]

_DIGITS, _UNCERTAINTY = ".4g", "u"


# --- results ---


@dataclass(frozen=True)
class MeanSd:
    """A mean with the sample standard deviation of its values.

    Attributes:
        mean: arithmetic mean.
        sd: sample standard deviation (divisor n − 1); NaN for a single value.
        n: number of values.
    """

    mean: float
    sd: float
    n: int

    def __format__(self, spec: str) -> str:
        """Mean and standard deviation with one number format, such as ``.2f`` or ``u``; a single value stands alone."""
        spec = _number_format(spec, self.sd)
        return format(self.mean, spec) if self.n == 1 else f"{self.mean:{spec}} ± {self.sd:{spec}}"

    def __str__(self) -> str:
        """Mean ± sd and the number of values."""
        return f"{self:{_DIGITS}} (n = {self.n})"


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval.

    Attributes:
        estimate: the point estimate.
        low: lower end.
        high: upper end.
        level: nominal coverage, such as 0.95.
        n: number of values behind the estimate.
        method: ``"t"``, ``"pooled t"`` or ``"welch"``.
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int
    method: str

    def excludes(self, value: float = 0.0) -> bool:
        """Tell if the closed interval is entirely above or entirely below ``value``."""
        return not self.low <= value <= self.high

    def __format__(self, spec: str) -> str:
        """Estimate and interval with one number format, such as ``.2f`` or ``u``."""
        spec = _number_format(spec, (self.high - self.low) / 2)
        return f"{self.estimate:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def __str__(self) -> str:
        """Estimate, interval, level, method and number of values."""
        return f"{self:{_DIGITS}} ({100 * self.level:g} % {self.method}, n = {self.n})"


@dataclass(frozen=True)
class PairedDifference:
    """The difference of two settings over the seeds that they share.

    Attributes:
        values: a − b, pair by pair.
        interval: of their mean: Student's, or with a pooled deviation.
        freedom: its degrees of freedom.
    """

    values: tuple[float, ...]
    interval: Interval
    freedom: int

    @property
    def mean(self) -> float:
        """Mean of a − b."""
        return self.interval.estimate

    @property
    def sd(self) -> float:
        """Sample standard deviation of the differences."""
        return float(np.std(self.values, ddof=1))

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.values)

    def p_value(self, threshold: float = 0.0) -> float:
        """Two-sided p-value of Student's t-test that the mean difference is ``threshold``."""
        half = (self.interval.high - self.interval.low) / 2
        if half == 0:
            return float(self.mean == threshold)
        error = half / stats.t.ppf((1 + self.interval.level) / 2, self.freedom)
        return float(2 * stats.t.sf(abs(self.mean - threshold) / error, self.freedom))

    def __format__(self, spec: str) -> str:
        """Mean difference with its sign, and the t interval, in one number format such as ``.2f`` or ``u``."""
        spec = _number_format(spec, (self.interval.high - self.interval.low) / 2)
        return f"{self.mean:+{spec}} [{self.interval.low:+{spec}}, {self.interval.high:+{spec}}]"

    def __str__(self) -> str:
        """Mean difference, t interval, p-value and number of pairs."""
        return f"{self:{_DIGITS}} ({100 * self.interval.level:g} % t, p = {self.p_value():.3g}, n = {self.n} pairs)"


# --- means ---


def mean_sd(values: ArrayLike) -> MeanSd:
    r"""Compute mean and sample standard deviation.

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
    x = _checked_values(values, "values", at_least=1)
    return MeanSd(mean=float(x.mean()), sd=float(x.std(ddof=1)) if x.size > 1 else float("nan"), n=x.size)


def t_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    r"""Compute Student's confidence interval of the mean.

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
    x = _checked_values(values, "values", at_least=2)
    mean = float(x.mean())
    half = float(stats.t.ppf((1 + _checked_level(level)) / 2, x.size - 1) * x.std(ddof=1) / np.sqrt(x.size))
    return Interval(mean, mean - half, mean + half, level, x.size, "t")


def paired_difference(a: ArrayLike, b: ArrayLike, *, level: float = 0.95) -> PairedDifference:
    r"""Compute the mean difference of two settings that were run with the same seeds, with its Student-t interval.

    Args:
        a: values of one setting, shape ``[n]``, in the order of the seeds.
        b: values of the other setting, shape ``[n]``, in the same order.
        level: nominal coverage of the interval.

    Returns:
        A :class:`PairedDifference` for a − b.

    Raises:
        ValueError: for different lengths, fewer than two pairs, NaN or infinity, or a level outside (0, 1).

    Example:
        >>> difference = paired_difference([3, 5, 4, 6, 7], [2, 4, 4, 3, 5])
        >>> print(f"{difference:.2f}, p = {difference.p_value():.2f}")
        +1.40 [-0.02, +2.82], p = 0.05
    """
    first, second = _checked_values(a, "a", at_least=2), _checked_values(b, "b", at_least=2)
    if first.size != second.size:
        raise ValueError(f"a and b are paired by seed and must have one length; a has {first.size} values, b has {second.size}")
    return PairedDifference(tuple((first - second).tolist()), t_interval(first - second, level=level), first.size - 1)


def pooled_difference(a: ArrayLike, b: ArrayLike, groups: Sequence[ArrayLike], *, level: float = 0.95) -> PairedDifference:
    r"""Compute the mean difference of two settings as of independent samples, with one standard deviation for all settings.

    .. math:: \bar a - \bar b \pm t_{\nu,\,(1+\text{level})/2} \; s \sqrt{2 / n}, \qquad
        s^2 = \frac{\sum_g \sum_i (x_{gi} - \bar x_g)^2}{\nu}, \qquad \nu = \sum_g (n_g - 1)

    For runs in which sharing a seed buys nothing: with three seeds a pooled deviation has many times the degrees of freedom.

    Args:
        a: values of one setting, shape ``[n]``.
        b: values of the other setting, shape ``[n]``.
        groups: the values of every setting, these two among them.
        level: nominal coverage of the interval.

    Raises:
        ValueError: as :func:`paired_difference`.

    Example:
        >>> print(f"{pooled_difference([1.0, 3.0], [0.0, 2.0], [[1.0, 3.0], [0.0, 2.0]]):.2f}")
        +1.00 [-5.08, +7.08]
    """
    paired = paired_difference(a, b, level=level)
    checked = [_checked_values(group, "a group", at_least=2) for group in groups]
    freedom = sum(group.size - 1 for group in checked)
    variance = sum(float(((group - group.mean()) ** 2).sum()) for group in checked) / freedom
    half = float(stats.t.ppf((1 + level) / 2, freedom) * np.sqrt(2 * variance / paired.n))
    interval = Interval(paired.mean, paired.mean - half, paired.mean + half, level, paired.n, "pooled t")
    return PairedDifference(paired.values, interval, freedom)


def contrast(means: Sequence[MeanSd], weights: Sequence[float], *, level: float = 0.95) -> Interval:
    r"""Compute Welch's interval of a weighted sum of means of independent samples, from what a paper prints: mean ± standard deviation.

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
    half = float(stats.t.ppf((1 + _checked_level(level)) / 2, freedom) * np.sqrt(parts.sum()))
    return Interval(estimate, estimate - half, estimate + half, level, sum(mean.n for mean in means), "welch")


# --- tests ---


def sign_flip_p(values: ArrayLike) -> float:
    r"""Compute the two-sided sign-flip p-value: if nothing distinguishes two settings, each difference is as likely as its opposite.

    By :func:`scipy.stats.permutation_test`, exact for up to 13 values. The smallest value that n differences can give is :math:`2^{1-n}`:
    0.0625 for five pairs, so five seeds cannot reach p < 0.05 in this test; six can.

    Args:
        values: paired differences, shape ``[n]``, n ≥ 2.

    Raises:
        ValueError: for fewer than two values, NaN or infinity.

    Example:
        >>> sign_flip_p([1, 1, 0, 3, 2])                # 4 of the 32 sign patterns: the zero may have either sign
        0.125
    """
    x = _checked_values(values, "values", at_least=2)
    if not x.any():
        return 1.0
    found = stats.permutation_test((x,), np.mean, permutation_type="samples", vectorized=True, n_resamples=9_999, rng=0)
    return float(found.pvalue)


def holm(p_values: ArrayLike) -> FloatArray:
    """Correct p-values for their number by Holm's method, by :func:`statsmodels.stats.multitest.multipletests`.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
        [0.03, 0.06, 0.06]

    References:
        S. Holm, *A simple sequentially rejective multiple test procedure*, Scandinavian Journal of Statistics 6 (1979) 65-70.
    """
    from statsmodels.stats.multitest import multipletests  # here, since it takes a second to import and one page needs it

    return np.asarray(multipletests(np.asarray(p_values, dtype=np.float64), method="holm")[1], dtype=np.float64)


def wilson_interval(successes: ArrayLike, trials: ArrayLike, *, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    r"""Compute the Wilson score interval of a proportion, elementwise: the error bars of a reliability diagram.

    .. math:: \frac{1}{1 + z^2/n} \left( \hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n} + \frac{z^2}{4 n^2}} \right)

    with :math:`\hat p` the share of successes, n the number of trials, z the normal quantile of (1 + level)/2.

    Args:
        successes: numbers of successes, any shape; means over runs need not be whole numbers.
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
    from statsmodels.stats.proportion import proportion_confint  # here, since it takes a second to import and few pages need it

    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    if not (np.isfinite(k).all() and np.isfinite(n).all()):
        raise ValueError("successes and trials must be finite")
    if np.any(k < 0) or np.any(k > n):
        raise ValueError("each number of successes must lie between 0 and its number of trials")
    low, high = proportion_confint(k, np.maximum(n, 1), alpha=1 - _checked_level(level), method="wilson")
    # The ends for no success and for no failure are exactly 0 and 1; rounding must not leave them beside.
    return np.where((k == 0) | (n == 0), 0.0, low), np.where((k == n) | (n == 0), 1.0, high)


# --- checks ---


def _number_format(spec: str, spread: float) -> str:
    """The format of a number: as asked for, or with two significant digits of its spread."""
    if spec != _UNCERTAINTY:
        return spec or _DIGITS
    if not math.isfinite(spread) or spread <= 0:
        return _DIGITS
    return f".{max(0, 1 - math.floor(math.log10(spread)))}f"


def _checked_values(values: ArrayLike, name: str, *, at_least: int) -> FloatArray:
    """A checked one-dimensional float64 array."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not shape {x.shape}")
    if x.size < at_least:
        raise ValueError(f"{name} must hold at least {at_least} value{'s' if at_least > 1 else ''}, not {x.size}")
    if not np.isfinite(x).all():
        raise ValueError(f"{name} must be finite; found {x[~np.isfinite(x)][0]} at index {int(np.argmin(np.isfinite(x)))}")
    return x


def _checked_level(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95, not {level}")
    return level
