"""Numbers in the prose of a page: what stands in double braces is computed at the end of its cells.

:mod:`study.prose` says how it is meant. Here the text of a page gets one more cell, which
asks for its expressions, and the answers of the executed page take the places of the braces before
Sphinx reads it. What reads a page, the book and the notebooks that it offers, reads it with
:func:`filled`; what executes it, with :func:`asking`.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

from jupyter_cache import get_cache
from myst_nb.core.read import create_nb_reader
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.logging import getLogger

LOGGER = getLogger(__name__)
MIME = "application/x.gdlib.numbers-of-prose+json"  # as study.prose publishes them
TAG = "numbers-of-prose"
READ: dict[str, str] = {}
"""The texts of the pages that Sphinx has read in this build, with their numbers."""
PARSED: dict[tuple[str, str], NotebookNode | None] = {}
"""The notebooks of these texts, without outputs."""
CELL = re.compile(r"^```\{code-cell\}.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
EXPRESSION = re.compile(r"\{\{\s(.+?)\s\}\}", re.DOTALL)
ASKING = """

```{{code-cell}} ipython3
:tags: [remove-cell, {tag}]

from study import prose

prose.publish(globals(), {expressions!r})
```
"""


def expressions(text: str) -> list[str]:
    r"""List what stands in double braces in the prose of a page, each once.

    Example:
        >>> code = "```{code-cell}\n'{{}}{{x}}'\n```"
        >>> expressions("β is {{ beta }}.\n\n" + code + "\n{{ beta }} {{ two(\n1) }}")
        ['beta', 'two( 1)']
    """
    return list(dict.fromkeys(map(in_one_line, EXPRESSION.findall(CELL.sub("", text)))))


def in_one_line(expression: str) -> str:
    """Write an expression without the line breaks of its paragraph."""
    return " ".join(expression.split())


def asking(text: str) -> str:
    """Give the text of a page with the cell that asks for its numbers."""
    asked = expressions(text)
    return text + ASKING.format(tag=TAG, expressions=asked) if asked else text


def read(env: BuildEnvironment, docname: str, text: str) -> NotebookNode | None:
    """Read the text of a page as myst-nb does, each text once; None if it is no notebook."""
    if (docname, text) not in PARSED:
        path = env.doc2path(docname)
        reader = create_nb_reader(path, env.myst_config, env.mystnb_config, text)
        PARSED[docname, text] = None if reader is None else reader.read(text)
    return copy.deepcopy(PARSED[docname, text])


def executed(env: BuildEnvironment, docname: str) -> NotebookNode | None:
    """Give the notebook of a page with its outputs and with the numbers in its prose.

    None for a page that is none, or was not executed.
    """
    text = READ.get(docname)
    if text is None:  # Sphinx has not read it in this build
        text = filled(env, docname, Path(env.doc2path(docname)).read_text(encoding="utf-8"))
    return from_cache(env, read(env, docname, text))


def from_cache(env: BuildEnvironment, notebook: NotebookNode | None) -> NotebookNode | None:
    """Put the outputs into a notebook; None if it is not in the cache."""
    if notebook is None:
        return None
    try:
        cache = get_cache(env.mystnb_config.execution_cache_path)
        return cache.merge_match_into_notebook(notebook)[1]
    except KeyError:
        return None


def filled(env: BuildEnvironment, docname: str, text: str) -> str:
    """Give the text of a page with its numbers, and with the cell that asked for them.

    Raises:
        ExtensionError: a number is not there.
    """
    asked = asking(text)
    if asked == text:
        return text
    notebook = from_cache(env, read(env, docname, asked))
    if notebook is None:  # a cell failed, which myst-nb tells
        LOGGER.warning("no numbers in the prose: the page was not executed", location=docname)
        return asked
    (output,) = (
        output.data[MIME]
        for cell in notebook.cells
        if TAG in cell.metadata.get("tags", [])
        for output in cell.outputs
        if MIME in output.get("data", {})
    )
    if output["errors"]:
        told = "\n".join(f"  {{{{ {name} }}}}: {why}" for name, why in output["errors"].items())
        raise ExtensionError(f"{docname}: numbers of the prose are missing\n{told}")
    return with_texts(asked, output["texts"])


def with_texts(text: str, texts: dict[str, str]) -> str:
    """Put texts in place of the expressions of the prose; the cells stay as they are."""

    def number(match: re.Match[str]) -> str:
        return texts[in_one_line(match[1])]

    parts, last = [], 0
    for cell in CELL.finditer(text):
        parts += [EXPRESSION.sub(number, text[last : cell.start()]), cell[0]]
        last = cell.end()
    return "".join([*parts, EXPRESSION.sub(number, text[last:])])


def fill(app: Sphinx, docname: str, source: list[str]) -> None:
    """Do so when Sphinx reads the page."""
    source[0] = READ[docname] = filled(app.env, docname, source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
