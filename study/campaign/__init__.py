"""Campaigns: a page run with many parameters.

A campaign is a YAML file; each of its jobs is one execution of one page and writes a file of its
own, ``build/results/<campaign>/<job>.json``, which is folded into the tables of the campaign::

    page: mnist                            # notebooks/experiments/mnist.md
    defaults: {dataset: mnist, epochs: 100}
    entries:
      - id: relu
        parameters: {activation: relu}
        each: {seeds: [[0], [1], [2]]}     # one job for every value, or every combination
        minutes: 2                         # expected time of one job
        memory: 4000                       # expected memory of one job in MB

A job is *done* when its file or the tables have it with these parameters (:meth:`Job.missing`).
From the root of the project::

    python -m study.campaign plan mnist                    # what is done, what is to be run
    python -m study.campaign plan mnist 'relu-*'           # of these jobs alone
    python -m study.campaign run mnist relu-unit-seed0     # one job, as the Snakefile calls it
    python -m study.campaign run mnist relu-unit-seed0 fresh   # anew, in a folder of its own
    python -m study.campaign collect mnist    # files of jobs become rows of the tables
    python -m study.campaign agree mnist 'relu-*'   # what was trained anew, beside the tables
"""

from study.campaign.plan import CampaignError, Job, collect, load, plan

__all__ = ["CampaignError", "Job", "collect", "load", "plan"]
