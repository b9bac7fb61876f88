"""Campaigns: files of experiments.

Such a file becomes checked jobs, papermill runs, records, and a count of what is done.

A campaign is a YAML file; each of its jobs is one run of one notebook and writes a file of its own,
``build/results/<campaign>/<job>.json``, which is folded into the tables of the campaign::

    name: mnist
    title: GD-1 Table 1 and Figures 4-7, at the paper's scale
    defaults: {dataset: mnist, epochs: 100}
    entries:
      - id: relu
        experiment: train                  # notebooks/experiments/train.md
        parameters: {activation: relu}
        each: {seeds: [[0], [1], [2]]}     # one job for every value, or every combination
        minutes: 2                         # expected time of one job
        memory: 4000                       # expected memory of one job in MB

``recipe: fast`` in ``defaults`` stands for what ``campaigns/recipes.yml`` has under that name;
what the campaign says itself counts before them.

A job is *done* when what its file or the tables have is exactly what was planned
(:meth:`Job.missing`). From the root of the project::

    python -m study.campaign plan mnist                    # what is done, what is to be run
    python -m study.campaign plan mnist 'relu-*'           # of these jobs alone
    python -m study.campaign run mnist relu-unit-seed0     # one job, as the Snakefile calls it
    python -m study.campaign run mnist relu-unit-seed0 fresh   # anew, in a folder of its own
    python -m study.campaign collect mnist    # files of jobs become rows of the tables
    python -m study.campaign agree mnist 'relu-*'   # what was trained anew, beside the tables
"""

from study.campaign.plan import (
    Campaign,
    CampaignError,
    Coverage,
    Job,
    Plan,
    collect,
    coverage,
    coverage_table,
    load,
    load_all,
    plan,
)

__all__ = [
    "Campaign",
    "CampaignError",
    "Coverage",
    "Job",
    "Plan",
    "collect",
    "coverage",
    "coverage_table",
    "load",
    "load_all",
    "plan",
]
