"""The losses that a cross-validation compares, by name: which head each needs, and what it minimises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from gdlib import functional
from gdlib.train import Loss

__all__ = ["METHODS", "Method", "method"]

Maker = Callable[["Method", int], Loss]
"""From a method and the number of classes to its loss."""


@dataclass(frozen=True)
class Method:
    """A loss with its numbers, and the head that it needs.

    Attributes:
        name: one of :data:`METHODS`.
        numbers: its hyperparameters, in the order that :data:`METHODS` says.
        head: of :class:`gdlib.models.HeadedMLP`.
        with_features: whether the loss sees the features too.
        make: makes the loss for a number of classes.
    """

    name: str
    numbers: tuple[float, ...]
    head: str
    with_features: bool
    make: Maker

    def loss(self, classes: int) -> Loss:
        """A new loss for a stack of runs. It may keep a state from step to step (AdaCos, center loss), and so serves one training."""
        return self.make(self, classes)


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
        raise ValueError(
            f"unknown method {text!r}; valid: {', '.join(' '.join([key, *words]) for key, (_, _, words, _) in METHODS.items())}"
        )
    head, with_features, words, make = METHODS[name]
    try:
        values = tuple(float(number) for number in numbers)
    except ValueError as error:
        raise ValueError(f"method {text!r}: after the name come numbers ({', '.join(words) or 'none'})") from error
    if len(values) != len(words):
        raise ValueError(f"method {text!r}: {name} has {len(words)} numbers ({', '.join(words) or 'none'}); got {len(values)}")
    return Method(name, values, head, with_features, make)


def _pointwise(loss: Callable[..., Tensor], *names: str) -> Maker:
    """A loss that treats every sample by itself, with its numbers under these argument names."""

    def make(chosen: Method, classes: int) -> Loss:
        arguments = dict(zip(names, chosen.numbers, strict=True))

        def loss_fn(logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
            return loss(logits.flatten(0, 1), labels.flatten(), reduction="none", **arguments).unflatten(0, labels.shape)

        return loss_fn

    return make


def _center(chosen: Method, classes: int) -> Loss:
    """Cross-entropy plus the center loss; the centres start at 0 and follow the features as in the original, at a rate of 1/2."""
    (factor,) = chosen.numbers
    centers: Tensor | None = None

    def loss_fn(outputs: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        nonlocal centers
        logits, features = outputs.split([classes, outputs.shape[2] - classes], dim=2)
        if centers is None:
            centers = features.new_zeros(len(features), classes, features.shape[2])
        distance = functional.center_loss(features, labels, centers, reduction="none")
        centers = functional.center_update(features.detach(), labels, centers)
        return _cross_entropy(logits, labels) + factor * distance

    return loss_fn


def _adacos(chosen: Method, classes: int) -> Loss:
    """Dynamic AdaCos, with a scale for each run; a number is a lower bound for it, which the paper does not have."""
    minimum = chosen.numbers[0] if chosen.numbers else None
    start = functional.adacos_fixed_scale(classes)
    scale: Tensor | None = None

    def loss_fn(cosine: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        nonlocal scale
        before = cosine.new_full((len(cosine),), max(start, minimum or 0.0)) if scale is None else scale
        scale = functional.adacos_scale(cosine.detach(), labels, before, minimum_scale=minimum)
        return _cross_entropy(scale[:, None, None] * cosine, labels)

    return loss_fn


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").unflatten(0, labels.shape)


METHODS: Mapping[str, tuple[str, bool, tuple[str, ...], Maker]] = {
    "softmax": ("linear", False, (), _pointwise(F.cross_entropy)),
    "center": ("linear", True, ("lambda",), _center),
    "m-softmax": ("linear", False, ("margin",), _pointwise(functional.soft_margin_cross_entropy, "margin")),
    "arcface": ("cosine", False, ("scale", "margin"), _pointwise(functional.arcface_cross_entropy, "scale", "margin")),
    "adacos": ("cosine", False, (), _adacos),
    "guarded-adacos": ("cosine", False, ("smallest scale",), _adacos),
    "arcgrad": ("cosine", False, ("scale",), _pointwise(functional.arcgrad_cross_entropy, "scale")),
    "gd": ("linear", False, ("beta",), _pointwise(functional.gd_cross_entropy, "beta")),
    "lm": ("linear", False, ("lambda",), _pointwise(functional.large_margin_cross_entropy, "reg_lambda")),
}
"""For each method its head, whether it sees the features, the names of its numbers, and how its loss is made."""
