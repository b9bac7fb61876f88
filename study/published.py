"""The papers' tables and claims, read from ``results/published`` of the repository.

The tables are tidy: one row for each printed number. ``results/published/README.md`` describes the
columns.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from study import ROOT
from study.losses import loss_name as loss_name

Setting = float | str | tuple[float, float]
"""What a run was trained with: a constant β, the name of a loss or of a warm-up, or a pair (β, τ)."""
Key = tuple[str, Setting | frozenset[Setting]]
"""A metric of one setting, or of the best of several."""

DATASETS: Mapping[str, str] = {
    "mnist": "MNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
}
"""What the papers' tables call a data set of :mod:`study.data`."""

# The tables' names in those of the records. A loss without its numbers in the paper has the numbers
# that this book chose.
METRICS = {
    "top1_accuracy": ("test_accuracy", 0.01),
    "accuracy": ("test_accuracy", 0.01),
    "error_rate": ("test_accuracy", 1.0),
    "top5_accuracy": ("test_top5_accuracy", 0.01),
    "train_accuracy": ("train_accuracy", 0.01),
    "ece": ("test_ece", 1.0),
    "mce": ("test_mce", 1.0),
    "samples": ("lost", 1.0),
    "excess_time": ("excess", 0.01),
} | {name: (name, 1.0) for name in ("w_inter", "wc_intra")}
POST_HOC = {"temperature scaling": "_temperature", "vector scaling": "_vector"}
# by what the tables call them, and by divergence or paper where that says more; numbers in braces
# are columns
_METHODS = {
    "warm-up": "warm-up {beta_start:g}→{beta_end:g}",
    "softmax": "softmax",
    "super-symmetric classifier": "super-symmetry",
    "label smoothing": "label-smoothing {reg_lambda:g}",
    "LM regulariser": "lm {reg_lambda:g}",
    "LM regulariser, u_q": "lm-uq {reg_lambda:g}",
    "LM regulariser, q_u": "lm-qu {reg_lambda:g}",
    "multi-class hinge": "hinge",
    "modified softmax": "modified",
    "modified softmax + LM regulariser": "modified-lm {reg_lambda:g}",
    "LGM": "lgm 0.3 0.1",
    "L-Softmax": "l-softmax 2",
    "A-Softmax": "a-softmax 4",
    "center loss": "center 0.02",
    "center loss, GD-2": "center 0.003",
    "M-Softmax": "m-softmax 0.5",
    "ArcFace": "arcface 20 0.1",
    "AdaCos": "adacos",
    "ArcGrad": "arcgrad {s:g}",
}
_ELSEWHERE = 3  # other data sets whose effects may stand for one that the papers do not print
_CONDITIONS = {
    "train_fraction": "{:g} of the samples",
    "noise_rate": "{:g} of the labels wrong",
    "epochs": "{:g} epochs",
}


def tables() -> pd.DataFrame:
    """List the papers' tables: ``paper``, ``version``, ``number``, ``table`` (as printed, such as "IV"), ``file``, ``caption``, ``note``.

    Example:
        >>> tables().groupby("paper").size().to_dict()
        {'AG': 8, 'GD-1': 5, 'GD-2': 6, 'LM': 4}
    """
    return _read("tables.csv").astype({"version": int, "number": int})


def table(paper: str, number: int | str) -> pd.DataFrame:
    """Read one table of a paper ("GD-1", "GD-2", "LM", "AG") by its number or as printed ("IV"): a row for each printed number.

    There is a column for each setting of the table (such as ``interval``, ``reg_lambda`` or
    ``epochs``). ``beta``, ``value``, ``sd`` and those settings that are numbers are floats, NaN
    where the paper gives none; ``decimals`` counts the printed ones of ``value``.

    Example:
        >>> t = table("GD-1", 2)
        >>> t[t.model == "ResNet18"].set_index("beta").value.loc[[1.0, 0.1]].to_dict()
        {1.0: 83.9, 0.1: 84.4}
    """
    index = tables()
    rows = index[index.paper == paper.upper()]
    if rows.empty:
        raise ValueError(f"no paper {paper!r}; there are {', '.join(index.paper.unique())}")
    rows = rows[(rows.number.astype(str) == str(number)) | (rows.table == str(number).upper())]
    if rows.empty:
        raise ValueError(
            f"no table {number!r} of {paper}; there are {', '.join(index.table[index.paper == paper.upper()])}"
        )
    printed = _read(rows.file.iloc[0])
    frame = printed.drop(columns="setting").join(_settings(printed.setting))
    numbers = {name: pd.to_numeric(frame[name]).astype(float) for name in ("beta", "value", "sd")}
    return frame.assign(
        version=frame.version.astype(int),
        decimals=frame.value.str.partition(".")[2].str.len(),
        **numbers,
    )


def setting_name(setting: Setting) -> str:
    """Name a setting for a sentence.

    Example:
        >>> setting_name(0.1), setting_name((0.01, 2.0)), setting_name("lm 0.3")
        ('β = 0.1', 'β = 0.01 with τ = 2', 'LM, λ = 0.3')
    """
    if isinstance(setting, tuple):
        return f"β = {setting[0]:g} with τ = {setting[1]:g}"
    return loss_name(setting) if isinstance(setting, str) else f"β = {setting:g}"


