"""Losses of any kind for the runs of a stack, labels, orders and measurements."""

from __future__ import annotations

import copy
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

from gdlib import GDCrossEntropyLoss, losses
from gdlib.heads import ClassCenters, CosineLinear, GaussianMixtureHead, NormedLinear
from gdlib.models import ModuleStack, RunModel, StackedMLP, VmapStack
from gdlib.schedules import Constant, LinearWarmup
from gdlib.train import RunLoss, batch_order, predict, train
from gdlib.train.manual import ManualStep
from gdlib.train.update import Update, optimizer_of


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
    """Train a stack, or a module as a stack of one run."""
    stack = model if isinstance(model, RunModel) else ModuleStack([model])
    chosen = {"epochs": 3, "lr": 0.1, "momentum": 0.9, "batch_size": 10} | options
    return train(stack, loss, blobs() if data is None else data, **chosen)


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


class TestOneRun:
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
        model = nn.Linear(4, 2)
        first = F.mse_loss(model(inputs), inputs[:, :2])
        fit(model, F.mse_loss, (inputs, inputs[:, :2]), epochs=20, momentum=0)
        assert F.mse_loss(model(inputs), inputs[:, :2]) < 0.1 * first

    def test_images_with_a_class_for_each_pixel(self):
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(12, 1, 4, 4, generator=generator)
        model, labels = nn.Conv2d(1, 2, 1), (images[:, 0] > 0).long()
        fit(model, GDCrossEntropyLoss(0.1), (images, labels), epochs=30)
        assert (model(images).argmax(1) == labels).float().mean() > 0.95

    def test_several_outputs(self):
        class Two(nn.Linear):
            def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
                return super().forward(inputs), inputs

        seen, models = [], [Two(4, 3), Two(4, 3)]

        def loss(outputs: Tensor, targets: Tensor, features: Tensor) -> Tensor:
            seen.append(features.shape)
            return F.cross_entropy(outputs, targets)

        for stack in (ModuleStack(models), VmapStack(models)):
            fit(stack, loss, batch_size=33, epochs=1)
            assert predict(stack, blobs()[0]).shape == (2, 33, 3)
            with pytest.raises(TypeError, match="does not take the outputs .*, 2 in number"):
                fit(stack, GDCrossEntropyLoss())
        assert seen == [(33, 4)] * 4

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
        self.centers = ClassCenters(in_features=2, classes=3, rate=None)

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
        fit(model, loss, (inputs, labels), epochs=15, lr=0.05, momentum=0)
        assert math.isfinite(value()) and value() < before - 0.01

    def test_center_loss_says_what_it_needs(self):
        with pytest.raises(TypeError, match="as loss.* .missing a required argument: 'centers'"):
            fit(net(), losses.CenterLoss())

    def test_adacos_keeps_its_scale_and_an_evaluation_does_not_move_it(self, tmp_path):
        make, loss = EVERY_LOSS["AdaCosLoss"]
        straight, asked = copy.deepcopy(loss), []

        def measure(model: nn.Module, epoch: int) -> None:
            before = straight.scale.clone()
            straight(predict(model, blobs()[0])[0], blobs()[1])
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
        fit(model, nothing, weight_decay=0.5)
        assert nothing.scale.item() == 1.0 and not same(model, net())

    @pytest.mark.parametrize("optimizer", ["sgd", "adam"])
    def test_go_on_after_an_interruption(self, tmp_path, optimizer):
        options = {"lr": 0.05, "optimizer": optimizer}
        one, straight = net(), Learnt()
        fit(one, straight, epochs=4, **options)
        for epochs in (2, 4):
            other, resumed = net(), Learnt()
            fit(other, resumed, epochs=epochs, checkpoint=tmp_path / "state.pt", **options)
        assert same(one, other) and same(straight, resumed)

    def test_a_learnt_beta_stands_in_the_history(self):
        loss = GDCrossEntropyLoss(beta=nn.Parameter(torch.tensor(20.0)))
        history = fit(net(), loss)
        assert history[0]["beta"].tolist() == [20.0]
        assert history[-1]["beta"].item() == pytest.approx(loss.beta.item())
        with pytest.raises(ValueError, match="beta is learnt: leave betas out"):
            fit(net(), loss, betas=1.0)

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
        with pytest.raises(ValueError, match="two runs share a parameter of a loss"):
            fit(ModuleStack([net(), net()]), [Learnt()] * 2)

    def test_one_loss_for_two_runs_remembers_for_each(self):
        make, loss = EVERY_LOSS["AdaCosLoss"]
        stacks = [ModuleStack([make(), make()]) for _ in range(2)]
        fit(stacks[0], [copy.deepcopy(loss)] * 2)
        fit(stacks[1], [copy.deepcopy(loss), copy.deepcopy(loss)])
        for one, other in zip(stacks[0].copies, stacks[1].copies, strict=True):
            assert same(one, other)


