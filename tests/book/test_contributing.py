"""What the page on adding to the project shows, tried: its claim, runs, campaign and metric."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from study import campaign, claims
from study.metrics import Metric
from tests.study import made_up

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "book" / "contributing.md").read_text(encoding="utf-8")


def shown(language: str) -> list[str]:
    """The blocks of code of the page in one language, without their indentation."""
    blocks = re.findall(rf"^   ```{language}\n(.*?)^   ```$", PAGE, re.MULTILINE | re.DOTALL)
    return [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in blocks]


CLAIM, SELECTION, CAMPAIGN = shown("yaml")
KIND, METRIC = shown("python")


def insert(path: Path, after: str, text: str) -> None:
    """Write lines behind the line that is given."""
    before, line, rest = path.read_text(encoding="utf-8").partition(f"\n{after}\n")
    assert line, f"{path} has no line {after!r}"
    path.write_text(before + line + text + rest, encoding="utf-8")


def indented(text: str, by: int) -> str:
    return re.sub("^", by * " ", text.rstrip("\n"), flags=re.MULTILINE) + "\n"


def test_the_claim_gets_a_verdict_from_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "B99.yml").write_text(CLAIM, encoding="utf-8")
    ledger = claims.ledger(tmp_path)
    shutil.copy(ROOT / "claims" / "runs.yml", tmp_path)
    insert(tmp_path / "runs.yml", "selections:", indented(SELECTION, 2))
    wanted = claims.selections(tmp_path / "runs.yml")
    # the package has a function of the module's name
    module = importlib.import_module("study.claims.verdicts")
    monkeypatch.setattr(module, "ledger", lambda: ledger)
    monkeypatch.setattr(module, "selection", wanted.__getitem__)
    runs = made_up.mnist().assign(campaign="few-units", dataset="digits")
    verdict = claims.verdicts(runs)["B99"]
    assert verdict.verdict == "supported"
    assert [part.id for part in verdict.parts] == ["a"]


def test_the_metric_is_one_line() -> None:
    metric = eval(METRIC, {"Metric": Metric})
    assert (metric.name, metric.higher, metric.factor) == ("test_brier", False, 1.0)


def test_the_campaign_has_a_job_for_each_seed(tmp_path: Path) -> None:
    (tmp_path / "few-units.yml").write_text(CAMPAIGN, encoding="utf-8")
    jobs = campaign.load(tmp_path / "few-units.yml").jobs
    assert len(jobs) == 3
    assert [job.parameters["seeds"] for job in jobs] == [[0], [1], [2]]
    assert all(len(job.parameters["betas"]) == 4 for job in jobs)
    (pattern,) = eval("{" + KIND + "}")["few-units"][0]
    assert all(re.match(pattern, f"{job.campaign}/{job.record.stem}") for job in jobs)


# --- all steps, in a copy of the project ---

TESTS = (
    "test_claims.py",
    "test_claims_answers.py",
    "test_claims_files.py",
    "test_recompute.py",
    "test_tables_rerun.py",
)
"""Tests that go through every claim, selection, campaign and metric."""

NEW = "B99 or few-units or brier or not ["
"""Those of what the page adds; of the rest, which has its own tests, what has no parameter."""


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def copied(folder: Path) -> Path:
    """The project with its history, and with what is not committed yet."""
    try:
        git(ROOT, "clone", "--quiet", "--shared", str(ROOT), str(folder))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no git history here")
    changed = git(ROOT, "ls-files", "-z", "--modified", "--others", "--exclude-standard")
    for name in filter(None, changed.split("\0")):
        if (ROOT / name).is_symlink():
            continue
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        else:
            (folder / name).unlink()
    return folder


@pytest.mark.slow
def test_the_steps_of_the_page_are_enough(tmp_path: Path) -> None:
    """With the claim, its selection, its campaign and a metric, the tests of claims pass."""
    folder = copied(tmp_path / "project")
    (folder / "claims" / "B99.yml").write_text(CLAIM, encoding="utf-8")
    (folder / "campaigns" / "few-units.yml").write_text(CAMPAIGN, encoding="utf-8")
    insert(folder / "claims" / "runs.yml", "selections:", indented(SELECTION, 2))
    insert(folder / "results" / "recompute.py", "KINDS = {", indented(KIND, 4))
    insert(folder / "study" / "metrics.py", "_LIST = (", indented(f"{METRIC.rstrip()},", 4))
    git(folder, "add", "--all")
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    git(folder, *author, "commit", "--quiet", "--message", "A claim")
    tests = [f"tests/study/{name}" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-k", NEW, *tests]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ended = subprocess.run(
        command,
        cwd=folder,
        env=kept | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-1000:]
