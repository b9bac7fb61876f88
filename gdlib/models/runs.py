"""What every stack of runs can do, and a stack of modules of any kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn


class RunModel(nn.Module, ABC):
    """A network with a run axis: what :mod:`gdlib.train` needs to know about it.

    Attributes:
        runs: R, the number of runs.
    """

    runs: int

    @abstractmethod
    def features(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the last layer, ``[R, N, D]``."""

    @abstractmethod
    def clip_gradients(self, max_norm: float) -> Tensor:
        """Scale the gradients of each run to a Euclidean norm of at most ``max_norm``.

        Returns:
            The R norms from before.
        """


class ModuleStack(RunModel):
    """R modules of any kind, side by side behind the run axis.

    The modules compute one after the other, so that a run in a stack computes what it computes
    alone. Nothing waits for a GPU. While a CUDA graph is recorded each module has a stream of its
    own, so that the replayed graph computes them side by side.

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

    def forward(self, inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Compute outputs ``[R, N, C]`` of inputs ``[S, N, ...]`` (S divides R).

        Of modules that return several tensors, such as cosines and features, each is stacked.
        """
        outputs = self._each(lambda copy, batch: copy(batch), inputs)
        if isinstance(outputs[0], Tensor):
            return torch.stack(outputs)
        if not isinstance(outputs[0], (tuple, list)):
            raise TypeError(
                "a module must return a tensor, or a tuple of them; got "
                f"{type(outputs[0]).__name__}"
            )
        return tuple(torch.stack(one) for one in zip(*outputs, strict=True))

    def features(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the last layer, from modules that have a method ``features``."""
        if not all(hasattr(copy, "features") for copy in self.copies):
            raise TypeError(
                f"{type(self.copies[0]).__name__} does not expose the inputs of its last layer: "
                "give it a method `features`"
            )
        return torch.stack(self._each(lambda copy, batch: cast(Any, copy).features(batch), inputs))

    def _each(self, function: Callable[[nn.Module, Tensor], Any], inputs: Tensor) -> list[Any]:
        """Call the function for each module with its batch."""
        groups = inputs.shape[0]
        if not groups or self.runs % groups:
            raise ValueError(f"inputs hold {groups} batches, which do not divide {self.runs} runs")
        shared = self.runs // groups
        pairs = [(copy, inputs[run // shared]) for run, copy in enumerate(self.copies)]
        if not (inputs.is_cuda and torch.cuda.is_current_stream_capturing()):
            return [function(*pair) for pair in pairs]
        here = torch.cuda.current_stream()
        streams = [torch.cuda.Stream() for _ in pairs]
        outputs = []
        for stream, pair in zip(streams, pairs, strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                outputs.append(function(*pair))
        for stream in streams:
            here.wait_stream(stream)
        return outputs

    def clip_gradients(self, max_norm: float) -> Tensor:
        """Scale the gradients of each run to a norm of at most ``max_norm``.

        A norm that is not finite makes that run's gradients useless and leaves the others alone.
        """
        return torch.stack(
            [nn.utils.clip_grad_norm_(copy.parameters(), max_norm) for copy in self.copies]
        )
