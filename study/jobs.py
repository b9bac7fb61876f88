"""From a campaign to records: check everything before the first job starts, then run one job as one papermill run of one notebook.

From the root of the project::

    python -m study.jobs plan mnist              # what is done, what is to be run; stops at the first mistake in the file
    python -m study.jobs run mnist relu-seed0    # one job (the Snakefile calls this)
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import hashlib
import json
import os
import shutil
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import papermill

from study.campaign import Campaign, CampaignError, Job, load
from study.experiment import of_template
from study.notebooks import Parameter, convert, parameters

# A template's parameters that the workflow sets itself; they say where things are written, not what is measured.
PLACES = ("record", "checkpoint_dir")


@dataclasses.dataclass(frozen=True)
class Plan:
    """A checked campaign: which of its jobs have their record, and which are to be run."""

    campaign: Campaign
    done: tuple[Job, ...]
    pending: tuple[Job, ...]

    def __str__(self) -> str:
        text = f"{self.campaign.name}: {len(self.done)} of {len(self.campaign.jobs)} jobs have their record"
        if not self.pending:
            return text + "; nothing to run"
        minutes = [job.minutes for job in self.pending]
        known = sum(value for value in minutes if value is not None)
        return text + f"; {len(self.pending)} to run" + (f", about {known:.3g} minutes one after another" if None not in minutes else "")


def plan(name: str, root: Path) -> Plan:
    """Read and check a campaign.

    Args:
        name: of the campaign, ``campaigns/<name>.yml``.
        root: folder of the project.

    Returns:
        The plan. A job is pending if its record is missing, or was measured with other parameters.

    Raises:
        CampaignError: for anything in the file that would make a job fail or do what nobody asked for, and for a damaged record.
    """
    campaign = load(root / "campaigns" / f"{name}.yml")
    expected = {job.id: check(job, root) for job in campaign.jobs}
    done = tuple(job for job in campaign.jobs if job.done(expected[job.id]))
    return Plan(campaign, done, tuple(job for job in campaign.jobs if job not in done))


def check(job: Job, root: Path) -> dict[str, Any]:
    """Hold a job to its notebook: every name exists, every value has the right type, and the experiment accepts the values.

    Returns:
        All parameters of the job, with the notebook's defaults filled in.

    Raises:
        CampaignError: names the job, what was given, what is valid, and the nearest match.
    """
    where = f"campaign {job.campaign}, job {job.id}"
    folder = root / "notebooks" / "experiments"
    templates = sorted(path.stem for path in folder.glob("*.md"))
    if job.template not in templates:
        raise CampaignError(f"{where}: there is no notebook {job.template!r}{_nearest(job.template, templates, 'templates')}")
    known = _parameters(folder / f"{job.template}.md")
    names = [name for name in known if name not in PLACES]
    for name, value in job.parameters.items():
        if name in PLACES:
            raise CampaignError(f"{where}: {name} is set by the workflow; leave it out of the campaign")
        if name not in names:
            raise CampaignError(f"{where}: the notebook {job.template} has no parameter {name!r}{_nearest(name, names, 'names')}")
        if not fits(value, known[name]):
            default = known[name].default
            kind = known[name].annotation or type(default).__name__
            raise CampaignError(f"{where}: {name} must be {kind}, such as {default!r}; got {value!r} ({type(value).__name__})")
    complete = {name: job.parameters.get(name, known[name].default) for name in names}
    kind = of_template(job.template)
    fields = {field.name for field in dataclasses.fields(kind)}
    try:
        kind(**{name: value for name, value in complete.items() if name in fields})
    except (TypeError, ValueError) as error:
        raise CampaignError(f"{where}: {error}") from error
    return complete


def fits(value: Any, parameter: Parameter) -> bool:
    """Whether a value has the type that the parameter cell announces.

    Example:
        >>> fits(1, Parameter("beta", "float", 0.1, "")), fits("1", Parameter("beta", "float", 0.1, ""))
        (True, False)
        >>> fits([1, 0.1], Parameter("betas", "list[float]", [1.0], "")), fits(0.1, Parameter("betas", "list[float]", [1.0], ""))
        (True, False)
    """
    if parameter.annotation is None:
        return _is_a(value, type(parameter.default)) or parameter.default is None
    names = {kind.__name__: kind for kind in (bool, int, float, str, list, tuple, dict)}
    return _is_a(value, eval(parameter.annotation, {"__builtins__": {}, "None": None, **names}))  # an annotation of our own notebook


def run(name: str, job_id: str, root: Path) -> Path:
    """Run one job: convert its notebook, execute it with the job's parameters, and make sure that the record is there.

    The executed notebook stays in ``build/<campaign>/<job>.ipynb``, also when it failed.

    Returns:
        The path of the record.

    Raises:
        CampaignError: if there is no such job, or if the notebook ended without the record that was asked for.
        papermill.PapermillExecutionError: if a cell failed.
    """
    root = root.resolve()
    campaign = load(root / "campaigns" / f"{name}.yml")
    by_id = {job.id: job for job in campaign.jobs}
    if job_id not in by_id:
        raise CampaignError(f"campaign {name} has no job {job_id!r}{_nearest(job_id, by_id, 'jobs')}")
    job = by_id[job_id]
    expected = check(job, root)

    build = root / "build" / name
    source, executed = build / "templates" / f"{job_id}.ipynb", build / f"{job_id}.ipynb"
    convert(root / "notebooks" / "experiments" / f"{job.template}.md", source)
    checkpoints = build / "checkpoints" / f"{job_id}-{_digest(expected)}"  # an old checkpoint of other parameters is never gone on with
    job.record.parent.mkdir(parents=True, exist_ok=True)
    places = {"record": str(job.record), "checkpoint_dir": str(checkpoints)}
    papermill.execute_notebook(
        str(source),
        str(executed),
        parameters={**job.parameters, **places},
        kernel_name="python3",
        cwd=str(root),
        progress_bar=False,
        log_output=True,
    )
    if not job.done(expected):
        raise CampaignError(f"{executed} ran to its end, but {job.record} is not there with the parameters of the job")
    shutil.rmtree(checkpoints, ignore_errors=True)
    source.unlink()
    return job.record


def stamp(job: Job) -> str:
    """The empty file by which Snakemake knows that a job of this plan has ended well. It decides nothing: the records do."""
    return f"build/{job.campaign}/done/{job.id}"


def clear_stamps(jobs: Iterable[Job], root: Path) -> None:
    """Remove the stamps of jobs that are to be run."""
    for job in jobs:
        (root / stamp(job)).unlink(missing_ok=True)


@cache
def _parameters(template: Path) -> Mapping[str, Parameter]:
    try:
        return parameters(template)
    except ValueError as error:
        raise CampaignError(str(error)) from error


def _is_a(value: Any, kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_is_a(value, choice) for choice in arguments)
    if origin in (list, tuple):
        item = arguments[0]
        return isinstance(value, list | tuple) and all(_is_a(entry, item) for entry in value)
    if origin is dict:
        return isinstance(value, dict)
    if kind is None or kind is type(None):
        return value is None
    if kind in (list, tuple):
        return isinstance(value, list | tuple)
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, kind)


def _nearest(name: str, names: Iterable[str], what: str) -> str:
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{hint} The valid {what} are: {', '.join(names) or 'none'}."


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:10]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("plan").add_argument("campaign")
    one = commands.add_parser("run")
    one.add_argument("campaign")
    one.add_argument("job")
    arguments = parser.parse_args()
    try:
        if arguments.command == "plan":
            found = plan(arguments.campaign, Path.cwd())
            print(found, *(f"  {job.id}" for job in found.pending), sep="\n")
        else:
            os.environ.setdefault("OMP_NUM_THREADS", "1")
            print(run(arguments.campaign, arguments.job, Path.cwd()))
    except CampaignError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
