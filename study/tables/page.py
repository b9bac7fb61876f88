"""What every page of evidence shows around its figure and its table.

A page shows the claim, the answer, what it rests on, the parts, and the commands.

A page begins with ``page = Page("E4")`` and ``page.answer()``, takes its runs from
``page.runs("grid")`` and ends with ``page.ground()``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Set
from functools import cached_property
from operator import attrgetter
from typing import Any

import pandas as pd
from IPython.display import Markdown
from pandas.api.types import is_numeric_dtype

from study import campaign, claims, figures, results
from study.claims import Finding, Verdict, answers
from study.claims.compare import APART
from study.claims.narrowing import at_usual_rate
from study.claims.verdicts import counts, replaced, variants
from study.tables import rerun, sentences
from study.tables.book import MISSING, Table, cell, table
from study.tables.outcomes import MARKS, SCALES, beside, effects, scale
from study.tables.runs import in_order
from study.variants import FAST, PERCEPTRON, Variant

_TRAINED, _CONFIDENT = "training accuracy, %", "over-confidence, points"
_COLUMNS = {
    "training samples": ("train_samples", 1),
    "epochs": ("epochs", 1),
    "parameters, thousands": ("model_parameters", 1000),
}
# Networks that go on being trained. What is left of larger ones decides nothing any more, or waits
# for a GPU.
_UNDER_WAY = (PERCEPTRON, FAST)

_SAID = {
    "GD": "The papers claim:",
    "project": "We asked:",
    "reviews": "The reviewers asked:",
}


class Page:
    """The claims of a page, with the records and the verdicts behind them.

    The figures get the style of the book.

    Args:
        claims: rows of the ledger, such as ``"E4"``; the first one is meant where none is named.
        runs: the table of all runs, if not that of the results of the repository.
    """

    def __init__(self, *claims: str, runs: pd.DataFrame | None = None) -> None:
        figures.use_style()
        self.claims = claims
        self.records = results.everything() if runs is None else runs
        self._given = runs

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each claim that has parts."""
        with_parts = [claim for claim in self.claims if claims.ledger()[claim].parts]
        decided = claims.verdicts(self._given, with_parts)
        return {claim: beside(verdict) for claim, verdict in decided.items()}

    def runs(self, selection: str, *, some: bool = False) -> pd.DataFrame:
        """Give the runs of a selection that decide the claims of the page.

        The arguments are those of :func:`selected`.
        """
        return selected(self.records, selection, self.claims, some=some)

    def answer(self, claim: str = "") -> Markdown:
        """Show what was found, then the claim with its place in the paper, then the tally."""
        claim = claim or self.claims[0]
        written = claims.ledger()[claim]
        place = written.where[0].upper() + written.where[1:]
        said = _SAID.get(written.paper, "The paper claims:")
        more = (
            f"{claim} in {{ref}}`the ledger <sec-claims>`;"
            " {ref}`how a claim is decided <sec-read>`."
        )
        texts = (
            f"{{.answer}}\n{self._answer(claim)}",
            f"> **{said}** {written.claim}\n>\n> {place}.",
            f"{{.fineprint}}\n{self._tally(claim)} {more}",
        )
        return Markdown("\n\n".join(texts))

    def _answer(self, claim: str) -> str:
        """Give the sentences on a claim; its verdict alone, where they were written for another."""
        verdict, waiting = self.verdicts[claim], self._waiting(claim)
        if verdict.verdict == "not run":
            if not waiting:
                return "**Not run yet.**"
            return f"**Not decided yet.** It will be when these runs are complete: {waiting}."
        sentence = sentences.finding(verdict) or f"**{verdict.verdict.capitalize()}.**"
        more = (
            f" More runs are planned ({waiting} are there). The missing ones decide nothing yet."
            if waiting
            else ""
        )
        return f"{sentence}{more}"

    def _tally(self, claim: str) -> str:
        """Count the findings behind the verdict.

        Such as "**Mixed** (the papers' scale), by part a. Of 18 findings ✓ 7 met, ✗ 3 ...".
        """
        verdict = self.verdicts[claim]
        counted = counts(verdict.deciding)
        each = ", ".join(
            f"{MARKS[outcome]} {number} {outcome}" for outcome, number in counted.items()
        )
        size = f" ({scale(verdict)})" if scale(verdict) else ""
        word = f"**{verdict.verdict.capitalize()}**{size}, by part {verdict.primary}"
        depends = f": {verdict.depends}." if verdict.depends else "."
        number = sum(counted.values())
        findings = "finding" if number == 1 else "findings"
        tally = f" Of {number} {findings} {each}." if counted else ""
        return f"{word}{depends}{tally}{self._premise(claim)}"

    def _premise(self, claim: str) -> str:
        """Say which runs decide a claim about learnt training images, and since when."""
        least = claims.ledger()[claim].premise
        if not least:
            return ""
        return (
            f" Runs decide where β = 1 has learnt at least {100 * least:g} % of the training"
            " images: a rule that was added when most runs were there"
            " ({ref}`what was known then <sec-rules>`)."
        )

    def _waiting(self, claim: str) -> str:
        """Say how far the campaigns are that answer the claim.

        Only those that were begun and are not complete are named.
        """
        begun = []
        for one in answers.answering([claim]):
            jobs = [job for job in one.jobs if getattr(job.experiment, "model", "") in _UNDER_WAY]
            runs = campaign.coverage(jobs)
            if 0 < runs.done < runs.planned:
                begun.append(f"`{one.name}` {runs}")
        return ", ".join(begun)

    def ground(self) -> Markdown:
        """Show what the claims rest on.

        Closed below it are the parts with their findings, and the commands to run it all again.
        """
        return Markdown(
            "\n\n".join([self._rests_on(), *map(self._parts, self.verdicts), self._rerun()])
        )

    def _rests_on(self) -> str:
        selections = dict.fromkeys(
            part.runs for claim in self.verdicts for part in claims.ledger()[claim].parts.values()
        )
        every = pd.concat(
            [self.runs(selection, some=True) for selection in selections], ignore_index=True
        )
        named = {
            finding.variant.short
            for verdict in self.verdicts.values()
            for part in verdict.parts
            for finding in part.findings
        }
        rows = []
        asked = every[every["counted"] | every["variant"].isin(named)] if len(every) else every
        groups = asked.groupby(["scale", "variant"], sort=False) if len(asked) else ()
        for (name, variant), group in groups:
            row = {"scale": SCALES[str(name)].capitalize(), "variant": variant}
            for title, (column, unit) in _COLUMNS.items():
                if column in group and is_numeric_dtype(group[column]):
                    row[title] = _values(group[column] / unit)
            seeds = group.groupby("method")["seed"].nunique()
            row["seeds"] = _values(seeds[seeds > 0])
            rows.append(row | _at_one(group))
        frame = pd.DataFrame(rows).fillna(MISSING)
        caption = _caption_of_runs(frame)
        return table(frame, f"tab-{self._name}-runs", caption, group="scale")._repr_markdown_()

    def _parts(self, claim: str) -> str:
        rows: list[dict[str, Any]] = []
        verdict = self.verdicts[claim]
        for part in verdict.parts:
            primary = ", primary" if part.id == verdict.primary else ""
            common = {"part": f"({part.id}{primary}) {part.sentence}"}
            for finding in part.findings:
                for one in [finding, *finding.comparisons()] if finding.findings else [finding]:
                    rows.append(common | _row(one, whole=one is finding))
            if not part.findings:
                rows.append(common | {"variant": "not run"})
        frame = pd.DataFrame(rows)
        if "pairs" in frame:  # something was found
            frame["pairs"] = frame["pairs"].astype("Int64")
        claimed = claims.ledger()[claim].short or claim
        caption = (
            f"{claimed}: its parts and what was found. Differences of shares are in percentage"
            " points. Pairs is how many seeds, data sets, folds or repetitions both sides have; p"
            " is corrected for the comparisons of the claim that decide. Outcomes in parentheses"
            " are shown and decide nothing."
        )
        shown = table(
            frame, f"tab-{claim.lower()}-verdict", caption, formats=_formats(frame), group="part"
        )
        return closed(f"Parts and findings: {claimed}", shown)

    def _rerun(self) -> str:
        answering = answers.answering(self.claims)
        contents: list[str | Table] = [
            "In a clone of the repository ({ref}`how to re-run <sec-rerun>`). The first command"
            " trains small networks on embedded data in seconds. The second one trains one of the"
            " jobs anew, in a folder of its own, and says whether the record comes out again; its"
            " minutes are for one core."
        ]
        for claim in self.verdicts:
            decided = self._decided(claim)
            if jobs := rerun.jobs(claim, decided):
                job, *_ = jobs
                contents += [
                    f"**{claim}**, small:",
                    f"```bash\n{rerun.command(job.notebook, rerun.small(claim, job))}\n```",
                    f"**{claim}**, {_one_of(decided, jobs)}{_minutes(job)}:",
                    f"```bash\n{rerun.anew(job)}\n```",
                ]
        begun = {one.name: any(job.done for job in one.jobs) for one in answering}
        for there, heading in (
            (True, "Whole campaigns run what is missing; with `FRESH=1` behind it, all anew:"),
            (False, "Not begun yet:"),
        ):
            lines = [
                f"make reproduce CAMPAIGN={name}" for name, done in begun.items() if done is there
            ]
            if lines:
                contents += [heading, "```bash\n" + "\n".join(lines) + "\n```"]
        caption = (
            "The campaigns, with the runs that are measured of those that are planned. The scale is"
            " the campaign's; runs that are not trained as in the papers count as reduced."
        )
        campaigns = campaign.coverage_table(answering)
        contents.append(table(campaigns, f"tab-{self._name}-coverage", caption))
        return closed("Run it again", *contents)

    def _decided(self, claim: str) -> set[tuple[str, str]]:
        """Name the records, by campaign and file, of the variants that decide a claim."""
        variants = [finding.variant for finding in self.verdicts[claim].deciding]
        named: set[tuple[str, str]] = set()
        for selection in {part.runs for part in claims.ledger()[claim].parts.values()}:
            runs = claims.runs_of(self.records, selection)
            if len(runs) and "record" in runs:  # folds of a data set are pooled over records
                runs = runs[runs["variant"].isin(variants)]
                named |= set(zip(runs["campaign"], runs["record"], strict=True))
        return named

    @property
    def _name(self) -> str:
        return "-".join(self.claims).lower()


