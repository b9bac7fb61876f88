"""The losses on distances as modules."""

from __future__ import annotations

from torch import Tensor

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.losses.base import Options

__all__ = ["CenterLoss", "GaussianMixtureLoss"]


class CenterLoss(Options):
    r"""Center loss: half the squared distance from the centre of the class, :class:`gdlib.heads.ClassCenters`.

    Shapes, formula and errors are those of :func:`gdlib.functional.center_loss`.

    Args:
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> CenterLoss()(torch.tensor([[3.0, 4.0]]), torch.tensor([0]), torch.zeros(2, 2)).item()
        12.5

    References:
        See :func:`gdlib.functional.center_loss`.
    """

    smooths = False

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__({}, weight, ignore_index, reduction)

    def forward(self, features: Tensor, target: Tensor, centers: Tensor) -> Tensor:  # type: ignore[override]
        """The loss of a batch."""
        return functional.center_loss(features, target, centers, **self.keywords())


class GaussianMixtureLoss(Options):
    r"""LGM: a Gaussian for each class, with a margin and a likelihood, on :class:`gdlib.heads.GaussianMixtureHead`.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of
    :func:`gdlib.functional.gaussian_mixture_cross_entropy`.

    Args:
        margin: share by which the distance from the true class counts more, >= 0.
        likelihood_weight: factor of the negative log-likelihood, >= 0.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = GaussianMixtureLoss(margin=2.0, likelihood_weight=0.1)
        >>> round(loss_fn(torch.tensor([[1.0, 3.0]]), torch.tensor([0])).item(), 4)
        0.7931

    References:
        See :func:`gdlib.functional.gaussian_mixture_cross_entropy`.
    """

    def __init__(
        self,
        margin: float | Tensor = 0.0,
        likelihood_weight: float | Tensor = 0.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"margin": margin, "likelihood_weight": likelihood_weight}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, distance: Tensor, target: Tensor, half_log_determinant: Tensor | None = None) -> Tensor:
        """The loss of a batch."""
        return functional.gaussian_mixture_cross_entropy(distance, target, half_log_determinant=half_log_determinant, **self.keywords())
