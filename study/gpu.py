"""Jobs of campaigns on a GPU that is there for a short while.

They run without papermill, Snakemake or jupytext.

    python -m study.gpu --minutes 25 cifar100-wide fast-angular cifar10
    make gpu DATA=data MINUTES=25    # the same

First a few steps in each way of training are compared with a CPU in float64; jobs of a way that
computes something else are left out. Then the missing jobs are trained by
:func:`study.run.train_stack`, as their notebooks do, in the order of the files, which is the order
of their value. A stack that will not end in time is left, and the next one of the same kind is not
begun; a failed job is reported, and the next begins. ``build/gpu/records.tar.gz`` is rewritten
after every record, so that a cut loses one job at most; a further command goes on with the folder.
Where a command may run for ten minutes only, ``--minutes 9 --more 11`` says that eleven more will
follow: a stack that ends within them is begun, and goes on from its checkpoint. float32 is exact,
without TF32. The book's page "More machines" has a list of what to bring.
"""

import argparse
import fcntl
import logging
import math
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from gdlib.models import image_stack
from gdlib.schedules import Constant
from gdlib.train import Batches, Execution, Measure, Optimisation, RunLoss, train
from study import records, run
from study.campaign import CampaignError, Job, plan
from study.data import augmentation
from study.experiment import Train
from study.objective import GradientDecay

WAYS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float32, recorded": {"cuda_graph": True},
    "bfloat16, channels last": {"precision": "bfloat16", "channels_last": True},
    "bfloat16, channels last, recorded": {
        "precision": "bfloat16",
        "channels_last": True,
        "cuda_graph": True,
    },
}
"""Ways of training on a GPU, as switches of :func:`fit`."""

# How far weights may lie apart after six steps, in parts of the way that they have gone. In float64
# only the order of sums differs. In float32 it moves some unit across the kink of its ReLU, which
# changes the gradient by the square root of that share.
_TOLERANCES = {torch.float64: 1e-8, torch.float32: 0.1}
_RATE = float(
    torch.tensor(0.01)
)  # a recorded step holds its learning rate in float32; so does what it is compared with
_OPTIMISATION = Optimisation(_RATE, momentum=0.9, weight_decay=1e-4, max_grad_norm=3.0)
_BETAS, _TEMPERATURES = [5.0, 1.0, 0.1], [1.0, 2.0, 0.5]
_SIZES = {
    "dataset",
    "model",
    "width",
    "augmentation",
    "subset",
}  # of which the time of an epoch is made, with the number of runs
_RESERVE = 20.0  # seconds that are left for the end

without_tf32 = partial(torch.backends.cudnn.flags, enabled=True, allow_tf32=False)
"""Switch off TF32 in convolutions; PyTorch makes matrix products without it by itself."""

_log = logging.getLogger("study.gpu")


