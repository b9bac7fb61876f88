"""The house: the descriptions of the environment agree.

Nothing is kept that does not belong here. Imports: `make lint`.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import jupytext
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("folder", ["theory", "evidence"])
def test_only_experiments_use_the_trainer(folder: str) -> None:
    for path in (ROOT / "notebooks" / folder).glob("*.md"):
        code = "\n".join(
            re.findall(
                r"^```\{code-cell\}[^\n]*\n(.*?)^```",
                path.read_text(encoding="utf-8"),
                re.DOTALL | re.MULTILINE,
            )
        )
        trainer = r"gdlib\.train|study\.run|from gdlib import .*\btrain\b|\brun\.\w+\("
        assert not re.search(trainer, code), f"{path.name} uses the trainer"


# Each has a name of its own in the house: finding, comparison, method, variant, experiment.
SECOND_NAMES = {
    *("arm", "arms", "component", "components", "leaf", "leaves"),
    *("found", "setting", "settings", "template", "told"),
}


def test_what_has_a_name_has_no_second_one() -> None:
    paths = [*(ROOT / "study").rglob("*.py"), ROOT / "results" / "recompute.py"]
    for path in [*paths, ROOT / "notebooks" / "words.py"]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        names = {function.name for function in functions}
        for node in (node for function in functions for node in ast.walk(function)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
        assert not names & SECOND_NAMES, path.relative_to(ROOT)


def test_no_cell_of_a_page_speaks_of_settings() -> None:
    for path in [*ROOT.glob("notebooks/**/*.md"), *ROOT.glob("book/*.md")]:
        names = {
            node.id
            for node in ast.walk(ast.parse(code_of(path)))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        assert not names & {"setting", "settings"}, path.relative_to(ROOT)


# A text is taken apart where it is read from outside, into a value, and where a page is laid out.
READERS = {
    "study/losses.py": "names of losses",
    "study/methods.py": "labels of methods, and symbols of their numbers",
    "study/claims/load.py": "claim files: their names, and what an interval must show",
    "study/published.py": "tables of papers",
    "study/records/form.py": "records: identities, and names of their curves",
    "study/records/record.py": "the JSON of a record, laid out",
    "study/records/tables.py": "names of numbered columns",
    "study/records/text.py": "texts of records, which are shown letter by letter",
    "study/campaign/__main__.py": "what a plan prints, of which the first line is shown; errors",
    "study/campaign/agreement.py": "names of what a record measures, where they end in seconds",
    "study/campaign/plan.py": "campaign files, and patterns of the command line",
    "study/campaign/watch.py": "logs of jobs",
    "study/results.py": "cells and names of columns",
    "study/data/": "names of data files",
    "study/experiment/mistakes.py": "messages of pydantic",
    "study/gpu.py": "messages of PyTorch, and names of its types",
    "study/statistics.py": "formats of numbers",
    "study/headline.py": "README.md between its marks",
    "study/tables/book.py": "MyST in a cell",
    "study/tables/outcomes.py": "labels of pages",
    "study/tables/prose.py": "MyST in a sentence, and names of its numbers",
    "study/figures/style.py": "lines of a title",
    "benchmarks/kernel.py": "messages of libraries, and names of PyTorch's types",
    "benchmarks/loss.py": "what Linux says of a process",
    "benchmarks/measuring.py": "what Linux says of the processor, and messages of the compiler",
    "benchmarks/summary.py": "the command line",
}
TAKING_APART = {
    *("startswith", "endswith", "removeprefix", "removesuffix"),
    *("split", "rsplit", "splitlines", "partition", "rpartition"),
}
PRINTED = {"name", "label", "variant", "text", "title", "schedule", "sentence"}


def code_of(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    cells = jupytext.read(path, fmt="md:myst").cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    return re.sub(r"^[ \t]*%.*$", "", code, flags=re.MULTILINE)


def takes_a_text_apart(node: ast.AST) -> bool:
    """Tell if an expression looks into a text: by a method, an expression of re, or ``in``."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        inside = zip(sides, node.ops, sides[1:], strict=False)
        return any(
            isinstance(operator, ast.In | ast.NotIn)
            and isinstance(part, ast.Constant)
            and isinstance(part.value, str)
            and ast.unparse(whole).rpartition(".")[2] in PRINTED
            for part, operator, whole in inside
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "split" and node.args:  # PyTorch's split of a tensor takes a number
            separator = node.args[0]
            return isinstance(separator, ast.Constant) and isinstance(separator.value, str)
        return node.func.attr in TAKING_APART
    if not isinstance(node, ast.Attribute):
        return False
    owner = ast.unparse(node.value)
    return owner == "re" or owner == "str" and node.attr in TAKING_APART


def test_no_printed_name_is_taken_apart() -> None:
    """Variants, methods and metrics are values: nothing outside the readers parses their texts."""
    paths = [*ROOT.glob("study/**/*.py"), *ROOT.glob("benchmarks/*.py")]
    paths += [*ROOT.glob("notebooks/**/*.md"), *ROOT.glob("book/*.md")]
    named = set()
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        reader = next((one for one in READERS if name.startswith(one)), None)
        code = ast.parse(code_of(path))
        used = {ast.unparse(node) for node in ast.walk(code) if takes_a_text_apart(node)}
        named |= {reader} if used else set()
        assert reader or not used, f"{name} takes a text apart: {', '.join(sorted(used))}"
    assert named - {None} == set(READERS), "a reader that reads nothing any more"


@pytest.mark.parametrize(
    ("code", "apart"),
    [
        ("name.split(',')[0]", True),
        ("float(label.rsplit(' ', 1)[1])", True),
        ("text.split()", True),
        ("any(map(str.split, names))", True),
        ("inputs.split(100)", False),
        ("re.search('β', whole)", True),
        ("'β' not in run.title", True),
        ("'β' in titles", False),
        ("name in ('relu', 'tanh')", False),
    ],
)
def test_a_text_that_is_taken_apart_is_seen(code: str, apart: bool) -> None:
    assert any(map(takes_a_text_apart, ast.walk(ast.parse(code)))) is apart


def test_the_page_of_the_package_names_every_module_of_study() -> None:
    study = ROOT / "study"
    modules = {path.stem for path in study.glob("[!_]*.py")}
    modules |= {path.parent.name for path in study.glob("*/__init__.py")}
    page = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `study\.(\w+)` \|", page, re.MULTILINE)
    assert sorted(named) == sorted(modules)


# -- the environment -------------------------------------------------------------------------------


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in entries), (
        "constraints.txt: one plain name==version a line"
    )
    return {
        canonicalize_name(name): version for name, version in (line.split("==") for line in entries)
    }


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_dependency_is_pinned_within_its_range() -> None:
    wanted = [
        *project()["dependencies"],
        *(line for extra in project()["optional-dependencies"].values() for line in extra),
    ]
    for requirement in map(Requirement, wanted):
        if requirement.name == project()["name"]:
            assert requirement.extras <= set(project()["optional-dependencies"])
            continue
        pin = pins().get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier and requirement.specifier.contains(pin), (
            f"{requirement}: constraints.txt has {pin}"
        )


