"""The cross-entropy with probability-dependent gradient decay."""

from __future__ import annotations

import torch
from torch import Tensor

from gdlib.functional.forward_gradient import GradientInForward, fast_path_serves, on_cpu
from gdlib.functional.inputs import check_logits, check_options, check_target, compute_in, over_classes, positive
from gdlib.functional.reduction import Reduction, gather_checked, reduce_classes, reduce_indices, valid_index
from gdlib.functional.target_logit import gd_every_class, gd_true_class

__all__ = ["gd_cross_entropy"]


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
            value for each sample. Gradients flow into a tensor that asks for them.
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
            return GradientInForward.apply(input, target, beta, 1, "mean")
        except (RuntimeError, IndexError):
            pass  # an index that cannot be gathered is either ignored or wrong: the way below tells which
    class_dim = check_logits(input)
    soft = check_target(input, target, class_dim)
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :] if soft else target.shape
    beta = positive("beta", beta, index_shape)
    temperature = positive("temperature", temperature, index_shape)
    check_options(input, weight, ignore_index, reduction, label_smoothing, class_dim, soft)

    logits, result_dtype = compute_in(input)
    if isinstance(temperature, Tensor) or temperature != 1.0:
        logits = logits / over_classes(temperature, class_dim, logits)

    if soft or label_smoothing > 0:
        per_class = gd_every_class(logits, beta, class_dim)  # [N, C, d1, ...]
        loss = reduce_classes(per_class, target, weight, ignore_index, reduction, label_smoothing, class_dim, soft)
    else:
        loss = _gd_indices(logits, target, beta, weight, ignore_index, reduction, class_dim)
    return loss if loss.dtype == result_dtype else loss.to(result_dtype)


def _needs_no_checks(input: Tensor, target: Tensor, beta: float) -> bool:
    """The usual call, on a CPU, where even a microsecond of checks would show in a small batch."""
    return (
        type(input) is Tensor
        and type(target) is Tensor
        and input.dtype is torch.float32
        and target.dtype is torch.int64
        and input.ndim == 2
        and target.shape == input.shape[:1]
        and on_cpu(input)
        and fast_path_serves(input, beta)
    )


def _gd_indices(
    logits: Tensor, target: Tensor, beta: float | Tensor, weight: Tensor | None, ignore_index: int, reduction: Reduction, class_dim: int
) -> Tensor:
    """The reduced loss against class indices."""
    fast = fast_path_serves(logits, beta)
    if fast and weight is None and reduction != "none" and on_cpu(logits) and not 0 <= ignore_index < logits.shape[class_dim]:
        try:
            return GradientInForward.apply(logits, target.long(), beta, class_dim, reduction)
        except (RuntimeError, IndexError):
            pass
    valid, index = valid_index(target, ignore_index)
    if fast:
        gather_checked(logits.detach(), index, class_dim)
        per_sample = GradientInForward.apply(logits, index, beta, class_dim, "none")
    else:
        per_sample = gd_true_class(logits, index, beta, class_dim)
    return reduce_indices(per_sample, index, valid, weight, reduction)
