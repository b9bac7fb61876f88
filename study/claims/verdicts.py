"""Verdicts on claims, from the runs that they are asked of."""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace

import pandas as pd

from study import published, results, statistics
from study.claims.compare import Finding, Outcome, VariantRuns
from study.claims.evidence import complete, counted, measured, runs_of, with_facts
from study.claims.load import Claim, ledger
from study.claims.meaning import ask
from study.claims.narrowing import by_variant
from study.claims.selections import selection
from study.variants import Variant

VERDICTS: Mapping[str, str] = {
    "supported": "its primary part is met in every variant that decides",
    "partly supported": "its primary part is met in some variants and contradicted in none",
    "mixed": "its primary part is met in some variants and contradicted in others",
    "contradicted": "its primary part is contradicted in some variants and met in none",
    "unresolved": (
        "its primary part is nowhere met or contradicted: the runs are too few or too noisy,"
        " or there is next to no difference"
    ),
    "outside the premise": "no network with such runs has learnt its training images",
    "not run": "there are no runs that decide",
}
"""The outcomes of a claim and what they mean."""

_FEW, _MANY = "few classes", "many classes"
_KINDS_OF_DATA: Mapping[str, str] = {
    "cifar10": _FEW,
    "cifar10-jpeg": _FEW,
    "cifar100": _MANY,
    "tiny-imagenet": _MANY,
}
"""Runs of the small network on one of them replace older runs on another of its kind."""

_OUTCOMES: tuple[Outcome, ...] = ("met", "contradicted", "unresolved")


def counts(findings: Iterable[Finding]) -> dict[Outcome, int]:
    """Count the findings that decide by their outcome; what does not occur is left out."""
    outcomes = [finding.outcome for finding in findings if finding.decides]
    return {one: outcomes.count(one) for one in _OUTCOMES if one in outcomes}


@dataclass(frozen=True)
class DecidedPart:
    """One part of a claim: its letter, the sentence written before the runs, and its findings."""

    id: str
    sentence: str
    findings: tuple[Finding, ...]

    @property
    def deciding(self) -> tuple[Finding, ...]:
        """The findings that count."""
        return tuple(finding for finding in self.findings if finding.decides)

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many of the variants that decide have each outcome; without those that none has."""
        return counts(self.findings)

    @property
    def outcome(self) -> str:
        """Its outcome in the variants that decide, or how many there are of each."""
        counts = self.counts
        if len(counts) == 1:
            return next(iter(counts))
        if counts:
            each = ", ".join(f"{outcome} in {count}" for outcome, count in counts.items())
            return f"{each} of {len(self.deciding)} variants"
        if any(finding.outside for finding in self.findings):
            return "outside the premise"
        return "shown only" if self.findings else "not run"

    def variants(self, outcome: Outcome) -> list[Variant]:
        """List the variants that decide and have this outcome."""
        return [finding.variant for finding in self.deciding if finding.outcome == outcome]


@dataclass(frozen=True)
class Verdict:
    """The answer to a claim, and the parts that it was made of."""

    claim: str
    parts: tuple[DecidedPart, ...]
    primary: str

    @property
    def deciding(self) -> tuple[Finding, ...]:
        """The findings that count, of all parts."""
        return tuple(finding for part in self.parts for finding in part.deciding)

    @property
    def primary_part(self) -> DecidedPart:
        """The part that the verdict's word follows."""
        return next(part for part in self.parts if part.id == self.primary)

    @property
    def verdict(self) -> str:
        """The outcome of the claim, one of :data:`VERDICTS`."""
        part = self.primary_part
        outcomes = {finding.outcome for finding in part.deciding}
        if not outcomes:
            return "outside the premise" if part.outcome == "outside the premise" else "not run"
        if "contradicted" in outcomes:
            return "mixed" if "met" in outcomes else "contradicted"
        if "met" in outcomes:
            return "supported" if outcomes == {"met"} else "partly supported"
        return "unresolved"

    @property
    def outcomes(self) -> dict[str, dict[Outcome, int]]:
        """In how many variants each part that anything decides has which outcome."""
        return {part.id: part.counts for part in self.parts if part.deciding}

    @property
    def scales(self) -> tuple[str, ...]:
        """The scales of the runs behind it."""
        scales = {scale for finding in self.deciding for scale in finding.scales}
        return tuple(sorted(scales))

    @property
    def seeds(self) -> int:
        """The smallest number of units behind a comparison that counts."""
        comparisons = [one for finding in self.deciding for one in finding.comparisons()]
        return min((one.difference.n for one in comparisons if one.difference), default=0)

    @property
    def depends(self) -> str:
        """What a mixed outcome depends on: what tells the variants that meet the primary part."""
        return _separating(self.primary_part) if self.verdict == "mixed" else ""

    @property
    def why(self) -> str:
        """One phrase for each part: its outcome."""
        return "; ".join(f"{part.id}: {part.outcome}" for part in self.parts)


