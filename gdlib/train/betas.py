"""The β of every step and every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gdlib.schedules import ConfidenceFeedback, Constant, LinearWarmup
from gdlib.train.objective import Objective

BetaSchedule = Callable[[int], float | Sequence[float]] | Sequence[Callable[[int], float]]
"""Maps an optimiser step, counted from 0, to one β for all runs or to one for each; or a sequence
with a schedule for each run, which maps a step to its β."""


class Betas(Protocol):
    """The β of the steps of R runs.

    Attributes:
        known: whether the loss has a β, for the history to tell.
    """

    known: bool

    def of_steps(self, steps: Sequence[int]) -> Tensor:
        """Return the β of these steps for each run, ``[steps, R]``."""
        ...

    def follow(self, measured: Mapping[str, Tensor]) -> None:
        """Take note of what was measured after an epoch."""
        ...

    def described(self) -> list[str]:
        """Name the schedules, by which a checkpoint knows them."""
        ...


class OwnBetas:
    """The β that the loss has itself; of a loss that has none, 1, which nothing heeds.

    Args:
        objective: knows the loss.
        runs: R.
        dtype: of the tensors with β.
    """

    def __init__(self, objective: Objective, runs: int, dtype: torch.dtype) -> None:
        self.objective, self.runs, self.dtype = objective, runs, dtype
        self.known = objective.betas(runs) is not None

    def of_steps(self, steps: Sequence[int]) -> Tensor:
        """Return the β as it is now for each step and run, ``[steps, R]``."""
        now = self.objective.betas(self.runs) or [1.0] * self.runs
        return torch.tensor(now, dtype=self.dtype).expand(len(steps), -1)

    def follow(self, measured: Mapping[str, Tensor]) -> None:
        """Do nothing."""

    def described(self) -> list[str]:
        """Name nothing: there is no schedule."""
        return []


class ScheduledBetas:
    """Ask a schedule for the β of the steps, and tell it what is measured.

    A schedule with a method ``update`` follows what is measured, and so has a state. Its method
    ``reset`` is called at the start, so that a second training with the same schedule, or one that
    goes on from a checkpoint, does not begin with the state of the first.

    Args:
        schedule: for all runs, or a sequence with one for each.
        runs: R.
        dtype: of the tensors with β.

    Raises:
        ValueError: for a number of schedules that is not R, and for a schedule with a state that
            several runs would share.
        TypeError: for what is no function, and for a schedule that has ``update`` and no
            ``reset``.
    """

    known = True

    def __init__(self, schedule: BetaSchedule, runs: int, dtype: torch.dtype) -> None:
        self.runs, self.dtype = runs, dtype
        if not callable(schedule) and not (
            isinstance(schedule, Sequence) and all(callable(one) for one in schedule)
        ):
            raise TypeError(
                "schedule must be a function of the step, such as Constant(0.1), or a list with "
                f"one for each run; got {schedule!r}. A β that stays is that of the loss: "
                "GDCrossEntropyLoss(beta=0.1)"
            )
        self.of_all = schedule if callable(schedule) else None
        self.of_each = [] if callable(schedule) else list(schedule)
        if self.of_all is None and len(self.of_each) != runs:
            raise ValueError(
                f"schedule must hold one schedule for each of the {runs} runs; "
                f"got {len(self.of_each)}"
            )
        following: list[Any] = [
            one for one in [self.of_all, *self.of_each] if hasattr(one, "update")
        ]
        if len({id(one) for one in following}) < len(following):
            raise ValueError(
                "two runs share one schedule that follows what is measured; "
                "give every run a schedule of its own"
            )
        for one in following:
            if not hasattr(one, "reset"):
                raise TypeError(
                    f"{type(one).__name__} has a method update, so it needs a method reset, which "
                    "forgets what it has measured"
                )
            one.reset()

    def described(self) -> list[str]:
        """Name each schedule; those of :mod:`gdlib.schedules` with their numbers."""
        every = self.of_each if self.of_all is None else [self.of_all]
        pure = (Constant, LinearWarmup, ConfidenceFeedback)
        return [
            repr(one) if isinstance(one, pure) else getattr(one, "__name__", type(one).__name__)
            for one in every
        ]

    def of_steps(self, steps: Sequence[int]) -> Tensor:
        """Return the β of these steps for each run, ``[steps, R]``."""
        if self.of_all is not None:
            table = [self.of_all(step) for step in steps]
        else:
            table = [[of_run(step) for of_run in self.of_each] for step in steps]
        try:
            rows = np.array(table)  # several times faster than a list
        except ValueError as error:
            raise ValueError(
                "schedule must return a number in every step, or one β for each run in every step"
            ) from error
        if rows.shape[1:] not in ((), (self.runs,)):
            raise ValueError(
                f"schedule must return one β for each of the {self.runs} runs, or a number for "
                f"all; got shape {list(rows.shape[1:])}"
            )
        if rows.dtype.kind not in "fiu":
            raise TypeError(
                f"schedule must return numbers; for step {steps[0]} it returned {table[0]!r}"
            )
        values = torch.tensor(rows, dtype=self.dtype)
        return values.reshape(len(rows), -1).expand(-1, self.runs)

    def follow(self, measured: Mapping[str, Tensor]) -> None:
        """Hand on what was measured: all to a schedule of all runs, of each run to its own."""
        if self.of_all is not None and hasattr(self.of_all, "update"):
            self.of_all.update(measured)
        for run, one in enumerate(self.of_each):
            if hasattr(one, "update"):
                one.update(
                    {name: value[run] if value.ndim else value for name, value in measured.items()}
                )
