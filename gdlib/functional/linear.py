"""A linear layer and the gradient-decay loss in one function, without the array of all logits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional._arguments import (
    Reduction,
    autocasts,
    check_number,
    check_whole,
    has_tangent,
    tensor_by_keyword,
    without_autocast,
)
from gdlib.functional._fused import (
    against_classes,
    incoming,
    is_batched,
    is_fusable,
    multiply_in_place,
    saved_tensors_are_hooked,
)
from gdlib.functional._reduction import Batch
from gdlib.functional.gradient_decay import gd_cross_entropy

_BLOCK = 2**20
"""Logits held at a time, unless the caller says otherwise or the layer is larger."""
_SHARE_OF_WEIGHT = 8
"""A block may be as large as the weight divided by this; each block reads the weight again."""


@tensor_by_keyword("beta", "the bias of the layer is linear_bias=...")
def linear_gd_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    beta: float | Tensor = 1.0,
    *,
    linear_bias: Tensor | None = None,
    temperature: float = 1.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    block_rows: int | None = None,
) -> Tensor:
    r"""Compute the gradient-decay cross-entropy of a linear layer without storing all logits.

    .. math:: J(h W^T + b)

    The value and the gradients are those of ``gd_cross_entropy(F.linear(input, linear_weight,
    linear_bias), target, beta)``; the arguments have the names of
    :func:`torch.nn.functional.linear_cross_entropy`. The logits are computed a few rows at a time;
    for ``reduction="mean"`` and ``"sum"`` the gradients of features, weight and bias are computed
    in the same pass, for ``"none"`` the logits are computed again in the backward pass. Apart from
    the gradients themselves, the memory is that of one block. Features and weight in half precision
    are multiplied in float32, and under autocast the logits are not rounded: no digit of a
    confident sample is lost, but on a GPU, where products are fast in half precision, it takes many
    times as long as :func:`gd_from_nll` applied to PyTorch's own function. There are no class
    weights, no label smoothing and no class probabilities.

    Args:
        input: features :math:`h` before the layer, of shape ``[N, D]``.
        linear_weight: the weight :math:`W` of the layer, of shape ``[C, D]`` and the type of the
            features, as :func:`torch.nn.functional.linear` takes it.
        target: class indices ``[N]``.
        beta: the gradient-decay factor :math:`\beta > 0`, a number or a tensor that broadcasts to
            ``[N]``.
        linear_bias: the bias :math:`b` of the layer, ``[C]``.
        temperature: :math:`\tau > 0`, a number that divides the logits.
        block_rows: samples whose logits are held at a time; None for about a million logits, or an
            eighth of the size of the weight if that is more.

    Returns:
        The loss in nats: a scalar, or ``[N]`` for ``reduction="none"``.

    Raises:
        ValueError: for shapes that do not fit, and for whatever :func:`gd_cross_entropy` refuses.

    Note:
        Second derivatives, ``torch.func`` transforms, ``torch.compile``, a learnt ``beta`` and an
        extreme one (a number below 1e-6 or above 1e20; in float64 below 1e-20) store all logits, as
        the two functions do.

    Example:
        The logits are (2, 0) and (0, 1):

        >>> import torch
        >>> features, weight = torch.eye(2), torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> labels = torch.tensor([0, 0])
        >>> linear_gd_cross_entropy(features, weight, labels, beta=0.1, reduction="none")
        tensor([-1.4467,  1.0361])

    References:
        The loss: *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 5
        and 8.
    """
    _check(input, linear_weight, linear_bias)
    if block_rows is not None:
        check_whole("block_rows", block_rows, 1)
    temperature = check_number("temperature", temperature, "> 0")
    parts = [input, linear_weight] if linear_bias is None else [input, linear_weight, linear_bias]
    batch = Batch.of_shape(
        (input.shape[0], linear_weight.shape[0]),
        input,
        target,
        ignore_index=ignore_index,
        reduction=reduction,
    )
    beta = batch.check("beta", beta, "> 0")
    parts[0] = batch.of_counted(input, 1)

    def eager(features: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        parts = [part.to(batch.dtype) for part in (features, weight, bias) if part is not None]
        logits = without_autocast(lambda rows: F.linear(rows, *parts[1:]), parts[0], batch.dtype)
        return gd_cross_entropy(
            logits,
            target,
            beta=beta,
            temperature=temperature,
            ignore_index=ignore_index,
            reduction=reduction,
        )

    if not all(is_fusable(part, beta) for part in parts):
        return eager(*parts).to(batch.result_dtype)
    logits_at_a_time = max(_BLOCK, linear_weight.numel() // _SHARE_OF_WEIGHT)
    rows = block_rows or max(1, logits_at_a_time // len(linear_weight))
    blocks = _Blocks(batch, batch.over_classes(beta), temperature, rows)
    return _BlockwiseLinear.apply(
        blocks, eager, batch.scales(), target, *(part.to(batch.dtype) for part in parts)
    ).to(batch.result_dtype)


class _BlockwiseLinear(torch.autograd.Function):
    """The reduced losses of all blocks.

    Their gradients are computed in the forward pass, unless the losses are not summed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        blocks: _Blocks,
        eager: Callable[..., Tensor],
        scales: Tensor,
        target: Tensor,
        *parts: Tensor,
    ) -> Tensor:
        """Compute one block of rows after another."""
        summed = blocks.batch.reduction != "none"
        losses, gradients = blocks.run(parts, scales if summed else None, ctx.needs_input_grad[4:])
        ctx.functions = blocks, eager
        kept = gradients if summed else None
        watches = saved_tensors_are_hooked()
        ctx.gradients = None if watches else kept
        ctx.save_for_backward(scales, target, *parts, *(kept or () if watches else ()))
        return blocks.batch.reduce_samples(losses, weighted=False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradients by the incoming one, or compute them now if there are none."""
        needed = ctx.needs_input_grad[4:]
        scales, _, *saved = ctx.saved_tensors
        parts, seen = saved[: len(needed)], saved[len(needed) :]
        blocks, eager = ctx.functions
        gradients = ctx.gradients
        ctx.gradients = None  # drop our reference so that autograd can take the buffers
        again = torch.is_grad_enabled()  # to be differentiated again
        if again or (grad.ndim and (is_batched(grad) or has_tangent(grad))):
            with torch.enable_grad():
                # views: the inner pass ends at them, also where one is made of another
                parts = [part.view_as(part) for part in parts]
                loss = eager(*parts)
            made = iter(
                torch.autograd.grad(
                    loss, [part for part in parts if part.requires_grad], grad, create_graph=again
                )
            )
            return *[None] * 4, *(next(made) if wanted else None for wanted in needed)
        counted = blocks.batch.valid.unsqueeze(1)
        if grad.ndim:
            return *[None] * 4, *blocks.run(parts, scales * incoming(grad, counted), needed)[1]
        multiply = torch.mul if seen else multiply_in_place  # a hook may still hold them
        if gradients is None:  # or the graph is used again
            gradients = seen or blocks.run(parts, scales, needed)[1]
        of_samples, of_all = incoming(grad, counted), incoming(grad, counted.any())
        return *[None] * 4, *(
            None if gradient is None else multiply(gradient, of_all if place else of_samples)
            for place, gradient in enumerate(gradients)
        )


@dataclasses.dataclass
class _Blocks:
    """Logits that are computed a few rows at a time."""

    batch: Batch  # of shape
    beta: float | Tensor  # or [N, 1]
    temperature: float
    rows: int

    def run(
        self, parts: Sequence[Tensor], scales: Tensor | None, needed: Sequence[bool]
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Compute the losses, and the gradients for features, weight and bias.

        The gradients are those of the sum weighted by scales ``[N, 1]``; without scales there are
        none.
        """
        device = parts[0].device.type
        if autocasts(device):
            with torch.autocast(device, enabled=False):
                return self.run(parts, scales, needed)
        features, weight = parts[:2]
        bias = parts[2] if len(parts) > 2 else None
        gradients = [
            torch.empty_like(part) if asked and scales is not None else None
            for part, asked in zip(parts, needed, strict=True)
        ]
        of_features, of_weight = gradients[:2]
        of_bias = None if bias is None else gradients[2]
        wants_gradient = any(gradient is not None for gradient in gradients)
        losses = features.new_empty(len(features))
        true_class = self.batch.true_class
        for start in range(0, len(features), self.rows):
            block = slice(start, start + self.rows)
            logits = F.linear(features[block], weight, bias)
            if self.temperature != 1.0:
                logits = logits / self.temperature
            beta = self.beta[block] if isinstance(self.beta, Tensor) else self.beta
            divisor = 1.0 if scales is None else self.temperature / scales[block]
            of_block, gradient = against_classes(
                logits, true_class[block], beta, 1, divisor, wants_gradient=wants_gradient
            )
            losses[block] = of_block.squeeze(1)
            del logits
            if of_features is not None:
                torch.mm(gradient, weight, out=of_features[block])
            if of_weight is not None and start == 0:
                torch.mm(gradient.T, features[block], out=of_weight)
            elif of_weight is not None:
                of_weight.addmm_(gradient.T, features[block])
            if of_bias is not None and start == 0:
                torch.sum(gradient, 0, out=of_bias)
            elif of_bias is not None:
                of_bias.add_(gradient.sum(0))
            del gradient  # before the next block is made
        return losses, gradients


def _check(features: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Refuse what does not make a linear layer."""
    parts = [("input", features, 2), ("linear_weight", weight, 2), ("linear_bias", bias, 1)]
    for name, value, ndim in parts[: 2 if bias is None else 3]:
        if not isinstance(value, Tensor):
            raise ValueError(f"{name} must be a tensor; got {type(value).__name__}")
        if value.ndim != ndim or not value.is_floating_point():
            join = "; join batch and time by flatten(0, 1)" if value.ndim > ndim == 2 else ""
            raise ValueError(
                f"{name} must be floating with {ndim} dimensions; got {value.dtype} of shape "
                f"{list(value.shape)}{join}"
            )
        alike = value.dtype == features.dtype or autocasts(features.device.type)
        if value.device != features.device or not alike:
            raise ValueError(
                f"input and {name} must have one type, on one device; got {features.dtype} on "
                f"{features.device} and {value.dtype} on {value.device}"
            )
    if weight.shape[1] != features.shape[1] or weight.shape[0] == 0:
        raise ValueError(
            f"linear_weight of shape {list(weight.shape)} does not fit input of shape "
            f"{list(features.shape)}: expected [C, {features.shape[1]}]"
        )
    if bias is not None and len(bias) != len(weight):
        raise ValueError(
            f"linear_bias must have one value for each class, shape [{len(weight)}]; got "
            f"{list(bias.shape)}"
        )
