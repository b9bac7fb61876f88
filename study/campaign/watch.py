"""What the jobs of a running campaign are doing: a line a minute for each, the time left, the reason when one fails."""

from __future__ import annotations

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

_EVERY = 60.0  # seconds


class Watch(threading.Thread):
    """Reports on the pending jobs of a plan while its process lives, and ends them when the process is asked to end (SIGTERM).

    Snakemake would wait for its jobs. The logs ``build/<campaign>/<job>.log`` tell of the jobs of a cluster too. Must be made in the main
    thread.
    """

    def __init__(self, plan: Plan, root: Path) -> None:
        super().__init__(daemon=True)
        self.plan, self.root, self.since = plan, root, time.time()
        self.signals, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def run(self) -> None:
        """Report a line a minute for each job."""
        while True:
            if not select.select([self.signals], [], [], _EVERY)[0]:
                print(*self.lines(), sep="\n", file=sys.stderr, flush=True)
            elif signal.SIGTERM in self.signals.recv(100):
                for child in psutil.Process().children(recursive=True):
                    if "study.campaign" in child.cmdline():
                        child.terminate()

    def close(self) -> None:
        """Look for signals no longer."""
        signal.set_wakeup_fd(-1)
        self.signals.close()
        self._writer.close()

    def lines(self) -> list[str]:
        """Write a line for each running job and one for all; the time left is what the campaign expects, at the pace so far."""
        last = [(job, self._last_line(job)) for job in self.plan.pending]
        ended = [job for job, line in last if line.startswith((DONE, FAILED))]
        expected, done = (sum(job.minutes or 1.0 for job in jobs) for jobs in (self.plan.pending, ended))
        left = (expected - done) * ((time.time() - self.since) / 60 / done if done else 1.0)
        failed = f", {len(self.failures())} failed" if self.failures() else ""
        running = [f"{job.campaign}/{job.id}: {line}" for job, line in last if line and job not in ended]
        return [*running, f"{self.plan.campaign.name}: {len(ended)} of {len(last)} jobs ended{failed}, about {left:.3g} minutes left"]

    def failures(self) -> list[str]:
        """Write a line for each job that failed, with the reason."""
        ends = ((job, self._last_line(job)) for job in self.plan.pending)
        return [f"{job.campaign}/{job.id}: {last} (build/{job.campaign}/{job.id}.log)" for job, last in ends if last.startswith(FAILED)]

    def _last_line(self, job: Job) -> str:
        """The last line of a job's log that says where it is, empty where nothing was written since the start."""
        path = self.root / "build" / job.campaign / f"{job.id}.log"
        if not path.exists() or path.stat().st_mtime < self.since - 1:
            return ""
        lines = path.read_text(encoding="utf-8", errors="replace").replace("\r", "\n").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if _SAID.match(line.strip())), STARTED)
