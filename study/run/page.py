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
from study import data, networks, records
from study.experiment import EXPERIMENTS, PLACES, Tables, Train, nearest
from study.losses import parse
from study.objective import Balanced, StackLoss
from study.run.images import batches, outputs_of
from study.run.job import Progress, described, device_of, parameters_of_run, record_of


@dataclass(frozen=True)
class PageJob:
    """One execution of a page, with the parameters that papermill or its own cell gave it."""

    experiment: Train
    record: str
    device: torch.device
    checkpoint: dict[str, Any]
    """Arguments of :func:`gdlib.train.train` by which an interrupted training goes on."""
    progress: Progress
    started: float = field(default_factory=time.perf_counter)

    def loss(self, stack: RunModel, dataset: data.Dataset) -> RunLoss:
        """Make the loss that is asked for by its name, such as ``"gce 0.7"``, for a stack."""
        return named_loss(self.experiment.loss, stack, dataset.train.labels)

    def decision(self, dataset: data.Dataset) -> Callable[[Tensor], Tensor]:
        """Give the decision that a loss for classes of unequal size asks for."""
        counts = torch.bincount(dataset.train.labels, minlength=dataset.classes)
        loss = parse(self.experiment.loss)
        return Balanced(loss.name, *loss.numbers, counts).decide  # type: ignore[call-arg, arg-type]

    def batches(self, dataset: data.Dataset) -> dict[str, Any]:
        """Say what a step sees; images are cropped, mirrored and normalised there."""
        return batches(self.experiment, dataset)

    def predict(
        self,
        networks: RunModel,
        dataset: data.Dataset,
        split: data.Split,
        *,
        features: bool = False,
    ) -> Tensor:
        """Compute the outputs of a stack on a split; or, with ``features``, what it makes them of.

        Images are normalised as in the training, and not augmented.
        """
        return outputs_of(self.experiment, dataset, networks, split, features=features)

    def finish(
        self,
        networks: RunModel,
        dataset: data.Dataset,
        history: Sequence[Mapping[str, Any]],
        final: Sequence[Mapping[str, Any]],
    ) -> None:
        """Write the runs to the file that was asked for, whole or not at all; none by default.

        Args:
            networks: the trained stack, its runs in the order of ``experiment.runs()``.
            dataset: what it was trained on.
            history: what :func:`gdlib.train.train` returned.
            final: of each run, what was measured at the end; see
                :func:`study.measures.final_measures`.
        """
        if not self.record:
            return
        planned = self.experiment.planned()
        runs = [
            run | {**measured, "curves": curves_of(history, index)}
            for index, (run, measured) in enumerate(zip(planned, final, strict=True))
        ]
        record = record_of(
            self.experiment,
            self.started,
            self.device,
            data=described(dataset),
            model={"name": self.experiment.model, "parameters": parameters_of_run(networks)},
            runs=runs,
            epochs_done=history[-1]["epoch"],
        )
        print("wrote", record.write(self.record))


@dataclass(frozen=True)
class TablesJob:
    """One execution of the page ``tables``."""

    experiment: Tables
    record: str
    progress: Progress
    started: float = field(default_factory=time.perf_counter)

    def finish(self, tables: Mapping[str, tuple[data.Table, RunModel]], runs: list[Any]) -> None:
        """Write the cross-validations to the file that was asked for; none by default.

        Args:
            tables: each table with its stack, by its name.
            runs: of all tables, by :func:`study.run.of_folds`.
        """
        if not self.record:
            return
        record = record_of(
            self.experiment,
            self.started,
            torch.device("cpu"),
            data={
                "name": ", ".join(tables),
                "source": ", ".join(sorted({table.source for table, _ in tables.values()})),
                "copy": {name: table.copy for name, (table, _) in tables.items()},
            },
            model={
                "name": "mlp",
                "parameters": {
                    name: parameters_of_run(networks) for name, (_, networks) in tables.items()
                },
            },
            runs=runs,
            epochs_done=self.experiment.epochs,
        )
        print("wrote", record.write(self.record))


def begin(page: str, namespace: Mapping[str, Any]) -> Any:
    """Check the parameters of a page, and that its results can be written, before it loads data.

    One torch thread is used: only then a stack equals its runs one by one, bit for bit.

    Args:
        page: the name of the notebook.
        namespace: ``globals()`` of the page; its parameters are taken by their names.

    Raises:
        ValueError: for a value that makes no experiment, and for a name that is no parameter of
            the page; it says what is valid.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    kind = EXPERIMENTS[page]
    _refuse_others(namespace, [*kind.parameters(), *PLACES])
    experiment = kind.from_parameters(namespace)
    record, folder = namespace.get("record", ""), namespace.get("checkpoint_dir", "")
    records.probe(record, experiment.model_dump())
    checkpoint: dict[str, Any] = {}
    if folder:
        checkpoint["checkpoint"] = Path(folder) / f"{experiment.identity()}.pt"
        # an epoch of images takes minutes on a CPU
        checkpoint["checkpoint_every"] = 10 if getattr(experiment, "model", "mlp") == "mlp" else 1
        checkpoint["identity"] = f"{page} {experiment.identity()}"
    if isinstance(experiment, Tables):
        return TablesJob(experiment, record, Progress(len(experiment.datasets), "table"))
    assert isinstance(experiment, Train)
    device = device_of(experiment.device)
    torch.backends.cudnn.benchmark = device.type == "cuda"  # the record says so
    return PageJob(experiment, record, device, checkpoint, Progress(experiment.epochs, "epoch"))


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


def named_loss(name: str, stack: RunModel, labels: Tensor) -> RunLoss:
    """Make a loss by its name, such as ``"gce 0.7"``, for a stack that is trained on labels."""
    counts = torch.bincount(labels)
    features = networks.class_vectors(stack).shape[2]
    loss = StackLoss(parse(name), len(counts), counts=counts, runs=stack.runs, features=features)
    return RunLoss(loss)


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
                **{name: one.numpy() for name, one in entry.items() if is_of_runs(one)},
            )
            for entry in history
        ],
        ignore_index=True,
    )


def is_of_runs(value: Any) -> bool:
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
        values = [float(entry[name][index]) for entry in tested if is_of_runs(entry.get(name))]
        if name == "loss":
            continue
        if values and not (name == "beta" and len(set(values)) == 1):
            found[name] = values
    return found
