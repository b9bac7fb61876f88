"""What a stranger installs: the wheel holds gdlib alone, and the lines of the README run where pandas and the like are not there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
loader = DataLoader(TensorDataset(torch.nn.functional.one_hot(labels, 3) + 0.1 * torch.randn(60, 3), labels), batch_size=20)
batches = [batch for epoch in range(5) for batch in loader]
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
start = torch.nn.functional.cross_entropy(model(loader.dataset.tensors[0]), labels).item()
"""
AFTER = """
import gdlib
assert gdlib.calibration and gdlib.heads and gdlib.models and gdlib.schedules and gdlib.train  # imported with the package
end = torch.nn.functional.cross_entropy(model(loader.dataset.tensors[0]), loader.dataset.tensors[1]).item()
assert end < 0.7 * start, (start, end)
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that the checkout stays as it is."""
    source = tmp_path_factory.mktemp("source")
    for folder in ("gdlib", "study"):
        shutil.copytree(
            ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    done = subprocess.run([*pip, "-w", str(source), str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (path,) = source.glob("*.whl")
    return path


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith("METADATA")]
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"gdlib"}
    held = {name for name in names if name.startswith("gdlib/")}
    assert held == {
        path.relative_to(ROOT).as_posix()
        for suffix in ("*.py", "py.typed")
        for path in (ROOT / "gdlib").rglob(suffix)
    }
    needed = [
        line
        for line in re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
        if "extra ==" not in line
    ]
    assert {re.split(r"[^\w-]", line)[0] for line in needed} == {"torch", "numpy", "tqdm"}


def test_the_lines_of_the_readme_run_where_it_alone_is_installed(
    wheel: Path, tmp_path: Path
) -> None:
    (lines, *_) = re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    assert "gdlib" in lines and len(lines.splitlines()) <= 12
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
