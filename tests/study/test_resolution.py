"""The check of continuous integration that a stranger's pip can satisfy the pinned versions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Stands for Python: makes environments, and answers `pip install --dry-run` as it is told to.
PYTHON = """\
#!/bin/bash
case "$*" in
  "-m venv"*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"--dry-run"*) cat "$ANSWER"; exit "$STATUS" ;;
esac
"""
CONFLICT = """\
ERROR: Cannot install gradient-decay because these package versions have conflicting dependencies.
The conflict is caused by:
    torch 2.13.0 depends on triton==3.7.1; platform_system == "Linux"
    The user requested (constraint) triton==3.6.0
ERROR: ResolutionImpossible: for help visit a page of pip
"""
NO_NETWORK = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/
ERROR: Could not find a version that satisfies the requirement torch (from versions: none)
ERROR: No matching distribution found for torch
"""


@pytest.fixture
def resolution(tmp_path: Path):
    """Run the check with a Python of this answer; return its status and what it says."""
    bash = Path("/bin/bash")
    if not bash.exists():
        pytest.skip("the check needs bash")
    python, answer = tmp_path / "python", tmp_path / "answer"
    python.write_text(PYTHON)
    python.chmod(0o755)

    def run(status: int, text: str) -> tuple[int, str]:
        answer.write_text(text)
        mine = {"PYTHON": str(python), "ANSWER": str(answer), "STATUS": str(status)}
        # no other Python is looked for
        mine |= {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        done = subprocess.run(
            [bash, ROOT / ".ci" / "resolution"],
            env=os.environ | mine,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout

    return run


def test_versions_that_cannot_be_had_together_fail_the_check(resolution) -> None:
    status, said = resolution(1, CONFLICT)
    assert status == 1
    assert "triton==3.6.0" in said
    assert "constraints.txt cannot be satisfied" in said


def test_without_a_network_one_line_says_so_and_nothing_fails(resolution) -> None:
    status, said = resolution(1, NO_NETWORK)
    assert status == 0
    assert said.count("\n") == said.count("no index of packages can be reached")
