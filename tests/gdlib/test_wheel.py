"""What a stranger installs.

The wheel holds gdlib alone, the sdist tests itself, and the lines of both READMEs run where pandas
and the like are not there.
"""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]

# What the README leaves to its reader.
BEFORE = """
import sys

sys.modules.update(dict.fromkeys({names}))  # an import of one of them fails

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
labels = torch.randint(3, (60,))
inputs = torch.nn.functional.one_hot(labels, 3) + 0.1 * torch.randn(60, 3)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=20)
batches = [batch for epoch in range(5) for batch in loader]
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
new_inputs = loader.dataset.tensors[0]
start = torch.nn.functional.cross_entropy(model(loader.dataset.tensors[0]), labels).item()
"""
AFTER = """
import gdlib
# imported with the package
assert gdlib.calibration and gdlib.heads and gdlib.models and gdlib.schedules and gdlib.train
inputs, labels = loader.dataset.tensors
end = torch.nn.functional.cross_entropy(model(inputs), labels).item()
assert end < 0.7 * start, (start, end)
assert len(history) == 21 and (predictions == loader.dataset.tensors[1]).float().mean() > 0.9
print(gdlib.__file__)
"""
ABSENT = {
    "study",
    "pandas",
    "scipy",
    "sklearn",
    "matplotlib",
    "seaborn",
    "yaml",
    "pydantic",
    "pyarrow",
    "PIL",
    "huggingface_hub",
    "IPython",
}


ROOT_FILES = [
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "_config.yml",
    "pyproject.toml",
    "setup.py",
]
README_FILES = ["README.md", "gdlib/README.md"]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel.

    They are built from a copy, so that the checkout stays as it is.

    As on an index, the wheel is built from the sdist.
    """
    source = tmp_path_factory.mktemp("source")
    for folder in ("gdlib", "study", "tests"):
        if (ROOT / folder).is_dir():  # an unpacked sdist has no study/
            shutil.copytree(
                ROOT / folder,
                source / folder,
                ignore=shutil.ignore_patterns("__pycache__", "node_modules"),
            )
    for name in ROOT_FILES:
        shutil.copyfile(ROOT / name, source / name)
    built = tmp_path_factory.mktemp("built")
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(built)], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (sdist,) = built.glob("*.tar.gz")
    build = [*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*build, "-w", str(built), str(sdist)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return built


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    """The wheel."""
    (path,) = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """What an index shows of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        return message_from_string(archive.read(name).decode())


def test_the_wheel_holds_the_package_alone(wheel: Path, metadata: Message) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0].partition("-")[0] for name in names}
    assert tops == {"gdlib", "gradient_decay"}
    held = {name for name in names if name.startswith("gdlib/")}
    assert held == {
        path.relative_to(ROOT).as_posix()
        for suffix in ("*.py", "py.typed")
        for path in (ROOT / "gdlib").rglob(suffix)
    }
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {re.split(r"[^\w-]", line)[0] for line in needed} == {"torch", "numpy"}


def test_what_an_index_shows(metadata: Message) -> None:
    assert metadata["Name"] == "gradient-decay"
    assert metadata["License-Expression"] == "MIT"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload()
    assert "pip install gradient-decay" in text
    # an index knows neither the files beside the text nor formulas
    assert not re.search(r"\]\((?!https?:)|<img|\$\$|!\[", text)


def test_addresses_come_from_the_one_setting(metadata: Message) -> None:
    configuration = (ROOT / "_config.yml").read_text(encoding="utf-8")
    given = [line.split(", ", 1) for line in metadata.get_all("Project-URL", [])]
    urls = runpy.run_path(str(ROOT / "setup.py"))["urls"]
    assert dict(given) == urls(configuration)
    somewhere = urls('repository:\n  url: "https://forge.invalid/someone/book/"\n')
    assert somewhere["Repository"] == "https://forge.invalid/someone/book"
    assert somewhere["Changelog"] == "https://forge.invalid/someone/book/blob/HEAD/CHANGELOG.md"
    assert urls('repository:\n  url: ""\n') == {}
    with pytest.raises(ValueError, match="must hold the lines"):
        urls("title: a book\n")


def test_the_sdist_holds_the_package_and_its_tests(distributions: Path, tmp_path: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*.py")}
    mine = {
        path.relative_to(ROOT).as_posix()
        for folder in ("gdlib", "tests/gdlib")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert held == mine | {"setup.py", "tests/conftest.py"}
    assert {path.name for path in unpacked.iterdir() if path.is_file()} >= set(ROOT_FILES)
    # they find the copy beside them, and need no clone
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/gdlib/test_schedules.py"], cwd=unpacked, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("name", README_FILES)
def test_the_lines_of_the_readme_run_where_it_alone_is_installed(
    wheel: Path, tmp_path: Path, name: str
) -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / name).read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    assert len(blocks) == 2, "with the reader's own loop, and a sweep"
    assert all("gdlib" in block and len(block.splitlines()) <= 14 for block in blocks)
    lines = "".join(f"inputs, labels = loader.dataset.tensors\n{block}" for block in blocks)
    place = tmp_path / "installed"
    subprocess.run(
        [*PIP, "install", "--quiet", "--no-deps", "--no-index", "--target", str(place), str(wheel)],
        check=True,
    )
    script = BEFORE.format(names=ABSENT) + f"sys.path.insert(0, {str(place)!r})\n" + lines + AFTER
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert Path(done.stdout.strip()).is_relative_to(place), "another copy of gdlib was imported"
