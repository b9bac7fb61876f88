"""What the jobs of a running campaign are doing.

It is a bar in a terminal, elsewhere a line a minute for each job; and the reason when one fails.
"""

import re
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from tqdm import tqdm

from study.campaign.plan import Job, Plan, in_minutes

# How the lines of a job's log begin that say where it is.
STARTED, DONE, FAILED = "starting", "done in ", "error: "
_SAID = re.compile(
    rf"{STARTED}$|{DONE}|{FAILED}|\w+ \d+ of \d+, about "
)  # the last as study.run says it

_EVERY, _IN_A_TERMINAL = 60.0, 5.0  # seconds
_SILENT = (
    5.0  # minutes without a line, in which a job that trains has said something: it may be dead
)


class Watch(threading.Thread):
    """Reports on the pending jobs of a plan while its process lives.

    It ends the jobs when the process is asked to end (SIGTERM).

    Snakemake would wait for its jobs. The logs ``build/<campaign>/<job>.log`` tell of the jobs of a
    cluster too. Must be started in the main thread.
    """

    def __init__(self, plan: Plan, root: Path) -> None:
        super().__init__(daemon=True)
        self.plan, self.root, self.since = plan, root, time.monotonic()
        # What a log had before belongs to earlier attempts; file times of a server are not asked.
        self.begin = {job.id: self._size(job) for job in plan.pending}
        self.grown = {name: (size, self.since) for name, size in self.begin.items()}
        look = {"desc": plan.campaign.name, "unit": "", "bar_format": "{desc} |{bar:20}| {unit}"}
        self.bar: tqdm[Any] = tqdm(
            total=len(plan.pending), disable=not (plan.pending and sys.stderr.isatty()), **look
        )  # type: ignore[call-overload]

    def start(self) -> None:
        """Listen to signals, and begin."""
        self.signals, self.writer = socket.socketpair()
        self.writer.setblocking(False)
        signal.set_wakeup_fd(self.writer.fileno(), warn_on_full_buffer=False)
        super().start()

    def run(self) -> None:
        """Report until the process ends."""
        while True:
            if not select.select(
                [self.signals], [], [], _EVERY if self.bar.disable else _IN_A_TERMINAL
            )[0]:
                self.tell()
            elif signal.SIGTERM in self.signals.recv(100):
                for child in psutil.Process().children(recursive=True):
                    with suppress(psutil.NoSuchProcess):  # it has just ended
                        if "study.campaign" in child.cmdline():
                            child.terminate()

    def tell(self) -> None:
        """Print a line for each running job and one for all, or move the bar.

        The bar has the first of those lines behind it.
        """
        *running, everything = self.lines()
        if self.bar.disable:
            print(*running, everything, sep="\n", file=sys.stderr, flush=True)
        else:
            self.bar.unit = "; ".join(running)
            self.bar.set_description_str(everything)

    def lines(self) -> list[str]:
        """Write a line for each running job and one for all.

        The time left is what the campaign expects, at the pace so far.
        """
        last = [(job, self._last_line(job)) for job in self.plan.pending]
        ended = [job for job, line in last if line.startswith((DONE, FAILED))]
        self.bar.n = len(ended)
        expected, done = (
            sum(job.minutes or 1.0 for job in jobs) for jobs in (self.plan.pending, ended)
        )
        left = (expected - done) * ((time.monotonic() - self.since) / 60 / done if done else 1.0)
        failed = sum(line.startswith(FAILED) for _, line in last)
        running = [
            f"{job.campaign}/{job.id}: {line}" for job, line in last if line and job not in ended
        ]
        ends = f"{len(ended)} of {len(last)} jobs ended" + (f", {failed} failed" if failed else "")
        return [*running, f"{self.plan.campaign.name}: {ends}, about {in_minutes(left)} left"]

    def failures(self) -> list[str]:
        """Write a line for each job that was not done, with the reason.

        Without a reason it is the last line that its log says.

        A job that is killed says nothing at its end, and one that could not write its log nothing
        at all.
        """
        failures = []
        for job in self.plan.pending:
            last = self._last_line(job)
            if last.startswith(DONE) or (not last.startswith(FAILED) and job.done):
                continue
            if not last.startswith(FAILED):
                lines = [line.strip() for line in self._log(job) if line.strip()]
                said = f"its last line is: {lines[-1][:300]}" if lines else "it has written no line"
                last = f"ended without its record, perhaps killed; {said}"
            failures.append(f"{job.campaign}/{job.id}: {last} ({self._path(job, short=True)})")
        return failures

    def _path(self, job: Job, *, short: bool = False) -> Path:
        path = job.folder / f"{job.id}.log"
        return path if short else self.root / path

    def _size(self, job: Job) -> int:
        try:
            return self._path(job).stat().st_size
        except OSError:
            return 0

    def _log(self, job: Job) -> list[str]:
        """Read the lines that a job's log got since the start."""
        try:
            with self._path(job).open("rb") as file:
                file.seek(self.begin[job.id])
                text = file.read().decode("utf-8", errors="replace")
        except OSError:
            return []
        return text.replace("\r", "\n").split("\n")

    def _last_line(self, job: Job) -> str:
        """Find the last line of a job's log that says where it is.

        It is empty where nothing was written since the start.
        """
        size, now = self._size(job), time.monotonic()
        if size == self.begin[job.id]:
            return ""
        if size < self.begin[job.id]:  # another file
            self.begin[job.id] = 0
        if size != self.grown[job.id][0]:
            self.grown[job.id] = size, now
        said = next(
            (line.strip()[:300] for line in reversed(self._log(job)) if _SAID.match(line.strip())),
            STARTED,
        )
        silent = (now - self.grown[job.id][1]) / 60
        if said.startswith((DONE, FAILED)) or silent < _SILENT:
            return said
        return f"{said}; silent for {silent:.0f} minutes"
