"""Every comparison and every verdict, by a script that knows nothing of study."""

from __future__ import annotations

import ast
import math
import runpy
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from study import ROOT, claims

SCRIPT = ROOT / "results" / "recompute.py"
VALUES = 2e-6  # records keep six digits
LEVELS = 1e-4

Row = dict[str, Any]


def test_it_needs_numpy_pandas_scipy_and_yaml_alone() -> None:
    imported = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    assert imported - sys.stdlib_module_names == {"numpy", "pandas", "scipy", "yaml"}


def test_it_knows_the_runs_of_every_part() -> None:
    kinds = runpy.run_path(str(SCRIPT))["KINDS"]
    asked = {part.runs for claim in claims.ledger().values() for part in claim.parts.values()}
    assert asked <= set(kinds), "give these an entry in KINDS of results/recompute.py"


@pytest.fixture(scope="module")
def theirs() -> SimpleNamespace:
    """What the script finds."""
    return runpy.run_path(str(SCRIPT))["everything"]()


@pytest.fixture(scope="module")
def ours() -> dict[str, claims.Verdict]:
    """What the book finds."""
    return claims.verdicts()


def same(one: Row, other: Row) -> bool:
    """Tell if two comparisons are equal as far as the records' digits go."""

    def close(name: str, tolerance: float) -> bool:
        first, second = float(one[name]), float(other[name])
        return (math.isnan(first) and math.isnan(second)) or abs(first - second) <= tolerance

    exactly = all(one[name] == other[name] for name in ("pairs", "outcome", "decides"))
    return (
        exactly
        and all(close(name, VALUES) for name in ("mean", "low", "high"))
        and all(close(name, LEVELS) for name in ("p", "holm"))
    )


def by_part(rows: list[Row]) -> dict[str, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[row["part"]].append(row)
    return dict(found)


def unmatched(ours: list[Row], theirs: list[Row]) -> tuple[list[Row], list[Row]]:
    """Pair the comparisons off, whatever their variants are called, and return what is left."""
    left, alone = list(theirs), []
    for row in ours:
        partner = next((other for other in left if same(row, other)), None)
        if partner is None:
            alone.append(row)
        else:
            left.remove(partner)
    return alone, left


@pytest.mark.slow
def test_every_comparison_is_the_same(
    ours: dict[str, claims.Verdict], theirs: SimpleNamespace
) -> None:
    listed = claims.findings(ours.values()).rename(columns={"p (Holm)": "holm"})
    part = listed["claim"] + " " + listed["part"]
    first = by_part(listed.assign(part=part).to_dict("records"))
    second = by_part([vars(row) for row in theirs.comparisons])
    assert first.keys() == second.keys()
    for name in first:
        alone, left = unmatched(first[name], second[name])
        columns = ["variant", "mean", "low", "high", "pairs", "outcome", "decides", "p", "holm"]
        both = pd.DataFrame([*alone, *left], columns=columns).to_string()
        assert not alone and not left, f"{name}, ours and then theirs:\n{both}"


@pytest.mark.slow
def test_every_verdict_is_the_same(
    ours: dict[str, claims.Verdict], theirs: SimpleNamespace
) -> None:
    assert theirs.verdicts == {claim: verdict.verdict for claim, verdict in ours.items()}


def test_a_difference_in_any_number_is_found() -> None:
    row = {"mean": 0.1, "low": 0.0, "high": 0.2, "pairs": 3, "outcome": "met", "decides": True}
    row |= {"p": 0.05, "holm": math.nan}
    assert same(row, row | {"mean": 0.1 + 1e-6, "p": 0.05005})
    changes = {"mean": 0.10001, "low": 1e-5, "high": 0.3, "pairs": 4, "outcome": "unresolved"}
    for name, value in (changes | {"decides": False, "p": 0.051, "holm": 0.05}).items():
        assert not same(row, row | {name: value}), name
    assert unmatched([row, row], [row]) == ([row], [])
