"""The gradient-decay loss with its gradient computed in the forward pass.

It needs one array of the size of the logits instead of three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gdlib.functional._arguments import (
    PLAIN,
    extremes,
    has_tangent,
    is_transformed,
    readable,
    transforms_active,
)
from gdlib.functional._reduction import Batch, shared

_FEW_CLASSES = 16
"""With fewer classes, exp of differences is faster than the softmax kernel."""
_LARGE = 1e30
"""A sum of this size can still be multiplied by the number of samples."""
_BLOCK = 2**18
"""Logits processed at a time on a CPU: as many as its cache holds."""
_SMALLEST_BETA, _SMALLEST_BETA_FLOAT32, _LARGEST_BETA = 1e-20, 1e-6, 1e20
_ONE = torch.ones((), device="cpu")
_TINY = {dtype: torch.finfo(dtype).tiny for dtype in (torch.float32, torch.float64)}

_is_legacy_batch: Callable[[Tensor], bool] = getattr(
    getattr(torch._C, "_functorch", None), "is_legacy_batchedtensor", lambda tensor: True
)

_modes: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)

_default_hooks: Callable[[bool], object] = getattr(
    torch._C._autograd, "_top_saved_tensors_default_hooks", lambda tracing: True
)


def saved_tensors_are_hooked() -> bool:
    """Say whether hooks ask for all tensors that a backward pass needs.

    An activation checkpoint is such a hook; :func:`torch.autograd.graph.saved_tensors_hooks` sets
    them. They see what ``save_for_backward`` gets, from which autograd cannot take the buffer.
    Where PyTorch cannot tell, the answer is always yes.
    """
    return _default_hooks(False) is not None


def is_batched(gradient: Tensor) -> bool:
    """Say whether an incoming gradient stands for many.

    It does with ``is_grads_batched=True``, and with ``torch.func.vmap`` over a backward pass. Where
    PyTorch cannot tell, the answer is always yes; then nothing is done in place.
    """
    return transforms_active() or _is_legacy_batch(gradient)


def multiply_in_place(gradient: Tensor, factor: Tensor) -> Tensor:
    """Multiply an array that nobody else holds, in place unless the factor stands for many."""
    if is_batched(factor) or has_tangent(factor):
        return gradient * factor
    return gradient.mul_(factor)


class GradientInForward(torch.autograd.Function):
    """Compute the gradient in the forward pass, and hand it over in the first backward pass.

    Any other backward pass computes it again.

    ``make`` returns the loss of logits, its gradient and, where some samples may not count, a mask
    of those that do, which broadcasts to the gradient. ``eager`` returns only the loss, by
    functions that can be differentiated again. Both may read the ``watched`` tensors: autograd
    makes sure that they have not changed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        make: Callable[[Tensor], tuple[Tensor, ...]],
        eager: Callable[[Tensor], Tensor],
        *watched: Tensor,
    ) -> Tensor:
        """Compute the loss, and its gradient for an incoming gradient of 1."""
        loss, gradient, *counted = make(logits)
        ctx.functions = make, eager, *counted
        watches = saved_tensors_are_hooked()
        ctx.gradient = None if watches else gradient
        ctx.save_for_backward(logits, gradient if watches else None, *watched)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradient by the incoming one."""
        gradient = ctx.gradient
        ctx.gradient = None  # drop our reference so that autograd can take the buffer
        make, eager, *counted = ctx.functions
        others = (None,) * (len(ctx.needs_input_grad) - 1)
        if torch.is_grad_enabled():  # to be differentiated again
            # a view: the inner pass ends at it, and not at what the logits were made of
            logits = ctx.saved_tensors[0]
            logits = logits.view_as(logits)
            return *torch.autograd.grad(eager(logits), logits, grad, create_graph=True), *others
        if gradient is None:
            logits, saved, *_ = ctx.saved_tensors
            # a hook may still hold what was saved; without one, the graph is used again
            gradient = make(logits)[1] if saved is None else saved.clone()
        changed = grad.ndim or not grad.is_cpu or is_batched(grad) or has_tangent(grad)
        if changed or grad.item() != 1.0:
            multiply = getattr(make, "multiply", multiply_in_place)  # a kernel has its own
            gradient = multiply(gradient, incoming(grad, *counted))
        return gradient, *others


def incoming(grad: Tensor, counted: Tensor | None = None) -> Tensor:
    """Shape an incoming gradient as a factor of the logits' gradient.

    It is 0 for samples that do not count, since their gradient of 0 times NaN would be NaN.
    """
    factor = grad.unsqueeze(1) if grad.ndim else grad
    return factor if counted is None else torch.where(counted, factor, 0.0)


def results_are_kept() -> bool:
    """Say whether a selective activation checkpoint may keep what single operations return.

    Then nothing may be changed in place.
    """
    if not _modes():
        return False
    stack = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return any(type(mode).__module__ == "torch.utils.checkpoint" for mode in stack)


def is_fusable(logits: Tensor, beta: float | Tensor) -> bool:
    """Say whether the gradient may be computed in the forward pass.

    Not while a compiler, a tracer or a ``torch.func`` transform is active, nor in a selective
    activation checkpoint; not for forward-mode derivatives or tensor subclasses, not where β is
    learnt, and not for a β that would cost digits: a gradient is 1 - p over β + 1 - p, and a small
    1 - p has few digits left. On a GPU the values of a tensor are not read.
    """
    if is_transformed() or type(logits) not in PLAIN or logits.numel() == 0:
        return False
    if results_are_kept():
        return False
    if isinstance(beta, Tensor):
        if beta.requires_grad or type(beta) not in PLAIN or has_tangent(beta):
            return False
        smallest, largest = extremes(beta)
    else:
        smallest = largest = beta
    least = _SMALLEST_BETA if logits.dtype is torch.float64 else _SMALLEST_BETA_FLOAT32
    return least <= smallest <= largest <= _LARGEST_BETA and not has_tangent(logits)


def usual_mean(
    logits: Tensor, target: Tensor, beta: float, eager: Callable[[Tensor], Tensor]
) -> Tensor | None:
    """Compute the mean over logits ``[N, C]`` on a CPU; return None for any other call.

    In a small batch, a microsecond of checks is noticeable.
    """
    if not (
        type(logits) is type(target) is Tensor
        and logits.dtype is torch.float32
        and target.dtype is torch.int64
        and logits.is_cpu
        and target.is_cpu
        and logits.ndim == 2
        and target.shape == logits.shape[:1]
        and is_fusable(logits, beta)
    ):
        return None
    samples, classes = logits.shape
    if logits.numel() > _BLOCK:
        smallest, largest = target.aminmax()
        if smallest.item() < 0 or largest.item() >= classes:  # ignored, or no class
            return None
    column = target.unsqueeze(1)
    few = classes < _FEW_CLASSES  # as in against_classes, which would repeat the checks

    def make(logits: Tensor, wants_gradient: bool = True) -> tuple[Tensor, Tensor]:
        if few:
            losses, gradient = _of_few_classes(logits, column, beta, samples, wants_gradient)
        else:
            losses, gradient = _by_softmax(logits, column, beta, 1, samples, wants_gradient)
        return losses.sum().div_(samples), gradient  # faster than mean()

    # A small batch is not searched for an index that is ignored or is not a class: the first gather
    # refuses it. Whatever fails here is computed with care by the caller, or fails there with an
    # error that says why.
    try:
        if needs_gradient(logits):
            return GradientInForward.apply(logits, make, eager, target)
        return make(logits, wants_gradient=False)[0]
    except (IndexError, RuntimeError):
        return None


def widened_by_blocks(logits: Tensor, target: Tensor) -> bool:
    """Say whether bfloat16 logits on a CPU, with class indices, may stay as they are.

    A gradient in bfloat16 has the exponent range of float32; one in float16 could be 0 before the
    factor of a GradScaler is applied.
    """
    return (
        type(target) is type(logits) is Tensor
        and logits.dtype is torch.bfloat16
        and readable(logits)
        and logits.ndim > 1
        and logits.shape[1] >= _FEW_CLASSES
    )


def needs_gradient(logits: Tensor) -> bool:
    """Say whether a backward pass may follow."""
    return torch.is_grad_enabled() and logits.requires_grad


def loss_and_gradient(
    batch: Batch, beta: float | Tensor, logits: Tensor, *, wants_gradient: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the reduced J of a batch with these logits, and its gradient if wanted.

    The third result says which samples count, with the class dimension.
    """
    if batch.mixed:
        losses, gradient = _against_shares(batch, logits, beta, wants_gradient)
    else:
        divisor = 1 / batch.scales()
        losses, gradient = against_classes(
            logits, batch.true_class, beta, batch.dim, divisor, wants_gradient=wants_gradient
        )
    loss = batch.reduce_samples(losses.squeeze(batch.dim), weighted=batch.mixed)
    counted = batch.valid.unsqueeze(batch.dim)
    if wants_gradient and not (readable(counted) and counted.all()):
        gradient.masked_fill_(~counted, 0.0)  # NaN and infinity among the logits leave NaN there
    return loss.to(batch.result_dtype), gradient, counted


