"""Figures of the losses: curves and marks are the data's, with one colour for each loss."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from study import figures

READINGS = ["cifar10, vgg16, crops and flips, 6,000 images, 20 epochs", "cifar10, vgg16, plain, 6,000 images, 20 epochs"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def runs() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "variant": reading,
                "schedule": loss,
                "seed": seed,
                "curve_epoch": [0, 2],
                "curve_train_epoch": [0, 1, 2],
                "curve_train_margin_bias": [2.1, bias + seed, bias + 0.2],
                "curve_test_margin_bias": [2.1, bias],
                "test_ece": ece + 0.01 * seed,
                "test_accuracy": 0.5 + bias / 10,
                "overconfidence": over,
            }
            for reading in READINGS
            for loss, bias, ece, over in (("softmax", 0.7, 0.02, 0.02), ("lm 0.3", 1.0, 0.04, -0.04))
            for seed in (0, 1)
        ]
    )


class TestMarginBias:
    def test_mean_over_seeds_and_upper_end(self):
        panels = figures.margin_bias(runs(), readings=READINGS, classes=10).axes
        softmax, lm, bound = panels[0].get_lines()
        np.testing.assert_allclose(softmax.get_xydata(), [[0, 2.1], [1, 1.2], [2, 0.9]])
        np.testing.assert_allclose(lm.get_ydata(), [2.1, 1.5, 1.2])
        assert [softmax.get_color(), lm.get_color()] == [figures.schedule_color("softmax"), figures.schedule_color("lm 0.3")]
        assert softmax.get_linestyle() != lm.get_linestyle()  # to be told apart without colour
        assert set(bound.get_ydata()) == {math.log(9)} and panels[0].get_ylim()[1] > math.log(9)

    def test_one_legend_and_a_title_for_each_reading(self):
        figure = figures.margin_bias(runs(), readings=READINGS, classes=10)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["softmax", "LM, λ = 0.3"]
        assert [panel.get_title().replace("\n", " ") for panel in figure.axes] == READINGS


class TestAccuracyAgainstCalibration:
    def test_marks(self):
        panel = figures.accuracy_against_calibration(runs(), readings=READINGS).axes[0]
        softmax, lm = (container[0] for container in panel.containers)
        np.testing.assert_allclose(softmax.get_xydata(), [[2.5, 57.0]])
        np.testing.assert_allclose(lm.get_xydata(), [[4.5, 60.0]])
        assert softmax.get_markerfacecolor() == softmax.get_color()  # over-confident: filled
        assert lm.get_markerfacecolor() == "white"
        assert softmax.get_marker() != lm.get_marker()

    def test_a_loss_has_one_mark_in_all_panels(self):
        table = runs()
        lacking = table[(table["variant"] == READINGS[0]) | (table["schedule"] != "softmax")]
        figure = figures.accuracy_against_calibration(lacking, readings=READINGS)
        marks = [{container.get_label(): container[0].get_marker() for container in panel.containers} for panel in figure.axes]
        assert list(marks[1]) == ["LM, λ = 0.3"] and marks[1].items() <= marks[0].items()
        assert len(figure.legends[0].get_texts()) == 2
