"""Cases of a test in a loop.

One test names the cases that fail, where ``pytest.mark.parametrize`` would make a test of each.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Any], Any]:
    """Call a test, or every test of a class, for each of the values.

    The arguments are those of ``pytest.mark.parametrize``.

    A folder ``tmp_path`` has one within it for each case.
    """
    arguments = (
        tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    )
    rows = [value if len(arguments) > 1 else (value,) for value in values]

    def decorate(test: Any) -> Any:
        if isinstance(test, type):
            for name in [name for name in vars(test) if name.startswith("test_")]:
                setattr(test, name, decorate(vars(test)[name]))
            return test

        @functools.wraps(test)
        def looped(*args: Any, **fixtures: Any) -> None:
            subtests = fixtures["subtests"]
            for number, row in enumerate(rows):
                case = dict(zip(arguments, row, strict=True))
                own = {name: fixtures[name] for name in taken}
                if "tmp_path" in own:
                    own["tmp_path"] = fixtures["tmp_path"] / str(number)
                    own["tmp_path"].mkdir()
                with subtests.test(", ".join(f"{name}={value!r}" for name, value in case.items())):
                    test(*args, **own, **case)

        signature = inspect.signature(test)
        kept = [
            parameter for name, parameter in signature.parameters.items() if name not in arguments
        ]
        taken = [parameter.name for parameter in kept if parameter.name != "self"]
        if "subtests" not in taken:
            kept.append(inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY))
        looped.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return looped

    return decorate
