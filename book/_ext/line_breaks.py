"""Line breaks: a number stays with its unit, a full stop with the formula before it.

Browsers break at every space, and Sphinx's smart quotes know no unit; no extension of Sphinx joins
words by their meaning.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

# a number and its unit, a deviation, an equation, an interval: no line ends within them
TOGETHER = re.compile(
    r"(?:(?<=\d)|^) (?=%)|± (?=\d)|\b[βτλms] [=<>≤≥] (?=[\d−]|$)|\[[+−\d.\u2009]+, [+−\d.\u2009]+\]"
)


def joined(text: str) -> str:
    """Join what belongs together with spaces that do not break.

    Example:
        >>> text = joined("at β = 0.1 the ECE is 2.0 % ± 0.1, +1.2 [−0.5, +2.9]")
        >>> text.replace("\N{NO-BREAK SPACE}", "_")
        'at β_=_0.1 the ECE is 2.0_% ±_0.1, +1.2 [−0.5,_+2.9]'
    """
    return TOGETHER.sub(lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text).replace(
        "\u2009", "\N{NARROW NO-BREAK SPACE}"
    )


def keep_together(app: Sphinx, doctree: nodes.document, pagename: str) -> None:
    """Do so in all text that is not code or a formula."""
    for text in list(doctree.findall(nodes.Text)):
        as_it_is = isinstance(
            text.parent,
            (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw),
        )
        if not as_it_is and (better := joined(text)) != text:
            text.parent.replace(text, nodes.Text(better))


def keep_the_stop(app: Sphinx, doctree: nodes.document, pagename: str) -> None:
    """Keep a full stop or a comma in the line of the formula before it.

    A browser may else begin a line with it, since a formula is a box of its own.
    """
    for formula in list(doctree.findall(nodes.math)):
        after = formula.next_node(descend=False, siblings=True)
        if not isinstance(after, nodes.Text) or after.parent is not formula.parent:
            continue
        stop = after[: len(after) - len(after.lstrip(".,;:!?)"))]
        if stop:
            parent = formula.parent
            place = parent.index(formula)
            together = nodes.inline("", "", formula, nodes.Text(stop), classes=["together"])
            parent[place : place + 2] = [together, nodes.Text(after[len(stop) :])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("doctree-resolved", keep_together)
    app.connect("doctree-resolved", keep_the_stop)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
