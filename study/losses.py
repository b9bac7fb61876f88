"""The losses that are compared, by name, in one table.

The table has their module, last layer, numbers, name on a page and colour. This module imports no
torch, because pages read it too; :mod:`study.objective` makes the losses.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from study.mistakes import nearest

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?(inf|nan)", re.ASCII)

Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[Finite, Field(gt=0)]
NotNegative = Annotated[Finite, Field(ge=0)]


@dataclass(frozen=True)
class Number:
    """A hyperparameter that is written behind the name of a loss."""

    name: str  # in words
    argument: str  # of the module
    symbol: str  # on a page
    type: Any = NotNegative


@dataclass(frozen=True)
class Kind:
    """A row of the table."""

    module: str  # a class of gdlib.losses; "CrossEntropyLoss" is PyTorch's
    title: str  # on a page
    color: str
    line: str  # style in figures
    head: str = "linear"  # the last layer that it needs; study.networks.MLP_HEADS are built here
    numbers: tuple[Number, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # further arguments of the module
    with_features: bool = False


_BETA = Number("beta", "beta", "β", Positive)
_FACTOR = Number("lambda", "", "λ")
_LIKELIHOOD = Number("lambda", "likelihood_weight", "λ")
_MARGIN = Number("margin", "margin", "m")
_SMALLEST = Number("smallest scale", "minimum_scale", "s ≥", Positive)
_LAMBDA = Number("lambda", "reg_lambda", "λ")
_MULTIPLE = Number("margin", "margin", "m", Annotated[int, Field(ge=1)])
_SMOOTHING = Number("lambda", "label_smoothing", "λ", Annotated[NotNegative, Field(le=1)])
_SCALE = Number("scale", "scale", "s", Positive)
_GAMMA = Number("gamma", "gamma", "γ")
_POWER = Number("q", "q", "q", Annotated[Positive, Field(le=1)])
_EPSILON = Number("epsilon", "epsilon", "ε", Annotated[Finite, Field(ge=-1)])

LOSSES: Mapping[str, Kind] = {
    "softmax": Kind("CrossEntropyLoss", "softmax", "#000000", "-"),
    "label-smoothing": Kind(
        "CrossEntropyLoss", "label smoothing", "#aa3377", "-.", numbers=(_SMOOTHING,)
    ),
    "super-symmetry": Kind(
        "CrossEntropyLoss", "super-symmetry", "#999933", ":", head="super-symmetric"
    ),
    "hinge": Kind("MultiClassHingeLoss", "hinge", "#8c564b", ":"),
    "modified": Kind("SoftMarginLoss", "modified loss", "#009e73", "-.", options={"margin": 1.0}),
    "gd": Kind("GDCrossEntropyLoss", "gradient decay", "#000000", "-", numbers=(_BETA,)),
    "class-beta": Kind(
        "GDCrossEntropyLoss",
        "a β for each class",
        "#666633",
        "-",
        numbers=(replace(_BETA, symbol="β ≥"),),
    ),
    "adjusted": Kind("GDCrossEntropyLoss", "logit adjustment", "#006d5b", "--", numbers=(_BETA,)),
    "weighted": Kind("GDCrossEntropyLoss", "class weights", "#a05195", "-.", numbers=(_BETA,)),
    "focal": Kind("FocalLoss", "focal loss", "#7a5195", "--", numbers=(_GAMMA,)),
    "gce": Kind(
        "GeneralizedCrossEntropyLoss",
        "generalised cross-entropy",
        "#0e7c7b",
        "-",
        numbers=(_POWER,),
    ),
    "poly1": Kind("Poly1CrossEntropyLoss", "Poly-1", "#d1495b", "-", numbers=(_EPSILON,)),
    "negative-probability": Kind("NegativeProbabilityLoss", "negative probability", "#5c4d7d", "-"),
    "lm": Kind("LargeMarginLoss", "LM", "#1b7340", "--", numbers=(_LAMBDA,)),
    "lm-qu": Kind(
        "LargeMarginLoss",
        "LM with D(q‖u)",
        "#66bb88",
        "--",
        numbers=(_LAMBDA,),
        options={"divergence": "q_u"},
    ),
    "lm-uq": Kind(
        "LargeMarginLoss",
        "LM with D(u‖q)",
        "#0b4d22",
        "--",
        numbers=(_LAMBDA,),
        options={"divergence": "u_q"},
    ),
    "modified-lm": Kind(
        "LargeMarginLoss",
        "modified loss + LM",
        "#555555",
        "--",
        numbers=(_LAMBDA,),
        options={"margin": 1.0},
    ),
    "m-softmax": Kind(
        "SoftMarginLoss",
        "M-Softmax",
        "#44aa99",
        "--",
        numbers=(replace(_MARGIN, type=Finite),),
    ),
    "center": Kind(
        "CenterLoss",
        "center loss",
        "#7f7f00",
        "-.",
        numbers=(_FACTOR,),
        with_features=True,
    ),
    "l-softmax": Kind(
        "LSoftmaxLoss",
        "L-Softmax",
        "#cc79a7",
        ":",
        head="normed",
        numbers=(_MULTIPLE,),
    ),
    "a-softmax": Kind(
        "SphereFaceLoss",
        "A-Softmax",
        "#117733",
        ":",
        head="cosine",
        numbers=(_MULTIPLE,),
        with_features=True,
    ),
    "lgm": Kind(
        "GaussianMixtureLoss",
        "LGM",
        "#882255",
        ":",
        head="gaussian",
        numbers=(replace(_MARGIN, symbol="α"), _LIKELIHOOD),
    ),
    "arcface": Kind(
        "ArcFaceLoss", "ArcFace", "#aa4499", ":", head="cosine", numbers=(_SCALE, _MARGIN)
    ),
    "adacos": Kind("AdaCosLoss", "AdaCos", "#b8860b", "-.", head="cosine"),
    "guarded-adacos": Kind(
        "AdaCosLoss",
        "AdaCos",
        "#6b4f06",
        ":",
        head="cosine",
        numbers=(_SMALLEST,),
    ),
    "arcgrad": Kind("ArcGradLoss", "ArcGrad", "#332288", "-", head="cosine", numbers=(_SCALE,)),
}
"""Every loss by its name."""


@dataclass(frozen=True)
class Loss:
    """A loss of the table with its numbers."""

    name: str
    numbers: tuple[float, ...]

    @property
    def kind(self) -> Kind:
        """Its row of the table."""
        return LOSSES[self.name]

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of its module."""
        named = zip(self.kind.numbers, self.numbers, strict=True)
        return {number.argument: value for number, value in named if number.argument} | dict(
            self.kind.options
        )


