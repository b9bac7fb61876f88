"""The notebooks of the book: executed on all cores, from a cache that is never stale.

myst-nb executes a page when it reads it, and its cache knows only the text of a page, not what the
page imports and reads. Execution and cache are jupyter-cache's.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from collections.abc import Iterator
from multiprocessing.pool import AsyncResult, ThreadPool
from pathlib import Path
from typing import Any

import prose_numbers
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import ExecutionResult, single_nb_execution
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

# What a page can show besides its own text. A change in any of these executes every notebook again.
SOURCES = (
    *("gdlib/**/*.py", "study/**/*.py", "benchmarks/*.py", "campaigns/*.yml"),
    *("results/**/*", "book/*.yml", "constraints.txt", "_config.yml", "pyproject.toml"),
)
# So does a label that moves: the ledger links to labels of other pages.
LABEL = re.compile(rb"^\([\w-]+\)=$", re.MULTILINE)


def state_of(root: Path) -> str:
    """Hash the names and contents of everything that the notebooks read."""
    digest = hashlib.sha256()
    for path in sorted(
        path
        for path in {path for pattern in SOURCES for path in root.glob(pattern)}
        if path.is_file()
    ):
        digest.update(
            path.relative_to(root).as_posix().encode()
            + b"\0"
            + hashlib.sha256(path.read_bytes()).digest()
        )
    for page in sorted([*root.glob("book/*.md"), *root.glob("notebooks/*/*.md")]):
        name = page.relative_to(root).as_posix().encode()
        digest.update(b"\0".join([name, *LABEL.findall(page.read_bytes())]))
    return digest.hexdigest()[:16]


def key_the_cache(app: Sphinx, config: Config) -> None:
    """Keep executed notebooks in a folder named by the state of the sources.

    Folders of other states are dropped.

    The execution cache itself looks at the code of a notebook only. The path is part of Sphinx's
    environment: when it changes, Sphinx reads every page again, so that no page keeps an old
    number.
    """
    root = Path(app.srcdir)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    )  # study is used where it lies
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # all cores have pages to do
    quiet = Path(app.outdir).parent / ".ipython/profile_default/ipython_kernel_config.py"
    quiet.parent.mkdir(parents=True, exist_ok=True)
    quiet.write_text("c.IPKernelApp.log_level = 'ERROR'\nc.HistoryManager.enabled = False\n")
    os.environ["IPYTHONDIR"] = str(quiet.parents[1])  # no history, no warning for each page
    caches = Path(app.outdir).parent / ".jupyter_cache"
    current = caches / state_of(root)
    for other in caches.glob("*"):
        if other != current:
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    config["nb_execution_cache_path"] = str(current)


def notebooks_to_run(
    env: BuildEnvironment, docnames: list[str]
) -> Iterator[tuple[str, NotebookNode]]:
    """Yield the notebooks among the pages that are not in the cache, as myst-nb reads them."""
    cache = get_cache(env.mystnb_config.execution_cache_path)
    for docname in sorted(docnames):
        text = Path(env.doc2path(docname)).read_text(encoding="utf-8")
        notebook = prose_numbers.read(env, docname, prose_numbers.asking(text))
        if notebook is None:
            continue
        if notebook.metadata.get("mystnb", {}).get("execution_mode") == "off":
            continue
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            yield docname, notebook


class Execution:
    """Notebooks that are executed into the cache, one on each core, while Sphinx reads pages.

    Sphinx would execute them one after another, each when it is read. A page that fails is left to
    it: it says which cell it was.
    """

    def __init__(self) -> None:
        self.done: dict[str, AsyncResult[ExecutionResult]] = {}

    def begin(self, app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
        """Begin with the notebooks that are about to be read.

        Long ones come first, so that no core waits for another at the end. Sphinx reads them in the
        same order, after the pages that are read already or have no code.
        """
        found = dict(notebooks_to_run(env, docnames))
        if not found:
            return
        path = {name: Path(env.doc2path(name)) for name in found}
        size = {name: path[name].stat().st_size for name in found}
        docnames.sort(key=lambda name: -size.get(name, math.inf))
        self.pool = ThreadPool()  # its threads end with a build that fails or is interrupted
        how = {"timeout": env.mystnb_config.execution_timeout, "allow_errors": False}
        for name in sorted(found, key=lambda name: -size[name]):
            given = found[name], str(path[name].parent)
            self.done[name] = self.pool.apply_async(single_nb_execution, given, how)

    def keep(self, app: Sphinx, docname: str, source: list[str]) -> None:
        """Wait for a page that is about to be read, and put it into the cache."""
        if docname not in self.done:
            return
        try:
            done = self.done[docname].get()
        except Exception as error:  # its kernel did not start, or ended
            raise ExtensionError(f"{docname} was not executed: {error}") from error
        if done.err is None:
            get_cache(app.env.mystnb_config.execution_cache_path).cache_notebook_bundle(
                CacheBundleIn(
                    done.nb, app.env.doc2path(docname), data={"execution_seconds": done.time}
                ),
                overwrite=True,
            )


def add_the_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Load the scripts of the figures to play with on the pages that have one."""
    for name in ("play", "fifths"):
        if f'class="{name}"' in context.get("body", ""):
            app.add_js_file(f"{name}.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("config-inited", key_the_cache)
    execution = Execution()
    app.connect("env-before-read-docs", execution.begin)
    app.connect("source-read", execution.keep, priority=400)  # before the numbers of its prose
    app.connect("html-page-context", add_the_script)
    for sheet in sorted((Path(app.srcdir) / "book/_static").glob("*.css")):
        app.add_css_file(sheet.name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
