"""The ledger: a row for each claim, each part, each change of a rule, and each comparison."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property

import pandas as pd
from IPython.display import Markdown

from study import ROOT, campaign, claims, results
from study.claims import Claim, Finding, Verdict, answers
from study.metrics import Metric
from study.tables import outcomes, sentences
from study.tables.book import MISSING, Table, table
from study.tables.page import closed

_PROVED = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
_SPEC: Mapping[Hashable, str] = {
    **{"mean": ".4g", "low": ".4g", "high": ".4g"},
    **{"p": ".2g", "p (Holm)": ".2g"},
}
_LEVELS = ("p", "p (Holm)")


class Ledger:
    """All claims with their verdicts, from the results of the repository."""

    def __init__(self) -> None:
        self.runs = results.everything()
        self.claims = claims.ledger()

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each claim that has parts."""
        return {claim: outcomes.beside(verdict) for claim, verdict in claims.verdicts().items()}

    @cached_property
    def with_runs(self) -> list[Verdict]:
        """The verdicts on the claims that have runs."""
        return [one for one in self.verdicts.values() if one.verdict != "not run"]

    @property
    def theirs(self) -> list[Verdict]:
        """Those on claims of the papers."""
        return [one for one in self.with_runs if not outcomes.is_own(one)]

    @property
    def ours(self) -> list[Verdict]:
        """Those on claims of this project."""
        return [one for one in self.with_runs if outcomes.is_own(one)]

    @cached_property
    def comparisons(self) -> pd.DataFrame:
        """Every comparison, as :func:`study.claims.findings` lists them."""
        return claims.findings(self.verdicts.values())

    # --- numbers of the page ---

    def counted(self) -> dict[str, str]:
        """Count the entries of the ledger by what decides them, each with its outcomes."""
        proofs = [one.proof.verdict for one in self.claims.values() if one.proof]
        by_proof = [f"{proofs.count(one)} {word}" for one, word in _PROVED.items() if one in proofs]
        rows = self._rows(self.claims)
        parts = [part for one in self.claims.values() for part in one.parts.values()]
        deciding = self.comparisons[self.comparisons["p (Holm)"].notna()]
        return {
            "all": str(sum(row["verdict"] != "**answered**" for row in rows)),
            "questions": str(sum(one.paper == "reviews" for one in self.claims.values())),
            "papers": str(len(self.theirs)),
            "papers_outcomes": outcomes.summary(self.theirs),
            "own": str(len(self.ours)),
            "own_outcomes": outcomes.summary(self.ours),
            "proved": str(len(proofs)),
            "by_proof": ", ".join(by_proof),
            "not_run": str(sum(row["verdict"] == "**not run**" for row in rows)),
            "parts": str(len(parts)),
            "known": str(sum(bool(part.known_then) for part in parts)),
            "comparisons": str(len(self.comparisons)),
            "deciding": str(len(deciding)),
            "raw": str((deciding["p"] < 0.05).sum()),
            "holm": str((deciding["p (Holm)"] < 0.05).sum()),
            **self._recomputed(),
        }

    def _recomputed(self) -> dict[str, str]:
        """Count what ``results/recompute.py`` finds as it stands here."""
        script = runpy.run_path(str(ROOT / "results" / "recompute.py"))
        again = script["everything"]()
        theirs = {
            (row.part, row.pairs, row.outcome, round(row.mean, 9), round(row.low, 9))
            for row in again.comparisons
        }
        ours = [
            (
                f"{row['claim']} {row['part']}",
                row["pairs"],
                row["outcome"],
                round(row["mean"], 9),
                round(row["low"], 9),
            )
            for row in self.comparisons.to_dict("records")
        ]
        words = {one.claim: one.verdict for one in self.with_runs}
        same = sum(words.get(claim) == word for claim, word in again.verdicts.items())
        return {
            "recomputed": str(sum(row in theirs for row in ours)),
            "recomputed_claims": str(same),
        }

    # --- tables ---

    def glance(self) -> Table:
        """Show the claims that are decided, by proof or by experiments."""
        rows = []
        for name, claim in self.claims.items():
            if claim.proof:
                verdict, answer = claim.proof.verdict, claim.proof.why
            elif name in self.verdicts and self.verdicts[name].verdict != "not run":
                decided = self.verdicts[name]
                verdict = _scaled(decided)
                answer = sentences.finding(decided) + _at_a_glance(decided)
            else:
                continue
            link = f"{{ref}}`{name} <{claim.page}>` {claim.short}."
            rows.append({"the claim": link, "verdict": verdict, "what was found": answer})
        caption = (
            "The claims that are decided, by proof or by experiments. The link leads to the proof"
            " or to the measurement. In italics stands a comparison of ours, from the smallest to"
            " the largest over the variants with 95 % intervals: the first for which the papers"
            " print an effect, and beside it theirs. It need not be the one that decides."
        )
        return table(pd.DataFrame(rows), "tab-ledger-glance", caption)

    def entries(
        self, name: str, caption: str, *papers: str, proved: bool | None = None
    ) -> Markdown:
        """Show the entries of some papers, closed: all, those that are proved, or the others."""
        wanted = [
            key
            for key, claim in self.claims.items()
            if claim.paper in papers and proved in (None, claim.proof is not None)
        ]
        rows = pd.DataFrame(self._rows(wanted))
        return Markdown(closed(f"{len(rows)} entries", table(rows, name, caption)))

    def _rows(self, wanted: Iterable[str]) -> list[dict[str, str]]:
        return [self._row(name) for name in wanted]

    def _row(self, name: str) -> dict[str, str]:
        claim = self.claims[name]
        verdict = "not run"
        covered = _coverage(name)
        ground = covered
        if claim.paper == "reviews":
            verdict = "answered" if claim.page else "open"
        if claim.proof:
            verdict, ground = claim.proof.verdict, f"By proof: {{ref}}`{claim.page}`."
        elif name in self.verdicts:
            decided = self.verdicts[name]
            verdict = _scaled(decided)
            facts = [f"{decided.seeds} {_units(claim)}" if decided.seeds else "", covered]
            phrase = "; ".join(filter(None, facts))
            depends = f": {decided.depends}" if decided.depends else ""
            if decided.verdict == "not run":
                ground = f"{phrase}."
            else:
                ground = f"Part {decided.primary} decides{depends}. {decided.why} ({phrase})."
        elif not ground and claim.data and claim.data != "yes":
            ground = f"Data here: {claim.data}."
        if claim.found or (claim.page and not claim.parts and not claim.proof):
            ground = f"{ground} {{ref}}`{claim.page}`"
        elif verdict == "not run":
            ground = f"{ground} {{ref}}`What it would take <sec-not-run>`."
        said = f"{claim.claim} *{claim.where}*"
        return {
            "": name,
            "what is claimed": said,
            "verdict": f"**{verdict}**",
            "ground": ground.strip(),
        }

    def parts(self) -> Markdown:
        """Show each part with its sentence, its outcome and its difference, closed."""
        rows = []
        for claim, verdict in self.verdicts.items():
            for part in verdict.parts:
                deciding = [one for finding in part.deciding for one in finding.comparisons()]
                ours, papers = _spread(deciding)
                noted = Counter(note for one in deciding for note in one.notes)
                notes = [
                    note if number == len(deciding) else f"{note} in {number} of {len(deciding)}"
                    for note, number in noted.items()
                ]
                outcome = ", ".join([f"**{part.outcome}**", *notes])
                primary = " (primary)" if part.id == verdict.primary else ""
                known = self.claims[claim].parts[part.id].known_then
                sentence = f"{part.sentence} *Known then: {known}.*" if known else part.sentence
                rows.append(
                    {"": f"{claim}\N{NO-BREAK SPACE}{part.id}{primary}", "part": sentence}
                    | {"outcome": outcome, "difference": ours, "the papers'": papers}
                )
        caption = (
            "What would confirm each claim, and what came out: the outcome in the variants that"
            " decide, the smallest and largest difference with its interval, and that of the papers"
            " where they print both sides. Points are percentage points, of differences of shares."
            " *Level* and *excludes* say what an unresolved comparison tells all the same, and in"
            " how many of the part's comparisons if not in all. *Known then* says which of the runs"
            " that decide were there when the part got its comparison."
        )
        shown = table(pd.DataFrame(rows), "tab-criteria", caption)
        return Markdown(closed(f"{len(rows)} parts", shown))

    def changes(self) -> Markdown:
        """Show every change of a rule, closed."""
        listed = pd.DataFrame(claims.changes())
        caption = (
            "Every change of a rule after it was first written down: when, what was known then,"
            " and why."
        )
        shown = table(listed, "tab-criteria-changes", caption)
        return Markdown(closed(f"{len(listed)} changes", shown))

    def all_comparisons(self) -> Markdown:
        """Show every comparison with its interval and its p-values, closed."""
        outcome = self.comparisons["outcome"]
        outcome = outcome.mask(self.comparisons["outside"], "outside the premise")
        outcome = outcome.where(self.comparisons["decides"], "(" + outcome + ")")
        part = self.comparisons["claim"] + " " + self.comparisons["part"]
        shown = self.comparisons.assign(part=part, outcome=outcome)
        columns = ["part", "variant", "compared", "mean", "low", "high", "paper", "pairs"]
        caption = (
            "Every comparison: the mean difference with the ends of its 95 % interval, the papers'"
            " own effect (of accuracies, confidences and calibration errors as shares: 0.01 is a"
            " percentage point; where a table is named, by our rule on all of its numbers; beside"
            ' "the best of" some methods that of their own best, which may be another), and'
            " p-values against the part's threshold, raw and after Holm's correction over the"
            " comparisons of the claim that decide. Outcomes in parentheses are shown and decide"
            " nothing."
        )
        columns += [*_LEVELS, "outcome"]
        listed = table(shown[columns], "tab-comparisons", caption, formats=_SPEC)
        return Markdown(closed(f"{len(shown)} comparisons", listed))

    def seeds_needed(self) -> Markdown:
        """Show how many seeds comparisons would need, closed."""
        needed = claims.seeds_needed(self.verdicts.values(), self.runs)
        caption = (
            "Seeds for 80 % power of a paired t-test at 0.05, for an effect as large as the papers"
            " print (the largest and the smallest of their networks) and for the observed one."
            " Image networks, which are compared with a common deviation, need fewer."
        )
        listed = table(needed, "tab-seeds-needed", caption, formats={"deviation": ".2g"})
        return Markdown(closed(f"{len(needed)} comparisons", listed))


