r"""Losses as pure functions of tensors: all the mathematics of the losses is in this file.

Every function follows the conventions of :func:`torch.nn.functional.cross_entropy`: the class dimension is the second one (the first,
if there is only one), the target holds class indices or class probabilities, and ``reduction`` is the last thing that happens.

Notation: :math:`z` are the logits, :math:`c` is the true class, :math:`p = \mathrm{softmax}(z)`, :math:`\ell = -\log p_c`.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["none", "mean", "sum"]

__all__ = ["gd_cross_entropy"]


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
            value for each sample. Gradients flow into a tensor that asks for them.
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
    class_dim = _check_logits(input)
    soft = _check_target(input, target, class_dim)
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :]
    beta = _positive("beta", beta, index_shape)
    temperature = _positive("temperature", temperature, index_shape)
    _check_options(input, weight, ignore_index, reduction, label_smoothing, class_dim, soft)

    logits, result_dtype = _compute_in(input)
    logits = logits / _over_classes(temperature, class_dim, logits)
    logits = logits - logits.detach().amax(class_dim, keepdim=True)  # keeps log β from drowning in a large logit
    log_beta = _log_over_samples(beta, class_dim, logits)

    if soft or label_smoothing > 0:
        per_class = _gd_every_class(logits, log_beta, class_dim)  # [N, C, d1, ...]
        loss = _reduce_classes(per_class, target, weight, ignore_index, reduction, label_smoothing, class_dim, soft)
    else:
        valid, index = _valid_index(target, ignore_index)
        per_sample = _gd_true_class(logits, _gather_checked(logits, index, class_dim), index, log_beta, class_dim)
        loss = _reduce_indices(per_sample, index, valid, weight, reduction)
    return loss.to(result_dtype)


# --- the gradient-decay term ---


def _gd_true_class(logits: Tensor, true_logit: Tensor, index: Tensor, log_beta: Tensor | None, class_dim: int) -> Tensor:
    """J of every sample: log-sum-exp of the logits with log β added at the true class, minus the true logit."""
    if log_beta is not None:
        at_true_class = index.unsqueeze(class_dim)
        logits = logits.scatter_add(class_dim, at_true_class, log_beta.unsqueeze(class_dim))
    return torch.logsumexp(logits, class_dim) - true_logit


def _gd_every_class(logits: Tensor, log_beta: Tensor | None, class_dim: int) -> Tensor:
    """J as if each class in turn were the true one, of the shape of the logits.

    ``J_c = logaddexp(r_c, z_c + log β) - z_c``, where ``r_c`` is the log-sum-exp of the other classes. For all but the largest class
    ``r_c`` is the full log-sum-exp plus ``log1p(-p_c)`` with ``p_c <= 1/2``; for the largest one it is summed afresh, because ``1 - p_c``
    has lost its digits there.
    """
    if log_beta is None:
        return -torch.log_softmax(logits, class_dim)
    top = logits.detach().argmax(class_dim, keepdim=True)
    log_total = torch.logsumexp(logits, class_dim, keepdim=True)
    log_total_without_top = torch.logsumexp(logits.scatter(class_dim, top, -math.inf), class_dim, keepdim=True)
    probability = torch.exp(logits - log_total).scatter(class_dim, top, 0.0)
    log_others = (log_total + torch.log1p(-probability)).scatter(class_dim, top, log_total_without_top)
    return torch.logaddexp(log_others, logits + log_beta.unsqueeze(class_dim)) - logits


# --- weights, ignored samples, smoothing and reduction: shared by every loss, as torch.nn.functional.cross_entropy defines them ---


def _reduce_indices(per_sample: Tensor, index: Tensor, valid: Tensor, weight: Tensor | None, reduction: Reduction) -> Tensor:
    """Weigh, mask and reduce the losses of samples with class indices; the mean divides by the weights of the samples that count."""
    sample_weight = valid.to(per_sample.dtype) if weight is None else weight.to(per_sample)[index] * valid
    loss = torch.where(valid, per_sample * sample_weight, 0.0)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / sample_weight.sum()


def _reduce_classes(
    per_class: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
    label_smoothing: float,
    class_dim: int,
    soft: bool,
) -> Tensor:
    """Contract per-class losses with class probabilities or smoothed class indices, then reduce."""
    classes = per_class.shape[class_dim]
    if weight is not None:
        weight = weight.to(per_class)
        weighted = per_class * weight.reshape(-1, *[1] * (per_class.ndim - class_dim - 1))
    else:
        weighted = per_class

    if soft:
        probabilities = target.to(per_class)
        if label_smoothing > 0:
            probabilities = probabilities * (1 - label_smoothing) + label_smoothing / classes
        loss = (probabilities * weighted).sum(class_dim)
        if reduction == "none":
            return loss
        return loss.sum() if reduction == "sum" else loss.sum() / loss.numel()

    valid, index = _valid_index(target, ignore_index)
    true_class = torch.where(valid, _gather_checked(weighted, index, class_dim), 0.0)
    every_class = torch.where(valid, weighted.sum(class_dim), 0.0)
    if reduction != "none":
        true_class, every_class = true_class.sum(), every_class.sum()
    if reduction == "mean":
        total_weight = valid.sum() if weight is None else (weight[index] * valid).sum()
        true_class, every_class = true_class / total_weight, every_class / total_weight
    return (1 - label_smoothing) * true_class + label_smoothing / classes * every_class


def _valid_index(target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Which samples count, and an index that can be gathered everywhere."""
    index = target.long()
    valid = index != ignore_index
    return valid, torch.where(valid, index, 0)


