"""The losses that are compared, by name: which last layer each needs, what it minimises, and what its probabilities are the softmax of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib import functional

__all__ = ["METHODS", "Method", "MethodLoss", "method"]

_CENTER_RATE = 0.5
_ANNEALING_START, _ANNEALING_FALL, _ANNEALING_END = 1500.0, 0.1, 5.0


class MethodLoss(nn.Module):
    """A loss for a stack of runs, with what it remembers from step to step.

    Called with the outputs ``[R, N, K]`` of the last layer, class indices ``[R, N]`` and one β for each run, which only gradient decay
    heeds; returns the loss of every sample ``[R, N]``. It serves one training. What it remembers is part of its ``state_dict``, and so of
    a checkpoint.

    Args:
        classes: C; the first C of the K outputs are those that classify.
    """

    state: Tensor | None

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.register_buffer("state", None, persistent=False)  # its shape is known with the first batch only

    def logits(self, outputs: Tensor) -> Tensor:
        """What the probabilities are the softmax of, ``[R, N, C]``; no margin is in it."""
        return outputs[..., : self.classes]

    def get_extra_state(self) -> dict[str, Tensor | None]:
        """What is remembered."""
        return {"state": self.state}

    def set_extra_state(self, state: Mapping[str, Tensor | None]) -> None:
        """Remember it again."""
        self.state = state["state"]


@dataclass(frozen=True)
class Method:
    """A loss with its numbers, and the last layer that it needs.

    Attributes:
        name: one of :data:`METHODS`.
        numbers: its hyperparameters, in the order that :data:`METHODS` says.
        head: the last layer, one of :data:`gdlib.models.HEADS`.
        with_features: whether the loss sees the features too.
        keeps_state: whether the loss remembers something from step to step, so that a step cannot be recorded and replayed.
        make: makes the loss for a number of classes.
    """

    name: str
    numbers: tuple[float, ...]
    head: str
    with_features: bool
    keeps_state: bool
    make: Maker

    def loss(self, classes: int) -> MethodLoss:
        """A new loss for a stack of runs."""
        return self.make(self, classes)


Maker = Callable[["Method", int], MethodLoss]
"""From a method and the number of classes to its loss."""


def method(text: str) -> Method:
    """A method from its name and its numbers, such as ``"arcface 20 0.1"``.

    Raises:
        ValueError: for an unknown name or a wrong number of numbers; the message names the valid ones.

    Example:
        >>> found = method("arcgrad 5")
        >>> found.head, found.numbers
        ('cosine', (5.0,))
    """
    name, *numbers = text.split() or [""]
    if name not in METHODS:
        raise ValueError(f"unknown method {text!r}; valid: {', '.join(' '.join([key, *kind.numbers]) for key, kind in METHODS.items())}")
    kind = METHODS[name]
    try:
        values = tuple(float(number) for number in numbers)
    except ValueError as error:
        raise ValueError(f"method {text!r}: after the name come numbers ({', '.join(kind.numbers) or 'none'})") from error
    if len(values) != len(kind.numbers):
        raise ValueError(
            f"method {text!r}: {name} has {len(kind.numbers)} numbers ({', '.join(kind.numbers) or 'none'}); got {len(values)}"
        )
    return Method(name, values, kind.head, kind.with_features, kind.keeps_state, kind.make)


class _Pointwise(MethodLoss):
    """A loss that treats every sample by itself."""

    def __init__(self, classes: int, loss: Callable[..., Tensor], arguments: Mapping[str, Any]) -> None:
        super().__init__(classes)
        self.loss = loss
        self.arguments = dict(arguments)

    def forward(self, outputs: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        """The losses."""
        return self.loss(outputs.flatten(0, 1), labels.flatten(), reduction="none", **self.arguments).unflatten(0, labels.shape)


class _Cosine(_Pointwise):
    """The same of cosines, which a scale makes logits of."""

    def logits(self, outputs: Tensor) -> Tensor:
        """The cosines times the scale."""
        return self.arguments["scale"] * outputs


class _Angle(_Pointwise):
    """The same of angles."""

    def logits(self, outputs: Tensor) -> Tensor:
        """The negative angles times the scale."""
        return -self.arguments["scale"] * functional.arccos(outputs)


class _GaussianMixture(MethodLoss):
    """LGM of half the negative squared distances from the class means."""

    def __init__(self, classes: int, margin: float, likelihood_weight: float) -> None:
        super().__init__(classes)
        self.numbers = (margin, likelihood_weight)

    def forward(self, outputs: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        """The losses."""
        losses = functional.gaussian_mixture_cross_entropy(-outputs.flatten(0, 1), labels.flatten(), *self.numbers, reduction="none")
        return losses.unflatten(0, labels.shape)


class _Center(MethodLoss):
    """Cross-entropy plus the center loss; the centres start at 0 and follow the features as in the original, at a rate of 1/2."""

    def __init__(self, classes: int, factor: float) -> None:
        super().__init__(classes)
        self.factor = factor

    def forward(self, outputs: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        """The losses."""
        logits, features = outputs.split([self.classes, outputs.shape[2] - self.classes], dim=2)
        if self.state is None:
            self.state = features.new_zeros(len(features), self.classes, features.shape[2])
        centers = self.state.to(features.device)  # a checkpoint is read on the CPU
        distance = functional.center_loss(features, labels, centers, reduction="none")
        self.state = functional.center_update(features.detach(), labels, centers, _CENTER_RATE)
        return _cross_entropy(logits, labels) + self.factor * distance


class _AdaCos(MethodLoss):
    """Dynamic AdaCos, with a scale for each run, and a lower bound for it, which the paper does not have."""

    def __init__(self, classes: int, minimum: float | None = None) -> None:
        super().__init__(classes)
        self.minimum = minimum
        self.start = max(functional.adacos_fixed_scale(classes), minimum or 0.0)

    def forward(self, outputs: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        """The losses, after the scale was set by this batch."""
        self.state = functional.adacos_scale(outputs.detach(), labels, self._scale(outputs), minimum_scale=self.minimum)
        return _cross_entropy(self.state[:, None, None] * outputs, labels)

    def logits(self, outputs: Tensor) -> Tensor:
        """The cosines times the scale as it is."""
        return self._scale(outputs)[:, None, None] * outputs

    def _scale(self, outputs: Tensor) -> Tensor:
        return outputs.new_full((len(outputs),), self.start) if self.state is None else self.state.to(outputs.device)


class _Annealed(MethodLoss):
    r"""L-Softmax or A-Softmax, whose margin comes in slowly.

    The plain cosine has the weight :math:`\lambda = \max(5, 1500 / (1 + 0.1\,t))` beside the changed one in step t, the schedule that is
    usual with these losses; both papers say only that it falls.

    Args:
        classes: C.
        margin: the multiple of the angle, a whole number.
        normalized: A-Softmax, of cosines followed by the features, whose length is the scale; else L-Softmax, of logits followed by the
            products of the lengths.
    """

    def __init__(self, classes: int, margin: float, normalized: bool) -> None:
        super().__init__(classes)
        if margin != int(margin):
            raise ValueError(f"the margin multiplies an angle: it must be a whole number; got {margin:g}")
        self.margin, self.normalized = int(margin), normalized

    def forward(self, outputs: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        """The losses of the next step."""
        if self.state is None:
            self.state = torch.zeros(())
        annealing = max(_ANNEALING_END, _ANNEALING_START / (1 + _ANNEALING_FALL * float(self.state)))
        self.state = self.state + 1
        values, rest = outputs[..., : self.classes].flatten(0, 1), outputs[..., self.classes :].flatten(0, 1)
        options: dict[str, Any] = {"annealing": annealing, "reduction": "none"}
        if self.normalized:
            losses = functional.sphereface_cross_entropy(values, labels.flatten(), rest.norm(dim=1), self.margin, **options)
        else:
            losses = functional.l_softmax_cross_entropy(values, labels.flatten(), rest, self.margin, **options)
        return losses.unflatten(0, labels.shape)

    def logits(self, outputs: Tensor) -> Tensor:
        """The products of features and class vectors, these of length 1 in A-Softmax."""
        values = outputs[..., : self.classes]
        return values * outputs[..., self.classes :].norm(dim=-1, keepdim=True) if self.normalized else values


def _pointwise(loss: Callable[..., Tensor], *names: str, kind: type[_Pointwise] = _Pointwise, **fixed: Any) -> Maker:
    """A loss that treats every sample by itself, with its numbers under these argument names."""
    return lambda chosen, classes: kind(classes, loss, dict(zip(names, chosen.numbers, strict=True)) | fixed)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").unflatten(0, labels.shape)


class _Kind(NamedTuple):
    """What a name stands for: last layer, whether the loss sees the features, the names of its numbers, how it is made."""

    head: str
    with_features: bool
    numbers: tuple[str, ...]
    make: Maker
    keeps_state: bool = False


_lm = functional.large_margin_cross_entropy

METHODS: Mapping[str, _Kind] = {
    "softmax": _Kind("linear", False, (), _pointwise(F.cross_entropy)),
    "label-smoothing": _Kind("linear", False, ("lambda",), _pointwise(F.cross_entropy, "label_smoothing")),
    "super-symmetry": _Kind("super-symmetric", False, (), _pointwise(F.cross_entropy)),
    "hinge": _Kind("linear", False, (), _pointwise(functional.multi_class_hinge)),
    "modified": _Kind("linear", False, (), _pointwise(functional.modified_cross_entropy)),
    "gd": _Kind("linear", False, ("beta",), _pointwise(functional.gd_cross_entropy, "beta")),
    "lm": _Kind("linear", False, ("lambda",), _pointwise(_lm, "reg_lambda")),
    "lm-qu": _Kind("linear", False, ("lambda",), _pointwise(_lm, "reg_lambda", divergence="q_u")),
    "lm-uq": _Kind("linear", False, ("lambda",), _pointwise(_lm, "reg_lambda", divergence="u_q")),
    "modified-lm": _Kind("linear", False, ("lambda",), _pointwise(_lm, "reg_lambda", margin=1.0)),
    "m-softmax": _Kind("linear", False, ("margin",), _pointwise(functional.soft_margin_cross_entropy, "margin")),
    "center": _Kind("linear", True, ("lambda",), lambda chosen, classes: _Center(classes, *chosen.numbers), True),
    "l-softmax": _Kind("normed", False, ("margin",), lambda chosen, classes: _Annealed(classes, chosen.numbers[0], normalized=False), True),
    "a-softmax": _Kind("cosine", True, ("margin",), lambda chosen, classes: _Annealed(classes, chosen.numbers[0], normalized=True), True),
    "lgm": _Kind("gaussian", False, ("margin", "lambda"), lambda chosen, classes: _GaussianMixture(classes, *chosen.numbers)),
    "arcface": _Kind("cosine", False, ("scale", "margin"), _pointwise(functional.arcface_cross_entropy, "scale", "margin", kind=_Cosine)),
    "adacos": _Kind("cosine", False, (), lambda chosen, classes: _AdaCos(classes), True),
    "guarded-adacos": _Kind("cosine", False, ("smallest scale",), lambda chosen, classes: _AdaCos(classes, *chosen.numbers), True),
    "arcgrad": _Kind("cosine", False, ("scale",), _pointwise(functional.arcgrad_cross_entropy, "scale", kind=_Angle)),
}
"""For each method its last layer, whether it sees the features, the names of its numbers, and how its loss is made."""
