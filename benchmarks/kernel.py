"""P8: the Triton kernel of the gradient-decay loss on a GPU, first whether it computes the same.

:func:`check_kernel` compares it with the eager function in float64 on the CPU. :func:`kernel_rows`
times it against a copy of the logits, which reads and writes as many bytes as a loss and its
gradient must at least, against other losses of many classes, and against losses that have the last
layer in them. Each takes less than half a minute on a large GPU; a side that fails, or is not
installed, says so in its row and stops nothing.

Rows are dicts that JSON can hold. Without a GPU, ``tiny=True`` and ``device="cpu"`` rehearse both;
the kernel then needs ``TRITON_INTERPRET=1`` in the environment.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional import gd_cross_entropy, gd_from_nll, linear_gd_cross_entropy

KERNEL, COPY = "fused_gd_cross_entropy", "a copy of the logits"
GOAL = 0.8
"""P8: the kernel with its gradient, in parts of the speed of a copy."""
BETA = 0.1
TURNS = 5
BLOCKS = {
    (16_384, 32_000): ((4096, 8), (8192, 16), (16_384, 16)),
    (8192, 65_536): ((4096, 8), (16_384, 16)),
    (4096, 131_072): ((8192, 8), (16_384, 32)),
}
"""Shapes, and logits of a block and warps that the kernel might have as well for them."""

Ways = dict[str, Callable[[], object]]


def usable(device: str) -> str:
    """Say why the kernel cannot run on a device; nothing where it can."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if torch.device(device).type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        return "on a CPU it needs TRITON_INTERPRET=1"
    return ""


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


# --- time and memory ---


def _seconds(way: Callable[[], object], device: str, passes: int) -> float:
    """The time of one of several passes."""
    if torch.device(device).type == "cpu":
        start = time.perf_counter()
        for _ in range(passes):
            way()
        return (time.perf_counter() - start) / passes
    begins, ends = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    begins.record()
    for _ in range(passes):
        way()
    ends.record()
    torch.cuda.synchronize(device)
    return begins.elapsed_time(ends) / 1e3 / passes


def _memory(way: Callable[[], object], device: str) -> float | None:
    """The most bytes that a pass has beside its inputs; None on a CPU."""
    if torch.device(device).type == "cpu":
        way()
        return None
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    way()
    torch.cuda.synchronize(device)
    return float(torch.cuda.max_memory_allocated(device) - before)


def _measured(
    ways: Ways, device: str, texts: dict[str, Any], *, end: float, turns: int = TURNS
) -> list[dict[str, Any]]:
    """One row for each side. They take turns; the first pass of each does not count."""
    rows = {name: {**texts, "what": name} for name in ways}
    passes: dict[str, int] = {}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for name, way in ways.items():
        if time.monotonic() > end:
            rows[name]["error"] = "no time was left"
            continue
        try:
            way()  # compiles, and fills the caches of libraries
            rows[name]["bytes"] = _memory(way, device)
            once = _seconds(way, device, 1)
            passes[name] = max(1, min(20, int(0.02 / once)))
        except Exception as error:  # whatever a driver, a compiler or a library raises
            rows[name]["error"] = _first_line(error)
    for turn in range(turns):
        for name in list(passes):
            if turn and time.monotonic() > end:
                continue
            try:
                times[name].append(_seconds(ways[name], device, passes[name]))
            except Exception as error:  # the same
                rows[name]["error"] = _first_line(error)
                del passes[name]
    for name, found in times.items():
        if found:
            milliseconds = [1e3 * one for one in found]
            rows[name] |= {
                "ms": statistics.median(milliseconds),
                "low": min(milliseconds),
                "high": max(milliseconds),
                "times": milliseconds,
                "passes": passes.get(name, 1),
            }
    return list(rows.values())


