"""Losses on the angles between features and class vectors: margins and computed scales.

They take the cosines of :class:`gdlib.heads.CosineLinear`; a scale turns them into logits. Margins
and angles are in radians. A cosine of -inf masks its class, for class indices and a scale above 0;
where that is the true class, the losses with an angular margin may be finite. A value far below -1,
such as the lowest of its type, masks a wrong class too. On the CPU the losses with an angle refuse
values above 1.05, which are logits, not cosines; the two that only scale cosines, CosFace and
AdaCos, take them as they are.
"""

from __future__ import annotations

import math
from typing import overload

import torch
from torch import Tensor

from gdlib.functional._arguments import (
    FLOATING,
    Reduction,
    check_hyperparameter,
    check_not_meta,
    check_number,
    check_whole,
    readable,
    scaled,
    softplus,
    tensor_by_keyword,
)
from gdlib.functional._reduction import Batch

_LARGEST = 1.05  # a cosine after rounding to bfloat16
_NEAR_AN_END = 0.99


def arccos(cosine: Tensor) -> Tensor:
    r"""Compute the angle of a cosine, in radians, with a finite gradient everywhere.

    The value is that of :func:`torch.arccos`, or 0 or π where rounding has put the cosine outside
    [-1, 1]. The gradient is :math:`-1/\sqrt{1 - x^2}` up to the type's epsilon away from ±1, and 0
    closer to ±1 than that.

    Args:
        cosine: values in [-1, 1], of any shape and floating type; float16 and bfloat16 are computed
            in float32.

    Returns:
        Angles in [0, π], of the shape and type of the cosines.

    Raises:
        ValueError: for anything but a floating tensor.

    Example:
        >>> cosine = torch.tensor([1.0, 0.0, -1.0], requires_grad=True)
        >>> angle = arccos(cosine)
        >>> angle.detach(), torch.autograd.grad(angle.sum(), cosine)
        (tensor([0.0000, 1.5708, 3.1416]), (tensor([ 0., -1.,  0.]),))
    """
    if not isinstance(cosine, Tensor) or cosine.dtype not in FLOATING:
        given = cosine.dtype if isinstance(cosine, Tensor) else type(cosine).__name__
        raise ValueError(f"cosine must be a floating tensor; got {given}")
    if cosine.dtype in (torch.float16, torch.bfloat16):
        return arccos(cosine.float()).to(cosine.dtype)
    edge = 1 - torch.finfo(cosine.dtype).eps
    inside = cosine.clamp(-edge, edge)
    # near the ends 1 - x² has lost its digits, which (1 - x)(1 + x) has kept
    sine = torch.sqrt((1 - inside) * (1 + inside))
    angle = torch.where(
        inside.detach().abs() > _NEAR_AN_END, torch.atan2(sine, inside), torch.arccos(inside)
    )
    exact = torch.arccos(cosine.detach().clamp(-1, 1))
    return angle + (exact - angle.detach())


