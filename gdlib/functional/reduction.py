"""Weights, ignored samples, label smoothing and reduction: shared by every loss, as torch.nn.functional.cross_entropy defines them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["none", "mean", "sum"]


def reduce_indices(per_sample: Tensor, index: Tensor, valid: Tensor, weight: Tensor | None, reduction: Reduction) -> Tensor:
    """Weigh, mask and reduce the losses of samples with class indices; the mean divides by the weights of the samples that count."""
    sample_weight = valid.to(per_sample.dtype) if weight is None else weight.to(per_sample)[index] * valid
    loss = torch.where(valid, per_sample * sample_weight, 0.0)
    if reduction == "none":
        return loss
    return loss.sum() if reduction == "sum" else loss.sum() / sample_weight.sum()


def reduce_classes(
    per_class: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
    label_smoothing: float,
    class_dim: int,
    soft: bool,
) -> Tensor:
    """Contract per-class losses with class probabilities or smoothed class indices, then reduce."""
    classes = per_class.shape[class_dim]
    if weight is not None:
        weight = weight.to(per_class)
        weighted = per_class * weight.reshape(-1, *[1] * (per_class.ndim - class_dim - 1))
    else:
        weighted = per_class

    if soft:
        probabilities = target.to(per_class)
        if label_smoothing > 0:
            probabilities = probabilities * (1 - label_smoothing) + label_smoothing / classes
        loss = (probabilities * weighted).sum(class_dim)
        if reduction == "none":
            return loss
        return loss.sum() if reduction == "sum" else loss.sum() / loss.numel()

    valid, index = valid_index(target, ignore_index)
    true_class = torch.where(valid, gather_checked(weighted, index, class_dim), 0.0)
    every_class = torch.where(valid, weighted.sum(class_dim), 0.0)
    if reduction != "none":
        true_class, every_class = true_class.sum(), every_class.sum()
    if reduction == "mean":
        total_weight = valid.sum() if weight is None else (weight[index] * valid).sum()
        true_class, every_class = true_class / total_weight, every_class / total_weight
    return (1 - label_smoothing) * true_class + label_smoothing / classes * every_class


def valid_index(target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Which samples count, and an index that can be gathered everywhere."""
    index = target.long()
    valid = index != ignore_index
    return valid, torch.where(valid, index, 0)


def gather_checked(values: Tensor, index: Tensor, class_dim: int) -> Tensor:
    """The value of the indexed class of every sample; a class index outside [0, C) is named in a ValueError."""
    if torch.compiler.is_compiling():
        return values.gather(class_dim, index.unsqueeze(class_dim)).squeeze(class_dim)
    try:
        return values.gather(class_dim, index.unsqueeze(class_dim)).squeeze(class_dim)
    except (RuntimeError, IndexError) as error:
        classes = values.shape[class_dim]
        outside = index[(index < 0) | (index >= classes)]
        if outside.numel() == 0:
            raise
        raise ValueError(
            f"class index {outside[0].item()} lies outside [0, {classes}): input has {classes} classes; mark samples that "
            "should not count with ignore_index"
        ) from error
