"""Outcomes of claims: from findings, from the committed records by SciPy alone, and beside what is written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from study import claims, published, statistics
from study.claims import Finding, Part, Verdict
from tests.study import made_up

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def decided() -> dict[str, Verdict]:
    return claims.verdicts()


def made(*parts: dict[str, str]) -> Verdict:
    """A verdict whose parts have these outcomes in these variants; parentheses for what is only shown."""
    difference = statistics.paired_difference([1.0, 2.0, 3.1], [0.0, 0.0, 0.0])
    return Verdict(
        "E4",
        tuple(
            Part(
                letter,
                "a sentence",
                tuple(
                    Finding(
                        variant,
                        outcome.strip("()"),
                        "x",
                        difference,
                        scale="paper",
                        decides="(" not in outcome,
                    )  # type: ignore[arg-type]
                    for variant, outcome in part.items()
                ),
            )
            for letter, part in zip("abc", parts, strict=False)
        ),
    )


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (({"u": "met"}, {"u": "met", "v": "met"}), "supported"),
        (({"u": "met"}, {"u": "unresolved"}), "partly supported"),
        (({"u": "met"}, {}), "partly supported"),  # a part was not run
        (({"u": "met"}, {"u": "(contradicted)"}), "supported"),  # a part that is only shown
        (({"u": "met"}, {"u": "contradicted"}), "mixed"),
        (({"u": "unresolved"}, {"u": "contradicted"}), "contradicted"),
        (({"u": "unresolved"}, {}), "unresolved"),
        (({"u": "(met)"}, {}), "not run"),
        (({}, {}), "not run"),
    ],
)
def test_outcomes_of_a_claim(parts, verdict):
    assert made(*parts).verdict == verdict
    assert set(claims.VERDICTS) >= {verdict}


def test_a_mixed_outcome_says_on_what_it_depends():
    by_pixels = made(
        {"relu-none": "met", "tanh-none": "met", "relu-unit": "contradicted"},
        {"relu-unit": "unresolved"},
    )
    assert by_pixels.depends == "a: met with none, contradicted with unit"
    by_part = made({"u": "met"}, {"u": "contradicted"}, {"u": "contradicted"})
    assert by_part.depends == "the part: met in a; contradicted in b, c"
    neither = made(
        {
            "relu-none": "met",
            "tanh-unit": "met",
            "relu-unit": "contradicted",
            "tanh-none": "contradicted",
        }
    )
    assert neither.depends == "a: met in relu-none; tanh-unit, contradicted in relu-unit; tanh-none"
    assert made({"u": "met"}).depends == ""


# --- the committed records, recomputed ---


def test_every_interval_and_every_p_value_by_scipy(decided):
    listed = claims.findings(decided.values())
    p = np.sort(listed["p"])
    holm = np.maximum.accumulate(p * np.arange(len(p), 0, -1)).clip(
        max=1
    )  # the smallest of n times n, the next times n - 1, ...
    assert (
        listed["p (Holm)"].sort_values().to_numpy() == pytest.approx(holm)
        and listed["p (sign flips)"].between(0, 1).all()
    )
    for verdict in decided.values():
        for leaf in (
            leaf for part in verdict.parts for finding in part.findings for leaf in finding.leaves()
        ):
            d = np.array(leaf.difference.values)
            if leaf.difference.freedom == len(d) - 1 and d.std() > 0:
                found = stats.ttest_1samp(d, 0.0)
                low, high = found.confidence_interval(0.95)
                assert (
                    leaf.difference.interval.low,
                    leaf.difference.interval.high,
                ) == pytest.approx((low, high))
                if not re.search("within|by more than|less than", leaf.text):  # the threshold is 0
                    assert leaf.p_value == pytest.approx(found.pvalue) and (
                        leaf.p_value < 0.05
                    ) == (low > 0 or high < 0)


def test_the_seeds_that_it_takes(decided):
    """Three seeds of the small network are enough for an estimate, before any comparison decides."""
    runs = made_up.images(**made_up.FAST | {"seeds": 4})
    unresolved = made({"tanh-unit": "unresolved", "relu-unit": "met"})
    needed = claims.seeds_needed([unresolved], runs).set_index("part")
    own = needed.loc["E4 a"]
    assert (own["variant"], own["seeds for the observed effect"]) == (
        "tanh-unit",
        str(statistics.pairs_needed(2.03, own["deviation"])),
    )
    fast = needed.loc["E6 a"]
    assert fast["pairs"] == 3 and "B3 b" not in needed.index, (
        "of a threshold other than 0 these are not the seeds"
    )
    assert re.fullmatch(r"\d+ to \d+", fast["seeds for the papers' effect"])
    assert made_up.verdict("E6", runs).verdict == "not run"


# --- what is written ---


def test_every_sentence_has_a_rule_and_every_rule_a_sentence():
    content = yaml.safe_load((ROOT / "campaigns" / "criteria.yml").read_text(encoding="utf-8"))
    written = {
        claim: list(entry["parts"]) for claim, entry in content.items() if claim != "planned"
    }
    assert written == {claim: list(parts) for claim, parts in claims.CLAIMS.items()} and set(
        written
    ) <= set(published.claims().index)
    assert not set(content.get("planned", {})) & set(written)
    assert (
        claims.CLAIMS["E6"]["a"].sentence == "test accuracy is larger for beta 0.1 than for beta 1."
    )


def test_every_change_of_a_rule_has_its_date_and_what_was_known():
    changes = pd.DataFrame(
        yaml.safe_load((ROOT / "campaigns" / "criteria-changes.yml").read_text(encoding="utf-8"))
    )
    assert list(changes) == [
        "date",
        "claims",
        "change",
        "known then",
        "why",
    ] and changes.notna().all(axis=None)
    assert changes["date"].astype(str).is_monotonic_increasing


def test_what_the_book_says_was_found_is_about_the_verdicts_that_the_records_give(decided):
    told = yaml.safe_load((ROOT / "book" / "findings.yml").read_text(encoding="utf-8"))
    for claim, entry in told.items():
        assert ("verdict" in entry) == ("found" in entry) and entry["short"] and entry["label"]
        if "verdict" not in entry:
            continue  # runs that are under way; pages show the outcome alone
        sentence = f"{claim}: read its sentence in book/findings.yml beside the new records"
        assert decided[claim].verdict in ("not run", entry["verdict"]), sentence
        if entry["verdict"] == "mixed":
            assert "depends" in entry["found"], f"{claim}: say on what it depends"
    assert (
        pd.Series([decided[claim].verdict for claim in decided]).isin(list(claims.VERDICTS)).all()
    )
