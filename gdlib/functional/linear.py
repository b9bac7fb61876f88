"""A linear layer and the gradient-decay loss in one function, without the array of all logits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional.fused import differentiable_gradient, is_batch, loss_and_gradient, serves, times
from gdlib.functional.gradient_decay import gd_cross_entropy
from gdlib.functional.options import Reduction, check_options, compute_in, positive, reduce_indices, valid_index

__all__ = ["linear_gd_cross_entropy"]

_BLOCK = 2**20
"""So many logits are held at a time, unless the caller says otherwise."""


def linear_gd_cross_entropy(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    beta: float | Tensor = 1.0,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    block_rows: int | None = None,
) -> Tensor:
    r"""The gradient-decay cross-entropy of a linear layer, :math:`J(h W^T + b)`, that never stores all logits.

    The value and the gradients are those of ``gd_cross_entropy(F.linear(features, weight, bias), target, beta)``. The logits are made for a
    few rows at a time; for ``reduction="mean"`` and ``"sum"`` the gradients of features, weight and bias are made in the same pass, for
    ``"none"`` the logits are made a second time in the backward pass. Beside the gradients themselves the memory is that of one block.

    Args:
        features: inputs of the layer, :math:`h`, of shape ``[N, D]``.
        weight: of the layer, :math:`W`, of shape ``[C, D]``, as :func:`torch.nn.functional.linear` takes it.
        target: class indices ``[N]``.
        beta: the gradient-decay factor :math:`\beta > 0`, a number or a tensor that broadcasts to ``[N]``.
        bias: of the layer, ``[C]``.
        temperature: :math:`\tau > 0`, a number that divides the logits.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        block_rows: samples whose logits are held at a time; None for about a million logits.

    Returns:
        The loss in nats: a scalar, or ``[N]`` for ``reduction="none"``.

    Raises:
        ValueError: for shapes that do not fit, and for whatever :func:`gd_cross_entropy` refuses.

    Note:
        Second derivatives, ``torch.func`` transforms, ``torch.compile`` and a learnt ``beta`` go through the two functions one after the
        other, logits and all.

    Example:
        >>> import torch
        >>> features, weight, labels = torch.eye(2), torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> linear_gd_cross_entropy(features, weight, labels, beta=0.1, reduction="none")   # logits (2, 0) and (0, 1)
        tensor([-1.4467,  1.0361])

    References:
        The loss: *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 5 and 8.
    """
    _check(features, weight, target, bias, block_rows)
    check_options(weight.T, None, ignore_index, reduction, 0.0, 1, False)
    beta = positive("beta", beta, target.shape)
    if not isinstance(temperature, (int, float)) or not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be a finite number > 0, which is the same for all samples; got {temperature}")
    parts = [part for part in (features, weight, bias) if part is not None]
    if len(features) == 0 or not all(serves(part, beta) for part in parts):
        logits = F.linear(features, weight, bias)
        return gd_cross_entropy(logits, target, beta=beta, temperature=temperature, ignore_index=ignore_index, reduction=reduction)

    compute, result_dtype = compute_in(features)
    valid, index = valid_index(target, ignore_index, weight.shape[0])
    rows = block_rows or max(1, _BLOCK // weight.shape[0])
    scale = {"none": None, "sum": valid.to(compute), "mean": valid.to(compute) / valid.sum()}[reduction]
    loss = _BlockwiseLinear.apply(
        compute, weight.to(compute), None if bias is None else bias.to(compute), index, beta, temperature, scale, rows
    )
    if reduction == "none":
        loss = reduce_indices(loss, index, valid, None, "none")
    return loss.to(result_dtype)


class _BlockwiseLinear(torch.autograd.Function):
    """The losses ``[N]`` if ``scale`` is None, else their sum weighted by ``scale`` ``[N]``."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        index: Tensor,
        beta: float | Tensor,
        temperature: float,
        scale: Tensor | None,
        rows: int,
    ) -> Tensor:
        """The blocks of rows one after another."""
        ctx.save_for_backward(features, weight, bias, index, beta if isinstance(beta, Tensor) else None, scale)
        ctx.options = beta, temperature, rows
        ctx.gradients = None
        if scale is None or not any(ctx.needs_input_grad[:3]):
            losses = features.new_empty(len(features))
            for block, part, _ in _blocks(features, weight, bias, index, beta, temperature, rows):
                losses[block] = part
        else:
            losses, ctx.gradients = _gradients(features, weight, bias, index, beta, temperature, scale, rows, ctx.needs_input_grad[:3])
        return losses if scale is None else _weighted_sum(losses, scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients times the incoming one; made now if the forward pass did not know their factors."""
        features, weight, bias, index, beta, scale = ctx.saved_tensors
        number, temperature, rows = ctx.options
        beta = number if beta is None else beta
        gradients, ctx.gradients = ctx.gradients, None
        if torch.is_grad_enabled() or (scale is None and is_batch(grad)):
            factor = (grad if scale is None else grad * scale).unsqueeze(1) / temperature
            gradient = factor * differentiable_gradient(F.linear(features, weight, bias) / temperature, index, beta, 1)
            gradients = [gradient @ weight, gradient.mT @ features, gradient.sum(0)]
        elif scale is None:
            _, gradients = _gradients(features, weight, bias, index, beta, temperature, grad, rows, ctx.needs_input_grad[:3])
        else:
            if gradients is None:  # the graph is used again
                _, gradients = _gradients(features, weight, bias, index, beta, temperature, scale, rows, ctx.needs_input_grad[:3])
            gradients = [None if gradient is None else times(gradient, grad) for gradient in gradients]
        gradients = [gradient if needed else None for gradient, needed in zip(gradients, ctx.needs_input_grad[:3], strict=True)]
        return *gradients, None, None, None, None, None


def _weighted_sum(losses: Tensor, scale: Tensor) -> Tensor:
    """Samples of scale 0 are ignored, whatever their loss."""
    return torch.where(scale != 0, losses * scale, 0.0).sum()


def _blocks(
    features: Tensor, weight: Tensor, bias: Tensor | None, index: Tensor, beta: float | Tensor, temperature: float, rows: int
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """The rows of each block, their losses, and the gradient of each loss with respect to its logits times τ."""
    for start in range(0, len(features), rows):
        block = slice(start, start + rows)
        logits = F.linear(features[block], weight, bias).div_(temperature)
        chosen = beta.expand(index.shape)[block] if isinstance(beta, Tensor) else beta
        losses, gradient, divisor = loss_and_gradient(logits, index[block], chosen, 1)
        del logits
        yield block, losses.squeeze(1), gradient.div_(divisor)
        del gradient, losses, divisor


def _gradients(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    index: Tensor,
    beta: float | Tensor,
    temperature: float,
    factor: Tensor,
    rows: int,
    needed: tuple[bool, ...],
) -> tuple[Tensor, list[Tensor | None]]:
    """The losses, and the gradients of their sum weighted by ``factor`` ``[N]`` with respect to features, weight and bias."""
    of_features = torch.empty_like(features) if needed[0] else None
    of_weight = torch.zeros_like(weight) if needed[1] else None
    of_bias = torch.zeros_like(bias) if bias is not None and needed[2] else None
    losses = features.new_empty(len(features))
    for block, block_losses, gradient in _blocks(features, weight, bias, index, beta, temperature, rows):
        losses[block] = block_losses
        gradient.mul_(factor[block].unsqueeze(1) / temperature)
        if of_features is not None:
            torch.mm(gradient, weight, out=of_features[block])
        if of_weight is not None:
            of_weight.addmm_(gradient.T, features[block])
        if of_bias is not None:
            of_bias.add_(gradient.sum(0))
        del gradient  # before the next block is made
    return losses, [of_features, of_weight, of_bias]


def _check(features: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, block_rows: int | None) -> None:
    """Refuse shapes that make no linear layer with a loss."""
    for name, value in (("features", features), ("weight", weight)):
        if not isinstance(value, Tensor) or value.ndim != 2 or not value.is_floating_point():
            given = f"{value.dtype} of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"{name} must be a floating tensor with two dimensions; got {given}")
    if weight.shape[1] != features.shape[1] or weight.shape[0] == 0:
        raise ValueError(
            f"weight of shape {list(weight.shape)} does not fit features of shape {list(features.shape)}: expected [C, {features.shape[1]}]"
        )
    if bias is not None and bias.shape != (weight.shape[0],):
        raise ValueError(f"bias must have one value for each class, shape [{weight.shape[0]}]; got {list(bias.shape)}")
    if not isinstance(target, Tensor) or target.shape != features.shape[:1] or target.dtype not in (torch.int64, torch.uint8):
        given = f"{target.dtype} of shape {list(target.shape)}" if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(f"target must hold class indices, int64 or uint8 of shape [{len(features)}]; got {given}")
    if block_rows is not None and (not isinstance(block_rows, int) or block_rows < 1):
        raise ValueError(f"block_rows must be a whole number > 0, or None; got {block_rows!r}")