def against_classes(
    logits: Tensor,
    true_class: Tensor,
    beta: float | Tensor,
    dim: int,
    divisor: float | Tensor,
    *,
    wants_gradient: bool = True,
) -> tuple[Tensor, Tensor]:
    r"""Compute J of every sample, and its gradient divided by ``divisor``.

    With :math:`a = \sum_{i \neq c} e^{z_i}` and :math:`b = \beta e^{z_c}`, on any common scale,
    :math:`J = \log(a + b) - z_c`; the gradient is :math:`e^{z_i} / (a + b)` for a wrong class and
    :math:`-a / (a + b)` for the true one. No digit of :math:`1 - p_c` is lost, because the wrong
    classes are summed without the true one, and nothing overflows, because the scale is that of the
    largest class or of all. The losses keep the class dimension, as the indices, β and the divisor
    do. Where the gradient is not wanted, the second result is a used scratch array.
    """
    if logits.ndim == 2 and logits.shape[1] < _FEW_CLASSES and readable(logits):
        return _of_few_classes(logits, true_class, beta, divisor, wants_gradient)
    return _by_softmax(logits, true_class, beta, dim, divisor, wants_gradient)


def _by_softmax(
    logits: Tensor,
    true_class: Tensor,
    beta: float | Tensor,
    dim: int,
    divisor: float | Tensor,
    wants_gradient: bool,
) -> tuple[Tensor, Tensor]:
    blocks = _blocks(logits, dim)
    contiguous = logits.is_contiguous()
    half = logits.dtype is torch.bfloat16  # widened a block at a time
    if len(blocks) == 1 and not half:
        out = None if contiguous else torch.empty_like(logits)  # in the order of the logits
        true, losses, gradient = _of_a_block(
            logits, true_class, beta, dim, divisor, wants_gradient, out
        )
    else:
        true = torch.empty_like(true_class, dtype=torch.float32 if half else logits.dtype)
        losses = torch.empty_like(true)
        # without a gradient all blocks use the memory of the first
        whole = wants_gradient or not (contiguous or half)
        gradient = torch.empty_like(logits if whole else logits[blocks[0]])
        for block in blocks:
            part = logits[block]
            factor, over = (
                value[block] if isinstance(value, Tensor) else value for value in (beta, divisor)
            )
            out = None if half else gradient[block] if whole else gradient[: len(part)]
            true[block], losses[block], made = _of_a_block(
                part, true_class[block], factor, dim, over, wants_gradient, out
            )
            if half and wants_gradient:
                gradient[block] = made
    # a probability too small to be held to full precision
    least = 1e9 * _TINY[true.dtype]
    if not readable(logits) or not true.numel() or not true.min().item() >= least:
        wide = logits.to(true.dtype)
        losses = torch.where(
            true < least,
            wide.logsumexp(dim, keepdim=True) - wide.gather(dim, true_class),
            losses,
        )
    return losses, gradient


