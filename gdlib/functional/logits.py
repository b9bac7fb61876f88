"""Losses on logits that treat the true class apart: soft margin, focal, hinge, large margin."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from gdlib.functional._arguments import (
    FLOATING,
    Reduction,
    compute_in,
    lowest,
    readable,
    softplus,
    tensor_by_keyword,
    without_autocast,
)
from gdlib.functional._reduction import Batch

Divergence = Literal["symmetric", "q_u", "u_q"]
"""How LM compares the wrong classes with a uniform distribution."""


@tensor_by_keyword("margin", 2)
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

    It is the cross-entropy after the true logit has been made smaller by a margin.

    .. math::

        J = -\log \frac{e^{z_c - m}}{e^{z_c - m} + \sum_{i \neq c} e^{z_i}}
          = \mathrm{softplus}\Bigl(\log \sum_{i \neq c} e^{z_i} - z_c + m\Bigr)

    It is :func:`gd_cross_entropy` with :math:`\beta = e^{-m}`, plus the constant :math:`m`: the
    gradients are the same. ``margin=0`` is the cross-entropy. For class probabilities, and for
    label smoothing, :math:`J = \sum_c t_c J_c`; :math:`J_c` has the margin at class c.

    Args:
        input: logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any
            floating type. float16 and bfloat16 are computed in float32; the result has the type of
            the input, or float32 under autocast, as PyTorch's own losses do.
        target: class indices (int64 or uint8) of the shape of the logits without their class
            dimension, or class probabilities (floating) of their shape, which sum to 1, or are all
            0 for a sample that does not count.
        margin: :math:`m`, in nats; a number, or a tensor that broadcasts to the class indices: one
            value for each sample.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a parameter outside its bounds or of a shape that does not broadcast, for
            other shapes or types that do not fit, and for a class index outside ``[0, C)``. Values
            of tensors are looked at only where that costs no device synchronisation: on the CPU,
            outside ``torch.compile`` and ``torch.func`` transforms.
        TypeError: for a tensor as margin that is not given by keyword.

    Example:
        >>> logits, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
        >>> loss = soft_margin_cross_entropy(logits, labels, margin=0.5)
        >>> round(loss.item(), 4)  # log(1 + exp(0 - 2 + 0.5))
        0.2014

    References:
        *Ensemble Soft-Margin Softmax Loss for Image Classification* (Wang et al., IJCAI 2018);
        "M-Soft" of *ArcGrad*, IV B, m = 0.5.
    """
    batch = Batch(
        input,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    margin = batch.parameter("margin", margin, "> -inf")
    return batch.reduce(softplus(batch.log_odds_against(batch.values) + margin))


def modified_cross_entropy(
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute the modified loss of LM: cross-entropy with the bias 1 of the hinge loss added.

    .. math:: J = \mathrm{softplus}\Bigl(\log \sum_{i \neq c} e^{z_i} - z_c + 1\Bigr)

    :func:`soft_margin_cross_entropy` with ``margin=1``, and so gradient decay with :math:`\beta =
    1/e`.

    Args:
        input: logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any
            floating type. float16 and bfloat16 are computed in float32; the result has the type of
            the input, or float32 under autocast, as PyTorch's own losses do.
        target: class indices (int64 or uint8) of the shape of the logits without their class
            dimension, or class probabilities (floating) of their shape, which sum to 1, or are all
            0 for a sample that does not count.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a parameter outside its bounds or of a shape that does not broadcast, for
            other shapes or types that do not fit, and for a class index outside ``[0, C)``. Values
            of tensors are looked at only where that costs no device synchronisation: on the CPU,
            outside ``torch.compile`` and ``torch.func`` transforms.

    Example:
        >>> loss = modified_cross_entropy(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
        >>> round(loss.item(), 4)  # log(1 + exp(-2 + 1))
        0.3133

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 15. Not the "modified loss" of its section
        3, which did not train.
    """
    return soft_margin_cross_entropy(
        input,
        target,
        1.0,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


@tensor_by_keyword("gamma", 2)
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

    It is a cross-entropy that counts a sample the less the more confident it is.

    .. math:: J = (1 - p_c)^{\gamma} \, (-\log p_c)

    ``gamma=0`` is the cross-entropy. :math:`\alpha_c` of the paper is ``weight``. For class
    probabilities, and for label smoothing, :math:`J = \sum_c t_c J_c`. The paper's own form is for
    two classes by a sigmoid, and its sum is divided by the number of objects; here the mean is that
    of the cross-entropy, over all samples and by their weights.

    Args:
        input: logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any
            floating type. float16 and bfloat16 are computed in float32; the result has the type of
            the input, or float32 under autocast, as PyTorch's own losses do.
        target: class indices (int64 or uint8) of the shape of the logits without their class
            dimension, or class probabilities (floating) of their shape, which sum to 1, or are all
            0 for a sample that does not count.
        gamma: the focusing parameter :math:`\gamma \ge 0`, a number or a tensor that broadcasts to
            the class indices.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a parameter outside its bounds or of a shape that does not broadcast, for
            other shapes or types that do not fit, and for a class index outside ``[0, C)``. Values
            of tensors are looked at only where that costs no device synchronisation: on the CPU,
            outside ``torch.compile`` and ``torch.func`` transforms.
        TypeError: for a tensor as gamma that is not given by keyword.

    Example:
        >>> loss = focal_cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([0]), gamma=2.0)
        >>> round(loss.item(), 4)  # (1/2)^2 log 2
        0.1733

    References:
        *Focal Loss for Dense Object Detection* (Lin et al., ICCV 2017), eq. 4 and 5.
    """
    batch = Batch(
        input,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    gamma = batch.parameter("gamma", gamma, ">= 0")
    x = batch.log_odds_against(batch.values)
    finite_x = x.masked_fill(x == math.inf, 0.0)
    rest = torch.exp(-gamma * softplus(-finite_x))  # (1 - p_c)^gamma: log(1 - p_c) = -softplus(-x)
    focal = rest * softplus(finite_x)
    # where p_c = 0 it is the cross-entropy, whose gradient is finite
    return batch.reduce(torch.where(x == math.inf, x, focal))


@tensor_by_keyword("margin", 2)
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
    loss is 0. The function has corners: at them the gradient is PyTorch's, that of the side where
    the term is 0.

    Args:
        input: logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any
            floating type. float16 and bfloat16 are computed in float32; the result has the type of
            the input, or float32 under autocast, as PyTorch's own losses do.
        target: class indices (int64 or uint8) of the shape of the logits without their class
            dimension.
        margin: :math:`m`; the paper's is 1. A number, or a tensor that broadcasts to the class
            indices.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Returns:
        The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a parameter outside its bounds or of a shape that does not broadcast, for
            other shapes or types that do not fit, and for a class index outside ``[0, C)``. Values
            of tensors are looked at only where that costs no device synchronisation: on the CPU,
            outside ``torch.compile`` and ``torch.func`` transforms.
        TypeError: for a tensor as margin that is not given by keyword.

    Example:
        >>> loss = multi_class_hinge(torch.tensor([[1.0, 0.5, -3.0]]), torch.tensor([0]))
        >>> loss.item()  # (max(0, 0.5) + max(0, -3)) / 2
        0.25

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 14.
    """
    batch = Batch(
        input,
        target,
        only_indices="the hinge is over the classes that are wrong",
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
    )
    margin = batch.parameter("margin", margin, "> -inf")
    excess = batch.values - batch.true(batch.values) + margin
    excess = torch.relu(excess.scatter(batch.dim, batch.true_class, 0.0))
    return batch.reduce(excess.sum(batch.dim, keepdim=True) / max(1, batch.classes - 1))


@tensor_by_keyword("reg_lambda", 2)
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

    The divergence keeps the logits of the wrong classes alike.

    .. math::

        J = -\log p_c + \lambda D, \qquad q_i = \frac{e^{z_i}}{\sum_{j \neq c} e^{z_j}},
        \quad u_i = \frac{1}{C - 1} \quad (i \neq c)

    with one of three divergences D:

    * ``"symmetric"``, LM eq. 8: :math:`\tfrac12 \bigl(D(q \| u) + D(u \| q)\bigr) = \tfrac12 (E_q
      z - E_u z)`;
    * ``"q_u"``, LM eq. 10, left: :math:`D(q \| u) = E_q \log q + \log(C - 1)`;
    * ``"u_q"``, LM eq. 10, right: :math:`D(u \| q) = -E_u \log q - \log(C - 1)`.

    ``reg_lambda=0`` is the cross-entropy; so is every ``reg_lambda`` for two classes, where D is 0.
    A class whose logit is -inf is masked: u and q are over the others. LM eq. 12 is the gradient,
    with x written for the logits f. The divergence is weighed, ignored and reduced like the
    cross-entropy of its sample; label smoothing acts on the cross-entropy alone.

    Args:
        input: logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any
            floating type. float16 and bfloat16 are computed in float32; the result has the type of
            the input, or float32 under autocast, as PyTorch's own losses do.
        target: class indices of the shape of the logits without their class dimension.
        reg_lambda: :math:`\lambda \ge 0`, a number or a tensor that broadcasts to the class
            indices.
        divergence: ``"symmetric"``, ``"q_u"`` or ``"u_q"``.
        margin: of the cross-entropy, as in :func:`soft_margin_cross_entropy`. 1 gives "modified
            loss (15) + ours" of LM's Table 4.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a parameter outside its bounds or of a shape that does not broadcast, for
            other shapes or types that do not fit, and for a class index outside ``[0, C)``. Values
            of tensors are looked at only where that costs no device synchronisation: on the CPU,
            outside ``torch.compile`` and ``torch.func`` transforms.
        TypeError: for a tensor as reg_lambda that is not given by keyword.

    Example:
        With q = (1/4, 3/4) and u = (1/2, 1/2) it is log 5 + (3/4 - 1/2) / 2 * log 3:

        >>> logits, labels = torch.tensor([[0.0, 0.0, math.log(3.0)]]), torch.tensor([0])
        >>> loss = large_margin_cross_entropy(logits, labels, reg_lambda=1.0)
        >>> round(loss.item(), 4)
        1.7468

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 8-12; its section 4.1 chooses λ = 0.3.
    """
    check_divergence(divergence)
    batch = Batch(
        input,
        target,
        only_indices="the divergence is over the classes that are wrong",
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    reg_lambda = batch.parameter("reg_lambda", reg_lambda, ">= 0")
    margin = batch.parameter("margin", margin, "> -inf")
    log_q, others = _log_q(batch.values, batch.true_class, batch.dim)
    q_log_q = (log_q.exp() * log_q).sum(batch.dim, keepdim=True)
    u_log_q = log_q.sum(batch.dim, keepdim=True) / others
    if divergence == "symmetric":
        distance = (q_log_q - u_log_q) / 2
    elif divergence == "q_u":
        distance = q_log_q + torch.log(others)
    else:
        distance = -u_log_q - torch.log(others)
    losses = softplus(batch.log_odds_against(batch.values) + margin)
    return batch.reduce(losses, of_true=reg_lambda * distance)


def check_divergence(divergence: object) -> None:
    """Refuse an unknown divergence."""
    if not isinstance(divergence, str) or divergence not in get_args(Divergence):
        raise ValueError(
            f"divergence must be one of {', '.join(get_args(Divergence))}; got {divergence!r}"
        )


def margin_bias(input: Tensor, target: Tensor) -> Tensor:
    r"""Compute the bias that the cross-entropy adds to the margin of a sample.

    .. math::

        \hat\rho = \log \sum_{i \neq c} e^{z_i - z_{c^*}}, \qquad c^* = \arg\max_{i \neq c} z_i,
        \qquad 0 \le \hat\rho \le \log(C - 1)

    With it :math:`-\log p_c = \mathrm{softplus}(z_{c^*} - z_c + \hat\rho)`. It is largest where all
    wrong logits are alike.

    Args:
        input: logits, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of at least two classes.
        target: class indices of the shape of ``input`` without its class dimension.

    Returns:
        The bias of every sample, of the shape of ``target``; 0 for the class index -100.

    Raises:
        ValueError: for fewer than two classes, and for shapes that do not fit.

    Example:
        >>> import torch
        >>> margin_bias(torch.tensor([[5.0, 1.0, 1.0, -50.0]]), torch.tensor([0]))  # log(1 + 1 + 0)
        tensor([0.6931])

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, eq. 4-7 and figure 3.
    """
    batch = Batch(
        input, target, only_indices="the bias is over the classes that are wrong", reduction="none"
    )
    if batch.classes < 2:
        raise ValueError("margin_bias needs at least two classes")
    # finite in the place of the true class, so that masked ones have a bias too
    wrong = batch.values.scatter(batch.dim, batch.true_class, lowest(batch.values))
    bias = torch.logsumexp(wrong - wrong.amax(batch.dim, keepdim=True), batch.dim, keepdim=True)
    return batch.reduce(bias)


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
        The penalty, of shape ``[...]``, in float32 at least.

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
    vectors, _ = compute_in(weight, "weight")
    gram = without_autocast(lambda rows: rows @ vectors.mT, vectors, vectors.dtype)
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
    vectors, _ = compute_in(weight, "weight")
    if readable(vectors) and not vectors.isfinite().all():
        raise ValueError("class vectors must be finite to be projected; some are NaN or infinite")
    centred = vectors - vectors.mean(-2, keepdim=True)
    left, _, right = torch.linalg.svd(centred, full_matrices=False)
    left, right = left[..., : classes - 1], right[..., : classes - 1, :]
    mean_square = vectors.square().sum((-2, -1)) / classes
    length = torch.sqrt(mean_square * classes / (classes - 1))[..., None, None]
    return (length * (left @ right)).to(weight.dtype)


def _log_q(logits: Tensor, true_class: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Compute the log of the softmax over the wrong classes, 0 at the true and at masked ones.

    Second is how many wrong classes are not masked.
    """
    counted = (logits != -math.inf).scatter(dim, true_class, False)
    wrong = logits.scatter(dim, true_class, lowest(logits))
    wrong = wrong - wrong.detach().amax(dim, keepdim=True)
    log_total = torch.logsumexp(wrong, dim, keepdim=True)
    others = counted.sum(dim, keepdim=True).clamp(min=1).to(logits)
    return torch.where(counted, wrong - log_total, 0.0), others


def _classes(weight: Tensor) -> int:
    if not isinstance(weight, Tensor) or weight.dtype not in FLOATING:
        given = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
        raise ValueError(f"weight must be a floating tensor of class vectors; got {given}")
    if weight.ndim < 2 or weight.shape[-2] < 2:
        raise ValueError(
            "weight must hold at least two class vectors, [..., C, D]; got shape "
            f"{list(weight.shape)}"
        )
    return weight.shape[-2]
