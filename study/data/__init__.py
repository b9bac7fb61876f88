"""Data sets by name.

Tensors to train on, to validate on and to test on, and the exact copy they came from.

Three sources, tried in this order and never mixed silently:

1. ``embedded``: scikit-learn's ``digits``, ``iris``, ``wine`` and ``breast_cancer``, which need no
file;
2. ``local``: a folder of Parquet and CSV files (the environment variable ``GDLIB_DATA``, else
``data/`` in the project);
3. ``hub``: Parquet files of the same layout from the public hub, through ``huggingface_hub``.

Image files are decoded once and kept as arrays in the folder ``GDLIB_CACHE`` (else
``~/.cache/gdlib``), under the checksums of the files they came from.
Images are trained on as floats, or as bytes that are made floats batch by batch.

Tables of features come split (:func:`load`) or whole (:func:`table`), for a cross-validation with
:func:`folds`.
"""

from study.data.human_labels import CLEAN, LABELS
from study.data.images import IMAGES
from study.data.loading import load, names
from study.data.sampling import duplicate_groups, folds, with_label_noise
from study.data.sets import NORMALIZATIONS, Dataset, Split, fit_normalizer
from study.data.tables import UCI, Table, table, table_names

__all__ = [
    "CLEAN",
    "IMAGES",
    "LABELS",
    "NORMALIZATIONS",
    "UCI",
    "Dataset",
    "Split",
    "Table",
    "duplicate_groups",
    "fit_normalizer",
    "folds",
    "load",
    "names",
    "table",
    "table_names",
    "with_label_noise",
]
