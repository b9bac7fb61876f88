"""One optimiser step of a stack of perceptrons, with the backward pass written out.

There is no graph, there are few allocations, and all parameters are in one vector.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from gdlib.functional._arguments import check_parameter
from gdlib.models import ACTIVATIONS, RunModel, StackedMLP
from gdlib.train.objective import Objective, has_hooks

_WIDE = (64, 16)  # inputs and units from which one product for all runs is faster
# numbers in two AVX-512 vectors: each block begins, and the whole ends, on a vector boundary
_ALIGNED = 32

_SMALLEST = 1e-30  # least product of β and a true class's probability that is safe to divide by

# In place: the first of a pair turns pre-activations into outputs, the second multiplies a gradient
# by the derivative and overwrites the outputs.
_BY_HAND: dict[
    Callable[[Tensor], Tensor],
    tuple[Callable[[Tensor], object], Callable[[Tensor, Tensor], object]],
] = {
    ACTIVATIONS["relu"]: (
        lambda hidden: hidden.clamp_min_(0),
        lambda gradient, output: gradient.mul_(output.sign_()),
    ),
    ACTIVATIONS["tanh"]: (
        torch.Tensor.tanh_,
        lambda gradient, output: gradient.mul_(output.mul_(output).neg_().add_(1)),
    ),
    ACTIVATIONS["sigmoid"]: (
        lambda hidden: hidden.mul_(0.5).tanh_().mul_(0.5).add_(0.5),
        lambda gradient, output: gradient.mul_(output).mul_(output.neg_().add_(1)),
    ),
}


_one_dnn: Callable[..., Tensor] | None = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
"""oneDNN's matrix product, a private part of PyTorch; None where PyTorch lacks it."""


