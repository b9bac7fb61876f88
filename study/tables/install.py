"""The line that installs the package, as the reader of a page can type it."""

import tomllib

from study import ROOT
from study.yaml_files import read_yaml


def command() -> str:
    """Write the line: from the address of the repository, or in a clone where there is none.

    The address is ``repository: {url: ...}`` in ``_config.yml``, the name that of
    ``pyproject.toml``.
    """
    book = read_yaml(ROOT / "_config.yml")
    address = str(book["repository"]["url"] or "").rstrip("/")
    if not address:
        return "# in a clone of this repository\npip install ."
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f'pip install "{project["name"]} @ git+{address}"'
