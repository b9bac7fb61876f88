"""The recipes for other libraries on the page "Use the loss", as they stand there.

Each needs its library and is skipped elsewhere: `make ecosystem` has them all.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from gdlib import GDCrossEntropyLoss
from gdlib.calibration import expected_calibration_error
from gdlib.functional import gd_cross_entropy
from gdlib.schedules import LinearWarmup

PAGE = Path(__file__).resolve().parents[1] / "book" / "use-the-loss.md"

# what the libraries warn of in their own or their dependencies' code
pytestmark = pytest.mark.filterwarnings("default")


def recipes() -> dict[str, str]:
    """The code of the page, by name."""
    block = re.compile(
        r"^```\{code-block\} python\n:name: recipe-([\w-]+)\n\n(.*?)^```", re.DOTALL | re.MULTILINE
    )
    return dict(block.findall(PAGE.read_text(encoding="utf-8")))


def follow(*names: str, **given: Any) -> dict[str, Any]:
    """Run recipes, one after another, with what they leave to the reader."""
    for name in names:
        exec(compile(recipes()[name], f"recipe {name}", "exec"), given)
    return given


def library(name: str) -> Any:
    """Import a library, or skip the test and say why."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"the recipe was not run: {error}")
    except RuntimeError as error:  # torchvision registers its operators when it is imported
        if "torchvision" not in str(error):
            raise
        pytest.skip(f"the recipe was not run: this torchvision is of another PyTorch ({error})")


@pytest.fixture
def samples() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    labels = torch.randint(3, (60,))
    return torch.nn.functional.one_hot(labels, 3) + 0.3 * torch.randn(60, 3), labels


def test_each_recipe_has_a_test() -> None:
    code = Path(__file__).read_text(encoding="utf-8")
    assert len(recipes()) >= 7
    assert [name for name in recipes() if f'"{name}"' not in code] == []


class TestLightning:
    STEPS = 7

    @pytest.fixture
    def lightning(self) -> Any:
        return library("lightning")

    def trainer(self, lightning: Any, folder: Path, **options: Any) -> Any:
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
        return lightning.Trainer(
            accelerator="cpu",
            default_root_dir=folder,
            **{"max_steps": self.STEPS} | quiet | options,
        )

    @pytest.fixture
    def trained(self, lightning: Any, samples: Any, tmp_path: Path) -> dict[str, Any]:
        trainer = self.trainer(lightning, tmp_path)
        loader = DataLoader(TensorDataset(*samples), batch_size=6)
        names = follow("lightning", network=torch.nn.Linear(3, 3), trainer=trainer, loader=loader)
        trainer.save_checkpoint(tmp_path / "kept.ckpt")
        return names

    def test_a_checkpoint_keeps_a_tensor(self, trained: dict[str, Any], tmp_path: Path) -> None:
        schedule = LinearWarmup(0.01, 1.0, steps=100)
        of_the_last_step = pytest.approx(schedule(self.STEPS - 1))
        assert float(trained["module"].loss_fn.beta) == of_the_last_step
        again = trained["Classifier"].load_from_checkpoint(
            tmp_path / "kept.ckpt", network=torch.nn.Linear(3, 3), schedule=schedule
        )
        assert float(again.loss_fn.beta) == of_the_last_step

    def test_and_not_a_number(self, trained: dict[str, Any], tmp_path: Path) -> None:
        class OfANumber(trained["Classifier"]):
            def __init__(self, network: Any, schedule: Any) -> None:
                super().__init__(network, schedule)
                self.loss_fn = GDCrossEntropyLoss(beta=schedule(0))

        schedule = LinearWarmup(0.01, 1.0, steps=100)
        loader = trained["loader"]
        trainer = self.trainer(trained["lightning"], tmp_path)
        trainer.fit(OfANumber(torch.nn.Linear(3, 3), schedule), loader)
        trainer.save_checkpoint(tmp_path / "number.ckpt")
        again = OfANumber.load_from_checkpoint(
            tmp_path / "number.ckpt", network=torch.nn.Linear(3, 3), schedule=schedule
        )
        assert again.loss_fn.beta == schedule(0)

    def test_a_callback_goes_on_where_it_was(
        self, lightning: Any, trained: dict[str, Any], tmp_path: Path
    ) -> None:
        used: list[float] = []

        class Plain(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.network, self.loss_fn = torch.nn.Linear(3, 3), GDCrossEntropyLoss(beta=0.01)

            def training_step(self, batch: Any, batch_index: int) -> Any:
                used.append(self.loss_fn.beta)
                return self.loss_fn(self.network(batch[0]), batch[1])

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), lr=0.1)

        schedule = LinearWarmup(0.01, 1.0, steps=100)
        callback = follow("lightning-callback", lightning=lightning)["SetBeta"](schedule)
        first = self.trainer(lightning, tmp_path, callbacks=[callback])
        first.fit(Plain(), trained["loader"])
        first.save_checkpoint(tmp_path / "first.ckpt")
        second = self.trainer(lightning, tmp_path, callbacks=[callback], max_steps=9)
        second.fit(Plain(), trained["loader"], ckpt_path=tmp_path / "first.ckpt")
        assert used == [schedule(step) for step in range(9)]


