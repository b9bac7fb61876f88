"""Differences with intervals, on one scale."""

from __future__ import annotations

import textwrap

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from study.figures.style import beta_color

_PALE = 0.3
_LETTERS = 28  # of a line of a variant's name
_SPREAD = 0.6  # of the room between two rows, for the dots of one


def dots(
    differences: pd.DataFrame, *, xlabel: str, scale: float = 1.0, linear: float = 1.0
) -> Figure:
    """Draw differences to β = 1: a row for each variant, a colour for each β, pale around 0.

    Args:
        differences: what :func:`study.compare.compare` returns, with a column ``beta``.
        xlabel: what a difference is.
        scale: a factor for all numbers.
        linear: up to where the axis is linear; beyond it is logarithmic.
    """
    variants = list(dict.fromkeys(differences["variant"]))
    betas = sorted(set(differences["beta"]), reverse=True)
    figure, axes = plt.subplots(figsize=(7, 0.75 + 0.55 * len(variants)))
    for beta in betas:
        of_beta = differences[differences["beta"] == beta]
        place = (betas.index(beta) / max(len(betas) - 1, 1) - 0.5) * _SPREAD
        for row in of_beta.itertuples():
            middle, low, high = (scale * one for one in (row.difference, row.low, row.high))
            axes.errorbar(
                middle,
                variants.index(row.variant) + place,
                xerr=[[middle - low], [high - middle]],
                fmt="o",
                markersize=4,
                color=beta_color(beta),
                alpha=_PALE if low <= 0 <= high else 1.0,
            )
        axes.plot([], [], "o", color=beta_color(beta), label=f"{beta:g}")
    axes.axvline(0, color="0.5", linewidth=0.8, zorder=0)
    axes.set_xscale("symlog", linthresh=linear)
    ticks = (-5, -2, -1, 0, 1, 2, 5)
    axes.set_xticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(variants)), [textwrap.fill(name, _LETTERS) for name in variants])
    axes.set(xlabel=xlabel, ylim=(len(variants) - 0.5, -0.5))
    axes.legend(title="β", loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
