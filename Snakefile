# A campaign becomes papermill jobs, and each job writes one file, below build/results:
#
#   snakemake --cores 2 --config campaign=mnist
#
# Which jobs run is decided in study/campaign, by the tables and the files of jobs alone: a job runs if what
# it measures is in neither, or is not what was planned. File times and Snakemake's own notes play no part, so that a
# fresh clone runs nothing again. Names are letters, digits, dots, hyphens and underscores before
# they reach a shell.
import math
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

sys.path.insert(0, str(workflow.basedir))

import psutil
from snakemake.exceptions import WorkflowError

JOBS = ()
# With --config fresh=1 everything is trained anew, in a folder of its own; with only=PATTERN the
# jobs of these names alone. gres says what gives a cluster's job a GPU, such as gpu:1.
FRESH, ONLY = bool(config.get("fresh")), str(config.get("only") or "")
BUILD = "build/fresh" if FRESH else "build"
DONE = BUILD + "/{campaign}/done/{job}"  # empty: the results decide
if workflow.is_main_process:
    from study.campaign import CampaignError, plan

    try:
        name, gpu = str(config.get("campaign", "quick")), True if config.get("gres") else None
        PLAN = plan(name, Path.cwd(), only=ONLY, fresh=FRESH, gpu=gpu)
    except CampaignError as error:
        raise WorkflowError(str(error)) from None
    JOBS = PLAN.pending
    print(PLAN, file=sys.stderr)
    for job in JOBS:
        Path(DONE.format(campaign=job.campaign, job=job.id)).unlink(missing_ok=True)


# Limits for a cluster, the same for all jobs of an invocation, since an array has those of its
# first one: three times the longest time that the campaign expects and ten minutes to start; the
# largest memory; and what gives a GPU if a job would use one.
MINUTES = math.ceil(3 * max((job.minutes or 80 for job in JOBS), default=0) + 10)
MEGABYTES = max((job.memory or 4000 for job in JOBS), default=4000)
ON_GPU = any(job.parameters.get("device", "cpu") != "cpu" for job in JOBS)
GRES = config.get("gres", "") if ON_GPU else ""


wildcard_constraints:
    campaign="[A-Za-z0-9][A-Za-z0-9._-]*",
    job="[A-Za-z0-9][A-Za-z0-9._-]*",


rule all:
    input:
        [DONE.format(campaign=job.campaign, job=job.id) for job in JOBS],
    default_target: True


# The output is an empty file that Snakemake makes: the Slurm plugin asks every task of an array
# for that of the first.
rule job:
    output:
        touch(DONE),
    log:
        BUILD + "/{campaign}/{job}.log",
    threads: 1
    resources:
        runtime=MINUTES,
        mem_mb=MEGABYTES,
        gres=GRES,
    params:
        anew="fresh" if FRESH else "",
    shell:
        "OMP_NUM_THREADS=1 PYTHONPATH={workflow.basedir:q} {sys.executable:q} -m study.campaign run"
        " {wildcards.campaign:q} {wildcards.job:q} {params.anew} > {log:q} 2>&1"


def end_jobs(start_no_more):
    """Let Snakemake start no more jobs, and ask those that run to end, which it would wait for."""
    start_no_more()
    asked = set()
    while True:  # it may just be starting one
        for child in set(psutil.Process().children(recursive=True)) - asked:
            with suppress(psutil.Error):  # it has just ended, or is another's
                if "study.campaign" in child.cmdline():
                    child.terminate()
                    asked.add(child)
        time.sleep(0.5)


# In a thread: Snakemake's own handler takes the scheduler's lock. When the signal comes, the main
# thread may hold it, and would wait for itself.
onstart:
    of_snakemake = signal.getsignal(signal.SIGTERM)
    ending = Thread(target=end_jobs, args=[of_snakemake], daemon=True)
    signal.signal(signal.SIGTERM, lambda *_: ending.is_alive() or ending.start())
