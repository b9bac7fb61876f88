"""Scatter plots: features in a plane, outcomes against each other."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from study.figures.style import beta_color, beta_label, beta_linestyle, grid, settings

_CLASS_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "*")


def feature_planes(table: pd.DataFrame, *, readings: Sequence[str] | None = None, columns: int = 2) -> Figure:
    """Two-dimensional features of test samples, first seed, one panel for each schedule (GD-1 figure 1, GD-2 figure 1).

    Args:
        table: runs of the feature-plane template.
        readings: one row of panels for each of these readings; none to take the table as one.
        columns: panels in a row, if there is one reading.

    Returns:
        The figure.
    """
    across, found = settings(table[table["seed"] == table["seed"].min()], readings, across="schedule")
    side = 2.4 if across else 3.1
    figure, panels = grid(len(found), across or columns, width=side, height=side)
    shades = sns.color_palette("colorblind", 10)
    for panel, (title, runs) in zip(panels, found, strict=False):
        points = runs.iloc[0]["points"]
        x, y, classes = (np.array(points[name]) for name in ("x", "y", "label"))
        for index in np.unique(classes):
            chosen = classes == index
            panel.scatter(
                x[chosen],
                y[chosen],
                s=11,
                color=shades[index % 10],
                marker=_CLASS_MARKERS[index % 10],
                label=str(index),
                alpha=0.8,
                linewidths=0.4,
            )
        panel.set_title(title)
        panel.locator_params(nbins=4)
        panel.tick_params(labelsize="small", pad=1)
    for panel in panels[:: across or columns]:
        panel.set_ylabel("feature 2")
    for panel in [panel for panel in panels if panel.get_visible()][-(across or columns) :]:
        panel.set_xlabel("feature 1")
    names = panels[0].get_legend_handles_labels()
    figure.legend(*names, title="class", loc="outside lower center", ncols=10, handletextpad=0.1, columnspacing=0.8, markerscale=1.5)
    return figure


def outcome_plane(table: pd.DataFrame, x: str, y: str, *, xlabel: str, ylabel: str, log: bool = False, ax: Axes | None = None) -> Axes:
    """Two outcomes against each other, means over the seeds; a line joins the temperatures of one β, the smallest one is marked.

    Args:
        table: runs with ``beta`` and ``temperature``.
        x: column for the horizontal axis.
        y: column for the vertical axis.
        xlabel: its label.
        ylabel: its label.
        log: logarithmic axes.
        ax: axes to draw in; new ones by default.

    Returns:
        The axes.
    """
    ax = plt.subplots()[1] if ax is None else ax
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}  # behind a label
    for beta, runs in table.groupby("beta", sort=False):
        means = runs.groupby("temperature")[[x, y]].mean().sort_index()
        value = float(str(beta))
        color = beta_color(value)
        ax.plot(means[x], means[y], marker="o", label=beta_label(value), color=color, linestyle=beta_linestyle(value))
        ax.plot(means[x].iloc[0], means[y].iloc[0], marker="o", markersize=11, markerfacecolor="none", color=color)
        for tau, row in means.iterrows():
            ax.annotate(f"τ = {tau:g}", (row[x], row[y]), textcoords="offset points", xytext=(8, -4), fontsize="small", bbox=paper)
    ax.set(xlabel=xlabel, ylabel=ylabel, xscale="log" if log else "linear", yscale="log" if log else "linear")
    ax.margins(x=0.15)
    ax.legend()
    return ax
