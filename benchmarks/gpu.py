"""How fast a GPU is here; ``python -m study.gpu check`` says whether it computes the same.

Half a minute: the Triton kernel of the gradient-decay loss, with its gradient, against a copy
of the logits and against other losses; :mod:`benchmarks.kernel` says more. Half a minute:
steps of ResNet18 on random images, told as seconds for the 100,000 steps of 200 epochs on CIFAR-10,
beside two eager loops. The loops are what one would write first: a DataLoader with four workers and
pinned memory, augmentation on the CPU; and eager steps with the images on the GPU and the
augmentation there, both in float32 with convolutions in TF32, PyTorch's default. A time is that of
an epoch of 100 steps between two events on the GPU, after a first one, which warms up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.kernel import ALONE, KERNEL, check_kernel, kernel_rows
from benchmarks.measuring import Row, arguments, compared, finish, machine
from gdlib import GDCrossEntropyLoss
from study import gpu
from study.data import augmentation
from study.networks import resnet18

SAMPLES, BATCH, STEPS, TURNS = 10_000, 100, 200 * 500, 3


def normalized(batch: Tensor, draws: Tensor) -> Tensor:
    return augmentation.apply(batch, draws).float() / 127.5 - 1


def one_by_one(batches: Callable[[int], Any]) -> Callable[[Callable[[], None]], None]:
    """A plain loop over batches that are on the GPU."""

    def loop(epoch_ends: Callable[[], None]) -> None:
        torch.manual_seed(0)
        net, loss_fn = resnet18().cuda(), GDCrossEntropyLoss(0.1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        for epoch in range(TURNS + 1):
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


class EpochTimes:
    """Seconds of each epoch, between events on the GPU, after a first one, which warms up."""

    def __init__(self) -> None:
        self.events: list[torch.cuda.Event] = []

    def __call__(self, *of_an_epoch: object) -> dict[str, Tensor]:
        """Note the end of an epoch."""
        self.events.append(torch.cuda.Event(enable_timing=True))
        self.events[-1].record()
        return {}

    def seconds(self) -> list[float]:
        """Wait for the GPU, and return the times."""
        torch.cuda.synchronize()
        ends = self.events[-TURNS - 1 :]
        return [start.elapsed_time(end) / 1e3 for start, end in pairwise(ends)]


def kernel(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Compare the kernel with every other side on the same logits."""
    sides: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for one in found:
        if one.get("group") == "logits" and "times" in one:
            sides.setdefault((*one["shape"], one["dtype"]), {})[one["what"]] = one["times"]
    return [
        compared(
            times[KERNEL],
            theirs,
            what=KERNEL,
            against=name,
            kind="times faster",
            shape=tuple(shape),
            how=dtype,
            unit="ms",
            group="kernel",
        )
        for (*shape, dtype), times in sides.items()
        for name, theirs in times.items()
        if KERNEL in times and name not in (KERNEL, ALONE)
    ]


WAYS: dict[str, dict[str, Any]] = {
    "ResNet18 by itself": {"runs": 1, "precision": "bfloat16", "recorded": True},
    "ResNet18, a stack of 5": {"runs": 5, "precision": "bfloat16", "recorded": True},
    "ResNet18, a stack of 5, one step at a time": {"runs": 5, "precision": "bfloat16"},
    "the small network, a stack of 14": {
        **{"model": "fast", "runs": 14},
        **{"precision": "bfloat16", "recorded": True},
    },
}


def steps() -> list[Row]:
    """Measure seconds for 200 epochs of a run of 50,000 images, beside two eager loops."""
    pixels = torch.randint(0, 256, (SAMPLES, 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(0, 10, (SAMPLES,))
    loops = {
        "DataLoader": from_loader(pixels, labels),
        "images on the GPU": from_the_device(pixels.cuda(), labels.cuda()),
    }
    to_whole_run = STEPS * BATCH / SAMPLES
    times: dict[str, list[float]] = {}
    for name, switches in WAYS.items():
        ends = EpochTimes()
        gpu.fit(
            "cuda",
            width=1.0,
            batch_size=BATCH,
            samples=SAMPLES,
            epochs=TURNS + 1,
            measure=ends,
            **switches,
        )
        times[name] = [one * to_whole_run / switches["runs"] for one in ends.seconds()]
        print(f"  {name}: {times[name]} s a run of 200 epochs", flush=True)
    for name, batches in loops.items():
        ends = EpochTimes()
        one_by_one(batches)(ends)
        times[name] = [one * to_whole_run for one in ends.seconds()]
        print(f"  {name}: {times[name]} s a run of 200 epochs", flush=True)
    rows = []
    for name in WAYS:
        ours = times[name]
        middle = sorted(ours)[len(ours) // 2]
        rows.append(Row(name, "", "seconds", middle, min(ours), max(ours), len(ours)))
        for loop in () if "model" in WAYS[name] else loops:
            texts = {"against": f"eager loop, {loop}", "unit": "s for a run of 200 epochs"}
            texts |= {"what": name, "group": "gpu"}
            rows.append(compared(ours, times[loop], kind="times faster", **texts))
    return rows


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, given)
    if not torch.cuda.is_available():
        print("  PyTorch finds no GPU here: nothing to check and nothing to measure")
        return
    device = torch.cuda.get_device_name()
    told = partial(finish, "gpu", options=options, device=device, precision="as each row says")
    torch.backends.cudnn.benchmark = True
    found = {"check": check_kernel(), "speed": kernel_rows()}
    rows = kernel(found["speed"])
    told(rows)  # a cut later on leaves these
    if options.into is not None:
        text = json.dumps(found, indent=1) + "\n"
        (options.into / machine(device) / "kernel.json").write_text(text, encoding="utf-8")
    told(rows + steps())


if __name__ == "__main__":
    main()
