"""The runs of "Large Margin in Softmax Cross-Entropy Loss", and the rules for L3 to L6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from study import statistics
from study.claims.findings import Comparison, Decide, Finding
from study.published import loss_name

__all__ = ["KINDS", "RULES", "large_margin_runs"]

KINDS = ("large-margin", "degraded")

OURS, STRONGER = "lm 0.3", "lm 1"
_LOSSES = (
    *("softmax", "lm", "lm-qu", "lm-uq", "label-smoothing", "super-symmetry"),
    *("hinge", "modified", "modified-lm", "l-softmax", "lgm"),
)
_SETTING = ["dataset", "model", "width", "augmentation", "epochs"]
_HALF = 0.5  # of the training samples


def large_margin_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The runs of image networks with the losses of the paper's tables 1 to 4, in the paper's setting.

    That setting is known by the learning rate, which falls exponentially from the first step to the last. Where one was chosen among
    several, the runs with the others are left out: the rate of a reading is the one that most losses were run with. A setting that was run
    twice, in two entries of a campaign, comes once, with the longer curves. A run that diverged stays, with the accuracy that it has.

    Args:
        runs: as :func:`study.records.read` gives them.
        kind: ``"large-margin"`` (all samples, right labels) or ``"degraded"`` (the softmax loss and the regulariser where they were also
            trained with fewer samples or with wrong labels).

    Returns:
        The runs with ``reading`` (data set, network × width, augmentation, samples, epochs, share of wrong labels), ``share`` (of all the
        training samples that the setting has elsewhere), ``overconfidence`` (mean test confidence minus test accuracy) and ``bias_rise``
        (the bias on the training samples at the end minus the smallest one that was measured).
    """
    if "loss" not in runs or "width" not in runs:
        return runs.iloc[:0]
    of_images = runs["model"].notna() & (runs["model"] != "mlp") & (runs["scale"] != "smoke")
    found = runs[of_images & _kinds(runs).isin(_LOSSES) & (runs["lr_schedule"] == "exponential")].dropna(axis=1, how="all").copy()
    if found.empty:
        return found
    by_setting = found.groupby(_SETTING)
    found["share"] = found["train_samples"] / by_setting["train_samples"].transform("max")
    found["reading"] = _readings(found)
    found = _without_doubles(_at_one_learning_rate(found))
    found["overconfidence"] = found["test_confidence"] - found["test_accuracy"]
    found["bias_rise"] = [
        end - min((value for value in curve if value is not None), default=np.nan)
        for end, curve in zip(found["train_margin_bias"].astype(float), found["curve_train_margin_bias"], strict=True)
    ]
    degraded = (found["share"] < 1) | (found["label_noise"] > 0)
    if kind == "large-margin":
        return found[~degraded]
    elsewhere = degraded.groupby([found[name] for name in _SETTING]).transform("any")
    return found[elsewhere & found["loss"].str.match(r"(softmax|lm \S+)$")]


def _kinds(runs: pd.DataFrame) -> pd.Series[str]:
    """The losses without their numbers."""
    return runs["loss"].map(lambda loss: loss.partition(" ")[0] if isinstance(loss, str) else "")


def _readings(runs: pd.DataFrame) -> pd.Series[str]:
    network = runs["model"] + [f"×{width:g}" if width != 1 else "" for width in runs["width"]]
    augmentation = runs["augmentation"].map({"none": "plain", "crop-flip": "crops and flips"}).fillna(runs["augmentation"])
    length = [f"{samples:,.0f} images, {epochs:.0f} epochs" for epochs, samples in zip(runs["epochs"], runs["train_samples"], strict=True)]
    noise = [f", {100 * share:g} % wrong labels" if share > 0 else "" for share in runs["label_noise"]]
    return runs["dataset"] + ", " + network + ", " + augmentation + ", " + pd.Series(length, runs.index) + noise


