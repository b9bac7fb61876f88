"""A sign of life of long work."""

from __future__ import annotations

import logging
import time

__all__ = ["Progress"]

_EVERY = 60.0  # seconds between two lines

_log = logging.getLogger("study.run")


class Progress:
    """Log a line a minute: how much is done, and how long the rest takes at this pace.

    Args:
        total: number of units.
        unit: a word for one of them.
    """

    def __init__(self, total: int, unit: str) -> None:
        self.total, self.unit = total, unit
        self.first: int | None = None
        self.started = self.said = time.monotonic()

    def __call__(self, done: int) -> None:
        """Say so many units are done; the first call may be in the middle, of a training that goes on."""
        now = time.monotonic()
        if self.first is None:
            self.first, self.started = done, now
        if now - self.said < _EVERY or done == self.first:
            return
        self.said = now
        minutes = (now - self.started) / (done - self.first) * (self.total - done) / 60
        _log.info("%s %d of %d, about %.3g minutes left", self.unit, done, self.total, minutes)
