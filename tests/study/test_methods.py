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
    assert Method.parse(Method.parse(label)) == Method.parse(label)
    assert method_name(label) == str(Method.parse(label))


def test_beta_one_is_softmax_in_one_form() -> None:
    forms = {Method.parse(value) for value in ("1", 1, 1.0, "softmax", "gd 1", "β = 1")}
    assert forms == {Method.of_beta(1)}
    assert all(form.is_plain for form in forms)
    assert not Method.of_beta(0.1).is_plain
    assert [str(Method.parse(text)) for text in ("1", "softmax")] == ["β = 1", "softmax"]


@pytest.mark.parametrize("text", ["", "tanh", "lm x", "lm 0.3 4", "warm-up 0.1", "hinge 1"])
def test_a_text_that_names_no_method(text: str) -> None:
    assert Method.named(text) is None
    assert method_name(text) == text
    with pytest.raises(ValueError, match="unknown loss|numbers|is no number"):
        Method.parse(text)


def test_methods_are_sorted_as_the_tables_show_them() -> None:
    shown = ["20", "1", "0.1", "warm-up 0.1→1", "feedback 1, 5, 5", "hinge", "lm 0.1", "lm 0.9"]
    expected = [Method.parse(label) for label in shown]
    assert sorted(reversed(expected)) == expected


def test_a_loss_without_its_numbers_stands_for_all_of_them() -> None:
    lm = Method.parse("lm")
    assert lm.includes(Method.parse("lm 0.3"))
    assert not lm.includes(Method.parse("lm-qu 0.3"))
    assert not Method.parse("lm 0.1").includes(Method.parse("lm 0.3"))
    assert Method.parse("hinge").includes(Method.parse("hinge"))


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ({"loss": None, "schedule": "0.1", "beta": 0.1}, "β = 0.1"),
        ({"loss": "gd", "schedule": "0.01", "beta": 0.01}, "β = 0.01"),
        ({"loss": "gd", "schedule": "warm-up 0.1→1", "beta": 1.0}, "warm-up 0.1→1"),
        ({"loss": "lm 0.3", "schedule": "lm 0.3", "beta": 1.0}, "LM, λ = 0.3"),
        ({"loss": "arcgrad 5", "schedule": None}, "ArcGrad, s = 5"),
    ],
)
def test_a_run_has_its_method_in_one_of_three_ways(run: dict[str, object], name: str) -> None:
    """A stack has a schedule; a cross-validation has its loss alone; old rows have no loss."""
    assert str(Method.of_run(run)) == name
