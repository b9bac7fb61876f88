"""The columns of the frame of all runs, declared: name, type, meaning.

A record may hold what its notebook measures; a column that is not declared here is refused, so that
nothing is compared, drawn or asked for under a name that is nowhere explained.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from study.metrics import METRICS

Types = type | types.UnionType


@dataclass(frozen=True)
class Column:
    """A column of the frame."""

    name: str
    type: Types
    """Of a value that is there; any may be missing."""
    meaning: str
    default: Any = None
    """What a record means that was written before the column was there; None for no answer."""


_NUMBER = int | float


def _parameters() -> list[Column]:
    """List the parameters of all notebooks; the model of each notebook describes them."""
    listed: list[tuple[Types, str, Any]] = [
        (str, "dataset", None),
        (list, "datasets", None),
        (str, "normalization", None),
        (str, "categorical", None),
        (_NUMBER, "input_scale", 1.0),
        (_NUMBER, "validation_size", 0),
        (_NUMBER, "subset", 0),
        (_NUMBER, "imbalance", 1.0),
        (_NUMBER, "label_noise", 0.0),
        (str, "labels", "clean"),
        (str, "augmentation", "none"),
        (str, "model", "mlp"),
        (list, "models", None),
        (_NUMBER, "width", 1.0),
        (str, "stem", None),
        (list, "hidden", None),
        (str, "activation", None),
        (str, "initialization", None),
        (_NUMBER, "first_weights", 1.0),
        (bool, "linear_features", None),
        (str, "loss", "gd"),
        (list, "losses", None),
        (bool, "classifier_bias", None),
        (str, "schedule_unit", None),
        (_NUMBER, "epochs", None),
        (_NUMBER, "batch_size", None),
        (str, "optimizer", "sgd"),
        (_NUMBER, "learning_rate", None),
        (_NUMBER, "momentum", None),
        (_NUMBER, "weight_decay", None),
        (str, "lr_schedule", "milestones"),
        (list, "milestones", None),
        (_NUMBER, "max_grad_norm", None),
        (bool, "match_gradient", False),
        (str, "device", None),
        (str, "precision", None),
        (bool, "channels_last", None),
        (bool, "fused", None),
        (bool, "cuda_graph", None),
        (bool, "angles", False),
        (_NUMBER, "test_every", None),
        (_NUMBER, "train_every", None),
        (str, "scale", None),
        (_NUMBER, "folds", None),
        (bool, "stratified", None),
        (bool, "duplicates_together", False),
        (_NUMBER, "followed", None),
        (_NUMBER, "drawn", None),
        (_NUMBER, "classes", None),
        (_NUMBER, "steps", None),
        (_NUMBER, "repetitions", None),
        (_NUMBER, "first", None),
    ]
    meaning = "a parameter of the notebook, as its cell of parameters describes it"
    return [Column(name, type, meaning, default) for type, name, default in listed]


PARAMETERS: Mapping[str, Column] = {column.name: column for column in _parameters()}
"""What a job was asked for; what a stack varies stands with its runs instead."""

_OF_RECORDS = (
    Column("campaign", str, "folder of the record"),
    Column("record", str, "file of the record, named after its job"),
    Column("experiment", str, "name of its notebook"),
    Column("time", str, "when the record was written"),
    Column("wall_seconds", _NUMBER, "time of the job, since it was last resumed"),
    Column("measured_on", str, "device of a measured time"),
    Column("data_source", str, "where the data set came from"),
    Column("train_samples", _NUMBER, "training samples that were used"),
    Column("wrong_labels", _NUMBER, "share of the training labels that are wrong"),
    Column("model_parameters", int | dict, "parameters of one network, or of each of several"),
)

_OF_RUNS = (
    Column("seed", int, "of initialisation and batch order; number of a repetition"),
    Column("schedule", str, "label of β's schedule, or the loss with its numbers"),
    Column("beta", _NUMBER, "β at the end of the training; with feedback at its start"),
    Column("temperature", _NUMBER, "τ", 1.0),
    Column("warmup_epochs", _NUMBER, "epochs over which β changes; 0 for a constant one", 0),
    Column("warmup_start", _NUMBER, "β at the beginning of a warm-up"),
    Column("warmup_end", _NUMBER, "β at the end of a warm-up; with feedback at its start"),
    Column("title", str, "name of a table of data, as the papers print it"),
    Column("diverged", bool, "whether a number of the training was not finite", False),
    Column("diverged_folds", _NUMBER, "folds of a cross-validation that diverged"),
)

_SAMPLES = {"train": "training samples", "valid": "samples held out", "test": "test samples"}
_SCORES = {
    "accuracy": "share of right decisions",
    "top5_accuracy": "share whose class is among the five largest logits",
    "cross_entropy": "mean cross-entropy",
    "margin_bias": "mean bias of the margin",
}
_CALIBRATION = {
    "nll": "mean cross-entropy",
    "confidence": "mean confidence",
    "ece": "expected calibration error, bins of equal width",
    "mce": "maximum calibration error",
    "ece_mass": "expected calibration error, bins of equal mass",
    "rmsce_debiased": "debiased root mean squared calibration error",
    "classwise_ece": "mean calibration error of the classes",
    "brier": "Brier score",
}
_CORRECTIONS = {
    "temperature": "after a temperature",
    "vector": "after vector scaling",
    "link": "after the link",
}


def _metrics() -> list[Column]:
    """List the numbers of a run that come in families: splits, corrections."""
    listed = [
        Column(f"{split}_{score}", _NUMBER, f"{meaning} of the {samples}")
        for split, samples in _SAMPLES.items()
        for score, meaning in _SCORES.items()
    ]
    listed += [
        Column(f"test_{score}", _NUMBER, f"{meaning} of the test samples")
        for score, meaning in _CALIBRATION.items()
        if score != "nll"  # without a correction it is the cross-entropy
    ]
    listed += [
        Column(f"test_{score}_{name}", _NUMBER, f"{meaning} of the test samples {words}")
        for name, words in _CORRECTIONS.items()
        for score, meaning in _CALIBRATION.items()
    ]
    return listed


_OTHER_METRICS = (
    Column("train_confidence", _NUMBER, "mean confidence of the training samples"),
    Column("valid_ece", _NUMBER, "expected calibration error of the samples held out"),
    Column("test_accuracy_link", _NUMBER, "share of right decisions by the link"),
    Column("scaling_temperature", _NUMBER, "temperature that was fitted on samples held out"),
    Column("w_inter", _NUMBER, "mean angle between class vectors"),
    Column("c_inter", _NUMBER, "mean angle between class centres"),
    Column("wc_intra", _NUMBER, "mean angle between class vectors and class centres"),
    Column("never_learnt", _NUMBER, METRICS["never_learnt"].title),
    Column("median_epoch_learnt", _NUMBER, "median epoch at which samples are learnt"),
    Column("conflict_share", _NUMBER, "share of the samples in conflict with the average"),
    Column("conflict_late", _NUMBER, METRICS["conflict_late"].title),
    Column("conflict_delay", _NUMBER, METRICS["conflict_delay"].title),
    Column("others_epoch", _NUMBER, METRICS["others_epoch"].title),
    Column("intra_inter_ratio", _NUMBER, METRICS["intra_inter_ratio"].title),
    Column("minimum_to_mean_inter", _NUMBER, METRICS["minimum_to_mean_inter"].title),
    Column("mean_intra_distance", _NUMBER, "mean distance of features to their class centre"),
    Column("mean_inter_distance", _NUMBER, "mean distance between class centres"),
    Column("strayed", _NUMBER, "share of the features that are nearer to another class centre"),
    Column(
        "saturated", _NUMBER, "share of outputs of the first layer near an end of the activation"
    ),
    Column("dead", _NUMBER, "share of units of the first layer at one end for every sample"),
    Column("step_seconds", _NUMBER, "time of a training step"),
    Column("criterion_seconds", _NUMBER, "time of the last layer and the loss in it"),
)

_LISTS = (
    Column("confidence_counts", list, "training samples in five bins of their p"),
    Column("confidence_histogram", list, "training samples in twenty bins of their p"),
    Column("test_ece_interval", list, "95 % interval of the calibration error"),
    Column("reliability", dict, "bins of the reliability diagram"),
    Column("reliability_temperature", dict, "the same after a temperature"),
    Column("reliability_vector", dict, "the same after vector scaling"),
    Column("reliability_link", dict, "the same after the link"),
    Column("class_accuracy", list, "accuracy of each class"),
    Column("class_accuracy_link", list, "accuracy of each class, decided by the link"),
    Column("target_angle_epochs", list, "epochs at which angles to the class vector were counted"),
    Column("target_angle_counts", list, "angles to the class vector in bins, at these epochs"),
    Column("fold_accuracies", list, "test accuracy of each fold"),
    Column("group_confidence", list, "mean p of fifths of the samples, hardest first, by epoch"),
    Column("reference_group_confidence", list, "the same, with the fifths of β = 1"),
    Column("group_epoch_learnt", list, "mean epoch at which each fifth is learnt"),
    Column("single_confidence", list, "p of single samples, by epoch"),
    Column("epoch_learnt_counts", list, "samples by the epoch at which they are learnt"),
    Column("conflict_epoch_learnt_counts", list, "the same for samples in conflict"),
    Column("points", dict, "features of test samples in the plane, with their classes"),
)


def _curves() -> list[Column]:
    """List the curves: a metric at each epoch at which it was evaluated."""
    evaluated = [f"{split}_{score}" for split in ("test", "train") for score in _SCORES]
    evaluated += ["valid_accuracy", "valid_confidence", "target_angle", "beta"]
    evaluated += ["wc_intra", "w_inter", "c_inter"]
    return [
        Column("curve_epoch", list, "epochs at which the test set was evaluated"),
        Column("curve_train_epoch", list, "epochs at which the training set was evaluated"),
        *(Column(f"curve_{name}", list, f"{name} at these epochs") for name in evaluated),
    ]


COLUMNS: Mapping[str, Column] = {
    column.name: column
    for column in (
        *PARAMETERS.values(),
        *_OF_RECORDS,
        *_OF_RUNS,
        *_metrics(),
        *_OTHER_METRICS,
        *_LISTS,
        *_curves(),
    )
}
"""Every column of :func:`study.records.read`, by its name."""


def check(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame, if each of its columns is declared and holds what is declared.

    Raises:
        ValueError: for an unknown column, and for a value of another type; it names both.
    """
    for name in map(str, frame):
        if name not in COLUMNS:
            raise ValueError(
                f"{_place(frame, name)} has {name!r}, which is no declared column: give it a name,"
                " a type and a meaning in study/records/columns.py"
            )
        column = COLUMNS[name]
        for kind in set(map(type, frame[name].dropna())):
            if not issubclass(kind, column.type) or (kind is bool) != (column.type is bool):
                of_kind = frame[frame[name].map(type) == kind]
                raise ValueError(
                    f"{_place(of_kind, name)} has {name} of type {kind.__name__}, which is declared"
                    f" as {_written(column.type)}"
                )
    return frame


def _place(frame: pd.DataFrame, name: str) -> str:
    """Name the first record that has a value in a column; the first of all, if none has."""
    if "record" not in frame:
        return "the record"
    there = frame[frame[name].notna()]
    first = (there if len(there) else frame).iloc[0]
    return f"{first['campaign']}/{first['record']}"


def _written(declared: Types) -> str:
    return declared.__name__ if isinstance(declared, type) else str(declared)
