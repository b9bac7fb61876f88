"""The trainer as a stranger meets it: any module, loss and data; what does not fit is named."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from gdlib import GDCrossEntropyLoss, losses
from gdlib.heads import ClassCenters, CosineLinear, GaussianMixtureHead, NormedLinear
from gdlib.models import ModuleStack, StackedMLP
from gdlib.schedules import ConfidenceFeedback, Constant, LinearWarmup
from gdlib.train import (
    Batches,
    Checkpoint,
    Execution,
    Optimisation,
    RunLoss,
    batch_order,
    predict,
    train,
)
from gdlib.train.manual import ManualStep
from gdlib.train.update import optimizer_of

SGD = Optimisation(0.1, momentum=0.9)
TEN = Batches(10)


def blobs(samples: int = 33, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (samples,), generator=generator)
    noise = torch.randn(samples, 4, generator=generator)
    return noise + 2 * F.one_hot(labels, 4), labels


def net(*, batch_norm: bool = False) -> nn.Module:
    torch.manual_seed(7)
    middle = [nn.BatchNorm1d(6)] if batch_norm else []
    return nn.Sequential(nn.Linear(4, 6), *middle, nn.ReLU(), nn.Linear(6, 3))


def fit(model: nn.Module, loss: Any, data: Any = None, **options: Any) -> list[dict[str, Any]]:
    chosen = {"epochs": 3, "optimisation": SGD, "batches": TEN} | options
    return train(model, loss, blobs() if data is None else data, **chosen)


def looped(
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    parameters: list[nn.Parameter] | None = None,
    *,
    before_step: Callable[[int], None] = lambda step: None,
    epochs: int = 3,
) -> None:
    """Train as PyTorch's tutorials do, in the order of the trainer."""
    inputs, labels = blobs()
    optimizer = torch.optim.SGD([*model.parameters(), *(parameters or [])], lr=0.1, momentum=0.9)
    step = 0
    for epoch in range(1, epochs + 1):
        for batch in batch_order(0, epoch, len(inputs)).split(10):
            before_step(step)
            optimizer.zero_grad()
            loss(model(inputs[batch]), labels[batch]).backward()
            optimizer.step()
            step += 1


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


