"""The papers' tables: whole, consistent with themselves and with each other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from study import published
from study.losses import LOSSES
from study.methods import method_name

ALL = [(row.paper, row.number) for row in published.tables().itertuples()]
PRINTED_NUMBERS = {  # counted in the papers
    ("GD-1", 1): 25,
    ("GD-1", 2): 24,
    ("GD-1", 3): 24,
    ("GD-1", 4): 24,
    ("GD-1", 5): 24,
    ("GD-2", 1): 25,
    ("GD-2", 2): 13 * 8,
    ("GD-2", 3): 12 * 6,
    ("GD-2", 4): 6 * 6,
    ("GD-2", 5): 5 * 6,
    ("GD-2", 6): 5 * 6,
    ("LM", 1): 27,
    ("LM", 2): 7,
    ("LM", 3): 40,
    ("LM", 4): 6 * 5 + 6,
    ("AG", 1): 17 * 7,
    ("AG", 2): 45,
    ("AG", 3): 8,
    ("AG", 4): 12,
    ("AG", 5): 12,
    ("AG", 6): 18,
    ("AG", 7): 24,
    ("AG", 8): 1,
}


def everything() -> pd.DataFrame:
    """All tables under each other."""
    return pd.concat(
        [published.table(paper, number).assign(number=number) for paper, number in ALL],
        ignore_index=True,
    )


class TestFiles:
    def test_every_table_is_there(self) -> None:
        assert {key: len(published.table(*key)) for key in ALL} == PRINTED_NUMBERS

        folder = Path(published.__file__).resolve().parents[1] / "results" / "published"
        assert {p.name for p in folder.glob("*-t*.csv")} == set(published.tables().file)

    def test_labels(self) -> None:
        for paper, number in ALL:
            frame = published.table(paper, number)
            index = published.tables().set_index(["paper", "number"]).loc[(paper, number)]
            assert (
                frame[["paper", "version", "table"]] == [paper, index.version, index.table]
            ).all(axis=None)
            assert set(frame.unit) <= {"%", "fraction", "count", "rad", ""}
            settings = list(frame.columns.difference(["value", "sd", "decimals", "note"]))
            assert not frame.duplicated(settings).any(), (
                f"two rows of {paper}, table {number}, say the same thing"
            )
            assert frame.loc[frame.value.isna(), "note"].str.contains("dash").all()

    def test_settings_become_columns(self) -> None:
        frame = published.table("LM", 3)
        assert frame.reg_lambda.dropna().unique().tolist() == [0.3, 0.5, 1.0]
        assert set(frame.divergence) == {"", "symmetric"}
        assert frame.query("method == 'softmax' and noise_rate == 0.1").value.item() == 33.97

    def test_decimals(self) -> None:
        frame = published.table("AG", 1)
        row = frame[
            (frame.dataset == "UserKnowledgeModeling") & (frame.method == "M-Softmax")
        ].iloc[0]
        assert (row.value, row.decimals, f"{row.value:.{row.decimals}f}") == (96.0, 2, "96.00")


class TestValues:
    def test_ranges(self) -> None:
        frame = everything()
        percent, fraction, angle = (
            frame[frame.unit == unit].value.dropna() for unit in ("%", "fraction", "rad")
        )
        assert percent.between(0, 100).all()
        assert fraction.between(0, 1).all()
        assert angle.between(0, np.pi).all()
        assert (frame.sd.dropna() > 0).all()
        assert (frame.beta.dropna() > 0).all()
        counts = frame[frame.unit == "count"].value
        assert (counts == counts.round()).all()

    def test_calibration_errors(self) -> None:
        """A maximum is at least a mean."""
        frame = everything()
        pairs = frame[frame.metric.isin(["ece", "mce"])].pivot(
            index=["paper", "number", "dataset", "model", "method", "beta"],
            columns="metric",
            values="value",
        )
        assert len(pairs) == 60
        assert (pairs.mce >= pairs.ece).all()


class TestGradientDecay:
    def test_table_1_counts_the_training_set_and_is_the_same_in_both_versions(self) -> None:
        one, two = published.table("GD-1", 1), published.table("GD-2", 1)
        pd.testing.assert_frame_equal(
            one.drop(columns=["paper", "version"]), two.drop(columns=["paper", "version"])
        )
        assert one.groupby("beta").value.sum().to_dict() == dict.fromkeys(
            [0.001, 0.01, 0.1, 0.5, 1.0], 60_000
        )
        assert one.interval.unique().tolist() == [
            "[0, 0.2]",
            "(0.2, 0.4]",
            "(0.4, 0.6]",
            "(0.6, 0.8]",
            "(0.8, 1]",
        ]
        low = one.query("interval == '[0, 0.2]'").set_index("beta").value
        assert low.idxmin() == 0.5
        assert low[0.001] > low[0.01] > low[0.1] > low[1.0]

    def test_svhn_was_kept_and_cifar_was_not(self) -> None:
        """GD-2 says the same recipe; SVHN has the same digits, every CIFAR number is another."""
        second = published.table("GD-2", 2).set_index(["dataset", "model", "method", "beta"]).value
        for number, dataset, kept in [
            (2, "CIFAR-10", False),
            (3, "SVHN", True),
            (4, "CIFAR-100", False),
        ]:
            first = (
                published.table("GD-1", number)
                .set_index(["dataset", "model", "method", "beta"])
                .value
            )
            assert len(first) == 24
            assert set(first.index.get_level_values("dataset")) == {dataset}
            same = first == second.reindex(first.index)
            assert same.all() if kept else not same.any()

    def test_tables_of_the_second_version_repeat_each_other(self) -> None:
        """Tables 2 and 3 hold the rows of Tables 4, 5 and 6.

        But on CIFAR-100 Table 2 calls ResNet34 “ResNet35”.
        """
        key = ["dataset", "model", "metric", "beta"]
        shown = pd.concat(
            [
                published.table("GD-2", n).replace({"model": {"ResNet35": "ResNet34"}})
                for n in (2, 3)
            ]
        ).dropna(subset="beta")
        details = pd.concat([published.table("GD-2", n) for n in (4, 5, 6)])
        both = shown.merge(details, on=key, suffixes=("", "_detail"))
        assert len(both) == 2 * 3 + 4 + 2 * 2 * 4 + 2 * 2 * 4
        assert (both.value == both.value_detail).all()

    def test_warm_up(self) -> None:
        ends = (
            published.table("GD-1", 4)
            .query("method == 'warm-up'")[["beta_start", "beta_end"]]
            .drop_duplicates()
        )
        assert ends.values.tolist() == [[1.0, 5.0]]
        assert "beta_start" not in published.table("GD-1", 2), "not printed"


class TestLargeMargin:
    def test_tables_1_and_2_share_a_number(self) -> None:
        one = published.table("LM", 1).query("divergence == 'symmetric' and reg_lambda == 0.3")
        two = published.table("LM", 2).query("divergence == 'symmetric' and reg_lambda == 0.3")
        assert (
            one[["value", "sd"]].values.tolist()
            == two[["value", "sd"]].values.tolist()
            == [[27.27, 0.15]]
        )

    def test_fewer_samples_and_more_noise_are_worse(self) -> None:
        frame = published.table("LM", 3).fillna({"reg_lambda": 0.0})
        for setting, direction in (("train_fraction", -1), ("noise_rate", 1)):
            curves = frame.dropna(subset=setting).pivot(
                index=setting, columns="reg_lambda", values="value"
            )
            assert curves.shape == (5, 4)
            assert (direction * curves.diff().iloc[1:] > 0).all(axis=None)


class TestArcGrad:
    def test_averages(self) -> None:
        frame = published.table("AG", 1).fillna({"s": 0})
        key = ["method", "s"]
        mean = frame[frame.metric == "accuracy"].groupby(key).value.mean()
        printed = frame[frame.metric == "mean_accuracy"].set_index(key).value
        assert len(printed) == 7
        assert mean.to_dict() == pytest.approx(printed.to_dict(), abs=0.0051)

    def test_wins(self) -> None:
        """The printed wins are those of the table; the tie on Iris was given to M-Softmax."""
        frame = published.table("AG", 1)
        accuracy = frame[frame.metric == "accuracy"].pivot(
            index="dataset", columns=["method", "s"], values="value"
        )
        best = accuracy.eq(accuracy.max(axis=1), axis=0)
        assert best.sum(axis=1)[best.sum(axis=1) > 1].to_dict() == {"Iris": 2}
        best.loc["Iris", [column for column in best if column[0] == "ArcFace"]] = False
        printed = frame[frame.metric == "wins"]
        assert printed.value.sum() == 15
        assert Counter(
            {(r.method, str(r.s)): int(r.value) for r in printed.itertuples()}
        ) == Counter({(method, str(s)): int(n) for (method, s), n in best.sum().items()})

    def test_adacos_is_at_chance_on_the_two_class_sets(self) -> None:
        sizes = published.table("AG", 2).pivot(index="dataset", columns="metric", values="value")
        assert sizes.loc["Iris"].to_dict() == {"classes": 3, "features": 4, "instances": 150}
        assert sizes.instances.sum() == 6_717
        classes = published.table("AG", 2).query("metric == 'classes'").set_index("dataset").value
        adacos = (
            published.table("AG", 1)
            .query("method == 'AdaCos' and metric == 'accuracy'")
            .set_index("dataset")
            .value
        )
        assert set(adacos.index) == set(classes.index)
        assert len(classes) == 15
        assert (classes == 2).sum() == 6
        assert adacos[classes == 2].max() < 55 < adacos[classes > 2].min()

    def test_claims_in_the_text(self) -> None:
        epochs = published.table("AG", "VII").pivot(
            index="epochs", columns="method", values="value"
        )
        assert (epochs.idxmax(axis=1) == "ArcGrad").all()
        assert epochs.loc[10, "ArcGrad"] - epochs.loc[10, "softmax"] == pytest.approx(15.5)
        assert published.table("AG", 8)["value"].tolist() == [3.4]


def test_names_of_papers_and_tables() -> None:
    one = published.table("AG", 4)
    for paper, spelling in [("AG", "4"), ("AG", "IV"), ("ag", "iv")]:
        pd.testing.assert_frame_equal(published.table(paper, spelling), one)
    with pytest.raises(ValueError, match="no paper 'GD-3'; there are GD-1, GD-2, LM, AG"):
        published.table("GD-3", 1)
    for number in (9, "two"):
        with pytest.raises(
            ValueError,
            match=f"no table {number!r} of AG; there are I, II, III, IV, V, VI, VII, text",
        ):
            published.table("AG", number)


def test_where_a_number_is_printed() -> None:
    assert {"AG, Table I", "AG, text", "GD-1, Table 2"} < set(published.printed()["source"])


class TestNamesOfLosses:
    def test_every_loss_of_an_experiment_has_one_of_its_own(self) -> None:
        losses = [
            " ".join([name, *map(str, range(1, 1 + len(kind.numbers)))])
            for name, kind in LOSSES.items()
        ]
        names = [method_name(loss) for loss in losses]
        assert len(set(names)) == len(names)
        assert all(
            name.count("=") + name.count("≥") == len(loss.split()) - 1
            for name, loss in zip(names, losses, strict=True)
        )
        assert [name for name, loss in zip(names, losses, strict=True) if name == loss] == [
            "softmax",
            "super-symmetry",
            "hinge",
        ]
