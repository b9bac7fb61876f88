"""Image networks: their common form, those of the papers, a small one, and stacks of them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from gdlib.functional._arguments import autocasts, check_seeds, is_whole, without_autocast
from gdlib.models import ModuleStack

STEMS = ("cifar", "tiny-imagenet", "imagenet")


class ImageNetwork(nn.Module):
    """Image network: a convolutional body, the mean over the positions, and one linear layer.

    The mean makes every input size possible that the body does not shrink to nothing. The initial
    weights come from PyTorch's default generator. Convolutions: normal with mean 0 and variance 2 /
    (k² · outputs / groups) for a kernel of size k (He et al. 2015, eq. 14), biases 0. Batch
    normalisation: scale 1, shift 0. The linear layer: uniform within ±1/√D, as
    :class:`torch.nn.Linear`.

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
        """Compute logits ``[N, classes]`` of images ``[N, C, H, W]``."""
        weight = next(self.classifier.parameters())
        return without_autocast(self.classifier, self.features(images), weight.dtype)

    def features(self, images: Tensor) -> Tensor:
        """Return the inputs of the linear layer, ``[N, D]``."""
        positions: Tensor = self.body(images)  # (N, D, h, w)
        rounded = positions.dtype == torch.bfloat16 and autocasts(images.device.type)
        return positions.mean((2, 3), dtype=torch.float32 if rounded else None)


def resnet18(
    classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3
) -> ImageNetwork:
    """Make the residual network with 18 layers.

    Four stages have 2, 2, 2, 2 basic blocks with 64, 128, 256, 512 channels. A basic block is two
    3×3 convolutions; the stages after the first begin with stride 2. Where a block changes the
    shape, its shortcut is a 1×1 convolution with batch normalisation (option B of He et al. 2016,
    sec. 3.3), else the identity.

    Args:
        classes: number of classes.
        width: multiplies every number of channels, which is then rounded to a multiple of 4 and at
            least 8.
        stem: ``"cifar"`` (3×3 convolution, stride 1), ``"tiny-imagenet"`` (3×3, stride 2) or
            ``"imagenet"`` (as published: 7×7, stride 2, then 3×3 max pooling, stride 2). The papers
            on gradient decay do not name theirs.
        channels: of the images.

    Raises:
        ValueError: for numbers and names that make no network; every network here refuses the same.

    Example:
        >>> sum(parameter.numel() for parameter in resnet18(classes=10).parameters())
        11173962
        >>> small = resnet18(classes=10, width=0.25)
        >>> images = torch.zeros(2, 3, 32, 32)
        >>> small(images).shape, small.features(images).shape
        (torch.Size([2, 10]), torch.Size([2, 128]))

    References:
        He et al. 2016, table 1.
    """
    return _resnet((2, 2, 2, 2), False, classes, width, stem, channels)


def resnet34(
    classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3
) -> ImageNetwork:
    """Make the residual network with 34 layers: :func:`resnet18` with 3, 4, 6, 3 blocks.

    It is in table 1 of He et al. (2016). The papers on gradient decay call it "ResNet35" too.

    Example:
        >>> sum(parameter.numel() for parameter in resnet34(classes=10).parameters())
        21282122
    """
    return _resnet((3, 4, 6, 3), False, classes, width, stem, channels)


def resnet50(
    classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3
) -> ImageNetwork:
    """Make the residual network with 50 layers: 3, 4, 6, 3 bottleneck blocks.

    It is in table 1 of He et al. (2016). A bottleneck block is a 1×1, a 3×3 and a 1×1 convolution
    with 64, 64, 256 channels in the first stage, doubled from stage to stage. The stride 2 is in
    the 3×3 convolution, where most later work has it; He et al. had it in the first 1×1. Arguments
    as of :func:`resnet18`.

    Example:
        >>> sum(parameter.numel() for parameter in resnet50(classes=10).parameters())
        23520842
    """
    return _resnet((3, 4, 6, 3), True, classes, width, stem, channels)


def vgg16(
    classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3
) -> ImageNetwork:
    """Make configuration D of Simonyan & Zisserman (2015, table 1), as is usual for small images.

    Thirteen 3×3 convolutions with biases in five stages of 2, 2, 3, 3, 3 layers with 64, 128, 256,
    512, 512 channels; 2×2 max pooling with stride 2 ends each stage. Two points differ from the
    printed network: a batch normalisation follows each convolution, and *one* linear layer takes
    the place of the three large ones with dropout. A position at the edge that fills half a pooling
    window is kept, so that images of any size pass. Arguments as of :func:`resnet18`, but the stem
    ``"tiny-imagenet"`` only gives the first convolution stride 2.

    Example:
        >>> sum(parameter.numel() for parameter in vgg16(classes=10).parameters())
        14728266
    """
    _check_form(classes, width, stem, channels)
    inputs, stride = channels, 2 if stem == "tiny-imagenet" else 1
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for stage, (number, units) in enumerate(
        [(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], start=1
    ):
        layers: list[nn.Module] = []
        for _ in range(number):
            outputs = _scaled(units, width)
            layers += _rectified(inputs, outputs, 3, stride=stride, bias=True)
            inputs, stride = outputs, 1
        stages[f"stage{stage}"] = nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True))
    return ImageNetwork(nn.Sequential(stages), inputs, classes)


