"""Temperature and vector scaling.

They are never worse than what they contain, equal to other optimisers, and bounded on degenerate
data.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from torch import Tensor
from torch.nn import functional as F

from gdlib.calibration import NotFittedError, TemperatureScaling, VectorScaling

SCALINGS = [TemperatureScaling, VectorScaling]
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def nll(logits: Tensor, labels: Tensor) -> float:
    return float(F.cross_entropy(logits.double(), labels))


def data(
    n: int, c: int, seed: int = 0, scale: float = 2.0, margin: float = 2.0
) -> tuple[Tensor, Tensor]:
    """Noisy float64 logits in which the true class stands out by ``margin``."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(c, (n,), generator=generator)
    logits = scale * torch.randn(n, c, dtype=torch.float64, generator=generator)
    logits[torch.arange(n), labels] += margin
    return logits, labels


@st.composite
def validation_splits(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Logits of any type, with few samples and any labels.

    They lie on a grid or anywhere up to ten thousand.
    """
    n, c = draw(st.integers(1, 15)), draw(st.integers(1, 5))
    numbers = st.one_of(st.integers(-3, 3), st.floats(-1e4, 1e4, width=16))
    rows = draw(st.lists(st.lists(numbers, min_size=c, max_size=c), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, c - 1), min_size=n, max_size=n))
    return torch.tensor(rows, dtype=torch.float64).to(draw(st.sampled_from(TYPES))), torch.tensor(
        labels
    )


def scaled_type(dtype: torch.dtype) -> torch.dtype:
    """Half precision could change the predicted class."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def chain(logits: Tensor, labels: Tensor) -> tuple[float, float, float]:
    """The NLL of the logits, after temperature and after vector scaling."""
    scaled = [scaling().fit(logits, labels).transform(logits) for scaling in SCALINGS]
    assert all(
        s.dtype == scaled_type(logits.dtype) and s.shape == logits.shape and torch.isfinite(s).all()
        for s in scaled
    )
    return nll(logits, labels), nll(scaled[0], labels), nll(scaled[1], labels)


class TestNeverWorse:
    @given(validation_splits())
    @settings(deadline=None)
    def test_on_any_validation_split(self, split: tuple[Tensor, Tensor]) -> None:
        identity, temperature, vector = chain(*split)
        rounding = 1e-12 * (1 + identity)
        assert temperature <= identity + rounding
        assert vector <= temperature + rounding

    def test_in_every_type_and_scale(self) -> None:
        logits, labels = data(300, 6)
        for factor, dtype in itertools.product((1e-3, 0.5, 1.0, 30.0), TYPES):
            identity, temperature, vector = chain((factor * logits).to(dtype), labels)
            assert vector < temperature < identity

    def test_where_nothing_is_to_gain(self) -> None:
        """Logits whose best temperature is 1: half precision must not lose against the identity."""
        logits, labels = data(400, 3)
        best = TemperatureScaling().fit(logits, labels).transform(logits)
        for dtype in TYPES:
            identity, temperature, vector = chain(best.to(dtype), labels)
            assert vector <= temperature <= identity
        assert TemperatureScaling().fit(best, labels).temperature == pytest.approx(1, abs=1e-8)


class TestAgainstOtherOptimisers:
    @pytest.mark.parametrize(
        ("n", "c", "margin"), [(500, 10, 2.0), (40, 2, 0.5), (200, 30, 4.0), (300, 4, 0.3)]
    )
    def test_temperature(self, n: int, c: int, margin: float) -> None:
        logits, labels = data(n, c, seed=c, margin=margin)
        found = optimize.minimize_scalar(
            lambda u: nll(logits * math.exp(-u), labels),
            bounds=(-6, 12),
            method="bounded",
            options={"xatol": 1e-10},
        )
        for factor in (1e-4, 0.1, 1.0, 25.0, 1e4):
            scaling = TemperatureScaling().fit(factor * logits, labels)
            assert scaling.temperature == pytest.approx(factor * math.exp(found.x), rel=1e-5)
            assert nll(scaling.transform(factor * logits), labels) <= found.fun + 1e-13

    @pytest.mark.parametrize(("n", "c"), [(600, 4), (300, 2), (2000, 12)])
    def test_vector(self, n: int, c: int) -> None:
        logits, labels = data(n, c, seed=n)

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            parameters = torch.tensor(theta, requires_grad=True)
            loss = F.cross_entropy(logits * parameters[:c] + parameters[c:], labels)
            loss.backward()
            assert parameters.grad is not None
            return loss.item(), parameters.grad.numpy()

        start = np.concatenate([np.ones(c), np.zeros(c)])
        found = optimize.minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9},
        )
        for factor in (0.01, 1.0, 100.0):
            scaling = VectorScaling().fit(factor * logits, labels)
            assert nll(scaling.transform(factor * logits), labels) <= found.fun + 1e-8
            np.testing.assert_allclose(factor * scaling.weight.numpy(), found.x[:c], atol=1e-3)
            bias = scaling.bias.numpy()
            assert bias.mean() == pytest.approx(0, abs=1e-12)
            np.testing.assert_allclose(bias, found.x[c:] - found.x[c:].mean(), atol=1e-3)

    def test_the_gradient_vanishes(self) -> None:
        logits, labels = data(1000, 8)
        inverse = torch.tensor(
            1 / TemperatureScaling().fit(logits, labels).temperature,
            dtype=torch.float64,
            requires_grad=True,
        )
        F.cross_entropy(logits * inverse, labels).backward()
        assert inverse.grad is not None and abs(float(inverse.grad)) < 1e-12
        scaling = VectorScaling().fit(logits, labels)
        weight, bias = (
            scaling.weight.clone().requires_grad_(),
            scaling.bias.clone().requires_grad_(),
        )
        F.cross_entropy(logits * weight + bias, labels).backward()
        assert weight.grad is not None and bias.grad is not None
        assert max(float(weight.grad.abs().max()), float(bias.grad.abs().max())) < 1e-8

    def test_a_known_temperature(self) -> None:
        """Labels drawn from softmax(z / 2.5)."""
        generator = torch.Generator().manual_seed(0)
        logits = 4 * torch.randn(50_000, 5, generator=generator)
        labels = torch.multinomial(torch.softmax(logits / 2.5, 1), 1, generator=generator)[:, 0]
        assert TemperatureScaling().fit(logits, labels).temperature == pytest.approx(2.5, rel=0.02)
        vector = VectorScaling().fit(logits, labels)
        assert vector.weight.tolist() == pytest.approx([0.4] * 5, rel=0.05)
        assert (vector.bias - vector.bias.mean()).abs().max() < 0.05


