"""Angles, against values worked out by hand.

Tested are arccos at its ends, the border of ArcFace, ψ, the scale of ArcGrad and the scale of
AdaCos.
"""

from __future__ import annotations

import math

import pytest
import scipy.special
import torch
from torch.nn import functional as F

from gdlib import functional, losses
from gdlib.functional import (
    adacos_scale,
    arccos,
    arcface_cross_entropy,
    arcgrad_scale,
)
from gdlib.losses import AdaCosLoss, LSoftmaxLoss

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


class TestArccos:
    def test_value_and_finite_gradient_at_the_ends(self):
        for dtype in TYPES:
            cosine = torch.tensor([1.0, -1.0, 0.0], dtype=dtype, requires_grad=True)
            found = arccos(cosine)
            found.float().sum().backward()
            torch.testing.assert_close(
                found, torch.tensor([0.0, math.pi, math.pi / 2], dtype=dtype)
            )
            assert torch.isfinite(cosine.grad).all() and found.dtype == dtype

    def test_outside_by_rounding(self):
        assert arccos(torch.tensor([1.0000001, -1.0000002])).tolist() == pytest.approx(
            [0.0, math.pi]
        )

    def test_inside_it_is_torch_arccos(self):
        cosine = torch.linspace(-0.999, 0.999, 101, dtype=torch.float64, requires_grad=True)
        assert torch.equal(arccos(cosine), torch.arccos(cosine))
        assert torch.autograd.gradcheck(arccos, (cosine,)) and torch.autograd.gradgradcheck(
            arccos, (cosine,)
        )

    def test_losses_have_a_finite_gradient_at_the_ends(self):
        for name in ["arcface", "sphereface", "arcgrad"]:
            cosine = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]], requires_grad=True)
            getattr(functional, f"{name}_cross_entropy")(
                cosine, torch.tensor([0, 0, 1]), scale=30.0
            ).backward()
            assert torch.isfinite(cosine.grad).all()

    def test_logits_are_no_cosines(self):
        cosine, labels = (
            torch.tensor([[0.5, -7.0], [1.04, 0.2], [0.0, 3.0]]),
            torch.tensor([0, 1, 0]),
        )
        for name in ["arcface", "sphereface", "arcgrad"]:
            function = getattr(functional, f"{name}_cross_entropy")
            with pytest.raises(
                ValueError,
                match=r"cosines must lie in \[-1, 1\], got 3; gdlib.heads.CosineLinear makes them",
            ):
                function(cosine, labels, scale=2.0)
            assert function(
                cosine, torch.tensor([0, 1, -100]), scale=2.0
            ).isfinite()  # what is ignored may be anything

    def test_class_weights_are_no_scale(self):
        cosine, labels = torch.eye(3), torch.arange(3)
        for name in ["arcface", "cosface", "sphereface", "adacos", "arcgrad"]:
            with pytest.raises(TypeError, match="a tensor as scale must be given by keyword"):
                getattr(functional, f"{name}_cross_entropy")(cosine, labels, torch.ones(3))


class TestArcFace:
    def test_by_hand(self):
        # 45 degrees and a margin of 15 count as 60: logits 10 * (1/2, 0)
        cosine = torch.tensor([[math.sqrt(0.5), 0.0]], dtype=torch.float64)
        found = arcface_cross_entropy(cosine, torch.tensor([0]), scale=10.0, margin=math.pi / 12)
        assert found.item() == pytest.approx(math.log1p(math.exp(-5)), rel=1e-12)

    def test_beyond_pi(self):
        theta, margin = 3.0, 0.5
        cosine = torch.tensor([[math.cos(theta), 0.0]], dtype=torch.float64)
        psi = math.cos(theta) - margin * math.sin(margin)
        found = arcface_cross_entropy(cosine, torch.tensor([0]), scale=2.0, margin=margin)
        assert found.item() == pytest.approx(math.log1p(math.exp(-2 * psi)), rel=1e-12)

    def test_the_true_logit_falls_up_to_pi(self):
        cosine = torch.cos(torch.linspace(0, math.pi, 400, dtype=torch.float64))
        pairs, target = (
            torch.stack([cosine, torch.zeros_like(cosine)], 1),
            torch.zeros(400, dtype=torch.long),
        )
        values = arcface_cross_entropy(pairs, target, 4.0, 0.5, reduction="none")
        assert (values.diff() > 0).all()

    def test_a_masked_true_class_without_a_margin_is_infinitely_wrong(self):
        assert (
            arcface_cross_entropy(
                torch.tensor([[-math.inf, 0.5, 0.2]]), torch.tensor([0]), margin=0.0
            )
            == math.inf
        )


