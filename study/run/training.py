"""Train the stack of an experiment and measure it."""

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gdlib.models import RunModel, StackedMLP
from gdlib.schedules import ConfidenceFeedback, Schedule
from gdlib.train import RunLoss, train
from study import data, networks, records
from study.data.images import IMAGES
from study.experiment import Run, Train
from study.losses import parse
from study.measures import (
    add_angles,
    add_class_accuracies,
    final_measures,
    first_layer,
    scores,
    target_angles,
)
from study.objective import Balanced, GradientDecay, StackLoss
from study.run.images import batches, outputs_of, whiten
from study.run.job import Progress, described, device_of, parameters_of_run, record_of
from study.run.page import curves_of

MeasureRuns = Callable[[RunModel, data.Dataset, int], Mapping[str, Tensor]]
"""Measures more after each epoch: tensors ``[R, ...]`` for the history.

Those of shape ``[R]`` become curves.
"""

Finish = Callable[[RunModel, data.Dataset, list[dict[str, Any]]], Sequence[Mapping[str, Any]]]
"""Makes, once at the end, of model, data and history what is added to the record of each run."""


def train_stack(
    experiment: Train,
    *,
    measure: MeasureRuns | None = None,
    finish: Finish | None = None,
    checkpoint_dir: str = "",
    dataset: data.Dataset | None = None,
    each: Callable[..., Iterable[dict[str, Any]]] = map,
) -> records.Record:
    """Train the stack of an experiment and make its record.

    Nothing is written but the checkpoint, by which an interrupted job goes on.

    Args:
        experiment: what is trained.
        measure: measures more after each epoch.
        finish: measures more at the end.
        checkpoint_dir: folder of the checkpoint; none without it.
        dataset: the experiment's data where they are loaded already, by :func:`load`.
        each: as in :func:`study.measures.final_measures`.
    """
    started = time.perf_counter()
    device = device_of(experiment.device)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True  # the record says so
    dataset = (load(experiment) if dataset is None else dataset).to(device)
    steps_per_epoch = math.ceil(len(dataset.train) / experiment.batch_size)
    runs = experiment.runs(steps_per_epoch)
    model = _model(experiment, dataset, [run.seed for run in runs]).to(device)
    whiten(model, dataset)
    if experiment.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    counts = torch.bincount(dataset.train.labels.cpu(), minlength=dataset.classes)
    objective = _objective(experiment, runs, model, counts)
    if isinstance(objective, StackLoss):
        objective.to(device)
    evaluation = Evaluation(experiment, dataset, model, objective, device)
    progress = Progress(experiment.epochs, "epoch")

    with _sigterm_interrupts():
        history = train(
            model,
            RunLoss(objective),
            (dataset.train.inputs, dataset.train.labels),
            epochs=experiment.epochs,
            betas=[_schedule(experiment, run, steps_per_epoch) for run in runs],
            seeds=[run.seed for run in runs],
            measure=partial(_measure, evaluation, progress, measure),
            **_updates(experiment),
            **batches(experiment, dataset),
            **_checkpoint(experiment, dataset, checkpoint_dir),
        )

    measured = _final(evaluation, runs, counts, history, each)
    added: Sequence[Mapping[str, Any]] = [{} for _ in runs]
    if finish is not None:
        added = finish(model, dataset, history)
    return record_of(
        experiment,
        started,
        device,
        data=described(dataset),
        model={"name": experiment.model, "parameters": parameters_of_run(model)},
        runs=[
            run.values() | {**measured[index], "curves": curves_of(history, index), **added[index]}
            for index, run in enumerate(runs)
        ],
        epochs_done=history[-1]["epoch"],
    )


@dataclass(frozen=True)
class Evaluation:
    """A stack and its data, as they are measured: a whole split at a time, without augmentation."""

    experiment: Train
    dataset: data.Dataset
    model: RunModel
    objective: GradientDecay | StackLoss
    device: torch.device

    def logits(self, split: data.Split) -> Tensor:
        """Compute what the loss, and so the probability of a run, is made of, ``[R, N, C]``."""
        return self.objective.logits(outputs_of(self.experiment, self.dataset, self.model, split))

    def features(self, split: data.Split) -> Tensor:
        """Compute the inputs of the last layer, ``[R, N, D]``."""
        return outputs_of(self.experiment, self.dataset, self.model, split, features=True)

    def class_vectors(self) -> Tensor:
        """Return the vectors of the last layer that stand for the classes, ``[R, C, D]``."""
        return networks.class_vectors(self.model).detach()


