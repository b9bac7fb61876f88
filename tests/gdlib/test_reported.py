"""Inputs on which other libraries of this kind were reported to fail; each test names a report."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import io
import math
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from gdlib import calibration, functional, heads, losses, models
from gdlib.functional import gd_cross_entropy, linear_gd_cross_entropy
from gdlib.functional._arguments import log_add_exp
from gdlib.functional._fused import GradientInForward
from gdlib.schedules import LinearWarmup
from gdlib.train import RunLoss, batch_order, predict, train
from gdlib.train.checkpoint import save

INF, NAN, PI = math.inf, math.nan, math.pi


def cosines(z: Tensor) -> Tensor:
    return torch.where(z == -INF, z, z.tanh())


MIXED: dict[str, Callable[..., Tensor]] = {
    "gd": lambda z, y, **o: gd_cross_entropy(z, y, 0.3, **o),
    "gd, tiny beta": lambda z, y, **o: gd_cross_entropy(z, y, 1e-30, **o),
    "gd, learnt beta": lambda z, y, **o: gd_cross_entropy(
        z, y, beta=torch.tensor(0.3, requires_grad=True), **o
    ),
    "soft margin": lambda z, y, **o: functional.soft_margin_cross_entropy(z, y, 0.5, **o),
    "focal": functional.focal_cross_entropy,
    "poly": functional.poly1_cross_entropy,
    "generalised": functional.generalized_cross_entropy,
    "negative probability": functional.negative_probability,
    "arcface": lambda z, y, **o: functional.arcface_cross_entropy(cosines(z), y, 64.0, 0.5, **o),
    "cosface": lambda z, y, **o: functional.cosface_cross_entropy(cosines(z), y, 64.0, 0.35, **o),
    "sphereface": lambda z, y, **o: functional.sphereface_cross_entropy(cosines(z), y, 90.0, **o),
    "l-softmax": lambda z, y, **o: functional.l_softmax_cross_entropy(
        z, y, z.detach().nan_to_num(neginf=0.0).abs() + 1.0, **o
    ),
    "adacos": lambda z, y, **o: functional.adacos_cross_entropy(cosines(z), y, 90.0, **o),
    "arcgrad": lambda z, y, **o: functional.arcgrad_cross_entropy(cosines(z), y, 90.0, **o),
}
OF_INDICES = {
    **MIXED,
    "hinge": functional.multi_class_hinge,
    "large margin": functional.large_margin_cross_entropy,
    "gaussian mixture": lambda z, y, **o: functional.gaussian_mixture_cross_entropy(
        z.abs(), y, 0.3, 0.1, **o
    ),
    "linear": lambda z, y, **o: linear_gd_cross_entropy(
        z, torch.eye(z.shape[1], dtype=z.dtype), y, 0.3, **o
    ),
}
OF_COSINES = [MIXED[name] for name in ("arcface", "cosface", "sphereface", "adacos", "arcgrad")]
every_loss = pytest.mark.parametrize("loss_fn", OF_INDICES.values(), ids=OF_INDICES.keys())
every_mixed_loss = pytest.mark.parametrize("loss_fn", MIXED.values(), ids=MIXED.keys())


def gradient(loss: Tensor, input: Tensor, **options: object) -> Tensor:
    return torch.autograd.grad(loss, input, **options)[0]


class TestSecondDerivativesOfSureSamples:
    """pytorch#196704: the double backward pass of torch.logaddexp is NaN where exp overflows."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_log_add_exp_against_closed_forms(self, dtype: torch.dtype) -> None:
        tiny, eps = torch.finfo(dtype).tiny, torch.finfo(dtype).eps
        for gap in (0.0, 1e-3, 3.0, 20.0, 42.99, 43.01, 60.0, 87.0, 300.0, 349.9, 350.1, 600.0):
            for x in (gap, -gap):
                for constant in (0.0, -2.25):
                    a, b = (
                        torch.tensor([number], dtype=dtype, requires_grad=True)
                        for number in (x, constant)
                    )
                    value = log_add_exp(a, b)
                    first = torch.autograd.grad(value, (a, b), create_graph=True)
                    second = [
                        gradient(one, two, retain_graph=True) for one in first for two in (a, b)
                    ]
                    with mp.workdps(60):
                        d = mp.mpf(a.item()) - mp.mpf(b.item())
                        of_a, of_b = 1 / (1 + mp.exp(-d)), 1 / (1 + mp.exp(d))
                        exact = [mp.log(mp.exp(d) + 1) + mp.mpf(b.item()), of_a, of_b]
                        exact += [of_a * of_b, -of_a * of_b, -of_a * of_b, of_a * of_b]
                        for found, wanted in zip([value, *first, *second], exact, strict=True):
                            allowed = (8 + 2 * abs(d)) * eps * abs(wanted) + 8 * eps * (
                                found is value
                            )
                            assert abs(mp.mpf(found.item()) - wanted) <= allowed + tiny

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_of_two_classes_against_sixty_digits(self, dtype: torch.dtype) -> None:
        def softplus(x: mp.mpf) -> mp.mpf:
            return mp.log(1 + mp.exp(x))

        def p(x: mp.mpf) -> mp.mpf:
            return 1 / (1 + mp.exp(x))

        forms: dict[str, Callable] = {  # of x, the wrong logit minus the true one
            "gd": lambda x: mp.log(mp.exp(x) + mp.mpf(0.3)),
            "soft margin": lambda x: softplus(x + mp.mpf(0.5)),
            "focal": lambda x: (1 - p(x)) ** 2 * softplus(x),
            "poly": lambda x: softplus(x) + 1 - p(x),
            "generalised": lambda x: (1 - p(x) ** mp.mpf(0.7)) / mp.mpf(0.7),
            "negative probability": lambda x: 1 - p(x),
        }
        far = 88 if dtype == torch.float32 else 350
        for name, form in forms.items():
            for gap in (-2 * far, -far, -60, -20, -3, 0, 3, 20, 60, far, 2 * far):
                z = torch.tensor([[0.0, gap]], dtype=dtype, requires_grad=True)
                first = gradient(MIXED[name](z, torch.tensor([0])), z, create_graph=True)
                second = gradient(first[0, 0], z)
                with mp.workdps(400):
                    exact = mp.diff(form, mp.mpf(gap), 2, h=mp.mpf(10) ** -30)
                # far behind, the curvature of the log-sum-exp takes digits off, as in PyTorch
                allowed = 1e-3 * abs(exact) + (2 * torch.finfo(dtype).eps if gap > 0 else 0)
                for found in (second[0, 0].item(), -second[0, 1].item()):
                    assert abs(found - exact) <= allowed + torch.finfo(dtype).tiny, (name, gap)

    @every_loss
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_of_every_loss_are_finite(
        self, loss_fn: Callable[..., Tensor], dtype: torch.dtype
    ) -> None:
        z = torch.tensor(
            [[200.0, 0.0, 0.0], [0.0, 200.0, -200.0], [0.0, 1.0, 2.0], [0.0, 0.0, 0.0]],
            dtype=dtype,
            requires_grad=True,
        )
        alone = z.detach()[2:].requires_grad_()  # without sure samples
        curvature = [
            gradient(
                gradient(
                    loss_fn(given, torch.tensor([0, 0, 1, 2][-len(given) :]), reduction="sum"),
                    given,
                    create_graph=True,
                )
                .square()
                .sum(),
                given,
            )
            for given in (z, alone)
        ]
        assert curvature[0].isfinite().all()
        torch.testing.assert_close(curvature[0][2:], curvature[1])

    def test_of_a_learnt_beta(self) -> None:
        z = torch.tensor([[0.0, 200.0], [200.0, 0.0], [0.0, 1.0]])
        beta = torch.tensor([0.3], requires_grad=True)
        first = gradient(
            gd_cross_entropy(z, torch.tensor([0, 0, 0]), beta=beta), beta, create_graph=True
        )
        x = torch.tensor([200.0, -200.0, 1.0], dtype=torch.float64)
        exact = -((x.exp() + 0.3) ** -2).mean()  # J = log(e^x + beta)
        torch.testing.assert_close(gradient(first, beta)[0].double(), exact, rtol=1e-5, atol=0)

    def test_through_transforms_and_forwards(self) -> None:
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and PyTorch uses it here
        z, y = torch.tensor([[200.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
        for loss_fn in (MIXED["gd"], MIXED["soft margin"]):
            hessian = torch.func.hessian(lambda z: loss_fn(z, y))(z)  # noqa: B023
            assert hessian.isfinite().all() and hessian[1, :, 1].abs().min() > 0.01

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_of_heads_at_vectors_of_length_zero(self, dtype: torch.dtype) -> None:
        features = torch.tensor([[0.0] * 4, [1e-20] * 4, [1.0, 2.0, 3.0, 4.0]], dtype=dtype)
        layer = heads.NormedLinear(4, 3).to(dtype)
        layer.weight.data[1] = 0.0
        for head in (
            lambda h: heads.cosines(h, layer.weight.T),
            lambda h: layer(h)[0] / (1 + layer(h)[1]),
        ):
            h = features.clone().requires_grad_()
            first = torch.autograd.grad(head(h).sum(), (h, layer.weight), create_graph=True)
            loss = sum(one.square().sum() for one in first)
            second = torch.autograd.grad(loss, (h, layer.weight))
            assert all(one.isfinite().all() for one in second)
            assert second[0][2].abs().min() > 0


class TestWhatDoesNotCountPassesNothingBack:
    """NeMo Automodel#3796, pytorch#116349, pytorch#11551, DirectML#739: NaN from above."""

    @every_loss
    def test_no_label_counts_in_a_sum_over_their_number(
        self, loss_fn: Callable[..., Tensor]
    ) -> None:
        z = torch.randn(6, 4, requires_grad=True)
        labels = torch.full((6,), -100)
        loss = loss_fn(z, labels, reduction="sum") / (labels != -100).sum()
        assert loss.isnan() and torch.equal(gradient(loss, z), torch.zeros(6, 4))

    @every_loss
    @pytest.mark.parametrize("incoming", [NAN, INF, 0.0])
    def test_an_ignored_row(self, loss_fn: Callable[..., Tensor], incoming: float) -> None:
        z = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
        labels = torch.tensor([0, -100, 2])
        found = gradient(
            loss_fn(z, labels, reduction="none"), z, grad_outputs=torch.tensor([1.0, incoming, 1.0])
        )
        assert torch.equal(found[1], torch.zeros(4)) and found.isfinite().all()
        without = gradient(loss_fn(z[::2], labels[::2], reduction="sum"), z)
        torch.testing.assert_close(found, without)
        once_more = gradient(loss_fn(z, labels), z, grad_outputs=torch.tensor(NAN))
        assert torch.equal(once_more[1], torch.zeros(4)) and once_more[::2].isnan().any(1).all()

    @pytest.mark.parametrize("reduction", ["none", "sum"])
    def test_weight_and_bias_of_the_linear_loss(self, reduction: str) -> None:
        parts = [torch.randn(*shape, requires_grad=True) for shape in ((6, 4), (5, 4), (5,))]
        loss = linear_gd_cross_entropy(
            *parts[:2], torch.full((6,), -100), 0.3, linear_bias=parts[2], reduction=reduction
        )
        for found in torch.autograd.grad(loss, parts, torch.full_like(loss, NAN)):
            assert torch.equal(found, torch.zeros_like(found))

    def test_images_and_a_graph_that_is_used_again(self) -> None:
        z = torch.randn(2, 3, 4, requires_grad=True)
        labels = torch.tensor([[0, -100, 1, 2], [-100] * 4])
        loss = gd_cross_entropy(z, labels, 0.3, reduction="none")
        above = torch.where(labels == -100, NAN, 1.0)
        first, second = (gradient(loss, z, grad_outputs=above, retain_graph=True) for _ in range(2))
        assert first.isfinite().all() and torch.equal(first, second)
        both = gradient(
            loss, z, grad_outputs=torch.stack([above, 2 * above]), is_grads_batched=True
        )
        torch.testing.assert_close(both, torch.stack([first, 2 * first]))

    @every_loss
    @pytest.mark.parametrize("value", [NAN, INF, -INF])
    def test_an_ignored_row_without_finite_logits(
        self, loss_fn: Callable[..., Tensor], value: float
    ) -> None:
        """Padding whose attention has nothing to look at."""
        z = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
        labels = torch.tensor([0, -100, 2, 1])
        expected = loss_fn(alone := z[[0, 2, 3]].requires_grad_(), labels[[0, 2, 3]])
        z[1] = value
        found = loss_fn(z.requires_grad_(), labels)
        torch.testing.assert_close(found, expected)
        # the way to the logits, such as tanh, has a derivative of its own
        if torch.equal(cosines(z)[1], z[1]) or loss_fn not in OF_COSINES:
            torch.testing.assert_close(gradient(found, z)[[0, 2, 3]], gradient(expected, alone))
            assert torch.equal(gradient(loss_fn(z, labels), z)[1], torch.zeros(4))

    @every_mixed_loss
    def test_a_row_of_zeros_without_finite_logits(self, loss_fn: Callable[..., Tensor]) -> None:
        if loss_fn in OF_COSINES:
            return
        z = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
        z[1] = NAN
        shares = torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 0, 0], [0, 0, 0.1, 0.9]])
        found = gradient(loss_fn(z.requires_grad_(), shares), z)
        assert torch.equal(found[1], torch.zeros(4)) and found.isfinite().all()

    def test_weight_of_the_linear_loss_and_centres_beside_features_that_are_not_finite(
        self,
    ) -> None:
        h, w = torch.randn(4, 3), torch.randn(5, 3, requires_grad=True)
        labels = torch.tensor([0, -100, 2, 1])
        counted = labels != -100
        expected = gradient(linear_gd_cross_entropy(h[counted], w, labels[counted], 0.3), w)
        h[1] = NAN
        for reduction in ("mean", "none"):
            loss = linear_gd_cross_entropy(h, w, labels, 0.3, reduction=reduction).sum()
            found = gradient(loss, w) / (1 if reduction == "mean" else 3)
            torch.testing.assert_close(found, expected)
        loss = functional.center_loss(h.requires_grad_(), labels, torch.zeros(5, 3))
        assert loss.isfinite() and torch.equal(gradient(loss, h)[1], torch.zeros(3))

    def test_a_log_determinant_beside_distances_that_do_not_count(self) -> None:
        d = torch.rand(2, 3, requires_grad=True)
        delta = torch.tensor([[0.1, 0.2, 0.3], [NAN] * 3], requires_grad=True)
        loss = functional.gaussian_mixture_cross_entropy(
            d, torch.tensor([0, -100]), 0.1, 0.1, half_log_determinant=delta
        )
        for found in torch.autograd.grad(loss, (d, delta)):
            assert torch.equal(found[1], torch.zeros(3)) and found[0].abs().min() > 0

    @every_loss
    @pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}])
    def test_no_class_has_a_weight(self, loss_fn: Callable[..., Tensor], options: dict) -> None:
        """The mean is 0 / 0; one such batch must not put NaN into every parameter."""
        if loss_fn is OF_INDICES["linear"] or (options and loss_fn not in MIXED.values()):
            return
        z = torch.randn(3, 4, requires_grad=True)
        weight = torch.tensor([0.0, 0.0, 1.0, 1.0])
        loss = loss_fn(z, torch.tensor([0, 1, 0]), weight=weight, **options)
        assert loss.isnan() and torch.equal(gradient(loss, z), torch.zeros(3, 4))


