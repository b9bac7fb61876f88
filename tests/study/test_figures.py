"""Figures: one colour for each β and each loss, and differences that are the data's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from study import figures
from study.losses import LOSSES
from study.methods import method_name

BETAS = [0.001, 0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def color(label: str) -> str:
    return figures.schedule_style(label)["color"]


class TestColors:
    def test_every_beta_warm_up_and_loss_has_its_own(self):
        colors = [figures.beta_color(beta) for beta in BETAS]
        assert colors[BETAS.index(1.0)] == "#000000" and len(set(colors)) == len(BETAS)
        assert color("0.1") == figures.beta_color(0.1)
        warmups = {color(label) for label in ("warm-up 0.001→0.01", "warm-up 0.01→0.1")}
        assert len(warmups) == 2 and not warmups & set(colors)
        assert [
            figures.schedule_style(label)["linestyle"] for label in ("0.1", "5", "warm-up 0.01→0.1")
        ] == ["-", "--", "-."]
        losses = [name for name in LOSSES if name != "gd"]
        assert len({color(name) for name in losses}) == len(losses)  # whatever its numbers
        assert color("lm 0.3") == color("lm 0.9")
        assert color("softmax") == figures.beta_color(1.0)
        assert method_name("label-smoothing 0.1") == "label smoothing, λ = 0.1"

    @given(st.floats(1e-9, 1e9))
    def test_small_is_blue_and_large_is_not(self, beta):
        red, _, blue = to_rgb(figures.beta_color(beta))
        if abs(math.log10(beta)) > 1e-6:
            assert blue > red if beta < 1 else red > blue

    def test_an_order_has_colours_that_can_be_read_on_white(self):
        for count in (1, 5, 12):
            colors = figures.order_colors(count)
            assert len(set(colors)) == count
            for one in colors:
                light = sum(
                    weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
                    for weight, part in zip((0.2126, 0.7152, 0.0722), to_rgb(one), strict=True)
                )
                assert 1.05 / (light + 0.05) > 2.5, "beside white"


def names(figure) -> list[str]:
    """What the legend of a figure says."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def differences(*betas: float) -> pd.DataFrame:
    """Two variants: the first is ahead, the second not measurably."""
    return pd.DataFrame(
        {"variant": variant, "beta": beta, "difference": 0.01, "low": low, "high": 0.02}
        for variant, low in (("ReLU", 0.005), ("tanh", -0.005))
        for beta in betas
    )


class TestDots:
    def test_the_name_of_a_variant_stands_above_its_dots(self):
        figure = figures.dots(differences(0.1, 5.0), xlabel="points", scale=100)
        (axes,) = figure.axes
        heights = {text.get_text(): text.xy[1] for text in axes.texts}
        dots = [bar.lines[0].get_ydata()[0] for bar in axes.containers]
        above, below = sorted(dots)[:2], sorted(dots)[2:]
        assert heights["ReLU"] < min(above) < max(above) < heights["tanh"] < min(below)
        assert names(figure) == ["β = 5", "β = 0.1"]

    def test_it_is_pale_where_the_interval_includes_0(self):
        (axes,) = figures.dots(differences(0.1), xlabel="points", scale=100).axes
        ahead, level = (bar.lines[0] for bar in axes.containers)
        assert (ahead.get_xdata()[0], ahead.get_alpha(), level.get_alpha()) == (1, 1, figures.PALE)

    def test_ends_that_are_close_have_labels_that_are_not(self):
        _, axes = plt.subplots()
        colors = {"a": "#111111", "b": "#222222", "c": "#333333"}
        for height, color in zip((0.97, 0.98, 0.99), colors.values(), strict=True):
            axes.plot([0, 1], [0, height], color=color)
        axes.plot([0, 1], [0, 0.5], color="#444444")  # has no name
        axes.set_ylim(0, 1)
        figures.label_ends(axes, colors)
        found = {text.get_text(): text.xy for text in axes.texts}
        assert set(found) == set(colors) and all(x == 1 for x, _ in found.values())
        heights = [found[name][1] for name in "abc"]
        assert np.diff(heights).min() > 0.08 and heights[-1] <= 1
