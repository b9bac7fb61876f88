"""From tables to matplotlib axes. The only module of gdlib that imports matplotlib and seaborn.

One colour per β throughout the book: blue for β < 1, darker and more saturated as β falls; black for β = 1; orange to brown for β > 1. The
order is also carried by lightness and by the line style, so that the figures can be read without colour.
"""

from __future__ import annotations

import math

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure

from gdlib import statistics

__all__ = [
    "against_beta",
    "beta_color",
    "beta_label",
    "beta_linestyle",
    "confidence_counts",
    "curves",
    "curves_by_reading",
    "differences",
    "differences_by_reading",
    "difficulty_groups",
    "feature_planes",
    "outcome_plane",
    "schedule_color",
    "schedule_label",
    "schedule_linestyle",
    "single_samples",
    "use_style",
]

# ends and middle of the scale on log10 β in [-3, 1.7]; ColorBrewer-like blues and oranges, safe for the common colour deficiencies
_SMALL = LinearSegmentedColormap.from_list("small beta", ["#9ecae1", "#4292c6", "#08519c", "#5e3c99"])
_LARGE = LinearSegmentedColormap.from_list("large beta", ["#fdb863", "#e66101", "#8c2d04"])
_WARMUPS = ("#009e73", "#cc79a7", "#7f7f00", "#d55e00")


def use_style() -> None:
    """Set the fonts, grid and sizes that every figure of the book shares."""
    sns.set_theme(context="notebook", style="whitegrid")
    mpl.rcParams.update(
        {
            "figure.figsize": (7.0, 4.2),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "savefig.facecolor": "white",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": "medium",
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "svg.hashsalt": "gdlib",
        }
    )


def beta_color(beta: float) -> str:
    """The colour of a gradient-decay factor, the same in every figure.

    Args:
        beta: the factor, > 0.

    Returns:
        A hex colour; black for β = 1.

    Example:
        >>> beta_color(1.0)
        '#000000'
        >>> beta_color(0.1) != beta_color(0.01)
        True
    """
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
    """The label of a β in a legend.

    Example:
        >>> beta_label(0.1), beta_label(5.0)
        ('β = 0.1', 'β = 5')
    """
    return f"β = {beta:g}"


def schedule_color(label: str) -> str:
    """The colour of a schedule by its label: that of β for a constant, one of its own for a warm-up.

    Example:
        >>> schedule_color("0.1") == beta_color(0.1)
        True
    """
    try:
        return beta_color(float(label))
    except ValueError:
        return _WARMUPS[0] if "0.001" in label else _WARMUPS[1] if "0.01" in label else _WARMUPS[2]


def schedule_linestyle(label: str) -> str:
    """The line style of a schedule by its label: dash-dotted for a warm-up, that of β otherwise."""
    try:
        return beta_linestyle(float(label))
    except ValueError:
        return "-."


