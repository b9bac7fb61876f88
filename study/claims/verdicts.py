"""From criteria and records to verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import yaml

from study import records
from study.claims import angular, images, large_margin, margins, mnist, uci
from study.claims.findings import Decide, Part, Verdict

__all__ = ["CLAIMS", "criteria", "criteria_text", "least_seeds", "nearest_reading", "runs_of", "verdict", "verdicts", "with_enough_seeds"]

CLAIMS: Mapping[str, tuple[str, Mapping[str, Decide]]] = {
    **mnist.RULES,
    **images.RULES,
    **margins.RULES,
    **uci.RULES,
    **large_margin.RULES,
    **angular.RULES,
}
"""For each claim the kind of runs that decide it, and a rule for each part."""

_KINDS: Sequence[tuple[Sequence[str], Callable[[pd.DataFrame, str], pd.DataFrame]]] = (
    (mnist.KINDS, mnist.mnist_runs),
    (images.KINDS, images.image_runs),
    (margins.KINDS, lambda runs, kind: margins.margin_runs(runs)),
    (uci.KINDS, uci.uci_runs),
    (large_margin.KINDS, large_margin.large_margin_runs),
    (angular.KINDS, angular.angular_runs),
)


def criteria(folder: str | Path | None = None) -> dict[str, dict[str, str]]:
    """The sentences of ``campaigns/criteria.yml``: for each claim, for each part.

    Example:
        >>> criteria()["E4"]["a"]
        'test accuracy is larger for beta 0.01 than for beta 1.'
    """
    path = Path(folder) if folder is not None else Path(__file__).resolve().parents[2] / "campaigns"
    content = yaml.safe_load((path / "criteria.yml").read_text(encoding="utf-8"))
    return {claim: dict(entry["parts"]) for claim, entry in content.items() if claim != "planned"}  # planned: no runs yet, no code yet


def criteria_text(claim: str) -> str:
    """The criteria of a claim as a Markdown list, for a page."""
    return "\n".join(f"- **({part})** {sentence}" for part, sentence in criteria()[claim].items())


def runs_of(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The runs of one kind, each with its ``reading`` and the columns that the criteria speak of.

    Args:
        runs: as :func:`study.records.read` gives them.
        kind: of MNIST (:func:`study.claims.mnist_runs`) ``"grid"``, ``"feature-plane"``, ``"curriculum"``, ``"temperature"`` or
            ``"warmup-length"``; of image networks (:func:`study.claims.image_runs`) ``"images"``, ``"cifar10"``, ``"many-classes"``,
            ``"tiny-imagenet"``, ``"oscillation"`` or ``"matched"``, and beside other losses (:func:`study.claims.margin_runs`)
            ``"margins"``; of tables (:func:`study.claims.uci_runs`) ``"uci"`` or ``"uci-depth"``; of the large-margin losses
            (:func:`study.claims.large_margin_runs`) ``"large-margin"`` or ``"degraded"``; of ArcGrad's images
            (:func:`study.claims.angular_runs`) ``"angular"``, ``"angular-images"``, ``"angular-cuts"`` or ``"cost"``.

    Raises:
        ValueError: for another kind.
    """
    for kinds, of_kind in _KINDS:
        if kind in kinds:
            return runs if runs.empty else of_kind(runs, kind)
    raise ValueError(f"unknown kind {kind!r}; valid: {', '.join(name for kinds, _ in _KINDS for name in kinds)}")


def verdict(claim: str, runs: pd.DataFrame) -> Verdict:
    """Decide a claim.

    Args:
        claim: one of :data:`CLAIMS`.
        runs: as :func:`study.records.read` gives them; readings with too few seeds do not count (see :func:`least_seeds`).

    Raises:
        ValueError: for a claim that has no criterion.
    """
    if claim not in CLAIMS:
        raise ValueError(f"claim {claim!r} has no criterion; valid: {', '.join(CLAIMS)}")
    kind, rules = CLAIMS[claim]
    sentences = criteria()[claim]
    found = runs_of(runs, kind)
    readings = [(str(reading), of_reading) for reading, of_reading in found.groupby("reading")] if not found.empty else []
    readings = [(name, of_reading) for name, of_reading in readings if of_reading["seed"].nunique() >= least_seeds(kind, name)]
    parts = []
    for part, decide in rules.items():
        findings = [finding for reading in readings if (finding := decide(*reading)) is not None]
        counted = tuple(finding for finding in findings if finding.difference.n >= least_seeds(kind, finding.reading))
        parts.append(Part(part, sentences[part], counted))
    scales = sorted({scale for _, of_reading in readings for scale in of_reading["scale"].unique()})
    seeds = min((finding.difference.n for part in parts for finding in part.findings), default=0)
    return Verdict(claim, tuple(parts), ", ".join(scales), seeds)


def verdicts(folder: str | Path | None = None) -> list[Verdict]:
    """The verdicts on all claims that have a criterion, from the records of a folder (by default the repository's)."""
    runs = records.read(folder if folder is not None else records.default_folder())
    return [verdict(claim, runs) for claim in CLAIMS]


def least_seeds(kind: str, reading: str = "") -> int:
    """How many seeds a reading needs to decide anything.

    Five on MNIST, three with image networks, ten cross-validations of tables, five repetitions of a time. A kind that has readings of MNIST
    beside those of image networks needs the name of the reading.
    """
    if kind in uci.KINDS:
        return 10
    return 5 if kind in mnist.KINDS or kind == "cost" or reading.startswith("mnist") else 3


def with_enough_seeds(runs: pd.DataFrame, least: int = 5) -> pd.DataFrame:
    """The runs of the readings that decide: those with at least so many seeds."""
    if runs.empty:
        return runs
    return runs[runs.groupby("reading")["seed"].transform("nunique") >= least]


def nearest_reading(grid: pd.DataFrame) -> str:
    """The reading of MNIST with enough seeds whose Table 1 is nearest to the papers'."""
    return str(mnist.distance_to_table_1(with_enough_seeds(grid)).index[0])
