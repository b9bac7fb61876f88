"""What the image networks share: the form of a network, the stems, the width, the initial weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gdlib.models.runs import exactly

__all__ = ["STEMS", "ImageNetwork"]

STEMS = ("cifar", "tiny-imagenet", "imagenet")


class ImageNetwork(nn.Module):
    """A convolutional body, the mean over the positions, and one linear layer. The networks of this module all have this form.

    The mean makes every input size possible that the body does not shrink to nothing; images of 32 and of 64 pixels fit every network
    with every stem.

    The initial weights come from PyTorch's default generator. Convolutions: normal with mean 0 and variance 2 / (k² · outputs / groups),
    where k is the size of the kernel, the form that keeps the variance of the gradients on their way back (He et al. 2015, eq. 14); their
    biases, where there are any, 0. Batch normalisation: scale 1, shift 0. The linear layer: as :class:`torch.nn.Linear` does it, uniform
    within ±1/√D.

    Args:
        body: maps images ``[N, C, H, W]`` to ``[N, D, h, w]``.
        units: D, the number of channels that the body returns.
        classes: number of classes.
    """

    def __init__(self, body: nn.Sequential, units: int, classes: int) -> None:
        super().__init__()
        self.body = body
        self.classifier: nn.Module = nn.Linear(units, classes)
        for layer in body.modules():
            if isinstance(layer, nn.Conv2d):
                fan_out = math.prod(layer.kernel_size) * layer.out_channels // layer.groups
                nn.init.normal_(layer.weight, 0.0, math.sqrt(2 / fan_out))
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``[N, classes]`` of images ``[N, C, H, W]``."""
        return exactly(self.classifier, self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """The inputs of the linear layer, ``[N, D]``."""
        positions: Tensor = self.body(images)  # (N, D, h, w)
        return positions.mean((2, 3), dtype=torch.float32 if positions.dtype == torch.bfloat16 else None)


def check_form(classes: int, width: float, stem: str, channels: int) -> None:
    """Refuse numbers and names that make no network.

    Raises:
        ValueError: says which argument, and what is valid.
    """
    if stem not in STEMS:
        raise ValueError(f"unknown stem {stem!r}; valid: {', '.join(STEMS)}")
    if not (width > 0 and math.isfinite(width)):
        raise ValueError(f"width multiplies the numbers of channels: it must be a finite number > 0; got {width!r}")
    if classes < 1 or channels < 1:
        raise ValueError(f"classes and channels must be >= 1; got classes={classes}, channels={channels}")


def scaled(units: int, width: float) -> int:
    """``units · width``, rounded to the nearest multiple of 4 (a tie goes to the even multiple), and at least 8.

    Example:
        >>> [scaled(64, width) for width in (1, 0.25, 0.2, 0.01)]
        [64, 16, 12, 8]
    """
    # At least 8: with fewer input channels in channels_last, the backward pass of a 1×1 convolution of stride 2, as in the shortcuts of the
    # residual networks, writes past its memory on a CPU without AVX-512 (oneDNN in torch 2.13) and ends the process.
    return 4 * max(2, round(units * width / 4))


def convolution(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1, bias: bool = False) -> list[nn.Module]:
    """A convolution that keeps height and width at stride 1, and its batch normalisation."""
    layer = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=bias)
    return [layer, nn.BatchNorm2d(outputs)]


def rectified(inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1, bias: bool = False) -> list[nn.Module]:
    """Convolution, batch normalisation, ReLU."""
    return [*convolution(inputs, outputs, size, stride=stride, groups=groups, bias=bias), nn.ReLU(inplace=True)]
