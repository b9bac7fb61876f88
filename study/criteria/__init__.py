"""Criteria of the claims: rules for the sentences of ``campaigns/criteria.yml``, and the runs that they speak of.

A claim has parts. A part compares settings run by run, paired over seeds, in each variant (what the papers leave unsaid, filled in one
way). A rule returns *met*, *contradicted* or *unresolved*, by where the 95 % interval lies against the rule's own threshold. The sentence
of a part stands in that file alone, which was committed before the runs; ``campaigns/criteria-changes.yml`` dates every later change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
import yaml

from study.criteria import angular, images, large_margin, mnist, uci
from study.criteria.angular import ARCGRAD, ARCGRAD_OTHERS
from study.criteria.images import RIVALS
from study.criteria.mnist import TABLE_1_BETAS, distance_to_table_1
from study.criteria.rules import Criterion, Finding, Outcome, Variant
from study.criteria.selection import at_the_scale_of_a_paper, long_tailed, on_fast
from study.criteria.uci import accuracies, average_by_seed, distance_to_table_i, paper_table_i, uci_runs, wins

__all__ = ["ARCGRAD", "ARCGRAD_OTHERS", "CLAIMS", "FOLDER", "RIVALS", "TABLE_1_BETAS", "Criterion", "Finding", "Outcome", "Variant"]
__all__ += ["accuracies", "average_by_seed", "distance_to_table_1", "distance_to_table_i", "least_seeds", "paper_table_i", "runs_of"]
__all__ += ["uci_runs", "wins"]

FOLDER = Path(__file__).resolve().parents[2] / "campaigns"
"""Where the sentences are, and every later change of a rule."""

_SENTENCES = yaml.safe_load((FOLDER / "criteria.yml").read_text(encoding="utf-8"))

CLAIMS: Mapping[str, Mapping[str, Criterion]] = {
    claim: {letter: replace(part, sentence=_SENTENCES[claim]["parts"][letter]) for letter, part in parts.items()}
    for module in (mnist, images, uci, large_margin, angular)
    for claim, parts in module.CLAIMS.items()
}
"""For each claim its parts."""

_SELECTIONS: Mapping[str, Callable[[pd.DataFrame, str], pd.DataFrame]] = {
    **dict.fromkeys(mnist.KINDS, mnist.mnist_runs),
    **dict.fromkeys(images.KINDS, images.image_runs),
    "margins": images.margin_runs,
    "long-tailed": images.long_tailed_runs,
    **dict.fromkeys(uci.KINDS, uci_runs),
    **dict.fromkeys(large_margin.KINDS, large_margin.large_margin_runs),
    **dict.fromkeys(angular.KINDS, angular.angular_runs),
}


def runs_of(runs: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Select the runs of one kind, each with its ``variant``, its ``setting`` and the columns that the criteria speak of."""
    if kind not in _SELECTIONS:
        raise ValueError(f"unknown kind {kind!r}; valid: {', '.join(_SELECTIONS)}")
    if runs.empty:
        return runs
    own = long_tailed(runs) == (kind == "long-tailed")
    return at_the_scale_of_a_paper(_SELECTIONS[kind](runs[own], kind))


def least_seeds(kind: str, variant: str = "") -> int:
    """Tell how many seeds a variant needs to decide anything.

    Five on MNIST, three with image networks, but five with crops and flips on the small networks of real accuracy where β alone differs;
    ten cross-validations of tables, and ten tables; five repetitions of a time. A kind that has variants of MNIST beside those of image
    networks needs the name of the variant.
    """
    if kind in uci.KINDS:
        return uci.SEEDS
    fast = kind in images.KINDS and on_fast(variant) and ", crops" in variant
    return 5 if fast or kind in mnist.KINDS or kind == "cost" or variant.startswith("mnist") else 3
