"""Losses on distances from one point for each class: the center and Gaussian mixture losses."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gdlib.functional._arguments import (
    Reduction,
    check_number,
    compute_in,
    extremes,
    softplus,
    tensor_by_keyword,
)
from gdlib.functional._reduction import Batch


def center_loss(
    features: Tensor,
    target: Tensor,
    centers: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Compute the center loss: half the squared distance of features from their class centre.

    .. math:: J = \tfrac12 \lVert h - c_y \rVert^2

    in squared units of the features. It is added to a classification loss,
    :math:`L_{\mathrm{softmax}} + \lambda J` (ArcGrad eq. 6, λ = 0.02). Gradients flow into the
    features, and into centres that require them; :class:`gdlib.heads.ClassCenters` can also move
    the centres without gradients.

    Args:
        features: :math:`h`, ``[N, D]``, or ``[R, N, D]`` for R runs.
        target: class indices ``[N]`` or ``[R, N]``.
        centers: one point for each class, ``[C, D]`` or ``[R, C, D]``.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> features = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
        >>> centers = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
        >>> center_loss(features, torch.tensor([0, 1]), centers, reduction="none")
        tensor([12.5000,  0.5000])

    References:
        *A Discriminative Feature Learning Approach for Deep Face Recognition* (Wen et al., ECCV
        2016), eq. 2, a sum; *ArcGrad*, eq. 5.
    """
    batch = _of_centers(features, target, centers, weight, ignore_index, reduction)
    values = batch.of_counted(features.to(batch.dtype), -1)
    own = centers.to(values).take_along_dim(batch.index.unsqueeze(-1), -2)
    distances = (values - own).square().sum(-1) / 2
    return batch.reduce_samples(distances, weighted=False).to(batch.result_dtype)


@torch.no_grad()
def center_update(
    features: Tensor,
    target: Tensor,
    centers: Tensor,
    rate: float,
    *,
    ignore_index: int = -100,
) -> Tensor:
    """Return the centres after one batch, as :class:`gdlib.heads.ClassCenters` describes."""
    batch = _of_centers(features, target, centers, ignore_index=ignore_index)
    check_number("rate", rate, "in [0, 1]")
    before, _ = compute_in(centers, "centers")  # half precision cannot count to 3,000
    index = batch.index.unsqueeze(-1)
    towards = features.to(before) - before.take_along_dim(index, -2)
    towards = torch.where(batch.valid.unsqueeze(-1), towards, 0.0)
    moved = torch.zeros_like(before).scatter_add(-2, index.expand_as(towards), towards)
    count = before.new_zeros(before.shape[:-1]).scatter_add(-1, batch.index, batch.valid.to(before))
    return (before + rate * moved / (1 + count).unsqueeze(-1)).to(centers.dtype)


@tensor_by_keyword("margin")
def gaussian_mixture_cross_entropy(
    distance: Tensor,
    target: Tensor,
    margin: float | Tensor = 0.0,
    likelihood_weight: float | Tensor = 0.0,
    *,
    half_log_determinant: Tensor | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute LGM: a Gaussian for each class, with a margin, and the likelihood of the features.

    With :math:`d_i = \tfrac12 (h - \mu_i)^T \Sigma_i^{-1} (h - \mu_i)` and :math:`\delta_i =
    \tfrac12 \log |\Sigma_i|`

    .. math::

        J = -\log \frac{e^{-(1 + \alpha) d_c - \delta_c}}
          {e^{-(1 + \alpha) d_c - \delta_c} + \sum_{i \neq c} e^{-d_i - \delta_i}}
          + \lambda\, (d_c + \delta_c)

    All classes have the same prior probability. The last term is the negative log-likelihood of the
    features without its constant. With :math:`\alpha = \lambda = 0` the loss is the cross-entropy
    of the logits :math:`-d_i - \delta_i`. Label smoothing acts on the classification; the
    likelihood is that of the true class.

    Args:
        distance: :math:`d \ge 0`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``;
            :class:`gdlib.heads.GaussianMixtureHead` computes it.
        target: class indices.
        margin: :math:`\alpha \ge 0`, a number or a tensor that broadcasts to the class indices; in
            the paper, smaller for more classes.
        likelihood_weight: :math:`\lambda \ge 0`, like ``margin``. Small, such as 0.1.
        half_log_determinant: :math:`\delta`, of a shape that broadcasts to ``distance``; None for
            unit covariances.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> distance, labels = torch.tensor([[1.0, 3.0]]), torch.tensor([0])
        >>> loss = gaussian_mixture_cross_entropy(distance, labels, 2.0, 0.1)
        >>> round(loss.item(), 4)  # log(1 + e^0) + 0.1 * 1
        0.7931

    References:
        *Rethinking Feature Distribution for Loss Functions in Image Classification* (Wan et al.,
        CVPR 2018).
    """
    batch = Batch(
        *(distance, target, weight, ignore_index, reduction, label_smoothing),
        only_indices="the likelihood is that of the true class",
    )
    smallest, _ = extremes(distance, 0.0)
    if smallest < 0:
        raise ValueError(
            f"distances must be >= 0, got {smallest:.4g}; gdlib.heads.GaussianMixtureHead makes "
            "them, in place of logits"
        )
    margin = batch.parameter("margin", margin, ">= 0")
    likelihood_weight = batch.parameter("likelihood_weight", likelihood_weight, ">= 0")
    values = batch.values(distance)
    offset: float | Tensor = 0.0
    if half_log_determinant is not None:
        wanted = f"the distances, of shape {list(values.shape)}, or None for unit covariances"
        offset = batch.for_each_logit("half_log_determinant", half_log_determinant, values, wanted)
    # not as a true logit: a large one would lose the digits of what the margin adds
    of_true = batch.true(values)
    added = margin * of_true.masked_fill(of_true == math.inf, 0.0)
    likelihood = likelihood_weight * (values + offset).gather(batch.dim, batch.true_class)
    losses = softplus(batch.log_odds_against(-values - offset) + added)
    return batch.reduce(losses, of_true=likelihood)


def _of_centers(
    features: Tensor,
    target: Tensor,
    centers: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Batch:
    """Check features, class indices, centres and options against each other."""
    if not isinstance(centers, Tensor):
        raise ValueError(f"centers must be a tensor; got {type(centers).__name__}")
    if not centers.is_floating_point():
        raise ValueError(f"centers must be floating point; got {centers.dtype}")
    if centers.ndim < 2:
        raise ValueError(f"centers must be [C, D], one row per class; got {list(centers.shape)}")
    classes = centers.shape[-2]
    batch = Batch.of_rows("features", features, target, classes, weight, ignore_index, reduction)
    if centers.device != features.device:
        raise ValueError(
            f"centers are on {centers.device} and features on {features.device}; move them: "
            "centers.to(features.device)"
        )
    if (
        centers.ndim != features.ndim
        or centers.shape[:-2] != features.shape[:-2]
        or centers.shape[-1] != features.shape[-1]
    ):
        raise ValueError(
            f"centers of shape {list(centers.shape)} do not fit features of shape "
            f"{list(features.shape)}"
        )
    return batch
