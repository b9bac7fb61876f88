"""The files of the claims: what they may say, what they said before, and a toy with its verdict."""

from __future__ import annotations

import importlib
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from study import ROOT, claims, losses
from study.claims import Claim
from study.claims.load import FOLDER, Comparison, Part, Side, Want
from study.claims.rules import CHOICES, RULES
from study.metrics import METRICS
from tests.study import made_up

BEFORE = "8b8c670:campaigns/criteria.yml"
"""Where the sentences stood until 24 November 2026."""

PARTS = [
    (f"{name} {letter}", part)
    for name, claim in claims.ledger().items()
    for letter, part in claim.parts.items()
]


def comparisons(part: Comparison) -> Iterator[Comparison]:
    """The comparison that a part is, and those that it is made of."""
    yield part
    for one in (*part.all, *part.any, *part.provided):
        yield from comparisons(one)


def sides(comparison: Comparison) -> Iterator[Side]:
    """Every side of a comparison, also those that a difference is made of."""
    waiting = list(comparison.sides)
    while waiting:
        side = waiting.pop()
        yield side
        waiting.extend(side.minus or ())


# --- every name is known ---


@pytest.mark.parametrize("part", [part for _, part in PARTS], ids=[name for name, _ in PARTS])
class TestNames:
    def test_of_runs_rules_and_choices(self, part: Part) -> None:
        claims.selection(part.runs)  # says which are valid, if it is not
        for one in comparisons(part):
            assert one.rule in ("", *RULES)
            assert one.among in ("", *CHOICES)
            for side in sides(one):
                assert side.among in ("", *CHOICES)

    def test_of_metrics(self, part: Part) -> None:
        named = []
        for one in comparisons(part):
            named += [one.metric] if one.compare else []
            named += [str(one.rising[0])] if one.rising else []
            for side in sides(one):
                # the link and the scalings are done to a metric, whose words they have
                named += [re.sub("_(link|temperature|vector)$", "", side.metric)]
                named += [side.by, side.smallest]
        assert set(named) <= {"", "valid_ece", *METRICS}

    def test_of_methods(self, part: Part) -> None:
        for one in comparisons(part):
            for side in sides(one):
                named = [side.method] if side.method else []
                for method in (*one.methods, *named):
                    assert method.numbers or not method.kind.numbers, f"{method} lacks its numbers"
                assert {side.average, *side.over} <= {"", *losses.LOSSES}


def test_every_claim_of_the_ledger_in_its_order() -> None:
    names = list(claims.ledger())
    numbers = {"T": 5, "E": 21, "R": 5, "B": 5, "L": 11, "A": 9}
    expected = [f"{one}{i}" for one, last in numbers.items() for i in range(1, last + 1)]
    assert [name for name in names if name in expected] == expected
    assert {name[0] for name in names} == set(numbers)
    for name, claim in claims.ledger().items():
        assert claim.claim.endswith((".", "?")), name
        assert claim.paper in ("GD", "LM", "AG", "reviews", claims.OWN), name
        assert claim.where, name
        assert claim.short or not (claim.proof or claim.found), name
        assert claim.page or not claim.short, name
        assert not (claim.proof and claim.parts), name
    where = {name: claim.where for name, claim in claims.ledger().items()}
    assert "GD-1 section 4.2.2, Table 2" in where["E6"]
    assert "Table 4" in where["L6"]
    assert "Table VI" in where["A6"]


def test_the_premise_is_that_of_the_rules() -> None:
    premises = {name: claim.premise for name, claim in claims.ledger().items() if claim.premise}
    assert premises == dict.fromkeys(["E8", "E9", "E11", "E12", "E16", "E18", "B2"], 0.99)


# --- what was written before ---


