"""Write what README.md says of the records, and draw its picture: ``python -m study.headline``."""

import hashlib
import io
import re

import pandas as pd

from study import ROOT, claims
from study.figures.play import still
from study.tables import Page, measured, outcomes, sentences

README, PICTURE = ROOT / "README.md", ROOT / "book" / "_static" / "headline.svg"


def readme(page: Page, settings: pd.DataFrame) -> str:
    """Give README.md with the answers of the first page, without their links, and the count of the outcomes between its two marks."""
    decided = claims.verdicts(page.records)
    answers = sentences.answers(measured.numbers(settings, decided["B1"], decided["B4"]))
    lines = [
        "MNIST with the papers' network; CIFAR-10 and CIFAR-100 reduced, with a small network and fewer epochs:",
        "",
    ]
    lines += [
        re.sub(r"{ref}`([^<`]+?) <[^>`]+>`", r"\1", f"- **{question}** {answer}")
        for question, answer in answers.items()
    ]
    run = [verdict for verdict in decided.values() if verdict.verdict != "not run"]
    theirs = [verdict for verdict in run if not outcomes.is_own(verdict)]
    ours = [verdict for verdict in run if outcomes.is_own(verdict)]
    counted = (
        f"We tested {len(theirs)} claims of the papers: {outcomes.summary(theirs)}."
        f" And {len(ours)} of our own: {outcomes.summary(ours)}."
    )
    before, begin, rest = README.read_text(encoding="utf-8").partition("<!-- headline:begin -->\n")
    _, end, after = rest.partition("<!-- headline:end -->")
    return "\n".join([before + begin, *lines, "", counted, "", end + after])


def picture(settings: pd.DataFrame) -> str:
    """Draw the picture as SVG."""
    with io.StringIO() as file:
        metadata = {"Date": None, "Description": digest(settings)}
        still(settings).savefig(file, format="svg", metadata=metadata)
        return file.getvalue()


def digest(settings: pd.DataFrame) -> str:
    """Hash the numbers in the picture, which carries it: its lines may differ by a rounding from machine to machine."""
    first = settings[settings["setting"] == settings["setting"].iloc[0]]
    return hashlib.sha256(str(measured.play(first).data).encode()).hexdigest()[:16]


if __name__ == "__main__":
    page = Page()
    settings = measured.settings(page)
    README.write_text(readme(page, settings), encoding="utf-8")
    PICTURE.write_text(picture(settings), encoding="utf-8")
