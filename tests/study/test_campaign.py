"""Campaigns.

What is refused before any job starts, what is done, what runs, and what runs again.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import papermill
import pytest
import yaml
from nbformat import NotebookNode

from study import campaign as campaigns
from study import parameters, results
from study.campaign import CampaignError, Job
from study.campaign import __main__ as command
from study.campaign.agreement import agreement
from study.campaign.plan import REHEARSAL
from study.campaign.run import run
from tests.study.small import WHERE, execute, measured, run_page, until

ROOT = Path(__file__).resolve().parents[2]

# The page `mnist` without a training; it needs no torch.
NOTEBOOK = """\
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

# A page for the tests

```{code-cell} ipython3
:tags: [parameters]

CELL
```

```{code-cell} ipython3
import pathlib
import time

from study import results

with open("started", "a") as file:
    file.write(f"{seeds}\\n")
if pathlib.Path("slow").exists() and seeds == [1]:
    pathlib.Path("sleeps").touch()
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        pathlib.Path("interrupted").touch()  # a training writes its checkpoint here
        raise
if pathlib.Path("broken").exists() and seeds == [0]:
    raise RuntimeError("broken on purpose")
```

```{code-cell} ipython3
# as job.finish does
asked = {name: globals()[name] for name in NAMES}
one = {"seed": 0, "metrics": {"test_accuracy": 0.5}}
results.write(record, {"experiment": "mnist", **asked}, [one] * (len(seeds) * len(betas)))
if pathlib.Path("breaks late").exists():
    raise RuntimeError("broken behind its results")
```

```{code-cell} ipython3
raise RuntimeError("what reads the tables is not for a job")
```
""".replace("CELL", parameters.code_cells("mnist")[0].strip()).replace(
    "NAMES", str([*parameters.checked("mnist", {})])
)

CAMPAIGN: dict[str, Any] = {
    "page": "mnist",
    "defaults": {"epochs": 2, "warmups": []},
    "entries": [
        {"id": "a", "parameters": {"betas": [1]}, "each": {"seeds": [[0], [1]]}, "minutes": 0.1},
        {"id": "b", "parameters": {"betas": [1.0, 0.1], "seeds": [0]}, "minutes": 0.1},
    ],
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, with one notebook and one campaign of three jobs."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = tmp_path / "notebooks" / "experiments" / "mnist.md"
    notebook.parent.mkdir(parents=True)
    notebook.write_text(NOTEBOOK, encoding="utf-8")
    write(tmp_path, CAMPAIGN)
    return tmp_path


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks run in this process, which has imported everything."""

    def execute_notebook(
        notebook: NotebookNode, output: Path, *, parameters: dict[str, Any], cwd: Path, **_: object
    ) -> None:
        monkeypatch.chdir(cwd)
        execute(notebook, parameters)

    monkeypatch.setattr(papermill, "execute_notebook", execute_notebook)


def write(project: Path, content: object) -> Path:
    path = project / "campaigns" / "small.yml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False),
        encoding="utf-8",
    )
    return path


def entry(**values: object) -> dict[str, Any]:
    return {**CAMPAIGN, "entries": [{"id": "a", **values}]}


def jobs_of(project: Path) -> tuple[Job, ...]:
    return campaigns.load(project / "campaigns" / "small.yml").jobs


def put(job: Job, accuracy: float = 0.5, **changes: Any) -> None:
    """Write a file as the job itself would, with changes of what is said of it."""
    runs = [planned | measured(accuracy) for planned in parameters.planned(job.parameters)]
    about = {"experiment": job.page, **job.parameters, **WHERE, **changes}
    results.write(job.record, about, runs)


SNAKEMAKE = [
    *(sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "2"),
    *("--keep-going", "--nolock", "--show-failed-logs", "--quiet", "reason", "host"),
    *("--config", "campaign=small"),
]


