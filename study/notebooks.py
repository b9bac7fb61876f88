"""The notebooks as files: conversion from MyST Markdown, their parameters, and ruff over their code.

From the root of the project::

    python -m study.notebooks check      # ruff check and ruff format --check
    python -m study.notebooks format     # let ruff put the code cells into shape
    python -m study.notebooks convert notebooks/experiments/train.md run.ipynb
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import papermill

ROOT = Path(__file__).resolve().parent.parent
# A notebook needs no docstrings: its prose stands between the cells. Captions in the cells are prose too, and may be long lines.
RUFF = (
    ("ruff", "check", "--no-respect-gitignore", "--extend-ignore", "D,E501"),
    ("ruff", "format", "--no-respect-gitignore"),
)


@dataclass(frozen=True)
class Parameter:
    """One line of a notebook's parameter cell: name, annotation as written (or ``None``), default value, trailing comment."""

    name: str
    annotation: str | None
    default: Any
    help: str


def all_notebooks() -> list[Path]:
    """Every notebook of the project: all of ``notebooks/``, and the pages of the book that compute something."""
    computing = [path for path in (ROOT / "book").glob("*.md") if "```{code-cell}" in path.read_text(encoding="utf-8")]
    return sorted([*(ROOT / "notebooks").rglob("*.md"), *computing])


def read(source: Path) -> nbformat.NotebookNode:
    """A MyST Markdown notebook, as cells."""
    return jupytext.read(source)


def convert(source: Path, target: Path) -> None:
    """Write a MyST Markdown notebook as ``.ipynb``, without outputs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(read(source), target)


def parameters(source: Path) -> dict[str, Parameter]:
    """The parameters of a notebook, as papermill sees them.

    Args:
        source: a MyST Markdown notebook with one cell tagged ``parameters``.

    Returns:
        The parameters by name, in the order of the cell.

    Raises:
        ValueError: if a default is not a literal; it could not be overridden or recorded.
    """
    with tempfile.TemporaryDirectory() as folder:
        converted = Path(folder) / "notebook.ipynb"
        convert(source, converted)
        found = papermill.inspect_notebook(str(converted))
    result = {}
    for name, entry in found.items():
        try:
            default = ast.literal_eval(entry["default"])
        except (ValueError, SyntaxError) as error:
            raise ValueError(f"{source}: the default of {name} is {entry['default']}; a parameter needs a literal on one line") from error
        annotation = entry["inferred_type_name"]
        result[name] = Parameter(name, None if annotation == "None" else annotation, default, entry["help"])
    return result


def _ruff(folder: Path, *, write: bool) -> int:
    """Run ruff over converted notebooks; returns how many of its commands failed."""
    check, form = RUFF
    commands = [(*check, "--fix") if write else check, form if write else (*form, "--check")]
    config = ("--config", str(ROOT / "pyproject.toml"))
    return sum(subprocess.run([sys.executable, "-m", *command, *config, "."], cwd=folder).returncode != 0 for command in commands)


def _put_back(source: Path, formatted: Path) -> None:
    """Replace the code of those cells that ruff changed; everything else in the file stays as it is, to the letter."""
    text = before = source.read_text(encoding="utf-8")
    for old, new in zip(read(source).cells, nbformat.read(formatted, as_version=4).cells, strict=True):
        if old.cell_type == "code" and old.source != new.source:
            there, back = f"\n{old.source}\n```", f"\n{new.source}\n```"
            if there not in text:
                raise ValueError(f"{source}: this cell was not found again: {old.source[:80]}")
            text = text.replace(there, back, 1)
    if text != before:
        source.write_text(text, encoding="utf-8")
        print(f"formatted {source.relative_to(ROOT)}")


def lint(*, write: bool = False) -> int:
    """Run ruff over the code of all notebooks.

    Args:
        write: put the cells into shape, instead of saying what is wrong.

    Returns:
        An exit status, 0 if nothing is wrong.
    """
    notebooks = all_notebooks()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in notebooks:
            convert(source, folder / source.relative_to(ROOT).with_suffix(".ipynb"))
        failed = _ruff(folder, write=write) if notebooks else 0
        for source in notebooks if write else []:
            _put_back(source, folder / source.relative_to(ROOT).with_suffix(".ipynb"))
    if failed and not write:
        print("notebooks: `make format` repairs what can be repaired", file=sys.stderr)
    return int(failed > 0)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("format")
    conversion = commands.add_parser("convert")
    conversion.add_argument("source", type=Path)
    conversion.add_argument("target", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "convert":
        convert(arguments.source, arguments.target)
        return 0
    return lint(write=arguments.command == "format")


if __name__ == "__main__":
    sys.exit(main())
