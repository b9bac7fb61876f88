"""Losses on angles as modules: margins at the angle or the cosine, and scales that are computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.functional._arguments import (
    check_annealing,
    check_boolean,
    check_classes,
    check_multiple,
    check_runs,
    extremes,
    hyperparameter,
    keep,
    over_classes,
    tensor_by_keyword,
)
from gdlib.functional.angular import (
    adacos_next_scale,
    adacos_statistics,
    check_scale_bounds,
    fixed_scale,
    scaled_angles,
)
from gdlib.losses._base import Loss
from gdlib.losses._training import computes_again, of_all_processes


class ArcFaceLoss(Loss):
    r"""Apply ArcFace, a margin at the angle of the true class, to cosines.

    .. math:: z_c = s \cos(\theta_c + m), \qquad z_i = s \cos\theta_i

    are the logits of a cross-entropy. As a function it is
    :func:`gdlib.functional.arcface_cross_entropy`, which has the rest.

    Attributes:
        scale: :math:`s > 0`; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        margin: :math:`m \ge 0` in radians, as ``scale``.
        monotone: keep the true logit falling up to :math:`\theta = \pi`.

    Example:
        >>> from gdlib.heads import CosineLinear
        >>> head, loss_fn = CosineLinear(8, 3), ArcFaceLoss(scale=30.0)
        >>> cosines = head(torch.ones(5, 8))
        >>> loss = loss_fn(cosines, torch.tensor([0, 1, 2, 0, 1]))
        >>> torch.softmax(loss_fn.logits(cosines), 1).shape  # the probabilities, without a margin
        torch.Size([5, 3])
    """

    scale: float | Tensor
    margin: float | Tensor
    monotone: bool

    _function = staticmethod(functional.arcface_cross_entropy)
    _checks = {
        "scale": hyperparameter("scale", "> 0"),
        "margin": hyperparameter("margin", ">= 0"),
        "monotone": check_boolean("monotone"),
    }

    @tensor_by_keyword("scale", 1)
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.scale = scale
        self.margin = margin
        self.monotone = monotone

    def logits(self, input: Tensor) -> Tensor:
        """Return the cosines times the scale, of which the probabilities are the softmax."""
        logits: Tensor = over_classes(self.scale, input) * input
        return logits


class CosFaceLoss(Loss):
    r"""Apply CosFace, or AM-Softmax, a margin at the cosine of the true class, to cosines.

    .. math:: z_c = s (\cos\theta_c - m), \qquad z_i = s \cos\theta_i

    are the logits of a cross-entropy. As a function it is
    :func:`gdlib.functional.cosface_cross_entropy`, which has the rest.

    Attributes:
        scale: :math:`s > 0`; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        margin: :math:`m \ge 0` in units of the cosine, as ``scale``.

    Example:
        >>> loss_fn = CosFaceLoss(scale=2.0, margin=0.5)
        >>> round(loss_fn(torch.tensor([[0.5, 0.0]]), torch.tensor([0])).item(), 4)
        0.6931
    """

    scale: float | Tensor
    margin: float | Tensor

    _function = staticmethod(functional.cosface_cross_entropy)
    _checks = {
        "scale": hyperparameter("scale", "> 0"),
        "margin": hyperparameter("margin", ">= 0"),
    }

    @tensor_by_keyword("scale", 1)
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
        self.scale = scale
        self.margin = margin

    def logits(self, input: Tensor) -> Tensor:
        """Return the cosines times the scale, of which the probabilities are the softmax."""
        logits: Tensor = over_classes(self.scale, input) * input
        return logits


def _check_annealing(annealing: Any) -> None:
    """Refuse what is neither a weight of the plain cosine nor a function that returns one."""
    if not callable(annealing):
        check_annealing(annealing)


class AnnealedLoss(Loss):
    """A loss whose margin comes in slowly; abstract.

    ``annealing`` may be a function of the number of training batches seen before; they are counted
    in the buffer ``steps``, which is read at each call: a compiled graph breaks there.
    """

    annealing: float | Callable[[int], float]
    steps: Tensor

    def __init__(
        self,
        annealing: float | Callable[[int], float],
        weight: Tensor | None,
        ignore_index: int,
        reduction: Reduction,
        label_smoothing: float,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.annealing = annealing
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {"annealing": self._next_annealing()}

    def _next_annealing(self) -> float:
        """Return the annealing of this batch, and count the batch in training.

        A batch that activation checkpointing computes again is the last one, and counts once.
        """
        if not callable(self.annealing):
            return self.annealing
        if not self.training:
            return self.annealing(int(self.steps))
        if computes_again():
            return self.annealing(int(self.steps) - 1)
        annealing = self.annealing(int(self.steps))
        keep(
            self.steps,
            self.steps + 1,
            owner=type(self).__name__,
            instead="give the annealing as a number",
        )
        return annealing


class SphereFaceLoss(AnnealedLoss):
    r"""Apply A-Softmax (SphereFace), the angle of the true class times a whole number, to cosines.

    .. math:: z_c = s\, \psi(\theta_c), \qquad z_i = s \cos\theta_i

    are the logits of a cross-entropy, where :math:`\psi` falls like :math:`\cos m\theta`. In the
    original the norms of the features are the scale: give them with each batch. As a function it
    is :func:`gdlib.functional.sphereface_cross_entropy`, which has the rest.

    Attributes:
        scale: :math:`s \ge 0` where none is given with the batch; a number, a tensor that
            broadcasts to the class indices, or a :class:`torch.nn.Parameter`, which is learnt. A
            tensor goes by keyword.
        margin: :math:`m`, a whole number >= 1.
        annealing: the weight :math:`\lambda \ge 0` of the plain cosine, or a function of the number
            of training batches before, which returns it.

    Example:
        >>> loss_fn = SphereFaceLoss(scale=2.0, margin=2)
        >>> round(loss_fn(torch.tensor([[0.5, -1.0]]), torch.tensor([0])).item(), 4)
        0.3133
    """

    scale: float | Tensor
    margin: int

    _function = staticmethod(functional.sphereface_cross_entropy)
    _checks = {
        "scale": hyperparameter("scale", ">= 0"),
        "margin": check_multiple,
        "annealing": _check_annealing,
    }

    @tensor_by_keyword("scale", 1)
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
        self.scale = scale
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor, scale: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch from its cosines and its labels.

        Args:
            input: cosines.
            target: labels.
            scale: the norms of the features, one for each sample; None for the attribute.
        """
        given = {} if scale is None else {"scale": scale}
        return self._function(input, target, **self._arguments() | given)

    if TYPE_CHECKING:  # it takes more than other losses

        def __call__(self, input: Tensor, target: Tensor, scale: Tensor | None = None) -> Tensor:
            """Compute as :meth:`forward`."""
            ...

    def logits(self, input: Tensor, scale: Tensor | None = None) -> Tensor:
        """Return the cosines times the scale, or times the norms of the features."""
        logits: Tensor = input * over_classes(self.scale if scale is None else scale, input)
        return logits


