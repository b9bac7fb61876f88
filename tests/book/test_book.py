"""The built book: what it promises to a reader.

Every page is there, every link leads somewhere, no cell failed, every picture can be read aloud.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from bs4 import BeautifulSoup, Tag

from gdlib import functional, losses

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"

pytestmark = pytest.mark.skipif(
    not HTML.is_dir(),
    reason="the built pages were not tested: the book has not been built; `make book` builds it",
)


def contents() -> list[str]:
    """The pages of the table of contents, in order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))

    def files(entry: dict) -> list[str]:
        inner = [
            name
            for key in ("chapters", "sections", "parts")
            for child in entry.get(key, [])
            for name in files(child)
        ]
        return [entry["file"], *inner] if "file" in entry else inner

    return [toc["root"], *files(toc)]


@cache
def page(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path: Path) -> frozenset[str]:
    found = page(path).find_all(True)
    return frozenset(
        {str(tag["id"]) for tag in found if tag.has_attr("id")}
        | {str(tag["name"]) for tag in found if tag.name == "a" and tag.has_attr("name")}
    )


def article(name: str) -> Tag:
    """The text of a page, without navigation."""
    path = HTML / f"{name}.html"
    assert path.is_file(), f"the book has no page {name}"
    found = page(path).find("article")
    assert isinstance(found, Tag)
    return found


def source(name: str) -> str:
    return (ROOT / f"{name}.md").read_text(encoding="utf-8")


def test_the_table_of_contents_and_the_sources_agree() -> None:
    listed = contents()
    assert len(set(listed)) == len(listed)
    written = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for folder in ("book", "notebooks")
        for path in (ROOT / folder).rglob("*.md")
        if not any(part.startswith("_") for part in path.relative_to(ROOT).parts)
    }
    assert set(listed) == written, (
        f"only in the contents: {sorted(set(listed) - written)}; "
        f"only on disk: {sorted(written - set(listed))}"
    )


def test_the_first_page_is_reached_from_index() -> None:
    assert f"{contents()[0]}.html" in (HTML / "index.html").read_text(encoding="utf-8")


# -- what holds for every page: each of these yields what is wrong with one ------------------------


def is_old(name: str) -> Iterator[str]:
    """The copy of the source that the book carries is the source."""
    if (HTML / "_sources" / f"{name}.md").read_text(encoding="utf-8") != source(name):
        yield "the built page is old: `make book`"


ADDRESSES = {"a": "href", "img": "src", "link": "href", "script": "src", "source": "src"}
"""Tags that lead somewhere, and the attribute that says where."""


def leads_nowhere(name: str) -> Iterator[str]:
    here = HTML / f"{name}.html"
    for element in page(here).find_all(list(ADDRESSES)):
        attribute = ADDRESSES[element.name]
        if element.has_attr(attribute):
            address = urlsplit(str(element[attribute]))
            if address.scheme == "file":
                yield f"a path of one machine: {element[attribute]}"
            if address.scheme or address.netloc:
                continue
            target = (here.parent / unquote(address.path)).resolve() if address.path else here
            if not target.exists():
                yield str(element[attribute])
            elif (
                address.fragment
                and target.suffix == ".html"
                and unquote(address.fragment) not in anchors(target)
            ):
                yield f"{element[attribute]} (no such anchor)"


def read(text: Tag) -> Iterator[str]:
    """What a page says, without its code."""
    for part in text.children:
        if not isinstance(part, Tag):
            yield str(part)
        elif part.name not in ("pre", "code", "script"):
            yield from read(part)


def leaves_a_reference_open(name: str) -> Iterator[str]:
    text = article(name)
    prose = " ".join(read(text))
    if "??" in prose:
        yield "??"
    yield from re.findall(r"\{\{ .{0,40}", prose)
    yield from re.findall(r"\{(?:ref|eq|numref|cite|cite:[tp]|prf:ref|doc|term)\}.{0,40}", prose)
    yield from (
        str(tag)[:200] for tag in text.select(".problematic, .system-message, .xref.missing")
    )


