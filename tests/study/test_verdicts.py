"""Verdicts on claims: from findings, from p-values, from the records, in what is written."""

from __future__ import annotations

import gc
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from study import claims, results, statistics
from study.claims import DecidedPart, Finding, Verdict
from study.variants import Variant
from tests.study import made_up


def named(variant: str) -> Variant:
    """The variant that a test calls so."""
    activation, _, normalization = variant.partition("-")
    if normalization:
        return Variant(activation=activation, normalization=normalization)
    return Variant(variant)


def finding(variant: str, outcome: str) -> Finding:
    """A comparison with this outcome; in parentheses, if it is shown, in brackets outside."""
    difference = statistics.paired_difference([1.0, 2.0, 3.1], [0.0, 0.0, 0.0])
    found = Finding(
        named(variant),
        outcome.strip("()[]"),  # type: ignore[arg-type]
        "x",
        difference,
        scales=("paper",),
    )
    if outcome[0] in "([":
        return found.only_shown(outside=outcome[0] == "[")
    return found


def made(*parts: dict[str, str], primary: str = "a") -> Verdict:
    """A verdict whose parts a, b and so on have these outcomes in these variants."""
    made_parts = [
        DecidedPart(letter, "a sentence", tuple(finding(*one) for one in part.items()))
        for letter, part in zip("abc", parts, strict=False)
    ]
    return Verdict("E4", tuple(made_parts), primary)


# --- the primary part decides the word ---


@pytest.mark.parametrize(
    ("primary", "verdict"),
    [
        ({"u": "met", "v": "met"}, "supported"),
        ({"u": "met", "v": "unresolved"}, "partly supported"),
        ({"u": "met", "v": "(contradicted)"}, "supported"),
        ({"u": "met", "v": "[contradicted]"}, "supported"),
        ({"u": "met", "v": "contradicted", "w": "unresolved"}, "mixed"),
        ({"u": "contradicted", "v": "unresolved"}, "contradicted"),
        ({"u": "unresolved", "v": "unresolved"}, "unresolved"),
        ({"u": "(met)"}, "not run"),
        ({"u": "[met]", "v": "(met)"}, "outside the premise"),
        ({}, "not run"),
    ],
)
@pytest.mark.parametrize("other", [{}, {"u": "met"}, {"u": "contradicted", "v": "met"}])
def test_outcomes_of_a_claim(primary, verdict, other):
    assert made(primary, other).verdict == verdict
    assert made(other, primary, primary="b").verdict == verdict
    assert set(claims.VERDICTS) >= {verdict}


def test_what_each_part_found_is_told():
    found = made({"u": "met", "v": "unresolved"}, {"u": "contradicted"}, {"u": "[met]"})
    assert found.why == (
        "a: met in 1, unresolved in 1 of 2 variants; b: contradicted; c: outside the premise"
    )
    assert found.primary_part.id == "a"
    assert [part.outcome for part in made({"u": "(met)"}, {}).parts] == ["shown only", "not run"]


def test_a_mixed_outcome_says_on_what_it_depends():
    by_pixels = made(
        {"relu-none": "met", "tanh-none": "met", "relu-unit": "contradicted"},
        {"relu-unit": "unresolved"},
    )
    assert by_pixels.depends == "met with pixels 0 to 255, contradicted with pixels 0 to 1"
    neither = made(
        {
            "relu-none": "met",
            "tanh-unit": "met",
            "relu-unit": "contradicted",
            "tanh-none": "contradicted",
        }
    )
    assert neither.depends == (
        "met in ReLU, pixels 0 to 255; tanh, pixels 0 to 1, "
        "contradicted in ReLU, pixels 0 to 1; tanh, pixels 0 to 255"
    )
    assert made({"u": "met"}, {"u": "contradicted"}).depends == ""


SMALL = Variant("cifar10", "fast", augmentation="crop-flip", epochs=12)
PLAIN = replace(SMALL, augmentation="none")


