"""Words of the pages of experiments that were once not true of the tables of results."""

from __future__ import annotations

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


def test_with_sigmoid_a_small_beta_gains_speed_alone() -> None:
    """The rates are chosen by hand here, on the page by ``by``."""
    runs = results.read("learning-rate").query("activation == 'sigmoid'")
    means = runs.groupby(["beta", "learning_rate"])["valid_accuracy"].mean().unstack()
    chosen = means.idxmax(axis=1)
    assert (chosen < means.columns.max()).all()  # else a larger rate was to be run
    at_one = {"beta": 1, "learning_rate": chosen[1]}
    at_papers = {"beta": 0.001, "learning_rate": 0.001}
    assert compare(runs, "test_accuracy", at_one, at_papers)["low"].item() > 0
    for beta in (0.1, 0.01, 0.001):
        own = {"beta": beta, "learning_rate": chosen[beta]}
        found = compare(runs, "test_accuracy", own, at_one)
        assert found["low"].item() < 0 < found["high"].item(), beta


def test_a_beta_that_follows_the_confidence_is_not_measurably_less_accurate() -> None:
    found = compare(
        ledger.runs_of(ledger.entries()["B3"]),
        *("test_accuracy", {"schedule": "feedback 1, 5, 5"}, {"beta": 1}),
        variant=["augmentation"],
    )
    assert found["low"].lt(0).all() and found["high"].gt(0).all()
    assert found["high"]["crops"] < 0.0005  # *barely*


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
