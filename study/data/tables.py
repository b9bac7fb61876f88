"""Tables of features: the 15 UCI sets of ArcGrad's Table II from the local folder, and three that scikit-learn brings along."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from study.data.files import checksum, local_folder

__all__ = ["EMBEDDED_TABLES", "NOMINAL", "UCI", "Table", "embedded_table", "table", "table_names"]

_UCI = {
    "uci/pima-indians-diabetes": ("PimaIndiansDiabetes", (392, 8, 2)),
    "uci/hayes-roth": ("Hayes-Roth", (160, 3, 3)),
    "uci/user-knowledge-modeling": ("UserKnowledgeModeling", (403, 5, 4)),
    "uci/breast-cancer-wisconsin-prognostic": ("BreastCancerWisconsin", (194, 33, 2)),
    "uci/wholesale-customers": ("WholesaleCustomers", (440, 7, 2)),
    "uci/teaching-assistant-evaluation": ("TeachingAssistantEvaluation", (151, 5, 3)),
    "uci/banknote-authentication": ("BanknoteAuthentication", (1372, 4, 2)),
    "uci/congressional-voting-records": ("CongressionalVotingRecords", (232, 16, 2)),
    "uci/website-phishing": ("WebsitePhishing", (1353, 9, 3)),
    "uci/haberman": ("Haberman", (306, 3, 2)),
    "uci/iris": ("Iris", (150, 4, 3)),
    "uci/breast-tissue": ("BreastTissue", (106, 9, 6)),
    "uci/vertebral-column": ("VertebralColumn", (310, 6, 3)),
    "uci/forest-type-mapping": ("ForestTypeMapping", (523, 27, 4)),
    "uci/balance-scale": ("BalanceScale", (625, 4, 3)),
}
"""For each UCI set the paper's name, and its numbers of samples, features and classes, in the order of ArcGrad's Table II."""

UCI = {name: title for name, (title, _) in _UCI.items()}
"""The UCI sets and the paper's names for them, in the order of ArcGrad's Table II."""

NOMINAL: dict[str, tuple[str, ...]] = {
    "uci/hayes-roth": ("age", "educational_level", "marital_status"),
    "uci/teaching-assistant-evaluation": ("course_instructor", "course"),
    "uci/wholesale-customers": ("Region",),
}
"""Columns of more than two values whose numbers are names: their order means nothing."""

EMBEDDED_TABLES = ("iris", "wine", "breast_cancer")
"""The tables of scikit-learn. Its iris differs from UCI's file in two rows."""

_WORDS = {"y": 1.0, "n": 0.0}


@dataclass(frozen=True)
class Table:
    """A whole table of features: float32 ``[N, D]``, as they are in the file, and class indices ``[N]``.

    ``copy`` says which exact copy this is: a package version, or the checksum of the file.
    """

    name: str
    features: Tensor
    labels: Tensor
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    source: str
    copy: str

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.labels)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)


def table_names() -> list[str]:
    """List the names that :func:`table` knows: those of scikit-learn, then the UCI sets in the order of ArcGrad's Table II."""
    return [*EMBEDDED_TABLES, *UCI]


