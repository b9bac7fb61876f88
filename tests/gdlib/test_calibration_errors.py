"""Calibration errors against slow, obvious implementations and scikit-learn, on random and on adversarial predictions."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from gdlib.calibration import (
    CalibrationBins,
    bootstrap_calibration,
    brier_score,
    calibration_bins,
    classwise_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
    reliability,
)

Bins = list[list[tuple[float, bool]]]


@st.composite
def predictions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities in tenths, so that ties and values on bin edges are frequent, in float64 or float32, with labels."""
    n, c = draw(st.integers(1, 25)), draw(st.integers(2, 5))
    cuts = draw(st.lists(st.lists(st.integers(0, 10), min_size=c - 1, max_size=c - 1), min_size=n, max_size=n))
    counts = np.diff([[0, *sorted(row), 10] for row in cuts], axis=1)
    labels = draw(st.lists(st.integers(0, c - 1), min_size=n, max_size=n))
    return (counts / 10).astype(draw(st.sampled_from(["float64", "float32"]))), np.array(labels)


def random_predictions(n: int, c: int, seed: int, concentration: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Dirichlet probabilities and labels that are drawn from them: a perfectly calibrated predictor."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet([concentration] * c, size=n)
    return p, np.minimum((p.cumsum(1) < generator.random((n, 1))).sum(1), c - 1)


def slow_bins(values: np.ndarray, correct: np.ndarray, n_bins: int, scheme: str) -> Bins:
    """Sample by sample and bin by bin, comparing in the type of the values."""
    pairs = list(zip(values, correct, strict=True))
    if scheme == "width":
        edges = [values.dtype.type(i / n_bins) for i in range(n_bins + 1)]
    else:
        in_order, n = sorted(values), len(values)
        edges = [-1.0, *sorted({in_order[math.ceil(i * n / n_bins) - 1] for i in range(1, n_bins + 1) if math.ceil(i * n / n_bins) >= 1})]
    rows: Bins = []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        rows.append([(float(v), bool(c)) for v, c in pairs if low < v <= high or (i == 0 and v == 0)])
    return rows


def slow_gaps(rows: Bins) -> list[tuple[int, float, float, float]]:
    """Number of samples, mean value, share of correct ones and their distance, for each bin that is not empty."""
    out = []
    for row in rows:
        if row:
            confidence, accuracy = math.fsum(v for v, _ in row) / len(row), sum(c for _, c in row) / len(row)
            out.append((len(row), confidence, accuracy, abs(confidence - accuracy)))
    return out


def top(p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return p.max(axis=1), p.argmax(axis=1) == y


def slow_debiased_squares(rows: Bins) -> float:
    total = sum(len(row) for row in rows)
    return sum(n / total * (gap**2 - a * (1 - a) / (n - 1)) for n, _, a, gap in slow_gaps(rows) if n > 1)


SCHEMES = ["width", "mass"]


class TestAgainstTheSlowWay:
    @given(predictions(), st.integers(1, 30), st.sampled_from(SCHEMES))
    def test_expected_and_maximum(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int, scheme: str) -> None:
        p, y = given_
        gaps = slow_gaps(slow_bins(*top(p, y), n_bins, scheme))
        assert expected_calibration_error(p, y, n_bins, scheme) == pytest.approx(sum(n * g for n, _, _, g in gaps) / len(y), abs=1e-12)
        assert maximum_calibration_error(p, y, n_bins, scheme) == pytest.approx(max(g for *_, g in gaps), abs=1e-12)
        for norm in (1, 1.5, 2, 3):
            powers = (sum(n * g**norm for n, _, _, g in gaps) / len(y)) ** (1 / norm)
            assert expected_calibration_error(p, y, n_bins, scheme, norm=norm) == pytest.approx(powers, abs=1e-12)

    @given(predictions(), st.integers(1, 30), st.sampled_from(SCHEMES))
    def test_classwise(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int, scheme: str) -> None:
        p, y = given_
        errors = []
        for c in range(p.shape[1]):
            gaps = slow_gaps(slow_bins(p[:, c], y == c, n_bins, scheme))
            errors.append(sum(n * g for n, _, _, g in gaps) / len(y))
        assert classwise_calibration_error(p, y, n_bins, scheme) == pytest.approx(sum(errors) / len(errors), abs=1e-12)

    @given(predictions(), st.integers(1, 30), st.sampled_from(SCHEMES))
    def test_debiased(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int, scheme: str) -> None:
        p, y = given_
        rows = slow_bins(*top(p, y), n_bins, scheme)
        if all(len(row) < 2 for row in rows):
            with pytest.raises(ValueError, match="no bin holds two"):
                debiased_calibration_error(p, y, n_bins, scheme)
            return
        squares = slow_debiased_squares(rows)
        assert calibration_bins(p, y, n_bins, scheme).debiased_squared_error == pytest.approx(squares, abs=1e-12)
        assert debiased_calibration_error(p, y, n_bins, scheme) ** 2 == pytest.approx(max(0, squares), abs=1e-12)
        total = 0.0
        for n, _, a, gap in slow_gaps(rows):
            sd = math.sqrt(a * (1 - a) / n)
            total += n / len(y) * (2 * gap - (stats.foldnorm.mean(gap / sd, scale=sd) if sd else gap))
        assert debiased_calibration_error(p, y, n_bins, scheme, norm=1) == pytest.approx(max(0, total), abs=1e-12)

    @pytest.mark.parametrize("scheme", SCHEMES)
    @pytest.mark.parametrize(("n", "c", "n_bins"), [(1000, 10, 15), (997, 3, 10), (50, 100, 64), (7, 2, 1)])
    def test_random(self, n: int, c: int, n_bins: int, scheme: str) -> None:
        p, y = random_predictions(n, c, seed=n)
        gaps = slow_gaps(slow_bins(*top(p, y), n_bins, scheme))
        assert expected_calibration_error(p, y, n_bins, scheme) == pytest.approx(sum(m * g for m, _, _, g in gaps) / n, abs=1e-12)
        assert maximum_calibration_error(p, y, n_bins, scheme) == pytest.approx(max(g for *_, g in gaps), abs=1e-12)


class TestAgainstScikitLearn:
    @pytest.mark.parametrize(("scheme", "strategy"), [("width", "uniform"), ("mass", "quantile")])
    @pytest.mark.parametrize("n_bins", [1, 5, 10, 20])
    def test_calibration_curve(self, n_bins: int, scheme: str, strategy: str) -> None:
        p, y = random_predictions(400, 4, seed=n_bins)
        bins = calibration_bins(p, y, n_bins, scheme)
        confidence, correct = top(p, y)
        accuracy, mean = calibration_curve(correct, confidence, n_bins=n_bins, strategy=strategy)
        np.testing.assert_allclose(bins.accuracy[bins.count > 0], accuracy, rtol=0, atol=1e-12)
        np.testing.assert_allclose(bins.confidence[bins.count > 0], mean, rtol=0, atol=1e-12)

    def test_scores(self) -> None:
        p, y = random_predictions(300, 5, seed=0)
        assert negative_log_likelihood(p, y) == pytest.approx(log_loss(y, p, labels=range(5)), abs=1e-12)
        p, y = random_predictions(300, 2, seed=1)
        assert brier_score(p, y) == pytest.approx(2 * brier_score_loss(y, p[:, 1]), abs=1e-12)  # summed over both classes


class TestAdversarial:
    @pytest.mark.parametrize("scheme", SCHEMES)
    @pytest.mark.parametrize("n_bins", [1, 2, 10, 1000])
    def test_all_sure(self, n_bins: int, scheme: str) -> None:
        p, y = np.eye(3)[[0, 0, 1, 2, 2]], [0, 1, 1, 2, 0]
        assert expected_calibration_error(p, y, n_bins, scheme) == pytest.approx(0.4, abs=1e-12)
        assert maximum_calibration_error(p, y, n_bins, scheme) == pytest.approx(0.4, abs=1e-12)
        assert calibration_bins(p, y, n_bins, scheme).count[-1] == 5
        assert debiased_calibration_error(p, y, n_bins, scheme) == pytest.approx(math.sqrt(0.16 - 0.24 / 4), abs=1e-12)

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_all_wrong_and_sure(self, scheme: str) -> None:
        p = np.eye(2)[[0] * 6]
        for error in (expected_calibration_error, maximum_calibration_error, classwise_calibration_error, debiased_calibration_error):
            assert error(p, [1] * 6, scheme=scheme) == 1.0

    def test_one_class_of_labels_and_one_class_at_all(self) -> None:
        p, _ = random_predictions(40, 3, seed=3)
        gaps = slow_gaps(slow_bins(p.max(1), p.argmax(1) == 2, 10, "width"))
        assert expected_calibration_error(p, [2] * 40) == pytest.approx(sum(n * g for n, _, _, g in gaps) / 40, abs=1e-12)
        assert expected_calibration_error([[1.0], [1.0]], [0, 0]) == classwise_calibration_error([[1.0], [1.0]], [0, 0]) == 0

    @pytest.mark.parametrize("scheme", SCHEMES)
    @pytest.mark.parametrize("n_bins", [1, 10, 37])
    def test_a_single_sample(self, n_bins: int, scheme: str) -> None:
        for label, error in ((0, 0.3), (1, 0.7)):
            assert expected_calibration_error([[0.7, 0.3]], [label], n_bins, scheme) == pytest.approx(error, abs=1e-12)
            assert maximum_calibration_error([[0.7, 0.3]], [label], n_bins, scheme) == pytest.approx(error, abs=1e-12)
        with pytest.raises(ValueError, match="no bin holds two of the 1 samples"):
            debiased_calibration_error([[0.7, 0.3]], [0], n_bins, scheme)

    def test_one_bin_is_the_difference_of_the_means(self) -> None:
        p, y = random_predictions(100, 3, seed=5)
        confidence, correct = top(p, y)
        for scheme in SCHEMES:
            assert expected_calibration_error(p, y, 1, scheme) == pytest.approx(abs(confidence.mean() - correct.mean()), abs=1e-12)

    def test_duplicates_share_a_bin_of_mass(self) -> None:
        p = np.array([[0.6, 0.4]] * 7 + [[0.9, 0.1]] * 2)
        bins = calibration_bins(p, [0] * 9, 4, "mass")
        assert bins.count.tolist() == [7, 2] and bins.upper.tolist() == [0.6, 0.9]

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_confidences_on_the_edges(self, dtype: str) -> None:
        """0.6 as k/10 is an edge and belongs below it; 6 * 0.1 is the next double and belongs above it."""
        exact = np.array([k / 10 for k in range(5, 11)], dtype=dtype)
        assert calibration_bins(np.stack([exact, 1 - exact], 1), [0] * 6).count.tolist() == [0] * 4 + [1] * 6
        products = (np.arange(5, 11) * np.array(0.1, dtype)).astype(dtype)
        p = np.stack([products, 1 - products], 1)
        slow = slow_bins(products, np.ones(6, bool), 10, "width")
        assert calibration_bins(p, [0] * 6).count.tolist() == [len(row) for row in slow]
        if dtype == "float64":
            assert calibration_bins(p, [0] * 6).count.tolist() == [0] * 4 + [1, 0, 1, 2, 1, 1]

    def test_infinite_and_huge_norms(self) -> None:
        p, y = random_predictions(200, 3, seed=6)
        y = (y + (np.arange(200) % 3 == 0)) % 3
        largest = maximum_calibration_error(p, y)
        assert expected_calibration_error(p, y, norm=math.inf) == largest
        errors = [expected_calibration_error(p, y, norm=norm) for norm in (1, 2, 4, 100, 1e9)]
        assert errors == sorted(errors) and errors[-1] == pytest.approx(largest, rel=1e-6)
        assert expected_calibration_error([[1.0, 0.0]], [0], norm=2) == 0


class TestDebiased:
    @pytest.mark.parametrize(("confidence", "truth", "n"), [(0.9, 0.6, 2), (0.7, 0.7, 5), (0.55, 1.0, 4), (1.0, 0.3, 8)])
    def test_is_unbiased(self, confidence: float, truth: float, n: int) -> None:
        """All outcomes of n samples that are right with probability ``truth``, weighed by their probability."""
        expected = 0.0
        for outcome in itertools.product([0, 1], repeat=n):
            probability = math.prod(1 - truth if wrong else truth for wrong in outcome)
            bins = calibration_bins([[confidence, 1 - confidence]] * n, list(outcome))
            expected += probability * bins.debiased_squared_error
        assert expected == pytest.approx((confidence - truth) ** 2, abs=1e-12)

    def test_a_calibrated_predictor_has_none(self) -> None:
        biased, debiased, ece, debiased_ece = [], [], [], []
        for seed in range(60):
            p, y = random_predictions(300, 5, seed=seed)
            bins = calibration_bins(p, y, 15)
            biased.append(bins.error(2) ** 2)
            debiased.append(bins.debiased_squared_error)
            ece.append(bins.expected_error)
            debiased_ece.append(debiased_calibration_error(p, y, 15, norm=1))
        assert abs(np.mean(debiased)) < 0.15 * np.mean(biased)
        assert np.mean(debiased_ece) / np.mean(ece) == pytest.approx(2 - math.sqrt(2), abs=0.1)

    @given(predictions(), st.sampled_from(SCHEMES), st.sampled_from([1, 2]))
    def test_never_above_the_plain_error(self, given_: tuple[np.ndarray, np.ndarray], scheme: str, norm: int) -> None:
        p, y = given_
        p, y = np.concatenate([p, p]), np.concatenate([y, y])  # so that a bin holds two
        assert 0 <= debiased_calibration_error(p, y, 5, scheme, norm=norm) <= expected_calibration_error(p, y, 5, scheme, norm=norm) + 1e-12


class TestInvariance:
    @given(predictions(), st.integers(1, 12), st.sampled_from(SCHEMES), st.randoms(use_true_random=False))
    def test_order_of_samples(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int, scheme: str, random) -> None:
        p, y = given_
        order = list(range(len(y)))
        random.shuffle(order)
        for measure in (expected_calibration_error, maximum_calibration_error, classwise_calibration_error):
            assert measure(p[order], y[order], n_bins, scheme) == pytest.approx(measure(p, y, n_bins, scheme), abs=1e-12)

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_names_of_classes(self, seed: int, scheme: str) -> None:
        p, y = random_predictions(100, 6, seed=seed)
        order = np.random.default_rng(seed).permutation(6)
        renamed = order.argsort()[y]
        for measure in (expected_calibration_error, maximum_calibration_error, classwise_calibration_error, debiased_calibration_error):
            assert measure(p[:, order], renamed, 7, scheme) == pytest.approx(measure(p, y, 7, scheme), abs=1e-12)
        for score in (brier_score, negative_log_likelihood):
            assert score(p[:, order], renamed) == pytest.approx(score(p, y), abs=1e-12)


class TestRecords:
    def test_a_diagram_can_be_drawn_again(self) -> None:
        p, y = random_predictions(500, 4, seed=0)
        text = json.dumps(reliability(p, y, n_bins=15), allow_nan=False)
        kept = json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))  # as a record stores it
        for scheme in SCHEMES:
            bins, again = calibration_bins(p, y, 15, scheme), CalibrationBins.from_dict(kept[scheme])
            assert again.count.tolist() == bins.count.tolist() and again.n == 500
            np.testing.assert_allclose(again.gap, bins.gap, atol=2e-6)
            assert again.expected_error == pytest.approx(expected_calibration_error(p, y, 15, scheme), abs=2e-6)
            assert again.maximum_error == pytest.approx(maximum_calibration_error(p, y, 15, scheme), abs=2e-6)
            assert again.debiased_squared_error == pytest.approx(bins.debiased_squared_error, abs=2e-6)
        assert kept["accuracy"] == pytest.approx((p.argmax(1) == y).mean(), abs=1e-6)
        assert kept["confidence"] == pytest.approx(p.max(1).mean(), abs=1e-6)

    def test_histogram(self) -> None:
        p, y = random_predictions(500, 4, seed=1)
        histogram = reliability(p, y, histogram_bins=20)["histogram"]
        slow = slow_bins(*top(p, y), 20, "width")
        assert histogram["upper"] == [i / 20 for i in range(1, 21)]
        assert histogram["count"] == [len(row) for row in slow]
        assert histogram["correct"] == [sum(c for _, c in row) for row in slow]

    def test_exactly_back(self) -> None:
        bins = calibration_bins([[0.75, 0.25], [0.5, 0.5]], [0, 0], 4)
        again = CalibrationBins.from_dict(bins.to_dict())
        for name in ("lower", "upper", "count", "confidence", "accuracy"):
            np.testing.assert_array_equal(getattr(again, name), getattr(bins, name))

    def test_without_the_lower_edges(self) -> None:
        columns = calibration_bins([[0.75, 0.25], [0.5, 0.5]], [0, 0], 4).to_dict()
        lower = columns.pop("lower")
        assert CalibrationBins.from_dict(columns).lower.tolist() == lower

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"upper": [1.0], "count": [1]}, "lack accuracy, confidence"),
            ({"upper": [0.5, 1.0], "count": [1], "confidence": [0.5], "accuracy": [1.0]}, "one length"),
        ],
    )
    def test_damaged(self, columns: dict, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            CalibrationBins.from_dict(columns)


class TestKinds:
    ROWS = [[0.9, 0.1], [0.35, 0.65], [0.6, 0.4]]

    @pytest.mark.parametrize("kind", ["<f4", ">f4", ">f8", "g"])
    def test_every_float_of_numpy(self, kind: str) -> None:
        p = np.array(self.ROWS, dtype=kind)
        expected = expected_calibration_error(p.astype("f4") if "4" in kind else p.astype("f8"), [0, 0, 1])
        assert expected_calibration_error(p, np.array([0, 0, 1], dtype=">i2")) == expected

    def test_whole_numbers_are_probabilities_too(self) -> None:
        assert expected_calibration_error(torch.tensor([[1, 0], [0, 1]]), torch.tensor([0, 0], dtype=torch.uint8)) == 0.5

    def test_a_strided_view_and_a_gradient(self) -> None:
        p = torch.tensor(self.ROWS, dtype=torch.float64, requires_grad=True)
        expected = expected_calibration_error(self.ROWS, [0, 0, 1])
        assert expected_calibration_error(p.repeat(1, 2)[:, :2], [0, 0, 1]) == expected
        assert reliability(p, [0, 0, 1])["width"] == calibration_bins(self.ROWS, [0, 0, 1]).to_dict()


class TestErrors:
    GOOD = [[0.9, 0.1], [0.4, 0.6]]

    @pytest.mark.parametrize(
        ("probs", "labels", "message"),
        [
            ([[2.0, -1.0], [0.5, 3.0]], [0, 1], "For logits, apply softmax first"),
            ([[0.2, 0.1], [0.4, 0.6]], [0, 1], "sum to 1"),
            ([[math.nan, 0.1], [0.4, 0.6]], [0, 1], "finite"),
            ([[math.inf, 0.0], [0.4, 0.6]], [0, 1], "finite"),
            (np.ma.masked_array(GOOD, [[True, False], [False, False]]), [0, 1], "masked"),
            ([], [], r"shape \[N, C\]"),
            (np.empty((3, 0)), [0, 0, 0], "must not be empty"),
            (0.5, 0, r"not \[\]"),
            (np.array([["0.9", "0.1"]]), [0], "real numbers"),
            ([[0.9, None], [0.4, 0.6]], [0, 1], "real numbers"),
            (GOOD, [0, 3], "reach from 0 to 3"),
            (GOOD, np.array([0, 2**64 - 1], dtype=np.uint64), r"must lie in \[0, 2\)"),
            (GOOD, [True, False], "real numbers"),
            (GOOD, [[1, 0], [0, 1]], r"shape \[2\]"),
            (GOOD, [[0.9, 0.1], [0.2, 0.8]], "take argmax first"),
            (GOOD, [0, 1, 1], r"not \[3\]"),
        ],
    )
    @pytest.mark.parametrize(
        "function",
        [expected_calibration_error, classwise_calibration_error, debiased_calibration_error, reliability, bootstrap_calibration],
    )
    def test_bad_input(self, function, probs, labels, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            function(probs, labels)

    @pytest.mark.parametrize("norm", [0, 0.5, -1, math.nan, "2", True, None])
    def test_bad_norm(self, norm) -> None:
        with pytest.raises(ValueError, match="norm must be a number, at least 1"):
            expected_calibration_error(self.GOOD, [0, 1], norm=norm)

    @pytest.mark.parametrize("norm", [0, 3, math.inf, "1"])
    def test_bad_norm_for_debiasing(self, norm) -> None:
        with pytest.raises(ValueError, match="norm must be 1 or 2"):
            debiased_calibration_error(self.GOOD * 2, [0, 1, 0, 1], norm=norm)
