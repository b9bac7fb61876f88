r"""The arguments that all losses share: their checks, the four options of a cross-entropy, and the form ``penalty(r - a)``.

Most losses treat the true class apart and see the others through :math:`r_c = \log \sum_{i \neq c} e^{z_i}` alone. They work with the
difference from the logit :math:`a_c` of the true class, so that no digit of :math:`1 - p_c` is lost: the cross-entropy is
:math:`\mathrm{softplus}(r_c - a_c)`.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar, cast

import torch
from torch import Tensor

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Reduction = Literal["none", "mean", "sum"]


class IndexOptions(TypedDict, total=False):
    """The options of a cross-entropy, for a loss that takes class indices alone."""

    weight: Tensor | None
    ignore_index: int
    reduction: Reduction


class Options(IndexOptions, total=False):
    """The options of a cross-entropy."""

    label_smoothing: float


DEFAULTS: dict[str, tuple[Any, str, str]] = {
    "weight": (None, "Tensor | None", "a factor for each class, ``[C]``; the mean over class indices divides by the factors used."),
    "ignore_index": (-100, "int", "class index whose samples count for nothing."),
    "reduction": ("mean", "Reduction", '``"none"``, ``"mean"`` or ``"sum"``.'),
    "label_smoothing": (0.0, "float", "share of the target, in [0, 1], that is spread evenly over the classes."),
}
"""Default, type and description of each option."""

At = Callable[[Tensor], Tensor]
"""Select the true class; identity for soft labels."""

Parameters = Mapping[str, Any]
"""Numbers, and tensors with one value for each sample in a shape that broadcasts with the values they meet."""

Check = Callable[[str, float | Tensor, torch.Size], float | Tensor]

_COMPUTE_DTYPE = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float32, torch.float64: torch.float64}
_PLAIN = (Tensor, torch.nn.Parameter)

transforms_active: Callable[[], bool] = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
"""Say whether a ``torch.func`` transform looks on."""


def readable(tensor: Tensor) -> bool:
    """Say whether values can be looked at without waiting for a device, and without breaking a transform or a graph."""
    return tensor.is_cpu and type(tensor) in _PLAIN and not torch.compiler.is_compiling() and not transforms_active()


def number_if_positional(name: str, place: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Refuse a tensor at a place where PyTorch's cross-entropy takes class weights; by keyword it is welcome."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            if len(args) > place and isinstance(args[place], Tensor):
                raise TypeError(
                    f"a tensor as {name} must be given by keyword, {name}=...: class weights, which PyTorch's cross-entropy takes in this "
                    "place, are weight=..."
                )
            return function(*args, **kwargs)

        return checked

    return decorate


def without_smoothing(options: Options) -> IndexOptions:
    """Return the options of a term that acts on the true class alone."""
    return cast(IndexOptions, {name: value for name, value in options.items() if name != "label_smoothing"})


_SHAPES = "of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``"
_COMMON = {
    "input": f"logits, {_SHAPES}.",
    "cosine": rf":math:`\cos\theta`, {_SHAPES}; :class:`gdlib.heads.CosineLinear` makes it.",
    "target": "class indices of the shape of the logits without their class dimension",
}
_RETURNS = 'Returns:\n    The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.'
_RAISES = "Raises:\n    ValueError: for a parameter outside its bounds, and for whatever :func:`gdlib.functional.gd_cross_entropy` refuses."


def documented(function: F) -> F:
    """Show the options that a loss passes on one by one in its signature, and document what all losses share.

    The docstring describes the parameters that are the function's own; input, target, options, result and errors are added here.
    """
    signature = inspect.signature(function)
    *own, options = signature.parameters.values()
    smooth = options.annotation == "Unpack[Options]"
    shown = [name for name in DEFAULTS if smooth or name != "label_smoothing"]
    added = [inspect.Parameter(name, options.KEYWORD_ONLY, default=DEFAULTS[name][0], annotation=DEFAULTS[name][1]) for name in shown]
    function.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    text, example, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\nExample:")
    text, _, described = text.partition("\n\nArgs:\n")
    entries = dict(re.findall(r"^    (\w+): (.*(?:\n        .*)*)", described, re.MULTILINE))
    classes = ", or class probabilities of their shape." if smooth and "centers" not in signature.parameters else "."
    common = _COMMON | {"target": _COMMON["target"] + classes} | {name: DEFAULTS[name][2] for name in shown}
    names = [parameter.name for parameter in own] + shown
    function.arguments = {name: entries.get(name, common.get(name, "")) for name in names}  # type: ignore[attr-defined]
    listed = "\n".join(f"    {name}: {description}" for name, description in function.arguments.items())  # type: ignore[attr-defined]
    function.__doc__ = f"{text}\n\nArgs:\n{listed}\n\n{_RETURNS}\n\n{_RAISES}{example}{rest}\n"
    return function


def check_logits(input: Tensor) -> int:
    """Refuse what cannot be logits; return the class dimension."""
    if not isinstance(input, Tensor):
        raise ValueError(f"input must be a tensor of logits, got {type(input).__name__}")
    if input.dtype not in _COMPUTE_DTYPE:
        raise ValueError(
            f"input must hold logits of type float16, bfloat16, float32 or float64, got {input.dtype}; convert it with .float()"
        )
    if input.ndim == 0:
        raise ValueError("input must have a class dimension: shape [C], [N, C] or [N, C, d1, ...], got a scalar")
    class_dim = min(1, input.ndim - 1)
    if input.shape[class_dim] == 0:
        raise ValueError(f"input of shape {list(input.shape)} has no classes (dimension {class_dim})")
    return class_dim


def check_target(input: Tensor, target: Tensor, class_dim: int, only_indices: str = "") -> bool:
    """Refuse a target that fits neither reading; return whether it holds class probabilities, which ``only_indices`` says why to refuse."""
    if not isinstance(target, Tensor):
        raise ValueError(f"target must be a tensor of class indices or class probabilities, got {type(target).__name__}")
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :]
    if target.shape == input.shape:
        if not target.is_floating_point():
            raise ValueError(
                f"target has the shape of input, {list(input.shape)}, and is therefore read as class probabilities, which must be "
                f"floating point; got {target.dtype}. Class indices would have the shape {list(index_shape)}"
            )
        if only_indices:
            raise ValueError(f"target must hold class indices: {only_indices}; got class probabilities")
        return True
    if target.shape != index_shape:
        raise ValueError(
            f"target of shape {list(target.shape)} does not fit input of shape {list(input.shape)}: expected class indices of shape "
            f"{list(index_shape)} or class probabilities of shape {list(input.shape)}"
        )
    if target.dtype not in (torch.int64, torch.uint8):
        raise ValueError(f"class indices must be int64 or uint8, got {target.dtype}; convert them with target.long()")
    return False


def check_options(
    input: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, label_smoothing: float, class_dim: int, soft: bool
) -> None:
    """Refuse options that cross_entropy would refuse, with what to do instead."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing must lie in [0, 1], got {label_smoothing}")
    if soft and ignore_index >= 0:
        raise ValueError("ignore_index needs class indices; with class probabilities give the sample a row of zeros instead")
    classes = input.shape[class_dim]
    if weight is not None and (not isinstance(weight, Tensor) or weight.shape != (classes,) or not weight.is_floating_point()):
        given = f"{weight.dtype} of shape {list(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
        raise ValueError(f"weight must be a floating tensor with one factor for each class, shape [{classes}]; got {given}")


