"""What a training step costs with one loss and with another.

The losses take turns, so that they share whatever the machine does.
"""

import time
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from gdlib.train import RunLoss
from gdlib.train.step import Step
from study import networks, records
from study.experiment import StepCost
from study.losses import parse
from study.objective import StackLoss
from study.run.job import Progress, device_of, name_of, record_of

_IMAGE = (3, 32, 32)


def measure_cost(experiment: StepCost) -> records.Record:
    """Time the steps.

    A step is forward pass, loss, backward pass and update by Adam. A run of the record is a
    network, a loss and a repetition, which is its ``seed``: ``step_seconds`` (mean over the steps;
    processor time, or the time between two events of a GPU) and ``criterion_seconds`` (the same for
    what differs from loss to loss, the last layer and the loss, forward and backward, alone).
    """
    started = time.perf_counter()
    device = device_of(experiment.device)
    generator = torch.Generator().manual_seed(0)
    runs: list[dict[str, Any]] = []
    parameters: dict[str, int] = {}
    progress = Progress(len(experiment.models) * experiment.repetitions, "repetition")
    for name in experiment.models:
        steps = [_OneLoss(experiment, name, loss, device) for loss in experiment.losses]
        parameters[name] = sum(parameter.numel() for parameter in steps[0].model.parameters())
        for step in steps:
            step(
                *_batch(experiment, generator, device)
            )  # libraries choose their kernels, Adam makes its buffers
        for repetition in range(experiment.first, experiment.first + experiment.repetitions):
            progress(len(runs) // len(steps))
            turn = repetition % len(steps)
            seconds = {step.loss: [0.0, 0.0] for step in steps}
            for _ in range(experiment.steps):
                batch = _batch(experiment, generator, device)
                for step in steps[turn:] + steps[:turn]:
                    seconds[step.loss][0] += _timed(step, batch, device) / experiment.steps
                    seconds[step.loss][1] += (
                        _timed(step.criterion, batch, device) / experiment.steps
                    )
            for loss, (whole, criterion) in seconds.items():
                label = {
                    "model": name,
                    "loss": loss,
                    "schedule": loss,
                    "seed": repetition,
                    "measured_on": name_of(device),
                }
                runs.append(
                    label
                    | {
                        "diverged": False,
                        "metrics": {"step_seconds": whole, "criterion_seconds": criterion},
                    }
                )
    return record_of(
        experiment,
        started,
        device,
        data={
            "name": "random images",
            "source": "generated",
            "copy": "none",
            "train": experiment.batch_size,
        },
        model={"name": ", ".join(experiment.models), "parameters": parameters},
        runs=runs,
        epochs_done=0,
    )


class _OneLoss:
    """A network with its last layer, its loss and its optimizer."""

    def __init__(self, experiment: StepCost, name: str, loss: str, device: torch.device) -> None:
        chosen = parse(loss)
        stack = networks.image_stack(
            name,
            [0],
            classes=experiment.classes,
            width=experiment.width,
            stem=experiment.stem,
            channels=_IMAGE[0],
        )
        self.model = networks.with_heads(
            stack, chosen.kind.head, bias=False, with_features=chosen.kind.with_features
        ).to(device)
        if experiment.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.loss = loss
        optimizer = torch.optim.Adam(self.model.parameters(), lr=experiment.learning_rate)
        width = networks.class_vectors(self.model).shape[2]
        loss_fn, self.alone = (
            StackLoss(chosen, experiment.classes, features=width).to(device) for _ in range(2)
        )
        self.step = Step(self.model, RunLoss(loss_fn), optimizer, max_grad_norm=None)
        self.head = cast(
            networks.Head, cast(networks.ImageNetwork, self.model.copies[0]).classifier
        )
        self.features = torch.randn(
            experiment.batch_size, width, generator=torch.Generator().manual_seed(1)
        ).to(device)
        self.features.requires_grad_()
        self.beta = torch.ones(1, device=device)
        self.model.train()

    def __call__(self, images: Tensor, labels: Tensor) -> None:
        """Do one step of the training."""
        self.step(images, labels, self.beta)

    def criterion(self, images: Tensor, labels: Tensor) -> None:
        """Compute the last layer and the loss, forward and backward; nothing is updated."""
        losses = self.alone(self.head(self.features)[None], labels, self.beta)
        torch.autograd.grad(losses.mean(1).sum(), [self.features, *self.head.parameters()])


def _batch(
    experiment: StepCost, generator: torch.Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Draw random images ``[1, B, 3, 32, 32]`` and labels ``[1, B]``."""
    images = torch.randn(experiment.batch_size, *_IMAGE, generator=generator).to(device)
    if experiment.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return images[None], torch.randint(
        0, experiment.classes, (1, experiment.batch_size), generator=generator
    ).to(device)


def _timed(
    action: Callable[[Tensor, Tensor], None], batch: tuple[Tensor, Tensor], device: torch.device
) -> float:
    """Measure seconds of processor time, or of the GPU."""
    if device.type != "cuda":
        before = time.process_time()
        action(*batch)
        return time.process_time() - before
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    action(*batch)
    end.record()
    torch.cuda.synchronize(device)
    return float(start.elapsed_time(end)) / 1000
