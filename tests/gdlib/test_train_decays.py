"""How the learning rate falls: worked out by hand, and gone on with after an interruption."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional import gd_cross_entropy
from gdlib.models import RunModel, StackedMLP
from gdlib.train import RunLoss, loop, train


class Stop(Exception):
    """Breaks a training off."""


def fitted(
    path: Path | None = None, stop_at: int = -1, *, epochs: int = 4, **options
) -> tuple[RunModel, list[dict]]:
    """Train two runs on 21 samples; return the model and the history.

    The batches are of 5, that is five steps an epoch.
    """
    generator = torch.Generator().manual_seed(0)
    inputs, labels = (
        torch.randn(21, 4, generator=generator),
        torch.randint(0, 3, (21,), generator=generator),
    )
    model = StackedMLP([4, 6, 3], [0, 1])

    def loss(logits, labels, beta):
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").unflatten(
            0, labels.shape
        )

    def measure(model, epoch):
        if epoch == stop_at:
            raise Stop
        return {}

    common = {
        "epochs": epochs,
        "batch_size": 5,
        "lr": 0.1,
        "checkpoint": path,
        "measure": measure,
    }
    return model, train(model, RunLoss(loss), (inputs, labels), **common | options)


def rates(**options) -> list[float]:
    return [entry["lr"] for entry in fitted(**options)[1]]


class TestExponential:
    def test_falls_to_a_thousandth_in_the_last_epoch(self):
        """The rate of the history is that of the next epoch.

        Four epochs are at 0.1, 0.01, 0.001 and 0.0001.
        """
        first, *found = rates(lr_schedule="exponential")  # epoch 0 trains nothing
        assert first == 0.1
        assert found[:3] == pytest.approx([0.01, 0.001, 0.0001], rel=1e-6)

    def test_one_epoch_alone(self):
        assert rates(lr_schedule="exponential", epochs=1)[0] == pytest.approx(0.1)


def one_cycle(step: int, total: int, peak: float = 0.1) -> float:
    """PyTorch's one cycle with its usual numbers.

    It goes up from 1/25 of the peak over 30 % of the steps, then down to 1/250,000, along cosines.
    """
    last_up = 0.3 * total - 1
    start, end = peak / 25, peak / 25 / 1e4
    if step <= last_up:
        return peak + (start - peak) * (1 + math.cos(math.pi * step / last_up)) / 2
    return (
        end + (peak - end) * (1 + math.cos(math.pi * (step - last_up) / (total - 1 - last_up))) / 2
    )


class TestOneCycle:
    def test_goes_up_and_down_from_step_to_step(self):
        """After an epoch of five steps the history has the rate of the next step.

        The last step has been done at the end.
        """
        found = rates(lr_schedule="one-cycle")
        assert found[:4] == pytest.approx(
            [one_cycle(5 * epoch, 20) for epoch in range(4)], rel=1e-6
        )
        assert max(found) <= 0.1 and found[0] == pytest.approx(0.1 / 25)

    @pytest.mark.parametrize("optimizer", ["sgd", "adam"])
    def test_the_momentum_is_that_of_the_cycle(self, optimizer):
        first, _ = fitted(lr_schedule="one-cycle", optimizer=optimizer, momentum=0.3)
        second, _ = fitted(lr_schedule="one-cycle", optimizer=optimizer, momentum=0.9)
        assert all(
            torch.equal(one, other)
            for one, other in zip(first.parameters(), second.parameters(), strict=True)
        )

    def test_a_recorded_step_is_refused(self, monkeypatch):
        monkeypatch.setattr(loop, "can_be_recorded", lambda batches: True)
        with pytest.raises(ValueError, match="one-cycle' changes the momentum in every step"):
            fitted(lr_schedule="one-cycle", optimizer="adam", recorded=True)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("lr_schedule", ["exponential", "one-cycle"])
def test_an_interrupted_training_ends_in_the_same_weights(tmp_path, lr_schedule, optimizer):
    options = {
        "lr_schedule": lr_schedule,
        "optimizer": optimizer,
        "momentum": 0.9,
        "weight_decay": 1e-3,
    }
    straight, expected = fitted(**options)
    for stop_at in (1, 3):
        path = tmp_path / f"state{stop_at}.pt"
        with pytest.raises(Stop):
            fitted(path, stop_at, **options)
        resumed, history = fitted(path, **options)
        assert [entry["lr"] for entry in history] == [entry["lr"] for entry in expected]
        assert all(
            torch.equal(one, other)
            for one, other in zip(straight.parameters(), resumed.parameters(), strict=True)
        )


@pytest.mark.parametrize("lr_schedule", ["exponential", "one-cycle"])
def test_more_epochs_are_another_training(tmp_path, lr_schedule):
    """The rates of the file once went on.

    They went down to 1e-10 where 1.8e-5 was asked for, or past the last step of the cycle.
    """
    fitted(tmp_path / "state.pt", epochs=2, lr_schedule=lr_schedule)
    with pytest.raises(
        ValueError,
        match="state.pt was written with epochs=2, not 5; "
        "restore the old value or delete it to start again",
    ):
        fitted(tmp_path / "state.pt", epochs=5, lr_schedule=lr_schedule)
    with pytest.raises(
        ValueError,
        match=f"lr_schedule='{lr_schedule}', not 'milestones'; "
        "milestones=None, not \\[\\]; restore",
    ):
        fitted(tmp_path / "state.pt", epochs=2)


def test_an_unknown_schedule():
    with pytest.raises(
        ValueError, match="unknown lr_schedule 'cosine'; valid: milestones, exponential, one-cycle"
    ):
        fitted(lr_schedule="cosine")


def test_a_run_that_diverges_leaves_the_loss_of_its_neighbour() -> None:
    def decayed(logits: Tensor, labels: Tensor, beta: Tensor) -> Tensor:
        return gd_cross_entropy(logits.movedim(2, 1), labels, beta=beta[:, None], reduction="none")

    decayed.beta_and_temperature = lambda beta: (beta, 1.0)
    decayed.constant = 1.0
    inputs, labels = torch.tensor([[50.0]]), torch.tensor([1])
    found = {}
    for weights in ([1.0], [1.0, math.nan]):
        stack = StackedMLP([1, 1, 2], seeds=list(range(len(weights))))  # by hand, with ReLU
        for run, weight in enumerate(weights):
            stack.weights[0].data[run] = weight
            stack.weights[1].data[run] = torch.tensor([[1.0, -1.0]])
            stack.biases[0].data[run] = stack.biases[1].data[run] = 0.0
        history = train(
            stack, RunLoss(decayed), (inputs, labels), epochs=1, lr=0.1, batch_size=1, betas=0.5
        )
        found[len(weights)] = history[1]["loss"][0].item()
    assert found[1] == found[2] == pytest.approx(101.0)  # e^100 against 1, and the constant
