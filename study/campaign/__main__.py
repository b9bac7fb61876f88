"""Command line: see the package."""

import os
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

import study.campaign
from study import results
from study.campaign import CampaignError, plan
from study.campaign.agreement import DIFFERENT, agreement, report
from study.campaign.watch import DONE, FAILED, STARTED

_AGAIN = 15.0  # seconds after which a kernel that goes on is interrupted again


def _interrupt(*_: object) -> None:
    """Interrupt the kernels, so that a training writes its checkpoint and ends.

    A kernel that is about to start loses a signal; it is interrupted again until it ends, with
    enough time between two signals for a checkpoint.
    """
    kernels = psutil.Process().children(recursive=True)
    if not kernels:
        os._exit(1)
    threading.Thread(target=_insist, args=(kernels,), daemon=True).start()


def _insist(kernels: list[psutil.Process], every: float = _AGAIN) -> None:
    while kernels:
        for kernel in kernels:
            with suppress(psutil.NoSuchProcess):
                kernel.send_signal(signal.SIGINT)
        _, kernels = psutil.wait_procs(kernels, timeout=every)


def _run(campaign: str, job: str, *, fresh: bool) -> None:
    from study.campaign.run import run  # the notebooks' tools take seconds to import

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(STARTED, flush=True)
    started = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    with (
        ThreadPoolExecutor() as pool
    ):  # in the main thread the notebook's client would take the signal and kill the kernel
        print(pool.submit(run, campaign, job, Path.cwd(), fresh=fresh).result())
    print(f"{DONE}{(time.monotonic() - started) / 60:.2f} minutes")


def _agree(name: str, only: str) -> int:
    """Print how what was trained anew agrees; the exit status is 1 where something differs."""
    fresh = plan(name, Path.cwd(), only=only, fresh=True).campaign.jobs
    agreements = [agreement(job, Path.cwd() / results.FOLDER.name) for job in fresh]
    print(report(agreements))
    return int(any(one.outcome == DIFFERENT for one in agreements))


def main() -> None:
    """Plan a campaign, or run one of its jobs; the last line says how it ended."""
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
        sys.exit(f"{FAILED}{error}")
    except Exception as error:
        traceback.print_exc()
        reason = (
            f"{getattr(error, 'ename', type(error).__name__)}: {getattr(error, 'evalue', error)}"
        )
        sys.exit(f"{FAILED}{' '.join(reason.split())}")


if __name__ == "__main__":
    main()
