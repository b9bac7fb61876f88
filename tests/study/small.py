"""What most tests train, what a run of it leaves, and a notebook run without a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from nbformat import NotebookNode

from study.experiment import Train

small_train = partial(Train, warmups=(), seeds=(0,), epochs=10)
"""Constants alone, one seed, ten epochs."""


def measured(accuracy: float = 0.5, epochs: int = 2) -> dict[str, Any]:
    """What a run leaves, as small as a record allows.

    It has ten samples to train on and five to test on.
    """
    curve = [0.1] * epochs + [accuracy]
    return {
        "metrics": {"test_accuracy": accuracy, "train_accuracy": accuracy},
        "confidence_counts": [4, 6],
        "reliability": {
            "upper": [0.5, 1.0],
            "count": [0, 5],
            "confidence": [None, 0.7],
            "accuracy": [None, accuracy],
        },
        "curves": {
            "epoch": list(range(epochs + 1)),
            "test_accuracy": curve,
            "train_epoch": list(range(epochs + 1)),
            "train_accuracy": curve,
        },
    }


SAMPLES = {"train": 10, "valid": 0, "test": 5}
"""Of what :func:`measured` tells."""


def execute(notebook: NotebookNode, parameters: Mapping[str, Any]) -> None:
    """Execute the cells in this process, with parameters in place of the first cell's."""
    names: dict[str, Any] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
            if "parameters" in cell.metadata.get("tags", []):
                names |= parameters
