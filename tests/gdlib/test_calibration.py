"""Bins, calibration errors and proper scores.

They are held against slow, obvious implementations, scipy and scikit-learn; edges to the last bit.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from gdlib import calibration
from gdlib.calibration import (
    bootstrap_calibration,
    brier_score,
    calibration_bins,
    classwise_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
)

Predictions = tuple[np.ndarray, np.ndarray]
Bins = list[list[tuple[float, bool]]]

SCHEMES = ["width", "mass"]
ERRORS = [
    expected_calibration_error,
    maximum_calibration_error,
    classwise_calibration_error,
    debiased_calibration_error,
]
SCORES = [brier_score, negative_log_likelihood]


@st.composite
def predictions(draw: st.DrawFn) -> Predictions:
    """Probabilities in tenths or twentieths, in two types, with labels.

    Ties and values on bin edges are frequent so.
    """
    n, c, grid = draw(st.integers(1, 25)), draw(st.integers(2, 5)), draw(st.sampled_from([10, 20]))
    cuts = draw(
        st.lists(
            st.lists(st.integers(0, grid), min_size=c - 1, max_size=c - 1), min_size=n, max_size=n
        )
    )
    counts = np.diff([[0, *sorted(row), grid] for row in cuts], axis=1)
    labels = draw(st.lists(st.integers(0, c - 1), min_size=n, max_size=n))
    return (counts / grid).astype(draw(st.sampled_from(["float64", "float32"]))), np.array(labels)


def random_predictions(n: int, c: int, seed: int, concentration: float = 0.5) -> Predictions:
    """Dirichlet probabilities and labels that are drawn from them.

    This is a perfectly calibrated predictor.
    """
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
        edges = [
            -1.0,
            *sorted(
                {
                    in_order[math.ceil(i * n / n_bins) - 1]
                    for i in range(1, n_bins + 1)
                    if math.ceil(i * n / n_bins) >= 1
                }
            ),
        ]
    rows: Bins = []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        rows.append(
            [(float(v), bool(c)) for v, c in pairs if low < v <= high or (i == 0 and v == 0)]
        )
    return rows


def slow_gaps(rows: Bins) -> list[tuple[int, float, float, float]]:
    """For each bin that is not empty: samples, mean, share of correct ones, and the gap.

    The gap is the distance of the mean value from the share of correct ones.
    """
    out = []
    for row in rows:
        if row:
            confidence, accuracy = (
                math.fsum(v for v, _ in row) / len(row),
                sum(c for _, c in row) / len(row),
            )
            out.append((len(row), confidence, accuracy, abs(confidence - accuracy)))
    return out


def top(p: np.ndarray, y: np.ndarray) -> Predictions:
    return p.max(axis=1), p.argmax(axis=1) == y


def slow_debiased_squares(rows: Bins) -> float:
    total = sum(len(row) for row in rows)
    return sum(
        n / total * (gap**2 - a * (1 - a) / (n - 1)) for n, _, a, gap in slow_gaps(rows) if n > 1
    )


def two_classes(confidence: list[float] | np.ndarray) -> np.ndarray:
    """Rows (p, 1 − p)."""
    return np.stack([np.asarray(confidence), 1 - np.asarray(confidence)], axis=1)


class TestAgainstTheSlowWay:
    @given(predictions(), st.integers(1, 30), st.sampled_from(SCHEMES))
    def test_bins_expected_and_maximum(self, given_: Predictions, n_bins: int, scheme: str) -> None:
        p, y = given_
        rows = slow_bins(*top(p, y), n_bins, scheme)
        gaps = slow_gaps(rows)
        bins = calibration_bins(p, y, n_bins, scheme)
        filled = bins.count > 0
        assert bins.count.tolist() == [len(row) for row in rows] and bins.n == len(y)
        assert np.isnan(bins.gap).tolist() == (~filled).tolist()
        np.testing.assert_allclose(
            bins.confidence[filled], [confidence for _, confidence, _, _ in gaps], rtol=1e-12
        )
        np.testing.assert_allclose(
            bins.accuracy[filled], [accuracy for _, _, accuracy, _ in gaps], rtol=1e-12
        )
        assert bins.overconfidence == pytest.approx(
            p.astype(float).max(1).mean() - (p.argmax(1) == y).mean(), abs=1e-12
        )
        expected = sum(n * gap for n, _, _, gap in gaps) / len(y)
        assert abs(bins.overconfidence) <= expected + 1e-12
        assert (
            bins.expected_error
            == expected_calibration_error(p, y, n_bins, scheme)
            == pytest.approx(expected, abs=1e-12)
        )
        assert maximum_calibration_error(p, y, n_bins, scheme) == pytest.approx(
            max(gap for *_, gap in gaps), abs=1e-12
        )
        if scheme == "mass":
            assert (
                filled.all()
                and len(bins.count) <= min(n_bins, len(y))
                and (np.diff(bins.upper) > 0).all()
            )
            assert bins.upper[-1] == p.max()

    @given(predictions(), st.integers(1, 30), st.sampled_from(SCHEMES))
    def test_classwise(self, given_: Predictions, n_bins: int, scheme: str) -> None:
        p, y = given_
        errors = []
        for c in range(p.shape[1]):
            gaps = slow_gaps(slow_bins(p[:, c], y == c, n_bins, scheme))
            errors.append(sum(n * g for n, _, _, g in gaps) / len(y))
        assert classwise_calibration_error(p, y, n_bins, scheme) == pytest.approx(
            sum(errors) / len(errors), abs=1e-12
        )

    @given(predictions(), st.integers(1, 30), st.sampled_from(SCHEMES))
    def test_debiased(self, given_: Predictions, n_bins: int, scheme: str) -> None:
        p, y = given_
        rows = slow_bins(*top(p, y), n_bins, scheme)
        if all(len(row) < 2 for row in rows):
            with pytest.raises(ValueError, match="no bin holds two"):
                debiased_calibration_error(p, y, n_bins, scheme)
            return
        squares = slow_debiased_squares(rows)
        assert calibration_bins(p, y, n_bins, scheme).debiased_squared_error == pytest.approx(
            squares, abs=1e-12
        )
        assert debiased_calibration_error(p, y, n_bins, scheme) ** 2 == pytest.approx(
            max(0, squares), abs=1e-12
        )

    @given(predictions())
    def test_proper_scores(self, given_: Predictions) -> None:
        p, y = given_[0].astype("float64"), given_[1]
        brier = sum(
            sum((value - (c == label)) ** 2 for c, value in enumerate(row))
            for row, label in zip(p, y, strict=True)
        ) / len(y)
        assert brier_score(p, y) == pytest.approx(brier, abs=1e-12)
        likelihoods = [row[label] for row, label in zip(p, y, strict=True)]
        expected = (
            math.inf
            if 0 in likelihoods
            else -math.fsum(math.log(value) for value in likelihoods) / len(y)
        )
        assert negative_log_likelihood(p, y) == pytest.approx(expected, abs=1e-12)

    def test_equal_mass_without_ties_is_even(self) -> None:
        confidence = np.random.default_rng(0).uniform(0.5, 1, size=100)
        assert (
            calibration_bins(two_classes(confidence), np.zeros(100, int), 10, "mass").count.tolist()
            == [10] * 10
        )


class TestAgainstScikitLearn:
    @pytest.mark.parametrize(("scheme", "strategy"), [("width", "uniform"), ("mass", "quantile")])
    def test_calibration_curve(self, scheme: str, strategy: str) -> None:
        for n_bins in (1, 5, 10, 20):
            p, y = random_predictions(400, 4, seed=n_bins)
            bins = calibration_bins(p, y, n_bins, scheme)
            confidence, correct = top(p, y)
            accuracy, mean = calibration_curve(
                correct, confidence, n_bins=n_bins, strategy=strategy
            )
            np.testing.assert_allclose(
                bins.accuracy[bins.count > 0], accuracy, rtol=0, atol=1e-12, err_msg=f"{n_bins}"
            )
            np.testing.assert_allclose(
                bins.confidence[bins.count > 0], mean, rtol=0, atol=1e-12, err_msg=f"{n_bins}"
            )

    def test_scores(self) -> None:
        p, y = random_predictions(300, 5, seed=0)
        assert negative_log_likelihood(p, y) == pytest.approx(
            log_loss(y, p, labels=range(5)), abs=1e-12
        )
        p, y = random_predictions(300, 2, seed=1)
        assert brier_score(p, y) == pytest.approx(
            2 * brier_score_loss(y, p[:, 1]), abs=1e-12
        )  # summed over both classes


class TestEdges:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_an_edge_belongs_to_the_bin_below_in_every_type(self, dtype: torch.dtype) -> None:
        for n_bins in (3, 7, 10, 15, 20):
            edges = torch.tensor([i / n_bins for i in range(n_bins + 1)], dtype=torch.float64).to(
                dtype
            )
            probs = torch.stack([edges, 1 - edges], dim=1)[
                n_bins // 2 + 1 :
            ]  # confidences above 1/2
            bins = calibration_bins(probs, torch.zeros(len(probs), dtype=torch.int64), n_bins)
            assert bins.count[n_bins // 2 :].tolist() == [1] * (n_bins - n_bins // 2)

    def test_neighbours_of_an_edge(self) -> None:
        for p, index in (
            (0.6, 5),
            (np.nextafter(0.6, 1), 6),
            (np.nextafter(0.6, 0), 5),
            (1.0, 9),
            (0.5, 4),
        ):
            assert calibration_bins(two_classes([p]), [0]).count.argmax() == index, p

    def test_zero_and_one(self) -> None:
        bins = calibration_bins([[1.0, 0.0]], [0])
        assert len(bins.count) == 10 and bins.count[9] == 1, "1.0 has no bin of its own"

    def test_a_confidence_rounded_above_one(self) -> None:
        p = np.float32([[1 + 1e-6, 0.0]])
        assert calibration_bins(p, [0]).count[9] == 1


class TestAdversarial:
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_all_sure(self, scheme: str) -> None:
        p, y = np.eye(3)[[0, 0, 1, 2, 2]], [0, 1, 1, 2, 0]
        for n_bins in (1, 2, 10, 1000):
            assert expected_calibration_error(p, y, n_bins, scheme) == pytest.approx(0.4, abs=1e-12)
            assert maximum_calibration_error(p, y, n_bins, scheme) == pytest.approx(0.4, abs=1e-12)
            assert calibration_bins(p, y, n_bins, scheme).count[-1] == 5
            assert debiased_calibration_error(p, y, n_bins, scheme) == pytest.approx(
                math.sqrt(0.16 - 0.24 / 4), abs=1e-12
            )

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_all_wrong_and_sure(self, scheme: str) -> None:
        p = np.eye(2)[[0] * 6]
        for error in ERRORS:
            assert error(p, [1] * 6, scheme=scheme) == 1.0

    def test_one_class_at_all(self) -> None:
        assert (
            expected_calibration_error([[1.0], [1.0]], [0, 0])
            == classwise_calibration_error([[1.0], [1.0]], [0, 0])
            == 0
        )

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_a_single_sample(self, scheme: str) -> None:
        for n_bins, (label, error) in itertools.product((1, 10, 37), ((0, 0.3), (1, 0.7))):
            assert expected_calibration_error(
                [[0.7, 0.3]], [label], n_bins, scheme
            ) == pytest.approx(error, abs=1e-12)
            assert maximum_calibration_error(
                [[0.7, 0.3]], [label], n_bins, scheme
            ) == pytest.approx(error, abs=1e-12)
            with pytest.raises(ValueError, match="no bin holds two of the 1 samples"):
                debiased_calibration_error([[0.7, 0.3]], [label], n_bins, scheme)

    def test_duplicates_share_a_bin_of_mass(self) -> None:
        p = np.array([[0.6, 0.4]] * 7 + [[0.9, 0.1]] * 2)
        bins = calibration_bins(p, [0] * 9, 4, "mass")
        assert bins.count.tolist() == [7, 2] and bins.upper.tolist() == [0.6, 0.9]

    def test_products_beside_the_edges(self) -> None:
        """0.6 as k/10 is an edge and belongs below it.

        6 * 0.1 is the next double and belongs above it.
        """
        assert (
            calibration_bins(two_classes(np.arange(5, 11) / 10), [0] * 6).count.tolist()
            == [0] * 4 + [1] * 6
        )
        assert calibration_bins(two_classes(np.arange(5, 11) * 0.1), [0] * 6).count.tolist() == [
            0
        ] * 4 + [1, 0, 1, 2, 1, 1]


class TestDebiased:
    def test_is_unbiased(self) -> None:
        """All outcomes of n samples, weighed by their probability.

        A sample is right with probability ``truth``.
        """
        for confidence, truth, n in ((0.9, 0.6, 2), (0.7, 0.7, 5), (0.55, 1.0, 4), (1.0, 0.3, 8)):
            expected = 0.0
            for outcome in itertools.product([0, 1], repeat=n):
                probability = math.prod(1 - truth if wrong else truth for wrong in outcome)
                bins = calibration_bins([[confidence, 1 - confidence]] * n, list(outcome))
                expected += probability * bins.debiased_squared_error
            assert expected == pytest.approx((confidence - truth) ** 2, abs=1e-12), (
                confidence,
                truth,
                n,
            )

    def test_a_calibrated_predictor_has_none(self) -> None:
        each = [calibration_bins(*random_predictions(300, 5, seed=seed), 15) for seed in range(60)]
        biased = np.mean([np.nansum(bins.count * bins.gap**2) / bins.n for bins in each])
        assert abs(np.mean([bins.debiased_squared_error for bins in each])) < 0.15 * biased

    @given(predictions(), st.sampled_from(SCHEMES))
    def test_never_above_the_plain_error(self, given_: Predictions, scheme: str) -> None:
        p, y = given_
        p, y = np.concatenate([p, p]), np.concatenate([y, y])  # so that a bin holds two
        bins = calibration_bins(p, y, 5, scheme)
        assert (
            0
            <= debiased_calibration_error(p, y, 5, scheme)
            <= math.sqrt(np.nansum(bins.count * bins.gap**2) / bins.n) + 1e-12
        )


class TestInvariance:
    def test_order_of_samples_and_names_of_classes(self) -> None:
        for seed in range(5):
            p, y = random_predictions(100, 6, seed=seed)
            generator = np.random.default_rng(seed)
            order, samples = generator.permutation(6), generator.permutation(100)
            renamed, moved = p[samples][:, order], order.argsort()[y[samples]]
            for error, scheme in itertools.product(ERRORS, SCHEMES):
                assert error(renamed, moved, 7, scheme) == pytest.approx(
                    error(p, y, 7, scheme), abs=1e-12
                )
            for score in SCORES:
                assert score(renamed, moved) == pytest.approx(score(p, y), abs=1e-12)


class TestKinds:
    ROWS = [[0.9, 0.1], [0.35, 0.65], [0.6, 0.4]]

    def test_every_float_of_numpy(self) -> None:
        for kind in ("<f4", ">f4", ">f8", "g"):
            p = np.array(self.ROWS, dtype=kind)
            p.setflags(write=False)
            expected = expected_calibration_error(
                p.astype("f4") if "4" in kind else p.astype("f8"), [0, 0, 1]
            )
            assert expected_calibration_error(p, np.array([0, 0, 1], dtype=">i2")) == expected, kind

    def test_tensors_and_lists(self) -> None:
        p = torch.tensor(self.ROWS, dtype=torch.float64, requires_grad=True)
        expected = expected_calibration_error(self.ROWS, [0, 0, 1])
        assert (
            expected_calibration_error(p.repeat(1, 2)[:, :2], torch.tensor([0, 0, 1])) == expected
        )  # a strided view with a gradient
        for one, other in zip(
            dataclasses.astuple(calibration_bins(p, [0, 0, 1])),
            dataclasses.astuple(calibration_bins(self.ROWS, [0, 0, 1])),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
        assert (
            expected_calibration_error(
                torch.tensor([[1, 0], [0, 1]]), torch.tensor([0, 0], dtype=torch.uint8)
            )
            == 0.5
        )

    def test_half_precision_softmax_passes_the_check(self) -> None:
        logits = torch.randn(200, 1000, generator=torch.Generator().manual_seed(0))
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            assert (
                calibration_bins(
                    logits.softmax(-1).to(dtype), torch.zeros(200, dtype=torch.int64)
                ).n
                == 200
            )


class TestErrors:
    GOOD = [[0.9, 0.1], [0.4, 0.6]]

    def test_bad_input(self) -> None:
        good = self.GOOD
        for probs, labels, message in [
            ([[0.9, 0.2], [0.4, 0.6]], [0, 1], "sum to 1 .* deviation is 0.1"),
            ([[0.2, 0.1], [0.4, 0.6]], [0, 1], "sum to 1"),
            (
                [[1.5, -0.5], [0.4, 0.6]],
                [0, 1],
                "from -0.5 to 1.5. For logits, apply softmax first",
            ),
            ([[math.nan, 1.0], [0.4, 0.6]], [0, 1], "finite; 1 values"),
            ([[math.inf, 0.0], [0.4, 0.6]], [0, 1], "finite"),
            (np.ma.masked_array(good, [[True, False], [False, False]]), [0, 1], "masked"),
            ([0.9, 0.1], [0, 1], r"shape \[N, C\] or .*, not \[2\]"),
            (0.5, 0, r"not \[\]"),
            ([], [], r"shape \[N, C\]"),
            (np.empty((0, 3)), [], r"not be empty, not \[0, 3\]"),
            (np.empty((3, 0)), [0, 0, 0], "not be empty"),
            (np.array([["0.9", "0.1"]]), [0], "real numbers"),
            (
                [[0.9, None], [0.4, 0.6]],
                [0, 1],
                r"real numbers, .*convert it with .astype\(float\)",
            ),
            (np.array([[1j, 0]]), [0], "real numbers"),
            (torch.tensor([[True, False]]), [0], "real numbers"),
            (torch.tensor([[1j, 0]]), [0], "real numbers"),
            (good, [0, 2], r"\[0, 2\); they reach from 0 to 2"),
            (good, [-1, 0], "reach from -1 to 0"),
            (good, np.array([0, 2**64 - 1], dtype=np.uint64), r"must lie in \[0, 2\)"),
            (good, [True, False], "real numbers"),
            (good, [0], r"shape \[2\] .* not \[1\]"),
            (good, [0, 1, 1], r"not \[3\]"),
            (good, [[0], [1]], r"not \[2, 1\]"),
            (good, [0.0, 1.0], "integer type"),
            (good, [[0.9, 0.1], [0.2, 0.8]], "take argmax first"),
        ]:
            for function in (*ERRORS, *SCORES, calibration_bins, bootstrap_calibration):
                with pytest.raises(ValueError, match=message):
                    function(probs, labels)

    def test_bad_options(self) -> None:
        for error in ERRORS:
            for n_bins in (0, -1, 2.5, True, "10"):
                with pytest.raises(ValueError, match="n_bins must be"):
                    error(self.GOOD * 2, [0, 1, 0, 1], n_bins)
            with pytest.raises(ValueError, match="'width' or 'mass', not 'quantile'"):
                error(self.GOOD * 2, [0, 1, 0, 1], scheme="quantile")


class TestOneClassAxis:
    """Probabilities and labels as the losses take them.

    Classes come second; there are further dimensions and ignored samples.
    """

    MEASURES = (
        calibration.expected_calibration_error,
        calibration.maximum_calibration_error,
        calibration.classwise_calibration_error,
        calibration.debiased_calibration_error,
        calibration.negative_log_likelihood,
        calibration.brier_score,
    )

    def images(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(6, 3, 4, 5, generator=generator)
        labels = torch.randint(0, 3, (6, 4, 5), generator=generator)
        labels[0], labels[2, 1, 3] = -100, -100
        counted = labels != -100
        rows = logits.movedim(1, -1)[counted]
        return logits, labels, rows, labels[counted]

    def test_measures(self) -> None:
        logits, labels, rows, own = self.images()
        for measure in self.MEASURES:
            expected = measure(rows.softmax(1), own)
            assert measure(logits.softmax(1), labels) == pytest.approx(expected, rel=1e-6)
            marked = labels.where(labels != -100, 255)
            found = measure(logits.softmax(1).numpy(), marked.numpy(), ignore_index=255)
            assert found == pytest.approx(expected, rel=1e-6)

    def test_intervals(self) -> None:
        logits, labels, rows, own = self.images()
        for measure in (calibration.expected_calibration_error, calibration.brier_score):
            options = {"measure": measure, "resamples": 20}
            found = calibration.bootstrap_calibration(logits.softmax(1), labels, **options)
            expected = calibration.bootstrap_calibration(rows.softmax(1), own, **options)
            assert found == pytest.approx(expected, rel=1e-6)

    def test_scalings(self) -> None:
        logits, labels, rows, own = self.images()
        one = calibration.TemperatureScaling().fit(logits, labels)
        assert one.temperature == calibration.TemperatureScaling().fit(rows, own).temperature
        two, flat = (calibration.VectorScaling() for _ in range(2))
        two.fit(logits, labels)
        flat.fit(rows, own)
        torch.testing.assert_close(two.weight, flat.weight, rtol=0, atol=0)
        found = two.transform(logits).movedim(1, -1)
        last = flat.transform(logits.movedim(1, -1), dim=-1)
        torch.testing.assert_close(found, last, rtol=0, atol=0)

    def test_errors_say_what_to_do(self) -> None:
        logits, labels, *_ = self.images()
        with pytest.raises(ValueError, match=r"probs\.movedim\(-1, 1\)"):
            calibration.brier_score(logits.movedim(1, -1).softmax(-1), labels)
        with pytest.raises(ValueError, match="no sample counts"):
            calibration.brier_score(logits.softmax(1), torch.full_like(labels, -100))
        with pytest.raises(ValueError, match=r"labels must lie in \[0, 3\)"):
            calibration.brier_score(logits.softmax(1), labels, ignore_index=2)
        fitted = calibration.VectorScaling().fit(logits, labels)
        with pytest.raises(ValueError, match="use dim to name a different class dimension"):
            fitted.transform(logits.movedim(1, -1))
        with pytest.raises(ValueError, match="dim must name one of the"):
            fitted.transform(logits, dim=7)
