"""The loss against values worked out by hand and an obvious reference.

PyTorch's own cross-entropy and the loss's limits are held against it too.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from gdlib.functional import _fused, gd_cross_entropy

SHAPES = [(5,), (1, 5), (4, 5), (3, 5, 2), (2, 5, 3, 2), (0, 5)]
REDUCTIONS = ["none", "mean", "sum"]


def exact(logits: list[float], target: int, beta: float) -> float:
    """J with 60 decimal digits, from the definition: GD-1 eq. 8."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**6), 10**6
        powers = [Decimal(z).exp() for z in logits]
        others = sum(power for index, power in enumerate(powers) if index != target)
        return float(((others + Decimal(beta) * powers[target]) / powers[target]).ln())


def pairwise(*values: list) -> list[tuple]:
    """A few combinations in which every two values of two parameters meet.

    They are far fewer than all of them.
    """
    missing = {
        (i, a, j, b)
        for i, j in itertools.combinations(range(len(values)), 2)
        for a in range(len(values[i]))
        for b in range(len(values[j]))
    }

    def gained(row: tuple[int, ...]) -> set:
        return missing & {
            (i, row[i], j, row[j]) for i, j in itertools.combinations(range(len(row)), 2)
        }

    every, chosen = list(itertools.product(*(range(len(value)) for value in values))), []
    while missing:
        row = max(every, key=lambda row: len(gained(row)))
        missing -= gained(row)
        chosen.append(tuple(value[index] for value, index in zip(values, row, strict=True)))
    return chosen


def class_dim(shape: tuple[int, ...]) -> int:
    return min(1, len(shape) - 1)


def draw(shape: tuple[int, ...], soft: bool, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    dim = class_dim(shape)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64)
    if soft:
        return logits, torch.softmax(
            torch.randn(shape, generator=generator, dtype=torch.float64), dim
        )
    return logits, torch.randint(0, shape[dim], shape[:dim] + shape[dim + 1 :], generator=generator)


class TestByHand:
    def test_two_classes(self):
        # z = (2, 0), c = 0: J = log(e^-2 + β)
        logits, target = torch.tensor([[2.0, 0.0]], dtype=torch.float64), torch.tensor([0])
        for beta in (0.01, 0.1, 1.0, 5.0):
            assert gd_cross_entropy(logits, target, beta=beta).item() == pytest.approx(
                math.log(math.exp(-2) + beta), abs=1e-14
            )

    def test_temperature_divides_the_logits(self):
        logits, target = torch.tensor([[2.0, 0.0]], dtype=torch.float64), torch.tensor([0])
        assert gd_cross_entropy(logits, target, 0.5, temperature=4.0).item() == pytest.approx(
            math.log(math.exp(-0.5) + 0.5), abs=1e-14
        )

    def test_a_confident_sample_ends_at_log_beta(self):
        logits, target = torch.tensor([[200.0, 0.0]]), torch.tensor([0])
        assert gd_cross_entropy(logits, target, 0.001).item() == pytest.approx(
            math.log(0.001), rel=1e-6
        )

    def test_soft_target_is_the_mixture(self):
        logits, target = (
            torch.tensor([[1.0, -0.5, 0.3]], dtype=torch.float64),
            torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64),
        )
        parts = [gd_cross_entropy(logits, torch.tensor([c]), 0.2).item() for c in range(3)]
        assert gd_cross_entropy(logits, target, 0.2).item() == pytest.approx(
            0.2 * parts[0] + 0.5 * parts[1] + 0.3 * parts[2], abs=1e-14
        )

    def test_one_class_is_log_beta(self):
        for target in (torch.tensor([0]), torch.tensor([[1.0]])):
            logits = torch.tensor([[3.0]], requires_grad=True)
            loss = gd_cross_entropy(logits, target, 0.1)
            loss.backward()
            assert loss.item() == pytest.approx(math.log(0.1), rel=1e-6)
            assert logits.grad.item() == 0.0