def _separating(part: DecidedPart) -> str:
    """Tell what separates the variants in which a part is met from those that contradict it.

    It is the first field that all of them say something in, and in which none that meets the part
    is like one that contradicts it. Without such a field the variants are named.
    """
    met, against = part.variants("met"), part.variants("contradicted")
    for field in fields(Variant):
        words_met = {variant.word(field.name) for variant in met}
        words_against = {variant.word(field.name) for variant in against}
        if "" in words_met | words_against or words_met & words_against:
            continue
        return (
            f"met with {', '.join(sorted(words_met))}, "
            f"contradicted with {', '.join(sorted(words_against))}"
        )
    shorts = [variant.short for variant in (*met, *against)]
    names = shorts if len(set(shorts)) == len(shorts) else list(map(str, (*met, *against)))
    names_met, names_against = names[: len(met)], names[len(met) :]
    return f"met in {'; '.join(names_met)}, contradicted in {'; '.join(names_against)}"


def verdicts(
    runs: pd.DataFrame | None = None, claims: Iterable[str] | None = None
) -> dict[str, Verdict]:
    """Decide claims from runs.

    Args:
        runs: as :func:`study.records.read` gives them; the results of the repository, if none are
            given, and their verdicts are kept.
        claims: all that have parts, if none are named.
    """
    decide = _of_the_results(results.stamps()) if runs is None else _deciding(runs)
    asked = claims if claims is not None else [name for name in ledger() if ledger()[name].parts]
    return {claim: decide(claim) for claim in asked}


@functools.lru_cache(1)
def _of_the_results(state: object) -> Callable[[str], Verdict]:
    """Decide claims from the results of the repository, each once while the files stay."""
    return functools.cache(_deciding(results.everything()))


def _deciding(runs: pd.DataFrame) -> Callable[[str], Verdict]:
    """Decide claims from runs, one by one."""
    known = with_facts(runs)

    @functools.cache
    def selected(name: str) -> list[VariantRuns]:
        return list(variants(measured(known, selection(name)), name))

    return lambda claim: _decided(claim, _parts(claim, selected))


def _parts(claim: str, selected: Callable[[str], Iterable[VariantRuns]]) -> tuple[DecidedPart, ...]:
    """Ask the variants of the runs what they say of a claim; outside its premise it is shown."""
    written = ledger()[claim]
    parts = []
    for letter, part in written.parts.items():
        findings = []
        for runs in selected(part.runs):
            finding = ask(part, runs)
            if finding is None:
                continue
            holds = not written.premise or runs.learnt >= written.premise
            findings.append(finding if holds else finding.only_shown(outside=True))
        parts.append(DecidedPart(letter, part.sentence, tuple(findings)))
    return tuple(parts)


def _decided(claim: str, parts: tuple[DecidedPart, ...]) -> Verdict:
    """Decide a claim, after Holm's correction for all of its comparisons that decide."""
    parts = _with_older_beside(claim, parts)
    comparisons = [
        one
        for part in parts
        for finding in part.deciding
        for one in finding.comparisons()
    ]  # fmt: skip
    corrected = iter(statistics.holm([one.p_value for one in comparisons]))
    decided = tuple(_with_corrected(part, corrected) for part in parts)
    return Verdict(claim, decided, ledger()[claim].primary)


