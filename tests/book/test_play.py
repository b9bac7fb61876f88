"""The figure to play with, in a real browser.

The keyboard moves it, and what it says is what gdlib computes and the records hold.
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
from study.tables.measured import element

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "book" / "_static"

VARIANTS = [
    {
        "name": "made up <one>",
        "note": "a network",
        "seeds": 3,
        "accuracy": 91.25,
        "beta": [0.01, 0.1, 1, 5],
        "gain": [[-0.5, -1, 0], [1.25, 0.5, 2], [0, 0, 0], None],
        "ece": [9.5, 7.25, 2, 3],
        "link": [None, 1.5, 2, 2.5],
        "temperature": [None, 1.75, 1.25, 1.5],
    },
    {
        "name": "made up two",
        "note": "another network",
        "seeds": 5,
        "accuracy": 50,
        "beta": [0.1, 1],
        "gain": [[3, 2, 4], [0, 0, 0]],
        "ece": [20, 10],
        "link": [None, None],
        "temperature": [None, None],
    },
]
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>play</title>
<link rel="stylesheet" href="play.css"><div class="cell">{play}</div>
<figure id="fig-play"><a href="x.png"><img alt="still" class="for-wide-screens" src="data:,"></a>
<a href="y.png"><img alt="still" class="for-phones" src="data:,"></a></figure>
<div class="play" data-panels="link">text</div><script defer src="play.js"></script></html>"""


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, in_the_browser: Callable[..., list[dict[str, Any]]]
) -> dict[str, Any]:
    """What happened to the figure on a page of its own."""
    folder = tmp_path_factory.mktemp("play")
    for name in ("play.js", "play.css"):
        shutil.copyfile(STATIC / name, folder / name)
    (folder / "page.html").write_text(PAGE.format(play=element(VARIANTS).data), encoding="utf-8")
    (result,) = in_the_browser("play.mjs", folder / "page.html")
    return result


def test_the_console_is_silent_and_nothing_is_too_wide(played: dict[str, Any]) -> None:
    assert played["console"] == []
    assert played["over"] == {"1280": 0, "390": 0}


def test_the_keyboard_moves_the_slider_and_the_text(played: dict[str, Any]) -> None:
    betas = [played[state]["beta"] for state in ("start", "right", "end", "home")]
    assert betas == ["0.1", "0.5", "50", "0.001"]
    texts = {played[state]["text"] for state in ("start", "right", "end", "home", "other")}
    assert len(texts) == 5
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


def test_measured_numbers_are_those_of_the_nearest_measured_beta(played: dict[str, Any]) -> None:
    start, right, end, home = (played[state]["text"] for state in ("start", "right", "end", "home"))
    assert (
        "Measured at β = 0.1 on made up <one> (a network, 3 seeds): "
        "test accuracy +1.25 points [+0.50, +2.00] against β = 1" in start
    )
    assert (
        "calibration error 7.3 %, 1.5 % after the link, 1.8 % after a fitted temperature." in start
    )
    assert (
        "Measured at β = 1, the nearest measured β, on made up <one> (a network, 3 seeds): "
        "test accuracy 91.25 %;" in right
    )
    assert "Measured at β = 5" in end and "points" not in end, "accuracy was not compared there"
    assert (
        "test accuracy −0.50 points [−1.00, 0.00]" in home
        and "the link was not recorded here" in home
    )
    assert (
        "Measured at β = 0.1, the nearest measured β, on made up two (another network, 5 seeds): "
        "test accuracy +3.00" in played["other"]["text"]
    )


def test_what_is_measured_and_chosen_is_drawn(played: dict[str, Any]) -> None:
    assert [played[state]["chosen"] for state in ("start", "end", "home")] == [1, 0, 1]
    assert played["start"]["diamonds"] == 3 and played["other"]["diamonds"] == 0
    assert played["start"]["smallest"] >= 11


def test_it_takes_the_place_of_both_pictures_and_is_small_elsewhere(played: dict[str, Any]) -> None:
    assert played["still"] == 0 and played["small"] == 1


def test_it_is_quick(played: dict[str, Any]) -> None:
    assert played["milliseconds"] < 60, (
        "an update with a layout; the bound leaves room for a busy machine"
    )


def test_without_a_script_the_picture_stays_and_the_data_do_not_show() -> None:
    shown = element([VARIANTS[0] | {"name": "</script><b>"}]).data
    assert shown.count("</script>") == 1 and shown.endswith("</script></div>")
