"""Perceptrons with the last layers that losses need, and super-symmetric class vectors."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gdlib.models import StackedMLP
from study.networks import HeadedMLP, super_symmetric_projection, super_symmetry_penalty


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


class TestPerceptrons:
    def test_cosines_of_the_features_and_the_class_vectors_and_the_features_behind_them(self):
        plain, headed = (
            StackedMLP([4, 8, 3], seeds=[0, 1]),
            HeadedMLP([4, 8, 3], seeds=[0, 1], head="cosine", with_features=True),
        )
        assert torch.equal(plain.weights[-1], headed.layers.weights[-1])  # they start alike
        features = headed.features(draw(1, 5, 4))
        expected = F.normalize(features, dim=2) @ F.normalize(plain.weights[-1], dim=1)
        output = headed(draw(1, 5, 4))
        torch.testing.assert_close(output[..., :3], expected)
        assert torch.equal(output[..., 3:], features)

    def test_unknown(self):
        with pytest.raises(ValueError, match="head 'round' for perceptrons; valid: linear, cosine"):
            HeadedMLP([4, 3], [0], head="round")


class TestSuperSymmetry:
    def test_projection(self):
        for classes, features in [(2, 1), (3, 2), (5, 9), (10, 20)]:
            weight = torch.randn(
                4,
                classes,
                features,
                generator=torch.Generator().manual_seed(0),
                dtype=torch.float64,
            )
            projected = super_symmetric_projection(weight)
            assert (super_symmetry_penalty(weight) > 1e-6).all()
            torch.testing.assert_close(
                super_symmetry_penalty(projected),
                torch.zeros(4, dtype=torch.float64),
                rtol=0,
                atol=1e-20,
            )
            torch.testing.assert_close(projected.square().sum((1, 2)), weight.square().sum((1, 2)))
            torch.testing.assert_close(super_symmetric_projection(projected), projected)

    def test_penalty_by_hand_and_its_gradient(self):
        # gram of eye(2) less (1, -1; -1, 1): squares 0, 1, 1, 0
        assert super_symmetry_penalty(torch.eye(2)).item() == 0.5
        weight = torch.randn(
            3,
            4,
            generator=torch.Generator().manual_seed(0),
            dtype=torch.float64,
            requires_grad=True,
        )
        assert torch.autograd.gradcheck(super_symmetry_penalty, (weight,))

    def test_refusals(self):
        with pytest.raises(ValueError, match="at least 3 features"):
            super_symmetric_projection(torch.zeros(4, 2))
        with pytest.raises(ValueError, match="two class vectors"):
            super_symmetry_penalty(torch.zeros(1, 2))
        with pytest.raises(ValueError, match="must be finite"):
            super_symmetric_projection(torch.full((3, 4), torch.nan))
