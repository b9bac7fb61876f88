"""What a stack of runs minimises.

It is gradient decay with a β for each run, or any other loss of the table.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib import heads, losses
from gdlib.functional import gd_cross_entropy
from study.losses import Loss

_MODULES: Mapping[str, Callable[..., nn.Module]] = {
    "ArcFaceLoss": losses.ArcFaceLoss,
    "ArcGradLoss": losses.ArcGradLoss,
    "CrossEntropyLoss": nn.CrossEntropyLoss,
    "FocalLoss": losses.FocalLoss,
    "GDCrossEntropyLoss": losses.GDCrossEntropyLoss,
    "GaussianMixtureLoss": losses.GaussianMixtureLoss,
    "GeneralizedCrossEntropyLoss": losses.GeneralizedCrossEntropyLoss,
    "LargeMarginLoss": losses.LargeMarginLoss,
    "MultiClassHingeLoss": losses.MultiClassHingeLoss,
    "NegativeProbabilityLoss": losses.NegativeProbabilityLoss,
    "Poly1CrossEntropyLoss": losses.Poly1CrossEntropyLoss,
    "SoftMarginLoss": losses.SoftMarginLoss,
}
"""The modules that take their arguments alone, by their names in the table of losses."""

_ANNEALED: Mapping[str, Callable[..., nn.Module]] = {
    "LSoftmaxLoss": losses.LSoftmaxLoss,
    "SphereFaceLoss": losses.SphereFaceLoss,
}
"""The modules that also take :func:`annealing`."""


class StackLoss(nn.Module):
    """A loss of :mod:`gdlib.losses` for a stack of runs.

    Called with the outputs ``[R, N, K]`` of the last layer, the first C of which classify, class
    indices ``[R, N]`` and one β for each run, which only :class:`GradientDecay` heeds; returns the
    loss of every sample ``[R, N]``. What the loss remembers, such as centres or a scale for each
    run, is in its buffers, and so in a checkpoint. The number of features is for a loss that keeps
    centres, the training samples of each class are for :class:`Balanced`.

    Example:
        >>> from study.losses import parse
        >>> loss_fn = StackLoss(parse("arcface 20 0"), classes=2)
        >>> cosines, labels = torch.tensor([[[0.1, 0.0]]]), torch.tensor([[0]])
        >>> loss_fn(cosines, labels), loss_fn.logits(cosines)
        (tensor([[0.1269]]), tensor([[[2., 0.]]]))
    """

    def __init__(
        self,
        loss: Loss,
        classes: int,
        *,
        runs: int = 1,
        features: int = 0,
        counts: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.name = loss.name
        self.classes = classes
        self.knows_runs = loss.kind.module in ("AdaCosLoss", "CenterLoss")
        if counts is None:
            counts = torch.ones(classes)
        arguments: dict[str, Any] = loss.arguments | {"reduction": "none"}
        self.loss: nn.Module
        if loss.kind.module == "CenterLoss":
            (factor,) = loss.numbers
            self.loss = _WithCenters(classes, features, runs, factor)
        elif loss.kind.module == "AdaCosLoss":
            self.loss = losses.AdaCosLoss(classes, runs=runs, **arguments)
        elif loss.name in CORRECTIONS:
            (beta,) = loss.numbers
            self.loss = Balanced(loss.name, beta, counts)
        elif loss.kind.module in _ANNEALED:
            self.loss = _ANNEALED[loss.kind.module](annealing=annealing, **arguments)
        else:
            self.loss = _MODULES[loss.kind.module](**arguments)
        constant = _constant_beta(loss)
        if constant is not None:  # the trainer can do it by hand
            self.beta_and_temperature = lambda beta: (constant, 1.0)

    def forward(self, outputs: Tensor, labels: Tensor, beta: Tensor | None = None) -> Tensor:
        """Compute the losses."""
        values, *others = self.inputs(outputs)
        return self._of_runs(self.loss, values, labels, *others)

    def inputs(self, outputs: Tensor) -> tuple[Tensor, ...]:
        """Split the outputs of the last layer into what the module takes beside the labels."""
        values, rest = outputs[..., : self.classes], outputs[..., self.classes :]
        if self.name == "a-softmax":
            return values, rest.norm(dim=-1)
        if self.name == "lgm":
            return (-values,)
        return (values, rest) if rest.shape[-1] else (values,)

    def logits(self, outputs: Tensor) -> Tensor:
        """Return what the probabilities are the softmax of, ``[R, N, C]``; no margin is in it."""
        inputs = self.inputs(outputs)
        if not isinstance(self.loss, losses.Loss):
            return inputs[0]
        return self._of_runs(self.loss.logits, *inputs)

    def _of_runs(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Apply a function of samples ``[N, ...]`` to those of all runs ``[R, N, ...]``."""
        if self.knows_runs:
            return function(*tensors)
        runs_and_samples = tensors[0].shape[:2]
        flat = [tensor.flatten(0, 1) for tensor in tensors]
        return function(*flat).unflatten(0, runs_and_samples)


def _constant_beta(loss: Loss) -> float | None:
    """Return the β of a loss that is a gradient decay; None for another one."""
    if loss.name in ("softmax", "super-symmetry"):
        return 1.0
    if loss.name == "gd":
        (beta,) = loss.numbers
        return beta
    if loss.name == "m-softmax":
        (margin,) = loss.numbers
        return math.exp(-margin)
    return None


