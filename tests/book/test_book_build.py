"""How the book is built.

Notebooks in forks of one process, and pages without what they do not use.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"
sys.path.insert(0, str(EXTENSIONS))

import downloads  # noqa: E402
import light_pages  # noqa: E402
import prose  # noqa: E402
import run_pages  # noqa: E402

DRAWN = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"


def run(folder: Path, *sources: list[str]) -> tuple[list[dict], list[nbformat.NotebookNode], str]:
    """Execute notebooks of these cells.

    Returns what was said of each, the notebooks, and what was written to stderr.
    """
    paths = [folder / f"{number}.ipynb" for number in range(len(sources))]
    for path, cells in zip(paths, sources, strict=True):
        nbformat.write(
            nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]),
            path,
        )
    jobs = "\n".join(json.dumps({"notebook": str(path), "cwd": str(folder)}) for path in paths)
    command = [sys.executable, str(EXTENSIONS / "run_pages.py"), "2", "60"]
    done = subprocess.run(
        command, input=jobs, capture_output=True, text=True, cwd=ROOT, check=True, timeout=300
    )
    said = {result["notebook"]: result for result in map(json.loads, done.stdout.splitlines())}
    return (
        [said[str(path)] for path in paths],
        [nbformat.read(path, as_version=4) for path in paths],
        done.stderr,
    )


@pytest.mark.skipif(not run_pages.FORK, reason="kernels are forked on Linux alone")
def test_notebooks_run_at_once_each_in_a_process_of_its_own(tmp_path: Path) -> None:
    said, notebooks, stderr = run(
        tmp_path,
        [
            "import os, sys; seen = 1",
            "print('matplotlib.pyplot' in sys.modules, os.getpid(), os.environ['OMP_NUM_THREADS'])",
        ],
        ["import os; print('seen' in globals(), os.getpid(), os.getcwd())", DRAWN],
        ["1 / 0"],
    )
    assert [result["error"] is None for result in said] == [True, True, False]
    assert "ZeroDivisionError" in said[2]["error"] and not notebooks[2].cells[0].outputs
    first, second = (
        next(cell.outputs[0].text.split() for cell in notebook.cells if cell.outputs)
        for notebook in notebooks[:2]
    )
    assert first[0] == "True" and second[0] == "False" and first[1] != second[1], (
        "one process, warm, and a copy of it for each"
    )
    assert first[2] == "1" and second[2] == str(tmp_path)
    (picture,) = (
        output.data["image/png"]
        for output in notebooks[1].cells[1].outputs
        if "image/png" in output.get("data", {})
    )
    assert picture
    assert [cell.execution_count for cell in notebooks[1].cells] == [
        1,
        2,
    ] and "execution" not in notebooks[1].cells[0].metadata
    assert not stderr, "nothing but the progress is shown"


@pytest.mark.slow
@pytest.mark.skipif(not run_pages.FORK, reason="kernels are forked on Linux alone")
def test_no_kernel_outlives_the_build_that_was_killed(tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    nbformat.write(
        nbformat.v4.new_notebook(
            cells=[
                nbformat.v4.new_code_cell(
                    "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(300)"
                )
            ]
        ),
        tmp_path / "long.ipynb",
    )
    job = json.dumps({"notebook": str(tmp_path / "long.ipynb"), "cwd": str(tmp_path)})
    # a build that starts run_pages.py, as Sphinx does, and is then killed
    build = (
        "import subprocess, sys; process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE,"
        f" text=True); process.stdin.write({job!r}); process.stdin.close(); process.wait()"
    )
    pages = [sys.executable, str(EXTENSIONS / "run_pages.py"), "2", "600"]
    process = psutil.Popen([sys.executable, "-c", build, *pages], cwd=ROOT)
    wait_until((tmp_path / "begun").exists)
    (main,) = process.children()
    (worker,) = main.children()
    (kernel,) = worker.children()
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(alive, [main, worker, kernel])))


def alive(process: Any) -> bool:
    return process.is_running() and process.status() != "zombie"


def wait_until(true: Callable[[], bool], seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)


def test_a_sheet_keeps_the_rules_of_the_classes_that_are_there() -> None:
    sheet = "@media print{.a,.gone:hover{x:1}.b:not(.gone){x:2}}.gone .a{x:3}p{x:4}@font-face{font-family:F}.c\\:d{x:5}"
    assert light_pages.keep_what_is_used(sheet, {"a", "b", "c"}) == (
        "@media print{.a{x:1}.b:not(.gone){x:2}}p{x:4}@font-face{font-family:F}.c\\:d{x:5}"
    )


def test_parts_of_the_contents_fold_and_the_one_that_is_shown_is_open() -> None:
    caption = '<p aria-level="2" class="caption" role="heading"><span class="caption-text">{}</span></p>\n'
    contents = "".join(
        caption.format(name) + f"<ul{kind}><li><ul><li>{name}</li></ul></li></ul>\n"
        for name, kind in PARTS.items()
    )
    folded = BeautifulSoup(light_pages.fold(f"<nav>{HOME}{contents}</nav>"), "html.parser")
    shown = {
        part.summary.get_text(): (part.has_attr("open"), part.ul.get_text())
        for part in folded.select("nav > details")
    }
    assert shown == {"Why": (False, "Why"), "Reference": (True, "Reference")}
    assert [part.get_text() for part in folded.select("nav > p.caption")] == ["Start", "Samples"]
    assert [page.get_text() for page in folded.select("nav > ul:first-of-type > li")] == [
        "home",
        "Start",
    ]


HOME = '<ul class="nav bd-sidenav__home-link"><li>home</li></ul>'
PARTS = {"Start": "", "Why": ' class="nav"', "Samples": "", "Reference": ' class="current nav"'}


class Names:
    """Labels as they are."""

    title = number = proof = staticmethod("<{}>".format)
    equation = staticmethod("({})".format)

    @staticmethod
    def citation(keys: str, *, brackets: bool) -> str:
        return f"{keys} {brackets}"


def test_the_text_of_a_downloaded_notebook_is_markdown_that_jupyter_shows() -> None:
    myst = """(sec-a)=
