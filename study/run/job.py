"""A job's device, its sign of life and its record."""

import logging
import time
from typing import Any

import torch

from gdlib.models import RunModel
from study import data, records
from study.experiment import Experiment
from study.records import provenance

_EVERY = 60.0  # seconds between two lines

_log = logging.getLogger("study.run")

provenance.commit()  # of the code that is loaded now; it is asked again when a training has ended


class Progress:
    """Log a line a minute.

    How much of ``total`` units is done, and how long the rest takes at this pace.
    """

    def __init__(self, total: int, unit: str) -> None:
        self.total = total
        self.unit = unit
        self.last_line = time.monotonic()
        self.start: tuple[int, float] | None = None

    def __call__(self, done: int) -> None:
        """Say so many units are done.

        The first call may be in the middle, of a training that goes on.
        """
        now = time.monotonic()
        if self.start is None:
            self.start = (done, now)
        first, started = self.start
        if now - self.last_line >= _EVERY and done > first:
            minutes = (now - started) / (done - first) * (self.total - done) / 60
            _log.info("%s %d of %d, about %.3g minutes left", self.unit, done, self.total, minutes)
            self.last_line = now


def device_of(name: str) -> torch.device:
    """Find the device of this name, ``auto`` being a GPU where there is one.

    Refuse a GPU that is not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device is 'cuda', but PyTorch finds no GPU here; set it to 'auto' or to 'cpu'"
        )
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def name_of(device: torch.device) -> str:
    """Name a device as records do."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def parameters_of_run(model: RunModel) -> int:
    """Count the parameters of one run of a stack."""
    return sum(parameter.numel() for parameter in model.parameters()) // model.runs


def described(dataset: data.Dataset) -> dict[str, Any]:
    """Say for a record which data these are."""
    described: dict[str, Any] = {
        "name": dataset.name,
        "source": dataset.source,
        "copy": dataset.copy,
        "train": len(dataset.train),
        "valid": len(dataset.valid or ()),
        "test": len(dataset.test),
    }
    if dataset.wrong_labels:
        described["wrong_labels"] = dataset.wrong_labels
    return described


def record_of(
    experiment: Experiment, started: float, device: torch.device, **content: Any
) -> records.Record:
    """Make the record of an experiment's job.

    It began at ``started``; ``content`` is what was measured.
    """
    values = experiment.model_dump()
    where = {
        "device": name_of(device),
        "precision": values.get("precision", "float32"),
        "threads": torch.get_num_threads(),
    }
    return records.Record(
        experiment=experiment.notebook,
        parameters=values,
        wall_seconds=round(time.perf_counter() - started, 2),
        scale=values["scale"],
        environment=records.environment(**where),
        **content,
    )
