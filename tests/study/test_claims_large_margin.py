"""L3 to L6 from made-up runs: each part met, not met, not tested; which runs count, and how a reading is told from another."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from study import claims

ACCURACY = {
    **{"softmax": 0.70, "lm 0.1": 0.71, "lm 0.3": 0.74, "lm 0.9": 0.75, "lm 1": 0.751},
    **{"lm-qu 0.3": 0.72, "lm-qu 0.9": 0.73, "lm-uq 0.1": 0.60, "lm-uq 0.3": 0.735, "lm-uq 0.9": 0.745},
    **{"label-smoothing 0.1": 0.71, "label-smoothing 0.3": 0.705, "super-symmetry": 0.69, "hinge": 0.60},
    **{"modified": 0.72, "modified-lm 0.3": 0.745, "l-softmax 2": 0.73, "lgm 0.3 0.1": 0.65},
}
BIAS = {"softmax": 0.7, "lm 0.3": 1.0, "label-smoothing 0.1": 0.9}
READING = "cifar10-jpeg, vgg16×0.25, crops and flips, 6,000 images, 20 epochs"


def grid(losses: list[str] | None = None, seeds: int = 3, **settings) -> pd.DataFrame:
    """Runs in which every part of L3, L4 and L6 is met."""
    generator, rows = np.random.default_rng(0), []
    for seed in range(seeds):
        common = generator.normal(0, 0.01)
        for loss in losses if losses is not None else ACCURACY:
            small = generator.normal(0, 0.0003)
            bias = BIAS.get(loss, 0.8) + small
            rise = 0.1 if loss in ("lm 0.3", "label-smoothing 0.1") else 0.0
            row = {
                "campaign": "large-margin-reduced",
                "record": f"bias-{loss}-seed{seed}.json",
                "scale": "reduced",
                "dataset": "cifar10-jpeg",
                "model": "vgg16",
                "width": 0.25,
                "augmentation": "crop-flip",
                "lr_schedule": "exponential",
                "learning_rate": 0.03,
                "momentum": 0.9,
                "milestones": [],
                "match_gradient": False,
                "epochs": 20,
                "subset": 6000,
                "train_samples": 6000,
                "label_noise": 0.0,
                "loss": loss,
                "schedule": loss,
                "beta": 1.0,
                "seed": seed,
                "diverged": False,
                "test_accuracy": ACCURACY[loss] + common + small,
                "test_confidence": ACCURACY[loss] + common,
                "train_margin_bias": bias,
                "curve_train_epoch": [0, 10, 20],
                "curve_train_margin_bias": [2.1, bias - rise - abs(small), bias],
            }
            rows.append(row | settings)
    return pd.DataFrame(rows)


def degraded() -> pd.DataFrame:
    """Half of the samples, and two shares of wrong labels, beside all samples: L5 holds."""
    losses = ["softmax", "lm 0.3", "lm 1"]
    parts = [grid(losses), grid(losses, train_samples=3000, subset=3000), grid(losses, label_noise=0.2), grid(losses, label_noise=0.5)]
    return pd.concat(parts, ignore_index=True)


def states(claim: str, runs: pd.DataFrame) -> dict[str, str]:
    return {part.id: part.met for part in claims.verdict(claim, runs).parts}


def changed(runs: pd.DataFrame, changes: dict[str, float], column: str = "test_accuracy") -> pd.DataFrame:
    """The runs with something added to the accuracy of some losses."""
    return runs.assign(**{column: runs[column] + runs["loss"].map(changes).fillna(0.0)})


@pytest.mark.parametrize("claim", ["L3", "L4", "L6"])
def test_holds(claim):
    found = claims.verdict(claim, grid())
    assert (found.verdict, found.scale, found.seeds) == ("holds", "reduced", 3)
    assert set(found.to_frame()["reading"]) == {READING}


@pytest.mark.parametrize(
    ("claim", "changes", "part"),
    [
        ("L3", {"softmax": 0.05}, "a"),
        ("L3", {"lm-uq 0.3": -0.05}, "b"),
        ("L3", {"lm-qu 0.3": 0.06, "lm-uq 0.3": 0.06}, "c"),
        ("L3", {"lm 0.9": -0.06, "lm-qu 0.3": -0.06}, "d"),
        ("L4", {"label-smoothing 0.3": 0.05}, "a"),
        ("L4", {"super-symmetry": 0.07, "softmax": 0.07}, "b"),
        ("L4", {"super-symmetry": 0.02}, "c"),
        ("L6", {"hinge": 0.12}, "a"),
        ("L6", {"modified": -0.03}, "b"),
        ("L6", {"l-softmax 2": 0.03}, "c"),
        ("L6", {"lgm 0.3 0.1": 0.11}, "c"),
        ("L6", {"modified-lm 0.3": -0.035}, "d"),
    ],
)
def test_one_part_that_is_not_met(claim, changes, part):
    found = states(claim, changed(grid(), changes))
    assert found.pop(part) == "not met"
    assert set(found.values()) == {"met"}


@pytest.mark.parametrize(("loss", "part"), [("lm 0.3", "d"), ("label-smoothing 0.1", "e")])
def test_a_bias_that_is_not_larger(loss, part):
    assert states("L4", changed(grid(), {loss: -0.31}, "train_margin_bias"))[part] == "not met"


def test_a_bias_that_only_falls():
    runs = grid()
    runs["curve_train_margin_bias"] = [[2.1, end + 0.1, end] for end in runs["train_margin_bias"]]
    found = claims.runs_of(runs, "large-margin")
    assert (found["bias_rise"] == 0).all()
    assert states("L4", runs)["f"] == "not met"
    risen = claims.runs_of(grid(), "large-margin").groupby("loss")["bias_rise"].mean()
    assert risen["lm 0.3"] == pytest.approx(0.1, abs=1e-3) and risen["softmax"] == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("claim", "missing", "parts"),
    [
        ("L3", "lm 0.3", "a"),
        ("L3", "lm-uq", "b"),
        ("L3", "lm-qu", "bc"),
        ("L3", "lm 0.1", "d"),
        ("L4", "label-smoothing", "ae"),
        ("L4", "super-symmetry", "bc"),
        ("L6", "hinge", "a"),
        ("L6", "lgm", "c"),
        ("L6", "modified-lm", "d"),
    ],
)
def test_a_loss_that_was_not_run(claim, missing, parts):
    runs = grid()
    found = states(claim, runs[~runs["loss"].str.startswith(missing)])
    assert {part for part, state in found.items() if state == "not tested"} == set(parts)
    assert claims.verdict(claim, runs[~runs["loss"].str.startswith(missing)]).verdict == "not tested"


def test_the_average_is_over_the_values_that_both_divergences_have():
    difference = claims.verdict("L3", grid()).parts[1].findings[0]
    assert difference.difference.mean == pytest.approx((0.735 + 0.745 - 0.72 - 0.73) / 2, abs=1e-3)  # without lm-uq 0.1
    assert difference.text == "test accuracy, LM with D(u‖q) against LM with D(q‖u), mean over λ = 0.3, 0.9"


def test_best_means_the_best_value_of_a_loss_too():
    finding = claims.verdict("L4", changed(grid(), {"label-smoothing 0.3": 0.025})).parts[0].findings[0]
    assert finding.text == "test_accuracy, LM, λ = 0.3 against label smoothing, λ = 0.3"


def test_a_variant_with_one_seed_is_no_rival():
    variant = grid(["lgm 0.3 0.1"], seeds=1).assign(loss="lgm 0 0", schedule="lgm 0 0", test_accuracy=0.99)
    assert claims.verdict("L6", pd.concat([variant, grid()], ignore_index=True)).verdict == "holds"


def test_fewer_samples_and_wrong_labels():
    found = claims.verdict("L5", degraded())
    assert (found.verdict, [len(part.findings) for part in found.parts]) == ("holds", [1, 1, 2, 2])
    assert found.parts[0].findings[0].reading == READING.replace("6,000", "3,000")
    assert [finding.reading for finding in found.parts[2].findings] == [f"{READING}, {share} % wrong labels" for share in (20, 50)]


@pytest.mark.parametrize(
    ("where", "changes", "part"),
    [
        ("share", {"softmax": 0.05}, "a"),
        ("share", {"lm 1": -0.05}, "b"),
        ("label_noise", {"softmax": 0.05}, "c"),
        ("label_noise", {"lm 1": -0.05}, "d"),
    ],
)
def test_one_part_of_l5_that_is_not_met(where, changes, part):
    runs = degraded()
    chosen = runs["train_samples"] == 3000 if where == "share" else runs["label_noise"] == 0.5
    runs = pd.concat([runs[~chosen], changed(runs[chosen], changes)], ignore_index=True)
    found = states("L5", runs)
    assert found.pop(part) == ("not met" if where == "share" else "met in part")
    assert set(found.values()) == {"met"}


def test_where_l5_is_not_tested():
    assert claims.verdict("L5", grid()).verdict == "not tested"
    assert claims.runs_of(grid(), "degraded").empty
    runs = degraded()
    assert states("L5", runs[runs["label_noise"] == 0]) == {"a": "met", "b": "met", "c": "not tested", "d": "not tested"}
    assert states("L5", runs[runs["train_samples"] == 6000])["a"] == "not tested"
    third = runs.assign(train_samples=runs["train_samples"].replace(3000, 2000))
    assert states("L5", third)["a"] == "not tested"  # the criterion says half


def test_degraded_runs_do_not_decide_the_other_claims():
    both = pd.concat([grid(), degraded()[3:]], ignore_index=True)
    assert set(claims.runs_of(both, "large-margin")["reading"]) == {READING}
    assert set(claims.runs_of(both, "degraded")["loss"]) == {"softmax", "lm 0.1", "lm 0.3", "lm 0.9", "lm 1"}


def test_readings_decide_for_themselves():
    plain = changed(grid(augmentation="none"), {"softmax": 0.05})
    found = claims.verdict("L3", pd.concat([grid(), plain], ignore_index=True))
    assert states("L3", pd.concat([grid(), plain], ignore_index=True))["a"] == "met in part"
    assert {finding.reading for finding in found.parts[0].findings} == {READING, READING.replace("crops and flips", "plain")}


def test_the_learning_rate_of_the_choice_does_not_count():
    other = grid(["softmax"], learning_rate=0.1).assign(test_accuracy=0.99)
    again = grid(["softmax"], seeds=1, curve_train_margin_bias=[2.1, 0.7]).assign(test_accuracy=0.98)  # evaluated less often
    runs = pd.concat([again, other, grid()], ignore_index=True)
    found = claims.runs_of(runs, "large-margin")
    assert len(found) == len(grid()) and found["test_accuracy"].max() < 0.9
    assert claims.verdict("L3", runs).verdict == "holds"


@pytest.mark.parametrize(
    "settings",
    [{"seeds": 2}, {"scale": "smoke"}, {"model": "mlp"}, {"lr_schedule": "milestones"}, {"lr_schedule": "one-cycle"}, {"loss": "arcface 20 0.1"}],
)
def test_what_decides_nothing(settings):
    assert claims.verdict("L3", grid(**settings)).verdict == "not tested"


def test_records_of_gradient_decay_decide_nothing():
    assert claims.verdict("L6", pd.DataFrame({"record": ["a-seed0.json"], "campaign": ["mnist"]})).verdict == "not tested"
    old = grid().drop(columns=["loss"])
    assert claims.verdict("L6", old).verdict == "not tested"
    other = old.assign(loss=np.nan, test_accuracy=0.1, epochs=np.nan)  # records of another kind, which have no epochs
    both = pd.concat([grid(), other, grid().assign(loss="gd", test_accuracy=0.1)], ignore_index=True)
    assert claims.verdict("L6", both).verdict == "holds"
    assert set(claims.runs_of(both, "large-margin")["reading"]) == {READING}


def test_a_run_that_diverged_is_a_failure_of_its_loss():
    runs = grid()
    rows = (runs["loss"] == "hinge") & (runs["seed"] == 0)
    runs.loc[rows, ["diverged", "test_accuracy", "train_margin_bias"]] = [True, 0.1, np.nan]
    runs.loc[rows, "curve_train_margin_bias"] = pd.Series([[2.1, None, None]] * rows.sum(), index=runs.index[rows])
    found = claims.verdict("L6", runs)
    assert found.parts[0].findings[0].difference.mean < -0.2
    assert claims.verdict("L4", runs).verdict == "holds"
