"""The trainer with all its options side by side, for tests of stacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from torch import Tensor, nn

from gdlib.train import Batches, Checkpoint, Execution, Optimisation, RunLoss
from gdlib.train import train as train_grouped

OTHER_NAMES = {
    "batch_size": "size",
    "order_seeds": "seeds",
    "checkpoint": "path",
    "checkpoint_every": "every",
}


def train(
    model: nn.Module,
    loss: Callable[..., Tensor],
    schedule: Any,
    inputs: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    measure: Any = None,
    progress: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train with a loss of all runs; each option goes to the group that has it."""
    options = {OTHER_NAMES.get(name, name): value for name, value in options.items()}
    groups: dict[type, dict[str, Any]] = {}
    for group in (Optimisation, Batches, Execution, Checkpoint):
        names = [field.name for field in fields(group) if field.name in options]
        groups[group] = {name: options.pop(name) for name in names}
    assert not options, f"no group has {', '.join(options)}"
    kept = groups[Checkpoint]
    return train_grouped(
        model,
        RunLoss(loss),
        (inputs, labels),
        epochs=epochs,
        optimisation=Optimisation(**groups[Optimisation]),
        batches=Batches(**groups[Batches]),
        schedule=schedule,
        execution=Execution(**groups[Execution]),
        measure=measure,
        checkpoint=Checkpoint(**kept) if kept.get("path") is not None else None,
        progress=progress,
    )
