"""What `make` is given on its command line, and what lies in the folders that it looks at."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Stands for every program of the environment: says how it was called.
STUB = """\
#!/bin/bash
printf '%s\\n' "${0##*/} $*" >> calls
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the Makefile, and an environment whose programs are stubs."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "snakemake"):
        (programs / name).write_text(STUB, encoding="utf-8")
        (programs / name).chmod(0o755)
    (tmp_path / ".venv" / ".installed").touch()
    return tmp_path


def make(project: Path, *arguments: str) -> list[str]:
    """Run make and return what the stubs say."""
    calls = project / "calls"
    calls.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    done = subprocess.run(
        ["make", "-s", *arguments], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []


@pytest.mark.parametrize("attack", ["x; touch PWNED", "`touch PWNED`", "'"])
def test_what_make_is_given_is_never_a_command(project: Path, attack: str) -> None:
    given = [f"{name}={attack}" for name in ("CAMPAIGN", "ONLY", "FRESH", "INTO")]
    calls = make(project, "reproduce", *given, f"CORES=1{attack}")
    assert calls[0].startswith(f"snakemake --cores 1{attack} --keep-going")
    assert f"--config campaign={attack} only={attack} fresh={attack}" in calls[0]
    assert f"python -m benchmarks.sweep --into {attack}" in make(project, "bench", *given)
    assert not (project / "PWNED").exists()


def test_cleaning_leaves_what_was_measured(project: Path) -> None:
    measured = ("gpu/data", "results/mnist", "fresh/mnist/results", "benchmarks/a-processor")
    for name in (*measured, "mnist/checkpoints", "fresh/mnist/checkpoints", "../_build/html"):
        (project / "build" / name).mkdir(parents=True)
    make(project, "clean")
    assert all((project / "build" / name).is_dir() for name in measured)
    assert not list((project / "build").rglob("checkpoints"))
    assert not (project / "_build").exists()


@pytest.mark.parametrize("cores", ["0", "two"])
def test_without_cores_nothing_waits_for_one(project: Path, cores: str) -> None:
    done = subprocess.run(
        ["make", "-s", "reproduce", f"CORES={cores}"], cwd=project, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert f"CORES says how many jobs run at a time, as in CORES=2; got '{cores}'" in done.stdout
    assert not (project / "calls").exists()


@pytest.mark.parametrize("off", ["", "0", "no"])
def test_a_campaign_that_is_not_trained_anew_is_not_compared(project: Path, off: str) -> None:
    calls = make(project, "reproduce", "CAMPAIGN=mnist", f"FRESH={off}")
    assert calls[0].endswith("--config campaign=mnist only= fresh=")
    assert calls[1] == "python -m study.campaign collect mnist", "what was trained becomes rows"
    calls = make(project, "reproduce", "CAMPAIGN=mnist", "FRESH=1")
    assert calls[0].endswith("fresh=1")
    assert calls[1] == "python -m study.campaign agree mnist ", "and is not collected"
