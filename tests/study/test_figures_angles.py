"""ArcGrad's figures on images: what is drawn is what the runs say."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from study import figures

EDGES = [math.pi * edge / 4 for edge in range(5)]  # four bins of 45 degrees


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def runs() -> pd.DataFrame:
    rows = []
    for loss, lead in (("softmax", 0.0), ("arcgrad 10", 0.05)):
        for samples in (600, 6000):
            for seed in range(3):
                accuracy = 0.7 + lead + 0.1 * (samples > 600) + 0.01 * seed
                counts = [[0, 5, 5, 0], [10, 0, 0, 0]] if lead else [[0, 5, 5, 0], [0, 10, 0, 0]]
                own = {"schedule": loss, "seed": seed, "samples": samples, "epochs": 20, "test_accuracy": accuracy}
                rows.append(own | {"target_angle_epochs": [0, 4], "target_angle_counts": counts})
    return pd.DataFrame(rows)


class TestAgainstAmount:
    def test_means_bars_and_ticks(self):
        ax = figures.accuracy_against_amount(runs(), "samples", legend=True, ax=plt.subplots()[1])
        softmax, arcgrad = ax.containers
        np.testing.assert_allclose(np.asarray(softmax.lines[0].get_ydata(), dtype=float), [71.0, 81.0])
        np.testing.assert_allclose(np.asarray(arcgrad.lines[0].get_ydata(), dtype=float), [76.0, 86.0])
        np.testing.assert_allclose(softmax.lines[0].get_xdata(), [600, 6000], rtol=0.01)
        low, high = (np.asarray(line.get_ydata(), dtype=float) for line in softmax.lines[1])
        np.testing.assert_allclose(high - low, [2.0, 2.0])  # one standard deviation to either side
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["600", "6\u2009000"]
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["softmax", "ArcGrad, s = 10"]
        assert arcgrad.lines[0].get_color() == figures.schedule_color("arcgrad 10")

    def test_epochs_in_axes_of_the_caller(self):
        _, given = plt.subplots()
        ax = figures.accuracy_against_amount(runs()[runs()["samples"] == 600], "epochs", legend=False, ax=given)
        assert ax is given and ax.get_xlabel() == "epochs" and ax.get_legend() is None


class TestSlices:
    def test_a_panel_for_each_loss_and_a_slice_for_each_epoch(self):
        figure = figures.angle_slices(runs()[runs()["samples"] == 600], losses=["softmax", "arcgrad 10"], edges=EDGES)
        softmax, arcgrad = (panel for panel in figure.axes if panel.get_visible())
        assert [softmax.get_title(), arcgrad.get_title()] == ["softmax", "ArcGrad, s = 10"]
        assert [tick.get_text() for tick in softmax.get_yticklabels()] == ["0", "4"]
        filled = [patch for patch in arcgrad.patches if patch.get_fill()]
        assert len(filled) == 2
        first, last = (patch.get_data() for patch in filled)
        heights = [data.values - data.baseline for data in (first, last)]
        np.testing.assert_allclose(heights[0] / heights[1].max(), [0, 0.5, 0.5, 0])  # shares, on one scale
        np.testing.assert_allclose(last.edges, [0, 45, 90, 135, 180])
        assert (first.baseline, last.baseline) == (1, 0)  # the first epoch is at the top
        assert filled[0].get_alpha() > filled[1].get_alpha()

    def test_the_mark_is_the_median(self):
        figure = figures.angle_slices(runs(), losses=["arcgrad 10"], edges=EDGES)
        marks = [float(line.get_xdata()[0]) for line in figure.axes[0].lines]
        assert sorted(set(marks)) == [22.5, 90.0]
