"""A campaign that was trained anew, held against the records that the repository has."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from study import metrics, records
from study.campaign.plan import Job

Outcome = Literal["equal", "within the seeds' deviation", "different", "not compared"]

_DECIDE = ("test_accuracy", "test_ece")  # the metrics that are compared where a run is not equal
_LEAST = 3  # seeds, for a deviation
_ERRORS = 3.0  # standard errors of a difference of two means
_TIME = "seconds"  # how the names of metrics end that no two runs share
_BAR = 20  # characters

RunKey = tuple[tuple[str, str], ...]  # by what a record knows a run, without its seed


@dataclass(frozen=True)
class Agreement:
    """How one record that was trained anew agrees with the committed one.

    ``why`` says by how much, or why the two cannot be compared.
    """

    job: str
    outcome: Outcome
    why: str = ""

    def __str__(self) -> str:
        return f"{self.job}: {self.outcome}" + (f" ({self.why})" if self.why else "")


def agreement(job: Job, committed: Sequence[Job]) -> Agreement:
    r"""Compare the record of a job that was trained anew with the committed one.

    *Equal*: every metric of every run is the same number, times apart. *Within the seeds'
    deviation*: for each method, the mean :math:`m` of the test accuracy and of the calibration
    error over the record's :math:`n` seeds lies close to the committed one,
    :math:`|m - m_0| \le 3 s \sqrt{2 / n}`, where :math:`s` is the standard deviation over all
    committed seeds. *Different*: anything else.

    Args:
        job: the job whose record was trained anew.
        committed: the jobs of the same campaign with the records of the repository.
    """
    before = next(one for one in committed if one.id == job.id)
    if reason := job.missing():
        return Agreement(job.id, "not compared", f"the new record: {reason}")
    if reason := before.missing():
        return Agreement(job.id, "not compared", f"the committed record: {reason}")
    new, old = _measured([job]), _measured([before])
    every = [run for measured in (new, old) for runs in measured.values() for run in runs]
    names = [name for name in dict.fromkeys(chain(*every)) if not name.endswith(_TIME)]
    if not names:
        return Agreement(job.id, "not compared", "it holds times alone")
    if _only(new, names) == _only(old, names):
        return Agreement(job.id, "equal")
    deciding = [name for name in _DECIDE if name in names] or names[:1]
    siblings = [one for one in committed if _alike(one, before) and one.done]
    seeds = _measured(siblings)
    furthest: tuple[float, str] = (-1.0, "")
    for key in new:
        for name in deciding:
            times, text = _apart(name, new[key], old[key], seeds[key])
            furthest = max(furthest, (times, f"{_name(key)}: {text}"))
    within = furthest[0] <= _ERRORS
    return Agreement(job.id, "within the seeds' deviation" if within else "different", furthest[1])


def report(agreements: Iterable[Agreement]) -> str:
    """Write a line for each record and a bar of the outcomes."""
    listed = list(agreements)
    lines = [str(one) for one in listed]
    for outcome in ("equal", "within the seeds' deviation", "different", "not compared"):
        count = sum(one.outcome == outcome for one in listed)
        length = math.ceil(_BAR * count / max(len(listed), 1))
        lines.append(f"{outcome:>27} |{'█' * length:{_BAR}}| {count} of {len(listed)}")
    return "\n".join(lines)


def _measured(jobs: Iterable[Job]) -> dict[RunKey, list[dict[str, Any]]]:
    """Read the metrics of the runs of some jobs, by what they were trained with."""
    by_key: dict[RunKey, list[dict[str, Any]]] = {}
    for job in jobs:
        planned = job.experiment.planned()
        for values, run in zip(planned, job.measured().runs, strict=True):
            key = tuple((name, str(value)) for name, value in values.items() if name != "seed")
            by_key.setdefault(key, []).append(dict(run["metrics"]))
    return by_key


def _only(
    measured: Mapping[RunKey, Sequence[Mapping[str, Any]]], names: Sequence[str]
) -> dict[RunKey, list[list[Any]]]:
    return {
        key: [[run.get(name) for name in names] for run in runs] for key, runs in measured.items()
    }


def _alike(one: Job, other: Job) -> bool:
    """Tell whether two jobs differ in their seeds alone."""
    if one.notebook != other.notebook:
        return False
    left, right = (job.experiment.model_dump(exclude={"seeds", "device"}) for job in (one, other))
    return records.same(left, right)


def _apart(
    name: str,
    new: Sequence[Mapping[str, Any]],
    old: Sequence[Mapping[str, Any]],
    seeds: Sequence[Mapping[str, Any]],
) -> tuple[float, str]:
    """Measure how far two means lie apart, in standard errors of their difference."""
    metric = metrics.metric(name)
    new_values = [run.get(name) for run in new]
    old_values = [run.get(name) for run in old]
    new_numbers = [value for value in new_values if value is not None]
    old_numbers = [value for value in old_values if value is not None]
    if len(new_numbers) < len(new_values) or len(old_numbers) < len(old_values):
        text = f"{metric.title} is missing in a run that diverged"
        return (0.0 if new_values == old_values else math.inf), text
    difference = statistics.fmean(new_numbers) - statistics.fmean(old_numbers)
    unit = f" {metric.unit}" if metric.unit else ""
    text = f"{metric.title} {metric.factor * difference:+.3g}{unit}".replace("-", "\N{MINUS SIGN}")
    of_seeds = [run[name] for run in seeds if run.get(name) is not None]
    if difference == 0:
        return 0.0, text
    if len(of_seeds) < _LEAST:
        return math.inf, f"{text}; {len(of_seeds)} seeds are too few for a deviation"
    deviation = statistics.stdev(of_seeds)
    text += f", the seeds' deviation is {metric.factor * deviation:.3g}"
    error = deviation * math.sqrt(2 / len(new))
    return (abs(difference) / error if error else math.inf), text


def _name(key: RunKey) -> str:
    """Name what a run was trained with in a line: its schedule or its loss."""
    values = dict(key)
    return values.get("schedule") or values.get("loss") or values.get("dataset") or "all runs"
