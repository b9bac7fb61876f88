"""Outcomes with their scale, effects beside the papers' own, and the matrix.

The matrix has a row for each claim and a column for each data set.
"""

import html
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from IPython.display import HTML

from study import ROOT, claims, published
from study.claims import OWN, VERDICTS, Finding, Outcome, VariantRuns, Verdict
from study.claims.meaning import ask
from study.claims.verdicts import counts
from study.tables.book import MISSING, signed
from study.variants import Variant

MARKS: Mapping[Outcome, str] = {"met": "✓", "contradicted": "✗", "unresolved": "○"}
"""The mark of each outcome of a finding."""
SCALES: Mapping[str, str] = {"paper": "the papers' scale", "reduced": "reduced runs"}
"""What the scales of the records are called in a sentence."""
_SHORT_SCALES = {"paper": "papers' scale", "reduced": "reduced"}

_DATA: Mapping[str, str] = {
    "mnist": "MNIST",
    "cifar10": "CIFAR-10, small network",
    "cifar100": "CIFAR-100, small network",
    "cifar10-jpeg": "CIFAR-10, few images",
    "tiny-imagenet": "Tiny-ImageNet, few images",
}
_OTHERS = "small tables, cost"
_COLUMNS = (*_DATA.values(), _OTHERS)
"""The columns of the matrix, by the data sets of the variants."""

_WORDS = (
    "none",
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)


def scale(verdict: Verdict) -> str:
    """Name the scale of the runs behind a claim in words; empty without runs."""
    return " and ".join(SCALES[name] for name in verdict.scales)


def summary(verdicts: Iterable[Verdict]) -> str:
    """Count the claims by their outcome, such as ``"1 supported, 4 unresolved"``."""
    counted = Counter(verdict.verdict for verdict in verdicts)
    return ", ".join(f"{counted[word]} {word}" for word in VERDICTS if counted[word])


def tally(verdicts: Iterable[Verdict]) -> str:
    """Say how many claims have which outcome, a sentence each.

    Example: ``"Four are supported, and one more in part. Two are contradicted."``
    """
    counted = Counter(verdict.verdict for verdict in verdicts)
    supported, partly = counted["supported"], counted["partly supported"]
    said = []
    if supported:
        in_part = f", and {_number(partly)} more in part" if partly else ""
        said.append(f"{_number(supported)} {_be(supported)} supported{in_part}")
    elif partly:
        said.append(f"{_number(partly)} {_be(partly)} supported in part")
    if mixed := counted["mixed"]:
        hold, fail = ("holds", "fails") if mixed == 1 else ("hold", "fail")
        said.append(f"{_number(mixed)} {hold} in some variants and {fail} in others")
    if against := counted["contradicted"]:
        said.append(f"{_number(against)} {_be(against)} contradicted")
    if still := counted["unresolved"]:
        said.append(f"{_number(still)} {'stays' if still == 1 else 'stay'} open")
    if outside := counted["outside the premise"]:
        was, is_decided = ("was", "it is") if outside == 1 else ("were", "they are")
        said.append(
            f"{_number(outside)} {was} run only with networks that have not learnt their training"
            f" images, where by our rule {is_decided} not decided"
        )
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in said)


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _number(count: int) -> str:
    """Write a count in words, up to twenty."""
    return _WORDS[count] if count < len(_WORDS) else str(count)


def is_own(verdict: Verdict) -> bool:
    """Tell a claim of this project from one of the papers."""
    return claims.ledger()[verdict.claim].paper == OWN


def beside(verdict: Verdict) -> Verdict:
    """Give findings that lack an effect of the papers one.

    That effect is what the rule of their part finds in the table that the claim is about. The
    table's data set is named where it is one, and another than the finding's.
    """
    if not claims.ledger()[verdict.claim].table:
        return verdict

    def filled(finding: Finding, printed: Iterator[published.Effect]) -> Finding:
        paper = finding.paper
        if finding.difference and not paper:
            here = published.named(finding.variant.data, finding.variant.augmented)
            paper = tuple(
                replace(effect, elsewhere=effect.elsewhere if effect.elsewhere != here else "")
                for effect in itertools.islice(printed, 1)
            )
        return replace(
            finding,
            paper=paper,
            findings=tuple(filled(one, printed) for one in finding.findings),
        )

    parts = [
        replace(
            part, findings=tuple(filled(one, _own(verdict.claim, part.id)) for one in part.findings)
        )
        for part in verdict.parts
    ]
    return replace(verdict, parts=tuple(parts))


def _own(claim: str, part: str) -> Iterator[published.Effect]:
    """List the papers' own effects in the comparisons of a part, with the table's data set.

    The part's rule takes the printed numbers for runs.
    """
    source = claims.ledger()[claim].table
    printed = claims.printed_runs(source)
    rows = VariantRuns(Variant(), printed, seeds=1, unit="dataset", printed=True)
    names = printed["dataset"].unique()
    dataset = str(names[0]) if len(names) == 1 else ""
    finding = ask(claims.ledger()[claim].parts[part], rows)
    for one in finding.comparisons() if finding else ():
        if one.difference:
            mean = round(one.difference.mean, 4)
            yield published.Effect(source, dataset, mean, mean)


