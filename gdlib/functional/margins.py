"""Losses on logits that treat the true class apart: soft margin, the modified loss, hinge, focal."""

from __future__ import annotations

import torch
from torch import Tensor

from gdlib.functional.options import (
    Parameters,
    Reduction,
    check_logits,
    check_options,
    check_target,
    compute_in,
    finite,
    gather,
    nonnegative,
    over_classes,
    reduce_indices,
    softplus,
    target_logit_loss,
    valid_index,
)

__all__ = ["focal_cross_entropy", "modified_cross_entropy", "multi_class_hinge", "soft_margin_cross_entropy"]


def soft_margin_cross_entropy(
    input: Tensor,
    target: Tensor,
    margin: float | Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Soft-margin softmax (M-Softmax): cross-entropy after the true logit has been made smaller by a margin.

    .. math::

        J = -\log \frac{e^{z_c - m}}{e^{z_c - m} + \sum_{i \neq c} e^{z_i}}
          = \mathrm{softplus}\Bigl(\log \sum_{i \neq c} e^{z_i} - z_c + m\Bigr)

    It is :func:`gd_cross_entropy` with :math:`\beta = e^{-m}`, plus the constant :math:`m`: the gradients are the same. ``margin=0`` is the
    cross-entropy. For class probabilities, and for label smoothing, :math:`J = \sum_c t_c J_c`; :math:`J_c` has the margin at class c.

    Args:
        input: logits, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices of the shape of ``input`` without its class dimension, or class probabilities of the shape of ``input``.
        margin: :math:`m`, in nats; a number, or a tensor that broadcasts to the class indices: one value for each sample.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a margin that is not finite or does not broadcast, and for whatever :func:`gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> logits, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
        >>> round(soft_margin_cross_entropy(logits, labels, margin=0.5).item(), 4)        # log(1 + exp(0 - 2 + 0.5))
        0.2014

    References:
        *Ensemble Soft-Margin Softmax Loss for Image Classification* (Wang et al., IJCAI 2018); method "M-Soft" of *ArcGrad*, section IV,
        where m = 0.5.
    """
    return target_logit_loss(
        input,
        target,
        parameters={"margin": (margin, finite)},
        penalty=lambda x, given: softplus(x + given["margin"]),
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def modified_cross_entropy(
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""The modified loss: cross-entropy with the hard bias 1 of the hinge loss added to its own.

    .. math::

        J = \mathrm{softplus}\Bigl(\log \sum_{i \neq c} e^{z_i} - z_c + 1\Bigr)
          = -\log \frac{e^{z_c - 1}}{e^{z_c - 1} + \sum_{i \neq c} e^{z_i}}

    :func:`soft_margin_cross_entropy` with ``margin=1``, and so gradient decay with :math:`\beta = 1/e`.

    Args:
        input: logits, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities of the shape of ``input``.
        weight: as in :func:`soft_margin_cross_entropy`.
        ignore_index: as in :func:`soft_margin_cross_entropy`.
        reduction: as in :func:`soft_margin_cross_entropy`.
        label_smoothing: as in :func:`soft_margin_cross_entropy`.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for whatever :func:`gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> round(modified_cross_entropy(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)    # log(1 + exp(-2 + 1))
        0.3133

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 15. Not the "modified loss" of its section 3, softplus of the largest other logit,
        which the paper found not to train.
    """
    return soft_margin_cross_entropy(
        input, target, 1.0, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def focal_cross_entropy(
    input: Tensor,
    target: Tensor,
    gamma: float | Tensor = 2.0,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Focal loss over the softmax: cross-entropy that counts a sample the less the more confident it is.

    .. math:: J = (1 - p_c)^{\gamma} \, (-\log p_c)

    ``gamma=0`` is the cross-entropy. :math:`\alpha_c` of the paper is ``weight``. For class probabilities, and for label smoothing,
    :math:`J = \sum_c t_c J_c`. The paper's own form is for two classes by a sigmoid, and its sum is divided by the number of objects; here
    the mean is that of the cross-entropy, over all samples and by their weights.

    Args:
        input: logits, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities of the shape of ``input``.
        gamma: the focusing parameter :math:`\gamma \ge 0`, a number or a tensor that broadcasts to the class indices.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a negative ``gamma``, and for whatever :func:`gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> round(focal_cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([0]), gamma=2.0).item(), 4)     # (1/2)^2 log 2
        0.1733

    References:
        *Focal Loss for Dense Object Detection* (Lin et al., ICCV 2017), eq. 4 and 5.
    """

    def penalty(x: Tensor, given: Parameters) -> Tensor:
        return torch.exp(-given["gamma"] * softplus(-x)) * softplus(x)  # log(1 - p_c) = -softplus(-x)

    return target_logit_loss(
        input,
        target,
        parameters={"gamma": (gamma, nonnegative)},
        penalty=penalty,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def multi_class_hinge(
    input: Tensor,
    target: Tensor,
    margin: float | Tensor = 1.0,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Multi-class hinge loss with a gradient in every logit.

    .. math:: J = \frac{1}{C - 1} \sum_{i \neq c} \max(0, z_i - z_c + m)

    :func:`torch.nn.functional.multi_margin_loss` divides by C instead of C - 1. With one class the loss is 0. The function has corners: at
    them the gradient is PyTorch's, that of the side where the term is 0.

    Args:
        input: logits, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices of the shape of ``input`` without its class dimension.
        margin: :math:`m`; the paper's is 1. A number, or a tensor that broadcasts to the class indices.
        weight: a factor for each class, ``[C]``; the mean divides by the weights used, as that of the cross-entropy.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Returns:
        The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for class probabilities as a target, and for whatever :func:`gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> multi_class_hinge(torch.tensor([[1.0, 0.5, -3.0]]), torch.tensor([0])).item()      # (max(0, 0.5) + max(0, -3)) / 2
        0.25

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 14.
    """
    class_dim = check_logits(input)
    if check_target(input, target, class_dim):
        raise ValueError("multi_class_hinge needs class indices; got class probabilities")
    check_options(input, weight, ignore_index, reduction, 0.0, class_dim, False)
    margin = finite("margin", margin, target.shape)
    logits, result_dtype = compute_in(input)
    valid, index = valid_index(target, ignore_index, logits.shape[class_dim])
    gap = logits - gather(logits, index, class_dim).unsqueeze(class_dim) + over_classes(margin, class_dim, logits)
    gap = gap.scatter(class_dim, index.unsqueeze(class_dim), 0.0)
    per_sample = torch.relu(gap).sum(class_dim) / max(1, logits.shape[class_dim] - 1)
    return reduce_indices(per_sample, index, valid, weight, reduction).to(result_dtype)
