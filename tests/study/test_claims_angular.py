"""A4 to A7 and E10 from made-up runs: each part by itself, and what decides nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from study import claims
from study.claims.angular import cost_ratios

ACCURACY = {"softmax": 0.60, "arcgrad 10": 0.66, "arcface 20 0.1": 0.64, "center 0.02": 0.61, "m-softmax 0.5": 0.62, "adacos": 0.63}
INTRA = {"softmax": 0.80, "arcgrad 10": 0.24, "arcface 20 0.1": 0.39, "center 0.02": 0.42, "m-softmax 0.5": 0.69, "adacos": 0.41}


def trained(
    changes: dict[str, float] | None = None, *, samples: int = 6000, epochs: int = 15, seeds: int = 3, entry: str = "augmented", **columns
) -> pd.DataFrame:
    """Made-up runs that say what the paper says; changes are added to the accuracy of a loss."""
    generator, rows = np.random.default_rng(samples + epochs), []
    for seed in range(seeds):
        common = generator.normal(0, 0.01)
        for loss, accuracy in ACCURACY.items():
            noise = generator.normal(0, 1e-3)
            row = {
                "campaign": "angular-reduced",
                "record": f"{entry}-{loss.replace(' ', '-')}-seed{seed}.json",
                "scale": "reduced",
                "dataset": "cifar10-jpeg",
                "model": "resnet18",
                "width": 0.25,
                "augmentation": "crop-flip",
                "epochs": epochs,
                "train_samples": samples,
                "diverged": False,
                "seed": seed,
                "loss": loss,
                "schedule": loss,
                "test_accuracy": accuracy + (changes or {}).get(loss, 0.0) + common + noise,
                "wc_intra": INTRA[loss] + noise,
                "w_inter": 1.7 - INTRA[loss] / 2 + noise,
                "curve_epoch": [0, 3, 6],
                "curve_target_angle": [3.0 - 2 * INTRA[loss], 1.2 * INTRA[loss] + noise, INTRA[loss] + noise],
            }
            rows.append(row | columns)
    return pd.DataFrame(rows)


def cuts() -> pd.DataFrame:
    """Everything, a quarter of the samples, and a third of the epochs; ArcGrad's lead grows by 4 points in both."""
    lead = {"arcgrad 10": 0.04}
    few, short = trained(lead, samples=1500, entry="fewer"), trained(lead, epochs=5, entry="shorter")
    return pd.concat([trained(), few, short], ignore_index=True)


def states(claim: str, runs: pd.DataFrame) -> dict[str, str]:
    return {part.id: part.met for part in claims.verdict(claim, runs).parts}


class TestWhatThePaperSays:
    @pytest.mark.parametrize("claim", ["A4", "A5", "A6"])
    def test_holds(self, claim):
        found = claims.verdict(claim, cuts())
        assert (found.verdict, found.scale, found.seeds) == ("holds", "reduced", 3)
        assert {finding.reading for part in found.parts for finding in part.findings} == {"cifar10-jpeg, resnet18×0.25, crops and flips"}

    def test_what_is_compared(self):
        (finding,) = claims.verdict("A5", cuts()).parts[0].findings
        assert finding.text == "test accuracy, ArcGrad, s = 10 minus softmax, 1\u2009500 against 6\u2009000 samples"
        assert finding.difference.mean == pytest.approx(0.04, abs=0.003)
        (finding,) = claims.verdict("A6", cuts()).parts[1].findings  # the rival that comes nearest
        assert finding.text == "wc_intra, ArcGrad, s = 10 against ArcFace, s = 20, m = 0.1"
        assert finding.difference.mean == pytest.approx(0.24 - 0.39, abs=0.003)

    def test_full_runs_decide_a4_and_a6_and_cut_ones_do_not(self):
        runs = cuts()
        runs.loc[runs["record"].str.startswith(("fewer", "shorter")), ["test_accuracy", "wc_intra", "w_inter"]] = 0.5
        assert claims.verdict("A4", runs).verdict == claims.verdict("A6", runs).verdict == "holds"
        assert set(claims.angular_runs(runs, "angular")["samples"]) == {6000}
        assert set(claims.angular_runs(runs, "angular-cuts")["samples"]) == {6000, 1500}

    def test_the_first_evaluation_does_not_count_for_the_speed(self):
        angles = claims.angular_runs(trained(), "angular").groupby("schedule")["mean_target_angle"].mean()
        assert angles["arcgrad 10"] == pytest.approx(1.1 * 0.24, abs=0.002)


@pytest.mark.parametrize(
    ("claim", "changes", "part"),
    [
        ("A4", {"arcgrad 10": -0.03}, "b"),  # 0.63: behind ArcFace, ahead of softmax
        ("A4", {"softmax": 0.05}, "c"),  # 0.65: ahead of ArcFace, behind ArcGrad
        ("A4", {"arcface 20 0.1": -0.05, "adacos": 0.04}, "b"),  # the best of the others is chosen by its mean
    ],
)
def test_one_part_of_a4_that_is_not_met(claim, changes, part):
    found = states(claim, trained(changes))
    assert found.pop(part) == "not met"
    assert set(found.values()) == {"met"}


