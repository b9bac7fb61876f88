"""From an experiment to a record.

A stack is its runs; what is measured and kept, and what an interruption costs.
"""

from __future__ import annotations

import json
import os
import signal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gdlib.functional import gd_cross_entropy
from study import data, records
from study.data.sets import Normalizer
from study.experiment import Train
from study.networks import fast
from study.objective import GradientDecay
from study.run import images as images_of_runs
from study.run import train_stack, training
from study.run.job import Progress
from tests.study.small import small_train

# 1,400 samples, 14 whole batches: all matrices fill whole vectors, see test_train
SMALL: dict[str, Any] = {"validation_size": 37, "epochs": 3, "learning_rate": 0.05}


def weights(experiment: Train) -> list[Tensor]:
    """The parameters, ``[R, ...]`` each, after the experiment."""
    kept: list[Tensor] = []

    def finish(model, dataset, history):
        kept.extend(parameter.detach().clone() for parameter in model.parameters())
        return [{} for _ in range(model.runs)]

    train_stack(experiment, finish=finish)
    return kept


class TestSchedule:
    def test_beta_of_every_step(self, monkeypatch):
        # 1,437 samples in batches of 500: three steps an epoch; a warm-up of two epochs is six
        # steps
        asked: list[float] = []

        class Watched(GradientDecay):
            def __init__(self, temperatures, **options):
                super().__init__(temperatures, **options)
                del self.beta_and_temperature  # by hand it is not called

            def __call__(self, logits, labels, beta):
                asked.append(beta.item())
                return super().__call__(logits, labels, beta)

        monkeypatch.setattr(training, "GradientDecay", Watched)
        every = {
            "step": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.7, 0.7],
            "epoch": [0.1] * 3 + [0.4] * 3 + [0.7] * 3,
        }
        for unit, expected in every.items():
            asked.clear()
            train_stack(
                small_train(
                    betas=[], warmups=[[0.1, 0.7, 2]], schedule_unit=unit, epochs=3, batch_size=500
                )
            )
            assert asked == pytest.approx(expected, rel=1e-6), unit


class TestFeedback:
    GRID = {"hidden": [16], "epochs": 4, "validation_size": 100, "seeds": [0, 1], "betas": [1.0]}

    def test_beta_follows_what_the_record_says_was_measured(self):
        alone = train_stack(small_train(**self.GRID))
        record = train_stack(small_train(feedbacks=[[1, 10, 5]], **self.GRID))
        assert [run["schedule"] for run in record.runs] == ["1", "feedback 1, 10, 5"] * 2
        assert "beta" not in record.runs[0]["curves"]
        for constant, run in zip(alone.runs, record.runs[::2], strict=True):
            assert constant["metrics"]["test_cross_entropy"] == pytest.approx(
                run["metrics"]["test_cross_entropy"]
            )
        for run in record.runs[1::2]:
            curves = run["curves"]
            gaps = np.subtract(curves["valid_confidence"], curves["valid_accuracy"])
            assert curves["beta"] == pytest.approx(
                np.exp(10 * gaps + 5 * np.cumsum(gaps)), rel=1e-5
            )

    def test_an_interrupted_training_follows_the_same_beta(self, tmp_path):
        experiment = small_train(feedbacks=[[1, 10, 5]], **self.GRID)

        def break_off(model, dataset, epoch):
            if epoch == 3:
                raise KeyboardInterrupt
            return {}

        with pytest.raises(KeyboardInterrupt):
            train_stack(experiment, measure=break_off, checkpoint_dir=str(tmp_path))
        assert len(list(tmp_path.iterdir())) == 1
        resumed, straight = (
            train_stack(experiment, checkpoint_dir=str(tmp_path)),
            train_stack(experiment),
        )
        assert [run["curves"] for run in resumed.runs] == [run["curves"] for run in straight.runs]


