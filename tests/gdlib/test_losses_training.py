"""Losses that keep something from batch to batch.

Tested with activation checkpointing, and compiled.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gdlib.functional import _arguments
from gdlib.heads import CosineLinear
from gdlib.losses import AdaCosLoss, SphereFaceLoss


def batches(seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(12, 4, generator=generator), torch.randint(-1, 3, (12,), generator=generator))
        for _ in range(3)
    ]


class Classifier(nn.Module):
    """A head with its loss."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = CosineLinear(4, 3)
        self.loss = AdaCosLoss(3, ignore_index=-1, reduction="sum")

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        return self.loss(self.head(features), labels)


def test_an_annealed_margin_counts_batches_of_training_alone() -> None:
    loss_fn = SphereFaceLoss(annealing=lambda step: 10.0 / (1 + step))
    cosines, labels = torch.rand(4, 3) / 2, torch.tensor([0, 1, 2, 0])
    loss_fn.eval()
    loss_fn(cosines, labels)
    assert loss_fn.steps == 0
    loss_fn.train()
    loss_fn(cosines, labels)
    assert loss_fn.steps == 1


def test_adacos_starts_at_its_smallest_scale_where_that_is_larger() -> None:
    assert AdaCosLoss(2, minimum_scale=5.0).scale == 5.0
    assert AdaCosLoss(3, minimum_scale=0.1).scale == pytest.approx(math.sqrt(2) * math.log(2))


@pytest.mark.parametrize("reentrant", [False, True])
class TestActivationCheckpointing:
    def test_the_scale_of_adacos_follows_a_batch_once(self, reentrant) -> None:
        plain, saving = Classifier(), Classifier()
        for features, labels in batches():
            ours, theirs = (features.clone().requires_grad_() for _ in range(2))
            plain(ours, labels).backward()
            checkpoint(saving, theirs, labels, use_reentrant=reentrant).backward()
            assert torch.equal(saving.loss.scale, plain.loss.scale)
            torch.testing.assert_close(theirs.grad, ours.grad)
            torch.testing.assert_close(saving.head.weight.grad, plain.head.weight.grad)

    def test_an_annealed_margin_counts_a_batch_once(self, reentrant) -> None:
        plain, saving = (
            SphereFaceLoss(margin=3, annealing=lambda step: 10.0 / (1 + step), ignore_index=-1)
            for _ in range(2)
        )
        for features, labels in batches():
            cosines = torch.tanh(features[:, :3])
            ours, theirs = (cosines.clone().requires_grad_() for _ in range(2))
            plain(ours, labels).backward()
            checkpoint(saving, theirs, labels, use_reentrant=reentrant).backward()
            assert torch.equal(saving.steps, plain.steps)
            torch.testing.assert_close(theirs.grad, ours.grad)


def test_where_pytorch_does_not_tell_of_a_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    told, untold = Classifier(), Classifier()
    features, labels = batches()[0]
    told(features, labels).backward()
    monkeypatch.setattr(_arguments, "_graph_task", lambda: -1)
    untold(features, labels).backward()
    assert torch.equal(told.loss.scale, untold.loss.scale)


def test_compiled_as_one_graph() -> None:
    plain, compiled = Classifier(), Classifier()
    step = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    for features, labels in batches():
        torch.testing.assert_close(step(features, labels), plain(features, labels))
        torch.testing.assert_close(compiled.loss.scale, plain.loss.scale)
