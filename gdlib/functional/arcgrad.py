"""ArcGrad: cross-entropy of scaled angles, and the scale that belongs to a gap."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gdlib.functional.angular import arccos
from gdlib.functional.options import Parameters, Reduction, positive, target_logit_loss

__all__ = ["arcgrad_cross_entropy", "arcgrad_gap", "arcgrad_scale"]


def arcgrad_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor | None = None,
    *,
    gap: float | Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""ArcGrad: cross-entropy of the negative scaled angles.

    .. math:: J = -\log \frac{e^{-s \theta_c}}{\sum_j e^{-s \theta_j}}

    There is no margin. For each gap :math:`\theta_j - \theta_c` one scale gives the largest gradient: :func:`arcgrad_scale`.

    Args:
        cosine: as in :func:`gdlib.functional.arcface_cross_entropy`.
        target: class indices, or class probabilities of the shape of ``cosine``.
        scale: :math:`s > 0` in 1/radian, a number or a tensor that broadcasts to the class indices. Table I has 30 and 5, CIFAR 10.
        gap: instead of a scale, the gap in radians that the scale is made from.
        weight: as in :func:`gdlib.functional.arcface_cross_entropy`.
        ignore_index: as in :func:`gdlib.functional.arcface_cross_entropy`.
        reduction: as in :func:`gdlib.functional.arcface_cross_entropy`.
        label_smoothing: as in :func:`gdlib.functional.arcface_cross_entropy`.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: unless exactly one of ``scale`` and ``gap`` is given, for values that are not positive, and for whatever
            :func:`gdlib.functional.gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> cosine, labels = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
        >>> round(arcgrad_cross_entropy(cosine, labels, scale=2.0).item(), 4)                  # log(1 + exp(-2 * pi / 2))
        0.0423

    References:
        *ArcGrad*, eq. 11 and 19.
    """
    if (scale is None) == (gap is None):
        raise ValueError("give either scale or gap, and not both")
    if scale is None:
        classes = cosine.shape[min(1, cosine.ndim - 1)] if isinstance(cosine, Tensor) and cosine.ndim else 2
        scale = arcgrad_scale(gap, classes)  # type: ignore[arg-type]
    return target_logit_loss(
        cosine,
        target,
        parameters={"scale": (scale, positive)},
        logits=_negative_angles,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def arcgrad_scale(gap: float | Tensor, classes: int) -> float | Tensor:
    r"""The scale that gives ArcGrad the largest gradient at a given gap.

    .. math:: s = \frac{1 + W\bigl((C - 1)/e\bigr)}{\tilde m}

    maximises :math:`s A / (1 + A)` over s, where :math:`A = (C - 1) e^{-s \tilde m}`. W is Lambert's function. The paper's eq. 16 and
    17 have the wrong sign in the exponent, and eq. 17 lacks the factor s; eq. 19 is right.

    Args:
        gap: :math:`\tilde m > 0`, mean of the smallest :math:`\theta_j - \theta_c` of each sample, in radians; a number or a tensor.
        classes: C >= 2.

    Returns:
        The scale in 1/radian, a number or a tensor as ``gap``.

    Raises:
        ValueError: for a gap that is not positive, and for fewer than two classes.

    Example:
        >>> import math
        >>> round(arcgrad_scale(math.radians(84), classes=3), 2), round(arcgrad_scale(math.radians(2.1), classes=3), 1)
        (1.0, 39.9)

    References:
        *ArcGrad*, eq. 13-19.
    """
    return _product(classes) / _positive_number_or_tensor("gap", gap)


def arcgrad_gap(scale: float | Tensor, classes: int) -> float | Tensor:
    r"""The gap in radians for which no other scale gives a larger gradient than this one; see :func:`arcgrad_scale`.

    Args:
        scale: s > 0 in 1/radian, a number or a tensor.
        classes: C >= 2.

    Returns:
        The gap, :math:`\bigl(1 + W((C - 1)/e)\bigr) / s`.

    Raises:
        ValueError: for a scale that is not positive, and for fewer than two classes.

    Example:
        >>> import math
        >>> [round(math.degrees(arcgrad_gap(scale, classes=3)), 1) for scale in (1, 40)]       # printed: 84 and 2 degrees
        [83.8, 2.1]

    References:
        *ArcGrad*, eq. 19 and figure 1.
    """
    return _product(classes) / _positive_number_or_tensor("scale", scale)


def _product(classes: int) -> float:
    """1 + W((C - 1)/e), the u > 1 with (u - 1) e^u = C - 1, by Newton's method on log(u - 1) + u."""
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 2:
        raise ValueError(f"classes must be a whole number >= 2; got {classes!r}")
    goal, w = math.log(classes - 1) - 1, 0.5  # w + log w = log((C - 1)/e)
    for _ in range(50):
        step = (w + math.log(w) - goal) / (1 + 1 / w)
        w = max(w - step, w / 10)
        if abs(step) <= 1e-15 * w:
            break
    return 1 + w


def _positive_number_or_tensor(name: str, value: float | Tensor) -> float | Tensor:
    return positive(name, value, value.shape if isinstance(value, Tensor) else torch.Size())


def _negative_angles(cosine: Tensor, given: Parameters) -> Tensor:
    """Make logits of cosines; a cosine of -inf masks its class."""
    return (-given["scale"] * arccos(cosine)).masked_fill(cosine == -math.inf, -math.inf)
