"""Each part of each claim, met and contradicted on made-up runs, and what decides nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest

from study import claims, metrics, published
from study.claims.verdicts import variants
from study.methods import Method
from tests.study import made_up


def outcomes(claim: str, runs: pd.DataFrame) -> dict[str, str]:
    parts = made_up.verdict(claim, runs).parts
    return {part.id: part.outcome for part in parts if part.outcome != "not run"}


def networks(decided: claims.Verdict | claims.DecidedPart) -> set[str]:
    """The networks, such as "fast", of the variants that decide."""
    return {finding.variant.parts[1] for finding in decided.deciding}


def together(*runs: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(runs, ignore_index=True)


def fast(**settings) -> pd.DataFrame:
    return made_up.images(**made_up.FAST | settings)


# --- each part, met and contradicted ---

CHANCE = dict.fromkeys(("softmax", "arcface 20 0.1", "adacos"), 0.33)
MAKE: Mapping[str, Callable[[], pd.DataFrame]] = {
    "E1": made_up.feature_plane,
    "E2": made_up.curriculum,
    **dict.fromkeys(("E3", "E4", "E5"), made_up.mnist),
    **dict.fromkeys(("E6", "E11", "B2"), made_up.images),
    **dict.fromkeys(("E8", "E16", "E17", "E18"), made_up.many_classes),
    "E9": made_up.tiny_imagenet,
    "E10": made_up.with_rivals,
    "E12": functools.partial(made_up.images, dataset="tiny-imagenet"),
    "E13": made_up.oscillations,
    "E19": made_up.widths,
    "B1": made_up.matched,
    "B3": made_up.feedback,
    "B4": made_up.stepping,
    "B5": made_up.long_tailed,
    "B6": made_up.labels_of_people,
    "B7": made_up.rates_on_cifar100,
    "B8": made_up.conflict,
    **dict.fromkeys(("L3", "L4", "L6", "L10"), made_up.margins),
    "L5": made_up.degraded,
    "A2": made_up.table_i,
    "A3": functools.partial(made_up.depth, CHANCE | {"arcgrad 5": 0.9}),
    **dict.fromkeys(("A4", "A5", "A6"), made_up.cuts),
    "A7": made_up.steps,
}
ASKED_ELSEWHERE = {  # parts of other runs, each with a test of its own below
    "B1": set("cdefgh"),
    "B2": {"c"},
    "E13": {"c"},
}


@functools.cache
def runs_of(claim: str) -> pd.DataFrame:
    return MAKE[claim]()


def test_every_claim_with_a_rule_has_made_up_runs():
    """A comparison that a file spells out is the same for all claims; a rule is not."""
    with_rule = {
        name
        for name, claim in claims.ledger().items()
        for part in claim.parts.values()
        if any(one.rule for one in (part, *part.all, *part.any, *part.provided))
    }
    assert with_rule <= {*MAKE, "E14"}  # E14 has tests of its own


@pytest.mark.parametrize("claim", [claim for claim in MAKE if claim not in ("A2", "L4")])
def test_made_up_runs_meet_every_part(claim):
    found = made_up.verdict(claim, runs_of(claim))
    expected = {
        name: "shown only" if part.shown_only else "met"
        for name, part in claims.ledger()[claim].parts.items()
        if name not in ASKED_ELSEWHERE.get(claim, set())
    }
    assert outcomes(claim, runs_of(claim)) == expected
    assert found.verdict == "supported"
    assert found.scales in (("paper",), ("reduced",))
    assert found.seeds >= 3


def test_the_papers_own_table_i_and_a_bias_by_construction():
    # fifteen tables are few
    unresolved = {"a": "unresolved", "b": "unresolved", "c": "met", "d": "unresolved"}
    assert outcomes("A2", runs_of("A2")) == unresolved
    found = outcomes("L4", runs_of("L4"))
    assert found.pop("d") == "shown only"
    assert found == dict.fromkeys("abcefg", "met")


@pytest.mark.parametrize(
    ("claim", "part", "column", "changes"),
    [
        ("E1", "a", "intra_inter_ratio", {"0.1": 0.5}),
        ("E2", "c", "never_learnt", {"0.01": -0.015}),
        ("E4", "a", "test_accuracy", {"0.01": -0.02}),
        ("E4", "c", "test_accuracy", {"2": 0.05}),
        ("E6", "a", "test_accuracy", {"0.1": -0.02}),
        ("E6", "c", "test_accuracy", {"warm-up 0.1→1": -0.03}),
        ("E8", "a", "test_accuracy", {"5": -0.1}),
        ("E8", "b", "test_top5_accuracy", {"5": -0.1}),
        ("E9", "a", "test_accuracy", {"5": -0.03}),
        ("E9", "c", "train_accuracy", {"0.1": -0.05}),
        ("E10", "a", "test_accuracy", {"a-softmax 4": 0.05}),
        ("E11", "a", "test_confidence", {"0.1": -0.04}),
        ("E11", "b", "test_ece", {"20": 0.05}),
        ("E11", "d", "test_mce", {"20": 0.5}),
        ("E12", "a", "test_ece", {"5": 0.05}),
        ("E12", "b", "test_ece", {"20": 0.05}),
        ("E16", "a", "test_accuracy", {"warm-up 0.1→1": -0.1}),
        ("E17", "b", "test_confidence", {"warm-up 0.1→1": 0.1}),
        ("E18", "a", "test_accuracy", {"20": -0.15}),
        ("E18", "b", "test_confidence", {"20": 0.1}),
        ("B1", "a", "test_confidence", {"5": 0.2}),
        ("B2", "a", "test_ece_link", {"20": 0.05}),
        ("B2", "b", "test_ece_link", {"0.1": 0.05}),
        ("B3", "a", "test_ece", {"feedback 1, 5, 5": 0.1}),
        ("B3", "b", "test_accuracy", {"feedback 1, 5, 5": -0.03}),
        ("B4", "b", "train_accuracy", {"0.001": 0.02}),
        ("B5", "a", "test_accuracy", {"1": 0.2}),
        ("B5", "e", "test_accuracy", {"class-beta 0.1": 0.2}),
        ("B6", "a", "test_accuracy", {"0.1": -0.1}),
        ("B6", "e", "test_nll_temperature", {"gce 0.7": 0.2}),
        ("B7", "c", "train_accuracy", {"50": -0.05}),
        ("B8", "a", "conflict_late", {"0.001": -0.2}),
        ("B8", "c", "conflict_delay", {"0.001": -4.0}),
        ("B8", "d", "others_epoch", {"0.001": 2.0}),
        ("L3", "a", "test_accuracy", {"softmax": 0.1}),
        ("L3", "b", "test_accuracy", {"lm-uq 0.3": -0.1}),
        ("L4", "a", "test_accuracy", {"label-smoothing 0.3": 0.1}),
        ("L4", "c", "test_accuracy", {"super-symmetry": 0.1}),
        ("L4", "e", "train_margin_bias", {"label-smoothing 0.1": -0.5}),
        ("L5", "a", "test_accuracy", {"softmax": 0.1}),
        ("L6", "a", "test_accuracy", {"hinge": 0.2}),
        ("L6", "c", "test_accuracy", {"lgm 0.3 0.1": 0.2}),
        ("L10", "a", "test_accuracy", {"lm 0.1": 0.1}),
        ("A4", "a", "test_accuracy", {"softmax": 0.2}),
        ("A4", "d", "test_top5_accuracy", {"softmax": 0.1}),
        ("A6", "a", "wc_intra", {"softmax": -0.5}),
        ("A6", "b", "wc_intra", {"adacos": -0.5}),
        ("A6", "e", "c_inter", {"softmax": 0.9}),
        ("A6", "f", "w_inter", {"adacos": 0.9}),
        ("A7", "a", "criterion_seconds", {"arcgrad 10": 0.3}),
    ],
)
def test_one_part_that_is_contradicted(claim, part, column, changes):
    runs = runs_of(claim)
    changed = runs[column] + runs["schedule"].map(changes).fillna(0.0)
    runs = runs.assign(**{column: changed})
    assert outcomes(claim, runs)[part] == "contradicted"


def test_a_network_of_ten_layers_that_is_at_chance_with_arcgrad():
    runs = made_up.depth({"softmax": 0.9, "arcgrad 5": 0.33, "arcface 20 0.1": 0.9, "adacos": 0.9})
    assert outcomes("A3", runs) == {"a": "contradicted", "b": "contradicted"}


def test_a_wide_network_that_loses_samples_too():
    runs = made_up.widths()
    wide = runs["hidden"].map(lambda hidden: hidden[0] == 400) & (runs["beta"] < 1)
    counts = [
        [900.0 + seed, 59_000.0] if more else counts
        for more, seed, counts in zip(wide, runs["seed"], runs["confidence_counts"], strict=True)
    ]
    found = outcomes("E19", runs.assign(confidence_counts=counts))
    assert found == {"a": "contradicted", "b": "contradicted", "c": "met"}


@pytest.mark.parametrize(
    ("left", "right", "part", "outcome"),
    [
        (("0.001", 700), ("1", 900), "a", "contradicted"),
        (("0.001", 700), ("0.5", 800), "b", "contradicted"),
        # a step down on the way, beyond its interval
        (("0.01", 1000), ("0.1", 1100), "b", "contradicted"),
    ],
)
def test_lost_samples_of_e3(left, right, part, outcome):
    runs = made_up.mnist()
    for schedule, lost in (left, right):
        rows = runs["schedule"] == schedule
        counts = [[lost + seed, 0.0, 0.0, 0.0, 1.0] for seed in range(5)]
        runs.loc[rows, "confidence_counts"] = pd.Series(counts, runs.index[rows])
    assert outcomes("E3", runs)[part] == outcome


def test_tables_are_the_unit_and_equal_rows_stay_in_one_fold():
    apart = made_up.table_i()
    plain = made_up.verdict("A2", apart)
    assert plain.seeds == 15
    lower = made_up.table_i({"arcgrad 5": -20.0}, duplicates_together=True)
    iris = made_up.verdict("A2", together(apart, lower[lower["title"] == "Iris"]))
    with_iris, without = (verdict.parts[0].findings[0].difference.mean for verdict in (iris, plain))
    assert with_iris == pytest.approx(without - 0.2 / 15, abs=1e-4)
    assert made_up.verdict("A2", made_up.table_i(seeds=9)).verdict == "not run"
    assert made_up.verdict("A2", apart[apart["loss"] != "adacos"]).verdict == "not run"


def test_folds_are_the_unit_of_the_deep_networks():
    """Ten times ten folds with Nadeau and Bengio's variance, instead of ten means of ten folds."""
    runs = made_up.depth(CHANCE | {"arcgrad 5": 0.9})
    each = [
        list(np.array(folds) + 0.01 * np.sin(row + np.arange(10)))
        for row, folds in enumerate(runs["fold_accuracies"])
    ]
    runs = runs.assign(fold_accuracies=each)
    found = next(made_up.verdict("A3", runs).parts[0].findings[0].comparisons()).difference
    deep = runs[runs["hidden"].map(len) == 9].set_index("loss")["fold_accuracies"]
    ours, theirs = (np.concatenate(deep[name].tolist()) for name in ("arcgrad 5", "softmax"))
    d = ours - theirs
    assert found.n == 100
    assert found.freedom == 99
    assert found.mean == pytest.approx(d.mean())
    assert found.error == pytest.approx(d.std(ddof=1) * np.sqrt(1 / 100 + 1 / 9))


