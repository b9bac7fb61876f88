"""Experiments: the one place that names, types, bounds and describes each parameter.

An experiment is what one notebook of ``notebooks/experiments`` is asked to do. Its model checks the
notebook's parameters and the campaigns, and from it come the notebook's parameter cell
(:func:`parameter_cell`) and the book's table (:func:`parameter_table`).
"""

from study.experiment.base import PLACES, Experiment
from study.experiment.cost import StepCost
from study.experiment.cross_validation import CrossValidation
from study.experiment.described import parameter_cell, parameter_table
from study.experiment.mistakes import explanation, nearest
from study.experiment.train import (
    FeaturePlane,
    LearningRate,
    Mnist,
    Run,
    Samples,
    Temperature,
    Train,
)
from study.experiment.types import OneOf

__all__ = [
    "EXPERIMENTS",
    "PLACES",
    "CrossValidation",
    "Experiment",
    "FeaturePlane",
    "LearningRate",
    "Mnist",
    "OneOf",
    "Run",
    "Samples",
    "StepCost",
    "Temperature",
    "Train",
    "parameter_cell",
    "explanation",
    "nearest",
    "parameter_table",
]

EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.notebook: kind
    for kind in (
        *(Train, Mnist, Samples, FeaturePlane, Temperature, LearningRate),
        *(CrossValidation, StepCost),
    )
}
"""The kind of experiment that each notebook carries out, by the notebook's name."""
