"""Claims as their files have them: ``claims/<name>.yml`` has everything about one.

A file says what the paper claims and where; for each part a sentence, which runs it is asked of,
and the comparison that is its meaning; which part the verdict follows; and what was found.
``claims/changes.yml`` dates every change of a rule.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from study import ROOT
from study.methods import Method
from study.yaml_files import read_yaml

FOLDER = ROOT / "claims"
"""A file for each claim."""

OWN = "project"
"""The ``paper`` of a claim that is our own."""


@dataclass(frozen=True)
class Want:
    """What the interval of a difference must show.

    It is ``larger`` or ``smaller`` than a bound, ``within`` it of 0, or ``differs`` from 0. The
    last is contradicted if the interval includes 0 and lies within the bound.
    """

    test: Literal["larger", "smaller", "within", "differs"]
    bound: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Want:
        """Read a condition such as ``"> 0"``, ``"< 0.05"`` or ``"within 0.01"``.

        ``"not 0"`` and ``"not 0, else within 0.005"`` are read too.

        Example:
            >>> Want.parse("> -0.005")
            Want(test='larger', bound=-0.005)
        """
        number = r"(-?[0-9.]+)"
        for pattern, test in (
            (f"> {number}", "larger"),
            (f"< {number}", "smaller"),
            (f"within {number}", "within"),
            (f"not 0, else within {number}", "differs"),
        ):
            if match := re.fullmatch(pattern, text):
                return cls(test, float(match[1]))  # type: ignore[arg-type]
        if text == "not 0":
            return cls("differs")
        raise ValueError(f"want: {text!r} is none of > 0, < 0, within 0.01, not 0")


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


OneMethod = Annotated[Method, BeforeValidator(Method.parse)]
"""A number for a constant β, or the label of a warm-up or a loss."""


_TAKEN = ("method", "best of", "smallest", "largest", "minus", "average")
"""The keys of a side that say what is taken."""

_GOES_WITH: Mapping[str, tuple[str, ...]] = {
    "by": ("best of",),
    "over the numbers of": ("average",),
    "times": ("minus",),
    "name": ("method", "minus"),
}
"""Other keys of a side, and beside which of the first they mean something."""


class Side(_Content):
    """One side of a comparison: it has one of the first six keys, which says what is taken."""

    method: OneMethod | None = None
    best_of: Annotated[tuple[OneMethod, ...], Field(alias="best of")] = ()
    smallest: str = ""  # the constant β with the smallest mean of this metric
    largest: Literal["", "beta"] = ""  # the largest constant β that was run
    minus: tuple[OneSide, OneSide] | None = None
    average: str = ""  # of a loss, over the numbers that it and others were run with
    by: str = "test_accuracy"  # the metric by which one is the best of several
    over: Annotated[tuple[str, ...], Field(alias="over the numbers of")] = ()  # of an average
    times: float = 1.0  # a difference
    metric: str = ""  # where it is not that of the comparison
    at: dict[str, Any] = {}  # the runs with these values in their columns
    among: str = ""  # the runs of a named choice
    name: str = ""  # of a method; of a difference with {} for its sides, and {words}

    @model_validator(mode="after")
    def _one_meaning(self) -> Side:
        keys = [
            field.alias or name
            for name, field in type(self).model_fields.items()
            if getattr(self, name) != field.default
        ]
        given = [key for key in keys if key in _TAKEN]
        if len(given) != 1:
            there = " and ".join(given) or "none"
            raise ValueError(f"a side has one of {', '.join(_TAKEN)}; there is {there}")
        for key, others in _GOES_WITH.items():
            if key in keys and given[0] not in others:
                raise ValueError(f"{key} goes with {' or '.join(others)}, not with {given[0]}")
        if self.average and not self.over:
            raise ValueError("average needs over the numbers of")
        return self


def _side(value: Any) -> Any:
    return value if isinstance(value, dict | Side) else {"method": value}


OneSide = Annotated[Side, BeforeValidator(_side)]


class Comparison(_Content):
    """What a part means: a comparison and what it must show, several of them, or a named rule."""

    # a metric, and one or two sides
    compare: Annotated[tuple[Any, ...], Field(min_length=2, max_length=3)] = ()
    want: Annotated[Want | None, BeforeValidator(Want.parse)] = None
    all: tuple[Comparison, ...] = ()
    any: tuple[Comparison, ...] = ()
    provided: tuple[Comparison, ...] = ()  # the second, where the first is met
    rising: tuple[Any, ...] = ()  # a metric, and the methods along which its means rise
    rule: str = ""
    at: dict[str, Any] = {}
    among: str = ""
    words: str = ""  # what the chosen runs are called

    @model_validator(mode="after")
    def _one_meaning(self) -> Comparison:
        ways = ("compare", "all", "any", "provided", "rising", "rule")
        given = [name for name in ways if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(ways)}; there are {given or 'none'}")
        if bool(self.compare) != (self.want is not None):
            raise ValueError("compare needs want, and want needs compare")
        _ = self.sides, self.methods  # an unknown key or method is an error of the file
        return self

    @property
    def metric(self) -> str:
        """The metric that is compared."""
        return str(self.compare[0])

    @functools.cached_property
    def sides(self) -> tuple[Side, ...]:
        """The sides that are compared; a single one is compared with 0."""
        return tuple(Side.model_validate(_side(side)) for side in self.compare[1:])

    @functools.cached_property
    def methods(self) -> tuple[Method, ...]:
        """The methods along which means rise."""
        return tuple(map(Method.parse, self.rising[1:]))


class Part(Comparison):
    """A part of a claim: its sentence, and the runs that its comparison is asked of."""

    sentence: str
    runs: str
    # which runs that decide it were there when it was written: "all ...", or some of them by name;
    # none, if it is not said
    known_then: Annotated[str, Field(alias="known then")] = ""
    shown_only: Annotated[bool, Field(alias="shown only")] = False
    printed: Mapping[str, tuple[str, str]] = {}  # both sides as the paper has them, by its network


class Proof(_Content):
    """The answer to a claim that is decided by proof."""

    verdict: str
    why: str


class Found(_Content):
    """What was found, in words, and the verdict and the outcomes that they were written for.

    ``outcomes`` says in how many variants each part has which outcome.
    """

    verdict: str
    outcomes: Mapping[str, Mapping[str, int]]
    text: str


OlderRuns = Literal["decide", "replaced", "replaced part by part"]
"""Whether reduced runs decide once the small network was run on the same kind of data.

