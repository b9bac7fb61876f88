"""Curves over the epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from study.figures.style import grid, not_run, one_legend, panels, schedule_color, schedule_label, schedule_linestyle

_GROUP_LINES = ("-", "--", "-.", ":", "-")


def curves(
    table: pd.DataFrame,
    y: str,
    *,
    ylabel: str,
    x: str = "epoch",
    panel: str = "",
    columns: int = 2,
    each: bool = False,
    log: bool = False,
    ylim: tuple[float, float] | None = None,
) -> Figure:
    """One curve ``curve_{y}`` for each schedule: the mean over the seeds, with a band of one standard deviation where there are several.

    Args:
        table: runs with ``schedule`` and the curves.
        y: what is drawn.
        ylabel: its name.
        x: ``"train_epoch"`` for what is measured on the training set.
        panel: a column whose values have a panel each; all panels have one scale.
        columns: of the grid of panels.
        each: whether every seed has a line of its own.
        log: whether the vertical axis is logarithmic.
        ylim: its ends.
    """
    if table.empty:
        return not_run()
    table = table if panel else table.assign(all="")
    figure, found = panels(table, panel or "all", columns, width=7.0 / columns if panel else 6.2, height=2.7 if panel else 3.3, sharey=True)
    for index, (ax, of_panel) in enumerate(found):
        for label, runs in of_panel.groupby("schedule", sort=False):
            values = np.array(runs[f"curve_{y}"].tolist(), dtype=float)  # (seeds, epochs)
            look: dict[str, Any] = {"color": schedule_color(str(label)), "linestyle": schedule_linestyle(str(label))}
            for number, line in enumerate(values if each else values.mean(0, keepdims=True)):
                ax.plot(runs[f"curve_{x}"].iloc[0], line, label=schedule_label(str(label)) if number == 0 else None, **look)
            if len(values) > 1 and not each:
                _band(ax, runs[f"curve_{x}"].iloc[0], values, look["color"])
        ax.set(ylabel=ylabel if index % columns == 0 else "", yscale="log" if log else "linear", ylim=ylim)
        if index >= len(found) - columns:
            ax.set_xlabel("epoch")
    one_legend(figure, [ax for ax, _ in found], ncols=3)
    return figure


def margin_bias(table: pd.DataFrame, *, readings: Sequence[str], classes: int) -> Figure:
    r"""The mean bias :math:`\hat\rho` against the epoch, one curve for each loss and one panel for each variant (LM figure 3).

    .. math:: \hat\rho = \log \sum_{c \neq y} e^{f_c - \max_{d \neq y} f_d}

    It lies between 0, where one wrong class is ahead of all others, and log(C - 1), where they are level; that is the dotted line.
    """
    chosen = pd.concat([table[table["variant"] == reading] for reading in readings])
    bound = math.log(classes - 1)
    label = r"mean bias $\hat\rho$, nats"
    figure = curves(chosen, "train_margin_bias", ylabel=label, x="train_epoch", panel="variant", ylim=(0, 1.08 * bound))
    for ax in figure.axes:
        ax.axhline(bound, color="0.4", linewidth=1, linestyle=":", zorder=0)
    return figure


def difficulty_groups(table: pd.DataFrame, *, readings: Sequence[str] | None = None, column: str = "group_confidence") -> Figure:
    """Mean confidence of five groups of training samples, one panel for each schedule (GD-1 figure 5, GD-2 figure 3 e-h).

    The epochs are on a logarithmic scale, because most of it happens in the first ten. The band is one standard deviation over the seeds.
    With several variants there is a column of panels for each. ``column`` is ``group_confidence`` (each run's own groups) or
    ``reference_group_confidence`` (the same samples in every run).
    """
    figure, found = by_schedule(table, readings, across="variant", xlabel="epoch, logarithmic", ylabel="confidence", sharey=True)
    shades = sns.color_palette("viridis", 5)
    for ax, runs in found:
        values = np.array(runs[column].tolist(), dtype=float)  # (seeds, groups, epochs)
        epochs = np.array(runs["curve_epoch"].iloc[0])
        shown = epochs >= 1
        for group in reversed(range(values.shape[1])):
            name = {0: "1 (hardest)", 4: "5 (easiest)"}.get(group, str(group + 1))
            of_group = values[:, group, shown]
            ax.plot(epochs[shown], of_group.mean(0), color=shades[group], linestyle=_GROUP_LINES[group], label=name)
            if len(values) > 1:
                _band(ax, epochs[shown], of_group, shades[group])
        ax.set(ylim=(0, 1.02), xscale="log")
        ax.xaxis.set_major_formatter("{x:g}")
    one_legend(figure, [found[0][0]], title="fifth of the samples", ncols=5)
    return figure


def single_samples(table: pd.DataFrame) -> Figure:
    """Confidence of single training samples of the first seed, one panel for each schedule (GD-1 figure 4, GD-2 figure 3 a-d).

    The samples are the same in every panel, and numbered from the hardest one of the reference run on.
    """
    first = table[table["seed"] == table["seed"].min()]
    figure, found = by_schedule(first, None, across="schedule", xlabel="epoch", ylabel="confidence $p_c$", sharex=True, sharey=True)
    for ax, runs in found:
        values = np.array(runs["single_confidence"].iloc[0], dtype=float)  # (samples, epochs)
        for sample, (shade, curve) in enumerate(zip(sns.color_palette("viridis", len(values)), values, strict=True)):
            look = {"color": shade, "linewidth": 1.2, "linestyle": _GROUP_LINES[sample % 4]}
            ax.plot(runs["curve_epoch"].iloc[0], curve, label=str(sample + 1), **look)
        ax.set(ylim=(-0.02, 1.02))
    one_legend(figure, [found[0][0]], title="sample, from the hardest (1) to the easiest", ncols=6)
    return figure


def by_schedule(
    table: pd.DataFrame, readings: Sequence[str] | None, *, across: str, xlabel: str, ylabel: str, **shared: bool
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A panel for each schedule; with several variants for each pair, where ``across`` ("schedule" or "variant") changes along a row."""
    figure, found, columns = _grid_of(table, readings, across, **shared)
    for index, (ax, _) in enumerate(found):
        ax.set(ylabel=ylabel if index % columns == 0 else "", xlabel=xlabel if index >= len(found) - columns else "")
    return figure, found


def _grid_of(
    table: pd.DataFrame, readings: Sequence[str] | None, across: str, **shared: bool
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]], int]:
    if not readings or len(readings) < 2:
        chosen = table if not readings else table[table["variant"] == readings[0]]
        return *panels(chosen, "schedule", 2, width=3.4, height=2.3, **shared), 2
    schedules = list(dict.fromkeys(table["schedule"]))
    pairs = [(reading, schedule) for reading in readings for schedule in schedules]
    pairs = pairs if across == "schedule" else sorted(pairs, key=lambda pair: schedules.index(pair[1]))
    columns = len(schedules if across == "schedule" else readings)
    figure, axes = grid(len(pairs), columns, width=7.0 / columns, height=2.2, **shared)
    found = []
    for ax, (reading, schedule) in zip(axes, pairs, strict=False):
        ax.set_title(f"{reading}, {schedule_label(schedule)}", fontsize="small")
        found.append((ax, table[(table["variant"] == reading) & (table["schedule"] == schedule)]))
    return figure, found, columns


def _band(ax: Axes, epochs: Any, values: Any, color: Any) -> None:
    """One standard deviation to either side of the mean over the first axis."""
    mean, spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
    ax.fill_between(np.asarray(epochs), mean - spread, mean + spread, color=color, alpha=0.18, linewidth=0)
