"""The rules of the claims, each the meaning of a sentence in ``campaigns/criteria.yml``.

That file was committed before the runs; ``campaigns/criteria-changes.yml`` dates every later
change.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import pandas as pd
import yaml

from study import ROOT, published, statistics
from study.criteria.paper_tables import ARCGRAD_OTHERS, TABLE_I
from study.criteria.rules import (
    Finding,
    Outcome,
    Side,
    Values,
    Variant,
    average,
    minus,
    times,
)
from study.criteria.selection import (
    ARCGRAD,
    FAST,
    NO_MOMENTUM,
    RIVALS,
    SAME_STEP,
    WARMUP,
    WITH_MOMENTUM,
    at_usual_rate,
)
from study.losses import LOSSES
from study.published import Setting

Rule = Callable[[Variant], Finding | None]


@dataclass(frozen=True)
class Criterion:
    """A part of a claim: the kind of runs that its rule is asked of, and its sentence."""

    kind: str
    rule: Rule
    sentence: str

    def findings(self, variants: Iterable[Variant]) -> tuple[Finding, ...]:
        """Ask variants; those that lack a run say nothing."""
        return tuple(filter(None, map(self.rule, variants)))


# --- gradient decay on MNIST ---


def _rising(v: Variant, metric: str, *settings: float) -> Finding | None:
    """Met if the means rise from setting to setting; contradicted if a step down is beyond its interval."""
    steps = v.all_of(*(v.larger(metric, second, first) for first, second in pairwise(settings)))
    if steps is None:
        return None
    rising = all(step.difference and step.difference.mean >= 0 for step in steps.components)
    outcome: Outcome = (
        "met" if rising else "contradicted" if steps.outcome == "contradicted" else "unresolved"
    )
    return replace(
        steps, outcome=outcome, text="the means increase from step to step", components=()
    )


def _same_confidence(v: Variant) -> Finding | None:
    """β = 0.01 at τ = 1, and the temperature at β = 1 whose mean training confidence is nearest to it."""
    means, small = v.means("train_confidence"), (0.01, 1.0)
    usual = [
        pair for pair in means if isinstance(pair, tuple) and pair[0] == 1.0 and small in means
    ]
    nearest = min(usual, key=lambda pair: abs(means[pair] - means[small]), default=None)
    return v.provided(
        v.within(0.001, "train_confidence", small, nearest), v.differs("lost", small, nearest)
    )


def _best_pair(
    v: Variant, *, beta: float | None = None, tau: float | None = None
) -> Setting | None:
    """The pair with the largest mean validation accuracy, of those with this β or with this τ."""
    means = v.means("valid_accuracy")
    pairs = [
        pair
        for pair in means
        if isinstance(pair, tuple) and beta in (None, pair[0]) and tau in (None, pair[1])
    ]
    return max(pairs, key=means.__getitem__, default=None)


def _step(
    v: Variant, words: str = "", rate: float = 0.001, inputs: float = 1.0, weights: float = 1.0
) -> Variant:
    """The runs with this learning rate, and these multiples of the inputs and the first weights; no words where they are the papers'."""
    return v.at(words, learning_rate=rate, input_scale=inputs, first_weights=weights)


def _share_at_each_rate(v: Variant) -> Finding | None:
    """Over the seeds that have errors, at every rate at which two or more have."""
    at_each = [_step(v, f"rate {rate:g}", rate) for rate in (0.001, 0.01, 0.03, 0.1)]
    if any(len(part.having("errors", beta)) < v.seeds for part in at_each for beta in (0.001, 1.0)):
        return None
    return replace(v, some=True).all_of(
        *(replace(part, seeds=2).larger("lost_share", 0.001, 1.0) for part in at_each)
    )


def _lost_more(v: Variant, units: int) -> Values:
    """Lost samples of β = 0.001 minus those of β = 1, at a learning rate of 0.1."""
    wide = v.at(units=units, learning_rate=0.1)
    return minus(wide.of("lost", 0.001), wide.of("lost", 1.0), f"{units} units, {{}} minus {{}}")


