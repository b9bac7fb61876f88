"""Where the batches of a training come from: tensors, a Dataset, or a DataLoader."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from gdlib.train.options import Batches, Order, Prepare
from gdlib.train.order import batch_orders

_OTHER_INTEGERS = (
    *(torch.int8, torch.int16, torch.int32),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)


class Batch(NamedTuple):
    """What one step sees, on the device of the model."""

    inputs: Tensor  # (S, B, ...)
    targets: Tensor  # (R, B, ...)
    beta: Tensor  # (R,)


class Source(ABC):
    """The batches of each epoch, for R runs of which R/S share one; abstract.

    Attributes:
        samples: n, in an epoch of a run; None where it is not known.
        groups: S, how many different batches a step has.
        steps: in an epoch.
    """

    samples: int | None
    groups: int
    steps: int

    @abstractmethod
    def begin(self, epoch: int, betas: Tensor) -> None:
        """Begin an epoch, counted from 1, with the β of each step, ``[steps, R]``."""

    @abstractmethod
    def batch(self, number: int) -> Batch:
        """Return the batch of this number, from 0; the batches of an epoch come in turn."""

    @abstractmethod
    def check_targets(self, classes: int, ignore_index: int) -> None:
        """Refuse class indices outside [0, classes) that are not ``ignore_index``.

        All targets are looked at here if they are at hand, else those of each batch.
        """

    def generators(self) -> dict[str, torch.Generator]:
        """Return the generators of random numbers whose states decide the batches, by name."""
        return {}


class Tables(NamedTuple):
    """Tables that the steps of an epoch read, on the device of the data."""

    indices: Tensor  # of the samples in their order, (S, n)
    targets: Tensor  # (R, n, ...)
    betas: Tensor  # of each step, (steps, R)
    draws: Tensor | None  # random numbers of each sample, (S, n, ...)

    def of_step(self, number: int, size: int) -> Tables:
        """Return the part of a step of the epoch, counted from 0."""
        part = slice(number * size, (number + 1) * size)
        draws = None if self.draws is None else self.draws[:, part]
        return Tables(self.indices[:, part], self.targets[:, part], self.betas[number], draws)

    def at(self, counter: Tensor, size: int) -> Tables:
        """Return the part of a full step whose number ``[1]`` is on the device."""
        part = counter * size + torch.arange(size, device=counter.device)
        return Tables(
            self.indices.index_select(1, part),
            self.targets.index_select(1, part),
            self.betas.index_select(0, counter).squeeze(0),
            None if self.draws is None else self.draws.index_select(1, part),
        )


class TensorSource(Source):
    """Batches of inputs ``[N, ...]`` and targets ``[N, ...]`` that lie in memory."""

    tables: Tables  # of the epoch under way

    def __init__(
        self, inputs: Tensor, targets: Tensor, batches: Batches, runs: int, device: torch.device
    ) -> None:
        self.inputs = inputs
        self.targets = as_indices(targets).to(inputs.device)
        self.prepare, self.draws = batches.prepare, batches.draws
        self.size = batches.size
        self.runs = runs
        self.device = device
        self.order, self.groups, self.samples = order_of(batches, len(inputs), runs)
        self.steps = _steps(self.samples, batches)

    def begin(self, epoch: int, betas: Tensor) -> None:
        """Make the tables of the epoch."""
        here = self.inputs.device
        indices = self.order(epoch).to(here)
        _check_epoch("the order", indices, epoch, (self.groups, self.samples))
        draws = None if self.draws is None else self.draws(epoch).to(here)
        if draws is not None:
            _check_epoch("draws", draws, epoch, (self.groups, self.samples))
        targets = for_runs(self.targets[indices], self.runs)
        self.tables = Tables(indices, targets, betas.to(here), draws)

    def batch(self, number: int) -> Batch:
        """Gather the batch of a step."""
        return self.gather(self.tables.of_step(number, self.size))

    def gather(self, part: Tables) -> Batch:
        """Gather the inputs of a part of the tables, and prepare them."""
        inputs = self.inputs.index_select(0, part.indices.flatten())
        inputs = inputs.unflatten(0, part.indices.shape).to(self.device)  # (S, B, ...)
        draws = None if part.draws is None else part.draws.to(self.device)
        inputs = prepared(self.prepare, inputs, draws)
        return Batch(inputs, part.targets.to(self.device), part.betas.to(self.device))

    def check_targets(self, classes: int, ignore_index: int) -> None:
        """Look at all targets."""
        check_indices(self.targets, classes, ignore_index)


class _Stream(Source):
    """Batches that are made one after another; abstract."""

    def __init__(self, batches: Batches, runs: int, device: torch.device) -> None:
        self.prepare = batches.prepare
        self.runs = runs
        self.device = device
        self.limits: tuple[int, int] | None = None  # classes and the index to be ignored

    @abstractmethod
    def items(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Make inputs ``[S, B, ...]`` and targets ``[S, B, ...]``, batch by batch."""

    def begin(self, epoch: int, betas: Tensor) -> None:
        """Begin to make batches."""
        self.iterator = self.items(epoch)
        self.betas = betas.to(self.device)

    def batch(self, number: int) -> Batch:
        """Make the next batch."""
        item = next(self.iterator, None)
        if item is None:
            raise ValueError(
                f"the DataLoader said that it has {self.steps} batches, and made {number}"
            )
        inputs, targets = item
        self.now = as_indices(targets)
        if self.limits is not None:
            check_indices(self.now, *self.limits)
        inputs = prepared(self.prepare, inputs.to(self.device), None)
        return Batch(inputs, for_runs(self.now, self.runs).to(self.device), self.betas[number])

    def check_targets(self, classes: int, ignore_index: int) -> None:
        """Look at the targets of the batch under way, and of all that follow."""
        self.limits = (classes, ignore_index)
        check_indices(self.now, classes, ignore_index)


