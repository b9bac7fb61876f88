"""The arms of the step-size campaign, what each says, and Table 1 taken apart."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from study import figures, tables
from study.tables import steps
from tests.study import made_up


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return steps.arms(made_up.stepping().assign(warmup_epochs=0.0))


def test_arms_have_names_and_the_rates_come_first(found):
    rates = [f"learning rate {rate:g}" for rate in (0.001, 0.01, 0.03, 0.1)]
    assert list(dict.fromkeys(found["arm"])) == [*rates, "first weights × 255", "first layer's rate × 255²"]
    assert set(found["activation"]) == {"tanh"} and found["errors"].min() == 100


def test_a_change_is_paired_over_the_seeds(found):
    first = steps.changes(found, "errors", [0.001], ".0f").iloc[0].to_dict()
    less = "β = 0.001 less β = 1"
    assert first == {"activation": "tanh", "step": "learning rate 0.001", "β = 1": "404 ± 3", less: "**−302 [−304, −300]**"}
    assert steps.changes(found[found["seed"] == 0], "errors", [0.001], ".0f")[less].iloc[0] == "(−300)"
    assert steps.changes(found[found["beta"] == 1], "errors", [0.001], ".0f")[less].eq(tables.MISSING).all()


def test_the_sentence_says_where_the_sign_turns(found):
    assert steps.sentence(found) == (
        "With tanh, from β = 1 to β = 0.001 training errors fall with learning rate 0.001, learning rate 0.01 and learning rate 0.03; "
        "rise with learning rate 0.1, first weights × 255 and first layer's rate × 255²."
    )
    assert "nothing can be said" in steps.sentence(found[found["seed"] == 0])
    same = found[found["arm"] == "learning rate 0.001"].assign(errors=[100.0, 101, 102, 103, 104] * 2)
    assert "cannot be told apart with learning rate 0.001" in steps.sentence(same)


def test_networks_at_chance_are_named(found):
    assert steps.at_chance(found) == steps.at_chance(found.iloc[:0]) == ""
    gone = found.assign(train_accuracy=found["train_accuracy"].where(found.index > 0, 0.1))
    assert steps.at_chance(gone) == "Ended at chance, with all images lost: tanh, learning rate 0.001, β = 1, seed 0."


def test_no_records_have_no_arms():
    empty = steps.arms(made_up.mnist())
    assert empty.empty and steps.changes(empty, "errors", [0.001], ".0f").empty and steps.nearest(empty).empty
    assert steps.decomposition(empty)["variant"].tolist() == ["the papers"]


def test_table_1_is_a_product():
    rows = [
        {"variant": "x", "setting": beta, "seed": seed, "errors": errors, "confidence_counts": [lost, 10.0, 20.0, 0.0, 0.0]}
        for beta, errors, lost in ((0.5, 1000.0, 500.0), (0.001, 500.0, 400.0))
        for seed in range(3)
    ]
    papers, ours = steps.decomposition(pd.DataFrame(rows)).to_dict("records")
    assert papers["lost"] == pytest.approx(math.log(2375 / 828)) and papers["share"] == pytest.approx(math.log(0.922 / 0.716), abs=1e-3)
    assert ours["lost"].estimate == pytest.approx(ours["errors"].estimate + ours["share"].estimate) == pytest.approx(math.log(0.8))
    assert ours["errors, stand-in"].estimate == pytest.approx(math.log(420 / 520))


def test_outcomes_stand_in_a_column_for_each_activation(found):
    outcomes = {"errors": ("errors", 1, "count"), "lost_share": ("share", 100, None)}
    figure = figures.against(pd.concat([found, found.assign(activation="ReLU")]), outcomes, line="arm", panel="activation")
    panels = figure.get_axes()
    assert [panel.get_title() for panel in panels[:2]] == ["tanh", "ReLU"] and len(panels) == 4
    assert panels[0].get_yscale() == "symlog" and panels[2].get_yscale() == "linear"


def test_the_nearest_step_to_the_papers(found):
    five = [[903, 454, 528, 1291, 56824], [828, 206, 245, 484, 58237], [1105, 119, 132, 191, 58453], [1325, 91, 92, 100, 58392]]
    five += [[2375, 142, 116, 193, 57174]]
    runs = pd.DataFrame({"setting": [1.0, 0.5, 0.1, 0.01, 0.001], "activation": "tanh", "arm": "rate 1", "confidence_counts": five})
    far = runs.assign(arm="rate 2", confidence_counts=[[12_000.0] * 5] * 5)
    distances = steps.nearest(pd.concat([far, runs]))
    assert list(distances.index) == ["tanh, rate 1", "tanh, rate 2"] and distances.iloc[0] < 1e-4
    assert steps.nearest(found.drop(columns="confidence_counts")).empty
