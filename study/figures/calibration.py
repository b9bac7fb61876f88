"""Calibration and accuracy of image networks: outcomes against β, reliability diagrams, post-hoc methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullLocator

from gdlib.calibration import CalibrationBins
from study import published, statistics
from study.figures.style import in_lines, means_with_intervals, not_run, one_legend, reading_styles, schedule_color, schedule_label

Relative = Literal["difference", "count"] | None

# the columns of a record by what was done to the probabilities after training
_POST_HOC: Mapping[str, tuple[str, dict[str, Any]]] = {
    "": ("as trained", {"color": "#444444", "marker": "o", "linestyle": "-"}),
    "_link": ("β link", {"color": "#d55e00", "marker": "D", "linestyle": ":"}),
    "_temperature": ("temperature scaling", {"color": "#0072b2", "marker": "s", "linestyle": "--"}),
    "_vector": ("vector scaling", {"color": "#009e73", "marker": "^", "linestyle": "-."}),
}
_PAPERS = [{"marker": marker, "markersize": 8 if marker == "*" else 6} for marker in "*PXdv"]
_GAP = "#cc3311"


def outcomes_against_beta(
    table: pd.DataFrame,
    outcomes: Mapping[str, tuple[str, float, Relative]],
    *,
    printed: pd.DataFrame | None = None,
    across: str = "dataset",
) -> Figure:
    """Several outcomes against β: means over the seeds with 95 % Student intervals, a line for each reading.

    With several data sets there is a column of panels for each, with one data set the outcomes stand in two columns. Warm-ups are left out.

    Args:
        table: runs with ``dataset``, ``variant``, ``beta``, ``seed`` and the outcomes.
        outcomes: for each column of the table the label of its axis, a factor, and ``"difference"`` to draw it less its value at β = 1, or
            ``"count"`` for an axis that is logarithmic above 10 and has a 0.
        printed: the papers' values, with ``dataset`` (as the papers spell it), ``model``, ``outcome``, ``beta``, ``value``; in grey.
        across: the column whose values have a column of panels each, if not the data set.
    """
    if table.empty:
        return not_run()
    table = table[table["warmup_epochs"] == 0]
    table = table.assign(across=table[across].map(lambda name: published.DATASETS.get(name, name)))
    datasets = list(dict.fromkeys(table["across"]))
    styles = reading_styles(dict.fromkeys(table["variant"]))
    if printed is not None:
        printed = printed[printed["dataset"].isin(datasets) & printed["outcome"].isin(list(outcomes)) & printed["beta"].notna()]
    networks = list(dict.fromkeys(printed["model"])) if printed is not None else []
    columns = len(datasets) if len(datasets) > 1 else min(2, len(outcomes))
    rows = -(-len(outcomes) * len(datasets) // columns)
    size, sharey = (3.3 * columns + 0.2, 2.2 * rows + 1.0), "none" if across == "dataset" else "row"
    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, sharex="col", sharey=sharey)
    unused = list(panels.flat)
    for column, (label, scale, relative) in outcomes.items():
        for dataset in datasets:
            panel = unused.pop(0)
            here = table[table["across"] == dataset]
            for reading, runs in here.groupby("variant", sort=False):
                if column in runs and runs[column].notna().any():
                    values = _relative(runs.pivot_table(index="seed", columns="beta", values=column) * scale, relative)
                    means_with_intervals(panel, values, label=f"{reading} ({runs['seed'].nunique()})", **styles[str(reading)])
            if printed is not None:
                theirs = printed[(printed["dataset"] == dataset) & (printed["outcome"] == column)]
                for (paper, model), series in theirs.groupby(["paper", "model"], sort=False):
                    values = _relative(series.set_index("beta")[["value"]].sort_index().T * scale, relative)
                    mark = _PAPERS[networks.index(str(model)) % len(_PAPERS)]
                    style = {"color": "0.55" if paper == "GD-2" else "0.75", "linestyle": ":", "linewidth": 1.2}
                    panel.plot(values.columns, values.iloc[0], label=f"{paper}, {model}", **style, **mark)
            if relative == "count":
                panel.set_yscale("symlog", linthresh=10)
            if relative == "difference" or column == "overconfidence":
                panel.axhline(0, color="0.3", linewidth=0.9, zorder=0)
            if dataset == datasets[0]:
                panel.set_ylabel(label)
            if len(datasets) > 1 and column == next(iter(outcomes)):
                panel.set_title(dataset)
            _beta_axis(panel)
    for panel in unused:
        panel.set_visible(False)
    for panel in panels.flat:
        if panel.get_yscale() == "symlog":
            panel.set_ylim(bottom=0)  # once every line of the row is drawn
    for panel in panels[-1]:
        panel.set_xlabel("β")
    one_legend(figure, panels.flat, title="variant (seeds)", ncols=1)
    return figure


def reliability_diagrams(table: pd.DataFrame, *, readings: Sequence[str], schedules: Sequence[str]) -> Figure:
    """Confidence histograms above reliability diagrams (GD-2 figures 6 and 9 to 13): a row for each β, a column for each reading.

    The bins of all seeds are pooled. The seeds share their test images, so that the Wilson intervals and the printed counts are those of
    one test set: the mean count over the seeds. A bin without images in it has no bar.
    """
    if table.empty:
        return not_run()
    rows, columns = len(schedules), len(readings)
    size = (2.25 * columns + 0.5, 2.75 * rows + 0.7)
    ratios = [1.0, 1.7] * rows
    figure, panels = plt.subplots(2 * rows, columns, figsize=size, squeeze=False, sharex=True, sharey="row", height_ratios=ratios)
    layout = figure.get_layout_engine()
    if isinstance(layout, ConstrainedLayoutEngine):
        layout.set(h_pad=0.02, hspace=0.01)
    tallest = 0.0
    for row, schedule in enumerate(schedules):
        for column, reading in enumerate(readings):
            upper, lower = panels[2 * row, column], panels[2 * row + 1, column]
            runs = table[(table["variant"] == reading) & (table["schedule"] == schedule)]
            if runs.empty:
                upper.set_visible(False)
                lower.set_visible(False)
                continue
            bins, seeds = _pooled(runs["reliability"])
            color = schedule_color(schedule)
            tallest = max(tallest, _histogram(upper, bins, seeds, color))
            _diagram(lower, bins, seeds, color)
            error = 100 * runs["test_ece"].mean()
            lower.text(
                0.04, 0.95, f"ECE {error:.1f} %", va="top", fontsize="small", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1}
            )
            heading = schedule_label(schedule)
            upper.set_title(f"{in_lines(reading)}\n{heading}" if row == 0 else heading, fontsize="small")
    for panel in panels[0::2, 0]:
        panel.set(ylim=(0, 1.5 * tallest), yticks=[tick for tick in (0, 20, 40, 60, 80, 100) if tick <= max(20, tallest)])
        panel.set_ylabel("images (%)", fontsize="small")
    for panel in panels[1::2, 0]:
        panel.set_ylabel("accuracy", fontsize="small")
    for panel in panels[-1]:
        panel.set_xlabel("confidence", fontsize="small")
    for panel in panels.flat:
        panel.tick_params(labelsize="small", pad=1)
    one_legend(figure, panels.flat, ncols=2 if columns > 2 else 1)
    return figure


def post_hoc(table: pd.DataFrame, measure: str, *, ylabel: str, readings: Sequence[str], scale: float = 1.0) -> Figure:
    """A test measure against β as trained, after the β link, and after temperature and vector scaling; a panel for each reading.

    Means over the seeds with 95 % Student intervals; warm-ups are left out.
    """
    if table.empty:
        return not_run()
    table = table[table["warmup_epochs"] == 0]
    columns = min(2, len(readings))
    rows = -(-len(readings) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(3.2 * columns + 0.3, 2.7 * rows + 0.6), squeeze=False)
    for panel, reading in zip(panels.flat, readings, strict=False):
        runs = table[table["variant"] == reading]
        for suffix, (label, style) in _POST_HOC.items():
            column = f"{measure}{suffix}"
            if column in runs and runs[column].notna().any():
                means_with_intervals(panel, runs.pivot_table(index="seed", columns="beta", values=column) * scale, label=label, **style)
        panel.set_title(in_lines(reading), fontsize="small")
        lowest = min(float(np.min(line.get_ydata())) for line in panel.get_lines())
        panel.set_ylim(bottom=0 if lowest >= 0 else None)
        panel.axhline(0, color="0.3", linewidth=0.9, zorder=0)
        _beta_axis(panel)
    for panel in list(panels.flat)[len(readings) :]:
        panel.set_visible(False)
    for panel in list(panels.flat)[: len(readings)][-columns:]:
        panel.set_xlabel("β")
    for panel in panels[:, 0]:
        panel.set_ylabel(ylabel)
    one_legend(figure, panels.flat, ncols=2)
    return figure


def _relative(values: pd.DataFrame, relative: Relative) -> pd.DataFrame:
    """Values by seed and β, as they are or less those at β = 1; nothing if there is no β = 1."""
    if relative != "difference":
        return values
    return values.sub(values[1.0], axis=0) if 1.0 in values else values.iloc[:, :0]


def _beta_axis(panel: Axes) -> None:
    """A logarithmic axis with a label at every β that is drawn."""
    drawn = sorted({float(beta) for line in panel.get_lines() for beta in np.asarray(line.get_xdata(), dtype=float).flat if beta > 0})
    panel.set_xscale("log")
    panel.set_xticks(drawn, [f"{beta:g}" for beta in drawn], fontsize="small")
    panel.xaxis.set_minor_locator(NullLocator())


def _pooled(bins: pd.Series[Any]) -> tuple[CalibrationBins, int]:
    """The bins of several seeds as one, and how many seeds there are."""
    each = [CalibrationBins.from_dict(columns) for columns in bins]
    count = np.sum([own.count for own in each], axis=0)
    with np.errstate(invalid="ignore"):
        confidence, accuracy = (
            np.sum([own.count * np.nan_to_num(getattr(own, name)) for own in each], axis=0) / count for name in ("confidence", "accuracy")
        )
    return CalibrationBins(each[0].lower, each[0].upper, count, confidence, accuracy), len(each)


def _histogram(panel: Axes, bins: CalibrationBins, seeds: int, color: str) -> float:
    """The share of the images in each bin with their number above it, and the mean confidence and accuracy as lines; the largest share."""
    share = 100 * bins.count / bins.n
    width = bins.upper - bins.lower
    panel.bar(bins.lower, share, width, align="edge", color=color, alpha=0.55, edgecolor="white", linewidth=0.6)
    accuracy = float(np.nansum(bins.count * bins.accuracy) / bins.n)
    panel.axvline(accuracy, color="black", linewidth=1.2, label="accuracy of all images")
    panel.axvline(accuracy + bins.overconfidence, color="black", linewidth=1.2, linestyle=(0, (2, 1.5)), label="their mean confidence")
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85}
    for left, wide, height, count in zip(bins.lower, width, share, bins.count, strict=True):
        if count:
            number = f"{count / seeds:,.0f}".replace(",", "\u2009") if count >= seeds else "<1"
            panel.annotate(
                *(number, (left + wide / 2, height)),
                xytext=(0, 2),
                textcoords="offset points",
                rotation=90,
                ha="center",
                va="bottom",
                fontsize="x-small",
            ).set_bbox(paper)
    panel.set(xlim=(0, 1))
    return float(share.max())


def _diagram(panel: Axes, bins: CalibrationBins, seeds: int, color: str) -> None:
    """The accuracy of each bin as a bar with its interval, and the gap to its mean confidence."""
    found = bins.count > 0
    left, width, accuracy, gap = bins.lower[found], (bins.upper - bins.lower)[found], bins.accuracy[found], bins.gap[found]
    panel.bar(left, accuracy, width, align="edge", color=color, alpha=0.55, edgecolor="white", linewidth=0.6)
    box: dict[str, Any] = {"facecolor": "none", "edgecolor": _GAP, "linewidth": 0.0, "hatch": "/////"}
    panel.bar(left, gap, width, bottom=accuracy, align="edge", label="gap to the mean confidence of the bin", **box)
    counts = bins.count[found] / seeds
    low, high = statistics.wilson_interval(accuracy * counts, counts)
    spread = np.clip([accuracy - low, high - accuracy], 0, None)
    panel.errorbar(
        left + width / 2, accuracy, yerr=spread, fmt="none", ecolor="black", elinewidth=1, capsize=1.5, label="95 % Wilson interval"
    )
    panel.plot([0, 1], [0, 1], color="0.4", linewidth=0.9, linestyle=":", label="calibrated")
    panel.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
