"""The β of every step and every run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gdlib.schedules import Constant, LinearWarmup
from gdlib.train.objective import Objective

Beta = float | Callable[[int], float]
"""A number, or a schedule, which maps an optimiser step, counted from 0, to a number."""


class Betas:
    """The β of each step of R runs: from numbers, from schedules, or from the loss itself.

    Args:
        betas: one for each run, one for all, or None for the loss's own.
        objective: the loss of each run.
        runs: R.
        dtype: type of the β tensors.

    Attributes:
        known: whether the loss has a β to record in the history.
    """

    def __init__(
        self,
        betas: Beta | Sequence[Beta] | Tensor | None,
        objective: Objective,
        runs: int,
        dtype: torch.dtype,
    ) -> None:
        self.objective, self.runs, self.dtype = objective, runs, dtype
        self.each = None if betas is None else _of_runs(betas, runs)
        self.known = self.each is not None or objective.betas(runs) is not None

    def of_steps(self, steps: Sequence[int]) -> Tensor:
        """Return the β of these steps for each run, ``[steps, R]``; 1 for a loss without a β."""
        if self.each is None:
            now = self.objective.betas(self.runs) or [1.0] * self.runs
            return torch.tensor(now, dtype=self.dtype, device="cpu").expand(len(steps), -1)
        table = np.empty((len(steps), self.runs))
        for run, one in enumerate(self.each):
            if not callable(one):
                table[:, run] = one
                continue
            values = [one(step) for step in steps]
            try:
                table[:, run] = [float(value) for value in values]
            except (TypeError, ValueError) as error:
                raise TypeError(
                    f"betas[{run}] must return a number in every step; for step {steps[0]} it "
                    f"returned {values[0]!r}"
                ) from error
        return torch.from_numpy(table).to(self.dtype)

    def described(self) -> list[str]:
        """Name each β for a checkpoint to compare; those of gdlib.schedules with their numbers."""
        described = []
        for one in self.each or ():
            if isinstance(one, (Constant, LinearWarmup)):
                numbers = ", ".join(repr(float(number)) for number in dataclasses.astuple(one))
                described.append(f"{type(one).__name__}({numbers})")
            elif callable(one):
                described.append(getattr(one, "__name__", type(one).__name__))
            else:
                described.append(repr(one))
        return described


def _of_runs(betas: Any, runs: int) -> list[Any]:
    """Return a number or a function for each run."""
    alone = callable(betas) or _is_number(betas)
    try:
        each = [betas] * runs if alone else list(betas)
    except TypeError:
        each = []
    if len(each) != runs:
        raise ValueError(
            f"betas must hold one β for each of the {runs} runs, a number or a function of the "
            f"step, or be one for all; got {betas!r}"
        )
    for one in each:
        if not callable(one) and not _is_number(one):
            raise TypeError(f"betas must hold numbers or functions of the step; got {one!r}")
    return [one if callable(one) else float(one) for one in each]


def _is_number(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.ndim == 0
    return isinstance(value, Real) and not isinstance(value, bool)
