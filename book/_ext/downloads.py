"""The notebooks that the pages offer for download.

There are also the buttons that open them in Colab and on Binder.

A downloaded notebook is the executed one. Its first cell fetches and installs what it needs, and
its text is Markdown that any Jupyter shows: references, citations and numbers that the page
computes stand in it, boxes and labels of MyST are not left as code.

The theme's own copy has the text as MyST, with roles and labels that Jupyter shows as code, and no
cell that installs; its buttons for Colab and Binder open the source of a page, which is no
notebook. sphinx-tojupyter is another builder, so that the book would be built twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pictures
import prose_numbers
from docutils.nodes import make_id
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment

BRANCH = (
    "notebooks"  # of the repository; .github/workflows/book.yml puts there what this module writes
)

SETUP = """\
# {title}: a page of an executable book.
# This cell finds the project, or fetches it, and installs what is missing.
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

REPOSITORY = "{repository}"  # the address of the project, or the path of a clone

projects = [
    folder
    for folder in (Path.cwd(), *Path.cwd().parents)
    if (folder / "gdlib").is_dir() and (folder / "study").is_dir()
]
project = projects[0] if projects else Path.cwd() / "gdlib-book"
if not project.is_dir():
    assert REPOSITORY, (
        "Open this notebook inside a clone of the project, "
        "or write its address or path behind REPOSITORY above."
    )
    clone = ["git", "clone", "--quiet", "--depth", "1", REPOSITORY, str(project)]
    subprocess.run(clone, check=True)
if find_spec("gdlib") is None or find_spec("myst_nb") is None:
    versions = ["-c", str(project / "constraints.txt")]  # those that the book was built with
    install = [sys.executable, "-m", "pip", "install", "--quiet", *versions]
    subprocess.run([*install, "-e", f"{{project}}[book]"], check=True)