# --- gradient decay on images ---


def _largest(v: Variant) -> Setting | None:
    """The largest constant β that was run."""
    return max(
        (setting for setting in v.means("test_accuracy") if isinstance(setting, float)),
        default=None,
    )


def _calibrated(v: Variant) -> Values | None:
    """The constant β with the smallest mean validation ECE, beside the best of them in the papers."""
    means = {
        setting: mean
        for setting, mean in v.means("valid_ece").items()
        if isinstance(setting, float)
    }
    best = min(means, key=means.__getitem__, default=None)
    return (
        None
        if best is None
        else replace(v.of("test_ece", best), key=("test_ece", frozenset(means)))
    )


def _beats_post_hoc(v: Variant, beta: Side) -> Finding | None:
    """Test ECE of a β as it is against that of β = 1 after temperature scaling, or after vector scaling."""
    rivals = [
        v.of(f"test_ece_{scaling}", 1.0, f"β = 1 with {scaling} scaling")
        for scaling in ("temperature", "vector")
    ]
    return v.any_of(*(v.smaller("test_ece", beta, rival) for rival in rivals))


def _linked(v: Variant, beta: Setting | None, name: str = "after the link") -> Values:
    return v.of("test_ece_link", beta, name)


def _not_known_before(v: Variant) -> Variant:
    """Leave out the older reduced runs, which were known when the criteria for networks at real accuracy were written."""
    return v.where((v.runs["model"] == FAST) | (v.runs["scale"] == "paper"))


def _matched(v: Variant, words: str = "matched learning rate") -> Variant:
    """The runs with a matched rate, and those of β = 1, for which matching changes nothing."""
    return v.where(v.runs["matched"] == (v.runs["setting"] != 1.0), words)


def at_chosen_rate(v: Variant) -> Variant:
    """The runs of each β with the learning rate of the largest mean validation accuracy, over the seeds of all rates with three or more."""
    setting, chosen = v.runs["setting"].astype(str), {}
    for name, runs in v.runs.groupby(setting):
        tried = (
            runs.pivot(index="seed", columns="learning_rate", values="valid_accuracy")
            .dropna(axis=1, thresh=3)
            .dropna()
        )
        if tried.shape[1] >= 3 and len(tried) >= 3:
            chosen[name] = tried.mean().idxmax()
    return v.where(v.runs["learning_rate"] == setting.map(chosen), "chosen learning rates")


def _mostly_speed(v: Variant) -> Finding | None:
    """The gain of β = 0.1 over β = 5 at the common rate, against twice that at the chosen rates."""
    parts = (v.where(at_usual_rate(v.runs)), at_chosen_rate(v))
    common, chosen = (
        minus(part.of("test_accuracy", 0.1), part.of("test_accuracy", 5.0)) for part in parts
    )
    twice = times(2, chosen, f"2 × ({chosen.name})")
    return v.provided(v.larger("test_accuracy", common), v.larger("test_accuracy", common, twice))


# --- the regulariser of LM ---


def _over_lambda(v: Variant, *kinds: str) -> Iterator[Values]:
    """The test accuracy of each divergence, averaged over the values of λ that all of them have."""
    there = [str(name).partition(" ") for name in v.runs["setting"]]
    shared = sorted(
        set.intersection(
            *({numbers for loss, _, numbers in there if loss == kind} for kind in kinds)
        ),
        key=float,
    )
    for kind in kinds:
        columns = [v.of("test_accuracy", f"{kind} {value}") for value in shared]
        name = f"{LOSSES[kind].title}, {'mean over ' * (len(shared) > 1)}λ = {', '.join(shared)}"
        yield average(columns, name)


def _lost_by_a_larger(v: Variant, kind: str) -> Values:
    return minus(v.of("test_accuracy", f"{kind} 0.1"), v.of("test_accuracy", f"{kind} 0.3"))


