"""A stack of perceptrons whose last layer is what margin losses need: without bias, or of cosines."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib.models.perceptron import StackedMLP
from gdlib.models.runs import RunModel

__all__ = ["HEADS", "HeadedMLP"]

HEADS = ("linear", "cosine")


class HeadedMLP(RunModel):
    r"""R multilayer perceptrons with a last layer that has no bias.

    With ``head="linear"`` the logits are :math:`w_i^T h`, with ``"cosine"`` they are :math:`\cos\theta_i = w_i^T h / (\lVert w_i \rVert
    \lVert h \rVert)`, where h are the features of a sample. Features of length 0 have the cosine 0 to everything. Seeds and options are
    those of :class:`gdlib.models.StackedMLP`, and give the same first weights.

    Args:
        sizes: number of inputs, of units in each hidden layer, and of classes.
        seeds: one seed for the initialisation of each run.
        head: ``"linear"`` or ``"cosine"``.
        with_features: append the features to the output, for a loss that looks at both: ``[R, N, C + D]``.
        activation: as there.
        initialization: as there.
        linear_features: as there.

    Raises:
        ValueError: for a head that does not exist, and for whatever StackedMLP refuses.

    Example:
        >>> model = HeadedMLP([4, 16, 16, 3], seeds=[0, 1], head="cosine")
        >>> output = model(torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(0)))
        >>> output.shape, bool((output.abs() <= 1).all())
        (torch.Size([2, 5, 3]), True)

    References:
        *ArcGrad*, eq. 4 (no bias) and 7 (cosines).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        *,
        head: str = "linear",
        with_features: bool = False,
        activation: str = "relu",
        initialization: str = "pytorch",
        linear_features: bool = False,
    ) -> None:
        super().__init__()
        if head not in HEADS:
            raise ValueError(f"unknown head {head!r}; valid: {', '.join(HEADS)}")
        options = {"activation": activation, "initialization": initialization, "linear_features": linear_features}
        self.layers = StackedMLP(sizes, seeds, **options)  # type: ignore[arg-type]
        self.layers.biases = nn.ParameterList(list(self.layers.biases)[:-1])
        self.runs = self.layers.runs
        self.head = head
        self.with_features = with_features

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits or cosines ``[R, N, C]`` of inputs ``[S, N, D]`` (S divides R), with the features behind them if asked for."""
        features, weight = self.features(inputs), self.layers.weights[-1]  # (R, N, in), (R, in, C)
        if self.head == "cosine":
            output = torch.bmm(F.normalize(features, dim=2), F.normalize(weight, dim=1))
        else:
            output = torch.bmm(features, weight)
        return torch.cat([output, features], 2) if self.with_features else output

    def features(self, inputs: Tensor) -> Tensor:
        """The inputs of the last layer, ``[R, N, D]``."""
        return self.layers.features(inputs)

    def clip_gradients(self, max_norm: float) -> Tensor:
        """Scale the gradients of each run to a norm of at most ``max_norm``; return the R norms from before."""
        return self.layers.clip_gradients(max_norm)
