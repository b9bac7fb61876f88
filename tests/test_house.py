"""The house: imports run downwards, the descriptions of the environment agree, and nothing is kept that does not belong here."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent

# Which modules a module of the same package may import: the design, from the ground up.
ALLOWED: dict[str, dict[str, set[str]]] = {
    "gdlib": {
        "functional": set(),
        "schedules": set(),
        "calibration": set(),
        "heads": {"functional"},
        "losses": {"functional"},
        "models": {"heads", "functional"},
        "train": {"models"},
        "__init__": {"functional", "losses", "schedules", "calibration"},
    },
    "study": {
        "statistics": set(),
        "geometry": set(),
        "records": set(),
        "published": set(),
        "data": set(),
        "tables": {"published", "statistics"},
        "claims": {"published", "records", "statistics"},
        "curriculum": {"geometry"},
        "experiment": {"curriculum", "data", "geometry", "records"},
        "campaign": {"experiment", "records"},
        "figures": {"statistics", "geometry", "records", "published"},
        "notebooks": set(),
        "headline": {"claims", "published", "records", "statistics"},
        "jobs": {"campaign", "experiment", "notebooks"},
        "__init__": set(),
    },
}
NOTEBOOKS = {"sympy", "papermill", "IPython", "nbformat", "nbclient", "jupytext", "notebooks", "tests", "snakemake"}
NOT_IN_GDLIB = {"study", "pandas", "scipy", "sklearn", "matplotlib", "seaborn", "yaml", "pydantic", "pyarrow", "PIL"}
NO_TORCH = {"schedules", "records", "published", "statistics"}


def imports(path: Path) -> set[str]:
    """Full names of everything that a file imports, also inside functions: study.records, matplotlib.pyplot ..."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import; write the full name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def modules(package: str) -> list[str]:
    return sorted(
        path.stem if path.is_file() else path.name
        for path in (ROOT / package).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    )


def files_of(package: str, module: str) -> list[Path]:
    path = ROOT / package / f"{module}.py"
    return [path] if path.is_file() else sorted((ROOT / package / module).rglob("*.py"))


@pytest.mark.parametrize(("package", "module"), [(package, module) for package in ALLOWED for module in modules(package)])
def test_imports_run_downwards(package: str, module: str) -> None:
    assert module in ALLOWED[package], f"{package}.{module} is new: say in this test what it may import"
    for path in files_of(package, module):
        for name in imports(path):
            top, *rest = name.split(".")
            assert top not in NOTEBOOKS or module in {"jobs", "notebooks", "tables"}, (
                f"{path.name} imports {name}; only study.jobs knows notebooks"
            )
            assert package != "gdlib" or top not in NOT_IN_GDLIB, f"{path.name} imports {name}; gdlib needs torch, numpy and tqdm alone"
            if top == package and rest and rest[0] != module and rest[0] in modules(package):
                below = ALLOWED[package][module]
                assert rest[0] in below, f"{path.name} imports {name}; it may import {sorted(below) or 'no sibling'}"
            if top in {"matplotlib", "seaborn", "mpl_toolkits"}:
                assert module == "figures", f"{path.name} imports {name}; only figures draws"
            if top == "torch":
                assert module not in NO_TORCH, f"{path.name} imports {name}; it should not need torch"


@pytest.mark.parametrize("package", ALLOWED)
def test_the_order_has_no_circle(package: str) -> None:
    placed: set[str] = set()
    while len(placed) < len(ALLOWED[package]):
        ready = {module for module, below in ALLOWED[package].items() if module not in placed and below <= placed}
        assert ready, f"circle among {sorted(set(ALLOWED[package]) - placed)}"
        placed |= ready


@pytest.mark.parametrize("folder", ["theory", "evidence"])
def test_only_experiments_train(folder: str) -> None:
    for path in (ROOT / "notebooks" / folder).glob("*.md"):
        code = "\n".join(re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))
        assert not re.search(r"gdlib\.train|from gdlib import .*\btrain\b|experiment\.run\(", code), f"{path.name} trains"


# -- the environment -----------------------------------------------------------------------------------------------------------------------


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in entries), (
        "constraints.txt: one plain name==version a line"
    )
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in entries)}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_dependency_is_pinned_within_its_range() -> None:
    wanted = [*project()["dependencies"], *(line for extra in project()["optional-dependencies"].values() for line in extra)]
    for requirement in map(Requirement, wanted):
        if requirement.name == "gdlib":
            assert requirement.extras <= set(project()["optional-dependencies"])
            continue
        pin = pins().get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier and requirement.specifier.contains(pin), f"{requirement}: constraints.txt has {pin}"


def test_the_environment_is_the_pinned_one() -> None:
    installed = {canonicalize_name(found.name): found.version.split("+")[0] for found in metadata.distributions()}
    wrong = {name: (installed[name], pin) for name, pin in pins().items() if name in installed and installed[name] != pin}
    assert not wrong, f"installed against pinned: {wrong}; run `make venv`"


def test_conda_ends_in_the_same_versions() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (through_pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert sorted(entry.split("=")[0] for entry in conda) == ["pip", "python"], "only Python comes from conda; pip brings the pinned rest"
    (python,) = [entry.split("=")[1] for entry in conda if entry.startswith("python=")]
    assert Requirement(f"python{project()['requires-python']}").specifier.contains(python)
    assert through_pip == ["-c constraints.txt", "-e .[dev]"]
    assert '-c constraints.txt -e ".[dev]"' in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f'python_version = "{python}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_version_is_one() -> None:
    import gdlib

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert gdlib.__version__ == project()["version"] == str(citation["version"])


# -- what is kept --------------------------------------------------------------------------------------------------------------------------


def kept() -> list[Path]:
    """What git keeps, or would keep."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: what is committed was not looked at")
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


def test_no_notebook_and_no_large_file_is_kept() -> None:
    for path in kept():
        assert path.suffix not in {".ipynb", ".pt", ".pth", ".npz", ".parquet"}, f"{path.relative_to(ROOT)} is made, not kept"
        assert path.stat().st_size <= 1_000_000, f"{path.relative_to(ROOT)} has {path.stat().st_size:,} bytes; the limit is 1,000,000"


def test_no_index_and_no_private_path_is_named() -> None:
    index = re.compile(r"(?:--(?:extra-)?index-url|--find-links|--trusted-host|pypi\.org|pythonhosted|/(?:root|home/\w+|work)/)")
    for path in kept():
        if path == Path(__file__) or path.suffix in {".png", ".ico"}:
            continue
        found = index.search(path.read_text(encoding="utf-8", errors="replace"))
        assert not found, f"{path.relative_to(ROOT)} names {found.group()!r}"


def test_notebooks_carry_the_header_that_papermill_and_the_book_need() -> None:
    expected = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for path in sorted((ROOT / "notebooks").rglob("*.md")):
        _, header, _ = path.read_text(encoding="utf-8").split("---\n", 2)
        content = yaml.safe_load(header)
        assert content["kernelspec"] == expected, path.name
        assert content["jupytext"]["text_representation"] == {"extension": ".md", "format_name": "myst"}, path.name
