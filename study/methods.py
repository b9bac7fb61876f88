"""What a run is trained with: a loss with its numbers, or gradient decay with a β and its schedule.

It is one value, a :class:`Method`. Every text that names one is read here, and nowhere else: the
label of a record, a method of a claim file, a row of a paper's table.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from study.losses import LOSSES, Kind
from study.losses import parse as parse_loss

Schedule = Literal["constant", "warm-up", "feedback"]
"""How β changes during a training."""

_NUMBER = r"([-+0-9.e]+)"
_LABELS: Mapping[Schedule, re.Pattern[str]] = {
    "constant": re.compile(f"(?:β = )?{_NUMBER}"),
    "warm-up": re.compile(f"warm-up {_NUMBER}→{_NUMBER}"),
    "feedback": re.compile(f"feedback {_NUMBER}, {_NUMBER}, {_NUMBER}"),
}
"""How the schedules of :mod:`gdlib.schedules` write themselves; a constant β also as its name."""

_SOFTMAX = "softmax"
_GRADIENT_DECAY = "gd"


@functools.total_ordering
@dataclass(frozen=True)
class Method:
    """What a run is trained with.

    Softmax is gradient decay with β = 1, and equal to it, whatever the two are called. A loss
    without the numbers that it has stands for all of them: :meth:`includes` tells.

    Methods are sorted as the tables of the book show them: constant β from the largest to the
    smallest, then warm-ups, then the other losses in the order of their table.

    Example:
        >>> Method.parse("0.1") == Method.of_beta(0.1), Method.parse("softmax") == Method.of_beta(1)
        (True, True)
        >>> [str(one) for one in sorted(map(Method.parse, ["lm 0.3", "0.1", "warm-up 0.1→1", "5"]))]
        ['β = 5', 'β = 0.1', 'warm-up 0.1→1', 'LM, λ = 0.3']
    """

    loss: str
    """Its name in :data:`study.losses.LOSSES`."""
    numbers: tuple[float, ...] = ()
    """Those of the loss; β, or those of its schedule."""
    schedule: Schedule = "constant"
    temperature: float | None = None
    """τ, where it is varied."""
    written: str = field(default="", compare=False)
    """The label of its record, where that is not the usual one: softmax, or gd 0.1."""

    @classmethod
    def of_beta(cls, beta: float, temperature: float | None = None) -> Method:
        """Make the method of a constant β.

        Raises:
            ValueError: unless β > 0.
        """
        if not beta > 0:
            raise ValueError(f"β must be larger than 0; got {beta}")
        return cls(_GRADIENT_DECAY, (float(beta),), temperature=temperature)

    @classmethod
    def parse(cls, value: Method | float | str) -> Method:
        """Read a method: a number is a constant β, a text the label of a schedule or a loss.

        Raises:
            ValueError: for a text that names no method.

        Example:
            >>> Method.parse("warm-up 0.1→1")
            Method(loss='gd', numbers=(0.1, 1.0), schedule='warm-up', temperature=None, written='')
            >>> Method.parse("lm 0.3").numbers, Method.parse("lm").numbers
            ((0.3,), ())
        """
        if isinstance(value, Method):
            return value
        return cls.of_beta(value) if isinstance(value, int | float) else _parsed(value)

    @classmethod
    def named(cls, text: Method | str) -> Method | None:
        """Read a method from a text; None from one that names no method."""
        try:
            return cls.parse(text)
        except ValueError:
            return None

    @classmethod
    def of_run(cls, run: Mapping[str, Any]) -> Method:
        """Read the method of a run from what its record knows it by.

        That is the label of its schedule and its β, or the loss of its job.
        """
        loss = run.get("loss")
        if not isinstance(loss, str):
            loss = _GRADIENT_DECAY  # an old record, of gradient decay alone
        label = run.get("schedule")
        method = cls.parse(label if isinstance(label, str) else loss)
        beta = run.get("beta")
        constant = loss == _GRADIENT_DECAY and method.beta is not None
        return cls.of_beta(beta) if constant and isinstance(beta, int | float) else method

    @property
    def kind(self) -> Kind:
        """The row of its loss in the table."""
        return LOSSES[_SOFTMAX if self.written == _SOFTMAX else self.loss]

    @property
    def label(self) -> str:
        """The label of its records; :meth:`parse` reads it.

        Example:
            >>> Method.of_beta(0.1).label, Method("lm", (0.3,)).label
            ('0.1', 'lm 0.3')
        """
        numbers = [f"{number:g}" for number in self.numbers]
        if self.written or self.beta is not None:
            return self.written or numbers[0]
        if self.schedule == "warm-up":
            return f"warm-up {'→'.join(numbers)}"
        if self.schedule == "feedback":
            return f"feedback {', '.join(numbers)}"
        return " ".join([self.loss, *numbers])

    @property
    def beta(self) -> float | None:
        """The constant β; None for a schedule that changes it, and for another loss."""
        if self.loss != _GRADIENT_DECAY or self.schedule != "constant":
            return None
        return self.numbers[0] if self.numbers else None

    @property
    def is_plain(self) -> bool:
        """Whether it is β = 1, the plain cross-entropy."""
        return self.beta == 1.0

    def at(self, temperature: float) -> Method:
        """Name the temperature beside it."""
        return replace(self, temperature=float(temperature))

    def includes(self, other: Method) -> bool:
        """Tell if it is the other, or its loss without the numbers."""
        any_numbers = not self.numbers and self.schedule == other.schedule
        return self == other or (any_numbers and self.loss == other.loss)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Method):
            return NotImplemented
        return self._place < other._place

    @property
    def _place(self) -> tuple[Any, ...]:
        temperature = -1.0 if self.temperature is None else self.temperature
        if self.beta is not None:
            return 0, -self.beta, (), temperature
        if self.loss == _GRADIENT_DECAY:
            return (1 if self.schedule == "warm-up" else 2), 0, self.numbers, temperature
        return 3, list(LOSSES).index(self.loss), self.numbers, temperature

    def __str__(self) -> str:
        """Name it for a sentence.

        Example:
            >>> str(Method.of_beta(0.01, 2)), str(Method.parse("arcface 20 0.1"))
            ('β = 0.01 with τ = 2', 'ArcFace, s = 20, m = 0.1')
        """
        with_temperature = "" if self.temperature is None else f" with τ = {self.temperature:g}"
        return f"{self._name}{with_temperature}"

    @property
    def _name(self) -> str:
        if self.written == _SOFTMAX or self.schedule != "constant":
            return self.label
        if self.beta is not None:
            title = f"{self.kind.title}, " if self.written else ""
            return f"{title}β = {self.beta:g}"
        numbers = [f"{number:g}" for number in self.numbers]
        title = self.kind.title
        if not self.numbers:
            return title
        symbols = [number.symbol for number in self.kind.numbers]
        written = (
            f"{symbol} {number}" if symbol.endswith("≥") else f"{symbol} = {number}"
            for symbol, number in zip(symbols, numbers, strict=True)
        )
        return ", ".join([title, *written])


@functools.cache
def _parsed(text: str) -> Method:
    for schedule, pattern in _LABELS.items():
        if match := pattern.fullmatch(text):
            if schedule == "constant":
                return Method.of_beta(float(match[1]))
            return Method(_GRADIENT_DECAY, tuple(map(float, match.groups())), schedule)
    if text == _SOFTMAX:
        return replace(Method.of_beta(1.0), written=_SOFTMAX)
    if text in LOSSES:
        return Method(text)
    loss = parse_loss(text)
    return Method(loss.name, loss.numbers, written=text if loss.name == _GRADIENT_DECAY else "")


def method_name(value: Method | float | str) -> str:
    """Name a method for a figure or a table; a text that names none comes back as it is.

    Example:
        >>> method_name("lm 0.3"), method_name(0.1), method_name("softmax"), method_name("tanh")
        ('LM, λ = 0.3', 'β = 0.1', 'softmax', 'tanh')
    """
    method = Method.parse(value) if isinstance(value, int | float) else Method.named(value)
    return str(value) if method is None else str(method)
