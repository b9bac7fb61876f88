"""Records: whole or not there, exact where they must be, named when damaged."""

from __future__ import annotations

import json
import math
import os
import resource
import socket
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from study import records, results
from study.experiment import EXPERIMENTS
from study.records import Record, columns, provenance
from tests.study.small import SAMPLES, measured

FORBIDDEN = '<>&`$\\{}|[]"\u2028\u2029'
"""What Markdown and HTML would read as theirs."""

LETTERS = st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters=FORBIDDEN)
TEXT = st.text(LETTERS, max_size=30) | st.sampled_from(["1,   2  (quoted)", "", "β → ∞"])
PARAMETERS = st.dictionaries(
    TEXT,
    TEXT
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none(),
)


def record(**changes: Any) -> Record:
    values: dict[str, Any] = {
        "experiment": "train",
        "parameters": {
            "dataset": "digits",
            "betas": [1.0, 0.1],
            "warmups": [],
            "temperatures": [1.0],
            "seeds": [0],
            "epochs": 2,
        },
        "data": {
            "name": "digits",
            "source": "embedded",
            "copy": "x",
            **SAMPLES,
        },
        "model": {"name": "mlp", "parameters": 30},
        "runs": [
            {
                "schedule": label,
                "beta": beta,
                "temperature": 1.0,
                "seed": 0,
                **measured(accuracy),
            }
            for label, beta, accuracy in (("1", 1.0, 0.9), ("0.1", 0.1, 0.8))
        ],
        "epochs_done": 2,
        "wall_seconds": 1.5,
        "scale": "smoke",
        "environment": {"device": "cpu"},
    }
    return Record(**(values | changes))