class TestAStackEqualsItsRunsAlone:
    def test_bit_for_bit(self):
        grid = {
            "betas": [5.0, 0.01],
            "warmups": [[0.01, 0.1, 2]],
            "temperatures": [1.0, 2.0],
            "seeds": [4, 9],
        } | SMALL
        together, members = weights(small_train(**grid)), small_train(**grid).runs()
        for index in (0, 2, 4, 7, 11):
            member = members[index]
            one = {"betas": [], "warmups": []} | (
                {"warmups": [[0.01, 0.1, 2]]} if member.warmup_epochs else {"betas": [member.beta]}
            )
            alone = weights(
                small_train(
                    **(grid | one | {"temperatures": [member.temperature], "seeds": [member.seed]})
                )
            )
            assert all(
                torch.equal(stack[index], single[0])
                for stack, single in zip(together, alone, strict=True)
            ), member

    def test_beta_does_not_change_start_and_order(self):
        first, second = (
            weights(small_train(betas=[beta], **(SMALL | {"learning_rate": 1e-30})))
            for beta in (0.01, 5.0)
        )
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.fixture(scope="module")
def experiment() -> Train:
    grid = {"betas": [1.0, 0.1], "warmups": [[0.01, 0.1, 2]], "seeds": [0, 1]}
    return small_train(hidden=[16], epochs=3, validation_size=100, train_every=2, **grid)


@pytest.fixture(scope="module")
def record(experiment) -> records.Record:
    return train_stack(experiment)


class TestRecord:
    def test_is_complete(self, experiment, record):
        assert record.parameters == experiment.model_dump()
        assert (
            record.experiment == "train"
            and record.scale == "smoke"
            and record.epochs_done == 3
            and record.wall_seconds > 0
        )
        assert (
            record.data["name"] == "digits"
            and record.data["source"] == "embedded"
            and "scikit-learn" in record.data["copy"]
        )
        assert [record.data[split] for split in ("train", "valid", "test")] == [1337, 100, 360]
        assert record.model == {"name": "mlp", "parameters": 64 * 16 + 16 + 16 * 10 + 10}
        assert {"device", "precision", "versions", "commit", "threads", "python", "time"} <= set(
            record.environment
        )
        assert [(run["seed"], run["schedule"], run["beta"]) for run in record.runs] == [
            (seed, *member)
            for seed in (0, 1)
            for member in (("1", 1.0), ("0.1", 0.1), ("warm-up 0.01→0.1", 0.1))
        ]

    def test_metrics_and_curves_fit_together(self, record):
        for run in record.runs:
            metrics, curves = run["metrics"], run["curves"]
            assert curves["epoch"] == curves["train_epoch"] == [0, 1, 2, 3]
            for name in (
                "test_accuracy",
                "test_cross_entropy",
                "train_accuracy",
                "train_cross_entropy",
            ):
                assert len(curves[name]) == 4 and curves[name][-1] == pytest.approx(
                    metrics[name], rel=1e-6
                )
            assert {
                "valid_accuracy",
                "valid_cross_entropy",
                "test_ece",
                "test_mce",
                "test_confidence",
                "train_confidence",
            } <= set(metrics)
            assert 0 <= metrics["test_ece"] <= metrics["test_mce"] <= 1
            assert sum(run["confidence_counts"]) == sum(run["confidence_histogram"]) == 1337
            assert sum(run["reliability"]["count"]) == 360
            assert run["diverged"] is False
            assert ("beta" in curves) == (run["warmup_epochs"] > 0)

    def test_is_written_and_read_and_the_same_twice(self, experiment, record, tmp_path):
        table = records.read([record.write(tmp_path / "a.json")])
        assert table["schedule"].tolist() == [run["schedule"] for run in record.runs]
        assert json.loads((tmp_path / "a.json").read_text())["parameters"]["betas"] == [1.0, 0.1]
        again = train_stack(experiment)
        assert [run["metrics"] for run in again.runs] == [run["metrics"] for run in record.runs]
        assert [run["curves"] for run in again.runs] == [run["curves"] for run in record.runs]

    def test_learns(self):
        (run,) = train_stack(small_train(betas=[0.1], epochs=10)).runs
        assert run["metrics"]["test_accuracy"] > 0.9

    def test_measure_and_finish_add_to_it(self):
        def measure(model, dataset, epoch):
            return {
                "number": torch.full((model.runs,), float(epoch)),
                "table": torch.zeros(model.runs, 2),
            }

        def finish(model, dataset, history):
            assert history[-1]["table"].shape == (2, 2)
            return [{"own": index} for index in range(model.runs)]

        found = train_stack(small_train(betas=[1.0, 0.1], epochs=1), measure=measure, finish=finish)
        assert [run["own"] for run in found.runs] == [0, 1]
        assert (
            found.runs[0]["curves"]["number"] == [0.0, 1.0]
            and "table" not in found.runs[0]["curves"]
        )

    def test_evaluations_are_thinned(self):
        experiment = small_train(dataset="iris", betas=[1.0], epochs=7, test_every=3, hidden=[4])
        curves = train_stack(experiment).runs[0]["curves"]
        assert curves["epoch"] == curves["train_epoch"] == [0, 3, 6, 7]
        assert len(curves["test_accuracy"]) == len(curves["train_accuracy"]) == 4
        experiment = small_train(
            dataset="iris", betas=[1.0], epochs=13, train_every=5, hidden=[4]
        )  # on the training set after ten epochs
        assert train_stack(experiment).runs[0]["curves"]["train_epoch"] == [*range(11), 13]

    def test_what_is_fitted_on_the_validation_split(self, record):
        for run in record.runs:
            metrics = run["metrics"]
            assert run["scaling_temperature"] > 0
            for suffix in ("_temperature", "_vector", "_link"):
                assert 0 <= metrics[f"test_ece{suffix}"] <= metrics[f"test_mce{suffix}"] <= 1
                assert metrics[f"test_nll{suffix}"] > 0
                assert sum(run[f"reliability{suffix}"]["count"]) == 360
            changed = metrics["test_ece_link"] != pytest.approx(metrics["test_ece"], rel=1e-9)
            assert changed == (run["beta"] != 1)


