"""Settings against each other: paired differences, a paper's numbers beside ours, accuracy against the amount of training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from study import statistics
from study.figures.style import (
    grid,
    in_lines,
    not_run,
    one_legend,
    panels,
    reading_styles,
    schedule_color,
    schedule_label,
)


def differences_by_reading(
    table: pd.DataFrame, column: str, *, reference: str, readings: Sequence[str] = (), xlabel: str, scale: float = 1.0, columns: int = 2
) -> Figure:
    """Paired differences of every schedule to a reference, with 95 % Student intervals, one panel for each variant (or those named).

    Each panel has a horizontal scale of its own, and an empty row for a schedule that the variant lacks.
    """
    if table.empty:
        return not_run()
    labels = [label for label in dict.fromkeys(table["schedule"]) if label != reference]
    rows = np.arange(len(labels))[::-1]
    ordered = pd.concat([table[table["variant"] == reading] for reading in readings]) if readings else table
    figure, found = panels(ordered, "variant", columns, width=7.0 / columns, height=0.24 * len(labels) + 0.7)
    for index, (ax, runs) in enumerate(found):
        by = runs.pivot_table(index="seed", columns="schedule", values=column) * scale
        for row, label in zip(rows, labels, strict=True):
            both = by.reindex(columns=[label, reference]).dropna()
            if len(both) > 1:
                told = statistics.paired_difference(both[label], both[reference])
                ax.plot([told.interval.low, told.interval.high], [row, row], color=schedule_color(label), linewidth=2)
                ax.plot(told.mean, row, "o", color=schedule_color(label), markersize=5)
        ax.axvline(0, color="0.4", linewidth=1)
        ax.set(yticks=rows, yticklabels=[] if index % columns else list(map(schedule_label, labels)), ylim=(-0.7, len(labels) - 0.3))
        ax.grid(axis="y", visible=False)
        ax.tick_params(labelsize="small")
        if index >= len(found) - columns:
            ax.set_xlabel(xlabel, fontsize="medium")
    return figure


def beside(frame: pd.DataFrame, *, xlabel: str, zero: bool = True, columns: int = 2) -> Figure:
    """Numbers of a paper beside ours: a row for each ``label``, in it a mark for each ``source``, with an interval where there is one.

    Args:
        frame: ``panel``, ``label``, ``source``, ``mean``, and ``low`` and ``high``, which may be NaN. Sources that begin with "paper" are
            black stars.
        xlabel: what is shown, with its unit.
        zero: whether there is a line at 0.
        columns: how many panels there are in a row.
    """
    names, labels, sources = (list(dict.fromkeys(frame[column])) for column in ("panel", "label", "source"))
    columns = min(columns, len(names))
    height = (0.13 * len(sources) + 0.12) * len(labels) + 0.5
    figure, axes = grid(len(names), columns, width=7.0 / columns, height=height, sharey=True)
    ours = reading_styles(source for source in sources if not source.startswith("paper"))
    for panel, name in zip(axes, names, strict=False):
        for place, source in enumerate(sources):
            found = frame[(frame["panel"] == name) & (frame["source"] == source)].set_index("label").reindex(labels)
            if found["mean"].isna().all():
                continue
            style = ours.get(source, {"color": "black", "marker": ("*", "P", "X")[place % 3], "markersize": 7}) | {"linestyle": "none"}
            rows = 0.8 * (0.5 - (place + 0.5) / len(sources)) - np.arange(len(labels))
            half = [found["mean"] - found["low"], found["high"] - found["mean"]]
            panel.errorbar(found["mean"], rows, xerr=half, label=source, **({"markersize": 5, "elinewidth": 1.4} | style))
        if zero:
            panel.axvline(0, color="0.4", linewidth=1)
        for row in range(1, len(labels)):
            panel.axhline(0.5 - row, color="0.9", linewidth=0.8)
        panel.set(yticks=-np.arange(len(labels)), yticklabels=labels, ylim=(0.5 - len(labels), 0.5), xlabel=xlabel)
        panel.set_title(in_lines(name), fontsize="small")
        panel.grid(axis="y", visible=False)
    one_legend(figure, axes, ncols=3)
    return figure
