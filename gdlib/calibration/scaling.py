"""Post-hoc calibration: temperature and vector scaling, fitted on a validation split.

The fit is a convex minimisation in float64.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from gdlib.calibration.inputs import (
    ArrayOrTensor,
    TensorOrArray,
    check_finite,
    class_dimension,
    floating_type,
    is_transformed,
    samples,
    to_tensor,
)

T = TypeVar("T")

# nats; the NLL cannot fall below 0, so a smaller one is not minimised further
_NOTHING_TO_GAIN = 1e-12
_ROUNDING = 1e-15  # nats; a gain that cannot be seen
_RANGE = 1e9  # the temperature is at most this times the largest difference of two logits
# curvature that fixes the directions which the data leave open; θ is in units of one logit's
# standard deviation
_RIDGE = 1e-10
_ITERATIONS = 200  # of Newton's method; about ten are used


class NotFittedError(ValueError, AttributeError):
    """Raised by a scaling that has not been fitted, like scikit-learn's error of this name."""


class TemperatureScaling:
    r"""Divide the logits by one number T, chosen on a validation split.

    .. math:: T = \arg\min_{T > 0} \; -\frac1N \sum_i \log \operatorname{softmax}(z_i / T)_{y_i}

    The negative log-likelihood (NLL) is convex in 1/T; Newton's method finds its minimum. The order
    of the classes does not change, but two logits that are adjacent numbers of their type may
    become equal.

    The NLL of the validation split is never raised: T = 1 is kept unless the scaled logits, in the
    type that :meth:`transform` returns, have a lower NLL. T is bounded: if the true class always
    has the largest logit, it stops where the NLL is 10⁻¹² nats; if the logits are worse than
    uninformative about the class, at about 10⁹ times the largest difference between the logit of
    the true class and another. A class masked by the lowest number of the logits' type keeps T at 1
    or above, since no smaller T leaves its logit finite; mask it by -1e9 or so.

    Example:
        Three quarters of the samples are right, so the best logits differ by log 3; the given ones
        differ by twice as much:

        >>> import torch
        >>> logits = torch.tensor([[2 * torch.log(torch.tensor(3.0)), 0.0]]).expand(4, 2)
        >>> scaling = TemperatureScaling().fit(logits, [0, 0, 0, 1])
        >>> round(scaling.temperature, 6)
        2.0
        >>> torch.softmax(scaling.transform(logits[:1]), 1)
        tensor([[0.7500, 0.2500]])
        >>> TemperatureScaling(2.0)  # later, from the number; or by torch.save and torch.load
        TemperatureScaling(temperature=2.0)

    References:
        Guo, Pleiss, Sun and Weinberger, *On calibration of modern neural networks*, ICML 2017,
        section 4.2.
    """

    def __init__(self, temperature: float | None = None) -> None:
        self._temperature = None if temperature is None else _positive(temperature)

    def __repr__(self) -> str:
        return f"TemperatureScaling(temperature={self._temperature})"

    @property
    def temperature(self) -> float:
        """T > 0, above 1 for over-confident logits and below 1 for under-confident ones."""
        return _fitted(self._temperature, self)

    def fit(
        self, logits: ArrayOrTensor, labels: ArrayOrTensor, *, ignore_index: int = -100
    ) -> Self:
        """Choose T on a validation split and return the object itself.

        Args:
            logits: of shape ``[N, C]`` or ``[N, C, d1, ...]``. A warning is given if they look like
                probabilities.
            labels: class indices ``[N]`` or ``[N, d1, ...]``.
            ignore_index: class index of samples that do not count, as in the losses.

        Raises:
            ValueError: for no samples, shapes that do not fit, logits that are not finite, or
                labels that are not integers or are out of range.
        """
        self._temperature = _best_temperature(*_logits_and_labels(logits, labels, ignore_index, 3))
        return self

    def transform(self, logits: TensorOrArray) -> TensorOrArray:
        """Divide logits by T, in float64; gradients flow through it.

        Shape, kind (tensor or array), device and type are kept, but logits in float16 or bfloat16,
        where many are adjacent numbers, are returned in float32.

        Raises:
            ValueError: for logits that are not finite, or scaled logits that their type cannot
                hold.
            NotFittedError: before :meth:`fit`.
        """
        return _transformed(logits, 1 / self.temperature, 0.0)