class TestIsCrossEntropyAtBetaOne:
    @pytest.mark.parametrize(
        ("shape", "soft", "weighted", "reduction", "label_smoothing", "as_tensor"),
        pairwise(SHAPES, [False, True], [False, True], REDUCTIONS, [0.0, 0.15, 1.0], [False, True]),
    )
    def test_value_and_gradient(self, shape, soft, weighted, reduction, label_smoothing, as_tensor):
        logits, target = draw(shape, soft)
        weight = torch.tensor([0.3, 0.0, 2.0, 1.0, 0.5], dtype=torch.float64) if weighted else None
        beta = torch.tensor(1.0) if as_tensor else 1.0
        results = []
        for loss_fn in (lambda z, t, **k: gd_cross_entropy(z, t, beta=beta, **k), F.cross_entropy):
            z = logits.clone().requires_grad_()
            loss = loss_fn(
                z, target, weight=weight, reduction=reduction, label_smoothing=label_smoothing
            )
            loss.sum().backward()
            results.append((loss.detach(), z.grad))
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12, equal_nan=True)

    @pytest.mark.parametrize(
        ("ignore_index", "label_smoothing", "weighted", "reduction", "everything", "as_tensor"),
        pairwise(
            [-100, -1, 2, 255], [0.0, 0.2], [False, True], REDUCTIONS, [False, True], [False, True]
        ),
    )
    def test_ignored_samples(
        self, ignore_index, label_smoothing, weighted, reduction, everything, as_tensor
    ):
        logits, target = draw((6, 5, 2), soft=False)
        target[slice(None) if everything else slice(1, 3)] = ignore_index
        weight = (
            torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
            if weighted
            else None
        )
        keywords = {
            "weight": weight,
            "ignore_index": ignore_index,
            "reduction": reduction,
            "label_smoothing": label_smoothing,
        }
        found = gd_cross_entropy(
            logits, target, beta=torch.tensor(1.0) if as_tensor else 1.0, **keywords
        )
        torch.testing.assert_close(
            found,
            F.cross_entropy(logits, target, **keywords),
            rtol=1e-12,
            atol=1e-12,
            equal_nan=True,
        )

    def test_rows_that_are_not_finite_or_do_not_count(self):
        nan, inf = math.nan, math.inf
        for rows, labels, options in (
            ([[nan, 1.0], [1.0, 2.0]], [0, 1], {}),
            ([[nan, 1.0], [1.0, 2.0]], [-100, 1], {}),
            ([[-inf, 1.0, 2.0], [1.0, 2.0, 3.0]], [1, 1], {}),
            ([[-inf, 1.0, 2.0], [1.0, 2.0, 3.0]], [0, 1], {}),
            ([[-inf, 1.0, -inf], [1.0, 2.0, 3.0]], [1, 1], {}),
            ([[inf, 1.0, 2.0], [1.0, 2.0, 3.0]], [1, 1], {}),
            ([[1.0, 2.0], [0.0, 1.0]], [-100, -100], {"label_smoothing": 0.1}),
            ([[1.0, 2.0], [0.0, 1.0]], [0, 1], {"weight": torch.zeros(2)}),
        ):
            for reduction in REDUCTIONS:
                ours, theirs = (torch.tensor(rows, requires_grad=True) for _ in range(2))
                found = gd_cross_entropy(
                    ours, torch.tensor(labels), 1.0, reduction=reduction, **options
                )
                expected = F.cross_entropy(
                    theirs, torch.tensor(labels), reduction=reduction, **options
                )
                found.sum().backward()
                expected.sum().backward()
                if -100 in labels or "weight" in options:  # PyTorch has NaN
                    theirs.grad.nan_to_num_(0.0)
                case = f"{rows} {labels} {reduction} {options}"
                torch.testing.assert_close(
                    found, expected, equal_nan=True, msg=lambda text, case=case: f"{case}: {text}"
                )
                torch.testing.assert_close(
                    ours.grad,
                    theirs.grad,
                    equal_nan=True,
                    msg=lambda text, case=case: f"{case}: {text}",
                )

    def test_memory_formats_and_views(self):
        values = torch.randn(2, 5, 4, 4, generator=torch.Generator().manual_seed(0))
        labels = torch.arange(32).reshape(2, 4, 4) % 5
        for z in (
            values.to(memory_format=torch.channels_last),
            values.transpose(2, 3),
            values[:1].expand(2, 5, 4, 4),
        ):
            ours, theirs = z.detach().requires_grad_(), z.detach().requires_grad_()
            gd_cross_entropy(ours, labels, 1.0).backward()
            F.cross_entropy(theirs, labels).backward()
            torch.testing.assert_close(ours.grad, theirs.grad)
            assert ours.grad.stride() == theirs.grad.stride()

    def test_uint8_indices(self):
        logits, target = draw((4, 5), soft=False)
        assert gd_cross_entropy(logits, target.to(torch.uint8), 0.3) == gd_cross_entropy(
            logits, target, 0.3
        )

    def test_masked_classes(self):
        logits, target = (
            torch.tensor([[0.5, -math.inf, 1.0]], dtype=torch.float64),
            torch.tensor([0]),
        )
        torch.testing.assert_close(
            gd_cross_entropy(logits, target, 1.0), F.cross_entropy(logits, target)
        )
        assert gd_cross_entropy(logits, target, 0.1).item() == pytest.approx(
            math.log(math.exp(0.5) + 0.1), abs=1e-12
        )


