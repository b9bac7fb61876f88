"""From runs to the rows of a table and the numbers of a sentence: short names, levels, paired differences beside the papers' own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from study import claims, figures, published
from study.claims import Variant
from study.published import Setting
from study.tables.book import MISSING, bold, difference, mean_sd, signed

ACTIVATIONS = {"relu": "ReLU", "tanh": "tanh", "sigmoid": "sigmoid"}
BOTH = "pixels 0 to 255 (both)"
"""The arm of :func:`arms` in which the rate and the first weights of the first layer are larger, as they are on raw pixels."""
_FEW = 10  # errors, of which a share says nothing
PIXELS = {"unit": "pixels 0 to 1", "none": "pixels 0 to 255", "standard": "standardised pixels"}


def short(variant: str) -> str:
    """Name a variant by its data and its augmentation; network and length stand once, where a page says what was run.

    Example:
        >>> short("cifar10-jpeg, resnet18×0.25, plain, 6,000 images, 20 epochs"), short("tanh-none")
        ('CIFAR-10, 6,000 images, plain', 'tanh, pixels 0 to 255')
    """
    activation, _, pixels = variant.partition("-")
    if activation in ACTIVATIONS and pixels in PIXELS:
        return f"{ACTIVATIONS[activation]}, {PIXELS[pixels]}"
    if " units" in variant:  # of a perceptron on small tables
        return variant.partition(" units")[2].removeprefix(", ") or "no weight decay"
    dataset, *rest = variant.split(", ")
    kept = sorted(
        (part for part in rest[1:] if not part.endswith(" epochs")),
        key=lambda part: not part.endswith(" images"),
    )
    return (
        ", ".join([published.DATASETS[dataset], *kept])
        if rest and dataset in published.DATASETS
        else variant
    )


def in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Give the variants their short names, networks at real accuracy first; each runs from the largest β to the warm-ups.

    What the papers call the data set is its ``data``.
    """
    if runs.empty:
        return runs
    place = {name: index for index, name in enumerate(sorted(set(runs["variant"]), key=_place))}
    by = {"variant": True, "warmup_epochs": True, "beta": False, "seed": True}
    there = [name for name in by if name in runs]
    ordered = runs.assign(variant=runs["variant"].map(place)).sort_values(
        there, ascending=[by[name] for name in there], kind="stable"
    )
    data = ordered["dataset"].map(published.DATASETS) if "dataset" in runs else ""
    return ordered.assign(
        variant=ordered["variant"].map(list(map(short, place)).__getitem__), data=data
    )


def _place(variant: str) -> tuple[object, ...]:
    activation, _, pixels = variant.partition("-")
    if pixels in PIXELS:
        return 0, list(PIXELS).index(pixels), list(ACTIVATIONS).index(activation)
    return 1, ", fast," not in variant, variant


def differences(
    runs: pd.DataFrame,
    metric: str,
    title: str,
    settings: Sequence[Setting] = (),
    *,
    minus: Setting = 1.0,
    scale: float = 100.0,
    spec: str = ".1f",
) -> pd.DataFrame:
    """Compare one metric of several methods: its level, its difference to one of them, the papers'.

    Args:
        runs: with ``variant``, ``setting``, ``dataset`` and ``seed``.
        metric: its column.
        title: what the level is called, with its unit.
        settings: the methods that are shown, in this order; all, if none is named.
        minus: the method that is subtracted.
        scale: a factor for all numbers, such as 100 for points.
        spec: their format.

    Returns:
        A row for each variant and method; ``variant`` is for the heading of a group of rows.
    """
    rows = []
    known = runs[runs[metric].notna()] if metric in runs else runs[:0]
    for variant, group in known.groupby("variant", sort=False):
        own = Variant(str(variant), group)
        there = list(dict.fromkeys(group["setting"]))
        dataset = published.DATASETS.get(group["dataset"].iloc[0], "")
        for setting in filter(there.__contains__, settings or there):
            found = own.interval(metric, setting, minus) if setting != minus else None
            effects = published.effects((metric, setting), (metric, minus), dataset)
            here = [effect for effect in effects if not effect.elsewhere and setting != minus]
            rows.append(
                {
                    "variant": variant,
                    "trained with": published.setting_name(setting),
                    title: mean_sd(own.having(metric, setting), spec, scale=scale),
                    f"minus {published.setting_name(minus)}": (
                        bold(found.times(scale), f"+{spec}") if found else MISSING
                    ),
                    "papers": signed(published.written(here, scale)) or MISSING,
                }
            )
    frame = pd.DataFrame(rows)
    return frame.drop(columns="papers") if rows and (frame["papers"] == MISSING).all() else frame


