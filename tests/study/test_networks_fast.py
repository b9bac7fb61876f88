"""The small image network, and the network of 13 layers.

Of the small one: its cost, its whitening filters, and what stays fixed in training.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from gdlib.functional import gd_cross_entropy
from gdlib.train import RunLoss, train
from study.networks import conv13, fast, image_stack


def images(number: int, seed: int = 0, channels: int = 3) -> torch.Tensor:
    """Neighbouring pixels are correlated, as in photographs."""
    noise = torch.randn(number, channels, 33, 33, generator=torch.Generator().manual_seed(seed))
    return noise[..., :-1, :-1] + 0.8 * noise[..., 1:, :-1] + 0.5 * noise[..., :-1, 1:]


def test_multiply_adds_of_an_image() -> None:
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        fast(classes=10)(torch.empty(1, 3, 32, 32))
    assert counter.get_total_flops() / 2 == pytest.approx(27.5e6, rel=0.01)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 3), (3, 3), (4, 4)])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_convolution_of_few_positions_is_the_usual_one(
    size: tuple[int, int], memory_format: torch.memory_format
) -> None:
    convolution = fast().double().to(memory_format=memory_format).body.block2[4]
    inputs = torch.randn(5, convolution.in_channels, *size).double().requires_grad_()
    wanted = F.conv2d(inputs, convolution.weight, padding=1)
    weights = torch.randn_like(wanted)
    variables = inputs, convolution.weight
    gradients = torch.autograd.grad((convolution(inputs) * weights).sum(), variables)
    torch.testing.assert_close(convolution(inputs), wanted)
    torch.testing.assert_close(gradients, torch.autograd.grad((wanted * weights).sum(), variables))


@pytest.mark.parametrize("channels", [1, 3])
def test_whitened_patches_are_uncorrelated_with_variance_one(channels: int) -> None:
    network = fast(channels=channels)
    network.whiten(images(200, channels=channels))
    outputs = network.body.whitening(images(200, channels=channels)).double()
    half = outputs.shape[1] // 2
    torch.testing.assert_close(outputs[:, half:], -outputs[:, :half])
    flat = outputs[:, :half].movedim(1, 0).flatten(1)
    torch.testing.assert_close(
        flat @ flat.mT / flat.shape[1], torch.eye(half, dtype=torch.float64), atol=0.02, rtol=0
    )


def test_a_component_whose_numbers_sum_to_nothing_is_whitened() -> None:
    network = fast(channels=1)
    for seed in range(100):  # with some of them such a sum is exactly 0
        few = torch.randn(3, 1, 3, 3, generator=torch.Generator().manual_seed(seed))
        turned = torch.cat([few, few.flip(2)])
        turned = torch.cat([turned, turned.flip(3)])
        symmetric = torch.cat([turned, turned.mT])
        network.whiten(symmetric)
        outputs = network.body.whitening(symmetric)
        assert (outputs.square().mean((0, 2, 3)) > 0.9).all()


def test_the_filters_are_those_of_the_first_images_and_no_optimiser_moves_them() -> None:
    stack = image_stack("fast", seeds=[0, 0], classes=2, width=0.25)
    many = images(5_100)
    for network in stack.copies:
        network.whiten(many)
    alone = fast(classes=2)
    alone.whiten(many[:5_000])
    inputs, labels = many[:40], (many[:40].mean((1, 2, 3)) > 0).long()
    before = [copy.body.block1[0].weight.clone() for copy in stack.copies]

    def loss_fn(logits, labels, beta):
        return gd_cross_entropy(logits.movedim(2, 1), labels, beta=beta[:, None], reduction="none")

    train(
        stack,
        RunLoss(loss_fn),
        (inputs, labels),
        betas=(1.0, 0.1),
        epochs=1,
        batch_size=20,
        lr=0.1,
        weight_decay=0.1,
    )
    for copy, start in zip(stack.copies, before, strict=True):
        assert torch.equal(copy.body.whitening.weight, alone.body.whitening.weight)
        assert not torch.equal(copy.body.block1[0].weight, start)
    assert not torch.equal(
        stack.copies[0].body.block1[0].weight, stack.copies[1].body.block1[0].weight
    )  # β differs


def test_the_network_of_13_layers() -> None:
    """Its convolutions and its size as published, and positions: 32, 16, 8, and 6 once unpadded."""
    with torch.device("meta"):
        network, batch = conv13(classes=100), torch.empty(2, 3, 32, 32, device="meta")
        shapes = [
            tuple(layer.weight.shape)
            for layer in network.body
            if isinstance(layer, torch.nn.Conv2d)
        ]
        assert network.body(batch).shape == (2, 128, 6, 6) and network(batch).shape == (2, 100)
    three, six, nine = (
        [(128, 128, 3, 3)] * 2,
        [(256, 256, 3, 3)] * 2,
        [(256, 512, 3, 3), (128, 256, 3, 3)],
    )
    assert shapes == [(128, 3, 3, 3), *three, (256, 128, 3, 3), *six, (512, 256, 3, 3), *nine]
    assert sum(parameter.numel() for parameter in network.parameters()) == pytest.approx(
        4.44e6, rel=0.002
    )
    assert conv13(width=0.125, channels=1)(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def layers(network: nn.Module, kind: type) -> list:
    return [layer for layer in network.body.modules() if isinstance(layer, kind)]


def test_both_networks_layer_by_layer() -> None:
    inputs = images(2)
    network = fast(width=0.25).eval()
    whitening, *convolutions = layers(network, nn.Conv2d)
    hidden = F.conv2d(inputs, whitening.weight).relu()
    for place, (conv, norm) in enumerate(
        zip(convolutions, layers(network, nn.BatchNorm2d), strict=True)
    ):
        hidden = F.conv2d(hidden, conv.weight, padding=1)
        hidden = norm(F.max_pool2d(hidden, 2) if place % 2 == 0 else hidden).relu()
    torch.testing.assert_close(network.features(inputs), hidden.amax((2, 3)))
    network, hidden = conv13(width=0.125).eval(), inputs
    pairs = zip(layers(network, nn.Conv2d), layers(network, nn.BatchNorm2d), strict=True)
    for place, (conv, norm) in enumerate(pairs, start=1):
        hidden = norm(F.conv2d(hidden, conv.weight, padding=0 if place == 7 else 1)).relu()
        hidden = F.max_pool2d(hidden, 2) if place in (3, 6) else hidden
    torch.testing.assert_close(network.features(inputs), hidden.mean((2, 3)))


def test_numbers_that_make_no_network() -> None:
    with pytest.raises(ValueError, match="whole numbers >= 1; got classes=1.5"):
        fast(classes=1.5)
    with pytest.raises(ValueError, match="width multiplies .* got 'wide'"):
        fast(width="wide")
