"""Read the YAML files of the repository: with the loader in C where there is one, for speed.

A file that anyone may have written, such as a campaign, is read by :mod:`study.campaign`, which
bounds what it can hold.
"""

from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads what ``yaml.safe_load`` reads, about ten times as fast where PyYAML has its C part."""


def read_yaml(path: Path) -> Any:
    """Read what a file holds; :class:`yaml.YAMLError` for what is no YAML."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
