"""Measures of a trained stack: scores, distribution of the confidence, calibration before and after post-processing, angles."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib import calibration, models
from gdlib.functional import margin_bias
from study import data
from study.curriculum import true_class_probability
from study.geometry import angles_between, class_centres, pairs

_CONFIDENCE_EDGES = [edge / 20 for edge in range(21)]
ANGLE_EDGES = tuple(math.pi * edge / 36 for edge in range(37))
"""Edges of the histogram in radians: every five degrees."""

_MANY_CLASSES = 10  # with more classes than this the top-5 accuracy says something


def scores(logits: Tensor, labels: Tensor, name: str) -> dict[str, Tensor]:
    """Accuracy, plain cross-entropy and mean margin bias of every run, ``[R]``, from logits ``[R, N, C]``; with many classes top-5 too."""
    correct = (logits.argmax(2) == labels).double().mean(1)
    cross_entropy = torch.stack([F.cross_entropy(run_logits, labels) for run_logits in logits])
    bias = torch.stack([margin_bias(run_logits, labels).double().mean() for run_logits in logits])
    measured = {f"{name}_accuracy": correct, f"{name}_cross_entropy": cross_entropy, f"{name}_margin_bias": bias}
    if logits.shape[2] > _MANY_CLASSES:
        among = (logits.topk(5, 2).indices == labels[None, :, None]).any(2)
        measured[f"{name}_top5_accuracy"] = among.double().mean(1)
    return measured


def final_measures(dataset: data.Dataset, scaled_logits: Callable[[data.Split], Tensor], betas: Sequence[float]) -> list[dict[str, Any]]:
    """Measure the last epoch from the logits ``[R, N, C]`` over τ: scores, the training confidence (the papers' Table 1), calibration.

    With a validation split, temperature and vector scaling are fitted on it, and their test metrics carry the suffixes ``_temperature`` and
    ``_vector``; those of the β link carry ``_link``.
    """
    splits = {"train": dataset.train, "test": dataset.test, "valid": dataset.valid}
    logits = {name: scaled_logits(split).cpu() for name, split in splits.items() if split is not None}
    labels = {name: split.labels.cpu() for name, split in splits.items() if split is not None}
    measures: dict[str, Tensor] = {}
    for name in logits:
        measures |= scores(logits[name], labels[name], name)
    confidence = true_class_probability(logits["train"], labels["train"])
    final: list[dict[str, Any]] = []
    for index, beta in enumerate(betas):
        metrics = {name: float(values[index]) for name, values in measures.items()}
        if not all(of_split[index].isfinite().all() for of_split in logits.values()):
            final.append({"diverged": True, "metrics": metrics})
            continue
        metrics["train_confidence"] = float(confidence[index].double().mean())
        run: dict[str, Any] = {
            "diverged": False,
            "metrics": metrics,
            "confidence_counts": calibration.confidence_histogram(confidence[index]),
            "confidence_histogram": calibration.confidence_histogram(confidence[index], _CONFIDENCE_EDGES),
        }
        test_logits, test_labels = logits["test"][index].double(), labels["test"]
        probabilities = {"": torch.softmax(test_logits, 1)}
        if "valid" in logits:
            valid_logits, valid_labels = logits["valid"][index].double(), labels["valid"]
            metrics["valid_ece"] = calibration.expected_calibration_error(torch.softmax(valid_logits, 1), valid_labels)
            temperature, vector = calibration.TemperatureScaling(), calibration.VectorScaling()
            for suffix, scaling in (("_temperature", temperature), ("_vector", vector)):
                scaled = scaling.fit(valid_logits, valid_labels).transform(test_logits)
                metrics[f"test_nll{suffix}"] = float(F.cross_entropy(scaled, test_labels))
                probabilities[suffix] = torch.softmax(scaled, 1)
            run["scaling_temperature"] = temperature.temperature
            probabilities["_link"] = calibration.beta_link(probabilities[""], beta)
            metrics["test_nll_link"] = calibration.negative_log_likelihood(probabilities["_link"], test_labels)
        for suffix, values in probabilities.items():
            _calibrated(run, values, test_labels, suffix)
        final.append(run)
    return final


@torch.no_grad()
def first_layer(perceptrons: models.StackedMLP, activation: str, inputs: Tensor) -> dict[str, Tensor]:
    """Measure what the first layer of each perceptron lets through of the training inputs ``[N, D]``.

    ``saturated`` is the share of outputs, over samples and units, whose distance to an end of the activation is below half a percent of its
    range (tanh, sigmoid; 0 for ReLU), ``dead`` the share of units that are at one and the same end for every sample, both ``[R]``.
    """
    low, high = {"relu": (0.0, math.inf), "tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0)}[activation]
    margin = 0.005 * (high - low) if high < math.inf else 0.0
    weight, bias = perceptrons.weights[0], perceptrons.biases[0][:, None]
    saturated, at_low, at_high = [], [], []
    for batch in inputs.split(5_000):
        outputs = perceptrons.activation(torch.matmul(batch, weight) + bias)  # (R, N, units)
        low_end, high_end = outputs <= low + margin, outputs >= high - margin
        saturated.append((low_end | high_end).double().sum(1).mean(1))
        at_low.append(low_end.all(1))
        at_high.append(high_end.all(1))
    dead = torch.stack(at_low).all(0) | torch.stack(at_high).all(0)
    share = torch.stack(saturated).sum(0) / len(inputs)
    return {"saturated": share if high < math.inf else torch.zeros_like(share), "dead": dead.double().mean(1)}


def _calibrated(run: dict[str, Any], probabilities: Tensor, labels: Tensor, suffix: str) -> None:
    """Add the calibration of test probabilities to a run: errors, Brier score, and the bins by which a diagram can be drawn again."""
    run["metrics"] |= {
        f"test_confidence{suffix}": float(probabilities.amax(1).mean()),
        f"test_ece{suffix}": calibration.expected_calibration_error(probabilities, labels),
        f"test_mce{suffix}": calibration.maximum_calibration_error(probabilities, labels),
        f"test_ece_mass{suffix}": calibration.expected_calibration_error(probabilities, labels, scheme="mass"),
        f"test_rmsce_debiased{suffix}": calibration.debiased_calibration_error(probabilities, labels),
        f"test_classwise_ece{suffix}": calibration.classwise_calibration_error(probabilities, labels),
        f"test_brier{suffix}": calibration.brier_score(probabilities, labels),
    }
    bins = calibration.calibration_bins(probabilities, labels)
    run[f"reliability{suffix}"] = {name: getattr(bins, name) for name in ("upper", "count", "confidence", "accuracy")}
    if not suffix:
        interval = calibration.bootstrap_calibration(probabilities, labels)
        run["test_ece_interval"] = [interval.low, interval.high]


def add_class_accuracies(
    final: Sequence[dict[str, Any]], logits: Tensor, labels: Tensor, rules: Sequence[Callable[[Tensor], Tensor]]
) -> None:
    """Add to each run the accuracy of each class, from logits ``[R, N, C]``: of the largest one, and (``_link``) of a rule for each run."""
    of_class = F.one_hot(labels).double()  # (N, C)
    for run, of_run, rule in zip(final, logits, rules, strict=True):
        for suffix, chosen in (("", of_run.argmax(1)), ("_link", rule(of_run))):
            correct = (chosen == labels).double()
            run[f"class_accuracy{suffix}"] = (correct @ of_class / of_class.sum(0)).tolist()
            run["metrics"][f"test_accuracy{suffix}"] = float(correct.mean())


def target_angles(features: Tensor, labels: Tensor, vectors: Tensor) -> dict[str, Tensor]:
    """Measure the angles between the features ``[R, N, D]`` and the vectors ``[R, C, D]`` of their own classes.

    ``target_angle`` is the mean in radians ``[R]``, ``target_angle_counts`` the number of samples between :data:`ANGLE_EDGES` ``[R, 36]``.
    A feature of length 0 counts as a right angle.
    """
    own = F.normalize(vectors.double(), dim=2)[:, labels]  # (R, N, D)
    cosine = (F.normalize(features.double(), dim=2) * own).sum(2)
    angles = torch.arccos(cosine.clamp(-1, 1))
    counts = torch.stack([torch.histc(of_run, len(ANGLE_EDGES) - 1, 0.0, math.pi) for of_run in angles])
    return {"target_angle": angles.mean(1), "target_angle_counts": counts.long()}


def add_angles(
    final: Sequence[dict[str, Any]], history: Sequence[dict[str, Any]], features: Tensor, labels: Tensor, vectors: Tensor
) -> None:
    """Add to each run that did not diverge the angles between classes, and the histograms of the target angles after each evaluated epoch.

    ``metrics`` get, in radians, ``w_inter`` (between two class vectors), ``c_inter`` (between two class centres) and ``wc_intra`` (between
    vector and centre of a class), each a mean over classes (ArcGrad, eq. 20 to 22; eq. 22 as its words have it).
    """
    centres = class_centres(features, labels, vectors.shape[1])
    means = {
        "w_inter": pairs(angles_between(vectors, vectors)).mean(-1),
        "c_inter": pairs(angles_between(centres, centres)).mean(-1),
        "wc_intra": angles_between(centres, vectors).diagonal(dim1=-2, dim2=-1).mean(-1),
    }
    measured = [entry for entry in history if "target_angle_counts" in entry]
    for index, run in enumerate(final):
        if not run["diverged"]:
            run["metrics"] |= {name: float(values[index]) for name, values in means.items()}
            run["target_angle_epochs"] = [entry["epoch"] for entry in measured]
            run["target_angle_counts"] = [entry["target_angle_counts"][index].tolist() for entry in measured]
