"""The cross-entropy with probability-dependent gradient decay, and its fast path."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gdlib.functional.inputs import check_logits, check_options, check_target, compute_in, over_classes, positive
from gdlib.functional.reduction import Reduction, gather_checked, reduce_classes, reduce_indices, valid_index

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
    class_dim = check_logits(input)
    soft = check_target(input, target, class_dim)
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :]
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
    return loss.to(result_dtype)


def _gd_indices(
    logits: Tensor, target: Tensor, beta: float | Tensor, weight: Tensor | None, ignore_index: int, reduction: Reduction, class_dim: int
) -> Tensor:
    """The reduced loss against class indices."""
    fast = fast_path_serves(logits, beta)
    if fast and weight is None and reduction != "none" and not 0 <= ignore_index < logits.shape[class_dim] and _on_cpu(logits):
        try:
            return _GradientInForward.apply(logits, target.long(), beta, class_dim, reduction)
        except (RuntimeError, IndexError):
            pass  # an index that cannot be gathered is either ignored or wrong: below
    valid, index = valid_index(target, ignore_index)
    if fast:
        gather_checked(logits.detach(), index, class_dim)
        per_sample = _GradientInForward.apply(logits, index, beta, class_dim, "none")
    else:
        per_sample = gd_true_class(logits, index, beta, class_dim)
    return reduce_indices(per_sample, index, valid, weight, reduction)


# --- the gradient-decay term, composed of differentiable functions ---


def gd_true_class(logits: Tensor, index: Tensor, beta: float | Tensor, class_dim: int) -> Tensor:
    """J of every sample: log-sum-exp of the logits with log β added at the true class, minus the true logit."""
    logits = logits - logits.detach().amax(class_dim, keepdim=True)  # keeps log β from drowning in a large logit
    true_logit = gather_checked(logits, index, class_dim)
    log_beta = _log_over_samples(beta, class_dim, logits)
    if log_beta is not None:
        logits = logits.scatter_add(class_dim, index.unsqueeze(class_dim), log_beta.unsqueeze(class_dim))
    return torch.logsumexp(logits, class_dim) - true_logit


def gd_every_class(logits: Tensor, beta: float | Tensor, class_dim: int) -> Tensor:
    """J as if each class in turn were the true one, of the shape of the logits.

    ``J_c = logaddexp(r_c - z_c, log β)``, where ``r_c`` is the log-sum-exp of the other classes.
    """
    log_beta = _log_over_samples(beta, class_dim, logits)
    if log_beta is None:
        return -torch.log_softmax(logits, class_dim)
    logits = logits - logits.detach().amax(class_dim, keepdim=True)
    return torch.logaddexp(log_of_others(logits, class_dim) - logits, log_beta.unsqueeze(class_dim))


def log_of_others(logits: Tensor, class_dim: int) -> Tensor:
    """The log-sum-exp of all other classes, for each class, of the shape of the logits.

    For all but the largest class it is the full log-sum-exp plus ``log1p(-p_c)`` with ``p_c <= 1/2``; for the largest one it is summed
    afresh, because ``1 - p_c`` has lost its digits there.
    """
    top = logits.detach().argmax(class_dim, keepdim=True)
    log_total = torch.logsumexp(logits, class_dim, keepdim=True)
    log_total_without_top = torch.logsumexp(logits.scatter(class_dim, top, -math.inf), class_dim, keepdim=True)
    probability = torch.exp(logits - log_total).scatter(class_dim, top, 0.0)
    return (log_total + torch.log1p(-probability)).scatter(class_dim, top, log_total_without_top)


# --- the same with the gradient made in the forward pass: one buffer of the size of the logits instead of three ---

_FEW_CLASSES = 16
"""Below so many classes exp of the shifted logits is faster than the softmax kernel."""

_functorch_is_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)


def fast_path_serves(logits: Tensor, beta: float | Tensor) -> bool:
    """Whether the gradient may be made in the forward pass.

    Not while ``torch.compile`` or a ``torch.func`` transform looks on, not for forward-mode derivatives or tensor subclasses, not where β
    is learnt, and not for a β that float32 cannot multiply with a probability.
    """
    if torch.compiler.is_compiling() or _functorch_is_active() or type(logits) not in _PLAIN or logits.numel() == 0:
        return False
    if isinstance(beta, Tensor):
        if beta.requires_grad or type(beta) not in _PLAIN or forward_ad.unpack_dual(beta).tangent is not None:
            return False
    elif not 1e-20 <= beta <= 1e20:
        return False
    return forward_ad.unpack_dual(logits).tangent is None


_PLAIN = (Tensor, torch.nn.Parameter)


def loss_and_gradient(logits: Tensor, index: Tensor, beta: float | Tensor, class_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""J of every sample, and its gradient as an array that is still to be divided by a number for each sample.

    With :math:`a = \sum_{i \neq c} e^{z_i}` and :math:`b = \beta e^{z_c}`, on any common scale, :math:`J = \log(a + b) - z_c`; the gradient
    is :math:`e^{z_i} / (a + b)` for a wrong class and :math:`-a / (a + b)` for the true one. No digit of :math:`1 - p_c` is lost, because
    the wrong classes are summed without the true one.

    Returns:
        The losses, the array, and the divisors ``a + b``, both with the class dimension kept.
    """
    true_class = index.unsqueeze(class_dim)
    if logits.shape[class_dim] < _FEW_CLASSES and _on_cpu(logits):
        powers = logits - logits.amax(class_dim, keepdim=True)
        log_true = powers.gather(class_dim, true_class)
        true = log_true.exp()
        powers.exp_()
    else:
        powers = torch.softmax(logits, class_dim)
        true = powers.gather(class_dim, true_class)
        log_true = true.log()
        vanished = true < 1e9 * torch.finfo(true.dtype).tiny  # a probability too small to be held with all its digits
        if not _on_cpu(logits) or bool(vanished.any()):
            distance = logits.gather(class_dim, true_class) - logits.amax(class_dim, keepdim=True)
            log_true = torch.where(vanished, distance + powers.amax(class_dim, keepdim=True).log(), log_true)
    powers.scatter_(class_dim, true_class, 0.0)
    others = powers.sum(class_dim, keepdim=True)
    total = others + over_classes(beta, class_dim, logits) * true if isinstance(beta, Tensor) else torch.add(others, true, alpha=beta)
    losses = total.log().sub_(log_true).squeeze(class_dim)
    powers.scatter_(class_dim, true_class, others.neg_())
    return losses, powers, total


