"""The image runs on a GPU that is there for minutes, on a machine with PyTorch and no network.

    python -m study.gpu check --out build/gpu                              # the gate
    python -m study.gpu train cifar --only '*-stack-*' --out build/gpu --seconds 500

``check`` compares every loss, and every way of training, with float64 on the CPU, in half a minute;
``python -m benchmarks.gpu`` measures speed. ``train`` runs what is missing of a campaign, in the
order of its file, without a notebook. A job that would not end in time is left. After each job the
archive ``results.tar.gz`` is written anew in ``--out``; unpacked in the project at home, its files
are what ``make reproduce`` collects. ``--device cpu`` rehearses, ``check`` with ``--tiny`` in
seconds. profiles/lent-gpu.md has the calls of a session.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from gdlib import losses
from gdlib.train import train
from study import campaign, figures, files, parameters, results
from study.data import augmentation
from study.networks import image_stack

_log = logging.getLogger("study.gpu")

# --- the gate ---

_CLASSES, _FEATURES = 10, 16
_LOSSES: Mapping[str, Callable[[], losses.Loss]] = {
    "GDCrossEntropyLoss": lambda: losses.GDCrossEntropyLoss(0.1),
    "GDCrossEntropyLoss(20, smoothed)": lambda: losses.GDCrossEntropyLoss(20, label_smoothing=0.1),
    "SoftMarginLoss": lambda: losses.SoftMarginLoss(0.5),
    "AdaCosLoss": lambda: losses.AdaCosLoss(_CLASSES),
    "ArcGradLoss": lambda: losses.ArcGradLoss(10.0),
}
"""Losses with arguments of their own; the others of :mod:`gdlib.losses` take none."""

_OF_LOSSES = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 8e-3}
# Of the way that the weights go in six steps: in float64 only the order of sums differs; in float32
# it moves some unit across the kink of its ReLU, which changes the gradient by the square root of
# that share; bfloat16 keeps eight bits of every activation. The last line is twice what a CPU in
# bfloat16 shows against float64. A recorded step does what the same step does by itself.
_OF_WAYS = {"float64": 1e-8, "float32": 0.1, "bfloat16": 0.4, "recorded": 0.05}
_RATE = float(torch.tensor(0.01))  # a recorded step holds its learning rate in float32


def check_losses(device: str) -> Iterator[dict[str, Any]]:
    """Compare values and gradients of every loss on a device with float64 on the CPU."""
    generator = torch.Generator().manual_seed(0)
    scores = 4 * torch.randn(64, _CLASSES, dtype=torch.float64, generator=generator)
    labels = torch.randint(_CLASSES, (64,), generator=generator)
    labels[:3] = -100
    names = [*_LOSSES, *(name for name in losses.__all__ if name not in {*_LOSSES, "Loss"})]
    for name in names:
        make = _LOSSES.get(name) or getattr(losses, name)
        on_angles = any(word in name for word in ("Arc", "Cos", "Sphere"))
        first = torch.tanh(scores / 4) if on_angles else scores
        further: tuple[Tensor, ...] = ()
        if name == "CenterLoss":
            first = torch.randn(64, _FEATURES, dtype=torch.float64, generator=generator)
            centers = torch.randn(_CLASSES, _FEATURES, dtype=torch.float64, generator=generator)
            further = (centers,)
        if name == "LSoftmaxLoss":
            further = (torch.full_like(scores, 20.0),)
        if name == "GaussianMixtureLoss":
            first = scores.square()
        for dtype, tolerance in _OF_LOSSES.items():
            given = [one.to(dtype) for one in (first, *further)]
            wanted = _value_and_gradient(make(), [one.double() for one in given], labels)
            row: dict[str, Any] = {"loss": name, "type": str(dtype), "tolerance": tolerance}
            try:
                there = [one.to(device) for one in given]
                made = _value_and_gradient(make().to(device), there, labels.to(device))
                apart = [
                    float((a - b).abs().max() / (b.abs().max() + 1e-12))
                    for a, b in zip(made, wanted, strict=True)
                ]
                row |= {"value": apart[0], "gradient": apart[1], "ok": max(apart) < tolerance}
            except Exception as error:  # whatever a driver raises
                row |= {"error": _first_line(error), "ok": False}
            yield row


def _value_and_gradient(
    loss: losses.Loss, given: Sequence[Tensor], labels: Tensor
) -> tuple[Tensor, Tensor]:
    first = given[0].detach().requires_grad_()
    value = loss(first, labels, *given[1:])
    value.backward()
    return value.detach().double().cpu(), cast(Tensor, first.grad).double().cpu()


WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "float64": ("float64", "", {}),
    "float32": ("float32", "", {}),
    "float32, recorded": ("float32", "float32", {"recorded": True}),
    "bfloat16": ("bfloat16", "", {"precision": "bfloat16"}),
    "bfloat16, recorded": ("bfloat16", "bfloat16", {"precision": "bfloat16", "recorded": True}),
}
"""Ways of training: the tolerance, the way it equals but for its being recorded, its switches."""


def fit(
    device: str,
    *,
    model: str = "resnet18",
    width: float = 0.25,
    batch_size: int = 100,
    samples: int | None = None,
    runs: int = 3,
    epochs: int = 1,
    dtype: torch.dtype = torch.float32,
    measure: Callable[..., Any] | None = None,
    **switches: Any,
) -> Tensor:
    """Train a stack on random images, as the campaigns do; return its weights, on the CPU.

    By default it takes six steps, the last of a smaller batch. ResNet18 has a constant rate and
    clipped gradients; the network ``fast`` has one cycle.
    """
    generator = torch.Generator().manual_seed(0)
    samples = samples or 11 * batch_size // 2
    pixels = torch.randint(0, 256, (samples, 3, 32, 32), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, 10, (samples,), generator=generator)
    stack = image_stack(model, list(range(runs)), classes=10, width=width).to(device, dtype)
    if switches.get("precision") == "bfloat16":
        stack = stack.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def draws(epoch: int) -> Tensor:
        return augmentation.draw_epoch("crop-flip", samples, batch_size, seeds=[0], epoch=epoch)

    def prepare(batch: Tensor, draws: Tensor | None) -> Tensor:
        return augmentation.apply(batch, cast(Tensor, draws)).to(dtype) / 127.5 - 1

    one_cycle = model == "fast"
    betas = [5.0, 1.0, 0.1]
    train(
        stack,
        losses.GDCrossEntropyLoss(),  # its β is that of each run
        (pixels.to(device), labels.to(device)),
        epochs=epochs,
        lr=_RATE,
        batch_size=batch_size,
        betas=[betas[run % 3] for run in range(runs)],
        momentum=0.9,
        weight_decay=1e-4,
        lr_schedule="one-cycle" if one_cycle else "milestones",
        max_grad_norm=None if one_cycle else 3.0,
        prepare=prepare,
        draws=draws,
        measure=measure,
        **switches,
    )
    return torch.cat([one.detach().cpu().double().flatten() for one in stack.parameters()])


def check_ways(
    device: str, *, batch_size: int = 100, width: float = 0.25, runs: int = 3
) -> Iterator[dict[str, Any]]:
    """Compare every way of training with float64 on the CPU: the distance of the weights.

    It is in parts of the way that the weights have gone. A recorded way is also compared with the
    same steps done one by one.
    """
    for model in ("resnet18", "fast"):
        sizes: dict[str, Any] = {"model": model, "width": width, "batch_size": batch_size}
        stack = image_stack(model, list(range(runs)), classes=10, width=width)
        start = torch.cat([one.detach().double().flatten() for one in stack.parameters()])
        reference = fit("cpu", runs=runs, dtype=torch.float64, **sizes)
        way_gone = (reference - start).norm()
        ends: dict[str, Tensor] = {}
        for name, (kind, alone, switches) in WAYS.items():
            row: dict[str, Any] = {"model": model, "way": name, "tolerance": _OF_WAYS[kind]}
            try:
                dtype = torch.float64 if kind == "float64" else torch.float32
                with without_tf32():
                    ends[name] = fit(device, runs=runs, dtype=dtype, **sizes, **switches)
                row["distance"] = float((ends[name] - reference).norm() / way_gone)
                row["ok"] = row["distance"] < _OF_WAYS[kind]
                if alone in ends:
                    row["from one by one"] = float((ends[name] - ends[alone]).norm() / way_gone)
                    row["ok"] &= row["from one by one"] < _OF_WAYS["recorded"]
            except Exception as error:  # whatever a driver raises
                row |= {"error": _first_line(error), "ok": False}
            yield row


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


without_tf32 = partial(torch.backends.cudnn.flags, enabled=True, allow_tf32=False)
"""Switch off TF32 in convolutions; PyTorch makes matrix products without it by itself."""


def check(device: str, out: Path, *, tiny: bool = False) -> bool:
    """Write ``gate.json``: versions, device, and each comparison; say whether all are right."""
    name = torch.cuda.get_device_name() if device == "cuda" else device
    versions = {"python": sys.version.split()[0], "torch": torch.__version__}
    if find_spec("triton"):
        versions["triton"] = metadata.version("triton")
    if device == "cuda":
        versions |= {"cuda": str(torch.version.cuda), "cudnn": str(torch.backends.cudnn.version())}
    gate: dict[str, Any] = {"versions": versions, "device": name}
    sizes: dict[str, Any] = {"batch_size": 12, "width": 0.125, "runs": 1} if tiny else {}
    for part, rows in (("losses", check_losses(device)), ("ways", check_ways(device, **sizes))):
        gate[part] = []
        for row in rows:
            gate[part].append(row)
            if part == "ways" or not row["ok"]:
                _log.info("%s", row)
            files.write_whole(out / "gate.json", json.dumps(gate, indent=1))
        right, of = sum(row["ok"] for row in gate[part]), len(gate[part])
        _log.info("%s: %d of %d comparisons are within their tolerance", part, right, of)
    return all(row["ok"] for part in ("losses", "ways") for row in gate[part])


# --- the training ---


class TooLate(Exception):
    """A job would not end in time."""


class _Clock:
    """Look at the time after every epoch, and leave a job that will not end before ``end``."""

    def __init__(self, epochs: int, end: float) -> None:
        self.epochs, self.end = epochs, end
        self.times: list[float] = []

    def __call__(self, epoch: int) -> None:
        self.times.append(time.monotonic())
        if len(self.times) > 2:  # the first epoch records the step
            rest = (self.times[-1] - self.times[1]) / (len(self.times) - 2) * (self.epochs - epoch)
            if self.times[-1] + rest > self.end:
                raise TooLate(f"epoch {epoch} of {self.epochs}, {rest:.0f} more seconds to go")


def execute(page: str, values: Mapping[str, Any], progress: Callable[[int], None]) -> None:
    """Run the cells of a page, as papermill does, up to the one that writes its results.

    Args:
        page: its name.
        values: of its parameters.
        progress: is called with the number of each epoch.
    """
    space: dict[str, Any] = {"__name__": page}
    first, *cells = parameters.code_cells(page)
    exec(first, space)
    space.update(values)
    for cell in cells:
        exec(cell, space)
        figures.close()
        if "run.begin(" in cell:
            space["job"] = replace(space["job"], progress=progress)
        if parameters.writes_results(cell):
            return


def train_jobs(
    jobs: Sequence[campaign.Job], root: Path, out: Path, *, seconds: float, device: str
) -> list[str]:
    """Train jobs in their order until the time is over; name those done."""
    end, done = time.monotonic() + seconds, list[str]()
    for job in jobs:
        started = time.monotonic()
        if started >= end:
            break
        job.record.parent.mkdir(parents=True, exist_ok=True)
        given = {**job.given, "record": str(job.record)}
        if "device" in job.parameters:
            given["device"] = device
        try:
            execute(job.page, given, _Clock(job.parameters["epochs"], end))
        except TooLate as reason:
            _log.info("%s: left, %s", job.id, reason)
            continue
        except Exception:  # the others are not lost with it
            _log.exception("%s: failed", job.id)
            continue
        done.append(job.id)
        pack(job.record.parent, root, out)
        runs = results.load(job.record)["runs"]
        _log.info(
            "%s: %.1f seconds, test accuracy %s; %.0f seconds are left",
            *(job.id, time.monotonic() - started),
            *(" ".join(str(one.get("test_accuracy")) for one in runs), end - time.monotonic()),
        )
    return done


def pack(results_folder: Path, root: Path, out: Path) -> None:
    """Write the archive of results anew; a cut leaves the one before."""
    with (
        files.whole(out / "results.tar.gz") as stream,
        tarfile.open(fileobj=stream, mode="w:gz") as packed,
    ):
        for path in sorted(results_folder.glob("*.json")):
            packed.add(path, path.relative_to(root).as_posix())


def main(given: Sequence[str] | None = None) -> None:
    """Check, or train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    checking, training = parts.add_parser("check"), parts.add_parser("train")
    for part in (checking, training):
        part.add_argument("--out", type=Path, required=True)
        part.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    checking.add_argument("--tiny", action="store_true", help="rehearse in seconds")
    training.add_argument("campaign")
    training.add_argument("--only", default="", help="names or patterns of jobs")
    training.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(given)
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here; --device cpu rehearses")
    options.out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    if options.part == "check":
        sys.exit(0 if check(options.device, options.out, tiny=options.tiny) else 1)
    planned = campaign.plan(options.campaign, Path.cwd(), only=options.only, gpu=True)
    _log.info("%s", planned)
    where: dict[str, Any] = {"seconds": options.seconds, "device": options.device}
    done = train_jobs(planned.pending, Path.cwd(), options.out, **where)
    _log.info("%d of %d jobs have their file of results now", len(done), len(planned.pending))


if __name__ == "__main__":
    main()
