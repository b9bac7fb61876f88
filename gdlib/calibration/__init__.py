r"""Compare predicted probabilities with frequencies.

This package provides bins, calibration errors, proper scores, post-hoc scaling and the β link.

**Bins.** A bin is an interval (lo, hi]; a value of exactly 0 belongs to the first bin, exactly 1 to
the last (Guo et al. 2017). The edges of equal-width bins are the floating-point numbers nearest to
i/n *in the type of the given probabilities*: float32 0.3 is a little above the real number 0.3, but
it is what a float32 network calls 0.3, and it falls into (0.2, 0.3]. There is no tolerance beyond
that: 0.1 + 0.2 in float64 is one step above 0.3 and falls into (0.3, 0.4].

**Classes** are in dimension 1, as in the losses: ``[N, C]`` or ``[N, C, d1, ...]``. Functions that
keep the shape take ``dim`` for a different one, such as -1 for a stack of runs ``[R, N, C]``.

**Batches** are joined first, ``torch.cat(batches)``: the error of a set is not the mean over its
parts.

Everything is computed in float64 from arrays or tensors of any floating type, on any device. The
calibration errors are biased upwards for few samples per bin, so compare them only at equal sample
sizes and equal bins, or debiased, or with their intervals. Anything that is fitted is fitted on a
validation split, never on the test set.
"""

from gdlib.calibration.bins import CalibrationBins as CalibrationBins
from gdlib.calibration.bins import calibration_bins as calibration_bins
from gdlib.calibration.bootstrap import CalibrationInterval as CalibrationInterval
from gdlib.calibration.bootstrap import bootstrap_calibration as bootstrap_calibration
from gdlib.calibration.errors import brier_score as brier_score
from gdlib.calibration.errors import classwise_calibration_error as classwise_calibration_error
from gdlib.calibration.errors import debiased_calibration_error as debiased_calibration_error
from gdlib.calibration.errors import expected_calibration_error as expected_calibration_error
from gdlib.calibration.errors import maximum_calibration_error as maximum_calibration_error
from gdlib.calibration.errors import negative_log_likelihood as negative_log_likelihood
from gdlib.calibration.link import BetaForConfidence as BetaForConfidence
from gdlib.calibration.link import beta_for_confidence as beta_for_confidence
from gdlib.calibration.link import beta_link as beta_link
from gdlib.calibration.link import inverse_beta_link as inverse_beta_link
from gdlib.calibration.scaling import NotFittedError as NotFittedError
from gdlib.calibration.scaling import TemperatureScaling as TemperatureScaling
from gdlib.calibration.scaling import VectorScaling as VectorScaling
