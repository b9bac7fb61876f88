r"""The arguments that all losses share: their checks, the four options of a cross-entropy, and the reduction.

Most losses treat the true class apart and see the others through :math:`r_c = \log \sum_{i \neq c}
e^{z_i}` alone. They work with :math:`r_c - a_c`, where :math:`a_c` is the true logit: the
cross-entropy is its softplus, and no digit of :math:`1 - p_c` is lost.
"""

from __future__ import annotations

import functools
import inspect
import math
import textwrap
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar, get_args

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
Reduction = Literal["none", "mean", "sum"]


class IndexOptions(TypedDict, total=False):
    """The options of a cross-entropy, for a loss that takes class indices alone."""

    weight: Tensor | None
    ignore_index: int
    reduction: Reduction


class Options(IndexOptions, total=False):
    """The options of a cross-entropy."""

    label_smoothing: float


_COMPUTE_DTYPE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
PLAIN = (Tensor, torch.nn.Parameter)

transforms_active: Callable[[], bool] = getattr(
    torch._C, "_are_functorch_transforms_active", lambda: False
)
"""Say whether a ``torch.func`` transform looks on."""


def looked_on() -> bool:
    """Say whether ``torch.compile``, ``torch.jit.trace`` or a ``torch.func`` transform looks on."""
    return torch.compiler.is_compiling() or transforms_active() or torch.jit.is_tracing()  # type: ignore[attr-defined]


def readable(tensor: Tensor) -> bool:
    """Say whether values can be looked at without waiting for a device, and without breaking a transform or a graph."""
    return tensor.is_cpu and type(tensor) in PLAIN and not looked_on()


POSITIONAL = "a tensor as {0} must be given by keyword, {0}=...: class weights, which PyTorch's cross-entropy takes in this place, are weight=..."


def by_keyword(loss: F) -> F:
    """Refuse a tensor as third argument, where PyTorch's cross-entropy takes class weights; by keyword it is welcome."""
    name = list(inspect.signature(loss).parameters)[2]

    @functools.wraps(loss)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 2 and isinstance(args[2], Tensor):
            raise TypeError(POSITIONAL.format(name))
        return loss(*args, **kwargs)

    return checked  # type: ignore[return-value]


_INPUTS = {
    "input": "logits :math:`z`, of shape ``[C]``, ``[N, C]`` or ``[N, C, d1, ...]``, of any floating type. float16 and bfloat16 are "
    "computed in float32; the result has the type of the input, or float32 under autocast, as PyTorch's own losses do.",
    "cosine": r":math:`\cos\theta`, of the shapes and types of logits; :class:`gdlib.heads.CosineLinear` makes it. -inf masks a class.",
    "target": "class indices (int64 or uint8) of the shape of the logits without their class dimension, or class probabilities (floating) "
    "of their shape.",
}
_OPTIONS = {
    "weight": "a factor for each class, ``[C]``. As in PyTorch, the mean over class indices divides by the sum of the factors used.",
    "ignore_index": "class index whose samples count for nothing; only for class indices.",
    "reduction": '``"none"``, ``"mean"`` or ``"sum"``.',
    "label_smoothing": "share of the target, in [0, 1], that is spread evenly over the classes.",
}
_SHARED = """
Returns:
    The loss: a scalar, or for ``reduction="none"`` a tensor of the shape of the class indices.

Raises:
    ValueError: for a parameter outside its bounds or of a shape that does not broadcast, for other shapes or types that do not fit, and
        for a class index outside ``[0, C)``. Values of tensors are looked at only where that costs no device synchronisation: on the CPU,
        outside ``torch.compile`` and ``torch.func`` transforms."""


def documented(loss: F) -> F:
    """Show the options that a loss passes on one by one in its signature, and document what all losses share."""
    signature = inspect.signature(vars(loss)["__init__"] if isinstance(loss, type) else loss)
    *own, options = (
        parameter for parameter in signature.parameters.values() if parameter.name != "self"
    )
    shared = [
        parameter
        for parameter in inspect.signature(Batch).parameters.values()
        if parameter.name in _OPTIONS
    ]
    shown = (
        shared if options.annotation == "Unpack[Options]" else shared[:-1]
    )  # the other losses have no label smoothing
    loss.__signature__ = signature.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
    text, _, example = inspect.cleandoc(loss.__doc__ or "").partition("\n\nExample:")
    text, _, described = text.partition("\n\nArgs:\n")

    def entries(texts: dict[str, str]) -> list[str]:
        kept = [
            name
            for name in inspect.signature(loss).parameters
            if name in texts and f"    {name}:" not in described
        ]
        wrapped = functools.partial(
            textwrap.fill,
            width=132,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
            break_on_hyphens=False,
        )
        return [wrapped(f"{name}: {texts[name]}") for name in kept]

    arguments = "\n".join([*entries(_INPUTS), *filter(None, [described]), *entries(_OPTIONS)])
    loss.__doc__ = f"{text}\n\nArgs:\n{arguments}\n{_SHARED}\n\nExample:{example}\n"
    return loss


