"""Rules and combinators; each criterion met, contradicted and not run on made-up runs; which runs count."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from study import claims, published
from study.claims import Variant, rules
from tests.study import made_up


def variant(seeds: int = 5, some: bool = False, pooled: bool = False, **means: float) -> Variant:
    """A variant with one metric ``x``; "a" with mean 1 and so on, each with its own noise of about 0.01."""
    generator = np.random.default_rng(1)
    rows = [
        {"setting": name, "seed": seed, "x": mean + 0.01 * generator.normal()}
        for name, mean in means.items()
        for seed in range(seeds)
    ]
    return Variant("v", pd.DataFrame(rows), 2, some=some, pooled=pooled)


@pytest.mark.parametrize(
    ("rule", "difference", "outcome"),
    [
        (lambda v: v.larger("x", "a", "b"), 0.1, "met"),
        (lambda v: v.larger("x", "a", "b"), 0.0, "unresolved"),
        (lambda v: v.larger("x", "a", "b"), -0.1, "contradicted"),
        (lambda v: v.larger("x", "a", "b", by=0.2), 0.1, "contradicted"),
        (lambda v: v.smaller("x", "a", "b"), -0.1, "met"),
        (lambda v: v.smaller("x", "a", "b"), 0.0, "unresolved"),
        (lambda v: v.smaller("x", "a", "b"), 0.1, "contradicted"),
        (lambda v: v.smaller("x", "a", "b", by=0.2), 0.1, "met"),
        (lambda v: v.differs("x", "a", "b"), -0.1, "met"),
        (
            lambda v: v.differs("x", "a", "b"),
            0.0,
            "unresolved",
        ),  # without a margin nothing speaks for equality
        (lambda v: v.differs("x", "a", "b", margin=0.05), 0.0, "contradicted"),
        (lambda v: v.within(0.05, "x", "a", "b"), 0.0, "met"),
        (lambda v: v.within(0.05, "x", "a", "b"), 0.05, "unresolved"),
        (lambda v: v.within(0.05, "x", "a", "b"), -0.2, "contradicted"),
        (lambda v: v.larger("x", "a"), -1.1, "contradicted"),  # one side against 0
    ],
)
@pytest.mark.parametrize("pooled", [False, True])
def test_an_interval_against_the_threshold_of_its_rule(rule, difference, outcome, pooled):
    finding = rule(variant(a=1 + difference, b=1, pooled=pooled))
    assert finding.outcome == outcome
    assert (
        (finding.p_value < 0.05) == (outcome != "unresolved")
        or "differs" in finding.text
        or difference == 0
    )


@pytest.mark.parametrize(
    ("combined", "first", "second", "outcome"),
    [
        ("all_of", "low", "low", "met"),
        ("all_of", "low", "same", "unresolved"),
        ("all_of", "low", "high", "contradicted"),
        ("any_of", "high", "low", "met"),
        ("any_of", "high", "same", "unresolved"),
        ("any_of", "high", "high", "contradicted"),
        ("provided", "low", "high", "contradicted"),
        ("provided", "same", "low", "unresolved"),
    ],
)
def test_combinations(combined, first, second, outcome):
    v = variant(a=1, low=0.5, high=1.5, same=1)
    finding = getattr(v, combined)(v.larger("x", "a", first), v.larger("x", "a", second))
    assert finding.outcome == outcome
    assert [leaf.difference is not None for leaf in finding.leaves()] == [True, True]


def test_the_best_of_waits_for_all_rivals_or_takes_those_that_were_run():
    assert variant(b=0.5, c=0.6).best_of("b", "c", by="x").name == "c"
    assert variant(b=0.5).best_of("b", "c", by="x") is None
    assert variant(b=0.5, some=True).best_of("b", "c", by="x").name == "b"
    assert (
        variant(**{"b 1": 0.5, "b 2": 0.7, "bb 3": 0.9}).best_of("b", by="x").name == "b 2"
    )  # whatever its numbers
    for some in (False, True):
        v = variant(a=1, low=0.5, some=some)
        assert v.larger("x", "a", v.best_of("b", by="x")) is None
        assert bool(v.all_of(v.larger("x", "a", "low"), v.larger("x", "a", "high"))) == some


def test_a_part_of_the_runs():
    v = variant(a=1, b=0)
    v = Variant("v", v.runs.assign(rate=[0.1, 0.1, 0.1, 0.2, 0.2] * 2))
    part = v.at("rate 0.1", rate=0.1)
    assert (
        part.larger("x", "a", "b").difference.n == 3
        and part.larger("x", "a", "b").text == "x, a against b, rate 0.1"
    )
    lead = rules.minus(part.of("x", "a"), part.of("x", "b"))
    assert v.larger("x", lead).text == "x, a minus b" and lead.numbers.tolist() == list(
        part.larger("x", "a", "b").difference.values
    )
    assert v.at(rate=0.3).larger("x", "a", "b") is None


def test_too_few_pairs_and_runs_that_are_not_one_for_each_seed():
    one = variant(a=1, b=0)
    assert Variant("v", one.runs, 6).larger("x", "a", "b") is None
    with pytest.raises(ValueError, match="two runs of one seed"):
        Variant("v", pd.concat([one.runs, one.runs])).larger("x", "a", "b")


# --- each criterion, met and contradicted ---


def outcomes(claim: str, runs: pd.DataFrame) -> dict[str, str]:
    return {
        part.id: part.outcome
        for part in made_up.verdict(claim, runs).parts
        if part.outcome != "not run"
    }


MATCHED = pd.concat([made_up.images(), made_up.images(match_gradient=True)], ignore_index=True)
OSCILLATING = pd.concat(
    [
        made_up.oscillating(0.9, 0.01, {"5": 0.05, "0.1": 0.01}),
        made_up.oscillating(0.0, 0.01, {"5": 0.01, "0.1": 0.02}),
        made_up.oscillating(0.0, 0.1, {"5": 0.01, "0.1": 0.02}),
    ],
    ignore_index=True,
)
CONSTANT = made_up.images()[lambda runs: runs["schedule"] == "1"]
FOLLOWING = CONSTANT.assign(
    schedule="feedback 1, 5, 5",
    test_ece=CONSTANT["test_ece"] / 2,
    test_accuracy=CONSTANT["test_accuracy"] - 0.001,
)
FEEDBACK = pd.concat(
    [CONSTANT, FOLLOWING, FOLLOWING.assign(match_gradient=True)], ignore_index=True
)
BALANCED = {
    "1": 0.5,
    "0.1": 0.45,
    "class-beta 0.1": 0.6,
    "adjusted 1": 0.7,
    "adjusted 0.1": 0.65,
    "weighted 0.1": 0.55,
}
TAIL = pd.concat([CONSTANT] * len(BALANCED), ignore_index=True).assign(
    imbalance=100.0, test_accuracy_link=0.68, model="fast", width=1.0
)
TAIL["schedule"] = [name for name in BALANCED for _ in range(3)]
TAIL["loss"] = TAIL["schedule"].where(TAIL["schedule"].str.contains(" "), "gd")
TAIL["beta"] = TAIL["schedule"].eq("0.1").map({True: 0.1, False: 1.0})
TAIL["test_accuracy"] = TAIL["schedule"].map(BALANCED) + 0.001 * TAIL["seed"] * np.sin(TAIL.index)
CHANCE = dict.fromkeys(("softmax", "arcface 20 0.1", "adacos"), 0.33)
MANY = made_up.images(dataset="tiny-imagenet")
RUNS = {
    **dict.fromkeys(["E3", "E4", "E5"], made_up.mnist()),
    **dict.fromkeys(["E6", "E11", "B2"], made_up.images()),
    **{
        "B4": made_up.stepping(),
        "E12": MANY,
        "E10": made_up.with_rivals(),
        "E13": OSCILLATING,
        "B1": MATCHED,
        "B3": FEEDBACK,
        "B5": TAIL,
        "E19": made_up.widths(),
    },
    **dict.fromkeys(["L3", "L4", "L6"], made_up.margins()),
    **{
        "L5": made_up.degraded(),
        "A2": made_up.table_i(),
        "A3": made_up.depth(CHANCE | {"arcgrad 5": 0.9}),
    },
    **dict.fromkeys(["A4", "A5", "A6"], made_up.cuts()),
    **{"A7": made_up.steps()},
}


@pytest.mark.parametrize("claim", [claim for claim in RUNS if claim not in ("A2", "L4")])
def test_made_up_runs_meet_every_part(claim):
    found = made_up.verdict(claim, RUNS[claim])
    assert set(outcomes(claim, RUNS[claim]).values()) == {"met"}
    assert found.verdict == (
        "supported" if all(part.deciding for part in found.parts) else "partly supported"
    )
    assert found.scale and found.seeds >= 3


def test_the_papers_own_table_i_and_a_bias_by_construction():
    assert outcomes("A2", RUNS["A2"]) == {
        "a": "unresolved",
        "b": "unresolved",
        "c": "met",
        "d": "unresolved",
    }  # fifteen are few
    assert outcomes("L4", RUNS["L4"]) == {
        "a": "met",
        "b": "met",
        "c": "met",
        "d": "shown only",
        "e": "met",
        "f": "met",
    }


@pytest.mark.parametrize(
    ("claim", "part", "column", "changes"),
    [
        ("E4", "a", "test_accuracy", {"0.01": -0.02}),
        ("E4", "c", "test_accuracy", {"2": 0.05}),
        ("E6", "a", "test_accuracy", {"0.1": -0.02}),
        ("E6", "c", "test_accuracy", {"warm-up 0.1→1": -0.03}),
        ("E11", "a", "test_confidence", {"0.1": -0.04}),
        ("E11", "b", "test_ece", {"20": 0.05}),
        ("E11", "d", "test_mce", {"20": 0.5}),
        ("E12", "a", "test_ece", {"5": 0.05}),
        ("E12", "b", "test_ece", {"20": 0.05}),
        ("B2", "a", "test_ece_link", {"20": 0.05}),
        ("B2", "b", "test_ece_link", {"0.1": 0.05}),
        ("B1", "a", "test_confidence", {"5": 0.2}),
        ("B5", "a", "test_accuracy", {"1": 0.2}),
        ("B5", "e", "test_accuracy", {"class-beta 0.1": 0.2}),
        ("E10", "a", "test_accuracy", {"a-softmax 4": 0.05}),
        ("L3", "a", "test_accuracy", {"softmax": 0.1}),
        ("L3", "b", "test_accuracy", {"lm-uq 0.3": -0.1}),
        ("L4", "a", "test_accuracy", {"label-smoothing 0.3": 0.1}),
        ("L4", "c", "test_accuracy", {"super-symmetry": 0.1}),
        ("L4", "e", "train_margin_bias", {"label-smoothing 0.1": -0.5}),
        ("L6", "a", "test_accuracy", {"hinge": 0.2}),
        ("L6", "c", "test_accuracy", {"lgm 0.3 0.1": 0.2}),
        ("A4", "a", "test_accuracy", {"softmax": 0.2}),
        ("A6", "a", "wc_intra", {"softmax": -0.5}),
        ("A6", "b", "wc_intra", {"adacos": -0.5}),
        ("A7", "a", "criterion_seconds", {"arcgrad 10": 0.3}),
    ],
)
def test_one_part_that_is_contradicted(claim, part, column, changes):
    runs = RUNS[claim]
    runs = runs.assign(**{column: runs[column] + runs["schedule"].map(changes).fillna(0.0)})
    assert outcomes(claim, runs)[part] == "contradicted"


@pytest.mark.parametrize(
    ("left", "right", "part", "outcome"),
    [
        (("0.001", 700), ("1", 900), "a", "contradicted"),
        (("0.001", 700), ("0.5", 800), "b", "contradicted"),
        (
            ("0.01", 1000),
            ("0.1", 1100),
            "b",
            "contradicted",
        ),  # a step down on the way, beyond its interval
    ],
)
def test_lost_samples_of_e3(left, right, part, outcome):
    runs = made_up.mnist()
    for schedule, lost in (left, right):
        rows = runs["schedule"] == schedule
        runs.loc[rows, "confidence_counts"] = pd.Series(
            [[lost + seed, 0.0, 0.0, 0.0, 1.0] for seed in range(5)], runs.index[rows]
        )
    assert outcomes("E3", runs)[part] == outcome


def test_tables_are_the_unit_and_equal_rows_stay_in_one_fold():
    apart = made_up.table_i()
    assert made_up.verdict("A2", apart).seeds == 15
    together = made_up.table_i({"arcgrad 5": -20.0}, duplicates_together=True)
    iris = (
        made_up.verdict(
            "A2", pd.concat([apart, together[together["title"] == "Iris"]], ignore_index=True)
        )
        .parts[0]
        .findings[0]
    )
    plain = made_up.verdict("A2", apart).parts[0].findings[0]
    assert iris.difference.mean == pytest.approx(plain.difference.mean - 0.2 / 15, abs=1e-4)
    assert made_up.verdict("A2", made_up.table_i(seeds=9)).verdict == "not run"
    assert made_up.verdict("A2", apart[apart["loss"] != "adacos"]).verdict == "not run"


def test_the_same_confidence_is_a_condition():
    rows = []
    for seed in range(5):
        for beta, tau, confidence, lost in (
            (0.01, 1.0, 0.99, 300),
            (1.0, 1.0, 0.9, 900),
            (1.0, 0.25, 0.9902, 500),
        ):
            row = {
                "campaign": "mnist",
                "record": f"temperature-seed{seed}.json",
                "activation": "relu",
                "normalization": "unit",
                "scale": "paper",
            }
            row |= {
                "schedule": f"{beta:g}",
                "beta": beta,
                "temperature": tau,
                "seed": seed,
                "train_confidence": confidence + 1e-5 * seed,
            }
            rows.append(
                row
                | {
                    "confidence_counts": [lost + seed, 1],
                    "valid_accuracy": confidence,
                    "test_accuracy": 0.9 + 0.01 * lost,
                }
            )
    runs = pd.DataFrame(rows)
    assert outcomes("E14", runs)["a"] == "met"
    runs.loc[runs["temperature"] == 0.25, "train_confidence"] += 0.004
    assert outcomes("E14", runs)["a"] == "unresolved"


# --- networks at real accuracy ---


def fast(**settings) -> pd.DataFrame:
    return made_up.images(**made_up.FAST | settings)


def test_older_runs_stop_deciding_once_the_planned_seeds_are_there():
    older = made_up.images()
    before = made_up.verdict("E6", pd.concat([older, fast(seeds=4)], ignore_index=True))
    assert {finding.variant.split(", ")[1] for finding in before.deciding} == {"resnet18×0.25"}
    after = made_up.verdict("E6", pd.concat([older, fast()], ignore_index=True))
    assert {finding.variant.split(", ")[1] for finding in after.deciding} == {"fast"}
    assert sorted((finding.outcome, finding.decides) for finding in after.parts[0].findings) == [
        ("met", False),
        ("met", True),
    ]
    elsewhere = made_up.verdict(
        "E6", pd.concat([older, fast(dataset="cifar100")], ignore_index=True)
    )
    assert elsewhere.deciding


def test_a_variant_that_is_under_way_decides_nothing():
    """With each record that lands another comparison would be complete, and the best of those that were run another one."""
    runs = fast()
    one_missing = runs[(runs["schedule"] != "0.01") | (runs["seed"] != 4)]
    assert (
        made_up.verdict("E6", one_missing).verdict
        == made_up.verdict("E11", one_missing).verdict
        == "not run"
    )
    further = runs[runs["schedule"] == "20"].assign(
        schedule="50", beta=50.0, valid_ece=0.0, test_ece=0.0
    )
    beyond = made_up.verdict(
        "E18",
        pd.concat([runs, further[further["seed"] < 4]], ignore_index=True).assign(
            dataset="cifar100"
        ),
    )
    assert "β = 20 against" in beyond.parts[0].findings[0].text, (
        "a setting beyond the plan waits for its own seeds"
    )
    step = made_up.stepping()
    assert (
        made_up.verdict("B4", step).deciding and not made_up.verdict("B4", step.iloc[:-1]).deciding
    )
    assert (
        made_up.verdict("B5", TAIL).deciding and not made_up.verdict("B5", TAIL.iloc[:-1]).deciding
    )
    losses = made_up.margins(
        ["softmax", "lm 0.3", "modified", "l-softmax 2"],
        model="fast",
        width=1.0,
        dataset="cifar100",
    )
    under_way = losses[(losses["loss"] != "l-softmax 2") | (losses["seed"] < 2)]
    assert outcomes("L6", under_way) == outcomes("L6", losses[losses["loss"] != "l-softmax 2"]), (
        "so does another loss"
    )


def test_falls_are_added_up_over_one_cycle():
    runs = fast(epochs=4)
    sizes = (
        runs["schedule"].map({"5": 0.2}).fillna(0.1)
        + 0.01 * runs["seed"] * np.arange(len(runs)) / 100
    )
    runs["curve_test_accuracy"] = [[0.1, 0.5, 0.5 - size, 0.6, 0.6 - size] for size in sizes]
    found = made_up.verdict("E13", runs).parts[2].findings[0]
    assert found.outcome == "met" and found.difference.mean == pytest.approx(0.2, abs=0.03)


def test_chosen_learning_rates():
    """β = 0.1 is ahead at the common rate only; at the rates chosen on the validation split all are alike."""
    settings = fast(valid_accuracy=0.8)
    settings = settings[settings["schedule"].isin(["5", "1", "0.1"])]
    other = settings.assign(
        learning_rate=0.1, valid_accuracy=settings["schedule"].map({"1": 0.7}).fillna(0.9)
    )
    ones = settings.loc[settings["schedule"] == "1", "test_accuracy"].to_numpy()
    for schedule in ("5", "0.1"):
        other.loc[other["schedule"] == schedule, "test_accuracy"] = ones + 1e-4 * np.array(
            [-1, 1, 0, 1, -1]
        )
    third = settings.assign(learning_rate=0.4, valid_accuracy=0.6)
    both = pd.concat([settings, other, third], ignore_index=True)
    assert outcomes("B1", both) == {"c": "met", "d": "contradicted", "e": "met"}
    assert outcomes("B1", both[both["learning_rate"] != 0.4]) == {}  # two rates are no choice
    fourth = other[other["seed"] < 2].assign(
        learning_rate=0.05, valid_accuracy=1.0
    )  # a rate counts with three seeds
    assert outcomes("B1", pd.concat([both, fourth], ignore_index=True)) == {
        "c": "met",
        "d": "contradicted",
        "e": "met",
    }
    common, one, late = both["learning_rate"] != 0.1, both["schedule"] == "1", both["seed"] > 2
    both.loc[late & common & ~one, "valid_accuracy"] = (
        1.0  # seeds that the other rate may lack do not choose
    )
    assert outcomes("B1", both[~late | (common == one)]) == {"c": "met", "d": "contradicted"}
    assert outcomes("B1", both[~late | common]) == {}  # no five seeds at the chosen rates
    assert outcomes("B1", both[common | (both["seed"] < 2)]) == {}  # no three seeds to choose by
    assert outcomes("B1", both[common | ~one]) == {
        "c": "met",
        "e": "met",
    }  # and of β = 1 too few rates


def test_chosen_learning_rates_on_mnist():
    """At the papers' rate β = 0.1 is 2.5 points ahead of β = 5; at the rates chosen for each β it is behind."""
    grid = made_up.mnist().assign(
        campaign="mnist-rates",
        record="rate-",
        dataset="mnist",
        test_confidence=0.99,
        learning_rate=0.001,
        valid_accuracy=0.9,
    )
    best = grid.assign(
        learning_rate=0.01,
        valid_accuracy=0.95,
        test_accuracy=0.98 - 0.01 * grid["beta"].eq(0.1) + 0.001 * grid["seed"],
    )
    runs = pd.concat(
        [grid, best, grid.assign(learning_rate=0.1, valid_accuracy=0.8)], ignore_index=True
    )
    assert outcomes("B1", runs) == {"f": "met", "g": "met", "h": "met"}
    assert outcomes("B1", runs[runs["seed"] < 4]) == {}