class TestDivergence:
    def test_one_run_of_a_stack(self, tmp_path):
        experiment = small_train(betas=[0.1], temperatures=[1e-30, 1.0], epochs=2)
        found = train_stack(experiment)
        lost, kept = found.runs
        assert lost["diverged"] is True and kept["diverged"] is False
        (alone,) = train_stack(small_train(betas=[0.1], epochs=2)).runs
        assert kept["metrics"]["test_accuracy"] == pytest.approx(
            alone["metrics"]["test_accuracy"], abs=0.01
        )
        assert "NaN" not in found.write(tmp_path / "a.json").read_text()
        assert records.read([tmp_path / "a.json"])["diverged"].tolist() == [True, False]

    def test_a_learning_rate_of_a_thousand(self, tmp_path):
        found = train_stack(
            small_train(
                betas=[5.0, 0.01],
                activation="relu",
                learning_rate=1e3,
                epochs=3,
                normalization="none",
            )
        )
        assert len(found.runs) == 2 and found.epochs_done == 3
        assert any(run["diverged"] for run in found.runs)
        records.load(found.write(tmp_path / "a.json"))


def test_a_line_a_minute_says_how_far_and_how_long(monkeypatch, caplog):
    now = iter(range(0, 10_000, 25))  # seconds at each look at the clock
    monkeypatch.setattr("study.run.job.time.monotonic", lambda: next(now))
    progress = Progress(20, "epoch")
    with caplog.at_level("INFO", logger="study.run"):
        for epoch in range(4, 12):  # goes on from a checkpoint
            progress(epoch)
    assert caplog.messages == [
        "epoch 6 of 20, about 5.83 minutes left",
        "epoch 9 of 20, about 4.58 minutes left",
    ]