def test_the_sentences_are_those_of_the_criteria() -> None:
    """They moved from one file into many, and what was changed or added since has a date.

    A claim that is new has that of its file.
    """
    command = ["git", "show", BEFORE]
    try:
        shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"the sentences were not compared: there is no {BEFORE} in this clone")
    before = yaml.safe_load(shown.stdout)
    assert len(before) == 33
    new = []
    for name, entry in before.items():
        parts, written = claims.ledger()[name].parts, entry["parts"]
        assert list(parts)[: len(written)] == list(written), name
        for letter, part in parts.items():
            if part.sentence.split() != written.get(letter, "").split():
                new.append(f"{name} {letter}")
    dated = [
        told
        for change in claims.changes()
        if str(change["date"]) >= "2026-11-24"
        for told in named_parts(change["claims"])
    ]
    assert {"B2 a", "L4 g"} <= set(new) <= set(dated)


def named_parts(text: str) -> list[str]:
    """The parts that a change names, such as A4 d, A6 e and A6 f in ``"A4 d, A6 e, f"``."""
    found, claim = [], ""
    for word in re.findall(r"[A-Z]\d+|\b[a-z]\b", text):
        if word[0].isupper():
            claim = word
        else:
            found.append(f"{claim} {word}")
    return found


def test_the_parts_that_a_change_names() -> None:
    assert named_parts("A4 d, A6 e, f, L4 g") == ["A4 d", "A6 e", "A6 f", "L4 g"]
    assert named_parts("B6, B7") == []


def test_every_change_of_a_rule_has_its_date_and_what_was_known() -> None:
    changes = pd.DataFrame(claims.changes())
    assert list(changes) == ["date", "claims", "change", "known then", "why"]
    assert changes.notna().all(axis=None)
    assert (changes.astype(str).map(len) > 1).all(axis=None)
    assert changes["date"].astype(str).is_monotonic_increasing
    assert changes["date"].map(lambda date: date.year == 2026).all()


def test_the_claims_that_a_change_names_are_in_the_ledger() -> None:
    for change in claims.changes():
        named = re.findall(r"\b[TERBLA]\d+\b", change["claims"])
        assert named or change["claims"].startswith("all"), change["claims"]
        assert set(named) <= set(claims.ledger()), change["claims"]


# --- one file, whole and broken ---

TOY = {
    "claim": "A β of 0.1 is more accurate than a β of 1.",
    "paper": "project",
    "where": "a test",
    "primary": "a",
    "parts": {
        "a": {
            "sentence": "test accuracy is larger for beta 0.1 than for beta 1.",
            "runs": "grid",
            "compare": ["test_accuracy", 0.1, 1],
            "want": "> 0",
        },
        "b": {
            "sentence": "their difference is that of beta 1 and 5, within a point.",
            "runs": "grid",
            "compare": ["test_accuracy", {"minus": [0.1, 1]}, {"minus": [1, 5]}],
            "want": "within 0.01",
        },
    },
}


