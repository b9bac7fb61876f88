"""Schedules: a number as a function of the step.

Pure: no torch, no state, no knowledge of the loss.

A schedule is any callable that takes a step (0 for the first) and returns a float. Whether a step
is an optimiser step or an epoch is the caller's choice: the schedule only counts. ``str()`` is its
label. :class:`ConfidenceFeedback` alone has a state: it follows measurements.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

__all__ = ["ConfidenceFeedback", "Constant", "LinearWarmup", "Schedule"]

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
    r"""Linear warm-up: a straight line from ``start`` to ``end``, which then stays.

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


@dataclass
class ConfidenceFeedback:
    r"""Proportional-integral control of log β by the gap between mean confidence and accuracy.

    After update t, with the gap :math:`e_t` = mean confidence − accuracy,

    .. math:: \log \beta_t = \log \beta_0 + K_P\, e_t + K_I \sum_{s \le t} e_s .

    A network that is too sure gets a larger β, one that is not sure enough a smaller one, until the
    gap is 0. β stays between 1/100 and 100; the sum stands still while it would drive β further
    beyond an end. Between two updates β is constant. :func:`gdlib.train.train` takes one
    for each run, if ``measure`` returns after each epoch what :meth:`update` reads.

    Args:
        start: :math:`\beta_0`, between 1/100 and 100.
        proportional: :math:`K_P` ≥ 0, in units of log β for each unit of the gap.
        integral: :math:`K_I` ≥ 0, the same for each update.

    Raises:
        ValueError: for values that are not finite, a ``start`` outside its bounds, or a negative
            gain.

    Example:
        >>> feedback = ConfidenceFeedback(start=1.0, proportional=10.0, integral=10.0)
        >>> feedback(0)
        1.0
        >>> feedback.update({"valid_confidence": 0.95, "valid_accuracy": 0.90})
        >>> round(feedback(100), 3)                              # exp(10 · 0.05 + 10 · 0.05)
        2.718

    References:
        *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 2, section A.3, asks
        for adaptive mechanisms during training and gives none. This one is a controller with
        conditional integration against windup (Åström and Hägglund, *Advanced PID Control*).
    """

    start: float
    proportional: float
    integral: float
    _sum: float = field(default=0.0, init=False, repr=False)
    _log_beta: float = field(default=0.0, init=False, repr=False)

    def __post_init__(self) -> None:
        _check_finite(start=self.start, proportional=self.proportional, integral=self.integral)
        if not (0.01 <= self.start <= 100 and self.proportional >= 0 and self.integral >= 0):
            raise ValueError(
                f"start must be between 1/100 and 100, the gains must be >= 0; got {self!r}"
            )
        self._log_beta = math.log(self.start)

    def __call__(self, step: float) -> float:
        """Return β since the last update, whatever the step."""
        return math.exp(self._log_beta)

    def reset(self) -> None:
        """Forget all updates: β is the start again.

        :func:`gdlib.train.train` calls it before a training.
        """
        self._sum = 0.0
        self._log_beta = math.log(self.start)

    def update(self, measured: Mapping[str, float]) -> None:
        """Read ``valid_confidence`` and ``valid_accuracy`` of the same held-out samples.

        The confidence is the mean of the largest probabilities.
        """
        try:
            gap = float(measured["valid_confidence"]) - float(measured["valid_accuracy"])
        # all but the first for a tensor of several numbers
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                "a feedback follows two numbers of its own run: let measure return "
                "valid_confidence and valid_accuracy, [R] each, after every epoch, and give every "
                f"run a feedback; measured: {dict(measured)}"
            ) from error
        if not math.isfinite(gap):
            return  # a network that has diverged says nothing
        wanted = math.log(self.start) + self.proportional * gap + self.integral * (self._sum + gap)
        if abs(wanted) <= _LARGEST_LOG or wanted * gap < 0:
            self._sum += gap
        self._log_beta = max(-_LARGEST_LOG, min(_LARGEST_LOG, wanted))

    def __str__(self) -> str:
        return f"feedback {self.start:g}, {self.proportional:g}, {self.integral:g}"


_LARGEST_LOG = math.log(100)  # of β


def _check_finite(**values: object) -> None:
    for name, value in values.items():
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not number or not math.isfinite(cast(float, value)):
            raise ValueError(f"{name} must be a finite number, got {value!r}")
