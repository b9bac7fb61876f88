"""What every figure of the book shares: sizes, a colour for each β, marks, and grids of panels."""

import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from study.figures import phone
from study.methods import Method, method_name

# ends and middle of the scale on log10 β in [-3, 1.7]; ColorBrewer-like blues and oranges, safe for
# the common colour deficiencies
_SMALL = LinearSegmentedColormap.from_list(
    "small beta", ["#74b3d8", "#3d8cc4", "#08519c", "#5e3c99"]
)
_LARGE = LinearSegmentedColormap.from_list("large beta", ["#f0a030", "#e66101", "#8c2d04"])
_WARMUPS = {0.001: "#009e73", 0.01: "#cc79a7"}  # by β at the start
_OTHER_WARMUPS = "#7f7f00"

# An order, from dark to light: no end is lost, neither on white nor turned on a dark page
_ORDER = LinearSegmentedColormap.from_list("order", sns.color_palette("viridis", 101)[:66])
LINES = ("-", "--", "-.", ":")


def use_style() -> None:
    """Set the fonts, grid and sizes that every figure of the book shares.

    Pictures have 200 dots an inch and are shown at half their size. In a notebook each has a
    second one for phones.
    """
    if shell := get_ipython():
        plt.switch_backend(mpl.get_backend())  # else Matplotlib's own pictures come later, for ours
        phone.register(shell.display_formatter)
        plt.uninstall_repl_displayhook()  # which draws each figure once before it is shown
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
    """Give the colour of a gradient-decay factor as a hex code.

    It is the same in every figure, and black for β = 1.
    """
    position = math.log10(beta)
    if abs(position) < 1e-9:
        return "#000000"
    if position < 0:
        return to_hex(_SMALL(min(1.0, -position / 3.0)))
    return to_hex(_LARGE(min(1.0, position / 1.7)))


def order_colors(count: int) -> list[str]:
    """Give so many colours from dark to light, for what has an order and is no β."""
    return [to_hex(_ORDER(place / max(count - 1, 1))) for place in range(count)]


def beta_linestyle(beta: float) -> str:
    """Give the line style of a gradient-decay factor: solid for β ≤ 1, dashed for β > 1."""
    return "--" if beta > 1 else "-"


def beta_label(beta: float) -> str:
    """Write the label of a β in a legend."""
    return f"β = {beta:g}"


def schedule_style(label: str) -> dict[str, str]:
    """Give colour and line of a method by its label.

    They are those of β for a constant one, its own for a loss, dash-dotted for a warm-up.
    """
    method = Method.named(label)
    if method is None or method.schedule != "constant":
        start = method.numbers[0] if method else 0.0
        return {"color": _WARMUPS.get(start, _OTHER_WARMUPS), "linestyle": "-."}
    if method.beta is not None:
        return {"color": beta_color(method.beta), "linestyle": beta_linestyle(method.beta)}
    return {"color": method.kind.color, "linestyle": method.kind.line}


def in_lines(text: str) -> str:
    r"""Break a long name after commas into lines of at most thirty characters.

    Example:
        >>> in_lines("cifar10, resnet18, unaugmented, 6,000 images"), in_lines("tanh-unit")
        ('cifar10, resnet18,\nunaugmented, 6,000 images', 'tanh-unit')
    """
    whole = re.sub("(?<!,) ", "\N{NO-BREAK SPACE}", text)
    return textwrap.fill(whole, 30, break_long_words=False, break_on_hyphens=False).replace(
        "\N{NO-BREAK SPACE}", " "
    )


def grid(
    count: int,
    columns: int,
    *,
    width: float,
    height: float,
    sharex: bool = False,
    sharey: bool | Literal["none", "row"] = False,
) -> tuple[Figure, list[Axes]]:
    """Make a grid of panels of a size in inches, row by row.

    Those of the last row that are not needed are hidden.
    """
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, panels = plt.subplots(
        *(rows, columns),
        figsize=(width * columns, height * rows + 0.7),
        squeeze=False,
        layout="constrained",
        sharex=sharex,
        sharey=sharey,
    )
    for panel in list(panels.flat)[count:]:
        panel.set_visible(False)
    for panel in list(panels.flat)[:count][-columns:]:
        panel.xaxis.set_tick_params(
            labelbottom=True
        )  # the lowest panel of its column, also where a hidden one is below it
    return figure, list(panels.flat)


def panels(
    table: pd.DataFrame,
    by: str | Sequence[str],
    columns: int = 2,
    *,
    height: float,
    width: float = 0.0,
    xlabel: str = "",
    ylabel: str = "",
    **shared: bool,
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """Make a panel for each value of a column, or each pair of values of two.

    Each comes with its title and the rows of the table that it shows.

    The panels are in the order of the table. With two columns of which both have several values,
    the second one changes along a row. The ``width`` of a panel is in inches.
    """
    there = [name for name in ([by] if isinstance(by, str) else by) if name in table]
    by = [name for name in there if table[name].nunique() > 1] or there[:1]
    values = [list(dict.fromkeys(table[name])) for name in by]
    keys = list(itertools.product(*values))
    columns = len(values[1]) if len(by) > 1 else min(columns, len(keys))
    usual = 7.0 / columns if columns > 1 else 6.2
    figure, axes = grid(len(keys), columns, width=width or usual, height=height, **shared)
    drawn = []
    for index, (ax, key) in enumerate(zip(axes, keys, strict=False)):
        ax.set_title(
            in_lines(", ".join(method_name(str(value)) for value in key)), fontsize="small"
        )
        ax.set(
            ylabel=ylabel if index % columns == 0 else "",
            xlabel=xlabel if index >= len(keys) - columns else "",
        )
        drawn.append((ax, table[(table[by] == list(key)).all(axis=1)]))
    return figure, drawn


def not_run() -> Figure:
    """Draw what stands where a figure will be, once there are records."""
    figure, ax = plt.subplots(figsize=(4.0, 1.2))
    ax.set_axis_off()
    ax.text(0.5, 0.5, "not run yet", ha="center", va="center")
    return figure


def one_legend(
    figure: Figure, axes: Iterable[Axes], *, title: str | None = None, ncols: int = 1
) -> None:
    """Draw one legend below the figure for all panels.

    What they share appears once, what has intervals first.
    """
    entries = {
        name: handle
        for ax in axes
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    entries = dict(
        sorted(
            entries.items(),
            key=lambda entry: title is not None and not isinstance(entry[1], ErrorbarContainer),
        )
    )
    figure.legend(
        entries.values(),
        entries.keys(),
        title=title,
        loc="outside lower center",
        ncols=ncols,
        fontsize="small",
    )
