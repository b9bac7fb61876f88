"""Pages that are light, can be read aloud and work on a phone: what the theme loads and this book does not use is left out.

Icons come from a font with these icons alone (the theme's script has two thousand), formulas from
the parts of MathJax that they need, and the script that would send cells to a server elsewhere is
not there. Tables carry their headers in every cell, for screens that are too narrow for columns;
pictures say their shape and are loaded when they come near.
"""

from __future__ import annotations

import html
import importlib.util
import io
import re
import shutil
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import make_pdf
from bs4 import BeautifulSoup
from docutils import nodes
from fontTools import subset
from myst_nb.sphinx_ import HideCodeCellNode, depart_HideCellInput
from PIL import Image
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

MATHJAX = (
    *("startup.js", "core.js", "input/tex.js", "input/tex/extensions"),
    *("output/chtml.js", "output/chtml/fonts", "a11y/assistive-mml.js"),
)
DESCRIPTION = 200  # characters
MANY_COLUMNS = 7  # a table with more is set smaller
PHONE = (
    350,
    8.2,
    14,
)  # pixels of a line on a phone, of a character of a table there, and between two columns
LAPTOP = 760, 9.0, 23  # the same on a laptop
WIDE = 480  # pixels: a figure that is shrunk too much on a phone
FOLDED = (
    "Why",
    "Re-run",
    "Reference",
)  # parts of the contents that are closed unless one of their pages is shown


def without_thebe(app: Sphinx) -> None:
    """Disconnect the extension that jupyter-book brings for running cells on a server: there is none, and its script is an error."""
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


# -- what is read aloud, and what a phone shows ----------------------------------------------------

# a number and its unit, a deviation, an equation, an interval: no line ends within them
TOGETHER = re.compile(
    r"(?:(?<=\d)|^) (?=%)|± (?=\d)|\b[βτλms] [=<>≤≥] (?=[\d−]|$)|\[[+−\d.\u2009]+, [+−\d.\u2009]+\]"
)


def joined(text: str) -> str:
    """Join what belongs together with spaces that do not break.

    Example:
        >>> joined("at β = 0.1 the ECE is 2.0 % ± 0.1, +1.2 [−0.5, +2.9]").replace("\N{NO-BREAK SPACE}", "_")
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


def label_the_cells(app: Sphinx, doctree: nodes.document, pagename: str) -> None:
    """Give every cell of a table the header of its column, and every empty header a text for those who do not see the table."""
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
        labels = [entry.astext().strip() for entry in heads[-1].children]
        for body in group.findall(nodes.tbody):
            for row in body.findall(nodes.row):
                for entry, label in zip(row.children, labels, strict=False):
                    entry["label"] = "" if label == "row" else label  # type: ignore[index]
    for raw in doctree.findall(nodes.raw):
        if "<table" in raw.astext() and "dataframe" in raw.astext():
            raw.replace_self(nodes.raw("", labelled(raw.astext()), format="html"))


def in_words(entry: nodes.Node, *, whole: bool = False) -> str:
    """The text of a cell, in which a formula is one word, since it does not break; so is a number with its interval, if it is whole."""
    text = entry.astext()
    for formula in entry.findall(nodes.math):
        text = text.replace(formula.astext(), formula.astext().replace(" ", ""))
    return (
        text.replace(" ", "\N{NO-BREAK SPACE}")
        if whole and "text-right" in entry["classes"]
        else text
    )  # type: ignore[index]


def fits(rows: Sequence[Sequence[str]], width: float, character: float, gap: float) -> bool:
    """Estimate whether a table needs no more pixels than a line has, when its cells break between all words."""
    columns = zip_longest(*rows, fillvalue="")
    words = [
        max((len(word) for text in column for word in re.split("[ \\n]", text)), default=0)
        for column in columns
    ]
    return sum(character * longest + gap for longest in words) <= width


def labelled(table: str) -> str:
    """Give the cells of a DataFrame, as pandas writes it in HTML, the headers of their columns, as other tables have them."""
    soup = BeautifulSoup(table, "html.parser")
    for found in soup.select("table.dataframe"):
        found["class"] = ["dataframe", "stacked"]
        heads = [
            [cell.get_text().strip() for cell in row.find_all("th")]
            for row in found.select("thead tr")
        ]
        labels = [" ".join(filter(None, column)) for column in zip_longest(*heads, fillvalue="")]
        for row in found.select("tbody tr"):
            for cell, label in zip(row.find_all(["th", "td"]), labels, strict=False):
                cell["data-label"] = label
        for cell in found.select("thead th"):
            if not cell.get_text().strip():
                cell.name = "td"  # a header without a text is none
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


def size_the_figures(app: Sphinx, doctree: nodes.document, pagename: str) -> None:
    """Show a figure of a notebook at half its size in pixels, so that it is sharp on a fine screen; a click opens it in full.

    On a phone a wide one is not shrunk until nobody can read it: it scrolls sideways (see the style
    sheet). All but the first are loaded when they come near; their shape is known before, so that
    nothing moves.
    """
    for position, image in enumerate(doctree.findall(nodes.image)):
        if position and app.builder.name == "html":
            image["loading"] = "lazy"
        path = Path(app.srcdir) / image["uri"]
        if path.suffix == ".png" and "jupyter_execute" in path.parts and path.is_file():
            header = path.read_bytes()[16:24]
            width, height = (
                int.from_bytes(header[:4], "big") // 2,
                int.from_bytes(header[4:], "big") // 2,
            )
            image["width"], image["shape"] = f"{width}px", f"{width} / {height}"
            image["classes"] += ["wide"] if width > WIDE else []


def visit_image(self: HTML5Translator, node: nodes.image) -> None:
    """Write a picture with its shape."""
    type(self).visit_image(self, node)
    if "shape" in node:
        self.body[-1] = self.body[-1].replace(
            ' style="', f' style="aspect-ratio: {node["shape"]}; ', 1
        )


def depart_image(self: HTML5Translator, node: nodes.image) -> None:
    """Close it."""
    type(self).depart_image(self, node)


def visit_citation(self: HTML5Translator, node: nodes.citation) -> None:
    """Write an entry of the bibliography as an item of a list; the role that docutils gives it is for lists of another kind."""
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
    self.body.append(
        f'<details class="admonition hide {" ".join(node["classes"])}">\n<summary>\n{prompts}</summary>\n'
    )


def describe(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Describe a page by its first paragraph, for search engines and for those to whom the link is sent."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree is not None else ()
    texts = (
        " ".join(paragraph.astext().split())
        for paragraph in paragraphs
        if isinstance(paragraph.parent, nodes.section)
    )
    first = next((text for text in texts if text), app.config.project)
    text = html.escape(
        first if len(first) <= DESCRIPTION else first[:DESCRIPTION].rsplit(" ", 1)[0] + " …"
    )
    title = html.escape(re.sub("<[^>]+>", "", context.get("title", "")))
    tags = [
        f'<meta name="description" content="{text}" />',
        f'<meta property="og:description" content="{text}" />',
    ]
    tags += [
        f'<meta property="og:title" content="{title}" />',
        '<meta property="og:type" content="article" />',
    ]
    tags += [f'<meta property="og:site_name" content="{html.escape(app.config.project)}" />']
    if base := app.config.html_baseurl.rstrip("/"):  # both are of use with a whole address alone
        tags += [f'<meta property="og:url" content="{base}/{pagename}.html" />']
        tags += [f'<meta property="og:image" content="{base}/_static/social.png" />']
    context["metatags"] = context.get("metatags", "") + "\n    ".join(["", *tags])


def fold(contents: str) -> str:
    """Close parts of the contents in the side bar; a click opens them, with or without scripts.

    Example:
        >>> fold('<p class="caption"><span class="caption-text">Why</span></p><ul><li>page</li></ul>')
        '<details class="part"><summary><span class="caption-text">Why</span></summary><ul><li>page</li></ul></details>'
    """

    def part(match: re.Match[str]) -> str:
        if match["name"] not in FOLDED:
            return match[0]
        state = " open" if 'class="current' in match["pages"] else ""
        return f'<details class="part"{state}><summary>{match["caption"]}</summary>{match["pages"]}</details>'

    home = re.search(
        r"<ul [^>]*bd-sidenav__home-link[^>]*>\s*(<li.*?</li>)\s*</ul>", contents, re.DOTALL
    )
    if home:  # the first page is the first of the first part
        start, rest = contents[: home.start()], contents[home.end() :]
        contents = start + re.sub(r"<ul[^>]*>", lambda first: first[0] + home[1], rest, count=1)
    caption = r'<p [^>]*class="caption"[^>]*>(?P<caption><span class="caption-text">(?P<name>[^<]*)</span>)</p>'
    return re.sub(
        rf'{caption}(?P<pages>(?:(?!<p [^>]*class="caption").)*</ul>)',
        part,
        contents,
        flags=re.DOTALL,
    )


def offer_fold(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Give it to the template of the side bar."""
    context["folded"] = fold


