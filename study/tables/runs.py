"""From runs to the rows of a table and the numbers of a sentence.

The rows have short names, levels, and differences beside the papers' own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from study import claims, published
from study.claims import VariantRuns
from study.methods import Method
from study.metrics import metric as metric_named
from study.statistics import Interval
from study.tables.book import MISSING, bold, difference, mean_sd, signed
from study.variants import ACTIVATIONS, DATASETS, PIXELS, Variant

BOTH = "pixels 0 to 255 (both)"
"""The step of :func:`steps` with a larger rate and larger first weights.

The rate and the first weights of the first layer are larger there, as they are on raw pixels.
"""
_FEW = 10  # errors, of which a share says nothing


def in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Put runs into the order of a table, and give their variants short names.

    Networks at real accuracy come first. Within a variant the order is from the largest β to the
    smallest, then the warm-ups. The column ``data`` has what the papers call the data set.
    """
    if runs.empty:
        return runs
    place = {name: index for index, name in enumerate(sorted(set(runs["variant"]), key=_place))}
    by = {"variant": True, "warmup_epochs": True, "beta": False, "seed": True}
    there = [name for name in by if name in runs]
    ordered = runs.assign(variant=runs["variant"].map(place)).sort_values(
        there, ascending=[by[name] for name in there], kind="stable"
    )
    data = ordered["dataset"].map(DATASETS) if "dataset" in runs else ""
    return ordered.assign(
        variant=ordered["variant"].map([variant.short for variant in place].__getitem__), data=data
    )


def _place(variant: Variant) -> tuple[object, ...]:
    if variant.activation:
        pixels, activations = list(PIXELS), list(ACTIVATIONS)
        return (
            0,
            pixels.index(variant.normalization),
            activations.index(variant.activation),
            str(variant),
        )
    return 1, not variant.on_fast, str(variant)


def differences(
    runs: pd.DataFrame,
    metric: str,
    title: str,
    methods: Sequence[Method | float | str] = (),
    *,
    minus: Method | float | str = 1.0,
    whole: pd.DataFrame | None = None,
    scale: float = 100.0,
    spec: str = ".1f",
) -> pd.DataFrame:
    """Compare one metric of several methods: its level, its difference to one of them, the papers'.

    Args:
        runs: with ``variant``, ``method``, ``dataset`` and ``seed``.
        metric: its column.
        title: what the level is called, with its unit.
        methods: those that are shown, in this order; all, if none is named. Where a page has put a
            name of its own in their place, it is that.
        minus: the method that is subtracted.
        whole: all runs of the variants, where a page shows a part of them, or one in several
            groups: the deviation of a variant's runs is that of the estimate.
        scale: a factor for all numbers, such as 100 for points.
        spec: their format.

    Returns:
        A row for each variant and method; ``variant`` is for the heading of a group of rows.
    """
    rows = []
    base = Method.parse(minus)
    known = runs[runs[metric].notna()] if metric in runs else runs[:0]
    for variant, group in known.groupby("variant", sort=False):
        together = None
        if whole is not None:
            together = whole[whole["variant"].isin(whole.loc[group.index, "variant"])]
        own = VariantRuns(Variant(), group, whole=together)
        there = list(dict.fromkeys(group["method"]))
        asked = [one if one in there else Method.parse(one) for one in methods]
        dataset = published.data_of(group)
        for method in filter(there.__contains__, asked or there):
            estimate = own.interval(metric, method, base) if method != base else None
            here: list[published.Effect] = []
            if isinstance(method, Method) and method != base:
                effects = published.effects((metric, method), (metric, base), dataset)
                here = [effect for effect in effects if not effect.elsewhere]
            rows.append(
                {
                    "variant": variant,
                    "trained with": str(method),
                    title: mean_sd(own.having(metric, method), spec, scale=scale),
                    f"minus {base}": bold(estimate.times(scale), f"+{spec}")
                    if estimate
                    else MISSING,
                    "papers": signed(published.written(here, scale)) or MISSING,
                }
            )
    frame = pd.DataFrame(rows)
    return frame.drop(columns="papers") if rows and (frame["papers"] == MISSING).all() else frame


def leads(
    runs: pd.DataFrame, metric: str, minus: str, *, scale: float = 100.0, unit: str = "seed"
) -> pd.DataFrame:
    """Compute the differences of every method to one of them in each variant.

    The differences are for :func:`study.figures.beside`.

    Args:
        runs: with ``variant`` and ``method``.
        metric: its column.
        minus: the method that is subtracted.
        scale: a factor, such as 100 for points.
        unit: the column of what two runs share.

    Returns:
        A row for each variant (``panel``) and method (``schedule`` is its label): its name as
        ``label``, and ``mean``, ``low`` and ``high`` of the difference.
    """
    rows = []
    base = Method.parse(minus)
    for variant, group in runs.groupby("variant", sort=False) if len(runs) else ():
        own = VariantRuns(Variant(), group, unit=unit)
        methods = dict.fromkeys(group["method"])
        for method in methods:
            if method == base or base not in methods:
                continue
            if interval := own.interval(metric, method, base):
                at = interval.times(scale)
                rows.append((variant, method.label, str(method), at.estimate, at.low, at.high))
    return pd.DataFrame(rows, columns=["panel", "schedule", "label", "mean", "low", "high"])


