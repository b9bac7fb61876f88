"""Parameters of a page: read from its own cell, and checked before anything is loaded."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from study import parameters
from study.losses import LOSSES, parse
from study.networks import MLP_HEADS

TIMED = "speed"  # this page times what it runs, and checks no parameter
PAGES = [page for page in parameters.pages() if page != TIMED]
PLACES = set(parameters.PLACES)

# -- the cells of the pages ------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
class TestPage:
    def test_every_default_is_valid_and_the_job_is_small(self, page: str) -> None:
        offered = parameters.offered(page)
        values = parameters.checked(page, {})
        assert values == {name: one for name, one in offered.items() if name not in PLACES}
        assert all(offered[name] == "" for name in PLACES & set(offered))
        assert values.get("dataset", "digits") == "digits"
        assert set(values.get("datasets", ())) <= {"iris", "wine"}
        assert len(parameters.planned(values)) <= 20

    def test_it_has_at_most_twelve_and_each_a_type_that_its_default_has(self, page: str) -> None:
        offered, names = parameters.offered(page), dict[str, Any]()
        exec(parameters.code_cells(page)[0], names)
        assert len(set(offered) - PLACES) <= 12 and set(names["__annotations__"]) == set(offered)
        for name, default in offered.items():
            kind = TypeAdapter(names["__annotations__"][name])
            assert kind.validate_python(default, strict=True) == default, name

    def test_a_job_is_called_by_all_its_values(self, page: str) -> None:
        values = parameters.checked(page, {})
        name = parameters.identity(page, values)
        assert name == parameters.identity(page, dict(reversed(values.items())))
        assert name != parameters.identity("another page", values)
        for changed in values:
            assert name != parameters.identity(page, values | {changed: "another"}), changed


@pytest.mark.parametrize("page", PAGES)
def test_one_cell_of_a_page_writes_its_results(page: str) -> None:
    """A job ends with it: what stands behind reads tables that a job may be the first to fill."""
    assert sum(map(parameters.writes_results, parameters.code_cells(page))) == 1


def test_every_parameter_that_is_described_has_a_page() -> None:
    offered = {name for page in parameters.pages() for name in parameters.offered(page)}
    assert set(parameters.VALUES) <= offered


def test_the_places_change_nothing_that_is_trained() -> None:
    where = {"record": "a.json", "checkpoint_dir": "b"}
    assert parameters.checked("mnist", where) == parameters.checked("mnist", {})


# -- what is refused -------------------------------------------------------------------------------

HUGE = [10**30, -1, 0]
WRONG: dict[str, list[Any]] = {
    "dataset": ["mnits", "", 3, None, ["mnist"], "../mnist"],
    "datasets": [[], "iris", ["irs"], ["iris", "iris"]],
    "normalization": ["units", 1],
    "validation_size": [*HUGE, 0.5, "3", True],
    "imbalance": [0.5, 1e300, float("nan"), "20"],
    "labels": ["worse", ["worst"]],
    "label_noise": [-0.1, 1, float("nan"), "0.4"],
    "duplicates_together": [1, "yes", None],
    "augmentation": ["crops", 2],
    "model": ["resnet19", None],
    "width": [0, -1, 1e9, float("inf"), "1"],
    "hidden": [[10**30], [0], [1.5], 50, [50, "20"], [1] * 201],
    "activation": ["rely", 1],
    "initialization": ["", "He"],
    "loss": ["lm 0_3", "arcface 20", "x" * 200, 3],
    "betas": [[0], [-1.0], [float("nan")], [1, 1], 1.0, "[1]", [1, "0.1"], [True], [1e300]],
    "warmups": [[[0.1, 1]], [[0.1, 1, -1]], [[0.1, 1, 5]] * 2, [0.1, 1, 5]],
    "temperatures": [[], [0], [1, 1], 2.0],
    "seeds": [[], [-1], [0, 0], 3, [0.5], [2**27], ["0"]],
    "epochs": [*HUGE, 2.5, "3", None, True],
    "batch_size": [*HUGE, 100.0],
    "optimizer": ["sdg", 1],
    "learning_rate": [0, -0.1, 1e300, float("nan"), float("inf"), "0.1", True],
    "momentum": [1, 2.0, -0.1],
    "weight_decay": [-1, 1e300, float("nan")],
    "repetitions": HUGE,
    "turns": HUGE,
    "subset": [-1, 10**30, 0.5, "3", True],
    "device": ["gpu", 0, "cuda:1"],
    "record": [3, None, "x" * 5000],
    "checkpoint_dir": [3, None],
}


def test_every_parameter_refuses_what_it_cannot_be(subtests: pytest.Subtests) -> None:
    assert set(WRONG) >= set(parameters.VALUES)
    for name, kind in parameters.VALUES.items():
        for value in WRONG[name]:
            with subtests.test(name, value=repr(value)[:30]), pytest.raises(ValidationError):
                TypeAdapter(kind).validate_python(value, strict=True)


@pytest.mark.parametrize(
    ("page", "given", "message"),
    [
        ("mnist", {"epoch": 3}, "there is no parameter 'epoch'; did you mean 'epochs'.*: dataset"),
        ("mnist", {"nosuch": 3}, "no parameter 'nosuch'. The valid names are: dataset, normali"),
        ("tables", {"betas": [1]}, "there is no parameter 'betas'"),
        ("mnist", {"epochs": "3"}, r"epochs: Input should be a valid integer; got '3' \(str\)"),
        ("mnist", {"epochs": 3.0}, r"epochs: Input should be a valid integer; got 3.0 \(float\)"),
        ("mnist", {"betas": [0.1, -1.0]}, r"betas\[1\]: Input should be greater than 0; got -1.0"),
        ("mnist", {"betas": "[1, 0.1]"}, r"valid list.*-y 'betas: \[5.0, 1.0, 0.1, 0.01\]'"),
        ("samples", {"hidden": 50}, r"valid list; got 50.*-y 'hidden: \[50, 20\]'"),
        ("mnist", {"learning_rate": "1e-3"}, "YAML reads 1e-3 as text: write 0.001 or 1.0e-3"),
        ("mnist", {"activation": "rely"}, "'sigmoid'; got 'rely'; did you mean 'relu'?"),
        ("mnist", {"dataset": "mnits"}, "got 'mnits'; did you mean 'mnist'?"),
        ("mnist", {"dataset": "CIFAR10"}, "got 'CIFAR10'; did you mean 'cifar10'?"),
        ("mnist", {"seeds": [0, 1, 0]}, "seeds: a value stands twice"),
        ("mnist", {"seeds": []}, "seeds: List should have at least 1 item"),
        ("mnist", {"betas": [], "warmups": []}, "there is nothing to train: give at least one β"),
        ("mnist", {"betas": [1] * 4000}, "betas: "),
        (
            "mnist",
            {"betas": [0.001 * (1 + n) for n in range(1000)], "seeds": list(range(1000))},
            "at most 10,000 runs, and these would be 1,001,000",
        ),
        ("long-tailed", {"loss": "arcgrid 5"}, "unknown loss 'arcgrid 5'; did you mean 'arcgrad'"),
        (
            "long-tailed",
            {"loss": "adjusted 1"},
            r"betas are for loss='gd'; with loss='adjusted 1' set betas=\[1\]",
        ),
        ("angular-images", {"loss": "gd"}, "this page has no loss 'gd'; it has: softmax, center"),
        ("large-margin", {"loss": "arcgrad 10"}, "this page has no loss 'arcgrad'; it has: softm"),
        ("large-margin", {"loss": "LM 0.3"}, "this page has no loss 'LM'; did you mean 'lm'"),
        ("tables", {"loss": "lgm 0.3 0.1"}, "a last layer that no network here has"),
        (
            "long-tailed",
            {"loss": "center 0.02", "betas": [1]},
            "a last layer that no network here has",
        ),
        ("wrong-labels", {"labels": "worst"}, "people's, of dataset='cifar10'"),
        (
            "wrong-labels",
            {"labels": "worst", "dataset": "cifar10", "label_noise": 0.2},
            "and label_noise=0",
        ),
        (
            "cifar",
            {"dataset": "iris"},
            "'iris' has no images for model='fast'; take one of dig",
        ),
        ("angular-images", {"model": "fast"}, "'digits' has no images for model='fast'; take one"),
        ("angular-images", {"augmentation": "flip"}, "with model='mlp' it must be 'none'"),
        ("mnits", {}, "there is no page 'mnits'; did you mean 'mnist'.*: "),
        ("../mnist", {}, "there is no page '../mnist'"),
    ],
)
def test_the_error_names_the_parameter_what_is_valid_and_what_was_meant(
    page: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parameters.checked(page, given)
    assert len(str(caught.value)) < 2000


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(ValueError, match="activation") as caught:
        parameters.checked("mnist", {"activation": "x" * 100_000})
    assert len(str(caught.value)) < 500


# -- what is right ---------------------------------------------------------------------------------


def test_a_page_with_peoples_labels_and_one_with_another_loss() -> None:
    given = {"dataset": "cifar10", "labels": "worst", "label_noise": 0.0}
    assert parameters.checked("wrong-labels", given)["labels"] == "worst"
    given = {"loss": "adjusted 1", "betas": [1]}
    assert parameters.checked("long-tailed", given)["loss"] == "adjusted 1"


def test_the_losses_of_perceptrons_are_known_to_the_tables() -> None:
    for name, kind in LOSSES.items():
        text = " ".join([name, *("1" for _ in kind.numbers)])
        if parse(text).kind.head in MLP_HEADS:
            assert parameters.checked("tables", {"loss": text})["loss"] == text


def test_runs_are_planned_in_the_order_of_the_stack() -> None:
    values = {"betas": [5, 0.1], "warmups": [[0.1, 1, 5]], "temperatures": [1, 2], "seeds": [3, 4]}
    planned = parameters.planned(values)
    assert len(planned) == 12
    assert [run["seed"] for run in planned] == 6 * [3] + 6 * [4]
    assert [run["temperature"] for run in planned[:6]] == 3 * [1.0] + 3 * [2.0]
    assert [run["schedule"] for run in planned[:3]] == ["5", "0.1", "warm-up 0.1→1"]
    assert planned[2] == {
        **{"schedule": "warm-up 0.1→1", "beta": 1.0, "temperature": 1.0, "seed": 3},
        **{"warmup_start": 0.1, "warmup_end": 1.0, "warmup_epochs": 5.0},
    }
    other = parameters.planned({"loss": "lm 0.3", "betas": [1], "seeds": [0]})
    assert [run["schedule"] for run in other] == ["lm 0.3"]
    tables = parameters.planned({"datasets": ["iris", "wine"], "loss": "softmax", "seeds": [0, 1]})
    assert tables == [
        {"dataset": name, "seed": seed} for name in ("iris", "wine") for seed in (0, 1)
    ]
