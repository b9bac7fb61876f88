"""Pages that are light: what the theme loads and this book does not use is left out.

Icons come from the theme's fonts and not from its script, which has two thousand of them as
drawings. Formulas come from the parts of MathJax that they need, and the script that would send
cells to a server elsewhere is not there. No extension of Sphinx leaves out what a theme brings.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

MATHJAX = (
    *("startup.js", "core.js", "input/tex.js", "input/tex/extensions"),
    *("output/chtml.js", "output/chtml/fonts", "a11y/assistive-mml.js"),
)


def without_thebe(app: Sphinx) -> None:
    """Disconnect the extension that jupyter-book brings for running cells on a server.

    There is no server, and its script is an error.
    """
    for listeners in app.events.listeners.values():
        listeners[:] = [
            listener for listener in listeners if listener.handler.__module__ != "sphinx_thebe"
        ]


def without_its_sheet(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Do not load the style sheet of that extension either."""
    context["css_files"] = [
        sheet for sheet in context["css_files"] if "thebe" not in str(sheet.filename)
    ]


def copy_mathjax(static: Path) -> None:
    """Copy those parts of MathJax that the pages load: 2 MB instead of 24."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    assert spec is not None and spec.origin is not None
    for part in MATHJAX:
        source, target = (
            Path(spec.origin).parent / "static" / "mathjax" / part,
            static / "mathjax" / part,
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Once all pages are written, leave out of the static files what none of them uses."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    copy_mathjax(static)
    for path in [
        *static.rglob("*.map"),
        *static.rglob("fontawesome.js*"),
        *static.glob("sphinx-thebe.*"),
    ]:
        path.unlink(missing_ok=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", without_thebe, priority=1)
    app.connect("html-page-context", without_its_sheet)
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
