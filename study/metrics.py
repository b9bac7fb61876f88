"""What is measured: one list of metrics.

Each has its name, title and how its numbers are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Metric:
    """A number of a run."""

    name: str  # of the column
    title: str  # in a sentence
    share: bool = False  # written in per cent, and a difference of two in percentage points
    higher: bool | None = None  # whether a larger number is the better one; None if neither is
    in_nats: bool = False

    @property
    def factor(self) -> float:
        """What a number is multiplied by when it is written."""
        return 100.0 if self.share else 1.0

    @property
    def unit(self) -> str:
        """The unit of a difference of two numbers; empty for counts and ratios."""
        if self.share:
            return "points"
        return "nats" if self.in_nats else ""

    @property
    def is_accuracy(self) -> bool:
        """Whether it is an accuracy, of which half a percentage point is little."""
        return self.share and self.higher is True

    def __str__(self) -> str:
        return self.title


_LIST = (
    Metric("test_accuracy", "test accuracy", share=True, higher=True),
    Metric("test_top5_accuracy", "top-5 test accuracy", share=True, higher=True),
    Metric("train_accuracy", "training accuracy", share=True, higher=True),
    Metric("valid_accuracy", "accuracy on images held out", share=True, higher=True),
    Metric("early_accuracy", "test accuracy, first quarter of the epochs", share=True, higher=True),
    Metric("test_accuracy_link", "test accuracy, decided by the link", share=True, higher=True),
    Metric("test_ece", "test ECE", share=True, higher=False),
    Metric("test_ece_link", "test ECE after the link", share=True, higher=False),
    Metric("test_ece_temperature", "test ECE after a temperature", share=True, higher=False),
    Metric("test_ece_vector", "test ECE after vector scaling", share=True, higher=False),
    Metric("valid_ece", "ECE on images held out", share=True, higher=False),
    Metric("test_mce", "test MCE", share=True, higher=False),
    Metric("test_confidence", "test confidence", share=True),
    Metric("overconfidence", "test confidence − accuracy", share=True),
    Metric("train_confidence", "training confidence", share=True),
    Metric("test_cross_entropy", "test cross-entropy", higher=False, in_nats=True),
    Metric("test_nll_temperature", "test NLL after a temperature", higher=False, in_nats=True),
    Metric("train_margin_bias", "bias of the training samples", in_nats=True),
    Metric("bias_rise", "rise of the bias after its lowest value", in_nats=True),
    Metric("lost", "training samples with p ≤ 0.2", higher=False),
    Metric("errors", "training errors", higher=False),
    Metric("lost_share", "share of the training errors with p ≤ 0.2", share=True),
    Metric("sure", "training samples with p > 0.8"),
    Metric(
        *("early_cross_entropy", "training cross-entropy, first ten epochs"),
        higher=False,
        in_nats=True,
    ),
    Metric("epoch_easy", "epoch at which the easiest fifth is sure", higher=False),
    Metric("gap", "confidence of the easiest minus the hardest fifth", share=True),
    Metric("never_learnt", "share of samples never learnt", share=True),
    Metric("conflict_late", "share of pairs in which the sample in conflict is later", share=True),
    Metric("conflict_delay", "mean epoch learnt, in conflict over the others"),
    Metric("others_epoch", "mean epoch at which the others are learnt"),
    Metric("intra_inter_ratio", "spread within classes, against the distance between them"),
    Metric("minimum_to_mean_inter", "smallest distance of two classes, against the mean"),
    Metric("oscillation", "deviation of the change of test accuracy", share=True),
    Metric("falls", "falls of test accuracy, added up", share=True),
    Metric("wc_intra", "WC-Intra"),
    Metric("w_inter", "W-Inter"),
    Metric("c_inter", "C-Inter"),
    Metric("mean_target_angle", "angle to the class vector, mean over training"),
    Metric("excess", "time of the loss beyond softmax, as a share of a step", share=True),
    Metric("wins", "tables won", higher=True),
    Metric("negative_rank", "minus the rank", higher=True),
)

METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _LIST}
"""Every metric that a claim compares or a sentence names, by the name of its column."""


def metric(name: str) -> Metric:
    """Find a metric by the name of its column; one that is not in the list is its own title.

    Example:
        >>> metric("test_ece").title, metric("test_ece").factor
        ('test ECE', 100.0)
    """
    return METRICS.get(name, Metric(name, name))
