"""The size of the step, and the training samples that an over-small β loses: what the page on Table 1 prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from study import criteria, published, statistics
from study.criteria import distance_to_table_1
from study.statistics import Interval
from study.tables.book import cell, difference, mean_sd
from study.tables.runs import ACTIVATIONS

BOTH = "pixels 0 to 255 (both)"
"""The arm in which the rate and the first weights of the first layer are larger, as they are on raw pixels."""
_SMALL, _USUAL = 0.001, 1.0  # the two β that the criteria compare
_FEW = 10  # errors, of which a share says nothing
_CHANCE = 0.2  # training accuracy with ten classes, far below what any network that learns has
_FROM, _TO = 0.5, 0.001  # between which the papers' Table 1 rises


def arms(runs: pd.DataFrame) -> pd.DataFrame:
    """Select the trainings of the step-size campaign, and those on pixels from 0 to 255 with the same β, from all records.

    Each has an ``arm`` (the learning rate of all layers, or what differs in the first layer alone, in words), its activation in words, and
    ``stuck``: the share of saturated outputs of tanh, of dead units of ReLU. ``share`` is that of the lost among ten errors or more. The
    rates come first, from the smallest.
    """
    stepped, grid = criteria.runs_of(runs, "step"), criteria.runs_of(runs, "grid")
    if stepped.empty:
        return stepped
    names = ["input_scale", "first_weights", "learning_rate"]
    arm = [(inputs, 1.0 if inputs > 1 else weights, rate) for inputs, weights, rate in stepped[names].astype(float).to_numpy()]
    stepped = stepped.assign(arm=[_arm(*of_run) for of_run in arm]).iloc[sorted(range(len(arm)), key=arm.__getitem__)]
    raw = grid[grid["variant"].isin(["relu-none", "tanh-none"]) & grid["setting"].isin(set(stepped["setting"]))] if len(grid) else grid
    found = pd.concat([stepped, raw.assign(arm=BOTH)], ignore_index=True)
    stuck = {name: found[name] if name in found else np.nan for name in ("saturated", "dead")}
    tanh = found["activation"] == "tanh"
    found["stuck"] = np.where(tanh, stuck["saturated"], stuck["dead"])
    found["share"] = found["lost_share"].where(found["errors"] >= _FEW).clip(upper=1)  # at chance the right ones are lost too
    found["activation"] = found["activation"].map(ACTIVATIONS)
    return found.sort_values("activation", kind="stable", ignore_index=True)


def _arm(inputs: float, weights: float, rate: float) -> str:
    if inputs != 1:
        return f"first layer's rate × {inputs:g}²"
    return f"first weights × {weights:g}" if weights != 1 else f"learning rate {rate:g}"


def changes(found: pd.DataFrame, metric: str, betas: Sequence[float], spec: str, scale: float = 1.0) -> pd.DataFrame:
    """Give a metric at β = 1, mean ± standard deviation, and less it, paired over the seeds, that of other β: a row for each arm.

    The difference of a single seed stands in parentheses.
    """
    rows = []
    for (activation, arm), runs in found.groupby(["activation", "arm"], sort=False) if len(found) else ():
        row = {"activation": activation, "step": arm, "β = 1": mean_sd(runs.loc[runs["setting"] == _USUAL, metric], spec, scale=scale)}
        for beta in betas:
            pair = _pairs(runs, metric, beta)
            single = f"({cell(scale * float((pair[beta] - pair[_USUAL]).iloc[0]), f'+{spec}')})" if len(pair) == 1 else ""
            row[f"β = {beta:g} less β = 1"] = single or difference(pair[beta], pair[_USUAL], spec, scale=scale)
        rows.append(row)
    return pd.DataFrame(rows)


def _pairs(runs: pd.DataFrame, metric: str, beta: float) -> pd.DataFrame:
    """A metric of one β and of β = 1, for the seeds that have both."""
    runs = runs[runs["setting"].isin([beta, _USUAL])].astype({"setting": float})
    return runs.pivot_table(index="seed", columns="setting", values=metric, aggfunc="mean").reindex(columns=[beta, _USUAL]).dropna()


def sentence(found: pd.DataFrame) -> str:
    """Say in which arms β = 0.001 leaves fewer training errors than β = 1, in which more, and in which the seeds cannot tell."""
    texts = []
    for activation, runs in found.groupby("activation", sort=False) if len(found) else ():
        told: dict[str, list[str]] = {"fall": [], "rise": [], "cannot be told apart": []}
        for arm, of_arm in runs.groupby("arm", sort=False):
            if len(pair := _pairs(of_arm, "errors", _SMALL)) > 1:
                interval = statistics.paired_difference(pair[_SMALL], pair[_USUAL]).interval
                told[list(told)[0 if interval.high < 0 else 1 if interval.low > 0 else 2]].append(str(arm))
        parts = [f"{word} with {_listed(names)}" for word, names in told.items() if names]
        texts += [f"With {activation}, from β = 1 to β = {_SMALL:g} training errors {'; '.join(parts)}."] if parts else []
    return " ".join(texts) or "No step has two seeds yet, so that nothing can be said."


def at_chance(found: pd.DataFrame) -> str:
    """Name the trainings whose network tells no class from another in the end; empty if there are none."""
    gone = found[found["train_accuracy"].astype(float) < _CHANCE] if len(found) else found
    names = [f"{run.activation}, {run.arm}, β = {run.beta:g}, seed {run.seed:.0f}" for run in gone.itertuples()]
    return f"Ended at chance, with all images lost: {'; '.join(names)}." if names else ""


def nearest(found: pd.DataFrame) -> pd.Series[float]:
    """Compute how far the confidences of each arm are from the papers' Table 1, the nearest first."""
    whole = found[found["confidence_counts"].notna()] if "confidence_counts" in found else found.iloc[:0]
    return distance_to_table_1(whole.assign(variant=whole["activation"] + ", " + whole["arm"])) if len(whole) else pd.Series(dtype=float)