class TestAgainstTheDefinition:
    @settings(deadline=None, max_examples=200)
    @given(
        st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=6),
        st.integers(0, 5),
        st.floats(-6, 6),
        st.sampled_from([torch.float32, torch.float64]),
    )
    def test_any_logits_and_beta(self, logits, target, exponent, dtype):
        z, target, beta = torch.tensor(logits, dtype=dtype), target % len(logits), 10.0**exponent
        expected = exact([value.item() for value in z], target, beta)
        tolerance = 4e-6 if dtype is torch.float32 else 1e-13
        for given_target in (
            torch.tensor(target),
            F.one_hot(torch.tensor(target), len(logits)).to(dtype),
        ):
            found = gd_cross_entropy(z, given_target, beta=beta).item()
            if math.isfinite(found):
                assert abs(found - expected) <= tolerance * max(1.0, abs(expected))
            # a class without weight at a distance that float cannot hold: 0 times a finite number
            # is never reached here
            else:
                pytest.fail(f"not finite: {found}, expected {expected}")

    def test_soft_and_hard_agree_for_a_confident_class(self):
        for beta in [1e-6, 0.01, 0.5, 2.0, 100.0, 1e6]:
            # the largest class keeps the digits of 1 - p_c, which softmax has lost: here p_c = 1 -
            # 2e-9 in float32
            z = torch.tensor([[20.0, 0.0, -1.0]])
            hard = gd_cross_entropy(z, torch.tensor([0]), beta=beta)
            soft = gd_cross_entropy(z, torch.tensor([[1.0, 0.0, 0.0]]), beta=beta)
            assert hard.item() == pytest.approx(
                exact([20.0, 0.0, -1.0], 0, beta), rel=1e-6, abs=1e-6
            )
            torch.testing.assert_close(soft, hard, rtol=1e-6, atol=1e-6)

    def test_gradient_is_weighted_softmax_residual(self):
        for beta in [0.01, 1.0, 5.0]:
            # GD-1 eq. 11: w (p - e_c) with w = 1 / (1 + (β - 1) p_c)
            logits, target = draw((50, 5), soft=False)
            z = logits.clone().requires_grad_()
            gd_cross_entropy(z, target, beta=beta, reduction="sum").backward()
            p = torch.softmax(logits, 1)
            true = p.gather(1, target[:, None])
            expected = (p - F.one_hot(target, 5)) / (1 + (beta - 1) * true)
            torch.testing.assert_close(z.grad, expected, rtol=1e-12, atol=1e-14)