def with_temperatures() -> pd.DataFrame:
    """Three pairs of β and τ: at the same confidence β = 1 loses more samples."""
    run = {
        "campaign": "mnist",
        "record": "temperature-seed0.json",
        "experiment": "train",
        "dataset": "mnist",
        "validation_size": 5000,
        "activation": "relu",
        "normalization": "unit",
        "scale": "paper",
    }
    pairs = ((0.01, 1.0, 0.99, 300), (1.0, 1.0, 0.9, 900), (1.0, 0.25, 0.9902, 500))
    rows = [
        run
        | {
            "schedule": f"{beta:g}",
            "beta": beta,
            "temperature": tau,
            "seed": seed,
            "train_confidence": confidence + 1e-5 * seed,
            "confidence_counts": [lost + seed, 1],
            "valid_accuracy": confidence,
            "test_accuracy": 0.9 + 0.01 * lost,
        }
        for seed in range(5)
        for beta, tau, confidence, lost in pairs
    ]
    return pd.DataFrame(rows)


def test_the_same_confidence_is_a_condition():
    runs = with_temperatures()
    assert outcomes("E14", runs)["a"] == "met"
    runs.loc[runs["temperature"] == 0.25, "train_confidence"] += 0.004
    assert outcomes("E14", runs)["a"] == "unresolved"


