"""The cross-entropy with probability-dependent gradient decay."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional import fused
from gdlib.functional.options import (
    Parameters,
    Reduction,
    all_in_range,
    check_logits,
    check_options,
    check_target,
    compute_in,
    number_if_positional,
    over_classes,
    positive,
    reduce_all,
    reduce_indices,
    reduce_mixed,
    target_logit_loss,
    valid_index,
)

__all__ = ["gd_cross_entropy"]


def penalty(x: Tensor, given: Parameters) -> Tensor:
    """Compute J of the log-sum-exp of the other classes less the true logit, :math:`x = r_c - z_c`, and β."""
    return torch.logaddexp(x, _log(given["beta"], x))  # J = log(e^x + β)


@number_if_positional("beta", 2)
def gd_cross_entropy(
    input: Tensor,
    target: Tensor,
    beta: float | Tensor = 1.0,
    *,
    temperature: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Cross-entropy with probability-dependent gradient decay (GD-softmax).

    .. math::

        J = -\log \frac{e^{z_c/\tau}}{\sum_{i \neq c} e^{z_i/\tau} + \beta\, e^{z_c/\tau}}
          = \log\left(e^{\ell} + \beta - 1\right)
          = \ell + \log\bigl(1 + (\beta - 1)\, p_c\bigr)

    with :math:`p = \mathrm{softmax}(z / \tau)` and :math:`\ell = -\log p_c`. Its gradient with respect to :math:`z_c / \tau` has the
    magnitude :math:`G = (1 - p_c) / (1 + (\beta - 1) p_c)`: :math:`\beta < 1` keeps it large until a sample is confident, :math:`\beta > 1`
    lets it fall early, :math:`\beta = 1` is the plain cross-entropy. The value tends to :math:`\log \beta` for a confident sample, and so
    is negative for :math:`\beta < 1`.

    For class probabilities :math:`t`, and for label smoothing, every class contributes as its :math:`-\log p_c` would:
    :math:`J = \sum_c t_c \left(-\log p_c + \log(1 + (\beta - 1) p_c)\right)`. With ``beta=1`` the function equals
    :func:`torch.nn.functional.cross_entropy` for every other argument, to rounding.

    Args:
        input: logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any floating type. float16 and bfloat16 are
            computed in float32 and the result has the type of ``input`` (float32 under autocast, as PyTorch's own losses do).
        target: class indices (int64 or uint8) of the shape of ``input`` without its class dimension, or class probabilities (floating) of
            the shape of ``input``.
        beta: the gradient-decay factor :math:`\beta > 0`; a number, or a tensor that broadcasts to the shape of the class indices: one
            value for each sample. Gradients flow into a tensor that asks for them. A tensor goes by keyword, ``beta=...``, because in its
            place :func:`torch.nn.functional.cross_entropy` takes the weights of the classes.
        temperature: :math:`\tau > 0`, a number or a tensor, as ``beta``.
        weight: a factor for each class, of shape ``[C]``. As in PyTorch, the mean over class indices divides by the sum of the weights
            used.
        ignore_index: class index whose samples count for nothing. Only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a ``beta`` or ``temperature`` that is not a finite positive number or does not broadcast, for shapes or types that
            do not fit, and for a class index outside ``[0, C)``. The values of a tensor are looked at only where that costs no device
            synchronisation: on the CPU, outside ``torch.compile`` and ``torch.func`` transforms.
        TypeError: for a tensor as third positional argument.

    Example:
        >>> import torch
        >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> gd_cross_entropy(logits, labels, beta=1.0, reduction="none")      # the plain cross-entropy
        tensor([0.1269, 1.3133])
        >>> gd_cross_entropy(logits, labels, beta=0.1, reduction="none")      # log(exp(-2) + 0.1), log(e + 0.1)
        tensor([-1.4467,  1.0361])

    References:
        *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 5 (with its missing brackets) and 8-11; version 2,
        eq. 5 and 7-10.
    """
    usual = type(beta) is float and type(temperature) is float and weight is None and reduction == "mean" and ignore_index < 0
    if usual and temperature == 1.0 and label_smoothing == 0.0 and _needs_no_checks(input, target, beta):  # type: ignore[arg-type]
        return fused.HardTargets.apply(input, target, beta, 1, "mean")
    class_dim = check_logits(input)
    soft = check_target(input, target, class_dim)
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :] if soft else target.shape
    beta = positive("beta", beta, index_shape)
    temperature = positive("temperature", temperature, index_shape)
    check_options(input, weight, ignore_index, reduction, label_smoothing, class_dim, soft)

    logits, result_dtype = compute_in(input)
    if isinstance(temperature, Tensor) or temperature != 1.0:
        logits = logits / over_classes(temperature, class_dim, logits)
    options = {"weight": weight, "ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    if not fused.serves(logits, beta) or (soft and target.requires_grad):
        loss = target_logit_loss(logits, target, parameters={"beta": (beta, positive)}, penalty=penalty, **options)  # type: ignore[arg-type]
    elif soft or label_smoothing > 0:
        if type(beta) is float and beta == 1.0:
            target, weight = target.to(logits) if soft else target.long(), None if weight is None else weight.to(logits)
            if not soft:
                valid_index(target, ignore_index, logits.shape[class_dim])
            loss = F.cross_entropy(logits, target, **options | {"weight": weight})  # type: ignore[arg-type]
        else:
            loss = _against_shares(logits, target, beta, weight, ignore_index, reduction, label_smoothing, class_dim, soft)
    else:
        loss = _against_indices(logits, target, beta, weight, ignore_index, reduction, class_dim)
    return loss if loss.dtype == result_dtype else loss.to(result_dtype)


def _log(beta: float | Tensor, like: Tensor) -> Tensor:
    return torch.log(beta) if isinstance(beta, Tensor) else like.new_full((), math.log(beta))


def _needs_no_checks(input: Tensor, target: Tensor, beta: float) -> bool:
    """Say whether this is the usual call, on a CPU, where even a microsecond of checks would show in a small batch."""
    return (
        type(input) is Tensor
        and type(target) is Tensor
        and input.dtype is torch.float32
        and target.dtype is torch.int64
        and input.ndim == 2
        and target.shape == input.shape[:1]
        and fused.serves(input, beta)
        and all_in_range(target, input.shape[1])
    )


def _against_indices(
    logits: Tensor, target: Tensor, beta: float | Tensor, weight: Tensor | None, ignore_index: int, reduction: Reduction, class_dim: int
) -> Tensor:
    """Compute the reduced loss against class indices."""
    classes = logits.shape[class_dim]
    if weight is None and reduction != "none" and not 0 <= ignore_index < classes and all_in_range(target, classes):
        return fused.HardTargets.apply(logits, target.long(), beta, class_dim, reduction)
    valid, index = valid_index(target, ignore_index, classes)
    per_sample = fused.HardTargets.apply(logits, index, beta, class_dim, "none")
    return reduce_indices(per_sample, index, valid, weight, reduction)


def _against_shares(
    logits: Tensor,
    target: Tensor,
    beta: float | Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
    label_smoothing: float,
    class_dim: int,
    soft: bool,
) -> Tensor:
    """Compute the reduced loss against class probabilities, or class indices with label smoothing."""
    classes = logits.shape[class_dim]
    factors = None if weight is None else weight.to(logits)
    shape = [1] * class_dim + [-1] + [1] * (logits.ndim - class_dim - 1)
    spread = (logits.new_ones(1) if factors is None else factors).reshape(shape) * (label_smoothing / classes)
    if soft:
        shares = target.to(logits) * (1 - label_smoothing)
        shares = spread + (shares if factors is None else shares * factors.reshape(shape))
        return reduce_all(fused.SoftTargets.apply(logits, shares, None, None, beta, class_dim), reduction)
    valid, index = valid_index(target, ignore_index, classes)
    own = logits.new_full(index.shape, 1 - label_smoothing) if factors is None else factors[index] * (1 - label_smoothing)
    per_sample = fused.SoftTargets.apply(logits, spread, index, own, beta, class_dim)
    return reduce_mixed(per_sample, index, valid, factors, reduction)
