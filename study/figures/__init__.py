"""From tables to figures. The only part of the study that imports matplotlib and seaborn.

One colour per β throughout the book: blue for β < 1, darker and more saturated as β falls; black
for β = 1; orange to brown for β > 1. The order is also carried by lightness and by the line style,
so that the figures can be read without colour. Losses have a colour and a line of their own.
"""

from study.figures.dots import PALE, dots, label_ends, rows
from study.figures.fifths import fifths
from study.figures.style import (
    beta_color,
    beta_label,
    beta_linestyle,
    close,
    order_colors,
    schedule_style,
    use_style,
)
from study.figures.table import table
from study.methods import method_name

__all__ = [
    "PALE",
    "beta_color",
    "beta_label",
    "beta_linestyle",
    "close",
    "dots",
    "fifths",
    "label_ends",
    "method_name",
    "order_colors",
    "rows",
    "schedule_style",
    "table",
    "use_style",
]
