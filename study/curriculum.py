"""Which samples are learnt when: the confidence of single training samples through the epochs.

The confidence of a sample is the probability :math:`p_c` of its true class.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

GROUPS = 5
LEARNT = 0.5
SINGLE_SAMPLES = 12


def choose(samples: int, count: int) -> Tensor:
    """Choose ``count`` of the samples in ascending order: always the same ones, drawn with seed 0."""
    if count < GROUPS:
        raise ValueError(f"at least {GROUPS} samples must be followed, one for each group; got {count}")
    return torch.randperm(samples, generator=torch.Generator().manual_seed(0))[:count].sort().values


def true_class_probability(logits: Tensor, labels: Tensor) -> Tensor:
    """:math:`p_c` ``[R, N]`` from logits ``[R, N, C]`` and class indices ``[N]``."""
    index = labels.expand(len(logits), -1).unsqueeze(2)
    return torch.softmax(logits, 2).gather(2, index).squeeze(2)


def epoch_learnt(confidences: Tensor) -> Tensor:
    """Find the first epoch after which the confidence exceeds 0.5, from ``[..., E, N]``; E for a sample that never does.

    Example:
        >>> epoch_learnt(torch.tensor([[0.1, 0.2], [0.6, 0.3], [0.9, 0.4]])).tolist()
        [1, 3]
    """
    learnt = confidences > LEARNT
    return torch.where(learnt.any(-2), learnt.to(torch.int8).argmax(-2), confidences.shape[-2])


def difficulty_groups(final_confidence: Tensor) -> Tensor:
    """Cut samples into five groups of (nearly) equal size by their last confidence ``[N]``, from 0, the hardest.

    Example:
        >>> difficulty_groups(torch.tensor([0.9, 0.1, 0.5, 0.7, 0.3])).tolist()
        [4, 0, 2, 3, 1]
    """
    rank = final_confidence.argsort(stable=True).argsort()
    return rank * GROUPS // len(final_confidence)


def summaries(confidences: Tensor, seeds: Sequence[int], betas: Sequence[float]) -> list[dict[str, Any]]:
    """Summarise the confidences of a stack ``[R, E, N]``, after 0 to E - 1 epochs, for the records of its runs.

    Samples are grouped by the run's own last confidence, and by that of the reference run: of the same seed, with β nearest to 1. The
    ``single_confidence`` is that of twelve samples, evenly spaced on a logarithmic scale of their rank in difficulty in the reference
    run, the hardest first. ``epoch_learnt_counts`` are the samples learnt after 0, 1, … epochs, and never.
    """
    _, epochs, samples = confidences.shape
    ranks = torch.logspace(0, math.log10(samples), SINGLE_SAMPLES, dtype=torch.float64).round().long() - 1
    kept = []
    for seed, values, learnt in zip(seeds, confidences, epoch_learnt(confidences), strict=True):
        reference = min((run for run, other in enumerate(seeds) if other == seed), key=lambda run: abs(math.log(betas[run])))
        own, shared = difficulty_groups(values[-1]), difficulty_groups(confidences[reference, -1])
        single = confidences[reference, -1].argsort(stable=True)[ranks]
        kept.append(
            {
                "group_confidence": _group_means(values, own),
                "reference_group_confidence": _group_means(values, shared),
                "single_confidence": _rounded(values[:, single].T),
                "epoch_learnt_counts": torch.bincount(learnt, minlength=epochs + 1).tolist(),
                "never_learnt": (learnt == epochs).double().mean().item(),
                "median_epoch_learnt": learnt.double().median().item(),
                "group_epoch_learnt": [learnt[own == group].double().mean().item() for group in range(GROUPS)],
            }
        )
    return kept


def _group_means(values: Tensor, groups: Tensor) -> list[list[float]]:
    """Mean confidence of each group after each epoch, from ``[E, N]``: five lists of E."""
    return _rounded(torch.stack([values[:, groups == group].double().mean(1) for group in range(GROUPS)]))


def _rounded(values: Tensor) -> list[list[float]]:
    return [[round(value, 4) for value in row] for row in values.tolist()]