@pytest.mark.parametrize(
    ("both", "outcome"), [(0.98, "met"), (0.95, "unresolved"), (0.90, "contradicted")]
)
def test_the_best_pair_against_the_best_of_either_alone(both, outcome):
    """The pair β = 0.01, τ = 0.25 is the best on the validation split."""
    runs = with_temperatures()
    pair = runs[runs["temperature"] == 0.25].assign(
        beta=0.01, schedule="0.01", valid_accuracy=0.999
    )
    runs = together(runs.assign(test_accuracy=0.95), pair.assign(test_accuracy=both))
    noise = 0.0001 * np.sin(np.arange(len(runs)))
    runs = runs.assign(test_accuracy=runs["test_accuracy"] + noise)
    assert outcomes("E14", runs)["b"] == outcome


def test_the_link_on_mnist():
    runs = made_up.mnist()
    noise = 0.001 * np.sin(np.arange(len(runs)))
    runs = runs.assign(record="link-relu-unit.json", campaign="mnist-edges", train_accuracy=0.995)
    runs = runs.assign(test_ece=0.02 + noise, test_ece_link=0.01 - noise)
    assert outcomes("B2", runs) == {"c": "met"}
    assert outcomes("B2", runs.assign(test_ece=0.0)) == {"c": "contradicted"}


