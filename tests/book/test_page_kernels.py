"""The kernels of pages: copies of one process that has imported what they need."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_cache.executors.utils import single_nb_execution
from nbclient.exceptions import DeadKernelError

from tests.study.small import until

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import gdlib_book  # noqa: E402
import page_kernels  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages get usual kernels here")


@pytest.fixture(autouse=True)
def no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


def notebook(*cells: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


def printed(kernel: str, folder: Path, cell: str) -> str:
    page = notebook(cell)
    done = single_nb_execution(page, str(folder), 60, allow_errors=False, kernel_name=kernel)
    assert done.err is None
    return str(page.cells[0].outputs[0].text).strip()


def test_each_page_begins_with_what_was_imported_and_for_itself(tmp_path: Path) -> None:
    seen = (
        "import os, sys\nprint('wave' in sys.modules, hasattr(sys, 'mine'), os.getcwd(), "
        "os.environ['MPLBACKEND'])\nsys.mine = 1"
    )
    with page_kernels.started(["import wave", "import no_such_module", "1 / 0"]) as kernel:
        twice = [printed(kernel, tmp_path, seen) for _ in range(2)]
    expected = f"True False {tmp_path.resolve()} module://matplotlib_inline.backend_inline"
    assert twice == [expected, expected]


def test_a_kernel_that_ends_is_seen_and_leaves_no_process(tmp_path: Path) -> None:
    with page_kernels.started([]) as kernel:
        number = int(printed(kernel, tmp_path, "import os; print(os.getpid())"))
        with pytest.raises(DeadKernelError):
            single_nb_execution(
                notebook("import os; os._exit(3)"), str(tmp_path), 60, False, kernel_name=kernel
            )
    until(lambda: not Path("/proc", str(number)).exists(), 5)


def test_a_cell_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    page = notebook("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    with page_kernels.started([]) as kernel:
        done = single_nb_execution(page, str(tmp_path), 3, False, kernel_name=kernel)
        assert type(done.err).__name__ == "CellTimeoutError"
        time.sleep(1)
        with pytest.raises(ProcessLookupError):
            os.kill(int(page.cells[0].outputs[0].text), 0)


def test_what_pages_import_is_found_in_their_cells() -> None:
    page = notebook("import b\nfrom a import (\n    c,\n    d,\n)", "%pip list", "x = 1\nimport b")
    page.cells.append(nbformat.v4.new_markdown_cell("import nothing"))
    assert gdlib_book.imports([page, page]) == ["from a import c, d", "import b"]


BUILD = """
import sys

sys.path.insert(0, {extensions!r})
import nbformat
import page_kernels
from jupyter_cache.executors.utils import single_nb_execution

cell = "import os, time; open({told!r}, 'w').write(str(os.getpid())); time.sleep(600)"
page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
with page_kernels.started([]) as kernel:
    single_nb_execution(page, {folder!r}, 600, False, kernel_name=kernel)
"""


def test_a_build_that_is_killed_takes_its_kernels_along(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    values = {"told": str(told), "folder": str(tmp_path)}
    program = BUILD.format(extensions=str(ROOT / "book" / "_ext"), **values)
    build = subprocess.Popen([sys.executable, "-c", program])
    until(lambda: told.is_file() and told.read_text() != "", 60)
    build.kill()
    build.wait()
    until(lambda: not Path("/proc", told.read_text()).exists(), 20)


def test_where_the_process_cannot_be_had_kernels_are_the_usual_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)  # the address of a socket has at most about 100 characters
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with page_kernels.started([]) as kernel:
        assert kernel == "python3"
