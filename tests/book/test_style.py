"""The prose of the pages: words that it does without, and how it is measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from study import ROOT


@pytest.fixture(scope="module")
def words() -> ModuleType:
    """The script, which is in no package."""
    spec = importlib.util.spec_from_file_location(
        "notebooks_words", ROOT / "notebooks" / "words.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["notebooks_words"] = module
    spec.loader.exec_module(module)
    return module


PAGE = """\
---
kernelspec:
  name: beyond the noise
---

(sec-x)=
# A heading

```{code-cell} ipython3
cannot = "beyond the noise"
```

A {ref}`shown text <sec-y>` and {{ a_number }} points. *Two* sentences, e.g. this one.

```{prf:theorem} A name
:label: t

Its confidence less accuracy is $a - b$.
```

```bash
echo "cannot tell"
```

| a | cannot tell |
|---|---|

- One item.
- Another `beyond the noise` item,
  which goes on.
"""


def test_prose_is_what_a_reader_reads(words: ModuleType) -> None:
    assert words.paragraphs(PAGE) == [
        "# A heading",
        "A shown text and 0 points. *Two* sentences, e.g. this one.",
        "Its confidence less accuracy is x.",
        "- One item.",
        "- Another x item, which goes on.",
    ]


def test_a_page_is_measured_in_words(words: ModuleType) -> None:
    longest, mean = words.measure(PAGE)
    assert longest == 11
    assert mean == pytest.approx((6 + 5 + 6 + 3 + 7) / 5)


def test_every_word_finds_what_it_is_like(words: ModuleType) -> None:
    for word in words.words():
        assert word.word.search(word.like), word.like
        assert not word.word.search(word.instead), f"{word.like} is replaced by itself"


def test_a_word_is_named_with_its_page(
    words: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = words.words()
    monkeypatch.setattr(words, "words", lambda: listed)
    monkeypatch.setattr(words, "ROOT", tmp_path)
    first = tmp_path / "README.md"
    first.write_text("A finding.\n\n## Two commands\n\nA finding.\n", encoding="utf-8")
    (found,) = words.banned(first)
    assert found.startswith("README.md: …A finding.…")
    later = tmp_path / "later.md"
    later.write_text(PAGE + "\nA finding.\n", encoding="utf-8")
    (found,) = words.banned(later)
    assert "confidence less accuracy" in found


def test_the_pages_do_without_these_words(words: ModuleType) -> None:
    assert [line for path in words.pages() for line in words.banned(path)] == []


def test_a_sentence_may_begin_with_a_formula_or_with_the_letter_of_a_panel(
    words: ModuleType,
) -> None:
    (paragraph,) = words.paragraphs("It holds. $G$ falls, e.g. here. **a** One curve. **b** Two.")
    assert len(words.sentences(paragraph)) == 4
