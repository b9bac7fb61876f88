"""From records to the numbers that the figure to play with draws: ``book/_static/play.js`` reads them from the page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from study.tables.measured import Setting


@dataclass(frozen=True)
class Play:
    """The numbers of the figure as JSON; in a notebook, the element that the script of the book fills.

    Attributes:
        content: for each setting its ``name``, ``note`` and ``seeds``, ``accuracy`` (of β = 1, %), every measured ``beta``, and in the same
            order ``gain`` (test accuracy less that of β = 1, in points: mean and 95 % interval), ``ece`` (expected calibration error, %),
            ``link`` and ``temperature`` (the same after the calibration link and after a fitted temperature; null if not recorded).
        instead: the name of the picture whose place the figure takes.
    """

    content: Sequence[dict[str, Any]]
    instead: str

    def json(self) -> str:
        """The content, without a space that nobody reads."""
        return json.dumps({"settings": list(self.content)}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    def _repr_html_(self) -> str:
        escaped = self.json().replace("</", "<\\/")
        return f'<div class="play" data-instead="{self.instead}"><script type="application/json">{escaped}</script></div>'


def play(settings: Sequence[Setting], instead: str = "fig-play") -> Play:
    """Collect the numbers of the figure.

    Args:
        settings: as :func:`study.tables.measured.settings` gives them; the first one is shown at first.
        instead: the name of the picture whose place the figure takes where scripts run.
    """
    return Play([_numbers(setting) for setting in settings], instead)


def _numbers(setting: Setting) -> dict[str, Any]:
    gains = [setting.against_one("test_accuracy", beta) for beta in setting.betas]
    return {
        "name": setting.name,
        "note": setting.note,
        "seeds": setting.seeds,
        "accuracy": _short(100 * setting.mean("test_accuracy", 1.0)),
        "beta": [_short(beta, 3) for beta in setting.betas],
        "gain": [[_short(100 * value) for value in (gain.mean, gain.interval.low, gain.interval.high)] if gain else None for gain in gains],
        **{
            name: [_short(100 * setting.mean(metric, beta)) for beta in setting.betas]
            for name, metric in (("ece", "test_ece"), ("link", "test_ece_link"), ("temperature", "test_ece_temperature"))
        },
    }


def _short(value: float, digits: int = 2) -> float | None:
    """A number with few decimals, None where there is none."""
    if math.isnan(value):
        return None
    rounded = round(value, digits)
    return int(rounded) if rounded == int(rounded) else rounded