def leads(
    runs: pd.DataFrame, metric: str, minus: str, *, scale: float = 100.0, unit: str = "seed"
) -> pd.DataFrame:
    """Compute the differences of every schedule to one of them in each variant.

    They are for :func:`study.figures.beside`.

    Args:
        runs: with ``variant`` and ``schedule``.
        metric: its column.
        minus: the schedule that is subtracted.
        scale: a factor, such as 100 for points.
        unit: the column of what two runs share.

    Returns:
        A row for each variant (``panel``) and ``schedule``: its ``label``, and ``mean``, ``low`` and
        ``high`` of the difference.
    """
    rows = []
    for variant, group in runs.groupby("variant", sort=False) if len(runs) else ():
        own = Variant(str(variant), group.assign(setting=group["schedule"]), unit=unit)
        methods = dict.fromkeys(group["schedule"])
        for schedule in methods:
            if schedule == minus or minus not in methods:
                continue
            if found := own.interval(metric, schedule, minus):
                at = found.times(scale)
                label = figures.schedule_label(schedule)
                rows.append((variant, schedule, label, at.estimate, at.low, at.high))
    return pd.DataFrame(rows, columns=["panel", "schedule", "label", "mean", "low", "high"])


# --- the size of the step ---


def arms(runs: pd.DataFrame) -> pd.DataFrame:
    """Select the trainings of the step-size campaign, and those on pixels from 0 to 255 with the same β, from all records.

    Each has an ``arm`` (the learning rate of all layers, or what differs in the first layer alone,
    in words), its activation in words, and ``stuck``: the share of saturated outputs of tanh, of
    dead units of ReLU. ``share`` is that of the lost among ten errors or more. The rates come
    first, from the smallest.
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
    stepped["arm"] = np.select(
        [inputs != 1, weights != 1], names, "learning rate " + rate.map("{:g}".format)
    )
    stepped = stepped.assign(weights=weights.where(inputs == 1, 1)).sort_values(
        ["input_scale", "weights", "learning_rate"], kind="stable"
    )
    raw = (
        grid[
            grid["variant"].isin(["relu-none", "tanh-none"])
            & grid["setting"].isin(set(stepped["setting"]))
        ]
        if len(grid)
        else grid
    )
    found = pd.concat([stepped, raw.assign(arm=BOTH)], ignore_index=True)
    found["stuck"] = np.where(
        found["activation"] == "tanh", found.get("saturated", np.nan), found.get("dead", np.nan)
    )
    found["share"] = (
        found["lost_share"].where(found["errors"] >= _FEW).clip(upper=1)
    )  # at chance the right ones are lost too
    found["activation"] = found["activation"].map(ACTIVATIONS)
    return found.sort_values("activation", kind="stable", ignore_index=True)


def changes(
    found: pd.DataFrame, metric: str, betas: Sequence[float], spec: str, scale: float = 1.0
) -> pd.DataFrame:
    """Give a metric at β = 1, and that of other β minus it, paired over the seeds.

    There is a row for each arm, with mean ± standard deviation at β = 1.
    """
    rows = []
    for (activation, arm), runs in (
        found.groupby(["activation", "arm"], sort=False) if len(found) else ()
    ):
        wide = runs.pivot_table(index="seed", columns="beta", values=metric).reindex(
            columns=[1.0, *betas]
        )
        row = {
            "activation": activation,
            "step": arm,
            "β = 1": mean_sd(wide[1.0], spec, scale=scale),
        }
        for beta in betas:
            pairs = wide[[beta, 1.0]].dropna()
            row[f"β = {beta:g} minus β = 1"] = difference(
                pairs[beta], pairs[1.0], spec, scale=scale
            )
        rows.append(row)
    return pd.DataFrame(rows)
