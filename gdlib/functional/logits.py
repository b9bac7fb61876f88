"""Losses on logits that set the true class apart: soft margin, focal, hinge, large margin."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from gdlib.functional._arguments import (
    Reduction,
    lowest,
    softplus,
    tensor_by_keyword,
)
from gdlib.functional._reduction import Batch

Divergence = Literal["symmetric", "q_u", "u_q"]
"""How LM compares the wrong classes with a uniform distribution."""


@tensor_by_keyword("margin")
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
    r"""Compute the soft-margin softmax loss (M-Softmax).

    It is the cross-entropy after a margin has been subtracted from the true logit.

    .. math::

        J = -\log \frac{e^{z_c - m}}{e^{z_c - m} + \sum_{i \neq c} e^{z_i}}
          = \mathrm{softplus}\Bigl(\log \sum_{i \neq c} e^{z_i} - z_c + m\Bigr)

    It is :func:`gd_cross_entropy` with :math:`\beta = e^{-m}`, plus the constant :math:`m`: the
    gradients are the same. ``margin=0`` is the cross-entropy. For class probabilities, and for
    label smoothing, :math:`J = \sum_c t_c J_c`, where :math:`J_c` has the margin at class c.

    Args:
        input: logits :math:`z`, ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities.
        margin: :math:`m`, in nats; a number, or a tensor that broadcasts to the class indices: one
            value for each sample.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> logits, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
        >>> loss = soft_margin_cross_entropy(logits, labels, margin=0.5)
        >>> round(loss.item(), 4)  # log(1 + exp(0 - 2 + 0.5))
        0.2014

    References:
        *Ensemble Soft-Margin Softmax Loss for Image Classification* (Wang et al., IJCAI 2018);
        "M-Soft" of *ArcGrad*, IV B, m = 0.5.
    """
    batch = Batch(input, target, weight, ignore_index, reduction, label_smoothing)
    margin = batch.parameter("margin", margin, "> -inf")
    return batch.reduce(softplus(batch.log_odds_against(batch.values(input)) + margin))


@tensor_by_keyword("gamma")
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
    r"""Compute the focal loss over the softmax.

    It is a cross-entropy in which a sample counts less the more confident it is.

    .. math:: J = (1 - p_c)^{\gamma} \, (-\log p_c)

    ``gamma=0`` is the cross-entropy. The paper's :math:`\alpha_c` is ``weight``. For class
    probabilities, and for label smoothing, :math:`J = \sum_c t_c J_c`. The paper's own form is for
    two classes with a sigmoid, and its sum is divided by the number of objects; here the mean is
    that of the cross-entropy, over all samples and with their weights.

    Args:
        input: logits :math:`z`, ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities.
        gamma: the focusing parameter :math:`\gamma \ge 0`, a number or a tensor that broadcasts to
            the class indices.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> loss = focal_cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([0]), gamma=2.0)
        >>> round(loss.item(), 4)  # (1/2)^2 log 2
        0.1733

    References:
        *Focal Loss for Dense Object Detection* (Lin et al., ICCV 2017), eq. 4 and 5.
    """
    batch = Batch(input, target, weight, ignore_index, reduction, label_smoothing)
    gamma = batch.parameter("gamma", gamma, ">= 0")
    x = batch.log_odds_against(batch.values(input))
    certain = x > 1e30  # that it is wrong: p_c = 0, also for a class masked by the lowest number
    finite_x = x.masked_fill(certain, 0.0)
    rest = torch.exp(-gamma * softplus(-finite_x))  # (1 - p_c)^gamma: log(1 - p_c) = -softplus(-x)
    focal = rest * softplus(finite_x)
    # where p_c = 0 it is the cross-entropy, whose gradient is finite
    return batch.reduce(torch.where(certain, x, focal))


@tensor_by_keyword("margin")
def multi_class_hinge(
    input: Tensor,
    target: Tensor,
    margin: float | Tensor = 1.0,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Compute the multi-class hinge loss, with a gradient in every logit.

    .. math:: J = \frac{1}{C - 1} \sum_{i \neq c} \max(0, z_i - z_c + m)

    :func:`torch.nn.functional.multi_margin_loss` divides by C instead of C - 1. With one class the
    loss is 0. The function has kinks, where the gradient is PyTorch's: that of the side where the
    term is 0.

    Args:
        input: logits :math:`z`, ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices.
        margin: :math:`m`; the paper's is 1. A number, or a tensor that broadcasts to the class
            indices.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> loss = multi_class_hinge(torch.tensor([[1.0, 0.5, -3.0]]), torch.tensor([0]))
        >>> loss.item()  # (max(0, 0.5) + max(0, -3)) / 2
        0.25

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 14.
    """
    batch = Batch(
        *(input, target, weight, ignore_index, reduction),
        only_indices="the hinge is over the classes that are wrong",
    )
    margin = batch.parameter("margin", margin, "> -inf")
    values = batch.values(input)
    excess = values - batch.true(values) + margin
    excess = torch.relu(excess.scatter(batch.dim, batch.true_class, 0.0))
    return batch.reduce(excess.sum(batch.dim, keepdim=True) / max(1, batch.classes - 1))


