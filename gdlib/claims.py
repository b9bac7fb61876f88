"""Verdicts on the papers' claims, from records and from criteria that were written down before the runs (``campaigns/criteria.yml``).

A claim has parts. A part compares two settings run by run: paired over seeds, in each reading of what the papers leave unsaid. It is met
in a reading if the 95 % Student interval of the mean difference lies on the right side of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import yaml

from gdlib import published, records, statistics

__all__ = [
    "CLAIMS",
    "Finding",
    "Part",
    "Verdict",
    "criteria",
    "criteria_text",
    "distance_to_table_1",
    "nearest_reading",
    "runs_of",
    "verdict",
    "verdicts",
    "with_enough_seeds",
]

LEAST_SEEDS = 5
READINGS_ASKED = {"E1": 2, "E2": 2}  # relu-unit and the nearest (or next nearest) one; one reading is enough for the other claims
TABLE_1_BETAS = ("1", "0.5", "0.1", "0.01", "0.001")

Decision = Literal["holds", "holds in part", "does not hold", "not tested"]


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

        It is not tested until every part has a finding from as many readings as its criterion asks for.
        """
        states = {part.met for part in self.parts}
        if min((len(part.findings) for part in self.parts), default=0) < READINGS_ASKED.get(self.claim, 1):
            return "not tested"
        if states == {"met"}:
            return "holds"
        return "does not hold" if states == {"not met"} else "holds in part"

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


def criteria(folder: str | Path | None = None) -> dict[str, dict[str, str]]:
    """The sentences of ``campaigns/criteria.yml``: for each claim, for each part.

    Example:
        >>> criteria()["E4"]["a"]
        'test accuracy is larger for beta 0.01 than for beta 1.'
    """
    path = Path(folder) if folder is not None else Path(__file__).resolve().parents[1] / "campaigns"
    content = yaml.safe_load((path / "criteria.yml").read_text(encoding="utf-8"))
    return {claim: dict(entry["parts"]) for claim, entry in content.items()}


def criteria_text(claim: str) -> str:
    """The criteria of a claim as a Markdown list, for a page."""
    return "\n".join(f"- **({part})** {sentence}" for part, sentence in criteria()[claim].items())