def selected(
    runs: pd.DataFrame, selection: str, of_claims: Collection[str] = (), *, some: bool = False
) -> pd.DataFrame:
    """Give the runs of a selection, in the order of :func:`study.tables.runs.in_order`.

    Args:
        runs: all runs.
        selection: its name in ``claims/runs.yml``.
        of_claims: the claims that say whether older runs decide.
        some: whether those that decide nothing are there too: with too few seeds or under way,
            their seeds counted behind their names, and those of older runs that a network at real
            accuracy has replaced.
    """
    every = claims.runs_of(runs, selection).reset_index(drop=True)
    if every.empty:
        return every.reindex(
            columns=[*{**dict.fromkeys(every), "variant": 0, "method": 0, "schedule": 0}]
        )
    settled = {one.variant for one in variants(every, selection)}
    notes = _notes(every, selection, settled)
    older = every["variant"].isin(replaced(of_claims, settled)) & every["scale"].ne("paper")
    shown = in_order(every if some else every[notes.eq("") & ~older])
    notes = notes[shown.index]
    return shown.assign(variant=shown["variant"] + notes, counted=notes.ne(""))


def _minutes(job: campaign.Job) -> str:
    """Tell how long a job took, or will take where it has no record."""
    minutes = job.measured().wall_seconds / 60 if job.done else job.minutes or 0.0
    if not minutes:
        return ""
    if minutes < 1.5:
        return f", {'about' if minutes >= 0.5 else 'less than'} a minute"
    return f", about {minutes:.0f} minutes"