# Snakemake, which stays for two seconds in the lock under which it handles a failure.
HOLDS_ITS_LOCK = """
import pathlib, sys, time
from snakemake import cli
from snakemake.scheduling.job_scheduler import JobScheduler

def errors(self, handle=JobScheduler._error_jobs):
    failed = list(self._toerror)
    handle(self)
    if failed:
        while not pathlib.Path("sleeps").exists():
            time.sleep(0.1)
        pathlib.Path("holds").touch()
        time.sleep(2)

JobScheduler._error_jobs = errors
cli.main(sys.argv[1:])
"""


def snakemake(project: Path, *config: str) -> subprocess.CompletedProcess[str]:
    command = [*SNAKEMAKE, *config]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)


# -- the file --------------------------------------------------------------------------------------


def test_a_campaign_expands_into_jobs(project: Path) -> None:
    first, second, third = jobs_of(project)
    assert [job.id for job in (first, second, third)] == ["a-seed0", "a-seed1", "b"]
    assert second.given == {"epochs": 2, "warmups": [], "betas": [1], "seeds": [1]}
    assert second.parameters["dataset"] == "digits", "the page's own"
    assert second.record == project / "build" / "results" / "small" / "a-seed1.json"
    assert len(parameters.planned(third.parameters)) == 2
    path = write(
        project,
        entry(each={"seeds": [[0], [1, 2]], "learning_rate": [0.1, 1e-3], "dataset": ["digits"]}),
    )
    assert [job.id for job in campaigns.load(path).jobs] == [
        f"a-{seeds}-learning-rate{rate}-digits"
        for seeds in ("seed0", "seeds1-2")
        for rate in ("0.1", "0.001")
    ]


MERGES = "merged:\n- &m0 {epochs: 1}\n" + "".join(
    f"- &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
)


def bomb(place: str) -> str:
    """A kilobyte of YAML whose aliases stand for ten to the twelfth values."""
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 12))
    return f"page: mnist\nextra: {{l0: &l0 [1]}}\n{levels}{place}\n"


WRONG_FILES: list[tuple[object, str]] = [
    ("page: mnist\nentries: [", "not a readable campaign file"),
    ("[" * 100_000, "not a readable campaign file"),
    ("page: " + "x" * 200_000, "the limit is 200,000"),
    ("[1, 2]", "expected a mapping with the keys page, defaults, entries"),
    (
        {**CAMPAIGN, "entry": []},
        "no key 'entry'; did you mean 'entries'[?] The valid names are: page, defaults, entries",
    ),
    ({**CAMPAIGN, 1: 2}, "no key 1"),
    ({"page": "mnist"}, "the key 'entries' is missing"),
    ({"entries": [{"id": "a"}]}, "the key 'page' is missing"),
    *(
        ({**CAMPAIGN, "page": page}, f"no page '{page}' that writes results; there are: angular-im")
        for page in ("mnits", "../mnist", "speed")
    ),
    *(({**CAMPAIGN, "entries": value}, "entries") for value in (None, [], 3, {"a": 1})),
    ({**CAMPAIGN, "entries": ["a"]}, "entry 1: expected a mapping"),
    (entry(id=None), "the key 'id' is missing"),
    *(
        (entry(minutes=value), "minutes: Input should be")
        for value in ("two", float("nan"), 0, -1, True)
    ),
    (entry(memory=0.5), "memory: Input should be a valid integer"),
    (entry(parameters=[1]), "parameters: Input should be a valid dictionary"),
    (entry(parameters={1: 2}), "parameters.1..*: Input should be a valid string"),
    (entry(answers=["E9"]), r"entry 1 \(a\): there is no key 'answers'"),
    *((entry(each={"seeds": value}), r"each\[seeds\]: (Input|List) should") for value in (3, [])),
    (
        entry(parameters={"seeds": [0]}, each={"seeds": [[0]]}),
        "seeds stands in `parameters` and in `each`; keep one",
    ),
    ({**CAMPAIGN, "entries": [{"id": "a"}] * 2}, "two jobs are called 'a'"),
    *((entry(id=name), "cannot name a file") for name in ("../a", "a b", "$(touch x)", ".a", "")),
    *(
        (bomb(place), "its aliases stand for more than 100,000 values")
        for place in (
            "defaults: {epochs: *l11}\nentries: [{id: a}]",
            "entries: [{id: *l11}]",
            "entries: [{id: a, each: {seeds: *l11}}]",
            MERGES + "defaults: {<<: *m11}\nentries: [{id: a}]",
        )
    ),
    ("page: mnist\nentries: &a [*a]\n", "its aliases stand for more than"),
    ("page: mnist\nentries:\n- id: a\n  each: {}\n  each: {}\n", "stands twice .* in line 3"),
    (entry(id="a" * 5000), "id: String should have at most 100 characters"),
    (entry(each={"loss": ["x" * 500]}), "cannot name a file; .* at most 120 of them"),
]


