"""The losses as modules: they keep hyperparameters, options and state, and call :mod:`gdlib.functional`.

A module takes the arguments of its function but those that come with each call, in the same order
and with the same defaults. Formula, shapes, errors and sources are in the documentation of the
function. A hyperparameter is a number, a tensor, or a :class:`torch.nn.Parameter`, which gets
gradients; it may be set between steps. A tensor goes by keyword: PyTorch's modules take class
weights in the first place, so the modules here refuse one there with a TypeError.

Example:
    >>> from gdlib.heads import CosineLinear
    >>> head, loss_fn, features = CosineLinear(8, 3), ArcFaceLoss(scale=30.0), torch.ones(5, 8)
    >>> loss = loss_fn(head(features), torch.tensor([0, 1, 2, 0, 1]))
    >>> torch.softmax(loss_fn.logits(head(features)), 1).shape                       # the probabilities, which have no margin
    torch.Size([5, 3])
"""

from __future__ import annotations

import inspect
from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor, nn

from gdlib import functional
from gdlib.functional.options import POSITIONAL, Options, documented, over_classes

__all__ = [
    "AdaCosLoss",
    "ArcFaceLoss",
    "ArcGradLoss",
    "CenterLoss",
    "CosFaceLoss",
    "FocalLoss",
    "GDCrossEntropyLoss",
    "GaussianMixtureLoss",
    "GeneralizedCrossEntropyLoss",
    "LSoftmaxLoss",
    "LargeMarginLoss",
    "ModifiedCrossEntropyLoss",
    "MultiClassHingeLoss",
    "NegativeProbabilityLoss",
    "Poly1CrossEntropyLoss",
    "SoftMarginLoss",
    "SphereFaceLoss",
]


class Loss(nn.Module, ABC):
    """Keep the hyperparameters and the options of a loss, and call its function; abstract.

    A subclass names its function, and which of the function's arguments come with each call.
    """

    function: ClassVar[Callable[..., Tensor]]
    inputs: ClassVar[tuple[str, ...]] = ("input", "cosine", "distance", "target")
    __signature__: ClassVar[inspect.Signature]
    kept: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        """Take the signature from the function, unless the class is abstract too and names none."""
        if hasattr(cls, "function"):
            parameters = inspect.signature(cls.function).parameters.values()
            cls.__signature__ = cls.kept = inspect.Signature(
                [one for one in parameters if one.name not in cls.inputs]
            )

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__()
        if arguments and isinstance(arguments[0], Tensor):
            raise TypeError(POSITIONAL.format(next(iter(self.kept.parameters))))
        bound = self.kept.bind(*arguments, **keywords)
        bound.apply_defaults()
        self.names = tuple(bound.arguments)
        for name, value in bound.arguments.items():
            self.register_buffer(name, value) if name == "weight" else setattr(self, name, value)

    def keywords(self) -> dict[str, Any]:
        """Return the hyperparameters and the options as keyword arguments of the function."""
        return {name: getattr(self, name) for name in self.names}

    def forward(self, input: Tensor, target: Tensor, *rest: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return self.function(input, target, *rest, **self.keywords())

    def logits(self, input: Tensor, *rest: Tensor) -> Tensor:
        """Return what the predicted probabilities are the softmax of: logits without any margin, of the shape of the input."""
        return input

    def extra_repr(self) -> str:
        """Name the hyperparameters that shape the loss."""
        names = [name for name in self.names if name not in Options.__annotations__]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in [*names, "reduction"])


class GDCrossEntropyLoss(Loss):
    r"""Cross-entropy with probability-dependent gradient decay, as a drop-in for :class:`torch.nn.CrossEntropyLoss`.

    Formula, arguments, shapes, errors and sources are those of
    :func:`gdlib.functional.gd_cross_entropy`.

    The attribute ``beta`` may be set between steps, for example from a schedule of
    :mod:`gdlib.schedules`. ``torch.compile`` compiles for the first value of a β that is a Python
    float, and once more for all others; with ``dynamic=False``, and for numbers of other types, it
    compiles anew for each value, unless β is a tensor. Set it outside of what is compiled.

    Example:
        >>> loss_fn = GDCrossEntropyLoss(beta=0.1)
        >>> loss = loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
        >>> round(loss.item(), 4)
        -1.4467
        >>> loss_fn.beta = 1.0                                         # between steps
        >>> round(loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.1269
    """

    function = staticmethod(functional.gd_cross_entropy)
    temperature: float | Tensor

    def logits(self, input: Tensor, *rest: Tensor) -> Tensor:
        """Return the logits over τ."""
        return input / over_classes(self.temperature, input)