def _one_of(decided: Collection[object], jobs: Collection[object]) -> str:
    return f"one of {len(decided)} jobs that decide" if decided else f"one of {len(jobs)} jobs"


def closed(title: str, *contents: str | Table) -> str:
    """Put MyST or tables behind a title that opens them."""
    texts = [
        content if isinstance(content, str) else content._repr_markdown_() for content in contents
    ]
    return f"::::::{{dropdown}} {title}\n" + "\n\n".join(texts) + "\n::::::"


def _notes(runs: pd.DataFrame, selection: str, settled: Set[Variant]) -> pd.Series[Any]:
    """Count the seeds of variants that decide nothing yet, as a text; empty for the others."""
    variant = runs["variant"]
    unit = "seed" if "seed" in runs else "title"
    of_method = runs.groupby(["variant", "method"])[unit].transform("nunique")
    of_variant = of_method.groupby(variant).transform("max")
    fast = variant.map(attrgetter("on_fast"))
    seeds = of_method.where(fast, of_variant)  # on the small network each method has its own plan
    least = variant.map(lambda one: claims.least_seeds(selection, one))
    waits = ~variant.isin(settled)
    counted = " (" + seeds.astype(str) + " of " + least.astype(str) + " seeds)"
    counted = counted.mask(fast & waits, " (under way)")
    return counted.where((seeds < least) | waits, "")


