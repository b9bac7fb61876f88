"""The angles of ArcGrad's Table VI, worked out by hand in a plane."""

from __future__ import annotations

import math

import pytest
import torch

from study.measures import ANGLE_EDGES, add_angles, target_angles


def at(*degrees: float, lengths: float = 1.0) -> torch.Tensor:
    """Vectors of the plane at these angles, ``[1, n, 2]``."""
    radians = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return lengths * torch.stack([radians.cos(), radians.sin()], 1)[None]


class TestTargetAngles:
    def test_by_hand(self):
        features, labels = at(10, 50, 100, 180), torch.tensor([0, 0, 1, 1])
        found = target_angles(features, labels, at(0, 90))  # 10, 50, 10 and 90 degrees
        assert found["target_angle"].tolist() == pytest.approx([math.radians(40)])
        expected = torch.zeros(1, 36, dtype=torch.long)
        for degrees in (10, 50, 10, 90):
            expected[0, degrees // 5] += 1
        # angles on an edge may fall to either side of it by rounding
        near = found["target_angle_counts"] + found["target_angle_counts"].roll(1, 1)
        assert found["target_angle_counts"].sum() == 4
        assert (near * (expected > 0)).sum() == 4

    def test_lengths_do_not_matter_and_runs_are_apart(self):
        labels = torch.tensor([0, 1])
        features = torch.cat([at(12, 95), at(32, 150, lengths=7.0)])
        vectors = torch.cat([at(0, 90), at(0, 90, lengths=0.1)])
        found = target_angles(features, labels, vectors)
        assert torch.rad2deg(found["target_angle"]).tolist() == pytest.approx([8.5, 46.0])
        assert found["target_angle_counts"][1].nonzero().flatten().tolist() == [32 // 5, 60 // 5]

    def test_a_feature_of_length_zero_is_at_a_right_angle(self):
        found = target_angles(torch.zeros(1, 1, 2), torch.tensor([0]), at(0, 90))
        assert found["target_angle"].tolist() == pytest.approx([math.pi / 2])

    def test_the_edges_are_five_degrees_apart(self):
        assert (
            len(ANGLE_EDGES) == 37
            and ANGLE_EDGES[0] == 0
            and ANGLE_EDGES[-1] == pytest.approx(math.pi)
        )
        assert ANGLE_EDGES[1] == pytest.approx(math.radians(5))


class TestAddAngles:
    def test_by_hand(self):
        """Centres at 0 and 60 degrees, and vectors at 10 and 100.

        W-Inter is 90, C-Inter 60, WC-Intra the mean of 10 and 40.
        """
        features, labels = at(-20, 20, 40, 80), torch.tensor([0, 0, 1, 1])
        final = [{"diverged": False, "metrics": {}}]
        history = [
            {"epoch": epoch, "target_angle_counts": torch.full((1, 36), epoch)}
            if epoch != 1
            else {"epoch": epoch}
            for epoch in range(3)
        ]
        add_angles(final, history, features, labels, at(10, 100))
        measured = {name: math.degrees(value) for name, value in final[0]["metrics"].items()}
        assert measured == pytest.approx({"w_inter": 90, "c_inter": 60, "wc_intra": 25})
        assert final[0]["target_angle_epochs"] == [0, 2]
        assert final[0]["target_angle_counts"] == [[0] * 36, [2] * 36]

    def test_means_over_all_pairs_of_classes(self):
        features, labels = at(0, 90, 180), torch.tensor([0, 1, 2])
        final = [{"diverged": False, "metrics": {}}]
        add_angles(final, [], features, labels, at(0, 30, 120))
        measured = {name: math.degrees(value) for name, value in final[0]["metrics"].items()}
        assert measured == pytest.approx(
            {
                "w_inter": (30 + 90 + 120) / 3,
                "c_inter": (90 + 90 + 180) / 3,
                "wc_intra": (0 + 60 + 60) / 3,
            }
        )

    def test_a_run_that_diverged_gets_nothing(self):
        final = [{"diverged": True, "metrics": {}}]
        add_angles(final, [], torch.full((1, 2, 2), math.nan), torch.tensor([0, 1]), at(0, 90))
        assert final == [{"diverged": True, "metrics": {}}]
