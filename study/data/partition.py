"""Folds of a cross-validation, and samples that must not be torn apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["duplicate_groups", "folds"]


def folds(
    labels: Tensor | Sequence[int], n_folds: int = 10, seed: int = 0, stratified: bool = True, groups: Tensor | Sequence[int] | None = None
) -> Tensor:
    """Deal the samples out to the folds of a cross-validation, at random; returns the fold of each, ``[N]``, from 0.

    Without groups, the sizes of two folds differ by one at most; stratified, so do the numbers of each class in two folds. With groups,
    whose samples go into one fold (see :func:`duplicate_groups`), the largest are dealt out first, each to the fold that has the fewest of
    its classes so far (or the fewest samples, if not stratified), which makes the folds nearly even.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
        >>> fold = folds(labels, n_folds=4, seed=0)
        >>> [sorted(labels[fold == index].tolist()) for index in range(4)]
        [[0, 1], [0, 1], [0, 1], [0, 1]]
    """
    classes = np.unique(np.asarray(labels), return_inverse=True)[1].reshape(-1)
    grouping = np.arange(len(classes)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if len(grouping) != len(classes):
        raise ValueError(f"groups must have one number for each of the {len(classes)} samples; got {len(grouping)}")
    dealt = len(np.unique(grouping))
    if not 2 <= n_folds <= dealt:
        raise ValueError(f"n_folds must lie in [2, {dealt}], the number of {'samples' if groups is None else 'groups'}; got {n_folds}")
    # Not scikit-learn's splitters: for every UCI set their folds differ from those that the committed records were measured on.
    generator = np.random.default_rng(seed)
    if not stratified:
        classes = np.zeros_like(classes)
    if groups is None:
        return torch.from_numpy(_dealt_one_by_one(classes, n_folds, generator))
    return torch.from_numpy(_dealt_by_group(classes, grouping, n_folds, generator))


def duplicate_groups(features: Tensor, labels: Tensor) -> Tensor:
    """Number the samples so that those with equal features ``[N, D]`` and labels share a number, in the order of their first sample.

    As ``groups`` of :func:`folds` the numbers keep a row that occurs twice from being trained on and tested on.
    """
    rows = np.column_stack([features.double().numpy(), labels.numpy()])
    _, first, group = np.unique(rows + 0.0, axis=0, return_index=True, return_inverse=True)  # + 0.0: minus zero is zero
    return torch.from_numpy(np.argsort(np.argsort(first))[group.reshape(-1)])


def _dealt_one_by_one(classes: NDArray[np.int64], n_folds: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Like cards: the samples class by class, in random order, to one fold after the other."""
    order = generator.permutation(len(classes))
    rank = generator.permutation(classes.max() + 1)
    order = order[np.argsort(rank[classes[order]], kind="stable")]
    fold = np.empty(len(classes), dtype=np.int64)
    fold[order] = generator.permutation(n_folds)[np.arange(len(classes)) % n_folds]
    return fold


def _dealt_by_group(
    classes: NDArray[np.int64], groups: NDArray[np.int64], n_folds: int, generator: np.random.Generator
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
