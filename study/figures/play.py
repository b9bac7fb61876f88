"""The figure to play with as a picture, for readers without scripts, for paper and for README.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gdlib.calibration import inverse_beta_link
from study.figures.style import beta_color, beta_label, beta_linestyle
from study.statistics import PairedDifference

_BETAS = (0.01, 0.1, 1.0, 5.0)


class _Measured(Protocol):
    """A setting, as :class:`study.tables.measured.Setting` is one."""

    @property
    def name(self) -> str: ...
    @property
    def betas(self) -> list[float]: ...
    def mean(self, metric: str, beta: float) -> float: ...
    def against_one(self, metric: str, beta: float) -> PairedDifference | None: ...


def still(setting: _Measured, *, betas: Sequence[float] = _BETAS, columns: int = 2) -> Figure:
    """Draw the gradient and the link for several β, and below them what was measured in one setting.

    Args:
        setting: the measured accuracy and calibration error.
        betas: of the two panels of theory.
        columns: 2, or 4 for one row.
    """
    size = (8.2, 6.0) if columns == 2 else (14.0, 3.4)
    figure, panels = plt.subplots(4 // columns, columns, figsize=size, layout="constrained")
    gradient, link, accuracy, calibration = panels.flat
    p = np.linspace(0, 1, 201)
    truth = torch.linspace(0.5, 0.999, 150, dtype=torch.float64)
    for beta in betas:
        style = {"color": beta_color(beta), "linestyle": beta_linestyle(beta), "label": beta_label(beta)}
        gradient.plot(p, (1 - p) / (1 + (beta - 1) * p), **style)
        confidence = inverse_beta_link(torch.stack([truth, 1 - truth], dim=1), beta)[:, 0]
        link.plot(100 * truth, 100 * confidence, **style)
    gradient.set(xlabel="probability of the true class", ylabel="gradient of a sample")
    link.set(xlabel="true probability, %", ylabel="confidence of the minimum, %")
    gradient.legend(fontsize="small")
    _accuracy(setting, accuracy)
    _calibration(setting, calibration)
    return figure


def _accuracy(setting: _Measured, ax: Axes) -> None:
    for beta in setting.betas:
        if (found := setting.against_one("test_accuracy", beta)) is not None:
            reach = [[100 * (found.mean - found.interval.low)], [100 * (found.interval.high - found.mean)]]
            ax.errorbar([beta], [100 * found.mean], yerr=reach, marker="o", color=beta_color(beta), capsize=3)
    ax.axhline(0, color="black", linewidth=0.8)
    ax.set(xscale="log", xlabel="β", ylabel="test accuracy less that\nof β = 1, points")
    ax.set_title(setting.name, fontsize="small")


def _calibration(setting: _Measured, ax: Axes) -> None:
    for metric, marker, filled, label in (("test_ece", "o", True, "as trained"), ("test_ece_link", "D", False, "after the link")):
        means = {beta: 100 * value for beta in setting.betas if not np.isnan(value := setting.mean(metric, beta))}
        for index, (beta, mean) in enumerate(means.items()):
            color = beta_color(beta)
            ax.plot(beta, mean, marker, color=color, markerfacecolor=color if filled else "none", label=label if index == 0 else None)
    ax.set(xscale="log", xlabel="β", ylabel="calibration error, %", ylim=(0, None))
    ax.set_title(setting.name, fontsize="small")
    ax.legend(fontsize="small")
