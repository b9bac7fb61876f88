"""The notebooks run.

All run with their defaults in the book, and the pages of experiments once more with other
parameters, as the how-to page has it.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jupytext
import matplotlib.pyplot as plt
import nbformat
import papermill
import pytest

from study import campaign, ledger, parameters, results
from tests.study.small import execute

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
TIMED = "speed"  # this page times what it runs, and writes no file of results
EXPERIMENTS = [page for page in parameters.pages() if page != TIMED]
PAGES = sorted([*(ROOT / "notebooks").rglob("*.md"), *(ROOT / "book").glob("*.md")])
# labels, links to them, boxes, roles
MYST = re.compile(
    r"^\([\w-]+\)=$|\]\([\w-]+\)|^(?:`{3,}|:{3,})\{.*|\{[a-z][\w:-]*\}(?=`)", re.MULTILINE
)
COMPUTING = [path for path in PAGES if "```{code-cell}" in path.read_text(encoding="utf-8")]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


def test_the_book_executed_the_notebooks() -> None:
    """Every page is in the book, and offers this very notebook, executed.

    test_book.py looks at the outputs on the page.
    """
    if not HTML.is_dir():
        pytest.skip(
            "the notebooks' defaults were not tested: "
            "the book has not been built; `make book` builds it"
        )
    wrong = {name_of(source): list(differences(source)) for source in COMPUTING}
    assert not any(wrong.values()), json.dumps(
        {name: texts for name, texts in wrong.items() if texts}, indent=1
    )


def differences(source: Path) -> Iterator[str]:
    """What is wrong with the notebook that a page offers for download."""
    offered = HTML / "_sources" / source.relative_to(ROOT).with_suffix(".ipynb")
    if not offered.is_file():
        yield "the book does not execute or does not contain it"
        return
    first, *cells = nbformat.read(offered, as_version=4).cells
    if first.metadata.get("tags") != ["setup"]:
        yield "its first cell does not install what it needs"
    ran = [cell for cell in cells if cell.cell_type == "code"]
    written = [cell for cell in jupytext.read(source).cells if cell.cell_type == "code"]
    # the figure settings of a cell are metadata in one of them and a part of the source in the
    # other
    if [code(cell.source) for cell in ran] != [code(cell.source) for cell in written]:
        yield "the book is older: `make book`"
    for cell in ran:
        if cell.execution_count is None:
            yield f"not executed: {cell.source[:80]}"
        if any(output.output_type == "error" for output in cell.outputs):
            yield f"failed: {cell.source[:80]}"
    for cell in cells:
        if cell.cell_type == "markdown":
            yield from MYST.findall(cell.source)


def code(source: str) -> str:
    return re.sub(r"\A---\n.*?^---\n", "", source, flags=re.DOTALL | re.MULTILINE).strip()


# Values that no page has as a default, and that take a second.
OTHER = {
    **{"betas": [0.3, 3.0], "seeds": [7], "epochs": 2, "learning_rate": 0.03, "hidden": [9, 2]},
    **{"warmups": [], "width": 0.0625, "temperatures": [1.5], "datasets": ["iris"]},
}


def executed(page: str, **given: object) -> nbformat.NotebookNode:
    """Execute a page by papermill with these parameters."""
    notebook = jupytext.read(ROOT / "notebooks" / "experiments" / f"{page}.md")
    return papermill.execute_notebook(
        notebook, None, parameters=given, cwd=ROOT, progress_bar=False
    )


def by_command(page: str, folder: Path, **given: object) -> subprocess.CompletedProcess[str]:
    """`jupytext | papermill` as the how-to page has it."""
    source = shlex.quote(str(ROOT / "notebooks" / "experiments" / f"{page}.md"))
    python, output = shlex.quote(sys.executable), shlex.quote(str(folder / "run.ipynb"))
    values = "".join(f" -y '{name}: {json.dumps(value)}'" for name, value in given.items())
    command = (
        f"{python} -m jupytext --to ipynb -o - {source}"
        f" | {python} -m papermill - {output} --no-progress-bar{values}"
    )
    return subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("page", EXPERIMENTS)
def test_a_page_runs_with_other_parameters(page: str, tmp_path: Path) -> None:
    """Its file of results is read back, and the parameters are really in it."""
    offered, file = parameters.offered(page), tmp_path / "a.json"
    other = {name: value for name, value in OTHER.items() if name in offered}
    executed(page, record=str(file), **other)

    written = results.load(file)
    values = parameters.checked(page, other)
    assert written["job"]["experiment"] == page
    assert {name: written["job"][name] for name in values} == values
    planned = parameters.planned(values)
    for row, plan in zip(written["runs"], planned, strict=True):
        assert {name: row[name] for name in plan} == plan
        assert 0 <= row["test_accuracy"] <= 1
    assert {row["epoch"] for row in written["curves"]} >= {2}
    # so that a comparison counts the runs of this page beside those of the templates before it
    assert asked_of(page) <= {*written["job"], *written["runs"][0], *DERIVED}


EXTREME = {
    "one run": {
        **{"betas": [0.5], "warmups": [], "seeds": [1], "epochs": 1, "temperatures": [2.0]},
        **{"width": 0.0625, "datasets": ["wine"], "validation_size": 1, "batch_size": 5000},
    },
    "all diverge": {
        **{"learning_rate": 1000.0, "seeds": [0], "epochs": 2, "width": 0.0625},
        **{"normalization": "none", "momentum": 0.99, "imbalance": 1.0},
    },
}


@pytest.mark.parametrize("values", EXTREME)
@pytest.mark.parametrize("page", EXPERIMENTS)
def test_this_run_is_shown_whatever_its_values(
    page: str, values: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The figures and tables of the page's own networks, in this process."""
    notebook = jupytext.read(ROOT / "notebooks" / "experiments" / f"{page}.md")
    of_tables = re.compile(r"\b(results|outcomes)\.read\(")
    notebook.cells = [
        *itertools.takewhile(lambda cell: not of_tables.search(cell.source), notebook.cells)
    ]
    offered = parameters.offered(page)
    try:
        execute(notebook, {k: v for k, v in EXTREME[values].items() if k in offered})
    finally:
        plt.close("all")
    stable = ("angular-images", "tables")  # steps of Adam are bounded
    assert ("a run has diverged" in caplog.text) == (values == "all diverge" and page not in stable)


