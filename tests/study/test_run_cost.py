"""The time of a step: what is measured, in which order, and what is recorded."""

from __future__ import annotations

import itertools

import pytest
import torch

from study import campaign, records
from study.experiment import StepCost
from study.run import cost, measure_cost

QUICK = {
    "losses": ["softmax", "arcgrad 10", "center 0.02"],
    "width": 0.125,
    "stem": "tiny-imagenet",
    "batch_size": 2,
    "steps": 1,
}


def test_a_record_has_a_run_for_each_network_loss_and_repetition(monkeypatch, tmp_path):
    monkeypatch.setattr(
        cost.time, "process_time", itertools.count(0.0).__next__
    )  # gains a second whenever it is read
    experiment = StepCost(**QUICK | {"repetitions": 2, "first": 5})
    table = records.to_frame(records.load(measure_cost(experiment).write(tmp_path / "record.json")))
    assert list(zip(table["model"], table["loss"], table["seed"], strict=True)) == [
        ("resnet18", loss, repetition)
        for repetition in (5, 6)
        for loss in ("softmax", "arcgrad 10", "center 0.02")
    ]
    assert len(table) == experiment.trainings
    assert (
        set(table["step_seconds"]) == set(table["criterion_seconds"]) == {1.0}
    )  # two readings of the clock for each
    assert (
        set(table["measured_on"]) == {"cpu"}
        and set(table["scale"]) == {"smoke"}
        and not table["diverged"].any()
    )


def test_the_losses_take_turns(monkeypatch):
    done = []
    monkeypatch.setattr(
        cost._OneLoss, "__call__", lambda self, images, labels: done.append(self.loss)
    )
    monkeypatch.setattr(cost._OneLoss, "criterion", lambda self, images, labels: None)
    measure_cost(
        StepCost(**QUICK | {"losses": ["softmax", "arcgrad 10"], "steps": 2, "repetitions": 2})
    )
    warm_up, measured = done[:2], done[2:]
    assert warm_up == ["softmax", "arcgrad 10"]
    assert (
        measured == ["softmax", "arcgrad 10"] * 2 + ["arcgrad 10", "softmax"] * 2
    )  # another one begins in every repetition


def test_a_step_trains_and_the_criterion_alone_does_not():
    one = cost._OneLoss(StepCost(**QUICK), "resnet18", "arcgrad 10", torch.device("cpu"))
    batch = cost._batch(StepCost(**QUICK), torch.Generator().manual_seed(0), torch.device("cpu"))
    before = [parameter.detach().clone() for parameter in one.model.parameters()]
    one.criterion(*batch)
    assert all(
        torch.equal(old, new) for old, new in zip(before, one.model.parameters(), strict=True)
    )
    one(*batch)
    assert not any(
        torch.equal(old, new) for old, new in zip(before, one.model.parameters(), strict=True)
    )


def test_networks_of_two_losses_start_alike():
    first, second = (
        cost._OneLoss(StepCost(**QUICK), "resnet18", loss, torch.device("cpu"))
        for loss in ("softmax", "arcgrad 10")
    )
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(first.features, second.features)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there():
    with pytest.raises(ValueError, match="PyTorch finds no GPU"):
        measure_cost(StepCost(**QUICK | {"device": "cuda"}))
    found = measure_cost(StepCost(**QUICK | {"device": "auto", "repetitions": 1}))
    assert {run["measured_on"] for run in found.runs} == {"cpu"}


def test_the_campaign_adds_to_its_own_measurements():
    jobs = {job.id: job for job in campaign.load("campaigns/angular-cost.yml").jobs}
    first, more = (
        [tuple(run.values()) for run in jobs[name].experiment.planned()]
        for name in ("reduced", "more")
    )
    assert len(first) == 2 * 2 * 10 and not set(first) & set(more)
