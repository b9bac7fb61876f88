"""Curves over the epochs."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from study.figures.style import (
    LINES,
    not_run,
    one_legend,
    order_colors,
    panels,
    schedule_style,
)
from study.methods import method_name
from study.metrics import metric

_FIFTHS = ("1 (hardest)", "2", "3", "4", "5 (easiest)")


def curves(
    table: pd.DataFrame,
    y: str,
    *,
    ylabel: str,
    x: str = "epoch",
    line: str = "schedule",
    panel: str | Sequence[str] = (),
    columns: int = 2,
    height: float = 2.7,
    width: float = 0.0,
    each: bool = False,
    log: Literal["", "x", "y", "xy"] = "",
    ylim: tuple[float, float] | None = None,
    legend: str | None = None,
) -> Figure:
    """Draw one curve ``curve_{y}`` for each schedule.

    It is the mean over seeds, with a band of one standard deviation where there are several.

    On a logarithmic vertical axis, where a deviation can reach below 0, the band goes from the
    smallest seed to the largest.

    Args:
        table: runs with ``schedule`` and the curves.
        y: what is drawn.
        ylabel: its name; of an accuracy, in per cent.
        x: ``"train_epoch"`` for what is measured on the training set.
        line: a column whose values have a line each, in colours from dark to light if it is not the
            schedule.
        panel: one or two columns, as :func:`study.figures.style.panels` has them; all panels have
            one scale.
        columns: of the grid of panels.
        height: of a panel, in inches.
        width: of a panel; as the columns have it if it is 0.
        each: whether every seed has a line of its own.
        log: the axes that are logarithmic, such as ``"xy"``.
        ylim: the ends of the vertical one.
        legend: the title of the legend.
    """
    if table.empty:
        return not_run()
    xlabel = "epoch, logarithmic" if "x" in log else "epoch"
    figure, drawn = panels(
        table,
        panel,
        columns,
        height=height if panel else 3.3,
        width=width,
        xlabel=xlabel,
        ylabel=ylabel,
        sharey=True,
    )
    names = list(map(str, dict.fromkeys(table[line])))
    looks: dict[str, Any] = {
        name: {"label": name, "color": shade, "linestyle": LINES[place % 4]}
        for place, (name, shade) in enumerate(zip(names, order_colors(len(names)), strict=True))
    }
    if line == "schedule":
        looks = {name: {"label": method_name(name)} | schedule_style(name) for name in names}
    for ax, of_panel in drawn:
        for label, runs in of_panel.groupby(line, sort=False):
            epochs = np.array(runs[f"curve_{x}"].iloc[0])
            shown = epochs >= (1 if "x" in log else 0)
            values = np.array(runs[f"curve_{y}"].tolist(), dtype=float)[:, shown]  # (seeds, epochs)
            look = looks[str(label)]
            for one in values if each else values.mean(0, keepdims=True):
                ax.plot(epochs[shown], one, **look)
            if len(values) > 1 and not each:
                mean, spread = values.mean(0), values.std(0, ddof=1)
                band = (
                    (values.min(0), values.max(0)) if "y" in log else (mean - spread, mean + spread)
                )
                ax.fill_between(epochs[shown], *band, color=look["color"], alpha=0.18, linewidth=0)
        ax.set_yscale("log" if "y" in log else "linear")
        if ylim:
            ax.set_ylim(ylim)
        if metric(y).is_accuracy:
            ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}")
        if "x" in log:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter("{x:g}")
        else:
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    one_legend(
        figure,
        [ax for ax, _ in drawn],
        title=legend,
        ncols=3 if line == "schedule" else min(6, len(names)),
    )
    return figure
