"""The parameters of a page: read from its first cell, and checked before anything is loaded.

A page of ``notebooks/experiments`` names its parameters, their types and their defaults in the cell
that papermill replaces values of. What such a value may be is said here, once for all pages.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, create_model

from gdlib import models
from gdlib.train.update import OPTIMIZERS
from study import ROOT, data, networks
from study.data import augmentation
from study.losses import parse
from study.mistakes import explanation, nearest

FOLDER = ROOT / "notebooks" / "experiments"
PLACES = ("record", "checkpoint_dir")
"""Parameters that say where something is written, not what is trained."""

_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|(?::\w[^\n]*\n)*)\n?", re.MULTILINE | re.DOTALL)


def _one_of(names: Iterable[str]) -> Any:
    return Literal[tuple(names)]


def _loss(text: str) -> str:
    if text != "gd":
        parse(text)
    return text


def _distinct(values: list[Any]) -> list[Any]:
    if len({_label(value) for value in values}) < len(values):
        raise ValueError("a value stands twice: two agree to six digits")
    return values


def _label(value: Any) -> str:
    """Write a value as the tables name it."""
    if isinstance(value, list):
        return " ".join(map(_label, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


_Positive = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
_Seed = Annotated[int, Field(ge=0, lt=2**27)]
_MANY = Field(max_length=1000)
_Distinct = AfterValidator(_distinct)

VALUES: Mapping[str, Any] = {
    "dataset": _one_of(data.names()),
    "datasets": Annotated[
        list[_one_of(data.table_names())],  # type: ignore[misc]
        Field(min_length=1),
        _Distinct,
    ],
    "normalization": _one_of(data.NORMALIZATIONS),
    "validation_size": Annotated[int, Field(ge=1, le=10**7)],
    "subset": Annotated[int, Field(ge=0, le=10**7)],
    "imbalance": Annotated[float, Field(ge=1, le=1e6)],
    "labels": _one_of(data.LABELS),
    "label_noise": Annotated[float, Field(ge=0, lt=1)],
    "duplicates_together": bool,
    "augmentation": _one_of(augmentation.PADDING),
    "model": _one_of(networks.IMAGE_NETWORKS),
    "width": Annotated[float, Field(gt=0, le=64)],
    "hidden": Annotated[list[Annotated[int, Field(gt=0, le=2**16)]], Field(max_length=200)],
    "activation": _one_of(models.ACTIVATIONS),
    "initialization": _one_of(models.INITIALIZATIONS),
    "loss": Annotated[str, Field(max_length=100), AfterValidator(_loss)],
    "betas": Annotated[list[_Positive], _MANY, _Distinct],
    "warmups": Annotated[
        list[Annotated[list[_Positive], Field(min_length=3, max_length=3)]], _MANY, _Distinct
    ],
    "temperatures": Annotated[list[_Positive], Field(min_length=1, max_length=1000), _Distinct],
    "seeds": Annotated[list[_Seed], Field(min_length=1, max_length=1000), _Distinct],
    "epochs": Annotated[int, Field(gt=0, lt=2**20)],
    "batch_size": Annotated[int, Field(gt=0, le=2**20)],
    "optimizer": _one_of(OPTIMIZERS),
    "learning_rate": Annotated[float, Field(gt=0, le=1000)],
    "momentum": Annotated[float, Field(ge=0, lt=1)],
    "weight_decay": Annotated[float, Field(ge=0, le=1000)],
    "turns": Annotated[int, Field(gt=0, le=1000)],
    "device": Literal["cpu", "cuda", "auto"],
    "record": Annotated[str, Field(max_length=4000)],
    "checkpoint_dir": Annotated[str, Field(max_length=4000)],
}
"""What the value of a parameter may be, by its name; a page's own cell has its default."""


def pages() -> list[str]:
    """List the pages that have parameters."""
    return sorted(path.stem for path in FOLDER.glob("*.md"))


def code_cells(page: str) -> list[str]:
    """Read the code of a page, cell by cell."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    return [_OPTIONS.sub("", cell, count=1) for cell in _CELL.findall(text)]


def writes_results(cell: str) -> bool:
    """Tell the cell of a page that writes its file of results; those behind it read the tables."""
    return "job.finish" in cell


@functools.cache
def losses(page: str) -> tuple[str, ...]:
    """Read the names of the losses that a page makes itself, in its dictionary ``LOSSES``.

    Example:
        >>> losses("large-margin")[:3]
        ('softmax', 'label-smoothing', 'lm')
    """
    return tuple(
        ast.literal_eval(key)
        for cell in code_cells(page)
        for node in ast.parse(cell).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LOSSES"
        for key in getattr(node.value, "keys", ())
    )


@functools.cache
def offered(page: str) -> Mapping[str, Any]:
    """Read the parameters of a page, with their defaults, from its first cell of code.

    Raises:
        ValueError: for a page that is not there; it names those that are.

    Example:
        >>> offered("mnist")["epochs"]
        20
    """
    if page not in pages():
        known = ", ".join(pages())
        raise ValueError(f"there is no page {page[:100]!r}{nearest(page, pages())}: {known}")
    return {
        node.target.id: ast.literal_eval(node.value)
        for node in ast.parse(code_cells(page)[0]).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
    }


def checked(page: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check values for a page, and add its defaults; places are left out.

    Raises:
        ValueError: for a name that is no parameter of the page, and for a value that it cannot
            have; the message says what is valid, and what may have been meant.

    Example:
        >>> checked("mnist", {"epochs": 3, "seeds": [0]})["learning_rate"]
        0.1
        >>> checked("mnist", {"activation": "rely"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: activation: Input should be 'relu', 'tanh' or 'sigmoid'; ...did you mean 'relu'?
    """
    known = offered(page)
    loss, own = str(given.get("loss", "")).split()[:1], losses(page)
    if own and loss and loss[0] not in own:
        raise ValueError(
            f"this page has no loss {loss[0]!r}{nearest(loss[0], own)}; it has: {', '.join(own)}"
        )
    try:
        values = dict(_model(page)(**given))
    except ValidationError as error:
        text, first = explanation(error, list(known)), error.errors()[0]
        if first["type"] == "list_type" and len(first["loc"]) == 1:
            name = str(first["loc"][0])
            example = json.dumps(known[name])
            text += f"; give papermill a list with -y, as in -y '{name}: {example}'"
        raise ValueError(text) from None
    _consistent(page, values)
    return {name: value for name, value in values.items() if name not in PLACES}


