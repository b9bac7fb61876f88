"""Values and gradients against 40 digits, from the formulas of the papers.

A loss is a function of the numbers of one sample, written out without a thought for rounding, and
its gradient is the difference quotient of that. Nothing here shares a line with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mpmath
import pytest
import torch
from mpmath import mpf
from torch import Tensor

from gdlib import calibration, functional

Numbers = Sequence[Any]
SAMPLES, CLASSES = 5, 4
NORM = 3.0  # of a class vector times that of the features


@pytest.fixture(autouse=True)
def forty_digits() -> Iterator[None]:
    with mpmath.workdps(40):
        yield


def p(z: Numbers, c: int) -> Any:
    return mpmath.exp(z[c]) / sum(mpmath.exp(one) for one in z)


def others(z: Numbers, c: int) -> list[Any]:
    return [one for i, one in enumerate(z) if i != c]


def with_true(z: Numbers, c: int, true: Any) -> Any:
    """The cross-entropy, with another true logit."""
    return -mpmath.log(mpmath.exp(true) / (mpmath.exp(true) + sum(map(mpmath.exp, others(z, c)))))


def lm(z: Numbers, c: int) -> Any:
    """Half of D(q, u) and D(u, q), which LM's eq. 8 shortens."""
    q = [mpmath.exp(one) / sum(map(mpmath.exp, others(z, c))) for one in others(z, c)]
    u = mpf(1) / len(q)
    both = sum(one * mpmath.log(one / u) + u * mpmath.log(u / one) for one in q)
    return -mpmath.log(p(z, c)) + mpf(0.3) * both / 2


def psi(theta: Any, m: int) -> Any:
    k = int(mpmath.floor(theta * m / mpmath.pi))
    return (-1) ** k * mpmath.cos(m * theta) - 2 * k


def arcface(x: Numbers, c: int) -> Any:
    angle = mpmath.acos(x[c]) + mpf(0.3)
    true = mpmath.cos(angle) if angle < mpmath.pi else x[c] - mpf(0.3) * mpmath.sin(mpf(0.3))
    return with_true([4 * one for one in x], c, 4 * true)


def lgm(d: Numbers, c: int) -> Any:
    return with_true([-one for one in d], c, -(1 + mpf(0.3)) * d[c]) + mpf(0.1) * d[c]


def hinge(z: Numbers, c: int) -> Any:
    return sum(max(mpf(0), one - z[c] + 1) for one in others(z, c)) / (CLASSES - 1)


