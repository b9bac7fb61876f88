"""Tables of the book and their cells."""

import math
import numbers
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

MISSING = "–"
"""What stands in a cell without a number."""

_LONG_CELL, _SHORT_KEY = 70, 22  # characters

_MINUS = re.compile(
    r"(?<![\w.])-(?=\d)"
)  # the sign of a number in text, but not the hyphen of a word
_NOTHING = re.compile(
    r"(?<![\w.])[+-](?=0(\.0+)?(?![\d.]))"
)  # the sign of a number that is rounded to 0
# Where a tag or a substitution begins; before these, what may hold a bare < and is read whole: an
# escaped character, code between as many backticks, an address, a formula.
_ESCAPED = r"\\[!-/:-@[-`{-~]"
_CODE = r"(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)"
_ADDRESS = r"<https?://[^<>\s]*>"
_KEPT = f"(?P<kept>{_ESCAPED}|{_CODE}|{_ADDRESS})"
_TAG = re.compile(_KEPT + r"|(?P<formula>\$[^$]*\$)|<(?=[A-Za-z/!?])|\{(?=\{)")
_NUMBER = re.compile(r"[+−-]?[\d.,\s]*\d(\s*±.*|\s*\[.*\](\s*points)?|\s*%)?")


@dataclass(frozen=True)
class Table:
    """A table that shows itself in a notebook and in the book.

    Its cells and its caption are MyST text.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    name: str
    caption: str

    def _repr_markdown_(self) -> str:
        """Write a MyST ``table`` directive; numbers stand to the right."""
        marks = [
            "---:" if self._is_numeric(column) else ":---" for column in range(len(self.header))
        ]
        header = [
            text if isinstance(text, Markup) else str(text).replace(" = ", "\u00a0=\u00a0")
            for text in self.header
        ]  # "β = 1" stays in one line
        lines = [header, marks, *self.rows]
        body = "\n".join(
            "| " + " | ".join(_one_line(text) for text in line) + " |" for line in lines
        )
        options = f":name: {self.name}\n:class: {self._classes()}"
        return f":::::{{table}} {_tagless(self.caption)}\n{options}\n\n{body}\n:::::\n"

    def _repr_html_(self) -> str:
        """Write it for Jupyter, which does not understand MyST; the book prefers the Markdown."""
        head = "".join(f"<th>{escape(text)}</th>" for text in self.header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{escape(self.caption)}</caption>"
        rows = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f"<table>{caption}{rows}</table>"

    def _classes(self) -> str:
        """Say how the style sheet treats it on a narrow screen.

        ``wordy`` rows are stacked, ``keyed`` ones keep their first cell in view.
        """
        texts = [text for row in self.rows for text in row if not isinstance(text, Markup)]
        if max(map(len, texts), default=0) > _LONG_CELL:
            return "data-table wordy"
        return (
            "data-table keyed"
            if len(self.header) > 3 and max(len(row[0]) for row in self.rows) <= _SHORT_KEY
            else "data-table"
        )

    def _is_numeric(self, column: int) -> bool:
        texts = [row[column].strip("*") for row in self.rows if row[column] not in ("", MISSING)]
        return bool(texts) and all(_NUMBER.fullmatch(text) for text in texts)


def table(
    frame: pd.DataFrame,
    name: str,
    caption: str,
    *,
    formats: str | Mapping[Hashable, str] = "",
) -> Table:
    """Make a table of the book from a DataFrame.

    Args:
        frame: the cells: texts (MyST) or numbers; two levels of column names get a comma. An index
            with a name is shown as the first columns.
            Without rows the table says that it was not run yet.
        name: label for cross references; it begins with ``tab-``.
        caption: what the table shows and how to read it; one paragraph of MyST.
        formats: the number format of every column, such as ``".2f"``, or of single columns by their
            name.

    Example:
        >>> frame = pd.DataFrame({"β": ["1", "0.1"], "accuracy (%)": [97.1, 97.55]})
        >>> shown = table(frame, "tab-example", "Mean test accuracy.", formats=".2f")
        >>> print(shown._repr_markdown_())
        :::::{table} Mean test accuracy.
        :name: tab-example
        :class: data-table
        <BLANKLINE>
        | β | accuracy (%) |
        | ---: | ---: |
        | 1 | 97.10 |
        | 0.1 | 97.55 |
        :::::
        <BLANKLINE>
    """
    if not re.fullmatch(r"tab-[a-z0-9-]+", name):
        raise ValueError(
            f"a table's name is tab- and then small letters, digits and hyphens; got {name!r}"
        )
    if not caption.strip():
        raise ValueError(f"{name} has no caption; say what the table shows")
    if frame.empty:
        return Table(("",), (("not run yet",),), name, caption.strip())
    if any(level is not None for level in frame.index.names):
        frame = frame.reset_index()
    if not isinstance(formats, str) and (
        unknown := [column for column in formats if column not in frame.columns]
    ):
        raise ValueError(
            f"{name}: no column {unknown[0]!r} to format; the columns are "
            f"{', '.join(map(str, frame.columns))}"
        )
    specs = [
        formats if isinstance(formats, str) else formats.get(column, "") for column in frame.columns
    ]
    rows = tuple(
        tuple(cell(value, spec) for value, spec in zip(row, specs, strict=True))
        for row in frame.itertuples(index=False)
    )
    columns: list[Any] = frame.columns.tolist()
    header = [
        ", ".join(filter(None, map(str, column))) if isinstance(column, tuple) else column
        for column in columns
    ]
    return Table(tuple(header), rows, name, caption.strip())


def cell(value: Any, spec: str = "") -> str:
    r"""Write one value as the text of a cell, with a true minus sign.

    It writes a dash for a value that is not there. Without a number format, floats have up to four
    significant digits and counts a thin space between thousands.

    Example:
        >>> cell(-0.12345, ".2f"), cell(60000), cell(None), cell(0.1)
        ('−0.12', '60\u2009000', '–', '0.1')
    """
    if isinstance(value, str):
        return value
    if (
        value is None
        or value is pd.NA
        or (isinstance(value, numbers.Real) and math.isnan(float(value)))
    ):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral) and not spec:
        return signed(f"{int(value):,}".replace(",", "\u2009"))
    if isinstance(value, numbers.Real):
        return signed(format(float(value), spec or ".4g"))
    return signed(str(value))


def _one_line(text: str) -> str:
    """Write a text that cannot end its cell: without line breaks and bare bars."""
    if isinstance(text, Markup):
        return text
    return re.sub(r"(?<!\\)\|", r"\\|", _tagless(text))


def _tagless(text: str) -> str:
    """Write a text in one line that brings no tag and no template into the page.

    Code, formulas and addresses stay as they are.
    """

    def kept(match: re.Match[str]) -> str:
        if match["kept"]:
            return match["kept"]
        if match["formula"]:  # a < before a letter begins no tag where a space stands between them
            return re.sub(r"<(?=[A-Za-z/!?])", "< ", match["formula"])
        return "&lt;" if match[0] == "<" else "&#123;"

    return _TAG.sub(kept, re.sub(r"\s*\n\s*", " ", text.strip()))


def signed(text: str) -> str:
    """Write a text whose numbers have a true minus sign, and none where they are 0.

    Example:
        >>> signed("-0.04 [-0.30, +0.00]"), signed("-0 of 5-fold")
        ('−0.04 [−0.30, 0.00]', '0 of 5-fold')
    """
    return _MINUS.sub("−", _NOTHING.sub("", text))


# What may have a meaning in Markdown, MyST or HTML: some characters anywhere, more of them at the
# beginning of a line, and those that make a number there the mark of a list.
_OF_A_LIST = "|".join(rf"(?<=^\d{{{digits}}})[.)]" for digits in range(1, 10))
_ACTIVE = re.compile(rf"^[^\w ]|{_OF_A_LIST}|[^\w ,.'()%+/→-]|_")


def verbatim(text: object) -> str:
    """Write a text so that a page shows it letter by letter.

    In Markdown, MyST and HTML some characters mean something. Whatever has a meaning there becomes
    a reference to its character, and the text is one line.

    Example:
        >>> verbatim("β = 1, <b>`x`</b>")
        'β &#61; 1, &#60;b&#62;&#96;x&#96;&#60;/b&#62;'
        >>> verbatim("1. MNIST")
        '1&#46; MNIST'
    """
    line = " ".join("".join(filter(str.isprintable, str(text).replace("\n", " "))).split())
    return _ACTIVE.sub(lambda match: f"&#{ord(match[0])};", line)
