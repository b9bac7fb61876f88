"""The dress rehearsal of `make gpu` on a CPU: the check, small jobs, a clock that runs out, the archive."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import torch

from study import gpu, records
from study.campaign import plan

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = """
name: small
title: two stacks of perceptrons, an image network, and a job of another notebook
defaults: {dataset: digits, warmups: [], betas: [1, 0.1], seeds: [0, 1], epochs: 4, hidden: [16]}
entries:
  - {id: valuable, template: train}
  - {id: large, template: train, parameters: {hidden: [32], width: 0.5, epochs: 40}}
  - {id: images, template: train, parameters: {model: resnet18, width: 0.125, stem: tiny-imagenet, subset: 100, normalization: channel,
     batch_size: 50, augmentation: crop-flip, epochs: 2, test_every: 2, cuda_graph: true}}
  - {id: other, template: curriculum}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    (tmp_path / "campaigns" / "small.yml").write_text(CAMPAIGN, encoding="utf-8")
    return tmp_path


def test_the_whole_of_it(root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level("INFO", logger="study.gpu")
    gpu.main(["small", "--minutes", "10", "--device", "cpu", "--into", str(root / "out")], root)
    printed = caplog.text
    assert "weights in float64: 0.0e+00 of the way apart" in printed
    assert "other: not a job of the notebook train" in printed and "3 of 4 missing jobs have their record now" in printed
    found = plan("small", root)
    assert [job.id for job in found.done] == ["valuable", "large", "images"]  # by the one rule of a campaign
    with tarfile.open(root / "out" / "records.tar.gz") as file:
        assert file.getnames() == [f"small/{job.record.name}" for job in found.done]
        member = file.extractfile("small/valuable.json")
        assert member is not None and json.load(member) == json.loads(found.done[0].record.read_text(encoding="utf-8"))
    monkeypatch.setattr(gpu, "check", lambda *given, **sizes: {})
    gpu.main(["small", "--minutes", "10", "--device", "cpu", "--into", str(root / "again")], root)
    assert "0 of 1 missing jobs" in caplog.text and not (root / "again" / "records.tar.gz").exists()


def test_what_will_not_end_in_time_is_left_and_not_begun_again(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A clock on which every look takes a second: 4 epochs fit into 40 seconds, 40 do not."""
    seconds = iter(range(10_000))
    valuable, large, *_ = plan("small", root).pending
    with caplog.at_level("INFO", logger="study.gpu"):
        done = gpu.run_jobs([large, valuable, large], 40 + 20, root / "a.tar.gz", clock=lambda: float(next(seconds)))
    assert done == [valuable]
    lines = [line for line in caplog.messages if line.startswith("large")]
    assert "seconds an epoch, 38 epochs and" in lines[0] and "not begun" in lines[1] and len(lines) == 2


def test_a_device_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gpu.fit

    def wrong(device: str, data: tuple[torch.Tensor, torch.Tensor], **options: object) -> list[torch.Tensor]:
        weights = right(device, data, **options)  # type: ignore[arg-type]
        return [weight * 1.001 for weight in weights] if "cuda_graph" in options else weights

    monkeypatch.setattr(gpu, "fit", wrong)
    with pytest.raises(RuntimeError, match="float32, recorded on cpu does not compute what the CPU computes"):
        gpu.check("cpu", width=0.125, batch_size=4)
    assert torch.backends.cudnn.allow_tf32, "what was switched off for the check is on again"


def test_an_environment_on_a_gpu_says_how_products_are_made() -> None:
    there = records.environment(device="NVIDIA H200", precision="float32", threads=1)
    assert there["tf32"] == {"matmul": False, "convolutions": True} and set(there["cudnn"]) == {"benchmark", "deterministic"}
    assert "tf32" not in records.environment(device="cpu", precision="float32", threads=1)
