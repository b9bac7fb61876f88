"""A record: one JSON file for each job, written and read."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from study.records.files import plain, write_whole
from study.records.form import check, parsed

REHEARSAL = "quick"
"""The campaign that rehearses every experiment; its records are in no clone and on no page."""

_Scale = Literal["paper", "reduced", "smoke"]
SCALES = get_args(_Scale)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
"""What a campaign, a job and a record may be called: it reaches paths and a shell."""

# Of a key and of parameters, in records that were written before these were renamed.
_OLD_NAMES = {"template": "experiment", "decay": "lr_schedule", "method": "loss"}
_SCHEMA = 1
_ROOM = 1_000_000  # bytes, more than the largest record has
_STRING_OR_NUMBERS = re.compile(
    r'"(?:[^"\\]|\\.)*"|\[\s[^\[\]{}"]*\]'
)  # a list of numbers is one line; strings stay as they are
# What a file raises that is no record.
_UNFIT = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)


@dataclass(frozen=True, config=ConfigDict(extra="forbid", strict=True))
class Record:
    """The outcome of one job; an interrupted one leaves none."""

    experiment: str  # name of its notebook
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
        """Write the record atomically: the file is there whole, or it is not there.

        Raises:
            ValueError: where it is none that :func:`load` would read.
        """
        content = plain(asdict(self)) | {
            "parameters": plain(self.parameters, digits=17)
        }  # what was asked for is kept exactly
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        text = _STRING_OR_NUMBERS.sub(
            lambda part: part[0] if part[0].startswith('"') else " ".join(part[0].split()), text
        )
        try:
            _fitting(text.encode())
        except _UNFIT as error:
            raise ValueError(
                f"what was measured is no record ({_reason(error)}); nothing is written to {path}"
            ) from error
        return write_whole(path, text + "\n")


def load(path: str | os.PathLike[str]) -> Record:
    """Read one record, its parameters under the names of today.

    The ends of a warm-up stand as numbers beside its label.

    Raises:
        ValueError: for a file that is not a whole record, or holds what no training leaves.
    """
    try:
        record = _fitting(Path(path).read_bytes())
        for run in record.runs:
            if run.get("warmup_epochs") and "warmup_start" not in run:
                (ends,) = {
                    (start, end)
                    for start, end, _ in record.parameters["warmups"]
                    if f"warm-up {start:g}→{end:g}" == run["schedule"]
                }
                run |= dict(zip(("warmup_start", "warmup_end"), map(float, ends), strict=True))
        return record
    except _UNFIT as error:
        raise Unfit(
            f"{path} is not a whole record ({_reason(error)}); delete it and run its job again"
        ) from error


class Unfit(ValueError):
    """A file is no record, or one with what no training leaves."""


def _fitting(text: bytes) -> Record:
    """Read a record from a text that is one, with every number where it can be."""
    content = _renamed(parsed(text))
    if content["schema"] != _SCHEMA:
        raise ValueError(f"schema {content['schema']} instead of {_SCHEMA}")
    record = Record(**content)
    asked = _renamed(record.parameters)
    runs = check(
        record.experiment, asked, record.data, record.model, record.runs, record.epochs_done
    )
    return replace(record, runs=runs, parameters=asked)


def _renamed(written: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a record has the names of today."""
    return {_OLD_NAMES.get(name, name): value for name, value in written.items()}


def _reason(error: Exception) -> str:
    """Say in one line what is wrong."""
    name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    return f"{name}{error}".replace("\n", " ")[:300]


def probe(path: str | os.PathLike[str], parameters: Mapping[str, Any] | None = None) -> None:
    """Find out before a training whether its record can be written to the path, and has room.

    An empty path is that of no record, and is fine. With the training's parameters, the record of
    another training is refused: it would be overwritten.
    """
    if not path:
        return
    if (
        parameters is not None
        and Path(path).exists()
        and load(path).parameters != plain(parameters, digits=17)
    ):
        raise ValueError(
            f"{path} is the record of a training with other parameters; delete it, or name another "
            f"file"
        )
    write_whole(f"{path}.probe", " " * _ROOM)  # an empty file fits on a full disk too
    Path(f"{path}.probe").unlink(missing_ok=True)


def same(left: Any, right: Any) -> bool:
    """Compare two values, one of which went through a record.

    A record makes 1.0 of 1, a list of a tuple, and leaves six digits of a float. True is not 1.
    """
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
