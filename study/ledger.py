"""The claims that were asked of runs (``book/claims.yml``), each decided by one comparison."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import yaml
from markupsafe import escape

from study import ROOT, outcomes, published
from study.compare import NO, NOT_AS_LARGE, OPEN, YES, Claim, Side, counted
from study.compare import compare as compare

NO_WORD = "no word"
LINE = 32
"""Characters of an answer in the ledger's table."""


@functools.cache
def entries() -> Mapping[str, Mapping[str, Any]]:
    """Read the list: the claims as they are written, by their id."""
    return listed("claims")


def runs_of(entry: Mapping[str, Any]) -> pd.DataFrame:
    """Read the runs that a claim is asked of."""
    runs = outcomes.read(*entry["runs"]["from"])
    where = entry["runs"].get("where")
    return runs.query(where, engine="python") if where else runs


@functools.cache
def decide(name: str) -> Claim:
    """Decide a claim of the list by its one comparison.

    Example:
        >>> decide("E3").word
        'yes (pixels 0 to 255), no (pixels 0 to 1)'
    """
    entry = entries()[name]
    if "compare" not in entry:
        raise ValueError(f"{name} gets no word: {entry['note']}")
    papers = effects(entry)
    return Claim(
        entry["claim"],
        compare(runs_of(entry), **entry["compare"], variant=entry["variant"], papers=papers),
        entry["compare"]["metric"],
        paper=entry["paper"],
        papers=papers,
        known=entry.get("known", False),
        note=entry.get("note", ""),
        source=source(entry),
    )


def word(name: str) -> str:
    """Say in a word what came out of a claim."""
    return decide(name).word if "compare" in entries()[name] else NO_WORD


def source(entry: Mapping[str, Any]) -> str:
    """Say from which rows and which column a claim is decided.

    Example:
        >>> source(entries()["B6"])
        'Rows: results/wrong-labels.csv where labels != &#34;clean&#34;; test_accuracy.'
    """
    files = ", ".join(f"results/{name}.csv" for name in entry["runs"]["from"])
    where = entry["runs"].get("where")
    compared = entry["compare"]
    parts = [files + (f" where {where}" if where else ""), compared["metric"]]
    parts += [f"paired by {compared['paired']}"] if "paired" in compared else []
    return str(escape(f"Rows: {'; '.join(parts)}."))


def effects(entry: Mapping[str, Any]) -> tuple[float, ...]:
    """Read the papers' own differences: one for each data set and network that prints both sides.

    Where the unit of the comparison is a data set, it is that of their averages.

    Example:
        >>> [round(one, 3) for one in effects(entries()["A4"])]
        [0.009]
    """
    if "printed" not in entry:
        return ()
    compared = entry["compare"]
    printed = published.printed().query(entry["printed"])
    each = ["paper", "model"] + ["dataset"] * (compared.get("paired") != "title")
    values = printed.pivot_table(index=each, columns=["metric", "schedule"], values="value")
    best = "min" if compared.get("smaller") else "max"
    sides = (
        _printed(compared[side], values, compared["metric"], best) for side in ("better", "than")
    )
    first, second = sides
    return tuple((first - second).dropna())


def _printed(side: Side, values: pd.DataFrame, metric: str, best: str) -> pd.Series[float]:
    """Take what the papers print for one side of a comparison, network by network."""
    assert isinstance(side, Mapping)
    if "minus" in side:
        first, second = (_printed(one, values, metric, best) for one in side["minus"])
        return first - second
    asked = next(side[name] for name in ("schedule", "loss", "beta") if name in side)
    labels = [
        str(one) if isinstance(one, str) else f"{one:g}"
        for one in (asked if isinstance(asked, list) else [asked])
    ]
    of_metric = values.reindex(columns=[side.get("metric", metric)], level=0)
    return of_metric.reindex(columns=labels, level=1).agg(best, axis=1)


def page_of(name: str) -> str:
    """Give the label of the page that a claim is on."""
    return f"sec-{name.partition('-')[0].lower()}"


def table() -> pd.DataFrame:
    """List the claims that were asked of runs: a row each as MyST, those of this book last.

    Of a claim with several variants the differences go from the smallest to the largest. An answer
    that is too long for a line counts the variants; the claim's page names them.
    """
    ordered = dict(sorted(entries().items(), key=lambda one: one[0].startswith("B")))
    rows = []
    for name, entry in ordered.items():
        row = {"": f"{{ref}}`{name} <{page_of(name)}>`", "claim": entry["claim"]}
        if "compare" in entry:
            decided = decide(name)
            row["papers"] = decided.written(np.median(decided.papers)) if decided.papers else ""
            row["here"] = _differences(decided)
            row["answer"] = decided.word if len(decided.word) <= LINE else _counted(decided)
        else:
            row |= {"papers": "", "here": "", "answer": NO_WORD}
        rows.append(row)
    return pd.DataFrame(rows, list(ordered))


def counts() -> pd.DataFrame:
    """Count the answers to the claims of each paper; one that depends on the variant is *mixed*.

    Example:
        >>> list(counts().index)
        ['Gradient decay', 'Large margin', 'ArcGrad']
    """
    papers = {"E": "Gradient decay", "L": "Large margin", "A": "ArcGrad"}
    answers = [YES, NO, NOT_AS_LARGE, OPEN]
    asked = pd.Series({name: word(name).strip("†") for name in entries() if name[0] in papers})
    kinds = asked.where(asked.isin(answers), "mixed, or no word")
    found = pd.crosstab(asked.index.str[0].map(papers), kinds)
    columns = [*answers, "mixed, or no word"]
    return found.reindex(list(papers.values()), columns=columns, fill_value=0).rename_axis(
        index=None, columns=None
    )


def _counted(decided: Claim) -> str:
    """Count the variants of each word."""
    return counted(decided.comparison["word"]) + "†" * decided.known


def _differences(decided: Claim) -> str:
    """Write the differences of a claim's variants: with its interval where there is one."""
    rows = decided.comparison.dropna(subset="difference")
    if rows.empty:
        return ""
    if len(rows) == 1:
        one = rows.iloc[0]
        if np.isnan(one["low"]):
            return decided.written(one["difference"])
        interval = f"[{decided.written(one['low'])}, {decided.written(one['high'])}]"
        return f"{decided.written(one['difference'])} {interval}"
    least, most = rows["difference"].min(), rows["difference"].max()
    return f"{decided.written(least)} to {decided.written(most)} ({len(rows)})"


def listed(part: str) -> Any:
    """Read a part of the list: ``"claims"``, ``"derived"`` or ``"not run"``."""
    whole = yaml.safe_load((ROOT / "book" / "claims.yml").read_text(encoding="utf-8"))
    return whole[part]
