"""Verdicts on the papers' claims, from records and from criteria that were written down before the runs (``campaigns/criteria.yml``).

A claim has parts. A part compares two settings run by run: paired over seeds, in each reading of what the papers leave unsaid. It is met
in a reading if the 95 % Student interval of the mean difference lies on the right side of 0.
"""

from study.claims.angular import ARCGRAD, ARCGRAD_OTHERS, angular_runs, cost_ratios
from study.claims.findings import Finding, Part, Verdict
from study.claims.images import image_runs
from study.claims.large_margin import large_margin_runs
from study.claims.margins import RIVALS, margin_runs
from study.claims.mnist import TABLE_1_BETAS, distance_to_table_1, mnist_runs
from study.claims.uci import TABLE_I, accuracies, average_by_seed, distance_to_table_i, paper_table_i, uci_runs, wins
from study.claims.verdicts import (
    CLAIMS,
    criteria,
    criteria_text,
    least_seeds,
    nearest_reading,
    runs_of,
    verdict,
    verdicts,
    with_enough_seeds,
)

__all__ = [
    "ARCGRAD",
    "ARCGRAD_OTHERS",
    "CLAIMS",
    "RIVALS",
    "TABLE_1_BETAS",
    "TABLE_I",
    "Finding",
    "Part",
    "Verdict",
    "accuracies",
    "angular_runs",
    "average_by_seed",
    "cost_ratios",
    "criteria",
    "criteria_text",
    "distance_to_table_1",
    "distance_to_table_i",
    "image_runs",
    "large_margin_runs",
    "least_seeds",
    "margin_runs",
    "mnist_runs",
    "nearest_reading",
    "paper_table_i",
    "runs_of",
    "uci_runs",
    "verdict",
    "verdicts",
    "wins",
    "with_enough_seeds",
]
