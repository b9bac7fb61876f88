"""The cross-validations of ArcGrad's Table I and Figure 2, the choice of the reading, and the rules for A2 and A3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from study import published, statistics
from study.claims.findings import Decide, Finding

__all__ = ["KINDS", "RULES", "TABLE_I", "accuracies", "average_by_seed", "distance_to_table_i", "paper_table_i", "uci_runs", "wins"]

KINDS = ("uci", "uci-depth")

TABLE_I: Mapping[str, tuple[str, float | None]] = {
    "softmax": ("softmax", None),
    "center 0.02": ("center loss", None),
    "m-softmax 0.5": ("M-Softmax", None),
    "arcface 20 0.1": ("ArcFace", None),
    "adacos": ("AdaCos", None),
    "arcgrad 30": ("ArcGrad", 30.0),
    "arcgrad 5": ("ArcGrad", 5.0),
}
"""The methods of Table I by their names here, with what the paper calls them and its s."""

EPOCHS_CONSIDERED = (10, 20, 50)
OURS = "arcgrad 5"
OTHERS = ("softmax", "center 0.02", "m-softmax 0.5", "arcface 20 0.1", "adacos")
_DEEP, _SHALLOW = 10, 3  # layers
_DECIMALS = 6  # as records keep


def uci_runs(runs: pd.DataFrame, kind: str, *, campaign: str | None = None, together: bool = False) -> pd.DataFrame:
    """The cross-validations of one kind.

    Args:
        runs: as :func:`study.records.read` gives them.
        kind: ``"uci"`` (Table I and the columns beside it) or ``"uci-depth"`` (Figure 2).
        campaign: the folder of the records; by default the one of the kind.
        together: those that keep equal rows in one fold, instead of those that do not.

    Returns:
        One row for each method, data set and seed, with ``reading`` (what the paper leaves unsaid) and, for the depth, ``depth``.
    """
    if "fold_accuracies" not in runs:
        return runs.iloc[:0]
    found = runs[runs["campaign"] == (campaign or {"uci": "uci", "uci-depth": "iris-depth"}[kind])]
    found = found[found["duplicates_together"].astype(bool) == together].dropna(axis=1, how="all").copy()
    if found.empty:
        return found
    units = [f"{hidden[0]} units" for hidden in found["hidden"]]
    rate = found["learning_rate"].map("{:g}".format)
    found["reading"] = found["normalization"] + ", " + found["optimizer"] + " " + rate + ", " + units
    found["depth"] = [len(hidden) + 1 for hidden in found["hidden"]]
    return found


def paper_table_i() -> pd.DataFrame:
    """The accuracies that the paper's Table I prints, in per cent: data sets by the paper's names, methods by ours."""
    printed = published.table("AG", 1)
    printed = printed[printed["metric"] == "accuracy"]
    columns = {}
    for name, (method, scale) in TABLE_I.items():
        of_method = printed[printed["method"] == method]
        of_method = of_method if scale is None else of_method[of_method["s"] == scale]
        columns[name] = of_method.set_index("dataset")["value"].astype(float)
    return pd.DataFrame(columns)


def accuracies(runs: pd.DataFrame, methods: Sequence[str] | None = None) -> pd.DataFrame:
    """Mean test accuracy over all runs and folds, in per cent: data sets by the paper's names, in its order, and methods."""
    means = 100 * runs.pivot_table(index="title", columns="loss", values="test_accuracy", sort=False)
    order = [name for name in paper_table_i().index if name in means.index]
    return means.loc[order, list(methods) if methods is not None else list(means.columns)]


def distance_to_table_i(runs: pd.DataFrame) -> pd.DataFrame:
    """How far the softmax column of each reading is from the paper's, after each number of epochs that was looked at.

    Returns:
        Columns ``reading``, ``epochs`` and ``distance``: the mean over the data sets of the absolute difference of the mean accuracies, in
        percentage points. The nearest first; of two that are equally near, the one with fewer epochs.
    """
    printed = paper_table_i()["softmax"]
    rows = []
    for reading, of_reading in runs[runs["loss"] == "softmax"].groupby("reading"):
        curves = np.array(of_reading["curve_test_accuracy"].tolist())
        for index, epochs in enumerate(of_reading["curve_epoch"].iloc[0]):
            if epochs in EPOCHS_CONSIDERED:
                means = 100 * pd.Series(curves[:, index]).groupby(of_reading["title"].to_numpy()).mean()
                rows.append((reading, int(epochs), float((means - printed).abs().mean())))
    frame = pd.DataFrame(rows, columns=["reading", "epochs", "distance"])
    return frame.sort_values(["distance", "epochs"], kind="stable", ignore_index=True)


def wins(scores: pd.DataFrame) -> pd.Series[float]:
    """On how many data sets each method is best; methods that tie share the win."""
    best = scores.round(_DECIMALS).eq(scores.round(_DECIMALS).max(axis=1), axis=0)
    return best.div(best.sum(axis=1), axis=0).sum()


