r"""The gradient-decay loss as one Triton kernel, for logits of many classes on a GPU.

It needs the package ``triton``, which comes with the optional dependencies
``gradient-decay[triton]``.

A row is read once to reduce it to :math:`r = \log \sum_{i \neq c} e^{z_i}`, without the true class,
so that :math:`1 - p_c` keeps its digits, and once more to write its gradient; rows of less than
1,024 classes are packed, several to a program. Nothing waits for the GPU, unless β, τ or weights
are tensors on the CPU, and nothing of the size of the logits is kept but the gradient. Without a
GPU, ``TRITON_INTERPRET=1`` in the environment runs the kernel in Python; the tests do. It has not
been timed on a GPU.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gdlib.functional.kernels needs triton: pip install 'gradient-decay[triton]'", name="triton"
    ) from error

from gdlib.functional._arguments import Reduction, autocasts
from gdlib.functional._fused import GradientInForward
from gdlib.functional._reduction import Batch
from gdlib.functional.gradient_decay import gd_cross_entropy

_BLOCK = 2048  # logits of a program at a time; 4,096 need nearly all registers of four warps


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    z,
    index,
    loss,
    gradient,
    rows,
    samples,
    classes: tl.constexpr,
    wide: tl.constexpr,
    packed: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * packed + tl.arange(0, packed)
    exists = row < samples
    scale = tl.load(rows + 3 * row, mask=exists, other=1.0)  # 1/tau
    log_beta = tl.load(rows + 3 * row + 1, mask=exists, other=0.0)
    # of the sample in the reduced loss
    weight = tl.load(rows + 3 * row + 2, mask=exists, other=0.0)
    target = tl.load(index + row, mask=exists, other=0)
    true = tl.load(z + row * classes + target, mask=exists, other=0.0).to(wide) * scale
    start = tl.arange(0, block)[None, :]
    place = (row * classes)[:, None] + start
    largest = tl.full((packed,), -float("inf"), wide)
    total = tl.full((packed,), 0.0, wide)
    for first in range(0, classes, block):
        others = exists[:, None] & (first + start < classes) & (first + start != target[:, None])
        values = (
            tl.load(z + place + first, mask=others, other=-float("inf")).to(wide) * scale[:, None]
        )
        new = tl.maximum(largest, tl.max(values, 1))
        safe = tl.where(new == -float("inf"), 0.0, new)  # all classes so far are masked
        total = total * tl.exp(largest - safe) + tl.sum(tl.exp(values - safe[:, None]), 1)
        largest = new
    logsumexp = largest + tl.log(total)
    x = logsumexp - true - log_beta
    tail = tl.log(1.0 + tl.exp(-tl.abs(x)))
    above = tl.maximum(x, 0.0) + tail  # softplus(x)
    below = tl.maximum(-x, 0.0) + tail  # softplus(-x)
    tl.store(loss + row, above + log_beta, mask=exists)
    rate = tl.where(weight == 0.0, 0.0, tl.exp(-below) * scale * weight)
    for first in range(0, classes, block):
        inside = exists[:, None] & (first + start < classes)
        values = (
            tl.load(z + place + first, mask=inside, other=-float("inf")).to(wide) * scale[:, None]
        )
        wrong = rate[:, None] * tl.exp(tl.minimum(values - logsumexp[:, None], 0.0))
        wrong = tl.where((rate != 0.0)[:, None] & (logsumexp > -float("inf"))[:, None], wrong, 0.0)
        made = tl.where(first + start == target[:, None], -rate[:, None], wrong)
        tl.store(gradient + place + first, made.to(gradient.dtype.element_ty), mask=inside)


def _make(
    batch: Batch, beta: float | Tensor, temperature: float | Tensor, input: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the reduced loss of a batch, and its gradient."""
    samples, classes = input.shape
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    inverse = 1 / temperature.double() if isinstance(temperature, Tensor) else 1 / temperature
    log_beta = beta.double().log() if isinstance(beta, Tensor) else math.log(beta)
    rows = torch.empty(samples, 3, dtype=wide, device=input.device)
    for column, value in enumerate((inverse, log_beta, batch.scales()[:, 0])):
        if isinstance(value, Tensor):
            rows[:, column].copy_(value)
        else:
            rows[:, column].fill_(value)  # a number goes with the launch: nothing waits
    # float16 would not hold it before it is multiplied by the scale of a GradScaler
    kept = torch.float32 if input.dtype == torch.float16 else input.dtype
    losses = rows.new_empty(samples)
    gradient = torch.empty_like(input, dtype=kept, memory_format=torch.contiguous_format)
    if samples:
        block = min(_BLOCK, triton.next_power_of_2(classes))
        packed = _BLOCK // block if classes < 1024 else 1
        kind = tl.float64 if wide == torch.float64 else tl.float32
        arguments = (input.contiguous(), batch.index, losses, gradient, rows, samples, classes)
        with torch.cuda.device_of(input):  # Triton launches on the current GPU
            _kernel[(triton.cdiv(samples, packed),)](
                *arguments, wide=kind, packed=packed, block=block, num_warps=8
            )
    return batch.reduce_samples(losses, weighted=False).to(
        wide if autocasts(input.device.type) else input.dtype
    ), gradient


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
    """Compute :func:`gdlib.functional.gd_cross_entropy` by the kernel.

    Logits ``[N, C]`` of any floating type on a GPU are computed in float32, or in float64 as they
    are. Class indices ``[N]`` are not checked: that would wait for the GPU. β and τ are numbers or
    tensors ``[N]``, and get no gradient. There is no label smoothing.

    Raises:
        ValueError: for inputs of other shapes, and for a β or τ outside its bounds; values of
            tensors on a GPU are not looked at.
    """
    if input.ndim != 2 or target.shape != input.shape[:1]:
        raise ValueError(
            f"the kernel takes logits [N, C] and class indices [N]; got {list(input.shape)} and "
            f"{list(target.shape)}"
        )
    batch = Batch.of_shape(
        input.shape,
        input,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
    )
    batch.check("beta", beta, "> 0")
    batch.check("temperature", temperature, "> 0")

    def eager(logits: Tensor) -> Tensor:
        return gd_cross_entropy(
            logits,
            target,
            beta=beta,
            temperature=temperature,
            weight=weight,
            ignore_index=ignore_index,
            reduction=reduction,
        )

    watched = [one for one in (beta, temperature, weight) if isinstance(one, Tensor)]
    return GradientInForward.apply(
        input, functools.partial(_make, batch, beta, temperature), eager, target, *watched
    )
