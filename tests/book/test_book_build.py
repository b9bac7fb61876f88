"""How the book is built: notebooks in forks of one process, and pages without what they do not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"
sys.path.insert(0, str(EXTENSIONS))

import light_pages  # noqa: E402
import run_pages  # noqa: E402

DRAWN = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"


def run(folder: Path, *sources: list[str]) -> tuple[list[dict], list[nbformat.NotebookNode], str]:
    """Execute notebooks of these cells; returns what was said of each, the notebooks, and what was written to stderr."""
    paths = [folder / f"{number}.ipynb" for number in range(len(sources))]
    for path, cells in zip(paths, sources, strict=True):
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), path)
    jobs = "\n".join(json.dumps({"notebook": str(path), "cwd": str(folder)}) for path in paths)
    command = [sys.executable, str(EXTENSIONS / "run_pages.py"), "2", "60"]
    done = subprocess.run(command, input=jobs, capture_output=True, text=True, cwd=ROOT, check=True, timeout=300)
    said = {result["notebook"]: result for result in map(json.loads, done.stdout.splitlines())}
    return [said[str(path)] for path in paths], [nbformat.read(path, as_version=4) for path in paths], done.stderr


@pytest.mark.skipif(not run_pages.FORK, reason="kernels are forked on Linux alone")
def test_notebooks_run_at_once_each_in_a_process_of_its_own(tmp_path: Path) -> None:
    said, notebooks, stderr = run(
        tmp_path,
        ["import os, sys; seen = 1", "print('matplotlib.pyplot' in sys.modules, os.getpid(), os.environ['OMP_NUM_THREADS'])"],
        ["import os; print('seen' in globals(), os.getpid(), os.getcwd())", DRAWN],
        ["1 / 0"],
    )
    assert [result["error"] is None for result in said] == [True, True, False]
    assert "ZeroDivisionError" in said[2]["error"] and not notebooks[2].cells[0].outputs
    first, second = (next(cell.outputs[0].text.split() for cell in notebook.cells if cell.outputs) for notebook in notebooks[:2])
    assert first[0] == "True" and second[0] == "False" and first[1] != second[1], "one process, warm, and a copy of it for each"
    assert first[2] == "1" and second[2] == str(tmp_path)
    (picture,) = (output.data["image/png"] for output in notebooks[1].cells[1].outputs if "image/png" in output.get("data", {}))
    assert picture
    assert [cell.execution_count for cell in notebooks[1].cells] == [1, 2] and "execution" not in notebooks[1].cells[0].metadata
    assert not stderr, "nothing but the progress is shown"


def test_a_sheet_keeps_the_rules_of_the_classes_that_are_there() -> None:
    sheet = "@media print{.a,.gone:hover{x:1}.b:not(.gone){x:2}}.gone .a{x:3}p{x:4}@font-face{font-family:F}.c\\:d{x:5}"
    assert light_pages.keep_what_is_used(sheet, {"a", "b", "c"}) == (
        "@media print{.a{x:1}.b:not(.gone){x:2}}p{x:4}@font-face{font-family:F}.c\\:d{x:5}"
    )
