"""What ``claims/runs.yml`` calls by a name: which runs count beside others.

A narrowing takes runs with their ``variant`` and ``method``, and keeps some of them, by what other
runs of the variant are. It reads parameters alone, so that it can be asked of planned runs too; but
for the longest curve, where of planned runs the first is kept. A measure comes behind it, and adds
a column that needs several runs or a whole curve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd

from study.claims.facts import whole
from study.claims.paper_tables import TABLE_I, paper_table_i, standings
from study.methods import Method
from study.variants import FAST, Variant

WITH_MOMENTUM = "momentum 0.9"
NO_MOMENTUM = "no momentum"
SAME_STEP = "no momentum, ten times the learning rate"

_SOFTMAX = Method.parse("softmax")
_RECIPE = ("dataset", "model", "width", "augmentation", "epochs")
"""Columns of runs that differ in their samples and labels alone."""


def by_variant(runs: pd.DataFrame) -> Iterator[tuple[Variant, pd.DataFrame]]:
    """Go through the variants, sorted, each with its runs."""
    for variant, group in runs.groupby("variant") if not runs.empty else ():
        yield cast(Variant, variant), group


def at_usual_rate(runs: pd.DataFrame) -> pd.Series[bool]:
    """Tell for each run if it has the usual learning rate.

    It is the one that most methods of its variant were run with; of several such, the smallest.
    """
    counts = runs.groupby(["variant", "learning_rate"])["method"].nunique()
    usual = {
        variant: of_variant.droplevel(0).idxmax()
        for variant, of_variant in counts.groupby("variant")
    }
    return runs["learning_rate"] == runs["variant"].map(usual)


def beside(runs: pd.DataFrame, marked: pd.Series[bool]) -> pd.DataFrame:
    """Keep the variants that have a run that is marked."""
    return runs[runs["variant"].isin(runs.loc[marked, "variant"])]


# --- learning rates and momentum ---


def _usual_rate(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[at_usual_rate(runs)]


def _usual_rate_of_small_network(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["model"] != FAST) | at_usual_rate(runs)]


def _several_rates(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs.groupby("variant")["learning_rate"].transform("nunique") > 1]


def _with_and_without_momentum(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the variants that were trained with and without momentum; each run has its ``step``."""
    moving = runs["momentum"] > 0
    slowest = runs["learning_rate"].where(moving).groupby(runs["variant"]).transform("min")
    ratio = runs["learning_rate"] / slowest
    runs = runs.assign(
        step=np.select(
            [moving, np.isclose(ratio, 1), np.isclose(ratio, 10)],
            [WITH_MOMENTUM, NO_MOMENTUM, SAME_STEP],
            "",
        )
    )
    for step in (WITH_MOMENTUM, NO_MOMENTUM):
        runs = beside(runs, runs["step"] == step)
    return runs[runs["step"] != ""]


# --- the losses of LM ---


def _longest_curve(runs: pd.DataFrame) -> pd.DataFrame:
    """Of runs that were trained twice, in two entries of a campaign, keep the longer curve."""
    curves = runs.reindex(columns=["curve_train_margin_bias"])["curve_train_margin_bias"]
    points = curves.map(lambda curve: len(curve) if isinstance(curve, list) else 0)
    longest = runs.loc[points.sort_values(ascending=False, kind="stable").index]
    named_softmax = longest.assign(loss=longest["loss"].where(~_plain(longest), _SOFTMAX.label))
    return runs.loc[named_softmax.drop_duplicates(["variant", "loss", "seed"]).index.sort_values()]


def _plain(runs: pd.DataFrame) -> pd.Series[bool]:
    return runs["method"].map(lambda method: method.is_plain).astype(bool)


