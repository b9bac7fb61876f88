"""Proper scores: least, on average, for the true probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from gdlib.calibration.inputs import FloatArray, IntArray, predictions

__all__ = ["brier_score", "negative_log_likelihood"]


def negative_log_likelihood(probs: ArrayLike | Tensor, labels: ArrayLike | Tensor) -> float:
    r"""Mean negative log-likelihood in nats, :math:`-\frac1N \sum_i \log p_{i, y_i}`.

    From logits, :func:`torch.nn.functional.cross_entropy` is the more accurate way to the same number.

    Args:
        probs: class probabilities, shape ``[N, C]``.
        labels: true class indices, shape ``[N]``.

    Returns:
        A number ≥ 0; infinity if a true class has probability 0.

    Raises:
        ValueError: as :func:`calibration_bins`.

    Example:
        >>> round(negative_log_likelihood([[0.5, 0.5], [0.25, 0.75]], [0, 0]), 4)      # (log 2 + log 4) / 2
        1.0397
    """
    p, y, _ = predictions(probs, labels)
    return float(negative_log_likelihoods(p, y).mean())


def brier_score(probs: ArrayLike | Tensor, labels: ArrayLike | Tensor) -> float:
    r"""Brier score, :math:`\frac1N \sum_i \sum_c (p_{i,c} - [y_i = c])^2`, summed over the classes.

    Args:
        probs: class probabilities, shape ``[N, C]``.
        labels: true class indices, shape ``[N]``.

    Returns:
        A number in [0, 2]; 0 is perfect.

    Raises:
        ValueError: as :func:`calibration_bins`.

    Example:
        >>> brier_score([[0.5, 0.5], [0.0, 1.0]], [0, 1])      # (1/4 + 1/4 + 0) / 2
        0.25

    References:
        G. W. Brier, *Verification of forecasts expressed in terms of probability*, Monthly Weather Review 78 (1950) 1-3.
    """
    p, y, _ = predictions(probs, labels)
    return float(brier_scores(p, y).mean())


def negative_log_likelihoods(p: FloatArray, y: IntArray) -> FloatArray:
    """The negative log-likelihood of each sample, shape ``[N]``."""
    with np.errstate(divide="ignore"):
        return -np.log(p[np.arange(y.size), y])


def brier_scores(p: FloatArray, y: IntArray) -> FloatArray:
    """The Brier score of each sample, shape ``[N]``."""
    errors = p.copy()
    errors[np.arange(y.size), y] -= 1
    return (errors**2).sum(axis=1)
