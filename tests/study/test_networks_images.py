"""The image networks, and the run axis around them.

Tested are published sizes, stage shapes and costs, and initial weights.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from gdlib.functional import gd_cross_entropy
from gdlib.models import ModuleStack
from gdlib.train import RunLoss, predict, train
from study.networks import IMAGE_NETWORKS, STEMS, ImageNetwork, image_stack, resnet18, vgg16

NAMES = ["mobilenet_v1", "resnet18", "resnet34", "resnet50", "vgg16"]  # of the papers
TINY = {"classes": 5, "width": 0.125}


def on_paper(name: str, **options: object) -> ImageNetwork:
    """A network without numbers: shapes and counts cost nothing."""
    with torch.device("meta"):
        return IMAGE_NETWORKS[name](**options)


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def images(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def is_channels_last(tensor: Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last)


# -- counts, written a second time from the papers' tables -----------------------------------------


def counted(name: str, classes: int, stem: str, channels: int, rule) -> int:
    """Number of parameters; ``rule`` gives the channels for a number of channels as printed."""

    def normalised(inputs: int, outputs: int, area: int) -> int:
        return area * inputs * outputs + 2 * outputs

    if name == "vgg16":
        widths = [
            channels,
            *map(rule, (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)),
        ]
        body = sum(normalised(a, b, 9) + b for a, b in zip(widths, widths[1:], strict=False))
        return body + (widths[-1] + 1) * classes
    if name == "mobilenet_v1":
        widths = list(
            map(rule, (32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024))
        )
        body = sum(
            9 * a + 2 * a + normalised(a, b, 1) for a, b in zip(widths, widths[1:], strict=False)
        )
        return normalised(channels, widths[0], 9) + body + (widths[-1] + 1) * classes
    blocks = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}[name]
    total, before = normalised(channels, rule(64), 49 if stem == "imagenet" else 9), rule(64)
    for stage, (number, units) in enumerate(
        zip(blocks, map(rule, (64, 128, 256, 512)), strict=True)
    ):
        after = 4 * units if name == "resnet50" else units
        for block in range(number):
            if name == "resnet50":
                total += (
                    normalised(before, units, 1)
                    + normalised(units, units, 9)
                    + normalised(units, after, 1)
                )
            else:
                total += normalised(before, units, 9) + normalised(units, units, 9)
            total += normalised(before, after, 1) if before != after or (stage and not block) else 0
            before = after
    return total + (before + 1) * classes


class TestSize:
    @pytest.mark.parametrize(
        ("name", "classes", "stem", "published"),
        [
            ("resnet18", 1000, "imagenet", 11_689_512),
            ("resnet34", 1000, "imagenet", 21_797_672),
            ("resnet50", 1000, "imagenet", 25_557_032),
            ("mobilenet_v1", 1000, "imagenet", 4_231_976),
            ("resnet18", 10, "cifar", 11_173_962),
            ("resnet34", 10, "cifar", 21_282_122),
            ("resnet50", 10, "cifar", 23_520_842),
            ("vgg16", 10, "cifar", 14_728_266),
            ("mobilenet_v1", 10, "cifar", 3_217_226),
        ],
    )
    def test_parameters_as_published(self, name, classes, stem, published):
        assert counted(name, classes, stem, 3, lambda units: units) == published
        assert parameters(on_paper(name, classes=classes, stem=stem)) == published

    def test_the_printed_vgg_with_its_three_linear_layers(self):
        # Simonyan & Zisserman, table 2: 138 million for configuration D, of which the convolutions
        # and one small layer are ours
        network = on_paper("vgg16", classes=1000, stem="imagenet")
        scales = sum(
            2 * layer.num_features
            for layer in network.modules()
            if isinstance(layer, nn.BatchNorm2d)
        )
        linear = (7 * 7 * 512 + 1) * 4096 + 4097 * 4096 + 4097 * 1000
        assert parameters(network.body) - scales + linear == 138_357_544

    @pytest.mark.parametrize("name", NAMES)
    def test_width_multiplies_every_number_of_channels(self, name):
        for stem, width in itertools.product(STEMS, (0.07, 0.25, 1.0, 1.5)):
            network = on_paper(name, classes=7, width=width, stem=stem, channels=2)
            expected = counted(
                name, 7, stem, 2, lambda units, width=width: max(8, round(units * width / 4) * 4)
            )
            assert parameters(network) == expected, (stem, width)
            assert all(
                layer.out_channels % 4 == 0
                for layer in network.modules()
                if isinstance(layer, nn.Conv2d)
            )
        nothing = on_paper(name, width=1e-9)
        assert {
            layer.out_channels for layer in nothing.modules() if isinstance(layer, nn.Conv2d)
        } <= {8, 32}

    @pytest.mark.parametrize(
        ("name", "stem", "pixels", "classes", "multiplications"),
        [
            ("resnet18", "imagenet", 224, 1000, 1.8e9),  # He et al., table 1
            ("resnet34", "imagenet", 224, 1000, 3.6e9),
            (
                "resnet50",
                "imagenet",
                224,
                1000,
                4.1e9,
            ),  # printed 3.8e9 with the stride in the first 1×1 convolution
            ("mobilenet_v1", "imagenet", 224, 1000, 569e6),  # Howard et al., table 8
            ("resnet18", "cifar", 32, 10, 556e6),
        ],
    )
    def test_multiplications_as_published(self, name, stem, pixels, classes, multiplications):
        network = on_paper(name, classes=classes, stem=stem)
        with FlopCounterMode(display=False) as counter:
            network(torch.empty(1, 3, pixels, pixels, device="meta"))
        assert counter.get_total_flops() / 2 == pytest.approx(multiplications, rel=0.02)


class TestShape:
    @pytest.mark.parametrize(
        ("name", "stem", "pixels", "sizes"),
        [
            *(
                (name, "cifar", 32, (32, 32, 16, 8, 4))
                for name in ("resnet18", "resnet34", "resnet50")
            ),
            *(
                (name, "tiny-imagenet", 64, (32, 32, 16, 8, 4))
                for name in ("resnet18", "resnet34", "resnet50")
            ),
            *(
                (name, "imagenet", 64, (16, 16, 8, 4, 2))
                for name in ("resnet18", "resnet34", "resnet50")
            ),
            ("resnet18", "cifar", 64, (64, 64, 32, 16, 8)),
            ("resnet18", "tiny-imagenet", 32, (16, 16, 8, 4, 2)),
            ("resnet18", "imagenet", 32, (8, 8, 4, 2, 1)),
            ("resnet18", "imagenet", 224, (56, 56, 28, 14, 7)),
            ("vgg16", "cifar", 32, (16, 8, 4, 2, 1)),
            ("vgg16", "cifar", 64, (32, 16, 8, 4, 2)),
            ("vgg16", "tiny-imagenet", 64, (16, 8, 4, 2, 1)),
            ("vgg16", "tiny-imagenet", 32, (8, 4, 2, 1, 1)),
            ("vgg16", "imagenet", 224, (112, 56, 28, 14, 7)),
            ("mobilenet_v1", "cifar", 32, (32, 32, 16, 8, 4, 2)),
            ("mobilenet_v1", "cifar", 64, (64, 64, 32, 16, 8, 4)),
            ("mobilenet_v1", "tiny-imagenet", 64, (32, 32, 16, 8, 4, 2)),
            ("mobilenet_v1", "tiny-imagenet", 32, (16, 16, 8, 4, 2, 1)),
            ("mobilenet_v1", "imagenet", 224, (112, 112, 56, 28, 14, 7)),
        ],
    )
    def test_sizes_and_channels_of_the_stages(self, name, stem, pixels, sizes):
        units = {
            "vgg16": [64, 128, 256, 512, 512],
            "mobilenet_v1": [32, 64, 128, 256, 512, 1024],
            "resnet50": [64, 256, 512, 1024, 2048],
        }
        hidden = torch.empty(2, 3, pixels, pixels, device="meta")
        found = []
        for stage in on_paper(name, stem=stem).body:
            hidden = stage(hidden)
            found.append(tuple(hidden.shape))
        expected = units.get(name, [64, 64, 128, 256, 512])
        assert found == [
            (2, channels, size, size) for channels, size in zip(expected, sizes, strict=True)
        ]

    @pytest.mark.parametrize("name", NAMES)
    def test_any_image_gives_logits(self, name):
        for stem, pixels in itertools.product(STEMS, (28, 33)):
            network = on_paper(name, classes=7, stem=stem, channels=1)
            batch = torch.empty(3, 1, pixels, pixels, device="meta")
            assert network(batch).shape == (3, 7), (stem, pixels)
            assert network.features(batch).shape == (3, network.classifier.in_features)

    @pytest.mark.parametrize("name", NAMES)
    def test_features_are_what_the_linear_layer_gets(self, name):
        network = IMAGE_NETWORKS[name](**TINY).eval()
        batch = images(4, 3, 32, 32)
        features = network.features(batch)
        assert torch.equal(network.classifier(features), network(batch))
        assert torch.equal(features, network.body(batch).mean((2, 3))) and (features >= 0).all()

    def test_a_residual_block_by_hand(self):
        network = on_paper("resnet18").to_empty(device="cpu")
        block = network.body.stage2[0].eval()
        first, first_norm, _, second, second_norm = block.branch
        projection, projection_norm = block.shortcut
        for layer in block.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, std=0.05, generator=torch.Generator().manual_seed(0))
            elif isinstance(layer, nn.BatchNorm2d):
                layer.reset_parameters()
        inputs = images(2, 64, 8, 8)
        hidden = first_norm(F.conv2d(inputs, first.weight, stride=2, padding=1)).clamp(min=0)
        branch = second_norm(F.conv2d(hidden, second.weight, padding=1))
        shortcut = projection_norm(F.conv2d(inputs[:, :, ::2, ::2], projection.weight))
        torch.testing.assert_close(
            block(inputs), (branch + shortcut).clamp(min=0), rtol=1e-4, atol=1e-5
        )
        assert (branch + shortcut).min() < 0 and isinstance(
            network.body.stage1[0].shortcut, nn.Identity
        )

    def test_a_separable_layer_keeps_the_channels_apart(self):
        depthwise = [
            layer
            for layer in on_paper("mobilenet_v1").modules()
            if isinstance(layer, nn.Conv2d) and layer.groups > 1
        ]
        assert len(depthwise) == 13 and all(
            layer.groups == layer.in_channels == layer.out_channels for layer in depthwise
        )
        assert [layer.stride[0] for layer in depthwise] == [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]


class TestInitialWeights:
    @pytest.mark.parametrize("name", NAMES)
    def test_distributions(self, name):
        torch.manual_seed(0)
        network = IMAGE_NETWORKS[name](classes=100, width=0.5)
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d):
                deviation = math.sqrt(
                    2 / (layer.kernel_size[0] ** 2 * (layer.out_channels // layer.groups))
                )
                error = 5 / math.sqrt(layer.weight.numel())  # five standard errors, generously
                assert layer.weight.std().item() / deviation == pytest.approx(1, abs=error)
                assert layer.weight.mean().item() / deviation == pytest.approx(0, abs=error)
                assert layer.bias is None or not layer.bias.any()
            elif isinstance(layer, nn.BatchNorm2d):
                assert (layer.weight == 1).all() and not layer.bias.any()
        bound = 1 / math.sqrt(network.classifier.in_features)
        assert (
            0.95 * bound < network.classifier.weight.abs().max() <= bound
            and network.classifier.bias.abs().max() <= bound
        )

    def test_a_run_depends_on_its_seed_only(self):
        stack, alone = (
            image_stack("resnet18", [4, 0, 4], **TINY),
            image_stack("resnet18", [4], **TINY),
        )
        torch.rand(3)
        again = image_stack("resnet18", [4], **TINY)
        for a, b, first, second, third in zip(
            alone.parameters(),
            again.parameters(),
            *(copy.parameters() for copy in stack.copies),
            strict=True,
        ):
            assert torch.equal(a, b) and torch.equal(a, first) and torch.equal(a, third)
            assert a.ndim != 4 or not torch.equal(a, second)
            assert first.data_ptr() != third.data_ptr()

    def test_the_seed_is_that_of_a_plain_network(self):
        stack = image_stack("vgg16", [3], **TINY)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            plain = vgg16(**TINY)
        assert all(
            torch.equal(a, b) for a, b in zip(stack.parameters(), plain.parameters(), strict=True)
        )

    def test_the_callers_random_numbers_go_on_as_if_nothing_had_been_drawn(self):
        torch.manual_seed(7)
        expected = torch.rand(4)
        torch.manual_seed(7)
        image_stack("mobilenet_v1", [1, 2], **TINY)
        assert torch.equal(torch.rand(4), expected)


def steps(network: nn.Module, batches: list[Tensor], labels: Tensor, betas: list[float]) -> None:
    """A few steps of SGD; each run has its own β."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    for batch in batches:
        logits = network(batch)  # (R, N, C), or (N, C) of a plain network
        if not isinstance(network, ModuleStack):
            logits = logits[None]
        losses = [
            gd_cross_entropy(run, labels, beta=beta, reduction="none")
            for beta, run in zip(betas, logits, strict=True)
        ]
        optimizer.zero_grad()
        torch.stack(losses).mean(1).sum().backward()
        if isinstance(network, ModuleStack):
            network.clip_gradients(3.0)
        else:
            nn.utils.clip_grad_norm_(network.parameters(), 3.0)
        optimizer.step()


