"""What the time of a stacked step goes into: parts of it by themselves, as shares of the whole.

The sweep on MNIST of `benchmarks.sweep` and the softmax stack of `benchmarks.tables`, with parts that no stacking makes cheaper: the matrix
products, forward and backward, and, where each run has an order of its own, drawing it. A last row asks whether one wide product for the
first layer of all runs would be faster than one product for each run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

from benchmarks import sweep, tables
from benchmarks.measuring import Row, arguments, compared, finish, take_turns
from study.run import order_of_parts

TURNS = 7


def products(runs: int, batch: int, sizes: Sequence[int], steps: int, *, shared: bool) -> Callable[[], None]:
    """The products of a step, without the one for the gradient of the inputs, which nothing asks for."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.rand(1 if shared and not layer else runs, batch, size, generator=generator) for layer, size in enumerate(sizes[:-1])]
    weights = [torch.rand(runs, *pair, generator=generator) for pair in zip(sizes[:-1], sizes[1:], strict=True)]
    gradients = [torch.rand(runs, batch, size, generator=generator) for size in sizes[1:]]

    def all_steps() -> None:
        for _ in range(steps):
            for layer, (given, weight, gradient) in enumerate(zip(inputs, weights, gradients, strict=True)):
                hidden = given.expand(runs, -1, -1)
                torch.bmm(hidden, weight)
                torch.bmm(hidden.mT, gradient)
                if layer:
                    torch.bmm(gradient, weight.mT)

    return all_steps


def wide(runs: int, batch: int, width: int, units: int, steps: int) -> dict[str, Callable[[], None]]:
    """The first layer of runs that share a batch: one product for each run, or one for all."""
    generator = torch.Generator().manual_seed(0)
    inputs, weight = torch.rand(batch, width, generator=generator), torch.rand(runs, width, units, generator=generator)
    gradient = torch.rand(runs, batch, units, generator=generator)

    def run_by_run() -> None:
        for _ in range(steps):
            torch.bmm(inputs.expand(runs, -1, -1), weight)
            torch.bmm(inputs.T.expand(runs, -1, -1), gradient)

    def at_once() -> None:
        for _ in range(steps):
            flat: Tensor = weight.movedim(0, 1).flatten(1)
            (inputs @ flat).unflatten(1, (runs, units)).movedim(1, 0)
            (inputs.T @ gradient.movedim(0, 1).flatten(1)).unflatten(1, (runs, units)).movedim(1, 0)

    return {"run by run": run_by_run, "at once": at_once}


def shares(ways: dict[str, Callable[[], object]], whole: str, turns: int, group: str) -> list[Row]:
    """Each way against the one that is the whole."""
    seconds = take_turns(ways, turns)
    return [
        compared(seconds[name], seconds[whole], what=name, against=whole, kind="share of the time", scale=1e3, unit="ms", group=group)
        for name in ways
        if name != whole
    ]


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, given)
    torch.set_num_threads(1)
    turns = 1 if options.smoke else TURNS
    generator = torch.Generator().manual_seed(0)

    samples = 200 if options.smoke else sweep.SAMPLES
    images, labels = torch.rand(samples, 784, generator=generator), torch.randint(0, 10, (samples,), generator=generator)
    runs, steps = len(sweep.BETAS), samples // sweep.BATCH
    whole, multiplied = f"stacked sweep of {runs} β", products(runs, sweep.BATCH, [784, 50, 20, 10], steps, shared=True)
    rows = shares({whole: lambda: sweep.stacked(images, labels), "matrix products": multiplied}, whole, turns, "MNIST sweep")
    both = wide(runs, sweep.BATCH, 784, 50, steps)
    rows += shares({f"first layer {name}": way for name, way in both.items()}, "first layer run by run", turns, "MNIST sweep")

    table, classes = torch.rand(150, 4, generator=generator), torch.randint(0, 3, (150,), generator=generator)
    runs, epochs = (3, 1) if options.smoke else (tables.RUNS, tables.EPOCHS)
    stack = tables.Stack("softmax", table, classes, runs=runs, epochs=epochs)
    order, steps = order_of_parts(stack.parts, range(runs)), epochs * -(-tables.SAMPLES // tables.BATCH)
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
