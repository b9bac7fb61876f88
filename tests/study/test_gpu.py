"""The rehearsal of a session on a GPU, on a CPU: pack, unpack, check, train, by the same code."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from study import ROOT, campaign, data, gpu, parameters, results
from tests.study.small import run_page


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


def large(name: str) -> data.Dataset:
    """A set of which the page can hold out 5,000 images, and train with the other 300."""
    whole = images(name, samples=5_360)
    return replace(whole, test=whole.train[torch.arange(300)])


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a set in two pieces, packed as it is at home."""
    monkeypatch.setattr(gpu, "_CHUNK", 50)
    monkeypatch.setattr(gpu, "ProcessPoolExecutor", lambda *given: ThreadPoolExecutor(1))
    monkeypatch.setattr(data, "read", images)
    gpu.pack("cifar10", tmp_path / "carried")
    return tmp_path / "carried"


def arrive(name: str, folder: Path) -> None:
    """Put a set where :func:`study.gpu.unpack` leaves it."""
    whole = large(name)
    content: dict[str, Any] = {"name": name, "classes": whole.class_names, "copy": whole.copy}
    content |= {
        split: (getattr(whole, split).inputs, getattr(whole, split).labels)
        for split in ("train", "test")
    }
    folder.mkdir(exist_ok=True)
    torch.save(content | {"source": whole.source}, folder / f"{name}.pt")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where CIFAR-100 has arrived, and every look at the clock takes a second."""
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda some: None)
    monkeypatch.setattr(gpu, "time", clock)
    for name in ("cifar10", "cifar100"):  # kept for this test alone
        monkeypatch.setitem(data.KEPT, name, large(name))
        del data.KEPT[name]
    arrive("cifar100", tmp_path / "there")
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


def test_the_stacks_are_whole_seeds_and_all_are_jobs_of_the_campaign() -> None:
    listed = gpu.stacks()
    assert len({job.id for job in listed}) == len(listed) == 15
    schedules = {job.id: [*job.given["betas"], *job.given["warmups"]] for job in listed}
    assert schedules["cifar100-resnet18-seed0"] == [1, 5, 0.1, 20, [0.1, 1, 15]]
    assert schedules["cifar10-crops-stack-seed11"] == [1, 0.1, 5, [0.1, 1, 6]]
    assert all(1 in one for name, one in schedules.items() if "beta50" not in name), "pairs"
    assert all(job.parameters["device"] == "auto" for job in listed)
    tiny = gpu.stacks(tiny=True)
    assert {job.parameters["epochs"] for job in tiny} == {3}
    assert {job.parameters["model"] for job in tiny} >= {"fast"}
    assert all(job.parameters["width"] <= 0.25 for job in tiny)


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


def small(name: str, **given: Any) -> campaign.Job:
    sizes: dict[str, Any] = {"dataset": "cifar100", "width": 0.0625, "betas": [1, 0.1]}
    sizes |= {"seeds": [0], "warmups": [], "epochs": 3}
    return campaign.Job("cifar", name, "cifar", sizes | given, Path("unused.json"))


def test_stacks_are_trained_as_their_data_arrive(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    listed = [
        small("later", dataset="cifar10", epochs=1),
        small("broken", augmentation="crop3"),
        small("third", augmentation="crop-flip"),
    ]
    options: dict[str, Any] = {"seconds": 100, "device": "cpu", "tiny": True}
    done = gpu.train_stacks(listed, there, out, **options)
    assert done == ["third"], "one has no data, and one fails"
    with tarfile.open(out / "results.tar.gz") as archive:
        assert archive.getnames() == ["results/third.json"]

    arrive("cifar10", there)
    assert gpu.train_stacks([listed[0], listed[2]], there, out, **options) == ["later"]

    found = results.load(out / "results" / "third.json")
    assert found["job"]["data_copy"] == "sha256 0123"
    assert (found["job"]["train_samples"], found["job"]["valid_samples"]) == (300, 5_000)
    alone = run_page("cifar", tmp_path / "alone.json", **listed[2].given)
    assert [found[table] for table in ("runs", "curves")] == [
        alone[table] for table in ("runs", "curves")
    ]


def test_a_stack_that_would_not_end_in_time_is_left(
    there: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="study.gpu")
    listed = [small("long", epochs=1_000, betas=[1])]
    options: dict[str, Any] = {"seconds": 500, "device": "cpu", "tiny": True}
    assert gpu.train_stacks(listed, there, tmp_path / "out", **options) == []
    assert "long: left, epoch 2 of 1000" in caplog.text


def test_the_machine_needs_nothing_that_it_lacks() -> None:
    """It has PyTorch, pandas and seaborn; pydantic is carried; no notebook runs there."""
    absent = ("IPython", "ipykernel", "jupytext", "papermill", "nbformat", "snakemake", "traitlets")
    first_cells = "\n".join(parameters.code_cells("cifar")[:2]).partition("figures.use_style()")[0]
    script = "\n".join(
        ["import sys", *(f"sys.modules[{name!r}] = None" for name in absent), "import study.gpu"]
        + [first_cells, "figures.use_style()"]
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
