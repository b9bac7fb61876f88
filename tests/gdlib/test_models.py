"""The run axis: a stack against its runs alone.

Plain modules and PyTorch's own gradient clipping are held against it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib.models import ACTIVATIONS, ModuleStack, RunModel, StackedMLP, VmapStack
from gdlib.train import predict

PLAIN = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def slow_forward(
    model: StackedMLP, run: int, inputs: Tensor, activation: str, linear_features: bool = False
) -> Tensor:
    """One run, layer by layer, with F.linear."""
    layers = len(model.weights)
    for layer in range(layers):
        inputs = F.linear(inputs, model.weights[layer][run].T, model.biases[layer][run])
        if layer < layers - 1 and not (linear_features and layer == layers - 2):
            inputs = PLAIN[activation](inputs)
    return inputs


class TestForward:
    def test_by_hand(self):
        model = StackedMLP([2, 1, 2], seeds=[0])
        with torch.no_grad():
            model.weights[0].copy_(torch.tensor([[[1.0], [-2.0]]]))
            model.biases[0].fill_(0.5)
            model.weights[1].copy_(torch.tensor([[[3.0, -1.0]]]))
            model.biases[1].copy_(torch.tensor([[0.0, 1.0]]))
        # (2, 1): hidden 2 - 2 + 0.5 = 0.5; (0, 1): relu(-1.5) = 0
        assert model(torch.tensor([[[2.0, 1.0], [0.0, 1.0]]])).tolist() == [
            [[1.5, 0.5], [0.0, 1.0]]
        ]

    @settings(max_examples=25)
    @given(
        st.lists(st.integers(1, 9), min_size=2, max_size=5),
        st.sampled_from(sorted(ACTIVATIONS)),
        st.sampled_from([(1, 4), (2, 4), (4, 4), (1, 1), (3, 3)]),
        st.integers(1, 7),
        st.booleans(),
    )
    def test_against_linear_layers(
        self, sizes, activation, groups_and_runs, samples, linear_features
    ):
        groups, runs = groups_and_runs
        model = StackedMLP(
            sizes, seeds=range(runs), activation=activation, linear_features=linear_features
        )
        inputs = torch.randn(groups, samples, sizes[0], generator=torch.Generator().manual_seed(0))
        found = model(inputs)
        assert found.shape == (runs, samples, sizes[-1])
        for run in range(runs):
            expected = slow_forward(
                model, run, inputs[run // (runs // groups)], activation, linear_features
            )
            torch.testing.assert_close(found[run], expected, rtol=1e-5, atol=1e-6)

    def test_features_are_what_the_last_layer_gets(self):
        model = StackedMLP([3, 4, 2, 5], seeds=[0, 1])
        inputs = torch.randn(1, 6, 3, generator=torch.Generator().manual_seed(0))
        features = model.features(inputs)
        assert features.shape == (2, 6, 2) and (features >= 0).all()
        torch.testing.assert_close(
            torch.baddbmm(model.biases[-1].unsqueeze(1), features, model.weights[-1]), model(inputs)
        )

    def test_features_of_a_single_layer_are_the_inputs_of_each_run(self):
        model, inputs = StackedMLP([3, 5], seeds=[0, 1]), torch.randn(1, 6, 3)
        assert torch.equal(model.features(inputs), inputs.expand(2, 6, 3))
        assert predict(model, inputs[0], features=True).shape == (2, 6, 3)

    def test_linear_features_span_the_plane(self):
        model = StackedMLP([3, 8, 2, 5], seeds=[0], linear_features=True)
        assert (
            model.features(torch.randn(1, 200, 3, generator=torch.Generator().manual_seed(0))) < 0
        ).any()

    @pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
    def test_activations_and_their_gradients(self, activation):
        ours = torch.linspace(-30, 30, 401, dtype=torch.float64, requires_grad=True)
        theirs = ours.detach().clone().requires_grad_()
        found, expected = ACTIVATIONS[activation](ours), PLAIN[activation](theirs)
        found.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-15)
        one_by_one = torch.func.vmap(torch.func.grad(ACTIVATIONS[activation]))(ours.detach())
        torch.testing.assert_close(one_by_one, ours.grad, rtol=1e-12, atol=1e-15)


class TestInitialization:
    def test_a_run_starts_the_same_in_every_stack(self):
        stack, alone = StackedMLP([7, 5, 3], seeds=[4, 0, 4, 9]), StackedMLP([7, 5, 3], seeds=[9])
        for together, single in zip(stack.parameters(), alone.parameters(), strict=True):
            assert torch.equal(together[3], single[0])
            assert torch.equal(together[0], together[2])
            assert not torch.equal(together[0], together[1])

    def test_does_not_touch_the_global_generator(self):
        torch.manual_seed(5)
        before = torch.get_rng_state()
        StackedMLP([7, 5, 3], seeds=[1])
        assert torch.equal(before, torch.get_rng_state())

    @pytest.mark.parametrize(
        ("initialization", "bound", "deviation"),
        [
            ("pytorch", 1 / math.sqrt(400), 1 / math.sqrt(3 * 400)),
            ("xavier", math.sqrt(6 / 700), math.sqrt(2 / 700)),
            ("he", None, math.sqrt(2 / 400)),
        ],
    )
    def test_spread(self, initialization, bound, deviation):
        model = StackedMLP([400, 300], seeds=[0], initialization=initialization)
        weights, biases = model.weights[0], model.biases[0]
        assert weights.std().item() == pytest.approx(deviation, rel=0.01)
        assert abs(weights.mean().item()) < 0.01 * math.sqrt(deviation)
        if bound is not None:
            assert 0.99 * bound < weights.abs().max() <= bound
        assert (biases.abs().max() > 0) == (initialization == "pytorch")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"sizes": [3]}, "sizes must name"),
            ({"sizes": [3, 0, 2]}, "sizes must name"),
            ({"seeds": []}, "seeds is empty"),
            ({"activation": "gelu"}, "valid: relu, tanh, sigmoid"),
            ({"initialization": "zeros"}, "valid: pytorch, xavier, he"),
        ],
    )
    def test_refused(self, change, message):
        with pytest.raises(ValueError, match=message):
            StackedMLP(**({"sizes": [3, 2], "seeds": [0]} | change))

    @pytest.mark.parametrize("shape", [(2, 5, 3), (1, 5, 4), (5, 3)])
    def test_inputs_that_do_not_fit(self, shape):
        with pytest.raises(ValueError, match="S a divisor of 3"):
            StackedMLP([3, 2], seeds=[0, 1, 2])(torch.zeros(shape))


class TestModuleStack:
    def stack(self) -> tuple[ModuleStack, list[nn.Module]]:
        torch.manual_seed(0)
        modules: list[nn.Module] = [
            nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.ReLU(), nn.Linear(8, 3))
            for _ in range(4)
        ]
        return ModuleStack(modules), modules

    @pytest.mark.parametrize("groups", [1, 2, 4])
    def test_equals_the_plain_loop(self, groups):
        stack, modules = self.stack()
        inputs = torch.randn(groups, 5, 1, 6)
        expected = torch.stack(
            [module(inputs[run // (4 // groups)]) for run, module in enumerate(modules)]
        )
        assert torch.equal(stack(inputs), expected)

    def test_batches_must_divide_the_runs(self):
        stack, _ = self.stack()
        with pytest.raises(ValueError, match="3 batches"):
            stack(torch.zeros(3, 5, 1, 6))

    def test_empty(self):
        with pytest.raises(ValueError, match="modules is empty"):
            ModuleStack([])

    def test_features(self):
        class WithFeatures(nn.Linear):
            def features(self, batch: Tensor) -> Tensor:
                return batch

        assert ModuleStack([WithFeatures(3, 4), WithFeatures(3, 4)]).features(
            torch.ones(1, 5, 3)
        ).shape == (2, 5, 3)
        with pytest.raises(TypeError, match="Linear does not expose"):
            ModuleStack([nn.Linear(3, 4)]).features(torch.ones(1, 5, 3))


class Acting(nn.Module):
    """A function that is no module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(3, 2), function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function(self.layer(inputs))


