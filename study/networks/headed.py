"""Perceptrons with the last layers that margin losses need, and super-symmetric class vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gdlib import heads
from gdlib.models import RunModel, StackedMLP

MLP_HEADS = ("linear", "cosine")


class HeadedMLP(RunModel):
    r"""R multilayer perceptrons that return cosines, or features behind their outputs.

    With ``head="linear"`` the logits are :math:`w_i^T h`, with ``"cosine"`` they are
    :math:`\cos\theta_i = w_i^T h / (\lVert w_i \rVert \lVert h \rVert)`, where h are the features
    of a sample. Features of length 0 have the cosine 0 to everything. The last layer has no bias.

    Args:
        sizes: number of inputs, of units in each hidden layer, and of classes.
        seeds: one seed for each run; the same seeds and options give the same first weights.
        head: ``"linear"`` or ``"cosine"``.
        with_features: append the features to the output, for a loss that looks at both.
        form: further arguments of :class:`gdlib.models.StackedMLP`.

    Raises:
        ValueError: for an unknown head, and as StackedMLP.

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
        **form: Any,
    ) -> None:
        super().__init__()
        if head not in MLP_HEADS:
            raise ValueError(
                f"unknown head {head!r} for perceptrons; valid: {', '.join(MLP_HEADS)}"
            )
        self.layers = StackedMLP(sizes, seeds, bias=False, **form)
        self.runs = self.layers.runs
        self.head, self.with_features = head, with_features

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute logits or cosines ``[R, N, C]`` of inputs ``[S, N, D]`` (S divides R).

        The features stand behind them if asked for.
        """
        features = self.features(inputs)  # (R, N, in)
        if self.head == "cosine":
            output = heads.cosines(features, self.layers.weights[-1])
        else:
            output = self.layers.logits(features)
        return torch.cat([output, features], 2) if self.with_features else output

    def features(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the last layer, ``[R, N, D]``."""
        return self.layers.features(inputs)


def super_symmetry_penalty(weight: Tensor) -> Tensor:
    r"""Measure how far the class vectors of a linear classifier are from super-symmetry.

    .. math::

        \frac{1}{C^2} \sum_{c, c'} \bigl(w_c^T w_{c'} - v\, M_{c c'}\bigr)^2, \qquad M_{c c} = 1,
        \quad M_{c c'} = -\frac{1}{C - 1}

    with :math:`v = \frac1C \sum_c \lVert w_c \rVert^2`. It is 0 exactly for :math:`w_c^T w_c = v`
    and :math:`w_c^T w_{c'} = -v/(C - 1)`: vectors of one length that point to the corners of a
    simplex. The form of LM's constraint is in a supplement that was not at hand; this is a penalty
    with the same zeros, and :func:`super_symmetric_projection` imposes it strictly.

    Args:
        weight: class vectors ``[..., C, D]``, C >= 2; leading dimensions are runs.

    Returns:
        The penalty, of shape ``[...]``.

    Raises:
        ValueError: for fewer than two classes.

    Example:
        >>> import torch
        >>> round(super_symmetry_penalty(torch.tensor([[1.0], [-1.0]])).item(), 4)
        0.0
        >>> super_symmetry_penalty(torch.eye(2)).item()
        0.5

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, section 3 and Table 2.
    """
    classes = _classes(weight)
    gram = weight @ weight.mT
    mean_square = gram.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    simplex = (classes * torch.eye(classes, dtype=gram.dtype, device=gram.device) - 1) / (
        classes - 1
    )
    return (gram - mean_square * simplex).square().mean((-2, -1))


@torch.no_grad()
def super_symmetric_projection(weight: Tensor) -> Tensor:
    r"""Make class vectors super-symmetric, near given ones and of the same mean squared length.

    The nearest, among those with that length, to the given vectors minus their mean: their singular
    values are made equal. For projected gradient descent:
    ``layer.weight.data.copy_(super_symmetric_projection(layer.weight))`` after each step.

    Args:
        weight: class vectors ``[..., C, D]`` with D >= C - 1; leading dimensions are runs.

    Returns:
        Vectors of the same shape whose :func:`super_symmetry_penalty` is 0 to rounding, if the
        given minus their mean have the rank C - 1.

    Raises:
        ValueError: for fewer than two classes, for fewer than C - 1 features, where no
            super-symmetric vectors exist, and for vectors that are not finite.

    Example:
        >>> import torch
        >>> projected = super_symmetric_projection(torch.eye(3))
        >>> simplex = 1.5 * torch.eye(3) - 0.5  # 1 on the diagonal, -1/2 elsewhere
        >>> torch.allclose(projected @ projected.T, simplex, atol=1e-6)
        True

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, section 3.
    """
    classes = _classes(weight)
    if weight.shape[-1] < classes - 1:
        raise ValueError(
            f"{classes} super-symmetric class vectors need at least {classes - 1} features; "
            f"got {weight.shape[-1]}"
        )
    if weight.is_cpu and not weight.isfinite().all():
        raise ValueError("class vectors must be finite to be projected; some are NaN or infinite")
    centred = weight - weight.mean(-2, keepdim=True)
    left, _, right = torch.linalg.svd(centred, full_matrices=False)
    left, right = left[..., : classes - 1], right[..., : classes - 1, :]
    mean_square = weight.square().sum((-2, -1)) / classes
    length = torch.sqrt(mean_square * classes / (classes - 1))[..., None, None]
    return length * (left @ right)


def _classes(weight: Tensor) -> int:
    if weight.ndim < 2 or weight.shape[-2] < 2:
        raise ValueError(
            "weight must hold at least two class vectors, [..., C, D]; got shape "
            f"{list(weight.shape)}"
        )
    return weight.shape[-2]
