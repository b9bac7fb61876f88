"""What a reading says about a part of a claim, and the comparison that most parts are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from study import statistics
from study.published import loss_name

__all__ = ["Comparison", "Decide", "Finding", "Part", "Verdict", "least_of", "of_gradient_decay", "paired", "warmup_is_best"]

READINGS_ASKED = {"E1": 2, "E2": 2}  # relu-unit and the nearest (or next nearest) one; one reading is enough for the other claims

Decision = Literal["holds", "holds in part", "does not hold", "undecided", "not tested"]


@dataclass(frozen=True)
class Finding:
    """What one reading says about one part of a claim.

    Attributes:
        reading: activation and normalisation, such as ``relu-unit``.
        met: whether the criterion is met.
        difference: the paired difference that decided it.
        text: the comparison in words.
    """

    reading: str
    met: bool
    difference: statistics.PairedDifference
    text: str

    @property
    def speaks_against(self) -> bool:
        """Whether the criterion is not met and the interval leaves no doubt about it: it excludes 0."""
        return not self.met and self.difference.interval.excludes(0)


@dataclass(frozen=True)
class Part:
    """One part of a claim: its criterion, and a finding for each reading that decides.

    Attributes:
        id: letter of the part.
        criterion: the sentence written down before the runs.
        findings: one for each reading.
    """

    id: str
    criterion: str
    findings: tuple[Finding, ...]

    @property
    def met(self) -> Literal["met", "met in part", "not met", "not tested"]:
        """Met in every reading, in some, in none; or there is none."""
        if not self.findings:
            return "not tested"
        votes = [finding.met for finding in self.findings]
        return "met" if all(votes) else "met in part" if any(votes) else "not met"


@dataclass(frozen=True)
class Verdict:
    """The answer to a claim.

    Attributes:
        claim: id in the ledger.
        parts: what it was made of.
        scale: of the runs behind it, or empty.
        seeds: smallest number of seeds behind a finding.
    """

    claim: str
    parts: tuple[Part, ...]
    scale: str
    seeds: int

    @property
    def verdict(self) -> Decision:
        """A claim holds if all its parts are met, does not hold if none is met in any reading, and holds in part otherwise.

        Where none is met but every interval includes 0 the runs were too few to speak against it, and it is undecided.

        It is not tested until every part has a finding from as many readings as its criterion asks for.
        """
        states = {part.met for part in self.parts}
        if min((len(part.findings) for part in self.parts), default=0) < READINGS_ASKED.get(self.claim, 1):
            return "not tested"
        if states == {"met"}:
            return "holds"
        if states == {"not met"}:
            return "does not hold" if any(finding.speaks_against for part in self.parts for finding in part.findings) else "undecided"
        return "holds in part"

    @property
    def why(self) -> str:
        """One phrase for each part: in how many readings it was met."""
        phrases = []
        for part in self.parts:
            met = sum(finding.met for finding in part.findings)
            phrases.append(f"{part.id}: {part.met}" + (f" ({met} of {len(part.findings)} readings)" if part.findings else ""))
        return "; ".join(phrases)

    def to_frame(self) -> pd.DataFrame:
        """A table with a row for each part and reading: what is compared, the difference with its interval, and whether the part is met."""
        rows: list[dict[str, object]] = []
        for part in self.parts:
            common: dict[str, object] = {"part": part.id}
            for finding in part.findings:
                difference = f"{finding.difference:u}".replace("-", "\N{MINUS SIGN}")
                met = "yes" if finding.met else "no"
                row = {"reading": finding.reading, "compared": finding.text.replace("_", " "), "difference [95 % interval]": difference}
                rows.append(common | row | {"seeds": finding.difference.n, "met": met})
            if not part.findings:
                rows.append(common | {"met": "not tested"})
        return pd.DataFrame(rows, columns=["part", "reading", "compared", "difference [95 % interval]", "seeds", "met"])


@dataclass(frozen=True)
class Comparison:
    """``metric`` of schedule ``left`` minus that of ``right`` is on the side of 0 that ``larger`` says."""

    metric: str
    left: str
    right: str
    larger: bool

    def decide(self, reading: str, runs: pd.DataFrame) -> Finding | None:
        """The finding of one reading; None if the two schedules have no two seeds in common."""
        difference = paired(runs, self.metric, self.left, self.right)
        if difference is None:
            return None
        met = difference.interval.low > 0 if self.larger else difference.interval.high < 0
        return Finding(reading, met, difference, f"{self.metric}, {loss_name(self.left)} against {loss_name(self.right)}")


Decide = Callable[[str, pd.DataFrame], Finding | None]
"""From a reading and its runs to a finding, or to None if the reading lacks the runs."""


def of_gradient_decay(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that were trained with gradient decay; records from before there was another loss do not name it."""
    return runs[runs["loss"].isna() | (runs["loss"] == "gd")] if "loss" in runs else runs


def paired(runs: pd.DataFrame, metric: str, left: str, right: str) -> statistics.PairedDifference | None:
    """Paired difference of a metric between two schedules, over the seeds that both have; None if these are fewer than two."""
    columns = [runs.loc[runs["schedule"] == name].set_index("seed")[metric].astype(float) for name in (left, right)]
    seeds = columns[0].index.intersection(columns[1].index)
    return statistics.paired_difference(columns[0].loc[seeds], columns[1].loc[seeds]) if len(seeds) > 1 else None


def least_of(found: Sequence[Finding], *, larger: bool = True) -> Finding:
    """One finding of several that must all be met: the one that comes nearest to failing, or fails worst.

    Args:
        found: the findings, of one reading.
        larger: whether the differences are to be larger than 0.
    """
    worst = (min if larger else max)(found, key=lambda finding: finding.difference.mean)
    return Finding(worst.reading, all(finding.met for finding in found), worst.difference, worst.text)


def warmup_is_best(reading: str, runs: pd.DataFrame, warmups: list[str], constants: list[str]) -> Finding | None:
    """One of the warm-ups is more accurate than the constant β with the largest mean test accuracy."""
    means = runs.groupby("schedule")["test_accuracy"].mean()
    if not {*warmups, *constants} <= set(means.index):
        return None
    best = max(constants, key=lambda beta: means[beta])
    found = [Comparison("test_accuracy", warmup, best, larger=True).decide(reading, runs) for warmup in warmups]
    return max((finding for finding in found if finding is not None), key=lambda finding: finding.difference.mean)
