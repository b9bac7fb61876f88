"""Draws of samples.

Samples are held out, kept, kept with a long tail, mislabelled (these with seed 0), or dealt out to
folds.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def proportional(labels: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    """Mark ``size`` of N samples, each class in proportion to its share.

    The share is kept as far as whole samples allow.
    """
    if not 0 <= size < len(labels):
        raise ValueError(
            f"validation_size must lie in [0, {len(labels)}), the number of training samples; got "
            f"{size}"
        )
    # Not scikit-learn's train_test_split, which holds out other samples than those of the committed
    # records.
    order = np.random.default_rng(0).permutation(len(labels))
    exact = np.bincount(labels) * (size / len(labels))
    quota = np.floor(exact).astype(int)
    quota[np.argsort(quota - exact, kind="stable")[: size - quota.sum()]] += (
        1  # largest remainders get the samples that are left over
    )
    return _first_of_each_class(labels, order, quota)


def balanced(labels: NDArray[np.int64], size: int, classes: int) -> NDArray[np.bool_]:
    """Mark ``size`` samples, the same number of each class.

    Where that is no whole number, some classes have one more.

    Subsets are nested: a smaller one is part of a larger one.
    """
    counts = np.bincount(labels, minlength=classes)
    largest = classes * int(counts.min())
    if not 0 < size <= largest:
        raise ValueError(
            f"subset must lie in [0, {largest}]: {classes} classes, the smallest with "
            f"{counts.min()} samples that are not held out; "
            f"got {size} (0 keeps all)"
        )
    generator = np.random.default_rng(0)
    order = generator.permutation(len(labels))
    quota = size // classes + (generator.permutation(classes) < size % classes)
    return _first_of_each_class(labels, order, quota)


def long_tailed(labels: NDArray[np.int64], imbalance: float, classes: int) -> NDArray[np.bool_]:
    r"""Mark fewer samples of each class than of the one before.

    Class c of C keeps :math:`\lfloor n\, \rho^{-c/(C-1)} \rfloor`.

    n is the size of the smallest class, so that every class can give its share, and ρ ≥ 1 the
    imbalance, 10 or 100 as a rule (Y. Cui, M. Jia, T.-Y. Lin, Y. Song, S. Belongie, *Class-balanced
    loss based on effective number of samples*, CVPR 2019, section 5.1). Subsets are nested: one of
    a larger imbalance is part of one of a smaller imbalance.
    """
    smallest = int(np.bincount(labels, minlength=classes).min())
    if classes < 2 or not 1 <= imbalance <= smallest:
        raise ValueError(
            f"imbalance must lie in [1, {smallest}], the size of the smallest of two classes or "
            f"more; got {imbalance}"
        )
    shares = float(imbalance) ** (-np.arange(classes) / (classes - 1))
    quota = np.floor(smallest * shares + 1e-9).astype(
        int
    )  # n/ρ may come out a rounding error below a whole number
    return _first_of_each_class(labels, np.random.default_rng(0).permutation(len(labels)), quota)


def with_label_noise(labels: Tensor, share: float, *, classes: int) -> Tensor:
    """Make a share of the labels wrong.

    Exactly so many samples get one of the other classes, all equally likely (LM, section 4.2).

    Noise is nested: a label that is wrong with a smaller share is wrong, in the same way, with a
    larger one.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share must lie in [0, 1); got {share!r}")
    if classes < 2:
        raise ValueError(f"wrong labels need at least two classes; got {classes}")
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(labels), generator=generator)
    shift = torch.randint(1, classes, (len(labels),), generator=generator)
    wrong = order[: round(share * len(labels))].to(labels.device)
    noisy = labels.clone()
    noisy[wrong] = (labels[wrong] + shift.to(labels.device)[wrong]) % classes
    return noisy


def _first_of_each_class(
    labels: NDArray[np.int64], order: NDArray[np.int64], quota: NDArray[np.int64]
) -> NDArray[np.bool_]:
    mask = np.zeros(len(labels), dtype=bool)
    for label, number in enumerate(quota):
        mask[order[labels[order] == label][:number]] = True
    return mask


