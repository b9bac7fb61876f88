"""What each β did against β = 1, at one learning rate, in every variant in which it was varied.

These are the numbers of the first page and of its figure.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd
from IPython.display import HTML

from study.claims import VariantRuns, Verdict, deciding
from study.methods import Method
from study.statistics import Interval
from study.tables.page import selected
from study.variants import FAST, PERCEPTRON, Variant

_LEAST = 3  # seeds
_NETWORKS = {
    PERCEPTRON: "the papers' network",
    FAST: "a small network",
    "resnet18": "ResNet18",
}
_MEANS = {
    "accuracy": "test_accuracy",
    "early": "early",
    "ece": "test_ece",
    "link": "test_ece_link",
    "temperature": "test_ece_temperature",
}
_GAINS = {"accuracy": "gain", "early": "early gain"}


def variants(runs: pd.DataFrame) -> pd.DataFrame:
    """List each variant (data, network, recipe) with its constant β.

    Args:
        runs: all runs, of which those are taken that the claims select.

    Returns:
        A row for each variant and β: networks at real accuracy, MNIST, reduced runs. ``variant``
        and ``note`` are words; ``decides`` is false for older runs that a network at real accuracy
        has replaced. Means over the ``seeds`` in per cent: ``accuracy``, that of the first quarter
        of the epochs (``early``), the calibration error (``ece``), the same after the ``link`` and
        after a ``temperature`` (NaN where not recorded); ``lost`` counts training samples. ``gain``
        and ``early gain`` are intervals of the difference to β = 1 in percentage points, as
        verdicts have them.
    """
    images, grid, rates = (selected(runs, name) for name in ("images", "grid", "step"))
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
    known = pd.concat([images[fast], mnist, images[~fast]])
    curves = zip(known["curve_epoch"], known["curve_test_accuracy"], known["epochs"], strict=True)
    known["early"] = [
        float(pd.Series(accuracy, epochs).loc[1e-9 : last / 4].mean())
        for epochs, accuracy, last in curves
    ]
    seeds = known.groupby(["variant", "method"])["seed"].transform("nunique")
    constant = known["method"].map(lambda method: method.beta is not None)
    newest = {variant.short for variant in deciding(runs, "images", ("E6", "E8"))}
    rows = []
    for name, own in known[constant & (seeds >= _LEAST)].groupby("variant", sort=False):
        together = known[known["variant"] == name]  # with its warm-ups, as verdicts estimate
        first = own.iloc[0]
        model, scale = first["model"], "" if first["scale"] == "paper" else "reduced: "
        network = _NETWORKS.get(model, model)
        if model not in (PERCEPTRON, FAST) and first["width"] < 1:
            network = f"a narrow {network}"
        about = {
            "variant": name,
            "note": f"{scale}{network}, {first['epochs']:.0f} epochs",
            "decides": name in newest or model == PERCEPTRON,
            "network": model,
            "normalization": first["normalization"],
        }
        rows += [about | row for row in _by_beta(VariantRuns(Variant(), own, whole=together))]
    return pd.DataFrame(rows)


def _by_beta(trained: VariantRuns) -> Iterator[dict[str, Any]]:
    """Give the numbers of each constant β of a variant, the smallest first."""
    for beta, runs in trained.runs.groupby("beta"):
        method = Method.of_beta(cast(float, beta))
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


@dataclass(frozen=True)
class Gains:
    """An accuracy minus that of β = 1, by β."""

    gains: Mapping[float, list[float]]
    """The mean difference in percentage points, variant by variant."""
    higher: Mapping[float, int]
    """In how many variants the interval lies above 0."""
    lower: Mapping[float, int]
    """In how many variants the interval lies below 0."""


@dataclass(frozen=True)
class CalibrationErrors:
    """The calibration errors of one β in per cent, variant by variant."""

    ece: list[float]
    """As trained."""
    link: list[float]
    """After the link."""
    temperature: list[float]
    """After a fitted temperature."""

    @property
    def taken_by_link(self) -> list[float]:
        """How much of the error the link takes back."""
        return [before - after for before, after in zip(self.ece, self.link, strict=True)]

    @property
    def taken_further(self) -> list[float]:
        """How much more of it a fitted temperature takes back than the link."""
        return [
            link - temperature
            for link, temperature in zip(self.link, self.temperature, strict=True)
        ]


@dataclass(frozen=True)
class LongSteps:
    """How trainings of MNIST end at the largest learning rate that was tried."""

    rate: float
    """That learning rate."""
    trainings: Mapping[float, int]
    """How many trainings there are, by β."""
    at_chance: Mapping[float, int]
    """How many of them end at chance, by β: with a test accuracy below one half."""


@dataclass(frozen=True)
class FirstPage:
    """What the sentences of the first page speak of: variants that decide, in per cent and points.

    The expressions in ``book/answers.yml`` name these fields.
    """

    variants: int
    """How many there are."""
    mnist: int
    """How many of them are of MNIST."""
    accuracy: Gains
    """The test accuracy after the last epoch."""
    early: Gains
    """The mean test accuracy of the first quarter of the epochs."""
    on_images: Gains
    """The test accuracy after the last epoch, in the variants that are not of MNIST."""
    advised: float
    """The β that lost least accuracy where it did worst, of those that were run in all variants."""
    smallest: float
    """The smallest β that was run."""
    confidence: CalibrationErrors
    """Those of the advised β, where the error after the link was recorded."""
    temperature: list[float]
    """The calibration errors of β = 1 after a fitted temperature, in the same variants."""
    raw: list[float]
    """The gains in accuracy of the smallest β with pixels from 0 to 255 on MNIST."""
    chosen_rates: list[Interval]
    """The gains in accuracy with a rate chosen for each β, on CIFAR-10."""
    chosen_rates_mnist: list[Interval]
    """The gains in accuracy with a rate chosen for each β, on MNIST."""
    small_step: list[float]
    """How many more training samples an over-small β gets wrong, with a small step."""
    large_step: list[float]
    """How many more training samples an over-small β gets wrong, with a large step."""
    long_steps: LongSteps
    """What a long step does to each β on MNIST."""


def numbers(table: pd.DataFrame, tuned: pd.DataFrame, b1: Verdict, b4: Verdict) -> FirstPage:
    """Compute what the sentences of the first page speak of, from the variants that decide.

    Args:
        table: as :func:`variants` gives them.
        tuned: the selection ``mnist-tuned``, runs of MNIST at several learning rates.
        b1: the verdict on B1, whether β does more than a learning rate: parts d and g have a rate
            chosen for each β, on CIFAR-10 and MNIST.
        b4: the verdict on B4, whether the step decides what an over-small β loses: training errors
            at a small one (a), and a large one (b).
    """
    table = table[table["decides"]]
    by_beta = {float(cast(float, beta)): own for beta, own in table.groupby("beta")}
    accuracy, early = (_gains(by_beta, column) for column in _GAINS.values())
    images = {beta: own[own["network"] != PERCEPTRON] for beta, own in by_beta.items()}
    count = table["variant"].nunique()
    advised = max(
        (beta for beta, gains in accuracy.gains.items() if beta != 1 and len(gains) == count),
        key=lambda beta: min(accuracy.gains[beta]),
    )
    linked, smallest = table[table["link"].notna()], by_beta[min(by_beta)]
    of_raw_pixels = smallest["network"].eq(PERCEPTRON) & smallest["normalization"].eq("none")
    at_advised = linked[linked["beta"] == advised]
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
    return FirstPage(
        variants=count,
        mnist=table.loc[table["network"] == PERCEPTRON, "variant"].nunique(),
        accuracy=accuracy,
        early=early,
        on_images=_gains(images, _GAINS["accuracy"]),
        advised=advised,
        smallest=min(by_beta),
        confidence=CalibrationErrors(
            ece=at_advised["ece"].tolist(),
            link=at_advised["link"].tolist(),
            temperature=at_advised["temperature"].tolist(),
        ),
        temperature=linked.loc[linked["beta"] == 1, "temperature"].tolist(),
        raw=[gain.estimate for gain in smallest.loc[of_raw_pixels, "gain"]],
        chosen_rates=points.get("d", []),
        chosen_rates_mnist=points.get("g", []),
        small_step=errors.get("a", []),
        large_step=errors.get("b", []),
        long_steps=_long_steps(tuned),
    )


def _long_steps(tuned: pd.DataFrame) -> LongSteps:
    longest = tuned[tuned["learning_rate"] == tuned["learning_rate"].max()]
    by_beta = longest["test_accuracy"].lt(0.5).groupby(longest["beta"])
    return LongSteps(
        float(longest["learning_rate"].max()), by_beta.size().to_dict(), by_beta.sum().to_dict()
    )


def trained_on(table: pd.DataFrame) -> str:
    """Say what was trained, and how β = 20 calibrates where training images are learnt or not.

    Args:
        table: as :func:`variants` gives them.
    """
    errors = table.set_index(["variant", "beta"])["ece"]

    def changes(variant: str) -> str:
        return _change(float(errors[variant, 1.0]), float(errors[variant, 20.0]))

    text = (
        "Measured on MNIST with the papers' network, and on CIFAR-10 and CIFAR-100 with a small"
        " one that trains for 12 epochs. Without augmentation it has learnt its training images."
        " As β goes from 1 to 20, the calibration error on CIFAR-100"
        f" {changes('CIFAR-100, unaugmented')} there. With crops and flips it has not learnt"
        f" them, and the error {changes('CIFAR-100, crops and flips')}."
    )
    wide = "CIFAR-100, width 2, crops and flips"
    if wide in errors.index:
        text += (
            " Twice as wide and after 40 epochs it has learnt them too, and the error"
            f" {changes(wide)}."
        )
    return text


def _change(before: float, after: float) -> str:
    verb = "falls" if after < before else "rises"
    return f"{verb} from {before:.1f} to {after:.1f} %"


def _gains(by_beta: Mapping[float, pd.DataFrame], column: str) -> Gains:
    """Count the gains of each β, which are intervals in a column."""
    gains = {beta: own[column].tolist() for beta, own in by_beta.items()}
    return Gains(
        {beta: [gain.estimate for gain in each] for beta, each in gains.items()},
        {beta: sum(gain.low > 0 for gain in each) for beta, each in gains.items()},
        {beta: sum(gain.high < 0 for gain in each) for beta, each in gains.items()},
    )


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
