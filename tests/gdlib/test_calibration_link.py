"""The β link held to what it claims.

It is the minimiser of the expected loss; tested are also its inverse, and what both keep.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from scipy import optimize

from gdlib.calibration import beta_for_confidence, beta_link, inverse_beta_link

BETAS = [1e-6, 1e-3, 0.01, 0.1, 0.4999, 0.5, 0.7, 1.0, 2.0, 5.0, 50.0, 1e6]


def simplex(n: int, c: int, seed: int, concentration: float = 1.0) -> torch.Tensor:
    """Random probabilities, float64."""
    return torch.from_numpy(np.random.default_rng(seed).dirichlet([concentration] * c, size=n))


class TestBetaLink:
    @pytest.mark.parametrize("beta", [0.05, 0.5, 3.0, 20.0])
    def test_is_the_minimiser_of_the_expected_loss(self, beta: float) -> None:
        """For true probabilities π, minimise E[J] over the logits.

        The link of the softmax that is found is π, and the inverse link finds it.
        """
        for pi in simplex(5, 4, seed=0).numpy():

            def expected_loss(free: np.ndarray, pi: np.ndarray = pi) -> float:
                z = np.append(free, 0.0)
                log_p = z - np.logaddexp.reduce(z)
                return float(pi @ (-log_p + np.log1p((beta - 1) * np.exp(log_p))))

            z = np.append(
                optimize.minimize(expected_loss, np.zeros(3), options={"gtol": 1e-8}).x, 0.0
            )
            softmax = np.exp(z) / np.exp(z).sum()
            np.testing.assert_allclose(beta_link(softmax, beta), pi, atol=1e-5)
            np.testing.assert_allclose(inverse_beta_link(pi, beta), softmax, atol=1e-4)

    def test_round_trips(self) -> None:
        for concentration in (0.05, 1.0, 50.0):
            pi = simplex(300, 5, seed=1, concentration=concentration)
            for beta in BETAS:
                torch.testing.assert_close(
                    beta_link(inverse_beta_link(pi, beta), beta), pi, rtol=0, atol=1e-9
                )

    @pytest.mark.parametrize("beta", [1e-300, 1e-30, 1e-16, 1e-12, 1e12, 1e30, 1e300])
    def test_are_inverse_for_every_beta_that_a_number_can_be(self, beta: float) -> None:
        """1 - p_m is of the size of β; rounded away it once gave 0.77 for 0.7."""
        pi = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]], dtype=torch.float64)
        back = beta_link(inverse_beta_link(pi, beta), beta)
        torch.testing.assert_close(back, pi, rtol=1e-13, atol=0)

    @pytest.mark.parametrize("beta", BETAS)
    def test_keeps_the_order_of_the_classes_the_corners_and_the_centre(self, beta: float) -> None:
        p, fixed = (
            simplex(300, 6, seed=3),
            torch.tensor([[1.0, 0, 0], [0, 0, 1.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64),
        )
        for link in (beta_link, inverse_beta_link):
            image = link(p, beta)
            torch.testing.assert_close(image.sum(-1), torch.ones(300, dtype=torch.float64))
            assert (image >= 0).all()
            assert (image.gather(-1, p.argsort(-1)).diff(dim=-1) >= -1e-12).all()
            torch.testing.assert_close(link(fixed, beta), fixed)
        if 0.01 <= beta <= 100:
            torch.testing.assert_close(
                inverse_beta_link(beta_link(p, beta), beta), p, rtol=0, atol=1e-9
            )

    def test_direction(self) -> None:
        """β < 1 trains the softmax sharper than the truth: the link flattens it."""
        p = torch.tensor([0.9, 0.1])
        assert beta_link(p, 0.1)[0] < 0.9 < beta_link(p, 10.0)[0]
        assert inverse_beta_link(p, 10.0)[0] < 0.9 < inverse_beta_link(p, 0.1)[0]
        torch.testing.assert_close(beta_link(p, 1.0), p)

    @pytest.mark.parametrize("link", [beta_link, inverse_beta_link])
    def test_kind_and_type_are_kept(self, link) -> None:
        assert link(torch.tensor([0.5, 0.5], dtype=torch.float16), 0.5).dtype == torch.float16
        array = link(np.float32([[0.25, 0.75]]), 0.5)
        assert isinstance(array, np.ndarray) and array.dtype == np.float32 and array.shape == (1, 2)
        assert isinstance(link([0.25, 0.75], 0.5), np.ndarray)

    def test_a_beta_for_each_run(self) -> None:
        p = simplex(6, 3, seed=4).reshape(2, 3, 3)  # [R, N, C]
        stacked = beta_link(p, torch.tensor([[0.1], [3.0]]), dim=-1)
        torch.testing.assert_close(stacked[0], beta_link(p[0], 0.1), rtol=1e-6, atol=0)
        torch.testing.assert_close(stacked[1], beta_link(p[1], 3.0))
        backwards = inverse_beta_link(stacked, torch.tensor([[0.1], [3.0]]), dim=-1)
        torch.testing.assert_close(backwards, p)

    def test_gradient(self) -> None:
        logits = torch.randn(
            3,
            4,
            dtype=torch.float64,
            generator=torch.Generator().manual_seed(0),
            requires_grad=True,
        )
        assert torch.autograd.gradcheck(lambda z: beta_link(z.softmax(-1), 0.2), logits)

    def test_no_cancellation_near_one(self) -> None:
        """1 + (β − 1) p in float32 would lose six digits here; (1 − p) + β p does not."""
        p = torch.tensor([1 - 2.0**-20, 2.0**-20])
        f = [
            Fraction(float(x)) * (1 - Fraction(float(x)) + Fraction(1, 10**6) * Fraction(float(x)))
            for x in p
        ]
        torch.testing.assert_close(beta_link(p, 1e-6), torch.tensor([float(x / sum(f)) for x in f]))

    @pytest.mark.parametrize(
        ("probs", "beta", "message"),
        [
            ([0.5, 0.5], 0.0, "positive, not 0.0"),
            ([0.5, 0.5], math.nan, "finite and positive"),
            ([0.5, 0.5], math.inf, "finite and positive"),
            ([0.5, 0.6], 0.5, "sum to 1"),
            ([], 0.5, "empty"),
            ([[0.5, 0.5]], torch.ones(3), r"\[3\] must broadcast to \[1\]"),
            ([[0.5, 0.5], [1.0, 0.0]], torch.ones(3), r"\[3\] must broadcast to \[2\]"),
        ],
    )
    def test_errors(self, probs, beta, message: str) -> None:
        for link in (beta_link, inverse_beta_link):
            with pytest.raises(ValueError, match=message):
                link(probs, beta)


class TestDigits:
    def test_a_probability_that_was_rounded_to_1_has_its_rest_from_the_other_classes(self):
        exact = torch.softmax(torch.tensor([[0.0, 16.0, 1.0]], dtype=torch.float64), 1)
        for beta in (1e-3, 1e-6):
            rest = exact.sum() - exact[0, 1]
            weighted = exact * (1 - exact + beta * exact)
            weighted[0, 1] = exact[0, 1] * (rest + beta * exact[0, 1])
            expected = weighted / weighted.sum()
            found = beta_link(exact.float(), beta)
            torch.testing.assert_close(found.double(), expected, rtol=3e-7, atol=0)

    def test_the_inverse_holds_for_every_beta(self):
        pi = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
        limit = pi.sqrt() / pi.sqrt().sum()  # of the most concave link
        for beta in (1e90, 1e120, 1e155, 1e200, 1e300):
            found = inverse_beta_link(pi, beta)
            torch.testing.assert_close(found, limit, rtol=1e-12, atol=0)
            torch.testing.assert_close(beta_link(found, beta), pi, rtol=1e-12, atol=0)


def exact_confidence(pi: list[float], beta: mpmath.mpf) -> mpmath.mpf:
    """The confidence of the minimiser to 60 digits, by bisection in the odds of its top class.

    With m the most probable class and x = p_m (1 + (β − 1) p_m), every other p_c is the smaller
    root of p_c (1 + (β − 1) p_c) = x π_c / π_m.
    """
    top = max(range(len(pi)), key=pi.__getitem__)
    ratios = [mpmath.mpf(one) / pi[top] for c, one in enumerate(pi) if c != top]
    b = beta - 1
    low, high = -mpmath.log(len(pi)), mpmath.mpf(200)  # log-odds
    for _ in range(210):
        middle = (low + high) / 2
        p, rest = 1 / (1 + mpmath.exp(-middle)), 1 / (1 + mpmath.exp(middle))
        x = p * (1 + b * p)
        roots = [2 * x * r / (1 + mpmath.sqrt(max(0, 1 + 4 * b * x * r))) for r in ratios]
        low, high = (low, middle) if sum(roots) > rest else (middle, high)
    return 1 / (1 + mpmath.exp(-low))


def exact_mean(pi: torch.Tensor, beta: float) -> mpmath.mpf:
    rows = [exact_confidence(row, mpmath.mpf(beta)) for row in pi.tolist()]
    return sum(rows) / len(rows)


def nearly_level(away: float) -> torch.Tensor:
    """Two classes, and three of which two are nearly level: what rounding harms most."""
    pair = [0.5 + away, 0.5 - away]
    return torch.tensor([[*pair, 0.0], [0.45 + away, 0.45 - away, 0.1]], dtype=torch.float64)


class TestBetaForConfidence:
    @pytest.mark.parametrize("beta", [1e-7, 0.07, 1.0, 1e5])
    def test_the_exact_beta_lies_between_the_two(self, beta: float) -> None:
        """By the mean confidence at both to 60 digits, which falls with β."""
        with mpmath.workdps(60):
            for pi in (simplex(2, 4, seed=5), nearly_level(1e-3)):
                pi = pi / pi.sum(1, keepdim=True)
                wanted = float(exact_mean(pi, beta))
                found = beta_for_confidence(pi, wanted)
                assert found.lower < found.beta < found.upper
                assert exact_mean(pi, found.lower) > wanted > exact_mean(pi, found.upper)
                assert found.upper / found.lower < 1 + 1e-8 + 1e-8 / beta

    @pytest.mark.parametrize("away", [0.0, 1e-12, 1e-6, 1e-3])
    def test_the_rounding_that_is_allowed_for_is_four_times_what_is_seen(self, away: float) -> None:
        with mpmath.workdps(60):
            for beta in (1e-8, 1e-6, 1e-3, 1.0, 1e8):
                for row in nearly_level(away):
                    exact = exact_confidence(row.tolist(), mpmath.mpf(beta))
                    error = abs(mpmath.mpf(float(inverse_beta_link(row, beta).max())) - exact)
                    assert 4 * error <= 4 * 2.0**-52 * (1 + 1 / beta), (beta, row)

    def test_half_of_the_log_odds_remain(self) -> None:
        pi = torch.tensor([[0.9, 0.1]], dtype=torch.float64)
        found = beta_for_confidence(pi, 0.75 + 1e-7)  # √0.9 / (√0.9 + √0.1) = 3/4
        assert found.beta > 1e5
        with pytest.raises(
            ValueError, match=r"between 0\.75 \(beta = 1e\+08\) and 1 .*it is 0\.74"
        ):
            beta_for_confidence(pi, 0.74)

    @pytest.mark.parametrize("wanted", [0.1, 0.75, 1.0, 2.0, math.nan, -math.inf])
    def test_what_no_beta_attains(self, wanted: float) -> None:
        with pytest.raises(ValueError, match=f"which these probs attain; it is {wanted}"):
            beta_for_confidence([[0.9, 0.1], [0.9, 0.1]], wanted)

    @pytest.mark.parametrize("probs", [[[0.25] * 4], [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]])
    def test_rows_without_a_choice(self, probs) -> None:
        mean = np.max(probs, 1).mean()
        with pytest.raises(ValueError, match=f"does not depend on beta.* it is {mean:g}"):
            beta_for_confidence(probs, 0.3)

    def test_uniform_rows_among_others_are_no_obstacle(self) -> None:
        pi = torch.tensor([[0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
        found = beta_for_confidence(pi, (0.5 + 0.95) / 2)
        assert found.lower < 152 / 352 < found.upper

    def test_any_shape_and_kind(self) -> None:
        pi = simplex(6, 3, seed=7)
        alone = beta_for_confidence(pi, 0.8)
        for stacked, dim in ((pi.reshape(2, 3, 3), -1), (pi.reshape(2, 3, 3).mT, None)):
            found = beta_for_confidence(stacked, 0.8, dim=dim)
            assert found.beta == pytest.approx(alone.beta)
        assert beta_for_confidence(pi.numpy(), 0.8) == alone

    def test_what_are_no_probabilities(self) -> None:
        with pytest.raises(ValueError, match="sum to 1"):
            beta_for_confidence([0.5, 0.6], 0.7)


@pytest.mark.parametrize("link", [beta_link, inverse_beta_link])
def test_under_vmap_over_samples_and_over_beta(link):
    probs = torch.softmax(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), 1)
    betas = torch.tensor([0.01, 0.1, 1.0, 10.0, 1e200], dtype=torch.float64)
    rows = torch.func.vmap(link, in_dims=(0, 0))(probs, betas)
    torch.testing.assert_close(rows, link(probs, betas))
    torch.testing.assert_close(torch.func.vmap(lambda row: link(row, 0.1))(probs), link(probs, 0.1))
