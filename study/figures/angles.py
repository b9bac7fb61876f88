"""ArcGrad's figures on images: accuracy against how much was trained on, and histograms of angles from epoch to epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from study.figures.style import grid, schedule_color, schedule_label, schedule_linestyle

FloatArray = NDArray[np.float64]

__all__ = ["accuracy_against_amount", "angle_slices"]

_MARKERS = ("o", "s", "^", "v", "D", "P", "X")
_OVERLAP = 1.6  # height of the tallest slice, in distances between two slices


def accuracy_against_amount(
    table: pd.DataFrame, what: Literal["samples", "epochs"], *, legend: bool = True, ax: Axes | None = None
) -> Axes:
    """Test accuracy against the number of training samples or of epochs, one curve for each loss.

    Args:
        table: runs of one reading with ``schedule``, ``seed``, ``test_accuracy`` and the amounts.
        what: the amount on the horizontal axis, which is logarithmic.
        legend: draw a legend.
        ax: axes to draw in; new ones by default.

    Returns:
        The axes; points are means over the seeds, bars one standard deviation. Points that belong together lie a little apart.
    """
    ax = plt.subplots()[1] if ax is None else ax
    losses = list(dict.fromkeys(table["schedule"]))
    for index, loss in enumerate(losses):
        found = 100 * table[table["schedule"] == loss].groupby(what)["test_accuracy"].agg(["mean", "std"])
        shift = 1.012 ** (index - (len(losses) - 1) / 2)
        ax.errorbar(
            found.index.to_numpy(dtype=float) * shift,
            found["mean"],
            yerr=found["std"].fillna(0.0),
            label=schedule_label(loss),
            color=schedule_color(loss),
            linestyle=schedule_linestyle(loss),
            marker=_MARKERS[index % len(_MARKERS)],
            capsize=2,
            markersize=4.5,
            linewidth=1.4,
            elinewidth=1,
        )
    amounts = sorted(table[what].unique())
    ax.set(xscale="log", xlabel={"samples": "training samples", "epochs": "epochs"}[what], ylabel="test accuracy, %")
    ax.set_xticks(amounts, [f"{amount:,.0f}".replace(",", "\u2009") for amount in amounts])
    ax.xaxis.set_minor_locator(NullLocator())
    if legend:
        ax.legend(fontsize="small")
    return ax


def angle_slices(table: pd.DataFrame, *, losses: Sequence[str], edges: Sequence[float], columns: int = 3) -> Figure:
    """Histograms of the angles between training features and the vectors of their classes, a slice for each evaluated epoch.

    Args:
        table: runs of one reading with ``schedule``, ``target_angle_epochs`` and ``target_angle_counts``; the counts of several seeds are
            added up.
        losses: which ones, a panel each, in order.
        edges: of the histograms, in radians.
        columns: panels in a row.

    Returns:
        The figure: angles in degrees from left to right, epochs from top to bottom, as in the paper's Figure 4. All slices have one scale;
        the white line in each is the median.
    """
    degrees = np.degrees(np.asarray(edges, dtype=float))
    shares = {loss: _shares(table[table["schedule"] == loss]) for loss in losses}
    tallest = max(float(slices.max()) for _, slices in shares.values())
    count = max(len(epochs) for epochs, _ in shares.values())
    figure, panels = grid(len(losses), columns, width=2.6, height=0.42 * count + 0.7, sharex=True)
    for panel, loss in zip(panels, losses, strict=False):
        epochs, slices = shares[loss]
        for row, slice_ in enumerate(slices):
            base = float(len(epochs) - 1 - row)
            height = _OVERLAP * slice_ / tallest
            alpha = 0.95 - 0.6 * row / max(len(epochs) - 1, 1)  # the first slice is the darkest
            panel.stairs(base + height, degrees, baseline=base, fill=True, color=schedule_color(loss), alpha=alpha, zorder=2 * row)
            panel.stairs(base + height, degrees, baseline=base, color="white", linewidth=0.8, zorder=2 * row + 1)
            median = _median(slice_, degrees)
            panel.plot([median, median], [base, base + 0.35], color="white", linewidth=1.6, zorder=2 * row + 1)
            panel.plot([median, median], [base - 0.12, base], color="black", linewidth=1.6, zorder=2 * len(slices))
        panel.set_yticks(range(len(epochs))[::-1], [str(epoch) for epoch in epochs])
        panel.set(
            xlim=(0, 180),
            xticks=range(0, 181, 45),
            ylim=(-0.2, len(epochs) - 1 + _OVERLAP * max(1.0 / _OVERLAP, slices[0].max() / tallest)),
        )
        panel.set_title(schedule_label(loss), fontsize="small")
        panel.tick_params(labelsize="small")
        panel.grid(axis="y", visible=False)
    figure.supxlabel("angle between feature and class vector, degrees", fontsize="small")
    figure.supylabel("epoch", fontsize="small")
    return figure


def _shares(runs: pd.DataFrame) -> tuple[list[int], FloatArray]:
    """The epochs, and the share of the samples in each bin ``[epochs, bins]``, over all runs."""
    counts = np.sum([np.asarray(counts, dtype=float) for counts in runs["target_angle_counts"]], axis=0)
    return [int(epoch) for epoch in runs["target_angle_epochs"].iloc[0]], counts / counts.sum(1, keepdims=True)


def _median(shares: FloatArray, edges: FloatArray) -> float:
    """The median of a histogram, by a straight line within its bin."""
    return float(np.interp(0.5, np.concatenate([[0.0], np.cumsum(shares)]), edges))
