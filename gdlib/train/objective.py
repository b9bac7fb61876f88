"""What a training minimises: for each run, the mean of its loss over the samples of a batch."""

from __future__ import annotations

import copy
import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from gdlib import losses
from gdlib.functional import gd_cross_entropy

BetaAndTemperature = Callable[[Tensor], tuple[Tensor | float, Tensor | float]]
"""Maps the β of a step, ``[R]``, to β and τ of a gradient decay, each ``[R]`` or a number."""

LossFunction = Callable[..., Tensor]
"""Maps outputs ``[N, C]`` of a run and targets ``[N]`` to the loss of each sample ``[N]``, or to
one number for all. It may be a module; further outputs of a model are passed as further
arguments."""


class Objective(ABC):
    """The loss of each run, with what the trainer needs to know about it; abstract.

    Attributes:
        ignore_index: the class index of samples that do not count, where targets are class
            indices; None where the kind of targets is not known.
    """

    ignore_index: int | None

    @abstractmethod
    def __call__(self, outputs: Sequence[Tensor], targets: Tensor, beta: Tensor) -> Tensor:
        """Compute the loss of each run, ``[R]``, for outputs and targets ``[R, N, ...]``."""

    @abstractmethod
    def module(self) -> nn.Module | None:
        """Return the module with the parameters and buffers of the loss; None if it has none."""

    @abstractmethod
    def beta_and_temperature(self) -> BetaAndTemperature | None:
        """Return β and τ of a loss that is gradient decay plus a constant; None for others."""

    @abstractmethod
    def betas(self, runs: int) -> list[float] | None:
        """Return the β of each run where ``betas`` does not give it; None for losses without β."""

    def described(self) -> list[str]:
        """Name the loss of each run with its numbers, as far as they are known."""
        return []

    def constant(self) -> float:
        """Return the constant by which such a loss exceeds gradient decay."""
        return 0.0

    def all_count(self, targets: Tensor) -> bool:
        """Say whether all targets ``[N]`` are class indices, none of them to be ignored."""
        return (
            targets.ndim == 1
            and targets.dtype == torch.int64
            and self.ignore_index is not None
            and not bool((targets == self.ignore_index).any())
        )

    def begin(self) -> None:
        """Begin an epoch, in training mode; the loss's numbers may have changed since the last."""
        self.train(True)

    def parameters(self) -> list[nn.Parameter]:
        """Return what is learnt besides the model."""
        module = self.module()
        return [] if module is None else list(module.parameters())

    def train(self, mode: bool) -> None:
        """Set a loss that is a module to training or evaluation mode."""
        module = self.module()
        if module is not None:
            module.train(mode)


