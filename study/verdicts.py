"""Verdicts on the papers' claims, from records and criteria."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import yaml

from study import criteria, records, statistics
from study.criteria import CLAIMS, Finding, Outcome, Variant, images

__all__ = ["VERDICTS", "Part", "Verdict", "changes", "criteria_file", "findings", "verdict", "verdicts"]

Decision = Literal["supported", "contradicted", "mixed", "partly supported", "unresolved", "not run"]

VERDICTS: Mapping[Decision, str] = {
    "supported": "every part is met in every variant",
    "partly supported": "some findings are met, none is contradicted",
    "mixed": "met here, contradicted there",
    "contradicted": "some findings are contradicted, none is met",
    "unresolved": "the runs are too few or too noisy to say",
    "not run": "there are no runs that decide",
}
"""The outcomes of a claim and what they mean."""

# Claims that the older reduced runs no longer decide once a network at real accuracy is complete for all its planned seeds.
_REPLACED = ("E6", "E8", "E11", "E12", "B1", "B2")
_FAMILY = {"cifar10": "cifar10", "cifar10-jpeg": "cifar10", "cifar100": "many", "tiny-imagenet": "many"}
_SCOPE = {"E12": ("cifar100", "tiny-imagenet")}  # data sets that a claim speaks of; others are shown beside


@dataclass(frozen=True)
class Part:
    """One part of a claim: its criterion, and a finding for each variant.

    Attributes:
        id: letter of the part.
        criterion: the sentence written down before the runs.
        findings: one for each variant, those that are only shown among them.
    """

    id: str
    criterion: str
    findings: tuple[Finding, ...]

    @property
    def deciding(self) -> tuple[Finding, ...]:
        """The findings that count."""
        return tuple(finding for finding in self.findings if finding.decides)

    @property
    def outcome(self) -> str:
        """Its outcome in the variants that decide, or how many there are of each."""
        counts = {outcome: sum(finding.outcome == outcome for finding in self.deciding) for outcome in _OUTCOMES}
        there = {outcome: count for outcome, count in counts.items() if count}
        if len(there) < 2:
            return next(iter(there), "shown only" if self.findings else "not run")
        return ", ".join(f"{outcome} in {count}" for outcome, count in there.items()) + f" of {len(self.deciding)} variants"


_OUTCOMES: tuple[Outcome, ...] = ("met", "contradicted", "unresolved")


@dataclass(frozen=True)
class Verdict:
    """The answer to a claim.

    Attributes:
        claim: id in the ledger.
        parts: what it was made of.
    """

    claim: str
    parts: tuple[Part, ...]

    @property
    def deciding(self) -> tuple[Finding, ...]:
        """The findings that count, of all parts."""
        return tuple(finding for part in self.parts for finding in part.deciding)

    @property
    def verdict(self) -> Decision:
        """The outcome of the claim, one of :data:`VERDICTS`."""
        outcomes = {finding.outcome for finding in self.deciding}
        if not outcomes:
            return "not run"
        if "contradicted" in outcomes:
            return "mixed" if "met" in outcomes else "contradicted"
        if "met" not in outcomes:
            return "unresolved"
        every_part = all(part.deciding for part in self.parts if not (part.findings and not part.deciding))
        return "supported" if outcomes == {"met"} and every_part else "partly supported"

    @property
    def scale(self) -> str:
        """The scale of the runs behind it, such as ``"reduced"``; empty without runs."""
        return ", ".join(sorted({scale for finding in self.deciding for scale in finding.scale.split(", ") if scale}))

    @property
    def seeds(self) -> int:
        """The smallest number of pairs behind a comparison that counts."""
        return min((leaf.difference.n for finding in self.deciding for leaf in finding.leaves() if leaf.difference), default=0)

    @property
    def depends(self) -> str:
        """What a mixed outcome depends on: the parts, or what tells the variants that meet a part from those that contradict it."""
        if self.verdict != "mixed":
            return ""
        if phrases := [phrase for part in self.parts if (phrase := _told_apart(part))]:
            return "; ".join(phrases)
        parts = {
            outcome: ", ".join(part.id for part in self.parts if outcome in {finding.outcome for finding in part.deciding})
            for outcome in ("met", "contradicted")
        }
        return f"the part: met in {parts['met']}; contradicted in {parts['contradicted']}"

    @property
    def why(self) -> str:
        """One phrase for each part: its outcome."""
        return "; ".join(f"{part.id}: {part.outcome}" for part in self.parts)

    def to_frame(self) -> pd.DataFrame:
        """A table with a row for each comparison: the difference with its interval, the papers' effect, and the outcome."""
        rows: list[dict[str, object]] = []
        for part in self.parts:
            for finding in part.findings:
                leaves = list(finding.leaves())
                if len(leaves) > 1:
                    whole: dict[str, object] = {
                        "part": part.id,
                        "variant": finding.variant,
                        "compared": finding.text,
                        "outcome": _shown(finding),
                    }
                    rows.append(whole)
                for leaf in leaves:
                    difference = f"{leaf.difference:u}".replace("-", "\N{MINUS SIGN}")
                    row = {"variant": leaf.variant, "compared": leaf.text, "difference [95 % interval]": difference, "paper": leaf.paper}
                    rows.append({"part": part.id} | row | {"pairs": leaf.difference.n if leaf.difference else 0, "outcome": _shown(leaf)})
            if not part.findings:
                rows.append({"part": part.id, "outcome": "not run"})
        columns = ["part", "variant", "compared", "difference [95 % interval]", "paper", "pairs", "outcome"]
        return pd.DataFrame(rows, columns=columns).astype({"pairs": "Int64"})


