"""The Triton kernel of the gradient-decay loss on a GPU, first whether it computes the same.

:func:`check_kernel` compares it with the eager function in float64 on the CPU. :func:`kernel_rows`
times it against a copy of the logits, which reads and writes as many bytes as a loss and its
gradient must at least, against other losses of many classes, and against losses that have the last
layer in them. Each takes less than half a minute on a large GPU; a side that fails, or is not
installed, says so in its row and stops nothing.

Rows are dicts that JSON can hold. Without a GPU, ``tiny=True`` and ``device="cpu"`` rehearse both;
the kernel then needs ``TRITON_INTERPRET=1`` in the environment.
"""

from __future__ import annotations

import importlib.util
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional import gd_cross_entropy, gd_from_nll, linear_gd_cross_entropy

KERNEL, COPY = "fused_gd_cross_entropy", "a copy of the logits"
ALONE = f"{KERNEL}, loss alone"
BETA = 0.1
BLOCKS = {
    (16_384, 32_000): ((2048, 4), (2048, 8), (8192, 8)),
    (8192, 65_536): ((4096, 8), (16_384, 16)),
    (4096, 131_072): ((4096, 8), (8192, 8), (8192, 16)),
}
"""Shapes, and logits of a block and warps that the kernel might have as well for them."""

Ways = Mapping[str, Callable[[], object]]
Loss = Callable[..., Any]


