"""What a summary of a few values is: numbers with their spread, which print themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Interval", "MeanSd", "PairedDifference"]

_DIGITS = ".4g"  # used by str(); a format specification overrides it
_UNCERTAINTY = "u"  # the format specification for as many digits as the uncertainty allows


def _number_format(spec: str, spread: float) -> str:
    """The format of a number: as asked for, or with two significant digits of its spread."""
    if spec != _UNCERTAINTY:
        return spec or _DIGITS
    if not math.isfinite(spread) or spread <= 0:
        return _DIGITS
    return f".{max(0, 1 - math.floor(math.log10(spread)))}f"


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
        method: how the ends were found: ``"t"``, ``"welch"``, ``"bca"`` or ``"percentile"``.
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int
    method: str

    def excludes(self, value: float = 0.0) -> bool:
        """Whether ``value`` lies outside the closed interval.

        Args:
            value: the number asked about.

        Returns:
            True if the interval is entirely above or entirely below ``value``.
        """
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
        mean: mean of a − b.
        sd: sample standard deviation of the differences.
        n: number of pairs.
        interval: Student-t interval of the mean difference; the primary statement.
        bootstrap: bootstrap interval of the mean difference.
        p_value: two-sided sign-flip permutation p-value of "the differences are symmetric about 0".
        exact: whether every sign pattern was counted (up to 16 pairs) or a sample of them.
    """

    mean: float
    sd: float
    n: int
    interval: Interval
    bootstrap: Interval
    p_value: float
    exact: bool

    def __format__(self, spec: str) -> str:
        """Mean difference with its sign, and the t interval, in one number format such as ``.2f`` or ``u``."""
        spec = _number_format(spec, (self.interval.high - self.interval.low) / 2)
        return f"{self.mean:+{spec}} [{self.interval.low:+{spec}}, {self.interval.high:+{spec}}]"

    def __str__(self) -> str:
        """Mean difference, t interval, p-value and number of pairs."""
        about = "=" if self.exact else "≈"
        return f"{self:{_DIGITS}} ({100 * self.interval.level:g} % t, sign-flip p {about} {self.p_value:.3g}, n = {self.n} pairs)"