def runs_of(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The runs of one kind out of the records of the MNIST campaign, with the columns that the criteria speak of.

    Args:
        runs: as :func:`gdlib.records.read` gives them.
        kind: ``"grid"`` (every β and both warm-ups), ``"feature-plane"``, ``"curriculum"``, ``"temperature"`` or ``"warmup-length"``.

    Returns:
        The runs with ``reading``; for the grid also ``lost`` (training samples with p_c ≤ 0.2), ``sure`` (p_c > 0.8) and
        ``early_cross_entropy`` (plain training cross-entropy, mean over epochs 1 to 10); for the curriculum ``epoch_easy`` (first epoch
        after which the easiest fifth reaches a mean confidence of 0.9; one more than the epochs if never) and ``gap`` (easiest minus
        hardest fifth, mean over the epochs).
    """
    if runs.empty:
        return runs
    entry = runs["record"].str.replace(r"-seed\d+\.json$", "", regex=True)
    kinds = ("feature-plane", "curriculum", "temperature", "warmup-length")
    if kind not in ("grid", *kinds):
        raise ValueError(f"unknown kind {kind!r}; valid: grid, {', '.join(kinds)}")
    chosen = entry.str.startswith(kind) if kind != "grid" else ~entry.str.startswith(kinds)
    found = runs[chosen & (runs["campaign"] == "mnist")].dropna(axis=1, how="all").copy()
    if found.empty:
        return found
    found["reading"] = found["activation"] + "-" + found["normalization"]
    if "confidence_counts" in found:
        found["lost"] = [counts[0] if isinstance(counts, list) else np.nan for counts in found["confidence_counts"]]
        found["sure"] = [counts[-1] if isinstance(counts, list) else np.nan for counts in found["confidence_counts"]]
    if kind == "grid":
        curves = zip(found["curve_train_epoch"], found["curve_train_cross_entropy"], strict=True)
        found["early_cross_entropy"] = [_mean_early(epochs, values) for epochs, values in curves]
    if kind == "curriculum":
        groups = np.array(found["group_confidence"].tolist())  # (runs, groups, epochs)
        reached = groups[:, -1] >= 0.9
        found["epoch_easy"] = np.where(reached.any(1), reached.argmax(1), groups.shape[2])
        found["gap"] = (groups[:, -1, 1:] - groups[:, 0, 1:]).mean(1)
    return found


def distance_to_table_1(grid: pd.DataFrame) -> pd.Series[float]:
    """How far each reading is from the papers' Table 1.

    The mean over the five columns of half the sum of the absolute differences of the five shares (total variation); counts are means over
    the seeds.

    Returns:
        The distance of each reading, the nearest first.
    """
    printed = published.table("GD-2", 1)
    distances = {}
    for reading, runs in grid.groupby("reading"):
        columns = []
        for beta in TABLE_1_BETAS:
            ours = np.mean(runs.loc[runs["schedule"] == beta, "confidence_counts"].tolist(), axis=0)
            theirs = printed.loc[np.isclose(printed["beta"].astype(float), float(beta)), "value"].to_numpy(dtype=float)
            columns.append(0.5 * np.abs(ours / ours.sum() - theirs / theirs.sum()).sum())
        distances[str(reading)] = float(np.mean(columns))
    return pd.Series(distances, name="distance", dtype=float).sort_values()


def nearest_reading(grid: pd.DataFrame) -> str:
    """The reading with at least five seeds whose Table 1 is nearest to the papers'."""
    return str(distance_to_table_1(with_enough_seeds(grid)).index[0])


# --- criteria as code ---


@dataclass(frozen=True)
class _Comparison:
    """``metric`` of schedule ``left`` minus that of ``right`` is on the side of 0 that ``larger`` says."""

    metric: str
    left: str
    right: str
    larger: bool

    def decide(self, reading: str, runs: pd.DataFrame) -> Finding:
        difference = _paired(runs, self.metric, self.left, self.right)
        met = difference.interval.low > 0 if self.larger else difference.interval.high < 0
        return Finding(reading, met, difference, f"{self.metric}, {self.left} against {self.right}")


def _rises_again(reading: str, runs: pd.DataFrame) -> Finding:
    """E3 b: more lost samples at 0.001 than at 0.5, and means that increase on the way."""
    compared = _Comparison("lost", "0.001", "0.5", larger=True).decide(reading, runs)
    means = [runs.loc[runs["schedule"] == beta, "lost"].mean() for beta in ("0.5", "0.1", "0.01", "0.001")]
    return Finding(reading, compared.met and means == sorted(means), compared.difference, compared.text + ", with increasing means between")


def _warmup_is_best(reading: str, runs: pd.DataFrame) -> Finding:
    """E4 c: one of the two warm-ups beats the best constant β."""
    constants = ["5", "2", "1", "0.1", "0.01"]
    best = max(constants, key=lambda beta: runs.loc[runs["schedule"] == beta, "test_accuracy"].mean())
    warmups = ["warm-up 0.001→0.01", "warm-up 0.01→0.1"]
    found = [_Comparison("test_accuracy", warmup, best, larger=True).decide(reading, runs) for warmup in warmups]
    return max(found, key=lambda finding: finding.difference.mean)


def _temperature_cannot(reading: str, runs: pd.DataFrame) -> Finding:
    """E14 a: the temperature with the nearest confidence leaves another number of lost samples."""
    plain = runs[runs["beta"] == 1]
    small = runs[(runs["beta"] == 0.01) & (runs["temperature"] == 1)].set_index("seed")
    target = small["train_confidence"].mean()
    means = {float(tau): plain.loc[plain["temperature"] == tau, "train_confidence"].mean() for tau in plain["temperature"].unique()}
    nearest = min(means, key=lambda tau: abs(means[tau] - target))
    tempered = plain[plain["temperature"] == nearest].set_index("seed")
    seeds = small.index.intersection(tempered.index)
    difference = statistics.paired_difference(small.loc[seeds, "lost"], tempered.loc[seeds, "lost"])
    return Finding(reading, difference.interval.excludes(0), difference, f"lost, β = 0.01 against τ = {nearest:g}")


def _both_are_better(reading: str, runs: pd.DataFrame) -> Finding:
    """E14 b: the pair chosen on validation beats the best β alone and the best τ alone, chosen likewise."""
    settings = sorted({(float(beta), float(tau)) for beta, tau in zip(runs["beta"], runs["temperature"], strict=True)})
    by_setting = {(beta, tau): runs[(runs["beta"] == beta) & (runs["temperature"] == tau)].set_index("seed") for beta, tau in settings}
    score = {setting: group["valid_accuracy"].mean() for setting, group in by_setting.items()}
    pair = max(score, key=lambda setting: score[setting])
    found = []
    for name, candidates in {
        "the best β at τ = 1": [setting for setting in score if setting[1] == 1],
        "the best τ at β = 1": [setting for setting in score if setting[0] == 1],
    }.items():
        other = max(candidates, key=lambda setting: score[setting])
        left, right = by_setting[pair]["test_accuracy"], by_setting[other]["test_accuracy"]
        difference = statistics.paired_difference(left, right.loc[left.index])
        met = pair != other and difference.interval.low > 0
        found.append(Finding(reading, met, difference, f"test accuracy, β = {pair[0]:g} with τ = {pair[1]:g} against {name}"))
    worst = min(found, key=lambda finding: finding.difference.mean)
    return Finding(reading, all(finding.met for finding in found), worst.difference, worst.text)


_Decide = Callable[[str, pd.DataFrame], Finding]

CLAIMS: Mapping[str, tuple[str, Mapping[str, _Decide]]] = {
    "E1": (
        "feature-plane",
        {
            "a": _Comparison("intra_inter_ratio", "0.1", "1", larger=False).decide,
            "b": _Comparison("minimum_to_mean_inter", "0.01", "0.1", larger=False).decide,
        },
    ),
    "E2": (
        "curriculum",
        {
            "a": _Comparison("epoch_easy", "0.01", "1", larger=False).decide,
            "b": _Comparison("gap", "0.01", "1", larger=True).decide,
            "c": _Comparison("never_learnt", "0.01", "1", larger=True).decide,
        },
    ),
    "E3": (
        "grid",
        {
            "a": _Comparison("lost", "0.001", "1", larger=True).decide,
            "b": _rises_again,
            "c": _Comparison("sure", "0.1", "1", larger=True).decide,
        },
    ),
    "E4": (
        "grid",
        {
            "a": _Comparison("test_accuracy", "0.01", "1", larger=True).decide,
            "b": _Comparison("test_accuracy", "1", "5", larger=True).decide,
            "c": _warmup_is_best,
        },
    ),
    "E5": (
        "grid",
        {
            "a": _Comparison("early_cross_entropy", "0.01", "1", larger=False).decide,
            "b": _Comparison("early_cross_entropy", "1", "5", larger=False).decide,
        },
    ),
    "E14": ("temperature", {"a": _temperature_cannot, "b": _both_are_better}),
}
"""For each claim the kind of runs that decide it, and a rule for each part."""


def verdict(claim: str, runs: pd.DataFrame) -> Verdict:
    """Decide a claim.

    Args:
        claim: one of :data:`CLAIMS`.
        runs: as :func:`gdlib.records.read` gives them; readings with fewer than five seeds do not count.

    Raises:
        ValueError: for a claim that has no criterion.
    """
    if claim not in CLAIMS:
        raise ValueError(f"claim {claim!r} has no criterion; valid: {', '.join(CLAIMS)}")
    kind, rules = CLAIMS[claim]
    sentences = criteria()[claim]
    found = runs_of(runs, kind)
    counted = with_enough_seeds(found)
    readings = sorted(counted["reading"].unique()) if not counted.empty else []
    parts = tuple(
        Part(part, sentences[part], tuple(decide(reading, counted[counted["reading"] == reading]) for reading in readings))
        for part, decide in rules.items()
    )
    scales = sorted(counted["scale"].unique()) if readings else []
    seeds = min((finding.difference.n for part in parts for finding in part.findings), default=0)
    return Verdict(claim, parts, ", ".join(scales), seeds)


def verdicts(folder: str | Path | None = None) -> list[Verdict]:
    """The verdicts on all claims that have a criterion, from the records of a folder (by default the repository's)."""
    runs = records.read(folder if folder is not None else records.default_folder())
    return [verdict(claim, runs) for claim in CLAIMS]


def with_enough_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the readings that decide: those with at least five seeds."""
    if runs.empty:
        return runs
    return runs[runs.groupby("reading")["seed"].transform("nunique") >= LEAST_SEEDS]


def _paired(runs: pd.DataFrame, metric: str, left: str, right: str) -> statistics.PairedDifference:
    """Paired difference of a metric between two schedules, over the seeds that both have."""
    columns = {name: runs[runs["schedule"] == name].set_index("seed")[metric] for name in (left, right)}
    seeds = columns[left].index.intersection(columns[right].index)
    return statistics.paired_difference(columns[left].loc[seeds].astype(float), columns[right].loc[seeds].astype(float))


def _mean_early(epochs: list[int], values: list[float], last: int = 10) -> float:
    """The mean of a curve over epochs 1 to ``last``."""
    return float(np.mean([value for epoch, value in zip(epochs, values, strict=True) if 1 <= epoch <= last]))
