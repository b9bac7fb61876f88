"""The optimizer and the schedule of its learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from gdlib.train.options import Optimisation

_LAST_SHARE = 1e-3  # of the learning rate, in the last epoch of an exponential decay
_SECOND_DECAY = 0.999  # of Adam


def optimizer_of(
    optimisation: Optimisation,
    model: Sequence[nn.Parameter],
    loss: Sequence[nn.Parameter],
    *,
    rate: float | Tensor,
    fused: bool | None,
) -> torch.optim.Optimizer:
    """Make the optimizer of the parameters of a model and of its loss.

    Args:
        optimisation: its numbers.
        model: parameters of the model.
        loss: parameters of the loss, without weight decay.
        rate: the learning rate; a tensor for steps that are recorded.
        fused: let all parameters be updated in one kernel; None for PyTorch's choice.
    """
    known = {id(parameter) for parameter in model}
    own = [parameter for parameter in loss if id(parameter) not in known]
    groups: list[dict[str, Any]] = [{"params": list(model)}]
    if own:
        groups.append({"params": own, "weight_decay": 0.0})
    momentum = cast(float, optimisation.momentum)  # None became a number when it was given
    if optimisation.optimizer == "sgd":
        return torch.optim.SGD(
            groups,
            lr=rate,
            momentum=momentum,
            weight_decay=optimisation.weight_decay,
            fused=fused,
        )
    return torch.optim.Adam(
        groups,
        lr=rate,
        betas=(momentum, _SECOND_DECAY),
        weight_decay=optimisation.weight_decay,
        fused=fused,
        capturable=isinstance(rate, Tensor),
    )


def rates_of(
    optimisation: Optimisation, optimizer: torch.optim.Optimizer, *, epochs: int, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """Make the schedule of the learning rate.

    It takes a step after every epoch of so many ``steps``, or, as one cycle, after every step.
    """
    schedulers = torch.optim.lr_scheduler
    if optimisation.lr_schedule == "milestones":
        milestones = list(optimisation.milestones)
        return schedulers.MultiStepLR(optimizer, milestones=milestones, gamma=0.1)
    if optimisation.lr_schedule == "exponential":
        return schedulers.ExponentialLR(optimizer, gamma=_LAST_SHARE ** (1 / max(epochs - 1, 1)))
    return schedulers.OneCycleLR(
        optimizer, max_lr=optimisation.learning_rate, total_steps=max(epochs * steps, 1)
    )


def read_from(rate: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Let the optimizer read its learning rate from this tensor again.

    A loaded state has put another one in its place.
    """
    for group in optimizer.param_groups:
        rate.copy_(torch.as_tensor(group["lr"]))
        group["lr"] = rate
