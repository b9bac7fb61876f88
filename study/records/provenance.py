"""Where and with what something was measured."""

from __future__ import annotations

import datetime
import functools
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from study import ROOT


def environment(*, device: str, precision: str, threads: int) -> dict[str, Any]:
    """Say where and with what something is measured.

    On a GPU it also says whether float32 products are made in TF32, and how cuDNN chooses.
    """
    versions = {
        name: metadata.version(name) for name in ("torch", "numpy", "scikit-learn", "pandas")
    }
    on_gpu: dict[str, Any] = {}
    if device != "cpu":
        import torch  # not for pages, which read records only

        on_gpu = {
            "tf32": {
                "matmul": torch.backends.cuda.matmul.allow_tf32,
                "convolutions": torch.backends.cudnn.allow_tf32,
            },
            "cudnn": {
                "benchmark": torch.backends.cudnn.benchmark,
                "deterministic": torch.backends.cudnn.deterministic,
            },
        }
    return on_gpu | {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "python": platform.python_version(),
        "versions": versions,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device,
        "precision": precision,
        "threads": threads,
    }


@functools.cache
def commit() -> str | None:
    """Name the commit of the checkout, with ``+`` where what is run differs from it.

    Outside a checkout of this project it is ``GDLIB_COMMIT``, or None. The first answer of a
    process stays: it is about the code that was loaded, and a commit may be made in a training.
    """

    def git(*command: str) -> str:
        # also in a clone of another user, without running what that one has set
        trusted = ["-c", f"safe.directory={ROOT}", "-c", "core.fsmonitor=false"]
        alone = ["--no-optional-locks"]  # a commit may be made meanwhile
        return subprocess.run(
            ["git", *alone, *trusted, "-C", str(ROOT), *command],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    run = ("gdlib", "study", "notebooks/experiments")
    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() == ROOT.resolve():
            changed = "+" if git("status", "--porcelain", "--", *run) else ""
            return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        pass
    return os.environ.get("GDLIB_COMMIT") or None
