"""The local folder, and checksums."""

import hashlib
import os
import re
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


def listed(folder: Path) -> dict[str, str]:
    """Read the SHA-256 of a folder's files by name from the list ``SHA256SUMS`` beside the folder.

    Empty where it names none of them.
    """
    listing, sums = folder.parent / "SHA256SUMS", {}
    lines = (
        listing.read_text(encoding="utf-8", errors="replace").splitlines()
        if listing.is_file()
        else []
    )
    for number, line in enumerate(lines, start=1):
        entry = re.fullmatch(r"([0-9a-f]{64})\s+\*?(?:\./)?(.+)", line.strip())
        if entry is None and line.strip():
            raise ValueError(
                f"{listing}, line {number}: a SHA-256 and a path expected, not {line!r}"
            )
        if entry is not None and Path(entry[2]).parent.as_posix() == folder.name:
            sums[Path(entry[2]).name] = entry[1]
    return sums


def checksum(file: Path) -> str:
    """Compute the SHA-256 of a file.

    It is held against the list ``SHA256SUMS`` where there is one.
    """
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    known = listed(file.parent).get(file.name, digest)
    if known != digest:
        raise ValueError(
            f"{file} is damaged: its SHA-256 is {digest}, but SHA256SUMS says {known}; copy the "
            f"file again"
        )
    return digest
