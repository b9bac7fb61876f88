"""Outcomes against β or another column, and differences beside each other, with the papers' own."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from study import statistics
from study.claims.compare import VariantRuns
from study.figures.style import (
    grid,
    in_lines,
    not_run,
    one_legend,
    schedule_style,
    variant_styles,
)
from study.methods import Method, method_name
from study.statistics import Interval
from study.variants import DATASETS, Variant

Outcome = tuple[str, float, Literal["difference", "log", "count"] | None]
"""The label of an axis, a factor, and how the outcome is drawn.

It is drawn minus that of β = 1, or on an axis that is logarithmic (with a 0).
"""

AFTER = {
    "": "as trained",
    "_link": "β link",
    "_temperature": "temperature scaling",
    "_vector": "vector scaling",
}
"""What is done to the probabilities after training, by the ending of the columns of the records."""

_PAPERS = {"GD-1": ("x:", "0.6"), "GD-2": (".:", "0.45")}  # mark and line, grey


def against(
    table: pd.DataFrame,
    outcomes: Mapping[str, Outcome],
    *,
    x: str = "beta",
    line: str = "variant",
    panel: str = "",
    papers: pd.DataFrame | None = None,
    whole: pd.DataFrame | None = None,
) -> Figure:
    """Draw outcomes against β or another column; warm-ups are left out.

    Drawn are means over the seeds with 95 % Student intervals.

    Args:
        table: runs with ``seed``, the columns that are named here, and the outcomes.
        outcomes: for each column of the table how it is drawn, a row of panels each if there are
            several panels, else a panel each.
        x: the horizontal axis, logarithmic if its values span more than a factor of 5.
        line: a line for each of its values, with the number of seeds where it differs from line to
            line.
        panel: a panel for each of its values, with one outcome in each.
        papers: what they print for the same data sets, as :func:`study.published.printed` gives it,
            in grey, a line for each network.
        whole: all runs of the variants, where ``table`` has a part of them: their deviation is that
            of the differences.
    """
    if table.empty:
        return not_run()
    whole = table if whole is None else whole
    table = table[~(table["warmup_epochs"] > 0)] if "warmup_epochs" in table else table
    names = list(dict.fromkeys(table[panel])) if panel else [""]
    columns = len(names) if len(names) > 1 < len(outcomes) else min(2, len(names) * len(outcomes))
    counts = any(how == "count" for _, _, how in outcomes.values())
    figure, axes = grid(
        len(names) * len(outcomes),
        columns,
        width=7.0 / max(columns, 1.6),
        height=2.3 if columns > 1 else 3.0,
        sharey="row" if counts else "none",
    )
    styles = variant_styles(dict.fromkeys(map(str, table[line])))
    seeds = table.groupby(line)["seed"].nunique()
    counted = "counted" in table and table["counted"].any()  # behind their names
    uneven = seeds.nunique() > 1 and not counted
    labels = {
        name: method_name(str(name)) + (f" ({number})" if uneven else "")
        for name, number in seeds.items()
    }
    for index, (ax, (column, name)) in enumerate(
        zip(axes, itertools.product(outcomes, names), strict=False)
    ):
        label, scale, how = outcomes[column]
        here = table[table[panel] == name] if panel else table
        for value, runs in here.groupby(line, sort=False):
            if column in runs and runs[column].notna().any():
                drawn = (
                    _to_one(runs, column, whole[whole["variant"].isin(runs["variant"])])
                    if how == "difference"
                    else _means(runs, column, x)
                )
                _intervals(ax, drawn, scale, label=labels[value], **styles[str(value)])
        for paper, series in _lines_of(papers, here, column) if papers is not None else ():
            printed = _relative(series * scale, how)
            marker_and_line, grey = _PAPERS[paper]
            ax.plot(
                printed.columns,
                printed.iloc[0],
                marker_and_line,
                color=grey,
                linewidth=1.2,
                markersize=5,
                label=paper,
            )
        if how == "log":
            ax.set_yscale("log")
        elif how == "count":
            ax.set_yscale("symlog", linthresh=10)
        if index % columns == 0 or len(names) == 1:
            ax.set_ylabel(label)
        if name and index < len(names):
            ax.set_title(in_lines(name), fontsize="small")
        _axis(ax, x, titled=index >= len(names) * len(outcomes) - columns)
        if how == "difference" or column == "overconfidence":
            ax.axhline(0, color="0.3", linewidth=0.9, zorder=0)
    for ax in axes:
        if ax.get_yscale() == "symlog":
            ax.set_ylim(bottom=0)  # once every line of the row is drawn
    one_legend(
        figure,
        axes,
        title=f"{line} (seeds)" if uneven else None,
        ncols=2 if len(styles) > 3 and max(map(len, styles)) < 30 else 1,
    )
    return figure


def beside(frame: pd.DataFrame, *, xlabel: str, zero: bool = True, columns: int = 2) -> Figure:
    """Draw numbers with their intervals.

    There is a row for each ``label``, in it a mark for each ``source``.

    Args:
        frame: ``panel``, ``label``, ``mean``, and ``low`` and ``high``, which may be NaN. Sources
            that are not ``ours`` are black: stars, plus signs and crosses in turn. Without
            ``source`` a mark has the colour of its ``schedule``.
        xlabel: what is shown, with its unit.
        zero: whether there is a line at 0.
        columns: how many panels there are in a row.
    """
    if frame.empty:
        return not_run()
    sourced = "source" in frame
    names, labels, sources = (
        list(dict.fromkeys(frame[column]))
        for column in ("panel", "label", "source" if sourced else "schedule")
    )
    columns, places = min(columns, len(names)), len(sources) if sourced else 1
    height = (0.13 * places + 0.12) * len(labels) + 0.5
    figure, axes = grid(len(names), columns, width=7.0 / columns, height=height, sharey=True)
    ours = variant_styles(dict.fromkeys(frame.loc[frame["ours"], "source"]) if sourced else sources)
    for index, (panel, name) in enumerate(zip(axes, names, strict=False)):
        for place, source in enumerate(sources):
            marks = frame[
                (frame["panel"] == name) & (frame["source" if sourced else "schedule"] == source)
            ]
            marks = marks.set_index("label").reindex(labels)
            if marks["mean"].isna().all():
                continue
            style = ours.get(
                source, {"color": "black", "marker": ("*", "P", "X")[place % 3], "markersize": 7}
            ) | {"linestyle": "none"}
            if not sourced:
                style |= {"color": schedule_style(source)["color"], "marker": "o"}
            rows = 0.8 * (0.5 - (place % places + 0.5) / places) - np.arange(len(labels))
            half = [marks["mean"] - marks["low"], marks["high"] - marks["mean"]]
            panel.errorbar(
                marks["mean"],
                rows,
                xerr=half,
                label=source,
                **({"markersize": 5, "elinewidth": 1.4} | style),
            )
        if zero:
            panel.axvline(0, color="0.4", linewidth=1)
        for row in range(1, len(labels)):
            panel.axhline(0.5 - row, color="0.9", linewidth=0.8)
        panel.set(yticks=-np.arange(len(labels)), yticklabels=labels, ylim=(0.5 - len(labels), 0.5))
        panel.set(xlabel=xlabel if index >= len(names) - columns else "")
        panel.set_title(in_lines(name), fontsize="small")
        panel.grid(axis="y", visible=False)
    if sourced:
        one_legend(figure, axes, ncols=2)
    return figure


def _lines_of(
    papers: pd.DataFrame, runs: pd.DataFrame, metric: str
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Give what the papers print for a constant β on the data sets of the runs.

    Each item is the paper, and a row for each of its networks.
    """
    here = papers["dataset"].isin(runs["dataset"].map(DATASETS)) & (papers["metric"] == metric)
    here &= papers["condition"].eq("") & papers["paper"].isin(list(_PAPERS))
    constant = papers[here].assign(beta=papers["method"].map(lambda method: method.beta))
    groups = constant.dropna(subset="beta").groupby(["paper", "dataset", "model"], sort=False)
    for (paper, *_), series in groups:
        # a network that stands in two tables has its values twice
        yield str(paper), series.groupby("beta")[["value"]].first().T


