"""The half page of rules, on made-up runs whose intervals are known."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from study import compare as c
from study import ledger


def runs_of(values, **columns):
    """Runs of methods, by their β."""
    rows = [
        {"beta": beta, "schedule": f"{beta:g}", "seed": seed, "accuracy": value} | columns
        for beta, numbers in values.items()
        for seed, value in enumerate(numbers)
    ]
    return pd.DataFrame(rows)


TWO = runs_of({0.1: [0.90, 0.92, 0.94, 0.93], 1.0: [0.90, 0.91, 0.89]})


def test_difference_and_interval_are_welchs():
    row = c.compare(TWO, "accuracy", {"beta": 0.1}, {"beta": 1}).iloc[0]
    left, right = (TWO[TWO["beta"] == beta]["accuracy"] for beta in (0.1, 1.0))
    welch = stats.ttest_ind(left, right, equal_var=False)
    ends = welch.confidence_interval()
    assert (row["n"], row["n_than"]) == (4, 3)
    assert np.allclose(row[["low", "high", "p"]].astype(float), [ends.low, ends.high, welch.pvalue])


def test_paired_runs_share_their_seeds():
    row = c.compare(TWO, "accuracy", {"beta": 0.1}, {"beta": 1}, paired="seed").iloc[0]
    ends = stats.ttest_rel([0.90, 0.92, 0.94], [0.90, 0.91, 0.89]).confidence_interval()
    assert (row["n"], row["n_than"]) == (3, 3)  # pairs: the fourth run has no partner
    assert np.allclose([row["low"], row["high"]], [ends.low, ends.high])


@pytest.mark.parametrize(
    ("shift", "smaller", "papers", "word"),
    [
        (+1.0, False, [], "yes"),
        (-1.0, False, [], "no"),
        (-1.0, True, [], "yes"),
        (+1.0, True, [], "no"),
        (0.0, False, [], "open"),
        (0.0, False, [0.5], "open"),  # inside the interval
        (0.0, False, [9.0, 10.0, -11.0], "not as large"),  # their median lies outside
        (0.0, False, [-9.0], "open"),  # against the claim
        (0.0, True, [-9.0], "not as large"),
        (+1.0, False, [9.0], "yes"),
    ],
)
def test_word_follows_the_interval(shift, smaller, papers, word):
    values = {0.1: [shift, shift + 0.2, shift - 0.2], 1.0: [0.0, 0.3, -0.3]}
    compared = c.compare(
        runs_of(values), "accuracy", {"beta": 0.1}, {"beta": 1}, smaller=smaller, papers=papers
    )
    assert compared["word"].tolist() == [word]


def test_method_without_runs_is_not_run():
    assert c.compare(TWO, "accuracy", {"beta": 0.1}, {"beta": 5}).iloc[0]["word"] == "not run"


@pytest.mark.parametrize("runs", [[0.95], [0.95, 0.97, 0.96]])
def test_a_method_with_one_run_has_a_difference_and_no_interval(runs):
    one = runs_of({0.1: runs, 1.0: [0.9]})
    compared = c.compare(one, "accuracy", {"beta": 0.1}, {"beta": 1})
    row = compared.iloc[0]
    assert row["difference"] == pytest.approx(np.mean(runs) - 0.9)
    assert np.isnan(row[["low", "high", "p"]].astype(float)).all() and row["word"] == "open"
    shown = c.Claim("β = 0.1 is better", compared, "accuracy").table().iloc[0]
    assert shown["n"].split() == [f"{len(runs)},", "1"] and "[" not in shown["difference [95 %]"]


def test_constant_beta_is_no_warm_up_that_ends_there():
    warm = TWO[TWO["beta"] == 1].assign(schedule="warm-up 0.1→1", accuracy=0.0)
    with_warm = pd.concat([TWO, warm])
    row = c.compare(with_warm, "accuracy", {"beta": 0.1}, {"beta": 1}).iloc[0]
    assert row["mean_than"] == pytest.approx(0.9)
    row = c.compare(with_warm, "accuracy", {"schedule": "warm-up 0.1→1"}, {"beta": 1}).iloc[0]
    assert row["difference"] == pytest.approx(-0.9)


def test_best_of_several_is_the_one_with_the_best_mean_or_by_another_column():
    three = runs_of({5.0: [0.5, 0.7], 1.0: [0.8, 0.9], 0.1: [0.95, 0.96]})
    three["held_out"] = three["beta"]
    rival = {"beta": [5, 1]}
    assert c.compare(three, "accuracy", {"beta": 0.1}, rival).iloc[0]["method_than"] == "β = 1"
    rival["by"] = "held_out"
    assert c.compare(three, "accuracy", {"beta": 0.1}, rival).iloc[0]["method_than"] == "β = 5"


def test_threshold_and_difference_of_two_methods():
    row = c.compare(TWO, "accuracy", {"beta": 1}, 0.5).iloc[0]
    ends = stats.ttest_1samp([0.90, 0.91, 0.89], 0.5).confidence_interval()
    assert np.allclose([row["low"], row["high"]], np.array([ends.low, ends.high]) - 0.5)
    assert (row["n"], row["n_than"]) == (3, None)
    gain = {"minus": [{"beta": 0.1}, {"beta": 1}]}
    row = c.compare(TWO, "accuracy", gain, 0.0).iloc[0]
    alone = c.compare(TWO, "accuracy", {"beta": 0.1}, {"beta": 1}).iloc[0]
    assert np.allclose([row["low"], row["high"]], [alone["low"], alone["high"]])


def test_runs_that_share_a_seed_and_differ_are_refused():
    twice = pd.concat([TWO, TWO.assign(accuracy=0.1)])
    with pytest.raises(ValueError, match="share a seed"):
        c.compare(twice, "accuracy", {"beta": 0.1}, {"beta": 1})
    copies = pd.concat([TWO, TWO])  # one training, evaluated twice, is one run
    assert c.compare(copies, "accuracy", {"beta": 0.1}, {"beta": 1}).iloc[0]["n"] == 4


def test_each_variant_has_a_row_and_the_answer_names_the_condition():
    plain = runs_of({0.1: [1.0, 1.1], 1.0: [0.0, 0.1]}, augmentation="none", width=1.0)
    crops = runs_of({0.1: [0.0, 0.1], 1.0: [1.0, 1.1]}, augmentation="crop2-flip", width=1.0)
    wide = crops.assign(width=2.0)
    both = c.compare(
        *(pd.concat([plain, crops, wide]), "accuracy", {"beta": 0.1}, {"beta": 1}),
        variant=["augmentation", "width"],
    )
    assert both["variant"].tolist() == ["crops", "crops, width 2", "plain"]
    assert c.answer(both) == "no (crops), yes (plain)"


def test_claim_shows_dagger_interval_and_the_papers_effect():
    papers = (0.5, 0.7, 0.6)
    compared = c.compare(TWO, "accuracy", {"beta": 0.1}, {"beta": 1}, papers=papers)
    said = {"paper": "ours; asked in GD-2", "papers": papers, "known": True}
    decided = c.Claim("β = 0.1 is better", compared, "accuracy", **said)
    assert decided.word == "not as large†"
    assert decided.printed() == "+60 (+50 to +70)"
    shown = decided._repr_html_()
    assert "not as large†</b>. Asked in GD-2: +60" in shown and "[" in shown and "β = 0.1" in shown
    assert "† A run that decides was known" in shown


def test_sentences_of_the_ledger_are_short_and_their_words_stand():
    entries = ledger.entries()
    assert all(len(entry["claim"].split()) <= 12 for entry in entries.values())
    open_ones = [
        name
        for name, entry in entries.items()
        if not entry["paper"].startswith("ours") and ledger.word(name).startswith("open")
    ]
    assert len(open_ones) <= 9, open_ones
    assert ledger.word("A3") == "no word"
    with pytest.raises(ValueError, match="no word"):
        ledger.decide("A3")


def test_no_comparison_of_the_ledger_has_fewer_than_three_seeds():
    """The ledger says that a variant with fewer is left out."""
    for name, entry in ledger.entries().items():
        if "compare" in entry:
            rows = ledger.decide(name).comparison
            assert min([*rows["n"], *rows["n_than"].dropna()]) >= 3, name


def test_effects_of_the_papers_come_from_their_tables():
    effects = ledger.effects(ledger.entries()["E6"])
    assert len(effects) == 8  # four networks in two versions
    assert np.median(effects) == pytest.approx(0.004)


def test_an_effect_compares_losses_on_one_data_set():
    """LM's Table 4 has VGG-16-mod on ImageNet with all losses, and on Places-365 with two."""
    effects = ledger.effects(ledger.entries()["L6"])
    assert sorted(np.round(100 * np.array(effects), 2)) == [-0.11, -0.02, 0.21, 0.38, 0.39]
    assert ledger.effects(ledger.entries()["A2"]) == pytest.approx([0.02195], abs=1e-5)


def test_a_job_that_is_made_again_with_todays_page_joins_no_other_claim():
    # every page follows samples now: what the curves have does not tell the jobs apart
    for name, variant in {"E2": "activation", "B8": "units"}.items():
        runs = ledger.runs_of(ledger.entries()[name])
        assert not runs.duplicated([variant, "beta", "seed"]).any()


def test_a_text_of_a_table_is_no_html_on_a_page():
    one = runs_of({1.0: [0.90, 0.91, 0.89]}, kind="<img src=x onerror=alert(1)>")
    harmful = one.assign(schedule="<script>alert(1)</script>")
    script = {"schedule": "<script>alert(1)</script>"}
    compared = c.compare(harmful, "accuracy", script, 0.5, variant=["kind"])
    shown = c.Claim("A script is better", compared, "accuracy")._repr_html_()
    assert "<script" not in shown and "<img" not in shown
