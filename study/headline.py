"""Write what README.md says of the records, and draw its picture: ``python -m study.headline``."""

import argparse
import hashlib
import io
import re

import pandas as pd

from study import ROOT, claims, figures, results
from study.figures.play import still
from study.tables import install, measured, outcomes, sentences
from study.tables.page import selected

README, PICTURE = ROOT / "README.md", ROOT / "book" / "_static" / "headline.svg"


def readme(runs: pd.DataFrame, variants: pd.DataFrame) -> str:
    """Give README.md with what is written between its marks.

    These are the answers of the first page, without their links, with the count of the outcomes,
    and the line that installs the package.
    """
    decided = claims.verdicts()
    tuned = selected(runs, "mnist-tuned")
    answers = sentences.answers(measured.numbers(variants, tuned, decided["B1"], decided["B4"]))
    run = [verdict for verdict in decided.values() if verdict.verdict != "not run"]
    theirs = [verdict for verdict in run if not outcomes.is_own(verdict)]
    lines = [
        *(_without_links(f"- **{question}** {answer}") for question, answer in answers.items()),
        "",
        measured.trained_on(variants),
        "",
        f"Of the papers' claims we tested {len(theirs)}. {outcomes.tally(theirs)}"
        f"{outcomes.known_before(theirs)}",
    ]
    text = README.read_text(encoding="utf-8")
    text = _between(text, "headline", "\n".join(lines))
    return _between(text, "install", f"```bash\n{install.command()}\n```")


def _without_links(text: str) -> str:
    return re.sub(r"{ref}`([^<`]+?) <[^>`]+>`", r"\1", text)


def _between(text: str, name: str, content: str) -> str:
    """Put content between the marks of this name."""
    before, begin, rest = text.partition(f"<!-- {name}:begin -->\n")
    _, end, after = rest.partition(f"<!-- {name}:end -->")
    return f"{before}{begin}\n{content}\n\n{end}{after}"


def picture(variants: pd.DataFrame) -> str:
    """Draw the picture as SVG."""
    with io.StringIO() as file:
        metadata = {"Date": None, "Description": digest(variants)}
        still(variants).savefig(file, format="svg", metadata=metadata)
        return file.getvalue()


def digest(variants: pd.DataFrame) -> str:
    """Hash the numbers in the picture, which carries the hash.

    The lines of the picture may differ by a rounding from machine to machine.
    """
    first = variants[variants["variant"] == variants["variant"].iloc[0]]
    return hashlib.sha256(str(measured.play(first).data).encode()).hexdigest()[:16]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    figures.use_style()
    runs = results.everything()
    variants = measured.variants(runs)
    README.write_text(readme(runs, variants), encoding="utf-8")
    PICTURE.write_text(picture(variants), encoding="utf-8")