class TestExtremes:
    @pytest.mark.parametrize(
        ("dtype", "beta", "soft"),
        pairwise(
            [torch.float16, torch.bfloat16, torch.float32, torch.float64],
            [1e-6, 1.0, 1e6],
            [False, True],
        ),
    )
    def test_finite_value_and_gradient(self, dtype, beta, soft):
        z = torch.tensor(
            [[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0], [1e4, 1e4, 1e4]],
            dtype=dtype,
            requires_grad=True,
        )
        target = torch.tensor([0, 0, 1, 2])
        loss = gd_cross_entropy(
            z,
            torch.softmax(torch.eye(3)[target], 1).to(dtype) if soft else target,
            beta,
            reduction="none",
        )
        loss.float().sum().backward()
        assert loss.dtype == dtype
        assert torch.isfinite(loss).all()
        assert torch.isfinite(z.grad).all()


class TestArguments:
    def test_beta_for_each_sample(self):
        logits, target = draw((4, 5), soft=False)
        betas = torch.tensor([0.01, 0.1, 1.0, 5.0], dtype=torch.float64)
        together = gd_cross_entropy(logits, target, beta=betas, reduction="none")
        alone = torch.stack(
            [gd_cross_entropy(logits[i], target[i], betas[i].item()) for i in range(4)]
        )
        torch.testing.assert_close(together, alone, rtol=1e-13, atol=1e-13)

    def test_beta_broadcasts_to_the_indices(self):
        for shape in [(), (1,), (4,), (3, 1, 1), (3, 2, 1), (3, 2, 4)]:
            logits, target = draw((3, 5, 2, 4), soft=False)
            beta = (
                torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
                + 0.1
            )
            found = gd_cross_entropy(logits, target, beta=beta, reduction="none")
            for index in itertools.product(range(3), range(2), range(4)):
                alone = gd_cross_entropy(
                    logits[index[0], :, index[1], index[2]],
                    target[index],
                    beta.expand(3, 2, 4)[index].item(),
                )
                assert found[index].item() == pytest.approx(alone.item(), abs=1e-13)

    def test_beta_can_be_learnt(self):
        # dJ/dβ = p_c / (1 + (β - 1) p_c)
        logits, target = draw((1, 5), soft=False)
        beta = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
        gd_cross_entropy(logits, target, beta=beta).backward()
        p = torch.softmax(logits, 1)[0, target[0]].item()
        assert beta.grad.item() == pytest.approx(p / (1 + (0.2 - 1) * p), rel=1e-12)

    def test_temperature_for_each_sample(self):
        logits, target = draw((3, 5), soft=False)
        tau = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)
        torch.testing.assert_close(
            gd_cross_entropy(logits, target, 0.1, temperature=tau, reduction="none"),
            gd_cross_entropy(logits / tau[:, None], target, 0.1, reduction="none"),
        )

    def test_bad_beta(self):
        for beta, message in [
            (0, "finite number > 0"),
            (-1.0, "finite number > 0"),
            (math.nan, "finite number > 0"),
            (math.inf, "finite number > 0"),
            (True, "finite number > 0"),
            ("small", "number or a tensor"),
            ("0.3", "number or a tensor"),
            (None, "number or a tensor"),
            (torch.tensor([1.0, 2.0]), "broadcast"),
            (torch.ones(4, 1), "broadcast"),
            (torch.ones(1, 4), "broadcast"),
            (torch.tensor([1.0, 1.0, 0.0, 1.0]), "finite and > 0"),
            (torch.tensor([1.0, math.nan, 1.0, 1.0]), "finite and > 0"),
            (torch.ones(4, dtype=torch.complex64), "real"),
        ]:
            logits, target = draw((4, 5), soft=False)
            with pytest.raises(ValueError, match=message):
                gd_cross_entropy(logits, target, beta=beta)
            if not isinstance(beta, Tensor):
                with pytest.raises(ValueError, match="temperature"):
                    gd_cross_entropy(logits, target, temperature=beta)

    def test_bad_input(self):
        for change, message in (
            (
                {"input": torch.zeros(4, 5, dtype=torch.int64)},
                "float16, bfloat16, float32 or float64",
            ),
            (
                {"input": torch.zeros(4, 5, dtype=torch.complex64)},
                "float16, bfloat16, float32 or float64",
            ),
            ({"input": [[0.0] * 5] * 4}, "tensor of logits"),
            ({"input": torch.tensor(1.0)}, "class dimension"),
            ({"input": torch.zeros(4, 0)}, "no classes"),
            ({"target": [0, 1, 2, 3]}, "class indices or class probabilities"),
            ({"target": torch.zeros(3, dtype=torch.long)}, "does not fit"),
            ({"target": torch.zeros(4, 4)}, "does not fit"),
            ({"target": torch.zeros(4, 5, dtype=torch.long)}, "floating point"),
            ({"target": torch.zeros(4)}, "int64 or uint8"),
            ({"target": torch.zeros(4, dtype=torch.int32)}, "int64 or uint8"),
            ({"target": torch.tensor([0, 1, 2, 5])}, r"class index 5 lies outside \[0, 5\)"),
            ({"target": torch.tensor([0, 1, 2, -1])}, r"class index -1 lies outside \[0, 5\)"),
            (
                {"target": torch.tensor([0, 1, 2, 5]), "label_smoothing": 0.1},
                r"class index 5 lies outside \[0, 5\)",
            ),
            ({"weight": torch.ones(4)}, r"shape \[5\]"),
            ({"weight": torch.ones(5, dtype=torch.long)}, "floating"),
            ({"weight": [1.0] * 5}, "one factor for each class"),
            ({"reduction": "average"}, "'none', 'mean' or 'sum'"),
            ({"label_smoothing": 1.5}, r"\[0, 1\]"),
            ({"label_smoothing": -0.1}, r"\[0, 1\]"),
            ({"target": torch.full((4, 5), 0.2), "ignore_index": 3}, "needs class indices"),
        ):
            arguments = {
                "input": torch.zeros(4, 5),
                "target": torch.zeros(4, dtype=torch.long),
            } | change
            with pytest.raises(ValueError, match=message):
                gd_cross_entropy(**arguments)


