"""Recompute what the book says of the claims: means, intervals, p-values, outcomes, verdicts.

It reads the tables and the files of the claims with NumPy, pandas, SciPy and PyYAML, and uses
nothing of the book's code: which runs a claim is asked of, how they are compared, and what
follows, are written here a second time. ``python results/recompute.py`` prints every comparison
and every verdict.
"""

import json
import math
import re
from collections import defaultdict
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import yaml
from scipy import stats

ROOT = Path(__file__).resolve().parent.parent
WARM, WARM_1 = "warm-up 0.1→1", "warm-up 1→5"

# --- which runs ---

# One name for the campaigns of the small network, so that their entries are one variant.
RENAMED = (
    (r"^cifar/(cifar10+)-crops-", r"\1-fast/augmented-"),
    (r"^cifar/(cifar10+)-plain-", r"\1-fast/plain-"),
    (r"^cifar/cifar100-width2-", "cifar100-fast/wide-"),
    (r"^large-margin/crops-", "cifar100-fast/losses-"),
    (r"^large-margin/plain-", "cifar100-fast/plain-losses-"),
    (r"^large-margin/reduced-", "large-margin-reduced/"),
    (r"^cifar-edges/(cifar10+)-between-", r"\1-fast/augmented-"),
    (r"^cifar-edges/(cifar10+)-", r"\1-fast/"),
    (r"^cifar10-rates/", "cifar10-fast/"),
    (r"^cifar10-feedback/", "cifar10-fast/"),
    (r"^cifar100-rates/", "cifar100-fast/"),
    (r"^cifar100-plain-losses/plain-", "cifar100-fast/plain-losses-"),
    (r"^angular-images/(cifar10+)-plain-", r"\1-fast/angles-plain-"),
    (r"^angular-images/(cifar10+)-crops-", r"\1-fast/losses-"),
    (r"^angular-images/mnist-(?=fewer|shorter)", "angular-mnist/"),
    (r"^angular-images/mnist-", "angular-mnist/all-"),
    (r"^(cifar10+)-plain/plain-(between-|edges-)?", r"\1-fast/plain-"),
    (r"^cifar100-wide/", "cifar100-fast/"),
    (r"^fast-losses/(cifar10+)-", r"\1-fast/losses-"),
    (r"^margin-losses-reduced/plain-", "cifar10-reduced/plain-margin-"),
)
CONSTANT_BETA_AND_WARM_UPS = r"(?:-warmup(?:-gd1)?)?-seed\d-?(?:beta|$)"
FAST = rf"(cifar100?-fast/(?:augmented|plain|wide)){CONSTANT_BETA_AND_WARM_UPS}"
REDUCED = r"((?:cifar10|tiny-imagenet)-reduced/(?:augmented|plain))(?:-warmup)?-seed"

