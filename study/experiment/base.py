"""What all experiments share: checked values, and the runs that they plan."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from study.experiment.mistakes import explanation

PLACES = {
    "record": "file to write the record to; empty for none",
    "checkpoint_dir": "folder for the checkpoint of a stack, by which an interrupted training goes "
    "on (cross-validation and cost keep none); empty for none",
}
"""The parameters of every notebook that say where something is written, not what is measured."""


class Experiment(BaseModel):
    """The flat values that a notebook's parameters set.

    The error for a wrong one names the parameter, the bound and what was given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    notebook: ClassVar[str]
    """Its name."""
    fixed: ClassVar[frozenset[str]] = frozenset()
    """Fields that the notebook does not offer."""
    places: ClassVar[Mapping[str, str]] = PLACES
    """Its parameters that say where something is written."""

    def __init__(self, /, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(explanation(error, type(self).parameters())) from None

    @classmethod
    def parameters(cls) -> list[str]:
        """Name the notebook's parameters but :data:`PLACES`."""
        return [name for name in cls.model_fields if name not in cls.fixed]

    @classmethod
    def from_parameters(cls, namespace: Mapping[str, Any]) -> Self:
        """Pick the values, by name, out of a notebook's namespace.

        A notebook calls ``Train.from_parameters(globals())``. A list may also come as papermill's
        ``-p`` delivers it from a command line: as text, ``-p betas "[1, 0.1]"``, or, for a list of
        one, as a number or a word, ``-p betas 0.1``.

        Example:
            >>> from study.experiment import Train
            >>> train = Train.from_parameters({"betas": "[1, 0.1]", "seeds": 3, "unrelated": 0})
            >>> train.betas, train.seeds
            ((1.0, 0.1), (3,))
        """
        values = {}
        for name in cls.parameters():
            if name not in namespace:
                continue
            is_list = isinstance(cls.model_fields[name].default, tuple)
            values[name] = _as_list(namespace[name]) if is_list else namespace[name]
        return cls(**values)

    @abstractmethod
    def planned(self) -> list[dict[str, Any]]:
        """List by which values the record knows each of its runs, in its order."""

    @property
    def trainings(self) -> int:
        """Count the networks that are trained."""
        return len(self.planned())

    def identity(self) -> str:
        """Make a short name for these values but ``scale``, which changes no training."""
        values = [self.notebook, self.model_dump(exclude={"scale"})]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _as_list(value: Any) -> Any:
    """Read a list from a text, a number or a word; anything else comes back as it is."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return [value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [value]
    return value