# how a function of gdlib is called with the logits (cosines, distances) and labels, and its formula
LOGITS: dict[str, tuple[Callable[..., Tensor], Callable[[Numbers, int], Any]]] = {
    "gd_cross_entropy": (
        lambda z, y, **more: functional.gd_cross_entropy(z, y, 0.1, **more),
        lambda z, c: (
            -mpmath.log(
                mpmath.exp(z[c])
                / (sum(map(mpmath.exp, others(z, c))) + mpf(0.1) * mpmath.exp(z[c]))
            )
        ),
    ),
    "soft_margin_cross_entropy": (
        lambda z, y, **more: functional.soft_margin_cross_entropy(z, y, 0.7, **more),
        lambda z, c: with_true(z, c, z[c] - mpf(0.7)),
    ),
    "focal_cross_entropy": (
        lambda z, y, **more: functional.focal_cross_entropy(z, y, 2.0, **more),
        lambda z, c: -((1 - p(z, c)) ** 2) * mpmath.log(p(z, c)),
    ),
    "generalized_cross_entropy": (
        lambda z, y, **more: functional.generalized_cross_entropy(z, y, 0.7, **more),
        lambda z, c: (1 - p(z, c) ** mpf(0.7)) / mpf(0.7),
    ),
    "poly1_cross_entropy": (
        lambda z, y, **more: functional.poly1_cross_entropy(z, y, 2.0, **more),
        lambda z, c: -mpmath.log(p(z, c)) + 2 * (1 - p(z, c)),
    ),
    "multi_class_hinge": (functional.multi_class_hinge, hinge),
    "large_margin_cross_entropy": (functional.large_margin_cross_entropy, lm),
}
COSINES = {
    "arcface_cross_entropy": (
        lambda x, y, **more: functional.arcface_cross_entropy(x, y, 4.0, 0.3, **more),
        arcface,
    ),
    "cosface_cross_entropy": (
        lambda x, y, **more: functional.cosface_cross_entropy(x, y, 4.0, 0.25, **more),
        lambda x, c: with_true([4 * one for one in x], c, 4 * (x[c] - mpf(0.25))),
    ),
    "sphereface_cross_entropy": (
        lambda x, y, **more: functional.sphereface_cross_entropy(x, y, 4.0, 3, **more),
        lambda x, c: with_true([4 * one for one in x], c, 4 * psi(mpmath.acos(x[c]), 3)),
    ),
    "l_softmax_cross_entropy": (
        lambda x, y, **more: functional.l_softmax_cross_entropy(
            NORM * x, y, torch.full_like(x, NORM), 2, **more
        ),
        lambda x, c: with_true([3 * one for one in x], c, 3 * psi(mpmath.acos(x[c]), 2)),
    ),
    "arcgrad_cross_entropy": (
        lambda x, y, **more: functional.arcgrad_cross_entropy(x, y, 5.0, **more),
        lambda x, c: -mpmath.log(p([-5 * mpmath.acos(one) for one in x], c)),
    ),
}
DISTANCES = {
    "gaussian_mixture_cross_entropy": (
        lambda d, y, **more: functional.gaussian_mixture_cross_entropy(d, y, 0.3, 0.1, **more),
        lgm,
    ),
}


def batch(kind: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(SAMPLES, CLASSES, dtype=torch.float64, generator=generator)
    values = {"cosines": values.tanh(), "distances": values.square(), "logits": 3 * values}[kind]
    return values.requires_grad_(), torch.tensor([0, 1, 2, 3, 1])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind, every in (("logits", LOGITS), ("cosines", COSINES), ("distances", DISTANCES))
        for name in every
    ],
)
def test_a_loss_and_its_gradient_are_those_of_the_formula(kind: str, name: str) -> None:
    function, formula = (LOGITS | COSINES | DISTANCES)[name]
    values, labels = batch(kind)
    weight = torch.tensor([1.0, 0.5, 2.0, 0.25], dtype=torch.float64)
    rows = [[mpf(one) for one in row] for row in values.tolist()]
    exact = [formula(row, c) for row, c in zip(rows, labels.tolist(), strict=True)]
    found = function(values, labels, reduction="none")
    assert found.tolist() == pytest.approx([float(one) for one in exact], rel=1e-13, abs=1e-15)

    used = [mpf(weight[c].item()) for c in labels.tolist()]
    mean = function(values, labels, weight=weight)
    exact_mean = sum(a * b for a, b in zip(used, exact, strict=True)) / sum(used)
    assert mean.item() == pytest.approx(float(exact_mean), rel=1e-13)

    (gradient,) = torch.autograd.grad(found.sum(), values)
    step = mpf(10) ** -14
    for row, c, found_row in zip(rows, labels.tolist(), gradient.tolist(), strict=True):
        for i, one in enumerate(row):
            moved = [formula([*row[:i], one + sign * step, *row[i + 1 :]], c) for sign in (1, -1)]
            exact_slope = (moved[0] - moved[1]) / (2 * step)
            assert found_row[i] == pytest.approx(float(exact_slope), rel=1e-11, abs=1e-13)


def probabilities() -> tuple[Tensor, Tensor, list[list[Any]]]:
    generator = torch.Generator().manual_seed(4)
    logits = 2 * torch.randn(60, CLASSES, dtype=torch.float64, generator=generator)
    labels = torch.randint(0, CLASSES, (60,), generator=generator)
    probs = logits.softmax(1)
    return probs, labels, [[mpf(one) for one in row] for row in probs.tolist()]