class TestDerivativesAndTransforms:
    @pytest.mark.parametrize(
        ("soft", "label_smoothing", "weighted"), pairwise([False, True], [0.0, 0.1], [False, True])
    )
    def test_first_and_second_derivatives(self, soft, label_smoothing, weighted):
        logits, target = draw((4, 3, 2), soft)
        beta = torch.tensor([[0.3], [1.0], [2.0], [0.05]], dtype=torch.float64, requires_grad=True)
        weight = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64) if weighted else None

        def loss_fn(z: Tensor, b: Tensor) -> Tensor:
            return gd_cross_entropy(
                z, target, beta=b, weight=weight, label_smoothing=label_smoothing, temperature=1.3
            )

        z = logits.requires_grad_()
        assert torch.autograd.gradcheck(loss_fn, (z, beta))
        assert torch.autograd.gradgradcheck(loss_fn, (z, beta))

    def test_gradient_flows_into_class_probabilities(self):
        logits, target = draw((3, 4), soft=True)
        assert torch.autograd.gradcheck(
            lambda t: gd_cross_entropy(logits, t, 0.3), (target.requires_grad_(),)
        )

    # PyTorch's own, inside torch.func; a FutureWarning from 2.14 on
    @pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
    def test_hessian_is_that_of_the_shifted_softmax(self):
        logits, _ = draw((5,), soft=False)
        hessian = torch.func.hessian(lambda z: gd_cross_entropy(z, torch.tensor(2), 0.05))(logits)
        q = torch.softmax(logits + math.log(0.05) * F.one_hot(torch.tensor(2), 5).double(), 0)
        torch.testing.assert_close(
            hessian, torch.diag(q) - torch.outer(q, q), rtol=1e-12, atol=1e-14
        )

    @pytest.mark.parametrize("soft", [False, True])
    def test_compiled(self, soft):
        logits, target = draw((8, 5), soft)
        compiled = torch.compile(gd_cross_entropy, fullgraph=True, backend="aot_eager")
        for beta in (0.1, 0.2, 0.3, torch.full((8,), 0.1, dtype=torch.float64)):
            ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
            found, expected = (
                compiled(ours, target, beta=beta),
                gd_cross_entropy(theirs, target, beta=beta),
            )
            found.backward()
            expected.backward()
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(ours.grad, theirs.grad)


