r"""The batch of a loss: checked arguments, the log-sum-exp of the other classes, the reduction.

Most losses treat the true class separately and see the others only through :math:`r_c = \log
\sum_{i \neq c} e^{z_i}`. They work with :math:`r_c - a_c`, where :math:`a_c` is the true logit: the
cross-entropy is the softplus of this difference, and no digit of :math:`1 - p_c` is lost.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gdlib.functional._arguments import (
    COMPUTE_DTYPE,
    FLOATING,
    Bound,
    Reduction,
    autocasts,
    broadcasts,
    check_dense,
    check_ignore_index,
    check_not_meta,
    check_number,
    check_parameter,
    check_reduction,
    check_weight,
    extremes,
    lowest,
    readable,
)

_AS_TENSOR = "; torch.as_tensor makes one from an array or a list"
_SLACK = 0.02
"""How far the sum of class probabilities in bfloat16 may be from 1."""


class Batch:
    """The checked arguments of a loss: target, options, and the types to compute in and to return.

    The logits are checked, and not kept. Losses of samples keep the class dimension. With class
    indices it has size 1, for the true class. With class probabilities, which a loss may have a
    reason to refuse (``only_indices``), and with label smoothing, every class in turn is the true
    one: the loss is *mixed*.
    """

    def __init__(
        self,
        input: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        *,
        only_indices: str = "",
    ) -> None:
        self.dim = dim = _class_dimension(input)
        self.device = input.device
        self.index_shape = input.shape[:dim] + input.shape[dim + 1 :]
        self.soft = _is_soft(input, target, self.index_shape, only_indices)
        self.classes = classes = input.shape[dim]
        check_reduction(reduction)
        check_number("label_smoothing", label_smoothing, "in [0, 1]")
        check_ignore_index(ignore_index)
        check_weight(weight, classes)
        if target.device != self.device:
            raise ValueError(
                f"target is on {target.device} and input on {self.device}; move one of them: "
                f"target.to({str(self.device)!r})"
            )
        if weight is not None:
            check_not_meta("weight", weight, self.device)
        if self.soft and ignore_index >= 0:
            raise ValueError(
                "ignore_index needs class indices; with class probabilities give a sample that "
                "should not count a row of zeros"
            )
        self.dtype = COMPUTE_DTYPE[input.dtype]
        self.result_dtype = self.dtype if autocasts(self.device.type) else input.dtype
        self.target, self.weight = target, weight
        self.reduction, self.smoothing = reduction, label_smoothing
        self.mixed = self.soft or label_smoothing > 0
        if self.soft:
            self.valid = _rows_that_count(target, dim)
        else:
            index = target.long()
            self.valid = index != ignore_index
            self.index = torch.where(self.valid, index, 0)
            self.true_class = self.index.unsqueeze(dim)
            smallest, largest = extremes(self.index, 0)
            if smallest < 0 or largest >= classes:
                outside = self.index[(self.index < 0) | (self.index >= classes)]
                raise ValueError(
                    f"class index {outside[0].item()} lies outside [0, {classes}): input has "
                    f"{classes} classes; mark samples that should not count with ignore_index"
                )

    @classmethod
    def of_shape(
        cls,
        shape: tuple[int, ...],
        like: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> Batch:
        """Check class indices and options without making the logits.

        These would have the type and the device of the tensor ``like``.
        """
        logits = torch.empty((), dtype=like.dtype, device=like.device).expand(shape)
        why = "this is a loss of classes"
        return cls(logits, target, weight, ignore_index, reduction, only_indices=why)

    @classmethod
    def of_rows(
        cls,
        name: str,
        rows: Tensor,
        target: Tensor,
        classes: int | None = None,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> Batch:
        """Check rows ``[N, K]`` or ``[R, N, K]`` with class indices ``[N]`` or ``[R, N]``.

        There are K classes unless ``classes`` is given.
        """
        for what, value in ((name, rows), ("target", target)):
            if not isinstance(value, Tensor):
                raise ValueError(f"{what} must be a tensor; got {type(value).__name__}")
        if not rows.is_floating_point():
            raise ValueError(f"{name} must be floating point; got {rows.dtype}")
        if rows.ndim not in (2, 3) or target.shape != rows.shape[:-1] or target.is_floating_point():
            raise ValueError(
                f"expected {name} [N, K] or [R, N, K] with class indices [N] or [R, N]; got "
                f"{list(rows.shape)} and {target.dtype} of shape {list(target.shape)}"
            )
        shape = (rows.shape[0], rows.shape[-1] if classes is None else classes, *target.shape[1:])
        return cls.of_shape(shape, rows, target, weight, ignore_index, reduction)

    def values(self, input: Tensor) -> Tensor:
        """Return the logits in the type to compute in, as :meth:`of_counted` leaves them."""
        return self.of_counted(input.to(self.dtype), self.dim)

    def of_counted(self, values: Tensor, dim: int) -> Tensor:
        """Set the samples that do not count to 0, if they hold NaN or infinity.

        The product with their gradient of 0 would be NaN. Where values cannot be read, set them in
        any case.
        """
        if readable(values) and (self.valid.all() or values.detach().sum().isfinite()):
            return values
        return torch.where(self.valid.unsqueeze(dim), values, 0.0)

    def check(self, name: str, value: float | Tensor, bound: Bound) -> float | Tensor:
        """Check a number, or a tensor with one value for each sample."""
        if isinstance(value, Tensor):
            check_not_meta(name, value, self.device)
        return check_parameter(name, value, bound, self.index_shape)

    def parameter(self, name: str, value: float | Tensor, bound: Bound) -> float | Tensor:
        """Check as :meth:`check` does, and shape a tensor to broadcast over the classes."""
        return self.over_classes(self.check(name, value, bound))

    def over_classes(self, value: Any, dtype: torch.dtype | None = None) -> Any:
        """Shape a tensor that :meth:`check` returned to broadcast over the classes."""
        if not isinstance(value, Tensor):
            return value
        value = value.to(self.device, dtype or self.dtype)
        return value.expand(self.index_shape).unsqueeze(self.dim)

    def for_each_logit(self, name: str, given: Tensor, values: Tensor, wanted: str) -> Tensor:
        """Check a tensor that must broadcast to the logits; return one number for each of them."""
        if not isinstance(given, Tensor) or not broadcasts(given.shape, values.shape):
            got = list(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(f"{name} must be a tensor that broadcasts to {wanted}; got {got}")
        check_not_meta(name, given, self.device)
        return self.of_counted(given.to(values).expand(values.shape), self.dim)

    def true(self, values: Tensor) -> Tensor:
        """Select the true class; the identity where every class in turn is the true one."""
        return values if self.mixed else values.gather(self.dim, self.true_class)

    def log_odds_against(self, logits: Tensor, true: Tensor | None = None) -> Tensor:
        """Compute r - a: the log-sum-exp of the other logits minus the true logit.

        For unchanged logits it is the logarithm of (1 - p) / p. A loss that changes the true logit
        gives it as ``true``.
        """
        shift = logits.detach().amax(self.dim, keepdim=True)
        logits = logits - shift  # keeps small differences of large logits
        true = self.true(logits) if true is None else true - shift
        if self.mixed:
            return log_of_others(logits, self.dim) - true
        others = logits.scatter(self.dim, self.true_class, lowest(logits))
        return torch.logsumexp(others, self.dim, keepdim=True) - true

    def shares(self) -> tuple[Tensor, Tensor | None]:
        """Return the share of each class in a mixed loss, with its weight.

        The second result is how much more the true class has, or None if the target holds
        probabilities.
        """
        if self.weight is None:
            weight = self.valid.new_ones(1, dtype=self.dtype)
        else:
            weight = self.weight.to(self.device, self.dtype)
        of_true = weight.expand(self.classes)
        behind = len(self.index_shape) - self.dim
        weight = weight.reshape([1] * self.dim + [-1] + [1] * behind)
        spread = weight * (self.smoothing / self.classes)
        rest = 1 - self.smoothing
        if self.soft:
            return spread + self.target.to(self.dtype) * rest * weight, None
        return spread, rest * of_true[self.true_class]

    def used(self) -> Tensor:
        """Return the weight of each sample in the divisor of the mean, 0 if it does not count."""
        valid = self.valid.to(self.dtype)
        if self.soft or self.weight is None:
            return valid
        return self.weight.to(valid)[self.index] * valid

    def reduce(self, losses: Tensor, of_true: Tensor | None = None) -> Tensor:
        """Reduce losses, and add those of the true classes alone, ``of_true``.

        Label smoothing does not change the latter.
        """
        if self.mixed:
            spread, own = self.shares()
            mixed = shared(spread, losses, self.dim)
            if own is not None:
                mixed = mixed + shared(own, losses.gather(self.dim, self.true_class), self.dim)
            reduced = self.reduce_samples(mixed.squeeze(self.dim), weighted=True)
        else:
            reduced = self.reduce_samples(losses.squeeze(self.dim), weighted=False)
        if of_true is not None:
            reduced = reduced + self.reduce_samples(of_true.squeeze(self.dim), weighted=False)
        return reduced.to(self.result_dtype)

    def reduce_samples(self, losses: Tensor, *, weighted: bool) -> Tensor:
        """Mask and reduce one loss for each sample, and weight it first unless ``weighted``.

        The mean of nothing is NaN, as in PyTorch, and has the gradient 0.
        """
        used = self.used()
        if self.weight is not None and not weighted:
            losses = shared(used, losses)
        losses = torch.where(self.valid, losses, 0.0)
        if self.reduction == "none":
            return losses
        if self.reduction == "sum":
            return losses.sum()
        total = used.sum()
        none = total == 0  # no sample counts, or all used weights are 0
        if self.weight is None:  # the mask above stops a gradient of NaN
            return losses.sum() / total.masked_fill(none, math.nan)
        return (losses.sum() / total.masked_fill(none, 1.0)).masked_fill(none, math.nan)

    def scales(self) -> Tensor:
        """Return the factor of each sample's loss in :meth:`reduce`, with the class dimension."""
        used = self.used()
        scales = self.valid.to(used) if self.mixed else used
        if self.reduction == "mean":
            total = used.sum()
            scales = torch.where(self.valid & (total != 0), scales / total, 0.0)
        return scales.unsqueeze(self.dim)


