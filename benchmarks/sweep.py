"""A sweep over β as one stacked training.

It is timed against the same runs one after another in a plain PyTorch loop.

The network and batch of the MNIST experiments (784-50-20-10, batch 100), ten schedules on shared
batches, random data of MNIST's shape. All ways train the same runs and take turns. Times are
processor times of this one thread. Beside the plain loops there are what PyTorch itself offers: the
same loop with network and loss compiled, β being a tensor so that one graph serves all, and the
runs stacked by ``torch.func.stack_module_state`` under ``vmap``. How long the compiler takes is not
counted.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.measuring import arguments, can_compile, compared, finish, take_turns
from gdlib import GDCrossEntropyLoss
from gdlib.functional import gd_cross_entropy
from gdlib.models import StackedMLP
from gdlib.train import train

BETAS = [5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.01, 0.005, 0.001]
SAMPLES, BATCH, TURNS, ROUNDS = 5_000, 100, 7, 3
OPTIONS = {"momentum": 0.9, "weight_decay": 1e-4}
AGAINST = {
    "slicing": "plain loop with slicing",
    "DataLoader": "plain loop with DataLoader",
    "compiled": "the loop with slicing, compiled",
    "vmap": "torch.func.vmap",
}
Batched = Iterable[tuple[Tensor, Tensor]]


def stacked(inputs: Tensor, labels: Tensor) -> None:
    model = StackedMLP([784, 50, 20, 10], seeds=[0] * len(BETAS))
    train(
        model,
        GDCrossEntropyLoss(),  # its β is that of each run
        (inputs, labels),
        epochs=1,
        lr=1e-3,
        batch_size=BATCH,
        betas=BETAS,
        **OPTIONS,
    )


def network() -> nn.Sequential:
    """The network of one run, always the same."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 20), nn.ReLU(), nn.Linear(20, 10)
    )


def one_by_one(
    batches: Callable[[Tensor, Tensor], Batched], inputs: Tensor, labels: Tensor
) -> list[nn.Sequential]:
    """Train the runs one after another; return their networks."""
    networks = []
    for beta in BETAS:
        net = network()
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, **OPTIONS)
        loss_fn = GDCrossEntropyLoss(beta)
        for batch, target in batches(inputs, labels):
            optimizer.zero_grad()
            loss_fn(net(batch), target).backward()
            optimizer.step()
        networks.append(net)
    return networks


class Compiled(nn.Module):
    """Network and loss of one run, compiled together, for a loop over the runs."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()
        self.compile(dynamic=False)

    def forward(self, batch: Tensor, target: Tensor, beta: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return gd_cross_entropy(self.net(batch), target, beta=beta)

    def train_all(self, inputs: Tensor, labels: Tensor) -> list[dict[str, Tensor]]:
        """Train the runs one after another; return their weights."""
        trained = []
        for beta in torch.tensor(BETAS):
            self.net.load_state_dict(network().state_dict())
            optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3, **OPTIONS)
            for batch, target in slices(inputs, labels):
                optimizer.zero_grad()
                self(batch, target, beta).backward()
                optimizer.step()
            trained.append(copy.deepcopy(self.net.state_dict()))
        return trained


def mapped(inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Train the runs as PyTorch stacks modules; return their weights, ``[R, ...]`` each."""
    net = network()
    weights, _ = torch.func.stack_module_state([net] * len(BETAS))
    form = copy.deepcopy(net).to("meta")

    def loss_of_run(
        weights: dict[str, Tensor], beta: Tensor, batch: Tensor, target: Tensor
    ) -> Tensor:
        output = torch.func.functional_call(form, weights, (batch,))
        return gd_cross_entropy(output, target, beta=beta)

    gradients_of = torch.func.vmap(torch.func.grad(loss_of_run), in_dims=(0, 0, None, None))
    optimizer = torch.optim.SGD(weights.values(), lr=1e-3, **OPTIONS)
    betas = torch.tensor(BETAS)
    for batch, target in slices(inputs, labels):
        for name, gradient in gradients_of(weights, betas, batch, target).items():
            weights[name].grad = gradient
        optimizer.step()
    return weights


def loader(inputs: Tensor, labels: Tensor) -> Batched:
    return DataLoader(TensorDataset(inputs, labels), batch_size=BATCH, shuffle=True)


def slices(inputs: Tensor, labels: Tensor) -> Batched:
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
    ways: dict[str, Callable[[], object]] = {
        "stacked": lambda: stacked(inputs, labels),
        "slicing": lambda: one_by_one(slices, inputs, labels),
        "DataLoader": lambda: one_by_one(loader, inputs, labels),
        "vmap": lambda: mapped(inputs, labels),
    }
    if not options.smoke and can_compile():
        compiled = Compiled()
        compiled.train_all(inputs[:BATCH], labels[:BATCH])
        ways["compiled"] = lambda: compiled.train_all(inputs, labels)
    seconds = take_turns(ways, turns, rounds=1 if options.smoke else ROUNDS)
    per_step = 1e6 / (samples // BATCH * len(BETAS))
    rows = [
        compared(
            seconds["stacked"],
            seconds[name],
            what=f"stacked sweep of {len(BETAS)} β",
            against=AGAINST[name],
            kind="times faster",
            scale=per_step,
            unit="µs per run and step",
            group="MNIST sweep",
        )
        for name in AGAINST
        if name in seconds
    ]
    finish("sweep", rows, options)


if __name__ == "__main__":
    main()
