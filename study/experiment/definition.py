"""An experiment: what is trained, on what, and how, as a frozen set of flat values."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gdlib import models
from gdlib.schedules import Constant, LinearWarmup, Schedule
from gdlib.train import DECAYS, OPTIMIZERS, PRECISIONS
from study import data, records
from study.data import augmentation
from study.experiment.methods import Method, method
from study.experiment.values import require, require_one_of, values_of, with_tuples

__all__ = ["Experiment", "Run"]

DEVICES = ("cpu", "cuda", "auto")

_SEEDS = 2**12  # how many there are: the batch order puts a seed and an epoch below 2**20 into 32 bits


@dataclass(frozen=True)
class Run:
    """One member of a stack.

    Attributes:
        seed: seed of the initialisation and of the batch order.
        temperature: τ.
        schedule: β as a function of the optimiser step.
        label: the schedule in words, such as ``0.1`` or ``warm-up 0.01→0.1``; with another loss than gradient decay its name.
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
        dataset: a name of :func:`study.data.names`.
        normalization: of the inputs, a name of :data:`study.data.NORMALIZATIONS`.
        validation_size: training samples held out.
        subset: training samples kept, the same number of each class; 0 for all.
        label_noise: share of the kept training samples that get a wrong label, drawn once for all seeds.
        augmentation: of the training images, a name of :data:`study.data.augmentation.AUGMENTATIONS`; image networks only.
        model: ``"mlp"``, or a name of :data:`gdlib.models.IMAGE_NETWORKS`.
        width: factor for the channels of an image network.
        stem: how an image network begins, a name of :data:`gdlib.models.STEMS`.
        hidden: units of the hidden layers of the multilayer perceptron.
        activation: a name of :data:`gdlib.models.ACTIVATIONS`.
        initialization: a name of :data:`gdlib.models.INITIALIZATIONS`.
        linear_features: no activation after the last hidden layer.
        loss: ``"gd"``, gradient decay with the β below; or another one by :func:`study.experiment.method`, with ``betas=[1]``.
        classifier_bias: whether the last layer has a bias, with a loss other than gradient decay and where its last layer can have one.
        betas: constant gradient-decay factors.
        warmups: linear warm-ups of β, each as [start, end, epochs].
        schedule_unit: a warm-up changes β every ``"step"`` or every ``"epoch"``.
        temperatures: values of τ.
        seeds: seeds of the initialisation and of the batch order.
        epochs: passes over the training data.
        batch_size: samples in a step.
        optimizer: a name of :data:`gdlib.train.OPTIMIZERS`.
        learning_rate: of the optimizer.
        momentum: heavy-ball momentum of SGD, or first decay rate of Adam.
        weight_decay: coefficient of the L2 penalty.
        decay: how the learning rate falls, a name of :data:`gdlib.train.DECAYS`.
        milestones: shares of the epochs after which the learning rate falls to a tenth.
        max_grad_norm: limit for the gradient norm of a run; 0 for none.
        match_gradient: a learning rate matched to β in every step, see :func:`study.experiment.gd_loss`.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"`` for a GPU where there is one.
        precision: of the forward and backward pass, a name of :data:`gdlib.train.PRECISIONS`.
        channels_last: keep images and convolutions in this memory format.
        fused: let the optimiser update all parameters in one kernel.
        cuda_graph: record a step on the GPU and replay it.
        angles: measure the angles between features, class centres and class vectors too.
        test_every: epochs between two evaluations; the last epoch is always evaluated.
        train_every: epochs between two evaluations on the whole training set too, after the first ten; 0 for the last epoch alone.
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
    subset: int = 0
    label_noise: float = 0.0
    augmentation: str = "none"
    model: str = "mlp"
    width: float = 1.0
    stem: str = "cifar"
    hidden: Sequence[int] = (50, 20)
    activation: str = "relu"
    initialization: str = "pytorch"
    linear_features: bool = False
    loss: str = "gd"
    classifier_bias: bool = True
    betas: Sequence[float] = (5.0, 1.0, 0.1, 0.01)
    warmups: Sequence[Sequence[float]] = ()
    schedule_unit: str = "step"
    temperatures: Sequence[float] = (1.0,)
    seeds: Sequence[int] = (0,)
    epochs: int = 10
    batch_size: int = 100
    optimizer: str = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    decay: str = "milestones"
    milestones: Sequence[float] = ()
    max_grad_norm: float = 0.0
    match_gradient: bool = False
    device: str = "cpu"
    precision: str = "float32"
    channels_last: bool = False
    fused: bool = False
    cuda_graph: bool = False
    angles: bool = False
    test_every: int = 1
    train_every: int = 5
    scale: str = "smoke"

    def __post_init__(self) -> None:
        """Check every value against what the parts accept, before anything is loaded."""
        with_tuples(self)
        for name, value, valid in (
            ("dataset", self.dataset, data.names()),
            ("normalization", self.normalization, data.NORMALIZATIONS),
            ("augmentation", self.augmentation, augmentation.AUGMENTATIONS),
            ("model", self.model, ("mlp", *models.IMAGE_NETWORKS)),
            ("stem", self.stem, models.STEMS),
            ("device", self.device, DEVICES),
            ("precision", self.precision, PRECISIONS),
            ("optimizer", self.optimizer, OPTIMIZERS),
            ("decay", self.decay, DECAYS),
            ("activation", self.activation, models.ACTIVATIONS),
            ("initialization", self.initialization, models.INITIALIZATIONS),
            ("schedule_unit", self.schedule_unit, ("step", "epoch")),
            ("scale", self.scale, records.SCALES),
        ):
            require_one_of(name, value, valid)
        for name in ("epochs", "batch_size", "test_every", "learning_rate", "width"):
            require(name, getattr(self, name), above=0)
        for name in ("epochs", "batch_size", "test_every", "train_every", "validation_size", "subset"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name} must be a whole number; got {getattr(self, name)!r}")
        for name in ("loss",):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a text, such as 'gd' or 'arcface 20 0.1'; got {getattr(self, name)!r}")
        for name in ("linear_features", "classifier_bias", "match_gradient", "angles", "channels_last", "fused", "cuda_graph"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if self.model == "mlp" and (self.augmentation != "none" or self.channels_last):
            raise ValueError("augmentation and channels_last are for images; model='mlp' sees rows of numbers")
        for name in ("train_every", "validation_size", "subset", "momentum", "weight_decay", "max_grad_norm"):
            require(name, getattr(self, name), at_least=0)
        for name in ("hidden", "betas", "warmups", "temperatures", "seeds", "milestones"):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(f"{name} must be a list; got {getattr(self, name)!r}")
        for units in self.hidden:
            if not isinstance(units, int):
                raise ValueError(f"hidden must be whole numbers of units; got {units!r}")
        for name in ("hidden", "betas", "temperatures"):
            for value in getattr(self, name):
                require(name, value, above=0)
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
                require("warmups", part, above=0)
        require("label_noise", self.label_noise, at_least=0)
        if self.label_noise >= 1:
            raise ValueError(f"label_noise is a share of the samples, below 1; got {self.label_noise!r}")
        if self.decay != "milestones" and self.milestones:
            raise ValueError(f"milestones have no meaning with decay={self.decay!r}; leave them empty")
        if self.method is not None:
            self._check_method(self.method)
        if not self.runs():
            raise ValueError("there is nothing to train: give at least one seed, one temperature, and one β or warm-up")

    def _check_method(self, chosen: Method) -> None:
        """Refuse what goes with gradient decay only, and a last layer that the network cannot have."""
        if list(self.betas) != [1] or self.warmups or list(self.temperatures) != [1] or self.match_gradient:
            raise ValueError(
                f"β, τ, warm-ups and match_gradient are for loss='gd'; with {self.loss!r} set betas=[1], warmups=[] and temperatures=[1]"
            )
        if self.model == "mlp" and chosen.head not in models.MLP_HEADS:
            raise ValueError(f"loss={self.loss!r} needs a last layer of the kind {chosen.head!r}, which only image networks have")
        if self.cuda_graph and chosen.keeps_state:
            raise ValueError(
                f"loss={self.loss!r} remembers something from step to step, which a recorded step cannot: set cuda_graph=False"
            )

    @property
    def method(self) -> Method | None:
        """The loss, if it is not gradient decay."""
        return None if self.loss == "gd" else method(self.loss)

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
        return cls(**values_of(cls, namespace))

    def runs(self, steps_per_epoch: int = 1) -> list[Run]:
        """The members of the stack: for each seed, for each temperature, the constants and then the warm-ups."""
        schedules: list[tuple[Schedule, float]] = [(Constant(float(beta)), 0.0) for beta in self.betas]
        for start, end, epochs in self.warmups:
            schedules.append((LinearWarmup(float(start), float(end), epochs * steps_per_epoch), float(epochs)))
        return [
            Run(seed, float(temperature), schedule, str(schedule) if self.loss == "gd" else self.loss, epochs)
            for seed in self.seeds
            for temperature in self.temperatures
            for schedule, epochs in schedules
        ]

    def identity(self) -> str:
        """A short name for exactly these values; equal experiments have equal names."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if name != "scale"}
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