def product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply ``[M, K]`` by the transpose of ``[N, K]``, both contiguous.

    This uses oneDNN where PyTorch has it: oneDNN uses AVX-512 wherever available, MKL only on Intel
    processors. From PyTorch 2.10 on, a row of the left or the right gives the same bits whatever
    the other rows are.
    """
    if (
        _one_dnn is not None
        and left.dtype is torch.float32
        and torch.backends.mkldnn.is_available()
    ):
        return _one_dnn(left, right, None, "none", [], "")
    return left @ right.T


class View(NamedTuple):
    """A block of numbers in two shapes, over the same memory."""

    seen: Tensor  # with the dimensions of its parameter, the runs grouped where they share
    used: Tensor  # as the products use it


class ManualStep:
    r"""Forward, loss, backward, clipping, update: as :class:`gdlib.train.step.Step` up to rounding.

    With few units in a layer, an autograd step is mostly calls and allocations. Here the buffers
    are made once, and parameters, gradients and momenta are three rows of one array. It lives here
    during an epoch; at the end, :meth:`end` hands it to the model and its optimizer.

    A run in a stack computes what it computes alone, bit for bit, under the conditions of
    :class:`gdlib.models.StackedMLP`: every sum over samples or classes is taken run by run, and
    every operation over the whole vector is a single multiplication or addition. For runs that
    share a batch, a large first layer is one product :math:`[B, D] \times [D, R H]`, with weights
    ``[R, H, D]``. The logits and the last layer's weights lie transposed, ``[R, C, B]`` and
    ``[R, C, H]``: with few classes these products are two to three times faster.

    Args:
        model: a stack accepted by :meth:`serves` together with the objective and the optimizer.
        objective: its ``beta_and_temperature`` is used.
        optimizer: its learning rate, momentum and weight decay are read at each step.
        groups: S, the number of batches in a step.
        places: which of them each run sees, as in :class:`gdlib.train.batches.Batches`.
        max_grad_norm: limit for the gradient norm of each run; None for no limit.

    Attributes:
        classes: C.
    """

    @staticmethod
    def serves(model: RunModel, objective: Objective, optimizer: torch.optim.Optimizer) -> bool:
        """Say whether this computes what autograd would.

        It does for perceptrons with a hidden layer on a CPU, trained by SGD with a gradient-decay
        loss, if nothing else is learnt. A subclass may compute something else, and so may a model
        with hooks, with computed or shared weights, or with a replaced method.
        """
        return (
            type(model) is StackedMLP
            and len(model.weights) > 1
            and model.activation in _BY_HAND
            and not has_hooks(model)
            and vars(model).keys().isdisjoint(("forward", "features", "logits"))
            and len({*model.weights, *model.biases}) == len(model.weights) + len(model.biases)
            and all(
                isinstance(weight, nn.Parameter)  # not if it has a parametrisation
                and weight.device.type == "cpu"
                and weight.dtype in (torch.float32, torch.float64)
                and weight.requires_grad
                for weight in (*model.weights, *model.biases)
            )
            and type(optimizer) is torch.optim.SGD
            and not optimizer.defaults["fused"]
            and objective.beta_and_temperature() is not None
            and not objective.parameters()
        )

    def __init__(
        self,
        model: RunModel,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        groups: int,
        places: Tensor | None = None,
        max_grad_norm: float | None,
    ) -> None:
        self.layers = cast(StackedMLP, model)
        self.objective = objective
        self.optimizer, self.max_grad_norm = optimizer, max_grad_norm
        optimizer.zero_grad()
        # updates nothing, but a learning-rate scheduler would warn if its optimizer never stepped
        optimizer.step()
        self.places: Tensor | None = None
        self.sorted: Tensor | None = None  # the runs in the order used here
        if places is not None and len(set(torch.bincount(places).tolist())) == 1:
            self.sorted = torch.argsort(places, stable=True)  # group by group
        elif places is not None:  # groups of different sizes: each run has its own batch
            self.places, groups = places, model.runs
        self.runs, self.groups, self.shared = model.runs, groups, model.runs // groups
        self.last = len(self.layers.weights) - 1
        self.activate, self.activate_backward = _BY_HAND[self.layers.activation]
        _, self.width, units = self.layers.weights[0].shape
        self.classes = self.layers.weights[-1].shape[2]
        self.wide = self.width >= _WIDE[0] and units >= _WIDE[1]
        self.active = [
            not (self.layers.linear_features and layer == self.last - 1)
            for layer in range(self.last)
        ]
        self.parameters = [*self.layers.weights, *self.layers.biases]
        sizes = [-(-parameter.numel() // _ALIGNED) * _ALIGNED for parameter in self.parameters]
        self.flat = self.layers.weights[0].detach().new_zeros(3, sum(sizes))
        self.values, self.gradients, self.momenta = (
            self._views(row.split(sizes)) for row in self.flat
        )
        self.buffers: dict[int, tuple[list[Tensor], list[Tensor]]] = {}

    def _views(self, blocks: Sequence[Tensor]) -> list[View]:
        """Make the views of each parameter's block of numbers."""
        return [
            self._view(place, parameter, block[: parameter.numel()])
            for place, (parameter, block) in enumerate(zip(self.parameters, blocks, strict=True))
        ]

    def _view(self, place: int, parameter: nn.Parameter, block: Tensor) -> View:
        shape = parameter.shape
        if place == 0 and self.wide:
            used = block.view(self.groups, self.shared * shape[2], shape[1])  # (S, R/S * H, D)
            return View(used.unflatten(1, (self.shared, shape[2])).mT, used)
        if place == self.last:
            used = block.view(shape[0], shape[2], shape[1])  # (R, C, H)
            return View(used.mT, used)
        return View(block.view(shape), block.view(shape))

    def begin(self, betas: Tensor) -> None:
        """Begin an epoch: take the parameters and the momenta from the model and the optimizer.

        Args:
            betas: of the steps of the epoch, ``[steps, R]``.

        Raises:
            ValueError: for a β or a τ that is not finite and positive, as in the loss itself; and
                for a loss or a stack that was changed into one that is not done by hand, such as by
                freezing a layer.
        """
        self.objective.begin()
        decay = self.objective.beta_and_temperature()
        if decay is None or not self.serves(self.layers, self.objective, self.optimizer):
            raise ValueError(
                "the loss or the stack was changed into one whose gradients are not done by hand; "
                "train with by_hand=False"
            )
        self.decay = decay
        self._check(betas)
        self.betas, self.sizes = betas, list[int]()  # of the steps
        # a loss is log β plus log1p of this, computed at the end of the epoch; (R, 1, B) each
        self.quotients: list[Tensor] = []
        self.far = self.flat.new_zeros(self.runs)  # sums of log1p where the quotient overflows
        for parameter, value, momentum in zip(
            self.parameters, self.values, self.momenta, strict=True
        ):
            self._copy(parameter.detach(), value)
            if parameter in self.optimizer.state:
                remembered = self.optimizer.state[parameter].get("momentum_buffer")
                if remembered is not None:
                    self._copy(remembered, momentum)

    def _check(self, betas: Tensor) -> None:
        for row in torch.aminmax(betas, dim=0):
            for name, value in zip(("beta", "temperature"), self.decay(row), strict=True):
                check_parameter(name, value, "> 0", row.shape)

    def _copy(self, source: Tensor, view: View) -> None:
        """Copy a parameter ``[R, ...]`` into a view."""
        values = source if self.sorted is None else source[self.sorted]
        view.seen.copy_(values.view_as(view.seen))

    def _copied(self, view: View, parameter: Tensor) -> Tensor:
        """Copy a view out, in the shape and order of its parameter ``[R, ...]``."""
        values = view.seen.reshape(parameter.shape)
        return values.clone() if self.sorted is None else values[self.sorted.argsort()]

    @torch.no_grad()
    def end(self) -> tuple[Tensor, int]:
        """End an epoch: hand the parameters to the model and the momenta to the optimizer.

        Returns:
            The sum of the losses over the samples of the epoch, ``[R]``, and how many it omits.
        """
        for parameter, value, momentum in zip(
            self.parameters, self.values, self.momenta, strict=True
        ):
            parameter.copy_(self._copied(value, parameter))
            if self.optimizer.param_groups[0]["momentum"]:
                remembered = self._copied(momentum, parameter)
                self.optimizer.state[parameter]["momentum_buffer"] = remembered
        losses = self.far
        if self.quotients:
            losses = losses + torch.cat(self.quotients, 2).log1p_().sum((1, 2))
        if self.sorted is not None:
            losses = losses[self.sorted.argsort()]
        rows, sizes = self.betas, self.sizes
        if torch.equal(rows, rows[:1].expand_as(rows)):
            rows, sizes = rows[:1], [sum(sizes)]
        factors = [
            torch.as_tensor(self.decay(row)[0], dtype=losses.dtype, device="cpu") for row in rows
        ]
        losses = losses + sum(size * one.log() for size, one in zip(sizes, factors, strict=True))
        return losses + sum(sizes) * self.objective.constant(), 0

    def _buffers(self, samples: int) -> tuple[list[Tensor], list[Tensor]]:
        """Return buffers for the layers' outputs and their gradients in a batch."""
        if samples not in self.buffers:
            new = self.flat.new_empty
            units = [parameter.shape[2] for parameter in self.parameters[: self.last]]
            outputs = [new(self.runs, samples, width) for width in units]
            outputs.append(new(self.runs, self.classes, samples))
            self.buffers[samples] = outputs, [torch.empty_like(output) for output in outputs[:-1]]
        return self.buffers[samples]

    @torch.no_grad()
    def __call__(self, inputs: Tensor, targets: Tensor, beta: Tensor) -> None:
        """Do one step with inputs ``[S, B, D]``, targets ``[R, B]`` and β ``[R]``."""
        if inputs.shape[-1] != self.width or inputs.ndim != 3 or inputs.dtype != self.flat.dtype:
            self.layers.check_inputs(inputs)
        if self.places is not None:
            inputs = inputs[self.places]
        if self.sorted is not None:
            targets = targets[self.sorted]
        outputs, gradients = self._buffers(inputs.shape[1])
        used = [view.used for view in self.values]
        used_grad = [view.used for view in self.gradients]
        weights, biases = used[: self.last + 1], used[self.last + 1 :]
        weights_grad, biases_grad = used_grad[: self.last + 1], used_grad[self.last + 1 :]
        by_run = (self.groups, self.shared, *outputs[0].shape[1:])
        if self.shared > 1 and not self.wide:
            inputs = inputs.unsqueeze(1).expand(-1, self.shared, -1, -1).flatten(0, 1)  # (R, B, D)

        hidden = inputs
        for layer, output in enumerate(outputs[:-1]):
            bias = biases[layer].unsqueeze(1)  # (R, 1, H)
            if layer == 0 and self.wide:
                for batch, weight, out, shift in zip(
                    inputs,
                    weights[0],
                    output.view(by_run),
                    bias.view(*by_run[:2], 1, -1),
                    strict=True,
                ):
                    torch.add(
                        product(batch, weight).unflatten(1, (self.shared, -1)).transpose(0, 1),
                        shift,
                        out=out,
                    )  # (R/S, B, H)
            else:
                # baddbmm would round depending on the position of a run
                torch.bmm(hidden, weights[layer], out=output).add_(bias)
            if self.active[layer]:
                self.activate(output)
            hidden = output
        logits = torch.bmm(weights[-1], hidden.mT, out=outputs[-1])  # (R, C, B)
        if len(biases) > self.last:
            logits.add_(biases[self.last].unsqueeze(2))

        signal = self._loss_backward(logits, targets.unsqueeze(1), beta)
        torch.bmm(signal, hidden, out=weights_grad[-1])
        if len(biases) > self.last:
            torch.sum(signal, 2, out=biases_grad[self.last])
        signal = torch.bmm(signal.mT, weights[-1], out=gradients[-1])
        for layer in reversed(range(self.last)):
            if self.active[layer]:
                self.activate_backward(signal, outputs[layer])
            torch.sum(signal, 1, out=biases_grad[layer])
            if layer > 0:
                torch.bmm(outputs[layer - 1].mT, signal, out=weights_grad[layer])
                signal = torch.bmm(signal, weights[layer].mT, out=gradients[layer - 1])
            elif self.wide:
                for batch, of_group, out in zip(
                    inputs, signal.view(by_run), weights_grad[0], strict=True
                ):
                    out.copy_(product(of_group.mT.flatten(0, 1), batch.T.contiguous()))
            else:
                torch.bmm(inputs.mT, signal, out=weights_grad[0])
        self._update()

    def _loss_backward(self, logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        r"""Compute the gradient of the mean loss from the logits ``[R, C, B]``.

        It is :math:`e^{z_i} / (a + \beta e^{z_c})` for a wrong class and :math:`-a / (a + \beta
        e^{z_c})` for the true one, with :math:`a = \sum_{i \neq c} e^{z_i}` summed without the true
        class, so that no digit of :math:`1 - p_c` is lost.
        """
        factor, temperature = (self._shaped(value) for value in self.decay(beta))
        if isinstance(temperature, Tensor) or temperature != 1:
            logits.div_(temperature)
        # faster than exp, and the same for a run in any position
        powers = torch.softmax(logits, 1)
        true = powers.gather(1, labels)
        others = powers.scatter_(1, labels, 0.0).sum(1, keepdim=True)
        scaled = true * factor
        if not scaled.amin().item() >= _SMALLEST:  # the quotient would overflow; or one run is NaN
            log_true = torch.log_softmax(logits, 1).gather(1, labels)
            logs = others.log() - log_true - torch.as_tensor(factor, device="cpu").log()
            self.far += torch.logaddexp(logs, torch.zeros_like(logs)).sum((1, 2))
        else:
            self.quotients.append(others / scaled)
        self.sizes.append(logits.shape[2])
        total = scaled.add_(others).mul_(temperature * logits.shape[2])
        return powers.scatter_(1, labels, others.neg_()).div_(total)

    def _shaped(self, value: Tensor | float) -> Tensor | float:
        """Put one value per run, ``[R]``, into the order used here, shaped for ``[R, C, B]``."""
        if not isinstance(value, Tensor):
            return value
        return (value if self.sorted is None else value[self.sorted])[:, None, None]

    def _update(self) -> None:
        values, gradients, momenta = self.flat
        if self.max_grad_norm is not None:
            seen = [view.seen for view in self.gradients]
            norms = [
                torch.linalg.vector_norm(gradient.reshape(self.runs, -1), dim=1).square()
                for gradient in seen
            ]
            factor = (
                self.max_grad_norm / (functools.reduce(torch.add, norms).sqrt() + 1e-6)
            ).clamp(max=1.0)
            for gradient in seen:
                runs = (self.groups, self.shared) if gradient.ndim == 4 else (self.runs,)
                gradient.mul_(factor.view(*runs, *[1] * (gradient.ndim - len(runs))))
        group = self.optimizer.param_groups[0]
        if group["weight_decay"]:
            gradients.add_(values, alpha=group["weight_decay"])
        if group["momentum"]:
            gradients = momenta.mul_(group["momentum"]).add_(gradients)
        values.add_(gradients, alpha=-float(group["lr"]))
