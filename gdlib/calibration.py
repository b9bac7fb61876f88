r"""Is a predicted probability a frequency? Bins, calibration errors, proper scores, and the β link.

**Bins.** A bin is an interval (lo, hi]; a value of exactly 0 belongs to the first bin, exactly 1 to the last (Guo et al. 2017). The
edges of equal-width bins are the floating-point numbers nearest to i/n *in the type of the given probabilities*: float32 0.3 is a little
above the real number 0.3, but it is what a float32 network calls 0.3, and it falls into (0.2, 0.3]. There is no tolerance beyond that:
0.1 + 0.2 in float64 is one step above 0.3 and falls into (0.3, 0.4].

Everything is computed in float64 from arrays or tensors of any floating type, on any device. The calibration errors are biased upwards
for few samples per bin, so compare them only at equal sample sizes and equal bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

__all__ = [
    "CalibrationBins",
    "beta_link",
    "brier_score",
    "calibration_bins",
    "classwise_calibration_error",
    "confidence_histogram",
    "expected_calibration_error",
    "inverse_beta_link",
    "maximum_calibration_error",
    "negative_log_likelihood",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Scheme = Literal["width", "mass"]
TensorOrArray = TypeVar("TensorOrArray", Tensor, FloatArray)

_BISECTIONS = 60  # halvings of [0, 1]; float64 has 53 bits


# ------------------------------------------------------------------------------------------------------------------------- bins and errors


@dataclass(frozen=True, eq=False)
class CalibrationBins:
    """Confidence against accuracy, bin by bin: the contents of a reliability diagram.

    Attributes:
        lower: lower edges, excluded (but 0 belongs to the first bin), shape ``[B]``.
        upper: upper edges, included, shape ``[B]``.
        count: samples in each bin, shape ``[B]``.
        confidence: mean confidence in each bin, NaN where it is empty, shape ``[B]``.
        accuracy: share of correct samples in each bin, NaN where it is empty, shape ``[B]``.
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
        """Confidence minus accuracy in each bin: positive is over-confident; NaN where the bin is empty."""
        return self.confidence - self.accuracy

    @property
    def overconfidence(self) -> float:
        """Mean confidence minus accuracy over all samples: the calibration error with its sign, and without the bins."""
        return float(np.nansum(self.count * self.gap) / self.n)

    @property
    def expected_error(self) -> float:
        """Expected calibration error: mean of ``|gap|``, weighted by ``count``."""
        return float(np.nansum(self.count * np.abs(self.gap)) / self.n)

    @property
    def maximum_error(self) -> float:
        """Maximum calibration error: the largest ``|gap|`` of a bin that is not empty."""
        return float(np.nanmax(np.abs(self.gap)))

    def to_dict(self) -> dict[str, list[float | None]]:
        """The columns as lists for JSON; None stands for the mean of an empty bin."""
        return {name: [None if np.isnan(value) else value for value in column.tolist()] for name, column in asdict(self).items()}


def calibration_bins(
    probs: ArrayLike | Tensor,
    labels: ArrayLike | Tensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
) -> CalibrationBins:
    r"""Sort samples by the confidence of the predicted class, and compare confidence with accuracy in each bin.

    The prediction is :math:`\hat y = \arg\max_c p_c` (the first class in a tie), its confidence is :math:`\max_c p_c`.

    * ``"width"``: bins ((i−1)/B, i/B], as in the papers.
    * ``"mass"``: upper edges at the order statistics :math:`\lceil i N / B \rceil` of the confidences, so that bins hold about N/B
      samples. Equal confidences always share a bin; where ties make edges coincide there are fewer bins than asked for, and none is empty.

    Args:
        probs: class probabilities, shape ``[N, C]``, rows summing to 1.
        labels: true class indices, integers in [0, C), shape ``[N]``.
        n_bins: B ≥ 1.
        scheme: ``"width"`` or ``"mass"``.

    Returns:
        A :class:`CalibrationBins`.

    Raises:
        ValueError: for no samples, shapes that do not fit, probabilities that are NaN, outside [0, 1] or do not sum to 1, labels that
            are no integers or out of range, fewer than one bin, or an unknown scheme.

    Example:
        Four samples, two bins: (0, 0.5] holds none; in (0.5, 1] the mean confidence is 0.8 and three of four are right.

        >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]]
        >>> bins = calibration_bins(probs, [0, 0, 1, 0], n_bins=2)
        >>> bins.count.tolist(), bins.confidence.round(12).tolist(), bins.accuracy.tolist()
        ([0, 4], [nan, 0.8], [nan, 0.75])
        >>> round(bins.expected_error, 12)
        0.05

    References:
        C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, *On calibration of modern neural networks*, ICML 2017, section 2.
    """
    p, y, dtype = _checked(probs, labels)
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == y
    return _bins(confidence, correct, _upper_edges(confidence, n_bins, scheme, dtype))


