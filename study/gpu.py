"""Jobs of campaigns on a GPU that is there for a short while, without papermill, Snakemake or jupytext.

    python -m study.gpu --minutes 25 --into OUT cifar10        # or: make gpu DATA=data MINUTES=25

First a few steps are compared with a CPU in float64. Then the missing jobs are trained by :func:`study.run.train_stack`, as
their notebooks do, in the order of the files, which is the order of their value. A stack that will not end in time is left, and the next
one of the same kind is not begun. ``OUT/records.tar.gz`` is rewritten after every record, so that a cut loses one job at most.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from gdlib.models import image_stack
from gdlib.train import train
from study import run, settings
from study.campaign import CampaignError, Job, plan
from study.data import augmentation
from study.objective import gd_loss

__all__ = ["WAYS", "check", "fit", "run_jobs"]

SETTING: dict[str, Any] = {"momentum": 0.9, "weight_decay": 1e-4, "max_grad_norm": 3.0}
RATE = float(torch.tensor(0.01))  # a recorded step holds its learning rate in float32; so does what it is compared with
WAYS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float32, recorded": {"cuda_graph": True},
    "bfloat16, channels last, recorded": {"precision": "bfloat16", "channels_last": True, "cuda_graph": True},
}
"""Ways of training on a GPU, as switches of :func:`fit`."""

# How far weights may lie apart after six steps, in parts of the way that they have gone. In float64 only the order of sums differs. In
# float32 it moves some unit across the kink of its ReLU, which changes the gradient by the square root of that share.
_TOLERANCES = {torch.float64: 1e-8, torch.float32: 0.1}
_BETAS, _TEMPERATURES = [5.0, 1.0, 0.1], [1.0, 2.0, 0.5]
_SIZES = {"dataset", "model", "width", "augmentation", "subset"}  # of which the time of an epoch is made, with the number of runs
_RESERVE = 20.0  # seconds that are left for the end

_log = logging.getLogger("study.gpu")


def images(samples: int) -> tuple[Tensor, Tensor]:
    """Random images of CIFAR-10's shape, and their labels."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (samples, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return pixels, torch.randint(0, 10, (samples,), generator=generator)


