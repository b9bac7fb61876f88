"""Epochs, from the first to the last, and the outputs of a trained stack."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gdlib import __version__
from gdlib.functional._arguments import check_boolean, check_whole
from gdlib.models import ModuleStack, RunModel
from gdlib.train.batches import Batches, Draws, Order, Prepare
from gdlib.train.betas import Beta, Betas
from gdlib.train.checkpoint import Checkpoint
from gdlib.train.manual import ManualStep
from gdlib.train.objective import LossFunction, Objective, RunLoss, objective_of
from gdlib.train.step import (
    RecordedSteps,
    Step,
    Steps,
    autocast,
    can_be_recorded,
    outputs_of,
    precision_of,
)
from gdlib.train.update import RecordedSGD, Update, optimizer_of, rates_of, read_from

Measure = Callable[[Any, int], Mapping[str, Tensor | float] | None]

_ENTRIES = ("epoch", "beta", "lr", "loss")  # of the history, besides what is measured
_log = logging.getLogger("gdlib.train")


@torch.inference_mode(False)
def train(
    stack: RunModel,
    loss: RunLoss | LossFunction | Sequence[LossFunction] | nn.ModuleList,
    data: tuple[Tensor, Tensor],
    *,
    epochs: int,
    lr: float,
    batch_size: int = 128,
    betas: Beta | Sequence[Beta] | Tensor | None = None,
    seeds: int | Sequence[int] | Tensor | None = None,
    optimizer: str = "sgd",
    momentum: float | None = None,
    weight_decay: float = 0.0,
    lr_schedule: str = "milestones",
    milestones: Sequence[int] = (),
    max_grad_norm: float | None = None,
    order: Order | None = None,
    drop_last: bool = False,
    prepare: Prepare | None = None,
    draws: Draws | None = None,
    precision: str | torch.dtype = "float32",
    recorded: bool = False,
    fused: bool = False,
    by_hand: bool = True,
    measure: Measure | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1,
    identity: str = "",
) -> list[dict[str, Any]]:
    r"""Train a stack of R runs, in place.

    Each step takes the gradient of

    .. math:: \sum_{r=1}^{R} \frac{1}{B} \sum_{n=1}^{B} J_{r,n},

    the mean over the B samples of a batch, summed over the R runs, so every run gets the gradient
    that it would get alone. If a loss returns one number for a batch, that number replaces the
    mean. A run that diverges continues alongside the others, and a warning is logged at the end.
    In an epoch, the stack and a loss that is a module are in training mode, with all their layers:
    one that is to stay as it is, such as a frozen batch normalisation, must override ``train``.
    Both are left in evaluation mode if there is a ``measure``, in training mode otherwise.

    Args:
        stack: maps inputs ``[S, B, ...]`` to outputs ``[R, B, C]``, or to several outputs; see
            :mod:`gdlib.models`.
        loss: maps the outputs and targets of a run to the loss of each sample ``[B]``, or to one
            number: a loss from :mod:`gdlib.losses` or PyTorch, of which every run gets a copy, or a
            function. Further outputs of the stack are passed as further arguments. Alternatively, a
            list with one loss for each run, or a :class:`RunLoss`, which computes all runs at once.
            Parameters of a loss are trained, without weight decay.
        data: inputs ``[N, ...]`` and targets ``[N, ...]``: class indices of any integer type, or
            whatever the loss takes. Batches are moved to the device of the stack; data already
            there is not moved.
        epochs: number of passes over the data.
        lr: learning rate.
        batch_size: B. The last batch of an epoch is smaller where B does not divide N.
        betas: the β of a :class:`gdlib.losses.GDCrossEntropyLoss` or a :class:`RunLoss`, one for
            each run or one for all; None uses the loss's own. Each is a number or a schedule, a
            function of the optimiser step, from 0, such as ``LinearWarmup(0.1, 1.0, steps)``.
        seeds: seeds for the order of the samples (:func:`batch_order`), one for each run or one for
            all; 0 by default. Runs with equal seeds share their batches. :func:`torch.manual_seed`
            has no effect on the order.
        optimizer: ``"sgd"``, or ``"adam"`` with its second decay rate at 0.999.
        momentum: momentum of SGD, or first decay rate of Adam; None uses PyTorch's defaults, 0 and
            0.9.
        weight_decay: coefficient of the L2 penalty that is added to the gradient.
        lr_schedule: ``"milestones"``: see below. ``"exponential"``: falls by the same factor after
            every epoch, to a thousandth in the last one. ``"one-cycle"``: rises step by step to
            ``lr`` and then falls almost to 0, while the momentum goes from 0.95 to 0.85 and back,
            whatever ``momentum`` says (:class:`torch.optim.lr_scheduler.OneCycleLR`).
        milestones: numbers of finished epochs after which the learning rate is divided by ten.
        max_grad_norm: limit for the Euclidean norm of the gradient of each run, without parameters
            of a loss; None for no limit.
        order: used instead of seeds: maps an epoch, from 1, to the indices of its samples for each
            run, ``[R, n]``, or for all, ``[1, n]``. It must depend only on the epoch; n is the same
            in every epoch.
        drop_last: leave out the last batch of an epoch where it would be smaller. Batch
            normalisation cannot train on a batch of one sample.
        prepare: maps a batch ``[S, B, ...]``, as stored, and the random numbers drawn for it, or
            None, to what the stack sees. S is the number of distinct seeds, in the order of their
            first runs, or the number of rows of ``order``.
        draws: maps an epoch, from 1, to random numbers ``[S, n, ...]`` for ``prepare``, one row per
            sample in the order of the epoch. It must depend only on the epoch.
        precision: ``"float32"``, or ``"bfloat16"`` to run the stack under autocast; weights and
            loss stay in float32. ``torch.bfloat16`` means the same.
        recorded: record one step on a GPU as a CUDA graph and replay it. On other devices the steps
            are done one by one, and the log says so.
        fused: let the optimiser update all parameters in one kernel; on a CPU this changes the last
            bits.
        by_hand: where possible, do the steps of a :class:`gdlib.models.StackedMLP` with a backward
            pass written by hand, the same up to rounding. This is possible on a CPU, with SGD in
            float32, for class indices and a :class:`gdlib.losses.GDCrossEntropyLoss` whose other
            options have PyTorch's defaults, and for a :class:`RunLoss` that declares it.
        measure: called with the stack and the number of finished epochs, before the first epoch and
            after each; the values that it returns, with R as their first dimension, go into the
            history.
        checkpoint: a file that keeps the state between epochs. If it exists, training resumes from
            it and ends with the same weights, bit for bit, as without the interruption (CPU, one
            thread). A file with a different learning rate or a different number in the loss is
            refused; only ``epochs`` may grow, where the learning rate falls at milestones. Of the
            random states, only that of PyTorch's CPU generator is kept. What ``measure`` sets for a
            β to read is not kept either: let it set that from the history.
        checkpoint_every: epochs between two writes. The last complete epoch is also written at the
            end, and on an exception such as an interruption, which leaves the stack itself within
            an epoch.
        identity: describes stack, data, loss and β; a file with a different one is refused. Without
            one, losses from libraries and schedules from :mod:`gdlib.schedules` are compared by
            their names and numbers, the stack by its shapes and the kinds of its layers, a
            :class:`gdlib.models.StackedMLP` also by its activation, initialisation and seeds, whole
            numbers in the data by a checksum, and others by their sum; functions are not compared.

    Returns:
        The history: for each finished epoch, from 0, a dictionary with ``epoch``; ``beta`` and
        ``lr`` for the next step (β as ``[R]``, if the loss has one, and at the end that
        of the last step; after one cycle there is no next rate, and the number has no meaning);
        from epoch 1 on, ``loss`` (the mean over the samples of the epoch as they were seen,
        ``[R]``; where labels are ignored, the mean of the batches' means, weighted by batch size,
        without batches in which no label counts; a loss that is a function gives NaN there); and
        what ``measure`` returned, as tensors.

    Raises:
        TypeError: for arguments of the wrong kind, and for a stack whose outputs the loss does not
            take.
        ValueError: for numbers with which nothing can be trained, for a stack without values, for
            labels for which it has no output, and for a checkpoint that is damaged, or belongs to
            another training or to a stack of a different shape.

    Example:
        Three runs that differ in β only:

        >>> from gdlib import GDCrossEntropyLoss
        >>> from gdlib.models import StackedMLP
        >>> inputs = torch.linspace(-1, 1, 20)[:, None]
        >>> labels = (inputs[:, 0] > 0).long()
        >>> stack = StackedMLP([1, 8, 2], seeds=[0, 0, 0])
        >>> history = train(
        ...     stack,
        ...     GDCrossEntropyLoss(),
        ...     (inputs, labels),
        ...     epochs=50,
        ...     lr=0.5,
        ...     batch_size=5,
        ...     betas=[0.1, 1.0, 10.0],
        ... )
        >>> (predict(stack, inputs).argmax(2) == labels).float().mean(1)
        tensor([1., 1., 1.])
        >>> history[-1]["loss"].shape
        torch.Size([3])
    """
    epochs = check_whole("epochs", epochs, 0)
    _check_stack(stack)
    for name, switch in (("recorded", recorded), ("fused", fused), ("by_hand", by_hand)):
        check_boolean(name, switch)
    if measure is not None and not callable(measure):
        raise TypeError(f"measure must be a function; got {type(measure).__name__}")
    update = Update(lr, optimizer, momentum, weight_decay, lr_schedule, milestones, max_grad_norm)
    device = device_of(stack)
    precision = precision_of(precision)
    batches = Batches(
        data,
        stack.runs,
        device,
        size=batch_size,
        seeds=seeds,
        order=order,
        drop_last=drop_last,
        prepare=prepare,
        draws=draws,
    )
    objective = objective_of(
        loss,
        stack.runs,
        given=betas is not None,
        targets=batches.targets,
        at_once=not isinstance(stack, ModuleStack),  # it computes run by run anyway
    )
    floating = (one.dtype for one in stack.parameters() if one.is_floating_point())
    least = torch.get_default_dtype()
    table = Betas(betas, objective, stack.runs, torch.promote_types(least, next(floating, least)))

    recorded = recorded and can_be_recorded(batches)
    per_step = update.lr_schedule == "one-cycle"
    if per_step and recorded and update.optimizer != "sgd":
        raise ValueError(
            "lr_schedule='one-cycle' changes the momentum in every step, which a recorded step "
            f"follows only with optimizer='sgd', not with {update.optimizer!r}: set recorded=False"
        )
    learnt = [*stack.parameters(), *objective.parameters()]
    if not any(parameter.requires_grad for parameter in learnt):
        raise ValueError("nothing is learnt: no parameter of the stack requires a gradient")
    rate: float | Tensor = update.lr
    if recorded and not per_step:
        rate = torch.tensor(rate, device=device)  # a recorded step reads it from here
    updates = optimizer_of(
        update,
        list(stack.parameters()),
        objective.parameters(),
        rate=rate,
        fused=fused or recorded or None,
        recorded=recorded and per_step,
    )
    rates = rates_of(update, updates, epochs=epochs, steps=batches.steps)
    take_step = _step_of(
        stack, objective, updates, batches, update, precision, recorded=recorded, by_hand=by_hand
    )
    steps = (RecordedSteps if recorded else Steps)(batches, take_step)

    settings = _settings(update, batches, precision, epochs)
    if checkpoint is not None and not identity:
        settings |= {"loss": objective.described(), "betas": table.described()}
        settings |= {"data": batches.described(), "stack": stack._kinds()}
    parts: dict[str, Any] = {"model": stack, "optimizer": updates, "rates": rates}
    if (module := objective.module()) is not None:
        parts["loss"] = module
    file = Checkpoint(checkpoint, checkpoint_every, identity, settings, parts)
    history = file.restore(epochs)
    last = max(epochs * batches.steps - 1, 0)
    if 0 < len(history) <= epochs and table.each is not None:  # this may have been the end
        history[-1]["beta"] = table.of_steps([min((len(history) - 1) * batches.steps, last)])[0]
    if isinstance(rate, Tensor):
        read_from(rate, updates)
    if isinstance(updates, RecordedSGD):
        updates.follow()

    try:
        for epoch in range(len(history), epochs + 1):
            step = epoch * batches.steps  # the first one after this epoch
            entry: dict[str, Any] = {"epoch": epoch}
            if epoch > 0:
                stack.train()
                steps.begin(epoch, table.of_steps(range(step - batches.steps, step)))
                for number in range(batches.steps):
                    steps.do(number)
                    if per_step:
                        rates.step()
                    if isinstance(updates, RecordedSGD):
                        updates.follow()
                entry["loss"] = steps.end()
                if not per_step:
                    rates.step()
            measured = _measured(measure, stack, objective, epoch)
            if table.known:
                entry["beta"] = table.of_steps([min(step, last)])[0]
            entry["lr"] = float(rates.get_last_lr()[0])
            history.append(entry | measured)
            file.update(history)
    finally:
        file.write()
    stack.train(measure is None)
    objective.train(measure is None)
    if not all(parameter.isfinite().all() for parameter in learnt):
        _log.warning(
            "a run has diverged: there are weights that are not finite; a smaller lr or a "
            "max_grad_norm may help"
        )
    return history


@torch.no_grad()
def predict(
    stack: RunModel,
    inputs: Tensor,
    *,
    batch_size: int = 2_000,
    features: bool = False,
    prepare: Callable[[Tensor], Tensor] | None = None,
    precision: str | torch.dtype = "float32",
) -> Tensor:
    """Compute the outputs for inputs ``[N, ...]``, in at least float32; no module's mode changes.

    Args:
        stack: a stack of R runs, which share the inputs.
        inputs: inputs ``[N, ...]``; they are moved to the device of the stack batch by batch.
        batch_size: number of samples at a time.
        features: return the inputs of the last layer instead.
        prepare: maps a batch ``[B, ...]`` to what the stack sees; by default, the batch itself.
        precision: as in :func:`train`.

    Returns:
        The outputs ``[R, N, C]``, or the first ones of a stack with several; with ``features``, the
        features ``[R, N, D]``.

    Raises:
        TypeError: if ``stack`` is not a stack or ``inputs`` is not a tensor.
        ValueError: for an unknown precision, and for a batch_size below 1.

    Example:
        >>> from gdlib.models import ModuleStack
        >>> predict(ModuleStack([nn.Linear(4, 3)]), torch.zeros(5, 4)).shape
        torch.Size([1, 5, 3])
    """
    _check_stack(stack)
    if not isinstance(inputs, Tensor):
        raise TypeError(
            f"inputs must be a single tensor, without labels; got {type(inputs).__name__}"
        )
    check_whole("batch_size", batch_size, 1)
    device = device_of(stack)
    forward = stack.features if features else stack
    modes = {module: module.training for module in stack.modules()}
    stack.eval()
    outputs = []
    try:
        with autocast(device, precision_of(precision)):
            for batch in inputs.split(batch_size):
                batch = batch.to(device)
                if prepare is not None:
                    batch = prepare(batch)
                outputs.append(outputs_of(forward, batch[None])[0])
    finally:
        for module, training in modes.items():
            module.training = training
    return torch.cat(outputs, dim=1)


def device_of(stack: nn.Module) -> torch.device:
    """Return the device of a stack's first parameter or buffer; the CPU if it has none."""
    for tensor in [*stack.parameters(), *stack.buffers()]:
        return tensor.device
    return torch.device("cpu")


