"""P7: how long ArcGrad's Table I takes with `make reproduce CAMPAIGN=tables`: 10,500 trainings.

The project is cloned to a temporary folder, the results of Table I are deleted there, and the
campaign makes them again on two cores. The time on the clock counts, from the start of the command
to its end, with one job at a time on each core. Then the new runs are held against the kept ones.
It measures what is committed, and needs git, the data of the tables (`GDLIB_DATA`) and two idle
cores.
"""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.measuring import ROOT, Row, arguments, finish
from study import results

CORES, LIMIT, FOLDS = 2, 15 * 60.0, 10
CAMPAIGN, TABLE = "tables", "table-*"


def runs(root: Path) -> pd.DataFrame:
    """What was measured for Table I."""
    every = results.read(CAMPAIGN, root / "results")
    return every[every["job"].map(lambda job: fnmatch.fnmatch(job, TABLE))]


def kept() -> Row:
    """The seconds that the kept jobs of Table I took, shared between the cores.

    Other programs ran beside them.
    """
    seconds = runs(ROOT).groupby("job")["wall_seconds"].first()
    total = seconds.sum() / CORES
    return Row(
        what=f"Table I, sum over the {len(seconds)} kept jobs on {CORES} cores",
        against="",
        kind="seconds",
        value=total,
        low=total,
        high=total,
        repetitions=1,
        group="table",
    )


def anew(folder: Path) -> Row:
    """The seconds of the campaign in a fresh clone."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    before = runs(clone).set_index(["job", "run"])["test_accuracy"]
    (clone / "results" / "jobs" / f"{CAMPAIGN}.csv").unlink()
    from study.data.files import local_folder

    environment = os.environ | {
        "PYTHONPATH": str(clone),
        "OMP_NUM_THREADS": "1",
        "GDLIB_DATA": str(local_folder().resolve()),
    }
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--cores",
        str(CORES),
        "--keep-going",
        "--nolock",
        "--config",
        f"campaign={CAMPAIGN}",
        f"only={TABLE}",
    ]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    files = sorted((clone / results.BUILD / CAMPAIGN).glob(f"{TABLE}.json"))
    after = pd.concat(
        [pd.DataFrame(results.load(path)["runs"]).assign(job=path.stem) for path in files]
        or [pd.DataFrame({"job": [], "run": [], "test_accuracy": []})]
    ).set_index(["job", "run"])["test_accuracy"]
    if done.returncode or len(after) != len(before):
        raise RuntimeError(
            f"the campaign made {len(after)} of {len(before)} runs; "
            f"it ended with:\n{done.stderr[-1500:]}"
        )
    equal = int((after == before.reindex(after.index)).sum())
    trainings = FOLDS * len(after)
    return Row(
        what=f"Table I, {trainings:,} trainings on {CORES} cores",
        against="",
        kind="seconds",
        value=seconds,
        low=seconds,
        high=seconds,
        repetitions=1,
        goal="P7",
        limit=LIMIT,
        group="table",
        remark=f"{equal} of {len(before)} runs are equal to the kept ones",
    )


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(__doc__, given)
    rows = [kept()]
    if not options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows.insert(0, anew(Path(folder)))
            except (OSError, subprocess.CalledProcessError, RuntimeError) as error:
                print(f"  P7 is not measured here: {error}")
    finish("reproduce", rows, options)


if __name__ == "__main__":
    main()
