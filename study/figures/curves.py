"""Curves over the epochs, and distributions of the confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from study.figures.style import grid, in_lines, not_run, one_legend, schedule_color, schedule_label, schedule_linestyle, settings

_GROUP_LINES = ("-", "--", "-.", ":", "-")


def curves(
    table: pd.DataFrame,
    y: str,
    *,
    ylabel: str,
    x: str = "epoch",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """One curve ``curve_{y}`` for each schedule: the mean over the seeds, with a band of one standard deviation where there are several.

    What is measured on the training set has its epochs in ``x="train_epoch"``.
    """
    ax = plt.subplots()[1] if ax is None else ax
    for label, runs in table.groupby("schedule", sort=False):
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
    """:func:`curves` in one panel for each reading, with one scale and one legend."""
    figure, panels = grid(len(readings), columns, width=3.2, height=2.7, sharey=True)
    for index, (panel, reading) in enumerate(zip(panels, readings, strict=False)):
        curves(table[table["variant"] == reading], y, ylabel=ylabel if index % columns == 0 else "", x=x, ax=panel, legend=False)
        panel.set(title=reading, yscale="log" if log else "linear")
    if ylim is not None:
        panels[0].set_ylim(ylim)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    return figure


def margin_bias(table: pd.DataFrame, *, readings: Sequence[str], classes: int) -> Figure:
    r"""The mean bias :math:`\hat\rho` against the epoch, one curve for each loss and one panel for each reading (LM figure 3).

    .. math:: \hat\rho = \log \sum_{c \neq y} e^{f_c - \max_{d \neq y} f_d}

    It lies between 0, where one wrong class is ahead of all others, and log(C - 1), where they are level; that is the dotted line.
    """
    figure, panels = grid(len(readings), 2, width=3.6, height=2.8, sharey=True)
    for index, (panel, reading) in enumerate(zip(panels, readings, strict=False)):
        chosen = table[table["variant"] == reading]
        curves(chosen, "train_margin_bias", ylabel="", x="train_epoch", ax=panel, legend=False)
        panel.axhline(math.log(classes - 1), color="0.4", linewidth=1, linestyle=":", zorder=0)
        panel.set_title(in_lines(reading), fontsize="small")
        panel.set(ylim=(0, 1.08 * math.log(classes - 1)), ylabel=r"mean bias $\hat\rho$, nats" if index % 2 == 0 else "")
    one_legend(figure, panels, ncols=3)
    return figure


def oscillation_curves(table: pd.DataFrame, *, variants: Sequence[str], schedules: Sequence[str]) -> Figure:
    """Test accuracy after every epoch, a line for each seed: a panel for each variant, a row for each reading (GD-1 and GD-2 figure 8).

    The epochs that the statistic does not count are grey.
    """
    if table.empty:
        return not_run()
    readings = list(dict.fromkeys(table["variant"]))
    variants = [variant for variant in variants if variant in set(table["arm"])]
    size = (2.3 * len(variants) + 0.4, 2.5 * len(readings) + 0.7)
    figure, panels = plt.subplots(len(readings), len(variants), figsize=size, squeeze=False, sharex="row", sharey="row")
    for row, reading in enumerate(readings):
        for column, variant in enumerate(variants):
            panel = panels[row, column]
            for schedule in schedules:
                chosen = table[(table["variant"] == reading) & (table["arm"] == variant) & (table["schedule"] == schedule)]
                for index, (_, run) in enumerate(chosen.iterrows()):
                    label = schedule_label(schedule) if index == 0 else None
                    color, line = schedule_color(schedule), schedule_linestyle(schedule)
                    panel.plot(run["curve_epoch"], run["curve_test_accuracy"], color=color, linestyle=line, linewidth=1.1, label=label)
                    last = round(min(run["milestones"], default=1) * run["epochs"])
            panel.axvspan(0, last // 2, color="0.93", zorder=0)
            panel.set_title(in_lines(variant) if row == 0 else "", fontsize="small")
        chosen = table[(table["variant"] == reading) & table["schedule"].isin(schedules)]
        late = [value for curve in chosen["curve_test_accuracy"] for value in curve[len(curve) // 4 :]]
        panels[row, 0].set(ylabel="test accuracy", ylim=(min(late) - 0.03, max(late) + 0.02))
        if len(readings) > 1:
            panels[row, -1].annotate(in_lines(reading), (1.03, 0.5), xycoords="axes fraction", rotation=270, va="center", fontsize="small")
    for panel in panels[-1]:
        panel.set_xlabel("epoch")
    one_legend(figure, panels.flat, ncols=4)
    return figure


def difficulty_groups(table: pd.DataFrame, *, readings: Sequence[str] | None = None, column: str = "group_confidence") -> Figure:
    """Mean confidence of five groups of training samples, one panel for each schedule (GD-1 figure 5, GD-2 figure 3 e-h).

    The epochs are on a logarithmic scale, because most of it happens in the first ten. The band is one standard deviation over the seeds.
    With several readings there is a row of panels for each schedule. ``column`` is ``group_confidence`` (each run's own groups) or
    ``reference_group_confidence`` (the same samples in every run).
    """
    across, found = settings(table, readings, across="variant")
    figure, panels = grid(len(found), across or 2, width=3.2, height=2.2, sharey=True)
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
        if index % (across or 2) == 0:
            panel.set_ylabel("mean confidence")
    for panel in [panel for panel in panels if panel.get_visible()][-(across or 2) :]:
        panel.set_xlabel("epoch, logarithmic")
    figure.legend(
        *panels[0].get_legend_handles_labels(), title="fifth of the samples", loc="outside lower center", ncols=5, fontsize="small"
    )
    return figure


def single_samples(table: pd.DataFrame) -> Figure:
    """Confidence of single training samples of the first seed, one panel for each schedule (GD-1 figure 4, GD-2 figure 3 a-d).

    The samples are the same in every panel, and numbered from the hardest one of the reference run on.
    """
    _, found = settings(table[table["seed"] == table["seed"].min()], None, across="schedule")
    figure, panels = grid(len(found), 2, width=3.2, height=2.3, sharex=True, sharey=True)
    for index, (panel, (title, runs)) in enumerate(zip(panels, found, strict=False)):
        run = runs.iloc[0]
        values = np.array(run["single_confidence"], dtype=float)  # (samples, epochs)
        shades = sns.color_palette("viridis", len(values))
        for sample, (shade, curve) in enumerate(zip(shades, values, strict=True)):
            line = _GROUP_LINES[sample % 4]
            panel.plot(run["curve_epoch"], curve, color=shade, linewidth=1.2, linestyle=line, label=str(sample + 1))
        panel.set(title=title, ylim=(-0.02, 1.02))
        if index % 2 == 0:
            panel.set_ylabel("confidence $p_c$")
        if index >= len(found) - 2:
            panel.set_xlabel("epoch")
    figure.legend(
        *panels[0].get_legend_handles_labels(), title="sample, from the hardest (1) to the easiest", loc="outside lower center", ncols=6
    )
    return figure


def confidence_counts(table: pd.DataFrame) -> Axes:
    """Training samples in 20 intervals of the confidence, on a logarithmic scale: one line for each schedule, mean over the seeds."""
    _, ax = plt.subplots()
    for label, runs in table.groupby("schedule", sort=False):
        counts = np.array(runs["confidence_histogram"].tolist(), dtype=float).mean(0)
        color, line = schedule_color(str(label)), schedule_linestyle(str(label))
        ax.stairs(counts, np.linspace(0, 1, len(counts) + 1), color=color, linestyle=line, label=schedule_label(str(label)), linewidth=1.6)
    ax.set(xlabel="confidence $p_c$", ylabel="training samples", yscale="log", xlim=(0, 1))
    ax.legend(ncols=2)
    return ax