def _updates(experiment: Train) -> dict[str, Any]:
    """Say how the weights are updated, and how the steps are computed."""
    return {
        "lr": experiment.learning_rate,
        "optimizer": experiment.optimizer,
        "momentum": experiment.momentum,
        "weight_decay": experiment.weight_decay,
        "lr_schedule": experiment.lr_schedule,
        "milestones": [round(share * experiment.epochs) for share in experiment.milestones],
        "max_grad_norm": experiment.max_grad_norm or None,
        "precision": experiment.precision,
        "fused": experiment.fused,
        "recorded": experiment.cuda_graph,
    }


def _checkpoint(experiment: Train, dataset: data.Dataset, folder: str) -> dict[str, Any]:
    """Say where the state is kept, if anywhere."""
    if not folder:
        return {}
    return {
        "checkpoint": Path(folder) / f"{experiment.identity()}.pt",
        # an epoch of images takes minutes on a CPU
        "checkpoint_every": 10 if experiment.model == "mlp" or dataset.train.inputs.is_cuda else 1,
        "identity": f"{experiment.notebook} {experiment.identity()}, data {dataset.copy}",
    }


def _objective(
    experiment: Train, runs: Sequence[Run], model: RunModel, counts: Tensor
) -> GradientDecay | StackLoss:
    """Make the loss of the stack.

    Args:
        experiment: names it.
        runs: members of the stack.
        model: the stack.
        counts: training samples of each class.
    """
    if experiment.loss == "gd":
        temperatures = [run.temperature for run in runs]
        return GradientDecay(temperatures, match_gradient=experiment.match_gradient)
    features = networks.class_vectors(model).shape[2]
    return StackLoss(
        parse(experiment.loss), len(counts), counts=counts, runs=model.runs, features=features
    )


def _measure(
    evaluation: Evaluation,
    progress: Progress,
    more: MeasureRuns | None,
    model: nn.Module,
    epoch: int,
) -> dict[str, Tensor]:
    """Measure the stack after an epoch: on the test set, and what the experiment asks for."""
    experiment, dataset = evaluation.experiment, evaluation.dataset
    progress(epoch)
    last = epoch == experiment.epochs
    tested = last or epoch % experiment.test_every == 0
    fitted = last
    if experiment.train_every:
        fitted = last or epoch <= 10 or epoch % experiment.train_every == 0
    measured: dict[str, Tensor] = {}
    if tested:
        measured |= scores(evaluation.logits(dataset.test), dataset.test.labels, "test")
    if tested and fitted:
        measured |= scores(evaluation.logits(dataset.train), dataset.train.labels, "train")
    if experiment.feedbacks and dataset.valid is not None:
        measured |= _confidence(evaluation.logits(dataset.valid), dataset.valid.labels)
    if measured and experiment.angles:
        features = evaluation.features(dataset.train)
        measured |= target_angles(features, dataset.train.labels, evaluation.class_vectors())
    if more is not None:
        measured |= more(evaluation.model, dataset, epoch)
    return measured


