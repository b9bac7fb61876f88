"""The commands of "Run it again": every claim's are valid, and the small one is small and runs."""

from __future__ import annotations

import itertools
import shlex

import jupytext
import matplotlib.pyplot as plt
import pytest
import torch
import yaml

from study import ROOT, claims, records
from study.campaign import plan
from study.experiment import EXPERIMENTS
from study.tables import Page, rerun
from tests.study.small import execute

ANSWERED = [name for name, claim in claims.ledger().items() if claim.parts]


@pytest.mark.parametrize("claim", ANSWERED)
def test_the_lines_of_a_claim_give_the_parameters_back(claim):
    jobs = rerun.jobs(claim)
    assert jobs, f"no campaign answers {claim}"
    job = jobs[0]
    parameters = rerun.small(claim, job)
    words = shlex.split(rerun.command(job.notebook, parameters))
    given = yaml.safe_load(words[words.index("-y") + 1])
    assert given == yaml.safe_load(yaml.safe_dump(parameters))
    EXPERIMENTS[job.notebook](**given)


@pytest.mark.parametrize(
    ("claim", "trained"),
    [("L3", "lm 0.3"), ("B3", "feedback 1, 5, 5"), ("A5", "arcgrad 10"), ("E10", "warm-up 0.1→1")],
)
def test_the_small_line_trains_the_method_that_the_claim_names_first(claim, trained):
    job = rerun.jobs(claim)[0]
    runs = EXPERIMENTS[job.notebook](**rerun.small(claim, job)).planned()
    assert [run["schedule"] for run in runs] == [trained]


@pytest.mark.parametrize("claim", ANSWERED)
def test_the_line_that_trains_a_job_anew_names_one_job(claim):
    job = rerun.jobs(claim)[0]
    words = dict(word.split("=") for word in shlex.split(rerun.anew(job))[2:])
    (planned,) = plan(words["CAMPAIGN"], ROOT, only=words["ONLY"]).campaign.jobs
    assert planned.id == job.id
    assert ("FRESH" in words) == job.done


def shape(claim: str) -> tuple[str, str]:
    """What of a claim's small line can fail in a way of its own: the notebook and the loss."""
    job = rerun.jobs(claim)[0]
    return job.notebook, str(rerun.small(claim, job))


LINES = list({shape(claim): claim for claim in reversed(ANSWERED)}.values())


@pytest.fixture
def figures_closed():
    yield
    plt.close("all")


@pytest.mark.usefixtures("figures_closed")
@pytest.mark.parametrize("claim", LINES)
def test_the_small_line_runs_to_its_end_and_leaves_its_record(claim, tmp_path):
    """Its cells run here; test_notebooks.py runs each template once in a kernel, by papermill."""
    job = rerun.jobs(claim)[0]
    parameters = rerun.small(claim, job)
    written = tmp_path / "run.json"
    template = ROOT / "notebooks" / "experiments" / f"{job.notebook}.md"
    execute(jupytext.read(template), parameters | {"record": str(written)})
    planned = EXPERIMENTS[job.notebook](**parameters).planned()
    assert len(records.load(written).runs) == len(planned)


@pytest.mark.parametrize("claim", ANSWERED)
def test_the_small_one_needs_no_file(claim):
    job = rerun.jobs(claim)[0]
    experiment = EXPERIMENTS[job.notebook](**rerun.small(claim, job))
    names = getattr(experiment, "datasets", None) or [getattr(experiment, "dataset", "digits")]
    assert set(names) <= {"digits", "iris", "wine", "breast_cancer"}
    assert experiment.trainings <= 20


@pytest.mark.parametrize("claim", ["E8", "E11", "E12", "B2"])
def test_the_job_to_run_anew_is_of_runs_that_decide(claim):
    """Here those without augmentation, which have learnt their training images."""
    text = Page(claim).ground().data
    (line,) = [line for line in text.splitlines() if "ONLY=" in line]
    words = dict(word.split("=") for word in shlex.split(line)[2:])
    (job,) = plan(words["CAMPAIGN"], ROOT, only=words["ONLY"]).campaign.jobs
    assert job.done and job.experiment.augmentation == "none"
    unbegun = text[text.index("Not begun yet") :]
    assert "make reproduce CAMPAIGN=cifar100\n" in unbegun


def test_the_numbers_of_a_plane_are_those_of_its_points(tmp_path):
    template = ROOT / "notebooks" / "experiments" / "feature-plane.md"
    written = tmp_path / "run.json"
    asked = {"betas": [1.0], "seeds": [0], "epochs": 1}
    execute(jupytext.read(template), asked | {"record": str(written)})
    plt.close("all")
    (run,) = records.load(written).runs
    points = torch.tensor([run["points"]["x"], run["points"]["y"]], dtype=torch.float64).T
    labels = torch.tensor(run["points"]["label"])
    centres = torch.stack([points[labels == c].mean(0) for c in range(10)])
    to_centres = (points[:, None] - centres).norm(dim=2)
    within = [to_centres[labels == c, c].mean().item() for c in range(10)]
    between = [(a - b).norm().item() for a, b in itertools.permutations(centres, 2)]
    mean = sum(between) / len(between)
    metrics = run["metrics"] | run
    assert metrics["intra_inter_ratio"] == pytest.approx(sum(within) / 10 / mean, rel=0.05)
    assert metrics["minimum_to_mean_inter"] == pytest.approx(min(between) / mean, rel=0.05)
    strayed = (to_centres.argmin(1) != labels).double().mean().item()
    assert metrics["strayed"] == pytest.approx(strayed, abs=0.01)
