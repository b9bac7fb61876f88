"""The batches of an epoch: which samples, in which order, and in the form that a model sees."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gdlib.functional._arguments import check_boolean, check_whole, is_whole

Prepare = Callable[[Tensor, Tensor | None], Tensor]
Order = Callable[[int], Tensor]
Draws = Callable[[int], Tensor]

# keeps the key of an order apart from others of the same seed, such as those of an augmentation
_ORDERS = 1 << 32


def batch_order(seed: int, epoch: int, samples: int) -> Tensor:
    """Draw the order of the samples in an epoch, ``[N]``: a permutation.

    It depends only on the seed and the epoch.

    Args:
        seed: in [0, 2**31).
        epoch: in [0, 2**20).
        samples: N.

    Raises:
        ValueError: for a seed or an epoch outside its bounds.

    Example:
        >>> sorted(batch_order(seed=0, epoch=1, samples=4).tolist())
        [0, 1, 2, 3]
    """
    return batch_orders([seed], epoch, [samples])[0]


def batch_orders(seeds: Sequence[int], epoch: int, samples: Sequence[int]) -> Tensor:
    """Return the first n of :func:`batch_order` for each seed and number of samples, ``[S, n]``.

    n is the smallest of these numbers. PyTorch's generator keeps 32 bits of a seed, which hold an
    epoch below 2**20 and a seed below 2**12. Two larger seeds would share their orders, so theirs
    come from NumPy's Philox generator, whose key holds both in full.

    Example:
        >>> batch_orders([0, 1], epoch=1, samples=[4, 3]).shape
        torch.Size([2, 3])
    """
    generator = torch.Generator()
    length = min(samples)
    orders = []
    for seed, size in zip(seeds, samples, strict=True):
        if not (is_whole(seed, 0) and seed < 2**31 and is_whole(epoch, 0) and epoch < 2**20):
            raise ValueError(
                f"a batch order needs a seed in [0, {2**31}) and an epoch in [0, {2**20}), whole "
                f"numbers; got seed {seed}, epoch {epoch}"
            )
        size = check_whole("samples", size, 0)
        if seed < 2**12:
            generator.manual_seed((int(seed) << 20) + int(epoch))
            order = torch.randperm(size, generator=generator, device="cpu")
        else:
            key = np.array([_ORDERS + seed, epoch], dtype=np.uint64)
            permutation = np.random.Generator(np.random.Philox(key=key)).permutation(size)
            order = torch.from_numpy(permutation)
        orders.append(order[:length])
    return torch.stack(orders)


class Batch(NamedTuple):
    """What one step sees, on the device of the model."""

    inputs: Tensor  # (S, B, ...)
    targets: Tensor  # (R, B, ...)
    beta: Tensor  # (R,)


class Tables(NamedTuple):
    """Tables that the steps of an epoch read, on the device of the data."""

    indices: Tensor  # of the samples in their order, (S, n)
    targets: Tensor  # (R, n, ...)
    betas: Tensor  # of each step, (steps, R)
    draws: Tensor | None  # random numbers of each sample, (S, n, ...)

    def of_step(self, number: int, size: int) -> Tables:
        """Return the part for one step of the epoch, counted from 0."""
        part = slice(number * size, (number + 1) * size)
        draws = None if self.draws is None else self.draws[:, part]
        return Tables(self.indices[:, part], self.targets[:, part], self.betas[number], draws)

    def at(self, counter: Tensor, size: int) -> Tables:
        """Return the part for a full step whose number ``[1]`` is on the device."""
        part = counter * size + torch.arange(size, device=counter.device)
        return Tables(
            self.indices.index_select(1, part),
            self.targets.index_select(1, part),
            self.betas.index_select(0, counter).squeeze(0),
            None if self.draws is None else self.draws.index_select(1, part),
        )


class Batches:
    """The batches of R runs, S different ones in each step; arguments are those of ``train``.

    Attributes:
        groups: S.
        places: which of the S batches each run sees, ``[R]``; None where it is r // (R // S), as in
            a grid whose runs with equal seeds are adjacent.
        seeds: the seed of each run, by which a checkpoint identifies the order; None where the
            order was given.
        steps: number of steps in an epoch.
        samples: number of samples that a run sees in an epoch.
    """

    tables: Tables  # of the current epoch

    def __init__(
        self,
        data: tuple[Tensor, Tensor],
        runs: int,
        device: torch.device,
        *,
        size: int,
        seeds: int | Sequence[int] | Tensor | None,
        order: Order | None,
        drop_last: bool,
        prepare: Prepare | None,
        draws: Draws | None,
    ) -> None:
        self.inputs, targets = _checked(data, finite=prepare is None)
        other = targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool
        targets = targets if other else targets.long()
        self.targets = targets.to(self.inputs.device)
        for name, function in (("order", order), ("prepare", prepare), ("draws", draws)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function; got {type(function).__name__}")
        check_boolean("drop_last", drop_last)
        self.prepare, self.draws, self.device = prepare, draws, device
        self.size = check_whole("batch_size", size, 1)
        self.seeds: list[int] | None = None
        if order is None:
            self.seeds = _seeds_of_runs(seeds, runs)
            distinct = list(dict.fromkeys(self.seeds))
            lengths = [len(self.inputs)] * len(distinct)
            self.order: Order = lambda epoch: batch_orders(distinct, epoch, lengths)
            places = [distinct.index(seed) for seed in self.seeds]
            self.groups, length = len(distinct), len(self.inputs)
        elif seeds is not None:
            raise ValueError("order takes the place of seeds: leave one of them out")
        else:
            self.order = functools.lru_cache(maxsize=1)(order)  # called here first, for its shape
            first = torch.as_tensor(self.order(1), device=self.inputs.device)
            if first.ndim != 2 or len(first) not in (1, runs):
                raise ValueError(
                    f"an order must return the samples of an epoch for each of the {runs} runs, "
                    f"[{runs}, n], or for all, [1, n]; it returned the shape {list(first.shape)}"
                )
            self.groups, length = first.shape
            places = list(range(runs)) if self.groups > 1 else [0] * runs
        side_by_side = [run * self.groups // runs for run in range(runs)]
        regular = runs % self.groups == 0 and places == side_by_side
        self.places = None if regular else torch.tensor(places, device=self.inputs.device)
        self.shared = runs // self.groups
        self.length, self.drop_last = length, bool(drop_last)
        whole, rest = divmod(length, self.size)
        self.steps = whole if drop_last else whole + bool(rest)
        if not self.steps:
            raise ValueError(f"drop_last leaves nothing of {length} samples in batches of {size}")
        self.samples = whole * self.size if drop_last else length

    def described(self) -> list[str]:
        """Summarise the inputs and the targets, for a checkpoint to compare."""
        return [_summary(values) for values in (self.inputs, self.targets)]

    def begin(self, epoch: int, betas: Tensor) -> None:
        """Begin an epoch, counted from 1, with the β of each step, ``[steps, R]``."""
        here = self.inputs.device
        indices = self._of_epoch("the order", self.order, epoch)
        draws = None if self.draws is None else self._of_epoch("draws", self.draws, epoch)
        targets = self.targets[indices]
        if self.places is not None:
            targets = targets[self.places]
        elif self.shared > 1:
            targets = targets.repeat_interleave(self.shared, 0)
        self.tables = Tables(indices, targets, betas.to(here), draws)

    def _of_epoch(self, what: str, function: Callable[[int], Tensor], epoch: int) -> Tensor:
        values = torch.as_tensor(function(epoch), device=self.inputs.device)
        shape = self.groups, self.length
        if tuple(values.shape[:2]) != shape:
            raise ValueError(
                f"{what} of epoch {epoch} must begin with the shape {list(shape)}, as in "
                f"epoch 1; got {list(values.shape)}"
            )
        return values

    def batch(self, number: int) -> Batch:
        """Gather the batch for one step of the epoch, counted from 0."""
        return self.gather(self.tables.of_step(number, self.size))

    def gather(self, part: Tables) -> Batch:
        """Gather the inputs for a part of the tables and prepare them."""
        inputs = self.inputs.index_select(0, part.indices.flatten())
        inputs = inputs.unflatten(0, part.indices.shape).to(self.device)  # (S, B, ...)
        if self.prepare is not None:
            draws = None if part.draws is None else part.draws.to(self.device)
            made: Any = self.prepare(inputs, draws)
            if not isinstance(made, Tensor):
                raise TypeError(f"prepare must return a tensor; it returned {type(made).__name__}")
            inputs = made
        return Batch(inputs, part.targets.to(self.device), part.betas.to(self.device))

    def check_targets(self, classes: int, ignore_index: int) -> None:
        """Refuse class indices outside [0, classes) that are not to be ignored.

        Targets of other types, such as class probabilities, are left to the loss.
        """
        if self.targets.dtype != torch.int64:
            return
        outside = (self.targets < 0) | (self.targets >= classes)
        outside &= self.targets != ignore_index
        if outside.any():
            raise ValueError(
                f"labels hold {self.targets[outside][0].item()}, which lies outside "
                f"[0, {classes}): the model has {classes} outputs; mark samples that should not "
                f"count with {ignore_index}"
            )


def _checked(data: Any, *, finite: bool) -> tuple[Tensor, Tensor]:
    """Refuse data that cannot be trained on."""
    pair = data if isinstance(data, (list, tuple)) else ()
    if len(pair) != 2 or not all(isinstance(one, Tensor) for one in pair):
        given = f"{type(data).__name__} of {', '.join(type(one).__name__ for one in pair)}"
        raise TypeError(
            "data must be a pair of tensors (inputs, labels); got "
            f"{given if pair else type(data).__name__}. torch.as_tensor converts an array or a "
            "list; for a Dataset: torch.utils.data.default_collate(list(dataset))"
        )
    inputs, targets = (one.detach() for one in pair)  # features may carry a graph
    for name, values in (("inputs", inputs), ("labels", targets)):
        if values.layout is not torch.strided or values.is_meta:
            kind = "without values" if values.is_meta else f"of layout {values.layout}"
            raise ValueError(f"{name} must be a dense tensor with values; got one {kind}")
    if inputs.ndim == 0 or targets.ndim == 0 or len(inputs) != len(targets) or not len(inputs):
        raise ValueError(
            "inputs and labels must hold the same number of samples, at least one; got shapes "
            f"{list(inputs.shape)} and {list(targets.shape)}"
        )
    # the sum takes one pass; single values are checked only if it is not finite
    if finite and not inputs.sum().isfinite() and not inputs.isfinite().all():
        raise ValueError(
            "inputs must be finite; they hold NaN or infinity, and there is no prepare to "
            "replace them"
        )
    return inputs, targets


def _summary(values: Tensor) -> str:
    """Write a checksum of whole numbers, and the sum of the magnitudes of others.

    Nine digits of it are the same on every processor.
    """
    if not (values.is_floating_point() or values.is_complex()):
        return hashlib.sha256(values.cpu().contiguous().numpy().data).hexdigest()[:16]
    sums = [part.cpu().abs().sum(dtype=torch.float64).item() for part in values.split(1024)]
    return f"{math.fsum(sums):.9g}"


def _seeds_of_runs(seeds: Any, runs: int) -> list[int]:
    """Return a seed for each run."""
    if isinstance(seeds, Tensor) and seeds.ndim == 0:
        seeds = seeds.item()
    if seeds is None or is_whole(seeds):
        return [int(seeds or 0)] * runs
    try:
        each = seeds.tolist() if isinstance(seeds, Tensor) else list(seeds)
    except TypeError:
        each = []
    if len(each) != runs or not all(is_whole(seed) for seed in each):
        raise ValueError(
            f"seeds must be a whole number, or one for each of the {runs} runs; got {seeds!r}"
        )
    return [int(seed) for seed in each]
