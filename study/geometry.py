"""Distances and angles within and between the classes in feature space, in float64.

Features have the shape ``[N, D]``, or ``[R, N, D]`` with a leading run axis; the runs share their labels ``[N]``. Distances depend on the
scale of the features, which a network is free to choose: compare runs by :attr:`ClassGeometry.ratio` or by angles, which are about the
origin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

__all__ = ["ClassGeometry", "angles_between", "class_geometry"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClassGeometry:
    """Distances of K classes.

    Attributes:
        centres: mean feature of each class, ``[..., K, D]``.
        intra_distance: mean distance of the samples of a class to its centre, ``[..., K]``.
        inter_distance: distances between the centres, ``[..., K, K]``.
    """

    centres: FloatArray
    intra_distance: FloatArray
    inter_distance: FloatArray

    @property
    def mean_intra_distance(self) -> FloatArray:
        """Mean of ``intra_distance`` over the classes ``[...]``."""
        return self.intra_distance.mean(axis=-1)

    @property
    def mean_inter_distance(self) -> FloatArray:
        """Mean distance between the centres of two different classes ``[...]``."""
        return _pairs(self.inter_distance).mean(axis=-1)

    @property
    def minimum_inter_distance(self) -> FloatArray:
        """Distance between the two nearest centres ``[...]``."""
        return _pairs(self.inter_distance).min(axis=-1)

    @property
    def ratio(self) -> FloatArray:
        """Mean intra-class over mean inter-class distance ``[...]``: free of scale, small when classes are tight and apart."""
        return self.mean_intra_distance / self.mean_inter_distance

    @property
    def mean_inter_angle(self) -> FloatArray:
        """Mean angle between the centres of two different classes ``[...]``, in radians; NaN if a centre is 0 (ArcGrad's C-Inter)."""
        return _pairs(angles_between(self.centres, self.centres)).mean(axis=-1)


def class_geometry(features: ArrayLike | Tensor, labels: ArrayLike | Tensor, n_classes: int | None = None) -> ClassGeometry:
    """Measure distances within and between classes; every class from 0 to the largest label, or to ``n_classes`` - 1, needs a sample.

    Example:
        Two samples at distance 1 from their centre (0, 0), and a class of one sample at (3, 4):

        >>> geometry = class_geometry([[-1.0, 0.0], [1.0, 0.0], [3.0, 4.0]], [0, 0, 1])
        >>> geometry.intra_distance.tolist(), geometry.inter_distance.tolist()
        ([1.0, 0.0], [[0.0, 5.0], [5.0, 0.0]])
        >>> float(geometry.ratio)                                           # (1 + 0) / 2 : 5
        0.1
    """
    x, y = _float64(features), np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if y.shape != (x.shape[-2],):
        raise ValueError(f"labels must have the shape [{x.shape[-2]}] to go with features {list(x.shape)}, not {list(y.shape)}")
    count = np.bincount(y, minlength=n_classes or 0)
    if len(count) < 2 or not count.all():
        raise ValueError(f"at least two classes, each with a sample, expected; the classes have {count.tolist()}")
    classes = range(len(count))
    centres = np.stack([x[..., y == c, :].mean(axis=-2) for c in classes], axis=-2)
    apart = np.linalg.norm(x - centres[..., y, :], axis=-1)
    return ClassGeometry(
        centres=centres,
        intra_distance=np.stack([apart[..., y == c].mean(axis=-1) for c in classes], axis=-1),
        inter_distance=np.linalg.norm(centres[..., :, None, :] - centres[..., None, :, :], axis=-1),
    )


def angles_between(a: ArrayLike | Tensor, b: ArrayLike | Tensor) -> FloatArray:
    r"""Angles in radians between every vector of ``a`` ``[..., I, D]`` and of ``b`` ``[..., J, D]``; NaN for a zero vector.

    Computed as :math:`2 \operatorname{atan2}\bigl(\|u - v\|, \|u + v\|\bigr)` of the unit vectors, which is accurate near 0 and π, where
    :math:`\arccos(u \cdot v)` is not (W. Kahan, *How futile are mindless assessments of roundoff in floating-point computation?*, 2006,
    section 12).

    Example:
        >>> np.degrees(angles_between([[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])).tolist()
        [[0.0, 90.0, 180.0]]
    """
    with np.errstate(invalid="ignore"):
        u, v = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True) for vectors in (_float64(a), _float64(b)))
    u, v = u[..., :, None, :], v[..., None, :, :]
    return 2 * np.arctan2(np.linalg.norm(u - v, axis=-1), np.linalg.norm(u + v, axis=-1))


def _float64(values: ArrayLike | Tensor) -> FloatArray:
    return np.asarray(values.detach().cpu().double() if isinstance(values, Tensor) else values, dtype=np.float64)


def _pairs(matrix: FloatArray) -> FloatArray:
    """The entries beside the diagonal, ``[..., K, K]`` to ``[..., K (K - 1)]``."""
    return matrix[..., ~np.eye(matrix.shape[-1], dtype=bool)]
