"""What every figure of the book shares: sizes, one colour per β, one mark per reading, grids of panels."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from study import statistics
from study.losses import LOSSES, loss_name

# ends and middle of the scale on log10 β in [-3, 1.7]; ColorBrewer-like blues and oranges, safe for the common colour deficiencies
_SMALL = LinearSegmentedColormap.from_list("small beta", ["#9ecae1", "#4292c6", "#08519c", "#5e3c99"])
_LARGE = LinearSegmentedColormap.from_list("large beta", ["#fdb863", "#e66101", "#8c2d04"])
_WARMUPS = ("#009e73", "#cc79a7", "#7f7f00", "#d55e00")

# a reading has the marker of its activation, and the colour and the line of its normalisation
_ACTIVATIONS = {"relu": "o", "tanh": "s", "sigmoid": "^"}
_NORMALIZATIONS = {"unit": ("#117733", "-"), "standard": ("#666666", "--"), "none": ("#aa3377", ":")}
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "*")
_LINES = ("-", "--", "-.", ":")


def use_style() -> None:
    """Set the fonts, grid and sizes that every figure of the book shares: 200 dots an inch, shown at half their size."""
    sns.set_theme(context="notebook", style="whitegrid")
    mpl.rcParams.update(
        {
            "figure.figsize": (6.2, 4.0),
            "figure.dpi": 200,
            "figure.constrained_layout.use": True,
            "savefig.facecolor": "white",
            "grid.linewidth": 0.6,
            "axes.linewidth": 0.8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": "medium",
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "svg.hashsalt": "gdlib",
        }
    )


def beta_color(beta: float) -> str:
    """The colour of a gradient-decay factor as a hex code, the same in every figure; black for β = 1."""
    position = math.log10(beta)
    if abs(position) < 1e-9:
        return "#000000"
    if position < 0:
        return to_hex(_SMALL(min(1.0, -position / 3.0)))
    return to_hex(_LARGE(min(1.0, position / 1.7)))


def beta_linestyle(beta: float) -> str:
    """Solid for β ≤ 1, dashed for β > 1."""
    return "--" if beta > 1 else "-"


def beta_label(beta: float) -> str:
    """The label of a β in a legend."""
    return f"β = {beta:g}"


def schedule_color(label: str) -> str:
    """The colour of a schedule by its label: that of β for a constant, one of its own for a warm-up, and for each other loss."""
    try:
        return beta_color(float(label))
    except ValueError:
        if (loss := label.partition(" ")[0]) in LOSSES:
            return LOSSES[loss].color
        return _WARMUPS[0] if "0.001" in label else _WARMUPS[1] if "0.01" in label else _WARMUPS[2]


def schedule_linestyle(label: str) -> str:
    """The line style of a schedule by its label: dash-dotted for a warm-up, that of the loss, or that of β."""
    try:
        return beta_linestyle(float(label))
    except ValueError:
        loss = label.partition(" ")[0]
        return LOSSES[loss].line if loss in LOSSES else "-."


def schedule_label(label: str) -> str:
    """A schedule in a legend.

    Example:
        >>> schedule_label("0.1"), schedule_label("warm-up 0.01→0.1"), schedule_label("lm 0.3")
        ('β = 0.1', 'warm-up 0.01→0.1', 'LM, λ = 0.3')
    """
    try:
        return beta_label(float(label))
    except ValueError:
        return loss_name(label)


def in_lines(text: str, width: int = 30) -> str:
    r"""Break a long name after commas into lines of at most so many characters.

    Example:
        >>> in_lines("cifar10, resnet18, plain, 6,000 images"), in_lines("tanh-unit")
        ('cifar10, resnet18, plain,\\n6,000 images', 'tanh-unit')
    """
    lines: list[str] = []
    for part in re.split("(?<=,) ", text):
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return "\n".join(lines)


def reading_styles(readings: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line of each reading.

    A reading of MNIST, such as ``tanh-unit``, has the marker of its activation, and the colour and the line of its normalisation. Any other
    name, such as that of a network, has a style by its place in the list.
    """
    styles = {}
    shades = sns.color_palette("colorblind", 10).as_hex()
    for index, reading in enumerate(readings):
        activation, _, normalization = reading.partition("-")
        if activation in _ACTIVATIONS and normalization in _NORMALIZATIONS:
            color, line = _NORMALIZATIONS[normalization]
            styles[reading] = {"color": color, "linestyle": line, "marker": _ACTIVATIONS[activation]}
        else:
            styles[reading] = {"color": shades[index % 10], "linestyle": _LINES[index % 4], "marker": MARKERS[index % 10]}
    return styles


