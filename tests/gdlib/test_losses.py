"""The module keeps hyperparameters and gives what the function gives."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

from gdlib import GDCrossEntropyLoss, losses
from gdlib.functional import gd_cross_entropy


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(6, 4, generator=generator), torch.randint(0, 4, (6,), generator=generator)


class TestModule:
    def test_equals_the_function(self):
        for options in [
            {},
            {"beta": 0.1},
            {"beta": 5.0, "temperature": 2.0},
            {"beta": 0.1, "weight": torch.tensor([1.0, 2.0, 0.0, 0.5])},
            {"beta": 0.1, "ignore_index": 2, "reduction": "sum"},
            {"beta": 0.1, "label_smoothing": 0.1, "reduction": "none"},
        ]:
            logits, target = batch()
            torch.testing.assert_close(
                GDCrossEntropyLoss(**options)(logits, target),
                gd_cross_entropy(logits, target, **options),
                rtol=0,
                atol=0,
            )

    def test_stands_in_for_cross_entropy(self):
        logits, target = batch()
        weight = torch.tensor([1.0, 2.0, 0.3, 0.5])
        ours = GDCrossEntropyLoss(
            weight=weight, ignore_index=1, reduction="sum", label_smoothing=0.2
        )
        theirs = nn.CrossEntropyLoss(
            weight=weight, ignore_index=1, reduction="sum", label_smoothing=0.2
        )
        torch.testing.assert_close(ours(logits, target), theirs(logits, target))

    def test_beta_may_be_set_between_steps(self):
        logits, target = batch()
        loss_fn = GDCrossEntropyLoss(beta=0.1)
        loss_fn(logits, target)
        loss_fn.beta = 5.0
        assert loss_fn(logits, target) == gd_cross_entropy(logits, target, 5.0)

    def test_a_parameter_is_learnt(self):
        logits, target = batch()
        loss_fn = GDCrossEntropyLoss(beta=nn.Parameter(torch.tensor(0.5)))
        assert [name for name, _ in loss_fn.named_parameters()] == ["beta"]
        loss_fn(logits, target).backward()
        assert loss_fn.beta.grad > 0  # the loss increases in β

    def test_weight_moves_and_is_kept_with_the_module(self):
        loss_fn = GDCrossEntropyLoss(weight=torch.ones(4))
        assert loss_fn.double().weight.dtype == torch.float64
        assert set(loss_fn.state_dict()) == {"weight"}

    def test_copies_are_their_own_and_keep_everything(self):
        for make in (
            lambda: GDCrossEntropyLoss(0.3, weight=torch.ones(4)),
            lambda: losses.AdaCosLoss(4, runs=2),
            losses.ArcFaceLoss,
            lambda: losses.ArcGradLoss(2.0),
            losses.CenterLoss,
            losses.CosFaceLoss,
            losses.FocalLoss,
            losses.GaussianMixtureLoss,
            losses.GeneralizedCrossEntropyLoss,
            losses.NegativeProbabilityLoss,
            losses.Poly1CrossEntropyLoss,
            losses.LSoftmaxLoss,
            losses.LargeMarginLoss,
            losses.MultiClassHingeLoss,
            lambda: losses.SoftMarginLoss(0.5),
            losses.SphereFaceLoss,
        ):
            loss_fn = make()
            for again in (copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn))):
                assert repr(again) == repr(loss_fn)
                again.load_state_dict(loss_fn.state_dict())
                again.half().to("meta")
        first = GDCrossEntropyLoss(0.3)
        second = copy.deepcopy(first)
        second.beta = 0.7
        assert first(*batch()) == gd_cross_entropy(*batch(), 0.3) and second(
            *batch()
        ) == gd_cross_entropy(*batch(), 0.7)

    def test_an_annealing_that_is_set_later_counts_from_then(self):
        loss_fn = losses.SphereFaceLoss(margin=2)
        loss_fn.annealing = lambda step: 5.0 - step
        cosine = torch.tensor([[0.5, -1.0]])
        for annealing in (5.0, 4.0):
            assert loss_fn(cosine, torch.tensor([0])) == losses.SphereFaceLoss(
                margin=2, annealing=annealing
            )(cosine, torch.tensor([0]))

    def test_no_state_without_weight(self):
        assert GDCrossEntropyLoss().state_dict() == {}

    def test_made_on_the_meta_device_and_filled_later(self):
        with torch.device("meta"):
            first = GDCrossEntropyLoss(0.3)
        for loss_fn in (first, GDCrossEntropyLoss(np.float32(0.3)).to("meta")):
            loss_fn.to_empty(device="cpu")
            torch.testing.assert_close(loss_fn(*batch()), gd_cross_entropy(*batch(), 0.3))

    def test_bad_beta_is_refused_when_the_module_is_made(self):
        with pytest.raises(ValueError, match="beta must be a finite number > 0"):
            GDCrossEntropyLoss(beta=0.0)

    def test_repr_names_what_shapes_the_loss(self):
        assert (
            repr(GDCrossEntropyLoss(beta=0.1))
            == "GDCrossEntropyLoss(beta=0.1, temperature=1.0, reduction='mean')"
        )


class TestChecksWhenAnAttributeIsSet:
    def test_a_bad_value_is_refused_and_the_good_one_stays(self):
        loss_fn = losses.LargeMarginLoss(0.5, margin=1.0)
        for name, value in (
            ("reg_lambda", -1.0),
            ("reg_lambda", "a"),
            ("divergence", "p_u"),
            ("margin", math.nan),
            ("reduction", "avg"),
            ("label_smoothing", 2),
            ("label_smoothing", torch.tensor(0.1)),
            ("ignore_index", 0.5),
            ("ignore_index", torch.tensor([1, 2])),
            ("weight", [1.0, 2.0]),
            ("weight", torch.ones(2, 2)),
        ):
            before = getattr(loss_fn, name)
            with pytest.raises(ValueError, match=name):
                setattr(loss_fn, name, value)
            assert getattr(loss_fn, name) is before
        with pytest.raises(TypeError, match="dynamic must be True or False"):
            losses.AdaCosLoss(3).dynamic = 1
        with pytest.raises(ValueError, match="margin must be a whole number >= 1"):
            losses.SphereFaceLoss().margin = 2.5
        with pytest.raises(ValueError, match="annealing"):
            losses.LSoftmaxLoss().annealing = -1.0
        with pytest.raises(ValueError, match="minimum_scale"):
            losses.AdaCosLoss(3).minimum_scale = "small"

    def test_a_parametrised_beta_can_be_set(self):
        class Exponential(nn.Module):
            def forward(self, logarithm):
                return logarithm.exp()

            def right_inverse(self, value):
                return value.log()

        loss = GDCrossEntropyLoss(beta=nn.Parameter(torch.tensor(0.5)))
        register_parametrization(loss, "beta", Exponential())
        loss.beta = torch.tensor(0.25)
        torch.testing.assert_close(loss.beta, torch.tensor(0.25))
        with pytest.raises(ValueError, match="beta must be"):
            loss.beta = torch.tensor(-0.25)

    def test_the_center_loss_has_no_logits(self):
        with pytest.raises(TypeError, match="no logits"):
            losses.CenterLoss().logits(torch.zeros(2, 3))

    def test_what_comes_with_a_batch_may_go_by_name(self):
        values, target = batch()
        norms, delta = values.abs() + 1, torch.zeros(1, 4)
        one, other = losses.LSoftmaxLoss(2), losses.GaussianMixtureLoss(0.1)
        assert one(values, target, norms=norms) == one(values, target, norms)
        assert other(values.square(), target, half_log_determinant=delta) == other(
            values.square(), target, delta
        )
        assert losses.CenterLoss()(values, target, centers=values[:4]) == losses.CenterLoss()(
            values, target, values[:4]
        )
        assert losses.SphereFaceLoss(margin=2)(
            values.tanh(), target, scale=values.norm(dim=1)
        ) == losses.SphereFaceLoss(margin=2)(values.tanh(), target, values.norm(dim=1))


class TestTensorsAreBuffers:
    def test_in_the_state_and_moved(self):
        loss_fn = GDCrossEntropyLoss(beta=torch.tensor(0.3), temperature=torch.full((6,), 2.0))
        assert set(loss_fn.state_dict()) == {"beta", "temperature"}
        assert loss_fn.double().beta.dtype == torch.float64
        assert loss_fn.to("meta").temperature.device.type == "meta"
        other = GDCrossEntropyLoss(beta=torch.tensor(1.0))
        other.load_state_dict({"beta": torch.tensor(0.3)})
        assert other(*batch()) == GDCrossEntropyLoss(beta=torch.tensor(0.3))(*batch())

    def test_a_number_in_the_place_of_a_tensor_is_kept_as_one(self):
        loss_fn = GDCrossEntropyLoss(beta=torch.tensor(0.3, dtype=torch.float64))
        loss_fn.beta = 0.7
        assert loss_fn.beta.dtype == torch.float64 and set(loss_fn.state_dict()) == {"beta"}
        assert loss_fn(*batch()) == GDCrossEntropyLoss(beta=torch.tensor(0.7))(*batch())

    def test_a_tensor_in_the_place_of_a_number_becomes_a_buffer(self):
        loss_fn = GDCrossEntropyLoss(0.3)
        assert loss_fn.state_dict() == {}
        loss_fn.beta = torch.tensor(0.7)
        assert set(loss_fn.state_dict()) == {"beta"}

    def test_what_is_learnt_is_not_replaced(self):
        loss_fn = GDCrossEntropyLoss(beta=nn.Parameter(torch.tensor(0.5)))
        with pytest.raises(TypeError, match="beta is learnt; set it by beta.data.fill_"):
            loss_fn.beta = 0.7
        loss_fn.beta.data.fill_(0.7)
        assert loss_fn(*batch()) == GDCrossEntropyLoss(beta=torch.tensor(0.7))(*batch())
        loss_fn.beta = nn.Parameter(torch.tensor(0.2))
        buffered = GDCrossEntropyLoss(beta=torch.tensor(0.5))
        buffered.beta = nn.Parameter(torch.tensor(0.2))
        for module in (loss_fn, buffered):
            assert [name for name, _ in module.named_parameters()] == ["beta"]
            assert not list(module.buffers())

    def test_a_number_is_kept_by_a_copy_and_a_pickle(self):
        loss_fn = GDCrossEntropyLoss(0.3)
        loss_fn.beta = 0.9
        assert pickle.loads(pickle.dumps(loss_fn)).beta == copy.deepcopy(loss_fn).beta == 0.9