@pytest.mark.parametrize(
    ("few", "short", "expected"),
    [
        ({}, {"arcgrad 10": 0.04}, {"a": "not met", "b": "met", "c": "met", "d": "met"}),
        ({"arcgrad 10": 0.04}, {}, {"a": "met", "b": "met", "c": "not met", "d": "met"}),
        (
            {"arcgrad 10": 0.04, "adacos": 0.1},
            {"arcgrad 10": 0.04, "center 0.02": 0.1},
            {"a": "met", "b": "not met", "c": "met", "d": "not met"},
        ),
        ({"arcgrad 10": 0.04, "center 0.02": 0.1}, {"arcgrad 10": 0.04}, {"a": "met", "b": "met", "c": "met", "d": "met"}),  # not in b
    ],
)
def test_the_parts_of_a5(few, short, expected):
    runs = [trained(), trained(few, samples=1500, entry="fewer"), trained(short, epochs=5, entry="shorter")]
    assert states("A5", pd.concat(runs, ignore_index=True)) == expected


@pytest.mark.parametrize(
    ("loss", "values", "expected"),
    [
        ("center 0.02", {"wc_intra": 0.85}, {"a": "not met", "b": "met", "c": "met", "d": "met"}),
        ("adacos", {"wc_intra": 0.20}, {"a": "met", "b": "not met", "c": "met", "d": "met"}),
        ("arcgrad 10", {"w_inter": 1.0}, {"a": "met", "b": "met", "c": "not met", "d": "met"}),
        ("softmax", {"angle": 0.1}, {"a": "met", "b": "met", "c": "met", "d": "not met"}),
    ],
)
def test_the_parts_of_a6(loss, values, expected):
    runs = trained()
    rows = runs["schedule"] == loss
    for name, value in values.items():
        if name == "angle":
            runs.loc[rows, "curve_target_angle"] = pd.Series([[3.0, value, value]] * rows.sum(), index=runs.index[rows])
        else:
            runs.loc[rows, name] = value
    assert states("A6", runs) == expected


class TestWhatDecidesNothing:
    def test_nothing_was_run(self):
        for claim in ("A4", "A5", "A6", "A7", "E10"):
            assert claims.verdict(claim, pd.DataFrame()).verdict == "not tested"
            assert claims.verdict(claim, pd.DataFrame({"record": ["a.json"], "campaign": ["mnist"]})).verdict == "not tested"

    def test_a_loss_that_is_missing(self):
        runs = trained()
        assert states("A6", runs[runs["schedule"] != "adacos"]) == {"a": "not tested", "b": "not tested", "c": "met", "d": "met"}
        assert states("A4", runs[runs["schedule"] != "adacos"]) == {"a": "met", "b": "not tested", "c": "not tested"}

    def test_an_entry_that_is_missing(self):
        assert claims.verdict("A5", trained()).verdict == "not tested"
        runs = cuts()
        assert states("A5", runs[~runs["record"].str.startswith("shorter")]) == {
            "a": "met",
            "b": "met",
            "c": "not tested",
            "d": "not tested",
        }

    def test_the_runs_that_chose_the_learning_rate(self):
        runs = trained()
        reading = trained({"softmax": 0.3}, entry="reading")
        assert claims.verdict("A4", pd.concat([runs, reading], ignore_index=True)).to_frame().equals(claims.verdict("A4", runs).to_frame())

    def test_diverged_runs_and_smoke_runs_and_other_campaigns(self):
        for change in ({"diverged": True}, {"scale": "smoke"}, {"campaign": "large-margin-reduced"}):
            assert claims.verdict("A4", trained(**change)).verdict == "not tested"

    def test_three_seeds_are_enough_for_images_and_five_for_mnist(self):
        mnist = {"campaign": "angular-mnist", "dataset": "mnist", "model": "mlp", "width": 1.0, "scale": "paper", "augmentation": "none"}
        assert claims.verdict("A6", trained(seeds=2)).verdict == "not tested"
        assert claims.verdict("A6", trained(**mnist)).verdict == "not tested"
        found = claims.verdict("A6", pd.concat([trained(), trained(seeds=5, **mnist)], ignore_index=True))
        assert [finding.reading for finding in found.parts[0].findings] == [
            "cifar10-jpeg, resnet18×0.25, crops and flips",
            "mnist, perceptron",
        ]
        assert (found.verdict, found.scale, found.seeds) == ("holds", "paper, reduced", 3)
        assert claims.verdict("A4", trained(seeds=5, **mnist)).verdict == "not tested"  # tables IV and V are of images networks


