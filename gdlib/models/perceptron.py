"""Multilayer perceptrons with their runs in stacked parameters."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from gdlib.functional._arguments import (
    autocasts,
    check_seeds,
    is_transformed,
    is_whole,
    without_autocast,
)
from gdlib.models.runs import RunModel


class _Tanh(torch.autograd.Function):
    """tanh with a backward pass of separate operations.

    PyTorch's fused one rounds depending on the position of a run in the stack.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor) -> Tensor:
        output = torch.tanh(input)
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (output,) = ctx.saved_tensors
        return gradient * (1 - output * output)


def _tanh(input: Tensor) -> Tensor:
    if is_transformed():  # torch.func needs more of a function
        return torch.tanh(input)
    return cast(Tensor, _Tanh.apply(input))


def _sigmoid(input: Tensor) -> Tensor:
    return 0.5 * _tanh(0.5 * input) + 0.5


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
}

INITIALIZATIONS = ("pytorch", "xavier", "he")


class StackedMLP(RunModel):
    """R multilayer perceptrons in stacked parameters.

    Weights are ``[R, in, out]``, biases ``[R, out]``.

    On a CPU with one thread, a run in a stack computes what it computes alone, bit for bit, where
    matrix products do not depend on a run's place in memory: with MKL, for whole batches at the
    sizes of the MNIST experiments, and for nearly every size with the environment variable
    ``MKL_CBWR=AUTO``. Elsewhere, a run differs by rounding. A batch that all runs share is
    expanded, not copied.

    Args:
        sizes: number of inputs, of units in each hidden layer, and of classes.
        seeds: one seed for the initialisation of each run; runs with equal seeds start from equal
            weights.
        activation: ``"relu"``, ``"tanh"`` or ``"sigmoid"``, after every layer but the last.
        initialization: ``"pytorch"`` (weights and biases uniform within ±1/√in, as nn.Linear),
            ``"xavier"`` (uniform within ±√(6/(in+out)), biases zero) or ``"he"`` (normal with
            variance 2/in, biases zero).
        linear_features: leave out the activation of the last hidden layer, so that its units span
            the whole plane (or space).
        bias: whether the last layer has biases.

    Raises:
        ValueError: for sizes, names or seeds that do not define a network; the message names the
            valid ones.

    Example:
        >>> model = StackedMLP([784, 50, 20, 10], seeds=[0, 0, 1])      # the papers' MNIST network
        >>> model(torch.zeros(1, 100, 784)).shape                # one batch for all three runs
        torch.Size([3, 100, 10])
        >>> sum(p.numel() for p in model.parameters()) // model.runs
        40480
    """

    @torch.inference_mode(False)  # or it could not be trained
    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int] | Tensor,
        *,
        activation: str = "relu",
        initialization: str = "pytorch",
        linear_features: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        listed = list(sizes) if isinstance(sizes, Sequence) else []
        if len(listed) < 2 or not all(is_whole(size, 1) for size in listed):
            raise ValueError(
                "sizes must name at least the inputs and the classes, all of them whole numbers "
                f">= 1; got {sizes!r}"
            )
        seeds = check_seeds(seeds)
        if activation not in ACTIVATIONS:
            raise ValueError(f"unknown activation {activation!r}; valid: {', '.join(ACTIVATIONS)}")
        if initialization not in INITIALIZATIONS:
            raise ValueError(
                f"unknown initialization {initialization!r}; valid: {', '.join(INITIALIZATIONS)}"
            )
        self.runs = len(seeds)
        self.activation = ACTIVATIONS[activation]
        self.linear_features = linear_features
        self._start = f"{initialization}, seeds {[int(seed) for seed in seeds]}"
        each = [_initial_layers(sizes, seed, initialization) for seed in seeds]
        self.weights = _stacked([weights for weights, _ in each])
        self.biases = _stacked([biases if bias else biases[:-1] for _, biases in each])

    def _kinds(self) -> list[str]:
        activation = getattr(self.activation, "__name__", type(self.activation).__name__)
        return [activation.strip("_"), f"linear_features={self.linear_features}", self._start]

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute logits ``[R, N, C]`` for inputs ``[S, N, D]`` (S divides R)."""
        return self.logits(self.features(inputs))

    def logits(self, features: Tensor) -> Tensor:
        """Compute the last layer, ``[R, N, C]``, from its inputs; autocast does not round it."""
        last = functools.partial(self._layer, len(self.weights) - 1)
        return without_autocast(last, features, self.weights[-1].dtype)

    def features(self, inputs: Tensor) -> Tensor:
        """Return the inputs of the last layer, ``[R, N, D]``."""
        hidden = inputs if len(self.weights) > 1 else self._for_runs(inputs, 0)
        for layer in range(len(self.weights) - 1):
            hidden = self._layer(layer, hidden)
            if not (self.linear_features and layer == len(self.weights) - 2):
                hidden = self.activation(hidden)
        return hidden

    def check_inputs(self, inputs: Tensor, layer: int = 0) -> None:
        """Refuse inputs of a layer that are not ``[S, N, in]`` with S a divisor of R.

        Inputs of the first layer must have the type of its weights.

        Raises:
            ValueError: for such inputs.
        """
        weight = self.weights[layer]
        width, dtype = weight.shape[1], weight.dtype
        groups = inputs.shape[0] if inputs.ndim == 3 else 0
        if not groups or self.runs % groups or inputs.shape[2] != width:
            raise ValueError(
                f"inputs of shape {list(inputs.shape)} do not fit {self.runs} runs of a layer "
                f"with {width} inputs: expected [S, N, {width}] with S a divisor of {self.runs}"
            )
        if layer == 0 and inputs.dtype != dtype and not autocasts(inputs.device.type):
            raise ValueError(f"inputs are {inputs.dtype}, weights {dtype}: give inputs.to({dtype})")

    def _layer(self, layer: int, inputs: Tensor) -> Tensor:
        weight = self.weights[layer]  # (R, in, out)
        inputs = self._for_runs(inputs, layer)
        if layer == len(self.biases):  # the last one, without biases
            return torch.bmm(inputs, weight)
        return torch.baddbmm(self.biases[layer].unsqueeze(1), inputs, weight)  # (R, N, out)

    def _for_runs(self, inputs: Tensor, layer: int) -> Tensor:
        """Expand inputs ``[S, N, in]`` of a layer to those of each run, ``[R, N, in]``."""
        self.check_inputs(inputs, layer)
        groups, samples, width = inputs.shape
        shared = self.runs // groups
        if shared == 1:
            return inputs
        return inputs.unsqueeze(1).expand(groups, shared, samples, width).flatten(0, 1)


def _stacked(runs: Sequence[Sequence[Tensor]]) -> nn.ParameterList:
    """Stack each layer's tensors, one from each run, into one parameter with a run axis."""
    layers = zip(*runs, strict=True)
    return nn.ParameterList(nn.Parameter(torch.stack(layer)) for layer in layers)


def _initial_layers(
    sizes: Sequence[int], seed: int, initialization: str
) -> tuple[list[Tensor], list[Tensor]]:
    """Draw the weights ``[in, out]`` and biases ``[out]`` of one run, layer by layer.

    They come from the run's own generator.
    """
    generator = torch.Generator().manual_seed(int(seed))
    weights, biases = [], []
    for width, units in zip(sizes[:-1], sizes[1:], strict=True):
        weight = torch.empty(width, units, device="cpu")  # like the generator
        bias = torch.zeros(units, device="cpu")
        if initialization == "he":
            weight.normal_(0, math.sqrt(2 / width), generator=generator)
        else:
            bound = (
                1 / math.sqrt(width)
                if initialization == "pytorch"
                else math.sqrt(6 / (width + units))
            )
            weight.uniform_(-bound, bound, generator=generator)
            if initialization == "pytorch":
                bias.uniform_(-bound, bound, generator=generator)
        weights.append(weight)
        biases.append(bias)
    return weights, biases
