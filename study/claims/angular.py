"""ArcGrad beyond tables: the runs on images, on MNIST and of what a step costs, and the rules for A4 to A7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from study import statistics
from study.claims.findings import Comparison, Decide, Finding, least_of
from study.published import loss_name

__all__ = ["ARCGRAD", "ARCGRAD_OTHERS", "COST_ALLOWED", "KINDS", "RULES", "angular_runs", "cost_ratios"]

KINDS = ("angular", "angular-images", "angular-cuts", "cost")

ARCGRAD = "arcgrad 10"
ARCGRAD_OTHERS = ("softmax", "center 0.02", "m-softmax 0.5", "arcface 20 0.1", "adacos")
"""The losses beside ArcGrad in its image experiments, with the paper's numbers."""

COST_ALLOWED = 0.05  # A7 a: excess of ArcGrad's step over that of softmax

_COSINE_BASED = ("softmax", "arcface 20 0.1", "adacos")  # figure 3 has these beside ArcGrad
_CAMPAIGNS = ("angular", "angular-reduced", "angular-mnist")


def angular_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The runs of ArcGrad's image experiments.

    Args:
        runs: as :func:`study.records.read` gives them.
        kind: ``"angular"`` (all training samples and all epochs of each data set, network and augmentation: the angles of Table VI),
            ``"angular-images"`` (the image networks among them: Tables IV and V), ``"angular-cuts"`` (with fewer samples and with fewer
            epochs too: Figure 3 and Table VII), or ``"cost"`` (the time of a step).

    Returns:
        One row for each loss and seed, with ``reading``. The runs that chose a learning rate are left out, and so are those that diverged.
        Trainings have ``samples`` (for training) and ``mean_target_angle`` (mean angle in radians between features and their class vectors,
        averaged over the evaluated epochs after the first evaluation); the cost has ``step_seconds``, and a repetition as ``seed``.
    """
    if kind == "cost":
        return _cost_runs(runs)
    if "w_inter" not in runs:
        return runs.iloc[:0]
    found = runs[runs["campaign"].isin(_CAMPAIGNS) & ~runs["record"].str.startswith("reading") & (runs["scale"] != "smoke")]
    found = found[~found["diverged"].astype(bool)]
    if kind == "angular-images":
        found = found[found["model"] != "mlp"]
    if found.empty:
        return found
    found = found.dropna(axis=1, how="all").copy()
    is_mlp = found["model"] == "mlp"
    found["network"] = np.where(
        is_mlp, "perceptron", found["model"] + found["width"].map(lambda width: f"×{width:g}" if width != 1 else "")
    )
    found["augmented"] = np.where(is_mlp, "", found["augmentation"].replace({"none": "plain", "crop-flip": "crops and flips"}))
    found["reading"] = (found["dataset"] + ", " + found["network"] + ", " + found["augmented"]).str.removesuffix(", ")
    found["samples"], found["epochs"] = found["train_samples"].astype(int), found["epochs"].astype(int)
    found["mean_target_angle"] = [float(np.mean(angles[1:])) for angles in found["curve_target_angle"]]
    if kind == "angular-cuts":
        return found
    for name in ("epochs", "samples"):
        found = found[found[name] == found.groupby("reading")[name].transform("max")]
    return found


def cost_ratios(runs: pd.DataFrame, loss: str, *, reference: str = "softmax") -> pd.DataFrame:
    """How much longer a step takes than with another loss, as a share: one row for each repetition, one column for each network.

    Args:
        runs: of the kind ``"cost"``, of one reading.
        loss: the loss.
        reference: the other one.
    """
    times = {
        name: runs[runs["loss"] == name].pivot_table(index="seed", columns="model", values="step_seconds") for name in (loss, reference)
    }
    return (times[loss] / times[reference] - 1).dropna(axis=1, how="all")


def _cost_runs(runs: pd.DataFrame) -> pd.DataFrame:
    if "step_seconds" not in runs:
        return runs.iloc[:0]
    found = runs[runs["step_seconds"].notna() & (runs["scale"] != "smoke")].dropna(axis=1, how="all").copy()
    if found.empty:
        return found
    width = found["width"].map(lambda width: f"×{width:g}" if width != 1 else "full width")
    found["reading"] = found["measured_on"] + ", " + width + ", batches of " + found["batch_size"].astype(int).astype(str)
    return found


# --- criteria as code ---


def _best(runs: pd.DataFrame, losses: Sequence[str]) -> str | None:
    """The loss with the largest mean test accuracy; None if one is missing."""
    means = runs.groupby("schedule")["test_accuracy"].mean()
    return max(losses, key=lambda name: means[name]) if set(losses) <= set(means.index) else None


def _beats_best(reading: str, runs: pd.DataFrame, loss: str, others: Sequence[str]) -> Finding | None:
    """More accurate than the best of the others."""
    best = _best(runs, others)
    return Comparison("test_accuracy", loss, best, larger=True).decide(reading, runs) if best is not None else None


def _beats_discriminative(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A4 b."""
    return _beats_best(reading, runs, ARCGRAD, ARCGRAD_OTHERS[1:])


