"""Settings: every wrong value is refused with its name, every right one is kept.

It is refused before anything is loaded.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from study import data
from study.experiment import (
    EXPERIMENTS,
    PLACES,
    CrossValidation,
    Experiment,
    Run,
    Samples,
    Train,
    parameter_cell,
    parameter_table,
)
from tests.study.small import small_train

# Values of the wrong type, by the type of a parameter; numbers beyond a bound come from the bounds
# themselves.
WRONG: dict[str, list[Any]] = {
    "string": [3, None, True, ["relu"], "no such name", "x" * 10_000],
    "boolean": [1, 0, "yes", None],
    "integer": [1.5, 2.0, "2", None, True, math.nan, [1], -1],
    "number": ["0.1", None, True, math.nan, math.inf, [0.1], -0.1],
    "array": [None, 5, 0.1, "x", {"a": 1}, True, [None], [True], [math.nan], [[[]]], [0.5, 0.5]],
}


def beyond(schema: dict[str, Any]) -> list[Any]:
    """Numbers just outside the bounds, and lists with such a number."""
    if "items" in schema:
        return [[value] for value in beyond(schema["items"])] + (
            [[]] if schema.get("minItems") else []
        )
    if "prefixItems" in schema:
        whole = [1.0] * len(schema["prefixItems"])
        return [
            whole[1:],
            [*whole, 1.0],
            *([value, *whole[1:]] for value in beyond(schema["prefixItems"][0])),
        ]
    found = [schema[name] for name in ("exclusiveMinimum", "exclusiveMaximum") if name in schema]
    return found + [
        schema[name] + step for name, step in (("minimum", -1), ("maximum", 1)) if name in schema
    ]


def test_every_parameter_refuses_wrong_types_and_what_is_beyond_its_bounds(monkeypatch, subtests):
    monkeypatch.setattr(data, "load", lambda *_, **__: pytest.fail("data was loaded"))
    for notebook, kind in EXPERIMENTS.items():
        for name, schema in kind.model_json_schema()["properties"].items():
            with subtests.test(f"{notebook}: {name}"):
                for value in WRONG[schema["type"]] + beyond(schema):
                    if value == "no such name" and "enum" not in schema and name != "loss":
                        continue
                    with pytest.raises(ValueError, match=rf"\b{name}\b") as caught:
                        kind(**{name: value})
                    assert len(str(caught.value)) < 1500 and "\n" not in str(caught.value)


SAID_OF_AN_EXPERIMENT: list[tuple[dict[str, Any], str]] = [
    (
        {"activation": "rely"},
        r"activation: Input should be 'relu', 'tanh' or 'sigmoid'; got 'rely'; did you mean "
        r"'relu'\?",
    ),
    (
        {"dataset": "minst"},
        r"dataset: Input should be 'breast_cancer', .*'digits'.*; got 'minst'; did you mean "
        r"'mnist'\?",
    ),
    (
        {"epoch": 3},
        r"no parameter 'epoch'; did you mean 'epochs'\? The valid names are: dataset, "
        r"normalization, ",
    ),
    ({"betas": 0.1}, r"betas: Input should be a list; got 0.1 \(float\)"),
    ({"betas": [0.1, -1.0]}, r"betas\[1\]: Input should be greater than 0; got -1.0"),
    ({"betas": [1, 0.5, 1.0]}, "betas: 1.0 stands in it twice"),
    ({"seeds": [0, 0]}, "seeds: 0 stands in it twice"),
    ({"warmups": [[0.01, 0.1]]}, r"warmups\[0\]\[2\]: Field required; got \[0.01, 0.1\]"),
    ({"augmentation": "flip"}, "augmentation and channels_last are for images"),
    ({"channels_last": True}, "augmentation and channels_last are for images"),
    (
        {"lr_schedule": "one-cycle", "milestones": [0.5]},
        "milestones have no meaning with lr_schedule='one-cycle'",
    ),
    *(
        (values, "nothing to train")
        for values in ({"betas": []}, {"seeds": []}, {"temperatures": []})
    ),
    *(
        ({"loss": "softmax", **values}, "are for loss='gd'; with 'softmax' set betas=")
        for values in ({}, {"betas": [0.1]})
    ),
    *(
        ({"loss": "softmax", "betas": [1], **values}, "are for loss='gd'")
        for values in (
            {"warmups": [[0.1, 1, 2]]},
            {"temperatures": [2.0]},
            {"match_gradient": True},
        )
    ),
    ({"loss": 5}, r"loss: Input should be a valid string; got 5 \(int\)"),
    (
        {"lr_schedule": "linear"},
        "Input should be 'milestones', 'exponential' or 'one-cycle'; got 'linear'",
    ),
    ({"optimizer": "lion"}, "Input should be 'sgd' or 'adam'; got 'lion'"),
    ({"label_noise": 1.0}, "label_noise: Input should be less than 1; got 1.0"),
    (
        {"loss": "lgm 0.3 0.1", "betas": [1]},
        "needs a last layer of the kind 'gaussian', which only image networks have",
    ),
    ({"loss": "adacos", "betas": [1], "cuda_graph": True}, "remembers something from step to step"),
]
SAID_OF_THE_OTHERS: list[tuple[type[Experiment], dict[str, Any], str]] = [
    (
        CrossValidation,
        {"datasets": ["irises"]},
        r"datasets\[0\]: Input should be .*; got 'irises'; did you mean 'iris'\?",
    ),
    (CrossValidation, {"normalization": "channel"}, "Input should be 'standard', 'unit' or 'none'"),
    (CrossValidation, {"seeds": [2**31 // 10]}, "from 0 to 214748363"),
    (CrossValidation, {"loss": "l-softmax 2"}, "'normed', which only image networks have"),
]


def test_what_is_said(subtests):
    for kind, values, message in [
        *((small_train, *said) for said in SAID_OF_AN_EXPERIMENT),
        *SAID_OF_THE_OTHERS,
    ]:
        with subtests.test(message), pytest.raises(ValueError, match=message):
            kind(**values)


class TestExperiment:
    def test_equal_values_are_equal(self):
        experiment = small_train(betas=[1], warmups=[[0.01, 0.1, 5]], hidden=[3])
        other = small_train(betas=(1.0,), warmups=((0.01, 0.1, 5),), hidden=(3,))
        assert (
            experiment == other
            and hash(experiment) == hash(other)
            and experiment.identity() == other.identity()
        )
        assert (
            experiment.identity()
            == small_train(**{**experiment.model_dump(), "scale": "paper"}).identity()
        )
        assert (
            experiment.identity()
            != small_train(**{**experiment.model_dump(), "epochs": 11}).identity()
        )
        # an experiment measures things of its own, which a checkpoint keeps
        assert Train().identity() != Samples(**Train().model_dump(), followed=5).identity()

    def test_the_runs_in_their_order(self):
        experiment = small_train(
            betas=[1, 0.1], warmups=[[0.01, 0.1, 5]], temperatures=[1.0, 2.0], seeds=[3, 1]
        )
        found = [
            (run.seed, run.temperature, run.label, run.warmup_epochs) for run in experiment.runs(7)
        ]
        labels = [("1", 0.0), ("0.1", 0.0), ("warm-up 0.01→0.1", 5.0)]
        assert found == [
            (seed, tau, *label) for seed in (3, 1) for tau in (1.0, 2.0) for label in labels
        ]
        assert experiment.trainings == len(found) == len(experiment.planned())

    def test_a_record_knows_a_run_by_numbers(self):
        constant, warmed = small_train(betas=[5], warmups=[[0.01, 0.1, 5]]).planned()
        assert constant == {
            "schedule": "5",
            "beta": 5.0,
            "warmup_epochs": 0.0,
            "temperature": 1.0,
            "seed": 0,
        }
        assert warmed == {
            **{
                "schedule": "warm-up 0.01→0.1",
                "beta": 0.1,
                "warmup_start": 0.01,
                "warmup_end": 0.1,
                "warmup_epochs": 5.0,
            },
            **{"temperature": 1.0, "seed": 0},
        }
        assert Run(0, 1.0, lambda step: 0.3, "0.3", 0).beta == 0.3


def test_what_the_others_train():
    assert CrossValidation(datasets=["iris", "wine"], seeds=[0, 1, 2], folds=5).trainings == 30


def test_from_a_notebook():
    for given, expected in [
        (
            {"betas": "[1, 0.1]", "seeds": 3},
            {"betas": (1.0, 0.1), "seeds": (3,)},
        ),  # as papermill's -p delivers lists
        (
            {"betas": 0.1, "warmups": "[[0.01, 0.1, 5]]"},
            {"betas": (0.1,), "warmups": ((0.01, 0.1, 5.0),)},
        ),
        ({"epochs": 3, "record": "x.json", "unrelated": object()}, {"epochs": 3}),
    ]:
        assert Train.from_parameters(given) == Train(**expected)
    assert CrossValidation.from_parameters({"datasets": "wine"}).datasets == ("wine",)
    with pytest.raises(ValueError, match=r"betas\[0\]: Input should be a valid number; got 'one'"):
        Train.from_parameters({"betas": "one"})


def test_the_table_describes_every_parameter(subtests):
    for notebook, kind in EXPERIMENTS.items():
        with subtests.test(notebook):
            rows = parameter_table(kind)
            assert [row["name"] for row in rows] == kind.parameters()
            assert all(value for row in rows for value in row.values())
            namespace: dict[str, Any] = {}
            exec(
                parameter_cell(kind), namespace
            )  # the cell gives the experiment back, with its defaults
            assert kind.from_parameters(namespace) == kind()
            assert all(namespace.get(name, "") == "" for name in PLACES)
