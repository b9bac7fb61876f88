"""Read the runs of campaigns as one table: a stopgap, until the records are tables."""

import pandas as pd

from study import records
from study.claims.facts import with_derived
from study.claims.narrowing import MEASURES


def read(*names: str) -> pd.DataFrame:
    """Read the runs of some campaigns, a row for each run."""
    runs = pd.concat([records.read(records.FOLDER / name) for name in names], ignore_index=True)
    runs["job"] = runs["campaign"] + "/" + runs["record"].str.removesuffix(".json")
    for first, other in (("schedule", "loss"), ("loss", "schedule")):
        if other in runs:
            runs[first] = runs.get(first, runs[other]).fillna(runs[other])
    runs = with_derived(runs)
    if {"curve_test_accuracy", "milestones", "epochs"} <= set(runs):
        flat = runs["milestones"].map(lambda m: isinstance(m, list)) & runs[
            "curve_test_accuracy"
        ].map(lambda c: isinstance(c, list))
        runs.loc[flat, "oscillation"] = MEASURES["oscillation"](runs[flat], 1)["oscillation"]
    if "criterion_seconds" in runs:
        runs = MEASURES["excess"](runs.assign(variant=runs["model"]), 1).drop(columns="variant")
    return runs
