"""Recompute every interval of the ledger: tables, runs and Welch's formula a second time."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import t

from study import ledger

ROOT, KEYS = Path(__file__).parents[2], ["job", "run"]
CLAIMS = yaml.safe_load((ROOT / "book/claims.yml").read_text("utf-8"))["claims"]
DEFAULTS = {"match_gradient": False, "validation_size": 0, "labels": "clean", "angles": False}


def numbers(run, curve):
    """What the tables have no column for, of one run."""
    more = {"overconfidence": run.test_confidence - run.test_accuracy}
    more["errors"] = round((1 - run.train_accuracy) * run.train_samples)
    tested = curve["test_accuracy"].dropna() if "test_accuracy" in curve else pd.Series()
    if len(tested) == run.epochs + 1:
        more["early_accuracy"] = tested.iloc[1 : run.epochs // 4 + 1].mean()
        more["oscillation"] = tested.iloc[run.epochs // 2 :].diff().std()
    if "train_cross_entropy" in curve:
        more["early_cross_entropy"] = curve.query("1 <= epoch <= 10")["train_cross_entropy"].mean()
    if "group_confidence_4" in curve:
        more["gap"] = (curve["group_confidence_4"] - curve["group_confidence_0"]).iloc[1:].mean()
    return more


def campaign(name):
    """The runs of a campaign, with the parameters of their jobs."""
    files = [ROOT / "results" / part / f"{name}.csv" for part in ("", "jobs")]
    runs, jobs = (pd.read_csv(file, dtype={"schedule": str}) for file in files)
    runs = runs.merge(jobs[["job", *set(jobs).difference(runs)]], on="job")
    for key, value in DEFAULTS.items():
        runs[key] = runs[key].fillna(value) if key in runs else value
    if "criterion_seconds" in runs:
        both = runs.merge(runs[runs["loss"] == "softmax"], on=["model", "seed"])
        beyond = both["criterion_seconds_x"] - both["criterion_seconds_y"]
        both["excess"] = beyond / both["step_seconds_y"]
        return both.rename(columns=lambda key: key.removesuffix("_x"))
    if "test_confidence" not in runs:
        return runs
    runs["units"] = runs["hidden"].str.extract(r"\[(\d+)")[0].fillna("0").astype(int)
    curves = pd.read_parquet(ROOT / f"results/curves/{name}.parquet")
    curve_of = dict(list(curves.sort_values("epoch").groupby(KEYS)))
    each = zip(runs.itertuples(), zip(runs["job"], runs["run"], strict=True), strict=True)
    rows = [numbers(run, curve_of.get(key, {})) for run, key in each]
    return runs.join(pd.DataFrame(rows, index=runs.index))


def samples(runs, side, compared, unit):
    """The runs behind one side: a list of series, one value for each seed."""
    if isinstance(side, float):
        return [pd.Series([side])]
    if "minus" in side:
        first, second = (samples(runs, one, compared, unit)[0] for one in side["minus"])
        return [first, -second]
    column, named = side.get("metric", compared["metric"]), set(side) - {"metric", "by"}
    wanted = {key: side[key] if isinstance(side[key], list) else [side[key]] for key in named}
    candidates = []
    for values in product(*wanted.values()):
        own = runs[runs["schedule"].str.fullmatch(r"[\d.e-]+")] if "beta" in wanted else runs
        for key, value in zip(wanted, values, strict=True):
            own = own[own[key] == value]
        if len(own):
            mean = own[side.get("by", column)].mean()
            candidates.append((mean, own.groupby(unit)[column].mean().dropna()))
    return [(min if compared.get("smaller") else max)(candidates, key=lambda one: one[0])[1]]


def interval(plus, minus, paired):
    """The difference with its ends."""
    terms = plus + [-one for one in minus]
    if paired:
        each = sum(terms[1:], terms[0]).dropna()
        error, freedom = each.std() / np.sqrt(len(each)), len(each) - 1
    else:
        squares = [(one.var() / len(one), len(one) - 1) for one in terms if len(one) > 1]
        error = np.sqrt(sum(square for square, _ in squares))
        freedom = error**4 / sum(square**2 / count for square, count in squares)
    return sum(one.mean() for one in terms) + t.ppf([0.5, 0.025, 0.975], freedom) * error


@pytest.mark.parametrize("name", [name for name, entry in CLAIMS.items() if "compare" in entry])
def test_each_interval_is_found_again(name):
    entry, compared, again = CLAIMS[name], CLAIMS[name]["compare"], []
    runs = pd.concat(map(campaign, entry["runs"]["from"]))
    runs = runs.query(entry["runs"].get("where", "seed >= 0"), engine="python")
    unit = compared.get("paired", "seed")
    for _, group in runs.groupby(entry["variant"]):
        sides = [samples(group, compared[key], compared, unit) for key in ("better", "than")]
        again.append(interval(*sides, "paired" in compared))
    decided = ledger.decide(name).comparison[["difference", "low", "high"]]
    assert np.allclose(again, decided, rtol=1e-5, atol=1e-6)  # curves have seven digits
