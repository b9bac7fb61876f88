"""Figures: one colour for each β, means and bands that are the data's, and axes that the caller can give."""

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

BETAS = [0.001, 0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def runs() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "schedule": ["0.1", "0.1", "5", "warm-up 0.01→0.1"],
            "seed": [0, 1, 0, 0],
            "curve_epoch": [[0, 1, 2]] * 4,
            "curve_test_accuracy": [[0.1, 0.5, 0.9], [0.1, 0.7, 0.9], [0.1, 0.2, 0.3], [0.1, 0.4, 0.8]],
            "group_confidence": [[[0.1 * group, 0.5, 0.9] for group in range(5)]] * 4,
            "single_confidence": [[[0.1, 0.5, 0.9]] * 12] * 4,
            "points": [{"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 0.5], "label": [0, 1, 1]}] * 4,
        }
    )


class TestColors:
    def test_one_is_black_and_all_differ(self):
        colors = [figures.beta_color(beta) for beta in BETAS]
        assert colors[BETAS.index(1.0)] == "#000000"
        assert len(set(colors)) == len(BETAS)

    @given(st.floats(1e-9, 1e9))
    def test_small_is_blue_and_large_is_not(self, beta):
        red, _, blue = to_rgb(figures.beta_color(beta))
        if abs(math.log10(beta)) > 1e-6:
            assert blue > red if beta < 1 else red > blue

    def test_schedules(self):
        assert figures.schedule_color("0.1") == figures.beta_color(0.1)
        warmups = {figures.schedule_color(label) for label in ("warm-up 0.001→0.01", "warm-up 0.01→0.1")}
        assert len(warmups) == 2
        assert not warmups & {figures.beta_color(beta) for beta in BETAS}
        assert [figures.schedule_linestyle(label) for label in ("0.1", "5", "warm-up 0.01→0.1")] == ["-", "--", "-."]

    def test_losses(self):
        losses = [name for name in LOSSES if name != "gd"]
        looks = [(figures.schedule_color(f"{name} 1"), figures.schedule_linestyle(f"{name} 1")) for name in losses]
        assert len({color for color, _ in looks}) == len(losses)  # one for each, whatever its numbers
        assert figures.schedule_color("lm 0.3") == figures.schedule_color("lm 0.9")
        assert figures.schedule_color("softmax") == figures.beta_color(1.0)
        assert figures.schedule_label("label-smoothing 0.1") == "label smoothing, λ = 0.1"


class TestCurves:
    def test_mean_band_and_legend(self):
        ax = figures.curves(runs(), "test_accuracy", ylabel="accuracy")
        first = ax.get_lines()[0]
        np.testing.assert_allclose(first.get_ydata(), [0.1, 0.6, 0.9])
        assert first.get_color() == figures.beta_color(0.1)
        assert len(ax.collections) == 1  # a band only where there are several seeds
        band = ax.collections[0].get_paths()[0].vertices
        assert band[:, 1].max() == pytest.approx(0.9)
        assert np.isclose(band[:, 1], 0.6 - math.sqrt(0.02)).any()
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["β = 0.1", "β = 5", "warm-up 0.01→0.1"]

    def test_draws_where_it_is_told(self):
        _, ax = plt.subplots()
        assert figures.curves(runs(), "test_accuracy", ylabel="accuracy", ax=ax, legend=False) is ax
        assert ax.get_legend() is None


class TestPanels:
    @pytest.mark.parametrize("draw", [figures.difficulty_groups, figures.single_samples, figures.feature_planes])
    def test_a_panel_for_each_schedule_and_a_legend(self, draw):
        figure = draw(runs())
        visible = [ax.get_title() for ax in figure.axes if ax.get_visible()]
        assert visible == ["β = 0.1", "β = 5", "warm-up 0.01→0.1"]
        assert figure.legends
        figure.canvas.draw()

    @pytest.mark.parametrize("draw", [figures.difficulty_groups, figures.feature_planes])
    @pytest.mark.parametrize("asked", [["tanh-unit"], ["tanh-unit", "relu-unit"]])
    def test_one_reading_at_a_time(self, draw, asked):
        both = pd.concat([runs().assign(variant="relu-unit"), runs().assign(variant="tanh-unit")])
        titles = [ax.get_title() for ax in draw(both, readings=asked).axes if ax.get_visible()]
        schedules = ["β = 0.1", "β = 5", "warm-up 0.01→0.1"]
        if len(asked) == 1:
            assert titles == schedules
        else:
            assert sorted(titles) == sorted(f"{reading}, {label}" for reading in asked for label in schedules)

    def test_style_can_be_set_twice(self):
        with plt.rc_context():
            figures.use_style()
            figures.use_style()
            assert plt.rcParams["legend.frameon"] is False


def settings() -> pd.DataFrame:
    """Two readings with two β and two seeds; relu-unit has one seed less."""
    rows = [
        {"variant": reading, "schedule": f"{beta:g}", "beta": beta, "seed": seed, "warmup_epochs": 0, "lost": lost + seed}
        for reading, factor in (("tanh-unit", 1), ("relu-unit", 10))
        for beta, lost in ((1.0, 10.0 * factor), (0.1, 20.0 * factor))
        for seed in range(2)
    ]
    return pd.DataFrame(rows[:-1])


class TestReadings:
    def test_a_reading_has_the_style_of_its_parts_and_any_other_name_has_one_too(self):
        styles = figures.reading_styles(["tanh-unit", "tanh-none", "relu-unit", "resnet18", "vgg16"])
        assert styles["tanh-unit"]["marker"] == styles["tanh-none"]["marker"] != styles["relu-unit"]["marker"]
        assert styles["tanh-unit"]["color"] == styles["relu-unit"]["color"] != styles["tanh-none"]["color"]
        assert styles["resnet18"] != styles["vgg16"]

    def test_means_of_the_readings_beside_the_papers(self):
        printed = pd.DataFrame({"beta": [1.0, 0.1], "value": [100.0, 150.0]})
        ax = figures.against_beta(settings(), "lost", ylabel="y", readings=["tanh-unit", "relu-unit"], published=printed)
        np.testing.assert_allclose(ax.containers[0].lines[0].get_ydata(), [20.5, 10.5])
        (papers,) = [line for line in ax.get_lines() if line.get_label() == "the papers"]
        np.testing.assert_allclose(papers.get_ydata(), [150.0, 100.0])
        assert {text.get_text() for text in ax.get_legend().get_texts()} == {"tanh-unit", "relu-unit", "the papers"}

    def test_differences_have_a_panel_for_each_reading_in_the_order_asked_for(self):
        figure = figures.differences_by_reading(settings(), "lost", reference="1", readings=["tanh-unit"], xlabel="samples", columns=2)
        (panel,) = [ax for ax in figure.axes if ax.get_visible()]
        assert panel.get_title() == "tanh-unit"
        (mark,) = [line for line in panel.get_lines() if line.get_marker() == "o"]
        assert mark.get_xdata()[0] == pytest.approx(10.0)

    def test_curves_share_one_scale(self):
        both = pd.concat([runs().assign(variant="relu-unit"), runs().assign(variant="tanh-unit")])
        figure = figures.curves_by_reading(both, "test_accuracy", ylabel="accuracy", readings=["tanh-unit", "relu-unit"], ylim=(0, 2))
        panels = [ax for ax in figure.axes if ax.get_visible()]
        assert [panel.get_title() for panel in panels] == ["tanh-unit", "relu-unit"]
        assert all(panel.get_ylim() == (0, 2) for panel in panels)
