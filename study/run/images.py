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
from study.data import augmentation

_AUGMENTATION, _BATCH = "crop2-flip", 100
_AT_A_TIME = 500  # images of an evaluation


def small_network(dataset: data.Dataset, seeds: Sequence[int]) -> ModuleStack:
    """Make the small image network, one for each seed, its first layer fitted to the images.

    It has six convolutions and 0.8 million parameters; see :func:`study.networks.fast`.
    """
    channels = dataset.train.inputs.shape[1]
    stack = of_papers.image_stack("fast", seeds, classes=dataset.classes, channels=channels)
    for network in stack.copies:
        network.whiten(dataset.normalize(dataset.train.inputs[:5_000]))  # type: ignore[operator]
    return stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def batches(dataset: data.Dataset, seeds: Sequence[int]) -> dict[str, Any]:
    """Say of what a step is made: of 100 samples, and images are cropped and mirrored.

    The result is arguments of :func:`gdlib.train.train`. Rows of numbers go in as they are.
    """
    if not _are_images(dataset.train):
        return {"batch_size": _BATCH}
    samples = len(dataset.train)
    return {
        "batch_size": _BATCH,
        "prepare": partial(_augmented, dataset),
        "draws": partial(_draws, samples, list(dict.fromkeys(seeds))),
        "precision": "bfloat16",
    }


def outputs(networks: RunModel, dataset: data.Dataset, split: data.Split) -> Tensor:
    """Compute the outputs of a stack on a split, without augmentation, ``[R, N, K]``."""
    if not _are_images(split):
        return predict(networks, split.inputs)
    prepare = partial(_normalized, dataset)
    return predict(
        networks, split.inputs, prepare=prepare, precision="bfloat16", batch_size=_AT_A_TIME
    )


def _are_images(split: data.Split) -> bool:
    return split.inputs.ndim == 4


def _draws(samples: int, seeds: Sequence[int], epoch: int) -> Tensor:
    """Draw the crops and flips of an epoch, ``[S, N, 3]``."""
    return augmentation.draw_epoch(_AUGMENTATION, samples, _BATCH, seeds=seeds, epoch=epoch)


def _augmented(dataset: data.Dataset, images: Tensor, draws: Tensor | None) -> Tensor:
    """Augment the batch ``[S, B, C, H, W]`` of each seed, then normalise it."""
    assert draws is not None
    padding = augmentation.PADDING[_AUGMENTATION]
    return _normalized(dataset, augmentation.apply(images, draws, padding))


def _normalized(dataset: data.Dataset, images: Tensor) -> Tensor:
    """Normalise images ``[..., C, H, W]``, in the memory format of the network."""
    inputs = dataset.normalize(images)
    return inputs.flatten(0, -4).contiguous(memory_format=torch.channels_last).view_as(inputs)