def damaged(tmp_path: Path, **changes: Any) -> Path:
    """A record with another content than :class:`Record` would have written."""
    path = record().write(tmp_path / "broken.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


class TestWriting:
    def test_round_trip(self, tmp_path):
        path = record().write(tmp_path / "deep" / "folder" / "a.json")
        assert records.load(path) == record()
        assert [file.name for file in path.parent.iterdir()] == ["a.json"]

    @settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(PARAMETERS)
    def test_parameters_come_back_exactly(self, tmp_path, parameters):
        # texts keep their blanks, numbers all their digits
        names = {"dataset", "datasets", "model", "epochs", "decay", "method", "warmups"}
        parameters = {name: parameters[name] for name in parameters if name not in names}
        path = record(parameters=parameters).write(tmp_path / "a.json")
        assert records.load(path).parameters == parameters

    def test_numbers_texts_arrays_and_tensors_are_json(self, tmp_path):
        # measured numbers have six digits; what is no number is null; a list of numbers is one line
        metrics = {
            "test_accuracy": 1 / 3,
            "train_accuracy": np.float32(0.5),
            "a": 1.23456789e-12,
            "b": 123456789.0,
            "c": 7,
            "nan": math.nan,
            "inf": math.inf,
            "np": np.float32("nan"),
        }
        more = {
            "array": np.array([1.0, math.nan]),
            "tensor": torch.tensor([-math.inf, 2.0]),
            "nested": torch.tensor([[0.5, 0.25]]),
        }
        plain = {
            "range": np.arange(3),
            "float": np.float32(0.5),
            "int": np.int64(3),
            "tuple": (1, 2),
            "bool": np.bool_(True),
        }
        (first, _) = record().runs
        run = first | {"diverged": True, "metrics": metrics, **more, **plain}
        path = record(runs=[run]).write(tmp_path / "a.json")
        text = path.read_text()
        assert "NaN" not in text
        assert "Infinity" not in text
        assert '"array": [ 1.0, null ]' in text
        (found,) = records.load(path).runs
        assert found["metrics"] == {
            "test_accuracy": 0.333333,
            "train_accuracy": 0.5,
            "a": 1.23457e-12,
            "b": 123457000.0,
            "c": 7,
            "nan": None,
            "inf": None,
            "np": None,
        }
        assert {name: found[name] for name in (*more, *plain)} == {
            "array": [1.0, None],
            "tensor": [None, 2.0],
            "nested": [[0.5, 0.25]],
            "range": [0, 1, 2],
            "float": 0.5,
            "int": 3,
            "tuple": [1, 2],
            "bool": True,
        }

    def test_a_hundred_epochs_of_fifty_runs_are_small(self, tmp_path):
        (first, _) = record().runs
        curve = [1 / (3 + epoch) for epoch in range(101)]
        names = ("test_accuracy", "test_cross_entropy", "train_accuracy")
        curves = {"epoch": list(range(101))} | dict.fromkeys(names, curve)
        parameters = record().parameters | {"epochs": 100}
        runs = [first | {"curves": curves}] * 50
        path = record(runs=runs, epochs_done=100, parameters=parameters).write(tmp_path / "a.json")
        assert path.stat().st_size < 300_000

    def test_what_is_no_record_is_not_written(self, tmp_path):
        (first, second) = record().runs
        for runs in ([], [first | {"metrics": {}}], [first, second | {"temperature": math.nan}]):
            with pytest.raises(ValueError, match="what was measured is no record .*a.json"):
                record(runs=runs).write(tmp_path / "a.json")
        assert list(tmp_path.iterdir()) == []

    def test_what_json_does_not_know(self, tmp_path):
        with pytest.raises(TypeError, match="cannot hold an? object"):
            record(parameters={"a": object()}).write(tmp_path / "a.json")
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(ValueError, match="Input should be 'paper', 'reduced' or 'smoke'"):
            record(scale="huge")

    def test_a_failure_in_the_middle_leaves_the_record_from_before(
        self, tmp_path, monkeypatch, subtests
    ):
        path = record().write(tmp_path / "a.json")

        def fail(*arguments: Any, **keywords: Any) -> None:
            raise OSError("no space left")

        for place, step in ((json, "dumps"), (os, "fsync"), (Path, "replace")):
            with subtests.test(step):
                monkeypatch.setattr(place, step, fail)
                with pytest.raises(OSError, match="no space"):
                    record(wall_seconds=9.0).write(path)
                monkeypatch.undo()
                assert [file.name for file in tmp_path.iterdir()] == ["a.json"] and records.load(
                    path
                ) == record()

    def test_two_machines_do_not_share_a_partial_file(self, tmp_path, monkeypatch):
        seen = []
        monkeypatch.setattr(Path, "replace", lambda self, target: seen.append(self.name))
        for _ in range(2):
            record().write(tmp_path / "a.json")
        assert len(set(seen)) == 2 and all(
            name.startswith(f"a.json.{socket.gethostname()}.") for name in seen
        )

    def test_a_path_is_probed_before_a_training(self, tmp_path):
        parameters = record().parameters
        records.probe("", {})
        records.probe(tmp_path / "new" / "a.json", parameters)
        assert list((tmp_path / "new").iterdir()) == []
        path = record().write(tmp_path / "a.json")
        records.probe(path, {**parameters, "betas": (1, 0.1)})  # the same training again
        with pytest.raises(
            ValueError, match="a.json is the record of a training with other parameters"
        ):
            records.probe(path, {**parameters, "epochs": 3})
        with pytest.raises(OSError, match="a.json"):
            records.probe(path / "b.json", parameters)
        with pytest.raises(OSError, match="Is a directory"):
            records.probe(tmp_path / "new", parameters)

    def test_a_disk_without_room_is_found_before_a_training_and_the_file_is_named(self, tmp_path):
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)  # stands for a disk that is almost full
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            with pytest.raises(OSError, match=r"too large: '.*a\.json\.probe'"):
                records.probe(tmp_path / "a.json")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert list(tmp_path.iterdir()) == []


