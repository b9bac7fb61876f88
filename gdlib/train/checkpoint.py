"""The file from which training resumes: written as a whole, followed by a checksum.

A file with the right checksum was written by :func:`save`, so its parts are not checked one by one.
"""

from __future__ import annotations

import copy
import hashlib
import io
import os
import pickle
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from gdlib.functional._arguments import check_whole

History = list[dict[str, Any]]
_ALWAYS = ("identity", "settings", "random", "history", "model", "optimizer", "rates")


class Checkpoint:
    """Keep the state of a training in a file, and restore it.

    Args:
        path: the file; None to keep nothing.
        every: epochs between two writes.
        identity: describes the training; a file with a different one is refused.
        settings: the numbers that determine the training; a file with different ones is refused.
        parts: the objects that have a state, by name.

    Raises:
        TypeError: if ``path`` is not a path.
        ValueError: if ``every`` is below 1 or the path is a directory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        every: int,
        identity: str,
        settings: Mapping[str, Any],
        parts: Mapping[str, Any],
    ) -> None:
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"checkpoint must be the name of a file; got {path!r}")
        self.path = None if path is None else Path(path).expanduser().resolve()
        if self.path is not None and self.path.is_dir():
            raise ValueError(
                f"a checkpoint is a file, but {self.path} is a directory; "
                f"name a file in it, such as {self.path / 'state.pt'}"
            )
        self.every = check_whole("checkpoint_every", every, 1)
        self.identity = identity
        self.settings, self.parts = dict(settings), dict(parts)
        self.unsaved: dict[str, Any] | None = None  # the state of the last epoch, if no file has it

    def update(self, history: History) -> None:
        """Take the state after an epoch, and write it if a write is due."""
        if self.path is None:
            return
        state = {
            "identity": self.identity,
            "settings": self.settings,
            **self._states(),
            "random": torch.get_rng_state(),
            "history": list(history),
        }
        if history[-1]["epoch"] == 0:
            _check_readable(state)
        self.unsaved = state
        if history[-1]["epoch"] % self.every == 0:
            self.write()

    def write(self) -> None:
        """Write the state of the last epoch, if no file has it."""
        if self.path is not None and self.unsaved is not None:
            save(self.path, self.unsaved)
            self.unsaved = None

    def restore(self, epochs: int) -> History:
        """Restore the state from the file, if there is one; return its history, from epoch 0.

        A file that is refused leaves everything as it was.

        Args:
            epochs: how many epochs the training is to have in total.

        Raises:
            ValueError: for a file that is damaged, belongs to another training, or has more epochs.
        """
        if self.path is None or not self.path.exists():
            return []
        path = self.path
        state = self._read(path)
        self._check_training(path, state)
        if len(state["history"]) > epochs + 1:
            raise ValueError(
                f"the checkpoint {path} holds {len(state['history']) - 1} epochs, more than "
                f"epochs={epochs}; ask for as many or more, or name another file"
            )
        before = self._states()
        try:
            for name, part in self.parts.items():
                part.load_state_dict(state[name])
        except Exception as error:
            for name, part in self.parts.items():
                part.load_state_dict(before[name])
            reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
            raise ValueError(
                f"the checkpoint {path} is damaged, or of a model of a different shape ({reason}); "
                "delete it to start again"
            ) from error
        torch.set_rng_state(state["random"])
        return list(state["history"])

    def _states(self) -> dict[str, Any]:
        return copy.deepcopy({name: part.state_dict() for name, part in self.parts.items()})

    def _read(self, path: Path) -> dict[str, Any]:
        content = path.read_bytes()  # a failure to read is no reason to delete the file
        try:
            if hashlib.sha256(content[:-32]).digest() != content[-32:]:
                raise ValueError("its checksum differs")
            state = torch.load(io.BytesIO(content[:-32]), weights_only=True, map_location="cpu")
            if missing := set(_ALWAYS).difference(state):
                raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".split("\n")[0][:200]
            raise ValueError(
                f"the checkpoint {path} is damaged ({reason}), or not from train; delete it to "
                "start again, or name another file"
            ) from error
        checked: dict[str, Any] = state
        return checked

    def _check_training(self, path: Path, state: Mapping[str, Any]) -> None:
        """Refuse the state of another training."""
        if state["identity"] != self.identity:
            raise ValueError(
                f"the checkpoint {path} belongs to another training ({state['identity']!r}, "
                f"not {self.identity!r}); delete it or name another file"
            )
        old = state["settings"]
        changed = [
            f"{name}={old.get(name)!r}, not {value!r}"
            for name, value in self.settings.items()
            if old.get(name) != value
        ]
        if changed:
            raise ValueError(
                f"the checkpoint {path} was written with {'; '.join(changed)}; "
                "restore the old value or delete it to start again"
            )


def _check_readable(state: Mapping[str, Any]) -> None:
    """Refuse, before anything is trained, a state that could not be read back."""
    content = io.BytesIO()
    torch.save(state, content)
    content.seek(0)
    try:
        torch.load(content, weights_only=True)
    except pickle.UnpicklingError as error:
        lines = (line.strip() for line in str(error).splitlines())
        what = next((line for line in lines if "Unsupported" in line), type(error).__name__)
        raise TypeError(
            "a checkpoint can hold tensors, numbers, strings and containers of them, but the state "
            f"of the stack or of a loss holds something else ({what})"
        ) from error


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a state, followed by the SHA-256 of its bytes.

    Without it, a weight with a flipped bit would go unnoticed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.partial")
    content = io.BytesIO()
    torch.save(state, content)
    try:
        with partial.open("wb") as file:
            file.write(content.getbuffer())
            file.write(hashlib.sha256(content.getbuffer()).digest())
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave the new name without its content
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