class LSoftmaxLoss(AnnealedLoss):
    r"""Apply L-Softmax, which is A-Softmax with the norms of the class vectors kept, to logits.

    .. math:: z_c = \lVert w_c \rVert \lVert h \rVert \psi(\theta_c), \qquad z_i = w_i^T h

    are the logits of a cross-entropy. As a function it is
    :func:`gdlib.functional.l_softmax_cross_entropy`, which has the rest.

    Attributes:
        margin: :math:`m`, a whole number >= 1.
        annealing: the weight :math:`\lambda \ge 0` of the plain cosine, or a function of the number
            of training batches before, which returns it.

    Example:
        >>> loss_fn, norms = LSoftmaxLoss(margin=2), torch.tensor([[2.0, 2.0]])
        >>> round(loss_fn(torch.tensor([[1.0, -2.0]]), torch.tensor([0]), norms=norms).item(), 4)
        0.3133
    """

    margin: int

    _function = staticmethod(functional.l_softmax_cross_entropy)
    _checks = {"margin": check_multiple, "annealing": _check_annealing}

    @tensor_by_keyword("margin", 1)
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
        self.margin = margin

    def forward(  # type: ignore[override]
        self, input: Tensor, target: Tensor, norms: Tensor
    ) -> Tensor:
        r"""Compute the loss of a batch from its logits and its labels.

        Args:
            input: logits :math:`w_i^T h` of a layer without bias.
            target: labels.
            norms: :math:`\lVert w_i \rVert \lVert h \rVert`, of a shape that broadcasts to that
                of ``input``; :class:`gdlib.heads.NormedLinear` makes both.
        """
        return self._function(input, target, norms, **self._arguments())

    if TYPE_CHECKING:  # it takes more than other losses

        def __call__(  # type: ignore[override]
            self, input: Tensor, target: Tensor, norms: Tensor
        ) -> Tensor:
            """Compute as :meth:`forward`."""
            ...

    def logits(self, input: Tensor, norms: Tensor | None = None) -> Tensor:
        """Return the logits as they are: they have no margin, and need no norms."""
        return input


