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

import torch

from study import ROOT


def environment(device: torch.device) -> dict[str, Any]:
    """Say when, where and with what something is measured, as the tables have it.

    On a GPU it also says whether float32 products are made in TF32, and how cuDNN chooses.
    """
    on_gpu = device.type == "cuda"
    where = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "hardware": torch.cuda.get_device_name(device) if on_gpu else device.type,
        "threads": torch.get_num_threads(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in ("torch", "numpy", "scikit-learn", "pandas"):
        where[package] = metadata.version(package)
    if on_gpu:
        where |= {
            "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
            "tf32_convolutions": torch.backends.cudnn.allow_tf32,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
        }
    return {name: value for name, value in where.items() if value is not None}


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
