"""How the book is built.

Pages without what they do not use, and notebooks to download.
"""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"
sys.path.insert(0, str(EXTENSIONS))

import downloads  # noqa: E402
import light_pages  # noqa: E402
import line_breaks  # noqa: E402
import pdf_link  # noqa: E402
import pictures  # noqa: E402
import prose_numbers  # noqa: E402
import side_bar  # noqa: E402
import table_cells  # noqa: E402

from study.figures.phone import KEY  # noqa: E402

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]
TABLE_OF_CONTENTS = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
MODULES = sorted(path.stem for path in EXTENSIONS.glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_module_is_an_extension_and_their_names_agree_with_what_they_change() -> None:
    assert set(MODULES) == set(CONFIG["local_extensions"])
    captions = [part["caption"] for part in TABLE_OF_CONTENTS["parts"]]
    assert set(side_bar.FOLDED) <= set(captions)
    assert pictures.PHONE == KEY


def test_the_pdf_is_linked_where_there_is_one(tmp_path: Path) -> None:
    page = tmp_path / "book" / "welcome.html"
    page.parent.mkdir()
    page.write_text(f"<p>a</p>{pdf_link.PLACE}", encoding="utf-8")
    pdf_link.offer(tmp_path, "book/welcome")
    assert pdf_link.PLACE in page.read_text(encoding="utf-8")
    (tmp_path / pdf_link.NAME).write_bytes(bytes(3_400_000))
    pdf_link.offer(tmp_path, "book/welcome")
    assert '<a href="../book.pdf">The whole book as a PDF</a> (3 MB)' in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("repository", "base"),
    [
        ("", ""),
        ("https://github.com/owner/name/", "https://owner.github.io/name/"),
        ("https://github.com/owner/owner.github.io", "https://owner.github.io/"),
        ("https://gitlab.com/owner/name", ""),
    ],
)
def test_the_book_has_the_address_of_its_repository_on_github(repository: str, base: str) -> None:
    config = {
        "html_theme_options": {"repository_url": repository},
        "html_baseurl": "",
        "ogp_site_url": "",
    }
    downloads.follow_the_address(None, config)
    assert config["html_baseurl"] == config["ogp_site_url"] == base
    assert config["html_theme_options"].get("use_repository_button", False) == bool(repository)


def test_a_sheet_keeps_the_rules_of_the_classes_that_are_there() -> None:
    sheet = (
        "@media print{.a,.gone:hover{x:1}.b:not(.gone){x:2}}.gone .a{x:3}p{x:4}"
        "@font-face{font-family:F}.c\\:d{x:5}"
    )
    assert light_pages.keep_what_is_used(sheet, {"a", "b", "c"}) == (
        "@media print{.a{x:1}.b:not(.gone){x:2}}p{x:4}@font-face{font-family:F}.c\\:d{x:5}"
    )


def test_a_full_stop_stays_with_the_formula_before_it() -> None:
    line = nodes.paragraph("", "", nodes.math("", "x"), nodes.Text("), with "))
    line += [nodes.math("", "y"), nodes.Text(" and "), nodes.math("", "z"), nodes.Text(".")]
    page = new_document("page")
    page += line
    line_breaks.keep_the_stop(None, page, "page")
    assert page.astext() == "x), with y and z."
    together = [part.astext() for part in page.findall(nodes.inline)]
    assert together == ["x),", "z."]


def test_parts_of_the_contents_fold_and_the_one_that_is_shown_is_open() -> None:
    caption = (
        '<p aria-level="2" class="caption" role="heading">'
        '<span class="caption-text">{}</span></p>\n'
    )
    contents = "".join(
        caption.format(name) + f"<ul{kind}><li><ul><li>{name}</li></ul></li></ul>\n"
        for name, kind in PARTS.items()
    )
    folded = BeautifulSoup(side_bar.fold(f"<nav>{HOME}{contents}</nav>"), "html.parser")
    shown = {
        part.summary.get_text(): (part.has_attr("open"), part.ul.get_text())
        for part in folded.select("nav > details")
    }
    assert shown == {"Why": (False, "Why"), "Reference": (True, "Reference")}
    assert [part.get_text() for part in folded.select("nav > p.caption")] == ["Start", "Samples"]
    assert [page.get_text() for page in folded.select("nav > ul:first-of-type > li")] == [
        "home",
        "Start",
    ]


HOME = '<ul class="nav bd-sidenav__home-link"><li>home</li></ul>'
PARTS = {"Start": "", "Why": ' class="nav"', "Samples": "", "Reference": ' class="current nav"'}


class Names:
    """Labels as they are."""

    title = number = proof = staticmethod("<{}>".format)
    equation = staticmethod("({})".format)

    @staticmethod
    def citation(keys: str, *, brackets: bool) -> str:
        return f"{keys} {brackets}"


