"""The gradient-decay loss with its gradient made in the forward pass: one array of the size of the logits instead of three."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gdlib.functional.inputs import over_classes
from gdlib.functional.reduction import Reduction
from gdlib.functional.target_logit import gd_true_class

_PLAIN = (Tensor, torch.nn.Parameter)

_FEW_CLASSES = 16
"""Below so many classes exp of differences is faster than the softmax kernel."""

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


def on_cpu(tensor: Tensor) -> bool:
    """Whether a value of the tensor can be looked at without waiting for a device."""
    return tensor.device.type == "cpu"


def loss_and_gradient(logits: Tensor, index: Tensor, beta: float | Tensor, class_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    r"""J of every sample, and its gradient as an array that is still to be divided by a number for each sample.

    With :math:`a = \sum_{i \neq c} e^{z_i}` and :math:`b = \beta e^{z_c}`, on any common scale, :math:`J = \log(a + b) - z_c`; the gradient
    is :math:`e^{z_i} / (a + b)` for a wrong class and :math:`-a / (a + b)` for the true one. No digit of :math:`1 - p_c` is lost, because
    the wrong classes are summed without the true one.

    Returns:
        The losses, the array, and the divisors ``a + b``, all with the class dimension kept.
    """
    if isinstance(beta, Tensor):
        beta = over_classes(beta, class_dim, logits)
    if not _few(logits):
        return _relative_to_all_classes(logits, index, beta, class_dim)
    parts = _relative_to_the_true_class(logits, index, beta)
    _repair(parts, parts[0].sum(), logits, index, beta)
    return parts


def _few(logits: Tensor) -> bool:
    return logits.ndim == 2 and logits.shape[1] < _FEW_CLASSES and on_cpu(logits)


def _repair(parts: tuple[Tensor, Tensor, Tensor], total: Tensor, logits: Tensor, index: Tensor, beta: float | Tensor) -> bool:
    """Whether exp has overflowed somewhere, because the true logit is far behind; those samples are made again."""
    if math.isfinite(total.item()):
        return False
    far = ~parts[0].isfinite().squeeze(1)
    again = _relative_to_all_classes(logits[far], index[far], beta[far] if isinstance(beta, Tensor) else beta, 1)
    for part, better in zip(parts, again, strict=True):
        part[far] = better
    return True


def _relative_to_all_classes(logits: Tensor, index: Tensor, beta: float | Tensor, class_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """By the softmax; the common scale is the sum over all classes."""
    true_class = index.unsqueeze(class_dim)
    powers = torch.softmax(logits, class_dim)
    true = powers.gather(class_dim, true_class)
    log_true = true.log()
    vanished = true < 1e9 * torch.finfo(true.dtype).tiny  # a probability too small to be held with all its digits
    if not on_cpu(logits) or bool(vanished.any()):
        distance = logits.gather(class_dim, true_class) - logits.amax(class_dim, keepdim=True)
        log_true = torch.where(vanished, distance + powers.amax(class_dim, keepdim=True).log(), log_true)
    powers.scatter_(class_dim, true_class, 0.0)
    others = powers.sum(class_dim, keepdim=True)
    total = others + beta * true
    losses = total.log().sub_(log_true)
    powers.scatter_(class_dim, true_class, others.neg_())
    return losses, powers, total


def _relative_to_the_true_class(logits: Tensor, index: Tensor, beta: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In fewer calls, for logits ``[N, C]``; the common scale is the true class, so that exp overflows where that is far behind."""
    true_class = index.unsqueeze(1)
    powers = (logits - logits.gather(1, true_class)).exp_()
    powers.scatter_(1, true_class, beta)
    total = powers.sum(1, keepdim=True)
    powers.scatter_(1, true_class, total.neg().add_(beta))
    return total.log(), powers, total


class GradientInForward(torch.autograd.Function):
    """J against class indices; hands its gradient over in the first backward pass, and makes it again for any further one."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, index: Tensor, beta: float | Tensor, class_dim: int, reduction: Reduction) -> Tensor:
        """The reduced loss, and the gradient for a gradient of 1."""
        few = reduction != "none" and not isinstance(beta, Tensor) and _few(logits)
        parts = _relative_to_the_true_class(logits, index, beta) if few else loss_and_gradient(logits, index, beta, class_dim)
        loss = _reduced(parts[0], reduction, class_dim)
        if few and _repair(parts, loss, logits, index, beta):
            loss = _reduced(parts[0], reduction, class_dim)
        if ctx.needs_input_grad[0]:
            losses, gradient, divisor = parts
            if reduction == "mean":
                divisor.mul_(losses.numel())
            ctx.gradient = gradient.div_(divisor) if few else gradient.mul_(divisor.reciprocal_())
            ctx.save_for_backward(logits, index, beta if isinstance(beta, Tensor) else None)
            ctx.options = beta, class_dim, reduction
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        """The gradient times the incoming one, in place."""
        gradient, ctx.gradient = ctx.gradient, None  # no second name for it, so that autograd need not copy it
        class_dim, reduction = ctx.options[1:]
        if gradient is None or torch.is_grad_enabled():
            return _differentiable_gradient(ctx, grad), None, None, None, None
        if reduction == "none":
            gradient.mul_(grad.unsqueeze(class_dim))
        elif not on_cpu(grad) or grad.item() != 1.0:
            gradient.mul_(grad)
        return gradient, None, None, None, None


def _reduced(losses: Tensor, reduction: Reduction, class_dim: int) -> Tensor:
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses.squeeze(class_dim)


def _differentiable_gradient(ctx: Any, grad: Tensor) -> Tensor:
    """The gradient by composed functions: for second derivatives, and where a graph is used again."""
    logits, index, beta = ctx.saved_tensors
    number, class_dim, reduction = ctx.options
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        logits = logits if again else logits.detach().requires_grad_()
        losses = gd_true_class(logits, index, number if beta is None else beta, class_dim)
        (gradient,) = torch.autograd.grad(_reduced(losses.unsqueeze(class_dim), reduction, class_dim), logits, grad, create_graph=again)
    return gradient
