"""Figures.

There is one colour for each β and each loss; means, bands and intervals are the data's; a figure
without runs says so.
"""

from __future__ import annotations

import math

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
SCHEDULES = ["β = 0.1", "β = 5", "warm-up 0.01→0.1"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def names(figure) -> list[str]:
    """What the legend of a figure says."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def titles(figure) -> list[str]:
    return [ax.get_title().replace("\n", " ") for ax in figure.axes if ax.get_visible()]


# --- colours ---


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


# --- curves and panels ---


def followed(*variants: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "variant": variant,
            "schedule": ["0.1", "0.1", "5", "warm-up 0.01→0.1"],
            "seed": [0, 1, 0, 0],
            "curve_epoch": [[0, 1, 2]] * 4,
            "curve_test_accuracy": [
                [0.1, 0.5, 0.9],
                [0.1, 0.7, 0.9],
                [0.1, 0.2, 0.3],
                [0.1, 0.4, 0.8],
            ],
        }
        for variant in variants
    ).pipe(
        lambda table: table.explode(
            [name for name in table if name != "variant"], ignore_index=True
        )
    )


class TestCurves:
    def test_mean_band_and_legend(self):
        figure = figures.curves(followed("a"), "test_accuracy", ylabel="accuracy")
        (ax,) = figure.axes
        first = ax.get_lines()[0]
        np.testing.assert_allclose(first.get_ydata(), [0.1, 0.6, 0.9])
        assert first.get_color() == figures.beta_color(0.1)
        (band,) = ax.collections  # only where there are several seeds
        corners = band.get_paths()[0].vertices
        assert (
            corners[:, 1].max() == pytest.approx(0.9)
            and np.isclose(corners[:, 1], 0.6 - math.sqrt(0.02)).any()
        )
        assert names(figure) == SCHEDULES

    def test_panels_share_one_scale_and_every_seed_can_have_its_line(self):
        figure = figures.curves(
            followed("a", "b"),
            "test_accuracy",
            ylabel="accuracy",
            panel="variant",
            ylim=(0, 2),
            each=True,
        )
        assert titles(figure) == ["a", "b"] and all(ax.get_ylim() == (0, 2) for ax in figure.axes)
        assert [len(ax.get_lines()) for ax in figure.axes] == [4, 4] and names(figure) == SCHEDULES

    def test_what_is_measured_on_the_training_set_has_its_own_epochs(self):
        rows = [
            {"variant": variant, "schedule": loss, "seed": seed, "curve_train_epoch": [0, 1, 2]}
            | {"curve_train_margin_bias": [2.1, bias + seed, bias + 0.2]}
            for variant in ("a", "b")
            for loss, bias in (("softmax", 0.7), ("lm 0.3", 1.0))
            for seed in (0, 1)
        ]
        figure = figures.curves(
            pd.DataFrame(rows), "train_margin_bias", x="train_epoch", ylabel="bias", panel="variant"
        )
        softmax, lm = figure.axes[0].get_lines()
        np.testing.assert_allclose(softmax.get_xydata(), [[0, 2.1], [1, 1.2], [2, 0.9]])
        np.testing.assert_allclose(lm.get_ydata(), [2.1, 1.5, 1.2])
        assert [softmax.get_color(), lm.get_color()] == [color("softmax"), color("lm 0.3")]
        assert softmax.get_linestyle() != lm.get_linestyle()  # to be told apart without colour
        assert names(figure) == ["softmax", "LM, λ = 0.3"] and titles(figure) == ["a", "b"]

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


def test_without_runs_a_figure_says_so():
    figure = figures.curves(pd.DataFrame(), "test_accuracy", ylabel="")
    assert [text.get_text() for text in figure.axes[0].texts] == ["not run yet"]
