"""The local folder, the cache folder, and checksums."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

__all__ = ["cache_folder", "checksum", "local_folder"]


def local_folder() -> Path:
    """The folder ``GDLIB_DATA``, else ``shared/data`` beside the project."""
    if "GDLIB_DATA" in os.environ:
        return Path(os.environ["GDLIB_DATA"])
    return Path(__file__).resolve().parents[3] / "shared" / "data"


def cache_folder() -> Path:
    """The folder ``GDLIB_CACHE``, else ``~/.cache/gdlib``."""
    return Path(os.environ.get("GDLIB_CACHE", Path.home() / ".cache" / "gdlib"))


def checksum(file: Path) -> str:
    """The SHA-256 of a file, held against the list ``SHA256SUMS`` beside the data where there is one.

    Raises:
        ValueError: for a file that differs from the list.
    """
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    listing = file.parent.parent / "SHA256SUMS"
    if listing.is_file():
        expected = {line.split()[1].lstrip("*./"): line.split()[0] for line in listing.read_text().splitlines() if line.strip()}
        known = expected.get(f"{file.parent.name}/{file.name}")
        if known is not None and known != found:
            raise ValueError(f"{file} is damaged: its SHA-256 is {found}, but {listing} says {known}; copy the file again")
    return found
