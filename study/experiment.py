"""Experiments: the one place that names, types, bounds and describes each parameter.

The same models check campaigns and give the notebooks' parameter cells (:meth:`Experiment.cell`)
and the book's table (:meth:`Experiment.table`).
"""

import copy
import difflib
import hashlib
import json
import math
import re
import textwrap
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from gdlib import models
from gdlib.schedules import ConfidenceFeedback, Constant, LinearWarmup, Schedule
from gdlib.train import LR_SCHEDULES, OPTIMIZERS, PRECISIONS
from study import data, records
from study.data import augmentation
from study.losses import NotNegative, Positive, parse

PLACES = {
    "record": "file to write the record to; empty for none",
    "checkpoint_dir": "folder for the checkpoint by which an interrupted run goes on; "
    "empty for none",
}
"""The parameters of every notebook that say where something is written, not what is measured."""

_SEEDS = 2**31  # how many there are: what the batch order takes
_ITEMS = 2**12  # of a list, at most
_COLUMNS = 100  # of a line of a notebook
_RUNS = 10_000  # of a job, at most
_SAMPLES = 2**27  # of a data set, at most
_TIMES = 2**20  # an epoch, a step or a repetition, at most


@dataclass(frozen=True)
class OneOf:
    """The type of a text that is one of these names."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.literal_schema(list(self.names))


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise ValueError(f"{value!r} stands in it twice")
    return values


def _limit(runs: int) -> None:
    """Refuse more runs than any job trains, before they are listed."""
    if runs > _RUNS:
        raise ValueError(f"a job has at most {_RUNS:,} runs, and these would be {runs:,}")


def _loss(text: str) -> str:
    parse(text)
    return text


def _check_head(loss: str) -> None:
    if (head := parse(loss).kind.head) not in models.MLP_HEADS:
        raise ValueError(
            f"loss={loss!r} needs a last layer of the kind {head!r}, which only image networks have"
        )


# Types with their bounds. A list may come as a tuple or as a list; every other value must have its
# type already.
Count = Annotated[int, Field(gt=0)]
AList = Field(strict=False, max_length=_ITEMS)
Distinct = AfterValidator(_distinct)
Loss = Annotated[str, Field(max_length=100), AfterValidator(_loss)]
LossOfStack = Annotated[
    str, Field(max_length=100), AfterValidator(lambda text: text if text == "gd" else _loss(text))
]
_Warmup = Annotated[tuple[Positive, Positive, Positive], Field(strict=False)]
_Feedback = Annotated[tuple[Positive, NotNegative, NotNegative], Field(strict=False)]
_Dataset = Annotated[str, OneOf(tuple(data.names()))]
_Table = Annotated[str, OneOf(tuple(data.table_names()))]
_Network = Annotated[str, OneOf(tuple(models.IMAGE_NETWORKS))]
_Augmentation = Annotated[str, OneOf(tuple(augmentation.PADDING))]
_Share = Annotated[float, Field(gt=0, lt=1)]
_Seed = Annotated[int, Field(ge=0, lt=_SEEDS)]

# Parameters that several models have.
Width = Annotated[Positive, Field(le=64, description="factor for the channels of an image network")]
Stem = Annotated[str, OneOf(models.STEMS), Field(description="how an image network begins")]
Hidden = Annotated[
    tuple[Annotated[Count, Field(le=2**16)], ...],
    AList,
    Field(max_length=200, description="units of the hidden layers of the perceptron"),
]
Activation = Annotated[str, OneOf(models.ACTIVATIONS), Field(description="of the hidden layers")]
Initialization = Annotated[
    str, OneOf(models.INITIALIZATIONS), Field(description="of the weights of the perceptron")
]
LinearFeatures = Annotated[bool, Field(description="no activation after the last hidden layer")]
Betas = Annotated[
    tuple[Positive, ...], AList, Distinct, Field(description="constant gradient-decay factors")
]
Warmups = Annotated[
    tuple[_Warmup, ...], AList, Distinct, Field(description="warm-ups of β as [start, end, epochs]")
]
Seeds = Annotated[
    tuple[_Seed, ...], AList, Distinct, Field(description="seeds of initialisation and batch order")
]
Epochs = Annotated[int, Field(gt=0, lt=2**20, description="passes over the training data")]
BatchSize = Annotated[Count, Field(le=2**20, description="samples in a step")]
Optimizer = Annotated[str, OneOf(OPTIMIZERS), Field(description="of the loss")]
LearningRate = Annotated[Positive, Field(le=1000, description="of the optimizer")]
Momentum = Annotated[
    NotNegative,
    Field(lt=1, description="heavy-ball momentum of SGD, first decay rate of Adam"),
]
WeightDecay = Annotated[NotNegative, Field(le=1000, description="coefficient of the L2 penalty")]
TestEvery = Annotated[
    Count,
    Field(
        le=_TIMES, description="epochs between two evaluations; the last epoch is always evaluated"
    ),
]
Device = Annotated[
    str, OneOf(("cpu", "cuda", "auto")), Field(description="auto is a GPU where there is one")
]
ChannelsLast = Annotated[bool, Field(description="memory format of images and convolutions")]
Scale = Annotated[
    str, OneOf(records.SCALES), Field(description="how the experiment relates to the paper's")
]
# Descriptions that would not fit on the line of their parameter.
_NORMALIZATION = (
    "of the inputs: unit ([0, 1]), standard (mean 0, deviation 1), "
    "channel (the same for each colour) or none"
)
_IMBALANCE = (
    "size of the first class over that of the last, "
    "the sizes between them falling exponentially; 1 for all samples"
)
_LABELS = "whose labels CIFAR-10's training images have: the data set's, or people's"
_LR_SCHEDULE = "how the learning rate falls: milestones, exponential (to a thousandth) or one-cycle"
_MILESTONES = "shares of the epochs after which the learning rate falls to a tenth"
_BOTH = (
    "epochs between two evaluations on the training set too, after the first ten; 0: the last only"
)
_FITTED = "of the features, fitted on the training part: as in the notebook train"
_NOMINAL = "nominal features: codes (as in the file), or one-hot (a feature for each category)"
_FEEDBACK = (
    "β that follows held-out confidence minus accuracy, "
    "as [start, proportional gain, integral gain]"
)
_LOSS = (
    'gd, with the β below; or another loss with its numbers, such as "arcface 20 0.1", '
    "with betas [1] and no warm-ups"
)


class Experiment(BaseModel):
    """The flat values that a notebook's parameters set.

    The error for a wrong one names the parameter, the bound and what was given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    notebook: ClassVar[str]
    """Name of the notebook."""
    fixed: ClassVar[frozenset[str]] = frozenset()
    """Fields that the notebook does not offer."""

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(explanation(error, type(self).parameters())) from None

    @classmethod
    def parameters(cls) -> list[str]:
        """Name the notebook's parameters but :data:`PLACES`."""
        return [name for name in cls.model_fields if name not in cls.fixed]

    @classmethod
    def from_parameters(cls, namespace: Mapping[str, Any]) -> Self:
        """Pick the values, by name, out of a notebook's namespace.

        ``Train.from_parameters(globals())``.

        A list may also come as papermill's ``-p`` delivers it from a command line: as text, ``-p
        betas "[1, 0.1]"``, or, for a list of one, as a number or a word, ``-p betas 0.1``.

        Example:
            >>> train = Train.from_parameters({"betas": "[1, 0.1]", "seeds": 3, "unrelated": 0})
            >>> train.betas, train.seeds
            ((1.0, 0.1), (3,))
        """
        values = {name: namespace[name] for name in cls.parameters() if name in namespace}
        for name, value in values.items():
            if (
                isinstance(cls.model_fields[name].default, tuple)
                and isinstance(value, str | int | float)
                and not isinstance(value, bool)
            ):
                try:
                    values[name] = json.loads(value) if isinstance(value, str) else [value]
                except ValueError:
                    values[name] = [value]
        return cls(**values)

    @classmethod
    def table(cls) -> list[dict[str, str]]:
        """Describe each parameter.

        A row with ``name``, ``type``, ``default``, ``bounds`` and ``description``.

        Example:
            >>> rows = Train.table()
            >>> [row for row in rows if row["name"] == "betas"]  # doctest: +NORMALIZE_WHITESPACE
            [{'name': 'betas', 'type': 'list[float]',
              'default': '[5.0, 1.0, 0.1, 0.01]', 'bounds': 'each > 0',
              'description': 'constant gradient-decay factors'}]
        """
        rows, schemas = [], cls.model_json_schema()["properties"]
        for name, schema in ((name, schemas[name]) for name in cls.parameters()):
            (kind, bounds), default = _described(schema), repr(schema["default"]).replace("'", '"')
            rows.append(
                {
                    "name": name,
                    "type": kind,
                    "default": default,
                    "bounds": bounds,
                    "description": schema["description"],
                }
            )
        return rows

    @classmethod
    def cell(cls) -> str:
        """Write the notebook's parameter cell; what would not fit on a line stands above it."""
        lines = []
        for row in cls.table():
            names = []
            if row["bounds"].startswith("one of "):
                names = row["bounds"].removeprefix("one of ").split(", ")
            listed = len(names) > 12 or all(name in row["description"] for name in names)
            choice = "" if listed else f": {', '.join(names[:-1])} or {names[-1]}"
            value = f"{row['name']}: {row['type']} = {row['default']}"
            lines += _commented(value, row["description"] + choice)
        for name, description in PLACES.items():
            lines += _commented(f'{name}: str = ""', description)
        return "\n".join(lines)

    @abstractmethod
    def planned(self) -> list[dict[str, Any]]:
        """List by which values the record knows each of its runs, in its order."""

    @property
    def trainings(self) -> int:
        """Count the networks that are trained."""
        return len(self.planned())

    def identity(self) -> str:
        """Make a short name for exactly these values; equal settings have equal names."""
        values = [self.notebook, self.model_dump(exclude={"scale"})]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


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
        return (
            self.schedule.start
            if isinstance(self.schedule, ConfidenceFeedback)
            else self.schedule(math.inf)
        )

    def values(self) -> dict[str, Any]:
        """List by what a record knows the run."""
        start = getattr(self.schedule, "start", self.beta)
        ends = {"warmup_start": start, "warmup_end": self.beta} if self.warmup_epochs else {}
        own = {"temperature": self.temperature, "seed": self.seed}
        return {
            "schedule": self.label,
            "beta": self.beta,
            "warmup_epochs": self.warmup_epochs,
            **ends,
            **own,
        }


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

    dataset: Annotated[_Dataset, Field(description="name of the data set")] = "digits"
    normalization: Annotated[str, OneOf(data.NORMALIZATIONS), Field(description=_NORMALIZATION)] = (
        "unit"
    )
    input_scale: Annotated[
        Positive,
        Field(le=1e6, description="factor for the normalised inputs of the perceptron"),
    ] = 1.0
    validation_size: Annotated[
        int, Field(ge=0, le=_SAMPLES, description="training samples held out")
    ] = 0
    subset: Annotated[
        int,
        Field(
            ge=0, le=_SAMPLES, description="training samples kept, as many of each class; 0 for all"
        ),
    ] = 0
    imbalance: Annotated[float, Field(ge=1, le=1e6, description=_IMBALANCE)] = 1.0
    label_noise: Annotated[
        NotNegative, Field(lt=1, description="share of the training samples that get a wrong label")
    ] = 0.0
    labels: Annotated[str, OneOf(data.LABELS), Field(description=_LABELS)] = data.CLEAN
    augmentation: Annotated[_Augmentation, Field(description="of training images")] = "none"
    model: Annotated[
        str,
        OneOf(("mlp", *models.IMAGE_NETWORKS)),
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
    feedbacks: Annotated[tuple[_Feedback, ...], AList, Distinct, Field(description=_FEEDBACK)] = ()
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
    milestones: Annotated[tuple[_Share, ...], AList, Distinct, Field(description=_MILESTONES)] = ()
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
    train_every: Annotated[int, Field(ge=0, le=_TIMES, description=_BOTH)] = 5
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
        of_seed = len(self.betas) + len(self.warmups) + len(self.feedbacks)
        _limit(len(self.seeds) * len(self.temperatures) * of_seed)
        if not self.runs():
            raise ValueError(
                "there is nothing to train: give at least one seed, one temperature, and one β or "
                "warm-up"
            )
        if self.loss == "gd":
            return self
        plain = (*self.betas, *self.temperatures, self.first_weights) == (1.0, 1.0, 1.0)
        if not plain or self.warmups or self.feedbacks or self.match_gradient:
            only = "β, τ, warm-ups, feedbacks, match_gradient and first_weights"
            raise ValueError(
                f"{only} are for loss='gd'; with {self.loss!r} set betas=[1] and leave the others"
            )
        if self.model == "mlp":
            _check_head(self.loss)
        if self.cuda_graph and parse(self.loss).kind.keeps_state:
            raise ValueError(
                f"loss={self.loss!r} remembers something from step to step: a step cannot be "
                f"recorded, set cuda_graph=False"
            )
        return self

    def runs(self, steps_per_epoch: int = 1) -> list[Run]:
        """List the members of the stack.

        For each seed, for each temperature, the constants, the warm-ups, and those with feedback.
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
                seed,
                temperature,
                copy.copy(schedule),
                str(schedule) if self.loss == "gd" else self.loss,
                epochs,
            )
            for seed in self.seeds
            for temperature in self.temperatures
            for schedule, epochs in schedules
        ]

    def planned(self) -> list[dict[str, Any]]:
        """List the values of each run."""
        return [run.values() for run in self.runs()]


_IMAGES_AND_DEVICES = frozenset(
    [
        "subset",
        "imbalance",
        "label_noise",
        "augmentation",
        "model",
        "width",
        "stem",
        "loss",
        "classifier_bias",
        "optimizer",
        "lr_schedule",
    ]
    + [
        "match_gradient",
        "device",
        "precision",
        "channels_last",
        "fused",
        "cuda_graph",
        "angles",
        "test_every",
    ]
    + ["input_scale", "first_weights", "feedbacks"]
)


class Curriculum(Train):
    """A stack in which single samples are followed: the notebook ``curriculum``."""

    notebook: ClassVar[str] = "curriculum"
    fixed: ClassVar[frozenset[str]] = _IMAGES_AND_DEVICES

    betas: Betas = (2.0, 1.0, 0.1, 0.01)
    warmups: Warmups = ()
    followed: Annotated[
        int,
        Field(
            ge=5,
            le=_SAMPLES,
            description="training samples whose confidence is followed, drawn with seed 0",
        ),
    ] = 1000


class FeaturePlane(Train):
    """A stack with features that can be drawn: the notebook ``feature-plane``."""

    notebook: ClassVar[str] = "feature-plane"
    fixed: ClassVar[frozenset[str]] = _IMAGES_AND_DEVICES

    hidden: Hidden = (50, 20, 2)
    linear_features: LinearFeatures = True
    betas: Betas = (5.0, 1.0, 0.2, 0.1, 0.01)
    warmups: Warmups = ()
    epochs: Epochs = 60
    learning_rate: LearningRate = 0.02
    drawn: Annotated[
        int,
        Field(
            ge=0,
            le=_SAMPLES,
            description="test samples whose features are kept for the figure",
        ),
    ] = 400


class CrossValidation(Experiment):
    """A repeated cross-validation on tables: the notebook ``cross-validation``.

    A seed is a whole cross-validation: a random partition into folds, and one training for each
    fold that is left out.
    """

    notebook: ClassVar[str] = "cross-validation"

    datasets: Annotated[
        tuple[_Table, ...], AList, Field(min_length=1, description="names of tables"), Distinct
    ] = ("iris",)
    loss: Annotated[
        Loss, Field(description='with its numbers, such as "arcface 20 0.1" or "gd 0.1"')
    ] = "softmax"
    normalization: Annotated[
        str, OneOf(("standard", "unit", "none")), Field(description=_FITTED)
    ] = "standard"
    categorical: Annotated[str, OneOf(("codes", "one-hot")), Field(description=_NOMINAL)] = "codes"
    folds: Annotated[int, Field(ge=2, le=1000, description="number of folds")] = 10
    stratified: Annotated[
        bool, Field(description="keep the shares of the classes in every fold")
    ] = True
    duplicates_together: Annotated[bool, Field(description="keep equal rows in one fold")] = False
    hidden: Annotated[Hidden, Field(min_length=1)] = (16, 16)
    activation: Activation = "relu"
    initialization: Initialization = "pytorch"
    linear_features: LinearFeatures = False
    seeds: Annotated[
        Seeds,
        Field(
            min_length=1,
            description="one for each repetition: partition, initialisation and batch order",
        ),
    ] = (0, 1)
    epochs: Epochs = 20
    batch_size: BatchSize = 16
    optimizer: Optimizer = "sgd"
    learning_rate: LearningRate = 0.1
    momentum: Momentum = 0.9
    weight_decay: WeightDecay = 0.0
    test_every: TestEvery = 10
    scale: Scale = "smoke"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _limit(len(self.seeds) * len(self.datasets))
        if (highest := max(self.seeds)) >= _SEEDS // self.folds:
            raise ValueError(
                f"with {self.folds} folds seeds are integers from 0 to {_SEEDS // self.folds - 1}; "
                f"got {highest}"
            )
        _check_head(self.loss)
        return self

    def planned(self) -> list[dict[str, Any]]:
        """List by which values the record knows each of its runs.

        A run holds all folds of a seed.
        """
        return [{"dataset": name, "seed": seed} for name in self.datasets for seed in self.seeds]

    @property
    def trainings(self) -> int:
        """Count the networks that are trained."""
        return len(self.planned()) * self.folds


class StepCost(Experiment):
    """The time of a training step with one loss and with another, by turns.

    The images are random, of 3 × 32 × 32. It is the experiment of the notebook ``cost``.
    """

    notebook: ClassVar[str] = "cost"

    models: Annotated[
        tuple[_Network, ...], AList, Field(min_length=1, description="image networks"), Distinct
    ] = ("resnet18",)
    losses: Annotated[
        tuple[Loss, ...],
        AList,
        Field(
            min_length=1, description="losses with their numbers, as the notebook train has them"
        ),
        Distinct,
    ] = ("softmax", "arcgrad 10")
    width: Width = 0.125
    stem: Stem = "cifar"
    classes: Annotated[int, Field(ge=2, le=100_000, description="number of classes")] = 10
    batch_size: BatchSize = 8
    steps: Annotated[
        Count, Field(le=_TIMES, description="in a repetition, for each network and loss")
    ] = 2
    repetitions: Annotated[
        Count, Field(le=_RUNS, description="how often everything is measured")
    ] = 3
    first: Annotated[
        int,
        Field(
            ge=0,
            le=_TIMES,
            description="number of the first repetition, "
            "for a measurement that adds to an earlier one",
        ),
    ] = 0
    learning_rate: Annotated[Positive, Field(le=1000, description="of Adam")] = 0.001
    channels_last: ChannelsLast = False
    device: Device = "cpu"
    scale: Scale = "smoke"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _limit(len(self.models) * len(self.losses) * self.repetitions)
        return self

    def planned(self) -> list[dict[str, Any]]:
        """List by which values the record knows each of its runs.

        Network, loss, and repetition as the seed.
        """
        repetitions = range(self.first, self.first + self.repetitions)
        return [
            {"model": name, "loss": loss, "seed": seed}
            for name in self.models
            for seed in repetitions
            for loss in self.losses
        ]


def _commented(value: str, comment: str) -> list[str]:
    """Write a comment behind a value, or above it where the line would be too long."""
    line = f"{value}  # {comment}"
    if len(line) <= _COLUMNS:
        return [line]
    return [*(f"# {part}" for part in textwrap.wrap(comment, _COLUMNS - 2)), value]


EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.notebook: kind for kind in (Train, Curriculum, FeaturePlane, CrossValidation, StepCost)
}
"""What the parameters of each notebook of ``notebooks/experiments`` describe."""


def nearest(name: object, valid: Iterable[str]) -> str:
    """Hint at the name that may have been meant; empty if none is near."""
    near = difflib.get_close_matches(str(name), list(valid), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def explanation(error: ValidationError, valid: Sequence[str], *, word: str = "parameter") -> str:
    """Say in one line what is wrong with the first wrong value.

    Its name, of those that are valid, what it must be, what was given.
    """
    first = error.errors(include_url=False)[0]
    (name, *at), given = first["loc"] or ("",), first["input"]
    message = first["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
    if name and name not in valid:
        hint = nearest(name, valid) or "."
        return f"there is no {word} {name!r}{hint} The valid names are: {', '.join(valid)}"
    if first["type"] == "value_error":
        return f"{name}: {message}" if name else message
    if first["type"] == "missing" and not at:
        return f"the key {name!r} is missing"
    shown = repr(given) if len(repr(given)) <= 100 else f"{repr(given)[:100]}..."
    where = (
        "".join([str(name), *(f"[{index}]" for index in at)])
        or f"expected a mapping with the {word}s {', '.join(valid)}"
    )
    hint = (
        nearest(given, re.findall("'([^']+)'", message))
        if first["type"] == "literal_error"
        else f" ({type(given).__name__})"
    )
    return f"{where}: {message}; got {shown}{hint}"


def _described(schema: Mapping[str, Any]) -> tuple[str, str]:
    """Name the type as a parameter cell does, and say what a value must be beside it."""
    if items := next(iter(schema.get("prefixItems", [])), schema.get("items")):
        kind, bounds = _described(items)
        return f"list[{kind}]", f"each {bounds}"
    kind = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}[schema["type"]]
    if "enum" in schema:
        return kind, f"one of {', '.join(schema['enum'])}"
    signs = {
        "exclusiveMinimum": ">",
        "minimum": ">=",
        "exclusiveMaximum": "<",
        "maximum": "<=",
        "maxLength": "letters <=",
    }
    return kind, " and ".join(
        f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema
    ) or "True or False"
