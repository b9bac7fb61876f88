"""The built book: every page is there, every link leads somewhere, no cell failed, every picture can be read aloud."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"

pytestmark = pytest.mark.skipif(
    not HTML.is_dir(), reason="the built pages were not tested: the book has not been built; `make book` builds it"
)


def contents() -> list[str]:
    """The pages of the table of contents, in order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))

    def files(entry: dict) -> list[str]:
        inner = [name for key in ("chapters", "sections", "parts") for child in entry.get(key, []) for name in files(child)]
        return [entry["file"], *inner] if "file" in entry else inner

    return [toc["root"], *files(toc)]


@cache
def page(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path: Path) -> frozenset[str]:
    found = page(path)
    return frozenset(
        {str(tag["id"]) for tag in found.find_all(id=True)} | {str(tag["name"]) for tag in found.find_all("a", attrs={"name": True})}
    )


def article(name: str) -> Tag:
    """The text of a page, without navigation."""
    path = HTML / f"{name}.html"
    assert path.is_file(), f"the book has no page {name}"
    found = page(path).find("article")
    assert isinstance(found, Tag)
    return found


pages = pytest.mark.parametrize("name", contents())


def test_the_table_of_contents_and_the_sources_agree() -> None:
    listed = contents()
    assert len(set(listed)) == len(listed)
    written = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for folder in ("book", "notebooks")
        for path in (ROOT / folder).rglob("*.md")
        if not any(part.startswith("_") for part in path.relative_to(ROOT).parts)
    }
    assert set(listed) == written, f"only in the contents: {sorted(set(listed) - written)}; only on disk: {sorted(written - set(listed))}"


def test_the_first_page_is_reached_from_index() -> None:
    assert f"{contents()[0]}.html" in (HTML / "index.html").read_text(encoding="utf-8")


@pages
def test_a_page_is_newer_than_nothing_it_shows(name: str) -> None:
    """The copy of the source that the book carries is the source."""
    source = (ROOT / f"{name}.md").read_text(encoding="utf-8")
    assert (HTML / "_sources" / f"{name}.md").read_text(encoding="utf-8") == source, "the built page is old: `make book`"


@pages
def test_every_internal_link_leads_somewhere(name: str) -> None:
    here = HTML / f"{name}.html"
    dead = []
    for tag, attribute in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src"), ("source", "src")):
        for element in page(here).find_all(tag, attrs={attribute: True}):
            address = urlsplit(str(element[attribute]))
            if address.scheme or address.netloc:
                assert address.scheme != "file", f"a path of one machine: {element[attribute]}"
                continue
            target = (here.parent / unquote(address.path)).resolve() if address.path else here
            if not target.exists():
                dead.append(str(element[attribute]))
            elif address.fragment and target.suffix == ".html" and unquote(address.fragment) not in anchors(target):
                dead.append(f"{element[attribute]} (no such anchor)")
    assert not dead, dead


@pages
def test_no_reference_is_left_open(name: str) -> None:
    text = article(name)
    prose = " ".join(part for part in text.find_all(string=True) if part.find_parent(["pre", "code", "script"]) is None)
    assert "??" not in prose
    assert not re.search(r"\{(?:ref|eq|numref|cite|cite:[tp]|prf:ref|glue(?::\w+)?|doc|term)\}", prose), "a role is shown as text"
    assert not text.select(".problematic, .system-message, .xref.missing")


@pages
def test_no_cell_failed_or_complained(name: str) -> None:
    text = article(name)
    for output in text.select(".cell_output .output.stderr, .cell_output .stderr"):
        pytest.fail(f"output on stderr: {output.get_text()[:500]}")
    for output in text.select(".cell_output"):
        assert "Traceback (most recent call last)" not in output.get_text(), output.get_text()[:500]
        shown = output.get_text().strip()
        assert not re.fullmatch(r"<[\w.]+ (?:object )?at 0x[0-9a-f]+>|<Axes: .*>|\[<matplotlib.*", shown), (
            f"a bare object is shown: {shown[:100]}"
        )


@pages
def test_every_picture_has_a_text(name: str) -> None:
    for image in article(name).find_all("img"):
        alt = str(image.get("alt", "")).strip()
        assert alt, f"no alt text: {image.get('src')}"
        assert not re.fullmatch(r"\S*(?:_images|\.png|\.svg)\S*", alt), f"the alt text is a file name: {alt}"


@pages
def test_every_cell_figure_is_numbered(name: str) -> None:
    for image in article(name).select(".cell_output img"):
        figure = image.find_parent("figure")
        assert figure is not None and figure.select_one("figcaption .caption-number"), (
            f"a figure without number and caption: {image.get('alt')}"
        )


@pages
def test_a_page_has_one_title_and_no_missing_level(name: str) -> None:
    levels = [int(tag.name[1]) for tag in article(name).find_all(re.compile("^h[1-6]$"))]
    assert levels[:1] == [1] and levels.count(1) == 1, "one title, and it comes first"
    assert all(below <= above + 1 for above, below in zip(levels, levels[1:], strict=False)), f"a heading level is left out: {levels}"


@pages
def test_a_notebook_can_be_downloaded(name: str) -> None:
    links = {str(link.get("href")) for link in page(HTML / f"{name}.html").select("a[class*=download-]")}
    suffixes = {Path(urlsplit(link).path).suffix for link in links}
    assert ".md" in suffixes
    computes = "```{code-cell}" in (ROOT / f"{name}.md").read_text(encoding="utf-8")
    assert (".ipynb" in suffixes) == computes, "a notebook, and only a notebook, is offered as .ipynb"


def test_the_book_can_be_searched() -> None:
    index = (HTML / "searchindex.js").read_text(encoding="utf-8")
    assert all(f'"{name}"' in index for name in contents())


def test_labels_are_used_once() -> None:
    seen: dict[str, str] = {}
    for name in contents():
        for tag in article(name).select("figure[id], .proof[id], table[id]"):
            label = str(tag["id"])
            if not re.fullmatch(r"(id|proof)[-\d]*", label):  # no name was given
                assert label not in seen, f"{label} is in {seen[label]} and in {name}"
                seen[label] = name