class TestAnyModule:
    @pytest.mark.parametrize(
        "loss",
        [
            GDCrossEntropyLoss(beta=0.1),
            GDCrossEntropyLoss(
                5.0, temperature=2.0, weight=torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1
            ),
            losses.FocalLoss(gamma=2.0),
            nn.CrossEntropyLoss(),
            F.cross_entropy,
        ],
    )
    def test_is_the_plain_loop_bit_for_bit(self, loss):
        ours, theirs = net(batch_norm=True), net(batch_norm=True)
        fit(ours, loss)
        looped(theirs, loss)
        assert same(ours, theirs)

    def test_a_loss_of_each_sample_counts_by_its_mean(self):
        ours, theirs = net(), net()
        fit(ours, GDCrossEntropyLoss(0.1, reduction="none"))
        fit(theirs, GDCrossEntropyLoss(0.1))
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other)

    def test_soft_targets_and_other_targets(self):
        inputs, labels = blobs()
        soft, hard = net(), net()
        fit(soft, GDCrossEntropyLoss(0.1), (inputs, F.one_hot(labels, 3).float()))
        fit(hard, GDCrossEntropyLoss(0.1))
        for one, other in zip(soft.parameters(), hard.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        model, plain = nn.Linear(4, 2), Optimisation(0.1)
        first = F.mse_loss(model(inputs), inputs[:, :2])
        fit(model, F.mse_loss, (inputs, inputs[:, :2]), epochs=20, optimisation=plain)
        assert F.mse_loss(model(inputs), inputs[:, :2]) < 0.1 * first

    def test_images_with_a_class_for_each_pixel(self):
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(12, 1, 4, 4, generator=generator)
        model, labels = nn.Conv2d(1, 2, 1), (images[:, 0] > 0).long()
        fit(model, GDCrossEntropyLoss(0.1), (images, labels), epochs=30)
        assert (predict(model, images).argmax(1) == labels).float().mean() > 0.95

    def test_predict(self):
        model, (inputs, _) = net(), blobs()
        assert torch.equal(predict(model, inputs), model(inputs))
        torch.testing.assert_close(predict(model, inputs, batch_size=4), model(inputs))
        assert model.training

        class Two(nn.Module):
            def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
                return inputs, 2 * inputs

        assert torch.equal(predict(Two(), inputs), inputs)

        class Named(nn.Module):
            def forward(self, inputs: Tensor) -> dict[str, Tensor]:
                return {"logits": inputs}

        with pytest.raises(TypeError, match="return a tensor, or a tuple of them; got dict"):
            fit(nn.Sequential(nn.Linear(4, 3), Named()), F.cross_entropy)


class Headed(nn.Module):
    """Layers with a head, which may return several tensors."""

    def __init__(self, head: nn.Module, *, with_norms: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Sequential(nn.Linear(4, 5), nn.Tanh())
        self.head, self.with_norms = head, with_norms

    def forward(self, inputs: Tensor) -> Any:
        features = self.body(inputs)
        output = self.head(features)
        return (output, features.norm(dim=-1)) if self.with_norms else output


class ToCenters(nn.Module):
    """Features, and the centres from which the loss measures them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = nn.Linear(4, 2)
        self.centers = ClassCenters(features=2, classes=3, rate=None)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self.body(inputs), self.centers.centers


def cosines() -> nn.Module:
    torch.manual_seed(2)
    return CosineLinear(5, 3)


EVERY_LOSS: dict[str, tuple[Callable[[], nn.Module], nn.Module]] = {
    "AdaCosLoss": (lambda: Headed(cosines()), losses.AdaCosLoss(3)),
    "ArcFaceLoss": (lambda: Headed(cosines()), losses.ArcFaceLoss(20.0, 0.1)),
    "ArcGradLoss": (lambda: Headed(cosines()), losses.ArcGradLoss(5.0)),
    "CenterLoss": (ToCenters, losses.CenterLoss()),
    "CosFaceLoss": (lambda: Headed(cosines()), losses.CosFaceLoss(20.0, 0.1)),
    "FocalLoss": (net, losses.FocalLoss()),
    "GDCrossEntropyLoss": (net, GDCrossEntropyLoss(0.1)),
    "GaussianMixtureLoss": (
        lambda: Headed(GaussianMixtureHead(5, 3, diagonal=True)),
        losses.GaussianMixtureLoss(0.1, 0.1),
    ),
    "GeneralizedCrossEntropyLoss": (net, losses.GeneralizedCrossEntropyLoss(0.7)),
    "LSoftmaxLoss": (
        lambda: Headed(NormedLinear(5, 3)),
        losses.LSoftmaxLoss(2, annealing=lambda step: 5.0 / (1 + step)),
    ),
    "LargeMarginLoss": (net, losses.LargeMarginLoss()),
    "ModifiedCrossEntropyLoss": (net, losses.ModifiedCrossEntropyLoss()),
    "MultiClassHingeLoss": (net, losses.MultiClassHingeLoss()),
    "NegativeProbabilityLoss": (net, losses.NegativeProbabilityLoss()),
    "Poly1CrossEntropyLoss": (net, losses.Poly1CrossEntropyLoss(1.0)),
    "SoftMarginLoss": (net, losses.SoftMarginLoss(0.5)),
    "SphereFaceLoss": (
        lambda: Headed(cosines(), with_norms=True),
        losses.SphereFaceLoss(margin=2),
    ),
}


class TestAnyLossOfTheLibrary:
    def test_none_is_left_out(self):
        assert EVERY_LOSS.keys() == set(losses.__all__) - {"Loss"}

    @pytest.mark.parametrize("name", list(EVERY_LOSS))
    def test_falls(self, name):
        make, loss = EVERY_LOSS[name]
        model, loss = make(), copy.deepcopy(loss)
        inputs, labels = blobs(60)

        def value() -> float:
            with torch.no_grad():
                outputs = model(inputs)
                first, *more = (outputs,) if isinstance(outputs, Tensor) else outputs
                return float(copy.deepcopy(loss).eval()(first, labels, *more))

        before = value()
        fit(model, loss, (inputs, labels), epochs=15, optimisation=Optimisation(0.05))
        assert math.isfinite(value()) and value() < before - 0.01

    def test_center_loss_says_what_it_needs(self):
        with pytest.raises(ValueError, match=r"let the model return both, \(features, centers\)"):
            fit(net(), losses.CenterLoss())

    def test_adacos_keeps_its_scale_and_an_evaluation_does_not_move_it(self, tmp_path):
        make, loss = EVERY_LOSS["AdaCosLoss"]
        straight, asked = copy.deepcopy(loss), []

        def measure(model: nn.Module, epoch: int) -> None:
            before = straight.scale.clone()
            straight(predict(model, blobs()[0]), blobs()[1])
            assert torch.equal(straight.scale, before)
            asked.append(epoch)

        one = make()
        fit(one, straight, measure=measure)
        assert asked == [0, 1, 2, 3] and not torch.equal(straight.scale, loss.scale)
        for epochs in (1, 3):
            other, resumed = make(), copy.deepcopy(loss)
            fit(other, resumed, epochs=epochs, checkpoint=tmp_path / "state.pt")
        assert torch.equal(resumed.scale, straight.scale) and same(one, other)


class Learnt(nn.Module):
    """A cross-entropy with a scale of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.scale * logits, labels)


class TestParametersOfALoss:
    @pytest.mark.parametrize(
        "make", [Learnt, lambda: GDCrossEntropyLoss(beta=nn.Parameter(torch.tensor(20.0)))]
    )
    def test_are_trained(self, make):
        """They once were not, without a word."""
        ours, theirs, loss, plain = net(), net(), make(), make()
        fit(ours, loss)
        looped(theirs, plain, list(plain.parameters()))
        assert same(ours, theirs) and same(loss, plain) and not same(loss, make())

    def test_have_no_weight_decay(self):
        class Nothing(Learnt):
            def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
                return 0 * super().forward(logits, labels)

        nothing, model = Nothing(), net()
        fit(model, nothing, optimisation=Optimisation(0.1, weight_decay=0.5))
        assert nothing.scale.item() == 1.0 and not same(model, net())

    @pytest.mark.parametrize("optimizer", ["sgd", "adam"])
    def test_go_on_after_an_interruption(self, tmp_path, optimizer):
        optimisation = Optimisation(0.05, optimizer=optimizer, momentum=0.9)
        one, straight = net(), Learnt()
        fit(one, straight, epochs=4, optimisation=optimisation)
        for epochs in (2, 4):
            other, resumed = net(), Learnt()
            fit(
                other,
                resumed,
                epochs=epochs,
                optimisation=optimisation,
                checkpoint=tmp_path / "state.pt",
            )
        assert same(one, other) and same(straight, resumed)

    def test_a_learnt_beta_stands_in_the_history(self):
        loss = GDCrossEntropyLoss(beta=nn.Parameter(torch.tensor(20.0)))
        history = fit(net(), loss)
        assert history[0]["beta"].tolist() == [20.0]
        assert history[-1]["beta"].item() == pytest.approx(loss.beta.item())
        with pytest.raises(ValueError, match="beta is learnt, so there can be no schedule"):
            fit(net(), loss, schedule=Constant(1.0))

    def test_are_not_shared_by_runs(self):
        message = (
            r"Learnt has parameters, which 2 runs cannot share; .*copy.deepcopy\(loss\) for _ in"
        )
        with pytest.raises(ValueError, match=message):
            fit(ModuleStack([net(), net()]), Learnt())
        each_own = [Learnt(), Learnt()]
        stack, alone, loss = ModuleStack([net(), net()]), net(), Learnt()
        fit(stack, each_own)
        fit(alone, loss)
        assert same(stack.copies[1], alone) and same(each_own[1], loss)
        with pytest.raises(ValueError, match="one loss for each of the 2 runs, .*; got 3"):
            fit(ModuleStack([net(), net()]), [Learnt() for _ in range(3)])


class TestStacksWithPlainLosses:
    def test_each_run_is_the_module_alone(self):
        make, loss = EVERY_LOSS["AdaCosLoss"]
        for options in ({}, {"batches": Batches(10, seeds=[3, 4])}):
            models = [make(), make()]
            with torch.no_grad():
                models[1].body[0].weight.mul_(2)
            alone = copy.deepcopy(models)
            fit(ModuleStack(models), copy.deepcopy(loss), **options)
            for run, (together, single) in enumerate(zip(models, alone, strict=True)):
                seed = options["batches"].seeds[run] if options else 0
                fit(single, copy.deepcopy(loss), batches=Batches(10, seeds=[seed]))
                assert same(together, single)

    def test_a_sweep_over_beta(self):
        betas, inputs = [5.0, 1.0, 0.1], blobs()[0]
        stack = StackedMLP([4, 6, 3], seeds=[0] * 3)
        history = fit(stack, GDCrossEntropyLoss(), schedule=[Constant(beta) for beta in betas])
        assert history[-1]["beta"].tolist() == pytest.approx(betas)
        for run, beta in enumerate(betas):
            alone = StackedMLP([4, 6, 3], seeds=[0])
            found = fit(alone, GDCrossEntropyLoss(beta))
            assert found[-1]["beta"].tolist() == pytest.approx([beta])
            torch.testing.assert_close(predict(stack, inputs)[run], predict(alone, inputs)[0])

    @pytest.mark.parametrize("scheduled", [True, False])
    def test_the_loss_of_the_library_is_done_by_hand_where_it_can(self, monkeypatch, scheduled):
        options = {"schedule": Constant(0.1)} if scheduled else {}
        by_hand, by_autograd = (StackedMLP([4, 6, 3], seeds=[0, 1]) for _ in range(2))
        fit(
            by_autograd,
            GDCrossEntropyLoss(0.1, temperature=2.0),
            execution=Execution(manual_backward=False),
            **options,
        )
        done = []
        real = ManualStep.__call__

        def counted(step: ManualStep, *batch: Tensor) -> None:
            done.append(len(batch))
            real(step, *batch)

        monkeypatch.setattr(ManualStep, "__call__", counted)
        fit(by_hand, GDCrossEntropyLoss(0.1, temperature=2.0), **options)
        assert len(done) == 3 * 4
        for one, other in zip(by_hand.parameters(), by_autograd.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        for loss in (
            GDCrossEntropyLoss(0.1, label_smoothing=0.1),
            GDCrossEntropyLoss(0.1, weight=torch.ones(3)),
            GDCrossEntropyLoss(0.1, reduction="sum"),
            GDCrossEntropyLoss(beta=torch.tensor(0.1)),
            nn.CrossEntropyLoss(),
        ):
            done.clear()
            fit(StackedMLP([4, 6, 3], seeds=[0, 1]), loss, epochs=1)
            assert not done

    def test_refusals(self):
        stack = StackedMLP([4, 3], seeds=[0, 1])
        for loss, options, message in [
            (losses.FocalLoss(), {"schedule": Constant(1.0)}, "β, and FocalLoss takes none"),
            (F.cross_entropy, {"schedule": Constant(1.0)}, "cross_entropy takes none"),
            (losses.AdaCosLoss(3, runs=2), {}, "leave the argument runs of AdaCosLoss out"),
            (GDCrossEntropyLoss(), {"schedule": [Constant(1.0)]}, "each of the 2 runs; got 1"),
            (
                lambda logits, labels: logits[:2],
                {},
                r"one for each of the 10 samples; it returned the shape \[2, 3\]",
            ),
        ]:
            with pytest.raises(ValueError, match=message):
                fit(stack, loss, **options)
        for loss, message in [
            ("cross-entropy", "loss must be a function of outputs and targets"),
            (3, "loss must be a function of outputs and targets"),
            (lambda logits, labels: 1.0, "loss must return a tensor; it returned a float"),
        ]:
            with pytest.raises((TypeError, ValueError), match=message):
                fit(stack, loss)
        with pytest.raises(TypeError, match="a function of outputs, labels and β"):
            RunLoss(3)
        with pytest.raises(ValueError, match="takes one output of a model, .* returns 2"):
            fit(EVERY_LOSS["LSoftmaxLoss"][0](), RunLoss(lambda logits, labels, beta: logits))


class TestSchedules:
    def test_are_those_of_a_plain_loop(self):
        warmup, loss = LinearWarmup(0.1, 5.0, 7), GDCrossEntropyLoss(2.0)
        ours, theirs, plain = net(), net(), GDCrossEntropyLoss()

        def set_beta(step: int) -> None:
            plain.beta = warmup(step)

        history = fit(ours, loss, schedule=warmup)
        looped(theirs, plain, before_step=set_beta)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other)
        assert loss.beta == 2.0  # as it was
        expected = [warmup(4 * epoch) for epoch in range(4)]
        assert [entry["beta"].item() for entry in history] == pytest.approx(expected)
        by_epoch = fit(net(), loss, schedule=lambda step: warmup(step // 4))
        assert by_epoch[2]["beta"].item() == pytest.approx(warmup(2))

    def measure(self, model: nn.Module, epoch: int) -> dict[str, float]:
        p = torch.softmax(predict(model, blobs(seed=5)[0]), 1)
        accuracy = float((p.argmax(1) == blobs(seed=5)[1]).float().mean())
        return {"valid_confidence": float(p.amax(1).mean()), "valid_accuracy": accuracy}

    def test_a_feedback_starts_anew_in_every_training(self, tmp_path):
        """A resumed training once saw what the object remembered beside what the file did."""
        feedback, path = ConfidenceFeedback(1.0, 5.0, 5.0), tmp_path / "state.pt"
        options = {"schedule": feedback, "measure": self.measure}
        straight = [entry["beta"].item() for entry in fit(net(), GDCrossEntropyLoss(), **options)]
        again = [entry["beta"].item() for entry in fit(net(), GDCrossEntropyLoss(), **options)]
        for epochs in (1, 3):
            resumed = fit(net(), GDCrossEntropyLoss(), epochs=epochs, checkpoint=path, **options)
        assert straight == again == [entry["beta"].item() for entry in resumed]
        assert len(set(straight)) == 4
        assert feedback(0) == pytest.approx(straight[-1])  # the end can be read

    def test_runs_that_share_a_feedback_are_refused(self):
        feedback = ConfidenceFeedback(1.0, 5.0, 5.0)
        with pytest.raises(ValueError, match="give every run a schedule of its own"):
            fit(StackedMLP([4, 3], [0, 1]), GDCrossEntropyLoss(), schedule=[feedback, feedback])

    def test_a_schedule_that_remembers_must_be_able_to_forget(self):
        class Remembers(Constant):
            def update(self, measured: Any) -> None:
                raise AssertionError

        with pytest.raises(TypeError, match="Remembers has a method update, so it needs .* reset"):
            fit(net(), GDCrossEntropyLoss(), schedule=Remembers(1.0))


class Rows(Dataset):
    """Samples one by one, their labels as Python's numbers."""

    def __init__(self, samples: int = 33) -> None:
        self.inputs, self.labels = blobs(samples)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.inputs[index], int(self.labels[index])


class TestAnyData:
    @pytest.mark.parametrize("data", [TensorDataset(*blobs()), Rows()])
    def test_a_dataset_is_its_tensors(self, data):
        for make, options in [
            (net, {}),
            (net, {"batches": Batches(10, drop_last=True, seeds=[5])}),
            (net, {"batches": Batches(10, prepare=lambda batch, draws: batch / 2)}),
            (
                lambda: ModuleStack([net(), net()]),
                {"batches": Batches(10, seeds=[0, 1]), "schedule": [Constant(1.0), Constant(0.1)]},
            ),
        ]:
            ours, theirs = make(), make()
            fit(ours, GDCrossEntropyLoss(), data, **options)
            fit(theirs, GDCrossEntropyLoss(), **options)
            assert same(ours, theirs)

    def loader(self, *, own_generator: bool = False, **options: Any) -> DataLoader:
        generator = torch.Generator().manual_seed(9) if own_generator else None
        chosen = {"batch_size": 10, "shuffle": True, "generator": generator} | options
        return DataLoader(Rows(), **chosen)

    def test_a_loader_is_gone_through_as_in_a_plain_loop(self):
        ours, theirs, loss = net(), net(), GDCrossEntropyLoss(0.1)
        torch.manual_seed(3)
        fit(ours, loss, self.loader(), batches=Batches(), epochs=2)
        torch.manual_seed(3)
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
        loader = self.loader()
        for _ in range(2):
            for inputs, labels in loader:
                optimizer.zero_grad()
                loss(theirs(inputs), labels).backward()
                optimizer.step()
        assert same(ours, theirs)

    @pytest.mark.parametrize("own_generator", [False, True])
    @pytest.mark.parametrize("lr_schedule", ["milestones", "one-cycle"])
    def test_a_loader_goes_on_after_an_interruption(self, tmp_path, own_generator, lr_schedule):
        class Stop(Exception):
            pass

        def trained(path: Path | None, *, stop: int = -1, seed: int = 3) -> nn.Module:
            def measure(model: nn.Module, epoch: int) -> None:
                if epoch == stop:
                    raise Stop

            model = nn.Sequential(net(), nn.Dropout(0.1))
            torch.manual_seed(seed)
            fit(
                model,
                GDCrossEntropyLoss(0.1),
                self.loader(own_generator=own_generator),
                batches=Batches(),
                epochs=4,
                optimisation=Optimisation(0.05, lr_schedule=lr_schedule),
                checkpoint=path,
                measure=measure,
            )
            return model

        path = tmp_path / "state.pt"
        with pytest.raises(Stop):
            trained(path, stop=3)
        straight = trained(None)
        assert same(trained(path, seed=4), straight)  # the file has the state of the generator
        assert not same(trained(None, seed=4), straight)

    def test_runs_share_the_batches_of_a_loader(self):
        torch.manual_seed(3)
        stack = ModuleStack([net(), net()])
        torch.manual_seed(4)
        betas = [Constant(1.0), Constant(0.1)]
        fit(stack, GDCrossEntropyLoss(), self.loader(), batches=Batches(), schedule=betas)
        for run, beta in enumerate(betas):
            alone = net()
            torch.manual_seed(4)
            fit(alone, GDCrossEntropyLoss(), self.loader(), batches=Batches(), schedule=beta)
            assert same(stack.copies[run], alone)

    def test_refusals(self):
        class Endless(IterableDataset):
            def __iter__(self):
                raise AssertionError

        class Liar(DataLoader):
            def __len__(self) -> int:
                return 9

        inputs, labels = blobs()
        for data, batches, error, message in [
            (self.loader(), TEN, ValueError, "batches, an order and drop_last of its own"),
            (DataLoader(Endless()), Batches(), ValueError, "DataLoader must have a length"),
            (Endless(), TEN, ValueError, "Endless must have a length"),
            (Rows(0), TEN, ValueError, "at least one sample"),
            (Liar(Rows(), batch_size=10), Batches(), ValueError, "has 9 batches, and made 4"),
            (
                DataLoader(TensorDataset(inputs, labels, labels)),
                Batches(),
                TypeError,
                r"two tensors, inputs and labels; got \['Tensor', 'Tensor', 'Tensor'\]",
            ),
            (inputs, TEN, TypeError, "a pair of tensors .*; got Tensor"),
            ((inputs, labels.tolist()), TEN, TypeError, "got tuple"),
            ((inputs, labels[:3]), TEN, ValueError, r"got shapes \[33, 4\] and \[3\]"),
            ((inputs, labels[0]), TEN, ValueError, r"shapes \[33, 4\] and \[\]"),
            (Rows(), Batches(10, draws=lambda epoch: labels), ValueError, "draws belong to"),
        ]:
            with pytest.raises(error, match=message):
                fit(net(), F.cross_entropy, data, batches=batches)


class TestOrders:
    def order(self, lengths: list[int]) -> Callable[[int], Tensor]:
        return lambda epoch: torch.arange(lengths[epoch - 1])[None]

    @pytest.mark.parametrize("data", [blobs(33), Rows()], ids=["tensors", "Dataset"])
    @pytest.mark.parametrize("second", [25, 33])
    def test_every_epoch_has_the_length_of_the_first(self, data, second):
        """Steps on no samples once moved the weights; samples beyond the first length were lost."""
        batches = Batches(10, order=self.order([30, second]))
        with pytest.raises(ValueError, match=r"the order of epoch 2 .* the shape \[1, 30\]"):
            fit(net(), F.cross_entropy, data, batches=batches, epochs=2)

    def test_an_order_has_rows(self):
        batches = Batches(10, order=lambda epoch: torch.arange(33))
        with pytest.raises(ValueError, match=r"\[S, N\]; it returned the shape \[33\]"):
            fit(net(), F.cross_entropy, batches=batches)

    def test_numbers_are_drawn_for_each_sample(self):
        batches = Batches(10, draws=lambda epoch: torch.rand(33), prepare=lambda x, drawn: x)
        with pytest.raises(ValueError, match=r"draws of epoch 1 must begin with the shape \[1, 33"):
            fit(net(), F.cross_entropy, batches=batches)


class TestTheLastBatch:
    def test_drop_last(self):
        asked: list[int] = []

        def prepare(batch: Tensor, draws: Tensor | None) -> Tensor:
            asked.append(batch.shape[1])
            return batch

        fit(net(), F.cross_entropy, epochs=2, batches=Batches(10, prepare=prepare, drop_last=True))
        assert asked == [10] * 6
        with pytest.raises(
            ValueError, match="drop_last leaves nothing of 33 samples in batches of"
        ):
            fit(net(), F.cross_entropy, batches=Batches(100, drop_last=True))

    @pytest.mark.parametrize("data", [blobs(31), Rows(31), DataLoader(Rows(31), batch_size=10)])
    def test_of_one_sample_under_batch_normalisation(self, data):
        batches = Batches() if isinstance(data, DataLoader) else TEN
        with pytest.raises(ValueError, match="one sample, .*: leave it out by drop_last=True"):
            fit(net(batch_norm=True), F.cross_entropy, data, batches=batches)
        fit(net(), F.cross_entropy, data, batches=batches)
        if batches is TEN:
            fit(net(batch_norm=True), F.cross_entropy, data, batches=Batches(10, drop_last=True))

    def test_another_error_of_such_a_batch_is_not_hidden(self):
        with pytest.raises(ValueError, match=r"\[1, 1, 4\] do not fit 1 runs of a layer with 5"):
            fit(StackedMLP([5, 3], [0]), F.cross_entropy, blobs(1))


class TestLabels:
    """The step by hand once took what autograd refused, and broke off with errors of PyTorch."""

    BOTH = [Execution(manual_backward=True), Execution(manual_backward=False)]

    @pytest.mark.parametrize("execution", BOTH)
    @pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "uint16", "uint64"])
    def test_of_any_integer_type(self, execution, dtype):
        inputs, labels = blobs()
        ours, theirs = (StackedMLP([4, 6, 3], [0, 1]) for _ in range(2))
        converted = inputs, labels.to(getattr(torch, dtype))
        fit(ours, GDCrossEntropyLoss(0.1), converted, execution=execution)
        fit(theirs, GDCrossEntropyLoss(0.1), execution=execution)
        assert same(ours, theirs)

    @pytest.mark.parametrize("execution", BOTH)
    @pytest.mark.parametrize("label", [3, -1, -100, 7])
    @pytest.mark.parametrize("ignore_index", [-100, -7])
    def test_without_an_output(self, execution, label, ignore_index):
        inputs, labels = blobs()
        labels[30] = label
        loss = GDCrossEntropyLoss(0.1, ignore_index=ignore_index)
        if label == ignore_index:
            found = StackedMLP([4, 6, 3], [0])
            fit(found, loss, (inputs, labels), execution=execution)
            assert not same(found, StackedMLP([4, 6, 3], [0]))
            return
        for data in ((inputs, labels), DataLoader(TensorDataset(inputs, labels), batch_size=10)):
            batches = TEN if isinstance(data, tuple) else Batches()
            message = (
                rf"labels hold {label}, which lies outside \[0, 3\).*count with {ignore_index}"
            )
            model = StackedMLP([4, 6, 3], [0])
            with pytest.raises(ValueError, match=message):
                fit(model, loss, data, execution=execution, batches=batches)
            if isinstance(data, tuple):
                assert same(model, StackedMLP([4, 6, 3], [0])), "before the first step"

    @pytest.mark.parametrize("execution", BOTH)
    def test_that_do_not_count_are_left_to_the_loss(self, execution):
        inputs, labels = blobs()
        labels[::3] = -100
        found = StackedMLP([4, 6, 3], [0, 1])
        fit(found, GDCrossEntropyLoss(0.1), (inputs, labels), execution=execution)
        by_autograd = StackedMLP([4, 6, 3], [0, 1])
        fit(by_autograd, GDCrossEntropyLoss(0.1), (inputs, labels), execution=self.BOTH[1])
        assert same(found, by_autograd)

    @pytest.mark.parametrize("execution", BOTH)
    @pytest.mark.parametrize(
        "wrong", [torch.zeros(33).bool(), torch.zeros(33), torch.zeros(33, 2).long()]
    )
    def test_of_a_type_or_shape_that_the_loss_refuses(self, execution, wrong):
        with pytest.raises(ValueError, match="class indices"):
            fit(
                StackedMLP([4, 6, 3], [0]),
                GDCrossEntropyLoss(0.1),
                (blobs()[0], wrong),
                execution=execution,
            )

    @pytest.mark.parametrize("execution", BOTH)
    @pytest.mark.parametrize("width", [3, 5])
    def test_a_wrong_input_width(self, execution, width):
        with pytest.raises(
            ValueError, match=r"do not fit 1 runs of a layer with 4 inputs: expected"
        ):
            fit(
                StackedMLP([4, 6, 3], [0]),
                GDCrossEntropyLoss(0.1),
                (torch.zeros(33, width), blobs()[1]),
                execution=execution,
            )


class TestALossThatChanges:
    """A training by hand once kept the temperature of its beginning."""

    @pytest.mark.parametrize("name", ["beta", "temperature"])
    def test_is_followed_from_epoch_to_epoch(self, name):
        inputs, labels = blobs()
        models = [StackedMLP([4, 6, 3], [0, 1]).double() for _ in range(2)]
        for model, by_hand in zip(models, (True, False), strict=True):
            loss = GDCrossEntropyLoss(0.1)
            fit(
                model,
                loss,
                (inputs.double(), labels),
                execution=Execution(manual_backward=by_hand),
                measure=lambda model, epoch, loss=loss: setattr(loss, name, 1.1 + epoch),
            )
        pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
        for one, other in pairs:  # in float64, β and τ too
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)

    def test_that_is_not_done_by_hand_any_more_is_refused(self):
        loss = GDCrossEntropyLoss(0.1)
        with pytest.raises(ValueError, match="the loss was changed to one whose gradients are not"):
            fit(
                StackedMLP([4, 6, 3], [0]),
                loss,
                measure=lambda model, epoch: setattr(loss, "label_smoothing", 0.1),
            )


