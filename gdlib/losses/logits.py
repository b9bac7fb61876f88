"""Losses on logits as modules: soft margin, focal, hinge, large margin, probabilities."""

from __future__ import annotations

from torch import Tensor

from gdlib import functional
from gdlib.functional import Divergence, Reduction
from gdlib.functional._arguments import tensor_by_keyword
from gdlib.functional.logits import check_divergence
from gdlib.losses._base import OPTIONS_OF_INDICES, Loss


class SoftMarginLoss(Loss):
    r"""Apply M-Softmax, :func:`gdlib.functional.soft_margin_cross_entropy`.

    Attributes:
        margin: :math:`m`, in nats.
    """

    _function = staticmethod(functional.soft_margin_cross_entropy)
    _checks = {"margin": "> -inf"}

    @tensor_by_keyword("margin")
    def __init__(
        self,
        margin: float | Tensor,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.margin: float | Tensor = margin


class FocalLoss(Loss):
    r"""Apply the focal loss over the softmax, :func:`gdlib.functional.focal_cross_entropy`.

    Attributes:
        gamma: the focusing parameter :math:`\gamma \ge 0`.
    """

    _function = staticmethod(functional.focal_cross_entropy)
    _checks = {"gamma": ">= 0"}

    @tensor_by_keyword("gamma")
    def __init__(
        self,
        gamma: float | Tensor = 2.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.gamma: float | Tensor = gamma


class GeneralizedCrossEntropyLoss(Loss):
    r"""Apply the generalised cross-entropy, :func:`gdlib.functional.generalized_cross_entropy`.

    Attributes:
        q: :math:`0 < q \le 1`.
    """

    _function = staticmethod(functional.generalized_cross_entropy)
    _checks = {"q": "in (0, 1]"}

    @tensor_by_keyword("q")
    def __init__(
        self,
        q: float | Tensor = 0.7,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.q: float | Tensor = q


class Poly1CrossEntropyLoss(Loss):
    r"""Apply the Poly-1 loss, :func:`gdlib.functional.poly1_cross_entropy`.

    Attributes:
        epsilon: :math:`\epsilon \ge -1`.
    """

    _function = staticmethod(functional.poly1_cross_entropy)
    _checks = {"epsilon": ">= -1"}

    @tensor_by_keyword("epsilon")
    def __init__(
        self,
        epsilon: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.epsilon: float | Tensor = epsilon


class NegativeProbabilityLoss(Loss):
    """Apply one minus the probability of the true class.

    It is :func:`gdlib.functional.negative_probability`.
    """

    _function = staticmethod(functional.negative_probability)

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)


class MultiClassHingeLoss(Loss):
    r"""Apply the multi-class hinge loss, :func:`gdlib.functional.multi_class_hinge`.

    It takes only class indices and has no label smoothing.

    Attributes:
        margin: :math:`m`.
    """

    _function = staticmethod(functional.multi_class_hinge)
    _checks = {"margin": "> -inf"}
    _options = OPTIONS_OF_INDICES

    @tensor_by_keyword("margin")
    def __init__(
        self,
        margin: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.margin: float | Tensor = margin


class LargeMarginLoss(Loss):
    r"""Apply LM, :func:`gdlib.functional.large_margin_cross_entropy`; it takes only class indices.

    Attributes:
        reg_lambda: :math:`\lambda \ge 0`, the weight of the divergence.
        divergence: ``"symmetric"``, ``"q_u"`` or ``"u_q"``.
        margin: margin of the cross-entropy, as in :class:`SoftMarginLoss`.
    """

    _function = staticmethod(functional.large_margin_cross_entropy)
    _checks = {"reg_lambda": ">= 0", "divergence": check_divergence, "margin": "> -inf"}

    @tensor_by_keyword("reg_lambda")
    def __init__(
        self,
        reg_lambda: float | Tensor = 0.3,
        *,
        divergence: Divergence = "symmetric",
        margin: float | Tensor = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.reg_lambda: float | Tensor = reg_lambda
        self.divergence: Divergence = divergence
        self.margin: float | Tensor = margin
