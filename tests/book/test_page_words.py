"""Words of the pages of experiments that were once not true of the tables of results."""

from __future__ import annotations

import pandas as pd

from study import ledger, outcomes, published, results
from study.compare import compare

LOSSES = ["softmax", "center 0.02", "m-softmax 0.5", "arcgrad 5", "arcgrad 30"]


def test_averages_over_tables_are_met_but_for_arcface_and_adacos() -> None:
    fifteen = results.read("tables").query("epochs == 10 and weight_decay == 0")
    here = fifteen[~fifteen["duplicates_together"]].groupby("loss")["test_accuracy"].mean()
    printed = published.printed().query("source == 'AG, Table I'").groupby("schedule")["value"]
    off = (here - printed.mean()).dropna()
    assert (off[LOSSES].abs() < 0.01).all() and off["arcface 20 0.1"] > 0.01 > -0.01 > off["adacos"]


def test_accuracy_is_higher_the_smaller_beta_is_after_a_few_epochs() -> None:
    runs = results.read("mnist").query("normalization == 'unit' and warmup_epochs == 0")
    runs = runs[runs["activation"].isin(["relu", "tanh"]) & runs["beta"].le(1)]
    curves = results.curves("mnist")[["job", "run", "epoch", "test_accuracy"]]
    curves = curves.merge(runs[["job", "run", "activation", "beta"]])
    mean = curves.groupby(["activation", "epoch", "beta"])["test_accuracy"].mean().unstack()
    falls = (mean.diff(axis=1).iloc[:, 1:] < 0).all(axis=1).unstack("activation")
    assert falls.loc[6:50].all(axis=None) and not falls.loc[1:5].all(axis=None)


def test_large_beta_leads_at_the_largest_rate_alone() -> None:
    runs = outcomes.read("cifar", "cifar100-rates")
    where = "dataset == 'cifar100' and augmentation == 'crop2-flip' and epochs == 12"
    for beta in (5, 50):
        found = compare(
            runs.query(where),
            *("test_accuracy", {"beta": beta}, {"beta": 1}),
            variant=["learning_rate"],
        )
        assert (found["low"] > 0).tolist() == [False, False, False, True], beta
        assert (found["high"] < 0).tolist() == [True, True, True, False], beta
        assert found["trained_than"].idxmin() == found.index[-1]


def chosen_rates(runs: pd.DataFrame) -> pd.Series:
    """The rate with the best mean accuracy on held-out images; on the page by ``by``."""
    means = runs.groupby(["beta", "learning_rate"])["valid_accuracy"].mean().unstack()
    return means.idxmax(axis=1)


def test_with_sigmoid_a_small_beta_gains_speed_alone() -> None:
    runs = results.read("learning-rate").query("activation == 'sigmoid'")
    chosen = chosen_rates(runs)
    assert (chosen < runs["learning_rate"].max()).all()  # else a larger rate was to be run
    at_one = {"beta": 1, "learning_rate": chosen[1]}
    at_papers = {"beta": 0.001, "learning_rate": 0.001}
    assert compare(runs, "test_accuracy", at_one, at_papers, paired="seed")["low"].item() > 0
    for beta in (0.1, 0.01, 0.001):
        own = {"beta": beta, "learning_rate": chosen[beta]}
        found = compare(runs, "test_accuracy", own, at_one, paired="seed")
        assert found["low"].item() < 0 < found["high"].item(), beta


def test_on_raw_pixels_the_rate_costs_a_small_beta_its_accuracy_and_not_its_lost_images() -> None:
    runs = results.read("learning-rate").query("activation == 'tanh' and normalization == 'none'")
    chosen = chosen_rates(runs)
    assert (chosen > runs["learning_rate"].min()).all()  # else a smaller rate was to be run
    at_one = {"beta": 1, "learning_rate": chosen[1]}
    for beta in (0.1, 0.01, 0.001):
        own = {"beta": beta, "learning_rate": chosen[beta]}
        found = compare(runs, "test_accuracy", own, at_one, paired="seed")
        assert found["difference"].item() > 0, beta
        assert (found["low"].item() > 0) == (beta == 0.1)
    lost = compare(
        runs, "lost", {"beta": 0.001}, {"beta": 1}, variant=["learning_rate"], paired="seed"
    )
    assert len(lost) == 3 and (lost["low"] > 0).all()
    unit = results.read("mnist").query("activation == 'tanh' and normalization == 'unit'")
    best = runs.groupby(["beta", "learning_rate"])["test_accuracy"].mean().max()
    assert unit.query("schedule == '1'")["test_accuracy"].mean() > best + 0.02


def test_losses_with_wrong_labels() -> None:
    runs = results.read("wrong-labels")
    for labels, group in runs.groupby("labels"):
        for name in ("0.1", "poly1 1", "label-smoothing 0.1", "5", "focal 2"):
            found = compare(group, "test_accuracy", {"schedule": name}, {"beta": 1})
            points = 100 * found["difference"].item()
            if name in ("5", "focal 2"):
                assert -1.2 < points < -0.5, (labels, name)
            elif labels != "clean":
                assert 0.2 < points < 0.5, (labels, name)


def test_a_beta_that_follows_the_confidence_costs_a_little_with_crops() -> None:
    found = compare(
        ledger.runs_of(ledger.entries()["B3"]),
        *("test_accuracy", {"schedule": "feedback 1, 5, 5"}, {"beta": 1}),
        variant=["augmentation"],
    )
    assert -0.005 < found["difference"]["crops"] and found["high"]["crops"] < 0
    assert found["low"]["plain"] < 0 < found["high"]["plain"]


def test_top5_gains_of_beta_5_without_augmentation_and_at_twice_the_width() -> None:
    runs = results.read("cifar").query("dataset == 'cifar100'")
    variant = ["model", "width", "augmentation"]
    found = compare(runs, "test_top5_accuracy", {"beta": 5}, {"beta": 1}, variant=variant)
    gains = found["low"].gt(0).set_axis(found["variant"])
    assert gains[gains].index.tolist() == ["small network, plain", "small network, width 2, crops"]


def test_most_that_the_linear_model_never_learns_is_not_in_conflict() -> None:
    runs = results.read("samples").query("units == 0 and conflict_share.notna()")
    means = runs.groupby("beta")[["conflict_share", "never_learnt"]].mean()
    assert (means["conflict_share"] < means["never_learnt"] / 2).all() and len(means) == 2


def test_without_augmentation_label_smoothing_is_behind_softmax() -> None:
    """The note of L4."""
    runs = outcomes.read("cifar", "large-margin")
    where = "dataset == 'cifar100' and model == 'fast' and augmentation == 'none'"
    runs = runs.query(where)
    assert [one for one in runs["schedule"].unique() if "smoothing" in one] == [
        "label-smoothing 0.1"
    ]
    found = compare(runs, "test_accuracy", {"schedule": "label-smoothing 0.1"}, {"schedule": "1"})
    assert found["high"].item() < 0
