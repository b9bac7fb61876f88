"""Made-up runs in which the claims of the papers are met.

The tests of claims and verdicts start from them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from study import claims

RIVALS = ("a-softmax 4", "center 0.003")
"""A-Softmax and center loss with the numbers of their authors."""

MNIST_BETAS = ("5", "2", "1", "0.5", "0.2", "0.1", "0.01", "0.001")
MNIST_WARMUPS = ("warm-up 0.001→0.01", "warm-up 0.01→0.1")


def verdict(claim, runs):
    """The verdict on one claim."""
    return claims.verdicts(runs, [claim])[claim]


def mnist(variant="relu-unit", seeds=5):
    """Made-up runs in which E3, E4 and E5 hold."""
    generator = np.random.default_rng(0)
    activation, normalization = variant.split("-")
    schedules = (*MNIST_BETAS, *MNIST_WARMUPS)
    of_beta = (0.95, 0.96, 0.97, 0.972, 0.974, 0.975, 0.976, 0.974)
    accuracy = dict(zip(schedules, (*of_beta, 0.977, 0.98), strict=True))
    of_beta = (1000, 950, 900, 800, 850, 1100, 1300, 2400)
    lost = dict(zip(schedules, (*of_beta, 1000, 1000), strict=True))
    of_beta = (0.8, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.35)
    early = dict(zip(schedules, (*of_beta, 0.3, 0.3), strict=True))
    rows = []
    for seed in range(seeds):
        common = generator.normal(0, 0.0005)
        for schedule in schedules:
            few = lost[schedule] * (1 + generator.normal(0, 0.01))
            sure = 56_000 + (1000 if schedule == "0.1" else 0) + generator.normal(0, 20)
            rows.append(
                {
                    "record": f"{variant}-seed{seed}.json",
                    "campaign": "mnist",
                    "experiment": "train",
                    "dataset": "mnist",
                    "scale": "paper",
                    "activation": activation,
                    "normalization": normalization,
                    "schedule": schedule,
                    "beta": 0.1 if schedule.startswith("warm-up") else float(schedule),
                    "seed": seed,
                    "test_accuracy": accuracy[schedule] + common + generator.normal(0, 0.0001),
                    "confidence_counts": [few, 100.0, 100.0, 60_000 - 200 - few - sure, sure],
                    "curve_train_epoch": [0, 1, 5, 10, 15],
                    "curve_train_cross_entropy": [2.3, *[early[schedule] + common] * 3, 0.0],
                }
            )
    return pd.DataFrame(rows)


IMAGE_RUN = {
    "scale": "reduced",
    "dataset": "cifar10-jpeg",
    "model": "resnet18",
    "width": 0.25,
    "augmentation": "none",
    "momentum": 0.9,
    "learning_rate": 0.01,
    "lr_schedule": "milestones",
    "milestones": [0.5, 0.75],
    "match_gradient": False,
    "diverged": False,
}
FAST = {
    "model": "fast",
    "width": 1.0,
    "dataset": "cifar10",
    "augmentation": "crop2-flip",
    "seeds": 5,
    "lr_schedule": "one-cycle",
    "milestones": (),
}
"""The small network of real accuracy, with crops and flips."""
IMAGE_ACCURACY = {
    "20": 0.80,
    "5": 0.90,
    "1": 0.92,
    "0.1": 0.93,
    "0.01": 0.925,
    "warm-up 0.1→1": 0.94,
}
TRAIN_ACCURACY = {
    "20": 0.97,
    "5": 0.99,
    "1": 0.995,
    "0.1": 0.999,
    "0.01": 0.999,
    "warm-up 0.1→1": 0.998,
}
"""With β = 1 it is above 99 %, the premise of some claims."""
OVERCONFIDENCE = {
    "20": -0.02,
    "5": 0.01,
    "1": 0.04,
    "0.1": 0.06,
    "0.01": 0.07,
    "warm-up 0.1→1": 0.05,
}


def images(**settings) -> pd.DataFrame:
    """Made-up runs in which E6, E11, E12 and B2 hold: three seeds of every schedule.

    What a seed shares is noise here, because image networks are compared as independent samples.
    """
    generator = np.random.default_rng(0)
    rows = []
    for seed in range(settings.pop("seeds", 3)):
        common = generator.normal(0, 0.002)
        for schedule, accuracy in IMAGE_ACCURACY.items():
            small = generator.normal(0, 0.0003)
            over = OVERCONFIDENCE[schedule] + small
            row = IMAGE_RUN | {
                "campaign": "cifar10-reduced",
                "record": f"plain-seed{seed}.json",
                "epochs": 8,
                "subset": 6000,
                "train_samples": 6000,
                "label_noise": 0.0,
                "seed": seed,
                "schedule": schedule,
                "beta": 1.0 if schedule.startswith("warm-up") else float(schedule),
                "test_accuracy": accuracy + common + small,
                "test_confidence": accuracy + common + small + over,
                "test_top5_accuracy": 0.99 - accuracy / 10 + small,
                "train_accuracy": TRAIN_ACCURACY[schedule] + small,
                "test_ece": abs(over),
                "test_mce": 2 * abs(over),
                "valid_ece": abs(over),
                "test_ece_temperature": 0.025 + small,
                "test_ece_vector": 0.03 + small,
                "test_ece_link": 0.005 + small,
                "curve_test_accuracy": list(np.linspace(0.5, 0.9, 9)),
            }
            rows.append(row | settings)
    return pd.DataFrame(rows)


def feature_plane() -> pd.DataFrame:
    """Runs with features in the plane: E1 holds."""
    runs = mnist().assign(campaign="feature-plane")
    noise = 1 + 0.01 * np.sin(np.arange(len(runs)))
    ratio = runs["schedule"].map({"1": 0.5, "0.1": 0.3, "0.01": 0.2})
    nearest = runs["schedule"].map({"1": 0.6, "0.1": 0.5, "0.01": 0.2})
    return runs.assign(intra_inter_ratio=ratio * noise, minimum_to_mean_inter=nearest * noise)


def curriculum() -> pd.DataFrame:
    """Runs with the confidences of five groups of samples, hardest first: E2 holds."""
    runs = mnist().assign(campaign="samples", followed=10_000)
    small = runs["schedule"] == "0.01"
    hardest = np.where(small, 0.2, 0.5) + 0.001 * runs["seed"]
    # with β = 1 the easiest fifth is sure after the last epoch alone, with one seed not even then
    last = np.where(small | (runs["seed"] > 0), 0.95, 0.8)
    groups = [
        [[hard] * 4, *[[0.5] * 4] * 3, [0.1, 0.95 if early else 0.6, 0.8, sure]]
        for hard, early, sure in zip(hardest, small, last, strict=True)
    ]
    never = np.where(small, 0.02, 0.01) + 1e-4 * runs["seed"]
    return runs.assign(group_confidence=groups, never_learnt=never)


def conflict() -> pd.DataFrame:
    """Runs with the epochs at which samples in conflict with the average are learnt: B8 holds."""
    runs = mnist().assign(
        record="perceptron.json", campaign="samples", followed=5_000, hidden=[[50, 20]] * 50
    )
    runs = runs[runs["schedule"].isin(["1", "0.1", "0.01", "0.001"])]
    small = runs["schedule"] == "0.001"
    noise = 0.001 * np.sin(np.arange(len(runs)))
    return runs.assign(
        conflict_late=np.where(small, 0.9, 0.7) + noise,
        conflict_delay=np.where(small, 5.0, 2.0) + noise,
        others_epoch=np.where(small, 1.0, 2.0) + noise,
    )


def many_classes() -> pd.DataFrame:
    """Runs on CIFAR-100, with both warm-ups: E8, E16, E17 and E18 hold."""
    runs = images(**FAST | {"dataset": "cifar100", "epochs": 8})
    changes = {"20": 0.15, "5": 0.05, "warm-up 0.1→1": 0.03}
    higher = runs["schedule"].map(changes).fillna(0.0)
    first = 0.5 + runs["schedule"].eq("warm-up 0.1→1") * 0.1 + 0.001 * runs["seed"]
    runs = runs.assign(
        test_accuracy=runs["test_accuracy"] + higher,
        test_confidence=runs["test_confidence"] + higher,
        curve_test_accuracy=[[0.01, *[one] * 8] for one in first],
    )
    other = runs[runs["schedule"] == "warm-up 0.1→1"].assign(schedule="warm-up 1→5")
    return pd.concat([runs, other], ignore_index=True)


def tiny_imagenet() -> pd.DataFrame:
    """Runs in which β = 5 has the top-1 accuracy of β = 0.1: E9 holds."""
    runs = images(dataset="tiny-imagenet")
    more = runs["schedule"].map({"5": 0.03}).fillna(0.0)
    return runs.assign(test_accuracy=runs["test_accuracy"] + more)


def matched() -> pd.DataFrame:
    """The runs of :func:`images`, and the same at a rate matched to β: a and b of B1 hold."""
    return pd.concat([images(), images(match_gradient=True)], ignore_index=True)


def rates_on_cifar100() -> pd.DataFrame:
    """Three learning rates of three β: at the chosen ones β = 5 and 50 are level, and B7 holds."""
    runs = images(**FAST | {"dataset": "cifar100", "valid_accuracy": 0.8})
    runs = runs[runs["schedule"].isin(["20", "5", "1"])]
    schedule = runs["schedule"].replace({"20": "50"})
    common = runs.assign(schedule=schedule, beta=schedule.astype(float))
    level = 0.92 + 1e-4 * np.sin(np.arange(len(runs)))
    learnt = 0.99 + 1e-4 * np.sin(np.arange(len(runs)))
    at_best = {"learning_rate": 0.1, "valid_accuracy": 0.9, "train_accuracy": learnt}
    best = common.assign(test_accuracy=level, **at_best)
    third = common.assign(learning_rate=0.4, valid_accuracy=0.6)
    return pd.concat([common, best, third], ignore_index=True)


def feedback() -> pd.DataFrame:
    """A β that follows the confidence, at the common rate and at a matched one: B3 holds."""
    constant = images()
    constant = constant[constant["schedule"] == "1"]
    following = constant.assign(
        schedule="feedback 1, 5, 5",
        test_ece=constant["test_ece"] / 2,
        test_accuracy=constant["test_accuracy"] + 0.002,
    )
    both = [constant, following, following.assign(match_gradient=True)]
    return pd.concat(both, ignore_index=True)


BALANCED_ACCURACY = {
    "1": 0.5,
    "0.1": 0.45,
    "class-beta 0.1": 0.6,
    "adjusted 1": 0.7,
    "adjusted 0.1": 0.65,
    "weighted 0.1": 0.55,
    "weighted 1": 0.58,
}


def long_tailed() -> pd.DataFrame:
    """Classes of unequal size, and what corrects for it: B5 holds."""
    constant = images(model="fast", width=1.0)
    constant = constant[constant["schedule"] == "1"]
    runs = pd.concat([constant] * len(BALANCED_ACCURACY), ignore_index=True)
    name = pd.Series(np.repeat(list(BALANCED_ACCURACY), len(constant)))
    noise = 0.001 * runs["seed"] * np.sin(runs.index)
    return runs.assign(
        imbalance=100.0,
        schedule=name,
        loss=name.where(name.str.contains(" "), "gd"),
        beta=name.eq("0.1").map({True: 0.1, False: 1.0}),
        test_accuracy=name.map(BALANCED_ACCURACY) + noise,
        test_accuracy_link=0.68 + noise,
    )


PEOPLE_ACCURACY = {
    "5": 0.80,
    "1": 0.82,
    "0.1": 0.84,
    "gce 0.7": 0.87,
    "negative-probability": 0.86,
    "focal 2": 0.83,
    "poly1 1": 0.83,
    "label-smoothing 0.1": 0.84,
}


def labels_of_people(**settings) -> pd.DataFrame:
    """Labels as people gave them, some of them wrong: B6 holds."""
    constant = images(
        **FAST | {"seeds": 3, "campaign": "wrong-labels", "labels": "worst"} | settings
    )
    constant = constant[constant["schedule"] == "1"]
    runs = pd.concat([constant] * len(PEOPLE_ACCURACY), ignore_index=True)
    name = pd.Series(np.repeat(list(PEOPLE_ACCURACY), len(constant)))
    of_beta = name.str.match("[0-9]")
    accuracy = name.map(PEOPLE_ACCURACY) + 0.001 * runs["seed"] * np.sin(runs.index)
    return runs.assign(
        schedule=name,
        loss=name.mask(of_beta, "gd"),
        beta=name.where(of_beta, "1").astype(float),
        test_accuracy=accuracy,
        valid_accuracy=accuracy,
        test_nll_temperature=1 - accuracy,
    )


def oscillations() -> pd.DataFrame:
    """With momentum, without it, and without it at ten times the rate: a and b of E13 hold."""
    runs = [
        oscillating(0.9, 0.01, {"5": 0.05, "0.1": 0.01}),
        oscillating(0.0, 0.01, {"5": 0.01, "0.1": 0.02}),
        oscillating(0.0, 0.1, {"5": 0.01, "0.1": 0.02}),
    ]
    return pd.concat(runs, ignore_index=True)


def oscillating(momentum: float, rate: float, sizes: dict[str, float]) -> pd.DataFrame:
    runs = images(momentum=momentum, learning_rate=rate, milestones=())
    runs = runs[runs["schedule"].isin(list(sizes))].copy()
    size = runs["schedule"].map(sizes) * (1 + 0.05 * runs["seed"])
    runs["curve_test_accuracy"] = [
        [0.1, 0.3, 0.6, 0.8, 0.8, 0.8 + s, 0.8 - s, 0.8 + s, 0.8 - s] for s in size
    ]
    return runs


MARGIN_ACCURACY = {
    "softmax": 0.70,
    "lm 0.1": 0.71,
    "lm 0.3": 0.74,
    "lm 0.9": 0.75,
    "lm 1": 0.76,
    "lm-qu 0.3": 0.72,
    "lm-qu 0.9": 0.73,
    "lm-uq 0.1": 0.60,
    "lm-uq 0.3": 0.735,
    "lm-uq 0.9": 0.745,
    "label-smoothing 0.1": 0.71,
    "label-smoothing 0.3": 0.705,
    "super-symmetry": 0.69,
    "hinge": 0.60,
    "modified": 0.72,
    "modified-lm 0.3": 0.745,
    "l-softmax 2": 0.73,
    "lgm 0.3 0.1": 0.65,
}
BIAS = {"softmax": 0.7, "lm 0.3": 1.0, "label-smoothing 0.1": 0.9}


def margins(losses: list[str] | None = None, seeds: int = 3, **settings) -> pd.DataFrame:
    """Runs in which every part of L3, L4 and L6 is met."""
    generator, rows = np.random.default_rng(0), []
    for seed in range(seeds):
        common = generator.normal(0, 0.001)
        for loss in losses if losses is not None else MARGIN_ACCURACY:
            small = generator.normal(0, 0.0003)
            bias = BIAS.get(loss, 0.8) + small
            rise = 0.1 if loss in ("lm 0.3", "label-smoothing 0.1") else 0.0
            row = IMAGE_RUN | {
                "campaign": "large-margin",
                "record": f"bias-{loss}-seed{seed}.json",
                "model": "vgg16",
                "augmentation": "crop-flip",
                "lr_schedule": "exponential",
                "learning_rate": 0.03,
                "milestones": [],
                "epochs": 20,
                "subset": 6000,
                "train_samples": 6000,
                "label_noise": 0.0,
                "loss": loss,
                "schedule": loss,
                "beta": 1.0,
                "seed": seed,
                "test_accuracy": MARGIN_ACCURACY[loss] + common + small,
                "test_confidence": MARGIN_ACCURACY[loss] + common,
                "train_margin_bias": bias,
                "curve_train_epoch": [0, 10, 20],
                "curve_train_margin_bias": [2.1, bias - rise - abs(small), bias],
            }
            rows.append(row | settings)
    return pd.DataFrame(rows)


def degraded() -> pd.DataFrame:
    """Half of the samples, and two shares of wrong labels, beside all samples: L5 holds."""
    losses = ["softmax", "lm 0.3", "lm 1"]
    parts = [
        margins(losses),
        margins(losses, train_samples=3000, subset=3000),
        margins(losses, label_noise=0.2),
        margins(losses, label_noise=0.5),
    ]
    return pd.concat(parts, ignore_index=True)


ANGULAR_ACCURACY = {
    "softmax": 0.60,
    "arcgrad 10": 0.66,
    "arcface 20 0.1": 0.64,
    "center 0.02": 0.61,
    "m-softmax 0.5": 0.62,
    "adacos": 0.63,
}
INTRA = {
    "softmax": 0.80,
    "arcgrad 10": 0.24,
    "arcface 20 0.1": 0.39,
    "center 0.02": 0.42,
    "m-softmax 0.5": 0.69,
    "adacos": 0.41,
}


def trained(
    changes: dict[str, float] | None = None,
    *,
    samples: int = 6000,
    epochs: int = 15,
    seeds: int = 3,
    entry: str = "augmented",
    **columns,
) -> pd.DataFrame:
    """Made-up runs that say what the paper says; changes are added to the accuracy of a loss."""
    generator, rows = np.random.default_rng(samples + epochs), []
    for seed in range(seeds):
        common = generator.normal(0, 0.01)
        for loss, accuracy in ANGULAR_ACCURACY.items():
            noise = generator.normal(0, 1e-3)
            row = IMAGE_RUN | {
                "campaign": "angular-reduced",
                "angles": True,
                "subset": 0,
                "record": f"{entry}-{loss.replace(' ', '-')}-seed{seed}.json",
                "augmentation": "crop-flip",
                "epochs": epochs,
                "train_samples": samples,
                "seed": seed,
                "loss": loss,
                "schedule": loss,
                "test_accuracy": accuracy + (changes or {}).get(loss, 0.0) + common + noise,
                # center loss has the best top-5 accuracy
                "test_top5_accuracy": 0.95 + 0.02 * (loss == "center 0.02") + noise,
                "wc_intra": INTRA[loss] + noise,
                "w_inter": (1.0 if loss == "adacos" else 1.7 - INTRA[loss] / 2) + noise,
                "c_inter": 1.7 - INTRA[loss] / 2 + noise,
                "curve_epoch": [0, 3, 6],
                "curve_target_angle": [
                    3.0 - 2 * INTRA[loss],
                    1.2 * INTRA[loss] + noise,
                    INTRA[loss] + noise,
                ],
            }
            rows.append(row | columns)
    return pd.DataFrame(rows)


def cuts() -> pd.DataFrame:
    """Everything, a quarter of the samples, and a third of the epochs.

    ArcGrad's lead grows by 4 points in both.
    """
    lead = {"arcgrad 10": 0.04}
    few, short = (
        trained(lead, samples=1500, entry="fewer"),
        trained(lead, epochs=5, entry="shorter"),
    )
    return pd.concat([trained(), few, short], ignore_index=True)


def steps(repetitions: int = 5) -> pd.DataFrame:
    """Made-up times of a step: longer with ArcGrad, by a smaller share in the deeper network."""
    generator, rows = np.random.default_rng(0), []
    for repetition in range(repetitions):
        for model, seconds, excess in (("resnet18", 1.0, 0.03), ("resnet34", 2.0, 0.015)):
            load = 1 + 0.2 * generator.random()  # what a repetition shares
            for loss, factor in (
                ("softmax", 1.0),
                ("arcgrad 10", 1 + excess + generator.normal(0, 0.002)),
            ):
                rows.append(
                    {
                        "campaign": "angular-cost",
                        "experiment": "cost",
                        "record": "reduced.json",
                        "scale": "reduced",
                        "model": model,
                        "loss": loss,
                        "schedule": loss,
                        "seed": repetition,
                        "width": 0.25,
                        "batch_size": 256,
                        "measured_on": "cpu",
                        "diverged": False,
                        "step_seconds": seconds * factor * load,
                        "criterion_seconds": seconds * (factor - 0.99) * load,
                    }
                )
    return pd.DataFrame(rows)


def with_rivals() -> pd.DataFrame:
    """The warm-up and its two rivals in one variant, as two campaigns leave them.

    The first does not name the loss.
    """
    accuracy = {"warm-up 0.1→1": 0.70, "1": 0.69, "a-softmax 4": 0.68, "center 0.003": 0.67}
    generator, rows = np.random.default_rng(2), []
    for seed in range(3):
        common = generator.normal(0, 0.01)
        for schedule, mean in accuracy.items():
            loss = schedule if schedule in RIVALS else None
            rows.append(
                IMAGE_RUN
                | {
                    "campaign": "margin-losses-reduced" if loss else "cifar10-reduced",
                    "record": f"plain-seed{seed}.json",
                    "subset": 6000,
                    "epochs": 20,
                    "seed": seed,
                    "loss": loss,
                    "schedule": schedule,
                    "beta": 1.0,
                    "curve_test_accuracy": [0.5],
                    "test_accuracy": mean + common + generator.normal(0, 1e-3),
                    "test_confidence": 0.9,
                }
            )
    return pd.DataFrame(rows)


def table_i(
    changes: dict[str, float] | None = None,
    seeds: int = 10,
    campaign: str = "tables",
    **columns: object,
) -> pd.DataFrame:
    """Runs with the accuracies of the paper's Table I and a little noise.

    Changes are added to the column of a method.
    """
    generator, rows = np.random.default_rng(0), []
    paper = claims.paper_table_i()
    for seed in range(seeds):
        for title in paper.index:
            for method in paper.columns:
                accuracy = (
                    paper.loc[title, method] + (changes or {}).get(method.label, 0.0)
                ) / 100 + generator.normal(0, 1e-4)
                rows.append(
                    {
                        "campaign": campaign,
                        "record": f"{method.label}.json",
                        "scale": "paper",
                        "dataset": f"uci/{title}",
                        "title": title,
                        "classes": 2,
                        "loss": method.label,
                        "seed": seed,
                        "normalization": "standard",
                        "optimizer": "sgd",
                        "learning_rate": 0.1,
                        "weight_decay": 0.0,
                        "epochs": 10,
                        "hidden": [16, 16],
                        "duplicates_together": False,
                        "test_accuracy": accuracy,
                        "fold_accuracies": [accuracy] * 10,
                        "curve_epoch": [0, 10, 20, 30, 50],
                        "curve_test_accuracy": [
                            0.0,
                            accuracy + 0.05,
                            accuracy,
                            accuracy - 0.1,
                            accuracy + 0.01,
                        ],
                        **columns,
                    }
                )
    return pd.DataFrame(rows)


def depth(ten: dict[str, float]) -> pd.DataFrame:
    """Iris with three and with ten layers."""
    shallow = table_i(campaign="iris-depth")
    shallow = shallow[shallow["title"] == "Iris"]
    accuracy = shallow["loss"].map(ten).fillna(shallow["test_accuracy"]) + 1e-4 * shallow["seed"]
    deep = shallow.assign(
        hidden=[[16] * 9] * len(shallow),
        test_accuracy=accuracy,
        fold_accuracies=[[one] * 10 for one in accuracy],
    )
    return pd.concat([shallow, deep], ignore_index=True)


def stepping() -> pd.DataFrame:
    """Runs in which B4 holds.

    An over-small β loses samples where the step is large, and wins some where it is small.
    """
    rows = []
    steps = [(rate, 1.0, 1.0) for rate in (0.001, 0.01, 0.03, 0.1)] + [
        (0.001, 255.0, 1 / 255),
        (0.001, 1.0, 255.0),
    ]
    for rate, inputs, weights in steps:
        for beta in (1.0, 0.001):
            for seed in range(5):
                large = rate == 0.1 or weights != 1
                errors = (400 if beta == 1 else 900 if large else 100) + seed * (1 + beta)
                share = 0.5 if beta == 1 else 0.95
                row = {
                    "campaign": "samples",
                    "hidden": [50, 20],
                    "test_every": 1,
                    "followed": None,
                    "dataset": "mnist",
                    "record": "a.json",
                    "scale": "paper",
                    "activation": "tanh",
                    "normalization": "unit",
                }
                row |= {
                    "learning_rate": rate,
                    "input_scale": inputs,
                    "first_weights": weights,
                    "schedule": f"{beta:g}",
                    "beta": beta,
                }
                row |= {
                    "seed": seed,
                    "train_samples": 60_000,
                    "train_accuracy": 1 - errors / 60_000,
                }
                rows.append(
                    row
                    | {"confidence_counts": [share * errors + seed, 60_000 - share * errors - seed]}
                )
    return pd.DataFrame(rows)


def widths() -> pd.DataFrame:
    """Runs in which E19 holds: an over-small β loses samples in a narrow network alone."""
    narrow = stepping()
    narrow = narrow[
        (narrow["first_weights"] == 1) & narrow["learning_rate"].isin([0.001, 0.1])
    ].assign(activation="relu", hidden=[[25, 10]] * 20)
    wide = narrow.assign(
        hidden=[[400, 160]] * 20,
        confidence_counts=[[seed, 60_000 - seed] for seed in narrow["seed"]],
    )
    counts = [
        [900 if beta < 1 else 100 + seed, 59_000]
        for beta, seed in zip(narrow["beta"], narrow["seed"], strict=True)
    ]
    return pd.concat([narrow.assign(confidence_counts=counts), wide], ignore_index=True)