class TestMasks:
    @pytest.mark.parametrize("mask", [-math.inf, -1e4, torch.finfo(torch.float32).min])
    @pytest.mark.parametrize(
        "loss_fn",
        [
            losses.ArcFaceLoss(4.0),
            losses.CosFaceLoss(4.0),
            losses.SphereFaceLoss(4.0),
            losses.ArcGradLoss(4.0),
        ],
        ids=lambda loss_fn: type(loss_fn).__name__,
    )
    def test_a_masked_class_is_as_good_as_none(self, loss_fn, mask):
        cosine, target = torch.tensor([[0.6, 0.3], [-0.2, 0.9]]), torch.tensor([0, 1])
        masked = torch.cat([cosine, torch.full((2, 1), mask)], 1)
        assert loss_fn(masked, target) == loss_fn(cosine, target)
        with_a_third, without = (loss_fn.logits(one).softmax(1) for one in (masked, cosine))
        assert torch.equal(with_a_third[:, :2], without) and not with_a_third[:, 2].any()


class TestSphereFace:
    def test_the_true_logit_is_continuous_and_falls_from_1(self):
        for margin in [1, 2, 3, 4, 7]:
            theta = torch.linspace(0, math.pi, 5001, dtype=torch.float64)
            pairs = torch.stack([torch.cos(theta), torch.zeros_like(theta)], 1)
            loss = functional.sphereface_cross_entropy(
                pairs, torch.zeros(5001, dtype=torch.long), 1.0, margin, reduction="none"
            )
            psi = -torch.log(torch.expm1(loss))
            assert psi[0].item() == pytest.approx(1.0) and psi[-1].item() == pytest.approx(
                1 - 2 * margin
            )
            assert (
                psi.diff() <= 1e-9
            ).all() and psi.diff().abs().max() < 2 * margin * math.pi / 5000

    def test_bad_margin(self):
        for margin in [0, 2.0, True, "2"]:
            with pytest.raises(ValueError, match="whole number >= 1"):
                functional.sphereface_cross_entropy(
                    torch.zeros(1, 2), torch.tensor([0]), margin=margin
                )

    def test_bad_annealing_and_norms(self):
        with pytest.raises(ValueError, match="annealing"):
            functional.sphereface_cross_entropy(
                torch.zeros(1, 2), torch.tensor([0]), annealing=-1.0
            )
        with pytest.raises(ValueError, match="norms"):
            functional.l_softmax_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), torch.ones(3))
        # class weights, which PyTorch takes in their place, and norms of other features
        for norms in ([1.0, 2.0], [-1.0, 3.0]):
            with pytest.raises(ValueError, match=r"norms must be >= 0 and no smaller than the log"):
                functional.l_softmax_cross_entropy(
                    torch.tensor([[3.0, 1.0]]), torch.tensor([0]), torch.tensor(norms)
                )

    def test_l_softmax_with_norms_of_its_own(self):
        generator = torch.Generator().manual_seed(0)
        h, w = (
            torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
            for shape in ((6, 3), (4, 3))
        )
        target = torch.tensor([0, 1, 2, 3, 0, 1])
        norms = h.norm(dim=1, keepdim=True) * w.norm(dim=1)
        found = functional.l_softmax_cross_entropy(h @ w.T, target, norms, margin=2)
        logits, changed = h @ w.T, []
        for n, c in enumerate(target.tolist()):
            theta = torch.arccos(logits[n, c] / norms[n, c])
            k = math.floor(2 * theta.item() / math.pi)
            changed.append(norms[n, c] * ((-1) ** k * torch.cos(2 * theta) - 2 * k))
        logits = torch.where(F.one_hot(target, 4).bool(), torch.stack(changed)[:, None], logits)
        expected = F.cross_entropy(logits, target)
        torch.testing.assert_close(found, expected)
        for ours, theirs in zip(
            torch.autograd.grad(found, (h, w), retain_graph=True),
            torch.autograd.grad(expected, (h, w)),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)
        module = LSoftmaxLoss(margin=2, annealing=1.0)
        assert module(h @ w.T, target, norms) == functional.l_softmax_cross_entropy(
            h @ w.T, target, norms, margin=2, annealing=1.0
        )

    def test_features_of_length_zero(self):
        logits = torch.zeros(1, 3, requires_grad=True)
        loss = functional.l_softmax_cross_entropy(
            logits, torch.tensor([1]), torch.zeros(1, 3), margin=4
        )
        loss.backward()
        assert loss.item() == pytest.approx(math.log(3)) and torch.isfinite(logits.grad).all()