def failed_or_complained(name: str) -> Iterator[str]:
    text = article(name)
    for output in text.select(".cell_output .output.stderr, .cell_output .stderr"):
        yield f"output on stderr: {output.get_text()[:500]}"
    for output in text.select(".cell_output"):
        shown = output.get_text().strip()
        if "Traceback (most recent call last)" in shown:
            yield shown[:500]
        if re.fullmatch(r"<[\w.]+ (?:object )?at 0x[0-9a-f]+>|<Axes: .*>|\[<matplotlib.*", shown):
            yield f"a bare object is shown: {shown[:100]}"


def has_a_picture_without_text(name: str) -> Iterator[str]:
    for image in article(name).find_all("img"):
        alt = str(image.get("alt", "")).strip()
        if not alt:
            yield f"no alt text: {image.get('src')}"
        if re.fullmatch(r"\S*(?:_images|\.png|\.svg)\S*", alt):
            yield f"the alt text is a file name: {alt}"


def has_a_figure_without_number(name: str) -> Iterator[str]:
    for image in article(name).select(".cell_output img"):
        figure = image.find_parent("figure")
        if figure is None or not figure.select_one("figcaption .caption-number"):
            yield f"a figure without number and caption: {image.get('alt')}"


def skips_a_heading(name: str) -> Iterator[str]:
    levels = [int(tag.name[1]) for tag in article(name).find_all(re.compile("^h[1-6]$"))]
    if levels[:1] != [1] or levels.count(1) != 1:
        yield "one title, and it comes first"
    if any(below > above + 1 for above, below in zip(levels, levels[1:], strict=False)):
        yield f"a heading level is left out: {levels}"


def offers_the_wrong_files(name: str) -> Iterator[str]:
    links = {
        str(link.get("href")) for link in page(HTML / f"{name}.html").select("a[class*=download-]")
    }
    suffixes = {Path(urlsplit(link).path).suffix for link in links}
    if ".md" not in suffixes:
        yield "its source is not offered"
    if (".ipynb" in suffixes) != ("```{code-cell}" in source(name)):
        yield "a notebook, and only a notebook, is offered as .ipynb"


WRONG = (
    is_old,
    leads_nowhere,
    leaves_a_reference_open,
    failed_or_complained,
    has_a_picture_without_text,
    has_a_figure_without_number,
    skips_a_heading,
    offers_the_wrong_files,
)


def test_no_page_has_a_fault(subtests: pytest.Subtests) -> None:
    """One test, since reading the pages takes longer than looking at them."""
    for wrong in WRONG:
        with subtests.test(wrong.__name__):
            found = {name: list(wrong(name)) for name in contents()}
            told = [f"{name}: {text}" for name, texts in found.items() for text in texts]
            assert not told, "\n".join(told)


# --------------------------------------------------------------------------------------------------


def test_the_book_can_be_searched() -> None:
    index = (HTML / "searchindex.js").read_text(encoding="utf-8")
    assert all(f'"{name}"' in index for name in contents())


def test_every_function_and_module_of_the_losses_is_in_the_api() -> None:
    public = {
        "functional": [
            name for name, value in vars(functional).items() if inspect.isfunction(value)
        ],
        "losses": losses.__all__,
    }
    for module, names in public.items():
        shown = {str(tag["id"]) for tag in article(f"book/api/{module}").select("dt[id]")}
        assert {f"gdlib.{module}.{name}" for name in names} <= shown


def test_pages_have_the_form_that_the_extensions_give_them() -> None:
    """Headers beside cells, pictures for phones."""
    pages = [article(name) for name in contents()]
    for form in ("td[data-label]", "img.for-phones"):
        assert any(text.select(form) for text in pages), form


def test_labels_are_used_once() -> None:
    seen: dict[str, str] = {}
    for name in contents():
        for tag in article(name).select("figure[id], .proof[id], table[id]"):
            label = str(tag["id"])
            if not re.fullmatch(r"(id|proof)[-\d]*", label):  # no name was given
                assert label not in seen, f"{label} is in {seen[label]} and in {name}"
                seen[label] = name
