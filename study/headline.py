"""Draw what README.md says of the records, and its picture: ``python -m study.headline`` (add ``--check`` to only compare)."""

from __future__ import annotations

import hashlib
import io
import re
import sys
from pathlib import Path

from study import criteria, records, verdicts
from study.figures.play import still
from study.figures.style import use_style
from study.tables import outcomes
from study.tables.answer import answers, plain
from study.tables.measured import Setting, settings
from study.tables.play import play

ROOT = Path(__file__).resolve().parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "book" / "_static" / "headline.svg"
BLOCK = re.compile(r"(<!-- headline:begin -->\n).*?(<!-- headline:end -->)", re.DOTALL)


def headline(measured: list[Setting], decided: dict[str, verdicts.Verdict]) -> str:
    """Write the answer and the count of the outcomes as Markdown."""
    lines = [f"- **{question}** {plain(answer)}" for question, answer in answers(measured, decided["B1"]).items()]
    with_runs = [verdict for verdict in decided.values() if verdict.verdict != "not run"]
    counted = f"Of {len(with_runs)} claims of the papers for which there are runs that decide: {outcomes.summary(with_runs)}."
    return "\n".join([*lines, "", counted]) + "\n"


def redrawn(text: str, shown: str) -> str:
    """The same text with another headline."""
    return BLOCK.sub(lambda block: block[1] + "\n" + shown + "\n" + block[2], text)


def digest(setting: Setting) -> str:
    """A hash of the numbers in the picture, which carries it: its lines may differ by a rounding from machine to machine."""
    return hashlib.sha256(play([setting]).json().encode()).hexdigest()[:16]


def picture(setting: Setting) -> str:
    """Draw the picture as SVG."""
    use_style()
    with io.StringIO() as file:
        still(setting).savefig(file, format="svg", metadata={"Date": None, "Description": digest(setting)})
        return file.getvalue()


def stale(*, redraw: bool = False) -> list[str]:
    """Name what shows other numbers than the records (README.md, its picture), and draw it again if asked."""
    runs = records.read(records.default_folder())
    measured = settings(runs)
    text = README.read_text(encoding="utf-8")
    drawn = redrawn(text, headline(measured, {claim: verdicts.verdict(claim, runs) for claim in criteria.CLAIMS}))
    found = ["README.md"] if drawn != text else []
    if not (PICTURE.is_file() and digest(measured[0]) in PICTURE.read_text(encoding="utf-8")):
        found.append(PICTURE.name)
        if redraw:
            PICTURE.write_text(picture(measured[0]), encoding="utf-8")
    if redraw:
        README.write_text(drawn, encoding="utf-8")
    return found


def main() -> int:
    """Draw; or, with ``--check``, change nothing and fail if README.md or its picture and the records disagree."""
    if "--check" not in sys.argv[1:]:
        stale(redraw=True)
        return 0
    if found := stale():
        print(f"other numbers than in the records: {', '.join(found)}; run `python -m study.headline`", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
