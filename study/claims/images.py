"""The runs of image networks, and the rules for E6, E8, E9, E11 to E13, B1 and B2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from study import statistics
from study.claims.findings import Comparison, Decide, Finding, of_gradient_decay, paired, warmup_is_best

__all__ = ["KINDS", "RULES", "image_runs"]

KINDS = ("images", "cifar10", "many-classes", "tiny-imagenet", "oscillation", "matched")

_DATA_SETS = {
    "cifar10": ("cifar10", "cifar10-jpeg"),
    "many-classes": ("cifar100", "tiny-imagenet"),
    "tiny-imagenet": ("tiny-imagenet",),
}

WITH_MOMENTUM, NO_MOMENTUM, SAME_STEP = "momentum 0.9", "no momentum", "no momentum, ten times the learning rate"

_FLAT = 0.01  # E9: one percentage point
_COMPARABLE = 0.01  # B2: of the expected calibration error


def image_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The runs of image networks, with the columns that the criteria speak of.

    Args:
        runs: as :func:`study.records.read` gives them.
        kind: ``"images"`` (every β and the warm-ups, at the papers' momentum and learning rates), the part of them that is ``"cifar10"``,
            ``"many-classes"`` or ``"tiny-imagenet"``; ``"oscillation"`` (with and without momentum); ``"matched"`` (learning rate matched
            to β, together with the plain runs of the same readings).

    Returns:
        The runs with ``reading`` (data set, network × width, augmentation, and for reduced runs the training images, if not all, and the
        epochs, so that runs of two sizes are two readings), ``overconfidence`` (mean test confidence minus test accuracy); for the
        oscillation ``variant`` and ``oscillation`` (standard deviation of the change of test accuracy from epoch to epoch, over the second
        half of the epochs before the learning rate falls); for the matched ones ``matched``.
    """
    if "width" not in runs:
        return runs.iloc[:0]
    runs = of_gradient_decay(runs)
    found = runs[runs["model"].notna() & (runs["model"] != "mlp") & (runs["scale"] != "smoke")].copy()
    found = found[~found["diverged"].astype(bool)].dropna(axis=1, how="all")
    if found.empty:
        return found
    network = found["model"] + [f"×{width:g}" if width != 1 else "" for width in found["width"]]
    augmentation = found["augmentation"].map({"none": "plain", "crop-flip": "crops and flips"}).fillna(found["augmentation"])
    found["reading"] = found["dataset"] + ", " + network + ", " + augmentation + _reduction(found)
    found["overconfidence"] = found["test_confidence"] - found["test_accuracy"]
    matched = found["match_gradient"].astype(bool)
    at_constant_rate = found["milestones"].map(len) == 0
    usual = (found["momentum"] == 0.9) & ~at_constant_rate
    if kind == "matched":
        chosen = found[usual].assign(matched=matched[usual])
        return chosen[chosen["reading"].isin(chosen.loc[chosen["matched"], "reading"])]
    if kind == "oscillation":
        return _oscillations(found[~matched].assign(at_constant_rate=at_constant_rate[~matched]))
    chosen = found[usual & ~matched]
    return chosen if kind == "images" else chosen[chosen["dataset"].isin(_DATA_SETS[kind])]


def _reduction(runs: pd.DataFrame) -> list[str]:
    """What a reading of reduced runs has in its name beside the rest; nothing at the papers' scale."""
    texts = []
    for scale, images, epochs in zip(runs["scale"], runs["subset"], runs["epochs"], strict=True):
        images = f", {images:,.0f} images" if images > 0 else ""
        texts.append(f"{images}, {epochs:.0f} epochs" if scale == "reduced" else "")
    return texts


