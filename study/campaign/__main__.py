"""Command line: see the package."""

import os
import signal
import sys
from pathlib import Path

import study.campaign
from study import results
from study.campaign import CampaignError, plan
from study.campaign.agreement import LIMIT, agreement


def _run(campaign: str, job: str, *, fresh: bool) -> None:
    from study.campaign.run import run  # the notebooks' tools take seconds to import

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # as Ctrl-C does: papermill then interrupts its kernel, which writes a checkpoint
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(run(campaign, job, Path.cwd(), fresh=fresh))


def _agree(name: str, only: str) -> int:
    """Print how far what was trained anew is from the tables; 1 where that is too far."""
    jobs = plan(name, Path.cwd(), only=only, fresh=True).campaign.jobs
    apart = agreement(jobs, Path.cwd() / results.FOLDER.name)
    if len(apart):
        print("largest difference to the tables, in deviations of the seeds:")
        print(apart.round(2).to_string())
    if others := [job.id for job in jobs if job.id not in apart.index]:
        reason = "one of the two is missing, or has other parameters"
        print(f"not compared, since {reason}:", *others, sep="\n  ")
    return int((apart > LIMIT).any(axis=None))


def main() -> None:
    """Plan a campaign, run one of its jobs, fold their files into the tables, or compare."""
    try:
        match sys.argv[1:]:
            case ["plan", name, *only]:
                planned = plan(name, Path.cwd(), only=",".join(only))
                missing = [f"  {job.id}: {job.missing()}" for job in planned.pending]
                print(str(planned).partition("\n")[0], *missing, sep="\n")
            case ["run", name, job]:
                _run(name, job, fresh=False)
            case ["run", name, job, "fresh"]:
                _run(name, job, fresh=True)
            case ["collect", name]:
                print(study.campaign.collect(name, Path.cwd()))
            case ["agree", name, *only]:
                sys.exit(_agree(name, ",".join(only)))
            case _:
                sys.exit(study.campaign.__doc__)
    except CampaignError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
