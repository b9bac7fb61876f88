"""Which training samples are held out, and which are kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["balanced", "proportional"]


def proportional(labels: NDArray[np.int64], size: int, seed: int) -> NDArray[np.bool_]:
    """Mark ``size`` samples, each class in proportion to its share as far as whole samples allow.

    Args:
        labels: class indices ``[N]``.
        size: how many samples, from 0 to N − 1.
        seed: seed of the draw.

    Raises:
        ValueError: for a size out of this range.

    Example:
        >>> proportional(np.array([0, 0, 0, 0, 1, 1]), size=3, seed=0).astype(int).tolist()
        [0, 0, 1, 1, 0, 1]
    """
    if not 0 <= size < len(labels):
        raise ValueError(f"validation_size must lie in [0, {len(labels)}), the number of training samples; got {size}")
    order = np.random.default_rng(seed).permutation(len(labels))
    counts = np.bincount(labels)
    exact = counts * (size / len(labels))
    quota = np.floor(exact).astype(int)
    quota[np.argsort(quota - exact, kind="stable")[: size - quota.sum()]] += 1  # largest remainders get the samples that are left over
    return _first_of_each_class(labels, order, quota)


def balanced(labels: NDArray[np.int64], size: int, seed: int, classes: int) -> NDArray[np.bool_]:
    """Mark ``size`` samples, the same number of each class; where that is no whole number, some classes have one more.

    Subsets of one seed are nested: a smaller one is part of a larger one.

    Args:
        labels: class indices ``[N]``.
        size: how many samples; at most the number of classes times the size of the smallest class.
        seed: seed of the draw.
        classes: the number of classes.

    Raises:
        ValueError: for a size that no balanced subset can have.

    Example:
        >>> balanced(np.array([0, 0, 0, 0, 1, 1]), size=2, seed=0, classes=2).astype(int).tolist()
        [0, 0, 0, 1, 0, 1]
    """
    counts = np.bincount(labels, minlength=classes)
    largest = classes * int(counts.min())
    if not 0 < size <= largest:
        raise ValueError(
            f"subset must lie in [0, {largest}]: {classes} classes, the smallest with {counts.min()} samples that are not held out; "
            f"got {size} (0 keeps all)"
        )
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(labels))
    quota = size // classes + (generator.permutation(classes) < size % classes)
    return _first_of_each_class(labels, order, quota)


def _first_of_each_class(labels: NDArray[np.int64], order: NDArray[np.int64], quota: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = np.zeros(len(labels), dtype=bool)
    for label, number in enumerate(quota):
        mask[order[labels[order] == label][:number]] = True
    return mask
