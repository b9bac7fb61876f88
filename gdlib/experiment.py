"""From an experiment, a frozen set of flat values, to a record: the only place that turns names into parts.

``Experiment → data → model → loss(β = schedule(step)) → train → logits → calibration → Record``
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib import calibration, data, models, records
from gdlib.curriculum import true_class_probability
from gdlib.functional import gd_cross_entropy
from gdlib.schedules import Constant, LinearWarmup, Schedule
from gdlib.train import Loss, predict, train

__all__ = ["Experiment", "Finish", "MeasureRuns", "Run", "gd_loss", "run"]

_SEEDS = 2**31  # how many there are; the batch order shifts a seed by 20 bits

HISTOGRAM_EDGES = tuple(edge / 20 for edge in range(21))


@dataclass(frozen=True)
class Run:
    """One member of a stack.

    Attributes:
        seed: seed of the initialisation and of the batch order.
        temperature: τ.
        schedule: β as a function of the optimiser step.
        label: the schedule in words, such as ``0.1`` or ``warm-up 0.01→0.1``.
        warmup_epochs: length of the warm-up, 0 for a constant β.
    """

    seed: int
    temperature: float
    schedule: Schedule
    label: str
    warmup_epochs: float

    @property
    def beta(self) -> float:
        """β at the end."""
        return self.schedule(math.inf)


@dataclass(frozen=True)
class Experiment:
    """What is trained, on what, and how. Flat values only, so that papermill can set each of them.

    A stack holds one run for each seed, each temperature and each schedule (constants and warm-ups). Runs that share a seed share the
    initialisation and the batch order, so that β is compared on common random numbers.

    Attributes:
        dataset: a name of :func:`gdlib.data.names`.
        normalization: of the inputs, a name of :data:`gdlib.data.NORMALIZATIONS`.
        validation_size: training samples held out.
        hidden: units of the hidden layers.
        activation: a name of :data:`gdlib.models.ACTIVATIONS`.
        initialization: a name of :data:`gdlib.models.INITIALIZATIONS`.
        linear_features: no activation after the last hidden layer.
        betas: constant gradient-decay factors.
        warmups: linear warm-ups of β, each as [start, end, epochs].
        schedule_unit: a warm-up changes β every ``"step"`` or every ``"epoch"``.
        temperatures: values of τ.
        seeds: seeds of the initialisation and of the batch order.
        epochs: passes over the training data.
        batch_size: samples in a step.
        learning_rate: of SGD.
        momentum: heavy-ball momentum.
        weight_decay: coefficient of the L2 penalty.
        milestones: shares of the epochs after which the learning rate falls to a tenth.
        max_grad_norm: limit for the gradient norm of a run; 0 for none.
        train_every: epochs between two evaluations on the whole training set, after the first ten.
        scale: ``"paper"``, ``"reduced"`` or ``"smoke"``: how the setting relates to the paper's.

    Raises:
        ValueError: for a value that no experiment can have; the message names the valid ones.

    Example:
        >>> experiment = Experiment(betas=[1, 0.1], warmups=[[0.01, 0.1, 5]], seeds=[0, 1])
        >>> [(run.seed, run.label) for run in experiment.runs()][:3]
        [(0, '1'), (0, '0.1'), (0, 'warm-up 0.01→0.1')]
    """

    dataset: str = "digits"
    normalization: str = "unit"
    validation_size: int = 0
    hidden: Sequence[int] = (50, 20)
    activation: str = "relu"
    initialization: str = "pytorch"
    linear_features: bool = False
    betas: Sequence[float] = (5.0, 1.0, 0.1, 0.01)
    warmups: Sequence[Sequence[float]] = ()
    schedule_unit: str = "step"
    temperatures: Sequence[float] = (1.0,)
    seeds: Sequence[int] = (0,)
    epochs: int = 10
    batch_size: int = 100
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    milestones: Sequence[float] = ()
    max_grad_norm: float = 0.0
    train_every: int = 5
    scale: str = "smoke"

    def __post_init__(self) -> None:
        """Check every value against what the parts accept, before anything is loaded."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(tuple(item) if isinstance(item, list) else item for item in value))
        for name, value, valid in (
            ("dataset", self.dataset, data.names()),
            ("normalization", self.normalization, data.NORMALIZATIONS),
            ("activation", self.activation, models.ACTIVATIONS),
            ("initialization", self.initialization, models.INITIALIZATIONS),
            ("schedule_unit", self.schedule_unit, ("step", "epoch")),
            ("scale", self.scale, records.SCALES),
        ):
            if not isinstance(value, str) or value not in valid:
                raise ValueError(f"unknown {name} {value!r}; valid: {', '.join(valid)}")
        for name in ("epochs", "batch_size", "train_every", "learning_rate"):
            _require(name, getattr(self, name), above=0)
        for name in ("epochs", "batch_size", "train_every", "validation_size"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name} must be a whole number; got {getattr(self, name)!r}")
        if not isinstance(self.linear_features, bool):
            raise ValueError(f"linear_features must be True or False; got {self.linear_features!r}")
        for name in ("validation_size", "momentum", "weight_decay", "max_grad_norm"):
            _require(name, getattr(self, name), at_least=0)
        for name in ("hidden", "betas", "warmups", "temperatures", "seeds", "milestones"):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(f"{name} must be a list; got {getattr(self, name)!r}")
        for units in self.hidden:
            if not isinstance(units, int):
                raise ValueError(f"hidden must be whole numbers of units; got {units!r}")
        for name in ("hidden", "betas", "temperatures"):
            for value in getattr(self, name):
                _require(name, value, above=0)
        for share in self.milestones:
            if not isinstance(share, (int, float)) or not 0 < share < 1:
                raise ValueError(f"milestones are shares of the epochs, between 0 and 1; got {share}")
        for seed in self.seeds:
            if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < _SEEDS:
                raise ValueError(f"seeds must be integers from 0 to {_SEEDS - 1}; got {seed!r}")
        for warmup in self.warmups:
            if not isinstance(warmup, tuple) or len(warmup) != 3:
                raise ValueError(f"a warm-up is [start, end, epochs]; got {warmup!r}")
            for part in warmup:
                _require("warmups", part, above=0)
        if not self.runs():
            raise ValueError("there is nothing to train: give at least one seed, one temperature, and one β or warm-up")

    @classmethod
    def from_parameters(cls, namespace: Mapping[str, Any]) -> Experiment:
        """Pick the experiment's values, by name, out of a notebook's namespace: ``Experiment.from_parameters(globals())``.

        A list may also come as papermill's ``-p`` delivers it from a command line: as text, ``-p betas "[1, 0.1]"``, or, for a list of
        one, as a number, ``-p betas 0.1``.

        Example:
            >>> given = dataclasses.asdict(Experiment()) | {"betas": "[1, 0.1]", "seeds": 3}
            >>> experiment = Experiment.from_parameters(given)
            >>> experiment.betas, experiment.seeds
            ((1, 0.1), (3,))
        """
        values = {field.name: namespace[field.name] for field in dataclasses.fields(cls)}
        for field in dataclasses.fields(cls):
            value = values[field.name]
            if isinstance(field.default, tuple) and isinstance(value, str):
                try:
                    value = json.loads(value)
                except ValueError as error:
                    raise ValueError(f"{field.name} must be a list, such as {list(field.default)}; got {value!r}") from error
            if isinstance(field.default, tuple) and isinstance(value, (int, float)) and not isinstance(value, bool):
                value = [value]
            values[field.name] = value
        return cls(**values)

    def runs(self, steps_per_epoch: int = 1) -> list[Run]:
        """The members of the stack: for each seed, for each temperature, the constants and then the warm-ups."""
        schedules: list[tuple[Schedule, float]] = [(Constant(float(beta)), 0.0) for beta in self.betas]
        for start, end, epochs in self.warmups:
            schedules.append((LinearWarmup(float(start), float(end), epochs * steps_per_epoch), float(epochs)))
        return [
            Run(seed, float(temperature), schedule, str(schedule), epochs)
            for seed in self.seeds
            for temperature in self.temperatures
            for schedule, epochs in schedules
        ]

    def identity(self) -> str:
        """A short name for exactly these values; equal experiments have equal names."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if name != "scale"}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


MeasureRuns = Callable[[models.RunModel, data.Dataset, int], Mapping[str, Tensor]]
"""Called with model, data and finished epochs; returns tensors ``[R, ...]``, which go into the history. Those of shape ``[R]`` become
curves."""

Finish = Callable[[models.RunModel, data.Dataset, list[dict[str, Any]]], Sequence[Mapping[str, Any]]]
"""Called once at the end with model, data and history; returns what to add to the record of each run."""


def run(
    experiment: Experiment,
    *,
    template: str,
    measure: MeasureRuns | None = None,
    finish: Finish | None = None,
    parameters: Mapping[str, Any] | None = None,
    checkpoint_dir: str = "",
    checkpoint_every: int = 10,
    progress: bool = False,
    data_folder: str | None = None,
) -> records.Record:
    """Train the stack of an experiment and measure it.

    Args:
        experiment: what to do.
        template: name of the notebook, for the record.
        measure: what to measure after each epoch beyond accuracy and cross-entropy.
        finish: what to add to the record of each run at the end.
        parameters: parameters of the notebook beyond the experiment's, for the record.
        checkpoint_dir: folder for the checkpoint, by which an interrupted job goes on; empty for none.
        checkpoint_every: epochs between two checkpoints.
        progress: show a progress bar, or log a line for each epoch.
        data_folder: the local data folder, instead of the usual one.

    Returns:
        The record; nothing is written but the checkpoint.
    """
    started = time.perf_counter()
    dataset = data.load(
        experiment.dataset,
        normalization=experiment.normalization,  # type: ignore[arg-type]
        validation_size=experiment.validation_size,
        folder=data_folder,
    )
    dataset = dataset.flat()
    steps_per_epoch = math.ceil(len(dataset.train) / experiment.batch_size)
    runs = experiment.runs(steps_per_epoch)
    model = models.mlp(
        [dataset.features, *experiment.hidden, dataset.classes],
        seeds=[member.seed for member in runs],
        activation=experiment.activation,
        initialization=experiment.initialization,
        linear_features=experiment.linear_features,
    )

    def schedule(step: int) -> list[float]:
        if experiment.schedule_unit == "epoch":
            step -= step % steps_per_epoch
        return [member.schedule(step) for member in runs]

    temperature = torch.tensor([member.temperature for member in runs])[:, None, None]

    def scaled_logits(split: data.Split) -> Tensor:
        """The logits over τ, which the loss, and so the probability of a run, is made of."""
        return predict(model, split.inputs) / temperature

    def measure_all(model: models.RunModel, epoch: int) -> dict[str, Tensor]:
        measured = _accuracy_and_cross_entropy(scaled_logits(dataset.test), dataset.test.labels, "test")
        if epoch <= 10 or epoch % experiment.train_every == 0 or epoch == experiment.epochs:
            measured |= _accuracy_and_cross_entropy(scaled_logits(dataset.train), dataset.train.labels, "train")
        return measured | dict(measure(model, dataset, epoch) if measure is not None else {})

    history = train(
        model,
        gd_loss([member.temperature for member in runs]),
        schedule,
        dataset.train.inputs,
        dataset.train.labels,
        epochs=experiment.epochs,
        batch_size=experiment.batch_size,
        learning_rate=experiment.learning_rate,
        momentum=experiment.momentum,
        weight_decay=experiment.weight_decay,
        milestones=[round(share * experiment.epochs) for share in experiment.milestones],
        max_grad_norm=experiment.max_grad_norm or None,
        order_seeds=experiment.seeds,
        measure=measure_all,
        checkpoint=Path(checkpoint_dir) / f"{experiment.identity()}.pt" if checkpoint_dir else None,
        checkpoint_every=checkpoint_every,
        identity=f"{template} {experiment.identity()}, data {dataset.copy}",
        progress=progress,
    )

    final = _final_measures(dataset, scaled_logits)
    added = finish(model, dataset, history) if finish is not None else [{} for _ in runs]
    return records.Record(
        template=template,
        parameters=dataclasses.asdict(experiment) | dict(parameters or {}),
        data={
            "name": dataset.name,
            "source": dataset.source,
            "copy": dataset.copy,
            "train": len(dataset.train),
            "valid": len(dataset.valid) if dataset.valid is not None else 0,
            "test": len(dataset.test),
        },
        model={"name": "mlp", "parameters": sum(parameter.numel() for parameter in model.parameters()) // model.runs},
        runs=[
            {
                "schedule": member.label,
                "beta": member.beta,
                "warmup_epochs": member.warmup_epochs,
                "temperature": member.temperature,
                "seed": member.seed,
                **final[index],
                "curves": _curves(history, index),
                **added[index],
            }
            for index, member in enumerate(runs)
        ],
        epochs_done=history[-1]["epoch"],
        wall_seconds=round(time.perf_counter() - started, 2),
        scale=experiment.scale,
        environment=records.environment(device="cpu", precision="float32", threads=torch.get_num_threads()),
    )


def gd_loss(temperatures: Sequence[float]) -> Loss:
    """The gradient-decay cross-entropy of a stack: logits ``[R, N, C]``, labels ``[R, N]`` and β ``[R]`` to losses ``[R, N]``."""
    tau = torch.tensor(temperatures)
    plain = all(temperature == 1.0 for temperature in temperatures)

    def loss_fn(logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        samples = labels.shape[1]
        losses = gd_cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            beta.repeat_interleave(samples),
            temperature=1.0 if plain else tau.to(logits).repeat_interleave(samples),
            reduction="none",
        )
        return losses.unflatten(0, labels.shape)

    return loss_fn


def _accuracy_and_cross_entropy(logits: Tensor, labels: Tensor, name: str) -> dict[str, Tensor]:
    """Accuracy and plain cross-entropy of every run, ``[R]``, from logits ``[R, N, C]``."""
    correct = (logits.argmax(2) == labels).double().mean(1)
    cross_entropy = torch.stack([F.cross_entropy(run_logits, labels) for run_logits in logits])
    return {f"{name}_accuracy": correct, f"{name}_cross_entropy": cross_entropy}


def _final_measures(dataset: data.Dataset, scaled_logits: Callable[[data.Split], Tensor]) -> list[dict[str, Any]]:
    """Metrics of the last epoch, the distribution of the training confidence (the papers' Table 1), and the test set's reliability bins."""
    test_logits, train_logits = scaled_logits(dataset.test), scaled_logits(dataset.train)
    measures = _accuracy_and_cross_entropy(train_logits, dataset.train.labels, "train")
    measures |= _accuracy_and_cross_entropy(test_logits, dataset.test.labels, "test")
    if dataset.valid is not None:
        measures |= _accuracy_and_cross_entropy(scaled_logits(dataset.valid), dataset.valid.labels, "valid")
    confidence = true_class_probability(train_logits, dataset.train.labels)
    final = []
    for index in range(len(test_logits)):
        metrics = {name: float(values[index]) for name, values in measures.items()}
        if not torch.isfinite(test_logits[index]).all() or not torch.isfinite(train_logits[index]).all():
            final.append({"diverged": True, "metrics": metrics})
            continue
        probabilities = torch.softmax(test_logits[index].double(), 1)
        bins = calibration.calibration_bins(probabilities, dataset.test.labels)
        metrics["test_ece"] = calibration.expected_calibration_error(probabilities, dataset.test.labels)
        metrics["test_mce"] = calibration.maximum_calibration_error(probabilities, dataset.test.labels)
        metrics["test_confidence"] = float(probabilities.amax(1).mean())
        metrics["train_confidence"] = float(confidence[index].double().mean())
        final.append(
            {
                "diverged": False,
                "metrics": metrics,
                "confidence_counts": calibration.confidence_histogram(confidence[index]),
                "confidence_histogram": calibration.confidence_histogram(confidence[index], HISTOGRAM_EDGES),
                "reliability": {"upper": bins.upper, "count": bins.count, "confidence": bins.confidence, "accuracy": bins.accuracy},
            }
        )
    return final


def _curves(history: list[dict[str, Any]], index: int) -> dict[str, list[float]]:
    """What is one number for each run in the history, as lists, and when it was measured; a constant β is left out."""
    curves: dict[str, list[float]] = {"epoch": [], "train_epoch": []}
    constant = len({float(entry["beta"][index]) for entry in history}) == 1
    for entry in history:
        curves["epoch"].append(entry["epoch"])
        if "train_accuracy" in entry:
            curves["train_epoch"].append(entry["epoch"])
        for name, value in entry.items():
            if isinstance(value, Tensor) and value.ndim == 1 and not (name == "beta" and constant):
                curves.setdefault(name, []).append(float(value[index]))
    return curves


def _require(name: str, value: object, *, above: float | None = None, at_least: float | None = None) -> None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    bound = f"> {above:g}" if above is not None else f">= {at_least:g}"
    holds = number > above if above is not None else number >= (at_least or 0)
    if not (holds and math.isfinite(number)):
        raise ValueError(f"{name} must be a finite number {bound}; got {value!r}")