def test_a_wrong_file_is_refused(project: Path, subtests: pytest.Subtests) -> None:
    for content, message in WRONG_FILES:
        with subtests.test(message, content=str(content)[:60]):
            path = write(project, content)
            with pytest.raises(CampaignError, match=message) as caught:
                campaigns.load(path)
            assert str(path) in str(caught.value) and len(str(caught.value)) < 2000


def test_a_file_of_very_many_jobs_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["study.campaign.plan"], "_JOBS", 100)
    path = write(project, entry(each={"seeds": [[seed] for seed in range(101)]}))
    with pytest.raises(CampaignError, match="more than 100 jobs"):
        campaigns.load(path)


def test_an_anchor_may_be_changed_where_it_is_merged(project: Path) -> None:
    path = write(
        project,
        "page: mnist\ndefaults: &d {epochs: 1, seeds: [0]}\nentries: "
        "[{id: a, parameters: {<<: *d, epochs: 2}}]",
    )
    assert campaigns.load(path).jobs[0].parameters["epochs"] == 2


def test_a_name_reaches_no_path_and_no_shell(project: Path, subtests: pytest.Subtests) -> None:
    for name in ["../y", "x$(touch PWNED)", "a b", "", "x" * 5000, None]:
        with (
            subtests.test(str(name)[:30]),
            pytest.raises(CampaignError, match="a campaign cannot be called"),
        ):
            campaigns.plan(name, project)


WRONG_JOBS = [
    (
        entry(parameters={"epoch": 3}),
        "campaign small, job a: there is no parameter 'epoch'; did you mean 'epochs'[?] The valid "
        "names are: dataset",
    ),
    (
        entry(parameters={"epochs": "3"}),
        r"job a: epochs: Input should be a valid integer; got '3' \(str\)",
    ),
    (
        entry(parameters={"betas": [0.1, -1.0]}),
        r"job a: betas\[1\]: Input should be greater than 0; got -1.0",
    ),
    (entry(parameters={"loss": "softmax"}), "there is no parameter 'loss'"),
    (entry(parameters={"self": 1}), "there is no parameter 'self'"),
    (
        {"page": "angular-images", "entries": [{"id": "a", "parameters": {"loss": "lm 0.3"}}]},
        "job a: this page has no loss 'lm'; it has: softmax, center, m-softmax",
    ),
    (
        {"page": "large-margin", "entries": [{"id": "a", "parameters": {"loss": "gd"}}]},
        "job a: this page has no loss 'gd'.*; it has: softmax",
    ),
    (
        entry(
            parameters={"betas": [0.5 + n for n in range(1000)], "seeds": list(range(1000))},
        ),
        "a job has at most 10,000 runs, and these would be 1,000,000",
    ),
]


def test_a_wrong_job_stops_the_plan(project: Path, subtests: pytest.Subtests) -> None:
    for content, message in WRONG_JOBS:
        write(project, content)
        with subtests.test(message), pytest.raises(CampaignError, match=message):
            campaigns.plan("small", project)
    with pytest.raises(CampaignError, match="the campaigns are: small"):
        campaigns.plan("smal", project)


