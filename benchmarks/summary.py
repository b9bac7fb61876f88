"""The closing table of `make bench`.

It has every goal, its limit, what was measured, and whether it is met, for each processor.

    python -m benchmarks.summary [FOLDER]

The folder is one of build/benchmarks, or of results/benchmarks for the kept numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import GOALS, KINDS, ROOT, Row, load


def lines(measured: Mapping[str, Mapping[str, Any]]) -> list[tuple[Row, str]]:
    """Every row that answers to a goal, in the order of the goals, with its verdict."""
    rows = [row for content in measured.values() for row in content["rows"] if row.goal]
    return [
        (row, "met" if row.met else "missed") for goal in GOALS for row in rows if row.goal == goal
    ]


def main(given: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if given is None else given
    if given and given[0].startswith("-"):
        sys.exit(__doc__)
    folder = Path(given[0]) if given else ROOT / "build" / "benchmarks"
    measured = load(folder)
    if not measured:
        sys.exit(f"there are no numbers in {folder}: run `make bench` first")
    for machine, of_machine in measured.items():
        print(machine)
        show(of_machine)


def show(measured: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the table of one processor."""
    print(f"{'':4}{'measured':52}{'against':34}{'goal':>8}{'found':>9}  verdict")
    for row, verdict in lines(measured):
        unit = " s" if row.kind == "seconds" else "×"
        sign = "≥" if KINDS[row.kind] else "≤"
        goal, found = f"{sign}{row.limit:.3g}{unit}", f"{row.value:.3g}{unit}"
        print(f"{row.goal:4}{row.title:52}{row.against or '–':34}{goal:>8}{found:>9}  {verdict}")
    absent = [goal for goal in GOALS if goal not in {row.goal for row, _ in lines(measured)}]
    if absent:
        print(
            f"not measured here: {', '.join(absent)}"
            " (P6 and P8 need a GPU: python -m benchmarks.gpu)"
        )
    if any(content["smoke"] for content in measured.values()):
        print("these are numbers of a smoke run and worth nothing")


if __name__ == "__main__":
    main()
