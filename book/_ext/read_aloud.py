"""Two mends for readers who listen: roles and names that axe finds wrong in what others write.

They are of docutils (the role of an entry of the bibliography) and of myst-nb (the name of a closed
cell), which have no setting for them.
"""

from __future__ import annotations

import html
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode, depart_HideCellInput
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def visit_citation(self: HTML5Translator, node: nodes.citation) -> None:
    """Write an entry of the bibliography as an item of a list.

    The role that docutils gives it is for lists of another kind.
    """
    type(self).visit_citation(self, node)
    self.body[-1] = self.body[-1].replace("doc-biblioentry", "listitem")


def depart_citation(self: HTML5Translator, node: nodes.citation) -> None:
    """Close it."""
    type(self).depart_citation(self, node)


def visit_summary(self: HTML5Translator, node: HideCodeCellNode) -> None:
    """Open the box of a cell that is hidden at first; its name is the text that it shows."""
    prompts = "".join(
        f'<p class="{state} admonition-title">{html.escape(node[key])}</p>\n'
        for state, key in (("collapsed", "prompt_show"), ("expanded", "prompt_hide"))
    )
    classes = " ".join(["admonition", "hide", *node["classes"]])
    self.body.append(f'<details class="{classes}">\n<summary>\n{prompts}</summary>\n')


def write_our_way(app: Sphinx) -> None:
    """Write entries of the bibliography and closed cells our way."""
    app.add_node(nodes.citation, override=True, html=(visit_citation, depart_citation))
    app.add_node(HideCodeCellNode, override=True, html=(visit_summary, depart_HideCellInput))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_our_way, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
