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

from study import ROOT, claims, results
from study.claims.verdicts import variants
from study.variants import Variant
from study.yaml_files import LOADER

OLD = "campaigns/criteria.yml"  # where the criteria stood until 24 November 2026

# of a part, which may change: they compare nothing, or what the paper prints
WORDS = ("sentence", "name", "words", "printed", "known then")

CHANGED_AS_CODE = {
    "E4 c": pd.Timestamp("2026-11-22T04:40:54Z"),  # commit 097a2bd
    **dict.fromkeys(["B1 d", "B1 e"], pd.Timestamp("2026-11-23T12:13:44Z")),  # 602566c
    **dict.fromkeys(["A3 a", "A3 b"], pd.Timestamp("2026-11-24T13:26:31Z")),  # faa29bc
}
"""Parts whose comparison changed while it was code, with no change of their sentence."""

SAME_MEANING = {"E13 c"}
"""Parts whose sentence was put right while it was no data: it names the momentum as it was run."""

RENAMED = {"arm": "step"}
"""Columns that have another name than when a part was written."""


def git(*arguments: str, root: Path = ROOT) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def meaning(part: Any) -> Any:
    """What a part compares, without the words for it, or its sentence while it was one."""
    if isinstance(part, dict):
        kept = {key: one for key, one in part.items() if key not in WORDS}
        return {RENAMED.get(key, key): meaning(one) for key, one in kept.items()}
    if isinstance(part, str):
        return " ".join(part.split())
    return [meaning(one) for one in part] if isinstance(part, list) else part


def changed(name: str, was: tuple[Any, Any], now: tuple[Any, Any]) -> bool:
    """Whether the premise or the comparison of a part changed from one commit to the next."""
    if was[0] != now[0]:
        return True
    if isinstance(was[1], str) and (isinstance(now[1], dict) or name in SAME_MEANING):
        return False
    return was[1] != now[1]


def written(
    path: str, before: Mapping[str, pd.Timestamp], root: Path = ROOT
) -> dict[str, pd.Timestamp]:
    """When each part of a file took its present meaning; ``before``, unless it changed since.

    A part was a sentence first and became data on 24 November 2026. That step is no change, but
    another sentence is one, another comparison, and another premise.
    """
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
                now = entry.get("premise"), meaning(part)
                if changed(name, meant.get(name, now), now):
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
    dates = written(OLD, {}) | CHANGED_AS_CODE
    for claim in claims.ledger():
        dates = written(f"claims/{claim}.yml", dates)
    return dates


def begun_before(
    dates: Mapping[str, pd.Timestamp], runs: pd.DataFrame, asked: list[str] | None = None
) -> set[str]:
    """List the parts that are younger than the beginning of a run that decides them.

    A part whose file is not committed yet is younger than every run. A run that was interrupted
    has the time since it was resumed, so that it is taken for younger than it is.
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
    late = begun_before(dates_of_criteria(), results.everything())
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
    runs = results.everything()
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
    def commit(day: int, part: Any, **claim: Any) -> None:
        content = yaml.safe_dump({**claim, "parts": {"a": part}})
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

    def since() -> int:
        before = {"B99 a": pd.Timestamp("2026-11-10", tz="UTC")}
        return written("claims/B99.yml", before, tmp_path)["B99 a"].day

    def compared(sentence: str, want: str) -> dict[str, Any]:
        return {"sentence": sentence, "compare": ["test_accuracy", 0.1, 1], "want": want}

    commit(11, "it is as accurate")
    assert since() == 10
    commit(12, "it is more\naccurate")  # a sentence alone is what is compared
    assert since() == 12
    commit(13, "it is more accurate")
    commit(14, compared("it is more accurate", "> 0"))  # and the same as data
    commit(15, compared("it is more accurate than beta 1", "> 0"))
    assert since() == 12
    commit(16, compared("it is more accurate than beta 1", "> 0.01"))
    assert since() == 16
    commit(17, compared("it is more accurate than beta 1", "> 0.01"), premise=0.99)
    assert since() == 17
