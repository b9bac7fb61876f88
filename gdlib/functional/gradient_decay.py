"""The cross-entropy with probability-dependent gradient decay."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from gdlib.functional import _fused
from gdlib.functional._arguments import (
    Reduction,
    has_tangent,
    log_add_exp,
    log_number,
    scaled,
    tensor_by_keyword,
    widest,
)
from gdlib.functional._reduction import Batch


@tensor_by_keyword("beta")
def gd_cross_entropy(
    input: Tensor,
    target: Tensor,
    beta: float | Tensor = 1.0,
    *,
    temperature: float | Tensor = 1.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute the cross-entropy with probability-dependent gradient decay (GD-softmax).

    .. math::

        J = -\log \frac{e^{z_c/\tau}}{\sum_{i \neq c} e^{z_i/\tau} + \beta\, e^{z_c/\tau}}
          = \log\left(e^{\ell} + \beta - 1\right)
          = \ell + \log\bigl(1 + (\beta - 1)\, p_c\bigr)

    in nats, with :math:`p = \mathrm{softmax}(z / \tau)` and :math:`\ell = -\log p_c`. Its gradient
    with respect to :math:`z_c / \tau` has the magnitude :math:`G = (1 - p_c) / (1 + (\beta - 1)
    p_c)`: :math:`\beta < 1` keeps it large until a sample is confident, :math:`\beta > 1` lets it
    fall early, :math:`\beta = 1` is the plain cross-entropy. The value tends to :math:`\log \beta`
    for a confident sample, and so is negative for :math:`\beta < 1`.

    For class probabilities :math:`t`, and for label smoothing, every class contributes as its
    :math:`-\log p_c` would: :math:`J = \sum_c t_c \left(-\log p_c + \log(1 + (\beta - 1)
    p_c)\right)`, and a share of 0 of an infinite loss is 0. With ``beta=1`` the function equals
    :func:`torch.nn.functional.cross_entropy` up to rounding, whatever the other arguments, except
    that the mean leaves out samples whose class probabilities are all 0, which PyTorch counts, and
    that what does not count has the gradient 0 where PyTorch has NaN: a sample with NaN logits, or
    a batch whose class weights are all 0.

    Args:
        input: logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any
            floating type. float16 and bfloat16 are computed in float32; the result has the type of
            the input, or under autocast that of the computation, as with PyTorch's own losses.
        target: class indices (int64 or uint8) in the shape of the logits without the class
            dimension, or class probabilities (floating) in the shape of the logits, which sum to 1,
            or are all 0 for a sample that does not count.
        beta: the gradient-decay factor :math:`\beta > 0`; a number, or a tensor that broadcasts to
            the shape of the class indices: one value for each sample. Gradients flow into a tensor
            that requires them; since J grows with β, they alone drive it to 0. A tensor must be
            given by keyword: :func:`torch.nn.functional.cross_entropy` takes class weights in this
            position, so a positional tensor raises a TypeError. On a GPU the values of a tensor
            must lie in [1e-20, 1e20], which is not checked; elsewhere β may be any positive number.
        temperature: :math:`\tau > 0`, a number or a tensor, like ``beta``.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples are ignored; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a parameter outside its bounds or of a shape that does not broadcast, for
            other shapes or types that do not fit, for a class index outside ``[0, C)``, and for
            class probabilities that are negative, do not sum to 1, or are 0 for the only class.
            Values of tensors are checked only where that costs no device synchronisation: on the
            CPU, outside ``torch.compile`` and ``torch.func`` transforms.
        TypeError: for a tensor ``beta`` that is not given by keyword.

    Example:
        >>> import torch
        >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> gd_cross_entropy(logits, labels, beta=1.0, reduction="none")  # the plain cross-entropy
        tensor([0.1269, 1.3133])

        log(exp(-2) + 0.1) and log(e + 0.1):

        >>> gd_cross_entropy(logits, labels, beta=0.1, reduction="none")
        tensor([-1.4467,  1.0361])

    References:
        *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 5 (brackets
        added), 8-11; version 2, eq. 5, 7-10.
    """
    # the usual call; in a small batch the checks below would be noticeable
    if (
        type(beta) is float
        and type(temperature) is float
        and temperature == 1.0
        and weight is None
        and type(ignore_index) is int
        and ignore_index == -100
        and reduction == "mean"
        and type(label_smoothing) is float
        and label_smoothing == 0.0
    ):
        loss = _fused.usual_mean(
            input,
            target,
            beta,
            lambda logits: _eager(Batch(logits, target), beta, logits),
        )
        if loss is not None:
            return loss
    batch = Batch(input, target, weight, ignore_index, reduction, label_smoothing)
    beta = batch.check("beta", beta, "> 0")
    temperature = batch.parameter("temperature", temperature, "> 0")
    if isinstance(temperature, Tensor):
        logits = scaled(batch.values(input), temperature, torch.div)
    elif temperature != 1.0:
        logits = input.to(batch.dtype) / temperature
    elif isinstance(beta, Tensor) or batch.mixed or not _fused.widened_by_blocks(input, target):
        logits = input.to(batch.dtype)
    else:
        logits = input  # bfloat16, widened a block at a time
    watched = [value for value in (target, beta, batch.weight) if isinstance(value, Tensor)]
    derived = any(value.requires_grad or has_tangent(value) for value in watched)
    if derived or not _fused.is_fusable(logits, beta):
        return _eager(batch, beta, logits)
    make = functools.partial(_fused.loss_and_gradient, batch, batch.over_classes(beta))
    if not _fused.needs_gradient(logits):
        return make(logits, wants_gradient=False)[0]
    eager = functools.partial(_eager, batch, beta)
    return _fused.GradientInForward.apply(logits, make, eager, *watched)


def _eager(batch: Batch, beta: float | Tensor, logits: Tensor) -> Tensor:
    """Compute the reduced J, log(e^x + β), for a β of any size."""
    x = batch.log_odds_against(batch.values(logits))
    if isinstance(beta, Tensor):
        wide = widest(x.device)
        dtype = wide if beta.dtype == wide else x.dtype
        log_beta = torch.log(batch.over_classes(beta, dtype)).to(x.dtype)
    else:
        log_beta = log_number(beta, x)
    return batch.reduce(log_add_exp(x, log_beta))
