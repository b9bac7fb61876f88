"""The form of a page of evidence.

Its code stands in one closed place at the end; a row of a table that heads others spans it.
myst-nb hides the code of each cell where it stands, and MyST's tables have no cells that span.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_design.shared import create_component


def move_the_code(app: Sphinx, doctree: nodes.document) -> None:
    """Take the code of all cells to the end of the page, in order.

    A cell without output leaves nothing behind.
    """
    if not app.env.docname.startswith("notebooks/evidence/"):
        return
    sources = list(
        doctree.findall(
            lambda node: (
                isinstance(node, nodes.container) and node.get("nb_element") == "cell_code_source"
            )
        )
    )
    for source in sources:
        cell = source.parent
        cell.remove(source)
        if not cell.children:
            cell.parent.remove(cell)
    if sources:
        look = {
            "container_classes": ["page-code"],
            "title_classes": [],
            "body_classes": [],
            "icon": None,
            "chevron": None,
        }
        place = create_component("dropdown", opened=False, type="dropdown", has_title=True, **look)
        place += [nodes.rubric("", "The code of this page"), *sources]
        next(doctree.findall(nodes.section)).append(place)


def span_the_headings(app: Sphinx, doctree: nodes.document) -> None:
    """Let a cell span its row where the other cells are empty."""
    for row in doctree.findall(nodes.row):
        first, *others = row.children
        if (
            others
            and not isinstance(row.parent, nodes.thead)
            and first.astext()
            and not any(entry.astext().strip() for entry in others)
        ):
            first["morecols"] = len(others)
            row.children = [first]
            row["classes"].append("heads")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("doctree-read", move_the_code)
    app.connect("doctree-read", span_the_headings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