def test_the_environment_is_the_pinned_one() -> None:
    installed = {
        canonicalize_name(found.name): found.version.split("+")[0]
        for found in metadata.distributions(path=[sysconfig.get_path("purelib")])
    }
    wrong = {
        name: (installed[name], pin)
        for name, pin in pins().items()
        if name in installed and installed[name] != pin
    }
    assert not wrong, f"installed against pinned: {wrong}; run `make venv`"


def test_conda_ends_in_the_same_versions() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (through_pip,) = [
        entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)
    ]
    assert sorted(entry.split("=")[0] for entry in conda) == ["pip", "python"], (
        "only Python comes from conda; pip brings the pinned rest"
    )
    (python,) = [entry.split("=")[1] for entry in conda if entry.startswith("python=")]
    assert Requirement(f"python{project()['requires-python']}").specifier.contains(python)
    assert through_pip == ["-c constraints.txt", "-e .[dev]"]
    assert '-c constraints.txt -e ".[dev]"' in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f'python_version = "{python}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_version_is_one() -> None:
    import gdlib

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert gdlib.__version__ == project()["version"] == str(citation["version"])
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d\S*)", changes, re.MULTILINE)[0] == gdlib.__version__
    welcome = (ROOT / "book" / "welcome.md").read_text(encoding="utf-8")
    assert re.findall(r"version = \{(.*)\}", welcome) == [gdlib.__version__]


def test_the_address_of_the_repository_has_one_setting() -> None:
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert project()["dynamic"] == ["urls"] and "urls" not in project()  # setup.py reads it
    assert citation.get("repository-code", "") == settings["repository"]["url"], (
        "CITATION.cff: `repository-code` is the `repository: url` of _config.yml, where that is set"
    )


def test_nobody_is_told_to_install_another_project() -> None:
    name = re.compile(r"""pip install [^\n#]*(?<![\w./-])gdlib(?![\w/-])""")
    for path in kept():
        if path == Path(__file__) or path.suffix in {".png", ".ico"}:
            continue
        found = name.search(path.read_text(encoding="utf-8", errors="replace"))
        assert not found, f"{path.relative_to(ROOT)}: {found.group()}; it is gradient-decay"


@pytest.mark.parametrize("home", [None, "/somewhere"])
def test_a_user_without_a_home_gets_one_from_make(home: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    environment |= {} if home is None else {"HOME": home}
    done = subprocess.run(
        ["make", "-s", "--eval=home: ; @echo $$HOME", "home"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == (home or str(ROOT / "build" / "home")), done.stderr


def test_the_workflow_runs_actions_of_one_commit_without_credentials() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert steps
    for step in steps:
        action, _, commit = step["uses"].partition("@")
        assert re.fullmatch("[0-9a-f]{40}", commit), f"{step['uses']}: a tag can be moved"
        if action == "actions/checkout":
            assert step["with"]["persist-credentials"] is False
    assert workflow["permissions"] == {"contents": "read"}


def test_the_image_runs_as_no_root() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert users and users[-1] != "root"


# -- what is kept ----------------------------------------------------------------------------------


def kept() -> list[Path]:
    """What git keeps, or would keep."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: what is committed was not looked at")
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


def test_no_notebook_and_no_large_file_is_kept() -> None:
    for path in kept():
        assert path.suffix not in {".ipynb", ".pt", ".pth", ".npz", ".parquet"}, (
            f"{path.relative_to(ROOT)} is made, not kept"
        )
        assert path.stat().st_size <= 1_000_000, (
            f"{path.relative_to(ROOT)} has {path.stat().st_size:,} bytes; the limit is 1,000,000"
        )


def test_no_index_and_no_private_path_is_named() -> None:
    index = re.compile(
        r"(?:--(?:extra-)?index-url|--find-links|--trusted-host|pypi\.org|pythonhosted|/(?:root|home/\w+|work)/)"
    )
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
        assert content["jupytext"]["text_representation"] == {
            "extension": ".md",
            "format_name": "myst",
        }, path.name
