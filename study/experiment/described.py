"""Describe the parameters of an experiment: as the cell of its notebook, and as a table."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study.experiment.base import Experiment

_COLUMNS = 100  # of a line of a notebook
_LISTED = 12  # choices that a comment lists, at most

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
"""The types of JSON as Python calls them."""

_SIGNS = {
    "exclusiveMinimum": ">",
    "minimum": ">=",
    "exclusiveMaximum": "<",
    "maximum": "<=",
    "maxLength": "letters <=",
}
"""The bounds of a JSON schema in words."""


@dataclass(frozen=True)
class Parameter:
    """A parameter as a reader meets it; all but ``choices`` is a column of the book's table."""

    name: str
    type: str
    default: str
    bounds: str
    description: str
    choices: tuple[str, ...] = ()


def parameter_table(kind: type[Experiment]) -> list[dict[str, str]]:
    """Describe each parameter of an experiment in a row.

    Example:
        >>> from study.experiment import Train
        >>> rows = parameter_table(Train)
        >>> [row for row in rows if row["name"] == "betas"]  # doctest: +NORMALIZE_WHITESPACE
        [{'name': 'betas', 'type': 'list[float]',
          'default': '[5.0, 1.0, 0.1, 0.01]', 'bounds': 'each > 0',
          'description': 'constant gradient-decay factors'}]
    """
    return [
        {
            "name": parameter.name,
            "type": parameter.type,
            "default": parameter.default,
            "bounds": parameter.bounds,
            "description": parameter.description,
        }
        for parameter in _parameters(kind)
    ]


def parameter_cell(kind: type[Experiment]) -> str:
    """Write the notebook's parameter cell; what would not fit on a line stands above it."""
    lines = []
    for parameter in _parameters(kind):
        value = f"{parameter.name}: {parameter.type} = {parameter.default}"
        lines += _commented(value, parameter.description + _choices(parameter))
    for name, description in kind.places.items():
        lines += _commented(f'{name}: str = ""', description)
    return "\n".join(lines)


def _choices(parameter: Parameter) -> str:
    """List the choices behind a description, unless they are too many or stand in it."""
    choices = parameter.choices
    if len(choices) > _LISTED or all(name in parameter.description for name in choices):
        return ""
    return f": {', '.join(choices[:-1])} or {choices[-1]}"


def _commented(value: str, comment: str) -> list[str]:
    """Write a comment behind a value, or above it where the line would be too long."""
    line = f"{value}  # {comment}"
    if len(line) <= _COLUMNS:
        return [line]
    return [*(f"# {part}" for part in textwrap.wrap(comment, _COLUMNS - 2)), value]


def _parameters(kind: type[Experiment]) -> list[Parameter]:
    schemas = kind.model_json_schema()["properties"]
    return [_parameter(name, schemas[name]) for name in kind.parameters()]


def _parameter(name: str, schema: Mapping[str, Any]) -> Parameter:
    return Parameter(
        name=name,
        type=_type(schema),
        default=repr(schema["default"]).replace("'", '"'),
        bounds=_bounds(schema),
        description=schema["description"],
        choices=tuple(schema.get("enum", ())),
    )


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of the items of a list; None for another type."""
    prefix: Sequence[Mapping[str, Any]] = schema.get("prefixItems", ())
    return prefix[0] if prefix else schema.get("items")


def _type(schema: Mapping[str, Any]) -> str:
    """Name a type as a parameter cell does."""
    items = _items(schema)
    return _TYPES[schema["type"]] if items is None else f"list[{_type(items)}]"


def _bounds(schema: Mapping[str, Any]) -> str:
    """Say what a value must be, beside its type."""
    if prefix := schema.get("prefixItems"):
        each = [_bounds(item) for item in prefix]
        return each[0] if len(set(each)) == 1 else ", ".join(each)
    if "items" in schema:
        return f"each {_bounds(schema['items'])}"
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    bounds = [f"{sign} {schema[key]:.12g}" for key, sign in _SIGNS.items() if key in schema]
    return " and ".join(bounds) or "True or False"
