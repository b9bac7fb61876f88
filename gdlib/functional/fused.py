"""The gradient-decay loss with its gradient made in the forward pass: one array of the size of the logits instead of three."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gdlib.functional.options import PLAIN, Reduction, readable, transforms_active

_FEW_CLASSES = 16
"""Below so many classes exp of differences is faster than the softmax kernel."""
_LARGE = 1e30
"""A sum of so many can still be multiplied by the number of samples."""
_BLOCK = 2**18
"""So many logits of class probabilities are treated at a time on a CPU: what its cache holds."""
_ONE = torch.ones(())

_is_legacy_batch = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda tensor: False)


class NoClassError(Exception):
    """Raised on a CPU where an index is no class."""


def serves(logits: Tensor, beta: float | Tensor) -> bool:
    """Say whether the gradient may be made in the forward pass.

    Not while ``torch.compile`` or a ``torch.func`` transform looks on, not for forward-mode derivatives or tensor subclasses, not where β
    is learnt, and not for a β that float32 cannot multiply with a probability.
    """
    if torch.compiler.is_compiling() or transforms_active() or type(logits) not in PLAIN or logits.numel() == 0:
        return False
    if isinstance(beta, Tensor):
        if beta.requires_grad or type(beta) not in PLAIN or forward_ad.unpack_dual(beta).tangent is not None:
            return False
    elif not 1e-20 <= beta <= 1e20:
        return False
    return forward_ad.unpack_dual(logits).tangent is None


def loss_and_gradient(logits: Tensor, true_class: Tensor, beta: float | Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""Compute J of every sample, and its gradient as an array that is still to be divided by a number for each sample.

    With :math:`a = \sum_{i \neq c} e^{z_i}` and :math:`b = \beta e^{z_c}`, on any common scale, :math:`J = \log(a + b) - z_c`; the gradient
    is :math:`e^{z_i} / (a + b)` for a wrong class and :math:`-a / (a + b)` for the true one. No digit of :math:`1 - p_c` is lost, because
    the wrong classes are summed without the true one, and nothing overflows, because the scale is that of the largest class or of all.
    Losses, array and the divisors ``a + b`` keep the class dimension, as indices and β do.
    """
    if logits.ndim == 2 and logits.shape[1] < _FEW_CLASSES and readable(logits):
        return _of_few_classes(logits, true_class, beta)
    return _by_softmax(logits, true_class, beta, dim)


