"""The steps of the step-size campaign, what each says, and Table 1 taken apart."""

from __future__ import annotations

import pandas as pd
import pytest

from study import figures, tables
from study.tables.runs import changes, steps
from tests.study import made_up


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return steps(made_up.stepping().assign(warmup_epochs=0.0))


def test_steps_have_names_and_the_rates_come_first(found):
    rates = [f"learning rate {rate:g}" for rate in (0.001, 0.01, 0.03, 0.1)]
    assert list(dict.fromkeys(found["step"])) == [
        *rates,
        "first weights × 255",
        "first layer's rate × 255²",
    ]
    assert set(found["activation"]) == {"tanh"}
    assert found["errors"].min() == 100


def test_a_change_is_paired_over_the_seeds(found):
    first = changes(found, "errors", [0.001], ".0f").iloc[0].to_dict()
    minus = "β = 0.001 minus β = 1"
    assert first == {
        "activation": "tanh",
        "step": "learning rate 0.001",
        "β = 1": "404 ± 3",
        minus: "**−302 [−304, −300]**",
    }
    one_seed = changes(found[found["seed"] == 0], "errors", [0.001], ".0f")
    assert one_seed[minus].iloc[0] == tables.MISSING
    one_beta = changes(found[found["beta"] == 1], "errors", [0.001], ".0f")
    assert one_beta[minus].eq(tables.MISSING).all()


def test_no_records_have_no_steps():
    empty = steps(made_up.mnist())
    assert empty.empty and changes(empty, "errors", [0.001], ".0f").empty


def test_outcomes_stand_in_a_column_for_each_activation(found):
    outcomes = {"errors": ("errors", 1, "count"), "lost_share": ("share", 100, None)}
    figure = figures.against(
        pd.concat([found, found.assign(activation="ReLU")]),
        outcomes,
        line="step",
        panel="activation",
    )
    panels = figure.get_axes()
    assert [panel.get_title() for panel in panels[:2]] == ["tanh", "ReLU"]
    assert [panel.get_yscale() for panel in panels] == ["symlog"] * 2 + ["linear"] * 2
