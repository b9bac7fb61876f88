"""From tables to matplotlib axes. The only part of the study that imports matplotlib and seaborn.

One colour per β throughout the book: blue for β < 1, darker and more saturated as β falls; black
for β = 1; orange to brown for β > 1. The order is also carried by lightness and by the line style,
so that the figures can be read without colour. Variants of what the papers leave unsaid, methods
and losses have a colour, a marker and a line of their own, and are drawn where β is an axis.
"""

from study.figures.against import against, beside
from study.figures.curves import curves
from study.figures.dots import PALE, dots, label_ends, rows
from study.figures.fifths import fifths
from study.figures.planes import angle_slices
from study.figures.style import (
    beta_color,
    beta_label,
    beta_linestyle,
    not_run,
    order_colors,
    schedule_style,
    use_style,
    variant_styles,
)
from study.methods import method_name

__all__ = [
    "PALE",
    "against",
    "angle_slices",
    "beside",
    "beta_color",
    "beta_label",
]
__all__ += [
    "beta_linestyle",
    "curves",
    "dots",
    "fifths",
    "label_ends",
    "method_name",
    "not_run",
    "order_colors",
    "variant_styles",
]
__all__ += [
    "rows",
    "schedule_style",
    "use_style",
]