def curves(
    table: pd.DataFrame,
    y: str,
    *,
    ylabel: str,
    x: str = "epoch",
    by: str = "schedule",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """One curve for each schedule: the mean over the seeds, with a band of one standard deviation where there are several.

    Args:
        table: runs, as :func:`gdlib.records.read` gives them, of one setting.
        y: name of a curve, without ``curve_``, such as ``test_accuracy``.
        ylabel: label of the vertical axis, with its unit.
        x: the curve that says when it was measured: ``epoch``, or ``train_epoch`` for what is measured on the training set.
        by: column that tells the curves apart.
        ax: axes to draw in; new ones by default.
        legend: draw a legend.

    Returns:
        The axes.
    """
    ax = plt.subplots()[1] if ax is None else ax
    for label, runs in table.groupby(by, sort=False):
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


def schedule_label(label: str) -> str:
    """A schedule in a legend.

    Example:
        >>> schedule_label("0.1"), schedule_label("warm-up 0.01→0.1")
        ('β = 0.1', 'warm-up 0.01→0.1')
    """
    try:
        return beta_label(float(label))
    except ValueError:
        return label


def difficulty_groups(table: pd.DataFrame, *, column: str = "group_confidence", columns: int = 4) -> Figure:
    """Mean confidence of five groups of training samples, one panel for each schedule (GD-1 figure 5, GD-2 figure 3 e-h).

    Args:
        table: runs of the curriculum template, of one setting and any number of seeds; the band spans one standard deviation over them.
        column: ``group_confidence`` (each run's own groups) or ``reference_group_confidence`` (the same samples in every run).
        columns: panels in a row.

    Returns:
        The figure.
    """
    labels = list(dict.fromkeys(table["schedule"]))
    figure, panels = _panels(len(labels), columns, width=2.9, height=2.8)
    shades = sns.color_palette("viridis", 5)
    for panel, label in zip(panels, labels, strict=False):
        runs = table[table["schedule"] == label]
        values = np.array(runs[column].tolist(), dtype=float)  # (seeds, groups, epochs)
        epochs = np.array(runs["curve_epoch"].iloc[0])
        for group in reversed(range(values.shape[1])):
            mean = values[:, group].mean(0)
            name = {0: "1 (hardest)", 4: "5 (easiest)"}.get(group, str(group + 1))
            panel.plot(epochs, mean, color=shades[group], linestyle=_GROUP_LINES[group], label=name)
            if len(values) > 1:
                spread = values[:, group].std(0, ddof=1)
                panel.fill_between(epochs, mean - spread, mean + spread, color=shades[group], alpha=0.2, linewidth=0)
        panel.set(title=schedule_label(str(label)), xlabel="epoch", ylim=(0, 1.02))
    for panel in panels[::columns]:
        panel.set_ylabel("mean confidence")
    figure.legend(*panels[0].get_legend_handles_labels(), title="fifth of the samples", loc="outside lower center", ncols=5)
    return figure


def single_samples(table: pd.DataFrame, *, columns: int = 3) -> Figure:
    """Confidence of single training samples, one panel for each schedule (GD-1 figure 4, GD-2 figure 3 a-d).

    Only the first seed of the table is drawn. The samples are the same in every panel, and numbered from the hardest one of the
    reference run on.
    """
    table = table[table["seed"] == table["seed"].min()]
    labels = list(dict.fromkeys(table["schedule"]))
    figure, panels = _panels(len(labels), columns, width=3.2, height=2.8)
    for panel, label in zip(panels, labels, strict=False):
        run = table[table["schedule"] == label].iloc[0]
        values = np.array(run["single_confidence"], dtype=float)  # (samples, epochs)
        shades = sns.color_palette("viridis", len(values))
        for index, (shade, curve) in enumerate(zip(shades, values, strict=True)):
            panel.plot(
                run["curve_epoch"],
                curve,
                color=shade,
                linewidth=1.2,
                linestyle=_GROUP_LINES[index % 4],
                label=str(index + 1),
            )
        panel.set(title=schedule_label(str(label)), xlabel="epoch", ylim=(-0.02, 1.02))
    for panel in panels[::columns]:
        panel.set_ylabel("confidence $p_c$")
    figure.legend(
        *panels[0].get_legend_handles_labels(), title="sample, from the hardest (1) to the easiest", loc="outside lower center", ncols=6
    )
    return figure


def feature_planes(table: pd.DataFrame, *, columns: int = 3) -> Figure:
    """Two-dimensional features of test samples, first seed, one panel for each schedule (GD-1 figure 1, GD-2 figure 1)."""
    table = table[table["seed"] == table["seed"].min()]
    labels = list(dict.fromkeys(table["schedule"]))
    figure, panels = _panels(len(labels), columns, width=3.1, height=3.1)
    shades = sns.color_palette("colorblind", 10)
    for panel, label in zip(panels, labels, strict=False):
        points = table[table["schedule"] == label].iloc[0]["points"]
        x, y, classes = (np.array(points[name]) for name in ("x", "y", "label"))
        for index in np.unique(classes):
            chosen = classes == index
            panel.scatter(
                x[chosen],
                y[chosen],
                s=14,
                color=shades[index % 10],
                marker=_CLASS_MARKERS[index % 10],
                label=str(index),
                alpha=0.8,
                linewidths=0.6,
            )
        panel.set(title=schedule_label(str(label)), xlabel="feature 1")
        panel.locator_params(nbins=5)
    for panel in panels[::columns]:
        panel.set_ylabel("feature 2")
    figure.legend(
        *panels[0].get_legend_handles_labels(), title="class", loc="outside lower center", ncols=10, handletextpad=0.1, columnspacing=0.8
    )
    return figure


_GROUP_LINES = ("-", "--", "-.", ":", "-")
_CLASS_MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "*")


