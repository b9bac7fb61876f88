"""Trials of campaigns that are too long for a test: kills at random moments, and a cluster.

    python tests/study/trials.py kills 20
    python tests/study/trials.py slurm

The first kills (``kill -9``) a job, a kernel, Snakemake or its process group, then gives the same
command again. The second sends 20 jobs through sbatch; one is cancelled and Snakemake killed, then
it gives the same command again.

Both train perceptrons on embedded data, and compare the records with those of the same trainings
one after another in this process. The folder build/trials is theirs. Nothing is installed: without
a Slurm that answers, the second one says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from study import campaign, gpu  # noqa: E402

SNAKEMAKE = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
LOCAL = ["--cores", "2", "--keep-going", "--nolock", "--drop-metadata"]
# kinds of processes, by an argument of their command
KINDS = {"job": "study.campaign", "kernel": "ipykernel_launcher", "Snakemake": "snakemake"}
LIMIT = 3600.0  # seconds until something is called hanging


class Project:
    """A folder with one campaign, its records, and the processes that work in it."""

    def __init__(self, folder: Path, jobs: int, epochs: int, minutes: float) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "campaigns").mkdir(parents=True)
        (folder / "notebooks").symlink_to(ROOT / "notebooks")
        parameters = {"betas": [1, 0.1], "warmups": [], "epochs": epochs}
        entry = {
            "id": "digits",
            "parameters": parameters,
            "each": {"seeds": [[seed] for seed in range(jobs)]},
        }
        content = {"page": "mnist", "entries": [entry | {"minutes": minutes, "memory": 1500}]}
        (folder / "campaigns" / "trial.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        self.folder = folder
        self.jobs = jobs
        self.records = folder / "build" / "results" / "trial"

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Run what is missing."""
        with (self.folder / "said").open("ab") as said:
            command = [*SNAKEMAKE, *options, "--config", "campaign=trial"]
            return subprocess.Popen(
                command, cwd=self.folder, stdout=said, stderr=said, start_new_session=True
            )

    def finish(self, *options: str) -> int:
        """Run what is missing to its end."""
        return self.start(*options).wait(LIMIT)

    def said(self) -> str:
        """Read what all invocations wrote."""
        return (self.folder / "said").read_text(encoding="utf-8", errors="replace")

    def done(self) -> int:
        """Count the records."""
        return len(list(self.records.glob("*.json")))

    def expected(self) -> dict[str, Any]:
        """Train here, without a notebook and without an interruption, and read what comes out."""
        whole = self.folder.with_name("uninterrupted") / "trial"
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir(parents=True)
        for job in campaign.load(self.folder / "campaigns" / "trial.yml").jobs:
            given = {**job.given, "record": str(whole / job.record.name)}
            gpu.execute(job.page, given, lambda epoch: None)
        return measured(whole)

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Find what works in the folder, also where the parent is dead, by its kind."""
        found: dict[str, list[psutil.Process]] = {kind: [] for kind in KINDS}
        for process in psutil.process_iter():
            try:
                if process.cwd() != str(self.folder):
                    continue
                command = process.cmdline()
            except psutil.Error:
                continue
            kinds = [kind for kind, argument in KINDS.items() if argument in command]
            if kinds:
                found[kinds[0]].append(process)
        return found


def measured(records: Path) -> dict[str, Any]:
    """Read what was measured, by the name of the record; nothing else may lie beside them."""
    found = {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(records.iterdir())
    }
    return {
        name: {table: value[table] for table in ("runs", "curves")} for name, value in found.items()
    }


def kills(
    folder: Path,
    number: int,
    *,
    jobs: int = 4,
    epochs: int = 600,
    seed: int = 0,
    takes: float | None = None,
) -> Iterator[str]:
    """Kill something at random moments, run the same command again, and compare.

    A finished campaign begins anew. How long one ``takes`` [s] is measured if it is not given.
    """
    project = Project(folder, jobs, epochs, 0.2)
    expected, began = project.expected(), time.monotonic()
    if takes is None:
        assert project.finish(*LOCAL) == 0, project.said()
        assert measured(project.records) == expected, project.said()
        takes = time.monotonic() - began
        yield f"uninterrupted: {jobs} records in {takes:.0f} seconds"
        shutil.rmtree(project.records)
    chance, survived, since = random.Random(seed), 0, 0
    for _ in range(1000):
        running = project.start(*LOCAL)
        while running.poll() is None:
            time.sleep(chance.uniform(0, takes / 4))
            there = {kind: ones for kind, ones in project.processes().items() if ones}
            kind = chance.choice([*there, "process group"])
            if running.poll() is not None or survived + since == number:
                break
            try:
                if kind == "process group":
                    os.killpg(running.pid, signal.SIGKILL)
                else:
                    chance.choice(there[kind]).kill()
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
            since += 1
            records = f"{project.done()} of {jobs} records are there"
            yield f"kill {survived + since} of {number}: {kind}; {records}"
        code = running.wait(LIMIT)
        if code == 0 and project.done() == jobs:
            if measured(project.records) != expected:
                raise RuntimeError("the records differ from those of an uninterrupted run")
            survived, since = survived + since, 0
            equal = f"{jobs} of {jobs} records are equal to the uninterrupted ones"
            yield f"{equal} after {survived} kills"
            if survived == number:
                return
            shutil.rmtree(project.records)
    raise RuntimeError("the campaign does not end")


def slurm(folder: Path, *, jobs: int = 20, epochs: int = 300) -> Iterator[str]:
    """Send a campaign through Slurm; cancel a task, kill another and Snakemake, and compare."""
    project = Project(folder, jobs, epochs, 0.5)
    profile = ["--profile", str(ROOT / "profiles" / "slurm")]
    command = "$ snakemake --profile profiles/slurm --config campaign=trial"
    yield from ["$ sinfo --version", output("sinfo", "--version"), command]
    first = project.start(*profile)
    until(lambda: len(running_tasks()) > 1 or first.poll() is not None, "two tasks run")
    columns = "%.9i %.2t %.6M %.10l %.7m"
    yield from [f'$ squeue -o "{columns}"', *output("squeue", "-o", columns).splitlines()]
    before = until(lambda: project.processes()["job"], "a job runs here")
    cancelled = running_tasks()[0]
    output("scancel", cancelled)
    yield f"$ scancel {cancelled}"
    others = until(
        lambda: [process for process in project.processes()["job"] if process not in before],
        "another job runs here",
    )
    yield "$ kill -9 the process of another job"
    others[0].kill()
    code = first.wait(LIMIT)
    yield from told(project.said())
    yield f"Snakemake ends with code {code}; {project.done()} of {jobs} records are there"

    length = len(project.said())
    there = {path.stem for path in project.records.glob("*.json")}
    log = next(
        f"build/trial/digits-seed{seed}.log"
        for seed in range(jobs)
        if f"digits-seed{seed}" not in there
    )
    yield from ["", command]
    second = project.start(*profile)
    until(lambda: project.processes()["kernel"], "a kernel runs here")
    yield "$ kill -9 this Snakemake, while its tasks run, and at once the same command again"
    second.kill()
    second.wait()
    code = project.finish(*profile)
    yield from told(project.said()[length:])
    yield f"Snakemake ends with code {code}; {project.done()} of {jobs} records are there"
    lines = (project.folder / log).read_text(encoding="utf-8").splitlines()
    yield f"$ cat {log}"
    yield from (line.replace(f"{project.folder}/", "") for line in lines if line[:1] != "[")

    if measured(project.records) != project.expected():
        raise RuntimeError("the records differ from those of a local run")
    yield f"{jobs} of {jobs} records are equal to those of a local run"


def told(said: str) -> list[str]:
    """Pick the lines that tell how a campaign went: what is missing, what failed, how far."""
    pattern = r"^ *(trial: .* result.*|.*SLURM status is: '\w+'|trial/.*: error: .*)"
    found = re.findall(pattern, said, re.MULTILINE)
    steps = re.findall(r"^\d+ of \d+ steps.*", said, re.MULTILINE)
    return [line.removeprefix("message: ") for line in found] + steps[-1:]


def output(*command: str) -> str:
    """Run a command and return what it prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip()


def running_tasks() -> list[str]:
    """List the tasks that Slurm runs now."""
    return output("squeue", "--noheader", "--states=RUNNING", "-o", "%i").split()


def until(there: Callable[[], Any], what: str) -> Any:
    """Wait for something, and return it."""
    end = time.monotonic() + LIMIT
    while not (found := there()):
        if time.monotonic() > end:
            raise RuntimeError(f"not within {LIMIT:.0f} seconds: {what}")
        time.sleep(0.5)
    return found


def has_slurm() -> bool:
    """Tell if a Slurm answers."""
    if shutil.which("sinfo") is None:
        return False
    return subprocess.run(["sinfo"], capture_output=True).returncode == 0


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trial", choices=("kills", "slurm"))
    parser.add_argument("number", nargs="?", type=int, default=20, help="of kills, or of jobs")
    options = parser.parse_args(given)
    if options.trial == "slurm" and not has_slurm():
        sys.exit("there is no Slurm that answers to sinfo")
    folder = ROOT / "build" / "trials" / options.trial
    kill = options.trial == "kills"
    lines = kills(folder, options.number) if kill else slurm(folder, jobs=options.number)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