class VectorScaling:
    r"""Give each class a scale and a bias, chosen on a validation split.

    .. math::

        \min_{w, b \in \mathbb{R}^C} \;
        -\frac1N \sum_i \log \operatorname{softmax}(w \odot z_i + b)_{y_i}

    The NLL is convex in (w, b). Newton's method with backtracking starts from the fitted
    temperature: w = 1/T, b = 0. Unlike temperature scaling, it can change the predicted class, and
    it over-fits a validation split with only a few samples per class.

    The NLL of the validation split is never above that of temperature scaling, which is kept
    otherwise. The weights are bounded even where the minimum lies at infinity, as for a class that
    is missing from the validation split: the objective carries :math:`\frac{\lambda}{2} \lVert
    \theta - \theta_T \rVert^2` with λ = 10⁻¹⁰, where θ holds each class's weight, in units of the
    standard deviation of its logit, and the mean of its scaled logit, and :math:`\theta_T` is the
    temperature's solution.

    Example:
        The logits say nothing, but three quarters of the samples are of class 0:

        >>> import torch
        >>> scaling = VectorScaling().fit(torch.zeros(4, 2), [0, 0, 0, 1])
        >>> torch.softmax(scaling.transform(torch.zeros(1, 2)), 1)
        tensor([[0.7500, 0.2500]])

    References:
        Guo et al. 2017, section 4.2 (a diagonal W); GD-2, table 3.
    """

    def __init__(
        self, weight: ArrayOrTensor | None = None, bias: ArrayOrTensor | None = None
    ) -> None:
        self._fitted: tuple[Tensor, Tensor] | None = None
        if weight is not None and bias is not None:
            self._fitted = _vector(weight, "weight"), _vector(bias, "bias")
            if self.weight.shape != self.bias.shape:
                raise ValueError(
                    "weight and bias must have one number for each class, [C]; got "
                    f"{list(self.weight.shape)} and {list(self.bias.shape)}"
                )
        elif weight is not None or bias is not None:
            raise ValueError("give both weight and bias, or neither and call fit")

    def __repr__(self) -> str:
        classes = None if self._fitted is None else len(self._fitted[0])
        return f"VectorScaling(classes={classes})"

    @property
    def weight(self) -> Tensor:
        """The scale of each class, float64, shape ``[C]``; 1/T for temperature scaling."""
        return _fitted(self._fitted, self)[0]

    @property
    def bias(self) -> Tensor:
        """The bias of each class, float64, shape ``[C]``.

        Only differences between classes matter; the mean is 0.
        """
        return _fitted(self._fitted, self)[1]

    @torch.inference_mode(False)  # or transform could have no gradient later
    def fit(
        self, logits: ArrayOrTensor, labels: ArrayOrTensor, *, ignore_index: int = -100
    ) -> Self:
        """Choose the weights and biases.

        Arguments and errors are those of :meth:`TemperatureScaling.fit`.
        """
        z, y, dtype = _logits_and_labels(logits, labels, ignore_index, 4)
        start = torch.ones_like(z[0]) / _best_temperature(z, y, dtype)
        by_temperature = start, torch.zeros_like(start)
        candidates = [by_temperature, _newton(z, y, start)]
        losses = [_nll((z * weight + bias).to(dtype), y) for weight, bias in candidates]
        self._fitted = candidates[losses.index(min(losses))]  # the first of equals
        return self

    def transform(self, logits: TensorOrArray, *, dim: int | None = None) -> TensorOrArray:
        """Multiply the logits by the weights and add the biases.

        Otherwise as :meth:`TemperatureScaling.transform`, for the C classes of the fit.

        Args:
            logits: of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, as in :meth:`fit`.
            dim: the class dimension if different, such as -1 for a stack ``[R, N, C]``.
        """
        return _transformed(logits, self.weight, self.bias, dim)


torch.serialization.add_safe_globals([TemperatureScaling, VectorScaling])  # for torch.load


def _fitted(value: T | None, scaling: object) -> T:
    """Return what was fitted; refuse if nothing was."""
    if value is None:
        raise NotFittedError(
            f"{type(scaling).__name__} is not fitted yet; call fit(logits, labels) with a "
            "validation split first"
        )
    return value


def _positive(temperature: Any) -> float:
    """Return a temperature as a number; refuse anything else."""
    try:
        number = float(temperature)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(temperature, str | bool) or not 0 < number < math.inf:
        raise ValueError(f"temperature must be a finite number > 0; got {temperature!r}")
    return number


