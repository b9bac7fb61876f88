"""Bootstrap intervals of calibration measures.

They are equal to a plain loop, of the right size, and honest about bad input.
"""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import log_loss

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


def over_confident(n: int, seed: int = 0, excess: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """Two classes; the first is predicted with a confidence in [0.7, 1].

    It is true with a probability that is ``excess`` below that.
    """
    generator = np.random.default_rng(seed)
    confidence = generator.uniform(0.7, 1, n)
    return np.stack([confidence, 1 - confidence], 1), (
        generator.random(n) > confidence - excess
    ).astype(int)


MEASURES = [
    expected_calibration_error,
    partial(expected_calibration_error, n_bins=15, scheme="mass"),
    maximum_calibration_error,
    negative_log_likelihood,
    brier_score,
    classwise_calibration_error,
]


class TestAgainstAPlainLoop:
    def test_same_draws(self) -> None:
        p, y = over_confident(60)
        generator = np.random.default_rng(7)
        draws = [generator.integers(60, size=60) for _ in range(50)]
        for measure in MEASURES:
            low, high = np.quantile([measure(p[draw], y[draw]) for draw in draws], [0.05, 0.95])
            reflected = max(0, 2 * measure(p, y) - high), max(0, 2 * measure(p, y) - low)
            interval = bootstrap_calibration(p, y, measure, resamples=50, level=0.9, seed=7)
            assert interval == pytest.approx((measure(p, y), *reflected), abs=1e-12), measure

    @pytest.mark.parametrize("scheme", ["width", "mass"])
    def test_the_debiased_error_by_its_squares(self, scheme: str) -> None:
        p, y = over_confident(60)
        generator = np.random.default_rng(7)
        draws = [generator.integers(60, size=60) for _ in range(50)]
        squares = [
            calibration_bins(p[d], y[d], scheme=scheme).debiased_squared_error for d in draws
        ]
        bins = calibration_bins(p, y, scheme=scheme)
        several = bins.count > 1
        biased = (bins.count * bins.gap**2)[several].sum() / 60
        middle = biased + bins.debiased_squared_error
        ends = [max(0, middle - np.quantile(squares, level)) ** 0.5 for level in (0.95, 0.05)]
        measure = partial(debiased_calibration_error, scheme=scheme, ignore_index=-100)
        interval = bootstrap_calibration(p, y, measure, resamples=50, level=0.9, seed=7)
        assert interval == pytest.approx((measure(p, y), *ends), abs=1e-12)

    def test_the_edges_follow_the_type(self) -> None:
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            p = torch.tensor([k / 10 for k in range(5, 11)] * 5, dtype=dtype)
            p, y = torch.stack([p, 1 - p], 1), torch.arange(30) % 2
            known = bootstrap_calibration(p, y, resamples=20)
            plain = bootstrap_calibration(
                p, y, lambda probs, labels: expected_calibration_error(probs, labels), resamples=20
            )
            assert known == pytest.approx(plain, abs=1e-12)


class TestInterval:
    def test_is_a_tuple_with_names(self) -> None:
        interval = bootstrap_calibration(*over_confident(200), resamples=100)
        estimate, low, high = interval
        assert (estimate, low, high) == (interval.estimate, interval.low, interval.high)
        assert estimate == expected_calibration_error(*over_confident(200))
        assert 0 <= low < high

    def test_a_seed_gives_one_interval(self) -> None:
        p, y = over_confident(200)
        one, two, other = (
            bootstrap_calibration(p, y, resamples=100, seed=seed) for seed in (1, 1, 2)
        )
        assert one == two and one.estimate == other.estimate and one != other

    def test_of_a_mean_is_that_of_the_normal_distribution(self) -> None:
        p, y = over_confident(2000)
        scores = -np.log(p[np.arange(2000), y])
        half = stats.norm.ppf(0.975) * scores.std() / math.sqrt(2000)
        interval = bootstrap_calibration(p, y, negative_log_likelihood, resamples=2000)
        assert interval.low == pytest.approx(scores.mean() - half, abs=0.1 * half)
        assert interval.high == pytest.approx(scores.mean() + half, abs=0.1 * half)

    def test_holds_the_truth(self) -> None:
        """The error is 0.15 in every bin; 95 % intervals of 60 samples of 1,000."""
        intervals = [
            bootstrap_calibration(*over_confident(1000, seed=seed), resamples=200)
            for seed in range(60)
        ]
        assert sum(low <= 0.15 <= high for _, low, high in intervals) >= 52

    @pytest.mark.parametrize(("error", "samples"), [(0.02, 500), (0.05, 500), (0.11, 2000)])
    def test_of_the_debiased_error_holds_the_truth(self, error: float, samples: int) -> None:
        """Five confidences, each off by the error; 95 % intervals, at least 52 of 60."""
        held = 0
        for seed in range(60):
            generator = np.random.default_rng(seed)
            confidence = generator.choice([0.55, 0.65, 0.75, 0.85, 0.95], size=samples)
            wrong = generator.random(samples) > confidence - error
            _, low, high = bootstrap_calibration(
                np.stack([confidence, 1 - confidence], 1),
                wrong.astype(int),
                debiased_calibration_error,
                resamples=200,
            )
            held += low <= error <= high
        assert held >= 52

    def test_no_error_exceeds_1(self) -> None:
        """One of fifty is right at a confidence of 1; twice 0.98 minus a quantile would be 1.02."""
        p, y = np.eye(2)[np.zeros(50, dtype=int)], np.array([0] + [1] * 49)
        for measure in (
            expected_calibration_error,
            debiased_calibration_error,
            classwise_calibration_error,
            partial(expected_calibration_error, ignore_index=-100),
        ):
            assert 0.9 < bootstrap_calibration(p, y, measure, resamples=100).high <= 1.0

    def test_more_samples_make_it_shorter(self) -> None:
        lengths = []
        for n in (200, 3200):
            _, low, high = bootstrap_calibration(*over_confident(n), resamples=300)
            lengths.append(high - low)
        assert lengths[0] / lengths[1] == pytest.approx(4, rel=0.35)

    def test_nothing_varies(self) -> None:
        p = np.eye(2)[[0, 0, 1, 1]]
        assert bootstrap_calibration(p, [0, 0, 1, 1], resamples=20) == (0, 0, 0)

    def test_of_a_measure_that_is_never_negative_neither_are_the_ends(self) -> None:
        """Nearly calibrated: twice the estimate minus a quantile would be negative."""
        generator = torch.Generator().manual_seed(0)
        confidence = torch.rand(300, generator=generator) / 2 + 0.5
        right = torch.rand(300, generator=generator) < confidence
        probs = torch.stack([confidence, 1 - confidence], 1)
        interval = bootstrap_calibration(probs, (~right).long(), resamples=200)
        assert interval.low == 0.0 < interval.high

    def test_a_signed_measure_keeps_its_sign(self) -> None:
        def overconfidence(p: np.ndarray, y: np.ndarray) -> float:
            return float((p.max(1) - (p.argmax(1) == y)).mean())

        p, y = over_confident(500, excess=0.0)
        _, low, high = bootstrap_calibration(p, y, overconfidence, resamples=200)
        assert low < 0 < high


class TestKinds:
    def test_a_function_of_ones_own_gets_what_was_given(self) -> None:
        p, y = over_confident(30)
        seen: list[tuple[type, type]] = []

        def measure(probs, labels) -> float:
            seen.append((type(probs), type(labels)))
            return 0.5

        bootstrap_calibration(p, y, measure, resamples=2)
        bootstrap_calibration(
            torch.from_numpy(p).requires_grad_(), y.tolist(), measure, resamples=2
        )
        bootstrap_calibration(p.tolist(), y.tolist(), measure, resamples=2)
        arrays, tensors = (np.ndarray, np.ndarray), (torch.Tensor, torch.Tensor)
        assert seen == [arrays] * 3 + [tensors] * 3 + [arrays] * 3

    def test_a_function_of_scikit_learn(self) -> None:
        p, y = over_confident(100)
        theirs = bootstrap_calibration(
            p, y, lambda probs, labels: log_loss(labels, probs, labels=[0, 1]), resamples=30
        )
        assert theirs == pytest.approx(
            bootstrap_calibration(p, y, negative_log_likelihood, resamples=30), abs=1e-12
        )


class TestErrors:
    GOOD = ([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]], [0, 1, 1])

    def test_bad_options(self) -> None:
        for options, message in [
            ({"resamples": 0}, "resamples must be a whole number"),
            ({"resamples": 10.5}, "resamples must be a whole number"),
            ({"level": 0.0}, "level must lie between 0 and 1"),
            ({"level": 95}, "level must lie between 0 and 1"),
            ({"level": math.nan}, "level must lie between 0 and 1"),
            ({"measure": lambda probs, labels: math.nan}, "the measure is nan"),
            ({"measure": partial(expected_calibration_error, n_bins=0)}, "n_bins"),
            ({"measure": partial(expected_calibration_error, scheme="quantile")}, "scheme"),
        ]:
            with pytest.raises(ValueError, match=message):
                bootstrap_calibration(*self.GOOD, **options)

    def test_an_infinite_likelihood(self) -> None:
        with pytest.raises(ValueError, match="the measure is inf"):
            bootstrap_calibration([[1.0, 0.0], [0.5, 0.5]], [1, 0], negative_log_likelihood)

    def test_a_single_sample(self) -> None:
        with pytest.raises(ValueError, match="at least two samples"):
            bootstrap_calibration([[0.9, 0.1]], [0])


def test_a_measure_that_is_not_finite_for_a_resample_is_refused():
    probs, labels = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]), np.array([0, 1, 0])

    def correlation(p, y):
        with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.corrcoef(p[:, 0], y)[0, 1]

    with pytest.raises(ValueError, match="not finite for .* of 200 resamples"):
        bootstrap_calibration(probs, labels, correlation, resamples=200)