def expected_calibration_error(
    probs: ArrayLike | Tensor,
    labels: ArrayLike | Tensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
) -> float:
    r"""Expected calibration error (ECE) of the predicted class.

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{N} \bigl| \mathrm{acc}_b - \mathrm{conf}_b \bigr|

    Args:
        probs: class probabilities, shape ``[N, C]``.
        labels: true class indices, shape ``[N]``.
        n_bins: number of bins; the papers use 10.
        scheme: ``"width"`` or ``"mass"``, see :func:`calibration_bins`.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: as :func:`calibration_bins`.

    Example:
        Always sure, half of the time right:

        >>> expected_calibration_error([[1.0, 0.0], [1.0, 0.0]], [0, 1])
        0.5

    References:
        Guo et al. 2017, eq. 3; GD-2, section 4.2.
    """
    return calibration_bins(probs, labels, n_bins, scheme).expected_error


def maximum_calibration_error(
    probs: ArrayLike | Tensor,
    labels: ArrayLike | Tensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
) -> float:
    r"""Maximum calibration error (MCE): the largest gap of a bin that is not empty.

    .. math:: \mathrm{MCE} = \max_b \bigl| \mathrm{acc}_b - \mathrm{conf}_b \bigr| \ge \mathrm{ECE}

    One sample alone in its bin can decide it; ``scheme="mass"`` does not have that weakness.

    Args:
        probs: class probabilities, shape ``[N, C]``.
        labels: true class indices, shape ``[N]``.
        n_bins: number of bins; the papers use 10.
        scheme: ``"width"`` or ``"mass"``, see :func:`calibration_bins`.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: as :func:`calibration_bins`.

    Example:
        >>> maximum_calibration_error([[0.75, 0.25], [1.0, 0.0]], [0, 0])      # gaps 0.25 and 0
        0.25

    References:
        Guo et al. 2017, eq. 5; GD-2, section 4.2.
    """
    return calibration_bins(probs, labels, n_bins, scheme).maximum_error


def classwise_calibration_error(
    probs: ArrayLike | Tensor,
    labels: ArrayLike | Tensor,
    n_bins: int = 10,
    scheme: Scheme = "width",
) -> float:
    r"""Classwise calibration error: the ECE of every class against the rest, averaged over the classes.

    .. math:: \frac1C \sum_{c=1}^C \sum_b \frac{n_{b,c}}{N} \bigl| \mathrm{freq}_{b,c} - \bar p_{b,c} \bigr|

    where the samples are binned by :math:`p_c`, :math:`\bar p_{b,c}` is its mean in a bin and :math:`\mathrm{freq}_{b,c}` the share of
    samples whose label is c.

    Args:
        probs: class probabilities, shape ``[N, C]``.
        labels: true class indices, shape ``[N]``.
        n_bins: number of bins for each class.
        scheme: ``"width"`` or ``"mass"``, see :func:`calibration_bins`.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: as :func:`calibration_bins`.

    Example:
        Each class is predicted with 1 and 0, and is there half of the time:

        >>> classwise_calibration_error([[1.0, 0.0], [1.0, 0.0]], [0, 1])
        0.5

    References:
        M. Kull et al., *Beyond temperature scaling*, NeurIPS 2019, definition of classwise-ECE.
    """
    p, y, dtype = _checked(probs, labels)
    errors = [_bins(p_c, y == c, _upper_edges(p_c, n_bins, scheme, dtype)).expected_error for c, p_c in enumerate(p.T)]
    return float(np.mean(errors))


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
    p, y, _ = _checked(probs, labels)
    with np.errstate(divide="ignore"):
        return float(-np.log(p[np.arange(y.size), y]).mean())


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
    p, y, _ = _checked(probs, labels)
    errors = p.copy()
    errors[np.arange(y.size), y] -= 1
    return float((errors**2).sum(axis=1).mean())