class TestInvariance:
    def test_the_temperature_scales_with_the_logits(self) -> None:
        logits, labels = data(300, 5)
        expected = TemperatureScaling().fit(logits, labels).temperature
        for factor in (1e-30, 1e-6, 3.0, 1e4, 1e30):
            assert TemperatureScaling().fit(factor * logits, labels).temperature == pytest.approx(
                factor * expected, rel=1e-6
            )

    def test_a_shift_of_each_sample_changes_nothing(self) -> None:
        logits, labels = data(300, 5)
        shifted = logits + 1000 * torch.arange(300)[:, None]
        expected = TemperatureScaling().fit(logits, labels).temperature
        assert TemperatureScaling().fit(shifted, labels).temperature == pytest.approx(
            expected, rel=1e-6
        )

    def test_order_of_samples_and_names_of_classes(self) -> None:
        logits, labels = data(300, 5)
        order = torch.randperm(5, generator=torch.Generator().manual_seed(1))
        samples = torch.randperm(300, generator=torch.Generator().manual_seed(2))
        renamed, moved = logits[samples][:, order], order.argsort()[labels[samples]]
        assert TemperatureScaling().fit(renamed, moved).temperature == pytest.approx(
            TemperatureScaling().fit(logits, labels).temperature, rel=1e-6
        )
        torch.testing.assert_close(
            VectorScaling().fit(renamed, moved).weight,
            VectorScaling().fit(logits, labels).weight[order],
            rtol=1e-4,
            atol=0,
        )

    def test_the_prediction_of_temperature_scaling(self) -> None:
        logits, labels = data(300, 5)
        assert torch.equal(
            TemperatureScaling().fit(logits, labels).transform(logits).argmax(1), logits.argmax(1)
        )


