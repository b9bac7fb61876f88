"""Losses against each other: the bias of the margin during training, and accuracy against calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from study.figures.curves import curves
from study.figures.style import grid, in_lines, schedule_color, schedule_label

__all__ = ["accuracy_against_calibration", "margin_bias"]

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p", "d", "8")


def margin_bias(table: pd.DataFrame, *, readings: Sequence[str], classes: int, split: str = "train", columns: int = 2) -> Figure:
    r"""The mean bias :math:`\hat\rho` against the epoch, one curve for each loss and one panel for each reading (LM figure 3).

    .. math:: \hat\rho = \log \sum_{c \neq y} e^{f_c - \max_{d \neq y} f_d}

    It lies between 0, where one wrong class is ahead of all others, and log(C - 1), where they are level.

    Args:
        table: runs with ``reading``, ``schedule`` and the curves of the bias.
        readings: which ones, in order.
        classes: C; the largest possible bias is drawn as a dotted line.
        split: ``"train"`` or ``"test"``.
        columns: panels in a row.
    """
    figure, panels = grid(len(readings), columns, width=3.6, height=2.8, sharey=True)
    for index, (panel, reading) in enumerate(zip(panels, readings, strict=False)):
        chosen = table[table["reading"] == reading]
        epochs = "train_epoch" if split == "train" else "epoch"
        curves(chosen, f"{split}_margin_bias", ylabel="", x=epochs, ax=panel, legend=False)
        panel.axhline(math.log(classes - 1), color="0.4", linewidth=1, linestyle=":", zorder=0)
        panel.set_title(in_lines(reading), fontsize="small")
        panel.set(ylim=(0, 1.08 * math.log(classes - 1)), ylabel=r"mean bias $\hat\rho$, nats" if index % columns == 0 else "")
    found = {label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=3, fontsize="small")
    return figure


def accuracy_against_calibration(table: pd.DataFrame, *, readings: Sequence[str], columns: int = 2) -> Figure:
    """Test accuracy against the expected calibration error, a mark for each loss, means over the seeds with bars of one standard deviation.

    A filled mark is over-confident (mean confidence above accuracy), an open one under-confident. Up and to the left is better.

    Args:
        table: runs with ``reading``, ``schedule``, ``test_accuracy``, ``test_ece`` and ``overconfidence``.
        readings: which ones, in order, one panel for each.
        columns: panels in a row.
    """
    figure, panels = grid(len(readings), columns, width=3.6, height=3.0)
    marks = {str(label): _MARKERS[index % len(_MARKERS)] for index, label in enumerate(dict.fromkeys(table["schedule"]))}
    for index, (panel, reading) in enumerate(zip(panels, readings, strict=False)):
        for label, runs in table[table["reading"] == reading].groupby("schedule", sort=False):
            mean, spread = (100 * getattr(runs[["test_ece", "test_accuracy"]], how)() for how in ("mean", "std"))
            color = schedule_color(str(label))
            panel.errorbar(
                mean["test_ece"],
                mean["test_accuracy"],
                xerr=spread["test_ece"] if len(runs) > 1 else None,
                yerr=spread["test_accuracy"] if len(runs) > 1 else None,
                fmt=marks[str(label)],
                color=color,
                markerfacecolor=color if runs["overconfidence"].mean() > 0 else "white",
                markersize=6,
                elinewidth=0.8,
                label=schedule_label(str(label)),
            )
        panel.set_title(in_lines(reading), fontsize="small")
        panel.set(xlabel="test ECE, %", ylabel="test accuracy, %" if index % columns == 0 else "")
        panel.set_xlim(left=0)
    found = {label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=3, fontsize="small")
    return figure
