"""P6, P8: what a GPU makes of this project; first whether it computes the same.

P8, half a minute: the Triton kernel of the gradient-decay loss, with its gradient, against a copy
of the logits and against other losses; :mod:`benchmarks.kernel` says more. P6, minutes: seconds for
200 epochs of ResNet18 on CIFAR-10, way by way, against two eager loops. The loops are what one
would write first: a DataLoader with four workers and pinned memory, augmentation on the CPU; and
eager steps with the images on the GPU and the augmentation there.
Random images of CIFAR-10's shape, made once; nothing is downloaded. What is called float32 is so
without TF32, as in the campaigns; the loops have PyTorch's default, convolutions in TF32. A time is
that of an epoch of 500 steps between two events on the GPU, after an epoch that does not count; all
ways take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.kernel import COPY, GOAL, KERNEL, check_kernel, kernel_rows
from benchmarks.measuring import Row, arguments, compared, finish
from gdlib import GDCrossEntropyLoss
from gdlib.models import resnet18
from study import gpu
from study.data import augmentation

SAMPLES, BATCH, EPOCHS, TURNS, RUNS = 50_000, 100, 200, 3, 6


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
    """P8, where Triton is installed: rows of the closing table."""
    found = kernel_rows()
    rows = []
    for ours in found:
        if ours["what"] != KERNEL or ours.get("group") != "logits" or "times" not in ours:
            continue
        for theirs in found:
            same = all(theirs.get(name) == ours[name] for name in ("group", "shape", "dtype"))
            if not same or theirs is ours or "times" not in theirs:
                continue
            goal: dict[str, Any] = {"goal": "P8", "limit": GOAL} if theirs["what"] == COPY else {}
            pairs = list(zip(ours["times"], theirs["times"], strict=False))  # a cut leaves fewer
            rows.append(
                compared(
                    *([pair[side] for pair in pairs] for side in (0, 1)),
                    what=KERNEL,
                    against=theirs["what"],
                    kind="times faster",
                    shape=tuple(ours["shape"]),
                    how=ours["dtype"],
                    unit="ms",
                    group="kernel",
                    **goal,
                )
            )
    return rows


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
    check_kernel()
    torch.backends.cudnn.benchmark = True
    if not options.smoke:
        where = {"device": torch.cuda.get_device_name(), "precision": "as each row says"}
        rows = kernel()
        finish("gpu", rows, options, **where)  # a cut during the minutes of P6 leaves these
        finish("gpu", rows + measure(), options, **where)


if __name__ == "__main__":
    main()
