"""Epochs, from the first to the last, and the outputs of a trained model."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from gdlib import __version__
from gdlib.functional._arguments import is_whole
from gdlib.models import ModuleStack, RunModel
from gdlib.train.betas import Betas, BetaSchedule, OwnBetas, ScheduledBetas
from gdlib.train.checkpoint import GeneratorState, Keeper
from gdlib.train.manual import ManualStep
from gdlib.train.objective import LossFunction, Objective, RunLoss, objective_of
from gdlib.train.options import (
    Batches,
    Checkpoint,
    Execution,
    Measure,
    Optimisation,
    check_group,
)
from gdlib.train.source import Source, TensorSource, source_of
from gdlib.train.step import GraphedStep, Step, Steps, autocast, can_be_graphed, outputs_of
from gdlib.train.update import RecordedSGD, optimizer_of, rates_of, read_from

_ENTRIES = ("epoch", "beta", "learning_rate")  # of the history, beside what is measured
_log = logging.getLogger("gdlib.train")


def train(
    model: nn.Module,
    loss: RunLoss | LossFunction | list[LossFunction] | nn.ModuleList,
    data: tuple[Tensor, Tensor] | Dataset[Any] | DataLoader[Any],
    *,
    epochs: int,
    optimisation: Optimisation,
    batches: Batches = Batches(),  # noqa: B008  (frozen)
    schedule: BetaSchedule | None = None,
    execution: Execution = Execution(),  # noqa: B008  (frozen)
    measure: Measure | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> list[dict[str, Any]]:
    r"""Train a model, or a stack of runs, by stochastic gradient descent, in place.

    A step goes down the gradient of

    .. math:: \sum_{r=1}^{R} \frac{1}{B} \sum_{n=1}^{B} J_{r,n},

    the mean over the B samples of a batch and the sum over the R runs, so that every run gets the
    gradient that it would get alone; a plain module is one run. A loss that returns one number for
    a batch gives it in the place of the mean. The last batch of an epoch is smaller where the size
    of the batches does not divide the number of samples. A run that diverges goes on, beside the
    others, and a warning is logged at the end. The model is left in evaluation if there is a
    ``measure``, in training otherwise, and so is a loss that is a module.

    Args:
        model: a module that maps inputs ``[B, ...]`` to outputs ``[B, C]``, or to several outputs;
            or a stack of R runs (:class:`gdlib.models.RunModel`). Training is that of one process:
            under ``DistributedDataParallel`` all would see the same batches.
        loss: maps outputs and targets to the loss of each sample ``[B]``, or to one number: a loss
            of :mod:`gdlib.losses` or of PyTorch, or a function. Further outputs of the model come
            as further arguments, ``loss(outputs[0], targets, *outputs[1:])``. Parameters of a loss
            are trained, without weight decay; its buffers are kept in a checkpoint. For a stack:
            one loss, of which every run gets a copy if it is a module; a list with a loss for each
            run; or a :class:`RunLoss`, which computes all runs at once.
        data: inputs ``[N, ...]`` and targets ``[N, ...]``; or a Dataset or a DataLoader of such
            pairs. Targets are class indices of any integer type, or whatever the loss takes.
            Batches go to the device of the model; data on it need not travel.
        epochs: number of passes over the data.
        optimisation: learning rate, momentum and all that moves the weights.
        batches: size and order of the batches. A DataLoader has its own.
        schedule: the β of a :class:`gdlib.losses.GDCrossEntropyLoss` or a :class:`RunLoss`, in the
            place of the loss's own, which stays as it is. It maps an optimiser step, counted from
            0, to one β for all runs or to one for each; or it is a sequence of schedules, one for
            each run. For a β that changes from epoch to epoch, divide the step by the steps of an
            epoch: ``lambda step: warmup(step // steps)``. A method ``update`` of a schedule is
            called with what ``measure`` returned, of its run if it has one, before the next epoch
            begins, so that β can follow what is measured, as with
            :class:`gdlib.schedules.ConfidenceFeedback`; ``reset`` is called at the start.
        execution: precision, and ways to be faster.
        measure: called before the first epoch and after each one; what it returns goes into the
            history, under names of its own.
        checkpoint: a file that keeps the state between epochs, by which an interrupted training
            goes on. A file of another learning rate or another number of the loss is refused;
            ``epochs`` alone may grow, where the learning rate falls at milestones. Other data or
            another model of the same shape are not noticed: delete the file, or give a
            :class:`Checkpoint` with an ``identity``. The state of
            PyTorch's generator on the CPU is kept, and that of a DataLoader, but not those of
            Python, NumPy, a GPU or workers that stay from epoch to epoch.
        progress: show a bar (terminal, notebook) or log one line for each epoch (anywhere else).

    Returns:
        The history: for each finished epoch, from 0, a dictionary with ``epoch``, ``beta`` and
        ``learning_rate`` (those of the next step; β as ``[R]``, where the loss has one; after the
        last step of one cycle no rate follows, and the number means nothing) and what ``measure``
        returned, as tensors.

    Raises:
        TypeError: for a model, a loss, data or options of a kind that is not known, and for a
            model with other outputs than the loss takes.
        ValueError: for numbers that make no training, for a model without values, for labels that
            the model has no output for, and for a checkpoint that is damaged, belongs to another
            training or is of a model of another shape.

    Example:
        A plain module, with the β of the loss:

        >>> from gdlib import GDCrossEntropyLoss
        >>> generator = torch.manual_seed(0)
        >>> inputs = torch.linspace(-1, 1, 20)[:, None]
        >>> labels = (inputs[:, 0] > 0).long()
        >>> model = nn.Linear(1, 2)
        >>> fast = Optimisation(learning_rate=1.0)
        >>> data, five = (inputs, labels), Batches(size=5)
        >>> history = train(
        ...     model, GDCrossEntropyLoss(0.1), data, epochs=20, optimisation=fast, batches=five
        ... )
        >>> (predict(model, inputs).argmax(1) == labels).float().mean()
        tensor(1.)

        Two runs that differ in β only, as one stack:

        >>> from gdlib.models import StackedMLP
        >>> from gdlib.schedules import Constant
        >>> stack = StackedMLP([1, 2], seeds=[0, 0])
        >>> history = train(
        ...     stack,
        ...     GDCrossEntropyLoss(),
        ...     data,
        ...     epochs=20,
        ...     optimisation=fast,
        ...     batches=five,
        ...     schedule=[Constant(1.0), Constant(0.1)],
        ... )
        >>> (predict(stack, inputs).argmax(2) == labels).float().mean(1)
        tensor([1., 1.])
    """
    if not is_whole(epochs, 0):
        raise ValueError(f"epochs must be >= 0, a whole number; got {epochs!r}")
    epochs = int(epochs)
    _check_model(model)
    check_group("optimisation", optimisation, Optimisation, "Optimisation(learning_rate=0.1)")
    check_group("batches", batches, Batches, "Batches(size=32)")
    check_group("execution", execution, Execution, 'Execution(precision="bfloat16")')
    if isinstance(checkpoint, (str, os.PathLike)):
        checkpoint = Checkpoint(checkpoint)
    if checkpoint is not None:
        check_group("checkpoint", checkpoint, Checkpoint, '"state.pt" or Checkpoint("state.pt")')
    stack = model if isinstance(model, RunModel) else ModuleStack([model])
    device = device_of(stack)
    objective = objective_of(loss, stack.runs, scheduled=schedule is not None)
    floating = (one.dtype for one in model.parameters() if one.is_floating_point())
    least = torch.get_default_dtype()
    dtype = torch.promote_types(least, next(floating, least))  # of β
    betas: Betas = OwnBetas(objective, stack.runs, dtype)
    if schedule is not None:
        betas = ScheduledBetas(schedule, stack.runs, dtype)
    source = source_of(data, batches, stack.runs, device)

    graphed = execution.cuda_graph and can_be_graphed(source)
    per_step = optimisation.lr_schedule == "one-cycle"
    if per_step and graphed and optimisation.optimizer != "sgd":
        raise ValueError(
            "lr_schedule='one-cycle' changes the momentum in every step, which a recorded step "
            f"sees with optimizer='sgd' alone, not with {optimisation.optimizer!r}: "
            "set cuda_graph=False"
        )
    learnt = [*model.parameters(), *objective.parameters()]
    if not any(parameter.requires_grad for parameter in learnt):
        raise ValueError("nothing is learnt: no parameter of the model requires a gradient")
    rate: float | Tensor = optimisation.learning_rate
    if graphed and not per_step:
        rate = torch.tensor(rate, device=device)  # from here a recorded step reads it
    optimizer = optimizer_of(
        optimisation,
        list(model.parameters()),
        objective.parameters(),
        rate=rate,
        fused=execution.fused or graphed or None,
        recorded=graphed and per_step,
    )
    rates = rates_of(optimisation, optimizer, epochs=epochs, steps=source.steps)
    take_step = _step_of(stack, objective, optimizer, source, optimisation, execution, graphed)
    steps: Steps | GraphedStep = Steps(source, take_step)
    if graphed and isinstance(source, TensorSource):
        steps = GraphedStep(source, take_step)

    settings = _settings(optimisation, batches, execution, source, epochs)
    if checkpoint is not None and not checkpoint.identity:
        settings |= {"loss": objective.described(), "schedule": betas.described()}
    kept = Keeper(
        checkpoint,
        settings,
        _parts(model, objective, optimizer, rates, source),
    )
    history = kept.restore(epochs)
    for past in history:  # what the schedule had seen before the interruption
        betas.follow({name: past[name] for name in past if name not in _ENTRIES})
    if isinstance(rate, Tensor):
        read_from(rate, optimizer)
    if isinstance(optimizer, RecordedSGD):
        optimizer.follow()

    try:
        for epoch in _epochs(len(history), epochs, progress):
            step = epoch * source.steps  # the first one after this epoch
            if epoch > 0:
                model.train()
                objective.train(True)
                steps.begin(epoch, betas.of_steps(range(step - source.steps, step)))
                for number in range(source.steps):
                    steps.do(number)
                    if per_step:
                        rates.step()
                    if isinstance(optimizer, RecordedSGD):
                        optimizer.follow()
                steps.end()
                if not per_step:
                    rates.step()
            measured = _measured(measure, model, objective, epoch)
            betas.follow(measured)
            entry: dict[str, Any] = {"epoch": epoch}
            if betas.known:
                entry["beta"] = betas.of_steps([step])[0]
            entry["learning_rate"] = float(rates.get_last_lr()[0])
            history.append(entry | measured)
            kept.keep(history)
    finally:
        kept.write()
    model.train(measure is None)
    objective.train(measure is None)
    if not all(parameter.isfinite().all() for parameter in learnt):
        _log.warning(
            "a run has diverged: there are weights that are not finite; a smaller learning_rate "
            "or a max_grad_norm may help"
        )
    return history


@torch.no_grad()
def predict(
    model: nn.Module,
    inputs: Tensor,
    *,
    batch_size: int = 2_000,
    features: bool = False,
    prepare: Callable[[Tensor], Tensor] | None = None,
    precision: str = "float32",
) -> Tensor:
    """Compute the outputs of inputs ``[N, ...]``, in float32 at least; no module's mode changes.

    Args:
        model: a module, or a stack of R runs, which share the inputs.
        inputs: inputs ``[N, ...]``; they go to the device of the model batch by batch.
        batch_size: samples at a time.
        features: return the inputs of the last layer instead, from a model that has a method
            ``features``.
        prepare: makes of a batch ``[B, ...]`` what the model sees; by default the batch itself.
        precision: as in :class:`Execution`.

    Returns:
        The outputs ``[N, C]``, of a stack ``[R, N, C]``; of a model with several outputs the first.
        Features ``[N, D]`` or ``[R, N, D]``.

    Raises:
        TypeError: for a model that is no module, and for inputs that are no tensor.
        ValueError: for an unknown precision, and for a batch_size below 1. Inputs that do not fit
            the model raise what it raises.

    Example:
        >>> predict(nn.Linear(4, 3), torch.zeros(5, 4)).shape
        torch.Size([5, 3])
    """
    _check_model(model)
    if not isinstance(inputs, Tensor):
        raise TypeError(
            f"inputs must be a tensor, and not labels beside it; got {type(inputs).__name__}"
        )
    if not is_whole(batch_size, 1):
        raise ValueError(f"batch_size must be a whole number >= 1; got {batch_size!r}")
    stack = model if isinstance(model, RunModel) else ModuleStack([model])
    device = device_of(stack)
    forward = stack.features if features else stack
    modes = {module: module.training for module in model.modules()}
    model.eval()
    outputs = []
    try:
        with autocast(device, precision):
            for batch in inputs.split(batch_size):
                batch = batch.to(device)
                if prepare is not None:
                    batch = prepare(batch)
                outputs.append(outputs_of(forward, batch[None])[0])
    finally:
        for module, training in modes.items():
            module.training = training
    together = torch.cat(outputs, dim=1)
    return together if isinstance(model, RunModel) else together[0]


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model: of its first parameter or buffer; the CPU without any."""
    for tensor in [*model.parameters(), *model.buffers()]:
        return tensor.device
    return torch.device("cpu")


def _check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        given = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"model must be a torch.nn.Module; got {given}")
    if device_of(model).type == "meta":
        raise ValueError(
            "model is on the meta device and holds no values: model.to_empty(device=...) gives it "
            "memory, which is then to be filled"
        )