class RunLoss(Objective):
    r"""Mark a loss that computes all runs of a stack at once and takes the β of each.

    If the loss is a module, its parameters are trained and its buffers are kept in a checkpoint. A
    loss that is :func:`gdlib.functional.gd_cross_entropy` plus a constant may declare this with an
    attribute ``beta_and_temperature``, a function from the β of a step, ``[R]``, to β and τ of the
    loss, each ``[R]`` or a number, and a number ``constant`` if that is not 0; the trainer then
    computes the gradient by hand where it can.

    Args:
        loss: maps outputs ``[R, N, C]``, class indices ``[R, N]`` and β ``[R]`` to the loss of
            every sample ``[R, N]``.

    Example:
        >>> def decayed(logits, labels, beta):
        ...     return gd_cross_entropy(
        ...         logits.movedim(2, 1), labels, beta=beta[:, None], reduction="none"
        ...     )
        >>> loss = RunLoss(decayed)
        >>> logits, labels = torch.zeros(2, 5, 2), torch.zeros(2, 5, dtype=torch.long)
        >>> loss([logits], labels, torch.tensor([1.0, 3.0]))  # log 2 and log 4
        tensor([0.6931, 1.3863])
    """

    ignore_index = -100

    def __init__(self, loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        if not callable(loss):
            raise TypeError(f"loss must be a function of outputs, labels and β; got {loss!r}")
        self.loss = loss

    def __call__(self, outputs: Sequence[Tensor], targets: Tensor, beta: Tensor) -> Tensor:
        """Compute the mean loss of each run, ``[R]``."""
        if len(outputs) != 1:
            raise ValueError(
                f"a RunLoss takes one output of a model, but this model returns {len(outputs)}; "
                "join them with torch.cat"
            )
        values = self.loss(outputs[0], targets, beta)  # (R, N)
        if values.shape != targets.shape:
            raise ValueError(
                f"a RunLoss must return the loss of every sample, {list(targets.shape)}; it "
                f"returned {list(values.shape)}"
            )
        return values.flatten(1).mean(1)

    def described(self) -> list[str]:
        """Name the loss with its numbers."""
        return [_described(self.loss, without_beta=False)]

    def module(self) -> nn.Module | None:
        """Return the loss if it is a module."""
        return self.loss if isinstance(self.loss, nn.Module) else None

    def constant(self) -> float:
        """Return the loss's attribute of this name, 0 if it has none."""
        return float(getattr(self.loss, "constant", 0.0))

    def beta_and_temperature(self) -> BetaAndTemperature | None:
        """Return the loss's attribute of this name, None if it has none."""
        function: BetaAndTemperature | None = getattr(self.loss, "beta_and_temperature", None)
        return function

    def betas(self, runs: int) -> list[float] | None:
        """Return 1 for each run."""
        return [1.0] * runs


class LossOfEachRun(Objective):
    """A PyTorch-style loss for each run, called with the outputs and targets of the run.

    Gradient decays that differ only in β are computed in one call if ``targets`` are given.

    Args:
        each: one loss for each run.
        given: take β from the trainer; all losses are then GDCrossEntropyLoss.
        targets: those of all samples.
    """

    def __init__(
        self, each: Sequence[LossFunction], *, given: bool, targets: Tensor | None = None
    ) -> None:
        self.each = list(each)
        self.given = given
        self.modules = nn.ModuleList(one for one in self.each if isinstance(one, nn.Module))
        self.ignore_index = _ignored(self.each)
        self.at_once = targets is not None and self.all_count(targets)
        self.temperature: float | None = None  # of all, where they are computed in one call
        self.fits: set[int] = set()  # runs whose loss takes the outputs of the model

    def begin(self) -> None:
        """Begin an epoch: see whether the losses can still be computed in one call."""
        self.train(True)
        temperatures = set(self._temperatures() if self.at_once else ())
        self.temperature = temperatures.pop() if len(temperatures) == 1 else None

    def __call__(self, outputs: Sequence[Tensor], targets: Tensor, beta: Tensor) -> Tensor:
        """Compute the loss of each run, ``[R]``: its number, or the mean over its samples."""
        if self.temperature is not None and len(outputs) == 1 and outputs[0].ndim == 3:
            values = gd_cross_entropy(
                outputs[0].flatten(0, 1),
                targets.flatten(),
                beta=beta.repeat_interleave(targets.shape[1]),
                temperature=self.temperature,
                reduction="none",
            )
            return values.unflatten(0, targets.shape).mean(1)
        return torch.stack(
            [
                self._of_run(run, [output[run] for output in outputs], targets[run], beta[run])
                for run in range(len(self.each))
            ]
        )

    def _of_run(self, run: int, outputs: Sequence[Tensor], targets: Tensor, beta: Tensor) -> Tensor:
        loss = self.each[run]
        first, *further = outputs
        if run not in self.fits:
            _check_arguments(loss, first, targets, *further)
            self.fits.add(run)
        if self.given and isinstance(loss, losses.GDCrossEntropyLoss):
            value = gd_cross_entropy(
                first,
                targets,
                beta=beta,
                temperature=loss.temperature,
                weight=loss.weight,
                ignore_index=loss.ignore_index,
                reduction=loss.reduction,
                label_smoothing=loss.label_smoothing,
            )
        else:
            value = loss(first, targets, *further)
        if not isinstance(value, Tensor):
            raise TypeError(f"loss must return a tensor; it returned a {type(value).__name__}")
        if value.ndim == 0:
            return value
        if len(value) != len(targets):
            raise ValueError(
                f"loss must return one number, or one for each of the {len(targets)} samples; it "
                f"returned the shape {list(value.shape)}"
            )
        return value.mean()

    def described(self) -> list[str]:
        """Name each loss; those of :mod:`gdlib.losses` with their numbers."""
        return [_described(loss, without_beta=self.given) for loss in self.each]

    def module(self) -> nn.Module | None:
        """Return the losses that are modules, if they have parameters or buffers."""
        return self.modules if self.modules.state_dict() else None

    def train(self, mode: bool) -> None:
        """Set all losses that are modules to training or evaluation mode."""
        self.modules.train(mode)

    def beta_and_temperature(self) -> BetaAndTemperature | None:
        """Return β and τ where all losses are gradient decays without further options."""
        temperatures = self._temperatures()
        if not temperatures:
            return None
        if len(set(temperatures)) == 1:
            return lambda beta: (beta, temperatures[0])
        return lambda beta: (beta, beta.new_tensor(temperatures))  # in the type of the model

    def _temperatures(self) -> list[float]:
        """Return τ of each run if β and τ, both numbers, alone shape every loss; else nothing."""
        temperatures = []
        for loss in self.each:
            if type(loss) is not losses.GDCrossEntropyLoss or has_hooks(loss):
                return []
            if "forward" in vars(loss):  # as libraries wrap it
                return []
            if isinstance(loss.beta, Tensor) or isinstance(loss.temperature, Tensor):
                return []
            if loss.weight is not None or loss.label_smoothing or loss.reduction == "sum":
                return []
            temperatures.append(float(loss.temperature))
        return temperatures

    def betas(self, runs: int) -> list[float] | None:
        """Return the β of each loss, if each has a single one."""
        values = []
        for loss in self.each:
            if not isinstance(loss, losses.GDCrossEntropyLoss):
                return None
            beta = loss.beta
            if isinstance(beta, Tensor):
                if beta.ndim:
                    return None
                beta = beta.item()
            values.append(float(beta))
        return values


def objective_of(loss: Any, runs: int, *, given: bool, targets: Tensor, at_once: bool) -> Objective:
    """Make the objective of a training.

    Args:
        loss: a :class:`RunLoss`, a PyTorch-style loss, or a sequence with one for each run. Every
            run gets a copy of a module without parameters, so that its state is the run's own.
        runs: R.
        given: whether the trainer is given the β of each run.
        targets: those of all samples.
        at_once: compute gradient decays that differ only in β in one call, which rounds
            differently.

    Raises:
        TypeError: for a loss that is not a function, and for a class.
        ValueError: for a loss that does not fit the runs, or that takes no β.
    """
    if isinstance(loss, RunLoss):
        return loss
    each = _of_runs(loss, runs)
    for one in each:
        if not callable(one):
            raise TypeError(
                "loss must be a function of outputs and targets, such as GDCrossEntropyLoss(); "
                f"got {one!r}"
            )
        if isinstance(one, type):
            raise TypeError(f"loss must be an instance, not a class: give {one.__name__}(...)")
        if given and (type(one) is not losses.GDCrossEntropyLoss or "forward" in vars(one)):
            raise ValueError(f"{_name(one)} takes no betas; GDCrossEntropyLoss and RunLoss do")
        if given and isinstance(one.beta, nn.Parameter):  # type: ignore[attr-defined]
            raise ValueError("beta is learnt: leave betas out")
        if isinstance(one, losses.AdaCosLoss) and one.scale.ndim:
            raise ValueError(
                "leave out the argument runs of AdaCosLoss: every run gets its own loss"
            )
    return LossOfEachRun(each, given=given, targets=targets if at_once else None)


def _of_runs(loss: Any, runs: int) -> list[LossFunction]:
    if isinstance(loss, (Sequence, nn.ModuleList)) and not isinstance(loss, str):
        each = list(loss)
        if len(each) != runs:
            raise ValueError(
                f"give one loss for each of the {runs} runs, or one for all; got {len(each)}"
            )
        learnt = [one for loss in each if isinstance(loss, nn.Module) for one in loss.parameters()]
        if len(set(learnt)) < len(learnt):
            raise ValueError(
                "two runs share a parameter of a loss and would be trained as one; give each run "
                "its own, such as copy.deepcopy(loss)"
            )
        return [  # the state of a loss is the run's own
            copy.deepcopy(loss)
            if isinstance(loss, nn.Module) and loss in each[:place] and list(loss.buffers())
            else loss
            for place, loss in enumerate(each)
        ]
    if runs == 1 or not isinstance(loss, nn.Module):
        return [loss] * runs
    if list(loss.parameters()):
        raise ValueError(
            f"{_name(loss)} has parameters, which {runs} runs cannot share; give a loss for each "
            f"run: [copy.deepcopy(loss) for _ in range({runs})]"
        )
    return [copy.deepcopy(loss) for _ in range(runs)]


def _ignored(each: Sequence[LossFunction]) -> int | None:
    """Return the index that all losses ignore; None for losses whose targets are not known."""
    known = (losses.Loss, nn.CrossEntropyLoss, nn.NLLLoss)
    indices = {
        loss.ignore_index
        for loss in each
        if isinstance(loss, known) and not isinstance(loss, losses.CenterLoss)
    }
    if len(indices) != 1 or not all(isinstance(loss, known) for loss in each):
        return None
    return indices.pop()


def _check_arguments(loss: LossFunction, *arguments: Tensor) -> None:
    """Refuse a model with more or fewer outputs than the loss has arguments for."""
    try:
        signature = inspect.signature(loss.forward if isinstance(loss, nn.Module) else loss)
    except ValueError:  # of a function that is not written in Python
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"{_name(loss)} does not take the outputs of this model, {len(arguments) - 1} in "
            f"number: it is called as loss(outputs[0], targets, *outputs[1:]) ({error})"
        ) from error