def fused(logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """Call the kernel; it is imported only here, because Triton may not be installed."""
    from gdlib.functional.kernels import fused_gd_cross_entropy

    return fused_gd_cross_entropy(logits, labels, **options)


def usable(device: str) -> str:
    """Say why the kernel cannot run on a device; nothing where it can."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if torch.device(device).type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        return "on a CPU it needs TRITON_INTERPRET=1"
    return ""


def _error(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


# --- how fast it is ---


def _seconds(way: Callable[[], object], passes: int, *, on_gpu: bool) -> float:
    """The time of one of several passes."""
    if not on_gpu:
        start = time.perf_counter()
        for _ in range(passes):
            way()
        return (time.perf_counter() - start) / passes
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(passes):
        way()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / passes


def _measured(ways: Ways, texts: dict[str, Any], device: str, turns: int) -> list[dict[str, Any]]:
    """One row for each side. They take turns; the first pass of each does not count."""
    rows = {name: texts | {"what": name} for name in ways}
    seconds = partial(_seconds, on_gpu=torch.device(device).type == "cuda")
    passes: dict[str, int] = {}
    for name, way in ways.items():
        try:
            way()  # compiles, and fills the caches of libraries
            if torch.device(device).type == "cuda":
                torch.cuda.reset_peak_memory_stats()
                before = torch.cuda.memory_allocated()
                way()
                rows[name]["bytes"] = torch.cuda.max_memory_allocated() - before
            passes[name] = max(1, min(20, int(0.02 / seconds(way, 1))))
        except Exception as error:  # whatever a driver, a compiler or a library raises
            rows[name]["error"] = _error(error)
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(turns):
        for name, count in passes.items():
            times[name].append(1e3 * seconds(ways[name], count))
    for name, found in times.items():
        rows[name] |= {"ms": statistics.median(found), "low": min(found), "high": max(found)}
        rows[name] |= {"times": found, "passes": passes[name]}
    return list(rows.values())


def _both_passes(loss_fn: Loss, labels: Tensor, *inputs: Tensor) -> Callable[[], object]:
    """Forward and backward, with an incoming gradient of 1."""

    def one() -> None:
        loss = loss_fn(*inputs, labels)
        torch.autograd.grad(loss[0] if isinstance(loss, tuple) else loss, inputs)

    return one


def _from_nll(logits: Tensor, labels: Tensor) -> Tensor:
    return gd_from_nll(F.cross_entropy(logits, labels, reduction="none"), beta=BETA).mean()


def _liger(logits: Tensor, labels: Tensor) -> Any:
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    return LigerCrossEntropyFunction.apply(logits, labels, None)


def _liger_linear(features: Tensor, weight: Tensor, labels: Tensor) -> Any:
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    return LigerFusedLinearCrossEntropyFunction.apply(features, weight, labels)


def _after_linear(loss_fn: Loss) -> Loss:
    return lambda features, weight, labels: loss_fn(F.linear(features, weight), labels)


_fused, _eager = (partial(function, beta=BETA) for function in (fused, gd_cross_entropy))
LOSSES: Mapping[str, Loss] = {
    KERNEL: _fused,
    "F.cross_entropy": F.cross_entropy,
    "gd_from_nll of F.cross_entropy": _from_nll,
    "gd_cross_entropy": _eager,
    "Liger's cross-entropy": _liger,  # last: it overwrites the logits
}
LINEAR: Mapping[str, Loss] = {
    "linear_gd_cross_entropy, 1,024 rows at a time": partial(
        linear_gd_cross_entropy, beta=BETA, block_rows=1024
    ),
    "F.linear, F.cross_entropy": _after_linear(F.cross_entropy),
    f"F.linear, {KERNEL}": _after_linear(_fused),
    "F.linear_cross_entropy": lambda *given: F.linear_cross_entropy(*given),  # PyTorch 2.12
    "Liger's fused linear cross-entropy": _liger_linear,
    "F.linear, Liger's cross-entropy": _after_linear(_liger),
}


def _rows(
    group: str, shape: Sequence[int], dtype: torch.dtype, device: str
) -> list[dict[str, Any]]:
    """The losses of a shape, of one with a last layer, or the kernel with other blocks."""
    samples, *width, classes = shape
    sizes = [(samples, *width), (classes, *width)] if width else [(samples, classes)]
    inputs = [torch.randn(size, device=device, dtype=dtype).requires_grad_() for size in sizes]
    labels = torch.randint(0, classes, (samples,), device=device)
    texts = {"group": group, "shape": list(shape), "dtype": str(dtype).removeprefix("torch.")}
    texts |= {"inputs": sum(one.nbytes for one in (*inputs, labels))}
    if group == "linear":
        ways = {name: _both_passes(loss, labels, *inputs) for name, loss in LINEAR.items()}
        return _measured(ways, texts, device, turns=3)
    logits = inputs[0].detach()
    copied, once = torch.empty_like(logits), _both_passes(_fused, labels, *inputs)
    ways = {COPY: lambda: copied.copy_(logits)}
    if group == "logits":
        ways[ALONE] = lambda: _fused(logits, labels)
        ways |= {name: _both_passes(loss, labels, *inputs) for name, loss in LOSSES.items()}
    else:
        ways[KERNEL] = once
        for block, warps in BLOCKS.get(tuple(shape), ((1024, 4),)):
            patched = mock.patch("gdlib.functional.kernels._block", lambda *_, b=(block, warps): b)
            ways[f"{KERNEL}, {block} by {warps} warps"] = patched(once)
    rows = _measured(ways, texts, device, turns=5)
    copy = rows[0].get("times", [])
    for row in rows:
        if "ms" in row:
            ratios = [a / b for a, b in zip(copy, row["times"], strict=True)]
            row["speed_of_copy"] = statistics.median(ratios)
            row["gigabytes_per_second"] = 2 * logits.nbytes / row["ms"] / 1e6
    return rows


def kernel_rows(device: str = "cuda", tiny: bool = False) -> list[dict[str, Any]]:
    """Time losses of many classes, forward and backward with an incoming gradient of 1.

    Inputs are random and made once. Sides take turns; times are milliseconds by events on the GPU,
    ``bytes`` the most memory beside the inputs. ``gigabytes_per_second`` counts the logits once
    read and once written, as a copy does, whatever a side really moves, and ``speed_of_copy`` is
    the copy's time over the side's. With ``tiny`` it only shows that it runs.
    """
    torch.manual_seed(0)
    half, single = torch.bfloat16, torch.float32
    shapes: list[tuple[int, ...]] = [(6, 100), (3, 1500)] if tiny else list(BLOCKS)
    jobs = [("logits", shape, dtype) for dtype in (half, single) for shape in shapes]
    jobs += [("linear", (8, 16, 100), single) if tiny else ("linear", (8192, 2048, 65_536), half)]
    jobs += [("blocks", shape, dtype) for dtype in (half, single) for shape in shapes]
    rows: list[dict[str, Any]] = []
    for job in jobs:
        try:
            rows += _rows(*job, device)
        except Exception as error:  # out of memory for the inputs, or a lost device
            rows.append({"what": str(job), "error": _error(error)})
        if torch.device(device).type == "cuda":
            torch.cuda.empty_cache()
    for row in rows:
        found = f"{row['ms']:.3f} ms" if "ms" in row else row["error"]
        share = f", {row['speed_of_copy']:.2f} of a copy" if "speed_of_copy" in row else ""
        print(f"  {row['what']} {row.get('shape')} {row.get('dtype')}: {found}{share}", flush=True)
    return rows


# --- is it right? ---

TOLERANCES = {  # of the loss, in parts of it where that is above 1, and of the gradient
    torch.float64: (1e-12, 1e-12),
    torch.float32: (4e-6, 5e-6),
    torch.float16: (4e-6, 2**-9),  # the last digit of a gradient up to 4, which is rounded twice
    torch.bfloat16: (4e-6, 2**-6),
}
SIZES: Mapping[torch.dtype, Sequence[int]] = {
    torch.float32: (1, 2, 10, 1000, 1024, 2500, 32_000, 131_072),
    torch.bfloat16: (10, 2500, 32_000, 131_072),
    torch.float16: (10, 1024, 32_000),
    torch.float64: (10, 2500, 32_000),
}
"""Numbers of classes; on a CPU only those up to 2,500."""


def _compared(
    case: str,
    logits: Tensor,
    target: Tensor,
    incoming: Tensor | None = None,
    *,
    least: float = 1.0,
    chosen: Tensor | slice = slice(None),
    **options: Any,
) -> dict[str, Any]:
    """Compare loss and gradient, of all rows or of those chosen, with float64 on the CPU.

    The error of a loss is in parts of it, or of ``least`` where that is more. Under autocast a loss
    is not rounded to half precision. Rows whose target is no class must be NaN.
    """
    dtype, kind = logits.dtype, logits.device.type
    z = logits.detach().requires_grad_()
    with nullcontext() if dtype.itemsize > 2 else torch.autocast(kind, dtype):
        loss = fused(z, target, **options)
    incoming = torch.ones_like(loss) if incoming is None else incoming.to(loss)
    gradient = torch.autograd.grad(loss, z, incoming)[0]
    is_none = (target != -100) & ((target < 0) | (target >= logits.shape[1]))
    ok = bool(gradient[is_none].isnan().all())
    if loss.ndim:
        loss, incoming = loss[chosen], incoming[chosen]
    y = logits.detach()[chosen].cpu().double().requires_grad_()
    at_home = {
        name: value.cpu().double() if isinstance(value, Tensor) else value
        for name, value in options.items()
    }
    expected = gd_cross_entropy(y, target[chosen].cpu(), **at_home)
    slope = torch.autograd.grad(expected, y, incoming.cpu().double())[0]
    off = (loss.detach().cpu().double() - expected.detach()).abs() / expected.detach().abs().clamp(
        least
    )
    errors = [float(off.max()), float((gradient[chosen].cpu().double() - slope).abs().max())]
    return {
        "case": case,
        "dtype": str(dtype).removeprefix("torch."),
        "errors": errors,
        "ok": ok and all(a <= b for a, b in zip(errors, TOLERANCES[dtype], strict=True)),
    }


def _cases(device: str, dtype: torch.dtype, classes: int) -> Iterator[Callable[[], dict[str, Any]]]:
    """All cases with some number of classes; each draws from one generator on the CPU."""
    rows, draw = 5 if classes > 2000 else 37, torch.Generator().manual_seed(classes)
    plain = torch.randn(rows, classes, generator=draw, dtype=torch.float64) * 4
    logits = plain.to(device, dtype)
    target = torch.randint(0, classes, (rows,), generator=draw).to(device)
    each = torch.rand(rows, generator=draw).to(device) + 0.5
    weight = torch.rand(classes, generator=draw).to(device) + 0.5
    every = {"reduction": "none"}

    def case(what: str, z: Tensor = logits, y: Tensor = target, **how: Any) -> Any:
        return partial(_compared, f"{classes:,} classes, {what}", z, y, **how)

    yield case("β 1", beta=1.0, reduction="sum", least=1e-3)
    some = target.clone()
    some[::3] = -100
    yield case("ignored rows, weights", y=some, beta=BETA, weight=weight)
    by_rows = {"beta": each**8, "temperature": each, "incoming": each.flip(0)}
    yield case("β, τ and incoming gradient by rows", **by_rows, **every)
    if classes < 10:
        return
    masked = logits.clone()
    masked[:, ::2] = -math.inf
    masked.scatter_(1, target.unsqueeze(1), 1.0)
    masked[0] = -math.inf  # all but the true class
    masked[0, target[0]] = 2.0
    yield case("masked", z=masked, beta=1.0, reduction="sum")
    huge = logits * (1e3 if dtype == torch.float16 else 1e6)
    yield case("huge logits", z=huge, beta=BETA, **every)
    for beta in (1e-6, 1e6):
        yield case(f"β {beta:g}", beta=beta, **every)
    sure = torch.full((5, classes), -math.inf, device=device, dtype=dtype)
    sure[:, 1] = 0.0
    sure[:, 0] = torch.tensor([2.0, 6.0, 10.25, 18.0, 40.0])
    yield case("sure samples", z=sure, y=torch.zeros_like(target[:5]), least=1e-300, **every)
    if torch.device(device).type == "cuda":  # on a CPU indices are looked at before
        wrong = target.clone()
        wrong[1], wrong[2] = classes, -3
        right = torch.arange(3, rows, device=device)
        yield case("indices that are no classes", y=wrong, chosen=right, beta=BETA, **every)


def _beyond_31_bits(device: str, rows: int, classes: int) -> dict[str, Any]:
    """More logits than 32 bits with a sign can count: the rows around that place, and the last."""
    logits = torch.empty(rows, classes, device=device, dtype=torch.bfloat16).normal_()
    target = torch.randint(0, classes, (rows,), device=device)
    target[-2] = -100
    edge = min(rows - 4, 2**31 // classes)
    chosen = torch.tensor([0, 1, edge - 1, edge, edge + 1, rows - 3, rows - 2, rows - 1])
    how: dict[str, Any] = {"chosen": chosen.to(device), "beta": BETA, "reduction": "none"}
    incoming = torch.arange(rows, device=device) % 2 + 1  # 1 and 2 change no digit
    return _compared(f"{rows:,} rows of {classes:,} classes", logits, target, incoming, **how)


def _as_a_graph(classes: int) -> dict[str, Any]:
    """A call that is recorded as a CUDA graph, where nothing may wait, gives the same again."""
    z = torch.randn(64, classes, device="cuda").requires_grad_()
    target = torch.randint(0, classes, (64,), device="cuda")

    def one() -> Tensor:
        loss = _fused(z, target)
        return torch.cat([loss.detach()[None], torch.autograd.grad(loss, z)[0].flatten()])

    one()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = one()
    with torch.no_grad():
        z.neg_()
    graph.replay()
    error = float((recorded - one()).abs().max())
    return {"case": f"{classes:,} classes, as a CUDA graph", "errors": [error], "ok": error < 1e-6}


def check_kernel(device: str = "cuda") -> list[dict[str, Any]]:
    """Compare the kernel with the eager function in float64 on the CPU.

    ``errors`` of a row are the worst of the loss, in parts of the loss where that is not small, and
    the worst of the gradient, absolute; ``ok`` says whether they are within :data:`TOLERANCES`.
    """
    if refused := usable(device):
        return [{"case": KERNEL, "error": refused, "ok": False}]
    torch.manual_seed(0)
    on_gpu = torch.device(device).type == "cuda"
    sizes = [(dtype, size) for dtype, every in SIZES.items() for size in every]
    cases = [
        case
        for dtype, classes in sizes
        if on_gpu or classes <= 2500
        for case in _cases(device, dtype, classes)
    ]

    def row_of(case: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return case()
        except Exception as error:  # whatever a driver or a compiler raises
            return {"case": str(case), "error": _error(error), "ok": False}

    with ThreadPoolExecutor(8 if on_gpu else 1) as pool:  # most of the time goes to the compiler
        rows = list(pool.map(row_of, cases))
    alone = [partial(_beyond_31_bits, device, *((70_000, 32_000) if on_gpu else (9, 1500)))]
    alone += [partial(_as_a_graph, classes) for classes in (10, 32_000) if on_gpu]
    rows += map(row_of, alone)
    for row in rows:
        if not row["ok"]:
            print(f"  WRONG: {row}", flush=True)
    print(f"  {KERNEL}: {sum(row['ok'] for row in rows)} of {len(rows)} cases are right")
    return rows
