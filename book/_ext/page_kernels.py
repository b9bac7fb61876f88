"""Kernels that begin with everything imported.

A page needs a kernel of its own, and four seconds of a processor to import and read what all pages
do. Here one process does it once, and each kernel is a copy of that process (``fork``). Jupyter
starts it like any other, by a kernel specification: its command is this file, which asks the
process for a copy, stays as long as the copy does, and takes it along when it is ended.

Where forking is not safe (macOS, Windows), pages get their usual kernels.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

NAME = "page"


@contextlib.contextmanager
def started(statements: Iterable[str]) -> Iterator[str]:
    """Start the process that has executed some statements; give the name of its kernels.

    Kernels of that name can be started by whatever uses Jupyter's specifications, until the
    context ends. A statement that fails is left out: its page will say so. Where the process cannot
    be had, the name is that of the usual kernels.
    """
    if sys.platform != "linux":
        yield "python3"
        return
    with tempfile.TemporaryDirectory(prefix="kernels") as folder:
        address = f"{folder}/socket"
        specification = Path(folder, "kernels", NAME, "kernel.json")
        specification.parent.mkdir(parents=True)
        ask = [sys.executable, "-S", __file__, address, "{connection_file}"]
        specification.write_text(json.dumps({"argv": ask, "display_name": NAME}))
        serve = [sys.executable, __file__, address, "--serve", *statements]
        paths = [folder, *filter(None, [os.environ.get("JUPYTER_PATH")])]
        with subprocess.Popen(serve, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            ready = server.stdout.readline()  # it has imported, or it has ended
            os.environ["JUPYTER_PATH"] = os.pathsep.join(paths)
            try:
                yield NAME if ready else "python3"
            finally:
                os.environ["JUPYTER_PATH"] = os.pathsep.join(paths[1:])
                server.terminate()


class Copy(socketserver.BaseRequestHandler):
    """A copy of the process becomes a kernel; here everything happens in the copy."""

    def handle(self) -> None:
        """Run the kernel of the connection file that is asked for, in the folder that is given."""
        from ipykernel.kernelapp import IPKernelApp

        self.server.socket.close()  # that of the process, which goes on listening
        with self.request.makefile() as asked:
            connection, folder = json.loads(asked.readline())
        os.chdir(folder)
        os.register_at_fork(after_in_child=self.request.close)  # what a cell starts is no kernel
        threading.Thread(target=self._end_with_it, daemon=True).start()
        IPKernelApp.launch_instance(argv=["-f", connection])

    def _end_with_it(self) -> None:
        self.request.recv(1)  # returns when the one that asked is gone
        os._exit(1)


class Copies(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Makes a copy of this process for each that asks, as long as there is a build."""

    max_children = 1_000
    parent = os.getppid()

    def service_actions(self) -> None:
        """End where the build has ended, however it did; twice a second."""
        super().service_actions()
        if os.getppid() != self.parent:
            os._exit(1)


def serve(address: str, statements: Iterable[str]) -> None:
    """Execute the statements, then make copies."""
    sys.path[0] = ""  # the folder where it runs, as in a kernel
    # as a kernel does before its first cell: matplotlib asks when it is imported
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    with Copies(address, Copy) as copies:
        with contextlib.redirect_stdout(sys.stderr):
            for statement in ("import ipykernel.kernelapp", *statements):
                with contextlib.suppress(Exception):
                    exec(statement, {})
        gc.freeze()  # a copy need not look for garbage in what was there before it
        print(flush=True)
        copies.serve_forever()


def ask(address: str, connection: str) -> None:
    """Ask for a copy, and stay until it is gone, or the build is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # with which Jupyter begins to end a kernel
    build = os.getppid()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        line.sendall(json.dumps([connection, os.getcwd()]).encode() + b"\n")
        while os.getppid() == build and not select.select([line], [], [], 1)[0]:
            pass


if __name__ == "__main__":
    if sys.argv[2] == "--serve":
        serve(sys.argv[1], sys.argv[3:])
    else:
        ask(sys.argv[1], sys.argv[2])