# -- which jobs are done ---------------------------------------------------------------------------


def test_a_job_is_pending_exactly_if_its_result_is_missing_or_another(project: Path) -> None:
    first, second, third = jobs_of(project)
    plan = campaigns.plan("small", project)
    assert [job.id for job in plan.pending] == ["a-seed0", "a-seed1", "b"]
    put(first)
    put(second, seeds=[7])
    put(third, epochs=2.0, betas=[1, 0.1], added_later=1, device="cuda")
    os.utime(first.record, (0, 0))  # file times play no part
    plan = campaigns.plan("small", project)
    assert [job.id for job in plan.pending] == ["a-seed1"]
    assert "2 of 3 jobs have their result; 1 to run, about 0.1 minutes" in str(plan)


def test_a_result_of_something_else_is_not_the_jobs(
    project: Path, subtests: pytest.Subtests
) -> None:
    job = jobs_of(project)[2]
    put(job)
    assert job.done
    cases: list[tuple[dict[str, Any], str]] = [
        ({"learning_rate": 0.0501}, "it was made with learning_rate 0.0501, not 0.1"),
        ({"learning_rate": None}, "it was made with learning_rate None"),
        ({"learning_rate": "0.1"}, "it was made with learning_rate '0.1'"),
        ({"betas": [1.0]}, "it was made with betas"),
        ({"dataset": "mnist"}, "it was made with dataset 'mnist', not 'digits'"),
    ]
    for changes, reason in cases:
        with subtests.test(reason):
            put(job, **changes)
            assert reason in job.missing() and not job.done
    put(job)
    content = json.loads(job.record.read_text())
    content["runs"] = content["runs"][:1]
    content["job"]["runs"] = 1
    job.record.write_text(json.dumps(content))
    assert job.missing() == "it has 1 runs, not 2"


def test_a_parameter_that_was_added_later_had_its_default(project: Path) -> None:
    job = jobs_of(project)[2]
    put(job)
    content = json.loads(job.record.read_text())
    del content["job"]["activation"]
    job.record.write_text(json.dumps(content))
    assert job.done
    asked = {**CAMPAIGN["entries"][1]["parameters"], "activation": "tanh"}
    write(project, {**CAMPAIGN, "entries": [{"id": "b", "parameters": asked}]})
    assert "it was made with activation 'relu', not 'tanh'" in jobs_of(project)[0].missing()


def test_a_damaged_file_counts_as_missing_and_the_plan_says_why(
    project: Path, subtests: pytest.Subtests
) -> None:
    job = jobs_of(project)[0]
    put(job)
    content = json.loads(job.record.read_text())
    (row,) = content["runs"]
    for changes, reason in [
        ({"runs": []}, "it has 0 runs, not 1"),
        ({"runs": [row | {"test_accuracy": 97}]}, "a share that is not between 0 and 1"),
        ({"job": None}, "TypeError"),
    ]:
        job.record.write_text(json.dumps({**content, **changes}), encoding="utf-8")
        with subtests.test(str(changes)):
            plan = campaigns.plan("small", project)
            assert job.id in [pending.id for pending in plan.pending]
            assert "a-seed0: it is refused: " in str(plan)
            assert "a-seed0.json is damaged" in str(plan)
            assert reason in str(plan)
            assert not job.done
    job.record.unlink()
    assert "refused" not in str(campaigns.plan("small", project))
    job.record.mkdir()
    with pytest.raises(CampaignError, match=r"a-seed0\.json"):
        campaigns.plan("small", project)


