"""Numbers in prose: computed by the page, and written in one way.

A number stands in its sentence as the expression that computes it, in double braces:
``accuracy fell by {{ loss | format(".2f") }} points``. The expression is Jinja's; it sees the
variables of the page's cells as they are at its end.

How a page gets them (``book/_ext/prose_numbers.py``): the build adds one cell to the page's end,
which asks for the expressions of its prose (:func:`publish`). So they are a part of the code that
the cache of executions is keyed on. Before Sphinx reads the page, the answers take the places of
the braces, in the book and in the notebooks that it offers. A number that is not there stops the
build with the page and the expression.

House style, :func:`written`: one decimal, a true minus, several numbers as their ends.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from IPython.display import display
from jinja2 import Environment, StrictUndefined

from study.figures.table import MISSING, cell, signed, verbatim

MIME = "application/x.gdlib.numbers-of-prose+json"
"""The type of the output that carries the numbers of a page."""


_PLAIN = re.compile(r"(?:[^\W_]|[ ,.;()%+=±×→−-])+")  # means nothing in MyST
_LARGE = 10_000  # from here on a sentence has a thin space between thousands


class Missing(ValueError):
    """A number of the prose is not there."""


class Words(str):
    """A text as it stands in a sentence, MyST; any other one is shown letter by letter."""


def written(value: Any, spec: str = "") -> str:
    r"""Write a value as it stands in a sentence.

    Args:
        value: a text is shown letter by letter; a whole number of five digits and more gets
            thin spaces; a float has one decimal; of several numbers, the ends.
        spec: another number format, such as ``".2f"``.

    Raises:
        Missing: a number is NaN, infinite or not there.

    Example:
        >>> written([1.26, 2.0, -1.0]), written([22.04, 38.0]), written(-0.5), written(60000)
        ('−1.0 to +2.0', '22.0–38.0', '−0.5', '60\u2009000')
        >>> written(0.25, ".2f"), written("words")
        ('0.25', 'words')
    """
    if isinstance(value, Words):
        return value
    if isinstance(value, str):
        if value in ("", MISSING):
            raise Missing("it is empty")
        return value if _PLAIN.fullmatch(value) else verbatim(value)
    if isinstance(value, (list, tuple, pd.Series)):
        _present(value)
        signs = "+" if min(value) < 0 else ""
        ends = [f"{end:{spec or f'{signs}.1f'}}" for end in (min(value), max(value))]
        return signed((" to " if signs else "–").join(dict.fromkeys(ends)))
    if isinstance(value, numbers.Integral) and not spec:
        return cell(int(value)) if abs(int(value)) >= _LARGE else signed(str(int(value)))
    if isinstance(value, numbers.Real) or hasattr(value, "item"):  # of NumPy or of PyTorch
        _present([float(value)])
        return signed(format(float(value), spec or ".1f"))
    raise Missing(f"{type(value).__name__} is no number; got {value!r}")


def _present(values: Iterable[float]) -> None:
    values = list(values)
    if not values:
        raise Missing("there are no numbers")
    for value in values:
        if value is None or not math.isfinite(value):
            raise Missing(f"the number is {value}")


_JINJA = Environment(undefined=StrictUndefined, finalize=written)


def _formatted(value: Any, spec: str) -> Words:
    """Write a number in a format, as a filter like Python's ``format``."""
    return Words(written(value, spec))


_JINJA.filters["format"] = _formatted


def render(text: str, names: Mapping[str, Any]) -> str:
    """Fill the expressions of a text with what these names stand for.

    Example:
        >>> render("from {{ low }} to {{ high | format('.2f') }} %", {"low": 1.0, "high": 2.0})
        'from 1.0 to 2.00 %'
    """
    return _JINJA.from_string(text).render(names)


def publish(names: Mapping[str, Any], expressions: Sequence[str]) -> None:
    """Compute the expressions of a page, in the cell that the build adds to its end.

    Args:
        names: the variables of the page.
        expressions: without their braces.
    """
    texts, errors = {}, {}
    for expression in expressions:
        try:
            texts[expression] = render(f"{{{{ {expression} }}}}", names)
        except Exception as error:  # every one is shown at once, with its expression
            errors[expression] = f"{type(error).__name__}: {error}"
    display({MIME: {"texts": texts, "errors": errors}}, raw=True)