@functools.cache
def _model(page: str) -> Any:
    fields: dict[str, Any] = {
        name: (VALUES[name], default) for name, default in offered(page).items()
    }
    if _has_perceptrons(page):
        fields["model"] = (_one_of(("mlp", *networks.IMAGE_NETWORKS)), "mlp")
    return create_model(page, __config__=ConfigDict(extra="forbid", strict=True), **fields)


def _has_perceptrons(page: str) -> bool:
    return offered(page).get("model") == "mlp"


def _consistent(page: str, values: Mapping[str, Any]) -> None:
    """Refuse values that are fine each for itself and mean nothing together."""
    if "betas" in values and not [*values["betas"], *values.get("warmups", ())]:
        raise ValueError("there is nothing to train: give at least one β or warm-up")
    # a page that has perceptrons too trains only those on digits, which it does not enlarge
    pictures = [*data.IMAGES] if _has_perceptrons(page) else ["digits", *data.IMAGES]
    if (model := values.get("model", "mlp")) != "mlp" and values["dataset"] not in pictures:
        raise ValueError(
            f"dataset={values['dataset']!r} has no images for model={model!r}; "
            f"take one of {', '.join(pictures)}"
        )
    if model == "mlp" and values.get("augmentation", "none") != "none":
        raise ValueError("augmentation is for image networks: with model='mlp' it must be 'none'")
    other = values.get("loss", "gd") != "gd"
    if other and "betas" in values and values["betas"] != [1]:
        raise ValueError(f"betas are for loss='gd'; with loss={values['loss']!r} set betas=[1]")
    if "datasets" in values and parse(values["loss"]).kind.head not in networks.MLP_HEADS:
        raise ValueError(f"{values['loss']!r} needs a last layer that no network here has")
    if other and "betas" in values:
        kind = parse(values["loss"]).kind
        if kind.head != "linear" or kind.with_features:
            raise ValueError(f"{values['loss']!r} needs a last layer that no network here has")
    if values.get("labels", data.CLEAN) != data.CLEAN and (
        values["dataset"] != "cifar10" or values.get("label_noise")
    ):
        raise ValueError(
            f"labels={values['labels']!r} are people's, of dataset='cifar10', and some of them are "
            "wrong already: take that data set, and label_noise=0"
        )
    if (runs := len(planned(values))) > 10_000:
        raise ValueError(f"a job has at most 10,000 runs, and these would be {runs:,}")


def planned(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List by what the tables know each run of a job, in the order of its stack.

    There is one for each seed, each temperature, and each constant β or warm-up; of tables one for
    each table and seed.

    Example:
        >>> values = {"betas": [1, 0.1], "warmups": [[0.1, 1, 5]], "seeds": [0]}
        >>> [run["schedule"] for run in planned(values)]
        ['1', '0.1', 'warm-up 0.1→1']
    """
    if "datasets" in values:
        return [
            {"dataset": name, "seed": seed}
            for name in values["datasets"]
            for seed in values["seeds"]
        ]
    schedules: list[dict[str, Any]] = [
        {"schedule": f"{beta:g}", "beta": float(beta), "warmup_epochs": 0.0}
        for beta in values.get("betas", [1.0])
    ]
    for start, end, epochs in values.get("warmups", ()):
        label = f"warm-up {start:g}→{end:g}"
        schedules.append({"schedule": label, "beta": float(end), "warmup_epochs": float(epochs)})
        schedules[-1] |= {"warmup_start": float(start), "warmup_end": float(end)}
    if (loss := values.get("loss", "gd")) != "gd":
        schedules = [one | {"schedule": loss} for one in schedules]
    return [
        one | {"temperature": float(temperature), "seed": seed}
        for seed in values["seeds"]
        for temperature in values.get("temperatures", [1.0])
        for one in schedules
    ]


def identity(page: str, values: Mapping[str, Any]) -> str:
    """Make a short name for what a job trains."""
    text = json.dumps([page, values], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