# --- the premise ---


@pytest.mark.parametrize("claim", ["E8", "E9", "E11", "E12", "E16", "E18", "B2"])
def test_outside_the_premise_a_finding_is_shown_and_decides_nothing(claim):
    runs = runs_of(claim)
    lower = runs.assign(train_accuracy=runs["train_accuracy"] - 0.006)  # 98.9 % with β = 1
    found = made_up.verdict(claim, lower)
    assert found.verdict == "outside the premise"
    assert set(outcomes(claim, lower).values()) == {"outside the premise"}
    findings = [finding for part in found.parts for finding in part.findings]
    assert len(findings) == len(made_up.verdict(claim, runs).deciding)
    assert all(finding.outside and not finding.decides for finding in findings)
    listed = claims.findings([found])
    assert listed["outside"].all()
    assert not listed["decides"].any()
    assert listed["p (Holm)"].isna().all()
    assert (listed["outcome"] == "met").any()  # by its interval alone


def test_the_premise_is_the_mean_over_the_seeds_and_needs_its_number():
    runs = runs_of("E11")
    ones = runs["schedule"] == "1"
    by_seed = runs["seed"].map({0: 0.980, 1: 0.995, 2: 0.996})
    one_below = runs.assign(train_accuracy=runs["train_accuracy"].mask(ones, by_seed))
    assert made_up.verdict("E11", one_below).verdict == "supported"
    without = runs.drop(columns="train_accuracy")
    assert made_up.verdict("E11", without).verdict == "outside the premise"
    assert made_up.verdict("E6", without).verdict == "supported"  # it has no premise


def test_a_variant_within_the_premise_decides_beside_one_outside():
    within = fast(dataset="cifar100")
    outside = fast().assign(train_accuracy=0.95, test_ece=0.05)
    found = made_up.verdict("E11", together(within, outside))
    assert found.verdict == "supported"
    assert {finding.variant.dataset for finding in found.deciding} == {"cifar100"}
    shown = [one for part in found.parts for one in part.findings if not one.decides]
    assert {one.variant.dataset for one in shown} == {"cifar10"}


def test_older_runs_outside_the_premise_are_told_so():
    found = made_up.verdict("E11", together(made_up.images().assign(train_accuracy=0.5), fast()))
    shown = [one for part in found.parts for one in part.findings if not one.decides]
    assert {one.variant.network for one in shown} == {"resnet18"}
    assert all(one.outside for one in shown)


# --- networks at real accuracy ---