class TestReading:
    def test_a_row_for_each_run_of_every_record(self, tmp_path):
        record().write(tmp_path / "first" / "a.json")
        record(scale="paper", parameters=dict(record().parameters) | {"subset": 3}).write(
            tmp_path / "second" / "b.json"
        )
        table = records.read(tmp_path)
        assert table[["campaign", "record", "schedule", "scale"]].values.tolist() == [
            ["first", "a.json", "1", "smoke"],
            ["first", "a.json", "0.1", "smoke"],
            ["second", "b.json", "1", "paper"],
            ["second", "b.json", "0.1", "paper"],
        ]
        assert table["subset"].isna().tolist() == [True, True, False, False]

    def test_columns(self, tmp_path):
        table = records.to_frame(record())
        assert set(table.columns) == {
            *(
                "dataset",
                "epochs",
                "experiment",
                "scale",
                "wall_seconds",
                "data_source",
                "model_parameters",
                "wrong_labels",
                "train_samples",
                "time",
            ),
            *(
                "schedule",
                "beta",
                "temperature",
                "seed",
                "test_accuracy",
                "train_accuracy",
                "confidence_counts",
                "reliability",
                "curve_epoch",
                "curve_test_accuracy",
                "curve_train_epoch",
                "curve_train_accuracy",
            ),
        }
        assert table["curve_test_accuracy"].iloc[1] == [0.1, 0.1, 0.8]
        assert table["model_parameters"].tolist() == [30, 30] and table[
            "train_samples"
        ].tolist() == [10, 10]

    def test_paths(self, tmp_path):
        paths = [
            record(wall_seconds=seconds).write(tmp_path / f"{name}.json")
            for name, seconds in (("a", 1.0), ("b", 2.0))
        ]
        assert records.read(paths)["record"].tolist() == ["a.json", "a.json", "b.json", "b.json"]
        assert records.read([]).empty

    def test_a_run_that_diverged_is_missing_not_an_error(self, tmp_path):
        runs = [
            run
            | {
                "diverged": math.isnan(value),
                "metrics": run["metrics"] | {"test_cross_entropy": value},
                "curves": run["curves"] | {"test_accuracy": [0.1, 0.5, value]},
            }
            for run, value in zip(record().runs, (math.nan, 0.5), strict=True)
        ]
        del runs[0]["confidence_counts"]  # nothing is told of its confidence
        del runs[0]["reliability"]
        record(runs=runs).write(tmp_path / "a.json")
        record(runs=runs[:1]).write(tmp_path / "b.json")
        values = records.read(tmp_path)["test_cross_entropy"].astype(float)
        assert values.isna().tolist() == [True, False, True]

    def test_a_partial_file_is_not_read(self, tmp_path):
        record().write(tmp_path / "a.json")
        (tmp_path / f"b.json.{os.getpid()}.partial").write_text('{"schema"')
        assert len(records.read(tmp_path)) == 2

    def test_a_rehearsal_is_read_by_its_own_name_alone(self, tmp_path):
        (tmp_path / records.REHEARSAL).mkdir()
        (tmp_path / "mnist").mkdir()
        record().write(tmp_path / "mnist" / "a.json")
        record(wall_seconds=7.0).write(tmp_path / records.REHEARSAL / "b.json")
        assert set(records.read(tmp_path)["campaign"]) == {"mnist"}
        assert set(records.read(tmp_path / records.REHEARSAL)["record"]) == {"b.json"}

    def test_no_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no folder of records.*nowhere"):
            records.read(tmp_path / "nowhere")

    def test_a_copy_and_a_file_that_is_no_job_are_refused(self, tmp_path):
        path = record().write(tmp_path / "a.json")
        (tmp_path / "b.json").write_bytes(path.read_bytes())
        with pytest.raises(ValueError, match=r"b\.json is a copy of .*a\.json"):
            records.read(tmp_path)
        (tmp_path / "b.json").rename(tmp_path / "a (copy).json")
        with pytest.raises(ValueError, match="no record is called that"):
            records.read(tmp_path)

    def test_a_job_with_the_longest_name_is_read(self, tmp_path):
        record().write(tmp_path / f"{120 * 'a'}.json")
        assert len(records.read(tmp_path)) == 2

    def test_old_names_and_labels_are_read_as_the_new_ones(self, tmp_path):
        parameters = {
            "decay": "one-cycle",
            "method": "arcgrad 5",
            "warmups": [[0.01, 0.1, 5], [0.01, 0.1, 10]],
            "epochs": 2,
        }
        own = record().runs[0] | {"beta": 0.1}
        warmed = own | {"schedule": "warm-up 0.01→0.1", "warmup_epochs": 10.0}
        constant = own | {"schedule": "0.1", "warmup_epochs": 0.0}
        path = damaged(tmp_path, parameters=parameters, runs=[warmed, constant])
        before = path.read_bytes()
        table = records.read([path])
        assert (
            set(table["lr_schedule"]) == {"one-cycle"}
            and set(table["loss"]) == {"arcgrad 5"}
            and not {"decay", "method"} & set(table)
        )
        assert table[["warmup_start", "warmup_end", "warmup_epochs", "beta"]].values.tolist()[
            0
        ] == [0.01, 0.1, 10.0, 0.1]
        assert table[["warmup_start", "warmup_end"]].isna().all(axis=1).tolist() == [False, True]
        assert path.read_bytes() == before

    def test_an_old_record_calls_its_experiment_a_template(self, tmp_path):
        path = record().write(tmp_path / "a.json")
        content = json.loads(path.read_text())
        content["template"] = content.pop("experiment")
        path.write_text(json.dumps(content))
        assert records.load(path) == record()

    def test_what_is_no_record(self, tmp_path, subtests):
        record().write(tmp_path / "whole.json")
        for content in [b"", b"\xff\xfe\x00", b"[1, 2]", b'{"schema": 1', b"[" * 100_000]:
            (tmp_path / "broken.json").write_bytes(content)
            with (
                subtests.test(content[:20]),
                pytest.raises(
                    ValueError, match="broken.json is not a whole record.*run its job again"
                ),
            ):
                records.read(tmp_path)

    def test_damaged(self, tmp_path, subtests):
        cases: list[dict[str, Any]] = [
            {"schema": 0},
            {"surplus": 1},
            {"scale": "huge"},
            {"parameters": None},
            {"parameters": [1]},
            {"experiment": None},
            {"experiment": "unknown"},
            {"runs": None},
            {"runs": []},
            {"runs": [1]},
            {"runs": [{}]},
            {"epochs_done": 1},
            {"epochs_done": "2"},
            {"wall_seconds": -1},
            {"data": {}},
            {"data": {"name": "mnist", "source": "local", "copy": "x", **SAMPLES}},
            {"data": {"name": "digits", "source": "local", "copy": "x", **SAMPLES, "train": 11}},
            {"data": {"name": "digits", "source": "local", "copy": "x", **SAMPLES, "test": 6}},
            {"model": {}},
            {"model": {"name": "mlp", "parameters": 0}},
        ]
        for changes in cases:
            damaged(tmp_path, **changes)
            with (
                subtests.test(str(changes)),
                pytest.raises(
                    records.Unfit, match="broken.json is not a whole record.*run its job again"
                ),
            ):
                records.read(tmp_path)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"metrics": {}}, "test_accuracy is missing"),
            ({"metrics": {"train_accuracy": 0.5}}, "test_accuracy is missing"),
            *(
                ({"metrics": {"train_accuracy": 0.5, "test_accuracy": value}}, "test_accuracy")
                for value in (97, -0.1, "0.9", None, True, [0.9], 10**400)
            ),
            *(
                ({"metrics": {"train_accuracy": 0.5, "test_accuracy": 0.5, name: value}}, name)
                for name, value in (
                    ("test_ece", None),
                    ("test_ece", 7),
                    ("test_ece_link", -0.1),
                    ("test_confidence", 2),
                    ("test_cross_entropy", -1e-9),
                    ("test_brier", 2.1),
                    ("test_margin_bias", 10**400),
                    ("w_inter", 4),
                    ("<b>", 1),
                    ("a b", 1),
                )
            ),
            ({"curves": None}, "curves"),
            ({"curves": {}}, "the curve epoch is missing"),
            ({"curves": "0.1 0.5 0.9"}, "curves"),
            ({"confidence_counts": None}, "confidence_counts"),
            ({"confidence_counts": [4, 5]}, "confidence_counts is of 9 samples"),
            ({"confidence_counts": [-1, 11]}, "confidence_counts"),
            ({"reliability": {}}, "reliability"),
            ({"beta": 0}, "beta"),
            ({"beta": "1"}, "beta"),
            ({"seed": -1}, "seed"),
            ({"schedule": "`<script>alert(1)</script>`"}, "characters"),
            ({"more": {"deep": [["<script>"]]}}, "characters"),
        ],
    )
    def test_a_run_with_what_no_training_leaves(self, tmp_path, changes, reason):
        first, second = record().runs
        damaged(tmp_path, runs=[first, second | changes])
        with pytest.raises(records.Unfit, match=f"is not a whole record .*{reason}"):
            records.read(tmp_path)

    @pytest.mark.parametrize(
        "curve",
        [
            "0.1 0.5 0.9",
            ["0.1", "0.5", "0.9"],
            [0.1, 0.5],
            [0.1, 0.5, 0.9, 0.9],
            [0.1, None, 0.9],
            [0.1, 0.5, 97],
            [],
            None,
        ],
    )
    def test_a_run_with_a_curve_that_no_training_leaves(self, tmp_path, curve):
        first, second = record().runs
        curves = {**second["curves"], "test_accuracy": curve}
        damaged(tmp_path, runs=[first, second | {"curves": curves}])
        with pytest.raises(records.Unfit, match="test_accuracy"):
            records.read(tmp_path)

    @pytest.mark.parametrize("epochs", [[0, 1], [0, 1, 1], [0, 2, 1], [0, 1, 3]])
    def test_curves_end_with_the_training(self, tmp_path, epochs):
        first, second = record().runs
        damaged(tmp_path, runs=[first, second | {"curves": {**second["curves"], "epoch": epochs}}])
        with pytest.raises(records.Unfit, match="curve"):
            records.read(tmp_path)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ('"scale": "smoke"', '"scale": "paper", "scale": "smoke"'),
            ('"seed": 0', '"seed": 0, "seed": 0'),
            ('"seed": 0', '"seed" : 0,"seed":0'),
            ('"test_accuracy": 0.8', '"test_accuracy": NaN'),
            ('"test_accuracy": 0.8', '"test_accuracy": 1e999'),
            ('"device": "cpu"', '"device": "`<script>alert(1)</script>`"'),
            ('"device": "cpu"', '"<img src=x onerror=alert(1)>": "cpu"'),
            ('"device": "cpu"', r'"device": "\u003cscript>"'),
        ],
    )
    def test_text_that_is_no_record(self, tmp_path, before, after):
        path = record().write(tmp_path / "broken.json")
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))
        with pytest.raises(records.Unfit, match="broken.json is not a whole record"):
            records.read(tmp_path)

    def test_json_of_another_hand_is_read(self, tmp_path):
        path = record().write(tmp_path / "a.json")
        text = path.read_text().replace('": ', '" : ')
        path.write_text(text)
        assert records.load(path) == record()


