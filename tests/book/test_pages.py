"""A page of an experiment shows the experiment, and a reader can hold it in mind."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jupytext
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "notebooks" / "experiments").glob("*.md"))
WORDS, PARAMETERS, NAMES = 1_200, 12, 6


def cells(page: Path, kind: str) -> list[str]:
    return [cell.source for cell in jupytext.read(page).cells if cell.cell_type == kind]


def trees(page: Path) -> list[ast.Module]:
    code = (
        re.sub(r"\A---\n.*?^---\n", "", source, flags=re.DOTALL | re.MULTILINE)
        for source in cells(page, "code")
    )
    return [ast.parse(source) for source in code]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
class TestPage:
    def test_the_loss_the_network_and_the_loop_are_in_sight(self, page: Path) -> None:
        imported = [
            node.module
            for tree in trees(page)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
        ]
        assert any(name.startswith("gdlib") for name in imported)
        called = {
            node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            for tree in trees(page)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute))
        }
        assert "train" in called, "the loop"
        assert any(name.endswith("Loss") for name in called), "the loss"
        assert called & {"load", "table"}, "the data"

    def test_this_run_and_the_runs_at_scale_are_told_apart(self, page: Path) -> None:
        first = cells(page, "markdown")[0]
        assert "**on this page**" in first.lower()
        assert re.search(r"\*\*(below|at the papers' scale)\*\*", first, re.IGNORECASE)

    def test_few_names_of_the_study(self, page: Path) -> None:
        names = {
            alias.name
            for tree in trees(page)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "study"
            for alias in node.names
        }
        assert 0 < len(names) <= NAMES, names

    def test_few_parameters(self, page: Path) -> None:
        (cell,) = [
            cell.source
            for cell in jupytext.read(page).cells
            if "parameters" in cell.metadata.get("tags", [])
        ]
        assert len(ast.parse(cell).body) <= PARAMETERS

    def test_its_parameters_are_checked(self, page: Path) -> None:
        assert f'run.begin("{page.stem}", globals())' in "".join(cells(page, "code"))

    def test_few_words(self, page: Path) -> None:
        words = " ".join(cells(page, "markdown")).split()
        assert len(words) <= WORDS, f"{len(words)} words"

    def test_the_answer_comes_first(self, page: Path) -> None:
        first = cells(page, "markdown")[0]
        answer = next(part for part in first.split("\n\n") if part.startswith("**"))
        assert len(answer.split()) <= 60
