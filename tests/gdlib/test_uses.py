"""What a stranger tries: odd shapes, types and objects give a right answer or an error that helps.

Each refusal here once was a silent wrong answer or an error of something else.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gdlib import GDCrossEntropyLoss, calibration, functional, heads, losses
from gdlib.functional._arguments import compute_in
from gdlib.functional.distance import center_update
from gdlib.models import ModuleStack, StackedMLP
from gdlib.schedules import LinearWarmup
from gdlib.train import predict, train

SAMPLES, CLASSES, FEATURES = 6, 4, 3
LABELS = torch.tensor([0, 1, 2, 3, 1, 2])


def logits() -> Tensor:
    return torch.randn(SAMPLES, CLASSES, generator=torch.Generator().manual_seed(0))


# each loss, and whether it takes logits, cosines, or what else
LOSSES: dict[str, Callable[..., losses.Loss]] = {
    "GDCrossEntropyLoss": lambda **options: losses.GDCrossEntropyLoss(0.3, **options),
    "SoftMarginLoss": lambda **options: losses.SoftMarginLoss(0.5, **options),
    "FocalLoss": losses.FocalLoss,
    "GeneralizedCrossEntropyLoss": losses.GeneralizedCrossEntropyLoss,
    "Poly1CrossEntropyLoss": losses.Poly1CrossEntropyLoss,
    "NegativeProbabilityLoss": losses.NegativeProbabilityLoss,
    "MultiClassHingeLoss": losses.MultiClassHingeLoss,
    "LargeMarginLoss": losses.LargeMarginLoss,
    "ArcFaceLoss": lambda **options: losses.ArcFaceLoss(scale=4.0, **options),
    "CosFaceLoss": lambda **options: losses.CosFaceLoss(scale=4.0, **options),
    "SphereFaceLoss": losses.SphereFaceLoss,
    "LSoftmaxLoss": losses.LSoftmaxLoss,
    "ArcGradLoss": lambda **options: losses.ArcGradLoss(2.0, **options),
    "AdaCosLoss": lambda **options: losses.AdaCosLoss(CLASSES, **options),
    "CenterLoss": losses.CenterLoss,
    "GaussianMixtureLoss": losses.GaussianMixtureLoss,
}


def inputs_of(name: str) -> tuple[Tensor, ...]:
    """The input of a loss, and what it takes behind the labels."""
    values = logits()
    if name == "CenterLoss":
        return values[:, :FEATURES], torch.arange(12.0).reshape(CLASSES, FEATURES)
    if name == "LSoftmaxLoss":
        return values, torch.full_like(values, 5.0)
    if name == "GaussianMixtureLoss":
        return (values.abs(),)
    on_angles = any(word in name for word in ("Arc", "Cos", "Sphere"))
    return (torch.tanh(values) if on_angles else values,)


def test_every_loss_is_tried() -> None:
    assert set(LOSSES) == set(losses.__all__) - {"Loss"}


@pytest.mark.parametrize("name", LOSSES)
class TestEveryLoss:
    def value(self, loss: losses.Loss, name: str, labels: Tensor = LABELS) -> Tensor:
        first, *further = inputs_of(name)
        return loss(first, labels, *further)

    def test_of_no_samples(self, name: str) -> None:
        first, *further = inputs_of(name)
        if name != "CenterLoss":
            further = [one[:0] for one in further]
        nothing = first[:0], LABELS[:0], *further
        assert LOSSES[name]()(*nothing).isnan()  # the mean of nothing, as PyTorch's
        assert LOSSES[name](reduction="none")(*nothing).shape == (0,)
        assert LOSSES[name](reduction="sum")(*nothing) == 0

    def test_ignored_samples_are_as_if_absent(self, name: str) -> None:
        first, *further = inputs_of(name)
        rest = [one if name == "CenterLoss" else one[1:] for one in further]
        ignored = self.value(LOSSES[name](), name, LABELS.masked_fill(torch.arange(6) == 0, -100))
        torch.testing.assert_close(ignored, LOSSES[name]()(first[1:], LABELS[1:], *rest))

    def test_a_copy_a_pickle_and_a_state_are_the_loss(self, name: str) -> None:
        loss = LOSSES[name](weight=torch.tensor([1.0, 2.0, 0.0, 4.0]))
        expected = self.value(loss, name)
        loss = LOSSES[name](weight=torch.tensor([1.0, 2.0, 0.0, 4.0]))
        file = io.BytesIO()
        torch.save(loss.state_dict(), file)
        file.seek(0)
        loaded = LOSSES[name](weight=torch.ones(CLASSES))
        loaded.load_state_dict(torch.load(file))
        for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss)), loaded):
            assert torch.equal(self.value(other, name), expected)

    def test_is_moved_to_a_device_without_memory(self, name: str) -> None:
        first, *further = (one.to("meta") for one in inputs_of(name))
        value = LOSSES[name](weight=torch.ones(4)).to("meta")(first, LABELS.to("meta"), *further)
        assert value.is_meta and value.shape == ()

    def test_memory_in_another_order(self, name: str) -> None:
        first, *further = inputs_of(name)
        turned = LOSSES[name]()(first.T.contiguous().T, LABELS, *further)
        torch.testing.assert_close(turned, self.value(LOSSES[name](), name))

    def test_wrong_targets_are_named(self, name: str) -> None:
        for target in (LABELS.int(), LABELS.float(), LABELS > 1, LABELS.tolist(), LABELS[:, None]):
            with pytest.raises(ValueError, match=r"class indices|target|expected"):
                self.value(LOSSES[name](), name, target)

    def test_integers_are_no_input(self, name: str) -> None:
        first, *further = inputs_of(name)
        with pytest.raises(ValueError, match=r"type float16|floating"):
            LOSSES[name]()(first.long(), LABELS, *further)


class TestAdaCos:
    """The scale belongs to a number of classes, and to runs."""

    @pytest.mark.parametrize(
        ("make", "shape", "message"),
        [
            (lambda: losses.AdaCosLoss(10), (5, 4), "for 10 classes, .* have 4"),
            (lambda: losses.AdaCosLoss(4, runs=2), (5, 4), r"cosines \[2, N, C\] of 2 runs"),
            (lambda: losses.AdaCosLoss(4, runs=2), (3, 5, 4), r"got \[3, 5, 4\]"),
        ],
    )
    def test_other_shapes(
        self, make: Callable[[], losses.AdaCosLoss], shape: tuple[int, ...], message: str
    ) -> None:
        for loss in (make(), make().eval()):
            with pytest.raises(ValueError, match=message):
                loss(torch.zeros(shape), torch.zeros(shape[:-1], dtype=torch.long))

    def test_probabilities_have_no_median_angle(self) -> None:
        cosines = torch.tanh(logits())
        soft = F.one_hot(LABELS).float()
        with pytest.raises(ValueError, match=r"follows class indices.*dynamic=False"):
            losses.AdaCosLoss(4)(cosines, soft)
        fixed = losses.AdaCosLoss(4, dynamic=False)
        torch.testing.assert_close(fixed(cosines, soft), fixed(cosines, LABELS))


class TestANumberWhereATensorWas:
    def test_whole_numbers_become_floating(self) -> None:
        """β = 0.5 once became 0, which the next batch refused."""
        loss = losses.GDCrossEntropyLoss(beta=torch.tensor(1))
        loss.beta = 0.5
        assert loss.beta == 0.5 and loss.beta.dtype == torch.float32
        assert torch.equal(loss.state_dict()["beta"], torch.tensor(0.5))

    def test_the_type_stays_where_it_holds_the_number(self) -> None:
        loss = losses.GDCrossEntropyLoss(beta=torch.ones((), dtype=torch.float16))
        loss.beta = 0.1
        assert loss.beta.dtype == torch.float16 and loss.beta == torch.tensor(0.1).half()
        loss.temperature = torch.ones(6)
        loss.temperature = 2
        assert torch.equal(loss.temperature, torch.full((6,), 2.0))

    @pytest.mark.parametrize("beta", [1e-9, 1e6])
    def test_a_number_that_the_type_rounds_away(self, beta: float) -> None:
        loss = losses.GDCrossEntropyLoss(beta=torch.ones((), dtype=torch.float16))
        with pytest.raises(ValueError, match="float16, which cannot hold .* of another type"):
            loss.beta = beta
        assert loss.beta == 1.0
        loss.beta = torch.tensor(beta)
        assert loss.beta == torch.tensor(beta)


class TestFunctions:
    def test_whole_numbers_are_no_type_to_compute_in(self) -> None:
        with pytest.raises(ValueError, match=r"nll must be .* got torch.int64; .* \.float\(\)"):
            compute_in(LABELS, "nll")

    def test_a_cross_entropy_that_rounding_put_below_zero(self) -> None:
        """It gave NaN where β was smaller still."""
        nll = torch.tensor([-1e-7, 0.0, 1.0], requires_grad=True)
        values = functional.gd_from_nll(nll, beta=1e-8)
        assert values[0] == values[1] and values.isfinite().all()
        (gradient,) = torch.autograd.grad(values.sum(), nll)
        assert gradient[0] == gradient[1] > 0

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (
                lambda features, weight: functional.linear_gd_cross_entropy(
                    features, weight.double(), LABELS
                ),
                "must have one type, .* torch.float32 on cpu and torch.float64 on cpu",
            ),
            (
                lambda features, weight: functional.linear_gd_cross_entropy(
                    features, weight, LABELS, linear_bias=[0.0] * 4
                ),
                "linear_bias must be a tensor; got list",
            ),
            (
                lambda features, weight: functional.linear_gd_cross_entropy(
                    features, weight, LABELS, temperature="1"
                ),
                "temperature must be a number",
            ),
            (
                lambda features, weight: center_update(features, LABELS, weight.long(), 0.5),
                "centers must be floating point; got torch.int64",
            ),
            (
                lambda features, weight: center_update(features, LABELS, weight, "0.5"),
                "rate must be a number, got str",
            ),
            (
                lambda features, weight: functional.adacos_scale(features.long(), LABELS, 1.0),
                "cosines must be floating point",
            ),
            (lambda features, weight: functional.arccos(LABELS), "a floating tensor; got"),
            (
                lambda features, weight: heads.CosineLinear(3, 4)(features.long()),
                "features must be a floating tensor of vectors",
            ),
            (lambda features, weight: heads.ClassCenters(3, 4, rate="0.5"), "rate must be"),
            (lambda features, weight: LinearWarmup(0.1, 1.0, 5)(math.nan), "step must be >= 0"),
            (lambda features, weight: StackedMLP([4, 2.5, 3], [0]), "sizes must .* whole numbers"),
        ],
    )
    def test_refusals(self, call: Callable[[Tensor, Tensor], object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            call(torch.ones(SAMPLES, FEATURES), torch.ones(CLASSES, FEATURES))

    def test_numbers_of_numpy_are_numbers(self) -> None:
        features, weight = torch.ones(SAMPLES, FEATURES), torch.ones(CLASSES, FEATURES)
        half = functional.linear_gd_cross_entropy(
            features, weight, LABELS, temperature=np.float32(0.5), block_rows=np.int64(2)
        )
        assert half.isfinite()
        two, three = np.int64(2), np.int64(3)
        assert losses.SphereFaceLoss(margin=two).margin == losses.LSoftmaxLoss(two).margin == 2
        assert functional.arcgrad_scale(0.1, three) == functional.arcgrad_scale(0.1, 3)
        heads.ClassCenters(two, three, runs=two)
        assert heads.CosineLinear(two, three)(torch.ones(1, 2)).shape == (1, 3)
        losses.AdaCosLoss(three, runs=two)


class TestCalibration:
    def test_a_scaling_says_what_it_holds(self) -> None:
        scaling = calibration.TemperatureScaling()
        assert repr(scaling) == "TemperatureScaling(temperature=None)"
        scaling.fit([[2 * math.log(3), 0.0]] * 4, [0, 0, 0, 1])
        assert repr(scaling).startswith("TemperatureScaling(temperature=2.0")
        again = pickle.loads(pickle.dumps(scaling))
        assert again.temperature == copy.deepcopy(scaling).temperature == scaling.temperature
        vector = calibration.VectorScaling().fit(torch.zeros(4, 2), [0, 0, 0, 1])
        assert repr(vector) == "VectorScaling(classes=2)"

    def test_the_link_says_where_the_classes_are(self) -> None:
        images = torch.softmax(torch.randn(2, 3, 4, 5), 1)
        last = images.movedim(1, -1)
        with pytest.raises(ValueError, match="over the classes, dimension 1; .* over dimension 3"):
            calibration.beta_link(last, 0.1)
        found = calibration.beta_link(images, 0.1)
        torch.testing.assert_close(
            calibration.beta_link(last, 0.1, dim=-1), found.movedim(1, -1), rtol=0, atol=0
        )

    def test_texts_are_no_numbers(self) -> None:
        probabilities = torch.softmax(logits(), 1)
        with pytest.raises(ValueError, match="beta must be a number .* got 'a'"):
            calibration.beta_link(probabilities, "a")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="confidence must be a number; got 'a'"):
            calibration.beta_for_confidence(probabilities, "a")  # type: ignore[arg-type]


INPUTS = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
TARGETS = (INPUTS.sum(1) > 0).long()


def fit(stack: Any = None, loss: Any = None, data: Any = None, **options: Any) -> list[Any]:
    return train(
        StackedMLP([5, 2], [0]) if stack is None else stack,
        GDCrossEntropyLoss(0.1) if loss is None else loss,
        (INPUTS, TARGETS) if data is None else data,
        **{"epochs": 1, "lr": 0.1} | options,
    )


class TestTrainer:
    """Numbers and kinds of arguments are in test_train.py."""

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"loss": nn.CrossEntropyLoss}, TypeError, r"give CrossEntropyLoss\(...\)"),
            ({"loss": lambda a, b: (F.cross_entropy(a, b), 1)}, TypeError, "returned a tuple"),
            ({"loss": losses.LSoftmaxLoss()}, TypeError, "1 in number: .*argument: 'norms'"),
            ({"data": (INPUTS, TARGETS[:, None])}, ValueError, r"class indices of shape \[40\]"),
            ({"data": (INPUTS, TARGETS.float())}, ValueError, r"target.long\(\)"),
        ],
    )
    def test_refusals(self, options: dict[str, Any], error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            fit(**options)

    def test_classes_that_are_last(self) -> None:
        """The loss says so; the trainer once named labels that were right."""
        words = torch.randint(6, (40, 3), generator=torch.Generator().manual_seed(0))
        stack = ModuleStack([nn.Sequential(nn.Embedding(6, 6))])
        with pytest.raises(ValueError, match=r"give input.movedim\(-1, 1\)"):
            fit(stack, data=(words, words))

    def test_targets_that_are_probabilities(self) -> None:
        stack = StackedMLP([5, 2], [0])
        fit(stack, data=(INPUTS, F.one_hot(TARGETS).float()), epochs=50)
        assert (predict(stack, INPUTS).argmax(2) == TARGETS).float().mean() > 0.8

    def test_a_compiled_model(self) -> None:
        model = nn.Linear(5, 2)
        stack = ModuleStack([torch.compile(model, backend="eager")])
        fit(stack, epochs=50)
        assert (predict(stack, INPUTS).argmax(2) == TARGETS).float().mean() > 0.8

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda stack: predict(stack, INPUTS.numpy()), TypeError, "got ndarray"),
            (lambda stack: predict(stack, (INPUTS, TARGETS)), TypeError, "without labels"),
            (lambda stack: predict(stack, INPUTS, batch_size=0), ValueError, "batch_size must"),
            (lambda stack: predict(nn.Linear(5, 2), INPUTS), TypeError, "got Linear"),
        ],
    )
    def test_predict(
        self, call: Callable[[nn.Module], object], error: type[Exception], message: str
    ) -> None:
        stack = StackedMLP([5, 2], [0])
        with pytest.raises(error, match=message):
            call(stack)
        assert predict(stack, INPUTS[:0]).shape == (1, 0, 2)


class Interrupted(nn.Module):
    """A loss that is interrupted in one of its calls."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self.left = call

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return functional.gd_cross_entropy(outputs, targets, beta=0.1)


