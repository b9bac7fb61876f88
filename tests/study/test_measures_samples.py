"""Which samples are learnt when: against loops over samples."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from study import measures


class TestChoose:
    def test_the_same_ones_in_order(self):
        chosen = measures.followed_samples(1000, 50)
        assert chosen.tolist() == sorted(set(chosen.tolist()))
        assert torch.equal(chosen, measures.followed_samples(1000, 50))
        assert len(chosen) == 50 and 0 <= chosen.min() and chosen.max() < 1000


class TestEpochLearnt:
    @settings(max_examples=30)
    @given(st.integers(0, 1000))
    def test_against_a_loop(self, seed):
        values = torch.rand(2, 6, 7, generator=torch.Generator().manual_seed(seed))
        found = measures.epoch_learnt(values)
        for run in range(2):
            for sample in range(7):
                above = [epoch for epoch in range(6) if values[run, epoch, sample] > 0.5]
                assert found[run, sample] == (above[0] if above else 6)

    def test_exactly_the_threshold_is_not_above_it(self):
        assert measures.epoch_learnt(torch.tensor([[0.5], [0.5]])).item() == 2


class TestDifficultyGroups:
    @settings(max_examples=30)
    @given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=5, max_size=60))
    def test_nearly_equal_size_and_ordered(self, values):
        confidence = torch.tensor(values)
        groups = measures.difficulty_groups(confidence)
        sizes = torch.bincount(groups, minlength=5)
        assert sizes.max() - sizes.min() <= 1
        for group in range(4):
            assert confidence[groups == group].max() <= confidence[groups == group + 1].min()


class TestSummaries:
    def test_by_hand(self):
        # two runs of one seed; run 1 (β = 1) is the reference; 10 samples, 3 epochs
        easy = torch.linspace(0.05, 0.95, 10)
        confidences = torch.stack(
            [
                torch.stack([easy * 0, easy / 2, easy.flip(0)]),
                torch.stack([easy * 0, easy / 2, easy]),
            ]
        )
        first, second = measures.confidence_summaries(confidences, seeds=[3, 3], betas=[0.1, 1.0])
        assert first["group_confidence"][0] == pytest.approx(
            [0.0, 0.45, 0.1], abs=1e-4
        )  # its own hardest are the last two samples
        assert first["reference_group_confidence"][0] == pytest.approx(
            [0.0, 0.05, 0.9], abs=1e-4
        )  # those of the reference are the first two
        assert second["group_confidence"] == second["reference_group_confidence"]
        assert second["epoch_learnt_counts"] == [0, 0, 5, 5]
        assert second["never_learnt"] == 0.5
        assert second["group_epoch_learnt"] == pytest.approx([3.0, 3.0, 2.5, 2.0, 2.0])
        assert [curve[-1] for curve in second["single_confidence"]] == sorted(
            curve[-1] for curve in second["single_confidence"]
        )
        assert sum(first["epoch_learnt_counts"]) == 10

    def test_true_class_probability(self):
        logits, labels = (
            torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)),
            torch.tensor([0, 2, 1, 1, 0]),
        )
        found = measures.true_class_probability(logits, labels)
        for run in range(2):
            for sample in range(5):
                assert found[run, sample].item() == pytest.approx(
                    torch.softmax(logits[run, sample], 0)[labels[sample]].item(), rel=1e-6
                )