def written(folder: Path, content: dict) -> Path:
    (folder / "B1.yml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return folder


def changed(**values: object) -> dict:
    """The toy with other values in its part a; None takes a key away."""
    part = TOY["parts"]["a"] | values
    kept = {key: value for key, value in part.items() if value is not None}
    return TOY | {"parts": TOY["parts"] | {"a": kept}}


def test_from_file_to_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = claims.ledger(written(tmp_path, TOY))
    assert list(toy) == ["B1"]
    assert toy["B1"].parts["a"].compare == ("test_accuracy", 0.1, 1)
    # the package has a function of the module's name
    module = importlib.import_module("study.claims.verdicts")
    monkeypatch.setattr(module, "ledger", lambda: toy)
    runs = made_up.mnist()
    found = claims.verdicts(runs)
    assert list(found) == ["B1"]
    assert found["B1"].verdict == "supported"
    assert found["B1"].why == "a: met; b: contradicted"  # 0.5 points against 2
    accuracy = runs.pivot(index="seed", columns="schedule", values="test_accuracy")
    lead = accuracy["0.1"] - accuracy["1"]
    listed = claims.findings(found.values()).set_index("part")
    assert listed.loc["a", "mean"] == pytest.approx(lead.mean())
    assert listed.loc["b", "mean"] == pytest.approx((lead - accuracy["1"] + accuracy["5"]).mean())
    assert listed.loc["a", "compared"] == "test accuracy, β = 0.1 against β = 1"


def test_the_page_on_the_form_has_every_key_and_a_whole_file() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    toy = Claim.model_validate(yaml.safe_load(example))
    assert list(toy.parts) == ["a", "b"]
    for part in toy.parts.values():
        claims.selection(part.runs)
    for model in (Claim, Part, Side):
        for name, field in model.model_fields.items():
            assert re.search(rf"(`|\b){field.alias or name}(`|:)", page), f"{name} is not there"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(compare=None), "give one of compare, all, any"),
        (changed(want=None), "compare needs want"),
        (changed(rising=["lost", 1, 0.1]), "give one of"),
        (changed(want="larger"), "want: 'larger' is none of > 0, < 0, within 0.01, not 0"),
        (changed(wants="> 0"), r"parts.a.wants\s+Extra inputs are not permitted"),
        (changed(sentence=None), r"parts.a.sentence\s+Field required"),
        (changed(runs=None), r"parts.a.runs\s+Field required"),
        (changed(compare=["x"]), "at least 2 items"),
        (changed(compare=["x", 1, 2, 3]), "at most 3 items"),
        (TOY | {"primary": "c"}, "primary: 'c' is none of a, b"),
        ({key: TOY[key] for key in TOY if key != "primary"}, "primary: '' is none of a, b"),
        ({key: TOY[key] for key in TOY if key != "where"}, r"where\s+Field required"),
        (TOY | {"claims": "two"}, r"claims\s+Extra inputs are not permitted"),
    ],
)
def test_a_broken_file_says_what_is_wrong(content: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        claims.ledger(written(tmp_path, content))
    assert "B1.yml is not a claim" in str(raised.value)


def test_a_file_that_is_no_yaml_says_so(tmp_path: Path) -> None:
    (tmp_path / "E1.yml").write_text("claim: [", encoding="utf-8")
    with pytest.raises(ValueError, match="E1.yml is not a claim"):
        claims.ledger(tmp_path)


def test_an_unknown_key_of_a_side_says_so() -> None:
    with pytest.raises(ValueError, match=r"best\s+Extra inputs are not permitted"):
        Claim.model_validate(changed(compare=["test_accuracy", {"best": [1]}, 1]))


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"method": 1, "best of": [1, 5]}, "there is method and best of"),
        ({"smallest": "valid_ece", "largest": "beta"}, "there is smallest and largest"),
        ({"metric": "test_ece"}, "best of, smallest, largest, minus, average; there is none"),
        ({"method": None}, "there is none"),
        ({"best of": []}, "there is none"),
        ({"minus": [1, {"method": 5, "largest": "beta"}]}, "there is method and largest"),
        ({"method": 1, "by": "valid_accuracy"}, "by goes with best of, not with method"),
        ({"method": 1, "times": 2}, "times goes with minus, not with method"),
        ({"largest": "beta", "name": "the last"}, "name goes with method or minus, not with larg"),
        ({"method": 1, "over the numbers of": ["lm"]}, "over the numbers of goes with average"),
        ({"average": "lm"}, "average needs over the numbers of"),
    ],
)
def test_the_keys_of_a_side_that_collide_are_named(side: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Claim.model_validate(changed(compare=["test_accuracy", side, 1]))


@pytest.mark.parametrize(
    ("text", "test", "bound"),
    [
        ("> 0", "larger", 0.0),
        ("> -0.005", "larger", -0.005),
        ("< 0.05", "smaller", 0.05),
        ("within 60", "within", 60.0),
        ("not 0", "differs", 0.0),
        ("not 0, else within 0.005", "differs", 0.005),
    ],
)
def test_what_an_interval_must_show(text: str, test: str, bound: float) -> None:
    assert Want.parse(text) == Want(test, bound)  # type: ignore[arg-type]


def test_every_want_of_the_files_has_a_bound_that_can_be_reached() -> None:
    wants = [one.want for _, part in PARTS for one in comparisons(part) if one.want]
    assert len(wants) > 100
    assert all(math.isfinite(want.bound) for want in wants)
    assert all(want.bound > 0 for want in wants if want.test == "within")
    assert np.unique([want.test for want in wants]).size == 4