class TestMeasurements:
    def test_may_be_numbers(self):
        found = {"a": 0.1, "b": 3, "c": True, "d": [1.0, 2.0], "e": torch.ones(2).requires_grad_()}
        history = fit(net(), F.cross_entropy, measure=lambda model, epoch: found)
        assert history[1]["a"].item() == 0.1 and history[1]["a"].dtype == torch.float64
        assert history[1]["b"].item() == 3 and history[1]["d"].tolist() == [1.0, 2.0]
        assert not history[1]["e"].requires_grad

    def test_may_change_later(self):
        kept, counted = torch.zeros(()), np.zeros(1)

        def measure(model, epoch):
            kept.fill_(epoch)
            counted[0] = epoch
            return {"a": kept, "b": counted}

        history = fit(net(), F.cross_entropy, measure=measure)
        for name in ("a", "b"):
            assert [entry[name].item() for entry in history] == [0, 1, 2, 3]

    def test_may_be_missing(self):
        history = fit(net(), F.cross_entropy, measure=lambda model, epoch: None)
        assert [entry.keys() for entry in history] == [{"epoch", "learning_rate"}] * 4

    def test_see_the_model_that_was_given(self):
        model, seen = net(), []
        fit(model, F.cross_entropy, measure=lambda given, epoch: seen.append(given))
        assert all(one is model for one in seen) and not model.training

    @pytest.mark.parametrize(
        ("found", "message"),
        [
            ({"a": "x"}, "measure must return numbers or tensors; a is a str"),
            ({"a": {}}, "a is a dict"),
            (0.5, "a dictionary of names and numbers, or None; it returned a float"),
        ],
    )
    def test_of_another_kind(self, found, message):
        with pytest.raises(TypeError, match=message):
            fit(net(), F.cross_entropy, measure=lambda model, epoch: found)

    def test_numbers_go_through_a_checkpoint(self, tmp_path):
        options = {"checkpoint": tmp_path / "state.pt", "measure": lambda *_: {"a": 0.1}}
        fit(net(), F.cross_entropy, epochs=1, **options)
        history = fit(net(), F.cross_entropy, epochs=3, **options)
        assert [entry["a"].item() for entry in history] == [0.1] * 4


