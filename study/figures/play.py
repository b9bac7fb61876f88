"""The figure to play with as a picture.

It is for readers without scripts, for paper and for README.md.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from gdlib.calibration import inverse_beta_link
from study.figures.style import beta_color, beta_label, beta_linestyle

_BETAS = (0.01, 0.1, 1.0, 5.0)  # of the panels of theory
_ERRORS = {"ece": ("o", "full", "as trained"), "link": ("D", "none", "after the link")}


def still(variants: pd.DataFrame) -> Figure:
    """Draw the gradient and the link for several β, and what was measured.

    It was measured in the first of :func:`study.tables.measured.variants`.
    """
    first = variants[variants["variant"] == variants["variant"].iloc[0]]
    figure, panels = plt.subplots(2, 2, figsize=(8.2, 6.0), layout="constrained")
    gradient, link, accuracy, calibration = panels.flat
    p = np.linspace(0, 1, 201)
    truth = torch.linspace(0.5, 0.999, 150, dtype=torch.float64)
    for beta in _BETAS:
        style = {
            "color": beta_color(beta),
            "linestyle": beta_linestyle(beta),
            "label": beta_label(beta),
        }
        gradient.plot(p, (1 - p) / (1 + (beta - 1) * p), **style)
        link.plot(
            100 * truth,
            100 * inverse_beta_link(torch.stack([truth, 1 - truth], dim=1), beta)[:, 0],
            **style,
        )
    gradient.set(xlabel="probability of the true class", ylabel="gradient of a sample")
    link.set(xlabel="true probability, %", ylabel="confidence of\nthe minimum, %")
    for row in first.to_dict("records"):
        beta, gain = row["beta"], row["gain"]
        reach = [[gain.estimate - gain.low], [gain.high - gain.estimate]]
        accuracy.errorbar(
            [beta], [gain.estimate], yerr=reach, marker="o", color=beta_color(beta), capsize=3
        )
        for error, (marker, fill, label) in _ERRORS.items():
            if row[error] == row[error]:  # it was recorded
                named = {"label": label} if beta == first["beta"].iloc[0] else {}
                calibration.plot(
                    beta, row[error], marker, color=beta_color(beta), fillstyle=fill, **named
                )
    accuracy.axhline(0, color="black", linewidth=0.8)
    accuracy.set(xscale="log", xlabel="β", ylabel="test accuracy minus that\nof β = 1, points")
    calibration.set(xscale="log", xlabel="β", ylabel="calibration error, %", ylim=(0, None))
    for panel in (accuracy, calibration):
        panel.set_title("\n".join(first[["variant", "note"]].iloc[0]), fontsize="small")
        panel.xaxis.set_major_formatter("{x:g}")
    for panel in (link, calibration):
        panel.legend(fontsize="small")
    return figure