def test_a_matched_rate_on_the_small_network_waits_for_all_its_seeds():
    older, plain = MATCHED, fast()
    matched = plain[plain["schedule"].isin(["5", "0.1"])].assign(match_gradient=True)
    for missing, decides in ((1, "resnet18×0.25"), (0, "fast")):
        found = made_up.verdict(
            "B1", pd.concat([older, plain, matched[: len(matched) - missing]], ignore_index=True)
        )
        assert {finding.variant.split(", ")[1] for finding in found.deciding} == {decides}


def test_beta_1_of_a_small_network_is_softmax_for_the_other_losses():
    runs = made_up.margins(
        ["softmax", "lm 0.3", "modified"],
        model="fast",
        width=1.0,
        dataset="cifar100",
        augmentation="crop2-flip",
    )
    plain = runs["loss"] == "softmax"
    runs = runs.assign(
        loss=runs["loss"].mask(plain, "gd"), schedule=runs["schedule"].mask(plain, "1")
    )
    assert outcomes("L3", runs) == {"a": "met"}
    assert outcomes("L6", runs) == {"b": "met", "c": "met"}  # "the best of" those that were run


def test_of_other_losses_older_runs_stop_deciding_part_by_part():
    older = made_up.margins(dataset="cifar10-jpeg")
    few = made_up.margins(
        ["softmax", "lm 0.3", "modified"], model="fast", width=1.0, dataset="cifar100"
    )
    for claim, newer, rest in (("L3", {"a"}, {"b", "c", "d"}), ("L6", {"b", "c"}, {"a", "d"})):
        decided = made_up.verdict(claim, pd.concat([older, few], ignore_index=True))
        by_part = {
            part.id: [finding.variant.split(", ")[1] for finding in part.deciding]
            for part in decided.parts
        }
        assert by_part == {part: ["fast"] for part in newer} | {
            part: ["vgg16×0.25"] for part in rest
        }, claim
    assert sorted(finding.decides for finding in decided.parts[1].findings) == [False, True], (
        "the older run of b is shown"
    )


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
        ("A4", made_up.trained(entry="reading")),
        ("A5", made_up.trained()),
        ("A7", made_up.steps(repetitions=4)),
    ],
)
def test_what_decides_nothing(claim, runs):
    assert made_up.verdict(claim, runs).verdict == "not run"
    assert made_up.verdict(claim, pd.DataFrame()).verdict == "not run"