DERIVED = ("units", "momentum", "match_gradient", "loss", "job")
"""From `hidden`; what has its default in the rows of a page that does not say it; a job's name."""


def asked_of(page: str) -> set[str]:
    """The columns by which claims choose among the runs of a page."""
    asked: set[str] = set()
    for entry in ledger.entries().values():
        if "compare" not in entry:
            continue
        campaigns = [ROOT / "campaigns" / f"{name}.yml" for name in entry["runs"]["from"]]
        if page not in [campaign.load(file).page for file in campaigns if file.is_file()]:
            continue
        for end in (entry["compare"]["better"], entry["compare"]["than"]):
            for method in both(end) if isinstance(end, dict) else []:
                asked |= {*method} - {"metric", "by"}
        known = {*results.read(entry["runs"]["from"][0]), "units"}
        where = re.sub(r'"[^"]*"', "", entry["runs"].get("where", ""))
        asked |= {*entry["variant"]} | known & {*re.findall(r"\w+", where)}
    return asked


def both(side: dict[str, object]) -> list[dict[str, object]]:
    """The methods of a side: one, or the two of a difference."""
    of_difference = side.get("minus", [side])
    assert isinstance(of_difference, list)
    return of_difference


def test_the_page_on_time_runs_with_other_parameters(tmp_path: Path) -> None:
    done = by_command(TIMED, tmp_path, seeds=[7], turns=1)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "a sweep of 4" in (tmp_path / "run.ipynb").read_text(encoding="utf-8")


def test_a_foreign_name_stops_a_page(tmp_path: Path) -> None:
    """By the command; tests/study/test_run.py has all that a page refuses."""
    done = by_command("mnist", tmp_path, nosuch=3)
    assert done.returncode != 0 and "nosuch is no parameter of this page" in done.stderr