def images(samples: int) -> tuple[Tensor, Tensor]:
    """Draw random images of CIFAR-10's shape, and their labels."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (samples, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return pixels, torch.randint(0, 10, (samples,), generator=generator)


def fit(
    device: str,
    data: tuple[Tensor, Tensor],
    *,
    batch_size: int = 100,
    width: float = 1.0,
    runs: int = 3,
    dtype: torch.dtype = torch.float32,
    channels_last: bool = False,
    epochs: int = 1,
    measure: Measure | None = None,
    **switches: Any,
) -> Tensor:
    """Train a stack of ResNet18 on images that are on the device, with crops and flips.

    Return all weights as one vector on the CPU.
    """
    pixels, labels = data
    model = image_stack("resnet18", [0] * runs, classes=10, width=width).to(device, dtype)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def draws(epoch: int) -> Tensor:
        return augmentation.draw_epoch("crop-flip", len(pixels), batch_size, seeds=[0], epoch=epoch)

    def prepare(batch: Tensor, draws: Tensor | None) -> Tensor:
        return augmentation.apply(batch, cast(Tensor, draws)).to(dtype) / 127.5 - 1

    betas, temperatures = (_BETAS * runs)[:runs], (_TEMPERATURES * runs)[:runs]
    train(
        model,
        RunLoss(GradientDecay(temperatures)),
        (pixels, labels),
        epochs=epochs,
        optimisation=_OPTIMISATION,
        batches=Batches(batch_size, prepare=prepare, draws=draws),
        schedule=[Constant(beta) for beta in betas],
        execution=Execution(**switches),
        measure=measure,
    )
    return _weights(model)


def check(
    device: str, *, width: float = 0.25, batch_size: int = 100
) -> tuple[dict[tuple[str, str], float], list[str]]:
    """Measure how far the weights after six steps lie from those of a CPU in float64.

    The last step is of a smaller batch.

    Returns the distances in parts of the way that the weights have gone, NaN for a way that fails,
    by the name in :data:`WAYS` and the type of the weights; and the names of those with a distance
    that the order of sums does not explain.
    """
    data = images(11 * batch_size // 2)
    stack: dict[str, Any] = {"width": width, "batch_size": batch_size}
    start = _weights(image_stack("resnet18", [0] * len(_BETAS), classes=10, width=width))
    reference = fit("cpu", data, dtype=torch.float64, **stack)
    distances: dict[tuple[str, str], float] = {}
    wrong: list[str] = []
    on_device = data[0].to(device), data[1].to(device)
    with without_tf32():
        for name, switches in WAYS.items():
            for dtype, tolerance in (
                [(torch.float32, 1.0)] if "precision" in switches else _TOLERANCES.items()
            ):
                try:
                    weights = fit(device, on_device, dtype=dtype, **stack, **switches)
                    distance = float((weights - reference).norm() / (reference - start).norm())
                except Exception as error:  # whatever a driver or a compiler raises
                    _log.warning(
                        "%s: %s: %s", name, type(error).__name__, str(error).split("\n")[0]
                    )
                    distance = math.nan
                distances[name, str(dtype).removeprefix("torch.")] = distance
                if not distance < tolerance:
                    wrong.append(name)
    return distances, list(dict.fromkeys(wrong))


def _weights(model: nn.Module) -> Tensor:
    return torch.cat(
        [parameter.detach().cpu().double().flatten() for parameter in model.parameters()]
    )


class _Left(Exception):
    """A stack would not end before the machine goes, or goes on in the next command."""


class _Pace:
    """Look at the clock after every epoch, and leave a stack that will not end in time."""

    def __init__(self, epochs: int, end: float, more: float, clock: Callable[[], float]) -> None:
        self.epochs = epochs
        self.end = end
        self.more = more
        self.clock = clock
        self.epoch_seconds = 0.0
        self.times: list[float] = []

    def __call__(self, model: object, dataset: object, epoch: int) -> Mapping[str, Tensor]:
        self.times.append(self.clock())
        if len(self.times) > 2:  # the first epoch records the step
            self.epoch_seconds = (self.times[-1] - self.times[1]) / (len(self.times) - 2)
            rest, left = self.epochs - epoch, self.end - self.clock()
            if self.epoch_seconds * rest > left + self.more:
                raise _Left(
                    f"{self.epoch_seconds:.2g} seconds an epoch, {rest} epochs and {left:.0f} "
                    f"seconds are left"
                )
            if rest and self.epoch_seconds > left:
                raise _Left(
                    f"to go on from its checkpoint after epoch {epoch - 1} of {self.epochs}"
                )
        return {}


def run_jobs(
    jobs: Sequence[Job],
    seconds: float,
    into: Path,
    *,
    more: float = 0,
    device: str = "cpu",
    clock: Callable[[], float] = time.monotonic,
    failed: list[Job] | None = None,
) -> list[Job]:
    """Train jobs of the notebook ``train`` one after another until the time is over.

    Return those that have their record now.

    ``more`` seconds follow in other commands, for a stack that goes on from its checkpoint. The
    folder ``into`` has the checkpoints, the records, and their archive. Jobs that fail are added
    to ``failed``.
    """
    end, done = clock() + seconds - _RESERVE, list[Job]()
    taken: dict[str, float] = {}  # seconds for an epoch of each kind of stack
    for job in jobs:
        if type(job.experiment) is not Train:
            _log.info("%s: not a job of the notebook train", job.id)
            continue
        experiment = (
            job.experiment
            if job.experiment.device == "auto"
            else job.experiment.model_copy(update={"device": device})
        )
        kind = repr([*experiment.model_dump(include=_SIZES).values(), len(experiment.runs())])
        left = end - clock()
        if left < 0 or taken.get(kind, 0) * experiment.epochs > left + more:
            _log.info("%s: not begun, %.0f seconds are left", job.id, left)
            continue
        pace = _Pace(experiment.epochs, end, more, clock)
        try:
            with without_tf32() if experiment.precision == "float32" else nullcontext():
                record = run.train_stack(
                    experiment, measure=pace, checkpoint_dir=str(into / "checkpoints")
                )
            record.write(job.record)
        except _Left as reason:
            _log.info("%s: left, %s", job.id, reason)
            continue
        except Exception:
            _log.exception("%s: failed", job.id)
            if failed is not None:
                failed.append(job)
            continue
        finally:
            taken |= {kind: pace.epoch_seconds} if pace.epoch_seconds else {}
        done.append(job)
        try:
            _pack(into)
        except OSError as error:  # the records are there, and the next one packs them too
            _log.warning("%s cannot be written: %s", into / "records.tar.gz", error)
        (into / "checkpoints" / f"{experiment.identity()}.pt").unlink(missing_ok=True)
        _log.info("%s: %.0f seconds are left", job.id, end - clock())
    return done


def _pack(into: Path) -> None:
    """Write the archive of the records anew; a cut leaves the one before."""
    with (
        records.whole(into / "records.tar.gz") as stream,
        tarfile.open(fileobj=stream, mode="w:gz") as archive,
    ):
        for path in sorted((into / "records").rglob("*.json")):
            archive.add(path, path.relative_to(into / "records").as_posix())


@contextmanager
def _alone(into: Path) -> Iterator[None]:
    """Refuse a second command in the same folder, which would train the same jobs."""
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{into} cannot be a folder ({error.strerror}); name another one with --into")
    with (into / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another command trains into {into}; name another folder with --into")
        except OSError as error:
            _log.warning("%s has no locks (%s); start one command at a time", into, error.strerror)
        yield


def minutes(text: str) -> float:
    """Read a number of minutes, for argparse."""
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"minutes are a number from 0 on, not {text}")
    return number


def main(given: Sequence[str] | None = None, root: Path | None = None) -> None:
    """Check, then run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "campaigns", nargs="+", help="names of campaign files, the most valuable first"
    )
    parser.add_argument(
        "--minutes", type=minutes, required=True, help="how long this command may run"
    )
    parser.add_argument(
        "--more",
        type=minutes,
        default=0.0,
        help="minutes of further commands that will follow on the same machine",
    )
    parser.add_argument(
        "--into",
        type=Path,
        default=Path("build/gpu"),
        help="folder of the records, their archive, and the checkpoints",
    )
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu for a rehearsal"
    )
    options = parser.parse_args(given)
    started, root = time.monotonic(), root or Path.cwd()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU here; --device cpu rehearses")
    with _alone(options.into):
        _main(options, root, started)


