"""The losses on angles as modules."""

from __future__ import annotations

import torch
from torch import Tensor

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.losses.base import Options

__all__ = ["AdaCosLoss", "ArcFaceLoss", "ArcGradLoss", "CosFaceLoss", "LSoftmaxLoss", "SphereFaceLoss"]


class ArcFaceLoss(Options):
    r"""ArcFace: a margin at the angle of the true class.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.arcface_cross_entropy`.

    Args:
        scale: makes logits of the cosines, > 0.
        margin: in radians, >= 0.
        monotone: keep the true logit falling up to an angle of π.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = ArcFaceLoss(scale=2.0, margin=0.0)
        >>> round(loss_fn(torch.tensor([[1.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.1269

    References:
        See :func:`gdlib.functional.arcface_cross_entropy`.
    """

    def __init__(
        self,
        scale: float | Tensor = 64.0,
        margin: float | Tensor = 0.5,
        *,
        monotone: bool = True,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"scale": scale, "margin": margin, "monotone": monotone}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.arcface_cross_entropy(input, target, **self.keywords())


class CosFaceLoss(Options):
    r"""CosFace, or AM-Softmax: a margin at the cosine of the true class.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.cosface_cross_entropy`.

    Args:
        scale: makes logits of the cosines, > 0.
        margin: in units of the cosine, >= 0.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = CosFaceLoss(scale=2.0, margin=0.5)
        >>> round(loss_fn(torch.tensor([[0.5, 0.0]]), torch.tensor([0])).item(), 4)
        0.6931

    References:
        See :func:`gdlib.functional.cosface_cross_entropy`.
    """

    def __init__(
        self,
        scale: float | Tensor = 64.0,
        margin: float | Tensor = 0.35,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"scale": scale, "margin": margin}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.cosface_cross_entropy(input, target, **self.keywords())


class SphereFaceLoss(Options):
    r"""A-Softmax (SphereFace): the angle of the true class times a whole number.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.sphereface_cross_entropy`.

    Args:
        scale: makes logits of the cosines; for the original set it to the norms of the features before each call.
        margin: a whole number >= 1.
        annealing: weight of the plain cosine beside the changed one, >= 0; may be set between steps.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = SphereFaceLoss(scale=2.0, margin=2)
        >>> round(loss_fn(torch.tensor([[0.5, -1.0]]), torch.tensor([0])).item(), 4)
        0.3133

    References:
        See :func:`gdlib.functional.sphereface_cross_entropy`.
    """

    def __init__(
        self,
        scale: float | Tensor = 1.0,
        margin: int = 4,
        *,
        annealing: float = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"scale": scale, "margin": margin, "annealing": annealing}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.sphereface_cross_entropy(input, target, **self.keywords())


class LSoftmaxLoss(Options):
    r"""L-Softmax: as A-Softmax, with the norms of the class vectors kept.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.l_softmax_cross_entropy`.

    Args:
        margin: a whole number >= 1.
        annealing: weight of the plain cosine beside the changed one, >= 0; may be set between steps.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> logits, norms, labels = torch.tensor([[1.0, -2.0]]), torch.tensor([[2.0, 2.0]]), torch.tensor([0])
        >>> round(LSoftmaxLoss(margin=2)(logits, labels, norms).item(), 4)
        0.3133

    References:
        See :func:`gdlib.functional.l_softmax_cross_entropy`.
    """

    def __init__(
        self,
        margin: int = 4,
        *,
        annealing: float = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"margin": margin, "annealing": annealing}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, input: Tensor, target: Tensor, norms: Tensor) -> Tensor:  # type: ignore[override]
        """The loss of a batch."""
        return functional.l_softmax_cross_entropy(input, target, norms, **self.keywords())


class ArcGradLoss(Options):
    r"""ArcGrad: cross-entropy of the negative scaled angles.

    Hyperparameters may be set between steps. Shapes, formula and errors are those of :func:`gdlib.functional.arcgrad_cross_entropy`.

    Args:
        scale: in 1/radian, > 0.
        gap: instead of a scale, the gap in radians that the scale is made from.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: when called, for whatever the function refuses.

    Example:
        >>> import torch
        >>> loss_fn = ArcGradLoss(scale=2.0)
        >>> round(loss_fn(torch.tensor([[1.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.0423

    References:
        See :func:`gdlib.functional.arcgrad_cross_entropy`.
    """

    def __init__(
        self,
        scale: float | Tensor | None = None,
        *,
        gap: float | Tensor | None = None,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({"scale": scale, "gap": gap}, weight, ignore_index, reduction, label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch."""
        return functional.arcgrad_cross_entropy(input, target, **self.keywords())


class AdaCosLoss(Options):
    r"""AdaCos: cross-entropy of scaled cosines, with a scale that is computed.

    Dynamic AdaCos computes the scale anew from each training batch and the scale before, and uses it for that batch. The scale is a
    buffer: it is kept with the model, and evaluation does not change it. The first batch starts from
    :func:`gdlib.functional.adacos_fixed_scale`.

    Args:
        classes: C >= 2. For C = 2 the published scale is and stays 0, so that nothing is learnt.
        dynamic: compute the scale from the batches; False for the fixed scale.
        minimum_scale: a lower bound that the paper does not have, such as ``adacos_fixed_scale(3)``; None for none.
        runs: R, if the cosines are those of a stack of runs, ``[R, N, C]``, each with a scale of its own; None for one run.
        weight: a factor for each class, ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Shape:
        Cosines ``[N, C]`` or ``[R, N, C]``, class indices ``[N]`` or ``[R, N]``; output a scalar, or for ``reduction="none"`` the shape of
        the class indices.

    Raises:
        ValueError: for fewer than two classes; when called, for whatever the functions refuse.

    Example:
        >>> loss_fn = AdaCosLoss(classes=3)
        >>> cosine, labels = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1])
        >>> loss = loss_fn(cosine, labels)
        >>> round(loss_fn.scale.item(), 4)                                        # log 2, from a batch of right angles
        0.6931

    References:
        *AdaCos* (Zhang et al., CVPR 2019); *ArcGrad*, eq. 10. See :func:`gdlib.functional.adacos_scale`.
    """

    scale: Tensor

    def __init__(
        self,
        classes: int,
        *,
        dynamic: bool = True,
        minimum_scale: float | None = None,
        runs: int | None = None,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__({}, weight, ignore_index, reduction, label_smoothing)
        self.dynamic = dynamic
        self.minimum_scale = minimum_scale
        start = max(functional.adacos_fixed_scale(classes), minimum_scale or 0.0)
        self.register_buffer("scale", torch.full(() if runs is None else (runs,), start))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch; in training the scale follows first."""
        if self.dynamic and self.training:
            after = functional.adacos_scale(
                input.detach(), target, self.scale, ignore_index=self.ignore_index, minimum_scale=self.minimum_scale
            )
            self.scale.copy_(after)
        if self.scale.ndim == 0:
            return functional.adacos_cross_entropy(input, target, self.scale.clone(), **self.keywords())
        scale = self.scale.repeat_interleave(target.shape[1])
        loss = functional.adacos_cross_entropy(input.flatten(0, 1), target.flatten(), scale, **self.keywords())
        return loss.unflatten(0, target.shape) if self.reduction == "none" else loss

    def extra_repr(self) -> str:
        """What shapes the loss."""
        return f"dynamic={self.dynamic}, minimum_scale={self.minimum_scale}, reduction={self.reduction!r}"
