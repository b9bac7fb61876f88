"""The letters of the theory pages' formulas, and those that the glossary has."""

from __future__ import annotations

import re
from pathlib import Path

from study import ROOT

THEORY = ROOT / "notebooks" / "theory"
GLOSSARY = ROOT / "book" / "glossary.md"

PAGES = sorted(THEORY.glob("*.md"))

GREEK = frozenset(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho varrho "
    "sigma tau varphi phi psi chi omega ell Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega".split()
)
NO_LETTERS = (
    r"\\(?:text|mathrm|operatorname|mathbb|mathbf|mathsf|begin|end|label|mbox)"
    r"\*?\s*(?:\{[^}]*\}|\w)"
)
ACCENTS = r"\\(?:tilde|bar|dot|overline|hat)\b"


def formulas(text: str) -> list[str]:
    """The formulas of a page, without its cells."""
    text = re.sub(r"^```\{code-cell\}.*?^```\s*$", "", text, flags=re.M | re.S)
    display = r"^\s*```\{math\}\n(.*?)^\s*```"
    found = re.findall(display, text, flags=re.M | re.S)
    text = re.sub(display, "", text, flags=re.M | re.S)
    found += re.findall(r"\$\$(.*?)\$\$", text, flags=re.S)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.S)
    found += re.findall(r"\$([^$]+)\$", re.sub(r"`[^`\n]*`", "", text))
    return [re.sub(r"^\s*:label:.*$", "", formula, flags=re.M) for formula in found]


def letters(formula: str) -> set[str]:
    r"""The letters of a formula; of those with an accent only ``\hat\rho`` is one of its own."""
    formula = re.sub(NO_LETTERS, " ", formula)
    found = set(re.findall(r"\\mathcal\s*\{?[A-Z]", formula))
    formula = re.sub(r"\\mathcal\s*\{?[A-Z]\}?", " ", formula)
    if re.search(r"\\hat\s*\{?\\rho", formula):
        found.add(r"\hat\rho")
        formula = re.sub(r"\\hat\s*\{?\\rho", " ", formula)
    formula = re.sub(ACCENTS, " ", formula)
    names = re.findall(r"\\([A-Za-z]+)", formula)
    found |= {rf"\{name}" for name in names if name in GREEK}
    rest = re.sub(r"\\[A-Za-z]+", " ", formula)
    rest = re.sub(r"\b[Oo](?=\s*\()", " ", rest)  # Landau's
    return found | set(re.findall(r"[A-Za-z]", rest))


def of_page(path: Path) -> set[str]:
    return set().union(*map(letters, formulas(path.read_text(encoding="utf-8"))))


def labels() -> dict[str, str]:
    """The page of each label."""
    return {
        label: path.stem
        for path in PAGES
        for label in re.findall(r"^\(([\w-]+)\)=$", path.read_text(encoding="utf-8"), flags=re.M)
    }


def table() -> list[tuple[set[str], set[str]]]:
    """Letters and pages of each row of the glossary's table of letters."""
    text = GLOSSARY.read_text(encoding="utf-8").split("## Letters")[1]
    rows = re.split(r"^\|---.*$", text, flags=re.M)[1]
    page_of = labels()
    found = []
    for line in rows.splitlines():
        if not line.startswith("| $"):
            continue
        # a bar in a formula is no border of a cell
        first = re.split(r"(?<!\\)\s\|\s", line.removeprefix("| "))[0]
        named = re.findall(r"\{ref\}`(?:[^`<]*<)?([\w-]+)>?`", line)
        found.append((letters_of_cell(first), {page_of[label] for label in named}))
    return found


def letters_of_cell(cell: str) -> set[str]:
    """Without subscripts."""
    plain = (re.sub(r"_(\w|\{[^}]*\})", "", one) for one in re.findall(r"\$([^$]+)\$", cell))
    return set().union(*map(letters, plain))


def test_formulas_and_letters_are_found() -> None:
    text = (
        "a $x_n + \\hat\\rho$ and\n"
        "```{math}\n:label: eq-z\n\\mathcal W \\leq \\mathrm{Var}_q\n```\n"
    )
    found = set().union(*map(letters, formulas(text)))
    assert found == {"x", "n", r"\hat\rho", r"\mathcal W", "q"}
    assert len(PAGES) >= 12
    assert {"L", r"\gamma", "V"} <= of_page(THEORY / "margin.md")


def test_the_pages_of_a_letter_use_it() -> None:
    used = {path.stem: of_page(path) for path in PAGES}
    rows = table()
    wrong = [
        f"{page}: {sorted(names)}"
        for names, pages in rows
        for page in pages
        if not names & used[page]
    ]
    assert len(rows) >= 10
    assert not wrong, wrong


def test_letters_that_look_alike_do_not_share_a_page() -> None:
    for path in PAGES:
        found = of_page(path)
        for pair in ({r"\epsilon", r"\varepsilon"}, {r"\phi", r"\varphi"}):
            assert not pair <= found, (path.stem, pair)
