"""What the benchmarks share.

They take turns, and write the files that the book reads: one for each script, in a folder for each
processor or GPU.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

from study import ROOT, provenance

KEPT = ROOT / "results" / "benchmarks"
SCHEMA = 2

KINDS = ("times faster", "share of the time", "share of the memory", "seconds")
"""What the number of a row is."""


@dataclass(frozen=True)
class Row:
    """One number: ours against something else.

    Attributes:
        what: what was measured.
        shape: the samples and classes that it was measured with, if that varies.
        how: what was done to it, such as ``"compiled"``; empty for nothing.
        against: what it was measured against; empty for an absolute number.
        kind: what the number is, a name of :data:`KINDS`.
        value: the median over the repetitions.
        low: the smallest of them.
        high: the largest of them.
        repetitions: how many there are.
        ours: the median of our side alone.
        theirs: the median of the other side alone.
        unit: the unit of both.
        group: what it belongs to, for a figure.
        remark: what the reader of the number must know.
    """

    what: str
    against: str
    kind: str
    value: float
    low: float
    high: float
    repetitions: int
    ours: float | None = None
    theirs: float | None = None
    unit: str = ""
    group: str = ""
    remark: str = ""
    shape: tuple[int, ...] = ()
    how: str = ""

    def __post_init__(self) -> None:
        """A row of a kind that does not exist is an error of the script."""
        if self.kind not in KINDS:
            raise ValueError(f"no such kind: {self.kind!r}; valid: {', '.join(KINDS)}")

    @property
    def title(self) -> str:
        """What was measured, with which shape, how."""
        text = f"{self.what} {list(self.shape)}" if self.shape else self.what
        return f"{text}, {self.how}" if self.how else text

    def __str__(self) -> str:
        """One line."""
        unit = " s" if self.kind == "seconds" else ""
        text = f"{self.title}: {self.value:.2f}{unit}"
        text = f"{text} {'' if unit else self.kind}".rstrip()
        text += f" ({self.low:.2f} to {self.high:.2f})" if self.repetitions > 1 else ""
        text += f" against {self.against}" if self.against else ""
        if self.ours is not None and self.theirs is not None:
            text += f"; {self.ours:.4g} and {self.theirs:.4g} {self.unit}"
        return text + (f" [{self.remark}]" if self.remark else "")


def take_turns(
    candidates: Mapping[str, Callable[[], object]],
    turns: int,
    *,
    passes: int = 1,
    rounds: int = 1,
    seconds: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Seconds of a pass of each candidate in each turn.

    In a turn the candidates alternate, so that a slow moment of the machine meets all of them: each
    is measured in every round, and the median over the rounds counts. PyTorch's timer warms up
    before each. Processor time is measured, in which other processes count little.
    """
    timers = {
        name: Timer("one()", globals={"one": one}, timer=seconds)
        for name, one in candidates.items()
    }
    found: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(turns):
        of_turn = [
            {name: timer.timeit(passes).median for name, timer in timers.items()}
            for _ in range(rounds)
        ]
        for name, values in found.items():
            values.append(statistics.median(one[name] for one in of_turn))
    return found


def processor() -> str:
    """The name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    told = {name.strip(): value.strip() for name, value in pairs}
    family = [told[name] for name in ("cpu family", "model") if name in told]
    return f"{told.get('model name', platform.processor())}" + (
        f" (family {', model '.join(family)})" if family else ""
    )


def machine(processor: str) -> str:
    """The name of the folder with the numbers of a processor, or of a GPU.

    Example:
        >>> machine("AMD EPYC (family 26)")
        'amd-epyc-family-26'
    """
    return re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-") or "unknown"


@functools.cache
def can_compile() -> bool:
    """Whether ``torch.compile`` works here, which needs a C++ compiler; if not, say so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.compile(torch.sin)(torch.ones(2))
    except RuntimeError as error:  # as all errors of the compiler are
        first = str(error).partition("\n")[0]
        print(f"  not measured compiled ({type(error).__name__}: {first})")
        return False
    return True


def compared(
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    what: str,
    against: str,
    kind: str,
    scale: float = 1.0,
    **more: Any,
) -> Row:
    """The row of two sides that took turns: the median of the ratios of each turn.

    Args:
        ours: one number for each turn.
        theirs: the other side's.
        what: see :class:`Row`; so are the other texts.
        against: of the row.
        kind: of the row; for ``"times faster"`` the ratio is theirs to ours, otherwise ours to
            theirs.
        scale: from the numbers given to ``unit``.
        more: further fields of the row.
    """
    faster = kind == "times faster"
    ratios = [b / a if faster else a / b for a, b in zip(ours, theirs, strict=True)]
    return Row(
        what=what,
        against=against,
        kind=kind,
        value=statistics.median(ratios),
        low=min(ratios),
        high=max(ratios),
        repetitions=len(ratios),
        ours=statistics.median(ours) * scale,
        theirs=statistics.median(theirs) * scale,
        **more,
    )


def arguments(doc: str | None, given: Sequence[str] | None = None) -> argparse.Namespace:
    """The options that all scripts share: ``into``, ``smoke``."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--into",
        type=Path,
        help="folder for a file with the numbers; the book reads results/benchmarks",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="only see whether it runs: tiny sizes, one turn, numbers without worth",
    )
    return parser.parse_args(given)


def finish(
    script: str,
    rows: Iterable[Row],
    options: argparse.Namespace,
    *,
    device: str = "cpu",
    precision: str = "float32",
) -> None:
    """Print the rows, and write them where asked."""
    rows = list(rows)
    for row in rows:
        print(f"  {row}")
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    on_gpu = torch.cuda.is_available() and device != "cpu"
    environment = provenance.environment(torch.device("cuda" if on_gpu else "cpu"))
    packages = ("torch", "numpy", "scikit-learn", "pandas")
    environment["versions"] = {package: environment.pop(package) for package in packages}
    environment |= {"device": device, "precision": precision}
    environment.pop("hardware")
    environment |= {"cores": os.cpu_count(), "load": load, "processor": processor()}
    where = f"{environment['platform']}, {environment['processor']}, {device}"
    print(f"  torch {torch.__version__}, {where}, {environment['threads']} thread, load {load}")
    if options.into is not None:
        write(
            options.into / machine(device if device != "cpu" else environment["processor"]),
            {"script": script, "smoke": options.smoke, "environment": environment, "rows": rows},
        )


def write(folder: Path, content: Mapping[str, Any]) -> None:
    """Write the file of a script."""
    rows = [
        {name: _rounded(value) for name, value in asdict(row).items()} for row in content["rows"]
    ]
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schema": SCHEMA, **content, "rows": rows}, indent=1, ensure_ascii=False)
    (folder / f"{content['script']}.json").write_text(text + "\n", encoding="utf-8")


def load(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """The files of each machine by their script; the rows are :class:`Row` again.

    What a check wrote beside them has no schema, and is passed over.

    Raises:
        ValueError: for a file of another schema.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if "schema" not in content:
            continue
        if content.get("schema") != SCHEMA:
            raise ValueError(
                f"{path.name} has schema {content.get('schema')!r}, expected {SCHEMA}: "
                "measure it again with `make bench`"
            )
        content["rows"] = [Row(**row | {"shape": tuple(row["shape"])}) for row in content["rows"]]
        found.setdefault(path.parent.name, {})[path.stem] = content
    return found


def _rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value
