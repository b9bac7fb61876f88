"""The notebooks run.

All run with their defaults in the book, and the templates once more with other parameters, as the
how-to page has it.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
import pytest

from study import records
from study.experiment import EXPERIMENTS, parameter_cell

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import page_kernels  # noqa: E402

HTML = ROOT / "_build" / "html"
NOTEBOOKS = sorted((ROOT / "notebooks" / "experiments").glob("*.md"))
TIMED = "speed"  # this page times what it runs, and writes no record
PAGES = sorted([*(ROOT / "notebooks").rglob("*.md"), *(ROOT / "book").glob("*.md")])
# labels, links to them, attributes, boxes, roles
MYST = re.compile(
    r"^\([\w-]+\)=$|\]\([\w-]+\)|^\{[.#].*|^(?:`{3,}|:{3,})\{.*|\{[a-z][\w:-]*\}(?=`)", re.MULTILINE
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


def test_the_parameter_cells_are_those_of_the_experiments() -> None:
    """Names, types, defaults and descriptions are said once, in study/experiment.py.

    The defaults are small and need no data.
    """
    assert {path.stem for path in NOTEBOOKS} == {*EXPERIMENTS, TIMED}
    for source in NOTEBOOKS:
        if source.stem == TIMED:
            continue
        kind = EXPERIMENTS[source.stem]
        (cell,) = [
            cell.source
            for cell in jupytext.read(source).cells
            if "parameters" in cell.metadata.get("tags", [])
        ]
        assert cell == parameter_cell(kind), f"{source.name}: its cell is not parameter_cell(...)"
        given = kind().model_dump()
        assert (
            (given["scale"] == "smoke" or "scale" in kind.fixed)
            and given.get("dataset", "digits") == "digits"
            and set(given.get("datasets", ())) <= {"iris", "wine"}
        )


# Values that no template has as a default.
OTHER = {
    "betas": [0.3, 3.0],
    "seeds": [7],
    "epochs": 2,
    "learning_rate": 0.05,
    "hidden": [9, 2],
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kernels that have imported what the templates do, and keep no history."""
    imports = ["from study import figures, measures, records, run, tables"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        with page_kernels.started(imports) as name:
            yield name


def run(source: Path, executed: Path, kernel: str, parameters: dict[str, object]) -> None:
    """Execute a notebook as the how-to page has it."""
    python = shlex.quote(sys.executable)
    values = "".join(f" -y '{name}: {json.dumps(value)}'" for name, value in parameters.items())
    done = subprocess.run(
        f"{python} -m jupytext --to ipynb -o - {shlex.quote(str(source))}"
        f" | {python} -m papermill - {executed} -k {kernel} --no-progress-bar{values}",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("source", NOTEBOOKS, ids=name_of)
def test_a_template_runs_with_other_parameters(source: Path, tmp_path: Path, kernel: str) -> None:
    """`jupytext | papermill` as the how-to page has it, with a kernel that has imported before.

    The record is read back, and the parameters are really in it.
    """
    record, executed = tmp_path / "record.json", tmp_path / "run.ipynb"
    if source.stem == TIMED:
        run(source, executed, kernel, {"seeds": [7], "turns": 1})
        assert "a sweep of 4" in executed.read_text(encoding="utf-8")
        return
    kind = EXPERIMENTS[source.stem]
    other = {name: value for name, value in OTHER.items() if name in kind.parameters()}
    run(source, executed, kernel, {"record": str(record), **other})

    written = records.load(record)
    assert records.same(written.parameters, json.loads(json.dumps(kind(**other).model_dump())))
    assert written.experiment == source.stem and written.scale == kind().scale
    table = records.read(tmp_path)
    assert written.epochs_done == 2
    assert ("betas" not in other or {0.3, 3.0} <= set(table["beta"])) and set(table["seed"]) == {7}
    assert table["test_accuracy"].between(0, 1).all()


def test_a_wrong_value_and_a_foreign_record_stop_a_notebook(tmp_path: Path, kernel: str) -> None:
    source, converted = ROOT / "notebooks" / "experiments" / "train.md", tmp_path / "train.ipynb"
    nbformat.write(jupytext.read(source), converted)
    record = tmp_path / "record.json"
    record.write_text("mine")
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(converted),
        str(tmp_path / "run.ipynb"),
        "--no-progress-bar",
        *("-k", kernel),
        *("-p", "record", str(record)),
    ]
    for wrong, message in (
        ("rely", "got 'rely'; did you mean 'relu'"),
        ("relu", "record.json is not a whole record"),
    ):
        done = subprocess.run(
            [*command, "-p", "activation", wrong], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode != 0 and message in done.stderr
    assert record.read_text() == "mine"
