"""The papers' numbers beside ours: every printed number once, in our names and units, and honest cells where there are no runs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from study import published, tables
from study.tables import image_tables


def runs() -> pd.DataFrame:
    rows = [
        {"dataset": "tiny-imagenet", "variant": "tiny-imagenet, resnet18×0.25, plain", "scale": "reduced", "schedule": label, "seed": seed}
        | {"beta": beta, "warmup_epochs": epochs, "test_accuracy": accuracy + 0.01 * seed, "valid_ece": abs(beta - 5) + 0.1 * seed}
        | {"subset": 10000, "epochs": 20, "learning_rate": 0.05, "model_parameters": 700_000}
        for label, beta, epochs, accuracy in (
            ("0.1", 0.1, 0, 0.4),
            ("warm-up 0.1→5", 5.0, 10, 0.6),
            ("5", 5.0, 0, 0.5),
            ("20", 20.0, 0, 0.3),
        )
        for seed in (1, 0)
    ]
    return pd.DataFrame(rows)


class TestPrinted:
    def test_units_and_names(self):
        found = image_tables.printed().set_index(["paper", "dataset", "model", "schedule", "outcome"])["value"]
        assert found["GD-1", "CIFAR-10", "ResNet34", "0.01", "test_accuracy"] == 0.852  # printed as ResNet35
        assert found["GD-2", "CIFAR-10", "ResNet18", "warm-up 0.1→1", "test_accuracy"] == 0.949
        assert found["GD-1", "CIFAR-10", "ResNet18", "warm-up", "test_accuracy"] == 0.848
        assert found["GD-1", "CIFAR-100", "VGG16", "warm-up 1→5", "test_top5_accuracy"] == 0.778
        assert found["GD-2", "Tiny-ImageNet", "ResNet50", "0.1", "train_accuracy"] == 0.923
        assert found["GD-2", "CIFAR-10", "ResNet18", "20", "test_mce"] == 0.728
        assert found["GD-2", "CIFAR-10", "ResNet18", "1", "test_ece_vector"] == 0.012

    def test_a_number_in_two_tables_comes_once_and_says_the_same_in_both(self):
        found = image_tables.printed()
        assert not found.duplicated(["paper", "dataset", "model", "schedule", "outcome"]).any()
        assert found.notna().drop(columns="beta").all().all()
        both = pd.concat([published.table("GD-2", number) for number in (3, 4, 5, 6)])
        both = both[both["beta"].notna()]
        assert (both.groupby(["dataset", "model", "beta", "metric"])["value"].nunique() == 1).all()


class TestBeside:
    def test_rows_columns_and_cells(self):
        frame = image_tables.beside(runs(), "test_accuracy", datasets=["Tiny-ImageNet"])
        assert list(frame.columns[:3]) == ["source", "scale", "seeds"]
        assert list(frame.columns[3:]) == [
            *("β = 20", "β = 10", "β = 5", "β = 2", "β = 1", "β = 0.1", "β = 0.01"),
            *("warm-up 0.1→1", "warm-up 0.1→5"),
        ]
        assert frame["source"].tolist() == ["GD-2, ResNet34", "GD-2, ResNet50", "tiny-imagenet, resnet18×0.25, plain"]
        ours = frame.iloc[-1]
        assert ours["scale"] == "reduced" and ours["seeds"] == "2"
        assert ours["β = 5"] == "50.5 ± 0.7"
        assert ours["β = 1"] == tables.MISSING
        assert frame.iloc[0]["β = 5"] == "53.8"

    def test_several_data_sets_are_named(self):
        frame = image_tables.beside(pd.DataFrame(), "test_mce", datasets=["CIFAR-10", "CIFAR-100"])
        assert "GD-2, CIFAR-100, VGG16" in frame["source"].tolist()
        assert set(frame["scale"]) == {"paper"}


class TestSentences:
    def test_the_beta_of_the_smallest_validation_error(self):
        assert image_tables.chosen_beta(runs()) == {"tiny-imagenet, resnet18×0.25, plain": "5"}
        assert image_tables.chosen_beta(pd.DataFrame()) == {}

    def test_span_pairs_by_seed(self):
        assert image_tables.span(runs(), "test_accuracy", "5") == "50.5"
        assert image_tables.span(runs(), "test_accuracy", "20", less="5") == "−20.0"
        half = runs()[lambda table: (table["schedule"] != "20") | (table["seed"] == 1)]
        assert image_tables.span(half, "test_accuracy", "20", less="5") == "−20.0"
        for column, schedule in (("test_ece", "5"), ("test_accuracy", "1")):
            assert image_tables.span(runs(), column, schedule) == tables.MISSING


class TestOrderAndEmptiness:
    def test_from_the_largest_beta_to_the_warm_ups(self):
        found = image_tables.ordered(runs())
        assert list(dict.fromkeys(found["schedule"])) == ["20", "5", "0.1", "warm-up 0.1→5"]
        assert found["seed"].tolist() == [0, 1] * 4

    def test_without_runs_every_table_has_a_row_that_says_so(self):
        empty = pd.DataFrame()
        for frame in (image_tables.settings(empty), image_tables.outcomes(empty, {"test_ece": ("ECE", ".1f", 100)})):
            assert frame.to_numpy().tolist() == [["not run yet"]]
            assert "not run yet" in tables.table(frame, "tab-empty", "A table.")._repr_markdown_()
        assert image_tables.ordered(empty).empty

    def test_settings_and_outcomes(self):
        frame = image_tables.settings(runs())
        assert frame[["seeds", "runs", "training images"]].to_numpy().tolist() == [[2, 8, 10000]]
        outcomes = {"test_accuracy": ("accuracy", ".1f", 100), "test_ece": ("ECE", ".1f", 100)}
        shown = image_tables.outcomes(image_tables.ordered(runs()), outcomes)
        assert list(shown.columns) == ["variant", "scale", "β", "accuracy"]  # no run has an ECE
        assert np.isin(["20", "5", "0.1"], shown["β"]).all()
