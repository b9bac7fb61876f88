"""Words that the prose of the pages does without, each with what to write instead."""

from __future__ import annotations

import re

import pytest

from study import ROOT

FIRST_PAGES = ("README.md", "book/welcome.md", "book/idea.md", "book/use-the-loss.md")
"""What a reader sees before any word of this book was defined."""
EVERYWHERE = {
    r"\b(accuracy|confidence|error|share|mean) less (the|that|accuracy|confidence|β)\b": "minus",
    r"\bpoints? less\b(?! than)": "points behind",
    r"\b(beyond|within|out of|above) the (seed )?noise\b": "say where the interval lies",
    r"\bcannot (tell|be told)\b|\bnot told (apart )?from\b": "open",
    r"^(\*\*\w[^*]*\*\*)? ?It depends\b": "the answer for the case that most readers have",
    r"\bsuch (a|an) (step|thing)s?\b": "name it again",
    r"\bprimary part\b|\bolder runs\b|\bnarrowings?\b": "the word is gone",
}
ON_FIRST_PAGES = {
    r"\bfindings?\b": "comparison",
    r"\b(stacks?|stacked)\b": "runs that are trained together",
    r"\bcampaigns?\b": "all runs of a table",
    r"\bfrom the records\b|\ba record\b|\brecords are\b": "what was measured",
}
_CODE = re.compile(r"^(`{3,})\{?[\w-]*\}?.*?^\1[ ]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
PAGES = [
    ROOT / "README.md",
    *sorted(path for folder in ("book", "notebooks") for path in (ROOT / folder).rglob("*.md")),
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_does_without_these_words(path) -> None:
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    banned = EVERYWHERE | (ON_FIRST_PAGES if name in FIRST_PAGES else {})
    prose = _CODE.sub("", text.partition("\n## Two commands")[0])
    found = {
        match[0]: instead
        for word, instead in banned.items()
        for match in re.finditer(word, prose, re.IGNORECASE | re.MULTILINE)
    }
    assert not found, f"in {name}, write instead: {found}"
