"""The commands of "Run it again": every claim's are valid, and the small one really is small."""

from __future__ import annotations

import shlex

import pytest
import yaml

from study import claims
from study.settings import TEMPLATES
from study.tables import rerun

ANSWERED = [name for name, claim in claims.ledger().items() if claim.parts]


@pytest.mark.parametrize("claim", ANSWERED)
def test_the_lines_of_a_claim_give_the_parameters_back(claim):
    jobs = rerun.deciding(claim)
    assert jobs, f"no campaign answers {claim}"
    job = jobs[0]
    for parameters in (dict(job.parameters), rerun.small(claim, job)):
        words = shlex.split(rerun.command(job.template, parameters))
        given = yaml.safe_load(words[words.index("-y") + 1])
        assert given == yaml.safe_load(yaml.safe_dump(parameters))
        TEMPLATES[job.template](**given)


@pytest.mark.parametrize("claim", ANSWERED)
def test_the_small_one_needs_no_file(claim):
    job = rerun.deciding(claim)[0]
    setting = TEMPLATES[job.template](**rerun.small(claim, job))
    names = getattr(setting, "datasets", None) or [getattr(setting, "dataset", "digits")]
    assert set(names) <= {"digits", "iris", "wine", "breast_cancer"}
    assert setting.trainings <= 20
