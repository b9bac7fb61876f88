"""What the papers on other losses print beside ours.

The papers are "Large Margin in Softmax Cross-Entropy Loss" and "ArcGrad".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from study import claims, published, statistics
from study.claims import TABLE_I, VariantRuns
from study.claims.narrowing import by_variant
from study.losses import LOSSES
from study.methods import Method, method_name
from study.statistics import MeanSd
from study.tables.book import MISSING, bold, cell, mean_sd
from study.tables.runs import leads
from study.variants import AUGMENTATIONS, Variant

PAPER = "paper"

# --- large margin ---

DIVERGENCES = {"lm-uq": "D(u‖q)", "lm-qu": "D(q‖u)", "lm": "symmetric"}
"""The regularisers of the paper's table 1, in its order."""

_NO_NUMBERS = ("lgm", "l-softmax")  # the paper does not say with which
_ORDER = (
    *("softmax", "super-symmetry", "label-smoothing", "hinge", "modified", "lgm", "l-softmax"),
    *("lm-qu", "lm-uq", "lm", "modified-lm"),
)

_RUNS = 3  # behind every printed mean: section 4.1
_DIVERGENCES_OF = "CIFAR-100, 13-layer network"  # table 1


def printed(*numbers: int) -> pd.DataFrame:
    """Read the paper's tables, 1 to 4, in our names.

    The columns are ``source`` and its ``data``, ``loss``, the error ``value`` in per cent and its
    ``sd``.

    LGM and L-Softmax stand without numbers, because the paper gives none.

    Example:
        >>> printed(2).set_index("loss").loc["lm 0.3", "value"].item()
        27.27
    """
    rows = []
    for row in pd.concat([published.table("LM", number) for number in numbers]).to_dict("records"):
        method = published.method(row)[0]
        assert method is not None  # every loss of the paper is one of the book
        degraded = {
            "of the samples": row.get("train_fraction", 0),
            "% wrong labels": 100 * row.get("noise_rate", 0),
        }
        parts = [
            row["dataset"],
            row["model"],
            *(f"{amount:g} {words}" for words, amount in degraded.items() if amount > 0),
        ]
        about = ", ".join(parts), row["dataset"], _without_numbers(method)
        rows.append((*about, float(row["value"]), float(row["sd"])))
    return pd.DataFrame(rows, columns=["source", "data", "loss", "value", "sd"])


def divergences(runs: pd.DataFrame) -> pd.DataFrame:
    """Show the paper's table 1 and ours: error rates in per cent.

    There is a row for each λ, a column for each divergence; softmax has λ = 0.
    """
    softmax = printed(2).query("loss == 'softmax'")
    theirs = pd.concat([printed(1), softmax]).set_index("loss")
    sources = {
        f"{PAPER}, {_DIVERGENCES_OF}": {
            str(loss): cell(MeanSd(mean, sd, _RUNS), ".2f")
            for loss, _, _, mean, sd in theirs.itertuples()
        }
    }
    for variant, of_variant in runs.groupby("variant", sort=False) if not runs.empty else ():
        errors = 100 * (1 - of_variant.set_index("loss")["test_accuracy"])
        sources[f"ours, {variant}"] = {
            str(loss): mean_sd(own) for loss, own in errors.groupby(level=0)
        }
    rows = []
    for source, cells in sources.items():
        methods = map(Method.parse, cells)
        strengths = {one.numbers[0] for one in methods if one.loss in DIVERGENCES}
        rows.append(
            {"source": source, "λ": "0 (softmax)"}
            | dict.fromkeys(DIVERGENCES.values(), cells.get("softmax", MISSING))
        )
        for value in sorted(strengths):
            of_value = {
                title: cells.get(Method(loss, (value,)).label, MISSING)
                for loss, title in DIVERGENCES.items()
            }
            rows.append({"source": source, "λ": f"{value:g}"} | of_value)
    return pd.DataFrame(rows)