def shared(share: Tensor, losses: Tensor, dim: int | None = None) -> Tensor:
    """Multiply losses by their shares, and sum over a dimension, which is kept.

    A share of 0 of an infinite loss is 0, as 0 log 0 is.
    """
    product = share * losses
    result = product if dim is None else product.sum(dim, keepdim=True)
    if readable(result) and not math.isnan(result.sum().item()):
        return result
    product = share * losses.masked_fill((share == 0.0) & losses.isinf(), 0.0)
    return product if dim is None else product.sum(dim, keepdim=True)


def _rows_that_count(target: Tensor, dim: int) -> Tensor:
    """Say which samples have class probabilities that are not all 0.

    Refuse values that are not probabilities, where they can be read.
    """
    target = target.detach()
    total = target.sum(dim, dtype=torch.promote_types(target.dtype, torch.float32))
    counted = total != 0.0
    if readable(total):
        if target.shape[dim] == 1 and not counted.all():
            raise ValueError(
                "input has one class, from which nothing can be learnt; for a binary problem give "
                "the logits of two, torch.cat([0 * input, input], 1), and class indices"
            )
        smallest, largest = extremes(target, 0.0)
        least, most = extremes(total)
        if least < 1 - _SLACK:  # are these rows all 0?
            least, _ = extremes(torch.where(counted, total, 1.0))
        if not (smallest >= -_SLACK and 1 - _SLACK <= least and most <= 1 + _SLACK):
            raise ValueError(
                "target has the shape of input and must hold class probabilities, which are >= 0 "
                "and sum to 1 over the classes, or are all 0 for a sample that does not count; got "
                f"values from {smallest:.4g} to {largest:.4g} and sums from {least:.4g} to "
                f"{most:.4g}. Turn logits into probabilities by torch.softmax, and divide counts "
                "by their sum"
            )
    return counted


