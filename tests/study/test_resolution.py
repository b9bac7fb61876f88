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
  *"--dry-run"*) env | grep '^PIP_' > "$PIP_SAW"; cat "$ANSWER"; exit "$STATUS" ;;
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
NO_VERSION = "ERROR: No matching distribution found for numpy==99.0\n"


@pytest.fixture
def resolution(tmp_path: Path):
    """Run the check with a Python of this answer.

    Returns its status, what it says, and what pip's environment was.
    """
    bash = Path("/bin/bash")
    if not bash.exists():
        pytest.skip("the check needs bash")
    python, answer, saw = (tmp_path / name for name in ("python", "answer", "saw"))
    python.write_text(PYTHON.replace("$PIP_SAW", str(saw)))
    python.chmod(0o755)

    def run(status: int, text: str, **variables: str) -> tuple[int, str, dict[str, str]]:
        answer.write_text(text)
        mine = {"PYTHON": str(python), "ANSWER": str(answer), "STATUS": str(status)}
        # no other Python is looked for
        mine |= {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        done = subprocess.run(
            [bash, ROOT / ".ci" / "resolution"],
            env={**os.environ, **mine, **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )
        lines = saw.read_text().split() if saw.exists() else []
        return done.returncode, done.stdout, dict(line.partition("=")[::2] for line in lines)

    return run


def test_versions_that_cannot_be_had_together_fail_the_check(resolution) -> None:
    status, said, _ = resolution(1, CONFLICT)
    assert status == 1
    assert "triton==3.6.0" in said
    assert "constraints.txt cannot be satisfied" in said


def test_a_version_that_does_not_exist_fails_the_check(resolution) -> None:
    assert resolution(1, NO_VERSION)[0] == 1


def test_versions_that_can_be_had_pass(resolution) -> None:
    status, said, _ = resolution(0, "Would install gradient_decay-1.0.0 torch-2.13.0\n")
    assert status == 0
    assert "finds versions" in said


def test_without_a_network_one_line_says_so_and_nothing_fails(resolution) -> None:
    status, said, _ = resolution(1, NO_NETWORK)
    assert status == 0
    assert said.count("\n") == said.count("no index of packages can be reached")


def test_pip_keeps_the_index_of_this_machine_but_none_of_its_wheels(resolution) -> None:
    _, _, settings = resolution(
        0,
        "",
        PIP_INDEX_URL="https://index.invalid/simple",
        PIP_CERT="/certificates",
        PIP_FIND_LINKS="/wheels",
        PIP_EXTRA_INDEX_URL="https://cpu.invalid",
        PIP_CONSTRAINT="/other.txt",
    )
    assert settings["PIP_INDEX_URL"] == "https://index.invalid/simple"
    assert settings["PIP_CERT"] == "/certificates"
    assert settings["PIP_CONFIG_FILE"] == os.devnull
    assert not {"PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"} & set(settings)


def test_continuous_integration_tries_it_before_anything_is_installed() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    assert text.index(".ci/resolution ||") < text.index("make test 2>&1")
    workflow = (ROOT / ".github" / "workflows" / "book.yml").read_text()
    assert workflow.index("run: .ci/resolution") < workflow.index("run: make book")


def test_a_python_that_is_named_is_taken_or_refused(resolution) -> None:
    status, said, _ = resolution(0, "", PYTHON="/no/such/python")
    assert status == 1
    assert "/no/such/python is no Python of 3.11 or newer" in said
