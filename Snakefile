# A campaign becomes papermill jobs, and each job one record:   snakemake --cores 2 --config campaign=mnist
#
# Which jobs run is decided in study/campaign and by the records alone: a job runs if its record is missing or is not the planned one. File
# times and Snakemake's own notes play no part, so that a fresh clone runs nothing again. Names are letters, digits, dots, hyphens and
# underscores before they reach a shell. The files under done/ are of one invocation, so that two at a time do not meet.
import math
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(workflow.basedir))

from snakemake.exceptions import WorkflowError

PENDING = {}
INVOCATION = uuid.uuid4().hex[:12]
if workflow.is_main_process:
    from study.campaign import CampaignError, plan
    from study.campaign.watch import Watch

    try:
        PLAN = plan(config.get("campaign", "quick"), Path.cwd())
    except CampaignError as error:
        raise WorkflowError(str(error)) from None
    PENDING = {job.id: job for job in PLAN.pending}
    print(PLAN, file=sys.stderr)
    WATCH = Watch(PLAN, Path.cwd(), workflow.resource_settings.cores or workflow.resource_settings.nodes or 1)
    WATCH.start()


def minutes(wildcards):
    """A limit for the time: three times what the campaign expects, and ten minutes to start."""
    job = PENDING.get(wildcards.job)
    return math.ceil(3 * job.minutes + 10) if job and job.minutes else 240


def megabytes(wildcards):
    job = PENDING.get(wildcards.job)
    return job.memory if job and job.memory else 4000


def gres(wildcards):
    """What a cluster needs to give a GPU, such as gpu:1, for jobs that use one where there is one."""
    job = PENDING.get(wildcards.job)
    return config.get("gres", "") if job and getattr(job.setting, "device", "cpu") != "cpu" else ""


wildcard_constraints:
    campaign="[A-Za-z0-9][A-Za-z0-9._-]*",
    invocation="[0-9a-f]+",
    job="[A-Za-z0-9][A-Za-z0-9._-]*",


rule all:
    input:
        [f"build/{job.campaign}/done/{INVOCATION}/{job.id}" for job in PENDING.values()],
    default_target: True


rule job:
    output:
        touch("build/{campaign}/done/{invocation}/{job}"),
    threads: 1
    resources:
        runtime=minutes,
        mem_mb=megabytes,
        gres=gres,
    shell:
        "OMP_NUM_THREADS=1 PYTHONPATH={workflow.basedir:q} {sys.executable:q} -m study.campaign run {wildcards.campaign:q} {wildcards.job:q}"
        " > build/{wildcards.campaign:q}/{wildcards.job:q}.log 2>&1"


onerror:
    print(*WATCH.failures(), sep="\n", file=sys.stderr)
