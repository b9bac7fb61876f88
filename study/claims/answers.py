"""Which jobs of the campaigns answer a claim: those whose planned runs its selections mean.

A claim names its runs (in its file), and ``claims/runs.yml`` says what they are; a campaign
says what is trained. That a job answers a claim follows, and is written nowhere.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from study import ROOT
from study.campaign import Campaign, Job, load_all
from study.claims.evidence import chosen, with_facts
from study.claims.load import Part, ledger
from study.claims.narrowing import beside
from study.claims.selections import selection
from study.records.frame import STACKED

_TRAINING_IMAGES: Mapping[str, int] = {
    "mnist": 60_000,
    "svhn": 73_257,
    "cifar10": 50_000,
    "cifar10-jpeg": 50_000,
    "cifar100": 50_000,
    "tiny-imagenet": 100_000,
}


def answering(claims: Collection[str]) -> list[Campaign]:
    """List the campaigns with the jobs that answer one of some claims.

    A campaign without such a job is left out.
    """
    campaigns = tuple(load_all(ROOT / "campaigns"))
    wanted = {job for claim in claims for job in _answers(claim, campaigns)}
    kept = [
        replace(one, jobs=tuple(job for job in one.jobs if (one.name, job.id) in wanted))
        for one in campaigns
    ]
    return [one for one in kept if one.jobs]


def jobs_of(claim: str) -> list[Job]:
    """List the jobs of all campaigns that answer a claim."""
    return [job for one in answering([claim]) for job in one.jobs]


@functools.cache
def _answers(claim: str, campaigns: tuple[Campaign, ...]) -> frozenset[tuple[str, str]]:
    """Name the jobs, by campaign and id, whose runs a claim rests on."""
    if claim not in ledger():
        return frozenset()
    written = ledger()[claim]
    frames = [_selected(name, campaigns) for name in written.runs]
    frames += [_of_part(part, campaigns) for part in written.parts.values()]
    return frozenset(
        pair
        for runs in frames
        if not runs.empty
        for pair in zip(runs["campaign"], runs["job"], strict=True)
    )


def _of_part(part: Part, campaigns: tuple[Campaign, ...]) -> pd.DataFrame:
    """Take the variants in which there is something to compare; their runs are pooled."""
    runs = _selected(part.runs, campaigns)
    asked = {name: value for name, value in part.at.items() if name in runs}
    if runs.empty or not asked:
        return runs
    return beside(runs, runs[list(asked)].eq(pd.Series(asked)).all(axis=1))


@functools.cache
def _selected(name: str, campaigns: tuple[Campaign, ...]) -> pd.DataFrame:
    return chosen(_planned(campaigns), selection(name))


@functools.cache
def _planned(campaigns: tuple[Campaign, ...]) -> pd.DataFrame:
    """Make the frame of all planned runs: as the records will have it, without what is measured."""
    rows = [row for one in campaigns for job in one.jobs for row in _rows(job)]
    return with_facts(pd.DataFrame(rows)) if rows else pd.DataFrame()


def _rows(job: Job) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in job.experiment.model_dump().items()
        if name not in STACKED
    }
    asked |= {"campaign": job.campaign, "job": job.id, "experiment": job.notebook}
    if job.notebook == "cost":
        asked["measured_on"] = asked["device"]
    images = _TRAINING_IMAGES.get(str(asked.get("dataset")))
    if images is not None:
        asked["train_samples"] = asked["subset"] or images - asked["validation_size"]
    return [asked | run for run in job.experiment.planned()]