@tensor_by_keyword("reg_lambda")
def large_margin_cross_entropy(
    input: Tensor,
    target: Tensor,
    reg_lambda: float | Tensor = 0.3,
    *,
    divergence: Divergence = "symmetric",
    margin: float | Tensor = 0.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute the cross-entropy plus a divergence that keeps the margin large (LM).

    The divergence keeps the logits of the wrong classes similar.

    .. math::

        J = -\log p_c + \lambda D, \qquad q_i = \frac{e^{z_i}}{\sum_{j \neq c} e^{z_j}},
        \quad u_i = \frac{1}{C - 1} \quad (i \neq c)

    with one of three divergences D:

    * ``"symmetric"``, LM eq. 8: :math:`\tfrac12 \bigl(D(q \| u) + D(u \| q)\bigr) = \tfrac12 (E_q
      z - E_u z)`;
    * ``"q_u"``, LM eq. 10, left: :math:`D(q \| u) = E_q \log q + \log(C - 1)`;
    * ``"u_q"``, LM eq. 10, right: :math:`D(u \| q) = -E_u \log q - \log(C - 1)`.

    ``reg_lambda=0`` is the cross-entropy; so is every ``reg_lambda`` for two classes, where D is 0.
    A class whose logit is -inf is masked: u and q are taken over the others. LM eq. 12 is the
    gradient, with x written for the logits f. The divergence is weighted, ignored and reduced like
    the cross-entropy of its sample; label smoothing acts on the cross-entropy alone.

    Args:
        input: logits :math:`z`, ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices.
        reg_lambda: :math:`\lambda \ge 0`, a number or a tensor that broadcasts to the class
            indices.
        divergence: ``"symmetric"``, ``"q_u"`` or ``"u_q"``.
        margin: margin of the cross-entropy, as in :func:`soft_margin_cross_entropy`. 1 gives
            "modified loss (15) + ours" of LM's Table 4.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        With q = (1/4, 3/4) and u = (1/2, 1/2) the loss is log 5 + (3/4 - 1/2) / 2 * log 3:

        >>> logits, labels = torch.tensor([[0.0, 0.0, math.log(3.0)]]), torch.tensor([0])
        >>> loss = large_margin_cross_entropy(logits, labels, reg_lambda=1.0)
        >>> round(loss.item(), 4)
        1.7468

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 8-12; its section 4.1 chooses λ = 0.3.
    """
    check_divergence(divergence)
    batch = Batch(
        *(input, target, weight, ignore_index, reduction, label_smoothing),
        only_indices="the divergence is over the classes that are wrong",
    )
    reg_lambda = batch.parameter("reg_lambda", reg_lambda, ">= 0")
    margin = batch.parameter("margin", margin, "> -inf")
    values = batch.values(input)
    log_q, others = _log_q(values, batch.true_class, batch.dim)
    q_log_q = (log_q.exp() * log_q).sum(batch.dim, keepdim=True)
    u_log_q = log_q.sum(batch.dim, keepdim=True) / others
    if divergence == "symmetric":
        distance = (q_log_q - u_log_q) / 2
    elif divergence == "q_u":
        distance = q_log_q + torch.log(others)
    else:
        distance = -u_log_q - torch.log(others)
    losses = softplus(batch.log_odds_against(values) + margin)
    return batch.reduce(losses, of_true=reg_lambda * distance)


def check_divergence(divergence: object) -> None:
    """Refuse an unknown divergence."""
    if not isinstance(divergence, str) or divergence not in get_args(Divergence):
        raise ValueError(
            f"divergence must be one of {', '.join(get_args(Divergence))}; got {divergence!r}"
        )


def _log_q(logits: Tensor, true_class: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Compute the log of the softmax over the wrong classes, 0 at the true and at masked ones.

    The second result is the number of wrong classes that are not masked.
    """
    counted = (logits != -math.inf).scatter(dim, true_class, 0)
    wrong = logits.scatter(dim, true_class, lowest(logits))
    wrong = wrong - wrong.detach().amax(dim, keepdim=True)
    log_total = torch.logsumexp(wrong, dim, keepdim=True)
    others = counted.sum(dim, keepdim=True).clamp(min=1).to(logits)
    return torch.where(counted, wrong - log_total, 0.0), others
