"""The base class of stacks of runs, and two stacks for modules of any kind."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

Outputs = Tensor | tuple[Tensor, ...]

_OF_EVERY_MODULE = {*vars(nn.Module()), "_compiled_call_impl", "_is_torch_compile"}
"""Attributes in which modules of one kind may differ, apart from their hooks."""


class RunModel(nn.Module):
    """A network with a run axis: what :mod:`gdlib.train` needs to know about it.

    Attributes:
        runs: R, the number of runs.
    """

    runs: int

    def features(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the last layer, ``[R, N, D]``, if the stack exposes them."""
        raise TypeError(f"{type(self).__name__} does not expose the inputs of its last layer")

    def clip_gradients(self, max_norm: float) -> Tensor:
        """Scale the gradients of each run to a Euclidean norm of at most ``max_norm``.

        A norm that is not finite makes only that run's gradients useless.

        Returns:
            The R norms before scaling.
        """
        gradients = [one.grad for one in self.parameters() if one.grad is not None]  # (R, ...)
        if not gradients:
            return next(self.parameters()).new_zeros(self.runs)
        squares = [
            torch.linalg.vector_norm(one[:, None].flatten(1), dim=1).square() for one in gradients
        ]
        # added layer by layer, so that a run's norm does not depend on the stack
        norm = torch.sqrt(functools.reduce(torch.add, squares))
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.reshape(-1, *[1] * (gradient.ndim - 1)))
        return norm

    def _kinds(self) -> list[str]:
        """Name the kinds of layers, each once, for a checkpoint to compare."""
        return _layers(self)

    def _runs_of_batch(self, inputs: Tensor) -> int:
        """Return R / S, the number of runs that share a batch of inputs ``[S, N, ...]``."""
        groups = len(inputs)
        if not groups or self.runs % groups:
            raise ValueError(f"inputs hold {groups} batches, which do not divide {self.runs} runs")
        return self.runs // groups


