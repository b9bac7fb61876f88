"""The β link: from a softmax trained with gradient decay to what it stands for, and back."""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from gdlib.calibration.inputs import (
    ArrayOrTensor,
    FloatArray,
    TensorOrArray,
    check_probabilities,
    class_dimension,
    floating_type,
    is_transformed,
    like,
    to_tensor,
)

_BISECTIONS = 60  # halvings of [-750, 0], which has the logarithm of every number of float64
_SMALLEST_BETA, _LARGEST_BETA = 1e-8, 1e8  # between which beta_for_confidence searches
_ACCURACY = 1e-9  # of the β that it finds, relative


def beta_link(
    probs: TensorOrArray, beta: float | Tensor | FloatArray, *, dim: int | None = None
) -> TensorOrArray:
    r"""Compute the probabilities that a softmax trained with the gradient-decay loss stands for.

    The gradient-decay loss with factor β is a proper composite loss: for the true probabilities
    :math:`\pi`, the expected loss is least at the softmax p with

    .. math:: \pi_c \propto p_c \bigl(1 + (\beta - 1)\, p_c\bigr).

    So β < 1 asks the softmax to be sharper than :math:`\pi`, β > 1 to be flatter; this undoes it
    and keeps the order of the classes. Gradients flow.

    Args:
        probs: softmax outputs p, shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, as in the
            losses: a tensor or an array of any floating type.
        beta: the factor β > 0 of the training; a number, or values that broadcast to the shape of
            ``probs`` without its class dimension.
        dim: the class dimension if different, such as -1 for a stack ``[R, N, C]``.

    Returns:
        :math:`\pi`, of the shape, type and kind (tensor or array) of ``probs``; computed in
        float64.

    Raises:
        ValueError: if ``probs`` are not probabilities over the classes, or if ``beta`` is not
            finite, not positive, or does not broadcast. Values are not checked within
            ``torch.compile`` and ``torch.func`` transforms.

    Example:
        >>> import torch
        >>> beta_link(torch.tensor([0.8, 0.2]), 0.5)      # 0.8 · 0.6 : 0.2 · 0.9 = 0.48 : 0.18
        tensor([0.7273, 0.2727])

    References:
        Derived in the theory chapter on calibration; not in the papers.
    """
    p, b, dim = _link_arguments(probs, beta, dim)
    # 1 - p from the other classes: p may have been rounded to 1
    rest = torch.where(p > 0.5, p.masked_fill(p > 0.5, 0.0).sum(dim=-1, keepdim=True), 1 - p)
    weighted = p * (rest + b * p)  # not 1 + (β − 1) p, which cancels for p near 1 and small β
    return like((weighted / weighted.sum(dim=-1, keepdim=True)).movedim(-1, dim), probs)


