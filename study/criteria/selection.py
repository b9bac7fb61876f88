"""What the selections of runs share."""

from __future__ import annotations

import pandas as pd


def of_gradient_decay(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs that were trained with gradient decay; records from before there was another loss do not name it."""
    return runs[runs["loss"].isna() | (runs["loss"] == "gd")] if "loss" in runs else runs


def with_setting(runs: pd.DataFrame) -> pd.DataFrame:
    """Copy the runs, without empty columns, and add ``setting``: the number of a constant β, or the label of a warm-up or a loss."""
    found = runs.dropna(axis=1, how="all").copy()
    if found.empty:
        return found
    label = found["schedule"] if "schedule" in found else found["loss"]
    of_beta = ~label.astype(str).str.startswith("warm-up")
    if "loss" in found:
        of_beta &= found["loss"].isna() | (found["loss"] == "gd")
    found["setting"] = label.astype(object).mask(of_beta, found["beta"].astype(float)) if "beta" in found else label.astype(object)
    return found


_NOT_THE_PAPERS = ("angular-mnist", "uci-readings", "iris-depth-settings")
_NOT_THE_PAPERS_ON_MNIST = ("temperature", "feature-plane")


def honest_scale(runs: pd.DataFrame) -> pd.DataFrame:
    """Call reduced what old records call the papers' scale although no paper has that experiment on that data, or does not say how.

    AG has no MNIST. The choice of a variant on UCI and Iris has few seeds. The grid of temperatures holds 5,000 samples out. The network of
    the feature planes is unknown.
    """
    if runs.empty or "scale" not in runs or "record" not in runs:
        return runs
    stretched = runs["campaign"].isin(_NOT_THE_PAPERS)
    stretched |= (runs["campaign"] == "mnist") & runs["record"].str.startswith(_NOT_THE_PAPERS_ON_MNIST)
    return runs.assign(scale=runs["scale"].mask(stretched & (runs["scale"] == "paper"), "reduced"))


def network(runs: pd.DataFrame) -> pd.Series[str]:
    """Name the network of each run, with its width where that is not the usual one."""
    return runs["model"] + runs["width"].map(lambda width: f"×{width:g}" if width != 1 else "").astype(object)


def augmentation(runs: pd.DataFrame) -> pd.Series[str]:
    """Name the augmentation of each run."""
    return runs["augmentation"].replace({"none": "plain", "crop-flip": "crops and flips", "crop2-flip": "crops and flips"})


def most_run_rate(runs: pd.DataFrame) -> pd.Series[float]:
    """For each run the learning rate that most settings of its variant were run with."""
    counts = runs.assign(setting=runs["setting"].astype(str)).groupby(["variant", "learning_rate"])["setting"].nunique()
    return runs["variant"].map({variant: of_variant.droplevel(0).idxmax() for variant, of_variant in counts.groupby("variant")})
