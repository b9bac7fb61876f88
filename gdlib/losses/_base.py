"""What all losses have in common as modules: the options, the checks, the state, the logits."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from gdlib.functional import Reduction
from gdlib.functional._arguments import (
    Bound,
    check_hyperparameter,
    check_ignore_index,
    check_number,
    check_reduction,
    check_weight,
)

Check = Bound | Callable[[Any], object]
"""The bound of a number or a tensor, or a function that refuses a value and says what to do."""

_OPTIONS: Mapping[str, Callable[[Any], object]] = {
    "weight": check_weight,
    "ignore_index": check_ignore_index,
    "reduction": check_reduction,
    "label_smoothing": lambda value: check_number("label_smoothing", value, "in [0, 1]"),
}
OPTIONS_OF_INDICES = ("weight", "ignore_index", "reduction")
"""The options of a loss without label smoothing."""


class Loss(nn.Module, ABC):
    """Keep the hyperparameters and the options of a loss, and call its function; abstract.

    The options are those of :class:`torch.nn.CrossEntropyLoss`. A number that is set in place of a
    tensor is put into a tensor of the same shape, type and device, or into a floating one if the
    tensor held whole numbers. A learnt value is set through its ``data``.
    """

    weight: Tensor | None

    _function: ClassVar[Callable[..., Tensor]]  # its arguments have the names of the attributes
    _checks: ClassVar[Mapping[str, Check]] = {}  # of the hyperparameters, in the order of `repr`
    _options: ClassVar[tuple[str, ...]] = tuple(_OPTIONS)

    def __init__(
        self,
        weight: Tensor | None,
        ignore_index: int,
        reduction: Reduction,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        check_weight(weight)
        self.register_buffer("weight", weight)
        self.ignore_index: int = ignore_index
        self.reduction: Reduction = reduction
        if "label_smoothing" in self._options:
            self.label_smoothing: float = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        return self._function(input, target, **self._arguments())

    def _arguments(self) -> dict[str, Any]:
        """Return hyperparameters and options as the function takes them."""
        return {name: getattr(self, name) for name in (*self._checks, *self._options)}

    def __setattr__(self, name: str, value: Tensor | nn.Module) -> None:
        if name in _OPTIONS and name not in self._options:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        check = self._checks.get(name) or _OPTIONS.get(name)
        if check is not None and "_buffers" in self.__dict__:
            checked: Any = value
            if callable(check):
                check(value)
            else:
                checked = check_hyperparameter(name, value, check)
            value = self._as_state(name, checked)
        super().__setattr__(name, value)

    def _as_state(self, name: str, value: Any) -> Any:
        """Make a tensor a buffer, and put a number into the tensor that is there."""
        if isinstance(getattr(type(self), name, None), property):  # it has a parametrisation
            return value
        if isinstance(value, nn.Parameter):
            self._buffers.pop(name, None)
            return value
        if name in self._parameters:
            raise TypeError(
                f"{name} is learnt; set it by {name}.data.fill_(...), or delete it first: "
                f"del loss.{name}"
            )
        if isinstance(value, Tensor):
            if name not in self._buffers:
                self.__dict__.pop(name, None)  # a buffer cannot have the name of an attribute
                self.register_buffer(name, value)
            return value
        if value is None:  # class weights are removed
            return None
        before = self._buffers.get(name)
        if before is not None:
            return _filled(before, value, name)
        self._buffers.pop(name, None)  # an empty buffer slot would refuse a number
        return value

    if TYPE_CHECKING:  # a type checker sees what a call takes

        def __call__(self, input: Tensor, target: Tensor) -> Tensor: ...

    def logits(self, input: Tensor) -> Tensor:
        """Return the logits whose softmax gives the predicted probabilities.

        They have no margin, and have the shape of the input.
        """
        return input

    def extra_repr(self) -> str:
        """Name the hyperparameters that shape the loss."""
        values = {name: getattr(self, name) for name in [*self._checks, "reduction"]}
        return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


def _short(value: object) -> str:
    """Format a hyperparameter; for a tensor with many values, its shape."""
    if isinstance(value, Tensor) and value.numel() > 1:
        return f"tensor of shape {list(value.shape)}"
    return repr(value)


@torch.inference_mode(False)  # or it could have no gradient later
def _filled(before: Tensor, value: float, name: str) -> Tensor:
    """Put a number into a tensor like the one before; refuse one that its type rounds away."""
    dtype = before.dtype if before.is_floating_point() else torch.get_default_dtype()
    filled = torch.full_like(before, value, dtype=dtype)
    if value and not (0.5 < torch.full((), value, dtype=dtype, device="cpu").item() / value < 2.0):
        raise ValueError(
            f"{name} is a tensor of type {dtype}, which cannot hold {value}; give {name} a tensor "
            f"of another type first, such as torch.tensor({value})"
        )
    return filled