def folds(
    labels: Tensor | Sequence[int],
    n_folds: int = 10,
    seed: int = 0,
    groups: Tensor | Sequence[int] | None = None,
) -> Tensor:
    """Deal the samples out to the folds of a cross-validation, at random.

    Returns the fold of each, ``[N]``, from 0.

    Without groups, the sizes of two folds differ by one at most, and so do the numbers of each
    class in two folds. With groups, whose samples go into one fold (see :func:`duplicate_groups`),
    the largest are dealt out first, each to the fold that has the fewest of its classes so far,
    which makes the folds nearly even.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
        >>> fold = folds(labels, n_folds=4, seed=0)
        >>> [sorted(labels[fold == index].tolist()) for index in range(4)]
        [[0, 1], [0, 1], [0, 1], [0, 1]]
    """
    classes = np.unique(np.asarray(labels), return_inverse=True)[1].reshape(-1)
    grouping = (
        np.arange(len(classes))
        if groups is None
        else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    )
    if len(grouping) != len(classes):
        raise ValueError(
            f"groups must have one number for each of the {len(classes)} samples; got "
            f"{len(grouping)}"
        )
    dealt = len(np.unique(grouping))
    if not 2 <= n_folds <= dealt:
        raise ValueError(
            f"n_folds must lie in [2, {dealt}], the number of "
            f"{'samples' if groups is None else 'groups'}; got {n_folds}"
        )
    # Not scikit-learn's splitters: for every UCI set their folds differ from those that the
    # committed records were measured on.
    generator = np.random.default_rng(seed)
    if groups is None:
        return torch.from_numpy(_dealt_one_by_one(classes, n_folds, generator))
    return torch.from_numpy(_dealt_by_group(classes, grouping, n_folds, generator))


def duplicate_groups(features: Tensor, labels: Tensor) -> Tensor:
    """Give numbers to samples; those with equal features ``[N, D]`` and labels share one.

    The numbers are in the order of the first sample of each.

    As ``groups`` of :func:`folds` the numbers keep a row that occurs twice from being trained on
    and tested on.
    """
    rows = np.column_stack([features.double().numpy(), labels.numpy()])
    _, first, group = np.unique(
        rows + 0.0, axis=0, return_index=True, return_inverse=True
    )  # + 0.0: minus zero is zero
    return torch.from_numpy(np.argsort(np.argsort(first))[group.reshape(-1)])


def _dealt_one_by_one(
    classes: NDArray[np.int64], n_folds: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Deal the samples class by class, in random order, to one fold after the other."""
    order = generator.permutation(len(classes))
    rank = generator.permutation(classes.max() + 1)
    order = order[np.argsort(rank[classes[order]], kind="stable")]
    fold = np.empty(len(classes), dtype=np.int64)
    fold[order] = generator.permutation(n_folds)[np.arange(len(classes)) % n_folds]
    return fold


def _dealt_by_group(
    classes: NDArray[np.int64],
    groups: NDArray[np.int64],
    n_folds: int,
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    counts = np.zeros((groups.max() + 1, classes.max() + 1))  # samples of each class in each group
    np.add.at(counts, (groups, classes), 1)
    order = generator.permutation(len(counts))
    order = order[np.argsort(-counts.sum(1)[order], kind="stable")]
    shares = counts / counts.sum(0)
    taken = np.zeros((n_folds, counts.shape[1]))
    size = np.zeros(n_folds)
    fold_of_group = np.empty(len(counts), dtype=np.int64)
    for group in order:
        # the fold with the fewest of this group's classes, then the smallest, then any
        chosen = np.lexsort((generator.random(n_folds), size, (taken @ shares[group]).round(9)))[0]
        fold_of_group[group] = chosen
        taken[chosen] += counts[group]
        size[chosen] += counts[group].sum()
    return fold_of_group[groups]
