"""A small image network for processors without an accelerator, of the kind that the CIFAR-10 speed records use."""

from __future__ import annotations

from collections import OrderedDict
from typing import cast

import torch
from torch import Tensor, nn

from gdlib.models.convolutional import ImageNetwork, check_form, scaled

__all__ = ["FastNetwork", "fast"]

_WHITENED = 5_000  # images that the whitening filters are computed from
_FLOOR = 5e-4  # added to the variance of each principal component, so that nearly constant ones are not blown up


class FastNetwork(ImageNetwork):
    """Whitening filters, three convolutional blocks, the maximum over the positions, one linear layer.

    The first layer is a fixed 2×2 convolution: the whitening filters of 2×2 patches and their negatives, 24 for colour images. They are
    random, and fixed too, until :meth:`whiten` computes them from training images. A block is a 3×3 convolution, 2×2 max pooling, batch
    normalisation, ReLU, another 3×3 convolution, batch normalisation, ReLU. At 32×32 pixels with 32, 64 and 256 channels an image costs
    27.5 million multiply-adds, a twentieth of ResNet18.

    Args:
        blocks: channels of the three blocks.
        classes: number of classes.
        channels: of the images.
    """

    def __init__(self, blocks: tuple[int, int, int], classes: int, channels: int) -> None:
        filters = 2 * 4 * channels
        layers: OrderedDict[str, nn.Module] = OrderedDict(whitening=nn.Conv2d(channels, filters, 2, bias=False), rectified=nn.ReLU())
        inputs = filters
        for number, outputs in enumerate(blocks, start=1):
            layers[f"block{number}"] = nn.Sequential(
                *(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.MaxPool2d(2), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
                *(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)),
            )
            inputs = outputs
        super().__init__(nn.Sequential(layers), inputs, classes)
        self._whitening.requires_grad_(False)

    @property
    def _whitening(self) -> Tensor:
        return cast(Tensor, self.body.get_parameter("whitening.weight"))

    def features(self, images: Tensor) -> Tensor:
        """The inputs of the linear layer, ``[N, D]``: the largest value over the positions of each channel."""
        positions: Tensor = self.body(images)  # (N, D, h, w)
        return positions.amax((2, 3))

    def whiten(self, images: Tensor) -> None:
        """Set the filters of the first layer so that their outputs on these images are uncorrelated and have variance 1.

        Args:
            images: normalised training images ``[N, C, H, W]``; the first 5,000 are used.
        """
        images = images[:_WHITENED].double()
        patches = images.unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 4 * images.shape[1])
        variances, components = torch.linalg.eigh(patches.mT @ patches / len(patches))
        components = components * components.sum(0).sign()  # an eigenvector's sign is arbitrary
        filters = (components / (variances + _FLOOR).sqrt()).mT.flip(0).reshape(-1, images.shape[1], 2, 2)
        with torch.no_grad():
            self._whitening.copy_(torch.cat([filters, -filters]))


def fast(classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3) -> FastNetwork:
    """A small network with 32, 64 and 256 channels, for two CPU cores: no paper on gradient decay has it.

    On lossless CIFAR-10 with crops and flips it comes to about 89 % in ten to twenty minutes of one core, where ResNet18 takes a day. It is
    a stand-in for the papers' networks, not one of them. Whitening filters and their negatives, maximum pooling over all positions and one
    cycle of the learning rate are habits of the CIFAR-10 speed records.

    Args:
        classes: number of classes.
        width: multiplies the channels of the blocks, which are then rounded as those of the other networks.
        stem: a name of :data:`gdlib.models.STEMS`, without meaning here: the network begins alike with each.
        channels: of the images.

    Raises:
        ValueError: for numbers and names that make no network.

    Example:
        >>> network = fast(classes=10)
        >>> sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
        812682
        >>> images = torch.randn(8, 3, 32, 32)
        >>> network.whiten(images)
        >>> network(images).shape
        torch.Size([8, 10])
    """
    check_form(classes, width, stem, channels)
    first, second, third = (scaled(units, width) for units in (32, 64, 256))
    return FastNetwork((first, second, third), classes, channels)
