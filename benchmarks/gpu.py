"""Image networks on a GPU: first whether it computes what the CPU computes, then how fast.

    python benchmarks/gpu.py check        # a few steps on both; stops with an error where they differ
    python benchmarks/gpu.py              # the check, then seconds for 200 epochs of ResNet18 on CIFAR-10, way by way, against a loop

The check comes first: a time of something wrong is worth nothing. Random images of CIFAR-10's shape; nothing is downloaded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gdlib import GDCrossEntropyLoss
from gdlib.models import image_stack, resnet18
from gdlib.train import train
from study.data import augmentation
from study.objective import gd_loss

BETAS = [5.0, 1.0, 0.1]
SETTING: dict[str, Any] = {"batch_size": 100, "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 1e-4, "max_grad_norm": 3.0}
STEPS_OF_THE_PAPER = 200 * 500
# How far the weights may lie apart after six steps, in parts of the way that they have gone. In float64 only the order of sums differs. In
# float32 a sum in another order moves some unit across the kink of its ReLU, which changes the gradient by the square root of that share:
# on one CPU, channels last against contiguous differ by 0.02.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 0.1}

WAYS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float32, channels last": {"channels_last": True},
    "float32, fused": {"fused": True},
    "float32, recorded steps": {"cuda_graph": True},
    "bfloat16, channels last, recorded steps": {"precision": "bfloat16", "channels_last": True, "cuda_graph": True},
}


def images(samples: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (samples, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return pixels, torch.randint(0, 10, (samples,), generator=generator)


def fit(
    device: str,
    samples: int,
    epochs: int,
    width: float,
    *,
    runs: int,
    dtype: torch.dtype = torch.float32,
    channels_last: bool = False,
    **switches: Any,
) -> list[Tensor]:
    """Train a stack; return all weights on the CPU."""
    pixels, labels = (tensor.to(device) for tensor in images(samples))
    model = image_stack("resnet18", [0] * runs, classes=10, width=width).to(device, dtype)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    betas = (BETAS * runs)[:runs]

    def prepared(batch: Tensor, step: int) -> Tensor:
        """Crops and flips by step, then [-1, 1]."""
        draws = torch.stack([augmentation.draw("crop-flip", batch.shape[1], seed=0, step=step)])
        return augmentation.apply(batch, draws.to(batch.device)).to(dtype) / 127.5 - 1

    train(model, gd_loss([1.0] * runs), lambda step: betas, pixels, labels, epochs=epochs, prepare=prepared, **SETTING, **switches)
    return [parameter.detach().cpu() for parameter in model.parameters()]


def apart(found: list[Tensor], reference: list[Tensor], start: list[Tensor]) -> float:
    """Distance of two ends, in parts of the distance from the start."""
    distances = [
        torch.cat([(one.double() - other.double()).flatten() for one, other in zip(found, others, strict=True)]).norm()
        for others in (reference, start)
    ]
    return float(distances[0] / distances[1])


def check() -> None:
    """Six steps, the last one of a smaller batch, on the CPU in float64 and in each way on the GPU, in float64 and as it will be used."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    size: dict[str, Any] = {"samples": 550, "epochs": 1, "width": 0.25, "runs": len(BETAS)}
    start = [parameter.detach() for parameter in image_stack("resnet18", [0] * len(BETAS), classes=10, width=0.25).parameters()]
    reference = fit("cpu", **size, dtype=torch.float64)
    for name, switches in WAYS.items():
        exact = switches.get("precision", "float32") == "float32"
        for dtype, tolerance in TOLERANCES.items():
            if dtype == torch.float64 and not exact:
                continue  # autocast has no float64
            distance = apart(fit("cuda", **size, **switches, dtype=dtype), reference, start)
            print(f"{name}, weights in {dtype}: {distance:.1e} of the way apart from the CPU")
            if exact and not distance < tolerance:
                sys.exit(f"{name} does not compute what the CPU computes; do not measure")


def eager_loop(samples: int) -> None:
    """What one would write first: DataLoader, augmentation image by image on the CPU, eager steps."""
    pixels, labels = images(samples)
    torch.manual_seed(0)
    net = resnet18().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loss_fn = GDCrossEntropyLoss(0.1)
    for step, (batch, target) in enumerate(DataLoader(TensorDataset(pixels, labels), batch_size=100, shuffle=True)):
        inputs = augmentation.augment(batch, "crop-flip", seed=0, step=step).float() / 127.5 - 1
        optimizer.zero_grad()
        loss_fn(net(inputs.cuda()), target.cuda()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 3.0)
        optimizer.step()


def seconds_per_step(way: Callable[[int], object], runs: int) -> float:
    """Time of a step and run: the difference between a longer and a shorter training, so that starting costs nothing."""
    times = []
    for samples in (2_000, 12_000):
        torch.cuda.synchronize()
        started = time.perf_counter()
        way(samples)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return (times[1] - times[0]) / 100 / runs


def measure() -> None:
    """Each way three times, in turns; the median."""
    ways: dict[str, tuple[Callable[[int], object], int]] = {"eager DataLoader loop": (eager_loop, 1)}
    for name, switches in WAYS.items():
        for runs in (1, len(BETAS)):
            ways[f"{name}, {runs} run{'s' if runs > 1 else ''}"] = (
                lambda samples, runs=runs, switches=switches: fit("cuda", samples, 1, 1.0, runs=runs, **switches),
                runs,
            )
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(3):
        for name, (way, runs) in ways.items():
            times[name].append(seconds_per_step(way, runs))
    eager = sorted(times["eager DataLoader loop"])[1]
    for name, values in times.items():
        step = sorted(values)[1]
        print(f"{name}: {step * STEPS_OF_THE_PAPER:.0f} s for 200 epochs of one run, {eager / step:.1f} times the eager loop")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; goal (P6): at most 150 s, at least 3 times")


def main() -> None:
    if sys.argv[1:] not in ([], ["check"]):
        sys.exit(__doc__)
    if not torch.cuda.is_available():
        print("PyTorch finds no GPU here: nothing to check and nothing to measure (P6)")
        return
    check()
    if not sys.argv[1:]:
        measure()


if __name__ == "__main__":
    main()