class TestHooksOfSavedTensors:
    """pytorch#153005: what is kept as an attribute of ctx, activation checkpoints do not free."""

    @pytest.mark.parametrize(
        "loss_fn",
        [
            lambda h, w, y: gd_cross_entropy(F.linear(h, w), y, 0.3),
            lambda h, w, y: gd_cross_entropy(F.linear(h, w), y, 0.3, label_smoothing=0.1),
            lambda h, w, y: linear_gd_cross_entropy(h, w, y, 0.3, block_rows=7),
            lambda h, w, y: linear_gd_cross_entropy(h, w, y, 0.3, reduction="none").mean(),
        ],
    )
    def test_a_checkpoint_holds_nothing_of_the_size_of_the_logits(
        self, loss_fn: Callable[..., Tensor]
    ) -> None:
        def numbers() -> int:
            gc.collect()
            alive = (one for one in gc.get_objects() if issubclass(type(one), Tensor))
            return sum(one.numel() for one in alive if not one.is_meta)

        h, w = torch.randn(64, 5, requires_grad=True), torch.randn(300, 5, requires_grad=True)
        y = torch.randint(0, 300, (64,))
        expected = torch.autograd.grad(loss_fn(h, w, y), (h, w))
        before = numbers()
        loss = checkpoint(loss_fn, h, w, y, use_reentrant=False, preserve_rng_state=False)
        assert numbers() - before < 64 * 5
        for found, wanted in zip(torch.autograd.grad(loss, (h, w)), expected, strict=True):
            assert torch.equal(found, wanted)

    def test_the_hooks_see_the_gradient(self) -> None:
        seen: list[tuple[int, ...]] = []

        def pack(saved: Tensor) -> Tensor:
            seen.append(tuple(saved.shape))
            return saved

        z = torch.randn(16, 20, requires_grad=True)
        y = torch.randint(0, 20, (16,))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
            loss = gd_cross_entropy(z, y, 0.3)
        assert seen.count((16, 20)) == 2  # the logits and their gradient
        first = gradient(3 * loss, z, retain_graph=True)
        torch.testing.assert_close(first, 3 * gradient(gd_cross_entropy(z, y, 0.3), z))
        assert torch.equal(gradient(3 * loss, z), first)
        with torch.autograd.graph.save_on_cpu():
            loss = gd_cross_entropy(z, y, 0.3)
        torch.testing.assert_close(3 * gradient(loss, z), first)

    def test_a_kernel_multiplies_what_they_have_kept(self) -> None:
        """It has its own way to pass nothing back from what does not count."""

        class Kernel:
            def __call__(self, z: Tensor) -> tuple[Tensor, Tensor]:
                return z.sum(), torch.tensor([0.0, 1.0])

            def multiply(self, made: Tensor, factor: Tensor) -> Tensor:
                return torch.where(made == 0.0, 0.0, made * factor)

        z = torch.zeros(2, requires_grad=True)
        with torch.autograd.graph.save_on_cpu():
            loss = GradientInForward.apply(z, Kernel(), torch.sum)
        for above in (NAN, 3.0):
            found = gradient(loss, z, grad_outputs=torch.tensor(above), retain_graph=True)
            torch.testing.assert_close(found, torch.tensor([0.0, above]), equal_nan=True)

    @pytest.mark.parametrize("temperature", [1.0, 2.0])
    def test_a_selective_checkpoint_keeps_the_products(self, temperature: float) -> None:
        """Automodel#3274, hyper-parallel#937: what such a checkpoint keeps must not be changed."""

        def policy(_: object, operation: object, *args: object, **options: object) -> object:
            kept = operation in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
            return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

        def loss_fn(h: Tensor, w: Tensor) -> Tensor:
            return linear_gd_cross_entropy(h, w, y, 0.3, temperature=temperature, block_rows=7)

        h, w = torch.randn(16, 5, requires_grad=True), torch.randn(20, 5, requires_grad=True)
        y = torch.randint(0, 20, (16,))
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        loss = checkpoint(loss_fn, h, w, use_reentrant=False, context_fn=contexts)
        found = torch.autograd.grad(loss, (h, w))
        torch.testing.assert_close(found, torch.autograd.grad(loss_fn(h, w), (h, w)))


