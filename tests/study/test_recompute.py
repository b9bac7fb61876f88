"""Every comparison and the outcome of every claim, recomputed from the records by a script that knows nothing of study."""

from __future__ import annotations

import ast
import runpy
from collections import defaultdict
from pathlib import Path

import pytest

from study import claims

SCRIPT = Path(__file__).resolve().parents[2] / "results" / "recompute.py"


def test_it_needs_numpy_and_scipy_alone() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    imported = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"json", "re", "collections", "pathlib", "numpy", "scipy"}


def test_the_records_give_the_same_twice() -> None:
    script = runpy.run_path(str(SCRIPT))
    found, decided = script["load"](), claims.verdicts()
    theirs, ours = defaultdict(list), defaultdict(list)
    rows = [*script["comparisons"](found)]
    for (part, _, _, *interval, pairs, outcome, p), holm in zip(
        rows, script["holm"]([row[-1] for row in rows]), strict=True
    ):
        theirs[part].append((*interval, p, holm, pairs, outcome))
    columns = ["mean", "low", "high", "p", "p (Holm)", "pairs", "outcome"]
    for _, row in claims.findings(decided.values()).iterrows():
        ours[f"{row['claim']} {row['part']}"].append(tuple(row[columns]))
    assert theirs.keys() == ours.keys()
    for part in theirs:
        for one, other in zip(sorted(theirs[part]), sorted(ours[part]), strict=True):
            assert one[:5] == pytest.approx(other[:5], abs=1e-9) and one[5:] == other[5:], part
    assert dict(script["claims"](found)) == {
        claim: verdict.verdict for claim, verdict in decided.items() if verdict.verdict != "not run"
    }
