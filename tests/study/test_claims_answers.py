"""Which jobs of the campaigns answer which claim: it follows from the runs that a claim names."""

from __future__ import annotations

from study import ROOT, campaign, claims, records, results
from study.claims import answers


def test_every_run_that_decides_is_of_a_job_that_answers():
    runs = results.everything()
    for claim, written in claims.ledger().items():
        planned = {(job.campaign, job.record.name) for job in answers.jobs_of(claim)}
        for name in {part.runs for part in written.parts.values() if not part.at}:
            found = claims.runs_of(runs, name)
            if "record" in found:  # the rows of Table I are means over records
                measured = set(zip(found["campaign"], found["record"], strict=True))
                assert measured <= planned, f"{claim}, {name}"


def test_every_job_answers_a_claim():
    answered = {
        (job.campaign, job.id) for claim in claims.ledger() for job in answers.jobs_of(claim)
    }
    idle = [
        (job.campaign, job.id)
        for one in campaign.load_all(ROOT / "campaigns")
        for job in one.jobs
        if one.name != records.REHEARSAL and (job.campaign, job.id) not in answered
    ]
    assert not idle


def test_a_claim_without_runs_has_no_jobs():
    assert answers.jobs_of("T1") == []
    assert answers.answering(["T1", "E99"]) == []


def test_a_claim_without_parts_names_its_runs():
    assert {job.campaign for job in answers.jobs_of("E7")} == {"svhn"}
    assert {job.campaign for job in answers.jobs_of("R1")} == {"mnist"}