def test_the_text_of_a_downloaded_notebook_is_markdown_that_jupyter_shows() -> None:
    myst = """(sec-a)=
# Title
See {ref}`sec-b`, {ref}`there <sec-c>`, [here](sec-d), [](sec-e),
[outside](https://a.b), {numref}`Table %s <tab-f>`, {eq}`eq-g`.

````{prf:theorem} Name
:label: thm-h

```{math}
:label: eq-i
a \\\\ b
```
````
:::{note}
{cite:t}`k` and {cite:p}`l`: {py:func}`~gdlib.functional.f`, {term}`word`
:::
"""
    expected = """# Title
See <sec-b>, there, here, <sec-e>,
[outside](https://a.b), Table <tab-f>, (eq-g).

**<thm-h> (Name).**

$$
\\begin{split}
a \\\\ b
\\end{split}
\\tag{eq-i}
$$
**Note**

k False and l True: `f`, word
"""
    assert downloads.readable(myst, Names()) == expected


def test_a_downloaded_notebook_is_executed_and_installs_what_it_needs(tmp_path: Path) -> None:
    """Its first cell finds a clone above it or fetches one.

    Where there is neither a clone nor an address, it says what to do.
    """
    source = nbformat.v4.new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        }
    )
    output = nbformat.v4.new_output("display_data", {"text/plain": "1"})
    asking = nbformat.v4.new_code_cell("2", metadata={"tags": ["remove-cell", prose_numbers.TAG]})
    source.cells = [
        nbformat.v4.new_markdown_cell("(sec-a)=\n# T"),
        nbformat.v4.new_code_cell("1", outputs=[output], execution_count=3),
        asking,
    ]
    setup = downloads.SETUP.format(title="T", repository="", folder="notebooks/theory")
    notebook = downloads.portable(source, Names(), setup, {"R": "x"})
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells] == [setup, "$\\newcommand{\\R}{x}$\n\n# T", "1"]
    assert notebook.cells[2].outputs == [output] and notebook.cells[2].execution_count == 3

    command = [sys.executable, "-c", f"{setup}\nprint(sys.path[0], os.getcwd(), sep=chr(10))"]
    here = subprocess.run(
        command, cwd=ROOT / "book", capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert here == [str(ROOT), str(ROOT / "notebooks" / "theory")]
    lost = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "write its address or path behind REPOSITORY" in lost.stderr
    project = tmp_path / "project"
    for folder in ("gdlib", "study", "notebooks/theory"):
        (project / folder).mkdir(parents=True)
        (project / folder / "a.py").touch()
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a"]):
        subprocess.run([*git, *arguments], check=True)
    command[2] = command[2].replace('REPOSITORY = ""', f'REPOSITORY = "{project}"')
    fetched = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert fetched == [
        str(tmp_path / "gdlib-book"),
        str(tmp_path / "gdlib-book" / "notebooks" / "theory"),
    ]


def test_a_downloaded_notebook_installs_the_versions_of_the_book(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("gdlib", "study", "notebooks/theory"):
        (tmp_path / folder).mkdir(parents=True)
    asked: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("subprocess.run", lambda command, **options: asked.append(command))
    setup = downloads.SETUP.format(title="T", repository="", folder="notebooks/theory")
    exec(setup, {})
    (command,) = asked
    assert command[-4:] == ["-c", str(tmp_path / "constraints.txt"), "-e", f"{tmp_path}[book]"]


def test_a_table_that_is_too_wide_for_a_phone_is_stacked_there_with_its_headers() -> None:
    assert table_cells.fits(
        [["a b", "ccc"], ["dd", "e"]], 5 * 8 + 2 * 10, 8, 10
    ) and not table_cells.fits([["abc"]], 33, 8, 10)
    frame = pd.DataFrame({"x": [1.5], "y": ["t"]}, index=pd.Index(["key"], name="name"))
    table = BeautifulSoup(table_cells.labelled(frame.to_html()), "html.parser").table
    assert table is not None and table["class"] == ["dataframe"]
    assert [
        (cell["data-label"], cell.get_text()) for cell in table.select("tbody *:is(th, td)")
    ] == [
        ("name", "key"),
        ("x", "1.5"),
        ("y", "t"),
    ]


def test_a_cell_keeps_its_header_below_two_rows_of_headers_and_beside_a_tall_cell() -> None:
    frame = pd.DataFrame(
        [[1, 2], [3, 4]],
        index=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")], names=["one", "two"]),
        columns=pd.MultiIndex.from_tuples([("t", "mean"), ("t", "std")]),
    )
    table = BeautifulSoup(table_cells.labelled(frame.to_html()), "html.parser").table
    assert table is not None
    found = [(cell["data-label"], cell.get_text()) for cell in table.select("tbody tr")[1]("td")]
    assert found == [("t mean", "3"), ("t std", "4")]
    assert table.select("tbody tr")[1].th["data-label"] == "two"
    wide = frame.rename(columns={"mean": "m" * 30}).to_html()
    table = BeautifulSoup(table_cells.labelled(wide), "html.parser").table
    assert table is not None and table["class"] == ["dataframe", "stacked"]
    again, key = table.select("tbody tr")[1]("th")
    assert again["class"] == ["again"] and (again.get_text(), key.get_text()) == ("a", "y")
