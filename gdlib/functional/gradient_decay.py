"""The cross-entropy with probability-dependent gradient decay."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gdlib.functional import fused
from gdlib.functional.options import Batch, Reduction, number_if_positional, positive, readable


def penalty(x: Tensor, beta: float | Tensor) -> Tensor:
    """Compute J of the log-sum-exp of the other classes less the true logit, :math:`x = r_c - z_c`, and β."""
    return torch.logaddexp(x, torch.log(beta) if isinstance(beta, Tensor) else x.new_full((), math.log(beta)))  # J = log(e^x + β)


@number_if_positional("beta", 2)
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
    r"""Cross-entropy with probability-dependent gradient decay (GD-softmax).

    .. math::

        J = -\log \frac{e^{z_c/\tau}}{\sum_{i \neq c} e^{z_i/\tau} + \beta\, e^{z_c/\tau}}
          = \log\left(e^{\ell} + \beta - 1\right)
          = \ell + \log\bigl(1 + (\beta - 1)\, p_c\bigr)

    with :math:`p = \mathrm{softmax}(z / \tau)` and :math:`\ell = -\log p_c`. Its gradient with respect to :math:`z_c / \tau` has the
    magnitude :math:`G = (1 - p_c) / (1 + (\beta - 1) p_c)`: :math:`\beta < 1` keeps it large until a sample is confident, :math:`\beta > 1`
    lets it fall early, :math:`\beta = 1` is the plain cross-entropy. The value tends to :math:`\log \beta` for a confident sample, and so
    is negative for :math:`\beta < 1`.

    For class probabilities :math:`t`, and for label smoothing, every class contributes as its :math:`-\log p_c` would:
    :math:`J = \sum_c t_c \left(-\log p_c + \log(1 + (\beta - 1) p_c)\right)`. With ``beta=1`` the function equals
    :func:`torch.nn.functional.cross_entropy` for every other argument, to rounding.

    Args:
        input: logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any floating type. float16 and bfloat16 are
            computed in float32 and the result has the type of ``input`` (float32 under autocast, as PyTorch's own losses do).
        target: class indices (int64 or uint8) of the shape of ``input`` without its class dimension, or class probabilities (floating) of
            the shape of ``input``.
        beta: the gradient-decay factor :math:`\beta > 0`; a number, or a tensor that broadcasts to the shape of the class indices: one
            value for each sample. Gradients flow into a tensor that asks for them. A tensor goes by keyword, ``beta=...``, because in its
            place :func:`torch.nn.functional.cross_entropy` takes the weights of the classes.
        temperature: :math:`\tau > 0`, a number or a tensor, as ``beta``.
        weight: a factor for each class, of shape ``[C]``. As in PyTorch, the mean over class indices divides by the sum of the weights
            used.
        ignore_index: class index whose samples count for nothing. Only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for a ``beta`` or ``temperature`` that is not a finite positive number or does not broadcast, for shapes or types that
            do not fit, and for a class index outside ``[0, C)``. The values of a tensor are looked at only where that costs no device
            synchronisation: on the CPU, outside ``torch.compile`` and ``torch.func`` transforms.
        TypeError: for a tensor as third positional argument.

    Example:
        >>> import torch
        >>> logits, labels = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> gd_cross_entropy(logits, labels, beta=1.0, reduction="none")      # the plain cross-entropy
        tensor([0.1269, 1.3133])
        >>> gd_cross_entropy(logits, labels, beta=0.1, reduction="none")      # log(exp(-2) + 0.1), log(e + 0.1)
        tensor([-1.4467,  1.0361])

    References:
        *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 5 (with its missing brackets) and 8-11; version 2,
        eq. 5 and 7-10.
    """
    usual = type(beta) is float and type(temperature) is float and weight is None and reduction == "mean" and ignore_index < 0
    if usual and temperature == 1.0 and label_smoothing == 0.0 and _needs_no_checks(input, target, beta):  # type: ignore[arg-type]
        try:
            return fused.GradientDecay.apply(input, target.unsqueeze(1), beta, 1, "mean", None, None)
        except fused.NoClassError:
            pass  # a label is no class: what follows says which
    batch = Batch(input, target, weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)
    beta = batch.parameter("beta", beta, positive)
    temperature = batch.parameter("temperature", temperature, positive)
    logits = batch.values if type(temperature) is float and temperature == 1.0 else batch.values / temperature
    if not fused.serves(logits, beta) or (batch.soft and target.requires_grad):
        return batch.reduce(penalty(batch.gap(logits), beta))
    if batch.mixed:
        loss = batch.reduce_mixed(_against_shares(batch, logits, beta))
    elif weight is None and reduction != "none" and readable(target) and bool(batch.valid.all()):
        loss = fused.GradientDecay.apply(logits, batch.true_class, beta, batch.dim, reduction, None, None)
    else:
        losses = fused.GradientDecay.apply(logits, batch.true_class, beta, batch.dim, "none", None, None)
        loss = batch.reduce_true(losses.unsqueeze(batch.dim))
    return loss.to(batch.result_dtype)


def _needs_no_checks(input: Tensor, target: Tensor, beta: float) -> bool:
    """Say whether this is the usual call, on a CPU, where even a microsecond of checks would show in a small batch."""
    if not (type(input) is Tensor and type(target) is Tensor and input.is_cpu and target.is_cpu):
        return False
    usual = input.dtype is torch.float32 and target.dtype is torch.int64 and input.ndim == 2 and target.shape == input.shape[:1]
    return usual and fused.serves(input, beta) and target.min().item() >= 0  # none is ignored; the gather finds those too large


def _against_shares(batch: Batch, logits: Tensor, beta: float | Tensor) -> Tensor:
    """Compute the losses against class probabilities, or class indices with label smoothing."""
    share, factors = 1 - batch.smoothing, None if batch.weight is None else batch.over_dims(batch.weight)
    spread = (logits.new_ones([1] * logits.ndim) if factors is None else factors) * (batch.smoothing / batch.classes)
    if batch.soft:
        shares = spread + batch.target.to(logits) * share * (1.0 if factors is None else factors)
        return fused.GradientDecay.apply(logits, None, beta, batch.dim, "none", shares, None)
    own = logits.new_full(batch.true_class.shape, share)
    if factors is not None:
        own = own * factors.expand(logits.shape).gather(batch.dim, batch.true_class)
    return fused.GradientDecay.apply(logits, batch.true_class, beta, batch.dim, "none", spread, own)
