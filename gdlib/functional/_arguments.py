"""Checks for the arguments that all losses share, and the types and shapes to compute in.

The same checks serve a function at each call, and a module of :mod:`gdlib.losses` when it is
created and when an attribute is set.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, ParamSpec, TypeGuard, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

P = ParamSpec("P")
R = TypeVar("R")

Reduction = Literal["none", "mean", "sum"]
"""What is done with the losses of the samples."""

Bound = Literal["> 0", ">= 0", ">= -1", "> -inf", "in (0, 1]", "in [0, 1]", "in [0, pi] radians"]
"""The values that a hyperparameter may take; all must be finite."""

COMPUTE_DTYPE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
FLOATING = tuple(COMPUTE_DTYPE)
PLAIN = (Tensor, torch.nn.Parameter)


# --- compilers, tracers and transforms ---


transforms_active: Callable[[], bool] = getattr(
    torch._C, "_are_functorch_transforms_active", lambda: True
)
"""Say whether a ``torch.func`` transform is active.

Where PyTorch cannot tell, the answer is always yes; then no value is read and nothing is fused.
"""

_is_traced: Callable[[], bool] = getattr(torch._C, "_is_tracing", torch.jit.is_tracing)  # type: ignore[attr-defined]
"""Say whether ``torch.jit.trace`` is active; the private form takes a third of the time."""


def is_transformed() -> bool:
    """Say whether a compiler, a tracer or a ``torch.func`` transform is active."""
    if torch.compiler.is_compiling() or transforms_active() or _is_traced():
        return True
    # make_fx and torch.func.linearize; while they run, their module has been imported
    tracer = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return tracer is not None and tracer.get_proxy_mode() is not None


def has_tangent(tensor: Tensor) -> bool:
    """Say whether a tensor has a tangent, for a forward-mode derivative."""
    if getattr(forward_ad, "_current_level", 0) < 0:  # private, and saves a call
        return False
    return tensor.is_floating_point() and forward_ad.unpack_dual(tensor).tangent is not None


def readable(tensor: Tensor) -> bool:
    """Say whether values can be read without waiting for a device or breaking a graph."""
    return tensor.is_cpu and type(tensor) in PLAIN and not is_transformed()


def extremes(values: Tensor, unknown: float = 1.0) -> tuple[float, float]:
    """Return the smallest and the largest value.

    Both are NaN if any value is, and ``unknown`` where none can be read without waiting.
    """
    if not readable(values) or not values.numel():
        return unknown, unknown
    smallest, largest = values.detach().aminmax()  # one call, much faster than comparisons
    return smallest.item(), largest.item()


_graph_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
"""Name the backward pass that is under way; -1 for none, or where PyTorch cannot tell."""


def computes_again() -> bool:
    """Say whether activation checkpointing is recomputing a forward pass.

    It does so within the backward pass. Where PyTorch cannot tell, the answer is no, and a batch
    under activation checkpointing counts twice.
    """
    return not torch.compiler.is_compiling() and _graph_task() != -1


def update_state(state: Tensor, value: Tensor, *, owner: str, instead: str) -> None:
    """Put a value into a buffer.

    Where a ``torch.func`` transform does not allow that, the error says what to do instead.
    """
    if torch.compiler.is_compiling() or not transforms_active():
        state.copy_(value)
        return
    try:
        state.copy_(value)
    except RuntimeError as error:
        raise RuntimeError(
            f"{owner} changes its state with each batch, which torch.func.vmap, grad and the other "
            f"transforms allow only for state that is given to the function they transform; "
            f"{instead}, or call eval(), after which the state stays as it is"
        ) from error


# --- a tensor in the position of class weights ---


def tensor_by_keyword(
    name: str,
    instead: str = "class weights, which PyTorch's cross-entropy takes in this position, are "
    "weight=...",
    how: str = "a tensor as {name} must be given by keyword, {name}=...",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse a tensor as a positional argument where users of PyTorch may mean another one.

    Args:
        name: name of the argument.
        instead: what the tensor may have been meant for, and how to give that.
        how: how to give a tensor as this argument, or what to give.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        place = list(inspect.signature(function).parameters).index(name)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if len(args) > place and isinstance(args[place], Tensor):
                raise TypeError(f"{how.format(name=name)}: {instead}")
            return function(*args, **kwargs)

        return checked

    return decorate


# --- layout and device of tensors ---


def check_dense(name: str, value: Tensor) -> None:
    """Refuse a sparse tensor."""
    if value.layout is not torch.strided:
        how = "take its rows with .values()" if value.is_nested else "convert it with .to_dense()"
        raise ValueError(f"{name} must be a dense tensor, got {value.layout}; {how}")


def check_not_meta(name: str, value: Tensor, device: torch.device) -> None:
    """Refuse a tensor on the meta device, without values, beside logits that have some."""
    if value.is_meta and device.type != "meta":
        raise ValueError(f"{name} is on the meta device and holds no values; make it on {device}")


# --- the four options ---


def check_weight(weight: object, classes: int | None = None) -> None:
    """Refuse class weights that are not a floating vector with one factor for each class."""
    if weight is None:
        return
    given = type(weight).__name__
    if isinstance(weight, Tensor):
        check_dense("weight", weight)
        fits = weight.ndim == 1 and (classes is None or len(weight) == classes)
        if fits and weight.is_floating_point():
            return
        given = f"{weight.dtype} of shape {list(weight.shape)}"
    raise ValueError(
        "weight must be a floating tensor with one factor for each class, "
        f"shape [{'C' if classes is None else classes}]; got {given}"
    )


def is_whole(value: object, least: float = -math.inf) -> TypeGuard[int]:
    """Say whether a value is a whole number, Python's or NumPy's, and not below ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return bool(value >= least)