class TestVmapStack:
    def modules(self) -> list[nn.Module]:
        torch.manual_seed(0)
        return [
            nn.Sequential(nn.Conv1d(1, 2, 3), nn.Flatten(), nn.ReLU(), nn.Linear(8, 3))
            for _ in range(4)
        ]

    @pytest.mark.parametrize("groups", [1, 2, 4])
    def test_equals_the_plain_loop(self, groups):
        modules, inputs = self.modules(), torch.randn(groups, 5, 1, 6)
        stack, alone = VmapStack(modules), ModuleStack(modules)
        torch.testing.assert_close(stack(inputs), alone(inputs))
        for model in (stack, alone):
            model(inputs).square().sum().backward()
        for place, weight in enumerate(stack.parameters()):
            each = [list(module.parameters())[place].grad for module in modules]
            torch.testing.assert_close(weight.grad, torch.stack(each))

    def test_keeps_buffers_and_what_is_frozen(self):
        class Shifted(nn.Linear):
            def __init__(self, shift: float) -> None:
                super().__init__(3, 2)
                self.shift = nn.Buffer(torch.full((2,), shift))
                self.bias.requires_grad_(False)

            def forward(self, inputs: Tensor) -> Tensor:
                return inputs[:, :2] + self.shift

        stack, other = VmapStack([Shifted(0.0), Shifted(1.0)]), VmapStack([Shifted(5.0)] * 2)
        other.load_state_dict(stack.state_dict())
        for model in (stack, other):
            assert model(torch.ones(1, 5, 3)).amax((1, 2)).tolist() == [1.0, 2.0]
            assert [one.requires_grad for one in model.parameters()] == [True, False]

    def test_of_compiled_modules(self):
        layers, inputs = [nn.Linear(4, 3), nn.Linear(4, 3)], torch.randn(1, 5, 4)
        compiled = VmapStack([torch.compile(layer, backend="eager") for layer in layers])
        torch.testing.assert_close(compiled(inputs), VmapStack(layers)(inputs))

    def test_features_are_not_exposed(self):
        with pytest.raises(TypeError, match="VmapStack does not expose the inputs of its last"):
            VmapStack([nn.Linear(3, 4)]).features(torch.ones(1, 5, 3))

    @pytest.mark.parametrize(
        ("modules", "message"),
        [
            ([], "modules is empty"),
            ([nn.Linear(3, 2), nn.Linear(4, 2)], "one kind and shape"),
            ([nn.Linear(3, 2), nn.Conv1d(3, 2, 1)], "one kind and shape, or go into a ModuleStack"),
            # vmap would compute both with what the first has
            ([nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh())], "they differ in '0'"),
            ([nn.LeakyReLU(0.1), nn.LeakyReLU(0.9)], "they differ in 'negative_slope'"),
            ([Acting(torch.tanh), Acting(torch.relu)], "they differ in 'function'"),
            ([nn.Sequential(nn.Identity()), nn.Sequential(nn.Dropout(0.5))], "they differ in '0'"),
            ([nn.Sequential(nn.BatchNorm1d(3))], "BatchNorm1d needs a ModuleStack"),
            ([nn.Dropout(0.5)], "Dropout needs a ModuleStack"),
        ],
    )
    def test_modules_that_do_not_fit(self, modules, message):
        with pytest.raises(ValueError, match=message):
            VmapStack(modules)


