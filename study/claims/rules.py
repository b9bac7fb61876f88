"""What a claim file calls by a name: parts of the runs, and the few rules that are no comparison.

Everything else that a part means stands in its file; :mod:`study.claims.meaning` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import pandas as pd

from study import statistics
from study.claims.compare import Finding, Outcome, VariantRuns
from study.claims.narrowing import at_usual_rate
from study.claims.paper_tables import TABLE_I
from study.methods import Method
from study.variants import FAST

Choice = Callable[[VariantRuns], VariantRuns]
_PLAIN, _SMALLEST = Method.of_beta(1.0), Method.of_beta(0.001)

Rule = Callable[[VariantRuns], Finding | None]


# --- parts of the runs ---


def has_chosen_rate(runs: pd.DataFrame) -> pd.Series[bool]:
    """Tell which runs have the learning rate that the validation split chooses for their method.

    It is the rate of the largest mean validation accuracy, over the seeds of all rates that have
    three or more. Where fewer than three rates have as many, none is chosen.
    """
    chosen = {}
    for method, own in runs.groupby("method"):
        by_rate = own.pivot(index="seed", columns="learning_rate", values="valid_accuracy")
        tried = by_rate.dropna(axis=1, thresh=3).dropna()
        if tried.shape[1] >= 3 and len(tried) >= 3:
            chosen[method] = tried.mean().idxmax()
    return runs["learning_rate"] == runs["method"].map(chosen)


def _chosen_rate(variant: VariantRuns) -> VariantRuns:
    return variant.where(has_chosen_rate(variant.runs), "chosen learning rates")


def _usual_rate(variant: VariantRuns) -> VariantRuns:
    return variant.where(at_usual_rate(variant.runs))


def _matched(variant: VariantRuns) -> VariantRuns:
    """Take the runs with a matched rate, and β = 1, for which matching changes nothing."""
    kept = variant.runs["matched"] == (variant.runs["method"] != _PLAIN)
    return variant.where(kept, "matched learning rate")


def _not_known_before(variant: VariantRuns) -> VariantRuns:
    """Leave out older reduced runs, which were known when these criteria were written."""
    return variant.where((variant.runs["model"] == FAST) | (variant.runs["scale"] == "paper"))


def _half(variant: VariantRuns) -> VariantRuns:
    """Take the runs with half of the samples and right labels.

    LM's 25,000 of 50,000 are more than half of the 45,000 that are not held out.
    """
    half = variant.runs["share"].between(0.44, 0.56) & (variant.runs["label_noise"] == 0)
    return variant.where(half, "0.5 of the samples")


def _wrong(variant: VariantRuns) -> VariantRuns:
    noise = variant.runs["label_noise"]
    return variant.where(noise > 0, f"{noise.max():g} of the labels wrong")


def _of_people(variant: VariantRuns) -> VariantRuns:
    """Leave out the labels that the data set comes with."""
    return variant.where(variant.runs["labels"] != "clean", "people's labels")


def _end(amount: str, other: str, which: str) -> Choice:
    """Take the runs with the least or the most of something.

    They are taken at the largest amount of the other that has several of it.
    """

    def choice(variant: VariantRuns) -> VariantRuns:
        runs = variant.runs
        several = runs.groupby(other)[amount].nunique() > 1
        full = runs[other] == several[several].index.max()
        end = runs.loc[full, amount].agg(which)
        words = f"{end:,} {amount}".replace(",", "\u2009")
        return variant.where(full & (runs[amount] == end), words)

    return choice


CHOICES: Mapping[str, Choice] = {
    "chosen rates": _chosen_rate,
    "usual rate": _usual_rate,
    "matched rates": _matched,
    "not known before": _not_known_before,
    "half of the samples": _half,
    "wrong labels": _wrong,
    "people's labels": _of_people,
    "fewest samples": _end("samples", "epochs", "min"),
    "most samples": _end("samples", "epochs", "max"),
    "shortest training": _end("epochs", "samples", "min"),
    "longest training": _end("epochs", "samples", "max"),
}
"""What ``among`` may say in a claim file."""


# --- rules ---


def rising(variant: VariantRuns, metric: str, *methods: Method) -> Finding | None:
    """Ask whether the means rise from method to method.

    It is met if they do, and contradicted if a step down is beyond its interval.
    """
    compared = (variant.larger(metric, second, first) for first, second in pairwise(methods))
    steps = variant.all_of(*compared)
    if steps is None:
        return None
    outcome: Outcome = "unresolved"
    each = steps.findings or (steps,)  # one step is a comparison, and not made of several
    if all(step.difference and step.difference.mean >= 0 for step in each):
        outcome = "met"
    elif steps.outcome == "contradicted":
        outcome = "contradicted"
    text = "the means increase from step to step"
    return replace(steps, outcome=outcome, text=text, how="compared", findings=(), difference=None)


def _same_confidence(variant: VariantRuns) -> Finding | None:
    """Compare lost samples of β = 0.01 at τ = 1 with the nearest temperature at β = 1.

    The nearest is the one whose mean training confidence is nearest. The two confidences must be
    the same within 0.001.
    """
    means = variant.means("train_confidence")
    small = Method.of_beta(0.01, 1.0)
    if small not in means:
        return None
    usual = [one for one in means if one.is_plain and one.temperature is not None]
    nearest = min(usual, key=lambda one: abs(means[one] - means[small]), default=None)
    return variant.provided(
        variant.within(0.001, "train_confidence", small, nearest),
        variant.differs("lost", small, nearest),
    )


def _best_pair(variant: VariantRuns) -> Finding | None:
    """Compare the best pair (β, τ) with the best β at τ = 1 and with the best τ at β = 1.

    Each is chosen by mean validation accuracy.
    """
    means = variant.means("valid_accuracy")
    pairs = [one for one in means if one.temperature is not None]

    def best(kept: Callable[[Method], bool]) -> Method | None:
        return max(filter(kept, pairs), key=means.__getitem__, default=None)

    both = best(lambda pair: True)
    alone = (best(lambda pair: pair.temperature == 1.0), best(lambda pair: pair.is_plain))
    return variant.all_of(*(variant.larger("test_accuracy", both, one) for one in alone))


def _share_at_each_rate(variant: VariantRuns) -> Finding | None:
    """Compare the shares of errors that are lost at every rate at which two seeds have errors."""
    at_each = [
        variant.at(f"rate {rate:g}", learning_rate=rate, input_scale=1.0, first_weights=1.0)
        for rate in (0.001, 0.01, 0.03, 0.1)
    ]
    for part in at_each:
        if any(len(part.having("errors", beta)) < variant.seeds for beta in (_SMALLEST, _PLAIN)):
            return None
    findings = [replace(part, seeds=2).larger("lost_share", _SMALLEST, _PLAIN) for part in at_each]
    return replace(variant, some=True).all_of(*findings)


def _ranks_ahead(variant: VariantRuns) -> Finding | None:
    """Ask Nemenyi's test, by the mean difference of ranks and the critical difference."""
    finding = variant.larger("negative_rank", TABLE_I[-1], _PLAIN)
    if finding is None or finding.difference is None:
        return None
    limit = statistics.critical_difference(len(TABLE_I), finding.difference.n)
    mean = finding.difference.mean
    outcome: Outcome = "unresolved"
    if abs(mean) >= limit:
        outcome = "met" if mean > 0 else "contradicted"
    text = f"rank of softmax minus rank of ArcGrad 5 (critical difference {limit:.2f})"
    return replace(finding, outcome=outcome, text=text, paper=())


RULES: Mapping[str, Rule] = {
    "same confidence": _same_confidence,
    "best pair": _best_pair,
    "share at each rate": _share_at_each_rate,
    "ranks ahead": _ranks_ahead,
}
"""What ``rule`` may say in a claim file."""