@torch.inference_mode(False)  # as in fit
def _vector(values: ArrayOrTensor, name: str) -> Tensor:
    """Return one number for each class, in float64 on the CPU."""
    vector = to_tensor(values, name).detach().to("cpu", torch.float64, copy=True)
    if vector.ndim != 1 or not len(vector):
        raise ValueError(
            f"{name} must have one number for each class, [C]; got {list(vector.shape)}"
        )
    check_finite(vector, name)
    return vector


def _logits_and_labels(
    logits: ArrayOrTensor, labels: ArrayOrTensor, ignore_index: int, frames: int
) -> tuple[Tensor, Tensor, torch.dtype]:
    """Return logits as float64 ``[N, C]`` and labels as int64 ``[N]`` on the CPU.

    The third value is the type of the scaled logits. The caller's caller is so many frames up.
    """
    tensor, indices = samples(logits, labels, ignore_index, "logits")
    z, y = tensor.detach().to("cpu", torch.float64), torch.from_numpy(indices)
    check_finite(z, "logits")
    if (z >= 0).all() and ((z.sum(1) - 1).abs() < 0.01).all() and (z % 1 > 0).any():
        warnings.warn(
            "logits that sum to 1 and are not negative look like probabilities: give the outputs "
            "before the softmax, or the logarithms of the probabilities",
            stacklevel=frames,
        )
    if not torch.isfinite(z - z.gather(1, y[:, None])).all():
        raise ValueError("logits differ by more than float64 can hold")
    return z, y, _result_type(tensor)


def _result_type(logits: Tensor) -> torch.dtype:
    """Return the type of scaled logits: that of the given ones, but float32 at least."""
    dtype = floating_type(logits)
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _transformed(
    logits: TensorOrArray, weight: Tensor | float, bias: Tensor | float, dim: int | None = None
) -> TensorOrArray:
    """Return scaled logits in the shape, type, kind and device of the given ones, checked."""
    z = to_tensor(logits, "logits")
    if z.ndim == 0:
        raise ValueError("logits must have a class dimension: shape [C], [N, C] or [N, C, d1, ...]")
    dim = class_dimension(z.ndim, dim)
    if isinstance(weight, Tensor) and isinstance(bias, Tensor):
        if len(weight) != z.shape[dim]:
            raise ValueError(
                f"logits must have {len(weight)} classes in dimension {dim}, as in fit, not the "
                f"shape {list(z.shape)}; use dim to name a different class dimension"
            )
        shape = [1] * z.ndim
        shape[dim] = len(weight)
        weight, bias = (value.reshape(shape).to(z.device) for value in (weight, bias))
    check_finite(z, "logits")
    dtype = _result_type(z)
    scaled = (z.to(torch.float64) * weight + bias).to(dtype)
    if not is_transformed() and not torch.isfinite(scaled).all():
        raise ValueError(f"the scaled logits are too large for {dtype}; give the logits in float64")
    result: Any = scaled if isinstance(logits, Tensor) else scaled.detach().numpy()
    return result


def _nll(scaled: Tensor, y: Tensor) -> float:
    """Compute the mean negative log-likelihood in float64; infinite where a logit is not finite."""
    z = scaled.to(torch.float64)
    nll = float(torch.logsumexp(z - z.gather(1, y[:, None]), 1).mean())
    return nll if math.isfinite(nll) else math.inf


def _best_temperature(z: Tensor, y: Tensor, dtype: torch.dtype) -> float:
    """Find the T with the least NLL, or 1 if none is lower after rounding to ``dtype``."""
    temperature = _minimal_temperature(z, y, dtype)
    if not (0 < temperature < math.inf and 0 < 1 / temperature < math.inf):
        return 1.0
    losses = [_nll((z * (1 / t)).to(dtype), y) for t in (1.0, temperature)]
    return temperature if losses[1] < losses[0] else 1.0


