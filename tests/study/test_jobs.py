"""Campaigns: what is refused before any job starts, what runs, and what runs again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from study import campaign as campaigns
from study import jobs as workflow
from study import notebooks
from study.campaign import CampaignError

ROOT = Path(__file__).resolve().parents[2]

HEADER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A template for the tests
"""

TEMPLATE = (
    HEADER
    + """
```{code-cell} ipython3
:tags: [parameters]

dataset: str = "digits"  # which data
betas: list[float] = [1.0]  # gradient-decay factors
seeds: list[int] = [0]  # seeds
hidden: list[int] = [4]  # units
epochs: int = 1  # passes over the data
learning_rate: float = 0.1  # step size
scale: str = "smoke"  # paper, reduced or smoke
record: str = ""  # where the record is written
checkpoint_dir: str = ""  # where a long run leaves its state
```

```{code-cell} ipython3
import pathlib
import time

# a record without a training: the workflow does not look into the runs
from study.records import Record

if pathlib.Path("slow").exists() and seeds == [1]:
    time.sleep(60)
if pathlib.Path("broken").exists() and seeds == [1]:
    raise RuntimeError("broken on purpose")
names = ["dataset", "betas", "seeds", "hidden", "epochs", "learning_rate", "scale"]
values = {name: globals()[name] for name in names}
done = Record(template="tiny", parameters=values, data={}, model={}, runs=[], epochs_done=epochs, wall_seconds=0.0, scale=scale)
done.write(record)
```
"""
)

