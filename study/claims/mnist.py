"""The runs of the MNIST campaign, how near each reading comes to the papers' Table 1, and the rules for E1 to E5 and E14."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from study import published, statistics
from study.claims.findings import Comparison, Decide, Finding, of_gradient_decay, warmup_is_best

__all__ = ["KINDS", "RULES", "TABLE_1_BETAS", "distance_to_table_1", "mnist_runs"]

KINDS = ("grid", "feature-plane", "curriculum", "temperature", "warmup-length")

TABLE_1_BETAS = ("1", "0.5", "0.1", "0.01", "0.001")


def mnist_runs(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The runs of one kind out of the records of the MNIST campaign, with the columns that the criteria speak of.

    Args:
        runs: as :func:`study.records.read` gives them.
        kind: one of :data:`KINDS`; ``"grid"`` holds every β and both warm-ups.

    Returns:
        The runs with ``reading``; for the grid also ``lost`` (training samples with p_c ≤ 0.2), ``sure`` (p_c > 0.8) and
        ``early_cross_entropy`` (plain training cross-entropy, mean over epochs 1 to 10); for the curriculum ``epoch_easy`` (first epoch
        after which the easiest fifth reaches a mean confidence of 0.9; one more than the epochs if never) and ``gap`` (easiest minus
        hardest fifth, mean over the epochs).
    """
    runs = of_gradient_decay(runs)
    entry = runs["record"].str.replace(r"-seed\d+\.json$", "", regex=True)
    chosen = entry.str.startswith(kind) if kind != "grid" else ~entry.str.startswith(KINDS[1:])
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


def _mean_early(epochs: list[int], values: list[float], last: int = 10) -> float:
    """The mean of a curve over epochs 1 to ``last``."""
    return float(np.mean([value for epoch, value in zip(epochs, values, strict=True) if 1 <= epoch <= last]))


# --- criteria as code ---


def _rises_again(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E3 b: more lost samples at 0.001 than at 0.5, and means that increase on the way."""
    compared = Comparison("lost", "0.001", "0.5", larger=True).decide(reading, runs)
    if compared is None:
        return None
    means = [runs.loc[runs["schedule"] == beta, "lost"].mean() for beta in ("0.5", "0.1", "0.01", "0.001")]
    return Finding(reading, compared.met and means == sorted(means), compared.difference, compared.text + ", with increasing means between")


def _warmup_is_best(reading: str, runs: pd.DataFrame) -> Finding | None:
    """E4 c: one of the two warm-ups beats the best constant β."""
    return warmup_is_best(reading, runs, ["warm-up 0.001→0.01", "warm-up 0.01→0.1"], ["5", "2", "1", "0.1", "0.01"])


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


RULES: Mapping[str, tuple[str, Mapping[str, Decide]]] = {
    "E1": (
        "feature-plane",
        {
            "a": Comparison("intra_inter_ratio", "0.1", "1", larger=False).decide,
            "b": Comparison("minimum_to_mean_inter", "0.01", "0.1", larger=False).decide,
        },
    ),
    "E2": (
        "curriculum",
        {
            "a": Comparison("epoch_easy", "0.01", "1", larger=False).decide,
            "b": Comparison("gap", "0.01", "1", larger=True).decide,
            "c": Comparison("never_learnt", "0.01", "1", larger=True).decide,
        },
    ),
    "E3": (
        "grid",
        {
            "a": Comparison("lost", "0.001", "1", larger=True).decide,
            "b": _rises_again,
            "c": Comparison("sure", "0.1", "1", larger=True).decide,
        },
    ),
    "E4": (
        "grid",
        {
            "a": Comparison("test_accuracy", "0.01", "1", larger=True).decide,
            "b": Comparison("test_accuracy", "1", "5", larger=True).decide,
            "c": _warmup_is_best,
        },
    ),
    "E5": (
        "grid",
        {
            "a": Comparison("early_cross_entropy", "0.01", "1", larger=False).decide,
            "b": Comparison("early_cross_entropy", "1", "5", larger=False).decide,
        },
    ),
    "E14": ("temperature", {"a": _temperature_cannot, "b": _both_are_better}),
}
"""For each claim the kind of runs that decide it, and a rule for each part."""
