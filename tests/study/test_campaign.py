"""Campaigns.

What is refused before any job starts, what is done, what runs, and what runs again.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import papermill
import psutil
import pytest
import yaml
from nbformat import NotebookNode

from study import campaign as campaigns
from study import parameters, results
from study.campaign import CampaignError, Job
from study.campaign import __main__ as command
from study.campaign.agreement import agreement, report
from study.campaign.plan import REHEARSAL
from study.campaign.run import run
from study.campaign.watch import Watch
from tests.study.small import WHERE, execute, measured, run_page

ROOT = Path(__file__).resolve().parents[2]

# The page `mnist` without a training.
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
import logging
import pathlib
import time

import torch
from study import run
from study.parameters import planned

job = run.begin("mnist", globals())
with open("started", "a") as file:
    file.write(f"{seeds}\\n")
if pathlib.Path("slow").exists() and seeds == [1]:
    logging.info("epoch 1 of 2, about 60 minutes left")
    time.sleep(600)
if pathlib.Path("broken").exists() and seeds == [1]:
    raise RuntimeError("broken on purpose")
```

```{code-cell} ipython3
measured = {"metrics": {"test_accuracy": 0.5}, "curves": {"epoch": [0], "test_accuracy": [0.1]}}
job.write({"data_source": "embedded"}, [one | measured for one in planned(job.parameters)])
```
""".replace("CELL", parameters.code_cells("mnist")[0].strip())

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


def snakemake(project: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        str(ROOT / "Snakefile"),
        "--cores",
        "2",
        "--keep-going",
        "--nolock",
    ]
    return subprocess.run(
        [*command, "--config", "campaign=small", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        **options,
    )


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


def given(text: str, project: Path) -> Job:
    """The job of a file whose one entry has these parameters, as YAML."""
    return campaigns.load(write(project, f"page: mnist\nentries:\n- {{id: a, {text}}}\n")).jobs[0]


def bomb(place: str) -> str:
    """A kilobyte of YAML whose aliases stand for ten to the twelfth values."""
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 12))
    return f"page: mnist\nextra: {{l0: &l0 [1]}}\n{levels}{place}\n"


def test_numbers_are_what_everyone_reads(project: Path, subtests: pytest.Subtests) -> None:
    """Not what YAML 1.1 takes for a number or for a truth."""
    for value in ("0_3", "1:30", "010", "0x1f", "0b1", ".inf", ".nan", "1_0.5", "9" * 5000):
        for name in ("epochs", "learning_rate"):
            with subtests.test(name, value=value[:10]):
                job = given(f"parameters: {{{name}: {value}}}", project)
                with pytest.raises(CampaignError, match=rf"{name}: Input should be .*\(str\)"):
                    _ = job.parameters
    job = given("parameters: {duplicates_together: yes}", project)
    with subtests.test("yes"), pytest.raises(ValueError, match="together: Input should be a valid"):
        parameters.checked("tables", job.given)
    for value in ("!!int 010", "!!float .inf", "!!set {1, 2}", "!!timestamp 1-1-1"):
        with subtests.test(value), pytest.raises(CampaignError, match="leave out the tag '.*2002"):
            given(f"parameters: {{epochs: {value}}}", project)
    text = "epochs: 30, learning_rate: 1e-3, betas: [-0.5, .5, 1., 1E+1, 1]"
    assert given(f"parameters: {{{text}}}", project).given == {
        **{"epochs": 30, "learning_rate": 0.001, "betas": [-0.5, 0.5, 1.0, 10.0, 1]}
    }


ONE = "entries: [{id: a}]"
WRONG_FILES: list[tuple[object, str]] = [
    ("page: mnist\nentries: [", "not a readable campaign file"),
    ("[" * 100_000, "not a readable campaign file"),
    ("page: mnist\npage: mnist\nentries: []\n", "'page' stands twice"),
    (
        f"page: mnist\ndefaults: {{<<: {{epochs: 1}}, <<: {{epochs: 2}}}}\n{ONE}\n",
        "'<<' stands twice",
    ),
    (
        f"page: mnist\ndefaults: {{<<: [{{epochs: 1}}, {{epochs: 2}}]}}\n{ONE}\n",
        "'<<: epochs' stands twice",
    ),
    ("page: " + "x" * 200_000, "the limit is 200,000"),
    ("[1, 2]", "expected a mapping with the keys page, defaults, entries"),
    (
        {**CAMPAIGN, "entry": []},
        "no key 'entry'; did you mean 'entries'[?] The valid names are: page, defaults, entries",
    ),
    ({**CAMPAIGN, 1: 2}, "no key 1"),
    ({"page": "mnist"}, "the key 'entries' is missing"),
    ({"entries": [{"id": "a"}]}, "the key 'page' is missing"),
    ({**CAMPAIGN, "page": "mnits"}, "there is no page 'mnits'; there are: "),
    ({**CAMPAIGN, "page": "../mnist"}, "there is no page '../mnist'; there are: "),
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
        )
    ),
    ("page: mnist\nentries: &a [*a]\n", "its aliases stand for more than"),
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
            campaigns.plan(name, project)  # type: ignore[arg-type]


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
        ({"job": content["job"] | {"hardware": "<script>"}}, "characters that no table has"),
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


