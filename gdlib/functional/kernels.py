r"""The gradient-decay loss as a Triton kernel, for logits of many classes on a GPU.

It needs the package ``triton``, which comes with the optional dependencies
``gradient-decay[triton]``.

A row of logits is read once to reduce it to :math:`r = \log \sum_{i \neq c} e^{z_i}`, without the
true class, so that :math:`1 - p_c` keeps its digits, and once more, from the cache, to write its
gradient; rows of fewer than 1,024 classes are packed, several to a program, and read once. The
backward pass multiplies the gradient by the incoming one in place, and touches nothing where that
is 1. Nothing waits for the GPU unless β, τ or weights are tensors on the CPU, and nothing of the
size of the logits is kept except the gradient. Numbers of classes divisible by 16 are the fastest:
only then do rows start where a GPU can read 16 bytes at a time.

Without a GPU, ``TRITON_INTERPRET=1`` in the environment runs the kernel in Python; the tests do so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gdlib.functional.kernels needs triton: pip install 'gradient-decay[triton]'", name="triton"
    ) from error

from gdlib.functional._arguments import (
    PLAIN,
    Reduction,
    has_tangent,
    is_transformed,
)
from gdlib.functional._fused import GradientInForward, is_batched, multiply_in_place, needs_gradient
from gdlib.functional._reduction import Batch
from gdlib.functional.gradient_decay import gd_cross_entropy

_FEW = 1024
"""Rows of fewer classes are packed."""
_PACKED = 2048
"""Logits of a program with packed rows."""
_SMALL_ROW, _LARGE_ROW = 64 * 1024, 160 * 1024
"""Bytes of a row up to which three, or two, may run together on each processor of a GPU.

