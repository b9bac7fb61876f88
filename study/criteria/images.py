"""The runs of image networks, alone and beside A-Softmax and center loss, and the rules of E6, E8 to E13, E16 to E18, B1 to B3, B5."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from study import published
from study.criteria.rules import (
    Criterion,
    Rule,
    Side,
    Values,
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
from study.criteria.selection import FAST, at_usual_rate, augmentation, image_networks, of_gradient_decay, recipe, with_setting

RIVALS = ("a-softmax 4", "center 0.003")
"""A-Softmax and center loss with the numbers of their authors, since GD-2 gives none."""

_DATA_SETS = {
    "cifar10": ("cifar10", "cifar10-jpeg"),
    "cifar100": ("cifar100",),
    "many-classes": ("cifar100", "tiny-imagenet"),
    "tiny-imagenet": ("tiny-imagenet",),
}
# beside every β and the warm-ups: with and without momentum; the rate matched to β, with the plain runs; several rates for one β on FAST;
# feedback on β
KINDS = ("images", *_DATA_SETS, "oscillation", "matched", "tuned", "feedback")
PLANNED = ("images", *_DATA_SETS)  # of which the plan for FAST is known

WITH_MOMENTUM, NO_MOMENTUM, SAME_STEP = "momentum 0.9", "no momentum", "no momentum, ten times the learning rate"
WARMUP, WARMUP_1 = "warm-up 0.1→1", "warm-up 1→5"
_FEEDBACK, _OF_CLASS = "feedback 1, 5, 5", "class-beta 0.1"
_SMALL = 0.005  # of accuracy, in B1 and B3: half a percentage point

_PLANS = {"crops and flips": ((20.0, 5.0, 1.0, 0.1, 0.01, WARMUP), 5), "plain": ((20.0, 1.0, 0.1, WARMUP), 3)}


def image_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the runs of image networks at the papers' momentum and learning rates, or with the recipe of :data:`FAST`.

    The variant of reduced runs names the training images, if not all, and the epochs. Where the accuracy of every epoch is there, ``falls``
    are its falls from one epoch to the next, added up, and ``early_accuracy`` is its mean over the first quarter. The oscillation has
    ``arm`` and ``oscillation``; the kinds ``"matched"`` and ``"feedback"`` have ``matched``.
    """
    if "width" not in runs:
        return runs.iloc[:0]
    found = image_networks(of_gradient_decay(runs))
    found = with_setting(found[~found["diverged"].astype(bool)])
    if found.empty:
        return found
    sizes = [
        (f", {images:,.0f} images" if images > 0 else "") + f", {epochs:.0f} epochs" if scale == "reduced" else ""
        for scale, images, epochs in zip(found["scale"], found["subset"], found["epochs"], strict=True)
    ]
    found["variant"] = recipe(found) + pd.Series(sizes, found.index, dtype=object)
    found["overconfidence"] = found["test_confidence"] - found["test_accuracy"]
    curves = [  # after each epoch, without the value before the first; nothing if it was not evaluated so often
        curve[-int(epochs) :] if isinstance(curve, list) and len(curve) >= epochs else [np.nan]
        for curve, epochs in zip(found["curve_test_accuracy"], found["epochs"], strict=True)
    ]
    found["early_accuracy"] = [np.mean(curve[: max(1, len(curve) // 4)]) for curve in curves]
    found["falls"] = [-np.minimum(np.diff(curve, prepend=curve[0]), 0).sum() for curve in curves]
    matched, fast = found["match_gradient"].astype(bool), found["model"].isin(FAST)
    constant_rate = (found["milestones"].map(len) == 0) & ~fast
    if kind == "oscillation":
        return _oscillations(found.assign(constant_rate=constant_rate)[~matched & ~fast])
    if kind == "tuned":
        found = found[fast & ~matched]
        return found[found.groupby("variant")["learning_rate"].transform("nunique") > 1]
    usual = (found["momentum"] == 0.9) & ~constant_rate & (~fast | at_usual_rate(found))
    found, follows = found.assign(matched=matched)[usual], found["schedule"].str.startswith("feedback")[usual]
    if kind == "feedback":
        return found[(follows | (found["setting"] == 1.0)) & found["variant"].isin(found.loc[follows, "variant"])]
    found = found[~follows]
    if kind == "matched":
        return found[found["variant"].isin(found.loc[found["matched"], "variant"])]
    return found[~found["matched"] & (found["dataset"].isin(_DATA_SETS[kind]) if kind != "images" else True)]


def margin_runs(runs: pd.DataFrame, kind: str = "margins") -> pd.DataFrame:
    """Select the runs of :data:`RIVALS` on image networks, with the gradient-decay runs of the same variants."""
    if "loss" not in runs:
        return runs.iloc[:0]
    rivals = runs[runs["loss"].isin(RIVALS)]
    found = image_runs(pd.concat([of_gradient_decay(runs), rivals.assign(loss=np.nan)]), "images")  # a rival is a run as good as any
    if found.empty:
        return found
    is_rival = found["schedule"].isin(RIVALS)
    found = found.assign(setting=found["setting"].where(~is_rival, found["schedule"]))
    return found[found["variant"].isin(found.loc[is_rival, "variant"])]


def long_tailed_runs(runs: pd.DataFrame, kind: str = "long-tailed") -> pd.DataFrame:
    """Select the runs of image networks on classes of unequal size; what corrects for it, or the β that does not, is the setting."""
    found = with_setting(image_networks(runs[~runs["diverged"].astype(bool)] if len(runs) else runs))
    if len(found):
        found["variant"] = recipe(found) + found["imbalance"].map(", sizes {:g} : 1".format) + found["epochs"].map(", {:.0f} epochs".format)
    return found


def complete(runs: pd.DataFrame) -> set[str]:
    """Name the variants of :data:`FAST` that have every planned setting with every planned seed."""
    found = set()
    for variant, group in runs[runs["model"].isin(FAST)].groupby("variant"):
        settings, seeds = _PLANS.get(augmentation(group).iloc[0], ((), 0))
        there = group.groupby(group["setting"].astype(str))["seed"].nunique()
        if settings and all(there.get(str(setting), 0) >= seeds for setting in settings):
            found.add(str(variant))
    return found


def _oscillations(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the variants that were trained with and without momentum.

    The ``oscillation`` is the standard deviation of the change of test accuracy from epoch to epoch, over the second half of the epochs
    before the learning rate falls.
    """
    if runs.empty:
        return runs
    runs = runs.assign(variant=runs["variant"] + np.where(runs["constant_rate"], ", constant learning rate", ""))
    ratio = runs["learning_rate"] / runs["variant"].map(runs[runs["momentum"] > 0].groupby("variant")["learning_rate"].min())
    moving = runs["momentum"] > 0
    runs["arm"] = np.select([moving, np.isclose(ratio, 1), np.isclose(ratio, 10)], [WITH_MOMENTUM, NO_MOMENTUM, SAME_STEP], "")
    both = runs.groupby("variant")["arm"].transform(lambda arms: {WITH_MOMENTUM, NO_MOMENTUM} <= set(arms))
    runs = runs[both.astype(bool) & (runs["arm"] != "")].copy()
    runs["oscillation"] = [
        np.std(np.diff(accuracy[last // 2 : last + 1]), ddof=1)
        for accuracy, epochs, milestones in zip(runs["curve_test_accuracy"], runs["epochs"], runs["milestones"], strict=True)
        for last in [round(min(milestones, default=1) * epochs)]
    ]
    return runs


# --- rules ---


def _largest_beta(variant: Variant) -> published.Setting | None:
    betas = [setting for setting in set(variant.runs["setting"]) if isinstance(setting, float)]
    return max((beta for beta in betas if len(variant.having("test_accuracy", beta)) >= variant.seeds), default=None)


def _not_known_before(runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out the older reduced runs, which were known when the criteria for networks at real accuracy were written."""
    return runs[runs["model"].isin(FAST) | (runs["scale"] == "paper")]


def _oscillates(momentum: str, compare: Callable[..., Rule]) -> Rule:
    return where(lambda runs: runs[runs["arm"] == momentum], compare("oscillation", 5.0, 0.1), momentum)


def _beats_post_hoc(beta: object) -> Rule:
    """Test ECE of a β, as it is, is smaller than that of β = 1 after temperature scaling, or after vector scaling."""
    names = {"test_ece_temperature": "β = 1 with temperature scaling", "test_ece_vector": "β = 1 with vector scaling"}
    return any_of(*(smaller("test_ece", beta, of(metric, 1.0, name)) for metric, name in names.items()))  # type: ignore[arg-type]


def _matched(*settings: published.Setting) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Keep the runs of these β with a matched rate, and those of β = 1, for which matching changes nothing."""
    return lambda runs: runs[
        (runs["matched"] & runs["setting"].isin(settings)) | (~runs["matched"] & (runs["setting"] == 1.0) & (1.0 not in settings))
    ]


def _unmatched(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[~runs["matched"]]


def _at_chosen_rate(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs of each β with the learning rate of the largest mean validation accuracy."""
    means = runs.groupby([runs["setting"].astype(str), "learning_rate"])["valid_accuracy"].mean()
    chosen = {setting: of_setting.droplevel(0).idxmax() for setting, of_setting in means.groupby(level=0)}
    return runs[runs["learning_rate"] == runs["setting"].astype(str).map(chosen)]


def _twice(side: Side) -> Side:
    def doubled(variant: Variant) -> Values | None:
        values = side(variant)
        return values and Values(2 * values.numbers, f"2 × ({values.name})")

    return doubled


_BEST_CONSTANT = best_of(5.0, 1.0, 0.1, 0.01)
_GAIN = minus(of("test_accuracy", 0.1), of("test_accuracy", 5.0))
_COMMON = given(lambda runs: runs[at_usual_rate(runs)], _GAIN)
_TWICE_CHOSEN = _twice(given(_at_chosen_rate, _GAIN))

CLAIMS = {
    "E6": claim(
        "cifar10",
        a=larger("test_accuracy", 0.1, 1.0),
        b=larger("test_accuracy", 1.0, 5.0),
        c=larger("test_accuracy", WARMUP, _BEST_CONSTANT),
    ),
    "E8": claim("many-classes", a=larger("test_accuracy", 5.0, 0.1), b=larger("test_top5_accuracy", 5.0, 0.1)),
    "E9": claim(
        "tiny-imagenet",
        a=within(0.01, "test_accuracy", 5.0, 0.1),
        b=larger("test_top5_accuracy", 5.0, 0.1),
        c=larger("train_accuracy", 0.1, 5.0),
    ),
    "E10": claim("margins", a=larger("test_accuracy", WARMUP, RIVALS[0]), b=larger("test_accuracy", WARMUP, RIVALS[1])),
    "E11": claim(
        "images",
        a=all_of(larger("overconfidence", 0.1, 1.0), larger("overconfidence", 0.1)),
        b=smaller("test_ece", 20.0, 1.0),
        c=larger("test_ece", 0.1, 1.0),
        d=larger("test_mce", 0.1, 20.0),
    ),
    "E12": claim("images", a=_beats_post_hoc(best_of(by="valid_ece", smallest=True)), b=_beats_post_hoc(20.0)),
    "E13": claim(
        "oscillation",
        a=_oscillates(WITH_MOMENTUM, larger),
        b=all_of(_oscillates(NO_MOMENTUM, smaller), _oscillates(SAME_STEP, smaller)),
        c=Criterion(where(lambda runs: runs[runs["model"].isin(FAST)], larger("falls", 5.0, 0.1)), "images"),
    ),
    "E16": claim("many-classes", a=larger("test_accuracy", WARMUP, _BEST_CONSTANT), b=larger("test_accuracy", WARMUP_1, _BEST_CONSTANT)),
    "E17": claim(
        "images",
        a=where(_not_known_before, larger("early_accuracy", WARMUP, 1.0)),
        b=where(_not_known_before, smaller("overconfidence", WARMUP, 0.1)),
    ),
    "E18": claim("cifar100", a=larger("test_accuracy", _largest_beta, 1.0), b=smaller("overconfidence", _largest_beta)),
    "B1": claim(
        "matched",
        a=where(_matched(0.1, 5.0, 1.0), larger("overconfidence", 0.1, 5.0), "matched learning rates"),
        b=where(_matched(0.1), differs("test_accuracy", 0.1, 1.0), "matched learning rate"),
        c=Criterion(where(_at_chosen_rate, larger("overconfidence", 0.1, 5.0), "chosen learning rates"), "tuned"),
        d=Criterion(where(_at_chosen_rate, differs("test_accuracy", 0.1, 1.0, margin=_SMALL), "chosen learning rates"), "tuned"),
        e=Criterion(provided(larger("test_accuracy", _COMMON), larger("test_accuracy", _COMMON, _TWICE_CHOSEN)), "tuned"),
    ),
    "B2": claim(
        "images",
        a=all_of(
            *(smaller("test_ece", of("test_ece_link", beta, "after the link"), of("test_ece", beta)) for beta in (0.1, _largest_beta))
        ),
        b=smaller(
            *("test_ece", of("test_ece_link", 0.1, "β = 0.1 after the link")),
            of("test_ece_temperature", 0.1, "after temperature scaling"),
            by=0.01,
        ),
        c=Criterion(smaller("test_ece", of("test_ece_link", 0.1, "after the link"), of("test_ece", 0.1)), "link"),
    ),
    "B3": claim(
        "feedback",
        a=where(_unmatched, smaller("test_ece", _FEEDBACK, 1.0)),
        b=where(_unmatched, larger("test_accuracy", _FEEDBACK, 1.0, by=-_SMALL)),
        c=where(_matched(_FEEDBACK), smaller("test_ece", _FEEDBACK, 1.0), "matched learning rate"),
        d=where(_matched(_FEEDBACK), larger("test_accuracy", _FEEDBACK, 1.0, by=-_SMALL), "matched learning rate"),
    ),
    "B5": claim(
        "long-tailed",
        a=larger("test_accuracy", _OF_CLASS, 1.0),
        b=larger("test_accuracy", "adjusted 1", _OF_CLASS),
        c=larger("test_accuracy", "adjusted 1", "adjusted 0.1"),
        d=larger("test_accuracy", "weighted 0.1", 0.1),
        e=larger("test_accuracy", of("test_accuracy_link", _OF_CLASS, "the decision by the link"), of("test_accuracy", _OF_CLASS)),
    ),
}
"""For each claim its parts."""
