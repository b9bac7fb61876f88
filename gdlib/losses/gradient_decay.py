"""The gradient-decay loss as a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.functional.options import number_if_positional

__all__ = ["GDCrossEntropyLoss"]


class GDCrossEntropyLoss(nn.Module):
    r"""Cross-entropy with probability-dependent gradient decay, as a drop-in for :class:`torch.nn.CrossEntropyLoss`.

    .. math:: J = -\log \frac{e^{z_c/\tau}}{\sum_{i \neq c} e^{z_i/\tau} + \beta\, e^{z_c/\tau}}

    The attribute ``beta`` may be set between steps, for example from a schedule of :mod:`gdlib.schedules`. Under ``torch.compile`` a module
    is compiled once for all values of a β that is a number: beside the attribute it keeps the number as a tensor, which moves with the
    module and is no part of its ``state_dict``. Set it outside of what is compiled. A function that gets β as a number is compiled anew for
    each value; give it a tensor.

    Args:
        beta: the gradient-decay factor > 0, a number or, by keyword, a tensor; an :class:`torch.nn.Parameter` is learnt with the model.
        temperature: τ > 0.
        weight: a factor for each class, of shape ``[C]``.
        ignore_index: class index whose samples count for nothing.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Shape:
        Input ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``; target class indices without the class dimension, or class probabilities of the
        shape of the input; output a scalar, or for ``reduction="none"`` the shape of the class indices.

    Raises:
        TypeError: for a tensor as first positional argument: :class:`torch.nn.CrossEntropyLoss` takes class weights there.
        ValueError: when called, for whatever :func:`gdlib.functional.gd_cross_entropy` refuses.

    Example:
        >>> import torch
        >>> loss_fn = GDCrossEntropyLoss(beta=0.1)
        >>> loss = loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
        >>> round(loss.item(), 4)
        -1.4467
        >>> loss_fn.beta = 1.0                                         # between steps
        >>> round(loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.1269

    References:
        *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 5 and 8; version 2, eq. 5 and 7.
    """

    weight: Tensor | None
    _held: Tensor | None = None

    @number_if_positional("beta", 1)
    def __init__(
        self,
        beta: float | Tensor = 1.0,
        temperature: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.beta = beta
        self.temperature = temperature
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction
        self.label_smoothing = label_smoothing

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep a β that is a number as a tensor too, in all its digits, which a compiled module reads instead."""
        super().__setattr__(name, value)
        if name == "beta":
            number = isinstance(value, (int, float))
            held = torch.empty((), dtype=torch.float64) if self._held is None else self._held
            self._held = torch.full_like(held, value) if number else None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GDCrossEntropyLoss:
        """Move that tensor with the module, and leave its type alone."""
        super()._apply(fn, recurse)
        if self._held is not None:
            device = fn(torch.empty(0, device=self._held.device)).device
            self._held = self._held.to(device, torch.float32 if device.type == "mps" else torch.float64)
        return self

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of ``input`` against ``target``; see :func:`gdlib.functional.gd_cross_entropy`."""
        held = self._held if torch.compiler.is_compiling() else None
        return functional.gd_cross_entropy(
            input,
            target,
            beta=self.beta if held is None else held,
            temperature=self.temperature,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """The hyperparameters that shape the loss."""
        return f"beta={self.beta}, temperature={self.temperature}, reduction={self.reduction!r}"
