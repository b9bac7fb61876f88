"""Train the stack of a setting and measure it."""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gdlib import models
from gdlib.schedules import ConfidenceFeedback, Schedule
from gdlib.train import predict, train
from study import data, records
from study.data import augmentation
from study.data.images import IMAGES
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
from study.run.job import Progress, device_of, record_of
from study.settings import Train

_OF_THE_LOOP = {
    "epochs",
    "batch_size",
    "learning_rate",
    "optimizer",
    "momentum",
    "weight_decay",
    "lr_schedule",
} | {*("precision", "fused", "cuda_graph")}
_IMAGES_AT_A_TIME = {"cpu": 500, "cuda": 2_000}  # in an evaluation

MeasureRuns = Callable[[models.RunModel, data.Dataset, int], Mapping[str, Tensor]]
"""Measures more after each epoch: tensors ``[R, ...]`` for the history.

Those of shape ``[R]`` become curves.
"""

Finish = Callable[
    [models.RunModel, data.Dataset, list[dict[str, Any]]], Sequence[Mapping[str, Any]]
]
"""Makes, once at the end, of model, data and history what is added to the record of each run."""


def train_stack(
    setting: Train,
    *,
    measure: MeasureRuns | None = None,
    finish: Finish | None = None,
    checkpoint_dir: str = "",
) -> records.Record:
    """Train the stack of a setting and make its record; nothing is written but the checkpoint, by which an interrupted job goes on."""
    started = time.perf_counter()
    device = device_of(setting.device)
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True  # the record says so
    dataset = _load(setting).to(device)
    steps_per_epoch = math.ceil(len(dataset.train) / setting.batch_size)
    runs = setting.runs(steps_per_epoch)
    model = _model(setting, dataset, [member.seed for member in runs]).to(device)
    for network in model.copies if isinstance(model, models.ModuleStack) else []:
        if isinstance(network, models.FastNetwork):
            network.whiten(dataset.normalize(dataset.train.inputs[:5_000]))
    if setting.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def normalize(images: Tensor) -> Tensor:
        """Make of images ``[..., C, H, W]`` what the model sees."""
        inputs = dataset.normalize(images)
        return (
            inputs.flatten(0, -4).contiguous(memory_format=torch.channels_last).view_as(inputs)
            if setting.channels_last
            else inputs
        )

    def draws(epoch: int) -> Tensor:
        form = len(dataset.train), setting.batch_size
        return augmentation.draw_epoch(
            setting.augmentation, *form, seeds=setting.seeds, epoch=epoch
        )

    def prepare(images: Tensor, draws: Tensor | None) -> Tensor:
        """Augment the batch ``[S, B, C, H, W]`` of each seed, then normalise it."""
        if draws is not None:
            images = augmentation.apply(images, draws, augmentation.PADDING[setting.augmentation])
        return normalize(images)

    counts = torch.bincount(dataset.train.labels.cpu(), minlength=dataset.classes)
    objective: GradientDecay | StackLoss
    if setting.loss == "gd":
        objective = GradientDecay(
            [member.temperature for member in runs], match_gradient=setting.match_gradient
        )
    else:
        shape = {"runs": model.runs, "features": models.class_vectors(model).shape[2]}
        objective = StackLoss(parse(setting.loss), dataset.classes, counts=counts, **shape).to(
            device
        )
    of_images, form = setting.model != "mlp", dict[str, Any]()
    if of_images:
        form = {
            "prepare": normalize,
            "precision": setting.precision,
            "batch_size": _IMAGES_AT_A_TIME[device.type],
        }

    def features(split: data.Split) -> Tensor:
        return predict(model, split.inputs, features=True, **form)

    def logits(split: data.Split) -> Tensor:
        """Compute what the loss, and so the probability of a run, is made of."""
        return objective.logits(predict(model, split.inputs, **form))

    progress = Progress(setting.epochs, "epoch")

    def measure_all(model: models.RunModel, epoch: int) -> dict[str, Tensor]:
        progress(epoch)
        measured = {}
        last = epoch == setting.epochs
        if last or epoch % setting.test_every == 0:
            measured = scores(logits(dataset.test), dataset.test.labels, "test")
        if measured and (
            last or (setting.train_every and (epoch <= 10 or epoch % setting.train_every == 0))
        ):
            measured |= scores(logits(dataset.train), dataset.train.labels, "train")
        if setting.feedbacks and dataset.valid is not None:
            held_out = logits(dataset.valid)
            measured["valid_confidence"] = torch.softmax(held_out, 2).amax(2).double().mean(1)
            measured["valid_accuracy"] = (
                (held_out.argmax(2) == dataset.valid.labels).double().mean(1)
            )
        if measured and setting.angles:
            measured |= target_angles(
                features(dataset.train), dataset.train.labels, models.class_vectors(model).detach()
            )
        return measured | dict(measure(model, dataset, epoch) if measure is not None else {})

    with _sigterm_interrupts():
        history = train(
            model,
            objective,
            [
                _held(member.schedule, steps_per_epoch if setting.schedule_unit == "epoch" else 1)
                for member in runs
            ],
            dataset.train.inputs,
            dataset.train.labels,
            **setting.model_dump(include=_OF_THE_LOOP),
            milestones=[round(share * setting.epochs) for share in setting.milestones],
            max_grad_norm=setting.max_grad_norm or None,
            order_seeds=setting.seeds,
            prepare=prepare if of_images else None,
            draws=draws if setting.augmentation != "none" else None,
            measure=measure_all,
            checkpoint=Path(checkpoint_dir) / f"{setting.identity()}.pt"
            if checkpoint_dir
            else None,
            checkpoint_every=1 if of_images else 10,  # an epoch of images takes minutes
            identity=f"{setting.template} {setting.identity()}, data {dataset.copy}",
        )

    final = final_measures(dataset, logits, [member.schedule(math.inf) for member in runs])
    if isinstance(model, models.StackedMLP):
        for name, values in first_layer(model, setting.activation, dataset.train.inputs).items():
            for of_run, value in zip(final, values.tolist(), strict=True):
                of_run["metrics"][name] = value
    if setting.imbalance != 1:
        own = getattr(objective, "loss", None)
        rules = [
            own
            if isinstance(own, Balanced)
            else Balanced("", run.schedule(math.inf), counts).to(device)
            for run in runs
        ]
        add_class_accuracies(
            final, logits(dataset.test), dataset.test.labels, [rule.decide for rule in rules]
        )
    if setting.angles:
        add_angles(
            final,
            history,
            features(dataset.train),
            dataset.train.labels,
            models.class_vectors(model).detach(),
        )
    added = finish(model, dataset, history) if finish is not None else [{} for _ in runs]
    sizes = {
        "train": len(dataset.train),
        "valid": len(dataset.valid or ()),
        "test": len(dataset.test),
    }
    return record_of(
        setting,
        started,
        device,
        data={"name": dataset.name, "source": dataset.source, "copy": dataset.copy, **sizes}
        | ({"wrong_labels": dataset.wrong_labels} if dataset.wrong_labels else {}),
        model={
            "name": setting.model,
            "parameters": sum(parameter.numel() for parameter in model.parameters()) // model.runs,
        },
        runs=[
            member.values() | {**final[index], "curves": _curves(history, index), **added[index]}
            for index, member in enumerate(runs)
        ],
        epochs_done=history[-1]["epoch"],
    )


