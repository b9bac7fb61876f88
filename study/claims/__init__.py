"""Claims: what their files say, which runs they are asked of, what these say, and the verdict.

A claim has parts. A part compares methods in each variant (what the papers leave unsaid, filled in
one way). The outcome is *met*, *contradicted* or *unresolved*, by where the 95 % interval lies
against the part's own threshold.
"""

from study.claims.compare import Finding, Outcome, VariantRuns
from study.claims.evidence import complete, counted, least_seeds, runs_of
from study.claims.load import OWN, Claim, changes, ledger
from study.claims.paper_tables import (
    ARCGRAD,
    ARCGRAD_OTHERS,
    TABLE_I,
    accuracies,
    distance_to_table_1,
    distance_to_table_i,
    paper_table_i,
    printed_runs,
    won,
)
from study.claims.rules import has_chosen_rate
from study.claims.selections import selection, selections
from study.claims.verdicts import (
    VERDICTS,
    DecidedPart,
    Verdict,
    deciding,
    findings,
    seeds_needed,
    verdicts,
)

__all__ = [
    "ARCGRAD",
    "ARCGRAD_OTHERS",
    "OWN",
    "TABLE_I",
    "VERDICTS",
    "Claim",
    "DecidedPart",
    "Finding",
    "Outcome",
    "VariantRuns",
    "Verdict",
    "accuracies",
    "changes",
    "complete",
    "counted",
    "deciding",
    "distance_to_table_1",
    "distance_to_table_i",
    "findings",
    "has_chosen_rate",
    "least_seeds",
    "ledger",
    "paper_table_i",
    "printed_runs",
    "runs_of",
    "seeds_needed",
    "selection",
    "selections",
    "verdicts",
    "won",
]
