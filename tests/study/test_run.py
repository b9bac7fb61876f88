"""A page and its file of results.

What is checked before anything is loaded, what the file has, and that a stack is its runs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from gdlib.train import train
from study import data, parameters, provenance, published, results, run
from study.data.sets import Normalizer
from study.losses import LOSSES, parse
from study.networks import MLP_HEADS, fast
from study.objective import CORRECTIONS
from study.run import images as images_of_runs
from study.run.page import Progress, curves_of, device_of
from tests.study.small import run_page

SMALL: dict[str, Any] = {"betas": [1.0, 0.1], "warmups": [], "seeds": [0, 1], "epochs": 2}
# -- before a page loads its data ------------------------------------------------------------------


def given(**values: Any) -> dict[str, Any]:
    """What IPython and papermill put into a page, and its parameters."""
    return {"In": [""], "Out": {}, "_": "", "__name__": "__main__", "record": ""} | values


def test_a_job_knows_its_parameters_and_trains_with_one_thread() -> None:
    torch.set_num_threads(2)
    job = run.begin("mnist", given(epochs=3, seeds=[5]))
    assert torch.get_num_threads() == 1
    assert job.parameters == parameters.checked("mnist", {"epochs": 3, "seeds": [5]})
    assert (job.record, job.checkpoint, job.device) == ("", {}, torch.device("cpu"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nosuch": 3}, "nosuch is no parameter of this page; its parameters are: dataset, "),
        ({"epoch": 3}, "epoch is no parameter of this page; did you mean 'epochs'"),
        ({"activation": "rely"}, "got 'rely'; did you mean 'relu'"),
        ({"epochs": 0}, "epochs: Input should be greater than 0"),
        ({"betas": "[1]"}, "betas: Input should be a valid list"),
    ],
)
def test_a_wrong_name_or_value_stops_a_page(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run.begin("mnist", given(**values))


def test_a_page_stops_before_it_loads_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "load", lambda *_, **__: pytest.fail("the data were loaded"))
    with pytest.raises(ValueError, match="epochs"):
        run_page("mnist", tmp_path / "a.json", epochs=-1)
    (tmp_path / "mine.json").write_text("mine")
    with pytest.raises(ValueError, match=r"mine\.json is there already; delete it, or name anothe"):
        run_page("mnist", tmp_path / "mine.json")
    assert (tmp_path / "mine.json").read_text() == "mine"
    nowhere = tmp_path / "no" / "a.json"
    with pytest.raises(ValueError, match="there is no folder .*/no; make it, or name a file of"):
        run_page("mnist", nowhere)
    assert not nowhere.parent.exists()


def test_a_full_disk_stops_a_page_before_it_trains(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"a\.json"):
            run.begin("mnist", given(record=str(tmp_path / "a.json")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())
    run.begin("mnist", given(record=str(tmp_path / "a.json")))
    assert not list(tmp_path.iterdir()), "trying leaves nothing"


def test_a_folder_of_the_project_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run.begin("mnist", given(record="build/deep/a.json"))


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="PyTorch finds no GPU here; set it to 'auto' or to 'cpu'"):
        run.begin("cifar", given(device="cuda"))
    assert device_of("auto") == torch.device("cpu")


def test_a_checkpoint_is_of_these_parameters_alone(tmp_path: Path) -> None:
    first, same, other = (
        run.begin("mnist", given(checkpoint_dir=str(tmp_path), epochs=epochs)).checkpoint
        for epochs in (3, 3, 4)
    )
    assert first == same
    assert first["checkpoint"] != other["checkpoint"]
    assert first["checkpoint_every"] == 10


def test_a_line_a_minute_says_how_far_and_how_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = iter(range(0, 10_000, 25))  # seconds at each look at the clock
    monkeypatch.setattr("study.run.page.time.monotonic", lambda: next(now))
    progress = Progress(20, "epoch")
    with caplog.at_level("INFO", logger="study.run"):
        for epoch in range(4, 12):  # goes on from a checkpoint
            progress(epoch)
    assert caplog.messages == [
        "epoch 6 of 20, about 5.83 minutes left",
        "epoch 9 of 20, about 4.58 minutes left",
    ]


# -- the file of results ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The file of a page with a validation split."""
    sizes = SMALL | {"warmups": [[0.01, 0.1, 1]], "activation": "tanh"}
    return run_page("mnist", tmp_path_factory.mktemp("run") / "a.json", **sizes)


