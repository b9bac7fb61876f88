"""Faults in a user's code.

What types can say is flagged by type checkers; the rest raises when a loss is made.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from gdlib import functional, losses

HEAD = """\
from __future__ import annotations

import torch

from gdlib import GDCrossEntropyLoss, calibration, functional, heads, losses, models, schedules
from gdlib import train

logits, labels = torch.zeros(4, 3), torch.tensor([0, 1, 2, 0])
stack, loss_fn = models.StackedMLP([3, 3], seeds=[0]), GDCrossEntropyLoss()
data = logits, labels
"""

# A line of a user, and whether types can say that it is wrong. Each raises too, when it is run.
FAULTS = [
    ("GDCrossEntropyLoss(betta=0.1)", True),
    ('GDCrossEntropyLoss(beta="0.1")', True),
    ("GDCrossEntropyLoss(beta=None)", True),
    ('GDCrossEntropyLoss(reduction="avg")', True),
    ('GDCrossEntropyLoss(0.1, label_smoothing="a")', True),
    ("GDCrossEntropyLoss(0.1, 2.0)", True),
    ("GDCrossEntropyLoss(weight=[1.0, 2.0, 3.0])", True),
    ("GDCrossEntropyLoss(ignore_index=0.5)", True),
    ('GDCrossEntropyLoss().beta = "a"', True),
    ('GDCrossEntropyLoss().reduction = "average"', True),
    ("GDCrossEntropyLoss()(logits)", True),
    ("GDCrossEntropyLoss()(logits, labels, labels)", True),
    ("GDCrossEntropyLoss(beta=-1.0)", False),
    ("GDCrossEntropyLoss(beta=0.0)", False),
    ('GDCrossEntropyLoss(beta=float("nan"))', False),
    ("GDCrossEntropyLoss(torch.ones(3))", False),
    ("GDCrossEntropyLoss(label_smoothing=2.0)", False),
    ("GDCrossEntropyLoss(weight=torch.ones(3, 3))", False),
    ("GDCrossEntropyLoss().beta = -1.0", False),
    ("GDCrossEntropyLoss(temperature=torch.tensor([1.0, 0.0]))", False),
    ("losses.SoftMarginLoss()", True),
    ("losses.SoftMarginLoss(margin=1j)", True),
    ("losses.FocalLoss(gama=2.0)", True),
    ("losses.FocalLoss(gamma=-2.0)", False),
    ("losses.GeneralizedCrossEntropyLoss(q=1.5)", False),
    ("losses.Poly1CrossEntropyLoss(epsilon=-2.0)", False),
    ("losses.NegativeProbabilityLoss(0.5)", True),
    ("losses.MultiClassHingeLoss(label_smoothing=0.1)", True),
    ('losses.LargeMarginLoss(divergence="p_u")', True),
    ("losses.LargeMarginLoss(reg_lambda=-0.3)", False),
    ('losses.AdaCosLoss(3, dynamic="yes")', True),
    ("losses.ArcFaceLoss(scale=0.0)", False),
    ("losses.CosFaceLoss(margin=-0.1)", False),
    ("losses.SphereFaceLoss(margin=2.5)", True),
    ("losses.SphereFaceLoss(margin=0)", False),
    ("losses.LSoftmaxLoss()(logits, labels)", True),
    ("losses.LSoftmaxLoss(annealing=-1.0)", False),
    ("losses.ArcGradLoss()", True),
    ("losses.AdaCosLoss()", True),
    ("losses.AdaCosLoss(classes=1)", False),
    ('losses.AdaCosLoss(3, minimum_scale="small")', True),
    ("losses.CenterLoss()(logits, labels)", True),
    ("losses.CenterLoss(label_smoothing=0.1)", True),
    ('losses.GaussianMixtureLoss(margin="wide")', True),
    ("losses.GaussianMixtureLoss(likelihood_weight=-0.1)", False),
    ("functional.gd_cross_entropy(logits, labels, betta=0.1)", True),
    ('functional.gd_cross_entropy(logits, labels, reduction="avg")', True),
    ("functional.soft_margin_cross_entropy(logits, labels)", True),
    ("functional.multi_class_hinge(logits, labels, label_smoothing=0.1)", True),
    ('functional.arcgrad_cross_entropy(logits, labels, scale="a")', True),
    ("functional.l_softmax_cross_entropy(logits, labels, margin=2)", True),
    ("functional.gd_from_nll(0.5, 0.1)", True),
    ("functional.linear_gd_cross_entropy(logits, labels)", True),
    ("functional.generalized_cross_entropy(logits, labels, q=2.0)", False),
    ("GDCrossEntropyLoss()(logits.to_sparse(), labels)", False),
    ("GDCrossEntropyLoss()(logits, labels.to_sparse())", False),
    ('GDCrossEntropyLoss()(logits, labels.to("meta"))', False),
    ("GDCrossEntropyLoss(beta=torch.ones(4).to_sparse())", False),
    ("GDCrossEntropyLoss(weight=torch.ones(3).to_sparse())", False),
    ("GDCrossEntropyLoss(beta=torch.ones(2, 4))(logits, labels)", False),
    ("GDCrossEntropyLoss().label_smoothing = True", False),
    ("GDCrossEntropyLoss()(logits, labels > 1)", False),
    ("losses.GaussianMixtureLoss()(logits - 1, labels)", False),
    ('losses.CenterLoss()(logits, labels, torch.zeros(3, 3, device="meta"))', False),
    ("functional.linear_gd_cross_entropy(logits, logits, labels, block_rows=True)", False),
    ('functional.linear_gd_cross_entropy(logits, logits.to("meta"), labels)', False),
    ('functional.adacos_scale(logits, labels, scale="a")', True),
    ('calibration.bootstrap_calibration(logits + 1 / 3, labels, "ece")', True),
    ("calibration.bootstrap_calibration(logits + 1 / 3, labels, lambda p, y: {})", True),
    ('calibration.beta_for_confidence(logits + 1 / 3, "a")', True),
    ("calibration.beta_link(logits + 1 / 3, True)", False),
    ("heads.GaussianMixtureHead(3, 4)(torch.ones(2, 1))", False),
    ("heads.GaussianMixtureHead(3, 4)(labels)", False),
    ('heads.GaussianMixtureHead(3, 4, diagonal="yes")', True),
    ('models.StackedMLP([4, 3], [0, "a"])', True),
    ('GDCrossEntropyLoss(weight=torch.ones(3, device="meta"))(logits, labels)', False),
    ('GDCrossEntropyLoss(beta=torch.ones(4, device="meta"))(logits, labels)', False),
    ('losses.SoftMarginLoss(margin=torch.ones((), device="meta"))(logits, labels)', False),
    ('functional.gd_from_nll(torch.ones(4), torch.ones(4, device="meta"))', False),
    ('functional.l_softmax_cross_entropy(logits, labels, logits.to("meta"))', False),
    ('functional.gaussian_mixture_cross_entropy(logits, labels.to("meta"))', False),
    ('functional.center_loss(logits, labels.to("meta"), logits)', False),
    ('functional.adacos_scale(logits, labels, torch.ones((), device="meta"))', False),
    ("functional.gd_cross_entropy(logits.numpy(), labels)", True),
    ("functional.focal_cross_entropy(logits, labels.numpy())", True),
    ("functional.l_softmax_cross_entropy([0.5, 0.5], labels, logits)", True),
    ("functional.adacos_scale(logits.numpy(), labels, scale=2.0)", True),
    ("functional.adacos_scale(logits, [0, 1, 2, 0], scale=2.0)", True),
    ("functional.adacos_scale(logits, labels, 2.0, minimum_scale=float('nan'))", False),
    ("functional.arcgrad_scale(0.5, 3.0)", True),
    ("GDCrossEntropyLoss()(labels, logits)", False),
    ("GDCrossEntropyLoss()(logits, labels[:, None])", False),
    ("GDCrossEntropyLoss()(logits, torch.eye(3, dtype=torch.long)[labels])", False),
    ("GDCrossEntropyLoss(ignore_index=1)(logits, labels - 1)", False),
    ("GDCrossEntropyLoss()(logits[:, :0], labels)", False),
    ("GDCrossEntropyLoss(beta=torch.ones(4, 1))(logits, labels)", False),
    ("GDCrossEntropyLoss(beta=[0.1, 0.1, 0.1, 0.1])", True),
    ("GDCrossEntropyLoss(size_average=True)", True),
    ("GDCrossEntropyLoss().weight = [1.0, 2.0, 3.0]", True),
    ("losses.AdaCosLoss(3).dynamic = 1", True),
    ("losses.LargeMarginLoss().divergence = 'p_u'", True),
    ("heads.GaussianMixtureHead(3, 4)(logits.numpy())", False),
    ("heads.CosineLinear(3, 4, seeds=0)", True),
    ("heads.CosineLinear(3.0, 4)", True),
    ("models.StackedMLP([4, 3], 0)", True),
    ("schedules.LinearWarmup(1.0, 5.0, 10)(-1)", False),
    ('schedules.LinearWarmup("1", 5.0, 10)', True),
    ("schedules.Constant(torch.tensor(0.1))", True),
    ("calibration.expected_calibration_error(labels, logits)", False),
    ('calibration.expected_calibration_error(logits + 1 / 3, labels, "mass")', True),
    ("calibration.bootstrap_calibration(logits + 1 / 3, labels, seed=-1)", False),
    ('calibration.bootstrap_calibration(logits + 1 / 3, labels, seed="a")', True),
    ("calibration.TemperatureScaling().transform(logits)", False),
    ("train.predict(stack, logits.numpy())", True),
    ("train.predict(stack, logits, batch_size=0)", False),
    ("losses.AdaCosLoss(3)(logits.numpy(), labels)", True),
    ("train.train(torch.nn.Linear(3, 3), loss_fn, data, epochs=1, lr=0.1)", True),
    ('train.train(stack.to("meta"), loss_fn, data, epochs=1, lr=0.1)', False),
    ("train.train(stack, GDCrossEntropyLoss, data, epochs=1, lr=0.1)", True),
    ("train.train(stack, loss_fn, (logits, [0, 1, 2, 0]), epochs=1, lr=0.1)", True),
    ("train.train(stack, loss_fn, data, epochs=-1, lr=0.1)", False),
    ('train.train(stack, loss_fn, data, epochs=1, lr="fast")', True),
    ("train.train(stack, loss_fn, data, epochs=1, learning_rate=0.1)", True),
    ("train.train(stack, loss_fn, data, epochs=1, lr=0.1, momentum=2.0)", False),
    ("train.train(stack, loss_fn, data, epochs=1, lr=0.1, batch_size=0)", False),
    ("train.train(stack, loss_fn, data, epochs=1, lr=0.1, seeds=[0, 1])", False),
    ('train.train(stack, loss_fn, data, epochs=1, lr=0.1, betas="small")', True),
    ("train.train(stack, loss_fn, data, epochs=1, lr=0.1, checkpoint=3)", True),
    ('train.train(stack, loss_fn, data, epochs=1, lr=0.1, fused="yes")', True),
    ("train.train(stack, loss_fn, data, epochs=1, lr=0.1, drop_last=1)", True),
    (
        "train.train(stack, loss_fn, data, epochs=1, lr=0.1, prepare=lambda inputs, draws: None)",
        True,
    ),
]

# Types alone refuse it: Python lets anyone give an object a new attribute.
MISSPELT = "GDCrossEntropyLoss().betta = 0.1"

CORRECT = """\
loss_fn = GDCrossEntropyLoss(beta=0.1, weight=torch.ones(3), reduction="sum")
loss_fn.beta = 0.5
loss_fn.beta = torch.tensor(0.5)
value: torch.Tensor = loss_fn(logits, labels)
detached: torch.Tensor = value.detach()
losses.LSoftmaxLoss(2, annealing=lambda step: 5.0 / (1 + step))(logits, labels, norms=logits + 1)
losses.ArcGradLoss(5.0).logits(logits / 2).softmax(1)
scale: float = functional.arcgrad_scale(0.5, classes=3)
focal: torch.Tensor = functional.focal_cross_entropy(logits, labels, gamma=torch.tensor(2.0))
"""


@pytest.fixture(scope="module")
def user_code(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, set[int], set[int]]:
    """A file with every fault on a line of its own; the lines to be flagged, and the others.

    The others are correct code, the sweep of README.md among them.
    """
    lines = HEAD.splitlines()
    flagged, others = set(), set()
    for code, static in [*FAULTS, (MISSPELT, True)]:
        lines.append(code)
        (flagged if static else others).add(len(lines))
    _, sweep = re.findall(r"^```python\n(.*?)^```", (root / "README.md").read_text(), re.M | re.S)
    correct = [*CORRECT.splitlines(), "inputs = new_inputs = logits", "def sweep() -> None:"]
    for code in [*correct, *textwrap.indent(sweep, "    ").splitlines()]:
        lines.append(code)
        others.add(len(lines))
    path = tmp_path_factory.mktemp("user") / "user_code.py"
    path.write_text("\n".join(lines) + "\n")
    return path, flagged, others


def hold(found: set[int], user_code: tuple[Path, set[int], set[int]]) -> None:
    path, flagged, others = user_code
    lines = path.read_text().splitlines()
    assert [lines[line - 1] for line in sorted(flagged - found)] == [], "not flagged"
    assert [lines[line - 1] for line in sorted(others & found)] == [], "flagged without a fault"


def test_there_are_forty_and_every_class_has_one() -> None:
    assert len(FAULTS) >= 40
    text = " ".join(code for code, _ in FAULTS)
    classes = [name for name in losses.__all__ if name != "Loss"]
    assert [name for name in classes if f"{name}(" not in text] == []


def test_mypy_flags_what_types_can_say(root: Path, user_code) -> None:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    path, *_ = user_code
    # with the settings of `make types`, whose cache has what mypy knows of torch
    command = [sys.executable, "-m", "mypy", "--output=json", str(path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found = {
        row["line"]
        for row in rows
        if Path(row["file"]).name == path.name and row["severity"] == "error"
    }
    assert found, done.stdout + done.stderr
    hold(found, user_code)


def test_pyright_flags_what_types_can_say(root: Path, user_code) -> None:
    if find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    path, *_ = user_code
    settings = {"include": [path.name], "extraPaths": [str(root)], "typeCheckingMode": "standard"}
    (path.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    # the program that its wheel brings: none is fetched
    environment = os.environ | {"PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT": "1"}
    done = subprocess.run(command, cwd=path.parent, env=environment, capture_output=True, text=True)
    rows = json.loads(done.stdout)["generalDiagnostics"]
    found = {row["range"]["start"]["line"] + 1 for row in rows if row["severity"] == "error"}
    hold(found, user_code)


@pytest.mark.parametrize("code", [code for code, _ in FAULTS])
def test_each_raises_with_a_message(code: str) -> None:
    names: dict[str, object] = {}
    exec(HEAD, names)
    with pytest.raises((TypeError, ValueError)) as caught:
        exec(code, names)
    assert len(str(caught.value)) > 10


def test_what_is_correct_runs() -> None:
    names: dict[str, object] = {}
    exec(HEAD.replace("zeros(4, 3)", "zeros(4, 3, requires_grad=True)"), names)
    exec(CORRECT, names)


class TestTheInterfaceIsWrittenOut:
    @pytest.mark.parametrize("module", [functional, losses])
    def test_no_signature_collects_arguments(self, module) -> None:
        for name, thing in vars(module).items():
            if name.startswith("_") or not (inspect.isfunction(thing) or inspect.isclass(thing)):
                continue
            if inspect.isclass(thing) and not issubclass(thing, losses.Loss):
                continue
            methods = [thing] if inspect.isfunction(thing) else [thing.__init__, thing.logits]
            for method in methods:
                kinds = {
                    parameter.kind for parameter in inspect.signature(method).parameters.values()
                }
                collecting = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
                assert not kinds & collecting, (name, method)

    def test_every_hyperparameter_of_a_class_is_checked(self) -> None:
        for name in losses.__all__:
            thing = getattr(losses, name)
            parameters = set(inspect.signature(thing).parameters) - {"runs"}
            options = {"weight", "ignore_index", "reduction", "label_smoothing"}
            assert parameters - options == set(thing._checks), name

    def test_an_editor_shows_the_arguments(self, root: Path) -> None:
        jedi = pytest.importorskip("jedi")
        project = jedi.Project(root)
        for code, expected in (
            ("from gdlib import losses\nlosses.FocalLoss(", "gamma: float | Tensor=2.0"),
            ("import gdlib\ngdlib.functional.gd_cross_entropy(", "label_smoothing: float=0.0"),
        ):
            (signature,) = jedi.Script(code, project=project).get_signatures()
            assert expected in signature.to_string()


def test_a_command_line_builds_each_class() -> None:
    jsonargparse = pytest.importorskip("jsonargparse")
    needed = {"SoftMarginLoss": ["--margin=0.5"], "AdaCosLoss": ["--classes=3"]}
    needed["ArcGradLoss"] = ["--scale=2.0"]
    for name in losses.__all__:
        if name == "Loss":
            continue
        parser = jsonargparse.ArgumentParser()
        parser.add_class_arguments(getattr(losses, name), "loss", sub_configs=True)
        given = [option.replace("--", "--loss.") for option in needed.get(name, [])]
        made = parser.instantiate(
            parser.parse_args([*given, "--loss.reduction=sum", "--loss.ignore_index=2"])
        )
        assert made.loss.reduction == "sum" and made.loss.ignore_index == 2
        assert isinstance(made.loss, torch.nn.Module)