def table(name: str, *, categorical: Literal["codes", "one-hot"] = "codes", folder: str | os.PathLike[str] | None = None) -> Table:
    """Load a table of features by name, whole and unscaled, for a cross-validation.

    A UCI set is a CSV file: a header, the features, and the class in the last column, with as many samples, features and classes as the
    paper counts. Rows with missing values were dropped when the files were made, as these counts imply; one that is left is refused.

    The paper does not say how it coded features that are no numbers. Its Table II counts one feature for each column, so ``"codes"`` keeps
    the numbers of the file; ``"one-hot"`` gives each category of the ``NOMINAL`` columns a feature of its own. Columns of two values, and
    ordered ones (as the -1, 0, 1 of website-phishing), keep their numbers under either coding; y and n become 1 and 0.

    Example:
        >>> iris = table("iris")
        >>> iris.features.shape, iris.class_names, iris.source
        (torch.Size([150, 4]), ('setosa', 'versicolor', 'virginica'), 'embedded')
    """
    if name not in table_names():
        raise ValueError(f"unknown table {name!r}; valid: {', '.join(table_names())}")
    if categorical not in ("codes", "one-hot"):
        raise ValueError(f"unknown coding {categorical!r}; valid: codes, one-hot")
    if name in EMBEDDED_TABLES:
        return embedded_table(name)
    file = local_folder(folder) / f"{name}.csv"
    if not file.is_file():
        raise FileNotFoundError(
            f"data set {name!r} is nowhere to be found: there is no file {file}. Set GDLIB_DATA to a folder that holds {name}.csv "
            "(a header, the features, the column 'class' last). The UCI repository has the set, and so has OpenML "
            "(sklearn.datasets.fetch_openml); the embedded tables iris, wine and breast_cancer always work"
        )
    found = checksum(file)
    header, rows = _read(file)
    values = np.array([[_number(cell, file, line) for cell in row[:-1]] for line, row in enumerate(rows, start=2)])
    class_names = tuple(sorted({row[-1] for row in rows}))
    counted = (*values.shape, len(class_names))
    if counted != _UCI[name][1]:
        raise ValueError(f"{file} is damaged: (samples, features, classes) are {counted}, not {_UCI[name][1]}; copy the file again")
    feature_names, features = header[:-1], values
    if categorical == "one-hot":
        feature_names, features = _one_hot(header[:-1], values, NOMINAL.get(name, ()))
    return Table(
        name=name,
        features=torch.from_numpy(features.astype(np.float32)),
        labels=torch.tensor([class_names.index(row[-1]) for row in rows]),
        feature_names=tuple(feature_names),
        class_names=class_names,
        source="local",
        copy=f"sha256 {found[:16]}",
    )


def embedded_table(name: str) -> Table:
    """Load a table that scikit-learn brings along; also ``digits``, whose images are rows of pixels then."""
    import sklearn
    from sklearn import datasets

    bunch: Any = getattr(datasets, f"load_{name}")()
    return Table(
        name=name,
        features=torch.from_numpy(bunch.data).float(),
        labels=torch.from_numpy(bunch.target).long(),
        feature_names=tuple(str(feature) for feature in bunch.feature_names),
        class_names=tuple(str(label) for label in bunch.target_names),
        source="embedded",
        copy=f"scikit-learn {sklearn.__version__}",
    )


def _read(file: Path) -> tuple[list[str], list[list[str]]]:
    """Read header and rows of a file, without the spaces around a cell; every row as long as the header."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            header, *rows = [[cell.strip() for cell in row] for row in csv.reader(stream)]
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{file} is damaged: it is no CSV file with a header ({error}); copy the file again") from error
    if len(header) < 2 or header[-1] != "class" or not rows:
        raise ValueError(f"{file} has another layout: a header with the features and then 'class', and rows, expected; got {header}")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header) or not row[-1]:
            fault = f"{len(row)} cells, the header {len(header)}" if len(row) != len(header) else "no class"
            raise ValueError(f"{file} is damaged: line {line} has {fault}; copy the file again")
    return header, rows


def _number(cell: str, file: Path, line: int) -> float:
    """Read a number that float32 can hold."""
    try:
        value = _WORDS[cell] if cell in _WORDS else float(cell)
    except ValueError:
        value = float("nan")
    if not abs(value) <= torch.finfo(torch.float32).max:  # also catches NaN
        raise ValueError(f"{file}, line {line}: {cell!r} is no number of float32, and not y or n; drop rows with missing values")
    return value


def _one_hot(names: list[str], values: NDArray[np.float64], nominal: tuple[str, ...]) -> tuple[list[str], NDArray[np.float64]]:
    """Replace nominal columns by one column for each value that occurs, 1 where it does."""
    new_names: list[str] = []
    columns: list[NDArray[np.float64]] = []
    for name, column in zip(names, values.T, strict=True):
        if name in nominal:
            levels = np.unique(column)
            new_names += [f"{name}={level:g}" for level in levels]
            columns += [(column == level).astype(float) for level in levels]
        else:
            new_names.append(name)
            columns.append(column)
    return new_names, np.stack(columns, axis=1)