def test_a_job_runs_once_though_two_processes_want_it(project: Path) -> None:
    job = jobs_of(project)[2]
    job.record.parent.mkdir(parents=True)
    (job.record.parent / "b.json.elsewhere.123.partial").write_text(
        '{"job"'
    )  # of a process that was killed
    command = [sys.executable, "-m", "study.campaign", "run", "small", "b"]
    both = [
        subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0] and "runs this job" in "".join(said)
    assert job.done and (project / "started").read_text().count("\n") == 1
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
    notebook.write_text(NOTEBOOK.replace("job.write(", "print("), encoding="utf-8")
    with pytest.raises(CampaignError, match=r"b\.ipynb ran to its end, but it has no result"):
        run("small", "b", project)
    notebook.write_text(
        NOTEBOOK.replace("planned(job.parameters)", "planned(job.parameters)[1:]"),
        encoding="utf-8",
    )
    with pytest.raises(CampaignError, match="but it has 1 runs, not 2"):
        run("small", "b", project)
    # what is not the job's does not come among the results
    assert not jobs_of(project)[2].record.exists()
    with pytest.raises(CampaignError, match="no job 'c'"):
        run("small", "c", project)


def test_what_is_said_while_jobs_run(project: Path) -> None:
    plan = campaigns.plan("small", project)
    watch = Watch(plan, project)
    build = project / "build" / "small"
    build.mkdir(parents=True)
    assert watch.lines() == ["small: 0 of 3 jobs ended, about 0.3 minutes left"]
    (build / "a-seed0.log").write_text(
        "starting\nbuild/results/small/a-seed0.json\ndone in 0.50 minutes\n"
    )
    (build / "a-seed1.log").write_text("starting\nepoch 1 of 2, about 3 minutes left\n\n")
    (build / "b.log").write_text("Traceback\nerror: RuntimeError: broken on purpose\n")
    watch.since = time.monotonic() - 60  # 0.2 of the expected 0.3 minutes took one
    everything = "small: 2 of 3 jobs ended, 1 failed, about 0.5 minutes left"
    assert watch.lines() == ["small/a-seed1: epoch 1 of 2, about 3 minutes left", everything]
    broken = "small/b: error: RuntimeError: broken on purpose (build/small/b.log)"
    killed = "small/a-seed1: ended without its record, perhaps killed; its last line is: "
    assert watch.failures() == [
        f"{killed}epoch 1 of 2, about 3 minutes left (build/small/a-seed1.log)",
        broken,
    ]
    size, _ = watch.grown["a-seed1"]
    watch.grown["a-seed1"] = size, time.monotonic() - 600
    assert (
        watch.lines()[0]
        == "small/a-seed1: epoch 1 of 2, about 3 minutes left; silent for 10 minutes"
    )


def test_file_times_of_a_server_play_no_part(project: Path) -> None:
    """A clock that is behind once swallowed the progress, and the reasons of failures."""
    build = project / "build" / "small"
    build.mkdir(parents=True)
    (build / "a-seed0.log").write_text("starting\nerror: of an earlier attempt\n")
    watch = Watch(campaigns.plan("small", project), project)
    nothing = "ended without its record, perhaps killed; it has written no line"
    logs = [f"(build/small/{name}.log)" for name in ("a-seed0", "a-seed1", "b")]
    assert watch.failures() == [
        f"small/{name}: {nothing} {log}"
        for name, log in zip(("a-seed0", "a-seed1", "b"), logs, strict=True)
    ]
    with (build / "a-seed0.log").open("a") as file:
        file.write("starting\nerror: of this one\n")
    (build / "b.log").write_text("starting\nepoch 1 of 2, about 3 minutes left\n")
    for log in build.glob("*.log"):
        os.utime(log, (0, 0))
    assert watch.lines()[0] == "small/b: epoch 1 of 2, about 3 minutes left"
    assert watch.failures()[0] == f"small/a-seed0: error: of this one {logs[0]}"


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