def test_runs_of_two_sizes_are_two_variants():
    runs = pd.concat(
        [
            made_up.images(),
            made_up.images(epochs=16),
            made_up.images(scale="paper", subset=0, epochs=200),
        ],
        ignore_index=True,
    )
    name = "cifar10-jpeg, resnet18×0.25, plain"
    sizes = claims.runs_of(runs, "cifar10").groupby("variant").size().to_dict()
    assert sizes == {
        name: 18,
        f"{name}, 6,000 images, 8 epochs": 18,
        f"{name}, 6,000 images, 16 epochs": 18,
    }


def test_only_the_second_half_at_the_first_rate_oscillates():
    runs = made_up.oscillating(0.9, 0.01, {"5": 0.0, "0.1": 0.0})
    runs["curve_test_accuracy"] = [[0.1, 0.9, 0.1, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5]] * len(runs)
    both = pd.concat([runs, runs.assign(momentum=0.0)], ignore_index=True)
    assert (claims.runs_of(both, "oscillation")["oscillation"] == 0).all()
    assert (
        claims.runs_of(both.assign(milestones=[[0.5]] * len(both)), "oscillation")["oscillation"]
        > 0.5
    ).all()  # epochs 2 to 4


def test_cuts_at_the_paper_s_scale():
    """Fewer samples with 20 epochs beside a full training of 120 epochs, which has all samples only."""
    parts = [
        made_up.trained(epochs=120),
        made_up.trained(epochs=20),
        made_up.trained({"arcgrad 10": 0.04}, epochs=20, samples=1500),
    ]
    found = made_up.verdict("A5", pd.concat(parts, ignore_index=True)).parts[0].findings[0]
    assert found.outcome == "met" and "1\u2009500 samples" in found.text


