"""A2 and A3 from made-up cross-validations: each part by itself, and what decides nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from study import claims
from study.claims import uci


def table_i(changes: dict[str, float] | None = None, seeds: int = 10, campaign: str = "uci", **columns: object) -> pd.DataFrame:
    """Runs whose accuracies are those of the paper's Table I, with a little noise; changes are added to the column of a method."""
    generator, rows = np.random.default_rng(0), []
    paper = claims.paper_table_i()
    for seed in range(seeds):
        for title in paper.index:
            for method in paper.columns:
                accuracy = (paper.loc[title, method] + (changes or {}).get(method, 0.0)) / 100 + generator.normal(0, 1e-4)
                rows.append(
                    {
                        "campaign": campaign,
                        "record": f"{method}.json",
                        "scale": "paper",
                        "dataset": f"uci/{title}",
                        "title": title,
                        "classes": 2,
                        "loss": method,
                        "seed": seed,
                        "normalization": "standard",
                        "optimizer": "sgd",
                        "learning_rate": 0.1,
                        "hidden": [16, 16],
                        "duplicates_together": False,
                        "test_accuracy": accuracy,
                        "fold_accuracies": [accuracy] * 10,
                        "curve_epoch": [0, 10, 20, 30, 50],
                        "curve_test_accuracy": [0.0, accuracy + 0.05, accuracy, accuracy - 0.1, accuracy + 0.01],
                        **columns,
                    }
                )
    return pd.DataFrame(rows)


def test_the_paper_has_fifteen_sets_and_seven_methods():
    printed = claims.paper_table_i()
    assert printed.shape == (15, 7) and printed.notna().all().all()
    assert printed.mean().round(2)["softmax"] == pytest.approx(79.56, abs=0.01)
    assert claims.wins(printed)["arcgrad 5"] >= 7  # the paper counts 7


def test_the_papers_own_numbers_confirm_what_it_says_of_them():
    found = claims.verdict("A2", table_i())
    assert {part.id: part.met for part in found.parts} == {"a": "met", "b": "met", "c": "met", "d": "met"}
    assert (found.verdict, found.seeds, found.scale) == ("holds", 10, "paper")
    assert [round(part.findings[0].difference.mean, 3) for part in found.parts[:1]] == [pytest.approx(0.8250 - 0.8031, abs=0.001)]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"m-softmax 0.5": 3.0}, "a"),
        ({"softmax": 6.0}, "c"),
        ({"softmax": -3.0}, "d"),
        ({"center 0.02": 1.0}, "d"),
        ({"arcgrad 5": -5.0}, "b"),
    ],
)
def test_a_part_that_is_not_met(changes, part):
    found = {part.id: part.met for part in claims.verdict("A2", table_i(changes)).parts}
    assert found[part] == "not met"


def test_what_decides_nothing():
    assert claims.verdict("A2", table_i(seeds=9)).verdict == "not tested"
    whole = table_i()
    assert claims.verdict("A2", whole[whole["loss"] != "adacos"]).verdict == "not tested"
    assert claims.verdict("A2", whole[(whole["title"] != "Iris") | (whole["loss"] != "softmax")]).verdict == "not tested"
    assert claims.verdict("A2", table_i(duplicates_together=True)).verdict == "not tested"
    assert claims.verdict("A2", pd.DataFrame({"campaign": ["mnist"], "record": ["a"]})).verdict == "not tested"


def test_wins_are_shared():
    scores = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 1.0, 4.0]})
    assert claims.wins(scores).to_dict() == {"a": 1.5, "b": 1.5}


def test_the_nearest_reading_is_the_one_that_is_the_paper():
    near, far = table_i(campaign="uci-readings"), table_i({"softmax": 4.0}, campaign="uci-readings", learning_rate=0.01)
    runs = claims.uci_runs(pd.concat([far, near], ignore_index=True), "uci", campaign="uci-readings")
    distances = claims.distance_to_table_i(runs)
    assert set(distances["epochs"]) == {10, 20, 50}  # 30 was not to be looked at
    assert distances.iloc[0].to_dict() == {
        "reading": "standard, sgd 0.1, 16 units",
        "epochs": 20,
        "distance": pytest.approx(0.0, abs=0.01),
    }
    by_place = distances.set_index(["reading", "epochs"])["distance"]
    assert by_place["standard, sgd 0.1, 16 units", 10] == pytest.approx(5.0, abs=0.01)
    assert by_place["standard, sgd 0.01, 16 units", 20] == pytest.approx(4.0, abs=0.01)


def test_accuracies_are_in_the_order_of_the_table():
    found = claims.accuracies(claims.runs_of(table_i(), "uci"), ["softmax", "adacos"])
    assert list(found.index) == list(claims.paper_table_i().index) and list(found.columns) == ["softmax", "adacos"]
    assert found.loc["Iris", "softmax"] == pytest.approx(96.8, abs=0.02)


def depth(ten: dict[str, float]) -> pd.DataFrame:
    """Iris with three and with ten layers."""
    shallow = table_i(campaign="iris-depth")
    shallow = shallow[shallow["title"] == "Iris"]
    deep = shallow.assign(hidden=[[16] * 9] * len(shallow))
    for method, accuracy in ten.items():
        rows = deep["loss"] == method
        deep.loc[rows, "test_accuracy"] = accuracy + 1e-4 * deep.loc[rows, "seed"]
    return pd.concat([shallow, deep], ignore_index=True)


def test_depth():
    chance = dict.fromkeys(("softmax", "arcface 20 0.1", "adacos"), 0.33)
    met = claims.verdict("A3", depth(chance | {"arcgrad 5": 0.9}))
    assert met.verdict == "holds" and met.seeds == 10
    assert claims.verdict("A3", depth(chance | {"arcgrad 5": 0.3})).verdict == "does not hold"
    one_is_as_good = claims.verdict("A3", depth(chance | {"adacos": 0.95, "arcgrad 5": 0.9}))
    assert {part.id: part.met for part in one_is_as_good.parts} == {"a": "not met", "b": "not met"}
    assert set(uci.uci_runs(depth({}), "uci-depth")["depth"]) == {3, 10}
