"""The local folder, and checksums."""

import hashlib
import os
from pathlib import Path

from study import ROOT


def local_folder() -> Path:
    """Find the local folder: ``GDLIB_DATA``, else ``data/`` in the project.

    A folder that was named must exist: a typing error must not end at the hub.
    """
    named = os.environ.get("GDLIB_DATA")
    if not named:
        return ROOT / "data"
    if not Path(named).is_dir():
        raise FileNotFoundError(
            f"there is no data folder {named}: name another one in GDLIB_DATA, or unset it"
        )
    return Path(named)


def checksum(file: Path) -> str:
    """Compute the SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