def _main(options: argparse.Namespace, root: Path, started: float) -> None:
    try:
        jobs = [
            job for name in options.campaigns for job in plan(name, root).pending
        ]  # a mistake shows before the first minute is gone
        jobs = [
            replace(job, record=options.into / "records" / job.campaign / job.record.name)
            for job in jobs
        ]
        jobs = [job for job in jobs if not job.done]  # by an earlier command
    except CampaignError as error:
        sys.exit(str(error))
    missing = len(jobs)
    distances, wrong = (
        check("cpu", width=0.125, batch_size=4)
        if options.device == "cpu"
        else check(options.device)
    )
    for (name, numbers), distance in distances.items():
        _log.info("%s, weights in %s: %.1e of the way apart from a CPU", name, numbers, distance)
    for name in wrong:
        _log.error(
            "%s does not compute what the CPU computes: jobs that would train so are left out", name
        )
        switches = WAYS[name].items()
        jobs = [job for job in jobs if not switches <= job.experiment.model_dump().items()]
    seconds = 60 * options.minutes - (time.monotonic() - started)
    failed: list[Job] = []
    done = run_jobs(
        jobs, seconds, options.into, more=60 * options.more, device=options.device, failed=failed
    )
    _log.info(
        "%d of %d missing jobs have their record now, in %s",
        len(done),
        missing,
        options.into / "records.tar.gz",
    )
    if failed and not done:
        sys.exit(f"{len(failed)} jobs failed, the first was {failed[0].id}, and none was trained")


if __name__ == "__main__":
    main()
