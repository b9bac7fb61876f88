"""The first page and README.md: variants in which β was varied, sentences, figure, and matrix."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from bs4 import BeautifulSoup, Tag

from study import claims, headline, metrics, published, statistics
from study.claims import DecidedPart, Finding, Verdict
from study.claims.load import Found
from study.tables import Page, install, measured, outcomes, prose, sentences
from study.variants import Variant
from tests.study import made_up

FAST = made_up.FAST | {"subset": 0}
CURVES = {"curve_epoch": [0, 1, 2, 4, 8], "curve_test_accuracy": [0.1, 0.3, 0.5, 0.7, 0.9]}


def made(*runs: pd.DataFrame) -> pd.DataFrame:
    """The variants of made-up runs, all of them with the same curves."""
    found = pd.concat(runs, ignore_index=True)
    found["epochs"] = found["epochs"].fillna(8) if "epochs" in found else 8
    curves = {name: [curve] * len(found) for name, curve in CURVES.items()}
    return measured.variants(found.assign(**curves))


VARIANTS = {
    "tanh-unit": Variant("mnist", "mlp", activation="tanh", normalization="unit"),
    "relu-none": Variant("mnist", "mlp", activation="relu", normalization="none"),
    "cifar10, fast, unaugmented": Variant("cifar10", "fast", augmentation="none"),
    "cifar10, fast, crops and flips": Variant("cifar10", "fast", augmentation="crop2-flip"),
}


def finding(variant: str, outcome: claims.Outcome, **own: Any) -> Finding:
    """A comparison of accuracies with a difference of 2 points."""
    difference = statistics.paired_difference([0.01, 0.02, 0.03], [0.0, 0.0, 0.0])
    about: dict[str, Any] = {"scales": ("paper",), "metric": metrics.metric("test_accuracy")} | own
    text = "test accuracy, 0.1 against 1"
    return Finding(VARIANTS.get(variant, Variant(variant)), outcome, text, difference, **about)


def verdict(claim: str, **parts: tuple[Finding, ...]) -> Verdict:
    """A verdict with these findings in its parts, the first of which decides."""
    of_claim = [DecidedPart(letter, "a sentence", found) for letter, found in parts.items()]
    return Verdict(claim, tuple(of_claim), next(iter(parts)))


@pytest.fixture(scope="module")
def page() -> Page:
    return Page()


@pytest.fixture(scope="module")
def variants(page: Page) -> pd.DataFrame:
    return measured.variants(page.records)


# --- variants ---


def test_a_variant_is_named_in_words_and_holds_its_numbers() -> None:
    found = made(made_up.mnist("tanh-none"), made_up.images(**FAST), made_up.images(seeds=2))
    assert list(dict.fromkeys(found["variant"])) == [
        "CIFAR-10, crops and flips",
        "MNIST, tanh, pixels 0 to 255",
    ], "two seeds are too few"
    assert list(dict.fromkeys(found["note"])) == [
        "reduced: a small network, 8 epochs",
        "the papers' network, 8 epochs",
    ]
    first = found[found["variant"].eq("CIFAR-10, crops and flips")].set_index("beta")
    assert first.index.tolist() == [0.01, 0.1, 1.0, 5.0, 20.0]  # a warm-up has no β
    assert set(first["seeds"]) == {5}
    assert first.loc[0.1, "gain"].estimate == pytest.approx(1, abs=0.05)
    assert first.loc[1.0, "gain"].estimate == 0
    assert first.loc[0.1, ["ece", "link", "early"]].tolist() == pytest.approx([6, 0.5, 40], abs=0.1)
    lost = found.set_index(["variant", "beta"])["lost"]
    assert lost["MNIST, tanh, pixels 0 to 255", 0.001] == pytest.approx(2400, rel=0.02)


def test_a_gain_has_the_interval_of_the_verdict() -> None:
    runs = made_up.images(**FAST)
    found = made(made_up.mnist(), runs).set_index(["variant", "beta"])
    gain = found.loc[("CIFAR-10, crops and flips", 0.1), "gain"]
    own = made_up.verdict("E6", runs).parts[0].findings[0].difference.interval
    assert (gain.low, gain.high) == pytest.approx((100 * own.low, 100 * own.high))


def test_older_runs_do_not_decide_beside_a_network_at_real_accuracy() -> None:
    part, mnist = made_up.images(augmentation="crop-flip"), made_up.mnist()
    assert made(part, mnist)["decides"].all()
    found = made(part, mnist, made_up.images(**FAST))
    assert set(found.loc[~found["decides"], "variant"]) == {
        "CIFAR-10, 6,000 images, crops and flips"
    }


@pytest.mark.slow
def test_the_records_have_variants_with_three_seeds_or_more(variants: pd.DataFrame) -> None:
    expected = {"MNIST, tanh, pixels 0 to 1", "MNIST, ReLU, pixels 0 to 255"}
    assert expected <= set(variants["variant"])
    assert variants["seeds"].min() >= 3
    assert variants.groupby("variant")["beta"].nunique().min() > 1


def test_numbers_count_intervals_variant_by_variant() -> None:
    found = made(made_up.mnist(), made_up.mnist("tanh-none"), made_up.images(**FAST))
    chosen = statistics.paired_difference([0.01, -0.01, 0.0], [0.0, 0.0, 0.0])
    b1 = verdict("B1", d=(replace(finding("v", "unresolved"), difference=chosen),))
    accuracies = {0.3: {0.1: [0.1, 0.09], 1.0: [0.1, 0.9]}, 0.01: {0.1: [0.9], 1.0: [0.1]}}
    tuned = pd.DataFrame(
        [
            {"learning_rate": rate, "beta": beta, "test_accuracy": accuracy}
            for rate, of_beta in accuracies.items()
            for beta, each in of_beta.items()
            for accuracy in each
        ]
    )
    numbers = measured.numbers(found, tuned, b1, made_up.verdict("B4", made_up.stepping()))
    assert numbers.variants == 3
    assert numbers.advised == 0.1  # 0.001 is best on MNIST, and was not run on images
    assert numbers.accuracy.higher[0.1] == 3
    assert numbers.accuracy.lower[5.0] == 3
    assert numbers.accuracy.gains[0.1] == pytest.approx([1, 0.5, 0.5], abs=0.05)
    assert numbers.confidence.ece == pytest.approx([6], abs=0.1)
    assert numbers.confidence.link == pytest.approx([0.5], abs=0.1)
    assert numbers.confidence.taken_by_link == pytest.approx([5.5], abs=0.2)
    assert numbers.raw == pytest.approx([0.4], abs=0.05)
    assert numbers.temperature == pytest.approx([2.5], abs=0.1)
    assert prose.written(numbers.chosen_rates[0]) == "0.0 [−2.5, +2.5]"
    assert numbers.chosen_rates_mnist == []
    assert max(numbers.small_step) < 0 < min(numbers.large_step)
    assert numbers.long_steps.rate == 0.3
    assert numbers.long_steps.trainings == {0.1: 2, 1.0: 2}
    assert numbers.long_steps.at_chance == {0.1: 2, 1.0: 1}


def test_what_was_trained_is_told_with_the_error_of_both_ways_of_training() -> None:
    names = ("CIFAR-100, unaugmented", "CIFAR-100, crops and flips")
    table = pd.DataFrame(
        {
            "variant": [name for name in names for _ in range(2)],
            "beta": [1.0, 20.0] * 2,
            "ece": [13.14, 5.0, 4.3, 12.6],
        }
    )
    told = measured.trained_on(table)
    assert "falls from 13.1 to 5.0 % there" in told
    assert told.endswith("the error rises from 4.3 to 12.6 %.")
    wide = {"variant": "CIFAR-100, width 2, crops and flips", "beta": [1.0, 20.0], "ece": [9, 8.1]}
    told = measured.trained_on(pd.concat([table, pd.DataFrame(wide)]))
    assert told.endswith("it has learnt them too, and the error falls from 9.0 to 8.1 %.")


# --- sentences ---


def test_answers_are_filled_with_numbers_and_left_out_where_they_do_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = {
        "holds": "gains[0.1] | min > 0",
        "answer": "{ref}`It <sec-a>` gains {{ gains[0.1] }} of {{ variants }}.",
    }
    monkeypatch.setattr(sentences, "written", lambda: {"Use it?": entry})
    assert sentences.answers(SimpleNamespace(gains={0.1: [0.26, 1.0]}, variants=2)) == {
        "Use it?": "{ref}`It <sec-a>` gains 0.3–1.0 of 2."
    }
    assert sentences.answers(SimpleNamespace(gains={0.1: [-0.26, 1.0]}, variants=2)) == {}
    with pytest.raises(Exception, match="undefined"):
        sentences.answers(SimpleNamespace(variants=2))


def test_a_sentence_on_a_claim_is_filled_and_shown_for_its_verdict_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = 'Less by {{ -100 * a["tanh, pixels 0 to 1"] }} points.'
    found = Found(verdict="unresolved", outcomes={"a": {"unresolved": 1}}, text=text)
    e4 = claims.ledger()["E4"]
    ledger = {
        "E4": e4.model_copy(update={"found": found}),
        "E5": e4.model_copy(update={"found": None}),
    }
    monkeypatch.setattr(sentences, "ledger", lambda: ledger)
    unresolved = (finding("tanh-unit", "unresolved"),)
    assert sentences.finding(verdict("E4", a=unresolved)) == "Less by −2.0 points."
    assert sentences.finding(verdict("E4", a=(finding("tanh-unit", "met"),))) == ""
    assert sentences.finding(verdict("E4", a=2 * unresolved)) == "", "of one more variant"
    assert sentences.finding(verdict("E4", a=unresolved, b=unresolved)) == "", "of one more part"
    assert sentences.finding(verdict("E5", a=unresolved)) == ""


@pytest.mark.slow
def test_every_sentence_on_a_claim_can_be_filled_from_the_records() -> None:
    for claim, decided in claims.verdicts().items():
        if decided.verdict != "not run" and claims.ledger()[claim].found:
            shown = sentences.finding(decided)
            assert shown, f"{claim}: its sentence is about another verdict"
            assert "{{" not in shown, claim


@pytest.mark.slow
def test_the_answers_hold_on_the_records(page: Page, variants: pd.DataFrame) -> None:
    b1, b4 = (made_up.verdict(claim, page.records) for claim in ("B1", "B4"))
    found = sentences.answers(measured.numbers(variants, page.runs("mnist-tuned"), b1, b4))
    missing = "read the missing ones in book/answers.yml beside the new records"
    assert list(found) == list(sentences.written()), missing
    for answer in found.values():
        assert "{ref}`" in answer, "every answer says where it is shown"
        assert "{{" not in answer


# --- the figure ---


def test_the_figure_gets_what_the_records_hold() -> None:
    shown = measured.play(made(made_up.images(**FAST), made_up.mnist())).data
    content = re.findall(r"<script[^>]*>(.*)</script>", shown)[0]
    first, second = json.loads(content)["variants"]
    assert first["beta"] == [0.01, 0.1, 1, 5, 20]
    assert first["accuracy"] == pytest.approx(92, abs=0.5)
    assert first["seeds"] == 5
    assert first["gain"][2] == [0, 0, 0]
    assert first["ece"][1] == pytest.approx(6, abs=0.1)
    assert first["link"][0] == pytest.approx(0.5, abs=0.1)
    assert second["link"] == [None] * 8


@pytest.mark.slow
def test_the_figure_of_the_records_is_small(variants: pd.DataFrame) -> None:
    assert len(measured.play(variants).data) < 15_000


# --- the matrix ---

GAIN = published.Effect("GD-2", "", 0.002, 0.002)


def test_the_matrix_has_mark_word_effect_and_link() -> None:
    first = verdict(
        "E4",
        a=(finding("tanh-unit", "met", paper=(GAIN,)), finding("relu-none", "contradicted")),
        b=(
            finding("tanh-unit", "unresolved"),
            finding("cifar10, fast, unaugmented", "met", decides=False),
        ),
    )
    second = verdict("E10", a=())
    found = BeautifulSoup(outcomes.matrix([first, second]).data, "html.parser")
    assert [cell.get_text() for cell in found.select("thead th")] == ["claim", "outcome", "MNIST"]
    one, other = found.select("tbody tr")
    assert link(one) == "../notebooks/evidence/accuracy.html#sec-e4"
    assert text(one, "th a") == claims.ledger()["E4"].short
    assert text(one, ".word") == "mixed papers' scale"
    assert one.select_one("th small").get_text() == "mixed, papers' scale"
    assert text(one, "td .all") == "✓1 met ✗1 contradicted ○1 unresolved"
    lines = [line.get_text() for line in one.select(".more > span")]
    assert lines[0] == (
        "✓ met a tanh, pixels 0 to 1: test accuracy, 0.1 against 1:"
        " +2.0 [−0.5, +4.5] points (papers: GD-2: +0.2)"
    )
    assert [line.split()[0] for line in lines] == ["✓", "✗", "○"]
    assert other.select("td")[-1].get_text() == "none decides"
    assert text(other, ".word") == "not run"


def test_some_claims_are_seen_at_once_and_the_others_are_closed() -> None:
    several = [
        verdict("E4", a=(finding("tanh-unit", "met"),)),
        verdict("E6", a=(finding("cifar10, fast, unaugmented", "met"),)),
        verdict("E5", a=(finding("relu-none", "met"),)),
    ]
    found = BeautifulSoup(outcomes.matrix(several, first=["E5", "E4"]).data, "html.parser")
    seen, closed = found.select("table")
    assert [text(row, "th a") for row in seen.select("tbody tr")] == [
        claims.ledger()[claim].short for claim in ("E5", "E4")
    ]
    columns = [cell.get_text() for cell in seen.select("thead th")]
    assert columns == ["claim", "outcome", "MNIST"], "nothing that none of them was run on"
    assert closed.find_parent("details")
    assert text(found.select_one("details"), "summary") == "The other claims (1)"
    assert len(closed.select("tbody tr")) == 1
    whole = BeautifulSoup(outcomes.matrix(several, first=["E4", "E5", "E6"]).data, "html.parser")
    assert not whole.select("details")


def test_a_claim_without_a_page_leads_to_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    e4 = claims.ledger()["E4"]
    for page, short in (("", ""), ("sec-nowhere", "x")):
        own = e4.model_copy(update={"page": page, "short": short})
        monkeypatch.setattr(claims, "ledger", lambda own=own: {"E4": own})
        if page:
            with pytest.raises(ValueError, match="sec-nowhere"):
                outcomes.matrix([verdict("E4", a=())])
            continue
        found = BeautifulSoup(outcomes.matrix([verdict("E4", a=())]).data, "html.parser")
        row = found.select("tbody tr")[0]
        assert link(row).endswith("#sec-claims")
        assert text(row, "th a") == e4.claim


def text(row: Tag, selector: str) -> str:
    """The text of an element, its parts with a space between them."""
    found = row.select_one(selector)
    assert found is not None
    return found.get_text(" ", strip=True)


def link(row: Tag) -> str:
    """Where the name of a row leads."""
    found = row.select_one("th a")
    assert found is not None
    return str(found["href"])


# --- outcomes, counted, and the papers' own effects ---


def test_claims_are_counted_by_their_outcome_in_the_order_of_the_words() -> None:
    met, against = (verdict("E4", a=(finding("u", word),)) for word in ("met", "contradicted"))
    counted = outcomes.summary([against, met, met, verdict("E4", a=())])
    assert counted == "2 supported, 1 contradicted, 1 not run"
    assert outcomes.summary([]) == ""


def test_a_tally_says_each_outcome_in_a_sentence() -> None:
    met, open_, against = (
        verdict("E4", a=(finding("u", word),)) for word in ("met", "unresolved", "contradicted")
    )
    both = verdict("E4", a=(finding("u", "met"), finding("v", "contradicted")))
    partly = verdict("E4", a=(finding("u", "met"), finding("v", "unresolved")))
    assert outcomes.tally([met, met, partly, both]) == (
        "Two are supported, and one more in part. One holds in some variants and fails in others."
    )
    assert outcomes.tally([open_, against, against]) == "Two are contradicted. One stays open."
    assert outcomes.tally([partly, met]) == "One is supported, and one more in part."
    assert outcomes.tally([partly]) == "One is supported in part."
    assert outcomes.tally([open_] * 21) == "21 stay open."


def test_the_scale_of_a_verdict_in_words() -> None:
    told = {
        scale: outcomes.scale(
            verdict("E4", a=(finding("u", "met", scales=tuple(scale.split(", "))),))
        )
        for scale in ("paper", "reduced", "paper, reduced")
    }
    assert told == {
        "paper": "the papers' scale",
        "reduced": "reduced runs",
        "paper, reduced": "the papers' scale and reduced runs",
    }


def test_our_own_claims_are_counted_apart() -> None:
    own = {name for name in claims.ledger() if outcomes.is_own(verdict(name, a=()))}
    assert own == {name for name in claims.ledger() if name.startswith("B")}


def test_rules_find_the_effects_of_a_table_that_was_not_run_here() -> None:
    table = published.table("AG", 1)
    ours = table[table["s"] == 5].set_index("metric")["value"]
    best = table[table["method"] != "ArcGrad"].groupby("metric")["value"].max()
    a2 = told("A2", several={"d": 3})
    lead = float(a2["a"][0].removeprefix("AG, Table I: "))
    assert lead == pytest.approx((ours["mean_accuracy"] - best["mean_accuracy"]) / 100, abs=2e-4)
    wins = (ours["wins"] - best["wins"]) / 15
    assert a2["b"] == [f"AG, Table I: {wins:+.4f}"]
    assert a2["d"] == [
        "AG, Table I: +0.0022",
        "AG, Table I: +0.0095",
        "AG, Table I: +0.1167",
    ]
    assert told("A7") == {"a": ["AG, text: +0.034"], "b": [""]}
    known = told("A5", known={"a": (GAIN,)})
    assert known["a"] == ["GD-2: +0.002"]
    assert known["b"] == [""], "figure 3 has no numbers"


@pytest.mark.parametrize(
    ("variant", "named"),
    [
        ("tanh-unit", "AG, Table VII, CIFAR-10+: "),
        ("cifar10, fast, unaugmented", "AG, Table VII, CIFAR-10+: "),
        ("cifar10, fast, crops and flips", "AG, Table VII: "),
    ],
)
def test_the_data_set_of_a_table_is_named_where_ours_is_another(variant: str, named: str) -> None:
    found = told("A5", variant=variant)
    assert [found[part] for part in "cd"] == [[f"{named}+0.143"], [f"{named}+0.0064"]]


def told(
    claim: str,
    several: Mapping[str, int] = {},
    known: Mapping[str, tuple[published.Effect, ...]] = {},
    variant: str = "tanh-unit",
) -> dict[str, list[str]]:
    """The papers' effects that are written beside the findings of a claim, by part.

    A part has ``several`` comparisons, or one, whose effects are ``known`` or not.
    """
    parts = {}
    for part in claims.ledger()[claim].parts:
        one = finding(variant, "met", paper=known.get(part, ()))
        if part in several:
            findings = (one,) * several[part]
            one = Finding(one.variant, "met", "all of these", findings=findings)
        parts[part] = (one,)
    found = outcomes.beside(verdict(claim, **parts))
    return {
        part.id: [published.written(one.paper) for one in part.findings[0].comparisons()]
        for part in found.parts
    }


# --- README.md ---


def test_the_package_is_installed_from_its_address_once_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "some-name"\n', encoding="utf-8")
    config = tmp_path / "_config.yml"
    config.write_text('repository:\n  url: ""\n', encoding="utf-8")
    assert install.command().endswith("\npip install .")
    config.write_text("repository:\n  url: https://example.org/a/b/\n", encoding="utf-8")
    line = 'pip install "some-name @ git+https://example.org/a/b"'
    assert install.command() == line


def test_the_picture_carries_the_hash_of_its_numbers() -> None:
    found, other = (made(made_up.images(**FAST), made_up.mnist()) for _ in range(2))
    other.loc[0, "ece"] += 1
    assert headline.digest(found) in headline.picture(found)
    assert headline.digest(found) != headline.digest(other)


@pytest.mark.slow
def test_the_readme_and_its_picture_show_what_the_records_say(
    page: Page, variants: pd.DataFrame
) -> None:
    text = headline.README.read_text(encoding="utf-8")
    assert text.index("$$J") < text.index("## ")
    assert "| claim |" not in text
    assert "{ref}" not in text
    again = "run `python -m study.headline`"
    assert headline.readme(page.records, variants) == text, again
    assert headline.digest(variants) in headline.PICTURE.read_text(encoding="utf-8"), again
