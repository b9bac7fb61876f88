"""Image networks by name, as a stack of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from gdlib.models.convolutional import ImageNetwork, check_form
from gdlib.models.fast import fast
from gdlib.models.mobilenet import mobilenet_v1
from gdlib.models.resnet import resnet18, resnet34, resnet50
from gdlib.models.runs import ModuleStack
from gdlib.models.vgg import vgg16

__all__ = ["IMAGE_NETWORKS", "image_stack"]

IMAGE_NETWORKS: dict[str, Callable[..., ImageNetwork]] = {
    "fast": fast,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "vgg16": vgg16,
    "mobilenet_v1": mobilenet_v1,
}


def image_stack(
    name: str, seeds: Sequence[int], *, classes: int, width: float = 1.0, stem: str = "cifar", channels: int = 3
) -> ModuleStack:
    """One image network for each seed, side by side behind the run axis.

    The initial weights of a run depend on its seed only, not on its place in the stack or on what was drawn before; runs with equal seeds
    start from equal weights. PyTorch's generators are left as they were. On a CPU with one thread a run in the stack computes what it
    computes alone, bit for bit, in either memory format; the tests hold a few steps of training to it.

    Nothing is gained from stacking on a CPU: the runs compute one after the other, and the stack keeps what all of them need for the
    backward pass. One step of one run (forward, backward, clipping, update; 100 images) took, on one core of a processor with AVX-512,
    in milliseconds, at ``width=0.25``, the common memory format / ``torch.channels_last``:

    ============================  ======  =============  =============
    network and stem              pixels  contiguous     channels last
    ============================  ======  =============  =============
    resnet18, cifar               32      256            193
    resnet18, tiny-imagenet       32      68             64
    resnet18, tiny-imagenet       64      350            202
    resnet18, imagenet            64      96             74
    resnet18, imagenet            32      40             32
    mobilenet_v1, cifar           32      125            88
    mobilenet_v1, tiny-imagenet   32      74             38
    vgg16, cifar                  32      157            122
    vgg16, tiny-imagenet          32      45             35
    ============================  ======  =============  =============

    Full width costs up to 16 times as much. ``stack.to(memory_format=torch.channels_last)`` is enough: the images may stay as they are. The
    two formats differ by rounding.

    Args:
        name: a name of :data:`IMAGE_NETWORKS`.
        seeds: one seed for the initialisation of each run.
        classes: number of classes.
        width: multiplies every number of channels.
        stem: a name of :data:`STEMS`.
        channels: of the images.

    Raises:
        ValueError: for names, numbers or seeds that do not make a stack; the message names the valid ones.

    Example:
        >>> stack = image_stack("resnet18", seeds=[0, 0, 1], classes=10, width=0.25)
        >>> stack(torch.zeros(1, 4, 3, 32, 32)).shape                # one batch for all three runs
        torch.Size([3, 4, 10])
    """
    if name not in IMAGE_NETWORKS:
        raise ValueError(f"unknown network {name!r}; valid: {', '.join(IMAGE_NETWORKS)}")
    if not seeds:
        raise ValueError("seeds is empty: give one seed for each run")
    check_form(classes, width, stem, channels)
    networks = []
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        for seed in seeds:
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would also set the generators of every GPU
            networks.append(IMAGE_NETWORKS[name](classes, width=width, stem=stem, channels=channels))
    return ModuleStack(networks)