class TestSoftTargets:
    @every_mixed_loss
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_a_class_that_is_masked_and_has_no_share(
        self, loss_fn: Callable[..., Tensor], dtype: torch.dtype
    ) -> None:
        """optax#896, optax#1762: 0 log 0 is 0."""
        z = torch.tensor([[-INF, 0.5, 0.25]], dtype=dtype, requires_grad=True)
        shares = torch.tensor([[0.0, 0.75, 0.25]], dtype=dtype)
        found = loss_fn(z, shares)
        without = z.detach()[:, 1:].requires_grad_()
        expected = loss_fn(without, shares[:, 1:])
        torch.testing.assert_close(found, expected)
        slopes = gradient(found, z)
        torch.testing.assert_close(slopes[:, 1:], gradient(expected, without))
        assert slopes[0, 0] == 0.0

    def test_its_value(self) -> None:
        z = torch.tensor([[-INF, 0.0, 0.0]])
        found = gd_cross_entropy(z, torch.tensor([[0.0, 0.5, 0.5]]), beta=0.5)
        assert found.item() == pytest.approx(math.log(2) + math.log(0.75), rel=1e-6)
        assert gd_cross_entropy(z, torch.tensor([[0.5, 0.25, 0.25]]), beta=0.5) == INF

    @every_mixed_loss
    def test_a_masked_class_whose_weight_is_zero(self, loss_fn: Callable[..., Tensor]) -> None:
        weight = torch.tensor([0.0, 1.0, 2.0])
        z = torch.tensor([[-40.0, 0.5, 0.0], [1.0, 0.0, 0.5]])
        masked = z.clone()
        masked[0, 0] = -INF
        for labels, options in (
            (torch.tensor([0, 1]), {"reduction": "none"}),
            (torch.tensor([1, 2]), {"label_smoothing": 0.1}),
        ):
            given = masked.clone().requires_grad_()
            found = loss_fn(given, labels, weight=weight, **options)
            assert found.isfinite().all() and gradient(found.sum(), given).isfinite().all()

    @every_mixed_loss
    @pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"weight": torch.rand(3)}])
    def test_a_row_of_zeros_does_not_count(
        self, loss_fn: Callable[..., Tensor], options: dict
    ) -> None:
        """Paddle#76033: a mean over all samples where some should not count."""
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(4, 3, generator=generator).requires_grad_()
        shares = torch.softmax(torch.randn(4, 3, generator=generator), 1)
        shares[2:] = 0.0
        found, alone = loss_fn(z, shares, **options), loss_fn(z[:2], shares[:2], **options)
        torch.testing.assert_close(found, alone)
        torch.testing.assert_close(gradient(found, z), gradient(alone, z))
        each = loss_fn(z, shares, reduction="none", **options)
        above = torch.tensor([1.0, 1.0, NAN, INF])
        assert torch.equal(gradient(each, z, grad_outputs=above)[2:], torch.zeros(2, 3))
        assert torch.equal(each[2:], torch.zeros(2))
        nothing = loss_fn(z, torch.zeros(4, 3), **options)
        assert nothing.isnan() and torch.equal(gradient(nothing, z), torch.zeros(4, 3))

    def test_the_advice_is_a_row_of_zeros(self) -> None:
        with pytest.raises(ValueError, match="that should not count a row of zeros"):
            gd_cross_entropy(torch.zeros(2, 3), torch.full((2, 3), 1 / 3), ignore_index=0)

    @every_mixed_loss
    @pytest.mark.parametrize(
        "row", [[6.2, -7.9, 3.4], [1.0, 1.0, 1.0], [1.5, -0.5, 0.0], [NAN, 0.5, 0.5], [0.5, 0.1, 0]]
    )
    def test_what_is_no_distribution_is_refused(
        self, loss_fn: Callable[..., Tensor], row: list[float]
    ) -> None:
        """pytorch#134771, pytorch#155649: logits or counts as a target."""
        z = torch.tensor([[0.4, 0.8, 0.6], [0.1, 0.2, 0.3]])
        target = torch.tensor([row, [0.0, 0.0, 0.0]])
        with pytest.raises(ValueError, match="sum to 1 over the classes, or are all 0"):
            loss_fn(z, target)

    @every_mixed_loss
    def test_one_output_for_two_classes(self, loss_fn: Callable[..., Tensor]) -> None:
        """dcgp#86: the loss is 0 whatever is predicted, and nothing is learnt."""
        z, target = torch.randn(4, 1), torch.tensor([[0.0], [1.0], [1.0], [0.0]])
        with pytest.raises(ValueError, match=r"one class.* torch.cat\(\[0 \* input, input\], 1\)"):
            loss_fn(z, target)
        if loss_fn is MIXED["poly"]:  # what it advises
            found = F.cross_entropy(torch.cat([0 * z, z], 1), target[:, 0].long())
            torch.testing.assert_close(found, F.binary_cross_entropy_with_logits(z, target))
        assert loss_fn(z, torch.ones(4, 1)).isfinite()

    def test_what_rounding_leaves_is_accepted(self) -> None:
        for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
            z = 3 * torch.randn(8, 5000, generator=torch.Generator().manual_seed(0))
            shares = torch.softmax(z.to(dtype), 1).float()
            assert gd_cross_entropy(z, shares, 0.3).isfinite()
        assert gd_cross_entropy(torch.zeros(0, 3), torch.zeros(0, 3)).isnan()

    def test_a_compiler_and_transforms_read_no_value(self) -> None:
        z, shares = torch.randn(4, 3), torch.softmax(torch.randn(4, 3), 1)
        shares[3] = 0.0
        for loss_fn in (MIXED["gd"], MIXED["focal"]):
            expected = loss_fn(z, shares)
            compiled = torch.compile(loss_fn, backend="aot_eager", fullgraph=True)
            torch.testing.assert_close(compiled(z, shares), expected)
            mapped = torch.func.vmap(loss_fn)(z[None], shares[None])
            torch.testing.assert_close(mapped[0], expected)
            slopes = torch.func.grad(loss_fn)(z, shares)
            assert torch.equal(slopes[3], torch.zeros(3)) and slopes.isfinite().all()


