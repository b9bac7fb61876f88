"""Numbers in prose.

An expression has one meaning on its page, and one that is gone stops the build.
"""

from __future__ import annotations

import dis
import sys
from collections import Counter
from pathlib import Path

import jupytext
import pytest
from jinja2 import Environment, meta
from myst_nb.core.read import read_myst_markdown_notebook
from nbformat import NotebookNode
from nbformat.v4 import new_output
from sphinx.errors import ExtensionError

from study import prose as numbers
from study.figures.table import verbatim

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import prose_numbers  # noqa: E402

PAGES = sorted([*(ROOT / "notebooks").rglob("*.md"), *(ROOT / "book").glob("*.md")])
WITH_NUMBERS = [
    page for page in PAGES if prose_numbers.expressions(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", WITH_NUMBERS, ids=lambda page: page.stem)
def test_a_name_in_prose_gets_its_value_in_one_cell(page: Path) -> None:
    """Expressions see the variables as the last cell leaves them.

    A second value would be taken for the first.
    """
    text = page.read_text(encoding="utf-8")
    asked = " ".join(f"{{{{ {expression} }}}}" for expression in prose_numbers.expressions(text))
    names = meta.find_undeclared_variables(Environment().parse(asked))
    times: Counter[str] = Counter()
    for cell in jupytext.read(page).cells:
        if cell.cell_type == "code":
            code = compile(cell.source.partition("---\n---")[2] or cell.source, "cell", "exec")
            times.update(
                {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_NAME"}
            )
    assert names
    assert {name: times[name] for name in names} == dict.fromkeys(names, 1)


def test_no_page_glues() -> None:
    assert not [page for page in PAGES if "glue" in page.read_text(encoding="utf-8")]


TEXT = """# Page

β is {{ beta }}, the ratio {{ ratio | format(".2f") }}.

```{code-cell} ipython3
beta, text = 0.1, "{{ beta }}"
```

Again {{ beta }}.
"""


def executed(names: dict[str, object], text: str, monkeypatch: pytest.MonkeyPatch) -> NotebookNode:
    """The notebook of a page whose last cell ran with these variables."""
    shown: list[dict[str, object]] = []
    monkeypatch.setattr(numbers, "display", lambda data, raw: shown.append(data))
    numbers.publish(names, prose_numbers.expressions(text))
    notebook = read_myst_markdown_notebook(prose_numbers.asking(text))
    notebook.cells[-1].outputs = [new_output("display_data", shown[0])]
    return notebook


def filled(names: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> str:
    """The text of the page as Sphinx reads it."""
    notebook = executed(names, TEXT, monkeypatch)
    monkeypatch.setattr(prose_numbers, "read", lambda env, docname, text: notebook)
    monkeypatch.setattr(prose_numbers, "from_cache", lambda env, notebook: notebook)
    return prose_numbers.filled(None, "a/page", TEXT)


def test_numbers_take_the_place_of_their_expressions_and_code_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = filled({"beta": 0.1, "ratio": 2.0}, monkeypatch)
    assert "β is 0.1, the ratio 2.00." in text
    assert "Again 0.1." in text
    assert 'beta, text = 0.1, "{{ beta }}"' in text
    cells = read_myst_markdown_notebook(text).cells
    assert (
        cells[-1].source == read_myst_markdown_notebook(prose_numbers.asking(TEXT)).cells[-1].source
    )
    assert cells[-1].metadata.tags == ["remove-cell", prose_numbers.TAG]


@pytest.mark.parametrize(
    "names, told",
    [
        ({"beta": 0.1}, "{{ ratio | format(\".2f\") }}: UndefinedError: 'ratio' is undefined"),
        ({"beta": float("nan"), "ratio": 1.0}, "{{ beta }}: Missing: the number is nan"),
        ({"beta": None, "ratio": 1.0}, "{{ beta }}: Missing: NoneType is no number; got None"),
        ({"beta": "–", "ratio": 1.0}, "{{ beta }}: Missing: it is empty"),
        ({"beta": [], "ratio": 1.0}, "{{ beta }}: Missing: there are no numbers"),
    ],
)
def test_a_number_that_is_gone_stops_the_build_with_page_and_expression(
    names: dict[str, object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ExtensionError, match="a/page: numbers of the prose are missing") as error:
        filled(names, monkeypatch)
    assert told in str(error.value)


def test_a_text_from_a_record_is_shown_letter_by_letter() -> None:
    assert numbers.render("{{ text }}", {"text": "<script>`x`"}) == verbatim("<script>`x`")
    text = "5 (CIFAR-10, unaugmented)"
    assert numbers.render("{{ text }}", {"text": text}) == text


def test_pages_publish_what_the_extension_looks_for() -> None:
    """The extension does not import ``study``, which is not installed where the book is built."""
    assert prose_numbers.MIME == numbers.MIME