class SoftMarginLoss(Loss):
    """Apply the soft-margin softmax (M-Softmax): :func:`gdlib.functional.soft_margin_cross_entropy`."""

    function = staticmethod(functional.soft_margin_cross_entropy)


class ModifiedCrossEntropyLoss(Loss):
    """Apply LM's modified loss, the soft margin 1: :func:`gdlib.functional.modified_cross_entropy`."""

    function = staticmethod(functional.modified_cross_entropy)


class FocalLoss(Loss):
    """Apply the focal loss over the softmax: :func:`gdlib.functional.focal_cross_entropy`."""

    function = staticmethod(functional.focal_cross_entropy)


class GeneralizedCrossEntropyLoss(Loss):
    """Apply the generalised cross-entropy: :func:`gdlib.functional.generalized_cross_entropy`."""

    function = staticmethod(functional.generalized_cross_entropy)


class Poly1CrossEntropyLoss(Loss):
    """Apply the Poly-1 loss: :func:`gdlib.functional.poly1_cross_entropy`."""

    function = staticmethod(functional.poly1_cross_entropy)


class NegativeProbabilityLoss(Loss):
    """Apply 1 minus the probability: :func:`gdlib.functional.negative_probability`."""

    function = staticmethod(functional.negative_probability)


class MultiClassHingeLoss(Loss):
    """Apply the multi-class hinge loss: :func:`gdlib.functional.multi_class_hinge`."""

    function = staticmethod(functional.multi_class_hinge)


class LargeMarginLoss(Loss):
    """Apply the cross-entropy with LM's large-margin regulariser: :func:`gdlib.functional.large_margin_cross_entropy`."""

    function = staticmethod(functional.large_margin_cross_entropy)


class _Scaled(Loss, ABC):
    """A loss of cosines that a scale makes logits of; abstract."""

    scale: float | Tensor

    def logits(self, input: Tensor, *rest: Tensor) -> Tensor:
        """Return the cosines times the scale."""
        return over_classes(self.scale, input) * input


class ArcFaceLoss(_Scaled):
    """Apply ArcFace, a margin at the angle of the true class: :func:`gdlib.functional.arcface_cross_entropy`."""

    function = staticmethod(functional.arcface_cross_entropy)


class CosFaceLoss(_Scaled):
    """Apply CosFace, or AM-Softmax, a margin at the cosine of the true class: :func:`gdlib.functional.cosface_cross_entropy`."""

    function = staticmethod(functional.cosface_cross_entropy)


class _Annealed(Loss):
    """A loss whose margin comes in slowly; abstract.

    ``annealing`` may be a function of the number of training batches seen before; they are counted
    in the buffer ``steps``, which is read at each call: a compiled graph breaks there.
    """

    annealing: Any
    steps: Tensor

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def keywords(self) -> dict[str, Any]:
        """Return the arguments of the function, with the annealing of this batch."""
        keywords = super().keywords()
        if callable(self.annealing):
            keywords["annealing"] = self.annealing(int(self.steps))
            self.steps += self.training
        return keywords


