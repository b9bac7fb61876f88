"""Input of all functions of this package: arrays or tensors of any floating type, checked, in float64."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ArrayOrTensor = ArrayLike | Tensor
TensorOrArray = TypeVar("TensorOrArray", Tensor, FloatArray)


def to_tensor(values: ArrayOrTensor, name: str) -> Tensor:
    """Make a tensor of real numbers; Python floats become float64, arrays and tensors keep their type."""
    if not isinstance(values, Tensor):
        if np.ma.is_masked(values):
            raise ValueError(
                f"{name} must not have masked values; select the samples that are there first"
            )
        array = np.asarray(values)
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{name} must be an array of real numbers, not of type {array.dtype}")
        kind = (
            np.int64
            if array.dtype.kind != "f"
            else array.dtype.newbyteorder("=")
            if array.itemsize <= 8
            else np.float64
        )
        return torch.from_numpy(
            array.astype(kind, order="C")
        )  # torch has no long double; a copy, because the array may be read-only
    if values.is_complex() or values.dtype == torch.bool:
        raise ValueError(f"{name} must hold real numbers, not {values.dtype}")
    return values


def floating_type(tensor: Tensor) -> torch.dtype:
    """Return the type of a tensor; float64 for integers."""
    return tensor.dtype if tensor.is_floating_point() else torch.float64


def like(result: Tensor, given: Any, dtype: torch.dtype | None = None) -> Any:
    """Give the result the kind of the input (tensor or array), and its type if no other is given.

    The type is float64 for integers.
    """
    if isinstance(given, Tensor):
        return result.to(dtype or floating_type(given))
    if dtype is not None and dtype is not torch.float64:
        result = result.to(dtype)
    array, given = result.detach().numpy(), np.asarray(given)
    if dtype is None and given.dtype.kind == "f":
        return array.astype(given.dtype)
    return array


def check_finite(values: Tensor, name: str) -> None:
    """Raise a ValueError unless all values are finite."""
    if not torch.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite; {int((~torch.isfinite(values)).sum())} values are NaN or infinite"
        )


def check_probabilities(p: Tensor, name: str, dtype: torch.dtype) -> None:
    """Raise a ValueError unless the rows of ``p`` (float64) are probabilities, up to the rounding of ``dtype``."""
    if p.ndim == 0 or p.numel() == 0:
        raise ValueError(f"{name} must not be empty; its shape is {list(p.shape)}")
    check_finite(p, name)
    tolerance = max(1e-4, 2 * torch.finfo(dtype).eps)
    if p.min() < 0 or p.max() > 1 + tolerance:
        raise ValueError(
            f"{name} must lie in [0, 1]; it reaches from {p.min():.6g} to {p.max():.6g}. For logits, apply softmax first"
        )
    deviation = (p.sum(dim=-1) - 1).abs().max()
    if deviation > tolerance:
        raise ValueError(
            f"{name} must sum to 1 over the last dimension; the largest deviation is {deviation:.6g}"
        )


def predictions(
    probs: ArrayOrTensor, labels: ArrayOrTensor
) -> tuple[FloatArray, IntArray, torch.dtype]:
    """Return probabilities as float64 ``[N, C]``, labels as int64 ``[N]``, and the type that the probabilities came in."""
    tensor = to_tensor(probs, "probs")
    p = tensor.detach().to("cpu", torch.float64)
    if p.ndim != 2:
        raise ValueError(f"probs must have the shape [N, C], not {list(p.shape)}")
    check_probabilities(p, "probs", floating_type(tensor))
    return p.numpy(), class_indices(labels, p.shape, "probs"), floating_type(tensor)


def class_indices(labels: ArrayOrTensor, shape: torch.Size, of: str) -> IntArray:
    """Return labels as int64 ``[N]``, checked to go with predictions of the shape ``[N, C]``."""
    samples, classes = shape
    y = to_tensor(labels, "labels")
    if y.is_floating_point():
        raise ValueError(
            f"labels must be class indices of an integer type, not {y.dtype}; for one-hot or soft labels, take argmax first"
        )
    if list(y.shape) != [samples]:
        raise ValueError(
            f"labels must have the shape [{samples}] to go with {of} {list(shape)}, not {list(y.shape)}"
        )
    indices = y.detach().to("cpu", torch.int64).numpy()
    if indices.min() < 0 or indices.max() >= classes:
        raise ValueError(
            f"labels must lie in [0, {classes}); they reach from {indices.min()} to {indices.max()}"
        )
    return indices
