"""Verdicts follow from records by the rules that were written down, and from nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml

from study import claims, headline, published, records

BETAS = ("5", "2", "1", "0.5", "0.2", "0.1", "0.01", "0.001")
WARMUPS = ("warm-up 0.001→0.01", "warm-up 0.01→0.1")


def grid(reading="relu-unit", seeds=5, noise=0.0005):
    """A made-up grid in which every claim of E3 to E5 is met."""
    generator = np.random.default_rng(0)
    activation, normalization = reading.split("-")
    accuracy = dict(zip(BETAS, (0.95, 0.96, 0.97, 0.972, 0.974, 0.975, 0.976, 0.974), strict=True)) | {WARMUPS[0]: 0.977, WARMUPS[1]: 0.98}
    lost = dict(zip(BETAS, (1000, 950, 900, 800, 850, 1100, 1300, 2400), strict=True)) | dict.fromkeys(WARMUPS, 1000)
    early = dict(zip(BETAS, (0.8, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.35), strict=True)) | dict.fromkeys(WARMUPS, 0.3)
    rows = []
    for seed in range(seeds):
        common = generator.normal(0, noise)
        for schedule in (*BETAS, *WARMUPS):
            few = lost[schedule] * (1 + generator.normal(0, 0.01))
            sure = 56_000 + (1000 if schedule == "0.1" else 0) + generator.normal(0, 20)
            rows.append(
                {
                    "record": f"{reading}-seed{seed}.json",
                    "campaign": "mnist",
                    "scale": "paper",
                    "activation": activation,
                    "normalization": normalization,
                    "schedule": schedule,
                    "seed": seed,
                    "test_accuracy": accuracy[schedule] + common + generator.normal(0, noise / 5),
                    "confidence_counts": [few, 100.0, 100.0, 60_000 - 200 - few - sure, sure],
                    "curve_train_epoch": [0, 1, 5, 10, 15],
                    "curve_train_cross_entropy": [2.3, *[early[schedule] + common] * 3, 0.0],
                }
            )
    return pd.DataFrame(rows)


def test_runs_with_another_loss_do_not_count():
    runs = pd.concat([grid(), grid().assign(loss="softmax", test_accuracy=0.1)], ignore_index=True)
    assert claims.mnist_runs(runs, "grid")["test_accuracy"].min() > 0.9


def test_criteria_file_and_code_have_the_same_parts():
    written = claims.criteria()
    assert set(written) == set(claims.CLAIMS)
    for claim, (_, rules) in claims.CLAIMS.items():
        assert set(written[claim]) == set(rules)
    assert set(written) <= set(published.claims().index)


@pytest.mark.parametrize("claim", ["E3", "E4", "E5"])
def test_holds(claim):
    found = claims.verdict(claim, grid())
    assert found.verdict == "holds"
    assert (found.seeds, found.scale) == (5, "paper")
    assert set(found.to_frame()["met"]) == {"yes"}


@pytest.mark.parametrize(
    ("claim", "changes", "states"),
    [
        ("E3", {("lost", "0.001"): 700}, {"a": "not met", "b": "not met", "c": "met"}),
        ("E3", {("lost", "0.01"): 1000}, {"a": "met", "b": "not met", "c": "met"}),  # 1100, 1000: the means do not increase
        ("E4", {("test_accuracy", "0.01"): 0.97}, {"a": "not met", "b": "met", "c": "met"}),
        ("E4", {("test_accuracy", WARMUPS[0]): 0.9, ("test_accuracy", WARMUPS[1]): 0.976}, {"a": "met", "b": "met", "c": "not met"}),
        ("E5", {("early", "5"): 0.4}, {"a": "met", "b": "not met"}),
    ],
)
def test_a_part_that_is_not_met(claim, changes, states):
    found = claims.verdict(claim, _changed(changes))
    assert {part.id: part.met for part in found.parts} == states
    assert found.verdict == "holds in part"


def _changed(changes):
    frame = grid()
    for (metric, schedule), value in changes.items():
        rows = frame["schedule"] == schedule
        if metric == "lost":
            frame.loc[rows, "confidence_counts"] = pd.Series(
                [[value, 0.0, 0.0, 0.0, 60_000.0 - value]] * rows.sum(), index=frame.index[rows]
            )
        elif metric == "early":
            frame.loc[rows, "curve_train_cross_entropy"] = pd.Series(
                [[2.3, value, value, value, 0.0]] * rows.sum(), index=frame.index[rows]
            )
        else:
            frame.loc[rows, metric] = value
    return frame


def test_readings_that_disagree_make_it_hold_in_part():
    other = _changed({("lost", "0.001"): 700}).assign(activation="tanh", record=lambda f: f["record"].str.replace("relu", "tanh"))
    found = claims.verdict("E3", pd.concat([grid(), other], ignore_index=True))
    assert {part.id: part.met for part in found.parts} == {"a": "met in part", "b": "met in part", "c": "met"}
    assert found.verdict == "holds in part"


def test_too_few_seeds_decide_nothing():
    assert claims.verdict("E4", grid(seeds=4)).verdict == "not tested"
    assert claims.verdict("E4", pd.DataFrame()).verdict == "not tested"


def test_a_claim_waits_for_the_readings_that_its_criterion_asks_for():
    frame = pd.DataFrame(
        [
            {
                "record": f"feature-plane-relu-unit-seed{seed}.json",
                "campaign": "mnist",
                "scale": "paper",
                "activation": "relu",
                "normalization": "unit",
                "schedule": schedule,
                "seed": seed,
                "intra_inter_ratio": ratio + 0.001 * seed,
                "minimum_to_mean_inter": 0.3 + 0.001 * seed,
            }
            for seed in range(5)
            for schedule, ratio in (("1", 0.3), ("0.1", 0.2), ("0.01", 0.1))
        ]
    )
    one = claims.verdict("E1", frame)
    assert (one.verdict, len(one.to_frame())) == ("not tested", 2)
    both = claims.verdict("E1", pd.concat([frame, frame.assign(activation="tanh", record=frame["record"].str.replace("relu", "tanh"))]))
    assert both.verdict == "holds in part"


def test_no_effect_is_not_met():
    frame = grid()
    frame["test_accuracy"] = 0.97 + np.random.default_rng(1).normal(0, 0.002, len(frame))
    assert claims.verdict("E4", frame).parts[0].met == "not met"


def test_distance_is_zero_for_the_papers_own_table():
    printed = published.table("GD-2", 1)
    frame = grid()
    for beta in claims.TABLE_1_BETAS:
        counts = printed.loc[np.isclose(printed["beta"].astype(float), float(beta)), "value"].astype(float).tolist()
        rows = frame["schedule"] == beta
        frame.loc[rows, "confidence_counts"] = pd.Series([counts] * rows.sum(), index=frame.index[rows])
    distances = claims.distance_to_table_1(claims.runs_of(frame, "grid"))
    assert distances["relu-unit"] == 0.0
    assert claims.nearest_reading(claims.runs_of(frame, "grid")) == "relu-unit"


def test_unknown_names():
    with pytest.raises(ValueError, match="valid: E1"):
        claims.verdict("E99", grid())
    with pytest.raises(ValueError, match="valid: grid"):
        claims.runs_of(grid(), "everything")


def test_the_readme_shows_what_the_records_say():
    text = (headline.ROOT / "README.md").read_text(encoding="utf-8")
    assert "| **E4**" in text
    assert headline.redrawn(text) == text, "run `python -m study.headline`"


def test_what_the_book_says_was_found_is_about_the_verdicts_that_the_records_give():
    told = yaml.safe_load((headline.ROOT / "book" / "findings.yml").read_text(encoding="utf-8"))
    runs = records.read(records.default_folder())
    for claim, entry in told.items():
        given = claims.verdict(claim, runs).verdict
        assert given in ("not tested", entry["verdict"]), f"{claim}: read its sentence in book/findings.yml beside the new records"
