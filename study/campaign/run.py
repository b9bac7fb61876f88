"""One job: one papermill run of one page, by one process at a time."""

import shutil
from pathlib import Path

import jupytext
import papermill
from nbformat import NotebookNode

from study import parameters
from study.campaign.plan import CampaignError, Job, named
from study.files import locked, write_whole
from study.mistakes import nearest


def run(name: str, job_id: str, root: Path, *, fresh: bool = False) -> Path:
    """Run one job, unless its result is there.

    Execute its page with the job's parameters, up to the cell that writes the file of results, and
    keep that file if it is the job's. A ``fresh`` one is trained anew in a folder of its own.

    The executed notebook stays in ``build/<campaign>/<job>.ipynb``, also when it failed. Nothing is
    trained where the file cannot be written, nor where an attempt that failed later has left it.
    """
    root = root.resolve()
    jobs = {job.id: job for job in named(name, root).jobs}
    if job_id not in jobs:
        raise CampaignError(f"campaign {name} has no job {job_id[:100]!r}{nearest(job_id, jobs)}")
    job = jobs[job_id].again(root) if fresh else jobs[job_id]
    build = root / job.folder
    with locked(build / f"{job_id}.lock", "runs this job"):
        written, executed = build / f"{job_id}.json", build / f"{job_id}.ipynb"
        identity = parameters.identity(job.page, dict(job.parameters))
        checkpoints = build / "checkpoints" / f"{job_id}-{identity}"  # of these parameters alone
        if job.done:
            return job.record
        if not job.missing_in_file(written):  # an attempt that failed behind it has left it
            return _keep(job, written, checkpoints)
        job.record.parent.mkdir(parents=True, exist_ok=True)
        for partial in job.record.parent.glob(f"{job_id}.json*.partial"):
            partial.unlink(missing_ok=True)  # of a process that was killed while it wrote
        written.unlink(missing_ok=True)
        places = {"record": str(written), "checkpoint_dir": str(checkpoints)}
        papermill.execute_notebook(
            _training(root / "notebooks" / "experiments" / f"{job.page}.md"),
            executed,
            parameters={
                **job.given,
                **{
                    name: where
                    for name, where in places.items()
                    if name in parameters.offered(job.page)
                },
            },
            kernel_name="python3",
            cwd=root,
            progress_bar=False,
            log_output=True,
        )
        if reason := job.missing_in_file(written):
            raise CampaignError(f"{executed} ran to its end, but {reason}")
        return _keep(job, written, checkpoints)


def _training(page: Path) -> NotebookNode:
    """Read a page up to the cell that writes its file of results."""
    notebook = jupytext.read(page)
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "code" and parameters.writes_results(cell.source):
            notebook.cells = notebook.cells[:number]
            break
    return notebook


def _keep(job: Job, written: Path, checkpoints: Path) -> Path:
    """Move the file that the page has written among the results."""
    write_whole(job.record, written.read_text(encoding="utf-8"))
    written.unlink()
    shutil.rmtree(checkpoints, ignore_errors=True)
    return job.record
