"""The papers' numbers for image networks beside ours: what the evidence pages on accuracy and calibration print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from study import published
from study.tables.book import MISSING, cell, mean_sd, overview

_TABLES = {"GD-1": (2, 3, 4, 5), "GD-2": (2, 3, 4, 5, 6)}


def printed() -> pd.DataFrame:
    """Every number that the gradient-decay papers print for image networks trained with GD-softmax, in the names and units of the records.

    The ``schedule`` is the label of a β or of a warm-up; ``warm-up`` alone where the paper does not print its ends. After a post-hoc method
    the schedule is ``1`` and the ``outcome`` such as ``test_ece_temperature``. The ``value`` is a share. A number in two tables comes once.
    """
    found = pd.concat([published.table(paper, number) for paper, numbers in _TABLES.items() for number in numbers], ignore_index=True)
    found = found[found["method"].isin(["GD-softmax", "warm-up", *published.POST_HOC])]
    ends = found["beta_start"].map("{:g}".format) + "→" + found["beta_end"].map("{:g}".format)
    schedule = (
        found["beta"].map("{:g}".format).where(found["beta"].notna(), ("warm-up " + ends).where(found["beta_start"].notna(), "warm-up"))
    )
    post_hoc = found["method"].map(published.POST_HOC)
    result = pd.DataFrame(
        {
            "paper": found["paper"],
            "dataset": found["dataset"],
            "model": found["model"].replace("ResNet35", "ResNet34"),
            "schedule": schedule.where(post_hoc.isna(), "1"),
            "beta": found["beta"].where(post_hoc.isna(), 1.0),
            "outcome": found["metric"].map({metric: outcome for metric, (outcome, _) in published.METRICS.items()}) + post_hoc.fillna(""),
            "value": (found["value"] * found["unit"].map({"%": 0.01, "fraction": 1.0})).round(6),
        }
    )
    return result.drop_duplicates(["paper", "dataset", "model", "schedule", "outcome"]).reset_index(drop=True)


def beside(runs: pd.DataFrame, outcome: str, *, datasets: Sequence[str], spec: str = ".1f") -> pd.DataFrame:
    """One outcome in per cent for every schedule: a row for each network of the papers, then one for each reading of ours.

    The columns go from the largest β to the warm-ups; ours are mean ± standard deviation over the seeds; ``datasets`` as the papers call
    them.

    Example:
        >>> beside(pd.DataFrame(), "test_ece", datasets=["CIFAR-10"]).values.tolist()
        [['GD-2, ResNet18', 'paper', '–', '2.3', '2.6', '3.8', '4.5']]
    """
    theirs = printed()
    theirs = theirs[(theirs["outcome"] == outcome) & theirs["dataset"].isin(datasets)]
    name_dataset = len(datasets) > 1
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for (dataset, paper, model), group in theirs.groupby(["dataset", "paper", "model"], sort=False):
        source = ", ".join([str(paper), *([str(dataset)] if name_dataset else []), str(model)])
        cells = {label: f"{100 * value:.1f}" for label, value in zip(group["schedule"], group["value"], strict=True)}
        rows[source, "paper", MISSING] = cells
    if not runs.empty and outcome in runs:
        ours = runs[runs["dataset"].map(published.DATASETS).isin(datasets) & runs[outcome].notna()]
        for (reading, scale), group in ours.groupby(["variant", "scale"], sort=False):
            cells = {str(label): mean_sd(at[outcome], spec, scale=100) for label, at in group.groupby("schedule", sort=False)}
            rows[str(reading), str(scale), str(group["seed"].nunique())] = cells
    labels = sorted({label for cells in rows.values() for label in cells}, key=_order)
    return pd.DataFrame(
        [
            {"source": source, "scale": scale, "seeds": seeds} | {_heading(label): cells.get(label, MISSING) for label in labels}
            for (source, scale, seeds), cells in rows.items()
        ]
    )


def settings(runs: pd.DataFrame) -> pd.DataFrame:
    """What was run in each reading: scale, training images, epochs, learning rate, parameters of the network, seeds, runs."""
    rows = []
    for (reading, scale), group in runs.groupby(["variant", "scale"], sort=False) if not runs.empty else ():
        first = group.iloc[0]
        rows.append(
            {
                "variant": str(reading),
                "scale": str(scale),
                "training images": int(first["subset"]) or "all but the validation split",
                "epochs": int(first["epochs"]),
                "learning rate": f"{first['learning_rate']:g}",
                "parameters": int(first["model_parameters"]),
                "seeds": int(group["seed"].nunique()),
                "runs": len(group),
            }
        )
    return or_not_run(pd.DataFrame(rows))


def outcomes(
    runs: pd.DataFrame, columns: Mapping[str, tuple[str, str, float]], *, by: Sequence[str] = ("variant", "scale", "β")
) -> pd.DataFrame:
    """Several outcomes of every setting, as :func:`study.tables.overview` gives them; one that no run has is left out."""
    if runs.empty:
        return or_not_run(runs)
    there = {name: how for name, how in columns.items() if name in runs and runs[name].notna().any()}
    return overview(runs.rename(columns={"schedule": "β"}), list(by), there)


def chosen_beta(runs: pd.DataFrame) -> dict[str, str]:
    """For each reading the constant β with the smallest mean validation ECE, the one that the criterion of E12 chooses."""
    if runs.empty:
        return {}
    constant = runs[runs["warmup_epochs"] == 0]
    of_reading = constant.groupby("variant", sort=False)
    return {str(reading): str(group.groupby("schedule")["valid_ece"].mean().idxmin()) for reading, group in of_reading}


def span(runs: pd.DataFrame, column: str, schedule: str, *, less: str | None = None, spec: str = ".1f", scale: float = 100.0) -> str:
    """An outcome of a schedule in all readings, for a sentence: its mean in one, or the smallest and the largest mean.

    ``less`` is a schedule to subtract, seed by seed.

    Example:
        >>> runs = pd.DataFrame({"variant": list("abab"), "schedule": list("1122"), "seed": 0, "accuracy": [0.9, 0.8, 0.7, 0.9]})
        >>> span(runs, "accuracy", "1"), span(runs, "accuracy", "2", less="1"), span(runs[:0], "accuracy", "1")
        ('80.0 to 90.0', '−20.0 to 10.0', '–')
    """
    if runs.empty or column not in runs:
        return MISSING
    values = runs.pivot_table(index=["variant", "seed"], columns="schedule", values=column)
    if schedule not in values or (less is not None and less not in values):
        return MISSING
    wanted = (values[schedule] if less is None else values[schedule] - values[less]).dropna()
    means = (scale * wanted).groupby(level=0).mean()
    if means.empty:
        return MISSING
    ends = [cell(float(format(end, spec)) + 0.0, spec) for end in (means.min(), means.max())]  # not −0.0
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def ordered(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs reading by reading, from the largest β to the warm-ups; readings at the papers' scale first."""
    if runs.empty:
        return runs
    by = {"dataset": True, "scale": True, "variant": True, "warmup_epochs": True, "beta": False, "seed": True}
    return runs.sort_values(list(by), ascending=list(by.values()))


def or_not_run(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, or, if it is empty, a cell that says so, since a table of the book has at least one row."""
    return pd.DataFrame({"": ["not run yet"]}) if frame.empty else frame


def _order(label: str) -> tuple[int, float, str]:
    """From the largest β down, then the warm-ups."""
    try:
        return 0, -float(label), label
    except ValueError:
        return 1, 0.0, label


def _heading(label: str) -> str:
    return label if label.startswith("warm-up") else f"β = {label}"
