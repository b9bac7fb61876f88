"""The losses that weigh by the probability.

Tested are digits at both ends, limits, gradients, and gradient decay from a cross-entropy.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib import losses
from gdlib.functional import (
    gd_cross_entropy,
    gd_from_nll,
    generalized_cross_entropy,
    negative_probability,
    poly1_cross_entropy,
)

GAPS = (-40.0, -15.0, -3.0, -0.4, 0.0, 0.7, 2.0, 10.0, 25.0, 60.0)


def two_classes(gaps: tuple[float, ...], dtype: torch.dtype) -> Tensor:
    """Logits [N, 2] whose wrong class is ahead of the true class 0 by the gaps."""
    logits = torch.zeros(len(gaps), 2, dtype=dtype)
    logits[:, 1] = torch.tensor(gaps, dtype=dtype)
    return logits.requires_grad_()


def exact(gap: float, q: float) -> tuple[float, float]:
    """Value and gradient at the wrong logit of (1 - p^q)/q, in 60 digits."""
    with decimal.localcontext(prec=60):
        p = 1 / (1 + Decimal(gap).exp())
        power = (Decimal(q) * p.ln()).exp()
        return float((1 - power) / Decimal(q)), float(power * (1 - p))


class TestDigits:
    @pytest.mark.parametrize("q", [1e-6, 0.1, 0.7, 1.0])
    @pytest.mark.parametrize(
        ("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-14)]
    )
    def test_values_and_gradients_at_both_ends(self, q, dtype, tolerance):
        logits = two_classes(GAPS, dtype)
        values = generalized_cross_entropy(
            logits, torch.zeros(len(GAPS), dtype=torch.long), q=q, reduction="none"
        )
        values.sum().backward()
        for gap, value, gradient in zip(
            GAPS, values.tolist(), logits.grad[:, 1].tolist(), strict=True
        ):
            expected, slope = exact(gap, q)
            assert value == pytest.approx(expected, rel=tolerance * (1 + abs(gap) / 10), abs=0)
            assert gradient == pytest.approx(slope, rel=tolerance * (1 + abs(gap)), abs=0)

    def test_the_negative_probability_is_the_generalised_one_of_power_1(self):
        logits, target = torch.randn(20, 5, generator=torch.manual_seed(0)), torch.arange(20) % 5
        assert torch.equal(
            negative_probability(logits, target), generalized_cross_entropy(logits, target, q=1.0)
        )

    def test_a_class_that_is_masked_has_a_finite_loss_where_the_formula_has_one(self):
        logits = torch.tensor([[-math.inf, 1.0, 2.0]], requires_grad=True)
        target = torch.tensor([0])  # p_c = 0
        for loss, expected in (
            (generalized_cross_entropy(logits, target, q=0.5), 2.0),
            (negative_probability(logits, target), 1.0),
        ):
            (gradient,) = torch.autograd.grad(loss, logits)
            assert loss.item() == expected and (gradient == 0).all()
        assert poly1_cross_entropy(logits, target).item() == math.inf


class TestGradients:
    def test_dynamic_fine_tuning_has_the_gradient_of_the_negative_probability(self):
        generator = torch.Generator().manual_seed(1)
        logits = torch.randn(30, 7, generator=generator, dtype=torch.float64).requires_grad_()
        target = torch.randint(0, 7, (30,), generator=generator)
        log_p = torch.log_softmax(logits, 1).gather(1, target[:, None])
        (expected,) = torch.autograd.grad(-(log_p.exp().detach() * log_p).mean(), logits)
        (found,) = torch.autograd.grad(negative_probability(logits, target), logits)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)

    def test_the_size_of_the_gradient_that_the_docstring_gives(self):
        logits = two_classes((1.3,), torch.float64)
        p = torch.softmax(logits.detach(), 1)[0, 0].item()
        for epsilon in (-1.0, 0.5, 4.0):
            loss = poly1_cross_entropy(logits, torch.tensor([0]), epsilon=epsilon)
            (gradient,) = torch.autograd.grad(loss, logits)
            assert -gradient[0, 0].item() == pytest.approx((1 - p) * (1 + epsilon * p), rel=1e-13)

    @pytest.mark.parametrize("epsilon", [-1.0, -0.999, -0.6, torch.tensor(-1.0)])
    def test_digits_near_minus_one_where_the_terms_cancel(self, epsilon):
        logits = two_classes(GAPS, torch.float32)
        target = torch.zeros(len(GAPS), dtype=torch.long)
        values = poly1_cross_entropy(logits, target, epsilon=epsilon, reduction="none")
        (slopes,) = torch.autograd.grad(values.sum(), logits)
        for value, slope, gap in zip(values, slopes[:, 1], GAPS, strict=True):
            with decimal.localcontext(prec=60):
                p = 1 / (1 + Decimal(gap).exp())
                size = Decimal(float(epsilon))
                exact_value = float(-p.ln() + size * (1 - p))
                exact_slope = float((1 - p) * (1 + size * p))
            assert value.item() == pytest.approx(exact_value, rel=5e-6, abs=0)
            assert slope.item() == pytest.approx(exact_slope, rel=5e-6, abs=0)


class TestBounds:
    @pytest.mark.parametrize("q", [0.0, -0.1, 1.5, math.nan, "a", True, torch.tensor([0.5, 2.0])])
    def test_q(self, q):
        with pytest.raises(ValueError, match="q must be"):
            generalized_cross_entropy(torch.zeros(2, 3), torch.tensor([0, 1]), q=q)

    @pytest.mark.parametrize("epsilon", [-1.01, math.inf, None, torch.tensor([0.0, -2.0])])
    def test_epsilon(self, epsilon):
        with pytest.raises(ValueError, match="epsilon must be"):
            poly1_cross_entropy(torch.zeros(2, 3), torch.tensor([0, 1]), epsilon=epsilon)

    def test_a_tensor_in_the_third_place(self):
        for loss in (generalized_cross_entropy, poly1_cross_entropy):
            with pytest.raises(TypeError, match="by keyword"):
                loss(torch.zeros(2, 3), torch.tensor([0, 1]), torch.ones(3))
        with pytest.raises(TypeError, match="positional"):
            negative_probability(torch.zeros(2, 3), torch.tensor([0, 1]), torch.ones(3))

    def test_modules_name_their_number(self):
        assert "q=0.7" in repr(losses.GeneralizedCrossEntropyLoss())
        assert "epsilon=2.0" in repr(losses.Poly1CrossEntropyLoss(2.0))


class TestFromCrossEntropy:
    @pytest.mark.parametrize("beta", [1e-12, 1e-3, 0.5, 1.0, 3.0, 1e6])
    def test_equals_the_loss_of_logits(self, beta):
        generator = torch.Generator().manual_seed(2)
        logits = 6 * torch.randn(500, 10, generator=generator, dtype=torch.float64)
        target = torch.randint(0, 10, (500,), generator=generator)
        logits.requires_grad_()
        nll = poly1_cross_entropy(logits, target, epsilon=0.0, reduction="none")  # all digits
        found = gd_from_nll(nll, beta)
        expected = gd_cross_entropy(logits, target, beta=beta, reduction="none")
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        gradients = [
            torch.autograd.grad(loss.mean(), logits, retain_graph=True)[0]
            for loss in (found, expected)
        ]
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-14)

    def test_the_cross_entropy_of_pytorch_is_good_enough_for_ordinary_numbers(self):
        generator = torch.Generator().manual_seed(3)
        logits = torch.randn(200, 10, generator=generator)
        target = torch.randint(0, 10, (200,), generator=generator)
        nll = F.cross_entropy(logits, target, reduction="none")
        torch.testing.assert_close(
            gd_from_nll(nll, 0.1), gd_cross_entropy(logits, target, 0.1, reduction="none")
        )

    def test_gradcheck_in_the_loss_and_in_beta(self):
        nll = torch.tensor([0.0, 1e-3, 0.5, 0.99, 1.01, 4.0, 30.0], dtype=torch.float64) + 1e-4
        beta = torch.tensor([0.1, 0.5, 1.0, 2.0, 7.0, 0.01, 3.0], dtype=torch.float64)
        assert torch.autograd.gradcheck(gd_from_nll, (nll.requires_grad_(), beta.requires_grad_()))
        assert torch.autograd.gradgradcheck(gd_from_nll, (nll, beta))

    def test_ends(self):
        nll = torch.tensor([0.0, 500.0, math.inf], requires_grad=True)
        found = gd_from_nll(nll, 1e-10)
        found.sum().backward()
        torch.testing.assert_close(
            found.detach(), torch.tensor([math.log(1e-10), 500.0, math.inf]), rtol=1e-6, atol=0
        )
        torch.testing.assert_close(nll.grad, torch.tensor([1e10, 1.0, 1.0]), rtol=1e-6, atol=0)
        half = gd_from_nll(torch.tensor([0.5], dtype=torch.bfloat16), 0.1)
        assert half.dtype == torch.bfloat16

    def test_compiled_and_mapped(self):
        nll, beta = torch.tensor([0.1, 3.0]), torch.tensor([0.2, 5.0])
        expected = gd_from_nll(nll, beta)
        compiled = torch.compile(gd_from_nll, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(nll, beta), expected)
        torch.testing.assert_close(torch.func.vmap(gd_from_nll)(nll, beta), expected)

    def test_what_is_refused(self):
        for nll, beta, message in (
            (torch.tensor([-0.5]), 1.0, "nll must be >= 0"),
            (torch.tensor([1]), 1.0, "floating tensor"),
            (0.5, 1.0, "floating tensor; got float|got float"),
            (torch.tensor([0.5]), 0.0, "beta must be"),
            (torch.tensor([0.5]), torch.ones(2), "broadcast"),
        ):
            with pytest.raises(ValueError, match=message):
                gd_from_nll(nll, beta)
