"""Draws of training samples: held out, kept, kept with a long tail, and mislabelled."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["balanced", "long_tailed", "proportional", "with_label_noise"]


def proportional(labels: NDArray[np.int64], size: int, seed: int) -> NDArray[np.bool_]:
    """Mark ``size`` of N samples, each class in proportion to its share as far as whole samples allow."""
    if not 0 <= size < len(labels):
        raise ValueError(f"validation_size must lie in [0, {len(labels)}), the number of training samples; got {size}")
    # Not scikit-learn's train_test_split, which holds out other samples than those of the committed records.
    order = np.random.default_rng(seed).permutation(len(labels))
    exact = np.bincount(labels) * (size / len(labels))
    quota = np.floor(exact).astype(int)
    quota[np.argsort(quota - exact, kind="stable")[: size - quota.sum()]] += 1  # largest remainders get the samples that are left over
    return _first_of_each_class(labels, order, quota)


def balanced(labels: NDArray[np.int64], size: int, seed: int, classes: int) -> NDArray[np.bool_]:
    """Mark ``size`` samples, the same number of each class; where that is no whole number, some classes have one more.

    Subsets of one seed are nested: a smaller one is part of a larger one.
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


def long_tailed(labels: NDArray[np.int64], imbalance: float, seed: int, classes: int) -> NDArray[np.bool_]:
    r"""Mark fewer samples of each class than of the one before: class c of C keeps :math:`\lfloor n\, \rho^{-c/(C-1)} \rfloor`.

    n is the size of the smallest class, so that every class can give its share, and ρ ≥ 1 the imbalance, 10 or 100 as a rule (Y. Cui, M.
    Jia, T.-Y. Lin, Y. Song, S. Belongie, *Class-balanced loss based on effective number of samples*, CVPR 2019, section 5.1). Subsets of
    one seed are nested: one of a larger imbalance is part of one of a smaller imbalance.
    """
    smallest = int(np.bincount(labels, minlength=classes).min())
    if classes < 2 or not 1 <= imbalance <= smallest:
        raise ValueError(f"imbalance must lie in [1, {smallest}], the size of the smallest of two classes or more; got {imbalance}")
    shares = float(imbalance) ** (-np.arange(classes) / (classes - 1))
    quota = np.floor(smallest * shares + 1e-9).astype(int)  # n/ρ may come out a rounding error below a whole number
    return _first_of_each_class(labels, np.random.default_rng(seed).permutation(len(labels)), quota)


def with_label_noise(labels: Tensor, share: float, *, classes: int, seed: int = 0) -> Tensor:
    """Make a share of the labels wrong: exactly so many samples get one of the other classes, all equally likely (LM, section 4.2).

    Noise of one seed is nested: a label that is wrong with a smaller share is wrong, in the same way, with a larger one.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share must lie in [0, 1); got {share!r}")
    if classes < 2:
        raise ValueError(f"wrong labels need at least two classes; got {classes}")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    shift = torch.randint(1, classes, (len(labels),), generator=generator)
    wrong = order[: round(share * len(labels))].to(labels.device)
    noisy = labels.clone()
    noisy[wrong] = (labels[wrong] + shift.to(labels.device)[wrong]) % classes
    return noisy


def _first_of_each_class(labels: NDArray[np.int64], order: NDArray[np.int64], quota: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = np.zeros(len(labels), dtype=bool)
    for label, number in enumerate(quota):
        mask[order[labels[order] == label][:number]] = True
    return mask
