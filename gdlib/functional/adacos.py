"""AdaCos: cross-entropy of cosines under a scale that is computed instead of tuned."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gdlib.functional.angular import arccos
from gdlib.functional.options import Reduction, finite, target_logit_loss

__all__ = ["adacos_cross_entropy", "adacos_fixed_scale", "adacos_scale"]


def adacos_fixed_scale(classes: int) -> float:
    r"""The fixed scale of AdaCos, and where its dynamic scale starts: :math:`\sqrt 2 \log(C - 1)`.

    For two classes it is 0: every logit is 0, the loss is the constant log 2, and nothing is learnt. Give the losses a ``minimum_scale``
    to guard against it; ``adacos_fixed_scale(3)`` is the smallest published scale that learns.

    Args:
        classes: C >= 2.

    Raises:
        ValueError: for fewer than two classes.

    Example:
        >>> [round(adacos_fixed_scale(classes), 4) for classes in (2, 3, 10)]
        [0.0, 0.9803, 3.1073]

    References:
        *AdaCos* (Zhang et al., CVPR 2019), the fixed scale; *ArcGrad*, eq. 10, first line.
    """
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 2:
        raise ValueError(f"classes must be a whole number >= 2; got {classes!r}")
    return math.sqrt(2) * math.log(classes - 1)


@torch.no_grad()
def adacos_scale(
    cosine: Tensor, target: Tensor, scale: float | Tensor, *, ignore_index: int = -100, minimum_scale: float | None = None
) -> Tensor:
    r"""The next scale of dynamic AdaCos, from a batch and the scale before.

    .. math::

        s' = \frac{\log B}{\cos\bigl(\min(\pi/4,\, \theta_{\mathrm{med}})\bigr)}, \qquad
        B = \frac{1}{N} \sum_n \sum_{j \neq c_n} e^{s \cos \theta_{n,j}}

    :math:`\theta_{\mathrm{med}}` is the median of the angles :math:`\theta_{n, c_n}` to the true classes; of an even number the lower of
    the two in the middle, as :func:`torch.median` takes it. ArcGrad's eq. 10 writes :math:`\theta_{\mathrm{mod}}` for it. No gradient
    flows.

    Args:
        cosine: ``[N, C]``, or ``[R, N, C]`` for R runs, each with a scale of its own.
        target: class indices ``[N]`` or ``[R, N]``.
        scale: s, a number, or ``[R]``.
        ignore_index: class index whose samples count for nothing.
        minimum_scale: a lower bound that the paper does not have; None for none. Where the wrong cosines are negative, B falls below 1 and
            the published scale below 0, which would turn the loss around.

    Returns:
        The scale, of the shape ``[]`` or ``[R]``; where no sample counts, the scale before.

    Raises:
        ValueError: for shapes that do not fit.

    Example:
        >>> import torch
        >>> cosine = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        >>> round(adacos_scale(cosine, torch.tensor([0, 1]), scale=3.0).item(), 4)         # B = 2, the median angle is 0: log 2
        0.6931

    References:
        *AdaCos*, the dynamic scale; *ArcGrad*, eq. 10, second line.
    """
    if cosine.ndim not in (2, 3) or target.shape != cosine.shape[:-1] or target.is_floating_point():
        raise ValueError(
            f"expected cosines [N, C] or [R, N, C] with class indices [N] or [R, N]; got {list(cosine.shape)} and {list(target.shape)}"
        )
    cosine = cosine.to(torch.float32) if cosine.dtype in (torch.float16, torch.bfloat16) else cosine
    before = torch.as_tensor(scale, dtype=cosine.dtype, device=cosine.device)
    runs = cosine.shape[:-2]
    if before.ndim and before.shape != runs:
        raise ValueError(f"scale must be a number or have the shape {list(runs)}; got {list(before.shape)}")
    before = before.expand(runs)
    valid = target != ignore_index
    index = torch.where(valid, target, 0).long().unsqueeze(-1)
    powers = (before[..., None, None] * cosine).scatter(-1, index, -math.inf).masked_fill(~valid.unsqueeze(-1), -math.inf)
    counted = valid.sum(-1)
    log_mean = torch.logsumexp(powers.flatten(-2), -1) - torch.log(counted.to(cosine))
    angle = arccos(cosine.gather(-1, index).squeeze(-1)).masked_fill(~valid, math.nan)
    median = torch.nanmedian(angle, -1).values if angle.shape[-1] else before
    after = log_mean / torch.cos(median.clamp(max=math.pi / 4))
    if minimum_scale is not None:
        after = after.clamp(min=minimum_scale)
    return torch.where(counted > 0, after, before)


def adacos_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor | None = None,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""AdaCos: the cross-entropy of ``scale * cosine``, :math:`J = -\log \bigl(e^{s \cos\theta_c} / \sum_j e^{s \cos\theta_j}\bigr)`.

    Without a ``scale`` it is fixed AdaCos. For dynamic AdaCos give what :func:`adacos_scale` returned for the batch;
    :class:`gdlib.losses.AdaCosLoss` does both steps.

    Args:
        cosine: as in :func:`gdlib.functional.arcface_cross_entropy`.
        target: class indices, or class probabilities of the shape of ``cosine``.
        scale: :math:`s`, a number or a tensor that broadcasts to the class indices; None for :func:`adacos_fixed_scale`, which is 0
            for two classes.
        weight: as in :func:`gdlib.functional.arcface_cross_entropy`.
        ignore_index: as in :func:`gdlib.functional.arcface_cross_entropy`.
        reduction: as in :func:`gdlib.functional.arcface_cross_entropy`.
        label_smoothing: as in :func:`gdlib.functional.arcface_cross_entropy`.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a scale that is not finite, and for whatever :func:`gdlib.functional.gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> cosine, labels = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
        >>> round(adacos_cross_entropy(cosine, labels).item(), 4)                            # two classes: log 2 for every input
        0.6931
        >>> round(adacos_cross_entropy(cosine, labels, scale=2.0).item(), 4)                 # log(1 + exp(-2))
        0.1269

    References:
        *AdaCos* (Zhang et al., CVPR 2019); *ArcGrad*, eq. 7 with the scale of eq. 10.
    """
    if scale is None:
        classes = cosine.shape[min(1, cosine.ndim - 1)] if isinstance(cosine, Tensor) and cosine.ndim else 2
        scale = adacos_fixed_scale(max(2, classes))
    return target_logit_loss(
        cosine,
        target,
        parameters={"scale": (scale, finite)},
        logits=lambda values, given: given["scale"] * values,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
