"""How much of the campaigns is measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from study.campaign.plan import Job, load, names


@dataclass(frozen=True)
class Coverage:
    """How many of the planned trainings are measured."""

    done: int
    planned: int

    def __str__(self) -> str:
        return f"{self.done} of {self.planned} runs"


def coverage(path: str | Path, answers: str | None = None, *, entry: str | None = None) -> Coverage:
    """Count the trainings of a campaign file, or of its jobs for a row of the claims ledger, or of an entry."""
    return _count(job for job in load(path).jobs if (answers in (None, *job.answers)) and entry in (None, job.entry))


def coverage_table(folder: str | Path, answers: Iterable[str]) -> pd.DataFrame:
    """Count the trainings for some rows of the claims ledger: a row for each campaign of a folder and each scale.

    Its columns are ``campaign``, ``what`` (the campaign's title), ``scale`` and ``runs``. A job that answers several rows counts once.
    """
    wanted, rows = set(answers), []
    for campaign in (load(Path(folder) / f"{name}.yml") for name in names(folder)):
        by_scale: dict[str, list[Job]] = {}
        for job in campaign.jobs:
            if wanted & set(job.answers):
                by_scale.setdefault(job.setting.model_dump()["scale"], []).append(job)
        rows += [(f"`{campaign.name}`", campaign.title, scale, str(_count(jobs))) for scale, jobs in by_scale.items()]
    return pd.DataFrame(rows, columns=["campaign", "what", "scale", "runs"])


def _count(jobs: Iterable[Job]) -> Coverage:
    counts = [(job.setting.trainings, job.done) for job in jobs]
    return Coverage(done=sum(number for number, done in counts if done), planned=sum(number for number, _ in counts))