# For each kind of runs the records (campaign/file) by their variant, which the parentheses find,
# and how many units a comparison needs.
KINDS = {
    "feature-plane": ([r"mnist/feature-plane-(\w+-\w+)-seed"], 5),
    "curriculum": ([r"mnist/curriculum-(\w+-\w+)-seed"], 5),
    "conflict": ([r"mnist-conflict/(linear|perceptron)"], 5),
    "grid": ([r"mnist/((?:relu|tanh|sigmoid)-(?:unit|none|standard))-seed"], 5),
    "temperature": ([r"(mnist)(?:-edges)?/temperature-"], 5),
    "link": ([r"mnist-edges/link-(\w+-\w+)-seed"], 5),
    "width": ([r"(mnist-width)/(?:large|small)-step-seed"], 5),
    "step": ([r"mnist-step/(relu|tanh)-.+-seed"], 5),
    "mnist-tuned": ([r"(mnist-rates)/rate-"], 5),
    "images": ([FAST, REDUCED], 3),
    "cifar10": ([FAST.replace("100?", "10"), REDUCED.replace("|tiny-imagenet", "")], 3),
    "cifar100": ([FAST.replace("100?", "100")], 3),
    "many-classes": ([FAST.replace("100?", "100"), REDUCED.replace("cifar10|", "")], 3),
    "tiny-imagenet": ([REDUCED.replace("cifar10|", "")], 3),
    "oscillation": ([r"(cifar10-(?:reduced|fast))/(?:no-)?momentum(?:-same-step)?-seed"], 3),
    "matched": (
        [
            r"(cifar10-reduced)/(?:matched|plain)(?:-warmup)?-seed",
            r"(cifar10-fast/)(?:augmented(?:-warmup)?|matched)-seed\d(?:$|-beta)",
        ],
        3,
    ),
    "tuned": (
        [
            r"(cifar100?-fast/)augmented(?:-warmup(?:-gd1)?)?-seed",
            r"(cifar100?-fast/)(?:rate|chosen|lower|feedback)-seed",
        ],
        5,
    ),
    "feedback": ([r"(cifar10-fast/(?:plain|augmented))-", r"(cifar10-fast/)matched-(\w+)"], 3),
    "margins": (
        [
            r"(cifar10-reduced/plain)(?:-warmup)?-seed",
            r"(cifar10-reduced/plain)-margin-",
            r"(cifar10-fast/)(?:augmented(?:-warmup)?-seed|losses-seed\d-(?:a-softmax-4|center-0.003))",
        ],
        3,
    ),
    "long-tailed": ([r"long-tailed/(small-step)?"], 3),
    "wrong-labels": ([r"wrong-labels/(?:beta|loss)-(\w+)-seed"], 3),
    "uci-tables": ([r"tables/(?:adam-)?(?:table|together)-"], 10),
    "uci-layers": ([r"iris-depth/(?:adam-)?depth-"], 10),
    "large-margin": (
        [
            r"(large-margin-reduced)/(?!fewer|noise|reading)",
            r"(cifar100-fast)/(?:losses|augmented)-seed",
            r"(cifar100-fast/plain)-(?:losses-seed|seed\d-beta1$)",
        ],
        3,
    ),
    "degraded": ([r"large-margin-reduced/(fewer-subset3000|noise-label-noise0.[25])-"], 3),
    "angular": (
        [
            r"(angular-reduced|angular-mnist)/(?:all|augmented)-",
            r"(cifar10-fast)/losses-(?:angles-)?seed\d(?!-a-softmax|-center-0.003)",
            r"(cifar10+-fast/angles-(?:plain|augmented))-seed",
        ],
        3,
    ),
    "angular-images": (
        [
            r"(angular-reduced)/(?:all|augmented)-",
            r"(cifar10-fast)/losses-(?:angles-)?seed\d(?!-a-softmax|-center-0.003)",
            r"(cifar10+-fast/angles-(?:plain|augmented))-seed",
        ],
        3,
    ),
    "angular-cuts": ([r"(angular-mnist|angular-reduced)/(?!reading)"], 3),
    "cost": ([r"(angular-cost)/"], 5),
}  # fmt: skip
# What the small network was planned with; of several plans the largest that is complete counts.
EVERY = ("20", "5", "1", "0.1", "0.01", WARM)
WITH_WRONG_LABELS = (
    *("5", "1", "0.1", "gce 0.7", "negative-probability"),
    *("focal 2", "poly1 1", "label-smoothing 0.1"),
)
PLANS = {
    "cifar10-fast/augmented": [(EVERY, 5)],
    "cifar100-fast/augmented": [(EVERY, 5)],
    "cifar10-fast/plain": [(EVERY, 5), (("20", "1", "0.1", WARM), 3)],
    "cifar100-fast/plain": [(("50", "20", "5", "1", "0.1", WARM, WARM_1), 5)],
    "cifar100-fast/wide": [
        (("20", "5", "1", "0.1", WARM), 10),
        (("20", "5", "1", "0.1", WARM), 3),
        (("20", "5", "1", "0.1"), 3),
    ],
    **dict.fromkeys(("worst", "random1", "aggregate", "clean"), [(WITH_WRONG_LABELS, 3)]),
}
PLANNED = ("images", "cifar10", "cifar100", "many-classes", "wrong-labels")
LOSSES_OF_LM = (
    r"(softmax|lm|lm-qu|lm-uq|label-smoothing|super-symmetry|hinge|modified|modified-lm"
    r"|l-softmax|lgm)( |$)"
)