@functools.cache
def printed() -> pd.DataFrame:
    """List every outcome that the papers print for a setting that a run of the book can have, in the names and units of the records.

    Fewer samples, wrong labels and fewer epochs stand after the data set. The columns are
    ``paper``, ``dataset``, ``model``, ``setting`` (see :data:`Setting`), ``metric`` (such as
    ``test_ece``), ``value`` (accuracies as shares) and ``source`` (such as ``AG, Table I``).
    """
    rows = []
    for listed in tables().itertuples():
        source = f"{listed.paper}, {'Table ' * (listed.table != 'text')}{listed.table}"
        for row in table(str(listed.paper), int(str(listed.number))).to_dict("records"):
            metric, factor = METRICS.get(str(row["metric"]), ("", 1.0))
            if metric == "lost":
                metric = {"[0, 0.2]": "lost", "(0.8, 1]": "sure"}.get(str(row["interval"]), "")
            trained, after = setting(row)
            if not metric or trained is None or row["value"] != row["value"]:
                continue
            value = (
                1 - row["value"] / 100 if row["metric"] == "error_rate" else row["value"] * factor
            )
            model = str(row["model"]).replace("ResNet35", "ResNet34")
            conditions = (
                words.format(row[name])
                for name, words in _CONDITIONS.items()
                if row.get(name, 0) > 0
            )
            rows.append(
                (
                    row["paper"],
                    ", ".join([row["dataset"], *conditions]),
                    model,
                    trained,
                    metric + after,
                    round(value, 6),
                    source,
                )
            )
    return pd.DataFrame(
        rows, columns=["paper", "dataset", "model", "setting", "metric", "value", "source"]
    )


@dataclass(frozen=True)
class Effect:
    """A paper's own difference of two settings: its range over the paper's networks."""

    paper: str  # such as GD-1; or a table
    elsewhere: str  # the data set, where it is not the one that was asked for
    low: float
    high: float

    def written(self, factor: float = 1.0) -> str:
        """Write it, with a factor such as 100 for percentage points.

        Example:
            >>> Effect("GD-1", "", 0.001, 0.012).written(100)
            'GD-1: +0.1 … +1.2'
        """
        ends = (round(factor * end, 6) for end in (self.low, self.high))
        span = " … ".join(f"{end:+.4g}" for end in dict.fromkeys(ends))
        return f"{', '.join(filter(None, [self.paper, self.elsewhere]))}: {span}"


def written(effects: Iterable[Effect], factor: float = 1.0) -> str:
    """Write what several papers found; empty if there is none."""
    return "; ".join(effect.written(factor) for effect in effects)


@functools.cache
def effects(left: Key, right: Key, dataset: str) -> tuple[Effect, ...]:
    """Look up the papers' own difference of two settings, each a metric and a setting.

    Of a set of settings it is the best that the papers have, network by network. Where they print
    the two for up to three other data sets only, those come instead; nothing where no paper prints
    both. After a comma the data set has a condition, which theirs must have too.

    Example:
        >>> written(effects(("test_accuracy", 0.1), ("test_accuracy", 1.0), "CIFAR-10"))
        'GD-1: +0.001 … +0.012; GD-2: +0.002 … +0.007'
        >>> written(effects(("test_accuracy", "lm 0.9"), ("test_accuracy", "lm 0.1"), "CIFAR-10"))
        'LM, CIFAR-100: +0.0134'
        >>> half = "CIFAR-10, 0.5 of the samples"
        >>> written(effects(("test_accuracy", "lm 0.3"), ("test_accuracy", "softmax"), half))
        'LM, CIFAR-100, 0.5 of the samples: +0.0081'
    """
    sides: list[dict[tuple[str, str, str], float]] = [{}, {}]
    for paper, name, model, setting, metric, value, _ in printed().itertuples(index=False):
        for side, (asked, one) in zip(sides, (left, right), strict=True):
            wanted = one if isinstance(one, frozenset) else {one}
            meant = metric == asked and (
                setting in wanted or str(setting).partition(" ")[0] in wanted
            )
            if meant and name.partition(", ")[2] == dataset.partition(", ")[2]:
                key, best = (
                    (paper, name, model),
                    min if metric.startswith(("test_ece", "test_mce")) else max,
                )
                side[key] = best(value, side.get(key, value))
    found = defaultdict(list)
    for paper, name, model in sides[0].keys() & sides[1].keys():
        difference = sides[0][paper, name, model] - sides[1][paper, name, model]
        found[paper, name].append(round(difference, 6))
    here = {key: values for key, values in found.items() if key[1].removesuffix("+") == dataset}
    told = here or (found if len(found) <= _ELSEWHERE else {})
    return tuple(
        Effect(paper, "" if name == dataset else name, min(values), max(values))
        for (paper, name), values in sorted(told.items())
    )


def setting(row: Mapping[Any, Any]) -> tuple[Setting | None, str]:
    """Tell what a row of a table was trained with, and what was done after training, as the metrics of the records say it."""
    method = str(row["method"])
    if method in POST_HOC:
        return 1.0, POST_HOC[method]
    if method == "GD-softmax":
        return float(str(row["beta"])), ""
    template = _METHODS.get(
        f"{method}, {row.get('divergence') or row['paper']}", _METHODS.get(method, "nan")
    )
    name = template.format_map(defaultdict(lambda: math.nan, row)).replace(
        "arcgrad nan", "arcgrad 10"
    )  # its Table VI does not say s
    return None if "nan" in name else name, ""


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / "results" / "published" / name, dtype=str, keep_default_na=False)


def _settings(column: pd.Series[str]) -> pd.DataFrame:
    """The text ``a=1; b=x`` of each row as columns a, b; a column becomes float if every entry is a number."""
    pairs = [dict(part.split("=", 1) for part in text.split("; ") if part) for text in column]
    frame = pd.DataFrame(pairs, index=column.index, dtype=object)
    for name in frame:
        try:
            frame[name] = pd.to_numeric(frame[name]).astype(float)
        except ValueError:
            frame[name] = frame[name].fillna("")
    return frame
