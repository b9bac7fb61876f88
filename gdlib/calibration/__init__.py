r"""Compare predicted probabilities with frequencies: bins, calibration errors, proper scores, post-hoc scaling, and the β link.

**Bins.** A bin is an interval (lo, hi]; a value of exactly 0 belongs to the first bin, exactly 1 to the last (Guo et al. 2017). The
edges of equal-width bins are the floating-point numbers nearest to i/n *in the type of the given probabilities*: float32 0.3 is a little
above the real number 0.3, but it is what a float32 network calls 0.3, and it falls into (0.2, 0.3]. There is no tolerance beyond that:
0.1 + 0.2 in float64 is one step above 0.3 and falls into (0.3, 0.4].

Everything is computed in float64 from arrays or tensors of any floating type, on any device. The calibration errors are biased upwards
for few samples per bin, so compare them only at equal sample sizes and equal bins, or debiased, or with their intervals. Anything that is
fitted is fitted on a validation split, never on the test set.
"""

from gdlib.calibration.bins import CalibrationBins, calibration_bins, confidence_histogram
from gdlib.calibration.bootstrap import CalibrationInterval, bootstrap_calibration
from gdlib.calibration.errors import (
    brier_score,
    classwise_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
)
from gdlib.calibration.link import beta_link, inverse_beta_link
from gdlib.calibration.scaling import NotFittedError, TemperatureScaling, VectorScaling

__all__ = [
    "CalibrationBins",
    "CalibrationInterval",
    "NotFittedError",
    "TemperatureScaling",
    "VectorScaling",
    "beta_link",
    "bootstrap_calibration",
    "brier_score",
    "calibration_bins",
    "classwise_calibration_error",
    "confidence_histogram",
    "debiased_calibration_error",
    "expected_calibration_error",
    "inverse_beta_link",
    "maximum_calibration_error",
    "negative_log_likelihood",
]
