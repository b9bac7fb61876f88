"""The heads: what they compute, and their stacked forms.

A run in a stack starts and answers as the same run alone.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from gdlib.functional import gaussian_mixture_cross_entropy, l_softmax_cross_entropy
from gdlib.functional.distance import center_update
from gdlib.heads import ClassCenters, CosineLinear, GaussianMixtureHead, NormedLinear, cosines
from gdlib.models import StackedMLP


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


class TestCosines:
    def test_against_cosine_similarity(self):
        head, features = CosineLinear(4, 3), draw(6, 4)
        expected = F.cosine_similarity(features[:, None], head.weight[None], dim=2)
        torch.testing.assert_close(head(features), expected)

    def test_lengths_do_not_matter(self):
        features, weight = draw(6, 4), draw(4, 3)
        torch.testing.assert_close(cosines(7 * features, weight / 9), cosines(features, weight))

    def test_features_of_length_zero_have_a_tame_gradient(self):
        features = torch.zeros(2, 4, requires_grad=True)
        found = cosines(features, draw(4, 3))
        found.sum().backward()
        assert (found == 0).all() and features.grad.abs().max() < 10

    def test_derivatives(self):
        for shapes in [((5, 4), (4, 3)), ((2, 5, 4), (2, 4, 3))]:
            inputs = [draw(*shape).double().requires_grad_() for shape in shapes]
            assert torch.autograd.gradcheck(cosines, inputs) and torch.autograd.gradgradcheck(
                cosines, inputs
            )


class TestPrecision:
    def test_nothing_is_rounded_to_bfloat16_under_autocast(self):
        for layer in (
            CosineLinear(4, 3),
            NormedLinear(4, 3),
            StackedMLP([4, 3], [0], bias=False),
            StackedMLP([4, 3], [0]),
        ):
            features = draw(1, 6, 4)
            with torch.autocast("cpu", torch.bfloat16):
                found = layer(features)
            torch.testing.assert_close(found, layer(features))

    def test_long_features_in_float16(self):
        head = CosineLinear(4096, 3)
        features = 2000 * torch.sign(draw(2, 4096))
        torch.testing.assert_close(
            head.half()(features.half()).float(), head.float()(features), rtol=0, atol=1e-3
        )


class TestInitialVectors:
    def test_layouts(self):
        assert CosineLinear(4, 5).weight.shape == GaussianMixtureHead(4, 5).means.shape == (5, 4)
        assert CosineLinear(4, 5).weight.abs().max() <= 0.5
        assert repr(CosineLinear(4, 5)) == "CosineLinear(weight=[5, 4])"
        assert repr(ClassCenters(4, 5)) == "ClassCenters(centers=[5, 4])"


class TestNormedLinear:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_results_have_the_type_of_the_features(self, dtype):
        head, features = NormedLinear(4, 3), draw(6, 4).to(dtype)
        expected = head(features.float())
        for found, exact in zip(head(features), expected, strict=True):
            assert found.dtype == dtype
            torch.testing.assert_close(found.float(), exact, rtol=1e-2, atol=1e-2)
        with pytest.raises(ValueError, match=r"features must be a floating tensor .* torch.int64"):
            head(torch.ones(6, 4, dtype=torch.int64))

    def test_logits_and_norms(self):
        head, features = NormedLinear(4, 3), draw(6, 4)
        logits, norms = head(features)
        torch.testing.assert_close(logits, F.linear(features, head.weight))
        torch.testing.assert_close(
            norms, torch.outer(features.norm(dim=1), head.weight.norm(dim=1))
        )
        l_softmax_cross_entropy(
            logits, torch.tensor([0, 1, 2, 0, 1, 2]), norms, margin=2
        ).backward()
        assert torch.isfinite(head.weight.grad).all()


class TestClassCenters:
    def test_update_in_training_only(self):
        head, features, target = (
            ClassCenters(2, 3, rate=0.5),
            draw(6, 2),
            torch.tensor([0, 1, 2, 0, 1, 2]),
        )
        head.eval().update(features, target)
        assert (head.centers == 0).all()
        head.train().update(features, target)
        assert torch.equal(head.centers, center_update(features, target, torch.zeros(3, 2), 0.5))
        assert set(head.state_dict()) == {"centers"} and not list(head.parameters())

    def test_learnt_centres_are_left_to_the_optimiser(self):
        head = ClassCenters(2, 3, rate=None, runs=4)
        head.update(draw(4, 6, 2), torch.zeros(4, 6, dtype=torch.long))
        assert (
            (head.centers == 0).all()
            and head.centers.shape == (4, 3, 2)
            and len(list(head.parameters())) == 1
        )


class TestGaussianMixtureHead:
    @pytest.mark.parametrize("diagonal", [True, False])
    def test_results_have_the_wider_type(self, diagonal):
        head = GaussianMixtureHead(3, 2, diagonal=diagonal)
        for features, means, wider in (
            (torch.float16, torch.float32, torch.float32),
            (torch.float64, torch.float32, torch.float64),
            (torch.bfloat16, torch.bfloat16, torch.bfloat16),
        ):
            distance, _ = head.to(means)(torch.ones(4, 3, dtype=features))
            assert distance.dtype == wider

    def test_against_the_multivariate_normal(self):
        head, features = GaussianMixtureHead(3, 2, diagonal=True), draw(5, 3)
        torch.nn.init.uniform_(head.log_deviation, -0.5, 0.5)
        distance, half_log_determinant = head(features)
        for c in range(2):
            normal = torch.distributions.MultivariateNormal(
                head.means[c], torch.diag(torch.exp(2 * head.log_deviation[c]))
            )
            constant = 1.5 * torch.log(torch.tensor(2 * torch.pi))
            torch.testing.assert_close(
                -distance[:, c] - half_log_determinant[0, c] - constant, normal.log_prob(features)
            )

    def test_trains(self):
        head, features, target = (
            GaussianMixtureHead(2, 2),
            draw(40, 2),
            (draw(40, 2)[:, 0] > 0).long(),
        )
        optimizer = torch.optim.SGD(head.parameters(), lr=0.5)
        for _ in range(50):
            distance, delta = head(features)
            loss = gaussian_mixture_cross_entropy(
                distance, target, 0.1, 0.01, half_log_determinant=delta
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert (head(features)[0].argmin(1) == target).float().mean() > 0.9
