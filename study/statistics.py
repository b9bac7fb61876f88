"""Means over seeds with their 95 % intervals, and ranks over data sets.

The tables and the verdicts of the book rest on them.

The runs of one method are few. Perceptrons that share a seed share initialisation and batch order,
and are paired: the statement about two methods is the mean of the differences with its Student-t
interval. Image networks that share a seed have little in common. There the two methods are
independent, and the deviation is pooled over those of the variant. Over data sets, methods are
compared by their ranks. ``f"{result:.2f}"`` shows a result with two digits, ``f"{result:u}"`` with
as many as its uncertainty allows: down to the second significant digit of it.
"""

import bisect
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

FloatArray = NDArray[np.float64]

LEVEL = 0.95


@dataclass(frozen=True)
class MeanSd:
    """A mean with the sample standard deviation (divisor n − 1) of its values.

    The deviation is NaN for a single value.
    """

    mean: float
    sd: float
    n: int

    def __format__(self, spec: str) -> str:
        spec = _number_format(spec, self.sd)
        return format(self.mean, spec) if self.n == 1 else f"{self.mean:{spec}} ± {self.sd:{spec}}"


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval.

    Where an end that is not 0 would be written as 0, all numbers get another decimal or two, so
    that the side on which it lies is seen.

    Example:
        >>> f"{Interval(0.3, 0.1, 0.5):+.1f}", f"{Interval(0.3, 0.04, 0.5):+.1f}"
        ('+0.3 [+0.1, +0.5]', '+0.30 [+0.04, +0.50]')
    """

    estimate: float
    low: float
    high: float

    def times(self, factor: float) -> "Interval":
        """Multiply it by a number, such as 100 for percentage points.

        Example:
            >>> Interval(1.0, 0.5, 2.0).times(-100)
            Interval(estimate=-100.0, low=-200.0, high=-50.0)
        """
        ends = sorted((factor * self.low, factor * self.high))
        return Interval(factor * self.estimate, *ends)

    def excludes(self, value: float = 0.0) -> bool:
        """Tell if the closed interval is entirely above or entirely below ``value``."""
        return not self.low <= value <= self.high

    def __format__(self, spec: str) -> str:
        sign, spec = ("+", spec[1:]) if spec.startswith("+") else ("", spec)
        spec = sign + _number_format(spec, (self.high - self.low) / 2)
        spec = _telling(spec, (self.low, self.high))
        return f"{self.estimate:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


@dataclass(frozen=True)
class Spread:
    """The variance of a single run, and the degrees of freedom that it was estimated with."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class Difference:
    """The difference a − b of two methods, unit by unit, and the interval of its mean."""

    values: tuple[float, ...]
    interval: Interval
    freedom: float

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
        """Number of units."""
        return len(self.values)

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        half = (self.interval.high - self.interval.low) / 2
        return float(half / stats.t.ppf((1 + LEVEL) / 2, self.freedom))

    def p_value(self, threshold: float = 0.0) -> float:
        """Compute the two-sided p-value of Student's t-test that the mean is ``threshold``."""
        if self.interval.high == self.interval.low:
            return float(self.mean == threshold)
        return float(2 * stats.t.sf(abs(self.mean - threshold) / self.error, self.freedom))


def mean_sd(values: ArrayLike) -> MeanSd:
    """Compute mean and sample standard deviation."""
    x = _checked(values, at_least=1)
    return MeanSd(float(x.mean()), float(x.std(ddof=1)) if x.size > 1 else math.nan, x.size)


def t_interval(values: ArrayLike) -> Interval:
    """Compute Student's confidence interval of the mean."""
    x = _checked(values, at_least=2)
    return _around(float(x.mean()), x.std(ddof=1) / np.sqrt(x.size), x.size - 1)


def paired_difference(a: ArrayLike, b: ArrayLike) -> Difference:
    """Compute the mean difference of two methods that were run with the same units, in one order.

    Its interval is Student's, of the differences.
    """
    first, second = _checked(a, at_least=2), _checked(b, at_least=2)
    if first.size != second.size:
        raise ValueError(
            "a and b are paired by seed and must have one length; "
            f"a has {first.size} values, b has {second.size}"
        )
    differences = first - second
    return Difference(tuple(differences.tolist()), t_interval(differences), first.size - 1)


def without_interval(differences: ArrayLike) -> Difference:
    """Average differences of printed numbers, of which each side has one; the interval is NaN.

    Example:
        >>> without_interval([0.5, 1.5]).interval
        Interval(estimate=1.0, low=nan, high=nan)
    """
    values = _checked(differences, at_least=1)
    mean = float(values.mean())
    return Difference(tuple(values.tolist()), Interval(mean, math.nan, math.nan), 0)


def independent_difference(values: ArrayLike, sides: Sequence[tuple[float, Spread]]) -> Difference:
    """Compute the interval of a mean difference whose sides have nothing in common over the units.

    Args:
        values: the difference, unit by unit.
        sides: for each number that it is made of the square of its weight (1 in a plain
            difference) and the :class:`Spread` of a single run. Equal spreads are one estimate.

    Returns:
        The difference with Student's interval; with several spreads the degrees of freedom are
        Welch and Satterthwaite's.
    """
    x = _checked(values, at_least=2)
    weights: dict[Spread, float] = {}
    for weight, spread in sides:
        weights[spread] = weights.get(spread, 0.0) + weight
    parts = [weight * spread.variance for spread, weight in weights.items()]
    total = sum(parts)
    squares = sum(part**2 / spread.freedom for part, spread in zip(parts, weights, strict=True))
    freedom = total**2 / squares if squares > 0 else float(x.size - 1)
    return Difference(
        tuple(x.tolist()), _around(float(x.mean()), math.sqrt(total / x.size), freedom), freedom
    )


