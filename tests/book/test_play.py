"""The figure to play with, in a real browser.

The keyboard moves it, and what it says is what gdlib computes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gdlib.calibration import inverse_beta_link

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "book" / "_static"

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>play</title>
<link rel="stylesheet" href="play.css"><div class="play" data-panels="gradient link">text</div>
<script defer src="play.js"></script></html>"""


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, in_the_browser: Callable[..., list[dict[str, Any]]]
) -> dict[str, Any]:
    """What happened to the figure on a page of its own."""
    folder = tmp_path_factory.mktemp("play")
    for name in ("play.js", "play.css"):
        shutil.copyfile(STATIC / name, folder / name)
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    (result,) = in_the_browser("play.mjs", folder / "page.html")
    return result


def test_the_console_is_silent_and_nothing_is_too_wide(played: dict[str, Any]) -> None:
    assert played["console"] == []
    assert played["over"] == {"1280": 0, "390": 0}


def test_the_keyboard_moves_the_slider_and_the_text(played: dict[str, Any]) -> None:
    betas = [played[state]["beta"] for state in ("start", "right", "end", "home")]
    assert betas == ["0.1", "0.5", "50", "0.001"]
    texts = {played[state]["text"] for state in ("start", "right", "end", "home")}
    assert len(texts) == 4
    assert played["start"]["curve"] != played["right"]["curve"]
    for state in ("start", "right", "end", "home"):
        assert played[state]["spoken"] == f"β = {played[state]['beta']}" == played[state]["label"]


def test_the_theory_is_that_of_gdlib(played: dict[str, Any]) -> None:
    for state in ("start", "right", "end", "home"):
        beta, text = float(played[state]["beta"]), played[state]["text"]
        gradient, confidence = re.findall(
            r"has the gradient (?:< )?([\d.]+);.*at a confidence of (?:> )?([\d.]+) %", text
        )[0]
        least = 0.1 / (1 + (beta - 1) * 0.9)
        assert ("gradient < 0.01;" in text) == (least < 0.005), state
        assert float(gradient) == pytest.approx(max(least, 0.01), abs=0.0051), state
        expected = inverse_beta_link(torch.tensor([0.8, 0.2], dtype=torch.float64), beta)[0].item()
        assert ("confidence of > 99.9 %" in text) == (expected > 0.9995), state
        assert float(confidence) == pytest.approx(min(100 * expected, 99.9), abs=0.051), state
