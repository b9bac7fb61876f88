"""What every figure of the book shares: sizes, and a colour for each β and each loss."""

import math
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.colors import LinearSegmentedColormap, to_hex

from study.methods import Method

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


def use_style() -> None:
    """Set the fonts, grid and sizes that every figure of the book shares.

    Pictures have 200 dots an inch and are shown at half their size. In a notebook each has a
    second one for phones.
    """
    notebook = sys.modules.get("IPython")
    if notebook and (shell := notebook.get_ipython()):
        from study.figures import phone  # a machine that only trains has no IPython

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
        }
    )


def close() -> None:
    """Close every figure, as a notebook does after each cell."""
    plt.close("all")


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
    """Write the label of a β in a legend, a power of ten below 0.001 as one.

    >>> beta_label(0.01), beta_label(1e-6)
    ('β = 0.01', 'β = $10^{-6}$')
    """
    power = round(math.log10(beta))
    if power < -3 and math.isclose(beta, 10.0**power):
        return f"β = $10^{{{power}}}$"
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