def minus_softmax(runs: pd.DataFrame) -> pd.DataFrame:
    """Compute the accuracy of each loss minus softmax, in points.

    The numbers are for :func:`study.figures.beside`: the paper's tables 1, 2 and 4, and ours.

    The paper's are by :func:`study.statistics.contrast`, where it prints spreads. Ours are as
    verdicts have them: independent samples, with the deviation of all losses of the variant
    together. ``of`` says whose they are, on which data, and how these are augmented.
    """
    rows = []
    of_paper = printed(1, 2, 4).dropna(subset="sd").drop_duplicates(["source", "loss"])
    for (_, data), of_source in of_paper.groupby(["source", "data"], sort=False):
        errors = {
            row["loss"]: MeanSd(row["value"], row["sd"], _RUNS)
            for row in of_source.to_dict("records")
        }
        for loss in errors.keys() - {"softmax"}:
            welch = statistics.contrast([errors["softmax"], errors[loss]], [1, -1])
            ends = welch.estimate, welch.low, welch.high
            source = f"{PAPER}, {data}"
            rows.append((False, loss, source, source, *ends))
    for variant, of_variant in runs.groupby("variant", sort=False) if not runs.empty else ():
        runs_of_variant, ours = VariantRuns(Variant(), of_variant), {}
        data, augmentation = of_variant[["data", "augmentation"]].iloc[0]
        of_data = f"ours, {data}, {AUGMENTATIONS[augmentation]}"
        softmax, counts = Method.parse("softmax"), of_variant["method"].value_counts()
        for method in sorted(
            set(of_variant["method"]) - {softmax}, key=lambda one: int(counts[one])
        ):
            lead = runs_of_variant.larger("test_accuracy", method, softmax)
            if lead and lead.difference:  # of the method with most seeds, which comes last
                ours[_without_numbers(method)] = lead.difference.interval.times(100)
        rows += [
            (True, loss, f"ours, {variant}", of_data, own.estimate, own.low, own.high)
            for loss, own in ours.items()
        ]
    frame = pd.DataFrame(rows, columns=["ours", "loss", "source", "of", "mean", "low", "high"])
    frame = frame.assign(
        panel="", label=frame["loss"].map(method_name), place=frame["loss"].map(place_of)
    )
    return frame.sort_values(["ours", "place"], kind="stable", ignore_index=True)


def as_printed() -> pd.DataFrame:
    """Compare the paper's own errors, in points, for the parts whose file says where they stand.

    A loss without its numbers is the mean over all of them. The intervals are made of mean and
    standard deviation of three independent runs, by :func:`study.statistics.contrast`. That it is
    three the paper says for its tables 1 to 3; for table 4 it is taken over. Differences whose
    95 % interval excludes 0 are bold.

    Example:
        >>> where, _, compared, numbers = as_printed().iloc[0]
        >>> where, compared
        ('CIFAR-100, 13-layer network', 'LM, λ = 0.3 minus softmax')
        >>> numbers
        '**−1.35 [−1.84, −0.86]**'
    """
    errors = {
        (row["source"], row["loss"]): MeanSd(row["value"], row["sd"], _RUNS)
        for row in printed(1, 2, 3, 4).to_dict("records")
    }
    rows = []
    for name, claim in claims.ledger().items():
        for letter, part in claim.parts.items():
            for where, (left, right) in part.printed.items():
                first, second = (_of_loss(errors, where, loss) for loss in (left, right))
                weights = [1 / len(first)] * len(first) + [-1 / len(second)] * len(second)
                difference = statistics.contrast([*first, *second], weights)
                compared = f"{_title_over_numbers(left)} minus {_title_over_numbers(right)}"
                rows.append((where, f"{name} {letter}", compared, bold(difference, ".2f")))
    frame = pd.DataFrame(rows, columns=["where", "part", "compared", "errors, points [95 %]"])
    places = {where: place for place, where in enumerate(dict.fromkeys(frame["where"]))}
    return frame.sort_values("where", key=lambda column: column.map(places), kind="stable")


