"""What a run is trained with, and what the papers leave unsaid.

They are values that nothing takes apart.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pandas as pd
import pytest

from study import ROOT, records
from study.losses import LOSSES
from study.methods import Method, method_name
from study.variants import Variant

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


def test_a_record_has_its_method_in_one_of_three_ways() -> None:
    """An old record has no loss; a stack has a schedule; a cross-validation has its loss alone."""
    runs = pd.DataFrame(
        {
            "loss": [None, "gd", "gd", "lm 0.3", "arcgrad 5"],
            "schedule": ["0.1", "0.01", "warm-up 0.1→1", "lm 0.3", None],
            "beta": [0.1, 0.01, 1.0, 1.0, None],
        },
        index=[3, 1, 4, 0, 2],
    )
    found = records.methods(runs)
    assert found.index.tolist() == [3, 1, 4, 0, 2]
    names = ["β = 0.1", "β = 0.01", "warm-up 0.1→1", "LM, λ = 0.3", "ArcGrad, s = 5"]
    assert found.map(str).tolist() == names


@pytest.mark.parametrize(
    ("variant", "name", "short"),
    [
        (
            Variant("cifar100", "fast", augmentation="crop2-flip", images=45000, epochs=12),
            "cifar100, fast, crops and flips, 45,000 images, 12 epochs",
            "CIFAR-100, 45,000 images, crops and flips",
        ),
        (
            Variant("cifar100", "fast", width=2.0, augmentation="crop2-flip", epochs=40),
            "cifar100, fast×2, crops and flips, 40 epochs",
            "CIFAR-100, width 2, crops and flips",
        ),
        (
            Variant("cifar10", "resnet18", augmentation="crop2-flip", epochs=200),
            "cifar10, resnet18, crops and flips, 200 epochs",
            "CIFAR-10, resnet18, crops and flips",
        ),
        (
            Variant("mnist", "mlp", images=6000, images_at_most=True),
            "mnist, perceptron, up to 6,000 images",
            "MNIST, up to 6,000 images",
        ),
        (
            Variant(normalization="unit", optimizer="sgd", learning_rate=0.1, units=16),
            "unit, sgd 0.1, 16 units",
            "no weight decay",
        ),
        (Variant(device="cpu", width=0.25, batch_size=256), "cpu, ×0.25, batches of 256", ""),
        (
            Variant("cifar10", "fast", augmentation="none", imbalance=100.0, learning_rate=0.2),
            "cifar10, fast, unaugmented, sizes 100 : 1, learning rate 0.2",
            "CIFAR-10, unaugmented, sizes 100 : 1, learning rate 0.2",
        ),
        (
            Variant("mnist", "mlp", activation="relu", normalization="unit"),
            "relu-unit",
            "ReLU, pixels 0 to 1",
        ),
    ],
)  # fmt: skip
def test_a_variant_has_two_names(variant: Variant, name: str, short: str) -> None:
    assert str(variant) == name
    assert variant.short == (short or name)


def test_variants_are_values() -> None:
    one, other = Variant("cifar10", "fast"), Variant("cifar10", "fast")
    assert one == other
    assert len({one, other, Variant("cifar10", "resnet18")}) == 2
    assert sorted([Variant("svhn"), one]) == [one, Variant("svhn")]
    assert one.on_fast and not Variant("cifar10", "resnet18").on_fast


# --- nothing takes a printed name apart ---

READERS = {
    "claims/load.py": "what `want` says, and the names of files",
    "tables/book.py": "MyST text of cells",
    "tables/prose.py": "texts that mean something in MyST",
    "tables/outcomes.py": "labels of the book's pages",
    "figures/style.py": "line breaks of a title",
}
"""Modules that may match texts, and which; none is a method, a variant or a sentence."""
SPLITS = ("split", "rsplit", "partition", "rpartition", "startswith", "endswith")
SPLITS += ("removeprefix", "removesuffix", "extract", "match", "fullmatch", "findall")


def modules() -> list[Path]:
    folders = ("claims", "tables", "figures")
    return [path for folder in folders for path in sorted((ROOT / "study" / folder).glob("*.py"))]


@pytest.mark.parametrize("path", modules(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_module_takes_a_printed_name_apart(path: Path) -> None:
    name = f"{path.parent.name}/{path.name}"
    if name in READERS:
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    taken = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    } & set(SPLITS)
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert not taken
    assert "re" not in imported
