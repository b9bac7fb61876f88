"""Verdicts on the papers' claims, from records and criteria."""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from study import criteria, records, statistics
from study.criteria import CLAIMS, Finding, Outcome, Variant, on_fast

VERDICTS: Mapping[str, str] = {
    "supported": "every part is met in every variant",
    "partly supported": "some findings are met, none is contradicted",
    "mixed": "met here, contradicted there",
    "contradicted": "some findings are contradicted, none is met",
    "unresolved": "the runs are too few or too noisy to say",
    "not run": "there are no runs that decide",
}
"""The outcomes of a claim and what they mean."""

# Claims that the older reduced runs no longer decide once a network at real accuracy does on such
# data; the second list part by part.
_REPLACED = ("E6", "E8", "E11", "E12", "B1", "B2")
_REPLACED_IN_PARTS = ("E10", "E13", "L3", "L4", "L6", "L10", "A4", "A6")
_FAMILY = {
    "cifar10": "cifar10",
    "cifar10-jpeg": "cifar10",
    "cifar100": "many",
    "tiny-imagenet": "many",
}
_SCOPE = {
    "E12": ("cifar100", "tiny-imagenet")
}  # data sets that a claim speaks of; others are shown beside

_OUTCOMES: tuple[Outcome, ...] = ("met", "contradicted", "unresolved")


@dataclass(frozen=True)
class Part:
    """One part of a claim: its letter, the sentence written down before the runs, and a finding for each variant."""

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
        outcomes = [finding.outcome for finding in self.deciding]
        there = [outcome for outcome in _OUTCOMES if outcome in outcomes]
        if len(there) < 2:
            return there[0] if there else "shown only" if self.findings else "not run"
        return (
            ", ".join(f"{outcome} in {outcomes.count(outcome)}" for outcome in there)
            + f" of {len(outcomes)} variants"
        )

    def names(self, outcome: Outcome) -> list[str]:
        """List the variants that decide and have this outcome."""
        return [finding.variant for finding in self.deciding if finding.outcome == outcome]


@dataclass(frozen=True)
class Verdict:
    """The answer to a claim, and the parts that it was made of."""

    claim: str
    parts: tuple[Part, ...]

    @property
    def deciding(self) -> tuple[Finding, ...]:
        """The findings that count, of all parts."""
        return tuple(finding for part in self.parts for finding in part.deciding)

    @property
    def verdict(self) -> str:
        """The outcome of the claim, one of :data:`VERDICTS`."""
        outcomes = {finding.outcome for finding in self.deciding}
        if not outcomes:
            return "not run"
        if "contradicted" in outcomes:
            return "mixed" if "met" in outcomes else "contradicted"
        if "met" not in outcomes:
            return "unresolved"
        every_part = all(part.deciding for part in self.parts if part.outcome != "shown only")
        return "supported" if outcomes == {"met"} and every_part else "partly supported"

    @property
    def scale(self) -> str:
        """The scale of the runs behind it, such as ``"reduced"``; empty without runs."""
        return ", ".join(
            sorted(
                {scale for finding in self.deciding for scale in finding.scale.split(", ") if scale}
            )
        )

    @property
    def seeds(self) -> int:
        """The smallest number of pairs behind a comparison that counts."""
        return min(
            (
                leaf.difference.n
                for finding in self.deciding
                for leaf in finding.leaves()
                if leaf.difference
            ),
            default=0,
        )

    @property
    def depends(self) -> str:
        """What a mixed outcome depends on: the parts, or what tells the variants that meet a part from those that contradict it."""
        if self.verdict != "mixed":
            return ""
        if phrases := [phrase for part in self.parts if (phrase := _told_apart(part))]:
            return "; ".join(phrases)
        met, against = (
            ", ".join(part.id for part in self.parts if part.names(outcome))
            for outcome in _OUTCOMES[:2]
        )
        return f"the part: met in {met}; contradicted in {against}"

    @property
    def why(self) -> str:
        """One phrase for each part: its outcome."""
        return "; ".join(f"{part.id}: {part.outcome}" for part in self.parts)


