"""What a training step costs with one loss and with another: the losses take turns, so that they share whatever the machine does."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from tqdm import tqdm

from gdlib import models
from gdlib.train.step import Step
from study import records
from study.experiment.definition import DEVICES
from study.experiment.methods import method
from study.experiment.values import device_of, require, require_one_of, values_of, with_tuples

__all__ = ["StepCost", "measure_cost"]

_IMAGE = (3, 32, 32)


@dataclass(frozen=True)
class StepCost:
    """Which steps are timed. Flat values only, so that papermill can set each of them.

    A step is forward pass, loss, backward pass and update by Adam, on a batch of random images of 3 × 32 × 32. A repetition does ``steps``
    of them with every loss, by turns.

    Attributes:
        models: names of :data:`gdlib.models.IMAGE_NETWORKS`.
        losses: see :func:`study.experiment.method`.
        width: factor for the channels.
        stem: form of the first layers, a name of :data:`gdlib.models.STEMS`.
        classes: number of classes.
        batch_size: images in a step.
        steps: in a repetition, for each network and loss.
        repetitions: how often everything is measured.
        first: number of the first repetition, for a measurement that adds to an earlier one.
        learning_rate: of Adam.
        channels_last: keep images and convolutions in this memory format.
        device: a name of :data:`DEVICES`. On a CPU processor time is measured, on a GPU the time between two of its events.
        scale: ``"paper"``, ``"reduced"`` or ``"smoke"``: how the setting relates to the paper's.

    Raises:
        ValueError: for a value that cannot be; the message names the valid ones.

    Example:
        >>> len(StepCost(models=["resnet18", "resnet34"], losses=["softmax", "arcgrad 10"], repetitions=5).runs())
        20
    """

    models: Sequence[str] = ("resnet18",)
    losses: Sequence[str] = ("softmax", "arcgrad 10")
    width: float = 0.125
    stem: str = "cifar"
    classes: int = 10
    batch_size: int = 8
    steps: int = 2
    repetitions: int = 3
    first: int = 0
    learning_rate: float = 0.001
    channels_last: bool = False
    device: str = "cpu"
    scale: str = "smoke"

    def __post_init__(self) -> None:
        """Check every value against what the parts accept, before anything is built."""
        with_tuples(self)
        for name in ("models", "losses"):
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise ValueError(f"{name} must be a list with at least one entry; got {getattr(self, name)!r}")
        for name, values, valid in (
            ("models", self.models, models.IMAGE_NETWORKS),
            ("stem", [self.stem], models.STEMS),
            ("device", [self.device], DEVICES),
            ("scale", [self.scale], records.SCALES),
        ):
            for value in values:
                require_one_of(name, value, valid)
        for name in ("classes", "batch_size", "steps", "repetitions", "first"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"{name} must be a whole number; got {getattr(self, name)!r}")
        for name in ("width", "batch_size", "steps", "repetitions", "learning_rate"):
            require(name, getattr(self, name), above=0)
        require("classes", self.classes, at_least=2)
        require("first", self.first, at_least=0)
        if not isinstance(self.channels_last, bool):
            raise ValueError(f"channels_last must be True or False; got {self.channels_last!r}")
        for loss in self.losses:
            method(loss)

    @classmethod
    def from_parameters(cls, namespace: Mapping[str, Any]) -> StepCost:
        """Pick the values, by name, out of a notebook's namespace, as :meth:`study.experiment.Experiment.from_parameters` does."""
        return cls(**values_of(cls, namespace))

    def runs(self) -> list[tuple[str, str, int]]:
        """Everything that is measured: network, loss and repetition."""
        return list(itertools.product(self.models, self.losses, range(self.first, self.first + self.repetitions)))


