"""A cross-validation on a small table as one stacked training.

It is timed against its trainings one after another in a plain PyTorch loop.

A network 4-16-16-3 with batches of 16, ten epochs, as in ArcGrad's Table I: 100 trainings (ten runs
of ten folds) in a stack, and a few of them one by one. Both ways do the same steps and take turns;
the ratio is that of the times per run and step. Times are processor times of this one thread.
Softmax, soft margin and gradient decay are trained by the backward pass written by hand, the others
by autograd. Besides the loop, there is the strongest rival: PyTorch's own stack,
``torch.func.stack_module_state`` under ``vmap``. AdaCos keeps its scale, which ``vmap`` does not
allow, so its rival is the loop compiled; how long the compiler takes is not counted.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.measuring import Row, arguments, can_compile, compared, finish, take_turns
from gdlib import functional
from gdlib.losses import AdaCosLoss
from gdlib.models import RunModel, StackedMLP
from gdlib.train import RunLoss, train
from study.losses import parse
from study.networks import HeadedMLP
from study.objective import StackLoss
from study.run import order_of_parts

RUNS, SAMPLES, BATCH, EPOCHS, TURNS, ROUNDS, ALONE = 100, 135, 16, 10, 7, 2, 2
SIZES = [4, 16, 16, 3]
TITLES = {
    "softmax": "softmax",
    "m-softmax 0.5": "soft margin",
    "gd 0.1": "gradient decay",
    "lm 0.3": "large margin",
    "arcface 20 0.1": "ArcFace",
    "arcgrad 5": "ArcGrad",
    "adacos": "AdaCos",
}
MAPPED = tuple(text for text in TITLES if text != "adacos")


def plain_loss(text: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The same loss for a single run."""
    losses: dict[str, Callable[[], Callable[[Tensor, Tensor], Tensor]]] = {
        "softmax": lambda: F.cross_entropy,
        "m-softmax 0.5": lambda: partial(functional.soft_margin_cross_entropy, margin=0.5),
        "gd 0.1": lambda: partial(functional.gd_cross_entropy, beta=0.1),
        "lm 0.3": lambda: partial(functional.large_margin_cross_entropy, reg_lambda=0.3),
        "arcface 20 0.1": lambda: partial(functional.arcface_cross_entropy, scale=20.0, margin=0.1),
        "arcgrad 5": lambda: partial(functional.arcgrad_cross_entropy, scale=5.0),
        "adacos": lambda: AdaCosLoss(SIZES[-1]),
    }
    return losses[text]()


class Stack:
    """The stacked training of one method; each call starts anew from the same weights."""

    def __init__(
        self, text: str, inputs: Tensor, labels: Tensor, *, runs: int, epochs: int
    ) -> None:
        self.chosen, self.inputs, self.labels, self.epochs = parse(text), inputs, labels, epochs
        self.parts = [torch.randperm(len(inputs))[:SAMPLES] for _ in range(runs)]

    def model(self) -> RunModel:
        """The model before its training."""
        head, seeds = self.chosen.kind.head, range(len(self.parts))
        if head == "linear":  # trained by hand
            return StackedMLP(SIZES, seeds, bias=False)
        return HeadedMLP(SIZES, seeds, head=head)

    def loss_fn(self) -> StackLoss:
        """The loss before its first step."""
        return StackLoss(self.chosen, SIZES[-1], runs=len(self.parts), features=SIZES[-2])

    def __call__(self) -> None:
        """Train."""
        order = order_of_parts(self.parts, range(len(self.parts)))
        train(
            self.model(),
            RunLoss(self.loss_fn()),
            (self.inputs, self.labels),
            epochs=self.epochs,
            lr=0.1,
            momentum=0.9,
            batch_size=BATCH,
            order=order,
        )


class Alone(nn.Module):
    """The network and the loss of one run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cosine, self.loss_fn = parse(text).kind.head == "cosine", plain_loss(text)
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 3, bias=False)

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch."""
        features = self.body(inputs)
        output = (
            F.linear(F.normalize(features), F.normalize(self.head.weight))
            if self.cosine
            else self.head(features)
        )
        return self.loss_fn(output, labels)


