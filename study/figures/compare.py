"""Settings against each other: paired differences with their intervals, and outcomes against β."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from study import statistics
from study.figures.style import grid, in_lines, reading_styles, schedule_color, schedule_label


def differences(frame: pd.DataFrame, *, xlabel: str, ax: Axes | None = None) -> Axes:
    """Differences with their intervals, one row for each, and a line at 0.

    Args:
        frame: columns ``label``, ``mean``, ``low``, ``high``, and optionally ``color``.
        xlabel: label of the horizontal axis, with its unit.
        ax: axes to draw in; new ones by default.

    Returns:
        The axes; the first row of the frame is at the top.
    """
    ax = plt.subplots(figsize=(6.2, 0.32 * len(frame) + 1.0))[1] if ax is None else ax
    rows = np.arange(len(frame))[::-1]
    shades = frame["color"] if "color" in frame else ["#000000"] * len(frame)
    for row, shade, (_, line) in zip(rows, shades, frame.iterrows(), strict=True):
        ax.plot([line["low"], line["high"]], [row, row], color=shade, linewidth=2)
        ax.plot(line["mean"], row, "o", color=shade, markersize=5)
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set(yticks=rows, yticklabels=frame["label"], xlabel=xlabel, ylim=(-0.7, len(frame) - 0.3))
    ax.grid(axis="y", visible=False)
    return ax


def differences_by_reading(
    table: pd.DataFrame, column: str, *, reference: str, readings: Sequence[str], xlabel: str, scale: float = 1.0, columns: int = 2
) -> Figure:
    """Paired differences of every schedule to a reference, with 95 % Student intervals, one panel for each reading.

    Args:
        table: runs with ``reading``, ``schedule`` and ``seed``.
        column: the outcome.
        reference: the schedule that is subtracted.
        readings: which ones, in order. Each has a horizontal scale of its own, and an empty row for a schedule that it lacks.
        xlabel: label of the horizontal axes, with the unit.
        scale: a factor, such as 100 from shares to per cent.
        columns: panels in a row.
    """
    labels = [label for label in dict.fromkeys(table["schedule"]) if label != reference]
    figure, panels = grid(len(readings), columns, width=3.4, height=0.24 * len(labels) + 0.7)
    for index, (panel, reading) in enumerate(zip(panels, readings, strict=False)):
        runs = table[table["reading"] == reading].pivot_table(index="seed", columns="schedule", values=column) * scale
        rows = []
        for label in labels:
            both = runs.reindex(columns=[label, reference]).dropna()
            mean, low, high = (float("nan"),) * 3
            if len(both) > 1:
                found = statistics.paired_difference(both[label], both[reference])
                mean, low, high = found.mean, found.interval.low, found.interval.high
            rows.append((schedule_label(label), mean, low, high, schedule_color(label)))
        differences(pd.DataFrame(rows, columns=["label", "mean", "low", "high", "color"]), xlabel="", ax=panel)
        panel.set_title(in_lines(reading))
        panel.tick_params(labelsize="small")
        if index % columns:
            panel.set_yticklabels([])
        if index >= len(readings) - columns:
            panel.set_xlabel(xlabel, fontsize="medium")
    return figure


def against_beta(
    table: pd.DataFrame,
    column: str,
    *,
    ylabel: str,
    readings: Sequence[str] | None = None,
    relative: Literal["difference", "ratio"] | None = None,
    scale: float = 1.0,
    published: pd.DataFrame | None = None,
    log: bool = True,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A number against β, one curve for each reading: mean over the seeds with its 95 % Student interval where there are several.

    Args:
        table: runs with ``reading``, ``beta``, ``seed`` and ``column``; warm-ups are left out.
        column: what to draw.
        ylabel: label of the vertical axis.
        readings: which ones, in order; by default all.
        relative: the difference from β = 1, or the ratio to it, seed by seed, instead of the number itself.
        scale: a factor, such as 100 from shares to per cent.
        published: the papers' values, with columns ``beta`` and ``value``; drawn in black.
        log: logarithmic vertical axis.
        legend: draw a legend.
        ax: axes to draw in; new ones by default.

    Returns:
        The axes.
    """
    ax = plt.subplots()[1] if ax is None else ax
    table = table[table["warmup_epochs"] == 0]
    chosen = list(readings) if readings is not None else sorted(table["reading"].unique())
    seeds = table.groupby("reading")["seed"].nunique()[chosen]
    uneven = seeds.nunique() > 1
    for reading, style in reading_styles(chosen).items():
        values = table[table["reading"] == reading].pivot_table(index="seed", columns="beta", values=column) * scale
        if relative == "difference":
            values = values.sub(values[1.0], axis=0)
        elif relative == "ratio":
            values = values.div(values[1.0], axis=0)
        intervals = [statistics.t_interval(there) if len(there := at_beta.dropna()) > 1 else None for _, at_beta in values.items()]
        means = values.mean()
        spread = [[mean - ends.low, ends.high - mean] if ends else [0.0, 0.0] for mean, ends in zip(means, intervals, strict=True)]
        label = f"{reading} ({seeds[reading]})" if uneven else reading
        ax.errorbar(
            values.columns.to_numpy(dtype=float),
            means.to_numpy(),
            yerr=np.array(spread).T,
            label=label,
            capsize=2,
            markersize=4.5,
            linewidth=1.4,
            elinewidth=1,
            **style,
        )
    if published is not None:
        printed = published.sort_values("beta")
        heights = printed["value"].astype(float).to_numpy()
        base = heights[np.isclose(printed["beta"].astype(float), 1.0)]
        heights = heights / base if relative == "ratio" else heights - base if relative == "difference" else heights
        ax.plot(printed["beta"].astype(float), heights, "k*-", markersize=10, label="the papers")
    ax.set(xscale="log", xlabel="β", ylabel=ylabel, yscale="log" if log else "linear")
    if legend:
        ax.legend(title="reading (seeds)" if uneven else "reading", fontsize="small", bbox_to_anchor=(1.01, 1), loc="upper left")
    return ax
