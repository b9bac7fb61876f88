"""How a link to a page looks where somebody sends it: a title, the first sentences, a picture.

sphinxext-opengraph does the same, with one more package to pin and to keep.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx

DESCRIPTION = 200  # characters


def describe(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Describe a page by its first paragraph, for search engines and those who get the link."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree is not None else ()
    texts = (
        " ".join(paragraph.astext().split())
        for paragraph in paragraphs
        if isinstance(paragraph.parent, nodes.section)
    )
    first = next((text for text in texts if text), app.config.project)
    if len(first) > DESCRIPTION:
        first = first[:DESCRIPTION].rsplit(" ", 1)[0] + " …"
    graph = {
        "description": first,
        "title": BeautifulSoup(context.get("title", ""), "html.parser").get_text(),
        "type": "article",
        "site_name": app.config.project,
    }
    if base := app.config.html_baseurl.rstrip("/"):  # both are of use with a whole address alone
        graph |= {"url": f"{base}/{pagename}.html", "image": f"{base}/_static/social.png"}
    tags = [f'<meta name="description" content="{html.escape(first)}" />']
    tags += [
        f'<meta property="og:{name}" content="{html.escape(text)}" />'
        for name, text in graph.items()
    ]
    context["metatags"] = context.get("metatags", "") + "\n    ".join(["", *tags])


def draw_the_card(target: Path, title: str) -> None:
    """Draw the picture that is shown where somebody sends a link to the book."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.3), dpi=100)
    axes = figure.add_axes((0.08, 0.12, 0.86, 0.7))
    confidence = [step / 200 for step in range(201)]
    for beta, color in (
        (0.01, "#5e3c99"),
        (0.1, "#08519c"),
        (0.4, "#4292c6"),
        (1, "#000000"),
        (2, "#fdb863"),
        (5, "#e66101"),
    ):
        axes.plot(
            confidence,
            [(1 - p) / (1 - p + beta * p) for p in confidence],
            color=color,
            linewidth=4,
            label=f"β = {beta:g}",
        )
    axes.set_xlabel("probability of the true class", fontsize=20)
    axes.set_ylabel("gradient", fontsize=20)
    axes.tick_params(labelsize=16)
    axes.legend(fontsize=18, frameon=False)
    figure.suptitle(title, fontsize=30)
    figure.savefig(target)


def draw_the_card_of_the_book(app: Sphinx, exception: Exception | None) -> None:
    """Draw it where the book has an address."""
    if exception is None and app.builder.format == "html" and app.config.html_baseurl:
        draw_the_card(Path(app.outdir, "_static", "social.png"), app.config.project)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("html-page-context", describe)
    app.connect("build-finished", draw_the_card_of_the_book)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
