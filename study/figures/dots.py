"""Differences with intervals, a row for each name, on one scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from study.figures.style import schedule_style
from study.methods import method_name

PALE = 0.3
"""How opaque an interval is that includes 0."""

_NAME, _DOT, _BELOW = 0.24, 0.14, 0.06  # inches in a row: its name, each dot, the room below
_LINE = 0.085  # of the height of a panel, between two labels of lines


def rows(
    names: Sequence[str], dots: int = 1, *, dot: float = _DOT
) -> tuple[Figure, Axes, Callable[[int, int], float]]:
    """Make axes with a row for each name, which stands above the room for its dots.

    Names at the left would leave a phone no room for the dots.

    Args:
        names: of the rows, from above.
        dots: how many dots a row has room for, one below the other.
        dot: the height of that room for one, inches.

    Returns:
        The figure, its axes, and a function that gives the height of a row's dot.
    """
    high = _NAME + dot * dots + _BELOW
    figure, axes = plt.subplots(figsize=(6.6, high * len(names) + 0.6))
    for row, name in enumerate(names):
        above = axes.annotate(
            name,
            (0, row - 0.5 + _NAME / 2 / high),
            xycoords=axes.get_yaxis_transform(),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        above.set_in_layout(False)  # a long one makes its axes no narrower
        if row:
            axes.axhline(row - 0.5, color="0.8", linewidth=0.6, zorder=0)
    axes.set(yticks=[], ylim=(len(names) - 0.5, -0.5))

    def height(row: int, place: int) -> float:
        return row - 0.5 + (_NAME + dot * (place + 0.5)) / high

    return figure, axes, height


def dots(differences: pd.DataFrame, *, xlabel: str, by: str = "beta", scale: float = 1.0) -> Figure:
    """Draw differences: a row for each variant, a colour for each method, pale around 0.

    Args:
        differences: what :func:`study.compare.compare` returns, with the column ``by``.
        xlabel: what a difference is.
        by: the column of the methods: ``beta``, or labels such as ``"arcgrad 10"``.
        scale: a factor for all numbers.
    """
    variants = list(dict.fromkeys(differences["variant"]))
    methods = list(dict.fromkeys(differences[by]))
    if by == "beta":
        methods = sorted(methods, reverse=True)
    figure, axes, height = rows(variants, len(methods))
    for place, method in enumerate(methods):
        label = method if isinstance(method, str) else f"{method:g}"
        color = schedule_style(label)["color"]
        own = differences.loc[differences[by].eq(method), ["variant", "difference", "low", "high"]]
        for variant, *numbers in own.to_numpy():
            middle, low, high = (scale * one for one in numbers)
            axes.errorbar(
                middle,
                height(variants.index(variant), place),
                xerr=[[middle - low], [high - middle]],
                fmt="o",
                markersize=4,
                color=color,
                alpha=PALE if low <= 0 <= high else 1.0,
            )
        axes.plot([], [], "o", color=color, label=method_name(label))
    axes.axvline(0, color="0.5", linewidth=0.8, zorder=0)
    axes.set(xlabel=xlabel)
    figure.legend(loc="outside upper left", ncols=min(len(methods), 5 if by == "beta" else 3))
    return figure


def label_ends(axes: Axes, colors: Mapping[str, str]) -> None:
    """Write the name of each line at its right end, in its colour, in the place of a legend.

    Args:
        axes: of the lines, with their final limits.
        colors: the colour of a line by its name; lines of other colours have no label.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = []
    for line in axes.lines:
        x, y = map(np.asarray, line.get_data())
        name = next((one for one, own in colors.items() if same_color(own, line.get_color())), None)
        if len(x) and name is not None:
            ends.append((float(to_axes.transform((x[-1], y[-1]))[1]), x[-1], name))
    ends.sort()
    height = -1.0
    heights = [height := max(own, height + _LINE) for own, _, _ in ends]
    highest = 1.0 + _LINE  # the upper ones are pushed back into the panel
    heights = [highest := min(own, highest - _LINE) for own in reversed(heights)]
    for (_, x, name), spread in zip(reversed(ends), heights, strict=True):
        axes.annotate(
            name,
            (x, spread),
            xycoords=("data", "axes fraction"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            color=colors[name],
            annotation_clip=False,
        )