class TestDegenerate:
    def test_separable(self) -> None:
        logits, _ = data(200, 4, seed=1)
        labels = logits.argmax(1)
        scaling = TemperatureScaling().fit(logits, labels)
        assert 0 < scaling.temperature < 1
        assert nll(scaling.transform(logits), labels) == pytest.approx(1e-12, rel=0.01)
        vector = VectorScaling().fit(logits, labels)
        assert (
            torch.isfinite(vector.weight).all()
            and nll(vector.transform(logits), labels) <= 1.01e-12
        )

    def test_already_at_zero(self) -> None:
        logits = 1e4 * torch.eye(3)
        assert TemperatureScaling().fit(logits, [0, 1, 2]).temperature == 1.0
        assert VectorScaling().fit(logits, [0, 1, 2]).weight.tolist() == [1.0] * 3

    def test_always_wrong(self) -> None:
        logits, _ = data(200, 4, seed=1)
        labels = logits.argmin(1)
        scaling = TemperatureScaling().fit(logits, labels)
        assert 1e6 < scaling.temperature < 1e12
        assert nll(scaling.transform(logits), labels) == pytest.approx(math.log(4), abs=1e-8)
        assert (VectorScaling().fit(logits, labels).weight < 0).all(), (
            "vector scaling may turn the logits round"
        )

    @pytest.mark.parametrize("value", [0.0, -7.25, 1e4])
    def test_constant_logits(self, value: float) -> None:
        logits, labels = torch.full((8, 3), value, dtype=torch.float64), [0, 0, 0, 0, 1, 1, 2, 2]
        assert TemperatureScaling().fit(logits, labels).temperature == 1.0
        shares = torch.softmax(VectorScaling().fit(logits, labels).transform(logits), 1)[0]
        torch.testing.assert_close(
            shares, torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64), atol=1e-6, rtol=0
        )

    @pytest.mark.parametrize(("label", "low", "high"), [(0, 0.01, 0.1), (1, 1e6, 1e10)])
    def test_one_sample(self, label: int, low: float, high: float) -> None:
        scaling = TemperatureScaling().fit([[2.0, 1.0]], [label])
        assert low < scaling.temperature < high
        vector = VectorScaling().fit([[2.0, 1.0]], [label])
        assert float(vector.weight.abs().max()) < 100 and float(vector.bias.abs().max()) < 100

    def test_one_class_only(self) -> None:
        logits, _ = data(100, 4)
        labels = torch.zeros(100, dtype=torch.int64)
        vector = VectorScaling().fit(logits, labels)
        assert nll(vector.transform(logits), labels) < 1e-6
        assert float(vector.bias.abs().max()) < 40 and torch.isfinite(vector.weight).all()

    def test_absent_classes(self) -> None:
        """A class that the split does not hold is given up, but no logit becomes infinite."""
        logits, labels = data(400, 6)
        labels = labels % 4
        vector = VectorScaling().fit(logits, labels)
        p = torch.softmax(vector.transform(logits), 1)
        assert p[:, 4:].mean() < 1e-8 and (p > 0).all()
        assert float(vector.bias.abs().max()) < 40

    def test_ties_with_the_true_class(self) -> None:
        logits, labels = torch.tensor([[1.0, 1.0, 0.0]]).expand(20, 3), torch.arange(20) % 2
        assert nll(
            TemperatureScaling().fit(logits, labels).transform(logits), labels
        ) == pytest.approx(math.log(2), abs=1e-6)

    @pytest.mark.parametrize("magnitude", [1e4, 1e20, 3e38])
    def test_huge_logits(self, magnitude: float) -> None:
        logits, labels = data(100, 3)
        huge = (logits / logits.abs().max() * magnitude).float()
        identity, temperature, vector = chain(huge, labels)
        assert vector <= temperature < 1.1 < identity

    def test_an_outlier(self) -> None:
        """One sample with a logit of ten thousand does not spoil the temperature of the rest."""
        logits, labels = data(300, 3)
        expected = TemperatureScaling().fit(logits, labels).temperature
        outlier = torch.tensor([[1e4, 0.0, 0.0]], dtype=torch.float64)
        scaling = TemperatureScaling().fit(
            torch.cat([logits, outlier]), torch.cat([labels, torch.tensor([0])])
        )
        assert scaling.temperature == pytest.approx(expected, rel=1e-6)

    def test_half_precision_does_not_overflow(self) -> None:
        logits = torch.tensor([[300.0, 299.75], [0.0, 60.0]], dtype=torch.float16)
        scaling = TemperatureScaling().fit(logits, [0, 1])
        assert torch.isfinite(scaling.transform(logits)).all()
        large = scaling.transform(torch.full((1, 2), 6e4, dtype=torch.float16))
        assert torch.isfinite(large).all()
        with pytest.raises(ValueError, match="too large for torch.float32; give the logits in"):
            scaling.transform(torch.full((1, 2), 3e38))

    def test_the_predicted_class_stays_in_half_precision(self) -> None:
        logits = torch.tensor([[2.0, 2.001953125], [0.0, 9.0], [9.0, 0.0]], dtype=torch.float16)
        for factor in (3.0, 7.0, 11.0):
            scaling = TemperatureScaling(factor)
            assert torch.equal(scaling.transform(logits).argmax(1), logits.argmax(1))
            array = scaling.transform(logits.numpy())
            assert array.dtype == np.float32 and (array.argmax(1) == logits.argmax(1).numpy()).all()

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_neighbouring_logits_may_become_equal_and_never_change_places(self, dtype) -> None:
        low = torch.linspace(1.0, 2.0, 1001, dtype=dtype)[:-1, None]
        logits = torch.cat([low, low + torch.finfo(dtype).eps], 1)
        difference = TemperatureScaling(1.7).transform(logits).diff()
        assert (difference >= 0).all() and (difference == 0).any()


