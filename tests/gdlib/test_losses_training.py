"""Losses that keep something from batch to batch.

Tested with several processes, with activation checkpointing, and compiled.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch import multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from gdlib.heads import CosineLinear
from gdlib.losses import AdaCosLoss, SphereFaceLoss, _training

SIZES = [(6, 6), (5, 7), (3, 9)]  # samples of the two processes, step by step


def batches(seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(12, 4, generator=generator), torch.randint(-1, 3, (12,), generator=generator))
        for _ in SIZES
    ]


class Classifier(nn.Module):
    """A head with its loss: what is given to DistributedDataParallel."""

    def __init__(self, runs: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = CosineLinear(4, 3)
        self.loss = AdaCosLoss(3, ignore_index=-1, reduction="sum", runs=runs)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        cosines = self.head(features)
        if self.loss.scale.ndim:
            cosines, labels = torch.stack([cosines, cosines / 2]), torch.stack([labels, labels])
        return self.loss(cosines, labels)


def train(rank: int, file: str, folder: str, runs: int | None) -> None:
    """Train one of two processes on its part of every batch."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    model = Classifier(runs)
    parallel = DistributedDataParallel(model, broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scales = []
    for (features, labels), sizes in zip(batches(), SIZES, strict=True):
        optimizer.zero_grad()
        own = slice(0, sizes[0]) if rank == 0 else slice(sizes[0], None)
        (2 * parallel(features[own], labels[own])).backward()  # DDP takes the mean of the sums
        optimizer.step()
        scales.append(model.loss.scale.clone())
    torch.save({"scales": scales, "weight": model.head.weight}, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.parametrize("runs", [None, 2])
def test_two_processes_have_the_scale_of_their_batches_together(tmp_path: Path, runs) -> None:
    model = Classifier(runs)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    for features, labels in batches():
        optimizer.zero_grad()
        model(features, labels).backward()
        optimizer.step()
        expected.append(model.loss.scale.clone())
    mp.spawn(train, (str(tmp_path / "meeting"), str(tmp_path), runs), nprocs=2)
    for rank in (0, 1):
        found = torch.load(tmp_path / f"{rank}.pt")
        for one, other in zip(found["scales"], expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found["weight"], model.head.weight, rtol=1e-4, atol=1e-5)
    first, second = (torch.load(tmp_path / f"{rank}.pt")["scales"] for rank in (0, 1))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


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
    monkeypatch.setattr(_training, "_graph_task", lambda: -1)
    untold(features, labels).backward()
    assert torch.equal(told.loss.scale, untold.loss.scale)


def test_compiled_as_one_graph() -> None:
    plain, compiled = Classifier(), Classifier()
    step = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    for features, labels in batches():
        torch.testing.assert_close(step(features, labels), plain(features, labels))
        torch.testing.assert_close(compiled.loss.scale, plain.loss.scale)