def test_a_kernel_that_loses_a_signal_gets_another() -> None:
    deaf = (
        "import signal, time\n"
        "signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, signal.SIG_DFL))\n"
        "print('there', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        begin = time.monotonic()
        command._insist([psutil.Process(process.pid)], every=0.5)
        assert time.monotonic() - begin < 10
        assert not psutil.pid_exists(process.pid)


def test_a_job_that_has_just_ended_keeps_no_other_running(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child without a command line once ended the watch, and the others ran on."""
    ended: list[str] = []
    gone = SimpleNamespace(cmdline=Mock(side_effect=psutil.ZombieProcess(1)))
    job = SimpleNamespace(
        cmdline=lambda: ["python", "-m", "study.campaign"], terminate=lambda: ended.append("job")
    )

    def children(recursive: bool) -> list[SimpleNamespace]:
        signals.send(bytes([signal.SIGTERM]))
        if ended:
            raise SystemExit  # at the second signal, to end the loop
        return [gone, job]

    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(children=children))
    watch = Watch(campaigns.plan("small", project), project)
    watch.signals, signals = socket.socketpair()
    signals.send(bytes([signal.SIGTERM]))
    with watch.signals, signals, pytest.raises(SystemExit):
        watch.run()
    assert ended == ["job"]


def test_a_terminal_shows_a_bar(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    watch = Watch(campaigns.plan("small", project), project)
    build = project / "build" / "small"
    build.mkdir(parents=True)
    (build / "a-seed0.log").write_text("starting\ndone in 0.50 minutes\n")
    (build / "a-seed1.log").write_text("starting\nepoch 1 of 2, about 3 minutes left\n")
    watch.tell()
    watch.bar.close()
    last = terminal.getvalue().replace("\n", "\r").strip("\r ").split("\r")[-1]
    assert re.fullmatch(
        r"small: 1 of 3 jobs ended, about .* minutes left \|[█#]{6}\S? *\| small/a-seed1: epoch 1 "
        r"of 2, about 3 minutes left",
        last,
    )


def test_snakemake_runs_what_is_missing_and_nothing_else(project: Path) -> None:
    first, second, third = jobs_of(project)
    put(first)
    before = first.record.read_bytes()
    (project / "broken").touch()
    failed = snakemake(project)  # one job fails, the others run
    assert failed.returncode != 0 and "1 of 3 jobs have their result; 2 to run" in failed.stderr
    assert re.search(
        r"^small/a-seed1: error: RuntimeError: broken on purpose \(build/small/a-seed1\.log\)$",
        failed.stderr,
        re.MULTILINE,
    )
    assert third.done and not second.record.exists() and first.record.read_bytes() == before

    (project / "broken").unlink()  # the failed job runs again, and a job with new parameters
    write(
        project,
        {
            **CAMPAIGN,
            "entries": [
                CAMPAIGN["entries"][0],
                {**CAMPAIGN["entries"][1], "parameters": {"betas": [0.5]}},
            ],
        },
    )
    changed = snakemake(project)
    assert (
        changed.returncode == 0 and "1 of 3 jobs have their result; 2 to run" in changed.stderr
    ), changed.stderr
    assert results.load(third.record)["job"]["betas"] == [0.5]
    assert first.record.read_bytes() == before and "nothing to run" in str(
        campaigns.plan("small", project)
    )


def test_snakemake_stops_before_any_job(project: Path) -> None:
    write(project, {**CAMPAIGN, "defaults": {"epoch": 2}})
    stopped = snakemake(project, "campaign=x$(touch PWNED)")
    assert stopped.returncode != 0 and "cannot be called" in stopped.stderr
    assert "Traceback" not in stopped.stderr and sorted(
        path.name for path in project.iterdir()
    ) == [".snakemake", "campaigns", "notebooks"]


def test_an_interrupted_campaign_goes_on_where_it_was(project: Path) -> None:
    first, second, third = jobs_of(project)
    put(third)
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
    ]
    quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(
        [*command, "--config", "campaign=small"], cwd=project, start_new_session=True, **quiet
    )
    log = project / "build" / "small" / "a-seed1.log"
    for _ in range(3000):
        if first.record.exists() and log.exists() and "epoch 1 of 2" in log.read_text():
            break
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    process.wait(timeout=300)  # the job would sleep for ten minutes
    assert first.done and not second.record.exists()

    (project / "slow").unlink()
    stamp = first.record.stat().st_mtime_ns
    assert snakemake(project).returncode == 0
    assert second.done and first.record.stat().st_mtime_ns == stamp
    assert sorted(path.name for path in first.record.parent.iterdir()) == [
        "a-seed0.json",
        "a-seed1.json",
        "b.json",
    ]


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


def test_what_was_trained_anew_is_equal_within_the_deviation_or_different(project: Path) -> None:
    seeds = {"each": {"seeds": [[0], [1], [2], [3]]}, "parameters": {"betas": [1]}}
    write(project, {**entry(**seeds), "defaults": CAMPAIGN["defaults"]})
    jobs, tables = jobs_of(project), project / "results"
    again = jobs[0].again(project)
    assert str(agreement(again, tables)) == (
        "a-seed0: not compared (the new result: it has no result)"
    )
    put(again)
    assert agreement(again, tables).why == "the tables have no such job"
    for job, accuracy in zip(jobs, (0.50, 0.52, 0.54, 0.56), strict=True):
        put(job, accuracy)
    campaigns.collect("small", project)
    put(again, 0.50, wall_seconds=99.0)
    equal = agreement(again, tables)
    assert str(equal) == "a-seed0: equal"
    # the deviation of the four is 2.58 points, and three errors of a difference of two are 10.95
    for accuracy, outcome in ((0.60, "within the seeds' deviation"), (0.62, "different")):
        put(again, accuracy)
        found = agreement(again, tables)
        assert found.outcome == outcome
        assert found.why == f"1, 1.0: test_accuracy +{100 * accuracy - 50:.0f}, deviation 2.58 %"
    lines = report([found, equal]).splitlines()
    assert lines[0].startswith("a-seed0: different (")
    assert lines[2] == "1 of 2 different; 1 of 2 equal"


def test_two_seeds_are_too_few_for_a_deviation(project: Path) -> None:
    first, second, _ = jobs_of(project)
    put(first, 0.50)
    put(second, 0.52)
    campaigns.collect("small", project)
    again = first.again(project)
    put(again, 0.51)
    found = agreement(again, project / "results")
    assert (found.outcome, found.why) == ("different", "1, 1.0: test_accuracy +1, deviation nan %")


def test_snakemake_trains_anew_and_the_results_agree(project: Path) -> None:
    done = snakemake(project, "fresh=1", "only=a-*")
    assert done.returncode == 0, done.stderr
    assert "small, trained anew: 0 of 2 jobs have their result; 2 to run" in done.stderr
    assert not list((project / "build").glob("fresh/*/done/*"))
    for job in jobs_of(project):
        put(job)
    campaigns.collect("small", project)

    def agree() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "study.campaign", "agree", "small", "a-*"]
        return subprocess.run(command, cwd=project, capture_output=True, text=True)

    found = agree()
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[:2] == ["a-seed0: equal", "a-seed1: equal"]
    put(jobs_of(project)[0].again(project), 0.4)
    assert agree().returncode == 1


def test_a_training_that_is_asked_to_end_in_the_middle_of_its_page_goes_on(
    project: Path, tmp_path: Path
) -> None:
    """The page itself, by the command of a campaign: SIGTERM, and the same command again."""
    page = project / "notebooks" / "experiments" / "mnist.md"
    page.write_text((ROOT / "notebooks" / "experiments" / "mnist.md").read_text("utf-8"), "utf-8")
    asked = {"betas": [1, 0.1], "seeds": [0], "epochs": 400, "warmups": []}
    write(project, {"page": "mnist", "entries": [{"id": "a", "parameters": asked}]})
    (job,) = jobs_of(project)
    command = [sys.executable, "-m", "study.campaign", "run", "small", "a"]
    checkpoints = project / "build" / "small" / "checkpoints"
    process = subprocess.Popen(
        command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    while process.poll() is None and not list(checkpoints.rglob("*.pt")):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0 and b"KeyboardInterrupt" in said, said
    assert not job.record.exists()
    assert list(checkpoints.rglob("*.pt"))
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not checkpoints.exists() or not list(checkpoints.iterdir()), "it is of no use any more"
    whole, straight = results.load(job.record), run_page("mnist", tmp_path / "b.json", **asked)
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
    templates = (
        "train",
        "cross-validation",
    )  # of before, whose rows no page makes (book/deviations.md)
    by_pages = {
        job for job, asked in results.jobs(name).items() if asked["experiment"] not in templates
    }
    assert by_pages <= known, "rows of no job"
    stale = {job.id: job.replaced for job in plan.pending if job.replaced}
    assert not stale, "rows that were made with other parameters"
