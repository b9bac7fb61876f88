"""Command line: see the package."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import study.campaign
from study.campaign import CampaignError, plan
from study.campaign.watch import DONE, FAILED, STARTED


def main() -> int:
    """Plan a campaign, or run one of its jobs. The last line says how it ended."""
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

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{FAILED}ended by a signal; the checkpoint is kept"))
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        print(STARTED, flush=True)
        print(run(arguments.campaign, arguments.job, Path.cwd()))
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