def _shown(finding: Finding) -> str:
    return finding.outcome if finding.decides else f"({finding.outcome})"


def _told_apart(part: Part) -> str:
    """What tells the variants in which a part is met from those that contradict it; empty if it is not both."""
    names = {outcome: [finding.variant for finding in part.deciding if finding.outcome == outcome] for outcome in ("met", "contradicted")}
    if not all(names.values()):
        return ""
    fields = {outcome: [_fields(name) for name in found] for outcome, found in names.items()}
    for place in range(min(len(one) for found in fields.values() for one in found)):
        met, against = ({one[place] for one in fields[outcome]} for outcome in ("met", "contradicted"))
        if not met & against:
            return f"{part.id}: met with {', '.join(sorted(met))}, contradicted with {', '.join(sorted(against))}"
    return f"{part.id}: met in {'; '.join(names['met'])}, contradicted in {'; '.join(names['contradicted'])}"


def _fields(variant: str) -> list[str]:
    return variant.split(", ") if ", " in variant else variant.split("-")


@cache
def _criteria_file(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def criteria_file(folder: str | Path | None = None) -> dict[str, dict[str, str]]:
    """Read the sentences of ``campaigns/criteria.yml``: for each claim, for each part; those under ``planned`` wait for their runs.

    Example:
        >>> criteria_file()["E4"]["a"]
        'test accuracy is larger for beta 0.01 than for beta 1.'
    """
    content = _criteria_file(_campaigns(folder) / "criteria.yml")
    return {claim: dict(entry["parts"]) for claim, entry in content.items() if claim != "planned"}


def changes(folder: str | Path | None = None) -> pd.DataFrame:
    """Read every change of a rule: its date, the claims, what changed, what was known then, and why; for a table."""
    columns = ["date", "claims", "change", "known then", "why"]
    return pd.DataFrame(_criteria_file(_campaigns(folder) / "criteria-changes.yml"), columns=columns)


def _campaigns(folder: str | Path | None) -> Path:
    return Path(folder) if folder is not None else Path(__file__).resolve().parents[1] / "campaigns"


def verdict(claim: str, runs: pd.DataFrame, selected: dict[str, pd.DataFrame] | None = None) -> Verdict:
    """Decide a claim.

    Args:
        claim: one of :data:`study.criteria.CLAIMS`.
        runs: as :func:`study.records.read` gives them; variants with too few seeds do not count (:func:`study.criteria.least_seeds`).
        selected: the runs of each kind, kept from one claim to the next.

    Raises:
        ValueError: for a claim that has no criterion.
    """
    if claim not in CLAIMS:
        raise ValueError(f"claim {claim!r} has no criterion; valid: {', '.join(CLAIMS)}")
    parts = CLAIMS[claim]
    kinds = {} if selected is None else selected
    for kind in {part.kind for part in parts.values()} - kinds.keys():
        kinds[kind] = criteria.runs_of(runs, kind)
    found = {}
    for name, part in parts.items():
        decided = (part.rule(variant) for variant in _variants(kinds[part.kind], part.kind))
        found[name] = [replace(finding, decides=part.decides) for finding in decided if finding is not None]
    older = _older(claim, kinds[parts["a"].kind], {finding.variant for one in found.values() for finding in one})
    return Verdict(
        claim,
        tuple(
            Part(name, part.sentence, tuple(_shown_only(finding) if finding.variant in older else finding for finding in found[name]))
            for name, part in parts.items()
        ),
    )


def _variants(runs: pd.DataFrame, kind: str) -> Iterable[Variant]:
    unit = "title" if kind == "uci-tables" else "seed"
    for reading, of_reading in runs.groupby("variant") if not runs.empty else ():
        name = str(reading)
        fast = "model" in of_reading and bool(of_reading["model"].isin(images.FAST).all())
        yield Variant(name, of_reading, criteria.least_seeds(kind, name), unit, some=fast)


def _older(claim: str, runs: pd.DataFrame, there: set[str]) -> set[str]:
    """The variants that are only shown: of another data set than the claim's, or replaced by a complete network at real accuracy."""
    if runs.empty or "dataset" not in runs:
        return set()
    datasets = runs.groupby("variant")["dataset"].first()
    outside = {str(name) for name, dataset in datasets.items() if claim in _SCOPE and dataset not in _SCOPE[claim]}
    if claim not in _REPLACED:
        return outside
    families = {_FAMILY[datasets[name]] for name in images.complete(runs) & there}
    of_fast = set(runs.loc[runs["model"].isin(images.FAST), "variant"])
    paper = set(runs.loc[runs["scale"] == "paper", "variant"])
    replaced = {str(name) for name, dataset in datasets.items() if _FAMILY[dataset] in families}
    return outside | (replaced - of_fast - paper)


def _shown_only(finding: Finding) -> Finding:
    return replace(finding, decides=False, components=tuple(map(_shown_only, finding.components)))


def verdicts(runs: pd.DataFrame | None = None) -> dict[str, Verdict]:
    """Decide every claim that has a criterion, from these runs or from the records of the repository."""
    runs = records.read(records.default_folder()) if runs is None else runs
    selected: dict[str, pd.DataFrame] = {}
    return {claim: verdict(claim, runs, selected) for claim in CLAIMS}


def findings(decided: Iterable[Verdict]) -> pd.DataFrame:
    """List every comparison behind some verdicts, with its p-value raw, corrected by Holm's method over all of them, and by sign flips.

    Returns:
        Columns ``claim``, ``part``, ``variant``, ``compared``, ``mean``, ``low``, ``high``, ``pairs``, ``outcome``, ``decides``, ``paper``,
        ``p``, ``p (Holm)`` and ``p (sign flips)``. A p-value is the level at which the interval would touch the rule's threshold.
    """
    rows = []
    for one in decided:
        for part in one.parts:
            for leaf in (leaf for finding in part.findings for leaf in finding.leaves()):
                assert leaf.difference is not None
                interval = leaf.difference.interval
                row = {"claim": one.claim, "part": part.id, "variant": leaf.variant, "compared": leaf.text, "mean": leaf.difference.mean}
                row |= {"low": interval.low, "high": interval.high, "pairs": leaf.difference.n, "outcome": leaf.outcome}
                rows.append(row | {"decides": leaf.decides, "paper": leaf.paper, "p": leaf.p_value, "difference": leaf.difference})
    columns = ["claim", "part", "variant", "compared", "mean", "low", "high", "pairs", "outcome", "decides", "paper", "p", "difference"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["p (Holm)"] = statistics.holm(frame["p"]) if rows else frame["p"]
    frame["p (sign flips)"] = [statistics.sign_flip_p(difference.values) for difference in frame["difference"]]
    return frame.drop(columns="difference")