_BOUNDS: dict[str, Callable[[float], bool]] = {
    "> 0": lambda x: x > 0,
    ">= 0": lambda x: x >= 0,
    ">= -1": lambda x: x >= -1,
    "> -inf": lambda x: x > -math.inf,
    "in (0, 1]": lambda x: 0 < x <= 1,
}


def check_parameter(
    bound: str, name: str, value: float | Tensor, index_shape: torch.Size
) -> float | Tensor:
    """Refuse a value that is not finite or not within its bound, or that does not broadcast to one value for each sample."""
    within = _BOUNDS[bound]
    if not isinstance(value, Tensor):
        try:
            number = float(value + 0)  # refuses a text that reads like a number
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must be a number or a tensor, got {type(value).__name__}"
            ) from error
        if isinstance(value, bool) or not (within(number) and number < math.inf):
            raise ValueError(f"{name} must be a finite number {bound}, got {value}")
        return number
    if value.is_complex() or value.dtype == torch.bool:
        raise ValueError(f"{name} must be a real tensor, got {value.dtype}")
    if not broadcasts(value.shape, index_shape):
        raise ValueError(
            f"{name} of shape {list(value.shape)} does not broadcast to one value for each sample, shape {list(index_shape)}; "
            f"add trailing dimensions of size 1 to a {name} for each row"
        )
    smallest, largest = extremes(value)
    if not (within(smallest) and within(largest) and largest < math.inf):
        raise ValueError(f"{name} must be finite and {bound} everywhere, got {value}")
    return value


positive, nonnegative, at_least_minus_one, finite, positive_to_one = (
    functools.partial(check_parameter, bound)
    for bound in ("> 0", ">= 0", ">= -1", "> -inf", "in (0, 1]")
)


def extremes(values: Tensor, unknown: float = 1.0) -> tuple[float, float]:
    """Return the smallest and the largest value, both NaN if one is, or for both ``unknown`` where none can be read without waiting."""
    if not readable(values) or not values.numel():
        return unknown, unknown
    smallest, largest = values.detach().aminmax()  # one call, much faster than comparisons
    return smallest.item(), largest.item()


def broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    """Say whether a shape broadcasts to another one without changing that."""
    try:
        return torch.broadcast_shapes(shape, to) == to
    except RuntimeError:
        return False


def compute_in(input: Tensor) -> tuple[Tensor, torch.dtype]:
    """Return the logits in the type to compute in, and the type of the result: that of the input, or float32 under autocast."""
    compute = _COMPUTE_DTYPE[input.dtype]
    return input if input.dtype == compute else input.to(compute), compute if autocasts(
        input.device.type
    ) else input.dtype


def autocasts(device: str) -> bool:
    """Say whether autocast is on for a type of device."""
    return device != "meta" and torch.is_autocast_enabled(device)


def exactly(layer: Callable[[Tensor], R], features: Tensor) -> R:
    """Apply the last layer in float32 also under autocast: logits rounded to bfloat16 put 1 - p off by percents."""
    if not autocasts(device := features.device.type):
        return layer(features)
    with torch.autocast(device, enabled=False):
        return layer(features.float())


def over_classes(value: Any, logits: Tensor, dtype: torch.dtype | None = None) -> Any:
    """Shape a value for each sample so that it broadcasts over the classes, in the type of the logits if there is no other."""
    if not isinstance(value, Tensor):
        return value
    class_dim = min(1, logits.ndim - 1)
    value = value.to(logits.device, dtype or logits.dtype)
    return value.expand(logits.shape[:class_dim] + logits.shape[class_dim + 1 :]).unsqueeze(
        class_dim
    )


def lowest(logits: Tensor) -> float:
    """Return a logit that stands for no class at all; unlike -inf it has a derivative, where all other classes are masked by -inf."""
    return torch.finfo(logits.dtype).min / 4


def softplus(x: Tensor) -> Tensor:
    """Compute log(1 + e^x) with all digits, in every floating type."""
    return torch.logaddexp(x, x.new_zeros(()))


