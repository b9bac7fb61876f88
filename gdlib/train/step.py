"""One optimiser step, done anew each time or recorded once and replayed."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from gdlib.models import RunModel

__all__ = ["PRECISIONS", "GraphedStep", "Loss", "Step", "autocast", "can_be_graphed"]

PRECISIONS = ("float32", "bfloat16")

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps logits ``[R, N, C]``, class indices ``[R, N]`` and one β for each run ``[R]`` to the loss of every sample ``[R, N]``."""

_log = logging.getLogger("gdlib.train")


def autocast(device: torch.device, precision: str, *, cached: bool = True) -> torch.autocast:
    """The context in which a model runs: bfloat16 where PyTorch deems it safe, or nothing at all."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=cached)


class Step:
    """Forward, loss, backward, clipping, update.

    The objective is the mean over the samples and the sum over the runs. The loss is computed in float32 at least, whatever the
    precision of the model.

    Args:
        model: a stack of R runs.
        loss_fn: per-sample loss.
        optimizer: of the model's parameters.
        max_grad_norm: limit for the gradient norm of each run; None for no limit.
        precision: a name of :data:`PRECISIONS`.
    """

    def __init__(
        self, model: RunModel, loss_fn: Loss, optimizer: torch.optim.Optimizer, *, max_grad_norm: float | None, precision: str = "float32"
    ) -> None:
        self.model = model
        self.loss_fn = loss_fn
        self.optimizer = optimizer
        self.max_grad_norm = max_grad_norm
        self.precision = precision
        self.cached = True

    def __call__(self, inputs: Tensor, labels: Tensor, beta: Tensor) -> None:
        """Do one step with inputs ``[S, B, ...]``, labels ``[R, B]`` and β ``[R]``."""
        with autocast(inputs.device, self.precision, cached=self.cached):
            logits = self.model(inputs)  # (R, B, C)
        losses = self.loss_fn(logits.float() if logits.dtype == torch.bfloat16 else logits, labels, beta)  # (R, B)
        self.optimizer.zero_grad()
        losses.mean(1).sum().backward()
        if self.max_grad_norm is not None:
            self.model.clip_gradients(self.max_grad_norm)
        self.optimizer.step()


class GraphedStep:
    """A step that is recorded as one CUDA graph and replayed, so that the processor issues one launch instead of hundreds.

    The first steps, which let the libraries choose their kernels, are done one by one on a side stream. They are steps of the training, so
    that nothing is computed twice and nothing is undone. Then the step is recorded and replayed with new inputs, labels and β in the same
    memory. A batch of another size, such as the last of an epoch, is done by itself.

    The optimizer must read its learning rate from a tensor on the device, or a schedule of the learning rate would have no effect.

    Args:
        step: what to record.
    """

    WARM_UP = 3

    def __init__(self, step: Step) -> None:
        self.step = step
        self.step.cached = False  # a weight that autocast has cached would be the one of the recording
        self.done = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.held: tuple[Tensor, ...] = ()

    def __call__(self, inputs: Tensor, labels: Tensor, beta: Tensor) -> None:
        """Do one step with inputs ``[S, B, ...]``, labels ``[R, B]`` and β ``[R]``."""
        given = (inputs, labels, beta)
        if self.graph is None and self.done < self.WARM_UP:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.step(*given)
            torch.cuda.current_stream().wait_stream(stream)
            self.done += 1
            return
        if self.graph is None:
            self.held = tuple(tensor.clone(memory_format=torch.preserve_format) for tensor in given)
            self.step.optimizer.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step(*self.held)
        elif any(new.shape != old.shape for new, old in zip(given, self.held, strict=True)):
            self.step(*given)
            return
        for old, new in zip(self.held, given, strict=True):
            old.copy_(new)
        self.graph.replay()


def can_be_graphed(device: torch.device) -> bool:
    """Whether steps can be recorded on this device; if not, say so once in the log."""
    if device.type == "cuda":
        return True
    _log.info("a %s has no CUDA graphs: the steps are done one by one", device.type)
    return False