class TestStacksWithPlainLosses:
    def test_each_run_is_the_module_alone(self):
        make, loss = EVERY_LOSS["AdaCosLoss"]
        for options in ({}, {"seeds": [3, 4]}):
            models = [make(), make()]
            with torch.no_grad():
                models[1].body[0].weight.mul_(2)
            alone = copy.deepcopy(models)
            fit(ModuleStack(models), copy.deepcopy(loss), **options)
            for run, (together, single) in enumerate(zip(models, alone, strict=True)):
                seed = options["seeds"][run] if options else 0
                fit(single, copy.deepcopy(loss), seeds=seed)
                assert same(together, single)

    def test_a_sweep_over_beta(self):
        betas, inputs = [5.0, 1.0, 0.1], blobs()[0]
        stack = StackedMLP([4, 6, 3], seeds=[0] * 3)
        history = fit(stack, GDCrossEntropyLoss(), betas=betas)
        assert history[-1]["beta"].tolist() == pytest.approx(betas)
        for run, beta in enumerate(betas):
            alone = StackedMLP([4, 6, 3], seeds=[0])
            found = fit(alone, GDCrossEntropyLoss(beta))
            assert found[-1]["beta"].tolist() == pytest.approx([beta])
            torch.testing.assert_close(predict(stack, inputs)[run], predict(alone, inputs)[0])

    @pytest.mark.parametrize("given", [True, False])
    def test_the_loss_of_the_library_is_done_by_hand_where_it_can(self, monkeypatch, given):
        options = {"betas": 0.1} if given else {}
        by_hand, by_autograd = (StackedMLP([4, 6, 3], seeds=[0, 1]) for _ in range(2))
        fit(
            by_autograd,
            GDCrossEntropyLoss(0.1, temperature=2.0),
            by_hand=False,
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

    @pytest.mark.parametrize("by_hand", [True, False])
    def test_a_loss_that_was_wrapped_or_has_a_hook_is_called(self, by_hand):
        options, seen = {"epochs": 1, "lr": 0.0, "by_hand": by_hand}, []
        loss = GDCrossEntropyLoss(0.1)
        expected = fit(StackedMLP([4, 6, 3], seeds=[0, 1]), loss, **options)[1]["loss"]
        loss.register_forward_hook(lambda *_: seen.append(1))
        fit(StackedMLP([4, 6, 3], seeds=[0, 1]), loss, **options)
        assert len(seen) == 2 * 4
        forward = loss.forward
        loss.forward = lambda outputs, targets: 3 * forward(outputs, targets)
        found = fit(StackedMLP([4, 6, 3], seeds=[0, 1]), loss, **options)[1]["loss"]
        torch.testing.assert_close(found, 3 * expected)
        with pytest.raises(ValueError, match="takes no betas"):
            fit(StackedMLP([4, 6, 3], seeds=[0, 1]), loss, betas=0.1, **options)

    @pytest.mark.parametrize("given", [True, False])
    def test_gradient_decays_are_computed_in_one_call(self, monkeypatch, given):
        """For all runs of a stack at once; a run equals itself alone, bit for bit."""
        inputs, labels = blobs()
        betas = [0.1, 1.0, 5.0]
        loss: Any = GDCrossEntropyLoss() if given else [GDCrossEntropyLoss(beta) for beta in betas]
        options = {"optimizer": "adam", "lr": 0.01, "max_grad_norm": 1.0}
        stack = StackedMLP([4, 6, 3], seeds=[0] * 3)
        history = fit(stack, loss, betas=betas if given else None, **options)
        for run, beta in enumerate(betas):
            alone = StackedMLP([4, 6, 3], seeds=[0])
            found = fit(alone, GDCrossEntropyLoss(beta), **options)
            for one, other in zip(stack.parameters(), alone.parameters(), strict=True):
                assert torch.equal(one[run], other[0])
            assert [e["loss"][run] for e in history[1:]] == [e["loss"][0] for e in found[1:]]
        labels[::3] = -100  # samples that do not count are left to each loss
        fit(stack, loss, (inputs, labels), betas=betas if given else None, **options)
        assert all(one.isfinite().all() for one in stack.parameters())

    def test_refusals(self):
        stack = StackedMLP([4, 3], seeds=[0, 1])
        for loss, options, message in [
            (losses.FocalLoss(), {"betas": 1.0}, "FocalLoss takes no betas"),
            (F.cross_entropy, {"betas": Constant(1.0)}, "cross_entropy takes no betas"),
            (losses.AdaCosLoss(3, runs=2), {}, "leave out the argument runs of AdaCosLoss"),
            (GDCrossEntropyLoss(), {"betas": [1.0]}, "each of the 2 runs"),
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
            (GDCrossEntropyLoss, r"give GDCrossEntropyLoss\(...\)"),
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

        history = fit(ours, loss, betas=warmup)
        looped(theirs, plain, before_step=set_beta)
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other)
        assert loss.beta == 2.0  # as it was
        expected = [warmup(4 * epoch) for epoch in range(4)]
        assert [entry["beta"].item() for entry in history] == pytest.approx(expected)
        by_epoch = fit(net(), loss, betas=lambda step: warmup(step // 4))
        assert by_epoch[2]["beta"].item() == pytest.approx(warmup(2))


class TestOrders:
    @pytest.mark.parametrize("second", [25, 33])
    def test_every_epoch_has_the_length_of_the_first(self, second):
        """Steps on no samples once moved the weights; samples beyond the first length were lost."""
        lengths = [30, second]
        with pytest.raises(ValueError, match=r"the order of epoch 2 .* the shape \[1, 30\]"):
            fit(net(), F.cross_entropy, order=lambda epoch: torch.arange(lengths[epoch - 1])[None])

    @pytest.mark.parametrize("shape", [(33,), (2, 33), (0, 33)])
    def test_an_order_has_a_row_for_each_run_or_one_for_all(self, shape):
        message = re.escape(
            f"each of the 4 runs, [4, n], or for all, [1, n]; it returned the shape {list(shape)}"
        )
        with pytest.raises(ValueError, match=message):
            fit(
                StackedMLP([4, 3], [0] * 4),
                F.cross_entropy,
                order=lambda epoch: torch.arange(33).expand(shape),
            )

    def test_an_order_is_the_one_of_the_seeds(self):
        seeds = [3, 4, 3]
        by_seeds, by_order, for_all = (StackedMLP([4, 6, 3], [0] * 3) for _ in range(3))
        loss = GDCrossEntropyLoss()
        fit(by_seeds, loss, seeds=seeds)
        fit(
            by_order,
            loss,
            order=lambda epoch: torch.stack([batch_order(seed, epoch, 33) for seed in seeds]),
        )
        assert same(by_seeds, by_order)
        fit(for_all, loss, order=lambda epoch: batch_order(3, epoch, 33)[None])
        for one, other in zip(by_seeds.parameters(), for_all.parameters(), strict=True):
            assert torch.equal(one[2], other[1]) and not torch.equal(one[1], other[1])

    def test_numbers_are_drawn_for_each_sample(self):
        options = {"draws": lambda epoch: torch.rand(33), "prepare": lambda batch, drawn: batch}
        with pytest.raises(ValueError, match=r"draws of epoch 1 must begin with the shape \[1, 33"):
            fit(net(), F.cross_entropy, **options)


class TestTheLastBatch:
    def test_drop_last(self):
        asked: list[int] = []

        def prepare(batch: Tensor, draws: Tensor | None) -> Tensor:
            asked.append(batch.shape[1])
            return batch

        history = fit(net(), F.cross_entropy, epochs=2, prepare=prepare, drop_last=True, lr=0.0)
        assert asked == [10] * 6
        order = batch_order(0, 1, 33)[:30]
        expected = F.cross_entropy(net()(blobs()[0][order]), blobs()[1][order])
        assert history[1]["loss"].item() == pytest.approx(expected.item())

    def test_of_one_sample_under_batch_normalisation(self):
        with pytest.raises(ValueError, match="one sample, .*: leave it out with drop_last=True"):
            fit(net(batch_norm=True), F.cross_entropy, blobs(31))
        fit(net(batch_norm=True), F.cross_entropy, blobs(31), drop_last=True)

    def test_another_error_of_such_a_batch_is_not_hidden(self):
        with pytest.raises(ValueError, match=r"\[1, 1, 4\] do not fit 1 runs of a layer with 5"):
            fit(StackedMLP([5, 3], [0]), F.cross_entropy, blobs(1))


class TestLabels:
    """The step by hand once took what autograd refused, and broke off with errors of PyTorch."""

    BOTH = [True, False]

    @pytest.mark.parametrize("by_hand", BOTH)
    @pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "uint16", "uint64"])
    def test_of_any_integer_type(self, by_hand, dtype):
        inputs, labels = blobs()
        ours, theirs = (StackedMLP([4, 6, 3], [0, 1]) for _ in range(2))
        converted = inputs, labels.to(getattr(torch, dtype))
        fit(ours, GDCrossEntropyLoss(0.1), converted, by_hand=by_hand)
        fit(theirs, GDCrossEntropyLoss(0.1), by_hand=by_hand)
        assert same(ours, theirs)

    @pytest.mark.parametrize("by_hand", BOTH)
    @pytest.mark.parametrize("label", [3, -1, -100, 7])
    @pytest.mark.parametrize("ignore_index", [-100, -7])
    def test_without_an_output(self, by_hand, label, ignore_index):
        inputs, labels = blobs()
        labels[30] = label
        loss = GDCrossEntropyLoss(0.1, ignore_index=ignore_index)
        if label == ignore_index:
            found = StackedMLP([4, 6, 3], [0])
            fit(found, loss, (inputs, labels), by_hand=by_hand)
            assert not same(found, StackedMLP([4, 6, 3], [0]))
            return
        message = rf"labels hold {label}, which lies outside \[0, 3\).*count with {ignore_index}"
        model = StackedMLP([4, 6, 3], [0])
        with pytest.raises(ValueError, match=message):
            fit(model, loss, (inputs, labels), by_hand=by_hand)
        assert same(model, StackedMLP([4, 6, 3], [0])), "before the first step"

    @pytest.mark.parametrize("by_hand", BOTH)
    def test_that_do_not_count_are_left_to_the_loss(self, by_hand):
        inputs, labels = blobs()
        labels[::3] = -100
        found = StackedMLP([4, 6, 3], [0, 1])
        fit(found, GDCrossEntropyLoss(0.1), (inputs, labels), by_hand=by_hand)
        by_autograd = StackedMLP([4, 6, 3], [0, 1])
        fit(by_autograd, GDCrossEntropyLoss(0.1), (inputs, labels), by_hand=False)
        assert same(found, by_autograd)

    @pytest.mark.parametrize("by_hand", BOTH)
    @pytest.mark.parametrize(
        "wrong", [torch.zeros(33).bool(), torch.zeros(33), torch.zeros(33, 2).long()]
    )
    def test_of_a_type_or_shape_that_the_loss_refuses(self, by_hand, wrong):
        with pytest.raises(ValueError, match="class indices"):
            fit(
                StackedMLP([4, 6, 3], [0]),
                GDCrossEntropyLoss(0.1),
                (blobs()[0], wrong),
                by_hand=by_hand,
            )

    @pytest.mark.parametrize("by_hand", BOTH)
    @pytest.mark.parametrize("width", [3, 5])
    def test_a_wrong_input_width(self, by_hand, width):
        with pytest.raises(
            ValueError, match=r"do not fit 1 runs of a layer with 4 inputs: expected"
        ):
            fit(
                StackedMLP([4, 6, 3], [0]),
                GDCrossEntropyLoss(0.1),
                (torch.zeros(33, width), blobs()[1]),
                by_hand=by_hand,
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
                by_hand=by_hand,
                measure=lambda model, epoch, loss=loss: setattr(loss, name, 1.1 + epoch),
            )
        pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
        for one, other in pairs:  # in float64, β and τ too
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)

    def test_that_is_not_done_by_hand_any_more_is_refused(self):
        loss = GDCrossEntropyLoss(0.1)
        for change in (
            lambda model: setattr(loss, "label_smoothing", 0.1),
            lambda model: model.weights[0].requires_grad_(False),
            lambda model: model.weights[0].register_hook(torch.zeros_like),
        ):

            def measure(
                model: StackedMLP, epoch: int, change: Callable[..., object] = change
            ) -> None:
                change(model)

            with pytest.raises(ValueError, match="loss or the stack was changed into one whose"):
                fit(StackedMLP([4, 6, 3], [0]), loss, measure=measure)
            loss.label_smoothing = 0.0


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
        assert [entry.keys() for entry in history] == [
            {"epoch", "lr"},
            *[{"epoch", "lr", "loss"}] * 3,
        ]

    def test_see_the_stack_that_was_given(self):
        model, seen = ModuleStack([net()]), []
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
            fit(net(), F.cross_entropy, drop_last=True, checkpoint=path)

    def test_of_other_betas(self, tmp_path):
        path, stack = tmp_path / "state.pt", StackedMLP([4, 3], [0, 0])
        fit(stack, GDCrossEntropyLoss(), betas=[0.1, Constant(1.0)], epochs=1, checkpoint=path)
        message = r"with betas=\['0.1', 'Constant\(1.0\)'\], not \['0.1', '1.0'\]"
        with pytest.raises(ValueError, match=message):
            fit(stack, GDCrossEntropyLoss(), betas=[0.1, 1.0], checkpoint=path)

    def test_of_another_version(self, tmp_path, monkeypatch):
        fit(net(), F.cross_entropy, epochs=1, checkpoint=tmp_path / "state.pt")
        monkeypatch.setattr("gdlib.train.loop.__version__", "0.0.1")
        with pytest.raises(ValueError, match=r"was written with version='.*', not '0.0.1'"):
            fit(net(), F.cross_entropy, checkpoint=tmp_path / "state.pt")

    def test_of_a_loss_with_nearly_the_same_number(self, tmp_path):
        fit(net(), GDCrossEntropyLoss(0.1234567), epochs=1, checkpoint=tmp_path / "state.pt")
        with pytest.raises(ValueError, match="written with loss="):
            fit(net(), GDCrossEntropyLoss(0.1234571), checkpoint=tmp_path / "state.pt")


