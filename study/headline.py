"""Draw the headline tables of README.md from the records: ``python -m study.headline`` (add ``--check`` to only compare)."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np

from study import criteria, published, records, statistics, verdicts

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- headline:begin -->\n).*?(<!-- headline:end -->)", re.DOTALL)


def headline() -> str:
    """Verdicts, and the papers' Table 1 (lost samples) beside ours, as Markdown."""
    runs = records.read(records.default_folder())
    lines = ["| claim | outcome | scale, variants × seeds |", "|---|---|---|"]
    stated = published.claims()
    for found in verdicts.verdicts(runs).values():
        variants = max((len(part.deciding) for part in found.parts), default=0)
        runs_behind = f"{found.scale}, {variants} × {found.seeds}" if variants else ""
        lines.append(f"| **{found.claim}** {stated.at[found.claim, 'claim']!s} | {found.verdict} | {runs_behind} |")
    grid = criteria.runs_of(runs, "grid")
    lines += ["", "Training images of MNIST with a confidence of at most 0.2 (first row of the papers' Table 1), mean [95 % interval]:", ""]
    lines += ["| | " + " | ".join(f"β = {beta}" for beta in criteria.TABLE_1_BETAS) + " |", "|---|" + "---:|" * len(criteria.TABLE_1_BETAS)]
    printed = published.table("GD-2", 1)
    first = printed[printed["interval"] == printed["interval"].iloc[0]]
    cells = [f"{first.loc[np.isclose(first['beta'].astype(float), float(beta)), 'value'].iloc[0]:.0f}" for beta in criteria.TABLE_1_BETAS]
    lines.append("| the papers | " + " | ".join(cells) + " |")
    counted = criteria.with_enough_seeds(grid)
    for reading in criteria.distance_to_table_1(counted).index if not counted.empty else []:
        of_reading = counted[counted["reading"] == reading]
        cells = [f"{statistics.t_interval(of_reading.loc[of_reading['schedule'] == beta, 'lost']):.0f}" for beta in criteria.TABLE_1_BETAS]
        lines.append(f"| {reading} ({of_reading['seed'].nunique()} seeds) | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def redrawn(text: str) -> str:
    """The same text with the headline that the records give."""
    return BLOCK.sub(lambda block: block[1] + "\n" + headline() + "\n" + block[2], text)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if README.md and the records disagree")
    arguments = parser.parse_args()
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    drawn = redrawn(text)
    if arguments.check:
        if drawn != text:
            print("README.md shows other numbers than the records: run `python -m study.headline`", file=sys.stderr)
        return int(drawn != text)
    readme.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
