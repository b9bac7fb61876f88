"""What the page of an experiment needs beside it: checked parameters, a file of results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from gdlib.models import RunModel
from gdlib.train import RunLoss
from study import ROOT, data, files, networks, parameters, provenance, results
from study.losses import parse
from study.mistakes import nearest
from study.objective import CORRECTIONS, Balanced, StackLoss

_log = logging.getLogger("study.run")
_EVERY = 60.0  # seconds between two lines of progress
_ROOM = 1_000_000  # bytes, more than the largest file of a job has

provenance.commit()  # of the code that is loaded now; it is asked again when a training has ended


class Progress:
    """Log a line a minute.

    How much of ``total`` units is done, and how long the rest takes at this pace. A page that
    writes no file is silent, so that the book shows the same on a slow machine.
    """

    def __init__(self, total: int, unit: str, *, silent: bool = False) -> None:
        self.total = total
        self.unit = unit
        self.silent = silent
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
        if now - self.last_line >= _EVERY and done > first and not self.silent:
            minutes = (now - started) / (done - first) * (self.total - done) / 60
            _log.info("%s %d of %d, about %.3g minutes left", self.unit, done, self.total, minutes)
            self.last_line = now


@dataclass(frozen=True)
class Job:
    """One execution of a page, with the parameters that papermill or its own cell gave it."""

    page: str
    parameters: Mapping[str, Any]
    record: str
    """The file that is asked for; empty for none."""
    device: torch.device
    checkpoint: Mapping[str, Any]
    """Arguments of :func:`gdlib.train.train` by which an interrupted training goes on."""
    progress: Progress
    started: float = field(default_factory=time.perf_counter)

    def finish(
        self,
        networks: RunModel,
        dataset: data.Dataset,
        history: Sequence[Mapping[str, Any]],
        final: Sequence[Mapping[str, Any]],
        **more: Any,
    ) -> None:
        """Write the runs of a stack to the file that was asked for, whole or not at all.

        Args:
            networks: the trained stack, its runs in the order of
                :func:`study.parameters.planned`.
            dataset: what it was trained on.
            history: what :func:`gdlib.train.train` returned.
            final: of each run, what was measured at the end; see
                :func:`study.measures.final_measures`.
            more: what the tables should say of the job besides, such as what the page fixes and a
                comparison asks for.
        """
        if not self.record:
            return
        described: dict[str, Any] = {
            "data_source": dataset.source,
            "data_copy": dataset.copy,
            "normalization": dataset.normalization,
            "train_samples": len(dataset.train),
            "valid_samples": len(dataset.valid or ()),
            "test_samples": len(dataset.test),
            "model_parameters": parameters_of_run(networks),
        }
        if dataset.wrong_labels:
            described["wrong_labels"] = dataset.wrong_labels
        described |= more
        planned = parameters.planned(self.parameters)
        runs = [
            run | {**measured, "curves": curves_of(history, index)}
            for index, (run, measured) in enumerate(zip(planned, final, strict=True))
        ]
        self.write(described, runs)

    def finish_tables(
        self, tables: Mapping[str, tuple[data.Table, RunModel]], runs: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write cross-validations to the file that was asked for, whole or not at all.

        Args:
            tables: each table with its stack, by its name.
            runs: of all tables, by :func:`study.run.of_folds`.
        """
        if not self.record:
            return
        described = {
            "data_source": ", ".join(sorted({table.source for table, _ in tables.values()})),
            "data_copy": {name: table.copy for name, (table, _) in tables.items()},
            "model_parameters": {
                name: parameters_of_run(networks) for name, (_, networks) in tables.items()
            },
        }
        self.write(described, runs)

    def write(self, described: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
        """Write runs with what is said of their data and networks, and where they were measured."""
        where = provenance.environment(self.device)
        seconds = {"wall_seconds": round(time.perf_counter() - self.started, 2)}
        row = {"experiment": self.page, **self.parameters, **described, **seconds, **where}
        print("wrote", results.write(self.record, row, runs))


def begin(page: str, namespace: Mapping[str, Any]) -> Job:
    """Check the parameters of a page, and that its results can be written, before it loads data.

    One torch thread is used: only then a stack equals its runs one by one, bit for bit.

    Args:
        page: the name of the notebook.
        namespace: ``globals()`` of the page; its parameters are taken by their names.

    Raises:
        ValueError: for a value that a parameter cannot have, and for a name that is no parameter of
            the page; it says what is valid.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    known = parameters.offered(page)
    _refuse_others(namespace, list(known))
    given = {name: namespace[name] for name in known if name in namespace}
    values = parameters.checked(page, given)
    record, folder = (
        str(Path(given[name]).expanduser()) if given.get(name) else "" for name in parameters.PLACES
    )
    if record:
        _probe(Path(record))
    device = device_of(values.get("device", "cpu"))
    torch.backends.cudnn.benchmark = device.type == "cuda"  # the tables say so
    checkpoint: dict[str, Any] = {}
    if folder:
        identity = parameters.identity(page, values)
        # an epoch of images takes minutes on a CPU
        every = 1 if values.get("model") or values.get("dataset") in data.IMAGES else 10
        checkpoint = {
            "checkpoint": Path(folder) / f"{identity}.pt",
            "checkpoint_every": every,
        }
    of_tables = "datasets" in values
    total = len(values["datasets"]) if of_tables else values["epochs"]
    progress = Progress(total, "table" if of_tables else "epoch", silent=not record)
    return Job(page, values, record, device, checkpoint, progress)


def _refuse_others(namespace: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a name that papermill has set and the page does not know: it would change nothing."""
    own = ("In", "Out")  # of IPython
    for name, value in namespace.items():
        given = isinstance(value, (bool, int, float, str, list, tuple, dict))
        if given and name not in known and name not in own and not name.startswith("_"):
            raise ValueError(
                f"{name} is no parameter of this page{nearest(name, known)}; its parameters are: "
                f"{', '.join(known)}"
            )


def _probe(path: Path) -> None:
    """Find out before a training whether its file can be written, and has room."""
    if path.exists():
        raise ValueError(f"{path} is there already; delete it, or name another file")
    folder = path.resolve().parent
    if not folder.is_dir() and not any(map(folder.is_relative_to, (ROOT, Path.cwd()))):
        raise ValueError(f"there is no folder {folder}; make it, or name a file of this project")
    probe = path.with_name(f"{path.name}.probe")
    files.write_whole(probe, " " * _ROOM)  # an empty file fits on a full disk too
    probe.unlink(missing_ok=True)


def device_of(name: str) -> torch.device:
    """Find the device of this name, ``auto`` being a GPU where there is one.

    Raises:
        ValueError: for a GPU that is not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device is 'cuda', but PyTorch finds no GPU here; set it to 'auto' or to 'cpu'"
        )
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def parameters_of_run(model: RunModel) -> int:
    """Count the parameters of one run of a stack."""
    return sum(parameter.numel() for parameter in model.parameters()) // model.runs


def named_loss(name: str, stack: RunModel, labels: Tensor) -> RunLoss:
    """Make a loss by its name, such as ``"gce 0.7"``, for a stack that is trained on labels."""
    counts = torch.bincount(labels)
    features = stack.layers.weights[-1].shape[1] if isinstance(stack, networks.HeadedMLP) else 0
    loss = StackLoss(parse(name), len(counts), counts=counts, runs=stack.runs, features=features)
    return RunLoss(loss)


def decision(name: str, labels: Tensor) -> Callable[[Tensor], Tensor]:
    """Give the decision that a loss for classes of unequal size asks for.

    Args:
        name: of the loss, such as ``"adjusted 1"``.
        labels: of the training samples.
    """
    loss = parse(name)
    is_decay = loss.name in ("gd", *CORRECTIONS)
    beta = loss.numbers[0] if is_decay else 1.0  # of the link; another loss has none
    return Balanced(loss.name, beta, torch.bincount(labels)).decide


def last_layer(name: str) -> dict[str, Any]:
    """Say what a loss asks of the last layer: logits or cosines, with the features or without.

    Example:
        >>> last_layer("arcgrad 5")
        {'head': 'cosine', 'with_features': False}
    """
    kind = parse(name).kind
    return {"head": kind.head, "with_features": kind.with_features}


def curves(history: Sequence[Mapping[str, Any]], runs: pd.DataFrame) -> pd.DataFrame:
    """Lay out a history as a table: a row for each run and each epoch, beside what the run is."""
    return pd.concat(
        [
            runs.assign(
                epoch=entry["epoch"],
                **{name: one.numpy() for name, one in entry.items() if _is_of_runs(one)},
            )
            for entry in history
        ],
        ignore_index=True,
    )


def _is_of_runs(value: Any) -> bool:
    """Tell a number for each run, ``[R]``, from other entries of a history."""
    return isinstance(value, Tensor) and value.ndim == 1


def curves_of(history: Sequence[Mapping[str, Any]], index: int) -> dict[str, list[float]]:
    """List what is one number for each run in the history, and when it was measured.

    A constant β is left out, and so is the loss of the samples as they were met.
    """
    tested = [entry for entry in history if "test_accuracy" in entry]
    found: dict[str, list[float]] = {
        "epoch": [entry["epoch"] for entry in tested],
        "train_epoch": [entry["epoch"] for entry in tested if "train_accuracy" in entry],
    }
    for name in dict.fromkeys(name for entry in tested for name in entry):
        values = [float(entry[name][index]) for entry in tested if _is_of_runs(entry.get(name))]
        if name == "loss":
            continue
        if values and not (name == "beta" and len(set(values)) == 1):
            found[name] = values
    return found
