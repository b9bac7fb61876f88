"""The tables of "Large Margin in Softmax Cross-Entropy Loss" beside ours: error rates in per cent, a column for each loss or each λ."""

from __future__ import annotations

import pandas as pd

from study import published, statistics
from study.statistics import MeanSd
from study.tables.book import MISSING, cell, difference, mean_sd

DIVERGENCES = {"lm-uq": "D(u‖q)", "lm-qu": "D(q‖u)", "lm": "symmetric"}
"""The regularisers of the paper's table 1, in its order."""

_NO_NUMBERS = {"lgm": "LGM", "l-softmax": "L-Softmax"}  # the paper does not say with which
_ORDER = (
    *("softmax", "super-symmetry", "label-smoothing", "hinge", "modified", "lgm", "l-softmax"),
    *("lm-qu", "lm-uq", "lm", "modified-lm"),
)

_RUNS = 3  # behind every printed mean: section 4.1
_CIFAR_100 = "CIFAR-100, 13-layer network"
_CIFAR_10, _SVHN = "CIFAR-10, WideResNet-28-10", "SVHN, WideResNet-28-10"
_UQ, _QU, _SYMMETRIC = ("; ".join(f"{kind} 0.{digit}" for digit in range(1, 10)) for kind in DIVERGENCES)
_HALF, _FEW_WRONG, _HALF_WRONG = (f"{_CIFAR_100}, {what}" for what in ("0.5 of the samples", "20 % wrong labels", "50 % wrong labels"))
_COMPARED = (
    ("L3 a", _CIFAR_100, "lm 0.3", "softmax"),
    ("L3 b", _CIFAR_100, _UQ, _QU),
    ("L3 c", _CIFAR_100, _SYMMETRIC, _QU),
    ("L3 d", _CIFAR_100, "lm 0.9", "lm 0.1"),
    ("L4 a", _CIFAR_100, "lm 0.3", "label-smoothing 0.1"),
    ("L4 b", _CIFAR_100, "lm 0.3", "super-symmetry"),
    ("L4 c", _CIFAR_100, "super-symmetry", "softmax"),
    ("L5 a", _HALF, "lm 0.3", "softmax"),
    ("L5 b", _HALF, "lm 1", "lm 0.3"),
    ("L5 c", _FEW_WRONG, "lm 0.3", "softmax"),
    ("L5 c", _HALF_WRONG, "lm 0.3", "softmax"),
    ("L5 d", _FEW_WRONG, "lm 1", "lm 0.3"),
    ("L5 d", _HALF_WRONG, "lm 1", "lm 0.3"),
    ("L6 a", _CIFAR_10, "hinge", "softmax"),
    ("L6 b", _CIFAR_10, "modified", "softmax"),
    ("L6 b", _SVHN, "modified", "softmax"),
    ("L6 c", _CIFAR_10, "lm 0.3", "l-softmax"),
    ("L6 c", _SVHN, "lm 0.3", "lgm"),
)


def printed(number: int) -> pd.DataFrame:
    """One of the paper's tables, 1 to 4, in our names: ``source``, ``loss``, the printed cell ``error`` in per cent, ``value`` and ``sd``.

    LGM and L-Softmax stand without numbers, because the paper gives none.

    Example:
        >>> printed(2).set_index("loss").loc["lm 0.3", ["source", "error"]].tolist()
        ['paper, CIFAR-100, 13-layer network', '27.27 ± 0.15']
    """
    table = published.table("LM", number)
    rows = []
    for row in table.to_dict("records"):
        loss = str(published.setting(row)[0])
        parts = ["paper", str(row["dataset"]), str(row["model"])]
        if row.get("train_fraction", 0) > 0:
            parts.append(f"{row['train_fraction']:g} of the samples")
        if row.get("noise_rate", 0) > 0:
            parts.append(f"{100 * row['noise_rate']:g} % wrong labels")
        spread = f" ± {row['sd']:.2f}" if row["sd"] == row["sd"] else ""
        rows.append(
            {
                "source": ", ".join(parts),
                "loss": kind if (kind := loss.partition(" ")[0]) in _NO_NUMBERS else loss,
                "error": f"{row['value']:.2f}{spread}" if row["value"] == row["value"] else MISSING,
                "value": float(row["value"]),
                "sd": float(row["sd"]),
            }
        )
    return pd.DataFrame(rows)


