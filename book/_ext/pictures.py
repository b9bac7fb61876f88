"""Figures of notebooks: sharp, of a known shape, loaded when they come near, laid out for a phone.

Both pictures of a figure are drawn by :mod:`study.figures.phone`. No extension of Sphinx shows
one of two pictures by the width of the screen, or sizes pictures by their own pixels.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import prose_numbers
from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

PHONE = "application/x.gdlib.figure-on-a-phone"  # as study.figures.phone names it
FINE = 2  # pixels of a picture for each pixel that it takes on a page


def add_those_for_phones(app: Sphinx, doctree: nodes.document) -> None:
    """Put the second picture of a figure behind the first; the style sheet shows one of them."""
    phones = pictures_for_phones(app, app.env.docname)
    for image in list(doctree.findall(nodes.image)):
        content = phones.get(Path(image["uri"]).stem)
        if content is not None:
            second = image.copy()
            second["uri"] = str(Path(image["uri"]).with_name(f"{name_of(content)}.png"))
            Path(app.srcdir, second["uri"].lstrip("/")).write_bytes(content)
            second["classes"] = [*image["classes"], "for-phones"]
            image["classes"] = [*image["classes"], "for-wide-screens"]
            image.parent.insert(image.parent.index(image) + 1, second)


def pictures_for_phones(app: Sphinx, docname: str) -> dict[str, bytes]:
    """Give the second pictures of a notebook by the names that myst-nb gives to the first."""
    notebook = prose_numbers.executed(app.env, docname)
    if notebook is None:
        return {}
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return {
        name_of(b64decode(output["data"]["image/png"])): b64decode(output["metadata"][PHONE])
        for output in outputs
        if PHONE in output.get("metadata", {})
    }


def name_of(content: bytes) -> str:
    """The name of a picture's file, as myst-nb chooses it."""
    return hashlib.sha256(content).hexdigest()


def is_drawn(path: Path) -> bool:
    """Say whether a picture is a figure of a notebook."""
    return path.suffix == ".png" and "jupyter_execute" in path.parts and path.is_file()


def size(app: Sphinx, doctree: nodes.document, pagename: str) -> None:
    """Show a picture of a notebook at half its pixels, so that it is sharp on a fine screen.

    All but the first of a page are loaded when they come near; their shape is known before, so that
    nothing moves. A picture that is not shown is not loaded.
    """
    for position, image in enumerate(doctree.findall(nodes.image)):
        twofold = {"for-phones", "for-wide-screens"} & set(image["classes"])
        if app.builder.name == "html" and (position or twofold):
            image["loading"] = "lazy"
        path = Path(app.srcdir, image["uri"])
        if is_drawn(path):
            with Image.open(path) as picture:
                width, height = (side // FINE for side in picture.size)
            image["width"], image["shape"] = f"{width}px", f"{width} / {height}"


def visit_image(self: HTML5Translator, node: nodes.image) -> None:
    """Write a picture with its shape."""
    type(self).visit_image(self, node)
    if "shape" in node:
        shape = f' style="aspect-ratio: {node["shape"]}; '
        self.body[-1] = self.body[-1].replace(' style="', shape, 1)


def depart_image(self: HTML5Translator, node: nodes.image) -> None:
    """Close it."""
    type(self).depart_image(self, node)


def write_our_way(app: Sphinx) -> None:
    """Write pictures with their shape."""
    app.add_node(nodes.image, override=True, html=(visit_image, depart_image))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", write_our_way, priority=900)
    app.connect("doctree-read", add_those_for_phones, priority=100)  # before Sphinx collects images
    app.connect("doctree-resolved", size)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