def test_older_runs_stop_deciding_once_the_planned_seeds_are_there():
    older = made_up.images()
    before = made_up.verdict("E6", together(older, fast(seeds=4)))
    assert networks(before) == {"resnet18×0.25"}
    after = made_up.verdict("E6", together(older, fast()))
    assert networks(after) == {"fast"}
    assert sorted((finding.outcome, finding.decides) for finding in after.parts[0].findings) == [
        ("met", False),
        ("met", True),
    ]
    elsewhere = made_up.verdict("E6", together(older, fast(dataset="cifar100")))
    assert elsewhere.deciding


def test_a_variant_that_is_under_way_decides_nothing():
    """Otherwise each record would complete another comparison, and change the best of several."""
    runs = fast()
    one_missing = runs[(runs["schedule"] != "0.01") | (runs["seed"] != 4)]
    for claim in ("E6", "E11"):
        assert made_up.verdict(claim, one_missing).verdict == "not run"
    step = made_up.stepping()
    assert made_up.verdict("B4", step).deciding
    assert not made_up.verdict("B4", step.iloc[:-1]).deciding
    tail = made_up.long_tailed()
    assert made_up.verdict("B5", tail).deciding
    assert not made_up.verdict("B5", tail.iloc[:-1]).deciding


def test_a_setting_beyond_the_plan_waits_for_its_own_seeds():
    runs = fast(dataset="cifar100")
    further = runs[runs["schedule"] == "20"].assign(schedule="50", beta=50.0, test_accuracy=0.5)
    few = made_up.verdict("E18", together(runs, further[further["seed"] < 4]))
    assert "β = 20 against" in few.parts[0].findings[0].text
    enough = made_up.verdict("E18", together(runs, further))
    assert "β = 50 against" in enough.parts[0].findings[0].text
    names = ["softmax", "lm 0.3", "modified", "l-softmax 2"]
    losses = made_up.margins(names, model="fast", width=1.0, dataset="cifar100")
    one, begun = losses["loss"] == "l-softmax 2", losses["seed"] < 2
    assert outcomes("L6", losses[~one | begun]) == outcomes("L6", losses[~one])


PLAIN = {"augmentation": "none"}
FOUR = ("20", "1", "0.1", "warm-up 0.1→1")


def test_of_several_plans_the_largest_that_is_complete_counts():
    """CIFAR-10 without augmentation: four methods with three seeds, later all six with five."""
    all_six = fast(**PLAIN)
    four = all_six[all_six["schedule"].isin(FOUR)]
    more = all_six[~all_six["schedule"].isin(FOUR)]
    assert not made_up.verdict("E6", four[four["seed"] < 2]).deciding
    three_seeds = made_up.verdict("E6", four[four["seed"] < 3])
    assert three_seeds.seeds == 3
    assert outcomes("E6", four[four["seed"] < 3]) == {"a": "met", "c": "met"}  # no β = 5 for b
    under_way = made_up.verdict("E6", together(four, more[more["seed"] < 4]))
    assert under_way.seeds == 3  # seeds beyond the smaller plan wait
    assert made_up.verdict("E6", all_six).seeds == 5


def test_the_plan_of_cifar_100_without_augmentation_has_both_warm_ups():
    runs = made_up.many_classes().assign(**PLAIN)
    fifty = runs[runs["schedule"] == "20"].assign(schedule="50", beta=50.0)
    planned = together(runs[runs["schedule"] != "0.01"], fifty)
    assert made_up.verdict("E16", planned).seeds == 5
    for schedule in ("50", "20", "5", "1", "0.1", "warm-up 0.1→1", "warm-up 1→5"):
        last = (planned["schedule"] == schedule) & (planned["seed"] == 4)
        assert made_up.verdict("E16", planned[~last]).verdict == "not run", schedule


def test_only_the_seeds_of_the_plan_count():
    four = fast(**PLAIN)
    four = four[four["schedule"].isin(FOUR)]
    four = claims.runs_of(four, "images")
    variant, images = four["variant"].iloc[0], claims.selection("images")
    kept, least = claims.counted(four, images, variant)
    assert least == 3
    assert set(kept["seed"]) == {0, 1, 2}
    assert claims.complete(kept, images, variant)
    assert not claims.complete(kept[kept["schedule"] != "20"], images, variant)


