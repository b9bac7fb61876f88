"""Texts of files in a page of the book: twenty payloads, and no script comes out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml
from bs4 import BeautifulSoup, Tag

from study.figures.table import table, verbatim

ROOT = Path(__file__).resolve().parents[2]

PAYLOADS = [
    r"\`<script>alert(1)</script>\`",
    "<script>alert(1)</script>",
    "``a`<script>alert(1)</script>`b``<script>alert(1)</script>",
    "` <script>alert(1)</script> `` x",
    "$ a <script>alert(1)</script> $",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](<javascript:alert(1)>)",
    "![x](javascript:alert(1))",
    "<javascript:alert(1)>",
    "[x]: javascript:alert(1)",
    r"$\href{javascript:alert(1)}{x}$",
    r"$$\href{javascript:alert(1)}{x}$$",
    "{raw}`<script>alert(1)</script>`",
    "{glue:text}`cost-minutes` {ref}`x <javascript:alert(1)>`",
    "```{raw} html\n<script>alert(1)</script>\n```",
    ":::{raw} html\n<script>alert(1)</script>\n:::",
    "<!-- --!><script>alert(1)</script> -->",
    "{{ 7 * 191 }} {{ env.__class__ }}",
    "&lt;script&gt; &#36; &amp;lt;script&amp;gt;",
    "| cell | <iframe srcdoc='<script>alert(1)</script>'></iframe> |",
    "+++\n(target)=\n% comment\n***\n1. one\n- two\n# title",
    "{.class onclick=alert(1)} [x]{onclick=alert(1) href='javascript:alert(1)'}",
]


def title(number: int) -> str:
    """A payload between two marks, by which its cell is found."""
    return f"A{number}A {PAYLOADS[number]} Z{number}Z"


def letters(text: str) -> str:
    """A text without white space and without what Sphinx sets nicer.

    Quotes, dashes, dots, and a backslash before them.
    """
    return re.sub(r"[\s\\\\'\"‘’“”–—.…-]", "", text)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    """A page with the parser and the settings of the book.

    The payloads as titles, as devices, and in bare cells.
    """
    folder = tmp_path_factory.mktemp("payloads")
    shown = [
        table(
            pd.DataFrame({"title": [verbatim(title(number)) for number in range(len(PAYLOADS))]}),
            "tab-titles",
            verbatim(title(0)),
        ),
        table(
            pd.DataFrame({"device": [verbatim(payload) for payload in PAYLOADS]}),
            "tab-devices",
            "Devices.",
        ),
        table(pd.DataFrame({"bare": PAYLOADS}), "tab-bare", PAYLOADS[0]),
    ]
    texts = [
        *(one._repr_markdown_() for one in shown),
        *(verbatim(payload) for payload in PAYLOADS),
    ]
    outputs = [nbformat.v4.new_output("display_data", {"text/markdown": text}) for text in texts]
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Page"),
            nbformat.v4.new_code_cell("1", outputs=outputs, execution_count=1),
        ],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        },
    )
    book = folder / "book"
    book.mkdir()
    nbformat.write(notebook, book / "index.ipynb")
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    own = settings["sphinx"]["config"]
    kept = {name: own[name] for name in own if name.startswith(("myst_", "nb_"))}
    (book / "_config.yml").write_text(
        yaml.safe_dump(
            {
                "title": "Payloads",
                "parse": settings["parse"],
                "execute": {"execute_notebooks": "off"},
                "sphinx": {"config": kept},
            }
        )
    )
    (book / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    build = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", build, "build", "."]
    subprocess.run(command, cwd=book, capture_output=True, text=True, check=True, timeout=300)
    html = (book / "_build" / "html" / "index.html").read_text(encoding="utf-8")
    article = BeautifulSoup(html, "html.parser").select_one("section#page")
    assert article is not None
    return article


def test_no_payload_brings_a_script_an_event_or_a_javascript_link_into_a_page(page: Tag) -> None:
    assert not page.select("script, iframe, svg, object, embed, form")
    for element in page.find_all(True):
        for name, value in element.attrs.items():
            assert not name.startswith("on"), f"{element.name} has {name}={value}"
            link = str(value).strip().lower()
            assert not link.startswith("javascript:"), f"{element.name} has {name}={value}"


def test_a_text_of_a_file_stands_in_a_page_letter_by_letter(page: Tag) -> None:
    titles = [cell.get_text() for cell in page.select("#tab-titles tbody td")]
    wanted = [title(number) for number in range(len(PAYLOADS))]
    assert sorted(map(letters, titles)) == sorted(map(letters, wanted))
    devices = [cell.get_text() for cell in page.select("#tab-devices tbody td")]
    alone = [text.get_text() for text in page.select(".cell_output > p, .output > p")]
    for shown in (devices, alone):
        assert list(map(letters, shown)) == list(map(letters, PAYLOADS))


def test_no_payload_is_a_formula_a_role_or_a_template(page: Tag) -> None:
    for name in ("#tab-titles", "#tab-devices"):
        for cell in page.select(f"{name} tbody td"):
            assert not cell.select(".math, code, a, img, ol, ul, hr, .xref")
    assert "1337" not in page.get_text()
