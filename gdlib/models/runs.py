"""What every stack of runs can do, and a stack of modules of any kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

__all__ = ["ModuleStack", "RunModel"]


class RunModel(nn.Module, ABC):
    """A network with a run axis: what :mod:`gdlib.train` needs to know about it.

    Attributes:
        runs: R, the number of runs.
    """

    runs: int

    @abstractmethod
    def features(self, inputs: Tensor) -> Tensor:
        """The inputs of the last layer, ``[R, N, D]``."""

    @abstractmethod
    def clip_gradients(self, max_norm: float) -> Tensor:
        """Scale the gradients of each run to a Euclidean norm of at most ``max_norm``; return the R norms from before.

        As :func:`torch.nn.utils.clip_grad_norm_`, run by run.
        """


class ModuleStack(RunModel):
    """R modules of any kind, side by side behind the run axis.

    The modules compute one after the other, each on its own memory, so that a run in a stack computes what it computes alone. Nothing waits
    for a GPU: no number is read on the host, neither on the way forward nor in :meth:`clip_gradients`.

    Args:
        modules: one module for each run, each mapping ``[N, ...]`` to ``[N, C]``.

    Example:
        >>> stack = ModuleStack([nn.Linear(4, 3), nn.Linear(4, 3)])
        >>> stack(torch.zeros(1, 5, 4)).shape
        torch.Size([2, 5, 3])
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        self.copies = nn.ModuleList(modules)
        if not self.copies:
            raise ValueError("modules is empty: give one module for each run")
        self.runs = len(self.copies)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits ``[R, N, C]`` of inputs ``[S, N, ...]`` (S divides R)."""
        return torch.stack([copy(batch) for copy, batch in self._with_batches(inputs)])

    def features(self, inputs: Tensor) -> Tensor:
        """The inputs of the last layer, from modules that have a method ``features``."""
        if not all(hasattr(copy, "features") for copy in self.copies):
            raise TypeError(f"{type(self.copies[0]).__name__} does not expose the inputs of its last layer: give it a method `features`")
        return torch.stack([cast(Any, copy).features(batch) for copy, batch in self._with_batches(inputs)])

    def _with_batches(self, inputs: Tensor) -> list[tuple[nn.Module, Tensor]]:
        groups = inputs.shape[0]
        if self.runs % groups:
            raise ValueError(f"inputs hold {groups} batches, which do not divide {self.runs} runs")
        shared = self.runs // groups
        return [(copy, inputs[run // shared]) for run, copy in enumerate(self.copies)]

    def clip_gradients(self, max_norm: float) -> Tensor:
        """Scale the gradients of each run to a norm of at most ``max_norm``; return the R norms from before.

        A norm that is not finite is no error: it makes that run's gradients useless and leaves the others alone.
        """
        return torch.stack([nn.utils.clip_grad_norm_(copy.parameters(), max_norm) for copy in self.copies])