def _panels(count: int, columns: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A grid of panels that share their scale in y; the ones that are not needed are hidden."""
    rows = -(-count // columns)
    figure, grid = plt.subplots(
        rows, min(columns, count), figsize=(width * min(columns, count), height * rows + 0.7), squeeze=False, layout="constrained"
    )
    panels = list(grid.flat)
    for panel in panels[count:]:
        panel.set_visible(False)
    return figure, panels


def differences(frame: pd.DataFrame, *, xlabel: str, ax: Axes | None = None) -> Axes:
    """Differences with their intervals, one row for each, and a line at 0.

    Args:
        frame: columns ``label``, ``mean``, ``low``, ``high``, and optionally ``color``.
        xlabel: label of the horizontal axis, with its unit.
        ax: axes to draw in; new ones by default.

    Returns:
        The axes; the first row of the frame is at the top.
    """
    ax = plt.subplots(figsize=(7.0, 0.32 * len(frame) + 1.0))[1] if ax is None else ax
    rows = np.arange(len(frame))[::-1]
    shades = frame["color"] if "color" in frame else ["#000000"] * len(frame)
    for row, shade, (_, line) in zip(rows, shades, frame.iterrows(), strict=True):
        ax.plot([line["low"], line["high"]], [row, row], color=shade, linewidth=2)
        ax.plot(line["mean"], row, "o", color=shade, markersize=5)
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set(yticks=rows, yticklabels=frame["label"], xlabel=xlabel, ylim=(-0.7, len(frame) - 0.3))
    ax.grid(axis="y", visible=False)
    return ax


def confidence_counts(table: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Training samples in 20 intervals of the confidence, on a logarithmic scale: one line for each schedule, mean over the seeds."""
    ax = plt.subplots()[1] if ax is None else ax
    for label, runs in table.groupby("schedule", sort=False):
        counts = np.array(runs["confidence_histogram"].tolist(), dtype=float).mean(0)
        edges = np.linspace(0, 1, len(counts) + 1)
        ax.stairs(
            counts,
            edges,
            color=schedule_color(str(label)),
            linestyle=schedule_linestyle(str(label)),
            label=schedule_label(str(label)),
            linewidth=1.6,
        )
    ax.set(xlabel="confidence $p_c$", ylabel="training samples", yscale="log", xlim=(0, 1))
    ax.legend(ncols=2)
    return ax


def against_beta(
    table: pd.DataFrame, column: str, *, ylabel: str, published: pd.DataFrame | None = None, log: bool = True, ax: Axes | None = None
) -> Axes:
    """A number against β, one curve for each reading: mean over the seeds with its 95 % Student interval where there are several.

    Args:
        table: runs with ``reading``, ``beta``, ``seed`` and ``column``; warm-ups are left out.
        column: what to draw.
        ylabel: label of the vertical axis.
        published: the papers' values, with columns ``beta`` and ``value``; drawn in black.
        log: logarithmic vertical axis.
        ax: axes to draw in; new ones by default.
    """
    ax = plt.subplots()[1] if ax is None else ax
    table = table[table["warmup_epochs"] == 0]
    for index, (reading, runs) in enumerate(table.groupby("reading")):
        by_beta = [(float(str(beta)), group[column].astype(float)) for beta, group in runs.groupby("beta")]
        betas = [beta for beta, _ in by_beta]
        means = [values.mean() for _, values in by_beta]
        bars = [statistics.t_interval(values) if len(values) > 1 else None for _, values in by_beta]
        spread = [[m - b.low if b else 0.0, b.high - m if b else 0.0] for m, b in zip(means, bars, strict=True)]
        line = _READING_LINES[index % len(_READING_LINES)]
        ax.errorbar(betas, means, yerr=np.array(spread).T, label=f"{reading} ({runs['seed'].nunique()})", capsize=2, markersize=5, **line)
    if published is not None:
        values = published.sort_values("beta")
        ax.plot(values["beta"].astype(float), values["value"], "k*-", markersize=10, label="the papers (1)")
    ax.set(xscale="log", xlabel="β", ylabel=ylabel, yscale="log" if log else "linear")
    ax.legend(title="reading (seeds)", fontsize="small", bbox_to_anchor=(1.01, 1), loc="upper left")
    return ax


def curves_by_reading(
    table: pd.DataFrame, y: str, *, ylabel: str, readings: list[str], x: str = "epoch", log: bool = False, columns: int = 2
) -> Figure:
    """:func:`curves` in one panel for each reading, with one legend."""
    figure, panels = _panels(len(readings), columns, width=4.2, height=3.2)
    for panel, reading in zip(panels, readings, strict=False):
        curves(table[table["reading"] == reading], y, ylabel=ylabel, x=x, ax=panel, legend=False)
        panel.set(title=reading, yscale="log" if log else "linear")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def differences_by_reading(
    table: pd.DataFrame, column: str, *, reference: str, xlabel: str, scale: float = 1.0, columns: int = 2
) -> Figure:
    """Paired differences of every schedule to a reference, with 95 % Student intervals, one panel for each reading."""
    readings = sorted(table["reading"].unique())
    labels = [label for label in dict.fromkeys(table["schedule"]) if label != reference]
    figure, panels = _panels(len(readings), columns, width=4.2, height=0.3 * len(labels) + 0.9)
    for panel, reading in zip(panels, readings, strict=False):
        runs = table[table["reading"] == reading].set_index(["schedule", "seed"])[column].astype(float) * scale
        rows = []
        for label in labels:
            seeds = runs.loc[label].index.intersection(runs.loc[reference].index)
            found = statistics.paired_difference(runs.loc[label].loc[seeds], runs.loc[reference].loc[seeds])
            rows.append((schedule_label(label), found.mean, found.interval.low, found.interval.high, schedule_color(label)))
        differences(pd.DataFrame(rows, columns=["label", "mean", "low", "high", "color"]), xlabel=xlabel, ax=panel)
        panel.set_title(reading)
    return figure


_READING_LINES = tuple(
    {"color": color, "marker": marker, "linestyle": "-"}
    for color, marker in zip(sns.color_palette("colorblind", 9), ("o", "s", "^", "v", "D", "P", "X", "<", ">"), strict=True)
)


def outcome_plane(table: pd.DataFrame, x: str, y: str, *, xlabel: str, ylabel: str, ax: Axes | None = None) -> Axes:
    """Two outcomes against each other, means over the seeds; a line joins the temperatures of one β, the smallest one is marked."""
    ax = plt.subplots()[1] if ax is None else ax
    for beta, runs in table.groupby("beta", sort=False):
        means = runs.groupby("temperature")[[x, y]].mean().sort_index()
        value = float(str(beta))
        color = beta_color(value)
        ax.plot(means[x], means[y], marker="o", label=beta_label(value), color=color, linestyle=beta_linestyle(value))
        ax.plot(means[x].iloc[0], means[y].iloc[0], marker="o", markersize=11, markerfacecolor="none", color=color)
        for tau, row in means.iterrows():
            ax.annotate(f"τ = {tau:g}", (row[x], row[y]), textcoords="offset points", xytext=(6, 4), fontsize="x-small")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.legend()
    return ax
