"""The runs of "Large Margin in Softmax Cross-Entropy Loss", and the rules of L3 to L6."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from study import published
from study.criteria.rules import Choice, Criterion, Rule, Side, Values, Variant, claim, larger, smaller, where
from study.criteria.selection import FAST, at_usual_rate, image_networks, recipe, with_setting, with_softmax, without_lonely

# all samples and right labels; the softmax loss and the regulariser where they were also trained with fewer samples or with wrong labels
KINDS = ("large-margin", "degraded")

OURS, STRONGER = "lm 0.3", "lm 1"
_LOSSES = (
    *("softmax", "lm", "lm-qu", "lm-uq", "label-smoothing", "super-symmetry"),
    *("hinge", "modified", "modified-lm", "l-softmax", "lgm"),
)
_SETTING = ["dataset", "model", "width", "augmentation", "epochs"]
_RISE_NEEDS = 3  # evaluations of the bias


def large_margin_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the runs of image networks with the losses of the paper's tables 1 to 4, in the paper's setting or on a network of ``FAST``.

    The paper's setting is known by the learning rate, which falls exponentially from the first step to the last. Where one was chosen among
    several, the runs with the others are left out. A setting that was run twice, in two entries of a campaign, comes once, with the longer
    curves. A run that diverged stays, with the accuracy that it has. On a network of ``FAST`` the softmax loss is β = 1 of gradient decay.
    """
    if "loss" not in runs or "width" not in runs:
        return runs.iloc[:0]
    runs = image_networks(with_softmax(runs))
    of_paper = runs["model"].isin(FAST) | (runs["lr_schedule"] == "exponential")
    found = with_setting(runs[of_paper & runs["loss"].map(_kind).isin(_LOSSES)])
    if found.empty:
        return found
    found["share"] = found["train_samples"] / found.groupby(_SETTING)["train_samples"].transform("max")
    sizes = zip(found["train_samples"], found["epochs"], found["label_noise"], strict=True)
    size = [f", {n:,.0f} images, {epochs:.0f} epochs" + (f", {100 * x:g} % wrong labels" if x > 0 else "") for n, epochs, x in sizes]
    found["variant"] = recipe(found) + pd.Series(size, found.index)
    found = found[at_usual_rate(found)]
    points = found["curve_train_margin_bias"].map(lambda curve: len(curve) if isinstance(curve, list) else 0)
    longest = found.loc[points.sort_values(ascending=False, kind="stable").index]
    found = longest.drop_duplicates(["variant", "loss", "seed"]).sort_index()
    found["overconfidence"] = found["test_confidence"] - found["test_accuracy"]
    found["bias_rise"] = found["train_margin_bias"].astype(float) - found["curve_train_margin_bias"].map(_lowest)
    degraded = (found["share"] < 1) | (found["label_noise"] > 0)
    if kind == "large-margin":
        return without_lonely(found[~degraded])
    elsewhere = degraded.groupby([found[name] for name in _SETTING]).transform("any")
    return found[elsewhere & found["loss"].str.match(r"(softmax|lm \S+)$")]


def _kind(loss: object) -> str:
    """The loss without its numbers."""
    return str(loss).partition(" ")[0]


def _lowest(curve: object) -> float:
    values = [value for value in curve if value is not None] if isinstance(curve, list) else []
    return min(values) if len(values) >= _RISE_NEEDS else np.nan


# --- rules ---


def _best(*kinds: str) -> Choice:
    """The loss with the largest mean test accuracy, of those whose first word is one of these; one of each must be there."""

    def choose(variant: Variant) -> published.Setting | None:
        names = [name for name in dict.fromkeys(variant.runs["setting"]) if _kind(name) in kinds]
        means = {name: found.mean() for name in names if len(found := variant.having("test_accuracy", name)) >= variant.seeds}
        complete = variant.some or {_kind(name) for name in means} == set(kinds)
        return max(means, key=lambda name: means[name]) if means and complete else None

    return choose


def _over_lambda(kind: str, other: str) -> Side:
    """L3 b, c: the test accuracy of a divergence, averaged over the values of λ that it shares with another."""

    def side(variant: Variant) -> Values | None:
        there = [str(name).partition(" ") for name in variant.runs["setting"]]
        shared = sorted(set.intersection(*({numbers for loss, _, numbers in there if loss == one} for one in (kind, other))), key=float)
        columns = [variant.having("test_accuracy", f"{kind} {value}") for value in shared]
        numbers = pd.concat(columns, axis=1).dropna().mean(axis=1) if shared else pd.Series(dtype=float)
        title = published.loss_name(f"{kind} {shared[0]}").rpartition(", ")[0] if shared else ""
        return Values(numbers, f"{title}, mean over λ = {', '.join(shared)}") if len(numbers) else None

    return side


def _pooled(compare: Callable[..., Rule], left: str, right: object) -> Rule:
    """L6: in the variants of the first records, where sharing a seed buys nothing, the deviation is pooled; elsewhere runs are paired."""
    return lambda variant: compare("test_accuracy", left, right, pooled=not variant.runs["model"].isin(FAST).all())(variant)


def _half(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs with half of the samples and right labels; LM's 25,000 of 50,000 are more than half of the 45,000 not held out."""
    return runs[np.isclose(runs["share"], 0.5, atol=0.06) & (runs["label_noise"] == 0)]


def _noisy(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs with wrong labels."""
    return runs[runs["label_noise"] > 0]


CLAIMS = {
    "L3": claim(
        "large-margin",
        a=larger("test_accuracy", OURS, "softmax"),
        b=larger("test_accuracy", _over_lambda("lm-uq", "lm-qu"), _over_lambda("lm-qu", "lm-uq")),
        c=larger("test_accuracy", _over_lambda("lm", "lm-qu"), _over_lambda("lm-qu", "lm")),
        d=larger("test_accuracy", "lm 0.9", "lm 0.1"),
    ),
    "L4": claim(
        "large-margin",
        a=larger("test_accuracy", OURS, _best("label-smoothing")),
        b=larger("test_accuracy", OURS, "super-symmetry"),
        c=smaller("test_accuracy", "super-symmetry", "softmax"),
        d=Criterion(larger("train_margin_bias", OURS, "softmax"), "large-margin", decides=False),
        e=larger("train_margin_bias", "label-smoothing 0.1", "softmax"),
        f=larger("bias_rise", OURS, "softmax"),
    ),
    "L5": claim(
        "degraded",
        a=where(_half, larger("test_accuracy", OURS, "softmax")),
        b=where(_half, larger("test_accuracy", STRONGER, OURS)),
        c=where(_noisy, larger("test_accuracy", OURS, "softmax")),
        d=where(_noisy, larger("test_accuracy", STRONGER, OURS)),
    ),
    "L6": claim(
        "large-margin",
        a=_pooled(smaller, "hinge", "softmax"),
        b=_pooled(larger, "modified", "softmax"),
        c=_pooled(larger, OURS, _best("modified", "l-softmax", "lgm")),
        d=_pooled(larger, "modified-lm 0.3", "modified"),
    ),
}
"""For each claim its parts."""
