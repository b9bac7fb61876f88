"""The runs that the criteria speak of.

There are kinds of runs, their variants, and the columns beside the metrics of the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from study import records, statistics
from study.claims.paper_tables import ARCGRAD_OTHERS, TABLE_I, paper_table_i, won
from study.methods import Method
from study.variants import FAST, LINEAR, PERCEPTRON, Variant

PEOPLE = "cifar10n"
"""The campaign with labels as people gave them; its recipe has another precision."""

RIVALS = ("a-softmax 4", "center 0.003")
"""A-Softmax and center loss with the numbers of their authors, since GD-2 gives none."""

ARCGRAD = "arcgrad 10"
"""ArcGrad with the paper's number for images."""

WITH_MOMENTUM, NO_MOMENTUM, SAME_STEP = (
    "momentum 0.9",
    "no momentum",
    "no momentum, ten times the learning rate",
)
# What was planned on FAST: methods, and seeds of each. Where a plan was made larger later, the
# largest that is complete counts, with its seeds alone.
Plan = tuple[tuple[Method, ...], int]


def _methods(*values: float | str) -> tuple[Method, ...]:
    return tuple(map(Method.parse, values))


_WARMUP, _WARMUP_OF_GD1 = "warm-up 0.1→1", "warm-up 1→5"
_EVERY_BETA_OF_10 = _methods(20, 5, 1, 0.1, 0.01, _WARMUP)
_PLANS: Mapping[tuple[str, bool], Sequence[Plan]] = {  # by data set, and whether augmented
    ("cifar10", True): [(_EVERY_BETA_OF_10, 5)],
    ("cifar100", True): [(_EVERY_BETA_OF_10, 5)],
    ("cifar10", False): [(_EVERY_BETA_OF_10, 5), (_methods(20, 1, 0.1, _WARMUP), 3)],
    ("cifar100", False): [(_methods(50, 20, 5, 1, 0.1, _WARMUP, _WARMUP_OF_GD1), 5)],
}
_MATCHED = _methods(5, 0.1)
_PLAIN = Method.of_beta(1.0)
_SOFTMAX = Method.parse("softmax")

_LOSSES_OF_LM = frozenset(
    ("lm", "lm-qu", "lm-uq", "label-smoothing", "super-symmetry", "hinge")
    + ("modified", "modified-lm", "l-softmax", "lgm")
)  # and softmax


