"""Last layers that margin losses need, on perceptrons and image networks, and class vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from gdlib import heads
from gdlib.models import ModuleStack, RunModel, StackedMLP
from study.networks.images import ImageNetwork

HEADS = ("linear", "super-symmetric", "cosine", "normed", "gaussian")
MLP_HEADS = ("linear", "cosine")


def perceptrons(
    sizes: Sequence[int],
    seeds: Sequence[int],
    *,
    head: str = "linear",
    with_features: bool = False,
    bias: bool = False,
    **form: Any,
) -> RunModel:
    """Make R perceptrons with the last layer that a loss needs.

    Args:
        sizes: number of inputs, of units in each hidden layer, and of classes.
        seeds: one seed for each run; the same seeds and options give the same first weights.
        head: ``"linear"`` or ``"cosine"``, as of :class:`HeadedMLP`.
        with_features: append the features to the output, for a loss that looks at both.
        bias: let logits have a bias; cosines have none.
        form: further arguments of :class:`gdlib.models.StackedMLP`.

    Raises:
        ValueError: for an unknown head, and as StackedMLP.

    Example:
        >>> type(perceptrons([4, 16, 3], seeds=[0, 1])).__name__  # trained by hand
        'StackedMLP'
    """
    if head == "linear" and not with_features:
        return StackedMLP(sizes, seeds, bias=bias, **form)
    return HeadedMLP(sizes, seeds, head=head, with_features=with_features, bias=bias, **form)


class HeadedMLP(RunModel):
    r"""R multilayer perceptrons that return cosines, or features behind their outputs.

    With ``head="linear"`` the logits are :math:`w_i^T h`, with ``"cosine"`` they are
    :math:`\cos\theta_i = w_i^T h / (\lVert w_i \rVert \lVert h \rVert)`, where h are the features
    of a sample. Features of length 0 have the cosine 0 to everything. Arguments as of
    :func:`perceptrons`.

    Example:
        >>> model = HeadedMLP([4, 16, 16, 3], seeds=[0, 1], head="cosine")
        >>> output = model(torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(0)))
        >>> output.shape, bool((output.abs() <= 1).all())
        (torch.Size([2, 5, 3]), True)

    References:
        *ArcGrad*, eq. 4 (no bias) and 7 (cosines).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        *,
        head: str = "linear",
        with_features: bool = False,
        bias: bool = False,
        **form: Any,
    ) -> None:
        super().__init__()
        if head not in MLP_HEADS:
            raise ValueError(
                f"unknown head {head!r} for perceptrons; valid: {', '.join(MLP_HEADS)}"
            )
        self.layers = StackedMLP(sizes, seeds, bias=bias and head == "linear", **form)
        self.runs = self.layers.runs
        self.head, self.with_features = head, with_features

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute logits or cosines ``[R, N, C]`` of inputs ``[S, N, D]`` (S divides R).

        The features stand behind them if asked for.
        """
        features = self.features(inputs)  # (R, N, in)
        if self.head == "cosine":
            output = heads.cosines(features, self.layers.weights[-1])
        else:
            output = self.layers.logits(features)
        return torch.cat([output, features], 2) if self.with_features else output

    def features(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the last layer, ``[R, N, D]``."""
        return self.layers.features(inputs)


