"""Cross-validation of one loss on many small tables: all runs and all folds of a table are one stack."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from gdlib import models
from gdlib.train import OPTIMIZERS, batch_order, train
from study import data, records
from study.experiment.methods import method
from study.experiment.values import require, require_one_of, values_of, with_tuples

__all__ = ["CrossValidation", "cross_validate"]

_ORDERS = 2**12  # how many batch orders there are


@dataclass(frozen=True)
class CrossValidation:
    """What is trained, on what, and how, in a repeated cross-validation. Flat values only, so that papermill can set each of them.

    A seed is a whole cross-validation: a random partition into folds, and one training for each fold that is left out. Initialisation and
    batch order have the seed and the fold for their own seed, so that two methods differ in nothing but the loss.

    Attributes:
        datasets: names of :func:`study.data.table_names`.
        method: the loss, see :func:`study.experiment.method`.
        normalization: of the features, ``"standard"``, ``"unit"`` or ``"none"``; fitted on the training part of each fold.
        categorical: how nominal features are coded, ``"codes"`` or ``"one-hot"``.
        folds: number of folds.
        stratified: keep the shares of the classes in every fold.
        duplicates_together: keep equal rows in one fold.
        hidden: units of the hidden layers.
        activation: a name of :data:`gdlib.models.ACTIVATIONS`.
        initialization: a name of :data:`gdlib.models.INITIALIZATIONS`.
        linear_features: no activation after the last hidden layer.
        seeds: one for each repetition.
        epochs: passes over the training part.
        batch_size: samples in a step.
        optimizer: a name of :data:`gdlib.train.OPTIMIZERS`.
        learning_rate: of the optimizer.
        momentum: of SGD, or first decay rate of Adam.
        weight_decay: coefficient of the L2 penalty.
        test_every: epochs between two evaluations; the last epoch is always evaluated.
        scale: ``"paper"``, ``"reduced"`` or ``"smoke"``: how the setting relates to the paper's.

    Raises:
        ValueError: for a value that cannot be; the message names the valid ones.

    Example:
        >>> len(CrossValidation(datasets=["iris", "wine"], seeds=[0, 1, 2], folds=5).runs())
        30
    """

    datasets: Sequence[str] = ("iris",)
    method: str = "softmax"
    normalization: str = "standard"
    categorical: str = "codes"
    folds: int = 10
    stratified: bool = True
    duplicates_together: bool = False
    hidden: Sequence[int] = (16, 16)
    activation: str = "relu"
    initialization: str = "pytorch"
    linear_features: bool = False
    seeds: Sequence[int] = (0, 1)
    epochs: int = 20
    batch_size: int = 16
    optimizer: str = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    test_every: int = 10
    scale: str = "smoke"

    def __post_init__(self) -> None:
        """Check every value against what the parts accept, before anything is loaded."""
        with_tuples(self)
        for name in ("datasets", "hidden", "seeds"):
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise ValueError(f"{name} must be a list with at least one entry; got {getattr(self, name)!r}")
        for name, values, valid in (
            ("datasets", self.datasets, data.table_names()),
            ("normalization", [self.normalization], ("standard", "unit", "none")),
            ("categorical", [self.categorical], ("codes", "one-hot")),
            ("activation", [self.activation], models.ACTIVATIONS),
            ("initialization", [self.initialization], models.INITIALIZATIONS),
            ("optimizer", [self.optimizer], OPTIMIZERS),
            ("scale", [self.scale], records.SCALES),
        ):
            for value in values:
                require_one_of(name, value, valid)
        for name in ("epochs", "batch_size", "test_every", "folds"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name} must be a whole number; got {getattr(self, name)!r}")
        for name in ("epochs", "batch_size", "test_every", "learning_rate"):
            require(name, getattr(self, name), above=0)
        for name in ("momentum", "weight_decay"):
            require(name, getattr(self, name), at_least=0)
        require("folds", self.folds, at_least=2)
        for units in self.hidden:
            if not isinstance(units, int) or units < 1:
                raise ValueError(f"hidden must be whole numbers of units, at least 1; got {units!r}")
        for seed in self.seeds:
            if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < _ORDERS // self.folds:
                raise ValueError(f"seeds must be integers from 0 to {_ORDERS // self.folds - 1} (with {self.folds} folds); got {seed!r}")
        method(self.method)

    @classmethod
    def from_parameters(cls, namespace: Mapping[str, Any]) -> CrossValidation:
        """Pick the values, by name, out of a notebook's namespace, as :meth:`study.experiment.Experiment.from_parameters` does."""
        return cls(**values_of(cls, namespace))

    def runs(self) -> list[tuple[str, int, int]]:
        """Every training: table, seed and fold."""
        return list(itertools.product(self.datasets, self.seeds, range(self.folds)))


