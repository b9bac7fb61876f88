"""Forward and backward pass of the gradient-decay loss against F.cross_entropy, side by side, in processor time of one thread."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional import gd_cross_entropy

SHAPES = {(128, 10): 200, (4096, 1000): 1, (1024, 32000): 1}  # shape: passes in one measurement
TURNS = 9


def seconds(loss_fn: Callable[[Tensor, Tensor], Tensor], logits: Tensor, labels: Tensor, passes: int) -> float:
    start = time.process_time()
    for _ in range(passes):
        logits.grad = None
        loss_fn(logits, labels).backward()
    return (time.process_time() - start) / passes


def main() -> None:
    torch.set_num_threads(1)
    print("gd_cross_entropy(β = 0.1) against F.cross_entropy, forward and backward, ratios (1 is equal, below 1 is faster):")
    for shape, passes in SHAPES.items():
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(shape, generator=generator).requires_grad_()
        labels = torch.randint(0, shape[1], shape[:1], generator=generator)
        ratios, ours = [], []
        for turn in range(TURNS + 1):
            plain = seconds(F.cross_entropy, logits, labels, passes)
            decayed = seconds(lambda z, c: gd_cross_entropy(z, c, 0.1), logits, labels, passes)
            if turn > 0:  # the first turn warms up
                ratios.append(decayed / plain)
                ours.append(decayed)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"  {list(shape)}: {statistics.median(ratios):.2f} ({spread}), {statistics.median(ours) * 1e6:.0f} µs")
    print(
        f"{TURNS} turns; torch {torch.__version__}, {platform.machine()}, 1 thread of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