def _step_of(
    stack: RunModel,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    source: Source,
    optimisation: Optimisation,
    execution: Execution,
    graphed: bool,
) -> Step | ManualStep:
    """Choose between a step by hand and one by autograd."""
    by_hand = (
        execution.manual_backward
        and execution.precision == "float32"
        and isinstance(source, TensorSource)
        and ManualStep.serves(stack, objective, optimizer)
        and ManualStep.takes(source.targets, objective)
    )
    if not by_hand:
        return Step(
            stack,
            objective,
            optimizer,
            max_grad_norm=optimisation.max_grad_norm,
            precision=execution.precision,
            cached=not graphed,
            check_targets=source.check_targets,
        )
    step = ManualStep(
        stack,
        objective,
        optimizer,
        groups=source.groups,
        max_grad_norm=optimisation.max_grad_norm,
    )
    if objective.ignore_index is not None:
        source.check_targets(step.classes, objective.ignore_index)
    return step


def _parts(
    model: nn.Module,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    rates: torch.optim.lr_scheduler.LRScheduler,
    source: Source,
) -> dict[str, Any]:
    """Name what has a state that a checkpoint keeps."""
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "rates": rates}
    module = objective.module()
    if module is not None:
        parts["loss"] = module
    generators = source.generators()
    if generators:
        parts["generators"] = GeneratorState(generators)
    return parts


