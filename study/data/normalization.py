"""Shift and scale of the inputs, with statistics of the samples that are trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

__all__ = ["NORMALIZATIONS", "Normalization", "Normalizer", "fit_normalizer"]

NORMALIZATIONS = ("unit", "standard", "none", "channel")

Normalization = Literal["unit", "standard", "none", "channel"]

_CHUNK = 2_000  # images that are counted at a time


@dataclass(frozen=True, eq=False)
class Normalizer:
    """Maps inputs to float32: (input − shift) / scale, with a shift and a scale that broadcast to one input.

    A batch that is normalised alone equals the same samples of the normalised whole, bit for bit.
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


def fit_normalizer(inputs: Tensor, normalization: Normalization) -> Normalizer:
    """Take the shift and the scale of a normalisation, as in :func:`study.data.load`, from training inputs.

    Statistics of colour images, and those of ``"channel"``, are exact for bytes: sums of integers, rounded once at the end, counted in
    pieces so that no float copy of the images is made. A feature or channel that is constant keeps the scale 1.
    """
    if normalization not in NORMALIZATIONS:
        raise ValueError(f"unknown normalization {normalization!r}; valid: {', '.join(NORMALIZATIONS)}")
    table, values = inputs.ndim == 2, inputs[:, None] if inputs.ndim == 3 else inputs
    if table and normalization == "channel":
        raise ValueError("normalization 'channel' is for images, and these inputs are a table of features; valid: unit, standard, none")
    if normalization == "none":
        shift, scale = torch.tensor(0.0), torch.tensor(1.0)
    elif normalization == "unit" and table:
        shift, scale = inputs.float().amin(0), inputs.float().amax(0) - inputs.float().amin(0)
    elif normalization == "unit":
        shift, scale = torch.tensor(0.0), torch.tensor(255.0 if inputs.dtype == torch.uint8 else 16.0)
    elif normalization == "channel" and inputs.dtype == torch.uint8:
        moments = [_moments(channel) for channel in values.unbind(1)]
        shift, scale = (torch.stack(column) for column in zip(*moments, strict=True))
    elif normalization == "channel":
        shift, scale = values.double().mean((0, 2, 3)).float(), values.double().std((0, 2, 3), correction=0).float()
    elif inputs.ndim == 4 and inputs.dtype == torch.uint8:
        shift, scale = _moments(inputs)
    else:
        floats = inputs.float()
        shift, scale = (floats.mean(0), floats.std(0, correction=0)) if table else (floats.mean(), floats.std(correction=0))
    if normalization == "channel":  # (C,), or one number for grey images
        shift, scale = (part[:, None, None] if inputs.ndim == 4 else part[0] for part in (shift, scale))
    return Normalizer(shift, torch.where(scale > 0, scale, torch.ones_like(scale)))


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of bytes; exact but for the last rounding."""
    counts = torch.stack([torch.bincount(chunk.reshape(-1), minlength=256) for chunk in values.split(_CHUNK)]).sum(0)
    first, second = (sum(value**power * count for value, count in enumerate(counts.tolist())) for power in (1, 2))
    variance = Fraction(values.numel() * second - first**2, values.numel() ** 2)
    return torch.tensor(float(Fraction(first, values.numel()))), torch.tensor(math.sqrt(variance))
