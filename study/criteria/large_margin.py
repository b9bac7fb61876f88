"""The runs of "Large Margin in Softmax Cross-Entropy Loss", and the criteria of L3 to L6."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from study import published
from study.criteria.images import FAST
from study.criteria.rules import Finding, Rule, Variant, average, claim, larger, shown, smaller, where
from study.criteria.selection import augmentation, network, with_setting

__all__ = ["KINDS", "large_margin_runs"]

KINDS = ("large-margin", "degraded")

OURS, STRONGER = "lm 0.3", "lm 1"
_LOSSES = (
    *("softmax", "lm", "lm-qu", "lm-uq", "label-smoothing", "super-symmetry"),
    *("hinge", "modified", "modified-lm", "l-softmax", "lgm"),
)
_SETTING = ["dataset", "model", "width", "augmentation", "epochs"]
_HALF = 0.5  # of the training samples
_RISE_NEEDS = 3  # evaluations of the bias


def large_margin_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the runs of image networks with the losses of the paper's tables 1 to 4, in the paper's setting or on a network of ``FAST``.

    The paper's setting is known by the learning rate, which falls exponentially from the first step to the last. Where one was chosen among
    several, the runs with the others are left out: the rate of a variant is the one that most losses were run with. A setting that was run
    twice, in two entries of a campaign, comes once, with the longer curves. A run that diverged stays, with the accuracy that it has. On a
    network of ``FAST`` the softmax loss is β = 1 of gradient decay.

    Args:
        runs: as :func:`study.records.read` gives them.
        kind: ``"large-margin"`` (all samples, right labels) or ``"degraded"`` (the softmax loss and the regulariser where they were also
            trained with fewer samples or with wrong labels).

    Returns:
        The runs with ``variant`` (data set, network × width, augmentation, samples, epochs, share of wrong labels), ``share`` (of all the
        training samples that the setting has elsewhere), ``overconfidence`` (mean test confidence minus test accuracy) and ``bias_rise``
        (the bias on the training samples at the end minus the smallest one that was measured).
    """
    if "loss" not in runs or "width" not in runs:
        return runs.iloc[:0]
    fast = runs["model"].isin(FAST)
    plain = fast & (runs["loss"].isna() | (runs["loss"] == "gd")) & (runs["schedule"] == "1")
    runs = runs.assign(loss=runs["loss"].mask(plain, "softmax"), schedule=runs["schedule"].mask(plain, "softmax"))
    of_images = runs["model"].notna() & (runs["model"] != "mlp") & (runs["scale"] != "smoke")
    found = with_setting(runs[of_images & _kinds(runs).isin(_LOSSES) & (fast | (runs["lr_schedule"] == "exponential"))])
    if found.empty:
        return found
    by_setting = found.groupby(_SETTING)
    found["share"] = found["train_samples"] / by_setting["train_samples"].transform("max")
    length = [
        f", {samples:,.0f} images, {epochs:.0f} epochs" for epochs, samples in zip(found["epochs"], found["train_samples"], strict=True)
    ]
    noise = [f", {100 * share:g} % wrong labels" if share > 0 else "" for share in found["label_noise"]]
    found["variant"] = found["dataset"] + ", " + network(found) + ", " + augmentation(found) + pd.Series(length, found.index) + noise
    found = _without_doubles(_at_one_learning_rate(found))
    found["overconfidence"] = found["test_confidence"] - found["test_accuracy"]
    found["bias_rise"] = [
        _rise(end, curve) for end, curve in zip(found["train_margin_bias"].astype(float), found["curve_train_margin_bias"], strict=True)
    ]
    degraded = (found["share"] < 1) | (found["label_noise"] > 0)
    if kind == "large-margin":
        only_softmax = found["model"].isin(FAST) & (found.groupby("variant")["setting"].transform("nunique") == 1)
        return found[~degraded & ~only_softmax]
    elsewhere = degraded.groupby([found[name] for name in _SETTING]).transform("any")
    return found[elsewhere & found["loss"].str.match(r"(softmax|lm \S+)$")]


def _kinds(runs: pd.DataFrame) -> pd.Series[str]:
    """The losses without their numbers."""
    return runs["loss"].map(lambda loss: loss.partition(" ")[0] if isinstance(loss, str) else "")


def _rise(end: float, curve: object) -> float:
    values = [value for value in curve if value is not None] if isinstance(curve, list) else []
    return end - min(values) if len(values) >= _RISE_NEEDS else np.nan


