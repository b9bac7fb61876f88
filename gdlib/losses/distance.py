"""Losses on distances as modules: the center and Gaussian mixture losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.functional._arguments import tensor_by_keyword
from gdlib.losses._base import OPTIONS_OF_INDICES, Loss


class CenterLoss(Loss):
    """Apply the center loss, :func:`gdlib.functional.center_loss`, to features.

    It is added to a classification loss. :class:`gdlib.heads.ClassCenters` keeps the centres.
    """

    _function = staticmethod(functional.center_loss)
    _options = OPTIONS_OF_INDICES

    @tensor_by_keyword("weight")
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
        """Compute the loss of features ``[N, D]`` and centres ``[C, D]``, or of R runs of them."""
        return self._function(input, target, centers, **self._arguments())

    if TYPE_CHECKING:

        def __call__(  # type: ignore[override]  # noqa: D102
            self, input: Tensor, target: Tensor, centers: Tensor
        ) -> Tensor: ...

    def logits(self, input: Tensor) -> Tensor:
        """Refuse: distances from the centres are not logits."""
        raise TypeError(
            "the center loss has no logits; the classification loss that it is added to has them"
        )


class GaussianMixtureLoss(Loss):
    r"""Apply LGM, :func:`gdlib.functional.gaussian_mixture_cross_entropy`, to distances.

    :class:`gdlib.heads.GaussianMixtureHead` computes distances and half the log-determinants.

    Attributes:
        margin: :math:`\alpha \ge 0`.
        likelihood_weight: :math:`\lambda \ge 0`.
    """

    _function = staticmethod(functional.gaussian_mixture_cross_entropy)
    _checks = {"margin": ">= 0", "likelihood_weight": ">= 0"}

    @tensor_by_keyword("margin")
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
        self.margin: float | Tensor = margin
        self.likelihood_weight: float | Tensor = likelihood_weight

    def forward(
        self, input: Tensor, target: Tensor, half_log_determinant: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of distances; without determinants, unit covariances are assumed."""
        return self._function(
            input, target, half_log_determinant=half_log_determinant, **self._arguments()
        )

    if TYPE_CHECKING:

        def __call__(  # noqa: D102
            self, input: Tensor, target: Tensor, half_log_determinant: Tensor | None = None
        ) -> Tensor: ...

    def logits(self, input: Tensor, half_log_determinant: Tensor | None = None) -> Tensor:
        """Return the logarithms of the densities, without their common constant."""
        return -input if half_log_determinant is None else -input - half_log_determinant