IMAGES: dict[str, Any] = {
    "model": "resnet18",
    "width": 0.125,
    "stem": "cifar",
    "normalization": "channel",
    "subset": 200,
    "validation_size": 200,
    "epochs": 2,
    "batch_size": 50,
    "train_every": 2,
    "learning_rate": 0.02,
}


def test_sigterm_keeps_the_last_epoch_and_the_same_command_goes_on(tmp_path, subtests):
    perceptron: dict[str, Any] = {"betas": [1.0, 0.1], "seeds": [0, 1], "hidden": [8]}
    for name, values in {
        "perceptron": perceptron,
        "crops": {**IMAGES, "betas": [1.0], "augmentation": "crop-flip"},
    }.items():
        experiment = small_train(**values | {"epochs": 3})
        asked: list[int] = []

        def measure(model, dataset, epoch, asked=asked):
            asked.append(epoch)
            if asked == [0, 1, 2]:
                os.kill(os.getpid(), signal.SIGTERM)
            return {}

        options: dict[str, Any] = {"checkpoint_dir": str(tmp_path / name), "measure": measure}
        with subtests.test(name):
            with pytest.raises(KeyboardInterrupt):
                train_stack(experiment, **options)
            assert [file.name for file in (tmp_path / name).iterdir()] == [
                f"{experiment.identity()}.pt"
            ]
            resumed = train_stack(experiment, **options)
            assert asked == [0, 1, 2, 2, 3] and resumed.runs[0]["curves"]["epoch"] == [0, 1, 2, 3]
            assert [run["metrics"] for run in resumed.runs] == [
                run["metrics"] for run in train_stack(experiment).runs
            ]


class TestImageNetworks:
    def test_record(self):
        experiment = small_train(
            betas=[1.0, 0.1],
            warmups=[[0.1, 1, 1]],
            augmentation="crop-flip",
            max_grad_norm=3.0,
            **IMAGES,
        )
        record = train_stack(experiment)
        assert (
            record.model["name"] == "resnet18"
            and record.data["train"] == 200
            and record.data["valid"] == 200
        )
        assert (
            record.environment["precision"] == "float32" and record.environment["device"] == "cpu"
        )
        assert all(0 <= run["metrics"]["test_ece_temperature"] <= 1 for run in record.runs)
        assert [run["metrics"] for run in train_stack(experiment).runs] == [
            run["metrics"] for run in record.runs
        ]

    def test_learns(self):
        experiment = small_train(betas=[0.1], **(IMAGES | {"epochs": 6, "subset": 1000}))
        assert train_stack(experiment).runs[0]["metrics"]["test_accuracy"] > 0.8

    def test_a_stack_equals_its_runs_alone(self):
        grid = {"augmentation": "crop-flip", "max_grad_norm": 1.0, "channels_last": True} | IMAGES
        together = train_stack(small_train(betas=[5.0, 0.1], seeds=[3, 4], **grid)).runs
        alone = train_stack(small_train(betas=[0.1], seeds=[4], **grid)).runs[0]
        assert together[3]["metrics"] == alone["metrics"]
        assert together[1]["metrics"] != together[3]["metrics"]

    def test_reduced_precision_is_recorded(self):
        found, exact = (
            train_stack(small_train(betas=[1.0], precision=name, **IMAGES | {"epochs": 1}))
            for name in ("bfloat16", "float32")
        )
        assert found.environment["precision"] == "bfloat16"
        # Eight steps on, float32 from weights that were rounded to bfloat16 once is as far from
        # float32 as bfloat16 is: a tenth.
        curves = [one.runs[0]["curves"]["train_cross_entropy"] for one in (found, exact)]
        for reduced, whole, share in zip(*curves, (1e-3, 0.02), strict=True):
            assert reduced != whole and reduced == pytest.approx(whole, rel=share)

    def test_switches_of_a_gpu_fall_back(self, caplog):
        with caplog.at_level("INFO", logger="gdlib.train"):
            found = train_stack(
                small_train(betas=[1.0], device="auto", cuda_graph=True, fused=True, **IMAGES)
            )
        if found.environment["device"] == "cpu":
            assert "no CUDA graphs" in caplog.text

    def test_what_shows_with_the_machine_or_the_data_alone(self, monkeypatch):
        with pytest.raises(ValueError, match="validation_size must lie in"):
            train_stack(small_train(validation_size=1437))
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(
            ValueError, match="PyTorch finds no GPU here; set it to 'auto' or to 'cpu'"
        ):
            train_stack(small_train(device="cuda", **IMAGES))


