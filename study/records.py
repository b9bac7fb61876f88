"""Records: one JSON file for each job, with its parameters, data version, environment, metrics and curves."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import platform
import re
import socket
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from importlib import metadata
from io import BufferedRandom
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from study import ROOT

FOLDER = ROOT / "results" / "records"

_Scale = Literal["paper", "reduced", "smoke"]
SCALES = get_args(_Scale)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
"""What a campaign, a job and a record may be called: it reaches paths and a shell."""

_OLD_NAMES = {
    "decay": "lr_schedule",
    "method": "loss",
}  # of parameters, in records that were written before they were renamed
_SCHEMA = 1
_DIGITS = 6
_STRING_OR_NUMBERS = re.compile(
    r'"(?:[^"\\]|\\.)*"|\[\s[^\[\]{}"]*\]'
)  # a list of numbers is one line; strings stay as they are

# What may have a meaning in Markdown, MyST or HTML: some characters anywhere, more of them at the
# beginning of a line, and those that make a number there the mark of a list.
_ACTIVE = re.compile(r"^[^\w ]|(?<=^\d)[.)]|(?<=^\d\d)[.)]|(?<=^\d\d\d)[.)]|[^\w ,.'()%+/→-]|_")


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class Record:
    """The outcome of one job; an interrupted one leaves none."""

    template: str  # name of the notebook that ran
    parameters: dict[str, Any]
    data: dict[
        str, Any
    ]  # name, source and exact copy of the data set, number of samples in each split
    model: dict[str, Any]  # its name and the number of parameters of one run
    runs: list[
        dict[str, Any]
    ]  # each with what it is known by, its metrics (numbers) and curves (lists)
    epochs_done: Annotated[int, Field(ge=0)]
    wall_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    scale: _Scale
    environment: dict[str, Any] = field(default_factory=dict)
    schema: int = _SCHEMA

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the record atomically: the file is there whole, or it is not there."""
        content = _plain(asdict(self)) | {
            "parameters": _plain(self.parameters, digits=17)
        }  # what was asked for is kept exactly
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        text = _STRING_OR_NUMBERS.sub(
            lambda part: part[0] if part[0].startswith('"') else " ".join(part[0].split()), text
        )
        return write_whole(path, text + "\n")


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text as :func:`whole` does."""
    with whole(path) as file:
        file.write(text.encode())
    return Path(path)


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[BufferedRandom]:
    """Write a file atomically, also where several machines write to one folder: it is there whole, or it is not there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{socket.gethostname()}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def verbatim(text: object) -> str:
    """Write a text of a campaign or a record so that Markdown, MyST and HTML show it letter by letter.

    Whatever has a meaning there becomes a reference to its character, and the text is one line.
    Every such text goes through here before it becomes part of a page: titles, names, devices,
    versions, messages.

    Example:
        >>> verbatim("β = 1, <b>`x`</b>")
        'β &#61; 1, &#60;b&#62;&#96;x&#96;&#60;/b&#62;'
        >>> verbatim("1. MNIST")
        '1&#46; MNIST'
    """
    line = " ".join("".join(filter(str.isprintable, str(text).replace("\n", " "))).split())
    return _ACTIVE.sub(lambda found: f"&#{ord(found[0])};", line)