class TestAdaCos:
    """pytorch-adacos#6: B_avg grows without end."""

    @staticmethod
    def collapsed(mean: float) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(0)
        cosine = mean + 0.02 * torch.randn(64, 10, generator=generator)
        return cosine.clamp(-1, 1), torch.randint(0, 10, (64,), generator=generator)

    @pytest.mark.parametrize("mean", [0.95, -0.95])
    def test_collapsed_features_stop_at_the_bound_and_it_is_said(self, mean: float) -> None:
        cosine, labels = self.collapsed(mean)
        for bound in (1000.0, 50.0):
            loss_fn = losses.AdaCosLoss(10, maximum_scale=bound)
            with pytest.warns(RuntimeWarning, match=f"has reached maximum_scale={bound:g}"):
                for _ in range(200):
                    loss = loss_fn(cosine, labels)
            assert abs(loss_fn.scale) == bound and loss.isfinite()
        published = losses.AdaCosLoss(10, maximum_scale=None)
        for _ in range(200):
            published(cosine, labels)
        assert abs(published.scale) > 1e5

    def test_a_scale_below_the_bound_is_the_published_one(self) -> None:
        cosine, labels = self.collapsed(0.2)
        scales = []
        for bound in (None, 1000.0):
            loss_fn = losses.AdaCosLoss(10, maximum_scale=bound)
            for _ in range(20):
                loss_fn(cosine, labels)
            scales.append(loss_fn.scale)
        assert torch.equal(*scales)
        bounded = functional.adacos_scale(cosine, labels, 2.0, maximum_scale=1.5)
        assert bounded == 1.5 < functional.adacos_scale(cosine, labels, 2.0)

    def test_deterministic_algorithms(self) -> None:
        """pytorch#46942: a median with its index raises where those are asked for, on a GPU."""

        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(  # noqa: PLR0917
                self, function: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                assert "median" not in str(function) and "kthvalue" not in str(function)
                return function(*args, **(kwargs or {}))

        generator = torch.Generator().manual_seed(0)
        cosine = 0.7 + 0.2 * torch.rand(2, 9, 4, generator=generator)
        labels = torch.randint(0, 4, (2, 9), generator=generator)
        for ignored in range(10):
            labels[0, :ignored] = -100
            with Watch():
                found = functional.adacos_scale(cosine, labels, 2.0)
            counted = labels[0] != -100
            if not counted.any():
                assert found[0] == 2.0
                continue
            c, y = cosine[0, counted], labels[0, counted, None]
            wrong = (2 * c).exp().scatter(1, y, 0.0).sum(1).mean()
            expected = wrong.log() / torch.arccos(c.gather(1, y)).median().clamp(max=PI / 4).cos()
            torch.testing.assert_close(found[0], expected)

    def test_bounds_that_leave_no_scale_are_refused(self) -> None:
        with pytest.raises(ValueError, match="minimum_scale must not be above maximum_scale"):
            losses.AdaCosLoss(10, minimum_scale=3.0, maximum_scale=2.0)
        with pytest.raises(ValueError, match="maximum_scale must be a finite number > 0"):
            losses.AdaCosLoss(10, maximum_scale=0.0)
        assert losses.AdaCosLoss(10, maximum_scale=1.0).scale == 1.0


class TestStateUnderTransforms:
    """functorch#384, functorch#505, ResDAG#261: ensembles by vmap, and state changed in place."""

    def test_the_error_says_what_to_do(self) -> None:
        cosine, labels = torch.rand(2, 4, 4), torch.tensor([0, 1, 2, 3])
        adacos, centers = losses.AdaCosLoss(4), heads.ClassCenters(4, 4)
        sphereface = losses.SphereFaceLoss(annealing=lambda step: 1.0)
        for transform in (torch.func.vmap, torch.func.grad):
            with pytest.raises(RuntimeError, match=r"AdaCosLoss changes its state.*runs=R\)"):
                transform(lambda c: adacos(c, labels))(
                    cosine if transform is torch.func.vmap else cosine[0]
                )
        with pytest.raises(RuntimeError, match=r"ClassCenters changes its state.*runs=R\)"):
            torch.func.vmap(lambda h: centers.update(h, labels) or h.sum())(cosine)
        with pytest.raises(RuntimeError, match="SphereFaceLoss changes .*annealing as a number"):
            torch.func.grad(lambda c: sphereface(c, labels))(cosine[0])
        assert adacos.scale == losses.AdaCosLoss(4).scale and sphereface.steps == 0

    def test_what_it_advises_works(self) -> None:
        cosine, labels = torch.rand(2, 4, 4), torch.tensor([0, 1, 2, 3])
        stack = losses.AdaCosLoss(4, runs=2)
        stack(cosine, labels.expand(2, 4))
        alone = losses.AdaCosLoss(4)
        given = torch.func.vmap(  # state that is an argument of what is transformed
            lambda scale, c: torch.func.functional_call(alone, {"scale": scale}, (c, labels))
        )(alone.scale.expand(2).clone(), cosine)
        for run in range(2):
            one = losses.AdaCosLoss(4)
            loss = one(cosine[run], labels)
            torch.testing.assert_close(stack.scale[run], one.scale)
            torch.testing.assert_close(given[run], loss)
        kept = torch.func.vmap(lambda c: alone.eval()(c, labels))(cosine)
        torch.testing.assert_close(kept[1], alone(cosine[1], labels))

    def test_a_loss_with_a_tensor_takes_one_for_each_run(self) -> None:
        z, labels = torch.randn(2, 4, 3), torch.tensor([0, 1, 2, 0])
        for beta in (torch.tensor(1.0), torch.nn.Parameter(torch.tensor(1.0))):
            loss_fn = losses.GDCrossEntropyLoss(beta=beta)
            found = torch.func.vmap(
                lambda b, z: torch.func.functional_call(loss_fn, {"beta": b}, (z, labels))  # noqa: B023
            )(torch.tensor([0.1, 5.0]), z)
            for run, number in enumerate((0.1, 5.0)):
                torch.testing.assert_close(found[run], gd_cross_entropy(z[run], labels, number))


class TestCalibration:
    @pytest.mark.parametrize("scaling", [calibration.TemperatureScaling, calibration.VectorScaling])
    def test_what_was_fitted_is_saved_and_loaded(self, scaling: type) -> None:
        """lerobot#2877, SUAVE#36: a temperature that a checkpoint loses."""
        generator = torch.Generator().manual_seed(0)
        z, labels = (
            3 * torch.randn(60, 3, generator=generator, dtype=torch.float64),
            torch.randint(0, 3, (60,), generator=generator),
        )
        fitted = scaling().fit(z, labels)
        expected = fitted.transform(z)
        file = io.BytesIO()
        torch.save(fitted, file)
        file.seek(0)
        numbers = {name: getattr(fitted, name) for name in inspect.signature(scaling).parameters}
        for found in (torch.load(file, weights_only=True), scaling(**numbers)):
            assert torch.equal(found.transform(z), expected)

    def test_a_number_that_is_no_temperature_is_refused(self) -> None:
        assert calibration.TemperatureScaling(1.6).temperature == 1.6
        for wrong in (0.0, -1.0, NAN, INF, "1.6", True, torch.ones(2)):
            with pytest.raises(ValueError, match="temperature must be a finite number > 0"):
                calibration.TemperatureScaling(wrong)
        for wrong in ({"weight": [1.0]}, {"weight": [1.0], "bias": [0.0, 0.0]}):
            with pytest.raises(ValueError, match="weight and bias"):
                calibration.VectorScaling(**wrong)

    def test_two_classes_as_one_column(self) -> None:
        """PyHealth#1215, netcal#38, MAPIE#142."""
        p, labels = torch.tensor([0.9, 0.2, 0.7]), torch.tensor([1, 0, 0])
        way_out = r"For a binary problem.*: torch.stack\(\[1 - probs(\[:, 0\])?, "
        for probs in (p, p[:, None], p.numpy(), p.numpy()[:, None]):
            for measure in (
                calibration.expected_calibration_error,
                calibration.calibration_bins,
                calibration.bootstrap_calibration,
                calibration.brier_score,
            ):
                for given in (labels, torch.zeros_like(labels)):
                    with pytest.raises(ValueError, match=way_out):
                        measure(probs, given)
        followed = torch.stack([1 - p, p], 1)
        found = calibration.expected_calibration_error(followed, labels)
        assert found == pytest.approx((0.1 + 0.2 + 0.7) / 3)
        with pytest.raises(ValueError, match=r"torch.stack\(\[0 \* logits, logits\], 1\)"):
            calibration.TemperatureScaling().fit(p.logit(), labels)

    @pytest.mark.parametrize("scheme", ["width", "mass"])
    @pytest.mark.parametrize(
        "measure",
        [
            calibration.expected_calibration_error,
            calibration.maximum_calibration_error,
            calibration.debiased_calibration_error,
        ],
    )
    def test_intervals_for_other_bins(self, measure: Callable[..., float], scheme: str) -> None:
        """skore#2938, scikit-learn#30664: 15 bins cost what 10 do, however they are asked for."""
        rng = np.random.default_rng(0)
        probs = rng.dirichlet(np.ones(5), 400)
        labels = rng.integers(5, size=400)
        asked = functools.partial(measure, n_bins=15, scheme=scheme)
        found = calibration.bootstrap_calibration(
            probs, labels, measure, n_bins=15, scheme=scheme, resamples=30
        )
        if measure is not calibration.debiased_calibration_error:  # its interval is one of squares
            slow = calibration.bootstrap_calibration(
                probs, labels, lambda p, y: asked(p, y), resamples=30
            )
            assert found.estimate == slow.estimate
            ends = min(1.0, slow.low), min(1.0, slow.high)
            assert (found.low, found.high) == pytest.approx(ends, abs=1e-12)
        assert found == calibration.bootstrap_calibration(probs, labels, asked, resamples=30)
        with pytest.raises(TypeError, match="measure must be a function"):
            calibration.bootstrap_calibration(
                probs, labels, calibration.brier_score, n_bins=15, resamples=3
            )

    def test_other_bins_take_the_time_of_the_default(self) -> None:
        generator = torch.Generator().manual_seed(0)
        probs = torch.softmax(2 * torch.randn(10_000, 100, generator=generator), 1)
        labels = torch.randint(0, 100, (10_000,), generator=generator)
        seconds = []
        for options in ({}, {"n_bins": 15}, {"scheme": "mass"}):
            before = time.thread_time()
            calibration.bootstrap_calibration(probs, labels, resamples=60, **options)
            seconds.append(time.thread_time() - before)
        assert max(seconds) < 4 * seconds[0]  # it was 28 times

    def test_what_rounding_leaves_below_zero(self) -> None:
        """ppsim#23, openturns#2200: 1 - p, where p has been rounded above 1."""
        sure = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
        p = torch.stack([torch.stack([1 - sure, sure]), torch.tensor([0.25, 0.75])])
        assert p.min() < 0
        exact = p.clamp(0, 1)
        for measure in (
            calibration.expected_calibration_error,
            calibration.classwise_calibration_error,
            calibration.negative_log_likelihood,
            calibration.brier_score,
        ):
            for labels in ([1, 0], [0, 1]):
                assert measure(p, labels) == pytest.approx(measure(exact, labels), abs=1e-6)
        torch.testing.assert_close(calibration.beta_link(p, 0.3), calibration.beta_link(exact, 0.3))
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
            calibration.brier_score([[-0.001, 1.001]], [1])

    def test_errors_say_what_to_do(self) -> None:
        """NumPy has no bfloat16; evidently#1456; batches of a loop that were not joined."""
        p = torch.softmax(3 * torch.randn(500, 100), 1, dtype=torch.float32).bfloat16()
        labels = torch.zeros(500, dtype=torch.long)
        assert calibration.brier_score(p, labels) > 0
        with pytest.raises(ValueError, match=r"rounded, take the softmax of logits.float\(\)"):
            calibration.brier_score(p.float().numpy(), labels)
        two = torch.tensor([[0.8, 0.2], [0.4, 0.6]])
        for wrong, way_out in (
            (np.array([False, True]), r"convert it with .astype\(int\)"),
            (torch.tensor([False, True]), r"convert it with .long\(\)"),
        ):
            with pytest.raises(ValueError, match=way_out):
                calibration.expected_calibration_error(two, wrong)
        for batches in ([two, two[:1]], [two.clone().requires_grad_()]):
            with pytest.raises(ValueError, match="join batches by torch.cat"):
                calibration.expected_calibration_error(batches, [0, 1, 0])

    def test_masked_classes(self) -> None:
        """stable-baselines#505: logits of -inf for what may not be chosen."""
        generator = torch.Generator().manual_seed(0)
        z = 3 * torch.randn(200, 3, generator=generator, dtype=torch.float64)
        labels = (z[:, :2] + torch.randn(200, 2, generator=generator)).argmax(1)
        z[:100, 2] = -INF
        scaling = calibration.TemperatureScaling()
        with pytest.raises(ValueError, match="mask a class by -1e4"):
            scaling.fit(z, labels)
        temperature = scaling.fit(z.clamp(min=-1e4), labels).temperature
        best = F.cross_entropy(z / temperature, labels)
        for factor in (0.999, 1.001):
            assert best < F.cross_entropy(z / (factor * temperature), labels)

    @pytest.mark.parametrize(
        "scaling",
        [calibration.TemperatureScaling(2.0), calibration.VectorScaling([1.0, 2.0], [0.5, -0.5])],
    )
    def test_a_scaling_within_a_model(self, scaling: calibration.TemperatureScaling) -> None:
        """kornia#4391, torchdiffeq#269: a check of values breaks the graph of a compiler."""

        class Calibrated(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(3, 2)

            def forward(self, x: Tensor) -> Tensor:
                return scaling.transform(self.layer(x))

        model, x = Calibrated(), torch.randn(5, 3)
        expected = model(x)
        for found in (
            torch.compile(model, backend="eager", fullgraph=True)(x),
            torch.export.export(model, (x,)).module()(x),
            torch.func.vmap(model)(x),
        ):
            torch.testing.assert_close(found, expected)

    def test_fitted_in_inference_mode(self) -> None:
        """dinov2#472, pytorch#57369: validation loops run in it, and what they leave is used."""
        z, labels = torch.randn(40, 3), torch.randint(0, 3, (40,))
        with torch.inference_mode():
            scaling = calibration.VectorScaling().fit(z * 1, labels)
        scaling.transform(z.requires_grad_()).sum().backward()
        torch.testing.assert_close(z.grad, scaling.weight.float().expand(40, 3))


class TestMistakenForOneAnother:
    @pytest.mark.parametrize("scaling", [calibration.TemperatureScaling, calibration.VectorScaling])
    def test_probabilities_for_logits(self, scaling: type) -> None:
        """temperature_scaling#29, calibration-framework#32: a softmax of a softmax is fitted."""
        z = 3 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
        labels = z.argmax(1).where(torch.arange(60) % 3 > 0, 0)
        for probs in (z.softmax(1), z.double().softmax(1).numpy(), z.bfloat16().softmax(1)):
            with pytest.warns(
                UserWarning, match="look like probabilities: give the outputs"
            ) as given:
                scaling().fit(probs, labels)
            assert given[0].filename == __file__
        for logits in (z, z.log_softmax(1), z.abs(), F.one_hot(labels, 3)):
            scaling().fit(logits, labels)  # a warning would be an error

    def test_labels_in_an_array_of_objects(self) -> None:
        """The way out must be one: labels as floating numbers are refused."""
        probs = np.array([[0.8, 0.2], [0.4, 0.6]])
        for arrays, way_out in (
            ((probs, np.array([0, 1], dtype=object)), "int"),
            ((probs.astype(object), [0, 1]), "float"),
        ):
            with pytest.raises(ValueError, match=rf"convert it with .astype\({way_out}\)"):
                calibration.brier_score(*arrays)


class Scaled(torch.nn.Module):
    """A layer with a learnt scale, which has no dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.layer(x)


class Tied(torch.nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.last = torch.nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x).tanh()))


class Attentive(torch.nn.Module):
    """A dropout of 0, as of nn.TransformerEncoderLayer(..., dropout=0.0)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Centred(torch.nn.Module):
    """Subtracts a running mean that it keeps itself."""

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.layer, self.in_place = torch.nn.Linear(4, 3), in_place
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            mean = self.mean.lerp(x.mean(0), 0.1)
            self.mean = self.mean.copy_(mean) if self.in_place else mean
        return self.layer(x - self.mean)


class Called(torch.nn.Module):
    """A layer, and a function of its outputs."""

    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.layer, self.function = torch.nn.Linear(4, 3), function

    def forward(self, x: Tensor) -> object:
        return self.function(self.layer(x))


class OwnLoss(losses.GDCrossEntropyLoss):
    """A loss whose arguments are handed on by their names."""

    def __init__(self, gain: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.gain = gain


class Wrapped(torch.nn.Module):
    """A module that holds a loss."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.inner = torch.nn.CrossEntropyLoss(**options)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return self.inner(z, y)


def multiplied_by(number: float) -> Callable[[Tensor], Tensor]:
    return lambda z: number * z


def halved(module: torch.nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(0.5 * one for one in given)


class TestStacks:
    x = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()

    def train(self, stack: models.RunModel, **options: object) -> list[dict]:
        given = {"data": (self.x, self.y), "epochs": 2, "lr": 0.1, "batch_size": 5} | options
        return train(stack, losses.GDCrossEntropyLoss(0.5), **given)

    @pytest.mark.parametrize("module", [Tied, Scaled, Attentive])
    @pytest.mark.parametrize("options", [{}, {"max_grad_norm": 0.1}])
    def test_modules_computed_at_once_are_modules_one_by_one(
        self, module: type[torch.nn.Module], options: dict
    ) -> None:
        """functorch#446: shared parameters; open_clip#6: a parameter without dimensions."""
        copies = [module(), module()]
        stacks = [models.ModuleStack(copies), models.VmapStack(copies)]
        history = [self.train(stack, **options)[-1]["loss"] for stack in stacks]
        torch.testing.assert_close(*history)
        torch.testing.assert_close(*(predict(stack, self.x) for stack in stacks))

    def test_what_cannot_be_computed_at_once(self) -> None:
        """rl#1935, rl#2313: vmap asks for flags that the caller cannot set."""
        stack = models.VmapStack([Called(lambda z: F.dropout(z, 0.5))] * 2)
        with pytest.raises(RuntimeError, match="randomness") as caught:
            self.train(stack)
        assert "A ModuleStack can" in caught.value.__notes__[0]
        for kind in (models.ModuleStack, models.VmapStack):
            with pytest.raises(TypeError, match="must return a tensor, or a tuple .* got dict"):
                self.train(kind([Called(lambda z: {"logits": z})]))

    @pytest.mark.parametrize("dtype", [torch.float64, torch.uint8])
    def test_inputs_of_another_type(self, dtype: torch.dtype) -> None:
        """dgl#3751, scarches#195: tensors made of arrays are float64, images uint8."""
        data = (self.x.abs().to(dtype), self.y)
        for by_hand in (True, False):
            stack = models.StackedMLP([4, 5, 3], seeds=[0, 1])
            with pytest.raises(ValueError, match=r"give inputs.to\(torch.float32\)"):
                self.train(stack, data=data, by_hand=by_hand)
        with pytest.raises(ValueError, match=r"give inputs.to\(torch.float32\)"):
            predict(stack, data[0])

    def test_features_with_a_graph_behind_them(self) -> None:
        """nn-zero-to-hero#31, SHOT#41: a second backward pass through what made the data."""
        backbone = torch.nn.Linear(4, 4)
        for stack in (
            models.StackedMLP([4, 5, 3], seeds=[0]),
            models.ModuleStack([torch.nn.Linear(4, 3)]),
        ):
            self.train(stack, data=(backbone(self.x), self.y))
            assert backbone.weight.grad is None

    def test_where_gradients_are_switched_off(self) -> None:
        """tnt#539."""
        with torch.no_grad():
            for by_hand in (True, False):
                history = self.train(models.StackedMLP([4, 5, 3], seeds=[0]), by_hand=by_hand)
                assert history[-1]["loss"] < history[1]["loss"]

    @pytest.mark.parametrize("kind", [models.ModuleStack, models.VmapStack])
    def test_a_batch_without_a_label_that_counts(self, kind: type[models.RunModel]) -> None:
        """ultralytics#25096, prime-rl#1110: one such batch hides the loss of the epoch."""
        y = self.y.clone()
        y[4:8] = -100
        copies = [torch.nn.Linear(4, 3) for _ in range(2)]
        options = {"epochs": 1, "lr": 0.0, "batch_size": 4}
        order = torch.arange(24)[None]
        found = self.train(kind(copies), data=(self.x, y), order=lambda _: order, **options)
        kept = y != -100
        without = self.train(kind(copies), data=(self.x[kept], y[kept]), **options)
        torch.testing.assert_close(found[1]["loss"], without[1]["loss"])
        nothing = self.train(kind(copies), data=(self.x, torch.full((24,), -100)), **options)
        assert nothing[1]["loss"].isnan().all()
        with torch.no_grad():
            copies[1].weight[0] = NAN
        diverged = self.train(kind(copies), data=(self.x, y), **options)[1]["loss"]
        assert diverged.isnan().tolist() == [False, True]

    @pytest.mark.parametrize("options", [{}, {"by_hand": False}, {"betas": [0.1, 2.0]}])
    def test_another_default_device(self, options: dict) -> None:
        """pytorch#110820: what is made without a device lies on the default one."""
        options = {"measure": lambda stack, epoch: {"number": 1.0}} | options
        stacks = [models.StackedMLP([4, 5, 3], seeds=[0, 1]) for _ in range(2)]
        expected = self.train(stacks[0], **options)
        with torch.device("meta"):
            found = self.train(stacks[1], **options)
            scaled = calibration.TemperatureScaling(2.0).transform(self.x.numpy())
        assert found[-1]["number"] == 1.0 and np.array_equal(scaled, self.x.numpy() / 2)
        for name in ("loss", "beta"):
            assert torch.equal(found[-1][name], expected[-1][name])

    @pytest.mark.parametrize("precision", ["float32", "bfloat16"])
    @pytest.mark.parametrize("kind", [models.ModuleStack, models.VmapStack])
    def test_within_autocast(self, kind: type[models.RunModel], precision: str) -> None:
        """Flow-Factory#186: the weights as they were cast first, until the outermost one ends."""
        options = {"epochs": 20, "lr": 0.5, "precision": precision}
        layers = [torch.nn.Linear(4, 3) for _ in range(2)]
        stacks = [kind(copy.deepcopy(layers)) for _ in range(2)]
        self.train(stacks[0], **options)
        expected = predict(stacks[0], self.x, precision=precision)
        with torch.autocast("cpu", torch.bfloat16):
            self.train(stacks[1], **options)
            assert torch.equal(predict(stacks[1], self.x, precision=precision), expected)
        assert (expected.argmax(2) == self.y).float().mean() > 0.8

    def test_an_order_from_numpy(self) -> None:
        order = np.random.default_rng(0).permutation(24)[None]
        found, expected = (
            self.train(models.StackedMLP([4, 5, 3], seeds=[0]), order=lambda _, one=one: one)
            for one in (order, torch.from_numpy(order))
        )
        assert torch.equal(found[-1]["loss"], expected[-1]["loss"])

    def test_a_checkpoint_where_the_working_directory_changes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is measured may write its files elsewhere."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(tmp_path)
        stack = models.StackedMLP([4, 5, 3], seeds=[0])
        self.train(
            stack, checkpoint="state.pt", measure=lambda *_: monkeypatch.chdir(elsewhere) or None
        )
        assert not list(elsewhere.iterdir())
        monkeypatch.chdir(tmp_path)
        again = models.StackedMLP([4, 5, 3], seeds=[0])
        self.train(again, checkpoint="state.pt")
        assert torch.equal(predict(again, self.x), predict(stack, self.x))

    def test_a_checkpoint_in_the_home_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """HistoQC#198: a folder whose name is a tilde."""
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        self.train(models.StackedMLP([4, 5, 3], seeds=[0]), checkpoint="~/runs/state.pt")
        assert (tmp_path / "runs" / "state.pt").exists()
        (tmp_path / "weights.pt").write_bytes(b"the weights of another program, of some length")
        with pytest.raises(ValueError, match="not from train; .*or name another file"):
            self.train(models.StackedMLP([4, 5, 3], seeds=[0]), checkpoint="~/weights.pt")

    @pytest.mark.parametrize(
        "kind", [torch.nn.CrossEntropyLoss, losses.GDCrossEntropyLoss, OwnLoss, Wrapped]
    )
    @pytest.mark.parametrize("classes", [3, 60])
    def test_a_checkpoint_of_other_class_weights(
        self, kind: type, classes: int, tmp_path: Path
    ) -> None:
        """The state of the file would take the place of the weights that are given."""

        def fit(weight: Tensor, epochs: int) -> None:
            stack = models.StackedMLP([4, 5, classes], seeds=[0, 1])
            options = {"lr": 0.1, "epochs": epochs, "checkpoint": tmp_path / "state.pt"}
            train(stack, kind(weight=weight), (self.x, self.y), **options)

        fit(torch.ones(classes), 1)
        fit(torch.ones(classes), 2)
        other = torch.ones(classes)
        other[-1] = 100.0
        with pytest.raises(ValueError, match="was written with loss="):
            fit(other, 3)
        assert other[-1] == 100.0

    def test_a_checkpoint_of_other_data(self, tmp_path: Path) -> None:
        """Where a page is changed between two runs, the old training would be returned."""
        path = tmp_path / "state.pt"
        self.train(models.StackedMLP([4, 5, 3], seeds=[0]), checkpoint=path)
        in_another_type = (self.x, self.y.int())
        self.train(models.StackedMLP([4, 5, 3], seeds=[0]), data=in_another_type, checkpoint=path)
        for data in ((2 * self.x, self.y), (self.x, self.y.flip(0))):
            with pytest.raises(ValueError, match="was written with data="):
                self.train(models.StackedMLP([4, 5, 3], seeds=[0]), data=data, checkpoint=path)
        everything = {"data": (2 * self.x, self.y), "identity": "of the caller"}
        self.train(models.StackedMLP([4, 5, 3], seeds=[0]), checkpoint=tmp_path / "a", **everything)

    def test_a_checkpoint_behind_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "large-disk").mkdir()
        link = tmp_path / "state.pt"
        link.symlink_to(tmp_path / "large-disk" / "state.pt")
        self.train(models.StackedMLP([4, 5, 3], seeds=[0]), checkpoint=link)
        assert link.is_symlink() and (tmp_path / "large-disk" / "state.pt").is_file()

    def test_a_checkpoint_of_the_same_numbers_of_another_type(self, tmp_path: Path) -> None:
        schedules = [LinearWarmup(0.1, 1, 10), LinearWarmup(np.float64(0.1), 1.0, np.int64(10))]
        for epochs, schedule in enumerate(schedules, 1):
            options = {"betas": schedule, "epochs": epochs, "checkpoint": tmp_path / "state.pt"}
            self.train(models.StackedMLP([4, 5, 3], seeds=[0]), **options)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            tuple(functools.partial(F.leaky_relu, negative_slope=k) for k in (0.1, 0.9)),
            (lambda z: z, lambda z: -z),
            (multiplied_by(1), multiplied_by(2)),
            (torch.tensor(1.0).mul, torch.tensor(2.0).mul),
        ],
    )
    def test_modules_with_different_functions(
        self, one: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor]
    ) -> None:
        """All would be computed with the function of the first."""
        models.VmapStack([Called(one), Called(one)])
        with pytest.raises(ValueError, match="they differ in 'function'"):
            models.VmapStack([Called(one), Called(other)])

    def test_modules_with_different_attributes(self) -> None:
        for name, one, other in [
            ("offset", torch.zeros(3), torch.ones(3)),
            ("places", [0, 1], [0, 2]),
            ("options", {"p": 0.1}, {"p": 0.2}),
            ("training_scale", 1.0, 5.0),
            ("_compiled_scale", 1.0, 5.0),
            ("my_hooks", ["a"], ["b"]),
            ("other_hooks", {"a": 1}, {"b": 1}),
        ]:
            copies = [Called(torch.tanh) for _ in range(3)]
            for module, value in zip(copies, (one, copy.deepcopy(one), other), strict=True):
                setattr(module, name, value)
            models.VmapStack(copies[:2])
            with pytest.raises(ValueError, match=f"they differ in '{name}'"):
                models.VmapStack(copies)

    def test_modules_that_cannot_be_compared_or_copied(self) -> None:
        for value, message in ((weakref.ref(self.x), None), (threading.Lock(), "deepcopy copies")):
            copies = [Called(torch.tanh) for _ in range(2)]
            for module in copies:
                module.value = value
            if message:
                with pytest.raises(ValueError, match=message):
                    models.VmapStack(copies)
                continue
            models.VmapStack(copies)
            copies[1].value = weakref.ref(self.y)
            with pytest.raises(ValueError, match="or it cannot be compared"):
                models.VmapStack(copies)

    def test_modules_that_refer_to_their_own_parts(self) -> None:
        """Two lists of layers are not equal, though they may do the same."""
        module = Called(torch.tanh)
        module.parts = [module.layer]
        copies = [module, copy.deepcopy(module)]
        with pytest.raises(ValueError, match="into a ModuleStack; they differ in 'parts', or it c"):
            models.VmapStack(copies)
        assert predict(models.ModuleStack(copies), self.x).shape[0] == 2

    def test_modules_that_change_their_input_in_place(self) -> None:
        """The others would get what the first has left."""

        def net() -> torch.nn.Sequential:
            first = torch.nn.Linear(4, 4).requires_grad_(False)
            act, last = torch.nn.LeakyReLU(0.1, inplace=True), torch.nn.Linear(4, 3)
            return torch.nn.Sequential(act, first, last)

        copies, x = [net(), net()], self.x.clone()
        alone = [models.ModuleStack([copy.deepcopy(one)]) for one in copies]
        stack = models.ModuleStack(copies)
        for data in ({}, {"seeds": [0, 1]}):
            self.train(stack, **data)
            for seed, one in enumerate(alone):
                self.train(one, seeds=seed if data else 0)
            assert torch.equal(
                predict(stack, self.x), torch.cat([predict(one, self.x) for one in alone])
            )
        assert torch.equal(self.x, x)

    def test_modules_with_hooks(self) -> None:
        """All would be computed with those of the first."""
        copies = [Called(torch.tanh) for _ in range(2)]
        for module in copies:
            module.register_forward_pre_hook(halved)
        stacks = [models.ModuleStack(copies), models.VmapStack(copies)]
        torch.testing.assert_close(*(predict(stack, self.x) for stack in stacks))
        copies[1].register_forward_pre_hook(halved)
        with pytest.raises(ValueError, match="they differ in '_forward_pre_hooks'"):
            models.VmapStack(copies)

    def test_a_shared_backbone_that_is_frozen(self) -> None:
        """It is not trained, and so need not be there once for each run."""
        backbone = torch.nn.Linear(4, 4)
        with pytest.raises(ValueError, match="share a parameter"):
            models.ModuleStack([torch.nn.Sequential(backbone, torch.nn.Linear(4, 3))] * 2)
        backbone.requires_grad_(False)
        before = backbone.weight.clone()
        runs = [torch.nn.Sequential(backbone, torch.nn.Linear(4, 3)) for _ in range(2)]
        history = self.train(models.ModuleStack(runs), epochs=10)
        assert torch.equal(backbone.weight, before)
        assert (history[-1]["loss"] < history[1]["loss"]).all()

    def test_seeds_that_are_a_tensor_or_too_large(self) -> None:
        found = [
            self.train(models.StackedMLP([4, 5, 3], seeds=[0]), seeds=seeds)[-1]["loss"]
            for seeds in (3, torch.tensor(3), torch.tensor([3]))
        ]
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
        with pytest.raises(ValueError, match=r"in \[0, 2\*\*32\); got 4294967303"):
            models.StackedMLP([4, 3], seeds=[7, 7 + 2**32])

    def test_a_loss_of_each_pixel(self) -> None:
        """A mean over the samples alone would add the pixels up."""

        def of_pixels(z: Tensor, y: Tensor, beta: Tensor) -> Tensor:
            logits, beta = z.movedim(2, 1), beta[:, None, None, None]
            return gd_cross_entropy(logits, y, beta=beta, reduction="none")

        x, y = torch.randn(8, 2, 4, 4), torch.randint(0, 3, (8, 4, 4))
        layers = [torch.nn.Conv2d(2, 3, 1) for _ in range(2)]
        history = []
        for loss in (RunLoss(of_pixels), losses.GDCrossEntropyLoss()):
            stack = models.ModuleStack(copy.deepcopy(layers))
            options = {"epochs": 3, "lr": 0.5, "batch_size": 4, "betas": [0.3, 2.0]}
            history.append(train(stack, loss, (x, y), **options)[-1]["loss"])
        assert history[0].shape == (2,)
        torch.testing.assert_close(*history)


