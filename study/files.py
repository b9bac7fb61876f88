"""Files that are there whole, or not there, and the types of JSON."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = 6
"""Of a number that was measured."""
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


def write_whole(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text as :func:`whole` does."""
    with whole(path) as file:
        file.write(text.encode())
    return Path(path)


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[BufferedRandom]:
    """Write a file atomically, also where several machines write to one folder.

    It is there whole, or it is not there.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{socket.gethostname()}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)  # a full disk does not say which file
        raise
    finally:
        partial.unlink(missing_ok=True)


def plain(value: Any, digits: int = DIGITS) -> Any:
    """Give a value in JSON's types.

    Floats are rounded to six digits, and those that are no number become null.
    """
    if isinstance(value, Mapping):
        return {str(name): plain(item, digits) for name, item in value.items()}
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return plain(value.tolist(), digits)
    if isinstance(value, Iterable):
        return [plain(item, digits) for item in value]
    raise TypeError(f"a table cannot hold a {type(value).__name__}")


@contextmanager
def locked(path: Path, doing: str) -> Iterator[None]:
    """Wait until no other process is ``doing`` the same, as the lock in a file tells.

    The lock ends with its process, however that ends, and holds on NFS. Where the file system has
    no locks, a line says so, and the work is done: a second process would write the same.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            print(f"waiting: {file.read().strip() or 'another process'} {doing}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            print(
                f"warning: {path.parent} is on a file system without locks (flock: "
                f"{error.strerror}); run this campaign from one machine, one command at a time",
                flush=True,
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
