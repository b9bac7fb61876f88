"""Ruff over the code of the notebooks, which are MyST Markdown: python notebooks/lint.py [--write].

Ruff reads a notebook cell by cell, with rules of its own for the last line of a cell; so the files
are converted to .ipynb, and only the code of cells that changed is put back. (`jupytext --pipe`
would write captions and headers anew.)
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parent.parent
# A notebook needs no docstrings: its prose stands between the cells. Captions in the cells are
# prose too, and may be long lines.
CHECK = ("check", "--no-respect-gitignore", "--extend-ignore", "D,E501")
FORMAT = ("format", "--no-respect-gitignore")


def all_notebooks() -> list[Path]:
    """List the notebooks: all of ``notebooks/``, and the pages of the book that have code."""
    computing = [
        path
        for path in (ROOT / "book").glob("*.md")
        if "```{code-cell}" in path.read_text(encoding="utf-8")
    ]
    return sorted([*(ROOT / "notebooks").rglob("*.md"), *computing])


def put_back(source: Path, formatted: Path) -> None:
    """Replace the code of those cells that ruff changed.

    Everything else in the file stays as it is, to the letter.
    """
    text = before = source.read_text(encoding="utf-8")
    for old, new in zip(
        jupytext.read(source).cells, nbformat.read(formatted, as_version=4).cells, strict=True
    ):
        if old.cell_type == "code" and old.source != new.source:
            before_ruff = f"\n{old.source}\n```"
            after_ruff = f"\n{new.source}\n```"
            assert before_ruff in text, f"{source}: this cell is not there: {old.source[:80]}"
            text = text.replace(before_ruff, after_ruff, 1)
    if text != before:
        source.write_text(text, encoding="utf-8")
        print(f"formatted {source.relative_to(ROOT)}")


def main(write: bool) -> int:
    """Check the notebooks, or put their code into shape; an exit status."""
    with tempfile.TemporaryDirectory() as folder:
        converted = {
            source: Path(folder) / source.relative_to(ROOT).with_suffix(".ipynb")
            for source in all_notebooks()
        }
        for source, target in converted.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(jupytext.read(source), target)
        commands = [
            (*CHECK, "--fix") if write else CHECK,
            FORMAT if write else (*FORMAT, "--check"),
        ]
        ruff = [sys.executable, "-m", "ruff"]
        failed = [
            subprocess.run(
                [*ruff, *command, "--config", str(ROOT / "pyproject.toml"), "."], cwd=folder
            ).returncode
            for command in commands
        ]
        for source, target in converted.items() if write else []:
            put_back(source, target)
    if any(failed) and not write:
        print("notebooks: `make format` repairs what can be repaired", file=sys.stderr)
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