def confidence_histogram(
    true_class_probability: ArrayLike | Tensor,
    edges: Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
) -> IntArray:
    r"""How many samples have a true-class probability in each interval: Table 1 of the gradient-decay papers.

    The intervals are (lo, hi]; the first edge itself belongs to the first interval.

    Args:
        true_class_probability: :math:`p_c` of each sample, shape ``[N]``, or with leading axes such as ``[R, N]``.
        edges: strictly increasing, K + 1 of them; the default is the papers'.

    Returns:
        Counts, int64, shape ``[K]`` or with the same leading axes ``[R, K]``.

    Raises:
        ValueError: if there is no sample, if a value is NaN or outside the edges, or if the edges do not increase.

    Example:
        >>> confidence_histogram([0.0, 0.2, 0.21, 0.6, 1.0]).tolist()
        [2, 1, 1, 0, 1]

    References:
        GD-1 and GD-2, Table 1.
    """
    values, dtype = _float64(true_class_probability, "true_class_probability")
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"true_class_probability must hold at least one sample, shape [N] or [R, N], not {list(values.shape)}")
    bounds = _in_precision(edges, dtype)
    if bounds.ndim != 1 or bounds.size < 2 or not (np.diff(bounds) > 0).all():
        raise ValueError(f"edges must be at least two strictly increasing numbers, not {edges}")
    if not ((values >= bounds[0]) & (values <= bounds[-1])).all():  # also catches NaN
        raise ValueError(
            f"true_class_probability must lie within the edges [{edges[0]}, {edges[-1]}]; it reaches from {values.min()} to {values.max()}"
        )
    rows = values.reshape(-1, values.shape[-1])
    index = np.searchsorted(bounds[1:], rows, side="left")  # the first upper edge that is not below the value
    counts = np.stack([np.bincount(row, minlength=bounds.size - 1) for row in index])
    return counts.reshape(*values.shape[:-1], bounds.size - 1).astype(np.int64)


# ------------------------------------------------------------------------------------------------------------------------------ the β link


def beta_link(probs: TensorOrArray, beta: float | Tensor | FloatArray) -> TensorOrArray:
    r"""The class probabilities that a softmax trained with the gradient-decay loss stands for.

    The gradient-decay loss with factor β is a proper composite loss: for the true probabilities :math:`\pi`, the expected loss is least
    at the softmax p with

    .. math:: \pi_c \propto p_c \bigl(1 + (\beta - 1)\, p_c\bigr).

    So β < 1 asks the softmax to be sharper than :math:`\pi`, β > 1 to be flatter, and this function undoes it with nothing to fit. β = 1
    changes nothing. The order of the classes is kept. Gradients flow through it.

    Args:
        probs: softmax outputs p, shape ``[..., C]``: a tensor or an array of any floating type.
        beta: the factor β > 0 of the training; a number, or values that broadcast to the shape of ``probs`` without its class dimension.

    Returns:
        :math:`\pi`, of the shape, type and kind (tensor or array) of ``probs``; computed in float64.

    Raises:
        ValueError: if ``probs`` are no probabilities, or if ``beta`` is not finite, not positive, or does not broadcast.

    Example:
        >>> import torch
        >>> beta_link(torch.tensor([0.8, 0.2]), 0.5)      # 0.8 · 0.6 : 0.2 · 0.9 = 0.48 : 0.18
        tensor([0.7273, 0.2727])

    References:
        Derived in the theory chapter on calibration; not in the papers.
    """
    p, b = _link_arguments(probs, beta)
    weighted = p * ((1 - p) + b * p)  # not 1 + (β − 1) p, which cancels for p near 1 and small β
    return _like(weighted / weighted.sum(dim=-1, keepdim=True), probs)


