"""The slider of the epochs over the recorded fifths, in a real browser, with the keyboard."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from study import figures

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
EPOCHS = range(13)
BETAS = ("1", "0.1", "5")

PAGE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>fifths</title>
<style>html {{ --pst-color-text-base: #222; background: #fff;
  color: var(--pst-color-text-base) }}
html[data-theme="dark"] {{ --pst-color-text-base: #ddd; background: #121212 }}
/* of the theme */
html[data-theme="dark"] .bd-content div.cell_output .text_html:not(:has(table.dataframe)) {{
  background: var(--pst-color-text-base); color: #121212; padding: .5rem }}</style>
<link rel="stylesheet" href="fifths.css"><main class="bd-content"><h1>Fifths</h1>
<div class="cell_output"><div class="output text_html">{slider}</div></div></main>
<script defer src="fifths.js"></script></html>"""


def confidence(place: int, fifth: int, epoch: int) -> float:
    """A confidence that differs from β to β, from fifth to fifth and from epoch to epoch."""
    return 0.01 * (20 * place + 5 * fifth + 2 * epoch)


@pytest.fixture(scope="module")
def slid(
    tmp_path_factory: pytest.TempPathFactory, in_the_browser: Callable[..., list[dict[str, Any]]]
) -> dict[str, Any]:
    """What happened to the figure on a page of its own, opened from its file."""
    runs = pd.DataFrame(
        {
            "beta": float(beta),
            "epoch": epoch,
            **{f"group_confidence_{fifth}": confidence(place, fifth, epoch) for fifth in range(5)},
        }
        for place, beta in enumerate(BETAS)
        for epoch in EPOCHS
    )
    folder = tmp_path_factory.mktemp("fifths")
    for name in ("fifths.js", "fifths.css"):
        shutil.copyfile(STATIC / name, folder / name)
    page = PAGE.format(slider=figures.fifths(runs).data)
    (folder / "page.html").write_text(page, encoding="utf-8")
    (result,) = in_the_browser("fifths.mjs", folder / "page.html")
    return result


def sentence(epoch: int) -> str:
    """What is said after an epoch: the easiest and the hardest fifth of the smallest β and of 1."""
    (small, one) = (BETAS.index("0.1"), BETAS.index("1"))
    easy, hard = (
        [f"{confidence(place, fifth, epoch):.2f}" for place in (small, one)] for fifth in (4, 0)
    )
    return (
        f"After {epoch} {'epoch' if epoch == 1 else 'epochs'} the easiest fifth has the confidence "
        f"{easy[0]} with β = 0.1, and {easy[1]} with β = 1. "
        f"The hardest fifth has {hard[0]} and {hard[1]}."
    )


def test_a_file_opens_without_errors_and_nothing_is_too_wide(slid: dict[str, Any]) -> None:
    assert slid["console"] == [] and set(slid["requests"]) == {"file:"}
    assert slid["over"] == {"1280": 0, "390": 0}
    assert min(slid["height"].values()) >= 24, "a finger meets the slider"
    assert min(slid["smallest"].values()) >= 11, "pixels of the smallest letters"


def test_axe_finds_nothing_in_both_themes_and_widths(slid: dict[str, Any]) -> None:
    assert slid["axe"] == []


def test_the_keyboard_reaches_the_slider_and_both_of_its_ends(slid: dict[str, Any]) -> None:
    assert not slid["start"]["focus"] and slid["reached"]["focus"]
    assert slid["reached"]["places"] == slid["start"]["places"], "nothing moves by itself"
    epochs = {state: slid[state]["epoch"] for state in ("start", "right", "end", "home")}
    assert epochs == {"start": "2", "right": "3", "end": "12", "home": "1"}
    assert slid["beyond"] == slid["end"] and slid["before"] == slid["home"]


@pytest.mark.parametrize("state", ["start", "right", "end", "home"])
def test_each_state_is_said_and_drawn(slid: dict[str, Any], state: str) -> None:
    seen, epoch = slid[state], int(slid[state]["epoch"])
    assert seen["spoken"] == f"epoch {epoch}" and seen["label"] == f"After epoch {epoch}"
    assert seen["text"] == sentence(epoch)
    places = iter(seen["places"])
    drawn = {(fifth, place): next(places) for fifth in range(5) for place in range(len(BETAS))}
    left, right = drawn[0, 0], drawn[4, 2]
    whole = (right - left) / (confidence(2, 4, epoch) - confidence(0, 0, epoch))
    for (fifth, place), at in drawn.items():
        share = confidence(place, fifth, epoch) - confidence(0, 0, epoch)
        assert at == pytest.approx(left + whole * share, abs=0.2)
