"""The losses against PyTorch's cross-entropy and against a public library.

The library has the same losses. Time and memory are given as ratios. The loss of a linear layer is
measured against that layer followed by PyTorch's cross-entropy, and against PyTorch's own loss of a
linear layer in pieces, ``F.linear_cross_entropy``.

Forward and backward pass. Times are processor times of one thread; all candidates take turns, and
the median of the turns' ratios counts. An array that the allocator takes from the system anew costs
a page fault for every 4 KiB, which can be half of the time and depends on what ran before. So each
shape is measured in fresh processes that keep what they have taken, without a fault, and in others
that leave it to the allocator; both rows say how many faults a pass had. A softmax alone, without
loss and gradient, is measured beside them as a bound. Memory is what a fresh process takes at its
peak beyond what it held before the pass, in sizes of the logits. The library is
pytorch-metric-learning (`pip install pytorch-metric-learning`); without it, its rows are left out.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import math
import multiprocessing
import os
import platform
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.measuring import Row, arguments, compared, finish, take_turns
from gdlib import functional
from gdlib.functional import gd_cross_entropy, linear_gd_cross_entropy
from gdlib.heads import cosines

SHAPES = {(128, 10): (200, 21), (4096, 1000): (2, 41), (1024, 32000): (1, 15)}  # passes, turns
SMOOTHED_SHAPES = {(4096, 1000): 21, (512, 32000): 11}  # turns
LINEAR_SHAPES = {(4096, 1000): 11, (1024, 32000): 5}  # turns
OF_A_LANGUAGE_MODEL = (2048, 32000)  # tokens and words, in bfloat16
WIDE = (512, 32000, 2048)  # with the width of its features
PROCESSES = 3
MEMORY_SHAPES, MEMORY_TURNS = [(16384, 1000), (1024, 32000)], 2
LIBRARY_SHAPES = {(128, 10): (50, 15), (1024, 1000): (1, 31)}  # passes, turns
WIDTH = 64  # of the features of the linear layer, if its shape does not say it
Pass = Callable[[], None]
Shape = tuple[int, ...]  # samples, classes and width


def decayed(logits: Tensor, labels: Tensor) -> Tensor:
    return gd_cross_entropy(logits, labels, 0.1)


def smoothed(logits: Tensor, labels: Tensor) -> Tensor:
    return gd_cross_entropy(logits, labels, 0.1, label_smoothing=0.1)


def plain_smoothed(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, label_smoothing=0.1)


def softmax_alone(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.softmax(logits.detach(), 1)


def linear_then_plain(features: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(features, weight), labels)


def linear_in_pieces(features: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    options = torch.nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(features, weight, labels, options=options)


def linear_decayed(features: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return linear_gd_cross_entropy(features, weight, labels, 0.1)


@dataclass(frozen=True)
class Candidate:
    """A loss that is measured."""

    title: str
    function: Callable[..., Tensor]
    linear: bool = False  # it takes features and the weight of a last layer in place of logits


LOSSES = {
    "plain": Candidate("F.cross_entropy", F.cross_entropy),
    "softmax": Candidate("torch.softmax, without loss and gradient", softmax_alone),
    "decayed": Candidate("gd_cross_entropy", decayed),
    "plain smoothed": Candidate("F.cross_entropy with label smoothing", plain_smoothed),
    "smoothed": Candidate("gd_cross_entropy with label smoothing", smoothed),
    "linear then plain": Candidate("F.linear and F.cross_entropy", linear_then_plain, linear=True),
    "linear in pieces": Candidate("F.linear_cross_entropy", linear_in_pieces, linear=True),
    "linear decayed": Candidate("linear_gd_cross_entropy", linear_decayed, linear=True),
}


def inputs(shape: Shape, linear: bool, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    samples, classes, width = (*shape, WIDTH)[:3]
    labels = torch.randint(0, classes, (samples,), generator=generator)
    sizes = ((samples, width), (classes, width)) if linear else ((samples, classes),)
    made = [torch.randn(size, generator=generator).to(dtype) for size in sizes]
    return [*(one.requires_grad_() for one in made), labels]


def backward_pass(loss_fn: Callable[..., Tensor], arguments: list[Tensor]) -> Pass:
    def one() -> None:
        for argument in arguments:
            argument.grad = None
        loss = loss_fn(*arguments)
        if loss.requires_grad:
            loss.backward()

    return one


def keep_memory() -> None:
    """Let the allocator keep what it has taken from the system (glibc).

    After a first pass there are no page faults.
    """
    libc, no_mapping, trim = ctypes.CDLL(None), -4, -1
    if not (libc.mallopt(no_mapping, 0) and libc.mallopt(trim, 2**31 - 1)):
        raise OSError("the allocator of this system cannot be asked to keep its memory")


def faults() -> int:
    """Page faults of this process so far, of those that read no file."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def turns_of_two(
    ours: str,
    theirs: str,
    shape: Shape,
    passes: int,
    turns: int,
    keep: bool,
    dtype: torch.dtype = torch.float32,
) -> dict[str, tuple[list[float], float]]:
    """Seconds of a pass in each turn, and the median page faults of a pass, of both sides.

    To be called in a process of its own.
    """
    if keep:
        keep_memory()
    torch.set_num_threads(1)
    given = inputs(shape, LOSSES[ours].linear, dtype)
    sides = {name: backward_pass(LOSSES[name].function, given) for name in (ours, theirs)}
    seconds, counted = take_turns(sides, turns, passes=passes), {}
    for name, one in sides.items():
        # now and then the allocator finds no place that fits, and a single pass takes an array anew
        each = []
        for _ in range(passes):
            before = faults()
            one()
            each.append(faults() - before)
        counted[name] = statistics.median(each)
    return {name: (seconds[name], counted[name]) for name in sides}