class TestCheckpoints:
    def test_of_another_number_of_samples(self, tmp_path):
        path = tmp_path / "state.pt"
        fit(net(), F.cross_entropy, epochs=1, checkpoint=path)
        with pytest.raises(ValueError, match="was written with samples=33, not 34"):
            fit(net(), F.cross_entropy, blobs(34), checkpoint=path)

    def test_a_directory_is_named(self, tmp_path):
        """It once was called damaged, and the reader told to delete it."""
        message = re.escape(f"{tmp_path} is a directory; name a file in it, such as {tmp_path}")
        for path in (tmp_path, str(tmp_path)):
            with pytest.raises(ValueError, match=message):
                Checkpoint(path)
            with pytest.raises(ValueError, match=message):
                fit(net(), F.cross_entropy, checkpoint=path)

    def test_a_module_goes_on(self, tmp_path):
        straight = net(batch_norm=True)
        fit(straight, GDCrossEntropyLoss(0.1), epochs=4)
        for epochs in (2, 4):
            resumed = net(batch_norm=True)
            fit(resumed, GDCrossEntropyLoss(0.1), epochs=epochs, checkpoint=tmp_path / "state.pt")
        assert same(straight, resumed)

    @pytest.mark.parametrize(
        "other",
        [
            F.cross_entropy,
            GDCrossEntropyLoss(0.1),
            GDCrossEntropyLoss(beta=torch.tensor(0.1), weight=torch.ones(3)),
        ],
    )
    def test_of_a_loss_with_other_tensors(self, tmp_path, other):
        """Such a file once was called damaged, or the training went on with its weights."""
        weighted = GDCrossEntropyLoss(0.1, weight=torch.ones(3))
        message = r"written with loss=\['GDCrossEntropyLoss\(weight: \[3\], beta.*restore the old"
        fit(net(), weighted, epochs=1, checkpoint=tmp_path / "weighted.pt")
        with pytest.raises(ValueError, match=message):
            fit(net(), other, checkpoint=tmp_path / "weighted.pt")
        fit(net(), other, epochs=1, checkpoint=tmp_path / "other.pt")
        with pytest.raises(ValueError, match=r"written with loss=.*, not \['GDCrossEntropyLoss"):
            fit(net(), weighted, checkpoint=tmp_path / "other.pt")

    @pytest.mark.parametrize(
        ("loss", "other"),
        [
            (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.5)),
            (nn.MultiMarginLoss(), nn.MultiMarginLoss(margin=5.0)),
        ],
        ids=["label smoothing", "margin"],
    )
    def test_of_a_loss_of_pytorch_with_another_number(self, tmp_path, loss, other):
        path = tmp_path / "state.pt"
        fit(net(), loss, epochs=1, checkpoint=path)
        with pytest.raises(ValueError, match="was written with loss="):
            fit(net(), other, checkpoint=path)

    def test_of_another_number_of_batches(self, tmp_path):
        path = tmp_path / "state.pt"
        fit(net(), F.cross_entropy, epochs=1, checkpoint=path)
        with pytest.raises(ValueError, match="was written with drop_last=False, not True"):
            fit(net(), F.cross_entropy, batches=Batches(10, drop_last=True), checkpoint=path)
        loaders = [DataLoader(TensorDataset(*blobs(33)), batch_size=size) for size in (10, 5)]
        path = tmp_path / "loader.pt"
        fit(net(), F.cross_entropy, loaders[0], batches=Batches(), epochs=1, checkpoint=path)
        with pytest.raises(ValueError, match="was written with steps=4, not 7"):
            fit(net(), F.cross_entropy, loaders[1], batches=Batches(), checkpoint=path)

    def test_of_another_version(self, tmp_path, monkeypatch):
        fit(net(), F.cross_entropy, epochs=1, checkpoint=tmp_path / "state.pt")
        monkeypatch.setattr("gdlib.train.loop.__version__", "0.0.1")
        with pytest.raises(ValueError, match=r"was written with version='.*', not '0.0.1'"):
            fit(net(), F.cross_entropy, checkpoint=tmp_path / "state.pt")

    def test_of_a_loss_with_nearly_the_same_number(self, tmp_path):
        fit(net(), GDCrossEntropyLoss(0.1234567), epochs=1, checkpoint=tmp_path / "state.pt")
        with pytest.raises(ValueError, match="written with loss="):
            fit(net(), GDCrossEntropyLoss(0.1234571), checkpoint=tmp_path / "state.pt")