def inverse_beta_link(probs: TensorOrArray, beta: float | Tensor | FloatArray) -> TensorOrArray:
    r"""The softmax p at which the expected gradient-decay loss is least for true probabilities :math:`\pi`.

    The inverse of :func:`beta_link`. With :math:`f(p) = p (1 + (\beta - 1) p)`, m the most probable class and
    :math:`r_c = \pi_c / \pi_m`, the other classes follow from :math:`t = p_m`,

    .. math:: p_c = \frac{2 f(t)\, r_c}{1 + \sqrt{1 + 4 (\beta - 1) f(t)\, r_c}},

    and t is the one root of :math:`t + \sum_{c \ne m} p_c(t) = 1` in [1/C, 1], found by bisection. (Only m can lie on the falling branch
    of f, which β < 1/2 has: two classes above 1/2 do not exist. The root is unique because the expected loss is strictly convex in the
    logits up to a shift.)

    Args:
        probs: probabilities :math:`\pi`, shape ``[..., C]``: a tensor or an array of any floating type.
        beta: the factor β > 0; a number, or values that broadcast to the shape of ``probs`` without its class dimension.

    Returns:
        p, of the shape, type and kind of ``probs``; computed in float64, without gradients.

    Raises:
        ValueError: as :func:`beta_link`.

    Example:
        >>> import torch
        >>> p = inverse_beta_link(torch.tensor([0.7, 0.2, 0.1]), 0.1)
        >>> p
        tensor([0.9340, 0.0443, 0.0217])
        >>> beta_link(p, 0.1)
        tensor([0.7000, 0.2000, 0.1000])

    References:
        Derived in the theory chapter on calibration; not in the papers.
    """
    with torch.no_grad():
        pi, b = _link_arguments(probs, beta)
        top, where = pi.max(dim=-1, keepdim=True)
        ratio = (pi / top).scatter(-1, where, 0.0)  # (..., C), 0 at the most probable class

        def others(t: Tensor) -> Tensor:
            x = t * ((1 - t) + b * t) * ratio
            return 2 * x / (1 + (1 + 4 * (b - 1) * x).clamp(min=0).sqrt())

        low, high = torch.zeros_like(top), torch.ones_like(top)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            too_large = middle + others(middle).sum(dim=-1, keepdim=True) > 1
            low, high = torch.where(too_large, low, middle), torch.where(too_large, middle, high)
        p = others(high).scatter(-1, where, high)
        return _like(p / p.sum(dim=-1, keepdim=True), probs)


# ------------------------------------------------------------------------------------------------------------------------------ the inside


def _float64(values: ArrayLike | Tensor, name: str) -> tuple[FloatArray, torch.dtype]:
    """Values as a float64 array, and the floating type that they came in (float64 for numbers without one)."""
    tensor = _as_tensor(values, name)
    dtype = tensor.dtype if tensor.is_floating_point() else torch.float64
    return tensor.detach().to("cpu", torch.float64).numpy(), dtype


def _as_tensor(values: ArrayLike | Tensor, name: str) -> Tensor:
    """A tensor of real numbers; Python floats become float64, arrays and tensors keep their type."""
    if isinstance(values, Tensor):
        tensor = values
    else:
        array = np.asarray(values)
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{name} must be an array of real numbers, not of type {array.dtype}")
        tensor = torch.tensor(array if array.dtype.kind == "f" else array.astype(np.int64))  # a copy: the array may be read-only
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"{name} must hold real numbers, not {tensor.dtype}")
    return tensor


def _in_precision(edges: Sequence[float] | FloatArray, dtype: torch.dtype) -> FloatArray:
    """Edges rounded to the type of the values, in float64: see the module's docstring."""
    return torch.tensor(edges, dtype=torch.float64).to(dtype).to(torch.float64).numpy()


def _check_probabilities(p: Tensor, name: str, dtype: torch.dtype) -> None:
    """Raise a ValueError unless the rows of ``p`` (float64) are probabilities, up to the rounding of ``dtype``."""
    if p.ndim == 0 or p.numel() == 0:
        raise ValueError(f"{name} must not be empty; its shape is {list(p.shape)}")
    if not torch.isfinite(p).all():
        raise ValueError(f"{name} must be finite; it holds {int((~torch.isfinite(p)).sum())} values that are NaN or infinite")
    tolerance = max(1e-4, 2 * torch.finfo(dtype).eps)
    if p.min() < 0 or p.max() > 1 + tolerance:
        raise ValueError(f"{name} must lie in [0, 1]; it reaches from {p.min():.6g} to {p.max():.6g}. For logits, apply softmax first")
    deviation = (p.sum(dim=-1) - 1).abs().max()
    if deviation > tolerance:
        raise ValueError(f"{name} must sum to 1 over the last dimension; the largest deviation is {deviation:.6g}")


