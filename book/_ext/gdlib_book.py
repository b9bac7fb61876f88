"""The notebooks of the book: executed on all cores, from a cache that is never stale."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import prose
from docutils import nodes
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective
from sphinx.util.logging import getLogger

LOGGER = getLogger(__name__)

# What a page can show besides its own text. A change in any of these executes every notebook again.
SOURCES = (
    *("gdlib/**/*.py", "study/**/*.py", "campaigns/*.yml", "claims/*.yml", "book/answers.yml"),
    *("results/**/*", "constraints.txt"),
)
# No page reads the records of the rehearsal: study.records.read leaves them out.
NOT_READ = "results/records/quick/*"


def state_of(root: Path) -> str:
    """A hash of the names and contents of everything that the notebooks read."""
    digest = hashlib.sha256()
    for path in sorted(
        path
        for path in {path for pattern in SOURCES for path in root.glob(pattern)}
        if path.is_file() and not path.match(NOT_READ)
    ):
        digest.update(
            path.relative_to(root).as_posix().encode()
            + b"\0"
            + hashlib.sha256(path.read_bytes()).digest()
        )
    return digest.hexdigest()[:16]


def key_the_cache(app: Sphinx, config: Config) -> None:
    """Keep executed notebooks in a folder named by the state of the sources, and drop the folders of other states.

    The execution cache itself looks at the code of a notebook only. The path is part of Sphinx's
    environment: when it changes, Sphinx reads every page again, so that no page keeps an old
    number.
    """
    root = Path(app.srcdir)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    )  # study is used where it lies
    caches = Path(app.outdir).parent / ".jupyter_cache"
    current = caches / state_of(root)
    for other in caches.glob("*"):
        if other != current:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    config["nb_execution_cache_path"] = str(current)


def notebooks_to_run(
    env: BuildEnvironment, docnames: list[str]
) -> Iterator[tuple[str, NotebookNode]]:
    """Yield those of the pages that are notebooks and are not in the cache, as myst-nb reads them."""
    cache = get_cache(env.mystnb_config.execution_cache_path)
    for docname in docnames:
        text = Path(env.doc2path(docname)).read_text(encoding="utf-8")
        notebook = prose.read(env, docname, prose.asking(text))
        if notebook is None:
            continue
        if notebook.metadata.get("mystnb", {}).get("execution_mode") == "off":
            continue
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            yield docname, notebook


def run_the_notebooks(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Execute the notebooks among the pages that are about to be read, one on each core, and put them into the cache.

    Sphinx would execute them one after another. A page that fails is left to it: it says which cell
    it was. The slowest pages of the last time come first.
    """
    notebooks = dict(notebooks_to_run(env, docnames))
    if not notebooks or not hasattr(os, "fork"):  # Windows
        return
    times = Path(app.outdir).parent / ".page-seconds.json"
    known: dict[str, float] = json.loads(times.read_text()) if times.is_file() else {}
    expected = {
        docname: known.get(docname, sum(known.values()) / len(known) if known else 1.0)
        for docname in notebooks
    }
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    command = [
        sys.executable,
        str(Path(__file__).with_name("run_pages.py")),
        str(cores),
        str(env.mystnb_config.execution_timeout),
    ]
    cache = get_cache(env.mystnb_config.execution_cache_path)
    with tempfile.TemporaryDirectory() as folder:
        pages = {
            f"{folder}/{number}.ipynb": docname
            for number, docname in enumerate(sorted(expected, key=lambda name: -expected[name]))
        }
        for path, docname in pages.items():
            nbformat.write(notebooks[docname], path)
        jobs = [
            json.dumps({"notebook": path, "cwd": str(Path(env.doc2path(docname)).parent)})
            for path, docname in pages.items()
        ]
        start = time.monotonic()
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=app.srcdir
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n".join(jobs))
            process.stdin.close()
            for line in process.stdout:
                result = json.loads(line)
                docname = pages[result["notebook"]]
                notebook = notebooks.pop(docname)
                outcome = f"failed: {(result['error'] or '').strip().rpartition(chr(10))[2][:200]}"
                if result["error"] is None:
                    keep(
                        cache,
                        env.doc2path(docname),
                        notebook,
                        nbformat.read(result["notebook"], as_version=4),
                        result["seconds"],
                    )
                    known[docname], outcome = result["seconds"], f"{result['seconds']:.0f} s"
                rest = sum(expected[name] for name in notebooks)
                left = (time.monotonic() - start) * rest / max(sum(expected.values()) - rest, 1e-9)
                done = f"page {len(pages) - len(notebooks)} of {len(pages)}: {docname} ({outcome})"
                LOGGER.info(f"{done}; about {left // 60:.0f}:{left % 60:02.0f} left")
    times.write_text(json.dumps(known, indent=1))


def keep(
    cache: JupyterCacheAbstract,
    path: str,
    notebook: NotebookNode,
    executed: NotebookNode,
    seconds: float,
) -> None:
    """Put the outputs of an executed notebook into the cache, under the notebook as myst-nb reads it."""
    notebook.metadata["language_info"] = executed.metadata["language_info"]
    for cell, ran in zip(notebook.cells, executed.cells, strict=True):
        if cell.cell_type == "code":
            cell.update(outputs=ran.outputs, execution_count=ran.execution_count)
    cache.cache_notebook_bundle(
        CacheBundleIn(notebook, path, data={"execution_seconds": seconds}),
        check_validity=False,
        overwrite=True,
    )


class Modules(SphinxDirective):
    """List the modules of a package with the first sentence of their docstrings: ``{modules} study``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Read the sources; nothing is imported."""
        package = Path(self.env.srcdir) / self.arguments[0]
        listed = nodes.bullet_list()
        for path in sorted(
            [*package.glob("[!_]*.py"), *(path for path in package.glob("*/__init__.py"))]
        ):
            self.env.note_dependency(str(path))
            name = f"{package.name}.{path.stem if path.stem != '__init__' else path.parent.name}"
            summary = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split(
                "\n\n"
            )[0]
            text = nodes.paragraph(
                "", "", nodes.literal(name, name), nodes.Text(": " + " ".join(summary.split()))
            )
            listed += nodes.list_item("", text)
        return [listed]


def add_the_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Load the scripts of the figures to play with on the pages that have one."""
    for name in ("play", "fifths"):
        if f'class="{name}"' in context.get("body", ""):
            app.add_js_file(f"{name}.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("modules", Modules)
    app.connect("config-inited", key_the_cache)
    app.connect("env-before-read-docs", run_the_notebooks)
    app.connect("html-page-context", add_the_script)
    for sheet in sorted((Path(app.srcdir) / "book/_static").glob("*.css")):
        app.add_css_file(sheet.name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