def gaps(values: Numbers, right: Sequence[bool], bins: int) -> list[tuple[int, Any, Any]]:
    """The number, the mean value and the share that is right of each bin (lo, hi]."""
    found = []
    for b in range(bins):
        inside = [i for i, one in enumerate(values) if mpf(b) / bins < one <= mpf(b + 1) / bins]
        if inside:
            mean = sum(values[i] for i in inside) / len(inside)
            found.append((len(inside), mean, mpf(sum(right[i] for i in inside)) / len(inside)))
    return found


def test_calibration_errors_are_those_of_the_formulas() -> None:
    probs, labels, rows = probabilities()
    confidence = [max(row) for row in rows]
    right = [row.index(max(row)) == c for row, c in zip(rows, labels.tolist(), strict=True)]
    bins, n = gaps(confidence, right, 10), len(rows)
    exact = {
        calibration.expected_calibration_error: sum(k * abs(a - m) for k, m, a in bins) / n,
        calibration.maximum_calibration_error: max(abs(a - m) for _, m, a in bins),
        calibration.classwise_calibration_error: sum(
            k * abs(a - m)
            for c in range(CLASSES)
            for k, m, a in gaps([row[c] for row in rows], (labels == c).tolist(), 10)
        )
        / (n * CLASSES),
        calibration.debiased_calibration_error: mpmath.sqrt(
            max(
                mpf(0),
                sum(k * ((a - m) ** 2 - a * (1 - a) / (k - 1)) for k, m, a in bins if k > 1) / n,
            )
        ),
        calibration.negative_log_likelihood: -sum(
            mpmath.log(row[c]) for row, c in zip(rows, labels.tolist(), strict=True)
        )
        / n,
        calibration.brier_score: sum(
            (one - (i == c)) ** 2
            for row, c in zip(rows, labels.tolist(), strict=True)
            for i, one in enumerate(row)
        )
        / n,
    }
    for measure, value in exact.items():
        assert measure(probs, labels) == pytest.approx(float(value), rel=1e-12), measure.__name__


@pytest.mark.parametrize("beta", [1e-3, 0.1, 5.0])
def test_the_link_is_where_the_expected_loss_is_least(beta: float) -> None:
    """Against probabilities π of the labels, logits p are best where no slope is left."""
    probs, _, rows = probabilities()
    linked = calibration.beta_link(probs, beta)
    for rounded, found in zip(rows[:5], linked.tolist(), strict=False):
        row = [one / sum(rounded) for one in rounded]
        raw = [one * (1 + (mpf(beta) - 1) * one) for one in row]
        pi = [one / sum(raw) for one in raw]
        assert found == pytest.approx([float(one) for one in pi], rel=1e-12)
        z = [mpmath.log(one) for one in row]

        def expected(z: Numbers, pi: Numbers = tuple(pi)) -> Any:
            each = [
                -mpmath.log(p(z, c)) + mpmath.log(1 + (mpf(beta) - 1) * p(z, c))
                for c in range(CLASSES)
            ]
            return sum(a * b for a, b in zip(pi, each, strict=True))

        for i in range(CLASSES):
            step = mpf(10) ** -12
            up, down = (expected([*z[:i], z[i] + sign * step, *z[i + 1 :]]) for sign in (1, -1))
            assert abs((up - down) / (2 * step)) < 1e-20


def test_the_temperature_is_where_the_likelihood_has_no_slope() -> None:
    probs, labels, _ = probabilities()
    logits = 3 * probs.log()
    scaling = calibration.TemperatureScaling().fit(logits, labels)

    def nll(inverse: Any) -> Any:
        rows = [[mpf(one) * inverse for one in row] for row in logits.tolist()]
        return -sum(
            mpmath.log(p(row, c)) for row, c in zip(rows, labels.tolist(), strict=True)
        ) / len(rows)

    best, step = 1 / mpf(scaling.temperature), mpf(10) ** -12
    slope = (nll(best + step) - nll(best - step)) / (2 * step)
    curvature = (nll(best + step) - 2 * nll(best) + nll(best - step)) / step**2
    assert abs(slope / curvature / best) < 1e-9 and scaling.temperature != 1.0
