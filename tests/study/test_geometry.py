"""Distances and angles within and between classes: by hand, the slow way, and under the motions that must not matter."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from study.geometry import ClassGeometry, angles_between, centre_margins, class_centres, class_geometry

FIELDS = ["centres", "intra_distance", "inter_distance", "intra_angle", "inter_angle"]


def random_classes(seed: int, n: int = 40, d: int = 3, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Features around separate centres, each class with a sample."""
    generator = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), generator.integers(k, size=n - k)])
    return generator.normal(size=(k, d))[labels] * 3 + generator.normal(size=(n, d)), labels


def reference(x: np.ndarray, y: np.ndarray) -> ClassGeometry:
    """Class by class, sample by sample, with the plain arccos."""
    classes = range(int(y.max()) + 1)

    def angle(a: np.ndarray, b: np.ndarray) -> float:
        return math.acos(min(1.0, max(-1.0, float(a @ b / math.sqrt((a @ a) * (b @ b))))))

    centres = np.array([sum(v for v, c in zip(x, y, strict=True) if c == k) / sum(c == k for c in y) for k in classes])
    members = [[v for v, c in zip(x, y, strict=True) if c == k] for k in classes]
    return ClassGeometry(
        centres=centres,
        count=np.array([len(m) for m in members]),
        intra_distance=np.array([np.mean([math.dist(v, centres[k]) for v in members[k]]) for k in classes]),
        inter_distance=np.array([[math.dist(a, b) for b in centres] for a in centres]),
        intra_angle=np.array([np.mean([angle(v, centres[k]) for v in members[k]]) for k in classes]),
        inter_angle=np.array([[0.0 if a is b else angle(a, b) for b in centres] for a in centres]),
    )


def assert_same(one: ClassGeometry, two: ClassGeometry, fields: list[str] = FIELDS) -> None:
    for name in fields:
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-7, err_msg=name)


class TestClassGeometry:
    def test_by_hand(self) -> None:
        """Three classes: pairs about (±4, 0), and one sample at (0, 3)."""
        x = [[4.0, 1.0], [4.0, -1.0], [-4.0, 2.0], [-4.0, -2.0], [0.0, 3.0]]
        geometry = class_geometry(x, [0, 0, 1, 1, 2])
        assert geometry.centres.tolist() == [[4.0, 0.0], [-4.0, 0.0], [0.0, 3.0]]
        assert geometry.count.tolist() == [2, 2, 1]
        assert geometry.intra_distance.tolist() == [1.0, 2.0, 0.0]
        assert geometry.inter_distance.tolist() == [[0.0, 8.0, 5.0], [8.0, 0.0, 5.0], [5.0, 5.0, 0.0]]
        assert (geometry.mean_intra_distance, geometry.mean_inter_distance, geometry.ratio) == (1.0, 6.0, pytest.approx(1 / 6))
        assert geometry.nearest_inter_distance.tolist() == [5.0, 5.0, 5.0]
        assert geometry.minimum_inter_distance == 5.0
        assert geometry.intra_angle == pytest.approx([math.atan(1 / 4), math.atan(2 / 4), 0.0])
        assert geometry.inter_angle == pytest.approx(np.radians([[0, 180, 90], [180, 0, 90], [90, 90, 0]]))
        assert np.degrees(geometry.mean_inter_angle) == pytest.approx(120)
        assert np.degrees(geometry.nearest_inter_angle) == pytest.approx([90, 90, 90])
        assert np.degrees(geometry.minimum_inter_angle) == pytest.approx(90)
        assert geometry.mean_intra_angle == pytest.approx((math.atan(1 / 4) + math.atan(1 / 2)) / 3)

    @pytest.mark.parametrize("seed", range(5))
    def test_against_the_slow_way(self, seed: int) -> None:
        x, y = random_classes(seed)
        assert_same(class_geometry(x, y), reference(x, y))

    def test_runs_in_a_stack_equal_runs_alone(self) -> None:
        runs, y = np.stack([random_classes(0)[0], random_classes(1)[0], random_classes(2)[0]]), random_classes(0)[1]
        stacked = class_geometry(runs, y)
        assert stacked.ratio.shape == (3,)
        assert stacked.nearest_inter_angle.shape == (3, 4)
        for r, x in enumerate(runs):
            alone = class_geometry(x, y)
            for name in [*FIELDS, "ratio", "minimum_inter_distance", "mean_inter_angle"]:
                np.testing.assert_allclose(getattr(stacked, name)[r], getattr(alone, name), rtol=1e-12, atol=1e-12, err_msg=name)

    @given(st.integers(0, 10**6), st.floats(0.01, 100))
    def test_scale(self, seed: int, scale: float) -> None:
        x, y = random_classes(seed)
        plain, scaled = class_geometry(x, y), class_geometry(scale * x, y)
        assert scaled.ratio == pytest.approx(plain.ratio)
        assert scaled.intra_distance == pytest.approx(scale * plain.intra_distance)
        assert_same(plain, scaled, ["intra_angle", "inter_angle"])

    @given(st.integers(0, 10**6))
    def test_rotation_and_translation(self, seed: int) -> None:
        x, y = random_classes(seed)
        rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
        plain = class_geometry(x, y)
        assert_same(plain, class_geometry(x @ rotation, y), FIELDS[1:])
        assert_same(plain, class_geometry(x + 10.0, y), ["intra_distance", "inter_distance"])

    def test_tensors(self) -> None:
        x, y = random_classes(0)
        half = torch.tensor(x, dtype=torch.bfloat16, requires_grad=True)
        assert_same(class_geometry(half, torch.tensor(y)), class_geometry(half.detach().double().numpy(), y))

    def test_a_centre_at_the_origin_has_no_direction(self) -> None:
        geometry = class_geometry([[1.0, 0.0], [-1.0, 0.0], [0.0, 5.0]], [0, 0, 1])
        assert np.isnan(geometry.intra_angle[0]) and np.isnan(geometry.minimum_inter_angle)
        assert geometry.ratio == pytest.approx(0.5 / 5)


