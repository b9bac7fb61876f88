"""Records: one JSON file for each job, and the frame of all runs.

A record has the parameters, data version, environment, metrics and curves of its job:

- :mod:`study.records.record` writes and reads one,
- :mod:`study.records.form` says what it may hold,
- :mod:`study.records.frame` makes a frame of many, whose columns
  :mod:`study.records.columns` declares,
- :mod:`study.records.provenance` says where and with what something was measured.
"""

from study.records.columns import COLUMNS, Column
from study.records.files import whole, write_whole
from study.records.frame import methods, read, state, to_frame
from study.records.provenance import environment
from study.records.record import (
    FOLDER,
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
    "FOLDER",
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
