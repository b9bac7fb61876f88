"""Losses on distances as modules: center loss and the Gaussian mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.functional._arguments import hyperparameter, tensor_by_keyword
from gdlib.losses._base import OPTIONS_OF_INDICES, Loss


class CenterLoss(Loss):
    r"""Apply the center loss: half the squared distance of features from the centre of their class.

    .. math:: J = \tfrac12 \lVert h - c_y \rVert^2

    A classification loss is added. :class:`gdlib.heads.ClassCenters` keeps the centres. As a
    function it is :func:`gdlib.functional.center_loss`, which has the rest.

    Example:
        >>> import torch
        >>> features, centers = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0]])
        >>> CenterLoss()(features, torch.tensor([0]), centers=centers).item()
        12.5
    """

    _function = staticmethod(functional.center_loss)
    _options = OPTIONS_OF_INDICES

    @tensor_by_keyword("weight", 1)
    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, reduction)

    def forward(  # type: ignore[override]
        self, input: Tensor, target: Tensor, centers: Tensor
    ) -> Tensor:
        """Compute the loss of a batch.

        Args:
            input: features ``[N, D]``, or ``[R, N, D]`` for R runs.
            target: class indices ``[N]`` or ``[R, N]``.
            centers: one point for each class, ``[C, D]`` or ``[R, C, D]``.
        """
        return self._function(input, target, centers, **self._arguments())

    if TYPE_CHECKING:  # it takes more than other losses

        def __call__(  # type: ignore[override]
            self, input: Tensor, target: Tensor, centers: Tensor
        ) -> Tensor:
            """Compute as :meth:`forward`."""
            ...

    def logits(self, input: Tensor) -> Tensor:
        """Refuse: distances from the centres are no logits."""
        raise TypeError(
            "the center loss has no logits; the classification loss that it is added to has them"
        )


class GaussianMixtureLoss(Loss):
    r"""Apply LGM, a Gaussian for each class, to the distances of a head.

    .. math:: z_c = -(1 + \alpha) d_c - \delta_c, \qquad z_i = -d_i - \delta_i

    are the logits of a cross-entropy, to which the likelihood :math:`\lambda (d_c + \delta_c)` is
    added. :class:`gdlib.heads.GaussianMixtureHead` makes :math:`d` and :math:`\delta`. As a
    function it is :func:`gdlib.functional.gaussian_mixture_cross_entropy`, which has the rest.

    Attributes:
        margin: :math:`\alpha \ge 0`; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        likelihood_weight: :math:`\lambda \ge 0`, as ``margin``.

    Example:
        >>> import torch
        >>> loss_fn = GaussianMixtureLoss(margin=2.0, likelihood_weight=0.1)
        >>> round(loss_fn(torch.tensor([[1.0, 3.0]]), torch.tensor([0])).item(), 4)
        0.7931
    """

    margin: float | Tensor
    likelihood_weight: float | Tensor

    _function = staticmethod(functional.gaussian_mixture_cross_entropy)
    _checks = {
        "margin": hyperparameter("margin", ">= 0"),
        "likelihood_weight": hyperparameter("likelihood_weight", ">= 0"),
    }

    @tensor_by_keyword("margin", 1)
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.margin = margin
        self.likelihood_weight = likelihood_weight

    def forward(
        self, distance: Tensor, target: Tensor, half_log_determinant: Tensor | None = None
    ) -> Tensor:
        r"""Compute the loss of a batch.

        Args:
            distance: distances :math:`d`.
            target: class indices.
            half_log_determinant: :math:`\delta`, of a shape that broadcasts to the distances; None
                for unit covariances.
        """
        return self._function(
            distance, target, half_log_determinant=half_log_determinant, **self._arguments()
        )

    if TYPE_CHECKING:  # it takes more than other losses

        def __call__(
            self, distance: Tensor, target: Tensor, half_log_determinant: Tensor | None = None
        ) -> Tensor:
            """Compute as :meth:`forward`."""
            ...

    def logits(self, input: Tensor, half_log_determinant: Tensor | None = None) -> Tensor:
        """Return the logarithms of the densities, without their common constant."""
        if half_log_determinant is None:
            return -input
        return -input - half_log_determinant
