"""The link to the book as one PDF on its first page, where ``make pdf`` has printed one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

NAME = "book.pdf"
PLACE = "<!-- the PDF, where it was made -->"


def offer(html: Path, first: str) -> None:
    """Link the PDF from the first page of the built book, if there is one."""
    page, pdf = html / f"{first}.html", html / NAME
    if page.is_file() and pdf.is_file():
        size = f"{pdf.stat().st_size / 1e6:.0f} MB"
        target = os.path.relpath(pdf, page.parent)
        link = f'<p class="pdf"><a href="{target}">The whole book as a PDF</a> ({size})</p>'
        page.write_text(page.read_text(encoding="utf-8").replace(PLACE, link), encoding="utf-8")


def offer_again(app: Sphinx, exception: Exception | None) -> None:
    """Link the PDF of an earlier build from a first page that was written anew."""
    if exception is None and app.builder.format == "html":
        offer(Path(app.outdir), app.config.root_doc)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("build-finished", offer_again)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
