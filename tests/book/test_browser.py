"""The built book in a real browser.

Tested are axe, formulas, tables that scroll, the console, the first screen, and how much a page
loads.

`node tests/book/browser/look.mjs chromium _build/html` prints the numbers that are tested here.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HTML = Path(__file__).resolve().parents[2] / "_build" / "html"
FIRST = "book/welcome"
LEDGER = "book/ledger"

MEDIAN = 1_500_000  # bytes of a page
MOST = 2_500_000

Seen = list[dict[str, Any]]


@pytest.fixture(scope="module")
def seen(in_the_browser: Callable[..., Seen]) -> Seen:
    """Every page as the browser met it."""
    if not HTML.is_dir():
        pytest.skip(
            "the book was not looked at in a browser: it has not been built; `make book` builds it"
        )
    pages = in_the_browser("look.mjs", "--json", HTML, timeout=1500)
    built = {
        path.relative_to(HTML).with_suffix("").as_posix()
        for folder in ("book", "notebooks")
        for path in (HTML / folder).rglob("*.html")
    }
    assert {page["page"] for page in pages} == built | {"search"}
    return pages


def shown(found: dict[str, Any]) -> str:
    return json.dumps({page: texts for page, texts in found.items() if texts}, indent=1)


def test_axe_finds_nothing(seen: Seen) -> None:
    assert not any(page["axe"] for page in seen), shown(
        {page["page"]: page["axe"][:20] for page in seen}
    )


def test_mathjax_reads_every_formula(seen: Seen) -> None:
    assert not any(page["formulas"] for page in seen), shown(
        {page["page"]: page["formulas"] for page in seen}
    )


def test_no_table_and_no_page_scrolls_sideways(seen: Seen) -> None:
    """The ledger on a phone is left out."""
    found = {
        f"{page['page']} at {width}": page["scrolling"][width]
        for page in seen
        for width in ("1280", "390")
    }
    del found[f"{LEDGER} at 390"]
    assert not any(found.values()), shown(found)
    wide = {page["page"]: page["wide"] for page in seen if any(page["wide"].values())}
    assert not wide, shown(wide)


def test_the_console_is_silent_and_nothing_comes_from_elsewhere(seen: Seen) -> None:
    assert not any(page["console"] for page in seen), shown(
        {page["page"]: page["console"] for page in seen}
    )
    elsewhere = {url for page in seen for url, size in page["requests"].items() if size < 0}
    assert not elsewhere


def test_the_first_screen_has_the_answer_and_on_a_laptop_the_doors(seen: Seen) -> None:
    (first,) = (page for page in seen if page["page"] == FIRST)
    laptop, phone = first["starts"]["1280"], first["starts"]["390"]
    assert laptop[".answer"] < 800 / 2 and laptop[".sd-card"] < 800, laptop
    assert phone[".answer"] < 844 / 4 * 3, phone  # below the picture, which stands beside it else


def test_pages_are_light(seen: Seen) -> None:
    weights = {page["page"]: page["weight"] for page in seen}
    assert statistics.median(weights.values()) < MEDIAN
    assert max(weights.values()) < MOST, shown(weights)
