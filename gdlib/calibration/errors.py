"""Calibration errors and proper scores: one number for a set of predictions.

Calibration errors differ in what is binned and what is averaged.
"""

from __future__ import annotations

import numpy as np

from gdlib.calibration.bins import Scheme, bins_of, calibration_bins
from gdlib.calibration.inputs import ArrayOrTensor, predictions


def expected_calibration_error(
    probs: ArrayOrTensor,
    labels: ArrayOrTensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
    *,
    ignore_index: int = -100,
) -> float:
    r"""Compute the expected calibration error (ECE) of the predicted class, in [0, 1].

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{N} \bigl| \mathrm{acc}_b - \mathrm{conf}_b \bigr|

    Arguments and errors are those of :func:`calibration_bins`.

    Example:
        Always certain, right half of the time:

        >>> expected_calibration_error([[1.0, 0.0], [1.0, 0.0]], [0, 1])
        0.5

    References:
        Guo et al. 2017, eq. 3; GD-2, section 4.2.
    """
    return calibration_bins(probs, labels, n_bins, scheme, ignore_index=ignore_index).expected_error


def maximum_calibration_error(
    probs: ArrayOrTensor,
    labels: ArrayOrTensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
    *,
    ignore_index: int = -100,
) -> float:
    r"""Compute the maximum calibration error (MCE), in [0, 1].

    It is the largest gap of any non-empty bin.

    .. math:: \mathrm{MCE} = \max_b \bigl| \mathrm{acc}_b - \mathrm{conf}_b \bigr| \ge \mathrm{ECE}

    A sample alone in its bin can determine it, unless ``scheme="mass"``. Arguments and errors are
    those of :func:`calibration_bins`.

    Example:
        >>> maximum_calibration_error([[0.75, 0.25], [1.0, 0.0]], [0, 0])      # gaps 0.25 and 0
        0.25

    References:
        Guo et al. 2017, eq. 5; GD-2, section 4.2.
    """
    return calibration_bins(probs, labels, n_bins, scheme, ignore_index=ignore_index).maximum_error


def classwise_calibration_error(
    probs: ArrayOrTensor,
    labels: ArrayOrTensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
    *,
    ignore_index: int = -100,
) -> float:
    r"""Compute the classwise calibration error, in [0, 1].

    It is the ECE of each class against the rest, averaged over the classes.

    .. math::

        \frac1C \sum_{c=1}^C \sum_b \frac{n_{b,c}}{N}
        \bigl| \mathrm{freq}_{b,c} - \bar p_{b,c} \bigr|

    where the samples are binned by :math:`p_c`, :math:`\bar p_{b,c}` is its mean in a bin and
    :math:`\mathrm{freq}_{b,c}` the share of samples whose label is c. Arguments and errors are
    those of :func:`calibration_bins`; each class has ``n_bins`` bins.

    Example:
        The classes are predicted with 1 and 0, and each occurs half of the time:

        >>> classwise_calibration_error([[1.0, 0.0], [1.0, 0.0]], [0, 1])
        0.5

    References:
        Kull et al., *Beyond temperature scaling*, NeurIPS 2019, definition of classwise-ECE.
    """
    p, y, dtype = predictions(probs, labels, ignore_index)
    bins = [bins_of(p_c, y == c, n_bins, scheme, dtype) for c, p_c in enumerate(p.T)]
    return float(np.mean([one.expected_error for one in bins]))


def debiased_calibration_error(
    probs: ArrayOrTensor,
    labels: ArrayOrTensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
    *,
    ignore_index: int = -100,
) -> float:
    r"""Compute the debiased root-mean-square calibration error, in [0, 1].

    The part that is due to the finite number of samples is removed.

    The accuracy of a bin deviates by chance, and a calibration error counts that as miscalibration:
    the error of a perfectly calibrated network is positive and grows with the number of bins. Here
    the variance of each bin's accuracy is subtracted,

    .. math:: \sqrt{\max\Bigl(0,\; \sum_b \frac{n_b}{N} \Bigl[ (\mathrm{acc}_b - \mathrm{conf}_b)^2
              - \frac{\mathrm{acc}_b (1 - \mathrm{acc}_b)}{n_b - 1} \Bigr]\Bigr)}.

    The sum is unbiased where the samples of a bin share one confidence, and nearly so in narrow
    bins. It may be negative; ``calibration_bins(...).debiased_squared_error`` gives it as it is. A
    bin of one sample adds nothing; if no bin holds two samples, a ValueError is raised. The other
    arguments and errors are those of :func:`calibration_bins`.

    Example:
        Two of four are right at a confidence of 0.6: this gap of 0.1 is less than chance gives.

        >>> probs, labels = [[0.6, 0.4]] * 4, [0, 0, 1, 1]
        >>> error = expected_calibration_error(probs, labels)
        >>> round(error, 12), debiased_calibration_error(probs, labels)
        (0.1, 0.0)

    References:
        Kumar, Liang and Ma, *Verified uncertainty calibration*, NeurIPS 2019, definition 5.2;
        Bröcker, *Estimating reliability and resolution of probability forecasts through
        decomposition of the empirical score*, Climate Dynamics 39 (2012) 655-667.
    """
    return calibration_bins(probs, labels, n_bins, scheme, ignore_index=ignore_index).debiased_error


def negative_log_likelihood(
    probs: ArrayOrTensor, labels: ArrayOrTensor, *, ignore_index: int = -100
) -> float:
    r"""Compute the mean negative log-likelihood in nats.

    .. math:: -\frac1N \sum_i \log p_{i, y_i} \ge 0

    It is infinite if a true class has probability 0. From logits,
    :func:`torch.nn.functional.cross_entropy` computes the same number more accurately. Arguments
    and errors are those of :func:`calibration_bins`.

    Example:
        >>> probs = [[0.5, 0.5], [0.25, 0.75]]
        >>> round(negative_log_likelihood(probs, [0, 0]), 4)  # (log 2 + log 4) / 2
        1.0397
    """
    p, y, _ = predictions(probs, labels, ignore_index)
    with np.errstate(divide="ignore"):
        return float((-np.log(p[np.arange(y.size), y])).mean())


def brier_score(probs: ArrayOrTensor, labels: ArrayOrTensor, *, ignore_index: int = -100) -> float:
    r"""Compute the Brier score, summed over the classes: in [0, 2], 0 is perfect.

    .. math:: \frac1N \sum_i \sum_c (p_{i,c} - [y_i = c])^2

    Arguments and errors are those of :func:`calibration_bins`.

    Example:
        >>> brier_score([[0.5, 0.5], [0.0, 1.0]], [0, 1])      # (1/4 + 1/4 + 0) / 2
        0.25

    References:
        Brier, *Verification of forecasts expressed in terms of probability*, Monthly Weather Review
        78 (1950) 1-3.
    """
    p, y, _ = predictions(probs, labels, ignore_index)
    errors = p.copy()
    errors[np.arange(y.size), y] -= 1
    return float((errors**2).sum(axis=1).mean())
