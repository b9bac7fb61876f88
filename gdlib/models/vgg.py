"""The VGG network with 16 layers, with batch normalisation (Simonyan & Zisserman 2015)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from gdlib.models.convolutional import ImageNetwork, check_form, rectified, scaled

__all__ = ["vgg16"]


def vgg16(classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3) -> ImageNetwork:
    """Configuration D of Simonyan & Zisserman (2015, table 1) in the form that is usual for small images.

    Thirteen 3×3 convolutions in five stages of 2, 2, 3, 3, 3 layers with 64, 128, 256, 512, 512 channels; 2×2 max pooling with stride 2
    ends each stage. It differs from the printed network in two points: a batch normalisation follows each convolution, and *one* linear
    layer from 512 units takes the place of the three large ones with dropout, so that 14 of the 16 layers are left. The convolutions
    keep their biases as printed, though batch normalisation takes away what they add. A position at the edge that fills half a pooling
    window is kept, so that images of any size pass; where sizes halve evenly, that changes nothing.

    Args:
        classes: number of classes.
        width: multiplies every number of channels, which is then rounded to a multiple of 4 and at least 8.
        stem: stride of the first convolution: 1 for ``"cifar"`` and ``"imagenet"``, which are the same network here because the printed one
            begins at full resolution, 2 for ``"tiny-imagenet"``, so that 64 pixels give the sizes that 32 pixels give with ``"cifar"``.
        channels: of the images.

    Raises:
        ValueError: for numbers and names that make no network.

    Example:
        >>> sum(parameter.numel() for parameter in vgg16(classes=10).parameters())
        14728266
    """
    check_form(classes, width, stem, channels)
    inputs, stride = channels, 2 if stem == "tiny-imagenet" else 1
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for stage, (number, units) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], start=1):
        layers: list[nn.Module] = []
        for _ in range(number):
            outputs = scaled(units, width)
            layers += rectified(inputs, outputs, 3, stride=stride, bias=True)
            inputs, stride = outputs, 1
        stages[f"stage{stage}"] = nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True))
    return ImageNetwork(nn.Sequential(stages), inputs, classes)
