# A campaign becomes papermill jobs, and each job writes one file, below build/results:
#
#   snakemake --cores 2 --config campaign=mnist
#
# Which jobs run is decided in study/campaign, by the tables and the files of jobs alone: a job runs if what
# it measures is in neither, or is not what was planned. File times and Snakemake's own notes play no part, so that a
# fresh clone runs nothing again. Names are letters, digits, dots, hyphens and underscores before
# they reach a shell. The files under done/ are of one invocation, so that two at a time do not
# meet. Where no folder is shared (--config collect=true), they are the files of the jobs once more, declared
# as outputs, so that a storage plugin brings them back.
import math
import os
import shutil
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(workflow.basedir))

from snakemake.exceptions import WorkflowError

JOBS = ()
INVOCATION = uuid.uuid4().hex[:12]
PROJECT = os.environ.get("GDLIB_PROJECT", os.getcwd())  # a container has it in its image
# With --config fresh=1 everything is trained anew, in a folder of its own; with only=PATTERN the
# jobs of these names alone.
FRESH, ONLY = bool(config.get("fresh")), str(config.get("only") or "")
BUILD = "build/fresh" if FRESH else "build"
DONE = BUILD + "/{campaign}/done/{invocation}/{job}"
BROUGHT, COPY = bool(config.get("collect")), "build/{campaign}/brought/{invocation}/{job}.json"
COPIED = '&& cp build/results/{job.campaign}/{job.job}.json "$here"/{output}'
if workflow.is_main_process:
    from study.campaign import CampaignError, plan
    from study.campaign.watch import Watch

    try:
        if FRESH and BROUGHT:
            raise CampaignError(
                "a campaign is trained anew in a shared folder alone: leave out collect"
            )
        name = str(config.get("campaign", "quick"))
        PLAN = plan(name, Path.cwd(), only=ONLY, fresh=FRESH)
    except CampaignError as error:
        raise WorkflowError(str(error)) from None
    JOBS = PLAN.pending
    print(PLAN, file=sys.stderr)
    WATCH = Watch(PLAN, Path.cwd())
    WATCH.start()


# Limits for a cluster, the same for all jobs of an invocation, since an array has those of its
# first one: three times the longest time that the campaign expects and ten minutes to start; the
# largest memory; and what gives a GPU (--config gres=gpu:1) if a job would use one.
MINUTES = math.ceil(3 * max((job.minutes or 80 for job in JOBS), default=0) + 10)
MEGABYTES = max((job.memory or 4000 for job in JOBS), default=4000)
ON_GPU = any(job.parameters.get("device", "cpu") != "cpu" for job in JOBS)
GRES = config.get("gres", "") if ON_GPU else ""


wildcard_constraints:
    campaign="[A-Za-z0-9][A-Za-z0-9._-]*",
    invocation="[0-9a-f]+",
    job="[A-Za-z0-9][A-Za-z0-9._-]*",


rule all:
    input:
        [DONE.format(campaign=job.campaign, invocation=INVOCATION, job=job.id) for job in JOBS],
    default_target: True


# In a shared folder the output is an empty file that Snakemake makes: the Slurm plugin asks every
# task of an array for that of the first.
rule job:
    output:
        COPY if BROUGHT else touch(DONE),
    threads: 1
    resources:
        runtime=MINUTES,
        mem_mb=MEGABYTES,
        gres=GRES,
    params:
        anew="fresh" if FRESH else "",
        also=lambda job, output: COPIED.format(job=job, output=output) if BROUGHT else "",
    shell:
        "here=$PWD && cd {PROJECT:q} && mkdir -p {BUILD}/{wildcards.campaign:q} &&"
        " OMP_NUM_THREADS=1 PYTHONPATH={workflow.basedir:q}"
        " {sys.executable:q} -m study.campaign run"
        " {wildcards.campaign:q} {wildcards.job:q} {params.anew}"
        " >> {BUILD}/{wildcards.campaign:q}/{wildcards.job:q}.log 2>&1 {params.also}"


if BROUGHT:

    rule collected:
        localrule: True
        input:
            rules.job.output,
        output:
            touch(DONE),
        params:
            record="build/results/{campaign}/{job}.json",
        shell:
            'mkdir -p "$(dirname {params.record:q})" && cp {input:q} {params.record:q}.partial &&'
            " mv {params.record:q}.partial {params.record:q}"


def end():
    """Remove what belongs to this invocation alone."""
    for folder in Path(BUILD).glob(f"*/*/{INVOCATION}"):
        shutil.rmtree(folder, ignore_errors=True)


onsuccess:
    WATCH.tell()
    end()


onerror:
    print(*WATCH.failures(), sep="\n", file=sys.stderr)
    end()
