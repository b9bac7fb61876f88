"""A linear layer and the gradient-decay loss in one function, without the array of all logits."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional.fused import differentiable_gradient, is_batch, loss_and_gradient, serves, times
from gdlib.functional.gradient_decay import gd_cross_entropy
from gdlib.functional.options import Batch, Reduction, compute_in, over_classes, positive, reduce_indices

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
    _check(features, weight, bias, block_rows)
    shape = weight.new_empty(1, 1).expand(len(features), len(weight))
    batch = Batch(shape, target, only_indices="the layer is for classification", ignore_index=ignore_index, reduction=reduction)
    beta = positive("beta", beta, target.shape)
    if not isinstance(temperature, (int, float)) or not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be a finite number > 0, which is the same for all samples; got {temperature}")
    parts = [part for part in (features, weight, bias) if part is not None]
    if len(features) == 0 or not all(serves(part, beta) for part in parts):
        logits = F.linear(features, weight, bias)
        return gd_cross_entropy(logits, target, beta=beta, temperature=temperature, ignore_index=ignore_index, reduction=reduction)

    compute, result_dtype = compute_in(features)
    valid = batch.valid.to(compute)
    factor = {"none": None, "sum": valid, "mean": valid / valid.sum()}[reduction]
    layer = compute, weight.to(compute), None if bias is None else bias.to(compute)
    rows = block_rows or max(1, _BLOCK // len(weight))
    loss = _BlockwiseLinear.apply(*layer, batch.true_class, over_classes(beta, compute), factor, temperature, rows)
    if reduction == "none":
        loss = reduce_indices(loss, batch.index, batch.valid, None, "none")
    return loss.to(result_dtype)


class _BlockwiseLinear(torch.autograd.Function):
    """The losses ``[N]`` if ``factor`` is None, else their sum weighted by ``factor`` ``[N]``."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        """Compute one block of rows after another, given what :func:`_run` takes."""
        *layer, true_class, beta, factor, temperature, rows = given
        ctx.save_for_backward(*layer, true_class, beta if isinstance(beta, Tensor) else None, factor)
        ctx.options = beta, temperature, rows
        losses, gradients = _run(*given, needed=ctx.needs_input_grad)
        ctx.gradients = gradients if factor is not None else None
        return losses if factor is None else torch.where(factor != 0, losses * factor, 0.0).sum()  # ignored ones may be infinite

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradients by the incoming one, or make them now if the forward pass did not know their factors."""
        features, weight, bias, true_class, beta, factor = ctx.saved_tensors
        number, temperature, rows = ctx.options
        beta = number if beta is None else beta
        gradients, ctx.gradients = ctx.gradients, None
        if torch.is_grad_enabled() or (factor is None and is_batch(grad)):
            gradient = differentiable_gradient(F.linear(features, weight, bias) / temperature, true_class, beta, 1)
            gradient = (grad if factor is None else grad * factor).unsqueeze(1) / temperature * gradient
            gradients = [gradient @ weight, gradient.mT @ features, gradient.sum(0)]
        else:
            if gradients is None:  # none yet, or the graph is used again
                factors = grad if factor is None else factor
                _, gradients = _run(features, weight, bias, true_class, beta, factors, temperature, rows, needed=ctx.needs_input_grad)
            if factor is not None:
                gradients = [None if gradient is None else times(gradient, grad) for gradient in gradients]
        return *(part if needed else None for part, needed in zip(gradients, ctx.needs_input_grad, strict=False)), *[None] * 5


def _run(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    true_class: Tensor,
    beta: float | Tensor,
    factor: Tensor | None,
    *options: Any,
    needed: tuple[bool, ...],
) -> tuple[Tensor, list[Tensor | None]]:
    """Compute the losses and, if there is a factor, the gradients of their sum weighted by it, for features, weight and bias."""
    temperature, rows = options
    like = [
        None if part is None or factor is None or not asked else part for part, asked in zip((features, weight, bias), needed, strict=False)
    ]
    of_features, of_weight, of_bias = gradients = [None if part is None else torch.zeros_like(part) for part in like]
    losses = features.new_empty(len(features))
    for start in range(0, len(features), rows):
        block = slice(start, start + rows)
        logits = F.linear(features[block], weight, bias).div_(temperature)
        of_block, gradient, divisor = loss_and_gradient(logits, true_class[block], beta[block] if isinstance(beta, Tensor) else beta, 1)
        losses[block] = of_block.squeeze(1)
        del logits
        if factor is not None:
            gradient.div_(divisor).mul_(factor[block].unsqueeze(1) / temperature)
        if of_features is not None:
            torch.mm(gradient, weight, out=of_features[block])
        if of_weight is not None:
            of_weight.addmm_(gradient.T, features[block])
        if of_bias is not None:
            of_bias.add_(gradient.sum(0))
        del gradient  # before the next block is made
    return losses, gradients


def _check(features: Tensor, weight: Tensor, bias: Tensor | None, block_rows: int | None) -> None:
    """Refuse shapes that make no linear layer."""
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
    if block_rows is not None and (not isinstance(block_rows, int) or block_rows < 1):
        raise ValueError(f"block_rows must be a whole number > 0, or None; got {block_rows!r}")