def check_whole(name: str, value: object, least: int) -> int:
    """Return a whole number; refuse anything else, and what is below ``least``."""
    if not is_whole(value, least):
        given = "a tensor; int() makes one of it" if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"{name} must be a whole number >= {least}; got {given}")
    return int(value)


def check_ignore_index(ignore_index: object) -> None:
    """Refuse anything but a whole number."""
    if not is_whole(ignore_index):
        raise ValueError(
            f"ignore_index must be a whole number, one for all samples; got {ignore_index!r}"
        )


def check_reduction(reduction: object) -> None:
    """Refuse an unknown reduction."""
    if not isinstance(reduction, str) or reduction not in get_args(Reduction):
        raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")


# --- hyperparameters: numbers, or tensors with one value for each sample ---


_WITHIN: dict[str, Callable[[float], bool]] = {
    "> 0": lambda x: x > 0,
    ">= 0": lambda x: x >= 0,
    ">= -1": lambda x: x >= -1,
    "> -inf": lambda x: x > -math.inf,
    "in (0, 1]": lambda x: 0 < x <= 1,
    "in [0, 1]": lambda x: 0 <= x <= 1,
    "in [0, pi] radians": lambda x: 0 <= x <= math.pi + 1e-6,  # float32 rounds π up
}


def check_number(name: str, value: Any, bound: Bound, kind: str = "a number") -> float:
    """Return a number as a float; refuse what is not a number, not finite or outside its bound."""
    if isinstance(value, Tensor):
        raise ValueError(f"{name} must be a number, the same for all samples; got a tensor")
    try:
        number = float(value + 0)  # refuses a string that reads like a number
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be {kind}, got {type(value).__name__}") from error
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not (_WITHIN[bound](number) and number < math.inf):
        shown = "a whole number with too many digits" if number == math.inf != value else value
        raise ValueError(f"{name} must be a finite number {bound}, got {shown}")
    return number


def _shown(value: Tensor) -> str:
    """Format a tensor; one with many values as its range."""
    if value.numel() <= 10:
        return str(value)
    smallest, largest = extremes(value)
    return f"values from {smallest:g} to {largest:g}"


def check_hyperparameter(name: str, value: Any, bound: Bound) -> float | Tensor:
    """Check a number or a tensor of any shape, whose values must be real, finite and in bounds."""
    if not isinstance(value, Tensor):
        return check_number(name, value, bound, "a number or a tensor")
    check_dense(name, value)
    if value.is_complex() or value.dtype == torch.bool:
        raise ValueError(f"{name} must be a real tensor, got {value.dtype}")
    within = _WITHIN[bound]
    smallest, largest = extremes(value)
    if not (within(smallest) and within(largest) and largest < math.inf):
        learnt = "; it is learnt: clamp it after each step, or give it a parametrisation"
        raise ValueError(
            f"{name} must be finite and {bound} everywhere, got {_shown(value)}"
            f"{learnt if value.requires_grad else ''}"
        )
    return value


def check_parameter(
    name: str, value: float | Tensor, bound: Bound, index_shape: torch.Size
) -> float | Tensor:
    """Check a number, or a tensor that must broadcast to one value for each sample."""
    if isinstance(value, Tensor):
        if value.numel() == 1 and value.ndim > len(index_shape):
            value = value.reshape(())  # FSDP makes a learnt scalar [1], even with logits [C]
        if not broadcasts(value.shape, index_shape):
            raise ValueError(
                f"{name} of shape {list(value.shape)} does not broadcast to one value for each "
                f"sample, shape {list(index_shape)}; add trailing dimensions of size 1 to a {name} "
                f"for each row; for a {name} for each class, give {name}[target], with a valid "
                "index where a label is ignored"
            )
    return check_hyperparameter(name, value, bound)