class TestClipping:
    @pytest.mark.parametrize("max_norm", [1e-3, 0.5, 2.0, 1e6])
    @pytest.mark.parametrize("kind", ["mlp", "modules"])
    def test_is_clip_grad_norm_run_by_run(self, max_norm, kind):
        generator = torch.Generator().manual_seed(0)
        scales = torch.tensor([0.01, 1.0, 100.0])
        if kind == "mlp":
            stack: RunModel = StackedMLP([4, 3, 2], seeds=[0, 1, 2])
        else:
            stack = ModuleStack([nn.Linear(4, 3) for _ in range(3)])
        alone: list[list[nn.Parameter]] = [[], [], []]
        for index, parameter in enumerate(stack.parameters()):
            runs = range(3) if kind == "mlp" else [index // 2]
            shape = parameter.shape if kind == "mlp" else (1, *parameter.shape)
            gradient = torch.randn(shape, generator=generator) * scales[list(runs)].reshape(
                -1, *[1] * (len(shape) - 1)
            )
            parameter.grad = gradient.clone() if kind == "mlp" else gradient[0].clone()
            for position, run in enumerate(runs):
                alone[run].append(nn.Parameter(torch.zeros(shape[1:])))
                alone[run][-1].grad = gradient[position].clone()
        norms = stack.clip_gradients(max_norm)
        for run in range(3):
            assert norms[run].item() == pytest.approx(
                nn.utils.clip_grad_norm_(alone[run], max_norm).item(), rel=1e-6
            )
            found = (
                [p.grad[run] for p in stack.parameters()]
                if kind == "mlp"
                else [p.grad for p in stack.copies[run].parameters()]
            )
            for ours, theirs in zip(found, alone[run], strict=True):
                torch.testing.assert_close(ours, theirs.grad, rtol=1e-5, atol=1e-9)

    def test_an_exploded_run_leaves_the_others_alone(self):
        model = StackedMLP([2, 2], seeds=[0, 1])
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
            parameter.grad[0] = math.nan
        model.clip_gradients(1.0)
        assert all(torch.isfinite(parameter.grad[1]).all() for parameter in model.parameters())
