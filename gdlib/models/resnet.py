"""Residual networks with 18, 34 and 50 layers (He et al. 2016)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

from gdlib.models.convolutional import ImageNetwork, check_form, convolution, rectified, scaled

__all__ = ["resnet18", "resnet34", "resnet50"]


def resnet18(classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3) -> ImageNetwork:
    """The residual network with 18 layers: four stages of 2, 2, 2, 2 basic blocks with 64, 128, 256, 512 channels.

    A basic block is two 3×3 convolutions; the stages after the first begin with stride 2. Where a block changes the shape, its shortcut is
    a 1×1 convolution with batch normalisation (option B of He et al. 2016, sec. 3.3), else the identity. He et al. 2016, table 1.

    Args:
        classes: number of classes.
        width: multiplies every number of channels, which is then rounded to a multiple of 4 and at least 8.
        stem: ``"cifar"`` (3×3 convolution, stride 1), ``"tiny-imagenet"`` (3×3, stride 2) or ``"imagenet"`` (as published: 7×7, stride 2,
            then 3×3 max pooling, stride 2). The papers on gradient decay do not name theirs.
        channels: of the images.

    Raises:
        ValueError: for numbers and names that make no network.

    Example:
        >>> import torch
        >>> network = resnet18(classes=10)
        >>> sum(parameter.numel() for parameter in network.parameters())
        11173962
        >>> small = resnet18(classes=10, width=0.25)
        >>> images = torch.zeros(2, 3, 32, 32)
        >>> small(images).shape, small.features(images).shape
        (torch.Size([2, 10]), torch.Size([2, 128]))
    """
    return _resnet((2, 2, 2, 2), False, classes, width, stem, channels)


def resnet34(classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3) -> ImageNetwork:
    """The residual network with 34 layers: as :func:`resnet18`, with 3, 4, 6, 3 blocks. He et al. 2016, table 1.

    This is what the papers on gradient decay call "ResNet35" in their tables of accuracies and "ResNet34" in those of calibration; He et
    al. have no network with 35 layers. Arguments as of :func:`resnet18`.

    Example:
        >>> sum(parameter.numel() for parameter in resnet34(classes=10).parameters())
        21282122
    """
    return _resnet((3, 4, 6, 3), False, classes, width, stem, channels)


def resnet50(classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3) -> ImageNetwork:
    """The residual network with 50 layers: 3, 4, 6, 3 bottleneck blocks. He et al. 2016, table 1.

    A bottleneck block is a 1×1, a 3×3 and a 1×1 convolution with 64, 64, 256 channels in the first stage, doubled from stage to stage. The
    stride 2 is in the 3×3 convolution, where most later work has it; He et al. had it in the first 1×1, which drops three of four
    positions. Arguments as of :func:`resnet18`.

    Example:
        >>> sum(parameter.numel() for parameter in resnet50(classes=10).parameters())
        23520842
    """
    return _resnet((3, 4, 6, 3), True, classes, width, stem, channels)


class _Residual(nn.Module):
    """``relu(branch(x) + shortcut(x))``; the shortcut is a projection where the shape changes."""

    def __init__(self, branch: list[nn.Module], inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)
        changes = stride != 1 or inputs != outputs
        self.shortcut = nn.Sequential(*convolution(inputs, outputs, 1, stride=stride)) if changes else nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.branch(inputs)
        return outputs.add_(self.shortcut(inputs)).relu_()


def _resnet(blocks: Sequence[int], bottleneck: bool, classes: int, width: float, stem: str, channels: int) -> ImageNetwork:
    check_form(classes, width, stem, channels)
    inputs = scaled(64, width)
    stages: OrderedDict[str, nn.Module] = OrderedDict(stem=nn.Sequential(*_stem(stem, channels, inputs)))
    for stage, number in enumerate(blocks):
        units = scaled(64 * 2**stage, width)
        outputs = 4 * units if bottleneck else units
        layers = []
        for block in range(number):
            stride = 2 if stage > 0 and block == 0 else 1
            if bottleneck:
                middle = rectified(units, units, 3, stride=stride)
                branch = [*rectified(inputs, units, 1), *middle, *convolution(units, outputs, 1)]
            else:
                branch = [*rectified(inputs, units, 3, stride=stride), *convolution(units, units, 3)]
            layers.append(_Residual(branch, inputs, outputs, stride))
            inputs = outputs
        stages[f"stage{stage + 1}"] = nn.Sequential(*layers)
    return ImageNetwork(nn.Sequential(stages), inputs, classes)


def _stem(stem: str, channels: int, units: int) -> list[nn.Module]:
    if stem == "imagenet":
        return [*rectified(channels, units, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)]
    return rectified(channels, units, 3, stride=1 if stem == "cifar" else 2)
