"""The benchmarks: their kept numbers say what they must, and every script runs.

Nothing here is timed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch

from benchmarks import gpu, kernel, loss, measuring, sweep, tables
from benchmarks.measuring import KEPT, Row, compared, load
from gdlib import functional

SCRIPTS = ["sweep", "tables", "loss"]
FIELDS = {"schema", "script", "smoke", "environment", "rows"}
ENVIRONMENT = {
    "time",
    "commit",
    "python",
    "versions",
    "platform",
    "device",
    "precision",
    "threads",
    "cores",
    "load",
}
FILES = [path for path in sorted(KEPT.glob("*/*.json")) if '"schema"' in path.read_text()]
PROCESSORS = [folder for folder, scripts in load(KEPT).items() if "gpu" not in scripts]


def row(**other: object) -> Row:
    values = {
        "what": "a",
        "against": "b",
        "kind": "times faster",
        "value": 3.0,
        "low": 2.0,
        "high": 4.0,
        "repetitions": 5,
    }
    return Row(**{**values, **other})


# -- what is kept ----------------------------------------------------------------------------------


def test_the_kept_files_have_the_schema_and_say_where_they_were_measured(
    subtests: pytest.Subtests,
) -> None:
    for folder in {path.parent for path in FILES}:
        here = {path.stem for path in FILES if path.parent == folder}
        assert here in (set(SCRIPTS), {"gpu"})
    for path in FILES:
        with subtests.test(f"{path.parent.name}/{path.stem}"):
            content = json.loads(path.read_text(encoding="utf-8"))
            assert (
                set(content) == FIELDS
                and content["schema"] == measuring.SCHEMA
                and content["script"] == path.stem
            )
            assert content["smoke"] is False, "numbers of a smoke run are worth nothing"
            environment = content["environment"]
            assert set(environment) - {"processor", "tf32", "cudnn"} == ENVIRONMENT
            on_cpu = path.stem != "gpu"
            assert (environment["device"] == "cpu") == (environment["threads"] == 1) == on_cpu
            where = environment["processor" if on_cpu else "device"]
            assert path.parent.name == measuring.machine(where)
            assert content["rows"]


def test_the_rows_of_a_kept_file_fit_together(subtests: pytest.Subtests) -> None:
    kept = load(KEPT)
    for path in FILES:
        for found in kept[path.parent.name][path.stem]["rows"]:
            with subtests.test(f"{path.parent.name}/{path.stem}: {found.title}"):
                assert 0 < found.low <= found.value <= found.high
                assert found.repetitions >= 1
                if found.ours is not None and found.theirs is not None:
                    ratio = found.ours / found.theirs
                    if found.kind == "times faster":
                        ratio = 1 / ratio
                    assert 0.5 < ratio / found.value < 2, (
                        "the median of the ratios and the ratio of the medians are far apart"
                    )


@pytest.mark.parametrize("folder", PROCESSORS)
def test_the_public_library_was_compared(folder: str) -> None:
    names = {
        found.what
        for found in load(KEPT)[folder]["loss"]["rows"]
        if found.against == "pytorch-metric-learning"
    }
    assert names == {"ArcFace", "CosFace", "SphereFace"}


# -- rows and turns --------------------------------------------------------------------------------


def test_the_ratio_is_the_median_over_turns_and_its_direction_is_that_of_the_kind() -> None:
    ours, theirs = [1.0, 2.0, 4.0], [10.0, 10.0, 10.0]
    faster = compared(ours, theirs, what="a", against="b", kind="times faster", scale=10.0)
    assert (
        faster.value,
        faster.low,
        faster.high,
        faster.ours,
        faster.theirs,
        faster.repetitions,
    ) == (5.0, 2.5, 10.0, 20.0, 100.0, 3)
    share = compared(ours, theirs, what="a", against="b", kind="share of the time")
    assert (share.value, share.low, share.high) == (0.2, 0.1, 0.4)


def test_a_row_of_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no such kind: 'twice'; valid: times faster, "):
        row(kind="twice")


def test_candidates_take_turns() -> None:
    calls: list[str] = []
    clock = iter(range(100))
    found = measuring.take_turns(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")},
        2,
        passes=2,
        rounds=3,
        seconds=lambda: float(next(clock)),
    )
    assert [name for name, _ in itertools.groupby(calls)] == ["a", "b"] * 6
    assert found == {"a": [0.5, 0.5], "b": [0.5, 0.5]}


def test_a_slow_round_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = iter([1.0, 8.0, 1.0])
    monkeypatch.setattr(
        measuring.Timer, "timeit", lambda self, number: argparse.Namespace(median=next(passes))
    )
    assert measuring.take_turns({"a": lambda: None}, 1, rounds=3) == {"a": [1.0]}


@pytest.mark.skipif(
    platform.system() != "Linux", reason="page faults are held by glibc's allocator"
)
def test_page_faults_are_held_at_zero_where_asked() -> None:
    held = loss.in_a_fresh_process(loss.turns_of_two, "decayed", "plain", (2048, 1000), 9, 1, True)
    assert (
        max(faults for _, faults in held.values()) < 20
    )  # an array of that size has 2,000 pages of 4 KiB


def test_a_file_is_read_as_it_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        row(),
        row(kind="seconds", against="", repetitions=1, shape=(2, 3), how="compiled"),
    ]
    measuring.finish("some", rows, argparse.Namespace(into=tmp_path, smoke=False))
    (folder,) = load(tmp_path)
    assert folder == measuring.machine(measuring.processor())
    assert load(tmp_path)[folder]["some"]["rows"] == rows
    told = capsys.readouterr().out
    assert "a: 3.00 times faster (2.00 to 4.00) against b" in told
    assert "a [2, 3], compiled: 3.00 s" in told


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "old.json").write_text('{"schema": 0}', encoding="utf-8")
    with pytest.raises(ValueError, match="old.json has schema 0, expected 2"):
        load(tmp_path)


# -- the scripts -----------------------------------------------------------------------------------


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_what_it_measures_and_runs(
    script: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = importlib.import_module(f"benchmarks.{script}").main
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "--into" in printed and "--smoke" in printed
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        fresh = loss.in_a_fresh_process

        def shared(function: Callable[..., object], *given: object) -> object:
            """One process for all but memory, since a fresh one imports for seconds."""
            if function is loss.extra_memory:  # a used process may have enough already
                return fresh(function, *given)
            return pool.submit(function, *given).result()

        monkeypatch.setattr(loss, "in_a_fresh_process", shared)
        main(["--smoke", "--into", str(tmp_path)])
    (of_this_machine,) = load(tmp_path).values()
    content = of_this_machine[script]
    assert content["smoke"] is True and content["rows"]
    assert "DIFFER" not in capsys.readouterr().out


def test_make_bench_runs_every_script() -> None:
    recipe = (
        (KEPT.parents[1] / "Makefile")
        .read_text(encoding="utf-8")
        .split("\nbench:")[1]
        .split("\n\n")[0]
    )
    assert f"for script in {' '.join(SCRIPTS)} gpu;" in recipe


def test_the_rows_of_a_gpu_are_of_the_kernel_against_each_other_side() -> None:
    texts = {"group": "logits", "shape": [6, 100], "dtype": "bfloat16"}
    times = {kernel.COPY: [1.0, 1.2], kernel.KERNEL: [2.0, 2.0], "F.cross_entropy": [4.0, 4.4]}
    found = [texts | {"what": what, "times": of_it} for what, of_it in times.items()]
    found += [
        texts | {"what": kernel.ALONE, "times": [1.0, 1.0]},
        texts | {"what": "a", "error": "b"},
    ]
    copy, torchs = gpu.kernel(found)
    assert (copy.against, copy.value) == (kernel.COPY, pytest.approx(0.55))
    assert (torchs.against, torchs.value) == ("F.cross_entropy", 2.1)
    assert copy.title == f"{kernel.KERNEL} [6, 100], bfloat16"


def test_numbers_of_a_gpu_have_a_folder_of_their_own(tmp_path: Path) -> None:
    options = argparse.Namespace(into=tmp_path, smoke=False)
    measuring.finish("gpu", [row()], options, device="NVIDIA H200")
    (tmp_path / "nvidia-h200" / "gate.json").write_text('{"losses": []}', encoding="utf-8")
    assert list(load(tmp_path)["nvidia-h200"]) == ["gpu"]


def test_the_kernel_is_not_checked_where_it_cannot_run() -> None:
    assert [row["ok"] for row in kernel.check_kernel("cpu")] == [False]


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install gradient-decay[triton]",
)
def test_the_kernel_is_rehearsed_without_a_gpu() -> None:
    code = (
        "import json; from benchmarks import kernel;"
        "print(json.dumps([kernel.check_kernel('cpu'), kernel.kernel_rows('cpu', tiny=True)]))"
    )
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    cases, rows = json.loads(done.stdout.splitlines()[-1])
    assert len(cases) > 50 and [row for row in cases if not row["ok"]] == []
    measured = [(row["group"], row["what"]) for row in rows if "ms" in row]
    for group in ("logits", "blocks"):
        assert {(group, kernel.COPY), (group, kernel.KERNEL)} <= set(measured)
    assert ("blocks", f"{kernel.KERNEL}, 1024 by 4 warps") in measured
    assert ("linear", f"F.linear, {kernel.KERNEL}") in measured
    assert all("speed_of_copy" in row for row in rows if "ms" in row and row["group"] != "linear")
    missing = [row["error"] for row in rows if "error" in row]
    assert all(re.search("liger_kernel|linear_cross_entropy", text) for text in missing)


# -- what is compared is the same loss, the same training ------------------------------------------


@pytest.mark.usefixtures("threads")
def test_a_loss_of_a_linear_layer_is_compared_with_the_same_layer() -> None:
    given = loss.inputs((6, 20, 8), True)
    expected = loss.linear_then_plain(*given)
    torch.testing.assert_close(loss.linear_in_pieces(*given), expected)
    beta_1 = functional.linear_gd_cross_entropy(*given, beta=1.0)
    torch.testing.assert_close(beta_1, expected)
    assert loss.inputs((6, 20), False, torch.bfloat16)[0].dtype == torch.bfloat16


def test_a_sweep_by_vmap_ends_in_the_weights_of_the_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(300, 784, generator=generator)
    labels = torch.randint(0, 10, (300,), generator=generator)
    stack = sweep.mapped(inputs, labels)
    networks = sweep.one_by_one(sweep.slices, inputs, labels)
    start = sweep.network().state_dict()
    assert len(networks) == len(sweep.BETAS)
    for run, network in enumerate(networks):
        for name, weights in network.state_dict().items():
            assert not torch.equal(weights, start[name])
            torch.testing.assert_close(stack[name][run], weights)


@pytest.mark.parametrize("text", tables.MAPPED)
def test_a_table_by_vmap_ends_in_the_weights_of_the_loop(text: str) -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(150, 4, generator=generator)
    labels = torch.randint(0, 3, (150,), generator=generator)
    torch.manual_seed(0)
    stack = tables.Mapped(text, inputs, labels, runs=1, epochs=2)()
    torch.manual_seed(0)
    network = tables.Loop(text, inputs, labels, epochs=2)()[0]
    for name, weights in network.state_dict().items():
        torch.testing.assert_close(stack[name][0], weights)
