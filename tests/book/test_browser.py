"""The built book in a real browser: axe, tables that scroll, the console, and how much a page loads."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
BROWSER = Path(__file__).parent / "browser"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

MEDIAN = 1_500_000  # bytes of a page
MOST = 2_500_000


def entries(entry: dict[str, Any]) -> Iterator[str]:
    """The pages of a part of the table of contents."""
    if "file" in entry:
        yield entry["file"]
    for key in ("parts", "chapters", "sections"):
        for child in entry.get(key, []):
            yield from entries(child)


def contents() -> list[str]:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"], *entries(toc), "search"]


@pytest.fixture(scope="module")
def seen() -> list[dict[str, Any]]:
    """Every page as the browser met it."""
    chromium = next((path for name in NAMES if (path := shutil.which(name))), None)
    missing = [
        *([] if HTML.is_dir() else ["the book (make book)"]),
        *([] if chromium else ["Chromium"]),
        *([] if shutil.which("node") else ["node"]),
        *([] if (BROWSER / "node_modules").is_dir() else ["puppeteer-core and axe-core (make browser)"]),
    ]
    if missing:
        pytest.skip(f"the book was not looked at in a browser; missing: {', '.join(missing)}")
    command = ["node", str(BROWSER / "look.mjs"), str(chromium), str(HTML), *contents()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = [json.loads(line) for line in done.stdout.splitlines()]
    assert {page["page"] for page in pages} == set(contents())
    return pages


def test_axe_finds_nothing(seen: list[dict[str, Any]]) -> None:
    found = {page["page"]: page["axe"][:20] for page in seen if page["axe"]}
    assert not found, json.dumps(found, indent=1)


def test_no_table_scrolls_on_a_wide_screen(seen: list[dict[str, Any]]) -> None:
    found = {page["page"]: page["scrolling"]["1280"] for page in seen if page["scrolling"]["1280"]}
    assert not found, json.dumps(found, indent=1)


def test_the_console_is_silent_and_nothing_comes_from_elsewhere(seen: list[dict[str, Any]]) -> None:
    found = {page["page"]: page["console"] for page in seen if page["console"]}
    assert not found, json.dumps(found, indent=1)
    elsewhere = {url for page in seen for url, size in page["requests"].items() if size < 0}
    assert not elsewhere


def test_pages_are_light(seen: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print("\nbytes of a page as it opens, and with all of its pictures:")
        for page in sorted(seen, key=lambda page: page["weight"]):
            print(f"  {page['weight']:>9,} {page['whole']:>9,}  {page['page']}")
    assert statistics.median(page["weight"] for page in seen) < MEDIAN
    assert max(page["weight"] for page in seen) < MOST
