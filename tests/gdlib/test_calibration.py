"""Calibration: a slow, obvious reference, values by hand, bin edges to the last bit, and the β link held to what it claims."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from gdlib.calibration import (
    beta_link,
    brier_score,
    calibration_bins,
    classwise_calibration_error,
    confidence_histogram,
    expected_calibration_error,
    inverse_beta_link,
    maximum_calibration_error,
    negative_log_likelihood,
)

BETAS = [1e-6, 1e-3, 0.01, 0.1, 0.4999, 0.5, 0.7, 1.0, 2.0, 5.0, 50.0, 1e6]


@st.composite
def predictions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities on a grid of 1/20, so that bin edges and ties are frequent, with labels."""
    n, c = draw(st.integers(1, 30)), draw(st.integers(2, 4))
    cuts = draw(st.lists(st.lists(st.integers(0, 20), min_size=c - 1, max_size=c - 1), min_size=n, max_size=n))
    counts = np.diff([[0, *sorted(row), 20] for row in cuts], axis=1)
    labels = draw(st.lists(st.integers(0, c - 1), min_size=n, max_size=n))
    return counts / 20, np.array(labels)


def two_classes(confidence: list[float] | np.ndarray, dtype: str = "float64") -> np.ndarray:
    """Rows (p, 1 − p) in a floating type."""
    p = np.asarray(confidence, dtype=dtype)
    return np.stack([p, (1 - p).astype(dtype)], axis=1)


def reference_bins(values: np.ndarray, correct: np.ndarray, n_bins: int) -> list[tuple[int, float, float]]:
    """Sample by sample, bin by bin: the first bin is [0, 1/B], the others (i/B, (i+1)/B]; edges are the doubles nearest to i/B."""
    rows = []
    for i in range(n_bins):
        low, high = float(Fraction(i, n_bins)), float(Fraction(i + 1, n_bins))
        members = [(v, c) for v, c in zip(values, correct, strict=True) if low < v <= high or (i == 0 and v == 0)]
        n = len(members)
        rows.append((n, math.fsum(v for v, _ in members) / n if n else math.nan, sum(c for _, c in members) / n if n else math.nan))
    return rows


class TestAgainstTheSlowWay:
    @given(predictions(), st.integers(1, 20))
    def test_bins(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int) -> None:
        probs, labels = given_
        bins = calibration_bins(probs, labels, n_bins)
        rows = reference_bins(probs.max(axis=1), probs.argmax(axis=1) == labels, n_bins)
        assert bins.count.tolist() == [n for n, _, _ in rows]
        np.testing.assert_allclose(bins.confidence, [c for _, c, _ in rows], rtol=1e-12)
        np.testing.assert_allclose(bins.accuracy, [a for _, _, a in rows], rtol=1e-12)
        gaps = [(n, abs(c - a)) for n, c, a in rows if n]
        assert expected_calibration_error(probs, labels, n_bins) == pytest.approx(sum(n * g for n, g in gaps) / len(labels), abs=1e-12)
        assert maximum_calibration_error(probs, labels, n_bins) == pytest.approx(max(g for _, g in gaps), abs=1e-12)

    @given(predictions(), st.integers(1, 20))
    def test_classwise(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int) -> None:
        probs, labels = given_
        total = 0.0
        for c in range(probs.shape[1]):
            rows = reference_bins(probs[:, c], labels == c, n_bins)
            total += sum(n * abs(conf - freq) for n, conf, freq in rows if n) / len(labels)
        assert classwise_calibration_error(probs, labels, n_bins) == pytest.approx(total / probs.shape[1], abs=1e-12)

    @given(predictions())
    def test_proper_scores(self, given_: tuple[np.ndarray, np.ndarray]) -> None:
        probs, labels = given_
        rows = list(zip(probs, labels, strict=True))
        brier = sum(sum((p - (c == y)) ** 2 for c, p in enumerate(row)) for row, y in rows) / len(rows)
        assert brier_score(probs, labels) == pytest.approx(brier, abs=1e-12)
        likelihoods = [row[y] for row, y in rows]
        expected = math.inf if 0 in likelihoods else -math.fsum(math.log(p) for p in likelihoods) / len(rows)
        assert negative_log_likelihood(probs, labels) == pytest.approx(expected, abs=1e-12)


