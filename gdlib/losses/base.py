"""What the modules of the family share: the options of a cross-entropy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from gdlib.functional import Reduction


class Options(nn.Module, ABC):
    """Keeps ``weight``, ``ignore_index``, ``reduction`` and ``label_smoothing``, and the hyperparameters of the loss; abstract.

    A hyperparameter is a number, a tensor, or an :class:`torch.nn.Parameter`, which is learnt with the model. It may be set between steps.
    """

    weight: Tensor | None
    smooths = True
    """Whether the loss takes ``label_smoothing``."""

    def __init__(
        self,
        hyperparameters: dict[str, Any],
        weight: Tensor | None,
        ignore_index: int,
        reduction: Reduction,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.names = tuple(hyperparameters)
        for name, value in hyperparameters.items():
            setattr(self, name, value)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction
        self.label_smoothing = label_smoothing

    def keywords(self) -> dict[str, Any]:
        """The hyperparameters and the options as keyword arguments of the function."""
        options: dict[str, Any] = {name: getattr(self, name) for name in self.names}
        options |= {"weight": self.weight, "ignore_index": self.ignore_index, "reduction": self.reduction}
        return options | ({"label_smoothing": self.label_smoothing} if self.smooths else {})

    @abstractmethod
    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""

    def extra_repr(self) -> str:
        """The hyperparameters that shape the loss."""
        return ", ".join([*(f"{name}={getattr(self, name)!r}" for name in self.names), f"reduction={self.reduction!r}"])
