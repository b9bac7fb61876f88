"""What all tests share."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

if find_spec("matplotlib") is not None:  # the tests of gdlib do without it
    import matplotlib

    matplotlib.use("agg")

ROOT = Path(__file__).resolve().parent.parent

torch.set_num_threads(1)
settings.register_profile("project", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("project")


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the project."""
    return ROOT


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The local folder with real data, or a skip that says what was not tested."""
    named = os.environ.get("GDLIB_DATA")
    folder = Path(named) if named else ROOT / "data"
    if not (folder / "mnist").is_dir():
        pytest.skip("real MNIST was not tested: there is no mnist/ in GDLIB_DATA or data/")
    return folder