class TestProperties:
    @given(predictions(), st.integers(1, 15), st.sampled_from(["width", "mass"]))
    def test_bounds_and_order(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int, scheme: str) -> None:
        probs, labels = given_
        bins = calibration_bins(probs, labels, n_bins, scheme)
        assert bins.n == len(labels)
        assert abs(bins.overconfidence) <= bins.expected_error + 1e-12
        assert bins.expected_error <= bins.maximum_error + 1e-12 <= 1 + 2e-12
        assert bins.overconfidence == pytest.approx(probs.max(axis=1).mean() - (probs.argmax(axis=1) == labels).mean(), abs=1e-12)

    @given(predictions(), st.integers(1, 15), st.sampled_from(["width", "mass"]), st.randoms(use_true_random=False))
    def test_order_of_the_samples_does_not_matter(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int, scheme: str, random) -> None:
        probs, labels = given_
        order = list(range(len(labels)))
        random.shuffle(order)
        one, two = calibration_bins(probs, labels, n_bins, scheme), calibration_bins(probs[order], labels[order], n_bins, scheme)
        assert one.count.tolist() == two.count.tolist()
        np.testing.assert_allclose(one.gap, two.gap, atol=1e-12)

    @given(predictions(), st.integers(1, 15))
    def test_equal_mass(self, given_: tuple[np.ndarray, np.ndarray], n_bins: int) -> None:
        probs, labels = given_
        bins = calibration_bins(probs, labels, n_bins, "mass")
        assert (bins.count > 0).all()
        assert len(bins.count) <= min(n_bins, len(labels))
        assert (np.diff(bins.upper) > 0).all()
        assert bins.upper[-1] == probs.max()
        assert ((bins.lower < bins.confidence + 1e-12) & (bins.confidence <= bins.upper + 1e-12)).all()

    def test_equal_mass_without_ties_is_even(self) -> None:
        confidence = np.random.default_rng(0).uniform(0.5, 1, size=100)
        assert calibration_bins(two_classes(confidence), np.zeros(100, int), 10, "mass").count.tolist() == [10] * 10

    def test_perfect_calibration(self) -> None:
        labels = np.repeat([0, 0, 0, 1], 25)
        assert expected_calibration_error(two_classes([0.75] * 100), labels) == pytest.approx(0, abs=1e-15)


