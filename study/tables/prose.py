"""Numbers in prose: one way for pages, findings, answers and README.

A number stands in its sentence as the expression that computes it, in double braces:
``β = 50 differs by {{ small.test_accuracy(50, minus=1) }} points``. The expression is Jinja's. On a
page it sees the variables of the page's cells as they are at its end; in a finding the differences
of its claim, in an answer those of :func:`study.tables.measured.numbers`. :class:`Numbers` asks the
runs of a page. Any other variable is a number too: ``{{ ratio | format(".2f") }}``.

How a page gets them (``book/_ext/prose_numbers.py``): the build adds one cell to the page's end,
which asks for the expressions of its prose (:func:`publish`). So they are a part of the code that
the cache of executions is keyed on. Before Sphinx reads the page, the answers take the places of
the braces, in the book and in the notebooks that it offers. A number that is not there stops the
build with the page and the expression.

House style, :func:`written`: one decimal, a true minus, several numbers as their ends.
"""

from __future__ import annotations

import difflib
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from IPython.display import display
from jinja2 import Environment, StrictUndefined

from study.claims.compare import VariantRuns
from study.metrics import metric as metric_named
from study.records import verbatim
from study.statistics import Interval
from study.tables.book import MISSING, cell, signed
from study.variants import Variant

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
            thin spaces; a float or an interval has one decimal; of several numbers, the ends.
        spec: another number format, such as ``".2f"``.

    Raises:
        Missing: a number is NaN, infinite or not there.

    Example:
        >>> written([1.26, 2.0, -1.0]), written([22.04, 38.0]), written(-0.5), written(60000)
        ('−1.0 to +2.0', '22.0–38.0', '−0.5', '60\u2009000')
        >>> written(Interval(1.0, 0.5, 1.5)), written(0.25, ".2f"), written("words")
        ('+1.0 [+0.5, +1.5]', '0.25', 'words')
    """
    if isinstance(value, Words):
        return value
    if isinstance(value, str):
        if value in ("", MISSING):
            raise Missing("it is empty")
        return value if _PLAIN.fullmatch(value) else verbatim(value)
    if isinstance(value, Means):
        return value.written(spec)
    if isinstance(value, Interval):
        _present([value.estimate, value.low, value.high])
        return signed(format(value, spec or "+.1f"))
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


def holds(condition: str, names: Mapping[str, Any]) -> bool:
    """Tell if an expression without braces is true.

    Example:
        >>> holds("gains | min < 0", {"gains": [-1.0, 2.0]})
        True
    """
    return bool(_JINJA.compile_expression(condition)(**names))


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


# --- the runs of a page ---


@dataclass(frozen=True)
class Means:
    """A metric of a method: its mean in each variant, in the unit in which it is written.

    Attributes:
        by_variant: the means over the seeds, or of the differences seed by seed.
        by_run: the values behind them, each with the one that is subtracted, 0 if none is.
        estimated: computes the interval of the difference by the rule of the verdicts; None for
            fewer than two seeds, and where nothing is subtracted.
        factor: what the interval is multiplied by, such as 100 for points.
    """

    by_variant: Mapping[str, float]
    by_run: tuple[tuple[float, float], ...]
    estimated: Callable[[], Interval | None] = lambda: None
    factor: float = 1.0

    def written(self, spec: str = "") -> str:
        """Write the mean of one variant, or the smallest and the largest of several."""
        values = list(self.by_variant.values())
        _present(values)
        ends = [cell(float(format(end, spec or ".1f")), spec or ".1f") for end in _ends(values)]
        return " to ".join(dict.fromkeys(ends))

    def each(self, spec: str = "") -> Words:
        """Write the value of every run, such as ``0.41, 0.52``."""
        return Words(", ".join(written(own - other, spec) for own, other in self.by_run))

    @property
    def interval(self) -> Interval:
        """The mean difference of one variant with its 95 % interval.

        It is estimated as in verdicts, by the deviation of all runs that :class:`Numbers` has as
        ``whole``. Without these it is that of the selected runs alone, and after ``where(...)``
        these are fewer than a verdict has.
        """
        if len(self.by_variant) != 1:
            raise ValueError(
                "an interval is of one variant; these are "
                f"{', '.join(map(str, self.by_variant))}: say which with where(variant=...)"
            )
        interval = self.estimated()
        if interval is None:
            raise Missing("an interval is of a difference over two seeds or more: name minus=...")
        return interval.times(self.factor)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


class Numbers:
    """The runs of a page, to be asked for a number in a sentence.

    A metric is a method; it takes the method of training, and one to subtract seed by seed. A
    constant β is named by its number, anything else as it stands in the column ``schedule``. The
    answer is the mean over the seeds; where there are several variants, the smallest and the
    largest mean. Shares are in per cent, differences of them in points.

    Args:
        runs: with ``variant``, ``seed``, ``schedule`` and the metrics, as
            :meth:`study.tables.Page.runs` gives them.
        whole: all runs of the variant, where ``runs`` is a part of them, for the intervals.

    Example:
        >>> runs = {"variant": list("abab"), "schedule": list("1155"), "seed": 0}
        >>> small = Numbers(pd.DataFrame(runs | {"test_accuracy": [0.9, 0.8, 0.7, 0.9]}))
        >>> sentence = "{{ small.test_accuracy(1) }}, {{ small.test_accuracy(5, minus=1) }}"
        >>> render(sentence, {"small": small})
        '80.0 to 90.0, −20.0 to 10.0'
        >>> written(small.where(variant="a").test_accuracy(5, minus=1), "+.2f")
        '−20.00'
        >>> small.test_acuracy(1)
        Traceback (most recent call last):
            ...
        study.tables.prose.Missing: no metric 'test_acuracy'; did you mean 'test_accuracy'?
    """

    def __init__(self, runs: pd.DataFrame, whole: pd.DataFrame | None = None) -> None:
        self.runs = runs
        self.whole = whole

    def where(self, **values: Any) -> Numbers:
        """Take the runs that have these values in their columns."""
        kept = self.runs
        for column, value in values.items():
            kept = kept[kept[column] == value]
        return Numbers(kept, self.whole)

    def __getattr__(self, metric: str) -> Callable[..., Means]:
        if metric.startswith("_"):
            raise AttributeError(metric)
        return partial(self.of, metric)

    def of(self, metric: str, method: float | str, *, minus: float | str | None = None) -> Means:
        """Compute the mean of a metric, or of its difference to another method.

        Raises:
            Missing: the runs have no such metric or method, or no value of it.
        """
        runs = self.runs
        if metric not in runs:
            close = difflib.get_close_matches(metric, map(str, runs.columns), 1)
            raise Missing(
                f"no metric {metric!r}" + (f"; did you mean {close[0]!r}?" if close else "")
            )
        sides = [_label(side) for side in (method, minus) if side is not None]
        measured = runs.dropna(subset=[metric])
        there = measured["schedule"].unique()
        for side in sides:
            if side not in there:
                raise Missing(f"no {metric} of {side!r}; there are {', '.join(there) or 'none'}")
        asked = measured[measured["schedule"].isin(sides)]
        each = asked.set_index(["variant", "seed", "schedule"])[metric]
        if each.index.has_duplicates:
            raise Missing(f"several runs of one seed for {metric} of {sides}; select by where(...)")
        wide = metric_named(metric).factor * each.unstack()[sides].dropna()
        own, other = wide[sides[0]], wide[sides[1]] if minus is not None else 0.0 * wide[sides[0]]
        means = (own - other).groupby(level=0).mean()
        factor = metric_named(metric).factor
        by_run = tuple(zip(own, other, strict=True))
        if minus is None:
            return Means(dict(means), by_run, factor=factor)
        part = runs[runs["variant"].isin(means.index)]
        whole = part if self.whole is None else self.whole
        trained = VariantRuns(
            Variant(),
            part.assign(method=part["schedule"]),
            whole=whole.assign(method=whole["schedule"]),
        )
        return Means(dict(means), by_run, partial(trained.interval, metric, *sides), factor)


def _label(method: float | str) -> str:
    """Name a method as the column ``schedule`` does."""
    return method if isinstance(method, str) else f"{method:g}"
