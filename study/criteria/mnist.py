"""The runs of the MNIST campaign, how near each variant comes to the papers' Table 1, and the rules of E1 to E5, E14, E19 and B4."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from study import published
from study.criteria.rules import (
    Choice,
    Finding,
    Outcome,
    Rule,
    Side,
    Variant,
    all_of,
    any_of,
    best_of,
    claim,
    differs,
    given,
    larger,
    minus,
    of,
    provided,
    smaller,
    where,
    within,
)
from study.criteria.selection import of_gradient_decay, with_setting

# the grid holds every β and both warm-ups; the step the learning rates, also of the first layer alone, and larger first weights; the width
# every width at two of these rates; the link some β with samples held out
KINDS = ("grid", "feature-plane", "curriculum", "temperature", "warmup-length", "step", "width", "link")
_CAMPAIGNS = {
    "step": ["mnist-step"],
    "width": ["mnist-step", "mnist-width"],
    "temperature": ["mnist", "mnist-edges"],
    "link": ["mnist-edges"],
}

TABLE_1_BETAS = ("1", "0.5", "0.1", "0.01", "0.001")


def mnist_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the runs of one kind from the records of the MNIST campaigns; for the temperatures a setting is the pair (β, τ)."""
    runs = of_gradient_decay(runs)
    entry = runs["record"].str.replace(r"-seed\d+\.json$", "", regex=True)
    chosen = runs["campaign"].isin(_CAMPAIGNS.get(kind, ["mnist"]))
    if kind == "grid":
        chosen &= ~entry.str.startswith(KINDS[1:])
    elif kind not in ("step", "width"):
        chosen &= entry.str.startswith(kind)
    found = with_setting(runs[chosen])
    if found.empty:
        return found
    if kind == "width":
        usual = (found["activation"] == "relu") & (found["input_scale"] == 1) & (found["first_weights"] == 1)
        found = found[usual].assign(units=found["hidden"].map(lambda hidden: hidden[0]))
    found["variant"] = found["activation"] + "-" + found["normalization"]
    if "confidence_counts" in found:  # (0, 0.2], …, (0.8, 1]
        for name, interval in (("lost", 0), ("sure", -1)):
            found[name] = [counts[interval] if isinstance(counts, list) else np.nan for counts in found["confidence_counts"]]
    if {"lost", "train_accuracy", "train_samples"} <= set(found):
        found["errors"] = ((1 - found["train_accuracy"].astype(float)) * found["train_samples"]).round()
        found["lost_share"] = found["lost"] / found["errors"].where(found["errors"] > 0)
    if kind == "grid":
        curves = zip(found["curve_train_epoch"], found["curve_train_cross_entropy"], strict=True)
        first = ([value for epoch, value in zip(*curve, strict=True) if 1 <= epoch <= 10] for curve in curves)
        found["early_cross_entropy"] = list(map(np.mean, first))
    if kind == "curriculum":
        groups = np.array(found["group_confidence"].tolist())  # (runs, groups, epochs)
        reached = groups[:, -1] >= 0.9
        found["epoch_easy"] = np.where(reached.any(1), reached.argmax(1), groups.shape[2])  # one more than the epochs if never
        found["gap"] = (groups[:, -1, 1:] - groups[:, 0, 1:]).mean(1)
    if kind == "temperature":
        found["setting"] = list(zip(found["beta"].astype(float), found["temperature"].astype(float), strict=True))
    return found


def distance_to_table_1(grid: pd.DataFrame) -> pd.Series[float]:
    """Compute how far each variant is from the papers' Table 1, the nearest first.

    The mean over the five columns of half the sum of the absolute differences of the five shares (total variation); counts are means over
    the seeds.
    """
    table = published.table("GD-2", 1)
    distances = {}
    for variant, runs in grid.groupby("variant"):
        columns = []
        for beta in map(float, TABLE_1_BETAS):
            ours = np.mean(runs.loc[[setting == beta for setting in runs["setting"]], "confidence_counts"].tolist(), axis=0)
            theirs = table.loc[np.isclose(table["beta"].astype(float), beta), "value"].to_numpy(dtype=float)
            columns.append(0.5 * np.abs(ours / ours.sum() - theirs / theirs.sum()).sum())
        distances[str(variant)] = float(np.mean(columns))
    return pd.Series(distances, name="distance", dtype=float).sort_values()


# --- rules ---


def _increasing(metric: str, *settings: float) -> Rule:
    """Met if the means increase from setting to setting; contradicted if a step down is beyond its interval."""
    steps = all_of(*(larger(metric, second, first) for first, second in zip(settings, settings[1:], strict=False)))

    def rule(variant: Variant) -> Finding | None:
        if (found := steps(variant)) is None:
            return None
        rising = all(step.difference is not None and step.difference.mean >= 0 for step in found.components)
        outcome: Outcome = "met" if rising else "contradicted" if found.outcome == "contradicted" else "unresolved"
        return Finding(variant.name, outcome, "the means increase from step to step", scale=found.scale)

    return rule


def _nearest_confidence(variant: Variant) -> published.Setting | None:
    """The temperature, at β = 1, whose mean training confidence is nearest to that of β = 0.01 with τ = 1."""
    target = variant.having("train_confidence", (0.01, 1.0)).mean()
    means = _means(variant, "train_confidence")
    return min((pair for pair in means if pair[0] == 1.0), key=lambda pair: abs(means[pair] - target), default=None)