@tensor_by_keyword("scale")
def arcface_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor = 64.0,
    margin: float | Tensor = 0.5,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute ArcFace: cross-entropy with a margin added to the angle of the true class.

    .. math::

        J = -\log \frac{e^{s\, \psi(\theta_c)}}
          {e^{s\, \psi(\theta_c)} + \sum_{i \neq c} e^{s \cos \theta_i}},
        \qquad \psi(\theta) = \cos(\theta + m)

    ``margin=0`` is the cross-entropy of ``scale * cosine``. Beyond :math:`\theta = \pi - m` the
    printed :math:`\psi` rises again; there it is replaced by :math:`\cos\theta - m \sin m`, as in
    the public implementations ("easy margin" off). For m up to 2.3 it then falls everywhere, with a
    jump at the border.

    Args:
        cosine: :math:`\cos\theta`, in place of logits.
        target: class indices, or class probabilities.
        scale: :math:`s > 0`, a number or a tensor that broadcasts to the class indices: one value
            for each sample.
        margin: :math:`m` in [0, π] radians, like ``scale``. The original uses s = 64, m = 0.5;
            ArcGrad's comparison s = 20, m = 0.1.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        A true class at 60 degrees counts as one at 90 degrees, so both logits are equal:

        >>> cosine, labels = torch.tensor([[0.5, 0.0]]), torch.tensor([0])
        >>> loss = arcface_cross_entropy(cosine, labels, scale=2.0, margin=math.pi / 6)
        >>> round(loss.item(), 4)
        0.6931

    References:
        *ArcFace* (Deng et al., CVPR 2019), eq. 3; *ArcGrad*, eq. 8.
    """
    batch = Batch(cosine, target, weight, ignore_index, reduction, label_smoothing)
    values = _cosines(batch, cosine)
    scale = batch.parameter("scale", scale, "> 0")
    margin = batch.parameter("margin", margin, "in [0, pi] radians")
    true = batch.true(values)
    angle = arccos(true)
    moved = torch.cos(angle + margin)
    sine = torch.sin(margin) if isinstance(margin, Tensor) else math.sin(margin)
    moved = torch.where(angle + margin < math.pi, moved, true - margin * sine)
    logits = scaled(values, scale)
    return batch.reduce(softplus(batch.log_odds_against(logits, scaled(moved, scale))))


@tensor_by_keyword("scale")
def cosface_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor = 64.0,
    margin: float | Tensor = 0.35,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute CosFace, or AM-Softmax: a margin is subtracted from the cosine of the true class.

    .. math::

        J = -\log \frac{e^{s (\cos\theta_c - m)}}
          {e^{s (\cos\theta_c - m)} + \sum_{i \neq c} e^{s \cos \theta_i}}

    It is :func:`gdlib.functional.soft_margin_cross_entropy` of ``scale * cosine`` with the margin
    :math:`s m`, and hence gradient decay with :math:`\beta = e^{-s m}`. ``margin=0`` is the
    cross-entropy of ``scale * cosine``.

    Args:
        cosine: :math:`\cos\theta`, in place of logits.
        target: class indices, or class probabilities.
        scale: :math:`s > 0`, a number or a tensor that broadcasts to the class indices.
        margin: :math:`m \ge 0`, in units of the cosine, like ``scale``. The defaults are CosFace's;
            AM-Softmax uses s = 30, m = 0.35.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> cosine, labels = torch.tensor([[0.5, 0.0]]), torch.tensor([0])
        >>> loss = cosface_cross_entropy(cosine, labels, scale=2.0, margin=0.5)
        >>> round(loss.item(), 4)  # 0.5 - 0.5: two equal logits
        0.6931

    References:
        *CosFace* (Wang et al., CVPR 2018), eq. 4; *Additive Margin Softmax for Face Verification*
        (Wang et al., 2018).
    """
    batch = Batch(cosine, target, weight, ignore_index, reduction, label_smoothing)
    scale = batch.parameter("scale", scale, "> 0")
    margin = batch.parameter("margin", margin, ">= 0")
    logits = scaled(batch.values(cosine), scale)
    return batch.reduce(softplus(batch.log_odds_against(logits) + scale * margin))


