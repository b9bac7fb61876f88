"""Records: what one job writes, as JSON, and the frame of runs.

A record has the parameters, data version, environment, metrics and curves of its job, which become
rows of the tables of :mod:`study.results`:

- :mod:`study.records.record` writes and reads one,
- :mod:`study.records.form` says what it may hold,
- :mod:`study.records.tables` makes rows of one, and one of rows,
- :mod:`study.records.frame` makes a frame of many, whose columns
  :mod:`study.records.columns` declares,
- :mod:`study.records.provenance` says where and with what something was measured.
"""

from study.records.columns import COLUMNS, Column
from study.records.files import whole, write_whole
from study.records.frame import methods, read, state, to_frame
from study.records.provenance import environment
from study.records.record import (
    NAME,
    REHEARSAL,
    SCALES,
    Record,
    Unfit,
    load,
    probe,
    same,
)
from study.records.text import verbatim

__all__ = [
    "COLUMNS",
    "NAME",
    "REHEARSAL",
    "SCALES",
    "Column",
    "Record",
    "Unfit",
    "environment",
    "load",
    "methods",
    "probe",
    "read",
    "same",
    "state",
    "to_frame",
    "verbatim",
    "whole",
    "write_whole",
]
