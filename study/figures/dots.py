"""Differences with intervals, on one scale."""

from __future__ import annotations

import textwrap

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from study.figures.style import schedule_style
from study.methods import method_name

_PALE = 0.3
_LETTERS = 28  # of a line of a variant's name
_SPREAD = 0.6  # of the room between two rows, for the dots of one


def dots(
    differences: pd.DataFrame,
    *,
    xlabel: str,
    by: str = "beta",
    scale: float = 1.0,
    linear: float = 1.0,
) -> Figure:
    """Draw differences: a row for each variant, a colour for each method, pale around 0.

    Args:
        differences: what :func:`study.compare.compare` returns, with the column ``by``.
        xlabel: what a difference is.
        by: the column of the methods: ``beta``, or labels such as ``"arcgrad 10"``.
        scale: a factor for all numbers.
        linear: up to where the axis is linear; beyond it is logarithmic.
    """
    variants = list(dict.fromkeys(differences["variant"]))
    methods = list(dict.fromkeys(differences[by]))
    figure, axes = plt.subplots(figsize=(7, 0.75 + max(0.55, 0.14 * len(methods)) * len(variants)))
    for method, of_method in differences.groupby(by, sort=False):
        label = method if isinstance(method, str) else f"{method:g}"
        color = schedule_style(label)["color"]
        place = (methods.index(method) / max(len(methods) - 1, 1) - 0.5) * _SPREAD
        for row in of_method.itertuples():
            middle, low, high = (scale * one for one in (row.difference, row.low, row.high))
            axes.errorbar(
                middle,
                variants.index(row.variant) + place,
                xerr=[[middle - low], [high - middle]],
                fmt="o",
                markersize=4,
                color=color,
                alpha=_PALE if low <= 0 <= high else 1.0,
            )
        axes.plot([], [], "o", color=color, label=label if by == "beta" else method_name(label))
    axes.axvline(0, color="0.5", linewidth=0.8, zorder=0)
    furthest = scale * differences[["low", "high"]].abs().max(axis=None)
    if furthest > linear:
        axes.set_xscale("symlog", linthresh=linear)
        ticks = (-5, -2, -1, 0, 1, 2, 5)
        axes.set_xticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
        axes.minorticks_off()
    axes.set_yticks(range(len(variants)), [textwrap.fill(name, _LETTERS) for name in variants])
    axes.set(xlabel=xlabel, ylim=(len(variants) - 0.5, -0.5))
    if by == "beta":
        axes.legend(title="β", loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:  # long names
        figure.legend(loc="outside upper center", ncols=3, columnspacing=1.0)
    return figure