def _minimal_temperature(z: Tensor, y: Tensor, dtype: torch.dtype) -> float:
    """Minimise the convex NLL as a function of the inverse temperature by Newton's method.

    The steps stay within a bracket in which its slope changes sign.
    """
    difference = z - z.gather(1, y[:, None])
    spread = float(difference.abs().max())
    if spread == 0:
        return 1.0
    x = difference / spread  # the NLL is the mean of logsumexp(b x), b = spread / T
    low, high = min(1 / _RANGE, spread), _RANGE * max(1.0, spread)
    high = max(spread, min(high, spread * torch.finfo(dtype).max / float(z.abs().max())))
    b, previous = spread, math.inf
    for _ in range(_ITERATIONS):
        losses = torch.logsumexp(b * x, 1)
        p = torch.exp(b * x - losses[:, None])
        mean = (p * x).sum(1)
        loss, slope = float(losses.mean()), float(mean.mean())
        curvature = float((p * (x - mean[:, None]).square()).sum(1).mean())
        separated = loss <= _NOTHING_TO_GAIN  # then the least b for which that holds is sought
        minimum_above = slope < 0 and not separated
        low, high = (b, high) if minimum_above else (low, b)
        gain = abs(slope) * (high if minimum_above else b)  # at most: the tangent bounds it
        if not separated and gain <= _ROUNDING:
            break
        newton = b - slope / curvature if curvature > 0 and not separated else math.nan
        if abs(newton - b) <= 1e-10 * b:
            b = newton
            break
        fast = low < newton < high and abs(slope) < previous / 2
        b, previous = (newton if fast else math.sqrt(low) * math.sqrt(high)), abs(slope)
        if high - low <= 1e-12 * low:
            break
    return spread / b


def _newton(z: Tensor, y: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Find the weights and biases with the least NLL plus ridge.

    The search starts from weights ``start`` and no bias.
    """
    samples, classes = z.shape
    centre, spread = z.mean(0), z.std(0, correction=0)
    # A column without spread says nothing: its weight stays as it is.
    spread = torch.where(spread > 0, spread, 1.0)
    x = (z - centre) / spread
    theta_start = torch.cat([start * spread, start * centre])  # scaled logits are x * θ[:C] + θ[C:]
    rows = torch.arange(samples, device=z.device)

    def objective(theta: Tensor) -> tuple[float, Tensor]:
        scaled = x * theta[:classes] + theta[classes:]
        log_p = torch.log_softmax(scaled, 1)
        ridge = _RIDGE / 2 * (theta - theta_start).square().sum()
        return float(-log_p[rows, y].mean() + ridge), log_p

    theta = theta_start
    loss, log_p = objective(theta)
    for _ in range(_ITERATIONS):
        if loss <= _NOTHING_TO_GAIN:
            break
        p = log_p.exp()
        residual = p.clone()
        residual[rows, y] -= 1
        gradient = torch.cat([(residual * x).mean(0), residual.mean(0)]) + _RIDGE * (
            theta - theta_start
        )
        direction = -_solve(_hessian(p, x), gradient)
        decrease = float(-gradient @ direction)  # twice what a quadratic would gain
        if not decrease > _ROUNDING * max(1.0, loss):
            break
        for step in (0.5**k for k in range(40)):
            following, following_log_p = objective(theta + step * direction)
            if following <= loss - 1e-4 * step * decrease:
                break
        else:
            break  # rounding leaves nothing to gain
        theta, loss, log_p = theta + step * direction, following, following_log_p
    weight = theta[:classes] / spread
    bias = theta[classes:] - weight * centre
    return weight, bias - bias.mean()


def _hessian(p: Tensor, x: Tensor) -> Tensor:
    """Compute the second derivatives of NLL plus ridge with respect to (weights, biases).

    Their shape is ``[2C, 2C]``.
    """
    samples, classes = p.shape
    inner = torch.cat([p * x, p], 1)  # (N, 2C)
    hessian = -(inner.T @ inner) / samples
    mixed = torch.diag((p * x).mean(0))
    hessian += torch.cat(
        [
            torch.cat([torch.diag((p * x.square()).mean(0)), mixed], 1),
            torch.cat([mixed, torch.diag(p.mean(0))], 1),
        ]
    )
    hessian.diagonal().add_(_RIDGE)
    return hessian


def _solve(hessian: Tensor, gradient: Tensor) -> Tensor:
    """Find Newton's direction.

    A Hessian that rounding left indefinite is shifted until it is positive definite.
    """
    raised = 0.0
    while True:
        factor, failed = torch.linalg.cholesky_ex(
            hessian + raised * torch.eye(len(hessian), dtype=hessian.dtype, device=hessian.device)
        )
        if not failed:
            return torch.cholesky_solve(gradient[:, None], factor)[:, 0]
        raised = max(10 * raised, 1e-12 * float(hessian.diagonal().max()), 1e-12)
