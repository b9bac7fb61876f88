"""Say in one line what is wrong with a value, and what may have been meant."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError

_SHOWN = 100  # characters of a wrong value


def nearest(name: object, valid: Iterable[str]) -> str:
    """Hint at the name that may have been meant; empty if none is near."""
    names = {one.lower(): one for one in valid}
    near = difflib.get_close_matches(str(name).lower(), list(names), n=1)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def explanation(error: ValidationError, valid: Sequence[str], *, word: str = "parameter") -> str:
    """Say what is wrong with the first wrong value: its name, what it must be, what was given.

    Args:
        error: pydantic's.
        valid: the names that values can have.
        word: what such a name is called.
    """
    first = error.errors(include_url=False)[0]
    name, *position = first["loc"] or ("",)
    message = first["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
    if name and name not in valid:
        hint = nearest(name, valid) or "."
        return f"there is no {word} {name!r}{hint} The valid names are: {', '.join(valid)}"
    if first["type"] == "value_error":
        return f"{name}: {message}" if name else message
    if first["type"] == "missing" and not position:
        return f"the key {name!r} is missing"
    if name:
        where = "".join([str(name), *(f"[{index}]" for index in position)])
    else:
        where = f"expected a mapping with the {word}s {', '.join(valid)}"
    return f"{where}: {message}; got {_shown(first['input'])}{_hint(first, message)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _hint(error: Any, message: str) -> str:
    """Name the choice that is near a wrong one, else the type of what was given."""
    if error["type"] == "literal_error":
        return nearest(error["input"], re.findall("'([^']+)'", message))
    kind = type(error["input"]).__name__
    if error["type"] == "float_type" and kind == "str":
        return f" ({kind}); YAML reads 1e-3 as text: write 0.001 or 1.0e-3"
    return f" ({kind})"