def _discriminative_beat_softmax(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A4 c: the best of them."""
    best = _best(runs, ARCGRAD_OTHERS[1:])
    return Comparison("test_accuracy", best, "softmax", larger=True).decide(reading, runs) if best is not None else None


def _cut(runs: pd.DataFrame, what: str) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """The runs with the least and with the most of something, all with the most of the other; None if there is only one amount of it."""
    other = {"samples": "epochs", "epochs": "samples"}[what]
    full = runs[runs[other] == runs[other].max()]
    least, most = (full[full[what] == getattr(full[what], end)()] for end in ("min", "max"))
    return (least, most) if least[what].iloc[0] < most[what].iloc[0] else None


def _gains(reading: str, runs: pd.DataFrame, what: str) -> Finding | None:
    """ArcGrad minus softmax is larger with the least of something than with the most of it."""
    ends = _cut(runs, what)
    if ends is None:
        return None
    gains = []
    for end in ends:
        accuracy = end.pivot_table(index="seed", columns="schedule", values="test_accuracy")
        if not {ARCGRAD, "softmax"} <= set(accuracy):
            return None
        gains.append((accuracy[ARCGRAD] - accuracy["softmax"]).dropna())
    seeds = gains[0].index.intersection(gains[1].index)
    if len(seeds) < 2:
        return None
    difference = statistics.paired_difference(gains[0].loc[seeds], gains[1].loc[seeds])
    amounts = " against ".join(f"{end[what].iloc[0]:,}".replace(",", "\u2009") for end in ends)
    return Finding(reading, difference.interval.low > 0, difference, f"test accuracy, {loss_name(ARCGRAD)} minus softmax, {amounts} {what}")


def _beats_at_least(reading: str, runs: pd.DataFrame, what: str, others: Sequence[str]) -> Finding | None:
    """With the least of something ArcGrad is more accurate than the best of the others."""
    ends = _cut(runs, what)
    found = _beats_best(reading, ends[0], ARCGRAD, others) if ends is not None else None
    if ends is None or found is None:
        return None
    amount = f"{ends[0][what].iloc[0]:,}".replace(",", "\u2009")
    return Finding(reading, found.met, found.difference, f"{found.text}, {amount} {what}")


def _fewer_samples_gain(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A5 a."""
    return _gains(reading, runs, "samples")


def _fewest_samples_best(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A5 b."""
    return _beats_at_least(reading, runs, "samples", _COSINE_BASED)


def _fewer_epochs_gain(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A5 c."""
    return _gains(reading, runs, "epochs")


def _fewest_epochs_best(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A5 d."""
    return _beats_at_least(reading, runs, "epochs", ARCGRAD_OTHERS)


def _extreme_intra(reading: str, runs: pd.DataFrame, loss: str, larger: bool) -> Finding | None:
    """The WC-Intra of one loss against each of the five others; the one nearest to it is shown."""
    others = [name for name in (ARCGRAD, *ARCGRAD_OTHERS) if name != loss]
    found = [Comparison("wc_intra", loss, other, larger=larger).decide(reading, runs) for other in others]
    there = [finding for finding in found if finding is not None]
    return least_of(there, larger=larger) if len(there) == len(others) else None


def _softmax_is_not_compact(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A6 a."""
    return _extreme_intra(reading, runs, "softmax", larger=True)


def _arcgrad_is_most_compact(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A6 b."""
    return _extreme_intra(reading, runs, ARCGRAD, larger=False)


def _costs_little(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A7 a: the upper end of the interval of the ratio is below 1.05."""
    excess = cost_ratios(runs, ARCGRAD)
    if "resnet18" not in excess or len(excess["resnet18"].dropna()) < 2:
        return None
    values = excess["resnet18"].dropna()
    difference = statistics.paired_difference(values, np.full(len(values), COST_ALLOWED))  # so that an interval above 0 speaks against it
    text = f"excess of ArcGrad's step over that of softmax, ResNet18, minus {COST_ALLOWED:g}"
    return Finding(reading, difference.interval.high < 0, difference, text)


def _costs_less_with_depth(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A7 b."""
    excess = cost_ratios(runs, ARCGRAD)
    if not {"resnet18", "resnet34"} <= set(excess) or len(excess.dropna()) < 2:
        return None
    both = excess[["resnet34", "resnet18"]].dropna()
    difference = statistics.paired_difference(both["resnet34"], both["resnet18"])
    return Finding(reading, difference.interval.high < 0, difference, "the excess, ResNet34 minus ResNet18")


RULES: Mapping[str, tuple[str, Mapping[str, Decide]]] = {
    "A4": (
        "angular-images",
        {
            "a": Comparison("test_accuracy", ARCGRAD, "softmax", larger=True).decide,
            "b": _beats_discriminative,
            "c": _discriminative_beat_softmax,
        },
    ),
    "A5": (
        "angular-cuts",
        {"a": _fewer_samples_gain, "b": _fewest_samples_best, "c": _fewer_epochs_gain, "d": _fewest_epochs_best},
    ),
    "A6": (
        "angular",
        {
            "a": _softmax_is_not_compact,
            "b": _arcgrad_is_most_compact,
            "c": Comparison("w_inter", ARCGRAD, "softmax", larger=True).decide,
            "d": Comparison("mean_target_angle", ARCGRAD, "softmax", larger=False).decide,
        },
    ),
    "A7": ("cost", {"a": _costs_little, "b": _costs_less_with_depth}),
}
"""For each claim the kind of runs that decide it, and a rule for each part."""