def spread(values: ArrayLike) -> Spread:
    """Estimate the variance of a single run from the runs of one method."""
    x = _checked(values, at_least=2)
    return Spread(float(x.var(ddof=1)), x.size - 1)


def pooled_spread(groups: Sequence[ArrayLike]) -> Spread:
    """Estimate one variance for several methods, each with its own mean."""
    checked = [_checked(group, at_least=2) for group in groups]
    freedom = sum(group.size - 1 for group in checked)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in checked)
    return Spread(squares / freedom, freedom)


def resampled_difference(a: ArrayLike, b: ArrayLike, share: float) -> Difference:
    """Compute the mean difference over the folds of repeated cross-validations of one data set.

    The folds share most of their training samples, so that the variance of the mean is
    (1/n + share) times that of a fold instead of 1/n; there are n − 1 degrees of freedom.

    C. Nadeau, Y. Bengio, *Inference for the generalization error*, Machine Learning 52 (2003).

    Args:
        a: a value for each fold of each repetition.
        b: the same for the other method, in the same order.
        share: test samples over training samples: 1/9 for ten folds.
    """
    paired = paired_difference(a, b)
    error = math.sqrt((1 / paired.n + share) * paired.sd**2)
    return Difference(paired.values, _around(paired.mean, error, paired.freedom), paired.freedom)


def contrast(means: Sequence[MeanSd], weights: Sequence[float]) -> Interval:
    """Compute Welch's interval of a weighted sum of means of independent samples.

    It needs only what a paper prints: mean ± standard deviation.

    B. L. Welch, *The generalization of Student's problem when several different population
    variances are involved*, Biometrika 34 (1947).
    """
    parts = np.array(
        [weight**2 * mean.sd**2 / mean.n for mean, weight in zip(means, weights, strict=True)]
    )
    freedom = parts.sum() ** 2 / (parts**2 / (np.array([mean.n for mean in means]) - 1)).sum()
    return _around(
        sum(weight * mean.mean for mean, weight in zip(means, weights, strict=True)),
        np.sqrt(parts.sum()),
        freedom,
    )


def holm(p_values: Sequence[float]) -> FloatArray:
    """Correct p-values for their number by Holm's method.

    S. Holm, *A simple sequentially rejective multiple test procedure*, Scandinavian Journal of
    Statistics 6 (1979).

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    stepped = np.sort(p) * np.arange(len(p), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return corrected


def pairs_needed(effect: float, sd: float) -> int | None:
    """Count the pairs with which a paired t-test at 0.05 finds an effect.

    It finds it four times out of five, if single differences deviate by ``sd``.

    None if a thousand do not suffice.

    Example:
        >>> pairs_needed(1.0, 1.0), pairs_needed(0.001, 1.0)
        (10, None)
    """
    numbers = range(2, 1001)

    def power(n: int) -> float:
        limit, shift = special.stdtrit(n - 1, (1 + LEVEL) / 2), abs(effect) / sd * math.sqrt(n)
        return 1 - float(special.nctdtr(n - 1, shift, limit))  # it may err in sign: left out

    place = bisect.bisect_left(numbers, 0.8, key=power)  # the power grows with n
    return numbers[place] if place < len(numbers) else None


def ranks(scores: pd.DataFrame) -> pd.DataFrame:
    """Rank the methods (columns) on each data set (row).

    The largest score has rank 1; ties, at six digits, share their mean.
    """
    if not np.isfinite(scores).all(axis=None):
        raise ValueError("scores must be finite numbers")
    return scores.round(6).rank(axis=1, ascending=False)


def critical_difference(methods: int, datasets: int) -> float:
    """Compute Nemenyi's critical difference of two average ranks at 0.05.

    J. Demšar, *Statistical comparisons of classifiers over multiple data sets*, JMLR 7 (2006),
    section 3.2.2.
    """
    quantile = float(stats.studentized_range.ppf(LEVEL, methods, np.inf)) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * datasets)))


def _around(estimate: float, error: float, freedom: float) -> Interval:
    """Student's interval around an estimate with this standard error."""
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom) * error)
    return Interval(estimate, estimate - half, estimate + half)


def _telling(spec: str, ends: Iterable[float]) -> str:
    """Add decimals to a fixed format until no end that is not 0 is written as 0."""
    fixed = re.fullmatch(r"(\+?)\.(\d+)f", spec)
    if not fixed:
        return spec
    decimals = int(fixed[2])
    hidden = (
        next((more for more in range(3) if round(end, decimals + more)), 0) for end in ends if end
    )
    return f"{fixed[1]}.{decimals + max(hidden, default=0)}f"


def _number_format(spec: str, spread: float) -> str:
    """Choose the format of a number: as asked for, or two significant digits of its spread."""
    if spec != "u":
        return spec or ".4g"
    return (
        f".{max(0, 1 - math.floor(math.log10(spread)))}f"
        if math.isfinite(spread) and spread > 0
        else ".4g"
    )


def _checked(values: ArrayLike, *, at_least: int) -> FloatArray:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size < at_least or not np.isfinite(x).all():
        raise ValueError(f"give at least {at_least} finite values in one dimension, not {x}")
    return x