def _against_copy(rows: list[dict[str, Any]], moved: int) -> None:
    """Add the speed in bytes read and written, and in parts of the copy's."""
    copy = next((row for row in rows if row["what"] == COPY), {})
    for row in rows:
        if "ms" in row:
            row["gigabytes_per_second"] = moved / row["ms"] / 1e6
            if copy.get("times"):
                ratios = [a / b for a, b in zip(copy["times"], row["times"], strict=False)]
                row["speed_of_copy"] = statistics.median(ratios)
                if row["what"] == KERNEL and row["group"] == "logits":
                    row |= {"goal": GOAL, "met": row["speed_of_copy"] >= GOAL}


# --- losses of logits ---


def _both_passes(loss_fn: Callable[[Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor):  # type: ignore[no-untyped-def]
    """Forward and backward, with an incoming gradient of 1."""

    def one() -> None:
        torch.autograd.grad(loss_fn(logits, labels), logits)

    return one


def _from_nll(logits: Tensor, labels: Tensor) -> Tensor:
    return gd_from_nll(F.cross_entropy(logits, labels, reduction="none"), beta=BETA).mean()


def _liger(logits: Tensor, labels: Tensor) -> Tensor:
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    loss = LigerCrossEntropyFunction.apply(logits, labels, None)
    return loss[0] if isinstance(loss, tuple) else loss


@contextlib.contextmanager
def _blocks(block: int, warps: int) -> Iterator[None]:
    from gdlib.functional import kernels

    with mock.patch.object(kernels, "_block", lambda classes, itemsize: (block, warps)):
        yield


def _inputs(
    shape: tuple[int, int], dtype: torch.dtype, device: str
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    logits = torch.randn(shape, device=device, dtype=dtype).requires_grad_()
    labels = torch.randint(0, shape[1], shape[:1], device=device)
    texts = {
        "group": "logits",
        "shape": list(shape),
        "dtype": str(dtype).removeprefix("torch."),
        "inputs": logits.nbytes + labels.nbytes,
    }
    return logits, labels, texts


def _copy(logits: Tensor) -> Ways:
    copied = torch.empty_like(logits)
    return {COPY: lambda: copied.copy_(logits.detach())}


def _logit_rows(
    shape: tuple[int, int], dtype: torch.dtype, device: str, *, end: float
) -> list[dict[str, Any]]:
    logits, labels, texts = _inputs(shape, dtype, device)
    both = partial(_both_passes, logits=logits, labels=labels)
    ways = _copy(logits)
    refused = usable(device)
    if not refused:
        from gdlib.functional.kernels import fused_gd_cross_entropy

        fused = partial(fused_gd_cross_entropy, beta=BETA)

        def alone() -> None:
            with torch.no_grad():
                fused(logits, labels)

        ways |= {KERNEL: both(fused), f"{KERNEL}, loss alone": alone}
    ways |= {
        "F.cross_entropy": both(F.cross_entropy),
        "gd_from_nll of F.cross_entropy": both(_from_nll),
        "gd_cross_entropy": both(partial(gd_cross_entropy, beta=BETA)),
    }
    if importlib.util.find_spec("liger_kernel") is not None and not refused:
        ways["Liger's cross-entropy"] = both(_liger)  # last: it overwrites the logits
    rows = _measured(ways, device, texts, end=end)
    _against_copy(rows, 2 * logits.nbytes)
    return [*rows, *([{**texts, "what": KERNEL, "error": refused}] if refused else [])]


def _block_rows(
    shape: tuple[int, int],
    blocks: Sequence[tuple[int, int]],
    dtype: torch.dtype,
    device: str,
    *,
    end: float,
) -> list[dict[str, Any]]:
    """The kernel with other blocks, and as it is."""
    if usable(device):
        return []
    from gdlib.functional.kernels import fused_gd_cross_entropy

    logits, labels, texts = _inputs(shape, dtype, device)
    once = _both_passes(partial(fused_gd_cross_entropy, beta=BETA), logits, labels)
    ways = _copy(logits) | {KERNEL: once}
    for block, warps in blocks:

        def other(block: int = block, warps: int = warps) -> None:
            with _blocks(block, warps):
                once()

        ways[f"{KERNEL}, {block} by {warps} warps"] = other
    rows = _measured(ways, device, {**texts, "group": "blocks"}, end=end, turns=3)
    _against_copy(rows, 2 * logits.nbytes)
    return rows


# --- losses with the last layer ---


def _linear_rows(
    sizes: tuple[int, int, int], device: str, *, end: float, tiny: bool
) -> list[dict[str, Any]]:
    samples, width, classes = sizes
    dtype = torch.float32 if tiny else torch.bfloat16
    features = torch.randn(samples, width, device=device, dtype=dtype).requires_grad_()
    weight = (torch.randn(classes, width, device=device) / math.sqrt(width)).to(dtype)
    weight.requires_grad_()
    labels = torch.randint(0, classes, (samples,), device=device)

    def both(loss_fn: Callable[[Tensor, Tensor, Tensor], Any]) -> Callable[[], object]:
        def one() -> None:
            loss = loss_fn(features, weight, labels)
            torch.autograd.grad(loss[0] if isinstance(loss, tuple) else loss, (features, weight))

        return one

    def after(loss_fn: Callable[[Tensor, Tensor], Any]) -> Callable[[], object]:
        return both(lambda features, weight, labels: loss_fn(F.linear(features, weight), labels))

    ways: Ways = {
        "linear_gd_cross_entropy": both(partial(linear_gd_cross_entropy, beta=BETA)),
        "linear_gd_cross_entropy, 1,024 rows at a time": both(
            partial(linear_gd_cross_entropy, beta=BETA, block_rows=min(1024, samples))
        ),
        "F.linear, F.cross_entropy": after(F.cross_entropy),
    }
    missing: dict[str, str] = {}
    if refused := usable(device):
        missing[f"F.linear, {KERNEL}"] = refused
    else:
        from gdlib.functional.kernels import fused_gd_cross_entropy

        ways[f"F.linear, {KERNEL}"] = after(partial(fused_gd_cross_entropy, beta=BETA))
    if hasattr(F, "linear_cross_entropy"):
        ways["F.linear_cross_entropy"] = both(F.linear_cross_entropy)
    else:
        missing["F.linear_cross_entropy"] = f"PyTorch {torch.__version__} does not have it"
    if refused or importlib.util.find_spec("liger_kernel") is None:
        missing["Liger's fused linear cross-entropy"] = refused or "liger_kernel is not installed"
    else:

        def fused_liger(features: Tensor, weight: Tensor, labels: Tensor) -> Any:
            from liger_kernel.ops.fused_linear_cross_entropy import (
                LigerFusedLinearCrossEntropyFunction,
            )

            return LigerFusedLinearCrossEntropyFunction.apply(features, weight, labels)

        ways["Liger's fused linear cross-entropy"] = both(fused_liger)
        ways["F.linear, Liger's cross-entropy"] = after(_liger)
    if refused or importlib.util.find_spec("cut_cross_entropy") is None:
        missing["cut cross-entropy"] = refused or "cut_cross_entropy is not installed"
    else:

        def cut(features: Tensor, weight: Tensor, labels: Tensor) -> Any:
            from cut_cross_entropy import linear_cross_entropy

            return linear_cross_entropy(features, weight, labels)

        ways["cut cross-entropy"] = both(cut)
    texts = {
        "group": "linear",
        "shape": list(sizes),
        "dtype": str(dtype).removeprefix("torch."),
        "inputs": features.nbytes + weight.nbytes + labels.nbytes,
    }
    rows = _measured(ways, device, texts, end=end, turns=3)
    return rows + [{**texts, "what": name, "error": text} for name, text in missing.items()]


def kernel_rows(
    device: str = "cuda", tiny: bool = False, *, seconds: float = 30.0
) -> list[dict[str, Any]]:
    """Time losses of many classes, forward and backward with an incoming gradient of 1.

    Inputs are random and made once. Sides take turns; times are milliseconds by events on the GPU,
    ``bytes`` the most memory beside the inputs. ``gigabytes_per_second`` counts the logits once
    read and once written, as a copy does, whatever a side really moves, and ``speed_of_copy`` is
    the copy's time over the side's.

    Args:
        device: where to measure.
        tiny: only see whether it runs; the numbers are without worth.
        seconds: when this time is over, what has begun is measured once, and the rest is left.
    """
    end = time.monotonic() + seconds
    torch.manual_seed(0)
    shapes = ((6, 100), (3, 1500)) if tiny else tuple(BLOCKS)
    rows: list[dict[str, Any]] = []
    jobs: list[Callable[[], list[dict[str, Any]]]] = [
        partial(_logit_rows, shape, dtype, device, end=end)
        for dtype in (torch.bfloat16, torch.float32)
        for shape in shapes
    ]
    sizes = (8, 16, 100) if tiny else (8192, 2048, 65_536)
    jobs.append(partial(_linear_rows, sizes, device, end=end, tiny=tiny))
    blocks = {(3, 3000): ((1024, 4),)} if tiny else BLOCKS
    jobs += [
        partial(_block_rows, shape, others, torch.bfloat16, device, end=end)
        for shape, others in blocks.items()
    ]
    for job in jobs:
        try:
            rows += job()
        except Exception as error:  # out of memory for the inputs, or a lost device
            rows.append({"what": repr(job.args[0]), "error": _first_line(error)})
        if torch.device(device).type == "cuda":
            with contextlib.suppress(Exception):
                torch.cuda.empty_cache()
    for row in rows:
        print(f"  {_line(row)}", flush=True)
    return rows


def _line(row: dict[str, Any]) -> str:
    text = f"{row['what']} {row.get('shape', '')} {row.get('dtype', '')}: "
    if "ms" in row:
        text += f"{row['ms']:.3f} ms ({row['low']:.3f} to {row['high']:.3f})"
        if row.get("bytes") is not None:
            text += f", {row['bytes'] / row['inputs']:.2f} of its inputs' memory"
        if "gigabytes_per_second" in row:
            text += f", {row['gigabytes_per_second']:.0f} GB/s"
        if "speed_of_copy" in row:
            text += f", {row['speed_of_copy']:.2f} of the speed of a copy"
        if "goal" in row:
            text += f"; goal ≥ {row['goal']}: {'met' if row['met'] else 'MISSED'}"
    return text + (f" [{row['error']}]" if "error" in row else "")


# --- is it right? ---

_LOSS_TOLERANCE = {torch.float64: 1e-12}
_GRADIENT_TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 5e-6,
    torch.float16: 2**-9,  # the last digit of a gradient up to 4, which is rounded twice
    torch.bfloat16: 2**-6,
}


def _reference(
    logits: Tensor, target: Tensor, options: dict[str, Any], incoming: Tensor
) -> tuple[Tensor, Tensor]:
    """Loss and gradient in float64 on the CPU."""
    z = logits.detach().cpu().double().requires_grad_()
    there = {
        name: value.detach().cpu().double() if isinstance(value, Tensor) else value
        for name, value in options.items()
    }
    loss = gd_cross_entropy(z, target.cpu(), **there)
    return loss.detach(), torch.autograd.grad(loss, z, incoming.cpu().double())[0]


def _compared(
    case: str,
    logits: Tensor,
    target: Tensor,
    incoming: Tensor | None = None,
    *,
    least: float = 1.0,
    **options: Any,
) -> dict[str, Any]:
    """Compare the kernel with the reference.

    Errors of losses are in parts of the loss, or of ``least`` where that is more. Under autocast
    the loss is not rounded to half precision, so that it can be compared.
    """
    from gdlib.functional.kernels import fused_gd_cross_entropy

    dtype, kind = logits.dtype, logits.device.type
    half = dtype in (torch.float16, torch.bfloat16)
    z = logits.detach().requires_grad_()
    with torch.autocast(kind, dtype) if half else contextlib.nullcontext():
        loss = fused_gd_cross_entropy(z, target, **options)
    incoming = torch.ones_like(loss) if incoming is None else incoming.to(loss)
    gradient = torch.autograd.grad(loss, z, incoming)[0]
    expected_loss, expected = _reference(logits, target, options, incoming)
    loss_error = _error(loss, expected_loss, least)
    return _judged(case, dtype, loss_error, _error(gradient, expected))


def _error(ours: Tensor, expected: Tensor, least: float | None = None) -> float:
    """The worst error; absolute, or in parts of what is expected or of ``least``."""
    distance = (ours.detach().cpu().double() - expected).abs()
    return float((distance if least is None else distance / expected.abs().clamp(least)).max())


def _judged(
    case: str, dtype: torch.dtype, loss_error: float, gradient_error: float
) -> dict[str, Any]:
    tolerance = [_LOSS_TOLERANCE.get(dtype, 4e-6), _GRADIENT_TOLERANCE[dtype]]
    return {
        "case": case,
        "dtype": str(dtype).removeprefix("torch."),
        "loss_error": loss_error,
        "gradient_error": gradient_error,
        "tolerance": tolerance,
        "ok": loss_error <= tolerance[0] and gradient_error <= tolerance[1],
    }


def _cases(
    device: str, dtype: torch.dtype, classes: int, rows: int
) -> Iterator[Callable[[], dict[str, Any]]]:
    """All cases with some number of classes; each draws from one generator on the CPU."""
    draw = torch.Generator().manual_seed(classes)
    plain = torch.randn(rows, classes, generator=draw, dtype=torch.float64) * 4
    logits = plain.to(device, dtype)
    target = torch.randint(0, classes, (rows,), generator=draw).to(device)
    each = torch.rand(rows, generator=draw).to(device) + 0.5
    size = f"{classes:,} classes"
    check = partial(_compared, logits=logits, target=target)
    some = target.clone()
    some[::3] = -100
    yield partial(check, f"{size}, β 1", beta=1.0, reduction="sum", least=1e-3)
    weighted = {"weight": torch.rand(classes, generator=draw).to(device) + 0.5}
    yield partial(_compared, f"{size}, ignored rows, weights", logits, some, beta=0.1, **weighted)
    yield partial(
        check,
        f"{size}, β, τ and incoming gradient by rows",
        incoming=each.flip(0),
        beta=each**8,
        temperature=each,
        reduction="none",
    )
    if classes < 10:
        return
    masked = logits.clone()
    masked[:, ::2] = -math.inf
    masked.scatter_(1, target.unsqueeze(1), 1.0)
    masked[0] = -math.inf  # all but the true class
    masked[0, target[0]] = 2.0
    yield partial(_compared, f"{size}, masked", masked, target, beta=1.0, reduction="sum")
    huge = logits * (1e3 if dtype == torch.float16 else 1e6)
    yield partial(_compared, f"{size}, huge logits", huge, target, beta=0.1, reduction="none")
    for beta in (1e-6, 1e6):
        yield partial(check, f"{size}, β {beta:g}", beta=beta, reduction="none")


def _sure(device: str, dtype: torch.dtype, classes: int) -> dict[str, Any]:
    """Losses near 0, in parts of themselves, against log1p(e^-z) of Python's own floats."""
    from gdlib.functional.kernels import fused_gd_cross_entropy

    depths = [2.0, 6.0, 10.25, 18.0, 30.0, 60.0]
    logits = torch.full((len(depths), classes), -math.inf, dtype=dtype)
    logits[:, 1] = 0.0
    logits[:, 0] = torch.tensor(depths)
    z = logits.to(device).requires_grad_()
    target = torch.zeros(len(depths), dtype=torch.long, device=device)
    loss = fused_gd_cross_entropy(z, target, reduction="none")
    gradient = torch.autograd.grad(loss.sum(), z)[0]
    expected = [math.log1p(math.exp(-depth)) for depth in depths]
    share = [1 / (1 + math.exp(depth)) for depth in depths]
    pairs = ((loss.tolist(), expected), (gradient[:, 1].tolist(), share))
    errors = [max(abs(a / b - 1) for a, b in zip(*pair, strict=True)) for pair in pairs]
    row = _judged(f"{classes:,} classes, sure samples", dtype, *errors)
    limit = 1e-12 if dtype == torch.float64 else 1e-6 + 60 * torch.finfo(dtype).eps
    # a loss of 3.6e-5, the third, must have six digits; a rounding of z costs the later ones more
    third = abs(loss[2].item() / expected[2] - 1)
    return row | {"tolerance": [limit, limit], "ok": max(errors) <= limit and third <= 1e-6}


def _no_class(device: str, classes: int) -> dict[str, Any]:
    """Indices that are no classes: NaN in their rows, and nothing wrong in the others."""
    from gdlib.functional import kernels

    logits = torch.randn(4, classes, device=device)
    target = torch.tensor([0, classes, -3, classes - 1], device=device)
    batch = kernels.Batch(logits, target.clamp(0, classes - 1), reduction="none")
    batch.target = target
    losses, gradient = kernels._Kernel(batch, BETA, 1.0, -100)(logits)
    right, wrong = [0, 3], [1, 2]
    expected_loss, expected = _reference(
        logits[right], target[right], {"beta": BETA, "reduction": "none"}, torch.ones(2)
    )
    row = _judged(
        f"{classes:,} classes, indices that are none",
        torch.float32,
        _error(losses[right], expected_loss, 1.0),
        _error(gradient[right], expected),
    )
    row["ok"] &= bool(losses[wrong].isnan().all() and gradient[wrong].isnan().all())
    return row


def _beyond_31_bits(device: str, rows: int, classes: int) -> dict[str, Any]:
    """More logits than 32 bits with a sign can count: the rows around that place, and the last."""
    from gdlib.functional.kernels import fused_gd_cross_entropy

    logits = torch.empty(rows, classes, device=device, dtype=torch.bfloat16).normal_()
    target = torch.randint(0, classes, (rows,), device=device)
    target[-2] = -100
    edge = min(rows - 4, 2**31 // classes)
    some = torch.tensor([0, 1, edge - 1, edge, edge + 1, rows - 3, rows - 2, rows - 1])
    incoming = (torch.arange(rows, device=device) % 2 + 1).float()  # 1 and 2 change no digit
    z = logits.requires_grad_()
    with torch.autocast(torch.device(device).type, torch.bfloat16):
        loss = fused_gd_cross_entropy(z, target, beta=BETA, reduction="none")
    gradient = torch.autograd.grad(loss, z, incoming)[0]
    there = some.to(device)
    expected_loss, expected = _reference(
        logits.detach()[there],
        target[there],
        {"beta": BETA, "reduction": "none"},
        incoming[there],
    )
    return _judged(
        f"{rows:,} rows of {classes:,} classes",
        torch.bfloat16,
        _error(loss[there], expected_loss, 1.0),
        _error(gradient[there], expected),
    )


def _again(device: str, dtype: torch.dtype, classes: int) -> dict[str, Any]:
    """A graph that is used twice, an incoming gradient of 3, a second derivative."""
    from gdlib.functional.kernels import fused_gd_cross_entropy

    logits = torch.randn(5, classes, dtype=torch.float64)
    target = torch.arange(5) % classes
    firsts, seconds = [], []
    for function, z in (
        (fused_gd_cross_entropy, logits.to(device, dtype).requires_grad_()),
        (gd_cross_entropy, logits.to(dtype).double().requires_grad_()),
    ):
        loss = function(z, target.to(z.device), beta=BETA)
        once = torch.autograd.grad(loss, z, retain_graph=True)[0]
        thrice = torch.autograd.grad(3 * loss, z, retain_graph=True)[0]
        (first,) = torch.autograd.grad(loss, z, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), z)
        firsts.append(torch.stack([once, thrice, first.detach()]).cpu().double())
        seconds.append(second.cpu().double())
    errors = [float((a - b).abs().max()) for a, b in (firsts, seconds)]
    return _judged(f"{classes:,} classes, derived again", dtype, 0.0, max(errors))


def _without_waiting(device: str, classes: int) -> dict[str, Any]:
    """A call that is recorded as a CUDA graph, where nothing may wait, gives the same again."""
    from gdlib.functional.kernels import fused_gd_cross_entropy

    z = torch.randn(64, classes, device=device).requires_grad_()
    target = torch.randint(0, classes, (64,), device=device)

    def one() -> tuple[Tensor, Tensor]:
        loss = fused_gd_cross_entropy(z, target, beta=BETA)
        return loss, torch.autograd.grad(loss, z)[0]

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        one()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = one()
    with torch.no_grad():
        z.mul_(-1.0)
    graph.replay()
    again = one()
    errors = [float((a - b).abs().max()) for a, b in zip(recorded, again, strict=True)]
    return _judged(f"{classes:,} classes, as a CUDA graph", torch.float32, *errors)


def _sizes(device: str) -> dict[torch.dtype, Sequence[int]]:
    if torch.device(device).type == "cpu":
        every: tuple[int, ...] = (1, 2, 10, 1000, 1024, 2500)
        return {
            torch.float32: every,
            torch.bfloat16: (10, 2500),
            torch.float16: (10, 1024),
            torch.float64: (10, 2500),
        }
    return {
        torch.float32: (1, 2, 10, 100, 1000, 1023, 1024, 32_000, 131_072),
        torch.bfloat16: (2, 10, 1000, 1024, 32_000, 131_072),
        torch.float16: (10, 1000, 32_000),
        torch.float64: (10, 1000, 32_000),
    }


def _compile(device: str, jobs: Sequence[tuple[torch.dtype, int]]) -> None:
    """Compile in threads; what fails here fails again in its case, which tells."""
    from gdlib.functional.kernels import fused_gd_cross_entropy

    def one(job: tuple[torch.dtype, int]) -> None:
        dtype, classes = job
        with contextlib.suppress(Exception):
            z = torch.zeros(2, classes, device=device, dtype=dtype).requires_grad_()
            fused_gd_cross_entropy(z, torch.zeros(2, device=device, dtype=torch.long))

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(one, jobs))


def check_kernel(device: str = "cuda") -> list[dict[str, Any]]:
    """Compare the kernel with the eager function in float64 on the CPU.

    A row has the worst error of the loss, in parts of the loss where that is not small, the worst
    of the gradient, absolute, the tolerance of both, and whether it is ``ok``. Losses in half
    precision are compared before they are rounded.
    """
    if refused := usable(device):
        return [{"case": KERNEL, "dtype": "", "error": refused, "ok": False}]
    torch.manual_seed(0)
    small = torch.device(device).type == "cpu"
    sizes = _sizes(device)
    if not small:
        _compile(device, [(dtype, size) for dtype, every in sizes.items() for size in every])
    cases: list[Callable[[], dict[str, Any]]] = []
    for dtype, every in sizes.items():
        for classes in every:
            cases += _cases(device, dtype, classes, 5 if small or classes > 2000 else 37)
    many = 1500 if small else 32_000
    for dtype in (torch.float32, torch.float64):
        cases += [partial(_sure, device, dtype, classes) for classes in (10, many)]
        cases += [partial(_again, device, dtype, classes) for classes in (10, many)]
    cases += [partial(_no_class, device, classes) for classes in (10, many)]
    if not small:
        cases += [partial(_without_waiting, device, classes) for classes in (10, many)]
    cases.append(partial(_beyond_31_bits, device, *((9, 1500) if small else (70_000, 32_000))))
    rows = []
    for case in cases:
        try:
            rows.append(case())
        except Exception as error:  # whatever a driver or a compiler raises
            where = case if isinstance(case, partial) else partial(case)
            named = " ".join(str(one) for one in where.args if not isinstance(one, Tensor))
            name = f"{where.func.__name__.strip('_')} {named}"
            rows.append({"case": name, "dtype": "", "error": _first_line(error), "ok": False})
    for row in rows:
        if not row["ok"]:
            print(f"  WRONG: {row}", flush=True)
    print(
        f"  {KERNEL}: {sum(row['ok'] for row in rows)} of {len(rows)} cases are right", flush=True
    )
    return rows