class ModuleStack(RunModel):
    """R modules of any kind, computed one after another.

    A run in the stack therefore computes what it computes alone, but random numbers, such as
    dropout masks, are drawn from one generator in turn and depend on the other runs. Nothing waits
    for a GPU. While a CUDA graph is recorded, each module has its own stream, so the replayed graph
    computes them side by side.

    Args:
        modules: one module for each run, each mapping ``[N, ...]`` to ``[N, C]``.

    Example:
        >>> stack = ModuleStack([nn.Linear(4, 3), nn.Linear(4, 3)])
        >>> stack(torch.zeros(1, 5, 4)).shape
        torch.Size([2, 5, 3])
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        self.copies = nn.ModuleList(modules)
        _check_modules(self.copies)
        own = [
            tensor
            for copy in self.copies
            for name, tensor in (*copy.named_parameters(), *copy.named_buffers())
            if (isinstance(tensor, nn.Parameter) and tensor.requires_grad)
            or name.endswith("running_mean")
        ]
        if len(set(own)) < len(own):
            raise ValueError(
                "two modules share a parameter, or the statistics of a normalisation, and would be "
                "trained as one; give each run its own, such as copy.deepcopy(module)"
            )
        self.runs = len(self.copies)

    def forward(self, inputs: Tensor) -> Outputs:
        """Compute outputs ``[R, N, C]`` for inputs ``[S, N, ...]`` (S divides R).

        If modules return several tensors, such as cosines and features, each is stacked.
        """
        outputs = self._each(lambda copy, batch: copy(batch), inputs)
        _check_outputs(outputs[0])
        if isinstance(outputs[0], Tensor):
            return torch.stack(outputs)
        return tuple(torch.stack(one) for one in zip(*outputs, strict=True))

    def features(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the last layer, from modules that have a method ``features``."""
        if not hasattr(self.copies[0], "features"):
            raise TypeError(
                f"{type(self.copies[0]).__name__} does not expose the inputs of its last layer: "
                "give it a method `features`"
            )
        return torch.stack(self._each(lambda copy, batch: cast(Any, copy).features(batch), inputs))

    def _each(self, function: Callable[[nn.Module, Tensor], Any], inputs: Tensor) -> list[Any]:
        """Call the function for each module with its batch."""
        shared = self._runs_of_batch(inputs)
        # a batch of its own for each, since a module may change it in place
        pairs = ((copy, inputs[run // shared].clone()) for run, copy in enumerate(self.copies))
        if not (inputs.is_cuda and torch.cuda.is_current_stream_capturing()):
            return [function(*pair) for pair in pairs]
        here = torch.cuda.current_stream()
        streams = [torch.cuda.Stream() for _ in self.copies]
        outputs = []
        for stream, pair in zip(streams, pairs, strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                outputs.append(function(*pair))
        for stream in streams:
            here.wait_stream(stream)
        return outputs

    def clip_gradients(self, max_norm: float) -> Tensor:
        """Scale the gradients of each run, as :meth:`RunModel.clip_gradients` does."""
        return torch.stack(
            [nn.utils.clip_grad_norm_(copy.parameters(), max_norm) for copy in self.copies]
        )


class VmapStack(RunModel):
    """R modules of one kind and shape, which ``torch.func.vmap`` computes at once.

    Their parameters are copied into stacks ``[R, ...]``. It is faster than :class:`ModuleStack`
    for small modules. What is not a tensor, such as an activation or a hook, is the same in all. It
    suits neither batch normalisation nor dropout. A module may change its buffers in place; a
    tensor that it assigns to one anew is lost in evaluation mode, and an error in training.

    Args:
        modules: one module for each run, each mapping ``[N, ...]`` to ``[N, C]``.

    Raises:
        ValueError: for no module, for modules that differ in kind, shape, type or any attribute, or
            have one that cannot be compared, such as a list of layers, and for batch normalisation,
            dropout and embeddings with a ``padding_idx``.

    Example:
        >>> stack = VmapStack([nn.Linear(4, 3), nn.Linear(4, 3)])
        >>> stack(torch.zeros(1, 5, 4)).shape, [weight.shape for weight in stack.parameters()]
        (torch.Size([2, 5, 3]), [torch.Size([2, 3, 4]), torch.Size([2, 3])])
    """

    @torch.inference_mode(False)  # or it could not be trained
    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        copies = list(modules)
        _check_modules(copies)
        unsuited = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
        for layer in copies[0].modules():
            if isinstance(layer, unsuited) and getattr(layer, "p", 1.0) > 0:
                raise ValueError(
                    f"{type(layer).__name__} needs a ModuleStack: torch.func.vmap keeps no "
                    "statistics or masks for each run"
                )
            if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
                raise ValueError(
                    f"{type(layer).__name__} with a padding_idx needs a ModuleStack: with "
                    "torch.func.vmap, the padding vector has a gradient in all runs but the first"
                )
        first = _settings(copies[0])
        for other in map(_settings, copies[1:]):
            for name in first | other:
                if not _are_equal(first.get(name), other.get(name)):
                    raise ValueError(
                        "modules must be of one kind and shape, or go into a ModuleStack; they "
                        f"differ in {name!r}, or it cannot be compared, and all would have that of "
                        "the first"
                    )
        try:
            stacked, constant = torch.func.stack_module_state(copies)
        except RuntimeError as error:
            raise ValueError(
                f"modules must be of one kind and shape, or go into a ModuleStack ({error})"
            ) from error
        self.runs = len(copies)
        self.names = list(stacked)
        self.weights = nn.ParameterList(
            nn.Parameter(one.detach(), requires_grad=one.requires_grad) for one in stacked.values()
        )
        self.constant_names = list(constant)
        for place, buffer in enumerate(constant.values()):
            self.register_buffer(f"constant{place}", buffer)
        # in a tuple, since it holds no values: it says what to do with those of the stack. A tensor
        # that two layers share must stay one tensor, so that functional_call replaces both.
        tensors = [*copies[0].parameters(), *copies[0].buffers()]
        without_values = {id(one): torch.empty_like(one, device="meta") for one in tensors}
        try:
            self._form = (copy.deepcopy(copies[0], without_values),)
        except TypeError as error:
            raise ValueError(
                f"modules must be such that copy.deepcopy copies them, or go into a ModuleStack "
                f"({error})"
            ) from error

    def _kinds(self) -> list[str]:
        return _layers(self._form[0])

    def forward(self, inputs: Tensor) -> Outputs:
        """Compute outputs ``[R, N, C]`` for inputs ``[S, N, ...]`` (S divides R)."""
        shared = self._runs_of_batch(inputs)
        (form,) = self._form
        form.train(self.training)
        state = dict(zip(self.names, self.weights, strict=True))
        state |= {
            name: self.get_buffer(f"constant{place}")
            for place, name in enumerate(self.constant_names)
        }

        def of_run(values: dict[str, Tensor], batch: Tensor) -> Outputs:
            given = dict(values)
            outputs: Outputs = torch.func.functional_call(form, values, (batch,))
            lost = [name for name, one in given.items() if values[name] is not one]
            if lost and self.training:
                raise ValueError(
                    f"a module assigns a new tensor to {lost[0]}, which torch.func.vmap loses: "
                    "let it change the old one in place, or use a ModuleStack"
                )
            _check_outputs(outputs)
            return outputs

        each = inputs if shared == 1 else inputs.repeat_interleave(shared, 0)
        try:
            return torch.func.vmap(of_run)(state, each)
        except RuntimeError as error:
            error.add_note("A ModuleStack can compute what torch.func.vmap cannot.")
            raise


def _layers(module: nn.Module) -> list[str]:
    return list(dict.fromkeys(type(layer).__name__ for layer in module.modules()))


def _settings(module: nn.Module) -> dict[str, object]:
    """Name what shapes a module besides its values: kinds of layers, types of tensors, attributes.

    A compiled module is shaped by the one in it.
    """
    settings: dict[str, object] = {
        name: one.dtype for name, one in [*module.named_parameters(), *module.named_buffers()]
    }
    for place, layer in module.named_modules():
        settings[place or "the module"] = type(layer)
        if not type(layer).__module__.startswith("torch._dynamo"):
            for name, value in vars(layer).items():
                if name.endswith("_hooks") and name in _OF_EVERY_MODULE:
                    value = list(value.values())  # their keys are counted on
                elif name in _OF_EVERY_MODULE:
                    continue
                settings[f"{place}.{name}".removeprefix(".")] = value
    return settings


def _are_equal(one: object, other: object) -> bool:
    """Compare two attributes; those that cannot be compared are not equal."""
    try:
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            return torch.equal(one, other)
        return one is other or bool(one == other)
    except Exception:  # whatever an object's own code raises
        return False


def _check_outputs(outputs: object) -> None:
    if not isinstance(outputs, (Tensor, tuple, list)):
        raise TypeError(
            f"a module must return a tensor, or a tuple of them; got {type(outputs).__name__}"
        )


def _check_modules(modules: Any) -> None:
    if not len(modules):
        raise ValueError("modules is empty: give one module for each run")
