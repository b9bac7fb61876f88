"""What a run is trained with: a value, read from its label and written."""

from __future__ import annotations

import pytest

from study.losses import LOSSES
from study.methods import Method, method_name

EVERY_LOSS = [
    " ".join([name, *map(str, range(1, 1 + len(kind.numbers)))]) for name, kind in LOSSES.items()
]
LABELS = ["0.1", "20", "warm-up 0.001→0.01", "feedback 1, 5, 5", *EVERY_LOSS]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_read_and_written(label: str) -> None:
    assert Method.parse(label).label == label
    assert method_name(label) == str(Method.parse(label))


def test_beta_one_is_softmax_in_one_form() -> None:
    forms = {Method.parse(value) for value in ("1", 1, 1.0, "softmax", "gd 1", "β = 1")}
    assert forms == {Method.of_beta(1)}
    assert [str(Method.parse(text)) for text in ("1", "softmax")] == ["β = 1", "softmax"]


@pytest.mark.parametrize("text", ["", "tanh", "lm x", "lm 0.3 4", "warm-up 0.1", "hinge 1"])
def test_a_text_that_names_no_method(text: str) -> None:
    assert Method.named(text) is None
    assert method_name(text) == text
    with pytest.raises(ValueError, match="unknown loss|numbers? \\(|is no number"):
        Method.parse(text)