def _half(v: Variant) -> Variant:
    """The runs with half of the samples and right labels; LM's 25,000 of 50,000 are more than half of the 45,000 not held out."""
    return v.where(
        v.runs["share"].between(0.44, 0.56) & (v.runs["label_noise"] == 0), "0.5 of the samples"
    )


def _wrong(v: Variant) -> Variant:
    return v.where(
        v.runs["label_noise"] > 0, f"{v.runs['label_noise'].max():g} of the labels wrong"
    )


# --- ArcGrad ---


def _ends(v: Variant, amount: str) -> list[Variant]:
    """The runs with the least and with the most of something, at the largest amount of the other that has several of it."""
    other = v.runs[{"samples": "epochs", "epochs": "samples"}[amount]]
    several = v.runs.groupby(other)[amount].nunique() > 1
    full = other == several[several].index.max()
    ends = v.runs.loc[full, amount].agg(["min", "max"])
    return [
        v.where(full & (v.runs[amount] == end), f"{end:,} {amount}".replace(",", "\u2009"))
        for end in ends
    ]


def _lead(v: Variant) -> Values:
    return minus(
        v.of("test_accuracy", ARCGRAD),
        v.of("test_accuracy", "softmax"),
        f"{{}} minus {{}} with {v.words}",
    )


def _ahead(v: Variant, *others: str) -> Finding | None:
    return v.larger("test_accuracy", ARCGRAD, v.best_of(*others))


def _excess(v: Variant, model: str) -> Values:
    """The time of ArcGrad's last layer and loss, beyond those of softmax, as a share of a step."""
    return v.at(model=model).of("excess", ARCGRAD, f"ArcGrad in {model}")


def _ranks_ahead(v: Variant) -> Finding | None:
    """Nemenyi's test, which is the interval of the mean rank difference plus and minus the critical difference."""
    found = v.larger("negative_rank", _ARCGRAD_5, "softmax")
    if found is None or found.difference is None:
        return None
    limit, mean = (
        statistics.critical_difference(len(TABLE_I), found.difference.n),
        found.difference.mean,
    )
    outcome: Outcome = (
        "met" if mean >= limit else "contradicted" if mean <= -limit else "unresolved"
    )
    text = f"rank of softmax minus rank of ArcGrad 5 (critical difference {limit:.2f})"
    return replace(found, outcome=outcome, text=text, paper=())


def _lost_with_depth(v: Variant, method: str) -> Values:
    """Accuracy with three layers minus that with ten."""
    shallow, deep = (v.at(depth=layers).of("test_accuracy", method) for layers in (3, 10))
    return minus(shallow, deep, f"{published.loss_name(method)}, 3 layers minus 10")


_MNIST_WARMUPS = ("warm-up 0.001→0.01", "warm-up 0.01→0.1")
_CONSTANT = (5.0, 1.0, 0.1, 0.01)
_FEEDBACK, _OF_CLASS = "feedback 1, 5, 5", "class-beta 0.1"
_SMALL = 0.005  # of accuracy: half a percentage point
_LM = "lm 0.3"
_ARCGRAD_5 = "arcgrad 5"
_ON_IRIS = ("softmax", "arcface 20 0.1", "adacos")

