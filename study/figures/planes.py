"""Features in a plane, and angles of features."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from study.figures.style import not_run, panels, schedule_style

FloatArray = NDArray[np.float64]

# of ten classes; none so light that it is lost on white, or turned on a dark page
_CLASSES = (
    *("#0173b2", "#c77f00", "#029e73", "#c45500", "#b565a7"),
    *("#a0703c", "#d0689f", "#777777", "#8a8a00", "#3a93c9"),
)
_OVERLAP = 0.95  # height of the tallest slice, in distances between two slices


def angle_slices(table: pd.DataFrame, edges: Sequence[float]) -> Figure:
    """Draw histograms of the angles between training features and class vectors.

    The vectors are those of their classes; there is a slice for each evaluated epoch.

    There is a panel for each loss, with the epochs from top to bottom, as in ArcGrad's Figure 4.
    ``edges`` are in radians, the axis is in degrees. The counts of several seeds are added up. All
    slices have one scale; the white line in each is the median.
    """
    if table.empty:
        return not_run()
    degrees = np.degrees(np.asarray(edges, dtype=float))
    count = max(map(len, table["target_angle_epochs"]))
    figure, drawn = panels(table, "schedule", 3, height=0.42 * count + 0.7, sharex=True)
    shares = [_shares(runs) for _, runs in drawn]
    tallest = max(float(slices.max()) for _, slices in shares)
    for (panel, runs), (epochs, slices) in zip(drawn, shares, strict=True):
        color = schedule_style(str(runs["schedule"].iloc[0]))["color"]
        for row, slice_ in enumerate(slices):
            base = float(len(epochs) - 1 - row)
            height = _OVERLAP * slice_ / tallest
            alpha = 0.95 - 0.6 * row / max(len(epochs) - 1, 1)  # the first slice is the darkest
            panel.stairs(
                base + height,
                degrees,
                baseline=base,
                fill=True,
                color=color,
                alpha=alpha,
                zorder=2 * row,
            )
            panel.stairs(
                base + height,
                degrees,
                baseline=base,
                color="white",
                linewidth=0.8,
                zorder=2 * row + 1,
            )
            median = float(
                np.interp(0.5, [0, *np.cumsum(slice_)], degrees)
            )  # by a straight line within its bin
            panel.plot(
                [median, median],
                [base, base + 0.35],
                color="white",
                linewidth=1.6,
                zorder=2 * row + 1,
            )
            panel.plot(
                [median, median],
                [base - 0.12, base],
                color="black",
                linewidth=1.6,
                zorder=2 * len(slices),
            )
        top = len(epochs) - 1 + max(1.0, _OVERLAP * slices[0].max() / tallest)
        panel.set(xlim=(0, 180), xticks=range(0, 181, 45), ylim=(-0.2, top))
        panel.set_yticks(range(len(epochs))[::-1], [str(epoch) for epoch in epochs])
        panel.tick_params(labelsize="small")
        panel.grid(axis="y", visible=False)
    figure.supxlabel("angle between feature and class vector, degrees", fontsize="small")
    figure.supylabel("epoch", fontsize="small")
    return figure


def _shares(runs: pd.DataFrame) -> tuple[list[int], FloatArray]:
    """Give the epochs, and the share of the samples in each bin ``[epochs, bins]`` of all runs."""
    counts = np.sum(
        [np.asarray(counts, dtype=float) for counts in runs["target_angle_counts"]], axis=0
    )
    return [int(epoch) for epoch in runs["target_angle_epochs"].iloc[0]], counts / counts.sum(
        1, keepdims=True
    )
