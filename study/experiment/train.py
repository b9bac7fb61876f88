"""Training a stack of runs: ``train``, and the pages that are experiments."""

import copy
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from gdlib.schedules import ConfidenceFeedback, Constant, LinearWarmup, Schedule
from gdlib.train.step import PRECISIONS
from gdlib.train.update import LR_SCHEDULES
from study import data, networks
from study.experiment.base import Experiment
from study.experiment.types import (
    MOST_SAMPLES,
    MOST_TIMES,
    Activation,
    AList,
    Augmentation,
    BatchSize,
    Betas,
    ChannelsLast,
    Dataset,
    Device,
    Distinct,
    Epochs,
    Feedback,
    Hidden,
    Initialization,
    LearningRate,
    LinearFeatures,
    LossOfStack,
    Momentum,
    OneOf,
    Optimizer,
    Scale,
    Seeds,
    Share,
    Stem,
    TestEvery,
    ValidationSize,
    Warmups,
    WeightDecay,
    Width,
    check_head,
    check_number_of_runs,
)
from study.losses import NotNegative, Positive, parse

# Descriptions that would not fit on the line of their parameter.
_NORMALIZATION = (
    "of the inputs: unit ([0, 1]), standard (mean 0, deviation 1), "
    "channel (the same for each colour) or none"
)
IMBALANCE = (
    "size of the first class over that of the last, "
    "the sizes between them falling exponentially; 1 for all samples"
)
_LABELS = "whose labels CIFAR-10's training images have: the data set's, or people's"
_LOSS = (
    'gd, with the β below; or another loss with its numbers, such as "arcface 20 0.1", '
    "with betas [1] and no warm-ups"
)
_LOSS_OF_LM = (
    "softmax, hinge, modified, or a loss with its strength: lm, lm-qu, lm-uq, modified-lm or "
    "label-smoothing"
)
_FEEDBACK = (
    "β that follows held-out confidence minus accuracy, "
    "as [start, proportional gain, integral gain]"
)
_LR_SCHEDULE = "how the learning rate falls: milestones, exponential (to a thousandth) or one-cycle"
_MILESTONES = "shares of the epochs after which the learning rate falls to a tenth"
_BOTH = (
    "epochs between two evaluations on the training set too, after the first ten; 0: the last only"
)


@dataclass(frozen=True)
class Run:
    """One member of a stack.

    Its label is the schedule in words, or the name of a loss other than gradient decay.

    ``warmup_epochs`` is over how many epochs β changes, 0 for a constant one.
    """

    seed: int
    temperature: float
    schedule: Schedule
    label: str
    warmup_epochs: float

    @property
    def beta(self) -> float:
        """β at the end; with feedback, whose end is measured, at the start."""
        if isinstance(self.schedule, ConfidenceFeedback):
            return self.schedule.start
        return self.schedule(math.inf)

    def values(self) -> dict[str, Any]:
        """List by what a record knows the run."""
        values: dict[str, Any] = {
            "schedule": self.label,
            "beta": self.beta,
            "warmup_epochs": self.warmup_epochs,
        }
        if isinstance(self.schedule, LinearWarmup | ConfidenceFeedback):
            values["warmup_start"] = self.schedule.start
            values["warmup_end"] = self.beta
        return values | {"temperature": self.temperature, "seed": self.seed}