def beside(runs: pd.DataFrame, number: int) -> pd.DataFrame:
    """One of the paper's tables 2 to 4 and ours: error rates in per cent, a column for each loss that the paper's table has.

    A row for each network of the paper, and for each reading of ours one with the mean ± standard deviation over the seeds and one with the
    paired difference to softmax and its 95 % interval, in points.
    """
    theirs = printed(number)
    losses = sorted(dict.fromkeys(theirs["loss"]), key=in_order)
    headings = {loss: _NO_NUMBERS.get(loss) or published.loss_name(loss) for loss in losses}
    rows = []
    for source, of_source in theirs.groupby("source", sort=False):
        cells = dict(zip(of_source["loss"], of_source["error"], strict=True))
        common = {"source": str(source), "scale": "paper", "seeds": MISSING}
        rows.append(common | {headings[loss]: cells.get(loss, MISSING) for loss in losses})
    for (reading, scale), of_reading in runs.groupby(["variant", "scale"], sort=False) if not runs.empty else ():
        errors = _errors(of_reading)
        common = {"source": str(reading), "scale": str(scale), "seeds": str(of_reading["seed"].nunique())}
        rows.append(common | {headings[loss]: mean_sd(errors.get(loss, pd.Series(dtype=float))) for loss in losses})
        common = {"source": "less softmax, points", "scale": "", "seeds": ""}
        rows.append(common | {headings[loss]: _less_softmax(errors, loss) for loss in losses})
    return pd.DataFrame(rows)


def divergences(runs: pd.DataFrame) -> pd.DataFrame:
    """The paper's table 1 and ours: error rates in per cent, a row for each divergence, a column for each λ; softmax has λ = 0."""
    softmax = printed(2)
    sources = {"paper, CIFAR-100, 13-layer network": _printed_errors(pd.concat([printed(1), softmax[softmax["loss"] == "softmax"]]))}
    for reading, of_reading in runs.groupby("variant", sort=False) if not runs.empty else ():
        sources[str(reading)] = {str(loss): mean_sd(errors) for loss, errors in _errors(of_reading).items()}
    strengths = {loss.partition(" ")[2] for cells in sources.values() for loss in cells if loss.partition(" ")[0] in DIVERGENCES}
    columns = sorted(strengths, key=float)
    rows = []
    for source, cells in sources.items():
        rows.append({"source": source, "regulariser": "none", "λ = 0": cells.get("softmax", MISSING)})
        for kind, title in DIVERGENCES.items():
            rows.append({"source": "", "regulariser": title} | {value: cells.get(f"{kind} {value}", MISSING) for value in columns})
    return pd.DataFrame(rows, columns=["source", "regulariser", "λ = 0", *columns]).fillna(MISSING)


def as_printed() -> pd.DataFrame:
    """Compare the paper's own errors, in points, for the parts of L3 to L6 that are about accuracy.

    From mean and standard deviation of three independent runs, by :func:`study.statistics.contrast`. That it is three the paper says for
    its tables 1 to 3; for table 4 it is taken over. Differences whose 95 % interval excludes 0 are bold.

    Example:
        >>> as_printed().iloc[0].tolist()
        ['L3 a', 'LM, λ = 0.3 less softmax', 'CIFAR-100, 13-layer network', '**−1.35 [−1.84, −0.86]**']
    """
    table = pd.concat([printed(number) for number in (1, 2, 3, 4)])
    found = {(row["source"], row["loss"]): MeanSd(float(row["value"]), float(row["sd"]), _RUNS) for row in table.to_dict("records")}
    rows = []
    for part, where, first, second in _COMPARED:
        sides = [[found[f"paper, {where}", loss] for loss in losses.split("; ")] for losses in (first, second)]
        means = [mean for side in sides for mean in side]
        weights = [sign / len(side) for sign, side in zip((1, -1), sides, strict=True) for _ in side]
        result = statistics.contrast(means, weights)
        names = [
            _averaged(losses) if ";" in losses else _NO_NUMBERS.get(losses) or published.loss_name(losses) for losses in (first, second)
        ]
        text = cell(f"{result:.2f}".replace("-", "\N{MINUS SIGN}"))
        rows.append([part, " less ".join(names), where, f"**{text}**" if result.excludes(0) else text])
    return pd.DataFrame(rows, columns=["part", "compared", "where", "errors, points [95 % interval]"])


def in_order(loss: str) -> tuple[int, float]:
    """A sorting key: softmax first, then the order of the paper, the regulariser last; a loss with larger numbers later."""
    kind, _, numbers = loss.partition(" ")
    place = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    return place, float(numbers.split()[0]) if numbers else 0.0


def _averaged(losses: str) -> str:
    """The name of losses that differ in λ alone."""
    first = losses.split("; ")[0]
    return published.loss_name(first).rpartition(", ")[0] + ", mean over λ"


def _errors(runs: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """Error rates in per cent of each loss, by seed; those whose numbers the paper does not give without them: the one with most seeds."""
    found = {}
    for loss, of_loss in sorted(runs.groupby("loss", sort=False), key=lambda item: item[1]["seed"].nunique()):
        kind = str(loss).partition(" ")[0]
        found[kind if kind in _NO_NUMBERS else str(loss)] = 100 * (1 - of_loss.set_index("seed")["test_accuracy"].astype(float))
    return found


def _printed_errors(table: pd.DataFrame) -> dict[str, str]:
    return dict(zip(table["loss"], table["error"], strict=True))


def _less_softmax(errors: dict[str, pd.Series[float]], loss: str) -> str:
    if loss == "softmax" or loss not in errors or "softmax" not in errors:
        return MISSING
    both = pd.concat([errors[loss], errors["softmax"]], axis=1).dropna()
    return difference(both.iloc[:, 0], both.iloc[:, 1])
