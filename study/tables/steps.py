"""The size of the step, and the training samples that an over-small β loses: what the page on Table 1 prints."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from study import criteria
from study.tables.book import difference, mean_sd
from study.tables.runs import ACTIVATIONS

BOTH = "pixels 0 to 255 (both)"
"""The arm in which the rate and the first weights of the first layer are larger, as they are on raw pixels."""
_FEW = 10  # errors, of which a share says nothing


def arms(runs: pd.DataFrame) -> pd.DataFrame:
    """Select the trainings of the step-size campaign, and those on pixels from 0 to 255 with the same β, from all records.

    Each has an ``arm`` (the learning rate of all layers, or what differs in the first layer alone, in words), its activation in words, and
    ``stuck``: the share of saturated outputs of tanh, of dead units of ReLU. ``share`` is that of the lost among ten errors or more. The
    rates come first, from the smallest.
    """
    stepped, grid = criteria.runs_of(runs, "step"), criteria.runs_of(runs, "grid")
    if stepped.empty:
        return stepped
    inputs, weights, rate = (stepped[name].astype(float) for name in ("input_scale", "first_weights", "learning_rate"))
    names = "first layer's rate × " + inputs.map("{:g}²".format), "first weights × " + weights.map("{:g}".format)
    stepped["arm"] = np.select([inputs != 1, weights != 1], names, "learning rate " + rate.map("{:g}".format))
    stepped = stepped.assign(weights=weights.where(inputs == 1, 1)).sort_values(["input_scale", "weights", "learning_rate"], kind="stable")
    raw = grid[grid["variant"].isin(["relu-none", "tanh-none"]) & grid["setting"].isin(set(stepped["setting"]))] if len(grid) else grid
    found = pd.concat([stepped, raw.assign(arm=BOTH)], ignore_index=True)
    found["stuck"] = np.where(found["activation"] == "tanh", found.get("saturated", np.nan), found.get("dead", np.nan))
    found["share"] = found["lost_share"].where(found["errors"] >= _FEW).clip(upper=1)  # at chance the right ones are lost too
    found["activation"] = found["activation"].map(ACTIVATIONS)
    return found.sort_values("activation", kind="stable", ignore_index=True)


def changes(found: pd.DataFrame, metric: str, betas: Sequence[float], spec: str, scale: float = 1.0) -> pd.DataFrame:
    """Give a metric at β = 1, mean ± standard deviation, and less it, paired over the seeds, that of other β: a row for each arm."""
    rows = []
    for (activation, arm), runs in found.groupby(["activation", "arm"], sort=False) if len(found) else ():
        wide = runs.pivot_table(index="seed", columns="beta", values=metric).reindex(columns=[1.0, *betas])
        row = {"activation": activation, "step": arm, "β = 1": mean_sd(wide[1.0], spec, scale=scale)}
        for beta in betas:
            pairs = wide[[beta, 1.0]].dropna()
            row[f"β = {beta:g} less β = 1"] = difference(pairs[beta], pairs[1.0], spec, scale=scale)
        rows.append(row)
    return pd.DataFrame(rows)