def _check_stack(stack: object) -> None:
    if not isinstance(stack, RunModel):
        given = f"the class {stack.__name__}" if isinstance(stack, type) else type(stack).__name__
        raise TypeError(
            "stack must be a stack of runs, such as StackedMLP([4, 8, 3], seeds=[0, 1]) or "
            f"ModuleStack(modules) of gdlib.models; got {given}"
        )
    if device_of(stack).type == "meta":
        raise ValueError(
            "stack is on the meta device and holds no values: stack.to_empty(device=...) gives it "
            "memory, which must then be filled"
        )


def _step_of(
    stack: RunModel,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    update: Update,
    precision: str,
    *,
    recorded: bool,
    by_hand: bool,
) -> Step | ManualStep:
    """Choose between a step by hand and one by autograd."""
    if (
        by_hand
        and precision == "float32"
        and ManualStep.serves(stack, objective, optimizer)
        and objective.all_count(batches.targets)
    ):
        step = ManualStep(
            stack,
            objective,
            optimizer,
            groups=batches.groups,
            places=batches.places,
            max_grad_norm=update.max_grad_norm,
        )
        batches.check_targets(step.classes, objective.ignore_index or 0)
        return step
    return Step(
        stack,
        objective,
        optimizer,
        max_grad_norm=update.max_grad_norm,
        places=None if batches.places is None else batches.places.to(batches.device),
        precision=precision,
        cached=not recorded,
        check_targets=batches.check_targets,
        ignored=None if objective.all_count(batches.targets) else objective.ignore_index,
    )


def _settings(update: Update, batches: Batches, precision: str, epochs: int) -> dict[str, Any]:
    """List the numbers that determine a training, by which a checkpoint identifies it."""
    settings = {
        "samples": batches.length,
        "batch_size": batches.size,
        **vars(update),
        "precision": precision,
        "seeds": batches.seeds,
        "drop_last": batches.drop_last,
        "version": __version__,
    }
    if update.lr_schedule != "milestones":
        del settings["milestones"]
        settings["epochs"] = epochs
    return settings


def _measured(
    measure: Measure | None, stack: RunModel, objective: Objective, epoch: int
) -> dict[str, Tensor]:
    """Call ``measure`` with stack and loss in evaluation mode; convert its numbers to tensors."""
    if measure is None:
        return {}
    stack.eval()
    objective.train(False)
    measured = measure(stack, epoch)
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
        exact = torch.float64 if isinstance(value, float) else None  # as in Python
        return torch.as_tensor(value, dtype=exact, device="cpu").clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"measure must return numbers or tensors; {name} is a {type(value).__name__}"
        ) from error
