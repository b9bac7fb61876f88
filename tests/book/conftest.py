"""Chromium for the tests that look at the book with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BROWSER = Path(__file__).parent / "browser"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def in_the_browser() -> Callable[..., list[dict[str, Any]]]:
    """Run a script of the folder `browser`; returns its lines of JSON.

    Skips where something is not installed.
    """

    def run(script: str, *arguments: object, timeout: int = 300) -> list[dict[str, Any]]:
        chromium = next((path for name in NAMES if (path := shutil.which(name))), None)
        there = {
            "Chromium": chromium,
            "node": shutil.which("node"),
            "puppeteer-core and axe-core (make browser)": (BROWSER / "node_modules").is_dir(),
        }
        if missing := [name for name, found in there.items() if not found]:
            pytest.skip(f"nothing was looked at in a browser; missing: {', '.join(missing)}")
        flags = [str(argument) for argument in arguments if str(argument).startswith("--")]
        others = [str(argument) for argument in arguments if not str(argument).startswith("--")]
        command = ["node", str(BROWSER / script), *flags, str(chromium), *others]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run
