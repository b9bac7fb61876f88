"""The settings in which β was varied, the numbers of the figure to play with, the answer of the first page, and the matrix of outcomes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from study import headline, records, statistics
from study.criteria import Finding
from study.tables import answer, measured, outcomes
from study.tables.measured import Setting
from study.tables.play import play
from study.verdicts import Part, Verdict

ACCURACY = {0.001: 0.90, 0.1: 0.97, 1.0: 0.95, 5.0: 0.92}


def rows(
    accuracy: Mapping[float, float] = ACCURACY, seeds: Iterable[int] = range(3), *, campaign: str = "cifar10-fast", **own: object
) -> pd.DataFrame:
    """Records of trainings: one row for each β and seed, with the accuracy of its β and a little noise."""
    job = {"dataset": "cifar10", "model": "fast", "activation": "relu", "normalization": "channel", "augmentation": "crop2-flip"}
    job |= {"campaign": campaign, "template": "train", "scale": "reduced", "epochs": 8, "learning_rate": 0.2, "momentum": 0.9}
    job |= {
        "subset": 0,
        "validation_size": 5000,
        "milestones": [],
        "temperature": 1.0,
        "warmup_epochs": 0,
        "loss": "gd",
        "match_gradient": False,
        "diverged": False,
    }
    made = []
    for beta, mean in accuracy.items():
        for seed in seeds:
            metrics = {
                "test_accuracy": mean + 0.001 * (seed + beta % 0.7),
                "test_ece": 0.2,
                "test_ece_link": 0.04,
                "test_ece_temperature": 0.01,
            }
            curves = {
                "curve_epoch": [0, 2, 4, 8],
                "curve_test_accuracy": [0.1, mean / 2, 0.7, mean],
                "confidence_counts": [40 + seed, 1, 2],
            }
            made.append(job | {"beta": beta, "seed": seed, "record": f"{beta}-{seed}.json"} | metrics | curves | own)
    return pd.DataFrame(made)


def of_mnist(accuracy: Mapping[float, float], activation: str, normalization: str) -> pd.DataFrame:
    own = {
        "dataset": "mnist",
        "model": None,
        "activation": activation,
        "normalization": normalization,
        "augmentation": None,
        "scale": "paper",
    }
    return rows(accuracy, campaign="mnist", **own, milestones=[], test_ece=0.03, test_ece_link=math.nan, test_ece_temperature=math.nan)


def b1(*differences: list[float], part: str = "b") -> Verdict:
    findings = [Finding("v", "unresolved", "accuracy", statistics.paired_difference(values, [0.0] * len(values))) for values in differences]
    return Verdict("B1", (Part(part, "a sentence", tuple(findings)),))


# --- settings ---


def test_a_setting_is_named_in_words_and_holds_its_numbers() -> None:
    (found,) = measured.settings(rows(), {})
    assert (found.name, found.note) == ("CIFAR-10, crops and flips", "reduced: a small network, 8 epochs")
    assert found.betas == [0.001, 0.1, 1.0, 5.0] and found.seeds == 3 and found.augmented
    difference = found.against_one("test_accuracy", 0.1)
    assert difference is not None and difference.mean == pytest.approx(0.97 - 0.95 + 0.001 * (0.1 - 0.3))
    assert found.against_one("test_accuracy", 20.0) is None
    assert found.mean("lost", 1.0) == 41 and found.mean("early_accuracy", 5.0) == pytest.approx(0.46)
    assert math.isnan(found.mean("nothing", 1.0))


def test_an_entry_counts_once_all_its_records_are_there() -> None:
    some = rows({0.1: 0.9, 1.0: 0.9, 5.0: 0.9}, range(5))
    of_beta = some.groupby("beta")["record"].agg(frozenset)
    planned = {("cifar10-fast", name): of_beta[1.0] | of_beta[5.0] for name in of_beta[1.0] | of_beta[5.0]}
    planned |= {("cifar10-fast", name): of_beta[0.1] for name in of_beta[0.1]}
    assert [setting.betas for setting in measured.settings(some, planned)] == [[0.1, 1.0, 5.0]]
    assert [setting.betas for setting in measured.settings(some[some["record"] != "0.1-4.json"], planned)] == [[1.0, 5.0]]
    assert measured.settings(some[some["record"] != "5.0-4.json"], planned) == [], "without β = 1 there is no setting"
    assert measured.settings(rows(seeds=range(2)), {}) == [], "two seeds are too few"


def test_the_campaigns_say_what_is_planned() -> None:
    planned = measured.entries()
    assert len(planned["cifar10-fast", "augmented-seed0-beta0.1.json"]) == 25
    assert len(planned["cifar10-fast", "plain-seed0-beta0.1.json"]) == 9
    assert len(planned["mnist", "relu-unit-seed0.json"]) == 5


def test_other_kinds_of_runs_are_no_settings() -> None:
    for other in (
        {"loss": "focal 2"},
        {"match_gradient": True},
        {"temperature": 2.0},
        {"warmup_epochs": 3},
        {"momentum": 0.0},
        {"scale": "smoke"},
    ):
        assert measured.settings(rows(**other), {}) == []
    assert measured.settings(pd.DataFrame(), {}) == []
    twice = pd.concat([rows({0.1: 0.9, 1.0: 0.9}, learning_rate=0.1), rows()])
    assert [setting.betas for setting in measured.settings(twice, {})] == [[0.001, 0.1, 1.0, 5.0]], "of two rates the one with more β"


def test_a_part_of_a_data_set_does_not_decide_beside_the_whole() -> None:
    part = rows(
        campaign="cifar10-reduced", dataset="cifar10-jpeg", subset=6000, model="resnet18", milestones=None, augmentation="crop-flip"
    )
    found = measured.settings(pd.concat([part, rows()]), {})
    assert [setting.name for setting in found] == ["CIFAR-10, crops and flips", "CIFAR-10, 6,000 images, crops and flips"]
    assert [setting.name for setting in measured.deciding(found)] == ["CIFAR-10, crops and flips"]
    assert len(measured.deciding(found[1:])) == 1


def test_the_records_have_settings_with_three_seeds_or_more() -> None:
    found = measured.settings(records.read(records.default_folder()))
    assert {"MNIST, tanh, pixels 0 to 1", "MNIST, ReLU, pixels 0 to 255"} <= {setting.name for setting in found}
    assert all(setting.seeds >= 3 and len(setting.betas) > 1 for setting in found)
    assert len(play(found).json()) < 15_000


# --- the figure ---


def test_the_figure_gets_what_the_records_hold() -> None:
    (shown,) = json.loads(play(measured.settings(rows(), {})).json())["settings"]
    assert shown["beta"] == [0.001, 0.1, 1, 5] and shown["accuracy"] == 95.13
    assert shown["gain"][1] == pytest.approx([1.98, 1.98, 1.98]) and shown["gain"][2] == [0, 0, 0]
    assert shown["ece"] == [20] * 4 and shown["link"] == [4] * 4 and shown["temperature"] == [1] * 4


# --- the answer ---


def test_a_tally_counts_intervals() -> None:
    def setting(name: str, own: list[float]) -> Setting:
        values = [{"beta": 1.0, "seed": seed, "x": 0.0} for seed in range(3)] + [
            {"beta": 0.1, "seed": s, "x": x} for s, x in enumerate(own)
        ]
        return Setting(name, name, "", "", "paper", False, pd.DataFrame(values))

    found = answer.tally([setting("up", [1.0, 1.1, 1.2]), setting("down", [-1.0, -1.1, -1.2]), setting("?", [-1.0, 0.0, 1.3])], "x", 0.1)
    assert (found.settings, found.higher, found.lower) == (3, 1, 1)
    assert found.means == pytest.approx([-1.1, 0.1, 1.1])


def test_the_words_follow_the_numbers() -> None:
    raw, unit = of_mnist({0.001: 0.91, 0.1: 0.94, 1.0: 0.95}, "tanh", "none"), of_mnist({0.001: 0.96, 0.1: 0.96, 1.0: 0.95}, "tanh", "unit")
    found = answer.answers(measured.settings(pd.concat([raw, unit, rows()]), {}), b1([0.01, -0.01, 0.0]))
    assert found["Use it?"].startswith(
        "For accuracy it is worth a trial: {ref}`β = 0.1 in place of 1 <sec-use-which>` changed it by −1.0 to +2.0 percentage points"
    )
    assert "of 3 settings it was higher in 2, lower in 1" in found["Use it?"]
    assert found["Which β?"].startswith("0.1, if any. {ref}`At worst <sec-use-which>` it lost 1.0 points")
    assert found["What does it cost?"] == (
        "{ref}`Too much confidence <sec-e11>`: it and the accuracy differ by 20.0 % (calibration error). "
        "{ref}`A formula <sec-calibration-link>` brings this to 4.0 %."
    )
    assert "on pixels from 0 to 255 β = 0.001 {ref}`cost up to 4.0 points <sec-unsaid>`" in found["When does it hurt?"]
    assert "with steps of one size β = 0.1 changed accuracy by 0.0 [−2.5, +2.5] points" in found["What instead?"]
    assert answer.plain(found["Which β?"]).startswith("0.1, if any. At worst it lost")

    plain = rows({0.1: 0.951, 1.0: 0.95}, augmentation="none", test_ece_link=0.15)
    found = answer.answers(measured.settings(pd.concat([plain, raw, rows()]), {}), b1())
    assert found["Use it?"].startswith("For accuracy there is little reason:")
    assert found["What does it cost?"].endswith(
        "brings this to 4.0 %, but where the network {ref}`over-fits <sec-b2>` only from 20.0 to 15.0 %."
    )

    better = [of_mnist({0.001: 0.96, 0.1: 0.90, 1.0: 0.95}, name, pixels) for name in ("relu", "tanh") for pixels in ("unit", "none")]
    found = answer.answers(measured.settings(pd.concat(better), {}), b1())
    assert "of 4 settings it was higher in 4, lower in 0" in found["Use it?"]
    assert found["Which β?"].startswith("0.001, if any. {ref}`At worst <sec-use-which>` it gained 1.0")
    assert found["When does it hurt?"].startswith("No setting")
    assert found["What instead?"] == "First {ref}`tune the learning rate <sec-use-rate>`."

    found = answer.answers(measured.settings(pd.concat([plain.assign(test_accuracy=[0.9, 0.91, 0.92, 0.95, 0.96, 0.97]), raw]), {}), b1())
    assert found["Use it?"].startswith("Not for accuracy:")


def test_a_rate_that_was_chosen_for_each_beta_comes_before_a_matched_one() -> None:
    assert answer.at_one_speed(b1()) == ""
    both = Verdict("B1", (*b1([0.01, 0.02]).parts, *b1([0.010, 0.011, 0.012], [-0.02, 0.0, 0.02], part="d").parts))
    expected = "with the rate chosen for each β β = 0.1 changed accuracy by 0.0 to +1.1 points, told apart from none in 1 of 2 settings"
    assert answer.at_one_speed(both) == expected


def test_a_beta_that_was_not_run_everywhere_is_not_advised() -> None:
    with pytest.raises(ValueError, match="no β but 1"):
        answer.advised_beta([*measured.settings(rows({0.1: 0.9, 1.0: 0.9}), {}), *measured.settings(rows({5.0: 0.9, 1.0: 0.9}), {})])


# --- the matrix ---


def finding(variant: str, outcome: str, **own: object) -> Finding:
    difference = statistics.paired_difference([0.01, 0.02, 0.03], [0.0, 0.0, 0.0])
    return Finding(variant, outcome, "test accuracy, 0.1 against 1", difference, **own)  # type: ignore[arg-type]


def test_the_matrix_has_mark_word_effect_and_link() -> None:
    parts = (
        Part("a", "a sentence", (finding("tanh-unit", "met", paper="GD-2: +0.002"), finding("relu-none", "contradicted"))),
        Part("b", "another", (finding("tanh-unit", "unresolved"), finding("cifar10, fast, plain", "met", decides=False))),
    )
    told = {name: {"label": "sec-e4", "short": "A small β is more accurate"} for name in ("E4", "E5")}
    found = BeautifulSoup(outcomes.matrix([Verdict("E4", parts), Verdict("E5", ())], told).text, "html.parser")
    assert [cell.get_text() for cell in found.select("thead th")] == ["claim", "outcome", "MNIST"]
    first, second = found.select("tbody tr")
    assert first.select_one("th a")["href"] == "../notebooks/evidence/accuracy.html#sec-e4"  # type: ignore[index]
    assert (
        first.select_one(".word").get_text() == "mixed"
        and first.select_one(".all").get_text(" ", strip=True) == "✓1 met ✗1 contradicted ○1 unresolved"
    )  # type: ignore[union-attr]
    lines = [line.get_text() for line in first.select(".more > span")]
    assert lines[0] == "✓ met a tanh, pixels 0 to 1: test accuracy, 0.1 against 1: +0.020 [−0.005, +0.045] (papers: GD-2: +0.002)"
    assert [line.split()[0] for line in lines] == ["✓", "✗", "○"]
    assert second.select("td")[-1].get_text() == "– not run" and second.select_one(".word").get_text() == "not run"  # type: ignore[union-attr]
    assert outcomes.summary([Verdict("E4", parts), Verdict("E5", ())]) == "1 mixed, 1 not run"
    new = BeautifulSoup(outcomes.matrix([Verdict("E4", parts)], {}).text, "html.parser").select_one("tbody th")
    assert new.select_one("a")["href"].endswith("#sec-claims") and "β = 0.01 is more accurate" in new.get_text()  # type: ignore[union-attr,index]
    with pytest.raises(ValueError, match="sec-nowhere"):
        outcomes.matrix([Verdict("E4", parts)], {"E4": {"label": "sec-nowhere", "short": ""}})


# --- README.md ---


def test_the_picture_carries_the_hash_of_its_numbers() -> None:
    (setting,) = measured.settings(rows(), {})
    assert headline.digest(setting) in headline.picture(setting)
    (other,) = measured.settings(rows(ACCURACY | {0.1: 0.99}), {})
    assert headline.digest(other) != headline.digest(setting)


def test_the_readme_and_its_picture_show_what_the_records_say() -> None:
    text = headline.README.read_text(encoding="utf-8")
    assert text.index("$$J") < text.index("## ") and "| claim |" not in text
    assert headline.stale() == [], "run `python -m study.headline`"
