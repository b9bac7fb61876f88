"""Figures of calibration: what is drawn is what the records say, and an empty table gives a figure that says so."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from gdlib.calibration import calibration_bins
from study import figures, statistics

READING = "cifar10-jpeg, resnet18×0.25, plain"


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def bins(seed: int, samples: int = 400) -> dict:
    """The bins of random predictions of three classes, as a record holds them."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet((0.4, 0.4, 0.4), samples)
    columns = calibration_bins(probabilities, generator.integers(3, size=samples)).to_dict()
    return {name: columns[name] for name in ("upper", "count", "confidence", "accuracy")}


def runs(readings=(READING,), dataset="cifar10-jpeg", seeds=3) -> pd.DataFrame:
    rows = []
    for place, reading in enumerate(readings):
        for seed in range(seeds):
            for beta in (20.0, 1.0, 0.1):
                base = 0.9 - 0.01 * beta + 0.001 * seed + 0.1 * place
                ece = {"test_ece": 0.1 + 0.01 * seed, "test_ece_temperature": 0.02, "test_ece_vector": 0.03, "test_ece_link": 0.05}
                own = {"variant": reading, "dataset": dataset, "seed": seed, "beta": beta, "schedule": f"{beta:g}", "warmup_epochs": 0}
                rows.append(own | ece | {"test_accuracy": base, "overconfidence": -0.01 * beta, "reliability": bins(seed)})
            rows.append(rows[-1] | {"schedule": "warm-up 0.1→1", "beta": 1.0, "warmup_epochs": 10, "test_accuracy": 5.0})
    return pd.DataFrame(rows)


OUTCOMES = {"overconfidence": ("over", 100, None), "test_ece": ("ECE", 100, None), "test_accuracy": ("accuracy", 100, "difference")}


class TestOutcomes:
    def test_means_intervals_and_differences_without_warm_ups(self):
        figure = figures.outcomes_against_beta(runs(), OUTCOMES)
        over, ece, accuracy, unused = figure.axes
        assert not unused.get_visible()
        np.testing.assert_allclose(over.containers[0].lines[0].get_ydata(), [-0.1, -1.0, -20.0])
        np.testing.assert_allclose(accuracy.containers[0].lines[0].get_ydata(), [0.9, 0.0, -19.0], atol=1e-9)
        (bars,) = ece.containers[0].lines[2]
        expected = statistics.t_interval([10.0, 11.0, 12.0])
        np.testing.assert_allclose(bars.get_segments()[0][:, 1], [expected.low, expected.high])

    def test_one_column_for_each_data_set_and_the_papers_only_where_they_belong(self):
        both = pd.concat([runs(), runs(["tiny-imagenet, resnet18×0.25, plain"], "tiny-imagenet")])
        printed = pd.DataFrame(
            {
                "paper": "GD-2",
                "dataset": "Tiny-ImageNet",
                "model": "ResNet34",
                "outcome": "test_ece",
                "beta": [1.0, 20.0],
                "value": [0.087, 0.015],
            }
        )
        figure = figures.outcomes_against_beta(both, OUTCOMES, printed=printed)
        assert [panel.get_title() for panel in figure.axes[:2]] == ["CIFAR-10", "Tiny-ImageNet"]
        drawn = [[line for line in panel.get_lines() if line.get_label() == "GD-2, ResNet34"] for panel in figure.axes]
        assert [len(lines) for lines in drawn] == [0, 0, 0, 1, 0, 0]
        np.testing.assert_allclose(drawn[3][0].get_ydata(), [8.7, 1.5])
        names = [text.get_text() for text in figure.legends[0].get_texts()]
        assert len(names) == len(set(names)) == 3

    def test_a_reading_without_beta_one_has_no_difference(self):
        table = runs()
        figure = figures.outcomes_against_beta(table[table["beta"] != 1.0], OUTCOMES)
        assert len(figure.axes[2].containers[0].lines[0].get_ydata()) == 0

    def test_seeds_may_be_missing_and_one_seed_has_no_interval(self):
        table = runs()
        figure = figures.outcomes_against_beta(table[(table["beta"] == 1.0) | (table["seed"] == 0)], OUTCOMES)
        (bars,) = figure.axes[1].containers[0].lines[2]
        lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        assert lengths[0] == lengths[2] == 0 < lengths[1]


