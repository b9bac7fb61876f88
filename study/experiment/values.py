"""Flat values, as papermill delivers them, for the dataclasses that describe experiments."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import torch

__all__ = ["device_of", "require", "require_one_of", "values_of", "with_tuples"]


def values_of(kind: Any, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a dataclass, by name, out of a notebook's namespace.

    A list may also come as papermill's ``-p`` delivers it from a command line: as text, or, for a list of one, as a number.

    Raises:
        ValueError: for a text that is no list.
    """
    values = {}
    for field in dataclasses.fields(kind):
        if field.name not in namespace:
            continue
        value = namespace[field.name]
        if isinstance(field.default, tuple) and isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise ValueError(f"{field.name} must be a list, such as {list(field.default)}; got {value!r}") from error
        if isinstance(field.default, tuple) and isinstance(value, (int, float)) and not isinstance(value, bool):
            value = [value]
        values[field.name] = value
    return values


def with_tuples(instance: Any) -> None:
    """Turn the lists of a frozen dataclass into tuples, in place."""
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if isinstance(value, list):
            object.__setattr__(instance, field.name, tuple(tuple(item) if isinstance(item, list) else item for item in value))


def require(name: str, value: object, *, above: float | None = None, at_least: float | None = None) -> None:
    """Refuse what is no finite number within the bound."""
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    bound = f"> {above:g}" if above is not None else f">= {at_least:g}"
    holds = number > above if above is not None else number >= (at_least or 0)
    if not (holds and math.isfinite(number)):
        raise ValueError(f"{name} must be a finite number {bound}; got {value!r}")


def require_one_of(name: str, value: object, valid: Collection[str]) -> None:
    """Refuse what is none of these names."""
    if not isinstance(value, str) or value not in valid:
        raise ValueError(f"unknown {name} {value!r}; valid: {', '.join(valid)}")


def device_of(name: str) -> torch.device:
    """The device of this name; ``auto`` is a GPU where there is one.

    Raises:
        ValueError: for a GPU that is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is 'cuda', but PyTorch finds no GPU here; set it to 'auto' or to 'cpu'")
    return torch.device(name)
