"""What the time of a stacked step goes into: parts of it by themselves, as shares of the whole.

The sweep on MNIST of `benchmarks.sweep` and the softmax stack of `benchmarks.tables`, with parts
that no stacking makes cheaper: the matrix products, forward and backward, and, where each run has
an order of its own, drawing it. A row has the first layer of all runs as one product of oneDNN, as
the stack makes it, against one product of MKL for each run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from benchmarks import sweep, tables
from benchmarks.measuring import Row, arguments, compared, finish, take_turns
from gdlib.train.manual import product
from study.run import order_of_parts

TURNS = 7


def products(
    runs: int, batch: int, sizes: Sequence[int], steps: int, *, shared: bool
) -> Callable[[], None]:
    """The products of a step.

    The one for the gradient of the inputs, which nothing asks for, is left out.
    """
    generator = torch.Generator().manual_seed(0)
    weights = [
        torch.rand(runs, *pair, generator=generator)
        for pair in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    inputs, gradients = (
        [torch.rand(runs, batch, size, generator=generator) for size in part]
        for part in (sizes[:-1], sizes[1:])
    )
    layers = list(enumerate(zip(inputs, weights, gradients, strict=True)))
    first_layer = FirstLayer(runs, batch, sizes[0], sizes[1])

    def all_steps() -> None:
        for _ in range(steps):
            if shared:
                first_layer.at_once()
            for layer, (given, weight, gradient) in layers[1 if shared else 0 :]:
                torch.bmm(given, weight)
                torch.bmm(given.mT, gradient)
                if layer:
                    torch.bmm(gradient, weight.mT)

    return all_steps


class FirstLayer:
    """The two products of a first layer of runs that share a batch.

    They are computed by MKL, one for each run, or by oneDNN, one for all.
    """

    def __init__(self, runs: int, batch: int, width: int, units: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.inputs, self.weight = (
            torch.rand(batch, width, generator=generator),
            torch.rand(runs, width, units, generator=generator),
        )
        self.gradient, self.rows = (
            torch.rand(runs, batch, units, generator=generator),
            self.weight.mT.flatten(0, 1),
        )

    def run_by_run(self) -> None:
        """Multiply forward and backward, by MKL."""
        torch.bmm(self.inputs.expand(len(self.weight), -1, -1), self.weight)
        torch.bmm(self.inputs.T.expand(len(self.weight), -1, -1), self.gradient)

    def at_once(self) -> None:
        """Multiply forward and backward, by oneDNN, with the copies that this needs."""
        product(self.inputs, self.rows)
        product(self.gradient.mT.flatten(0, 1), self.inputs.T.contiguous())


def repeated(way: Callable[[], object], steps: int) -> Callable[[], object]:
    return lambda: [way() for _ in range(steps)]


def shares(ways: dict[str, Callable[[], object]], whole: str, turns: int, group: str) -> list[Row]:
    """Each way against the one that is the whole."""
    seconds = take_turns(ways, turns)
    return [
        compared(
            seconds[name],
            seconds[whole],
            what=name,
            against=whole,
            kind="share of the time",
            scale=1e3,
            unit="ms",
            group=group,
        )
        for name in ways
        if name != whole
    ]


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, given)
    torch.set_num_threads(1)
    turns = 1 if options.smoke else TURNS
    generator = torch.Generator().manual_seed(0)

    samples = 200 if options.smoke else sweep.SAMPLES
    images, labels = (
        torch.rand(samples, 784, generator=generator),
        torch.randint(0, 10, (samples,), generator=generator),
    )
    runs, steps = len(sweep.BETAS), samples // sweep.BATCH
    whole, multiplied = (
        f"stacked sweep of {runs} β",
        products(runs, sweep.BATCH, [784, 50, 20, 10], steps, shared=True),
    )
    rows = shares(
        {whole: lambda: sweep.stacked(images, labels), "matrix products": multiplied},
        whole,
        turns,
        "MNIST sweep",
    )
    layer = FirstLayer(runs, sweep.BATCH, 784, 50)
    ways = {
        f"first layer {name}": repeated(way, steps)
        for name, way in (("run by run", layer.run_by_run), ("at once", layer.at_once))
    }
    rows += shares(ways, "first layer run by run", turns, "MNIST sweep")

    table, classes = (
        torch.rand(150, 4, generator=generator),
        torch.randint(0, 3, (150,), generator=generator),
    )
    runs, epochs = (3, 1) if options.smoke else (tables.RUNS, tables.EPOCHS)
    stack = tables.Stack("softmax", table, classes, runs=runs, epochs=epochs)
    order, steps = (
        order_of_parts(stack.parts, range(runs)),
        epochs * -(-tables.SAMPLES // tables.BATCH),
    )
    rows += shares(
        {
            "stack of softmax": stack,
            "matrix products": products(runs, tables.BATCH, tables.SIZES, steps, shared=False),
            "drawing the orders": lambda: [order(epoch) for epoch in range(1, epochs + 1)],
        },
        "stack of softmax",
        turns,
        "small table",
    )
    finish("parts", rows, options)


if __name__ == "__main__":
    main()
