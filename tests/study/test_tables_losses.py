"""The large-margin paper's tables beside ours: every printed number in its place, and honest cells where there are no runs."""

from __future__ import annotations

import pandas as pd
import pytest

from study import criteria, published, tables
from study.tables import loss_tables

READING = "cifar10-jpeg, vgg16×0.25, plain, 6,000 images, 20 epochs"


def runs() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"variant": READING, "scale": "reduced", "loss": loss, "seed": seed, "test_accuracy": accuracy + 0.01 * seed + small * seed}
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
        assert len(found) == len(table) and not found.duplicated(["source", "loss"]).any()
        printed = [f"{value:.2f}" for value in table["value"] if value == value]
        assert [text.split(" ")[0] for text in found["error"] if text != tables.MISSING] == printed

    def test_names_are_those_of_experiments(self):
        found = loss_tables.printed(1).set_index("loss")["error"]
        assert (found["lm-qu 0.1"], found["lm-uq 0.1"], found["lm 0.1"]) == ("28.45 ± 0.41", "27.99 ± 0.18", "28.21 ± 0.32")
        found = loss_tables.printed(3).set_index(["source", "loss"])["error"]
        assert found["paper, CIFAR-100, 13-layer network, 0.5 of the samples", "lm 1"] == "35.49 ± 0.15"
        assert found["paper, CIFAR-100, 13-layer network, 50 % wrong labels", "lm 1"] == "46.43 ± 0.19"
        found = loss_tables.printed(4).set_index(["source", "loss"])["error"]
        assert found["paper, ImageNet, VGG-16-mod", "modified-lm 0.3"] == "24.37"
        assert found["paper, ImageNet, VGG-16", "lgm"] == tables.MISSING


class TestBeside:
    def test_ours_is_an_error_rate_with_its_difference_to_softmax(self):
        found = loss_tables.beside(runs(), 2)
        ours, less = found.iloc[1], found.iloc[2]
        assert (ours["source"], ours["scale"], ours["seeds"]) == (READING, "reduced", "3")
        assert ours["softmax"] == "49.00 ± 1.00" and ours["LM, λ = 0.3"] == "46.99 ± 1.01"
        assert less["LM, λ = 0.3"] == "**−2.01 [−2.03, −1.99]**"
        assert less["softmax"] == ours["super-symmetry"] == less["super-symmetry"] == tables.MISSING

    def test_losses_whose_numbers_the_paper_does_not_print_share_a_column(self):
        found = loss_tables.beside(runs(), 4)
        assert list(found.columns[3:]) == [
            *("softmax", "hinge", "modified loss", "LGM", "L-Softmax", "LM, λ = 0.3", "modified loss + LM, λ = 0.3")
        ]
        assert found["L-Softmax"].iloc[0] == "4.49 ± 0.13" and found["L-Softmax"].iloc[-2] == "47.99 ± 1.01"

    def test_of_two_variants_the_one_with_most_seeds_is_shown(self):
        one = runs().query("loss == 'l-softmax 2' and seed == 0").assign(loss="l-softmax 3", test_accuracy=0.9)
        for table in (pd.concat([one, runs()]), pd.concat([runs(), one])):
            assert loss_tables.beside(table, 4)["L-Softmax"].iloc[-2] == "47.99 ± 1.01"

    @pytest.mark.parametrize("number", [2, 3, 4])
    def test_without_runs_the_papers_numbers_stand_alone(self, number):
        found = loss_tables.beside(pd.DataFrame(), number)
        assert set(found["scale"]) == {"paper"} and len(found) == loss_tables.printed(number)["source"].nunique()

    def test_without_softmax_there_is_no_difference(self):
        table = runs()
        assert set(loss_tables.beside(table[table["loss"] != "softmax"], 2).iloc[2, 3:]) == {tables.MISSING}


class TestDivergences:
    def test_rows_and_columns(self):
        found = loss_tables.divergences(runs())
        assert list(found["regulariser"]) == ["none", "D(u‖q)", "D(q‖u)", "symmetric"] * 2
        assert list(found.columns[2:]) == ["λ = 0", *(f"0.{digit}" for digit in range(1, 10)), "1"]
        assert found["λ = 0"].tolist()[::4] == ["28.62 ± 0.24", "49.00 ± 1.00"]
        assert found.loc[3, "0.3"] == "27.27 ± 0.15" and found.loc[7, "0.3"] == "46.99 ± 1.01"
        assert found.loc[5, "0.9"] == "46.00 ± 1.00" and found.loc[7, "1"] == "58.99 ± 1.01"
        assert found.loc[3, "1"] == found.loc[6, "0.3"] == tables.MISSING

    def test_without_runs(self):
        assert len(loss_tables.divergences(pd.DataFrame())) == 4


class TestAsPrinted:
    def test_parts_are_those_of_the_criteria(self):
        found = loss_tables.as_printed()
        for text in found["part"]:
            claim, part = text.split()
            assert part in criteria.CLAIMS[claim]

    def test_differences_and_what_they_tell(self):
        found = loss_tables.as_printed().set_index(["part", "where"])
        assert found.loc[("L6 c", "CIFAR-10, WideResNet-28-10")].tolist() == ["LM, λ = 0.3 less L-Softmax", "0.11 [−0.17, 0.39]"]
        assert found.loc[("L3 d", "CIFAR-100, 13-layer network")].iloc[1].startswith("**−1.34 [")  # 26.87 - 28.21
        averages = published.table("LM", 1).groupby("divergence")["value"].mean()
        text = found.loc[("L3 b", "CIFAR-100, 13-layer network")]
        assert text.iloc[0] == "LM with D(u‖q), mean over λ less LM with D(q‖u), mean over λ"
        assert text.iloc[1].startswith(f"**−{averages['q_u'] - averages['u_q']:.2f} [")