def steps(shallow: float = 0.03, deep: float = 0.015, repetitions: int = 5, noise: float = 0.002) -> pd.DataFrame:
    """Made-up times of a step: shares by which ArcGrad exceeds softmax."""
    generator, rows = np.random.default_rng(0), []
    for repetition in range(repetitions):
        for model, seconds, excess in (("resnet18", 1.0, shallow), ("resnet34", 2.0, deep)):
            load = 1 + 0.2 * generator.random()  # what a repetition shares
            for loss, factor in (("softmax", 1.0), ("arcgrad 10", 1 + excess + generator.normal(0, noise))):
                rows.append(
                    {
                        "campaign": "angular-cost",
                        "record": "reduced.json",
                        "scale": "reduced",
                        "model": model,
                        "loss": loss,
                        "schedule": loss,
                        "seed": repetition,
                        "width": 0.25,
                        "batch_size": 256,
                        "measured_on": "cpu",
                        "diverged": False,
                        "step_seconds": seconds * factor * load,
                    }
                )
    return pd.DataFrame(rows)


class TestCost:
    def test_holds(self):
        found = claims.verdict("A7", steps())
        assert (found.verdict, found.seeds) == ("holds", 5)
        assert found.parts[0].findings[0].reading == "cpu, ×0.25, batches of 256"
        assert found.parts[0].findings[0].difference.mean == pytest.approx(0.03 - 0.05, abs=0.003)

    def test_ratios_are_within_a_repetition(self):
        ratios = cost_ratios(steps(noise=0), "arcgrad 10")
        np.testing.assert_allclose(ratios[["resnet18", "resnet34"]], [[0.03, 0.015]] * 5)

    def test_the_upper_end_of_the_interval_decides(self):
        assert states("A7", steps(shallow=0.06)) == {"a": "not met", "b": "met"}
        assert states("A7", steps(shallow=0.045, noise=0.02))["a"] == "not met"
        assert states("A7", steps(deep=0.03)) == {"a": "met", "b": "not met"}

    def test_noise_is_no_refutation(self):
        assert claims.verdict("A7", steps(deep=0.03, noise=0.05)).verdict == "undecided"
        assert claims.verdict("A7", steps(shallow=0.09, deep=0.09)).verdict == "does not hold"

    def test_one_network_or_too_few_repetitions(self):
        runs = steps()
        assert states("A7", runs[runs["model"] == "resnet18"]) == {"a": "met", "b": "not tested"}
        assert claims.verdict("A7", steps(repetitions=4)).verdict == "not tested"

    def test_times_are_no_trainings(self):
        assert claims.image_runs(steps(), "images").empty
        assert claims.runs_of(steps(), "angular").empty and claims.runs_of(cuts(), "cost").empty


def with_rivals(changes: dict[str, float] | None = None) -> pd.DataFrame:
    """The warm-up and its two rivals in one reading, as two campaigns leave them: the first does not name the loss."""
    accuracy = {"warm-up 0.1→1": 0.70, "1": 0.69, "a-softmax 4": 0.68, "center 0.003": 0.67}
    generator, rows = np.random.default_rng(2), []
    for seed in range(3):
        common = generator.normal(0, 0.01)
        for schedule, mean in accuracy.items():
            loss = schedule if schedule in claims.RIVALS else None
            rows.append(
                {
                    "campaign": "margin-losses-reduced" if loss else "cifar10-reduced",
                    "record": f"plain-seed{seed}.json",
                    "scale": "reduced",
                    "dataset": "cifar10-jpeg",
                    "model": "resnet18",
                    "width": 0.25,
                    "subset": 6000,
                    "augmentation": "none",
                    "momentum": 0.9,
                    "milestones": [0.5, 0.75],
                    "epochs": 20,
                    "match_gradient": False,
                    "diverged": False,
                    "seed": seed,
                    "loss": loss,
                    "schedule": schedule,
                    "test_accuracy": mean + (changes or {}).get(schedule, 0.0) + common + generator.normal(0, 1e-3),
                    "test_confidence": 0.9,
                }
            )
    return pd.DataFrame(rows)


class TestRivals:
    def test_holds(self):
        found = claims.verdict("E10", with_rivals())
        assert (found.verdict, found.seeds) == ("holds", 3)
        assert found.parts[0].findings[0].text == "test_accuracy, warm-up 0.1→1 against A-Softmax, m = 4"

    @pytest.mark.parametrize(("rival", "part"), [("a-softmax 4", "a"), ("center 0.003", "b")])
    def test_one_rival_is_better(self, rival, part):
        found = states("E10", with_rivals({rival: 0.05}))
        assert found.pop(part) == "not met" and set(found.values()) == {"met"}

    def test_only_readings_with_a_rival(self):
        other = with_rivals().assign(augmentation="crop-flip")
        runs = pd.concat([with_rivals(), other[~other["schedule"].isin(claims.RIVALS)]], ignore_index=True)
        assert claims.runs_of(runs, "margins")["reading"].nunique() == 1
        assert claims.runs_of(other[~other["schedule"].isin(claims.RIVALS)], "margins").empty

    def test_other_losses_stay_out(self):
        runs = pd.concat([with_rivals(), with_rivals().assign(loss="center 0.02", schedule="center 0.02")], ignore_index=True)
        assert "center 0.02" not in set(claims.runs_of(runs, "margins")["schedule"])
