"""P6, P8: what a GPU makes of this project; first whether it computes the same.

P8, seconds: the Triton kernel of the gradient-decay loss, which makes the gradient in the forward
pass, against a copy of the logits, which reads and writes as much as the kernel must at least; and
both passes against those of the eager losses. The backward pass reads and writes the gradient once
more. P6, minutes: seconds for 200 epochs of ResNet18 on CIFAR-10, way by way, against two eager
loops. The loops are what one would write first: a DataLoader with four workers and pinned memory,
augmentation on the CPU; and eager steps with the images on the GPU and the augmentation there.
Random images of CIFAR-10's shape, made once; nothing is downloaded. What is called float32 is so
without TF32, as in the campaigns; the loops have PyTorch's default, convolutions in TF32. A time is
that of an epoch of 500 steps between two events on the GPU, after an epoch that does not count; all
ways take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.measuring import Row, arguments, compared, finish
from gdlib import GDCrossEntropyLoss
from gdlib.functional import gd_cross_entropy
from gdlib.models import resnet18
from study import gpu
from study.data import augmentation

SAMPLES, BATCH, EPOCHS, TURNS, RUNS = 50_000, 100, 200, 3, 6
LOGITS, PASSES = (16_384, 32_000), 10
COPY = "a copy of the logits"


def normalized(batch: Tensor, draws: Tensor) -> Tensor:
    return augmentation.apply(batch, draws).float() / 127.5 - 1


def one_by_one(batches: Callable[[int], Any]) -> Callable[[Callable[[], None]], None]:
    """A plain loop over batches that are on the GPU."""

    def loop(epoch_ends: Callable[[], None]) -> None:
        torch.manual_seed(0)
        net, loss_fn = resnet18().cuda(), GDCrossEntropyLoss(0.1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        for epoch in range(2):
            for inputs, target in batches(epoch):
                optimizer.zero_grad()
                loss_fn(net(inputs), target).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 3.0)
                optimizer.step()
            epoch_ends()

    return loop


def from_loader(pixels: Tensor, labels: Tensor) -> Callable[[int], Any]:
    loader = DataLoader(
        TensorDataset(pixels, labels),
        BATCH,
        shuffle=True,
        num_workers=4,
        pin_memory=True,
        persistent_workers=True,
    )

    def batches(epoch: int) -> Any:
        for step, (batch, target) in enumerate(loader):
            draws = augmentation.draw("crop-flip", len(batch), seed=epoch, step=step)
            yield normalized(batch, draws).cuda(non_blocking=True), target.cuda(non_blocking=True)

    return batches


def from_the_device(pixels: Tensor, labels: Tensor) -> Callable[[int], Any]:
    def batches(epoch: int) -> Any:
        for step, chosen in enumerate(torch.randperm(len(pixels), device="cuda").split(BATCH)):
            draws = augmentation.draw("crop-flip", len(chosen), seed=epoch, step=step).cuda()
            yield normalized(pixels[chosen], draws), labels[chosen]

    return batches


def seconds_of_an_epoch(way: Callable[[Callable[[], None]], None]) -> float:
    """The time between the ends of the first and of the second epoch."""
    events: list[torch.cuda.Event] = []

    def epoch_ends() -> None:
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()

    way(epoch_ends)
    torch.cuda.synchronize()
    return events[-2].elapsed_time(events[-1]) / 1e3


def kernel() -> list[Row]:
    """P8, where Triton is installed."""
    try:
        from gdlib.functional.kernels import fused_gd_cross_entropy
    except ImportError:
        print("  Triton is not installed: its kernel is not measured (P8)")
        return []
    logits = torch.randn(LOGITS, device="cuda", dtype=torch.bfloat16).requires_grad_()
    labels, copied = (
        torch.randint(0, LOGITS[1], LOGITS[:1], device="cuda"),
        torch.empty_like(logits),
    )

    def both_ways(loss_fn: Callable[..., Tensor]) -> Callable[[], object]:
        def one() -> None:
            logits.grad = None
            loss_fn(logits, labels).backward()

        return one

    ways: dict[str, Callable[[], object]] = {
        "kernel, forward": lambda: fused_gd_cross_entropy(logits, labels, beta=0.1),
        "kernel": both_ways(partial(fused_gd_cross_entropy, beta=0.1)),
        COPY: lambda: copied.copy_(logits.detach()),
        "gd_cross_entropy": both_ways(partial(gd_cross_entropy, beta=0.1)),
        "F.cross_entropy": both_ways(F.cross_entropy),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):  # the first does not count: it compiles
        for name, way in ways.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(PASSES):
                way()
            end.record()
            torch.cuda.synchronize()
            times[name] += [start.elapsed_time(end) / 1e3 / PASSES] if turn else []
    texts: dict[str, Any] = {
        "what": "fused_gd_cross_entropy",
        "shape": tuple(LOGITS),
        "kind": "times faster",
        "unit": "ms",
        "group": "kernel",
        "scale": 1e3,
    }
    return [
        compared(
            times["kernel, forward"],
            times[COPY],
            against=COPY,
            how="bfloat16, forward",
            goal="P8",
            limit=0.8,
            **texts,
        ),
        *(
            compared(times["kernel"], times[name], against=name, how="bfloat16", **texts)
            for name in ("gd_cross_entropy", "F.cross_entropy")
        ),
    ]


def measure() -> list[Row]:
    pixels, labels = gpu.images(SAMPLES)
    there = pixels.cuda(), labels.cuda()
    loops = {
        "DataLoader": from_loader(pixels, labels),
        "images on the GPU": from_the_device(*there),
    }
    ways = {name: (one_by_one(batches), 1) for name, batches in loops.items()}
    best = ""
    for name, switches in gpu.WAYS.items():
        for runs in (1, RUNS):

            def stacked(
                epoch_ends: Callable[[], None],
                runs: int = runs,
                switches: dict[str, Any] = switches,
            ) -> None:
                def measured(model: object, epoch: int) -> dict[str, Tensor]:
                    epoch_ends()
                    return {}

                with nullcontext() if "precision" in switches else gpu.without_tf32(benchmark=True):
                    gpu.fit("cuda", there, epochs=2, runs=runs, measure=measured, **switches)

            title = f"{name}, {runs} run{'s' if runs > 1 else ''}"
            ways[title] = stacked, runs
            if runs == RUNS and switches.get("precision") == "bfloat16":
                best = title
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, (way, runs) in ways.items():
            times[name].append(seconds_of_an_epoch(way) * EPOCHS / runs)
    rows = []
    for name in list(ways)[len(loops) :]:
        middle = sorted(times[name])[TURNS // 2]
        rows.append(
            Row(
                name,
                "",
                "seconds",
                middle,
                min(times[name]),
                max(times[name]),
                TURNS,
                **({"goal": "P6", "limit": 150.0} if name == best else {}),
            )
        )
        for loop in loops:
            limit: dict[str, Any] = (
                {"goal": "P6", "limit": 3.0} if name == best and loop == "DataLoader" else {}
            )
            texts = {
                "what": name,
                "against": f"eager loop, {loop}",
                "unit": "s for a run of 200 epochs",
                "group": "gpu",
            }
            rows.append(compared(times[name], times[loop], kind="times faster", **texts, **limit))
    return rows


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, given)
    if not torch.cuda.is_available():
        print("  PyTorch finds no GPU here: nothing to check and nothing to measure (P6, P8)")
        return
    found, wrong = gpu.check("cuda")
    for (name, numbers), distance in found.items():
        verdict = " (WRONG)" if name in wrong else ""
        print(
            f"  {name}, weights in {numbers}: {distance:.1e} of the way apart from a CPU{verdict}"
        )
    torch.backends.cudnn.benchmark = True
    if not options.smoke:
        where = {"device": torch.cuda.get_device_name(), "precision": "as each row says"}
        rows = kernel()
        finish("gpu", rows, options, **where)  # a cut during the minutes of P6 leaves these
        finish("gpu", rows + measure(), options, **where)


if __name__ == "__main__":
    main()