def _checked(probs: ArrayLike | Tensor, labels: ArrayLike | Tensor) -> tuple[FloatArray, IntArray, torch.dtype]:
    """Probabilities as float64 ``[N, C]``, labels as int64 ``[N]``, and the type that the probabilities came in."""
    p, dtype = _float64(probs, "probs")
    if p.ndim != 2:
        raise ValueError(f"probs must have the shape [N, C], not {list(p.shape)}")
    _check_probabilities(torch.from_numpy(p), "probs", dtype)
    y = _as_tensor(labels, "labels")
    if y.is_floating_point():
        raise ValueError(f"labels must be class indices of an integer type, not {y.dtype}")
    if list(y.shape) != [len(p)]:
        raise ValueError(f"labels must have the shape [{len(p)}] to go with probs {list(p.shape)}, not {list(y.shape)}")
    indices = y.detach().to("cpu", torch.int64).numpy()
    if indices.min() < 0 or indices.max() >= p.shape[1]:
        raise ValueError(f"labels must lie in [0, {p.shape[1]}); they reach from {indices.min()} to {indices.max()}")
    return p, indices, dtype


def _upper_edges(values: FloatArray, n_bins: int, scheme: Scheme, dtype: torch.dtype) -> FloatArray:
    """Upper edges of the bins for these values, strictly increasing."""
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"n_bins must be a whole number, at least 1, not {n_bins!r}")
    steps = np.arange(1, n_bins + 1)
    if scheme == "width":
        return _in_precision(steps / n_bins, dtype)
    if scheme == "mass":
        order_statistics = -(-steps * values.size // n_bins)  # ⌈i N / B⌉ in whole numbers
        return np.unique(np.sort(values)[np.maximum(order_statistics, 1) - 1])
    raise ValueError(f"scheme must be 'width' or 'mass', not {scheme!r}")


def _bins(values: FloatArray, correct: NDArray[np.bool_], upper: FloatArray) -> CalibrationBins:
    """Counts and means of ``values`` and ``correct`` in the bins with these upper edges."""
    # The first upper edge that is not below the value; rounding may leave a confidence just above 1.
    index = np.minimum(np.searchsorted(upper, values, side="left"), upper.size - 1)
    count = np.bincount(index, minlength=upper.size)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        confidence = np.bincount(index, weights=values, minlength=upper.size) / count
        accuracy = np.bincount(index, weights=correct, minlength=upper.size) / count
    return CalibrationBins(np.concatenate([[0.0], upper[:-1]]), upper, count.astype(np.int64), confidence, accuracy)


def _link_arguments(probs: Tensor | FloatArray, beta: float | Tensor | FloatArray) -> tuple[Tensor, Tensor]:
    """Probabilities in float64, shape ``[..., C]``, and β in float64 with a class dimension to broadcast."""
    tensor = _as_tensor(probs, "probs")
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.float64)
    p = tensor.to(torch.float64)
    _check_probabilities(p.detach(), "probs", tensor.dtype)
    b = torch.as_tensor(beta, dtype=torch.float64, device=p.device)
    if not (torch.isfinite(b) & (b > 0)).all():
        raise ValueError(f"beta must be finite and positive, not {beta}")
    try:
        fits = torch.broadcast_shapes(b.shape, p.shape[:-1]) == p.shape[:-1]
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"beta of shape {list(b.shape)} must broadcast to {list(p.shape[:-1])}, the shape of probs without its classes")
    return p, b.unsqueeze(-1)


def _like(result: Tensor, given: Any) -> Any:
    """The result in the type and kind (tensor or array) of what was given."""
    if isinstance(given, Tensor):
        return result.to(given.dtype) if given.is_floating_point() else result
    array = result.detach().numpy()
    given = np.asarray(given)
    return array.astype(given.dtype) if given.dtype.kind == "f" else array