def test_the_job_says_what_it_was_asked_for_and_where_it_ran(written: dict[str, Any]) -> None:
    job = written["job"]
    asked = {"warmups": [[0.01, 0.1, 1]], "activation": "tanh"}
    values = parameters.checked("mnist", SMALL | asked)
    assert job["experiment"] == "mnist"
    assert {name: job[name] for name in values} == values
    assert (job["data_source"], job["train_samples"], job["test_samples"]) == (
        "embedded",
        1437,
        360,
    )
    assert "scikit-learn" in job["data_copy"]
    assert job["model_parameters"] == 64 * 50 + 50 + 50 * 20 + 20 + 20 * 10 + 10
    assert (job["hardware"], job["threads"]) == ("cpu", 1)
    assert job["torch"] == torch.__version__.split("+")[0] or job["torch"] == torch.__version__
    assert job["wall_seconds"] > 0 and job["time"].endswith("+00:00")


def test_each_run_is_the_planned_one_and_its_numbers_fit_together(written: dict[str, Any]) -> None:
    planned = parameters.planned(written["job"])
    assert len(written["runs"]) == len(planned) == 6
    for number, (row, plan) in enumerate(zip(written["runs"], planned, strict=True)):
        assert {name: row[name] for name in plan} == plan
        assert row["diverged"] is False
        curves = [one for one in written["curves"] if one["run"] == number]
        assert [one["epoch"] for one in curves] == [0, 1, 2]
        for name in ("test_accuracy", "test_cross_entropy", "train_accuracy"):
            assert curves[-1][name] == pytest.approx(row[name], rel=1e-5)
        assert ("beta" in curves[0]) == (plan["warmup_epochs"] > 0)
        assert 0 <= row["test_ece"] <= 1
        assert sum(row[name] for name in published.FIFTHS.values()) == 1437


def test_what_is_fitted_on_the_validation_split(tmp_path: Path) -> None:
    sizes = {"betas": [1.0, 0.1], "seeds": [0], "epochs": 2, "validation_size": 100}
    found = run_page("how-sure", tmp_path / "a.json", **sizes)
    assert (found["job"]["train_samples"], found["job"]["valid_samples"]) == (1337, 100)
    for row in found["runs"]:
        assert row["scaling_temperature"] > 0
        for suffix in ("_temperature", "_vector", "_link"):
            assert 0 <= row[f"test_ece{suffix}"] <= 1
        changed = row["test_ece_link"] != pytest.approx(row["test_ece"], rel=1e-5)
        assert changed == (row["beta"] != 1)


def test_a_stack_equals_its_runs_alone_and_is_the_same_twice(
    written: dict[str, Any], tmp_path: Path
) -> None:
    alone = run_page(
        *("mnist", tmp_path / "a.json"),
        **SMALL | {"betas": [], "warmups": [[0.01, 0.1, 1]], "seeds": [1], "activation": "tanh"},
    )
    for table in ("runs", "curves"):
        of_stack = [row | {"run": 0} for row in written[table] if row["run"] == 5]
        assert of_stack == alone[table], table


def test_warm_ups_between_the_same_ends_may_last_differently(tmp_path: Path) -> None:
    lasting = {"betas": [], "warmups": [[0.01, 0.1, 1], [0.01, 0.1, 2]], "seeds": [0], "epochs": 2}
    rows = run_page("mnist", tmp_path / "a.json", **lasting)["runs"]
    assert [row["warmup_epochs"] for row in rows] == [1, 2]
    assert rows[0]["schedule"] == rows[1]["schedule"] == "warm-up 0.01→0.1"


def test_a_run_that_diverges_leaves_the_others_alone(tmp_path: Path) -> None:
    sizes = {"betas": [0.1], "seeds": [0], "epochs": 2, "validation_size": 37}
    found = run_page("temperature", tmp_path / "a.json", **sizes, temperatures=[1e-30, 1.0])
    lost, kept = found["runs"]
    assert (lost["diverged"], kept["diverged"]) == (True, False)
    alone = run_page("temperature", tmp_path / "b.json", **sizes, temperatures=[1.0])
    assert kept["test_accuracy"] == pytest.approx(alone["runs"][0]["test_accuracy"], abs=0.02)
    assert "NaN" not in (tmp_path / "a.json").read_text()


