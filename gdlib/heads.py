r"""Layers that some losses need before them: cosines, norms, class centres, Gaussians.

Class vectors ``[C, D]`` start uniform in :math:`\pm 1/\sqrt D`, like those of
:class:`torch.nn.Linear`. Results have the type of the features, or float32 under autocast; cosines
are computed in at least float32. The results of :class:`GaussianMixtureHead` have the wider of the
types of features and means.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gdlib.functional._arguments import (
    FLOATING,
    check_boolean,
    check_number,
    check_whole,
    compute_in,
    computes_again,
    extremes,
    readable,
    update_state,
    without_autocast,
)
from gdlib.functional.distance import center_update

__all__ = ["ClassCenters", "CosineLinear", "GaussianMixtureHead", "NormedLinear", "cosines"]

_SMALLEST_NORM = 1e-12


def cosines(features: Tensor, weight: Tensor) -> Tensor:
    r"""Compute the cosines of the angles between features and class vectors.

    .. math:: \cos\theta_{n,c} = \frac{h_n^T w_c}{\lVert h_n \rVert\, \lVert w_c \rVert}

    A vector of length 0 has the cosine 0 with every other vector, and gradients of the size that it
    would have without normalisation; so has one shorter than 1e-12. In float32 a length above 1e19
    has a square that overflows, and the cosine is 0.

    Args:
        features: ``[..., N, D]``; leading dimensions are runs.
        weight: class vectors as columns, ``[..., D, C]``.

    Returns:
        Cosines ``[..., N, C]``; rounding may put them outside [-1, 1] by about 1e-7.

    Raises:
        ValueError: for features or class vectors that are not a floating tensor.

    Example:
        >>> cosines(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        tensor([[0.6000, 0.8000]])

    References:
        *ArcGrad*, section II C.
    """
    for name, vectors in (("features", features), ("weight", weight)):
        _check_vectors(name, vectors)
    values, result_dtype = compute_in(features)
    unit = _unit(compute_in(weight)[0], -2)
    directions = _unit(values, -1)
    return without_autocast(lambda rows: rows @ unit, directions, unit.dtype).to(result_dtype)


class _Head(nn.Module):
    def extra_repr(self) -> str:
        """Name the shapes of the parameters and buffers."""
        return ", ".join(f"{name}={list(value.shape)}" for name, value in self.state_dict().items())


class _ClassVectors(_Head):
    """Keep class vectors; abstract."""

    def __init__(self, in_features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(_initial_vectors(in_features, classes))


class CosineLinear(_ClassVectors):
    r"""Cosines between features and learnt class vectors: the last layer for the losses on angles.

    There is no bias.

    Args:
        in_features: D.
        classes: C.

    Shape:
        ``[..., N, D]`` to ``[..., N, C]``.

    Example:
        >>> CosineLinear(4, 3)(torch.zeros(5, 4)).shape
        torch.Size([5, 3])

    References:
        *ArcGrad*, section II C.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Compute the cosines."""
        return cosines(features, self.weight.T)


class NormedLinear(_ClassVectors):
    r"""Logits :math:`w_c^T h` without bias, and the products of the norms.

    They are for :func:`gdlib.functional.l_softmax_cross_entropy`. Shapes are those of
    :class:`CosineLinear`, but with two outputs.

    Args:
        in_features: D.
        classes: C.

    Example:
        >>> logits, norms = NormedLinear(4, 3)(torch.ones(5, 4))
        >>> bool((logits.abs() <= norms * 1.00001).all())
        True
    """

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Compute logits and norms, ``[..., N, C]`` each."""
        _check_vectors("features", features)
        values, result_dtype = compute_in(features)
        weight = compute_in(self.weight.T)[0]
        logits, norms = without_autocast(
            lambda hidden: (hidden @ weight, _norm(hidden, -1) * _norm(weight, -2)),
            values,
            weight.dtype,
        )
        return logits.to(result_dtype), norms.to(result_dtype)


class ClassCenters(_Head):
    r"""One point for each class, for :func:`gdlib.functional.center_loss`.

    The centres start at 0. With a ``rate`` :math:`\alpha` they are a buffer that :meth:`update`
    moves, in training only, each towards the features of its class:

    .. math:: c_j - \alpha \frac{\sum_n [y_n = j] (c_j - h_n)}{1 + \sum_n [y_n = j]}

    Without a rate they are a parameter. An update sees only the batch of its own process: when
    several processes train together (``DistributedDataParallel``), give ``rate=None``.

    Args:
        in_features: D.
        classes: C.
        rate: :math:`\alpha` in [0, 1], or None; the paper's is 0.5.
        runs: R for a stack, None for one run.

    Shape:
        ``centers`` is ``[C, D]`` or ``[R, C, D]``.

    Example:
        >>> head = ClassCenters(in_features=1, classes=2, rate=1.0)
        >>> head.update(torch.tensor([[4.0]]), torch.tensor([1]))
        >>> head.centers.tolist()
        [[0.0], [2.0]]

    References:
        *A Discriminative Feature Learning Approach for Deep Face Recognition* (Wen et al., ECCV
        2016), eq. 4 and algorithm 1.
    """

    centers: Tensor

    def __init__(
        self, in_features: int, classes: int, *, rate: float | None = 0.5, runs: int | None = None
    ) -> None:
        super().__init__()
        _check_sizes(in_features, classes)
        if rate is not None:
            check_number("rate", rate, "in [0, 1]")
        stack = () if runs is None else (check_whole("runs", runs, 1),)
        start = torch.zeros(*stack, classes, in_features)
        self.rate = rate
        if rate is None:
            self.centers = nn.Parameter(start)
        else:
            self.register_buffer("centers", start)

    def update(self, features: Tensor, target: Tensor, *, ignore_index: int = -100) -> None:
        """Update the centres from one batch.

        Nothing happens in evaluation mode, where the optimiser moves them, or while activation
        checkpointing recomputes the batch.
        """
        if self.training and self.rate is not None and not computes_again():
            update_state(
                self.centers,
                center_update(features, target, self.centers, self.rate, ignore_index=ignore_index),
                owner="ClassCenters",
                instead="give a stack of R runs as [R, N, D] to ClassCenters(..., runs=R)",
            )


class GaussianMixtureHead(_Head):
    r"""Distances from a Gaussian for each class.

    They are for :func:`gdlib.functional.gaussian_mixture_cross_entropy`: :math:`d_c = \tfrac12
    \sum_k (h_k - \mu_{c,k})^2 / \sigma_{c,k}^2` and :math:`\delta_c = \sum_k \log \sigma_{c,k}`.
    The logits of the classifier are :math:`-d_c - \delta_c`. An intermediate array has the shape
    ``[..., N, C, D]``.

    Args:
        in_features: D.
        classes: C.
        diagonal: learn a variance, initially 1, for each class and feature; otherwise all are 1.

    Shape:
        Means ``[C, D]``. Features ``[..., N, D]`` to :math:`d` ``[..., N, C]`` and
        :math:`\delta` ``[..., 1, C]``.

    Example:
        >>> distance, half_log_determinant = GaussianMixtureHead(4, 3)(torch.zeros(5, 4))
        >>> distance.shape, half_log_determinant
        (torch.Size([5, 3]), tensor([[0., 0., 0.]]))
    """

    def __init__(self, in_features: int, classes: int, *, diagonal: bool = False) -> None:
        super().__init__()
        check_boolean("diagonal", diagonal)
        means = _initial_vectors(in_features, classes)
        self.means = nn.Parameter(means)
        self.log_deviation = nn.Parameter(torch.zeros_like(means)) if diagonal else None

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Compute half the squared distances, and half the log-determinants."""
        if not isinstance(features, Tensor):
            raise ValueError(f"features must be a tensor; got {type(features).__name__}")
        if not features.is_floating_point() or features.shape[-1:] != self.means.shape[-1:]:
            raise ValueError(
                f"features must be floating vectors with {self.means.shape[-1]} numbers, as the "
                f"means have; got {features.dtype} of shape {list(features.shape)}"
            )
        gaps = features.unsqueeze(-2) - self.means.unsqueeze(-3)  # (..., N, C, D)
        if self.log_deviation is None:
            unit = self.means.new_zeros(self.means.shape[:-1]).unsqueeze(-2)
            return gaps.square().sum(-1) / 2, unit
        gaps = gaps * torch.exp(-self.log_deviation).unsqueeze(-3)
        return gaps.square().sum(-1) / 2, self.log_deviation.sum(-1).unsqueeze(-2)


def _check_sizes(features: int, classes: int) -> None:
    """Refuse numbers of features or classes that make no layer."""
    check_whole("the number of features", features, 1)
    check_whole("the number of classes", classes, 1)


def _check_vectors(name: str, vectors: object) -> None:
    if not isinstance(vectors, Tensor) or vectors.dtype not in FLOATING:
        given = vectors.dtype if isinstance(vectors, Tensor) else type(vectors).__name__
        raise ValueError(f"{name} must be a floating tensor of vectors; got {given}")


def _norm(vectors: Tensor, dim: int, least: float = 0.0) -> Tensor:
    """Compute lengths; one not above ``least`` becomes 0 and has no derivatives.

    PyTorch's second derivative of a length of 0 is NaN.
    """
    length = torch.linalg.vector_norm(vectors, dim=dim, keepdim=True)
    if readable(length) and extremes(length)[0] > least:
        return length
    short = length.detach() <= least
    length = torch.linalg.vector_norm(torch.where(short, 1.0, vectors), dim=dim, keepdim=True)
    return torch.where(short, 0.0, length)


def _unit(vectors: Tensor, dim: int) -> Tensor:
    length = _norm(vectors, dim, _SMALLEST_NORM)
    return vectors / torch.where(length > 0.0, length, 1.0)


def _initial_vectors(features: int, classes: int) -> Tensor:
    """Draw ``[C, D]`` from the global generator."""
    _check_sizes(features, classes)
    bound = 1 / math.sqrt(features)
    return torch.empty(classes, features).uniform_(-bound, bound)
