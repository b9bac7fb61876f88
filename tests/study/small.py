"""A file of a job as small as one may be, a page run without a kernel, and a wait with an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from study import results

WHERE: dict[str, Any] = {
    **{"data_source": "embedded", "data_copy": "x", "train_samples": 10, "test_samples": 5},
    **{"model_parameters": 30, "wall_seconds": 1.5, "time": "2026-11-28T03:00:00+00:00"},
    **{"hardware": "cpu", "threads": 1, "torch": "2.11.0", "numpy": "2.3.0"},
}
"""What a job says of its data and of where it ran."""


def measured(accuracy: float = 0.5, epochs: int = 2) -> dict[str, Any]:
    """What a run leaves: of ten samples to train on and five to test on."""
    curve = [0.1] * epochs + [accuracy]
    return {
        "diverged": False,
        "metrics": {"test_accuracy": accuracy, "train_accuracy": accuracy},
        "curves": {
            "epoch": list(range(epochs + 1)),
            "test_accuracy": curve,
            "train_epoch": list(range(epochs + 1)),
            "train_accuracy": curve,
        },
    }


def execute(notebook: NotebookNode, parameters: Mapping[str, Any]) -> None:
    """Execute the cells in this process, with parameters in place of the first cell's."""
    names: dict[str, Any] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
            if "parameters" in cell.metadata.get("tags", []):
                names |= parameters


def run_page(
    page: str,
    file: Path,
    *,
    progress: Callable[[int], None] = lambda epoch: None,
    **values: Any,
) -> dict[str, Any]:
    """Run a page up to its file of results, in this process, and read that file."""
    from study import gpu  # torch, which a process that reads tables does without

    gpu.execute(page, {**values, "record": str(file)}, progress)
    return results.load(file)


def until(there: Callable[[], bool], seconds: float) -> None:
    """Wait until something is there."""
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, "it is not so yet"
        time.sleep(0.02)