def _by_softmax(logits: Tensor, true_class: Tensor, beta: float | Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    powers = torch.softmax(logits, dim)
    true = _gather(powers, true_class, dim)
    log_true = true.log()
    vanished = true < 1e9 * torch.finfo(true.dtype).tiny  # a probability too small to be held with all its digits
    if not readable(logits) or bool(vanished.any()):
        distance = logits.gather(dim, true_class) - logits.amax(dim, keepdim=True)
        log_true = torch.where(vanished, distance + powers.amax(dim, keepdim=True).log(), log_true)
    powers.scatter_(dim, true_class, 0.0)
    others = powers.sum(dim, keepdim=True)
    total = others + beta * true
    losses = total.log().sub_(log_true)
    powers.scatter_(dim, true_class, others.neg_())
    return losses, powers, total


def _of_few_classes(logits: Tensor, true_class: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the same in fewer calls; the scale is that of the true class, and of the largest for samples where it is far behind."""
    true = _gather(logits, true_class, 1)
    powers = (logits - true).exp_()
    powers.scatter_(1, true_class, true - true)  # 0, or NaN for an infinite logit
    others = powers.sum(1, keepdim=True)
    total = others + beta if isinstance(beta, Tensor) else others.add(_ONE, alpha=beta)  # cheaper than to add a number
    losses = total.log()
    powers.scatter_(1, true_class, others.neg_())
    if not total.max().item() <= _LARGE:  # or NaN
        far = ~(total <= _LARGE).squeeze(1)
        again = _by_softmax(logits[far], true_class[far], beta[far] if isinstance(beta, Tensor) else beta, 1)
        for part, better in zip((losses, powers, total), again, strict=True):
            part[far] = better
    return losses, powers, total


def _gather(values: Tensor, true_class: Tensor, dim: int) -> Tensor:
    """Select the true class; on a CPU this finds an index that is no class, at no cost."""
    try:
        return values.gather(dim, true_class)
    except RuntimeError as error:
        if "out of bounds" in str(error):
            raise NoClassError from error
        raise


def differentiable_gradient(logits: Tensor, true_class: Tensor, beta: float | Tensor, dim: int) -> Tensor:
    r"""Compute the gradient of J, :math:`q - e_c`, by functions that can be derived again; q is the softmax with log β at the class c."""
    log_beta = torch.log(torch.as_tensor(beta, dtype=logits.dtype, device=logits.device))
    wrong = torch.softmax(logits.scatter_add(dim, true_class, log_beta.expand(true_class.shape)), dim)
    wrong = wrong.scatter(dim, true_class, 0.0)
    return wrong.scatter(dim, true_class, -wrong.sum(dim, keepdim=True))


def is_batch(gradient: Tensor) -> bool:
    """Say whether an incoming gradient stands for many: ``is_grads_batched=True``, or ``torch.func.vmap`` over a backward pass."""
    return transforms_active() or _is_legacy_batch(gradient)


def times(gradient: Tensor, factor: Tensor) -> Tensor:
    """Multiply an array that nobody else holds, in place unless the factor is a batch of factors."""
    if torch.is_grad_enabled() or is_batch(factor):
        return gradient * factor
    return gradient.mul_(factor)


class GradientDecay(torch.autograd.Function):
    """J; hands its gradient over in the first backward pass, and makes the same again for any further one.

    Against class indices it is reduced. With ``spread`` it is that of every sample against shares of the classes: ``spread``, which
    broadcasts to the logits, and ``own`` more at the true class, if there is one.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, true_class: Tensor | None, beta: float | Tensor, *given: Any) -> Tensor:
        """Compute the loss, and the gradient for a gradient of 1."""
        losses, gradient = _compute(logits, true_class, beta, *given)
        dim, reduction, spread, own = given
        if ctx.needs_input_grad[0]:
            ctx.gradient = gradient
            ctx.save_for_backward(logits, true_class, beta if isinstance(beta, Tensor) else None, spread, own)
            ctx.options = beta, dim, reduction
        if reduction == "mean":
            return losses.mean()
        return losses.sum() if reduction == "sum" else losses.squeeze(dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradient by the incoming one."""
        gradient, ctx.gradient = ctx.gradient, None  # drop our reference so that autograd can take the buffer
        number, dim, reduction = ctx.options
        if gradient is None or torch.is_grad_enabled():  # used again, or to be derived again
            logits, true_class, beta, spread, own = ctx.saved_tensors
            beta = number if beta is None else beta
            if not torch.is_grad_enabled():
                gradient = _compute(logits, true_class, beta, dim, reduction, spread, own)[1]
            elif spread is not None:
                gradient = _differentiable_soft_gradient(logits, true_class, beta, dim, spread, own)
            else:
                gradient = differentiable_gradient(logits, true_class, beta, dim) / (true_class.numel() if reduction == "mean" else 1)
        if reduction == "none":
            gradient = times(gradient, grad.unsqueeze(dim))
        elif not grad.is_cpu or is_batch(grad) or torch.is_grad_enabled() or grad.item() != 1.0:
            gradient = times(gradient, grad)
        return gradient, None, None, None, None, None, None


def _compute(
    logits: Tensor, true_class: Any, beta: float | Tensor, dim: int, reduction: Reduction, spread: Tensor | None, own: Tensor | None
) -> tuple[Tensor, Tensor]:
    if spread is not None:
        return _soft_loss_and_gradient(logits, true_class, beta, dim, spread, own)
    losses, gradient, divisor = loss_and_gradient(logits, true_class, beta, dim)
    return losses, gradient.div_(divisor.mul_(divisor.numel()) if reduction == "mean" else divisor)


def _soft_loss_and_gradient(
    logits: Tensor, true_class: Tensor | None, beta: float | Tensor, dim: int, spread: Tensor, own: Tensor | None
) -> tuple[Tensor, Tensor]:
    r"""Compute J and its gradient against shares a, block by block of the first dimension.

    :math:`J = \sum_c a_c (-\log p_c + \log D_c)` with :math:`D_c = 1 + (\beta - 1) p_c`; the gradient is :math:`V p - a / D` with
    :math:`V = \sum_c a_c / D_c`. Only the largest class can have p > 1/2 and lose digits of D; there it is the probability of the others
    plus β times its own.
    """
    gradient = torch.empty_like(logits)
    losses = logits.new_empty(logits.shape[:dim] + (1,) + logits.shape[dim + 1 :])
    rows = max(1, _BLOCK * len(logits) // logits.numel()) if dim and readable(logits) else len(logits)
    for start in range(0, len(logits), rows):
        block = slice(start, start + rows) if dim else ...
        b = beta[block] if isinstance(beta, Tensor) else beta
        a = spread[block] if dim and len(spread) == len(logits) else spread
        log_p = torch.log_softmax(logits[block], dim)
        p = torch.exp(log_p, out=gradient[block])
        top = p.argmax(dim, keepdim=True)
        p_top = p.gather(dim, top)
        p.scatter_(dim, top, 0.0)
        d_top = p.sum(dim, keepdim=True) + b * p_top
        p.scatter_(dim, top, p_top)
        d = (p * (b - 1)).add_(1).scatter_(dim, top, d_top)
        each = d.log().sub_(log_p)  # J, as if each class were the true one
        inverse = d.reciprocal_()
        if true_class is not None and own is not None:
            true, share = true_class[block], own[block]
            of_true, inverse_true = each.gather(dim, true) * share, inverse.gather(dim, true) * share
            losses[block] = each.mul_(a).sum(dim, keepdim=True) + of_true
            p.mul_(inverse.mul_(a).sum(dim, keepdim=True) + inverse_true).sub_(inverse).scatter_add_(dim, true, -inverse_true)
        else:
            losses[block] = each.mul_(a).sum(dim, keepdim=True)
            p.mul_(inverse.mul_(a).sum(dim, keepdim=True)).sub_(inverse)
    return losses, gradient


def _differentiable_soft_gradient(
    logits: Tensor, true_class: Tensor | None, beta: float | Tensor, dim: int, spread: Tensor, own: Tensor | None
) -> Tensor:
    shares = spread.expand(logits.shape)
    if true_class is not None and own is not None:
        shares = shares.scatter_add(dim, true_class, own)
    p = torch.softmax(logits, dim)
    top = p.argmax(dim, keepdim=True)
    d_top = p.scatter(dim, top, 0.0).sum(dim, keepdim=True) + beta * p.gather(dim, top)
    inverse = shares / (1 + (beta - 1) * p).scatter(dim, top, d_top)
    return p * inverse.sum(dim, keepdim=True) - inverse