def _relative(values: pd.DataFrame, how: str | None) -> pd.DataFrame:
    """Give values by seed and β, as they are or minus those at β = 1; nothing without β = 1."""
    if how != "difference":
        return values
    return values.sub(values[1.0], axis=0) if 1.0 in values else values.iloc[:, :0]


def _means(runs: pd.DataFrame, column: str, x: str) -> dict[float, Interval]:
    """Average the runs at each value of the axis, with an interval where there are several."""
    intervals = {}
    for value, here in runs.dropna(subset=column).groupby(x):
        numbers = here.groupby("seed")[column].mean()
        mean = float(numbers.mean())
        one = Interval(mean, mean, mean)
        place = float(cast(float, value))
        intervals[place] = statistics.t_interval(numbers) if len(numbers) > 1 else one
    return intervals


def _to_one(
    runs: pd.DataFrame, column: str, whole: pd.DataFrame | None = None
) -> dict[float, Interval]:
    """Estimate the difference of each constant β to β = 1; nothing if there is no β = 1."""
    constant = runs.assign(method=runs["beta"].map(Method.of_beta))
    variant = VariantRuns(Variant(), constant, whole=whole)
    methods, plain = list(variant.means(column)), Method.of_beta(1.0)
    intervals = {1.0: Interval(0.0, 0.0, 0.0)} if plain in methods else {}
    for method in methods:
        if method.beta is None or method == plain:
            continue
        if interval := variant.interval(column, method, plain):
            intervals[method.beta] = interval
    return dict(sorted(intervals.items()))