class TestAngles:
    @pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-5, 0.3, math.pi / 2, math.pi - 1e-9, math.pi])
    def test_accurate_everywhere(self, angle: float) -> None:
        found = angles_between([[2.0, 0.0]], [[math.cos(angle), math.sin(angle)]]).item()
        assert found == pytest.approx(angle, abs=1e-15, rel=1e-12)

    def test_leading_axes(self) -> None:
        a, b = np.random.default_rng(0).normal(size=(2, 5, 4, 3))
        assert angles_between(a, b[:, :2]).shape == (5, 4, 2)

    @pytest.mark.parametrize(("a", "b"), [([1.0, 0.0], [[1.0, 0.0]]), ([[1.0, 0.0]], [[1.0, 0.0, 0.0]])])
    def test_bad_shapes(self, a: list, b: list) -> None:
        with pytest.raises(ValueError, match="must have the shapes"):
            angles_between(a, b)


class TestMargins:
    @pytest.mark.parametrize("seed", range(3))
    def test_against_the_slow_way(self, seed: int) -> None:
        x, y = random_classes(seed)
        centres = class_centres(x, y)
        expected = [min(math.dist(v, centres[k]) for k in range(4) if k != c) - math.dist(v, centres[c]) for v, c in zip(x, y, strict=True)]
        np.testing.assert_allclose(centre_margins(x, y), expected)

    def test_runs_and_sign(self) -> None:
        runs = np.array([[[0.0], [2.0], [12.0], [8.0]], [[0.0], [9.0], [10.0], [10.0]]])
        margins = centre_margins(runs, [0, 0, 1, 1])
        assert margins[0].tolist() == [9.0, 7.0, 9.0, 5.0]
        assert margins[1].tolist() == [5.5, -3.5, 5.5, 5.5], "the sample at 9 is nearer to the other centre"


class TestErrors:
    @pytest.mark.parametrize(
        ("x", "y", "message"),
        [
            ([[1.0], [math.nan]], [0, 1], "finite; 1 values"),
            ([1.0, 2.0], [0, 1], r"shape \[N, D\]"),
            (np.empty((0, 2)), [], "at least one sample"),
            ([[1.0], [2.0]], [0], r"shape \[2\] .* not \[1\]"),
            ([[1.0], [2.0]], [0.0, 1.0], "integer type"),
            ([[1.0], [2.0]], [-1, 0], "reach from -1 to 0"),
            ([[1.0], [2.0]], [0, 2], r"there is none of \[1\]"),
        ],
    )
    @pytest.mark.parametrize("function", [class_centres, class_geometry, centre_margins])
    def test_bad_input(self, function, x, y, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            function(x, y)

    def test_number_of_classes(self) -> None:
        with pytest.raises(ValueError, match=r"there is none of \[2\]"):
            class_centres([[1.0], [2.0]], [0, 1], n_classes=3)
        with pytest.raises(ValueError, match=r"\[0, 1\); they reach from 0 to 1"):
            class_centres([[1.0], [2.0]], [0, 1], n_classes=1)

    @pytest.mark.parametrize("function", [class_geometry, centre_margins])
    def test_one_class(self, function) -> None:
        with pytest.raises(ValueError, match="at least two classes"):
            function([[1.0], [2.0]], [0, 0])
