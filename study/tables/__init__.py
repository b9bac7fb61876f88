"""From tables of numbers to tables of the book.

These have formatted cells, a caption, a number, and a name to refer to.

A notebook ends a cell with :func:`table`. In the book this is a numbered table, to which any page
refers by its name with the role ``numref``; in Jupyter it is a plain table with its caption above
it. Cells are MyST text: they may hold mathematics, citations, references.
"""

from study.tables.book import (
    MISSING,
    Table,
    bold,
    cell,
    cross,
    difference,
    interval,
    mean_sd,
    overview,
    table,
)
from study.tables.page import Page, closed
from study.tables.prose import Numbers
from study.tables.runs import between, differences, leads

__all__ = [
    "MISSING",
    "Numbers",
    "Page",
    "Table",
    "between",
    "bold",
    "cell",
    "closed",
    "cross",
    "difference",
    "differences",
]
__all__ += ["interval", "leads", "mean_sd", "overview", "table"]
