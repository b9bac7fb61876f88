r"""The losses ``penalty(r − a)`` as one Triton kernel, for logits of many classes on a GPU: ``pip install gdlib[triton]``.

A row is read once to reduce it to :math:`r = \log \sum_{i \neq c} e^{z_i}`, without the true class, so that :math:`1 - p_c` keeps its
digits, and once more to write its gradient. Nothing waits for the GPU, and nothing of the size of the logits is kept but the gradient.
Without a GPU, ``TRITON_INTERPRET=1`` in the environment runs the kernel in Python; the tests do. It has not been timed on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gdlib.functional import arcface_cross_entropy, cosface_cross_entropy, focal_cross_entropy, gd_cross_entropy, soft_margin_cross_entropy
from gdlib.functional.options import Reduction, reduce_indices

__all__ = ["SERVED", "fused_loss"]

_BLOCK = 2048  # classes at a time; 4,096 need nearly all registers of a program of four warps


@triton.jit
def _kernel(z, target, loss, gradient, rows, ignore_index, classes: tl.constexpr, wide: tl.constexpr, focal: tl.constexpr, angular: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def] # fmt: skip # noqa: E501
    row = tl.program_id(0).to(tl.int64)
    z += row * classes
    gradient += row * classes
    # of the row: what z is multiplied by, what is added to r - a, what is added to the loss, and γ or the margin in the angle
    scale, shift, plus, extra = (
        tl.load(rows + 4 * row),
        tl.load(rows + 4 * row + 1),
        tl.load(rows + 4 * row + 2),
        tl.load(rows + 4 * row + 3),
    )
    index = tl.load(target + row)
    valid = index != ignore_index
    true = tl.load(z + tl.where(valid, index, 0)).to(wide)
    place = tl.arange(0, block)
    largest = tl.full((), -float("inf"), wide)
    total = tl.full((), 0.0, wide)
    for start in range(0, classes, block):
        others = (start + place < classes) & (start + place != index)
        values = tl.load(z + start + place, mask=others, other=-float("inf")).to(wide) * scale
        new = tl.maximum(largest, tl.max(values, 0))
        safe = tl.where(new == -float("inf"), 0.0, new)  # all classes so far are masked
        total = total * tl.exp(largest - safe) + tl.sum(tl.exp(values - safe), 0)
        largest = new
    logsumexp = largest + tl.log(total)
    own, slope = scale * true, scale + 0.0 * true  # the true logit and its derivative
    if angular:
        cosine, sine = tl.cos(extra), tl.sin(extra)
        height = tl.sqrt(tl.maximum(1.0 - true * true, 1e-12))
        moved = true >= -cosine  # θ + m <= π
        own = scale * tl.where(moved, true * cosine - height * sine, true - extra * sine)
        slope = scale * tl.where(moved, cosine + true / height * sine, 1.0)
    x = logsumexp - own + shift
    tail = tl.log(1.0 + tl.exp(-tl.abs(x)))
    above, below = tl.maximum(x, 0.0) + tail, tl.maximum(-x, 0.0) + tail  # softplus(x), softplus(-x)
    value, rate = above, tl.exp(-below)
    if focal:
        weight = tl.exp(-extra * below)  # (1 - p)^γ
        value, rate = weight * above, weight * (tl.exp(-below) + extra * tl.exp(-above) * above)
    tl.store(loss + row, tl.where(valid, value + plus, 0.0))
    rate = tl.where(valid, rate, 0.0)
    for start in range(0, classes, block):
        inside = start + place < classes
        values = tl.load(z + start + place, mask=inside, other=-float("inf")).to(wide) * scale
        wrong = rate * scale * tl.exp(tl.minimum(values - logsumexp, 0.0))
        wrong = tl.where(valid & (logsumexp > -float("inf")), wrong, 0.0)
        tl.store(
            gradient + start + place, tl.where(start + place == index, -rate * slope, wrong).to(gradient.dtype.element_ty), mask=inside
        )


def _rows(function: Callable[..., Tensor], given: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """What the kernel takes of the parameters: scale, shift, what is added, γ or angle."""
    beta, margin, scale = given.get("beta", 1.0), given.get("margin", 0.0), given.get("scale", 64.0)
    if function is gd_cross_entropy:
        log_beta = torch.log(beta) if isinstance(beta, Tensor) else math.log(beta)
        return 1 / given.get("temperature", 1.0), -log_beta, log_beta, 0.0
    if function is soft_margin_cross_entropy:
        return 1.0, margin, 0.0, 0.0
    if function is cosface_cross_entropy:
        return scale, scale * given.get("margin", 0.35), 0.0, 0.0
    return (scale, 0.0, 0.0, given.get("margin", 0.5)) if function is arcface_cross_entropy else (1.0, 0.0, 0.0, given.get("gamma", 2.0))


SERVED = (gd_cross_entropy, soft_margin_cross_entropy, focal_cross_entropy, cosface_cross_entropy, arcface_cross_entropy)
"""The losses that the kernel computes."""


def _run(input: Tensor, target: Tensor, function: Callable[..., Tensor], ignore_index: int, given: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Compute the loss of every sample and its gradient."""
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    wider = {name: value.to(input.device, wide) if isinstance(value, Tensor) else value for name, value in given.items()}
    rows = [torch.as_tensor(value, dtype=wide, device=input.device).expand(len(input)) for value in _rows(function, wider)]
    losses, gradient = torch.empty(len(input), dtype=wide, device=input.device), torch.empty_like(input)
    compile_time = {
        "wide": tl.float64 if wide == torch.float64 else tl.float32,
        "focal": function is focal_cross_entropy,
        "angular": function is arcface_cross_entropy,
        "block": min(_BLOCK, triton.next_power_of_2(input.shape[1])),
    }
    if len(input):
        given_at_run = (input, target, losses, gradient, torch.stack(rows, 1), ignore_index)
        _kernel[(len(input),)](*given_at_run, input.shape[1], **compile_time, num_warps=8)
    return losses, gradient


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, input: Tensor, target: Tensor, function: Callable[..., Tensor], ignore_index: int, given: dict[str, Any]
    ) -> Tensor:
        losses, ctx.gradient = _run(input.contiguous(), target, function, ignore_index, given)
        ctx.options = function, ignore_index, given
        ctx.save_for_backward(input, target)
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        gradient, ctx.gradient = ctx.gradient, None  # drop our reference so that autograd can take the buffer
        input, target = ctx.saved_tensors
        function, ignore_index, given = ctx.options
        if not torch.is_grad_enabled():
            if gradient is None:  # a graph that is used again
                gradient = _run(input.contiguous(), target, function, ignore_index, given)[1]
            return gradient.mul_(grad.unsqueeze(1)), None, None, None, None
        eager = function(input, target, ignore_index=ignore_index, reduction="none", **given)  # double backward
        (gradient,) = torch.autograd.grad(eager, input, grad.to(eager.dtype), create_graph=True)
        return gradient, None, None, None, None


