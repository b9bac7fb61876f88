"""Intervals for calibration measures: how far another sample of the same size would move them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdlib.calibration import errors
from gdlib.calibration.bins import CalibrationBins, bins_of
from gdlib.calibration.inputs import ArrayOrTensor, FloatArray, IntArray, predictions

__all__ = ["CalibrationInterval", "bootstrap_calibration"]

Measure = Callable[..., float]

# Measures that need no more of a sample than its confidence and whether it is right, and means over the samples: both are resampled without
# the probabilities, which for many classes is most of the work.
_OF_BINS: dict[Measure, Callable[..., float]] = {
    errors.expected_calibration_error: CalibrationBins.error,
    errors.maximum_calibration_error: lambda bins: bins.maximum_error,
    errors.debiased_calibration_error: errors.debiased_error,
}
_MEANS: dict[Measure, Callable[[FloatArray, IntArray], FloatArray]] = {
    errors.brier_score: errors.brier_scores,
    errors.negative_log_likelihood: errors.negative_log_likelihoods,
}


class CalibrationInterval(NamedTuple):
    """A calibration measure with a bootstrap interval: a tuple of the measure of the samples, the lower and the upper end."""

    estimate: float
    low: float
    high: float


def bootstrap_calibration(
    probs: ArrayOrTensor,
    labels: ArrayOrTensor,
    measure: Measure = errors.expected_calibration_error,
    *,
    resamples: int = 1_000,
    level: float = 0.95,
    method: Literal["basic", "percentile"] = "basic",
    seed: int = 0,
) -> CalibrationInterval:
    r"""Bootstrap interval of a calibration measure, by resampling the test samples.

    With :math:`\hat\theta` the measure and :math:`q_\alpha` the quantiles of the resampled measures,

    * ``"basic"``: :math:`[\, 2\hat\theta - q_{1-\alpha/2},\; 2\hat\theta - q_{\alpha/2} ]`. The ECE of a resample is biased upwards, as is
      the ECE itself, and this takes the bias off; the interval may lie below the estimate. Where no resampled value is negative, the ends
      are not either.
    * ``"percentile"``: :math:`[q_{\alpha/2}, q_{1-\alpha/2}]`. For the ECE it carries the bias twice: for a well calibrated network it lies
      above the estimate and above the truth. It is right for means over the samples, such as the NLL.

    The interval speaks of the test samples, not of the seeds of the training. Near perfect calibration neither method keeps its level for
    the ECE. In a simulation with ten bins and 5,000 samples, 95 % ``"basic"`` intervals held the true ECE in 95 % of cases when it was
    0.11, in 83 % when it was 0.02, and in 61 % when it was 0; ``"percentile"`` in 96, 88 and 0 %.

    Args:
        probs: class probabilities, shape ``[N, C]``, N ≥ 2.
        labels: true class indices, shape ``[N]``.
        measure: a function of probabilities and labels, such as :func:`classwise_calibration_error`; with options,
            ``functools.partial(expected_calibration_error, n_bins=15, scheme="mass")``. A function of your own is given two tensors on the
            CPU if ``probs`` is a tensor, else two arrays.
        resamples: number of resamples.
        level: nominal coverage, between 0 and 1.
        method: ``"basic"`` or ``"percentile"``.
        seed: of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: as :func:`calibration_bins` and as the measure; for a single sample, a level outside (0, 1), no resamples, an unknown
            method, or a measure that is not finite.

    Example:
        >>> import numpy as np
        >>> confidence = np.linspace(0.6, 0.99, 500)
        >>> probs, labels = np.stack([confidence, 1 - confidence], 1), np.arange(500) % 2      # right half of the time
        >>> ece = bootstrap_calibration(probs, labels)
        >>> print(f"{ece.estimate:.3f} [{ece.low:.2f}, {ece.high:.2f}]")
        0.297 [0.25, 0.34]

    References:
        A. C. Davison, D. V. Hinkley, *Bootstrap Methods and their Application* (1997), section 5.2.
    """
    if method not in ("basic", "percentile"):
        raise ValueError(f"method must be 'basic' or 'percentile', not {method!r}")
    if isinstance(resamples, bool) or not isinstance(resamples, int | np.integer) or resamples < 1:
        raise ValueError(f"resamples must be a whole number, at least 1, not {resamples!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95, not {level}")
    p, y, dtype = predictions(probs, labels)
    if y.size < 2:
        raise ValueError("a bootstrap interval needs at least two samples, not 1")
    given = (probs.detach().cpu(), torch.from_numpy(y)) if isinstance(probs, Tensor) else (np.asarray(probs), y)
    estimate = float(measure(*given))
    if not math.isfinite(estimate):
        raise ValueError(f"the measure is {estimate}; an interval needs a finite one")
    of_resample = _reduced(measure, p, y, dtype) or (lambda index: float(measure(given[0][index], given[1][index])))
    generator = np.random.default_rng(seed)
    values = np.array([of_resample(generator.integers(y.size, size=y.size)) for _ in range(resamples)])
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    if method == "basic":
        low, high = 2 * estimate - high, 2 * estimate - low
        if values.min() >= 0:
            low, high = max(0.0, low), max(0.0, high)
    return CalibrationInterval(estimate, float(low), float(high))


def _reduced(measure: Measure, p: FloatArray, y: IntArray, dtype: torch.dtype) -> Callable[[IntArray], float] | None:
    """The measure as a function of the indices of a resample, without the probabilities; None if it is not known how."""
    function, options = measure, {}
    if isinstance(measure, functools.partial) and not measure.args:
        function, options = measure.func, dict(measure.keywords)
    if function in _OF_BINS:
        n_bins, scheme = options.pop("n_bins", 10), options.pop("scheme", "width")
        of_bins = functools.partial(_OF_BINS[function], **options)
        # Samples in the order of their confidence, drawn as counts: values in order are binned several times as fast.
        order = p.max(axis=1).argsort()
        confidence, correct = p.max(axis=1)[order], (p.argmax(axis=1) == y)[order]
        place = order.argsort()

        def of_resample(index: IntArray) -> float:
            times = np.bincount(place[index], minlength=y.size)
            return of_bins(bins_of(confidence.repeat(times), correct.repeat(times), n_bins, scheme, dtype))

        return of_resample
    if function in _MEANS:
        scores = _MEANS[function](p, y)
        return lambda index: float(scores[index].mean())
    return None
