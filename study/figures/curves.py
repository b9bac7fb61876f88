"""Curves over the epochs, and distributions of the confidence."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from study.figures.style import grid, schedule_color, schedule_label, schedule_linestyle, settings

_GROUP_LINES = ("-", "--", "-.", ":", "-")


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
        table: runs, as :func:`study.records.read` gives them, of one setting.
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
        color = schedule_color(str(label))
        ax.plot(epochs, mean, label=schedule_label(str(label)), color=color, linestyle=schedule_linestyle(str(label)))
        if len(values) > 1:
            spread = values.std(0, ddof=1)
            ax.fill_between(epochs, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    ax.set(xlabel="epoch", ylabel=ylabel)
    if legend:
        ax.legend()
    return ax


def curves_by_reading(
    table: pd.DataFrame,
    y: str,
    *,
    ylabel: str,
    readings: Sequence[str],
    x: str = "epoch",
    log: bool = False,
    ylim: tuple[float, float] | None = None,
    columns: int = 2,
) -> Figure:
    """:func:`curves` in one panel for each reading, with one scale and one legend.

    Args:
        table: runs with ``reading``.
        y: name of a curve.
        ylabel: label of the vertical axis.
        readings: which ones, in order.
        x: the curve that says when it was measured.
        log: logarithmic vertical axis.
        ylim: its ends; by default those of the data.
        columns: panels in a row.
    """
    figure, panels = grid(len(readings), columns, width=3.2, height=2.7, sharey=True)
    for index, (panel, reading) in enumerate(zip(panels, readings, strict=False)):
        curves(table[table["reading"] == reading], y, ylabel=ylabel if index % columns == 0 else "", x=x, ax=panel, legend=False)
        panel.set(title=reading, yscale="log" if log else "linear")
    if ylim is not None:
        panels[0].set_ylim(ylim)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    return figure


def difficulty_groups(
    table: pd.DataFrame, *, readings: Sequence[str] | None = None, column: str = "group_confidence", columns: int = 2
) -> Figure:
    """Mean confidence of five groups of training samples, one panel for each schedule (GD-1 figure 5, GD-2 figure 3 e-h).

    The epochs are on a logarithmic scale, because most of it happens in the first ten.

    Args:
        table: runs of the curriculum template, of any number of seeds; the band spans one standard deviation over them.
        readings: one row of panels for each schedule, with a panel for each of these readings; none to take the table as one.
        column: ``group_confidence`` (each run's own groups) or ``reference_group_confidence`` (the same samples in every run).
        columns: panels in a row, if there is one reading.

    Returns:
        The figure.
    """
    across, found = settings(table, readings, across="reading")
    figure, panels = grid(len(found), across or columns, width=3.2, height=2.2, sharey=True)
    shades = sns.color_palette("viridis", 5)
    for index, (panel, (title, runs)) in enumerate(zip(panels, found, strict=False)):
        values = np.array(runs[column].tolist(), dtype=float)  # (seeds, groups, epochs)
        epochs = np.array(runs["curve_epoch"].iloc[0])
        shown = epochs >= 1
        for group in reversed(range(values.shape[1])):
            mean = values[:, group, shown].mean(0)
            name = {0: "1 (hardest)", 4: "5 (easiest)"}.get(group, str(group + 1))
            panel.plot(epochs[shown], mean, color=shades[group], linestyle=_GROUP_LINES[group], label=name)
            if len(values) > 1:
                spread = values[:, group, shown].std(0, ddof=1)
                panel.fill_between(epochs[shown], mean - spread, mean + spread, color=shades[group], alpha=0.2, linewidth=0)
        panel.set(title=title, ylim=(0, 1.02), xscale="log")
        panel.xaxis.set_major_formatter("{x:g}")
        if index % (across or columns) == 0:
            panel.set_ylabel("mean confidence")
    for panel in [panel for panel in panels if panel.get_visible()][-(across or columns) :]:
        panel.set_xlabel("epoch, logarithmic")
    figure.legend(
        *panels[0].get_legend_handles_labels(), title="fifth of the samples", loc="outside lower center", ncols=5, fontsize="small"
    )
    return figure


def single_samples(table: pd.DataFrame, *, columns: int = 2) -> Figure:
    """Confidence of single training samples, one panel for each schedule (GD-1 figure 4, GD-2 figure 3 a-d).

    Only the first seed of the table is drawn. The samples are the same in every panel, and numbered from the hardest one of the
    reference run on.

    Args:
        table: runs of the curriculum template, of one reading.
        columns: panels in a row.

    Returns:
        The figure.
    """
    _, found = settings(table[table["seed"] == table["seed"].min()], None, across="schedule")
    figure, panels = grid(len(found), columns, width=3.2, height=2.3, sharex=True, sharey=True)
    for index, (panel, (title, runs)) in enumerate(zip(panels, found, strict=False)):
        run = runs.iloc[0]
        values = np.array(run["single_confidence"], dtype=float)  # (samples, epochs)
        shades = sns.color_palette("viridis", len(values))
        for sample, (shade, curve) in enumerate(zip(shades, values, strict=True)):
            line = _GROUP_LINES[sample % 4]
            panel.plot(run["curve_epoch"], curve, color=shade, linewidth=1.2, linestyle=line, label=str(sample + 1))
        panel.set(title=title, ylim=(-0.02, 1.02))
        if index % columns == 0:
            panel.set_ylabel("confidence $p_c$")
        if index >= len(found) - columns:
            panel.set_xlabel("epoch")
    figure.legend(
        *panels[0].get_legend_handles_labels(), title="sample, from the hardest (1) to the easiest", loc="outside lower center", ncols=6
    )
    return figure


def confidence_counts(table: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Training samples in 20 intervals of the confidence, on a logarithmic scale: one line for each schedule, mean over the seeds."""
    ax = plt.subplots()[1] if ax is None else ax
    for label, runs in table.groupby("schedule", sort=False):
        counts = np.array(runs["confidence_histogram"].tolist(), dtype=float).mean(0)
        edges = np.linspace(0, 1, len(counts) + 1)
        ax.stairs(
            counts,
            edges,
            color=schedule_color(str(label)),
            linestyle=schedule_linestyle(str(label)),
            label=schedule_label(str(label)),
            linewidth=1.6,
        )
    ax.set(xlabel="confidence $p_c$", ylabel="training samples", yscale="log", xlim=(0, 1))
    ax.legend(ncols=2)
    return ax