class _WithCenters(nn.Module):
    """Cross-entropy plus the center loss.

    The centres start at 0 and follow the features as in the original, at a rate of 1/2.
    """

    def __init__(self, classes: int, features: int, runs: int, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.distance = losses.CenterLoss(reduction="none")
        self.head = heads.ClassCenters(features, classes, rate=0.5, runs=runs)

    def forward(self, logits: Tensor, labels: Tensor, features: Tensor) -> Tensor:
        """Compute the losses ``[R, N]``, then move the centres."""
        distance = self.distance(features, labels, self.head.centers)
        self.head.update(features.detach(), labels)
        cross_entropy = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        return cross_entropy.unflatten(0, labels.shape) + self.factor * distance


CORRECTIONS = ("class-beta", "adjusted", "weighted")
"""The losses for classes of unequal size."""


class Balanced(nn.Module):
    r"""Gradient decay on classes of unequal shares :math:`\varrho_c`.

    It has one of :data:`CORRECTIONS` for the balanced error, or none.

    They are a β for each class with :math:`1 + \beta_c \propto \varrho_c`, of which the smallest is
    given; logits :math:`z_c + \log\varrho_c` in the loss; weights proportional to
    :math:`1/\varrho_c`.

    Example:
        >>> Balanced("class-beta", 0.1, torch.tensor([300, 200, 100])).betas
        tensor([2.3000, 1.2000, 0.1000])
    """

    def __init__(self, correction: str, beta: float, counts: Tensor) -> None:
        super().__init__()
        shares = counts / counts.sum()
        betas = beta * torch.ones(len(counts))
        shift = torch.zeros(len(counts))
        weight = torch.ones(len(counts))
        prior = shares
        if correction == "class-beta":
            betas = (1 + beta) * shares / shares.min() - 1
        elif correction == "adjusted":
            shift = shares.log()
        elif correction == "weighted":
            weight = 1 / (len(counts) * shares)
            prior = torch.ones(len(counts))
        self.betas = nn.Buffer(betas, persistent=False)
        self.shift = nn.Buffer(shift, persistent=False)
        self.weight = nn.Buffer(weight, persistent=False)
        self.prior = nn.Buffer(prior, persistent=False)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the losses ``[N]`` from logits ``[N, C]``."""
        return gd_cross_entropy(
            logits + self.shift,
            labels,
            beta=self.betas[labels],
            weight=self.weight,
            reduction="none",
        )

    def decide(self, logits: Tensor) -> Tensor:
        """Choose for each sample the class that the link makes best for the balanced error.

        The classes are ``[N]``; the choice is right for every correction.
        """
        p = torch.softmax(logits + self.shift, 1)
        return (p * (1 - p + self.betas * p) / self.prior).argmax(1)


def annealing(step: int) -> float:
    """Weigh the plain cosine beside the changed one.

    The numbers are usual with L-Softmax and A-Softmax; both papers say only that the weight falls.
    """
    return max(5.0, 1500.0 / (1 + 0.1 * step))


class GradientDecay:
    r"""The gradient-decay cross-entropy of a stack.

    It takes logits ``[R, N, C]``, labels ``[R, N]`` and β ``[R]`` to losses ``[R, N]``.

    Args:
        temperatures: τ of each run.
        match_gradient: multiply the losses of a batch by one number for each run, which counts as a
            constant, so that the gradients with respect to the target logits have the mean size
            that β = 1 would give them at the same probabilities:

            .. math:: \frac{\sum_i (1 - p_i)}{\sum_i (1 - p_i) / (1 + (\beta - 1)\, p_i)}.

            It is a learning rate matched to β in every step. What β then does, it does by dividing
            the gradient among the samples.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 0.5]]]).requires_grad_()
        >>> labels = torch.zeros(1, 2, dtype=torch.long)
        >>> objective = GradientDecay([1.0], match_gradient=True)
        >>> objective(logits, labels, torch.tensor([0.1])).sum().backward()
        >>> p = torch.softmax(logits.detach(), 2)[..., 0]
        >>> plain = (p - 1).sum()       # the sum that plain cross-entropy has
        >>> torch.isclose(logits.grad[..., 0].sum(), plain)
        tensor(True)
    """

    def __init__(self, temperatures: Sequence[float], *, match_gradient: bool = False) -> None:
        varied = any(temperature != 1.0 for temperature in temperatures)
        self.tau = torch.tensor(temperatures) if varied else None
        self.match_gradient = match_gradient
        if not match_gradient:  # the trainer can do it by hand
            self.beta_and_temperature = lambda beta: (beta, 1.0 if self.tau is None else self.tau)

    def __call__(self, logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        """Compute the losses."""
        samples = labels.shape[1]
        temperature: float | Tensor = 1.0
        if self.tau is not None:
            # copied to the device once: a recorded step could not do it
            self.tau = self.tau.to(logits)
            temperature = self.tau.repeat_interleave(samples)
        losses = gd_cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            beta=beta.repeat_interleave(samples),
            temperature=temperature,
            reduction="none",
        ).unflatten(0, labels.shape)
        if not self.match_gradient:
            return losses
        factor = _matching_factor(self.logits(logits).detach(), labels, beta)
        return losses * factor[:, None]

    def logits(self, outputs: Tensor) -> Tensor:
        """Return the outputs over τ, of which the probabilities are the softmax."""
        return outputs if self.tau is None else outputs / self.tau.to(outputs)[:, None, None]


def _matching_factor(logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
    """Divide the sum of target gradients of plain cross-entropy by that of β.

    The quotient is of each run, ``[R]``.
    """
    log_p = torch.log_softmax(logits, 2).gather(2, labels.unsqueeze(2)).squeeze(2)
    p = log_p.exp()  # p_c, (R, N)
    others = -torch.expm1(log_p)  # 1 - p_c, (R, N)
    decayed = others / (others + beta[:, None] * p)  # 1 + (β - 1) p without cancellation
    return others.sum(1) / decayed.sum(1).clamp(min=torch.finfo(decayed.dtype).tiny)
