"""The checks that all statistics share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FloatArray", "checked_level", "checked_values"]

FloatArray = NDArray[np.float64]


def checked_values(values: ArrayLike, name: str, *, at_least: int) -> FloatArray:
    """A checked one-dimensional float64 array."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not shape {x.shape}")
    if x.size < at_least:
        raise ValueError(f"{name} must hold at least {at_least} value{'s' if at_least > 1 else ''}, not {x.size}")
    if not np.isfinite(x).all():
        raise ValueError(f"{name} must be finite; found {x[~np.isfinite(x)][0]} at index {int(np.argmin(np.isfinite(x)))}")
    return x


def checked_level(level: float) -> float:
    """The level, checked."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95, not {level}")
    return level