def _class_dimension(input: Tensor) -> int:
    """Refuse what cannot be logits; return the class dimension."""
    if not isinstance(input, Tensor):
        raise ValueError(
            f"input must be a tensor of logits, got {type(input).__name__}{_AS_TENSOR}"
        )
    if input.dtype not in FLOATING:
        raise ValueError(
            "input must hold logits of type float16, bfloat16, float32 or float64, got "
            f"{input.dtype}; convert it with .float()"
        )
    check_dense("input", input)
    if input.ndim == 0:
        raise ValueError(
            "input must have a class dimension: shape [C], [N, C] or [N, C, d1, ...], got a scalar"
        )
    class_dim = min(1, input.ndim - 1)
    if input.shape[class_dim] == 0:
        raise ValueError(
            f"input of shape {list(input.shape)} has no classes (dimension {class_dim})"
        )
    return class_dim


def _is_soft(input: Tensor, target: Tensor, index_shape: torch.Size, only_indices: str) -> bool:
    """Refuse a target that fits neither reading; return whether it holds class probabilities.

    The text ``only_indices`` says why a loss refuses them.
    """
    if not isinstance(target, Tensor):
        raise ValueError(
            "target must be a tensor of class indices or class probabilities, got "
            f"{type(target).__name__}{_AS_TENSOR}"
        )
    check_dense("target", target)
    if target.shape == input.shape:
        if not target.is_floating_point():
            raise ValueError(
                f"target has the shape of input, {list(input.shape)}, and is therefore read as "
                f"class probabilities, which must be floating point; got {target.dtype}. "
                f"Class indices would have the shape {list(index_shape)}"
            )
        if only_indices:
            raise ValueError(
                f"target must hold class indices: {only_indices}; got class probabilities"
            )
        return True
    if target.shape != index_shape:
        behind = ""
        if input.ndim > 2 and target.shape == input.shape[:-1]:
            behind = (
                ". The classes seem to be last, as in [B, T, V]: "
                "they must be second, give input.movedim(-1, 1)"
            )
        raise ValueError(
            f"target of shape {list(target.shape)} does not fit input of shape "
            f"{list(input.shape)}: expected class indices of shape {list(index_shape)} or class "
            f"probabilities of shape {list(input.shape)}{behind}"
        )
    if target.dtype not in (torch.int64, torch.uint8):
        raise ValueError(
            f"class indices must be int64 or uint8, got {target.dtype}; "
            "convert them with target.long()"
        )
    return False


def log_of_others(logits: Tensor, class_dim: int) -> Tensor:
    """Return for each class the log-sum-exp of all others, in the shape of the logits.

    It is the full log-sum-exp plus ``log1p(-p_c)``; for the largest class, where ``1 - p_c`` has
    lost its digits, it is summed afresh.
    """
    top = logits.detach().argmax(class_dim, keepdim=True)
    log_total = torch.logsumexp(logits, class_dim, keepdim=True)
    log_total_without_top = torch.logsumexp(
        logits.scatter(class_dim, top, lowest(logits)), class_dim, keepdim=True
    )
    probability = torch.exp(logits - log_total).scatter(class_dim, top, 0.0)
    return (log_total + torch.log1p(-probability)).scatter(class_dim, top, log_total_without_top)
