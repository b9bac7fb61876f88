"""Settings against each other: paired differences, and a paper's numbers beside ours."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from study.figures.style import grid, in_lines, not_run, one_legend, reading_styles, schedule_color


def beside(frame: pd.DataFrame, *, xlabel: str, zero: bool = True, columns: int = 2) -> Figure:
    """Numbers with their intervals: a row for each ``label``, in it a mark for each ``source``.

    Args:
        frame: ``panel``, ``label``, ``mean``, and ``low`` and ``high``, which may be NaN. Sources that begin with "paper" are black stars.
            Without ``source`` a mark has the colour of its ``schedule``.
        xlabel: what is shown, with its unit.
        zero: whether there is a line at 0.
        columns: how many panels there are in a row.
    """
    if frame.empty:
        return not_run()
    sourced = "source" in frame
    names, labels, sources = (list(dict.fromkeys(frame[column])) for column in ("panel", "label", "source" if sourced else "schedule"))
    columns, places = min(columns, len(names)), len(sources) if sourced else 1
    height = (0.13 * places + 0.12) * len(labels) + 0.5
    figure, axes = grid(len(names), columns, width=7.0 / columns, height=height, sharey=True)
    ours = reading_styles(source for source in sources if not source.startswith("paper"))
    for index, (panel, name) in enumerate(zip(axes, names, strict=False)):
        for place, source in enumerate(sources):
            found = frame[(frame["panel"] == name) & (frame["source" if sourced else "schedule"] == source)]
            found = found.set_index("label").reindex(labels)
            if found["mean"].isna().all():
                continue
            style = ours.get(source, {"color": "black", "marker": ("*", "P", "X")[place % 3], "markersize": 7}) | {"linestyle": "none"}
            if not sourced:
                style |= {"color": schedule_color(source), "marker": "o"}
            rows = 0.8 * (0.5 - (place % places + 0.5) / places) - np.arange(len(labels))
            half = [found["mean"] - found["low"], found["high"] - found["mean"]]
            panel.errorbar(found["mean"], rows, xerr=half, label=source, **({"markersize": 5, "elinewidth": 1.4} | style))
        if zero:
            panel.axvline(0, color="0.4", linewidth=1)
        for row in range(1, len(labels)):
            panel.axhline(0.5 - row, color="0.9", linewidth=0.8)
        panel.set(yticks=-np.arange(len(labels)), yticklabels=labels, ylim=(0.5 - len(labels), 0.5))
        panel.set(xlabel=xlabel if index >= len(names) - columns else "")
        panel.set_title(in_lines(name), fontsize="small")
        panel.grid(axis="y", visible=False)
    if sourced:
        one_legend(figure, axes, ncols=3)
    return figure
