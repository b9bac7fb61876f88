"""The schedules of an experiment: made of its parameters, one object for each run."""

from __future__ import annotations

import pytest

from tests.study.small import small_train


class TestInAnExperiment:
    def test_a_warmup_is_given_in_epochs_and_counts_steps(self):
        (run,) = small_train(betas=[], warmups=[[0.01, 0.1, 2]]).runs(steps_per_epoch=5)
        assert [run.schedule(step) for step in (0, 5, 10, 11)] == pytest.approx(
            [0.01, 0.055, 0.1, 0.1]
        )
        assert run.schedule(10) == 0.1
        assert (run.beta, run.warmup_epochs, run.label) == (0.1, 2.0, "warm-up 0.01→0.1")

    def test_feedback_needs_held_out_samples_and_each_run_has_its_own(self):
        with pytest.raises(ValueError, match="set validation_size"):
            small_train(feedbacks=[[1, 10, 10]])
        experiment = small_train(
            betas=[1], feedbacks=[[0.5, 10, 10]], seeds=[0, 1], validation_size=100, epochs=7
        )
        constant, first, _, second = experiment.runs()
        first.schedule.update({"valid_confidence": 0.9, "valid_accuracy": 0.5})
        assert (
            first.schedule(0) > 0.5
            and second.schedule(0) == pytest.approx(0.5)
            and constant.beta == 1.0
        )
        assert (first.beta, first.warmup_epochs, first.label) == (0.5, 7.0, "feedback 0.5, 10, 10")
        assert first.values() == second.values() | {
            "seed": 0
        }  # what the plan compares is not what was measured
