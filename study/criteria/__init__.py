"""Criteria of the claims: the rules of the sentences of ``campaigns/criteria.yml``, and the runs that they speak of.

A claim has parts. A part compares settings run by run, paired over seeds, in each variant (what the
papers leave unsaid, filled in one way). Its rule returns *met*, *contradicted* or *unresolved*, by
where the 95 % interval lies against the rule's own threshold.
"""

from study.criteria.claims import CLAIMS, Claim, at_chosen_rate
from study.criteria.paper_tables import (
    ARCGRAD_OTHERS,
    TABLE_I,
    accuracies,
    distance_to_table_1,
    distance_to_table_i,
    paper_table_i,
    won,
)
from study.criteria.rules import Finding, Outcome, Variant
from study.criteria.selection import (
    ARCGRAD,
    FAST,
    RIVALS,
    complete,
    least_seeds,
    on_fast,
    planned,
    runs_of,
)

__all__ = [
    "ARCGRAD",
    "ARCGRAD_OTHERS",
    "CLAIMS",
    "FAST",
    "RIVALS",
    "TABLE_I",
    "Claim",
    "Finding",
    "Outcome",
    "Variant",
    "accuracies",
    "at_chosen_rate",
    "complete",
    "distance_to_table_1",
    "distance_to_table_i",
    "least_seeds",
    "on_fast",
    "paper_table_i",
    "planned",
    "runs_of",
    "won",
]
