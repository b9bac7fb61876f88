"""Experiments: the one place that names, types, bounds and describes each parameter.

An experiment is what one notebook of ``notebooks/experiments`` is asked to do. Its model checks the
notebook's parameters and the campaigns, and from it come the notebook's parameter cell
(:func:`parameter_cell`) and the book's table (:func:`parameter_table`).
"""

from study.experiment.base import PLACES, Experiment
from study.experiment.cross_validation import CrossValidation, Tables
from study.experiment.described import parameter_cell, parameter_table
from study.experiment.images import AngularImages, LongTailed, WrongLabels
from study.experiment.mistakes import explanation, nearest
from study.experiment.train import (
    Cifar,
    FeaturePlane,
    HowSure,
    LargeMargin,
    LearningRates,
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
    "AngularImages",
    "CrossValidation",
    "Cifar",
    "Experiment",
    "FeaturePlane",
    "HowSure",
    "LargeMargin",
    "LongTailed",
    "LearningRates",
    "Mnist",
    "OneOf",
    "Run",
    "Samples",
    "Tables",
    "Temperature",
    "Train",
    "WrongLabels",
    "parameter_cell",
    "explanation",
    "nearest",
    "parameter_table",
]

EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.notebook: kind
    for kind in (
        Train,
        Mnist,
        HowSure,
        Cifar,
        LargeMargin,
        AngularImages,
        Samples,
        LearningRates,
        FeaturePlane,
        Tables,
        WrongLabels,
        LongTailed,
        Temperature,
    )
}
"""The kind of experiment that each notebook carries out, by the notebook's name."""
