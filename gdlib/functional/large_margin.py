"""The large margin inside the softmax: LM's regularised cross-entropy, the bias that it enlarges, and super-symmetric classifiers."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from gdlib.functional.margins import soft_margin_cross_entropy
from gdlib.functional.options import (
    Reduction,
    check_index,
    check_logits,
    check_options,
    check_target,
    compute_in,
    lowest,
    nonnegative,
    reduce_indices,
    valid_index,
)

Divergence = Literal["symmetric", "q_u", "u_q"]

__all__ = ["large_margin_cross_entropy", "margin_bias", "super_symmetric_projection", "super_symmetry_penalty"]


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
    r"""Cross-entropy plus a divergence that keeps the logits of the wrong classes alike, and so the margin large.

    .. math:: J = -\log p_c + \lambda D, \qquad q_i = \frac{e^{z_i}}{\sum_{j \neq c} e^{z_j}}, \quad u_i = \frac{1}{C - 1} \quad (i \neq c)

    ============== ==================== =====================================================================
    ``divergence``
    ============== ==================== =====================================================================
    ``symmetric``  LM eq. 8             :math:`\tfrac12 \bigl(D(q \| u) + D(u \| q)\bigr) = \tfrac12 (E_q z - E_u z)`
    ``q_u``        LM eq. 10, left      :math:`D(q \| u) = E_q \log q + \log(C - 1)`
    ``u_q``        LM eq. 10, right     :math:`D(u \| q) = -E_u \log q - \log(C - 1)`
    ============== ==================== =====================================================================

    ``reg_lambda=0`` is the cross-entropy; so is every ``reg_lambda`` for two classes, where D is 0. A class whose logit is -inf is masked:
    u and q are over the others. LM eq. 12 is the gradient, with x written for the logits f. The divergence is weighed, ignored and reduced
    like the cross-entropy of its sample.

    Args:
        input: logits, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices of the shape of ``input`` without its class dimension.
        reg_lambda: :math:`\lambda \ge 0`, a number or a tensor that broadcasts to the class indices.
        divergence: ``"symmetric"``, ``"q_u"`` or ``"u_q"``.
        margin: of the cross-entropy, as in :func:`soft_margin_cross_entropy`. 1 gives "modified loss (15) + ours" of LM's Table 4.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: acts on the cross-entropy; the divergence is that of the true class.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for an unknown divergence, a negative ``reg_lambda``, class probabilities as a target, and for whatever
            :func:`gd_cross_entropy` refuses.

    Example:
        >>> import math, torch
        >>> logits, labels = torch.tensor([[0.0, 0.0, math.log(3.0)]]), torch.tensor([0])       # q = (1/4, 3/4), u = (1/2, 1/2)
        >>> loss = large_margin_cross_entropy(logits, labels, reg_lambda=1.0)                   # log 5 + (3/4 - 1/2) / 2 * log 3
        >>> round(loss.item(), 4)
        1.7468

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 8-12; λ = 0.3 throughout its section 4.
    """
    class_dim = check_logits(input)
    if check_target(input, target, class_dim):
        raise ValueError("large_margin_cross_entropy needs class indices: the divergence is over the classes that are wrong")
    if divergence not in get_args(Divergence):
        raise ValueError(f"divergence must be one of {', '.join(get_args(Divergence))}; got {divergence!r}")
    check_options(input, weight, ignore_index, reduction, label_smoothing, class_dim, False)
    reg_lambda = nonnegative("reg_lambda", reg_lambda, target.shape)
    logits, result_dtype = compute_in(input)
    cross_entropy = soft_margin_cross_entropy(
        logits, target, margin, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )
    if logits.shape[class_dim] == 1:
        return cross_entropy.to(result_dtype)
    valid, index = valid_index(target, ignore_index, logits.shape[class_dim])
    log_q, others = _log_q(logits, index, class_dim)
    q_log_q = (log_q.exp() * log_q).sum(class_dim)
    u_log_q = log_q.sum(class_dim) / others
    if divergence == "symmetric":
        regulariser = (q_log_q - u_log_q) / 2
    elif divergence == "q_u":
        regulariser = q_log_q + torch.log(others)
    else:
        regulariser = -u_log_q - torch.log(others)
    factor = reg_lambda.to(logits) if isinstance(reg_lambda, Tensor) else reg_lambda
    return (cross_entropy + reduce_indices(factor * regulariser, index, valid, weight, reduction)).to(result_dtype)


def margin_bias(input: Tensor, target: Tensor) -> Tensor:
    r"""The bias that the cross-entropy adds to the margin of a sample.

    .. math:: \hat\rho = \log \sum_{i \neq c} e^{z_i - z_{c^*}}, \qquad c^* = \arg\max_{i \neq c} z_i, \qquad 0 \le \hat\rho \le \log(C - 1)

    With it :math:`-\log p_c = \mathrm{softplus}(z_{c^*} - z_c + \hat\rho)`. It is largest where all wrong logits are alike.

    Args:
        input: logits, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of at least two classes.
        target: class indices of the shape of ``input`` without its class dimension.

    Returns:
        The bias of every sample, of the shape of ``target``.

    Raises:
        ValueError: for fewer than two classes, and for shapes that do not fit.

    Example:
        >>> import torch
        >>> margin_bias(torch.tensor([[5.0, 1.0, 1.0, -50.0]]), torch.tensor([0]))              # log(1 + 1 + 0)
        tensor([0.6931])

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 4-7 and figure 3.
    """
    class_dim = check_logits(input)
    if check_target(input, target, class_dim) or input.shape[class_dim] < 2:
        raise ValueError("margin_bias needs class indices and at least two classes")
    logits, result_dtype = compute_in(input)
    index = target.long()
    check_index(index, logits.shape[class_dim])
    wrong = logits.scatter(class_dim, index.unsqueeze(class_dim), -math.inf)
    return torch.logsumexp(wrong - wrong.amax(class_dim, keepdim=True), class_dim).to(result_dtype)


def super_symmetry_penalty(weight: Tensor) -> Tensor:
    r"""How far the class vectors of a linear classifier are from super-symmetry.

    .. math:: \frac{1}{C^2} \sum_{c, c'} \bigl(w_c^T w_{c'} - v\, M_{c c'}\bigr)^2, \qquad M_{c c} = 1, \quad M_{c c'} = -\frac{1}{C - 1}

    with :math:`v = \frac1C \sum_c \lVert w_c \rVert^2`. It is 0 exactly for :math:`w_c^T w_c = v` and :math:`w_c^T w_{c'} = -v/(C - 1)`:
    vectors of one length that point to the corners of a simplex. The form of LM's constraint is in a supplement that was not at hand; this
    is a penalty with the same zeros, and :func:`super_symmetric_projection` imposes it strictly.

    Args:
        weight: class vectors ``[..., C, D]``, C >= 2; leading dimensions are runs.

    Returns:
        The penalty, of shape ``[...]``.

    Raises:
        ValueError: for fewer than two classes.

    Example:
        >>> import torch
        >>> round(super_symmetry_penalty(torch.tensor([[1.0], [-1.0]])).item(), 4), super_symmetry_penalty(torch.eye(2)).item()
        (0.0, 0.5)

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, section 3 and Table 2.
    """
    classes = _classes(weight)
    gram = weight @ weight.mT
    mean_square = gram.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    identity = torch.eye(classes, dtype=gram.dtype, device=gram.device)
    simplex = (classes * identity - 1) / (classes - 1)
    return (gram - mean_square * simplex).square().mean((-2, -1))


@torch.no_grad()
def super_symmetric_projection(weight: Tensor) -> Tensor:
    r"""Super-symmetric class vectors near given ones, of the same mean squared length.

    The nearest, among those with that length, to the given vectors less their mean: their singular values are made equal. For projected
    gradient descent: ``layer.weight.copy_(super_symmetric_projection(layer.weight))`` after each step.

    Args:
        weight: class vectors ``[..., C, D]`` with D >= C - 1; leading dimensions are runs.

    Returns:
        Vectors of the same shape whose :func:`super_symmetry_penalty` is 0 to rounding.

    Raises:
        ValueError: for fewer than two classes, and for fewer than C - 1 features, where no super-symmetric vectors exist.

    Example:
        >>> import torch
        >>> projected = super_symmetric_projection(torch.eye(3))
        >>> torch.allclose(projected @ projected.T, torch.tensor([[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]), atol=1e-6)
        True

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, section 3.
    """
    classes = _classes(weight)
    if weight.shape[-1] < classes - 1:
        raise ValueError(f"{classes} super-symmetric class vectors need at least {classes - 1} features; got {weight.shape[-1]}")
    centred = weight - weight.mean(-2, keepdim=True)
    left, _, right = torch.linalg.svd(centred, full_matrices=False)
    left, right = left[..., : classes - 1], right[..., : classes - 1, :]
    mean_square = weight.square().sum((-2, -1)) / classes
    return torch.sqrt(mean_square * classes / (classes - 1))[..., None, None] * (left @ right)


def _log_q(logits: Tensor, index: Tensor, class_dim: int) -> tuple[Tensor, Tensor]:
    """Compute the log of the softmax over the wrong classes, 0 at the true and at masked ones, and how many wrong ones are not masked."""
    true_class = index.unsqueeze(class_dim)
    counted = (logits != -math.inf).scatter(class_dim, true_class, False)
    wrong = logits.scatter(class_dim, true_class, lowest(logits))
    wrong = wrong - wrong.detach().amax(class_dim, keepdim=True)
    log_total = torch.logsumexp(wrong, class_dim, keepdim=True)
    return torch.where(counted, wrong - log_total, 0.0), counted.sum(class_dim).clamp(min=1).to(logits)


def _classes(weight: Tensor) -> int:
    if weight.ndim < 2 or weight.shape[-2] < 2:
        raise ValueError(f"weight must hold at least two class vectors, [..., C, D]; got shape {list(weight.shape)}")
    return weight.shape[-2]