class TestCheckpoints:
    def test_ctrl_c_within_an_epoch(self, tmp_path: Path) -> None:
        start, path = StackedMLP([5, 2], [0]), tmp_path / "new" / "state.pt"
        options = {"epochs": 4, "batch_size": 10}
        straight, broken, fresh = (copy.deepcopy(start) for _ in range(3))
        fit(straight, Interrupted(-1), **options)
        with pytest.raises(KeyboardInterrupt):
            fit(broken, Interrupted(10), checkpoint=path, **options)  # in the third epoch
        for model in (broken, fresh):  # in the same process, and in a new one
            history = fit(model, Interrupted(-1), checkpoint=path, **options)
            assert [entry["epoch"] for entry in history] == [0, 1, 2, 3, 4]
            for one, other in zip(straight.parameters(), model.parameters(), strict=True):
                assert torch.equal(one, other)

    def test_another_loss_or_beta_is_no_continuation(self, tmp_path: Path) -> None:
        """With the same file, a training by another β once returned the history of the first."""
        path = tmp_path / "state.pt"
        fit(checkpoint=path, betas=LinearWarmup(0.1, 1.0, 9))
        for loss, betas in (
            (None, 0.1),
            (None, None),
            (losses.FocalLoss(), None),
            (GDCrossEntropyLoss(reduction="sum"), LinearWarmup(0.1, 1.0, 9)),
        ):
            with pytest.raises(ValueError, match="was written with (loss|betas)="):
                fit(loss=loss, checkpoint=path, betas=betas, epochs=2)
        # the β of the loss does not count where betas give it
        other = GDCrossEntropyLoss(0.7)
        again = fit(loss=other, checkpoint=path, betas=LinearWarmup(0.1, 1.0, 9), epochs=2)
        assert len(again) == 3

    def test_who_names_the_training_vouches_for_it(self, tmp_path: Path) -> None:
        kept = {"checkpoint": tmp_path / "state.pt", "identity": "mine"}
        fit(**kept)
        assert len(fit(loss=GDCrossEntropyLoss(0.7), epochs=2, **kept)) == 3
