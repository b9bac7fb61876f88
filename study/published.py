"""The papers' tables and claims, read from ``results/published`` of the repository.

The tables are tidy: one row for each printed number. ``results/published/README.md`` describes the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

__all__ = ["DATASETS", "claims", "loss_name", "table", "tables"]

DATASETS: Mapping[str, str] = {
    "mnist": "MNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny-imagenet": "Tiny-ImageNet",
}
"""What the papers' tables call a data set of :mod:`study.data`."""

_LOSSES: Mapping[str, tuple[str, ...]] = {
    "softmax": ("softmax",),
    "gd": ("gradient decay", "β"),
    "label-smoothing": ("label smoothing", "λ"),
    "super-symmetry": ("super-symmetry",),
    "hinge": ("hinge",),
    "modified": ("modified loss",),
    "lm": ("LM", "λ"),
    "lm-qu": ("LM with D(q‖u)", "λ"),
    "lm-uq": ("LM with D(u‖q)", "λ"),
    "modified-lm": ("modified loss + LM", "λ"),
    "m-softmax": ("M-Softmax", "m"),
    "center": ("center loss", "λ"),
    "l-softmax": ("L-Softmax", "m"),
    "a-softmax": ("A-Softmax", "m"),
    "lgm": ("LGM", "α", "λ"),
    "arcface": ("ArcFace", "s", "m"),
    "adacos": ("AdaCos",),
    "guarded-adacos": ("AdaCos", "s ≥"),
    "arcgrad": ("ArcGrad", "s"),
}

_FOLDER = Path(__file__).resolve().parents[1] / "results" / "published"
_INDEX_COLUMNS = ["paper", "version", "number", "table", "file", "caption", "note"]
_TABLE_COLUMNS = ["paper", "version", "table", "dataset", "model", "method", "beta", "setting", "metric", "value", "sd", "unit", "note"]
_CLAIM_COLUMNS = ["id", "paper", "claim", "where", "needs", "data_here"]


def tables(folder: str | Path | None = None) -> pd.DataFrame:
    """The list of the papers' tables.

    Args:
        folder: where the CSV files are; by default ``results/published`` of the repository that gdlib was installed from.

    Returns:
        One row for each table: ``paper``, ``version``, ``number`` (int), ``table`` (as printed, such as "IV"), ``file``, ``caption``,
        ``note``.

    Raises:
        FileNotFoundError: if the folder or its ``tables.csv`` is missing.
        ValueError: if the file does not have these columns.

    Example:
        >>> tables().groupby("paper").size().to_dict()
        {'AG': 7, 'GD-1': 5, 'GD-2': 6, 'LM': 4}
    """
    return _read("tables.csv", _INDEX_COLUMNS, folder).astype({"version": int, "number": int})


def table(paper: str, number: int | str, folder: str | Path | None = None) -> pd.DataFrame:
    """One table of one paper, a row for each printed number.

    Args:
        paper: "GD-1", "GD-2", "LM" or "AG".
        number: the table's number: 4, "4" or, as the ArcGrad paper prints it, "IV".
        folder: where the CSV files are; by default ``results/published`` of the repository that gdlib was installed from.

    Returns:
        The columns ``paper``, ``version``, ``table``, ``dataset``, ``model``, ``method``, ``beta``, then one column for each setting of
        this table (such as ``interval``, ``reg_lambda`` or ``epochs``), then ``metric``, ``value``, ``sd``, ``unit``, ``decimals`` and
        ``note``. ``beta``, ``value``, ``sd`` and those settings that are numbers are floats, NaN where the paper gives none;
        ``decimals`` is the number of printed decimals of ``value``. Text is empty where there is none. Rows are in the order of the
        printed table.

    Raises:
        ValueError: for a paper or a number that does not exist; the message names those that do. Also if the file is malformed.
        FileNotFoundError: if the folder or the file is missing.

    Example:
        >>> t = table("GD-1", 2)
        >>> t[t.model == "ResNet18"].set_index("beta").value.loc[[1.0, 0.1]].to_dict()
        {1.0: 83.9, 0.1: 84.4}
        >>> table("AG", "VII").pivot(index="epochs", columns="method", values="value").loc[10.0, "ArcGrad"].item()
        88.34
    """
    index = tables(folder)
    rows = index[index.paper == paper.upper()]
    if rows.empty:
        raise ValueError(f"no paper {paper!r}; there are {', '.join(index.paper.unique())}")
    rows = rows[(rows.number.astype(str) == str(number)) | (rows.table == str(number).upper())]
    if rows.empty:
        raise ValueError(f"no table {number!r} of {paper}; there are {', '.join(index.table[index.paper == paper.upper()])}")
    printed = _read(rows.file.iloc[0], _TABLE_COLUMNS, folder)
    settings = _settings(printed.setting)
    values = printed.value
    frame = pd.concat([printed.loc[:, :"beta"], settings, printed.loc[:, "metric":"unit"]], axis=1)
    frame["decimals"] = values.str.partition(".")[2].str.len()
    frame["note"] = printed.note
    numbers = {name: pd.to_numeric(frame[name]).astype(float) for name in ("beta", "value", "sd")}
    return frame.assign(version=frame.version.astype(int), **numbers)


