"""The losses against PyTorch's cross-entropy and against a public library that has the same ones: time and memory, as ratios.

Forward and backward pass. Times are processor times of one thread in one process; all candidates take turns, and the median of the turns'
ratios is printed. Memory is what a fresh process takes at its peak beyond what it held before the pass, divided by the size of the logits.
P4 and P5 are the goals that a row answers to.
"""

from __future__ import annotations

import concurrent.futures
import math
import multiprocessing
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib import functional
from gdlib.functional import gd_cross_entropy, linear_gd_cross_entropy
from gdlib.heads import cosines

SHAPES = {(128, 10): ("P5", 200, 31), (4096, 1000): ("P4", 1, 15), (1024, 32000): ("P4", 1, 7)}  # goal, passes in a turn, turns
MEMORY_SHAPES = [(16384, 1000), (1024, 32000)]
WIDTH = 64  # of the features of the linear layer
Pass = Callable[[], None]


def decayed(logits: Tensor, labels: Tensor) -> Tensor:
    return gd_cross_entropy(logits, labels, 0.1)


def linear_then_plain(features: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(features, weight), labels)


def linear_decayed(features: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return linear_gd_cross_entropy(features, weight, labels, 0.1)


LOSSES = {"plain": F.cross_entropy, "decayed": decayed, "linear then plain": linear_then_plain, "linear decayed": linear_decayed}


def inputs(shape: tuple[int, int], linear: bool) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    samples, classes = shape
    labels = torch.randint(0, classes, (samples,), generator=generator)
    if linear:
        return [torch.randn(size, generator=generator).requires_grad_() for size in ((samples, WIDTH), (classes, WIDTH))] + [labels]
    return [torch.randn(shape, generator=generator).requires_grad_(), labels]


def backward_pass(loss_fn: Callable[..., Tensor], arguments: list[Tensor]) -> Pass:
    def one() -> None:
        for argument in arguments:
            argument.grad = None
        loss_fn(*arguments).backward()

    return one


def compare(candidates: dict[str, Pass], passes: int, turns: int) -> dict[str, list[float]]:
    """Seconds of each pass in each turn; one turn before them warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(turns + 1):
        for name, one in candidates.items():
            start = time.process_time()
            for _ in range(passes):
                one()
            if turn > 0:
                seconds[name].append((time.process_time() - start) / passes)
    return seconds


def ratio(seconds: dict[str, list[float]], name: str, base: str) -> str:
    ratios = sorted(ours / theirs for ours, theirs in zip(seconds[name], seconds[base], strict=True))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), {statistics.median(seconds[name]) * 1e6:.0f} µs"


def resident_bytes(which: str) -> int:
    """``VmRSS``, now, or ``VmHWM``, at the peak of this process (Linux)."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(which))


def extra_memory(name: str, shape: tuple[int, int]) -> float:
    """Bytes beyond those held before the pass, at the peak; to be called in a process of its own."""
    torch.set_num_threads(1)
    linear = name.startswith("linear")
    backward_pass(LOSSES[name], inputs((8, 20), linear))()
    arguments = inputs(shape, linear)
    before = resident_bytes("VmRSS")
    backward_pass(LOSSES[name], arguments)()
    return float(resident_bytes("VmHWM") - before)


def in_a_fresh_process(name: str, shape: tuple[int, int]) -> float:
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(extra_memory, name, shape).result()


def against_cross_entropy() -> None:
    print("gd_cross_entropy(β = 0.1) against F.cross_entropy, time (1 is equal, below 1 is faster):")
    for shape, (goal, passes, turns) in SHAPES.items():
        candidates = {name: backward_pass(LOSSES[name], inputs(shape, False)) for name in ("plain", "decayed")}
        print(f"  {goal} {list(shape)}: {ratio(compare(candidates, passes, turns), 'decayed', 'plain')}")
    print("linear_gd_cross_entropy(β = 0.1) against F.linear and F.cross_entropy, time:")
    for shape in list(SHAPES)[1:]:
        candidates = {name: backward_pass(LOSSES[name], inputs(shape, True)) for name in ("linear then plain", "linear decayed")}
        print(f"  {list(shape)}, {WIDTH} features: {ratio(compare(candidates, 1, 7), 'linear decayed', 'linear then plain')}")


def memory() -> None:
    if platform.system() != "Linux":
        print("memory is measured on Linux only")
        return
    print("extra memory at the peak, in sizes of the logits:")
    for shape in MEMORY_SHAPES:
        size = 4 * math.prod(shape)
        for ours, theirs in (("decayed", "plain"), ("linear decayed", "linear then plain")):
            taken = {name: in_a_fresh_process(name, shape) for name in (ours, theirs)}
            numbers = ", ".join(f"{name} {value / size:.2f}" for name, value in taken.items())
            print(f"  {'P4 ' if ours == 'decayed' else ''}{list(shape)}: {numbers}; ratio {taken[ours] / taken[theirs]:.2f}")


def against_a_library() -> None:
    try:
        from pytorch_metric_learning import losses as library
    except ImportError:
        print("pytorch-metric-learning is not installed: no comparison with it (pip install pytorch-metric-learning)")
        return
    print("against pytorch-metric-learning, head and loss, time:")
    functions = {
        "ArcFace": (library.ArcFaceLoss, lambda x, c, h: functional.arcface_cross_entropy(x, c, 64.0, math.radians(28.6))),
        "CosFace": (library.CosFaceLoss, lambda x, c, h: functional.cosface_cross_entropy(x, c, 64.0, 0.35)),
        "SphereFace": (library.SphereFaceLoss, lambda x, c, h: functional.sphereface_cross_entropy(x, c, h.norm(dim=1), 4)),
    }
    for shape, passes in (((128, 10), 50), ((1024, 1000), 1)):
        for name, (theirs, function) in functions.items():
            torch.manual_seed(0)
            reference = theirs(shape[1], WIDTH)
            features, weight, labels = inputs(shape, True)
            with torch.no_grad():
                weight.copy_(reference.W.T)

            def ours(h: Tensor, w: Tensor, c: Tensor, function: Callable[..., Tensor] = function) -> Tensor:
                return function(cosines(h, w.T), c, h)

            other = backward_pass(lambda h, c, reference=reference: reference(h, c), [features, labels])
            same = torch.allclose(ours(features, weight, labels), reference(features, labels), rtol=1e-4)
            seconds = compare({"theirs": other, "ours": backward_pass(ours, [features, weight, labels])}, passes, 9)
            print(f"  {name} {list(shape)}: {ratio(seconds, 'ours', 'theirs')}; {'equal' if same else 'DIFFERENT'} values")


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    against_cross_entropy()
    memory()
    against_a_library()
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
