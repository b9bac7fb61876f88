"""Losses that multiply the angle of the true class: A-Softmax (SphereFace) and L-Softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gdlib.functional.angular import arccos, scaled
from gdlib.functional.options import At, Parameters, Reduction, nonnegative, target_logit_loss

__all__ = ["l_softmax_cross_entropy", "sphereface_cross_entropy"]


def sphereface_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor = 1.0,
    margin: int = 4,
    *,
    annealing: float = 0.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""A-Softmax (SphereFace): cross-entropy after the angle of the true class has been multiplied by a whole number.

    .. math::

        J = -\log \frac{e^{s\, \psi(\theta_c)}}{e^{s\, \psi(\theta_c)} + \sum_{i \neq c} e^{s \cos \theta_i}}, \qquad
        \psi(\theta) = (-1)^k \cos(m \theta) - 2k \quad \text{for } \theta \in \bigl[\tfrac{k\pi}{m}, \tfrac{(k+1)\pi}{m}\bigr]

    :math:`\psi` falls from 1 to :math:`1 - 2m` without a jump. In the original :math:`s` is the norm of the sample's features, which
    are not normalised: give ``features.norm(dim=1)``, and gradients flow into it. ``margin=1`` is the cross-entropy of ``scale * cosine``.

    Args:
        cosine: as in :func:`gdlib.functional.arcface_cross_entropy`.
        target: class indices, or class probabilities of the shape of ``cosine``.
        scale: :math:`s \ge 0`, a number or a tensor that broadcasts to the class indices.
        margin: :math:`m`, a whole number >= 1; the original's is 4.
        annealing: :math:`\lambda \ge 0`; the true logit is :math:`s (\lambda \cos\theta + \psi(\theta)) / (1 + \lambda)`. The original
            lets it fall during training, from 1000 or so to 5 or so; 0 is the loss as defined.
        weight: as in :func:`gdlib.functional.arcface_cross_entropy`.
        ignore_index: as in :func:`gdlib.functional.arcface_cross_entropy`.
        reduction: as in :func:`gdlib.functional.arcface_cross_entropy`.
        label_smoothing: as in :func:`gdlib.functional.arcface_cross_entropy`.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a margin that is not a whole number >= 1, a negative scale or annealing, and for whatever
            :func:`gdlib.functional.gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> cosine, labels = torch.tensor([[0.5, -1.0]]), torch.tensor([0])                    # 60 degrees; twice that is 120
        >>> loss = sphereface_cross_entropy(cosine, labels, scale=2.0, margin=2)               # cos 120 = -0.5: logits -1 and -2
        >>> round(loss.item(), 4)
        0.3133

    References:
        *SphereFace* (Liu et al., CVPR 2017); the annealing is that of *Large-Margin Softmax* (Liu et al., ICML 2016).
    """
    _check_multiple(margin, annealing)
    return target_logit_loss(
        cosine,
        target,
        parameters={"scale": (scale, nonnegative)},
        logits=scaled,
        true_logit=lambda values, at, given: given["scale"] * _annealed(at(values), margin, annealing),
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def l_softmax_cross_entropy(
    input: Tensor,
    target: Tensor,
    norms: Tensor,
    margin: int = 4,
    *,
    annealing: float = 0.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""L-Softmax: as A-Softmax, but with the norms of the class vectors kept.

    .. math::

        J = -\log \frac{e^{\lVert w_c \rVert \lVert h \rVert \psi(\theta_c)}}
          {e^{\lVert w_c \rVert \lVert h \rVert \psi(\theta_c)} + \sum_{i \neq c} e^{\lVert w_i \rVert \lVert h \rVert \cos \theta_i}}

    with :math:`\psi` of :func:`sphereface_cross_entropy` and :math:`z_i = w_i^T h = \lVert w_i \rVert \lVert h \rVert \cos \theta_i`.
    ``margin=1`` is the cross-entropy of ``input``.

    Args:
        input: logits :math:`w_i^T h` of a layer without bias, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities of the shape of ``input``.
        norms: :math:`\lVert w_i \rVert \lVert h \rVert`, of a shape that broadcasts to that of ``input``; :class:`gdlib.heads.NormedLinear`
            makes both. Where it is 0 the angle counts as a right one.
        margin: :math:`m`, a whole number >= 1.
        annealing: :math:`\lambda \ge 0`, as in :func:`sphereface_cross_entropy`.
        weight: as in :func:`gdlib.functional.arcface_cross_entropy`.
        ignore_index: as in :func:`gdlib.functional.arcface_cross_entropy`.
        reduction: as in :func:`gdlib.functional.arcface_cross_entropy`.
        label_smoothing: as in :func:`gdlib.functional.arcface_cross_entropy`.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a margin that is not a whole number >= 1, norms that do not broadcast, and for whatever
            :func:`gdlib.functional.gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> logits, norms, labels = torch.tensor([[1.0, -2.0]]), torch.tensor([[2.0, 2.0]]), torch.tensor([0])
        >>> round(l_softmax_cross_entropy(logits, labels, norms, margin=2).item(), 4)          # 60 degrees: logits -1 and -2
        0.3133

    References:
        *Large-Margin Softmax Loss for Convolutional Neural Networks* (Liu et al., ICML 2016), eq. 4-6; *Probability-Dependent Gradient
        Decay in Large Margin Softmax*, version 1, eq. 6, where :math:`\psi` is left open beyond the first interval.
    """
    _check_multiple(margin, annealing)
    if not isinstance(norms, Tensor) or not _broadcasts(norms, input):
        given = list(norms.shape) if isinstance(norms, Tensor) else type(norms).__name__
        raise ValueError(f"norms must be a tensor that broadcasts to input of shape {list(input.shape)}; got {given}")

    def true_logit(values: Tensor, at: At, given: Parameters) -> Tensor:
        length, logit = at(norms.to(values).expand(values.shape)), at(values)
        some = length > 0
        cosine = torch.where(some, logit / torch.where(some, length, 1.0), 0.0)
        return length * _annealed(cosine, margin, annealing)

    return target_logit_loss(
        input,
        target,
        parameters={},
        true_logit=true_logit,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _annealed(cosine: Tensor, multiple: int, annealing: float) -> Tensor:
    """ψ(θ), mixed with cos θ."""
    angle = arccos(cosine)
    interval = torch.floor(angle.detach() * (multiple / math.pi)).clamp(max=multiple - 1)
    falling = (1 - 2 * torch.remainder(interval, 2)) * torch.cos(multiple * angle) - 2 * interval
    return falling if annealing == 0 else (annealing * cosine + falling) / (1 + annealing)


def _check_multiple(margin: int, annealing: float) -> None:
    if isinstance(margin, bool) or not isinstance(margin, int) or margin < 1:
        raise ValueError(f"margin multiplies an angle here and must be a whole number >= 1; got {margin!r}")
    if not 0 <= annealing < math.inf:
        raise ValueError(f"annealing must be a finite number >= 0; got {annealing!r}")


def _broadcasts(value: Tensor, to: Tensor) -> bool:
    try:
        return torch.broadcast_shapes(value.shape, to.shape) == to.shape
    except RuntimeError:
        return False
