"""Confidence against accuracy, bin by bin. The edges are explained in :mod:`gdlib.calibration`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gdlib.calibration.inputs import (
    ArrayOrTensor,
    FloatArray,
    IntArray,
    check_whole,
    predictions,
)

Scheme = Literal["width", "mass"]


@dataclass(frozen=True, eq=False)
class CalibrationBins:
    """The contents of a reliability diagram, as arrays of shape ``[B]``.

    Attributes:
        lower: lower edges; a bin is the interval (lower, upper].
        upper: upper edges.
        count: samples in each bin.
        confidence: their mean confidence; NaN where a bin is empty.
        accuracy: the share of them that are right; NaN where a bin is empty.
    """

    lower: FloatArray
    upper: FloatArray
    count: IntArray
    confidence: FloatArray
    accuracy: FloatArray

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.count.sum())

    @property
    def gap(self) -> FloatArray:
        """Confidence minus accuracy in each bin.

        Positive means over-confident; NaN where a bin is empty.
        """
        return self.confidence - self.accuracy

    @property
    def overconfidence(self) -> float:
        """Mean confidence minus accuracy over all samples."""
        return float(np.nansum(self.count * self.gap) / self.n)

    @property
    def expected_error(self) -> float:
        """Expected calibration error, the mean of ``|gap|`` weighted by ``count``."""
        return float(np.nansum(self.count * np.abs(self.gap)) / self.n)

    @property
    def maximum_error(self) -> float:
        """Maximum calibration error, the largest ``|gap|`` of any non-empty bin."""
        return float(np.nanmax(np.abs(self.gap)))

    @property
    def _squared_error(self) -> float:
        """Mean squared gap, weighted by ``count``, of the bins that hold two samples or more.

        It is :attr:`debiased_squared_error` with its bias.
        """
        measured = self.count > 1
        return float((self.count[measured] * self.gap[measured] ** 2).sum() / self.n)

    @property
    def debiased_squared_error(self) -> float:
        """Debiased estimate of the mean squared gap; it may be negative.

        See :func:`debiased_calibration_error`.
        """
        measured = self.count > 1
        if not measured.any():
            raise ValueError(
                f"no bin holds two of the {self.n} samples: the sampling error cannot be "
                "estimated; ask for fewer bins"
            )
        count, accuracy = self.count[measured], self.accuracy[measured]
        variance = (count * (accuracy * (1 - accuracy) / (count - 1))).sum() / self.n
        return float(self._squared_error - variance)

    @property
    def debiased_error(self) -> float:
        """Root of :attr:`debiased_squared_error`, or 0 where that is negative."""
        return float(np.sqrt(max(0.0, self.debiased_squared_error)))


def calibration_bins(
    probs: ArrayOrTensor,
    labels: ArrayOrTensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
    *,
    ignore_index: int = -100,
) -> CalibrationBins:
    r"""Compare confidence with accuracy in bins of the confidence of the predicted class.

    The prediction is :math:`\hat y = \arg\max_c p_c` (the first class in a tie), its confidence is
    :math:`\max_c p_c`.

    * ``"width"``: bins ((i−1)/B, i/B], as in the papers.
    * ``"mass"``: upper edges at the order statistics :math:`\lceil i N / B \rceil` of the
      confidences, so that bins hold about N/B samples. Equal confidences always share a bin; where
      ties make edges coincide, there are fewer bins than asked for, and none is empty.

    Args:
        probs: class probabilities, shape ``[N, C]`` or ``[N, C, d1, ...]``, that sum to 1 over the
            classes.
        labels: true class indices, integers in [0, C), shape ``[N]`` or ``[N, d1, ...]``.
        n_bins: number of bins B ≥ 1; the papers use 10.
        scheme: ``"width"`` or ``"mass"``.
        ignore_index: class index of samples that do not count, as in the losses.

    Raises:
        ValueError: for no samples, shapes that do not fit, probabilities that are NaN, lie outside
            [0, 1] or do not sum to 1, labels that are not integers or are out of range, fewer than
            one bin, or an unknown scheme.

    Example:
        Four samples, two bins: (0, 0.5] holds none; in (0.5, 1] the mean confidence is 0.8 and
        three of four are right.

        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]]
        >>> bins = calibration_bins(probs, [0, 0, 1, 0], n_bins=2)
        >>> bins.count.tolist(), bins.confidence.round(12).tolist(), bins.accuracy.tolist()
        ([0, 4], [nan, 0.8], [nan, 0.75])
        >>> round(bins.expected_error, 12)
        0.05

    References:
        Guo, Pleiss, Sun and Weinberger, *On calibration of modern neural networks*, ICML 2017,
        section 2.
    """
    p, y, dtype = predictions(probs, labels, ignore_index)
    return bins_of(p.max(axis=1), p.argmax(axis=1) == y, n_bins, scheme, dtype)


def bins_of(
    values: FloatArray, correct: NDArray[np.bool_], n_bins: int, scheme: Scheme, dtype: torch.dtype
) -> CalibrationBins:
    """Count the samples in the bins of a scheme, with the means of ``values`` and ``correct``."""
    check_whole(n_bins, "n_bins", 1)
    steps = np.arange(1, n_bins + 1)
    if scheme == "width":
        # rounded to the type of the values: see gdlib.calibration
        upper = torch.from_numpy(steps / n_bins).to(dtype).to(torch.float64).numpy()
    elif scheme == "mass":
        order_statistics = -(-steps * values.size // n_bins)  # ⌈i N / B⌉ in whole numbers
        upper = np.unique(np.sort(values)[np.maximum(order_statistics, 1) - 1])
    else:
        raise ValueError(f"scheme must be 'width' or 'mass', not {scheme!r}")
    # the first upper edge that is not below; rounding may leave a value just above the last one
    index = np.minimum(np.searchsorted(upper, values, side="left"), upper.size - 1)
    count = np.bincount(index, minlength=upper.size)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        confidence, accuracy = (
            np.bincount(index, weights=column, minlength=upper.size) / count
            for column in (values, correct)
        )
    return CalibrationBins(
        np.concatenate([[0.0], upper[:-1]]), upper, count.astype(np.int64), confidence, accuracy
    )