def test_a_job_for_a_gpu_is_left_out_where_there_is_none(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU it would take weeks."""
    entries = [{"id": name, "parameters": {"device": name}} for name in ("cpu", "cuda", "auto")]
    write(project, {"page": "cifar", "entries": entries})
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    plan = campaigns.plan("small", project)
    assert [job.id for job in plan.left] == ["cuda"]
    assert [job.id for job in plan.pending] == ["cpu", "auto"]
    assert "1 need a GPU, which PyTorch does not find here: left out; 2 to run" in str(plan)
    assert len(campaigns.plan("small", project, gpu=True).pending) == 3, "a cluster has one"
    put(jobs_of(project)[1], device="auto")
    assert not campaigns.plan("small", project).left, "it is done, wherever that was"


def test_a_thousand_jobs_are_planned_in_seconds(project: Path) -> None:
    asked = {"each": {"seeds": [[seed] for seed in range(1000)]}}
    write(project, entry(**asked))
    put(jobs_of(project)[0])
    campaigns.collect("small", project)
    before = time.process_time()
    assert len(campaigns.plan("small", project).pending) == 999
    assert time.process_time() - before < 4


# -- tables ----------------------------------------------------------------------------------------


def test_a_job_whose_file_was_folded_into_the_tables_is_done(project: Path) -> None:
    first, second, third = jobs_of(project)
    for job in (first, third):
        put(job)
    assert campaigns.collect("small", project) == "small: 2 more jobs are in results/small.csv"
    assert not first.record.exists()
    assert [job.id for job in campaigns.plan("small", project).done] == ["a-seed0", "b"]
    assert results.read("small", project / "results")["seed"].tolist() == [0, 0, 0]
    assert run("small", "b", project) == third.record, "it is not trained again"
    assert not (project / "started").exists()
    assert campaigns.collect("small", project) == "small: 0 more jobs are in results/small.csv"
    write(project, {**CAMPAIGN, "defaults": {**CAMPAIGN["defaults"], "epochs": 3}})
    plan = campaigns.plan("small", project)
    assert len(plan.pending) == 3
    assert "a-seed0: it was made with epochs 2, not 3" in str(plan)


def test_what_was_planned_anew_replaces_its_rows(project: Path) -> None:
    put(jobs_of(project)[2])
    campaigns.collect("small", project)
    entries = [CAMPAIGN["entries"][0], {**CAMPAIGN["entries"][1], "parameters": {"betas": [0.5]}}]
    write(project, {**CAMPAIGN, "entries": entries})
    changed = jobs_of(project)[2]
    assert "it was made with betas" in changed.missing()
    put(changed)
    assert changed.done
    campaigns.collect("small", project)
    assert changed.done and not changed.record.exists()


def test_files_that_are_no_results_of_the_campaign_stay_and_are_named(project: Path) -> None:
    first, second, third = jobs_of(project)
    put(first)
    put(second, seeds=[7])
    put(third)
    foreign = first.record.with_name("a-seed0 (copy).json")
    foreign.write_bytes(first.record.read_bytes())
    third.record.write_text(third.record.read_text()[:-9])
    with pytest.raises(CampaignError) as caught:
        campaigns.collect("small", project)
    of_foreign, of_second, of_third = str(caught.value).split("\n")
    assert of_foreign.endswith("a-seed0 (copy).json: the campaign has no such job; delete it")
    assert "a-seed1.json: it was made with seeds" in of_second
    assert "b.json: it is refused: " in of_third
    assert [job.id for job in campaigns.plan("small", project).done] == ["a-seed0"]
    assert not first.record.exists() and second.record.exists() and third.record.exists()


def test_a_second_file_of_a_job_that_is_in_the_tables_is_refused(project: Path) -> None:
    first, *_ = jobs_of(project)
    put(first)
    campaigns.collect("small", project)
    put(first, wall_seconds=9.0)
    with pytest.raises(CampaignError, match=r"small has a-seed0 already; delete .*a-seed0\.json"):
        campaigns.collect("small", project)


def test_a_file_of_other_parameters_does_not_hide_the_tables(project: Path) -> None:
    first, *_ = jobs_of(project)
    put(first)
    campaigns.collect("small", project)
    put(first, seeds=[7])
    assert first.done


def test_a_damaged_table_stops_the_plan(project: Path) -> None:
    put(jobs_of(project)[0])
    campaigns.collect("small", project)
    table = project / "results" / "jobs" / "small.csv"
    table.write_text(table.read_text()[:-1])
    with pytest.raises(CampaignError, match=r"jobs/small\.csv is damaged .*git checkout"):
        campaigns.plan("small", project)


def test_a_rehearsal_stays_out_of_the_tables(project: Path) -> None:
    path = project / "campaigns" / f"{REHEARSAL}.yml"
    path.write_text(yaml.safe_dump(CAMPAIGN), encoding="utf-8")
    put(campaigns.load(path).jobs[0])
    assert "quick is a rehearsal" in campaigns.collect(REHEARSAL, project)
    assert not (project / "results").exists()


# -- jobs that run ---------------------------------------------------------------------------------


def test_a_job_runs_once_though_two_want_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    job = jobs_of(project)[2]
    job.record.parent.mkdir(parents=True)
    (job.record.parent / "b.json.elsewhere.123.partial").write_text(
        '{"job"'
    )  # of a process that was killed
    trained: list[str] = []

    def execute_notebook(*_: object, parameters: dict[str, Any], **__: object) -> None:
        trained.append(parameters["record"])
        time.sleep(0.5)
        put(replace(job, record=Path(parameters["record"])))

    monkeypatch.setattr(papermill, "execute_notebook", execute_notebook)
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(run, "small", "b", project) for _ in range(2)]
    assert [one.result() for one in both] == [job.record] * 2
    assert "runs this job" in capfd.readouterr().out
    assert job.done and len(trained) == 1
    assert [path.name for path in job.record.parent.iterdir()] == ["b.json"]


def test_nothing_is_trained_where_its_file_cannot_be_written(project: Path) -> None:
    (project / "build").mkdir()
    (project / "build" / "results").write_text("a file")
    with pytest.raises(OSError, match="results"):
        run("small", "b", project)
    assert not (project / "started").exists()


@pytest.mark.usefixtures("no_kernel")
def test_a_job_that_leaves_no_file_fails(project: Path) -> None:
    notebook = project / "notebooks" / "experiments" / "mnist.md"
    notebook.write_text(NOTEBOOK.replace("results.write(", "print("), encoding="utf-8")
    with pytest.raises(CampaignError, match=r"b\.ipynb ran to its end, but it has no result"):
        run("small", "b", project)
    notebook.write_text(NOTEBOOK.replace("len(seeds) * len(betas)", "len(seeds)"), encoding="utf-8")
    with pytest.raises(CampaignError, match="but it has 1 runs, not 2"):
        run("small", "b", project)
    # what is not the job's does not come among the results
    assert not jobs_of(project)[2].record.exists()
    with pytest.raises(CampaignError, match="no job 'c'"):
        run("small", "c", project)


@pytest.mark.usefixtures("no_kernel")
def test_a_result_is_kept_though_its_page_fails_behind_it(project: Path) -> None:
    (project / "breaks late").touch()
    with pytest.raises(RuntimeError, match="behind its results"):
        run("small", "b", project)
    assert run("small", "b", project).is_file()
    assert (project / "started").read_text().count("\n") == 1, "nothing is trained again"
    assert jobs_of(project)[2].done


@pytest.mark.usefixtures("no_kernel")
def test_a_folder_without_locks_is_named_and_the_job_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    assert run("small", "b", project).is_file()
    said = capfd.readouterr().out
    assert f"{project / 'build' / 'small'} is on a file system without locks" in said


def test_a_campaign_that_was_interrupted_goes_on_where_it_was(project: Path) -> None:
    """A job fails, and SIGTERM ends another; the same command runs both, and what is new.

    The signal comes while Snakemake's main thread holds the lock under which it handles the
    failure. Its own handler takes that lock too, and in the main thread it would wait for ever.
    """
    first, second, third = jobs_of(project)
    put(first)
    before = first.record.read_bytes()
    for name in ("slow", "broken"):
        (project / name).touch()
    said, command = project / "said", [sys.executable, "-c", HOLDS_ITS_LOCK, *SNAKEMAKE[3:]]
    with (
        said.open("wb") as file,
        subprocess.Popen(
            command, cwd=project, stdout=file, stderr=file, start_new_session=True
        ) as process,
    ):
        try:
            until(lambda: process.poll() is not None or (project / "holds").exists(), 120)
            assert process.poll() is None, said.read_text()
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)  # the job would sleep for ten minutes
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert "broken on purpose" in said.read_text()
    assert "1 of 3 jobs have their result; 2 to run" in said.read_text()
    assert (project / "interrupted").exists(), "it could write a checkpoint"
    assert not second.record.exists() and not third.record.exists()

    for name in ("slow", "broken"):
        (project / name).unlink()
    entries = [CAMPAIGN["entries"][0], {**CAMPAIGN["entries"][1], "parameters": {"betas": [0.5]}}]
    write(project, {**CAMPAIGN, "entries": entries})
    done = snakemake(project)
    assert done.returncode == 0 and "steps (100%) done" in done.stderr, done.stderr
    assert second.done and results.load(third.record)["job"]["betas"] == [0.5]
    assert first.record.read_bytes() == before
    names = sorted(path.name for path in first.record.parent.iterdir())
    assert names == ["a-seed0.json", "a-seed1.json", "b.json"]


def test_snakemake_trains_anew_what_is_asked_for_and_refuses_what_is_not_there(
    project: Path,
) -> None:
    stopped = snakemake(project, "campaign=x$(touch PWNED)")
    assert stopped.returncode != 0 and "cannot be called" in stopped.stderr
    assert "Traceback" not in stopped.stderr and not (project / "PWNED").exists()
    done = snakemake(project, "fresh=1", "only=b")
    assert done.returncode == 0, done.stderr
    assert "small, trained anew: 0 of 1 jobs have their result; 1 to run" in done.stderr
    assert jobs_of(project)[2].again(project).done and not jobs_of(project)[2].done


# -- anew ------------------------------------------------------------------------------------------


def test_jobs_are_chosen_by_name_or_pattern(project: Path) -> None:
    for only, expected in (
        ("", ["a-seed0", "a-seed1", "b"]),
        ("b", ["b"]),
        ("a-*", ["a-seed0", "a-seed1"]),
        ("b,*seed1", ["a-seed1", "b"]),
    ):
        found = campaigns.plan("small", project, only=only)
        assert [job.id for job in found.pending] == expected, only
    with pytest.raises(
        CampaignError, match="no job matches 'c'; its jobs are: a-seed0, a-seed1, b"
    ):
        campaigns.plan("small", project, only="b,c")


@pytest.mark.usefixtures("no_kernel")
def test_a_fresh_job_leaves_the_results_alone(project: Path) -> None:
    first, *_ = jobs_of(project)
    put(first)
    before = first.record.read_bytes()
    (fresh, *_) = campaigns.plan("small", project, fresh=True).pending
    assert fresh.record == project / "build" / "fresh" / "small" / "results" / "a-seed0.json"
    assert run("small", "a-seed0", project, fresh=True) == fresh.record
    assert first.record.read_bytes() == before
    assert fresh.done
    assert not (project / "build" / "small").exists(), "nor its logs and checkpoints"
    assert "small, trained anew: 1 of 3" in str(campaigns.plan("small", project, fresh=True))


def test_what_was_trained_anew_is_compared_in_deviations_of_the_seeds(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = {"each": {"seeds": [[0], [1], [2], [3]]}, "parameters": {"betas": [1]}}
    write(project, {**entry(**seeds), "defaults": CAMPAIGN["defaults"]})
    jobs, tables = jobs_of(project), project / "results"
    again = [job.again(project) for job in jobs]
    put(again[0])
    assert agreement(again, tables).empty, "there are no tables"
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "argv", ["campaign", "agree", "small"])
    with pytest.raises(SystemExit, match="0"):
        command.main()
    assert capsys.readouterr().out.startswith("not compared, since one of the two is missing,")
    for job, accuracy in zip(jobs, (0.50, 0.52, 0.54, 0.56), strict=True):
        put(job, accuracy)
    campaigns.collect("small", project)
    put(again[0], 0.50, wall_seconds=99.0)
    put(again[1], 0.57)  # the deviation of the four is 2.58 points
    apart = agreement(again, tables)
    assert list(apart.index) == ["a-seed0", "a-seed1"]
    assert apart["test_accuracy"].to_list() == [0.0, pytest.approx(5 / 2.582, abs=0.001)]
    with pytest.raises(SystemExit, match="0"):
        command.main()
    assert "or has other parameters:\n  a-seed2\n  a-seed3" in capsys.readouterr().out
    longer = {**entry(**seeds), "defaults": {**CAMPAIGN["defaults"], "epochs": 5}}
    write(project, longer)
    others = [job.again(project) for job in jobs_of(project)]
    put(others[0], 0.50)
    assert agreement(others, tables).empty, "the rows in the tables are of other parameters"
    write(project, {**entry(**seeds), "defaults": CAMPAIGN["defaults"]})
    put(again[0], 0.50)
    put(again[1], 0.90)
    with pytest.raises(SystemExit, match="1"):
        command.main()


def test_two_seeds_say_nothing_of_a_difference(project: Path) -> None:
    job = jobs_of(project)[2]  # a run for each of two β
    put(job, 0.50)
    campaigns.collect("small", project)
    put(job.again(project), 0.51)
    assert agreement([job.again(project)], project / "results").loc["b"].to_list() == [float("inf")]


@pytest.mark.usefixtures("no_kernel")
def test_a_job_that_is_killed_in_its_training_goes_on(project: Path, tmp_path: Path) -> None:
    """The page itself: kill -9, and the same job again ends in the same numbers."""
    page = project / "notebooks" / "experiments" / "mnist.md"
    page.write_text((ROOT / "notebooks" / "experiments" / "mnist.md").read_text("utf-8"), "utf-8")
    asked = {"betas": [1, 0.1], "seeds": [0], "epochs": 40, "warmups": []}
    write(project, {"page": "mnist", "entries": [{"id": "a", "parameters": asked}]})
    (job,) = jobs_of(project)
    command = [sys.executable, "-m", "study.campaign", "run", "small", "a"]
    checkpoints = project / "build" / "small" / "checkpoints"
    with subprocess.Popen(command, cwd=project, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: process.poll() is not None or any(checkpoints.rglob("*.pt")), 120)
        finally:
            process.kill()
    time.sleep(2)  # its kernel looks for it every second
    assert not job.record.exists() and list(checkpoints.rglob("*.pt"))
    whole = results.load(run("small", "a", project))
    assert not list(checkpoints.iterdir()), "it is of no use any more"
    straight = run_page("mnist", tmp_path / "b.json", **asked)
    assert [whole[table] for table in ("runs", "curves")] == [
        straight[table] for table in ("runs", "curves")
    ]


CAMPAIGNS = sorted(path.stem for path in (ROOT / "campaigns").glob("*.yml"))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_campaign_of_the_project_is_valid(name: str) -> None:
    plan = campaigns.plan(name, ROOT)
    assert plan.campaign.jobs
    assert all(job.minutes for job in plan.campaign.jobs), "every entry says how long a job takes"
    known = {job.id for job in plan.campaign.jobs}
    templates = ("train", "cross-validation")  # of before, whose rows no page makes
    by_pages = {
        job for job, asked in results.jobs(name).items() if asked["experiment"] not in templates
    }
    assert by_pages <= known, "rows of no job"
    stale = {job.id: job.replaced for job in (*plan.pending, *plan.left) if job.replaced}
    assert not stale, "rows that were made with other parameters"
