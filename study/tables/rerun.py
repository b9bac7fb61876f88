"""Commands that run what a claim rests on again: the runs themselves, and small ones in seconds."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import yaml

from study.campaign import Job
from study.claims import answers
from study.claims.load import Comparison, Side, ledger
from study.experiment import EXPERIMENTS
from study.methods import Method

# what says which methods are compared, whatever the data
_METHODS = ("betas", "warmups", "feedbacks", "temperatures", "match_gradient", "loss", "losses")
_BETAS = 4  # at most
_HELD_OUT = 200  # of the embedded digits, for a schedule that follows what is held out


def compared(claim: str) -> list[Method]:
    """List the methods that the parts of a claim name, the primary part's first."""
    written = ledger()[claim]
    first = [written.parts[written.primary], *written.parts.values()]
    return list(dict.fromkeys(method for part in first for method in _named(part)))


def _named(comparison: Comparison) -> Iterator[Method]:
    for side in comparison.sides:
        yield from _of_side(side)
    yield from comparison.methods
    for one in (*comparison.all, *comparison.any, *comparison.provided):
        yield from _named(one)


def _of_side(side: Side) -> Iterator[Method]:
    if side.method is not None:
        yield side.method
    yield from side.best_of
    for one in side.minus or ():
        yield from _of_side(one)


def jobs(claim: str, decided: Collection[tuple[str, str]] = ()) -> list[Job]:
    """List the jobs that answer a claim.

    Those come first whose record, named by campaign and file, has ``decided`` it, then those that
    train the method that the claim names first, the second, and so on, and of these those with a
    record.
    """
    named = compared(claim)

    def place(job: Job) -> tuple[bool, int, bool]:
        labels = (run.get("schedule", run.get("loss")) for run in job.experiment.planned())
        trained = {Method.parse(label) for label in labels if label}
        matching = (
            number
            for number, one in enumerate(named)
            if any(one.includes(other) for other in trained)
        )
        first = min(matching, default=len(named))
        return (job.campaign, job.record.name) not in decided, first, not job.done

    return sorted(answers.jobs_of(claim), key=place)


def small(claim: str, job: Job) -> dict[str, Any]:
    """Take the methods of a claim for data that need no file: it trains in seconds.

    Everything else is the notebook's default, but one seed.
    """
    kind = EXPERIMENTS[job.notebook]
    parameters = {name: job.parameters[name] for name in _METHODS if name in job.parameters}
    betas = [one.beta for one in compared(claim) if one.beta is not None]
    if "betas" in parameters and len(betas) > 1:
        parameters |= {"betas": betas[:_BETAS], "loss": "gd"}
    if "seeds" in kind.model_fields:
        parameters["seeds"] = [0]
    offered = kind.parameters()
    parameters = {name: value for name, value in parameters.items() if name in offered}
    for more in ({}, {"validation_size": _HELD_OUT}):
        try:
            kind(**parameters, **more)
        except ValueError:
            continue
        return parameters | more
    return {"seeds": [0]} if "seeds" in kind.model_fields else {}  # a loss for images alone


def command(notebook: str, parameters: Mapping[str, Any]) -> str:
    """Write the line that executes a notebook with these parameters.

    Example:
        >>> print(command("train", {"betas": [1, 0.1], "seeds": [0]}))
        jupytext --to ipynb -o - notebooks/experiments/train.md |
          papermill - run.ipynb -y '{betas: [1, 0.1], seeds: [0]}'
    """
    values = yaml.safe_dump(
        dict(parameters), default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    converted = f"jupytext --to ipynb -o - notebooks/experiments/{notebook}.md"
    return f"{converted} |\n  papermill - run.ipynb -y {shlex.quote(values.strip())}"


def anew(job: Job) -> str:
    """Write the line that trains one job of a campaign anew and compares it with its record.

    Where there is no record yet, it trains the missing one.
    """
    fresh = " FRESH=1" if job.done else ""
    return f"make reproduce CAMPAIGN={job.campaign} ONLY={job.id}{fresh}"