def _held(schedule: Schedule, every: int) -> Schedule:
    """Let β change every so many steps only; feedback changes with what is measured after each epoch."""
    return (
        schedule
        if isinstance(schedule, ConfidenceFeedback)
        else lambda step: schedule(step - step % every)
    )


def _load(setting: Train) -> data.Dataset:
    """Load the data as the model takes them: rows of numbers, or images as they lie in their files, to be normalised batch by batch."""
    options = setting.model_dump(
        include={"normalization", "validation_size", "subset", "imbalance", "labels"}
    )
    if setting.model == "mlp":
        dataset = data.load(setting.dataset, **options).flat()
        if setting.input_scale != 1:
            dataset = dataset.with_inputs(lambda inputs: inputs * setting.input_scale)
    else:
        dataset = data.load(
            setting.dataset, as_bytes=setting.dataset in IMAGES, **options
        ).with_channels()
    if setting.label_noise:
        noisy = data.with_label_noise(
            dataset.train.labels, setting.label_noise, classes=dataset.classes
        )
        dataset = replace(dataset, train=data.Split(dataset.train.inputs, noisy))
    return dataset


def _model(setting: Train, dataset: data.Dataset, seeds: Sequence[int]) -> models.RunModel:
    chosen = parse(setting.loss).kind if setting.loss != "gd" else None
    last: dict[str, Any] = (
        {"with_features": chosen.with_features, "bias": setting.classifier_bias}
        if chosen is not None
        else {}
    )
    if setting.model == "mlp":
        sizes = [dataset.train.inputs.shape[1], *setting.hidden, dataset.classes]
        form: dict[str, Any] = setting.model_dump(
            include={"activation", "initialization", "linear_features"}
        )
        if chosen is None:
            perceptrons = models.StackedMLP(sizes, seeds=seeds, **form)
            with torch.no_grad():
                perceptrons.weights[0].mul_(setting.first_weights)
            return perceptrons
        return models.HeadedMLP(sizes, seeds, head=chosen.head, **last, **form)
    channels = dataset.train.inputs.shape[1]
    form = {
        "classes": dataset.classes,
        "width": setting.width,
        "stem": setting.stem,
        "channels": channels,
    }
    stack = models.image_stack(setting.model, seeds, **form)
    return stack if chosen is None else models.with_heads(stack, chosen.head, **last)


def _curves(history: list[dict[str, Any]], index: int) -> dict[str, list[float]]:
    """List what is one number for each run in the history, and when it was measured; a constant β is left out."""
    history = [entry for entry in history if "test_accuracy" in entry]
    trained = [entry["epoch"] for entry in history if "train_accuracy" in entry]
    curves: dict[str, list[float]] = {
        "epoch": [entry["epoch"] for entry in history],
        "train_epoch": trained,
    }
    constant = len({float(entry["beta"][index]) for entry in history}) == 1
    for entry in history:
        for name, value in entry.items():
            if isinstance(value, Tensor) and value.ndim == 1 and not (name == "beta" and constant):
                curves.setdefault(name, []).append(float(value[index]))
    return curves


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, at which the loop writes its checkpoint."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