class Train(Experiment):
    """A stack of runs; the notebook ``train``.

    It has one run for each seed, each temperature and each schedule (constants and warm-ups).

    Runs that share a seed share the initialisation and the batch order, so that β is compared on
    common random numbers.

    Example:
        >>> experiment = Train(betas=[1, 0.1], warmups=[[0.01, 0.1, 5]], seeds=[0, 1])
        >>> [(run.seed, run.label) for run in experiment.runs()][:3]
        [(0, '1'), (0, '0.1'), (0, 'warm-up 0.01→0.1')]
        >>> Train(activation="rely")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: activation: Input should be 'relu', 'tanh' or 'sigmoid'; ...did you mean 'relu'?
    """

    notebook: ClassVar[str] = "train"

    dataset: Annotated[Dataset, Field(description="name of the data set")] = "digits"
    normalization: Annotated[str, OneOf(data.NORMALIZATIONS), Field(description=_NORMALIZATION)] = (
        "unit"
    )
    input_scale: Annotated[
        Positive,
        Field(le=1e6, description="factor for the normalised inputs of the perceptron"),
    ] = 1.0
    validation_size: ValidationSize = 0
    subset: Annotated[
        int,
        Field(
            ge=0,
            le=MOST_SAMPLES,
            description="training samples kept, as many of each class; 0 for all",
        ),
    ] = 0
    imbalance: Annotated[float, Field(ge=1, le=1e6, description=IMBALANCE)] = 1.0
    label_noise: Annotated[
        NotNegative, Field(lt=1, description="share of the training samples that get a wrong label")
    ] = 0.0
    labels: Annotated[str, OneOf(data.LABELS), Field(description=_LABELS)] = data.CLEAN
    augmentation: Annotated[Augmentation, Field(description="of training images")] = "none"
    model: Annotated[
        str,
        OneOf(("mlp", *networks.IMAGE_NETWORKS)),
        Field(description="a perceptron, or an image network"),
    ] = "mlp"
    width: Width = 1.0
    stem: Stem = "cifar"
    hidden: Hidden = (50, 20)
    activation: Activation = "relu"
    initialization: Initialization = "pytorch"
    first_weights: Annotated[
        Positive,
        Field(le=1e6, description="factor for the initial weights of the perceptron's first layer"),
    ] = 1.0
    linear_features: LinearFeatures = False
    loss: Annotated[LossOfStack, Field(description=_LOSS)] = "gd"
    classifier_bias: Annotated[
        bool, Field(description="of the last layer, with a loss other than gd")
    ] = True
    betas: Betas = (5.0, 1.0, 0.1, 0.01)
    warmups: Warmups = ((0.01, 0.1, 10.0),)
    feedbacks: Annotated[tuple[Feedback, ...], AList, Distinct, Field(description=_FEEDBACK)] = ()
    schedule_unit: Annotated[
        str, OneOf(("step", "epoch")), Field(description="a warm-up changes β every")
    ] = "step"
    temperatures: Annotated[
        tuple[Positive, ...], AList, Distinct, Field(description="values of τ")
    ] = (1.0,)
    seeds: Seeds = (0, 1)
    epochs: Epochs = 20
    batch_size: BatchSize = 100
    optimizer: Optimizer = "sgd"
    learning_rate: LearningRate = 0.1
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 1e-4
    lr_schedule: Annotated[str, OneOf(LR_SCHEDULES), Field(description=_LR_SCHEDULE)] = "milestones"
    milestones: Annotated[tuple[Share, ...], AList, Distinct, Field(description=_MILESTONES)] = ()
    max_grad_norm: Annotated[
        NotNegative, Field(description="limit for the gradient norm of a run; 0 for none")
    ] = 0.0
    match_gradient: Annotated[
        bool, Field(description="a learning rate matched to β in every step")
    ] = False
    device: Device = "cpu"
    precision: Annotated[
        str, OneOf(PRECISIONS), Field(description="of the forward and backward pass")
    ] = "float32"
    channels_last: ChannelsLast = False
    fused: Annotated[bool, Field(description="update all parameters in one kernel")] = False
    cuda_graph: Annotated[bool, Field(description="record a step on the GPU and replay it")] = False
    angles: Annotated[
        bool,
        Field(description="measure the angles between features, class centres and class vectors"),
    ] = False
    test_every: TestEvery = 1
    train_every: Annotated[int, Field(ge=0, le=MOST_TIMES, description=_BOTH)] = 5
    scale: Scale = "smoke"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.model == "mlp" and (self.augmentation != "none" or self.channels_last):
            raise ValueError(
                "augmentation and channels_last are for images; model='mlp' sees rows of numbers"
            )
        if self.model != "mlp" and (self.input_scale != 1 or self.first_weights != 1):
            raise ValueError(
                "input_scale and first_weights are for model='mlp'; image networks normalise their "
                "channels"
            )
        if self.labels != data.CLEAN and (self.dataset != "cifar10" or self.label_noise):
            raise ValueError(
                f"labels={self.labels!r} are people's, of dataset='cifar10', and some of them are"
                " wrong already: take that data set, and label_noise=0"
            )
        if self.subset and self.imbalance != 1:
            raise ValueError(
                "a subset is balanced, or has a long tail: set subset=0 or imbalance=1"
            )
        if self.lr_schedule != "milestones" and self.milestones:
            raise ValueError(
                f"milestones have no meaning with lr_schedule={self.lr_schedule!r}; leave them "
                f"empty"
            )
        if self.feedbacks and not self.validation_size:
            raise ValueError(
                "feedbacks read confidence and accuracy on the validation split: set "
                "validation_size"
            )
        schedules = len(self.betas) + len(self.warmups) + len(self.feedbacks)
        check_number_of_runs(len(self.seeds) * len(self.temperatures) * schedules)
        if not self.runs():
            raise ValueError(
                "there is nothing to train: give at least one seed, one temperature, and one β or "
                "warm-up"
            )
        if self.loss != "gd":
            self._check_other_loss()
        return self

    def _check_other_loss(self) -> None:
        """Refuse what means nothing with a loss other than gradient decay."""
        plain = (*self.betas, *self.temperatures, self.first_weights) == (1.0, 1.0, 1.0)
        if not plain or self.warmups or self.feedbacks or self.match_gradient:
            only = "β, τ, warm-ups, feedbacks, match_gradient and first_weights"
            raise ValueError(
                f"{only} are for loss='gd'; with {self.loss!r} set betas=[1] and leave the others"
            )
        if self.model == "mlp":
            check_head(self.loss)
        if self.cuda_graph and parse(self.loss).kind.keeps_state:
            raise ValueError(
                f"loss={self.loss!r} remembers something from step to step: a step cannot be "
                f"recorded, set cuda_graph=False"
            )

    def runs(self, steps_per_epoch: int = 1) -> list[Run]:
        """List the members of the stack.

        There are, for each seed and each temperature, the constants, the warm-ups, and those with
        feedback.
        """
        schedules: list[tuple[Schedule, float]] = [(Constant(beta), 0.0) for beta in self.betas]
        schedules += [
            (LinearWarmup(start, end, epochs * steps_per_epoch), epochs)
            for start, end, epochs in self.warmups
        ]
        schedules += [
            (ConfidenceFeedback(*numbers), float(self.epochs)) for numbers in self.feedbacks
        ]
        return [
            Run(
                seed=seed,
                temperature=temperature,
                schedule=copy.copy(schedule),
                label=str(schedule) if self.loss == "gd" else self.loss,
                warmup_epochs=epochs,
            )
            for seed in self.seeds
            for temperature in self.temperatures
            for schedule, epochs in schedules
        ]

    def planned(self) -> list[dict[str, Any]]:
        """List the values of each run."""
        return [run.values() for run in self.runs()]


