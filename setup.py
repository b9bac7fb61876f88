"""Give the distribution its addresses; everything else stands in pyproject.toml.

The one setting is ``repository: url`` in _config.yml, which the book reads too. While it is empty,
the distribution names no address.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup


def urls(configuration: str) -> dict[str, str]:
    """Return the addresses of the project, from the text of _config.yml."""
    found = re.search(r'^repository:\n  url: "([^"\n]*)"', configuration, re.MULTILINE)
    if found is None:
        raise ValueError('_config.yml must hold the lines `repository:` and `  url: "..."`')
    address = found[1].rstrip("/")
    if not address:
        return {}
    return {
        "Repository": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
    }


if __name__ == "__main__":
    setup(project_urls=urls(Path(__file__).with_name("_config.yml").read_text(encoding="utf-8")))
