"""How much of the campaigns is measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from study.campaign.plan import Job, load, names

__all__ = ["Coverage", "coverage", "coverage_table"]


@dataclass(frozen=True)
class Coverage:
    """How much of a plan is measured.

    Example:
        >>> print(Coverage(done=3, planned=5))
        3 of 5 runs
    """

    done: int
    planned: int

    def __str__(self) -> str:
        return f"{self.done} of {self.planned} runs"


def coverage(path: str | Path, answers: str | None = None, *, entry: str | None = None, folder: str | Path | None = None) -> Coverage:
    """Count the trainings of a campaign that are measured.

    Args:
        path: the campaign file.
        answers: count only the jobs for this row of the claims ledger, such as ``"E3"``.
        entry: count only the jobs of the entry with this ``id``.
        folder: as in :func:`load`.

    Raises:
        CampaignError: as :func:`load`, and for a record that cannot be read.
    """
    return _count(job for job in load(path, folder).jobs if (answers in (None, *job.answers)) and entry in (None, job.entry))


def coverage_table(folder: str | Path, answers: Iterable[str], *, records_folder: str | Path | None = None) -> pd.DataFrame:
    """Count the trainings done and planned for some rows of the claims ledger, campaign by campaign.

    Args:
        folder: of the campaign files.
        answers: rows of the ledger, such as ``["E11", "E12"]``; a job that answers several of them counts once.
        records_folder: as ``folder`` in :func:`load`.

    Returns:
        One row for each campaign and scale with ``campaign``, ``what`` (the campaign's title), ``scale`` and ``runs``.

    Raises:
        CampaignError: as :func:`coverage`.
    """
    wanted, rows = set(answers), []
    for campaign in (load(Path(folder) / f"{name}.yml", records_folder) for name in names(folder)):
        by_scale: dict[str, list[Job]] = {}
        for job in campaign.jobs:
            if wanted & set(job.answers):
                by_scale.setdefault(job.setting.model_dump()["scale"], []).append(job)
        rows += [(f"`{campaign.name}`", campaign.title, scale, str(_count(jobs))) for scale, jobs in by_scale.items()]
    return pd.DataFrame(rows, columns=["campaign", "what", "scale", "runs"])


def _count(jobs: Iterable[Job]) -> Coverage:
    counts = [(job.setting.trainings, job.done) for job in jobs]
    return Coverage(done=sum(number for number, done in counts if done), planned=sum(number for number, _ in counts))