def _scaled(verdict: Verdict) -> str:
    return f"{verdict.verdict} ({outcomes.scale(verdict)})" if verdict.scales else verdict.verdict


def _units(claim: Claim) -> str:
    """Say what the primary part compares over."""
    runs = claim.parts[claim.primary].runs
    if runs == "cost":
        return "repetitions"
    return {"seed": "seeds", "title": "data sets", "fold": "folds"}[claims.selection(runs).unit]


def _coverage(claim: str) -> str:
    """Count the runs done of those planned for a claim, over all campaigns."""
    jobs = answers.jobs_of(claim)
    files = dict.fromkeys(f"`campaigns/{job.campaign}.yml`" for job in jobs)
    return f"{campaign.coverage(jobs)} in {', '.join(files)}" if files else ""


def _spread(comparisons: Iterable[Finding]) -> tuple[str, str]:
    """Write the smallest and the largest difference of each metric, and the papers' own."""
    of_metric: dict[Metric | None, list[Finding]] = {}
    for one in comparisons:
        of_metric.setdefault(one.metric, []).append(one)
    spreads = [_spread_of_one_metric(alike) for alike in of_metric.values()]
    ours, papers = (
        dict.fromkeys(spread[side] for spread in spreads if spread[side] != MISSING)
        for side in (0, 1)
    )
    return "; ".join(ours) or MISSING, "; ".join(papers) or MISSING


def _spread_of_one_metric(comparisons: Iterable[Finding]) -> tuple[str, str]:
    sizes = sorted(comparisons, key=lambda one: one.difference.mean if one.difference else 0.0)
    both = [outcomes.effects(one) for one in (*sizes[:1], *sizes[-1:])]
    ours, papers = (
        dict.fromkeys(effects[side] for effects in both if effects[side] != MISSING)
        for side in (0, 1)
    )
    return " to ".join(ours) or MISSING, "; ".join(papers) or MISSING


def _at_a_glance(verdict: Verdict) -> str:
    """Write the first comparison that has an effect of the papers: ours, and theirs."""
    comparisons = [one for finding in verdict.deciding for one in finding.comparisons()]
    first = next((one.text for one in comparisons if one.paper), "")
    ours, papers = _spread(one for one in comparisons if one.text == first)
    return f" *{first[0].upper()}{first[1:]}: {ours} (papers: {papers}).*" if first else ""
