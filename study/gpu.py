"""The image runs on a GPU that is there for minutes, on a machine with PyTorch and no network.

    python -m study.gpu pack cifar100 --into build/gpu          # at home: data in pieces, packages
    python -m study.gpu unpack build/gpu/cifar100-1 --data /tmp/data         # there, piece by piece
    python -m study.gpu check --out /tmp/out                                 # the gate
    python -m study.gpu train --data /tmp/data --out /tmp/out --seconds 600

``check`` compares every loss, and every way of training, with float64 on the CPU. ``train`` runs
the cells of the page ``cifar`` for the jobs of :func:`stacks` in their order. A job is one seed, or
a few, with every method, so that a cut leaves complete pairs. A job whose data are not there yet
waits for its turn; one that would not end in time is left. After each job ``results.tar.gz`` is
written anew in ``--out``, with the log; at home its files go to ``build/results/cifar``, where
``make reproduce CAMPAIGN=cifar`` collects them. ``--tiny`` rehearses all of it on a CPU in seconds.
"""

from __future__ import annotations

import argparse
import bz2
import json
import logging
import math
import os
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from subprocess import run as run_command
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gdlib import losses
from gdlib.train import train
from study import ROOT, campaign, data, figures, files, measures, parameters, results
from study.data import augmentation
from study.networks import image_stack

_log = logging.getLogger("study.gpu")

# --- the list ---

_FIRST = (
    *("cifar10-crops-stack-seeds5-6", "cifar10-crops-stack-seeds7-8"),
    *("cifar10-crops-stack-seeds9-10", "cifar10-crops-stack-seed11"),
    *("cifar100-crops-stack-seeds7-8", "cifar100-crops-stack-seeds9-10"),
    *("cifar100-crops-stack-seeds11-12", "cifar100-resnet18-beta50-seeds0-1-2"),
)
"""Jobs of the campaign that no GPU has trained yet."""
_THEN = (
    *("cifar100-resnet18-seed0", "cifar100-resnet18-seed1", "cifar100-resnet18-seed2"),
    *("cifar100-width2-stack-seed3", "cifar100-width2-stack-seed4", "cifar100-width2-stack-seed5"),
    "cifar100-crops-stack-seeds5-6",
)


def stacks(*, tiny: bool = False) -> list[campaign.Job]:
    """List what is trained: first what no GPU has trained yet, then what was trained on one.

    Example:
        >>> [job.id for job in stacks()][:2]
        ['cifar10-crops-stack-seeds5-6', 'cifar10-crops-stack-seeds7-8']
    """
    jobs = {job.id: job for job in campaign.load(ROOT / "campaigns" / "cifar.yml").jobs}
    listed = [jobs[name] for name in (*_FIRST, *_THEN)]
    if not tiny:
        return listed
    return [
        replace(job, given=job.given | {"epochs": 3, "width": job.given["width"] / 8})  # type: ignore[operator]
        for job in listed[::4]
    ]


# --- data and packages, in pieces that can be carried ---

PACKAGES = ("pydantic", "pydantic_core", "annotated-types", "typing-inspection")
"""What the machine lacks of what is imported there."""

_CHUNK = 2_500  # images of a file


