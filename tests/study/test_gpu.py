"""The dress rehearsal of `make gpu` on a CPU.

The check, small jobs, a clock that runs out, the archive.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from study import gpu, records, run
from study.campaign import Job, plan
from study.experiment import Train

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGN = """
name: small
title: two stacks of perceptrons, an image network, and a job of another notebook
defaults: {dataset: digits, warmups: [], betas: [1, 0.1], seeds: [0, 1], epochs: 4, hidden: [16]}
entries:
  - {id: valuable, experiment: train}
  - {id: large, experiment: train, parameters: {hidden: [32], width: 0.5, epochs: 40}}
  - {id: images, experiment: train, parameters: {model: resnet18, width: 0.125, stem: tiny-imagenet,
     subset: 100, normalization: channel,
     batch_size: 50, augmentation: crop-flip, epochs: 2, test_every: 2, cuda_graph: true}}
  - {id: other, experiment: curriculum}
  - {id: impossible, experiment: train, parameters: {validation_size: 1437}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    (tmp_path / "campaigns" / "small.yml").write_text(CAMPAIGN, encoding="utf-8")
    return tmp_path


def test_the_whole_of_it(
    root: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", logger="study.gpu")
    gpu.main(["small", "--minutes", "10", "--device", "cpu", "--into", str(root / "out")], root)
    printed = caplog.text
    assert "weights in float64: 0.0e+00 of the way apart" in printed
    assert (
        "other: not a job of the notebook train" in printed
        and "3 of 5 missing jobs have their record now" in printed
    )
    assert "impossible: failed" in printed and "validation_size must lie in" in printed, (
        "the others are not lost with it"
    )
    assert not plan("small", root).done and not list((root / "out" / "checkpoints").glob("*")), (
        "what is done needs no checkpoint"
    )

    monkeypatch.setattr(gpu, "check", lambda *given, **sizes: ({}, []))
    with pytest.raises(SystemExit, match="1 jobs failed, the first was impossible"):
        gpu.main(["small", "--minutes", "10", "--device", "cpu", "--into", str(root / "out")], root)
    assert "0 of 2 missing jobs" in caplog.text

    shutil.unpack_archive(
        root / "out" / "records.tar.gz", root / "results" / "records", filter="data"
    )  # back home
    found = plan("small", root)
    assert [job.id for job in found.done] == [
        "valuable",
        "large",
        "images",
    ]  # by the one rule of a campaign
    assert records.load(found.done[0].record).parameters["device"] == "cpu"


def pending(root: Path) -> list[Job]:
    """The jobs of the campaign, as they come from the command."""
    return [
        replace(job, record=root / "out" / "records" / "small" / job.record.name)
        for job in plan("small", root).pending
    ]


def test_what_will_not_end_in_time_is_left_and_not_begun_again(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A clock on which every look takes a second: 4 epochs fit into 40 seconds, 40 do not."""
    seconds = iter(range(10_000))
    valuable, large, *_ = pending(root)
    with caplog.at_level("INFO", logger="study.gpu"):
        done = gpu.run_jobs(
            [large, valuable, large], 40 + 20, root / "out", clock=lambda: float(next(seconds))
        )
    assert done == [valuable]
    lines = [line for line in caplog.messages if line.startswith("large")]
    assert (
        "seconds an epoch, 38 epochs and" in lines[0]
        and "not begun" in lines[1]
        and len(lines) == 2
    )


def test_a_stack_goes_on_in_the_next_command(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    seconds = iter(range(10_000))
    _, large, *_ = pending(root)
    caplog.set_level("INFO", logger="study.gpu")
    options: dict[str, Any] = {"into": root / "out", "clock": lambda: float(next(seconds))}
    assert gpu.run_jobs([large], 40 + 20, more=1000, **options) == []
    assert re.search(
        r"large: left, to go on from its checkpoint after epoch 1\d of 40", caplog.text
    )
    assert gpu.run_jobs([large], 1000, **options) == [large] and large.done
    alone = run.train_stack(large.experiment)
    written = json.loads(large.record.read_text(encoding="utf-8"))
    assert [one["metrics"] for one in records.load(alone.write(root / "alone.json")).runs] == [
        one["metrics"] for one in written["runs"]
    ]


def test_a_job_is_trained_on_the_device_that_is_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def train_stack(experiment: Train, **options: object) -> records.Record:
        asked.append((experiment.device, torch.backends.cudnn.allow_tf32))
        raise RuntimeError("no GPU in a test")

    monkeypatch.setattr(gpu.run, "train_stack", train_stack)
    valuable, *_ = pending(root)
    assert gpu.run_jobs([valuable], 100, root / "out", device="cuda") == []
    assert asked == [("cuda", False)] and torch.backends.cudnn.allow_tf32


def test_one_command_at_a_time_trains_into_a_folder(root: Path) -> None:
    with gpu._alone(root / "out"), pytest.raises(SystemExit, match="another command trains into"):
        gpu.main(["small", "--minutes", "1", "--device", "cpu", "--into", str(root / "out")], root)


def test_what_cannot_be_trained_into_or_for_or_on_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, value, message in (
        ("--minutes", "-1", "minutes are a number from 0 on, not -1"),
        ("--minutes", "nan", "minutes are a number from 0 on, not nan"),
        ("--more", "inf", "minutes are a number from 0 on, not inf"),
        ("--minutes", "soon", "invalid minutes value: 'soon'"),
        ("--device", "tpu", "invalid choice: 'tpu'"),
    ):
        with pytest.raises(SystemExit):
            gpu.main(["small", "--minutes", "1", f"{option}={value}"], root)
        assert message in capsys.readouterr().err
    file = root / "campaigns" / "small.yml"
    with pytest.raises(SystemExit, match="small.yml cannot be a folder .*; name another one"):
        gpu.main(["small", "--minutes", "1", "--device", "cpu", "--into", str(file)], root)


def test_a_command_whose_jobs_fail_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train_stack(experiment: Train, **options: object) -> records.Record:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(gpu, "check", lambda *given, **sizes: ({}, []))
    monkeypatch.setattr(gpu.run, "train_stack", train_stack)
    with pytest.raises(SystemExit, match="jobs failed, the first was valuable"):
        gpu.main(["small", "--minutes", "1", "--device", "cpu", "--into", str(root / "out")], root)


def test_an_archive_that_cannot_be_written_ends_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    into = root / "out"
    jobs = [replace(job, record=into / "records" / job.record.name) for job in pending(root)]
    (into / "records.tar.gz" / "in the way").mkdir(parents=True)
    (into / "records").mkdir()
    (into / "records" / "a.json.other.partial").touch()
    with caplog.at_level("WARNING"):
        done = gpu.run_jobs(jobs[:1], 1000, into)
    assert done == jobs[:1]
    assert "records.tar.gz cannot be written" in caplog.text
    (into / "records.tar.gz" / "in the way").rmdir()
    (into / "records.tar.gz").rmdir()
    gpu._pack(into)
    with tarfile.open(into / "records.tar.gz") as archive:
        assert archive.getnames() == [jobs[0].record.name]


def test_a_device_that_computes_something_else_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = gpu.fit

    def wrong(
        device: str, data: tuple[torch.Tensor, torch.Tensor], **options: object
    ) -> torch.Tensor:
        if "precision" in options:
            raise ValueError("not on this device")
        weights = right(device, data, **options)  # type: ignore[arg-type]
        return weights * 1.001 if "cuda_graph" in options else weights

    monkeypatch.setattr(gpu, "fit", wrong)
    _, left_out = gpu.check("cpu", width=0.125, batch_size=4)
    assert left_out == [
        *("float32, recorded", "bfloat16, channels last", "bfloat16, channels last, recorded")
    ]
    assert torch.backends.cudnn.allow_tf32, "what was switched off for the check is on again"
    monkeypatch.setattr(gpu, "check", lambda *given, **sizes: ({}, left_out))
    began: list[str] = []
    monkeypatch.setattr(
        gpu, "run_jobs", lambda jobs, *given, **options: began.extend(job.id for job in jobs) or []
    )
    gpu.main(["small", "--minutes", "1", "--device", "cpu", "--into", str(root / "out")], root)
    assert (
        "images" not in began and began[0] == "valuable"
    )  # the image network would record its steps


def test_an_environment_on_a_gpu_says_how_products_are_made() -> None:
    there = records.environment(device="NVIDIA H200", precision="float32", threads=1)
    assert there["tf32"] == {"matmul": False, "convolutions": True} and set(there["cudnn"]) == {
        "benchmark",
        "deterministic",
    }
    assert "tf32" not in records.environment(device="cpu", precision="float32", threads=1)