# Title
{.answer}
See {ref}`sec-b`, {ref}`there <sec-c>`, [here](sec-d), [](sec-e), [outside](https://a.b), {numref}`Table %s <tab-f>`, {eq}`eq-g`.

````{prf:theorem} Name
:label: thm-h

```{math}
:label: eq-i
a \\\\ b
```
````
:::{note}
{cite:t}`k` and {cite:p}`l`: {py:func}`~gdlib.functional.f`, {term}`word`
:::
"""
    expected = """# Title
See <sec-b>, there, here, <sec-e>, [outside](https://a.b), Table <tab-f>, (eq-g).

**<thm-h> (Name).**

$$
\\begin{split}
a \\\\ b
\\end{split}
\\tag{eq-i}
$$
**Note**

k False and l True: `f`, word
"""
    assert downloads.readable(myst, Names()) == expected  # type: ignore[arg-type]


def test_a_downloaded_notebook_is_executed_and_installs_what_it_needs(tmp_path: Path) -> None:
    """Its first cell finds a clone above it, fetches one from an address, and says what to do where there is neither."""
    source = nbformat.v4.new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        }
    )
    output = nbformat.v4.new_output("display_data", {"text/plain": "1"})
    asking = nbformat.v4.new_code_cell("2", metadata={"tags": ["remove-cell", prose.TAG]})
    source.cells = [
        nbformat.v4.new_markdown_cell("(sec-a)=\n# T"),
        nbformat.v4.new_code_cell("1", outputs=[output], execution_count=3),
        asking,
    ]
    setup = downloads.SETUP.format(title="T", repository="", folder="notebooks/theory")
    notebook = downloads.portable(source, Names(), setup, {"R": "x"})  # type: ignore[arg-type]
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells] == [setup, "$\\newcommand{\\R}{x}$\n\n# T", "1"]
    assert notebook.cells[2].outputs == [output] and notebook.cells[2].execution_count == 3

    command = [sys.executable, "-c", f"{setup}\nprint(sys.path[0], os.getcwd())"]
    here = subprocess.run(
        command, cwd=ROOT / "book", capture_output=True, text=True, check=True
    ).stdout.split()
    assert here == [str(ROOT), str(ROOT / "notebooks" / "theory")]
    lost = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "write its address or path behind REPOSITORY" in lost.stderr
    project = tmp_path / "project"
    for folder in ("gdlib", "study", "notebooks/theory"):
        (project / folder).mkdir(parents=True)
        (project / folder / "a.py").touch()
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a"]):
        subprocess.run([*git, *arguments], check=True)
    command[2] = command[2].replace('REPOSITORY = ""', f'REPOSITORY = "{project}"')
    fetched = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    assert fetched == [
        str(tmp_path / "gdlib-book"),
        str(tmp_path / "gdlib-book" / "notebooks" / "theory"),
    ]


def test_a_downloaded_notebook_installs_the_versions_of_the_book(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("gdlib", "study", "notebooks/theory"):
        (tmp_path / folder).mkdir(parents=True)
    asked: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("subprocess.run", lambda command, **options: asked.append(command))
    setup = downloads.SETUP.format(title="T", repository="", folder="notebooks/theory")
    exec(setup, {})
    (command,) = asked
    assert command[-4:] == ["-c", str(tmp_path / "constraints.txt"), "-e", f"{tmp_path}[book]"]


def test_a_table_that_is_too_wide_for_a_phone_is_stacked_there_with_its_headers() -> None:
    assert light_pages.fits(
        [["a b", "ccc"], ["dd", "e"]], 5 * 8 + 2 * 10, 8, 10
    ) and not light_pages.fits([["abc"]], 33, 8, 10)
    frame = pd.DataFrame({"x": [1.5], "y": ["t"]}, index=pd.Index(["key"], name="name"))
    table = BeautifulSoup(light_pages.labelled(frame.to_html()), "html.parser").table
    assert table is not None and table["class"] == ["dataframe", "stacked"]
    assert [
        (cell["data-label"], cell.get_text()) for cell in table.select("tbody *:is(th, td)")
    ] == [
        ("name", "key"),
        ("x", "1.5"),
        ("y", "t"),
    ]
