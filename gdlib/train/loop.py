"""Epochs, batches, checkpoints, and the logits of a trained model."""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from gdlib.models import RunModel
from gdlib.train.manual import ManualStep
from gdlib.train.step import (
    Feed,
    GraphedStep,
    Loss,
    Prepare,
    Step,
    Tables,
    autocast,
    can_be_graphed,
)

OPTIMIZERS = ("sgd", "adam")
LR_SCHEDULES = ("milestones", "exponential", "one-cycle")

Measure = Callable[[RunModel, int], Mapping[str, Tensor]]
"""Called with the model and the number of finished epochs; returns tensors whose first dimension is R."""

Order = Callable[[int], Tensor]
"""Maps the number of an epoch, from 1, to the indices ``[S, n]`` of its samples; n is the same in every epoch."""

Draws = Callable[[int], Tensor]
"""Maps the number of an epoch, from 1, to random numbers ``[S, n, ...]`` on the CPU, one row for each sample in the epoch's order."""

_ENTRIES = ("epoch", "beta", "learning_rate")  # of the history, beside what is measured
_LAST_SHARE = 1e-3  # of the learning rate, in the last epoch of an exponential decay
_ORDERS = (
    1 << 32
)  # what tells the key of an order from others of a seed, such as those of an augmentation
_log = logging.getLogger("gdlib.train")