class TestModulesAtOnce:
    """What torch.func.vmap computes wrongly, or would lose, without an error."""

    def test_an_embedding_with_a_padding_vector(self) -> None:
        """pytorch#26302: the padding vector is trained; by vmap, in all runs but the first."""
        words = torch.randint(0, 5, (24, 6), generator=torch.Generator().manual_seed(0))
        copies = [
            torch.nn.Sequential(
                torch.nn.Embedding(5, 2, padding_idx=1),
                torch.nn.Flatten(),
                torch.nn.Linear(12, 3),
            )
            for _ in range(2)
        ]
        with pytest.raises(ValueError, match="Embedding with a padding_idx needs a ModuleStack"):
            models.VmapStack(copies)
        TestStacks().train(models.ModuleStack(copies), data=(words, TestStacks.y))
        assert all(one[0].weight[1].eq(0).all() for one in copies)

    def test_a_buffer_that_a_module_changes(self) -> None:
        """functorch#273: statistics that are assigned anew are lost."""
        copies = [Centred(in_place=True) for _ in range(2)]
        stacks = [models.ModuleStack(copies), models.VmapStack(copies)]
        for stack in stacks:
            TestStacks().train(stack)
        torch.testing.assert_close(*(predict(stack, TestStacks.x) for stack in stacks))
        lost = models.VmapStack([Centred(in_place=False)] * 2)
        predict(lost, TestStacks.x)
        with pytest.raises(ValueError, match="assigns a new tensor to mean, .* or use a ModuleS"):
            TestStacks().train(lost)

    def test_numbers_of_different_types(self) -> None:
        """A stack of both would have the wider one."""
        with pytest.raises(ValueError, match="they differ in 'weight'"):
            models.VmapStack([torch.nn.Linear(4, 3), torch.nn.Linear(4, 3).double()])


