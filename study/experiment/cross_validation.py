"""A repeated cross-validation on tables: what the notebook ``cross-validation`` does."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from study.experiment.base import PLACES, Experiment
from study.experiment.types import (
    SEEDS,
    Activation,
    AList,
    BatchSize,
    Distinct,
    Epochs,
    Hidden,
    Initialization,
    LearningRate,
    LinearFeatures,
    Loss,
    Momentum,
    OneOf,
    Optimizer,
    Scale,
    Seeds,
    Table,
    TestEvery,
    WeightDecay,
    check_head,
    check_number_of_runs,
)

# Descriptions that would not fit on the line of their parameter.
_FITTED = "of the features, fitted on the training part: as in the notebook train"
_NOMINAL = "nominal features: codes (as in the file), or one-hot (a feature for each category)"


class CrossValidation(Experiment):
    """A repeated cross-validation on tables: the notebook ``cross-validation``.

    A seed is a whole cross-validation: a random partition into folds, and one training for each
    fold that is left out.
    """

    notebook: ClassVar[str] = "cross-validation"

    datasets: Annotated[
        tuple[Table, ...], AList, Field(min_length=1, description="names of tables"), Distinct
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
        check_number_of_runs(len(self.seeds) * len(self.datasets))
        if (highest := max(self.seeds)) >= SEEDS // self.folds:
            raise ValueError(
                f"with {self.folds} folds seeds are integers from 0 to {SEEDS // self.folds - 1}; "
                f"got {highest}"
            )
        check_head(self.loss)
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


class Tables(CrossValidation):
    """Cross-validations as ArcGrad's Table I has them: the page ``tables``."""

    notebook: ClassVar[str] = "tables"
    fixed: ClassVar[frozenset[str]] = frozenset(CrossValidation.model_fields) - {
        *("datasets", "loss", "normalization", "duplicates_together", "hidden", "initialization"),
        *("seeds", "epochs", "optimizer", "learning_rate", "weight_decay"),
    }
    places: ClassVar[Mapping[str, str]] = {"record": PLACES["record"]}

    datasets: Annotated[
        tuple[Table, ...], AList, Field(min_length=1, description="names of tables"), Distinct
    ] = ("iris", "wine")
    loss: Annotated[
        Loss, Field(description='with its numbers, such as "arcface 20 0.1" or "gd 0.1"')
    ] = "arcgrad 5"
    normalization: Annotated[
        str,
        OneOf(("standard", "unit", "none")),
        Field(description="of the features, fitted on the training part of each fold"),
    ] = "unit"
    epochs: Epochs = 10
    optimizer: Optimizer = "adam"
    learning_rate: LearningRate = 0.01
