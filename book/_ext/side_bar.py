"""The contents in the side bar: parts that few readers want are closed, and open with a click.

The theme folds pages below a page, not the parts of the contents.
"""

from __future__ import annotations

from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx

FOLDED = "Why", "Reference"  # closed unless one of their pages is shown


def fold(contents: str) -> str:
    """Close parts of the contents in the side bar; a click opens them, with or without scripts.

    The first page becomes the first of the first part.
    """
    soup = BeautifulSoup(contents, "html.parser")
    home = soup.select_one("ul.bd-sidenav__home-link")
    if home and (first := home.find_next_sibling("ul")):
        first.insert(0, home.li.extract())
        home.decompose()
    for caption in soup.select("p.caption"):
        pages = caption.find_next_sibling("ul")
        if caption.get_text() in FOLDED and pages:
            part = soup.new_tag("details", attrs={"class": "part"})
            if "current" in pages.get("class", []):
                part["open"] = ""
            summary = soup.new_tag("summary")
            summary.extend(list(caption.contents))
            caption.replace_with(part)
            part.extend([summary, pages.extract()])
    return str(soup)


def offer_fold(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Give it to the template of the side bar."""
    context["folded"] = fold


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("html-page-context", offer_fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
