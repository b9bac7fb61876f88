"""Batches of colour images, cropped, mirrored and normalised as they are needed."""

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
from study.data import augmentation as transforms

_AT_A_TIME = {"cpu": 500, "cuda": 2_000}  # images of an evaluation


def small_network(dataset: data.Dataset, seeds: Sequence[int]) -> ModuleStack:
    """Make the small image network, one for each seed, its first layer fitted to the images.

    It has six convolutions and 0.8 million parameters; see :func:`study.networks.fast`.
    """
    channels = dataset.train.inputs.shape[1]
    stack = of_papers.image_stack("fast", seeds, classes=dataset.classes, channels=channels)
    for network in stack.copies:
        network.whiten(dataset.normalize(dataset.train.inputs[:5_000]))  # type: ignore[operator]
    return stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def batches(
    dataset: data.Dataset,
    seeds: Sequence[int],
    *,
    augmentation: str = "crop2-flip",
    batch_size: int = 100,
) -> dict[str, Any]:
    """Say of what a step is made, as arguments of :func:`gdlib.train.train`.

    Images are cropped and mirrored, and then normalised; rows of numbers go in as they are.
    """
    if not _are_images(dataset.train):
        return {"batch_size": batch_size}
    samples, distinct = len(dataset.train), list(dict.fromkeys(seeds))
    prepare = partial(_prepared, dataset, padding=transforms.PADDING[augmentation])
    if augmentation == "none":
        return {"batch_size": batch_size, "prepare": prepare}
    draws = partial(transforms.draw_epoch, augmentation, samples, batch_size, distinct)
    return {"batch_size": batch_size, "prepare": prepare, "draws": draws}


def outputs(
    networks: RunModel,
    dataset: data.Dataset,
    split: data.Split,
    *,
    features: bool = False,
    precision: str = "bfloat16",
) -> Tensor:
    """Compute the outputs of a stack on a split, without augmentation, ``[R, N, K]``.

    With ``features`` they are the inputs of the last layer. ``precision`` is that of the
    convolutions.
    """
    if not _are_images(split):
        return predict(networks, split.inputs, features=features)
    return predict(
        networks,
        split.inputs,
        features=features,
        prepare=partial(_prepared, dataset, draws=None),
        precision=precision,
        batch_size=_AT_A_TIME["cuda" if split.inputs.is_cuda else "cpu"],
    )


def _are_images(split: data.Split) -> bool:
    return split.inputs.ndim == 4


def _prepared(
    dataset: data.Dataset, images: Tensor, draws: Tensor | None, padding: int = 0
) -> Tensor:
    """Augment images ``[..., C, H, W]``, if numbers were drawn for it, and normalise them."""
    if draws is not None:
        images = transforms.apply(images, draws, padding)
    inputs = dataset.normalize(images)
    return inputs.flatten(0, -4).contiguous(memory_format=torch.channels_last).view_as(inputs)