# -- what is loaded --------------------------------------------------------------------------------


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
    """Leave in the sheets of theme and extensions what the pages use, and in the fonts the icons that are left."""
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


def shrink(picture: Path) -> None:
    """Store a picture with a palette of 256 colours where that is smaller: drawings have few, and become a third."""
    with Image.open(picture) as image:
        if image.mode == "P":
            return
        buffer = io.BytesIO()
        palette = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        palette.save(buffer, "png", optimize=True)
    if buffer.tell() < picture.stat().st_size:
        picture.write_bytes(buffer.getvalue())


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


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Once all pages are written, leave out of the static files what none of them uses."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    copy_mathjax(static)
    trim_the_styles(Path(app.outdir))
    for picture in Path(app.outdir, "_images").glob("*.png"):
        shrink(picture)
    make_pdf.offer(Path(app.outdir), app.config.root_doc)
    if app.config.html_baseurl:
        draw_the_card(static / "social.png", app.config.project)
    for path in [
        *static.rglob("*.map"),
        *static.rglob("fontawesome.js*"),
        *static.glob("sphinx-thebe.*"),
    ]:
        path.unlink(missing_ok=True)


def replace_nodes(app: Sphinx) -> None:
    """Write cells of tables, pictures, citations and hidden cells our way."""
    app.add_node(nodes.citation, override=True, html=(visit_citation, depart_citation))
    app.add_node(nodes.image, override=True, html=(visit_image, depart_image))
    app.add_node(nodes.entry, override=True, html=(visit_entry, depart_entry))
    app.add_node(HideCodeCellNode, override=True, html=(visit_summary, depart_HideCellInput))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("builder-inited", without_thebe, priority=1)
    app.connect("builder-inited", replace_nodes, priority=900)
    app.connect("doctree-resolved", keep_together)
    app.connect("doctree-resolved", label_the_cells)
    app.connect("doctree-resolved", size_the_figures)
    app.connect("html-page-context", without_its_sheet)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", offer_fold)
    app.connect("build-finished", lighten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
