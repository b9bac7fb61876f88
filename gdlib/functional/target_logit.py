r"""The losses that change only the target logit, composed of differentiable functions.

With :math:`r_c = \log \sum_{i \neq c} e^{z_i}` the cross-entropy is :math:`\mathrm{softplus}(r_c - z_c)`; the functions here work with that
difference, so that no digit of :math:`1 - p_c` is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gdlib.functional.inputs import check_logits, check_options, check_target, compute_in, over_classes
from gdlib.functional.reduction import Reduction, gather_checked, reduce_classes, reduce_indices, valid_index

At = Callable[[Tensor], Tensor]
"""Takes what has a class dimension; gives the values of the true class, or, where every class in turn is the true one, all of them."""

Parameters = Mapping[str, Any]
"""Numbers, and tensors with one value for each sample in a shape that broadcasts with the values they meet."""

Check = Callable[[str, float | Tensor, torch.Size], float | Tensor]


def softplus(x: Tensor) -> Tensor:
    """Log(1 + e^x) with all digits, in every floating type."""
    return torch.logaddexp(x, x.new_zeros(()))


def target_logit_loss(
    input: Tensor,
    target: Tensor,
    *,
    parameters: Mapping[str, tuple[float | Tensor, Check]],
    logits: Callable[[Tensor, Parameters], Tensor] = lambda values, given: values,
    true_logit: Callable[[Tensor, At, Parameters], Tensor] | None = None,
    penalty: Callable[[Tensor, Parameters], Tensor] = lambda x, given: softplus(x),
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
    label_smoothing: float,
) -> Tensor:
    """Any loss that treats the true class apart and the others through their log-sum-exp; the one way of all of them.

    The loss of a sample is ``penalty(r_c - a_c)``. ``r_c`` is the log-sum-exp of the logits of the other classes and ``a_c`` the logit that
    the true class gets. For class probabilities and for label smoothing every class in turn is the true one, and the losses are mixed.

    Args:
        input: what the logits are made of: logits, or cosines.
        target: class indices or class probabilities.
        parameters: the value of each parameter of the loss, a number or one for each sample, and the check that it has to pass.
        logits: makes the logits of the other classes.
        true_logit: makes the logit of the true class; None leaves it as it is.
        penalty: makes the loss; the default is that of the cross-entropy.
        weight: as in cross_entropy.
        ignore_index: as in cross_entropy.
        reduction: as in cross_entropy.
        label_smoothing: as in cross_entropy.
    """
    class_dim = check_logits(input)
    soft = check_target(input, target, class_dim)
    check_options(input, weight, ignore_index, reduction, label_smoothing, class_dim, soft)
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :]
    checked = {name: check(name, value, index_shape) for name, (value, check) in parameters.items()}
    values, result_dtype = compute_in(input)
    over_all = {name: over_classes(value, class_dim, values) for name, value in checked.items()}

    every = logits(values, over_all)
    shift = every.detach().amax(class_dim, keepdim=True)
    every = every - shift  # keeps small differences of large logits
    if soft or label_smoothing > 0:
        true = every if true_logit is None else true_logit(values, lambda value: value, over_all) - shift
        per_class = penalty(log_of_others(every, class_dim) - true, over_all)
        loss = reduce_classes(per_class, target, weight, ignore_index, reduction, label_smoothing, class_dim, soft)
    else:
        valid, index = valid_index(target, ignore_index)
        given = {name: value.to(values) if isinstance(value, Tensor) else value for name, value in checked.items()}

        def at(value: Tensor) -> Tensor:
            return gather_checked(value, index, class_dim)

        true = at(every) if true_logit is None else true_logit(values, at, given) - shift.squeeze(class_dim)
        others = torch.logsumexp(every.scatter(class_dim, index.unsqueeze(class_dim), -math.inf), class_dim)
        loss = reduce_indices(penalty(others - true, given), index, valid, weight, reduction)
    return loss.to(result_dtype)


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


def _log_over_samples(beta: float | Tensor, class_dim: int, logits: Tensor) -> Tensor | None:
    """Log β for each sample, in the shape of the class indices; None where β is the number 1, which needs no work."""
    index_shape = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    if isinstance(beta, Tensor):
        return torch.log(beta.to(logits)).expand(index_shape)
    return None if beta == 1.0 else logits.new_full(index_shape, math.log(beta))
