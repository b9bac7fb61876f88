"""What the functions of this package accept: arrays or tensors of any floating type, checked and in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def to_float64(values: ArrayLike | Tensor, name: str) -> tuple[FloatArray, torch.dtype]:
    """Values as a float64 array, and the floating type that they came in (float64 for numbers without one)."""
    tensor = to_tensor(values, name)
    dtype = tensor.dtype if tensor.is_floating_point() else torch.float64
    return tensor.detach().to("cpu", torch.float64).numpy(), dtype


def to_tensor(values: ArrayLike | Tensor, name: str) -> Tensor:
    """A tensor of real numbers; Python floats become float64, arrays and tensors keep their type."""
    if isinstance(values, Tensor):
        tensor = values
    else:
        if np.ma.is_masked(values):
            raise ValueError(f"{name} must not have masked values; select the samples that are there first")
        array = np.asarray(values)
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{name} must be an array of real numbers, not of type {array.dtype}")
        if array.dtype.kind == "f":
            array = array.astype(array.dtype.newbyteorder("=") if array.itemsize <= 8 else np.float64)  # torch has no long double
        tensor = torch.tensor(array if array.dtype.kind == "f" else array.astype(np.int64))  # a copy: the array may be read-only
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"{name} must hold real numbers, not {tensor.dtype}")
    return tensor


def like(result: Tensor, given: Any) -> Any:
    """The result in the type and kind (tensor or array) of what was given; float64 where integers were given."""
    if isinstance(given, Tensor):
        return result.to(given.dtype) if given.is_floating_point() else result
    array = result.detach().numpy()
    given = np.asarray(given)
    return array.astype(given.dtype) if given.dtype.kind == "f" else array


def check_probabilities(p: Tensor, name: str, dtype: torch.dtype) -> None:
    """Raise a ValueError unless the rows of ``p`` (float64) are probabilities, up to the rounding of ``dtype``."""
    if p.ndim == 0 or p.numel() == 0:
        raise ValueError(f"{name} must not be empty; its shape is {list(p.shape)}")
    if not torch.isfinite(p).all():
        raise ValueError(f"{name} must be finite; it holds {int((~torch.isfinite(p)).sum())} values that are NaN or infinite")
    tolerance = max(1e-4, 2 * torch.finfo(dtype).eps)
    if p.min() < 0 or p.max() > 1 + tolerance:
        raise ValueError(f"{name} must lie in [0, 1]; it reaches from {p.min():.6g} to {p.max():.6g}. For logits, apply softmax first")
    deviation = (p.sum(dim=-1) - 1).abs().max()
    if deviation > tolerance:
        raise ValueError(f"{name} must sum to 1 over the last dimension; the largest deviation is {deviation:.6g}")


def predictions(probs: ArrayLike | Tensor, labels: ArrayLike | Tensor) -> tuple[FloatArray, IntArray, torch.dtype]:
    """Probabilities as float64 ``[N, C]``, labels as int64 ``[N]``, and the type that the probabilities came in."""
    p, dtype = to_float64(probs, "probs")
    if p.ndim != 2:
        raise ValueError(f"probs must have the shape [N, C], not {list(p.shape)}")
    check_probabilities(torch.from_numpy(p), "probs", dtype)
    return p, class_indices(labels, p.shape, "probs"), dtype


def class_indices(labels: ArrayLike | Tensor, shape: tuple[int, ...], of: str) -> IntArray:
    """Labels as int64 ``[N]``, checked to go with predictions of the shape ``[N, C]``."""
    samples, classes = shape
    y = to_tensor(labels, "labels")
    if y.is_floating_point():
        raise ValueError(f"labels must be class indices of an integer type, not {y.dtype}; for one-hot or soft labels, take argmax first")
    if list(y.shape) != [samples]:
        raise ValueError(f"labels must have the shape [{samples}] to go with {of} {list(shape)}, not {list(y.shape)}")
    indices = y.detach().to("cpu", torch.int64).numpy()
    if indices.min() < 0 or indices.max() >= classes:
        raise ValueError(f"labels must lie in [0, {classes}); they reach from {indices.min()} to {indices.max()}")
    return indices