def matrix(verdicts: Sequence[Verdict], first: Sequence[str] = ()) -> HTML:
    """Draw the matrix of some claims, for a page in a folder of the book.

    Its cells are links to the page that shows the claim, as its file says; the ledger, if it does
    not. A cell under the mouse or with the focus lists its findings, each with its effect, the
    interval and the papers' own effect. On a phone each claim is one line.

    Args:
        verdicts: those to show.
        first: claims that are seen at once; the others are closed, and open with a click. Without
            them all are seen.
    """
    if not first:
        return HTML(_table(verdicts, "tab-outcomes", _legend()))
    by_claim = {verdict.claim: verdict for verdict in verdicts}
    opened = [by_claim.pop(claim) for claim in first if claim in by_claim]
    text = _table(opened, "tab-outcomes", _legend())
    if by_claim:
        summary = f"<summary>The other claims ({len(by_claim)})</summary>"
        title = '<span class="visually-hidden">The other claims</span>'
        others = _table(list(by_claim.values()), "tab-outcomes-others", title)
        text += f'<details class="outcomes">{summary}{others}</details>'
    return HTML(text)


def _legend() -> str:
    marks = ", ".join(
        f'<span class="{outcome}">{mark}</span> {outcome}' for outcome, mark in MARKS.items()
    )
    return (
        f"Comparisons {marks}; an empty cell: none decides. Some claims are decided, by our rule,"
        " on networks that have learnt their training images. The small network has learnt them"
        " without augmentation; with crops and flips, in 12 epochs, it has not. On CIFAR-100 a"
        " wider one has."
    )


def _table(verdicts: Sequence[Verdict], name: str, caption: str) -> str:
    """Write a row for each claim; data sets that none of them was run on are left out."""
    by_column: list[dict[str, list[tuple[str, Finding]]]] = [
        {column: [] for column in _COLUMNS} for _ in verdicts
    ]
    for verdict, columns in zip(verdicts, by_column, strict=True):
        for letter, finding in (
            (part.id, finding) for part in verdict.parts for finding in part.deciding
        ):
            column = _DATA.get(finding.variant.dataset, _OTHERS)
            columns[column].append((letter, finding))
    shown = [column for column in _COLUMNS if any(columns[column] for columns in by_column)]
    head = "".join(f'<th scope="col">{column}</th>' for column in ("claim", "outcome", *shown))
    rows = []
    for verdict, columns in zip(verdicts, by_column, strict=True):
        written = claims.ledger()[verdict.claim]
        label = written.page or "sec-claims"
        claim = written.short or written.claim
        if label not in _pages():
            raise ValueError(f"no page has the label {label!r}")
        address = f"../{_pages()[label]}#{label}"
        size = " and ".join(_SHORT_SCALES[name] for name in verdict.scales)
        # on a phone, where .all is shown and .word is not, both stand behind the name
        word = f"<b>{verdict.verdict}</b>, {size}" if size else f"<b>{verdict.verdict}</b>"
        about = f'<small class="all">{word}</small>'
        claimed = f'<th scope="row"><a href="{address}">{html.escape(claim)}</a> {about}</th>'
        outcome = (
            f'<span class="word">{verdict.verdict}<br><small>{size}</small></span>'
            f'<span class="all">{_marks(verdict.deciding)}</span>'
        )
        cells = "".join(
            _cell(f"{verdict.claim}, {column}", columns[column], address) for column in shown
        )
        rows.append(f"<tr>{claimed}<td>{outcome}</td>{cells}</tr>")
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<table class="outcomes" id="{name}"><caption>{caption}</caption>{body}</table>'


def effects(comparison: Finding) -> tuple[str, str]:
    """Write the difference of a comparison with its interval, and the papers' own.

    Differences of shares are in percentage points.
    """
    if comparison.difference is None or comparison.metric is None:
        return MISSING, MISSING
    factor = comparison.metric.factor
    ours = comparison.difference.interval.times(factor)
    text = f"{ours:+u} {comparison.metric.unit}".strip()
    return signed(text), signed(published.written(comparison.paper, factor)) or MISSING


def _cell(name: str, findings: Sequence[tuple[str, Finding]], address: str) -> str:
    """Show the marks of some findings, with a line for each.

    A line has the variant, what is compared, and the effects, ours and the papers'.
    """
    if not findings:
        return '<td class="none"><span class="visually-hidden">none decides</span></td>'
    lines = []
    for part, one in findings:
        each = (
            "{}: {} (papers: {})".format(comparison.text, *effects(comparison))
            for comparison in one.comparisons()
        )
        text = "; ".join(each).replace(f" (papers: {MISSING})", "")
        mark = f'<span class="{one.outcome}">{MARKS[one.outcome]} {one.outcome}</span>'
        lines.append(
            f"<span>{mark} <b>{part}</b> "
            f"{html.escape(f'{one.variant.short}: {signed(text)}')}</span>"
        )
    hidden = f'<span class="visually-hidden">{html.escape(name)}: </span>'
    marks = _marks(one for _, one in findings)
    more = f'<span class="more">{"".join(lines)}</span>'
    return f'<td><a href="{address}">{hidden}{marks}{more}</a></td>'


def _marks(findings: Iterable[Finding]) -> str:
    """Show the marks with their counts; the words are for those who do not see them."""
    word = '<span class="visually-hidden"> {}</span>'
    counted = counts(findings)
    return " ".join(
        f'<span class="{outcome}">{MARKS[outcome]}{count}{word.format(outcome)}</span>'
        for outcome, count in counted.items()
    )


@cache
def _pages() -> Mapping[str, str]:
    """List the page of every label of the book."""
    by_label = {}
    for path in sorted([*ROOT.glob("book/*.md"), *ROOT.glob("notebooks/*/*.md")]):
        for label in re.findall(r"^\(([\w-]+)\)=$", path.read_text(encoding="utf-8"), re.MULTILINE):
            by_label[label] = path.relative_to(ROOT).with_suffix(".html").as_posix()
    return by_label
