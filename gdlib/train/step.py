"""One optimiser step, done anew each time or recorded once and replayed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gdlib.models import RunModel
from gdlib.train.batches import Batches, Tables
from gdlib.train.manual import ManualStep
from gdlib.train.objective import Objective

PRECISIONS = ("float32", "bfloat16")
_HALF = (torch.float16, torch.bfloat16)
_log = logging.getLogger("gdlib.train")


def precision_of(precision: str | torch.dtype) -> str:
    """Return the name of a precision; refuse one that is not known."""
    name = str(precision).removeprefix("torch.")
    if name not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; valid: {', '.join(PRECISIONS)}")
    return name


def autocast(device: torch.device, precision: str, *, cached: bool = True) -> torch.autocast:
    """Make the context in which a model runs.

    It uses bfloat16 where PyTorch deems that safe, or does nothing. Within another such context,
    PyTorch would otherwise keep using the weights that it cast at the first step.
    """
    torch.clear_autocast_cache()
    return torch.autocast(
        device.type, torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=cached
    )


def outputs_of(model: Callable[[Tensor], Any], inputs: Tensor) -> tuple[Tensor, ...]:
    """Compute the outputs of a model, in float32 where it computes in half precision."""
    returned = model(inputs)
    outputs = (returned,) if isinstance(returned, Tensor) else returned
    return tuple(one.float() if one.dtype in _HALF else one for one in outputs)


class Step:
    """One step by autograd: forward, loss, backward, clipping, update.

    The loss is the sum of the runs' mean losses over the samples. It is computed in at least
    float32, whatever the precision of the model.

    Args:
        model: a stack of R runs.
        objective: the loss of each run.
        optimizer: updates the parameters of both.
        max_grad_norm: limit for the gradient norm of each run; None for no limit.
        places: which of the S batches each run sees, as in :class:`gdlib.train.batches.Batches`.
        precision: ``"float32"`` or ``"bfloat16"``.
        cached: let autocast keep the weights that it has cast; off for a step to be recorded, as
            it would keep those of the recording.
        check_targets: called once, after the first forward pass, with the number of classes and
            the index to be ignored.
        ignored: the index to be ignored, if some targets have it: the loss of a batch with no other
            targets, which is NaN, does not count for the epoch.
    """

    def __init__(
        self,
        model: RunModel,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        max_grad_norm: float | None,
        places: Tensor | None = None,
        precision: str = "float32",
        cached: bool = True,
        check_targets: Callable[[int, int], None] | None = None,
        ignored: int | None = None,
    ) -> None:
        self.model, self.objective, self.optimizer = model, objective, optimizer
        self.max_grad_norm, self.precision, self.cached = max_grad_norm, precision, cached
        self.places, self.check_targets = places, check_targets
        self.losses: Tensor | None = None  # summed over the samples of the epoch, (R,)
        self.left_out: Tensor | int = 0  # samples of the epoch left out of it, (R,)
        self.ignored = ignored

    def begin(self, betas: Tensor) -> None:
        """Begin an epoch, with the β of each step, ``[steps, R]``, for a step that needs them."""
        self.objective.begin()
        if self.losses is not None:
            self.losses.zero_()
            self.left_out *= 0

    def end(self) -> tuple[Tensor, Tensor | int]:
        """End an epoch; return the sum of its losses, ``[R]``, and how many samples it omits."""
        assert self.losses is not None
        return self.losses, self.left_out

    @torch.enable_grad()
    def __call__(self, inputs: Tensor, targets: Tensor, beta: Tensor) -> None:
        """Do one step with inputs ``[S, B, ...]``, targets ``[R, B, ...]`` and β ``[R]``."""
        if self.places is not None:
            inputs = inputs.index_select(0, self.places)
        outputs = self._forward(inputs)  # (R, B, C)
        if self.check_targets is not None:
            self._check(outputs[0], targets)
        with autocast(inputs.device, "float32"):  # even within another one
            loss = self.objective(outputs, targets, beta)  # (R,)
            self.optimizer.zero_grad()
            loss.sum().backward()
        if self.max_grad_norm is not None:
            self.model.clip_gradients(self.max_grad_norm)
        self.optimizer.step()
        loss, size = loss.detach(), targets.shape[1]
        if self.losses is None:
            self.losses = torch.zeros_like(loss)
            if self.ignored is not None:
                self.left_out = torch.zeros_like(loss)
        if self.ignored is not None:
            nothing = loss.isnan() & (targets == self.ignored).flatten(1).all(1)
            loss = loss.masked_fill(nothing, 0.0)
            self.left_out += size * nothing
        self.losses.add_(loss, alpha=size)

    def _forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        with autocast(inputs.device, self.precision, cached=self.cached):
            try:
                return outputs_of(self.model, inputs)
            except ValueError as error:
                norms = nn.modules.batchnorm._BatchNorm
                if inputs.shape[1] == 1 and any(isinstance(m, norms) for m in self.model.modules()):
                    raise ValueError(
                        "batch normalisation cannot train on a batch of one sample, such as the "
                        "last one of an epoch: leave it out with drop_last=True, or change "
                        f"batch_size (PyTorch says: {error})"
                    ) from error
                raise

    def _check(self, outputs: Tensor, targets: Tensor) -> None:
        check_targets, ignored = self.check_targets, self.objective.ignore_index
        self.check_targets = None
        if check_targets is None or ignored is None or outputs.ndim < 3:
            return
        if targets.shape[2:] == outputs.shape[3:]:  # other shapes are left to the loss
            check_targets(outputs.shape[2], ignored)


class Steps:
    """Feed the batches to a step, one by one."""

    def __init__(self, batches: Batches, take_step: Step | ManualStep) -> None:
        self.batches, self.take_step = batches, take_step

    def begin(self, epoch: int, betas: Tensor) -> None:
        """Begin an epoch, counted from 1, with the β of each step, ``[steps, R]``."""
        self.take_step.begin(betas)
        self.batches.begin(epoch, betas)

    def do(self, number: int) -> None:
        """Do the step with this number, from 0; the steps of an epoch come in order."""
        self.take_step(*self.batches.batch(number))

    def end(self) -> Tensor:
        """End the epoch; return the mean loss of each run over its samples, ``[R]``."""
        losses, left_out = self.take_step.end()
        samples = self.batches.samples
        return (losses / samples / (1 - left_out / samples)).cpu()


class RecordedSteps(Steps):
    """Steps that are recorded as one CUDA graph and replayed.

    The CPU then issues one launch instead of hundreds. The first steps, which let the libraries
    choose their kernels, are done one by one on a side stream. Then a step is recorded, from
    gathering the batch to the update, and replayed: the tables of the epoch have a fixed place in
    memory, and a counter on the device says which part of them is next. A smaller last batch is
    done by itself. If a step cannot be recorded, the log says why and all are done one by one. The
    optimizer must read its learning rate from a tensor on the device, or a schedule would have no
    effect.
    """

    WARM_UP = 3
    held: Tables  # of the epoch, in a fixed place in memory

    def __init__(self, batches: Batches, take_step: Step | ManualStep) -> None:
        super().__init__(batches, take_step)
        self.done = 0
        self.counter = torch.zeros(1, dtype=torch.long, device=batches.inputs.device)
        self.replay: Callable[[], None] | None = None
        self.failed = False

    def begin(self, epoch: int, betas: Tensor) -> None:
        """Begin an epoch, counted from 1, with the β of each step, ``[steps, R]``."""
        super().begin(epoch, betas)
        self._hold(self.batches.tables)

    def do(self, number: int) -> None:
        """Do the step with this number, from 0; the steps of an epoch come in order."""
        full = (number + 1) * self.batches.size <= self.held.indices.shape[1]
        if full and self.replay is None and not self.failed and self.done >= self.WARM_UP:
            self.counter.fill_(number)
            try:
                self.replay = self._recorded()
            except RuntimeError as error:
                self.failed = True
                _log.warning(
                    "a step cannot be recorded, so they are done one by one: %s",
                    str(error).splitlines()[0],
                )
        if full and self.replay is not None:
            self.replay()
        elif self.done < self.WARM_UP:
            self._warm_up(number)
        else:
            self._single(number)

    def _hold(self, tables: Tables) -> None:
        if not hasattr(self, "held"):
            draws = None if tables.draws is None else tables.draws.clone()
            self.held = Tables(
                tables.indices.clone(), tables.targets.clone(), tables.betas.clone(), draws
            )
        for old, new in zip(self.held, tables, strict=True):
            if old is not None and new is not None:
                old.copy_(new)
        self.counter.zero_()

    def _single(self, number: int) -> None:
        part = self.held.of_step(number, self.batches.size)
        self.take_step(*self.batches.gather(part))

    def _body(self) -> None:
        part = self.held.at(self.counter, self.batches.size)
        self.take_step(*self.batches.gather(part))
        self.counter.add_(1)

    def _warm_up(self, number: int) -> None:
        if self.done == 0:
            self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._single(number)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.done += 1

    def _recorded(self) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._body()
        return graph.replay


def can_be_recorded(batches: Batches) -> bool:
    """Say whether steps can be recorded; if not, the log says why."""
    device = batches.inputs.device
    if device.type != "cuda":
        _log.info("a %s has no CUDA graphs: the steps are done one by one", device.type)
        return False
    if device != batches.device:
        _log.info("data and model are on different devices: the steps are done one by one")
        return False
    if device.index != torch.cuda.current_device():  # whose stream is recorded
        _log.info("%s is not the current GPU: the steps are done one by one", device)
        return False
    return True
