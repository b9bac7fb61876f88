"""Means over seeds with their 95 % intervals, and ranks over data sets: what the tables and the verdicts of the book rest on.

The runs of one setting are few and paired: runs that share a seed share initialisation and batch
order. So the statement about two settings is the mean of the paired differences with its Student-t
interval. Over data sets, methods are compared by their ranks. ``f"{result:.2f}"`` shows a result
with two digits, ``f"{result:u}"`` with as many as its uncertainty allows: down to the second
significant digit of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

FloatArray = NDArray[np.float64]

LEVEL = 0.95


@dataclass(frozen=True)
class MeanSd:
    """A mean with the sample standard deviation (divisor n − 1) of its values; NaN for a single value."""

    mean: float
    sd: float
    n: int

    def __format__(self, spec: str) -> str:
        spec = _number_format(spec, self.sd)
        return format(self.mean, spec) if self.n == 1 else f"{self.mean:{spec}} ± {self.sd:{spec}}"


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float

    def excludes(self, value: float = 0.0) -> bool:
        """Tell if the closed interval is entirely above or entirely below ``value``."""
        return not self.low <= value <= self.high

    def __format__(self, spec: str) -> str:
        sign, spec = ("+", spec[1:]) if spec.startswith("+") else ("", spec)
        spec = sign + _number_format(spec, (self.high - self.low) / 2)
        return f"{self.estimate:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


@dataclass(frozen=True)
class PairedDifference:
    """The difference a − b of two settings, pair by pair, and the interval of its mean with its degrees of freedom."""

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
        """Compute the two-sided p-value of Student's t-test that the mean difference is ``threshold``."""
        half = (self.interval.high - self.interval.low) / 2
        if half == 0:
            return float(self.mean == threshold)
        error = half / stats.t.ppf((1 + LEVEL) / 2, self.freedom)
        return float(2 * stats.t.sf(abs(self.mean - threshold) / error, self.freedom))


def mean_sd(values: ArrayLike) -> MeanSd:
    """Compute mean and sample standard deviation."""
    x = _checked(values, at_least=1)
    return MeanSd(float(x.mean()), float(x.std(ddof=1)) if x.size > 1 else math.nan, x.size)


def t_interval(values: ArrayLike) -> Interval:
    """Compute Student's confidence interval of the mean."""
    x = _checked(values, at_least=2)
    return _around(float(x.mean()), x.std(ddof=1) / np.sqrt(x.size), x.size - 1)


def paired_difference(a: ArrayLike, b: ArrayLike) -> PairedDifference:
    """Compute the mean difference of two settings that were run with the same seeds, in one order, with its Student-t interval."""
    first, second = _checked(a, at_least=2), _checked(b, at_least=2)
    if first.size != second.size:
        raise ValueError(
            f"a and b are paired by seed and must have one length; a has {first.size} values, b has {second.size}"
        )
    return PairedDifference(
        tuple((first - second).tolist()), t_interval(first - second), first.size - 1
    )


def pooled_difference(a: ArrayLike, b: ArrayLike, groups: Sequence[ArrayLike]) -> PairedDifference:
    """Compute the mean difference as of independent samples, with one standard deviation for all settings, whose values the groups are.

    For runs in which sharing a seed buys nothing: with three seeds a pooled deviation has many
    times the degrees of freedom.
    """
    paired = paired_difference(a, b)
    checked = [_checked(group, at_least=2) for group in groups]
    freedom = sum(group.size - 1 for group in checked)
    variance = sum(float(((group - group.mean()) ** 2).sum()) for group in checked) / freedom
    return PairedDifference(
        paired.values, _around(paired.mean, np.sqrt(2 * variance / paired.n), freedom), freedom
    )


def contrast(means: Sequence[MeanSd], weights: Sequence[float]) -> Interval:
    """Compute Welch's interval of a weighted sum of means of independent samples, from what a paper prints: mean ± standard deviation.

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


def pairs_needed(effect: float, sd: float) -> int | None:
    """Count the pairs with which a paired t-test at 0.05 finds an effect four times out of five, if single differences deviate by ``sd``.

    None if a thousand do not suffice.

    Example:
        >>> pairs_needed(1.0, 1.0), pairs_needed(0.001, 1.0)
        (10, None)
    """
    n = np.arange(2, 1001)
    limit, shift = stats.t.ppf((1 + LEVEL) / 2, n - 1), abs(effect) / sd * np.sqrt(n)
    enough = stats.nct.sf(limit, n - 1, shift) >= 0.8  # that the test errs in sign is left out
    return int(n[enough.argmax()]) if enough.any() else None


def sign_flip_p(values: ArrayLike) -> float:
    """Compute the two-sided p-value of paired differences, each as likely as its opposite; exact for up to 13 values.

    The smallest value that n differences can give is 2^(1 − n), so that five seeds cannot reach
    0.05; six can.
    """
    x = _checked(values, at_least=2)
    if not x.any():
        return 1.0
    found = stats.permutation_test(
        (x,), np.mean, permutation_type="samples", vectorized=True, n_resamples=9_999, rng=0
    )
    return float(found.pvalue)


def ranks(scores: pd.DataFrame) -> pd.DataFrame:
    """Rank the methods (columns) on each data set (row): the largest score has rank 1; ties, at six digits, share their mean."""
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


def _number_format(spec: str, spread: float) -> str:
    """The format of a number: as asked for, or with two significant digits of its spread."""
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
