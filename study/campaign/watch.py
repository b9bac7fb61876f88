"""What the jobs of a running campaign are doing: a line a minute for each, the time left, the reason when one fails."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import psutil

from study.campaign.plan import Job, Plan

__all__ = ["DONE", "FAILED", "STARTED", "Watch"]

# How the lines of a job's log begin that say where it is.
STARTED, DONE, FAILED = "starting", "done in ", "error: "
_SAID = re.compile(rf"{STARTED}$|{DONE}|{FAILED}|\w+ \d+ of \d+, about ")  # the last as study.run says it

_EVERY, _POLL = 60.0, 2.0  # seconds


class Watch(threading.Thread):
    """Reports on the pending jobs of a plan while its process lives, and ends them when the process is asked to end (SIGTERM).

    It reads the logs ``build/<campaign>/<job>.log``, so that it sees the jobs of a cluster too. Must be made in the main thread.

    Args:
        plan: the plan.
        root: folder of the project.
        cores: how many jobs run at a time.
    """

    def __init__(self, plan: Plan, root: Path, cores: int) -> None:
        super().__init__(daemon=True)
        self.plan, self.root, self.cores, self.since = plan, root, cores, time.time()
        self.signals, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        """Report a line a minute for each job, and a failure at once."""
        said, known = time.monotonic(), set[str]()
        while True:
            if select.select([self.signals], [], [], _POLL)[0] and signal.SIGTERM in self.signals.recv(100):
                for child in psutil.Process().children(recursive=True):
                    if "study.campaign" in child.cmdline():
                        child.terminate()
            new = [line for line in self.failures() if line not in known]
            known |= set(new)
            if time.monotonic() - said >= _EVERY:
                said, new = time.monotonic(), [*new, *self.lines()]
            if new:
                print(*new, sep="\n", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Look for signals no longer."""
        signal.set_wakeup_fd(-1)
        self.signals.close()
        self._writer.close()

    def lines(self) -> list[str]:
        """A line for each running job and one for all.

        The time left is what the campaign expects, times how much longer or shorter than expected the finished jobs took.
        """
        running, took, expected, left = [], 0.0, 0.0, 0.0
        waiting = failed = 0
        for job, last in ((job, self._last_line(job)) for job in self.plan.pending):
            minutes = job.minutes or 1.0
            if last.startswith(DONE):
                took, expected = took + float(last.removeprefix(DONE).split()[0]), expected + minutes
            elif last.startswith(FAILED):
                failed += 1
            else:
                waiting, left = waiting + 1, left + minutes
                running += [f"{job.campaign}/{job.id}: {last}"] if last else []
        left *= (took / expected if expected else 1.0) / max(1, min(self.cores, waiting))
        ended = f"{len(self.plan.pending) - waiting} of {len(self.plan.pending)} jobs ended" + (f", {failed} failed" if failed else "")
        return [*running, f"{self.plan.campaign.name}: {ended}, about {left:.3g} minutes left"]

    def failures(self) -> list[str]:
        """A line for each job that failed, with the reason."""
        ends = ((job, self._last_line(job)) for job in self.plan.pending)
        return [f"{job.campaign}/{job.id}: {last} (build/{job.campaign}/{job.id}.log)" for job, last in ends if last.startswith(FAILED)]

    def _last_line(self, job: Job) -> str:
        """The last line of a job's log that says where it is, empty where nothing was written since the start."""
        path = self.root / "build" / job.campaign / f"{job.id}.log"
        try:
            found = os.stat(path)
            if found.st_mtime < self.since - 1:
                return ""
            with path.open("rb") as file:
                file.seek(max(0, found.st_size - 4096))
                lines = file.read().decode("utf-8", errors="replace").replace("\r", "\n").split("\n")
        except FileNotFoundError:
            return ""
        return next((line.strip()[:300] for line in reversed(lines) if _SAID.match(line.strip())), STARTED)