def _intervals(ax: Axes, drawn: Mapping[float, Interval], scale: float, **style: Any) -> None:
    """Draw numbers with their intervals."""
    numbers = np.array([[one.estimate, one.low, one.high] for one in drawn.values()], dtype=float)
    mean, low, high = scale * numbers.reshape(-1, 3).T
    ax.errorbar(
        np.array(list(drawn), dtype=float),
        mean,
        yerr=[mean - low, high - mean],
        capsize=2,
        markersize=4.5,
        linewidth=1.4,
        elinewidth=1,
        **style,
    )


def _axis(ax: Axes, x: str, *, titled: bool) -> None:
    """Label an axis at the values of the runs, from the largest.

    The papers' values have a label where there is room; the axis is logarithmic where they span
    much.
    """
    drawn = sorted(
        {
            float(value)
            for line in ax.get_lines()
            for value in np.asarray(line.get_xdata(), dtype=float).flat
        }
    )
    with_ratios = bool(drawn) and drawn[0] > 0
    if with_ratios and drawn[-1] > 5 * drawn[0]:
        ax.set_xscale("log")
    runs = {float(value) for container in ax.containers for value in container[0].get_xdata()}

    def place(value: float) -> float:
        return math.log(value) if with_ratios else value

    room = 0.1 * (place(drawn[-1]) - place(drawn[0])) if drawn else 0.0

    def has_room(value: float) -> bool:
        others, least = (
            ([other for other in runs if other > value], 0.8 * room)
            if value in runs
            else (runs, room)
        )
        return all(abs(place(value) - place(other)) > least for other in others)

    shown = list(filter(has_room, drawn))
    ax.set_xticks(
        shown, [f"{value:,g}".replace(",", "\u2009") for value in shown], fontsize="small"
    )
    ax.xaxis.set_minor_locator(NullLocator())
    if titled:
        ax.set_xlabel({"beta": "β", "temperature": "temperature τ"}.get(x, x))
