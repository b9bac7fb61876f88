"""Losses on logits as modules: soft margin, focal, hinge, large margin, probabilities."""

from __future__ import annotations

from torch import Tensor

from gdlib import functional
from gdlib.functional import Divergence, Reduction
from gdlib.functional._arguments import hyperparameter, tensor_by_keyword
from gdlib.functional.logits import check_divergence
from gdlib.losses._base import Loss


class SoftMarginLoss(Loss):
    r"""Apply the soft-margin softmax (M-Softmax): the true logit is made smaller by a margin.

    .. math:: J = \mathrm{softplus}\Bigl(\log \sum_{i \neq c} e^{z_i} - z_c + m\Bigr)

    As a function it is :func:`gdlib.functional.soft_margin_cross_entropy`, which has the sources.

    Args:
        margin: :math:`m`, in nats; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: for a value outside its bounds, when the module is made and when an
            attribute is set; for a batch that does not fit, as the function.

    Example:
        >>> import torch
        >>> loss_fn = SoftMarginLoss(margin=0.5)
        >>> round(loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.2014
    """

    margin: float | Tensor
    label_smoothing: float

    _checks = {"margin": hyperparameter("margin", "> -inf")}

    @tensor_by_keyword("margin", 1)
    def __init__(
        self,
        margin: float | Tensor,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.margin = margin
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its labels."""
        return functional.soft_margin_cross_entropy(
            input,
            target,
            margin=self.margin,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class ModifiedCrossEntropyLoss(Loss):
    r"""Apply LM's modified loss, the soft margin 1.

    .. math:: J = \mathrm{softplus}\Bigl(\log \sum_{i \neq c} e^{z_i} - z_c + 1\Bigr)

    As a function it is :func:`gdlib.functional.modified_cross_entropy`, which has the sources.

    Args:
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: for a value outside its bounds, when the module is made and when an
            attribute is set; for a batch that does not fit, as the function.

    Example:
        >>> import torch
        >>> loss_fn = ModifiedCrossEntropyLoss()
        >>> round(loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.3133
    """

    label_smoothing: float

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its labels."""
        return functional.modified_cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class FocalLoss(Loss):
    r"""Apply the focal loss over the softmax.

    .. math:: J = (1 - p_c)^{\gamma} \, (-\log p_c)

    As a function it is :func:`gdlib.functional.focal_cross_entropy`, which has the sources.

    Args:
        gamma: the focusing parameter :math:`\gamma \ge 0`; a number, a tensor that broadcasts to
            the class indices, or a :class:`torch.nn.Parameter`, which is learnt. A tensor goes by
            keyword.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: for a value outside its bounds, when the module is made and when an
            attribute is set; for a batch that does not fit, as the function.

    Example:
        >>> import torch
        >>> loss_fn = FocalLoss(gamma=2.0)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.1733
    """

    gamma: float | Tensor
    label_smoothing: float

    _checks = {"gamma": hyperparameter("gamma", ">= 0")}

    @tensor_by_keyword("gamma", 1)
    def __init__(
        self,
        gamma: float | Tensor = 2.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.gamma = gamma
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its labels."""
        return functional.focal_cross_entropy(
            input,
            target,
            gamma=self.gamma,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class GeneralizedCrossEntropyLoss(Loss):
    r"""Apply the generalised cross-entropy, between the cross-entropy and the absolute error.

    .. math:: J = \frac{1 - p_c^{\,q}}{q}

    As a function it is :func:`gdlib.functional.generalized_cross_entropy`, which has the sources.

    Args:
        q: :math:`0 < q \le 1`; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: for a value outside its bounds, when the module is made and when an
            attribute is set; for a batch that does not fit, as the function.

    Example:
        >>> import torch
        >>> loss_fn = GeneralizedCrossEntropyLoss(q=0.5)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.5858
    """

    q: float | Tensor
    label_smoothing: float

    _checks = {"q": hyperparameter("q", "in (0, 1]")}

    @tensor_by_keyword("q", 1)
    def __init__(
        self,
        q: float | Tensor = 0.7,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.q = q
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its labels."""
        return functional.generalized_cross_entropy(
            input,
            target,
            q=self.q,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class Poly1CrossEntropyLoss(Loss):
    r"""Apply the Poly-1 loss.

    .. math:: J = -\log p_c + \epsilon (1 - p_c)

    As a function it is :func:`gdlib.functional.poly1_cross_entropy`, which has the sources.

    Args:
        epsilon: :math:`\epsilon \ge -1`; a number, a tensor that broadcasts to the class indices,
            or a :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: for a value outside its bounds, when the module is made and when an
            attribute is set; for a batch that does not fit, as the function.

    Example:
        >>> import torch
        >>> loss_fn = Poly1CrossEntropyLoss(epsilon=1.0)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0]]), torch.tensor([0])).item(), 4)
        1.1931
    """

    epsilon: float | Tensor
    label_smoothing: float

    _checks = {"epsilon": hyperparameter("epsilon", ">= -1")}

    @tensor_by_keyword("epsilon", 1)
    def __init__(
        self,
        epsilon: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.epsilon = epsilon
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its labels."""
        return functional.poly1_cross_entropy(
            input,
            target,
            epsilon=self.epsilon,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NegativeProbabilityLoss(Loss):
    r"""Apply the negative probability of the true class, plus 1.

    .. math:: J = 1 - p_c

    As a function it is :func:`gdlib.functional.negative_probability`, which has the sources.

    Args:
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: for a value outside its bounds, when the module is made and when an
            attribute is set; for a batch that does not fit, as the function.

    Example:
        >>> import torch
        >>> loss_fn = NegativeProbabilityLoss()
        >>> loss_fn(torch.tensor([[0.0, 0.0, 0.0, 0.0]]), torch.tensor([0])).item()
        0.75
    """

    label_smoothing: float

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its labels."""
        return functional.negative_probability(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class MultiClassHingeLoss(Loss):
    r"""Apply the multi-class hinge loss, with a gradient in every logit.

    .. math:: J = \frac{1}{C - 1} \sum_{i \neq c} \max(0, z_i - z_c + m)

    As a function it is :func:`gdlib.functional.multi_class_hinge`, which has the sources. It takes
    class indices alone and has no label smoothing.

    Args:
        margin: :math:`m`; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        ValueError: for a value outside its bounds, when the module is made and when an
            attribute is set; for a batch that does not fit, as the function.

    Example:
        >>> import torch
        >>> MultiClassHingeLoss()(torch.tensor([[1.0, 0.5, -3.0]]), torch.tensor([0])).item()
        0.25
    """

    margin: float | Tensor

    _checks = {"margin": hyperparameter("margin", "> -inf")}

    @tensor_by_keyword("margin", 1)
    def __init__(
        self,
        margin: float | Tensor = 1.0,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its class indices."""
        return functional.multi_class_hinge(
            input,
            target,
            margin=self.margin,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class LargeMarginLoss(Loss):
    r"""Apply the cross-entropy with LM's large-margin regulariser.

    .. math:: J = -\log p_c + \lambda D

    D compares the wrong classes with a uniform distribution. As a function it is
    :func:`gdlib.functional.large_margin_cross_entropy`, which has the three forms of D and the
    sources. It takes class indices alone.

    Args:
        reg_lambda: :math:`\lambda \ge 0`; a number, a tensor that broadcasts to the class indices,
            or a :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        divergence: ``"symmetric"``, ``"q_u"`` or ``"u_q"``.
        margin: of the cross-entropy, as in :class:`SoftMarginLoss`.
        weight: a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides
            by the sum of the factors used.
        ignore_index: class index whose samples count for nothing; only for class indices.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``.
        label_smoothing: share of the target, in [0, 1], that is spread evenly over the classes.

    Raises:
        ValueError: for a value outside its bounds, when the module is made and when an
            attribute is set; for a batch that does not fit, as the function.

    Example:
        >>> import torch
        >>> loss_fn = LargeMarginLoss(reg_lambda=1.0)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0, 1.0986123]]), torch.tensor([0])).item(), 4)
        1.7468
    """

    reg_lambda: float | Tensor
    divergence: Divergence
    margin: float | Tensor
    label_smoothing: float

    _checks = {
        "reg_lambda": hyperparameter("reg_lambda", ">= 0"),
        "divergence": check_divergence,
        "margin": hyperparameter("margin", "> -inf"),
    }

    @tensor_by_keyword("reg_lambda", 1)
    def __init__(
        self,
        reg_lambda: float | Tensor = 0.3,
        *,
        divergence: Divergence = "symmetric",
        margin: float | Tensor = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.reg_lambda = reg_lambda
        self.divergence = divergence
        self.margin = margin
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of a batch from its logits and its class indices."""
        return functional.large_margin_cross_entropy(
            input,
            target,
            reg_lambda=self.reg_lambda,
            divergence=self.divergence,
            margin=self.margin,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
