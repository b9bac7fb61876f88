"""What the page on adding to the project shows, tried: its claim, its metric and its campaign."""

from __future__ import annotations

import importlib
import re
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


def test_the_claim_gets_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "B99.yml").write_text(shown("yaml")[0], encoding="utf-8")
    ledger = claims.ledger(tmp_path)
    # the package has a function of the module's name
    monkeypatch.setattr(importlib.import_module("study.claims.verdicts"), "ledger", lambda: ledger)
    verdict = claims.verdicts(made_up.mnist())["B99"]
    assert verdict.verdict == "supported"
    assert [part.id for part in verdict.parts] == ["a"]


def test_the_metric_is_one_line() -> None:
    (line,) = shown("python")
    metric = eval(line, {"Metric": Metric})
    assert (metric.name, metric.higher, metric.factor) == ("test_brier", False, 1.0)


def test_the_campaign_has_a_job_for_each_seed(tmp_path: Path) -> None:
    (tmp_path / "smoothing.yml").write_text(shown("yaml")[1], encoding="utf-8")
    jobs = campaign.load(tmp_path / "smoothing.yml").jobs
    assert len(jobs) == 3
    assert [job.parameters["seeds"] for job in jobs] == [[0], [1], [2]]
    assert all(len(job.parameters["betas"]) == 4 for job in jobs)
