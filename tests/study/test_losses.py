"""Every loss of the table.

What it minimises, what its probabilities are, what it remembers, and what is refused.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib import functional
from study.losses import LOSSES, parse
from study.methods import method_name
from study.networks import MLP_HEADS
from study.objective import CORRECTIONS, Balanced, StackLoss

CLASSES, WIDTH = 4, 6
LABELS = torch.tensor([[0, 1, 2, 3, 0], [3, 3, 1, 0, 2]])
NUMBERS = {
    **dict.fromkeys(("label-smoothing", "lm", "lm-qu", "lm-uq", "modified-lm", "m-softmax"), "0.3"),
    **{
        "gd": "0.1",
        "center": "0.02",
        "l-softmax": "2",
        "a-softmax": "4",
        "lgm": "0.3 0.1",
        "arcface": "20 0.1",
    },
    **{"guarded-adacos": "0.98", "arcgrad": "10", "gce": "0.7", "poly1": "1", "focal": "2"},
    **dict.fromkeys(CORRECTIONS, "0.1"),
}
TEXTS = [
    f"{name} {NUMBERS.get(name, '')}".strip()
    for name, kind in LOSSES.items()
    if kind.head in MLP_HEADS
]
BETA = torch.ones(2)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def outputs(text: str) -> Tensor:
    """What a last layer of the right kind could give, for two runs of five samples."""
    chosen = parse(text).kind
    values = draw(2, 5, CLASSES)
    if chosen.head == "cosine":
        values = torch.tanh(values)
    return torch.cat([values, draw(2, 5, WIDTH, seed=1)], 2) if chosen.with_features else values


def loss_of(text: str) -> StackLoss:
    return StackLoss(parse(text), CLASSES, runs=2, features=WIDTH)


def of_every_run(loss, *arguments: Tensor, **options) -> Tensor:
    """A loss of gdlib.functional, run by run."""
    runs = zip(*arguments, LABELS, strict=True)
    return torch.stack(
        [loss(values, labels, *rest, reduction="none", **options) for values, *rest, labels in runs]
    )


class TestAgainstTheFunctions:
    def test_losses_of_single_samples(self, subtests):
        for text, loss, options in [
            ("softmax", F.cross_entropy, {}),
            ("label-smoothing 0.3", F.cross_entropy, {"label_smoothing": 0.3}),
            ("hinge", functional.multi_class_hinge, {}),
            ("modified", functional.soft_margin_cross_entropy, {"margin": 1.0}),
            ("gd 0.1", functional.gd_cross_entropy, {"beta": 0.1}),
            ("gce 0.7", functional.generalized_cross_entropy, {"q": 0.7}),
            ("poly1 -0.5", functional.poly1_cross_entropy, {"epsilon": -0.5}),
            ("negative-probability", functional.negative_probability, {}),
            ("lm 0.3", functional.large_margin_cross_entropy, {"reg_lambda": 0.3}),
            (
                "lm-qu 0.3",
                functional.large_margin_cross_entropy,
                {"reg_lambda": 0.3, "divergence": "q_u"},
            ),
            (
                "lm-uq 0.3",
                functional.large_margin_cross_entropy,
                {"reg_lambda": 0.3, "divergence": "u_q"},
            ),
            (
                "modified-lm 0.3",
                functional.large_margin_cross_entropy,
                {"reg_lambda": 0.3, "margin": 1.0},
            ),
            ("m-softmax 0.5", functional.soft_margin_cross_entropy, {"margin": 0.5}),
            ("arcface 20 0.1", functional.arcface_cross_entropy, {"scale": 20.0, "margin": 0.1}),
            ("arcgrad 10", functional.arcgrad_cross_entropy, {"scale": 10.0}),
        ]:
            with subtests.test(text):
                given = outputs(text)
                expected = of_every_run(loss, given, **options)
                torch.testing.assert_close(loss_of(text)(given, LABELS, BETA), expected)

    def test_the_margin_comes_in_with_the_steps(self):
        given, loss = outputs("a-softmax 4"), loss_of("a-softmax 4")
        cosines, lengths = given[..., :CLASSES], given[..., CLASSES:].norm(dim=2)
        for step, annealing in ((0, 1500.0), (1, 1500 / 1.1), (2, 1500 / 1.2), (10**6, 5.0)):
            if step > 2:  # long after: the weight of the plain cosine is 5 and stays
                assert int(loss.loss.steps) == 3
                loss.loss.steps.fill_(step)
            expected = of_every_run(
                lambda values, labels, length, weight=annealing, **options: (
                    functional.sphereface_cross_entropy(
                        values, labels, scale=length, margin=4, annealing=weight, **options
                    )
                ),
                cosines,
                lengths,
            )
            torch.testing.assert_close(loss(given, LABELS, BETA), expected)

    def test_center_loss_step_by_step(self):
        generator = torch.Generator().manual_seed(1)
        loss_fn = StackLoss(parse("center 0.02"), 3, runs=2, features=5)
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

    def test_adacos_sets_its_scale_batch_by_batch_and_run_by_run(self):
        given, loss = outputs("adacos"), loss_of("adacos")
        scale = torch.full((2,), math.sqrt(2) * math.log(CLASSES - 1))
        for _ in range(2):
            scale = functional.adacos_scale(given, LABELS, scale)
            torch.testing.assert_close(
                loss(given, LABELS, BETA),
                of_every_run(F.cross_entropy, scale[:, None, None] * given),
            )
        assert scale[0] != scale[1]
        guarded = loss_of("guarded-adacos 5")
        guarded(outputs("adacos"), LABELS, BETA)
        assert (guarded.loss.scale >= 5).all()

    def test_adacos_learns_nothing_from_two_classes_unless_guarded(self):
        cosine = torch.rand(1, 6, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
        labels = torch.tensor([[0, 1, 0, 1, 1, 0]])
        StackLoss(parse("adacos"), 2)(cosine, labels, torch.ones(1)).sum().backward()
        assert cosine.grad is not None and torch.equal(cosine.grad, torch.zeros_like(cosine))
        StackLoss(parse("guarded-adacos 0.98"), 2)(cosine, labels, torch.ones(1)).sum().backward()
        assert cosine.grad.abs().max() > 0.01


REMEMBER = ("center", "a-softmax", "adacos", "guarded-adacos")


class TestMemory:
    def test_what_is_remembered_is_in_the_state(self, subtests):
        for text in TEXTS:
            with subtests.test(text):
                given, loss = outputs(text), loss_of(text)
                loss(given, LABELS, BETA)
                loss(given.flip(1), LABELS, BETA)
                other = loss_of(text)
                other.load_state_dict(loss.state_dict())
                assert bool(loss.state_dict()) == (text.split()[0] in REMEMBER)
                assert torch.equal(loss(given, LABELS, BETA), other(given, LABELS, BETA))


def by_hand(
    logits: Tensor, labels: Tensor, betas: list[float], shift: Tensor, weights: list[float]
) -> list[float]:
    """Gradient decay from its definition, sample by sample.

    Each sample has the β and the weight of its class.
    """
    losses = []
    for row, c in zip((logits + shift).double().exp(), labels.tolist(), strict=True):
        losses.append(weights[c] * float(((betas[c] * row[c] + row.sum() - row[c]) / row[c]).log()))
    return losses


def minimiser(loss: Balanced, posterior: Tensor) -> Tensor:
    """The logits with the smallest expected loss."""
    logits = torch.zeros_like(posterior, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=300, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        of_class = [loss(logits, torch.full((len(logits),), c)) for c in range(logits.shape[1])]
        total = (posterior * torch.stack(of_class, 1)).sum()
        total.backward()
        return total

    optimizer.step(closure)
    return logits.detach()


class TestUnequalClasses:
    COUNTS = torch.tensor([60, 30, 10])

    def test_corrections_from_their_definitions(self, subtests):
        logits, labels, log_shares = draw(2, 5, 3), LABELS.clamp(max=2), (self.COUNTS / 100).log()
        for text, betas, shift, weights in [
            ("class-beta 0.5", [8.0, 3.5, 0.5], 0 * log_shares, [1, 1, 1]),  # 1 + β is 9, 4.5, 1.5
            ("adjusted 0.5", [0.5] * 3, log_shares, [1, 1, 1]),
            (
                "weighted 0.5",
                [0.5] * 3,
                0 * log_shares,
                [100 / 180, 100 / 90, 100 / 30],
            ),  # 1 in the mean over the training samples
        ]:
            with subtests.test(text):
                found = StackLoss(parse(text), 3, runs=2, counts=self.COUNTS)(logits, labels)
                expected = [
                    by_hand(of_run, own, betas, shift, weights)
                    for of_run, own in zip(logits, labels, strict=True)
                ]
                torch.testing.assert_close(found, torch.tensor(expected))

    def test_the_perfect_minimiser_decides_for_the_largest_posterior_over_share(self, subtests):
        posterior = torch.from_numpy(np.random.default_rng(0).dirichlet([1.0] * 3, size=200))
        shares = (self.COUNTS / 100).double()
        best = (posterior / shares).argmax(1)
        for name, beta in (
            ("", 0.1),
            ("class-beta", 0.1),
            ("adjusted", 0.1),
            ("adjusted", 1.0),
            ("weighted", 0.1),
        ):
            with subtests.test(name, beta=beta):
                loss = Balanced(name, beta, self.COUNTS).double()
                logits = minimiser(loss, posterior)
                assert (loss.decide(logits) == best).double().mean() > 0.98
                if (name, beta) in (
                    ("", 0.1),
                    ("class-beta", 0.1),
                    ("adjusted", 0.1),
                ):  # the largest logit is another class
                    assert (logits.argmax(1) == best).double().mean() < 0.98


WRONG_TEXTS = {
    "arcgrid 5": "'arcgrid 5'; did you mean 'arcgrad'[?]; valid: softmax, label-smoothing lambda",
    "": "unknown loss ''",
    "lm": r"lm has 1 number \(lambda\); got 0",
    "arcface 20": r"arcface has 2 numbers \(scale, margin\); got 1",
    "arcgrad ten": "scale: 'ten' is no number; write it as 0.3",
    "arcgrad 0": "loss 'arcgrad 0': scale: Input should be greater than 0; got 0",
    "arcgrad inf": "scale: Input should be a finite number; got inf",
    "l-softmax 2.5": "margin: Input should be a valid integer.*; got 2.5",
    "a-softmax 0": "margin: Input should be greater than or equal to 1; got 0",
    "lm -1": "lambda: Input should be greater than or equal to 0; got -1",
    "arcface nan 0.1": "scale: Input should be a finite number; got nan",
    "arcface 20 -0.1": "margin: Input should be greater than or equal to 0; got -0.1",
    "label-smoothing 5": "lambda: Input should be less than or equal to 1; got 5",
    "m-softmax nan": "margin: Input should be a finite number; got nan",
    "gd 0": "beta: Input should be greater than 0; got 0",
    "guarded-adacos -1": "smallest scale: Input should be greater than 0; got -1",
    "lgm 0.3 -1": "lambda: Input should be greater than or equal to 0; got -1",
    "center -0.1": "lambda: Input should be greater than or equal to 0; got -0.1",
}


@pytest.mark.parametrize("text", WRONG_TEXTS)
def test_wrong_texts_are_refused(text):
    with pytest.raises(ValueError, match=WRONG_TEXTS[text]):
        parse(text)


def test_the_table_names_what_there_is():
    for name, kind in LOSSES.items():
        text = f"{name} {NUMBERS.get(name, '')}".strip()
        assert kind.title and kind.color.startswith("#")
        assert method_name(text).startswith(kind.title) and "must" not in method_name(text)
