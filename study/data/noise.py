"""Wrong labels, made on purpose."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["with_label_noise"]


def with_label_noise(labels: Tensor, share: float, *, classes: int, seed: int = 0) -> Tensor:
    """Labels of which a share is wrong: exactly so many samples, each with one of the other classes, all equally likely.

    Noise of one seed is nested: what is wrong with a smaller share is wrong, in the same way, with a larger one.

    Args:
        labels: class indices ``[N]``.
        share: of the samples, in [0, 1).
        classes: C >= 2.
        seed: seed of the draw.

    Returns:
        New labels ``[N]``.

    Raises:
        ValueError: for a share outside of [0, 1) and for fewer than two classes.

    Example:
        >>> noisy = with_label_noise(torch.zeros(10, dtype=torch.long), 0.3, classes=3)
        >>> int((noisy != 0).sum()), int(noisy.max()) <= 2
        (3, True)

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, section 4.2.
    """
    if not 0 <= share < 1:
        raise ValueError(f"share must lie in [0, 1); got {share!r}")
    if classes < 2:
        raise ValueError(f"wrong labels need at least two classes; got {classes}")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    shift = torch.randint(1, classes, (len(labels),), generator=generator)
    chosen = order[: round(share * len(labels))].to(labels.device)
    noisy = labels.clone()
    noisy[chosen] = (labels[chosen] + shift.to(labels.device)[chosen]) % classes
    return noisy
