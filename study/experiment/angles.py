"""The angles of ArcGrad's Table VI and Figure 4: between features, class centres and class vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from study import geometry

__all__ = ["ANGLE_EDGES", "add_angles", "target_angles"]

ANGLE_EDGES = tuple(math.pi * edge / 36 for edge in range(37))
"""Edges of the histogram in radians: every five degrees."""


def target_angles(features: Tensor, labels: Tensor, vectors: Tensor) -> dict[str, Tensor]:
    """Angles between the features ``[R, N, D]`` and the vectors ``[R, C, D]`` of their own classes.

    Returns:
        ``target_angle``, the mean in radians ``[R]``, and ``target_angle_counts``, the number of samples between :data:`ANGLE_EDGES`
        ``[R, 36]``. A feature of length 0 counts as a right angle.
    """
    own = F.normalize(vectors.double(), dim=2)[:, labels]  # (R, N, D)
    cosine = (F.normalize(features.double(), dim=2) * own).sum(2)
    angles = torch.arccos(cosine.clamp(-1, 1))
    counts = torch.stack([torch.histc(of_run, len(ANGLE_EDGES) - 1, 0.0, math.pi) for of_run in angles])
    return {"target_angle": angles.mean(1), "target_angle_counts": counts.long()}


def add_angles(
    final: Sequence[dict[str, Any]], history: Sequence[dict[str, Any]], features: Tensor, labels: Tensor, vectors: Tensor
) -> None:
    """Add to each run the angles between classes, and the histograms of the target angles after each evaluated epoch.

    ``metrics`` get, in radians, ``w_inter`` (between two class vectors), ``c_inter`` (between two class centres) and ``wc_intra`` (between
    vector and centre of a class), each a mean over classes (ArcGrad, eq. 20 to 22; eq. 22 as its words have it). Runs that diverged get
    nothing.
    """
    measured = [entry for entry in history if "target_angle_counts" in entry]
    for index, run in enumerate(final):
        if run["diverged"]:
            continue
        found = geometry.class_geometry(features[index], labels, len(vectors[index]))
        each = geometry.class_geometry(vectors[index], torch.arange(len(vectors[index])))  # a vector is the centre of itself
        run["metrics"]["w_inter"] = float(each.mean_inter_angle)
        run["metrics"]["c_inter"] = float(found.mean_inter_angle)
        run["metrics"]["wc_intra"] = float(geometry.angles_between(found.centres, vectors[index]).diagonal().mean())
        run["target_angle_epochs"] = [entry["epoch"] for entry in measured]
        run["target_angle_counts"] = [entry["target_angle_counts"][index].tolist() for entry in measured]