def test_a_variant_with_one_seed_is_no_rival():
    runs = pd.concat(
        [
            made_up.margins(["lgm 0.3 0.1"], seeds=1).assign(loss="lgm 0 0", schedule="lgm 0 0"),
            made_up.margins(),
        ]
    )
    assert outcomes("L6", runs)["c"] == "met"


class TestTableI:
    def test_as_printed(self):
        printed = claims.paper_table_i()
        assert printed.shape == (15, 7) and printed.notna().all().all()
        assert printed.mean().round(2)["softmax"] == pytest.approx(79.56, abs=0.01)
        assert claims.won(printed).sum()["arcgrad 5"] >= 7  # the paper counts 7
        assert claims.won(
            pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 1.0, 4.0]})
        ).sum().to_dict() == {"a": 1.5, "b": 1.5}

    def test_the_nearest_variant_is_the_one_that_is_the_paper(self):
        near = made_up.table_i(campaign="uci-readings")
        far = made_up.table_i({"softmax": 4.0}, campaign="uci-readings", learning_rate=0.01)
        runs = claims.runs_of(pd.concat([far, near], ignore_index=True), "uci-readings")
        distances = claims.distance_to_table_i(runs)
        assert set(distances["epochs"]) == {10, 20, 50}  # 30 was not to be looked at
        first = {
            "variant": "standard, sgd 0.1, 16 units",
            "epochs": 20,
            "distance": pytest.approx(0.0, abs=0.01),
        }
        assert distances.iloc[0].to_dict() == first


def test_distance_is_zero_for_the_papers_own_table():
    printed = published.table("GD-2", 1)
    frame = made_up.mnist()
    for beta in ("1", "0.5", "0.1", "0.01", "0.001"):
        counts = (
            printed.loc[np.isclose(printed["beta"].astype(float), float(beta)), "value"]
            .astype(float)
            .tolist()
        )
        rows = frame["schedule"] == beta
        frame.loc[rows, "confidence_counts"] = pd.Series(
            [counts] * rows.sum(), index=frame.index[rows]
        )
    grid = claims.runs_of(frame, "grid")
    assert claims.distance_to_table_1(grid)["relu-unit"] == 0.0


def test_an_unknown_kind():
    with pytest.raises(ValueError, match="valid: grid"):
        claims.runs_of(made_up.mnist(), "everything")


def test_every_metric_has_its_words():
    assert all(
        words[0].islower() or words.startswith(("W", "ECE")) for words in rules.METRICS.values()
    )
    assert set(claims.RIVALS) < set(published.printed()["setting"])