class TestColumns:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"metrics": {"test_acuracy": 0.5}}, "a.json has 'test_acuracy', which is no declared"),
            ({"more": [1]}, "a.json has 'more', which is no declared column"),
            ({"title": 3}, "a.json has title of type float, which is declared as str"),
            ({"diverged_folds": True}, "has diverged_folds of type bool, .* as int | float"),
        ],
    )
    def test_what_is_not_declared_is_refused(self, tmp_path, changes, message):
        first, second = record().runs
        metrics = second["metrics"] | changes.get("metrics", {})
        runs = [first, second | changes | {"metrics": metrics}]
        record(runs=runs).write(tmp_path / "somewhere" / "a.json")
        with pytest.raises(ValueError, match=f"somewhere/{message}"):
            records.read(tmp_path)

    def test_of_several_records_the_one_with_the_wrong_value_is_named(self, tmp_path):
        record(wall_seconds=1.0).write(tmp_path / "good.json")
        first, second = record().runs
        wrong = [first, second | {"diverged_folds": True}]
        record(runs=wrong).write(tmp_path / "somewhere" / "bad.json")
        with pytest.raises(ValueError, match="somewhere/bad.json has diverged_folds of type bool"):
            records.read(tmp_path)

    def test_parameters_are_those_of_the_notebooks(self):
        of_runs = {"betas", "warmups", "feedbacks", "temperatures", "seeds"}
        of_cost = {"models", "losses", "classes", "steps", "repetitions", "first"}  # angular-cost
        fields = {name for kind in EXPERIMENTS.values() for name in kind.model_fields}
        assert set(columns.PARAMETERS) == fields - of_runs | of_cost
        for name, column in columns.PARAMETERS.items():
            if column.default is not None:
                kind = next(kind for kind in EXPERIMENTS.values() if name in kind.model_fields)
                assert column.default == kind.model_fields[name].default, name

    def test_every_metric_of_a_run_has_a_meaning(self):
        for name, column in columns.COLUMNS.items():
            assert name == column.name
            assert column.meaning and not column.meaning.endswith(".")

    def test_every_column_is_in_a_record_of_the_repository(self):
        later = {f"curve_{angle}" for angle in ("wc_intra", "w_inter", "c_inter")}  # with new runs
        assert set(results.everything()) | later == set(columns.COLUMNS)