def test_falls_are_added_up_over_one_cycle():
    runs = fast(epochs=4)
    noise = 0.01 * runs["seed"] * np.arange(len(runs)) / 100
    sizes = runs["schedule"].map({"5": 0.2}).fillna(0.1) + noise
    runs["curve_test_accuracy"] = [[0.1, 0.5, 0.5 - size, 0.6, 0.6 - size] for size in sizes]
    found = made_up.verdict("E13", runs).parts[2].findings[0]
    assert found.outcome == "met"
    assert found.difference.mean == pytest.approx(0.2, abs=0.03)


def test_chosen_learning_rates():
    """β = 0.1 is ahead at the common rate only.

    At the rates chosen on the validation split all are alike.
    """
    common = fast(valid_accuracy=0.8)
    common = common[common["schedule"].isin(["5", "1", "0.1"])]
    valid = common["schedule"].map({"1": 0.7}).fillna(0.9)
    other = common.assign(learning_rate=0.1, valid_accuracy=valid)
    ones = common.loc[common["schedule"] == "1", "test_accuracy"].to_numpy()
    for schedule in ("5", "0.1"):
        level = ones + 1e-4 * np.array([-1, 1, 0, 1, -1])
        other.loc[other["schedule"] == schedule, "test_accuracy"] = level
    third = common.assign(learning_rate=0.4, valid_accuracy=0.6)
    both = together(common, other, third)
    decided = {"c": "met", "d": "contradicted", "e": "met"}
    assert outcomes("B1", both) == decided
    assert outcomes("B1", both[both["learning_rate"] != 0.4]) == {}  # two rates are no choice
    # a rate counts with three seeds
    fourth = other[other["seed"] < 2].assign(learning_rate=0.05, valid_accuracy=1.0)
    assert outcomes("B1", together(both, fourth)) == decided
    at_common, one, late = both["learning_rate"] != 0.1, both["schedule"] == "1", both["seed"] > 2
    # seeds that the other rate may lack do not choose
    both.loc[late & at_common & ~one, "valid_accuracy"] = 1.0
    few = both[~late | (at_common == one)]
    assert outcomes("B1", few) == {"c": "met", "d": "contradicted"}
    assert outcomes("B1", both[~late | at_common]) == {}  # no five seeds at the chosen rates
    assert outcomes("B1", both[at_common | (both["seed"] < 2)]) == {}  # no three seeds to choose by
    # and of β = 1 too few rates
    assert outcomes("B1", both[at_common | ~one]) == {"c": "met", "e": "met"}


def test_a_large_beta_that_stays_behind_at_its_best_rate():
    """The steps of β = 50 are not why it is behind, those of β = 5 are."""
    runs = made_up.rates_on_cifar100()
    large = runs["schedule"].eq("50") & runs["learning_rate"].eq(0.1)
    lower = runs["test_accuracy"] - 0.1 * large
    found = made_up.verdict("B7", runs.assign(test_accuracy=lower))
    assert found.why == "a: contradicted; b: met; c: met"
    # the first lead must be there
    level = runs["test_accuracy"].mask(runs["learning_rate"].eq(0.01), 0.92)
    assert outcomes("B7", runs.assign(test_accuracy=level))["a"] == "unresolved"
    assert outcomes("B7", runs[runs["seed"] < 4]) == {}
    assert outcomes("B7", runs.assign(dataset="cifar10")) == {}


def test_chosen_learning_rates_on_mnist():
    """At the papers' rate β = 0.1 is 2.5 points ahead of β = 5, at the chosen rates behind."""
    grid = made_up.mnist().assign(
        campaign="learning-rate",
        record="rate-",
        dataset="mnist",
        test_confidence=0.99,
        learning_rate=0.001,
        valid_accuracy=0.9,
    )
    behind = 0.98 - 0.01 * grid["beta"].eq(0.1) + 0.001 * grid["seed"]
    best = grid.assign(learning_rate=0.01, valid_accuracy=0.95, test_accuracy=behind)
    large = grid.assign(learning_rate=0.1, valid_accuracy=0.8)
    runs = together(grid, best, large)
    assert outcomes("B1", runs) == {"f": "met", "g": "met", "h": "met"}
    assert outcomes("B1", runs[runs["seed"] < 4]) == {}