# Numbers are constant β, texts losses and warm-ups.
_RULES: Mapping[str, tuple[str, Rule]] = {
    "E1 a": ("feature-plane", lambda v: v.smaller("intra_inter_ratio", 0.1, 1.0)),
    "E1 b": ("feature-plane", lambda v: v.smaller("minimum_to_mean_inter", 0.01, 0.1)),
    "E2 a": ("curriculum", lambda v: v.smaller("epoch_easy", 0.01, 1.0)),
    "E2 b": ("curriculum", lambda v: v.larger("gap", 0.01, 1.0)),
    "E2 c": ("curriculum", lambda v: v.larger("never_learnt", 0.01, 1.0)),
    "E3 a": ("grid", lambda v: v.larger("lost", 0.001, 1.0)),
    "E3 b": (
        "grid",
        lambda v: v.all_of(v.larger("lost", 0.001, 0.5), _rising(v, "lost", 0.5, 0.1, 0.01, 0.001)),
    ),
    "E3 c": ("grid", lambda v: v.larger("sure", 0.1, 1.0)),
    "E4 a": ("grid", lambda v: v.larger("test_accuracy", 0.01, 1.0)),
    "E4 b": ("grid", lambda v: v.larger("test_accuracy", 1.0, 5.0)),
    "E4 c": (
        "grid",
        lambda v: v.any_of(
            *(v.larger("test_accuracy", up, v.best_of(2.0, *_CONSTANT)) for up in _MNIST_WARMUPS)
        ),
    ),
    "E5 a": ("grid", lambda v: v.smaller("early_cross_entropy", 0.01, 1.0)),
    "E5 b": ("grid", lambda v: v.smaller("early_cross_entropy", 1.0, 5.0)),
    "E14 a": ("temperature", _same_confidence),
    "E14 b": (
        "temperature",
        lambda v: v.all_of(
            *(
                v.larger("test_accuracy", _best_pair(v), one)
                for one in (_best_pair(v, tau=1.0), _best_pair(v, beta=1.0))
            )
        ),
    ),
    "E6 a": ("cifar10", lambda v: v.larger("test_accuracy", 0.1, 1.0)),
    "E6 b": ("cifar10", lambda v: v.larger("test_accuracy", 1.0, 5.0)),
    "E6 c": ("cifar10", lambda v: v.larger("test_accuracy", WARMUP, v.best_of(*_CONSTANT))),
    "E8 a": ("many-classes", lambda v: v.larger("test_accuracy", 5.0, 0.1)),
    "E8 b": ("many-classes", lambda v: v.larger("test_top5_accuracy", 5.0, 0.1)),
    "E9 a": ("tiny-imagenet", lambda v: v.within(0.01, "test_accuracy", 5.0, 0.1)),
    "E9 b": ("tiny-imagenet", lambda v: v.larger("test_top5_accuracy", 5.0, 0.1)),
    "E9 c": ("tiny-imagenet", lambda v: v.larger("train_accuracy", 0.1, 5.0)),
    "E11 a": (
        "images",
        lambda v: v.all_of(v.larger("overconfidence", 0.1, 1.0), v.larger("overconfidence", 0.1)),
    ),
    "E11 b": ("images", lambda v: v.smaller("test_ece", 20.0, 1.0)),
    "E11 c": ("images", lambda v: v.larger("test_ece", 0.1, 1.0)),
    "E11 d": ("images", lambda v: v.larger("test_mce", 0.1, 20.0)),
    "E12 a": ("images", lambda v: _beats_post_hoc(v, _calibrated(v))),
    "E12 b": ("images", lambda v: _beats_post_hoc(v, 20.0)),
    "E13 a": (
        "oscillation",
        lambda v: v.at(WITH_MOMENTUM, arm=WITH_MOMENTUM).larger("oscillation", 5.0, 0.1),
    ),
    "E13 b": (
        "oscillation",
        lambda v: v.all_of(
            *(
                v.at(arm, arm=arm).smaller("oscillation", 5.0, 0.1)
                for arm in (NO_MOMENTUM, SAME_STEP)
            )
        ),
    ),
    "E13 c": ("images", lambda v: v.at(model=FAST).larger("falls", 5.0, 0.1)),
    "B1 a": (
        "matched",
        lambda v: _matched(v, "matched learning rates").larger("overconfidence", 0.1, 5.0),
    ),
    "B1 b": ("matched", lambda v: _matched(v).differs("test_accuracy", 0.1, 1.0)),
    "B1 c": ("tuned", lambda v: at_chosen_rate(v).larger("overconfidence", 0.1, 5.0)),
    "B1 d": (
        "tuned",
        lambda v: at_chosen_rate(v).differs("test_accuracy", 0.1, 1.0, margin=_SMALL),
    ),
    "B1 e": ("tuned", _mostly_speed),
    "B1 f": ("mnist-tuned", lambda v: at_chosen_rate(v).larger("overconfidence", 0.1, 5.0)),
    "B1 g": (
        "mnist-tuned",
        lambda v: at_chosen_rate(v).differs("test_accuracy", 0.1, 1.0, margin=_SMALL),
    ),
    "B1 h": ("mnist-tuned", _mostly_speed),
    "B2 a": (
        "images",
        lambda v: v.all_of(
            *(v.smaller("test_ece", _linked(v, beta), beta) for beta in (0.1, 20.0))
        ),
    ),
    "B2 b": (
        "images",
        lambda v: v.smaller(
            "test_ece",
            _linked(v, 0.1, "β = 0.1 after the link"),
            v.of("test_ece_temperature", 0.1, "after temperature scaling"),
            by=0.01,
        ),
    ),
    "B2 c": ("link", lambda v: v.smaller("test_ece", _linked(v, 0.1), 0.1)),
    "A2 a": (
        "uci-tables",
        lambda v: v.larger("test_accuracy", _ARCGRAD_5, v.best_of(*ARCGRAD_OTHERS)),
    ),
    "A2 b": (
        "uci-tables",
        lambda v: v.larger("wins", _ARCGRAD_5, v.best_of(*ARCGRAD_OTHERS, by="wins")),
    ),
    "A2 c": ("uci-tables", _ranks_ahead),
    "A2 d": (
        "uci-tables",
        lambda v: v.all_of(
            *(
                v.larger("test_accuracy", "softmax", other)
                for other in ("center 0.02", "arcface 20 0.1", "adacos")
            )
        ),
    ),
    "A3 a": (
        "uci-layers",
        lambda v: (deep := v.at("10 layers", depth=10)).all_of(
            *(deep.larger("test_accuracy", _ARCGRAD_5, one) for one in _ON_IRIS)
        ),
    ),
    "A3 b": (
        "uci-layers",
        lambda v: v.all_of(
            *(
                v.larger("test_accuracy", _lost_with_depth(v, one), _lost_with_depth(v, _ARCGRAD_5))
                for one in _ON_IRIS
            )
        ),
    ),
    "A4 a": ("angular-images", lambda v: v.larger("test_accuracy", ARCGRAD, "softmax")),
    "A4 b": ("angular-images", lambda v: _ahead(v, *ARCGRAD_OTHERS[1:])),
    "A4 c": (
        "angular-images",
        lambda v: v.larger("test_accuracy", v.best_of(*ARCGRAD_OTHERS[1:]), "softmax"),
    ),
    "A5 a": ("angular-cuts", lambda v: v.larger("test_accuracy", *map(_lead, _ends(v, "samples")))),
    # Figure 3 has these beside ArcGrad
    "A5 b": (
        "angular-cuts",
        lambda v: _ahead(_ends(v, "samples")[0], "softmax", "arcface 20 0.1", "adacos"),
    ),
    "A5 c": ("angular-cuts", lambda v: v.larger("test_accuracy", *map(_lead, _ends(v, "epochs")))),
    "A5 d": ("angular-cuts", lambda v: _ahead(_ends(v, "epochs")[0], *ARCGRAD_OTHERS)),
    "A6 a": (
        "angular",
        lambda v: v.all_of(
            *(v.larger("wc_intra", "softmax", other) for other in (ARCGRAD, *ARCGRAD_OTHERS[1:]))
        ),
    ),
    "A6 b": (
        "angular",
        lambda v: v.all_of(*(v.smaller("wc_intra", ARCGRAD, other) for other in ARCGRAD_OTHERS)),
    ),
    "A6 c": ("angular", lambda v: v.larger("w_inter", ARCGRAD, "softmax")),
    "A6 d": ("angular", lambda v: v.smaller("mean_target_angle", ARCGRAD, "softmax")),
    "A7 a": ("cost", lambda v: v.smaller("excess", _excess(v, "resnet18"), by=0.05)),
    "A7 b": ("cost", lambda v: v.smaller("excess", _excess(v, "resnet34"), _excess(v, "resnet18"))),
    "L3 a": ("large-margin", lambda v: v.larger("test_accuracy", _LM, "softmax")),
    "L3 b": (
        "large-margin",
        lambda v: v.larger("test_accuracy", *_over_lambda(v, "lm-uq", "lm-qu")),
    ),
    "L3 c": ("large-margin", lambda v: v.larger("test_accuracy", *_over_lambda(v, "lm", "lm-qu"))),
    "L3 d": ("large-margin", lambda v: v.larger("test_accuracy", "lm 0.9", "lm 0.1")),
    "L4 a": (
        "large-margin",
        lambda v: v.larger("test_accuracy", _LM, v.best_of("label-smoothing")),
    ),
    "L4 b": ("large-margin", lambda v: v.larger("test_accuracy", _LM, "super-symmetry")),
    "L4 c": ("large-margin", lambda v: v.smaller("test_accuracy", "super-symmetry", "softmax")),
    # only shown, since the loss is built to do so
    "L4 d": (
        "large-margin",
        lambda v: (found := v.larger("train_margin_bias", _LM, "softmax")) and found.only_shown(),
    ),
    "L4 e": (
        "large-margin",
        lambda v: v.larger("train_margin_bias", "label-smoothing 0.1", "softmax"),
    ),
    "L4 f": ("large-margin", lambda v: v.larger("bias_rise", _LM, "softmax")),
    "L5 a": ("degraded", lambda v: _half(v).larger("test_accuracy", _LM, "softmax")),
    "L5 b": ("degraded", lambda v: _half(v).larger("test_accuracy", "lm 1", _LM)),
    "L5 c": ("degraded", lambda v: _wrong(v).larger("test_accuracy", _LM, "softmax")),
    "L5 d": ("degraded", lambda v: _wrong(v).larger("test_accuracy", "lm 1", _LM)),
    "L6 a": (
        "large-margin",
        lambda v: v.smaller("test_accuracy", "hinge", "softmax"),
    ),
    "L6 b": (
        "large-margin",
        lambda v: v.larger("test_accuracy", "modified", "softmax"),
    ),
    "L6 c": (
        "large-margin",
        lambda v: v.larger(
            "test_accuracy", _LM, v.best_of("modified", "l-softmax", "lgm")
        ),
    ),
    "L6 d": (
        "large-margin",
        lambda v: v.larger("test_accuracy", "modified-lm 0.3", "modified"),
    ),
    "L10 a": (
        "large-margin",
        lambda v: v.larger(
            "test_accuracy", *(_lost_by_a_larger(v, kind) for kind in ("label-smoothing", "lm"))
        ),
    ),
    "E10 a": ("margins", lambda v: v.larger("test_accuracy", WARMUP, RIVALS[0])),
    "E10 b": ("margins", lambda v: v.larger("test_accuracy", WARMUP, RIVALS[1])),
    "E16 a": ("many-classes", lambda v: v.larger("test_accuracy", WARMUP, v.best_of(*_CONSTANT))),
    "E16 b": (
        "many-classes",
        lambda v: v.larger("test_accuracy", "warm-up 1→5", v.best_of(*_CONSTANT)),
    ),
    "E17 a": ("images", lambda v: _not_known_before(v).larger("early_accuracy", WARMUP, 1.0)),
    "E17 b": ("images", lambda v: _not_known_before(v).smaller("overconfidence", WARMUP, 0.1)),
    "E18 a": ("cifar100", lambda v: v.larger("test_accuracy", _largest(v), 1.0)),
    "E18 b": ("cifar100", lambda v: v.smaller("overconfidence", _largest(v))),
    "B4 a": ("step", lambda v: _step(v).smaller("errors", 0.001, 1.0)),
    "B4 b": ("step", lambda v: _step(v, "rate 0.1", 0.1).larger("errors", 0.001, 1.0)),
    "B4 c": ("step", lambda v: _step(v).smaller("lost", 0.001, 1.0)),
    "B4 d": ("step", lambda v: _step(v, "rate 0.1", 0.1).larger("lost", 0.001, 1.0)),
    "B4 e": ("step", _share_at_each_rate),
    "B4 f": (
        "step",
        lambda v: _step(v, "first layer's rate × 255²", inputs=255, weights=1 / 255).larger(
            "errors", 0.001, 1.0
        ),
    ),
    "B4 g": (
        "step",
        lambda v: _step(v, "first weights × 255", weights=255).larger("errors", 0.001, 1.0),
    ),
    "B3 a": ("feedback", lambda v: v.at(matched=False).smaller("test_ece", _FEEDBACK, 1.0)),
    "B3 b": (
        "feedback",
        lambda v: v.at(matched=False).larger("test_accuracy", _FEEDBACK, 1.0, by=-_SMALL),
    ),
    "B3 c": ("feedback", lambda v: _matched(v).smaller("test_ece", _FEEDBACK, 1.0)),
    "B3 d": ("feedback", lambda v: _matched(v).larger("test_accuracy", _FEEDBACK, 1.0, by=-_SMALL)),
    "B5 a": ("long-tailed", lambda v: v.larger("test_accuracy", _OF_CLASS, 1.0)),
    "B5 b": ("long-tailed", lambda v: v.larger("test_accuracy", "adjusted 1", _OF_CLASS)),
    "B5 c": ("long-tailed", lambda v: v.larger("test_accuracy", "adjusted 1", "adjusted 0.1")),
    "B5 d": ("long-tailed", lambda v: v.larger("test_accuracy", "weighted 0.1", 0.1)),
    "B5 e": (
        "long-tailed",
        lambda v: v.larger(
            "test_accuracy",
            v.of("test_accuracy_link", _OF_CLASS, "the decision by the link"),
            _OF_CLASS,
        ),
    ),
    "B5 f": ("long-tailed", lambda v: v.larger("test_accuracy", "weighted 1", "weighted 0.1")),
    "E19 a": ("width", lambda v: v.larger("lost", _lost_more(v, 25), _lost_more(v, 400))),
    "E19 b": (
        "width",
        lambda v: v.at("400 and 160 units", units=400, learning_rate=0.1).within(
            60, "lost", 0.001, 1.0
        ),
    ),
    "E19 c": (
        "width",
        lambda v: v.at("25 and 10 units, rate 0.001", units=25, learning_rate=0.001).larger(
            "lost", 0.001, 1.0
        ),
    ),
}

@dataclass(frozen=True)
class Claim:
    """A claim with criteria: its parts by their letters, and what its verdict follows."""

    parts: Mapping[str, Criterion]
    primary: str  # the part whose findings the verdict's word follows
    premise: float = 0.0  # the least training accuracy at β = 1 of a variant that decides


def _claims() -> dict[str, Claim]:
    text = (ROOT / "campaigns" / "criteria.yml").read_text(encoding="utf-8")
    parts: dict[str, dict[str, Criterion]] = {}
    written = yaml.safe_load(text)
    for part, (kind, rule) in _RULES.items():
        name, letter = part.split()
        sentence = written[name]["parts"][letter]
        parts.setdefault(name, {})[letter] = Criterion(kind, rule, sentence)
    return {
        name: Claim(own, written[name]["primary"], written[name].get("premise", 0.0))
        for name, own in parts.items()
    }


CLAIMS: Mapping[str, Claim] = _claims()
"""Every claim that has criteria."""