class TestOptions:
    def test_are_frozen(self):
        for group in (SGD, TEN, Execution(), Checkpoint("state.pt")):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(group, dataclasses.fields(group)[0].name, 1)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Optimisation(-1.0), "learning_rate must be finite and >= 0"),
            (lambda: Optimisation(0.1, lr_schedule="cosine"), "valid: milestones, exponential"),
            (lambda: Optimisation("fast"), "learning_rate must be finite and >= 0, got 'fast'"),
            (lambda: Optimisation(0.1, milestones=[-1]), "milestones must be >= 0; got"),
            (lambda: Batches(0), "size of a batch must be a whole number >= 1, got 0"),
            (lambda: Batches(2.5), "size of a batch must be a whole number >= 1, got 2.5"),
            (lambda: Execution("half"), "unknown precision 'half'; valid: float32, bfloat16"),
            (
                lambda: Checkpoint("state.pt", every=0),
                "every, the epochs .*, must be a whole number",
            ),
        ],
    )
    def test_are_checked_when_they_are_made(self, make, message):
        with pytest.raises(ValueError, match=message):
            make()

    def test_recorded_steps_need_tensors(self, caplog):
        with caplog.at_level("INFO", logger="gdlib.train"):
            fit(net(), F.cross_entropy, Rows(), execution=Execution(cuda_graph=True))
        assert "steps of a Dataset or a DataLoader are not recorded" in caplog.text


