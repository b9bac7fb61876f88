"""Last layers for margin losses.

What each computes, and that networks which differ in nothing else start alike.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gdlib.models import ModuleStack, StackedMLP
from study.networks import (
    HEADS,
    Head,
    HeadedMLP,
    class_vectors,
    image_stack,
    super_symmetric_projection,
    super_symmetry_penalty,
    with_heads,
)


def layer(classes: int = 4, features: int = 6) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(features, classes)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


FEATURES = draw(5, 6)


class TestHead:
    @pytest.mark.parametrize("kind", HEADS)
    def test_starts_with_the_weights_of_the_layer(self, kind):
        plain, state = layer(), torch.get_rng_state()
        head = Head(plain, kind)
        start = head.layer.means if kind == "gaussian" else head.layer.weight
        assert torch.equal(start, plain.weight) and start is not plain.weight
        assert torch.equal(torch.get_rng_state(), state)

    def test_linear(self):
        plain = layer()
        torch.testing.assert_close(Head(plain, "linear")(FEATURES), plain(FEATURES))
        torch.testing.assert_close(
            Head(plain, "linear", bias=False)(FEATURES), FEATURES @ plain.weight.T
        )

    def test_cosine(self):
        found = Head(layer(), "cosine")(FEATURES)
        expected = F.normalize(FEATURES, dim=1) @ F.normalize(layer().weight, dim=1).T
        torch.testing.assert_close(found, expected)
        assert (found.abs() <= 1 + 1e-6).all() and not any(
            "bias" in name for name, _ in Head(layer(), "cosine").named_parameters()
        )

    def test_normed(self):
        logits, norms = Head(layer(), "normed")(FEATURES).split(4, dim=1)
        torch.testing.assert_close(logits, FEATURES @ layer().weight.T)
        torch.testing.assert_close(
            norms, FEATURES.norm(dim=1, keepdim=True) * layer().weight.norm(dim=1)
        )

    def test_gaussian(self):
        found = Head(layer(), "gaussian")(FEATURES)
        torch.testing.assert_close(
            found, -0.5 * torch.cdist(FEATURES, layer().weight) ** 2, rtol=1e-4, atol=1e-5
        )

    def test_super_symmetric_vectors_are_held_to_the_simplex(self):
        head = Head(layer(), "super-symmetric")
        found = head(FEATURES)
        projected = super_symmetric_projection(layer().weight.detach())
        torch.testing.assert_close(head.vectors, projected)
        torch.testing.assert_close(found, FEATURES @ projected.T + layer().bias)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.5)
        F.cross_entropy(found, torch.tensor([0, 1, 2, 3, 0])).backward()
        optimizer.step()
        left = head.layer.weight.detach().clone()
        back = super_symmetric_projection(left)
        assert not torch.allclose(left, back, atol=1e-4)  # the step left it
        torch.testing.assert_close(head.vectors, back)
        head(FEATURES)
        torch.testing.assert_close(head.layer.weight, back)

    def test_evaluation_moves_no_super_symmetric_vectors(self):
        head = Head(layer(), "super-symmetric").eval()
        found = head(FEATURES)
        assert torch.equal(head.layer.weight, layer().weight)
        torch.testing.assert_close(found, FEATURES @ head.vectors.T + layer().bias)

    def test_two_forward_passes_before_one_backward_pass(self):
        head = Head(layer(), "super-symmetric")
        (head(FEATURES).square().sum() + head(FEATURES).square().sum()).backward()
        twice = head.layer.weight.grad.clone()
        head.zero_grad()
        (2 * head(FEATURES).square().sum()).backward()
        torch.testing.assert_close(twice, head.layer.weight.grad)

    @pytest.mark.parametrize("kind", HEADS)
    def test_features_stand_behind_the_outputs(self, kind):
        alone, both = (
            Head(layer(), kind)(FEATURES),
            Head(layer(), kind, with_features=True)(FEATURES),
        )
        assert torch.equal(both, torch.cat([alone, FEATURES], 1))

    def test_an_unknown_kind(self):
        with pytest.raises(
            ValueError,
            match="unknown head 'sine'; valid: linear, super-symmetric, cosine, normed, gaussian",
        ):
            Head(layer(), "sine")


class TestWithHeads:
    @pytest.mark.parametrize("kind", HEADS)
    def test_image_networks_start_alike(self, kind):
        form = {"classes": 10, "width": 0.125, "stem": "tiny-imagenet"}
        plain = image_stack("resnet18", [0, 1], **form)
        headed = with_heads(image_stack("resnet18", [0, 1], **form), kind)
        vectors = class_vectors(plain)
        assert vectors.shape[:2] == (2, 10)
        if kind == "super-symmetric":
            vectors = torch.stack([super_symmetric_projection(one) for one in vectors.detach()])
        assert torch.equal(class_vectors(headed), vectors)
        same = dict(plain.named_parameters())
        others = [
            (name, parameter)
            for name, parameter in headed.named_parameters()
            if "classifier" not in name
        ]
        assert others and all(torch.equal(parameter, same[name]) for name, parameter in others)

    @pytest.mark.parametrize("kind", HEADS)
    def test_have_the_type_of_the_network(self, kind):
        networks = image_stack("resnet18", [0], classes=5, width=0.125, stem="tiny-imagenet")
        headed = with_heads(networks.double(), kind)
        assert {one.dtype for one in headed.parameters()} == {torch.float64}
        assert headed(draw(1, 2, 3, 32, 32).double()).dtype == torch.float64

    def test_a_linear_head_changes_nothing(self):
        plain = image_stack("resnet18", [3], classes=5, width=0.125, stem="tiny-imagenet")
        images = draw(1, 2, 3, 32, 32)
        expected = plain(images)
        assert torch.equal(with_heads(plain, "linear")(images), expected)
        for wrong in (plain, ModuleStack([layer()]), StackedMLP([4, 3], seeds=[0])):
            with pytest.raises(TypeError, match="takes a stack of image networks"):
                with_heads(wrong, "linear")


class TestClassVectors:
    def test_perceptrons_have_them_as_rows(self):
        plain, headed = (
            StackedMLP([4, 8, 3], seeds=[0, 1]),
            HeadedMLP([4, 8, 3], seeds=[0, 1], head="cosine"),
        )
        assert class_vectors(plain).shape == (2, 3, 8)
        assert torch.equal(class_vectors(plain), class_vectors(headed))
        features = headed.features(draw(1, 5, 4))
        expected = F.normalize(features, dim=2) @ F.normalize(class_vectors(headed), dim=2).mT
        torch.testing.assert_close(headed(draw(1, 5, 4)), expected)

    def test_another_model(self):
        with pytest.raises(TypeError, match="Linear has no last layer that is known here"):
            class_vectors(nn.Linear(2, 2))


class TestBiasOfPerceptrons:
    def test_logits_can_have_one_and_cosines_cannot(self):
        plain, headed = (
            StackedMLP([4, 8, 3], seeds=[0, 1]),
            HeadedMLP([4, 8, 3], seeds=[0, 1], bias=True),
        )
        torch.testing.assert_close(headed(draw(1, 5, 4)), plain(draw(1, 5, 4)))
        cosine = HeadedMLP([4, 8, 3], seeds=[0, 1], head="cosine", bias=True)
        assert len(cosine.layers.biases) == 1


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
