"""Input of all functions here: arrays or tensors of any floating type, checked, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ArrayOrTensor = ArrayLike | Tensor
TensorOrArray = TypeVar(
    "TensorOrArray", Tensor, FloatArray, NDArray[np.float32], NDArray[np.float16]
)

# The losses ask the same (gdlib.functional), but calibration imports no sibling. Where PyTorch
# cannot tell, values are read and so checked; the losses then read none.
_transforms_active: Callable[[], bool] = getattr(
    torch._C, "_are_functorch_transforms_active", lambda: False
)


def is_transformed() -> bool:
    """Say whether a compiler or a ``torch.func`` transform is active; then no value is read."""
    return torch.compiler.is_compiling() or _transforms_active()


def to_tensor(values: ArrayOrTensor, name: str) -> Tensor:
    """Make a tensor of real numbers.

    Python floats become float64; arrays and tensors keep their type.
    """
    if not isinstance(values, Tensor):
        if np.ma.is_masked(values):
            raise ValueError(
                f"{name} must not have masked values; first select the samples that are not masked"
            )
        try:
            array = np.asarray(values)
        except (ValueError, RuntimeError) as error:  # of different sizes, or with a graph
            raise ValueError(
                f"{name} must be one array or tensor: join batches by torch.cat or np.concatenate "
                f"({error})"
            ) from error
        if array.dtype.kind not in "fiu":
            whole = array.dtype.kind == "b" or name == "labels"
            # pandas' own types become objects
            way_out = f"; convert it with .astype({'int' if whole else 'float'})"
            raise ValueError(
                f"{name} must be an array of real numbers, not of type {array.dtype}"
                f"{way_out if array.dtype.kind in 'bO' else ''}"
            )
        if array.dtype.kind != "f":
            kind: np.dtype[Any] = np.dtype(np.int64)
        elif array.itemsize > 8:  # torch has no long double
            kind = np.dtype(np.float64)
        else:
            kind = array.dtype.newbyteorder("=")
        return torch.from_numpy(array.astype(kind, order="C"))  # a copy: it may be read-only
    if values.is_complex() or values.dtype == torch.bool:
        raise ValueError(
            f"{name} must hold real numbers, not {values.dtype}"
            f"{'' if values.is_complex() else '; convert it with .long()'}"
        )
    return values


def floating_type(tensor: Tensor) -> torch.dtype:
    """Return the type of a tensor; float64 for integers."""
    return tensor.dtype if tensor.is_floating_point() else torch.float64


def like(result: Tensor, given: Any) -> Any:
    """Give the result the kind and the type of the input; the type is float64 for integers."""
    if isinstance(given, Tensor):
        return result.to(floating_type(given))
    array, given = result.detach().numpy(), np.asarray(given)
    return array.astype(given.dtype) if given.dtype.kind == "f" else array


def check_finite(values: Tensor, name: str) -> None:
    """Raise a ValueError unless all values are finite, where values can be read."""
    if not is_transformed() and not torch.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite; {int((~torch.isfinite(values)).sum())} values are NaN or "
            f"infinite{'; mask a class by -1e4' if torch.isneginf(values).any() else ''}"
        )


def check_whole(value: object, name: str, least: float = -math.inf) -> None:
    """Refuse what is not a whole number, of Python or NumPy, or is below the least."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        bound = "" if least == -math.inf else f", at least {least}"
        raise ValueError(f"{name} must be a whole number{bound}; got {value!r}")


def class_dimension(ndim: int, dim: int | None) -> int:
    """Return the class dimension, counted from 0; None means that of the losses."""
    if dim is None:
        return min(1, ndim - 1)
    if isinstance(dim, bool) or not isinstance(dim, int) or not -ndim <= dim < ndim:
        raise ValueError(f"dim must name one of the {ndim} dimensions; got {dim!r}")
    return dim % ndim