def _with_corrected(part: DecidedPart, p_values: Iterator[float]) -> DecidedPart:
    """Copy a part with corrected p-values, in the order of the comparisons that decide."""
    findings = tuple(one.with_corrected(p_values) if one.decides else one for one in part.findings)
    return replace(part, findings=findings)


def _with_older_beside(claim: str, parts: tuple[DecidedPart, ...]) -> tuple[DecidedPart, ...]:
    """Let findings on other data than the claim's, and replaced older runs, be shown only."""
    written = ledger()[claim]
    older = replaced([claim], (finding.variant for part in parts for finding in part.findings))
    return tuple(_with_some_shown(written, part, older) for part in parts)


def _with_some_shown(written: Claim, part: DecidedPart, older: Set[Variant]) -> DecidedPart:
    variants = {finding.variant for finding in part.findings}
    if written.older_runs == "replaced part by part" and any(one.on_fast for one in variants):
        older = {one for one in variants if not one.on_fast and _kind_of_data(one)}
    findings = []
    for finding in part.findings:
        dataset = finding.variant.dataset
        is_elsewhere = written.decided_on and dataset not in written.decided_on
        is_older = finding.variant in older and "paper" not in finding.scales
        shown = is_elsewhere or is_older
        findings.append(finding.only_shown(outside=finding.outside) if shown else finding)
    return replace(part, findings=tuple(findings))


def variants(runs: pd.DataFrame, name: str) -> Iterator[VariantRuns]:
    """List the variants that are not under way, so that no outcome changes with each record.

    With :data:`FAST` all planned methods have all planned seeds, and others that were begun are
    left out until they have enough. Where a selection says ``all_or_none`` every method that was
    begun has enough. Folds are the units where ten-fold cross-validations of one data set are
    repeated.

    Args:
        runs: as :func:`study.claims.runs_of` selects them.
        name: of the selection.
    """
    wanted = selection(name)
    repeated = "title" if wanted.unit == "title" else "seed"
    for variant, group in by_variant(runs):
        fast = variant.on_fast
        group, least = counted(group, wanted, variant)
        columns = ["method", "step"] if fast else _GROUPED_BY
        by = [group[name] for name in columns if name in group]
        enough = group[repeated].groupby(by, dropna=False).transform("nunique") >= least
        if wanted.all_or_none and not enough.all():
            continue
        kept = group[enough] if fast else group
        if fast and not (len(kept) and complete(kept, wanted, variant)):
            continue
        if wanted.unit == "fold":
            yield VariantRuns(variant, _folds(kept), least, "fold", resampled=_FOLD)
        else:
            yield VariantRuns(variant, kept, least, wanted.unit, some=fast)


_GROUPED_BY = ["method", "learning_rate", "input_scale", "first_weights"]
_FOLD = 1 / 9  # test over training samples with ten folds


def _folds(runs: pd.DataFrame) -> pd.DataFrame:
    """Take cross-validations apart into their folds, which methods with the same seed share."""
    each = runs.explode("fold_accuracies", ignore_index=True)
    number = each.groupby(["seed", "method", "depth"]).cumcount()
    fold = each["seed"].astype(str) + "/" + number.astype(str)
    return each.assign(fold=fold, test_accuracy=each["fold_accuracies"].astype(float))


def deciding(runs: pd.DataFrame, name: str, claims: Iterable[str]) -> list[Variant]:
    """List the variants of a selection that are not under way and decide such claims."""
    there = {one.variant: one for one in variants(runs_of(runs, name), name)}
    older = replaced(claims, there)
    return [
        variant for variant, one in there.items() if variant not in older or "paper" in one.scales
    ]


def replaced(claims: Iterable[str], variants: Iterable[Variant]) -> set[Variant]:
    """List the variants of older runs that do not decide such claims.

    The small network decides instead, on the same kind of data.
    """
    if all(ledger()[claim].older_runs != "replaced" for claim in claims):
        return set()
    there = set(variants)
    newer = {_kind_of_data(variant) for variant in there if variant.on_fast}
    return {variant for variant in there if not variant.on_fast and _kind_of_data(variant) in newer}


