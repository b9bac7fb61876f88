"""From tables to matplotlib axes. The only part of the study that imports matplotlib and seaborn.

One colour per β throughout the book: blue for β < 1, darker and more saturated as β falls; black for β = 1; orange to brown for β > 1. The
order is also carried by lightness and by the line style, so that the figures can be read without colour. Readings of what the papers leave
unsaid, or networks, have a colour, a marker and a line of their own, and are drawn where β is an axis.
"""

from __future__ import annotations

from study.figures.calibration import outcomes_against_beta, post_hoc, reliability_diagrams
from study.figures.compare import (
    accuracy_against_amount,
    accuracy_against_depth,
    against_beta,
    critical_difference,
    differences_by_reading,
)
from study.figures.curves import (
    confidence_counts,
    curves,
    curves_by_reading,
    difficulty_groups,
    margin_bias,
    oscillation_curves,
    single_samples,
)
from study.figures.planes import accuracy_against_calibration, angle_slices, feature_planes, outcome_plane
from study.figures.style import (
    beta_color,
    beta_label,
    beta_linestyle,
    not_run,
    reading_styles,
    schedule_color,
    schedule_label,
    schedule_linestyle,
    use_style,
)

__all__ = [
    "accuracy_against_calibration",
    "accuracy_against_amount",
    "accuracy_against_depth",
    "against_beta",
    "angle_slices",
    "beta_color",
    "beta_label",
    "beta_linestyle",
    "confidence_counts",
    "critical_difference",
    "curves",
    "curves_by_reading",
    "differences_by_reading",
    "difficulty_groups",
    "feature_planes",
    "margin_bias",
    "not_run",
    "oscillation_curves",
    "outcome_plane",
    "outcomes_against_beta",
    "post_hoc",
    "reading_styles",
    "reliability_diagrams",
    "schedule_color",
    "schedule_label",
    "schedule_linestyle",
    "single_samples",
    "use_style",
]