def check_probabilities(p: Tensor, dtype: torch.dtype, dim: int = 1) -> Tensor:
    """Refuse ``p``, float64, unless it holds probabilities over ``dim``, up to rounding in a type.

    Return it with 0 where rounding has left less, as it may in ``1 - p``.
    """
    if p.ndim == 0 or p.numel() == 0:
        raise ValueError(f"probs must not be empty; its shape is {list(p.shape)}")
    check_finite(p, "probs")
    tolerance = max(1e-4, 2 * torch.finfo(dtype).eps)
    if p.min() < -tolerance or p.max() > 1 + tolerance:
        raise ValueError(
            f"probs must lie in [0, 1]; it reaches from {p.min():.6g} to {p.max():.6g}. For "
            "logits, apply softmax first"
        )
    deviation = (p.sum(dim=dim) - 1).abs().max()
    if deviation > tolerance:
        others = (k for k in range(p.ndim) if (p.sum(dim=k) - 1).abs().max() <= tolerance)
        other = next(others, None)
        behind = "" if other is None else f". They do over dimension {other}"
        if deviation < 0.02:  # as in bfloat16, which NumPy does not have
            behind += ". If they are rounded, take the softmax of logits.float()"
        raise ValueError(
            f"probs must sum to 1 over the classes, dimension {dim}; the largest deviation is "
            f"{deviation:.6g}{behind}{_of_two_classes('probs', p.shape)}"
        )
    return p.clamp(min=0.0) if p.min() < 0 else p


def predictions(
    probs: ArrayOrTensor, labels: ArrayOrTensor, ignore_index: int
) -> tuple[FloatArray, IntArray, torch.dtype]:
    """Return float64 probabilities ``[N, C]`` and int64 labels ``[N]`` of the samples that count.

    The third value is the type that the probabilities came in.
    """
    tensor, y = samples(probs, labels, ignore_index, "probs")
    p = tensor.detach().to("cpu", torch.float64)
    p = check_probabilities(p, floating_type(tensor))
    return p.numpy(), y, floating_type(tensor)


def samples(
    values: ArrayOrTensor, labels: ArrayOrTensor, ignore_index: int, of: str
) -> tuple[Tensor, IntArray]:
    """Return values ``[N, C]`` and class indices ``[N]`` of the samples that count.

    Values may have further dimensions after the classes, ``[N, C, d1, ...]`` with labels ``[N, d1,
    ...]``, as in the losses.
    """
    tensor, y = to_tensor(values, of), to_tensor(labels, "labels")
    check_whole(ignore_index, "ignore_index")
    if tensor.ndim < 2 or tensor.numel() == 0:
        raise ValueError(
            f"{of} must have the shape [N, C] or [N, C, d1, ...] and not be empty, not "
            f"{list(tensor.shape)}{_of_two_classes(of, tensor.shape)}"
        )
    if y.is_floating_point():
        raise ValueError(
            f"labels must be class indices of an integer type, not {y.dtype}; for one-hot or soft "
            "labels, take argmax first"
        )
    wanted = [tensor.shape[0], *tensor.shape[2:]]
    if list(y.shape) != wanted:
        behind = ""
        if tensor.ndim > 2 and y.shape == tensor.shape[:-1]:
            behind = f". The classes must be the second dimension: give {of}.movedim(-1, 1)"
        raise ValueError(
            f"labels must have the shape {wanted} to go with {of} {list(tensor.shape)}, not "
            f"{list(y.shape)}{behind}"
        )
    shape, classes = tensor.shape, tensor.shape[1]
    if tensor.ndim > 2:
        tensor = tensor.movedim(1, -1).reshape(-1, classes)
    indices = y.detach().to("cpu", torch.int64).reshape(-1)
    counted = indices != ignore_index
    if not counted.all():
        tensor, indices = tensor[counted.to(tensor.device)], indices[counted]
        if not len(indices):
            raise ValueError(f"no sample counts: every label is ignore_index, {ignore_index}")
    if indices.min() < 0 or indices.max() >= classes:
        raise ValueError(
            f"labels must lie in [0, {classes}); they reach from {indices.min()} to {indices.max()}"
            f"{_of_two_classes(of, shape)}"
        )
    return tensor, indices.numpy()


def _of_two_classes(name: str, shape: torch.Size) -> str:
    """Say how to give two classes that came as one number for each sample."""
    if len(shape) != 1 and shape[1:] != (1,):
        return ""
    one = name if len(shape) == 1 else f"{name}[:, 0]"
    other = f"0 * {one}" if name == "logits" else f"1 - {one}"
    return (
        ". For a binary problem, with one number for class 1, give two columns: "
        f"torch.stack([{other}, {one}], 1), or np.stack for arrays"
    )
