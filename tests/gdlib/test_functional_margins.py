"""Losses on logits and on distances.

They are held against values worked out by hand, identities of the papers, and PyTorch's own losses.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional import (
    center_loss,
    focal_cross_entropy,
    gaussian_mixture_cross_entropy,
    gd_cross_entropy,
    large_margin_cross_entropy,
    multi_class_hinge,
    soft_margin_cross_entropy,
)
from gdlib.functional.distance import center_update
from gdlib.losses import CenterLoss, GaussianMixtureLoss


def draw(samples: int = 12, classes: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(samples, classes, generator=generator, dtype=torch.float64) * 2
    return logits, torch.randint(0, classes, (samples,), generator=generator)


class TestSoftMargin:
    def test_is_gradient_decay_plus_the_margin(self):
        for margin in [-1.0, 0.5, 3.0, 30.0]:
            for options in [{}, {"label_smoothing": 0.1}, {"reduction": "none"}]:
                logits, target = draw()
                found = soft_margin_cross_entropy(logits, target, margin, **options)
                torch.testing.assert_close(
                    found, gd_cross_entropy(logits, target, math.exp(-margin), **options) + margin
                )

    def test_small_losses_keep_their_digits(self):
        # log(1 + exp(-20 + 1)) in float32; through gradient decay the constant would drown it
        found = soft_margin_cross_entropy(torch.tensor([[20.0, 0.0]]), torch.tensor([0]), 1.0)
        assert found.item() == pytest.approx(math.log1p(math.exp(-19)), rel=1e-5)

    def test_modified_is_lm_eq_15(self):
        logits, target = draw()
        moved = logits - F.one_hot(target, 5)
        torch.testing.assert_close(
            soft_margin_cross_entropy(logits, target, 1.0), F.cross_entropy(moved, target)
        )

    def test_a_margin_too_large_for_beta(self):
        logits, target = draw()
        found = soft_margin_cross_entropy(logits, target, 1000.0)
        assert found.item() == pytest.approx(
            F.cross_entropy(logits - 1000 * F.one_hot(target, 5), target).item()
        )


class TestFocal:
    def test_by_hand(self):
        logits = torch.tensor([[math.log(3.0), 0.0]], dtype=torch.float64)
        assert focal_cross_entropy(logits, torch.tensor([0]), 3.0).item() == pytest.approx(
            0.25**3 * math.log(4 / 3), rel=1e-13
        )

    def test_a_confident_sample_keeps_its_digits(self):
        # p = 1 - 4e-18: 1 - p has no digit left in float64 unless it is summed over the wrong
        # classes
        found = focal_cross_entropy(
            torch.tensor([[40.0, 0.0]], dtype=torch.float64), torch.tensor([0]), 1.0
        )
        assert found.item() == pytest.approx(math.exp(-80), rel=1e-10)

    def test_finite_gradient_where_the_power_has_none(self):
        for gamma in [0.0, 0.5, 1.0, 2.0]:
            logits = torch.tensor([[200.0, 0.0], [2e4, -2e4]], requires_grad=True)
            focal_cross_entropy(logits, torch.tensor([0, 0]), gamma).backward()
            assert torch.isfinite(logits.grad).all()


class TestHinge:
    def test_against_pytorch(self):
        for reduction in ["none", "sum", "mean"]:
            logits, target = draw()
            expected = F.multi_margin_loss(logits, target, reduction=reduction) * 5 / 4
            torch.testing.assert_close(
                multi_class_hinge(logits, target, reduction=reduction), expected
            )

    def test_margin_for_each_sample(self):
        logits, target = draw(3)
        found = multi_class_hinge(
            logits, target, margin=torch.tensor([0.5, 1.0, 2.0]), reduction="none"
        )
        alone = [
            multi_class_hinge(logits[i], target[i], margin).item()
            for i, margin in enumerate((0.5, 1.0, 2.0))
        ]
        assert found.tolist() == pytest.approx(alone)


class TestLargeMargin:
    def test_gradient_is_lm_eq_12(self):
        logits, target = draw()
        z = logits.clone().requires_grad_()
        large_margin_cross_entropy(z, target, 0.7, reduction="sum").backward()
        p = torch.softmax(logits, 1)
        for n, c in enumerate(target.tolist()):
            others = [i for i in range(5) if i != c]
            q = torch.softmax(logits[n, others], 0)
            f = logits[n, others]
            expected = p[n].clone()
            expected[c] -= 1
            expected[others] += 0.7 / 2 * (q * (f - (q * f).sum()) + (q - 1 / 4))
            torch.testing.assert_close(z.grad[n], expected)

    def test_zero_for_two_classes_and_for_equal_wrong_logits(self):
        for divergence in ["symmetric", "q_u", "u_q"]:
            logits, target = draw(classes=2)
            torch.testing.assert_close(
                large_margin_cross_entropy(logits, target, 5.0, divergence=divergence),
                F.cross_entropy(logits, target),
            )
            equal = torch.tensor([[3.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
            found = large_margin_cross_entropy(equal, torch.tensor([0]), 5.0, divergence=divergence)
            torch.testing.assert_close(found, F.cross_entropy(equal, torch.tensor([0])))

    def test_symmetric_is_the_mean_of_the_two(self):
        logits, target = draw()
        one, two, both = (
            large_margin_cross_entropy(logits, target, divergence=name)
            for name in ("q_u", "u_q", "symmetric")
        )
        torch.testing.assert_close(both, (one + two) / 2)

    def test_combined_with_the_modified_loss(self):
        logits, target = draw()
        found = large_margin_cross_entropy(logits, target, 0.3, margin=1.0)
        regulariser = large_margin_cross_entropy(logits, target, 0.3) - F.cross_entropy(
            logits, target
        )
        torch.testing.assert_close(
            found, soft_margin_cross_entropy(logits, target, 1.0) + regulariser
        )

    def test_unknown_divergence(self):
        with pytest.raises(ValueError, match="symmetric, q_u, u_q"):
            large_margin_cross_entropy(torch.zeros(1, 3), torch.tensor([0]), divergence="both")


class TestCenterLoss:
    def test_against_mse(self):
        generator = torch.Generator().manual_seed(0)
        features, centers = (
            torch.randn(7, 3, generator=generator),
            torch.randn(4, 3, generator=generator),
        )
        target = torch.randint(0, 4, (7,), generator=generator)
        expected = F.mse_loss(features, centers[target], reduction="sum") / 2
        torch.testing.assert_close(
            center_loss(features, target, centers, reduction="sum"), expected
        )
        torch.testing.assert_close(CenterLoss()(features, target, centers), expected / 7)

    @pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
    def test_options_and_derivatives(self, reduction):
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(5, 2, generator=generator, dtype=torch.float64, requires_grad=True)
        centers = torch.randn(3, 2, generator=generator, dtype=torch.float64, requires_grad=True)
        target, weight = (
            torch.tensor([0, 2, 1, 2, 1]),
            torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64),
        )

        def loss_fn(h: Tensor, c: Tensor) -> Tensor:
            return center_loss(h, target, c, weight=weight, ignore_index=1, reduction=reduction)

        assert torch.autograd.gradcheck(
            loss_fn, (features, centers)
        ) and torch.autograd.gradgradcheck(loss_fn, (features, centers))
        squares = [(features[n] - centers[target[n]]).square().sum().item() / 2 for n in range(5)]
        expected = [squares[0], 2 * squares[1], 0, 2 * squares[3], 0]
        total = {"none": expected, "sum": sum(expected), "mean": sum(expected) / 5}[reduction]
        assert loss_fn(features, centers).tolist() == pytest.approx(total)

    def test_runs(self):
        generator = torch.Generator().manual_seed(0)
        features, centers = (
            torch.randn(3, 6, 2, generator=generator),
            torch.randn(3, 4, 2, generator=generator),
        )
        target = torch.randint(0, 4, (3, 6), generator=generator)
        together = center_loss(features, target, centers, reduction="none")
        moved = center_update(features, target, centers, 0.5)
        for run in range(3):
            assert torch.equal(
                together[run],
                center_loss(features[run], target[run], centers[run], reduction="none"),
            )
            assert torch.equal(
                moved[run], center_update(features[run], target[run], centers[run], 0.5)
            )

    def test_update_by_hand(self):
        # class 0 holds 2 and 4 around 1: 1 + 0.5 * (1 + 3) / (1 + 2); class 1 is absent; one sample
        # is ignored
        found = center_update(
            torch.tensor([[2.0], [4.0], [9.0]]),
            torch.tensor([0, 0, -100]),
            torch.tensor([[1.0], [5.0]]),
            0.5,
        )
        assert found[:, 0].tolist() == pytest.approx([1 + 0.5 * 4 / 3, 5.0])

    def test_update_by_an_ignored_sample_that_is_not_a_number(self):
        found = center_update(
            torch.tensor([[math.nan], [4.0]]), torch.tensor([-100, 1]), torch.zeros(2, 1), 0.5
        )
        assert found[:, 0].tolist() == [0.0, 1.0]

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_update_in_half_precision_is_rounded_once(self, dtype):
        for samples in (300, 3000):
            features, target = torch.ones(samples, 1), torch.zeros(samples, dtype=torch.long)
            found = center_update(features.to(dtype), target, torch.zeros(1, 1, dtype=dtype), 1.0)
            assert torch.equal(found, torch.tensor([[samples / (samples + 1)]]).to(dtype))

    def test_half_precision_and_refusals(self):
        features = torch.full((1, 2), 300.0, dtype=torch.float16)
        assert center_loss(features, torch.tensor([0]), torch.full((1, 2), 299.0)).item() == 1.0
        for arguments, message in (
            ((torch.zeros(2), torch.tensor([0, 0]), torch.zeros(1, 2)), "expected features"),
            ((torch.zeros(2, 3), torch.tensor([0, 0]), torch.zeros(1, 2)), "do not fit"),
            (
                (torch.zeros(1, 2), torch.tensor([1]), torch.zeros(1, 2)),
                r"class index 1 lies outside \[0, 1\)",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                center_loss(*arguments)
        with pytest.raises(TypeError, match="unexpected keyword argument 'label_smoothing'"):
            center_loss(
                torch.zeros(1, 2), torch.tensor([0]), torch.zeros(1, 2), label_smoothing=0.1
            )
        with pytest.raises(ValueError, match="rate"):
            center_update(torch.zeros(1, 2), torch.tensor([0]), torch.zeros(1, 2), 2.0)


class TestGaussianMixture:
    def test_log_determinants_count_for_classes_and_likelihood(self):
        distance, delta = (
            torch.tensor([[1.0, 3.0]], dtype=torch.float64),
            torch.tensor([[0.5, -0.5]], dtype=torch.float64),
        )
        found = gaussian_mixture_cross_entropy(
            distance, torch.tensor([0]), 0.2, 0.1, half_log_determinant=delta
        )
        # logits -(1.2 + 0.5) and -(3 - 0.5), likelihood 1 + 0.5
        assert found.item() == pytest.approx(math.log1p(math.exp(-2.5 + 1.7)) + 0.1 * 1.5)
        assert GaussianMixtureLoss(0.2, 0.1)(distance, torch.tensor([0]), delta) == found

    def test_a_posterior_of_gaussians(self):
        # without margin and likelihood it is minus the log posterior of a mixture with equal
        # weights
        from torch.distributions import Normal

        means, deviations, point = (
            torch.tensor([0.0, 1.0, 4.0]),
            torch.tensor([1.0, 0.5, 2.0]),
            torch.tensor(0.7),
        )
        densities = Normal(means, deviations).log_prob(point)
        distance = ((point - means) / deviations).square() / 2
        found = gaussian_mixture_cross_entropy(
            distance[None], torch.tensor([1]), half_log_determinant=deviations.log()[None]
        )
        assert found.item() == pytest.approx(
            (densities.logsumexp(0) - densities[1]).item(), rel=1e-5
        )
