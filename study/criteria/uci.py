"""The cross-validations of ArcGrad's Table I and Figure 2, the choice of the variant, and the rules of A2 and A3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from study import published, statistics
from study.criteria.rules import Finding, Outcome, Side, Variant, all_of, best_of, claim, given, larger, minus, of, where
from study.criteria.selection import with_setting

# Table I and the columns beside it; Table I in every variant, a row for each method and data set; Figure 2; Figure 2 in every variant
KINDS = ("uci", "uci-tables", "uci-depth", "uci-layers")

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
SEEDS = 10  # cross-validations of one data set
_CAMPAIGNS = {
    "uci": ("uci",),
    "uci-tables": ("uci", "uci-adam"),
    "uci-depth": ("iris-depth",),
    "uci-layers": ("iris-depth", "iris-depth-adam"),
}


def uci_runs(runs: pd.DataFrame, kind: str, *, campaign: str | None = None, together: bool = False) -> pd.DataFrame:
    """Select the cross-validations of one kind, or of another campaign than its own; ``together`` those with equal rows in one fold."""
    if "fold_accuracies" not in runs:
        return runs.iloc[:0]
    found = runs[runs["campaign"].isin((campaign,) if campaign else _CAMPAIGNS[kind])]
    found = with_setting(found if kind == "uci-tables" else found[found["duplicates_together"].astype(bool) == together])
    if found.empty:
        return found
    units = found["hidden"].map(lambda hidden: f", {hidden[0]} units")
    found["variant"] = found["normalization"] + ", " + found["optimizer"] + " " + found["learning_rate"].map("{:g}".format) + units
    if "weight_decay" in found:
        found["variant"] += found["weight_decay"].map(lambda decay: f", weight decay {decay:g}" if decay > 0 else "")
    found["depth"] = found["hidden"].map(len) + 1
    return _one_row_for_each_data_set(found) if kind == "uci-tables" else found


def _one_row_for_each_data_set(runs: pd.DataFrame) -> pd.DataFrame:
    """The complete variants, with mean accuracies, ``wins`` (ties share one) and ``negative_rank`` among the methods of Table I."""
    runs = runs[runs["setting"].isin(TABLE_I)]
    together = runs["duplicates_together"].astype(bool)
    runs = runs[together | ~runs["title"].isin(runs.loc[together, "title"])]  # where there are equal rows, those with them in one fold
    frames = [runs.iloc[:0]]
    for variant, group in runs.groupby("variant"):
        counts = group.pivot_table(index="title", columns="setting", values="seed", aggfunc="nunique")
        if counts.shape == (len(paper_table_i()), len(TABLE_I)) and (counts >= SEEDS).all(axis=None):
            scores = group.pivot_table(index="title", columns="setting", values="test_accuracy")[list(TABLE_I)]
            ranks = pd.DataFrame(statistics.ranks(scores.to_numpy()), scores.index, scores.columns)
            columns = {"test_accuracy": scores.stack(), "wins": _won(scores).stack(), "negative_rank": -ranks.stack()}
            frames.append(pd.DataFrame(columns).reset_index().assign(variant=variant, scale=", ".join(sorted(set(group["scale"])))))
    return pd.concat(frames[1:] or frames, ignore_index=True)


def paper_table_i() -> pd.DataFrame:
    """Read the accuracies that the paper's Table I prints, in per cent: data sets by the paper's names, methods by ours."""
    printed = published.table("AG", 1)
    printed = printed[printed["metric"] == "accuracy"]
    columns = {}
    for name, (method, scale) in TABLE_I.items():
        of_method = printed[printed["method"] == method]
        of_method = of_method if scale is None else of_method[of_method["s"] == scale]
        columns[name] = of_method.set_index("dataset")["value"].astype(float)
    return pd.DataFrame(columns)


def accuracies(runs: pd.DataFrame, methods: Sequence[str] | None = None) -> pd.DataFrame:
    """Average test accuracy over all runs and folds, in per cent: data sets by the paper's names, in its order, and methods."""
    means = 100 * runs.pivot_table(index="title", columns="setting", values="test_accuracy", sort=False)
    order = [name for name in paper_table_i().index if name in means.index]
    return means.loc[order, list(methods) if methods is not None else list(means.columns)]