def cross_validate(
    setting: CrossValidation, *, template: str, progress: bool = False, data_folder: str | None = None, keep_curves: bool = True
) -> records.Record:
    """Train every run and every fold of every table, table by table, and measure the accuracy on the fold that was left out.

    The training parts of two folds may differ in size, by one where nothing keeps rows together. An epoch takes from each as many samples
    as the smallest has, drawn anew without replacement, so that all runs of a stack do the same number of steps.

    Args:
        setting: what to do.
        template: name of the notebook, for the record.
        progress: show a bar over the tables.
        data_folder: the local data folder, instead of the usual one.
        keep_curves: keep the accuracies between the first and the last epoch.

    Returns:
        The record, with one run for each table and seed: ``test_accuracy`` and ``train_accuracy`` (means over the folds), the accuracy of
        each fold in ``fold_accuracies``, and in ``diverged_folds`` how many trainings ended in numbers that are none.
    """
    started = time.perf_counter()
    runs: list[dict[str, Any]] = []
    copies, sources, parameters = {}, set(), {}
    for name in tqdm(setting.datasets, desc="tables", disable=not progress):
        table = data.table(name, categorical=setting.categorical, folder=data_folder)  # type: ignore[arg-type]
        model, found = _stack(setting, table)
        copies[name], parameters[name] = table.copy, sum(parameter.numel() for parameter in model.parameters()) // model.runs
        sources.add(table.source)
        for run in found:
            if not keep_curves:
                run.pop("curves")
            runs.append(run)
    return records.Record(
        template=template,
        parameters=dataclasses.asdict(setting),
        data={"name": ", ".join(setting.datasets), "source": ", ".join(sorted(sources)), "copy": copies},
        model={"name": "mlp", "parameters": parameters},
        runs=runs,
        epochs_done=setting.epochs,
        wall_seconds=round(time.perf_counter() - started, 2),
        scale=setting.scale,
        environment=records.environment(device="cpu", precision="float32", threads=torch.get_num_threads()),
    )


def _stack(setting: CrossValidation, table: data.Table) -> tuple[models.RunModel, list[dict[str, Any]]]:
    """Train the stack of one table; return the model and what is to be recorded of each seed."""
    groups = data.duplicate_groups(table.features, table.labels) if setting.duplicates_together else None
    folds = torch.stack([data.folds(table.labels, setting.folds, seed, setting.stratified, groups) for seed in setting.seeds])
    held_out = folds[:, None, :] == torch.arange(setting.folds)[None, :, None]  # (seeds, folds, N)
    held_out = held_out.flatten(0, 1)  # (R, N)
    seeds = [seed * setting.folds + fold for seed in setting.seeds for fold in range(setting.folds)]
    order = order_of_parts([(~part).nonzero().squeeze(1) for part in held_out], seeds)
    normalizers = [data.fit_normalizer(table.features[~part], setting.normalization) for part in held_out]  # type: ignore[arg-type]
    shift, scale = (
        torch.stack([getattr(one, name).expand(table.features.shape[1]) for one in normalizers])[:, None] for name in ("shift", "scale")
    )

    chosen = method(setting.method)
    model = models.HeadedMLP(
        [table.features.shape[1], *setting.hidden, table.classes],
        seeds,
        head=chosen.head,
        with_features=chosen.with_features,
        activation=setting.activation,
        initialization=setting.initialization,
        linear_features=setting.linear_features,
    )
    normalized = (table.features - shift) / scale  # (R, N, D)

    @torch.no_grad()
    def measure(model: models.RunModel, epoch: int) -> Mapping[str, Tensor]:
        if epoch % setting.test_every and epoch != setting.epochs:
            return {}
        outputs = model(normalized)[..., : table.classes]
        right = outputs.argmax(2) == table.labels
        return {
            "test": (right & held_out).sum(1) / held_out.sum(1),
            "train": (right & ~held_out).sum(1) / (~held_out).sum(1),
            "diverged": ~torch.isfinite(outputs).flatten(1).all(1),
        }

    history = train(
        model,
        chosen.loss(table.classes),
        lambda step: [1.0] * model.runs,
        table.features,
        table.labels,
        epochs=setting.epochs,
        batch_size=setting.batch_size,
        learning_rate=setting.learning_rate,
        optimizer=setting.optimizer,
        momentum=setting.momentum,
        weight_decay=setting.weight_decay,
        order=order,
        prepare=lambda batch, step: (batch - shift) / scale,
        measure=measure,
    )
    measured = [entry for entry in history if "test" in entry]
    by_seed = {
        name: torch.stack([entry[name].double() for entry in measured]).unflatten(1, (-1, setting.folds)) for name in ("test", "train")
    }
    diverged = measured[-1]["diverged"].unflatten(0, (-1, setting.folds)).sum(1)
    return model, [
        {
            "dataset": table.name,
            "title": data.UCI.get(table.name, table.name),
            "classes": table.classes,
            "seed": seed,
            "metrics": {
                "test_accuracy": by_seed["test"][-1, index].mean(),
                "train_accuracy": by_seed["train"][-1, index].mean(),
                "diverged_folds": int(diverged[index]),
            },
            "fold_accuracies": by_seed["test"][-1, index],
            "curves": {
                "epoch": [entry["epoch"] for entry in measured],
                **{f"{name}_accuracy": values[:, index].mean(1) for name, values in by_seed.items()},
            },
        }
        for index, seed in enumerate(setting.seeds)
    ]


def order_of_parts(parts: Sequence[Tensor], seeds: Sequence[int]) -> Callable[[int], Tensor]:
    """The samples of each epoch for runs that train on different parts of a table.

    Args:
        parts: the indices of each run's samples.
        seeds: one for each run, see :func:`gdlib.train.batch_order`.

    Returns:
        A function from the epoch to indices ``[S, n]``; n is the size of the smallest part.

    Example:
        >>> order = order_of_parts([torch.tensor([0, 1, 2]), torch.tensor([5, 6])], seeds=[0, 1])
        >>> first = order(1)
        >>> first.shape, set(first[0].tolist()) < {0, 1, 2}, set(first[1].tolist())
        (torch.Size([2, 2]), True, {5, 6})
    """
    smallest = min(len(part) for part in parts)

    padded = nn.utils.rnn.pad_sequence(list(parts), batch_first=True)  # (S, size of the largest part)

    def order(epoch: int) -> Tensor:
        drawn = [batch_order(seed, epoch, len(part))[:smallest] for part, seed in zip(parts, seeds, strict=True)]
        return padded.gather(1, torch.stack(drawn))  # one call for all runs

    return order
