"""The linear layer with its loss equals the two functions one after the other.

It does so in blocks of any size and without all logits at once.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional import gd_cross_entropy, linear_gd_cross_entropy


def draw(
    samples: int = 11, width: int = 4, classes: int = 6, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    features, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((samples, width), (classes, width), (classes,))
    )
    return features, weight, bias, torch.randint(0, classes, (samples,), generator=generator)


def gradients(loss: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss.double().pow(2).sum(), inputs)


class TestEqualsTheTwoFunctions:
    @settings(deadline=None, max_examples=40)
    @given(
        st.sampled_from(["none", "mean", "sum"]),
        st.sampled_from([None, 1, 4, 11, 100]),
        st.sampled_from([-100, 2]),
        st.sampled_from([0.01, 1.0, "tensor"]),
        st.sampled_from([6, 40]),
    )
    def test_value_and_gradients(self, reduction, block_rows, ignore_index, beta, classes):
        features, weight, bias, target = draw(classes=classes)
        target[3] = ignore_index
        beta = torch.linspace(0.1, 3, 11, dtype=torch.float64) if beta == "tensor" else beta
        keywords = {"temperature": 1.7, "ignore_index": ignore_index, "reduction": reduction}
        found = linear_gd_cross_entropy(
            features, weight, target, beta=beta, linear_bias=bias, block_rows=block_rows, **keywords
        )
        expected = gd_cross_entropy(F.linear(features, weight, bias), target, beta=beta, **keywords)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        for ours, theirs in zip(
            gradients(found, features, weight, bias),
            gradients(expected, features, weight, bias),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)

    def test_only_what_is_asked_for_has_a_gradient(self):
        features, weight, bias, target = draw()
        linear_gd_cross_entropy(
            features.detach(), weight, target, 0.1, linear_bias=bias.detach()
        ).backward()
        assert weight.grad is not None and features.grad is None and bias.grad is None

    def test_the_graph_may_be_used_again(self):
        features, weight, _, target = draw()
        loss = linear_gd_cross_entropy(features, weight, target, 0.1)
        first = torch.autograd.grad(loss, weight, retain_graph=True)[0].clone()
        torch.testing.assert_close(torch.autograd.grad(loss, weight)[0], first)

    def test_a_learnt_beta_goes_the_long_way(self):
        features, weight, _, target = draw()
        beta = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
        linear_gd_cross_entropy(features, weight, target, beta=beta).backward()
        assert beta.grad > 0

    def test_half_precision_is_summed_in_float32(self):
        for dtype in [torch.float16, torch.bfloat16]:
            features, weight, bias, target = draw(dtype=dtype)
            loss = linear_gd_cross_entropy(
                features, weight, target, 0.1, linear_bias=bias, block_rows=4
            )
            exact = gd_cross_entropy(
                F.linear(features.double(), weight.double(), bias.double()), target, 0.1
            )
            assert loss.dtype == dtype
            torch.testing.assert_close(loss.double(), exact, rtol=1e-2, atol=1e-2)
            assert weight.grad is None
            loss.backward()
            assert weight.grad.dtype == dtype and torch.isfinite(weight.grad).all()

    def test_under_autocast_too(self):
        for reduction in ("mean", "none"):
            features, weight, bias, target = draw(dtype=torch.float32)
            expected = gd_cross_entropy(
                F.linear(features, weight, bias), target, 0.1, reduction=reduction
            )
            with torch.autocast("cpu", torch.bfloat16):
                found = linear_gd_cross_entropy(
                    features,
                    weight,
                    target,
                    0.1,
                    linear_bias=bias,
                    block_rows=4,
                    reduction=reduction,
                )
                ours = gradients(found, features, weight, bias)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(ours, gradients(expected, features, weight, bias))

    def test_everything_ignored_is_nan_as_in_pytorch(self):
        features, weight, _, target = draw()
        target[:] = -100
        assert linear_gd_cross_entropy(features, weight, target, 0.1).isnan()
        assert linear_gd_cross_entropy(features, weight, target, 0.1, reduction="sum") == 0

    def test_no_samples(self):
        _, weight, _, _ = draw()
        loss = linear_gd_cross_entropy(
            torch.zeros(0, 4, dtype=torch.float64),
            weight,
            torch.zeros(0, dtype=torch.long),
            reduction="sum",
        )
        assert loss == 0

    def test_no_array_holds_all_logits(self):
        for dtype in (torch.float64, torch.bfloat16):
            features, weight, _, target = draw(samples=64, width=4, classes=32, dtype=dtype)
            largest = 0

            class Watch(torch.utils._python_dispatch.TorchDispatchMode):
                def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
                    nonlocal largest
                    result = function(*arguments, **(keywords or {}))
                    if isinstance(result, Tensor) and not result.is_meta:
                        largest = max(
                            largest, result.untyped_storage().nbytes() // result.element_size()
                        )
                    return result

            with Watch():
                linear_gd_cross_entropy(features, weight, target, 0.1, block_rows=8).backward()
            assert 8 * 32 <= largest < 64 * 32


class TestRefusals:
    def test_bad_arguments(self):
        for change, message in [
            ({"input": torch.zeros(4)}, "input must be floating with 2 dimensions"),
            ({"input": torch.zeros(2, 3, 4)}, r"join batch and time by flatten\(0, 1\)"),
            ({"linear_weight": torch.zeros(3, 5)}, r"expected \[C, 2\]"),
            ({"linear_weight": [[1.0]]}, "linear_weight must be a tensor"),
            ({"linear_bias": torch.zeros(2)}, r"shape \[3\]"),
            ({"target": torch.zeros(3, dtype=torch.long)}, r"shape \[4\]"),
            ({"target": torch.tensor([0, 1, 2, 3])}, r"class index 3 lies outside \[0, 3\)"),
            ({"beta": 0.0}, "finite number > 0"),
            ({"temperature": torch.ones(4)}, "temperature must be a number, the same for all"),
            ({"reduction": "average"}, "'none', 'mean' or 'sum'"),
            ({"block_rows": 0}, "block_rows"),
        ]:
            arguments = {
                "input": torch.zeros(4, 2),
                "linear_weight": torch.zeros(3, 2),
                "target": torch.zeros(4, dtype=torch.long),
            } | change
            with pytest.raises(ValueError, match=message):
                linear_gd_cross_entropy(**arguments)