def fit(
    device: str,
    data: tuple[Tensor, Tensor],
    *,
    epochs: int = 1,
    batch_size: int = 100,
    width: float = 1.0,
    runs: int = 3,
    dtype: torch.dtype = torch.float32,
    channels_last: bool = False,
    **switches: Any,
) -> list[Tensor]:
    """Train a stack of ResNet18 on images that are on the device, with crops and flips; return all weights on the CPU."""
    pixels, labels = data
    model = image_stack("resnet18", [0] * runs, classes=10, width=width).to(device, dtype)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    steps = -(-len(pixels) // batch_size)

    def draws(epoch: int) -> Tensor:
        parts = [augmentation.draw("crop-flip", batch_size, seed=0, step=(epoch - 1) * steps + step) for step in range(steps)]
        return torch.cat(parts)[None, : len(pixels)]

    def prepare(batch: Tensor, draws: Tensor | None) -> Tensor:
        return augmentation.apply(batch, cast(Tensor, draws)).to(dtype) / 127.5 - 1

    options = SETTING | {"learning_rate": RATE, "prepare": prepare, "draws": draws, "epochs": epochs, "batch_size": batch_size} | switches
    betas = (_BETAS * runs)[:runs]
    train(model, gd_loss((_TEMPERATURES * runs)[:runs]), lambda step: betas, pixels, labels, **options)
    return [parameter.detach().cpu() for parameter in model.parameters()]


@contextmanager
def without_tf32() -> Iterator[None]:
    """Exact float32 products for a while; afterwards what was chosen before."""
    chosen = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = chosen


def check(device: str, *, width: float = 0.25, batch_size: int = 100) -> dict[str, float]:
    """Measure how far the weights after six steps, the last of a smaller batch, lie from those of a CPU in float64.

    The distances are in parts of the way that the weights have gone; one that the order of sums does not explain is a RuntimeError.
    """
    data = images(11 * batch_size // 2)
    form: dict[str, Any] = {"width": width, "batch_size": batch_size}
    start = [parameter.detach() for parameter in image_stack("resnet18", [0] * len(_BETAS), classes=10, width=width).parameters()]
    reference, found = fit("cpu", data, dtype=torch.float64, **form), {}
    there = data[0].to(device), data[1].to(device)
    with without_tf32():
        for name, switches in WAYS.items():
            exact = "precision" not in switches
            for dtype, tolerance in _TOLERANCES.items() if exact else [(torch.float32, _TOLERANCES[torch.float32])]:
                weights = fit(device, there, dtype=dtype, **form, **switches)
                distance = _norm(weights, reference) / _norm(reference, start)
                found[f"{name}, weights in {str(dtype).removeprefix('torch.')}"] = distance
                if not distance < (tolerance if exact else 1.0):
                    raise RuntimeError(f"{name} on {device} does not compute what the CPU computes: {distance:.1e} of the way apart")
    return found


def _norm(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    return float(torch.cat([(one.double() - other.double()).flatten() for one, other in zip(ones, others, strict=True)]).norm())


class _NotInTime(Exception):
    """A stack would not end before the machine goes."""


def run_jobs(jobs: Sequence[Job], seconds: float, archive: Path, *, clock: Callable[[], float] = time.monotonic) -> list[Job]:
    """Train jobs of the notebook ``train`` one after another until the time is over; return those that have their record now."""
    end, done = clock() + seconds - _RESERVE, list[Job]()
    taken: dict[str, float] = {}  # seconds for an epoch of each kind of stack
    for job in jobs:
        if not isinstance(job.setting, settings.Train):
            _log.info("%s: not a job of the notebook train", job.id)
            continue
        kind = repr([*job.setting.model_dump(include=_SIZES).values(), len(job.setting.runs())])
        left = end - clock()
        if left < 0 or taken.get(kind, 0) * job.setting.epochs > left:
            _log.info("%s: not begun, %.0f seconds are left", job.id, left)
            continue
        pace = _Pace(job.setting.epochs, end, clock)
        try:
            run.train_stack(job.setting, measure=pace).write(job.record)
        except _NotInTime as reason:
            _log.info("%s: left, %s", job.id, reason)
            continue
        finally:
            taken |= {kind: pace.epoch_seconds} if pace.epoch_seconds else {}
        done.append(job)
        with tarfile.open(archive.with_suffix(".partial"), "w:gz") as file:
            for finished in done:
                file.add(finished.record, f"{finished.campaign}/{finished.record.name}")
        archive.with_suffix(".partial").replace(archive)
        _log.info("%s: %.0f seconds are left", job.id, end - clock())
    return done


class _Pace:
    """Looks at the clock after every epoch, and leaves a stack that will not end in time."""

    def __init__(self, epochs: int, end: float, clock: Callable[[], float]) -> None:
        self.epochs, self.end, self.clock, self.epoch_seconds, self.times = epochs, end, clock, 0.0, list[float]()

    def __call__(self, model: object, dataset: object, epoch: int) -> Mapping[str, Tensor]:
        self.times.append(self.clock())
        if len(self.times) > 2:  # the first epoch records the step
            self.epoch_seconds = (self.times[-1] - self.times[1]) / (len(self.times) - 2)
            rest, left = self.epochs - epoch, self.end - self.clock()
            if self.epoch_seconds * rest > left:
                raise _NotInTime(f"{self.epoch_seconds:.2g} seconds an epoch, {rest} epochs and {left:.0f} seconds are left")
        return {}


def main(given: Sequence[str] | None = None, root: Path | None = None) -> None:
    """Check, then run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaigns", nargs="+", help="names of campaign files, the most valuable first")
    parser.add_argument("--minutes", type=float, required=True, help="how long the machine is there")
    parser.add_argument("--into", type=Path, default=Path("build/gpu"), help="folder of the archive")
    parser.add_argument("--device", default="cuda", help="cpu for a rehearsal")
    options = parser.parse_args(given)
    started = time.monotonic()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here; --device cpu rehearses")
    options.into.mkdir(parents=True, exist_ok=True)
    try:
        plans = [plan(name, root or Path.cwd()) for name in options.campaigns]  # a mistake shows before the first minute is gone
        found = check("cpu", width=0.125, batch_size=4) if options.device == "cpu" else check(options.device)
        for name, distance in found.items():
            _log.info("%s: %.1e of the way apart from a CPU", name, distance)
    except (CampaignError, RuntimeError) as error:
        sys.exit(str(error))
    jobs = [job for one in plans for job in one.pending]
    done = run_jobs(jobs, 60 * options.minutes - (time.monotonic() - started), options.into / "records.tar.gz")
    _log.info("%d of %d missing jobs have their record now", len(done), len(jobs))


if __name__ == "__main__":
    main()