sys.path.insert(0, str(project))
os.chdir(project / "{folder}")"""


# -- text ------------------------------------------------------------------------------------------

LABEL = re.compile(r"^\([\w-]+\)=(?:\n|\Z)", re.MULTILINE)
LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<label>[\w-]+)\)")
BOX = re.compile(
    r"^(?P<fence>`{3,}|:{3,})\{(?P<name>[\w:-]+)\}[ \t]*(?P<title>.*)\n"
    r"(?P<body>(?s:.*?))^(?P=fence)[ \t]*$",
    re.MULTILINE,
)
OPTION = re.compile(r"\A:([\w-]+):[ \t]*(.*)\n")
ROLE = re.compile(r"\{(?P<name>[a-z][\w:-]*)\}`(?P<text>[^`]+)`")
TITLED = re.compile(r"(?s)(?P<text>.*\S)\s*<(?P<target>[^<>]+)>")


@dataclass(frozen=True)
class Names:
    """What the labels of the book stand for; ``env`` is the book as Sphinx has read it."""

    env: BuildEnvironment

    def title(self, label: str) -> str:
        """The title of a section, a figure or a table."""
        labels = self.env.domains["std"].labels
        return labels[label][2] if label in labels else label

    def number(self, label: str) -> str:
        """The kind and the number of a figure, a table or a section."""
        docname, anchor = self.env.domains["std"].anonlabels.get(label, ("", ""))
        for kind, numbers in self.env.toc_fignumbers.get(docname, {}).items():
            if anchor in numbers:
                return self.env.config.numfig_format.get(kind, f"{kind.title()} %s") % ".".join(
                    map(str, numbers[anchor])
                )
        return self.title(label)

    def equation(self, label: str) -> str:
        """The number of a formula, in brackets."""
        docname, _ = self.env.domains["math"].equations.get(label, ("", 0))
        numbers = (
            self.env.toc_fignumbers.get(docname, {})
            .get("displaymath", {})
            .get(make_id(f"equation-{label}"), ())
        )
        return f"({'.'.join(map(str, numbers)) or label})"

    def proof(self, label: str) -> str:
        """The kind and the number of a theorem."""
        found = getattr(self.env, "proof_list", {}).get(label)
        if found is None:
            return label
        number = (
            self.env.toc_fignumbers.get(found["docname"], {})
            .get(found["countertype"], {})
            .get(label, ())
        )
        return f"{found['realtype'].title()} {'.'.join(map(str, number))}".strip()

    def citation(self, keys: str, *, brackets: bool) -> str:
        """Authors and year of every source."""
        entries, told = self.env.domains["cite"].bibdata.data.entries, []
        for key in (key.strip() for key in keys.split(",")):
            names = (
                [" ".join(person.last_names) for person in entries[key].persons["author"]]
                if key in entries
                else [key]
            )
            several = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
            year = entries[key].fields.get("year", "") if key in entries else ""
            told.append(f"{several}, {year}" if brackets else f"{several} ({year})")
        return f"({'; '.join(told)})" if brackets else ", ".join(told)


def readable(text: str, names: Names) -> str:
    """Markdown of MyST as Markdown that any Jupyter shows."""
    text = BOX.sub(lambda box: _box(box, names), LABEL.sub("", text))
    text = LINK.sub(lambda link: link["text"] or names.title(link["label"]), text)
    return ROLE.sub(lambda role: _role(role, names), text)


def _box(box: re.Match[str], names: Names) -> str:
    name, title, body = box["name"], box["title"].strip(), box["body"]
    options = {}
    while option := OPTION.match(body):
        options[option[1]], body = option[2], body[option.end() :]
    if name == "math":
        formula = body.strip()
        if "\\\\" in formula and not formula.startswith("\\begin"):
            formula = f"\\begin{{split}}\n{formula}\n\\end{{split}}"
        tag = f"\n\\tag{{{names.equation(options['label'])[1:-1]}}}" if "label" in options else ""
        return f"$$\n{formula}{tag}\n$$"
    inner = readable(body.strip() + "\n", names).strip()
    gap = "\n\n" if inner.startswith("$$") else " "
    if name == "prf:proof":
        return f"*Proof.*{gap}{inner} ∎"
    if name.startswith("prf:"):
        kind = names.proof(options["label"]) if "label" in options else name[4:].title()
        return f"**{kind}{f' ({title})' if title else ''}.**{gap}{inner}"
    heading = (
        title
        if name in ("admonition", "dropdown")
        else name.title()
        if name in ("note", "tip", "warning")
        else ""
    )
    return f"**{heading}**\n\n{inner}" if heading else inner


def _role(role: re.Match[str], names: Names) -> str:
    name, text = role["name"].removeprefix("py:"), role["text"]
    titled = TITLED.fullmatch(text)
    shown, target = (titled["text"], titled["target"]) if titled else (None, text)
    if name in ("func", "class", "mod", "data", "meth", "attr"):
        return f"`{shown or (target.rpartition('.')[2] if target.startswith('~') else target)}`"
    if name == "numref":
        number = names.number(target)
        return shown.replace("%s", number.rpartition(" ")[2]) if shown else number
    if name.startswith("cite"):
        return names.citation(target, brackets=name == "cite:p")
    found = {"ref": names.title, "doc": names.title, "eq": names.equation, "prf:ref": names.proof}
    return shown or found.get(name, str)(target)


# -- notebooks -------------------------------------------------------------------------------------


def portable(
    notebook: NotebookNode, names: Names, first_cell: str, macros: Mapping[str, str]
) -> NotebookNode:
    """The notebook that is offered.

    With the cell that installs and readable text.

    Args:
        notebook: executed.
        names: for its references.
        first_cell: its source.
        macros: short forms of the formulas, defined in the first text.
    """
    cells = [nbformat.v4.new_code_cell(first_cell, metadata={"tags": ["setup"]})]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = readable(cell.source, names)
        if prose_numbers.TAG not in cell.metadata.get(
            "tags", []
        ):  # its answers are in the sentences
            cells.append(without_phones(cell))
    first = next((cell for cell in cells if cell.cell_type == "markdown"), None)
    if first is not None and macros:
        defined = "".join(
            f"\\newcommand{{\\{name}}}{{{meaning}}}" for name, meaning in macros.items()
        )
        first.source = f"${defined}$\n\n{first.source}"
    return nbformat.v4.new_notebook(
        cells=cells,
        metadata={key: notebook.metadata[key] for key in ("kernelspec", "language_info")},
    )


def without_phones(cell: NotebookNode) -> NotebookNode:
    """Leave out the second pictures of figures, which only a page of the book shows."""
    for output in cell.get("outputs", []):
        output.get("metadata", {}).pop(pictures.PHONE, None)
    return cell


def offer_the_notebook(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Put the notebook beside the page's source, where the theme's download button looks for it."""
    if (
        app.builder.name != "html"
        or pagename not in app.env.found_docs
        or (notebook := prose_numbers.executed(app.env, pagename)) is None
    ):
        return
    address = address_of(app.config)
    title = re.sub("<[^>]+>", "", context.get("title", pagename))
    first_cell = SETUP.format(
        title=title, repository=address, folder=Path(pagename).parent.as_posix()
    )
    macros = app.config.mathjax3_config.get("tex", {}).get("macros", {})
    target = Path(app.outdir) / "_sources" / f"{pagename}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(portable(notebook, Names(app.env), first_cell, macros), target)
    context["ipynb_source"] = f"{pagename}.ipynb"