class Head(nn.Module):
    r"""The last layer of one run, with first weights of a given linear layer.

    So runs that differ in it alone start alike. The kinds are

    * ``linear``: logits :math:`w_c^T h + b_c`;
    * ``super-symmetric``: the same with class vectors that
      :func:`super_symmetric_projection` holds to a simplex;
    * ``cosine``: :math:`\cos\theta_c`, see :class:`gdlib.heads.CosineLinear`;
    * ``normed``: :math:`w_c^T h`, followed by :math:`\lVert w_c \rVert \lVert h \rVert`, see
      :class:`gdlib.heads.NormedLinear`;
    * ``gaussian``: :math:`-\tfrac12 \lVert h - \mu_c \rVert^2`, see
      :class:`gdlib.heads.GaussianMixtureHead`.

    It maps features ``[N, D]`` to ``[N, K]``; the first C outputs classify.

    Args:
        layer: linear layer whose weight and bias it starts with.
        kind: one of :data:`HEADS`.
        bias: keep the bias, where the kind has one.
        with_features: append the features to the output.
    """

    def __init__(
        self, layer: nn.Linear, kind: str, *, bias: bool = True, with_features: bool = False
    ) -> None:
        super().__init__()
        if kind not in HEADS:
            raise ValueError(f"unknown head {kind!r}; valid: {', '.join(HEADS)}")
        self.kind, self.with_features = kind, with_features
        classes, features = layer.weight.shape
        special = {
            "cosine": heads.CosineLinear,
            "normed": heads.NormedLinear,
            "gaussian": heads.GaussianMixtureHead,
        }
        with torch.random.fork_rng(devices=[]):
            plain = nn.Linear(features, classes, bias=bias and layer.bias is not None)
            made: nn.Module = special[kind](features, classes) if kind in special else plain
        self.layer = made.to(layer.weight)  # its device and type
        with torch.no_grad():
            self._stored.copy_(layer.weight)
            if isinstance(self.layer, nn.Linear) and self.layer.bias is not None:
                self.layer.bias.copy_(layer.bias)

    @property
    def _stored(self) -> Tensor:
        return cast(Tensor, self.layer.means if self.kind == "gaussian" else self.layer.weight)

    @property
    def vectors(self) -> Tensor:
        """Return the class vectors, ``[C, D]``: of the kind ``super-symmetric`` the projected."""
        if self.kind == "super-symmetric":
            return super_symmetric_projection(self._stored)
        return self._stored

    def forward(self, features: Tensor) -> Tensor:
        """Compute the outputs."""
        outputs: Any
        if self.kind == "super-symmetric":
            outputs = self._super_symmetric(features)
        else:
            outputs = self.layer(features)
        if not isinstance(outputs, Tensor):
            outputs = -outputs[0] if self.kind == "gaussian" else torch.cat(outputs, -1)
        return torch.cat([outputs, features], -1) if self.with_features else cast(Tensor, outputs)

    def _super_symmetric(self, features: Tensor) -> Tensor:
        """Compute logits of the projected class vectors; in training they become the layer's."""
        vectors = self.vectors.detach()
        if self.training:
            # by data: a second forward pass before the backward pass changes last bits alone
            self._stored.data.copy_(vectors)
            vectors = self._stored
        return nn.functional.linear(features, vectors, cast(nn.Linear, self.layer).bias)


def with_heads(
    stack: ModuleStack, kind: str, *, bias: bool = True, with_features: bool = False
) -> ModuleStack:
    """Replace the last layer of every image network of a stack, in place; returns the stack.

    Args:
        stack: image networks of :mod:`study.networks`, whose last layers are linear.
        kind: as in :class:`Head`.
        bias: keep the bias of the last layer, where the kind has one.
        with_features: let the outputs carry the features behind the logits, as :class:`Head` does.

    Raises:
        TypeError: for a stack of other modules, and for last layers that are no linear layers.
        ValueError: for an unknown kind.

    Example:
        >>> from study.networks import image_stack
        >>> stack = with_heads(image_stack("resnet18", seeds=[0], classes=10, width=0.25), "cosine")
        >>> bool((stack(torch.zeros(1, 4, 3, 32, 32)).abs() <= 1).all())
        True
    """
    networks = [copy for copy in getattr(stack, "copies", ()) if isinstance(copy, ImageNetwork)]
    linear = [one for one in networks if isinstance(one.classifier, nn.Linear)]
    if not isinstance(stack, ModuleStack) or len(linear) < len(stack.copies):
        raise TypeError(
            "with_heads takes a stack of image networks of study.networks with a linear last layer "
            "(image_stack makes one), and only once"
        )
    for network in linear:
        network.classifier = Head(
            cast(nn.Linear, network.classifier), kind, bias=bias, with_features=with_features
        )
    return stack


def class_vectors(model: RunModel) -> Tensor:
    """Return the vectors of the last layer that stand for the classes, ``[R, C, D]``.

    Raises:
        TypeError: for a model whose last layer is not known.
    """
    if isinstance(model, HeadedMLP):
        model = model.layers
    if isinstance(model, StackedMLP):
        return model.weights[-1].mT
    if isinstance(model, ModuleStack) and all(
        isinstance(copy, ImageNetwork) for copy in model.copies
    ):
        layers = [cast(ImageNetwork, copy).classifier for copy in model.copies]
        return torch.stack(
            [
                layer.vectors if isinstance(layer, Head) else cast(Tensor, layer.weight)
                for layer in layers
            ]
        )
    raise TypeError(
        f"{type(model).__name__} has no last layer that is known here; valid: perceptrons and "
        "image networks of study.networks"
    )