def _best_pair(*, beta: float | None = None, tau: float | None = None) -> Choice:
    """The pair with the largest mean validation accuracy, of those with this β or with this τ."""

    def choose(variant: Variant) -> published.Setting | None:
        means = _means(variant, "valid_accuracy")
        return max((pair for pair in means if beta in (None, pair[0]) and tau in (None, pair[1])), key=means.__getitem__, default=None)

    return choose


def _means(variant: Variant, metric: str) -> dict[tuple[float, float], float]:
    """The mean for each pair (β, τ) that has all its seeds, in order."""
    found = {pair: variant.having(metric, pair) for pair in sorted(set(variant.runs["setting"]))}
    return {pair: float(values.mean()) for pair, values in found.items() if len(values) >= variant.seeds}


def _arm(rate: float = 0.001, inputs: float = 1.0, weights: float = 1.0) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Keep the runs with this learning rate, these inputs and these first weights, each as a multiple of the usual ones."""
    wanted = {"learning_rate": rate, "input_scale": inputs, "first_weights": weights}
    return lambda runs: runs[np.logical_and.reduce([np.isclose(runs[name].astype(float), value) for name, value in wanted.items()])]


def _width(units: int, rate: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Keep the runs with so many units in the first layer at this learning rate."""
    return lambda runs: runs[(runs["units"] == units) & np.isclose(runs["learning_rate"].astype(float), rate)]


def _lost_more(units: int) -> Side:
    """Lost samples of β = 0.001 minus those of β = 1, at a learning rate of 0.1."""
    small, usual = (given(_width(units, 0.1), of("lost", beta)) for beta in (0.001, 1.0))
    return minus(small, usual, f"{units} units, {{}} minus {{}}")


def _share_at_each_rate(variant: Variant) -> Finding | None:
    """B4 e: over the seeds that have errors, at every rate at which two or more have."""
    rates = (0.001, 0.01, 0.03, 0.1)
    at_each = [replace(variant, runs=_arm(rate)(variant.runs)) for rate in rates]
    if any(len(at.having("errors", beta)) < variant.seeds for at in at_each for beta in (0.001, 1.0)):
        return None
    rules = [where(_arm(rate), larger("lost_share", 0.001, 1.0), f"rate {rate:g}") for rate in rates]
    return all_of(*rules)(replace(variant, seeds=2, some=True))


_BEST_CONSTANT = best_of(5.0, 2.0, 1.0, 0.1, 0.01)

CLAIMS = {
    "E1": claim("feature-plane", a=smaller("intra_inter_ratio", 0.1, 1.0), b=smaller("minimum_to_mean_inter", 0.01, 0.1)),
    "E2": claim(
        "curriculum",
        a=smaller("epoch_easy", 0.01, 1.0),
        b=larger("gap", 0.01, 1.0),
        c=larger("never_learnt", 0.01, 1.0),
    ),
    "E3": claim(
        "grid",
        a=larger("lost", 0.001, 1.0),
        b=all_of(larger("lost", 0.001, 0.5), _increasing("lost", 0.5, 0.1, 0.01, 0.001)),
        c=larger("sure", 0.1, 1.0),
    ),
    "E4": claim(
        "grid",
        a=larger("test_accuracy", 0.01, 1.0),
        b=larger("test_accuracy", 1.0, 5.0),
        c=any_of(*(larger("test_accuracy", warmup, _BEST_CONSTANT) for warmup in ("warm-up 0.001→0.01", "warm-up 0.01→0.1"))),
    ),
    "E5": claim("grid", a=smaller("early_cross_entropy", 0.01, 1.0), b=smaller("early_cross_entropy", 1.0, 5.0)),
    "E14": claim(
        "temperature",
        a=provided(
            within(0.001, "train_confidence", (0.01, 1.0), _nearest_confidence),
            differs("lost", (0.01, 1.0), _nearest_confidence),
        ),
        b=all_of(*(larger("test_accuracy", _best_pair(), _best_pair(**one)) for one in ({"tau": 1.0}, {"beta": 1.0}))),
    ),
    "B4": claim(
        "step",
        a=where(_arm(), smaller("errors", 0.001, 1.0), "rate 0.001"),
        b=where(_arm(0.1), larger("errors", 0.001, 1.0), "rate 0.1"),
        c=where(_arm(), smaller("lost", 0.001, 1.0), "rate 0.001"),
        d=where(_arm(0.1), larger("lost", 0.001, 1.0), "rate 0.1"),
        e=_share_at_each_rate,
        f=where(_arm(inputs=255, weights=1 / 255), larger("errors", 0.001, 1.0), "first layer's rate × 255²"),
        g=where(_arm(weights=255), larger("errors", 0.001, 1.0), "first weights × 255"),
    ),
    "E19": claim(
        "width",
        a=larger("lost", _lost_more(25), _lost_more(400)),
        b=where(_width(400, 0.1), within(60, "lost", 0.001, 1.0), "400 and 160 units"),
        c=where(_width(25, 0.001), larger("lost", 0.001, 1.0), "25 and 10 units, rate 0.001"),
    ),
}
"""For each claim its parts."""
