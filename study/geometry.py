"""Distances and angles within and between the classes in feature space, in float64.

Features have the shape ``[N, D]``, or ``[R, N, D]`` with a leading run axis; the runs share their labels ``[N]``. Distances depend on the
scale of the features, which a network is free to choose: compare runs by :attr:`ClassGeometry.ratio` or by angles, which are about the
origin.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ClassGeometry:
    """Distances of K classes.

    Attributes:
        centres: mean feature of each class, ``[..., K, D]``.
        intra_distance: mean distance of the samples of a class to its centre, ``[..., K]``.
        inter_distance: distances between the centres, ``[..., K, K]``.
    """

    centres: Tensor
    intra_distance: Tensor
    inter_distance: Tensor

    @property
    def mean_intra_distance(self) -> Tensor:
        """Mean of ``intra_distance`` over the classes ``[...]``."""
        return self.intra_distance.mean(-1)

    @property
    def mean_inter_distance(self) -> Tensor:
        """Mean distance between the centres of two different classes ``[...]``."""
        return _pairs(self.inter_distance).mean(-1)

    @property
    def minimum_inter_distance(self) -> Tensor:
        """Distance between the two nearest centres ``[...]``."""
        return _pairs(self.inter_distance).amin(-1)

    @property
    def ratio(self) -> Tensor:
        """Mean intra-class over mean inter-class distance ``[...]``: free of scale, small when classes are tight and apart."""
        return self.mean_intra_distance / self.mean_inter_distance

    @property
    def mean_inter_angle(self) -> Tensor:
        """Mean angle between the centres of two different classes ``[...]``, in radians; NaN if a centre is 0 (ArcGrad's C-Inter)."""
        return _pairs(angles_between(self.centres, self.centres)).mean(-1)


def class_geometry(features: Tensor, labels: Tensor, n_classes: int = 0) -> ClassGeometry:
    """Measure distances within and between classes; every class from 0 to the largest label, or to ``n_classes`` - 1, needs a sample.

    Example:
        Two samples at distance 1 from their centre (0, 0), and a class of one sample at (3, 4):

        >>> geometry = class_geometry(torch.tensor([[-1.0, 0.0], [1.0, 0.0], [3.0, 4.0]]), torch.tensor([0, 0, 1]))
        >>> geometry.intra_distance.tolist(), geometry.inter_distance.tolist()
        ([1.0, 0.0], [[0.0, 5.0], [5.0, 0.0]])
        >>> float(geometry.ratio)                                           # (1 + 0) / 2 : 5
        0.1
    """
    x = features.detach().double()
    if labels.shape != x.shape[-2:-1]:
        raise ValueError(f"labels must have the shape [{x.shape[-2]}] to go with features {list(x.shape)}, not {list(labels.shape)}")
    count = labels.bincount(minlength=n_classes)
    if len(count) < 2 or not count.all():
        raise ValueError(f"at least two classes, each with a sample, expected; the classes have {count.tolist()}")
    centres = torch.stack([x[..., labels == c, :].mean(-2) for c in range(len(count))], -2)
    apart = torch.linalg.norm(x - centres[..., labels, :], dim=-1)
    return ClassGeometry(
        centres=centres,
        intra_distance=torch.stack([apart[..., labels == c].mean(-1) for c in range(len(count))], -1),
        inter_distance=torch.linalg.norm(centres[..., :, None, :] - centres[..., None, :, :], dim=-1),
    )


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


def _pairs(matrix: Tensor) -> Tensor:
    """The entries beside the diagonal, ``[..., K, K]`` to ``[..., K (K - 1)]``."""
    return matrix[..., ~torch.eye(matrix.shape[-1], dtype=torch.bool, device=matrix.device)]
