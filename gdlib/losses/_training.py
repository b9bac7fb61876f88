"""What a loss that keeps something from batch to batch must know of the training around it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch import distributed as dist

from gdlib.functional.angular import AdaCosStatistics

_graph_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
"""Name the backward pass that is under way; -1 for none, or where PyTorch does not tell."""


def computes_again() -> bool:
    """Say whether activation checkpointing computes a forward pass once more.

    It does so within the backward pass. Where PyTorch does not tell, the answer is no, and a batch
    under activation checkpointing counts twice.
    """
    return not torch.compiler.is_compiling() and _graph_task() != -1


def of_all_processes(
    statistics: AdaCosStatistics, group: dist.ProcessGroup | None
) -> AdaCosStatistics:
    """Join the statistics of the batches that the processes of a group have."""
    if not (dist.is_available() and dist.is_initialized()):
        return statistics
    processes = dist.get_world_size(group)
    if processes == 1:
        return statistics
    log_total, counted, angle, before = statistics
    samples = torch.tensor([angle.shape[-1]], device=angle.device)
    sizes = _gathered(samples, processes, group)
    # one row for each run: the sum, the count, the angles, and NaN up to the largest batch
    missing = int(torch.cat(sizes).max()) - angle.shape[-1]
    angle = torch.nn.functional.pad(angle, (0, missing), value=math.nan)
    own = torch.cat([log_total.unsqueeze(-1), counted.to(angle).unsqueeze(-1), angle], -1)
    rows = torch.stack(_gathered(own, processes, group))
    return AdaCosStatistics(
        torch.logsumexp(rows[..., 0], 0),
        rows[..., 1].sum(0),
        torch.cat(list(rows[..., 2:]), -1),
        before,
    )


def _gathered(tensor: Tensor, processes: int, group: dist.ProcessGroup | None) -> list[Tensor]:
    tensors = [torch.empty_like(tensor) for _ in range(processes)]
    dist.all_gather(tensors, tensor.contiguous(), group=group)
    return tensors