def mobilenet_v1(
    classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3
) -> ImageNetwork:
    """Make the first MobileNet: a 3×3 convolution and 13 separable layers.

    The layers have 64 to 1024 channels, as in table 1 of Howard et al. (2017). A separable layer is
    a 3×3 convolution in each channel, then a 1×1 convolution over the channels, both with batch
    normalisation and ReLU. The printed table gives stride 2 to the last 3×3 convolution too,
    against the sizes that stand beside it; it has stride 1 here. Arguments as of :func:`resnet18`,
    but the stem is the stride of the first convolution: 1 for ``"cifar"``, else 2.

    Example:
        >>> sum(parameter.numel() for parameter in mobilenet_v1(classes=10).parameters())
        3217226
    """
    _check_form(classes, width, stem, channels)
    inputs = _scaled(32, width)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        stem=nn.Sequential(*_rectified(channels, inputs, 3, stride=1 if stem == "cifar" else 2))
    )
    for stage, (units, number) in enumerate(
        [(64, 1), (128, 2), (256, 2), (512, 6), (1024, 2)], start=1
    ):
        outputs = _scaled(units, width)
        layers: list[nn.Module] = []
        for layer in range(number):
            stride = 2 if stage > 1 and layer == 0 else 1
            layers += [
                *_rectified(inputs, inputs, 3, stride=stride, groups=inputs),
                *_rectified(inputs, outputs, 1),
            ]
            inputs = outputs
        stages[f"stage{stage}"] = nn.Sequential(*layers)
    return ImageNetwork(nn.Sequential(stages), inputs, classes)


def conv13(
    classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3
) -> ImageNetwork:
    """Make the network of 13 layers of *Large Margin In Softmax Cross-Entropy Loss*.

    Three 3×3 convolutions with 128 channels and three with 256, each group with 2×2 max pooling
    behind it; then 512 channels without padding, 256 and 128. A batch normalisation and a ReLU
    follow each convolution. It ends in a mean over the positions and a linear layer. Arguments as
    of :func:`resnet18`; the stem has no meaning here.

    The paper does not describe it. This is the network of the code that its author published
    (``layer13`` of ``LargeMarginInSoftmax``), a neighbour of that of Laine and Aila (*Temporal
    ensembling for semi-supervised learning*, 2017), which ends in 1×1 convolutions and has dropout.

    Example:
        >>> network = conv13(classes=100)
        >>> sum(parameter.numel() for parameter in network.parameters())
        4444132
    """
    _check_form(classes, width, stem, channels)
    inputs, layers = channels, []
    for place, units in enumerate([128] * 3 + [256] * 3 + [512, 256, 128], start=1):
        outputs = _scaled(units, width)
        convolution = nn.Conv2d(inputs, outputs, 3, padding=0 if place == 7 else 1, bias=False)
        layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        if place in (3, 6):
            layers.append(nn.MaxPool2d(2))
        inputs = outputs
    return ImageNetwork(nn.Sequential(*layers), inputs, classes)


