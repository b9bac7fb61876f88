r"""The losses that change only the target logit, composed of differentiable functions.

With :math:`r_c = \log \sum_{i \neq c} e^{z_i}` the cross-entropy is :math:`\mathrm{softplus}(r_c - z_c)`; the functions here work with that
difference, so that no digit of :math:`1 - p_c` is lost.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gdlib.functional.reduction import gather_checked


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