def super_symmetry_penalty(weight: Tensor) -> Tensor:
    r"""Measure how far the class vectors of a linear classifier are from super-symmetry.

    .. math::

        \frac{1}{C^2} \sum_{c, c'} \bigl(w_c^T w_{c'} - v\, M_{c c'}\bigr)^2, \qquad M_{c c} = 1,
        \quad M_{c c'} = -\frac{1}{C - 1}

    with :math:`v = \frac1C \sum_c \lVert w_c \rVert^2`. It is 0 exactly for :math:`w_c^T w_c = v`
    and :math:`w_c^T w_{c'} = -v/(C - 1)`: vectors of one length that point to the corners of a
    simplex. The form of LM's constraint is in a supplement that was not at hand; this is a penalty
    with the same zeros, and :func:`super_symmetric_projection` imposes it strictly.

    Args:
        weight: class vectors ``[..., C, D]``, C >= 2; leading dimensions are runs.

    Returns:
        The penalty, of shape ``[...]``.

    Raises:
        ValueError: for fewer than two classes.

    Example:
        >>> import torch
        >>> round(super_symmetry_penalty(torch.tensor([[1.0], [-1.0]])).item(), 4)
        0.0
        >>> super_symmetry_penalty(torch.eye(2)).item()
        0.5

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, section 3 and Table 2.
    """
    classes = _classes(weight)
    gram = weight @ weight.mT
    mean_square = gram.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    simplex = (classes * torch.eye(classes, dtype=gram.dtype, device=gram.device) - 1) / (
        classes - 1
    )
    return (gram - mean_square * simplex).square().mean((-2, -1))


@torch.no_grad()
def super_symmetric_projection(weight: Tensor) -> Tensor:
    r"""Make class vectors super-symmetric, near given ones and of the same mean squared length.

    The nearest, among those with that length, to the given vectors minus their mean: their singular
    values are made equal. For projected gradient descent:
    ``layer.weight.data.copy_(super_symmetric_projection(layer.weight))`` after each step.

    Args:
        weight: class vectors ``[..., C, D]`` with D >= C - 1; leading dimensions are runs.

    Returns:
        Vectors of the same shape whose :func:`super_symmetry_penalty` is 0 to rounding, if the
        given minus their mean have the rank C - 1.

    Raises:
        ValueError: for fewer than two classes, for fewer than C - 1 features, where no
            super-symmetric vectors exist, and for vectors that are not finite.

    Example:
        >>> import torch
        >>> projected = super_symmetric_projection(torch.eye(3))
        >>> simplex = 1.5 * torch.eye(3) - 0.5  # 1 on the diagonal, -1/2 elsewhere
        >>> torch.allclose(projected @ projected.T, simplex, atol=1e-6)
        True

    References:
        *Large Margin In Softmax Cross-Entropy Loss*, section 3.
    """
    classes = _classes(weight)
    if weight.shape[-1] < classes - 1:
        raise ValueError(
            f"{classes} super-symmetric class vectors need at least {classes - 1} features; "
            f"got {weight.shape[-1]}"
        )
    if weight.is_cpu and not weight.isfinite().all():
        raise ValueError("class vectors must be finite to be projected; some are NaN or infinite")
    centred = weight - weight.mean(-2, keepdim=True)
    left, _, right = torch.linalg.svd(centred, full_matrices=False)
    left, right = left[..., : classes - 1], right[..., : classes - 1, :]
    mean_square = weight.square().sum((-2, -1)) / classes
    length = torch.sqrt(mean_square * classes / (classes - 1))[..., None, None]
    return length * (left @ right)


def _classes(weight: Tensor) -> int:
    if weight.ndim < 2 or weight.shape[-2] < 2:
        raise ValueError(
            "weight must hold at least two class vectors, [..., C, D]; got shape "
            f"{list(weight.shape)}"
        )
    return weight.shape[-2]
