r"""Where the classes lie in feature space: distances and angles within and between them.

Features have the shape ``[N, D]``, or ``[R, N, D]`` with a leading run axis; labels have the shape ``[N]`` and are shared by the runs.
Results keep the leading axes. Everything is computed in float64 with numpy, from arrays or tensors on any device.

Distances depend on the scale of the features, which a network is free to choose. To compare runs, use :attr:`ClassGeometry.ratio` or the
angles; the angles are about the origin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

__all__ = ["ClassGeometry", "angles_between", "centre_margins", "class_centres", "class_geometry"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClassGeometry:
    """Distances and angles within and between K classes. Leading axes, such as runs, come first everywhere.

    Attributes:
        centres: mean feature of each class, shape ``[..., K, D]``.
        count: samples of each class, shape ``[K]``.
        intra_distance: mean Euclidean distance of the samples of a class to its centre, shape ``[..., K]``.
        inter_distance: Euclidean distances between the centres, shape ``[..., K, K]``, 0 on the diagonal.
        intra_angle: mean angle between the samples of a class and its centre, in radians, shape ``[..., K]``.
        inter_angle: angles between the centres, in radians, shape ``[..., K, K]``, 0 on the diagonal.
    """

    centres: FloatArray
    count: IntArray
    intra_distance: FloatArray
    inter_distance: FloatArray
    intra_angle: FloatArray
    inter_angle: FloatArray

    @property
    def mean_intra_distance(self) -> FloatArray:
        """Mean of ``intra_distance`` over the classes, shape ``[...]``."""
        return self.intra_distance.mean(axis=-1)

    @property
    def mean_inter_distance(self) -> FloatArray:
        """Mean distance between the centres of two different classes, shape ``[...]``."""
        return _mean_of_pairs(self.inter_distance)

    @property
    def nearest_inter_distance(self) -> FloatArray:
        """Distance from each centre to the nearest other one, shape ``[..., K]``."""
        return _least_of_pairs(self.inter_distance)

    @property
    def minimum_inter_distance(self) -> FloatArray:
        """Distance between the two nearest centres, shape ``[...]``."""
        return self.nearest_inter_distance.min(axis=-1)

    @property
    def ratio(self) -> FloatArray:
        """Mean intra-class over mean inter-class distance, shape ``[...]``: free of scale, small when classes are tight and apart."""
        return self.mean_intra_distance / self.mean_inter_distance

    @property
    def mean_intra_angle(self) -> FloatArray:
        """Mean of ``intra_angle`` over the classes in radians, shape ``[...]``."""
        return self.intra_angle.mean(axis=-1)

    @property
    def mean_inter_angle(self) -> FloatArray:
        """Mean angle between the centres of two different classes in radians, shape ``[...]``."""
        return _mean_of_pairs(self.inter_angle)

    @property
    def nearest_inter_angle(self) -> FloatArray:
        """Angle from each centre to the nearest other one in radians, shape ``[..., K]``."""
        return _least_of_pairs(self.inter_angle)

    @property
    def minimum_inter_angle(self) -> FloatArray:
        """Angle between the two nearest centres in radians, shape ``[...]``."""
        return self.nearest_inter_angle.min(axis=-1)


def class_centres(features: ArrayLike | Tensor, labels: ArrayLike | Tensor, n_classes: int | None = None) -> FloatArray:
    r"""The mean feature of each class, :math:`\mu_k = \frac{1}{n_k} \sum_{y_i = k} x_i`.

    Args:
        features: shape ``[N, D]``, or with leading axes ``[R, N, D]``.
        labels: class indices, integers, shape ``[N]``.
        n_classes: K; by default the largest label plus one.

    Returns:
        Centres, float64, shape ``[..., K, D]``.

    Raises:
        ValueError: if there are no samples, shapes do not fit, a feature is NaN or infinite, a label is no integer in [0, K), or a class
            has no sample.

    Example:
        >>> class_centres([[0.0, 0.0], [2.0, 0.0], [5.0, 4.0]], [0, 0, 1]).tolist()
        [[1.0, 0.0], [5.0, 4.0]]
    """
    x, y, k = _checked(features, labels, n_classes)
    return _class_means(x, y, k)


def class_geometry(features: ArrayLike | Tensor, labels: ArrayLike | Tensor, n_classes: int | None = None) -> ClassGeometry:
    r"""Distances and angles within and between classes.

    With the centres :math:`\mu_k` and :math:`\angle(a, b) = \arccos \frac{a \cdot b}{\|a\| \|b\|}`,

    .. math::

        \text{intra}_k = \frac{1}{n_k} \sum_{y_i = k} \|x_i - \mu_k\|, \quad \text{inter}_{kl} = \|\mu_k - \mu_l\|, \quad
        \text{intra}^\angle_k = \frac{1}{n_k} \sum_{y_i = k} \angle(x_i, \mu_k), \quad \text{inter}^\angle_{kl} = \angle(\mu_k, \mu_l).

    Args:
        features: shape ``[N, D]``, or with leading axes ``[R, N, D]``.
        labels: class indices, integers, shape ``[N]``.
        n_classes: K ≥ 2; by default the largest label plus one.

    Returns:
        A :class:`ClassGeometry`. An angle with a zero vector is NaN.

    Raises:
        ValueError: as :func:`class_centres`, and for fewer than two classes.

    Example:
        Two samples at distance 1 from their centre (0, 0), and a class of one sample at (3, 4):

        >>> geometry = class_geometry([[-1.0, 0.0], [1.0, 0.0], [3.0, 4.0]], [0, 0, 1])
        >>> geometry.intra_distance.tolist(), geometry.inter_distance.tolist()
        ([1.0, 0.0], [[0.0, 5.0], [5.0, 0.0]])
        >>> float(geometry.ratio)                                           # (1 + 0) / 2 : 5
        0.1
        >>> angles = class_geometry([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], [0, 0, 1])
        >>> angles.intra_angle.tolist(), float(np.degrees(angles.minimum_inter_angle))
        ([0.0, 0.0], 90.0)

    References:
        Claim E1 (GD-1 and GD-2, Figure 1) speaks of the distances; ArcGrad, Table VI, of the angles (its C-Inter is ``mean_inter_angle``).
    """
    x, y, k = _checked(features, labels, n_classes)
    if k < 2:
        raise ValueError("geometry between classes needs at least two classes")
    centres = _class_means(x, y, k)
    own = centres[..., y, :]  # (..., N, D)
    return ClassGeometry(
        centres=centres,
        count=np.bincount(y, minlength=k).astype(np.int64),
        intra_distance=_class_means(np.linalg.norm(x - own, axis=-1)[..., None], y, k)[..., 0],
        inter_distance=_distances(centres, centres),
        intra_angle=_class_means(_paired_angles(x, own)[..., None], y, k)[..., 0],
        inter_angle=_without_diagonal(angles_between(centres, centres)),
    )


def centre_margins(features: ArrayLike | Tensor, labels: ArrayLike | Tensor, n_classes: int | None = None) -> FloatArray:
    r"""How much nearer each sample is to its own class centre than to the nearest other one.

    .. math:: m_i = \min_{k \ne y_i} \|x_i - \mu_k\| - \|x_i - \mu_{y_i}\|

    A negative margin is a sample that the nearest-centre rule gets wrong: the "hard negative samples" of claim E1.

    Args:
        features: shape ``[N, D]``, or with leading axes ``[R, N, D]``.
        labels: class indices, integers, shape ``[N]``.
        n_classes: K ≥ 2; by default the largest label plus one.

    Returns:
        Margins in the features' unit, float64, shape ``[..., N]``.

    Raises:
        ValueError: as :func:`class_geometry`.

    Example:
        The centres are 1 and 10; the last sample lies at 8, 7 from one and 2 from its own:

        >>> centre_margins([[0.0], [2.0], [12.0], [8.0]], [0, 0, 1, 1]).tolist()
        [9.0, 7.0, 9.0, 5.0]
    """
    x, y, k = _checked(features, labels, n_classes)
    if k < 2:
        raise ValueError("a margin between classes needs at least two classes")
    distances = _distances(x, _class_means(x, y, k))  # (..., N, K)
    samples = np.arange(y.size)
    own = distances[..., samples, y]
    distances[..., samples, y] = np.inf
    return distances.min(axis=-1) - own


def angles_between(a: ArrayLike | Tensor, b: ArrayLike | Tensor) -> FloatArray:
    r"""Angles between every vector of ``a`` and every vector of ``b``, in radians.

    Computed as :math:`2 \operatorname{atan2}\bigl(\|u - v\|, \|u + v\|\bigr)` of the unit vectors u and v, which is accurate near 0 and
    π, where :math:`\arccos(u \cdot v)` is not.

    Args:
        a: vectors, shape ``[..., I, D]``: class centres, say.
        b: vectors, shape ``[..., J, D]``: the weight vectors of a classifier, say.

    Returns:
        Angles in [0, π], float64, shape ``[..., I, J]``; NaN for a zero vector.

    Raises:
        ValueError: if a shape does not fit or a value is NaN or infinite.

    Example:
        >>> np.degrees(angles_between([[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])).tolist()
        [[0.0, 90.0, 180.0]]

    References:
        W. Kahan, *How futile are mindless assessments of roundoff in floating-point computation?* (2006), section 12.
    """
    first, second = _float64(a, "a"), _float64(b, "b")
    if first.ndim < 2 or second.ndim < 2 or first.shape[-1] != second.shape[-1]:
        raise ValueError(f"a and b must have the shapes [..., I, D] and [..., J, D], not {list(first.shape)} and {list(second.shape)}")
    return _paired_angles(first[..., :, None, :], second[..., None, :, :])


def _float64(values: ArrayLike | Tensor, name: str) -> FloatArray:
    """A finite float64 array."""
    array = np.asarray(values.detach().cpu().double() if isinstance(values, Tensor) else values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; {int((~np.isfinite(array)).sum())} values are NaN or infinite")
    return array


def _checked(features: ArrayLike | Tensor, labels: ArrayLike | Tensor, n_classes: int | None) -> tuple[FloatArray, IntArray, int]:
    """Features ``[..., N, D]`` in float64, labels ``[N]`` in int64, and the number of classes."""
    x = _float64(features, "features")
    if x.ndim < 2 or x.size == 0:
        raise ValueError(f"features must have the shape [N, D] or [R, N, D] and hold at least one sample, not {list(x.shape)}")
    y = np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
    if y.dtype.kind not in "iu":
        raise ValueError(f"labels must be class indices of an integer type, not {y.dtype}")
    if y.shape != (x.shape[-2],):
        raise ValueError(f"labels must have the shape [{x.shape[-2]}] to go with features {list(x.shape)}, not {list(y.shape)}")
    k = int(y.max()) + 1 if n_classes is None else n_classes
    if y.min() < 0 or y.max() >= k:
        raise ValueError(f"labels must lie in [0, {k}); they reach from {y.min()} to {y.max()}")
    y = y.astype(np.int64)
    missing = np.flatnonzero(np.bincount(y, minlength=k) == 0)
    if missing.size:
        raise ValueError(f"each of the {k} classes needs a sample; there is none of {missing.tolist()}")
    return x, y, k


def _class_means(x: FloatArray, y: IntArray, k: int) -> FloatArray:
    """Means over the samples of each class: ``[..., N, D]`` to ``[..., K, D]``."""
    return np.stack([x[..., y == c, :].mean(axis=-2) for c in range(k)], axis=-2)


def _distances(a: FloatArray, b: FloatArray) -> FloatArray:
    """Euclidean distances between every row of ``a`` and every row of ``b``: ``[..., I, J]``, one column at a time to save memory."""
    return np.stack([np.linalg.norm(a - b[..., j : j + 1, :], axis=-1) for j in range(b.shape[-2])], axis=-1)


def _paired_angles(a: FloatArray, b: FloatArray) -> FloatArray:
    """Angles between vectors that stand at the same place, over the last axis; NaN for a zero vector."""
    with np.errstate(invalid="ignore"):
        u = a / np.linalg.norm(a, axis=-1, keepdims=True)
        v = b / np.linalg.norm(b, axis=-1, keepdims=True)
        return 2 * np.arctan2(np.linalg.norm(u - v, axis=-1), np.linalg.norm(u + v, axis=-1))


def _off_diagonal(matrix: FloatArray) -> NDArray[np.bool_]:
    """A mask ``[K, K]`` of the pairs of different classes."""
    return ~np.eye(matrix.shape[-1], dtype=bool)


def _mean_of_pairs(matrix: FloatArray) -> FloatArray:
    """Mean over the pairs of different classes: ``[..., K, K]`` to ``[...]``."""
    return matrix[..., _off_diagonal(matrix)].mean(axis=-1)


def _least_of_pairs(matrix: FloatArray) -> FloatArray:
    """Least entry of each row beside the diagonal: ``[..., K, K]`` to ``[..., K]``."""
    return np.where(_off_diagonal(matrix), matrix, np.inf).min(axis=-1)


def _without_diagonal(matrix: FloatArray) -> FloatArray:
    """The matrix with zeros on the diagonal, where rounding (or a zero vector) may have left something else."""
    return np.where(_off_diagonal(matrix), matrix, 0.0)
