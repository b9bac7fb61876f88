"""What the book needs of Sphinx beyond its own settings: a cache that is never stale, notebooks to download, sharp figures."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

# What a page can show besides its own text. A change in any of these executes every notebook again.
SOURCES = ("gdlib/**/*.py", "study/**/*.py", "campaigns/*.yml", "results/**/*", "constraints.txt")

WIDE = 480  # pixels: a figure that is shrunk too much on a phone


def state_of(root: Path) -> str:
    """A hash of the names and contents of everything that the notebooks read."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in SOURCES for path in root.glob(pattern) if path.is_file()}):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def key_the_cache(app: Sphinx, config: Config) -> None:
    """Keep executed notebooks in a folder named by the state of the sources, and drop the folders of other states.

    The execution cache itself looks at the code of a notebook only. The path is part of Sphinx's environment: when it changes, Sphinx reads
    every page again, so that no page keeps an old number.
    """
    root = Path(app.srcdir)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])  # study is used where it lies
    caches = Path(app.outdir).parent / ".jupyter_cache"
    current = caches / state_of(root)
    for other in caches.glob("*"):
        if other != current:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    config["nb_execution_cache_path"] = str(current)


def offer_the_notebook(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Put the executed notebook beside the page's source, where the theme's download button looks for it."""
    executed = Path(app.outdir).parent / "jupyter_execute" / f"{pagename}.ipynb"
    if executed.is_file():
        target = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(executed, target)
        context["ipynb_source"] = f"{pagename}.ipynb"


def size_the_figures(app: Sphinx, doctree: nodes.document, pagename: str) -> None:
    """Show a figure of a notebook at half its size in pixels, so that it is sharp on a fine screen; a click opens it in full.

    On a phone a wide one is not shrunk until nobody can read it: it scrolls sideways (see the style sheet).
    """
    for image in doctree.findall(nodes.image):
        path = Path(app.srcdir) / image["uri"]
        if path.suffix == ".png" and "jupyter_execute" in path.parts and path.is_file():
            width = int.from_bytes(path.read_bytes()[16:20], "big") // 2  # of the header of a PNG
            image["width"] = f"{width}px"
            image["classes"] += ["wide"] if width > WIDE else []


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("config-inited", key_the_cache)
    app.connect("doctree-resolved", size_the_figures)
    app.connect("html-page-context", offer_the_notebook, priority=100)
    for sheet in sorted((Path(app.srcdir) / "book/_static").glob("*.css")):
        app.add_css_file(sheet.name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