def decomposition(grid: pd.DataFrame) -> pd.DataFrame:
    """Take the change of the lost samples from β = 0.5 to β = 0.001 apart, on a logarithmic scale: lost = errors × share of them lost.

    A row for the papers' Table 1, and one for each variant, with 95 % intervals over its seeds. The papers do not print the errors: the
    samples with p_c ≤ 0.4, and half of those up to 0.6, stand in for them; ``errors, stand-in``
    is the change of that number.
    """
    printed = published.table("GD-2", 1).pivot_table(index="beta", columns="interval", values="value", sort=False).to_numpy()
    betas = [1.0, 0.5, 0.1, 0.01, 0.001]
    rows = [{"variant": "the papers", **_logarithmic(pd.DataFrame({"setting": betas, "seed": 0, "confidence_counts": printed.tolist()}))}]
    rows += [
        {"variant": str(variant), **_logarithmic(runs)} for variant, runs in (grid.groupby("variant", sort=False) if len(grid) else ())
    ]
    return pd.DataFrame(rows)


def _logarithmic(runs: pd.DataFrame) -> dict[str, float | Interval]:
    """The logarithmic changes of the number lost, of the errors, and of the share, seed by seed."""
    counts = np.array(runs["confidence_counts"].tolist(), dtype=float)
    stand_in = counts[:, 0] + counts[:, 1] + counts[:, 2] / 2
    errors = runs["errors"].to_numpy(dtype=float) if "errors" in runs else stand_in
    parts = {"lost": counts[:, 0], "errors": errors, "share": counts[:, 0] / errors, "errors, stand-in": stand_in}
    found = {}
    for name, values in parts.items():
        wide = runs.assign(value=np.log(values)).pivot_table(index="seed", columns="setting", values="value", aggfunc="mean")
        change = (wide[_TO] - wide[_FROM]).dropna()
        found[name] = statistics.t_interval(change) if len(change) > 1 else float(change.iloc[0])
    return found


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