class TestReliability:
    def test_seeds_are_pooled_and_the_counts_are_of_one_test_set(self):
        figure = figures.reliability_diagrams(runs(), readings=[READING], schedules=["20", "0.1"])
        assert len(figure.axes) == 4
        histogram, diagram = figure.axes[:2]
        each = [bins(seed) for seed in range(3)]
        count = np.sum([columns["count"] for columns in each], axis=0)
        heights = [patch.get_height() for patch in histogram.patches]
        np.testing.assert_allclose(heights, 100 * count / count.sum())
        right = np.sum([np.array(columns["count"]) * np.nan_to_num(np.array(columns["accuracy"], float)) for columns in each], axis=0)
        found = count > 0
        np.testing.assert_allclose([patch.get_height() for patch in diagram.patches[: found.sum()]], (right / np.maximum(count, 1))[found])
        numbers = [text.get_text() for text in histogram.texts]
        assert numbers == [f"{number / 3:,.0f}" for number in count[found]]
        (bars,) = diagram.containers[-1].lines[2]
        low, high = statistics.wilson_interval(right[found] / 3, count[found] / 3)
        np.testing.assert_allclose([segment[:, 1] for segment in bars.get_segments()], np.stack([low, high], 1), atol=1e-12)

    def test_the_two_lines_are_accuracy_and_confidence(self):
        histogram = figures.reliability_diagrams(runs(seeds=1), readings=[READING], schedules=["1"]).axes[0]
        own = {name: np.array(column, float) for name, column in bins(0).items()}
        means = [np.nansum(own["count"] * own[name]) / own["count"].sum() for name in ("accuracy", "confidence")]
        np.testing.assert_allclose([line.get_xdata()[0] for line in histogram.get_lines()], means)

    def test_a_setting_that_is_missing_leaves_its_place_empty(self):
        table = runs([READING, "other"])
        table = table[(table["variant"] == READING) | (table["schedule"] == "20")]
        figure = figures.reliability_diagrams(table, readings=[READING, "other"], schedules=["20", "0.1"])
        assert [panel.get_visible() for panel in figure.axes] == [True] * 5 + [False, True, False]


class TestPostHoc:
    def test_a_line_for_each_method_that_the_runs_have(self):
        table = runs([READING, "other"])
        table.loc[table["variant"] == "other", "test_ece_vector"] = np.nan
        figure = figures.post_hoc(table, "test_ece", ylabel="ECE (%)", readings=[READING, "other"], scale=100)
        first, second = figure.axes
        assert first.get_legend_handles_labels()[1] == ["as trained", "β link", "temperature scaling", "vector scaling"]
        assert second.get_legend_handles_labels()[1] == ["as trained", "β link", "temperature scaling"]
        np.testing.assert_allclose(first.containers[1].lines[0].get_ydata(), [5.0, 5.0, 5.0])


class TestOscillation:
    def test_a_line_for_each_seed_and_grey_where_nothing_is_counted(self):
        rows = [
            {"variant": READING, "arm": variant, "schedule": beta, "seed": seed, "milestones": [], "epochs": 20}
            | {"curve_epoch": list(range(21)), "curve_test_accuracy": [0.01 * epoch + 0.001 * seed for epoch in range(21)]}
            for variant in ("momentum 0.9", "no momentum")
            for beta in ("5", "0.1")
            for seed in range(2)
        ]
        variants = ["momentum 0.9", "no momentum", "no momentum, ten times the learning rate"]
        figure = figures.oscillation_curves(pd.DataFrame(rows), variants=variants, schedules=["5", "0.1"])
        assert [panel.get_title() for panel in figure.axes] == ["momentum 0.9", "no momentum"]
        assert [len(panel.get_lines()) for panel in figure.axes] == [4, 4]
        assert figure.axes[0].patches[0].get_width() == 10
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["β = 5", "β = 0.1"]


def test_without_runs_a_figure_says_so():
    empty = pd.DataFrame()
    for figure in (
        figures.outcomes_against_beta(empty, OUTCOMES),
        figures.reliability_diagrams(empty, readings=[], schedules=[]),
        figures.post_hoc(empty, "test_ece", ylabel="", readings=[]),
        figures.oscillation_curves(empty, variants=[], schedules=[]),
    ):
        assert [text.get_text() for text in figure.axes[0].texts] == ["not run yet"]


def test_differences_leave_a_row_empty_for_a_schedule_that_a_reading_lacks():
    table = runs([READING, "other"])
    table = table[~((table["variant"] == "other") & (table["schedule"] == "20"))]
    figure = figures.differences_by_reading(table, "test_accuracy", reference="1", readings=[READING, "other"], xlabel="points")
    marks = [[line.get_xdata()[0] for line in panel.get_lines() if line.get_marker() == "o"] for panel in figure.axes]
    assert not np.isnan(marks[0]).any()
    assert np.isnan(marks[1]).tolist() == [True, False, False]
