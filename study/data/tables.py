"""Tables of features.

The 15 UCI sets of ArcGrad's Table II from the local folder, and three that scikit-learn brings
along.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from study import published
from study.data.files import checksum, local_folder

UCI = {
    "uci/pima-indians-diabetes": "PimaIndiansDiabetes",
    "uci/hayes-roth": "Hayes-Roth",
    "uci/user-knowledge-modeling": "UserKnowledgeModeling",
    "uci/breast-cancer-wisconsin-prognostic": "BreastCancerWisconsin",
    "uci/wholesale-customers": "WholesaleCustomers",
    "uci/teaching-assistant-evaluation": "TeachingAssistantEvaluation",
    "uci/banknote-authentication": "BanknoteAuthentication",
    "uci/congressional-voting-records": "CongressionalVotingRecords",
    "uci/website-phishing": "WebsitePhishing",
    "uci/haberman": "Haberman",
    "uci/iris": "Iris",
    "uci/breast-tissue": "BreastTissue",
    "uci/vertebral-column": "VertebralColumn",
    "uci/forest-type-mapping": "ForestTypeMapping",
    "uci/balance-scale": "BalanceScale",
}
"""The UCI sets and the paper's names for them, in the order of ArcGrad's Table II."""

EMBEDDED_TABLES = ("iris", "wine", "breast_cancer")
"""The tables of scikit-learn. Its iris differs from UCI's file in two rows."""

_WORDS = {"y": "1", "n": "0"}


@dataclass(frozen=True)
class Table:
    """A whole table of features.

    Float32 ``[N, D]``, as they are in the file, and class indices ``[N]``.

    ``copy`` says which exact copy this is: a package version, or the checksum of the file.
    """

    name: str
    features: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    source: str
    copy: str


def table_names() -> list[str]:
    """List the names that :func:`table` knows.

    Those of scikit-learn come first, then the UCI sets in the order of ArcGrad's Table II.
    """
    return [*EMBEDDED_TABLES, *UCI]


def table(name: str) -> Table:
    """Load a table of features by name, whole and unscaled, for a cross-validation.

    A UCI set is a CSV file: a header, the features, and the class in the last column, with as many
    samples, features and classes as the paper counts. Rows with missing values were dropped when
    the files were made, as these counts imply; one that is left is refused.

    The paper does not say how it coded features that are no numbers. Its Table II counts one
    feature for each column, so the numbers of the file are kept; y and n become 1 and 0.

    Example:
        >>> iris = table("iris")
        >>> iris.features.shape, iris.class_names, iris.source
        (torch.Size([150, 4]), ('setosa', 'versicolor', 'virginica'), 'embedded')
    """
    if name not in table_names():
        raise ValueError(f"unknown table {name!r}; valid: {', '.join(table_names())}")
    if name in EMBEDDED_TABLES:
        return embedded_table(name)
    file = local_folder() / f"{name}.csv"
    if not file.is_file():
        raise FileNotFoundError(
            f"data set {name!r} is nowhere to be found: there is no file {file}. Set GDLIB_DATA to "
            f"a folder that holds {name}.csv "
            "(a header, the features, the column 'class' last). The UCI repository has the set, "
            "and so has OpenML "
            "(sklearn.datasets.fetch_openml); the embedded tables iris, wine and breast_cancer "
            "always work"
        )
    copy = f"sha256 {checksum(file)[:16]}"
    values, labels = _read(file)
    class_names = tuple(sorted(set(labels)))
    counted = (*values.shape, len(class_names))
    if counted != _size(name):
        raise ValueError(
            f"{file} is damaged: (samples, features, classes) are {counted}, not {_size(name)}; "
            f"copy the file again"
        )
    features = torch.from_numpy(values.astype(np.float32))
    return Table(
        name,
        features,
        torch.tensor([class_names.index(label) for label in labels]),
        class_names,
        "local",
        copy,
    )


def embedded_table(name: str) -> Table:
    """Load a table that scikit-learn brings along.

    Also ``digits``, whose images are rows of pixels then.
    """
    import sklearn
    from sklearn import datasets

    bunch: Any = getattr(datasets, f"load_{name}")()
    return Table(
        name=name,
        features=torch.from_numpy(bunch.data).float(),
        labels=torch.from_numpy(bunch.target).long(),
        class_names=tuple(str(label) for label in bunch.target_names),
        source="embedded",
        copy=f"scikit-learn {sklearn.__version__}",
    )


def _size(name: str) -> tuple[int, ...]:
    """Look up the numbers of samples, features and classes of a UCI set.

    They are those that the paper counts.
    """
    rows = published.table("AG", "II").set_index(["dataset", "metric"])["value"][UCI[name]]
    return tuple(int(rows[metric]) for metric in ("instances", "features", "classes"))


def _read(file: Path) -> tuple[NDArray[np.float64], list[str]]:
    """Read the numbers ``[N, D]`` and the classes ``[N]`` of a file.

    The numbers are such as float32 can hold.
    """
    try:
        cells = pd.read_csv(
            file, header=None, dtype=str, keep_default_na=False, skip_blank_lines=False
        ).apply(lambda column: column.str.strip())
    except ValueError as error:  # also of a row that is longer than the header
        raise ValueError(
            f"{file} is damaged: it is no CSV file with a header ({error}); copy the file again"
        ) from error
    header, rows = cells.iloc[0].tolist(), cells[1:]
    if len(header) < 2 or header[-1] != "class" or rows.empty:
        raise ValueError(
            f"{file} has another layout: a header with the features and then 'class', and rows, "
            f"expected; got {header}"
        )
    features, labels = rows.iloc[:, :-1], rows.iloc[:, -1].fillna("")
    if "" in labels.values:
        line = (labels == "").idxmax() + 1
        raise ValueError(
            f"{file} is damaged: line {line} has less than {len(header)} cells, or no class; copy "
            f"the file again"
        )
    values = features.replace(_WORDS).apply(pd.to_numeric, errors="coerce").to_numpy(float)
    wrong = np.argwhere(~(np.abs(values) <= np.finfo(np.float32).max))  # also NaN
    for row, column in wrong[:1]:
        cell = f"{file}, line {row + 2}: {features.iat[row, column]!r}"
        raise ValueError(
            f"{cell} is no number of float32, and not y or n; drop rows with missing values"
        )
    return values, labels.tolist()