def measure_cost(setting: StepCost, *, template: str, progress: bool = False) -> records.Record:
    """Time the steps.

    Args:
        setting: which ones.
        template: name of the notebook, for the record.
        progress: show a bar over networks and repetitions.

    Returns:
        The record, with one run for each network, loss and repetition, which is its ``seed``: ``step_seconds`` (mean over the steps) and
        ``criterion_seconds`` (the same for what differs from loss to loss, the last layer and the loss, forward and backward, alone).

    Raises:
        ValueError: for a GPU that is not there.
    """
    started = time.perf_counter()
    device = device_of(setting.device)
    measured_on = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    generator = torch.Generator().manual_seed(0)
    runs: list[dict[str, Any]] = []
    parameters: dict[str, int] = {}
    with tqdm(total=len(setting.models) * setting.repetitions, desc="repetitions", disable=not progress) as bar:
        for name in setting.models:
            steps = [_OneLoss(setting, name, loss, device) for loss in setting.losses]
            parameters[name] = sum(parameter.numel() for parameter in steps[0].model.parameters())
            for step in steps:
                step(*_batch(setting, generator, device))  # libraries choose their kernels, Adam makes its buffers
            for repetition in range(setting.first, setting.first + setting.repetitions):
                turn = repetition % len(steps)
                seconds = {step.loss: [0.0, 0.0] for step in steps}
                for _ in range(setting.steps):
                    batch = _batch(setting, generator, device)
                    for step in steps[turn:] + steps[:turn]:
                        seconds[step.loss][0] += _timed(step, batch, device) / setting.steps
                        seconds[step.loss][1] += _timed(step.criterion, batch, device) / setting.steps
                for loss, (whole, criterion) in seconds.items():
                    label = {"model": name, "loss": loss, "schedule": loss, "seed": repetition, "measured_on": measured_on}
                    runs.append(label | {"diverged": False, "metrics": {"step_seconds": whole, "criterion_seconds": criterion}})
                bar.update()
    return records.Record(
        template=template,
        parameters=dataclasses.asdict(setting),
        data={"name": "random images", "source": "generated", "copy": "none", "train": setting.batch_size},
        model={"name": ", ".join(setting.models), "parameters": parameters},
        runs=runs,
        epochs_done=0,
        wall_seconds=round(time.perf_counter() - started, 2),
        scale=setting.scale,
        environment=records.environment(device=measured_on, precision="float32", threads=torch.get_num_threads()),
    )


class _OneLoss:
    """A network with its last layer, its loss and its optimizer."""

    def __init__(self, setting: StepCost, name: str, loss: str, device: torch.device) -> None:
        chosen = method(loss)
        stack = models.image_stack(name, [0], classes=setting.classes, width=setting.width, stem=setting.stem, channels=_IMAGE[0])
        self.model = models.with_heads(stack, chosen.head, bias=False, with_features=chosen.with_features).to(device)
        if setting.channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.loss = loss
        optimizer = torch.optim.Adam(self.model.parameters(), lr=setting.learning_rate)
        self.step = Step(self.model, chosen.loss(setting.classes).to(device), optimizer, max_grad_norm=None)
        self.head = cast(models.Head, cast(models.ImageNetwork, self.model.copies[0]).classifier)
        self.alone = chosen.loss(setting.classes).to(device)
        self.features = torch.randn(setting.batch_size, self.head.vectors.shape[1], generator=torch.Generator().manual_seed(1)).to(device)
        self.features.requires_grad_()
        self.beta = torch.ones(1, device=device)
        self.model.train()

    def __call__(self, images: Tensor, labels: Tensor) -> None:
        """One step of the training."""
        self.step(images, labels, self.beta)

    def criterion(self, images: Tensor, labels: Tensor) -> None:
        """The last layer and the loss, forward and backward; nothing is updated."""
        losses = self.alone(self.head(self.features)[None], labels, self.beta)
        torch.autograd.grad(losses.mean(1).sum(), [self.features, *self.head.parameters()])


def _batch(setting: StepCost, generator: torch.Generator, device: torch.device) -> tuple[Tensor, Tensor]:
    """Random images ``[1, B, 3, 32, 32]`` and labels ``[1, B]``."""
    images = torch.randn(setting.batch_size, *_IMAGE, generator=generator).to(device)
    if setting.channels_last:
        images = images.contiguous(memory_format=torch.channels_last)
    return images[None], torch.randint(0, setting.classes, (1, setting.batch_size), generator=generator).to(device)


def _timed(action: Callable[[Tensor, Tensor], None], batch: tuple[Tensor, Tensor], device: torch.device) -> float:
    """Seconds of processor time, or of the GPU."""
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
