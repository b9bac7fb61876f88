"""One battery for every loss of the family.

It holds references written out slowly, limits, derivatives, extremes, options, transforms and runs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from gdlib import functional, losses

Row = Sequence[float]


# --- slow references: one sample, python numbers, straight from the formulas ---


def softmax_loss(logits: Row, c: int) -> float:
    top = max(logits)
    return math.log(sum(math.exp(z - top) for z in logits)) + top - logits[c]


def with_true(logits: Row, c: int, value: float) -> list[float]:
    return [value if i == c else z for i, z in enumerate(logits)]


def angle(cosine: float) -> float:
    return math.acos(min(1.0, max(-1.0, cosine)))


def gradient_decay(z: Row, c: int, beta: float) -> float:
    return softmax_loss(
        [value + math.log(beta) * (i == c) for i, value in enumerate(z)], c
    ) + math.log(beta)


def soft_margin(z: Row, c: int, margin: float) -> float:
    return softmax_loss(with_true(z, c, z[c] - margin), c)


def focal(z: Row, c: int, gamma: float) -> float:
    p = math.exp(-softmax_loss(z, c))
    return (1 - p) ** gamma * softmax_loss(z, c)


def hinge(z: Row, c: int, margin: float) -> float:
    return sum(max(0.0, z[i] - z[c] + margin) for i in range(len(z)) if i != c) / (len(z) - 1)


def large_margin(z: Row, c: int, reg_lambda: float, divergence: str) -> float:
    others = [value for i, value in enumerate(z) if i != c]
    total = sum(math.exp(value) for value in others)
    q, u = [math.exp(value) / total for value in others], 1 / len(others)
    q_u = sum(a * math.log(a / u) for a in q)
    u_q = sum(u * math.log(u / a) for a in q)
    return (
        softmax_loss(z, c)
        + reg_lambda * {"symmetric": (q_u + u_q) / 2, "q_u": q_u, "u_q": u_q}[divergence]
    )


def arcface(x: Row, c: int, scale: float, margin: float) -> float:
    theta = angle(x[c])
    moved = (
        math.cos(theta + margin) if theta + margin <= math.pi else x[c] - margin * math.sin(margin)
    )
    return softmax_loss(with_true([scale * value for value in x], c, scale * moved), c)


def cosface(x: Row, c: int, scale: float, margin: float) -> float:
    return softmax_loss([scale * (value - margin * (i == c)) for i, value in enumerate(x)], c)


def psi(cosine: float, multiple: int, annealing: float) -> float:
    theta = angle(cosine)
    k = min(multiple - 1, int(theta * multiple / math.pi))
    return (annealing * cosine + (-1) ** k * math.cos(multiple * theta) - 2 * k) / (1 + annealing)


def sphereface(x: Row, c: int, scale: float, margin: int, annealing: float) -> float:
    return softmax_loss(
        with_true([scale * value for value in x], c, scale * psi(x[c], margin, annealing)), c
    )


def l_softmax(z: Row, c: int, norm: float, margin: int) -> float:
    return softmax_loss(with_true(z, c, norm * psi(z[c] / norm, margin, 0.0)), c)


def l_softmax_with_norm(
    input: Tensor, target: Tensor, norm: float, margin: int, **options: Any
) -> Tensor:
    lengths = input.detach().abs().nan_to_num(posinf=0.0)  # -inf is a mask
    norms = lengths.amax().clamp(min=norm)  # no logit is larger
    return functional.l_softmax_cross_entropy(input, target, norms, margin, **options)


def arcgrad(x: Row, c: int, scale: float) -> float:
    return softmax_loss([-scale * angle(value) for value in x], c)


def gaussian(d: Row, c: int, margin: float, likelihood_weight: float) -> float:
    return (
        softmax_loss([-(1 + margin * (i == c)) * value for i, value in enumerate(d)], c)
        + likelihood_weight * d[c]
    )


def power(z: Row, c: int, q: float) -> float:
    return (1 - math.exp(-softmax_loss(z, c)) ** q) / q


def poly1(z: Row, c: int, epsilon: float) -> float:
    return softmax_loss(z, c) + epsilon * (1 - math.exp(-softmax_loss(z, c)))


@dataclass(frozen=True)
class Loss:
    """A loss with one setting of its parameters, and what it is compared with."""

    name: str
    function: Callable[..., Tensor]
    parameters: dict[str, Any]
    reference: Callable[..., float]
    domain: str = "logits"
    neutral: dict[str, Any] | None = None
    neutral_logits: Callable[[Tensor], Tensor] = lambda z: z
    module: type | None = None
    soft: bool = True
    smooths: bool = True
    call: Callable[..., Tensor] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "call", partial(self.function, **self.parameters))

    def __repr__(self) -> str:
        return self.name


LARGE = functional.large_margin_cross_entropy
FAMILY = [
    Loss(
        "gradient decay",
        functional.gd_cross_entropy,
        {"beta": 0.05},
        gradient_decay,
        neutral={"beta": 1.0},
        module=losses.GDCrossEntropyLoss,
    ),
    Loss("gradient decay above 1", functional.gd_cross_entropy, {"beta": 7.0}, gradient_decay),
    Loss(
        "soft margin",
        functional.soft_margin_cross_entropy,
        {"margin": 0.5},
        soft_margin,
        neutral={"margin": 0.0},
        module=losses.SoftMarginLoss,
    ),
    Loss("negative margin", functional.soft_margin_cross_entropy, {"margin": -2.0}, soft_margin),
    Loss(
        "modified",
        partial(functional.soft_margin_cross_entropy, margin=1.0),
        {},
        partial(soft_margin, margin=1.0),
    ),
    Loss(
        "focal",
        functional.focal_cross_entropy,
        {"gamma": 2.0},
        focal,
        neutral={"gamma": 0.0},
        module=losses.FocalLoss,
    ),
    Loss("focal below 1", functional.focal_cross_entropy, {"gamma": 0.5}, focal),
    Loss(
        "generalised",
        functional.generalized_cross_entropy,
        {"q": 0.4},
        power,
        neutral={"q": 1e-13},
        module=losses.GeneralizedCrossEntropyLoss,
    ),
    Loss(
        "poly-1",
        functional.poly1_cross_entropy,
        {"epsilon": 1.0},
        poly1,
        neutral={"epsilon": 0.0},
        module=losses.Poly1CrossEntropyLoss,
    ),
    Loss("negative poly-1", functional.poly1_cross_entropy, {"epsilon": -0.5}, poly1),
    Loss(
        "negative probability",
        functional.negative_probability,
        {},
        partial(power, q=1.0),
        module=losses.NegativeProbabilityLoss,
    ),
    Loss(
        "hinge",
        functional.multi_class_hinge,
        {"margin": 1.0},
        hinge,
        module=losses.MultiClassHingeLoss,
        soft=False,
        smooths=False,
    ),
    *(
        Loss(
            f"large margin {divergence}",
            LARGE,
            {"reg_lambda": 0.3, "divergence": divergence},
            large_margin,
            neutral={"reg_lambda": 0.0, "divergence": divergence},
            module=losses.LargeMarginLoss,
            soft=False,
        )
        for divergence in ("symmetric", "q_u", "u_q")
    ),
    Loss(
        "arcface",
        functional.arcface_cross_entropy,
        {"scale": 20.0, "margin": 0.4},
        arcface,
        "cosines",
        neutral={"scale": 20.0, "margin": 0.0},
        neutral_logits=lambda x: 20 * x,
        module=losses.ArcFaceLoss,
    ),
    Loss(
        "cosface",
        functional.cosface_cross_entropy,
        {"scale": 8.0, "margin": 0.35},
        cosface,
        "cosines",
        neutral={"scale": 8.0, "margin": 0.0},
        neutral_logits=lambda x: 8 * x,
        module=losses.CosFaceLoss,
    ),
    Loss(
        "sphereface",
        functional.sphereface_cross_entropy,
        {"scale": 3.0, "margin": 4, "annealing": 0.0},
        sphereface,
        "cosines",
        neutral={"scale": 3.0, "margin": 1},
        neutral_logits=lambda x: 3 * x,
        module=losses.SphereFaceLoss,
    ),
    Loss(
        "sphereface annealed",
        functional.sphereface_cross_entropy,
        {"scale": 3.0, "margin": 3, "annealing": 5.0},
        sphereface,
        "cosines",
    ),
    Loss(
        "l-softmax",
        l_softmax_with_norm,
        {"norm": 9.0, "margin": 2},
        l_softmax,
        neutral={"norm": 9.0, "margin": 1},
    ),
    Loss(
        "adacos",
        functional.adacos_cross_entropy,
        {"scale": 3.0},
        lambda x, c, scale: softmax_loss([scale * v for v in x], c),
        "cosines",
        neutral={"scale": 3.0},
        neutral_logits=lambda x: 3 * x,
    ),
    Loss(
        "arcgrad",
        functional.arcgrad_cross_entropy,
        {"scale": 5.0},
        arcgrad,
        "cosines",
        neutral={"scale": 5.0},
        neutral_logits=lambda x: -5 * torch.arccos(x),
        module=losses.ArcGradLoss,
    ),
    Loss(
        "gaussian mixture",
        functional.gaussian_mixture_cross_entropy,
        {"margin": 0.3, "likelihood_weight": 0.1},
        gaussian,
        "distances",
        neutral={"margin": 0.0, "likelihood_weight": 0.0},
        neutral_logits=lambda d: -d,
        module=losses.GaussianMixtureLoss,
        soft=False,
    ),
]


VARIANTS = (
    "gradient decay above 1",
    "negative margin",
    "focal below 1",
    "negative poly-1",
    "sphereface annealed",
)  # tested for their values
EVERY = [loss for loss in FAMILY if loss.name not in VARIANTS]


def draw(
    loss: Loss, shape: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float64) * 2
    values = {"logits": values, "cosines": torch.tanh(values), "distances": values.square()}[
        loss.domain
    ]
    dim = min(1, len(shape) - 1)
    return values.to(dtype), torch.randint(
        0, shape[dim], shape[:dim] + shape[dim + 1 :], generator=generator
    )


def options_of(loss: Loss, **options: Any) -> dict[str, Any]:
    """The options, less label smoothing where the loss has none."""
    return {
        name: value for name, value in options.items() if name != "label_smoothing" or loss.smooths
    }


def by_reference(loss: Loss, values: Tensor, target: Tensor) -> Tensor:
    """Losses of samples ``[N]`` from values ``[N, C]``."""
    rows = zip(values.tolist(), target.tolist(), strict=True)
    return torch.tensor(
        [loss.reference(row, c, **loss.parameters) for row, c in rows], dtype=torch.float64
    )


@pytest.mark.parametrize("loss", FAMILY)
class TestValues:
    def test_against_the_slow_reference_and_cross_entropy(self, loss):
        for classes in (2, 3, 7, 40):
            values, target = draw(loss, (60, classes))
            found = loss.call(values, target, reduction="none")
            torch.testing.assert_close(
                found, by_reference(loss, values, target), rtol=1e-9, atol=1e-9
            )
        values, target = draw(loss, (4, 1))  # one class has nothing to learn
        values.requires_grad_()
        loss.call(values, target).backward()
        expected = (
            0.1 / 4 if loss.name == "gaussian mixture" else 0.0
        )  # its likelihood is of no use to the classification
        torch.testing.assert_close(values.grad, torch.full_like(values, expected))
        if loss.neutral is None:
            return
        values, target = draw(loss, (20, 5, 2))
        weight = torch.tensor([0.3, 0.0, 2.0, 1.0, 0.5], dtype=torch.float64)
        target[3] = -100
        for options in (
            {},
            {"weight": weight},
            {"label_smoothing": 0.2, "weight": weight},
            {"reduction": "none"},
            {"reduction": "sum"},
        ):
            found = loss.function(values, target, **loss.neutral, **options)
            expected = F.cross_entropy(loss.neutral_logits(values), target, **options)
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("loss", EVERY)
class TestEveryLoss:
    def test_derivatives(self, loss):
        weight = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
        for options in (
            {"weight": weight},
            options_of(loss, label_smoothing=0.1, reduction="none"),
        ):
            values, target = draw(loss, (3, 3, 2), seed=3)
            values.requires_grad_()
            assert torch.autograd.gradcheck(
                lambda v: loss.call(v, target, **options),  # noqa: B023
                (values,),
                check_batched_grad=True,
            )
            assert torch.autograd.gradgradcheck(
                lambda v: loss.call(v, target, **options),  # noqa: B023
                (values,),
            )
        values, target = draw(loss, (5, 4))
        mapped = torch.func.vmap(torch.func.grad(lambda v, c: loss.call(v, c)))(values, target)
        values.requires_grad_()
        loss.call(values, target, reduction="sum").backward()
        torch.testing.assert_close(mapped, values.grad)

    def test_extremes_and_types(self, loss):
        size = {"logits": 1e4, "cosines": 1.0, "distances": 1e4}[loss.domain]
        rows = [
            [1.0, -1.0, 0.0],
            [-1.0, 1.0, 0.0],
            [0.0, 0.0, 0.0],
            [1.0, 1.0, 1.0],
            [-1.0, -1.0, -1.0],
        ]
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            for smoothing in (0.0, 0.1):
                values = torch.tensor(rows, dtype=dtype) * size
                values = (values.abs() if loss.domain == "distances" else values).requires_grad_()
                options = options_of(loss, label_smoothing=smoothing, reduction="none")
                found = loss.call(values, torch.tensor([0, 0, 1, 2, 1]), **options)
                found.float().sum().backward()
                assert (
                    found.dtype == dtype
                    and torch.isfinite(found).all()
                    and torch.isfinite(values.grad).all()
                )
        for dtype in (torch.float16, torch.bfloat16):
            values, target = draw(loss, (64, 10), dtype=dtype)
            torch.testing.assert_close(
                loss.call(values, target),
                loss.call(values.float(), target).to(dtype),
                rtol=0,
                atol=0,
            )
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found = loss.call(values, target)
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, loss.call(values.float(), target))
        values, target = draw(loss, (200, 10), dtype=torch.float32)
        exact = loss.call(values.double(), target, reduction="none")
        torch.testing.assert_close(
            loss.call(values, target, reduction="none").double(), exact, rtol=2e-5, atol=1e-5
        )

    def test_masked_classes_and_the_meta_device(self, loss):
        mask = math.inf if loss.domain == "distances" else -math.inf
        values, target = draw(loss, (3, 3))
        for masked in ([0, 2], [0]):
            hidden = F.pad(
                values[:, masked[-1:] if len(masked) == 1 else masked],
                (0, 3 - len(masked)),
                value=mask,
            ).requires_grad_()
            found = loss.call(hidden, torch.zeros(3, dtype=torch.long), reduction="none")
            found.sum().backward()
            assert (
                torch.isfinite(found).all()
                and torch.isfinite(hidden.grad).all()
                and (hidden.grad[:, len(masked) :] == 0).all()
            )
            if loss.name != "hinge":  # which is a mean over the classes
                left = hidden.detach()[:, : len(masked)]
                torch.testing.assert_close(
                    found.detach(),
                    loss.call(left, torch.zeros(3, dtype=torch.long), reduction="none"),
                )
        values, target = (
            torch.zeros(4, 3, device="meta", requires_grad=True),
            torch.zeros(4, dtype=torch.long, device="meta"),
        )
        for smoothing in (0.0, 0.1):
            found = loss.call(values, target, **options_of(loss, label_smoothing=smoothing))
            found.backward()
            assert found.shape == () and values.grad.shape == (4, 3)

    def test_weights_and_ignored_samples(self, loss):
        values, target = draw(loss, (12, 4))
        target[2:5] = -100
        weight = torch.tensor([0.5, 2.0, 0.0, 1.0], dtype=torch.float64)
        counts = target != -100
        alone, used = by_reference(loss, values[counts], target[counts]), weight[target[counts]]
        none = loss.call(values, target, weight=weight, reduction="none")
        torch.testing.assert_close(none[counts], alone * used, rtol=1e-9, atol=1e-9)
        assert (none[~counts] == 0).all()
        torch.testing.assert_close(
            loss.call(values, target, weight=weight, reduction="sum"),
            (alone * used).sum(),
            rtol=1e-9,
            atol=1e-9,
        )
        torch.testing.assert_close(
            loss.call(values, target, weight=weight),
            (alone * used).sum() / used.sum(),
            rtol=1e-9,
            atol=1e-9,
        )
        counted = target.where(counts, 3)
        values.requires_grad_()
        found = loss.call(values, counted, ignore_index=3)
        found.backward()
        assert (
            found == loss.call(values, counted.where(counted != 3, -100))
            and (values.grad[counted == 3] == 0).all()
        )

    def test_further_dimensions_and_one_value_for_each_sample(self, loss):
        values, target = draw(loss, (3, 5, 2, 4))
        found = loss.call(values, target, reduction="none")
        flat = loss.call(values.movedim(1, 3).reshape(-1, 5), target.reshape(-1), reduction="none")
        torch.testing.assert_close(found, flat.reshape(3, 2, 4))
        torch.testing.assert_close(loss.call(values[0, :, 0, 0], target[0, 0, 0]), found[0, 0, 0])
        # R runs as one call, with one value of each parameter for each sample, equal R calls
        numbers = {
            name: value
            for name, value in loss.parameters.items()
            if isinstance(value, float) and name not in {"norm", "annealing"}
        }
        values, target = draw(loss, (6, 4), dtype=torch.float32)
        factors = torch.tensor([1.0, 1.0, 1.5, 1.5, 2.0, 2.0])
        together = loss.function(
            values,
            target,
            **loss.parameters | {n: v * factors for n, v in numbers.items()},
            reduction="none",
        )
        for run in range(3):
            rows = slice(2 * run, 2 * run + 2)
            own = loss.parameters | {
                name: torch.full((2,), value) * factors[rows] for name, value in numbers.items()
            }
            assert torch.equal(
                together[rows], loss.function(values[rows], target[rows], **own, reduction="none")
            )

    def test_class_probabilities_and_label_smoothing(self, loss):
        values, target = draw(loss, (7, 4))
        probabilities = torch.softmax(
            torch.arange(28.0, dtype=torch.float64).reshape(7, 4).cos(), 1
        )
        if not loss.soft:
            with pytest.raises(ValueError, match="class indices"):
                loss.call(values, probabilities)
        elif loss.smooths:
            alone = torch.stack(
                [loss.call(values, torch.full((7,), c), reduction="none") for c in range(4)], 1
            )
            expected = 0.8 * alone.gather(1, target[:, None])[:, 0] + 0.2 * alone.mean(1)
            torch.testing.assert_close(
                loss.call(values, target, label_smoothing=0.2, reduction="none"), expected
            )
            torch.testing.assert_close(
                loss.call(values, probabilities, reduction="none"), (probabilities * alone).sum(1)
            )
        if loss.name.startswith("large margin"):  # the smoothing acts on the cross-entropy
            regulariser = by_reference(loss, values, target) - F.cross_entropy(
                values, target, reduction="none"
            )
            found = loss.call(values, target, label_smoothing=0.2, reduction="none")
            torch.testing.assert_close(
                found,
                F.cross_entropy(values, target, label_smoothing=0.2, reduction="none")
                + regulariser,
            )

    def test_module_and_refusals(self, loss):
        values, target = draw(loss, (6, 4))
        weight = torch.tensor([0.5, 2.0, 0.3, 1.0], dtype=torch.float64)
        options = options_of(
            loss, weight=weight, ignore_index=2, reduction="sum", label_smoothing=0.1
        )
        if loss.module is not None:
            module = loss.module(**loss.parameters, **options)
            assert module(values, target) == loss.call(values, target, **options)
            assert set(module.state_dict()) - {"steps"} == {"weight"} and not set(
                loss.module(**loss.parameters).state_dict()
            ) - {"steps"}
            assert all(f"{name}=" in repr(module) for name in loss.parameters)
            assert module.logits(values).shape == values.shape
        for change, message in (
            ({"target": torch.tensor([0, 4, 1])}, r"class index 4 lies outside \[0, 4\)"),
            ({"target": torch.tensor([0, 1])}, "does not fit"),
            ({"target": torch.zeros(3, dtype=torch.int32)}, "int64 or uint8"),
            (
                {"input": torch.zeros(3, 4, dtype=torch.long)},
                "float16, bfloat16, float32 or float64",
            ),
            ({"weight": torch.ones(3)}, r"shape \[4\]"),
            ({"reduction": "average"}, "'none', 'mean' or 'sum'"),
        ):
            arguments = {
                "input": torch.zeros(3, 4),
                "target": torch.zeros(3, dtype=torch.long),
            } | change
            with pytest.raises(ValueError, match=message):
                loss.call(arguments.pop("input"), arguments.pop("target"), **arguments)
        if not loss.smooths:
            with pytest.raises(TypeError, match="unexpected keyword argument 'label_smoothing'"):
                loss.call(values, target, label_smoothing=0.1)
        with pytest.raises(
            TypeError,
            match="unexpected keyword argument 'wieght'",
        ):
            loss.call(values, target, wieght=weight)


class TestParameters:
    def test_gradients_flow_into_them(self):
        generator = torch.Generator().manual_seed(0)
        cosine = torch.rand(5, 3, generator=generator, dtype=torch.float64) - 0.5
        target = torch.tensor([0, 1, 2, 0, 1])
        for function, *names in (
            (functional.gd_cross_entropy, "beta", "temperature"),
            (functional.soft_margin_cross_entropy, "margin"),
            (functional.focal_cross_entropy, "gamma"),
            (functional.generalized_cross_entropy, "q"),
            (functional.poly1_cross_entropy, "epsilon"),
            (functional.arcface_cross_entropy, "scale", "margin"),
            (functional.cosface_cross_entropy, "scale", "margin"),
            (functional.sphereface_cross_entropy, "scale"),
            (functional.arcgrad_cross_entropy, "scale"),
            (functional.large_margin_cross_entropy, "reg_lambda"),
        ):
            values = [
                torch.rand(5, generator=generator, dtype=torch.float64)
                .mul(0.8 if "q" in names else 1.0)
                .add(0.15 if "q" in names else 0.2)
                .requires_grad_()
                for _ in names
            ]

            def loss_fn(*values, function=function, names=names):
                return function(cosine, target, **dict(zip(names, values, strict=True)))

            assert torch.autograd.gradcheck(loss_fn, values)

    @pytest.mark.parametrize(
        "value",
        [-1.0, math.nan, math.inf, True, "wide", torch.ones(4), torch.tensor([-1.0, 1.0, 1.0])],
    )
    def test_bad_ones(self, value):
        cosine, target = torch.zeros(3, 5), torch.zeros(3, dtype=torch.long)
        for function, name in (
            (functional.arcface_cross_entropy, "scale"),
            (functional.arcface_cross_entropy, "margin"),
            (functional.focal_cross_entropy, "gamma"),
            (functional.generalized_cross_entropy, "q"),
            (functional.large_margin_cross_entropy, "reg_lambda"),
            (functional.gaussian_mixture_cross_entropy, "likelihood_weight"),
        ):
            with pytest.raises(ValueError, match=name):
                function(cosine, target, **{name: value})

    @pytest.mark.parametrize(
        "name", ["soft margin", "arcface", "large margin symmetric", "sphereface"]
    )
    def test_compiled(self, name):
        loss = next(one for one in FAMILY if one.name == name)
        values, target = draw(loss, (8, 5))
        compiled = torch.compile(lambda v, c: loss.call(v, c), fullgraph=True, backend="aot_eager")
        ours, theirs = values.clone().requires_grad_(), values.clone().requires_grad_()
        found, expected = compiled(ours, target), loss.call(theirs, target)
        found.backward()
        expected.backward()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(ours.grad, theirs.grad)


class TestHelp:
    @pytest.mark.parametrize("module", [functional, losses])
    def test_every_argument_is_named(self, module):
        for name in getattr(
            module,
            "__all__",
            [name for name, thing in vars(module).items() if inspect.isfunction(thing)],
        ):
            thing = getattr(module, name)
            names = inspect.signature(thing).parameters
            assert "options" not in names and "arguments" not in names, name
            if "cross_entropy" in name or name.endswith("Loss"):
                weight = "linear_weight" if name.startswith("linear") else "weight"
                assert {weight, "ignore_index", "reduction"} <= set(names), name

    def test_every_argument_of_its_own_is_described(self):
        """The options are described at gd_cross_entropy."""
        shared = {"weight", "ignore_index", "reduction", "label_smoothing"}
        for name, thing in vars(functional).items():
            if inspect.isfunction(thing):
                names = set(inspect.signature(thing).parameters)
                wanted = names if name == "gd_cross_entropy" else names - shared
                text = inspect.cleandoc(thing.__doc__)
                assert [one for one in wanted if f"    {one}: " not in text] == [], name

    def test_modules_have_the_functions_defaults(self):
        for loss in FAMILY:
            if loss.module is not None:
                own, theirs = (
                    inspect.signature(loss.module).parameters,
                    inspect.signature(loss.function).parameters,
                )
                assert all(own[name].default == theirs[name].default for name in own)


class TestProperties:
    @settings(deadline=None, max_examples=25)
    @given(st.integers(0, 10_000), st.permutations(range(5)))
    def test_permutation_of_classes(self, seed, order):
        for loss in FAMILY:
            values, target = draw(loss, (4, 5), seed=seed)
            moved = torch.tensor([order.index(c) for c in target.tolist()])
            torch.testing.assert_close(
                loss.call(values[:, order], moved), loss.call(values, target)
            )

    @settings(deadline=None, max_examples=25)
    @given(st.integers(0, 10_000), st.floats(-50, 50))
    def test_shift_of_logits(self, seed, shift):
        for loss in FAMILY:
            if loss.domain == "logits" and loss.name != "l-softmax":
                values, target = draw(loss, (4, 5), seed=seed)
                torch.testing.assert_close(
                    loss.call(values + shift, target), loss.call(values, target)
                )

    @settings(deadline=None, max_examples=25)
    @given(st.integers(0, 10_000), st.floats(0.0, 3.0), st.floats(0.01, 1.0))
    def test_increasing_in_the_margin(self, seed, margin, step):
        for function in (
            functional.soft_margin_cross_entropy,
            functional.cosface_cross_entropy,
            functional.multi_class_hinge,
        ):
            values, target = draw(FAMILY[0], (4, 5), seed=seed)
            small, large = (
                function(values, target, margin=m, reduction="none")
                for m in (margin, margin + step)
            )
            assert (small <= large).all()