def _told_apart(part: Part) -> str:
    """What tells the variants in which a part is met from those that contradict it; empty if it is not both."""
    met, against = part.names("met"), part.names("contradicted")
    if not met or not against:
        return ""
    fields_met, fields_against = (
        zip(*map(_fields, names), strict=False) for names in (met, against)
    )
    for with_met, with_against in zip(fields_met, fields_against, strict=False):
        if not set(with_met) & set(with_against):
            return f"{part.id}: met with {', '.join(sorted(set(with_met)))}, contradicted with {', '.join(sorted(set(with_against)))}"
    return f"{part.id}: met in {'; '.join(met)}, contradicted in {'; '.join(against)}"


def _fields(variant: str) -> list[str]:
    return variant.split(", ") if ", " in variant else variant.split("-")


def verdicts(
    runs: pd.DataFrame | None = None, claims: Iterable[str] = CLAIMS
) -> dict[str, Verdict]:
    """Decide claims, all that have a criterion if none are named, from these runs or from the records of the repository."""
    measured = records.read(records.FOLDER) if runs is None else runs

    @functools.cache
    def of_kind(kind: str) -> list[Variant]:
        return list(variants(criteria.runs_of(measured, kind), kind))

    return {claim: _counted(claim, _parts(claim, of_kind)) for claim in claims}


def _parts(claim: str, of_kind: Callable[[str], Iterable[Variant]]) -> tuple[Part, ...]:
    """What the variants of each kind say of a claim."""
    return tuple(
        Part(letter, part.sentence, part.findings(of_kind(part.kind)))
        for letter, part in CLAIMS[claim].items()
    )


def _counted(claim: str, parts: tuple[Part, ...]) -> Verdict:
    """Let what is out of a claim's scope, and the older runs that a network at real accuracy replaced, be shown and decide nothing."""
    everywhere = replaced(
        (claim,), (finding.variant for part in parts for finding in part.findings)
    )

    def counted(part: Part) -> Part:
        in_part = claim in _REPLACED_IN_PARTS and any(
            on_fast(finding.variant) for finding in part.findings
        )

        def shown(finding: Finding) -> Finding:
            data, fast = finding.variant.partition(", ")[0], on_fast(finding.variant)
            older = finding.variant in everywhere or (in_part and data in _FAMILY and not fast)
            outside = claim in _SCOPE and data not in _SCOPE[claim]
            return (
                finding.only_shown()
                if outside or (older and "paper" not in finding.scale)
                else finding
            )

        return replace(part, findings=tuple(map(shown, part.findings)))

    return Verdict(claim, tuple(map(counted, parts)))


def variants(runs: pd.DataFrame, kind: str) -> Iterator[Variant]:
    """List the variants that are not under way, so that no outcome changes with each record that lands.

    With :data:`FAST` all planned settings have all planned seeds, and others that were begun are
    left out until they have enough. In the studies of step and long tail every arm that was begun
    has enough.
    """
    for name, group in runs.groupby("variant") if not runs.empty else ():
        least, fast, unit = (
            criteria.least_seeds(kind, str(name)),
            on_fast(str(name)),
            "title" if kind == "uci-tables" else "seed",
        )
        arms = (
            ["setting", "arm"]
            if fast
            else ["setting", "learning_rate", "input_scale", "first_weights"]
        )
        enough = (
            group[unit]
            .groupby([group[column].astype(str) for column in arms if column in group])
            .transform("nunique")
            >= least
        )
        if kind in ("step", "long-tailed") and not enough.all():
            continue
        counted = group[enough] if fast else group
        if not fast or (len(counted) and criteria.complete(counted, kind)):
            yield Variant(str(name), counted, least, unit, some=fast)