class Mnist(Train):
    """The perceptrons of the page ``mnist``."""

    notebook: ClassVar[str] = "mnist"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {
        *("dataset", "normalization", "activation", "betas", "warmups", "seeds"),
        *("epochs", "batch_size", "learning_rate"),
    }

    seeds: Seeds = (0, 1, 2)
    scale: Scale = "paper"


class Cifar(Train):
    """The image networks of the page ``cifar``.

    The rest of a training follows from its network: the small one has one cycle of the learning
    rate, every other network the recipe of GD-2 section A.1.

    Example:
        >>> Cifar(model="resnet18", augmentation="crop-flip").milestones
        (0.5, 0.75)
    """

    notebook: ClassVar[str] = "cifar"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {
        *("dataset", "augmentation", "model", "width", "betas", "warmups", "seeds"),
        *("epochs", "learning_rate", "device"),
    }

    model: Annotated[
        str, OneOf(tuple(networks.IMAGE_NETWORKS)), Field(description="an image network")
    ] = "fast"
    width: Width = 0.125
    betas: Betas = (20.0, 1.0, 0.1)
    warmups: Warmups = ((0.1, 1.0, 2.0),)
    epochs: Epochs = 4
    learning_rate: LearningRate = 0.05

    @model_validator(mode="before")
    @classmethod
    def _what_follows(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Fill in what the page does not ask for."""
        small = values.get("model", "fast") == "fast"
        embedded = values.get("dataset", "digits") == "digits"
        on_gpu = values.get("device", "cpu") != "cpu"
        follows = {
            "normalization": "channel",
            "validation_size": 200 if embedded else 5000,
            "weight_decay": 5e-4 if small else 1e-4,
            "lr_schedule": "one-cycle" if small else "milestones",
            "milestones": () if small else (0.5, 0.75),
            "max_grad_norm": 0.0 if small else 3.0,
            "precision": "bfloat16" if on_gpu else "float32",
            "channels_last": True,
            "fused": on_gpu,
            "cuda_graph": on_gpu,
            "train_every": 0,
            "scale": "smoke" if embedded else "reduced",
        }
        return follows | values


class LargeMargin(Cifar):
    """The losses of the page ``large-margin``, one a job."""

    notebook: ClassVar[str] = "large-margin"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {
        *("dataset", "augmentation", "model", "width", "loss", "seeds"),
        *("epochs", "learning_rate", "device"),
    }

    loss: Annotated[LossOfStack, Field(description=_LOSS_OF_LM)] = "lm 0.3"
    betas: Betas = (1.0,)
    warmups: Warmups = ()

    @model_validator(mode="before")
    @classmethod
    def _of_every_epoch(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Measure the training set after every epoch; LM has its own learning rates."""
        of_lm = values.get("model", "fast") != "fast"
        lm = {"lr_schedule": "exponential", "milestones": (), "max_grad_norm": 0.0}
        return {"train_every": 1, **(lm | {"batch_size": 128} if of_lm else {})} | values


class HowSure(Train):
    """The perceptrons of the page ``how-sure``."""

    notebook: ClassVar[str] = "how-sure"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {
        *("dataset", "normalization", "activation", "betas", "seeds"),
        *("epochs", "batch_size", "learning_rate", "validation_size"),
    }

    betas: Betas = (20.0, 5.0, 1.0, 0.1, 0.01)
    warmups: Warmups = ()
    seeds: Seeds = (0, 1, 2)
    validation_size: Annotated[
        int, Field(ge=1, le=MOST_SAMPLES, description="training samples held out")
    ] = 200
    epochs: Epochs = 40
    scale: Scale = "paper"


class Samples(Train):
    """Perceptrons in which single samples are followed: the page ``samples``."""

    notebook: ClassVar[str] = "samples"
    fixed: ClassVar[frozenset[str]] = frozenset({*Train.model_fields, "followed"}) - {
        *("dataset", "hidden", "activation", "betas", "seeds"),
        *("epochs", "batch_size", "learning_rate", "momentum", "weight_decay"),
    }

    betas: Betas = (2.0, 1.0, 0.1, 0.01)
    warmups: Warmups = ()
    seeds: Seeds = (0, 1, 2)
    scale: Scale = "paper"
    followed: Annotated[
        int,
        Field(
            ge=5,
            le=MOST_SAMPLES,
            description="training samples whose confidence is followed, drawn with seed 0",
        ),
    ] = 10_000


class FeaturePlane(Train):
    """Perceptrons with features that can be drawn: the page ``feature-plane``."""

    notebook: ClassVar[str] = "feature-plane"
    fixed: ClassVar[frozenset[str]] = frozenset({*Train.model_fields, "drawn"}) - {
        *("dataset", "activation", "betas", "seeds", "epochs", "batch_size", "learning_rate"),
    }

    hidden: Hidden = (50, 20, 2)
    linear_features: LinearFeatures = True
    betas: Betas = (5.0, 1.0, 0.2, 0.1, 0.01)
    warmups: Warmups = ()
    epochs: Epochs = 60
    learning_rate: LearningRate = 0.02
    scale: Scale = "reduced"
    drawn: Annotated[
        int,
        Field(
            ge=0,
            le=MOST_SAMPLES,
            description="test samples whose features are kept for the figure",
        ),
    ] = 400


class Temperature(Train):
    """Perceptrons trained with a β and a temperature: the page ``temperature``."""

    notebook: ClassVar[str] = "temperature"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {
        *("dataset", "activation", "validation_size", "betas", "temperatures", "seeds"),
        *("epochs", "batch_size", "learning_rate"),
    }

    validation_size: ValidationSize = 200
    betas: Betas = (1.0, 0.1, 0.01)
    warmups: Warmups = ()
    temperatures: Annotated[
        tuple[Positive, ...], AList, Distinct, Field(description="values of τ")
    ] = (0.5, 1.0, 2.0)
    scale: Scale = "reduced"


class LearningRates(Train):
    """Perceptrons at one of several learning rates: the page ``learning-rate``."""

    notebook: ClassVar[str] = "learning-rate"
    fixed: ClassVar[frozenset[str]] = frozenset(Train.model_fields) - {
        *("dataset", "activation", "validation_size", "betas", "seeds"),
        *("epochs", "batch_size", "learning_rate"),
    }

    validation_size: ValidationSize = 200
    warmups: Warmups = ()
    seeds: Seeds = (0, 1, 2)
    scale: Scale = "reduced"
