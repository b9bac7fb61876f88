"""The papers' tables, read from ``results/published`` of the repository.

The tables are tidy: one row for each printed number. ``results/published/README.md`` describes the
columns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from study import ROOT
from study.methods import Method

# The tables' names in those of the results.
METRICS = {
    "top1_accuracy": ("test_accuracy", 0.01),
    "accuracy": ("test_accuracy", 0.01),
    "error_rate": ("test_accuracy", 0.01),
    "top5_accuracy": ("test_top5_accuracy", 0.01),
    "train_accuracy": ("train_accuracy", 0.01),
    "ece": ("test_ece", 1.0),
    "samples": ("lost", 1.0),
    "excess_time": ("excess", 0.01),
} | {name: (name, 1.0) for name in ("w_inter", "wc_intra")}
FIFTHS = {
    "[0, 0.2]": "lost",
    "(0.2, 0.4]": "fifth_2",
    "(0.4, 0.6]": "fifth_3",
    "(0.6, 0.8]": "fifth_4",
    "(0.8, 1]": "sure",
}
"""Numbers of training samples by their confidence in the true class, as Table 1 counts them."""
POST_HOC = {"temperature scaling": "_temperature", "vector scaling": "_vector"}
# By what the tables call them, and by divergence or paper where that says more: a loss with its
# numbers, or a loss and the columns that have its numbers. A loss without its numbers in the paper
# has the numbers that this book chose.
_METHODS: Mapping[str, tuple[str, ...]] = {
    "warm-up": ("warm-up", "beta_start", "beta_end"),
    "softmax": ("softmax",),
    "super-symmetric classifier": ("super-symmetry",),
    "label smoothing": ("label-smoothing", "reg_lambda"),
    "LM regulariser": ("lm", "reg_lambda"),
    "LM regulariser, u_q": ("lm-uq", "reg_lambda"),
    "LM regulariser, q_u": ("lm-qu", "reg_lambda"),
    "multi-class hinge": ("hinge",),
    "modified softmax": ("modified",),
    "modified softmax + LM regulariser": ("modified-lm", "reg_lambda"),
    "LGM": ("lgm 0.3 0.1",),
    "L-Softmax": ("l-softmax 2",),
    "A-Softmax": ("a-softmax 4",),
    "center loss": ("center 0.02",),
    "center loss, GD-2": ("center 0.003",),
    "M-Softmax": ("m-softmax 0.5",),
    "ArcFace": ("arcface 20 0.1",),
    "AdaCos": ("adacos",),
    "ArcGrad": ("arcgrad", "s"),
}
_ARCGRAD_S = 10.0  # where the paper does not say it, in its Table VI
_MODELS = {"ResNet35": "ResNet34"}
_CONDITIONS = {
    "train_fraction": "{:g} of the samples",
    "noise_rate": "{:g} of the labels wrong",
    "epochs": "{:g} epochs",
}


def tables() -> pd.DataFrame:
    """List the papers' tables.

    The columns are ``paper``, ``version``, ``number``, ``table`` (as printed, such as "IV"),
    ``file``, ``caption`` and ``note``.

    Example:
        >>> tables().groupby("paper").size().to_dict()
        {'AG': 8, 'GD-1': 5, 'GD-2': 6, 'LM': 4}
    """
    return _read("tables.csv").astype({"version": int, "number": int})


def table(paper: str, number: int | str) -> pd.DataFrame:
    """Read one table of a paper: a row for each printed number.

    The paper is "GD-1", "GD-2", "LM" or "AG"; the table has its number or a printed one ("IV").

    There is a column for each parameter of the table (such as ``interval``, ``reg_lambda`` or
    ``epochs``). ``beta``, ``value``, ``sd`` and those parameters that are numbers are floats, NaN
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
        valid = ", ".join(index.table[index.paper == paper.upper()])
        raise ValueError(f"no table {number!r} of {paper}; there are {valid}")
    printed = _read(rows.file.iloc[0])
    frame = printed.drop(columns="setting").join(_parameters(printed.setting))
    numbers = {name: pd.to_numeric(frame[name]).astype(float) for name in ("beta", "value", "sd")}
    return frame.assign(
        version=frame.version.astype(int),
        decimals=frame.value.str.partition(".")[2].str.len(),
        **numbers,
    )


@functools.cache
def printed() -> pd.DataFrame:
    """List every number that the papers print for a method that a run of the book can have.

    Names and units are those of the results. The columns are ``paper``, ``dataset``, ``condition``
    (fewer samples, wrong labels or fewer epochs, in words), ``model``, ``schedule`` (the label of
    the method), ``beta`` (where it is constant), ``metric`` (such as ``test_ece``), ``value`` and
    ``sd`` (of accuracies as shares) and ``source`` (such as ``AG, Table I``).
    """
    rows = []
    for listed in tables().itertuples():
        source = f"{listed.paper}, {'Table ' * (listed.table != 'text')}{listed.table}"
        for row in table(str(listed.paper), int(str(listed.number))).to_dict("records"):
            metric, factor = METRICS.get(str(row["metric"]), ("", 1.0))
            if metric == "lost":
                metric = FIFTHS.get(str(row["interval"]), "")
            trained, after = method(row)
            if not metric or trained is None or row["value"] != row["value"]:
                continue
            value = row["value"] * factor
            if row["metric"] == "error_rate":
                value = 1 - value
            conditions = [
                words.format(row[name])
                for name, words in _CONDITIONS.items()
                if row.get(name, 0) > 0
            ]
            rows.append(
                {
                    "paper": row["paper"],
                    "dataset": row["dataset"],
                    "condition": ", ".join(conditions),
                    "model": _MODELS.get(str(row["model"]), str(row["model"])),
                    "schedule": trained.label,
                    "beta": trained.beta,
                    "metric": metric + after,
                    "value": round(value, 6),
                    "sd": round(row["sd"] * factor, 6),
                    "source": source,
                }
            )
    return pd.DataFrame(rows)


def method(row: Mapping[Any, Any]) -> tuple[Method | None, str]:
    """Tell what a row of a table was trained with, and what was done afterwards.

    Both are named as the metrics of the results say it; "afterwards" is after training.
    """
    name = str(row["method"])
    if name in POST_HOC:
        return Method.of_beta(1.0), POST_HOC[name]
    if name == "GD-softmax":
        return Method.of_beta(float(row["beta"])), ""
    with_more = f"{name}, {row.get('divergence') or row['paper']}"
    label, *columns = _METHODS.get(with_more, _METHODS.get(name, ("",)))
    numbers = [float(row.get(column, math.nan)) for column in columns]
    if not label or any(map(math.isnan, numbers)) and label != "arcgrad":
        return None, ""
    if label == "arcgrad" and math.isnan(numbers[0]):
        numbers = [_ARCGRAD_S]
    if label == "warm-up":
        return Method.parse("warm-up {:g}→{:g}".format(*numbers)), ""
    if columns:
        return Method(label, tuple(numbers)), ""
    return Method.parse(label), ""


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(ROOT / "results" / "published" / name, dtype=str, keep_default_na=False)


def _parameters(column: pd.Series[str]) -> pd.DataFrame:
    """Turn the text ``a=1; b=x`` of each row into columns a, b.

    A column becomes float if every entry is a number.
    """
    pairs = [dict(part.split("=", 1) for part in text.split("; ") if part) for text in column]
    frame = pd.DataFrame(pairs, index=column.index, dtype=object)
    for name in frame:
        try:
            frame[name] = pd.to_numeric(frame[name]).astype(float)
        except ValueError:
            frame[name] = frame[name].fillna("")
    return frame
