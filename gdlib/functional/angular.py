"""Losses on the angles between features and class vectors: ArcFace and CosFace.

They take the cosines; a scale makes logits of them. Margins and angles are in radians.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gdlib.functional.options import At, Parameters, Reduction, nonnegative, positive, softplus, target_logit_loss

__all__ = [
    "arccos",
    "arcface_cross_entropy",
    "cosface_cross_entropy",
]


def arccos(cosine: Tensor) -> Tensor:
    r"""The angle of a cosine, in radians, with a finite gradient everywhere.

    The value is that of :func:`torch.arccos`, and 0 or π for what rounding has put outside [-1, 1]. The gradient is
    :math:`-1/\sqrt{1 - x^2}` up to the type's epsilon away from ±1, and 0 nearer to ±1 than that.

    Args:
        cosine: values in [-1, 1], of any shape and floating type; float16 and bfloat16 are computed in float32.

    Returns:
        Angles in [0, π].

    Example:
        >>> import torch
        >>> cosine = torch.tensor([1.0, 0.0, -1.0], requires_grad=True)
        >>> angle = arccos(cosine)
        >>> angle.detach()
        tensor([0.0000, 1.5708, 3.1416])
        >>> torch.autograd.grad(angle.sum(), cosine)
        (tensor([ 0., -1.,  0.]),)
    """
    if cosine.dtype in (torch.float16, torch.bfloat16):
        return arccos(cosine.float()).to(cosine.dtype)
    edge = 1 - torch.finfo(cosine.dtype).eps
    angle = torch.arccos(cosine.clamp(-edge, edge))
    exact = torch.arccos(cosine.detach().clamp(-1, 1))
    return angle + (exact - angle.detach())


def arcface_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor = 64.0,
    margin: float | Tensor = 0.5,
    *,
    monotone: bool = True,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""ArcFace: cross-entropy of scaled cosines after a margin has been added to the angle of the true class.

    .. math::

        J = -\log \frac{e^{s\, \psi(\theta_c)}}{e^{s\, \psi(\theta_c)} + \sum_{i \neq c} e^{s \cos \theta_i}},
        \qquad \psi(\theta) = \cos(\theta + m)

    ``margin=0`` is the cross-entropy of ``scale * cosine``. Beyond :math:`\theta = \pi - m` the printed :math:`\psi` rises again. With
    ``monotone=True`` it is :math:`\cos\theta - m \sin m` there, as in the public implementations ("easy margin" off); it falls
    everywhere, with a jump at the border. ``monotone=False`` is the formula as printed.

    Args:
        cosine: :math:`\cos\theta`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``; :class:`gdlib.heads.CosineLinear` makes it.
        target: class indices of the shape of ``cosine`` without its class dimension, or class probabilities of the shape of ``cosine``.
        scale: :math:`s > 0`, a number or a tensor that broadcasts to the class indices: one value for each sample.
        margin: :math:`m \ge 0` in radians, as ``scale``. The original has s = 64, m = 0.5; ArcGrad's comparison s = 20, m = 0.1.
        monotone: keep the true logit falling up to :math:`\theta = \pi`.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes: :math:`\sum_c t_c J_c`, where :math:`J_c`
            has the margin at class c.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a scale that is not positive, a negative margin, and for whatever :func:`gdlib.functional.gd_cross_entropy` refuses.

    Example:
        >>> import math, torch
        >>> cosine, labels = torch.tensor([[0.5, 0.0]]), torch.tensor([0])                # the true class at 60 degrees
        >>> loss = arcface_cross_entropy(cosine, labels, scale=2.0, margin=math.pi / 6)   # counts as 90 degrees: two equal logits
        >>> round(loss.item(), 4)
        0.6931

    References:
        *ArcFace* (Deng et al., CVPR 2019), eq. 3; *ArcGrad*, eq. 8.
    """

    def true_logit(values: Tensor, at: At, given: Parameters) -> Tensor:
        of_true_class, margin = at(values), given["margin"]
        angle = arccos(of_true_class)
        moved = torch.cos(angle + margin)
        if monotone:
            sine = torch.sin(margin) if isinstance(margin, Tensor) else math.sin(margin)
            moved = torch.where(angle + margin <= math.pi, moved, of_true_class - margin * sine)
        return given["scale"] * moved

    return target_logit_loss(
        cosine,
        target,
        parameters={"scale": (scale, positive), "margin": (margin, nonnegative)},
        logits=scaled,
        true_logit=true_logit,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def cosface_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor = 64.0,
    margin: float | Tensor = 0.35,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""CosFace, or AM-Softmax: cross-entropy of scaled cosines after a margin has been taken from the cosine of the true class.

    .. math:: J = -\log \frac{e^{s (\cos\theta_c - m)}}{e^{s (\cos\theta_c - m)} + \sum_{i \neq c} e^{s \cos \theta_i}}

    It is :func:`gdlib.functional.soft_margin_cross_entropy` of ``scale * cosine`` with the margin :math:`s m`, and so gradient decay with
    :math:`\beta = e^{-s m}`. ``margin=0`` is the cross-entropy of ``scale * cosine``.

    Args:
        cosine: as in :func:`gdlib.functional.arcface_cross_entropy`.
        target: class indices, or class probabilities of the shape of ``cosine``.
        scale: :math:`s > 0`, a number or a tensor that broadcasts to the class indices.
        margin: :math:`m \ge 0`, in units of the cosine, as ``scale``. The defaults are CosFace's; AM-Softmax has s = 30, m = 0.35.
        weight: as in :func:`gdlib.functional.arcface_cross_entropy`.
        ignore_index: as in :func:`gdlib.functional.arcface_cross_entropy`.
        reduction: as in :func:`gdlib.functional.arcface_cross_entropy`.
        label_smoothing: as in :func:`gdlib.functional.arcface_cross_entropy`.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a scale that is not positive, a negative margin, and for whatever :func:`gdlib.functional.gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> cosine, labels = torch.tensor([[0.5, 0.0]]), torch.tensor([0])
        >>> round(cosface_cross_entropy(cosine, labels, scale=2.0, margin=0.5).item(), 4)          # 0.5 - 0.5: two equal logits
        0.6931

    References:
        *CosFace* (Wang et al., CVPR 2018), eq. 4; *Additive Margin Softmax for Face Verification* (Wang et al., 2018).
    """
    return target_logit_loss(
        cosine,
        target,
        parameters={"scale": (scale, positive), "margin": (margin, nonnegative)},
        logits=scaled,
        penalty=lambda x, given: softplus(x + given["scale"] * given["margin"]),
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def scaled(values: Tensor, given: Parameters) -> Tensor:
    """Logits of cosines."""
    return given["scale"] * values