class TestGradientInForward:
    """The fast path of class indices: one array, made in the forward pass.

    Everything else is as if it were not there.
    """

    @pytest.mark.parametrize(
        ("classes", "reduction", "beta"),
        pairwise([1, 2, 5, 15, 16, 40, 1000], REDUCTIONS, [0.01, 1.0, 7.0]),
    )
    def test_many_and_few_classes_equal_the_shifted_cross_entropy(self, classes, reduction, beta):
        logits, target = draw((9, classes), soft=False)
        ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        found = gd_cross_entropy(ours, target, beta=beta, reduction=reduction)
        shifted = theirs + math.log(beta) * F.one_hot(target, classes).double()
        expected = F.cross_entropy(shifted, target, reduction=reduction) + math.log(beta) * (
            9 if reduction == "sum" else 1
        )
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        found.sum().mul(3).backward()
        expected.sum().mul(3).backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-11, atol=1e-14)

    def test_smoothed_labels_are_a_mixture_of_all_classes(self):
        for classes, beta in itertools.product([3, 40], [1e-3, 1.0, 79.0, 1e3]):
            logits, target = draw((9, classes), soft=False)
            logits[0, 1], logits[1, target[1]] = (
                60.0,
                40.0,
            )  # so that p = 1 in float32, of a wrong class and of the true one
            ours, wide = (
                (logits * 5).float().requires_grad_(),
                (logits * 5).float().double().requires_grad_(),
            )
            found = gd_cross_entropy(ours, target, beta, label_smoothing=0.2, reduction="none")
            parts = [
                gd_cross_entropy(wide, torch.full((9,), c), beta, reduction="none")
                for c in range(classes)
            ]
            of_each = torch.stack(parts, 1)
            expected = 0.8 * of_each.gather(1, target[:, None]).squeeze(1) + 0.2 * of_each.mean(1)
            torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
            found.sum().backward()
            expected.sum().backward()
            torch.testing.assert_close(ours.grad.double(), wide.grad, rtol=1e-5, atol=1e-7)

    def test_true_classes_far_behind(self):
        for classes in [10, 40]:
            for beta in [1e-6, 0.1, 1e6]:
                logits = torch.zeros(4, classes)
                logits[:, 1] = torch.tensor([50.0, 90.0, 1e3, 1e4])
                for reduction in REDUCTIONS:
                    z = logits.clone().requires_grad_()
                    found = gd_cross_entropy(
                        z, torch.zeros(4, dtype=torch.long), beta=beta, reduction=reduction
                    )
                    each = torch.tensor([exact(row.tolist(), 0, beta) for row in logits])
                    expected = {"none": each, "sum": each.sum(), "mean": each.mean()}[reduction]
                    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
                    found.sum().backward()
                    torch.testing.assert_close(
                        z.grad[2, :2] * (4 if reduction == "mean" else 1), torch.tensor([-1.0, 1.0])
                    )

    def test_the_graph_may_be_used_again(self):
        for reduction in REDUCTIONS:
            logits, target = draw((4, 5), soft=False)
            logits.requires_grad_()
            loss = gd_cross_entropy(logits, target, 0.1, reduction=reduction).sum()
            first = torch.autograd.grad(loss, logits, retain_graph=True)[0].clone()
            again = torch.autograd.grad(loss, logits, retain_graph=True, create_graph=True)[0]
            torch.testing.assert_close(again, first)
            hessian_row = torch.autograd.grad(again[0, 0], logits)[0][0]
            q = torch.softmax(
                logits.detach()[0] + math.log(0.1) * F.one_hot(target[0], 5).double(), 0
            )
            expected = (
                q[0] * (F.one_hot(torch.tensor(0), 5) - q) / (4 if reduction == "mean" else 1)
            )
            torch.testing.assert_close(hessian_row, expected)

    # PyTorch's own, inside forward mode; a FutureWarning from 2.14 on
    @pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
    def test_forward_mode(self):
        logits, target = draw((4, 5), soft=False)
        z = logits.clone().requires_grad_()
        gradient = torch.autograd.grad(gd_cross_entropy(z, target, 0.1), z)[0]
        direction = torch.randn(
            4, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64
        )
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(logits, direction)
            tangent = torch.autograd.forward_ad.unpack_dual(
                gd_cross_entropy(dual, target, 0.1)
            ).tangent
        torch.testing.assert_close(tangent, (gradient * direction).sum())

    def test_a_sample_does_not_depend_on_its_batch(self):
        for classes in [3, 10, 40]:
            for dtype in [torch.float32, torch.float64]:
                logits, target = draw((37, classes), soft=False)
                logits = (logits * 30).to(dtype)
                beta = torch.linspace(0.01, 3.0, 37)
                together = logits.clone().requires_grad_()
                losses = gd_cross_entropy(together, target, beta=beta, reduction="none")
                losses.sum().backward()
                for rows in (slice(0, 1), slice(5, 9), slice(20, 37)):
                    alone = logits[rows].clone().requires_grad_()
                    found = gd_cross_entropy(alone, target[rows], beta=beta[rows], reduction="none")
                    found.sum().backward()
                    assert torch.equal(found, losses[rows]) and torch.equal(
                        alone.grad, together.grad[rows]
                    )

    def test_blocks_of_samples_compute_what_the_whole_batch_does(self, monkeypatch):
        for shape, label_smoothing in itertools.product([(37, 40), (7, 20, 3)], [0.0, 0.1]):
            logits, target = draw(shape, soft=False)
            weight, beta = (
                torch.linspace(0.5, 2.0, shape[1], dtype=torch.float64),
                torch.linspace(0.01, 3.0, target.numel()).reshape(target.shape),
            )
            target.view(-1)[3] = -100
            results = []
            for block in [2**18, 5 * logits[0].numel(), 1]:
                monkeypatch.setattr(_fused, "_BLOCK", block)
                z = logits.clone().requires_grad_()
                loss = gd_cross_entropy(
                    z, target, beta=beta, weight=weight, label_smoothing=label_smoothing
                )
                loss.backward()
                results.append((loss.detach(), z.grad))
            for loss, gradient in results[1:]:
                assert torch.equal(loss, results[0][0]) and torch.equal(gradient, results[0][1])

    def test_one_array_of_the_size_of_the_logits(self):
        logits, target = draw((64, 100), soft=False)
        logits.requires_grad_()
        arrays: set[int] = set()

        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
                result = function(*arguments, **(keywords or {}))
                for tensor in result if isinstance(result, (tuple, list)) else [result]:
                    if (
                        isinstance(tensor, Tensor)
                        and tensor.untyped_storage().nbytes() >= logits.nbytes
                    ):
                        arrays.add(tensor.untyped_storage().data_ptr())
                return result

        with Watch():
            gd_cross_entropy(logits, target, 0.1).backward()
        assert arrays - {logits.untyped_storage().data_ptr()} == {
            logits.grad.untyped_storage().data_ptr()
        }

    def test_a_temperature_for_each_sample_beside_the_usual_call(self):
        logits, target = draw((3, 5), soft=False)
        found = gd_cross_entropy(
            logits.float(), target, 0.1, temperature=torch.tensor([1.0, 1.0, 1.0])
        )
        torch.testing.assert_close(found, gd_cross_entropy(logits.float(), target, 0.1))


