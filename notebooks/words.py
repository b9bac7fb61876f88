"""The prose of the pages: words that it does without, and how dense it is.

``python notebooks/words.py`` names the words of ``words.yml`` that stand on a page;
``python notebooks/words.py --measure [PAGE...]`` prints, page by page, the longest paragraph and
the mean length of a sentence, in words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
FIRST_PAGES = ("README.md", "book/welcome.md", "book/idea.md", "book/use-the-loss.md")
"""What a reader sees before any word of this book was defined."""
FOLDERS = ("book", "notebooks")
_FOR_WHO_BUILDS = "\n## Two commands"  # the rest of README.md

_FENCE = re.compile(r"\s*(`{3,}|:{3,}|~{3,})(.*)")
_NO_PROSE = re.compile(r"\{(code-cell|math|auto\w+|bibliography|toctree|image)\}")
_HEADER = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
_CAPTION = re.compile(r"^    caption: (?:\|\n((?:      .*\n|\n)+)|(.*)\n)", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_DISPLAY = re.compile(r"\$\$.*?\$\$", re.DOTALL)
_INLINE = re.compile(r"\$[^$\n]+\$")
_SHOWN = re.compile(r"\{[\w:]+\}`([^`<]+?) ?<[^`>]+>`")  # the text of a reference
_COMPUTED = re.compile(r"\{\{.*?\}\}", re.DOTALL)  # a number
_ROLE = re.compile(r"\{[\w:]+\}`[^`]*`")
_SPAN = re.compile(r"`[^`\n]+`")
_TABLE = re.compile(r"^\s*\|.*$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*(:{3,}|`{3,}|:[\w-]+:|\([\w-]+\)=|\{\.\w+\}).*$", re.MULTILINE)
# a sentence may begin with a formula or a name that is cited (x), or with the letter of a panel
_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*\[]*(?:[A-ZΑ-Ωβ0-9]|x\b|[a-z]\*\*))")
_SHORT = re.compile(r"\b(e\.g|i\.e|cf|eq|fig|sec|vs|et al)\.", re.IGNORECASE)


@dataclass(frozen=True)
class Word:
    """A word that a page does without."""

    word: re.Pattern[str]
    like: str
    instead: str
    first: bool  # on the first pages alone


def words() -> list[Word]:
    """Read the words of ``words.yml``."""
    listed = yaml.safe_load((ROOT / "notebooks" / "words.yml").read_text(encoding="utf-8"))
    return [
        Word(
            re.compile(one["word"], re.IGNORECASE | re.MULTILINE),
            one["like"],
            one["instead"],
            one.get("first", False),
        )
        for one in listed
    ]


def pages() -> list[Path]:
    """List the pages with prose: README.md, ``book/`` and ``notebooks/``."""
    inner = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md"))]
    return [ROOT / "README.md", *inner]


def paragraphs(text: str) -> list[str]:
    """Split a page into its paragraphs, without code, formulas, tables and directives.

    A number that is computed counts as a word, a reference as its text.
    """
    text = _without_code(_HEADER.sub("", text))
    for pattern, instead in (
        (_COMMENT, ""),
        (_DISPLAY, ""),
        (_SHOWN, r"\1"),
        (_COMPUTED, "0"),
        (_ROLE, "x"),
        (_INLINE, "x"),
        (_SPAN, "x"),
        (_TABLE, ""),
        (_DIRECTIVE, ""),
    ):
        text = pattern.sub(instead, text)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*] |\d+\. |#|: ))", text)
    joined = (" ".join(block.split()) for block in blocks)
    return [block for block in joined if re.search(r"\w", block)]


def _without_code(text: str) -> str:
    """Leave out what stands between fences, unless it is a directive that holds prose."""
    kept: list[str] = []
    fences: list[tuple[str, bool]] = []  # those that are open, and whether they hold prose
    for line in text.splitlines():
        fence = _FENCE.fullmatch(line)
        prose = all(holds for _, holds in fences)
        if not fence:
            if prose:
                kept.append(line)
            continue
        marks, rest = fence[1], fence[2].strip()
        if fences and not rest and marks.startswith(fences[-1][0]):
            fences.pop()
        elif prose:
            holds = rest.startswith("{") and not _NO_PROSE.match(rest)
            fences.append((marks, holds))
        kept.append("")
    return "\n".join(kept)


def captions(text: str) -> list[str]:
    """List the captions of a page's figures."""
    matches = (block or line for block, line in _CAPTION.findall(text))
    return [" ".join(caption.split()) for caption in matches]


def banned(path: Path) -> Iterator[str]:
    """Name each word of ``words.yml`` in the prose or the captions of a page."""
    text = path.read_text(encoding="utf-8")
    first = path.relative_to(ROOT).as_posix() in FIRST_PAGES
    for word in words():
        if word.first and not first:
            continue
        shown = text.partition(_FOR_WHO_BUILDS)[0] if word.first else text
        for paragraph in [*paragraphs(shown), *captions(shown)]:
            for match in word.word.finditer(paragraph):
                begin, end = max(match.start() - 30, 0), match.end() + 30
                yield (
                    f"{path.relative_to(ROOT)}: …{paragraph[begin:end]}…"
                    f" (for {word.like!r}: {word.instead})"
                )


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into its sentences."""
    return [one for one in _END.split(_SHORT.sub(r"\1", paragraph)) if re.search(r"\w", one)]


def measure(text: str) -> tuple[int, float]:
    """Count the words of the longest paragraph of a page, and those of a sentence in the mean."""
    prose = [one for one in paragraphs(text) if not one.startswith("#")]
    longest = max((len(one.split()) for one in prose), default=0)
    lengths = [len(one.split()) for paragraph in prose for one in sentences(paragraph)]
    return longest, sum(lengths) / max(len(lengths), 1)


def main(arguments: list[str]) -> int:
    """Check all pages, or measure some; an exit status."""
    if arguments[:1] == ["--measure"]:
        chosen = [Path(name).resolve() for name in arguments[1:]] or pages()
        for path in chosen:
            longest, mean = measure(path.read_text(encoding="utf-8"))
            print(f"{longest:5d} {mean:6.1f}  {path}")
        return 0
    faults = [line for path in pages() for line in banned(path)]
    print(*faults, sep="\n", end="\n" if faults else "")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
