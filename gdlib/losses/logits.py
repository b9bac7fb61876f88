"""Losses on logits as modules: soft margin, focal, hinge, large margin, probabilities."""

from __future__ import annotations

from torch import Tensor

from gdlib import functional
from gdlib.functional import Divergence, Reduction
from gdlib.functional._arguments import hyperparameter, tensor_by_keyword
from gdlib.functional.logits import check_divergence
from gdlib.losses._base import OPTIONS_OF_INDICES, Loss


class SoftMarginLoss(Loss):
    r"""Apply the soft-margin softmax (M-Softmax): the true logit is made smaller by a margin.

    .. math:: J = \mathrm{softplus}\Bigl(\log \sum_{i \neq c} e^{z_i} - z_c + m\Bigr)

    As a function it is :func:`gdlib.functional.soft_margin_cross_entropy`, which has the rest.

    Attributes:
        margin: :math:`m`, in nats; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.

    Example:
        >>> import torch
        >>> loss_fn = SoftMarginLoss(margin=0.5)
        >>> round(loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.2014
    """

    margin: float | Tensor

    _function = staticmethod(functional.soft_margin_cross_entropy)
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.margin = margin


class FocalLoss(Loss):
    r"""Apply the focal loss over the softmax.

    .. math:: J = (1 - p_c)^{\gamma} \, (-\log p_c)

    As a function it is :func:`gdlib.functional.focal_cross_entropy`, which has the rest.

    Attributes:
        gamma: the focusing parameter :math:`\gamma \ge 0`; a number, a tensor that broadcasts to
            the class indices, or a :class:`torch.nn.Parameter`, which is learnt. A tensor goes by
            keyword.

    Example:
        >>> import torch
        >>> loss_fn = FocalLoss(gamma=2.0)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.1733
    """

    gamma: float | Tensor

    _function = staticmethod(functional.focal_cross_entropy)
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.gamma = gamma


class GeneralizedCrossEntropyLoss(Loss):
    r"""Apply the generalised cross-entropy, between the cross-entropy and the absolute error.

    .. math:: J = \frac{1 - p_c^{\,q}}{q}

    As a function it is :func:`gdlib.functional.generalized_cross_entropy`, which has the rest.

    Attributes:
        q: :math:`0 < q \le 1`; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.

    Example:
        >>> import torch
        >>> loss_fn = GeneralizedCrossEntropyLoss(q=0.5)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0]]), torch.tensor([0])).item(), 4)
        0.5858
    """

    q: float | Tensor

    _function = staticmethod(functional.generalized_cross_entropy)
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.q = q


class Poly1CrossEntropyLoss(Loss):
    r"""Apply the Poly-1 loss.

    .. math:: J = -\log p_c + \epsilon (1 - p_c)

    As a function it is :func:`gdlib.functional.poly1_cross_entropy`, which has the rest.

    Attributes:
        epsilon: :math:`\epsilon \ge -1`; a number, a tensor that broadcasts to the class indices,
            or a :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.

    Example:
        >>> import torch
        >>> loss_fn = Poly1CrossEntropyLoss(epsilon=1.0)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0]]), torch.tensor([0])).item(), 4)
        1.1931
    """

    epsilon: float | Tensor

    _function = staticmethod(functional.poly1_cross_entropy)
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.epsilon = epsilon


class NegativeProbabilityLoss(Loss):
    r"""Apply the negative probability of the true class, plus 1.

    .. math:: J = 1 - p_c

    As a function it is :func:`gdlib.functional.negative_probability`, which has the rest.

    Example:
        >>> import torch
        >>> loss_fn = NegativeProbabilityLoss()
        >>> loss_fn(torch.tensor([[0.0, 0.0, 0.0, 0.0]]), torch.tensor([0])).item()
        0.75
    """

    _function = staticmethod(functional.negative_probability)

    def __init__(
        self,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction, label_smoothing)


class MultiClassHingeLoss(Loss):
    r"""Apply the multi-class hinge loss, with a gradient in every logit.

    .. math:: J = \frac{1}{C - 1} \sum_{i \neq c} \max(0, z_i - z_c + m)

    As a function it is :func:`gdlib.functional.multi_class_hinge`, which has the rest. It takes
    class indices alone and has no label smoothing.

    Attributes:
        margin: :math:`m`; a number, a tensor that broadcasts to the class indices, or a
            :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.

    Example:
        >>> import torch
        >>> MultiClassHingeLoss()(torch.tensor([[1.0, 0.5, -3.0]]), torch.tensor([0])).item()
        0.25
    """

    margin: float | Tensor

    _function = staticmethod(functional.multi_class_hinge)
    _checks = {"margin": hyperparameter("margin", "> -inf")}
    _options = OPTIONS_OF_INDICES

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


class LargeMarginLoss(Loss):
    r"""Apply the cross-entropy with LM's large-margin regulariser.

    .. math:: J = -\log p_c + \lambda D

    D compares the wrong classes with a uniform distribution. As a function it is
    :func:`gdlib.functional.large_margin_cross_entropy`, which has the three forms of D and the
    sources. It takes class indices alone.

    Attributes:
        reg_lambda: :math:`\lambda \ge 0`; a number, a tensor that broadcasts to the class indices,
            or a :class:`torch.nn.Parameter`, which is learnt. A tensor goes by keyword.
        divergence: ``"symmetric"``, ``"q_u"`` or ``"u_q"``.
        margin: of the cross-entropy, as in :class:`SoftMarginLoss`.

    Example:
        >>> import torch
        >>> loss_fn = LargeMarginLoss(reg_lambda=1.0)
        >>> round(loss_fn(torch.tensor([[0.0, 0.0, 1.0986123]]), torch.tensor([0])).item(), 4)
        1.7468
    """

    reg_lambda: float | Tensor
    divergence: Divergence
    margin: float | Tensor

    _function = staticmethod(functional.large_margin_cross_entropy)
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
        super().__init__(weight, ignore_index, reduction, label_smoothing)
        self.reg_lambda = reg_lambda
        self.divergence = divergence
        self.margin = margin
