"""Repeated cross-validations of tables, as one stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gdlib.train.batches import batch_orders
from study import data


def of_folds(
    history: Sequence[Mapping[str, Any]], table: data.Table, seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Gather what is recorded of each seed: means over its folds.

    Args:
        history: what :func:`gdlib.train.train` returned, with ``test_accuracy``,
            ``train_accuracy`` and ``diverged`` ``[R]`` where they were measured.
        table: what the stack was trained on.
        seeds: of the cross-validations, whose folds follow each other in the stack.
    """
    measured = [entry for entry in history if "test_accuracy" in entry]
    curves = {
        name: torch.stack([entry[name].double() for entry in measured]).unflatten(
            1, (len(seeds), -1)
        )  # (epochs, seeds, folds)
        for name in ("test_accuracy", "train_accuracy")
    }
    diverged = measured[-1]["diverged"].unflatten(0, (len(seeds), -1)).sum(1)
    return [
        {
            "dataset": table.name,
            "title": data.UCI.get(table.name, table.name),
            "classes": len(table.class_names),
            "seed": seed,
            "metrics": {name: values[-1, index].mean() for name, values in curves.items()}
            | {"diverged_folds": int(diverged[index])},
            "curves": {"epoch": [entry["epoch"] for entry in measured]}
            | {name: values[:, index].mean(1) for name, values in curves.items()},
        }
        for index, seed in enumerate(seeds)
    ]


def order_of_parts(parts: Sequence[Tensor], seeds: Sequence[int]) -> Callable[[int], Tensor]:
    """Draw the samples of each epoch, ``[S, n]``, of runs with different parts of a table.

    n is the size of the smallest part.

    Example:
        >>> order = order_of_parts([torch.tensor([0, 1, 2]), torch.tensor([5, 6])], seeds=[0, 1])
        >>> first = order(1)
        >>> first.shape, set(first[0].tolist()) < {0, 1, 2}, set(first[1].tolist())
        (torch.Size([2, 2]), True, {5, 6})
    """
    sizes = [len(part) for part in parts]
    padded = nn.utils.rnn.pad_sequence(
        list(parts), batch_first=True
    )  # (S, size of the largest part)
    return lambda epoch: padded.gather(1, batch_orders(seeds, epoch, sizes))
