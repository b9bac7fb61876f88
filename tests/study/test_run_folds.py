"""Runs with parts of a table: a stack equals its runs alone, and a plain loop."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib.models import StackedMLP
from gdlib.train import RunLoss, batch_order, train
from study import data
from study.losses import parse
from study.objective import StackLoss
from study.run import of_folds, order_of_parts


def loss_of(text: str, classes: int, runs: int = 2) -> StackLoss:
    return StackLoss(parse(text), classes, runs=runs, features=5)


def blobs(samples: int = 53) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (samples,), generator=generator)
    return torch.randn(samples, 4, generator=generator) + 2 * F.one_hot(labels, 4), labels


class TestRunsWithSamplesOfTheirOwn:
    """The argument `order` of the loop."""

    def parts(self) -> list[Tensor]:
        everything = torch.arange(53)
        return [
            everything[everything % 4 != left_out] for left_out in range(4)
        ]  # 39, 40, 40, 40 samples

    def test_a_stack_equals_its_runs_alone(self, subtests):
        for optimizer in ("sgd", "adam"):
            with subtests.test(optimizer):
                self.stack(optimizer)

    def stack(self, optimizer: str) -> None:
        (inputs, labels), parts = blobs(), self.parts()
        order = order_of_parts(parts, [5, 6, 7, 8])

        def trained(members: list[int]) -> StackedMLP:
            model = StackedMLP([4, 16, 16, 3], [5 + member for member in members], bias=False)
            train(
                model,
                RunLoss(loss_of("softmax", 3)),
                (inputs, labels),
                epochs=5,
                batch_size=16,
                lr=0.05,
                optimizer=optimizer,
                momentum=0.9,
                order=lambda epoch: order(epoch)[members],
            )
            return model

        together = trained([0, 1, 2, 3])
        for member in range(4):
            for stacked, alone in zip(
                together.parameters(), trained([member]).parameters(), strict=True
            ):
                torch.testing.assert_close(stacked[member], alone[0], rtol=1e-5, atol=1e-6)

    def test_against_a_plain_loop(self, subtests):
        for optimizer, kind in {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}.items():
            with subtests.test(optimizer):
                self.loop(optimizer, kind)

    def loop(self, optimizer: str, kind: type[torch.optim.Optimizer]) -> None:
        (inputs, labels), parts = blobs(), self.parts()
        model = StackedMLP([4, 6, 3], [0, 1, 2, 3], bias=False, activation="tanh")
        plain = []
        for run in range(4):
            net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3, bias=False))
            with torch.no_grad():
                net[0].weight.copy_(model.weights[0][run].T)
                net[0].bias.copy_(model.biases[0][run])
                net[2].weight.copy_(model.weights[1][run].T)
            plain.append(net)
        settings = {
            "epochs": 3,
            "batch_size": 10,
            "lr": 0.02,
            "optimizer": optimizer,
            "momentum": 0.9,
            "weight_decay": 1e-3,
        }
        train(
            model,
            RunLoss(loss_of("softmax", 3)),
            (inputs, labels),
            order=order_of_parts(parts, [0, 1, 2, 3]),
            **settings,
        )
        for run, net in enumerate(plain):
            own = {"momentum": 0.9} if kind is torch.optim.SGD else {}
            update = kind(net.parameters(), lr=0.02, weight_decay=1e-3, **own)
            for epoch in range(1, 4):
                for batch in parts[run][batch_order(run, epoch, len(parts[run]))][:39].split(10):
                    update.zero_grad()
                    F.cross_entropy(net(inputs[batch]), labels[batch]).backward()
                    update.step()
            torch.testing.assert_close(model.weights[0][run].T, net[0].weight, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(model.weights[1][run].T, net[2].weight, rtol=1e-4, atol=1e-5)

    def test_an_epoch_takes_as_many_of_each_part_and_each_once(self):
        parts = self.parts()
        order = order_of_parts(parts, [0, 0, 1, 2])
        drawn = [order(epoch) for epoch in range(1, 30)]
        for of_epoch in drawn:
            assert of_epoch.shape == (4, 39)
            for row, part in zip(of_epoch.tolist(), parts, strict=True):
                assert len(set(row)) == 39 and set(row) <= set(part.tolist())
        assert set(torch.cat(drawn, 1)[1].tolist()) == set(
            parts[1].tolist()
        )  # what one epoch leaves out, another takes
        assert torch.equal(order(3), drawn[2])


def test_of_folds_are_the_means_of_each_seed() -> None:
    """Two seeds of three folds, measured at the start and after the second epoch."""
    accuracy = torch.tensor([0.1, 0.2, 0.6, 0.0, 0.0, 0.3])
    lost = torch.tensor([False, False, True, False, False, False])
    history = [
        {"epoch": 0, "test_accuracy": accuracy / 2, "train_accuracy": accuracy, "diverged": ~lost},
        {"epoch": 1},
        {"epoch": 2, "test_accuracy": accuracy, "train_accuracy": 1 - accuracy, "diverged": lost},
    ]
    first, second = of_folds(history, data.table("iris"), seeds=[4, 7])
    assert (first["seed"], second["seed"]) == (4, 7)
    assert (first["dataset"], first["classes"]) == ("iris", 3)
    assert first["metrics"]["test_accuracy"] == pytest.approx(0.3)
    assert second["metrics"]["train_accuracy"] == pytest.approx(0.9)
    assert [one["metrics"]["diverged_folds"] for one in (first, second)] == [1, 0]
    assert first["curves"]["epoch"] == [0, 2]
    assert first["curves"]["test_accuracy"].tolist() == pytest.approx([0.15, 0.3])