@pytest.mark.parametrize("loss", ["softmax", "adjusted 1"])
def test_another_loss_is_the_schedule_of_its_runs(tmp_path: Path, loss: str) -> None:
    sizes = {"betas": [1], "seeds": [0], "epochs": 1, "imbalance": 5.0}
    (row,) = run_page("long-tailed", tmp_path / "a.json", **sizes, loss=loss)["runs"]
    assert row["schedule"] == loss and "test_ece_link" not in row


def test_an_interruption_keeps_the_last_epoch_and_the_same_page_goes_on(tmp_path: Path) -> None:
    sizes = {"betas": [1.0], "warmups": [], "seeds": [0, 1], "epochs": 3, "width": 0.0625}
    asked: list[int] = []

    def progress(epoch: int) -> None:
        asked.append(epoch)
        if asked == [0, 1, 2]:
            raise KeyboardInterrupt

    where = {"checkpoint_dir": str(tmp_path / "kept"), "progress": progress}
    with pytest.raises(KeyboardInterrupt):
        run_page("cifar", tmp_path / "a.json", **sizes, **where)
    assert not (tmp_path / "a.json").exists()
    (kept,) = (tmp_path / "kept").iterdir()
    resumed = run_page("cifar", tmp_path / "a.json", **sizes, **where)
    assert asked == [0, 1, 2, 2, 3]
    straight = run_page("cifar", tmp_path / "b.json", **sizes)
    for table in ("runs", "curves"):
        assert resumed[table] == straight[table]

    kept.write_bytes(kept.read_bytes()[:-100])
    with pytest.raises(ValueError, match=kept.name):
        run_page("cifar", tmp_path / "c.json", **sizes, checkpoint_dir=str(kept.parent))


def test_the_rows_say_how_their_networks_were_trained(tmp_path: Path) -> None:
    sizes = {"betas": [1.0], "warmups": [], "seeds": [0], "epochs": 2, "width": 0.0625}
    job = run_page("cifar", tmp_path / "a.json", **sizes, model="resnet18")["job"]
    assert (job["milestones"], job["max_grad_norm"]) == ([0.5, 0.75], 3.0)  # shares, as in results/
    assert (job["weight_decay"], job["precision"]) == (1e-4, "float32")


def test_a_job_on_tables_trains_its_own_loss_alone(tmp_path: Path) -> None:
    asked: list[int] = []
    sizes = {"datasets": ["iris"], "seeds": [0], "epochs": 1, "loss": "arcgrad 5"}
    found = run_page("tables", tmp_path / "a.json", **sizes, progress=asked.append)
    assert asked == [0] and len(found["runs"]) == 1


def test_curves_of_a_history() -> None:
    def numbers(*values: float) -> torch.Tensor:
        return torch.tensor(values)

    history = [
        {"epoch": 0, "test_accuracy": numbers(0.1, 0.2), "beta": numbers(1.0, 0.1)},
        {"epoch": 1, "loss": numbers(2.0, 3.0), "beta": numbers(1.0, 0.5)},
        {
            **{"epoch": 2, "test_accuracy": numbers(0.5, 0.75), "loss": numbers(1.0, 2.0)},
            **{"train_accuracy": numbers(0.5, 0.25), "beta": numbers(1.0, 1.0)},
            "table": torch.zeros(2, 3),
        },
    ]
    constant, warmed = (curves_of(history, index) for index in (0, 1))
    assert constant == {
        **{"epoch": [0, 2], "train_epoch": [2], "test_accuracy": pytest.approx([0.1, 0.5])},
        "train_accuracy": [0.5],
    }
    assert warmed["beta"] == pytest.approx([0.1, 1.0])


# -- losses, images --------------------------------------------------------------------------------

NUMBERS = {
    **{"center": "0.02", "m-softmax": "0.5", "arcface": "20 0.1", "guarded-adacos": "0.98"},
    **{"arcgrad": "10", "gce": "0.7", "poly1": "1", "focal": "2", "gd": "0.1", "a-softmax": "2"},
    **dict.fromkeys(("lm", "lm-qu", "lm-uq", "modified-lm"), "0.3"),
    **{"label-smoothing": "0.1", "l-softmax": "2", "lgm": "0.3 0.1"},
    **dict.fromkeys(CORRECTIONS, "0.1"),
}
TEXTS = [f"{name} {NUMBERS.get(name, '')}".strip() for name in LOSSES]


