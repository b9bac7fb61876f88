"""Losses on angles as modules: margins on the angle or the cosine, and computed scales."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.functional._arguments import (
    check_boolean,
    check_number,
    check_whole,
    computes_again,
    extremes,
    over_classes,
    scaled,
    tensor_by_keyword,
    update_state,
)
from gdlib.functional.angular import check_scale_bounds, fixed_scale, scaled_angles
from gdlib.losses._base import Loss


class ArcFaceLoss(Loss):
    r"""Apply ArcFace, :func:`gdlib.functional.arcface_cross_entropy`, to cosines.

    Attributes:
        scale: :math:`s > 0`.
        margin: :math:`m` in [0, π] radians.
    """

    _function = staticmethod(functional.arcface_cross_entropy)
    _checks = {"scale": "> 0", "margin": "in [0, pi] radians"}

    @tensor_by_keyword("scale")
    def __init__(
        self,
        scale: float | Tensor = 64.0,
        margin: float | Tensor = 0.5,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.scale: float | Tensor = scale
        self.margin: float | Tensor = margin

    def logits(self, input: Tensor) -> Tensor:
        """Return the cosines times the scale, whose softmax gives the probabilities."""
        return scaled(input, over_classes(self.scale, input))


class CosFaceLoss(Loss):
    r"""Apply CosFace, or AM-Softmax, :func:`gdlib.functional.cosface_cross_entropy`, to cosines.

    Attributes:
        scale: :math:`s > 0`.
        margin: :math:`m \ge 0` in units of the cosine.
    """

    _function = staticmethod(functional.cosface_cross_entropy)
    _checks = {"scale": "> 0", "margin": ">= 0"}

    @tensor_by_keyword("scale")
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.scale: float | Tensor = scale
        self.margin: float | Tensor = margin

    def logits(self, input: Tensor) -> Tensor:
        """Return the cosines times the scale, whose softmax gives the probabilities."""
        return scaled(input, over_classes(self.scale, input))


def _check_annealing(annealing: Any) -> None:
    """Refuse what is neither a weight of the plain cosine nor a function that returns one."""
    if not callable(annealing):
        check_number("annealing", annealing, ">= 0")


class AnnealedLoss(Loss):
    """A loss whose margin is phased in; abstract.

    ``annealing`` may be a function of the number of training batches seen before; they are counted
    in the buffer ``steps``, which is read at each call: a compiled graph breaks there. Under
    activation checkpointing, run the backward pass of a batch before the next batch.
    """

    steps: Tensor

    _checks = {
        "margin": lambda value: check_whole("margin", value, 1),
        "annealing": _check_annealing,
    }

    def __init__(
        self,
        annealing: float | Callable[[int], float],
        weight: Tensor | None,
        ignore_index: int,
        reduction: Reduction,
        label_smoothing: float,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.annealing: float | Callable[[int], float] = annealing
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {"annealing": self._next_annealing()}

    def _next_annealing(self) -> float:
        """Return the annealing for this batch, and count the batch in training.

        A batch that activation checkpointing recomputes is the last one, and counts once.
        """
        if not callable(self.annealing):
            return self.annealing
        again = self.training and computes_again()
        annealing = self.annealing(int(self.steps) - int(again))
        if self.training and not again:
            update_state(
                self.steps,
                self.steps + 1,
                owner=type(self).__name__,
                instead="give the annealing as a number",
            )
        return annealing


class SphereFaceLoss(AnnealedLoss):
    r"""Apply A-Softmax, :func:`gdlib.functional.sphereface_cross_entropy`, to cosines.

    In the original, the scale is the norms of the features: give them with each batch.

    Attributes:
        scale: :math:`s \ge 0`, used where none is given with the batch.
        margin: :math:`m`, a whole number >= 1.
        annealing: the weight :math:`\lambda \ge 0` of the plain cosine, or a function that returns
            it from the number of previous training batches.
    """

    _function = staticmethod(functional.sphereface_cross_entropy)
    _checks = {"scale": ">= 0", **AnnealedLoss._checks}

    @tensor_by_keyword("scale")
    def __init__(
        self,
        scale: float | Tensor = 1.0,
        margin: int = 4,
        *,
        annealing: float | Callable[[int], float] = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(annealing, weight, ignore_index, reduction, label_smoothing)
        self.scale: float | Tensor = scale
        self.margin: int = margin

    def forward(self, input: Tensor, target: Tensor, scale: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch; ``scale``, one for each sample, is that of the features."""
        given = {} if scale is None else {"scale": scale}
        return self._function(input, target, **self._arguments() | given)

    if TYPE_CHECKING:

        def __call__(  # noqa: D102
            self, input: Tensor, target: Tensor, scale: Tensor | None = None
        ) -> Tensor: ...

    def logits(self, input: Tensor, scale: Tensor | None = None) -> Tensor:
        """Return the cosines times the scale, or times the norms of the features."""
        return scaled(input, over_classes(self.scale if scale is None else scale, input))


