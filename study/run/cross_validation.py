"""Cross-validation of one loss on many small tables.

All runs and all folds of a table are one stack.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gdlib.models import RunModel
from gdlib.train import RunLoss, batch_orders, train
from study import data, networks, records
from study.experiment import CrossValidation
from study.losses import parse
from study.objective import StackLoss
from study.run.job import Progress, parameters_of_run, record_of


def cross_validate(experiment: CrossValidation) -> records.Record:
    """Train every run and every fold of every table, and measure on the fold that was left out.

    The training parts of two folds may differ in size. An epoch takes from each as many samples as
    the smallest has, drawn anew without replacement, so that all runs of a stack do the same number
    of steps. A run of the record is a table and a seed, its accuracies are means over the folds;
    ``diverged_folds`` counts the trainings that ended in numbers that are none. Initialisation and
    batch order have the seed and the fold for their own seed, so that two losses differ in nothing
    but the loss.
    """
    started = time.perf_counter()
    runs: list[dict[str, Any]] = []
    copies: dict[str, str] = {}
    sources: set[str] = set()
    parameters: dict[str, int] = {}
    progress = Progress(len(experiment.datasets), "table")
    for index, name in enumerate(experiment.datasets):
        progress(index)
        table = data.table(name, categorical=experiment.categorical)
        model, runs_of_table = _stack(experiment, table)
        copies[name] = table.copy
        sources.add(table.source)
        parameters[name] = parameters_of_run(model)
        runs += runs_of_table
    return record_of(
        experiment,
        started,
        torch.device("cpu"),
        data={
            "name": ", ".join(experiment.datasets),
            "source": ", ".join(sorted(sources)),
            "copy": copies,
        },
        model={"name": "mlp", "parameters": parameters},
        runs=runs,
        epochs_done=experiment.epochs,
    )


def _stack(experiment: CrossValidation, table: data.Table) -> tuple[RunModel, list[dict[str, Any]]]:
    """Train the stack of one table; return the model and what is to be recorded of each seed."""
    held_out = _held_out(experiment, table)  # (R, N), seed by seed
    seeds = [
        seed * experiment.folds + fold
        for seed in experiment.seeds
        for fold in range(experiment.folds)
    ]
    order = order_of_parts([(~part).nonzero().squeeze(1) for part in held_out], seeds)
    features = table.features.shape[1]
    normalizers = [
        data.fit_normalizer(table.features[~part], experiment.normalization) for part in held_out
    ]
    shift = torch.stack([normalizer.shift.expand(features) for normalizer in normalizers])
    scale = torch.stack([normalizer.scale.expand(features) for normalizer in normalizers])
    normalized = (table.features - shift[:, None]) / scale[:, None]  # (R, N, D)

    loss = parse(experiment.loss)
    classes = len(table.class_names)
    model = networks.perceptrons(
        [features, *experiment.hidden, classes],
        seeds,
        head=loss.kind.head,
        with_features=loss.kind.with_features,
        activation=experiment.activation,
        initialization=experiment.initialization,
        linear_features=experiment.linear_features,
    )
    history = train(
        model,
        RunLoss(
            StackLoss(
                loss,
                classes,
                runs=model.runs,
                features=experiment.hidden[-1],
                # folds are stratified: the shares of the classes are those of each training part
                counts=torch.bincount(table.labels, minlength=classes),
            )
        ),
        (table.features, table.labels),
        epochs=experiment.epochs,
        lr=experiment.learning_rate,
        optimizer=experiment.optimizer,
        momentum=experiment.momentum,
        weight_decay=experiment.weight_decay,
        batch_size=experiment.batch_size,
        order=order,
        prepare=partial(_normalized, shift=shift[:, None], scale=scale[:, None]),
        measure=partial(
            _accuracies,
            experiment,
            inputs=normalized,
            labels=table.labels,
            held_out=held_out,
            classes=classes,
        ),
    )
    return model, of_folds(history, table, experiment.seeds)


def of_folds(
    history: Sequence[Mapping[str, Any]], table: data.Table, seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Gather what is recorded of each seed: means over its folds, and the folds.

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
            "fold_accuracies": curves["test_accuracy"][-1, index],
            "curves": {"epoch": [entry["epoch"] for entry in measured]}
            | {name: values[:, index].mean(1) for name, values in curves.items()},
        }
        for index, seed in enumerate(seeds)
    ]


def _held_out(experiment: CrossValidation, table: data.Table) -> Tensor:
    """Mark the samples that each run leaves out, ``[R, N]``: fold by fold of each seed."""
    groups = None
    if experiment.duplicates_together:
        groups = data.duplicate_groups(table.features, table.labels)
    folds = [
        data.folds(table.labels, experiment.folds, seed, experiment.stratified, groups)
        for seed in experiment.seeds
    ]
    fold = torch.arange(experiment.folds)
    return (torch.stack(folds)[:, None, :] == fold[None, :, None]).flatten(0, 1)


def _normalized(batch: Tensor, draws: Tensor | None, *, shift: Tensor, scale: Tensor) -> Tensor:
    """Normalise a batch ``[R, B, D]``, each run by the numbers of its own training part."""
    return (batch - shift) / scale


@torch.no_grad()
def _accuracies(
    experiment: CrossValidation,
    model: nn.Module,
    epoch: int,
    *,
    inputs: Tensor,
    labels: Tensor,
    held_out: Tensor,
    classes: int,
) -> Mapping[str, Tensor]:
    """Measure the accuracies of each run on what was held out of its training, and on the rest.

    Args:
        experiment: says after which epochs.
        model: the stack.
        epoch: number of finished epochs.
        inputs: all samples, as each run sees them, ``[R, N, D]``.
        labels: their classes, ``[N]``.
        held_out: whether a sample is held out, ``[R, N]``.
        classes: C, the first outputs of the model.
    """
    if epoch % experiment.test_every and epoch != experiment.epochs:
        return {}
    outputs = model(inputs)[..., :classes]
    right = outputs.argmax(2) == labels
    return {
        "test_accuracy": (right & held_out).sum(1) / held_out.sum(1),
        "train_accuracy": (right & ~held_out).sum(1) / (~held_out).sum(1),
        "diverged": ~torch.isfinite(outputs).flatten(1).all(1),
    }


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