def _at_one_learning_rate(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the learning rate that most losses of their variant were run with."""
    losses = runs.groupby(["variant", "learning_rate"])["loss"].nunique()
    chosen = {reading: of_reading.droplevel(0).idxmax() for reading, of_reading in losses.groupby("variant")}
    return runs[runs["learning_rate"] == runs["variant"].map(chosen)]


def _without_doubles(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each variant, loss and seed: the one that was evaluated most often."""
    points = runs["curve_train_margin_bias"].map(lambda curve: len(curve) if isinstance(curve, list) else 0)
    longest = runs.assign(points=points).sort_values("points", ascending=False, kind="stable")
    return longest.drop_duplicates(["variant", "loss", "seed"]).drop(columns="points").sort_index()


# --- criteria ---


def _best(*kinds: str) -> Callable[[Variant], published.Setting | None]:
    """The loss with the largest mean test accuracy, of those whose first word is one of these; one of each must be there."""

    def choose(variant: Variant) -> published.Setting | None:
        names = [name for name in dict.fromkeys(variant.runs["setting"]) if str(name).partition(" ")[0] in kinds]
        means = {name: found.mean() for name in names if len(found := variant.having("test_accuracy", name)) >= variant.seeds}
        there = {str(name).partition(" ")[0] for name in means}
        return max(means, key=lambda name: means[name]) if there and (variant.some or there == set(kinds)) else None

    return choose


def _average_is_larger(left: str, right: str) -> Rule:
    """L3 b, c: the test accuracy averaged over the values of λ that two divergences share is larger with one than with the other."""

    def rule(variant: Variant) -> Finding | None:
        of_kind = [
            {str(name).partition(" ")[2] for name in variant.runs["setting"] if str(name).partition(" ")[0] == kind}
            for kind in (left, right)
        ]
        if not (shared := sorted(of_kind[0] & of_kind[1], key=float)):
            return None
        sides = []
        for kind in (left, right):
            names = [f"{kind} {value}" for value in shared]
            title = published.loss_name(names[0]).rpartition(", ")[0]
            sides.append(average("test_accuracy", *names, name=f"{title}, mean over λ = {', '.join(shared)}"))
        return larger("test_accuracy", *sides)(variant)

    return rule


def _pooled(compare: Callable[..., Rule], left: str, right: object) -> Rule:
    """L6: in the variants of the first records, where sharing a seed buys nothing, the deviation is pooled; elsewhere runs are paired."""

    def rule(variant: Variant) -> Finding | None:
        return compare("test_accuracy", left, right, pooled=not variant.runs["model"].isin(FAST).all())(variant)

    return rule


def _half(runs: pd.DataFrame) -> pd.DataFrame | None:
    """Variants with half of the samples and right labels."""
    halved = bool(np.isclose(runs["share"], _HALF, atol=1e-3).all())
    return runs if halved and not (runs["label_noise"] > 0).any() else None


def _noisy(runs: pd.DataFrame) -> pd.DataFrame | None:
    """Variants with wrong labels."""
    return runs if (runs["label_noise"] > 0).any() else None


CLAIMS = {
    "L3": claim(
        "large-margin",
        """
        a: the regulariser helps. Test accuracy is larger with it than with softmax.
        b: the divergence D(u||q) is better than D(q||u). Test accuracy, averaged over the values of lambda that both have, is larger.
        c: so is the symmetric one.
        d: larger lambda does no harm. Test accuracy with the symmetric divergence is larger for lambda 0.9 than for 0.1.
        """,
        a=larger("test_accuracy", OURS, "softmax"),
        b=_average_is_larger("lm-uq", "lm-qu"),
        c=_average_is_larger("lm", "lm-qu"),
        d=larger("test_accuracy", "lm 0.9", "lm 0.1"),
    ),
    "L4": claim(
        "large-margin",
        """
        a: the regulariser is better than label smoothing. Test accuracy is larger than that of the best label smoothing.
        b: it is better than super-symmetry.
        c: super-symmetry does not help. Its test accuracy is smaller than that of softmax; contradicted if it is larger. An interval
           that includes 0 leaves it open, since no margin was stated before.
        d: the regulariser enlarges the bias. The mean bias of the training samples at the end is larger with it than with softmax. It
           is built to do so, so that this is shown and decides nothing.
        e: so does label smoothing of 0.1.
        f: with the regulariser the bias first falls and then rises. The bias at the end minus its smallest value over the evaluated
           epochs is larger with it than with softmax.
        """,
        a=larger("test_accuracy", OURS, _best("label-smoothing")),
        b=larger("test_accuracy", OURS, "super-symmetry"),
        c=smaller("test_accuracy", "super-symmetry", "softmax"),
        d=shown(larger("train_margin_bias", OURS, "softmax")),
        e=larger("train_margin_bias", "label-smoothing 0.1", "softmax"),
        f=larger("bias_rise", OURS, "softmax"),
    ),
    "L5": claim(
        "degraded",
        """
        a: with fewer samples the regulariser helps. With half of the samples test accuracy is larger than that of softmax.
        b: with fewer samples the stronger helps more. With half of the samples test accuracy is larger for lambda 1 than for 0.3.
        c: with wrong labels it helps. Test accuracy is larger than that of softmax; each share of wrong labels is a reading.
        d: with wrong labels the stronger helps more. Test accuracy is larger for lambda 1 than for 0.3; each share of wrong labels is a
           reading.
        """,
        a=where(_half, larger("test_accuracy", OURS, "softmax")),
        b=where(_half, larger("test_accuracy", STRONGER, OURS)),
        c=where(_noisy, larger("test_accuracy", OURS, "softmax")),
        d=where(_noisy, larger("test_accuracy", STRONGER, OURS)),
    ),
    "L6": claim(
        "large-margin",
        """
        a: the hinge loss works poorly. Its test accuracy is smaller than that of softmax.
        b: the modified loss helps. Its test accuracy is larger than that of softmax.
        c: the regulariser is better than the best of the modified loss, L-Softmax and LGM.
        d: both together are better. The modified loss with the regulariser is more accurate than the modified loss.
        """,
        a=_pooled(smaller, "hinge", "softmax"),
        b=_pooled(larger, "modified", "softmax"),
        c=_pooled(larger, OURS, _best("modified", "l-softmax", "lgm")),
        d=_pooled(larger, "modified-lm 0.3", "modified"),
    ),
}
"""For each claim its parts."""