def test_the_lines_of_the_book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).resolve().parents[2] / "book" / "api" / "train.md"
    if not page.is_file():
        pytest.skip("the lines of the book were not run: an unpacked sdist has no book/")
    (lines,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(lines.strip().splitlines()) <= 14
    torch.manual_seed(0)
    inputs, labels = blobs(200)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    names: dict[str, Any] = {"model": model, "inputs": inputs, "labels": labels}
    names |= {"new_inputs": inputs}
    exec(lines, names)
    assert names["predictions"].shape == (200,)
    assert (names["predictions"] == labels).float().mean() > 0.85
    assert len(names["history"]) == 21


def test_a_finished_training_leaves_the_mode_of_a_fresh_one(tmp_path):
    for name, measure in (("without", None), ("with", lambda model, epoch: {"one": 1.0})):
        for _ in range(2):
            model = net()
            fit(model, nn.CrossEntropyLoss(), measure=measure, checkpoint=tmp_path / name)
            assert model.training == (measure is None)


def test_numbers_of_numpy_can_be_kept(tmp_path):
    optimisation = Optimisation(
        np.float64(0.1),
        momentum=np.float32(0.5),
        weight_decay=np.float32(1e-3),
        milestones=np.array([1]),
        max_grad_norm=np.float64(1.0),
    )
    for _ in range(2):
        history = fit(
            StackedMLP([4, 6, 3], list(np.arange(2))),
            GDCrossEntropyLoss(),
            epochs=np.int64(2),
            optimisation=optimisation,
            batches=Batches(size=np.int64(5), seeds=np.arange(2)),
            checkpoint=Checkpoint(tmp_path / "state.pt", every=np.int64(1)),
        )
        assert [entry["epoch"] for entry in history] == [0, 1, 2]


def test_adam_has_the_decay_rates_of_pytorch():
    weights = [nn.Parameter(torch.zeros(1))]
    for given, first in ((None, 0.9), (0.5, 0.5)):
        asked = Optimisation(1e-3, optimizer="adam", momentum=given)
        optimizer = optimizer_of(asked, weights, [], rate=1e-3, fused=None)
        assert optimizer.defaults["betas"] == (first, 0.999)
    assert Optimisation(1e-3).momentum == 0


def test_a_schedule_that_gives_now_a_number_and_now_a_list():
    stack = StackedMLP([4, 6, 3], [0, 1])
    with pytest.raises(ValueError, match="a number in every step, or one β for each run"):
        fit(stack, GDCrossEntropyLoss(), schedule=lambda step: [0.1, 0.2] if step % 2 else 0.1)


@pytest.mark.parametrize("measure", [None, lambda model, epoch: {"one": 1.0}])
def test_a_loss_is_left_in_the_mode_of_the_model(measure):
    model, loss = net(), nn.CrossEntropyLoss()
    fit(model, loss, measure=measure)
    assert model.training == loss.training == (measure is None)