def _kind_of_data(variant: Variant) -> str:
    return _KINDS_OF_DATA.get(variant.dataset, "")


def findings(decided: Iterable[Verdict]) -> pd.DataFrame:
    """List every comparison behind some verdicts, with its p-values.

    The p-values are raw (the level at which the interval would touch the rule's threshold), and
    corrected by Holm's method over the comparisons of the claim that decide.
    """
    rows = [
        {
            "claim": one.claim,
            "part": one.part,
            "variant": str(one.finding.variant),
            "compared": one.finding.text,
            "mean": one.difference.mean,
            "low": one.difference.interval.low,
            "high": one.difference.interval.high,
            "pairs": one.difference.n,
            "outcome": one.finding.outcome,
            "decides": one.finding.decides,
            "outside": one.finding.outside,
            "notes": ", ".join(one.finding.notes),
            "paper": published.written(one.finding.paper),
            "p": one.finding.p_value,
            "p (Holm)": one.finding.corrected,
        }
        for one in _comparisons(decided)
    ]
    return pd.DataFrame(rows)


def seeds_needed(decided: Iterable[Verdict], runs: pd.DataFrame) -> pd.DataFrame:
    """Count the seeds with which intervals would exclude 0 four times of five.

    They are counted for effects as the papers print them and as observed, if differences deviate as
    they did. The comparisons are those with 0 that are unresolved, and those of the small network
    as its first three seeds have them, whatever came of them later.
    """
    known = with_facts(runs)

    @functools.cache
    def first_seeds(name: str) -> list[VariantRuns]:
        return [
            VariantRuns(variant, group[group["seed"] < 3], 3, some=True)
            for variant, group in by_variant(measured(known, selection(name)))
            if variant.on_fast
        ]

    of_seeds = [one for one in decided if _has_seeds(one.claim)]
    listed = [
        one
        for one in _comparisons(of_seeds)
        if one.finding.outcome == "unresolved" and not one.finding.variant.on_fast
    ]
    for claim, written in ledger().items():
        if written.parts:
            verdict = Verdict(claim, _parts(claim, first_seeds), written.primary)
            listed += _comparisons([verdict])
    rows = []
    for one in listed:
        if not one.finding.against_zero:
            continue
        deviation = one.difference.error * math.sqrt(one.difference.n)
        ends = [abs(end) for effect in one.finding.paper for end in (effect.low, effect.high)]
        printed = sorted(filter(None, ends))
        rows.append(
            {
                "part": f"{one.claim} {one.part}",
                "variant": str(one.finding.variant),
                "compared": one.finding.text,
                "seeds": one.difference.n,
                "deviation": deviation,
                "seeds for the papers' effect": _needed(printed[-1:] + printed[:1], deviation),
                "seeds for the observed effect": _needed([one.difference.mean], deviation),
            }
        )
    return pd.DataFrame(rows)


def _has_seeds(claim: str) -> bool:
    """Tell if the units of a claim are seeds, not data sets or folds."""
    parts = ledger()[claim].parts.values()
    return all(selection(part.runs).unit == "seed" for part in parts)


def _needed(effects: Sequence[float], deviation: float) -> str:
    """Write the numbers of seeds for some effects, such as ``"4 to 12"``."""
    needed = [
        statistics.pairs_needed(effect, deviation) if deviation else None for effect in effects
    ]
    return " to ".join(dict.fromkeys(str(count or "more than 1,000") for count in needed))


@dataclass(frozen=True)
class _Compared:
    """A single comparison, with the claim and the part that it stands in."""

    claim: str
    part: str
    finding: Finding
    difference: statistics.Difference


def _comparisons(decided: Iterable[Verdict]) -> Iterator[_Compared]:
    """Go through the single comparisons of claims, each with its part and its difference."""
    for verdict in decided:
        for part in verdict.parts:
            for finding in part.findings:
                for comparison in finding.comparisons():
                    assert comparison.difference is not None
                    yield _Compared(verdict.claim, part.id, comparison, comparison.difference)
