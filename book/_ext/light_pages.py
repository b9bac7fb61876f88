"""Pages that are light: what the theme loads and this book does not use is left out.

Icons come from a font with these icons alone (the theme's script has two thousand), formulas from
the parts of MathJax that they need, and the script that would send cells to a server elsewhere is
not there. Without this a page weighs 488 kB more, and the book some 20 MB. No extension of Sphinx
leaves out what a theme brings; purgers of style sheets are programs for node. fontTools cuts fonts.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from fontTools import subset
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


def keep_what_is_used(sheet: str, names: set[str]) -> str:
    """Leave out of a style sheet the rules for classes that no page and no script names.

    Example:
        >>> keep_what_is_used(".a,.b .c{x:1}@media print{.b:not(.d){x:2}}", {"a", "b"})
        '.a{x:1}@media print{.b:not(.d){x:2}}'
    """

    def rule(match: re.Match[str]) -> str:
        selectors = re.split(r",(?![^()]*\))", match[1])
        kept = [
            part
            for part in selectors
            if set(re.findall(r"\.([A-Za-z][\w-]*)", re.sub(r":\w+\([^)]*\)", "", part))) <= names
        ]
        return f"{','.join(kept)}{{{match[2]}}}" if kept else ""

    return re.sub(r"([^{}@;/]+)\{([^{}]*)\}", rule, sheet)


def keep_the_icons(static: Path, codes: set[int]) -> None:
    """Leave in the fonts of icons those that a style sheet names."""
    for font in (static / "vendor" / "fontawesome" / "webfonts").glob("*.ttf"):
        options = subset.Options(flavor="woff", notdef_outline=True)
        loaded = subset.load_font(str(font), options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=codes)
        subsetter.subset(loaded)
        subset.save_font(loaded, str(font.with_suffix(".woff")), options)
        font.unlink()
        font.with_suffix(".woff2").unlink(missing_ok=True)


def trim_the_styles(out: Path) -> None:
    """Leave in the sheets of theme and extensions what pages use, in fonts the icons left."""
    static = out / "_static"
    read = [
        *out.rglob("*.html"),
        *(path for path in static.rglob("*.js") if path.name != "fontawesome.js"),
    ]
    names = {
        name
        for path in read
        for name in re.findall(r"[A-Za-z][\w-]*", path.read_text(encoding="utf-8"))
    }
    codes: set[int] = set()
    for sheet in static.rglob("*.css"):
        text = keep_what_is_used(sheet.read_text(encoding="utf-8"), names)
        text = re.sub(
            r"url\(([^)]*/fa-[\w-]+)\.woff2\) format\(\"woff2\"\),[^;}]*",
            r'url(\1.woff) format("woff")',
            text,
        )
        codes |= {int(code, 16) for code in re.findall(r"\"\\([0-9a-f]{4})\"", text)}
        codes |= {
            ord(icon) for icon in re.findall("[\ue000-\uf8ff]", text)
        }  # written as characters, not as codes
        sheet.write_text(text, encoding="utf-8")
    keep_the_icons(static, codes)


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Once all pages are written, leave out of the static files what none of them uses."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    copy_mathjax(static)
    trim_the_styles(Path(app.outdir))
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
