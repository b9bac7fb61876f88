"""The notebooks run: with their defaults in the book, and the templates once more with other parameters, as the how-to page has it."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from study import jobs as workflow
from study import notebooks, records
from study.experiment import Experiment, StepCost, of_template

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
TEMPLATES = sorted((ROOT / "notebooks" / "experiments").glob("*.md"))
NAMES = {path.stem for path in TEMPLATES}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


@pytest.mark.parametrize("source", notebooks.all_notebooks(), ids=name_of)
def test_the_book_executed_this_notebook(source: Path) -> None:
    """The book build executes every page with its defaults; what it executed is this very notebook, and no cell was left out or failed."""
    executed = HTML / "_sources" / source.relative_to(ROOT).with_suffix(".ipynb")
    if not HTML.is_dir():
        pytest.skip("the notebooks' defaults were not tested: the book has not been built; `make book` builds it")
    assert executed.is_file(), f"the book does not execute or does not contain {source.relative_to(ROOT)}"
    ran = [cell for cell in nbformat.read(executed, as_version=4).cells if cell.cell_type == "code"]
    written = [cell for cell in notebooks.read(source).cells if cell.cell_type == "code"]
    # the figure settings of a cell are metadata in one of them and a part of the source in the other
    assert [code(cell.source) for cell in ran] == [code(cell.source) for cell in written], (
        "the book is older than the notebook: `make book`"
    )
    for cell in ran:
        assert cell.execution_count is not None or not cell.source.strip(), f"not executed: {cell.source[:80]}"
        assert all(output.output_type != "error" for output in cell.outputs), f"failed: {cell.source[:80]}"


def code(source: str) -> str:
    return re.sub(r"\A---\n.*?^---\n", "", source, flags=re.DOTALL | re.MULTILINE).strip()


@pytest.mark.parametrize("source", TEMPLATES, ids=name_of)
def test_the_parameter_cell_is_the_experiment(source: Path) -> None:
    """Every field that the template can use is a parameter, and the two places are there; the defaults are valid and small."""
    found = notebooks.parameters(source)
    kind = of_template(source.stem)
    fields = [field.name for field in dataclasses.fields(kind) if source.stem == "train" or field.name not in ONLY_TRAIN.get(kind, ())]
    assert [name for name in found if name in fields] == fields, (
        f"the parameter cell must name the fields of {kind.__name__}, in their order"
    )
    assert set(workflow.PLACES) <= set(found)
    for parameter in found.values():
        assert parameter.annotation, f"{parameter.name} has no type"
        assert parameter.help, f"{parameter.name} has no comment that says what it is"
        assert workflow.fits(parameter.default, parameter), f"{parameter.name}: the default is no {parameter.annotation}"
    experiment = kind(**{name: found[name].default for name in fields})
    assert experiment.scale == "smoke"
    if kind is not StepCost:  # which needs no data
        assert experiment.dataset == "digits" if kind is Experiment else experiment.datasets == ("iris",)
    assert found["record"].default == "" and found["checkpoint_dir"].default == ""


# Fields of Experiment that only the template `train` offers: image networks, the switches of a GPU, and what was asked of them alone.
ONLY_TRAIN = {
    Experiment: {
        *("subset", "augmentation", "model", "width", "stem", "match_gradient", "test_every"),
        *("label_noise", "loss", "classifier_bias", "optimizer", "decay", "angles"),
        *("device", "precision", "channels_last", "fused", "cuda_graph"),
    }
}

# Values that no template has as a default.
OTHER = {"betas": [0.3, 3.0], "seeds": [7], "epochs": 2, "learning_rate": 0.05, "hidden": [9, 2], "repetitions": 1}


@pytest.mark.parametrize("source", TEMPLATES, ids=name_of)
def test_a_template_runs_with_other_parameters(source: Path, tmp_path: Path) -> None:
    """`jupytext | papermill` as the how-to page has it; the record is read back, and the parameters are really in it."""
    record = tmp_path / "record.json"
    python, run = sys.executable, tmp_path / "run.ipynb"
    command = f"{python} -m jupytext --to ipynb -o - {source} | {python} -m papermill - {run} --no-progress-bar"
    other = {name: value for name, value in OTHER.items() if name in notebooks.parameters(source)}
    values = "".join(f" -y '{name}: {json.dumps(value)}'" for name, value in other.items())
    done = subprocess.run(f"{command} -p record {record}{values}", shell=True, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]

    assert all(value != notebooks.parameters(source)[name].default for name, value in other.items())
    written = records.load(record)
    assert json.loads(json.dumps({name: written.parameters[name] for name in other})) == other
    assert written.template == source.stem and written.scale == "smoke"
    table = records.read(tmp_path)
    if of_template(source.stem) is StepCost:
        assert set(table["seed"]) == {0} and (table["step_seconds"] > 0).all()
        return
    assert written.epochs_done == 2
    assert ("betas" not in other or {0.3, 3.0} <= set(table["beta"])) and set(table["seed"]) == {7}
    assert table["test_accuracy"].between(0, 1).all()


def test_a_wrong_value_stops_a_notebook_with_the_valid_ones(tmp_path: Path) -> None:
    source = next(path for path in TEMPLATES if path.stem == "train")
    converted = tmp_path / "train.ipynb"
    notebooks.convert(source, converted)
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(converted),
        str(tmp_path / "run.ipynb"),
        "--no-progress-bar",
        "-p",
        "activation",
        "rely",
    ]
    done = subprocess.run([*command, "-p", "record", str(tmp_path / "record.json")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "unknown activation 'rely'; valid: " in done.stderr
    assert not (tmp_path / "record.json").exists()