def test_a_matched_rate_on_the_small_network_waits_for_all_its_seeds():
    older, plain = made_up.matched(), fast()
    matched = plain[plain["schedule"].isin(["5", "0.1"])].assign(match_gradient=True)
    for missing, decides in ((1, "resnet18×0.25"), (0, "fast")):
        runs = together(older, plain, matched[: len(matched) - missing])
        assert networks(made_up.verdict("B1", runs)) == {decides}


def test_beta_1_of_a_small_network_is_softmax_for_the_other_losses():
    runs = made_up.margins(
        ["softmax", "lm 0.3", "modified"],
        model="fast",
        width=1.0,
        dataset="cifar100",
        augmentation="crop2-flip",
    )
    plain = runs["loss"] == "softmax"
    schedule = runs["schedule"].mask(plain, "1")
    runs = runs.assign(loss=runs["loss"].mask(plain, "gd"), schedule=schedule)
    assert outcomes("L3", runs) == {"a": "met"}
    assert outcomes("L6", runs) == {"b": "met", "c": "met"}  # "the best of" those that were run


@pytest.mark.parametrize(
    ("claim", "newer", "rest"),
    [("L3", {"a"}, {"b", "c", "d"}), ("L6", {"b", "c"}, {"a", "d"}), ("L10", set(), {"a"})],
)
def test_of_other_losses_older_runs_stop_deciding_part_by_part(claim, newer, rest):
    older = made_up.margins(dataset="cifar10-jpeg")
    names = ["softmax", "lm 0.3", "modified"]
    few = made_up.margins(names, model="fast", width=1.0, dataset="cifar100")
    decided = made_up.verdict(claim, together(older, few))
    by_part = {part.id: networks(part) for part in decided.parts}
    expected = dict.fromkeys(newer, {"fast"}) | dict.fromkeys(rest, {"vgg16×0.25"})
    assert by_part == expected
    for part in decided.parts:  # where the small network decides, the older runs are shown
        shown = [one for one in part.findings if not one.decides]
        assert len(shown) == (part.id in newer)


# --- which runs count ---


@pytest.mark.parametrize(
    ("claim", "runs"),
    [
        ("E4", made_up.mnist(seeds=4)),
        ("E6", made_up.images(seeds=2)),
        ("E6", made_up.images(scale="smoke")),
        ("E6", made_up.images(diverged=True)),
        ("E6", made_up.images(loss="arcgrad 10")),
        ("E6", pd.DataFrame({"record": ["a-seed0.json"], "campaign": ["mnist"]})),
        ("E8", made_up.images()),
        ("E11", made_up.images(imbalance=100.0)),
        ("E13", made_up.oscillating(0.9, 0.01, {"5": 0.05, "0.1": 0.01})),
        ("L3", made_up.margins(lr_schedule="milestones")),
        ("L5", made_up.margins()),
        ("A5", made_up.trained()),
        ("A7", made_up.steps(repetitions=4)),
        ("E4", pd.DataFrame()),
        ("E6", fast(campaign="wrong-labels", labels="worst")),
        ("B6", made_up.labels_of_people(labels="clean")),
    ],
)
def test_what_decides_nothing(claim, runs):
    assert made_up.verdict(claim, runs).verdict == "not run"


def test_a_set_of_labels_waits_until_every_loss_was_run():
    runs = made_up.labels_of_people()
    there = runs[(runs["schedule"] != "focal 2") | (runs["seed"] > 0)]
    assert made_up.verdict("B6", runs).verdict == "supported"
    assert made_up.verdict("B6", there).verdict == "not run"


def test_runs_that_chose_a_learning_rate_decide_nothing():
    runs = made_up.trained()
    tried = runs[(runs["loss"] == "softmax") & (runs["seed"] == 0)].assign(record="reading.json")
    reading = together(tried, tried.assign(learning_rate=0.1, test_accuracy=0.99))
    found = claims.runs_of(together(runs, reading), "angular")
    assert set(found["record"]) == set(runs["record"])
    assert len(found) == len(runs)


def test_runs_of_two_sizes_are_two_variants():
    at_scale = made_up.images(scale="paper", subset=0, epochs=200)
    runs = together(made_up.images(), made_up.images(epochs=16), at_scale)
    name = "cifar10-jpeg, resnet18×0.25, unaugmented"
    sizes = claims.runs_of(runs, "cifar10").groupby("variant").size()
    assert sizes.rename(str).to_dict() == {
        name: 18,
        f"{name}, 6,000 images, 8 epochs": 18,
        f"{name}, 6,000 images, 16 epochs": 18,
    }


