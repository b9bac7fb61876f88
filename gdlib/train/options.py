"""What a training is given beside model, loss and data: small frozen groups of numbers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeGuard

from torch import Tensor, nn

from gdlib.functional._arguments import check_boolean, is_whole

OPTIMIZERS = ("sgd", "adam")
LR_SCHEDULES = ("milestones", "exponential", "one-cycle")
PRECISIONS = ("float32", "bfloat16")
_MOMENTUM = {"sgd": 0.0, "adam": 0.9}

Prepare = Callable[[Tensor, Tensor | None], Tensor]
"""Makes what the model sees, normalised or augmented, of a batch ``[S, B, ...]`` as it lies in
memory and of the random numbers drawn for it."""

Order = Callable[[int], Tensor]
"""Maps the number of an epoch, from 1, to the indices ``[S, n]`` of its samples.

n is the same in every epoch.
"""

Draws = Callable[[int], Tensor]
"""Maps the number of an epoch, from 1, to random numbers ``[S, n, ...]`` on the CPU.

There is one row for each sample, in the order of the epoch.
"""

Measure = Callable[[nn.Module, int], Mapping[str, Tensor | float] | None]
"""Called with the model and the number of finished epochs; what it returns goes into the history.

Of a stack of R runs a value is a tensor whose first dimension is R.
"""


@dataclass(frozen=True)
class Optimisation:
    """How the weights are updated: by stochastic gradient descent or Adam.

    Args:
        learning_rate: step size.
        optimizer: ``"sgd"``, or ``"adam"`` with its second decay rate at 0.999.
        momentum: heavy-ball momentum of SGD, the first decay rate of Adam; None for PyTorch's
            own, 0 and 0.9.
        weight_decay: coefficient of the L2 penalty that is added to the gradient. Parameters of
            the loss have none.
        lr_schedule: of the learning rate. ``"milestones"``: see there. ``"exponential"``: by the
            same factor after every epoch, down to a thousandth in the last one. ``"one-cycle"``:
            from step to step up to ``learning_rate`` and down to nothing, while the momentum goes
            from 0.95 to 0.85 and back, whatever ``momentum`` says
            (:class:`torch.optim.lr_scheduler.OneCycleLR`).
        milestones: after these numbers of finished epochs the learning rate is divided by ten.
        max_grad_norm: limit for the Euclidean norm of the gradient of each run's model; None for
            no limit.

    Raises:
        ValueError: for an unknown name, and for a number that makes no training.

    Example:
        >>> Optimisation(0.1, momentum=0.9, milestones=[10, 15]).optimizer
        'sgd'
        >>> Optimisation(learning_rate=-0.1)
        Traceback (most recent call last):
        ValueError: learning_rate must be finite and >= 0, got -0.1
    """

    learning_rate: float
    optimizer: str = "sgd"
    momentum: float | None = None
    weight_decay: float = 0.0
    lr_schedule: str = "milestones"
    milestones: Sequence[int] = ()
    max_grad_norm: float | None = None

    def __post_init__(self) -> None:
        _check_name("optimizer", self.optimizer, OPTIMIZERS)
        _check_name("lr_schedule", self.lr_schedule, LR_SCHEDULES)
        momentum = _MOMENTUM[self.optimizer] if self.momentum is None else self.momentum
        _set(self, "momentum", momentum)
        for name in ("learning_rate", "momentum", "weight_decay"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value < math.inf:
                raise ValueError(f"{name} must be finite and >= 0, got {value!r}")
            _set(self, name, float(value))
        if momentum >= 1:
            raise ValueError(f"momentum must be less than 1, got {momentum!r}")
        _check_whole_numbers("milestones", self.milestones)
        _set(self, "milestones", tuple(map(int, self.milestones)))
        if min(self.milestones, default=0) < 0:
            raise ValueError(f"milestones must be >= 0; got {list(self.milestones)}")
        limit = self.max_grad_norm
        if limit is None:
            return
        if not (_is_number(limit) and limit > 0):
            raise ValueError(f"max_grad_norm must be > 0, or None for no limit; got {limit!r}")
        _set(self, "max_grad_norm", float(limit))


@dataclass(frozen=True)
class Batches:
    """Which samples a step sees, and how they reach the model.

    Samples are shuffled anew in each epoch, by ``seeds`` alone and not by
    :func:`torch.manual_seed`: to repeat a training with other batches, give another seed.

    Args:
        size: samples in a step.
        drop_last: leave out the last batch of an epoch where it would be smaller. Batch
            normalisation makes nothing of a batch of one sample.
        seeds: S seeds for :func:`batch_order`, S a divisor of the R runs; runs ``r // (R // S)``
            share one, and so their batches.
        order: instead of seeds, the samples of each epoch, for runs that do not train on the same
            ones. It must depend on the epoch only.
        prepare: makes of a batch, and of the numbers drawn for it or None, what the model sees; by
            default the batch itself.
        draws: random numbers for ``prepare``, such as the places of crops. They must depend on the
            epoch only.

    Raises:
        ValueError: for a size below 1, and for seeds that are no whole numbers.
        TypeError: for an order, draws or a prepare that is no function, and for a drop_last that
            is neither True nor False.

    Example:
        >>> Batches(size=64, seeds=[3]).drop_last
        False
    """

    size: int = 128
    drop_last: bool = False
    seeds: Sequence[int] = (0,)
    order: Order | None = None
    prepare: Prepare | None = None
    draws: Draws | None = None

    def __post_init__(self) -> None:
        _check_count("size of a batch", self.size)
        _set(self, "size", int(self.size))
        check_boolean("drop_last")(self.drop_last)
        _check_whole_numbers("seeds", self.seeds)
        _set(self, "seeds", tuple(map(int, self.seeds)))
        for name in ("order", "prepare", "draws"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be a function; got {type(value).__name__}")


@dataclass(frozen=True)
class Execution:
    """How the steps are computed. Nothing that changes results by more than rounding is a default.

    Args:
        precision: ``"float32"``, or ``"bfloat16"`` for a model that runs under autocast; the
            weights and the loss stay in float32.
        manual_backward: where it can, do the steps of perceptrons by a backward pass written by
            hand, to rounding the same. It can on a CPU, with SGD, on tensors, for a
            :class:`gdlib.losses.GDCrossEntropyLoss` whose options are those of PyTorch, and for a
            :class:`RunLoss` that says so.
        fused: let the optimiser update all parameters in one kernel; on a CPU this changes last
            bits.
        cuda_graph: record one step on the GPU and replay it. On another device, or where data come
            from a Dataset or a DataLoader, the steps are done one by one, and the log says so.

    Raises:
        ValueError: for an unknown precision.
        TypeError: for a switch that is neither True nor False.

    Example:
        >>> Execution(precision="bfloat16", fused=True).cuda_graph
        False
    """

    precision: str = "float32"
    manual_backward: bool = True
    fused: bool = False
    cuda_graph: bool = False

    def __post_init__(self) -> None:
        _check_name("precision", self.precision, PRECISIONS)
        for name in ("manual_backward", "fused", "cuda_graph"):
            check_boolean(name)(getattr(self, name))


@dataclass(frozen=True)
class Checkpoint:
    """Where the state of a training is kept between epochs.

    If the file exists, training goes on from there and ends in the same weights, bit for bit, as
    without the interruption (CPU, one thread). It is left in place at the end.

    Args:
        path: the file.
        every: epochs between two writes. The end, and an exception such as an interruption, write
            the last whole epoch.
        identity: describes model, data, loss and schedule. A file with another identity is
            refused. Without one, a file is refused where the kind, a number or the shape of a
            tensor of the loss, or a schedule of :mod:`gdlib.schedules`, is another one than it was
            written with. Neither data, ``prepare`` and other functions, nor what a model computes
            is compared. Of a tensor of the loss (class weights, a tensor β) the file's values go
            on.

    Raises:
        ValueError: for ``every`` below 1, and for a path that is a directory.
        TypeError: for what is no path.

    Example:
        >>> Checkpoint("state.pt", every=5).identity
        ''
    """

    path: str | os.PathLike[str]
    every: int = 1
    identity: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):
            raise TypeError(f"path must be the name of a file; got {self.path!r}")
        _check_count("every, the epochs between two checkpoints,", self.every)
        _set(self, "every", int(self.every))
        if os.path.isdir(self.path):
            raise ValueError(
                f"a checkpoint is a file, and {os.fspath(self.path)} is a directory; "
                f"name a file in it, such as {os.path.join(self.path, 'state.pt')}"
            )


def check_group(name: str, given: object, kind: type, example: str) -> None:
    """Refuse what is no group of options of this kind, such as an optimizer of PyTorch."""
    if not isinstance(given, kind):
        raise TypeError(
            f"{name} must be of the kind {kind.__name__}, such as {example}; got "
            f"{type(given).__name__}"
        )


def _set(options: object, name: str, value: object) -> None:
    """Set a field of frozen options: a plain number, which a checkpoint can hold."""
    object.__setattr__(options, name, value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_whole_numbers(what: str, values: object) -> None:
    numbers = list(values) if isinstance(values, Iterable) else [values]
    if not isinstance(values, Iterable) or not all(map(is_whole, numbers)):
        raise ValueError(f"{what} must be a sequence of whole numbers; got {values!r}")


def _check_count(what: str, count: object) -> None:
    if not is_whole(count, 1):
        raise ValueError(f"{what} must be a whole number >= 1, got {count!r}")


def _check_name(what: str, name: str, valid: Sequence[str]) -> None:
    if name not in valid:
        raise ValueError(f"unknown {what} {name!r}; valid: {', '.join(valid)}")