def _of_loss(errors: Mapping[tuple[str, str], MeanSd], where: str, loss: str) -> list[MeanSd]:
    """List what the paper prints somewhere for a loss, or for all of its numbers."""
    asked = Method.parse(loss)
    return [
        mean
        for (source, printed_loss), mean in errors.items()
        if source == where and asked.includes(Method.parse(printed_loss))
    ]


def place_of(loss: str) -> tuple[int, float]:
    """Give a sorting key of a loss.

    Softmax is first, then follows the order of the paper, the regulariser last; a loss with larger
    numbers comes later.
    """
    method = Method.parse(loss)
    name = "softmax" if method.is_plain else method.loss
    place = _ORDER.index(name) if name in _ORDER else len(_ORDER)
    return place, method.numbers[0] if method.numbers else 0.0


def _without_numbers(method: Method) -> str:
    return method.loss if method.loss in _NO_NUMBERS else method.label


def _title_over_numbers(loss: str) -> str:
    return f"{LOSSES[loss].title}, mean over λ" if loss in DIVERGENCES else method_name(loss)


# --- ArcGrad's Table I ---

FREE, TOGETHER = "rows dealt out freely, as in the paper", "equal rows in one fold (decides)"


def table_i(runs: pd.DataFrame) -> pd.DataFrame:
    """Show the accuracies of Table I in per cent.

    There is a row for each of ``folds``, ``source``, ``title`` and ``method``, with its label as
    ``schedule``.
    """
    frames = [_long(claims.paper_table_i(), FREE, PAPER)]
    for kind, folds in {"uci": FREE, "uci-adam": FREE, "uci-tables": TOGETHER}.items():
        of_kind = claims.runs_of(runs, kind)
        known = of_kind[of_kind["method"].isin(TABLE_I)] if len(of_kind) else of_kind
        for variant, group in by_variant(known):
            frames.append(_long(claims.accuracies(group), folds, variant.short))
    return pd.concat(frames, ignore_index=True)


def ahead(scores: pd.DataFrame) -> pd.DataFrame:
    """Give the accuracy of ArcGrad in Table I minus that of each other method.

    It is in points over the data sets, for :func:`study.figures.beside`.
    """
    named = scores.rename(columns={"folds": "variant"})
    groups = named.groupby("source", sort=False)
    return pd.concat(
        [
            leads(own, "accuracy", "arcgrad 5", scale=-1, unit="title").assign(
                source=source, ours=source != PAPER
            )
            for source, own in groups
        ]
    )


def summary(scores: pd.DataFrame, *kinds: str) -> pd.DataFrame:
    """Give accuracy, wins or rank of each method over the data sets, the best bold.

    There is a group of rows for each, a column for each source.
    """
    of_kind: Mapping[str, tuple[str, Callable[[pd.DataFrame], pd.Series[float]], str]] = {
        "accuracy": ("average accuracy, %", lambda table: table.mean(), ".2f"),
        "wins": ("tables won", lambda table: claims.won(table).sum(), ".3g"),
        "rank": ("average rank", lambda table: -statistics.ranks(table).mean(), ".2f"),
    }
    frames = []
    for kind in kinds:
        title, number, spec = of_kind[kind]
        for folds, of_folds in scores.groupby("folds", sort=False):
            wide = of_folds.pivot_table(
                index="title", columns=["source", "method"], values="accuracy", sort=False
            )
            wide = pd.DataFrame(
                {
                    source: number(wide[source][list(TABLE_I)])
                    for source in of_folds["source"].unique()
                }
            )
            texts = wide.abs().map(f"{{:{spec}}}".format)
            best = texts.where(wide.ne(wide.max()), "**" + texts + "**").rename(str)
            frames.append(best.rename_axis("method").reset_index().assign(of=f"{title}: {folds}"))
    return pd.concat(frames, ignore_index=True).fillna(MISSING)


def _long(wide: pd.DataFrame, folds: str, source: str) -> pd.DataFrame:
    frame = (
        wide.rename_axis("title")
        .reset_index()
        .melt("title", var_name="method", value_name="accuracy")
    )
    labels = frame["method"].map(lambda method: method.label)
    return frame.assign(schedule=labels, folds=folds, source=source)
