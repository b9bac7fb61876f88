"""The first MobileNet (Howard et al. 2017)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from gdlib.models.convolutional import ImageNetwork, check_form, rectified, scaled

__all__ = ["mobilenet_v1"]

# Stages of Howard et al. 2017, table 1: channels and number of separable layers. Every stage but the first begins with stride 2.
_STAGES = ((64, 1), (128, 2), (256, 2), (512, 6), (1024, 2))


def mobilenet_v1(classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3) -> ImageNetwork:
    """The first MobileNet: a 3×3 convolution and 13 separable layers with 64 to 1024 channels. Howard et al. 2017, table 1.

    A separable layer is a 3×3 convolution in each channel, then a 1×1 convolution over the channels, both with batch normalisation and
    ReLU. The printed table gives stride 2 to the last 3×3 convolution too, against the sizes that stand beside it; it has stride 1 here.

    Args:
        classes: number of classes.
        width: multiplies every number of channels (Howard et al.'s α), which is then rounded to a multiple of 4 and at least 8.
        stem: stride of the first convolution: 1 for ``"cifar"``, 2 for ``"tiny-imagenet"`` and ``"imagenet"``, which are the same network
            here because the printed one has no pooling. The four strides of the separable layers always stay, so that 32 pixels with
            ``"cifar"`` and 64 pixels with ``"tiny-imagenet"`` end in 2×2 positions.
        channels: of the images.

    Raises:
        ValueError: for numbers and names that make no network.

    Example:
        >>> sum(parameter.numel() for parameter in mobilenet_v1(classes=10).parameters())
        3217226
    """
    check_form(classes, width, stem, channels)
    inputs = scaled(32, width)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        stem=nn.Sequential(*rectified(channels, inputs, 3, stride=1 if stem == "cifar" else 2))
    )
    for stage, (units, number) in enumerate(_STAGES, start=1):
        outputs = scaled(units, width)
        layers: list[nn.Module] = []
        for layer in range(number):
            stride = 2 if stage > 1 and layer == 0 else 1
            layers += [*rectified(inputs, inputs, 3, stride=stride, groups=inputs), *rectified(inputs, outputs, 1)]
            inputs = outputs
        stages[f"stage{stage}"] = nn.Sequential(*layers)
    return ImageNetwork(nn.Sequential(stages), inputs, classes)
