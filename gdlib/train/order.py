"""The order of the samples in an epoch: a function of a seed and the epoch, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

# what tells the key of an order from others of a seed, such as those of an augmentation
_ORDERS = 1 << 32


def batch_order(seed: int, epoch: int, samples: int) -> Tensor:
    """Draw the order of the samples in an epoch, ``[N]``: a permutation.

    It depends on the seed and the epoch only.

    Args:
        seed: in [0, 2**31).
        epoch: in [0, 2**20).
        samples: N.

    Raises:
        ValueError: for a seed or an epoch outside its bounds.

    Example:
        >>> sorted(batch_order(seed=0, epoch=1, samples=4).tolist())
        [0, 1, 2, 3]
    """
    return batch_orders([seed], epoch, [samples])[0]


def batch_orders(seeds: Sequence[int], epoch: int, samples: Sequence[int]) -> Tensor:
    """Return the first n of :func:`batch_order` for each seed and number of samples, ``[S, n]``.

    n is the smallest of these numbers. PyTorch's generator keeps 32 bits of a seed, which hold an
    epoch below 2**20 and a seed below 2**12. Two larger seeds would share their orders, so those
    come from NumPy's Philox generator, whose key holds both whole.

    Args:
        seeds: S seeds, each in [0, 2**31).
        epoch: in [0, 2**20).
        samples: a number of samples for each seed.

    Raises:
        ValueError: for a seed or an epoch outside its bounds.

    Example:
        >>> batch_orders([0, 1], epoch=1, samples=[4, 3]).shape
        torch.Size([2, 3])
    """
    generator = torch.Generator()
    length = min(samples)
    orders = []
    for seed, size in zip(seeds, samples, strict=True):
        if not (0 <= seed < 2**31 and 0 <= epoch < 2**20):
            raise ValueError(
                f"a batch order needs a seed in [0, {2**31}) and an epoch in [0, {2**20}); "
                f"got seed {seed}, epoch {epoch}"
            )
        if seed < 2**12:
            order = torch.randperm(size, generator=generator.manual_seed((int(seed) << 20) + epoch))
        else:
            key = np.array([_ORDERS + seed, epoch], dtype=np.uint64)
            permutation = np.random.Generator(np.random.Philox(key=key)).permutation(size)
            order = torch.from_numpy(permutation)
        orders.append(order[:length])
    return torch.stack(orders)
