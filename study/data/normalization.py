"""Shift and scale of the inputs, with statistics of the samples that are trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import torch
from torch import Tensor

__all__ = ["NORMALIZATIONS", "Normalization", "Normalizer", "fit_normalizer"]

NORMALIZATIONS = ("unit", "standard", "none", "channel")

Normalization = Literal["unit", "standard", "none", "channel"]

_CHUNK = 2_000  # images that are counted at a time


@dataclass(frozen=True, eq=False)
class Normalizer:
    """Maps inputs to float32: (input − shift) / scale.

    A batch that is normalised alone equals the same samples of the normalised whole, bit for bit.

    Attributes:
        shift: float32, of a shape that broadcasts to one input: a number, ``[C, 1, 1]`` for each channel, or ``[D]`` for each feature.
        scale: float32, the same; never 0.

    Example:
        >>> normalize = Normalizer(torch.tensor(0.0), torch.tensor(255.0))
        >>> normalize(torch.tensor([0, 51, 255], dtype=torch.uint8))
        tensor([0.0000, 0.2000, 1.0000])
    """

    shift: Tensor
    scale: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        """Normalise inputs ``[N, ...]`` on their device; the inputs stay as they are."""
        shift, scale = self.shift.to(inputs.device), self.scale.to(inputs.device)
        return inputs.to(torch.float32, copy=True).sub_(shift).div_(scale)

    def to(self, device: torch.device | str) -> Normalizer:
        """The same on a device, so that nothing is copied there batch by batch (which a CUDA graph would not allow)."""
        return Normalizer(self.shift.to(device), self.scale.to(device))

    def flat(self, shape: Sequence[int]) -> Normalizer:
        """The same for inputs that were flattened from this shape of one input."""
        if self.shift.ndim == 0:
            return self
        return Normalizer(*(values.expand(*shape).flatten() for values in (self.shift, self.scale)))


def fit_normalizer(inputs: Tensor, normalization: Normalization) -> Normalizer:
    """The shift and the scale that a normalisation takes from training inputs.

    Statistics of colour images, and those of ``"channel"``, are exact: sums of integers, rounded once at the end, counted in pieces so
    that no float copy of the images is made.

    Args:
        inputs: the inputs to train on: a table ``[N, D]``, or images ``[N, H, W]`` or ``[N, C, H, W]`` (bytes, or floats from 0 to 16).
        normalization: as in :func:`study.data.load`.

    Raises:
        ValueError: for a normalisation that does not exist, or that a table does not have.

    Example:
        >>> table = torch.tensor([[0.0, 1.0], [4.0, 1.0]])
        >>> fit_normalizer(table, "unit")(table).tolist()         # a feature that is constant stays finite
        [[0.0, 0.0], [1.0, 0.0]]
    """
    if normalization not in NORMALIZATIONS:
        raise ValueError(f"unknown normalization {normalization!r}; valid: {', '.join(NORMALIZATIONS)}")
    table = inputs.ndim == 2
    if table and normalization == "channel":
        raise ValueError("normalization 'channel' is for images, and these inputs are a table of features; valid: unit, standard, none")
    if normalization == "none":
        shift, scale = torch.tensor(0.0), torch.tensor(1.0)
    elif normalization == "channel":
        shift, scale = _per_channel(inputs)
    elif normalization == "standard" and inputs.ndim == 4 and inputs.dtype == torch.uint8:
        shift, scale = _mean_and_deviation(_counts(inputs).sum(0))
    elif normalization == "standard":
        values = inputs.float()
        shift = values.mean(0) if table else values.mean()
        scale = values.std(0, correction=0) if table else values.std(correction=0)
    elif table:
        values = inputs.float()
        shift, scale = values.amin(0), values.amax(0) - values.amin(0)
    else:
        shift, scale = torch.tensor(0.0), torch.tensor(255.0 if inputs.dtype == torch.uint8 else 16.0)
    return Normalizer(shift, torch.where(scale > 0, scale, torch.ones_like(scale)))


def _per_channel(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, ``[C, 1, 1]``; of all pixels where there are no channels."""
    if images.dtype == torch.uint8:
        moments = [_mean_and_deviation(counts) for counts in _counts(images if images.ndim == 4 else images[:, None])]
    else:
        channels = images.double().unbind(1) if images.ndim == 4 else [images.double()]
        moments = [(channel.mean().float(), channel.std(correction=0).float()) for channel in channels]
    shift, scale = (torch.stack(values) for values in zip(*moments, strict=True))
    return (shift[:, None, None], scale[:, None, None]) if images.ndim == 4 else (shift[0], scale[0])


def _counts(images: Tensor) -> np.ndarray:
    """How often each byte occurs in each channel of images ``[N, C, H, W]``: ``[C, 256]``."""
    counts = np.zeros((images.shape[1], 256), dtype=np.int64)
    for chunk in images.split(_CHUNK):
        for channel in range(images.shape[1]):
            counts[channel] += np.bincount(chunk[:, channel].numpy().reshape(-1), minlength=256)
    return counts


def _mean_and_deviation(counts: np.ndarray) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of bytes that occur so often, ``[256]``; exact but for the last rounding."""
    number = int(counts.sum())
    first, second = (sum(value**power * int(count) for value, count in enumerate(counts)) for power in (1, 2))
    variance = Fraction(number * second - first**2, number**2)
    return torch.tensor(float(Fraction(first, number))), torch.tensor(math.sqrt(variance))