class DatasetSource(_Stream):
    """Batches of a Dataset that is asked for its samples one by one, in the order of the seeds."""

    def __init__(
        self, dataset: Dataset[Any], batches: Batches, runs: int, device: torch.device
    ) -> None:
        super().__init__(batches, runs, device)
        if batches.draws is not None:
            raise ValueError(
                "draws belong to samples in tensors; let the Dataset draw its own random numbers"
            )
        self.dataset = dataset
        self.size = batches.size
        self.order, self.groups, self.samples = order_of(batches, _length(dataset), runs)
        self.steps = _steps(self.samples, batches)

    def items(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Ask for the samples of each batch."""
        order = self.order(epoch)
        _check_epoch("the order", order, epoch, (self.groups, self.samples))
        for indices in order.split(self.size, 1)[: self.steps]:
            pairs = [
                as_pair(default_collate([self.dataset[index] for index in row]))
                for row in indices.tolist()
            ]
            yield (
                torch.stack([inputs for inputs, _ in pairs]),
                torch.stack([targets for _, targets in pairs]),
            )


class LoaderSource(_Stream):
    """The batches of a DataLoader, which all runs share."""

    groups = 1

    def __init__(
        self, loader: DataLoader[Any], batches: Batches, runs: int, device: torch.device
    ) -> None:
        super().__init__(batches, runs, device)
        if replace(batches, prepare=None) != Batches():
            raise ValueError(
                "a DataLoader has batches, an order and drop_last of its own: of Batches, only "
                "prepare goes with it"
            )
        self.loader = loader
        self.steps = _length(loader)
        if self.steps == 0:
            raise ValueError("the DataLoader has no batch")
        size = getattr(loader.dataset, "__len__", None)
        self.samples = None if size is None else size()

    def items(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Go through the DataLoader once."""
        for item in self.loader:
            inputs, targets = as_pair(item)
            yield inputs[None], targets[None]

    def generators(self) -> dict[str, torch.Generator]:
        """Return the generators of the DataLoader and of its sampler."""
        both = {
            "loader": self.loader.generator,
            "sampler": getattr(self.loader.sampler, "generator", None),
        }
        return {
            name: generator
            for name, generator in both.items()
            if isinstance(generator, torch.Generator)
        }


def source_of(data: Any, batches: Batches, runs: int, device: torch.device) -> Source:
    """Make the source of a pair of tensors, a Dataset or a DataLoader.

    Raises:
        TypeError: for anything else.
        ValueError: for data that make no training.
    """
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, DataLoader):
        return LoaderSource(data, batches, runs, device)
    if isinstance(data, IterableDataset) and hasattr(data, "__len__"):
        raise TypeError(
            f"{type(data).__name__} is gone through in its own order: give "
            "DataLoader(data, batch_size=...)"
        )
    if isinstance(data, Dataset):
        return DatasetSource(data, batches, runs, device)
    if isinstance(data, Sequence) and len(data) == 2 and all(isinstance(x, Tensor) for x in data):
        inputs, targets = data
        for name, values in (("inputs", inputs), ("labels", targets)):
            if values.layout is not torch.strided or values.is_meta:
                kind = "without values" if values.is_meta else f"of layout {values.layout}"
                raise ValueError(f"{name} must be a dense tensor with values; got one {kind}")
        if inputs.ndim == 0 or targets.ndim == 0 or len(inputs) != len(targets) or not len(inputs):
            raise ValueError(
                "inputs and labels must hold the same number of samples, at least one; got shapes "
                f"{list(inputs.shape)} and {list(targets.shape)}"
            )
        if batches.prepare is None and not inputs.isfinite().all():
            raise ValueError(
                "inputs must be finite; they hold NaN or infinity, and there is no prepare that "
                "could mend them"
            )
        return TensorSource(inputs, targets, batches, runs, device)
    given = type(data).__name__
    if isinstance(data, (list, tuple)):
        given = f"{given} of {', '.join(type(one).__name__ for one in data)}"
    raise TypeError(
        "data must be a pair of tensors (inputs, labels), a torch.utils.data.Dataset or a "
        f"DataLoader; got {given}. torch.as_tensor makes a tensor of an array or a list"
    )


