"""One optimiser step, done anew each time or recorded once and replayed; and what the steps of an epoch read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gdlib.models import RunModel

PRECISIONS = ("float32", "bfloat16")

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps logits ``[R, N, C]``, class indices ``[R, N]`` and one β for each run ``[R]`` to the loss of every sample ``[R, N]``."""

Prepare = Callable[[Tensor, Tensor | None], Tensor]
"""Maps a batch ``[S, B, ...]`` as it lies in memory, and the random numbers drawn for it, to what the model sees: normalised, augmented."""

TakeStep = Callable[[Tensor, Tensor, Tensor], None]
"""Does a step with inputs ``[S, B, ...]``, labels ``[R, B]`` and β ``[R]``."""

_log = logging.getLogger("gdlib.train")


def autocast(device: torch.device, precision: str, *, cached: bool = True) -> torch.autocast:
    """Make the context in which a model runs: bfloat16 where PyTorch deems it safe, or nothing at all."""
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; valid: {', '.join(PRECISIONS)}")
    return torch.autocast(
        device.type, torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=cached
    )


class Step:
    """One step by autograd: forward, loss, backward, clipping, update.

    The objective is the mean over the samples and the sum over the runs. The loss is computed in
    float32 at least, whatever the precision of the model. Arguments as of
    :func:`gdlib.train.train`.

    Args:
        cached: let autocast keep the weights that it has cast; not where the step is recorded,
            which would keep those of the recording.
    """

    def __init__(
        self,
        model: RunModel,
        loss_fn: Loss,
        optimizer: torch.optim.Optimizer,
        *,
        max_grad_norm: float | None,
        precision: str = "float32",
        cached: bool = True,
    ) -> None:
        autocast(
            torch.device("cpu"), precision
        )  # refuses one that it does not know before the first step
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer
        self.max_grad_norm, self.precision, self.cached = max_grad_norm, precision, cached

    def __call__(self, inputs: Tensor, labels: Tensor, beta: Tensor) -> None:
        """Do one step with inputs ``[S, B, ...]``, labels ``[R, B]`` and β ``[R]``."""
        with autocast(inputs.device, self.precision, cached=self.cached):
            logits = self.model(inputs)  # (R, B, C)
        losses = self.loss_fn(
            logits.float() if logits.dtype == torch.bfloat16 else logits, labels, beta
        )  # (R, B)
        if losses.shape != labels.shape:
            raise ValueError(
                f"loss_fn must return the loss of every sample, {list(labels.shape)}; it returned {list(losses.shape)}"
            )
        self.optimizer.zero_grad()
        losses.mean(1).sum().backward()
        if self.max_grad_norm is not None:
            self.model.clip_gradients(self.max_grad_norm)
        self.optimizer.step()


class Tables(NamedTuple):
    """Tables that the steps of an epoch read, on the device: nothing else goes there while they are done."""

    indices: Tensor  # of the samples in their order, (S, n)
    labels: Tensor  # (R, n)
    betas: Tensor  # of each step, (steps, R)
    draws: Tensor | None  # random numbers of each sample, (S, n, ...)

    def of_step(self, number: int, size: int) -> Tables:
        """Return the part of a step of the epoch, counted from 0."""
        chosen = slice(number * size, (number + 1) * size)
        draws = None if self.draws is None else self.draws[:, chosen]
        return Tables(self.indices[:, chosen], self.labels[:, chosen], self.betas[number], draws)

    def at(self, counter: Tensor, size: int) -> Tables:
        """Return the part of a full step whose number ``[1]`` is on the device."""
        chosen = counter * size + torch.arange(size, device=counter.device)
        draws = None if self.draws is None else self.draws.index_select(1, chosen)
        betas = self.betas.index_select(0, counter).squeeze(0)
        return Tables(
            self.indices.index_select(1, chosen), self.labels.index_select(1, chosen), betas, draws
        )


class Feed:
    """Gather a batch of ``batch_size`` of the inputs ``[N, ...]``, prepare it, and do a step with it."""

    def __init__(
        self, take_step: TakeStep, inputs: Tensor, prepare: Prepare | None, batch_size: int
    ) -> None:
        self.take_step, self.inputs, self.prepare, self.batch_size = (
            take_step,
            inputs,
            prepare,
            batch_size,
        )

    def __call__(self, tables: Tables, number: int) -> None:
        """Do the step of this number, from 0, in the epoch of the tables."""
        self.do(tables.of_step(number, self.batch_size))

    def do(self, part: Tables) -> None:
        """Do the step of a part."""
        batch = self.inputs.index_select(0, part.indices.flatten()).unflatten(
            0, part.indices.shape
        )  # (S, B, ...)
        self.take_step(
            batch if self.prepare is None else self.prepare(batch, part.draws),
            part.labels,
            part.betas,
        )


class GraphedStep:
    """Steps that are recorded as one CUDA graph and replayed, so that the processor issues one launch instead of hundreds.

    The first steps, which let the libraries choose their kernels, are done one by one on a side
    stream. Then a step is recorded, from the gathering of the batch to the update, and replayed:
    the tables of the epoch lie in memory that stays, and a counter on the device says which part of
    them is next. A smaller last batch is done by itself. If a step cannot be recorded, the log says
    why and all are done one by one. The optimizer must read its learning rate from a tensor on the
    device, or a schedule of it would have no effect.
    """

    WARM_UP = 3
    held: Tables  # of the epoch, in memory that stays

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.done = 0
        self.counter = torch.zeros(1, dtype=torch.long, device=feed.inputs.device)
        self.replay: Callable[[], None] | None = None
        self.failed = False

    def __call__(self, tables: Tables, number: int) -> None:
        """Do the step of this number, from 0, in the epoch of the tables; the steps of an epoch come in turn."""
        if number == 0:
            self._hold(tables)
        full = (number + 1) * self.feed.batch_size <= tables.indices.shape[1]
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
            self.feed(self.held, number)

    def _hold(self, tables: Tables) -> None:
        if not hasattr(self, "held"):
            self.held = Tables(*(None if table is None else table.clone() for table in tables))  # type: ignore[arg-type]
        for old, new in zip(self.held, tables, strict=True):
            if old is not None and new is not None:
                old.copy_(new)
        self.counter.zero_()

    def _body(self) -> None:
        self.feed.do(self.held.at(self.counter, self.feed.batch_size))
        self.counter.add_(1)

    def _warm_up(self, number: int) -> None:
        if self.done == 0:
            self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.feed(self.held, number)
        torch.cuda.current_stream().wait_stream(self.stream)
        self.done += 1

    def _recorded(self) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._body()
        return graph.replay


def can_be_graphed(device: torch.device) -> bool:
    """Say whether steps can be recorded on this device; if not, the log says so once."""
    if device.type == "cuda":
        return True
    _log.info("a %s has no CUDA graphs: the steps are done one by one", device.type)
    return False
