"""Schedules: exact ends, a straight line between them, held after the end."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdlib.schedules import Constant, LinearWarmup

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
