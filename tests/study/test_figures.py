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

from gdlib.calibration import calibration_bins
from study import figures, records, statistics, tables
from study.losses import LOSSES
from study.methods import Method, method_name

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

    def test_a_variant_has_the_style_of_its_parts_and_any_other_name_has_one_that_is_not_a_betas(
        self,
    ):
        unit, raw, relu, first, second, loss = figures.variant_styles(
            [
                "tanh, pixels 0 to 1",
                "tanh, pixels 0 to 255",
                "ReLU, pixels 0 to 1",
                "CIFAR-10, unaugmented",
                "CIFAR-100",
                "arcgrad 10",
            ]
        ).values()
        assert (
            unit["marker"] == raw["marker"] != relu["marker"]
            and unit["color"] == relu["color"] != raw["color"]
        )
        assert first != second and loss["color"] == color("arcgrad 10")
        for style in (unit, raw, first, second):
            red, green, blue = to_rgb(style["color"])
            assert not blue > 1.3 * max(red, green) and not (red > 1.3 * green > 1.3 * blue), (
                "blue and orange are for β"
            )


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
            "group_confidence": [[[0.1 * group, 0.5, 0.9] for group in range(5)]] * 4,
            "single_confidence": [[[0.1, 0.5, 0.9]] * 12] * 4,
            "points": [{"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 0.5], "label": [0, 1, 1]}] * 4,
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


# --- outcomes against beta ---


def bins(seed: int) -> dict:
    """The bins of random predictions of three classes, as a record holds them."""
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet((0.4, 0.4, 0.4), 400)
    columns = calibration_bins(probabilities, generator.integers(3, size=400)).to_dict()
    return {name: columns[name] for name in ("upper", "count", "confidence", "accuracy")}


def runs(variants=("plain",), dataset="cifar10-jpeg") -> pd.DataFrame:
    rows = []
    for place, variant in enumerate(variants):
        for seed in range(3):
            for beta in (20.0, 1.0, 0.1):
                base = 0.9 - 0.01 * beta + 0.001 * seed + 0.1 * place
                ece = {
                    "test_ece": 0.1 + 0.01 * seed,
                    "test_ece_temperature": 0.02,
                    "test_ece_vector": 0.03,
                    "test_ece_link": 0.05,
                }
                own = {
                    "variant": variant,
                    "dataset": dataset,
                    "seed": seed,
                    "beta": beta,
                    "schedule": f"{beta:g}",
                    "warmup_epochs": 0,
                }
                rows.append(
                    own
                    | ece
                    | {
                        "test_accuracy": base,
                        "overconfidence": -0.01 * beta,
                        "reliability": bins(seed),
                    }
                )
            rows.append(
                rows[-1]
                | {
                    "schedule": "warm-up 0.1→1",
                    "beta": 1.0,
                    "warmup_epochs": 10,
                    "test_accuracy": 5.0,
                }
            )
    return pd.DataFrame(rows)


OUTCOMES = {
    "overconfidence": ("over", 100, None),
    "test_ece": ("ECE", 100, None),
    "test_accuracy": ("accuracy", 100, "difference"),
}


class TestAgainst:
    def test_means_intervals_and_differences_without_warm_ups(self):
        over, ece, accuracy, unused = figures.against(runs(), OUTCOMES).axes
        assert not unused.get_visible()
        np.testing.assert_allclose(over.containers[0].lines[0].get_ydata(), [-0.1, -1.0, -20.0])
        np.testing.assert_allclose(
            accuracy.containers[0].lines[0].get_ydata(), [0.9, 0.0, -19.0], atol=1e-9
        )
        (bars,) = ece.containers[0].lines[2]
        expected = statistics.t_interval([10.0, 11.0, 12.0])
        np.testing.assert_allclose(bars.get_segments()[0][:, 1], [expected.low, expected.high])

    def test_a_panel_for_each_data_set_and_the_papers_only_where_they_belong(self):
        both = pd.concat(
            [runs().assign(data="CIFAR-10"), runs(["tiny"], "tiny-imagenet").assign(data="Tiny")]
        )
        printed = {
            "paper": "GD-2",
            "dataset": "Tiny-ImageNet",
            "model": "ResNet34",
            "metric": "test_ece",
        }
        papers = pd.DataFrame(
            [
                printed | {"condition": "", "method": Method.parse(name), "value": value}
                for name, value in ((20.0, 0.015), (1.0, 0.087), ("warm-up 0.1→1", 1))
                for table in (2, 5)  # a network may stand in two
            ]
        )
        figure = figures.against(both, OUTCOMES, panel="data", papers=papers)
        assert [ax.get_title() for ax in figure.axes[:2]] == ["CIFAR-10", "Tiny"]
        drawn = [
            [line for line in ax.get_lines() if line.get_label() == "GD-2"] for ax in figure.axes
        ]
        assert [len(lines) for lines in drawn] == [0, 0, 0, 1, 0, 0]
        np.testing.assert_allclose(drawn[3][0].get_xydata(), [[1, 8.7], [20, 1.5]])
        assert sorted(names(figure)) == ["GD-2", "plain", "tiny"]

    def test_a_variant_without_beta_one_has_no_difference_and_one_seed_no_interval(self):
        table = runs()
        figure = figures.against(table[table["beta"] != 1.0], OUTCOMES)
        assert len(figure.axes[2].containers[0].lines[0].get_ydata()) == 0
        figure = figures.against(table[(table["beta"] == 1.0) | (table["seed"] == 0)], OUTCOMES)
        (bars,) = figure.axes[1].containers[0].lines[2]
        lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        assert lengths[0] == lengths[2] == 0 < lengths[1]

    def test_another_axis_and_a_line_for_each_loss(self):
        rows = [
            {
                "schedule": loss,
                "seed": seed,
                "samples": samples,
                "test_accuracy": accuracy + 0.01 * seed,
            }
            for loss, lead in (("softmax", 0.7), ("arcgrad 10", 0.75))
            for samples, accuracy in ((600, lead), (6000, lead + 0.1))
            for seed in range(3)
        ]
        figure = figures.against(
            pd.DataFrame(rows), {"test_accuracy": ("%", 100, "log")}, x="samples", line="schedule"
        )
        softmax, arcgrad = figure.axes[0].containers
        np.testing.assert_allclose(softmax.lines[0].get_xydata(), [[600, 71], [6000, 81]])
        np.testing.assert_allclose(arcgrad.lines[0].get_ydata(), [76.0, 86.0])
        assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == [
            "600",
            "6\u2009000",
        ]
        assert figure.axes[0].get_xlabel() == "samples" and figure.axes[0].get_yscale() == "log"
        assert names(figure) == ["softmax", "ArcGrad, s = 10"] and arcgrad.lines[
            0
        ].get_color() == color("arcgrad 10")

    def test_an_axis_may_begin_at_0(self):
        """It is linear then, and 0 has its label."""
        rows = [
            {"schedule": "1", "seed": seed, "wrong": wrong, "test_accuracy": 0.9 - wrong / 100}
            for wrong in (0.0, 9.0, 17.2, 60.0)
            for seed in range(3)
        ]
        how = {"test_accuracy": ("%", 100, None)}
        (ax,) = figures.against(pd.DataFrame(rows), how, x="wrong", line="schedule").axes
        assert ax.get_xscale() == "linear"
        labels = [tick.get_text() for tick in ax.get_xticklabels()]
        assert labels == ["0", "9", "17.2", "60"]

    def test_differences_have_a_panel_for_each_variant_and_an_empty_row_for_a_lacking_schedule(
        self,
    ):
        table = runs(["other", "plain"])
        table = table[~((table["variant"] == "other") & (table["schedule"] == "20"))]
        figure = table = table.assign(method=records.methods(table))
        figure = figures.beside(tables.leads(table, "overconfidence", "1"), xlabel="points")
        assert titles(figure) == ["other", "plain"] and not figure.legends
        marks = [
            {bars.get_label(): bars[0].get_xydata() for bars in ax.containers} for ax in figure.axes
        ]
        assert (
            list(marks[0]) == ["0.1", "warm-up 0.1→1"]
            and [tick.get_text() for tick in figure.axes[0].get_yticklabels()][2] == "β = 20"
        )
        np.testing.assert_allclose(
            marks[1]["20"], [[np.nan, 0], [np.nan, -1], [-19, -2]], atol=1e-9
        )
        assert figure.axes[0].containers[0][0].get_color() == figures.beta_color(0.1)

    def test_a_papers_numbers_stand_beside_ours(self):
        rows = [
            ("p", "softmax", "paper", 1.0, math.nan),
            ("p", "softmax", "ours", 2.0, 0.5),
            ("p", "ArcGrad", "ours", 3.0, 0.25),
        ]
        frame = pd.DataFrame(rows, columns=["panel", "label", "source", "mean", "half"])
        frame = frame.assign(
            low=frame["mean"] - frame["half"],
            high=frame["mean"] + frame["half"],
            ours=frame["source"] == "ours",
        )
        (ax,) = figures.beside(frame, xlabel="points", columns=1).axes
        theirs, ours = ax.containers
        assert theirs[0].get_color() == "black" and theirs[0].get_xdata()[0] == 1.0
        np.testing.assert_allclose(np.asarray(ours[0].get_xdata(), dtype=float), [2.0, 3.0])
        np.testing.assert_allclose(
            [np.ptp(segment[:, 0]) for segment in ours[2][0].get_segments()], [1.0, 0.5]
        )
        assert [tick.get_text() for tick in ax.get_yticklabels()] == ["softmax", "ArcGrad"]


def test_slices_of_angles_are_shares_with_their_median():
    rows = [
        {
            "schedule": loss,
            "seed": seed,
            "target_angle_epochs": [0, 4],
            "target_angle_counts": counts,
        }
        for loss, counts in (
            ("softmax", [[0, 5, 5, 0], [0, 10, 0, 0]]),
            ("arcgrad 10", [[0, 5, 5, 0], [10, 0, 0, 0]]),
        )
        for seed in range(3)
    ]
    edges = [math.pi * edge / 4 for edge in range(5)]  # four bins of 45 degrees
    figure = figures.angle_slices(pd.DataFrame(rows), edges)
    softmax, arcgrad = (ax for ax in figure.axes if ax.get_visible())
    assert titles(figure) == ["softmax", "ArcGrad, s = 10"]
    assert [tick.get_text() for tick in softmax.get_yticklabels()] == ["0", "4"]
    first, last = filled = [patch for patch in arcgrad.patches if patch.get_fill()]
    heights = [patch.get_data().values - patch.get_data().baseline for patch in filled]
    np.testing.assert_allclose(
        heights[0] / heights[1].max(), [0, 0.5, 0.5, 0]
    )  # shares, on one scale
    np.testing.assert_allclose(last.get_data().edges, [0, 45, 90, 135, 180])
    assert (first.get_data().baseline, last.get_data().baseline) == (
        1,
        0,
    )  # the first epoch is at the top
    assert first.get_alpha() > last.get_alpha()
    assert sorted({float(line.get_xdata()[0]) for line in arcgrad.lines}) == [22.5, 90.0]


def test_without_runs_a_figure_says_so():
    empty = pd.DataFrame()
    for figure in (
        figures.against(empty, OUTCOMES),
        figures.curves(empty, "test_accuracy", ylabel=""),
        figures.angle_slices(empty, []),
        figures.beside(tables.leads(empty, "x", "1"), xlabel=""),
    ):
        assert [text.get_text() for text in figure.axes[0].texts] == ["not run yet"]


# --- differences, a row for each variant ---


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