class _GradientInForward(torch.autograd.Function):
    """J against class indices; hands its gradient over in the first backward pass, and makes it again for any further one."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, index: Tensor, beta: float | Tensor, class_dim: int, reduction: Reduction) -> Tensor:
        losses, gradient, divisor = loss_and_gradient(logits, index, beta, class_dim)
        if ctx.needs_input_grad[0]:
            if reduction == "mean":
                divisor.mul_(losses.numel())
            ctx.gradient = gradient.mul_(divisor.reciprocal_())
            ctx.save_for_backward(logits, index, beta if isinstance(beta, Tensor) else None)
            ctx.options = beta, class_dim, reduction
        if reduction == "none":
            return losses
        return losses.mean() if reduction == "mean" else losses.sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None, None]:
        gradient, ctx.gradient = ctx.gradient, None
        class_dim, reduction = ctx.options[1:]
        if gradient is None or torch.is_grad_enabled():
            return _differentiable_gradient(ctx, grad), None, None, None, None
        if reduction == "none":
            gradient.mul_(grad.unsqueeze(class_dim))
        elif not _on_cpu(grad) or grad.item() != 1.0:
            gradient.mul_(grad)
        return gradient, None, None, None, None


def _differentiable_gradient(ctx: Any, grad: Tensor) -> Tensor:
    """The gradient by the composed functions: for second derivatives, and where a graph is used again."""
    logits, index, beta = ctx.saved_tensors
    number, class_dim, reduction = ctx.options
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        logits = logits if again else logits.detach().requires_grad_()
        losses = gd_true_class(logits, index, number if beta is None else beta, class_dim)
        loss = losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()
        (gradient,) = torch.autograd.grad(loss, logits, grad, create_graph=again)
    return gradient


def _on_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def _log_over_samples(beta: float | Tensor, class_dim: int, logits: Tensor) -> Tensor | None:
    """Log β for each sample, in the shape of the class indices; None where β is the number 1, which needs no work."""
    index_shape = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    if isinstance(beta, Tensor):
        return torch.log(beta.to(logits)).expand(index_shape)
    return None if beta == 1.0 else logits.new_full(index_shape, math.log(beta))