class TestMatchedGradient:
    def test_mean_target_gradient_is_that_of_cross_entropy(self):
        generator = torch.Generator().manual_seed(0)
        logits = (
            3 * torch.randn(4, 20, 5, generator=generator, dtype=torch.float64)
        ).requires_grad_()
        labels = torch.randint(0, 5, (4, 20), generator=generator)
        beta = torch.tensor([5.0, 1.0, 0.1, 0.001], dtype=torch.float64)
        target = labels.unsqueeze(2)

        def target_gradient(loss):
            (gradient,) = torch.autograd.grad(loss.sum(), logits)
            return gradient.gather(2, target).squeeze(2)

        for tau in (1.0, 2.0):
            matched = target_gradient(
                GradientDecay([tau] * 4, match_gradient=True)(logits, labels, beta)
            )
            plain = target_gradient(
                GradientDecay([tau] * 4)(logits, labels, torch.ones(4, dtype=torch.float64))
            )
            assert torch.allclose(matched.sum(1), plain.sum(1), rtol=1e-9)
            assert torch.allclose(matched[1], plain[1], rtol=1e-9)
            unmatched = target_gradient(GradientDecay([tau] * 4)(logits, labels, beta))
            ratio = matched / unmatched
            assert torch.allclose(
                ratio, ratio[:, :1].expand_as(ratio), rtol=1e-9
            )  # one factor for the whole batch of a run

    def test_stays_finite_where_everything_is_learnt(self):
        logits = torch.tensor([[[200.0, 0.0], [300.0, 0.0]]], requires_grad=True)
        losses = GradientDecay([1.0], match_gradient=True)(
            logits, torch.zeros(1, 2, dtype=torch.long), torch.tensor([0.1])
        )
        losses.sum().backward()
        assert torch.isfinite(losses).all() and torch.isfinite(logits.grad).all()

    def test_without_it_the_loss_is_the_function(self):
        logits, labels = (
            torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1)),
            torch.tensor([[0, 1, 2], [3, 0, 1]]),
        )
        found = GradientDecay([1.0, 1.0])(logits, labels, torch.tensor([0.1, 5.0]))
        for run, beta in enumerate((0.1, 5.0)):
            assert torch.allclose(
                found[run], gd_cross_entropy(logits[run], labels[run], beta=beta, reduction="none")
            )


class TestTheFirstLayer:
    BASE = {
        "dataset": "iris",
        "hidden": [8],
        "betas": [1.0],
        "epochs": 2,
        "learning_rate": 2.0**-6,
        "momentum": 0.9,
        "weight_decay": 0.0,
    }

    def test_scaled_inputs_are_a_larger_step_and_larger_weights(self):
        # x -> 256 x with weights w is x with weights 256 w and 256² the step; a power of two
        # changes no bit
        raw = train_stack(
            small_train(**self.BASE, normalization="unit", input_scale=256.0, activation="tanh")
        ).runs[0]
        small = train_stack(
            small_train(
                **self.BASE,
                normalization="unit",
                input_scale=256.0,
                first_weights=1 / 256,
                activation="tanh",
            )
        ).runs[0]
        assert raw["metrics"]["saturated"] > 0.5
        assert raw["curves"]["train_cross_entropy"][0] != small["curves"]["train_cross_entropy"][0]
        plain = train_stack(small_train(**self.BASE, normalization="unit", activation="tanh")).runs[
            0
        ]
        assert (
            small["curves"]["train_cross_entropy"][0] == plain["curves"]["train_cross_entropy"][0]
        )  # before the first step
        assert (
            small["curves"]["train_cross_entropy"][1] != plain["curves"]["train_cross_entropy"][1]
        )
        larger = train_stack(
            small_train(**self.BASE, normalization="unit", first_weights=256.0, activation="tanh")
        ).runs[0]
        assert larger["curves"]["train_cross_entropy"][0] == raw["curves"]["train_cross_entropy"][0]

    def test_saturated_and_dead_by_hand(self):
        from gdlib.models import StackedMLP
        from study.measures import first_layer

        stack = StackedMLP([1, 3, 2], seeds=[0], activation="tanh")
        with torch.no_grad():
            stack.weights[0].copy_(torch.tensor([[[100.0, 0.1, 0.0]]]))
            stack.biases[0].copy_(torch.tensor([[0.0, 0.0, 50.0]]))
        found = first_layer(stack, "tanh", torch.tensor([[1.0], [-1.0]]))
        assert found["saturated"].tolist() == [
            pytest.approx(2 / 3)
        ]  # the first and the last unit, for both samples
        assert found["dead"].tolist() == [
            pytest.approx(1 / 3)
        ]  # the last: at the same end for both


