"""The rehearsal of a session on a GPU, on a CPU: check and train, by the same code."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

from study import ROOT, campaign, data, gpu, parameters, results
from tests.study.small import run_page

SIZES: dict[str, Any] = {"width": 0.0625, "betas": [0.1], "seeds": [0], "warmups": []}


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


def test_what_a_campaign_lacks_is_trained_until_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in the calls of profiles/lent-gpu.md, and back at home."""
    entries = [
        {"id": "long", "parameters": {"epochs": 1_000}},
        {"id": "broken", "parameters": {"dataset": "cifar10"}},
        {"id": "stack", "parameters": {"epochs": 2, "device": "cuda"}},
        {"id": "other", "parameters": {"epochs": 2}},
    ]
    there, home = tmp_path / "there", tmp_path / "home"
    for project in (there, home):
        (project / "campaigns").mkdir(parents=True)
        content = {"page": "cifar", "defaults": SIZES, "entries": entries}
        (project / "campaigns" / "small.yml").write_text(yaml.safe_dump(content))
    load = data.load

    def embedded(name: str, **how: Any) -> data.Dataset:
        if name != "digits":
            raise FileNotFoundError(name)
        return load(name, **how)

    monkeypatch.setattr(data, "load", embedded)
    seconds = itertools.count()  # every look at the clock takes one
    monkeypatch.setattr(gpu, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    monkeypatch.chdir(there)
    caplog.set_level("INFO", logger="study.gpu")
    call = ["train", "small", "--only", "long,broken,stack", "--device", "cpu"]
    gpu.main([*call, "--seconds", "100", "--out", "out"])
    assert "small: 0 of 3 jobs have their result; 3 to run" in caplog.text
    assert "long: left, epoch 2 of 1000" in caplog.text and "broken: failed" in caplog.text
    assert "1 of 3 jobs have their file of results now" in caplog.text

    with tarfile.open(there / "out" / "results.tar.gz") as archive:
        archive.extractall(home, filter="data")
    (job,) = campaign.plan("small", home, only="stack").done
    alone = run_page("cifar", tmp_path / "alone.json", **SIZES, epochs=2)
    found = results.load(job.record)
    assert [found[table] for table in ("runs", "curves")] == [
        alone[table] for table in ("runs", "curves")
    ]

    gpu.main([*call, "--seconds", "0", "--out", "out"])
    assert "small: 1 of 3 jobs have their result; 2 to run" in caplog.text


def test_without_a_gpu_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="PyTorch finds no GPU here; --device cpu rehearses"):
        gpu.main(["check", "--out", str(tmp_path)])


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