class Batch:
    """The arguments of a loss, checked: ``values`` in the type to compute in, the target and the options.

    Losses of samples keep the class dimension. Against class indices it has the size 1, for the
    true class. Against class probabilities, which a loss may have a reason to refuse
    (``only_indices``), and with label smoothing, every class in turn is the true one: the loss is
    *mixed*. :meth:`of_shape` makes a batch whose logits are not there.
    """

    def __init__(
        self,
        input: Tensor,
        target: Tensor,
        *,
        only_indices: str = "",
        smooths: bool = True,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
        **unknown: object,
    ) -> None:
        if unknown:
            raise TypeError(
                f"got an unexpected keyword argument {next(iter(unknown))!r}; the options are {', '.join(_OPTIONS)}"
            )
        if label_smoothing and not smooths:
            raise TypeError(
                "got label_smoothing, which this loss does not have; the options are weight, ignore_index and reduction"
            )
        self.dim = dim = _class_dimension(input)
        self.index_shape = input.shape[:dim] + input.shape[dim + 1 :]
        self.soft = _is_soft(input, target, self.index_shape, only_indices)
        self.classes = classes = input.shape[dim]
        if reduction not in get_args(Reduction):
            raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"label_smoothing must lie in [0, 1], got {label_smoothing}")
        if weight is not None and (
            not isinstance(weight, Tensor)
            or weight.shape != (classes,)
            or not weight.is_floating_point()
        ):
            given = (
                f"{weight.dtype} of shape {list(weight.shape)}"
                if isinstance(weight, Tensor)
                else type(weight).__name__
            )
            raise ValueError(
                f"weight must be a floating tensor with one factor for each class, shape [{classes}]; got {given}"
            )
        if self.soft and ignore_index >= 0:
            raise ValueError(
                "ignore_index needs class indices; with class probabilities give the sample a row of zeros instead"
            )
        self.values, self.result_dtype = compute_in(input)
        self.target, self.weight, self.reduction, self.smoothing = (
            target,
            weight,
            reduction,
            label_smoothing,
        )
        self.mixed = self.soft or label_smoothing > 0
        if self.soft:
            self.valid = torch.ones(self.index_shape, dtype=torch.bool, device=input.device)
        else:
            index = target.long()
            self.valid = index != ignore_index
            self.index = torch.where(self.valid, index, 0)
            self.true_class = self.index.unsqueeze(dim)
            smallest, largest = extremes(self.index, 0)
            if smallest < 0 or largest >= classes:
                outside = self.index[(self.index < 0) | (self.index >= classes)]
                raise ValueError(
                    f"class index {outside[0].item()} lies outside [0, {classes}): input has {classes} classes; mark samples that "
                    "should not count with ignore_index"
                )

    @classmethod
    def of_shape(
        cls, shape: tuple[int, ...], dtype: torch.dtype, target: Tensor, **options: Any
    ) -> Batch:
        """Check class indices and options for logits of a shape and a type, which are never made."""
        logits = torch.empty((), dtype=dtype, device="meta").expand(shape)
        return cls(
            logits, target, only_indices="this is a loss of classes", smooths=False, **options
        )

    def take_logits(self) -> Tensor:
        """Hand the logits over; nothing of their memory is held any longer."""
        values, self.values = self.values, self.values.new_empty(0)
        return values

    def parameter(
        self, name: str, value: float | Tensor, check: Callable[..., float | Tensor]
    ) -> float | Tensor:
        """Check a number, or a tensor with one value for each sample, which is shaped to broadcast over the classes."""
        return over_classes(check(name, value, self.index_shape), self.values)

    def true(self, values: Tensor) -> Tensor:
        """Select the true class; identity where every class in turn is the true one."""
        return values if self.mixed else values.gather(self.dim, self.true_class)

    def gap(self, logits: Tensor, true: Tensor | None = None) -> Tensor:
        """Compute r - a: the log-sum-exp of the other logits less the true logit, which is ``true`` if a loss changes it."""
        shift = logits.detach().amax(self.dim, keepdim=True)
        logits = logits - shift  # keeps small differences of large logits
        true = self.true(logits) if true is None else true - shift
        if self.mixed:
            return log_of_others(logits, self.dim) - true
        return (
            torch.logsumexp(
                logits.scatter(self.dim, self.true_class, lowest(logits)), self.dim, keepdim=True
            )
            - true
        )

    def shares(self) -> tuple[Tensor, Tensor | None]:
        """Return the share of each class in a mixed loss, with its weight, and how much more a class index has if the target holds them."""
        weight = self.values.new_ones(1) if self.weight is None else self.weight.to(self.values)
        of_true = weight.expand(self.classes)
        weight = weight.reshape([1] * self.dim + [-1] + [1] * (len(self.index_shape) - self.dim))
        spread, rest = weight * (self.smoothing / self.classes), 1 - self.smoothing
        if self.soft:
            return spread + self.target.to(self.values) * rest * weight, None
        return spread, rest * of_true[self.true_class]

    def used(self) -> Tensor:
        """Return the weight of each sample in the divisor of the mean, 0 for one that does not count."""
        valid = self.valid.to(self.values.dtype)
        return (
            valid if self.soft or self.weight is None else self.weight.to(valid)[self.index] * valid
        )

    def reduce(self, losses: Tensor, of_true: Tensor | None = None) -> Tensor:
        """Reduce losses and, beside them, others ``of_true`` classes alone, which label smoothing does not change."""
        if self.mixed:
            spread, own = self.shares()
            own_losses = (
                0.0
                if own is None
                else (own * losses.gather(self.dim, self.true_class)).squeeze(self.dim)
            )
            reduced = self.reduce_samples(
                (spread * losses).sum(self.dim) + own_losses, weighted=True
            )
        else:
            reduced = self.reduce_samples(losses.squeeze(self.dim), weighted=False)
        if of_true is not None:
            reduced = reduced + self.reduce_samples(of_true.squeeze(self.dim), weighted=False)
        return reduced.to(self.result_dtype)

    def reduce_samples(self, losses: Tensor, *, weighted: bool) -> Tensor:
        """Mask and reduce one loss for each sample, after the weights unless they are in it; the mean of nothing is NaN, as in PyTorch."""
        used = self.used().to(losses)
        losses = torch.where(self.valid, losses if weighted else losses * used, 0.0)
        if self.reduction == "none":
            return losses
        return losses.sum() / used.sum() if self.reduction == "mean" else losses.sum()

    def scales(self) -> Tensor:
        """Return the factor that :meth:`reduce` gives to the loss of each sample, with the class dimension."""
        used = self.used()
        scales = self.valid.to(used) if self.mixed else used
        if self.reduction == "mean":
            scales = torch.where(self.valid, scales / used.sum(), 0.0)
        return scales.unsqueeze(self.dim)