class Still(torch.nn.BatchNorm1d):
    """Keeps its statistics, whatever the mode of the network."""

    def train(self, mode: bool = True) -> Still:
        return super().train(False)


def test_a_normalisation_that_is_frozen() -> None:
    """gt-pyg#112: evaluation mode does not survive the next epoch."""
    kinds = (Still, torch.nn.BatchNorm1d)
    layers = [torch.nn.Sequential(kind(4), torch.nn.Linear(4, 3)).eval() for kind in kinds]
    stack = models.ModuleStack(layers)
    TestStacks().train(stack, measure=lambda stack, epoch: None)
    still, moving = (one[0].running_mean for one in stack.copies)
    assert still.eq(0).all() and moving.ne(0).all()


class TestResuming:
    @pytest.mark.parametrize(
        "other",
        [
            lambda: models.StackedMLP([4, 5, 3], [0], activation="tanh"),
            lambda: models.StackedMLP([4, 5, 3], [0], linear_features=True),
            lambda: models.StackedMLP([4, 5, 3], [0], initialization="he"),
            lambda: models.StackedMLP([4, 5, 3], [1]),
        ],
    )
    def test_another_network(self, other: Callable[[], models.RunModel], tmp_path: Path) -> None:
        """torchforge#631: the file of one experiment is silently the result of the next."""

        def fit(stack: models.RunModel, epochs: int) -> None:
            TestStacks().train(stack, epochs=epochs, checkpoint=tmp_path / "state.pt")

        fit(models.StackedMLP([4, 5, 3], np.array([0])), 1)
        with pytest.raises(ValueError, match="was written with stack="):
            fit(other(), 2)
        fit(models.StackedMLP([4, 5, 3], [0]), 2)

    @pytest.mark.parametrize("kind", [models.ModuleStack, models.VmapStack])
    def test_another_layer(self, kind: type[models.RunModel], tmp_path: Path) -> None:
        for activation in (torch.nn.ReLU, torch.nn.ReLU, torch.nn.Tanh):
            stack = kind([torch.nn.Sequential(torch.nn.Linear(4, 3), activation())])
            if activation is torch.nn.Tanh:
                with pytest.raises(ValueError, match="was written with stack=.*'ReLU'"):
                    TestStacks().train(stack, checkpoint=tmp_path / "state.pt")
            else:
                TestStacks().train(stack, checkpoint=tmp_path / "state.pt")

    def test_after_another_version_of_pytorch(self, tmp_path: Path) -> None:
        """pytorch#42376: schedulers write their attributes, and these come and go."""
        path, stacks = tmp_path / "state.pt", [models.StackedMLP([4, 5, 3], [0]) for _ in range(2)]
        TestStacks().train(stacks[0], epochs=4)
        TestStacks().train(models.StackedMLP([4, 5, 3], [0]), epochs=2, checkpoint=path)
        state = torch.load(io.BytesIO(path.read_bytes()[:-32]))
        state["rates"] |= {"verbose": False}
        state["rates"].pop("_get_lr_called_within_step")
        save(path, state)
        TestStacks().train(stacks[1], epochs=4, checkpoint=path)
        assert torch.equal(*(predict(stack, TestStacks.x) for stack in stacks))

    def test_two_trainings_write_one_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """pytorch-lightning#688: each must leave a whole file."""
        pause, path = os.fsync, tmp_path / "state.pt"

        def meanwhile(descriptor: int) -> None:
            monkeypatch.setattr(os, "fsync", pause)
            TestStacks().train(models.StackedMLP([4, 5, 3], [0]), checkpoint=path)
            pause(descriptor)

        monkeypatch.setattr(os, "fsync", meanwhile)
        for _ in range(2):
            stack = models.StackedMLP([4, 5, 3], [0])
            assert len(TestStacks().train(stack, checkpoint=path)) == 3
        assert [file.name for file in tmp_path.iterdir()] == ["state.pt"]


ONE_NUMBER = {
    "beta": lambda one: losses.GDCrossEntropyLoss(beta=one),
    "temperature": lambda one: losses.GDCrossEntropyLoss(temperature=one),
    "margin": lambda one: losses.SoftMarginLoss(margin=one),
    "gamma": lambda one: losses.FocalLoss(gamma=one),
    "q": lambda one: losses.GeneralizedCrossEntropyLoss(q=one),
    "epsilon": lambda one: losses.Poly1CrossEntropyLoss(epsilon=one),
    "margin of the hinge": lambda one: losses.MultiClassHingeLoss(margin=one),
    "reg_lambda": lambda one: losses.LargeMarginLoss(reg_lambda=one, margin=one),
    "arcface": lambda one: losses.ArcFaceLoss(scale=one, margin=one),
    "cosface": lambda one: losses.CosFaceLoss(scale=one, margin=one),
    "sphereface": lambda one: losses.SphereFaceLoss(scale=one),
    "arcgrad": lambda one: losses.ArcGradLoss(scale=one),
    "likelihood": lambda one: losses.GaussianMixtureLoss(margin=one, likelihood_weight=one),
}


@pytest.mark.parametrize("make", ONE_NUMBER.values(), ids=ONE_NUMBER.keys())
def test_a_learnt_number_of_shape_1_is_a_scalar(make: Callable[[Tensor], losses.Loss]) -> None:
    """FSDP (fully_shard) refuses scalar parameters and asks for a tensor of one number."""
    z = torch.tensor([0.9, 0.1, 0.3])
    for given, label in ((z, torch.tensor(1)), (z[None], torch.tensor([1]))):
        found = []
        for shape in ((), (1,)):
            one = torch.nn.Parameter(torch.full(shape, 0.5))
            loss_fn = make(one)
            loss = loss_fn(given, label)
            loss.backward()
            found.append((loss.detach(), one.grad.reshape(()), loss_fn.logits(given).detach()))
        torch.testing.assert_close(*found)


def test_a_number_of_shape_1_in_other_functions() -> None:
    one, p = torch.tensor([0.5]), torch.tensor([0.7, 0.2, 0.1])
    for function in (calibration.beta_link, calibration.inverse_beta_link):
        assert torch.equal(function(p, one), function(p, 0.5))
    nll = torch.tensor(0.3)
    assert torch.equal(functional.gd_from_nll(nll, one), functional.gd_from_nll(nll, 0.5))
    cosine, label = p[None], torch.tensor([0])
    for scale in (one, 0.5):
        assert functional.adacos_scale(cosine, label, scale).shape == ()