def fused_loss(
    function: Callable[..., Tensor],
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    **parameters: float | Tensor,
) -> Tensor:
    """Compute a loss of :data:`SERVED` by the kernel: ``fused_loss(gd_cross_entropy, logits, labels, beta=0.1)``.

    Args:
        function: the loss.
        input: logits or cosines ``[N, C]`` of any floating type, on a GPU; computed in float32, or in float64 as they are.
        target: class indices ``[N]``. They are not checked: that would wait for the GPU.
        weight: as in the function.
        ignore_index: as in the function.
        reduction: as in the function.
        **parameters: those of the function, each a number or a tensor ``[N]``; they get no gradient.

    Raises:
        ValueError: for a loss that the kernel does not compute, or inputs of other shapes.
    """
    if function not in SERVED or not parameters.pop("monotone", True):
        raise ValueError(f"the kernel computes {', '.join(one.__name__ for one in SERVED)}, arcface with monotone=True; got {function}")
    if input.ndim != 2 or target.shape != input.shape[:1]:
        raise ValueError(f"the kernel takes logits [N, C] and class indices [N]; got {list(input.shape)} and {list(target.shape)}")
    losses = _Fused.apply(input, target.long(), function, ignore_index, parameters)
    valid = target != ignore_index
    return reduce_indices(losses, torch.where(valid, target.long(), 0), valid, weight, reduction).to(input.dtype)
