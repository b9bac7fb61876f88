"""Sentences that a person wrote about the records as they were.

Those on a claim stand in its file, the answers to all in ``book/answers.yml``.

Each names what it was written for. Where the records do not give that any more it is not shown, and
a test names it. The numbers in double braces are :mod:`study.tables.prose`.
"""

from study import ROOT
from study.claims import Verdict, ledger
from study.tables import prose
from study.yaml_files import read_yaml


def written() -> dict[str, dict[str, str]]:
    """Read the answers as they stand in ``book/answers.yml``."""
    return dict(read_yaml(ROOT / "book" / "answers.yml"))


def finding(verdict: Verdict) -> str:
    """Fill the sentence on a claim with the mean differences of its findings.

    They are there by part and variant. Empty if any part has another outcome now, or has it in more
    variants or fewer.
    """
    written = ledger()[verdict.claim].found
    if written is None:
        return ""
    if (written.verdict, written.outcomes) != (verdict.verdict, verdict.outcomes):
        return ""
    means = {
        part.id: {
            finding.variant.short: finding.difference.mean
            for finding in part.findings
            if finding.difference
        }
        for part in verdict.parts
    }
    return prose.render(written.text, means)


def answers(numbers: object) -> dict[str, str]:
    """Fill the answers of the first page, in MyST; those that no longer hold are left out.

    Their numbers are the fields of what :func:`study.tables.measured.numbers` gives.
    """
    names = vars(numbers)
    return {
        question: prose.render(entry["answer"], names)
        for question, entry in written().items()
        if prose.holds(entry["holds"], names)
    }
