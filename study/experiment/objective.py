"""What a stack of runs minimises."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gdlib.functional import gd_cross_entropy
from gdlib.train import Loss

__all__ = ["gd_loss"]


def gd_loss(temperatures: Sequence[float], *, match_gradient: bool = False) -> Loss:
    r"""The gradient-decay cross-entropy of a stack: logits ``[R, N, C]``, labels ``[R, N]`` and β ``[R]`` to losses ``[R, N]``.

    Args:
        temperatures: τ of each run.
        match_gradient: multiply the losses of a batch by one number for each run, which counts as a constant, so that the gradients with
            respect to the target logits have the mean size that β = 1 would give them at the same probabilities:

            .. math:: \frac{\sum_i (1 - p_i)}{\sum_i (1 - p_i) / (1 + (\beta - 1)\, p_i)}.

            It is a learning rate matched to β in every step. What β then does, it does by dividing the gradient among the samples.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 0.5]]]).requires_grad_()
        >>> loss = gd_loss([1.0], match_gradient=True)(logits, torch.zeros(1, 2, dtype=torch.long), torch.tensor([0.1]))
        >>> loss.sum().backward()
        >>> p = torch.softmax(logits.detach(), 2)[..., 0]
        >>> torch.isclose(logits.grad[..., 0].sum(), (p - 1).sum())       # the sum that plain cross-entropy has
        tensor(True)
    """
    plain = all(temperature == 1.0 for temperature in temperatures)
    tau = 1.0 if plain else torch.tensor(temperatures)

    def loss_fn(logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        samples = labels.shape[1]
        losses = gd_cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            beta=beta.repeat_interleave(samples),
            temperature=tau if isinstance(tau, float) else tau.to(logits).repeat_interleave(samples),
            reduction="none",
        ).unflatten(0, labels.shape)
        if match_gradient:
            scaled = logits if isinstance(tau, float) else logits / tau.to(logits)[:, None, None]
            losses = losses * _matching_factor(scaled.detach(), labels, beta)[:, None]
        return losses

    return loss_fn


def _matching_factor(logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
    """Sum of the target gradients of plain cross-entropy over that of β, for each run ``[R]``."""
    log_p = torch.log_softmax(logits, 2).gather(2, labels.unsqueeze(2)).squeeze(2)
    p, rest = log_p.exp(), -torch.expm1(log_p)  # p_c and 1 - p_c, (R, N)
    decayed = rest / (rest + beta[:, None] * p)  # 1 + (β - 1) p without cancellation
    return rest.sum(1) / decayed.sum(1).clamp(min=torch.finfo(decayed.dtype).tiny)
