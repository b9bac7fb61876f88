"""The cross-entropy with probability-dependent gradient decay as a module."""

from __future__ import annotations

import torch
from torch import Tensor

from gdlib import functional
from gdlib.functional import Reduction
from gdlib.functional._arguments import over_classes, scaled, tensor_by_keyword
from gdlib.losses._base import Loss


class GDCrossEntropyLoss(Loss):
    r"""Apply the cross-entropy with probability-dependent gradient decay.

    .. math:: J = \log\left(e^{\ell} + \beta - 1\right), \qquad \ell = -\log p_c

    It is a drop-in replacement for :class:`torch.nn.CrossEntropyLoss`; as a function it is
    :func:`gdlib.functional.gd_cross_entropy`, which describes the rest.

    ``torch.compile`` compiles for the first value of a β that is a Python float, and once more for
    all others; with ``dynamic=False``, and for numbers of other types, it recompiles for each
    value, unless β is a tensor. Set β outside the compiled code.

    Attributes:
        beta: the gradient-decay factor :math:`\beta > 0`, which may be set between steps, for
            example from a schedule of :mod:`gdlib.schedules`. A number replaces a tensor that was
            given; where that must keep its place, as in a CUDA graph, fill it. A learnt β falls to
            0 by itself and is refused there: give it a parametrisation
            (:func:`torch.nn.utils.parametrize.register_parametrization`).
        temperature: :math:`\tau > 0`, by which the logits are divided.

    Example:
        >>> import torch
        >>> loss_fn = GDCrossEntropyLoss(beta=0.1)
        >>> loss = loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
        >>> round(loss.item(), 4)
        -1.4467
        >>> loss_fn.beta = 1.0  # between steps
        >>> round(loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.1269
    """

    _checks = {"beta": "> 0", "temperature": "> 0"}

    @tensor_by_keyword("beta")
    def __init__(
        self,
        beta: float | Tensor = 1.0,
        *,
        temperature: float | Tensor = 1.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.beta: float | Tensor = beta
        self.temperature: float | Tensor = temperature

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its labels."""
        return functional.gd_cross_entropy(  # written out: a dictionary would slow a small batch
            input,
            target,
            beta=self.beta,
            temperature=self.temperature,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )

    def logits(self, input: Tensor) -> Tensor:
        """Return the logits divided by τ, whose softmax gives the probabilities."""
        return scaled(input, over_classes(self.temperature, input), torch.div)