class TestRunAxis:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
    def test_a_run_in_a_stack_is_the_same_network_alone(self, name, memory_format):
        batches, labels = (
            [images(6, 3, 16, 16, seed=seed) for seed in range(3)],
            torch.tensor([0, 1, 2, 3, 4, 0]),
        )
        seeds, betas = [5, 0, 5], [1.0, 0.3, 0.01]
        stack = image_stack(name, seeds, **TINY).to(memory_format=memory_format)
        steps(stack, [batch[None] for batch in batches], labels, betas)
        for run, (seed, beta) in enumerate(zip(seeds, betas, strict=True)):
            alone = image_stack(name, [seed], **TINY).copies[0].to(memory_format=memory_format)
            steps(alone, batches, labels, [beta])
            together = stack.copies[run].state_dict()
            for key, value in alone.state_dict().items():
                assert torch.equal(together[key], value), key
        assert not torch.equal(stack.copies[0].classifier.weight, stack.copies[2].classifier.weight)

    def test_batches_are_shared_as_the_first_axis_says(self):
        stack = image_stack("resnet18", [0, 1, 2, 3], **TINY).eval()
        batches = images(2, 3, 3, 16, 16)
        logits, features = stack(batches), stack.features(batches)
        assert logits.shape == (4, 3, 5) and features.shape[:2] == (4, 3)
        for run, network in enumerate(stack.copies):
            assert torch.equal(logits[run], network(batches[run // 2]))
            assert torch.equal(features[run], network.features(batches[run // 2]))

    def test_channels_last_reaches_every_layer(self):
        stack, plain = (
            image_stack("resnet50", [0], **TINY).eval(),
            image_stack("resnet50", [0], **TINY).eval(),
        )
        stack.to("cpu", memory_format=torch.channels_last)
        seen = []
        for layer in stack.modules():
            if isinstance(layer, nn.Conv2d):
                assert is_channels_last(layer.weight)
                layer.register_forward_hook(
                    lambda layer, inputs, output: seen.append(is_channels_last(output))
                )
        batch = images(
            1, 4, 3, 16, 16
        )  # as the trainer picks it: an image itself need not be channels_last
        torch.testing.assert_close(stack(batch), plain(batch), rtol=1e-3, atol=1e-4)
        assert len(seen) == 53 and all(seen)

    def test_training_and_evaluation(self):
        stack = image_stack("resnet18", [0, 1], **TINY)
        before = {key: value.clone() for key, value in stack.named_buffers()}
        batch = images(1, 6, 3, 16, 16)
        stack.eval()
        logits = stack(batch)
        assert all(torch.equal(value, before[key]) for key, value in stack.named_buffers())
        torch.testing.assert_close(logits[:, :2], stack(batch[:, :2]), rtol=1e-4, atol=1e-5)
        stack.train()
        assert not torch.allclose(stack(batch)[:, :2], stack(batch[:, :2]), rtol=1e-2)
        assert all(not torch.equal(value, before[key]) for key, value in stack.named_buffers())

    def test_state_round_trip(self, tmp_path):
        stack, other = (
            image_stack("mobilenet_v1", [0, 1], **TINY),
            image_stack("mobilenet_v1", [2, 3], **TINY),
        )
        steps(stack, [images(1, 6, 3, 16, 16)], torch.arange(6) % 5, [1.0, 1.0])
        torch.save(stack.state_dict(), tmp_path / "state")
        other.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
        batch = images(1, 4, 3, 16, 16, seed=1)
        assert torch.equal(stack.eval()(batch), other.eval()(batch))

    def test_clipping_is_run_by_run(self):
        stack = image_stack("resnet18", [0, 1, 2], **TINY)
        for run, size in enumerate((1e-4, 0.5, math.nan)):
            for parameter in stack.copies[run].parameters():
                parameter.grad = torch.full_like(parameter, size)
        number = parameters(stack.copies[0])
        norms = stack.clip_gradients(3.0)
        assert (
            norms[:2].tolist()
            == pytest.approx([1e-4 * math.sqrt(number), 0.5 * math.sqrt(number)], rel=1e-4)
            and norms[2].isnan()
        )
        kept, scaled = (
            next(stack.copies[run].parameters()).grad.flatten()[0].item() for run in (0, 1)
        )
        assert kept == pytest.approx(1e-4) and scaled == pytest.approx(
            3 / math.sqrt(number), rel=1e-4
        )

    def test_logits_are_not_rounded_to_bfloat16(self):
        stack, batch = image_stack("resnet18", [0], **TINY).eval(), images(20, 3, 16, 16)
        features, logits = (
            predict(stack, batch, precision="bfloat16", features=wanted)[0]
            for wanted in (True, False)
        )
        layer = stack.copies[0].classifier
        assert torch.equal(logits, F.linear(features, layer.weight, layer.bias))
        assert not torch.equal(features, features.bfloat16().float()) and not torch.equal(
            features, predict(stack, batch, features=True)[0]
        )

    def test_computes_in_the_type_of_its_weights(self):
        for dtype in (torch.bfloat16, torch.float64):
            network, batch = resnet18(**TINY).eval().to(dtype), images(2, 3, 16, 16).to(dtype)
            assert network(batch).dtype == dtype
            with torch.autocast("cpu", torch.bfloat16):
                assert network(batch).dtype == dtype

    def test_while_a_graph_is_recorded_every_run_has_its_stream(self, monkeypatch):
        events: list[str] = []

        class Stream:
            def __init__(self, name: str = "") -> None:
                self.name = name or f"side{sum(event.startswith('make') for event in events)}"
                events.append(f"make {self.name}")

            def wait_stream(self, other: Stream) -> None:
                events.append(f"{self.name} waits for {other.name}")

        here = Stream("main")
        events.clear()
        monkeypatch.setattr(torch.Tensor, "is_cuda", True)
        for name, value in {
            "is_current_stream_capturing": lambda: True,
            "current_stream": lambda: here,
            "Stream": Stream,
            "stream": lambda stream: contextlib.nullcontext(events.append(f"in {stream.name}")),
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)
        stack = ModuleStack([nn.Linear(2, 3), nn.Linear(2, 3)])
        batch = images(1, 4, 2)
        assert torch.equal(stack(batch), torch.stack([copy(batch[0]) for copy in stack.copies]))
        forks = [
            f"{word} side{run}" if word == "in" else f"side{run} waits for main"
            for run in (0, 1)
            for word in ("wait", "in")
        ]
        assert events == [
            "make side0",
            "make side1",
            *forks,
            "main waits for side0",
            "main waits for side1",
        ]

    @pytest.mark.parametrize("name", NAMES)
    def test_a_step_never_asks_for_a_number(self, name):
        # A tensor on the meta device has none: reading one on the host, which would stop a GPU,
        # raises here.
        stack = image_stack(name, [0, 1], **TINY).to("meta")
        logits = stack(torch.empty(1, 4, 3, 32, 32, device="meta"))
        logits.square().mean(1).sum().backward()
        assert stack.clip_gradients(3.0).shape == (2,)
        assert all(parameter.grad is not None for parameter in stack.parameters())

    def test_the_one_training_loop_trains_it(self):
        colour = torch.arange(60) % 3
        samples = images(60, 3, 8, 8) * 0.3 + F.one_hot(colour, 3).float()[:, :, None, None]

        def loss_fn(logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
            return gd_cross_entropy(
                logits.movedim(2, 1), labels, beta=beta[:, None], reduction="none"
            )

        stack = image_stack("resnet18", [0, 0], classes=3, width=0.125)
        options = {
            "epochs": 10,
            "batch_size": 20,
            "lr": 0.05,
            "momentum": 0.9,
            "max_grad_norm": 3.0,
        }
        train(stack, RunLoss(loss_fn), (samples, colour), betas=(1.0, 0.1), **options)
        logits = predict(stack, samples)
        assert (logits.argmax(2) == colour).float().mean(1).tolist() == [1.0, 1.0]
        assert not torch.equal(logits[0], logits[1])
        assert predict(stack, samples, features=True).shape == (2, 60, 64)


ON_AN_OLDER_PROCESSOR = """
import torch
from study.networks import image_stack
torch.set_num_threads(1)
for name in ["resnet18", "resnet50", "vgg16", "mobilenet_v1"]:
    stack = image_stack(name, [0], classes=5, width=1e-9).to(memory_format=torch.channels_last)
    stack(torch.randn(1, 50, 3, 32, 32)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in stack.parameters()), name
print("no crash")
"""


def test_the_narrowest_networks_train_on_a_processor_without_avx512():
    # Conv2d(4, 8, 1, stride=2, bias=False) in channels_last on [50, 4, 32, 32] ends this process in
    # its backward pass.
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ON_AN_OLDER_PROCESSOR],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "no crash\n"), done.stderr[-2000:]


class TestErrors:
    def test_an_unknown_name_lists_the_known_ones(self):
        with pytest.raises(
            ValueError,
            match="'resnet35'; valid: .*resnet18, resnet34, resnet50, vgg16, mobilenet_v1",
        ):
            image_stack("resnet35", [0], classes=10)

    @pytest.mark.parametrize("name", NAMES)
    def test_what_makes_no_network(self, name):
        for options, message in [
            ({"stem": "svhn"}, "unknown stem 'svhn'; valid: cifar, tiny-imagenet, imagenet"),
            ({"width": 0}, "width multiplies .* got 0"),
            ({"width": -0.5}, "got -0.5"),
            ({"width": math.nan}, "got nan"),
            ({"width": math.inf}, "got inf"),
            ({"classes": 0}, "classes and channels must be whole numbers >= 1; got classes=0"),
            ({"channels": 0}, "channels=0"),
        ]:
            with pytest.raises(ValueError, match=message):
                IMAGE_NETWORKS[name](**options)
            with pytest.raises(ValueError, match=message):
                image_stack(name, [0], **{"classes": 10, **options})

    def test_no_seeds(self):
        with pytest.raises(ValueError, match="give one seed for each run"):
            image_stack("resnet18", [], classes=10)

    def test_batches_that_do_not_divide_the_runs(self):
        with pytest.raises(ValueError, match="2 batches, which do not divide 3 runs"):
            image_stack("resnet18", [0, 1, 2], **TINY)(images(2, 2, 3, 8, 8))

    def test_images_with_other_channels(self):
        with pytest.raises(RuntimeError, match="channels"):
            resnet18(channels=1, width=0.125)(images(2, 3, 8, 8))