Those that run together must stay in the cache between their two readings: 50 MB on an H100 and on
an H200, with 132 processors.
"""
_PROGRAMS = 1024
"""Programs that multiply a gradient: a few for each processor, so that finding a 1 is quick."""
_SPAN = 2**16
"""Values that such a program multiplies at a time where one factor applies to all."""

_LOG2E = tl.constexpr(1.4426950408889634)


# --- inside a kernel ---


@triton.jit
def _finish(largest, total, true, inverse, log_beta):  # type: ignore[no-untyped-def]
    """Compute J, and the logarithm of the share (1 - p) / (1 - p + βp) in its gradient.

    The other classes are given by their largest logit and the sum of exp relative to it.
    """
    # a difference of raw logits: rounded products would cost digits for a confident sample
    x = (largest - true) * inverse + tl.log(total) - log_beta
    e = tl.exp(-tl.abs(x))
    u = 1.0 + e
    tail = tl.where(u == 1.0, e, tl.log(u) * (e / (u - 1.0)))  # log1p(e), to full precision
    loss = tl.maximum(x, 0.0) + tail + log_beta  # softplus(x) + log β
    return loss, -(tl.maximum(-x, 0.0) + tail)  # -softplus(-x)


@triton.jit
def _rate(log_share, share_of_mean, inverse, counts, is_class):  # type: ignore[no-untyped-def]
    """Compute the size of the gradient; exactly 0 for a sample without weight."""
    rate = tl.where(share_of_mean == 0.0, 0.0, tl.exp(log_share) * inverse * share_of_mean)
    return tl.where(counts, tl.where(is_class, rate, float("nan")), 0.0)


# --- the kernels ---

_AS_THEY_COME = ["inverse_stride", "beta_stride", "ignore_index", "samples"]
"""Numbers for which a kernel is not recompiled."""


@triton.jit(do_not_specialize=_AS_THEY_COME)
def _few_classes(  # type: ignore[no-untyped-def]
    z,
    target,
    used,
    divisor,
    inverse,
    log_beta,
    loss,
    gradient,
    inverse_stride,
    beta_stride,
    ignore_index,
    classes: tl.constexpr,
    samples,
    wide: tl.constexpr,
    packed: tl.constexpr,
    block: tl.constexpr,
):
    """Compute several rows, each of which fits in one block."""
    row = tl.program_id(0).to(tl.int64) * packed + tl.arange(0, packed)
    exists = row < samples
    label = tl.load(target + row, mask=exists, other=0).to(tl.int64)
    counts = exists & (label != ignore_index)
    is_class = (label >= 0) & (label < classes)
    weight = tl.load(used + row, mask=exists, other=0.0)
    scale = tl.load(inverse + row * inverse_stride, mask=exists, other=1.0)
    shift = tl.load(log_beta + row * beta_stride, mask=exists, other=0.0)
    true = tl.load(z + row * classes + label, mask=counts & is_class, other=0.0).to(wide)
    start = tl.arange(0, block)[None, :]
    place = (row * classes)[:, None] + start
    inside = start < classes
    raw = tl.load(z + place, mask=inside & counts[:, None], other=-float("inf")).to(wide)
    is_true = start == label[:, None]
    others = tl.where(is_true, -float("inf"), raw)
    largest = tl.max(others, 1)
    largest = tl.where(largest == -float("inf"), 0.0, largest)  # all others are masked
    powers = tl.exp2((others - largest[:, None]) * (scale * _LOG2E)[:, None])
    total = tl.sum(powers, 1)
    losses, log_share = _finish(largest, total, true, scale, shift)
    losses = tl.where(counts, tl.where(is_class, losses * weight, float("nan")), 0.0)
    tl.store(loss + row, losses, mask=exists)
    if gradient is not None:
        rate = _rate(log_share, weight / tl.load(divisor), scale, counts, is_class)
        # powers whose sum is 0 are zeros, and stay so
        wrong = powers * (rate / tl.where(total == 0.0, 1.0, total))[:, None]
        wrong = tl.where((rate == 0.0)[:, None], 0.0, wrong)
        made = tl.where(is_true, -rate[:, None], wrong)
        tl.store(
            gradient + place,
            made.to(gradient.dtype.element_ty),
            mask=inside & exists[:, None],
            cache_modifier=".cs",
        )


@triton.jit(do_not_specialize=_AS_THEY_COME)
def _many_classes(  # type: ignore[no-untyped-def]
    z,
    target,
    used,
    divisor,
    inverse,
    log_beta,
    loss,
    gradient,
    inverse_stride,
    beta_stride,
    ignore_index,
    classes: tl.constexpr,
    wide: tl.constexpr,
    block: tl.constexpr,
):
    """Compute one row, a block at a time; each is loaded while the one before is processed.

    What a thread reads at a time, 16 bytes, is a row of the block. Each such row has its own
    largest logit and its own sum, so threads meet only after the last block.

    The masks of loads ignore the true class: a mask that changes from one element to the next would
    make a GPU read them one at a time. The true class is taken out of its own block only.
    """
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(target + row).to(tl.int64)
    counts = label != ignore_index
    is_class = (label >= 0) & (label < classes)
    stop = classes * counts.to(tl.int32)
    label = tl.where(counts & is_class, label, -1).to(tl.int32)
    weight = tl.load(used + row)
    scale = tl.load(inverse + row * inverse_stride)
    beta = tl.load(log_beta + row * beta_stride)
    z += row * classes
    true = tl.load(z + label, mask=label >= 0, other=0.0).to(wide)
    scale_2 = scale * _LOG2E  # exp2 is one instruction
    together: tl.constexpr = 128 // z.dtype.element_ty.primitive_bitwidth
    places: tl.constexpr = block // together
    place = tl.arange(0, places)[:, None] * together + tl.arange(0, together)[None, :]
    each_largest = tl.full((places,), -float("inf"), wide)
    each_total = tl.full((places,), 0.0, wide)
    # the first block does not wait for the label; for an ignored sample no other is read
    ahead = tl.load(
        z + place, mask=place < classes, other=-float("inf"), eviction_policy="evict_last"
    )
    for first in range(0, classes, block):
        raw = ahead.to(wide)
        ahead = tl.load(
            z + (first + block) + place,
            mask=place < stop - first - block,
            other=-float("inf"),
            eviction_policy="evict_last",
        )
        if (label >= first) & (label < first + block):
            raw = tl.where(place == label - first, -float("inf"), raw)
        new = tl.maximum(each_largest, tl.max(raw, 1))
        safe = tl.where(new == -float("inf"), 0.0, new)  # all classes so far are masked
        powers = tl.exp2((raw - safe[:, None]) * scale_2)
        each_total = each_total * tl.exp2((each_largest - safe) * scale_2) + tl.sum(powers, 1)
        each_largest = new
    largest = tl.max(each_largest, 0)
    # 0 where all other classes are masked, or the sample does not count
    largest = tl.where(counts & (largest != -float("inf")), largest, 0.0)
    total = tl.sum(each_total * tl.exp2((each_largest - largest) * scale_2), 0)
    losses, log_share = _finish(largest, total, true, scale, beta)
    losses = tl.where(counts, tl.where(is_class, losses * weight, float("nan")), 0.0)
    tl.store(loss + row, losses)
    if gradient is not None:
        gradient += row * classes
        rate = _rate(log_share, weight / tl.load(divisor), scale, counts, is_class)
        # exp2 of -inf is the 0 that other classes get where there is nothing to learn
        shift = tl.where((rate == 0.0) | (total == 0.0), float("inf"), tl.log2(total))
        # backwards, because the last blocks are the most likely to be still in the cache
        last: tl.constexpr = (classes - 1) // block * block
        ahead = tl.load(
            z + last + place,
            mask=place < stop - last,
            other=-float("inf"),
            eviction_policy="evict_first",
        )
        for back in range(0, last + block, block):
            first = last - back
            raw = ahead.to(wide)
            ahead = tl.load(
                z + (first - block) + place,
                mask=(first > 0) & counts,
                other=-float("inf"),
                eviction_policy="evict_first",
            )
            made = rate * tl.exp2((raw - largest) * scale_2 - shift)
            if (label >= first) & (label < first + block):
                made = tl.where(place == label - first, -rate, made)
            tl.store(
                gradient + first + place,
                made.to(gradient.dtype.element_ty),
                mask=place < classes - first,
                cache_modifier=".cs",
            )


@triton.jit(do_not_specialize=["stride"])
def _multiply(  # type: ignore[no-untyped-def]
    gradient,
    factor,
    stride,
    numel,
    span: tl.constexpr,
    wide: tl.constexpr,
    block: tl.constexpr,
):
    """Multiply each span of a gradient by its factor, unless that is 1."""
    place = tl.arange(0, block)
    index = tl.program_id(0).to(tl.int64)
    while index * span < numel:
        times = tl.load(factor + index * stride).to(wide)
        if times != 1.0:
            start = index * span
            size = tl.minimum(numel - start, span).to(tl.int32)
            for first in range(0, span, block):
                where = gradient + start + first + place
                inside = place < size - first
                old = tl.load(where, mask=inside, other=0.0).to(wide)
                # what does not count has no gradient, whether the factor is NaN or not
                made = tl.where(old == 0.0, 0.0, old * times)
                tl.store(where, made.to(gradient.dtype.element_ty), mask=inside)
        index += tl.num_programs(0)


# --- launching the kernels ---


def _block(classes: int, itemsize: int) -> tuple[int, int]:
    """Choose the logits per block and the warps per program, for rows of many classes.

    A thread holds at most 64 bytes of logits, and as many again are being loaded. The registers
    that this takes allow two programs of eight warps on a processor, or one of sixteen; with 16
    logits in half precision, three of eight.
    """
    row = classes * itemsize
    of_thread = min(64 // itemsize, 16 if row <= _SMALL_ROW else 32)
    threads = 256 if row <= _LARGE_ROW else 512
    block = min(threads * of_thread, triton.next_power_of_2(classes))
    return block, block // (32 * of_thread)


def _kind(dtype: torch.dtype) -> tl.dtype:
    return tl.float64 if dtype == torch.float64 else tl.float32


def _for_rows(value: float | Tensor, samples: int, like: Tensor) -> Tensor:
    """Make a tensor with a value for each row; a single number takes no memory per row."""
    if isinstance(value, Tensor):
        return value.to(like).expand(samples)
    return like.new_full((), value).expand(samples)  # goes with the launch: nothing waits


@dataclass(frozen=True)
class _Kernel:
    """Computes the reduced loss of logits with its gradient, and multiplies the latter."""

    batch: Batch
    beta: float | Tensor
    temperature: float | Tensor
    ignore_index: int

    def __call__(self, logits: Tensor, *, wants_gradient: bool = True) -> tuple[Tensor, Tensor]:
        batch, beta, temperature = self.batch, self.beta, self.temperature
        samples, classes = logits.shape
        used = batch.used()
        divisor = used.new_ones(())
        if mean := batch.reduction == "mean":
            total = used.sum()
            divisor = total.masked_fill(total == 0, math.nan)  # the mean of nothing
        inverse = 1 / (temperature.double() if isinstance(temperature, Tensor) else temperature)
        log_beta = beta.double().log() if isinstance(beta, Tensor) else math.log(beta)
        numbers = [_for_rows(value, samples, used) for value in (inverse, log_beta)]
        losses = torch.empty_like(used)
        gradient = losses
        if wants_gradient:
            # float16 would not hold it before it is multiplied by the scale of a GradScaler
            kept = torch.float32 if logits.dtype == torch.float16 else logits.dtype
            gradient = torch.empty_like(logits, dtype=kept, memory_format=torch.contiguous_format)
        if samples:
            arguments = (
                logits.contiguous(),
                batch.target.contiguous(),
                used,
                divisor.nan_to_num(1.0),  # where no sample has a weight, none has a gradient
                *numbers,
                losses,
                gradient if wants_gradient else None,
                *(number.stride(0) for number in numbers),
                self.ignore_index,
                classes,
            )
            wide = _kind(used.dtype)
            with torch.cuda.device_of(logits):  # Triton launches on the current GPU
                if classes < _FEW:
                    block = triton.next_power_of_2(classes)
                    packed = _PACKED // block
                    _few_classes[(triton.cdiv(samples, packed),)](
                        *arguments, samples, wide=wide, packed=packed, block=block, num_warps=4
                    )
                else:
                    block, warps = _block(classes, logits.element_size())
                    _many_classes[(samples,)](*arguments, wide=wide, block=block, num_warps=warps)
        loss = losses if batch.reduction == "none" else losses.sum()
        if mean:
            loss = loss / divisor
        return loss.to(batch.result_dtype), gradient

    def multiply(self, gradient: Tensor, factor: Tensor) -> Tensor:
        """Multiply a gradient ``[N, C]`` in place by a number, or by one for each row.

        The kernel reads the factor on the GPU, and nothing else if it is 1.
        """
        samples, classes = gradient.shape
        by_rows = factor.numel() > 1
        if is_batched(factor) or not samples or (by_rows and classes < _FEW):
            # what does not count has no gradient, even if the incoming one is NaN
            return multiply_in_place(
                gradient, torch.where(self.batch.valid.unsqueeze(1), factor, 0.0)
            )
        span = classes if by_rows else _SPAN
        numel = gradient.numel()
        programs = min(_PROGRAMS, triton.cdiv(numel, span))
        stride = factor.stride(0) if by_rows else 0
        with torch.cuda.device_of(gradient):
            _multiply[(programs,)](
                *(gradient, factor, stride, numel, span),
                wide=_kind(gradient.dtype),
                block=4096,
                num_warps=8,
            )
        return gradient


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
    """Compute :func:`gdlib.functional.gd_cross_entropy` with the kernel.

    Logits ``[N, C]`` of any floating type on a GPU are computed in float32, or in float64 if that
    is their type. β and τ are numbers or tensors ``[N]``. There is no label smoothing. The eager
    function serves a β, τ or weight that requires a gradient, second derivatives, forward-mode
    derivatives, ``torch.func`` transforms and ``torch.compile``.

    Class indices ``[N]`` on a GPU are not checked beforehand: that would mean waiting for it. A
    sample whose index is neither a class nor ``ignore_index`` causes no read out of bounds; its
    loss and its gradient are NaN, which shows in the mean. With class weights, PyTorch itself stops
    at such an index.

    Raises:
        ValueError: for inputs of other shapes, and for a β or τ outside its bounds; values of
            tensors on a GPU are not checked.
    """
    if input.ndim != 2 or target.shape != input.shape[:1]:
        raise ValueError(
            f"the kernel takes logits [N, C] and class indices [N]; got {list(input.shape)} and "
            f"{list(target.shape)}"
        )

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
    learnt = any(one.requires_grad or has_tangent(one) for one in watched)
    if learnt or is_transformed() or type(input) not in PLAIN or has_tangent(input):
        return eager(input)
    batch = Batch(input, target, weight, ignore_index, reduction)
    batch.check("beta", beta, "> 0")
    batch.check("temperature", temperature, "> 0")
    kernel = _Kernel(batch, beta, temperature, int(ignore_index))
    if not needs_gradient(input):
        return kernel(input, wants_gradient=False)[0]
    return GradientInForward.apply(input, kernel, eager, target, *watched)
