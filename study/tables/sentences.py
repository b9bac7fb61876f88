"""Sentences that a person wrote about the records as they were: ``book/findings.yml`` on the claims, ``book/answers.yml`` for all.

Each names what it was written for. Where the records do not give that any more it is not shown, and
a test names it. A number in double braces is computed from the records (a Jinja expression).
"""

from collections.abc import Mapping
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined

from study import ROOT
from study.statistics import Interval
from study.tables.book import signed
from study.tables.runs import short
from study.verdicts import Verdict


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


def written(name: str) -> dict[str, dict[str, str]]:
    """Read ``"findings"`` or ``"answers"`` as they stand in the file."""
    content = (ROOT / "book" / f"{name}.yml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(content))


def finding(verdict: Verdict) -> str:
    """Fill the sentence on a claim with the mean differences of its findings, by part and variant; empty if it has another outcome now."""
    entry = written("findings").get(verdict.claim, {})
    if entry.get("verdict") != verdict.verdict:
        return ""
    means = {
        part.id: {
            short(found.variant): found.difference.mean
            for found in part.findings
            if found.difference
        }
        for part in verdict.parts
    }
    return _JINJA.from_string(entry["found"]).render(means)


def answers(numbers: Mapping[str, Any]) -> dict[str, str]:
    """Fill the answers of the first page, in MyST, with :func:`study.tables.measured.numbers`; those that no longer hold are left out."""
    entries = {
        question: entry
        for question, entry in written("answers").items()
        if _JINJA.compile_expression(entry["holds"])(**numbers)
    }
    return {
        question: _JINJA.from_string(entry["answer"]).render(**numbers)
        for question, entry in entries.items()
    }