def _with_share(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the ``share`` of the training samples, and call β = 1 softmax."""
    same = [runs[name] for name in _RECIPE]
    most = runs.groupby(same)["train_samples"].transform("max")
    plain = _plain(runs)
    return runs.assign(
        share=runs["train_samples"] / most,
        loss=runs["loss"].mask(plain, _SOFTMAX.label),
        schedule=runs["schedule"].mask(plain, _SOFTMAX.label),
        method=runs["method"].mask(plain, _SOFTMAX),
    )


def _degraded(runs: pd.DataFrame) -> pd.Series[bool]:
    return (runs["share"] < 1) | (runs["label_noise"] > 0)


def _whole_and_right(runs: pd.DataFrame) -> pd.DataFrame:
    runs = _with_share(runs)
    return runs[~_degraded(runs)]


def _few_or_wrong(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the recipes that have a run with fewer samples or wrong labels."""
    runs = _with_share(runs)
    same = [runs[name] for name in _RECIPE]
    return runs[_degraded(runs).groupby(same).transform("any")]


def _softmax_and_others(runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out the variants of the small network in which softmax has no other loss beside it."""
    several = runs.groupby("variant")["method"].transform("nunique") > 1
    return runs[(runs["model"] != FAST) | several]


def _softmax_and_lm(runs: pd.DataFrame) -> pd.DataFrame:
    kept = [method.is_plain or method.loss == "lm" for method in runs["method"]]
    return runs[pd.Series(kept, runs.index, dtype=bool)]


# --- samples and epochs ---


def _first_of_equal(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the usual learning rate, and of runs that were trained twice the first."""
    runs = runs[at_usual_rate(runs)]
    same = ["variant", "method", "seed", "train_samples", "epochs"]
    return runs.drop_duplicates(same).assign(
        samples=lambda kept: kept["train_samples"].astype(int),
        epochs=lambda kept: kept["epochs"].astype(int),
    )


def _all_samples_and_epochs(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the most epochs, and of these the most samples; the variant says how many images."""
    for name in ("epochs", "samples"):
        runs = runs[runs[name] == runs.groupby("variant")[name].transform("max")]
    return _with_images(runs, runs["subset"])


def _fewer_samples_and_epochs(runs: pd.DataFrame) -> pd.DataFrame:
    """Let the variant say how many images it has at most."""
    every = runs["subset"].mask(runs["subset"] <= 0, np.inf)
    most = every.groupby(runs["variant"]).transform("max")
    return _with_images(runs, most.where(most < np.inf, 0), at_most=True)


def _with_images(
    runs: pd.DataFrame, images: pd.Series[Any], *, at_most: bool = False
) -> pd.DataFrame:
    rows = zip(runs["variant"], images.map(whole), strict=True)
    variants = [replace(one, images=count, images_at_most=at_most) for one, count in rows]
    return runs.assign(variant=pd.Series(variants, runs.index, dtype=object))


# --- tables ---


def _of_table_i(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[runs["method"].isin(TABLE_I)]


def _together(runs: pd.DataFrame) -> pd.DataFrame:
    """Take the cross-validations with equal rows in one fold, of tables that have equal rows."""
    together = runs["duplicates_together"].astype(bool)
    return runs[together | ~runs["dataset"].isin(runs.loc[together, "dataset"])]


NARROWINGS: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "usual rate": _usual_rate,
    "usual rate of the small network": _usual_rate_of_small_network,
    "several learning rates": _several_rates,
    "with and without momentum": _with_and_without_momentum,
    "longest curve": _longest_curve,
    "all samples and right labels": _whole_and_right,
    "few samples or wrong labels": _few_or_wrong,
    "softmax and others": _softmax_and_others,
    "softmax and LM": _softmax_and_lm,
    "first of equal runs": _first_of_equal,
    "all samples and epochs": _all_samples_and_epochs,
    "fewer samples and epochs too": _fewer_samples_and_epochs,
    "methods of Table I": _of_table_i,
    "equal rows together": _together,
}
"""What ``narrow`` may say in ``claims/runs.yml``."""


# --- measures ---


def _oscillation(runs: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """Add the deviation of the change of test accuracy from epoch to epoch.

    It is that of the second half of the epochs before the learning rate falls.
    """
    changes = []
    rows = zip(runs["curve_test_accuracy"], runs["epochs"], runs["milestones"], strict=True)
    for accuracy, epochs, milestones in rows:
        last = round(min(milestones, default=1) * epochs)
        changes.append(np.diff(accuracy[last // 2 : last + 1]))
    return runs.assign(oscillation=[np.std(of_run, ddof=1) for of_run in changes])


def _excess(runs: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """Add the time of last layer and loss beyond softmax, as a share of a step with softmax."""
    by = ["variant", "model", "seed"]
    plain = runs[runs["loss"] == "softmax"].set_index(by)
    beside_it = plain.reindex(pd.MultiIndex.from_frame(runs[by]))
    own = runs["criterion_seconds"].to_numpy() - beside_it["criterion_seconds"].to_numpy()
    return runs.assign(excess=own / beside_it["step_seconds"].to_numpy())


def _row_of_each_table(runs: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """Make of each complete variant a row for each data set and method.

    The rows have mean accuracies, ``wins`` (ties share one) and ``negative_rank`` among the methods
    of Table I.
    """
    frames = [runs.iloc[:0]]
    for variant, group in by_variant(runs):
        counts = group.pivot_table(
            index="title", columns="method", values="seed", aggfunc="nunique"
        )
        complete = (counts >= seeds).all(axis=None)
        if counts.shape != paper_table_i().shape or not complete:
            continue
        scores = group.pivot_table(index="title", columns="method", values="test_accuracy")
        rows = standings(scores[list(TABLE_I)]).rename(columns={"score": "test_accuracy"})
        of_variant = pd.Series([variant] * len(rows), dtype=object)
        scale = ", ".join(sorted(set(group["scale"])))
        frames.append(rows.assign(variant=of_variant, scale=scale))
    return pd.concat(frames[1:] or frames, ignore_index=True)


MEASURES: Mapping[str, Callable[[pd.DataFrame, int], pd.DataFrame]] = {
    "oscillation": _oscillation,
    "excess": _excess,
    "row of each table": _row_of_each_table,
}
"""What ``measure`` may say in ``claims/runs.yml``: of runs, and the seeds that decide."""