def test_only_the_second_half_at_the_first_rate_oscillates():
    runs = made_up.oscillating(0.9, 0.01, {"5": 0.0, "0.1": 0.0})
    runs["curve_test_accuracy"] = [[0.1, 0.9, 0.1, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5]] * len(runs)
    both = together(runs, runs.assign(momentum=0.0))
    assert (claims.runs_of(both, "oscillation")["oscillation"] == 0).all()
    falling = both.assign(milestones=[[0.5]] * len(both))
    # epochs 2 to 4
    assert (claims.runs_of(falling, "oscillation")["oscillation"] > 0.5).all()


def test_cuts_at_the_paper_s_scale():
    """Fewer samples with 20 epochs beside a full training of 120 epochs with all samples only."""
    few = made_up.trained({"arcgrad 10": 0.04}, epochs=20, samples=1500)
    runs = together(made_up.trained(epochs=120), made_up.trained(epochs=20), few)
    found = made_up.verdict("A5", runs).parts[0].findings[0]
    assert found.outcome == "met"
    assert "1\u2009500 samples" in found.text


def test_a_variant_with_one_seed_is_no_rival():
    one = made_up.margins(["lgm 0.3 0.1"], seeds=1).assign(loss="lgm 0 0", schedule="lgm 0 0")
    assert outcomes("L6", together(one, made_up.margins()))["c"] == "met"


def test_image_networks_of_any_scale_are_independent_and_perceptrons_are_not():
    kinds = {"images": made_up.images(), "cost": made_up.steps(), "grid": made_up.mnist()}
    independent = {
        kind: [variant.independent for variant in variants(claims.runs_of(runs, kind), kind)]
        for kind, runs in kinds.items()
    }
    assert independent == {"images": [True], "cost": [False], "grid": [False]}


# --- the papers' tables that runs are held against ---


class TestTableI:
    def test_as_printed(self):
        printed = claims.paper_table_i()
        assert printed.shape == (15, 7)
        assert printed.notna().all(axis=None)
        assert printed.mean().round(2)[Method.parse("softmax")] == pytest.approx(79.56, abs=0.01)
        assert claims.won(printed).sum()[Method.parse("arcgrad 5")] >= 7  # the paper counts 7

    def test_ties_share_a_win(self):
        scores = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 1.0, 4.0]})
        assert claims.won(scores).sum().to_dict() == {"a": 1.5, "b": 1.5}

    def test_the_nearest_variant_is_the_one_that_is_the_paper(self):
        near = made_up.table_i(epochs=50)
        far = made_up.table_i({"softmax": 4.0}, epochs=50, learning_rate=0.01)
        runs = claims.runs_of(together(far, near), "uci-readings")
        distances = claims.distance_to_table_i(runs)
        assert set(distances["epochs"]) == {10, 20, 50}  # 30 was not to be looked at
        first = distances.iloc[0]
        assert (str(first["variant"]), first["epochs"]) == ("standard, sgd 0.1, 16 units", 20)
        assert first["distance"] == pytest.approx(0.0, abs=0.01)


def test_distance_is_zero_for_the_papers_own_table():
    printed = published.table("GD-2", 1)
    frame = made_up.mnist()
    for beta in ("1", "0.5", "0.1", "0.01", "0.001"):
        counts = printed.loc[np.isclose(printed["beta"], float(beta)), "value"].tolist()
        rows = frame["schedule"] == beta
        repeated = pd.Series([counts] * rows.sum(), index=frame.index[rows])
        frame.loc[rows, "confidence_counts"] = repeated
    grid = claims.runs_of(frame, "grid")
    assert claims.distance_to_table_1(grid)["relu-unit"] == 0.0


def test_an_unknown_kind():
    with pytest.raises(ValueError, match="valid: .*grid"):
        claims.runs_of(made_up.mnist(), "everything")


def test_every_metric_has_its_words():
    for name, metric in metrics.METRICS.items():
        assert metric.name == name
        assert metric.title[0].islower() or metric.title.startswith(("W", "C", "ECE"))
    assert set(map(Method.parse, made_up.RIVALS)) < set(published.printed()["method"])