def check_boolean(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False; got {value!r}")


def check_seeds(seeds: object) -> list[int]:
    """Return the seeds as a list; refuse anything but a sequence of at least one whole number."""
    if not isinstance(seeds, Iterable) or getattr(seeds, "ndim", 1) == 0:
        raise ValueError(f"seeds must be a sequence, such as [0] for one run; got {seeds!r}")
    every = seeds.tolist() if isinstance(seeds, Tensor) else list(seeds)
    if not every:
        raise ValueError("seeds is empty: give one seed for each run")
    for seed in every:
        if not is_whole(seed) or not 0 <= seed < 2**32:  # what PyTorch's generator keeps of it
            raise ValueError(f"a seed must be a whole number in [0, 2**32); got {seed!r}")
    return every


# --- shapes and types ---


def broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    """Say whether a shape broadcasts to another without changing the latter."""
    # by hand: torch.broadcast_shapes imports sympy, which takes seconds
    if len(shape) > len(to):
        return False
    # a plain loop over indices, which the compiler of PyTorch 2.9 can follow
    for back in range(1, len(shape) + 1):
        if shape[-back] != 1 and shape[-back] != to[-back]:
            return False
    return True


def compute_in(input: Tensor, name: str = "input") -> tuple[Tensor, torch.dtype]:
    """Return the logits in the type to compute in, and the type of the result.

    The latter is the type of the input, or under autocast that of the computation.
    """
    compute = COMPUTE_DTYPE.get(input.dtype)
    if compute is None:
        raise ValueError(
            f"{name} must be of type float16, bfloat16, float32 or float64, got {input.dtype}; "
            "convert it with .float()"
        )
    values = input if input.dtype == compute else input.to(compute)
    return values, compute if autocasts(input.device.type) else input.dtype


def autocasts(device: str) -> bool:
    """Say whether autocast is on for a type of device."""
    return device != "meta" and torch.is_autocast_enabled(device)


def without_autocast(layer: Callable[[Tensor], R], features: Tensor, dtype: torch.dtype) -> R:
    """Apply the last layer in the type of its weights, even under autocast.

    Logits rounded to bfloat16 put 1 - p off by a few per cent.
    """
    if not autocasts(device := features.device.type):
        return layer(features)
    with torch.autocast(device, enabled=False):
        return layer(features.to(dtype))


def over_classes(value: float | Tensor, logits: Tensor) -> float | Tensor:
    """Shape a value for each sample so that it broadcasts over the classes of the logits."""
    if not isinstance(value, Tensor):
        return value
    dim = min(1, logits.ndim - 1)
    value = value.to(logits)
    if value.numel() == 1 and value.ndim >= logits.ndim:
        value = value.reshape(())
    return value.expand(logits.shape[:dim] + logits.shape[dim + 1 :]).unsqueeze(dim)


def scaled(
    values: Tensor, by: float | Tensor, operation: Callable[..., Tensor] = torch.mul
) -> Tensor:
    """Multiply logits or cosines by a number, or by one for each sample; or divide them.

    A class that -inf masks adds nothing to the derivative of a number that is learnt.
    """
    learnt = isinstance(by, Tensor) and (by.requires_grad or transforms_active() or has_tangent(by))
    if not learnt:
        return operation(values, by)
    masked = values == -math.inf
    return operation(values.masked_fill(masked, 0.0), by).masked_fill(masked, -math.inf)


def lowest(logits: Tensor) -> float:
    """Return a logit that excludes its class.

    Unlike -inf, it has a derivative where all other classes are masked by -inf.
    """
    return torch.finfo(logits.dtype).min / 4


def widest(device: torch.device) -> torch.dtype:
    """Return the widest floating type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


def log_number(number: float, like: Tensor) -> Tensor:
    """Compute the logarithm of a number, as a tensor of the type and the device of another."""
    if torch.compiler.is_compiling():  # with math.log a graph would hold for one number only
        one = torch.ones((), dtype=widest(like.device), device=like.device)
        return torch.log(one * number).to(like.dtype)
    return like.new_full((), math.log(number))


_FAR = {torch.float32: 43.0, torch.float64: 350.0}
"""Beyond this difference the second derivative of torch.logaddexp is lost.

It squares ``exp`` of the difference.
"""


def log_add_exp(x: Tensor, constant: Tensor) -> Tensor:
    """Compute log(e^x + e^constant) and its first two derivatives to full precision.

    It is :func:`torch.logaddexp` or, for numbers far apart, the larger one plus the ratio, whose
    derivatives are as accurate. The constant broadcasts to x.
    """
    apart = x - constant
    is_far = apart.abs() > _FAR[x.dtype]
    near = torch.logaddexp(torch.where(is_far, constant, x), constant)
    # the ratio is 1 where it does not count: abs has no second derivative at 0
    ratio = torch.exp(-torch.where(is_far, apart, 1.0).abs())
    return torch.where(is_far, torch.maximum(x, constant) + ratio, near)


def softplus(x: Tensor) -> Tensor:
    """Compute log(1 + e^x) to full precision, in float32 or float64.

    Its first and second derivatives are as precise.
    """
    zero = x.new_zeros(())
    if readable(x) and x.numel() and x.data.amin().item() > -_FAR[x.dtype]:
        return torch.logaddexp(x, zero)  # the same in fewer operations
    return log_add_exp(x, zero)
