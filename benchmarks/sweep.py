"""A sweep over β as one stacked training, against the same runs one after another in a plain PyTorch loop.

The network and batch of the MNIST experiments (784-50-20-10, batch 100), ten schedules on shared batches, random data of MNIST's shape.
All three ways train the same runs and take turns; the medians of the ratios of each turn are printed. Times are processor times of this one
thread, in which other processes count little.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gdlib import GDCrossEntropyLoss
from gdlib.experiment import gd_loss
from gdlib.models import mlp
from gdlib.train import train

BETAS = [5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.01, 0.005, 0.001]
SAMPLES, BATCH, TURNS = 5_000, 100, 7
OPTIONS = {"momentum": 0.9, "weight_decay": 1e-4}


def stacked(inputs: Tensor, labels: Tensor) -> None:
    model = mlp([784, 50, 20, 10], seeds=[0] * len(BETAS))
    loss_fn = gd_loss([1.0] * len(BETAS))
    train(model, loss_fn, lambda step: BETAS, inputs, labels, epochs=1, batch_size=BATCH, learning_rate=1e-3, **OPTIONS)


def one_by_one(batches: Callable[[Tensor, Tensor], object], inputs: Tensor, labels: Tensor) -> None:
    for beta in BETAS:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 20), nn.ReLU(), nn.Linear(20, 10))
        optimizer, loss_fn = torch.optim.SGD(net.parameters(), lr=1e-3, **OPTIONS), GDCrossEntropyLoss(beta)
        for batch, target in batches(inputs, labels):
            optimizer.zero_grad()
            loss_fn(net(batch), target).backward()
            optimizer.step()


def loader(inputs: Tensor, labels: Tensor) -> object:
    return DataLoader(TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True)


def slices(inputs: Tensor, labels: Tensor) -> object:
    return ((inputs[chosen], labels[chosen]) for chosen in torch.randperm(len(inputs)).split(BATCH))


def main() -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.rand(SAMPLES, 784, generator=generator), torch.randint(0, 10, (SAMPLES,), generator=generator)
    ways: dict[str, Callable[[Tensor, Tensor], None]] = {
        "stacked": stacked,
        "plain loop with DataLoader": lambda x, y: one_by_one(loader, x, y),
        "plain loop with slicing": lambda x, y: one_by_one(slices, x, y),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):
        for name, way in ways.items():
            start = time.process_time()
            way(inputs, labels)
            if turn > 0:  # the first turn warms up
                seconds[name].append(time.process_time() - start)

    for name in list(ways)[1:]:
        ratios = sorted(slow / fast for slow, fast in zip(seconds[name], seconds["stacked"], strict=True))
        print(f"stacked sweep against a {name}: {statistics.median(ratios):.1f} times faster (turns: {ratios[0]:.1f} to {ratios[-1]:.1f})")
    steps = SAMPLES // BATCH * len(BETAS)
    print("µs per run and step:", ", ".join(f"{name} {statistics.median(times) / steps * 1e6:.0f}" for name, times in seconds.items()))
    print(f"{len(BETAS)} runs, {TURNS} turns; torch {torch.__version__}, {platform.machine()}")
    print(f"1 thread of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
