"""Intervals for calibration measures: how far another sample of the same size would move them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdlib.calibration import errors
from gdlib.calibration.bins import CalibrationBins, Scheme, bins_of
from gdlib.calibration.inputs import ArrayOrTensor, IntArray, check_whole, predictions, samples

# Measures that need only the confidence of a sample and whether it is right: their resamples do
# without the probabilities.
_OF_BINS: dict[Callable[..., float], Callable[[CalibrationBins], float]] = {
    errors.expected_calibration_error: lambda bins: bins.expected_error,
    errors.maximum_calibration_error: lambda bins: bins.maximum_error,
    errors.debiased_calibration_error: lambda bins: bins.debiased_squared_error,
}


_AT_MOST_1 = (*_OF_BINS, errors.classwise_calibration_error)


class CalibrationInterval(NamedTuple):
    """A calibration measure of the samples, and both ends of its bootstrap interval."""

    estimate: float
    low: float
    high: float


def bootstrap_calibration(
    probs: ArrayOrTensor,
    labels: ArrayOrTensor,
    measure: Callable[..., float] = errors.expected_calibration_error,
    *,
    n_bins: int | None = None,
    scheme: Scheme | None = None,
    resamples: int = 1_000,
    level: float = 0.95,
    seed: int = 0,
    ignore_index: int = -100,
) -> CalibrationInterval:
    r"""Compute the basic bootstrap interval of a calibration measure.

    The test samples are resampled with replacement.

    With :math:`\hat\theta` the measure and :math:`q_\alpha` the quantiles of the resampled
    measures, the interval is :math:`[\, 2\hat\theta - q_{1-\alpha/2},\; 2\hat\theta - q_{\alpha/2}
    ]`. The ECE of a resample is biased upwards, as is the ECE itself, and this removes the bias;
    the interval may lie below the estimate. If no resampled value is negative, neither are the
    ends. The debiased error of a resample has no such bias, but scatters about the error of the
    samples before debiasing, :math:`\theta_0`; its interval is the root of that of the square,
    :math:`[\, \hat\theta^2 + \theta_0^2 - q_{1-\alpha/2},\; \hat\theta^2 + \theta_0^2 -
    q_{\alpha/2} ]`, with the quantiles of the signed squares.

    The interval reflects the test samples, not the seeds of the training. Near perfect calibration,
    it does not keep its level for the ECE: in a simulation with ten bins and 5,000 samples, 95 %
    intervals covered a true ECE of 0.11 in 95 % of cases, 0.02 in 83 % and 0 in 61 %. Those of the
    debiased error covered 0.11, 0.05 and 0.02 in at least 90 % of cases, with 500 samples.

    Args:
        probs: class probabilities, shape ``[N, C]`` or ``[N, C, d1, ...]``, of at least two
            samples.
        labels: true class indices, shape ``[N]`` or ``[N, d1, ...]``.
        measure: a function of probabilities and labels, such as
            :func:`classwise_calibration_error`, or a :func:`functools.partial` of one. It gets
            ``[N, C]`` and ``[N]``, as two tensors on the CPU if ``probs`` is one, else as arrays.
            Only :func:`debiased_calibration_error` itself, or a partial of it, is treated as such.
        n_bins: passed to the measure; None uses its own default.
        scheme: ``"width"`` or ``"mass"``, passed to the measure; None uses its own default.
        resamples: number of resamples.
        level: nominal coverage, between 0 and 1.
        seed: seed of the resampling; the same seed gives the same interval.
        ignore_index: class index of samples that do not count, as in the losses.

    Raises:
        ValueError: as in :func:`calibration_bins` and the measure; for one sample, a level outside
            (0, 1), no resamples, a negative seed, or a measure that is not finite for the samples
            or for a resample.

    Example:
        >>> import numpy as np
        >>> confidence = np.linspace(0.6, 0.99, 500)
        >>> probs = np.stack([confidence, 1 - confidence], 1)
        >>> labels = np.arange(500) % 2  # right half of the time
        >>> ece = bootstrap_calibration(probs, labels)
        >>> print(f"{ece.estimate:.3f} [{ece.low:.2f}, {ece.high:.2f}]")
        0.297 [0.25, 0.34]

    References:
        Davison and Hinkley, *Bootstrap Methods and their Application* (1997), section 5.2.
    """
    check_whole(resamples, "resamples", 1)
    check_whole(seed, "seed", 0)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95, not {level}")
    p, y, dtype = predictions(probs, labels, ignore_index)
    if y.size < 2:
        raise ValueError("a bootstrap interval needs at least two samples, not 1")
    counted, _ = samples(probs, labels, ignore_index, "probs")
    if getattr(measure, "keywords", {}).get("ignore_index") in y:
        raise ValueError("give ignore_index to bootstrap_calibration, not to the measure")
    options = {"n_bins": n_bins, "scheme": scheme}
    options = {name: value for name, value in options.items() if value is not None}
    if options:
        measure = functools.partial(measure, **options)
    tensors = counted.detach().cpu(), torch.from_numpy(y)
    given = tensors if isinstance(probs, Tensor) else (tensors[0].numpy(), y)
    try:
        estimate = float(measure(*given))
    except TypeError as error:
        raise TypeError(
            "measure must be a function of probabilities and labels that returns a number, such as "
            f"expected_calibration_error: {error}"
        ) from error
    if not math.isfinite(estimate):
        raise ValueError(f"the measure is {estimate}; an interval needs a finite one")
    of_bins, how = _of_bins(measure)
    middle = 2 * estimate
    squared = of_bins is _OF_BINS[errors.debiased_calibration_error]
    if of_bins is not None:
        # Samples sorted by confidence, drawn as counts: sorted values are binned several times as
        # fast.
        order = p.max(axis=1).argsort()
        place = order.argsort()
        confidence = p.max(axis=1)[order]
        correct = (p.argmax(axis=1) == y)[order]
        if squared:
            bins = bins_of(confidence, correct, **how, dtype=dtype)
            middle = bins.debiased_squared_error + bins._squared_error

        def of_resample(index: IntArray) -> float:
            times = np.bincount(place[index], minlength=y.size)
            resampled = confidence.repeat(times), correct.repeat(times)
            return of_bins(bins_of(*resampled, **how, dtype=dtype))
    else:

        def of_resample(index: IntArray) -> float:
            return float(measure(given[0][index], given[1][index]))

    generator = np.random.default_rng(seed)
    values = np.array(
        [of_resample(generator.integers(y.size, size=y.size)) for _ in range(resamples)]
    )
    lost = int((~np.isfinite(values)).sum())
    if lost:
        raise ValueError(
            f"the measure is not finite for {lost} of {resamples} resamples, so the interval "
            "is not known; give more samples, or a measure that is finite for every resample"
        )
    ends = middle - np.quantile(values, [(1 + level) / 2, (1 - level) / 2])
    if squared or values.min() >= 0:
        ends = ends.clip(min=0.0)
    if squared:
        ends = np.sqrt(ends)
    if getattr(measure, "func", measure) in _AT_MOST_1:
        ends = ends.clip(max=1.0)
    low, high = ends.tolist()
    return CalibrationInterval(estimate, low, high)


def _of_bins(
    measure: Callable[..., float],
) -> tuple[Callable[[CalibrationBins], float] | None, dict[str, Any]]:
    """Return what a measure reads from the bins, and how these are made; None for any other."""
    how: dict[str, Any] = {"n_bins": 10, "scheme": "width"}  # defaults of these measures
    if isinstance(measure, functools.partial):  # a partial of a partial is flat
        options = {name: one for name, one in measure.keywords.items() if name != "ignore_index"}
        if measure.args or not options.keys() <= how.keys():
            return None, how
        how |= options
        measure = measure.func
    known = (of_bins for function, of_bins in _OF_BINS.items() if function is measure)
    return next(known, None), how