class TestArcGrad:
    def test_scale_by_lamberts_function(self):
        for classes in [2, 3, 10, 100, 10_000, 10**9]:
            expected = 1 + scipy.special.lambertw((classes - 1) / math.e).real
            assert arcgrad_scale(1.0, classes) == pytest.approx(expected, rel=1e-13)
            assert arcgrad_scale(arcgrad_scale(0.3, classes), classes) == pytest.approx(
                0.3, rel=1e-13
            )

    def test_scale_maximises_the_gradient_in_the_gap(self):
        for classes in [2, 3, 10]:
            # AG eq. 17 with its sign and its factor put right: s A / (1 + A), A = (C - 1) exp(-s m)
            gap = 0.7
            scales = torch.linspace(0.01, 30, 300_000, dtype=torch.float64)
            a = (classes - 1) * torch.exp(-scales * gap)
            assert arcgrad_scale(gap, classes) == pytest.approx(
                scales[(scales * a / (1 + a)).argmax()].item(), abs=2e-4
            )

    def test_printed_gaps(self):
        assert (
            round(math.degrees(arcgrad_scale(1.0, 3))) == 84
            and round(math.degrees(arcgrad_scale(40.0, 3))) == 2
        )

    def test_refusals(self):
        with pytest.raises(ValueError, match="classes"):
            arcgrad_scale(1.0, 1)
        with pytest.raises(ValueError, match="gap"):
            arcgrad_scale(0.0, 3)