def _class_dimension(input: Tensor) -> int:
    """Refuse what cannot be logits; return the class dimension."""
    if not isinstance(input, Tensor):
        raise ValueError(f"input must be a tensor of logits, got {type(input).__name__}")
    if input.dtype not in _COMPUTE_DTYPE:
        raise ValueError(
            f"input must hold logits of type float16, bfloat16, float32 or float64, got {input.dtype}; convert it with .float()"
        )
    if input.ndim == 0:
        raise ValueError(
            "input must have a class dimension: shape [C], [N, C] or [N, C, d1, ...], got a scalar"
        )
    class_dim = min(1, input.ndim - 1)
    if input.shape[class_dim] == 0:
        raise ValueError(
            f"input of shape {list(input.shape)} has no classes (dimension {class_dim})"
        )
    return class_dim


def _is_soft(input: Tensor, target: Tensor, index_shape: torch.Size, only_indices: str) -> bool:
    """Refuse a target that fits neither reading; return whether it holds class probabilities, which ``only_indices`` says why to refuse."""
    if not isinstance(target, Tensor):
        raise ValueError(
            f"target must be a tensor of class indices or class probabilities, got {type(target).__name__}"
        )
    if target.shape == input.shape:
        if not target.is_floating_point():
            raise ValueError(
                f"target has the shape of input, {list(input.shape)}, and is therefore read as class probabilities, which must be "
                f"floating point; got {target.dtype}. Class indices would have the shape {list(index_shape)}"
            )
        if only_indices:
            raise ValueError(
                f"target must hold class indices: {only_indices}; got class probabilities"
            )
        return True
    if target.shape != index_shape:
        raise ValueError(
            f"target of shape {list(target.shape)} does not fit input of shape {list(input.shape)}: expected class indices of shape "
            f"{list(index_shape)} or class probabilities of shape {list(input.shape)}"
        )
    if target.dtype not in (torch.int64, torch.uint8):
        raise ValueError(
            f"class indices must be int64 or uint8, got {target.dtype}; convert them with target.long()"
        )
    return False


def log_of_others(logits: Tensor, class_dim: int) -> Tensor:
    """Return the log-sum-exp of all other classes, for each class, of the shape of the logits.

    It is the full log-sum-exp plus ``log1p(-p_c)``; for the largest class, where ``1 - p_c`` has
    lost its digits, it is summed afresh.
    """
    top = logits.detach().argmax(class_dim, keepdim=True)
    log_total = torch.logsumexp(logits, class_dim, keepdim=True)
    log_total_without_top = torch.logsumexp(
        logits.scatter(class_dim, top, lowest(logits)), class_dim, keepdim=True
    )
    probability = torch.exp(logits - log_total).scatter(class_dim, top, 0.0)
    return (log_total + torch.log1p(-probability)).scatter(class_dim, top, log_total_without_top)