class TestSkorch:
    @pytest.fixture
    def followed(self, samples: Any) -> dict[str, Any]:
        library("skorch")
        torch.manual_seed(0)
        features, labels = samples
        return follow(
            "skorch",
            network=torch.nn.Linear(3, 3),
            features=features.numpy(),
            labels=labels.numpy(),
        )

    def test_probabilities_are_those_of_the_network(self, followed: dict[str, Any]) -> None:
        net, features = followed["net"], followed["features"]
        logits = net.module_(torch.tensor(features)).detach()
        expected = torch.softmax(logits, 1).numpy()
        assert followed["probabilities"] == pytest.approx(expected, abs=1e-6)
        assert (net.predict(features) == logits.argmax(1).numpy()).all()
        assert net.criterion_.beta == 2.0

    def test_without_the_softmax_they_are_logits(self, followed: dict[str, Any]) -> None:
        net, features = followed["net"], followed["features"]
        net.set_params(predict_nonlinearity="auto")
        logits = net.module_(torch.tensor(features)).detach().numpy()
        assert net.predict_proba(features) == pytest.approx(logits, abs=1e-6)

    def test_the_link_makes_them_more_confident(self, followed: dict[str, Any]) -> None:
        follow("skorch-link", **followed)
        net, features = followed["net"], followed["features"]
        linked = net.predict_proba(features)
        assert linked.sum(1) == pytest.approx(1.0, abs=1e-5)
        assert (linked.max(1) > followed["probabilities"].max(1)).all()


