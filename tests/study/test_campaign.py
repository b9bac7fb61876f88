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
from study import records
from study.campaign import CampaignError, Job
from study.campaign import __main__ as command
from study.campaign.agreement import agreement, report
from study.campaign.run import run
from study.campaign.watch import Watch
from study.experiment import Train, parameter_cell
from tests.study.small import SAMPLES, execute, measured

ROOT = Path(__file__).resolve().parents[2]

# The notebook `train` without a training.
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

# A notebook for the tests

```{code-cell} ipython3
:tags: [parameters]

CELL
```

```{code-cell} ipython3
import logging
import pathlib
import time

from study import records
from study.experiment import Train

logging.basicConfig(level=logging.INFO, format="%(message)s")
experiment = Train.from_parameters(globals())
records.probe(record, experiment.model_dump())
with open("started", "a") as file:
    file.write(f"{experiment.seeds}\\n")
if pathlib.Path("slow").exists() and seeds == [1]:
    logging.info("epoch 1 of 2, about 60 minutes left")
    time.sleep(600)
if pathlib.Path("broken").exists() and seeds == [1]:
    raise RuntimeError("broken on purpose")
bins = {"upper": [1.0], "count": [5], "confidence": [0.5], "accuracy": [0.5]}
curves = {"test_accuracy": [0.1, 0.5], "train_accuracy": [0.1, 0.5]}
curves["epoch"] = [0, experiment.epochs]
measured = {
    "metrics": {"test_accuracy": 0.5, "train_accuracy": 0.5},
    "confidence_counts": [10],
    "reliability": bins,
    "curves": curves,
}
runs = [planned | measured for planned in experiment.planned()]
data = {"name": experiment.dataset, "source": "embedded", "copy": "x", "train": 10, "test": 5}
done = {"epochs_done": experiment.epochs, "wall_seconds": 0.1, "scale": experiment.scale}
model = {"name": experiment.model, "parameters": 30}
records.Record("train", experiment.model_dump(), data, model, runs, **done).write(record)
```
""".replace("CELL", parameter_cell(Train))

CAMPAIGN: dict[str, Any] = {
    "name": "small",
    "title": "For the tests",
    "defaults": {"dataset": "digits", "epochs": 2, "warmups": []},
    "entries": [
        {
            "id": "a",
            "experiment": "train",
            "parameters": {"betas": [1]},
            "each": {"seeds": [[0], [1]]},
            "minutes": 0.1,
        },
        {
            "id": "b",
            "experiment": "train",
            "parameters": {"betas": [1.0, 0.1], "seeds": [0]},
            "minutes": 0.1,
        },
    ],
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, with one notebook and one campaign of three jobs."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = tmp_path / "notebooks" / "experiments" / "train.md"
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
    return {**CAMPAIGN, "entries": [{"id": "a", "experiment": "train", **values}]}


def jobs_of(project: Path) -> tuple[Job, ...]:
    return campaigns.load(project / "campaigns" / "small.yml").jobs


def put_record(job: Job, **changes: Any) -> None:
    """A record as the job itself would write it, with changes of its content."""
    runs = [planned | measured() for planned in job.experiment.planned()]
    parameters = job.experiment.model_dump()
    data = {"name": parameters["dataset"], "source": "embedded", "copy": "x", **SAMPLES}
    content = {
        "schema": 1,
        "experiment": "train",
        "parameters": parameters,
        "data": data,
        "model": {"name": parameters["model"], "parameters": 30},
        "runs": runs,
        "epochs_done": 2,
    }
    content |= {"wall_seconds": 0.0, "scale": "smoke", "environment": {}}
    parameters |= changes.pop("parameters", {})
    job.record.parent.mkdir(parents=True, exist_ok=True)
    job.record.write_text(json.dumps({**content, **changes}), encoding="utf-8")


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
    assert second.parameters == {
        "dataset": "digits",
        "epochs": 2,
        "warmups": [],
        "betas": [1],
        "seeds": [1],
    }
    assert second.record == project / "build" / "results" / "small" / "a-seed1.json"
    assert third.experiment.trainings == 2
    path = write(
        project,
        entry(each={"seeds": [[0], [1, 2]], "learning_rate": [0.1, 1e-3], "dataset": ["digits"]}),
    )
    assert [job.id for job in campaigns.load(path).jobs] == [
        f"a-{seeds}-learning-rate{rate}-digits"
        for seeds in ("seed0", "seeds1-2")
        for rate in ("0.1", "0.001")
    ]


def test_numbers_in_scientific_notation_are_numbers(project: Path) -> None:
    path = write(
        project,
        "name: small\nentries:\n- "
        "{id: a, experiment: train, parameters: {learning_rate: 1e-3, betas: [1E+1, 5e-1]}}\n",
    )
    assert campaigns.load(path).jobs[0].parameters == {"learning_rate": 0.001, "betas": [10.0, 0.5]}


def bomb(place: str) -> str:
    """A kilobyte of YAML whose aliases stand for ten to the twelfth values."""
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 12))
    return f"name: small\nextra: {{l0: &l0 [1]}}\n{levels}{place}\n"


def test_numbers_are_what_everyone_reads(project: Path, subtests: pytest.Subtests) -> None:
    """Not what YAML 1.1 takes for a number or for a truth."""
    text = "name: small\nentries:\n- {{id: a, experiment: train, parameters: {{{}}}}}\n"
    for value in ("0_3", "1:30", "010", "0x1f", "0b1", ".inf", ".nan", "1_0.5", "9" * 5000):
        for name in ("epochs", "learning_rate"):
            with subtests.test(name, value=value[:10]):
                path = write(project, text.format(f"{name}: {value}"))
                with pytest.raises(CampaignError, match=rf"{name}: Input should be .*\(str\)"):
                    campaigns.load(path).jobs[0].experiment.identity()
    with subtests.test("yes"), pytest.raises(CampaignError, match="fused: Input should be a valid"):
        campaigns.load(write(project, text.format("fused: yes"))).jobs[0].experiment.identity()
    for value in ("lm 0_3", "lm ٠٫٣", "lm 1:30"):
        with subtests.test(value), pytest.raises(CampaignError, match="is no number"):
            campaigns.load(write(project, text.format(f"loss: {value}"))).jobs[
                0
            ].experiment.identity()
    for value in ("!!int 010", "!!float .inf", "!!set {1, 2}", "!!timestamp 1-1-1"):
        with subtests.test(value), pytest.raises(CampaignError, match="leave out the tag '.*2002"):
            campaigns.load(write(project, text.format(f"epochs: {value}")))
    path = write(project, text.format("epochs: 30, learning_rate: 1e-3, betas: [-0.5, .5, 1., 1]"))
    assert campaigns.load(path).jobs[0].parameters == {
        "epochs": 30,
        "learning_rate": 0.001,
        "betas": [-0.5, 0.5, 1.0, 1],
    }


WRONG_FILES: list[tuple[object, str]] = [
    ("name: small\nentries: [", "not a readable campaign file"),
    ("[" * 100_000, "not a readable campaign file"),
    ("name: small\nname: small\nentries: []\n", "'name' stands twice"),
    (
        "name: small\ndefaults: {<<: {epochs: 1}, <<: {epochs: 2}}\nentries: []\n",
        "'<<' stands twice",
    ),
    (
        "name: small\ndefaults: {<<: [{epochs: 1}, {epochs: 2}]}\nentries: []\n",
        "'<<: epochs' stands twice",
    ),
    ("name: small\ntitle: " + "x" * 200_000, "the limit is 200,000"),
    ("[1, 2]", "expected a mapping with the keys name, title, defaults, entries"),
    ({**CAMPAIGN, "name": "other"}, "must agree"),
    (
        {**CAMPAIGN, "entry": []},
        "no key 'entry'; did you mean 'entries'[?] The valid names are: name, title, defaults, "
        "entries",
    ),
    ({**CAMPAIGN, 1: 2}, "no key 1"),
    ({"name": "small"}, "the key 'entries' is missing"),
    *(({**CAMPAIGN, "entries": value}, "entries") for value in (None, [], 3, {"a": 1})),
    ({**CAMPAIGN, "entries": [{"id": "a"}]}, r"entry 1 \(a\): the key 'experiment' is missing"),
    ({**CAMPAIGN, "entries": ["a"]}, "entry 1: expected a mapping"),
    *((entry(**{name: None}), f"the key '{name}' is missing") for name in ("id", "experiment")),
    *(
        (entry(minutes=value), "minutes: Input should be")
        for value in ("two", float("nan"), 0, -1, True)
    ),
    (entry(memory=0.5), "memory: Input should be a valid integer"),
    (entry(parameters=[1]), "parameters: Input should be a valid dictionary"),
    (entry(parameters={1: 2}), "parameters.1..*: Input should be a valid string"),
    (entry(answers=["E9"]), "there is no key 'answers'"),
    *((entry(each={"seeds": value}), r"each\[seeds\]: (Input|List) should") for value in (3, [])),
    (
        entry(parameters={"seeds": [0]}, each={"seeds": [[0]]}),
        "seeds stands in `parameters` and in `each`; keep one",
    ),
    ({**CAMPAIGN, "entries": [{"id": "a", "experiment": "train"}] * 2}, "two jobs are called 'a'"),
    (
        entry(each={"seeds": [[seed] for seed in range(400)], "epochs": list(range(300))}),
        "more than 100,000 jobs",
    ),
    *((entry(id=name), "cannot name a file") for name in ("../a", "a b", "$(touch x)", ".a", "")),
    *(
        (bomb(place), "its aliases stand for more than 100,000 values")
        for place in (
            "title: *l11\nentries: [{id: a, experiment: train}]",
            "entries: [{id: *l11, experiment: train}]",
            "entries: [{id: a, experiment: train, each: {seeds: *l11}}]",
        )
    ),
    ("name: small\nentries: &a [*a]\n", "its aliases stand for more than"),
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


def test_an_anchor_may_be_changed_where_it_is_merged(project: Path) -> None:
    path = write(
        project,
        "name: small\ndefaults: &d {epochs: 1, seeds: [0]}\nentries: "
        "[{id: a, experiment: train, parameters: {<<: *d, epochs: 2}}]",
    )
    assert campaigns.load(path).jobs[0].experiment.model_dump()["epochs"] == 2


def test_a_name_reaches_no_path_and_no_shell(project: Path, subtests: pytest.Subtests) -> None:
    for name in ["../y", "x$(touch PWNED)", "a b", "", "x" * 5000, None]:
        with (
            subtests.test(str(name)[:30]),
            pytest.raises(CampaignError, match="a campaign cannot be called"),
        ):
            campaigns.plan(name, project)  # type: ignore[arg-type]


WRONG_JOBS = [
    (
        entry(experiment="tran"),
        r"entry 1 \(a\): experiment: Input should be 'train', .*; got 'tran'; did "
        r"you mean 'train'[?]",
    ),
    (
        {**entry(experiment="mnist"), "defaults": {}},
        "there is no notebook notebooks/experiments/mnist.md",
    ),
    (
        entry(parameters={"epoch": 3}),
        "job a: there is no parameter 'epoch'; did you mean 'epochs'[?] The valid names are: "
        "dataset",
    ),
    (
        entry(parameters={"epochs": "3"}),
        r"job a: epochs: Input should be a valid integer; got '3' \(str\)",
    ),
    (
        entry(parameters={"betas": [0.1, -1.0]}),
        r"job a: betas\[1\]: Input should be greater than 0; got -1.0",
    ),
    (entry(parameters={"record": "x.json"}), "there is no parameter 'record'"),
    (entry(parameters={"self": 1}), "there is no parameter 'self'"),
    *(
        (entry(parameters={name: value}), f"job a: {name}.*: Input should be|job a: .*{name}")
        for name, value in (
            ("hidden", [10**30]),
            ("hidden", [100_000]),
            ("batch_size", 10**15),
            ("subset", 10**15),
            ("validation_size", 10**15),
            ("width", 1e9),
            ("momentum", 2.0),
            ("momentum", 1.0),
            ("learning_rate", 1e300),
            ("weight_decay", 1e300),
            ("imbalance", 1e300),
            ("test_every", 10**15),
        )
    ),
    (
        entry(parameters={"betas": list(range(1, 4001)), "seeds": list(range(4000))}),
        "a job has at most 10,000 runs, and these would be 16,000,000",
    ),
    (
        entry(experiment="samples", parameters={"loss": "softmax"}),
        "the notebook samples has no parameter 'loss'",
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


def test_a_job_is_pending_exactly_if_its_record_is_missing_or_another(project: Path) -> None:
    first, second, third = jobs_of(project)
    assert [job.id for job in campaigns.plan("small", project).pending] == [
        "a-seed0",
        "a-seed1",
        "b",
    ]
    put_record(first)
    put_record(second, parameters={"seeds": [7]})
    put_record(
        third, parameters={"epochs": 2.0, "betas": [1, 0.1], "added_later": 1, "device": "cuda"}
    )
    os.utime(first.record, (0, 0))  # file times play no part
    plan = campaigns.plan("small", project)
    assert [job.id for job in plan.pending] == ["a-seed1"]
    assert "2 of 3 jobs have their record; 1 to run, about 0.1 minutes" in str(plan)


def test_a_recipe_stands_for_its_parameters_until_the_campaign_says_others(project: Path) -> None:
    recipes = project / "campaigns" / "recipes.yml"
    recipes.write_text("fast: {dataset: digits, epochs: 3, warmups: []}\n", encoding="utf-8")
    plain = write(project, {**CAMPAIGN, "defaults": {"recipe": "fast"}})
    assert campaigns.load(plain).jobs[2].parameters == {
        "dataset": "digits",
        "epochs": 3,
        "warmups": [],
        "betas": [1.0, 0.1],
        "seeds": [0],
    }
    write(project, {**CAMPAIGN, "defaults": {"recipe": "fast", "epochs": 2}})
    assert {job.parameters["epochs"] for job in jobs_of(project)} == {2}
    recipes.write_text("fast: {dataset: digits, epochs: 4, warmups: []}\n", encoding="utf-8")
    write(project, {**CAMPAIGN, "defaults": {"recipe": "fast"}})
    assert {job.parameters["epochs"] for job in jobs_of(project)} == {4}
    assert [one.name for one in campaigns.load_all(project / "campaigns")] == ["small"]
    write(project, {**CAMPAIGN, "defaults": {"recipe": "slow"}})
    with pytest.raises(CampaignError, match=r"no recipe 'slow'; the recipes are: fast"):
        jobs_of(project)
    write(project, {**CAMPAIGN, "defaults": {"recipe": ["fast"]}})
    with pytest.raises(CampaignError, match=r"no recipe .*'fast'.*; the recipes are: fast"):
        jobs_of(project)


def coverage(project: Path, entry: str = "b") -> campaigns.Coverage:
    return campaigns.coverage(job for job in jobs_of(project) if job.entry == entry)


def test_a_record_from_before_the_word_experiment_is_the_jobs(project: Path) -> None:
    job = jobs_of(project)[2]
    put_record(job)
    content = json.loads(job.record.read_text())
    content["template"] = content.pop("experiment")
    job.record.write_text(json.dumps(content), encoding="utf-8")
    assert job.done


def test_a_record_of_something_else_is_not_the_jobs(
    project: Path, subtests: pytest.Subtests
) -> None:
    job = jobs_of(project)[2]
    put_record(job)
    assert job.done and coverage(project) == campaigns.Coverage(2, 2)
    first, second = json.loads(job.record.read_text())["runs"]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"experiment": "samples"}, "of the notebook samples"),
        (
            {"parameters": {"learning_rate": 0.0501}},
            "measured with learning_rate 0.0501, not 0.1",
        ),  # a default that has changed
        ({"runs": []}, "runs: List should have at least 1 item"),
        ({"runs": [first]}, "has 1 runs, not 2"),
        ({"runs": [first, first]}, "run 2 of its record is not the planned one"),
        ({"runs": [first | {"seed": 3}, second]}, "run 1 of its record is not the planned one"),
    ]
    for changes, reason in cases:
        with subtests.test(reason):
            put_record(job, **changes)
            assert reason in job.missing()
            assert coverage(project) == campaigns.Coverage(0, 2)  # one meaning of done


def test_a_parameter_that_was_added_later_had_its_default(project: Path) -> None:
    job = jobs_of(project)[2]
    put_record(job)
    content = json.loads(job.record.read_text())
    del content["parameters"]["label_noise"]
    job.record.write_text(json.dumps(content))
    assert job.done
    write(
        project,
        entry(id="b", parameters={**CAMPAIGN["entries"][1]["parameters"], "label_noise": 0.1}),
    )
    assert "label_noise 0.0, not 0.1" in jobs_of(project)[0].missing()


def test_a_damaged_record_counts_as_missing_and_the_plan_says_why(
    project: Path, subtests: pytest.Subtests
) -> None:
    job = jobs_of(project)[0]
    put_record(job)
    content = json.loads(job.record.read_text())
    (run,) = content["runs"]
    for changes, reason in [
        ({"epochs_done": 1}, "1 of 2 epochs were done"),
        ({"runs": [run | {"metrics": {"test_accuracy": 97}}]}, "train_accuracy is missing"),
        ({"parameters": None}, "parameters"),
    ]:
        job.record.write_text(json.dumps({**content, **changes}), encoding="utf-8")
        with subtests.test(str(changes)):
            plan = campaigns.plan("small", project)
            assert job.id in [pending.id for pending in plan.pending]
            assert "a-seed0: it is refused: " in str(plan)
            assert "a-seed0.json is not a whole record" in str(plan)
            assert reason in str(plan)
            assert not job.done
            assert coverage(project, "a") == campaigns.Coverage(0, 2)
    job.record.unlink()
    assert "refused" not in str(campaigns.plan("small", project))
    job.record.mkdir()
    with pytest.raises(CampaignError, match=r"a-seed0\.json"):
        campaigns.plan("small", project)


def test_coverage_counts_trainings(project: Path) -> None:
    put_record(jobs_of(project)[2])
    assert (
        coverage(project)
        == campaigns.Coverage(done=2, planned=2)
        == campaigns.coverage(jobs_of(project)[2:])
    )
    assert coverage(project, "a") == campaigns.Coverage(0, 2)
    assert coverage(project, "c") == campaigns.Coverage(0, 0)
    frame = campaigns.coverage_table(campaigns.load_all(project / "campaigns"))
    assert frame.values.tolist() == [["`small`", "For the tests", "smoke", "2 of 4 runs"]]
    assert campaigns.coverage_table([]).empty
    (job,) = [
        job
        for job in campaigns.load(ROOT / "campaigns" / "tables.yml").jobs
        if job.id == "table-softmax"
    ]
    assert job.experiment.trainings == 15 * 10 * 10


def test_what_did_not_change_is_not_read_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, third = project / "campaigns" / "small.yml", jobs_of(project)[2]
    put_record(third)
    assert coverage(project).done == 2
    opened: list[Path] = []
    whole = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        opened.append(path)
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    monkeypatch.setattr(Path, "read_text", lambda path, **options: read_bytes(path).decode())
    assert coverage(project).done == 2 and campaigns.plan("small", project).done and opened == []
    put_record(third, parameters={"betas": [7.0, 8.0]})
    write(project, {**CAMPAIGN, "title": "Changed"})
    assert coverage(project).done == 0 and set(opened) == {path, third.record}


def test_ten_thousand_jobs_are_planned_in_seconds(project: Path) -> None:
    write(
        project,
        entry(
            each={
                "seeds": [[seed] for seed in range(1000)],
                "learning_rate": [0.01 * rate for rate in range(1, 11)],
            }
        ),
    )
    before = time.process_time()
    assert len(campaigns.plan("small", project).pending) == 10_000
    assert time.process_time() - before < 20


# -- tables ----------------------------------------------------------------------------------------


def test_a_job_whose_file_was_folded_into_the_tables_is_done(project: Path) -> None:
    first, second, third = jobs_of(project)
    for job in (first, third):
        put_record(job)
    assert campaigns.collect("small", project) == "small: 2 more jobs are in results/small.csv"
    assert not first.record.exists()
    assert [job.id for job in campaigns.plan("small", project).done] == ["a-seed0", "b"]
    assert coverage(project) == campaigns.Coverage(2, 2)
    assert [run["seed"] for run in third.measured().runs] == [0, 0]
    assert run("small", "b", project) == third.record, "it is not trained again"
    assert not (project / "started").exists()
    assert campaigns.collect("small", project) == "small: 0 more jobs are in results/small.csv"
    write(project, {**CAMPAIGN, "defaults": {**CAMPAIGN["defaults"], "epochs": 3}})
    plan = campaigns.plan("small", project)
    assert len(plan.pending) == 3
    assert "a-seed0: its record was measured with epochs 2, not 3" in str(plan)


def test_what_was_planned_anew_replaces_its_rows(project: Path) -> None:
    put_record(jobs_of(project)[2])
    campaigns.collect("small", project)
    entries = [CAMPAIGN["entries"][0], {**CAMPAIGN["entries"][1], "parameters": {"betas": [0.5]}}]
    write(project, {**CAMPAIGN, "entries": entries})
    changed = jobs_of(project)[2]
    assert "measured with betas" in changed.missing()
    put_record(changed)
    assert changed.done
    campaigns.collect("small", project)
    assert changed.done and not changed.record.exists()


def test_files_that_are_no_results_of_the_campaign_stay_and_are_named(project: Path) -> None:
    first, second, third = jobs_of(project)
    put_record(first)
    put_record(second, parameters={"seeds": [7]})
    put_record(third)
    foreign = first.record.with_name("a-seed0 (copy).json")
    foreign.write_bytes(first.record.read_bytes())
    third.record.write_text(third.record.read_text()[:-9])
    with pytest.raises(CampaignError) as caught:
        campaigns.collect("small", project)
    of_foreign, of_second, of_third = str(caught.value).split("\n")
    assert of_foreign.endswith("a-seed0 (copy).json: the campaign has no such job; delete it")
    assert "a-seed1.json: its record was measured with seeds" in of_second
    assert "b.json: it is refused: " in of_third
    assert [job.id for job in campaigns.plan("small", project).done] == ["a-seed0"]
    assert not first.record.exists() and second.record.exists() and third.record.exists()


def test_a_second_file_of_a_job_that_is_in_the_tables_is_refused(project: Path) -> None:
    first, *_ = jobs_of(project)
    put_record(first)
    campaigns.collect("small", project)
    put_record(first, wall_seconds=9.0)
    with pytest.raises(CampaignError, match=r"a-seed0\.json is refused: small has a-seed0 already"):
        campaigns.collect("small", project)


def test_a_file_of_other_parameters_does_not_hide_the_tables(project: Path) -> None:
    first, *_ = jobs_of(project)
    put_record(first)
    campaigns.collect("small", project)
    put_record(first, parameters={"seeds": [7]})
    assert first.done and first.measured().parameters["seeds"] == [0]


def test_a_damaged_table_stops_the_plan(project: Path) -> None:
    put_record(jobs_of(project)[0])
    campaigns.collect("small", project)
    table = project / "results" / "small.csv"
    table.write_text(table.read_text()[:-1])
    with pytest.raises(CampaignError, match=r"small\.csv is damaged .*git checkout"):
        campaigns.plan("small", project)


def test_a_rehearsal_stays_out_of_the_tables(project: Path) -> None:
    path = project / "campaigns" / f"{records.REHEARSAL}.yml"
    path.write_text(yaml.safe_dump({**CAMPAIGN, "name": records.REHEARSAL}), encoding="utf-8")
    put_record(campaigns.load(path).jobs[0])
    assert "quick is a rehearsal" in campaigns.collect(records.REHEARSAL, project)
    assert not (project / "results").exists()


# -- jobs that run ---------------------------------------------------------------------------------


def test_a_job_runs_once_though_two_processes_want_it(project: Path) -> None:
    job = jobs_of(project)[2]
    job.record.parent.mkdir(parents=True)
    (job.record.parent / "b.json.elsewhere.123.partial").write_text(
        '{"schema'
    )  # of a process that was killed
    command = [sys.executable, "-m", "study.campaign", "run", "small", "b"]
    both = [
        subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0] and "runs this job" in "".join(said)
    assert job.done and (project / "started").read_text().count("\n") == 1
    assert [path.name for path in job.record.parent.iterdir()] == ["b.json"]


def test_nothing_is_trained_where_the_record_cannot_be_written(project: Path) -> None:
    (project / "build").mkdir()
    (project / "build" / "results").write_text("a file")
    with pytest.raises(OSError, match="results"):
        run("small", "b", project)
    assert not (project / "started").exists()


@pytest.mark.usefixtures("no_kernel")
def test_a_job_that_leaves_no_record_fails(project: Path) -> None:
    notebook = project / "notebooks" / "experiments" / "train.md"
    notebook.write_text(NOTEBOOK.replace(".write(record)", ""), encoding="utf-8")
    with pytest.raises(CampaignError, match=r"b\.ipynb ran to its end, but it has no record"):
        run("small", "b", project)
    notebook.write_text(
        NOTEBOOK.replace(
            "for planned in experiment.planned()", "for planned in experiment.planned()[1:]"
        ),
        encoding="utf-8",
    )
    with pytest.raises(CampaignError, match="but its record has 1 runs, not 2"):
        run("small", "b", project)
    assert not jobs_of(project)[
        2
    ].record.exists()  # what is not the job's does not come among the records
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
    put_record(first)
    before = first.record.read_bytes()
    (project / "broken").touch()
    failed = snakemake(project)  # one job fails, the others run
    assert failed.returncode != 0 and "1 of 3 jobs have their record; 2 to run" in failed.stderr
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
        changed.returncode == 0 and "1 of 3 jobs have their record; 2 to run" in changed.stderr
    ), changed.stderr
    assert json.loads(third.record.read_text(encoding="utf-8"))["parameters"]["betas"] == [0.5]
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


# -- the campaigns of the project ------------------------------------------------------------------


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
def test_a_fresh_job_leaves_the_committed_record_alone(project: Path) -> None:
    first, *_ = jobs_of(project)
    put_record(first)
    before = first.record.read_bytes()
    (fresh, *_) = campaigns.plan("small", project, fresh=True).pending
    assert fresh.record == project / "build" / "fresh" / "small" / "records" / "a-seed0.json"
    assert run("small", "a-seed0", project, fresh=True) == fresh.record
    assert first.record.read_bytes() == before
    assert fresh.done
    assert not (project / "build" / "small").exists(), "nor its logs and checkpoints"
    assert "small, trained anew: 1 of 3" in str(campaigns.plan("small", project, fresh=True))


def shifted(job: Job, **metrics: float) -> None:
    """The record that the job has, with other metrics in every run."""
    content = json.loads(job.record.read_text(encoding="utf-8"))
    for found in content["runs"]:
        found["metrics"] |= metrics
    job.record.write_text(json.dumps(content), encoding="utf-8")


def test_what_was_trained_anew_is_equal_within_the_deviation_or_different(project: Path) -> None:
    seeds = {"each": {"seeds": [[0], [1], [2], [3]]}, "parameters": {"betas": [1]}}
    write(project, {**entry(**seeds), "defaults": CAMPAIGN["defaults"]})
    committed = jobs_of(project)
    for job, accuracy in zip(committed, (0.50, 0.52, 0.54, 0.56), strict=True):
        put_record(job)
        shifted(job, test_accuracy=accuracy)
    again = committed[0].again(project)

    missing = agreement(again, committed)
    assert (missing.outcome, missing.why) == ("not compared", "the new record: it has no record")
    put_record(again)
    shifted(again, test_accuracy=0.50)
    assert str(agreement(again, committed)) == "a-seed0: equal"
    shifted(committed[0], test_ece=0.2)
    assert str(agreement(again, committed)) != "a-seed0: equal", "the committed one has more"
    put_record(committed[0])
    shifted(committed[0], test_accuracy=0.50)
    # the deviation of the four is 2.58 points, and three errors of a difference of two are 10.95
    for accuracy, outcome in ((0.60, "within the seeds' deviation"), (0.62, "different")):
        shifted(again, test_accuracy=accuracy)
        found = agreement(again, committed)
        assert found.outcome == outcome
        points = round(100 * (accuracy - 0.5))
        assert found.why == f"1: test accuracy +{points} points, the seeds' deviation is 2.58"
    for job in committed[2:]:
        job.record.unlink()
    few = agreement(again, committed)
    assert few.outcome == "different"
    assert few.why.endswith("2 seeds are too few for a deviation")
    committed[0].record.unlink()
    assert agreement(again, committed).why == "the committed record: it has no record"
    lines = report([few, missing]).splitlines()
    assert lines[0].startswith("a-seed0: different (")
    bars = {line.split("|")[0].strip(): line.split("|")[1] for line in lines[2:]}
    assert bars["different"].strip() == 10 * "█"
    assert bars["equal"].strip() == ""


def test_snakemake_trains_anew_and_the_records_agree(project: Path) -> None:
    for job in jobs_of(project):
        put_record(job)
    done = snakemake(project, "fresh=1", "only=a-*")
    assert done.returncode == 0, done.stderr
    assert "small, trained anew: 0 of 2 jobs have their record; 2 to run" in done.stderr
    told_of = subprocess.run(
        [sys.executable, "-m", "study.campaign", "agree", "small", "a-*"],
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert told_of.returncode == 0, told_of.stderr
    assert told_of.stdout.splitlines()[:2] == ["a-seed0: equal", "a-seed1: equal"]
    assert not list((project / "build").glob("fresh/*/done/*"))
    shifted(jobs_of(project)[0].again(project), test_accuracy=0.4)
    again = [sys.executable, "-m", "study.campaign", "agree", "small", "a-*"]
    assert subprocess.run(again, cwd=project, capture_output=True).returncode == 1


def test_the_campaigns_of_the_project_are_valid(subtests: pytest.Subtests) -> None:
    for campaign in campaigns.load_all(ROOT / "campaigns"):
        with subtests.test(campaign.name):
            plan = campaigns.plan(campaign.name, ROOT)
            assert plan.campaign.jobs
            assert all(job.minutes is not None for job in plan.campaign.jobs), (
                "every entry says how long a job takes"
            )