class Loop:
    """A few trainings of one method, one after another in a plain loop.

    Compiled, all of them use the network that was compiled once.
    """

    def __init__(
        self, text: str, inputs: Tensor, labels: Tensor, *, epochs: int, compiled: bool = False
    ) -> None:
        self.text, self.inputs, self.labels, self.epochs = text, inputs, labels, epochs
        self.compiled = Alone(text) if compiled else None
        if self.compiled is not None:
            self.compiled.compile(dynamic=False)

    def __call__(self) -> list[Alone]:
        """Train; return the networks, one again and again where it is compiled."""
        networks = []
        for _ in range(ALONE):
            network = Alone(self.text)
            if self.compiled is not None:
                self.compiled.load_state_dict(network.state_dict())
                network = self.compiled
            optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
            for _ in range(self.epochs):
                for chosen in torch.randperm(SAMPLES).split(BATCH):
                    optimizer.zero_grad()
                    network(self.inputs[chosen], self.labels[chosen]).backward()
                    optimizer.step()
            networks.append(network)
        return networks


class Mapped:
    """The trainings of one method as PyTorch stacks modules; each call starts anew."""

    def __init__(
        self, text: str, inputs: Tensor, labels: Tensor, *, runs: int, epochs: int
    ) -> None:
        self.text, self.inputs, self.labels = text, inputs, labels
        self.runs, self.epochs = runs, epochs

    def __call__(self) -> dict[str, Tensor]:
        """Train; return the weights, ``[R, ...]`` each."""
        networks = [Alone(self.text) for _ in range(self.runs)]
        weights, _ = torch.func.stack_module_state(networks)
        form = copy.deepcopy(networks[0]).to("meta")

        def loss_of_run(weights: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
            return torch.func.functional_call(form, weights, (inputs, labels))

        gradients_of = torch.func.vmap(torch.func.grad(loss_of_run))
        optimizer = torch.optim.SGD(weights.values(), lr=0.1, momentum=0.9)
        for _ in range(self.epochs):
            order = torch.stack([torch.randperm(SAMPLES) for _ in range(self.runs)])
            for chosen in order.split(BATCH, dim=1):
                batch = self.inputs[chosen], self.labels[chosen]
                for name, gradient in gradients_of(weights, *batch).items():
                    weights[name].grad = gradient
                optimizer.step()
        return weights


def measure(
    text: str,
    inputs: Tensor,
    labels: Tensor,
    *,
    runs: int = RUNS,
    epochs: int = EPOCHS,
    turns: int = TURNS,
    rounds: int = ROUNDS,
    compiling: bool = True,
) -> list[Row]:
    ways: dict[str, Callable[[], object]] = {
        "stacked": Stack(text, inputs, labels, runs=runs, epochs=epochs),
        "plain loop with slicing": Loop(text, inputs, labels, epochs=epochs),
    }
    if text in MAPPED:
        ways["torch.func.vmap"] = Mapped(text, inputs, labels, runs=runs, epochs=epochs)
    elif compiling and can_compile():
        torch.compiler.reset()
        loop = ways["the same loop, compiled"] = Loop(
            text, inputs, labels, epochs=epochs, compiled=True
        )
        loop()
    seconds = take_turns(ways, turns, rounds=rounds)
    steps = epochs * -(-SAMPLES // BATCH)

    def of_a_step(way: str) -> list[float]:
        number = ALONE if "loop" in way else runs
        return [value / (number * steps) for value in seconds[way]]

    return [
        compared(
            of_a_step("stacked"),
            of_a_step(way),
            what=TITLES[text],
            against=way,
            how="eager",
            kind="times faster",
            scale=1e6,
            unit="µs per run and step",
            group={"plain loop with slicing": "eager", "torch.func.vmap": "vmap"}.get(
                way, "compiled loop"
            ),
        )
        for way in ways
        if way != "stacked"
    ]


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, given)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = (
        torch.rand(150, 4, generator=generator),
        torch.randint(0, 3, (150,), generator=generator),
    )
    smoke = {"runs": 3, "epochs": 1, "turns": 1, "rounds": 1, "compiling": False}
    size: dict[str, Any] = smoke if options.smoke else {}
    finish(
        "tables", [row for text in TITLES for row in measure(text, inputs, labels, **size)], options
    )


if __name__ == "__main__":
    main()
