"""Reliability diagrams, and accuracy against calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gdlib.calibration import CalibrationBins
from study.figures.style import MARKERS, not_run, one_legend, panels, schedule_style
from study.methods import method_name


def reliability_diagrams(table: pd.DataFrame) -> Figure:
    """Draw reliability diagrams with the share of the images in each bin.

    There is a panel for each schedule and variant (GD-2 figures 6 and 9 to 13).

    The bins of all seeds are pooled. The seeds share their test images, so that the Wilson
    intervals are those of one test set: of the mean count over the seeds. A bin without images in
    it has no bar.
    """
    if table.empty:
        return not_run()
    figure, drawn = panels(table, ("schedule", "variant"), height=2.2, sharex=True, sharey=True)
    for ax, runs in drawn:
        if len(runs):
            _diagram(
                ax,
                *_pooled(runs["reliability"]),
                color=schedule_style(str(runs["schedule"].iloc[0]))["color"],
            )
            error = f"ECE {100 * runs['test_ece'].mean():.1f} %"
            ax.text(0.04, 0.95, error, va="top", fontsize="small")
        else:
            ax.set_visible(False)
    shown = {
        (spec.rowspan.start, spec.colspan.start): ax
        for ax, runs in drawn
        if len(runs) and (spec := ax.get_subplotspec())
    }
    for (row, column), ax in shown.items():  # the outermost ones that are there say what is drawn
        left, bottom = (
            min(at for of, at in shown if of == row) == column,
            max(of for of, at in shown if at == column) == row,
        )
        ax.set(ylabel="accuracy" if left else "", xlabel="confidence" if bottom else "")
        ax.tick_params(labelleft=left, labelbottom=bottom)
    one_legend(figure, [ax for ax, _ in drawn], ncols=2)
    return figure


def accuracy_against_calibration(table: pd.DataFrame) -> Figure:
    """Draw test accuracy against the expected calibration error, a mark for each loss.

    The marks are means with bars of a standard deviation.

    A filled mark is over-confident (mean confidence above accuracy), an open one under-confident.
    Up and to the left is better.
    """
    if table.empty:
        return not_run()
    marks = dict(zip(dict.fromkeys(table["schedule"]), MARKERS, strict=False))
    figure, drawn = panels(
        table, "variant", height=3.0, xlabel="test ECE, %", ylabel="test accuracy, %"
    )
    for ax, of_panel in drawn:
        for label, runs in of_panel.groupby("schedule", sort=False):
            metrics = runs[["test_ece", "test_accuracy"]]
            mean, spread = 100 * metrics.mean(), 100 * metrics.std()
            bars: dict[str, Any] = (
                {"xerr": spread["test_ece"], "yerr": spread["test_accuracy"], "elinewidth": 0.8}
                if len(runs) > 1
                else {}
            )
            color = schedule_style(str(label))["color"]
            fill = color if runs["overconfidence"].mean() > 0 else "white"
            look: dict[str, Any] = {
                "fmt": marks[label],
                "color": color,
                "markerfacecolor": fill,
                "markersize": 6,
            }
            ax.errorbar(
                mean["test_ece"],
                mean["test_accuracy"],
                **bars,
                **look,
            )
            # the legend has every mark filled: whether it is depends on the panel
            ax.plot([], [], marks[label], color=color, label=method_name(str(label)))
        ax.set_xlim(left=0)
    one_legend(figure, [ax for ax, _ in drawn], ncols=3)
    return figure


def _pooled(bins: pd.Series[Any]) -> tuple[CalibrationBins, int]:
    """Pool the bins of several seeds, and count the seeds."""
    each = pd.concat([pd.DataFrame(columns, dtype=float) for columns in bins])
    sums = each[["confidence", "accuracy"]].mul(
        each["count"], axis=0
    )  # the missing means of an empty bin add nothing
    pooled = sums.assign(count=each["count"]).groupby(each["upper"]).sum()
    upper, count = pooled.index.to_numpy(), pooled["count"].to_numpy()
    confidence, accuracy = (
        (pooled[name] / pooled["count"]).to_numpy() for name in ("confidence", "accuracy")
    )
    return CalibrationBins(
        np.append(0.0, upper[:-1]), upper, count.astype(np.int64), confidence, accuracy
    ), len(bins)


def _diagram(ax: Axes, bins: CalibrationBins, seeds: int, *, color: str) -> None:
    """Draw the accuracy of each bin as a bar with its interval.

    The gap to its mean confidence is drawn too, and the share of the images as steps.
    """
    from statsmodels.stats.proportion import (
        proportion_confint,
    )  # here, since it takes a second to import

    filled = bins.count > 0
    left, width, accuracy, gap = (
        bins.lower[filled],
        (bins.upper - bins.lower)[filled],
        bins.accuracy[filled],
        bins.gap[filled],
    )
    ax.bar(
        left,
        accuracy,
        width,
        align="edge",
        color=color,
        alpha=0.55,
        edgecolor="white",
        linewidth=0.6,
    )
    box: dict[str, Any] = {
        "facecolor": "none",
        "edgecolor": "black",
        "linewidth": 0.0,
        "hatch": "/////",
    }
    ax.bar(
        left,
        gap,
        width,
        bottom=accuracy,
        align="edge",
        label="gap to the mean confidence of the bin",
        **box,
    )
    low, high = proportion_confint(
        accuracy * bins.count[filled] / seeds, bins.count[filled] / seeds, method="wilson"
    )
    spread = np.clip([accuracy - low, high - accuracy], 0, None)
    bars: dict[str, Any] = {
        "fmt": "none",
        "ecolor": "black",
        "elinewidth": 1,
        "capsize": 1.5,
        "label": "95 % Wilson interval",
    }
    ax.errorbar(left + width / 2, accuracy, yerr=spread, **bars)
    edges = np.append(bins.lower, bins.upper[-1])
    ax.stairs(bins.count / bins.n, edges, color="black", linewidth=1.2, label="share of the images")
    ax.plot([0, 1], [0, 1], color="0.4", linewidth=0.9, linestyle=":", label="calibrated")
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