class TestBfloat16ABlockAtATime:
    """Logits in bfloat16 are widened a block at a time; the results are those of float32 logits."""

    @pytest.mark.parametrize("shape", [(40, 20), (300, 1000), (3, 50, 7, 5), (1, 300_000)])
    @pytest.mark.parametrize("options", [{}, {"reduction": "none"}, {"weight": True}])
    def test_equals_float32(self, shape: tuple[int, ...], options: dict) -> None:
        generator = torch.Generator().manual_seed(0)
        logits = (3 * torch.randn(shape, generator=generator)).bfloat16()
        labels = torch.randint(0, shape[1], (shape[0], *shape[2:]), generator=generator)
        if "weight" in options:
            options = {"weight": torch.rand(shape[1], generator=generator) + 0.1}
        if len(labels) > 1:
            labels[0] = -100
        for one in (logits, logits.transpose(0, 1).contiguous().transpose(0, 1)):
            for beta in (0.01, 1.0, 7.0, 1e-30):
                half, wide = one.clone().requires_grad_(), one.float().requires_grad_()
                found = gd_cross_entropy(half, labels, beta, **options)
                expected = gd_cross_entropy(wide, labels, beta, **options)
                assert found.dtype == torch.bfloat16
                torch.testing.assert_close(found, expected.bfloat16(), rtol=2**-7, atol=0)
                above = torch.rand(found.shape, generator=generator)
                (slopes,) = torch.autograd.grad(found, half, above.bfloat16(), retain_graph=True)
                (wanted,) = torch.autograd.grad(expected, wide, above.bfloat16().float())
                torch.testing.assert_close(slopes, wanted.bfloat16(), rtol=2**-6, atol=1e-30)
                (again,) = torch.autograd.grad(found, half, above.bfloat16(), create_graph=True)
                torch.testing.assert_close(again, slopes, rtol=2**-6, atol=1e-30)

    def test_autocast_and_sure_samples(self) -> None:
        logits = torch.zeros(2, 20).bfloat16()
        logits[:, 0] = 200.0
        labels = torch.tensor([0, 1])
        found = gd_cross_entropy(logits, labels, 0.5, reduction="none")
        assert found.tolist() == [pytest.approx(math.log(0.5), rel=2**-8), 200.0]
        with torch.autocast("cpu", torch.bfloat16):
            loss = gd_cross_entropy(logits.requires_grad_(), labels, 0.5)
        assert loss.dtype == torch.float32
        assert torch.autograd.grad(loss, logits)[0].dtype == torch.bfloat16