def against_cross_entropy(
    ours: str,
    theirs: str,
    shape: Shape,
    *,
    passes: int,
    turns: int,
    keep: bool = True,
    processes: int = PROCESSES,
    group: str = "time",
    dtype: torch.dtype = torch.float32,
) -> Row:
    found = [
        in_a_fresh_process(turns_of_two, ours, theirs, shape, passes, turns, keep, dtype)
        for _ in range(processes)
    ]
    seconds = {name: [value for one in found for value in one[name][0]] for name in (ours, theirs)}
    counted = {
        name: round(statistics.median(one[name][1] for one in found)) for name in (ours, theirs)
    }
    return compared(
        seconds[ours],
        seconds[theirs],
        what=LOSSES[ours].title,
        shape=shape,
        how=", ".join(["bfloat16"] * (dtype == torch.bfloat16) + ["with page faults"] * (not keep)),
        against=LOSSES[theirs].title,
        kind="share of the time",
        scale=1e6,
        unit="µs",
        group=group,
        remark=f"page faults of a pass: {counted[ours]:,} and {counted[theirs]:,}, "
        f"{processes} processes",
    )


def resident_bytes(which: str) -> int:
    """``VmRSS``, now, or ``VmHWM``, at the peak of this process (Linux)."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(which))


def extra_memory(name: str, shape: Shape) -> float:
    """Bytes beyond those held before the pass, at the peak.

    To be called in a process of its own.
    """
    torch.set_num_threads(1)
    loss = LOSSES[name]
    backward_pass(loss.function, inputs((8, 20), loss.linear))()
    arguments = inputs(shape, loss.linear)
    before = resident_bytes("VmRSS")
    backward_pass(loss.function, arguments)()
    return float(resident_bytes("VmHWM") - before)


def in_a_fresh_process(function: Callable[..., Any], *arguments: object) -> Any:
    with concurrent.futures.ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        return pool.submit(function, *arguments).result()


def memory(ours: str, theirs: str, shape: Shape, *, turns: int) -> Row:
    taken = {
        name: [in_a_fresh_process(extra_memory, name, shape) for _ in range(turns)]
        for name in (ours, theirs)
    }
    return compared(
        taken[ours],
        taken[theirs],
        what=LOSSES[ours].title,
        shape=shape,
        against=LOSSES[theirs].title,
        kind="share of the memory",
        scale=1 / (4 * math.prod(shape[:2])),
        unit="sizes of the logits",
        group="memory",
    )


def against_the_library(shape: Shape, *, passes: int, turns: int) -> list[Row]:
    from pytorch_metric_learning import losses as library

    functions = {
        "ArcFace": (
            library.ArcFaceLoss,
            lambda x, c, h: functional.arcface_cross_entropy(x, c, 64.0, math.radians(28.6)),
        ),
        "CosFace": (
            library.CosFaceLoss,
            lambda x, c, h: functional.cosface_cross_entropy(x, c, 64.0, 0.35),
        ),
        "SphereFace": (
            library.SphereFaceLoss,
            lambda x, c, h: functional.sphereface_cross_entropy(x, c, scale=h.norm(dim=1)),
        ),
    }
    rows = []
    for name, (theirs, function) in functions.items():
        torch.manual_seed(0)
        reference = theirs(shape[1], WIDTH)
        features, weight, labels = inputs(shape, True)
        with torch.no_grad():
            weight.copy_(reference.W.T)

        def ours(
            h: Tensor, w: Tensor, c: Tensor, function: Callable[..., Tensor] = function
        ) -> Tensor:
            return function(cosines(h, w.T), c, h)

        def other(
            h: Tensor,
            w: Tensor,
            c: Tensor,
            reference: Callable[[Tensor, Tensor], Tensor] = reference,
        ) -> Tensor:
            return reference(h, c)

        values = ours(features, weight, labels), other(features, weight, labels)
        # the weight of the library is its own; it is named here so that it too starts each pass
        # without a gradient
        sides = {
            "ours": backward_pass(ours, [features, weight, labels]),
            "theirs": backward_pass(other, [features, reference.W, labels]),
        }
        seconds = take_turns(sides, turns, passes=passes)
        rows.append(
            compared(
                seconds["ours"],
                seconds["theirs"],
                what=name,
                shape=shape,
                against="pytorch-metric-learning",
                kind="share of the time",
                scale=1e6,
                unit="µs",
                group="library",
                remark="" if torch.allclose(*values, rtol=1e-4) else "the values DIFFER",
            )
        )
    return rows


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, given)
    torch.set_num_threads(1)
    pairs = (
        ("decayed", "plain"),
        ("linear decayed", "linear then plain"),
        ("linear decayed", "linear in pieces"),
        ("smoothed", "plain smoothed"),
    )
    linux = platform.system() == "Linux"  # where memory can be held
    rows = []
    processes = 1 if options.smoke else PROCESSES
    for keep in ((True,) if options.smoke else (True, False)) if linux else (False,):
        for shape, (passes, turns) in SHAPES.items():
            if not options.smoke or shape == (128, 10):
                turns = 1 if options.smoke else turns
                how = {"passes": passes, "turns": turns, "keep": keep, "processes": processes}
                rows.append(against_cross_entropy(*pairs[0], shape, **how))
                if keep:
                    rows.append(
                        against_cross_entropy("softmax", "plain", shape, **how, group="bound")
                    )
        for pair in pairs[1:]:
            if pair[1] == "linear in pieces" and not keep:
                continue
            shapes = SMOOTHED_SHAPES if pair[0] == "smoothed" else LINEAR_SHAPES
            for shape, turns in ({(128, 10): 1} if options.smoke else shapes).items():
                rows.append(
                    against_cross_entropy(
                        *pair, shape, passes=1, turns=turns, keep=keep, processes=processes
                    )
                )
    if not options.smoke:
        how = {"passes": 1, "turns": 5, "keep": linux, "processes": 1}
        rows.append(
            against_cross_entropy(*pairs[0], OF_A_LANGUAGE_MODEL, **how, dtype=torch.bfloat16)
        )
        rows += [against_cross_entropy(*pair, WIDE, **how) for pair in pairs[1:3]]
    if linux:
        for shape in [(256, 1000)] if options.smoke else MEMORY_SHAPES:
            rows += [
                memory(*pair, shape, turns=1 if options.smoke else MEMORY_TURNS)
                for pair in pairs[: 1 if options.smoke else 3]
            ]
    else:
        print("  memory is measured on Linux only")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for shape, (passes, turns) in LIBRARY_SHAPES.items():
                if not options.smoke or shape == (128, 10):
                    rows += against_the_library(
                        shape, passes=passes, turns=1 if options.smoke else turns
                    )
    except ImportError:
        print(
            "  pytorch-metric-learning is not installed: no comparison with it"
            " (pip install pytorch-metric-learning)"
        )
    finish("loss", rows, options)


if __name__ == "__main__":
    main()
