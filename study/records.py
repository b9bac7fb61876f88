"""Records: what one job measured, small, complete and honest, as one JSON file.

A job trains a stack of runs. Its record holds every parameter, the exact copy of the data, the model, the environment, and for each run
its schedule, seed, final metrics and curves.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["SCALES", "Record", "default_folder", "environment", "load", "read", "to_frame"]

SCALES = ("paper", "reduced", "smoke")

_SCHEMA = 1
_DIGITS = 6
_STRING_OR_NUMBERS = re.compile(
    r'"(?:[^"\\]|\\.)*"|\[\s[^\[\]{}"]*\]'
)  # a list of numbers is written in one line; strings stay as they are


@dataclass(frozen=True)
class Record:
    """The outcome of one job.

    Attributes:
        template: name of the notebook that ran.
        parameters: every parameter of the experiment, as it was given.
        data: name, source and exact copy of the data set, and the number of samples in each split.
        model: its name and the number of parameters of one run.
        runs: for each run a dictionary with ``schedule``, ``beta``, ``temperature``, ``seed``, ``metrics`` (numbers) and ``curves``
            (lists).
        epochs_done: epochs that were finished; equal to the ones asked for, since an interrupted job leaves no record.
        wall_seconds: time of the whole job.
        scale: ``"paper"``, ``"reduced"`` or ``"smoke"``.
        environment: versions, device, precision, threads, commit, time.
    """

    template: str
    parameters: Mapping[str, Any]
    data: Mapping[str, Any]
    model: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]
    epochs_done: int
    wall_seconds: float
    scale: str
    environment: Mapping[str, Any] = field(default_factory=dict)
    schema: int = _SCHEMA

    def __post_init__(self) -> None:
        """Refuse a scale that does not exist."""
        if self.scale not in SCALES:
            raise ValueError(f"unknown scale {self.scale!r}; valid: {', '.join(SCALES)}")

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the record atomically: the file is there whole, or it is not there."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        content = _plain(asdict(self)) | {"parameters": _plain(self.parameters, digits=17)}  # what was asked for is kept exactly
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        text = _STRING_OR_NUMBERS.sub(lambda part: part[0] if part[0].startswith('"') else " ".join(part[0].split()), text)
        try:
            partial.write_text(text + "\n", encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return path


def load(path: str | os.PathLike[str]) -> Record:
    """One record.

    Raises:
        ValueError: for a file that is not a whole record; the message names it.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["schema"] != _SCHEMA:
            raise ValueError(f"schema {content['schema']} instead of {_SCHEMA}")
        return Record(**content)
    except (ValueError, TypeError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a whole record ({type(error).__name__}: {error}); delete it and run its job again") from error


def default_folder() -> Path:
    """``results/records`` of the repository that gdlib was installed from: the same folder from every page and every working directory."""
    return Path(__file__).resolve().parents[1] / "results" / "records"


def read(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> pd.DataFrame:
    """Many records as one table with a row for each run.

    Args:
        source: a folder, which is searched with its sub-folders, or paths of records.

    Returns:
        A table with the parameters of the job, ``schedule`` (label), ``beta`` (at the end), ``temperature``, ``seed``, the metrics under
        their own names, the curves as lists under ``curve_...``, and ``record`` (file), ``campaign`` (folder), ``scale``, ``template``,
        ``wall_seconds``, ``data_source``, ``model_parameters``, ``train_samples``. Empty if there are no records.

    Raises:
        FileNotFoundError: for a folder that does not exist.
        ValueError: for a damaged record; the message names it.
    """
    if isinstance(source, (str, os.PathLike)):
        folder = Path(source)
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder of records {folder}; `make reproduce CAMPAIGN=...` writes one")
        paths: list[Path] = sorted(folder.rglob("*.json"))
    else:
        paths = [Path(path) for path in source]
    # one frame of all rows: a frame for each record and their concatenation take ten times as long as reading the files
    return pd.DataFrame([row | {"record": path.name, "campaign": path.parent.name} for path in paths for row in _rows(load(path))])


def to_frame(record: Record) -> pd.DataFrame:
    """One record as a table with a row for each run; the columns are those of :func:`read`, without ``record`` and ``campaign``."""
    return pd.DataFrame(_rows(record))


def _rows(record: Record) -> list[dict[str, Any]]:
    """One record as a row for each run."""
    job = {name: value for name, value in record.parameters.items() if name not in ("betas", "warmups", "temperatures", "seeds")}
    job |= {
        "template": record.template,
        "scale": record.scale,
        "wall_seconds": record.wall_seconds,
        "data_source": record.data.get("source"),
        "model_parameters": record.model.get("parameters"),
        "train_samples": record.data.get("train"),
    }
    rows = []
    for run in record.runs:
        own = {name: value for name, value in run.items() if name not in ("metrics", "curves")}
        curves = {f"curve_{name}": values for name, values in run.get("curves", {}).items()}
        rows.append(job | own | dict(run.get("metrics", {})) | curves)
    return rows


def environment(*, device: str, precision: str, threads: int) -> dict[str, Any]:
    """Where and with what something was measured: versions, device, precision, threads, commit, time in UTC."""
    versions = {name: metadata.version(name) for name in ("torch", "numpy", "scikit-learn", "pandas")}
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": versions,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device,
        "precision": precision,
        "threads": threads,
    }


def _commit() -> str | None:
    """The commit of the checkout, with ``+`` where the package's own sources differ from it; None outside a checkout."""
    root = Path(__file__).resolve().parents[1]
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*git, "status", "--porcelain", "--", "gdlib"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def _plain(value: Any, digits: int = _DIGITS) -> Any:
    """The same value in JSON's types; floats are rounded to six digits, and those that are no number become null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item, digits) for name, item in value.items()}
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), digits)
    if isinstance(value, Iterable):
        return [_plain(item, digits) for item in value]
    raise TypeError(f"a record cannot hold a {type(value).__name__}")