def numbers(asked, run, curves, bins):
    """Everything of a run that is one number, and what follows from its curves and counts."""
    m, epochs = dict(run), asked.get("epochs")
    accuracy = curves["test_accuracy"].dropna().to_numpy()
    if "test_confidence" in m:
        m["overconfidence"] = m["test_confidence"] - m["test_accuracy"]
    if len(counts := bins.loc[bins["name"] == "confidence_counts", "count"]):
        m["lost"], m["sure"] = int(counts.iloc[0]), int(counts.iloc[-1])
        m["errors"] = round((1 - m["train_accuracy"]) * asked["train_samples"])
        m["lost_share"] = m["lost"] / m["errors"] if m["errors"] else None
    hardest, easiest = (curves[f"group_confidence_{fifth}"].dropna().to_numpy() for fifth in (0, 4))
    if len(easiest):
        sure = (epoch for epoch, value in enumerate(easiest) if value >= 0.9)
        m["epoch_easy"] = next(sure, len(easiest))
        m["gap"] = np.mean(np.subtract(easiest[1:], hardest[1:]))
    early = curves.loc[curves["epoch"].between(1, 10), "train_cross_entropy"]
    if early.notna().any():
        m["early_cross_entropy"] = early.mean()
    bias = curves["train_margin_bias"].dropna()
    if len(bias) >= 3:
        m["bias_rise"] = m["train_margin_bias"] - bias.min()
    if len(angle := curves["target_angle"].dropna()) > 1:
        m["mean_target_angle"] = angle.iloc[1:].mean()
    if epochs and len(accuracy) >= epochs >= 4:
        each, second_half = accuracy[-epochs:], accuracy[epochs // 2 : epochs + 1]
        m["early_accuracy"] = np.mean(each[: max(1, epochs // 4)])
        m["falls"] = -np.minimum(np.diff(each), 0).sum()
        m["oscillation"] = np.std(np.diff(second_half), ddof=1)
    return {
        name: value
        for name, value in m.items()
        if isinstance(value, (int, float)) and value == value
    }


CURVES = (
    *("test_accuracy", "train_cross_entropy", "train_margin_bias", "target_angle"),
    *("group_confidence_0", "group_confidence_4"),
)
TEXTS = dict.fromkeys(["schedule", "loss"], str)


def rows_of(path):
    """Yield the rows of a table, each with its cells that are not empty."""
    table = pd.read_csv(path, dtype=TEXTS)
    for row in table.to_dict("records"):
        yield {name: value for name, value in row.items() if value == value}


def by_run(path, columns):
    """Group the rows of a long table by job and run; its numbers have six digits."""
    table = pd.read_parquet(path) if path.exists() else pd.DataFrame()
    table = table.reindex(columns=["job", "run", *columns])
    for name in table.columns[table.dtypes == np.float32]:
        table[name] = table[name].astype(str).astype(float)
    return dict(list(table.groupby(["job", "run"], sort=False))), table[:0]


def runs_of_tables(folder):
    """Every run: its record, method, numbers, and the parameters that it was trained with."""
    for path in sorted(folder.glob("jobs/*.csv"), key=lambda path: path.stem):
        jobs = {job["job"]: job for job in rows_of(path)}
        by_epoch, no_curves = by_run(folder / "curves" / f"{path.stem}.parquet", ["epoch", *CURVES])
        by_bin, no_bins = by_run(
            folder / "bins" / f"{path.stem}.parquet", ["name", "count", "accuracy"]
        )
        runs = rows_of(folder / f"{path.stem}.csv")
        for run in sorted(runs, key=lambda run: f"{run['job']}.json"):
            asked, key = jobs[run["job"]], (run["job"], run["run"])
            name = f"{path.stem}/{run['job']}"
            for pattern, new in RENAMED:
                name = re.sub(pattern, new, name)
            bins = by_bin.get(key, no_bins)
            hidden = json.loads(asked.get("hidden", "[]"))
            method = run.get("schedule") or run.get("loss") or asked["loss"]
            yield SimpleNamespace(
                record=name,
                method=method,
                seed=run.get("seed"),
                unit=run.get("seed"),
                numbers=numbers(asked, run, by_epoch.get(key, no_curves), bins),
                diverged=run.get("diverged", False),
                title=run.get("title"),
                folds=bins.loc[bins["name"] == "fold_accuracies", "accuracy"].tolist(),
                image=asked.get("model", run.get("model", "mlp")) != "mlp",
                temperature=run.get("temperature"),
                model=run.get("model", asked.get("model")),
                dataset=asked.get("dataset"),
                learning_rate=asked.get("learning_rate"),
                momentum=asked.get("momentum"),
                matched=asked.get("match_gradient", False),
                input_scale=asked.get("input_scale", 1),
                first_weights=asked.get("first_weights", 1),
                units=(hidden or [None])[0],
                depth=len(hidden) + 1,
                epochs=asked.get("epochs"),
                samples=asked.get("train_samples"),
                label_noise=asked.get("label_noise", 0),
                together=asked.get("duplicates_together", False),
                step="",
            )


def load(folder=ROOT / "results"):
    """For each kind and variant its runs."""
    everything = list(runs_of_tables(folder))
    by_variant = {}
    for kind, (patterns, _) in KINDS.items():
        variants = defaultdict(list)
        for run in everything:
            matches = (re.match(pattern, run.record) for pattern in patterns)
            if match := next(filter(None, matches), None):
                variants["".join(filter(None, match.groups()))].append(SimpleNamespace(**vars(run)))
        for variant, runs in variants.items():
            if runs := prepared(kind, variant, runs):
                by_variant[kind, variant] = runs
    return by_variant


def prepared(kind, variant, runs):
    """Prepare the runs of a variant as its kind has them."""
    if kind not in ("large-margin", "degraded"):
        runs = [run for run in runs if not run.diverged]
    if kind not in ("feedback", "tuned"):
        runs = [run for run in runs if not run.method.startswith("feedback")]
    if kind == "temperature":
        for run in runs:
            run.method = f"{run.numbers['beta']:g} at {run.temperature:g}"
    if kind in ("large-margin", "degraded"):
        if "fast" in variant:
            for run in runs:
                run.method = "softmax" if run.method == "1" else run.method
        pattern = LOSSES_OF_LM if kind == "large-margin" else r"(softmax|lm \S+)$"
        runs = [run for run in runs if re.match(pattern, run.method)]
        longest = {}  # what was run twice comes once, with the longer curve
        for run in sorted(runs, key=lambda run: "bias" not in run.record):
            longest.setdefault((run.method, run.seed), run)
        runs = list(longest.values())
    if kind == "feedback":
        runs = [run for run in runs if run.method in ("1", "feedback 1, 5, 5")]
        if not any(run.method != "1" for run in runs):
            return []
    if kind == "oscillation":
        slow = min(run.learning_rate for run in runs if run.momentum)
        for run in runs:
            fast = run.learning_rate > 5 * slow
            without = "no momentum, ten times the learning rate" if fast else "no momentum"
            run.step = "momentum 0.9" if run.momentum else without
    if kind == "cost":
        softmax = {(run.model, run.seed): run.numbers for run in runs if run.method == "softmax"}
        for run in runs:
            own, plain = run.numbers, softmax[run.model, run.seed]
            beyond = own["criterion_seconds"] - plain["criterion_seconds"]
            own["excess"] = beyond / plain["step_seconds"]
            run.image = False  # times are taken by turns
    if kind == "uci-tables":
        return tables(runs)
    if kind == "uci-layers":
        return folds(runs)
    return runs


def folds(runs):
    """Make a run of each fold; methods with the same seed share them."""
    each = []
    for run in runs:
        for number, accuracy in enumerate(run.folds):
            copy = SimpleNamespace(**vars(run))
            copy.unit, copy.numbers = (run.seed, number), {"test_accuracy": accuracy}
            each.append(copy)
    return each


def tables(runs):
    """Make a run of each data set: mean accuracy, tables won, rank; with equal rows in one fold."""
    scores = defaultdict(lambda: defaultdict(list))
    twice = {run.title for run in runs if run.together}
    for run in runs:
        if run.together or run.title not in twice:
            scores[run.title][run.method].append(run.numbers["test_accuracy"])
    rows = []
    for title, by_method in scores.items():
        means = np.array([round(np.mean(values), 6) for values in by_method.values()])
        best = means == means.max()
        ranks = stats.rankdata(-means)
        for method, values, won, rank in zip(
            by_method, by_method.values(), best, ranks, strict=True
        ):
            own = {
                "test_accuracy": np.mean(values),
                "wins": won / best.sum(),
                "negative_rank": -rank,
            }
            rows.append(
                SimpleNamespace(method=method, unit=title, numbers=own, image=False, samples=0)
            )
    return rows


# --- what may decide ---


def counted(kind, variant, runs):
    """Take the runs of a variant that count, none under way, and the units a comparison needs."""
    least = KINDS[kind][1]
    fast = "-fast" in variant
    if variant == "angular-mnist" or (kind == "feedback" and variant.endswith("augmented")):
        least = 5
    if kind == "matched" and fast:
        least = 5
    if kind == "uci-tables":
        return (runs, 15)
    if kind in PLANNED and (fast or kind == "wrong-labels"):
        there = defaultdict(set)
        for run in runs:
            there[run.method].add(run.seed)
        plans = PLANS[variant]
        for place, (methods, seeds) in enumerate(plans):
            if all(len(there[method]) >= seeds for method in methods):
                kept = [run for run in runs if place == 0 or run.seed < seeds]
                return enough(kept, seeds), seeds
        return [], least
    if kind in ("step", "long-tailed") and enough(runs, least) != runs:
        return [], least
    return (enough(runs, least) if fast else runs), least


def enough(runs, least):
    """Take the runs of which there are enough seeds."""
    seeds = defaultdict(set)
    for run in runs:
        seeds[of_one(run, ("step",) if "-fast" in run.record else STEPS)].add(run.seed)
    return [
        run
        for run in runs
        if len(seeds[of_one(run, ("step",) if "-fast" in run.record else STEPS)]) >= least
    ]


STEPS = ("learning_rate", "input_scale", "first_weights")
APART = ("learning_rate", "momentum", "matched", "step", "samples", "epochs", "label_noise")


def of_one(run, by=APART):
    """Tell what runs share that differ in their seeds alone: the method, and some parameters."""
    return (run.method, *(getattr(run, name, None) for name in by))


# --- a part of the runs ---


def usual_rate(runs):
    """Find the learning rate that most methods were run with."""
    rates = defaultdict(set)
    for run in runs:
        rates[run.learning_rate].add(run.method)
    most = max(rates, key=lambda rate: (len(rates[rate]), -rate), default=None)
    return [run for run in runs if run.learning_rate == most]


def chosen_rates(runs):
    """For each method the rate of the largest mean validation accuracy, over common seeds."""
    kept = []
    for method in {run.method for run in runs}:
        rates = defaultdict(dict)
        for run in runs:
            if run.method == method and "valid_accuracy" in run.numbers:
                rates[run.learning_rate][run.seed] = run.numbers["valid_accuracy"]
        tried = {rate: of for rate, of in rates.items() if len(of) >= 3}
        common = set.intersection(*map(set, tried.values())) if tried else set()
        if len(tried) >= 3 and len(common) >= 3:
            best = max(tried, key=lambda rate: np.mean([tried[rate][seed] for seed in common]))
            kept += [run for run in runs if run.method == method and run.learning_rate == best]
    return kept


def end_of(amount, other, which):
    """Take the runs with the least or the most of something, at the most of the other."""

    def choose(runs):
        by = defaultdict(set)
        for run in runs:
            by[getattr(run, other)].add(getattr(run, amount))
        full = max(value for value, several in by.items() if len(several) > 1)
        end = which(by[full])
        return [run for run in runs if getattr(run, other) == full and getattr(run, amount) == end]

    return choose


AMONG = {
    "usual rate": usual_rate,
    "chosen rates": chosen_rates,
    "matched rates": lambda runs: [run for run in runs if run.matched == (run.method != "1")],
    "not known before": lambda runs: [run for run in runs if "-fast" in run.record],
    "half of the samples": lambda runs: [run for run in runs if run.label_noise == 0],
    "wrong labels": lambda runs: [run for run in runs if run.label_noise > 0],
    "people's labels": lambda runs: [run for run in runs if "-clean-" not in run.record],
    "fewest samples": end_of("samples", "epochs", min),
    "most samples": end_of("samples", "epochs", max),
    "shortest training": end_of("epochs", "samples", min),
    "longest training": end_of("epochs", "samples", max),
}


def part_of(runs, spec):
    """Take the runs that ``at`` and ``among`` of a claim file mean."""
    if "among" in spec:
        runs = AMONG[spec["among"]](runs)
    for name, value in spec.get("at", {}).items():
        runs = [
            run
            for run in runs
            if getattr(run, name) == value
            or (isinstance(value, float) and math.isclose(getattr(run, name), value, rel_tol=1e-9))
            or (name == "model" and value == "fast" and "-fast" in run.record)
        ]
    return runs


# --- sides of a comparison: what each unit has, and which runs that comes from ---


def label(method):
    """Write a method as records do."""
    return f"{method:g}" if isinstance(method, (int, float)) else method


def of_method(runs, method, metric):
    """Take the metric of one method, and one term: its weight squared, its metric, and its runs."""
    own = [run for run in runs if run.method == label(method) and metric in run.numbers]
    values = {run.unit: run.numbers[metric] for run in own}
    assert len(values) == len(own), f"two runs of one unit: {method}"
    return values, [(1.0, metric, own)]


def minus(first, second):
    """Subtract one side from another."""
    values = {unit: first[0][unit] - second[0][unit] for unit in first[0] if unit in second[0]}
    return values, first[1] + second[1]


def scaled(factor, side):
    """Multiply a side by a number."""
    values, terms = side
    weighted = [(factor**2 * weight, metric, runs) for weight, metric, runs in terms]
    return {unit: factor * value for unit, value in values.items()}, weighted


def means(runs, metric, least):
    """Average each method that has enough units."""
    averages = {}
    for method in dict.fromkeys(run.method for run in runs):
        values = [
            run.numbers[metric] for run in runs if run.method == method and metric in run.numbers
        ]
        if len(values) >= least:
            averages[method] = np.mean(values)
    return averages


def side_of(runs, spec, metric, least):
    """One side of a comparison; None where it was not run."""
    if not isinstance(spec, dict):
        return of_method(runs, spec, metric)
    runs, metric = part_of(runs, spec), spec.get("metric", metric)
    if "method" in spec:
        return of_method(runs, spec["method"], metric)
    if "minus" in spec:
        first, second = (side_of(runs, one, metric, least) for one in spec["minus"])
        return scaled(spec.get("times", 1.0), minus(first, second))
    if "best of" in spec:
        averages = means(runs, spec.get("by", "test_accuracy"), least)
        asked = [label(one) for one in spec["best of"]]
        named = [name for name in averages if name in asked or name.partition(" ")[0] in asked]
        return of_method(runs, max(named, key=averages.get), metric) if named else None
    if "average" in spec:
        numbers_of = [
            {run.method.partition(" ")[2] for run in runs if run.method.partition(" ")[0] == loss}
            for loss in spec["over the numbers of"]
        ]
        shared = sorted(set.intersection(*numbers_of), key=float)
        sides = [of_method(runs, f"{spec['average']} {number}", metric) for number in shared]
        common = set.intersection(*(set(values) for values, _ in sides)) if sides else set()
        values = {unit: np.mean([own[unit] for own, _ in sides]) for unit in common}
        return values, [term for side in sides for term in scaled(1 / len(sides), side)[1]]
    constant = {
        name: mean
        for name, mean in means(runs, spec.get("smallest", metric), least).items()
        if re.fullmatch(r"[0-9.]+", name)
    }
    if not constant:
        return None
    by = constant.get if "smallest" in spec else lambda name: -float(name)
    return of_method(runs, min(constant, key=by), metric)


# --- one comparison ---


def error_of(values, terms, pool, seeds):
    """Compute the standard error of a mean difference, and its degrees of freedom."""
    d = np.array(values)
    paired = d.std(ddof=1) / math.sqrt(len(d)), len(d) - 1
    runs = [set(map(id, own)) for _, _, own in terms]
    if isinstance(seeds, tuple):  # folds of repeated cross-validations
        return d.std(ddof=1) * math.sqrt(1 / len(d) + 1 / 9), len(d) - 1
    if not all(run.image for _, _, own in terms for run in own):
        return paired
    if any(one & other for one, other in combinations(runs, 2)):
        return paired
    estimates = defaultdict(float)
    for weight, metric, own in terms:
        groups = defaultdict(list)
        for run in pool:
            if metric in run.numbers:
                groups[of_one(run)].append(run.numbers[metric])
        groups = [np.array(group) for group in groups.values() if len(group) >= max(2, len(d))]
        limit = 4 * np.median([group.std(ddof=1) for group in groups]) if groups else 0
        single = np.array([run.numbers[metric] for run in own])
        if single.std(ddof=1) > limit:
            estimate = single.var(ddof=1), len(single) - 1
        else:
            kept = [group for group in groups if group.std(ddof=1) <= limit]
            freedom = sum(len(group) - 1 for group in kept)
            squares = sum(((group - group.mean()) ** 2).sum() for group in kept)
            estimate = squares / freedom, freedom
        estimates[estimate] += weight
    parts = [weight * variance for (variance, _), weight in estimates.items()]
    squares = sum(part**2 / freedom for part, (_, freedom) in zip(parts, estimates, strict=True))
    freedom = sum(parts) ** 2 / squares if squares > 0 else len(d) - 1
    return math.sqrt(sum(parts) / len(d)), freedom


def judged(values, terms, want, pool):
    """Mean, interval, units, outcome, and the level at which the interval touches the bound."""
    d = np.array(list(values.values()))
    error, freedom = error_of(d, terms, pool, next(iter(values)))
    mean, half = d.mean(), stats.t.ppf(0.975, freedom) * error
    low, high = mean - half, mean + half
    match = re.fullmatch(r"(>|<|within|not 0(?:, else within)?|nemenyi) ?(-?[0-9.]+)?", want)
    test, bound = match[1], float(match[2] or 0)
    above, below = low > bound, high < bound
    inside = -bound < low and high < bound
    critical = math.inf
    if test == "nemenyi":
        critical = stats.studentized_range.ppf(0.95, bound, np.inf)
        critical *= math.sqrt(bound * (bound + 1) / (12 * len(d)))
    met, against, ends = {
        ">": (above, below, [bound]),
        "<": (below, above, [bound]),
        "within": (inside, above or high < -bound, [-bound, bound]),
        "nemenyi": (mean >= critical, mean <= -critical, [0]),
    }.get(test, (low > 0 or high < 0, inside, [0]))
    if test.startswith("not 0") and not met and against:
        ends = [-bound, bound]

    def level(end):
        return 2 * stats.t.sf(abs(mean - end) / error, freedom) if error else float(mean == end)

    outcome = "met" if met else "contradicted" if against else "unresolved"
    return SimpleNamespace(
        mean=mean, low=low, high=high, pairs=len(d), outcome=outcome, p=max(map(level, ends))
    )


def compared(runs, metric, sides, want, least, pool):
    """Compare sides, or give None as long as a run is missing."""
    sides = [side_of(runs, side, metric, least) for side in sides]
    if any(side is None for side in sides):
        return None
    values, terms = sides[0] if len(sides) == 1 else minus(*sides)
    if len(values) < max(2, least):
        return None
    return judged(values, terms, want, pool)


def asked(spec, runs, least, pool, some):
    """Ask a part of a claim file of some runs: comparisons, and how they are joined.

    Returns a pair: how (``compared``, ``all``, ``any``, ``provided``, ``fixed``) and the
    comparisons or what they join; None where runs are missing.
    """
    runs = part_of(runs, spec)
    if "compare" in spec:
        metric, *sides = spec["compare"]
        comparison = compared(runs, metric, sides, spec["want"], least, pool)
        return ("compared", comparison) if comparison else None
    if "rising" in spec:
        return rising(runs, *spec["rising"], least, pool)
    if "rule" in spec:
        return RULES[spec["rule"]](runs, least, pool)
    how = next(name for name in ("all", "any", "provided") if name in spec)
    findings = [asked(one, runs, least, pool, some) for one in spec[how]]
    there = [one for one in findings if one]
    if not there or (len(there) < len(findings) and (not some or how == "provided")):
        return None
    return there[0] if len(there) == 1 else (how, there)


def rising(runs, metric, *methods_least_pool):
    """Met if the means rise from method to method; contradicted if a step down is certain."""
    *methods, least, pool = methods_least_pool
    steps = [
        compared(runs, metric, [second, first], "> 0", least, pool)
        for first, second in pairwise(methods)
    ]
    if not all(steps):
        return None
    if all(step.mean >= 0 for step in steps):
        return "fixed", "met"
    fallen = any(step.outcome == "contradicted" for step in steps)
    return "fixed", "contradicted" if fallen else "unresolved"


def same_confidence(runs, least, pool):
    """Lost samples at the temperature whose confidence is nearest to that of β = 0.01."""
    averages = means(runs, "train_confidence", least)
    usual = [name for name in averages if name.startswith("1 at ")]
    nearest = min(usual, key=lambda name: abs(averages[name] - averages["0.01 at 1"]))
    sides = ["0.01 at 1", nearest]
    return "provided", [
        ("compared", compared(runs, "train_confidence", sides, "within 0.001", least, pool)),
        ("compared", compared(runs, "lost", sides, "not 0", least, pool)),
    ]


def best_pair(runs, least, pool):
    """Compare the best pair (β, τ) with the best of either alone."""
    averages = means(runs, "valid_accuracy", least)
    best = max(averages, key=averages.get)
    alone = (
        max((name for name in averages if re.fullmatch(one, name)), key=averages.get)
        for one in (".* at 1", "1 at .*")
    )
    return "all", [
        ("compared", compared(runs, "test_accuracy", [best, one], "> 0", least, pool))
        for one in alone
    ]


def share_at_each_rate(runs, least, pool):
    """Compute the share of errors that is lost, at every rate at which two seeds have errors."""
    comparisons = []
    for rate in (0.001, 0.01, 0.03, 0.1):
        at = part_of(runs, {"at": {"learning_rate": rate, "input_scale": 1, "first_weights": 1}})
        if one := compared(at, "lost_share", [0.001, 1], "> 0", 2, pool):
            comparisons.append(("compared", one))
    return ("all", comparisons) if len(comparisons) > 1 else comparisons[0]


def ranks_ahead(runs, least, pool):
    """Nemenyi's test of two mean ranks among seven methods."""
    comparison = compared(runs, "negative_rank", ["arcgrad 5", "softmax"], "nemenyi 7", least, pool)
    return ("compared", comparison) if comparison else None


RULES = {
    "same confidence": same_confidence,
    "best pair": best_pair,
    "share at each rate": share_at_each_rate,
    "ranks ahead": ranks_ahead,
}


# --- outcomes ---


def comparisons_of(finding):
    """List the comparisons that a finding is made of."""
    how, content = finding
    if how == "compared":
        return [content]
    if how == "fixed":
        return []
    return [comparison for one in content for comparison in comparisons_of(one)]


def outcome_of(finding):
    """Combine the outcome of a finding from those of its comparisons."""
    how, content = finding
    if how == "compared":
        return content.outcome
    if how == "fixed":
        return content
    outcomes = [outcome_of(one) for one in content]
    if how == "provided":
        return outcomes[1] if outcomes[0] == "met" else "unresolved"
    one, every = ("met", "contradicted") if how == "any" else ("contradicted", "met")
    return one if one in outcomes else every if set(outcomes) == {every} else "unresolved"


def holm(p):
    """Correct p-values for their number by Holm's method."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    steps = np.sort(p) * np.arange(len(p), 0, -1)
    corrected[order] = np.maximum.accumulate(steps).clip(max=1)
    return corrected


def learnt(runs):
    """Average the training accuracy at β = 1."""
    own = [run.numbers.get("train_accuracy", math.nan) for run in runs if run.method == "1"]
    return np.mean(own) if own else math.nan


def data_of(variant):
    """Name the kind of data of a variant of image networks."""
    if "fast" in variant or "reduced" in variant:
        return {"cifar100": "many", "tiny": "many"}.get(variant.split("-")[0], "cifar10")
    return ""


def everything(folder=ROOT / "results"):
    """Every comparison, and the verdict on each claim that has parts."""
    selected = load(folder)
    ready = {key: counted(*key, runs) for key, runs in selected.items()}
    comparisons, verdicts = [], {}
    for path in sorted((ROOT / "claims").glob("[A-Z]*.yml")):
        claim = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "parts" in claim:
            rows, verdicts[path.stem] = decided(path.stem, claim, ready)
            comparisons += rows
    return SimpleNamespace(comparisons=comparisons, verdicts=verdicts)


def decided(name, claim, ready):
    """Decide a claim: its comparisons, and its verdict."""
    findings = []  # part, variant, finding, whether it decides, whether the premise fails
    for letter, part in claim["parts"].items():
        for (kind, variant), (runs, least) in ready.items():
            if kind != part["runs"] or not runs:
                continue
            if answer := asked(part, runs, least, runs, some="-fast" in variant):
                outside = not learnt(runs) >= claim.get("premise", -math.inf)
                outside &= "premise" in claim
                decides = not outside and not part.get("shown only", False)
                decides &= variant.startswith(tuple(claim.get("decided on", [""])))
                findings.append([letter, variant, answer, decides, outside])
    on_fast = {letter for letter, variant, *_ in findings if "-fast" in variant}
    families = {data_of(variant) for _, variant, *_ in findings if "-fast" in variant}
    for row in findings:
        letter, variant = row[:2]
        older = data_of(variant) != "" and "-fast" not in variant
        # the small network replaces older runs on the same kind of data, or part by part
        older &= {
            "replaced": data_of(variant) in families,
            "replaced part by part": letter in on_fast,
        }.get(claim.get("older runs"), False)
        row[3] &= not older
    deciding = [
        comparison
        for _, _, answer, decides, _ in findings
        if decides
        for comparison in comparisons_of(answer)
    ]
    adjusted = holm([comparison.p for comparison in deciding])
    for comparison, p in zip(deciding, adjusted, strict=True):
        comparison.holm = p
        comparison.outcome = comparison.outcome if p < 0.05 else "unresolved"
    rows = [
        SimpleNamespace(
            part=f"{name} {letter}",
            variant=variant,
            decides=decides,
            **{"holm": math.nan} | vars(comparison),
        )
        for letter, variant, answer, decides, _ in findings
        for comparison in comparisons_of(answer)
    ]
    primary = [row for row in findings if row[0] == claim["primary"]]
    outcomes = {outcome_of(answer) for _, _, answer, decides, _ in primary if decides}
    return rows, verdict_of(outcomes, any(outside for *_, outside in primary))


def verdict_of(outcomes, outside):
    """Find the word for a claim, from the outcomes of its primary part."""
    if not outcomes:
        return "outside the premise" if outside else "not run"
    if "contradicted" in outcomes:
        return "mixed" if "met" in outcomes else "contradicted"
    if "met" in outcomes:
        return "supported" if outcomes == {"met"} else "partly supported"
    return "unresolved"


if __name__ == "__main__":
    result = everything()
    for row in result.comparisons:
        interval = f"{row.mean:+10.4g} [{row.low:+.4g}, {row.high:+.4g}]"
        shown = "" if row.decides else " (shown)"
        print(
            f"{row.part:6} {row.variant:36} {interval}  n = {row.pairs:<3} {row.outcome:12}"
            f" p = {row.p:.2g}, {row.holm:.2g}{shown}"
        )
    for name, word in result.verdicts.items():
        print(f"{name:4} {word}")