def distance_to_table_i(runs: pd.DataFrame) -> pd.DataFrame:
    """Compute how far the softmax column of each variant is from the paper's, after each number of epochs that was looked at.

    The ``distance`` is the mean over the data sets of the absolute difference of the mean accuracies, in percentage points. The nearest
    comes first; of two that are equally near, the one with fewer epochs.
    """
    printed = paper_table_i()["softmax"]
    rows = []
    for variant, group in runs[runs["setting"] == "softmax"].groupby("variant"):
        curves = np.array(group["curve_test_accuracy"].tolist())
        for index, epochs in enumerate(group["curve_epoch"].iloc[0]):
            if epochs in EPOCHS_CONSIDERED:
                means = 100 * pd.Series(curves[:, index]).groupby(group["title"].to_numpy()).mean()
                rows.append((variant, int(epochs), float((means - printed).abs().mean())))
    frame = pd.DataFrame(rows, columns=["variant", "epochs", "distance"])
    return frame.sort_values(["distance", "epochs"], kind="stable", ignore_index=True)


def wins(scores: pd.DataFrame) -> pd.Series[float]:
    """Count on how many data sets each method is best; methods that tie share the win."""
    return _won(scores).sum()


def _won(scores: pd.DataFrame) -> pd.DataFrame:
    rounded = scores.round(6)  # as records keep
    best = rounded.eq(rounded.max(axis=1), axis=0)
    return best.div(best.sum(axis=1), axis=0)


def average_by_seed(runs: pd.DataFrame, method: str) -> pd.Series[float]:
    """Average the test accuracy of a method over the data sets, for each seed."""
    return runs[runs["setting"] == method].groupby("seed")["test_accuracy"].mean()


# --- rules ---


def _ranks_ahead(variant: Variant) -> Finding | None:
    """A2 c: Nemenyi's test, which is the interval of the mean rank difference plus and minus the critical difference."""
    found = larger("negative_rank", OURS, "softmax")(variant)
    if found is None or found.difference is None:
        return None
    limit, mean = statistics.critical_difference(len(TABLE_I), found.difference.n), found.difference.mean
    outcome: Outcome = "met" if mean >= limit else "contradicted" if mean <= -limit else "unresolved"
    text = f"rank of softmax minus rank of ArcGrad 5 (critical difference {limit:.2f})"
    return replace(found, outcome=outcome, text=text, paper="")


def _at(depth: int) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda runs: runs[runs["depth"] == depth]


def _lost_with_depth(method: str) -> Side:
    """Accuracy with three layers minus that with ten."""
    shallow, deep = (given(_at(layers), of("test_accuracy", method)) for layers in (3, 10))
    return minus(shallow, deep, f"{published.loss_name(method)}, 3 layers minus 10")


_SOFTMAX_ARCFACE_ADACOS = ("softmax", "arcface 20 0.1", "adacos")

CLAIMS = {
    "A2": claim(
        "uci-tables",
        a=larger("test_accuracy", OURS, best_of(*OTHERS)),
        b=larger("wins", OURS, best_of(*OTHERS, by="wins")),
        c=_ranks_ahead,
        d=all_of(*(larger("test_accuracy", "softmax", other) for other in ("center 0.02", "arcface 20 0.1", "adacos"))),
    ),
    "A3": claim(
        "uci-layers",
        a=where(_at(10), all_of(*(larger("test_accuracy", OURS, other) for other in _SOFTMAX_ARCFACE_ADACOS)), "10 layers"),
        b=all_of(*(larger("test_accuracy", _lost_with_depth(other), _lost_with_depth(OURS)) for other in _SOFTMAX_ARCFACE_ADACOS)),
    ),
}
"""For each claim its parts."""
