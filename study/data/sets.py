"""Loaded data sets: splits of inputs and labels, the normalisation of the inputs, and their origin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

__all__ = ["NORMALIZATIONS", "Dataset", "Normalization", "Normalizer", "Split", "fit_normalizer"]

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


@dataclass(frozen=True)
class Split:
    """Inputs ``[N, ...]`` and class indices ``[N]`` (int64)."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.labels)

    def flat(self) -> Split:
        """The same split with inputs of shape ``[N, D]``."""
        return replace(self, inputs=self.inputs.flatten(1))

    def with_channels(self) -> Split:
        """The same split with images of shape ``[N, C, H, W]``; grey ones get one channel."""
        if self.inputs.ndim not in (3, 4):
            raise ValueError(f"only images [N, H, W] or [N, C, H, W] have channels; got inputs of shape {list(self.inputs.shape)}")
        return replace(self, inputs=self.inputs[:, None] if self.inputs.ndim == 3 else self.inputs)


@dataclass(frozen=True)
class Dataset:
    """A data set, ready to train on.

    Attributes:
        source: ``"embedded"``, ``"local"`` or ``"hub"``.
        copy: which exact copy this is: a package version, the checksum of a file, or a revision.
        normalize: makes float inputs of the bytes, batch by batch, where the inputs are bytes; None where they are floats already.
    """

    name: str
    train: Split
    valid: Split | None
    test: Split
    class_names: tuple[str, ...]
    source: str
    copy: str
    normalize: Normalizer | None = None

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def features(self) -> int:
        """The number of values in one input."""
        return self.train.inputs[0].numel()

    def flat(self) -> Dataset:
        """The same data set, of floats, with inputs of shape ``[N, D]``."""
        return self.each(Split.flat)

    def with_channels(self) -> Dataset:
        """The same data set with images of shape ``[N, C, H, W]``; grey ones get one channel."""
        return self.each(Split.with_channels)

    def each(self, change: Callable[[Split], Split]) -> Dataset:
        """The same data set with every split changed."""
        valid = None if self.valid is None else change(self.valid)
        return replace(self, train=change(self.train), valid=valid, test=change(self.test))