def _settings(
    optimisation: Optimisation,
    batches: Batches,
    execution: Execution,
    source: Source,
    epochs: int,
) -> dict[str, Any]:
    """List the numbers that decide a training, by which a checkpoint knows it."""
    settings = {
        "samples": source.samples,
        "batch_size": batches.size,
        "learning_rate": optimisation.learning_rate,
        "optimizer": optimisation.optimizer,
        "momentum": optimisation.momentum,
        "weight_decay": optimisation.weight_decay,
        "max_grad_norm": optimisation.max_grad_norm,
        "precision": execution.precision,
        "order_seeds": list(batches.seeds),
        "drop_last": batches.drop_last,
        "lr_schedule": optimisation.lr_schedule,
        "steps": source.steps,
        "version": __version__,
    }
    if optimisation.lr_schedule == "milestones":
        settings["milestones"] = list(optimisation.milestones)
    else:
        settings["epochs"] = epochs
    return settings


def _measured(
    measure: Measure | None, model: nn.Module, objective: Objective, epoch: int
) -> dict[str, Tensor]:
    """Call ``measure``, with model and loss in evaluation, and make tensors of its numbers."""
    if measure is None:
        return {}
    model.eval()
    objective.train(False)
    measured = measure(model, epoch)
    if measured is None:
        return {}
    if not isinstance(measured, Mapping):
        raise TypeError(
            "measure must return a dictionary of names and numbers, or None; it returned a "
            f"{type(measured).__name__}"
        )
    if not measured.keys().isdisjoint(_ENTRIES):
        raise ValueError(
            f"measure must leave {', '.join(_ENTRIES)} to the history; it returned "
            f"{', '.join(measured)}"
        )
    return {name: _as_tensor(name, value) for name, value in measured.items()}


def _as_tensor(name: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)  # what was measured may change later
    try:
        exact = torch.float64 if isinstance(value, float) else None  # as Python has it
        return torch.as_tensor(value, dtype=exact).clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"measure must return numbers or tensors; {name} is a {type(value).__name__}"
        ) from error


def _epochs(first: int, last: int, progress: bool) -> Iterator[int]:
    """Count from ``first`` to ``last``.

    With a bar in a terminal or a notebook, and a line for each epoch in a log.
    """
    interactive = sys.stderr.isatty() or "ipykernel" in sys.modules
    numbers = range(first, last + 1)
    for epoch in tqdm(numbers, desc="epochs", disable=not (progress and interactive)):
        yield epoch
        if progress and not interactive:
            _log.info("epoch %d of %d", epoch, last)
