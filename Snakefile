# A campaign becomes papermill jobs, and each job one record:   snakemake --cores 2 --config campaign=mnist
#
# Which jobs run is decided in study/jobs.py and by the records alone: a job runs if its record is missing or was measured with other
# parameters. File times and Snakemake's own notes play no part, so that a fresh clone runs nothing again.
import sys
from pathlib import Path

sys.path.insert(0, str(workflow.basedir))

from snakemake.exceptions import WorkflowError

from study import jobs as campaigns

PENDING = []
if workflow.is_main_process:
    try:
        PLAN = campaigns.plan(config.get("campaign", "quick"), Path.cwd())
    except campaigns.CampaignError as error:
        raise WorkflowError(str(error)) from None
    PENDING = PLAN.pending
    campaigns.clear_stamps(PENDING, Path.cwd())
    print(PLAN, file=sys.stderr)


rule all:
    input:
        [campaigns.stamp(job) for job in PENDING],
    default_target: True


rule job:
    output:
        touch("build/{campaign}/done/{job}"),
    log:
        "build/{campaign}/{job}.log",
    threads: 1
    shell:
        "OMP_NUM_THREADS=1 PYTHONPATH={workflow.basedir:q} {sys.executable:q} -m study.jobs run {wildcards.campaign} {wildcards.job} > {log} 2>&1"
