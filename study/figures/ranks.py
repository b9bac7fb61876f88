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
    """Draw a critical-difference diagram: methods on the axis of their average rank, bars over those that cannot be told apart.

    By :func:`scikit_posthocs.critical_difference_diagram`.

    Args:
        found: as :func:`study.statistics.ranking` gives it.
        labels: names to show instead of the methods' own.
        ax: axes to draw in; new ones by default.

    Returns:
        The axes; rank 1, the best, is at the left.

    References:
        J. Demšar, *Statistical comparisons of classifiers over multiple data sets*, JMLR 7 (2006), figure 1.
    """
    from scikit_posthocs import critical_difference_diagram  # here, since it takes two seconds to import and one page needs it

    names = {name: (labels or {}).get(str(name), str(name)) for name in found.average.index}
    ax = plt.subplots(figsize=(6.4, 0.2 * len(names) + 1.2))[1] if ax is None else ax
    critical_difference_diagram(
        found.average.rename(names),
        found.nemenyi.rename(index=names, columns=names),
        alpha=found.level,
        ax=ax,
        label_fmt_left="{label}  {rank:.2f}",
        label_fmt_right="{rank:.2f}  {label}",
        color_palette={name: "#333333" for name in names.values()},
        text_h_margin=0.1,
    )
    ax.set_title(f"critical difference {found.critical_difference:.2f}", fontsize="small")
    return ax


def accuracy_against_depth(
    table: pd.DataFrame, *, labels: Mapping[str, str] | None = None, chance: float | None = None, ax: Axes | None = None
) -> Axes:
    """Test accuracy against the number of layers, one curve for each method: mean over the seeds, bars of one standard deviation.

    Args:
        table: runs with ``loss``, ``depth`` and ``test_accuracy``.
        labels: names to show instead of the methods' own.
        chance: accuracy of a guess, drawn as a dotted line.
        ax: axes to draw in; new ones by default.
    """
    ax = plt.subplots()[1] if ax is None else ax
    methods = list(dict.fromkeys(table["loss"]))
    for name, style in zip(methods, reading_styles([f"method {index}" for index in range(len(methods))]).values(), strict=True):
        found = 100 * table[table["loss"] == name].groupby("depth")["test_accuracy"].agg(["mean", "std"])
        bars = {"yerr": found["std"], "capsize": 2, "markersize": 4.5, "linewidth": 1.4, "elinewidth": 1}
        ax.errorbar(found.index, found["mean"], label=(labels or {}).get(name, name), **bars, **style)
    if chance is not None:
        ax.axhline(100 * chance, color="0.4", linewidth=1, linestyle=":", zorder=0)
    ax.set(xlabel="layers", ylabel="test accuracy, %")
    ax.legend(fontsize="small")
    return ax
