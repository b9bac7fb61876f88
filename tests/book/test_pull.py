"""The sample on the axis of its log-odds: keyboard, pointer, and the pull of gdlib's loss."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gdlib.functional import gd_cross_entropy

STATIC = Path(__file__).resolve().parents[2] / "book" / "_static"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>A sample</title>
<link rel="stylesheet" href="pull.css"><style>html[data-theme="dark"] {
background: #14181e; color: #eee } body { font: 16px sans-serif; margin: 1rem }</style>
<main><h1>A sample</h1><div class="pull">text</div></main>
<script defer src="pull.js"></script></html>"""


@pytest.fixture(scope="module")
def moved(
    tmp_path_factory: pytest.TempPathFactory, in_the_browser: Callable[..., list[dict[str, Any]]]
) -> dict[str, Any]:
    """What the figure said on a page of its own."""
    folder = tmp_path_factory.mktemp("pull")
    for name in ("pull.js", "pull.css"):
        shutil.copyfile(STATIC / name, folder / name)
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    (result,) = in_the_browser("pull.mjs", folder / "page.html")
    return result


def pull(log_odds: float, beta: float) -> float:
    """The size of the gradient in the true logit, by autograd."""
    logits = torch.tensor([[log_odds, 0.0]], dtype=torch.float64, requires_grad=True)
    gd_cross_entropy(logits, torch.tensor([0]), beta=beta).backward()
    assert logits.grad is not None
    return -logits.grad[0, 0].item()


def in_words(value: float) -> str:
    if value < 0.005:
        return "< 0.01"
    return "> 0.99" if value > 0.995 else f"{value:.2f}"


def test_it_opens_without_errors_is_narrow_enough_and_axe_finds_nothing(
    moved: dict[str, Any],
) -> None:
    assert moved["console"] == [] and moved["axe"] == []
    assert moved["over"] == {"1280": 0, "390": 0}


def test_the_keyboard_and_the_pointer_move_it(moved: dict[str, Any]) -> None:
    places = [(said["beta"], said["odds"]) for said in moved["said"]]
    assert places[:4] == [("0.1", "2.2"), ("0.001", "2.2"), ("0.001", "8.0"), ("20", "8.0")]
    assert places[4][0] == "20"
    assert float(places[4][1].replace("−", "-")) == pytest.approx(-4, abs=0.11)


def test_it_pulls_as_the_loss_does(moved: dict[str, Any]) -> None:
    for said in moved["said"]:
        beta, log_odds = float(said["beta"]), float(said["odds"].replace("−", "-"))
        expected = pull(log_odds, beta)
        probability = 1 / (1 + math.exp(-log_odds))
        text = said["text"]
        assert f"has the probability {in_words(probability)}." in text
        assert f"the sample pulls with {in_words(expected)};" in text
        assert f"with β = 1 it would pull with {in_words(pull(log_odds, 1))}." in text
        (flag,) = re.findall(r"The flag stands at (−?[\d.]+)\.$", text)
        assert float(flag.replace("−", "-")) == pytest.approx(-math.log(beta), abs=0.051)
        assert pull(-math.log(beta), beta) == pytest.approx(0.5)
        length = said["arrow"] / (said["width"] - 20) * 18  # in log-odds
        assert length == pytest.approx(4.5 * expected, abs=0.02)
