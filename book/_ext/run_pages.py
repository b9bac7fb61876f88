"""Execute notebooks, several at a time: ``python run_pages.py WORKERS TIMEOUT < jobs``.

A kernel of its own for every page would import torch, pandas, matplotlib and sympy again: five
seconds of a processor each. Here one process imports once what the pages import, and every page
gets a copy of that process (``fork``), which becomes its kernel. A fork is safe only while there is
one thread, so nothing is computed before it; where forking is not safe (macOS), kernels start as
usual, still several at a time.

Every line of the standard input is a job, in JSON: the notebook, which is overwritten by what was
executed, and the folder where it runs. Every line of the output tells of a job that has ended:
notebook, seconds, and the error, or null.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import contextlib
import importlib
import io
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

# One thread each, since all cores have pages to do; the imports below read both.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"

import nbformat
from ipykernel.kernelapp import IPKernelApp
from jupyter_client import AsyncKernelClient, AsyncKernelManager
from jupyter_client.connect import write_connection_file
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from PIL import Image

FORK = sys.platform == "linux"
NO_HISTORY = "--HistoryManager.hist_file=:memory:"
IMPORT = re.compile(r"^(?:from|import) +([\w.]+)", re.MULTILINE)


def warm(notebooks: list[Path]) -> None:
    """Import every module that the notebooks name at the beginning of a line."""
    cells = (
        cell.source
        for path in notebooks
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    )
    for name in sorted({name for source in cells for name in IMPORT.findall(source)}):
        with contextlib.suppress(ImportError):  # its page will say so
            importlib.import_module(name)


class Forked:
    """A kernel that was forked from this process; as much of a kernel manager as nbclient asks of one that it does not own."""

    has_kernel = True

    def __init__(self, connection: str) -> None:
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)  # the standard output is for the ends of jobs
            try:
                IPKernelApp.launch_instance(
                    argv=[
                        "-f",
                        connection,
                        NO_HISTORY,
                        f"--IPKernelApp.parent_handle={os.getppid()}",
                    ]
                )
            finally:
                os._exit(1)

    def is_alive(self) -> bool:
        """Return whether it runs."""
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def kill(self) -> None:
        """End it at once: nothing that it holds is wanted any more."""
        with contextlib.suppress(OSError):
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)


class Client(AsyncKernelClient):
    """Asks if the process of the kernel is there, and for no heartbeats, which come too late on a busy machine."""

    kernel: Forked

    async def _async_is_alive(self) -> bool:
        return self.kernel.is_alive()


def end_with(parent: int) -> None:
    """Let this process end, within a second or so, when the one that started it is gone.

    Otherwise a page would go on for minutes after ``timeout`` or an out-of-memory killer ended the
    build, which is told to nobody further down.
    """

    def look(*_: object) -> None:
        if os.getppid() != parent:
            raise SystemExit("the build that asked for these pages has ended")

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)  # a fork has a timer of its own
    # the interpreter drops its handlers when it ends; the next alarm would then kill it
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.0)


async def as_long_as(parent: int, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, and cancel it if the process that asked for it is gone."""
    task = asyncio.ensure_future(work)
    while not (await asyncio.wait([task], timeout=1.0))[0]:
        if os.getppid() != parent:
            task.cancel()
    await task


async def talk(
    notebook: nbformat.NotebookNode, timeout: int, kernel: Forked, info: dict[str, Any]
) -> None:
    """Execute the notebook in place, in a kernel that is a copy of this process."""
    client = Client()
    client.kernel = kernel
    client.load_connection_info(info)
    client.start_channels(hb=False)
    try:
        await client.wait_for_ready(timeout=timeout)  # minutes, on a busy machine
        client.allow_stdin = False
        runner = NotebookClient(notebook, km=kernel, timeout=timeout, record_timing=False)  # type: ignore[arg-type]
        runner.kc = client
        await runner.async_execute()
    finally:
        client.stop_channels()


def execute(notebook: nbformat.NotebookNode, timeout: int, folder: str) -> None:
    """Execute the notebook in place."""
    place: dict[str, Any] = {
        "transport": "ipc",
        "ip": f"{folder}/k",
    }  # no port, and no warning of one that is not encrypted
    if not FORK:
        kernels = AsyncKernelManager(**place)
        NotebookClient(
            notebook, km=kernels, timeout=timeout, record_timing=False, extra_arguments=[NO_HISTORY]
        ).execute(cleanup_kc=True)
        return
    file, info = write_connection_file(
        f"{folder}/kernel.json", key=os.urandom(16).hex().encode(), **place
    )
    parent = os.getppid()
    kernel = Forked(file)  # before this process has a socket or a thread
    try:
        asyncio.run(as_long_as(parent, talk(notebook, timeout, kernel, info)))
    finally:
        kernel.kill()


def shrink(notebook: nbformat.NotebookNode) -> None:
    """Store pictures with a palette of 256 colours where that is smaller: drawings have few, and become a third."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if picture := output.get("data", {}).get("image/png"):
            with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
                buffer = io.BytesIO()
                image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
                    buffer, "png", optimize=True
                )
            output["data"]["image/png"] = min(
                picture, base64.b64encode(buffer.getvalue()).decode(), key=len
            )


def run(path: str, cwd: str, timeout: int) -> str | None:
    """Execute one notebook where it lies; return the error of a cell that failed."""
    notebook = nbformat.read(path, as_version=4)
    os.chdir(cwd)
    with tempfile.TemporaryDirectory(
        prefix="page"
    ) as folder:  # a short path: the name of a socket has at most about 100 characters
        try:
            execute(notebook, timeout, folder)
        except (CellExecutionError, CellTimeoutError, DeadKernelError, RuntimeError) as error:
            return str(error)
    shrink(notebook)
    nbformat.write(notebook, path)
    return None


def main() -> None:
    """Keep as many pages running as there are workers."""
    workers, timeout = int(sys.argv[1]), int(sys.argv[2])
    jobs: list[dict[str, Any]] = [json.loads(line) for line in sys.stdin]
    if hasattr(signal, "setitimer"):
        end_with(os.getppid())
    if FORK:
        warm([Path(job["notebook"]) for job in jobs])
    running: dict[int, tuple[dict[str, Any], float]] = {}
    while jobs or running:
        while jobs and len(running) < workers:
            job = jobs.pop(0)
            start = time.monotonic()
            if pid := os.fork():
                running[pid] = (job, start)
                continue
            try:
                Path(f"{job['notebook']}.error").write_text(
                    json.dumps(run(job["notebook"], job["cwd"], timeout)), encoding="utf-8"
                )
            finally:
                os._exit(0)
        pid, _ = os.wait()
        job, start = running.pop(pid)
        error = Path(
            f"{job['notebook']}.error"
        )  # one process writes the lines, so that no two of them mix
        said = (
            json.loads(error.read_text(encoding="utf-8"))
            if error.is_file()
            else "the process that ran it ended"
        )
        print(
            json.dumps(
                {"notebook": job["notebook"], "seconds": time.monotonic() - start, "error": said}
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