def _caption_of_runs(frame: pd.DataFrame) -> str:
    meanings = {
        _TRAINED: "training accuracy (of the labels that were given)",
        _CONFIDENT: "over-confidence (confidence minus accuracy on the test set)",
    }
    there = [meaning for title, meaning in meanings.items() if title in frame]
    if not there:
        return "What was trained."
    words = " and ".join(there)
    return (
        f"What was trained. {words[0].upper()}{words[1:]} {'are' if there[1:] else 'is'} at β = 1:"
        " means over the seeds, at other learning rates than the usual one in brackets, and the"
        " smallest and the largest where it was run in several ways."
    )


def _values(column: pd.Series[Any]) -> str:
    ends = dict.fromkeys(
        cell(round(value)) for value in (column.min(), column.max()) if value == value
    )
    return " to ".join(ends) or MISSING


def _at_one(group: pd.DataFrame) -> dict[str, str]:
    """Give training accuracy and over-confidence at β = 1, in per cent and points.

    The mean at the usual learning rate comes first, the means at others in brackets behind it.
    Where it was run apart in another way, the smallest and the largest mean are given.
    """
    at_one = group[[method.is_plain for method in group["method"]]]
    row = {}
    for title, column in ((_TRAINED, "train_accuracy"), (_CONFIDENT, "overconfidence")):
        if column in at_one and at_one[column].notna().any():
            usual = at_usual_rate(group)[at_one.index]
            row[title] = _ends(at_one[usual], column)
            if not usual.all():
                row[title] += f" ({_ends(at_one[~usual], column)})"
    return row


def _ends(runs: pd.DataFrame, column: str) -> str:
    """Write the smallest and the largest mean of a share in per cent, once if they are equal."""
    apart = [name for name in (*APART, "depth") if name in runs]
    means = 100 * runs.groupby(apart, dropna=False)[column].mean()
    return " to ".join(dict.fromkeys(cell(float(end), ".1f") for end in (means.min(), means.max())))


def _row(one: Finding, *, whole: bool) -> dict[str, Any]:
    """Write a finding, or a comparison that it is made of, as a row of the table of parts."""
    ours, papers = effects(one)
    name = one.variant.short if whole else f"– {one.methods}"
    outcome = ", ".join([f"{MARKS[one.outcome]} {one.outcome}", *one.notes])
    if one.outside:
        outcome = "(outside the premise)"
    elif not one.decides:
        outcome = f"({outcome})"
    row: dict[str, Any] = {"variant": name, "difference [95 %]": ours, "papers": papers}
    if one.difference:
        row |= {"pairs": one.difference.n, "p": one.corrected}
    return row | {"outcome": outcome}


def _formats(frame: pd.DataFrame) -> dict[Hashable, str]:
    return {"p": ".2g"} if "p" in frame else {}
