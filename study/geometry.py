"""Distances and angles within and between the classes in feature space, in float64.

Features have the shape ``[N, D]``, or ``[R, N, D]`` with a leading run axis; the runs share their labels ``[N]``. Distances depend on the
scale of the features, which a network is free to choose: compare runs by quotients of them or by angles, which are about the origin.
"""

import torch
from torch import Tensor


def class_centres(features: Tensor, labels: Tensor, n_classes: int = 0) -> Tensor:
    """Average the features of each class, ``[..., K, D]``; every one from 0 to the largest label, or to ``n_classes`` - 1, needs a sample.

    Example:
        >>> class_centres(torch.tensor([[-1.0, 0.0], [1.0, 0.0], [3.0, 4.0]]), torch.tensor([0, 0, 1])).tolist()
        [[0.0, 0.0], [3.0, 4.0]]
    """
    if labels.shape != features.shape[-2:-1]:
        raise ValueError(
            f"labels must have the shape [{features.shape[-2]}] to go with features {list(features.shape)}, not {list(labels.shape)}"
        )
    count = labels.bincount(minlength=n_classes)
    if len(count) < 2 or not count.all():
        raise ValueError(f"at least two classes, each with a sample, expected; the classes have {count.tolist()}")
    x = features.detach().double()
    return torch.stack([x[..., labels == c, :].mean(-2) for c in range(len(count))], -2)


def distances(features: Tensor, labels: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Measure the mean distance of the samples of a class to its centre ``[..., K]``, and those between two centres ``[..., K (K - 1)]``.

    Example:
        Two samples at distance 1 from their centre (0, 0), and a class of one sample at (3, 4):

        >>> x, labels = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [3.0, 4.0]]), torch.tensor([0, 0, 1])
        >>> [values.tolist() for values in distances(x, labels, class_centres(x, labels))]
        [[1.0, 0.0], [5.0, 5.0]]
    """
    apart = torch.linalg.norm(features.detach().double() - centres[..., labels, :], dim=-1)
    intra = torch.stack([apart[..., labels == c].mean(-1) for c in range(centres.shape[-2])], -1)
    return intra, pairs(torch.linalg.norm(centres[..., :, None, :] - centres[..., None, :, :], dim=-1))


def angles_between(a: Tensor, b: Tensor) -> Tensor:
    r"""Angles in radians between every vector of ``a`` ``[..., I, D]`` and of ``b`` ``[..., J, D]``; NaN for a zero vector.

    Computed as :math:`2 \operatorname{atan2}\bigl(\|u - v\|, \|u + v\|\bigr)` of the unit vectors, which is accurate near 0 and π, where
    :math:`\arccos(u \cdot v)` is not (W. Kahan, *How futile are mindless assessments of roundoff in floating-point computation?*, 2006,
    section 12).

    Example:
        >>> angles_between(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])).rad2deg().tolist()
        [[0.0, 90.0, 180.0]]
    """
    u, v = (vectors.double() / torch.linalg.norm(vectors.double(), dim=-1, keepdim=True) for vectors in (a, b))
    u, v = u[..., :, None, :], v[..., None, :, :]
    return 2 * torch.atan2(torch.linalg.norm(u - v, dim=-1), torch.linalg.norm(u + v, dim=-1))


def pairs(matrix: Tensor) -> Tensor:
    """Take the entries beside the diagonal, ``[..., K, K]`` to ``[..., K (K - 1)]``."""
    return matrix[..., ~torch.eye(matrix.shape[-1], dtype=torch.bool, device=matrix.device)]