def test_the_link_has_the_beta_after_the_warm_up(monkeypatch):
    asked, real = [], training.final_measures

    def watched(dataset, logits, betas, each):
        asked.append(list(betas))
        return real(dataset, logits, betas, each)

    monkeypatch.setattr(training, "final_measures", watched)
    train_stack(small_train(betas=[5], warmups=[[0.01, 0.1, 2]], epochs=3, hidden=[8]))
    assert asked == [[5.0, 0.1]]


@pytest.mark.parametrize(
    ("schedule", "milestones"),
    [({"milestones": [0.5, 0.8]}, [5, 8]), ({"lr_schedule": "exponential"}, [])],
)
def test_every_number_of_an_update_reaches_the_trainer(monkeypatch, schedule, milestones):
    def stop(*arguments, **options):
        raise StopIteration(options)

    monkeypatch.setattr(training, "train", stop)
    numbers = {"momentum": 0.5, "weight_decay": 2e-3, "max_grad_norm": 1.5, "optimizer": "adam"}
    with pytest.raises(StopIteration) as stopped:
        train_stack(small_train(learning_rate=0.03, epochs=10, **numbers, **schedule))
    expected = numbers | {"lr": 0.03, "milestones": milestones}
    expected["lr_schedule"] = schedule.get("lr_schedule", "milestones")
    assert expected.items() <= stopped.value.value.items()


def test_bytes_are_cropped_before_they_are_normalised():
    experiment = small_train(model="resnet18", normalization="channel", augmentation="crop2-flip")
    dataset = SimpleNamespace(normalize=Normalizer(torch.tensor(7.0), torch.tensor(2.0)))
    images = torch.full((1, 1, 1, 4, 4), 7, dtype=torch.uint8)
    corner = torch.zeros(1, 1, 3, dtype=torch.long)
    expected = torch.full((4, 4), -3.5)  # black
    expected[2:, 2:] = 0.0
    found = images_of_runs._augmented(experiment, dataset, images, corner)
    assert torch.equal(found[0, 0, 0], expected)


def test_the_small_network_is_whitened_by_its_training_images(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    train, test = (
        data.Split(torch.randn(40, 1, 16, 16, generator=generator), torch.arange(40) % 10)
        for _ in range(2)
    )
    made = data.Dataset("digits", train, None, test, tuple("0123456789"), "embedded", "x")
    monkeypatch.setattr(training, "load", lambda experiment: made)
    kept = []

    def finish(model, dataset, history):
        kept.append(model.copies[0].body.whitening.weight.clone())
        return [{}]

    train_stack(small_train(model="fast", betas=[1.0], epochs=1, batch_size=20), finish=finish)
    expected = fast(channels=1)
    expected.whiten(train.inputs)
    torch.testing.assert_close(kept, [expected.body.whitening.weight.detach()])
