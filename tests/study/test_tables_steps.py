"""The arms of the step-size campaign, what each says, and Table 1 taken apart."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from study import figures
from study.statistics import PairedDifference
from study.tables import steps
from tests.study import made_up


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return steps.arms(made_up.stepping().assign(warmup_epochs=0.0))


def test_arms_have_names_and_the_rates_come_first(found):
    rates = [f"rate {rate:g}" for rate in (0.001, 0.01, 0.03, 0.1)]
    assert list(dict.fromkeys(found["arm"])) == [*rates, "first weights × 255", "first rate × 255²"]
    assert set(found["activation"]) == {"tanh"} and found["errors"].min() == 100


def test_a_change_is_paired_over_the_seeds(found):
    at_small = found[found["arm"] == "rate 0.001"]
    change = steps.change(at_small, "errors")
    assert isinstance(change, PairedDifference) and change.n == 5
    assert change.mean == pytest.approx(np.mean([100 + s * 1.001 - 400 - s * 2 for s in range(5)]), abs=1)
    assert steps.change(at_small[at_small["seed"] == 0], "errors") == -300.0
    assert math.isnan(steps.change(at_small[at_small["beta"] == 1], "errors"))


def test_the_sentence_says_where_the_sign_turns(found):
    assert steps.sentence(found) == (
        "With tanh, β = 0.001 leaves fewer with rate 0.001, rate 0.01 and rate 0.03; "
        "more with rate 0.1, first weights × 255 and first rate × 255²."
    )
    assert "nothing can be said" in steps.sentence(found[found["seed"] == 0])
    same = found[found["arm"] == "rate 0.001"].assign(errors=[100.0, 101, 102, 103, 104] * 2)
    assert "as many, as far as the seeds can tell, with rate 0.001" in steps.sentence(same)


def test_no_records_have_no_arms():
    assert steps.arms(made_up.mnist()).empty


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
    figure = figures.outcomes_against_beta(
        pd.concat([found, found.assign(activation="ReLU")]).assign(variant=lambda runs: runs["arm"]),
        {"errors": ("errors", 1, "count"), "lost_share": ("share", 100, None)},
        across="activation",
    )
    panels = figure.get_axes()
    assert [panel.get_title() for panel in panels[:2]] == ["tanh", "ReLU"] and len(panels) == 4
    assert panels[0].get_yscale() == "symlog" and panels[2].get_yscale() == "linear"
