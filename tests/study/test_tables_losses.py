"""The tables of the papers on other losses beside ours: every printed number in its place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from study import claims, published, tables
from study.methods import Method
from study.tables import loss_tables

VARIANT = "CIFAR-10, 6,000 images, unaugmented"


def runs() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "variant": VARIANT,
                "data": "CIFAR-10",
                "augmentation": "none",
                "loss": loss,
                "method": Method.parse(loss),
                "seed": seed,
                "test_accuracy": accuracy + 0.01 * seed + small * seed,
            }
            for loss, accuracy, small in (
                ("softmax", 0.50, 0.0),
                ("lm 0.3", 0.52, 0.0001),
                ("lm-uq 0.9", 0.53, 0.0),
                ("l-softmax 2", 0.51, 0.0001),
                ("lm 1", 0.40, 0.0001),
            )
            for seed in (2, 0, 1)
        ]
    )


class TestPrinted:
    @pytest.mark.parametrize("number", [1, 2, 3, 4])
    def test_every_number_is_there_once(self, number):
        found, table = loss_tables.printed(number), published.table("LM", number)
        assert not found.duplicated(["source", "loss"]).any()
        np.testing.assert_array_equal(found["value"], table["value"])
        np.testing.assert_array_equal(found["sd"], table["sd"])

    def test_names_are_those_of_experiments(self):
        found = loss_tables.printed(1).set_index("loss")["value"]
        assert (found["lm-qu 0.1"], found["lm-uq 0.1"], found["lm 0.1"]) == (28.45, 27.99, 28.21)
        found = loss_tables.printed(3, 4).set_index(["source", "loss"])["value"]
        assert found["CIFAR-100, 13-layer network, 0.5 of the samples", "lm 1"] == 35.49
        assert found["CIFAR-100, 13-layer network, 50 % wrong labels", "lm 1"] == 46.43
        assert found["ImageNet, VGG-16-mod", "modified-lm 0.3"] == 24.37
        assert np.isnan(found["ImageNet, VGG-16", "lgm"])


class TestMinusSoftmax:
    def test_the_papers_numbers_have_welchs_intervals(self):
        found = loss_tables.minus_softmax(pd.DataFrame()).set_index(["source", "loss"])
        assert found.loc[("paper, CIFAR-100", "lm 0.3"), ["mean", "low", "high"]].round(
            2
        ).tolist() == [1.35, 0.86, 1.84]
        assert set(found.index.levels[0]) == {
            "paper, CIFAR-10",
            "paper, CIFAR-100",
            "paper, SVHN",
        }, "ImageNet has no spreads"
        assert found["low"].notna().all()
        assert "softmax" not in found.index.levels[1]

    def test_ours_come_last_with_the_interval_of_the_verdicts(self):
        """Image networks: one deviation of all losses, each with its own mean."""
        found = loss_tables.minus_softmax(runs().assign(model="fast"))
        ours = found[found["source"] == f"ours, {VARIANT}"].set_index("loss")
        assert list(ours.index) == ["l-softmax", "lm-uq 0.9", "lm 0.3", "lm 1"]
        assert found["ours"].is_monotonic_increasing
        assert set(ours["of"]) == {"ours, CIFAR-10, unaugmented"}
        assert ours.loc["l-softmax", "label"] == "L-Softmax"
        accuracy = 100 * runs().pivot(index="seed", columns="loss", values="test_accuracy")
        variance = accuracy.var().mean()
        half = stats.t.ppf(0.975, 10) * np.sqrt(2 * variance / 3)
        lead = (accuracy["lm 0.3"] - accuracy["softmax"]).mean()
        assert ours.loc["lm 0.3", ["mean", "low", "high"]].tolist() == pytest.approx(
            [lead, lead - half, lead + half]
        )

    def test_of_two_variants_of_a_loss_the_one_with_most_seeds_is_shown(self):
        one = (
            runs()
            .query("loss == 'l-softmax 2' and seed == 0")
            .assign(
                loss="l-softmax 3",
                method=Method.parse("l-softmax 3"),
                model="fast",
                test_accuracy=0.9,
            )
        )
        both = runs().assign(model="fast")
        for table in (pd.concat([one, both]), pd.concat([both, one])):
            ours = loss_tables.minus_softmax(table).query("ours").set_index("loss")
            assert ours.loc["l-softmax", "mean"] == pytest.approx(1.01)

    def test_without_softmax_there_is_no_difference(self):
        table = runs().assign(model="fast")
        assert not loss_tables.minus_softmax(table[table["loss"] != "softmax"])["ours"].any()


class TestDivergences:
    def test_rows_and_columns(self):
        found = loss_tables.divergences(runs())
        assert list(found.columns) == ["source", "λ", "D(u‖q)", "D(q‖u)", "symmetric"]
        paper, ours = (group.set_index("λ") for _, group in found.groupby("source", sort=False))
        assert list(paper.index) == ["0 (softmax)", *(f"0.{digit}" for digit in range(1, 10))]
        assert paper.loc["0.3", "symmetric"] == "27.27 ± 0.15"
        assert set(paper.loc["0 (softmax)"][1:]) == {"28.62 ± 0.24"}
        assert ours.loc["0.3", "symmetric"] == "46.99 ± 1.01"
        assert ours.loc["0.9", "D(u‖q)"] == "46.00 ± 1.00"
        assert ours.loc["1", "D(q‖u)"] == tables.MISSING

    def test_without_runs(self):
        assert loss_tables.divergences(pd.DataFrame())["source"].nunique() == 1


class TestAsPrinted:
    def test_parts_are_those_of_the_claims(self):
        for text in loss_tables.as_printed()["part"]:
            claim, part = text.split()
            assert part in claims.ledger()[claim].parts

    def test_differences_and_what_they_tell(self):
        found = loss_tables.as_printed().set_index(["part", "where"])
        assert found.loc[("L6 c", "CIFAR-10, WideResNet-28-10")].tolist() == [
            "LM, λ = 0.3 minus L-Softmax",
            "0.11 [−0.17, 0.39]",
        ]
        assert (
            found.loc[("L3 d", "CIFAR-100, 13-layer network")].iloc[1].startswith("**−1.34 [")
        )  # 26.87 - 28.21
        averages = published.table("LM", 1).groupby("divergence")["value"].mean()
        text = found.loc[("L3 b", "CIFAR-100, 13-layer network")]
        assert text.iloc[0] == "LM with D(u‖q), mean over λ minus LM with D(q‖u), mean over λ"
        assert text.iloc[1].startswith(f"**−{averages['q_u'] - averages['u_q']:.2f} [")


class TestTableOne:
    """ArcGrad's Table I: the paper's numbers alone, and numbers made of them."""

    def test_the_papers_numbers(self):
        scores = loss_tables.table_i(pd.DataFrame({"campaign": ["mnist"]}))
        assert set(scores["source"]) == {"paper"}
        assert len(scores) == 15 * 7
        shown = loss_tables.summary(scores, "accuracy").set_index("method")["paper"]
        # as the paper's last lines have it
        assert shown["ArcGrad, s = 5"] == "**82.50**"
        assert shown["softmax"] == "79.56"
        won = loss_tables.summary(scores, "wins").set_index("method")["paper"]
        assert won["ArcGrad, s = 5"] == "**7**"

    def test_the_lead_of_a_method(self):
        scores = loss_tables.table_i(pd.DataFrame({"campaign": ["mnist"]}))
        found = loss_tables.ahead(scores).set_index("schedule")
        assert len(found) == 6
        assert found.loc["softmax", "mean"] == pytest.approx(82.50 - 79.56, abs=0.01)
        assert found.loc["softmax", "low"] < 0 < found.loc["center 0.02", "low"]
        assert (found["low"] < found["mean"]).all()
        assert (found["mean"] < found["high"]).all()

    def test_another_source_beside_it(self):
        scores = loss_tables.table_i(pd.DataFrame({"campaign": ["mnist"]}))
        both = pd.concat(
            [
                scores,
                scores.assign(
                    source="ours", accuracy=100 - scores["accuracy"], folds=loss_tables.TOGETHER
                ),
            ]
        )
        shown = loss_tables.summary(both, "rank")
        assert (
            set(shown.columns) == {"of", "method", "paper", "ours"} and shown["of"].nunique() == 2
        )
        assert (shown["paper"] == tables.MISSING).sum() == 7