@pytest.mark.parametrize(
    ("met", "against", "depends"),
    [
        # a field that one of them leaves unsaid tells nothing, and moves no other into its place
        (
            PLAIN,
            replace(SMALL, augmentation=""),
            "met in CIFAR-10, unaugmented, contradicted in CIFAR-10",
        ),
        (PLAIN, SMALL, "met with unaugmented, contradicted with crops and flips"),
        (SMALL, replace(SMALL, epochs=30), "met with 12 epochs, contradicted with 30 epochs"),
        (replace(SMALL, width=2.0), SMALL, "met with width 2, contradicted with width 1"),
        (SMALL, replace(PLAIN, dataset="svhn"), "met with CIFAR-10, contradicted with SVHN"),
        # two data sets that the papers call the same
        (
            SMALL,
            Variant("cifar10-jpeg", "fast", augmentation="crop-flip", epochs=12),
            "met in cifar10, fast, crops and flips, 12 epochs, "
            "contradicted in cifar10-jpeg, fast, crops and flips, 12 epochs",
        ),
    ],
)
def test_what_separates_two_variants_is_a_field(met: Variant, against: Variant, depends: str):
    findings = (
        replace(finding("u", "met"), variant=met),
        replace(finding("v", "contradicted"), variant=against),
    )
    assert Verdict("E6", (DecidedPart("a", "a sentence", findings),), "a").depends == depends


# --- Holm's correction within the claim ---


def with_p(*p_values: float) -> pd.DataFrame:
    """Runs in which E5 a, and b if two are given, are met with these p-values.

    E5 compares the early cross-entropy of β = 0.01 with that of β = 1, and that with β = 5.
    """
    shape = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    shape = shape / shape.std(ddof=1)
    ahead = [
        0.01 * (stats.t.isf(p / 2, 4) / np.sqrt(5) + shape if p < 1 else shape) for p in p_values
    ]
    early = {"1": np.full(5, 0.5), "0.01": 0.5 - ahead[0]}
    if len(ahead) > 1:
        early["5"] = 0.5 + ahead[1]
    runs = made_up.mnist()
    runs = runs[runs["schedule"].isin(list(early))]
    values = [early[name][seed] for name, seed in zip(runs["schedule"], runs["seed"], strict=True)]
    return runs.assign(curve_train_cross_entropy=[[2.3, x, x, x, 0.0] for x in values])


@pytest.mark.parametrize(
    ("p_values", "corrected", "outcomes"),
    [
        ((0.04,), (0.04,), ("met",)),
        ((0.03, 0.04), (0.06, 0.06), ("unresolved", "unresolved")),
        ((0.02, 0.04), (0.04, 0.04), ("met", "met")),
        ((0.02, 0.06), (0.04, 0.06), ("met", "unresolved")),
        ((0.3, 0.03), (0.3, 0.06), ("unresolved", "unresolved")),
        ((1.0, 0.001), (1.0, 0.002), ("unresolved", "met")),
    ],
)
def test_p_values_are_corrected_for_the_comparisons_of_the_claim(p_values, corrected, outcomes):
    found = made_up.verdict("E5", with_p(*p_values))
    listed = claims.findings([found])
    assert listed["p"].tolist() == pytest.approx(p_values, rel=1e-6)
    assert listed["p (Holm)"].tolist() == pytest.approx(corrected, rel=1e-6)
    assert tuple(listed["outcome"]) == outcomes
    assert found.verdict == {"met": "supported"}.get(outcomes[0], outcomes[0])
    # the interval is that of one comparison
    assert ((listed["low"] > 0) | (listed["high"] < 0)).tolist() == [p < 0.05 for p in p_values]


def test_a_comparison_of_another_claim_does_not_count():
    runs = with_p(0.03)
    several = claims.verdicts(runs, ["E4", "E5"])
    assert several["E4"].deciding
    assert claims.findings([several["E5"]])["p (Holm)"].tolist() == pytest.approx([0.03])


def test_what_is_only_shown_does_not_count():
    """E12 speaks of many classes; CIFAR-10 is shown beside."""
    many, few = made_up.images(dataset="tiny-imagenet"), made_up.images()
    alone, both = (
        claims.findings([made_up.verdict("E12", runs)])
        for runs in (many, pd.concat([many, few], ignore_index=True))
    )
    decides = both["decides"]
    assert decides.sum() == len(alone) == len(both) - decides.sum()
    assert both.loc[decides, "p (Holm)"].tolist() == alone["p (Holm)"].tolist()
    assert both.loc[~decides, "p (Holm)"].isna().all()
    assert (both.loc[~decides, "outcome"] == "met").any()


# --- the committed records, recomputed ---


@pytest.fixture(scope="module")
def decided() -> dict[str, Verdict]:
    return claims.verdicts()


@pytest.fixture(scope="module")
def listed(decided: dict[str, Verdict]) -> pd.DataFrame:
    return claims.findings(decided.values())


@pytest.mark.slow
def test_every_claim_with_parts_has_a_verdict(decided):
    with_parts = [name for name, claim in claims.ledger().items() if claim.parts]
    assert list(decided) == with_parts
    assert {one.verdict for one in decided.values()} <= set(claims.VERDICTS)