@tensor_by_keyword("scale")
def sphereface_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor = 1.0,
    margin: int = 4,
    *,
    annealing: float = 0.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute A-Softmax (SphereFace): the angle of the true class is multiplied by a whole number.

    .. math::

        J = -\log \frac{e^{s\, \psi(\theta_c)}}
          {e^{s\, \psi(\theta_c)} + \sum_{i \neq c} e^{s \cos \theta_i}}, \qquad
        \psi(\theta) = (-1)^k \cos(m \theta) - 2k
        \quad \text{for } \theta \in \bigl[\tfrac{k\pi}{m}, \tfrac{(k+1)\pi}{m}\bigr]

    :math:`\psi` falls from 1 to :math:`1 - 2m` without a jump. In the original, :math:`s` is the
    norm of the sample's features, which are not normalised: give ``features.norm(dim=1)``, and
    gradients flow into it. ``margin=1`` is the cross-entropy of ``scale * cosine``.

    Args:
        cosine: :math:`\cos\theta`, in place of logits.
        target: class indices, or class probabilities.
        scale: :math:`s \ge 0`, a number or a tensor that broadcasts to the class indices.
        margin: :math:`m`, a whole number >= 1; the original uses 4.
        annealing: :math:`\lambda \ge 0`; the true logit is :math:`s (\lambda \cos\theta +
            \psi(\theta)) / (1 + \lambda)`. The original lowers it during training, from about 1000
            to about 5; 0 is the loss as defined.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        Twice 60 degrees is 120 degrees, so the logits are -1 and -2:

        >>> cosine, labels = torch.tensor([[0.5, -1.0]]), torch.tensor([0])
        >>> loss = sphereface_cross_entropy(cosine, labels, scale=2.0, margin=2)
        >>> round(loss.item(), 4)
        0.3133

    References:
        *SphereFace* (Liu et al., CVPR 2017); the annealing is that of *Large-Margin Softmax* (Liu
        et al., ICML 2016).
    """
    check_whole("margin", margin, 1)
    check_number("annealing", annealing, ">= 0")
    batch = Batch(cosine, target, weight, ignore_index, reduction, label_smoothing)
    values = _cosines(batch, cosine)
    scale = batch.parameter("scale", scale, ">= 0")
    true = scaled(_annealed(batch.true(values), margin, annealing), scale)
    return batch.reduce(softplus(batch.log_odds_against(scaled(values, scale), true)))


def l_softmax_cross_entropy(
    input: Tensor,
    target: Tensor,
    norms: Tensor,
    margin: int = 4,
    *,
    annealing: float = 0.0,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute L-Softmax: like A-Softmax, but keeping the norms of the class vectors.

    .. math::

        J = -\log \frac{e^{\lVert w_c \rVert \lVert h \rVert \psi(\theta_c)}}
          {e^{\lVert w_c \rVert \lVert h \rVert \psi(\theta_c)}
          + \sum_{i \neq c} e^{\lVert w_i \rVert \lVert h \rVert \cos \theta_i}}

    with the :math:`\psi` of :func:`sphereface_cross_entropy` and the logits :math:`z_i = w_i^T h =
    \lVert w_i \rVert \lVert h \rVert \cos \theta_i` of a layer without a bias. ``margin=1`` is the
    cross-entropy of ``input``.

    Args:
        input: logits :math:`z`, ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``.
        target: class indices, or class probabilities.
        norms: :math:`\lVert w_i \rVert \lVert h \rVert`, of a shape that broadcasts to that of
            ``input``; :class:`gdlib.heads.NormedLinear` computes both. Where a norm is 0, the angle
            counts as a right angle. On the CPU, norms below 0 or below their logits are refused.
        margin: :math:`m`, a whole number >= 1.
        annealing: :math:`\lambda \ge 0`, as in :func:`sphereface_cross_entropy`.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        The true class is at 60 degrees; the logits become -1 and -2:

        >>> logits, norms = torch.tensor([[1.0, -2.0]]), torch.tensor([[2.0, 2.0]])
        >>> loss = l_softmax_cross_entropy(logits, torch.tensor([0]), norms, margin=2)
        >>> round(loss.item(), 4)
        0.3133

    References:
        *Large-Margin Softmax Loss for Convolutional Neural Networks* (Liu et al., ICML 2016), eq.
        4-6; *Probability-Dependent Gradient Decay in Large Margin Softmax*, version 1, eq. 6, where
        :math:`\psi` is left open beyond the first interval.
    """
    check_whole("margin", margin, 1)
    check_number("annealing", annealing, ">= 0")
    batch = Batch(input, target, weight, ignore_index, reduction, label_smoothing)
    values = batch.values(input)
    norms = batch.for_each_logit("norms", norms, values, f"input of shape {list(input.shape)}")
    true, lengths = batch.true(values), batch.true(norms)
    _check_norms(batch, true, lengths)
    cosine = torch.where(lengths > 0, true / torch.where(lengths > 0, lengths, 1.0), 0.0)
    changed = lengths * _annealed(cosine, margin, annealing)
    return batch.reduce(softplus(batch.log_odds_against(values, changed)))


