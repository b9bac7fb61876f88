"""What each β did against β = 1 in every variant in which it was varied.

These are the numbers of the first page and of its figure.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
from IPython.display import HTML

from study.claims import VariantRuns, Verdict, deciding
from study.methods import Method
from study.tables.page import Page
from study.variants import FAST, PERCEPTRON, Variant

_LEAST = 3  # seeds
_NETWORKS = {
    PERCEPTRON: "the papers' network",
    FAST: "a small network",
    "resnet18": "a narrow ResNet18",
    "vgg16": "a narrow VGG16",
}
_MEANS = {
    "accuracy": "test_accuracy",
    "early": "early",
    "ece": "test_ece",
    "link": "test_ece_link",
    "temperature": "test_ece_temperature",
}
_GAINS = {"accuracy": "gain", "early": "early gain"}


def variants(page: Page) -> pd.DataFrame:
    """List each variant (data, network, recipe) with its constant β.

    The runs are those that the criteria select.

    Returns:
        A row for each variant and β: networks at real accuracy, MNIST, reduced runs. ``variant``
        and ``note`` are words; ``decides`` is false for older runs that a network at real accuracy
        has replaced. Means over the ``seeds`` in per cent: ``accuracy``, that of the first quarter
        of the epochs (``early``), the calibration error (``ece``), the same after the ``link`` and
        after a ``temperature`` (NaN where not recorded); ``lost`` counts training samples. ``gain``
        and ``early gain`` are intervals of the difference to β = 1 in percentage points.
    """
    images, grid, rates = (page.runs(kind) for kind in ("images", "grid", "step"))
    if len(rates):  # of all layers; the papers' own is in the grid
        rates = rates[
            rates["input_scale"].eq(1)
            & rates["first_weights"].eq(1)
            & rates["learning_rate"].ne(0.001)
        ]
        rate = rates["learning_rate"].map(", learning rate {:g}".format)
        grid = pd.concat([grid, rates.assign(variant=rates["variant"] + rate)])
    fast = images["model"] == FAST
    mnist = grid.assign(variant="MNIST, " + grid["variant"], model=PERCEPTRON)
    runs = pd.concat([images[fast], mnist, images[~fast]])
    runs = runs[runs["method"].map(lambda method: method.beta is not None)]
    runs = runs[runs.groupby(["variant", "beta"])["seed"].transform("nunique") >= _LEAST]
    curves = zip(runs["curve_epoch"], runs["curve_test_accuracy"], runs["epochs"], strict=True)
    runs["early"] = [
        float(pd.Series(accuracy, epochs).loc[1e-9 : last / 4].mean())
        for epochs, accuracy, last in curves
    ]
    newest = {variant.short for variant in deciding(page.records, "images", ("E6", "E8"))}
    rows = []
    for name, own in runs.groupby("variant", sort=False):
        first = own.iloc[0]
        model, scale = first["model"], "" if first["scale"] == "paper" else "reduced: "
        about = {
            "variant": name,
            "note": f"{scale}{_NETWORKS.get(model, model)}, {first['epochs']:.0f} epochs",
            "decides": name in newest or model == PERCEPTRON,
            "network": model,
            "normalization": first["normalization"],
        }
        rows += [about | row for row in _by_beta(VariantRuns(Variant(), own))]
    return pd.DataFrame(rows)


def _by_beta(trained: VariantRuns) -> Iterator[dict[str, Any]]:
    """Give the numbers of each constant β of a variant, the smallest first."""
    for beta, runs in trained.runs.groupby("beta"):
        method = Method.of_beta(float(str(beta)))
        row: dict[str, Any] = {
            "beta": beta,
            "seeds": runs["seed"].nunique(),
            "lost": runs["lost"].mean(),
        }
        row |= {
            title: (100 * trained.having(metric, method)).mean() for title, metric in _MEANS.items()
        }
        for title in ("accuracy", "early"):
            gain = trained.interval(_MEANS[title], method, Method.of_beta(1.0))
            row[_GAINS[title]] = gain.times(100) if gain else None
        yield row


def numbers(table: pd.DataFrame, b1: Verdict, b4: Verdict) -> dict[str, Any]:
    """Compute what the sentences of the first page speak of, from the variants that decide.

    Args:
        table: as :func:`variants` gives them.
        b1: the verdict on B1, whether β does more than a learning rate: parts d and g have a rate
            chosen for each β, on CIFAR-10 and MNIST.
        b4: the verdict on B4, whether the step decides what an over-small β loses: training errors
            at a small one (a), and a large one (b).

    Returns:
        Of the ``accuracy`` and of the ``early`` one, by β: the ``gains`` variant by variant, and in
        how many variants the interval of the gain is ``higher`` or ``lower`` than 0. ``advised`` is
        the β that lost least accuracy where it did worst, of those that were run in all
        ``variants``, of which some are ``mnist``; ``confidence`` has its calibration errors, beside
        the ``usual`` one of β = 1.
    """
    table = table[table["decides"]]
    by_beta = {float(str(beta)): own for beta, own in table.groupby("beta")}
    of_accuracy = {
        name: {
            "gains": {
                beta: [gain.estimate for gain in own[column]] for beta, own in by_beta.items()
            },
            "higher": {
                beta: sum(gain.low > 0 for gain in own[column]) for beta, own in by_beta.items()
            },
            "lower": {
                beta: sum(gain.high < 0 for gain in own[column]) for beta, own in by_beta.items()
            },
        }
        for name, column in _GAINS.items()
    }
    count, gains = table["variant"].nunique(), of_accuracy["accuracy"]["gains"]
    advised = max(
        (beta for beta in gains if beta != 1 and len(gains[beta]) == count),
        key=lambda beta: min(gains[beta]),
    )
    linked, smallest = table[table["link"].notna()], by_beta[min(by_beta)]
    of_raw_pixels = smallest["network"].eq(PERCEPTRON) & smallest["normalization"].eq("none")
    usual = linked[linked["beta"] == 1].set_index("variant")
    at_advised = linked[linked["beta"] == advised].assign(
        usual=lambda own: own["variant"].map(usual["ece"])
    )
    errors = {
        part.id: [finding.difference.mean for finding in part.deciding if finding.difference]
        for part in b4.parts
    }
    points = {
        part.id: [
            one.difference.interval.times(100)
            for finding in part.deciding
            for one in finding.comparisons()
            if one.difference
        ]
        for part in b1.parts
    }
    return of_accuracy | {
        "variants": count,
        "mnist": table.loc[table["network"] == PERCEPTRON, "variant"].nunique(),
        "advised": advised,
        "smallest": min(by_beta),
        "confidence": at_advised[["ece", "link", "temperature", "usual"]].to_dict("list"),
        "raw": [gain.estimate for gain in smallest.loc[of_raw_pixels, "gain"]],
        "temperature": usual["temperature"].tolist(),
        "chosen_rates": points.get("d", []),
        "chosen_rates_mnist": points.get("g", []),
        "small_step": errors.get("a", []),
        "large_step": errors.get("b", []),
    }


def play(table: pd.DataFrame) -> HTML:
    """Give the numbers of :func:`variants` to the figure to play with.

    The figure is ``book/_static/play.js``, which takes the place of its picture.
    """
    return element([_played(str(name), own) for name, own in table.groupby("variant", sort=False)])


def element(content: list[dict[str, Any]]) -> HTML:
    """Write the element of a page that the script fills with these variants."""
    text = json.dumps(
        {"variants": content}, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).replace("<", "\\u003c")
    return HTML(
        '<div class="play" data-instead="fig-play">'
        f'<script type="application/json">{text}</script></div>'
    )


def _played(name: str, own: pd.DataFrame) -> dict[str, Any]:
    one = own[own["beta"] == 1].iloc[0]
    errors = {
        title: [_short(value) for value in own[title]] for title in ("ece", "link", "temperature")
    }
    gains = [[_short(end) for end in (gain.estimate, gain.low, gain.high)] for gain in own["gain"]]
    about = {
        "name": name,
        "note": one["note"],
        "seeds": int(one["seeds"]),
        "accuracy": _short(one["accuracy"]),
    }
    return about | {"beta": own["beta"].tolist(), "gain": gains} | errors


def _short(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 2)