class ArcGradLoss(Loss):
    r"""Apply ArcGrad, the cross-entropy of the negative scaled angles, to cosines.

    .. math:: z_i = -s\, \theta_i

    As a function it is :func:`gdlib.functional.arcgrad_cross_entropy`, which has the rest. Give
    either ``scale`` or ``gap``; to change from one to the other, set the first to None, also where
    it is learnt.

    Attributes:
        scale: :math:`s > 0` in 1/radian; a number, a tensor that broadcasts to the class indices,
            or a :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        gap: instead of a scale, the gap in radians, > 0, that
            :func:`gdlib.functional.arcgrad_scale` makes it from; as ``scale``.

    Example:
        >>> loss_fn = ArcGradLoss(scale=2.0)
        >>> round(loss_fn(torch.tensor([[1.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.0423
    """

    scale: float | Tensor | None
    gap: float | Tensor | None

    _function = staticmethod(functional.arcgrad_cross_entropy)
    _checks = {
        "scale": hyperparameter("scale", "> 0", or_none=True),
        "gap": hyperparameter("gap", "> 0", or_none=True),
    }

    @tensor_by_keyword("scale", 1)
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        if (scale is None) == (gap is None):
            raise ValueError("give either scale or gap, and not both")
        self.scale = scale
        self.gap = gap

    def __setattr__(self, name: str, value: Tensor | torch.nn.Module) -> None:
        other, given = {"scale": "gap", "gap": "scale"}.get(name), cast(object, value)
        if other is not None and given is not None and getattr(self, other, None) is not None:
            raise ValueError(f"give either scale or gap, and not both; set {other} = None first")
        if other is not None and given is None:
            self._parameters.pop(name, None)  # what was learnt
        super().__setattr__(name, value)

    def logits(self, input: Tensor) -> Tensor:
        """Return the negative angles times the scale: the softmax of them is the probabilities."""
        scale = self.scale
        if scale is None:
            if self.gap is None:
                raise ValueError("give either scale or gap, and not both")
            scale = functional.arcgrad_scale(self.gap, input.shape[min(1, input.ndim - 1)])
        return scaled_angles(input, over_classes(scale, input))