class _Convolution(nn.Conv2d):
    """3×3 convolution with padding 1 and without bias, fast on a CPU also for small images.

    Of 3×3 positions or fewer, as behind the last pooling of :func:`fast`, it is computed there as
    one matrix product. In bfloat16, on a processor that multiplies matrices of it, PyTorch's own
    convolution takes five times as long on them, above all for the gradient of its weights. So a
    training step of :func:`fast` at twice its width gets a third shorter. The values are the same
    but for the rounding.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """Compute ``[N, D, h, w]`` of ``[N, C, h, w]``."""
        *_, height, width = input.shape
        if height * width > 9 or input.device.type != "cpu":
            return super().forward(input)
        padded = nn.functional.pad(input.permute(0, 2, 3, 1), (0, 0, 1, 1, 1, 1))
        shifted = [
            padded[:, row : row + height, column : column + width]
            for row in range(3)
            for column in range(3)
        ]
        weight = self.weight.permute(0, 2, 3, 1).flatten(1)  # (D, 9 C)
        return nn.functional.linear(torch.cat(shifted, -1), weight).permute(0, 3, 1, 2)


class FastNetwork(ImageNetwork):
    """Small image network: whitening filters, three blocks, the maximum, one linear layer.

    The blocks are convolutional, the maximum is over the positions.

    The first layer is a fixed 2×2 convolution: the whitening filters of 2×2 patches and their
    negatives, 24 for colour images, random until :meth:`whiten` computes them from training images.
    A block is a 3×3 convolution, 2×2 max pooling, batch normalisation, ReLU, another 3×3
    convolution, batch normalisation, ReLU. :func:`fast` makes one.
    """

    def __init__(self, blocks: tuple[int, int, int], classes: int, channels: int) -> None:
        filters = 2 * 4 * channels
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            whitening=nn.Conv2d(channels, filters, 2, bias=False), rectified=nn.ReLU()
        )
        inputs = filters
        for number, outputs in enumerate(blocks, start=1):
            layers[f"block{number}"] = nn.Sequential(
                *(
                    _Convolution(inputs, outputs),
                    nn.MaxPool2d(2),
                    nn.BatchNorm2d(outputs),
                    nn.ReLU(inplace=True),
                ),
                *(
                    _Convolution(outputs, outputs),
                    nn.BatchNorm2d(outputs),
                    nn.ReLU(inplace=True),
                ),
            )
            inputs = outputs
        super().__init__(nn.Sequential(layers), inputs, classes)
        self._whitening.requires_grad_(False)

    @property
    def _whitening(self) -> Tensor:
        return cast(Tensor, self.body.get_parameter("whitening.weight"))

    def features(self, images: Tensor) -> Tensor:
        """Return the inputs of the linear layer, ``[N, D]``.

        They are the largest value over the positions of each channel.
        """
        positions: Tensor = self.body(images)  # (N, D, h, w)
        return positions.amax((2, 3))

    def whiten(self, images: Tensor) -> None:
        """Set the filters of the first layer by these images.

        Their outputs on them are then uncorrelated, and of mean square 1, or less for directions
        of the patches that hardly vary.

        Args:
            images: training images ``[N, C, H, W]``, normalised to mean 0; the first 5,000 are
                used.
        """
        images = images[:5_000].double()
        patches = (
            images.unfold(2, 2, 1)
            .unfold(3, 2, 1)
            .permute(0, 2, 3, 1, 4, 5)
            .reshape(-1, 4 * images.shape[1])
        )
        variances, directions = torch.linalg.eigh(patches.mT @ patches / len(patches))
        # an eigenvector's sign is arbitrary
        directions = directions * torch.where(directions.sum(0) < 0, -1.0, 1.0)
        # 5e-4, so that nearly constant directions are not blown up
        filters = (
            (directions / (variances + 5e-4).sqrt()).mT.flip(0).reshape(-1, images.shape[1], 2, 2)
        )
        with torch.no_grad():
            self._whitening.copy_(torch.cat([filters, -filters]))


def fast(
    classes: int = 10, *, width: float = 1.0, stem: str = "cifar", channels: int = 3
) -> FastNetwork:
    """Make a small network with 32, 64 and 256 channels, for two CPU cores.

    No paper on gradient decay has it.

    At 32×32 pixels an image costs 27.5 million multiply-adds, a twentieth of ResNet18. Whitening
    filters and their negatives and maximum pooling over all positions are habits of the CIFAR-10
    speed records. Arguments as of :func:`resnet18`; the stem has no meaning here.

    Example:
        >>> network = fast(classes=10)
        >>> sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
        812682
        >>> images = torch.randn(8, 3, 32, 32)
        >>> network.whiten(images)
        >>> network(images).shape
        torch.Size([8, 10])
    """
    _check_form(classes, width, stem, channels)
    first, second, third = (_scaled(units, width) for units in (32, 64, 256))
    return FastNetwork((first, second, third), classes, channels)


IMAGE_NETWORKS: dict[str, Callable[..., ImageNetwork]] = {
    network.__name__: network
    for network in (fast, conv13, resnet18, resnet34, resnet50, vgg16, mobilenet_v1)
}


def image_stack(
    name: str,
    seeds: Sequence[int],
    *,
    classes: int,
    width: float = 1.0,
    stem: str = "cifar",
    channels: int = 3,
) -> ModuleStack:
    """Make one image network for each seed, side by side behind the run axis.

    The initial weights of a run depend on its seed only; runs with equal seeds start from equal
    weights. PyTorch's generators are left as they were. On a CPU with one thread a run in the stack
    computes what it computes alone, bit for bit, in either memory format. There
    ``stack.to(memory_format=torch.channels_last)`` is the faster one for most networks; the images
    may stay as they are.

    Args:
        name: a name of :data:`IMAGE_NETWORKS`.
        seeds: one seed for the initialisation of each run.
        classes: this and the rest as of :func:`resnet18`.
        width: multiplies every number of channels.
        stem: a name of :data:`STEMS`.
        channels: of the images.

    Raises:
        ValueError: for names, numbers or seeds that do not make a stack; the message names the
            valid ones.

    Example:
        >>> stack = image_stack("resnet18", seeds=[0, 0, 1], classes=10, width=0.25)
        >>> stack(torch.zeros(1, 4, 3, 32, 32)).shape                # one batch for all three runs
        torch.Size([3, 4, 10])
    """
    if name not in IMAGE_NETWORKS:
        raise ValueError(f"unknown network {name!r}; valid: {', '.join(IMAGE_NETWORKS)}")
    check_seeds(seeds)
    networks = []
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        for seed in seeds:
            # torch.manual_seed would also set the generators of every GPU
            torch.default_generator.manual_seed(int(seed))
            networks.append(
                IMAGE_NETWORKS[name](classes, width=width, stem=stem, channels=channels)
            )
    return ModuleStack(networks)


def _check_form(classes: int, width: float, stem: str, channels: int) -> None:
    """Refuse numbers and names that make no network."""
    if stem not in STEMS:
        raise ValueError(f"unknown stem {stem!r}; valid: {', '.join(STEMS)}")
    given: object = width
    if not isinstance(given, (int, float, np.number)) or not 0 < given < math.inf:
        raise ValueError(
            "width multiplies the numbers of channels: it must be a finite number > 0; "
            f"got {width!r}"
        )
    if not (is_whole(classes, 1) and is_whole(channels, 1)):
        raise ValueError(
            "classes and channels must be whole numbers >= 1; got "
            f"classes={classes}, channels={channels}"
        )


def _scaled(units: int, width: float) -> int:
    """Round ``units · width`` to the nearest multiple of 4, and to at least 8.

    A tie goes to the even multiple.
    """
    # At least 8: with fewer input channels in channels_last, the backward pass of a 1×1 convolution
    # of stride 2, as in the shortcuts of the residual networks, writes past its memory on a CPU
    # without AVX-512 (oneDNN in torch 2.13) and ends the process.
    return 4 * max(2, round(units * width / 4))


def _convolution(
    inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1, bias: bool = False
) -> list[nn.Module]:
    """Make a convolution that keeps height and width at stride 1, and its batch normalisation."""
    layer = nn.Conv2d(
        inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=bias
    )
    return [layer, nn.BatchNorm2d(outputs)]


def _rectified(
    inputs: int, outputs: int, size: int, *, stride: int = 1, groups: int = 1, bias: bool = False
) -> list[nn.Module]:
    """Make a convolution, its batch normalisation and a ReLU."""
    return [
        *_convolution(inputs, outputs, size, stride=stride, groups=groups, bias=bias),
        nn.ReLU(inplace=True),
    ]


class _Residual(nn.Module):
    """Residual block ``relu(branch(x) + shortcut(x))``.

    The shortcut is a projection where the shape changes.
    """

    def __init__(self, branch: list[nn.Module], inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)
        changes = stride != 1 or inputs != outputs
        self.shortcut = (
            nn.Sequential(*_convolution(inputs, outputs, 1, stride=stride))
            if changes
            else nn.Identity()
        )

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.branch(inputs)
        return outputs.add_(self.shortcut(inputs)).relu_()


def _resnet(
    blocks: Sequence[int], bottleneck: bool, classes: int, width: float, stem: str, channels: int
) -> ImageNetwork:
    _check_form(classes, width, stem, channels)
    inputs = _scaled(64, width)
    if stem == "imagenet":
        first = [*_rectified(channels, inputs, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)]
    else:
        first = _rectified(channels, inputs, 3, stride=1 if stem == "cifar" else 2)
    stages: OrderedDict[str, nn.Module] = OrderedDict(stem=nn.Sequential(*first))
    for stage, number in enumerate(blocks):
        units = _scaled(64 * 2**stage, width)
        outputs = 4 * units if bottleneck else units
        layers = []
        for block in range(number):
            stride = 2 if stage > 0 and block == 0 else 1
            if bottleneck:
                middle = _rectified(units, units, 3, stride=stride)
                branch = [*_rectified(inputs, units, 1), *middle, *_convolution(units, outputs, 1)]
            else:
                branch = [
                    *_rectified(inputs, units, 3, stride=stride),
                    *_convolution(units, units, 3),
                ]
            layers.append(_Residual(branch, inputs, outputs, stride))
            inputs = outputs
        stages[f"stage{stage + 1}"] = nn.Sequential(*layers)
    return ImageNetwork(nn.Sequential(stages), inputs, classes)