CAMPAIGN = {
    "name": "small",
    "title": "For the tests",
    "defaults": {"dataset": "digits", "epochs": 2},
    "entries": [
        {"id": "a", "template": "tiny", "answers": ["E3"], "each": {"seeds": [[0], [1]]}, "minutes": 0.1},
        {"id": "b", "template": "tiny", "answers": ["E4"], "parameters": {"betas": [1.0, 0.1], "learning_rate": 0.05}, "minutes": 0.1},
    ],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of its own, with one template and one campaign of three jobs."""
    template = tmp_path / "notebooks" / "experiments" / "tiny.md"
    template.parent.mkdir(parents=True)
    template.write_text(TEMPLATE, encoding="utf-8")
    write(tmp_path, CAMPAIGN)
    return tmp_path


def write(project: Path, content: object) -> Path:
    path = project / "campaigns" / "small.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def with_parameters(**parameters: object) -> dict:
    return {**CAMPAIGN, "entries": [{"id": "a", "template": "tiny", "parameters": parameters}]}


def put_record(job: campaigns.Job, **changed: object) -> None:
    """A record as the job itself would write it."""
    parameters = {"dataset": "digits", "betas": [1.0], "seeds": [0], "hidden": [4], "epochs": 1, "learning_rate": 0.1, "scale": "smoke"}
    content = {
        "schema": 1,
        "template": "tiny",
        "parameters": {**parameters, **job.parameters, **changed},
        "data": {},
        "model": {},
        "runs": [],
        "epochs_done": 2,
        "wall_seconds": 0.0,
        "scale": "smoke",
        "environment": {},
    }
    job.record.parent.mkdir(parents=True, exist_ok=True)
    job.record.write_text(json.dumps(content), encoding="utf-8")


def snakemake(project: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "2", "--keep-going", "--nolock"]
    return subprocess.run(
        [*command, "--rerun-incomplete", *arguments, "--config", "campaign=small"], cwd=project, capture_output=True, text=True, **options
    )


# -- the file ------------------------------------------------------------------------------------------------------------------------------


def test_a_campaign_expands_into_jobs(project: Path) -> None:
    campaign = campaigns.load(project / "campaigns" / "small.yml")
    assert [job.id for job in campaign.jobs] == ["a-seed0", "a-seed1", "b"]
    assert campaign.jobs[1].parameters == {"dataset": "digits", "epochs": 2, "seeds": [1]}
    assert campaign.jobs[1].record == project / "results" / "records" / "small" / "a-seed1.json"
    assert campaign.jobs[2].answers == ("E4",)


def test_each_takes_every_combination(project: Path) -> None:
    entry = {"id": "a", "template": "tiny", "each": {"seeds": [[0], [1, 2]], "learning_rate": [0.1, 0.001], "dataset": ["digits"]}}
    path = write(project, {**CAMPAIGN, "entries": [entry]})
    assert [job.id for job in campaigns.load(path).jobs] == [
        "a-seed0-learning-rate0.1-digits",
        "a-seed0-learning-rate0.001-digits",
        "a-seeds1-2-learning-rate0.1-digits",
        "a-seeds1-2-learning-rate0.001-digits",
    ]


def test_numbers_in_scientific_notation_are_numbers(project: Path) -> None:
    path = write(project, "name: small\nentries:\n- {id: a, template: tiny, parameters: {learning_rate: 1e-3, betas: [1E+1, 5e-1]}}\n")
    assert campaigns.load(path).jobs[0].parameters == {"learning_rate": 0.001, "betas": [10.0, 0.5]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name: small\nentries: [", "not a readable campaign file"),
        ("name: small\nname: small\nentries: []\n", "'name' stands twice"),
        ({**CAMPAIGN, "name": "other"}, "must agree"),
        ({**CAMPAIGN, "entry": []}, "unknown key 'entry'; the valid ones are name, title, defaults, entries"),
        ({"name": "small"}, "the key 'entries' is missing"),
        ({**CAMPAIGN, "entries": [{"id": "a"}]}, r"entry 1 \(a\): the key 'template' is missing"),
        ({**CAMPAIGN, "entries": ["a"]}, "entry 1: expected a mapping"),
        ({**CAMPAIGN, "entries": [{"id": "a", "template": "tiny", "minutes": "two"}]}, "minutes is 'two'"),
        ({**CAMPAIGN, "entries": [{"id": "a", "template": "tiny", "each": {"seeds": 3}}]}, "seeds must be a list"),
        ({**CAMPAIGN, "entries": [{"id": "a", "template": "tiny", "parameters": {"seeds": [0]}, "each": {"seeds": [[0]]}}]}, "keep one"),
        ({**CAMPAIGN, "entries": [{"id": "a", "template": "tiny"}] * 2}, "two jobs are called 'a'"),
        ({**CAMPAIGN, "entries": [{"id": "../a", "template": "tiny"}]}, "cannot name a file"),
    ],
)
def test_a_wrong_file_is_refused(project: Path, content: object, message: str) -> None:
    path = write(project, content)
    with pytest.raises(CampaignError, match=message) as caught:
        campaigns.load(path)
    assert str(path) in str(caught.value)


def test_a_missing_campaign_names_the_ones_there_are(project: Path) -> None:
    with pytest.raises(CampaignError, match="the campaigns are: small"):
        workflow.plan("smal", project)


# -- the check before anything runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"epoch": 3},
            "no parameter 'epoch'; did you mean 'epochs'[?] The valid names are: dataset, betas, seeds, hidden, epochs, ",
        ),
        ({"epochs": "3"}, r"epochs must be int, such as 1; got '3' \(str\)"),
        ({"epochs": 2.5}, "epochs must be int"),
        ({"epochs": True}, "epochs must be int"),
        ({"betas": 0.1}, r"betas must be list\[float\], such as \[1.0\]; got 0.1 \(float\)"),
        ({"betas": [0.1, "one"]}, "betas must be"),
        ({"betas": [0.1, -1.0]}, "job a: betas must be a finite number > 0; got -1.0"),
        ({"dataset": "digit"}, "job a: unknown dataset 'digit'; valid: .*digits"),
        ({"record": "x.json"}, "record is set by the workflow"),
    ],
)
def test_a_wrong_parameter_stops_the_plan(project: Path, parameters: dict, message: str) -> None:
    write(project, with_parameters(**parameters))
    with pytest.raises(CampaignError, match=message):
        workflow.plan("small", project)


def test_a_wrong_template_names_the_nearest(project: Path) -> None:
    write(project, {**CAMPAIGN, "entries": [{"id": "a", "template": "tidy"}]})
    with pytest.raises(CampaignError, match="no notebook 'tidy'; did you mean 'tiny'[?] The valid templates are: tiny"):
        workflow.plan("small", project)


def test_a_parameter_without_a_literal_default_is_refused(tmp_path: Path) -> None:
    notebook = tmp_path / "n.md"
    notebook.write_text(HEADER + "\n```{code-cell} ipython3\n:tags: [parameters]\n\nbeta: float = 1 / 3\n```\n", encoding="utf-8")
    with pytest.raises(ValueError, match="default of beta is 1 / 3"):
        notebooks.parameters(notebook)


def test_types_of_the_parameter_cell() -> None:
    def fits(value: object, annotation: str | None, default: object = None) -> bool:
        return workflow.fits(value, notebooks.Parameter("name", annotation, default, ""))

    assert fits(None, "float | None") and fits(1, "float | None") and not fits("1", "float | None")
    assert fits([[0.1, 1, 5]], "list[list[float]]") and not fits([0.1, 1, 5], "list[list[float]]")
    assert fits([], "list") and fits({}, "dict[str, float]") and not fits([], "dict")
    assert fits(2, None, 0.5) and not fits("2", None, 0.5) and not fits(1, None, True) and fits("x", None, None)
    assert fits((1, 2), "tuple[int, ...]") and fits(False, "bool") and not fits(0, "bool")


# -- which jobs are done -------------------------------------------------------------------------------------------------------------------


def test_a_job_is_pending_exactly_if_its_record_is_missing_or_other(project: Path) -> None:
    first, second, third = campaigns.load(project / "campaigns" / "small.yml").jobs
    assert [job.id for job in workflow.plan("small", project).pending] == ["a-seed0", "a-seed1", "b"]
    put_record(first)
    put_record(second, seeds=[7])
    put_record(third, epochs=2.0, betas=[1, 0.1], added_later=1)
    os.utime(first.record, (0, 0))  # file times play no part
    plan = workflow.plan("small", project)
    assert [job.id for job in plan.pending] == ["a-seed1"]
    assert "2 of 3 jobs have their record; 1 to run, about 0.1 minutes" in str(plan)
    put_record(third, learning_rate=0.0501)
    assert not third.done()


def test_a_new_default_of_the_notebook_counts_as_a_change(project: Path) -> None:
    for job in campaigns.load(project / "campaigns" / "small.yml").jobs:
        put_record(job)
    assert not workflow.plan("small", project).pending
    template = project / "notebooks" / "experiments" / "tiny.md"
    changed = TEMPLATE.replace("learning_rate: float = 0.1", "learning_rate: float = 0.2").replace(
        "scale:", 'activation: str = "tanh"\nscale:'
    )
    template.write_text(changed, encoding="utf-8")
    workflow._parameters.cache_clear()
    assert [job.id for job in workflow.plan("small", project).pending] == ["a-seed0", "a-seed1"]  # b sets its own


@pytest.mark.parametrize("damage", ["", '{"schema": 1, "param', "[]", '{"schema": 1}', "\x00"])
def test_a_corrupt_record_is_named(project: Path, damage: str) -> None:
    job = campaigns.load(project / "campaigns" / "small.yml").jobs[0]
    put_record(job)
    job.record.write_text(damage, encoding="utf-8")
    with pytest.raises(CampaignError, match=r"a-seed0\.json is not a whole record"):
        workflow.plan("small", project)


def test_coverage_counts_runs(project: Path) -> None:
    path = project / "campaigns" / "small.yml"
    first, _, third = campaigns.load(path).jobs
    put_record(third)
    assert campaigns.coverage(path, "E4") == campaigns.Coverage(done=2, planned=2)
    assert campaigns.coverage(path, entry="b").planned == 2
    put_record(first)
    assert campaigns.coverage(path, "E3").done == campaigns.coverage(path, entry="a").done > 0
    assert campaigns.coverage(path, "E9") == campaigns.Coverage(0, 0)


def test_coverage_of_an_entry_is_not_that_of_one_whose_name_begins_alike(project: Path) -> None:
    first, second = ({"id": name, "template": "tiny", "each": {"seeds": [[0], [1]]}} for name in ("rate", "rate-halved"))
    path = write(project, {**CAMPAIGN, "entries": [first, second]})
    jobs = campaigns.load(path).jobs
    assert [job.entry for job in jobs] == ["rate", "rate", "rate-halved", "rate-halved"]
    put_record(jobs[2])
    assert campaigns.coverage(path, entry="rate") == campaigns.Coverage(0, jobs[0].trainings + jobs[1].trainings)
    assert campaigns.coverage(path, entry="rate-halved").done == jobs[2].trainings > 0
    assert campaigns.coverage(path, entry="rate-seed0").planned == 0  # a job, not an entry


def test_coverage_sees_what_changed_and_reads_nothing_twice(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "campaigns" / "small.yml"
    third = campaigns.load(path).jobs[2]
    assert campaigns.coverage(path, "E4").done == 0
    put_record(third)
    assert campaigns.coverage(path, "E4").done == third.trainings
    put_record(third, betas=[7.0, 8.0, 9.0])  # measured with other parameters
    assert campaigns.coverage(path, "E4").done == 0

    read: list[Path] = []
    whole = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self, *options, **named: (read.append(self), whole(self, *options, **named))[1])
    assert campaigns.coverage(path, "E4").done == 0
    assert read == []
    write(project, with_parameters(epochs=3))
    assert campaigns.coverage(path, "E4").planned == 0
    assert read == [path]


def test_folds_are_trainings() -> None:
    (job,) = [job for job in campaigns.load(ROOT / "campaigns" / "uci.yml").jobs if job.id == "table-softmax"]
    assert job.trainings == 15 * 10 * 10


def test_coverage_of_several_rows_counts_a_job_once(project: Path) -> None:
    put_record(campaigns.load(project / "campaigns" / "small.yml").jobs[2])
    frame = campaigns.coverage_table(project / "campaigns", ["E4"])
    assert frame.values.tolist() == [["`small`", "For the tests", "smoke", "2 of 2 runs"]]
    done, planned = (campaigns.coverage(project / "campaigns" / "small.yml", row) for row in ("E4", "E3"))
    both = campaigns.coverage_table(project / "campaigns", ["E3", "E4", "E99"])
    assert both["runs"].tolist() == [f"2 of {done.planned + planned.planned} runs"]
    assert campaigns.coverage_table(project / "campaigns", ["E99"]).empty


# -- jobs that run -------------------------------------------------------------------------------------------------------------------------


def test_snakemake_runs_what_is_missing_and_nothing_else(project: Path) -> None:
    first, second, third = campaigns.load(project / "campaigns" / "small.yml").jobs
    put_record(first)
    before = first.record.read_bytes()
    (project / "broken").touch()

    failed = snakemake(project)  # one job fails, the others run
    assert failed.returncode != 0
    assert "1 of 3 jobs have their record; 2 to run" in failed.stderr
    assert third.done() and not second.record.exists()
    assert first.record.read_bytes() == before
    assert "broken on purpose" in (project / "build" / "small" / "a-seed1.ipynb").read_text(encoding="utf-8")
    assert "broken on purpose" in (project / "build" / "small" / "a-seed1.log").read_text(encoding="utf-8")

    (project / "broken").unlink()  # the failed job runs again, with no one else
    stamp = third.record.stat().st_mtime_ns
    again = snakemake(project)
    assert again.returncode == 0, again.stderr
    assert second.done() and third.record.stat().st_mtime_ns == stamp

    write(project, {**CAMPAIGN, "entries": [CAMPAIGN["entries"][0], {**CAMPAIGN["entries"][1], "parameters": {"betas": [0.5]}}]})
    changed = snakemake(project)  # new parameters: exactly that job
    assert changed.returncode == 0, changed.stderr
    assert "2 of 3 jobs have their record; 1 to run" in changed.stderr
    assert json.loads(third.record.read_text(encoding="utf-8"))["parameters"]["betas"] == [0.5]
    assert first.record.read_bytes() == before
    assert "nothing to run" in snakemake(project).stderr


def test_snakemake_stops_at_a_wrong_name_before_any_job(project: Path) -> None:
    write(project, {**CAMPAIGN, "defaults": {"epoch": 2}})
    stopped = snakemake(project)
    assert stopped.returncode != 0
    assert "no parameter 'epoch'; did you mean 'epochs'?" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not (project / "build").exists() and not (project / "results").exists()


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_campaign_goes_on_where_it_was(project: Path, kill: signal.Signals) -> None:
    first, second, third = campaigns.load(project / "campaigns" / "small.yml").jobs
    put_record(third)
    (project / "slow").touch()
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        str(ROOT / "Snakefile"),
        "--cores",
        "2",
        "--nolock",
        "--config",
        "campaign=small",
    ]
    process = subprocess.Popen(
        command,
        cwd=project,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    for _ in range(600):
        if first.record.exists():
            break
        time.sleep(0.1)
    os.killpg(process.pid, kill)
    process.wait(timeout=300)
    assert first.done() and not second.record.exists()

    (project / "slow").unlink()
    stamp = first.record.stat().st_mtime_ns
    resumed = snakemake(project)
    assert resumed.returncode == 0, resumed.stderr
    assert second.done() and first.record.stat().st_mtime_ns == stamp
    assert sorted(path.name for path in first.record.parent.iterdir()) == ["a-seed0.json", "a-seed1.json", "b.json"]


def test_a_job_that_leaves_no_record_fails(project: Path) -> None:
    template = project / "notebooks" / "experiments" / "tiny.md"
    template.write_text(TEMPLATE.replace("done.write(record)", ""), encoding="utf-8")
    workflow._parameters.cache_clear()
    with pytest.raises(CampaignError, match=r"ran to its end, but .*b\.json is not there"):
        workflow.run("small", "b", project)
    with pytest.raises(CampaignError, match="no job 'c'"):
        workflow.run("small", "c", project)


# -- the campaigns of the project ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", campaigns.names(ROOT / "campaigns"))
def test_the_campaigns_of_the_project_are_valid(name: str) -> None:
    plan = workflow.plan(name, ROOT)
    assert plan.campaign.jobs
    assert all(job.minutes is not None for job in plan.campaign.jobs), "every entry says how long a job takes"
