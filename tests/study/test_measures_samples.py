"""Which samples are learnt when: against loops over samples."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from gdlib import calibration
from gdlib.functional import gd_cross_entropy
from study import data, measures, published


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
        assert second["never_learnt"] == 0.5

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


class TestConflict:
    @pytest.mark.parametrize("classes", [2, 3, 10])
    def test_the_product_is_the_first_growth_of_the_log_odds(self, classes):
        """By autograd, at zero weights; for every β up to a positive factor."""
        generator = torch.Generator().manual_seed(classes)
        x = torch.randn(30, 4, generator=generator, dtype=torch.float64)
        labels = torch.arange(30) % classes
        labels[:5] = 0  # classes of unequal size
        found = measures.product_with_average(x, labels)
        with_bias = torch.cat([x, torch.ones(30, 1, dtype=torch.float64)], 1)
        for beta in (1e-3, 1.0, 20.0):
            weights = torch.zeros(classes, 5, dtype=torch.float64, requires_grad=True)
            gd_cross_entropy(with_bias @ weights.T, labels, beta).backward()
            growth = with_bias @ -weights.grad.T  # of the logits
            true = growth.gather(1, labels[:, None]).squeeze(1)
            of_the_odds = true - (growth.sum(1) - true) / (classes - 1)
            pull = (1 - 1 / classes) / (1 + (beta - 1) / classes)  # G at zero
            assert torch.allclose(of_the_odds / pull, found)

    def test_two_classes_are_the_signed_samples(self):
        x = torch.tensor([[2.0], [-1.0], [1.0]], dtype=torch.float64)
        signed = torch.tensor([[2.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], dtype=torch.float64)
        found = measures.product_with_average(x, torch.tensor([0, 1, 1]))
        assert torch.allclose(found, 2 * signed @ signed.mean(0))

    def test_one_class_has_nobody_to_be_in_conflict_with(self):
        with pytest.raises(ValueError, match="two classes or more"):
            measures.product_with_average(torch.ones(3, 1), torch.zeros(3, dtype=torch.int64))

    @settings(max_examples=30)
    @given(st.integers(0, 1000))
    def test_the_share_of_pairs_against_a_loop(self, seed):
        generator = torch.Generator().manual_seed(seed)
        confidences = torch.rand(2, 5, 9, generator=generator)
        conflict = torch.arange(9) < 4
        learnt = measures.epoch_learnt(confidences)
        for run, found in enumerate(measures.conflict_summaries(confidences, conflict)):
            late, others = learnt[run, :4].tolist(), learnt[run, 4:].tolist()
            pairs = [(a > b) + (a == b) / 2 for a in late for b in others]
            assert found["conflict_late"] == pytest.approx(sum(pairs) / 20)
            assert found["others_epoch"] == pytest.approx(sum(others) / 5)
            assert found["conflict_share"] == pytest.approx(4 / 9)

    def test_with_one_sort_of_samples_there_is_no_share(self):
        (found,) = measures.conflict_summaries(torch.rand(1, 3, 4), torch.zeros(4, dtype=bool))
        assert set(found) == {"conflict_share"}


class TestFinalMeasures:
    """Known logits of three splits of two runs, of which the first has a β."""

    CLASSES = 12

    @pytest.fixture
    def logits(self) -> dict[int, torch.Tensor]:
        """Logits [2, N, 12] by the size of their split; those held out are three times as sure."""
        generator = torch.Generator().manual_seed(0)
        found = {}
        for size, factor in ((48, 1.0), (96, 3.0), (72, 1.0)):
            noise = torch.randn(2, size, self.CLASSES, generator=generator)
            found[size] = factor * (noise + F.one_hot(self.labels(size), self.CLASSES))
        return found

    def labels(self, size: int) -> torch.Tensor:
        return torch.arange(size) % self.CLASSES

    def test_what_is_fitted_where_and_measured_of_what(self, logits):
        train, valid, test = (data.Split(torch.zeros(n, 1), self.labels(n)) for n in (48, 96, 72))
        names = tuple("abcdefghijkl")
        dataset = data.Dataset("made up", train, valid, test, names, "embedded", "x")
        first, second = measures.final_measures(
            dataset, lambda split: logits[len(split)], [0.1, None]
        )
        metrics = first["metrics"]
        held_out, z, labels = logits[96][0].double(), logits[72][0].double(), test.labels
        for suffix, scaling in (
            ("_temperature", calibration.TemperatureScaling()),
            ("_vector", calibration.VectorScaling()),
        ):
            scaled = scaling.fit(held_out, valid.labels).transform(z)
            assert metrics[f"test_nll{suffix}"] == pytest.approx(
                F.cross_entropy(scaled, labels).item()
            )
        own = calibration.TemperatureScaling().fit(held_out, valid.labels).temperature
        assert metrics["scaling_temperature"] == own
        linked = calibration.beta_link(z.softmax(1), 0.1)
        assert metrics["test_ece_link"] == calibration.expected_calibration_error(linked, labels)
        assert not [name for name in second["metrics"] if name.endswith("_link")]
        p = [row.softmax(0)[c].item() for row, c in zip(logits[48][0], train.labels, strict=True)]
        fifths = [sum(i / 5 < one <= (i + 1) / 5 for one in p) for i in range(5)]
        assert [metrics[name] for name in published.FIFTHS.values()] == fifths
        assert metrics["train_confidence"] == pytest.approx(sum(p) / len(p), rel=1e-6)
        above = (z > z.gather(1, labels[:, None])).sum(1)
        assert metrics["test_top5_accuracy"] == pytest.approx((above < 5).double().mean().item())


def test_margin_bias_turns_the_cross_entropy_into_softplus():
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(12, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 5, (12,), generator=generator)
    bias = measures.margin_bias(logits, labels)
    others = logits.scatter(1, labels[:, None], -math.inf).amax(1)
    true = logits.gather(1, labels[:, None])[:, 0]
    expected = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(F.softplus(others - true + bias), expected)
    assert (bias >= 0).all() and (bias <= math.log(4)).all()
    masked = torch.tensor([[1.0, -math.inf, 3.0], [1.0, -math.inf, -math.inf]])
    assert measures.margin_bias(masked, torch.tensor([0, 0])).tolist() == [0.0, 0.0]
