"""Schedules: exact ends, a straight line between them, held after the end."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gdlib.functional import gd_cross_entropy
from gdlib.models import StackedMLP
from gdlib.schedules import ConfidenceFeedback, Constant, LinearWarmup
from gdlib.train import RunLoss, train

VALUES = st.floats(1e-6, 1e6)


class TestConstant:
    @given(VALUES, st.integers(0, 10**9))
    def test_is_the_value(self, value, step):
        assert Constant(value)(step) == value

    def test_takes_numbers_of_numpy(self):
        assert (
            LinearWarmup(np.float32(0.5), np.float64(1), np.int64(2))(1) == 0.75
            and Constant(np.float32(0.5))(0) == 0.5
        )

    @pytest.mark.parametrize("value", [math.nan, math.inf, "0.1", None, True])
    def test_refuses_what_is_no_number(self, value):
        with pytest.raises(ValueError, match="value must be a finite number"):
            Constant(value)

    def test_label(self):
        assert [str(Constant(value)) for value in (1.0, 0.1, 5)] == ["1", "0.1", "5"]


class TestLinearWarmup:
    @given(VALUES, VALUES, st.integers(1, 10**6), st.integers(0, 10**9))
    def test_exact_ends_and_held(self, start, end, steps, beyond):
        warmup = LinearWarmup(start, end, steps)
        assert warmup(0) == start
        assert warmup(steps) == warmup(steps + beyond) == warmup(math.inf) == end

    @given(VALUES, VALUES, st.integers(2, 1000), st.integers(0, 1000))
    def test_straight_line(self, start, end, steps, step):
        exact = Fraction(start) + (Fraction(end) - Fraction(start)) * min(Fraction(step, steps), 1)
        assert LinearWarmup(start, end, steps)(step) == pytest.approx(
            float(exact), rel=1e-12, abs=1e-15 * max(start, end)
        )

    @given(VALUES, VALUES, st.integers(1, 1000), st.integers(0, 1000))
    def test_never_turns_back(self, start, end, steps, step):
        warmup = LinearWarmup(start, end, steps)
        ahead = warmup(step + 1) - warmup(step)
        assert ahead * (end - start) >= 0

    def test_by_hand(self):
        assert [LinearWarmup(0.01, 0.1, 10)(step) for step in (0, 5, 10, 1000)] == pytest.approx(
            [0.01, 0.055, 0.1, 0.1], rel=1e-15
        )
        assert [LinearWarmup(5.0, 1.0, 4)(step) for step in range(6)] == [
            5.0,
            4.0,
            3.0,
            2.0,
            1.0,
            1.0,
        ]  # a warm-up may fall

    @pytest.mark.parametrize("steps", [0, -1, math.nan, math.inf, "10"])
    def test_refuses_a_warmup_without_length(self, steps):
        with pytest.raises(ValueError, match="steps must be"):
            LinearWarmup(0.01, 0.1, steps)

    def test_refuses_a_negative_step(self):
        with pytest.raises(ValueError, match="step must be >= 0"):
            LinearWarmup(0.01, 0.1, 10)(-1)

    def test_label(self):
        assert str(LinearWarmup(0.001, 0.01, 50)) == "warm-up 0.001→0.01"


def measured(confidence: float, accuracy: float) -> dict[str, float]:
    return {"valid_confidence": confidence, "valid_accuracy": accuracy}


class TestConfidenceFeedback:
    def test_by_hand(self):
        feedback = ConfidenceFeedback(2.0, 3.0, 5.0)
        assert feedback(0) == pytest.approx(2.0)
        for confidence, accuracy, log_gain in (
            (0.9, 0.8, 3 * 0.1 + 5 * 0.1),
            (0.7, 0.9, -3 * 0.2 - 5 * 0.1),
            (0.5, 0.5, -5 * 0.1),
        ):
            feedback.update(measured(confidence, accuracy))
            assert feedback(7) == feedback(10**6) == pytest.approx(2 * math.exp(log_gain))

    def test_drives_the_gap_of_a_simple_network_to_zero(self):
        feedback, gap = ConfidenceFeedback(1.0, 2.0, 5.0), 0.1
        for _ in range(100):
            gap = 0.1 - 0.05 * math.log(feedback(0))  # a larger β, less confidence
            feedback.update(measured(0.9 + gap, 0.9))
        assert abs(gap) < 1e-6 and feedback(0) == pytest.approx(math.exp(2))

    def test_stays_within_its_ends_and_comes_back_at_once(self):
        feedback = ConfidenceFeedback(1.0, 0.0, 10.0)
        for _ in range(100):
            feedback.update(measured(1.0, 0.5))
        assert feedback(0) == pytest.approx(100)
        feedback.update(measured(0.5, 0.6))
        assert feedback(0) < 50
        for _ in range(100):
            feedback.update(measured(0.2, 0.9))
        assert feedback(0) == pytest.approx(0.01)

    def test_a_diverged_network_changes_nothing(self):
        feedback = ConfidenceFeedback(0.5, 1.0, 1.0)
        feedback.update(measured(math.nan, 0.1))
        assert feedback(0) == pytest.approx(0.5)

    def test_in_a_training_every_run_has_its_own(self):
        """``train`` once called ``update`` with a mapping that it did not take."""
        gaps = [[0.1, -0.2], [0.3, 0.0], [-0.1, 0.1]]  # of each epoch, of the two runs

        def trained(runs: list[int], schedule) -> list[list[float]]:
            def measure(model, epoch):
                gap = torch.tensor(gaps[epoch])[runs]
                return {"valid_confidence": 0.5 + gap, "valid_accuracy": torch.full_like(gap, 0.5)}

            def loss_fn(logits, labels, beta):
                return gd_cross_entropy(
                    logits.movedim(2, 1), labels, beta=beta[:, None], reduction="none"
                )

            samples, options = (
                (torch.zeros(4, 1), torch.zeros(4).long()),
                {"epochs": 2, "batch_size": 4, "lr": 0.1},
            )
            history = train(
                StackedMLP([1, 2], [0] * len(runs)),
                RunLoss(loss_fn),
                samples,
                betas=schedule,
                measure=measure,
                **options,
            )
            return torch.stack([entry["beta"].log() for entry in history], 1).tolist()

        expected = [[0.4, 0.3 * 3 + 0.4, -0.1 * 3 + 0.3], [-0.2 * 4, -0.2, 0.1 * 3 - 0.1]]
        new = partial(ConfidenceFeedback, 1.0, 3.0, 1.0)
        assert trained([0], new())[0] == pytest.approx(
            expected[0], abs=1e-6
        )  # one run, one feedback
        assert trained([0, 1], [new(), new()]) == [
            pytest.approx(values, abs=1e-6) for values in expected
        ]
        assert trained([0, 1], [Constant(1.0), new()]) == [
            pytest.approx(values, abs=1e-6) for values in ([0.0] * 3, expected[1])
        ]
        with pytest.raises(ValueError, match="give every run a schedule of its own"):
            trained([0, 1], new())

    def test_without_its_measurements(self):
        for without in ({}, {"test_accuracy": 0.9}, {"valid_accuracy": 0.9}):
            with pytest.raises(
                ValueError,
                match=r"let measure return valid_confidence and valid_accuracy, "
                r"\[R\] each, after every epoch",
            ):
                ConfidenceFeedback(1.0, 1.0, 1.0).update(without)

    def test_refusals_and_label(self):
        for numbers in (
            (0.0, 1.0, 1.0),
            (101.0, 1.0, 1.0),
            (1.0, -1.0, 1.0),
            (1.0, 1.0, -1.0),
            (math.inf, 1.0, 1.0),
        ):
            with pytest.raises(ValueError, match="must be"):
                ConfidenceFeedback(*numbers)
        assert str(ConfidenceFeedback(1, 10, 5)) == "feedback 1, 10, 5"
