"""The settings in which β was varied, the sentences and the figure of the first page, the matrix of outcomes, and README.md."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from study import claims, headline, published, statistics
from study.claims import Finding, Part, Verdict
from study.tables import Page, measured, outcomes, sentences
from tests.study import made_up

FAST = made_up.FAST | {"subset": 0}
CURVES = {"curve_epoch": [0, 1, 2, 4, 8], "curve_test_accuracy": [0.1, 0.3, 0.5, 0.7, 0.9]}


def made(*runs: pd.DataFrame) -> pd.DataFrame:
    """The settings of made-up runs, all of them with the same curves."""
    found = pd.concat(runs, ignore_index=True)
    found["epochs"] = found["epochs"].fillna(8) if "epochs" in found else 8
    return measured.settings(
        Page(found=found.assign(**{name: [curve] * len(found) for name, curve in CURVES.items()}))
    )


def b1(*differences: list[float]) -> Verdict:
    findings = [
        Finding(
            "v", "unresolved", "accuracy", statistics.paired_difference(values, [0.0] * len(values))
        )
        for values in differences
    ]
    return Verdict("B1", (Part("d", "a sentence", tuple(findings)),))


@pytest.fixture(scope="module")
def page() -> Page:
    return Page()


@pytest.fixture(scope="module")
def settings(page: Page) -> pd.DataFrame:
    return measured.settings(page)


# --- settings ---


def test_a_setting_is_named_in_words_and_holds_its_numbers() -> None:
    found = made(made_up.mnist("tanh-none"), made_up.images(**FAST), made_up.images(seeds=2))
    assert list(dict.fromkeys(found["setting"])) == [
        "CIFAR-10, crops and flips",
        "MNIST, tanh, pixels 0 to 255",
    ], "two seeds are too few"
    assert list(dict.fromkeys(found["note"])) == [
        "reduced: a small network, 8 epochs",
        "the papers' network, 8 epochs",
    ]
    first = found[found["setting"].eq("CIFAR-10, crops and flips")].set_index("beta")
    assert first.index.tolist() == [0.01, 0.1, 1.0, 5.0, 20.0] and set(first["seeds"]) == {5}, (
        "a warm-up has no β"
    )
    assert (
        first.loc[0.1, "gain"].estimate == pytest.approx(1, abs=0.05)
        and first.loc[1.0, "gain"].estimate == 0
    )
    assert first.loc[0.1, ["ece", "link", "early"]].tolist() == pytest.approx([6, 0.5, 40], abs=0.1)
    assert found.set_index(["setting", "beta"])["lost"][
        "MNIST, tanh, pixels 0 to 255", 0.001
    ] == pytest.approx(2400, rel=0.02)


def test_older_runs_do_not_decide_beside_a_network_at_real_accuracy() -> None:
    part, mnist = made_up.images(augmentation="crop-flip"), made_up.mnist()
    assert made(part, mnist)["decides"].all()
    found = made(part, mnist, made_up.images(**FAST))
    assert set(found.loc[~found["decides"], "setting"]) == {
        "CIFAR-10, 6,000 images, crops and flips"
    }


def test_the_records_have_settings_with_three_seeds_or_more(settings: pd.DataFrame) -> None:
    assert {"MNIST, tanh, pixels 0 to 1", "MNIST, ReLU, pixels 0 to 255"} <= set(
        settings["setting"]
    )
    assert settings["seeds"].min() >= 3 and settings.groupby("setting")["beta"].nunique().min() > 1


def test_numbers_count_intervals_setting_by_setting() -> None:
    found = made(made_up.mnist(), made_up.mnist("tanh-none"), made_up.images(**FAST))
    numbers = measured.numbers(
        found, b1([0.01, -0.01, 0.0]), made_up.verdict("B4", made_up.stepping())
    )
    assert numbers["settings"] == 3 and numbers["advised"] == 0.1, (
        "0.001 is best on MNIST, and was not run on images"
    )
    assert numbers["accuracy"]["higher"][0.1] == 3 and numbers["accuracy"]["lower"][5.0] == 3
    assert numbers["accuracy"]["gains"][0.1] == pytest.approx([1, 0.5, 0.5], abs=0.05)
    assert numbers["confidence"]["ece"] == pytest.approx([6], abs=0.1) and numbers["confidence"][
        "link"
    ] == pytest.approx([0.5], abs=0.1)
    assert numbers["raw"] == pytest.approx([0.4], abs=0.05) and numbers[
        "temperature"
    ] == pytest.approx([2.5], abs=0.1)
    assert (
        sentences.shown(numbers["chosen_rates"][0]) == "0.0 [−2.5, +2.5]"
        and numbers["chosen_rates_mnist"] == []
    )
    assert max(numbers["small_step"]) < 0 < min(numbers["large_step"])


# --- sentences ---


def test_answers_are_filled_with_numbers_and_left_out_where_they_do_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = {
        "Use it?": {
            "holds": "gains[0.1] | min > 0",
            "answer": "{ref}`It <sec-a>` gains {{ gains[0.1] }} of {{ settings }}.",
        }
    }
    monkeypatch.setattr(sentences, "written", lambda name: entries)
    assert sentences.answers({"gains": {0.1: [0.26, 1.0]}, "settings": 2}) == {
        "Use it?": "{ref}`It <sec-a>` gains 0.3–1.0 of 2."
    }
    assert sentences.answers({"gains": {0.1: [-0.26, 1.0]}, "settings": 2}) == {}
    with pytest.raises(Exception, match="undefined"):
        sentences.answers({"settings": 2})


def test_a_finding_is_shown_with_its_outcome_and_filled_with_its_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = {
        "verdict": "unresolved",
        "found": 'Less by {{ -100 * a["tanh, pixels 0 to 1"] }} points.',
    }
    monkeypatch.setattr(sentences, "written", lambda name: {"E4": entry})
    parts = (Part("a", "a sentence", (finding("tanh-unit", "unresolved"),)),)
    assert sentences.finding(Verdict("E4", parts)) == "Less by −2.0 points."
    assert sentences.finding(Verdict("E5", parts)) == sentences.finding(Verdict("E4", ())) == ""


def test_the_answers_hold_on_the_records(page: Page, settings: pd.DataFrame) -> None:
    found = sentences.answers(
        measured.numbers(
            settings, *(made_up.verdict(claim, page.records) for claim in ("B1", "B4"))
        )
    )
    assert list(found) == list(sentences.written("answers")), (
        "read the missing ones in book/answers.yml beside the new records"
    )
    assert all("{ref}`" in answer and "{{" not in answer for answer in found.values()), (
        "every answer says where it is shown"
    )


# --- the figure ---


def test_the_figure_gets_what_the_records_hold(settings: pd.DataFrame) -> None:
    shown = measured.play(made(made_up.images(**FAST), made_up.mnist())).data
    first, second = json.loads(re.findall(r"<script[^>]*>(.*)</script>", shown)[0])["settings"]
    assert (
        first["beta"] == [0.01, 0.1, 1, 5, 20]
        and first["accuracy"] == pytest.approx(92, abs=0.5)
        and first["seeds"] == 5
    )
    assert (
        first["gain"][2] == [0, 0, 0]
        and first["ece"][1] == pytest.approx(6, abs=0.1)
        and first["link"][0] == pytest.approx(0.5, abs=0.1)
    )
    assert second["link"] == [None] * 8
    assert len(measured.play(settings).data) < 15_000


# --- the matrix ---


def finding(variant: str, outcome: str, **own: object) -> Finding:
    difference = statistics.paired_difference([0.01, 0.02, 0.03], [0.0, 0.0, 0.0])
    return Finding(
        variant, outcome, "test accuracy, 0.1 against 1", difference, **({"scale": "paper"} | own)
    )  # type: ignore[arg-type]


def test_the_matrix_has_mark_word_effect_and_link(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        Part(
            "a",
            "a sentence",
            (
                finding("tanh-unit", "met", paper="GD-2: +0.002"),
                finding("relu-none", "contradicted"),
            ),
        ),
        Part(
            "b",
            "another",
            (
                finding("tanh-unit", "unresolved"),
                finding("cifar10, fast, plain", "met", decides=False),
            ),
        ),
    )
    monkeypatch.setattr(
        sentences,
        "written",
        lambda name: {"E4": {"label": "sec-e4", "short": "A small β is more accurate"}},
    )
    found = BeautifulSoup(
        outcomes.matrix([Verdict("E4", parts), Verdict("E10", ())]).data, "html.parser"
    )
    assert [cell.get_text() for cell in found.select("thead th")] == ["claim", "outcome", "MNIST"]
    first, second = found.select("tbody tr")
    assert first.select_one("th a")["href"] == "../notebooks/evidence/accuracy.html#sec-e4"  # type: ignore[index]
    assert (
        first.select_one(".word").get_text(" ") == "mixed papers' scale"
        and first.select_one("th small").get_text() == "E4, papers' scale"
        and first.select_one("td .all").get_text(" ", strip=True)
        == "✓1 met ✗1 contradicted ○1 unresolved"
    )  # type: ignore[union-attr]
    lines = [line.get_text() for line in first.select(".more > span")]
    assert (
        lines[0]
        == "✓ met a tanh, pixels 0 to 1: test accuracy, 0.1 against 1: +2.0 [−0.5, +4.5] points (papers: GD-2: +0.2)"
    )
    assert [line.split()[0] for line in lines] == ["✓", "✗", "○"]
    assert (
        second.select("td")[-1].get_text() == "– not run"
        and second.select_one(".word").get_text() == "not run"
    )  # type: ignore[union-attr]
    assert (
        outcomes.summary([Verdict("E4", parts), Verdict("E10", ())])
        == "1 mixed (the papers' scale); 1 not run"
    )
    new = second.select_one("th")  # a claim whose first runs are new has no sentence yet
    assert new.select_one("a")["href"].endswith("#sec-claims") and "A-Softmax" in new.get_text()  # type: ignore[union-attr,index]
    monkeypatch.setattr(
        sentences, "written", lambda name: {"E4": {"label": "sec-nowhere", "short": "x"}}
    )
    with pytest.raises(ValueError, match="sec-nowhere"):
        outcomes.matrix([Verdict("E4", parts)])


# --- the papers' own effects ---


def test_claims_and_outcomes_are_counted_by_scale() -> None:
    of = {
        scale: Verdict("E4", (Part("a", "s", (finding("tanh-unit", "met", scale=scale),)),))
        for scale in ("paper", "reduced", "paper, reduced")
    }
    told = "1 supported (the papers' scale and reduced runs); 1 supported (the papers' scale); 2 supported (reduced runs)"
    assert outcomes.summary([of["reduced"], *of.values()]) == told


def test_rules_find_the_effects_of_a_table_that_was_not_run_here() -> None:
    table = published.table("AG", 1)
    ours = table[table["s"] == 5].set_index("metric")["value"]
    best = table[table["method"] != "ArcGrad"].groupby("metric")["value"].max()
    printed = {
        claim: {
            part.id: [leaf.paper for leaf in part.findings[0].leaves()] for part in verdict.parts
        }
        for claim, verdict in told().items()
    }
    assert [
        float(text.removeprefix("AG, Table I: ")) for text in printed["A2"]["a"]
    ] == pytest.approx([(ours["mean_accuracy"] - best["mean_accuracy"]) / 100], abs=2e-4)
    assert printed["A2"]["b"] == [f"AG, Table I: {(ours['wins'] - best['wins']) / 15:+.4f}"]
    assert printed["A2"]["d"] == [
        "AG, Table I: +0.0022",
        "AG, Table I: +0.0095",
        "AG, Table I: +0.1167",
    ]
    assert printed["A5"] == {
        "a": [""],
        "b": [""],
        "c": ["AG, Table VII: +0.143"],
        "d": ["AG, Table VII: +0.0064"],
    }, "figure 3 has no numbers"
    assert printed["A7"] == {"a": ["AG, text: +0.034"], "b": [""]}
    assert printed["L3"] == {
        "a": ["LM: +1"],
        "b": ["LM, Table 1: +0.0039"],
        "c": ["LM, Table 1: +0.0032"],
        "d": ["LM, Table 1: +0.0134"],
    }


def told() -> dict[str, Verdict]:
    """Verdicts on the claims whose findings say nothing of the papers, but that of L3 a."""
    several = {"A2 d": 3}

    def made_of(claim: str, part: str) -> Finding:
        one = finding("tanh-unit", "met", paper="LM: +1" if (claim, part) == ("L3", "a") else "")
        return (
            Finding(
                "tanh-unit", "met", "all of these", components=(one,) * several[f"{claim} {part}"]
            )
            if f"{claim} {part}" in several
            else one
        )

    parts = {
        claim: tuple(Part(part, "s", (made_of(claim, part),)) for part in claims.CLAIMS[claim])
        for claim in ("A2", "A5", "A7", "L3")
    }
    return {claim: outcomes.beside(Verdict(claim, of_claim)) for claim, of_claim in parts.items()}


# --- README.md ---


def test_the_picture_carries_the_hash_of_its_numbers() -> None:
    found, other = (made(made_up.images(**FAST), made_up.mnist()) for _ in range(2))
    other.loc[0, "ece"] += 1
    assert headline.digest(found) in headline.picture(found) and headline.digest(
        found
    ) != headline.digest(other)


def test_the_readme_and_its_picture_show_what_the_records_say(
    page: Page, settings: pd.DataFrame
) -> None:
    text = headline.README.read_text(encoding="utf-8")
    assert text.index("$$J") < text.index("## ") and "| claim |" not in text and "{ref}" not in text
    assert headline.readme(page, settings) == text, "run `python -m study.headline`"
    assert headline.digest(settings) in headline.PICTURE.read_text(encoding="utf-8"), (
        "run `python -m study.headline`"
    )
