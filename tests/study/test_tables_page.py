"""The frame of a page of evidence: answer, counts, short names, differences, what it rests on."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from study import claims, tables
from study.campaign.plan import Job
from study.tables import Page, prose, sentences
from study.tables.runs import in_order
from study.variants import Variant
from tests.study.made_up import FAST, images, mnist, rates_on_cifar100, verdict


@pytest.fixture(scope="module")
def page() -> Page:
    return Page("E6", "E9", runs=images())


def test_a_variant_has_a_short_name_and_its_place() -> None:
    flips = Variant("cifar10", "fast", augmentation="crop2-flip", epochs=12)
    assert flips.short == "CIFAR-10, crops and flips"
    unit = Variant(activation="relu", normalization="unit")
    assert unit.short == "ReLU, pixels 0 to 1"
    assert Variant("Iris, with weight decay").short == "Iris, with weight decay"
    few = Variant("cifar10-jpeg", "resnet18", 0.25, "none", images=6000, epochs=20)
    fast = Variant("cifar10", "fast", augmentation="none", epochs=12)
    names = [Variant(activation="tanh", normalization="none"), few, fast, unit]
    runs = pd.DataFrame(
        {"variant": names * 2, "beta": [1.0] * 4 + [5.0] * 4, "seed": 0, "dataset": "cifar10-jpeg"}
    )
    found = in_order(runs)
    assert list(dict.fromkeys(found["variant"])) == [names[index].short for index in (3, 0, 2, 1)]
    assert found["beta"].tolist() == [5.0, 1.0] * 4
    assert set(found["data"]) == {"CIFAR-10"}
    assert in_order(runs[:0]).empty


def test_a_page_shows_the_claim_its_outcome_and_what_was_found(page: Page) -> None:
    answer, claim, fineprint = page.answer("E6").data.split("\n\n")
    # its sentence was written for the verdict of the records, not for that of these runs
    assert answer.startswith("{.answer}\n**Supported.**")
    assert claim.startswith("> **The papers claim:** On CIFAR-10 a β below 1")
    assert "\n> GD-1 section 4.2.2, Table 2" in claim
    assert fineprint == (
        "{.fineprint}\n**Supported** (reduced runs), by part a. Of 3 findings ✓ 3 met."
        " E6 in {ref}`the ledger <sec-claims>`; {ref}`how a claim is decided <sec-read>`."
    )
    assert page.answer("E9").data.startswith("{.answer}\n**Not run yet.**")


def test_a_page_shows_the_sentence_that_was_written_for_the_outcomes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = [images(**FAST | {"subset": 0, "augmentation": one}) for one in ("none", "crop2-flip")]
    runs = pd.concat(both, ignore_index=True)
    runs["test_accuracy"] = 0.9 + 0.01 * runs["seed"]
    decided = verdict("E6", runs)
    written = claims.ledger()["E6"]
    assert decided.verdict == written.found.verdict == "unresolved"
    assert decided.outcomes != written.found.outcomes
    shown = Page("E6", runs=runs).answer().data
    assert shown.startswith("{.answer}\n**Unresolved.**"), "it was written for other outcomes"
    found = written.found.model_copy(update={"outcomes": decided.outcomes})
    ledger = {"E6": written.model_copy(update={"found": found})}
    monkeypatch.setattr(sentences, "ledger", lambda: ledger)
    text = Page("E6", runs=runs).answer().data
    assert text.startswith("{.answer}\nAt one learning rate for all, β = 0.1 is as accurate")
    assert "The difference is 0.0 points" in text


def test_a_page_says_which_runs_are_under_way(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way = (
        "More runs are planned (`cifar10-fast` 10 of 42 runs are there)."
        " The missing ones decide nothing yet."
    )

    def begun(job: Job) -> bool:
        return "seed0" in job.id and job.campaign in ("cifar10-fast", "cifar10-reduced")

    for done, told in (
        (begun, under_way),
        (lambda job: True, "**Supported.**"),
        (lambda job: False, "**Supported.**"),
    ):
        monkeypatch.setattr(Job, "done", property(done))
        assert page.answer("E6").data.partition("\n\n> ")[0].endswith(told)


def test_what_a_page_rests_on_is_open_and_parts_and_commands_are_closed(page: Page) -> None:
    text = page.ground().data
    before, *boxes = text.split("::::::{dropdown} ")
    assert ":name: tab-e6-e9-runs" in before
    assert "**Reduced runs**" in before
    titles = [box.partition("\n")[0] for box in boxes]
    assert titles[0] == (
        "Parts and findings: On CIFAR-10 a small β is more accurate, and the warm-up most"
    )
    assert titles[2] == "Run it again"
    # differences of accuracy are in points
    assert re.search(r"\| \+1\.0\d* \[.* points \| GD-1: \+0\.1 … \+1\.2; GD-2", boxes[0])
    primary, other = (
        "**(a, primary) test accuracy is larger for beta 0.1 than for beta 1.**",
        "**(b) test accuracy is larger for beta 1 than for beta 5.**",
    )
    assert primary in boxes[0]
    assert other in boxes[0]
    assert "✓ met" in boxes[0]
    assert "| not run |" in boxes[1]
    assert "make reproduce CAMPAIGN=cifar10-fast" in boxes[2]


def test_what_was_trained_has_its_training_accuracy_for_the_premise(page: Page) -> None:
    before = page.ground().data.partition("::::::{dropdown}")[0]
    row = next(line for line in before.splitlines() if line.startswith("| CIFAR-10"))
    assert row.endswith("| 8 | 3 | 99.5 | 4.0 |")  # epochs, seeds, accuracy, over-confidence


def test_what_other_learning_rates_learnt_stands_in_brackets() -> None:
    row = Page("B7", runs=rates_on_cifar100()).ground().data.partition("| CIFAR-100")[2]
    assert row.partition("\n")[0].endswith("| 99.5 (99.0 to 99.5) | 4.0 (4.0) |")


def test_outcomes_outside_the_premise_are_shown_in_parentheses() -> None:
    many = images(dataset="tiny-imagenet", train_accuracy=0.9)
    boxes = Page("E8", runs=many).ground().data
    assert re.findall(r"\| (\(.*\)) \|\n", boxes) == ["(outside the premise)"] * 2


def test_variants_with_too_few_seeds_are_counted_behind_their_names() -> None:
    few = Page("E4", runs=pd.concat([mnist(), mnist("tanh-unit", seeds=2)]))
    assert set(few.runs("grid")["variant"]) == {"ReLU, pixels 0 to 1"}
    all_variants = few.runs("grid", some=True)["variant"]
    assert set(all_variants) == {
        "ReLU, pixels 0 to 1",
        "tanh, pixels 0 to 1 (2 of 5 seeds)",
    }
    assert Page("E4", runs=pd.DataFrame()).runs("grid").empty


def test_differences_stand_beside_the_papers(page: Page) -> None:
    runs = page.runs("cifar10")
    shown = tables.differences(runs, "test_accuracy", "accuracy, %", [0.1, 1.0, 50.0])
    assert shown["trained with"].tolist() == ["β = 0.1", "β = 1"]  # β = 50 was not run
    assert shown["papers"].tolist() == ["GD-1: +0.1 … +1.2; GD-2: +0.2 … +0.7", tables.MISSING]
    first, second = shown["minus β = 1"]
    assert first.startswith("**+1.0 [")
    assert second == tables.MISSING
    # they print no such number
    assert "papers" not in tables.differences(runs, "overconfidence", "points")
    assert tables.differences(runs, "no such metric", "x").empty


def test_differences_have_the_interval_of_the_verdict(page: Page) -> None:
    verdict = page.verdicts["E6"].parts[0].findings[0].difference.interval
    runs = page.runs("cifar10")
    shown = tables.differences(runs, "test_accuracy", "accuracy, %", [0.1], spec=".4f")
    low, high = (f"{100 * end:+.4f}" for end in (verdict.low, verdict.high))
    assert f"[{low}, {high}]" in shown["minus β = 1"].iloc[0]
    found = tables.leads(runs, "test_accuracy", "1").set_index("schedule")
    assert found.loc["0.1", ["low", "high"]].tolist() == pytest.approx(
        [100 * verdict.low, 100 * verdict.high]
    )
    assert "1" not in found.index


def test_an_outcome_for_a_sentence_pairs_by_seed() -> None:
    rows = [
        {"variant": "v", "schedule": label, "seed": seed, "x": x + seed}
        for label, x in (("5", 0.5), ("20", 0.3))
        for seed in (0, 1)
    ]
    runs = pd.DataFrame(rows)
    numbers = tables.Numbers(runs)
    assert prose.written(numbers.x(5)) == "1.0"
    assert prose.written(numbers.x(20, minus=5)) == "−0.2"
    unequal = runs[(runs["schedule"] == "5") | (runs["seed"] == 1)]
    assert prose.written(tables.Numbers(unequal).x(20, minus=5)) == "−0.2"
    with pytest.raises(prose.Missing, match="no metric 'y'"):
        numbers.y(5)
    with pytest.raises(prose.Missing, match="no x of '1'; there are 5, 20"):
        numbers.x(1)
    with pytest.raises(prose.Missing, match="several runs of one seed for x of"):
        tables.Numbers(pd.concat([runs, runs])).x(5)
    with pytest.raises(prose.Missing, match="no x of '5'"):
        prose.written(tables.Numbers(runs.assign(x=float("nan"))).x(5))


def test_what_can_be_opened_holds_tables() -> None:
    table = tables.table(pd.DataFrame({"a": [1]}), "tab-x", "c")
    assert (
        tables.closed("More", "Text.", table)
        == f"::::::{{dropdown}} More\nText.\n\n{table._repr_markdown_()}\n::::::"
    )


def test_a_variant_that_is_complete_with_the_seeds_of_its_plan_is_shown() -> None:
    one = {"dataset": "cifar100", "augmentation": "crop2-flip", "width": 2.0, "seeds": 3}
    runs = images(**FAST | {"subset": 0, "epochs": 40} | one)
    runs = runs[runs["schedule"] != "0.01"]  # not in the plan
    shown = Page("E8", runs=runs).runs("images")
    assert set(shown["variant"]) == {"CIFAR-100, width 2, crops and flips"}
    assert not shown["counted"].any()
    assert Page("E8", runs=runs[runs["seed"] < 2]).runs("images").empty
