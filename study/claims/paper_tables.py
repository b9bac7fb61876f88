"""The papers' tables that runs are held against.

They are ArcGrad's Table I, and the confidences of gradient decay's Table 1.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pandas as pd

from study import published, statistics
from study.methods import Method

ARCGRAD = "arcgrad 10"
"""ArcGrad with the paper's number for images."""

ARCGRAD_OTHERS = ("softmax", "center 0.02", "m-softmax 0.5", "arcface 20 0.1", "adacos")
"""The losses that ArcGrad is compared with, with the paper's numbers."""

TABLE_I = tuple(map(Method.parse, (*ARCGRAD_OTHERS, "arcgrad 30", "arcgrad 5")))
"""The methods of Table I."""

_SOFTMAX = TABLE_I[0]
_EPOCHS_CONSIDERED = (10, 20, 50)


def paper_table_i() -> pd.DataFrame:
    """Read the accuracies that the paper's Table I prints, in per cent.

    Data sets have the paper's names, methods ours.
    """
    printed = published.table("AG", 1).query("metric == 'accuracy'")
    methods = [published.method(row)[0] for row in printed.to_dict("records")]
    of_rows = pd.Series(methods, printed.index, dtype=object)
    return printed.assign(method=of_rows).pivot_table(
        index="dataset", columns="method", values="value", sort=False
    )[list(TABLE_I)]


def accuracies(runs: pd.DataFrame) -> pd.DataFrame:
    """Average test accuracy over all runs and folds, in per cent.

    Data sets have the paper's names and order; the columns are methods.
    """
    means = 100 * runs.pivot_table(
        index="title", columns="method", values="test_accuracy", sort=False
    )
    return means.loc[[name for name in paper_table_i().index if name in means.index]]


def distance_to_table_i(runs: pd.DataFrame) -> pd.DataFrame:
    """Compute how far the softmax column of each variant is from the paper's.

    It is computed after each number of epochs that was looked at. The ``distance`` is the mean over
    the data sets of the absolute difference of the mean accuracies, in percentage points. The
    nearest comes first; of two that are equally near, the one with fewer epochs.
    """
    curves = (
        runs[runs["method"] == _SOFTMAX]
        .drop(columns="epochs", errors="ignore")
        .rename(columns={"curve_epoch": "epochs"})
    )
    curves = curves.explode(["epochs", "curve_test_accuracy"]).astype(
        {"epochs": int, "curve_test_accuracy": float}
    )
    means = 100 * curves.pivot_table(
        index=["variant", "epochs"], columns="title", values="curve_test_accuracy"
    )
    distance = (
        (means - paper_table_i()[_SOFTMAX]).abs().mean(axis=1).rename("distance").reset_index()
    )
    seen = distance[distance["epochs"].isin(_EPOCHS_CONSIDERED)]
    return seen.sort_values(["distance", "epochs"], kind="stable", ignore_index=True)


def won(scores: pd.DataFrame) -> pd.DataFrame:
    """Tell on which data sets (rows) each method is best; methods that tie share the win.

    The sum of a column is the number of wins.
    """
    rounded = scores.round(6)  # as records keep
    best = rounded.eq(rounded.max(axis=1), axis=0)
    return best.div(best.sum(axis=1), axis=0)


def standings(scores: pd.DataFrame) -> pd.DataFrame:
    """List scores with what follows from their order: a row for each data set and method.

    The columns are ``score``, ``wins`` (methods that tie share one) and ``negative_rank``.
    """
    columns = {"score": scores, "wins": won(scores), "negative_rank": -statistics.ranks(scores)}
    return pd.DataFrame({name: table.stack() for name, table in columns.items()}).reset_index()


def printed_runs(source: str) -> pd.DataFrame:
    """Lay out a table of the papers as runs are, so that a part can be asked of it.

    There is a row for each data set, number of epochs and method. The network has its name in the
    records. No table says how many samples there were: 0, which stands for all.

    Args:
        source: the table, as :func:`study.published.printed` names it, such as "AG, Table I".
    """
    printed = published.printed()
    printed = printed[printed["source"] == source]
    metric, network = printed[["metric", "model"]].iloc[0]
    scores = printed.pivot(index=["dataset", "epochs"], columns="method", values="value")
    runs = standings(scores).rename(columns={"score": metric})
    return runs.assign(samples=0, model=network.lower())


def distance_to_table_1(grid: pd.DataFrame) -> pd.Series[float]:
    """Compute how far each variant is from the papers' Table 1, the nearest first.

    The distance is the mean over the five columns of half the sum of the absolute differences of
    the five shares (total variation). Counts are means over the seeds.
    """
    theirs = {
        Method.of_beta(cast(float, beta)): column / column.sum()
        for beta, column in published.table("GD-2", 1).groupby("beta", sort=False)["value"]
    }
    distances = {}
    for variant, runs in grid.groupby("variant"):
        counts = runs["confidence_counts"]
        ours = {
            method: np.mean(counts[runs["method"] == method].tolist(), axis=0) for method in theirs
        }
        distances[str(variant)] = np.mean(
            [
                0.5 * np.abs(ours[method] / ours[method].sum() - share).sum()
                for method, share in theirs.items()
            ]
        )
    return pd.Series(distances, name="distance", dtype=float).sort_values()