class TestExport:
    """A length that is taken by len() becomes a constant of the exported graph."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["gd", "linear", "large margin"])
    def test_batches_of_any_size(self, name: str) -> None:
        loss_fn, weight = OF_INDICES[name], torch.eye(4)

        class Module(torch.nn.Module):
            def forward(self, z: Tensor, y: Tensor) -> Tensor:
                if name == "linear":
                    return linear_gd_cross_entropy(z, weight, y, 0.3)
                return loss_fn(z, y)

        z, y, size = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, 1]), torch.export.Dim("size")
        exported = torch.export.export(Module(), (z, y), dynamic_shapes=({0: size}, {0: size}))
        torch.testing.assert_close(exported.module()(z[:3], y[:3]), loss_fn(z[:3], y[:3]))

    @every_loss
    @pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated
    def test_traces(self, loss_fn: Callable[..., Tensor]) -> None:
        """pytorch#84628: torch.jit.trace knows no truth value in the place of a number."""
        z, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
        if loss_fn is not OF_INDICES["gd, learnt beta"]:  # a leaf made while tracing
            traced = torch.jit.trace(lambda z, y: loss_fn(z, y), (z, y))
            torch.testing.assert_close(traced(z[:3], y[:3]), loss_fn(z[:3], y[:3]))


class TestInferenceMode:
    """rl4co#272, unsloth#2434: what a validation loop makes is used in training."""

    def test_a_number_that_is_set_in_it(self) -> None:
        loss_fn = losses.GDCrossEntropyLoss(beta=torch.tensor(1.0))
        z = torch.randn(4, 3, requires_grad=True)
        with torch.inference_mode():
            loss_fn.beta = 0.5
            scaling = calibration.VectorScaling([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
        for loss in (loss_fn(z, torch.tensor([0, 1, 2, 0])), scaling.transform(z).sum()):
            assert gradient(loss, z).isfinite().all()

    @pytest.mark.parametrize("by_hand", [True, False])
    @pytest.mark.parametrize("kind", ["perceptrons", "vmap", "modules"])
    def test_a_training_in_it(self, kind: str, by_hand: bool) -> None:
        x, y = torch.randn(12, 4), torch.randint(0, 3, (12,))
        layers = [torch.nn.Linear(4, 3) for _ in range(2)]
        found = []
        for mode in (False, True):
            copies = copy.deepcopy(layers)  # PyTorch trains no module that was made in it
            with torch.inference_mode(mode):
                if kind == "perceptrons":
                    stack: models.RunModel = models.StackedMLP([4, 5, 3], seeds=[0, 1])
                else:
                    stack = {"vmap": models.VmapStack, "modules": models.ModuleStack}[kind](copies)
                loss = losses.GDCrossEntropyLoss(0.5)
                train(stack, loss, (x * 1, y * 1), epochs=2, lr=0.1, by_hand=by_hand)
                found.append(predict(stack, x))
        assert torch.equal(*found)


class TestReadAfresh:
    """Faults that a reader of the code found."""

    @pytest.mark.parametrize("logit", [100.0, NAN])
    def test_a_diverged_network_is_evaluated(self, logit: float) -> None:
        z, y = torch.zeros(30_000, 10), torch.zeros(30_000, dtype=torch.int64)
        z[:, 1] = logit
        with torch.no_grad():
            alone = gd_cross_entropy(z, y, 0.5)
        torch.testing.assert_close(alone, F.cross_entropy(z, y), equal_nan=True)
        learnt = z.requires_grad_()
        gd_cross_entropy(learnt, y, 0.5).backward()
        assert learnt.grad.isfinite().all() == (logit == 100.0)

    @every_mixed_loss
    def test_a_true_class_that_is_masked_by_the_least_number(
        self, loss_fn: Callable[..., Tensor]
    ) -> None:
        """kornia#918: NaN gradients of a focal loss where a probability is 0."""
        z = torch.tensor([[torch.finfo(torch.float32).min, 1.0, 0.0]], requires_grad=True)
        for label in range(3):
            assert gradient(loss_fn(z, torch.tensor([label])), z).isfinite().all()
        if loss_fn is MIXED["focal"]:
            found = gradient(loss_fn(z, torch.tensor([0])), z)
            torch.testing.assert_close(found, gradient(F.cross_entropy(z, torch.tensor([0])), z))

    def test_a_power_that_its_type_cannot_hold(self) -> None:
        z, labels = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
        expected = F.cross_entropy(z, labels)
        for tiny in (1e-20, 1e-40, 1e-50, 1e-300):
            for q in (tiny, torch.tensor(tiny, dtype=torch.float64)):
                found = functional.generalized_cross_entropy(z, labels, q=q)
                torch.testing.assert_close(found, expected)
                torch.testing.assert_close(
                    gradient(found, z), gradient(expected, z, retain_graph=True)
                )

    def test_nll_near_zero_keeps_its_digits(self) -> None:
        nll = torch.tensor([1e-9, 1e-6, 1e-4, 0.5])
        torch.testing.assert_close(functional.gd_from_nll(nll), nll, rtol=1e-6, atol=0)
        for beta in (0.7, 1.2):
            found = functional.gd_from_nll(nll, beta=torch.tensor(beta))
            exact = functional.gd_from_nll(nll.double(), beta)
            torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_beta_for_confidence_of_rounded_probabilities(self, dtype: torch.dtype) -> None:
        probs = torch.tensor([[0.9, 0.1]]).to(dtype)
        found = calibration.beta_for_confidence(probs, 0.95).beta
        assert found == pytest.approx(0.43, abs=0.02)

    def test_another_default_device(self) -> None:
        probs, labels = torch.tensor([[0.8, 0.2], [0.4, 0.6]]), torch.tensor([0, 0])
        logits = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
        with torch.device("meta"):
            found = calibration.expected_calibration_error(probs, labels)
            calibration.VectorScaling().fit(logits, logits.argmax(1) ^ (logits[:, 0] > 1).long())
            stack = models.StackedMLP([3, 4, 2], seeds=[0])
            order = batch_order(0, 1, 5)
        assert found == pytest.approx(0.4)
        assert order.tolist() == batch_order(0, 1, 5).tolist()
        assert all(one.device.type in ("cpu", "meta") for one in stack.parameters())

    def test_a_whole_number_is_as_fast_as_a_float(self) -> None:
        assert type(losses.GDCrossEntropyLoss(beta=2).beta) is float

    def test_an_option_that_a_loss_has_not(self) -> None:
        with pytest.raises(AttributeError, match="has no label_smoothing"):
            losses.MultiClassHingeLoss().label_smoothing = 0.5

    def test_centres_without_features(self) -> None:
        with pytest.raises(ValueError, match=r"centers must be \[C, D\]"):
            functional.center_loss(torch.zeros(5), torch.tensor(0), torch.zeros(5))

    def test_one_module_for_two_runs(self) -> None:
        with pytest.raises(ValueError, match="share a parameter"):
            models.ModuleStack([torch.nn.Linear(2, 2)] * 2)
        layer = torch.nn.BatchNorm1d(2, affine=False)
        copies = [torch.nn.Sequential(torch.nn.Linear(2, 2), layer) for _ in range(2)]
        with pytest.raises(ValueError, match="share .* the statistics of a normalisation"):
            models.ModuleStack(copies)


class TestLearntFactorsBesideMasks:
    """0 times infinity in the derivative of a number that multiplies a masked logit."""

    @pytest.mark.parametrize("name", ONE_NUMBER)
    @pytest.mark.parametrize(
        ("z", "target"),
        [
            ([0.1, 0.2, -INF], 0),
            ([0.1, -INF, -INF], 0),
            ([NAN, NAN, NAN], -100),
            ([INF, 0.1, -INF], -100),
            ([-INF, -INF, -INF], -100),
            ([0.1, 0.2, -INF], [0.3, 0.7, 0.0]),
        ],
    )
    def test_every_number(self, z: list[float], target: int | list[float], name: str) -> None:
        soft = isinstance(target, list)
        if soft and name in ("margin of the hinge", "reg_lambda", "likelihood"):
            pytest.skip("takes class indices only")
        rows = torch.tensor([z, [0.1, 0.3, 0.2]], dtype=torch.float64)
        labels = torch.tensor([target, [0.2, 0.3, 0.5] if soft else 1])
        labels = labels.double() if soft else labels
        if name == "likelihood":
            rows = rows.abs()  # distances
        number = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        found = gradient(ONE_NUMBER[name](number)(rows, labels), number)
        ends = [
            ONE_NUMBER[name](torch.tensor(0.5 + step, dtype=torch.float64))(rows, labels).item()
            for step in (1e-6, -1e-6)
        ]
        assert found.item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-8)

    def test_temperatures_and_scales(self) -> None:
        z, y = torch.tensor([[0.1, 0.2, -INF], [0.5, -0.3, 0.1]], dtype=torch.float64), [0, 2]
        labels = torch.tensor(y)
        for name in ("gd", "arcface", "cosface", "sphereface", "adacos", "arcgrad"):
            key = "temperature" if name == "gd" else "scale"
            loss_fn = functional.__dict__[f"{name}_cross_entropy"]
            number = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
            found = gradient(loss_fn(z, labels, **{key: number}), number)
            ends = [loss_fn(z, labels, **{key: 2.0 + step}).item() for step in (1e-5, -1e-5)]
            assert found.item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6), name


class TestDoubleBackward:
    """A backward pass that calls autograd must not run on into what its inputs were made of."""

    y = torch.tensor([0, 1, 2, 0])

    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize(
        "loss_fn",
        [
            lambda w, h, y, r: linear_gd_cross_entropy(
                h, w, y, 0.5, linear_bias=-0.5 * w.square().sum(1), reduction=r
            ),
            lambda w, h, y, r: linear_gd_cross_entropy(w[y] + h, w, y, 0.5, reduction=r),
            lambda w, h, y, r: gd_cross_entropy(h @ w.T + w.sum(), y, 0.5, reduction=r),
        ],
    )
    def test_parts_made_of_one_another(
        self, loss_fn: Callable[..., Tensor], reduction: str
    ) -> None:
        h = torch.randn(4, 5, dtype=torch.float64)
        w = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
        expected = gradient(loss_fn(w, h, self.y, reduction).sum(), w)
        found = gradient(loss_fn(w, h, self.y, reduction).sum(), w, create_graph=True)
        torch.testing.assert_close(found, expected)
        assert torch.autograd.gradcheck(
            lambda w: gradient(loss_fn(w, h, self.y, reduction).sum(), w, create_graph=True), w
        )
        loss = loss_fn(w, h, self.y, reduction)
        above = torch.eye(4, dtype=torch.float64) if loss.ndim else torch.ones(2).double()
        rows = gradient(loss, w, grad_outputs=above, is_grads_batched=True)
        torch.testing.assert_close(rows.sum(0), len(above) ** (not loss.ndim) * expected)

    def test_hooks_run_once(self) -> None:
        seen = []
        for loss_fn in (gd_cross_entropy, F.cross_entropy):
            z = torch.ones(4, 3, requires_grad=True)
            hidden = 3 * z
            hidden.register_hook(lambda above: 2 * above)
            seen.append(gradient(loss_fn(hidden, self.y), z, create_graph=True))
        torch.testing.assert_close(*seen)

    @pytest.mark.parametrize("reduction", ["mean", "none"])
    def test_a_tangent_of_the_incoming_gradient(self, reduction: str) -> None:
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and PyTorch uses it here
        z = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
        eye = torch.eye(3, dtype=torch.float64)
        for loss_fn in (
            lambda z: gd_cross_entropy(z, self.y, 0.5, reduction=reduction),
            lambda z: linear_gd_cross_entropy(z, eye, self.y, 0.5, reduction=reduction),
        ):
            loss = loss_fn(z)
            with forward_ad.dual_level():
                one = forward_ad.make_dual(torch.ones_like(loss), torch.full_like(loss, 3.0))
                found = forward_ad.unpack_dual(gradient(loss, z, grad_outputs=one))
                torch.testing.assert_close(found.tangent, 3 * found.primal)


