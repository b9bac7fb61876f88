"""The types of parameters, with their bounds."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from gdlib import models
from gdlib.train.update import OPTIMIZERS
from study import data, networks, records
from study.data import augmentation
from study.losses import NotNegative, Positive, parse

SEEDS = 2**31  # how many there are: what the batch order takes
MOST_ITEMS = 2**12  # of a list
MOST_RUNS = 10_000  # of a job
MOST_SAMPLES = 2**27  # of a data set
MOST_TIMES = 2**20  # an epoch, a step or a repetition


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


def check_number_of_runs(runs: int) -> None:
    """Refuse more runs than any job trains, before they are listed."""
    if runs > MOST_RUNS:
        raise ValueError(f"a job has at most {MOST_RUNS:,} runs, and these would be {runs:,}")


def _loss(text: str) -> str:
    parse(text)
    return text


def _loss_or_gd(text: str) -> str:
    return text if text == "gd" else _loss(text)


def check_head(loss: str) -> None:
    """Refuse a loss whose last layer perceptrons do not have."""
    head = parse(loss).kind.head
    if head not in networks.MLP_HEADS:
        raise ValueError(
            f"loss={loss!r} needs a last layer of the kind {head!r}, which only image networks have"
        )


# Types with their bounds. A list may come as a tuple or as a list; every other value must have its
# type already.
Count = Annotated[int, Field(gt=0)]
AList = Field(strict=False, max_length=MOST_ITEMS)
Distinct = AfterValidator(_distinct)
Loss = Annotated[str, Field(max_length=100), AfterValidator(_loss)]
LossOfStack = Annotated[str, Field(max_length=100), AfterValidator(_loss_or_gd)]
Warmup = Annotated[tuple[Positive, Positive, Positive], Field(strict=False)]
Feedback = Annotated[tuple[Positive, NotNegative, NotNegative], Field(strict=False)]
Dataset = Annotated[str, OneOf(tuple(data.names()))]
Table = Annotated[str, OneOf(tuple(data.table_names()))]
Augmentation = Annotated[str, OneOf(tuple(augmentation.PADDING))]
Share = Annotated[float, Field(gt=0, lt=1)]
_Seed = Annotated[int, Field(ge=0, lt=SEEDS)]

# Parameters that several models have.
Width = Annotated[Positive, Field(le=64, description="factor for the channels of an image network")]
Stem = Annotated[str, OneOf(networks.STEMS), Field(description="how an image network begins")]
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
    tuple[Warmup, ...], AList, Distinct, Field(description="warm-ups of β as [start, end, epochs]")
]
Seeds = Annotated[
    tuple[_Seed, ...], AList, Distinct, Field(description="seeds of initialisation and batch order")
]
ValidationSize = Annotated[
    int, Field(ge=0, le=MOST_SAMPLES, description="training samples held out")
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
        le=MOST_TIMES,
        description="epochs between two evaluations; the last epoch is always evaluated",
    ),
]
Device = Annotated[
    str, OneOf(("cpu", "cuda", "auto")), Field(description="auto is a GPU where there is one")
]
ChannelsLast = Annotated[bool, Field(description="memory format of images and convolutions")]
Scale = Annotated[
    str, OneOf(records.SCALES), Field(description="how the experiment relates to the paper's")
]
