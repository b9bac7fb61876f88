"""No run is older than the criterion that it decides, by the history of the repository."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from study import ROOT, claims, records
from study.claims.verdicts import variants
from study.variants import Variant
from study.yaml_files import LOADER

OLD = "campaigns/criteria.yml"  # where the criteria stood until 24 November 2026

# of a part, which may change: they compare nothing, or what the paper prints
WORDS = ("sentence", "name", "words", "printed", "known then")

CHANGED_AS_TEXT = {
    "B2 a": pd.Timestamp("2026-11-24T13:26:31Z"),
    **dict.fromkeys(["A7 a", "A7 b"], pd.Timestamp("2026-11-22T04:40:54Z")),
}
"""Parts whose comparison changed while it was a sentence or code: commits faa29bc and 097a2bd."""

RENAMED = {"arm": "step"}
"""Columns that have another name than when a part was written."""


def git(*arguments: str, root: Path = ROOT) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def meaning(part: Any) -> Any:
    """What a part compares, without the words for it; a sentence alone has no comparison yet."""
    if isinstance(part, dict):
        kept = {key: one for key, one in part.items() if key not in WORDS}
        return {RENAMED.get(key, key): meaning(one) for key, one in kept.items()}
    return [meaning(one) for one in part] if isinstance(part, list) else part


def written(
    path: str, before: Mapping[str, pd.Timestamp], root: Path = ROOT
) -> dict[str, pd.Timestamp]:
    """When each part of a file took its present meaning; ``before``, unless it changed since."""
    found, meant = dict(before), {}
    for line in reversed(git("log", "--format=%H %cI", "--", path, root=root).splitlines()):
        commit, date = line.split()
        try:
            content = yaml.load(git("show", f"{commit}:{path}", root=root), Loader=LOADER)
        except (subprocess.CalledProcessError, yaml.YAMLError):  # removed, or not yet whole
            continue
        own: dict[str, Any] = content if path == OLD else {Path(path).stem: content}
        for claim, entry in own.items():
            parts = (entry.get("parts") or {}) if isinstance(entry, dict) else {}
            for letter, part in parts.items():
                name, when = f"{claim} {letter}", pd.Timestamp(date).tz_convert("UTC")
                now = None if isinstance(part, str) else [entry.get("premise"), meaning(part)]
                if meant.get(name, now) != now:
                    found[name] = when
                found.setdefault(name, when)
                meant[name] = now
    return found


def dates_of_criteria() -> dict[str, pd.Timestamp]:
    try:
        if git("rev-parse", "--is-shallow-repository").strip() == "true":
            pytest.skip("the clone has no history")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no git history here")
    dates = written(OLD, {}) | CHANGED_AS_TEXT
    for claim in claims.ledger():
        dates = written(f"claims/{claim}.yml", dates)
    return dates


def begun_before(
    dates: Mapping[str, pd.Timestamp], runs: pd.DataFrame, asked: list[str] | None = None
) -> set[str]:
    """List the parts that are younger than the beginning of a run that decides them.

    A part whose file is not committed yet is younger than every run.
    """

    @cache
    def beginnings(kind: str) -> dict[Variant, pd.Series]:
        found = {}
        for variant in variants(claims.runs_of(runs, kind), kind):
            if "time" in variant.runs:  # the tables of Table I are means over records
                end = pd.to_datetime(variant.runs["time"], utc=True)
                spent = pd.to_timedelta(variant.runs["wall_seconds"].fillna(0), unit="s")
                found[variant.variant] = end - spent
        return found

    late = set()
    for claim, verdict in claims.verdicts(runs, asked).items():
        for part in verdict.parts:
            name = f"{claim} {part.id}"
            begun = beginnings(claims.ledger()[claim].parts[part.id].runs)
            for finding in part.deciding:
                if finding.variant not in begun:
                    continue
                if name not in dates or (begun[finding.variant] < dates[name]).any():
                    late.add(name)
    return late


def test_criteria_were_there_before_their_records() -> None:
    """Its letter may stand there later, if the part says what was known then."""
    late = begun_before(dates_of_criteria(), records.read(records.FOLDER))
    told = {
        f"{name} {letter}"
        for name, claim in claims.ledger().items()
        for letter, part in claim.parts.items()
        if part.known_then
    }
    assert late <= told, "a record is older than the criterion that it decides"
    assert told <= late, "no record that decides was there"


def test_the_part_that_a_verdict_follows_is_the_one_that_was_named_first() -> None:
    dates_of_criteria()  # skips where there is no history
    touched = git("log", "--format=", "--name-only", "-G^primary:", "--", "claims/*.yml").split()
    named = {f"claims/{name}.yml" for name, claim in claims.ledger().items() if claim.parts}
    assert named <= set(touched)
    assert {path for path in named if touched.count(path) > 1} == set()


def test_a_run_that_was_begun_before_its_criterion_is_found() -> None:
    runs = records.read(records.FOLDER)
    runs = runs[runs["campaign"] == "cifar100-plain"]
    first = pd.to_datetime(runs["time"], utc=True).min()
    minute = pd.Timedelta(minutes=1)
    dates = dict.fromkeys(["E8 a", "E8 b"], first - pd.Timedelta(days=1))
    assert begun_before(dates, runs, ["E8"]) == set()
    # that run ended after its criterion was written, and had been begun before
    assert begun_before(dates | {"E8 b": first - minute}, runs, ["E8"]) == {"E8 b"}
    # and that of a file which is not committed has no date
    assert begun_before({"E8 a": dates["E8 a"]}, runs, ["E8"]) == {"E8 b"}


def test_a_comparison_that_changed_is_as_old_as_its_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(day: int, sentence: str, want: str) -> None:
        part = {"sentence": sentence, "compare": ["test_accuracy", 0.1, 1], "want": want}
        content = yaml.safe_dump({"parts": {"a": part}})
        (tmp_path / "claims" / "B99.yml").write_text(content, encoding="utf-8")
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"2026-11-{day}T12:00:00+00:00")
        git("add", "claims", root=tmp_path)
        git("commit", "--message", f"day {day}", root=tmp_path)

    try:
        git("init", root=tmp_path)
    except OSError:
        pytest.skip("there is no git here")
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(name, "test")
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "test@localhost")
    (tmp_path / "claims").mkdir()

    def since() -> pd.Timestamp:
        before = {"B99 a": pd.Timestamp("2026-11-20", tz="UTC")}
        return written("claims/B99.yml", before, tmp_path)["B99 a"]

    commit(21, "it is more accurate", "> 0")
    assert since().day == 20
    commit(22, "it is more accurate than beta 1", "> 0")
    assert since().day == 20
    commit(23, "it is more accurate than beta 1", "> 0.01")
    assert since().day == 23