class TestProperties:
    @settings(deadline=None, max_examples=60)
    @given(st.integers(0, 10_000), st.floats(-3, 3), st.floats(-50, 50))
    def test_shift_invariance(self, seed, exponent, shift):
        logits, target = draw((4, 5), soft=False, seed=seed)
        torch.testing.assert_close(
            gd_cross_entropy(logits + shift, target, 10**exponent),
            gd_cross_entropy(logits, target, 10**exponent),
        )

    @settings(deadline=None, max_examples=60)
    @given(st.integers(0, 10_000), st.permutations(range(5)), st.floats(-3, 3))
    def test_permutation_of_classes(self, seed, order, exponent):
        logits, target = draw((4, 5), soft=False, seed=seed)
        moved = torch.tensor([order.index(c) for c in target.tolist()])
        torch.testing.assert_close(
            gd_cross_entropy(logits[:, order], moved, 10**exponent),
            gd_cross_entropy(logits, target, 10**exponent),
        )

    @settings(deadline=None, max_examples=60)
    @given(st.integers(0, 10_000), st.floats(-4, 4), st.floats(0.01, 3))
    def test_increasing_in_beta_and_between_its_bounds(self, seed, exponent, step):
        logits, target = draw((4, 5), soft=False, seed=seed)
        low, high = 10.0**exponent, 10.0 ** (exponent + step)
        small, large = (
            gd_cross_entropy(logits, target, beta=beta, reduction="none") for beta in (low, high)
        )
        assert (small < large).all()
        assert (small > math.log(low)).all()