class TestKinds:
    @pytest.mark.parametrize("scaling", SCALINGS)
    def test_type_shape_and_kind_are_kept(self, scaling) -> None:
        logits, labels = data(50, 3)
        fitted = scaling().fit(logits, labels)
        for dtype in TYPES:
            out = fitted.transform(logits.reshape(5, 10, 3).mT.to(dtype))
            assert out.dtype == scaled_type(dtype) and out.shape == (5, 3, 10)
        assert fitted.transform(torch.empty(0, 3)).shape == (0, 3)
        array = fitted.transform(logits.numpy().astype("f4"))
        assert isinstance(array, np.ndarray) and array.dtype == np.float32
        assert fitted.transform(torch.tensor([[1, 2, 3]])).dtype == torch.float64

    @pytest.mark.parametrize("scaling", SCALINGS)
    def test_lists_arrays_and_tensors_agree(self, scaling) -> None:
        logits, labels = data(50, 3)
        kinds = [
            (logits, labels),
            (logits.numpy(), labels.numpy().astype("uint8")),
            (logits.tolist(), labels.tolist()),
        ]
        fits = [scaling().fit(*kind).transform(logits).tolist() for kind in kinds]
        assert fits[0] == fits[1] == fits[2]

    @pytest.mark.parametrize("scaling", SCALINGS)
    def test_gradients(self, scaling) -> None:
        logits, labels = data(50, 3)
        leaf = logits.clone().requires_grad_()
        fitted = scaling().fit(leaf, labels)
        assert leaf.grad is None
        assert torch.autograd.gradcheck(fitted.transform, leaf[:3].detach().requires_grad_())

    def test_the_formula(self) -> None:
        logits, labels = data(50, 3)
        temperature, vector = (
            TemperatureScaling().fit(logits, labels),
            VectorScaling().fit(logits, labels),
        )
        torch.testing.assert_close(temperature.transform(logits), logits / temperature.temperature)
        torch.testing.assert_close(vector.transform(logits), logits * vector.weight + vector.bias)
        assert isinstance(
            temperature.temperature, float
        ) and vector.weight.shape == vector.bias.shape == (3,)

    def test_a_second_fit_replaces_the_first(self) -> None:
        scaling = TemperatureScaling()
        assert scaling.fit(*data(50, 3)) is scaling
        scaling.fit(*data(80, 4, seed=3))
        assert scaling.temperature == TemperatureScaling().fit(*data(80, 4, seed=3)).temperature

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
    @pytest.mark.parametrize("scaling", SCALINGS)
    def test_the_device_is_kept(self, scaling) -> None:
        logits, labels = data(50, 3)
        there = scaling().fit(logits.cuda(), labels.cuda())
        assert there.transform(logits.cuda()).is_cuda
        torch.testing.assert_close(
            there.transform(logits.cuda()).cpu(), scaling().fit(logits, labels).transform(logits)
        )