def positive(name: str, value: float | Tensor, index_shape: torch.Size) -> float | Tensor:
    """Refuse a value that is not positive and finite, or that does not broadcast to one value for each sample."""
    return _parameter(name, value, index_shape, ("> 0", lambda number: number > 0))


def nonnegative(name: str, value: float | Tensor, index_shape: torch.Size) -> float | Tensor:
    """Refuse a value that is negative or not finite, or that does not broadcast to one value for each sample."""
    return _parameter(name, value, index_shape, (">= 0", lambda number: number >= 0))


def finite(name: str, value: float | Tensor, index_shape: torch.Size) -> float | Tensor:
    """Refuse a value that is not finite, or that does not broadcast to one value for each sample."""
    return _parameter(name, value, index_shape, ("> -inf", lambda number: number > -math.inf))


def _parameter(name: str, value: float | Tensor, index_shape: torch.Size, bound: tuple[str, Callable[[Any], Any]]) -> float | Tensor:
    words, within = bound
    if not isinstance(value, Tensor):
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be a number or a tensor, got {type(value).__name__}") from error
        if isinstance(value, bool) or not (within(number) and number < math.inf):
            raise ValueError(f"{name} must be a finite number {words}, got {value}")
        return number
    if value.is_complex() or value.dtype == torch.bool:
        raise ValueError(f"{name} must be a real tensor, got {value.dtype}")
    if not broadcasts(value.shape, index_shape):
        raise ValueError(
            f"{name} of shape {list(value.shape)} does not broadcast to one value for each sample, shape {list(index_shape)}; "
            f"add trailing dimensions of size 1 to a {name} for each row"
        )
    if readable(value) and not bool((within(value.detach()) & torch.isfinite(value.detach())).all()):
        raise ValueError(f"{name} must be finite and {words} everywhere, got {value}")
    return value


def broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    """Say whether a shape broadcasts to another one without changing that."""
    try:
        return torch.broadcast_shapes(shape, to) == to
    except RuntimeError:
        return False


def compute_in(input: Tensor) -> tuple[Tensor, torch.dtype]:
    """Return the logits in the type to compute in, and the type of the result: that of the input, or float32 under autocast."""
    compute, device = _COMPUTE_DTYPE[input.dtype], input.device.type
    result = compute if device != "meta" and torch.is_autocast_enabled(device) else input.dtype
    return input if input.dtype == compute else input.to(compute), result


def over_classes(value: float | Tensor, class_dim: int, logits: Tensor) -> float | Tensor:
    """Shape a value for each sample so that it broadcasts over the classes."""
    if not isinstance(value, Tensor):
        return value
    index_shape = logits.shape[:class_dim] + logits.shape[class_dim + 1 :]
    return value.to(logits).expand(index_shape).unsqueeze(class_dim)


def all_in_range(index: Tensor, classes: int) -> bool:
    """Say whether every index is known to be a class."""
    if not index.numel() or not readable(index):
        return False
    low, high = index.aminmax()
    return low.item() >= 0 and high.item() < classes


def valid_index(target: Tensor, ignore_index: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return which samples count, and an index that can be gathered everywhere; refuse an index that is no class."""
    index = target.long()
    valid = index != ignore_index
    index = torch.where(valid, index, 0)
    check_index(index, classes)
    return valid, index


def check_index(index: Tensor, classes: int) -> None:
    """Refuse an index that is no class."""
    if index.numel() and readable(index) and not all_in_range(index, classes):
        outside = index[(index < 0) | (index >= classes)][0].item()
        raise ValueError(
            f"class index {outside} lies outside [0, {classes}): input has {classes} classes; mark samples that should not count with "
            "ignore_index"
        )


def gather(values: Tensor, index: Tensor, class_dim: int) -> Tensor:
    """Select the indexed class of every sample."""
    return values.gather(class_dim, index.unsqueeze(class_dim)).squeeze(class_dim)


def reduce_indices(per_sample: Tensor, index: Tensor, valid: Tensor, weight: Tensor | None, reduction: Reduction) -> Tensor:
    """Weigh, mask and reduce the losses of samples with class indices; the mean divides by the weights of the samples that count."""
    sample_weight = valid.to(per_sample.dtype) if weight is None else weight.to(per_sample)[index] * valid
    loss = torch.where(valid, per_sample * sample_weight, 0.0)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / sample_weight.sum()


def reduce_classes(
    per_class: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
    label_smoothing: float,
    class_dim: int,
    soft: bool,
) -> Tensor:
    """Contract per-class losses with class probabilities or smoothed class indices, then reduce."""
    classes = per_class.shape[class_dim]
    if weight is not None:
        weight = weight.to(per_class)
        per_class = per_class * weight.reshape(-1, *[1] * (per_class.ndim - class_dim - 1))
    if soft:
        probabilities = target.to(per_class)
        if label_smoothing > 0:
            probabilities = probabilities * (1 - label_smoothing) + label_smoothing / classes
        return reduce_all((probabilities * per_class).sum(class_dim), reduction)
    valid, index = valid_index(target, ignore_index, classes)
    mixed = (1 - label_smoothing) * gather(per_class, index, class_dim) + label_smoothing / classes * per_class.sum(class_dim)
    return reduce_mixed(mixed, index, valid, weight, reduction)


def reduce_all(per_sample: Tensor, reduction: Reduction) -> Tensor:
    """Reduce losses that all count the same: those of class probabilities."""
    if reduction == "none":
        return per_sample
    return per_sample.sum() if reduction == "sum" else per_sample.sum() / per_sample.numel()


def reduce_mixed(per_sample: Tensor, index: Tensor, valid: Tensor, weight: Tensor | None, reduction: Reduction) -> Tensor:
    """Mask and reduce losses with label smoothing, which have the weights of all classes in them; the mean divides by those of the true."""
    loss = torch.where(valid, per_sample, 0.0)
    if reduction == "none":
        return loss
    total = loss.sum()
    if reduction == "sum":
        return total
    weights = valid.sum() if weight is None else (weight.to(per_sample)[index] * valid).sum()
    return torch.where(weights == 0, math.nan, total / weights)  # no infinity where nothing counts, as in PyTorch


def lowest(logits: Tensor) -> float:
    """Return a logit that stands for no class at all; unlike -inf it has a derivative, where all other classes are masked by -inf."""
    return torch.finfo(logits.dtype).min / 4


def softplus(x: Tensor) -> Tensor:
    """Log(1 + e^x) with all digits, in every floating type."""
    return torch.logaddexp(x, x.new_zeros(()))


def target_logit_loss(
    input: Tensor,
    target: Tensor,
    *,
    parameters: Mapping[str, tuple[float | Tensor, Check]],
    logits: Callable[[Tensor, Parameters], Tensor] = lambda values, given: values,
    true_logit: Callable[[Tensor, At, Parameters], Tensor] | None = None,
    penalty: Callable[[Tensor, Parameters], Tensor] = lambda x, given: softplus(x),
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Shared implementation of losses ``penalty(logsumexp_{i≠c} z_i − a_c)``.

    For class probabilities and for label smoothing every class in turn is the true one, and the losses are mixed.

    Args:
        input: what the logits are made of: logits, or cosines.
        target: class indices or class probabilities.
        parameters: the value of each parameter of the loss, a number or one for each sample, and the check that it has to pass.
        logits: makes the logits z of the other classes.
        true_logit: makes the logit a of the true class; None leaves it as it is.
        penalty: makes the loss; the default is that of the cross-entropy.
        weight: as in cross_entropy.
        ignore_index: as in cross_entropy.
        reduction: as in cross_entropy.
        label_smoothing: as in cross_entropy.
    """
    class_dim = check_logits(input)
    soft = check_target(input, target, class_dim)
    check_options(input, weight, ignore_index, reduction, label_smoothing, class_dim, soft)
    index_shape = input.shape[:class_dim] + input.shape[class_dim + 1 :]
    checked = {name: check(name, value, index_shape) for name, (value, check) in parameters.items()}
    values, result_dtype = compute_in(input)
    over_all = {name: over_classes(value, class_dim, values) for name, value in checked.items()}

    every = logits(values, over_all)
    shift = every.detach().amax(class_dim, keepdim=True)
    every = every - shift  # keeps small differences of large logits
    if soft or label_smoothing > 0:
        true = every if true_logit is None else true_logit(values, lambda value: value, over_all) - shift
        per_class = penalty(log_of_others(every, class_dim) - true, over_all)
        loss = reduce_classes(per_class, target, weight, ignore_index, reduction, label_smoothing, class_dim, soft)
    else:
        valid, index = valid_index(target, ignore_index, input.shape[class_dim])
        given = {name: value.to(values) if isinstance(value, Tensor) else value for name, value in checked.items()}

        def at(value: Tensor) -> Tensor:
            return gather(value, index, class_dim)

        true = at(every) if true_logit is None else true_logit(values, at, given) - shift.squeeze(class_dim)
        others = torch.logsumexp(every.scatter(class_dim, index.unsqueeze(class_dim), lowest(every)), class_dim)
        loss = reduce_indices(penalty(others - true, given), index, valid, weight, reduction)
    return loss.to(result_dtype)


def of_indices(
    input: Tensor,
    target: Tensor,
    per_sample: Callable[[Tensor, Tensor, int, Parameters], Tensor],
    *,
    parameters: Mapping[str, tuple[float | Tensor, Check]],
    only_indices: str,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor:
    """Shared implementation of losses against class indices alone: ``per_sample(logits, index, class_dim, parameters)``, reduced."""
    class_dim = check_logits(input)
    check_target(input, target, class_dim, only_indices)
    check_options(input, weight, ignore_index, reduction, 0.0, class_dim, False)
    values, result_dtype = compute_in(input)
    given = {name: check(name, value, target.shape) for name, (value, check) in parameters.items()}
    given = {name: value.to(values) if isinstance(value, Tensor) else value for name, value in given.items()}
    valid, index = valid_index(target, ignore_index, input.shape[class_dim])
    return reduce_indices(per_sample(values, index, class_dim, given), index, valid, weight, reduction).to(result_dtype)


def log_of_others(logits: Tensor, class_dim: int) -> Tensor:
    """Return the log-sum-exp of all other classes, for each class, of the shape of the logits.

    For all but the largest class it is the full log-sum-exp plus ``log1p(-p_c)`` with ``p_c <= 1/2``; for the largest one it is summed
    afresh, because ``1 - p_c`` has lost its digits there.
    """
    top = logits.detach().argmax(class_dim, keepdim=True)
    log_total = torch.logsumexp(logits, class_dim, keepdim=True)
    log_total_without_top = torch.logsumexp(logits.scatter(class_dim, top, lowest(logits)), class_dim, keepdim=True)
    probability = torch.exp(logits - log_total).scatter(class_dim, top, 0.0)
    return (log_total + torch.log1p(-probability)).scatter(class_dim, top, log_total_without_top)