Group = tuple[str, Mapping[str, Any]]
"""A metric, and the values of the columns that select its runs, of one method."""


def between(runs: pd.DataFrame, first: Group, second: Group) -> Interval:
    """Estimate the difference of two groups of runs of one variant, as verdicts do.

    Args:
        runs: all runs of the variant: their deviation is that of the estimate.
        first: a group of them.
        second: the group that is subtracted.

    Returns:
        The difference with its interval, in points for metrics that are shares.

    Raises:
        ValueError: if a group has several methods, or the two share fewer than two seeds.
    """
    variant = VariantRuns(Variant(), runs)
    sides = []
    for metric, values in (first, second):
        part = variant.at(**values)
        methods = set(part.runs["method"])
        if len(methods) != 1:
            raise ValueError(f"{values} selects {len(methods)} methods; select one")
        sides.append(part.of(metric, methods.pop()))
    finding = variant.larger(first[0], *sides)
    if finding is None or finding.difference is None:
        raise ValueError(f"{first} and {second} share fewer than two seeds")
    return finding.difference.interval.times(metric_named(first[0]).factor)


# --- the size of the step ---


def steps(runs: pd.DataFrame) -> pd.DataFrame:
    """Select the trainings of the step-size campaign from all records.

    Those on pixels from 0 to 255 with the same β are selected too.

    Each has a ``step`` in words: the learning rate, which is ``of_all_layers``, or what differs in
    the first layer alone. It has its activation in words, and ``stuck``: the share of saturated
    outputs of tanh, of dead units of ReLU. ``share`` is that of the lost among ten errors or more.
    The rates come first, from the smallest.
    """
    stepped, grid = claims.runs_of(runs, "step"), claims.runs_of(runs, "grid")
    if stepped.empty:
        return stepped
    inputs, weights, rate = (
        stepped[name].astype(float) for name in ("input_scale", "first_weights", "learning_rate")
    )
    names = (
        "first layer's rate × " + inputs.map("{:g}²".format),
        "first weights × " + weights.map("{:g}".format),
    )
    stepped["step"] = np.select(
        [inputs != 1, weights != 1], names, "learning rate " + rate.map("{:g}".format)
    )
    stepped["of_all_layers"] = (inputs == 1) & (weights == 1)
    stepped = stepped.assign(weights=weights.where(inputs == 1, 1)).sort_values(
        ["input_scale", "weights", "learning_rate"], kind="stable"
    )
    raw = (
        grid[
            grid["normalization"].eq("none")
            & grid["activation"].isin(["relu", "tanh"])
            & grid["method"].isin(set(stepped["method"]))
        ]
        if len(grid)
        else grid
    )
    trained = pd.concat([stepped, raw.assign(step=BOTH, of_all_layers=False)], ignore_index=True)
    trained["stuck"] = np.where(
        trained["activation"] == "tanh",
        trained.get("saturated", np.nan),
        trained.get("dead", np.nan),
    )
    trained["share"] = (
        trained["lost_share"].where(trained["errors"] >= _FEW).clip(upper=1)
    )  # at chance the right ones are lost too
    trained["activation"] = trained["activation"].map(ACTIVATIONS)
    return trained.sort_values("activation", kind="stable", ignore_index=True)


def changes(
    trained: pd.DataFrame, metric: str, betas: Sequence[float], spec: str, scale: float = 1.0
) -> pd.DataFrame:
    """Give a metric at β = 1, and that of other β minus it, paired over the seeds.

    There is a row for each step, with mean ± standard deviation at β = 1.
    """
    rows = []
    for (activation, step), runs in (
        trained.groupby(["activation", "step"], sort=False) if len(trained) else ()
    ):
        wide = runs.pivot_table(index="seed", columns="beta", values=metric).reindex(
            columns=[1.0, *betas]
        )
        row = {
            "activation": activation,
            "step": step,
            "β = 1": mean_sd(wide[1.0], spec, scale=scale),
        }
        for beta in betas:
            pairs = wide[[beta, 1.0]].dropna()
            row[f"β = {beta:g} minus β = 1"] = difference(
                pairs[beta], pairs[1.0], spec, scale=scale
            )
        rows.append(row)
    return pd.DataFrame(rows)