def order_of(batches: Batches, samples: int, runs: int) -> tuple[Order, int, int]:
    """Return the order of the samples, the number S of its rows, and their number in an epoch."""
    if batches.order is None:
        seeds = list(batches.seeds)

        def order(epoch: int) -> Tensor:
            return batch_orders(seeds, epoch, [samples] * len(seeds))

        groups, length = len(seeds), samples
    else:
        order = functools.lru_cache(maxsize=1)(batches.order)  # its shape is asked for first
        first = order(1)
        if first.ndim != 2:
            raise ValueError(
                "an order must return the samples of an epoch for each of S rows, [S, N]; it "
                f"returned the shape {list(first.shape)}"
            )
        groups, length = first.shape
    if not groups or runs % groups:
        raise ValueError(
            f"seeds must be as many as divide the {runs} runs, got {groups}; so must the rows of "
            "an order"
        )
    return order, groups, length


def _check_epoch(what: str, values: Tensor, epoch: int, shape: tuple[int, int | None]) -> None:
    """Refuse an epoch of another shape than the first; the number of steps would be another."""
    if tuple(values.shape[:2]) != shape:
        raise ValueError(
            f"{what} of epoch {epoch} must begin with the shape {list(shape)}, as that of epoch 1; "
            f"got {list(values.shape)}"
        )


def prepared(prepare: Prepare | None, inputs: Tensor, draws: Tensor | None) -> Tensor:
    """Make of a batch what the model sees.

    Raises:
        TypeError: for a ``prepare`` that returns no tensor.
    """
    if prepare is None:
        return inputs
    made: object = prepare(inputs, draws)
    if not isinstance(made, Tensor):
        raise TypeError(f"prepare must return a tensor; it returned a {type(made).__name__}")
    return made


def as_pair(item: Any) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a batch.

    Raises:
        TypeError: for a batch that is not two tensors.
    """
    if isinstance(item, Sequence) and len(item) == 2 and all(isinstance(x, Tensor) for x in item):
        return item[0], item[1]
    kinds = [type(x).__name__ for x in item] if isinstance(item, Sequence) else type(item).__name__
    raise TypeError(
        f"a batch must be two tensors, inputs and labels; got {kinds}. Let the Dataset, or the "
        "collate_fn of the DataLoader, return such a pair"
    )


def as_indices(targets: Tensor) -> Tensor:
    """Make whole numbers int64; other targets stay as they are."""
    return targets.long() if targets.dtype in _OTHER_INTEGERS else targets


def check_indices(targets: Tensor, classes: int, ignore_index: int) -> None:
    """Refuse class indices outside [0, classes) that are not to be ignored.

    Targets of other types, such as class probabilities, are left to the loss.
    """
    if targets.dtype != torch.int64:
        return
    outside = ((targets < 0) | (targets >= classes)) & (targets != ignore_index)
    if outside.any():
        raise ValueError(
            f"labels hold {targets[outside][0].item()}, which lies outside [0, {classes}): the "
            f"model has {classes} outputs; mark samples that should not count with {ignore_index}"
        )


def for_runs(targets: Tensor, runs: int) -> Tensor:
    """Repeat targets ``[S, n, ...]`` for the runs that share them, ``[R, n, ...]``."""
    shared = runs // len(targets)
    return targets if shared == 1 else targets.repeat_interleave(shared, 0)


def _steps(samples: int, batches: Batches) -> int:
    whole, rest = divmod(samples, batches.size)
    if batches.drop_last:
        if whole == 0:
            raise ValueError(
                f"drop_last leaves nothing of {samples} samples in batches of {batches.size}"
            )
        return whole
    return whole + bool(rest)


def _length(data: Any) -> int:
    try:
        length = len(data)
    except TypeError as error:
        raise ValueError(
            f"{type(data).__name__} must have a length: an epoch and the schedules need one"
        ) from error
    if length == 0:
        raise ValueError("data must hold at least one sample")
    return int(length)
