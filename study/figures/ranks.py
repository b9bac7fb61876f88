"""Average ranks of methods over data sets, with what cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from study.figures.style import reading_styles
from study.statistics import Ranking

__all__ = ["accuracy_against_depth", "critical_difference"]


def critical_difference(found: Ranking, *, labels: Mapping[str, str] | None = None, ax: Axes | None = None) -> Axes:
    """A critical-difference diagram: methods on the axis of their average rank, bars over those that cannot be told apart.

    Args:
        found: as :func:`study.statistics.ranking` gives it.
        labels: names to show instead of the methods' own.
        ax: axes to draw in; new ones by default.

    Returns:
        The axes; rank 1, the best, is at the left.

    References:
        J. Demšar, *Statistical comparisons of classifiers over multiple data sets*, JMLR 7 (2006), figure 1.
    """
    average = {str(name): float(value) for name, value in found.average.items()}
    names, values = list(average), list(average.values())
    count, groups = len(names), found.groups()
    rows = -(-count // 2)
    height = 0.30 * (rows + len(groups)) + 1.1
    ax = plt.subplots(figsize=(6.4, height))[1] if ax is None else ax
    low, high = 1.0, float(count)
    top = 0.55 * len(groups) + 0.6
    for position, group in enumerate(groups):
        ends = [average[group[0]] - 0.06, average[group[-1]] + 0.06]
        ax.plot(ends, [-0.35 - 0.55 * position] * 2, color="#333333", linewidth=4, solid_capstyle="butt")
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        left = index < rows
        depth = -top - 0.8 * (index if left else count - 1 - index)
        edge = low - 0.15 if left else high + 0.15
        ax.plot([value, value, edge], [0, depth, depth], color="#666666", linewidth=1)
        text = f"{(labels or {}).get(name, name)}  {value:.2f}"
        ax.text(edge + (-0.08 if left else 0.08), depth, text, ha="right" if left else "left", va="center", fontsize="small")
    ax.plot([low, low + found.critical_difference], [1.5, 1.5], color="#aa3377", linewidth=3, solid_capstyle="butt")
    ax.text(
        low + found.critical_difference + 0.1, 1.5, f"critical difference {found.critical_difference:.2f}", va="center", fontsize="small"
    )
    ax.plot([low, high], [0, 0], color="black", linewidth=1)
    for rank in range(1, count + 1):
        ax.plot([rank, rank], [0, 0.15], color="black", linewidth=1)
        ax.text(rank, 0.3, str(rank), ha="center", va="bottom", fontsize="small")
    ax.set(xlim=(low - 2.4, high + 2.4), ylim=(-top - 0.8 * rows, 2.0))
    ax.axis("off")
    return ax


def accuracy_against_depth(
    table: pd.DataFrame, *, labels: Mapping[str, str] | None = None, chance: float | None = None, ax: Axes | None = None
) -> Axes:
    """Test accuracy against the number of layers, one curve for each method: mean over the seeds, bars of one standard deviation.

    Args:
        table: runs with ``method``, ``depth`` and ``test_accuracy``.
        labels: names to show instead of the methods' own.
        chance: accuracy of a guess, drawn as a dotted line.
        ax: axes to draw in; new ones by default.
    """
    ax = plt.subplots()[1] if ax is None else ax
    methods = list(dict.fromkeys(table["method"]))
    for name, style in zip(methods, reading_styles([f"method {index}" for index in range(len(methods))]).values(), strict=True):
        found = 100 * table[table["method"] == name].groupby("depth")["test_accuracy"].agg(["mean", "std"])
        bars = {"yerr": found["std"], "capsize": 2, "markersize": 4.5, "linewidth": 1.4, "elinewidth": 1}
        ax.errorbar(found.index, found["mean"], label=(labels or {}).get(name, name), **bars, **style)
    if chance is not None:
        ax.axhline(100 * chance, color="0.4", linewidth=1, linestyle=":", zorder=0)
    ax.set(xlabel="layers", ylabel="test accuracy, %")
    ax.legend(fontsize="small")
    return ax
