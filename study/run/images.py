"""Batches of images, cropped, mirrored and normalised as they are needed; and what a stack says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gdlib.models import ModuleStack, RunModel
from gdlib.train import predict
from study import data
from study import networks as of_papers
from study.data import augmentation
from study.experiment import Train

_IMAGES_AT_A_TIME = {"cpu": 500, "cuda": 2_000}  # in an evaluation


def outputs_of(
    experiment: Train,
    dataset: data.Dataset,
    model: RunModel,
    split: data.Split,
    *,
    features: bool = False,
) -> Tensor:
    """Compute the outputs of a stack on a split, without augmentation, ``[R, N, K]``.

    With ``features`` they are the inputs of the last layer instead.
    """
    if experiment.model == "mlp":
        return predict(model, split.inputs, features=features)
    return predict(
        model,
        split.inputs,
        features=features,
        prepare=partial(_normalized, experiment, dataset),
        precision=experiment.precision,
        batch_size=_IMAGES_AT_A_TIME[split.inputs.device.type],
    )


def _normalized(experiment: Train, dataset: data.Dataset, images: Tensor) -> Tensor:
    """Make of images ``[..., C, H, W]`` what the model sees."""
    inputs = dataset.normalize(images)
    if not experiment.channels_last:
        return inputs
    return inputs.flatten(0, -4).contiguous(memory_format=torch.channels_last).view_as(inputs)


def _augmented(
    experiment: Train, dataset: data.Dataset, images: Tensor, draws: Tensor | None
) -> Tensor:
    """Augment the batch ``[S, B, C, H, W]`` of each seed, then normalise it."""
    if draws is not None:
        images = augmentation.apply(images, draws, augmentation.PADDING[experiment.augmentation])
    return _normalized(experiment, dataset, images)


def _draws(experiment: Train, samples: int, epoch: int) -> Tensor:
    """Draw the crops and flips of an epoch, ``[S, N, 3]``."""
    return augmentation.draw_epoch(
        experiment.augmentation, samples, experiment.batch_size, seeds=experiment.seeds, epoch=epoch
    )


def batches(experiment: Train, dataset: data.Dataset) -> dict[str, Any]:
    """Say how many samples a step sees, and how images are augmented and normalised."""
    if experiment.model == "mlp":
        prepare = None
    else:
        prepare = partial(_augmented, experiment, dataset)
    if experiment.augmentation == "none":
        draws = None
    else:
        draws = partial(_draws, experiment, len(dataset.train))
    return {"batch_size": experiment.batch_size, "prepare": prepare, "draws": draws}


def small_network(dataset: data.Dataset, seeds: Sequence[int]) -> ModuleStack:
    """Make the small image network, one for each seed, its first layer fitted to the images.

    It has six convolutions and 0.8 million parameters; see :func:`study.networks.fast`.
    """
    channels = dataset.train.inputs.shape[1]
    stack = of_papers.image_stack("fast", seeds, classes=dataset.classes, channels=channels)
    whiten(stack, dataset)
    return stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def whiten(model: RunModel, dataset: data.Dataset) -> None:
    """Fit the first layer of small image networks to the first images."""
    if not isinstance(model, ModuleStack):
        return
    for network in model.copies:
        if isinstance(network, of_papers.FastNetwork):
            network.whiten(dataset.normalize(dataset.train.inputs[:5_000]))
