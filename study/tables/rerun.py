"""Commands that run what a claim rests on again: the runs themselves, and small ones in seconds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from study import ROOT, campaign
from study.campaign import Job
from study.settings import TEMPLATES

# what says which methods are compared, whatever the data
_METHODS = ("betas", "warmups", "feedbacks", "temperatures", "match_gradient", "loss", "losses")
_HELD_OUT = 200  # of the embedded digits, for a schedule that follows what is held out


def deciding(claim: str) -> list[Job]:
    """List the jobs of all campaigns that answer a claim, those with a record first."""
    jobs = [job for one in campaign.load_all(ROOT / "campaigns") for job in one.jobs]
    return sorted((job for job in jobs if claim in job.answers), key=lambda job: not job.done)


def small(job: Job) -> dict[str, Any]:
    """Take the methods of a job for data that need no file: it trains in seconds.

    Everything else is the notebook's default, but one seed.
    """
    kind = TEMPLATES[job.template]
    parameters = {name: job.parameters[name] for name in _METHODS if name in job.parameters}
    if "seeds" in kind.model_fields:
        parameters["seeds"] = [0]
    for more in ({}, {"validation_size": _HELD_OUT}):
        try:
            kind(**parameters, **more)
        except ValueError:
            continue
        return parameters | more
    return {"seeds": [0]} if "seeds" in kind.model_fields else {}  # a loss for images alone


def command(template: str, parameters: Mapping[str, Any]) -> str:
    """Write the line that executes a notebook with these parameters.

    Example:
        >>> print(command("train", {"betas": [1, 0.1], "seeds": [0]}))
        jupytext --to ipynb -o - notebooks/experiments/train.md |
          papermill - run.ipynb -y '{betas: [1, 0.1], seeds: [0]}'
    """
    values = yaml.safe_dump(
        dict(parameters), default_flow_style=True, sort_keys=False, allow_unicode=True, width=10_000
    )
    notebook = f"jupytext --to ipynb -o - notebooks/experiments/{template}.md"
    return f"{notebook} |\n  papermill - run.ipynb -y {shlex.quote(values.strip())}"
