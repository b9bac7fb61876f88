"""Losses on distances between features and one point for each class: center loss and the Gaussian mixture (LGM)."""

from __future__ import annotations

import torch
from torch import Tensor

from gdlib.functional.options import (
    At,
    Parameters,
    Reduction,
    check_logits,
    check_options,
    check_target,
    compute_in,
    gather,
    nonnegative,
    reduce_indices,
    target_logit_loss,
    valid_index,
)

__all__ = ["center_loss", "center_update", "gaussian_mixture_cross_entropy"]


def center_loss(
    features: Tensor,
    target: Tensor,
    centers: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Center loss: half the squared distance of a sample's features from the centre of its class.

    .. math:: J = \tfrac12 \lVert h - c_y \rVert^2

    It is added to a classification loss with a factor: :math:`L = L_{\mathrm{softmax}} + \lambda J` (ArcGrad eq. 6, λ = 0.02 there).
    Gradients flow into the features, and into centres that ask for them; :func:`center_update` is the other way to move the centres.

    Args:
        features: :math:`h`, ``[N, D]``, or ``[R, N, D]`` for R runs.
        target: class indices ``[N]`` or ``[R, N]``.
        centers: one point for each class, ``[C, D]`` or ``[R, C, D]``.
        weight: a factor for each class, ``[C]``; the mean divides by the weights used, as that of the cross-entropy.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` (over all samples of all runs) or ``"sum"``.

    Returns:
        The loss in squared units of the features: a scalar, or for ``reduction="none"`` the shape of ``target``.

    Raises:
        ValueError: for shapes that do not fit, and for a class index outside [0, C).

    Example:
        >>> import torch
        >>> features, centers = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0], [0.0, 1.0]])
        >>> center_loss(features, torch.tensor([0, 1]), centers, reduction="none")
        tensor([12.5000,  0.5000])

    References:
        *A Discriminative Feature Learning Approach for Deep Face Recognition* (Wen et al., ECCV 2016), eq. 2, a sum over the batch;
        *ArcGrad*, eq. 5, a mean.
    """
    _check_centers(features, target, centers)
    check_options(centers.mT, weight, ignore_index, reduction, 0.0, centers.ndim - 1, False)
    values, result_dtype = compute_in(features)
    valid, index = valid_index(target, ignore_index, centers.shape[-2])
    per_sample = (values - _of_class(centers.to(values), index)).square().sum(-1) / 2
    return reduce_indices(per_sample, index, valid, weight, reduction).to(result_dtype)


@torch.no_grad()
def center_update(features: Tensor, target: Tensor, centers: Tensor, rate: float = 0.5, *, ignore_index: int = -100) -> Tensor:
    r"""The centres after one batch: each moves towards the features of its class.

    .. math:: c_j - \alpha \frac{\sum_n [y_n = j] (c_j - h_n)}{1 + \sum_n [y_n = j]}

    A class that the batch does not hold keeps its centre.

    Args:
        features: ``[N, D]``, or ``[R, N, D]`` for R runs.
        target: class indices ``[N]`` or ``[R, N]``.
        centers: ``[C, D]`` or ``[R, C, D]``.
        rate: :math:`\alpha`, in [0, 1]; the paper's is 0.5.
        ignore_index: class index whose samples count for nothing.

    Returns:
        New centres, of the shape and type of ``centers``.

    Raises:
        ValueError: for shapes that do not fit, a class index outside [0, C), and a rate outside [0, 1].

    Example:
        >>> import torch
        >>> center_update(torch.tensor([[4.0]]), torch.tensor([0]), torch.tensor([[0.0], [7.0]]), rate=0.5)    # 0 + 0.5 * 4 / 2
        tensor([[1.],
                [7.]])

    References:
        *A Discriminative Feature Learning Approach for Deep Face Recognition*, eq. 4 and algorithm 1.
    """
    _check_centers(features, target, centers)
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must lie in [0, 1]; got {rate}")
    valid, index = valid_index(target, ignore_index, centers.shape[-2])
    own = _of_class(centers, index)
    towards = (features.to(centers) - own) * valid.unsqueeze(-1)
    rows = index.unsqueeze(-1)
    moved = torch.zeros_like(centers).scatter_add(-2, rows.expand_as(towards), towards)
    count = centers.new_zeros(centers.shape[:-1]).scatter_add(-1, index, valid.to(centers))
    return centers + rate * moved / (1 + count).unsqueeze(-1)


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
    r"""LGM: classification by a Gaussian for each class, with a margin, and the likelihood of the features.

    With :math:`d_i = \tfrac12 (h - \mu_i)^T \Sigma_i^{-1} (h - \mu_i)` and :math:`\delta_i = \tfrac12 \log |\Sigma_i|`

    .. math::

        J = -\log \frac{e^{-(1 + \alpha) d_c - \delta_c}}{e^{-(1 + \alpha) d_c - \delta_c} + \sum_{i \neq c} e^{-d_i - \delta_i}}
          + \lambda\, (d_c + \delta_c)

    All classes are equally likely beforehand. The last term is the negative log-likelihood of the features without its constant. With
    :math:`\alpha = \lambda = 0` the loss is the cross-entropy of the logits :math:`-d_i - \delta_i`.

    Args:
        distance: :math:`d \ge 0`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``; :class:`gdlib.heads.GaussianMixtureHead` makes it.
        target: class indices of the shape of ``distance`` without its class dimension.
        margin: :math:`\alpha \ge 0`, a number or a tensor that broadcasts to the class indices. The more classes, the smaller
            the paper's.
        likelihood_weight: :math:`\lambda \ge 0`, as ``margin``. Small, such as 0.1.
        half_log_determinant: :math:`\delta`, of a shape that broadcasts to ``distance``; None for unit covariances.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: acts on the classification; the likelihood is that of the true class.

    Returns:
        The loss in nats: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

    Raises:
        ValueError: for negative parameters, class probabilities as a target, and for whatever :func:`gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> distance, labels = torch.tensor([[1.0, 3.0]]), torch.tensor([0])
        >>> loss = gaussian_mixture_cross_entropy(distance, labels, margin=2.0, likelihood_weight=0.1)     # log(1 + e^0) + 0.1 * 1
        >>> round(loss.item(), 4)
        0.7931

    References:
        *Rethinking Feature Distribution for Loss Functions in Image Classification* (Wan et al., CVPR 2018).
    """
    class_dim = check_logits(distance)
    if check_target(distance, target, class_dim):
        raise ValueError("gaussian_mixture_cross_entropy needs class indices; got class probabilities")
    factor = nonnegative("likelihood_weight", likelihood_weight, target.shape)
    values, result_dtype = compute_in(distance)
    offset = values.new_zeros(()) if half_log_determinant is None else half_log_determinant.to(values)
    offset = offset.expand(values.shape)

    def true_logit(values: Tensor, at: At, given: Parameters) -> Tensor:
        return -(1 + given["margin"]) * at(values) - at(offset)

    classification = target_logit_loss(
        values,
        target,
        parameters={"margin": (margin, nonnegative)},
        logits=lambda values, given: -values - offset,
        true_logit=true_logit,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    valid, index = valid_index(target, ignore_index, distance.shape[class_dim])
    likelihood = gather(values + offset, index, class_dim)
    factor = factor.to(values) if isinstance(factor, Tensor) else factor
    return (classification + reduce_indices(factor * likelihood, index, valid, weight, reduction)).to(result_dtype)


def _of_class(centers: Tensor, index: Tensor) -> Tensor:
    """The centre of every sample's class: ``[..., N, D]`` of ``[..., C, D]`` and ``[..., N]``."""
    return centers.gather(-2, index.unsqueeze(-1).expand(*index.shape, centers.shape[-1]))


def _check_centers(features: Tensor, target: Tensor, centers: Tensor) -> None:
    if features.ndim not in (2, 3) or target.shape != features.shape[:-1] or target.is_floating_point():
        raise ValueError(
            "expected features [N, D] or [R, N, D] with class indices [N] or [R, N]; "
            f"got {list(features.shape)} and {target.dtype} of shape {list(target.shape)}"
        )
    if centers.ndim != features.ndim or centers.shape[:-2] != features.shape[:-2] or centers.shape[-1] != features.shape[-1]:
        raise ValueError(f"centers of shape {list(centers.shape)} do not fit features of shape {list(features.shape)}")