def grid(count: int, columns: int, *, width: float, height: float, sharex: bool = False, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Make a grid of panels of a size in inches, row by row; those of the last row that are not needed are hidden."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, panels = plt.subplots(
        *(rows, columns), figsize=(width * columns, height * rows + 0.7), squeeze=False, layout="constrained", sharex=sharex, sharey=sharey
    )
    for panel in list(panels.flat)[count:]:
        panel.set_visible(False)
    for panel in list(panels.flat)[:count][-columns:]:
        panel.xaxis.set_tick_params(labelbottom=True)  # the lowest panel of its column, also where a hidden one is below it
    return figure, list(panels.flat)


def settings(table: pd.DataFrame, readings: Sequence[str] | None, *, across: str) -> tuple[int, list[tuple[str, pd.DataFrame]]]:
    """The runs of every pair of a reading and a schedule, with a title, in the order of a grid.

    ``across`` is what changes along a row: ``"schedule"`` or ``"variant"``. The number of columns that the grid needs for that comes first:
    0 for one reading, which can be wrapped anywhere.
    """
    schedules = list(dict.fromkeys(table["schedule"]))
    if readings is None or len(readings) < 2:
        chosen = table if not readings else table[table["variant"] == readings[0]]
        return 0, [(schedule_label(str(label)), chosen[chosen["schedule"] == label]) for label in schedules]
    pairs = list(itertools.product(readings, schedules))
    if across == "variant":
        pairs.sort(key=lambda pair: schedules.index(pair[1]))
    return len(schedules) if across == "schedule" else len(readings), [
        (f"{reading}, {schedule_label(str(label))}", table[(table["variant"] == reading) & (table["schedule"] == label)])
        for reading, label in pairs
    ]


def not_run() -> Figure:
    """What stands where a figure will be, once there are records."""
    figure, ax = plt.subplots(figsize=(4.0, 1.2))
    ax.set_axis_off()
    ax.text(0.5, 0.5, "not run yet", ha="center", va="center")
    return figure


def means_with_intervals(panel: Axes, values: pd.DataFrame, **style: Any) -> None:
    """Means over the rows against the columns, with 95 % Student intervals where there are several rows."""
    columns = [at_beta.dropna() for _, at_beta in values.items()]
    means = np.array([column.mean() for column in columns])
    intervals = [statistics.t_interval(column) if len(column) > 1 else None for column in columns]
    half = [(interval.high - interval.low) / 2 if interval else 0.0 for interval in intervals]
    panel.errorbar(values.columns, means, yerr=half, capsize=2, markersize=4.5, linewidth=1.4, elinewidth=1, **style)


def one_legend(figure: Figure, panels: Iterable[Axes], *, title: str | None = None, ncols: int = 1) -> None:
    """One legend below the figure for all panels; what they share appears once."""
    entries = {name: handle for panel in panels for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)}
    if title is not None:  # readings of ours first
        entries = dict(sorted(entries.items(), key=lambda entry: not isinstance(entry[1], ErrorbarContainer)))
    figure.legend(entries.values(), entries.keys(), title=title, loc="outside lower center", ncols=ncols, fontsize="small")