class TestEdges:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    @pytest.mark.parametrize("n_bins", [3, 7, 10, 15, 20])
    def test_an_edge_belongs_to_the_bin_below_in_every_type(self, dtype: torch.dtype, n_bins: int) -> None:
        edges = torch.tensor([i / n_bins for i in range(n_bins + 1)], dtype=torch.float64).to(dtype)
        assert confidence_histogram(edges, [i / n_bins for i in range(n_bins + 1)]).tolist() == [2] + [1] * (n_bins - 1)
        probs = torch.stack([edges, 1 - edges], dim=1)[n_bins // 2 + 1 :]  # confidences above 1/2
        bins = calibration_bins(probs, torch.zeros(len(probs), dtype=torch.int64), n_bins)
        assert bins.count[n_bins // 2 :].tolist() == [1] * (n_bins - n_bins // 2)

    @pytest.mark.parametrize(("p", "index"), [(0.6, 5), (np.nextafter(0.6, 1), 6), (np.nextafter(0.6, 0), 5), (1.0, 9), (0.5, 4)])
    def test_neighbours_of_an_edge(self, p: float, index: int) -> None:
        assert calibration_bins(two_classes([p]), [0]).count.argmax() == index

    def test_thirds_of_floating_point(self) -> None:
        """3 * 0.1 is a step above 0.3: the edge is 0.3, and so the product lies in the next bin. float32 0.3 is the edge of float32."""
        tenths = [k / 10 for k in range(11)]
        assert confidence_histogram([0.3, 3 * 0.1], tenths).tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
        assert float(np.float32(0.3)) > 0.3
        assert confidence_histogram(np.float32([0.3]), tenths).tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]

    def test_zero_and_one(self) -> None:
        assert confidence_histogram([0.0, 1.0]).tolist() == [1, 0, 0, 0, 1]
        bins = calibration_bins([[1.0, 0.0]], [0])
        assert len(bins.count) == 10 and bins.count[9] == 1, "1.0 has no bin of its own"

    def test_a_confidence_rounded_above_one(self) -> None:
        p = np.float32([[1 + 1e-6, 0.0]])
        assert calibration_bins(p, [0]).count[9] == 1
        assert confidence_histogram(np.float32([1 + 2e-7])).tolist() == [0, 0, 0, 0, 1]


class TestHistogram:
    def test_runs(self) -> None:
        p = torch.tensor([[0.1, 0.2, 0.9], [0.5, 0.5, 0.5]])
        assert confidence_histogram(p).tolist() == [[2, 0, 0, 0, 1], [0, 0, 3, 0, 0]]

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
    def test_every_sample_is_counted_once(self, p: list[float]) -> None:
        counts = confidence_histogram(p)
        assert counts.sum() == len(p)
        assert counts.cumsum().tolist() == [sum(x <= edge for x in p) for edge in (0.2, 0.4, 0.6, 0.8, 1.0)]

    @pytest.mark.parametrize(
        ("p", "edges", "message"),
        [
            ([], [0, 1], "at least one sample"),
            ([0.5, math.nan], [0, 1], "within the edges"),
            ([1.5], [0, 1], "reaches from 1.5 to 1.5"),
            ([0.5], [0, 1, 1], "strictly increasing"),
            ([0.5], [0], "strictly increasing"),
        ],
    )
    def test_errors(self, p: list, edges: list, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            confidence_histogram(p, edges)


class TestKinds:
    def test_tensors_arrays_and_lists_agree(self) -> None:
        rows, labels = [[0.9, 0.1], [0.35, 0.65], [0.6, 0.4]], [0, 0, 1]
        expected = expected_calibration_error(rows, labels)
        assert expected_calibration_error(np.array(rows), np.array(labels, dtype=np.uint8)) == expected
        assert expected_calibration_error(torch.tensor(rows, dtype=torch.float64, requires_grad=True), torch.tensor(labels)) == expected

    def test_read_only_arrays(self) -> None:
        rows = np.array([[0.9, 0.1]])
        rows.setflags(write=False)
        assert brier_score(rows, [0]) == pytest.approx(0.02)

    def test_half_precision_softmax_passes_the_check(self) -> None:
        logits = torch.randn(200, 1000, generator=torch.Generator().manual_seed(0))
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            calibration_bins(logits.softmax(-1).to(dtype), torch.zeros(200, dtype=torch.int64))

    def test_to_dict_is_json(self) -> None:
        columns = calibration_bins([[0.75, 0.25]], [0], n_bins=2).to_dict()
        assert json.loads(json.dumps(columns, allow_nan=False)) == {
            "lower": [0.0, 0.5],
            "upper": [0.5, 1.0],
            "count": [0, 1],
            "confidence": [None, 0.75],
            "accuracy": [None, 1.0],
        }


class TestErrors:
    GOOD = [[0.9, 0.1], [0.4, 0.6]]

    @pytest.mark.parametrize(
        ("probs", "labels", "message"),
        [
            ([[0.9, 0.2], [0.4, 0.6]], [0, 1], "sum to 1 .* deviation is 0.1"),
            ([[1.5, -0.5], [0.4, 0.6]], [0, 1], "from -0.5 to 1.5. For logits"),
            ([[math.nan, 1.0], [0.4, 0.6]], [0, 1], "finite; it holds 1 values"),
            ([0.9, 0.1], [0, 1], r"shape \[N, C\], not \[2\]"),
            (np.empty((0, 3)), [], r"must not be empty; its shape is \[0, 3\]"),
            (np.array([["a", "b"]]), [0], "real numbers"),
            (np.array([[1j, 0]]), [0], "real numbers"),
            (torch.tensor([[True, False]]), [0], "real numbers"),
            (GOOD, [0, 2], r"\[0, 2\); they reach from 0 to 2"),
            (GOOD, [-1, 0], "reach from -1 to 0"),
            (GOOD, [0], r"shape \[2\] .* not \[1\]"),
            (GOOD, [[0], [1]], r"not \[2, 1\]"),
            (GOOD, [0.0, 1.0], "integer type"),
        ],
    )
    @pytest.mark.parametrize(
        "function",
        [
            calibration_bins,
            expected_calibration_error,
            maximum_calibration_error,
            classwise_calibration_error,
            negative_log_likelihood,
            brier_score,
        ],
    )
    def test_bad_input(self, function, probs, labels, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            function(probs, labels)

    @pytest.mark.parametrize("n_bins", [0, -1, 2.5, True, "10"])
    def test_bad_number_of_bins(self, n_bins) -> None:
        with pytest.raises(ValueError, match="n_bins"):
            expected_calibration_error(self.GOOD, [0, 1], n_bins)

    def test_bad_scheme(self) -> None:
        with pytest.raises(ValueError, match="'width' or 'mass', not 'quantile'"):
            expected_calibration_error(self.GOOD, [0, 1], scheme="quantile")


def simplex(n: int, c: int, seed: int, concentration: float = 1.0) -> torch.Tensor:
    """Random probabilities, float64."""
    return torch.from_numpy(np.random.default_rng(seed).dirichlet([concentration] * c, size=n))


class TestBetaLink:
    @pytest.mark.parametrize("beta", [0.05, 0.5, 3.0, 20.0])
    def test_is_the_minimiser_of_the_expected_loss(self, beta: float) -> None:
        """For true probabilities π, minimise E[J] over the logits; the link of that softmax is π, and the inverse link finds it."""
        for pi in simplex(5, 4, seed=0).numpy():

            def expected_loss(free: np.ndarray, pi: np.ndarray = pi) -> float:
                z = np.append(free, 0.0)
                log_p = z - np.logaddexp.reduce(z)
                return float(pi @ (-log_p + np.log1p((beta - 1) * np.exp(log_p))))

            z = np.append(optimize.minimize(expected_loss, np.zeros(3), options={"gtol": 1e-8}).x, 0.0)
            softmax = np.exp(z) / np.exp(z).sum()
            np.testing.assert_allclose(beta_link(softmax, beta), pi, atol=1e-5)
            np.testing.assert_allclose(inverse_beta_link(pi, beta), softmax, atol=1e-4)

    @pytest.mark.parametrize("beta", BETAS)
    @pytest.mark.parametrize("concentration", [0.05, 1.0, 50.0])
    def test_round_trips(self, beta: float, concentration: float) -> None:
        pi = simplex(300, 5, seed=1, concentration=concentration)
        torch.testing.assert_close(beta_link(inverse_beta_link(pi, beta), beta), pi, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("beta", [0.01, 0.3, 1.0, 4.0, 100.0])
    def test_round_trips_the_other_way(self, beta: float) -> None:
        p = simplex(300, 5, seed=2)
        torch.testing.assert_close(inverse_beta_link(beta_link(p, beta), beta), p, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("beta", BETAS)
    def test_keeps_the_order_of_the_classes(self, beta: float) -> None:
        p = simplex(300, 6, seed=3)
        for image in (beta_link(p, beta), inverse_beta_link(p, beta)):
            torch.testing.assert_close(image.sum(-1), torch.ones(300, dtype=torch.float64))
            assert (image >= 0).all()
            assert (image.gather(-1, p.argsort(-1)).diff(dim=-1) >= -1e-12).all()

    def test_direction(self) -> None:
        """β < 1 trains the softmax sharper than the truth: the link flattens it."""
        p = torch.tensor([0.9, 0.1])
        assert beta_link(p, 0.1)[0] < 0.9 < beta_link(p, 10.0)[0]
        assert inverse_beta_link(p, 10.0)[0] < 0.9 < inverse_beta_link(p, 0.1)[0]
        torch.testing.assert_close(beta_link(p, 1.0), p)

    @pytest.mark.parametrize("link", [beta_link, inverse_beta_link])
    @pytest.mark.parametrize("beta", BETAS)
    def test_corners_and_centre_are_fixed(self, link, beta: float) -> None:
        points = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)
        torch.testing.assert_close(link(points, beta), points)

    @pytest.mark.parametrize("link", [beta_link, inverse_beta_link])
    def test_kind_and_type_are_kept(self, link) -> None:
        assert link(torch.tensor([0.5, 0.5], dtype=torch.float16), 0.5).dtype == torch.float16
        array = link(np.float32([[0.25, 0.75]]), 0.5)
        assert isinstance(array, np.ndarray) and array.dtype == np.float32 and array.shape == (1, 2)
        assert isinstance(link([0.25, 0.75], 0.5), np.ndarray)

    def test_a_beta_for_each_run(self) -> None:
        p = simplex(6, 3, seed=4).reshape(2, 3, 3)  # [R, N, C]
        stacked = beta_link(p, torch.tensor([[0.1], [3.0]]))
        torch.testing.assert_close(stacked[0], beta_link(p[0], 0.1), rtol=1e-6, atol=0)
        torch.testing.assert_close(stacked[1], beta_link(p[1], 3.0))
        backwards = inverse_beta_link(stacked, torch.tensor([[0.1], [3.0]]))
        torch.testing.assert_close(backwards, p)

    def test_gradient(self) -> None:
        logits = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
        assert torch.autograd.gradcheck(lambda z: beta_link(z.softmax(-1), 0.2), logits)

    def test_no_cancellation_near_one(self) -> None:
        """1 + (β − 1) p in float32 would lose six digits here; (1 − p) + β p does not."""
        p = torch.tensor([1 - 2.0**-20, 2.0**-20])
        f = [Fraction(float(x)) * (1 - Fraction(float(x)) + Fraction(1, 10**6) * Fraction(float(x))) for x in p]
        torch.testing.assert_close(beta_link(p, 1e-6), torch.tensor([float(x / sum(f)) for x in f]))

    @pytest.mark.parametrize(
        ("probs", "beta", "message"),
        [
            ([0.5, 0.5], 0.0, "positive, not 0.0"),
            ([0.5, 0.5], math.nan, "finite and positive"),
            ([0.5, 0.5], math.inf, "finite and positive"),
            ([0.5, 0.6], 0.5, "sum to 1"),
            ([], 0.5, "empty"),
            ([[0.5, 0.5]], torch.ones(3), r"\[3\] must broadcast to \[1\]"),
            ([[0.5, 0.5], [1.0, 0.0]], torch.ones(3), r"\[3\] must broadcast to \[2\]"),
        ],
    )
    @pytest.mark.parametrize("link", [beta_link, inverse_beta_link])
    def test_errors(self, link, probs, beta, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            link(probs, beta)
