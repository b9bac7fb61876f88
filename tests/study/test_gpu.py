"""The rehearsal of a session on a GPU, on a CPU: pack, unpack, check, train, by the same code."""

from __future__ import annotations

import itertools
import json
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from study import ROOT, data, gpu, records, run
from study.experiment import Train
from study.records import files


def images(name: str, samples: int = 240) -> data.Dataset:
    """A small set in the shape of the large ones; pictures of slopes, with some noise."""
    generator = torch.Generator().manual_seed(0)
    slopes = torch.arange(32)[:, None] * 3 + torch.arange(32) * 2
    shifts = torch.randint(0, 99, (samples, 3, 1, 1), generator=generator)
    noise = torch.randint(0, 9, (samples, 3, 32, 32), generator=generator)
    pixels = (slopes + shifts + noise).to(torch.uint8)
    labels = torch.arange(samples) % 10
    train, test = data.Split(pixels[60:], labels[60:]), data.Split(pixels[:60], labels[:60])
    return data.Dataset(name, train, None, test, tuple("abcdefghij"), "local", "sha256 0123")


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both sets in two pieces each, packed as they are at home."""
    monkeypatch.setattr(gpu, "_CHUNK", 50)
    monkeypatch.setattr(gpu, "_processes", lambda: 1)
    monkeypatch.setattr(data, "read", images)
    for name in ("cifar10", "cifar100"):
        gpu.pack(name, tmp_path / "carried")
    return tmp_path / "carried"


@pytest.fixture
def there(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where CIFAR-100 has arrived, and every look at the clock takes a second."""
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda some: None)
    monkeypatch.setattr(gpu, "time", clock)
    monkeypatch.setattr(gpu, "ProcessPoolExecutor", lambda *given: ThreadPoolExecutor(1))
    for piece in (1, 2):
        gpu.unpack(packed / f"cifar100-{piece}", tmp_path / "there")
    return tmp_path / "there"


def test_a_set_arrives_in_pieces_as_it_left(packed: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert gpu.unpack(packed / "cifar10-1", there) is None, "half of it is no set"
    assert gpu.unpack(packed / "cifar10-2", there) == there / "cifar10.pt"
    found, sent = gpu.unpacked("cifar10", there), images("cifar10")
    for split in ("train", "test"):
        assert torch.equal(getattr(found, split).inputs, getattr(sent, split).inputs)
        assert torch.equal(getattr(found, split).labels, getattr(sent, split).labels)
    assert (found.copy, found.class_names) == (sent.copy, sent.class_names)


def test_grey_images_travel_too(tmp_path: Path) -> None:
    grey = torch.randint(0, 256, (7, 9, 8), dtype=torch.uint8)
    file = tmp_path / "train-00000.bz2"
    file.write_bytes(gpu.bz2.compress(gpu._residuals(grey.numpy()).tobytes()))
    gpu._decode(file, tmp_path, (9, 8))
    assert (gpu.np.load(tmp_path / "train-00000.npy") == grey.numpy()).all()


def test_the_stacks_are_whole_seeds_and_those_without_a_record_come_first() -> None:
    listed = gpu.stacks()
    assert len({stack.name for stack in listed}) == len(listed) == 15
    assert all(stack.experiment.cuda_graph for stack in listed)
    of = {stack.name: [one.label for one in stack.experiment.runs()] for stack in listed}
    labels = ["1", "5", "0.1", "20", "warm-up 0.1→1"]
    assert of["cifar100-resnet18/seed0"] == of["cifar100-wide/gpu-seed3"] == labels
    assert of["cifar10-fast/gpu-seed11"] == ["1", "0.1", "5", "warm-up 0.1→1"]
    assert len(of["cifar100-fast/gpu-seed7"]) == 14, "a cut leaves complete pairs"
    resnet18 = next(stack.experiment for stack in listed if "resnet18" in stack.name)
    assert (resnet18.model, resnet18.augmentation) == ("resnet18", "crop-flip")
    with tarfile.open(ROOT / "results" / "gpu-2026-11-28.tar.gz") as archive:
        names = archive.getnames()
    there = [f"records/{stack.name}.json" in names for stack in listed]
    assert there == sorted(there) and sum(there) == 7
    assert all(stack.experiment.epochs == 3 for stack in gpu.stacks(tiny=True))


def test_the_gate_is_open_where_all_is_right(tmp_path: Path) -> None:
    assert gpu.check("cpu", tmp_path, tiny=True)
    gate = json.loads((tmp_path / "gate.json").read_text())
    assert len(gate["losses"]) >= 50 and len(gate["ways"]) == 2 * len(gpu.WAYS)
    assert gate["device"] == "cpu" and gate["versions"]["torch"] == torch.__version__


def test_the_gate_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fitted(device: str, **how: Any) -> torch.Tensor:
        """Weights far from where they began, and others where a step is recorded."""
        if how.get("precision") == "bfloat16":
            raise RuntimeError("no such kernel\nand more")
        stack = gpu.image_stack(how["model"], [0], classes=10, width=how["width"])
        size = sum(one.numel() for one in stack.parameters())
        return torch.full((size,), 110.0 if how.get("recorded") else 100.0).double()

    monkeypatch.setattr(gpu, "fit", fitted)
    monkeypatch.setattr(gpu, "check_losses", lambda device: [])
    assert not gpu.check("cpu", tmp_path, tiny=True)
    ways = json.loads((tmp_path / "gate.json").read_text())["ways"]
    assert {row["way"] for row in ways if row["ok"]} == {"float64", "float32"}
    assert {row.get("error") for row in ways} == {None, "RuntimeError: no such kernel"}
    apart = {row["from one by one"] for row in ways if "from one by one" in row}
    assert all(one == pytest.approx(0.1, abs=0.02) for one in apart)


def small(name: str, **parameters: Any) -> gpu.Stack:
    sizes: dict[str, Any] = {"model": "fast", "width": 0.0625, "normalization": "channel"}
    sizes |= {"betas": [1, 0.1], "seeds": [0], "warmups": [], "epochs": 3, "batch_size": 50}
    sizes |= {"validation_size": 40, "lr_schedule": "one-cycle", "cuda_graph": True}
    return gpu.Stack(name, Train(**{"dataset": "cifar100", **sizes, **parameters}))


def test_stacks_are_trained_as_their_data_arrive(packed: Path, there: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    listed = [
        small("later/first", dataset="cifar10"),
        small("now/broken", validation_size=10_000),
        small("now/third", augmentation="crop-flip"),
    ]
    done = gpu.train_stacks(listed, there, out, seconds=100, device="cpu")
    assert done == ["now/third"], "one has no data, and one fails"
    with tarfile.open(out / "records.tar.gz") as archive:
        assert archive.getnames() == ["records/now/third.json"]

    for piece in (1, 2):
        gpu.unpack(packed / f"cifar10-{piece}", there)
    again = [listed[0], listed[2]]
    assert gpu.train_stacks(again, there, out, seconds=100, device="cpu") == ["later/first"]

    found = records.load(out / "records" / "now" / "third.json")
    experiment = listed[2].experiment
    alone = run.train_stack(experiment, dataset=run.load(experiment, images("cifar100")))
    assert found.runs == json.loads(json.dumps(files.plain(alone.runs)))
    assert found.data["copy"] == "sha256 0123"


def test_a_stack_that_would_not_end_in_time_is_left(
    there: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="study.gpu")
    listed = [small("now/long", epochs=1_000)]
    assert gpu.train_stacks(listed, there, tmp_path / "out", seconds=500, device="cpu") == []
    assert "now/long: left, epoch 2 of 1000" in caplog.text
