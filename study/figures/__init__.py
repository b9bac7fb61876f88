"""From tables to matplotlib axes. The only part of the study that imports matplotlib and seaborn.

One colour per β throughout the book: blue for β < 1, darker and more saturated as β falls; black
for β = 1; orange to brown for β > 1. The order is also carried by lightness and by the line style,
so that the figures can be read without colour. Losses have a colour and a line of their own.
"""

from study.figures.curves import curves
from study.figures.dots import dots
from study.figures.fifths import fifths
from study.figures.style import (
    beta_color,
    beta_label,
    beta_linestyle,
    order_colors,
    schedule_style,
    use_style,
)
from study.methods import method_name

__all__ = [
    "beta_color",
    "beta_label",
    "beta_linestyle",
    "curves",
    "dots",
    "fifths",
    "method_name",
    "order_colors",
    "schedule_style",
    "use_style",
]