def _confidence(logits: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Measure what a feedback follows, on the samples held out."""
    return {
        "valid_confidence": torch.softmax(logits, 2).amax(2).double().mean(1),
        "valid_accuracy": (logits.argmax(2) == labels).double().mean(1),
    }


def _final(
    evaluation: Evaluation,
    runs: Sequence[Run],
    counts: Tensor,
    history: list[dict[str, Any]],
    each: Callable[..., Iterable[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Measure each run after the last epoch, for its record."""
    experiment, dataset = evaluation.experiment, evaluation.dataset
    betas = [run.schedule(math.inf) for run in runs]
    # the link is that of gradient decay
    linked = [beta if experiment.loss == "gd" else None for beta in betas]
    final = final_measures(dataset, evaluation.logits, linked, each)
    if experiment.loss == "gd" and isinstance(evaluation.model, StackedMLP) and experiment.hidden:
        layer = first_layer(evaluation.model, experiment.activation, dataset.train.inputs)
        for name, values in layer.items():
            for run, value in zip(final, values.tolist(), strict=True):
                run["metrics"][name] = value
    if experiment.imbalance != 1:
        decisions = [_balanced(evaluation, beta, counts).decide for beta in betas]
        logits = evaluation.logits(dataset.test)
        add_class_accuracies(final, logits, dataset.test.labels, decisions)
    if experiment.angles:
        features = evaluation.features(dataset.train)
        vectors = evaluation.class_vectors()
        add_angles(final, history, features, dataset.train.labels, vectors)
    return final


def _balanced(evaluation: Evaluation, beta: float, counts: Tensor) -> Balanced:
    """Return what decides for the balanced error: the loss itself, or a plain gradient decay."""
    objective = evaluation.objective
    if isinstance(objective, StackLoss) and isinstance(objective.loss, Balanced):
        return objective.loss
    return Balanced("", beta, counts).to(evaluation.device)


def _schedule(experiment: Train, run: Run, steps_per_epoch: int) -> Schedule:
    """Return the schedule of a run, over steps; by epoch, β changes with the first step of each.

    Feedback changes with what is measured after each epoch.
    """
    if experiment.schedule_unit == "step" or isinstance(run.schedule, ConfidenceFeedback):
        return run.schedule
    return partial(_at_first_step, run.schedule, steps_per_epoch)


def _at_first_step(schedule: Schedule, steps_per_epoch: int, step: float) -> float:
    """Return the value at the first step of the epoch of this step."""
    return schedule(step - step % steps_per_epoch)


def load(experiment: Train, raw: data.Dataset | None = None) -> data.Dataset:
    """Load the data as the model takes them, or take them from what was read already.

    They are rows of numbers, or images as they lie in their files, to be normalised batch by batch.
    """
    is_perceptron = experiment.model == "mlp"
    dataset = data.load(
        experiment.dataset,
        normalization=experiment.normalization,
        validation_size=experiment.validation_size,
        subset=experiment.subset,
        imbalance=experiment.imbalance,
        labels=experiment.labels,
        as_bytes=experiment.dataset in IMAGES and not is_perceptron,
        raw=raw,
    )
    dataset = dataset.flat() if is_perceptron else dataset.with_channels()
    if experiment.input_scale != 1:
        dataset = dataset.with_inputs(lambda inputs: inputs * experiment.input_scale)
    if experiment.label_noise:
        noisy = data.with_label_noise(
            dataset.train.labels, experiment.label_noise, classes=dataset.classes
        )
        dataset = replace(dataset, train=data.Split(dataset.train.inputs, noisy))
    return dataset


def _model(experiment: Train, dataset: data.Dataset, seeds: Sequence[int]) -> RunModel:
    """Make the stack: perceptrons or image networks, with the last layer that the loss needs."""
    if experiment.model == "mlp":
        return _perceptrons(experiment, dataset, seeds)
    stack = networks.image_stack(
        experiment.model,
        seeds,
        classes=dataset.classes,
        width=experiment.width,
        stem=experiment.stem,
        channels=dataset.train.inputs.shape[1],
    )
    if experiment.loss == "gd":
        return stack
    kind = parse(experiment.loss).kind
    return networks.with_heads(
        stack, kind.head, bias=experiment.classifier_bias, with_features=kind.with_features
    )


def _perceptrons(experiment: Train, dataset: data.Dataset, seeds: Sequence[int]) -> RunModel:
    sizes = [dataset.train.inputs.shape[1], *experiment.hidden, dataset.classes]
    form: dict[str, Any] = {
        "activation": experiment.activation,
        "initialization": experiment.initialization,
        "linear_features": experiment.linear_features,
    }
    if experiment.loss != "gd":
        kind = parse(experiment.loss).kind
        return networks.perceptrons(
            sizes,
            seeds,
            head=kind.head,
            with_features=kind.with_features,
            bias=experiment.classifier_bias,
            **form,
        )
    perceptrons = StackedMLP(sizes, seeds, **form)
    with torch.no_grad():
        perceptrons.weights[0].mul_(experiment.first_weights)
    return perceptrons


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, at which the loop writes its checkpoint."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
