"""Tables that a phone can show: every cell carries the header of its column.

The style sheets make a row of a table that is too wide a block, with the headers beside the cells.
Themes and sphinx-design let a wide table scroll instead; no extension writes headers into cells.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from copy import copy
from itertools import zip_longest
from typing import Any

from bs4 import BeautifulSoup, Tag
from docutils import nodes
from docutils.utils.math import tex2unichar
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

MANY_COLUMNS = 7  # a table with more is set smaller
# pixels of a line, of a character of a table, and between two columns
PHONE = 350, 8.2, 14
LAPTOP = 760, 9.0, 23
FRAME = 338, 8.4, 12  # a DataFrame on a phone, whose output may lie in a fold

# what a formula in the header of a column is made of, and how it looks without a formula
SYMBOLS = tex2unichar.mathalpha | tex2unichar.mathrel | {"to": "→", "lvert": "|", "rvert": "|"}
COMMAND = re.compile(r"\\([A-Za-z]+|.)")
RAISED = re.compile(r"\^(?:\{([-\d]+)\}|(\d))")
LOWERED = re.compile(r"_(\d)")
ABOVE = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def label_the_cells(app: Sphinx, doctree: nodes.document, pagename: str) -> None:
    """Give every cell of a table the header of its column.

    An empty header gets a text for those who do not see the table.
    """
    for group in doctree.findall(nodes.tgroup):
        if len(list(group.findall(nodes.colspec))) > MANY_COLUMNS:
            group.parent["classes"].append("dense")
        heads = [row for head in group.findall(nodes.thead) for row in head.findall(nodes.row)]
        if not heads:
            continue
        rows = [[in_words(entry) for entry in row.children] for row in group.findall(nodes.row)]
        if "wordy" not in group.parent["classes"] and not fits(rows, *PHONE):
            whole = [
                [
                    in_words(entry, whole=isinstance(row.parent, nodes.tbody))
                    for entry in row.children
                ]
                for row in group.findall(nodes.row)
            ]
            group.parent["classes"] += ["stacked", "whole"] if fits(whole, *LAPTOP) else ["stacked"]
        for entry in heads[-1].children:
            if not entry.astext().strip():
                entry += nodes.paragraph(
                    "", "", nodes.inline("", "row", classes=["visually-hidden"])
                )
        labels = [as_text(entry) for entry in heads[-1].children]
        for body in group.findall(nodes.tbody):
            for row in body.findall(nodes.row):
                for entry, label in zip(row.children, labels, strict=False):
                    entry["label"] = "" if label == "row" else label
    for raw in doctree.findall(nodes.raw):
        if "<table" in raw.astext() and "dataframe" in raw.astext():
            raw.replace_self(nodes.raw("", labelled(raw.astext()), format="html"))


def as_text(entry: nodes.Node) -> str:
    r"""The text of a header with its formulas in plain characters: an attribute has no others.

    Example:
        >>> formula = nodes.math("", r"\lvert p - q^{-1}(\theta_0)\rvert")
        >>> as_text(nodes.entry("", nodes.paragraph("", "", formula)))
        '|p - q⁻¹(θ₀)|'
    """
    text = without_tags(entry)
    for formula in entry.findall(nodes.math):
        plain = COMMAND.sub(lambda found: SYMBOLS.get(found[1], ""), formula.astext())
        plain = plain.replace("| ", "|")
        plain = RAISED.sub(lambda found: (found[1] or found[2]).translate(ABOVE), plain)
        plain = LOWERED.sub(lambda found: found[1].translate(BELOW), plain)
        text = text.replace(formula.astext(), plain)
    return " ".join(text.split())


def without_tags(entry: nodes.Node) -> str:
    """The text of a cell without the tags of a drawing in it."""
    text = entry.astext()
    for raw in entry.findall(nodes.raw):
        text = text.replace(raw.astext(), "")
    return text


def in_words(entry: nodes.Node, *, whole: bool = False) -> str:
    """The text of a cell, in which a formula is one word, since it does not break.

    A number with its interval is one word, too, if it is to be whole.
    """
    text = without_tags(entry)
    for formula in entry.findall(nodes.math):
        text = text.replace(formula.astext(), formula.astext().replace(" ", ""))
    return (
        text.replace(" ", "\N{NO-BREAK SPACE}")
        if whole and "text-right" in entry["classes"]
        else text
    )


def fits(rows: Sequence[Sequence[str]], width: float, character: float, gap: float) -> bool:
    """Estimate whether a table fits into a line, when its cells break between all words."""
    columns = zip_longest(*rows, fillvalue="")
    words = [
        max((len(word) for text in column for word in re.split("[ \\n]", text)), default=0)
        for column in columns
    ]
    return sum(character * longest + gap for longest in words) <= width


def labelled(table: str) -> str:
    """Give the cells of a DataFrame in HTML, as pandas writes it, the headers of their columns.

    One that is too wide for a phone is stacked there. Each row then repeats the cells that reach
    down from a row above.
    """
    soup = BeautifulSoup(table, "html.parser")
    for found in soup.select("table.dataframe"):
        heads = [
            [
                text
                for cell in row.find_all("th")
                for text in [cell.get_text().strip()] * int(cell.get("colspan", 1))
            ]
            for row in found.select("thead tr")
        ]
        body = [row.find_all(["th", "td"]) for row in found.select("tbody tr")]
        keys = len(found.select("tbody tr:first-child > th"))
        labels = [" ".join(filter(None, column)) for column in zip_longest(*heads, fillvalue="")]
        named = not any(heads[-1][keys:])  # the keys, in a row of their own
        if keys:
            labels[:keys] = heads[-1][:keys] if named else [""] * keys
        rows = [
            [""] * (len(labels) - len(cells)) + [one.get_text() for one in cells] for cells in body
        ]
        breakable = [text.replace("_", "_ ") for text in heads[-2 if named else -1]]
        stacked = not fits([heads[-1], breakable, *rows], *FRAME)  # without those over several
        found["class"] = ["dataframe", "stacked"] if stacked else ["dataframe"]
        above: list[Tag] = []
        for cells in body:
            missing = above[: len(labels) - len(cells)]
            above = [*missing, *cells][:keys]
            for cell, label in zip(reversed(cells), reversed(labels), strict=False):
                cell["data-label"] = label
            for cell in missing if stacked else []:
                again = copy(cell)
                again["class"] = ["again"]
                del again["rowspan"], again["valign"]
                cells[0].insert_before(again)
        for cell in found.select("thead th"):
            if not cell.get_text().strip():
                cell.name = "td"  # a header without a text is none
            elif cell.string and "_" in cell.string:  # names of columns have no spaces
                first, *others = str(cell.string).split("_")
                cell.string = first
                for part in others:
                    cell.extend(["_", soup.new_tag("wbr"), part])
    return str(soup)


def visit_entry(self: HTML5Translator, node: nodes.entry) -> None:
    """Write a cell of a table with the header of its column."""
    type(self).visit_entry(self, node)
    if node.get("label"):
        self.body[-1] = self.body[-1].replace(
            "<td", f'<td data-label="{html.escape(node["label"])}"', 1
        )


def depart_entry(self: HTML5Translator, node: nodes.entry) -> None:
    """Close it."""
    type(self).depart_entry(self, node)


def write_our_way(app: Sphinx) -> None:
    """Write cells with the headers of their columns."""
    app.add_node(nodes.entry, override=True, html=(visit_entry, depart_entry))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_our_way, priority=900)
    # after words have been joined that no line may break
    app.connect("doctree-resolved", label_the_cells, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