@functools.cache
def parse(text: str) -> Loss:
    """Read the name of a loss and its numbers, such as ``"arcface 20 0.1"``.

    The error says what is valid.
    """
    name, *numbers = text.split() or [""]
    if name not in LOSSES:
        valid = ", ".join(
            " ".join([key, *(number.name for number in kind.numbers)])
            for key, kind in LOSSES.items()
        )
        raise ValueError(f"unknown loss {text!r}{nearest(name, LOSSES)}; valid: {valid}")
    expected, values = LOSSES[name].numbers, []
    if len(numbers) != len(expected):
        names = ", ".join(number.name for number in expected) or "none"
        word = "number" if len(expected) == 1 else "numbers"
        raise ValueError(
            f"loss {text!r}: {name} has {len(expected)} {word} ({names}); got {len(numbers)}"
        )
    for number, value in zip(expected, numbers, strict=True):
        if not _NUMBER.fullmatch(value):  # float() would read 0_3 as 3
            raise ValueError(
                f"loss {text!r}: {number.name}: {value!r} is no number; write it as 0.3 or 1e-3"
            )
        try:
            values.append(TypeAdapter(number.type).validate_python(value))
        except ValidationError as error:
            raise ValueError(
                f"loss {text!r}: {number.name}: {error.errors()[0]['msg']}; got {value}"
            ) from error
    return Loss(name, tuple(values))
