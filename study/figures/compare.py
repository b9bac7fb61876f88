"""Settings against each other: paired differences, ranks, and outcomes against β, depth or the amount of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from study import statistics
from study.figures.style import (
    MARKERS,
    grid,
    in_lines,
    means_with_intervals,
    reading_styles,
    schedule_color,
    schedule_label,
    schedule_linestyle,
)
from study.statistics import Ranking


def differences_by_reading(
    table: pd.DataFrame, column: str, *, reference: str, readings: Sequence[str], xlabel: str, scale: float = 1.0, columns: int = 2
) -> Figure:
    """Paired differences of every schedule to a reference, with 95 % Student intervals, one panel for each reading.

    Each panel has a horizontal scale of its own, and an empty row for a schedule that the reading lacks.
    """
    labels = [label for label in dict.fromkeys(table["schedule"]) if label != reference]
    figure, panels = grid(len(readings), columns, width=3.4, height=0.24 * len(labels) + 0.7)
    for index, (panel, reading) in enumerate(zip(panels, readings, strict=False)):
        runs = table[table["variant"] == reading].pivot_table(index="seed", columns="schedule", values=column) * scale
        rows = []
        for label in labels:
            both = runs.reindex(columns=[label, reference]).dropna()
            mean, low, high = (float("nan"),) * 3
            if len(both) > 1:
                found = statistics.paired_difference(both[label], both[reference])
                mean, low, high = found.mean, found.interval.low, found.interval.high
            rows.append((schedule_label(label), mean, low, high, schedule_color(label)))
        differences(pd.DataFrame(rows, columns=["label", "mean", "low", "high", "color"]), xlabel="", ax=panel)
        panel.set_title(in_lines(reading))
        panel.tick_params(labelsize="small")
        if index % columns:
            panel.set_yticklabels([])
        if index >= len(readings) - columns:
            panel.set_xlabel(xlabel, fontsize="medium")
    return figure


def differences(frame: pd.DataFrame, *, xlabel: str, ax: Axes) -> Axes:
    """Differences with their intervals (``label``, ``mean``, ``low``, ``high``, ``color``), a row for each, and a line at 0."""
    rows = np.arange(len(frame))[::-1]
    shades = frame["color"] if "color" in frame else ["#000000"] * len(frame)
    for row, shade, (_, line) in zip(rows, shades, frame.iterrows(), strict=True):
        ax.plot([line["low"], line["high"]], [row, row], color=shade, linewidth=2)
        ax.plot(line["mean"], row, "o", color=shade, markersize=5)
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set(yticks=rows, yticklabels=frame["label"], xlabel=xlabel, ylim=(-0.7, len(frame) - 0.3))
    ax.grid(axis="y", visible=False)
    return ax


def against_beta(table: pd.DataFrame, column: str, *, ylabel: str, readings: Sequence[str], published: pd.DataFrame) -> Axes:
    """An outcome against β on logarithmic axes, a curve for each reading: mean over the seeds with its 95 % Student interval.

    Warm-ups are left out; ``published`` holds the papers' values (``beta``, ``value``), drawn in black.
    """
    _, ax = plt.subplots()
    table = table[table["warmup_epochs"] == 0]
    seeds = table.groupby("variant")["seed"].nunique()[list(readings)]
    uneven = seeds.nunique() > 1
    for reading, style in reading_styles(readings).items():
        values = table[table["variant"] == reading].pivot_table(index="seed", columns="beta", values=column)
        means_with_intervals(ax, values, label=f"{reading} ({seeds[reading]})" if uneven else reading, **style)
    printed = published.astype({"beta": float, "value": float}).sort_values("beta")
    ax.plot(printed["beta"], printed["value"], "k*-", markersize=10, label="the papers")
    ax.set(xscale="log", xlabel="β", ylabel=ylabel, yscale="log")
    ax.legend(title="variant (seeds)" if uneven else "variant", fontsize="small", bbox_to_anchor=(1.01, 1), loc="upper left")
    return ax


def critical_difference(found: Ranking, *, labels: Mapping[str, str]) -> Axes:
    """Draw a critical-difference diagram of average ranks, with bars over the methods that cannot be told apart.

    J. Demšar, *Statistical comparisons of classifiers over multiple data sets*, JMLR 7 (2006), figure 1.
    """
    from scikit_posthocs import critical_difference_diagram  # here, since it takes two seconds to import and one page needs it

    names = {name: labels.get(str(name), str(name)) for name in found.average.index}
    _, ax = plt.subplots(figsize=(6.4, 0.2 * len(names) + 1.2))
    critical_difference_diagram(
        found.average.rename(names),
        found.nemenyi.rename(index=names, columns=names),
        alpha=0.05,
        ax=ax,
        label_fmt_left="{label}  {rank:.2f}",
        label_fmt_right="{rank:.2f}  {label}",
        color_palette={name: "#333333" for name in names.values()},
        text_h_margin=0.1,
    )
    ax.set_title(f"critical difference {found.critical_difference:.2f}", fontsize="small")
    return ax


def accuracy_against_depth(table: pd.DataFrame, *, labels: Mapping[str, str], chance: float) -> Axes:
    """Test accuracy against the number of layers, one curve for each ``loss``: mean over the seeds, bars of one standard deviation."""
    _, ax = plt.subplots()
    methods = list(dict.fromkeys(table["loss"]))
    for name, style in zip(methods, reading_styles([f"method {index}" for index in range(len(methods))]).values(), strict=True):
        found = 100 * table[table["loss"] == name].groupby("depth")["test_accuracy"].agg(["mean", "std"])
        bars = {"yerr": found["std"], "capsize": 2, "markersize": 4.5, "linewidth": 1.4, "elinewidth": 1}
        ax.errorbar(found.index, found["mean"], label=labels.get(name, name), **bars, **style)
    ax.axhline(100 * chance, color="0.4", linewidth=1, linestyle=":", zorder=0)
    ax.set(xlabel="layers", ylabel="test accuracy, %")
    ax.legend(fontsize="small")
    return ax


def accuracy_against_amount(table: pd.DataFrame, what: Literal["samples", "epochs"], *, legend: bool, ax: Axes) -> Axes:
    """Test accuracy against the number of training samples or of epochs, one curve for each loss, on a logarithmic axis.

    Points are means over the seeds, bars one standard deviation. Points that belong together lie a little apart.
    """
    losses = list(dict.fromkeys(table["schedule"]))
    for index, loss in enumerate(losses):
        found = 100 * table[table["schedule"] == loss].groupby(what)["test_accuracy"].agg(["mean", "std"])
        shift = 1.012 ** (index - (len(losses) - 1) / 2)
        ax.errorbar(
            found.index.to_numpy(dtype=float) * shift,
            found["mean"],
            yerr=found["std"].fillna(0.0),
            label=schedule_label(loss),
            color=schedule_color(loss),
            linestyle=schedule_linestyle(loss),
            marker=MARKERS[index % len(MARKERS)],
            capsize=2,
            markersize=4.5,
            linewidth=1.4,
            elinewidth=1,
        )
    amounts = sorted(table[what].unique())
    ax.set(xscale="log", xlabel={"samples": "training samples", "epochs": "epochs"}[what], ylabel="test accuracy, %")
    ax.set_xticks(amounts, [f"{amount:,.0f}".replace(",", "\u2009") for amount in amounts])
    ax.xaxis.set_minor_locator(NullLocator())
    if legend:
        ax.legend(fontsize="small")
    return ax
