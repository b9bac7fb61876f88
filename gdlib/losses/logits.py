"""The losses on logits as modules."""

from __future__ import annotations

from torch import Tensor

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.functional.large_margin import Divergence
from gdlib.losses.base import Options

__all__ = ["FocalLoss", "LargeMarginLoss", "ModifiedCrossEntropyLoss", "MultiClassHingeLoss", "SoftMarginLoss"]


class SoftMarginLoss(Options):
    r"""Soft-margin softmax (M-Softmax): cross-entropy with a margin at the true logit.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.soft_margin_cross_entropy`.

    Args:
        margin: taken from the true logit, in nats.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = SoftMarginLoss(margin=0.5)
        >>> round(loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.2014

    References:
        See :func:`gdlib.functional.soft_margin_cross_entropy`.
    """

    def __init__(
        self,
        margin: float | Tensor,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"margin": margin}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.soft_margin_cross_entropy(input, target, **self.keywords())


class ModifiedCrossEntropyLoss(Options):
    r"""LM's modified loss: soft margin with the margin 1.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.modified_cross_entropy`.

    Args:
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = ModifiedCrossEntropyLoss()
        >>> round(loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.3133

    References:
        See :func:`gdlib.functional.modified_cross_entropy`.
    """

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.modified_cross_entropy(input, target, **self.keywords())


class FocalLoss(Options):
    r"""Focal loss over the softmax.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.focal_cross_entropy`.

    Args:
        gamma: the focusing parameter, >= 0.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = FocalLoss(gamma=2.0)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.1733

    References:
        See :func:`gdlib.functional.focal_cross_entropy`.
    """

    def __init__(
        self,
        gamma: float | Tensor = 2.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"gamma": gamma}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.focal_cross_entropy(input, target, **self.keywords())


class MultiClassHingeLoss(Options):
    r"""Multi-class hinge loss, a mean over the wrong classes.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.multi_class_hinge`.

    Args:
        margin: by which the true logit has to win.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = MultiClassHingeLoss()
        >>> round(loss_fn(torch.tensor([[1.0, 0.5, -3.0]]), torch.tensor([0])).item(), 4)
        0.25

    References:
        See :func:`gdlib.functional.multi_class_hinge`.
    """

    smooths = False

    def __init__(
        self,
        margin: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__({"margin": margin}, weight, ignore_index, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.multi_class_hinge(input, target, **self.keywords())


class LargeMarginLoss(Options):
    r"""Cross-entropy plus LM's large-margin regulariser.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.large_margin_cross_entropy`.

    Args:
        reg_lambda: factor of the divergence, >= 0.
        divergence: ``"symmetric"``, ``"q_u"`` or ``"u_q"``.
        margin: of the cross-entropy, as in :func:`gdlib.functional.soft_margin_cross_entropy`.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = LargeMarginLoss(reg_lambda=1.0)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]), torch.tensor([0])).item(), 4)
        1.7918

    References:
        See :func:`gdlib.functional.large_margin_cross_entropy`.
    """

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
        super().__init__(
            {"reg_lambda": reg_lambda, "margin": margin, "divergence": divergence}, weight, ignore_index, reduction, label_smoothing
        )

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.large_margin_cross_entropy(input, target, **self.keywords())