@pytest.mark.parametrize("text", [text for text in TEXTS if parse(text).kind.head in MLP_HEADS])
def test_a_perceptron_learns_with_every_loss(text: str) -> None:
    table = data.table("iris")
    features = data.fit_normalizer(table.features, "standard")(table.features)
    stack = run.HeadedMLP([4, 16, 16, 3], seeds=[0, 1], **run.last_layer(text))
    loss = run.named_loss(text, stack, table.labels)
    train(
        stack, loss, (features, table.labels), epochs=15, batch_size=15, lr=0.01, optimizer="adam"
    )
    with torch.no_grad():
        found = stack(features[None])[..., :3].argmax(2)
    assert ((found == table.labels).double().mean(1) > 0.85).all()


def test_bytes_are_cropped_before_they_are_normalised() -> None:
    images = torch.full((1, 1, 1, 4, 4), 7, dtype=torch.uint8)
    split = data.Split(images[0], torch.zeros(1, dtype=torch.long))
    normalize = Normalizer(torch.tensor(7.0), torch.tensor(2.0))
    made = data.Dataset("digits", split, None, split, ("0",), "embedded", "x", normalize)
    corner = torch.zeros(1, 1, 3, dtype=torch.long)
    expected = torch.full((4, 4), -3.5)  # black
    expected[2:, 2:] = 0.0
    found = images_of_runs._prepared(made, images, corner, padding=2)
    assert torch.equal(found[0, 0, 0], expected)


def test_the_small_network_is_whitened_by_its_training_images() -> None:
    inputs = torch.randn(40, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    split = data.Split(inputs, torch.arange(40) % 10)
    made = data.Dataset("digits", split, None, split, tuple("0123456789"), "embedded", "x")
    stack = run.small_network(made, seeds=[0, 1])
    expected = fast(channels=1)
    expected.whiten(inputs)
    for network in stack.copies:
        torch.testing.assert_close(
            network.body.whitening.weight.detach(), expected.body.whitening.weight.detach()
        )


# -- where it ran ----------------------------------------------------------------------------------


class TestProvenance:
    @pytest.fixture(autouse=True)
    def _asked_anew(self) -> Any:
        provenance.commit.cache_clear()
        yield
        provenance.commit.cache_clear()

    def commit(self, folder: Path) -> None:
        git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a"]
        (folder / "study").mkdir()
        (folder / "study" / "a").touch()
        for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a"]):
            subprocess.run([*git, *arguments], check=True)

    def test_says_where_and_with_what(self) -> None:
        found = provenance.environment(torch.device("cpu"))
        assert {"time", "commit", "hardware", "threads", "platform", "python"} <= set(found)
        assert {"torch", "numpy", "scikit-learn", "pandas"} <= set(found)
        assert json.dumps(found)

    @pytest.mark.skipif(not hasattr(os, "chown") or os.geteuid() != 0, reason="needs to be root")
    def test_the_commit_of_a_clone_of_another_user(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.commit(tmp_path)
        for path in (tmp_path, tmp_path / ".git"):
            os.chown(path, 12345, 12345)
        monkeypatch.setattr(provenance, "ROOT", tmp_path)
        monkeypatch.delenv("GDLIB_COMMIT", raising=False)
        found = provenance.commit()
        assert found is not None and len(found) == 12

    def test_what_differs_from_its_commit_has_a_mark(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.commit(tmp_path)
        (tmp_path / "study" / "a").write_text("changed")
        monkeypatch.setattr(provenance, "ROOT", tmp_path)
        assert str(provenance.commit()).endswith("+")

    @pytest.mark.parametrize("given", ["", "abc"])
    def test_a_checkout_around_the_project_is_not_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
    ) -> None:
        self.commit(tmp_path)
        monkeypatch.setattr(provenance, "ROOT", tmp_path / "study")
        monkeypatch.setenv("GDLIB_COMMIT", given)
        assert provenance.commit() == (given or None)


def test_results_are_of_six_digits_and_parameters_of_all(tmp_path: Path) -> None:
    path = results.write(
        tmp_path / "a.json",
        {"learning_rate": 1 / 3},
        [{"metrics": {"test_accuracy": 1 / 3, "test_nll": float("inf")}}],
    )
    found = results.load(path)
    assert found["job"]["learning_rate"] == 1 / 3
    assert found["runs"] == [{"run": 0, "test_accuracy": 0.333333, "test_nll": None}]