class TestTransformers:
    @pytest.fixture
    def transformers(self) -> Any:
        library("accelerate")
        return library("transformers")

    def arguments(self, transformers: Any, folder: Path, accumulated: int) -> Any:
        return transformers.TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=8 // accumulated,
            gradient_accumulation_steps=accumulated,
            max_steps=1,
            logging_steps=1,
            learning_rate=0.0,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )

    def config(self, transformers: Any) -> Any:
        return transformers.BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
            max_position_embeddings=8,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=3,
        )

    def logged(self, trainer: Any) -> float:
        (loss,) = (row["loss"] for row in trainer.state.log_history if "loss" in row)
        return loss

    def test_accumulated_batches_give_the_mean_over_all(
        self, transformers: Any, tmp_path: Path
    ) -> None:
        torch.manual_seed(0)
        model = transformers.BertForSequenceClassification(self.config(transformers))
        words, labels = torch.randint(20, (8, 5)), torch.randint(3, (8,))
        dataset = [
            {"input_ids": row, "labels": label} for row, label in zip(words, labels, strict=True)
        ]
        mean = gd_cross_entropy(model(input_ids=words).logits, labels, beta=2.0).item()
        for accumulated in (1, 2, 4):
            arguments = self.arguments(transformers, tmp_path, accumulated)
            names = follow("transformers", model=model, arguments=arguments, dataset=dataset)
            assert self.logged(names["trainer"]) == pytest.approx(mean, abs=2e-4)

            def of_a_mean(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
                return gd_cross_entropy(outputs.logits, labels, beta=2.0)

            wrong = transformers.Trainer(
                model, arguments, train_dataset=dataset, compute_loss_func=of_a_mean
            )
            wrong.train()
            assert self.logged(wrong) == pytest.approx(accumulated * mean, abs=1e-3)

    def test_tokens(self, transformers: Any, tmp_path: Path) -> None:
        torch.manual_seed(0)
        config = self.config(transformers)
        config.is_decoder = True
        model = transformers.BertLMHeadModel(config)
        words = torch.randint(20, (8, 5))
        labels = words.clone()
        labels[::2, 3:] = -100
        losses = gd_cross_entropy(
            model(input_ids=words).logits[:, :-1].reshape(-1, 20),
            labels[:, 1:].reshape(-1),
            beta=2.0,
            reduction="sum",
        )
        names = follow("transformers-tokens")
        outputs = model(input_ids=words)
        alone = names["gd_loss_of_tokens"](outputs, labels)
        assert alone.item() == pytest.approx(losses.item() / (labels[:, 1:] != -100).sum().item())
        given = names["gd_loss_of_tokens"](outputs, labels, 10)
        assert given.item() == pytest.approx(losses.item() / 10)


class TestTokensAndAccumulation:
    """The two recipes for tokens without their library."""

    def test_tokens(self) -> None:
        torch.manual_seed(0)
        logits, labels = torch.randn(3, 5, 20, requires_grad=True), torch.randint(20, (3, 5))
        labels[::2, 3:] = -100
        outputs = SimpleNamespace(logits=logits)
        found = follow("transformers-tokens")["gd_loss_of_tokens"](outputs, labels)
        expected = gd_cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), beta=2.0)
        torch.testing.assert_close(found, expected)
        slopes = [torch.autograd.grad(loss, logits)[0] for loss in (found, expected)]
        torch.testing.assert_close(*slopes)

    def test_accumulated_batches_make_the_step_of_all_together(self) -> None:
        torch.manual_seed(0)
        inputs, labels = torch.randn(12, 4), torch.randint(3, (12,))
        labels[2:7] = -100  # the second batch of four has one label that counts, the last has none
        labels[8:] = -100
        weights = []
        for size in (4, 12):
            torch.manual_seed(1)
            network = torch.nn.Linear(4, 3)
            batches = list(zip(inputs.split(size), labels.split(size), strict=True))
            optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
            follow("accumulation", steps=[batches], network=network, optimizer=optimizer)
            weights.append(network.weight.detach())
        torch.testing.assert_close(*weights)


class TestTimm:
    def test_mixed_labels(self) -> None:
        library("timm")
        torch.manual_seed(0)
        images, labels = torch.randn(8, 3, 4, 4), torch.randint(10, (8,))
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 10))
        names = follow("timm", inputs=images, labels=labels, network=network)
        assert names["targets"].shape == (8, 10)
        assert names["targets"].sum(1) == pytest.approx(torch.ones(8), abs=1e-5)
        names["loss"].backward()
        assert network[1].weight.grad.abs().sum() > 0


class TestAskedElsewhere:
    def test_a_confidence_of_one_is_in_the_last_bin(self) -> None:
        probabilities, labels = torch.tensor([[0.05, 0.95], [0.0, 1.0]]), torch.tensor([1, 0])
        assert expected_calibration_error(probabilities, labels) == pytest.approx(0.475)
        torchmetrics = library("torchmetrics")
        theirs = torchmetrics.functional.classification.binary_calibration_error(
            probabilities[:, 1], labels, n_bins=10, norm="l1"
        )
        # when this changes, the page no longer needs to say it
        assert theirs.item() == pytest.approx(0.525)
