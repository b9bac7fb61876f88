"""No record is older than the criterion that it decides, by the history of the repository."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import Any

import pandas as pd
import pytest
import yaml

from study import ROOT, claims, records
from study.claims.verdicts import variants

OLD = "campaigns/criteria.yml"  # where the criteria stood until 24 November 2026

# Parts whose letter first stood there when some records of a variant that decides were there.
# Each is told in its claim's file or in claims/changes.yml.
WRITTEN_LATER = {
    "A6 e": "records of MNIST and of the small network",
    "A6 f": "records of MNIST and of the small network",
    "B3 a": "two runs of β = 1",
    "B3 b": "two runs of β = 1",
    "B3 c": "two runs of β = 1",
    "B3 d": "two runs of β = 1",
    "B5 f": "the runs of the other parts, at the larger learning rate",
    "E19 a": "seed 0 of the papers' widths, and most of seed 1",
    "E19 b": "seed 0 of the papers' widths, and most of seed 1",
    "E19 c": "seed 0 of the papers' widths, and most of seed 1",
    "L4 g": "older runs on few images of CIFAR-10",
    "L10 a": "the regulariser, and label smoothing of 0.1",
}


def git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def written(path: str) -> dict[str, pd.Timestamp]:
    """When each part of a claim first stood in a file of the repository."""
    found: dict[str, pd.Timestamp] = {}
    for line in reversed(git("log", "--format=%H %cI", "--", path).splitlines()):
        commit, date = line.split()
        try:
            content = yaml.safe_load(git("show", f"{commit}:{path}"))
        except (subprocess.CalledProcessError, yaml.YAMLError):  # removed, or not yet whole
            continue
        own: dict[str, Any] = content if path == OLD else {path[7:-4]: content}
        for claim, entry in own.items():
            for part in (entry.get("parts") or {}) if isinstance(entry, dict) else ():
                found.setdefault(f"{claim} {part}", pd.Timestamp(date).tz_convert("UTC"))
    return found


def first_dates() -> dict[str, pd.Timestamp]:
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("the clone has no history")
    dates = written(OLD)
    for claim in claims.ledger():
        dates = written(f"claims/{claim}.yml") | dates
    return dates


def test_criteria_were_there_before_their_records() -> None:
    try:
        dates = first_dates()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no git history here")
    runs = records.read(records.FOLDER)

    @cache
    def times(kind: str) -> dict[str, pd.Series]:
        found = {}
        for variant in variants(claims.runs_of(runs, kind), kind):
            if "time" in variant.runs:  # the tables of Table I are means over records
                found[variant.variant] = pd.to_datetime(variant.runs["time"], utc=True)
        return found

    late = set()
    for claim, verdict in claims.verdicts(runs).items():
        for part in verdict.parts:
            name = f"{claim} {part.id}"
            kind = claims.ledger()[claim].parts[part.id].runs
            for finding in part.deciding:
                measured = times(kind).get(finding.variant)
                if measured is not None and (measured < dates[name]).any():
                    late.add(name)
    assert late <= set(WRITTEN_LATER), "a record is older than the criterion that it decides"
    assert set(WRITTEN_LATER) <= late, set(WRITTEN_LATER) - late