# -- the address of the repository -----------------------------------------------------------------


def address_of(config: Config) -> str:
    """The one setting: ``repository: {url: ...}`` in _config.yml.

    Empty as long as the project is nowhere.
    """
    return str(config["html_theme_options"].get("repository_url") or "").rstrip("/")


def follow_the_address(app: Sphinx, config: Config) -> None:
    """With an address, show the button of the repository.

    Of one on GitHub, take its pages for the address of the book, also in previews of links.
    """
    address = address_of(config)
    if not address:
        return
    config["html_theme_options"]["use_repository_button"] = True
    site, _, project = address.rpartition("github.com/")
    owner, _, name = project.partition("/")
    if site == "https://" and name and not config["html_baseurl"]:
        folder = "" if name == f"{owner}.github.io" else f"{name}/"
        config["html_baseurl"] = f"https://{owner}.github.io/{folder}"
    config["ogp_site_url"] = config["ogp_site_url"] or config["html_baseurl"]


def add_the_buttons(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Open a notebook in Colab or on Binder, where there is an address on GitHub.

    No button leads nowhere.
    """
    site, _, project = address_of(app.config).rpartition("github.com/")
    if not site or "ipynb_source" not in context:
        return
    page = context["ipynb_source"]
    buttons = [
        (
            "Colab",
            f"https://colab.research.google.com/github/{project}/blob/{BRANCH}/{page}",
            "_static/images/logo_colab.png",
        ),
        (
            "Binder",
            f"https://mybinder.org/v2/gh/{project}/{BRANCH}?urlpath=lab/tree/{page}",
            "_static/images/logo_binder.svg",
        ),
    ]
    shown = [
        {"type": "link", "text": name, "tooltip": f"Run in {name}", "icon": icon, "url": url}
        for name, url, icon in buttons
    ]
    group = {
        "type": "group",
        "tooltip": "Run this page",
        "icon": "fas fa-rocket",
        "label": "launch-buttons",
        "buttons": shown,
    }
    context["header_buttons"].insert(0, group)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("config-inited", follow_the_address)
    app.connect("html-page-context", offer_the_notebook, priority=100)
    app.connect("html-page-context", add_the_buttons, priority=600)  # after those of the theme
    return {"parallel_read_safe": True, "parallel_write_safe": True}
