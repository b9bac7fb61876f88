"""What the losses accept: checks of their arguments, each with a message that says what was given and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_COMPUTE_DTYPE = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float32, torch.float64: torch.float64}


def check_logits(input: Tensor) -> int:
    """Refuse what cannot be logits; return the class dimension."""
    if not isinstance(input, Tensor):
        raise ValueError(f"input must be a tensor of logits, got {type(input).__name__}")
    if input.dtype not in _COMPUTE_DTYPE:
        raise ValueError(
            f"input must hold logits of type float16, bfloat16, float32 or float64, got {input.dtype}; convert it with .float()"
        )
    if input.ndim == 0:
        raise ValueError("input must have a class dimension: shape [C], [N, C] or [N, C, d1, ...], got a scalar")
    class_dim = min(1, input.ndim - 1)
    if input.shape[class_dim] == 0:
        raise ValueError(f"input of shape {list(input.shape)} has no classes (dimension {class_dim})")
    return class_dim


def check_target(input: Tensor, target: Tensor, class_dim: int) -> bool:
    """Refuse a target that fits neither reading; return whether it holds class probabilities."""
    if not isinstance(target, Tensor):
        raise ValueError(f"target must be a tensor of class indices or class probabilities, got {type(target).__name__}")
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :]
    if target.shape == input.shape:
        if not target.is_floating_point():
            raise ValueError(
                f"target has the shape of input, {list(input.shape)}, and is therefore read as class probabilities, which must be "
                f"floating point; got {target.dtype}. Class indices would have the shape {list(index_shape)}"
            )
        return True
    if target.shape != index_shape:
        raise ValueError(
            f"target of shape {list(target.shape)} does not fit input of shape {list(input.shape)}: expected class indices of shape "
            f"{list(index_shape)} or class probabilities of shape {list(input.shape)}"
        )
    if target.dtype not in (torch.int64, torch.uint8):
        raise ValueError(f"class indices must be int64 or uint8, got {target.dtype}; convert them with target.long()")
    return False


def check_options(
    input: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float, class_dim: int, soft: bool
) -> None:
    """Refuse options that cross_entropy would refuse, with what to do instead."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing must lie in [0, 1], got {label_smoothing}")
    if soft and ignore_index >= 0:
        raise ValueError("ignore_index needs class indices; with class probabilities give the sample a row of zeros instead")
    classes = input.shape[class_dim]
    if weight is not None and (not isinstance(weight, Tensor) or weight.shape != (classes,) or not weight.is_floating_point()):
        given = f"{weight.dtype} of shape {list(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
        raise ValueError(f"weight must be a floating tensor with one factor for each class, shape [{classes}]; got {given}")


def positive(name: str, value: float | Tensor, index_shape: torch.Size) -> float | Tensor:
    """Refuse a value that is not positive and finite, or that does not broadcast to one value for each sample."""
    return _parameter(name, value, index_shape, ("> 0", lambda number: number > 0))


def nonnegative(name: str, value: float | Tensor, index_shape: torch.Size) -> float | Tensor:
    """Refuse a value that is negative or not finite, or that does not broadcast to one value for each sample."""
    return _parameter(name, value, index_shape, (">= 0", lambda number: number >= 0))


def finite(name: str, value: float | Tensor, index_shape: torch.Size) -> float | Tensor:
    """Refuse a value that is not finite, or that does not broadcast to one value for each sample."""
    return _parameter(name, value, index_shape, ("> -inf", lambda number: number > -math.inf))


def _parameter(name: str, value: float | Tensor, index_shape: torch.Size, bound: tuple[str, Callable[[Any], Any]]) -> float | Tensor:
    words, within = bound
    if not isinstance(value, Tensor):
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be a number or a tensor, got {type(value).__name__}") from error
        if isinstance(value, bool) or not (within(number) and number < math.inf):
            raise ValueError(f"{name} must be a finite number {words}, got {value}")
        return number
    if value.is_complex() or value.dtype == torch.bool:
        raise ValueError(f"{name} must be a real tensor, got {value.dtype}")
    try:
        fits = torch.broadcast_shapes(value.shape, index_shape) == index_shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} of shape {list(value.shape)} does not broadcast to one value for each sample, shape {list(index_shape)}; "
            f"add trailing dimensions of size 1 to a {name} for each row"
        )
    if value.device.type == "cpu" and not torch.compiler.is_compiling():
        detached = value.detach()
        try:
            accepted = bool((within(detached) & torch.isfinite(detached)).all())
        except RuntimeError:  # inside vmap a value cannot be looked at
            accepted = True
        if not accepted:
            raise ValueError(f"{name} must be finite and {words} everywhere, got {value}")
    return value


def compute_in(input: Tensor) -> tuple[Tensor, torch.dtype]:
    """The logits in the type to compute in, and the type of the result: that of the input, or float32 under autocast."""
    compute = _COMPUTE_DTYPE[input.dtype]
    result = compute if torch.is_autocast_enabled(input.device.type) else input.dtype
    return input if input.dtype == compute else input.to(compute), result


def over_classes(value: float | Tensor, class_dim: int, logits: Tensor) -> float | Tensor:
    """A value for each sample, shaped to broadcast over the classes."""
    if not isinstance(value, Tensor):
        return value
    index_shape = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    return value.to(logits).expand(index_shape).unsqueeze(class_dim)