class SphereFaceLoss(_Annealed):
    """Apply A-Softmax (SphereFace), the angle of the true class times a whole number: :func:`gdlib.functional.sphereface_cross_entropy`.

    In the original the norms of the features, a third input, are the scale. ``annealing`` may be a
    function of the batches before.
    """

    function = staticmethod(functional.sphereface_cross_entropy)
    scale: float | Tensor

    def forward(self, input: Tensor, target: Tensor, scale: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Compute the loss of a batch, with the norms of the features for a scale if they are given."""
        return (
            super().forward(input, target)
            if scale is None
            else self.function(input, target, **self.keywords() | {"scale": scale})
        )

    def logits(self, input: Tensor, *rest: Tensor) -> Tensor:
        """Return the cosines times the scale, or times the norms of the features."""
        return input * over_classes(rest[0] if rest else self.scale, input)


class LSoftmaxLoss(_Annealed):
    """Apply L-Softmax, with the norms of the class vectors as a third input: :func:`gdlib.functional.l_softmax_cross_entropy`.

    ``annealing`` may be a function of the number of training batches before.
    """

    function = staticmethod(functional.l_softmax_cross_entropy)
    inputs = ("input", "target", "norms")


class ArcGradLoss(Loss):
    """Apply ArcGrad, the cross-entropy of the negative scaled angles: :func:`gdlib.functional.arcgrad_cross_entropy`."""

    function = staticmethod(functional.arcgrad_cross_entropy)
    scale: float | Tensor | None
    gap: float | Tensor

    def logits(self, input: Tensor, *rest: Tensor) -> Tensor:
        """Return the negative angles times the scale."""
        scale = (
            functional.arcgrad_scale(self.gap, input.shape[min(1, input.ndim - 1)])
            if self.scale is None
            else self.scale
        )
        return -over_classes(scale, input) * functional.arccos(input)


@documented
class AdaCosLoss(Loss):
    r"""AdaCos: cross-entropy of scaled cosines, with a scale that is computed.

    Dynamic AdaCos computes the scale anew from each training batch, of class indices, and the scale
    before, and uses it for that batch. The scale is a buffer: it is kept with the model, and
    evaluation does not change it. The first batch starts from
    :func:`gdlib.functional.adacos_fixed_scale`.

    Args:
        classes: C >= 2. For C = 2 the published scale is and stays 0, so that nothing is learnt.
        dynamic: compute the scale from the batches; False for the fixed scale.
        minimum_scale: a lower bound that the paper does not have, such as
            ``adacos_fixed_scale(3)``; None for none.
        runs: R, if the cosines are those of a stack of runs, ``[R, N, C]``, each with a scale of
            its own; None for one run.

    Example:
        >>> loss_fn = AdaCosLoss(classes=3)
        >>> cosine, labels = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 1])
        >>> loss = loss_fn(cosine, labels)
        >>> round(loss_fn.scale.item(), 4)                                        # log 2, from a batch of right angles
        0.6931
    """

    function = staticmethod(functional.adacos_cross_entropy)
    inputs = ("cosine", "target", "scale")
    scale: Tensor

    def __init__(
        self,
        classes: int,
        *,
        dynamic: bool = True,
        minimum_scale: float | None = None,
        runs: int | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(**options)
        self.dynamic, self.minimum_scale = dynamic, minimum_scale
        start = max(functional.adacos_fixed_scale(classes), minimum_scale or 0.0)
        self.register_buffer("scale", torch.full(() if runs is None else (runs,), start))

    def forward(self, input: Tensor, target: Tensor, *rest: Tensor) -> Tensor:
        """Compute the loss of a batch; in training the scale follows first."""
        if self.dynamic and self.training:
            options: dict[str, Any] = {
                "ignore_index": self.ignore_index,
                "minimum_scale": self.minimum_scale,
            }
            cosine, labels = input.detach(), target
            if self.scale.ndim == 0:  # the samples in one row, the classes behind them
                cosine, labels = (
                    torch.atleast_2d(cosine).movedim(1, -1).flatten(0, -2),
                    target.flatten(),
                )
            self.scale.copy_(functional.adacos_scale(cosine, labels, self.scale, **options))
        if self.scale.ndim == 0:
            return functional.adacos_cross_entropy(
                input, target, self.scale.clone(), **self.keywords()
            )
        scale = self.scale.repeat_interleave(target.shape[1])
        loss = functional.adacos_cross_entropy(
            input.flatten(0, 1), target.flatten(), scale, **self.keywords()
        )
        return loss.unflatten(0, target.shape) if self.reduction == "none" else loss

    def logits(self, input: Tensor, *rest: Tensor) -> Tensor:
        """Return the cosines times the scale as it is."""
        return (
            self.scale.reshape(-1, *[1] * (input.ndim - 1)) * input
            if self.scale.ndim
            else self.scale * input
        )

    def extra_repr(self) -> str:
        """Name what shapes the loss."""
        return f"dynamic={self.dynamic}, minimum_scale={self.minimum_scale}, reduction={self.reduction!r}"


class CenterLoss(Loss):
    """Apply the center loss, called with the centres as a third input: :func:`gdlib.functional.center_loss`."""

    function = staticmethod(functional.center_loss)
    inputs = ("features", "target", "centers")


class GaussianMixtureLoss(Loss):
    """Apply LGM, a Gaussian for each class, on a GaussianMixtureHead: :func:`gdlib.functional.gaussian_mixture_cross_entropy`.

    It is called with distances, labels and, unless all covariances are 1, half the
    log-determinants.
    """

    function = staticmethod(functional.gaussian_mixture_cross_entropy)
    inputs = ("distance", "target", "half_log_determinant")

    def forward(  # type: ignore[override]
        self, distance: Tensor, target: Tensor, half_log_determinant: Tensor | None = None
    ) -> Tensor:
        """Compute the loss of a batch."""
        return self.function(
            distance, target, half_log_determinant=half_log_determinant, **self.keywords()
        )

    def logits(self, input: Tensor, *rest: Tensor) -> Tensor:
        """Return the logarithms of the densities, without their common constant."""
        return -input - rest[0] if rest else -input
