"""Schedules: a number as a function of the step.

Pure: no torch, no state, no knowledge of the loss.

A schedule is any callable that takes a step (0 for the first) and returns a float. Whether a step
is an optimiser step or an epoch is the caller's choice: the schedule only counts. ``str()`` is its
label.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

__all__ = ["Constant", "LinearWarmup", "Schedule"]

Schedule = Callable[[float], float]


@dataclass(frozen=True)
class Constant:
    """Constant schedule: the same value at every step.

    Args:
        value: the value.

    Raises:
        ValueError: for a value that is not finite.

    Example:
        >>> Constant(0.1)(0), Constant(0.1)(10_000)
        (0.1, 0.1)
    """

    value: float

    def __post_init__(self) -> None:
        _check_finite(value=self.value)

    def __call__(self, step: float) -> float:
        """Return the value."""
        return self.value

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True)
class LinearWarmup:
    r"""Linear warm-up: a straight line from ``start`` to ``end``, then constant.

    .. math:: \beta(t) = \beta_{start} + (\beta_{end} - \beta_{start}) \min(t / t_{end}, 1)

    Args:
        start: value at step 0.
        end: value at step ``steps`` and after.
        steps: :math:`t_{end}` > 0, in whatever unit the schedule is called with.

    Raises:
        ValueError: for values that are not finite, or ``steps`` ≤ 0.

    Example:
        >>> warmup = LinearWarmup(start=1.0, end=5.0, steps=10)
        >>> warmup(0), warmup(5), warmup(10), warmup(1_000)
        (1.0, 3.0, 5.0, 5.0)

    References:
        *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 24; version
        2, section 3.4. Neither says what happens after :math:`t_{end}`; holding the end value is
        the reading used here.
    """

    start: float
    end: float
    steps: float

    def __post_init__(self) -> None:
        _check_finite(start=self.start, end=self.end, steps=self.steps)
        if self.steps <= 0:
            raise ValueError(
                f"steps must be > 0, got {self.steps}; use Constant({self.end}) for no warm-up"
            )

    def __call__(self, step: float) -> float:
        """Return the value at ``step``; it is exact at both ends."""
        if not step >= 0:  # or NaN
            raise ValueError(f"step must be >= 0, got {step}")
        if step >= self.steps:
            return self.end
        return self.start + (self.end - self.start) * (step / self.steps)

    def __str__(self) -> str:
        return f"warm-up {self.start:g}→{self.end:g}"


def _check_finite(**values: object) -> None:
    for name, value in values.items():
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not number or not math.isfinite(cast(float, value)):
            raise ValueError(f"{name} must be a finite number, got {value!r}")
