"""Numbers in prose: an expression has one meaning on its page, and one that is gone stops the build."""

from __future__ import annotations

import dis
import sys
from collections import Counter
from pathlib import Path

import jupytext
import pytest
from jinja2 import Environment, meta

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import prose  # noqa: E402

PAGES = sorted([*(ROOT / "notebooks").rglob("*.md"), *(ROOT / "book").glob("*.md")])
WITH_NUMBERS = [page for page in PAGES if prose.expressions(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_NUMBERS, ids=lambda page: page.stem)
def test_a_name_in_prose_gets_its_value_in_one_cell(page: Path) -> None:
    """Expressions see the variables as the last cell leaves them, so that a second value would be taken for the first."""
    text = page.read_text(encoding="utf-8")
    asked = " ".join(f"{{{{ {expression} }}}}" for expression in prose.expressions(text))
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