def pack(name: str, into: Path, pieces: int = 2) -> list[Path]:
    """Write a set of images in so many folders, and the packages into ``wheels``.

    Pixels are kept as the residuals of the median edge detector (LOCO-I; Weinberger et al. 2000),
    red and blue less green, compressed by bzip2: four fifths of the size of PNG files.
    """
    raw = data.read(name)
    folders = [into / f"{name}-{piece + 1}" for piece in range(pieces)]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    chunks = [
        (split, start)
        for split in ("train", "test")
        for start in range(0, len(getattr(raw, split)), _CHUNK)
    ]
    for index, (split, start) in enumerate(chunks):
        images = getattr(raw, split).inputs[start : start + _CHUNK].numpy()
        file = folders[index * pieces // len(chunks)] / f"{split}-{start:05d}.bz2"
        file.write_bytes(bz2.compress(_residuals(images).tobytes()))
    described: dict[str, Any] = {
        "name": name,
        "classes": raw.class_names,
        "copy": raw.copy,
        "source": raw.source,
    }
    described |= {"shape": raw.train.inputs.shape[1:], "chunks": chunks}
    described |= {split: getattr(raw, split).labels.tolist() for split in ("train", "test")}
    for folder in folders:
        (folder / "set.json").write_text(json.dumps(described), encoding="utf-8")
    return folders


def fetch_packages(into: Path, python: str = "3.12") -> None:
    """Download the wheels of :data:`PACKAGES`, in the versions that are installed here."""
    platforms = [f"--platform=manylinux{name}_x86_64" for name in ("_2_28", "_2_17", "2014")]
    run_command(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        + [f"--python-version={python}", "--implementation=cp", *platforms]
        + ["--dest", str(into / "wheels")]
        + [f"{name}=={metadata.version(name)}" for name in PACKAGES],
        check=True,
    )


def unpack(folder: Path, data_folder: Path) -> Path | None:
    """Decode a piece beside those that came before; return the whole set when it is there.

    Nothing is written by halves: a file gets its name when it is complete.
    """
    described = json.loads((folder / "set.json").read_text(encoding="utf-8"))
    parts = data_folder / f"{described['name']}-parts"
    parts.mkdir(parents=True, exist_ok=True)
    shape = tuple(described["shape"])
    with ProcessPoolExecutor(_processes(), get_context("spawn")) as pool:
        files = sorted(folder.glob("*.bz2"))
        list(pool.map(_decode, files, [parts] * len(files), [shape] * len(files)))
    chunks = [parts / f"{split}-{start:05d}.npy" for split, start in described["chunks"]]
    if not all(chunk.exists() for chunk in chunks):
        return None
    whole = data_folder / f"{described['name']}.pt"
    content: dict[str, Any] = {key: described[key] for key in ("name", "classes", "copy", "source")}
    for split in ("train", "test"):
        images = [np.load(chunk) for chunk in chunks if chunk.name.startswith(split)]
        content[split] = torch.from_numpy(np.concatenate(images)), torch.tensor(described[split])
    partial_file = whole.with_suffix(".partial")
    torch.save(content, partial_file)
    return partial_file.rename(whole)


def unpacked(name: str, data_folder: Path) -> data.Dataset:
    """Read what :func:`unpack` has written, as :func:`study.data.read` returned it at home."""
    content = torch.load(data_folder / f"{name}.pt")
    splits = [data.Split(*content[split]) for split in ("train", "test")]
    classes = tuple(content["classes"])
    origin = content["source"], content["copy"]
    return data.Dataset(name, splits[0], None, splits[1], classes, *origin)


def _residuals(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Subtract what the neighbours to the left and above predict, colour by colour, modulo 256."""
    values = images.astype(np.int16)
    left, up, corner = (np.zeros_like(values) for _ in range(3))
    left[..., 1:] = values[..., :-1]
    up[..., 1:, :] = values[..., :-1, :]
    corner[..., 1:, 1:] = values[..., :-1, :-1]
    residuals = (values - _predicted(left, up, corner)).astype(np.uint8)
    if images.ndim == 4:  # (N, C, H, W)
        residuals[:, [0, 2]] -= residuals[:, [1]]
        residuals = residuals.swapaxes(0, 1)
    return np.ascontiguousarray(residuals)


def _predicted(left: Any, up: Any, corner: Any) -> Any:
    """Predict by the median of left, up and left + up - corner."""
    low, high = np.minimum(left, up), np.maximum(left, up)
    return np.clip(left + up - corner, low, high)


def _decode(file: Path, into: Path, shape: tuple[int, ...]) -> None:
    """Undo :func:`_residuals`, pixel by pixel for all images of a file at a time."""
    *colours, height, width = shape
    coded = np.frombuffer(bz2.decompress(file.read_bytes()), np.uint8)
    residuals = coded.reshape(*colours, -1, height, width)
    if colours:
        residuals = residuals.swapaxes(0, 1).copy()
        residuals[:, [0, 2]] += residuals[:, [1]]
    rows = residuals.astype(np.int16).transpose(-2, -1, *range(residuals.ndim - 2)).copy()
    values = np.zeros((height + 1, width + 1, *rows.shape[2:]), np.int16)  # with a border of zeros
    for row in range(height):
        for column in range(width):
            around = values[row + 1, column], values[row, column + 1], values[row, column]
            values[row + 1, column + 1] = (rows[row, column] + _predicted(*around)) & 255
    images = np.moveaxis(values[1:, 1:], (0, 1), (-2, -1)).astype(np.uint8)
    target = into / f"{file.stem}.npy"
    partial_file = target.with_suffix(".partial")
    with partial_file.open("wb") as stream:
        np.save(stream, np.ascontiguousarray(images))
    partial_file.rename(target)


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
    """A stack would not end in time."""


class _Clock:
    """Look at the time after every epoch, and leave a stack that will not end before ``end``."""

    def __init__(self, epochs: int, end: float) -> None:
        self.epochs, self.end = epochs, end
        self.times: list[float] = []

    def __call__(self, epoch: int) -> None:
        self.times.append(time.monotonic())
        if len(self.times) > 2:  # the first epoch records the step
            rest = (self.times[-1] - self.times[1]) / (len(self.times) - 2) * (self.epochs - epoch)
            if self.times[-1] + rest > self.end:
                raise TooLate(f"epoch {epoch} of {self.epochs}, {rest:.0f} more seconds to go")


def execute(page: str, values: Mapping[str, Any], clock: Callable[[int], None]) -> None:
    """Run the cells of a page, as papermill does, up to the one that writes its results.

    Args:
        page: its name.
        values: of its parameters.
        clock: is called with the number of each epoch.
    """
    space: dict[str, Any] = {"__name__": page}
    first, *cells = parameters.code_cells(page)
    exec(first, space)
    space.update(values)
    for cell in cells:
        exec(cell, space)
        figures.close()
        if "run.begin(" in cell:
            space["job"] = replace(space["job"], progress=clock)
        if "job.finish(" in cell:
            return


def train_stacks(
    listed: Sequence[campaign.Job],
    data_folder: Path,
    out: Path,
    *,
    seconds: float,
    device: str,
    tiny: bool = False,
) -> list[str]:
    """Train stacks in their order as their data arrive, until the time is over; name those done.

    Those that have their file in ``out`` already are passed over.
    """
    end, done = time.monotonic() + seconds, list[str]()
    left = [job for job in listed if not (out / "results" / f"{job.id}.json").exists()]
    while left:
        here = [job for job in left if (data_folder / f"{job.given['dataset']}.pt").exists()]
        if not here and time.monotonic() < end:
            time.sleep(0.5)
            continue
        if time.monotonic() >= end:
            break
        job = here[0]
        left.remove(job)
        file, started = out / "results" / f"{job.id}.json", time.monotonic()
        try:
            if (name := job.given["dataset"]) not in data.KEPT:
                data.KEPT[name] = _few(unpacked(name, data_folder), tiny)
            file.parent.mkdir(parents=True, exist_ok=True)
            given = {**job.given, "device": device, "record": str(file)}
            execute(job.page, given, _Clock(job.given["epochs"], end))
        except TooLate as reason:
            _log.info("%s: left, %s", job.id, reason)
            continue
        except Exception:  # the others are not lost with it
            _log.exception("%s: failed", job.id)
            continue
        finally:
            pack_results(out)
        done.append(job.id)
        accuracy = [one.get("test_accuracy") or math.nan for one in results.load(file)["runs"]]
        _log.info(
            "%s: %.1f seconds, test accuracy %s; %.0f seconds are left",
            *(job.id, time.monotonic() - started),
            *(" ".join(f"{100 * one:.1f}" for one in accuracy), end - time.monotonic()),
        )
    pack_results(out)
    return done


def _few(whole: data.Dataset, tiny: bool) -> data.Dataset:
    """Take a few images for a rehearsal: those that the page holds out, and 300 more."""
    if not tiny:
        return whole
    return replace(
        whole, train=whole.train[torch.arange(5_300)], test=whole.test[torch.arange(300)]
    )


def pack_results(out: Path) -> None:
    """Write the archive of results, gate and log anew; a cut leaves the one before."""
    archive = out / "results.tar.gz"
    with (
        files.whole(archive) as stream,
        tarfile.open(fileobj=stream, mode="w:gz") as packed,
    ):
        for path in sorted(out.rglob("*")):
            if path.suffix in (".json", ".log"):
                packed.add(path, path.relative_to(out).as_posix())


def _processes() -> int:
    return max(1, min(12, torch.get_num_threads()))


def _side_by_side(
    pool: ProcessPoolExecutor, function: Callable[..., dict[str, Any]], *columns: Iterable[Any]
) -> list[dict[str, Any]]:
    """Apply a function in a pool; by itself where the pool cannot, so that no run is lost."""
    rows = list(zip(*columns, strict=True))
    try:
        return list(pool.map(function, *zip(*rows, strict=True)))
    except Exception:
        _log.exception("the pool failed; run by run")
        return [function(*row) for row in rows]


def _one_thread() -> None:
    torch.set_num_threads(1)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def main(given: Sequence[str] | None = None) -> None:
    """Do one of the four."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("pack", help="at home: a data set in pieces, and packages")
    one.add_argument("name")
    one.add_argument("--into", type=Path, default=Path("build/gpu"))
    one.add_argument("--pieces", type=int, default=2)
    one.add_argument("--packages", action="store_true", help="fetch the wheels too")
    one = parts.add_parser("unpack", help="decode a piece")
    one.add_argument("folder", type=Path)
    one.add_argument("--data", type=Path, required=True)
    for part in ("check", "train"):
        one = parts.add_parser(part)
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
        one.add_argument("--tiny", action="store_true", help="rehearse in seconds")
        if part == "train":
            one.add_argument("--data", type=Path, required=True)
            one.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(given)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    if options.part == "pack":
        for folder in pack(options.name, options.into, options.pieces):
            size = sum(file.stat().st_size for file in folder.iterdir())
            _log.info("%s: %.1f MB", folder, size / 1e6)
        if options.packages:
            fetch_packages(options.into)
        return
    if options.part == "unpack":
        _log.info("%s", unpack(options.folder, options.data) or "more pieces are to come")
        return
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here; --device cpu --tiny rehearses")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.part == "check":
        sys.exit(0 if check(options.device, options.out, tiny=options.tiny) else 1)
    logging.getLogger().addHandler(logging.FileHandler(options.out / "train.log"))
    os.environ["MPLBACKEND"] = "agg"
    with ProcessPoolExecutor(_processes(), get_context("spawn"), _one_thread) as pool:
        measures.each = partial(_side_by_side, pool)
        done = train_stacks(
            stacks(tiny=options.tiny),
            options.data,
            options.out,
            seconds=options.seconds,
            device=options.device,
            tiny=options.tiny,
        )
    _log.info("%d stacks have their file of results", len(done))


if __name__ == "__main__":
    main()