def load(path: str | os.PathLike[str]) -> Record:
    """Read one record, its parameters under the names of today; refuse a file that is not a whole record.

    The ends of a warm-up stand as numbers beside its label.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["schema"] != _SCHEMA:
            raise ValueError(f"schema {content['schema']} instead of {_SCHEMA}")
        record = Record(**content)
        renamed = {_OLD_NAMES.get(name, name): value for name, value in record.parameters.items()}
        if record.epochs_done != renamed.get("epochs", record.epochs_done):
            raise ValueError(f"{record.epochs_done} of {renamed['epochs']} epochs were done")
        for run in record.runs:
            _check_metrics(run)
            if run.get("warmup_epochs") and "warmup_start" not in run:
                (ends,) = {
                    (start, end)
                    for start, end, _ in renamed["warmups"]
                    if f"warm-up {start:g}→{end:g}" == run["schedule"]
                }
                run |= dict(zip(("warmup_start", "warmup_end"), ends, strict=True))
        return replace(record, parameters=renamed)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
        raise ValueError(
            f"{path} is not a whole record ({reason}); delete it and run its job again"
        ) from error


def _check_metrics(run: Mapping[str, Any]) -> None:
    """Refuse metrics that no training can leave: null where it did not diverge, a text, an accuracy outside [0, 1]."""
    for name, value in run["metrics"].items():
        if value is None and (run.get("diverged") or run["metrics"].get("diverged_folds")):
            continue
        if (
            not isinstance(value, int | float)
            or not math.isfinite(value)
            or ("accuracy" in name and not 0 <= value <= 1)
        ):
            raise ValueError(f"{name} is {value!r}")


def probe(path: str | os.PathLike[str], parameters: Mapping[str, Any] | None = None) -> None:
    """Find out before a training whether its record can be written to the path; an empty one is nowhere.

    With the training's parameters, the record of another training is refused: it would be
    overwritten.
    """
    if not path:
        return
    if (
        parameters is not None
        and Path(path).exists()
        and load(path).parameters != _plain(parameters, digits=17)
    ):
        raise ValueError(
            f"{path} is the record of a training with other parameters; delete it, or name another file"
        )
    write_whole(f"{path}.probe", "")
    Path(f"{path}.probe").unlink(missing_ok=True)


def same(left: Any, right: Any) -> bool:
    """Compare two values, one of which went through a record: 1 is 1.0, a tuple is a list, True is not 1, floats have six digits."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        return (
            isinstance(left, int | float)
            and isinstance(right, int | float)
            and math.isclose(left, right, rel_tol=1e-5)
        )
    return bool(left == right)


def read(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> pd.DataFrame:
    """Read a folder of records with its sub-folders, or paths of records, as one table with a row for each run.

    Its columns are the parameters of the job, what the run is known by, the metrics, the curves as
    lists under ``curve_...``, and ``record`` (file), ``campaign`` (folder) and others of the whole
    record. A damaged record, a file that no job is called after, and the copy of another are
    refused by name.
    """
    if isinstance(source, (str, os.PathLike)):
        folder = Path(source)
        if not folder.is_dir():
            raise FileNotFoundError(
                f"there is no folder of records {folder}; `make reproduce CAMPAIGN=...` writes one"
            )
        paths: list[Path] = sorted(folder.rglob("*.json"))
    else:
        paths = [Path(path) for path in source]
    contents: dict[str, Path] = {}
    for path in paths:
        if not NAME.fullmatch(path.name):
            raise ValueError(f"{path}: no record is called that; delete the copy, or move it away")
        if (
            twin := contents.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), path)
        ) is not path:
            raise ValueError(f"{path} is a copy of {twin}: its runs would count twice; delete it")
    # one frame of all rows: a frame for each record and their concatenation take ten times as long
    # as reading the files
    return pd.DataFrame(
        [
            row | {"record": path.name, "campaign": path.parent.name}
            for path in paths
            for row in _rows(load(path))
        ]
    )


def to_frame(record: Record) -> pd.DataFrame:
    """Make of one record the table of :func:`read`, without ``record`` and ``campaign``."""
    return pd.DataFrame(_rows(record))


def _rows(record: Record) -> list[dict[str, Any]]:
    of_runs = ("betas", "warmups", "feedbacks", "temperatures", "seeds")
    job = {name: value for name, value in record.parameters.items() if name not in of_runs}
    job |= {
        "template": record.template,
        "scale": record.scale,
        "wall_seconds": record.wall_seconds,
        "data_source": record.data.get("source"),
        "model_parameters": record.model.get("parameters"),
        "train_samples": record.data.get("train"),
        "wrong_labels": record.data.get("wrong_labels", 0.0),
        "time": record.environment.get("time"),
    }
    rows = []
    for run in record.runs:
        own = {name: value for name, value in run.items() if name not in ("metrics", "curves")}
        if "warmup_epochs" in own:
            own = {"warmup_start": math.nan, "warmup_end": math.nan} | own
        curves = {f"curve_{name}": values for name, values in run.get("curves", {}).items()}
        rows.append(job | own | dict(run.get("metrics", {})) | curves)
    return rows


def environment(*, device: str, precision: str, threads: int) -> dict[str, Any]:
    """Say where and with what something is measured; on a GPU also whether float32 products are made in TF32, and how cuDNN chooses."""
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
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": versions,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device,
        "precision": precision,
        "threads": threads,
    }


def _commit() -> str | None:
    """The commit of the checkout, with ``+`` where the sources differ from it; outside a checkout ``GDLIB_COMMIT``, or None."""

    def git(*command: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + (
            "+" if git("status", "--porcelain", "--", "gdlib", "study") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("GDLIB_COMMIT")


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