def train(
    model: RunModel,
    loss_fn: Loss,
    schedule: Callable[[int], float | Sequence[float]] | Sequence[Callable[[int], float]],
    inputs: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    optimizer: str = "sgd",
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    lr_schedule: str = "milestones",
    milestones: Sequence[int] = (),
    max_grad_norm: float | None = None,
    order_seeds: Sequence[int] = (0,),
    order: Order | None = None,
    prepare: Prepare | None = None,
    draws: Draws | None = None,
    precision: str = "float32",
    manual_backward: bool = True,
    fused: bool = False,
    cuda_graph: bool = False,
    measure: Measure | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1,
    identity: str = "",
    progress: bool = False,
) -> list[dict[str, Any]]:
    """Train a stack of runs by stochastic gradient descent, in place.

    The objective is the mean over the samples of a batch and the sum over the runs, so that every
    run gets the gradient that it would get alone. The last batch of an epoch is smaller where the
    batch size does not divide the number of samples. A run that diverges goes on, beside the
    others, and a warning is logged at the end. The model is left in evaluation if there is a
    ``measure``, in training otherwise.

    Args:
        model: a stack of R runs.
        loss_fn: per-sample loss of logits ``[R, N, C]``, labels ``[R, N]`` and β ``[R]``.
        schedule: maps an optimiser step, counted from 0, to one β for each run, or to one for all;
            or a sequence of schedules, one for each run. A method ``update`` of a schedule is
            called with what ``measure`` returned, of its run if it has one, before the next epoch
            begins, so that β can follow what is measured, as with
            :class:`gdlib.schedules.ConfidenceFeedback`.
        inputs: training inputs ``[N, ...]``, on the device of the model.
        labels: class indices ``[N]``, on the same device.
        epochs: number of passes over the data.
        batch_size: samples in a step.
        learning_rate: step size.
        optimizer: ``"sgd"``, or ``"adam"`` with its second decay rate at 0.999.
        momentum: heavy-ball momentum of SGD; the first decay rate of Adam, whose usual value is
            0.9.
        weight_decay: coefficient of the L2 penalty that is added to the gradient.
        lr_schedule: of the learning rate. ``"milestones"``: see there. ``"exponential"``: by the
            same factor after every epoch, down to a thousandth in the last one. ``"one-cycle"``:
            from step to step up to ``learning_rate`` and down to nothing, while the momentum goes
            from 0.95 to 0.85 and back, whatever ``momentum`` says
            (:class:`torch.optim.lr_scheduler.OneCycleLR`).
        milestones: after these numbers of finished epochs the learning rate is divided by ten.
        max_grad_norm: limit for the gradient norm of each run; None for no limit.
        order_seeds: S seeds for :func:`batch_order`, S a divisor of R; runs ``r // (R // S)`` share
            one.
        order: instead of seeds, the samples of each epoch, for runs that do not train on the same
            ones. It must depend on the epoch only.
        prepare: makes of a batch, and of the numbers drawn for it or None, what the model sees; by
            default the batch itself.
        draws: random numbers for ``prepare``, such as the places of crops. They must depend on the
            epoch only.
        precision: ``"float32"``, or ``"bfloat16"`` for a model that runs under autocast; the
            weights and the loss stay in float32.
        manual_backward: where it can, do the steps of perceptrons by a backward pass written by
            hand, to rounding the same. It can if ``loss_fn`` has an attribute
            ``beta_and_temperature``, a function from the β of a step to the β and the τ of its
            gradient decay.
        fused: let the optimiser update all parameters in one kernel; on a CPU this changes last
            bits.
        cuda_graph: record one step on the GPU and replay it. On another device the steps are done
            one by one, and the log says so.
        measure: called before the first epoch and after each one; what it returns goes into the
            history, under names of its own.
        checkpoint: a file that keeps the state between epochs. If it exists, training goes on from
            there and ends in the same weights, bit for bit, as without the interruption (CPU, one
            thread). It is left in place at the end.
        checkpoint_every: epochs between two checkpoints. The end, and an exception such as an
            interruption, write the last whole epoch.
        identity: describes model, data, loss and ``schedule``. A checkpoint with another identity
            is refused, and so is one with another learning rate or any other hyperparameter;
            ``epochs`` alone may grow, where the learning rate falls at milestones.
        progress: show a bar (terminal, notebook) or log one line for each epoch (anywhere else).

    Returns:
        The history: for each finished epoch, from 0, a dictionary with ``epoch``, ``beta`` (the β
        of the next step, ``[R]``), ``learning_rate`` and what ``measure`` returned.

    Raises:
        TypeError: for a model that is no stack of runs.
        ValueError: for numbers that make no training, and for a checkpoint that is damaged,
            belongs to another training or is of a model of another shape.

    Example:
        >>> from gdlib.functional import gd_cross_entropy
        >>> from gdlib.models import StackedMLP
        >>> def loss_fn(logits, labels, beta):
        ...     return gd_cross_entropy(logits.movedim(2, 1), labels, beta=beta[:, None], reduction="none")
        >>> inputs = torch.linspace(-1, 1, 20)[:, None]
        >>> labels = (inputs[:, 0] > 0).long()
        >>> model = StackedMLP([1, 2], seeds=[0, 0])              # two runs that differ in β only
        >>> history = train(model, loss_fn, lambda step: (1.0, 0.1), inputs, labels, epochs=20, batch_size=5, learning_rate=1.0)
        >>> (predict(model, inputs).argmax(2) == labels).float().mean(1)
        tensor([1., 1.])
    """
    if not isinstance(model, RunModel):
        raise TypeError(
            f"model must be a stack of runs, such as gdlib.models.ModuleStack([model]); got {type(model).__name__}"
        )
    if order is None:

        def order(epoch: int) -> Tensor:
            return batch_orders(order_seeds, epoch, [len(inputs)] * len(order_seeds))

        groups, samples = len(order_seeds), len(inputs)
    else:
        order = functools.lru_cache(maxsize=1)(order)  # its shape is asked for first
        groups, samples = order(1).shape
    settings: dict[str, Any] = {
        "samples": samples,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "optimizer": optimizer,
    }
    settings |= {
        "momentum": momentum,
        "weight_decay": weight_decay,
        "max_grad_norm": max_grad_norm,
        "precision": precision,
    }
    settings |= {"order_seeds": list(order_seeds), "lr_schedule": lr_schedule}
    settings |= (
        {"milestones": list(milestones)} if lr_schedule == "milestones" else {"epochs": epochs}
    )
    _check(model.runs, groups, inputs, labels, epochs, checkpoint_every, settings)
    if prepare is None and not inputs.isfinite().all():
        raise ValueError(
            "inputs must be finite; they hold NaN or infinity, and there is no prepare that could mend them"
        )
    device = inputs.device
    graphed = cuda_graph and can_be_graphed(device)
    rate = (
        torch.tensor(learning_rate, device=device) if graphed else learning_rate
    )  # a recorded step reads the learning rate from memory
    update = _optimizer(optimizer, model, rate, momentum, weight_decay, fused or graphed or None)
    steps_per_epoch = -(-samples // batch_size)
    if lr_schedule == "one-cycle" and graphed:
        raise ValueError(
            "lr_schedule='one-cycle' changes the momentum in every step, unseen by a recorded step: set cuda_graph=False"
        )
    rates = _rates(lr_schedule, update, milestones, learning_rate, epochs, steps_per_epoch)
    shared = model.runs // groups
    take_step: Step | ManualStep
    if manual_backward and precision == "float32" and ManualStep.serves(model, loss_fn, update):
        take_step = ManualStep(model, loss_fn, update, groups=groups, max_grad_norm=max_grad_norm)
    else:
        take_step = Step(
            model,
            loss_fn,
            update,
            max_grad_norm=max_grad_norm,
            precision=precision,
            cached=not graphed,
        )
    feed = Feed(take_step, inputs, prepare, batch_size)
    do_step = GraphedStep(feed) if graphed else feed
    parts: dict[str, Any] = {"model": model, "optimizer": update, "rates": rates}
    parts |= {"loss": loss_fn} if isinstance(loss_fn, torch.nn.Module) else {}
    history = _resume(checkpoint, identity, settings, parts)
    beta_of = schedule if callable(schedule) else lambda step: [of_run(step) for of_run in schedule]
    for entry in history:  # what the schedule had seen before the interruption
        _follow(schedule, {name: value for name, value in entry.items() if name not in _ENTRIES})
    if isinstance(rate, Tensor):
        _read_from(rate, update)
    if isinstance(take_step, ManualStep):
        take_step.load()

    unsaved: dict[str, Any] | None = None  # the state of the last epoch, where no file has it
    try:
        for epoch in _epochs(len(history), epochs, progress):
            if epoch > 0:
                model.train()
                indices = order(epoch).to(device)  # (S, n)
                expected = (
                    labels[indices] if shared == 1 else labels[indices].repeat_interleave(shared, 0)
                )  # (R, n)
                betas = _betas(
                    beta_of,
                    range((epoch - 1) * steps_per_epoch, epoch * steps_per_epoch),
                    model.runs,
                ).to(device)  # (steps, R)
                if isinstance(take_step, ManualStep):
                    take_step.check(betas)
                tables = Tables(
                    indices, expected, betas, draws(epoch).to(device) if draws is not None else None
                )
                for step in range(steps_per_epoch):
                    do_step(tables, step)
                    if lr_schedule == "one-cycle" or step == steps_per_epoch - 1:
                        rates.step()
                if isinstance(take_step, ManualStep):
                    take_step.store()
            measured: Mapping[str, Tensor] = {}
            if measure is not None:
                model.eval()
                measured = {name: value.cpu() for name, value in measure(model, epoch).items()}
                if not measured.keys().isdisjoint(_ENTRIES):
                    raise ValueError(
                        f"measure must leave {', '.join(_ENTRIES)} to the history; it returned {', '.join(measured)}"
                    )
            _follow(schedule, measured)
            beta, rate_now = (
                _betas(beta_of, [epoch * steps_per_epoch], model.runs)[0],
                float(rates.get_last_lr()[0]),
            )
            history.append({"epoch": epoch, "beta": beta, "learning_rate": rate_now, **measured})
            if checkpoint is not None:
                states = copy.deepcopy({name: part.state_dict() for name, part in parts.items()})
                unsaved = {
                    "identity": identity,
                    "settings": settings,
                    **states,
                    "random": torch.get_rng_state(),
                    "history": list(history),
                }
                if epoch % checkpoint_every == 0:
                    _save(checkpoint, unsaved)
                    unsaved = None
    finally:
        if checkpoint is not None and unsaved is not None:
            _save(checkpoint, unsaved)
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        _log.warning(
            "a run has diverged: there are weights that are not finite; a smaller learning_rate or a max_grad_norm may help"
        )
    return history


@torch.no_grad()
def predict(
    model: RunModel,
    inputs: Tensor,
    *,
    batch_size: int = 2_000,
    features: bool = False,
    prepare: Callable[[Tensor], Tensor] | None = None,
    precision: str = "float32",
) -> Tensor:
    """Compute logits ``[R, N, C]`` of inputs ``[N, ...]`` that all runs share, in float32 at least; the model's mode is kept.

    Args:
        model: a stack of R runs.
        inputs: inputs ``[N, ...]``.
        batch_size: samples at a time.
        features: return the inputs of the last layer, ``[R, N, D]``, instead of the logits.
        prepare: makes of a batch ``[B, ...]`` what the model sees; by default the batch itself.
        precision: as in :func:`train`.
    """
    mode = model.training
    model.eval()
    forward = model.features if features else model
    outputs = []
    try:
        with autocast(inputs.device, precision):
            for batch in inputs.split(batch_size):
                output = forward((batch if prepare is None else prepare(batch))[None])
                outputs.append(output.float() if output.dtype == torch.bfloat16 else output)
    finally:
        model.train(mode)
    return torch.cat(outputs, dim=1)


def batch_order(seed: int, epoch: int, samples: int) -> Tensor:
    """Draw the order of the samples in an epoch, ``[N]``: a permutation that depends on the seed and the epoch only.

    Raises:
        ValueError: for a seed outside [0, 2**31) or an epoch outside [0, 2**20).

    Example:
        >>> sorted(batch_order(seed=0, epoch=1, samples=4).tolist())
        [0, 1, 2, 3]
    """
    return batch_orders([seed], epoch, [samples])[0]


def batch_orders(seeds: Sequence[int], epoch: int, samples: Sequence[int]) -> Tensor:
    """Return the first n of :func:`batch_order` for each seed and number of samples, ``[S, n]``; n is the smallest of these numbers.

    PyTorch's generator keeps 32 bits of a seed, which hold an epoch below 2**20 and a seed below
    2**12. Two larger seeds would share their orders, so those come from NumPy's Philox generator,
    whose key holds both whole.
    """
    generator, length, orders = torch.Generator(), min(samples), []
    for seed, size in zip(seeds, samples, strict=True):
        if not (0 <= seed < 2**31 and 0 <= epoch < 2**20):
            raise ValueError(
                f"a batch order needs a seed in [0, {2**31}) and an epoch in [0, {2**20}); got seed {seed}, epoch {epoch}"
            )
        if seed < 2**12:
            order = torch.randperm(size, generator=generator.manual_seed((seed << 20) + epoch))
        else:
            key = np.array([_ORDERS + seed, epoch], dtype=np.uint64)
            order = torch.from_numpy(
                np.random.Generator(np.random.Philox(key=key)).permutation(size)
            )
        orders.append(order if size == length else order[:length])
    return torch.stack(orders)


def _check(
    runs: int,
    groups: int,
    inputs: Tensor,
    labels: Tensor,
    epochs: int,
    checkpoint_every: int,
    settings: dict[str, Any],
) -> None:
    if len(inputs) != len(labels) or len(inputs) == 0:
        raise ValueError(
            f"inputs and labels must hold the same number of samples, at least one; got {len(inputs)} and {len(labels)}"
        )
    batch_size, limit = settings["batch_size"], settings["max_grad_norm"]
    if epochs < 0 or batch_size < 1 or checkpoint_every < 1:
        raise ValueError(
            f"epochs must be >= 0, batch_size and checkpoint_every >= 1; got {epochs}, {batch_size} and {checkpoint_every}"
        )
    for name in ("learning_rate", "momentum", "weight_decay"):
        if not 0 <= settings[name] < math.inf:
            raise ValueError(f"{name} must be finite and >= 0, got {settings[name]}")
    if limit is not None and not limit > 0:
        raise ValueError(f"max_grad_norm must be > 0, or None for no limit; got {limit}")
    if not groups or runs % groups:
        raise ValueError(
            f"order_seeds must be as many as divide the {runs} runs, got {groups}; so must the rows of an order"
        )


def _betas(
    schedule: Callable[[int], float | Sequence[float]], steps: Sequence[int], runs: int
) -> Tensor:
    """Return the β of these steps for each run, ``[steps, R]``."""
    rows = np.array([schedule(step) for step in steps])  # several times faster than a list
    if rows.shape[1:] not in ((), (runs,)):
        raise ValueError(
            f"schedule must return one β for each of the {runs} runs, or a number for all; got shape {list(rows.shape[1:])}"
        )
    return (
        torch.tensor(rows, dtype=torch.get_default_dtype()).reshape(len(rows), -1).expand(-1, runs)
    )


def _follow(schedule: Any, measured: Mapping[str, Tensor]) -> None:
    """Hand what was measured to the method ``update`` of a schedule, or what was measured of each run to that of its own schedule."""
    for run, each in enumerate([schedule] if callable(schedule) else schedule):
        if hasattr(each, "update"):
            each.update(
                measured
                if each is schedule
                else {name: values[run] for name, values in measured.items()}
            )


def _optimizer(
    name: str,
    model: RunModel,
    rate: float | Tensor,
    momentum: float,
    weight_decay: float,
    fused: bool | None,
) -> torch.optim.Optimizer:
    if name == "sgd":
        return torch.optim.SGD(
            model.parameters(), lr=rate, momentum=momentum, weight_decay=weight_decay, fused=fused
        )
    if name != "adam":
        raise ValueError(f"unknown optimizer {name!r}; valid: {', '.join(OPTIMIZERS)}")
    decays, recordable = (momentum, 0.999), isinstance(rate, Tensor)
    return torch.optim.Adam(
        model.parameters(),
        lr=rate,
        betas=decays,
        weight_decay=weight_decay,
        fused=fused,
        capturable=recordable,
    )


def _rates(
    name: str,
    optimizer: torch.optim.Optimizer,
    milestones: Sequence[int],
    learning_rate: float,
    epochs: int,
    steps: int,
) -> torch.optim.lr_scheduler.LRScheduler:
    """Make the schedule of the learning rate, which takes a step after every epoch, or, as one cycle, after every step."""
    schedulers = torch.optim.lr_scheduler
    if name == "milestones":
        return schedulers.MultiStepLR(optimizer, milestones=list(milestones), gamma=0.1)
    if name == "exponential":
        return schedulers.ExponentialLR(optimizer, gamma=_LAST_SHARE ** (1 / max(epochs - 1, 1)))
    if name == "one-cycle":
        return schedulers.OneCycleLR(
            optimizer, max_lr=learning_rate, total_steps=max(epochs * steps, 1)
        )
    raise ValueError(f"unknown lr_schedule {name!r}; valid: {', '.join(LR_SCHEDULES)}")


def _epochs(first: int, last: int, progress: bool) -> Iterator[int]:
    """Count from ``first`` to ``last``, with a bar in a terminal or a notebook, and a line for each epoch in a log."""
    interactive = sys.stderr.isatty() or "ipykernel" in sys.modules
    for epoch in tqdm(
        range(first, last + 1), desc="epochs", disable=not (progress and interactive)
    ):
        yield epoch
        if progress and not interactive:
            _log.info("epoch %d of %d", epoch, last)


def _read_from(rate: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Let the optimizer read its learning rate from this tensor again: a loaded state has put another one in its place."""
    for group in optimizer.param_groups:
        rate.copy_(torch.as_tensor(group["lr"]))
        group["lr"] = rate


def _save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state, and the SHA-256 of its bytes behind it: a flipped bit of a weight would otherwise pass for a weight."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    content = io.BytesIO()
    torch.save(state, content)
    try:
        partial.write_bytes(content.getvalue() + hashlib.sha256(content.getbuffer()).digest())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _resume(
    path: str | os.PathLike[str] | None,
    identity: str,
    settings: dict[str, Any],
    parts: dict[str, Any],
) -> list[dict[str, Any]]:
    """Restore a checkpoint if there is one; return its history, from epoch 0."""
    if path is None or not Path(path).exists():
        return []
    try:
        content = Path(path).read_bytes()
        if hashlib.sha256(content[:-32]).digest() != content[-32:]:
            raise ValueError("its checksum differs")
        state = torch.load(io.BytesIO(content[:-32]), weights_only=True, map_location="cpu")
        _check_form(state, parts)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        raise ValueError(
            f"the checkpoint {path} is damaged ({reason}); delete it to start again"
        ) from error
    if state["identity"] != identity:
        raise ValueError(
            f"the checkpoint {path} belongs to another training ({state['identity']!r}, "
            f"not {identity!r}); delete it or name another file"
        )
    old = state.get("settings", settings)  # files of the first versions have none
    changed = [
        f"{name}={old.get(name)!r}, not {value!r}"
        for name, value in settings.items()
        if old.get(name) != value
    ]
    if changed:
        raise ValueError(
            f"the checkpoint {path} was written with {'; '.join(changed)}; "
            "restore the old value or delete it to start again"
        )
    try:
        if state["rates"].keys() != parts["rates"].state_dict().keys():
            raise ValueError("rates are those of another schedule")
        for name, part in parts.items():
            part.load_state_dict(state[name])
            if isinstance(part, torch.optim.Optimizer):
                _check_optimizer(part, epochs=len(state["history"]) - 1)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        raise ValueError(
            f"the checkpoint {path} is damaged, or of a model of another shape ({reason}); "
            "delete it to start again"
        ) from error
    torch.set_rng_state(state["random"])
    return list(state["history"])


def _check_form(state: Any, parts: Mapping[str, Any]) -> None:
    """Refuse a state that no training wrote; that weights fit their model, the model itself says."""
    if not isinstance(state, dict):
        raise TypeError(f"a mapping is expected, not a {type(state).__name__}")
    kinds = {"identity": str, "history": list, "random": Tensor} | dict.fromkeys(parts, dict)
    for name, kind in kinds.items():
        if not isinstance(state[name], kind):
            raise TypeError(f"{name} is a {type(state[name]).__name__}")
    if not isinstance(state.get("settings", {}), dict):
        raise TypeError(f"settings is a {type(state['settings']).__name__}")
    expected = torch.get_rng_state()
    if state["random"].dtype != expected.dtype or state["random"].shape != expected.shape:
        raise ValueError("random is no state of PyTorch's generator")
    if not state["history"]:
        raise ValueError("history is empty")
    for epoch, entry in enumerate(state["history"]):
        if not isinstance(entry, dict) or entry.get("epoch") != epoch:
            raise ValueError(f"history has no entry of epoch {epoch}")
        rate = entry["learning_rate"]
        if not isinstance(rate, float) or not math.isfinite(rate):
            raise ValueError(f"the learning rate of epoch {epoch} is no number")
        for name in entry.keys() - {"epoch", "learning_rate"}:
            if not isinstance(entry[name], Tensor):
                raise TypeError(f"{name} of epoch {epoch} is a {type(entry[name]).__name__}")
    if state["rates"]["last_epoch"] < len(state["history"]) - 1:
        raise ValueError("rates and history are of different epochs")


def _check_optimizer(optimizer: torch.optim.Optimizer, epochs: int) -> None:
    """Refuse an optimizer that has forgotten its averages, or keeps some of another shape."""
    group = optimizer.param_groups[0]
    remembers = bool(group.get("momentum", 1))  # Adam has no entry of this name
    if epochs and remembers and not optimizer.state:
        raise ValueError("the optimizer's state is empty")
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.ndim and value.shape != parameter.shape:
                raise ValueError(f"{name} has the shape {list(value.shape)}")
