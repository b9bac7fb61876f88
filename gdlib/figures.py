"""From tables to matplotlib axes. The only module of gdlib that imports matplotlib and seaborn.

One colour per β throughout the book: blue for β < 1, darker and more saturated as β falls; black for β = 1; orange to brown for β > 1. The
order is also carried by lightness and by the line style, so that the figures can be read without colour.
"""

from __future__ import annotations

import math

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex

__all__ = ["beta_color", "beta_label", "beta_linestyle", "curves", "schedule_color", "schedule_label", "schedule_linestyle", "use_style"]

# ends and middle of the scale on log10 β in [-3, 1.7]; ColorBrewer-like blues and oranges, safe for the common colour deficiencies
_SMALL = LinearSegmentedColormap.from_list("small beta", ["#9ecae1", "#4292c6", "#08519c", "#5e3c99"])
_LARGE = LinearSegmentedColormap.from_list("large beta", ["#fdb863", "#e66101", "#8c2d04"])
_WARMUPS = ("#009e73", "#cc79a7", "#7f7f00", "#d55e00")


def use_style() -> None:
    """Set the fonts, grid and sizes that every figure of the book shares."""
    sns.set_theme(context="notebook", style="whitegrid")
    mpl.rcParams.update(
        {
            "figure.figsize": (7.0, 4.2),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "savefig.facecolor": "white",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": "medium",
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "svg.hashsalt": "gdlib",
        }
    )


def beta_color(beta: float) -> str:
    """The colour of a gradient-decay factor, the same in every figure.

    Args:
        beta: the factor, > 0.

    Returns:
        A hex colour; black for β = 1.

    Example:
        >>> beta_color(1.0)
        '#000000'
        >>> beta_color(0.1) != beta_color(0.01)
        True
    """
    position = math.log10(beta)
    if abs(position) < 1e-9:
        return "#000000"
    if position < 0:
        return to_hex(_SMALL(min(1.0, -position / 3.0)))
    return to_hex(_LARGE(min(1.0, position / 1.7)))


def beta_linestyle(beta: float) -> str:
    """Solid for β ≤ 1, dashed for β > 1."""
    return "--" if beta > 1 else "-"


def beta_label(beta: float) -> str:
    """The label of a β in a legend.

    Example:
        >>> beta_label(0.1), beta_label(5.0)
        ('β = 0.1', 'β = 5')
    """
    return f"β = {beta:g}"


def schedule_color(label: str) -> str:
    """The colour of a schedule by its label: that of β for a constant, one of its own for a warm-up.

    Example:
        >>> schedule_color("0.1") == beta_color(0.1)
        True
    """
    try:
        return beta_color(float(label))
    except ValueError:
        return _WARMUPS[0] if "0.001" in label else _WARMUPS[1] if "0.01" in label else _WARMUPS[2]


def schedule_linestyle(label: str) -> str:
    """The line style of a schedule by its label: dash-dotted for a warm-up, that of β otherwise."""
    try:
        return beta_linestyle(float(label))
    except ValueError:
        return "-."


def curves(
    table: pd.DataFrame,
    y: str,
    *,
    ylabel: str,
    x: str = "epoch",
    by: str = "schedule",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """One curve for each schedule: the mean over the seeds, with a band of one standard deviation where there are several.

    Args:
        table: runs, as :func:`gdlib.records.read` gives them, of one setting.
        y: name of a curve, without ``curve_``, such as ``test_accuracy``.
        ylabel: label of the vertical axis, with its unit.
        x: the curve that says when it was measured: ``epoch``, or ``train_epoch`` for what is measured on the training set.
        by: column that tells the curves apart.
        ax: axes to draw in; new ones by default.
        legend: draw a legend.

    Returns:
        The axes.
    """
    ax = plt.subplots()[1] if ax is None else ax
    for label, runs in table.groupby(by, sort=False):
        values = np.array(runs[f"curve_{y}"].tolist(), dtype=float)  # (seeds, epochs)
        epochs = np.array(runs[f"curve_{x}"].iloc[0])
        mean = values.mean(0)
        style = {"color": schedule_color(str(label)), "linestyle": schedule_linestyle(str(label))}
        ax.plot(epochs, mean, label=schedule_label(str(label)), **style)
        if len(values) > 1:
            spread = values.std(0, ddof=1)
            ax.fill_between(epochs, mean - spread, mean + spread, color=style["color"], alpha=0.15, linewidth=0)
    ax.set(xlabel="epoch", ylabel=ylabel)
    if legend:
        ax.legend()
    return ax


def schedule_label(label: str) -> str:
    """A schedule in a legend.

    Example:
        >>> schedule_label("0.1"), schedule_label("warm-up 0.01→0.1")
        ('β = 0.1', 'warm-up 0.01→0.1')
    """
    try:
        return beta_label(float(label))
    except ValueError:
        return label