class TestErrors:
    GOOD = [[1.0, -1.0], [0.5, 3.0]]

    @pytest.mark.parametrize("scaling", SCALINGS)
    def test_transform_before_fit(self, scaling) -> None:
        with pytest.raises(
            NotFittedError,
            match=rf"{scaling.__name__} is not fitted yet; call fit\(logits, labels\)",
        ):
            scaling().transform(torch.zeros(1, 2))
        assert not any(hasattr(scaling(), name) for name in ("temperature", "weight", "bias"))

    def test_bad_validation_split(self) -> None:
        for logits, labels, message in [
            ([[math.nan, 1.0], [0.5, 3.0]], [0, 1], "finite; 1 values"),
            ([[-math.inf, 1.0], [0.5, 3.0]], [0, 1], "finite"),
            ([1.0, 2.0], [0, 1], r"shape \[N, C\] or .* not be empty, not \[2\]"),
            (torch.zeros(2, 2, 2), [0, 1], r"labels must have the shape \[2, 2\]"),
            (torch.empty(0, 3), [], r"not be empty, not \[0, 3\]"),
            ([["a", "b"]], [0], "real numbers"),
            (torch.zeros(2, 2, dtype=torch.bool), [0, 1], "real numbers"),
            (torch.zeros(2, 2, dtype=torch.complex64), [0, 1], "real numbers"),
            ([[1e308, -1e308], [1.0, 0.0]], [0, 0], "differ by more"),
            (self.GOOD, [0, 2], "reach from 0 to 2"),
            (self.GOOD, [-1, 0], "reach from -1 to 0"),
            (self.GOOD, [0], r"shape \[2\] to go with logits \[2, 2\], not \[1\]"),
            (self.GOOD, [0.0, 1.0], "integer type"),
            (self.GOOD, [[0.9, 0.1], [0.2, 0.8]], "take argmax first"),
        ]:
            for scaling in SCALINGS:
                with pytest.raises(ValueError, match=message):
                    scaling().fit(logits, labels)

    def test_bad_logits(self) -> None:
        cases = (
            ([[math.nan, 0.0]], "finite"),
            (1.0, "must have a class dimension"),
            ([["a", "b"]], "real numbers"),
        )
        for scaling, (logits, message) in itertools.product(SCALINGS, cases):
            with pytest.raises(ValueError, match=message):
                scaling().fit(self.GOOD, [0, 1]).transform(logits)

    def test_another_number_of_classes(self) -> None:
        with pytest.raises(
            ValueError, match=r"2 classes in dimension 1, as in fit, not .* \[1, 3\]"
        ):
            VectorScaling().fit(self.GOOD, [0, 1]).transform(torch.zeros(1, 3))
