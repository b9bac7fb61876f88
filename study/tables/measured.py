"""The settings in which β was varied, in plain words, and what each β did there against β = 1.

The figure to play with and the answer on the first page are made of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from study import campaign, published, statistics
from study.statistics import PairedDifference
from study.tables.runs import ACTIVATIONS, PIXELS

_LEAST = 3  # seeds
_AUGMENTATIONS = {"none": "no augmentation", "crop-flip": "crops and flips", "crop2-flip": "crops and flips"}
_NETWORKS = {"fast": "a small network", "resnet18": "a narrow ResNet18", "vgg16": "a narrow VGG16"}
_OWN = ["campaign", "dataset", "model", "activation", "normalization", "augmentation", "subset", "epochs", "learning_rate"]
_OWN += ["validation_size"]  # what tells two recipes apart
_CAMPAIGNS = ("cifar10-fast", "cifar100-fast", "mnist", "cifar10-reduced", "tiny-imagenet-reduced")  # in the order of a list of settings


@dataclass(frozen=True)
class Setting:
    """One data set, network and recipe, trained with several β.

    Attributes:
        name: in plain words, such as ``"MNIST, ReLU, pixels 0 to 1"``.
        data: the data set.
        recipe: activation and pixels, or augmentation.
        note: scale, network, epochs.
        scale: ``"paper"`` or ``"reduced"``.
        augmented: whether the training images were augmented.
        runs: those of every β, with ``beta``, ``seed``, the metrics, ``lost`` (training samples with a
            confidence of at most 0.2) and ``early_accuracy`` (test accuracy, mean over the evaluations in the first quarter of the epochs).
    """

    name: str
    data: str
    recipe: str
    note: str
    scale: str
    augmented: bool
    runs: pd.DataFrame

    @property
    def whole(self) -> str:
        """The name that it would have with all images of the data set."""
        return f"{self.data}, {self.recipe}"

    @property
    def betas(self) -> list[float]:
        """Every β that was run, in order."""
        return sorted(self.runs["beta"].unique().tolist())

    @property
    def seeds(self) -> int:
        """The seeds of β = 1."""
        return int(self.runs.loc[self.runs["beta"] == 1, "seed"].nunique())

    def values(self, metric: str, beta: float) -> pd.Series[float]:
        """A metric of one β, seed by seed; empty where it was not recorded."""
        found = self.runs.loc[self.runs["beta"] == beta]
        return found.set_index("seed")[metric].astype(float).dropna().sort_index() if metric in found else pd.Series(dtype=float)

    def mean(self, metric: str, beta: float) -> float:
        """The mean of a metric over the seeds; NaN where it was not recorded."""
        return float(self.values(metric, beta).mean())

    def against_one(self, metric: str, beta: float) -> PairedDifference | None:
        """A metric of one β minus that of β = 1, paired by seed; None where it was not run."""
        left, right = self.values(metric, beta), self.values(metric, 1.0)
        seeds = left.index.intersection(right.index)
        return statistics.paired_difference(left[seeds], right[seeds]) if len(seeds) > 1 else None


@cache
def entries() -> Mapping[tuple[str, str], frozenset[str]]:
    """For each record that the campaigns plan, by campaign and name of the file, the records of its whole entry."""
    planned: dict[tuple[str, str], frozenset[str]] = {}
    for name in _CAMPAIGNS:
        jobs = campaign.load(Path(__file__).resolve().parents[2] / "campaigns" / f"{name}.yml").jobs
        planned |= {(name, job.record.name): frozenset(other.record.name for other in jobs if other.entry == job.entry) for job in jobs}
    return planned


def settings(runs: pd.DataFrame, planned: Mapping[tuple[str, str], frozenset[str]] | None = None) -> list[Setting]:
    """The settings with at least three seeds, in each of which β = 1 and another constant β were run.

    An entry of a campaign counts once all its records are there. Of two recipes with the same name, such as two learning rates, the one
    with more β is taken.

    Args:
        runs: as :func:`study.records.read` gives them.
        planned: as :func:`entries` gives it.

    Returns:
        CIFAR-10 and CIFAR-100 with the small network first, where they are complete, then MNIST in the papers' setting, then the reduced
        runs.
    """
    found: dict[str, Setting] = {}
    for _, group in _constant(_of_whole_entries(runs, entries() if planned is None else planned)).groupby(_OWN, dropna=False, sort=False):
        group = group[group.groupby("beta")["seed"].transform("nunique") >= _LEAST]
        betas = set(group["beta"])
        if 1.0 in betas and len(betas) > 1:
            setting = _setting(group)
            if setting.name not in found or len(betas) > len(found[setting.name].betas):
                found[setting.name] = setting
    return sorted(found.values(), key=lambda setting: (_CAMPAIGNS.index(setting.runs["campaign"].iloc[0]), setting.name))


def _of_whole_entries(runs: pd.DataFrame, planned: Mapping[tuple[str, str], frozenset[str]]) -> pd.DataFrame:
    """Leave out entries that are under way, so that what is shown does not change with each record that lands."""
    if runs.empty:
        return runs
    names = runs.groupby("campaign")["record"].agg(set)
    return runs[[planned.get(key, frozenset()) <= names[key[0]] for key in zip(runs["campaign"], runs["record"], strict=True)]]


def _constant(runs: pd.DataFrame) -> pd.DataFrame:
    """The trainings with a constant β and the usual momentum, without temperature and matched gradients."""
    if runs.empty:
        return pd.DataFrame(columns=[*_OWN, "beta", "seed"])
    own = runs[runs["campaign"].isin(_CAMPAIGNS) & (runs["template"] == "train") & (runs["scale"] != "smoke")].copy()
    defaults: dict[str, object] = {"model": "mlp", "augmentation": "none", "subset": 0, "validation_size": 0, "diverged": False}
    defaults |= {"loss": "gd", "temperature": 1.0, "match_gradient": False, "warmup_epochs": 0, "momentum": 0.9, "milestones": None}
    for name, default in defaults.items():
        own[name] = (own[name] if name in own else pd.Series(default, own.index)).map(lambda x, d=default: d if _missing(x) else x)
    usual = (own["loss"] == "gd") & (own["temperature"] == 1) & ~own["match_gradient"].astype(bool) & ~own["diverged"].astype(bool)
    usual &= (own["warmup_epochs"] == 0) & (own["momentum"] > 0)
    usual_rate = (
        own["dataset"].eq("mnist") | own["model"].eq("fast") | own["milestones"].map(lambda epochs: epochs is None or len(epochs) > 0)
    )
    return own[usual & usual_rate]


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def deciding(settings: Iterable[Setting]) -> list[Setting]:
    """Leave out runs on a part of a data set where the whole of it was run too, as the criteria say; they stay in figures and tables."""
    listed = list(settings)
    whole = {setting.name for setting in listed}
    return [setting for setting in listed if setting.name == setting.whole or setting.whole not in whole]


def _setting(group: pd.DataFrame) -> Setting:
    """Name a group of runs that differ in β and seed alone."""
    one = group.iloc[0]
    data, on_mnist = published.DATASETS.get(one["dataset"], one["dataset"]), one["dataset"] == "mnist"
    recipe = f"{ACTIVATIONS[one['activation']]}, {PIXELS[one['normalization']]}" if on_mnist else _AUGMENTATIONS[one["augmentation"]]
    part = f"{one['subset']:,.0f} images" if one["subset"] > 0 else ""
    network = "the papers' network" if on_mnist else _NETWORKS.get(one["model"], str(one["model"]))
    return Setting(
        name=", ".join(filter(None, [data, part, recipe])),
        data=data,
        recipe=recipe,
        note=f"{'' if one['scale'] == 'paper' else 'reduced: '}{network}, {one['epochs']:.0f} epochs",
        scale=one["scale"],
        augmented=one["augmentation"] != "none",
        runs=group.reset_index(drop=True).assign(lost=group["confidence_counts"].map(_first).values, early_accuracy=_early(group)),
    )


def _first(counts: object) -> float:
    return float(counts[0]) if isinstance(counts, list) else math.nan


def _early(group: pd.DataFrame) -> list[float]:
    """The mean of the test accuracy over the first quarter of the epochs; NaN if there was no evaluation in it."""
    means = []
    for epochs, accuracies, last in zip(group["curve_epoch"], group["curve_test_accuracy"], group["epochs"], strict=True):
        early = [accuracy for epoch, accuracy in zip(epochs, accuracies, strict=True) if 0 < epoch <= last / 4]
        means.append(sum(early) / len(early) if early else math.nan)
    return means
