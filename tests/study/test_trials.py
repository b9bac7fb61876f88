"""The trials in their short form: kills that a campaign survives, and a cluster if there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.study import trials


@pytest.mark.slow
def test_two_kills_leave_the_records_of_an_uninterrupted_run(tmp_path: Path) -> None:
    *_, last = trials.kills(tmp_path / "killed", 2, jobs=2, epochs=100, takes=20.0)
    assert last == "2 of 2 records are equal to the uninterrupted ones after 2 kills"


@pytest.mark.slow
@pytest.mark.skipif(not trials.has_slurm(), reason="no Slurm answers here")
def test_a_campaign_through_slurm(tmp_path: Path) -> None:
    *_, last = trials.slurm(tmp_path / "slurm", jobs=4, epochs=100)
    assert last == "4 of 4 records are equal to those of a local run"
