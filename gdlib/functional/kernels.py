r"""The gradient-decay loss as one Triton kernel, for logits of many classes on a GPU: ``pip install gdlib[triton]``.

A row is read once to reduce it to :math:`r = \log \sum_{i \neq c} e^{z_i}`, without the true class, so that :math:`1 - p_c` keeps its
digits, and once more to write its gradient. Nothing waits for the GPU, and nothing of the size of the logits is kept but the gradient.
Without a GPU, ``TRITON_INTERPRET=1`` in the environment runs the kernel in Python; the tests do. It has not been timed on a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gdlib.functional import gd_cross_entropy
from gdlib.functional.options import Reduction, reduce_indices

_BLOCK = 2048  # classes at a time; 4,096 need nearly all registers of a program of four warps


@triton.jit
def _kernel(z, target, loss, gradient, rows, ignore_index, classes: tl.constexpr, wide: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    z += row * classes
    gradient += row * classes
    scale, log_beta = tl.load(rows + 2 * row), tl.load(rows + 2 * row + 1)
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
    x = logsumexp - scale * true - log_beta
    tail = tl.log(1.0 + tl.exp(-tl.abs(x)))
    above, below = tl.maximum(x, 0.0) + tail, tl.maximum(-x, 0.0) + tail  # softplus(x), softplus(-x)
    tl.store(loss + row, tl.where(valid, above + log_beta, 0.0))
    rate = tl.where(valid, tl.exp(-below) * scale, 0.0)
    for start in range(0, classes, block):
        inside = start + place < classes
        values = tl.load(z + start + place, mask=inside, other=-float("inf")).to(wide) * scale
        wrong = rate * tl.exp(tl.minimum(values - logsumexp, 0.0))
        wrong = tl.where(valid & (logsumexp > -float("inf")), wrong, 0.0)
        tl.store(gradient + start + place, tl.where(start + place == index, -rate, wrong).to(gradient.dtype.element_ty), mask=inside)


def _run(input: Tensor, target: Tensor, beta: float | Tensor, temperature: float | Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Compute the loss of every sample and its gradient."""
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    tau, factor = (torch.as_tensor(value, dtype=torch.float64, device=input.device).expand(len(input)) for value in (temperature, beta))
    rows = torch.stack([1 / tau, factor.log()], 1).to(wide)
    losses, gradient = rows.new_empty(len(input)), torch.empty_like(input)
    if len(input):
        block, kind = min(_BLOCK, triton.next_power_of_2(input.shape[1])), tl.float64 if wide == torch.float64 else tl.float32
        _kernel[(len(input),)](input, target, losses, gradient, rows, ignore_index, input.shape[1], wide=kind, block=block, num_warps=8)
    return losses, gradient


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, target: Tensor, *options: Any) -> Tensor:
        losses, ctx.gradient = _run(input.contiguous(), target, *options)
        ctx.options = options
        ctx.save_for_backward(input, target)
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradient, ctx.gradient = ctx.gradient, None  # drop our reference so that autograd can take the buffer
        input, target = ctx.saved_tensors
        if not torch.is_grad_enabled():
            if gradient is None:  # a graph that is used again
                gradient = _run(input.contiguous(), target, *ctx.options)[1]
            return gradient.mul_(grad.unsqueeze(1)), None, None, None, None
        beta, temperature, ignore_index = ctx.options  # double backward
        eager = gd_cross_entropy(input, target, beta=beta, temperature=temperature, ignore_index=ignore_index, reduction="none")
        (gradient,) = torch.autograd.grad(eager, input, grad.to(eager.dtype), create_graph=True)
        return gradient, None, None, None, None


def fused_gd_cross_entropy(
    input: Tensor,
    target: Tensor,
    *,
    beta: float | Tensor = 1.0,
    temperature: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Compute :func:`gdlib.functional.gd_cross_entropy` by the kernel: ``fused_gd_cross_entropy(logits, labels, beta=0.1)``.

    Logits ``[N, C]`` of any floating type on a GPU are computed in float32, or in float64 as they are. Class indices ``[N]`` are not
    checked: that would wait for the GPU. β and τ are numbers or tensors ``[N]``, and get no gradient. The other arguments are as there.

    Raises:
        ValueError: for inputs of other shapes.
    """
    if input.ndim != 2 or target.shape != input.shape[:1]:
        raise ValueError(f"the kernel takes logits [N, C] and class indices [N]; got {list(input.shape)} and {list(target.shape)}")
    losses = _Fused.apply(input, target.long(), beta, temperature, ignore_index)
    valid = target != ignore_index
    return reduce_indices(losses, torch.where(valid, target.long(), 0), valid, weight, reduction).to(input.dtype)
