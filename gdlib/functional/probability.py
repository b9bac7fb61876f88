r"""Losses that weight the gradient by the probability, and gradient decay from a cross-entropy.

With :math:`x = \log \sum_{i \neq c} e^{z_i} - z_c` the cross-entropy is :math:`\ell =
\mathrm{softplus}(x)`, and :math:`p_c = e^{-\ell}`. No digit of :math:`1 - p_c` or of :math:`p_c` is
lost, nor of their gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gdlib.functional._arguments import (
    Reduction,
    check_not_meta,
    check_parameter,
    compute_in,
    extremes,
    log_add_exp,
    log_number,
    softplus,
    tensor_by_keyword,
)
from gdlib.functional._reduction import Batch

_GREAT_BETA = 16.0
"""From here on the gradient-decay loss of a large cross-entropy takes its other form."""


def one_minus_exp(x: Tensor) -> Tensor:
    """Compute 1 - exp(-x) for x >= 0 and its gradient exp(-x), both to full precision."""
    small = x <= 1.0
    # the gradient of expm1 is its value plus 1, which has lost its digits where x is large
    return torch.where(small, -torch.expm1(-torch.where(small, x, 1.0)), 1.0 - torch.exp(-x))


def _above_one_minus_exp(x: Tensor) -> Tensor:
    """Compute x - (1 - exp(-x)) for x >= 0, by its series where the two are close."""
    small = torch.where(x < 0.25, x, 0.0)
    series = torch.ones_like(x)
    for k in range(13, 2, -1):
        series = 1 - small / k * series
    return torch.where(x < 0.25, small * small / 2 * series, x - one_minus_exp(x))


@tensor_by_keyword("q")
def generalized_cross_entropy(
    input: Tensor,
    target: Tensor,
    q: float | Tensor = 0.7,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute the generalised cross-entropy, between the cross-entropy and the absolute error.

    .. math:: J = \frac{1 - p_c^{\,q}}{q}

    Its gradient is that of the cross-entropy times :math:`p_c^{\,q}`, so samples whose label is
    improbable, such as mislabelled ones, count for little. For :math:`q \to 0` it is the
    cross-entropy; for :math:`q = 1` it is :func:`negative_probability`. It lies between 0 and
    :math:`1/q`. For class probabilities, and for label smoothing, :math:`J = \sum_c t_c J_c`.

    Args:
        input: logits :math:`z`, ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities.
        q: :math:`0 < q \le 1`, a number or a tensor that broadcasts to the class indices.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> logits, labels = torch.tensor([[0.0, 0.0]]), torch.tensor([0])
        >>> loss = generalized_cross_entropy(logits, labels, q=0.5)
        >>> round(loss.item(), 4)  # (1 - sqrt(1/2)) / (1/2)
        0.5858

    References:
        *Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels* (Zhang
        and Sabuncu, NeurIPS 2018); q = 0.7 is that of its experiments.
    """
    batch = Batch(input, target, weight, ignore_index, reduction, label_smoothing)
    q = batch.parameter("q", q, "in (0, 1]")
    # a smaller q means the cross-entropy to the last digit, but gives 0 / 0 here
    least = torch.finfo(batch.dtype).eps ** 2
    q = q.clamp(min=least) if isinstance(q, Tensor) else max(q, least)
    cross_entropy = softplus(batch.log_odds_against(batch.values(input)))
    if isinstance(q, Tensor):  # infinity times the 0 of exp(-infinity) would be its derivative
        cross_entropy = cross_entropy.clamp(max=torch.finfo(cross_entropy.dtype).max / 4)
    return batch.reduce(one_minus_exp(q * cross_entropy) / q)


