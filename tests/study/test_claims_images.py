"""Verdicts on image networks follow from records by the rules that were written down."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from study import claims

ACCURACY = {"20": 0.80, "5": 0.90, "1": 0.92, "0.1": 0.93, "0.01": 0.925, "warm-up 0.1→1": 0.94}
OVERCONFIDENCE = {"20": -0.02, "5": 0.01, "1": 0.04, "0.1": 0.06, "0.01": 0.07, "warm-up 0.1→1": 0.05}


def grid(**settings) -> pd.DataFrame:
    """Made-up runs in which E6, E11, E12 and B2 hold: three seeds of every schedule."""
    generator = np.random.default_rng(0)
    rows = []
    for seed in range(settings.pop("seeds", 3)):
        common = generator.normal(0, 0.002)
        for schedule, accuracy in ACCURACY.items():
            small = generator.normal(0, 0.0003)
            over = OVERCONFIDENCE[schedule] + small
            row = {
                "campaign": "cifar10-reduced",
                "record": f"plain-seed{seed}.json",
                "scale": "reduced",
                "dataset": "cifar10-jpeg",
                "model": "resnet18",
                "width": 0.25,
                "augmentation": "none",
                "momentum": 0.9,
                "learning_rate": 0.01,
                "milestones": [0.5, 0.75],
                "epochs": 8,
                "subset": 6000,
                "match_gradient": False,
                "diverged": False,
                "seed": seed,
                "schedule": schedule,
                "beta": 1.0 if schedule.startswith("warm-up") else float(schedule),
                "test_accuracy": accuracy + common + small,
                "test_confidence": accuracy + common + small + over,
                "test_top5_accuracy": 0.99 - accuracy / 10 + small,
                "train_accuracy": accuracy + 0.05 + small,
                "test_ece": abs(over),
                "test_mce": 2 * abs(over),
                "valid_ece": abs(over),
                "test_ece_temperature": 0.025 + small,
                "test_ece_vector": 0.03 + small,
                "test_ece_link": 0.005 + small,
                "curve_test_accuracy": list(np.linspace(0.5, 0.9, 9)),
            }
            rows.append(row | settings)
    return pd.DataFrame(rows)


def states(claim: str, runs: pd.DataFrame) -> dict[str, str]:
    return {part.id: part.met for part in claims.verdict(claim, runs).parts}


@pytest.mark.parametrize("claim", ["E6", "E11", "E12", "B2"])
def test_holds(claim):
    found = claims.verdict(claim, grid())
    assert (found.verdict, found.scale, found.seeds) == ("holds", "reduced", 3)
    assert set(found.to_frame()["reading"]) == {"cifar10-jpeg, resnet18×0.25, plain, 6,000 images, 8 epochs"}


@pytest.mark.parametrize(
    ("claim", "schedule", "values", "part"),
    [
        ("E6", "0.1", {"test_accuracy": 0.91}, "a"),
        ("E6", "5", {"test_accuracy": 0.925}, "b"),
        ("E6", "warm-up 0.1→1", {"test_accuracy": 0.925}, "c"),
        ("E11", "0.1", {"test_confidence": 0.94}, "a"),
        ("E11", "20", {"test_ece": 0.05}, "b"),
        ("E11", "0.1", {"test_ece": 0.03}, "c"),
        ("E11", "0.1", {"test_mce": 0.01}, "d"),
        ("E12", "1", {"test_ece_vector": 0.001}, "b"),
        ("B2", "20", {"test_ece_link": 0.05}, "a"),
        ("B2", "0.1", {"test_ece_temperature": 0.001, "test_ece_link": 0.02}, "b"),
    ],
)
def test_one_part_that_is_not_met(claim, schedule, values, part):
    runs = grid()
    noise = np.random.default_rng(1).normal(0, 0.0003, 3)
    for name, value in values.items():
        runs.loc[runs["schedule"] == schedule, name] = value + noise
    found = states(claim, runs)
    assert found.pop(part) == "not met"
    assert set(found.values()) == {"met"}


def test_a_small_beta_that_is_under_confident_is_not_over_confident():
    runs = grid()
    runs["test_confidence"] -= 0.2
    assert states("E11", runs)["a"] == "not met"


def test_the_beta_of_e12_is_chosen_on_the_validation_split():
    runs = grid()
    runs.loc[runs["schedule"] == "0.01", "valid_ece"] = 0.0001  # a bad choice, but the validation split says so
    assert states("E12", runs) == {"a": "not met", "b": "not met", "c": "met"}


def test_many_classes():
    runs = grid(dataset="tiny-imagenet", campaign="tiny-imagenet-reduced")
    assert states("E8", runs) == {"a": "not met", "b": "met"}
    assert states("E9", runs) == {"a": "not met", "b": "met", "c": "met"}
    runs.loc[runs["schedule"] == "0.1", "test_accuracy"] = runs.loc[runs["schedule"] == "5", "test_accuracy"].to_numpy() + 0.001
    assert states("E9", runs)["a"] == "met"
    assert claims.verdict("E8", grid()).verdict == "not tested"  # ten classes are not many


def test_too_much_noise_to_say_anything_is_no_refutation():
    runs = grid()
    runs["test_accuracy"] = 0.9 + np.random.default_rng(3).normal(0, 0.02, len(runs))
    assert claims.verdict("E6", runs).verdict == "undecided"
    runs.loc[runs["schedule"] == "0.1", "test_accuracy"] -= 0.3
    assert claims.verdict("E6", runs).verdict == "does not hold"


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds(seeds):
    assert claims.verdict("E6", grid(seeds=seeds)).verdict == "not tested"


def test_smoke_runs_and_diverged_runs_do_not_count():
    assert claims.verdict("E6", grid(scale="smoke")).verdict == "not tested"
    assert claims.verdict("E6", grid(diverged=True)).verdict == "not tested"
    assert claims.verdict("E6", pd.DataFrame({"record": ["a-seed0.json"], "campaign": ["mnist"]})).verdict == "not tested"


def test_runs_with_another_loss_do_not_count():
    runs = grid()
    before = claims.verdict("E6", runs).to_frame()
    other = grid(loss="arcgrad 10").assign(test_accuracy=0.1)
    assert claims.image_runs(other, "images").empty
    both = pd.concat([runs, runs.assign(loss="gd", seed=runs["seed"] + 3), other], ignore_index=True)  # old records do not name the loss
    assert set(claims.image_runs(both, "cifar10")["seed"]) == set(range(6))
    assert claims.verdict("E6", pd.concat([runs, other], ignore_index=True)).to_frame().equals(before)


def test_a_reading_without_a_schedule_does_not_decide():
    runs = grid()
    other = grid(augmentation="crop-flip")
    other = other[other["schedule"] != "warm-up 0.1→1"]
    found = claims.verdict("E6", pd.concat([runs, other], ignore_index=True))
    assert [len(part.findings) for part in found.parts] == [2, 2, 1]


def test_runs_of_two_sizes_are_two_readings():
    longer, larger, paper = grid(epochs=16), grid(subset=0), grid(scale="paper", subset=0, epochs=200)
    runs = claims.runs_of(pd.concat([grid(), longer, larger, paper], ignore_index=True), "cifar10")
    name = "cifar10-jpeg, resnet18×0.25, plain"
    assert runs.groupby("reading").size().to_dict() == {
        name: 18,
        f"{name}, 6,000 images, 8 epochs": 18,
        f"{name}, 6,000 images, 16 epochs": 18,
        f"{name}, 8 epochs": 18,
    }
    apart = pd.concat([grid(), longer], ignore_index=True)
    apart = apart[(apart["epochs"] == 8) == (apart["schedule"] == "1")]  # β = 1 in one, the rest in the other
    assert claims.verdict("E6", apart).verdict == "not tested"


def oscillating(momentum: float, rate: float, sizes: dict[str, float]) -> pd.DataFrame:
    runs = grid(momentum=momentum, learning_rate=rate, milestones=())
    runs = runs[runs["schedule"].isin(list(sizes))].copy()
    size = runs["schedule"].map(sizes) * (1 + 0.05 * runs["seed"])
    runs["curve_test_accuracy"] = [[0.1, 0.3, 0.6, 0.8, 0.8, 0.8 + s, 0.8 - s, 0.8 + s, 0.8 - s] for s in size]
    return runs


class TestOscillation:
    def test_holds(self):
        runs = [
            oscillating(0.9, 0.01, {"5": 0.05, "0.1": 0.01}),
            oscillating(0.0, 0.01, {"5": 0.01, "0.1": 0.01}),
            oscillating(0.0, 0.1, {"5": 0.01, "0.1": 0.02}),
        ]
        found = claims.verdict("E13", pd.concat([grid(), *runs], ignore_index=True))
        assert found.verdict == "holds"
        assert {finding.reading for part in found.parts for finding in part.findings} == {
            "cifar10-jpeg, resnet18×0.25, plain, 6,000 images, 8 epochs, constant learning rate"
        }

    def test_larger_at_the_same_step_without_momentum(self):
        runs = [
            oscillating(0.9, 0.01, {"5": 0.05, "0.1": 0.01}),
            oscillating(0.0, 0.01, {"5": 0.01, "0.1": 0.01}),
            oscillating(0.0, 0.1, {"5": 0.05, "0.1": 0.01}),
        ]
        assert states("E13", pd.concat(runs, ignore_index=True)) == {"a": "met", "b": "not met"}

    def test_only_the_second_half_at_the_first_rate_counts(self):
        runs = oscillating(0.9, 0.01, {"5": 0.0, "0.1": 0.0})
        runs["curve_test_accuracy"] = [[0.1, 0.9, 0.1, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5]] * len(runs)
        found = claims.runs_of(pd.concat([runs, runs.assign(momentum=0.0)], ignore_index=True), "oscillation")
        assert (found["oscillation"] == 0).all() and len(found) == 12
        falling = runs.assign(milestones=[[0.5]] * len(runs))
        found = claims.runs_of(pd.concat([falling, falling.assign(momentum=0.0)], ignore_index=True), "oscillation")
        assert (found["oscillation"] > 0.5).all()  # epochs 2 to 4

    def test_without_both_momenta_nothing_is_decided(self):
        assert claims.verdict("E13", oscillating(0.9, 0.01, {"5": 0.05, "0.1": 0.01})).verdict == "not tested"


class TestMatched:
    def test_holds(self):
        runs = pd.concat([grid(), grid(match_gradient=True)], ignore_index=True)
        assert claims.verdict("B1", runs).verdict == "holds"
        assert len(claims.runs_of(runs, "matched")) == 36
        assert len(claims.runs_of(runs, "images")) == 18

    def test_fewer_matched_seeds_than_plain_ones(self):
        runs = pd.concat([grid(), grid(match_gradient=True, seeds=2)], ignore_index=True)
        assert claims.verdict("B1", runs).verdict == "not tested"

    def test_accuracy_that_matching_takes_away(self):
        matched = grid(match_gradient=True)
        matched["test_accuracy"] = grid().loc[2, "test_accuracy"] + np.random.default_rng(2).normal(0, 0.01, len(matched))
        assert states("B1", pd.concat([grid(), matched], ignore_index=True))["b"] == "not met"
