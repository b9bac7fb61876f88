"""P2: a sweep over β as one stacked training.

It is timed against the same runs one after another in a plain PyTorch loop.

The network and batch of the MNIST experiments (784-50-20-10, batch 100), ten schedules on shared
batches, random data of MNIST's shape. All three ways train the same runs and take turns. Times are
processor times of this one thread. The goal is judged against the faster loop.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.measuring import arguments, compared, finish, take_turns
from gdlib import GDCrossEntropyLoss
from gdlib.models import StackedMLP
from gdlib.train import Batches, Optimisation, RunLoss, train
from study.objective import GradientDecay

BETAS = [5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.01, 0.005, 0.001]
SAMPLES, BATCH, TURNS, ROUNDS = 5_000, 100, 7, 3
OPTIONS = {"momentum": 0.9, "weight_decay": 1e-4}


def stacked(inputs: Tensor, labels: Tensor) -> None:
    model = StackedMLP([784, 50, 20, 10], seeds=[0] * len(BETAS))
    train(
        model,
        RunLoss(GradientDecay([1.0] * len(BETAS))),
        (inputs, labels),
        epochs=1,
        optimisation=Optimisation(1e-3, **OPTIONS),
        batches=Batches(BATCH),
        schedule=lambda step: BETAS,
    )


def one_by_one(batches: Callable[[Tensor, Tensor], object], inputs: Tensor, labels: Tensor) -> None:
    for beta in BETAS:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 20), nn.ReLU(), nn.Linear(20, 10)
        )
        optimizer, loss_fn = (
            torch.optim.SGD(net.parameters(), lr=1e-3, **OPTIONS),
            GDCrossEntropyLoss(beta),
        )
        for batch, target in batches(inputs, labels):
            optimizer.zero_grad()
            loss_fn(net(batch), target).backward()
            optimizer.step()


def loader(inputs: Tensor, labels: Tensor) -> object:
    return DataLoader(TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True)


def slices(inputs: Tensor, labels: Tensor) -> object:
    return ((inputs[chosen], labels[chosen]) for chosen in torch.randperm(len(inputs)).split(BATCH))


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, given)
    torch.set_num_threads(1)
    samples, turns = (200, 1) if options.smoke else (SAMPLES, TURNS)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = (
        torch.rand(samples, 784, generator=generator),
        torch.randint(0, 10, (samples,), generator=generator),
    )
    seconds = take_turns(
        {
            "stacked": lambda: stacked(inputs, labels),
            "slicing": lambda: one_by_one(slices, inputs, labels),
            "DataLoader": lambda: one_by_one(loader, inputs, labels),
        },
        turns,
        rounds=1 if options.smoke else ROUNDS,
    )
    per_step = 1e6 / (samples // BATCH * len(BETAS))
    rows = [
        compared(
            seconds["stacked"],
            seconds[name],
            what=f"stacked sweep of {len(BETAS)} β",
            against=f"plain loop with {name}",
            kind="times faster",
            goal="P2" if name == "slicing" else "",
            limit=4.0 if name == "slicing" else None,
            scale=per_step,
            unit="µs per run and step",
            group="MNIST sweep",
        )
        for name in ("slicing", "DataLoader")
    ]
    finish("sweep", rows, options)


if __name__ == "__main__":
    main()
