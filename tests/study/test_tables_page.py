"""The frame of a page of evidence: the answer with its counts, short names, differences beside the papers', what a page rests on."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from study import tables
from study.campaign.plan import Job
from study.tables import Page
from study.tables.runs import in_order, short
from tests.study.made_up import images, mnist


@pytest.fixture(scope="module")
def page() -> Page:
    return Page("E6", "E9", found=images())


def test_a_variant_has_a_short_name_and_its_place() -> None:
    assert short("cifar10, fast, crops and flips, 12 epochs") == "CIFAR-10, crops and flips"
    assert (
        short("relu-standard") == "ReLU, standardised pixels"
        and short("Iris, with weight decay") == "Iris, with weight decay"
    )
    names = [
        "tanh-none",
        "cifar10-jpeg, resnet18×0.25, plain, 6,000 images, 20 epochs",
        "cifar10, fast, plain, 12 epochs",
        "relu-unit",
    ]
    runs = pd.DataFrame(
        {"variant": names * 2, "beta": [1.0] * 4 + [5.0] * 4, "seed": 0, "dataset": "cifar10-jpeg"}
    )
    found = in_order(runs)
    assert list(dict.fromkeys(found["variant"])) == [short(names[index]) for index in (3, 0, 2, 1)]
    assert found["beta"].tolist() == [5.0, 1.0] * 4 and set(found["data"]) == {"CIFAR-10"}
    assert in_order(runs[:0]).empty


def test_a_page_shows_the_claim_its_outcome_and_what_was_found(page: Page) -> None:
    text = page.answer("E6").data
    assert (
        text.startswith("> On CIFAR-10 a β below 1") and "\n> GD-1 section 4.2.2, Table 2" in text
    )
    assert "**Supported** (reduced runs): of 3 findings ✓ 3 met." in text
    assert text.endswith(
        "E6 in {ref}`the ledger <sec-claims>`; {ref}`how a claim is decided <sec-read>`."
    )
    assert "**Not run yet.**" in page.answer("E9").data


def test_a_page_says_which_runs_are_under_way(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = (
        lambda job: "seed0" in job.id and job.campaign in ("cifar10-fast", "cifar10-reduced"),
        "`cifar10-fast` 10 of 42 runs.",
    )
    for done, told in (begun, (lambda job: True, "met."), (lambda job: False, "met.")):
        monkeypatch.setattr(Job, "done", property(done))
        assert page.answer("E6").data.partition("\n\n{.fineprint}")[0].rstrip().endswith(told)


def test_what_a_page_rests_on_is_open_and_criteria_and_commands_are_closed(page: Page) -> None:
    text = page.ground().data
    before, *boxes = text.split("::::::{dropdown} ")
    assert ":name: tab-e6-e9-runs" in before and "**Reduced runs**" in before
    titles = [box.partition("\n")[0] for box in boxes]
    assert (
        titles[0]
        == "Criteria and findings: On CIFAR-10 a small β is more accurate, and the warm-up most"
        and titles[2] == "Run it again"
    )
    assert re.search(r"\| \+1\.0\d* \[.* points \| GD-1: \+0\.1 … \+1\.2; GD-2", boxes[0]), (
        "differences of accuracy are in points"
    )
    assert (
        "**(a) test accuracy is larger for beta 0.1 than for beta 1.**" in boxes[0]
        and "✓ met" in boxes[0]
    )
    assert "| not run |" in boxes[1] and "make reproduce CAMPAIGN=cifar10-fast" in boxes[2]


def test_variants_with_too_few_seeds_are_counted_behind_their_names() -> None:
    few = Page("E4", found=pd.concat([mnist(), mnist("tanh-unit", seeds=2)]))
    assert set(few.runs("grid")["variant"]) == {"ReLU, pixels 0 to 1"}
    assert set(few.runs("grid", some=True)["variant"]) == {
        "ReLU, pixels 0 to 1",
        "tanh, pixels 0 to 1 (2 of 5 seeds)",
    }
    assert Page("E4", found=pd.DataFrame()).runs("grid").empty


def test_differences_are_paired_and_stand_beside_the_papers(page: Page) -> None:
    shown = tables.differences(
        page.runs("cifar10"), "test_accuracy", "accuracy, %", [0.1, 1.0, 50.0]
    )
    assert shown["trained with"].tolist() == ["β = 0.1", "β = 1"]  # β = 50 was not run
    assert shown["papers"].tolist() == ["GD-1: +0.1 … +1.2; GD-2: +0.2 … +0.7", tables.MISSING]
    assert (
        shown["less β = 1"].iloc[0].startswith("**+1.0 [")
        and shown["less β = 1"].iloc[1] == tables.MISSING
    )
    assert "papers" not in tables.differences(page.runs("cifar10"), "overconfidence", "points"), (
        "they print no such number"
    )
    assert tables.differences(page.runs("cifar10"), "no such metric", "x").empty


def test_an_outcome_for_a_sentence_pairs_by_seed() -> None:
    rows = [
        {"variant": "v", "schedule": label, "seed": seed, "x": x + seed}
        for label, x in (("5", 0.5), ("20", 0.3))
        for seed in (0, 1)
    ]
    runs = pd.DataFrame(rows)
    assert (
        tables.span(runs, "x", "5", scale=1) == "1.0"
        and tables.span(runs, "x", "20", less="5", scale=1) == "−0.2"
    )
    assert (
        tables.span(
            runs[(runs["schedule"] == "5") | (runs["seed"] == 1)], "x", "20", less="5", scale=1
        )
        == "−0.2"
    )
    assert tables.span(runs, "y", "5") == tables.span(runs, "x", "1") == tables.MISSING


def test_what_can_be_opened_holds_tables() -> None:
    table = tables.table(pd.DataFrame({"a": [1]}), "tab-x", "c")
    assert (
        tables.closed("More", "Text.", table)
        == f"::::::{{dropdown}} More\nText.\n\n{table._repr_markdown_()}\n::::::"
    )
