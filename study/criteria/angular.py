"""ArcGrad beyond tables: the runs on images, on MNIST and of what a step costs, and the rules of A4 to A7."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from study.criteria.rules import Finding, Rule, Side, Variant, all_of, best_of, claim, given, larger, minus, of, smaller, where
from study.criteria.selection import FAST, at_usual_rate, recipe, with_setting, with_softmax, without_lonely

# all samples and all epochs (Table VI); the image networks among them (Tables IV and V); fewer samples and fewer epochs too (Figure 3,
# Table VII); the time of a step
KINDS = ("angular", "angular-images", "angular-cuts", "cost")

ARCGRAD = "arcgrad 10"
ARCGRAD_OTHERS = ("softmax", "center 0.02", "m-softmax 0.5", "arcface 20 0.1", "adacos")
"""The losses beside ArcGrad in its image experiments, with the paper's numbers."""

_CAMPAIGNS = ("angular", "angular-reduced", "angular-mnist")


def angular_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the runs of ArcGrad's image experiments, without those that chose a learning rate and those that diverged.

    Trainings have ``samples`` (for training) and ``mean_target_angle`` (mean angle in radians between features and their class vectors,
    averaged over the evaluated epochs after the first evaluation).
    """
    if kind == "cost":
        return _cost_runs(runs)
    if "w_inter" not in runs:
        return runs.iloc[:0]
    runs = with_softmax(runs)
    runs = runs[(runs["scale"] != "smoke") & ~runs["diverged"].astype(bool) & ((runs["model"] != "mlp") | (kind != "angular-images"))]
    fast = runs["model"].isin(FAST) & runs["loss"].isin([ARCGRAD, *ARCGRAD_OTHERS]) & ~runs["match_gradient"].astype(bool)
    of_paper = runs["campaign"].isin(_CAMPAIGNS) & ~runs["record"].str.startswith("reading")
    found = with_setting(runs[of_paper | fast])
    if found.empty:
        return found
    found["variant"] = recipe(found).mask(found["model"] == "mlp", found["dataset"] + ", perceptron")
    found["samples"], found["epochs"] = found["train_samples"].astype(int), found["epochs"].astype(int)
    angles = found["curve_target_angle"]
    found["mean_target_angle"] = [float(np.mean(curve[1:])) if isinstance(curve, list) and len(curve) > 1 else np.nan for curve in angles]
    for name in ("epochs", "samples") if kind != "angular-cuts" else ():
        found = found[found[name] == found.groupby("variant")[name].transform("max")]
    return without_lonely(found[~found["model"].isin(FAST) | at_usual_rate(found)])


def _cost_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The times of a step, with ``excess``: that of the last layer and loss beyond softmax, as a share of a step with softmax."""
    if "step_seconds" not in runs:
        return runs.iloc[:0]
    found = with_setting(runs[runs["step_seconds"].notna() & (runs["scale"] != "smoke")])
    if found.empty:
        return found
    width = found["width"].map(lambda width: f"×{width:g}" if width != 1 else "full width")
    found["variant"] = found["measured_on"] + ", " + width + ", batches of " + found["batch_size"].astype(int).astype(str)
    plain = found[found["loss"] == "softmax"].set_index(["variant", "model", "seed"])
    beside = plain.reindex(pd.MultiIndex.from_frame(found[["variant", "model", "seed"]]))
    found["excess"] = (found["criterion_seconds"].to_numpy() - beside["criterion_seconds"].to_numpy()) / beside["step_seconds"].to_numpy()
    return found


# --- rules ---


def _cut(amount: str, about: Callable[[tuple[pd.DataFrame, str], tuple[pd.DataFrame, str]], Rule]) -> Rule:
    """The rule about the runs with the least and with the most of something, at the largest amount of the other that has several of it."""
    other = {"samples": "epochs", "epochs": "samples"}[amount]

    def rule(variant: Variant) -> Finding | None:
        amounts = variant.runs.groupby(other)[amount].nunique()
        if not (amounts > 1).any():
            return None
        full = variant.runs[variant.runs[other] == amounts[amounts > 1].index.max()]
        ends = [full[full[amount] == end] for end in (full[amount].min(), full[amount].max())]
        least, most = ((end, f"{end[amount].iloc[0]:,} {amount}".replace(",", "\u2009")) for end in ends)
        return about(least, most)(variant)

    return rule


def _gains(least: tuple[pd.DataFrame, str], most: tuple[pd.DataFrame, str]) -> Rule:
    """A5 a, c: ArcGrad minus softmax is larger with the least than with the most."""

    def gain(runs: pd.DataFrame, words: str) -> Side:
        return given(lambda _: runs, minus(of("test_accuracy", ARCGRAD), of("test_accuracy", "softmax"), f"{{}} minus {{}} with {words}"))

    return larger("test_accuracy", gain(*least), gain(*most))


def _beats(*others: str) -> Callable[[tuple[pd.DataFrame, str], object], Rule]:
    """A5 b, d: with the least ArcGrad is more accurate than the best of the others."""
    return lambda least, most: where(lambda _: least[0], larger("test_accuracy", ARCGRAD, best_of(*others)), least[1])


def _excess_of(model: str) -> Side:
    """ArcGrad's last layer and loss, beyond those of softmax, as a share of a step."""
    return given(lambda runs: runs[runs["model"] == model], of("excess", ARCGRAD, f"ArcGrad in {model}"))


def _compact(compare: Callable[..., Rule], loss: str) -> Rule:
    """A6 a, b: the WC-Intra of one loss against each of the others."""
    return all_of(*(compare("wc_intra", loss, other) for other in (ARCGRAD, *ARCGRAD_OTHERS) if other != loss))


_BEST_OTHER = best_of(*ARCGRAD_OTHERS[1:])

CLAIMS = {
    "A4": claim(
        "angular-images",
        a=larger("test_accuracy", ARCGRAD, "softmax"),
        b=larger("test_accuracy", ARCGRAD, _BEST_OTHER),
        c=larger("test_accuracy", _BEST_OTHER, "softmax"),
    ),
    "A5": claim(
        "angular-cuts",
        a=_cut("samples", _gains),
        b=_cut("samples", _beats("softmax", "arcface 20 0.1", "adacos")),  # Figure 3 has these beside ArcGrad
        c=_cut("epochs", _gains),
        d=_cut("epochs", _beats(*ARCGRAD_OTHERS)),
    ),
    "A6": claim(
        "angular",
        a=_compact(larger, "softmax"),
        b=_compact(smaller, ARCGRAD),
        c=larger("w_inter", ARCGRAD, "softmax"),
        d=smaller("mean_target_angle", ARCGRAD, "softmax"),
    ),
    "A7": claim(
        "cost",
        a=smaller("excess", _excess_of("resnet18"), by=0.05),
        b=smaller("excess", _excess_of("resnet34"), _excess_of("resnet18")),
    ),
}
"""For each claim its parts."""