def average_by_seed(runs: pd.DataFrame, method: str) -> pd.Series[float]:
    """Test accuracy of a method averaged over the data sets, for each seed."""
    return runs[runs["loss"] == method].groupby("seed")["test_accuracy"].mean()


# --- criteria as code ---


def _is_best_on_average(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A2 a: a larger average than the method, other than ArcGrad, with the largest one."""
    if not _complete(runs):
        return None
    best = max(OTHERS, key=lambda name: float(average_by_seed(runs, name).mean()))
    difference = statistics.paired_difference(average_by_seed(runs, OURS), average_by_seed(runs, best))
    return Finding(reading, difference.interval.low > 0, difference, f"average accuracy, ArcGrad 5 against {TABLE_I[best][0]}")


def _wins_most(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A2 b: more wins in a run than the method, other than ArcGrad, with the most wins."""
    if not _complete(runs):
        return None
    by_seed = pd.DataFrame({seed: wins(accuracies(of_seed, list(TABLE_I))) for seed, of_seed in runs.groupby("seed")}).T
    best = str(by_seed[list(OTHERS)].mean().idxmax())
    difference = statistics.paired_difference(by_seed[OURS], by_seed[best])
    return Finding(reading, difference.interval.low > 0, difference, f"wins in a run, ArcGrad 5 against {TABLE_I[best][0]}")


def _ranks_before_softmax(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A2 c: the average rank is better by at least the critical difference; the difference is over data sets."""
    if not _complete(runs):
        return None
    scores = accuracies(runs, list(TABLE_I))
    found = pd.DataFrame(statistics.ranks(scores.to_numpy(), decimals=_DECIMALS), columns=scores.columns)
    limit = statistics.critical_difference(len(scores.columns), len(scores))
    difference = statistics.paired_difference(found["softmax"], found[OURS])
    text = f"rank of softmax minus rank of ArcGrad 5, over data sets (critical difference {limit:.2f})"
    return Finding(reading, difference.mean >= limit, difference, text)


def _softmax_beats_discriminative(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A2 d: softmax has a larger average than each of center loss, ArcFace and AdaCos."""
    if not _complete(runs):
        return None
    return _least([_larger(reading, runs, "softmax", other) for other in ("center 0.02", "arcface 20 0.1", "adacos")])


def _tolerates_depth(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A3 a: more accurate than each of the others with ten layers."""
    deep = runs[runs["depth"] == _DEEP]
    others = [name for name in ("softmax", "arcface 20 0.1", "adacos") if name in set(deep["loss"])]
    if OURS not in set(deep["loss"]) or len(others) < 3:
        return None
    return _least([_larger(reading, deep, OURS, other, "accuracy with 10 layers") for other in others])


def _decays_least(reading: str, runs: pd.DataFrame) -> Finding | None:
    """A3 b: loses less accuracy from three layers to ten than each of the others."""
    names = (OURS, "softmax", "arcface 20 0.1", "adacos")
    loss = {}
    for name in names:
        ends = [average_by_seed(runs[runs["depth"] == depth], name) for depth in (_SHALLOW, _DEEP)]
        if min(map(len, ends)) < 2:
            return None
        loss[name] = ends[0] - ends[1]
    found = []
    for name in names[1:]:
        difference = statistics.paired_difference(loss[name], loss[OURS])
        text = f"loss of accuracy from 3 layers to 10, {TABLE_I[name][0]} minus ArcGrad 5"
        found.append(Finding(reading, difference.interval.low > 0, difference, text))
    return _least(found)


def _larger(reading: str, runs: pd.DataFrame, left: str, right: str, what: str = "average accuracy") -> Finding:
    difference = statistics.paired_difference(average_by_seed(runs, left), average_by_seed(runs, right))
    name = "ArcGrad 5" if left == OURS else left
    return Finding(reading, difference.interval.low > 0, difference, f"{what}, {name} against {TABLE_I[right][0]}")


def _least(found: list[Finding]) -> Finding:
    """The finding with the smallest difference; met if all are."""
    worst = min(found, key=lambda finding: finding.difference.mean)
    return Finding(worst.reading, all(finding.met for finding in found), worst.difference, worst.text)


def _complete(runs: pd.DataFrame) -> bool:
    """Whether every method of Table I has every seed on all of its data sets."""
    asked = runs[runs["loss"].isin(TABLE_I)]
    counts = asked.groupby(["loss", "seed"])["dataset"].nunique()
    return len(counts) == len(TABLE_I) * asked["seed"].nunique() and bool((counts == len(paper_table_i())).all())


RULES: Mapping[str, tuple[str, Mapping[str, Decide]]] = {
    "A2": (
        "uci",
        {"a": _is_best_on_average, "b": _wins_most, "c": _ranks_before_softmax, "d": _softmax_beats_discriminative},
    ),
    "A3": ("uci-depth", {"a": _tolerates_depth, "b": _decays_least}),
}
"""For each claim the kind of runs that decide it, and a rule for each part."""
