"""Distances and angles within and between classes.

Tested by hand, the slow way, and under the motions that must not matter.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from study.measures import angles_between, class_centres, distances, pairs


def random_classes(seed: int, n: int = 40, d: int = 3, k: int = 4) -> tuple[Tensor, Tensor]:
    """Features around separate centres, each class with a sample."""
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), generator.integers(k, size=n - k)])
    return torch.from_numpy(
        generator.normal(size=(k, d))[labels] * 3 + generator.normal(size=(n, d))
    ), torch.from_numpy(labels)


def measured(features: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Centres, distances, the quotient of their means, and the mean angle between two centres."""
    centres = class_centres(features, labels)
    intra, inter = distances(features, labels, centres)
    angle = pairs(angles_between(centres, centres)).mean(-1)
    return {
        "centres": centres,
        "intra": intra,
        "inter": inter,
        "ratio": intra.mean(-1) / inter.mean(-1),
        "angle": angle,
    }


class TestDistances:
    def test_by_hand(self) -> None:
        """Three classes: pairs about (±4, 0), and one sample at (0, 3)."""
        x = torch.tensor(
            [[4.0, 1.0], [4.0, -1.0], [-4.0, 2.0], [-4.0, -2.0], [0.0, 3.0]], requires_grad=True
        )
        found = measured(x, torch.tensor([0, 0, 1, 1, 2]))
        assert found["centres"].tolist() == [[4.0, 0.0], [-4.0, 0.0], [0.0, 3.0]]
        assert found["intra"].tolist() == [1.0, 2.0, 0.0]
        assert found["inter"].tolist() == [8.0, 5.0, 8.0, 5.0, 5.0, 5.0]
        assert found["ratio"] == pytest.approx(1 / 6)
        assert math.degrees(found["angle"]) == pytest.approx(120)

    def test_against_the_slow_way(self) -> None:
        x, y = random_classes(0)
        found = measured(x, y)
        members = [[v for v, c in zip(x.numpy(), y, strict=True) if c == k] for k in range(4)]
        centres = np.array([sum(own) / len(own) for own in members])
        np.testing.assert_allclose(found["centres"], centres)
        np.testing.assert_allclose(
            found["intra"],
            [np.mean([math.dist(v, centres[k]) for v in members[k]]) for k in range(4)],
        )
        np.testing.assert_allclose(
            found["inter"], [math.dist(a, b) for a, b in itertools.permutations(centres, 2)]
        )
        angles = [
            math.acos(a @ b / math.hypot(*a) / math.hypot(*b))
            for a, b in itertools.permutations(centres, 2)
        ]
        assert found["angle"].item() == pytest.approx(np.mean(angles))

    def test_runs_in_a_stack_equal_runs_alone(self) -> None:
        runs, y = torch.stack([random_classes(seed)[0] for seed in range(3)]), random_classes(0)[1]
        stacked = measured(runs, y)
        assert stacked["ratio"].shape == (3,)
        for r, x in enumerate(runs):
            for name, alone in measured(x, y).items():
                np.testing.assert_allclose(
                    stacked[name][r], alone, rtol=1e-12, atol=1e-12, err_msg=name
                )

    @given(st.integers(0, 10**6), st.floats(0.01, 100))
    def test_scale_rotation_and_translation(self, seed: int, scale: float) -> None:
        x, y = random_classes(seed)
        rotation = torch.from_numpy(
            np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
        )
        plain, moved, shifted = (
            measured(x, y),
            measured(scale * x @ rotation, y),
            measured(x + 10.0, y),
        )
        torch.testing.assert_close(moved["ratio"], plain["ratio"])
        torch.testing.assert_close(shifted["ratio"], plain["ratio"])
        torch.testing.assert_close(moved["angle"], plain["angle"])
        torch.testing.assert_close(moved["intra"], scale * plain["intra"])

    def test_a_centre_at_the_origin_has_no_direction(self) -> None:
        found = measured(
            torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 5.0]]), torch.tensor([0, 0, 1])
        )
        assert found["angle"].isnan()
        assert found["ratio"].item() == pytest.approx(0.5 / 5)

    def test_labels_that_do_not_fit(self) -> None:
        for labels, classes, message in [
            ([0], 0, r"shape \[2\]"),
            ([0, 2], 0, "with a sample"),
            ([0, 1], 3, "with a sample"),
        ]:
            with pytest.raises(ValueError, match=message):
                class_centres(torch.tensor([[1.0], [2.0]]), torch.tensor(labels), classes)


def test_angles_are_accurate_everywhere() -> None:
    for angle in (0.0, 1e-9, 0.3, math.pi / 2, math.pi - 1e-9, math.pi):
        end = torch.tensor([[math.cos(angle), math.sin(angle)]], dtype=torch.float64)
        found = angles_between(torch.tensor([[2.0, 0.0]]), end).item()
        assert found == pytest.approx(angle, abs=1e-15, rel=1e-12)
    a, b = torch.rand(2, 5, 4, 3)
    assert angles_between(a, b[:, :2]).shape == (5, 4, 2)  # the axes before stay