class TestEnvironment:
    @pytest.fixture(autouse=True)
    def _asked_anew(self):
        provenance.commit.cache_clear()
        yield
        provenance.commit.cache_clear()

    def test_says_where_and_with_what(self):
        found = records.environment(device="cpu", precision="float32", threads=1)
        assert (
            found["versions"]["torch"] == torch.__version__.split("+")[0]
            or found["versions"]["torch"] == torch.__version__
        )
        assert (found["device"], found["precision"], found["threads"]) == ("cpu", "float32", 1)
        assert found["time"].endswith("+00:00")
        assert {"python", "platform", "commit"} <= set(found)

    @pytest.mark.skipif(not hasattr(os, "chown") or os.geteuid() != 0, reason="needs to be root")
    def test_the_commit_of_a_clone_of_another_user(self, tmp_path, monkeypatch):
        git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a"]
        (tmp_path / "a").touch()
        for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a"]):
            subprocess.run([*git, *arguments], check=True)
        for path in (tmp_path, tmp_path / ".git"):
            os.chown(path, 12345, 12345)
        monkeypatch.setattr(provenance, "ROOT", tmp_path)
        monkeypatch.delenv("GDLIB_COMMIT", raising=False)
        found = records.environment(device="cpu", precision="float32", threads=1)["commit"]
        assert found is not None
        assert len(found) == 12

    @pytest.mark.parametrize("given", ["", "abc"])
    def test_a_checkout_around_the_project_is_not_its_own(self, tmp_path, monkeypatch, given):
        git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a"]
        (tmp_path / "project").mkdir()
        (tmp_path / "project" / "a").touch()
        for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a"]):
            subprocess.run([*git, *arguments], check=True)
        monkeypatch.setattr(provenance, "ROOT", tmp_path / "project")
        monkeypatch.setenv("GDLIB_COMMIT", given)
        found = records.environment(device="cpu", precision="float32", threads=1)["commit"]
        assert found == (given or None)
