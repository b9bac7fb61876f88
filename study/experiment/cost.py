"""The time of a training step: what the notebook ``cost`` measures."""

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from study.experiment.base import Experiment
from study.experiment.types import (
    MOST_RUNS,
    MOST_TIMES,
    AList,
    BatchSize,
    ChannelsLast,
    Count,
    Device,
    Distinct,
    Loss,
    Network,
    Scale,
    Stem,
    Width,
    check_number_of_runs,
)
from study.losses import Positive


class StepCost(Experiment):
    """The time of a training step with one loss and with another, by turns.

    The images are random, of 3 × 32 × 32. It is the experiment of the notebook ``cost``.
    """

    notebook: ClassVar[str] = "cost"

    models: Annotated[
        tuple[Network, ...], AList, Field(min_length=1, description="image networks"), Distinct
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
        Count, Field(le=MOST_TIMES, description="in a repetition, for each network and loss")
    ] = 2
    repetitions: Annotated[
        Count, Field(le=MOST_RUNS, description="how often everything is measured")
    ] = 3
    first: Annotated[
        int,
        Field(
            ge=0,
            le=MOST_TIMES,
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
        check_number_of_runs(len(self.models) * len(self.losses) * self.repetitions)
        return self

    def planned(self) -> list[dict[str, Any]]:
        """List by which values the record knows each of its runs.

        These are the network, the loss, and the repetition as the seed.
        """
        repetitions = range(self.first, self.first + self.repetitions)
        return [
            {"model": name, "loss": loss, "seed": seed}
            for name in self.models
            for seed in repetitions
            for loss in self.losses
        ]