def _described(loss: LossFunction, *, without_beta: bool) -> str:
    """Name a loss with its numbers, the shapes of its tensors, and the values of constant ones.

    So is every loss that a module contains. The values that training changes are left out, and so
    are functions.
    """
    parts = dict(loss.named_modules()) if isinstance(loss, nn.Module) else {}
    numbers = [
        f"{name}: {list(value.shape)}"
        for name, value in (loss.state_dict() if isinstance(loss, nn.Module) else {}).items()
        if isinstance(value, Tensor)  # a module may keep anything besides its tensors
    ]
    known = False
    for place, part in parts.items():
        names = _numbers_of(part)
        known |= bool(names)
        for name in names:
            value = getattr(part, name, None)
            if name == "beta" and without_beta:
                continue
            shown = f"{place}.{name}".removeprefix(".")
            if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
                numbers.append(f"{shown}={_written(value)}")
            elif isinstance(value, (bool, str)):
                numbers.append(f"{shown}={value}")
            elif isinstance(value, Real):
                numbers.append(f"{shown}={float(value)}")
    return f"{_name(loss)}({', '.join(numbers)})" if numbers or known else _name(loss)


def _numbers_of(part: nn.Module) -> list[str]:
    """List the attributes of a loss of gdlib or of PyTorch that training does not change.

    Other modules may count their calls.
    """
    if isinstance(part, losses.Loss):
        signature = inspect.signature(type(part)).parameters
        return list(dict.fromkeys((*signature, *part._checks, *part._options)))
    for kind in type(part).__mro__:
        if kind.__module__.startswith("torch.nn.") and kind is not nn.Module:
            return [name for name in inspect.signature(kind).parameters if hasattr(part, name)]
    return []


def _written(values: Tensor) -> str:
    """Write the values of a tensor; of many, a checksum."""
    text = str(values.tolist())
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return text if len(text) <= 80 else f"values of SHA-256 {digest}"


def _name(loss: Any) -> str:
    return getattr(loss, "__name__", type(loss).__name__)


def has_hooks(model: nn.Module) -> bool:
    """Say whether a module, or a part or parameter of it, has hooks."""
    return any(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        for module in model.modules()
    ) or any(
        parameter._backward_hooks or parameter._post_accumulate_grad_hooks
        for parameter in model.parameters()
    )
