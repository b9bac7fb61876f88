"""Sentences that a person wrote about the records as they were.

Those on a claim stand in its file, the answers to all in ``book/answers.yml``.

Each names what it was written for. Where the records do not give that any more it is not shown, and
a test names it. A number in double braces is computed from the records (a Jinja expression).
"""

from collections.abc import Mapping
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from study import ROOT
from study.claims import Verdict, ledger
from study.statistics import Interval
from study.tables.book import signed
from study.tables.runs import short


def shown(value: Any) -> Any:
    """Write a number with one digit, and of several the smallest and the largest; a text stays as it is.

    Example:
        >>> shown([1.26, 2.0, -1.0]), shown([22.04, 38.0]), shown(-0.5), shown(Interval(1.0, 0.5, 1.5)), shown("a")
        ('−1.0 to +2.0', '22.0–38.0', '−0.5', '+1.0 [+0.5, +1.5]', 'a')
    """
    if isinstance(value, Interval):
        return signed(f"{value:+.1f}")
    if isinstance(value, list):
        signs = "+" if min(value) < 0 else ""
        return signed(
            (" to " if signs else "–").join(
                dict.fromkeys(f"{end:{signs}.1f}" for end in (min(value), max(value)))
            )
        )
    return signed(f"{value:.1f}") if isinstance(value, float) else value


_JINJA = Environment(undefined=StrictUndefined, finalize=shown)


def written() -> dict[str, dict[str, str]]:
    """Read the answers as they stand in ``book/answers.yml``."""
    return dict(yaml.safe_load((ROOT / "book" / "answers.yml").read_text(encoding="utf-8")))


def finding(verdict: Verdict) -> str:
    """Fill the sentence on a claim with the mean differences of its findings.

    They are there by part and variant. Empty if the claim has another outcome now.
    """
    found = ledger()[verdict.claim].found
    if found is None or found.verdict != verdict.verdict:
        return ""
    means = {
        part.id: {
            short(finding.variant): finding.difference.mean
            for finding in part.findings
            if finding.difference
        }
        for part in verdict.parts
    }
    return _JINJA.from_string(found.text).render(means)


def answers(numbers: Mapping[str, Any]) -> dict[str, str]:
    """Fill the answers of the first page, in MyST, with :func:`study.tables.measured.numbers`; those that no longer hold are left out."""
    entries = {
        question: entry
        for question, entry in written().items()
        if _JINJA.compile_expression(entry["holds"])(**numbers)
    }
    return {
        question: _JINJA.from_string(entry["answer"]).render(**numbers)
        for question, entry in entries.items()
    }