class LSoftmaxLoss(AnnealedLoss):
    r"""Apply L-Softmax, :func:`gdlib.functional.l_softmax_cross_entropy`, to logits and norms.

    :class:`gdlib.heads.NormedLinear` computes both.

    Attributes:
        margin: :math:`m`, a whole number >= 1.
        annealing: as for :class:`SphereFaceLoss`.
    """

    _function = staticmethod(functional.l_softmax_cross_entropy)

    @tensor_by_keyword("margin", how="{name} must be a whole number; int() makes one of a tensor")
    def __init__(
        self,
        margin: int = 4,
        *,
        annealing: float | Callable[[int], float] = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(annealing, weight, ignore_index, reduction, label_smoothing)
        self.margin: int = margin

    def forward(  # type: ignore[override]
        self, input: Tensor, target: Tensor, norms: Tensor
    ) -> Tensor:
        """Compute the loss of a batch from its logits, its labels and the norms of the logits."""
        return self._function(input, target, norms, **self._arguments())

    if TYPE_CHECKING:

        def __call__(  # type: ignore[override]  # noqa: D102
            self, input: Tensor, target: Tensor, norms: Tensor
        ) -> Tensor: ...

    def logits(self, input: Tensor, norms: Tensor | None = None) -> Tensor:
        """Return the logits as they are: they have no margin, and need no norms."""
        return input


class ArcGradLoss(Loss):
    r"""Apply ArcGrad, :func:`gdlib.functional.arcgrad_cross_entropy`, to cosines.

    Attributes:
        scale: :math:`s > 0` in 1/radian; :func:`gdlib.functional.arcgrad_scale` computes it from a
            gap.
    """

    _function = staticmethod(functional.arcgrad_cross_entropy)
    _checks = {"scale": "> 0"}

    @tensor_by_keyword("scale")
    def __init__(
        self,
        scale: float | Tensor,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.scale: float | Tensor = scale

    def logits(self, input: Tensor) -> Tensor:
        """Return the negative angles times the scale, whose softmax gives the probabilities."""
        return scaled_angles(input, over_classes(self.scale, input))


class AdaCosLoss(Loss):
    r"""Apply AdaCos, :func:`gdlib.functional.adacos_cross_entropy`, with a computed scale.

    Dynamic AdaCos computes a new scale from each training batch, which must have class indices, and
    from the previous scale (:func:`gdlib.functional.adacos_scale`), and uses it for that batch. The
    scale is a buffer: it is kept with the model, and evaluation does not change it. The first batch
    starts from :math:`\sqrt 2 \log(C - 1)`, or from ``minimum_scale`` if that is larger. When
    several processes train together, each follows its own batches. When activation checkpointing
    recomputes a batch, the scale stays the same; run the backward pass of a batch before the next
    batch.

    Attributes:
        classes: C >= 2, as many as the cosines have. For C = 2 the published scale is and stays 0,
            so nothing is learnt.
        dynamic: compute the scale from the batches; False for the fixed scale.
        minimum_scale: a lower bound, such as 0.98, from which three classes start, or None.
        maximum_scale: an upper bound on the magnitude of the scale, or None; the default is some
            fifteen times the largest scale in common use. A scale that reaches the bound on a CPU
            gives a RuntimeWarning.
        runs: R, if the cosines are those of a stack of runs, ``[R, N, C]``, each with its own
            scale; None for one run.

    Example:
        >>> loss_fn = AdaCosLoss(classes=3)
        >>> cosine, labels = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1])
        >>> loss = loss_fn(cosine, labels)
        >>> round(loss_fn.scale.item(), 4)  # log 2, from a batch of right angles
        0.6931
    """

    scale: Tensor

    _checks = {
        "classes": lambda value: check_whole("classes", value, 2),
        "dynamic": lambda value: check_boolean("dynamic", value),
        "minimum_scale": lambda value: check_scale_bounds(value, None),
        "maximum_scale": lambda value: check_scale_bounds(None, value),
    }

    def __init__(
        self,
        classes: int,
        *,
        dynamic: bool = True,
        minimum_scale: float | None = None,
        maximum_scale: float | None = 1_000.0,
        runs: int | None = None,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        check_scale_bounds(minimum_scale, maximum_scale)
        if runs is not None:
            check_whole("runs", runs, 1)
        self.classes: int = classes
        self.dynamic: bool = dynamic
        self.minimum_scale: float | None = minimum_scale
        self.maximum_scale: float | None = maximum_scale
        start = max(fixed_scale(classes), minimum_scale or 0.0)
        if maximum_scale is not None:
            start = min(start, maximum_scale)
        self.register_buffer("scale", torch.full(() if runs is None else (runs,), start))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its cosines and its labels.

        In training, the scale is first updated from the batch.
        """
        self._check(input, target)
        if self.dynamic and self.training and not computes_again():
            self._follow(input.detach(), target)
        options = {name: getattr(self, name) for name in self._options}
        if self.scale.ndim == 0:
            scale = self.scale.clone()
            return functional.adacos_cross_entropy(input, target, scale=scale, **options)
        scale = self.scale.repeat_interleave(target.shape[1])
        flat = input.flatten(0, 1), target.flatten()
        loss = functional.adacos_cross_entropy(*flat, scale=scale, **options)
        return loss.unflatten(0, target.shape) if self.reduction == "none" else loss

    def _check(self, cosine: Tensor, target: Tensor) -> None:
        """Refuse any number of classes but the scale's, and what is not a stack of its runs."""
        for name, value in (("cosines", cosine), ("target", target)):
            if not isinstance(value, Tensor):
                raise ValueError(f"{name} must be a tensor; got {type(value).__name__}")
        if self.dynamic and self.training and target.is_floating_point():
            raise ValueError(
                f"the dynamic scale follows class indices, int64 or uint8; got {target.dtype}. "
                "Give dynamic=False for class probabilities"
            )
        stacked = self.scale.ndim > 0
        if stacked and (
            cosine.ndim != 3 or len(cosine) != len(self.scale) or target.shape != cosine.shape[:2]
        ):
            runs = len(self.scale)
            raise ValueError(
                f"expected cosines [{runs}, N, C] of {runs} runs with class indices [{runs}, N]; "
                f"got {list(cosine.shape)} and {list(target.shape)}"
            )
        dim = -1 if stacked else min(1, cosine.ndim - 1)
        if cosine.ndim and cosine.shape[dim] != self.classes:
            raise ValueError(
                f"the scale is for {self.classes} classes, and the cosines of shape "
                f"{list(cosine.shape)} have {cosine.shape[dim]}"
            )

    def _follow(self, cosine: Tensor, labels: Tensor) -> None:
        """Compute the scale from this batch and the previous scale."""
        if self.scale.ndim == 0:  # the samples in one dimension, the classes last
            cosine = torch.atleast_2d(cosine).movedim(1, -1).flatten(0, -2)
            labels = labels.flatten()
        scale = functional.adacos_scale(
            cosine,
            labels,
            self.scale,
            ignore_index=self.ignore_index,
            minimum_scale=self.minimum_scale,
            maximum_scale=self.maximum_scale,
        )
        update_state(
            self.scale,
            scale,
            owner="AdaCosLoss",
            instead="give a stack of R runs as [R, N, C] to AdaCosLoss(classes, runs=R)",
        )
        if self.maximum_scale is not None and extremes(self.scale, 0.0)[1] >= self.maximum_scale:
            warnings.warn(
                f"the scale of AdaCosLoss has reached maximum_scale={self.maximum_scale:g}: the "
                "wrong cosines are as large as the true ones, as with features that have "
                "collapsed; the published scale would grow without end",
                RuntimeWarning,
                stacklevel=5,
            )

    def logits(self, input: Tensor) -> Tensor:
        """Return the cosines times the current scale."""
        scale = self.scale
        if scale.ndim:
            scale = scale.reshape(-1, *[1] * (input.ndim - 1))
        return scale * input
