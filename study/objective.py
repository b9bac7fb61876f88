"""What a stack of runs minimises: a loss of the table, by its name."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib import heads, losses
from gdlib.functional import gd_cross_entropy
from study.losses import Loss


class StackLoss(nn.Module):
    """A loss of :mod:`gdlib.losses` for a stack of runs.

    Called with the outputs ``[R, N, K]`` of the last layer, the first C of which classify, class
    indices ``[R, N]`` and one β for each run, which it does not heed; returns the loss of every
    sample ``[R, N]``. What the loss remembers, such as centres or a scale for each
    run, is in its buffers, and so in a checkpoint. The number of features is for a loss that keeps
    centres, the training samples of each class are for :class:`Balanced`.

    Example:
        >>> from study.losses import parse
        >>> loss_fn = StackLoss(parse("arcface 20 0"), classes=2)
        >>> cosines, labels = torch.tensor([[[0.1, 0.0]]]), torch.tensor([[0]])
        >>> loss_fn(cosines, labels)  # of the logits 2 and 0
        tensor([[0.1269]])
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
        elif loss.kind.module == "SphereFaceLoss":
            self.loss = losses.SphereFaceLoss(annealing=annealing, **arguments)
        else:
            module = nn if loss.kind.module == "CrossEntropyLoss" else losses
            self.loss = getattr(module, loss.kind.module)(**arguments)
        constant = _constant_beta(loss)
        if constant is not None:  # the trainer can do it by hand
            self.beta_and_temperature = lambda beta: (constant, 1.0)
            # M-Softmax is gradient decay plus its margin
            self.constant = loss.numbers[0] if loss.name == "m-softmax" else 0.0

    def forward(self, outputs: Tensor, labels: Tensor, beta: Tensor | None = None) -> Tensor:
        """Compute the losses."""
        logits, features = outputs[..., : self.classes], outputs[..., self.classes :]
        inputs = [logits, labels]
        if self.name == "a-softmax":
            inputs.append(features.norm(dim=-1))
        elif features.shape[-1]:
            inputs.append(features)
        if self.knows_runs:
            return self.loss(*inputs)
        return self.loss(*(one.flatten(0, 1) for one in inputs)).unflatten(0, labels.shape)


def _constant_beta(loss: Loss) -> float | None:
    """Return the β of a loss that is gradient decay plus a constant; None for another one."""
    if loss.name == "softmax":
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

    The numbers are usual with A-Softmax; its paper says only that the weight falls.
    """
    return max(5.0, 1500.0 / (1 + 0.1 * step))