def inverse_beta_link(
    probs: TensorOrArray, beta: float | Tensor | FloatArray, *, dim: int | None = None
) -> TensorOrArray:
    r"""Find the softmax p that true probabilities :math:`\pi` lead to.

    At p the expected gradient-decay loss is least.

    This is the inverse of :func:`beta_link`. With :math:`f(p) = p (1 + (\beta - 1) p)`, m the most
    probable class and :math:`r_c = \pi_c / \pi_m`, the other classes follow from :math:`t = p_m`,

    .. math:: p_c = \frac{2 f(t)\, r_c}{1 + \sqrt{1 + 4 (\beta - 1) f(t)\, r_c}},

    and t is the one root of :math:`t + \sum_{c \ne m} p_c(t) = 1` in [1/C, 1], found by bisection
    in :math:`\log(1 - t)`, since :math:`1 - t` may be as small as β. (Only m can lie on the falling
    branch of f, which exists for β < 1/2: no two classes can exceed 1/2. The root is unique because
    the expected loss is strictly convex in the logits up to a shift.) Arguments and errors are
    those of :func:`beta_link`, with :math:`\pi` given; no gradient flows.

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
        pi, b, dim = _link_arguments(probs, beta, dim)
        return like(_minimiser(pi, b).movedim(-1, dim), probs)


def _minimiser(pi: Tensor, b: Tensor) -> Tensor:
    """Compute the inverse link of true probabilities ``[..., C]`` and β, both in float64."""
    top, where = pi.max(dim=-1, keepdim=True)
    huge = b > 1e100
    ratio = (pi / top).scatter(-1, where, 0.0)  # (..., C), 0 at the most probable class

    def others(rest: Tensor) -> Tensor:
        t = 1 - rest
        x = t * (rest + b * t) * ratio
        p = 2 * x / (1 + (1 + 4 * (b - 1) * x).clamp(min=0).sqrt())
        if not is_transformed() and not huge.any():
            return p
        x_over_b = t * (rest / b + t) * ratio  # for a β whose square would overflow
        return torch.where(
            huge, 2 * x_over_b / (1 / b + (1 / b**2 + 4 * (1 - 1 / b) * x_over_b).sqrt()), p
        )

    low, high = torch.full_like(top, -750.0), torch.zeros_like(top)  # of the logarithm of 1 - t
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rest = middle.exp()
        too_small = others(rest).sum(dim=-1, keepdim=True) > rest
        low, high = torch.where(too_small, middle, low), torch.where(too_small, high, middle)
    rest = low.exp()
    p = others(rest).scatter(-1, where, 1 - rest)
    return p / p.sum(dim=-1, keepdim=True)


class BetaForConfidence(NamedTuple):
    """A factor β and two numbers between which the exact one lies."""

    beta: float
    """The geometric mean of the two."""
    lower: float
    """At this β the mean confidence is larger than wanted."""
    upper: float
    """At this β the mean confidence is smaller than wanted."""


def beta_for_confidence(
    probs: TensorOrArray, confidence: float, *, dim: int | None = None
) -> BetaForConfidence:
    r"""Find the factor β for which the perfect minimiser has a given mean confidence.

    The confidence of the minimiser at an input is the largest entry of
    :func:`inverse_beta_link`. Wherever the true probabilities :math:`\pi` are positive and not
    uniform, it strictly falls with β, so each attainable mean belongs to one β. It is found by
    bisection in :math:`\log\beta`, between 1e-8 and 1e8. As :math:`\beta \to \infty`, the minimiser
    tends to :math:`p_c \propto \sqrt{\pi_c}`, which for two classes halves the log-odds: lower
    means are out of reach.

    The exact β lies between ``lower`` and ``upper``, which differ by some 1e-9 of it, or by more
    where the confidence hardly depends on β. At each of the two, the computed mean confidence lies
    on the stated side of the wanted one by more than its rounding error, for which
    :math:`4\,(1 + 1/\beta)` units in the last place of 1 are allowed: at least four times the
    largest error seen in a comparison with 60 digits.

    Args:
        probs: true probabilities :math:`\pi` of the inputs, shaped as in :func:`beta_link`: a
            tensor or an array of any floating type.
        confidence: the wanted mean confidence.
        dim: the class dimension, as in :func:`beta_link`.

    Returns:
        β, and the two numbers between which the exact one lies.

    Raises:
        ValueError: if ``probs`` are not probabilities, or if no β from 1e-8 to 1e8 has this mean
            confidence; the message gives the range that is attained.

    Example:
        >>> import torch
        >>> found = beta_for_confidence(torch.tensor([[0.9, 0.1]], dtype=torch.float64), 0.95)
        >>> round(found.beta, 6)      # 0.9 : 0.1 = 0.95 (1 + 19 β) : 0.05 (19 + β)
        0.431818
        >>> found.lower < 152 / 352 < found.upper
        True

    References:
        Derived in the theory chapter on calibration; not in the papers.
    """
    pi, one, _ = _link_arguments(probs, 1.0, dim)
    if not isinstance(confidence, Real):
        raise ValueError(f"confidence must be a number; got {confidence!r}")

    def mean(beta: float) -> float:
        with torch.no_grad():
            return float(_minimiser(pi, beta * one).amax(dim=-1).mean())

    def rounding(beta: float) -> float:
        return 4 * torch.finfo(torch.float64).eps * (1 + 1 / beta)

    lower, upper = _SMALLEST_BETA, _LARGEST_BETA
    most, least = mean(lower) - rounding(lower), mean(upper) + rounding(upper)
    if most <= least:
        raise ValueError(
            "the mean confidence does not depend on beta, as every row of probs is uniform over "
            f"its classes that are not 0; it is {mean(1.0):.6g}"
        )
    if not least < confidence < most:
        raise ValueError(
            f"confidence must lie between {least:.6g} (beta = {upper:g}) and {most:.6g} (beta = "
            f"{lower:g}), which these probs attain; it is {confidence}"
        )
    too_large = upper  # at lower the mean is surely larger than wanted, here it may not be
    while too_large / lower > 1 + _ACCURACY / 2:
        middle = math.sqrt(lower * too_large)
        if mean(middle) - rounding(middle) > confidence:
            lower = middle
        else:
            too_large = middle
    width = _ACCURACY / 2
    while lower * (1 + width) < upper:  # to the first place where it is surely smaller
        further = lower * (1 + width)
        if mean(further) + rounding(further) < confidence:
            upper = further
        width *= 2
    return BetaForConfidence(math.sqrt(lower * upper), lower, upper)


def _link_arguments(
    probs: ArrayOrTensor, beta: float | Tensor | FloatArray, dim: int | None
) -> tuple[Tensor, Tensor, int]:
    """Return probabilities ``[..., C]`` and β with a class dimension to broadcast, in float64.

    The third value is the dimension in which the classes were.
    """
    tensor = to_tensor(probs, "probs")
    if tensor.ndim == 0:
        raise ValueError("probs must have a class dimension: shape [C], [N, C] or [N, C, d1, ...]")
    p, dim = tensor.to(torch.float64), class_dimension(tensor.ndim, dim)
    hidden = is_transformed()  # under torch.func.vmap and the like no value can be read
    if not hidden:
        p = check_probabilities(p, floating_type(tensor), dim)
    p = p.movedim(dim, -1)
    if isinstance(beta, bool):
        raise ValueError(f"beta must be a number or values that broadcast; got {beta!r}")
    try:
        b = torch.as_tensor(beta, dtype=torch.float64, device=p.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"beta must be a number or values that broadcast; got {beta!r}") from error
    if not hidden and not (torch.isfinite(b) & (b > 0)).all():
        raise ValueError(f"beta must be finite and positive, not {beta}")
    if b.numel() == 1:
        b = b.reshape(())
    try:
        return p, b.expand(p.shape[:-1]).unsqueeze(-1), dim
    except RuntimeError:
        raise ValueError(
            f"beta of shape {list(b.shape)} must broadcast to {list(p.shape[:-1])}, that of probs "
            "without classes"
        ) from None