def _gather_checked(values: Tensor, index: Tensor, class_dim: int) -> Tensor:
    """The value of the indexed class of every sample; a class index outside [0, C) is named in a ValueError."""
    if torch.compiler.is_compiling():
        return values.gather(class_dim, index.unsqueeze(class_dim)).squeeze(class_dim)
    try:
        return values.gather(class_dim, index.unsqueeze(class_dim)).squeeze(class_dim)
    except (RuntimeError, IndexError) as error:
        classes = values.shape[class_dim]
        outside = index[(index < 0) | (index >= classes)]
        if outside.numel() == 0:
            raise
        raise ValueError(
            f"class index {outside[0].item()} lies outside [0, {classes}): input has {classes} classes; mark samples that "
            "should not count with ignore_index"
        ) from error


# --- checks ---

_COMPUTE_DTYPE = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float32, torch.float64: torch.float64}


def _check_logits(input: Tensor) -> int:
    """Refuse what cannot be logits; return the class dimension."""
    if not isinstance(input, Tensor):
        raise ValueError(f"input must be a tensor of logits, got {type(input).__name__}")
    if input.dtype not in _COMPUTE_DTYPE:
        raise ValueError(
            f"input must hold logits of type float16, bfloat16, float32 or float64, got {input.dtype}; convert it with .float()"
        )
    if input.ndim == 0:
        raise ValueError("input must have a class dimension: shape [C], [N, C] or [N, C, d1, ...], got a scalar")
    class_dim = min(1, input.ndim - 1)
    if input.shape[class_dim] == 0:
        raise ValueError(f"input of shape {list(input.shape)} has no classes (dimension {class_dim})")
    return class_dim


def _check_target(input: Tensor, target: Tensor, class_dim: int) -> bool:
    """Refuse a target that fits neither reading; return whether it holds class probabilities."""
    if not isinstance(target, Tensor):
        raise ValueError(f"target must be a tensor of class indices or class probabilities, got {type(target).__name__}")
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :]
    if target.shape == input.shape:
        if not target.is_floating_point():
            raise ValueError(
                f"target has the shape of input, {list(input.shape)}, and is therefore read as class probabilities, which must be "
                f"floating point; got {target.dtype}. Class indices would have the shape {list(index_shape)}"
            )
        return True
    if target.shape != index_shape:
        raise ValueError(
            f"target of shape {list(target.shape)} does not fit input of shape {list(input.shape)}: expected class indices of shape "
            f"{list(index_shape)} or class probabilities of shape {list(input.shape)}"
        )
    if target.dtype not in (torch.int64, torch.uint8):
        raise ValueError(f"class indices must be int64 or uint8, got {target.dtype}; convert them with target.long()")
    return False


def _check_options(
    input: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float, class_dim: int, soft: bool
) -> None:
    """Refuse options that cross_entropy would refuse, with what to do instead."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing must lie in [0, 1], got {label_smoothing}")
    if soft and ignore_index >= 0:
        raise ValueError("ignore_index needs class indices; with class probabilities give the sample a row of zeros instead")
    classes = input.shape[class_dim]
    if weight is not None and (not isinstance(weight, Tensor) or weight.shape != (classes,) or not weight.is_floating_point()):
        given = f"{weight.dtype} of shape {list(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
        raise ValueError(f"weight must be a floating tensor with one factor for each class, shape [{classes}]; got {given}")


def _positive(name: str, value: float | Tensor, index_shape: torch.Size) -> float | Tensor:
    """Refuse a value that is not positive and finite, or that does not broadcast to one value for each sample."""
    if not isinstance(value, Tensor):
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be a number or a tensor, got {type(value).__name__}") from error
        if isinstance(value, bool) or not 0 < number < math.inf:
            raise ValueError(f"{name} must be a finite number > 0, got {value}")
        return number
    if value.is_complex() or value.dtype == torch.bool:
        raise ValueError(f"{name} must be a real tensor, got {value.dtype}")
    try:
        fits = torch.broadcast_shapes(value.shape, index_shape) == index_shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} of shape {list(value.shape)} does not broadcast to one value for each sample, shape {list(index_shape)}; "
            f"add trailing dimensions of size 1 to a {name} for each row"
        )
    if value.device.type == "cpu" and not torch.compiler.is_compiling():
        detached = value.detach()
        try:
            accepted = bool(((detached > 0) & torch.isfinite(detached)).all())
        except RuntimeError:  # inside vmap a value cannot be looked at
            accepted = True
        if not accepted:
            raise ValueError(f"{name} must be finite and > 0 everywhere, got {value}")
    return value


def _compute_in(input: Tensor) -> tuple[Tensor, torch.dtype]:
    """The logits in the type to compute in, and the type of the result: that of the input, or float32 under autocast."""
    compute = _COMPUTE_DTYPE[input.dtype]
    result = compute if torch.is_autocast_enabled(input.device.type) else input.dtype
    return input.to(compute), result


def _over_classes(value: float | Tensor, class_dim: int, logits: Tensor) -> float | Tensor:
    """A value for each sample, shaped to broadcast over the classes."""
    if not isinstance(value, Tensor):
        return value
    index_shape = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    return value.to(logits).expand(index_shape).unsqueeze(class_dim)


def _log_over_samples(beta: float | Tensor, class_dim: int, logits: Tensor) -> Tensor | None:
    """Log β for each sample, in the shape of the class indices; None where β is the number 1, which needs no work."""
    index_shape = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    if isinstance(beta, Tensor):
        return torch.log(beta.to(logits)).expand(index_shape)
    return None if beta == 1.0 else logits.new_full(index_shape, math.log(beta))