class TestAdaCos:
    def test_fixed(self):
        cosine, target = torch.tensor([[0.5, 0.1, -0.2]]), torch.tensor([0])
        expected = F.cross_entropy(math.sqrt(2) * math.log(2) * cosine, target)
        torch.testing.assert_close(functional.adacos_cross_entropy(cosine, target), expected)
        with pytest.raises(ValueError, match="classes"):
            AdaCosLoss(1)

    def test_dynamic_scale_by_the_formula(self):
        for scale in [0.5, 3.0, 30.0]:
            for samples in [5, 6]:
                generator = torch.Generator().manual_seed(1)
                cosine = torch.rand(samples, 4, generator=generator, dtype=torch.float64) * 2 - 1
                target = torch.randint(0, 4, (samples,), generator=generator)
                b = (
                    sum(
                        math.exp(scale * cosine[n, j])
                        for n in range(samples)
                        for j in range(4)
                        if j != target[n]
                    )
                    / samples
                )
                angles = sorted(math.acos(cosine[n, target[n]]) for n in range(samples))
                expected = math.log(b) / math.cos(min(math.pi / 4, angles[(samples - 1) // 2]))
                assert adacos_scale(cosine, target, scale).item() == pytest.approx(
                    expected, rel=1e-12
                )

    def test_runs_keep_scales_of_their_own(self):
        generator = torch.Generator().manual_seed(1)
        cosine = torch.rand(3, 8, 4, generator=generator) * 2 - 1
        target = torch.randint(0, 4, (3, 8), generator=generator)
        target[1, :3] = -100
        scale = torch.tensor([1.0, 2.0, 3.0])
        together = adacos_scale(cosine, target, scale)
        for run in range(3):
            assert torch.equal(together[run], adacos_scale(cosine[run], target[run], scale[run]))
        counted = target[1] != -100
        torch.testing.assert_close(
            together[1], adacos_scale(cosine[1][counted], target[1][counted], 2.0)
        )

    def test_two_classes_learn_nothing_as_published_and_something_with_a_guard(self):
        cosine, target = (
            torch.tensor([[0.3, -0.9], [0.2, 0.1]], requires_grad=True),
            torch.tensor([0, 1]),
        )
        published, guarded = AdaCosLoss(2), AdaCosLoss(2, minimum_scale=math.sqrt(2) * math.log(2))
        for _ in range(3):
            loss = published(cosine, target)
            assert loss.item() == pytest.approx(math.log(2)) and published.scale == 0
            assert torch.autograd.grad(loss, cosine)[0].abs().max() == 0
        assert torch.autograd.grad(guarded(cosine, target), cosine)[0].abs().min() > 0
        assert guarded.scale.item() == pytest.approx(math.sqrt(2) * math.log(2))

    def test_statistics_change_in_training_only_and_are_kept(self):
        cosine, target = torch.tensor([[0.9, 0.2, 0.1], [0.3, 0.8, 0.4]]), torch.tensor([0, 1])
        loss_fn = AdaCosLoss(3).eval()
        loss_fn(cosine, target)
        assert loss_fn.scale.item() == pytest.approx(math.sqrt(2) * math.log(2))
        loss = loss_fn.train()(cosine, target)
        expected = adacos_scale(cosine, target, math.sqrt(2) * math.log(2))
        assert loss_fn.scale == expected and set(loss_fn.state_dict()) == {"scale"}
        torch.testing.assert_close(loss, F.cross_entropy(expected * cosine, target))
        assert AdaCosLoss(3, dynamic=False)(cosine, target) == functional.adacos_cross_entropy(
            cosine, target
        )

    def test_a_stack_equals_its_runs(self):
        for reduction in ["none", "sum"]:
            generator = torch.Generator().manual_seed(1)
            stack = AdaCosLoss(4, runs=3, reduction=reduction)
            alone = [AdaCosLoss(4, reduction=reduction) for _ in range(3)]
            for _ in range(4):
                cosine = torch.rand(3, 8, 4, generator=generator) * 2 - 1
                target = torch.randint(0, 4, (3, 8), generator=generator)
                found = stack(cosine, target)
                single = [loss_fn(cosine[run], target[run]) for run, loss_fn in enumerate(alone)]
                torch.testing.assert_close(
                    found, torch.stack(single) if reduction == "none" else sum(single)
                )
                assert torch.equal(stack.scale, torch.stack([loss_fn.scale for loss_fn in alone]))

    def test_a_batch_that_does_not_count_changes_nothing(self):
        found = adacos_scale(torch.rand(2, 3), torch.tensor([-100, -100]), 2.0)
        assert found == 2.0
        assert adacos_scale(torch.rand(0, 3), torch.zeros(0, dtype=torch.long), 2.0) == 2.0

    def test_training_takes_the_shapes_that_evaluation_takes(self):
        generator = torch.Generator().manual_seed(0)
        for shape in ((3,), (0, 3), (4, 3), (2, 3, 4), (2, 3, 3), (2, 3, 2, 2)):
            cosine = torch.rand(shape, generator=generator)
            target = torch.randint(
                0, 3, shape[:1] * (len(shape) > 1) + shape[2:], generator=generator
            )
            found, expected = AdaCosLoss(3), AdaCosLoss(3)
            loss = found(cosine, target)
            expected(cosine.movedim(min(1, len(shape) - 1), -1).reshape(-1, 3), target.flatten())
            assert found.scale == expected.scale
            torch.testing.assert_close(loss, found.eval()(cosine, target), equal_nan=True)

    def test_training_refuses_what_has_no_angle_to_a_true_class(self):
        for target, message in (
            (torch.rand(2, 3), "class indices"),
            (torch.tensor([0, 3]), r"class index 3 lies outside \[0, 3\)"),
        ):
            with pytest.raises(ValueError, match=message):
                AdaCosLoss(3)(torch.rand(2, 3), target)

    def test_a_batch_with_a_nan_is_forgotten(self):
        loss_fn, target = AdaCosLoss(3, minimum_scale=0.5), torch.tensor([0, 1])
        assert loss_fn(torch.full((2, 3), math.nan), target).isnan()
        assert (
            loss_fn.scale.item() == pytest.approx(math.sqrt(2) * math.log(2))
            and loss_fn(torch.rand(2, 3), target).isfinite()
        )

    def test_refusals(self):
        with pytest.raises(ValueError, match="expected cosines"):
            adacos_scale(torch.zeros(3), torch.zeros(3, dtype=torch.long), 1.0)
        with pytest.raises(ValueError, match="scale must be"):
            adacos_scale(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), torch.ones(3))
