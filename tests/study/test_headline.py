"""README and the first page: their numbers are computed, and their words hold in the tables."""

from __future__ import annotations

import pandas as pd

from study import headline, ledger, results
from study.compare import compare


def test_readme_has_the_sentences_as_they_are_computed() -> None:
    written = headline.README.read_text(encoding="utf-8")
    assert written == headline.readme(), "python -m study.headline writes them"


def test_resnet18_gains_no_top5_with_beta_5() -> None:
    runs = headline.image_runs()
    large = runs[runs["model"].eq("resnet18")]
    assert headline.against_one(large, "test_top5_accuracy", 5).item() < 0


def test_a_temperature_calibrates_as_well_as_the_best_beta() -> None:
    constant = headline.image_runs().query("warmup_epochs == 0")  # a warm-up ends at a β too
    errors = constant.groupby([*headline.VARIANT, "beta"])[["test_ece", "test_ece_temperature"]]
    errors = errors.mean()
    raw = errors["test_ece"].groupby(headline.VARIANT).min()
    fitted = errors["test_ece_temperature"].xs(1.0, level="beta")
    assert len(fitted) == len(raw) and (fitted < raw).all(), pd.concat([raw, fitted], axis=1)


def test_on_cifar100_a_temperature_calibrates_better_than_vector_scaling() -> None:
    """The guide says so."""
    runs = headline.image_runs().query("dataset == 'cifar100' and beta == 1 and schedule == '1'")
    errors = runs.groupby(headline.VARIANT)[["test_ece_temperature", "test_ece_vector"]].mean()
    assert len(errors) == 4 and (errors["test_ece_temperature"] < errors["test_ece_vector"]).all()


def test_no_gain_in_accuracy_that_the_papers_print_on_cifar_was_reproduced() -> None:
    words = {name: ledger.decide(name).word for name in ("E6", "E8", "E16", "E18")}
    assert all("yes" not in word for word in words.values()), words
    runs = headline.image_runs()
    for beta in (50, 20, 5, 2, 0.1, 0.01):  # the page on CIFAR says so of each
        found = compare(
            runs, "test_accuracy", {"beta": beta}, {"beta": 1}, variant=headline.VARIANT
        )
        assert found["low"].max() <= 0, beta


def test_at_a_smaller_rate_for_both_beta_below_1_leads_on_cifar10() -> None:
    lows = headline.leads_at_one_rate()["low"]
    assert lows.index.tolist() == [f"learning rate {rate}" for rate in (0.05, 0.1, 0.2, 0.4)]
    assert (lows > 0).tolist() == [True, True, False, False]


def test_held_out_images_say_two_rates_alike_for_beta_1() -> None:
    runs = headline.rates_on_cifar10()
    by_rate = runs[runs["schedule"].eq("1")].groupby("learning_rate")["valid_accuracy"]
    best, second, third = by_rate.mean().sort_values(ascending=False).iloc[:3].items()
    assert {best[0], second[0]} == {0.1, 0.2} and best[1] - second[1] < by_rate.sem()[0.1]
    assert second[1] - third[1] > 5e-3
    lows = [
        compare(
            runs,
            "test_accuracy",
            {"beta": 0.1, "learning_rate": 0.1},
            {"beta": 1, "learning_rate": rate},
        )["low"].item()
        for rate in (0.1, 0.2)
    ]
    assert 0.002 > lows[0] > lows[1] > -0.001  # the lead at the chosen rates is barely measurable


def test_ten_times_the_rate_does_on_mnist_what_a_small_beta_does() -> None:
    """Pixels from 0 to 1, 100 epochs; the best constant β at the papers' rate of 0.001."""
    papers = results.read("mnist").query("normalization == 'unit' and warmup_epochs == 0")
    of_sigmoid = results.read("learning-rate").query("activation == 'sigmoid'")
    faster = pd.concat([results.read("samples"), of_sigmoid])
    faster = faster.query("epochs == 100 and learning_rate == 0.01 and beta == 1")
    for activation in ("relu", "tanh", "sigmoid"):
        of_papers = papers[papers["activation"].eq(activation)].groupby("beta")["test_accuracy"]
        own = faster[faster["activation"].eq(activation)]["test_accuracy"]
        assert own.mean() > of_papers.mean().max() - 1e-3, activation