def claims(folder: str | Path | None = None) -> pd.DataFrame:
    """Every claim of the papers that the book answers, and the questions of the reviewers and of this project.

    Args:
        folder: where the CSV files are; by default ``results/published`` of the repository that gdlib was installed from.

    Returns:
        Text columns ``paper``, ``claim``, ``where``, ``needs``, ``data_here``, indexed by the claim's ``id`` in the order of the ledger.

    Raises:
        FileNotFoundError: if the folder or its ``claims.csv`` is missing.
        ValueError: if the file does not have these columns, or an id twice.

    Example:
        >>> claims().loc["E5", "claim"]
        'A small β lowers the plain cross-entropy faster, although it is not what is being minimised.'
    """
    frame = _read("claims.csv", _CLAIM_COLUMNS, folder).set_index("id")
    if frame.index.has_duplicates:
        raise ValueError(f"claims.csv has these ids more than once: {', '.join(frame.index[frame.index.duplicated()].unique())}")
    return frame


def loss_name(loss: str) -> str:
    """What the papers call a loss of an experiment, with its hyperparameters.

    Args:
        loss: a name with its numbers, as :func:`study.experiment.method` takes it.

    Returns:
        The name for a figure or a table; a text that is no loss comes back as it is.

    Example:
        >>> loss_name("lm 0.3"), loss_name("arcface 20 0.1"), loss_name("softmax")
        ('LM, λ = 0.3', 'ArcFace, s = 20, m = 0.1', 'softmax')
    """
    name, *numbers = loss.split() or [""]
    if name not in _LOSSES or len(numbers) != len(_LOSSES[name]) - 1:
        return loss
    title, *symbols = _LOSSES[name]
    values = [
        f"{symbol} {number}" if symbol.endswith("≥") else f"{symbol} = {number}" for symbol, number in zip(symbols, numbers, strict=True)
    ]
    return ", ".join([title, *values])


def _read(name: str, columns: list[str], folder: str | Path | None) -> pd.DataFrame:
    """A CSV file of the folder as text, with the columns that it must have."""
    home = _FOLDER if folder is None else Path(folder)
    if not home.is_dir():
        raise FileNotFoundError(
            f"there is no folder {home} with the papers' tables. They are part of the repository: install gdlib from a checkout "
            "(pip install -e .), or pass folder=…"
        )
    path = home / name
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file {path}; the folder holds {', '.join(sorted(p.name for p in home.glob('*.csv'))) or 'no CSV'}"
        )
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    if list(frame.columns) != columns:
        raise ValueError(f"{path} must have the columns {', '.join(columns)}, not {', '.join(frame.columns)}")
    return frame


def _settings(column: pd.Series[str]) -> pd.DataFrame:
    """The text ``a=1; b=x`` of each row as columns a, b; a column becomes float if every entry is a number."""
    pairs = [dict(part.split("=", 1) for part in text.split("; ") if part) for text in column]
    frame = pd.DataFrame(pairs, index=column.index, dtype=object)
    for name in frame:
        try:
            frame[name] = pd.to_numeric(frame[name]).astype(float)
        except ValueError:
            frame[name] = frame[name].fillna("")
    return frame