class AdaCosLoss(Loss):
    r"""Apply AdaCos, the cross-entropy of scaled cosines with a scale that is computed, to cosines.

    .. math:: z_i = s \cos\theta_i

    Dynamic AdaCos computes the scale anew from each training batch, of class indices, and the scale
    before (:func:`gdlib.functional.adacos_scale`), and uses it for that batch. The scale is a
    buffer: it is kept with the model, and evaluation does not change it. The first batch starts
    from :math:`\sqrt 2 \log(C - 1)`, or from ``minimum_scale`` where that is larger. Processes that
    train together, as with DistributedDataParallel, have one scale: that of their batches together.
    Where activation checkpointing computes a batch again, the scale stays; let the backward pass of
    a batch come before the next batch. As a function of a given scale it is
    :func:`gdlib.functional.adacos_cross_entropy`, which has the rest.

    Attributes:
        classes: C >= 2, as many as the cosines have. For C = 2 the published scale is and stays 0,
            so that nothing is learnt.
        dynamic: compute the scale from the batches; False for the fixed scale.
        minimum_scale: a lower bound that the paper does not have, such as 0.98, with which three
            classes start; None for none.
        maximum_scale: an upper bound of the size of the scale that the paper does not have; None
            for none. Where all cosines come near 1, as those of features that have collapsed, the
            published scale grows by up to :math:`\sqrt 2` with each batch, without end. A scale of
            1,000 is some fifteen times the largest in common use, ArcFace's 64. A scale that
            reaches the bound on a CPU gives a RuntimeWarning.
        runs: R, if the cosines are those of a stack of runs, ``[R, N, C]``, each with a scale of
            its own; None for one run.
        process_group: the processes that train together; None for all of torch.distributed, if that
            is in use.

    Example:
        >>> loss_fn = AdaCosLoss(classes=3)
        >>> cosine, labels = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1])
        >>> loss = loss_fn(cosine, labels)
        >>> round(loss_fn.scale.item(), 4)  # log 2, from a batch of right angles
        0.6931
    """

    scale: Tensor
    classes: int
    dynamic: bool
    minimum_scale: float | None
    maximum_scale: float | None

    _checks = {
        "classes": check_classes,
        "dynamic": check_boolean("dynamic"),
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
        process_group: torch.distributed.ProcessGroup | None = None,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.classes = classes
        self.dynamic = dynamic
        check_scale_bounds(minimum_scale, maximum_scale)
        self.minimum_scale = minimum_scale
        self.maximum_scale = maximum_scale
        check_runs(runs)
        self.process_group = process_group
        start = max(fixed_scale(classes), minimum_scale or 0.0)
        if maximum_scale is not None:
            start = min(start, maximum_scale)
        self.register_buffer("scale", torch.full(() if runs is None else (runs,), start))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its cosines and its labels.

        In training the scale follows the batch first.
        """
        self._check_shapes(input, target)
        if self.dynamic and self.training and not computes_again():
            self._follow(input.detach(), target)
        if self.scale.ndim == 0:
            return self._loss(input, target, self.scale.clone())
        scale = self.scale.repeat_interleave(target.shape[1])
        loss = self._loss(input.flatten(0, 1), target.flatten(), scale)
        return loss.unflatten(0, target.shape) if self.reduction == "none" else loss

    def _check_shapes(self, cosine: Tensor, target: Tensor) -> None:
        """Refuse other classes than the scale is for, and what is no stack of its runs."""
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
        if cosine.ndim == 0:
            raise ValueError(
                "cosines must have a class dimension: shape [C], [N, C] or [N, C, d1, ...], got a "
                "scalar"
            )
        classes = cosine.shape[-1 if stacked else min(1, cosine.ndim - 1)]
        if classes != self.classes:
            raise ValueError(
                f"the scale is for {self.classes} classes, and the cosines of shape "
                f"{list(cosine.shape)} have {classes}"
            )

    def _follow(self, cosine: Tensor, labels: Tensor) -> None:
        """Compute the scale from this batch and the scale before."""
        if self.scale.ndim == 0:  # the samples in one row, the classes behind them
            cosine = torch.atleast_2d(cosine).movedim(1, -1).flatten(0, -2)
            labels = labels.flatten()
        own = adacos_statistics(cosine, labels, self.scale, ignore_index=self.ignore_index)
        together = of_all_processes(own, self.process_group)
        keep(
            self.scale,
            adacos_next_scale(together, self.minimum_scale, self.maximum_scale),
            owner="AdaCosLoss",
            instead="give a stack of R runs as [R, N, C] to AdaCosLoss(classes, runs=R)",
        )
        if self.maximum_scale is not None and extremes(self.scale)[1] >= self.maximum_scale:
            warnings.warn(
                f"the scale of AdaCosLoss has reached maximum_scale={self.maximum_scale:g}: the "
                "wrong cosines are as large as the true ones, as those of features that have "
                "collapsed; the published scale would grow without end",
                RuntimeWarning,
                stacklevel=5,
            )

    def _loss(self, cosine: Tensor, target: Tensor, scale: Tensor) -> Tensor:
        options = {name: getattr(self, name) for name in self._options}
        return functional.adacos_cross_entropy(cosine, target, scale=scale, **options)

    def logits(self, input: Tensor) -> Tensor:
        """Return the cosines times the scale as it is."""
        scale = self.scale
        if scale.ndim:
            scale = scale.reshape(-1, *[1] * (input.ndim - 1))
        return scale * input
