"""The matrix of outcomes: a row for each claim, a column for each data set, the number of findings of each outcome in the cells."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from study import published
from study.criteria import Finding, Outcome
from study.tables.book import signed
from study.tables.runs import short
from study.verdicts import VERDICTS, Verdict

MARKS: Mapping[Outcome, str] = {"met": "✓", "contradicted": "✗", "unresolved": "○"}
"""The mark of each outcome of a finding."""

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "MNIST": ("relu-", "tanh-", "sigmoid-", "mnist"),
    "CIFAR-10": ("cifar10,",),
    "CIFAR-100": ("cifar100,",),
    "CIFAR-10, reduced": ("cifar10-jpeg,",),
    "Tiny-ImageNet, reduced": ("tiny-imagenet,",),
    "tables, time": ("",),
}
"""Data sets, and how the names of their variants begin."""

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Matrix:
    """The outcomes as HTML.

    Attributes:
        text: the table.
    """

    text: str

    def _repr_html_(self) -> str:
        return self.text


def summary(verdicts: Iterable[Verdict]) -> str:
    """Count the claims by their outcome, such as ``"1 supported, 2 unresolved"``."""
    found = Counter(verdict.verdict for verdict in verdicts)
    return ", ".join(f"{found[word]} {word}" for word in VERDICTS if found[word])


def counts(findings: Iterable[Finding]) -> dict[Outcome, int]:
    """Count the findings that decide by their outcome; what does not occur is left out."""
    found = Counter(finding.outcome for finding in findings if finding.decides)
    return {outcome: found[outcome] for outcome in MARKS if found[outcome]}


def matrix(verdicts: Sequence[Verdict], told: Mapping[str, Mapping[str, Any]], *, home: str = "../") -> Matrix:
    """Draw the matrix.

    Args:
        verdicts: the rows.
        told: for each claim its ``short`` form and the ``label`` of the page that shows it, as in ``book/findings.yml``; for one that is
            not there the ledger and its words.
        home: the way from the page to the root of the book.

    Returns:
        A table whose cells are links to the page that shows them. A cell under the mouse or with the focus lists its findings, each with
        its effect, the interval and the papers' own effect. On a phone each claim is one line.
    """
    by_column: list[dict[str, list[tuple[str, Finding]]]] = [{column: [] for column in _COLUMNS} for _ in verdicts]
    for verdict, columns in zip(verdicts, by_column, strict=True):
        for part in verdict.parts:
            for finding in part.deciding:
                columns[_column(finding.variant)].append((part.id, finding))
    shown = [column for column in _COLUMNS if any(columns[column] for columns in by_column)]
    head = "".join(f'<th scope="col">{column}</th>' for column in ("claim", "outcome", *shown))
    rows = []
    for verdict, columns in zip(verdicts, by_column, strict=True):
        entry = told.get(verdict.claim, {})  # none yet for a claim whose first runs are new
        address = home + _address(str(entry.get("label", "sec-claims")))
        short = str(entry.get("short", published.claims().claim[verdict.claim]))
        cells = "".join(_cell(f"{verdict.claim}, {column}", columns[column], address) for column in shown)
        name = f'<th scope="row"><a href="{address}">{html.escape(short)}</a> <small>{verdict.claim}</small></th>'
        outcome = f'<td><span class="word">{verdict.verdict}</span><span class="all">{_marks(verdict.deciding)}</span></td>'
        rows.append(f"<tr>{name}{outcome}{cells}</tr>")
    legend = ", ".join(f'<span class="{outcome}">{mark}</span> {outcome}' for outcome, mark in MARKS.items())
    caption = f"Findings that are {legend}; – not run. A finding is one comparison of a claim in one variant of the experiment."
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return Matrix(f'<table class="outcomes" id="tab-outcomes"><caption>{caption}</caption>{body}</table>')


def _cell(name: str, found: Sequence[tuple[str, Finding]], address: str) -> str:
    if not found:
        return '<td class="none">–<span class="visually-hidden"> not run</span></td>'
    lines = "".join(f"<span>{_line(part, finding)}</span>" for part, finding in found)
    hidden = f'<span class="visually-hidden">{html.escape(name)}: </span>'
    return f'<td><a href="{address}">{hidden}{_marks(finding for _, finding in found)}<span class="more">{lines}</span></a></td>'


def _marks(findings: Iterable[Finding]) -> str:
    """The marks with their counts; the words are for those who do not see them."""
    word = '<span class="visually-hidden"> {}</span>'
    found = counts(findings)
    return " ".join(f'<span class="{outcome}">{MARKS[outcome]}{count}{word.format(outcome)}</span>' for outcome, count in found.items())


def _line(part: str, finding: Finding) -> str:
    """One finding: the variant, what is compared, the effect with its interval, the papers' effect, the outcome."""
    effects = "; ".join(f"{leaf.text}: {leaf.difference:u}{f' (papers: {leaf.paper})' if leaf.paper else ''}" for leaf in finding.leaves())
    effects = signed(effects)
    mark = f'<span class="{finding.outcome}">{MARKS[finding.outcome]} {finding.outcome}</span>'
    return f"{mark} <b>{part}</b> {html.escape(short(finding.variant))}: {html.escape(effects)}"


def _column(variant: str) -> str:
    return next(column for column, beginnings in _COLUMNS.items() if variant.startswith(beginnings))


@cache
def _labels() -> Mapping[str, str]:
    """The page of every label of the book."""
    found = {}
    for path in sorted([*_ROOT.glob("book/*.md"), *_ROOT.glob("notebooks/*/*.md")]):
        page = path.relative_to(_ROOT).with_suffix(".html").as_posix()
        for label in re.findall(r"^\(([\w-]+)\)=$", path.read_text(encoding="utf-8"), re.MULTILINE):
            found[label] = f"{page}#{label}"
    return found


def _address(label: str) -> str:
    if label not in _labels():
        raise ValueError(f"no page has the label {label!r}")
    return _labels()[label]
