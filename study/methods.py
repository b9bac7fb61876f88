"""What a run is trained with: a loss with its numbers, or gradient decay with a β and its schedule.

It is one value, a :class:`Method`. Every text that names one is read here, and nowhere else: the
label of a run, a row of a paper's table.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

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


@dataclass(frozen=True)
class Method:
    """What a run is trained with.

    Softmax is gradient decay with β = 1, and equal to it, whatever the two are called.

    Example:
        >>> Method.parse("0.1") == Method.of_beta(0.1), Method.parse("softmax") == Method.of_beta(1)
        (True, True)
        >>> [str(Method.parse(label)) for label in ("lm 0.3", "0.1", "warm-up 0.1→1")]
        ['LM, λ = 0.3', 'β = 0.1', 'warm-up 0.1→1']
    """

    loss: str
    """Its name in :data:`study.losses.LOSSES`."""
    numbers: tuple[float, ...] = ()
    """Those of the loss; β, or those of its schedule."""
    schedule: Schedule = "constant"
    written: str = field(default="", compare=False)
    """Its label, where that does not follow from the others: of a schedule, softmax, or gd 0.1."""

    @classmethod
    def of_beta(cls, beta: float) -> Method:
        """Make the method of a constant β.

        Raises:
            ValueError: unless β > 0.
        """
        if not beta > 0:
            raise ValueError(f"β must be larger than 0; got {beta}")
        return cls(_GRADIENT_DECAY, (float(beta),))

    @classmethod
    def parse(cls, value: float | str) -> Method:
        """Read a method: a number is a constant β, a text the label of a schedule or a loss.

        Raises:
            ValueError: for a text that names no method.

        Example:
            >>> Method.parse("warm-up 0.1→1")
            Method(loss='gd', numbers=(0.1, 1.0), schedule='warm-up', written='warm-up 0.1→1')
            >>> Method.parse("lm 0.3").numbers, Method.parse("lm").numbers
            ((0.3,), ())
        """
        return cls.of_beta(value) if isinstance(value, int | float) else _parsed(value)

    @classmethod
    def named(cls, text: str) -> Method | None:
        """Read a method from a text; None from one that names no method."""
        try:
            return cls.parse(text)
        except ValueError:
            return None

    @property
    def kind(self) -> Kind:
        """The row of its loss in the table."""
        return LOSSES[_SOFTMAX if self.written == _SOFTMAX else self.loss]

    @property
    def label(self) -> str:
        """The label of its runs; :meth:`parse` reads it.

        Example:
            >>> Method.of_beta(0.1).label, Method("lm", (0.3,)).label
            ('0.1', 'lm 0.3')
        """
        numbers = [f"{number:g}" for number in self.numbers]
        loss = [self.loss] if self.beta is None else []
        return self.written or " ".join([*loss, *numbers])

    @property
    def beta(self) -> float | None:
        """The constant β; None for a schedule that changes it, and for another loss."""
        if self.loss != _GRADIENT_DECAY or self.schedule != "constant":
            return None
        return self.numbers[0] if self.numbers else None

    def __str__(self) -> str:
        """Name it for a sentence.

        Example:
            >>> str(Method.of_beta(0.01)), str(Method.parse("arcface 20 0.1"))
            ('β = 0.01', 'ArcFace, s = 20, m = 0.1')
        """
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
            return Method(_GRADIENT_DECAY, tuple(map(float, match.groups())), schedule, text)
    if text == _SOFTMAX:
        return replace(Method.of_beta(1.0), written=_SOFTMAX)
    if text in LOSSES:
        return Method(text)
    loss = parse_loss(text)
    return Method(loss.name, loss.numbers, written=text if loss.name == _GRADIENT_DECAY else "")


def method_name(value: float | str) -> str:
    """Name a method for a figure or a table; a text that names none comes back as it is.

    Example:
        >>> method_name("lm 0.3"), method_name(0.1), method_name("softmax"), method_name("tanh")
        ('LM, λ = 0.3', 'β = 0.1', 'softmax', 'tanh')
    """
    method = Method.parse(value) if isinstance(value, int | float) else Method.named(value)
    return str(value) if method is None else str(method)
