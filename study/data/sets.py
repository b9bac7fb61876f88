"""Loaded data sets: splits of inputs and labels, and their origin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from study.data.normalization import Normalizer

__all__ = ["Dataset", "Split"]


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
