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


DIFFERENCES = pd.DataFrame(
    {
        "variant": ["plain", "plain", "crops and flips"],
        "beta": [0.1, 5.0, 0.1],
        "difference": [0.02, -0.01, 0.001],
        "low": [0.01, -0.02, -0.001],
        "high": [0.03, 0.0, 0.004],
    }
)


class TestDots:
    def test_a_row_for_each_variant_and_a_colour_for_each_beta(self) -> None:
        (axes,) = figures.dots(DIFFERENCES, xlabel="points", scale=100).axes
        assert [label.get_text() for label in axes.get_yticklabels()] == [
            "plain",
            "crops and flips",
        ]
        first, pale, other = axes.containers
        middles = {round(float(bars[0].get_xdata()[0]), 6) for bars in axes.containers}
        assert middles == {2.0, -1.0, 0.1}
        assert first[0].get_color() == pale[0].get_color() == figures.beta_color(0.1)
        assert other[0].get_color() == figures.beta_color(5)
        (segment,) = first[2][0].get_segments()
        np.testing.assert_allclose(segment[:, 0], [1.0, 3.0])
        assert axes.get_ylim()[0] > axes.get_ylim()[1], "the first variant is at the top"

    def test_what_includes_0_is_pale(self) -> None:
        (axes,) = figures.dots(DIFFERENCES, xlabel="points", scale=100).axes
        assert [bars[0].get_alpha() for bars in axes.containers] == [1.0, 0.3, 0.3]

    def test_small_differences_stand_on_a_linear_axis(self) -> None:
        (axes,) = figures.dots(DIFFERENCES, xlabel="", scale=100).axes
        assert axes.get_xscale() == "symlog"
        (axes,) = figures.dots(DIFFERENCES, xlabel="", scale=100, linear=4).axes
        assert axes.get_xscale() == "linear"

    def test_losses_are_named_in_a_legend(self) -> None:
        table = DIFFERENCES.assign(loss=["arcgrad 10", "lm 0.3", "arcgrad 10"])
        figure = figures.dots(table, xlabel="points", by="loss")
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == [
            "ArcGrad, s = 10",
            "LM, λ = 0.3",
        ]
        assert figure.axes[0].containers[0][0].get_color() == color("arcgrad 10")