def replaced(claims: Iterable[str], variants: Iterable[str]) -> set[str]:
    """List the variants of older runs that do not decide such claims, since a network at real accuracy does on the same kind of data."""
    names = set(variants) if set(claims) & set(_REPLACED) else set()
    family = {name: _FAMILY.get(name.partition(", ")[0], "") for name in names}
    return {
        name
        for name in names
        if not on_fast(name)
        and family[name] in {family[other] for other in names if on_fast(other)}
    }


def findings(decided: Iterable[Verdict]) -> pd.DataFrame:
    """List every comparison behind some verdicts, with its p-value raw, corrected by Holm's method over all of them, and by sign flips.

    A p-value is the level at which the interval would touch the rule's threshold.
    """
    from statsmodels.stats.multitest import (
        multipletests,
    )  # here, since it takes a second to import and one page needs it

    rows = [
        {"claim": claim, "part": part, "variant": leaf.variant, "compared": leaf.text}
        | {
            "mean": found.mean,
            "low": found.interval.low,
            "high": found.interval.high,
            "pairs": found.n,
        }
        | {"outcome": leaf.outcome, "decides": leaf.decides, "paper": leaf.paper, "p": leaf.p_value}
        | {"p (sign flips)": statistics.sign_flip_p(found.values)}
        for claim, part, leaf, found in _comparisons(decided)
    ]
    frame = pd.DataFrame(rows)
    return (
        frame.assign(**{"p (Holm)": multipletests(frame["p"], method="holm")[1]}) if rows else frame
    )


def seeds_needed(decided: Iterable[Verdict], runs: pd.DataFrame) -> pd.DataFrame:
    """Count the seeds with which comparisons would be told from 0 four times of five, for effects as printed and as observed.

    Paired differences are taken to deviate as observed. The comparisons are those with 0 that are
    unresolved, and those of the small network as its first three seeds have them, whatever came of
    them later.
    """

    @functools.cache
    def first_seeds(kind: str) -> list[Variant]:
        selected = criteria.runs_of(runs, kind)
        groups = selected.groupby("variant") if len(selected) else ()
        return [
            Variant(str(name), of[of["seed"] < 3], 3, some=True)
            for name, of in groups
            if on_fast(str(name))
        ]

    unresolved = _comparisons(one for one in decided if one.claim != "A2")
    listed = [
        row for row in unresolved if row[2].outcome == "unresolved" and not on_fast(row[2].variant)
    ]
    listed += _comparisons(Verdict(claim, _parts(claim, first_seeds)) for claim in CLAIMS)
    rows = []
    for claim, letter, leaf, found in (
        row for row in listed if not re.search("within|by more than|less than", row[2].text)
    ):
        printed = sorted(
            abs(float(end)) for end in re.findall(r"(?<= )[+-]([0-9.]+)", leaf.paper) if float(end)
        )
        row = {
            "part": f"{claim} {letter}",
            "variant": leaf.variant,
            "compared": leaf.text,
            "pairs": found.n,
            "deviation": found.sd,
        }
        for name, effects in (
            ("the papers' effect", [*printed[-1:], *printed[:1]]),
            ("the observed effect", [found.mean]),
        ):
            needed = [
                statistics.pairs_needed(effect, found.sd) if found.sd else None
                for effect in effects
            ]
            row[f"seeds for {name}"] = " to ".join(
                dict.fromkeys(str(count or "more than 1,000") for count in needed)
            )
        rows.append(row)
    return pd.DataFrame(rows)


def _comparisons(
    decided: Iterable[Verdict],
) -> Iterator[tuple[str, str, Finding, statistics.PairedDifference]]:
    """Go through the single comparisons of claims, each with its part and its difference."""
    for claim, part in ((one.claim, part) for one in decided for part in one.parts):
        for leaf in (leaf for finding in part.findings for leaf in finding.leaves()):
            assert leaf.difference is not None
            yield claim, part.id, leaf, leaf.difference
