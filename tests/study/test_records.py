"""Records: whole or not there, exact where they must be, named when damaged."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from study import records
from study.records import Record

TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(['[ 1,\n   2 ]  "quoted" \\', "{ [  ] }", "\u2028 β → ∞"])
PARAMETERS = st.dictionaries(
    TEXT, TEXT | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
)


def record(**changes: Any) -> Record:
    values: dict[str, Any] = {
        "template": "train",
        "parameters": {"dataset": "digits", "betas": [1.0, 0.1], "warmups": [], "temperatures": [1.0], "seeds": [0], "epochs": 2},
        "data": {"name": "digits", "source": "embedded", "copy": "x", "train": 10, "valid": 0, "test": 5},
        "model": {"name": "mlp", "parameters": 30},
        "runs": [
            {
                "schedule": label,
                "beta": beta,
                "temperature": 1.0,
                "seed": 0,
                "metrics": {"test_accuracy": accuracy},
                "curves": {"epoch": [0, 1, 2], "test_accuracy": [0.1, 0.5, accuracy]},
            }
            for label, beta, accuracy in (("1", 1.0, 0.9), ("0.1", 0.1, 0.8))
        ],
        "epochs_done": 2,
        "wall_seconds": 1.5,
        "scale": "smoke",
        "environment": {"device": "cpu"},
    }
    return Record(**(values | changes))


class TestWriting:
    def test_round_trip(self, tmp_path):
        path = record().write(tmp_path / "deep" / "folder" / "a.json")
        assert records.load(path) == record()
        assert [file.name for file in path.parent.iterdir()] == ["a.json"]

    @settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(PARAMETERS)
    def test_parameters_come_back_exactly(self, tmp_path, parameters):
        # texts keep their blanks and brackets, numbers all their digits
        path = record(parameters=parameters).write(tmp_path / "a.json")
        assert records.load(path).parameters == parameters

    def test_measured_numbers_have_six_digits(self, tmp_path):
        metrics = {"a": 1 / 3, "b": 123456789.0, "c": 1.23456789e-12, "d": 7, "e": True}
        found = records.load(record(runs=[{"metrics": metrics}]).write(tmp_path / "a.json")).runs[0]["metrics"]
        assert found == {"a": 0.333333, "b": 123457000.0, "c": 1.23457e-12, "d": 7, "e": True}
        assert isinstance(found["d"], int) and found["e"] is True

    def test_what_is_no_number_is_null(self, tmp_path):
        metrics = {
            "nan": math.nan,
            "inf": math.inf,
            "array": np.array([1.0, math.nan]),
            "tensor": torch.tensor([-math.inf, 2.0]),
            "np": np.float32("nan"),
        }
        path = record(runs=[{"metrics": metrics}]).write(tmp_path / "a.json")
        assert "NaN" not in path.read_text() and "Infinity" not in path.read_text()
        assert records.load(path).runs[0]["metrics"] == {"nan": None, "inf": None, "array": [1.0, None], "tensor": [None, 2.0], "np": None}

    def test_arrays_and_tensors_become_lists(self, tmp_path):
        run = {
            "a": np.arange(3),
            "b": torch.tensor([[0.5, 0.25]]),
            "c": np.float32(0.5),
            "d": np.int64(3),
            "e": (1, 2),
            "f": np.bool_(True),
        }
        found = records.load(record(runs=[run]).write(tmp_path / "a.json")).runs[0]
        assert found == {"a": [0, 1, 2], "b": [[0.5, 0.25]], "c": 0.5, "d": 3, "e": [1, 2], "f": True}

    def test_a_list_of_numbers_is_one_line(self, tmp_path):
        text = record().write(tmp_path / "a.json").read_text()
        assert '"test_accuracy": [ 0.1, 0.5, 0.9 ]' in text

    def test_a_hundred_epochs_of_fifty_runs_are_small(self, tmp_path):
        curves = {name: [1 / (3 + epoch) for epoch in range(101)] for name in ("test_accuracy", "test_cross_entropy", "train_accuracy")}
        path = record(runs=[{"schedule": "1", "curves": curves}] * 50).write(tmp_path / "a.json")
        assert path.stat().st_size < 300_000

    def test_what_json_does_not_know(self, tmp_path):
        with pytest.raises(TypeError, match="cannot hold a object"):
            record(parameters={"a": object()}).write(tmp_path / "a.json")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("step", ["write_text", "replace"])
    def test_a_failure_in_the_middle_leaves_nothing(self, tmp_path, monkeypatch, step):
        def fail(path: Path, *arguments: Any, **keywords: Any) -> None:
            if step == "write_text":
                path.write_bytes(b'{"schema": 1, "temp')
            raise OSError("no space left")

        monkeypatch.setattr(Path, step, fail)
        with pytest.raises(OSError, match="no space"):
            record().write(tmp_path / "a.json")
        assert list(tmp_path.iterdir()) == []

    def test_a_failure_leaves_the_record_from_before(self, tmp_path, monkeypatch):
        path = record().write(tmp_path / "a.json")
        monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space"):
            record(epochs_done=1).write(path)
        assert records.load(path).epochs_done == 2

    def test_unknown_scale(self):
        with pytest.raises(ValueError, match="valid: paper, reduced, smoke"):
            record(scale="huge")


class TestReading:
    def test_a_row_for_each_run_of_every_record(self, tmp_path):
        record().write(tmp_path / "first" / "a.json")
        record(scale="paper", parameters=dict(record().parameters) | {"extra": 3}).write(tmp_path / "second" / "b.json")
        table = records.read(tmp_path)
        assert table[["campaign", "record", "schedule", "scale"]].values.tolist() == [
            ["first", "a.json", "1", "smoke"],
            ["first", "a.json", "0.1", "smoke"],
            ["second", "b.json", "1", "paper"],
            ["second", "b.json", "0.1", "paper"],
        ]
        assert table["extra"].isna().tolist() == [True, True, False, False]

    def test_columns(self, tmp_path):
        table = records.to_frame(record())
        assert set(table.columns) == {
            *("dataset", "epochs", "template", "scale", "wall_seconds", "data_source", "model_parameters", "train_samples"),
            *("schedule", "beta", "temperature", "seed", "test_accuracy", "curve_epoch", "curve_test_accuracy"),
        }
        assert table["curve_test_accuracy"].iloc[1] == [0.1, 0.5, 0.8]
        assert table["model_parameters"].tolist() == [30, 30] and table["train_samples"].tolist() == [10, 10]

    def test_paths(self, tmp_path):
        paths = [record().write(tmp_path / f"{name}.json") for name in "ab"]
        assert records.read(paths)["record"].tolist() == ["a.json", "a.json", "b.json", "b.json"]
        assert records.read([]).empty

    def test_a_run_that_diverged_is_missing_not_an_error(self, tmp_path):
        runs = [{"schedule": "1", "metrics": {"test_cross_entropy": math.nan}}, {"schedule": "5", "metrics": {"test_cross_entropy": 0.5}}]
        record(runs=runs).write(tmp_path / "a.json")
        record(runs=runs[:1]).write(tmp_path / "b.json")
        values = records.read(tmp_path)["test_cross_entropy"].astype(float)
        assert values.isna().tolist() == [True, False, True]

    def test_a_partial_file_is_not_read(self, tmp_path):
        record().write(tmp_path / "a.json")
        (tmp_path / f"b.json.{os.getpid()}.partial").write_text('{"schema"')
        assert len(records.read(tmp_path)) == 2

    def test_no_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no folder of records.*nowhere"):
            records.read(tmp_path / "nowhere")

    @pytest.mark.parametrize("damage", ["half", "empty", "binary", "list", "schema", "field", "missing", "scale"])
    def test_damaged(self, tmp_path, damage):
        path = record().write(tmp_path / "broken.json")
        content = json.loads(path.read_text())
        if damage == "half":
            path.write_bytes(path.read_bytes()[:100])
        elif damage in ("empty", "binary"):
            path.write_bytes(b"" if damage == "empty" else b"\xff\xfe\x00")
        elif damage == "missing":
            del content["runs"]
            path.write_text(json.dumps(content))
        elif damage == "list":
            path.write_text("[1, 2]")
        else:
            path.write_text(json.dumps(content | {"schema": {"schema": 0}, "field": {"surplus": 1}, "scale": {"scale": "huge"}}[damage]))
        record().write(tmp_path / "whole.json")
        with pytest.raises(ValueError, match="broken.json is not a whole record.*run its job again"):
            records.read(tmp_path)


class TestEnvironment:
    def test_says_where_and_with_what(self):
        found = records.environment(device="cpu", precision="float32", threads=1)
        assert found["versions"]["torch"] == torch.__version__.split("+")[0] or found["versions"]["torch"] == torch.__version__
        assert (found["device"], found["precision"], found["threads"]) == ("cpu", "float32", 1)
        assert found["time"].endswith("+00:00")
        assert {"python", "platform", "commit"} <= set(found)