@tensor_by_keyword("scale")
def adacos_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor | None = None,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute AdaCos: the cross-entropy of ``scale * cosine``.

    .. math:: J = -\log \bigl(e^{s \cos\theta_c} / \sum_j e^{s \cos\theta_j}\bigr)

    Without a ``scale`` it is fixed AdaCos. Dynamic AdaCos takes the scale from
    :func:`adacos_scale`, as :class:`gdlib.losses.AdaCosLoss` does.

    Args:
        cosine: :math:`\cos\theta`, in place of logits.
        target: class indices, or class probabilities.
        scale: :math:`s`, finite, a number or a tensor that broadcasts to the class indices; None
            for the fixed :math:`\sqrt 2 \log(C - 1)`, which is 0 for two classes.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> cosine, labels = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
        >>> round(adacos_cross_entropy(cosine, labels).item(), 4)  # two classes: always log 2
        0.6931
        >>> round(adacos_cross_entropy(cosine, labels, scale=2.0).item(), 4)  # log(1 + exp(-2))
        0.1269

    References:
        *AdaCos* (Zhang et al., CVPR 2019); *ArcGrad*, eq. 7 with the scale of eq. 10.
    """
    batch = Batch(cosine, target, weight, ignore_index, reduction, label_smoothing)
    if scale is None:
        scale = fixed_scale(max(2, batch.classes))
    scale = batch.parameter("scale", scale, "> -inf")
    return batch.reduce(softplus(batch.log_odds_against(scaled(batch.values(cosine), scale))))


def fixed_scale(classes: int) -> float:
    """Return the scale of fixed AdaCos, from which the dynamic one starts; 0 for two classes."""
    return math.sqrt(2) * math.log(classes - 1)


@torch.no_grad()
def adacos_scale(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor,
    *,
    ignore_index: int = -100,
    minimum_scale: float | None = None,
    maximum_scale: float | None = None,
) -> Tensor:
    r"""Compute the next scale of dynamic AdaCos, from a batch and the previous scale.

    .. math::

        s' = \frac{\log B}{\cos\bigl(\min(\pi/4,\, \theta_{\mathrm{med}})\bigr)}, \qquad
        B = \frac{1}{N} \sum_n \sum_{j \neq c_n} e^{s \cos \theta_{n,j}}

    :math:`\theta_{\mathrm{med}}` is the median of the angles :math:`\theta_{n, c_n}` to the true
    classes; for an even number, the lower of the two in the middle. ArcGrad's eq. 10 writes
    :math:`\theta_{\mathrm{mod}}` for it. No gradient flows.

    Args:
        cosine: ``[N, C]``, or ``[R, N, C]`` for R runs, each with its own scale.
        target: class indices ``[N]`` or ``[R, N]``.
        scale: s, a number, or ``[R]``.
        ignore_index: class index whose samples are ignored.
        minimum_scale: a lower bound, which the paper does not have; None for no bound. Where the
            wrong cosines are negative, B falls below 1 and the published scale below 0, which would
            reverse the loss.
        maximum_scale: an upper bound > 0 on its magnitude, which the paper does not have; None for
            no bound. The paper assumes that the wrong angles are about right angles. Where their
            cosines come close to 1, B is :math:`(C - 1)\, e^s`, and the published scale grows with
            each batch, without end: by :math:`\log(C - 1)`, and from true angles of 45 degrees on
            by a factor of :math:`\sqrt 2` as well; near -1 it does so with alternating sign.

    Returns:
        The scale, of shape ``[]`` or ``[R]``; where no sample counts, or one is NaN, the previous
        scale.

    Raises:
        ValueError: for shapes that do not fit, for a class index outside ``[0, C)``, and for bounds
            that allow no scale.

    Example:
        B is 2 and the median angle is 0, which gives log 2:

        >>> cosine = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        >>> round(adacos_scale(cosine, torch.tensor([0, 1]), scale=3.0).item(), 4)
        0.6931

    References:
        *AdaCos*, the dynamic scale; *ArcGrad*, eq. 10, second line.
    """
    check_scale_bounds(minimum_scale, maximum_scale)
    batch = Batch.of_rows("cosines", cosine, target, ignore_index=ignore_index)
    values = cosine.to(batch.dtype)
    if isinstance(scale, Tensor):
        check_not_meta("scale", scale, cosine.device)
    else:
        scale = check_number("scale", scale, "> -inf")
    before = torch.as_tensor(scale, dtype=values.dtype, device=values.device)
    runs = values.shape[:-2]
    if before.numel() == 1:
        before = before.reshape(())
    if before.ndim and before.shape != runs:
        raise ValueError(
            f"scale must be a number or have the shape {list(runs)}; got {list(before.shape)}"
        )
    before = before.expand(runs)
    valid, index = batch.valid, batch.index.unsqueeze(-1)
    powers = (
        (before[..., None, None] * values)
        .scatter(-1, index, -math.inf)
        .masked_fill(~valid.unsqueeze(-1), -math.inf)
    )
    counted = valid.sum(-1)
    log_mean = torch.logsumexp(powers.flatten(-2), -1) - torch.log(counted.to(values))
    angle = arccos(values.gather(-1, index).squeeze(-1)).masked_fill(~valid, math.nan)
    # NaN comes last; nanmedian has no deterministic form on a GPU
    middle = (counted - 1).clamp(min=0).unsqueeze(-1) // 2
    ordered = angle.sort(-1).values
    median = ordered.gather(-1, middle).squeeze(-1) if angle.shape[-1] else before
    after = log_mean / torch.cos(median.clamp(max=math.pi / 4))
    if maximum_scale is not None:
        after = torch.where(after.isfinite(), after.clamp(-maximum_scale, maximum_scale), after)
    if minimum_scale is not None:
        after = after.clamp(min=minimum_scale)
    return torch.where((counted > 0) & after.isfinite(), after, before)


def check_scale_bounds(minimum_scale: float | None, maximum_scale: float | None) -> None:
    """Refuse bounds on AdaCos's scale that are not numbers, or that allow no scale."""
    if minimum_scale is not None:
        check_number("minimum_scale", minimum_scale, "> -inf")
    if maximum_scale is not None:
        check_number("maximum_scale", maximum_scale, "> 0")
        if minimum_scale is not None and minimum_scale > maximum_scale:
            raise ValueError(
                f"minimum_scale must not be above maximum_scale; got {minimum_scale} and "
                f"{maximum_scale}"
            )


