"""Read the runs of campaigns with the numbers that claims compare and no table has."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd

from study import results

_RUN = ["job", "run"]


def read(*names: str) -> pd.DataFrame:
    """Read campaigns, a row for each run, with what follows from their tables.

    ``campaign`` names the campaign. Where it has what they follow from, the columns are

    - ``early_accuracy``: test accuracy, mean over the first quarter of the epochs;
    - ``early_cross_entropy`` of the training samples, mean over the first ten epochs;
    - ``oscillation``: deviation of the change of test accuracy from epoch to epoch, over the second
      half of the epochs before the learning rate falls;
    - ``gap``: confidence of the easiest minus the hardest fifth, mean over the epochs;
    - ``excess``: time of last layer and loss beyond softmax, as a share of a step with softmax.

    Example:
        >>> runs = read("mnist-edges")
        >>> float(runs.groupby("beta")["overconfidence"].mean().round(3)[5])
        -0.046
    """
    stamped = [(name, results.stamps(name)) for name in names]
    return pd.concat([_campaign(*one) for one in stamped], ignore_index=True)  # a copy


@functools.cache
def _campaign(name: str, stamps: object) -> pd.DataFrame:
    """Read a campaign whose files have these stamps: again where they have changed."""
    runs = results.read(name).assign(campaign=name)
    if "milestones" in runs:  # none where the page has no such parameter
        runs["milestones"] = [
            ends if isinstance(ends, tuple) else () for ends in runs["milestones"]
        ]
    if "criterion_seconds" in runs:
        softmax = runs[runs["loss"] == "softmax"].set_index(["model", "seed"])
        same = softmax.reindex(pd.MultiIndex.from_frame(runs[["model", "seed"]]))
        runs["excess"] = runs["criterion_seconds"] - same["criterion_seconds"].to_numpy()
        runs["excess"] /= same["step_seconds"].to_numpy()
    return runs.merge(_of_curves(results.curves(name), runs), on=_RUN, how="left")


def _of_curves(curves: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    if "epoch" not in curves or "epochs" not in runs:
        return pd.DataFrame(columns=_RUN)
    settings = ["epochs", "milestones"] if "milestones" in runs else ["epochs"]
    curves = curves.merge(runs[[*_RUN, *settings]], on=_RUN).sort_values([*_RUN, "epoch"])
    columns: dict[str, pd.Series[float]] = {}
    if "test_accuracy" in curves:
        tested = curves.dropna(subset="test_accuracy")
        every = tested.groupby(_RUN)["epoch"].transform("size") >= tested["epochs"]
        early = tested[every & tested["epoch"].between(1, (tested["epochs"] // 4).clip(lower=1))]
        columns["early_accuracy"] = early.groupby(_RUN)["test_accuracy"].mean()
    if "milestones" in curves:
        falls = tested["milestones"].map(lambda epochs: min(epochs, default=1)) * tested["epochs"]
        end = falls.astype(float).round()
        half = tested[every & tested["epoch"].between(end // 2, end)]
        changes = half.assign(change=half.groupby(_RUN)["test_accuracy"].diff())
        columns["oscillation"] = changes.groupby(_RUN)["change"].std()
    if "train_cross_entropy" in curves:
        first_ten = curves[curves["epoch"].between(1, 10)]
        columns["early_cross_entropy"] = first_ten.groupby(_RUN)["train_cross_entropy"].mean()
    if "group_confidence_4" in curves:
        gap = curves["group_confidence_4"] - curves["group_confidence_0"]
        after = curves.assign(gap=gap)[curves["epoch"] > 0]
        columns["gap"] = after.groupby(_RUN)["gap"].mean()
    return pd.DataFrame(columns).rename_axis(_RUN).reset_index()


def law(runs: pd.DataFrame, recipe: list[str]) -> pd.DataFrame:
    """Hold the law of over-confidence against runs: a row for each recipe and β, in points.

    Over-confidence at β is *predicted* as that at β = 1 plus the *shift* of the link: the mean
    confidence of the softmax minus that after :func:`gdlib.calibration.beta_link`. *measured* is
    the mean over the seeds.
    """
    runs = runs[pd.to_numeric(runs["schedule"], errors="coerce").notna()]
    runs = runs.assign(
        measured=100 * runs["overconfidence"],
        shift=100 * (runs["test_confidence"] - runs["test_confidence_link"]),
    )
    cells = runs.groupby([*recipe, "beta"]).agg(
        measured=("measured", "mean"), shift=("shift", "mean"), seeds=("seed", "nunique")
    )
    at_one = cells.xs(1.0, level="beta")["measured"].rename("at one")
    cells = cells.join(at_one, on=recipe).dropna().reset_index()
    cells["predicted"] = cells["at one"] + cells["shift"]
    return cells


def calibrated(cells: pd.DataFrame, recipe: list[str]) -> pd.Series:
    """Interpolate the β at which over-confidence is 0, in log β, for the recipes that cross 0."""
    found = {}
    for name, of_recipe in cells.groupby(recipe):
        ordered = of_recipe.sort_values("measured")
        if ordered["measured"].iloc[0] < 0 < ordered["measured"].iloc[-1]:
            found[name] = float(np.exp(np.interp(0, ordered["measured"], np.log(ordered["beta"]))))
    return pd.Series(found)