@tensor_by_keyword("epsilon")
def poly1_cross_entropy(
    input: Tensor,
    target: Tensor,
    epsilon: float | Tensor = 1.0,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute the Poly-1 loss: the cross-entropy with the first term of its series reweighted.

    .. math:: J = -\log p_c + \epsilon (1 - p_c)

    The cross-entropy is :math:`\sum_{j \ge 1} (1 - p_c)^j / j`; here the coefficient of :math:`1 -
    p_c` is :math:`1 + \epsilon`. The gradient with respect to :math:`z_c` has the magnitude
    :math:`(1 - p_c)(1 + \epsilon p_c)`: a positive :math:`\epsilon` keeps it larger near the end of
    training. ``epsilon=0`` is the cross-entropy. For class probabilities, and for label smoothing,
    :math:`J = \sum_c t_c J_c`.

    Args:
        input: logits :math:`z`, ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities.
        epsilon: :math:`\epsilon \ge -1`, a number or a tensor that broadcasts to the class indices.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> logits, labels = torch.tensor([[0.0, 0.0]]), torch.tensor([0])
        >>> round(poly1_cross_entropy(logits, labels).item(), 4)  # log 2 + 1/2
        1.1931

    References:
        *PolyLoss: A Polynomial Expansion Perspective of Classification Loss Functions* (Leng et
        al., ICLR 2022), where :math:`\epsilon_1 \in [-1, \infty)`.
    """
    batch = Batch(input, target, weight, ignore_index, reduction, label_smoothing)
    epsilon = batch.parameter("epsilon", epsilon, ">= -1")
    cross_entropy = softplus(batch.log_odds_against(batch.values(input)))
    losses = cross_entropy + epsilon * one_minus_exp(cross_entropy)
    near = epsilon < -0.5  # -1, where the two terms of a confident sample cancel
    if isinstance(near, Tensor) or near:
        summed = (1 + epsilon) * one_minus_exp(cross_entropy) + _above_one_minus_exp(cross_entropy)
        losses = torch.where(near, summed, losses) if isinstance(near, Tensor) else summed
    return batch.reduce(losses)


def negative_probability(
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute the negative probability of the true class, plus 1.

    .. math:: J = 1 - p_c

    It is :math:`1 - p_c` rather than :math:`-p_c` because the loss of a certain sample is then near
    0 and keeps all its digits, while :math:`-p_c` rounds to :math:`-1`; the gradient is the same.
    Its magnitude is :math:`p_c (1 - p_c)`, that of the cross-entropy times :math:`p_c`: a sample
    that the network considers improbable is hardly learnt. This gradient is also that of dynamic
    fine-tuning, :math:`-\mathrm{sg}(p_c) \log p_c`, where :math:`\mathrm{sg}(p_c)` counts as a
    constant. For class probabilities, and for label smoothing, :math:`J = \sum_c t_c (1 - p_c)`.

    Args:
        input: logits :math:`z`, ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> logits, labels = torch.tensor([[0.0, 0.0, 0.0, 0.0]]), torch.tensor([0])
        >>> negative_probability(logits, labels).item()  # 1 - 1/4
        0.75

    References:
        *Robust Loss Functions under Label Noise for Deep Neural Networks* (Ghosh, Kumar and Sastry,
        AAAI 2017), where the mean absolute error is twice this; *On the Generalization of SFT: A
        Reinforcement Learning Perspective with Reward Rectification* (Wu et al., 2025), for the
        tokens of a language model.
    """
    batch = Batch(input, target, weight, ignore_index, reduction, label_smoothing)
    return batch.reduce(one_minus_exp(softplus(batch.log_odds_against(batch.values(input)))))


def gd_from_nll(nll: Tensor, beta: float | Tensor = 1.0) -> Tensor:
    r"""Compute the gradient-decay loss from the cross-entropy of each sample or token.

    .. math:: J = \log\left(e^{\ell} - 1 + \beta\right), \qquad \ell = -\log p_c

    With it, any implementation of the cross-entropy that returns one loss for each token, such as a
    fused or a compiled one, gives :func:`gd_cross_entropy`, and gradients flow through both. Reduce
    afterwards: J of a mean is not the mean of J. A token that the cross-entropy ignores has
    :math:`\ell = 0` and so :math:`J = \log \beta`; leave it out of the sum. Where :math:`p_c` is
    near 1, J has as many digits as the given :math:`\ell`; an :math:`\ell` that rounding has put
    below 0 counts as 0.

    Args:
        nll: :math:`\ell \ge 0`, in nats, of any shape and floating type. float16 and bfloat16 are
            computed in float32; the result has the type of ``nll``, or under autocast that of the
            computation.
        beta: the gradient-decay factor :math:`\beta > 0`, a number or a tensor that broadcasts to
            ``nll``; gradients flow into a tensor that requires them. It is used in the type of the
            computation: in float32 it must lie between 1e-37 and 1e38.

    Returns:
        J, of the shape of ``nll``.

    Raises:
        ValueError: for a β that is not positive or whose shape does not broadcast, and for an
            ``nll`` that is not a floating tensor or is negative by more than rounding. Values of
            tensors are checked only where that costs no device synchronisation.

    Example:
        >>> logits, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
        >>> nll = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        >>> gd_from_nll(nll, beta=0.1).mean()  # log(exp(-2) + 0.1)
        tensor(-1.4467)

    References:
        *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 5, solved for
        the cross-entropy.
    """
    if not isinstance(nll, Tensor) or not nll.is_floating_point():
        given = nll.dtype if isinstance(nll, Tensor) else type(nll).__name__
        raise ValueError(
            f"nll must be a floating tensor, the cross-entropy of each sample; got {given}"
        )
    if isinstance(beta, Tensor):
        check_not_meta("beta", beta, nll.device)
    beta = check_parameter("beta", beta, "> 0", nll.shape)
    values, result_dtype = compute_in(nll, "nll")
    smallest, _ = extremes(nll, 0.0)  # 0 for no samples
    if smallest < -1e-3:
        raise ValueError(
            f"nll must be >= 0, it is -log of a probability; got {smallest:.4g}. Give the "
            "cross-entropy of each sample, not log-probabilities"
        )
    # rounding may have left a number below 0, which a β of its size would turn into NaN; the
    # gradient bypasses this
    values = values + (-values.detach()).clamp(min=0.0)
    if isinstance(beta, Tensor):
        beta = beta.to(values)
    large = values > 1.0
    # each form where it has all its digits; the other one gets a harmless 1, whose gradient is 0
    odds = torch.expm1(torch.where(large, 1.0, values))  # (1 - p) / p
    more = beta - 1.0
    of_small = torch.log(odds + beta)
    if isinstance(more, Tensor):
        near = more.abs() <= 0.5  # log1p keeps the digits of a J near 0
        of_small = torch.where(near, torch.log1p(torch.where(near, odds + more, 0.0)), of_small)
    elif abs(more) <= 0.5:
        of_small = torch.log1p(odds + more)
    nll_large = torch.where(large, values, 1.0)
    of_large = nll_large + torch.log1p((beta - 1.0) * torch.exp(-nll_large))
    if isinstance(beta, Tensor) or beta > _GREAT_BETA:
        # the derivative of the other form is 1 minus nearly 1 there
        log_odds = nll_large + torch.log1p(-torch.exp(-nll_large))
        log_beta = torch.log(beta) if isinstance(beta, Tensor) else log_number(beta, values)
        of_great = log_add_exp(log_odds, log_beta)
        if isinstance(beta, Tensor):
            of_great = torch.where(beta > _GREAT_BETA, of_great, of_large)
        of_large = of_great
    return torch.where(large, of_large, of_small).to(result_dtype)
