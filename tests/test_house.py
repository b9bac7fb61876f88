"""The house: the descriptions of the environment agree.

Nothing is kept that does not belong here. Imports: `make lint`.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from study import campaign

ROOT = Path(__file__).resolve().parent.parent


def test_only_experiments_use_the_trainer() -> None:
    for path in (ROOT / "notebooks" / "theory").glob("*.md"):
        code = "\n".join(
            re.findall(
                r"^```\{code-cell\}[^\n]*\n(.*?)^```",
                path.read_text(encoding="utf-8"),
                re.DOTALL | re.MULTILINE,
            )
        )
        trainer = r"gdlib\.train|study\.run|from gdlib import .*\btrain\b|\brun\.\w+\("
        assert not re.search(trainer, code), f"{path.name} uses the trainer"


def test_the_page_of_the_package_names_every_module_of_study() -> None:
    study = ROOT / "study"
    modules = {path.stem for path in study.glob("[!_]*.py")}
    modules |= {path.parent.name for path in study.glob("*/__init__.py")}
    page = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    table = "\n".join(
        line.split("|")[1] for line in page.splitlines() if line.startswith("| `study.")
    )
    named = re.findall(r"`study\.(\w+)`", table)
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


# -- what is named ---------------------------------------------------------------------------------


def test_every_campaign_and_job_that_is_named_is_there() -> None:
    own = "narrow"  # which the page tells a reader to write
    files = [*(ROOT / "book").glob("*.*"), *(ROOT / "profiles").rglob("*.*")]
    files += [*(ROOT / "notebooks").rglob("*.md"), *(ROOT / "campaigns").glob("*")]
    files += [*(ROOT / "benchmarks").glob("*.py"), *ROOT.glob("*file"), *ROOT.glob("*.md")]
    files += [*(ROOT / ".github").rglob("*.yml")]
    folders = (ROOT, ROOT / "book", ROOT / "campaigns")
    there = {path.name for folder in folders for path in folder.glob("*.yml")}
    for path in files:
        text = path.read_text(encoding="utf-8")
        named = set(re.findall(r"[\w-]+\.yml", text))
        given = re.findall(r"(?:CAMPAIGN|--config campaign)=(\w[\w-]*)", text)
        named |= {f"{name}.yml" for name in given}
        assert named <= there | {f"{own}.yml"}, f"{path} names {named - there}"
        for name, job in re.findall(r"study\.campaign run (\w[\w-]*) (\w[\w.-]*)", text):
            jobs = [job.id for job in campaign.load(ROOT / "campaigns" / f"{name}.yml").jobs]
            assert job in jobs, f"{path} names the job {job} of {name}"


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
        made = {".ipynb", ".pt", ".pth", ".npz", ".parquet"}
        if path.is_relative_to(ROOT / "results"):
            made -= {".parquet"}
        assert path.suffix not in made, f"{path.relative_to(ROOT)} is made, not kept"
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