@pytest.mark.slow
def test_paired_intervals_and_p_values_by_scipy(decided):
    paired = 0
    for claim, verdict in decided.items():
        findings = [one for part in verdict.parts for one in part.findings]
        for leaf in [leaf for one in findings for leaf in one.comparisons()]:
            values = np.array(leaf.difference.values)
            plain = leaf.difference.freedom == len(values) - 1 and claim != "A3"  # of folds
            if not plain or values.std() == 0:
                continue
            paired += 1
            found = stats.ttest_1samp(values, 0.0)
            low, high = found.confidence_interval(0.95)
            ours = leaf.difference.interval
            assert (ours.low, ours.high) == pytest.approx((low, high))
            if leaf.against_zero:
                assert leaf.p_value == pytest.approx(found.pvalue)
                assert (leaf.p_value < 0.05) == ours.excludes(0.0)
    assert paired > 100


@pytest.mark.slow
def test_holm_within_each_claim_by_statsmodels(listed):
    assert listed.loc[~listed["decides"], "p (Holm)"].isna().all()
    gc.freeze()  # multipletests collects garbage in each call, a third of a second with torch
    for claim, rows in listed[listed["decides"]].groupby("claim"):
        corrected = multipletests(rows["p"], method="holm")[1]
        assert rows["p (Holm)"].tolist() == pytest.approx(corrected.tolist()), claim
        told = rows["outcome"].isin(["met", "contradicted"])
        assert (rows.loc[told, "p (Holm)"] < 0.05).all(), claim
    gc.unfreeze()


@pytest.mark.slow
def test_notes_stand_beside_unresolved_comparisons_alone(listed):
    noted = listed[listed["notes"] != ""]
    assert set(noted["outcome"]) == {"unresolved"}
    level = noted[noted["notes"].str.contains("level")]
    assert level["compared"].str.contains("accuracy").all()
    assert level["low"].gt(-0.005).all()
    assert level["high"].lt(0.005).all()
    excludes = noted[noted["notes"].str.contains("excludes")]
    assert len(excludes)
    assert (excludes["paper"] != "").all()


@pytest.mark.slow
def test_outside_the_premise_no_network_has_learnt_its_training_images(decided):
    runs = results.everything()
    for claim, verdict in decided.items():
        written = claims.ledger()[claim]
        for part in verdict.parts:
            outside = [one for one in part.findings if one.outside]
            assert not outside or written.premise, claim
            if not outside:
                continue
            of_part = claims.runs_of(runs, written.parts[part.id].runs)
            plain = of_part[of_part["method"].map(lambda method: method.is_plain)]
            learnt = plain.groupby("variant", sort=False)["train_accuracy"].mean()
            assert all(learnt[one.variant] < written.premise for one in outside), claim
            assert all(learnt[one.variant] >= written.premise for one in part.deciding), claim
    crops = {one.variant for one in decided["B2"].deciding if one.variant.augmented}
    assert {variant.width for variant in crops} == {2}  # only the wide network has learnt them


def test_the_seeds_that_it_takes():
    """Three seeds of the small network give an estimate, before any comparison decides."""
    runs = made_up.images(**made_up.FAST | {"seeds": 4})
    unresolved = made({"tanh-unit": "unresolved", "relu-unit": "met"})
    needed = claims.seeds_needed([unresolved], runs).set_index("part")
    own = needed.loc["E4 a"]
    assert own["variant"] == "tanh-unit"
    expected = statistics.pairs_needed(2.03, own["deviation"])
    assert own["seeds for the observed effect"] == str(expected)
    fast = needed.loc["E6 a"]
    assert fast["seeds"] == 3
    assert re.fullmatch(r"\d+ to \d+", fast["seeds for the papers' effect"])
    assert "B3 b" not in needed.index  # of a threshold other than 0 these are not the seeds
    assert made_up.verdict("E6", runs).verdict == "not run"


# --- what is written ---


@pytest.mark.slow
@pytest.mark.parametrize("claim", [name for name, one in claims.ledger().items() if one.found])
def test_what_was_found_is_about_the_verdict_that_the_records_give(claim, decided):
    found = claims.ledger()[claim].found
    told = f"{claim}: read its sentence in claims/{claim}.yml beside the new records"
    if decided[claim].verdict != "not run":
        assert decided[claim].verdict == found.verdict, told
        assert decided[claim].outcomes == found.outcomes, told
    if found.verdict == "mixed":
        assert "depends" in found.text, f"{claim}: say on what it depends"