``replaced``: not in any part, if it was run for one; ``replaced part by part``: not in a part that
it was run for.
"""


class Claim(_Content):
    """A claim of a paper, or a question of its reviewers or of ours."""

    claim: str
    paper: str
    where: str
    needs: str = ""
    data: str = ""
    short: str = ""
    page: str = ""  # the label of the page that shows it
    table: str = ""  # the papers' table that it is about, to ask the same of the printed numbers
    proof: Proof | None = None
    runs: tuple[str, ...] = ()  # selections that it rests on, beside those of its parts
    premise: float = 0.0  # the least training accuracy at β = 1 of a variant that decides
    decided_on: Annotated[tuple[str, ...], Field(alias="decided on")] = ()  # data sets, if not all
    older_runs: Annotated[OlderRuns, Field(alias="older runs")] = "decide"
    primary: str = ""  # the part whose findings the verdict's word follows
    parts: Mapping[str, Part] = {}
    found: Found | None = None

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        if self.parts and self.primary not in self.parts:
            raise ValueError(f"primary: {self.primary!r} is none of {', '.join(self.parts)}")
        return self


@functools.cache
def ledger(folder: Path = FOLDER) -> Mapping[str, Claim]:
    """Read every claim of the folder, by its name, in the order of the ledger.

    Example:
        >>> ledger()["E4"].page, list(ledger()["E4"].parts)
        ('sec-e4', ['a', 'b', 'c'])
    """
    paths = [path for path in folder.glob("*.yml") if re.fullmatch(r"[A-Z]\d+", path.stem)]
    return {path.stem: _read(path) for path in sorted(paths, key=_place)}


def changes(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Read every dated change of a rule."""
    return list(read_yaml(folder / "changes.yml"))


_ORDER = "TERBLA"


def _place(path: Path) -> tuple[int, int]:
    return _ORDER.find(path.stem[0]), int(path.stem[1:])


def _read(path: Path) -> Claim:
    try:
        return Claim.model_validate(read_yaml(path))
    except (ValidationError, yaml.YAMLError) as error:
        raise ValueError(f"{path} is not a claim: {error}") from error