def _of_a_block(
    logits: Tensor,
    true_class: Tensor,
    beta: float | Tensor,
    dim: int,
    divisor: float | Tensor,
    wants_gradient: bool,
    out: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return p of the true class, J and the gradient, which ``out`` may hold."""
    if logits.dtype is torch.bfloat16:
        powers = torch.softmax(logits, dim, dtype=torch.float32)
    else:
        powers = torch.softmax(logits, dim, out=out)
    true = powers.gather(dim, true_class)
    others = powers.scatter_(dim, true_class, 0.0).sum(dim, keepdim=True)
    odds = others / true
    losses = _log_of_sum(odds + beta, odds, beta)
    total = others + beta * true
    if wants_gradient:
        powers.scatter_(dim, true_class, others.neg_()).mul_(total.mul(divisor).reciprocal_())
    return true, losses, powers


def _log_of_sum(total: Tensor, odds: Tensor, beta: float | Tensor) -> Tensor:
    """Compute log(odds + β), the log of ``total``, to full precision even near 0."""
    more = beta - 1
    if isinstance(more, Tensor):
        return torch.where(more.abs() <= 0.5, torch.log1p(odds + more), total.log())
    if abs(more) > 0.5:
        return total.log()
    return torch.log1p(odds + more if more else odds)


def _blocks(logits: Tensor, dim: int) -> list[slice]:
    """Cut the first dimension, where it holds samples, into blocks that fit in a CPU's cache."""
    rows = len(logits)
    if dim and readable(logits):
        rows = max(1, _BLOCK * rows // logits.numel())
    return [slice(start, start + rows) for start in range(0, len(logits), rows)]


def _of_few_classes(
    logits: Tensor,
    true_class: Tensor,
    beta: float | Tensor,
    divisor: float | Tensor,
    wants_gradient: bool,
) -> tuple[Tensor, Tensor]:
    """Compute the same in fewer calls.

    The scale is that of the true class, or of the largest for samples where the true one is far
    behind.
    """
    true = logits.gather(1, true_class)
    powers = (logits - true).exp_()
    powers.scatter_(1, true_class, true - true)  # 0, or NaN for an infinite logit
    others = powers.sum(1, keepdim=True)
    if isinstance(beta, Tensor):
        total = others + beta
    else:
        total = others.add(_ONE, alpha=beta)  # cheaper than adding a number
    losses = _log_of_sum(total, others, beta)
    far = None if total.max().item() <= _LARGE else ~(total <= _LARGE).squeeze(1)  # or NaN
    if isinstance(divisor, Tensor):  # the weight of a class may be small
        lost = ((total * divisor).isinf() & divisor.isfinite()).squeeze(1)
        if lost.any():
            far = lost if far is None else far | lost
    if wants_gradient:
        powers.scatter_(1, true_class, others.mul_(-1.0))
        powers.div_(total.mul_(divisor))
    if far is not None:
        factor, over = (
            value[far] if isinstance(value, Tensor) else value for value in (beta, divisor)
        )
        losses[far], made = _by_softmax(
            logits[far], true_class[far], factor, 1, over, wants_gradient
        )
        if wants_gradient:
            powers[far] = made
    return losses, powers


def _against_shares(
    batch: Batch, logits: Tensor, beta: float | Tensor, wants_gradient: bool
) -> tuple[Tensor, Tensor]:
    r"""Compute J of every sample and the gradient of the reduced loss against shares a.

    The first dimension is processed block by block. :math:`J = \sum_c a_c (-\log p_c + \log D_c)`
    with :math:`D_c = 1 + (\beta - 1) p_c`; the gradient is :math:`V p - a / D` with :math:`V =
    \sum_c a_c / D_c`. Only at a class with p near 1 can D and the gradient lose digits; there 1 - p
    is the probability of the others, and V is split. ``argmax``, ``exp`` and ``log`` take as long
    as ten other passes over a block: so the index of that class is a sum, log p comes from p and
    the logits, and where all shares are the same, the sum of log D is the logarithm of a product.
    """
    dim, (spread, own), scales = batch.dim, batch.shares(), batch.scales()
    places = torch.arange(batch.classes, dtype=logits.dtype, device=logits.device)
    places = places.reshape([-1] + [1] * (logits.ndim - dim - 1))
    # the product lies between beta and exp(beta - 1)
    product = spread.numel() == 1 and isinstance(beta, float) and beta < 80
    losses, gradient = torch.empty_like(scales), torch.empty_like(logits)
    for block in _blocks(logits, dim):
        part, scale = logits[block], scales[block]
        factor = beta[block] if isinstance(beta, Tensor) else beta
        share = spread[block] if len(spread) == len(logits) else spread
        powers = torch.softmax(part, dim, out=gradient[block])
        distance = part - part.amax(dim, keepdim=True)
        log_of_top = powers.amax(dim, keepdim=True).log_()
        # the class with p > 1/2, or the first
        near = powers.round().mul_(places).sum(dim, keepdim=True).nan_to_num_(0.0).long()
        p_near = powers.gather(dim, near)
        others = powers.scatter_(dim, near, 0.0).sum(dim, keepdim=True)
        decay = (powers.scatter_(dim, near, p_near) * (factor - 1)).add_(1)
        decay.scatter_(dim, near, others + factor * p_near)
        if product:
            loss = share * (
                decay.prod(dim, keepdim=True).log_()
                - distance.sum(dim, keepdim=True)
                - batch.classes * log_of_top
            )
        else:
            loss = shared(share, decay.log().sub_(distance).sub_(log_of_top), dim)
        if own is not None:
            true, more = batch.true_class[block], own[block]
            decay_true = decay.gather(dim, true)
            loss += shared(more, decay_true.log() - distance.gather(dim, true) - log_of_top, dim)
        losses[block] = loss
        if not wants_gradient:
            continue
        quotient = torch.div(scale * -share, decay)
        if own is not None:
            quotient.scatter_add_(dim, true, scale * -more / decay_true)
        of_near = quotient.gather(dim, near)
        rest = quotient.scatter_(dim, near, 0.0).sum(dim, keepdim=True)
        torch.addcmul(quotient, powers, rest + of_near, value=-1, out=powers)
        powers.scatter_(dim, near, others * of_near - p_near * rest)
    return losses, gradient
