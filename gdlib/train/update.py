"""The optimizer and the schedule of its learning rate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gdlib.functional._arguments import check_number, check_whole

OPTIMIZERS = ("sgd", "adam")
LR_SCHEDULES = ("milestones", "exponential", "one-cycle")
_MOMENTUM = {"sgd": 0.0, "adam": 0.9}  # PyTorch's own
_LAST_SHARE = 1e-3  # of the learning rate, in the last epoch of an exponential decay
_SECOND_DECAY = 0.999  # of Adam


class Update:
    """How the weights are updated: checked, in plain numbers that a checkpoint can hold.

    Arguments are those of :func:`gdlib.train.train`.
    """

    def __init__(
        self,
        lr: float,
        optimizer: str,
        momentum: float | None,
        weight_decay: float,
        lr_schedule: str,
        milestones: Sequence[int],
        max_grad_norm: float | None,
    ) -> None:
        for what, name, valid in (
            ("optimizer", optimizer, OPTIMIZERS),
            ("lr_schedule", lr_schedule, LR_SCHEDULES),
        ):
            if name not in valid:
                raise ValueError(f"unknown {what} {name!r}; valid: {', '.join(valid)}")
        momentum = _MOMENTUM[optimizer] if momentum is None else momentum
        self.lr = check_number("lr", lr, ">= 0")
        self.optimizer = optimizer
        self.momentum = check_number("momentum", momentum, ">= 0")
        if self.momentum >= 1:
            raise ValueError(f"momentum must be less than 1, got {momentum!r}")
        self.weight_decay = check_number("weight_decay", weight_decay, ">= 0")
        self.lr_schedule = lr_schedule
        whole = milestones if isinstance(milestones, Iterable) else [milestones]
        self.milestones = [check_whole("milestones", one, 0) for one in whole]
        if self.milestones and lr_schedule != "milestones":
            raise ValueError(f"milestones need lr_schedule='milestones'; it is {lr_schedule!r}")
        self.max_grad_norm = max_grad_norm
        if max_grad_norm is not None:
            self.max_grad_norm = check_number("max_grad_norm", max_grad_norm, "> 0")


def optimizer_of(
    update: Update,
    model: Sequence[nn.Parameter],
    loss: Sequence[nn.Parameter],
    *,
    rate: float | Tensor,
    fused: bool | None,
    recorded: bool = False,
) -> torch.optim.Optimizer:
    """Make the optimizer for the parameters of a model and its loss.

    Args:
        update: its numbers.
        model: parameters of the model.
        loss: parameters of the loss, without weight decay.
        rate: the learning rate; a tensor for steps that are recorded.
        fused: let all parameters be updated in one kernel; None for PyTorch's choice.
        recorded: let SGD read rate and momentum from the device, instead of ``fused``.
    """
    known = {id(parameter) for parameter in model}
    own = [parameter for parameter in loss if id(parameter) not in known]
    groups: list[dict[str, Any]] = [{"params": list(model)}]
    if own:
        groups.append({"params": own, "weight_decay": 0.0})
    momentum, weight_decay = update.momentum, update.weight_decay
    if update.optimizer == "sgd" and recorded:
        return RecordedSGD(groups, lr=update.lr, momentum=momentum, weight_decay=weight_decay)
    if update.optimizer == "sgd":
        return torch.optim.SGD(
            groups, lr=rate, momentum=momentum, weight_decay=weight_decay, fused=fused
        )
    return torch.optim.Adam(
        groups,
        lr=rate,
        betas=(momentum, _SECOND_DECAY),
        weight_decay=weight_decay,
        fused=fused,
        capturable=isinstance(rate, Tensor),
    )


def rates_of(
    update: Update, optimizer: torch.optim.Optimizer, *, epochs: int, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """Make the schedule of the learning rate.

    It advances after every epoch of ``steps`` steps or, for one cycle, after every step.
    """
    schedulers = torch.optim.lr_scheduler
    if update.lr_schedule == "milestones":
        return schedulers.MultiStepLR(optimizer, milestones=update.milestones, gamma=0.1)
    if update.lr_schedule == "exponential":
        return schedulers.ExponentialLR(optimizer, gamma=_LAST_SHARE ** (1 / max(epochs - 1, 1)))
    return schedulers.OneCycleLR(optimizer, max_lr=update.lr, total_steps=max(epochs * steps, 1))


class RecordedSGD(torch.optim.SGD):
    r"""SGD whose learning rate and momentum lie on the device, where a recorded step reads them.

    Both may then change from step to step, as in one cycle: :meth:`follow` copies what the schedule
    has written into the groups. The update is that of :class:`torch.optim.SGD`,

    .. math:: v \leftarrow \mu v + g + \lambda w, \qquad w \leftarrow w - \eta v,

    with :math:`v = 0` before the first step.
    """

    def __init__(
        self, groups: list[dict[str, Any]], *, lr: float, momentum: float, weight_decay: float
    ) -> None:
        super().__init__(groups, lr=lr, momentum=momentum, weight_decay=weight_decay)
        device = self.param_groups[0]["params"][0].device
        self.scalars = [torch.zeros(2, device=device).unbind() for _ in self.param_groups]
        self.follow()

    def follow(self) -> None:
        """Copy the learning rate and momentum of each group to the device, without waiting."""
        for group, (rate, momentum) in zip(self.param_groups, self.scalars, strict=True):
            rate.fill_(group["lr"])
            momentum.fill_(group["momentum"])

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        for group, (rate, momentum) in zip(self.param_groups, self.scalars, strict=True):
            parameters = [one for one in group["params"] if one.grad is not None]
            if not parameters:
                continue
            for one in parameters:
                if "momentum_buffer" not in self.state[one]:
                    self.state[one]["momentum_buffer"] = torch.zeros_like(one)
            velocities = [self.state[one]["momentum_buffer"] for one in parameters]
            gradients = [one.grad for one in parameters]
            torch._foreach_mul_(velocities, momentum)
            torch._foreach_add_(velocities, gradients)
            torch._foreach_add_(velocities, parameters, alpha=group["weight_decay"])
            torch._foreach_sub_(parameters, torch._foreach_mul(velocities, rate))


def read_from(rate: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Let the optimizer read its learning rate from this tensor again.

    Loading a state has replaced it.
    """
    for group in optimizer.param_groups:
        rate.copy_(torch.as_tensor(group["lr"]))
        group["lr"] = rate