def test_a_finished_training_leaves_the_mode_of_a_fresh_one(tmp_path):
    for name, measure in (("without", None), ("with", lambda model, epoch: {"one": 1.0})):
        for _ in range(2):
            model, loss = net(), nn.CrossEntropyLoss()
            fit(model, loss, measure=measure, checkpoint=tmp_path / name)
            assert model.training == loss.training == (measure is None)


def test_numbers_of_numpy_can_be_kept(tmp_path):
    for _ in range(2):
        history = fit(
            StackedMLP([4, 6, 3], list(np.arange(2))),
            GDCrossEntropyLoss(),
            epochs=np.int64(2),
            lr=np.float64(0.1),
            momentum=np.float32(0.5),
            weight_decay=np.float32(1e-3),
            milestones=np.array([1]),
            max_grad_norm=np.float64(1.0),
            batch_size=np.int64(5),
            seeds=np.arange(2),
            betas=np.array([0.1, 1.0]),
            checkpoint=tmp_path / "state.pt",
            checkpoint_every=np.int64(1),
        )
        assert [entry["epoch"] for entry in history] == [0, 1, 2]


def test_adam_has_the_decay_rates_of_pytorch():
    weights = [nn.Parameter(torch.zeros(1))]
    for given, first in ((None, 0.9), (0.5, 0.5)):
        asked = Update(1e-3, "adam", given, 0.0, "milestones", (), None)
        optimizer = optimizer_of(asked, weights, [], rate=1e-3, fused=None)
        assert optimizer.defaults["betas"] == (first, 0.999)
    assert Update(1e-3, "sgd", None, 0.0, "milestones", (), None).momentum == 0


def test_the_lines_of_the_book():
    page = Path(__file__).resolve().parents[2] / "book" / "api" / "train.md"
    if not page.is_file():
        pytest.skip("the lines of the book were not run: an unpacked sdist has no book/")
    (lines,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    inputs, labels = blobs(200)
    names: dict[str, Any] = {"inputs": inputs, "labels": labels, "new_inputs": inputs}
    exec(lines, names)
    right = (names["predictions"] == labels).float().mean(1)
    assert len(right) == len(names["history"][-1]["loss"]) == 6 and right.min() > 0.85
