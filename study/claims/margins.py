"""The gradient-decay losses beside the margin losses that GD-2 compares them with, and the rules for E10."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from study.claims.findings import Comparison, Decide, of_gradient_decay
from study.claims.images import image_runs

__all__ = ["KINDS", "RIVALS", "RULES", "margin_runs"]

KINDS = ("margins",)

RIVALS = ("a-softmax 4", "center 0.003")
"""A-Softmax and center loss with the numbers of their authors, since GD-2 gives none."""

_WARMUP = "warm-up 0.1→1"


def margin_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of A-Softmax and center loss on image networks, with the gradient-decay runs of the same readings.

    Args:
        runs: as :func:`study.records.read` gives them.

    Returns:
        The runs as :func:`study.claims.image_runs` gives them, of the readings that have one of :data:`RIVALS`; ``schedule``
        names the loss.
    """
    if "loss" not in runs:
        return runs.iloc[:0]
    rivals = runs[runs["loss"].isin(RIVALS)]
    both = pd.concat([of_gradient_decay(runs), rivals]).drop(columns="loss")  # without the name of its loss a run is as good as any
    found = image_runs(both, "images")
    if found.empty:
        return found
    return found[found["reading"].isin(found.loc[found["schedule"].isin(RIVALS), "reading"])]


RULES: Mapping[str, tuple[str, Mapping[str, Decide]]] = {
    "E10": (
        "margins",
        {
            "a": Comparison("test_accuracy", _WARMUP, RIVALS[0], larger=True).decide,
            "b": Comparison("test_accuracy", _WARMUP, RIVALS[1], larger=True).decide,
        },
    ),
}
"""For each claim the kind of runs that decide it, and a rule for each part."""
