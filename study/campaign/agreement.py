"""A campaign that was trained anew, held against the tables of the repository."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from study import results
from study.campaign.plan import Job

_DECIDE = ("test_accuracy", "test_ece")  # what is compared where a run is not equal
_LEAST = 3  # seeds, for a deviation
_ERRORS = 3.0  # standard errors of a difference of two means
_KNOWN_BY = ("schedule", "temperature", "dataset", "model", "loss")

EQUAL, WITHIN, DIFFERENT, NOT_COMPARED = (
    *("equal", "within the seeds' deviation", "different", "not compared"),
)


@dataclass(frozen=True)
class Agreement:
    """How one job that was trained anew agrees with the tables.

    ``why`` says by how much, or why the two cannot be compared.
    """

    job: str
    outcome: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.job}: {self.outcome}" + (f" ({self.why})" if self.why else "")


def agreement(job: Job, tables: Path) -> Agreement:
    r"""Compare a job that was trained anew with the rows of the same job in the tables.

    *Equal*: every number of every run is the same, times apart. *Within the seeds' deviation*: for
    each method, the mean :math:`m` of test accuracy and calibration error over the job's :math:`n`
    runs lies close to that of the tables, :math:`|m - m_0| \le 3 s \sqrt{2 / n}`, where :math:`s`
    is the standard deviation over the seeds of all jobs with equal parameters. *Different*:
    anything else.

    Args:
        job: a fresh one.
        tables: the folder of the committed tables.
    """
    if reason := job.missing():
        return Agreement(job.id, NOT_COMPARED, f"the new result: {reason}")
    committed = results.jobs(job.campaign, tables)
    if job.id not in committed:
        return Agreement(job.id, NOT_COMPARED, "the tables have no such job")
    new = pd.DataFrame(results.load(job.record)["runs"])
    every = results.read(job.campaign, tables)
    old = every[every["job"] == job.id].reset_index(drop=True)
    shared = [
        name
        for name in map(str, new.select_dtypes("number"))
        if name in old and not name.endswith("seconds") and name != "run"
    ]
    if "test_accuracy" not in shared:
        return Agreement(job.id, NOT_COMPARED, "it holds times alone")
    if len(new) == len(old) and np.array_equal(
        new[shared].astype(float), old[shared].astype(float), equal_nan=True
    ):
        return Agreement(job.id, EQUAL)
    siblings = [other for other, asked in committed.items() if _alike(asked, committed[job.id])]
    return _within(job.id, new, old, every[every["job"].isin(siblings)])


def _within(job: str, new: pd.DataFrame, old: pd.DataFrame, seeds: pd.DataFrame) -> Agreement:
    """Measure how far means lie apart, in standard errors of their difference."""
    keys = [name for name in _KNOWN_BY if name in new and name in old]
    furthest, why = -1.0, ""
    for key, rows in new.groupby(keys, dropna=False):
        before, spread = (
            part[(part[keys] == pd.Series(key, keys)).all(axis=1)] for part in (old, seeds)
        )
        for name in [name for name in _DECIDE if name in new and name in old]:
            difference = rows[name].mean() - before[name].mean()
            deviation = spread[name].std() if len(spread) >= _LEAST else np.nan
            apart = abs(difference) / (deviation * np.sqrt(2 / len(rows)))
            apart = 0.0 if difference == 0 else apart if np.isfinite(apart) else np.inf
            if apart > furthest:
                furthest, label = apart, ", ".join(map(str, key))
                why = f"{label}: {name} {100 * difference:+.3g}, deviation {100 * deviation:.3g} %"
    return Agreement(job, WITHIN if furthest <= _ERRORS else DIFFERENT, why)


def _alike(one: results.Row, other: results.Row) -> bool:
    """Tell whether two jobs differ in their seeds alone."""
    without = {"job", "seeds", "device", "runs"}
    return {k: v for k, v in one.items() if k not in without} == {
        k: v for k, v in other.items() if k not in without
    }


def report(agreements: Iterable[Agreement]) -> str:
    """Write a line for each job, and how many ended how."""
    listed = list(agreements)
    counts = pd.Series([one.outcome for one in listed]).value_counts()
    ends = [f"{count} of {len(listed)} {outcome}" for outcome, count in counts.items()]
    return "\n".join([*map(str, listed), "; ".join(ends)])
