"""Every loss of an experiment.

What it minimises, what its probabilities are, what it remembers, and what is refused.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gdlib import functional
from study import data, records
from study.experiment import CrossValidation
from study.losses import LOSSES, parse
from study.methods import method_name
from study.networks import HEADS
from study.objective import CORRECTIONS, Balanced, StackLoss
from study.run import train_stack, training
from tests.study.small import small_train

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
TEXTS = [f"{name} {NUMBERS.get(name, '')}".strip() for name in LOSSES]
BETA = torch.ones(2)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def outputs(text: str) -> Tensor:
    """What a last layer of the right kind could give, for two runs of five samples."""
    chosen = parse(text).kind
    values = draw(2, 5, CLASSES)
    if chosen.head == "cosine":
        values = torch.tanh(values)
    elif chosen.head == "gaussian":
        values = -values.square()
    elif chosen.head == "normed":
        values = torch.cat([values, values.abs() + 1], 2)
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
            ("super-symmetry", F.cross_entropy, {}),
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
            (
                "lgm 0.3 0.1",
                functional.gaussian_mixture_cross_entropy,
                {"margin": 0.3, "likelihood_weight": 0.1},
            ),
        ]:
            with subtests.test(text):
                given = outputs(text)
                expected = of_every_run(
                    loss, -given if text.startswith("lgm") else given, **options
                )
                torch.testing.assert_close(loss_of(text)(given, LABELS, BETA), expected)

    def test_the_margin_comes_in_with_the_steps(self, subtests):
        for name in ("l-softmax", "a-softmax"):
            with subtests.test(name):
                self.hold_margin(name)

    def hold_margin(self, name: str) -> None:
        given, loss = outputs(f"{name} 4"), loss_of(f"{name} 4")
        values, rest = given[..., :CLASSES], given[..., CLASSES:]
        for step, annealing in ((0, 1500.0), (1, 1500 / 1.1), (2, 1500 / 1.2), (10**6, 5.0)):
            if step > 2:  # long after: the weight of the plain cosine is 5 and stays
                assert int(loss.loss.steps) == 3
                loss.loss.steps.fill_(step)
            if name == "a-softmax":
                more = [{"scale": norms} for norms in rest.norm(dim=2)]
                function = functional.sphereface_cross_entropy
            else:
                more = [{"norms": norms} for norms in rest]
                function = functional.l_softmax_cross_entropy
            options = {"margin": 4, "annealing": annealing, "reduction": "none"}
            expected = torch.stack(
                [
                    function(of_run, labels, **of_loss, **options)
                    for of_run, of_loss, labels in zip(values, more, LABELS, strict=True)
                ]
            )
            torch.testing.assert_close(loss(given, LABELS, BETA), expected)

    def test_center_loss_moves_its_centres(self):
        given, loss = outputs("center 0.02"), loss_of("center 0.02")
        logits, features = given.split([CLASSES, WIDTH], 2)
        first = loss(given, LABELS, BETA)
        expected = (
            of_every_run(F.cross_entropy, logits) + 0.02 * features.square().sum(2) / 2
        )  # from centres at 0
        torch.testing.assert_close(first, expected)
        run, label = (
            1,
            3,
        )  # the samples 0 and 1 of run 1: the centre moves by 1/2 of their sum over 1 + 2
        torch.testing.assert_close(
            loss.loss.head.centers[run, label], 0.5 * features[run, :2].sum(0) / 3
        )
        assert loss(given, LABELS, BETA).mean() < first.mean()

    def test_adacos_sets_its_scale_batch_by_batch_and_run_by_run(self):
        given, loss = outputs("adacos"), loss_of("adacos")
        scale = torch.full((2,), math.sqrt(2) * math.log(CLASSES - 1))
        torch.testing.assert_close(loss.logits(given), scale[0] * given)
        for _ in range(2):
            scale = functional.adacos_scale(given, LABELS, scale)
            torch.testing.assert_close(
                loss(given, LABELS, BETA),
                of_every_run(F.cross_entropy, scale[:, None, None] * given),
            )
        torch.testing.assert_close(loss.logits(given), scale[:, None, None] * given)
        assert scale[0] != scale[1]
        guarded = loss_of("guarded-adacos 5")
        guarded(outputs("adacos"), LABELS, BETA)
        assert (guarded.loss.scale >= 5).all()


class TestLogits:
    def test_there_is_one_for_each_class_and_the_largest_is_the_largest_output(self, subtests):
        for text in TEXTS:
            with subtests.test(text):
                given = outputs(text)
                found = loss_of(text).logits(given)
                assert found.shape == (2, 5, CLASSES) and torch.isfinite(found).all()
                assert text.startswith("a-softmax") or torch.equal(
                    found.argmax(2), given[..., :CLASSES].argmax(2)
                )

    def test_without_a_margin_the_loss_is_their_cross_entropy(self, subtests):
        """So what is called a probability is the one that the loss is made of."""
        plain = [
            "softmax",
            "gd 1",
            "poly1 0",
            "m-softmax 0",
            "arcface 20 0",
            "arcgrad 10",
            "label-smoothing 0",
            "lgm 0 0",
            "l-softmax 1",
            "a-softmax 1",
        ]
        for text in plain:
            with subtests.test(text):
                given, loss = outputs(text), loss_of(text)
                expected = of_every_run(F.cross_entropy, loss.logits(given))
                torch.testing.assert_close(
                    loss(given, LABELS, BETA), expected, rtol=1e-4, atol=1e-5
                )

    def test_a_softmax_has_the_length_of_the_feature_for_its_scale(self):
        given = outputs("a-softmax 4")
        found = loss_of("a-softmax 4").logits(given)
        torch.testing.assert_close(
            found, given[..., :CLASSES] * given[..., CLASSES:].norm(dim=2, keepdim=True)
        )


class TestMemory:
    def test_what_is_remembered_is_in_the_state(self, subtests):
        for text in TEXTS:
            with subtests.test(text):
                given, loss = outputs(text), loss_of(text)
                loss(given, LABELS, BETA)
                loss(given.flip(1), LABELS, BETA)
                other = loss_of(text)
                other.load_state_dict(loss.state_dict())
                assert bool(loss.state_dict()) == parse(text).kind.keeps_state
                assert torch.equal(loss(given, LABELS, BETA), other(given, LABELS, BETA))

    def test_an_interrupted_training_ends_in_the_same_weights(self, tmp_path, subtests):
        for text, optimizer in (("center 0.02", "sgd"), ("adacos", "adam")):
            with subtests.test(text):
                self.interrupt(tmp_path, text, optimizer)

    def interrupt(self, tmp_path: Path, text: str, optimizer: str) -> None:
        experiment = small_train(
            **{
                "loss": text,
                "betas": [1],
                "classifier_bias": False,
                "seeds": [0, 1],
                "epochs": 4,
                "hidden": [8],
            },
            **{
                "optimizer": optimizer,
                "learning_rate": 0.01,
                "lr_schedule": "one-cycle",
                "test_every": 4,
            },
        )
        stop = [True]
        weights: list[list[Tensor]] = []

        def measure(model, dataset, epoch):
            if epoch == 2 and stop:
                stop.clear()
                raise KeyboardInterrupt
            return {}

        def finish(model, dataset, history):
            weights.append([parameter.detach().clone() for parameter in model.parameters()])
            return [{} for _ in range(model.runs)]

        options = {"measure": measure, "finish": finish}
        with pytest.raises(KeyboardInterrupt):
            train_stack(experiment, checkpoint_dir=str(tmp_path), **options)
        resumed = train_stack(experiment, checkpoint_dir=str(tmp_path), **options)
        straight = train_stack(experiment, **options)
        assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))
        assert [run["metrics"] for run in resumed.runs] == [run["metrics"] for run in straight.runs]


class TestExperiments:
    def test_softmax_is_gradient_decay_with_beta_one(self):
        common = {"betas": [1], "seeds": [0], "epochs": 2, "hidden": [8]}
        one, other = (
            train_stack(small_train(loss=loss, **common)).runs[0] for loss in ("softmax", "gd")
        )
        assert (one["schedule"], other["schedule"]) == ("softmax", "1")
        shared = {
            name: other["metrics"][name] for name in one["metrics"]
        }  # what is measured of the first layer is not in one with a head
        assert one["metrics"] == pytest.approx(shared, rel=1e-4, abs=1e-5)

    def test_the_link_is_that_of_gradient_decay_alone(self):
        common = {"betas": [1], "epochs": 1, "hidden": [8], "validation_size": 37}
        for loss in ("gd", "softmax", "focal 2"):
            (run,) = train_stack(small_train(loss=loss, **common)).runs
            assert ("test_ece_link" in run["metrics"]) == (loss == "gd")

    def test_a_run_with_label_noise_has_wrong_labels(self):
        common = {"betas": [1], "epochs": 1, "hidden": [8]}
        for noise in (0.0, 0.2):
            runs = records.to_frame(train_stack(small_train(label_noise=noise, **common)))
            assert runs["wrong_labels"].tolist() == [noise] * len(runs)

    def test_a_perceptron_learns_with_it(self, subtests):
        for text in [
            text
            for text in TEXTS
            if parse(text).kind.head in ("linear", "cosine") and text != "gd 0.1"
        ]:
            with subtests.test(text):
                experiment = small_train(
                    **{
                        "loss": text,
                        "betas": [1],
                        "classifier_bias": False,
                        "epochs": 8,
                        "hidden": [16],
                    },
                    **{"optimizer": "adam", "learning_rate": 0.01, "normalization": "unit"},
                )
                (row,) = records.to_frame(train_stack(experiment)).to_dict("records")
                assert row["schedule"] == row["loss"] == text
                assert row["test_accuracy"] > 0.6  # of ten classes

    def test_an_image_network_trains_with_it(self, subtests):
        for text in ("super-symmetry", "l-softmax 2", "a-softmax 4", "lgm 0.3 0.1", "center 0.003"):
            with subtests.test(text):
                experiment = small_train(
                    **{
                        "loss": text,
                        "betas": [1],
                        "model": "resnet18",
                        "width": 0.125,
                        "stem": "tiny-imagenet",
                    },
                    **{
                        "normalization": "channel",
                        "subset": 100,
                        "epochs": 1,
                        "batch_size": 50,
                        "channels_last": True,
                        "angles": True,
                    },
                )
                (run,) = train_stack(experiment).runs
                assert not run["diverged"] and run["schedule"] == text
                assert {"test_accuracy", "w_inter", "c_inter", "wc_intra"} <= set(run["metrics"])

    def test_wrong_labels_are_the_same_for_every_seed_and_only_for_training(self):
        clean, noisy = (
            training.load(small_train(label_noise=share, subset=200)) for share in (0.0, 0.25)
        )
        assert int((clean.train.labels != noisy.train.labels).sum()) == 50
        assert torch.equal(clean.train.inputs, noisy.train.inputs) and torch.equal(
            clean.test.labels, noisy.test.labels
        )
        expected = data.with_label_noise(clean.train.labels, 0.25, classes=10)
        assert torch.equal(noisy.train.labels, expected)


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

    def test_a_long_tail_is_trained_on_and_the_accuracy_of_each_class_recorded(self):
        experiment = small_train(
            imbalance=20, loss="class-beta 0.1", betas=[1], seeds=[0, 1], epochs=3
        )
        record = train_stack(experiment)
        counts = torch.bincount(data.load("digits", imbalance=20).train.labels)
        assert record.data["train"] == counts.sum() < 700 and counts[-1] == counts[0] // 20
        for run in record.runs:
            tested = torch.bincount(data.load("digits").test.labels).double()
            for suffix in ("", "_link"):
                overall = (
                    torch.tensor(run[f"class_accuracy{suffix}"]) * tested
                ).sum() / tested.sum()
                assert run["metrics"][f"test_accuracy{suffix}"] == pytest.approx(float(overall))


WRONG_TEXTS = {
    "arcgrid 5": "unknown loss 'arcgrid 5'; valid: softmax, label-smoothing lambda",
    "": "unknown loss ''",
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


def test_wrong_texts_are_refused_before_anything_is_loaded(subtests):
    for text, message in WRONG_TEXTS.items():
        with subtests.test(text):
            with pytest.raises(ValueError, match=message):
                parse(text)
            for kind in (small_train, CrossValidation):
                with pytest.raises(ValueError, match=message):
                    kind(loss=text)


def test_a_last_layer_that_perceptrons_do_not_have(subtests):
    for text in ["lgm 0.3 0.1", "l-softmax 2", "super-symmetry"]:
        for values in ({"loss": text}, {"loss": text, "betas": [1]}):
            message = "needs a last layer of the kind .*, which only image networks have"
            with subtests.test(text), pytest.raises(ValueError, match=message):
                (small_train if "betas" in values else CrossValidation)(**values)


def test_the_table_names_what_there_is():
    for text in TEXTS:
        kind = parse(text).kind
        assert kind.head in HEADS and kind.title and kind.color.startswith("#") and kind.paper
        assert method_name(text).startswith(kind.title) and "must" not in method_name(text)
