"""What the selections of runs share."""

from __future__ import annotations

import pandas as pd

FAST = ("fast",)
"""The network that reaches real accuracy on two CPU cores."""

_NOT_THE_PAPERS = ("angular-mnist", "uci-readings", "iris-depth-settings")
_NOT_THE_PAPERS_ON_MNIST = ("temperature", "feature-plane")


def _with_gradient_decay(runs: pd.DataFrame) -> pd.Series[bool]:
    """Records from before there was another loss do not name it."""
    return runs["loss"].isna() | (runs["loss"] == "gd") if "loss" in runs else pd.Series(True, runs.index)


def of_gradient_decay(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs that were trained with gradient decay."""
    return runs[_with_gradient_decay(runs)]


def image_networks(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs of image networks at more than the smallest scale."""
    return runs[runs["model"].notna() & (runs["model"] != "mlp") & (runs["scale"] != "smoke")]


def long_tailed(runs: pd.DataFrame) -> pd.Series[bool]:
    """Tell for each run if its classes were of unequal size; old records, in which none were, do not say."""
    return runs["imbalance"] > 1 if "imbalance" in runs else pd.Series(False, runs.index)


def with_setting(runs: pd.DataFrame) -> pd.DataFrame:
    """Copy the runs, without empty columns, and add ``setting``: the number of a constant β, or the label of a warm-up or a loss."""
    found = runs.dropna(axis=1, how="all").copy()
    if found.empty:
        return found
    label = found["schedule"] if "schedule" in found else found["loss"]
    of_beta = _with_gradient_decay(found) & ~label.astype(str).str.startswith(("warm-up", "feedback"))
    found["setting"] = label.astype(object).mask(of_beta, found["beta"].astype(float)) if "beta" in found else label.astype(object)
    return found


def with_softmax(runs: pd.DataFrame) -> pd.DataFrame:
    """Call β = 1 on a network of :data:`FAST` softmax, for the losses that are compared with it there."""
    plain = _with_gradient_decay(runs) & runs["model"].isin(FAST) & (runs["schedule"] == "1")
    return runs.assign(loss=runs["loss"].mask(plain, "softmax"), schedule=runs["schedule"].mask(plain, "softmax"))


def without_lonely(runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out the variants of :data:`FAST` in which softmax has no other loss beside it."""
    return runs[~runs["model"].isin(FAST) | (runs.groupby("variant")["setting"].transform("nunique") > 1)]


def at_the_scale_of_a_paper(runs: pd.DataFrame) -> pd.DataFrame:
    """Call reduced what old records call the papers' scale although no paper has that experiment on that data, or does not say how.

    AG has no MNIST. The choice of a variant on UCI and Iris has few seeds. The grid of temperatures holds 5,000 samples out. The network of
    the feature planes is unknown.
    """
    if runs.empty or "scale" not in runs or "record" not in runs:
        return runs
    stretched = runs["campaign"].isin(_NOT_THE_PAPERS)
    stretched |= (runs["campaign"] == "mnist") & runs["record"].str.startswith(_NOT_THE_PAPERS_ON_MNIST)
    return runs.assign(scale=runs["scale"].mask(stretched & (runs["scale"] == "paper"), "reduced"))


def on_fast(variant: str) -> bool:
    """Tell by its name if a variant is one of :data:`FAST`."""
    return any(f", {name}, " in variant for name in FAST)


def recipe(runs: pd.DataFrame) -> pd.Series[str]:
    """Name data set, network (with its width, where that is not the usual one) and augmentation of each run."""
    width = runs["width"].map(lambda width: f"×{width:g}" if width != 1 else "").astype(object)
    return runs["dataset"] + ", " + runs["model"] + width + ", " + augmentation(runs)


def augmentation(runs: pd.DataFrame) -> pd.Series[str]:
    """Name the augmentation of each run."""
    return runs["augmentation"].replace({"none": "plain", "crop-flip": "crops and flips", "crop2-flip": "crops and flips"})


def at_usual_rate(runs: pd.DataFrame) -> pd.Series[bool]:
    """Tell for each run if it has the learning rate that most settings of its variant were run with."""
    counts = runs.assign(setting=runs["setting"].astype(str)).groupby(["variant", "learning_rate"])["setting"].nunique()
    usual = {variant: of_variant.droplevel(0).idxmax() for variant, of_variant in counts.groupby("variant")}
    return runs["learning_rate"] == runs["variant"].map(usual)
