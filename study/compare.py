"""Compare two methods in every variant, by the rules of this book.

The rules, written on 28 November 2026, when every run of 27 November was known:

1. A run is one seed. Tables and flowers get numbers; ten partitions of 150 flowers get no word.
2. One comparison a claim, with its date; a dagger where a deciding run was known. Side comparisons
   are shown without words.
3. In each variant: the difference of the means over all seeds with Welch's 95 % interval, and both
   numbers of runs. Before and after on the same network, and perceptrons with equal seeds: paired.
4. *Yes* or *no* by the side of 0; else *not as large*, where the papers' median effect lies
   outside; else *open*.
5. No variant is excluded; training accuracy stands beside it. Where variants differ the condition
   is named.
6. Runs on a part of the images stand in an appendix where nothing else exists, and say so.
7. It is said how many of the intervals would miss by chance; p < .001 is bold.

Where a method has one run in a variant, there is a difference and no interval, and the word is
*open*.

A variant is what the papers leave unsaid, filled in one way: the columns in ``variant``.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from study.methods import method_name

Side = Mapping[str, Any] | float
"""One side of a comparison: see :func:`compare`."""

YES, NO, NOT_AS_LARGE, OPEN, NOT_RUN = "yes", "no", "not as large", "open", "not run"

_SHARES = re.compile("accuracy|confidence|_ece|gap|oscillation|excess|conflict_late")
"""Metrics that are written in per cent, and their differences in percentage points."""
_COUNTS = re.compile("lost|errors")
"""Metrics that are numbers of samples."""

_GLUE = "\N{NO-BREAK SPACE}"
_DAGGER = "† A run that decides was known when this was written down."

WORDS: Mapping[str, Mapping[Hashable, str]] = {
    "dataset": {
        "mnist": "MNIST",
        "cifar10": "CIFAR-10",
        "cifar10-jpeg": "CIFAR-10",
        "cifar100": "CIFAR-100",
        "tiny-imagenet": "Tiny-ImageNet",
    },
    "model": {"fast": "small network", "resnet18": "ResNet18"},
    "augmentation": {"none": "plain", "crop-flip": "crops", "crop2-flip": "crops"},
    "activation": {"relu": "ReLU", "tanh": "tanh", "sigmoid": "sigmoid"},
    "normalization": {"unit": "pixels 0 to 1", "none": "pixels 0 to 255"},
    "width": {1.0: "", 2.0: "width 2"},
    "units": {0: "linear model", 50: "perceptron"},
    "rows": {"free": "rows as in the paper", "together": "equal rows together"},
    "labels": {
        "clean": "no wrong labels",
        "aggregate": "9 % wrong labels",
        "random1": "17 % wrong labels",
        "worst": "40 % wrong labels",
    },
    "weight_decay": {0.0: "no weight decay", 5e-4: "weight decay"},
}
"""What a reader calls the values of these columns."""


def compare(
    runs: pd.DataFrame,
    metric: str,
    better: Side,
    than: Side,
    *,
    variant: Sequence[str] = (),
    smaller: bool = False,
    paired: str = "",
    papers: Sequence[float] = (),
) -> pd.DataFrame:
    """Compare two methods in every variant: a row for each, with its interval and its word.

    A side is a method, given as values of columns: ``{"beta": 0.1}`` is a constant β,
    ``{"schedule": "warm-up 0.1→1"}`` anything else. Its own ``metric`` may stand beside them. With
    a list of values it is the best of them by its mean, or by that of the column ``by``.
    ``{"minus": [a, b]}`` is a difference of two methods. A number is a threshold, without
    variance.

    Args:
        runs: a row for each run.
        metric: the column that is compared.
        better: of this side the claim says that its metric is larger.
        than: the other side.
        variant: the columns that name a variant.
        smaller: whether the claim says that it is smaller.
        paired: a column, such as ``seed``: the runs of the two sides that share its value are
            pairs, and the mean is that of their differences; without it runs are independent.
        papers: the papers' own differences, ``better`` minus ``than``.

    Returns:
        The index has the values of ``variant`` in words. The columns are ``variant`` (the same in
        one text); for both sides the method, the number ``n`` of runs or of pairs (None for a
        threshold), the ``mean`` and the training accuracy ``trained`` (those of ``than`` end in
        ``_than``); ``difference``, ``low`` and ``high`` (95 %), ``p`` and ``word``.

    Example:
        >>> runs = pd.DataFrame({"beta": [0.1] * 3 + [1.0] * 3, "seed": [0, 1, 2] * 2,
        ...                      "accuracy": [0.92, 0.93, 0.94, 0.90, 0.91, 0.92]})
        >>> row = compare(runs, "accuracy", {"beta": 0.1}, {"beta": 1}).iloc[0]
        >>> f"{row.difference:.3f} [{row.low:.3f}, {row.high:.3f}] {row.word}"
        '0.020 [-0.003, 0.043] open'
        >>> compare(runs, "accuracy", {"beta": 0.1}, {"beta": 1}, papers=[0.05, 0.06]).word[0]
        'not as large'
    """
    sign = -1 if smaller else 1
    by = list(variant)
    groups = runs.groupby(by, dropna=False) if by else [((), runs)]
    rows = []
    for values, group in groups:
        sides = [_terms(side, group, metric, paired or "seed", sign) for side in (better, than)]
        left, right = sides = _pairs(sides) if paired else sides
        difference, low, high, p = _interval(left, right, bool(paired))
        least, most = sorted((sign * low, sign * high))
        word = _word(sign * difference, least, most, [sign * one for one in papers])
        words = {name: _in_words(name, one) for name, one in zip(by, values, strict=True)}
        row: dict[str, Any] = words | {"variant": _joined(words.values())}
        for terms, end in zip(sides, ("", "_than"), strict=True):
            row |= {
                f"method{end}": " minus ".join(term.name for term in terms),
                f"n{end}": None if terms[0].is_threshold else min(len(one.values) for one in terms),
                f"mean{end}": sum(term.weight * term.values.mean() for term in terms),
                f"trained{end}": terms[0].trained,
            }
        rows.append(
            row | {"difference": difference, "low": low, "high": high, "p": p, "word": word}
        )
    return pd.DataFrame(rows).set_index(by) if by else pd.DataFrame(rows)


@dataclass(frozen=True)
class _Term:
    """The runs of one method, with the weight of their mean in the difference."""

    name: str
    weight: float
    values: pd.Series[float]
    trained: float = np.nan
    is_threshold: bool = False


def _terms(side: Side, runs: pd.DataFrame, metric: str, unit: str, sign: int) -> list[_Term]:
    """List what one side is made of: a threshold, a method, or a difference of two."""
    if isinstance(side, (int, float)):
        return [_Term(f"{side:g}", 1.0, pd.Series([float(side)]), is_threshold=True)]
    if "minus" in side:
        first, second = (_terms(one, runs, metric, unit, sign)[0] for one in side["minus"])
        return [first, replace(second, weight=-1.0)]
    asked = {name: value for name, value in side.items() if name not in ("metric", "by")}
    if "beta" in asked and "schedule" in runs:  # a schedule that ends at this β is another method
        runs = runs[pd.to_numeric(runs["schedule"], errors="coerce").notna()]
    lists = [value if isinstance(value, list) else [value] for value in asked.values()]
    methods = [dict(zip(asked, values, strict=True)) for values in product(*lists)]
    own = [runs[(runs[list(one)] == pd.Series(one)).all(axis=1)] for one in methods]
    column = side.get("metric", metric)
    means = [sign * group[side.get("by", column)].mean() for group in own]
    best = int(np.argmax(np.nan_to_num(means, nan=-np.inf)))
    of_unit = own[best].groupby(unit)[column]
    if unit == "seed" and (of_unit.nunique() > 1).any():
        raise ValueError(f"{methods[best]} has runs that share a seed and differ: narrow the runs")
    values = of_unit.mean().dropna()
    trained = own[best].get("train_accuracy", pd.Series(dtype=float)).mean()
    return [_Term(_method(methods[best], column, metric), 1.0, values, trained)]


def _pairs(sides: list[list[_Term]]) -> list[list[_Term]]:
    """Keep of each method the runs that have a partner in every other one."""
    methods = [term.values.index for side in sides for term in side if not term.is_threshold]
    shared = functools.reduce(pd.Index.intersection, methods)
    return [
        [
            term if term.is_threshold else replace(term, values=term.values.loc[shared])
            for term in side
        ]
        for side in sides
    ]


def _interval(
    left: list[_Term], right: list[_Term], paired: bool
) -> tuple[float, float, float, float]:
    """Compute the difference of two sides, its 95 % interval (Welch, or paired) and its p.

    All are NaN where a method has no run; where one has a single run there is only a difference.
    """
    terms = left + [replace(one, weight=-one.weight) for one in right]
    difference = float(sum(one.weight * one.values.mean() for one in terms))
    of_runs = [one.weight * one.values for one in terms if not one.is_threshold]
    if min(map(len, of_runs)) < 2:
        return difference, np.nan, np.nan, np.nan
    if paired:
        each: Any = sum(of_runs[1:], of_runs[0])
        error, freedom = each.sem(), len(each) - 1
    else:
        parts = np.array([values.var() / len(values) for values in of_runs])
        error = np.sqrt(parts.sum())
        freedom = parts.sum() ** 2 / sum(parts**2 / [len(values) - 1 for values in of_runs])
    half = stats.t.ppf(0.975, freedom) * error
    p = 2 * stats.t.sf(abs(difference) / error, freedom)
    return difference, difference - half, difference + half, p


def _word(difference: float, low: float, high: float, papers: Sequence[float]) -> str:
    """Say what an interval says of a claim that the difference is larger than 0."""
    if np.isnan(difference):
        return NOT_RUN
    if np.isnan(low):
        return OPEN
    if low > 0 or high < 0:
        return YES if low > 0 else NO
    effect = np.median(papers) if len(papers) else np.nan
    return NOT_AS_LARGE if effect > max(high, 0) else OPEN


def _in_words(column: str, value: Hashable) -> str:
    """Say what a reader calls a value of a column."""
    other = f"{value} epochs" if column == "epochs" else f"{column.replace('_', ' ')} {value}"
    return WORDS.get(column, {}).get(value, other)


def _joined(words: Iterable[str]) -> str:
    return ", ".join(filter(None, words))


def _method(method: Mapping[str, Any], column: str, metric: str) -> str:
    """Name a method in a table, as ``β = 0.1``; with its own metric, as ``β = 0.1, link``."""
    names = {"beta": "β = {:g}", "temperature": "τ = {:g}", "learning_rate": "rate {:g}"}
    names |= {"units": "{:g} units", "train_samples": "{:,} samples"}
    words = [
        names.get(name, "{}").format(method_name(value) if isinstance(value, str) else value)
        for name, value in method.items()
    ]
    after = column.removeprefix(metric).strip("_") if column != metric else ""
    return ", ".join(filter(None, [*words, after]))


def answer(comparison: pd.DataFrame) -> str:
    """Put the words of the variants together; where they differ, the condition is named.

    Example:
        >>> variants = pd.MultiIndex.from_tuples([("CIFAR-10", "plain"), ("CIFAR-10", "crops")])
        >>> answer(pd.DataFrame({"word": ["yes", "not as large"]}, variants))
        'yes (plain), not as large (crops)'
    """
    words = comparison["word"].reset_index(drop=True)
    if words.nunique() <= 1:
        return "".join(words[:1])
    conditions = comparison.index.to_frame(index=False)
    for count in range(1, conditions.shape[1] + 1):
        for columns in combinations(conditions, count):
            names = conditions[list(columns)].apply(_joined, axis=1)
            told_apart = (words.groupby(names).nunique() == 1).all()
            if told_apart and names.nunique() <= 4:
                each = names.groupby(words, sort=False).unique()
                return ", ".join(f"{word} ({'; '.join(those)})" for word, those in each.items())
    return f"{counted(words)} of {len(words)}"


def counted(words: pd.Series[str]) -> str:
    """Count the variants of each word, in the order of the rules.

    Example:
        >>> counted(pd.Series(["open", "yes", "open"]))
        'yes in 1, open in 2'
    """
    counts = words.value_counts()
    order = (word for word in (YES, NO, NOT_AS_LARGE, OPEN, NOT_RUN) if word in counts)
    return ", ".join(f"{word} in {counts[word]}" for word in order)


@dataclass(frozen=True)
class Claim:
    """A sentence, the comparison that decides it, and what the papers print.

    ``paper`` tells where the papers say it, ``known`` whether a run that decides was there when it
    was written down. Below the table stand ``note``, what a reader must know beside the numbers,
    and ``source``, their rows.
    """

    sentence: str
    comparison: pd.DataFrame
    metric: str
    paper: str = ""
    papers: tuple[float, ...] = ()
    known: bool = False
    note: str = ""
    source: str = ""

    @property
    def word(self) -> str:
        """The answer, with a dagger where a run that decides was known when it was written."""
        return answer(self.comparison) + "†" * self.known

    @property
    def factor(self) -> float:
        """What a number is multiplied by when it is written: 100 for shares."""
        return 100.0 if _SHARES.search(self.metric) else 1.0

    @property
    def digits(self) -> str:
        """How a number is written."""
        return ".2f" if self.factor == 100 else ".0f" if _COUNTS.search(self.metric) else ".3f"

    def written(self, difference: float) -> str:
        """Write a difference with its sign, shares in percentage points."""
        return f"{self.factor * difference:+{self.digits}}".replace("-", "−")

    def interval(self, middle: float, low: float, high: float) -> str:
        """Write a difference and its interval, as far as there are runs for them."""
        if np.isnan(low):
            return "" if np.isnan(middle) else self.written(middle)
        return f"{self.written(middle)}{_GLUE}[{self.written(low)},{_GLUE}{self.written(high)}]"

    def table(self) -> pd.DataFrame:
        """Lay the comparison out as a page shows it: a row for each variant, shares in per cent."""
        rows, factor, digits = self.comparison, self.factor, self.digits

        def side(end: str) -> list[str]:
            methods, means = rows[f"method{end}"], factor * rows[f"mean{end}"]
            same = methods.nunique() == 1
            return [
                f"{'' if same else f'{name}: '}" + f"{mean:{digits}}".replace("-", "−")
                for name, mean in zip(methods, means, strict=True)
            ]

        intervals = [
            self.interval(*ends)
            for ends in rows[["difference", "low", "high"]].itertuples(index=False)
        ]
        first, second = _heading(rows["method"]), _heading(rows["method_than"])
        shown = pd.DataFrame(
            {
                "variant": rows["variant"],
                "n": [
                    str(a) if b is None else f"{a},{_GLUE}{b}"
                    for a, b in zip(rows["n"], rows["n_than"], strict=True)
                ],
                first: side(""),
                second if second != first else f"minus {second}": side("_than"),
                "training accuracy": [
                    ", ".join(f"{100 * one:.1f}" for one in both if not np.isnan(one))
                    for both in zip(rows["trained"], rows["trained_than"], strict=True)
                ],
                "difference [95 %]": intervals,
                "answer": rows["word"],
            }
        )
        return (
            shown if shown["training accuracy"].any() else shown.drop(columns="training accuracy")
        )

    def printed(self) -> str:
        """Write the papers' own differences: their median, and their range where there are more."""
        if not self.papers:
            return ""
        effects = (self.factor * np.array(self.papers)).round(4)
        several = effects.max() > effects.min()
        ends = f" ({effects.min():+.3g} to {effects.max():+.3g})" if several else ""
        return f"{np.median(effects):+.4g}{ends}".replace("-", "−")

    def _repr_html_(self) -> str:
        asked = self.paper.removeprefix("ours").removeprefix("; ")
        said = f" {asked[:1].upper()}{asked[1:]}" if asked else ""
        printed = f": {self.printed()}" if self.papers else ""
        table = self.table().rename(columns=html.escape).map(html.escape)
        surely = self.comparison["p"].to_numpy() < 0.001
        table.loc[surely, "difference [95 %]"] = "<b>" + table["difference [95 %]"] + "</b>"
        body = table.to_html(index=False, border=0, escape=False)
        small = [self.source, _DAGGER] if self.known else [self.source]
        small = [f"<small>{one}</small>" for one in small if one]
        below = " ".join(filter(None, [self.note, *small]))
        return (
            f"<p>{self.sentence}: <b>{self.word}</b>.{said}{printed}{'.' * bool(said)}</p>{body}"
            + (f"<p>{below}</p>" if below else "")
        )


def _heading(methods: pd.Series[str]) -> str:
    if methods.nunique() > 1:
        return f"best of {methods.nunique()}"
    return methods.iloc[0].replace(" = ", f"{_GLUE}={_GLUE}")