@pytest.mark.parametrize("kept", ["softmax", ""])
def test_a_selective_checkpoint_that_keeps_results(kept: str) -> None:
    """What such a checkpoint keeps must not be changed in place."""

    def policy(_: object, operation: object, *args: object, **options: object) -> object:
        keeps = kept in str(operation)
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    y = torch.tensor([0, 1, 2, 0])
    for loss_fn in (
        lambda z: gd_cross_entropy(z, y, 0.3),
        lambda z: gd_cross_entropy(z.repeat(1, 8), y, 0.3),
        lambda z: gd_cross_entropy(z, y, 0.3, label_smoothing=0.1),
        lambda z: linear_gd_cross_entropy(z, torch.eye(3), y, 0.3),
    ):
        z = torch.randn(4, 3, requires_grad=True)
        found = gradient(checkpoint(loss_fn, z, use_reentrant=False, context_fn=contexts), z)
        torch.testing.assert_close(found, gradient(loss_fn(z), z))


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_moves_the_centres_once(reentrant: bool) -> None:
    h, y = torch.randn(4, 5, requires_grad=True), torch.tensor([0, 1, 2, 0])
    found = []
    for saving in (False, True):
        centers = heads.ClassCenters(5, 3)

        def loss_fn(h: Tensor, centers: heads.ClassCenters = centers) -> Tensor:
            centers.update(h, y)
            return functional.center_loss(h, y, centers.centers)

        loss = checkpoint(loss_fn, h, use_reentrant=reentrant) if saving else loss_fn(h)
        h.grad = None
        loss.backward()
        found.append((h.grad, centers.centers))
    torch.testing.assert_close(*found)


def test_a_bias_in_the_place_of_beta() -> None:
    """With as many samples as classes a bias would pass for a β of each sample."""
    h, w = torch.randn(3, 4), torch.randn(3, 4)
    with pytest.raises(TypeError, match="beta=...: the bias of the layer is linear_bias=..."):
        linear_gd_cross_entropy(h, w, torch.arange(3), torch.ones(3))


def test_a_small_weight_of_a_sample_far_behind() -> None:
    z = torch.tensor([[0.0, 69.0], [1.0, 0.0]], requires_grad=True)
    weight = torch.tensor([1e-9, 1.0])
    loss = gd_cross_entropy(z, torch.tensor([0, 1]), 0.3, weight=weight, reduction="sum")
    torch.testing.assert_close(
        gradient(loss, z)[0], torch.tensor([-1e-9, 1e-9]), rtol=1e-6, atol=0.0
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivatives_of_a_large_beta_from_the_cross_entropy(dtype: torch.dtype) -> None:
    """1 minus nearly 1 has no digits."""
    for beta in (0.3, 1.0, 5.0, 16.0, 17.0, 1e3, 1e6, 1e8, 1e30):
        for ell in (0.01, 0.9, 1.1, 1.5, 5.0, 20.0, 90.0):
            for given in (beta, torch.tensor(beta, dtype=dtype)):
                nll = torch.tensor(ell, dtype=dtype, requires_grad=True)
                first = gradient(functional.gd_from_nll(nll, given), nll, create_graph=True)
                second = gradient(first, nll)
                with mp.workdps(60):
                    power, b = mp.exp(mp.mpf(nll.item())), mp.mpf(float(given))
                    exact = power / (power - 1 + b)
                    curvature = power * (b - 1) / (power - 1 + b) ** 2
                tiny = torch.finfo(dtype).tiny
                allowed = 64 * torch.finfo(dtype).eps
                assert abs(first.item() - exact) <= allowed * exact + tiny, (beta, ell)
                assert abs(second.item() - curvature) <= 2 * allowed * exact + tiny, (beta, ell)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_linear_loss_where_it_stores_all_logits(dtype: torch.dtype) -> None:
    """A learnt or extreme β, a compiler: the logits are no more rounded than otherwise."""
    generator = torch.Generator().manual_seed(0)
    h, w = (3 * torch.randn(n, 256, generator=generator) for n in (64, 10))
    h, w, y = h.to(dtype), w.to(dtype), torch.arange(64) % 10
    learnt = torch.tensor(0.1, requires_grad=True)
    for beta in (0.1, learnt, 9e-7):
        exact = linear_gd_cross_entropy(h.double(), w.double(), y, beta=beta)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
            found = linear_gd_cross_entropy(h, w, y, beta=beta)
        assert found.dtype == dtype
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(found.double(), exact, rtol=4 * eps, atol=4 * eps)


class TestMasksInCalibration:
    """A fit must not depend on the number that masks a class."""

    @pytest.mark.parametrize("mask", [-1e4, -1e8, -1e9, -1e15, -1e30])
    @pytest.mark.parametrize("scale", [0.25, 4.0])
    def test_a_temperature(self, mask: float, scale: float) -> None:
        z = torch.randn(500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        y = torch.multinomial(z.softmax(1), 1, generator=torch.Generator().manual_seed(1))[:, 0]
        z = scale * z
        masked = torch.cat([z, torch.full((500, 1), mask, dtype=torch.float64)], 1)
        expected = calibration.TemperatureScaling().fit(z, y).temperature
        for logits in (masked, masked.float()):
            found = calibration.TemperatureScaling().fit(logits, y).temperature
            assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["gd", "arcface", "cosface", "sphereface", "arcgrad"])
def test_logits_of_a_learnt_scale_beside_a_mask(name: str) -> None:
    """What a loss predicts from has the derivative of the classes that are there."""
    number = torch.nn.Parameter(torch.tensor(2.0))
    make = {
        "gd": lambda: losses.GDCrossEntropyLoss(temperature=number),
        "arcface": lambda: losses.ArcFaceLoss(scale=number),
        "cosface": lambda: losses.CosFaceLoss(scale=number),
        "sphereface": lambda: losses.SphereFaceLoss(scale=number),
        "arcgrad": lambda: losses.ArcGradLoss(scale=number),
    }[name]
    masked, alone = (
        gradient(make().logits(torch.tensor([z])).softmax(1)[0, 0], number)
        for z in ([0.1, 0.2, -INF], [0.1, 0.2])
    )
    torch.testing.assert_close(masked, alone)


def test_a_loss_that_counts_its_calls_goes_on(tmp_path: Path) -> None:
    """Only what the loss of PyTorch is made with is compared."""

    class Counting(torch.nn.CrossEntropyLoss):
        calls = 0

        def forward(self, *arguments: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(*arguments)

    class OfRuns(torch.nn.Module):
        def __init__(self, weight: Tensor) -> None:
            super().__init__()
            self.loss = torch.nn.CrossEntropyLoss(weight=weight, reduction="none")

        def forward(self, z: Tensor, y: Tensor, beta: Tensor) -> Tensor:
            return self.loss(z.movedim(2, 1), y)

    def fit(loss: object, epochs: int, name: str) -> None:
        options = {"epochs": epochs, "lr": 0.1, "checkpoint": tmp_path / name}
        train(models.StackedMLP([4, 3], seeds=[0]), loss, (TestStacks.x, TestStacks.y), **options)

    counting = Counting()
    for epochs in (1, 2):
        fit(counting, epochs, "counting")
    fit(RunLoss(OfRuns(torch.ones(3))), 1, "runs")
    with pytest.raises(ValueError, match="was written with loss="):
        fit(RunLoss(OfRuns(torch.tensor([1.0, 1.0, 100.0]))), 2, "runs")


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_no_step_of_a_backward_pass_is_nan(
    loss_fn: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    """The anomaly mode of autograd raises at a NaN that a mask hides later."""
    z = 30 * torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    z[0], z[1, 3] = torch.tensor([200.0, 0.0, 0.0, 0.0]), torch.finfo(torch.bfloat16).min
    if loss_fn not in (OF_INDICES["gaussian mixture"], OF_INDICES["linear"]):
        z[2, 3] = -INF
    given = z.to(dtype).requires_grad_()
    with torch.autograd.detect_anomaly():
        found = gradient(loss_fn(given, torch.tensor([0, 1, 2, 0, -100])), given)
    assert found.isfinite().all() and not found[4].any()


class TestArguments:
    """What other libraries take, or what fits in the wrong way, is told what to do."""

    def test_a_margin_in_degrees(self) -> None:
        """ArcFaceLoss of pytorch-metric-learning has 28.6 degrees as its default."""
        cosine, labels = torch.tensor([[0.5, 0.1]]), torch.tensor([0])
        for call in (
            lambda m: functional.arcface_cross_entropy(cosine, labels, margin=m),
            lambda m: losses.ArcFaceLoss(margin=m),
        ):
            for margin in (28.6, torch.tensor([28.6])):
                with pytest.raises(ValueError, match=r"margin must be .*in \[0, pi\] radians"):
                    call(margin)
            call(math.pi)
            call(torch.tensor(math.pi))

    def test_a_tensor_where_a_whole_number_is_needed(self) -> None:
        weights = (
            r"must be a whole number; int\(\) makes one of a tensor: class weights, .* weight="
        )
        with pytest.raises(TypeError, match=weights):
            losses.LSoftmaxLoss(torch.tensor(2))
        number = r"must be a whole number >= \d; got a tensor; int\(\) makes one of it"
        z, label = torch.zeros(1, 2), torch.tensor([0])
        for call in (
            lambda two: losses.LSoftmaxLoss(margin=two),
            lambda two: losses.SphereFaceLoss(margin=two),
            lambda two: functional.l_softmax_cross_entropy(z, label, z + 1, two),
            losses.AdaCosLoss,
        ):
            with pytest.raises(ValueError, match=number):
                call(torch.tensor(2))
            call(int(torch.tensor(2)))

    def test_a_beta_for_each_class(self) -> None:
        z, labels, betas = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0]), torch.tensor([0.1, 1, 5])
        with pytest.raises(ValueError, match=r"beta for each class, give beta\[target\], with"):
            gd_cross_entropy(z, labels, beta=betas)
        gd_cross_entropy(z, labels, beta=betas[labels])

    def test_a_ragged_batch(self) -> None:
        """pytorch#132212: PyTorch's own losses take no nested tensors either."""
        rows = [torch.zeros(2, 3), torch.ones(1, 3)]
        ragged = torch.nested.nested_tensor(rows, layout=torch.jagged)
        with pytest.raises(ValueError, match=r"torch.jagged; take its rows with .values\(\)"):
            gd_cross_entropy(ragged, torch.tensor([0, 1]))
        gd_cross_entropy(ragged.values(), torch.tensor([0, 1, 2]))