def runs_of(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the runs of one kind.

    Each has its ``variant``, its ``method`` and the columns that claims speak of.

    Where the temperature varies it is part of the method.
    """
    if kind not in _KINDS:
        raise ValueError(f"unknown kind {kind!r}; valid: {', '.join(_KINDS)}")
    select, column, *_ = _KINDS[kind]
    if column not in runs:
        return runs.iloc[:0]
    # old records do not name their loss, gradient decay, and do not say that classes were of equal
    # size
    runs = runs.assign(loss=runs.reindex(columns=["loss"])["loss"].astype(object).fillna("gd"))
    unequal = runs.reindex(columns=["imbalance"])["imbalance"] > 1
    of_people = runs["campaign"] == PEOPLE
    wanted = (unequal == (kind == "long-tailed")) & (of_people == (kind == "wrong-labels"))
    return select(runs[wanted], kind)


def by_variant(runs: pd.DataFrame) -> Iterator[tuple[Variant, pd.DataFrame]]:
    """Go through the variants, sorted, each with its runs."""
    for variant, group in runs.groupby("variant") if not runs.empty else ():
        yield cast(Variant, variant), group


def least_seeds(kind: str, variant: Variant | None = None) -> int:
    """Tell how many seeds a variant needs to decide anything.

    Five on MNIST, three with image networks, but five with crops and flips on the small networks of
    real accuracy where β alone differs; ten cross-validations of tables, and ten tables; five
    repetitions of a time. A kind that has variants of MNIST beside those of image networks needs
    the variant.
    """
    select, _, seeds, _ = _KINDS[kind]
    if variant is None:
        return seeds
    many = select is _image_runs and kind != "margins" and variant.on_fast and variant.augmented
    return max(seeds, 5) if many or variant.dataset == "mnist" else seeds


def complete(runs: pd.DataFrame, kind: str) -> bool:
    """Tell if a variant of :data:`FAST` has every method with every seed that were planned."""
    if kind == "matched":
        return _has(runs[runs["matched"]], _MATCHED, _plan(runs)[1])
    return kind not in _EVERY_BETA or _has(runs, *_plan(runs))


def planned(runs: pd.DataFrame, kind: str, variant: Variant) -> tuple[pd.DataFrame, int]:
    """Keep the seeds of a variant that its plan has, and tell how many a comparison needs.

    Of several plans it is the largest that is complete; the runs beyond it wait.
    """
    if kind not in _EVERY_BETA or not variant.on_fast:
        return runs, least_seeds(kind, variant)
    methods, seeds = _plan(runs)
    largest, *_ = _plans(runs)
    kept = runs if (methods, seeds) == largest else runs[runs["seed"] < seeds]
    return kept, max(seeds, 2)


def _plans(runs: pd.DataFrame) -> Sequence[Plan]:
    one = runs.iloc[0]
    return _PLANS.get((str(one["dataset"]), one["augmentation"] != "none"), [((), 0)])


def _plan(runs: pd.DataFrame) -> Plan:
    """Find the largest plan that the runs of a variant fulfil.

    It is the smallest, if they fulfil none.
    """
    plans = _plans(runs)
    return next((plan for plan in plans if _has(runs, *plan)), plans[-1])


def _has(runs: pd.DataFrame, methods: Sequence[Method], seeds: int) -> bool:
    there = runs.groupby("method")["seed"].nunique()
    return bool(methods) and all(there.get(method, 0) >= seeds for method in methods)


# --- what the kinds share ---


def _named(runs: pd.DataFrame, pattern: str) -> pd.Series[bool]:
    """Tell for each run if ``campaign/record`` begins so."""
    return (runs["campaign"] + "/" + runs["record"]).str.match(pattern)


def _image_networks(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs of image networks at more than the smallest scale."""
    return runs[runs["model"].notna() & (runs["model"] != PERCEPTRON) & (runs["scale"] != "smoke")]


def _with_softmax(runs: pd.DataFrame) -> pd.DataFrame:
    """Call β = 1 on a network of :data:`FAST` softmax.

    It is so called for the losses that are compared with it there.
    """
    plain = (runs["loss"] == "gd") & (runs["model"] == FAST) & (runs["schedule"] == "1")
    return runs.assign(
        loss=runs["loss"].mask(plain, "softmax"), schedule=runs["schedule"].mask(plain, "softmax")
    )


def _prepared(runs: pd.DataFrame) -> pd.DataFrame:
    """Copy the runs, without empty columns.

    Add ``method`` and the columns of :data:`_DERIVED`.
    """
    if runs.empty:
        return runs.copy()
    found = runs.dropna(axis=1, how="all").copy()
    found["method"] = records.methods(found)
    if "schedule" not in found:
        found["schedule"] = found["method"].map(lambda method: method.label)
    for name, (formula, *columns) in _DERIVED.items():
        if set(columns) <= set(found):
            rows = zip(*(found[column] for column in columns), strict=True)
            found[name] = [
                math.nan if any(value is None or value != value for value in row) else formula(*row)
                for row in rows
            ]
    return found


def _early(epochs: list[int], curve: list[float | None]) -> float:
    """The mean over the first ten epochs."""
    values = [value for epoch, value in zip(epochs, curve, strict=True) if 1 <= epoch <= 10]
    return float(np.array(values or [math.nan], dtype=float).mean())


def _each_epoch(curve: list[float], epochs: float) -> list[float]:
    """Give the values after each epoch, without that before the first.

    There are none if it was not evaluated so often.
    """
    return curve[-int(epochs) :] if len(curve) >= epochs else [math.nan]


def _falls(curve: list[float], epochs: float) -> float:
    each = _each_epoch(curve, epochs)
    return -float(np.minimum(np.diff(each, prepend=each[:1]), 0).sum())


def _rise(last: float, curve: list[float | None]) -> float:
    """The last value minus the lowest of three or more."""
    values = [value for value in curve if value is not None]
    return last - min(values) if len(values) >= 3 else math.nan


_DERIVED: Mapping[str, tuple[Any, ...]] = {  # name: formula, and the columns that it takes
    "overconfidence": (
        lambda confidence, accuracy: confidence - accuracy,
        "test_confidence",
        "test_accuracy",
    ),
    "lost": (lambda counts: counts[0], "confidence_counts"),  # (0, 0.2], …, (0.8, 1]
    "sure": (lambda counts: counts[-1], "confidence_counts"),
    "errors": (
        lambda accuracy, samples: float(round((1 - accuracy) * samples)),
        "train_accuracy",
        "train_samples",
    ),
    "lost_share": (
        lambda lost, errors: lost / errors if errors > 0 else math.nan,
        "lost",
        "errors",
    ),
    "early_cross_entropy": (_early, "curve_train_epoch", "curve_train_cross_entropy"),
    # of the easiest fifth; one more than the epochs if never
    "epoch_easy": (
        lambda groups: next((n for n, x in enumerate(groups[-1]) if x >= 0.9), len(groups[-1])),
        "group_confidence",
    ),
    "gap": (lambda groups: np.subtract(groups[-1][1:], groups[0][1:]).mean(), "group_confidence"),
    "early_accuracy": (
        lambda curve, n: np.mean(_each_epoch(curve, n)[: max(1, int(n) // 4)]),
        "curve_test_accuracy",
        "epochs",
    ),
    "falls": (_falls, "curve_test_accuracy", "epochs"),
    "bias_rise": (_rise, "train_margin_bias", "curve_train_margin_bias"),
    "mean_target_angle": (
        lambda curve: np.mean(curve[1:] or math.nan),
        "curve_target_angle",
    ),  # after the first evaluation
}


_FIELDS: Mapping[str, str] = {"network": "model", "device": "measured_on"}
_RECIPE = ("dataset", "network", "width", "augmentation")
"""The fields of a variant that image networks have in common."""


def _variants(
    runs: pd.DataFrame, *fields: str, **more: Iterable[Any] | str | bool
) -> pd.Series[Any]:
    """Make the variant of each run from its columns, and from further values."""
    columns = {name: runs[_FIELDS.get(name, name)] for name in fields} | {
        name: [values] * len(runs) if isinstance(values, str | bool) else values
        for name, values in more.items()
    }
    rows = list(zip(*columns.values(), strict=True))
    each = {row: Variant(**dict(zip(columns, row, strict=True))) for row in dict.fromkeys(rows)}
    return pd.Series([each[row] for row in rows], runs.index, dtype=object)


def _whole(numbers: pd.Series[Any], meant: pd.Series[bool] | None = None) -> list[int]:
    """Numbers as integers; 0 for those that are not meant, and for missing ones."""
    kept = numbers if meant is None else numbers.where(meant, 0)
    return [int(number) if number > 0 else 0 for number in kept]


def at_usual_rate(runs: pd.DataFrame) -> pd.Series[bool]:
    """Tell for each run if it has the usual learning rate.

    It is the one that most methods of its variant were run with.
    """
    counts = runs.groupby(["variant", "learning_rate"])["method"].nunique()
    usual = {
        variant: of_variant.droplevel(0).idxmax()
        for variant, of_variant in counts.groupby("variant")
    }
    return runs["learning_rate"] == runs["variant"].map(usual)


def _beside(runs: pd.DataFrame, marked: pd.Series[bool]) -> pd.DataFrame:
    """Keep the variants that have a run that is marked."""
    return runs[runs["variant"].isin(runs.loc[marked, "variant"])]


def _without_lonely(runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out the variants of :data:`FAST` in which softmax has no other loss beside it."""
    return runs[
        (runs["model"] != FAST) | (runs.groupby("variant")["method"].transform("nunique") > 1)
    ]


# --- the kinds ---


def _mnist_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    found = _prepared(runs[(runs["loss"] == "gd") & _named(runs, _KINDS[kind][3])])
    if found.empty:
        return found
    if kind == "width":
        usual = (
            (found["activation"] == "relu")
            & (found["input_scale"] == 1)
            & (found["first_weights"] == 1)
        )
        found = found[usual].assign(units=found["hidden"].map(lambda hidden: hidden[0]))
    if kind == "temperature":
        taus = zip(found["method"], found["temperature"], strict=True)
        found["method"] = [method.at(tau) for method, tau in taus]
    about: dict[str, Any] = {"dataset": "mnist", "network": PERCEPTRON}
    if kind == "conflict":
        about["network"] = [PERCEPTRON if hidden else LINEAR for hidden in found["hidden"]]
    return found.assign(variant=_variants(found, "activation", "normalization", **about))


def _image_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Runs at the papers' momentum and learning rates, or with the recipe of :data:`FAST`.

    The variant of reduced runs names the training images, if not all, and the epochs.
    """
    compared = (runs["loss"] == "gd") | (runs["loss"].isin(RIVALS) & (kind == "margins"))
    found = _prepared(_image_networks(runs[compared & ~runs["diverged"].astype(bool)]))
    if found.empty:
        return found
    reduced, fast = found["scale"] == "reduced", found["model"] == FAST
    constant_rate = (found["milestones"].map(len) == 0) & (found["lr_schedule"] != "one-cycle")
    found["matched"] = found["match_gradient"].astype(bool)
    found["variant"] = _variants(
        found,
        *_RECIPE,
        images=_whole(found["subset"], reduced),
        epochs=_whole(found["epochs"], reduced),
        constant_rate=constant_rate if kind == "oscillation" else False,
    )
    if kind == "oscillation":
        return _oscillations(found[~found["matched"] & (constant_rate | ~fast)])
    if kind == "tuned":
        found = found[fast & ~found["matched"] & ~constant_rate]
        return found[found.groupby("variant")["learning_rate"].transform("nunique") > 1]
    found = found[(found["momentum"] == 0.9) & ~constant_rate & (~fast | at_usual_rate(found))]
    follows = pd.Series([one.schedule == "feedback" for one in found["method"]], found.index, bool)
    if kind == "feedback":
        return _beside(found[follows | (found["method"] == _PLAIN)], follows)
    found = found[~follows]
    if kind == "matched":
        return _beside(found, found["matched"])
    found = found[~found["matched"]]
    if kind == "margins":
        return _beside(found, found["method"].isin(_methods(*RIVALS)))
    return found[found["dataset"].str.match(_KINDS[kind][3])]


def _long_tailed_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select runs on classes of unequal size.

    What corrects for the sizes, or the β that does not, is the method.
    """
    found = _prepared(_image_networks(runs[~runs["diverged"].astype(bool)]))
    if found.empty:
        return found
    return found.assign(variant=_variants(found, *_RECIPE, "imbalance", "learning_rate"))


def _runs_of_people(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Runs on CIFAR-10 with labels as people gave them, some of them wrong; a variant for each."""
    found = _prepared(_image_networks(runs[~runs["diverged"].astype(bool)]))
    if found.empty:
        return found
    return found.assign(variant=_variants(found, *_RECIPE, "labels"))


def _oscillations(runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the variants that were trained with and without momentum.

    Each run has its ``arm`` and its ``oscillation``.

    That is the standard deviation of the change of test accuracy from epoch to epoch, over the
    second half of the epochs before the learning rate falls.
    """
    moving = runs["momentum"] > 0
    ratio = runs["learning_rate"] / runs["learning_rate"].where(moving).groupby(
        runs["variant"]
    ).transform("min")
    runs["arm"] = np.select(
        [moving, np.isclose(ratio, 1), np.isclose(ratio, 10)],
        [WITH_MOMENTUM, NO_MOMENTUM, SAME_STEP],
        "",
    )
    for arm in (WITH_MOMENTUM, NO_MOMENTUM):
        runs = _beside(runs, runs["arm"] == arm)
    changes = [
        np.diff(accuracy[last // 2 : last + 1])
        for accuracy, epochs, milestones in zip(
            runs["curve_test_accuracy"], runs["epochs"], runs["milestones"], strict=True
        )
        for last in [round(min(milestones, default=1) * epochs)]
    ]
    return runs.assign(oscillation=[np.std(of_run, ddof=1) for of_run in changes])[
        runs["arm"] != ""
    ]


def _uci_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select cross-validations with rows dealt out freely.

    For Table I they are those in every variant with equal rows in one fold, where there are any.
    """
    found = _prepared(
        runs[
            _named(runs, _KINDS[kind][3])
            & ((kind == "uci-tables") | runs["duplicates_together"].ne(True))
        ]
    )
    if found.empty:
        return found
    decays = ("weight_decay",) if "weight_decay" in found else ()
    units = found["hidden"].map(lambda hidden: hidden[0])
    found["variant"] = _variants(
        found, "normalization", "optimizer", "learning_rate", *decays, units=units
    )
    found["depth"] = found["hidden"].map(len) + 1
    return _one_row_for_each_data_set(found) if kind == "uci-tables" else found


def _one_row_for_each_data_set(runs: pd.DataFrame) -> pd.DataFrame:
    """Select the complete variants: a row for each data set.

    They have mean accuracies, ``wins`` (ties share one) and ``negative_rank`` among the methods of
    Table I.
    """
    runs = runs[runs["method"].isin(TABLE_I)]
    together = runs["duplicates_together"].astype(bool)
    runs = runs[together | ~runs["title"].isin(runs.loc[together, "title"])]
    frames = [runs.iloc[:0]]
    for variant, group in by_variant(runs):
        counts = group.pivot_table(
            index="title", columns="method", values="seed", aggfunc="nunique"
        )
        if counts.shape == paper_table_i().shape and (counts >= least_seeds("uci-tables")).all(
            axis=None
        ):
            scores = group.pivot_table(index="title", columns="method", values="test_accuracy")[
                list(TABLE_I)
            ]
            columns = {
                "test_accuracy": scores.stack(),
                "wins": won(scores).stack(),
                "negative_rank": -statistics.ranks(scores).stack(),
            }
            frames.append(
                pd.DataFrame(columns)
                .reset_index()
                .assign(
                    variant=pd.Series([variant] * len(columns["wins"]), dtype=object),
                    scale=", ".join(sorted(set(group["scale"]))),
                )
            )
    return pd.concat(frames[1:] or frames, ignore_index=True)


def _large_margin_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Runs with the losses of LM's tables 1 to 4, in its setting or on a network of :data:`FAST`.

    Its setting is known by the learning rate, which falls exponentially from the first step to the
    last. Where one was chosen among several, the runs with the others are left out. A setting that
    was run twice, in two entries of a campaign, comes once, with the longer curves. A run that
    diverged stays, with the accuracy that it has.
    """
    runs = _image_networks(_with_softmax(runs))
    of_paper = (runs["model"] == FAST) | (runs["lr_schedule"] == "exponential")
    found = _prepared(runs[of_paper & _of_large_margin(runs)])
    if found.empty:
        return found
    same = [found[name] for name in ("dataset", "model", "width", "augmentation", "epochs")]
    found["share"] = found["train_samples"] / found.groupby(same)["train_samples"].transform("max")
    found["variant"] = _variants(
        found,
        *_RECIPE,
        images=_whole(found["train_samples"]),
        epochs=_whole(found["epochs"]),
        wrong_labels=found["label_noise"],
    )
    found = found[at_usual_rate(found)]
    points = found["curve_train_margin_bias"].map(
        lambda curve: len(curve) if isinstance(curve, list) else 0
    )
    longest = found.loc[points.sort_values(ascending=False, kind="stable").index]
    found = longest.drop_duplicates(["variant", "loss", "seed"]).sort_index()
    degraded = (found["share"] < 1) | (found["label_noise"] > 0)
    if kind == "large-margin":
        return _without_lonely(found[~degraded])
    elsewhere = degraded.groupby([values[found.index] for values in same]).transform("any")
    shown = [method.is_plain or method.loss == "lm" for method in found["method"]]
    return found[elsewhere & pd.Series(shown, found.index, bool)]


def _of_large_margin(runs: pd.DataFrame) -> pd.Series[bool]:
    """Tell for each run if its loss is one of LM's tables, or softmax."""
    own = [Method.parse(loss).loss in _LOSSES_OF_LM for loss in runs["loss"]]
    return pd.Series(own, runs.index) | (runs["loss"] == "softmax")


def _angular_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the runs of ArcGrad's image experiments.

    Those that chose a learning rate and those that diverged are left out.
    """
    runs = runs[
        (runs["scale"] != "smoke")
        & ~runs["diverged"].astype(bool)
        & ((runs["model"] != PERCEPTRON) | (kind != "angular-images"))
    ]
    on_images = (
        (runs["model"] == FAST)
        & runs["loss"].isin([ARCGRAD, *ARCGRAD_OTHERS])
        & runs["w_inter"].notna()
        & (kind != "angular-cuts")
    )
    found = _prepared(runs[on_images | _named(runs, "angular(-reduced|-mnist)?/(?!reading)")])
    if found.empty:
        return found
    found["samples"] = found["train_samples"].astype(int)
    found["epochs"] = found["epochs"].astype(int)
    found["variant"] = _angular_variants(found)
    if kind == "angular-cuts":
        most = found["subset"].mask(found["subset"] <= 0, np.inf)
        most = most.groupby(found["variant"]).transform("max")
        images = _whole(most, most < np.inf)
        return found.assign(variant=_angular_variants(found, images, images_at_most=True))
    for name in ("epochs", "samples"):
        found = found[found[name] == found.groupby("variant")[name].transform("max")]
    return found.assign(variant=_angular_variants(found, _whole(found["subset"])))


def _angular_variants(
    runs: pd.DataFrame, images: Sequence[int] = (), *, images_at_most: bool = False
) -> pd.Series[Any]:
    """Make the variants; those of the perceptron have neither width nor augmentation."""
    perceptron = runs["model"] == PERCEPTRON
    return _variants(
        runs,
        "dataset",
        "network",
        width=runs["width"].mask(perceptron, 1.0),
        augmentation=runs["augmentation"].mask(perceptron, ""),
        images=images or [0] * len(runs),
        images_at_most=images_at_most,
    )


def _cost_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the times of a step, with ``excess``.

    It is the time of the last layer and loss beyond softmax, as a share of a step with softmax.
    """
    found = _prepared(runs[runs["step_seconds"].notna() & (runs["scale"] != "smoke")])
    if found.empty:
        return found
    sizes = _whole(found["batch_size"])
    found["variant"] = _variants(found, "device", "width", batch_size=sizes)
    plain = found[found["loss"] == "softmax"].set_index(["variant", "model", "seed"])
    beside = plain.reindex(pd.MultiIndex.from_frame(found[["variant", "model", "seed"]]))
    found["excess"] = (
        found["criterion_seconds"].to_numpy() - beside["criterion_seconds"].to_numpy()
    ) / beside["step_seconds"].to_numpy()
    return found


_EVERY_BETA = (
    "images",
    "cifar10",
    "cifar100",
    "many-classes",
    "tiny-imagenet",
)  # and the warm-ups; the plan for FAST is known

# How runs are selected, a column that only their records have, the seeds that decide, and a
# pattern: of campaign/record, or of data sets
_KINDS: Mapping[str, tuple[Callable[[pd.DataFrame, str], pd.DataFrame], str, int, str]] = {
    "grid": (
        _mnist_runs,
        "activation",
        5,
        "mnist/(?!feature-plane|curriculum|temperature|warmup-length)",
    ),  # every β and both warm-ups
    "feature-plane": (_mnist_runs, "activation", 5, "mnist/feature-plane"),
    "curriculum": (_mnist_runs, "activation", 5, "mnist/curriculum"),
    "conflict": (_mnist_runs, "activation", 5, "mnist-conflict/"),  # with the average
    "temperature": (_mnist_runs, "activation", 5, "mnist(-edges)?/temperature"),
    "warmup-length": (_mnist_runs, "activation", 5, "mnist/warmup-length"),
    "step": (
        _mnist_runs,
        "activation",
        5,
        "mnist-step/",
    ),  # learning rates, also of the first layer alone, and larger first weights
    "width": (
        _mnist_runs,
        "activation",
        5,
        "mnist-(step|width)/",
    ),  # every width at two of these rates
    "link": (_mnist_runs, "activation", 5, "mnist-edges/link"),  # some β with samples held out
    "mnist-tuned": (_mnist_runs, "activation", 5, "mnist-rates/"),  # several rates for each β
    "images": (_image_runs, "width", 3, ""),
    "cifar10": (_image_runs, "width", 3, "cifar10(-jpeg)?$"),
    "cifar100": (_image_runs, "width", 3, "cifar100$"),
    "many-classes": (_image_runs, "width", 3, "(cifar100|tiny-imagenet)$"),
    "tiny-imagenet": (_image_runs, "width", 3, "tiny-imagenet$"),
    "oscillation": (_image_runs, "width", 3, ""),  # with and without momentum
    "matched": (_image_runs, "width", 3, ""),  # the rate matched to β, with the plain runs
    "tuned": (_image_runs, "width", 3, ""),  # several rates for one β on FAST
    "feedback": (_image_runs, "width", 3, ""),  # on β, with β = 1
    "margins": (_image_runs, "width", 3, ""),  # RIVALS, with the other runs of their variants
    "long-tailed": (_long_tailed_runs, "imbalance", 3, ""),
    "wrong-labels": (_runs_of_people, "labels", 3, ""),
    "uci": (_uci_runs, "fold_accuracies", 10, "uci/"),  # Table I and the columns beside it
    "uci-adam": (_uci_runs, "fold_accuracies", 10, "uci-adam/"),
    "uci-tables": (
        _uci_runs,
        "fold_accuracies",
        10,
        "uci(-adam)?/",
    ),  # Table I in every variant, a row for each method and data set
    "uci-depth": (_uci_runs, "fold_accuracies", 10, "iris-depth/"),  # Figure 2
    "uci-layers": (
        _uci_runs,
        "fold_accuracies",
        10,
        "iris-depth(-adam)?/",
    ),  # Figure 2 in every variant
    "uci-readings": (_uci_runs, "fold_accuracies", 10, "uci-readings/"),  # what chose the training
    "iris-depth-settings": (_uci_runs, "fold_accuracies", 10, "iris-depth-settings/"),
    "large-margin": (
        _large_margin_runs,
        "curve_train_margin_bias",
        3,
        "",
    ),  # all samples and right labels
    "degraded": (
        _large_margin_runs,
        "curve_train_margin_bias",
        3,
        "",
    ),  # softmax and LM, where samples are few or labels wrong
    "angular": (_angular_runs, "w_inter", 3, ""),  # all samples and all epochs (Table VI)
    "angular-images": (
        _angular_runs,
        "w_inter",
        3,
        "",
    ),  # the image networks among them (Tables IV and V)
    "angular-cuts": (
        _angular_runs,
        "w_inter",
        3,
        "",
    ),  # fewer samples and epochs too (Figure 3, Table VII)
    "cost": (_cost_runs, "step_seconds", 5, ""),
}