@tensor_by_keyword("scale")
def arcgrad_cross_entropy(
    cosine: Tensor,
    target: Tensor,
    scale: float | Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Compute ArcGrad: the cross-entropy of the negative scaled angles.

    .. math:: J = -\log \frac{e^{-s \theta_c}}{\sum_j e^{-s \theta_j}}

    There is no margin. For each gap :math:`\theta_j - \theta_c` one scale gives the largest
    gradient; :func:`arcgrad_scale` computes it.

    Args:
        cosine: :math:`\cos\theta`, in place of logits.
        target: class indices, or class probabilities.
        scale: :math:`s > 0` in 1/radian, a number or a tensor that broadcasts to the class indices.
            The paper uses 30 and 5 in Table I, and 10 for CIFAR.

    The rest is as in :func:`gd_cross_entropy`: options, types, shapes, results and errors.

    Example:
        >>> cosine, labels = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
        >>> loss = arcgrad_cross_entropy(cosine, labels, scale=2.0)
        >>> round(loss.item(), 4)  # log(1 + exp(-2 * pi / 2))
        0.0423

    References:
        *ArcGrad*, eq. 11 and 19.
    """
    batch = Batch(cosine, target, weight, ignore_index, reduction, label_smoothing)
    values = _cosines(batch, cosine)
    scale = batch.parameter("scale", scale, "> 0")
    return batch.reduce(softplus(batch.log_odds_against(scaled_angles(values, scale))))


def scaled_angles(cosine: Tensor, scale: float | Tensor) -> Tensor:
    """Compute ArcGrad's logits, the negative scaled angles; a value below -1.05 masks its class."""
    return (-scale * arccos(cosine)).masked_fill(cosine < -_LARGEST, -math.inf)


@overload
def arcgrad_scale(gap: float, classes: int) -> float: ...
@overload
def arcgrad_scale(gap: Tensor, classes: int) -> Tensor: ...
def arcgrad_scale(gap: float | Tensor, classes: int) -> float | Tensor:
    r"""Compute the scale that gives ArcGrad the largest gradient at a given gap.

    .. math:: s = \frac{1 + W\bigl((C - 1)/e\bigr)}{\tilde m}

    maximises :math:`s A / (1 + A)` over s, where :math:`A = (C - 1) e^{-s \tilde m}`. W is
    Lambert's function. The paper's eq. 16 and 17 have the wrong sign in the exponent, and eq. 17
    lacks the factor s; eq. 19 is right. Scale and gap are interchangeable: given a scale, the
    function returns the gap for which no other scale has a larger gradient.

    Args:
        gap: :math:`\tilde m > 0`, the mean of each sample's smallest :math:`\theta_j - \theta_c`,
            in radians; a number or a tensor.
        classes: C >= 2.

    Returns:
        The scale in 1/radian, a number or a tensor like ``gap``.

    Raises:
        ValueError: for a gap that is not positive, and for fewer than two classes.

    Example:
        >>> round(arcgrad_scale(math.radians(84), classes=3), 2)
        1.0
        >>> round(arcgrad_scale(math.radians(2.1), classes=3), 1)
        39.9

    References:
        *ArcGrad*, eq. 13-19.
    """
    gap = check_hyperparameter("gap", gap, "> 0")
    check_whole("classes", classes, 2)
    # Newton's method for w + log w = log((C - 1)/e), solved by w = W((C - 1)/e)
    goal, w = math.log(classes - 1) - 1, 0.5
    for _ in range(50):
        step = (w + math.log(w) - goal) / (1 + 1 / w)
        w = max(w - step, w / 10)
        if abs(step) <= 1e-15 * w:
            break
    return (1 + w) / gap


def _cosines(batch: Batch, cosine: Tensor) -> Tensor:
    """Return the cosines to compute with; refuse logits in their place, which have no angle."""
    values = batch.values(cosine)
    if readable(values) and values.numel() and values.amax() > _LARGEST:
        largest = values.masked_fill(~batch.valid.unsqueeze(batch.dim), 0.0).amax().item()
        if largest > _LARGEST:
            raise ValueError(
                f"cosines must lie in [-1, 1], got {largest:.4g}; "
                "gdlib.heads.CosineLinear makes them, in place of logits"
            )
    return values


def _check_norms(batch: Batch, logits: Tensor, norms: Tensor) -> None:
    """Refuse what cannot be the norms of the true classes' logits, where values can be read."""
    if not readable(norms) or not norms.numel():
        return
    wrong = (norms < 0) | (logits > _LARGEST * norms)  # far below is a mask
    if bool((wrong & batch.valid.unsqueeze(batch.dim)).any()):
        raise ValueError(
            "norms must be >= 0 and no smaller than the logits, which are norms times cosines; "
            "gdlib.heads.NormedLinear makes both, for a layer without a bias"
        )


def _annealed(cosine: Tensor, multiple: int, annealing: float) -> Tensor:
    """Mix ψ(θ) with cos θ."""
    angle = arccos(cosine)
    interval = torch.floor(angle.detach() * (multiple / math.pi)).clamp(max=multiple - 1)
    falling = (1 - 2 * torch.remainder(interval, 2)) * torch.cos(multiple * angle) - 2 * interval
    return falling if annealing == 0 else (annealing * cosine + falling) / (1 + annealing)