def _at_one_learning_rate(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the learning rate that most losses of their reading were run with."""
    losses = runs.groupby(["reading", "learning_rate"])["loss"].nunique()
    chosen = {reading: of_reading.droplevel(0).idxmax() for reading, of_reading in losses.groupby("reading")}
    return runs[runs["learning_rate"] == runs["reading"].map(chosen)]


def _without_doubles(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each reading, loss and seed: the one that was evaluated most often."""
    longest = runs.assign(points=runs["curve_train_margin_bias"].map(len)).sort_values("points", ascending=False, kind="stable")
    return longest.drop_duplicates(["reading", "loss", "seed"]).drop(columns="points").sort_index()


# --- criteria as code ---


def _compare(
    reading: str, runs: pd.DataFrame, left: str, right: str, metric: str = "test_accuracy", *, larger: bool = True
) -> Finding | None:
    """The comparison of two losses, with their names as the papers call them."""
    finding = Comparison(metric, left, right, larger).decide(reading, runs)
    text = f"{metric}, {loss_name(left)} against {loss_name(right)}"
    return finding and Finding(reading, finding.met, finding.difference, text)


def _best(runs: pd.DataFrame, names: Sequence[str]) -> str | None:
    """The loss with the largest mean test accuracy, of those whose first word is one of these; None unless each of them is there.

    A loss with fewer seeds than another of the reading was run for another purpose, and is no rival.
    """
    seeds = runs.groupby("loss")["seed"].transform("nunique")
    runs = runs[seeds == seeds.max()]
    kinds = _kinds(runs)
    if not set(names) <= set(kinds):
        return None
    rivals = runs[kinds.isin(names)]
    return str(rivals.groupby("loss")["test_accuracy"].mean().idxmax())


def _beats_best(*names: str) -> Decide:
    """The regulariser is more accurate than the best of some losses."""

    def decide(reading: str, runs: pd.DataFrame) -> Finding | None:
        best = _best(runs, names)
        return _compare(reading, runs, OURS, best) if best is not None else None

    return decide


def _larger(left: str, right: str, metric: str = "test_accuracy") -> Decide:
    """A metric is larger with one loss than with another."""
    return lambda reading, runs: _compare(reading, runs[runs[metric].notna()], left, right, metric)


def _average_is_larger(left: str, right: str) -> Decide:
    """L3 b, c: the test accuracy averaged over the values of λ that two divergences share is larger with one than with the other."""

    def decide(reading: str, runs: pd.DataFrame) -> Finding | None:
        accuracy = runs.pivot_table(index="seed", columns="loss", values="test_accuracy")
        of_loss = {
            name: {str(loss).partition(" ")[2] for loss in accuracy if str(loss).partition(" ")[0] == name} for name in (left, right)
        }
        shared = sorted(of_loss[left] & of_loss[right], key=float)
        columns = [[f"{name} {value}" for value in shared] for name in (left, right)]
        both = accuracy[[*columns[0], *columns[1]]].dropna()
        if not shared or len(both) < 2:
            return None
        difference = statistics.paired_difference(both[columns[0]].mean(axis=1), both[columns[1]].mean(axis=1))
        first, second = (loss_name(names[0]).rpartition(", ")[0] for names in columns)
        text = f"test accuracy, {first} against {second}, mean over λ = {', '.join(shared)}"
        return Finding(reading, difference.interval.low > 0, difference, text)

    return decide


def _super_symmetry_does_not_help(reading: str, runs: pd.DataFrame) -> Finding | None:
    """L4 c: not larger, which is also met where three seeds cannot tell."""
    finding = _compare(reading, runs, "super-symmetry", "softmax")
    return finding and Finding(reading, not finding.met, finding.difference, finding.text)


def _where(decide: Decide, *, half: bool) -> Decide:
    """L5: only in readings with half of the samples and right labels, or only in those with wrong labels."""

    def decide_there(reading: str, runs: pd.DataFrame) -> Finding | None:
        noisy, halved = bool((runs["label_noise"] > 0).any()), bool(np.isclose(runs["share"], _HALF, atol=1e-3).all())
        return decide(reading, runs) if (halved and not noisy if half else noisy) else None

    return decide_there


RULES: Mapping[str, tuple[str, Mapping[str, Decide]]] = {
    "L3": (
        "large-margin",
        {
            "a": _larger(OURS, "softmax"),
            "b": _average_is_larger("lm-uq", "lm-qu"),
            "c": _average_is_larger("lm", "lm-qu"),
            "d": _larger("lm 0.9", "lm 0.1"),
        },
    ),
    "L4": (
        "large-margin",
        {
            "a": _beats_best("label-smoothing"),
            "b": _larger(OURS, "super-symmetry"),
            "c": _super_symmetry_does_not_help,
            "d": _larger(OURS, "softmax", "train_margin_bias"),
            "e": _larger("label-smoothing 0.1", "softmax", "train_margin_bias"),
            "f": _larger(OURS, "softmax", "bias_rise"),
        },
    ),
    "L5": (
        "degraded",
        {
            "a": _where(_larger(OURS, "softmax"), half=True),
            "b": _where(_larger(STRONGER, OURS), half=True),
            "c": _where(_larger(OURS, "softmax"), half=False),
            "d": _where(_larger(STRONGER, OURS), half=False),
        },
    ),
    "L6": (
        "large-margin",
        {
            "a": lambda reading, runs: _compare(reading, runs, "hinge", "softmax", larger=False),
            "b": _larger("modified", "softmax"),
            "c": _beats_best("modified", "l-softmax", "lgm"),
            "d": _larger("modified-lm 0.3", "modified"),
        },
    ),
}
"""For each claim the kind of runs that decide it, and a rule for each part."""