def _oscillations(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the readings that were trained with and without momentum, with ``variant`` and ``oscillation``."""
    runs = runs.copy()
    runs.loc[runs["at_constant_rate"], "reading"] += ", constant learning rate"
    usual_rate = runs[runs["momentum"] > 0].groupby("reading")["learning_rate"].min()
    ratio = runs["learning_rate"] / runs["reading"].map(usual_rate)
    runs["variant"] = np.select(
        [runs["momentum"] > 0, np.isclose(ratio, 1), np.isclose(ratio, 10)], [WITH_MOMENTUM, NO_MOMENTUM, SAME_STEP], ""
    )
    both = runs.groupby("reading")["variant"].transform(lambda variants: {WITH_MOMENTUM, NO_MOMENTUM} <= set(variants))
    runs = runs[both.astype(bool) & (runs["variant"] != "")].copy()
    runs["oscillation"] = [
        _oscillation(accuracy, epochs, milestones)
        for accuracy, epochs, milestones in zip(runs["curve_test_accuracy"], runs["epochs"], runs["milestones"], strict=True)
    ]
    return runs


def _oscillation(accuracy: Sequence[float], epochs: int, milestones: Sequence[float]) -> float:
    last = round(min(milestones, default=1) * epochs)
    return float(np.std(np.diff(accuracy[last // 2 : last + 1]), ddof=1))


# --- criteria as code ---


def _warmup_is_best(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E6 c: the warm-up of version 2 beats the best constant β."""
    return warmup_is_best(reading, runs, ["warm-up 0.1→1"], ["5", "1", "0.1", "0.01"])


def _is_flat(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E9 a: the whole interval of the difference lies within a percentage point of 0."""
    finding = Comparison("test_accuracy", "5", "0.1", larger=True).decide(reading, runs)
    if finding is None:
        return None
    interval = finding.difference.interval
    return Finding(reading, -_FLAT < interval.low and interval.high < _FLAT, finding.difference, finding.text + ", within 0.01 of 0")


def _is_overconfident(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E11 a: more over-confident than β = 1, and more than not at all."""
    finding = Comparison("overconfidence", "0.1", "1", larger=True).decide(reading, runs)
    if finding is None:
        return None
    own = statistics.t_interval(runs.loc[runs["schedule"] == "0.1", "overconfidence"].astype(float))
    return Finding(reading, finding.met and own.low > 0, finding.difference, finding.text)


def _against(reading: str, runs: pd.DataFrame, beta: str | None, other: str, text: str) -> Finding | None:
    """Test ECE of a β, as it is, against another column of β = 1; without a β, that with the smallest mean validation ECE."""
    if other not in runs or "1" not in set(runs["schedule"]):
        return None
    if beta is None:
        constant = runs[~runs["schedule"].str.startswith("warm-up")]
        beta = str(constant.groupby("schedule")["valid_ece"].mean().idxmin())
    if beta not in set(runs["schedule"]):
        return None
    ours = runs[runs["schedule"] == beta].set_index("seed")["test_ece"].astype(float)
    theirs = runs[runs["schedule"] == "1"].set_index("seed")[other].astype(float)
    seeds = ours.index.intersection(theirs.index)
    if len(seeds) < 2:
        return None
    difference = statistics.paired_difference(ours.loc[seeds], theirs.loc[seeds])
    return Finding(reading, difference.interval.high < 0, difference, f"test ECE, β = {beta} as it is against {text}")


def _chosen_beats_temperature(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E12 a."""
    return _against(reading, runs, None, "test_ece_temperature", "β = 1 with temperature scaling")


def _chosen_beats_vector(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E12 b."""
    return _against(reading, runs, None, "test_ece_vector", "β = 1 with vector scaling")


def _rough_beats_temperature(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E12 c."""
    return _against(reading, runs, "20", "test_ece_temperature", "β = 1 with temperature scaling")


def _oscillates(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E13 a: with momentum."""
    finding = Comparison("oscillation", "5", "0.1", larger=True).decide(reading, runs[runs["variant"] == WITH_MOMENTUM])
    return finding and Finding(reading, finding.met, finding.difference, f"{finding.text}, {WITH_MOMENTUM}")


def _does_not_without_momentum(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E13 b: not larger in either variant without momentum; the one with the larger difference is shown."""
    found = []
    for variant in (NO_MOMENTUM, SAME_STEP):
        finding = Comparison("oscillation", "5", "0.1", larger=True).decide(reading, runs[runs["variant"] == variant])
        if finding is not None:
            found.append(Finding(reading, not finding.met, finding.difference, f"{finding.text}, {variant}"))
    worst = max(found, key=lambda finding: finding.difference.interval.low, default=None)
    return worst and Finding(reading, all(finding.met for finding in found), worst.difference, worst.text)


def _matched_confidence(reading: str, runs: pd.DataFrame) -> Finding | None:
    """B1 a."""
    return Comparison("overconfidence", "0.1", "5", larger=True).decide(reading, runs[runs["matched"]])


def _matched_accuracy(reading: str, runs: pd.DataFrame) -> Finding | None:
    """B1 b: β = 0.1 at its matched learning rate against β = 1, for which matching changes nothing."""
    compared = runs[(runs["matched"] & (runs["schedule"] == "0.1")) | (~runs["matched"] & (runs["schedule"] == "1"))]
    difference = paired(compared, "test_accuracy", "0.1", "1")
    text = "test accuracy, 0.1 with a matched learning rate against 1"
    return Finding(reading, difference.interval.excludes(0), difference, text) if difference is not None else None


def _link_calibrates(reading: str, runs: pd.DataFrame) -> Finding | None:
    """B2 a: for a small and for the largest β; the one that gains less is shown."""
    if "test_ece_link" not in runs or "0.1" not in set(runs["schedule"]):
        return None
    constant = runs[~runs["schedule"].str.startswith("warm-up")]
    found = []
    for beta in (0.1, constant["beta"].max()):
        of_beta = constant[constant["beta"] == beta]
        difference = statistics.paired_difference(of_beta["test_ece_link"].astype(float), of_beta["test_ece"].astype(float))
        found.append(Finding(reading, difference.interval.high < 0, difference, f"test ECE, after the link against before, β = {beta:g}"))
    worst = max(found, key=lambda finding: finding.difference.mean)
    return Finding(reading, all(finding.met for finding in found), worst.difference, worst.text)


def _link_is_comparable(reading: str, runs: pd.DataFrame) -> Finding | None:
    """B2 b."""
    small = runs[runs["schedule"] == "0.1"]
    if small.empty or "test_ece_link" not in small:
        return None
    difference = statistics.paired_difference(small["test_ece_link"].astype(float), small["test_ece_temperature"].astype(float))
    met = difference.interval.high < _COMPARABLE
    return Finding(reading, met, difference, "test ECE, the link against temperature scaling, β = 0.1")


RULES: Mapping[str, tuple[str, Mapping[str, Decide]]] = {
    "E6": (
        "cifar10",
        {
            "a": Comparison("test_accuracy", "0.1", "1", larger=True).decide,
            "b": Comparison("test_accuracy", "1", "5", larger=True).decide,
            "c": _warmup_is_best,
        },
    ),
    "E8": (
        "many-classes",
        {
            "a": Comparison("test_accuracy", "5", "0.1", larger=True).decide,
            "b": Comparison("test_top5_accuracy", "5", "0.1", larger=True).decide,
        },
    ),
    "E9": (
        "tiny-imagenet",
        {
            "a": _is_flat,
            "b": Comparison("test_top5_accuracy", "5", "0.1", larger=True).decide,
            "c": Comparison("train_accuracy", "0.1", "5", larger=True).decide,
        },
    ),
    "E11": (
        "images",
        {
            "a": _is_overconfident,
            "b": Comparison("test_ece", "20", "1", larger=False).decide,
            "c": Comparison("test_ece", "0.1", "1", larger=True).decide,
            "d": Comparison("test_mce", "0.1", "20", larger=True).decide,
        },
    ),
    "E12": ("images", {"a": _chosen_beats_temperature, "b": _chosen_beats_vector, "c": _rough_beats_temperature}),
    "E13": ("oscillation", {"a": _oscillates, "b": _does_not_without_momentum}),
    "B1": ("matched", {"a": _matched_confidence, "b": _matched_accuracy}),
    "B2": ("images", {"a": _link_calibrates, "b": _link_is_comparable}),
}
