"""The module keeps hyperparameters and gives what the function gives."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

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
            lambda: GDCrossEntropyLoss(0.3, weight=torch.ones(4)), lambda: losses.AdaCosLoss(4, runs=2), losses.ArcFaceLoss,
            lambda: losses.ArcGradLoss(gap=0.5), losses.CenterLoss, losses.CosFaceLoss, losses.FocalLoss, losses.GaussianMixtureLoss,
            losses.LSoftmaxLoss, losses.LargeMarginLoss, losses.ModifiedCrossEntropyLoss, losses.MultiClassHingeLoss,
            lambda: losses.SoftMarginLoss(0.5), losses.SphereFaceLoss,
        ):  # fmt: skip
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

    def test_bad_beta_is_refused_when_called(self):
        with pytest.raises(ValueError, match="beta must be a finite number > 0"):
            GDCrossEntropyLoss(beta=0.0)(*batch())

    def test_repr_names_what_shapes_the_loss(self):
        assert (
            repr(GDCrossEntropyLoss(beta=0.1))
            == "GDCrossEntropyLoss(beta=0.1, temperature=1.0, reduction='mean')"
        )
