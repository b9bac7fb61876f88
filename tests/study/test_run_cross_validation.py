"""Cross-validation on tables: stack equals alone, against a plain loop.

Nothing of the held-out fold is seen, and every method learns.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib.models import StackedMLP
from gdlib.train import RunLoss, batch_order, train
from study import data, records
from study.experiment import CrossValidation
from study.losses import LOSSES, parse
from study.networks import MLP_HEADS, HeadedMLP, perceptrons
from study.objective import CORRECTIONS, StackLoss
from study.run import cross_validate, order_of_parts

QUICK = {"datasets": ["iris"], "folds": 3, "seeds": [0], "epochs": 4, "hidden": [8]}


def loss_of(text: str, classes: int, runs: int = 2) -> StackLoss:
    return StackLoss(parse(text), classes, runs=runs, features=5)


def blobs(samples: int = 53) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (samples,), generator=generator)
    return torch.randn(samples, 4, generator=generator) + 2 * F.one_hot(labels, 4), labels


class TestRunsWithSamplesOfTheirOwn:
    """The argument `order` of the loop."""

    def parts(self) -> list[Tensor]:
        everything = torch.arange(53)
        return [
            everything[everything % 4 != left_out] for left_out in range(4)
        ]  # 39, 40, 40, 40 samples

    def test_a_stack_equals_its_runs_alone(self, subtests):
        for optimizer in ("sgd", "adam"):
            with subtests.test(optimizer):
                self.stack(optimizer)

    def stack(self, optimizer: str) -> None:
        (inputs, labels), parts = blobs(), self.parts()
        order = order_of_parts(parts, [5, 6, 7, 8])

        def trained(members: list[int]) -> StackedMLP:
            model = perceptrons([4, 16, 16, 3], [5 + member for member in members])
            train(
                model,
                RunLoss(loss_of("softmax", 3)),
                (inputs, labels),
                epochs=5,
                batch_size=16,
                lr=0.05,
                optimizer=optimizer,
                momentum=0.9,
                order=lambda epoch: order(epoch)[members],
            )
            return model

        together = trained([0, 1, 2, 3])
        for member in range(4):
            for stacked, alone in zip(
                together.parameters(), trained([member]).parameters(), strict=True
            ):
                torch.testing.assert_close(stacked[member], alone[0], rtol=1e-5, atol=1e-6)

    def test_against_a_plain_loop(self, subtests):
        for optimizer, kind in {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}.items():
            with subtests.test(optimizer):
                self.loop(optimizer, kind)

    def loop(self, optimizer: str, kind: type[torch.optim.Optimizer]) -> None:
        (inputs, labels), parts = blobs(), self.parts()
        model = perceptrons([4, 6, 3], [0, 1, 2, 3], activation="tanh")
        plain = []
        for run in range(4):
            net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3, bias=False))
            with torch.no_grad():
                net[0].weight.copy_(model.weights[0][run].T)
                net[0].bias.copy_(model.biases[0][run])
                net[2].weight.copy_(model.weights[1][run].T)
            plain.append(net)
        settings = {
            "epochs": 3,
            "batch_size": 10,
            "lr": 0.02,
            "optimizer": optimizer,
            "momentum": 0.9,
            "weight_decay": 1e-3,
        }
        train(
            model,
            RunLoss(loss_of("softmax", 3)),
            (inputs, labels),
            order=order_of_parts(parts, [0, 1, 2, 3]),
            **settings,
        )
        for run, net in enumerate(plain):
            own = {"momentum": 0.9} if kind is torch.optim.SGD else {}
            update = kind(net.parameters(), lr=0.02, weight_decay=1e-3, **own)
            for epoch in range(1, 4):
                for batch in parts[run][batch_order(run, epoch, len(parts[run]))][:39].split(10):
                    update.zero_grad()
                    F.cross_entropy(net(inputs[batch]), labels[batch]).backward()
                    update.step()
            torch.testing.assert_close(model.weights[0][run].T, net[0].weight, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(model.weights[1][run].T, net[2].weight, rtol=1e-4, atol=1e-5)

    def test_an_epoch_takes_as_many_of_each_part_and_each_once(self):
        parts = self.parts()
        order = order_of_parts(parts, [0, 0, 1, 2])
        drawn = [order(epoch) for epoch in range(1, 30)]
        for of_epoch in drawn:
            assert of_epoch.shape == (4, 39)
            for row, part in zip(of_epoch.tolist(), parts, strict=True):
                assert len(set(row)) == 39 and set(row) <= set(part.tolist())
        assert set(torch.cat(drawn, 1)[1].tolist()) == set(
            parts[1].tolist()
        )  # what one epoch leaves out, another takes
        assert torch.equal(order(3), drawn[2])


class TestHeads:
    def test_linear_is_the_perceptron_without_its_last_bias(self):
        inputs, seeds = blobs()[0][None], [3, 4]
        whole, headed = StackedMLP([4, 8, 3], seeds), perceptrons([4, 8, 3], seeds)
        torch.testing.assert_close(headed(inputs), whole(inputs) - whole.biases[-1][:, None])
        assert (
            sum(p.numel() for p in whole.parameters()) - sum(p.numel() for p in headed.parameters())
            == 2 * 3
        )

    def test_cosine(self):
        inputs = blobs()[0][None]
        model = HeadedMLP([4, 8, 3], [3, 4], head="cosine", with_features=True)
        output = model(inputs)
        cosine, features = output[..., :3], output[..., 3:]
        torch.testing.assert_close(features, model.features(inputs))
        for run in range(2):
            for index in range(3):
                expected = F.cosine_similarity(
                    features[run], model.layers.weights[-1][run, :, index][None], dim=1
                )
                torch.testing.assert_close(cosine[run, :, index], expected)

    def test_unknown(self):
        with pytest.raises(
            ValueError, match="unknown head 'round' for perceptrons; valid: linear, cosine"
        ):
            HeadedMLP([4, 3], [0], head="round")


class TestMethods:
    def test_center_loss_step_by_step(self):
        generator = torch.Generator().manual_seed(1)
        loss_fn = loss_of("center 0.02", 3)
        centers = torch.zeros(2, 3, 5)
        for _ in range(3):
            outputs = torch.randn(2, 7, 3 + 5, generator=generator)
            labels = torch.randint(0, 3, (2, 7), generator=generator)
            losses = loss_fn(outputs, labels, torch.ones(2))
            for run in range(2):
                for sample in range(7):
                    logits, features, label = (
                        outputs[run, sample, :3],
                        outputs[run, sample, 3:],
                        labels[run, sample],
                    )
                    expected = (
                        F.cross_entropy(logits, label)
                        + 0.01 * (features - centers[run, label]).square().sum()
                    )
                    torch.testing.assert_close(losses[run, sample], expected)
            for run in range(2):
                moved = centers[run].clone()
                for label in range(3):
                    of_class = outputs[run, labels[run] == label, 3:]
                    moved[label] -= (
                        0.5 * (centers[run, label] - of_class).sum(0) / (1 + len(of_class))
                    )
                centers[run] = moved

    def test_adacos_step_by_step(self):
        generator = torch.Generator().manual_seed(1)
        loss_fn, scale = loss_of("adacos", 4), [2**0.5 * torch.log(torch.tensor(3.0))] * 2
        for _ in range(3):
            cosine = torch.rand(2, 9, 4, generator=generator)
            labels = torch.randint(0, 4, (2, 9), generator=generator)
            losses = loss_fn(cosine, labels, torch.ones(2))
            for run in range(2):
                wrong = [
                    torch.exp(scale[run] * cosine[run, sample, j])
                    for sample in range(9)
                    for j in range(4)
                    if j != labels[run, sample]
                ]
                median = torch.arccos(
                    cosine[run].gather(1, labels[run][:, None]).squeeze(1)
                ).median()
                scale[run] = torch.log(sum(wrong) / 9) / torch.cos(median.clamp(max=torch.pi / 4))
                torch.testing.assert_close(
                    losses[run],
                    F.cross_entropy(scale[run] * cosine[run], labels[run], reduction="none"),
                )

    def test_adacos_learns_nothing_from_two_classes_unless_guarded(self):
        cosine = torch.rand(1, 6, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
        labels = torch.tensor([[0, 1, 0, 1, 1, 0]])
        loss_of("adacos", 2, runs=1)(cosine, labels, torch.ones(1)).sum().backward()
        assert cosine.grad is not None and torch.equal(cosine.grad, torch.zeros_like(cosine))
        loss_of("guarded-adacos 0.98", 2, runs=1)(cosine, labels, torch.ones(1)).sum().backward()
        assert cosine.grad.abs().max() > 0.01


class TestCrossValidation:
    def test_every_method_learns(self, subtests):
        numbers = {
            "center": "0.02",
            "m-softmax": "0.5",
            "arcface": "20 0.1",
            "guarded-adacos": "1",
            "arcgrad": "5",
            "gce": "0.7",
            "poly1": "1",
            "focal": "2",
            "gd": "0.1",
            "lm": "0.3",
            "lm-qu": "0.3",
            "lm-uq": "0.3",
            "modified-lm": "0.3",
            "label-smoothing": "0.1",
            "a-softmax": "2",
            **dict.fromkeys(CORRECTIONS, "0.1"),
        }
        for name in [name for name, kind in LOSSES.items() if kind.head in MLP_HEADS]:
            with subtests.test(name):
                experiment = CrossValidation(
                    **QUICK
                    | {"loss": f"{name} {numbers.get(name, '')}", "epochs": 12, "hidden": [16, 16]}
                )
                (run,) = cross_validate(experiment).runs
                assert run["metrics"]["test_accuracy"] > 0.8
                assert run["metrics"]["diverged_folds"] == 0

    @pytest.mark.parametrize(
        ("corrected", "plain"),
        [("weighted 1", "softmax"), ("adjusted 0.1", "gd 0.1"), ("class-beta 0.1", "gd 0.1")],
    )
    def test_a_correction_knows_the_sizes_of_the_classes(self, corrected, plain):
        with_sizes, without = (
            cross_validate(CrossValidation(**QUICK | {"datasets": ["wine"], "loss": loss}))
            for loss in (corrected, plain)
        )
        assert with_sizes.runs[0]["metrics"] != without.runs[0]["metrics"]

    def test_accuracies_are_of_the_fold_that_was_left_out(self, monkeypatch):
        models = []

        def spy(model, *arguments, **options):
            models.append(model)
            return train(model, *arguments, **options)

        monkeypatch.setattr("study.run.cross_validation.train", spy)
        experiment = CrossValidation(**QUICK)
        (run,) = cross_validate(experiment).runs
        table = data.table("iris")
        fold, trained = data.folds(table.labels, 3, seed=0), []
        for index, found in enumerate(run["fold_accuracies"].tolist()):
            out = fold == index
            normalize = data.fit_normalizer(table.features[~out], experiment.normalization)
            logits = models[0](normalize(table.features)[None])[index]
            right = (logits.argmax(1) == table.labels).double()
            assert found == pytest.approx(right[out].mean().item())
            trained.append(right[~out].mean().item())
        assert run["metrics"]["train_accuracy"].item() == pytest.approx(sum(trained) / 3)
        assert run["fold_accuracies"].tolist() != pytest.approx(trained)

    def test_what_is_held_out_is_not_seen(self, monkeypatch):
        table = data.table("iris")
        fold = data.folds(table.labels, 3, seed=0)
        experiment = CrossValidation(**QUICK)
        before = cross_validate(experiment).runs[0]["fold_accuracies"]
        spoilt = table.features.clone()
        spoilt[fold == 0] += (
            # changes the scaling and the training of the other two trainings, but not of this one
            1e3
        )
        models_seen = {}

        def spy(model, *arguments, **options):
            history = train(model, *arguments, **options)
            models_seen[len(models_seen)] = [
                parameter.detach().clone() for parameter in model.parameters()
            ]
            return history

        monkeypatch.setattr("study.run.cross_validation.train", spy)
        cross_validate(experiment)
        monkeypatch.setattr(
            "study.data.table", lambda *_, **__: dataclasses.replace(table, features=spoilt)
        )
        cross_validate(experiment)
        clean, other = models_seen[0], models_seen[1]
        assert all(torch.equal(one[0], two[0]) for one, two in zip(clean, other, strict=True))
        assert not torch.equal(clean[0][1], other[0][1])
        assert len(before) == 3

    def test_the_record(self, tmp_path):
        experiment = CrossValidation(
            **QUICK | {"datasets": ["iris", "wine"], "seeds": [0, 3], "test_every": 2}
        )
        record = cross_validate(experiment)
        frame = records.read([record.write(tmp_path / "one.json")])
        assert list(frame["dataset"]) == ["iris", "iris", "wine", "wine"] and list(
            frame["seed"]
        ) == [0, 3, 0, 3]
        assert frame["curve_epoch"].iloc[0] == [0, 2, 4]
        for _, run in frame.iterrows():
            assert run["test_accuracy"] == pytest.approx(sum(run["fold_accuracies"]) / 3, rel=1e-5)
            assert run["curve_test_accuracy"][-1] == run["test_accuracy"]
        again = cross_validate(experiment)
        assert [run["fold_accuracies"].tolist() for run in again.runs] == [
            run["fold_accuracies"].tolist() for run in record.runs
        ]

    def test_equal_rows_stay_together(self, monkeypatch):
        asked = []
        folds = data.folds

        def spy(labels, n_folds, seed, stratified, groups):
            asked.append(groups)
            return folds(labels, n_folds, seed, stratified, groups)

        monkeypatch.setattr("study.data.folds", spy)
        cross_validate(CrossValidation(**QUICK | {"epochs": 1}))
        cross_validate(CrossValidation(**QUICK | {"epochs": 1, "duplicates_together": True}))
        assert (
            asked[0] is None and len(set(asked[1].tolist())) == 149
        )  # scikit-learn's iris has one row twice
