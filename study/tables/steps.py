"""The size of the step, and the training samples that an over-small β loses: what the page on Table 1 prints."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from study import criteria, published, statistics
from study.statistics import Interval, PairedDifference
from study.tables.measured import ACTIVATIONS

__all__ = ["BOTH", "arms", "change", "decomposition", "sentence"]

BOTH = "pixels 0 to 255: both, × 255"
_SMALL, _USUAL = 0.001, 1.0  # the two β that the criteria compare
_FROM, _TO = 0.5, 0.001  # between which the papers' Table 1 rises


def arms(runs: pd.DataFrame) -> pd.DataFrame:
    """Select the trainings of the step-size campaign, and those on pixels from 0 to 255 with the same β, from all records.

    Each has an ``arm`` (the learning rate of all layers, or what differs in the first layer alone, in words), its activation in words, and
    ``stuck``: the share of saturated outputs of tanh, of dead units of ReLU. The rates come first, from the smallest.
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
    found["activation"] = found["activation"].map(ACTIVATIONS)
    return found.sort_values("activation", kind="stable", ignore_index=True)


def _arm(inputs: float, weights: float, rate: float) -> str:
    if inputs != 1:
        return f"first rate × {inputs:g}²"
    return f"first weights × {weights:g}" if weights != 1 else f"rate {rate:g}"


def change(runs: pd.DataFrame, metric: str, beta: float = _SMALL) -> PairedDifference | float:
    """Subtract a metric of β = 1 from that of another β, paired by seed; the bare difference for one seed, NaN for none."""
    by = runs[runs["setting"].isin([beta, _USUAL])].pivot_table(index="seed", columns="setting", values=metric, aggfunc="mean")
    both = by.reindex(columns=[beta, _USUAL]).dropna().to_numpy(dtype=float)
    if len(both) < 2:
        return float(both[0, 0] - both[0, 1]) if len(both) else float("nan")
    return statistics.paired_difference(both[:, 0], both[:, 1])


def sentence(found: pd.DataFrame) -> str:
    """Say in which arms β = 0.001 leaves fewer training errors than β = 1, in which more, and in which the runs cannot tell."""
    texts = []
    for activation, runs in found.groupby("activation", sort=False):
        told: dict[str, list[str]] = {"fewer": [], "more": [], "as many, as far as the seeds can tell,": []}
        for arm, of_arm in runs.groupby("arm", sort=False):
            difference = change(of_arm, "errors")
            if isinstance(difference, PairedDifference):
                low, high = difference.interval.low, difference.interval.high
                told[list(told)[0 if high < 0 else 1 if low > 0 else 2]].append(str(arm))
        parts = [f"{word} with {_listed(names)}" for word, names in told.items() if names]
        texts += [f"With {activation}, β = {_SMALL:g} leaves {'; '.join(parts)}."] if parts else []
    return " ".join(texts) or "No arm has two seeds yet, so that nothing can be said."


def decomposition(grid: pd.DataFrame) -> pd.DataFrame:
    """Take the change of the lost samples from β = 0.5 to β = 0.001 apart, on a logarithmic scale: lost = errors × share of them lost.

    A row for the papers' Table 1, and one for each variant, with 95 % intervals over its seeds. The papers do not print the errors: the
    samples with p_c ≤ 0.4, and half of those up to 0.6, stand in for them; ``errors, stand-in``
    is the change of that number.
    """
    printed = published.table("GD-2", 1).pivot_table(index="beta", columns="interval", values="value", sort=False).to_numpy()
    betas = [1.0, 0.5, 0.1, 0.01, 0.001]
    rows = [{"variant": "the papers", **_changes(pd.DataFrame({"setting": betas, "seed": 0, "confidence_counts": printed.tolist()}))}]
    rows += [{"variant": str(variant), **_changes(runs)} for variant, runs in grid.groupby("variant", sort=False)]
    return pd.DataFrame(rows)


def _changes(runs: pd.DataFrame) -> dict[str, float | Interval]:
    """The logarithmic changes of the number lost, of the errors, and of the share, seed by seed."""
    counts = np.array(runs["confidence_counts"].tolist(), dtype=float)
    stand_in = counts[:, 0] + counts[:, 1] + counts[:, 2] / 2
    errors = runs["errors"].to_numpy(dtype=float) if "errors" in runs else stand_in
    parts = {"lost": counts[:, 0], "errors": errors, "share": counts[:, 0] / errors, "errors, stand-in": stand_in}
    changes = {}
    for name, values in parts.items():
        wide = runs.assign(value=np.log(values)).pivot_table(index="seed", columns="setting", values="value", aggfunc="mean")
        change = (wide[_TO] - wide[_FROM]).dropna()
        changes[name] = statistics.t_interval(change) if len(change) > 1 else float(change.iloc[0])
    return changes


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
