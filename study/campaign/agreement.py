"""A campaign that was trained anew, beside the tables of the repository."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pandas as pd

from study import results
from study.campaign.plan import Job

METRICS = ("test_accuracy", "test_cross_entropy", "test_ece")
LIMIT = 10.0
"""Deviations by which two trainings of different seeds hardly ever differ.

With a deviation from five seeds one pair in 500 does: √2 times Student's t of four degrees of
freedom.
"""

_KNOWN_BY = ("schedule", "temperature", "dataset", "model", "loss")
_SEEDS = r"-seeds?\d[\d-]*"  # in the name of a job


def agreement(jobs: Iterable[Job], tables: Path) -> pd.DataFrame:
    """Compare jobs that were trained anew with their rows in the tables, run by run.

    Args:
        jobs: fresh ones of one campaign; those without a result, and those whose rows in the
            tables were made with other parameters, are passed over.
        tables: the folder of the committed tables.

    Returns:
        A row for each job that both have: the largest difference of each metric, in units of its
        standard deviation over the seeds of this method in the tables. A difference of 0 is 0, and
        one that there are too few seeds for is infinite.
    """
    done = [job for job in jobs if job.done and not replace(job, tables=tables).missing_in_tables()]
    if not done or done[0].campaign not in results.names(tables):
        return pd.DataFrame(columns=[*METRICS])
    every = results.read(done[0].campaign, tables)
    metrics = [name for name in METRICS if name in every]
    method = [every["job"].str.replace(_SEEDS, "", regex=True)]
    method += [every[name] for name in _KNOWN_BY if name in every]
    spread = every.groupby(method, dropna=False)[metrics].transform("std")
    anew = pd.concat(
        pd.DataFrame(results.load(job.record)["runs"]).assign(job=job.id) for job in done
    ).set_index(["job", "run"])
    before, spread = (
        table.set_index([every["job"], every["run"]]).reindex(anew.index)[metrics]
        for table in (every, spread)
    )
    known = before.notna().any(axis=1)
    anew = anew.reindex(columns=metrics)
    difference = (anew - before).abs()
    difference = difference.mask(anew.isna() & before.isna(), 0.0)  # both diverged
    apart = (difference / spread).mask(difference.eq(0), 0.0).fillna(float("inf"))
    return apart[known].groupby("job").max()
