"""Loaded data sets.

Splits of inputs and labels, the normalisation of the inputs, and their origin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

NORMALIZATIONS = ("unit", "standard", "none", "channel")


@dataclass(frozen=True, eq=False)
class Normalizer:
    """A map of inputs to float32.

    (input − shift) / scale, with a shift and a scale that broadcast to one input.

    A batch that is normalised alone equals the same samples of the normalised whole, bit for bit.
    """

    shift: Tensor
    scale: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        """Normalise inputs ``[N, ...]`` on their device; the inputs stay as they are."""
        return inputs.to(torch.float32, copy=True).sub_(self.shift).div_(self.scale)

    def to(self, device: torch.device | str) -> Normalizer:
        """Move it to a device, so that nothing is copied there batch by batch.

        A CUDA graph would not allow such copies.
        """
        return Normalizer(self.shift.to(device), self.scale.to(device))


def fit_normalizer(inputs: Tensor, normalization: str) -> Normalizer:
    """Take the shift and the scale of a normalisation from training inputs.

    The normalisations are those of :func:`study.data.load`.

    Statistics of colour images, and those of ``"channel"``, are exact for bytes: sums of integers,
    rounded once at the end, without a float copy of the images. A feature or channel that is
    constant keeps the scale 1.
    """
    if normalization not in NORMALIZATIONS:
        raise ValueError(
            f"unknown normalization {normalization!r}; valid: {', '.join(NORMALIZATIONS)}"
        )
    table, colour = inputs.ndim == 2, inputs.ndim == 4
    if normalization == "none":
        shift, scale = torch.tensor(0.0), torch.tensor(1.0)
    elif normalization == "unit" and table:
        shift, scale = inputs.amin(0), inputs.amax(0) - inputs.amin(0)
    elif normalization == "unit":
        shift, scale = (
            torch.tensor(0.0),
            torch.tensor(255.0 if inputs.dtype == torch.uint8 else 16.0),
        )
    elif normalization == "channel" and not table:
        moments = [_moments(channel) for channel in (inputs.unbind(1) if colour else [inputs])]
        both = (torch.stack(column) for column in zip(*moments, strict=True))
        shift, scale = (
            part[:, None, None] if colour else part[0] for part in both
        )  # (C, 1, 1), or one number for grey images
    elif colour and inputs.dtype == torch.uint8:
        shift, scale = _moments(inputs)
    else:
        floats, axis = inputs.float(), 0 if table else None
        shift, scale = floats.mean(axis), floats.std(axis, correction=0)
    return Normalizer(shift, torch.where(scale > 0, scale, torch.ones_like(scale)))


def _moments(values: Tensor) -> tuple[Tensor, Tensor]:
    """Compute mean and standard deviation in float32.

    Those of bytes are exact but for the last rounding.
    """
    if values.dtype != torch.uint8:
        return values.double().mean().float(), values.double().std(correction=0).float()
    counts = torch.bincount(values.flatten(), minlength=256).tolist()
    first, second = (
        sum(value**power * count for value, count in enumerate(counts)) for power in (1, 2)
    )
    number = values.numel()
    return torch.tensor(first / number), torch.tensor(
        math.sqrt((number * second - first**2) / number**2)
    )  # quotients of whole numbers


@dataclass(frozen=True)
class Split:
    """Inputs ``[N, ...]`` and class indices ``[N]`` (int64)."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        """Count the samples."""
        return len(self.labels)

    def __getitem__(self, chosen: Tensor) -> Split:
        """Take the samples of a mask or of indices."""
        return Split(self.inputs[chosen], self.labels[chosen])


@dataclass(frozen=True)
class Dataset:
    """A data set, ready to train on.

    Attributes:
        source: ``"embedded"``, ``"local"`` or ``"hub"``.
        copy: which exact copy this is: a package version, the checksum of a file, or a revision.
        normalize: makes float inputs of bytes, batch by batch; changes nothing where the inputs are
            floats already.
        normalization: how the inputs are scaled, as :func:`study.data.load` was asked for.
        wrong_labels: share of the training samples whose label is not the one that the data set
            comes with.
    """

    name: str
    train: Split
    valid: Split | None
    test: Split
    class_names: tuple[str, ...]
    source: str
    copy: str
    normalize: Normalizer = Normalizer(torch.tensor(0.0), torch.tensor(1.0))
    wrong_labels: float = 0.0
    normalization: str = "none"

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    def flat(self) -> Dataset:
        """Flatten the inputs, which must be floats, to ``[N, D]``."""
        return self.with_inputs(lambda inputs: inputs.flatten(1))

    def with_channels(self) -> Dataset:
        """Give images the shape ``[N, C, H, W]``; grey ones get one channel."""
        shape = self.train.inputs.shape
        if len(shape) not in (3, 4):
            raise ValueError(
                f"only images [N, H, W] or [N, C, H, W] have channels; got inputs of shape "
                f"{list(shape)}"
            )
        return self.with_inputs(lambda images: images[:, None]) if len(shape) == 3 else self

    def with_inputs(self, change: Callable[[Tensor], Tensor]) -> Dataset:
        """Change the inputs of every split."""
        return self._each(lambda split: Split(change(split.inputs), split.labels))

    def to(self, device: torch.device | str) -> Dataset:
        """Move the data set to a device."""
        moved = self._each(lambda split: Split(split.inputs.to(device), split.labels.to(device)))
        return replace(moved, normalize=self.normalize.to(device))

    def _each(self, change: Callable[[Split], Split]) -> Dataset:
        valid = None if self.valid is None else change(self.valid)
        return replace(self, train=change(self.train), valid=valid, test=change(self.test))
