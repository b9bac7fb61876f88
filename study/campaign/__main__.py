"""Command line: see the package."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

import study.campaign
from study.campaign import CampaignError, plan
from study.campaign.watch import DONE, FAILED, STARTED


def _interrupt(*_: object) -> None:
    """Interrupt the kernels, so that a training writes its checkpoint and ends."""
    kernels = psutil.Process().children(recursive=True)
    for kernel in kernels:
        kernel.send_signal(signal.SIGINT)
    if not kernels:
        os._exit(1)


def main() -> int:
    """Plan a campaign, or run one of its jobs; the last line says how it ended."""
    parser = argparse.ArgumentParser(description=study.campaign.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("plan").add_argument("campaign")
    one = commands.add_parser("run")
    one.add_argument("campaign")
    one.add_argument("job")
    arguments = parser.parse_args()
    started = time.monotonic()
    try:
        if arguments.command == "plan":
            found = plan(arguments.campaign, Path.cwd())
            print(found, *(f"  {job.id}: {job.missing()}" for job in found.pending), sep="\n")
            return 0
        from study.campaign.run import run  # the notebooks' tools take seconds to import

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        print(STARTED, flush=True)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _interrupt)
        with ThreadPoolExecutor() as pool:  # in the main thread the notebook's client would take the signal and kill the kernel
            print(pool.submit(run, arguments.campaign, arguments.job, Path.cwd()).result())
        print(f"{DONE}{(time.monotonic() - started) / 60:.2f} minutes")
        return 0
    except CampaignError as error:
        print(f"{FAILED}{error}", file=sys.stderr)
    except Exception as error:
        traceback.print_exc()
        reason = f"{getattr(error, 'ename', type(error).__name__)}: {getattr(error, 'evalue', error)}"
        print(f"{FAILED}{' '.join(reason.split())}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
